//! The command line of bubblewrap.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use super::layout::{Layout, View};
use crate::event::NetworkAccess;

/// Where it is looked for. Not on `PATH`, on which a workspace may stand.
const PROGRAMS: [&str; 4] =
    ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

/// The directory for temporary files inside: empty, and gone with the command.
pub(super) const SCRATCH: &str = "/tmp";

/// The descriptors that bubblewrap is handed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handed {
    /// Where it reads the filter of system calls from.
    pub(super) filter: RawFd,
    /// Where it says which process is the first of the namespace.
    pub(super) news: RawFd,
}

/// Returns the program, if it is installed.
pub(super) fn program() -> Option<&'static Path> {
    PROGRAMS.iter().map(Path::new).find(|path| path.is_file())
}

/// Returns its arguments up to the command's own.
pub(super) fn arguments(
    layout: &Layout,
    directory: &Path,
    network: NetworkAccess,
    handed: Handed,
) -> Vec<OsString> {
    let mut arguments = Arguments(Vec::new());
    arguments.add(["--ro-bind", "/", "/", "--dev", "/dev"]);
    // Root owns what is in there, and what is written to it, such as the
    // program that takes a core dump, holds for the whole machine.
    arguments.add(["--proc", "/proc", "--remount-ro", "/proc"]);
    arguments.add(["--tmpfs", SCRATCH, "--perms", "0755", "--tmpfs", "/run"]);
    let is_shared = network == NetworkAccess::Shared;
    if is_shared && let Some(path) = resolver() {
        arguments.mount("--ro-bind-try", &path);
    }
    for (path, view) in &layout.views {
        match view {
            View::Writable => arguments.mount("--bind", path),
            View::ReadOnly if is_read_only_already(path, &layout.views) => {}
            View::ReadOnly => arguments.mount("--ro-bind", path),
            // Not bound, since a mount of its own costs a quarter as much. What
            // is written there in spite of its mode is gone with the command.
            View::Stub => {
                arguments.add(["--perms", "0555", "--tmpfs"]);
                arguments.add([path]);
            }
            View::HiddenDirectory => {
                for how in ["--tmpfs", "--remount-ro"] {
                    arguments.add([OsStr::new(how), path.as_os_str()]);
                }
            }
            View::HiddenFile => {
                arguments.add([OsStr::new("--ro-bind"), OsStr::new("/dev/null"), path.as_os_str()]);
            }
        }
    }
    arguments.add([OsStr::new("--chdir"), directory.as_os_str()]);
    arguments.add(["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    if is_shared {
        arguments.add(["--share-net"]);
    }
    let Handed { filter, news } = handed;
    arguments.add(["--seccomp", &filter.to_string(), "--info-fd", &news.to_string(), "--"]);
    arguments.0
}

/// Tells whether nothing is mounted above a path but the whole file system,
/// which is read-only.
fn is_read_only_already(path: &Path, views: &BTreeMap<PathBuf, View>) -> bool {
    let mut above = path.ancestors().skip(1);
    above
        .all(|above| !views.contains_key(above) && !MOUNTED.iter().any(|it| above == Path::new(it)))
}

/// Where something else than the file system itself is mounted.
pub(super) const MOUNTED: [&str; 4] = ["/dev", "/proc", SCRATCH, "/run"];

/// Returns where names are resolved by, if that is in a directory which a
/// command does not see.
fn resolver() -> Option<PathBuf> {
    let path = Path::new("/etc/resolv.conf").canonicalize().ok()?;
    path.starts_with("/run").then_some(path)
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<T: AsRef<OsStr>>(&mut self, arguments: impl IntoIterator<Item = T>) {
        self.0.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
    }

    /// Mounts a path on itself.
    fn mount(&mut self, how: &str, path: &Path) {
        self.add([OsStr::new(how), path.as_os_str(), path.as_os_str()]);
    }
}
