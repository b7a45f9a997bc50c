//! Where a path really leads, for rules and for the workspace's edge.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use crate::path_text;
use crate::real_path::{locate, locate_entry};

use super::named::GitConfigFiles;

/// Files and directories that other programs execute or obey.
const GUARDED: [&str; 5] = [".git", ".tine", ".claude", ".agents", ".mcp.json"];

/// The directories that decide what a path is to a policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ground<'a> {
    /// The workspace; the working directory first.
    pub(super) roots: &'a [PathBuf],
    /// Our own configuration, wherever it is.
    pub(super) own: &'a [PathBuf],
    /// Files that git's configuration names; `None` if git is not asked.
    pub(super) named: Option<&'a GitConfigFiles>,
}

impl<'a> Ground<'a> {
    /// Returns the working directory.
    pub(super) fn root(self) -> &'a Path {
        let first = self.roots.first();
        first.expect("a policy always has the working directory as its first root")
    }

    /// Returns what `path` is in that programs execute or obey: all such names
    /// on its way, from the workspace on where it is inside.
    pub(super) fn guards(self, path: &Path) -> Vec<Guard<'a>> {
        let place = place(self.root(), path, self.roots);
        let is_inside = place.is_some();
        let place = place.unwrap_or_else(|| resolved(self.root(), path));
        let named = self.named.map_or(Ok(&[][..]), |named| named.files(self.roots));
        let unlisted = (is_inside && named.is_err()).then_some(Guard::Unlisted);
        let holders = [self.own, named.unwrap_or_default()].into_iter();
        let own = holders.filter_map(|holders| holder(self.root(), path, holders).map(Guard::Own));
        guarded_parts(&place).chain(own).chain(unlisted).collect()
    }

    /// Returns the reason to ask about an edit of a guarded place.
    pub(super) fn reason(self, guard: Guard<'_>) -> String {
        let shown = match guard {
            Guard::Part(name) => name.to_owned(),
            Guard::Own(place) => path_text::to_text(place),
            Guard::Unlisted => {
                let listing = self.named.and_then(|named| named.files(self.roots).err());
                return listing.map_or_else(String::new, |listing| listing.reason());
            }
        };
        format!("`{shown}` can make programs run")
    }

    /// Returns the same for a directory entry, whose last link is not followed.
    pub(super) fn guards_of_entry(self, entry: &Path) -> Vec<Guard<'a>> {
        let above = entry.parent().map_or(Vec::new(), |above| self.guards(above));
        let own = entry.file_name().map(Path::new);
        above.into_iter().chain(own.into_iter().flat_map(guarded_parts)).collect()
    }
}

fn guarded_parts<'a>(path: &Path) -> impl Iterator<Item = Guard<'a>> {
    path.components().filter_map(|part| {
        let name = as_elsewhere(&part.as_os_str().to_string_lossy());
        GUARDED.into_iter().find(|guarded| name == *guarded).map(Guard::Part)
    })
}

