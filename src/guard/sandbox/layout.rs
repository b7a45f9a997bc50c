//! What a confined command sees of the file system, whatever holds it there.
//!
//! Everything is there to read but what is hidden; the roots are there to write
//! but for what would run, or be obeyed, outside: git's hooks and
//! configuration, and what tools like this one read. This is found anew for
//! every command, since the last one may have moved things.

mod repository;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::event::Access;
use crate::git::KnownVersions;

use super::{CommandBounds, Place, Settings, secrets};

/// How a path is seen, and all below it that no longer path says otherwise of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Writable,
    ReadOnly,
    HiddenDirectory,
    HiddenFile,
    /// An empty directory, which stands in for what is not there.
    Stub,
}

/// What must stand in the place of something that is not there, so that the
/// command cannot make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stub {
    /// An empty directory: git shows and adds none, whatever it is called.
    Directory,
    /// An empty file, where git would not take a directory.
    File,
    /// Nothing can: git takes even an empty file for an order. It is looked for
    /// afterwards.
    None,
}

/// A path inside a root that must stay as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Protected {
    /// The root that it is protected for.
    pub(super) root: PathBuf,
    pub(super) path: PathBuf,
    pub(super) stub: Stub,
}

/// All of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// In the order of the paths, so that a directory comes before what is in
    /// it, and the last word on a path is the longest.
    pub(super) views: BTreeMap<PathBuf, View>,
    /// What must stay as it is, there or not.
    pub(super) protected: Vec<Protected>,
    /// Roots that may be written, where no command may create what other programs run later.
    pub(super) roots: Vec<PathBuf>,
    /// What it may create there all the same.
    pub(super) versions: Option<KnownVersions>,
    /// What rules deny to read. It is hidden last, wherever it is.
    denied: Vec<PathBuf>,
}

/// What tools like this one read in a directory: skills, agents, hooks,
/// servers to start.
const OF_TOOLS: [&str; 4] = [".tine", ".claude", ".agents", ".mcp.json"];

/// What must stay as it is in a repository's own directory.
const OF_GIT: [(&str, Stub); 5] = [
    ("hooks", Stub::Directory),
    // Names programs: pagers, filters, monitors.
    ("config", Stub::File),
    // Other repositories' own directories, with hooks and configuration.
    ("modules", Stub::Directory),
    ("worktrees", Stub::Directory),
    // Names another directory to take all of the above from.
    ("commondir", Stub::None),
];

/// The setting that has git read `config.worktree`.
const OF_WORKTREES: &[u8] = b"worktreeConfig";

impl Layout {
    pub(super) fn new(access: Access, place: &Place<'_>, settings: &Settings) -> Self {
        let CommandBounds { hidden, unmovable, kept, versions } = place.bounds;
        let (denied, versions) = (hidden.clone(), versions.clone());
        let mut layout = Self { denied, versions, ..Self::default() };
        let home = settings.home.as_deref().and_then(|home| home.canonicalize().ok());
        // Hidden first: who works in such a directory has chosen to.
        let hidden = home.iter().flat_map(|home| secrets::below(home));
        for path in hidden.chain(settings.own_files.iter().cloned()) {
            layout.hide(&path);
        }
        let roots = place.roots.iter().filter_map(|root| root.canonicalize().ok());
        let roots: Vec<PathBuf> = roots.filter(|root| root.is_dir()).collect();
        let added = settings.write.iter().filter_map(|path| path.canonicalize().ok());
        match access {
            Access::ReadOnly | Access::Off => {
                layout.views.extend(roots.iter().map(|root| (root.clone(), View::ReadOnly)));
            }
            Access::WorkspaceWrite => {
                let is_bounded = |path: &PathBuf| !is_too_wide(path, home.as_deref());
                layout.views.extend(added.filter(is_bounded).map(|path| (path, View::Writable)));
                for root in &roots {
                    if is_bounded(root) {
                        layout.open(root);
                        layout.keep(root, kept);
                        layout.roots.push(root.clone());
                    } else {
                        layout.views.insert(root.clone(), View::ReadOnly);
                    }
                }
            }
        }
        roots.iter().for_each(|root| layout.show_repository(root, home.as_deref()));
        unmovable.iter().for_each(|path| layout.pin_directories(path));
        layout.close_protected();
        layout.views.remove(Path::new("/"));
        layout
    }

