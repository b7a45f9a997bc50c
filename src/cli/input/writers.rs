//! Finds the processes that may still write to standard input, in `/proc`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Maximum number of ancestor processes.
const ANCESTORS_CAP: usize = 1_000;

/// The processes that may still write to standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StdinWriters {
    /// A process that is not an ancestor: another command of a pipeline.
    Producer,
    /// An ancestor, or a process that is not visible.
    Starter {
        /// True if the parent has the same standard input.
        is_inherited: bool,
    },
    /// No other process.
    Nobody,
}

/// Finds out who may write to standard input.
pub(super) fn find_writers() -> StdinWriters {
    find_writers_in(Path::new("/proc"), std::process::id())
}

fn find_writers_in(proc: &Path, own: u32) -> StdinWriters {
    let stdin_of = |id: u32| fs::read_link(proc.join(format!("{id}/fd/0"))).ok();
    let ancestors = ancestors(proc, own);
    let Some(stdin) = stdin_of(own) else { return StdinWriters::Starter { is_inherited: false } };
    let is_inherited =
        ancestors.first().and_then(|parent| stdin_of(*parent)) == Some(stdin.clone());
    // The peer of a socket is not visible.
    if stdin.to_string_lossy().starts_with("socket:") {
        return StdinWriters::Starter { is_inherited };
    }
    let writers: Vec<u32> = processes(proc).filter(|id| writes(proc, *id, &stdin)).collect();
    classify(&writers, own, &ancestors, is_inherited)
}

/// Classifies the processes that hold the write end.
fn classify(writers: &[u32], own: u32, ancestors: &[u32], is_inherited: bool) -> StdinWriters {
    match writers {
        [] => StdinWriters::Starter { is_inherited },
        [writer] if *writer == own => StdinWriters::Nobody,
        // A shell closes its ends of a pipeline, so this ancestor is not such a shell.
        writers if writers.iter().any(|id| ancestors.contains(id)) => {
            StdinWriters::Starter { is_inherited }
        }
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
            (&[5], StdinWriters::Starter { is_inherited: false }),
            (&[1, 8], StdinWriters::Starter { is_inherited: false }),
            (&[], StdinWriters::Starter { is_inherited: false }),
            (&[9], StdinWriters::Nobody),
        ] {
            assert_eq!(classify(writers, 9, &[5, 1], false), expected, "{writers:?}");
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
        assert_eq!(find_writers_in(proc.path(), 9), StdinWriters::Starter { is_inherited: true });
        assert_eq!(find_writers_in(proc.path(), 1), StdinWriters::Nobody);
        assert_eq!(find_writers_in(proc.path(), 7), StdinWriters::Starter { is_inherited: false });
    }
}