/// A place that edits need a rule of their own for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard<'a> {
    /// A name that other programs look for.
    Part(&'static str),
    /// A directory or file of our own, or one that git's configuration names.
    Own(&'a Path),
    /// Any file of the workspace, where git cannot list what its configuration names.
    Unlisted,
}

/// Returns the file that a tool opens for `path`, every link followed even
/// where nothing exists; `None` if no tool can open it.
pub(super) fn opened(root: &Path, path: &Path) -> Option<PathBuf> {
    locate(&root.join(path)).ok()
}

/// Returns the directory entry that a path names, which may be a link itself.
pub(super) fn entry(root: &Path, path: &Path) -> PathBuf {
    locate_entry(&root.join(path)).unwrap_or_else(|_| spelt_out(&root.join(path)))
}

/// Returns what a deny rule compares for `path`: the file that a tool opens,
/// or what the path's own words say where no tool can follow it now.
pub(super) fn resolved(root: &Path, path: &Path) -> PathBuf {
    opened(root, path).unwrap_or_else(|| spelt_out(&root.join(path)))
}

/// Returns every name by which a path leads to its file: the path through each link on
/// its way, and last the path behind all links.
pub(super) fn names(root: &Path, path: &Path) -> Vec<PathBuf> {
    let (mut walked, mut rest) = (PathBuf::new(), reversed_parts(&root.join(path)));
    let mut names = Vec::new();
    while walk_on(&mut walked, &mut rest) {
        let Link::To(target) = Link::at(&walked) else { continue };
        // A `..` behind the link leaves the link's target, not the link's directory.
        let is_plain = rest.iter().all(|part| part != "..");
        let below = rest.iter().rev().filter(|part| is_plain && *part != ".");
        names.push(below.fold(walked.clone(), |name, part| name.join(part)));
        if names.len() > LINK_CAP {
            return names;
        }
        walked.pop();
        rest.extend(reversed_parts(&target));
    }
    names.push(walked);
    names
}

/// Moves the next component of a path from `rest` to `walked`, with all `.` and `..` before
/// it. Returns `false` at the end of the path.
fn walk_on(walked: &mut PathBuf, rest: &mut Vec<OsString>) -> bool {
    while let Some(part) = rest.pop() {
        match part.to_str() {
            Some(".") => {}
            Some("..") => {
                walked.pop();
            }
            Some(_) | None => {
                walked.push(part);
                return true;
            }
        }
    }
    false
}

/// Returns the components of a path, the last one first.
fn reversed_parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

/// Returns what a path's own words say, no link followed.
pub(super) fn spelt_out(path: &Path) -> PathBuf {
    let mut walked = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                walked.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => walked.push(part),
        }
    }
    walked
}

/// What everybody may know of a process, by the names of the files.
const OF_PROCESS: [&str; 8] =
    ["cgroup", "comm", "limits", "mountinfo", "mounts", "stat", "statm", "status"];

/// Most links that are followed; the kernel follows as many.
const LINK_CAP: usize = 40;

/// What a path says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// It is a link to this.
    To(PathBuf),
    /// It is none, or there is nothing.
    None,
    /// Nobody can tell.
    Unknown,
}

impl Link {
    /// Reads what is at a path.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => path.read_link().map_or(Self::Unknown, Self::To),
            Ok(_) => Self::None,
            // What is not there may be, where the command runs.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Self::None
            }
            Err(_) => Self::Unknown,
        }
    }
}

/// Tells whether a path may lead elsewhere for another process: it goes through
/// what the kernel shows of a process (its root, its working directory, its open
/// files), or it cannot be followed though it is there. `directory` has no links.
pub(super) fn is_elusive(directory: &Path, path: &Path, link: impl Fn(&Path) -> Link) -> bool {
    let (mut walked, mut rest, mut links) = (directory.to_owned(), reversed_parts(path), 0);
    while walk_on(&mut walked, &mut rest) {
        if is_process(&walked) {
            let is_known = matches!(&rest[..], [name] if OF_PROCESS.iter().any(|it| name == it));
            return !is_known;
        }
        match link(&walked) {
            Link::To(target) => {
                links += 1;
                if links > LINK_CAP {
                    return true;
                }
                walked.pop();
                rest.extend(reversed_parts(&target));
            }
            Link::None => {}
            Link::Unknown => return true,
        }
    }
    false
}

