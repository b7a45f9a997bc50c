//! What there is on this machine to keep a command in bounds, found by trying.
//!
//! That a program is installed or a kernel new enough says little: containers
//! forbid namespaces, and one run by root may hold on to its privileges. So a
//! command is run, and it says itself how it is kept.

use std::fs::File;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use thiserror::Error;

use crate::event::{Access, Backend, Confinement, NetworkAccess};

use super::{
    CommandBounds, Place, Prepared, Ready, Sandbox, Settings, bubblewrap, child, ruleset, scratch,
};

/// How long a trial may take. It takes milliseconds, or hangs.
const LIMIT: Duration = Duration::from_secs(5);

/// Most bytes of a trial's output.
const OUTPUT_CAP: u64 = 64 * 1024;

/// Why bubblewrap cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoBwrap {
    /// It is not there.
    #[error("bubblewrap is not installed")]
    NotInstalled,
    /// It does not run.
    #[error("bubblewrap does not run ({0})")]
    Fails(String),
    /// A command in it would not be kept in bounds.
    #[error("bubblewrap does not hold ({0})")]
    DoesNotHold(String),
}

/// Why Landlock cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoLandlock {
    /// The kernel has none.
    #[error("the kernel has no Landlock")]
    NotThere,
    /// The kernel has an old one.
    #[error("the kernel's Landlock has version {0} and would let files be cut to nothing")]
    TooOld(i64),
    /// A command could not be run.
    #[error("Landlock does not hold ({0})")]
    Fails(String),
}

/// Returns the best that is there, whether it holds or not. Landlock is there only with a
/// place for what it needs.
pub(super) fn installed(settings: &Settings) -> Backend {
    let is_new = |version| version >= ruleset::LEAST_VERSION;
    if bubblewrap::program().is_some() {
        Backend::Bwrap
    } else if child::landlock_version().is_ok_and(is_new) && scratch::make(settings).is_ok() {
        Backend::Landlock
    } else {
        Backend::None
    }
}

pub(super) fn try_bwrap(settings: &Settings) -> Result<(), NoBwrap> {
    if bubblewrap::program().is_none() {
        return Err(NoBwrap::NotInstalled);
    }
    let (is_done, said) = run(settings, Backend::Bwrap, NetworkAccess::None)
        .map_err(|error| NoBwrap::Fails(error.to_string()))?;
    if !is_done {
        return Err(NoBwrap::Fails(one_line(&said)));
    }
    held(&said, true).map_err(NoBwrap::DoesNotHold)
}

pub(super) fn try_landlock(settings: &Settings) -> Result<i64, NoLandlock> {
    let version = child::landlock_version().map_err(|_| NoLandlock::NotThere)?;
    if version < ruleset::LEAST_VERSION {
        return Err(NoLandlock::TooOld(version));
    }
    let (is_done, said) = run(settings, Backend::Landlock, NetworkAccess::None)
        .map_err(|error| NoLandlock::Fails(error.to_string()))?;
    if !is_done {
        return Err(NoLandlock::Fails(one_line(&said)));
    }
    held(&said, false).map_err(NoLandlock::Fails)?;
    Ok(version)
}

/// Returns why a command in this sandbox cannot have a network namespace with tine's proxy.
pub(super) fn try_own_network(settings: &Settings, backend: Backend) -> Result<(), String> {
    let tried = run(settings, backend, NetworkAccess::Hosts);
    let (is_done, said) = tried.map_err(|error| error.to_string())?;
    if is_done { held(&said, backend == Backend::Bwrap) } else { Err(one_line(&said)) }
}

/// A command that says how it is kept.
const TRIAL: [&str; 3] = ["/bin/sh", "-c", "exec cat /proc/self/status"];

fn run(
    settings: &Settings,
    backend: Backend,
    network: NetworkAccess,
) -> io::Result<(bool, String)> {
    let sandbox = Sandbox::new(Settings {
        scratch: settings.scratch.clone(),
        stubs: settings.stubs.clone(),
        variables: settings.variables.clone(),
        ..Settings::default()
    });
    let confinement = Confinement { backend, access: Access::ReadOnly, network };
    let place = Place { directory: "/".as_ref(), roots: &[], bounds: &CommandBounds::NONE };
    let trial = TRIAL.map(Into::into);
    let prepared = sandbox.prepare(confinement, &place, &trial).map_err(io::Error::other)?;
    let Prepared { ready, held } = prepared;
    let finished = run_to_end(ready);
    // It can write nothing.
    let _ = held.finish();
    finished
}

