//! Ends everything that tine has started once tine has ended, also if it was killed.
//!
//! A process that is killed cannot end its children, so a second process does: the reaper. It holds
//! a pipe to tine and is started before the first of the others. When the pipe ends, the reaper ends
//! all processes with tine's tag. If tine ends by itself, it says so before, and what commands have
//! left in the background goes on, as their outputs say.
//!
//! The tag is a number in the resource limit `RLIMIT_RTTIME`, which bounds processes with
//! real-time scheduling only; the number is so large that no process reaches it. A process inherits
//! the limits of its parent, also after `setsid`, after a double fork, with an empty environment and
//! in a namespace of its own. It cannot raise a hard limit, and the sandbox refuses to change this
//! one at all. A process without a sandbox that changes this limit itself is not found.
//!
//! The soft limit names the tine that has started a process and the tine around that one, and says
//! which of the two have started it by a command. The hard limit names the outermost tine. So a tine
//! recognizes every process inside it: the outermost tine by the hard limit, any other tine by the
//! soft limits of its own children and of its child tines' children. Processes nested deeper are
//! ended by their own tine's reaper, so a reaper removes its soft tag.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

/// The reaper's name in lists of processes.
const NAME: &str = "tine-reaper";

/// The argument that makes a process a reaper. The tag follows.
const ARGUMENT: &str = "--reap";

/// Number of bits that name a tine among those within the same outermost one.
const NAME_BITS: u32 = 28;
const NAME_MASK: u64 = (1 << NAME_BITS) - 1;

/// Number of random bits that name an outermost tine.
const ROOT_BITS: u32 = 60;

/// Hard limits that are tags have this bit, soft limits the other one. In a tine that another tine
/// has started only the soft limit is its own: a hard limit cannot be raised.
const HARD_TAG: u64 = 1 << 62;
const SOFT_TAG: u64 = 1 << 61;

/// Bits of a soft limit: a command of the tine that it names, of the tine around that one, or of any
/// further out has started the process.
const BY_OWN_COMMAND: u64 = 1 << 56;
const BY_COMMAND_AROUND: u64 = 1 << 57;
const BY_COMMAND_FURTHER_OUT: u64 = 1 << 58;

/// Time between SIGTERM and SIGKILL.
const TERM_PATIENCE: Duration = Duration::from_millis(200);

/// Pause between two readings of the process table.
const LOOK: Duration = Duration::from_millis(5);

/// Number of readings in a row without a process, after which all are gone. A process that starts
/// another one and ends while the table is read is missed together with that one.
const EMPTY_ROUNDS: usize = 3;

/// Upper bound on the time that processes are killed for. Only one that hangs in the kernel takes
/// that long.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// The variable in the environment of commands by which their processes are told from those of other
/// commands.
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

/// The limits that all processes of one tine have, but for the bits about commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag {
    soft: u64,
    hard: u64,
    /// Whether no other tine has started this one.
    is_outermost: bool,
}

/// What a process with the tag of a tine is to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Command,
    /// A hook, a server, git, or what they have started.
    Other,
}

/// A soft and a hard limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The soft limit.
    pub soft: u64,
    /// The hard limit.
    pub hard: u64,
}

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

/// Returns the limits `RLIMIT_RTTIME` of a command, which say that it is one; `None` if this process
/// has no tag.
#[must_use]
pub fn command_limits() -> Option<Limits> {
    let Tag { soft, hard, is_outermost: _ } = (*TAG.get()?)?;
    Some(Limits { soft: soft | BY_OWN_COMMAND, hard })
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
        .args([ARGUMENT, &tag.to_text()])
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
    // The end of tine is all that ends this process, and the end of the outermost one.
    let _ = SigSet::all().thread_block();
    let _ = setrlimit(Resource::RLIMIT_RTTIME, SOFT_TAG, tag.hard);
    let mut said = Vec::new();
    // What cannot be read has ended.
    let _ = io::stdin().read_to_end(&mut said);
    let ends: fn(Origin) -> bool = match said.last() {
        Some(&SPARE_ALL) => return,
        Some(&ONLY_COMMANDS) => |origin| origin == Origin::Command,
        Some(_) => |origin| origin == Origin::Other,
        None => |_| true,
    };
    end_all(|| tag.processes(ends), kill);
}