fn is_process(path: &Path) -> bool {
    // Where it is no link, it leads to a process all the same.
    if path == Path::new("/dev/fd") {
        return true;
    }
    let Ok(below) = path.strip_prefix("/proc") else { return false };
    below.to_str().is_some_and(|name| {
        matches!(name, "self" | "thread-self")
            || !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Returns the part of `path` below the root that holds it, or `None` if it is
/// in none of them or cannot be followed.
pub(super) fn place(root: &Path, path: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let path = opened(root, path)?;
    roots.iter().find_map(|root| {
        let root = resolved(root, Path::new("."));
        path.strip_prefix(&root).ok().map(Path::to_owned)
    })
}

/// Returns the one of `holders` that the opened file is or is below.
fn holder<'a>(root: &Path, path: &Path, holders: &'a [PathBuf]) -> Option<&'a Path> {
    let path = resolved(root, path);
    holders.iter().map(PathBuf::as_path).find(|holder| path.starts_with(resolved(root, holder)))
}

/// Returns the name that some file system takes a name for: without regard to
/// case (many), to characters that are not shown (HFS+), to dots and spaces at
/// the end, and to what follows a colon (NTFS). A workspace may be on any.
pub(super) fn as_elsewhere(name: &str) -> String {
    let hidden = |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let name: String = name.chars().filter(|c| !hidden(*c)).collect();
    let name = name.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    let name = name.to_ascii_lowercase();
    // The short name that NTFS gives it.
    if name == "git~1" { ".git".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_followed_before_the_dots_behind_it() {
        let outside = tempfile::tempdir().unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join("link")).unwrap();
        let roots = [inside.path().to_owned()];
        let place_of = |path: &str| place(inside.path(), Path::new(path), &roots);
        assert_eq!(place_of("new/file"), Some(PathBuf::from("new/file")));
        assert_eq!(place_of("link/file"), None);
        assert_eq!(place_of("link/../file"), None);
        assert_eq!(place_of("../file"), None);
    }

    #[test]
    fn what_is_shown_of_a_process_leads_elsewhere_for_each() {
        let place = tempfile::tempdir().unwrap();
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, place.path().join(name)).unwrap();
            place.path().join(name).display().to_string()
        };
        let (proc, fd) = (link("/proc", "proc"), link("/dev/fd", "fd"));
        let (round, file) = (link("round", "round"), link("/proc/meminfo", "memory"));
        for path in [
            "/proc/1/root/etc/shadow",
            "/proc/1/cwd/../x",
            "/proc/self",
            "/proc/self/root",
            "/proc/thread-self/fd/3",
            "/proc/self/task/1/root",
            "/proc/self/status/../root",
            "//proc/./sys/../999999999/root",
            "/dev/fd/..",
            "/dev/stdin",
            "/proc/net/tcp",
            &format!("{proc}/self/root/x"),
            &format!("{fd}/0"),
            &round,
            "proc/self/root",
        ] {
            assert!(is_elusive(place.path(), Path::new(path), Link::at), "{path}");
        }
        for path in [
            "/proc",
            "/proc/cpuinfo",
            "/proc/sys/kernel/osrelease",
            "/proc/self/status",
            "/proc/mounts",
            "/dev/null",
            "/nothing/there/../here",
            "/etc/passwd/below",
            &file,
        ] {
            assert!(!is_elusive(place.path(), Path::new(path), Link::at), "{path}");
        }
    }

    #[test]
    fn each_link_on_the_way_of_a_path_gives_it_a_name() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        for name in ["secrets", "vault/deep"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for (target, name) in [
            ("../vault/a.key", "secrets/a.key"),
            ("../vault", "secrets/all"),
            ("secrets/a.key", "first"),
            ("round", "round"),
        ] {
            std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        }
        for (path, expected) in [
            ("vault/x", &["vault/x"][..]),
            ("secrets/a.key", &["secrets/a.key", "vault/a.key"]),
            ("first", &["first", "secrets/a.key", "vault/a.key"]),
            ("secrets/all/deep/x", &["secrets/all/deep/x", "vault/deep/x"]),
            ("secrets/all/../x", &["secrets/all", "x"]),
            ("new/../secrets/./all/new", &["secrets/all/new", "vault/new"]),
        ] {
            let expected: Vec<PathBuf> = expected.iter().map(|name| root.join(name)).collect();
            assert_eq!(names(&root, Path::new(path)), expected, "{path}");
        }
        assert!(names(&root, Path::new("round")).len() > LINK_CAP);
    }

    #[test]
    fn a_link_to_nothing_leads_where_its_target_would_be() {
        let outside = tempfile::tempdir().unwrap();
        let inside = tempfile::tempdir().unwrap();
        let link = |target: &Path, name: &str| {
            std::os::unix::fs::symlink(target, inside.path().join(name)).unwrap();
        };
        link(&outside.path().join("new"), "out");
        link(Path::new("new"), "in");
        link(Path::new(".git/hooks/x"), "hook");
        link(Path::new("round"), "round");
        let roots = [inside.path().to_owned()];
        let place_of = |path: &str| place(inside.path(), Path::new(path), &roots);
        assert_eq!(place_of("out"), None);
        assert_eq!(place_of("out/below"), None);
        assert_eq!(place_of("in"), Some(PathBuf::from("new")));
        assert_eq!(place_of("hook"), Some(PathBuf::from(".git/hooks/x")));
        assert_eq!(place_of("round"), None);
    }
}
