//! The prompt: typed, piped, or both.
//!
//! Piped input is never dropped silently: tine waits for a pipe that another program may
//! write to, and refuses to run without input that cannot come.

mod writers;

use std::io::{self, IsTerminal as _, Read as _, Stdin};
use std::os::fd::AsFd as _;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::exit::{Exit, Refusal};
use crate::prompt::unused_tag;
use writers::StdinWriters;

/// Most bytes read from standard input. More is no prompt, and no model could
/// take it.
const STDIN_CAP: u64 = 10 * 1024 * 1024;

/// Silence after which a pipe's writers are looked at, in milliseconds.
const SILENCE_MS: u16 = 1_000;

/// Maximum silence of a pipe that only an ancestor process holds, in milliseconds. The
/// ancestor may be about to write, or may have left the pipe open and wait for the
/// answer: then the run must not hang.
const PATIENCE_MS: u16 = 30_000;

/// The role of standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StdinRole {
    /// The prompt.
    Prompt,
    /// An addition to the typed prompt.
    Beside,
    /// The prompt, if there is any input.
    Perhaps,
}

/// The reaction to a pipe that is open and silent.
#[derive(Debug, PartialEq, Eq)]
enum SilencePlan {
    /// Wait for input or the end of the pipe.
    Wait,
    /// Wait for at most so many milliseconds, then fail.
    WaitAtMost(u16),
    /// Continue without input.
    GoOn,
    /// Fail: no input can come.
    GiveUp,
}

/// Puts the prompt together: what was typed and what is piped in.
///
/// `-` or no typed prompt means that standard input is the prompt; otherwise
/// what is piped in is added as a block. A terminal is never read.
///
/// # Errors
///
/// If there is no prompt, or standard input cannot be read.
pub(super) fn prompt(typed: Option<String>) -> Result<String, Refusal> {
    let role = if typed_prompt(typed.as_deref()).is_some() {
        StdinRole::Beside
    } else {
        StdinRole::Prompt
    };
    put_together(typed, role)?.ok_or_else(none)
}

/// Puts the prompt together, if there is one: a pipe that stays silent says
/// that there is none, unless `-` asks for it.
///
/// # Errors
///
/// As for [`prompt`], but for a prompt that is not there.
pub(super) fn prompt_if_any(typed: Option<String>) -> Result<Option<String>, Refusal> {
    let role = match (typed.as_deref(), typed_prompt(typed.as_deref())) {
        (Some("-"), _) => StdinRole::Prompt,
        (_, Some(_)) => StdinRole::Beside,
        (_, None) => StdinRole::Perhaps,
    };
    let prompt = put_together(typed, role)?;
    if role == StdinRole::Prompt && prompt.is_none() { Err(none()) } else { Ok(prompt) }
}

/// Says that there is no prompt.
pub(super) fn none() -> Refusal {
    Refusal::new(Exit::Usage, "there is no prompt")
        .hint("give one: `tine -p \"PROMPT\"`, or pipe it in; `tine --help` lists all commands")
}

fn typed_prompt(typed: Option<&str>) -> Option<&str> {
    typed.filter(|text| *text != "-" && !text.trim().is_empty())
}

fn put_together(typed: Option<String>, role: StdinRole) -> Result<Option<String>, Refusal> {
    let typed = typed_prompt(typed.as_deref());
    let stdin = io::stdin();
    let piped = if stdin.is_terminal() { String::new() } else { read(stdin, role)? };
    Ok(match (typed, piped.trim_end()) {
        (Some(typed), "") => Some(typed.to_owned()),
        (Some(typed), piped) => {
            let tag = unused_tag("stdin", &[piped]);
            Some(format!("{typed}\n\n<{tag}>\n{piped}\n</{tag}>"))
        }
        (None, "") => None,
        (None, piped) => Some(piped.to_owned()),
    })
}