/// Ends processes until none is found, by SIGTERM first.
fn end_all(find: impl Fn() -> Vec<Pid>, send: impl Fn(Pid, Option<Signal>) -> nix::Result<()>) {
    // One that belongs to another user by now is not ours to end.
    let is_ours = |process: &Pid| send(*process, None) != Err(Errno::EPERM);
    let find = || find().into_iter().filter(is_ours).collect::<Vec<Pid>>();
    let asked = Instant::now();
    let end = |signal| {
        let found = find();
        for process in &found {
            // One that is gone has ended by itself.
            let _ = send(*process, Some(signal));
        }
        found.is_empty()
    };
    let mut is_gone = end(Signal::SIGTERM);
    while !is_gone && asked.elapsed() < TERM_PATIENCE {
        sleep(LOOK);
        is_gone = find().is_empty();
    }
    let mut empty = 0;
    while empty < EMPTY_ROUNDS && asked.elapsed() < KILL_PATIENCE {
        empty = if end(Signal::SIGKILL) { empty + 1 } else { 0 };
        sleep(LOOK);
    }
}

impl Tag {
    /// Tags this process; `None` if its limits do not allow it.
    fn set() -> Option<Self> {
        let random = || std::hash::RandomState::new().build_hasher().finish();
        let (soft, hard) = getrlimit(Resource::RLIMIT_RTTIME).ok()?;
        let tag = Self::within(Limits { soft, hard }, random(), random());
        setrlimit(Resource::RLIMIT_RTTIME, tag.soft, tag.hard).ok()?;
        Some(tag)
    }

    /// Returns the tag of a tine that was started with these limits.
    fn within(Limits { soft, hard }: Limits, name: u64, root: u64) -> Self {
        let is_outermost = hard == RLIM_INFINITY;
        let hard = if is_outermost { HARD_TAG | root >> (u64::BITS - ROOT_BITS) } else { hard };
        // No tine is named 0: that of an outermost one is around it.
        let name = (name & NAME_MASK).max(1);
        let around = match !is_outermost && is_soft_tag(soft) {
            true => soft,
            false => 0,
        };
        let mut soft = SOFT_TAG | (around & NAME_MASK) << NAME_BITS | name;
        if around & BY_OWN_COMMAND != 0 {
            soft |= BY_COMMAND_AROUND;
        }
        if around & (BY_COMMAND_AROUND | BY_COMMAND_FURTHER_OUT) != 0 {
            soft |= BY_COMMAND_FURTHER_OUT;
        }
        Self { soft, hard, is_outermost }
    }

    fn to_text(self) -> String {
        format!("{}:{}:{}", self.soft, self.hard, self.is_outermost)
    }

    fn from_text(text: &OsStr) -> Option<Self> {
        let mut parts = text.to_str()?.split(':');
        let mut number = || parts.next()?.parse().ok();
        let (soft, hard) = (number()?, number()?);
        Some(Self { soft, hard, is_outermost: parts.next()?.parse().ok()? })
    }

    /// Returns the processes with this tag that run and have such an origin, but for this one.
    fn processes(self, has_origin: impl Fn(Origin) -> bool) -> Vec<Pid> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let own = Pid::this();
        let is_meant = |id: &Pid| *id != own && self.origin(*id).is_some_and(&has_origin);
        ids.map(Pid::from_raw).filter(|id| is_meant(id) && runs(*id)).collect()
    }

    /// Returns the origin of a process; `None` if it has not this tag.
    fn origin(self, process: Pid) -> Option<Origin> {
        let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).ok()?;
        self.origin_of(limits_in(&limits)?)
    }

    fn origin_of(self, limits: Limits) -> Option<Origin> {
        let Limits { soft, hard } = limits;
        if hard != self.hard {
            return None;
        }
        let name = self.soft & NAME_MASK;
        let is_by_command = match is_soft_tag(soft) {
            true if soft & NAME_MASK == name => soft & BY_OWN_COMMAND != 0,
            true if soft >> NAME_BITS & NAME_MASK == name => soft & BY_COMMAND_AROUND != 0,
            true if self.is_outermost => soft & BY_COMMAND_FURTHER_OUT != 0,
            false if self.is_outermost => false,
            true | false => return None,
        };
        Some(if is_by_command { Origin::Command } else { Origin::Other })
    }
}

/// Returns whether a soft limit is a tag.
fn is_soft_tag(soft: u64) -> bool {
    soft & (SOFT_TAG | HARD_TAG | 1 << 63) == SOFT_TAG
}

