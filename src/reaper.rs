//! Ends everything that tine has started once tine has ended, also if it was killed.
//!
//! A process that is killed cannot end its children, so a second process does: the reaper. It holds
//! a pipe to tine and is started before the first of the others. When the pipe ends, the reaper ends
//! all processes with tine's tag. If tine ends by itself, it says so before, and what commands have
//! left in the background goes on, as their outputs say.
//!
//! The tag is a random number in the resource limit `RLIMIT_RTTIME`, which bounds processes with
//! real-time scheduling only; the number is so large that no process reaches it. A process inherits
//! the limits of its parent, also after `setsid`, after a double fork, with an empty environment and
//! in a namespace of its own. It cannot raise a hard limit, and the sandbox refuses to change this
//! one at all. A process without a sandbox that changes this limit itself is not found.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

/// The reaper's name in lists of processes.
const NAME: &str = "tine-reaper";

/// The argument that makes a process a reaper. The tag follows.
const ARGUMENT: &str = "--reap";

/// Number of random bits of a tag.
const TAG_BITS: u32 = 40;

/// Hard limits that are tags have this bit and the tag, soft limits the other one. In a tine that
/// another tine has started only the soft limit is its own: a hard limit cannot be raised.
const HARD_TAG: u64 = 1 << 62;
const SOFT_TAG: u64 = 1 << 61;

/// Time between SIGTERM and SIGKILL.
const TERM_PATIENCE: Duration = Duration::from_millis(200);

/// Pause between two readings of the process table.
const LOOK: Duration = Duration::from_millis(5);

/// Number of readings in a row without a process, after which all are gone. A process that starts
/// another one and ends while the table is read is missed together with that one.
const EMPTY_ROUNDS: usize = 3;

/// Upper bound on the time that processes are killed for. Only one that hangs in the kernel, or that
/// belongs to another user by now, takes that long.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// The variable in the environment of commands, and of what they leave in the background.
pub const COMMAND_VARIABLE: &str = "TINE_COMMANDS";

/// Messages to the reaper before tine ends by itself.
const SPARE_COMMANDS: u8 = b'c';
const SPARE_ALL: u8 = b'a';

/// Message to the reaper once the user runs programs of their own: unless tine says otherwise
/// before it ends, only what commands have started is ended.
const ONLY_COMMANDS: u8 = b'u';

/// `true` once the user has run a program of their own, which may have left others.
static HAS_LENT: AtomicBool = AtomicBool::new(false);

/// The tag of this process; `None` if it has none.
static TAG: OnceLock<Option<Tag>> = OnceLock::new();

/// The pipe to the reaper; `None` if none could be started.
static PIPE: OnceLock<Option<ChildStdin>> = OnceLock::new();

/// A number that all processes of one tine share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag(u64);

/// Tags this process and all processes that it starts later. Without this call, [`start`] does
/// nothing.
pub fn tag_process() {
    TAG.get_or_init(Tag::set);
}

/// Starts the reaper, unless it runs. Must be called before another process is started that has to
/// end with this one.
pub fn start() {
    let Some(Some(tag)) = TAG.get() else { return };
    PIPE.get_or_init(|| match spawn(*tag) {
        Ok(pipe) => Some(pipe),
        Err(error) => {
            tracing::warn!("cannot start the reaper: {error}");
            None
        }
    });
}

/// Starts the reaper for a program of the user's own: an editor, a line for the shell. If tine ends
/// by itself after that, no process is ended, since none can be told from the user's.
pub fn start_for_user() {
    start();
    if !HAS_LENT.swap(true, Ordering::Relaxed) {
        tell(ONLY_COMMANDS);
    }
}

/// Starts the reaper for the command of `tine sandbox`: if tine is killed, all that it has started
/// ends, and if tine ends by itself, nothing does.
pub fn start_for_sandbox() {
    HAS_LENT.store(true, Ordering::Relaxed);
    start();
}

fn tell(message: u8) {
    if let Some(Some(pipe)) = PIPE.get() {
        let mut pipe: &ChildStdin = pipe;
        // A reaper that is gone ends nothing.
        let _ = pipe.write_all(&[message]);
    }
}

/// Lets processes live on that commands have left in the background, since this process ends by
/// itself.
pub fn dismiss() {
    let has_lent = HAS_LENT.load(Ordering::Relaxed);
    tell(if has_lent { SPARE_ALL } else { SPARE_COMMANDS });
}

/// Returns whether this process was started as a reaper, after doing its work.
#[must_use]
pub fn ran_as_reaper(words: &[OsString]) -> bool {
    let [name, argument, tag] = words else { return false };
    if name != NAME || argument != ARGUMENT {
        return false;
    }
    if let Some(tag) = Tag::from_text(tag) {
        reap(tag);
    }
    true
}

fn spawn(tag: Tag) -> io::Result<ChildStdin> {
    let mut child = Command::new("/proc/self/exe")
        .arg0(NAME)
        .args([ARGUMENT, &tag.0.to_string()])
        .env_clear()
        .current_dir("/")
        // What is sent to the group of tine does not reach it.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    child.stdin.take().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
}

