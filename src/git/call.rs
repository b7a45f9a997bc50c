//! One call of git that runs nothing a repository names.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Seek as _, Write};
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
use super::complaint;
use super::hardened::{self, Setting};
use super::program::Program;
use crate::reaper;

/// Most bytes one call may print. A change of 8 MiB is far beyond what can be
/// reviewed, and the whole of it is held in memory.
pub const OUTPUT_CAP: usize = 8 * 1024 * 1024;

/// How the complaint about more than that begins.
const TOO_MUCH: &str = "it printed more than";

/// Longest time of one call. A large repository on a slow disk takes seconds;
/// what takes longer waits for something that never comes.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Longest time of a call that reads or writes a whole working tree.
const TREE_LIMIT: Duration = Duration::from_secs(600);

/// Time within which nearly every call ends.
const SHORT: Duration = Duration::from_millis(100);

/// Most bytes kept of what git says about an error.
const MESSAGE_CAP: u64 = 4_000;

/// Git in one directory, with everything turned off that a configuration may
/// have it run.
///
/// No program that a configuration file names is run: neither the
/// repository's, nor the user's. A call asks for no password and reaches no
/// network.
#[derive(Debug, Clone)]
pub struct Git {
    program: Program,
    directory: PathBuf,
    variables: Vec<(&'static str, OsString)>,
    drivers: Vec<Setting>,
    limit: Duration,
}

/// What a call printed, and how it ended.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) printed: Vec<u8>,
    /// `None` if a signal ended it.
    pub(super) code: Option<i32>,
    complaint: Vec<u8>,
    /// Whether it was ended because it printed more than it may.
    is_cut: bool,
}

impl Git {
    /// Git in `directory`, in the repository around it.
    ///
    /// # Errors
    ///
    /// As for [`Program::command`], and whatever git says of a configuration
    /// that it cannot read.
    pub fn at(program: &Program, directory: &Path) -> Result<Self, GitError> {
        Self::with(program, directory, Vec::new())
    }

    /// Git with these files for a working tree and its repository, whatever
    /// stands in the tree: that may have been changed since.
    pub(super) fn of_tree(
        program: &Program,
        tree: &Path,
        git_directory: &Path,
    ) -> Result<Self, GitError> {
        let variables = vec![("GIT_DIR", git_directory.into()), ("GIT_WORK_TREE", tree.into())];
        Self::with(program, tree, variables)
    }

    /// Git in a repository, without a working tree.
    pub(super) fn of_repository(program: &Program, git_directory: &Path) -> Result<Self, GitError> {
        Self::with(program, git_directory, vec![("GIT_DIR", git_directory.into())])
    }