    /// Returns what the command may write.
    pub(super) fn writable(&self) -> impl Iterator<Item = &Path> {
        self.with(|view| view == View::Writable)
    }

    /// Returns what the command must not see.
    pub(super) fn hidden(&self) -> impl Iterator<Item = &Path> {
        self.with(|view| matches!(view, View::HiddenDirectory | View::HiddenFile))
    }

    fn with(&self, fits: impl Fn(View) -> bool) -> impl Iterator<Item = &Path> {
        self.views.iter().filter(move |(_, view)| fits(**view)).map(|(path, _)| path.as_path())
    }

    fn hide(&mut self, path: &Path) {
        // Where the link leads is what has to go; what is not there cannot be
        // made either, since its directory is not writable.
        // Most are not there, which is soonest known so.
        if path.symlink_metadata().is_err() {
            return;
        }
        let Ok(path) = path.canonicalize() else { return };
        let view = if path.is_dir() { View::HiddenDirectory } else { View::HiddenFile };
        self.views.insert(path, view);
    }

    fn open(&mut self, root: &Path) {
        self.views.insert(root.to_owned(), View::Writable);
        for name in OF_TOOLS {
            self.protect(root, root.join(name), Stub::Directory);
        }
        let git = root.join(".git");
        match git.symlink_metadata() {
            // An empty directory is no repository: it may be the stub of another process, which
            // removes it at any moment.
            Ok(found) if found.is_dir() && !is_empty(&git) => self.open_repository(root, &git),
            Ok(found) if found.is_file() => self.open_worktree(root, &git),
            Ok(found) if found.is_symlink() => {
                if let Ok(target) = git.canonicalize() {
                    self.protect_repository(root, &target);
                }
                self.protect(root, git, Stub::None);
            }
            // Where none is, a command could make one that others run.
            Ok(_) | Err(_) => self.protect(root, git, Stub::Directory),
        }
    }

    fn open_repository(&mut self, root: &Path, git: &Path) {
        // A place of its own, so that it cannot be moved away and another one
        // put there.
        self.views.insert(git.to_owned(), View::Writable);
        self.protect_repository(root, git);
    }

    fn protect_repository(&mut self, root: &Path, git: &Path) {
        for (name, stub) in OF_GIT {
            self.protect(root, git.join(name), stub);
        }
        self.protect_more_configuration(root, git, git);
    }

    /// Protects what a repository's configuration may say more is read from. If
    /// it does not, git never looks, and what stands in for it may be a
    /// directory, which costs less to mount.
    fn protect_more_configuration(&mut self, root: &Path, own: &Path, common: &Path) {
        let configuration = fs::read(common.join("config")).unwrap_or_default();
        let is_read = configuration
            .windows(OF_WORKTREES.len())
            .any(|part| part.eq_ignore_ascii_case(OF_WORKTREES));
        let stub = if is_read { Stub::File } else { Stub::Directory };
        self.protect(root, own.join("config.worktree"), stub);
    }

    /// Opens of a linked worktree's repository what a commit needs: the
    /// worktree's own part, objects, branches and their logs.
    fn open_worktree(&mut self, root: &Path, git: &Path) {
        self.protect(root, git.to_owned(), Stub::None);
        let Some((own, common)) = linked(root, git) else { return };
        for name in ["objects", "refs", "logs"] {
            let path = common.join(name);
            if path.is_dir() {
                self.views.insert(path, View::Writable);
            }
        }
        for name in ["commondir", "gitdir"] {
            self.protect(root, own.join(name), Stub::None);
        }
        self.protect_more_configuration(root, &own, &common);
        self.views.insert(own, View::Writable);
    }

    fn protect(&mut self, root: &Path, path: PathBuf, stub: Stub) {
        self.protected.push(Protected { root: root.to_owned(), path, stub });
    }

