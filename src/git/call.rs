//! One call of git that runs nothing a repository names.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::GitError;

/// Most bytes one call may print. A change of 8 MiB is far beyond what can be
/// reviewed, and the whole of it is held in memory.
pub const OUTPUT_CAP: usize = 8 * 1024 * 1024;

/// How the complaint about more than that begins.
const TOO_MUCH: &str = "it printed more than";

/// Longest time of one call. A large repository on a slow disk takes seconds;
/// what takes longer waits for something that never comes.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Most bytes kept of what git says about an error.
const MESSAGE_CAP: u64 = 4_000;

/// Most settings that are turned off for filter drivers. They travel in the
/// environment, which the kernel bounds; nobody has this many drivers.
const FILTERS_CAP: usize = 400;

/// Settings that name programs, and what turns each off.
pub(crate) const HARDENED: [(&str, &str); 10] = [
    ("core.fsmonitor", ""),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    // Not a program: names beyond ASCII stay readable.
    ("core.quotePath", "false"),
];

/// Variables that point git elsewhere or name programs. Whoever called us may
/// be a hook of another repository.
const REMOVED: [&str; 18] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EXTERNAL_DIFF",
    "GIT_DIFF_OPTS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_PROXY_COMMAND",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
];

/// Runs git in `root` and returns what it printed.
///
/// No program that a configuration file names is run: neither the
/// repository's, nor the user's. The call takes no lock, asks for no password
/// and reaches no network.
///
/// # Errors
///
/// [`GitError::GitMissing`] without git; [`GitError::Failed`] with git's words
/// if it ends badly or prints more than [`OUTPUT_CAP`] bytes.
pub fn git(root: &Path, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
    let listed = run(root, &["config", "--list", "--name-only", "-z"], &[])?;
    let filters = filter_settings(&listed);
    if filters.len() > FILTERS_CAP {
        return failed(format!("the configuration has over {FILTERS_CAP} filter settings"));
    }
    run(root, arguments, &filters)
}

/// Returns the names of the filter drivers that the configuration in `root`
/// knows of, for calls of git that are not made here.
///
/// # Errors
///
/// As for [`git`]; and a name that is not UTF-8.
pub(crate) fn filter_drivers(root: &Path) -> Result<Vec<String>, GitError> {
    let listed = run(root, &["config", "--list", "--name-only", "-z"], &[])?;
    let names = drivers(&listed).into_iter().map(|name| String::from_utf8(name.to_owned()));
    names.collect::<Result<_, _>>().or_else(|error| failed(error.to_string()))
}

/// Tells whether a call failed because it printed more than [`OUTPUT_CAP`].
pub(super) fn is_too_much(error: &GitError) -> bool {
    matches!(error, GitError::Failed { message } if message.starts_with(TOO_MUCH))
}

/// A path from git's bytes.
pub(super) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// The settings of every filter driver in the listed names, each with the
/// value that turns it off.
fn filter_settings(listed: &[u8]) -> Vec<(OsString, &'static str)> {
    let off = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];
    drivers(listed)
        .into_iter()
        .flat_map(|driver| off.map(|(key, value)| (driver, key, value)))
        .map(|(driver, key, value)| {
            let name = [b"filter.", driver, b".", key.as_bytes()].concat();
            (OsString::from_vec(name), value)
        })
        .collect()
}

/// The filter drivers in the listed names.
fn drivers(listed: &[u8]) -> BTreeSet<&[u8]> {
    listed
        .split(|&byte| byte == 0)
        .filter_map(|name| {
            let driver = name.strip_prefix(b"filter.")?;
            let dot = driver.iter().rposition(|&byte| byte == b'.')?;
            Some(&driver[..dot])
        })
        .collect()
}