    fn with(
        program: &Program,
        directory: &Path,
        variables: Vec<(&'static str, OsString)>,
    ) -> Result<Self, GitError> {
        let git = Self::bare(program, directory, variables);
        // Listed anew for every value: a slot may have changed it meanwhile.
        let drivers =
            hardened::drivers(&git.listed()?).map_err(|message| GitError::Failed { message })?;
        Ok(Self { drivers, ..git })
    }

    /// Git that may still run drivers: only for what touches no file.
    fn bare(program: &Program, directory: &Path, variables: Vec<(&'static str, OsString)>) -> Self {
        let (program, directory, drivers) = (program.clone(), directory.to_owned(), Vec::new());
        Self { program, directory, variables, drivers, limit: TIME_LIMIT }
    }

    /// Returns the names of all settings.
    fn listed(&self) -> Result<Vec<u8>, GitError> {
        self.run(&["config", "--list", "--name-only", "-z"])
    }

    /// The same with another index than the repository's own.
    pub(super) fn index(mut self, path: &Path) -> Self {
        self.variables.push(("GIT_INDEX_FILE", path.into()));
        self
    }

    /// The same with a time for what it commits, in seconds since 1970.
    pub(super) fn dated(mut self, seconds: &str) -> Self {
        for name in ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"] {
            self.variables.push((name, format!("@{seconds} +0000").into()));
        }
        self
    }

    /// The same with all the time that a large working tree may need.
    pub(super) fn patient(self) -> Self {
        Self { limit: TREE_LIMIT, ..self }
    }

    /// Runs git and returns what it printed.
    ///
    /// # Errors
    ///
    /// [`GitError::Failed`] with git's words if it ends badly or prints more
    /// than [`OUTPUT_CAP`] bytes.
    pub fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Result<Vec<u8>, GitError> {
        self.feed(arguments, &[])
    }

    /// The same with something to read.
    pub(super) fn feed(
        &self,
        arguments: &[impl AsRef<OsStr>],
        input: &[u8],
    ) -> Result<Vec<u8>, GitError> {
        let ran = self.start(arguments, input, OUTPUT_CAP)?;
        if ran.code == Some(0) { Ok(ran.printed) } else { ran.failed() }
    }

    /// Runs git and returns what it printed first, of at most `cap` bytes, and
    /// whether there was more.
    pub(super) fn head(
        &self,
        arguments: &[impl AsRef<OsStr>],
        cap: usize,
    ) -> Result<(Vec<u8>, bool), GitError> {
        let mut ran = self.spawn(arguments, &[], cap)?;
        let is_cut = ran.is_cut;
        ran.printed.truncate(cap);
        if is_cut || ran.code == Some(0) { Ok((ran.printed, is_cut)) } else { ran.failed() }
    }

    /// The same for a call whose exit code tells something, or that prints
    /// more.
    pub(super) fn start(
        &self,
        arguments: &[impl AsRef<OsStr>],
        input: &[u8],
        cap: usize,
    ) -> Result<Ran, GitError> {
        let ran = self.spawn(arguments, input, cap)?;
        if ran.is_cut {
            let most = cap / 1024 / 1024;
            return failed(format!("{TOO_MUCH} {most} MiB; ask for a smaller change"));
        }
        Ok(ran)
    }

    /// Writes what git prints into a file, of at most `cap` bytes. Returns whether
    /// that was all of it.
    pub(super) fn pour(
        &self,
        arguments: &[impl AsRef<OsStr>],
        into: &mut impl Write,
        cap: u64,
    ) -> Result<bool, GitError> {
        let ran = self.spawn_into(arguments, &[], cap, into)?;
        if ran.is_cut || ran.code == Some(0) { Ok(!ran.is_cut) } else { ran.failed() }
    }

    fn spawn(
        &self,
        arguments: &[impl AsRef<OsStr>],
        input: &[u8],
        cap: usize,
    ) -> Result<Ran, GitError> {
        let mut printed = Vec::new();
        let ran = self.spawn_into(arguments, input, cap as u64, &mut printed)?;
        Ok(Ran { printed, ..ran })
    }

    fn spawn_into(
        &self,
        arguments: &[impl AsRef<OsStr>],
        input: &[u8],
        cap: u64,
        into: &mut impl Write,
    ) -> Result<Ran, GitError> {
        let mut command = self.program.command()?;
        command.arg("--no-pager").args(arguments).current_dir(&self.directory);
        hardened::harden(&mut command, &self.drivers);
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        command.stdin(stdin(input).map_err(|error| GitError::Failed {
            message: format!("cannot hand it what it shall read: {error}"),
        })?);
        output(&self.directory, command, self.limit, cap, into)
    }
}

impl Ran {
    /// The error of a call that ended badly, in git's words.
    pub(super) fn failed<T>(&self) -> Result<T, GitError> {
        let said = complaint::words(&String::from_utf8_lossy(&self.complaint));
        failed(match (&*said, self.code) {
            ("", Some(code)) => format!("it ended with exit code {code}"),
            ("", None) => "a signal ended it".to_owned(),
            (_, _) => said,
        })
    }
}

/// Runs git in `root` and returns what it printed, as [`Git`] does.
///
/// # Errors
///
/// As for [`Git::at`] and [`Git::run`].
pub fn git(
    program: &Program,
    root: &Path,
    arguments: &[impl AsRef<OsStr>],
) -> Result<Vec<u8>, GitError> {
    Git::at(program, root)?.run(arguments)
}

/// Refuses a repository whose configuration says that its files are somewhere
/// else than around it. That of a submodule says so, and means where it is.
fn refuse_elsewhere(root: &Path, git: &Git) -> Result<(), GitError> {
    let shown = git.run(&["rev-parse", "--show-toplevel"])?;
    let top = path(shown.strip_suffix(b"\n").unwrap_or(&shown));
    let real = root.canonicalize().or_else(|error| failed(error.to_string()))?;
    let around = real.ancestors().find(|part| part.join(".git").symlink_metadata().is_ok());
    let is_around = around.is_some_and(|around| top.canonicalize().is_ok_and(|top| top == around));
    if is_around { Ok(()) } else { failed("its files are elsewhere".to_owned()) }
}

/// Returns the names of the filter drivers that the configuration in `root`
/// knows of, for calls of git that are not made here.
///
/// # Errors
///
/// As for [`git`], if it takes longer than `limit`, for a name that is not
/// UTF-8, and where the configuration has the files somewhere else.
pub(crate) fn filter_drivers(
    program: &Program,
    root: &Path,
    limit: Duration,
) -> Result<Vec<String>, GitError> {
    let git = Git { limit, ..Git::bare(program, root, Vec::new()) };
    let listed = git.listed()?;
    if listed.split(|&byte| byte == 0).any(|name| name == b"core.worktree") {
        refuse_elsewhere(root, &git)?;
    }
    let names = hardened::names(&listed, "filter.");
    let names = names.into_iter().map(|name| String::from_utf8(name.to_owned()));
    names.collect::<Result<_, _>>().or_else(|error| failed(error.to_string()))
}

/// Settings with their values and files, as `git config --list --show-origin -z` prints them.
pub(super) struct ListedSettings {
    pub(super) bytes: Vec<u8>,
    /// The reason why included files are left out; `None` for a complete listing.
    pub(super) why_not_all: Option<GitError>,
}

/// Lists the settings in `root` with their values and the files that they are in.
///
/// # Errors
///
/// As for [`git`], and if it takes longer than `limit`.
pub(super) fn listed_with_files(
    program: &Program,
    root: &Path,
    limit: Duration,
) -> Result<ListedSettings, GitError> {
    let git = Git { limit, ..Git::bare(program, root, Vec::new()) };
    // Git passes over the configuration of a repository that another user owns, without an
    // error. That user's git obeys it.
    let listed = ["-c", "safe.directory=*", "config", "--list", "--show-origin", "-z"];
    let why_not_all = match git.run(&listed) {
        Ok(bytes) => return Ok(ListedSettings { bytes, why_not_all: None }),
        Err(error) => error,
    };
    // A file that is included and cannot be read must not keep the others from being known.
    let bytes = git.run(&[&listed[..], &["--no-includes"]].concat())?;
    Ok(ListedSettings { bytes, why_not_all: Some(why_not_all) })
}

/// Names the way out where the list of untracked files is longer than it may be.
pub(super) fn too_many_untracked(error: GitError) -> GitError {
    if !is_too_much(&error) {
        return error;
    }
    let most = OUTPUT_CAP / 1024 / 1024;
    let message = format!(
        "the list of untracked files is larger than {most} MiB; add generated files to \
         .gitignore, or to .git/info/exclude if only you have it"
    );
    GitError::Failed { message }
}

/// Tells whether a call failed because it printed more than it may.
pub(super) fn is_too_much(error: &GitError) -> bool {
    matches!(error, GitError::Failed { message } if message.starts_with(TOO_MUCH))
}

/// A path from git's bytes.
pub(super) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// A file that nobody can name: a pipe would have to be filled while the
/// output is read.
fn stdin(input: &[u8]) -> io::Result<Stdio> {
    if input.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = tempfile::tempfile()?;
    file.write_all(input)?;
    file.rewind()?;
    Ok(file.into())
}

/// Runs a command to its end with its output and its time bounded. The output goes
/// `into` what the caller has for it, one byte more than `cap` at the most.
fn output(
    root: &Path,
    mut command: Command,
    limit: Duration,
    cap: u64,
    into: &mut impl Write,
) -> Result<Ran, GitError> {
    let started = command
        // A group of its own, so that its end is the end of all it started:
        // one of those would keep the pipes open.
        .process_group(0)
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
        let is_out = |limit| is_ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        // A short call ends by itself before a reaper would have started.
        let is_late = is_out(limit.min(SHORT)) && {
            reaper::start();
            is_out(limit.saturating_sub(SHORT))
        };
        if is_late {
            // It may have ended by itself since.
            let _ = killpg(group, Signal::SIGKILL);
        }
        is_late
    });
    let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
    let stderr = child.stderr.take().expect("stderr was asked to be a pipe");
    // A full error pipe would stop git while we wait for its output.
    let complaint = thread::spawn(move || read_bounded(stderr, MESSAGE_CAP));
    let printed = io::copy(&mut stdout.take(cap + 1), into);
    let too_much = printed.as_ref().is_ok_and(|bytes| *bytes > cap);
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
    match (printed, status) {
        (Ok(_), Ok(status)) => {
            let printed = Vec::new();
            Ok(Ran { printed, code: status.code(), complaint, is_cut: too_much })
        }
        (Err(error), _) | (_, Err(error)) => failed(error.to_string()),
    }
}

/// Reads to the end, and drops what is more than `cap` bytes.
fn read_bounded(mut from: impl Read, cap: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.by_ref().take(cap).read_to_end(&mut bytes)?;
    io::copy(&mut from, &mut io::sink())?;
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
        let limit = Duration::from_millis(20);
        let error = output(Path::new("/"), command, limit, 1, &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("it did not end within 0.02 s"), "{error}");
    }
}
