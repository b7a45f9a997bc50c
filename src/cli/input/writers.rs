//! Finds the processes that may still write to standard input, in `/proc`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Maximum number of ancestor processes.
const ANCESTORS_CAP: usize = 1_000;

/// Standard input as `/proc` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StdinPipe {
    pub(super) writers: StdinWriters,
    /// True if the parent has the same standard input.
    pub(super) is_inherited: bool,
}

/// The processes that may still write to standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StdinWriters {
    /// A process that is not an ancestor: another command of a pipeline.
    Producer,
    /// An ancestor.
    Ancestor,
    /// No visible process: the peer of a socket, or a process outside the container.
    Unseen,
    /// No other process.
    Nobody,
}

/// Finds out who may write to standard input.
pub(super) fn find_writers() -> StdinPipe {
    find_writers_in(Path::new("/proc"), std::process::id())
}

fn find_writers_in(proc: &Path, own: u32) -> StdinPipe {
    let stdin_of = |id: u32| fs::read_link(proc.join(format!("{id}/fd/0"))).ok();
    let ancestors = ancestors(proc, own);
    let Some(stdin) = stdin_of(own) else {
        return StdinPipe { writers: StdinWriters::Unseen, is_inherited: false };
    };
    let is_inherited =
        ancestors.first().and_then(|parent| stdin_of(*parent)) == Some(stdin.clone());
    // Both ends of a socket can be written to, and the peer of one is not visible.
    if stdin.to_string_lossy().starts_with("socket:") {
        return StdinPipe { writers: StdinWriters::Unseen, is_inherited };
    }
    let writers: Vec<u32> = processes(proc).filter(|id| writes(proc, *id, &stdin)).collect();
    StdinPipe { writers: classify(&writers, own, &ancestors), is_inherited }
}

/// Classifies the processes that hold the write end.
fn classify(writers: &[u32], own: u32, ancestors: &[u32]) -> StdinWriters {
    match writers {
        [] => StdinWriters::Unseen,
        [writer] if *writer == own => StdinWriters::Nobody,
        // A shell closes its ends of a pipeline, so this ancestor is not such a shell.
        writers if writers.iter().any(|id| ancestors.contains(id)) => StdinWriters::Ancestor,
        _ => StdinWriters::Producer,
    }
}

fn processes(proc: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns whether a process holds the write end of this pipe.
fn writes(proc: &Path, id: u32, pipe: &Path) -> bool {
    let descriptors = fs::read_dir(proc.join(format!("{id}/fd"))).into_iter().flatten().flatten();
    let mut paths = descriptors.map(|entry| entry.path());
    let may_write = |path: &PathBuf| {
        path.symlink_metadata().is_ok_and(|it| it.permissions().mode() & 0o200 != 0)
    };
    paths.any(|path| fs::read_link(&path).is_ok_and(|it| it == pipe) && may_write(&path))
}

/// Returns the ids of the ancestors, the parent first.
fn ancestors(proc: &Path, own: u32) -> Vec<u32> {
    let parent = |id: &u32| {
        let stat = fs::read_to_string(proc.join(format!("{id}/stat"))).ok()?;
        // The name may contain any character; the last parenthesis ends it.
        let (_, behind) = stat.rsplit_once(") ")?;
        behind.split(' ').nth(1)?.parse().ok().filter(|parent| *parent != 0)
    };
    std::iter::successors(parent(&own), parent).take(ANCESTORS_CAP).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_pipeline_is_told_from_a_pipe_that_was_left_open() {
        // This is 9, which 5 has started, which 1 has.
        for (writers, expected) in [
            (&[8][..], StdinWriters::Producer),
            (&[8, 9], StdinWriters::Producer),
            (&[5], StdinWriters::Ancestor),
            (&[1, 8], StdinWriters::Ancestor),
            (&[], StdinWriters::Unseen),
            (&[9], StdinWriters::Nobody),
        ] {
            assert_eq!(classify(writers, 9, &[5, 1]), expected, "{writers:?}");
        }
    }

    #[test]
    fn processes_are_read_from_what_the_kernel_shows() {
        let proc = tempfile::tempdir().unwrap();
        for (id, parent, stdin) in [(1, 0, "null"), (5, 1, "p"), (9, 5, "p")] {
            let fd = proc.path().join(format!("{id}/fd"));
            fs::create_dir_all(&fd).unwrap();
            symlink(stdin, fd.join("0")).unwrap();
            let stat = format!("{id} (a) b) S {parent} 1 1");
            fs::write(proc.path().join(format!("{id}/stat")), stat).unwrap();
        }
        assert_eq!(ancestors(proc.path(), 9), [5, 1]);
        // Every link of this file system looks as if it could be written to.
        let pipe = |own| {
            let StdinPipe { writers, is_inherited } = find_writers_in(proc.path(), own);
            (writers, is_inherited)
        };
        assert_eq!(pipe(9), (StdinWriters::Ancestor, true));
        assert_eq!(pipe(1), (StdinWriters::Nobody, false));
        assert_eq!(pipe(7), (StdinWriters::Unseen, false));
    }

    #[test]
    fn the_peer_of_a_socket_is_never_visible() {
        let proc = tempfile::tempdir().unwrap();
        for (id, parent, stdin) in
            [(1, 0, "null"), (5, 1, "socket:[7]"), (9, 5, "socket:[7]"), (8, 1, "socket:[6]")]
        {
            let fd = proc.path().join(format!("{id}/fd"));
            fs::create_dir_all(&fd).unwrap();
            symlink(stdin, fd.join("0")).unwrap();
            fs::write(proc.path().join(format!("{id}/stat")), format!("{id} (a) S {parent} 1"))
                .unwrap();
        }
        for (own, is_inherited) in [(9, true), (8, false)] {
            let expected = StdinPipe { writers: StdinWriters::Unseen, is_inherited };
            assert_eq!(find_writers_in(proc.path(), own), expected, "{own}");
        }
    }
}