fn read(stdin: Stdin, role: StdinRole) -> Result<String, Refusal> {
    if !wait_readable(&stdin, SILENCE_MS) {
        match plan_silence(role, &writers::find_writers()) {
            SilencePlan::Wait => say_waiting(),
            SilencePlan::WaitAtMost(patience) => {
                say_waiting();
                if !wait_readable(&stdin, patience) {
                    let seconds = (SILENCE_MS + patience) / 1_000;
                    return Err(refuse_silence(&format!(
                        "is open, but nothing came for {seconds} s"
                    )));
                }
            }
            SilencePlan::GoOn => {
                super::say(
                    &"note: standard input is open but silent, and was not opened for this \
                      command; going on without it",
                );
                return Ok(String::new());
            }
            SilencePlan::GiveUp => {
                return Err(refuse_silence("is open, but no other process can write to it"));
            }
        }
    }
    let mut bytes = Vec::new();
    stdin.lock().take(STDIN_CAP + 1).read_to_end(&mut bytes).map_err(|error| {
        Refusal::new(Exit::BadInput, format!("cannot read standard input: {error}"))
    })?;
    if bytes.len() as u64 > STDIN_CAP {
        return Err(Refusal::new(
            Exit::BadInput,
            format!("standard input is longer than {} MiB", STDIN_CAP >> 20),
        )
        .hint("put it into a file and name the file in the prompt"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn plan_silence(role: StdinRole, writers: &StdinWriters) -> SilencePlan {
    match (writers, role) {
        (StdinWriters::Nobody, _) => SilencePlan::GiveUp,
        (_, StdinRole::Prompt)
        | (StdinWriters::Producer, StdinRole::Beside | StdinRole::Perhaps) => SilencePlan::Wait,
        // The pipe belongs to the script that runs this command.
        (StdinWriters::Starter { is_inherited: true }, StdinRole::Beside)
        | (StdinWriters::Starter { .. }, StdinRole::Perhaps) => SilencePlan::GoOn,
        (StdinWriters::Starter { is_inherited: false }, StdinRole::Beside) => {
            SilencePlan::WaitAtMost(PATIENCE_MS - SILENCE_MS)
        }
    }
}

fn say_waiting() {
    super::say(
        &"note: waiting for standard input, which is open; if there is no input, close it or run \
          with `< /dev/null`",
    );
}

fn refuse_silence(what: &str) -> Refusal {
    Refusal::new(Exit::BadInput, format!("standard input {what}"))
        .hint("close it in the program that starts tine, or run with `< /dev/null`")
}

/// Waits until standard input is readable or has ended; returns false on a timeout.
fn wait_readable(stdin: &Stdin, patience_ms: u16) -> bool {
    let mut descriptors = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    loop {
        match poll(&mut descriptors, PollTimeout::from(patience_ms)) {
            Err(Errno::EINTR) => {}
            // An error means that the descriptor cannot be polled: then reading it
            // does not block either.
            ready => return ready.map_or(true, |ready| ready > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_pipe_is_waited_for_where_something_may_come_that_is_needed() {
        let inherited = StdinWriters::Starter { is_inherited: true };
        let piped = StdinWriters::Starter { is_inherited: false };
        let bounded = || SilencePlan::WaitAtMost(PATIENCE_MS - SILENCE_MS);
        for (role, writers, expected) in [
            (StdinRole::Prompt, &StdinWriters::Producer, SilencePlan::Wait),
            (StdinRole::Beside, &StdinWriters::Producer, SilencePlan::Wait),
            (StdinRole::Perhaps, &StdinWriters::Producer, SilencePlan::Wait),
            (StdinRole::Prompt, &piped, SilencePlan::Wait),
            (StdinRole::Beside, &piped, bounded()),
            (StdinRole::Perhaps, &piped, SilencePlan::GoOn),
            (StdinRole::Prompt, &inherited, SilencePlan::Wait),
            (StdinRole::Beside, &inherited, SilencePlan::GoOn),
            (StdinRole::Perhaps, &inherited, SilencePlan::GoOn),
            (StdinRole::Prompt, &StdinWriters::Nobody, SilencePlan::GiveUp),
            (StdinRole::Beside, &StdinWriters::Nobody, SilencePlan::GiveUp),
            (StdinRole::Perhaps, &StdinWriters::Nobody, SilencePlan::GiveUp),
        ] {
            assert_eq!(plan_silence(role, writers), expected, "{role:?} {writers:?}");
        }
    }
}