fn reap(tag: Tag) {
    // The end of tine is all that ends this process.
    let _ = SigSet::all().thread_block();
    let mut said = Vec::new();
    // What cannot be read has ended.
    let _ = io::stdin().read_to_end(&mut said);
    let spared: fn(&[Pid]) -> HashSet<Pid> = match said.last() {
        Some(&SPARE_ALL) => return,
        Some(&ONLY_COMMANDS) => |all| {
            let ours = background(all, false);
            all.iter().filter(|process| !ours.contains(process)).copied().collect()
        },
        Some(_) => |all| background(all, true),
        None => |_| HashSet::new(),
    };
    let find = || {
        let mut found = tag.processes();
        let spared = spared(&found);
        found.retain(|process| !spared.contains(process));
        found
    };
    let asked = Instant::now();
    let send = |signal| {
        let found = find();
        for process in &found {
            // One that is gone has ended by itself.
            let _ = kill(*process, signal);
        }
        found.is_empty()
    };
    let mut is_gone = send(Signal::SIGTERM);
    while !is_gone && asked.elapsed() < TERM_PATIENCE {
        sleep(LOOK);
        is_gone = find().is_empty();
    }
    let mut empty = 0;
    while empty < EMPTY_ROUNDS && asked.elapsed() < KILL_PATIENCE {
        empty = if send(Signal::SIGKILL) { empty + 1 } else { 0 };
        sleep(LOOK);
    }
}

impl Tag {
    /// Tags this process; `None` if its limits do not allow it.
    fn set() -> Option<Self> {
        let random = std::hash::RandomState::new().build_hasher().finish();
        let tag = Self(random >> (u64::BITS - TAG_BITS));
        let (_, hard) = getrlimit(Resource::RLIMIT_RTTIME).ok()?;
        let hard = if hard == RLIM_INFINITY { tag.hard() } else { hard };
        setrlimit(Resource::RLIMIT_RTTIME, tag.soft(), hard).ok()?;
        Some(tag)
    }

    fn from_text(text: &OsStr) -> Option<Self> {
        text.to_str()?.parse().ok().map(Self)
    }

    fn soft(self) -> u64 {
        SOFT_TAG | self.0
    }

    fn hard(self) -> u64 {
        HARD_TAG | self.0
    }

    /// Returns the processes with this tag that run, but for this one.
    fn processes(self) -> Vec<Pid> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let own = Pid::this();
        ids.map(Pid::from_raw).filter(|id| *id != own && self.is_of(*id) && runs(*id)).collect()
    }

    fn is_of(self, process: Pid) -> bool {
        let limits = std::fs::read_to_string(format!("/proc/{process}/limits"));
        limits.is_ok_and(|limits| self.is_in(&limits))
    }

    /// Returns whether the limits of a process are this tag's, as the kernel writes them.
    fn is_in(self, limits: &str) -> bool {
        let values = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"));
        let mut values = values.into_iter().flat_map(str::split_whitespace);
        let mut next = || values.next().and_then(|value| value.parse().ok());
        next() == Some(self.soft()) || next() == Some(self.hard())
    }
}

/// Returns which of these processes commands have left in the background, and what those have
/// started. `if_hidden` says whether a process counts that hides its environment.
fn background(processes: &[Pid], if_hidden: bool) -> HashSet<Pid> {
    let has_mark = |process: &&Pid| {
        let variables = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        if variables.is_empty() {
            return if_hidden;
        }
        let name =
            |variable: &[u8]| variable.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
        variables
            .split(|byte| *byte == 0)
            .any(|it| name(it).as_deref() == Some(COMMAND_VARIABLE.as_bytes()))
    };
    let mut found: HashSet<Pid> = processes.iter().filter(has_mark).copied().collect();
    loop {
        let is_child = |process: &&Pid| {
            !found.contains(process)
                && status(**process).is_some_and(|(_, parent)| found.contains(&parent))
        };
        let children: Vec<Pid> = processes.iter().filter(is_child).copied().collect();
        if children.is_empty() {
            return found;
        }
        found.extend(children);
    }
}

/// Returns whether a process has not ended: one whose parent has not waited for it stays in the
/// table.
fn runs(process: Pid) -> bool {
    status(process).is_some_and(|(state, _)| !matches!(state, b'Z' | b'X'))
}

/// Returns the state of a process, as one letter, and its parent.
fn status(process: Pid) -> Option<(u8, Pid)> {
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name of the program may hold anything; the fields follow it.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = fields.split_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, Pid::from_raw(fields.next()?.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_either_limit() {
        let tag = Tag(0xAB_CDEF_0123);
        let check = |soft: &str, hard: &str, expected| {
            let limits = format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max realtime priority     0                    0                    \n\
                 Max realtime timeout      {soft:<20} {hard:<20} us        \n"
            );
            assert_eq!(tag.is_in(&limits), expected, "{limits}");
        };
        let (soft, hard) = (tag.soft().to_string(), tag.hard().to_string());
        check(&soft, &hard, true);
        // Another tine within this one, and this one within another.
        check(&Tag(1).soft().to_string(), &hard, true);
        check(&soft, &Tag(1).hard().to_string(), true);
        check("1000000", &hard, true);
        check("unlimited", "unlimited", false);
        check(&hard, &soft, false);
        check(&Tag(1).soft().to_string(), &Tag(1).hard().to_string(), false);
        check("", "", false);
    }

    #[test]
    fn a_process_that_has_ended_does_not_run() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let id = Pid::from_raw(child.id().try_into().unwrap());
        assert!(runs(id));
        drop(child.stdin.take());
        let ended = nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT;
        nix::sys::wait::waitid(nix::sys::wait::Id::Pid(id), ended).unwrap();
        assert!(!runs(id));
        child.wait().unwrap();
        assert!(!runs(id));
    }
}