    /// Protects more of a root. What is not there is looked for afterwards: it may be a
    /// file or a directory.
    fn keep(&mut self, root: &Path, kept: &[PathBuf]) {
        let mut kept: Vec<&PathBuf> = kept.iter().collect();
        // What is inside another one comes behind it, and is protected with it.
        kept.sort();
        for path in kept.into_iter().filter(|path| path.starts_with(root) && *path != root) {
            if self.protected.iter().any(|known| path.starts_with(&known.path)) {
                continue;
            }
            // Places of their own, so that none can be moved away and another one put
            // there with a file of that name in it.
            let above = path.ancestors().skip(1).take_while(|above| *above != root);
            let is_directory = |at: &&Path| at.symlink_metadata().is_ok_and(|it| it.is_dir());
            for directory in above.filter(is_directory) {
                self.views.entry(directory.to_owned()).or_insert(View::Writable);
            }
            self.protect(root, path.clone(), Stub::None);
        }
    }

    /// Has stubs stand in for what is not there.
    pub(super) fn mask<'a>(&mut self, stubs: impl Iterator<Item = &'a Path>) {
        self.views.extend(stubs.map(|path| (path.to_owned(), View::Stub)));
    }

    /// Makes what is protected read-only. A link cannot be: what it leads to
    /// is, and the link itself is looked at afterwards.
    pub(super) fn close_protected(&mut self) {
        for Protected { path, .. } in &self.protected {
            // The directory that it is in was resolved.
            let Ok(found) = path.symlink_metadata() else { continue };
            let target = match found.is_symlink() {
                false => path.clone(),
                true => match path.canonicalize() {
                    Ok(target) => target,
                    Err(_) => continue,
                },
            };
            let is_inside = |(root, view): (&PathBuf, &View)| {
                *view == View::Writable && target.starts_with(root) && target != *root
            };
            if self.views.iter().any(is_inside) && !self.views.contains_key(&target) {
                self.views.insert(target, View::ReadOnly);
            }
        }
        self.hide_denied();
    }

    /// Mounts each directory above a path in a writable directory separately, so that a
    /// command cannot move the path by moving one of them.
    fn pin_directories(&mut self, path: &Path) {
        let above = path.ancestors().skip(1).take_while(|above| !self.views.contains_key(*above));
        let above: Vec<PathBuf> = above.map(Path::to_owned).collect();
        let view = path.ancestors().skip(1).find_map(|above| self.views.get(above).copied());
        if view == Some(View::Writable) {
            self.views.extend(above.into_iter().map(|directory| (directory, View::Writable)));
        }
    }

    /// Hides what rules deny to read, with all that is in it.
    fn hide_denied(&mut self) {
        for path in std::mem::take(&mut self.denied) {
            self.views.retain(|below, _| *below == path || !below.starts_with(&path));
            let around = path.ancestors().skip(1).find_map(|above| self.views.get(above));
            // Nothing can be mounted in there, and nothing need be.
            if around != Some(&View::HiddenDirectory) {
                self.hide(&path);
            }
            self.denied.push(path);
        }
    }
}

/// A root with everything of a user in it, which no table of what is dangerous
/// there could make safe to write.
fn is_too_wide(root: &Path, home: Option<&Path>) -> bool {
    root.parent().is_none() || home.is_some_and(|home| home.starts_with(root))
}

/// Returns a linked worktree's own directory and the one it shares, if the
/// repository knows of the worktree. What the worktree itself says could lead
/// anywhere.
fn linked(root: &Path, git: &Path) -> Option<(PathBuf, PathBuf)> {
    let line = |path: &Path| fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned());
    let own = root.join(line(git)?.strip_prefix("gitdir: ")?).canonicalize().ok()?;
    let common = own.join(line(&own.join("commondir"))?).canonicalize().ok()?;
    let back = own.join(line(&own.join("gitdir"))?).canonicalize().ok()?;
    let is_known = back == *git && own.parent()? == common.join("worktrees");
    is_known.then_some((own, common))
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests;