/// Reads the limits of a process, as the kernel writes them.
fn limits_in(text: &str) -> Option<Limits> {
    let values = text.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    let mut values = values.split_whitespace();
    let mut next = || match values.next()? {
        "unlimited" => Some(RLIM_INFINITY),
        value => value.parse().ok(),
    };
    Some(Limits { soft: next()?, hard: next()? })
}

/// Returns whether a process has not ended: one whose parent has not waited for it stays in the
/// table.
fn runs(process: Pid) -> bool {
    state(process).is_some_and(|state| !matches!(state, b'Z' | b'X'))
}

/// Returns the state of a process, as one letter.
fn state(process: Pid) -> Option<u8> {
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name of the program may hold anything; the fields follow it.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat[end + 1..].iter().copied().find(|byte| !byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Limits = Limits { soft: RLIM_INFINITY, hard: RLIM_INFINITY };

    fn limits(tag: Tag, is_command: bool) -> Limits {
        let bit = if is_command { BY_OWN_COMMAND } else { 0 };
        Limits { soft: tag.soft | bit, hard: tag.hard }
    }

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let read = |soft: &str, hard: &str| {
            limits_in(&format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max realtime priority     0                    0                    \n\
                 Max realtime timeout      {soft:<20} {hard:<20} us        \n"
            ))
        };
        assert_eq!(read("unlimited", "unlimited"), Some(FREE));
        assert_eq!(read("1000000", "unlimited"), Some(Limits { soft: 1_000_000, ..FREE }));
        assert_eq!(read("", ""), None);
        assert_eq!(limits_in(""), None);
    }

    #[test]
    fn tines_know_what_they_and_the_tines_within_them_have_started() {
        const ROOT: u64 = 0xABCD_EF01_2345_6780;
        // The third was started by a hook of the second, the others by commands.
        let first = Tag::within(FREE, 1, ROOT);
        let second = Tag::within(limits(first, true), 2, ROOT + 0x10);
        let third = Tag::within(limits(second, false), 3, ROOT + 0x20);
        let fourth = Tag::within(limits(third, true), 4, ROOT + 0x30);
        let stranger = Tag::within(FREE, 1, ROOT + 0x40);
        let (command, other) = (Some(Origin::Command), Some(Origin::Other));
        for (process, expected) in [
            (limits(first, true), [command, None, None, None, None]),
            (limits(first, false), [other, None, None, None, None]),
            (limits(second, true), [command, command, None, None, None]),
            (limits(second, false), [command, other, None, None, None]),
            (limits(third, true), [command, other, command, None, None]),
            (limits(third, false), [command, other, other, None, None]),
            // The reaper of the third ends these if the second is killed.
            (limits(fourth, true), [command, None, command, command, None]),
            (limits(fourth, false), [command, None, command, other, None]),
            (limits(stranger, true), [None, None, None, None, command]),
            // A reaper, and a process that has changed its soft limit.
            (Limits { soft: SOFT_TAG, ..limits(third, true) }, [other, None, None, None, None]),
            (Limits { soft: 1_000_000, ..limits(third, true) }, [other, None, None, None, None]),
            (FREE, [None; 5]),
            (Limits { soft: limits(first, true).hard, ..FREE }, [None; 5]),
        ] {
            let tags = [first, second, third, fourth, stranger];
            assert_eq!(tags.map(|tag| tag.origin_of(process)), expected, "{process:?}");
        }
        for tag in [first, second, fourth] {
            assert_eq!(Tag::from_text(OsStr::new(&tag.to_text())), Some(tag));
            assert!(tag.soft < tag.hard);
        }
        // A limit that is not tine's is kept.
        let bound = Limits { soft: RLIM_INFINITY / 2, hard: RLIM_INFINITY / 2 };
        assert_eq!(Tag::within(bound, 5, ROOT).hard, bound.hard);
    }

    #[test]
    fn a_process_of_another_user_is_not_waited_for() {
        let begun = Instant::now();
        let ours = std::cell::Cell::new(true);
        end_all(
            || {
                if ours.get() {
                    vec![Pid::from_raw(1), Pid::from_raw(2)]
                } else {
                    vec![Pid::from_raw(1)]
                }
            },
            |process, signal| match (process.as_raw(), signal) {
                (1, Some(signal)) => panic!("{signal} for another user's"),
                (1, None) => Err(Errno::EPERM),
                (_, Some(_)) => {
                    ours.set(false);
                    Ok(())
                }
                (_, None) => Ok(()),
            },
        );
        assert!(!ours.get() && begun.elapsed() < KILL_PATIENCE, "{:?}", begun.elapsed());
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