fn run(
    root: &Path,
    arguments: &[&str],
    filters: &[(OsString, &'static str)],
) -> Result<Vec<u8>, GitError> {
    let mut command = Command::new("git");
    command.arg("--no-pager").args(arguments).current_dir(root);
    for name in REMOVED {
        command.env_remove(name);
    }
    command
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        // A partial clone would fetch what it misses, with the repository's
        // own idea of how.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        // The errors are told apart by their words.
        .env("LC_ALL", "C");
    // As variables, not as `-c`: there a driver's name that holds a `=` would
    // end the setting's name early and stay in force.
    let hardened = HARDENED.iter().map(|&(name, value)| (OsStr::new(name), value));
    let filters = filters.iter().map(|(name, value)| (name.as_os_str(), *value));
    let mut count = 0;
    for (name, value) in hardened.chain(filters) {
        command.env(format!("GIT_CONFIG_KEY_{count}"), name);
        command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    command.env("GIT_CONFIG_COUNT", count.to_string());
    output(root, command, TIME_LIMIT)
}

/// Runs a command to its end with its output and its time bounded.
fn output(root: &Path, mut command: Command, limit: Duration) -> Result<Vec<u8>, GitError> {
    let started = command
        // A group of its own, so that its end is the end of all it started:
        // one of those would keep the pipes open.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        // A missing directory gives the same error as a missing program.
        Err(error) if error.kind() == io::ErrorKind::NotFound && root.is_dir() => {
            return Err(GitError::GitMissing);
        }
        Err(error) => return failed(format!("cannot run it in {}: {error}", root.display())),
    };
    let group = Pid::from_raw(child.id().try_into().expect("a process id fits"));
    let (ended, is_ended) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        let is_late = is_ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        if is_late {
            // It may have ended by itself since.
            let _ = killpg(group, Signal::SIGKILL);
        }
        is_late
    });
    let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
    let stderr = child.stderr.take().expect("stderr was asked to be a pipe");
    // A full error pipe would stop git while we wait for its output.
    let complaint = thread::spawn(move || read_bounded(stderr, MESSAGE_CAP, true));
    let printed = read_bounded(stdout, OUTPUT_CAP as u64 + 1, false);
    let too_much = printed.as_ref().is_ok_and(|bytes| bytes.len() > OUTPUT_CAP);
    if too_much || printed.is_err() {
        // As above.
        let _ = killpg(group, Signal::SIGKILL);
    }
    // Its id is free for another process only once it is waited for, so the
    // watch ends first.
    while waitid(Id::Pid(group), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {
    }
    drop(ended);
    let is_late = watch.join().unwrap_or_default();
    let status = child.wait();
    let complaint = complaint.join().ok().and_then(Result::ok).unwrap_or_default();
    if is_late {
        return failed(format!("it did not end within {} s", limit.as_secs_f32()));
    }
    if too_much {
        let limit = OUTPUT_CAP / 1024 / 1024;
        return failed(format!("{TOO_MUCH} {limit} MiB; ask for a smaller change"));
    }
    match (printed, status) {
        (Ok(printed), Ok(status)) if status.success() => Ok(printed),
        (Err(error), _) | (_, Err(error)) => failed(error.to_string()),
        (Ok(_), Ok(status)) => {
            let said = String::from_utf8_lossy(&complaint);
            let said = said.lines().find(|line| !line.starts_with("warning:")).unwrap_or_default();
            let said =
                said.strip_prefix("fatal: ").or(said.strip_prefix("error: ")).unwrap_or(said);
            failed(if said.is_empty() {
                format!("it ended with {status}")
            } else {
                said.to_owned()
            })
        }
    }
}

/// Reads up to `cap` bytes; `drain` reads on to the end and drops the rest.
fn read_bounded(mut from: impl Read, cap: u64, drain: bool) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.by_ref().take(cap).read_to_end(&mut bytes)?;
    if drain {
        io::copy(&mut from, &mut io::sink())?;
    }
    Ok(bytes)
}

fn failed<T>(message: String) -> Result<T, GitError> {
    Err(GitError::Failed { message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_is_ended_with_all_it_started() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & wait"]);
        let error = output(Path::new("/"), command, Duration::from_millis(20)).unwrap_err();
        assert!(error.to_string().contains("it did not end within 0.02 s"), "{error}");
    }
}