/// Returns whether it succeeded, and what it said.
fn run_to_end(command: Ready) -> io::Result<(bool, String)> {
    let (mut reader, writer) = io::pipe()?;
    let null = File::open("/dev/null")?;
    let mut running = command.start([null.as_fd(), writer.as_fd(), writer.as_fd()])?;
    // This copy of the pipe's other end would keep it open.
    drop(writer);
    let started = Instant::now();
    let mut said = Vec::new();
    loop {
        let is_ready = is_readable_within(&reader, LIMIT.saturating_sub(started.elapsed()))?;
        let mut buffer = [0; 4096];
        let length = if is_ready { reader.read(&mut buffer)? } else { 0 };
        said.extend_from_slice(&buffer[..length]);
        if length == 0 || said.len() as u64 > OUTPUT_CAP {
            // Has no effect on one that has ended by itself.
            if !is_ready {
                running.signal(Signal::SIGKILL);
            }
            let status = running.wait()?;
            return Ok((status.success(), String::from_utf8_lossy(&said).into_owned()));
        }
    }
}

/// Waits for something to read, or for the end of it.
fn is_readable_within(reader: &PipeReader, limit: Duration) -> io::Result<bool> {
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        match poll(&mut [PollFd::new(reader.as_fd(), PollFlags::POLLIN)], timeout) {
            // A signal says nothing about the trial.
            Err(Errno::EINTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

/// Reads `/proc/self/status` of the trial. `Err` names the line that is not as
/// it must be.
fn held(status: &str, bounding: bool) -> Result<(), String> {
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.strip_prefix(':')).map(str::trim)
    };
    let is_zero = |value: &str| value.bytes().all(|digit| digit == b'0');
    let mut sets = vec!["CapInh", "CapPrm", "CapEff", "CapAmb"];
    // Without privileges nothing can be taken from this set, and nobody who is
    // in it gains any.
    if bounding {
        sets.push("CapBnd");
    }
    for set in sets {
        if !value(set).is_some_and(is_zero) {
            return Err(format!("{set} is {}", value(set).unwrap_or("not there")));
        }
    }
    for (name, expected) in [("NoNewPrivs", "1"), ("Seccomp", "2")] {
        if value(name) != Some(expected) {
            return Err(format!("{name} is {}", value(name).unwrap_or("not there")));
        }
    }
    Ok(())
}

fn one_line(said: &str) -> String {
    let line = said.lines().next_back().unwrap_or("it says nothing");
    line.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(changed: Option<(&str, &str)>, bounding: bool, expected: Result<(), &str>) {
        let mut status = "Name:\tsh\nNoNewPrivs:\t1\nSeccomp:\t2\nCapInh:\t0000\nCapPrm:\t0000\n\
                          CapEff:\t0000\nCapBnd:\t0000\nCapAmb:\t0000\n"
            .to_owned();
        if let Some((from, to)) = changed {
            status = status.replace(from, to);
        }
        assert_eq!(held(&status, bounding), expected.map_err(str::to_owned));
    }

    #[test]
    fn a_trial_that_kept_a_privilege_or_has_no_filter_does_not_hold() {
        check(None, true, Ok(()));
        check(Some(("CapEff:\t0000", "CapEff:\t0200")), true, Err("CapEff is 0200"));
        check(Some(("CapBnd:\t0000", "CapBnd:\tffff")), true, Err("CapBnd is ffff"));
        check(Some(("CapBnd:\t0000", "CapBnd:\tffff")), false, Ok(()));
        check(Some(("Seccomp:\t2", "Seccomp:\t0")), true, Err("Seccomp is 0"));
        check(Some(("NoNewPrivs:\t1\n", "")), true, Err("NoNewPrivs is not there"));
    }
}
