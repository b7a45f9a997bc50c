//! A Landlock ruleset: what a command may read and write by path.
//!
//! Landlock only adds: a right on a directory holds for everything below it. So
//! what is hidden is left out by naming everything beside it, and what is
//! protected inside a writable root cannot be left out at all.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope,
};

use super::layout::{Layout, View};

/// The first version that can keep a file from being cut to nothing.
pub(super) const LEAST_VERSION: i64 = 3;

/// What must be held, on every kernel that is taken.
const MUST: ABI = ABI::V3;

/// What is held as well where the kernel can: devices' own calls, ports,
/// signals and abstract sockets.
const CAN: ABI = ABI::V9;

/// The devices that a command may use. Of the others some are the disks below
/// all files.
const DEVICES: [&str; 7] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    // What descriptors are called here leads to /proc.
    "/dev/fd",
];

/// Makes the ruleset of a command.
///
/// # Errors
///
/// The kernel has no Landlock, or an old one.
pub(super) fn make(layout: &Layout, scratch: &Path, network: bool) -> io::Result<OwnedFd> {
    let all = AccessFs::from_all(CAN);
    let read = AccessFs::from_read(CAN);
    let made = || -> Result<Option<OwnedFd>, RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(MUST))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .scope(Scope::from_all(CAN))?;
        if !network {
            ruleset = ruleset.handle_access(AccessNet::from_all(CAN))?;
        }
        let mut ruleset = ruleset.create()?;
        let hidden: Vec<PathBuf> =
            layout.hidden().map(Path::to_owned).chain([PathBuf::from("/dev")]).collect();
        // Names may be listed everywhere; a list cannot be given without those
        // below it.
        let mut rules = vec![(PathBuf::from("/"), AccessFs::ReadDir.into())];
        let mut open = |path: &Path, access| {
            rules.extend(but(path, &hidden).into_iter().map(|path| (path, access)));
        };
        open(Path::new("/"), read);
        for (path, view) in &layout.views {
            match view {
                View::Writable => open(path, all),
                // It may be inside something that is hidden.
                View::ReadOnly => open(path, read),
                View::HiddenDirectory | View::HiddenFile | View::Stub => {}
            }
        }
        rules.extend(DEVICES.map(|path| (path.into(), all)));
        rules.push((scratch.to_owned(), all));
        for (path, access) in rules {
            if let Some(rule) = rule(&path, access) {
                ruleset = ruleset.add_rule(rule)?;
            }
        }
        Ok(ruleset.into())
    };
    made().map_err(io::Error::other)?.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// `None` for a path that has gone, or that we may not open ourselves.
fn rule(path: &Path, access: BitFlags<AccessFs>) -> Option<PathBeneath<PathFd>> {
    // Rights that only directories have are left out for files, like those that
    // the kernel does not know: the ruleset makes the best of a rule by now.
    Some(PathBeneath::new(PathFd::new(path).ok()?, access))
}

/// Returns a path, or everything in it that is not hidden if something is.
///
/// Nothing can be created in the directories on the way. A right to create files there would
/// let a command link the hidden file to a new name, which the next command's ruleset allows.
/// To create a file, a command also needs the right to write, which would cover the hidden file.
fn but(path: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        return vec![path.to_owned()];
    }
    let mut found = Vec::new();
    beside(path, hidden, &mut found);
    found
}

/// Collects everything below `directory` that is not hidden, by the shortest
/// paths. Links are left out: where they lead is named by its own path.
fn beside(directory: &Path, hidden: &[PathBuf], found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if hidden.contains(&path) || entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            continue;
        }
        if hidden.iter().any(|hidden| hidden.starts_with(&path)) {
            beside(&path, hidden, found);
        } else {
            found.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_beside_what_is_hidden_is_named_by_the_shortest_path() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        for path in ["a/b/c", "a/d", "e/f"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        std::os::unix::fs::symlink("a/b", root.join("link")).unwrap();
        let mut found = but(root, &[root.join("a/b")]);
        found.sort();
        assert_eq!(found, ["a/d", "e"].map(|path| root.join(path)));
        assert_eq!(but(&root.join("e"), &[root.join("a/b")]), [root.join("e")]);
        // Inside something hidden one may still be at home.
        assert_eq!(but(&root.join("a/b/c"), &[root.join("a/b")]), [root.join("a/b/c")]);
    }
}
