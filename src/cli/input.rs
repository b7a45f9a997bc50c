//! The prompt: typed, piped, or both.
//!
//! Piped input is never dropped silently: tine waits for a pipe that another command
//! visibly writes to. A pipe without a visible writer, or one that the parent process
//! reads too, does not hang a run and does not fail a typed prompt: after a bounded wait
//! tine continues without it, with a note.

mod writers;

use std::io::{self, BufRead as _, ErrorKind, IsTerminal as _, Stdin};
use std::os::fd::AsFd as _;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::exit::{Exit, Refusal};
use crate::prompt::unused_tag;
use writers::{StdinPipe, StdinWriters};

/// Most bytes read from standard input. More is no prompt, and no model could
/// take it.
const STDIN_CAP: usize = 10 * 1024 * 1024;

/// Silence after which a pipe's writers are looked at, in seconds.
const SILENCE: u16 = 1;

/// Maximum silence of a pipe that may never be written to or closed, in seconds. Its
/// writer may be about to write, or may have left the pipe open and wait for the
/// answer: then the run must not hang.
const PATIENCE: u16 = 30;

/// Maximum pause in the output of another command whose pipe the parent process reads
/// too, in seconds: a build pauses for long, and `tail -f` never ends.
const PAUSE: u16 = 300;

/// The role of standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StdinRole {
    /// The prompt.
    Prompt,
    /// The prompt, although a blank one was typed: a script's variable may be empty.
    Substitute,
    /// An addition to the typed prompt.
    Beside,
    /// The prompt, if there is any input.
    Perhaps,
}

/// The reaction to a pipe that is open and silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SilencePlan {
    /// Wait for input or the end of the pipe.
    Wait,
    /// Wait for at most so many seconds, then continue with what has come.
    WaitThenContinue(u16),
    /// Wait for at most so many seconds, then fail.
    WaitThenFail(u16),
    /// Continue with what has come.
    Continue,
    /// Fail: no input can come.
    Fail,
}

/// Puts the prompt together: what was typed and what is piped in.
///
/// `-` or no typed prompt means that standard input is the prompt, and so does a blank
/// one if anything is piped in; otherwise what is piped in is added as a block. A
/// terminal is never read.
///
/// # Errors
///
/// If there is no prompt, or standard input cannot be read.
pub(super) fn prompt(typed: Option<String>) -> Result<String, Refusal> {
    let role = match (typed.as_deref(), typed_prompt(typed.as_deref())) {
        (_, Some(_)) => StdinRole::Beside,
        (None | Some("-"), None) => StdinRole::Prompt,
        (Some(_), None) => StdinRole::Substitute,
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
    let piped = if stdin.is_terminal() { String::new() } else { read(&stdin, role)? };
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

fn read(stdin: &Stdin, role: StdinRole) -> Result<String, Refusal> {
    let mut bytes = Vec::new();
    loop {
        if !wait_readable(stdin, SILENCE) && !outlast_silence(stdin, role, !bytes.is_empty())? {
            break;
        }
        let mut stdin = stdin.lock();
        let length = match stdin.fill_buf() {
            Ok([]) => break,
            Ok(chunk) => {
                bytes.extend_from_slice(chunk);
                chunk.len()
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Err(error) => {
                let message = format!("cannot read standard input: {error}");
                return Err(Refusal::new(Exit::BadInput, message));
            }
        };
        stdin.consume(length);
        if bytes.len() > STDIN_CAP {
            return Err(Refusal::new(
                Exit::BadInput,
                format!("standard input is longer than {} MiB", STDIN_CAP >> 20),
            )
            .hint("put it into a file and name the file in the prompt"));
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits for more input as long as the writers of a silent pipe deserve it; returns
/// whether the pipe can be read.
fn outlast_silence(stdin: &Stdin, role: StdinRole, has_input: bool) -> Result<bool, Refusal> {
    let plan = plan_silence(role, writers::find_writers(), has_input);
    let limit = match plan {
        SilencePlan::Wait => None,
        SilencePlan::WaitThenContinue(seconds) | SilencePlan::WaitThenFail(seconds) => {
            Some(seconds - SILENCE)
        }
        SilencePlan::Continue => Some(0),
        SilencePlan::Fail => {
            return Err(refuse_silence("is open, but no other process can write to it"));
        }
    };
    if !has_input && limit != Some(0) {
        say_waiting();
    }
    // Without a limit the read itself waits.
    let Some(limit) = limit else { return Ok(true) };
    if limit > 0 && wait_readable(stdin, limit) {
        return Ok(true);
    }
    if let SilencePlan::WaitThenFail(seconds) = plan {
        return Err(refuse_silence(&format!("is open, but no input arrived for {seconds} s")));
    }
    match (has_input, role) {
        (true, _) => super::say(
            &"note: standard input is still open but silent; continuing with the input so far",
        ),
        // There is nothing to go on with.
        (false, StdinRole::Prompt | StdinRole::Substitute) => {}
        (false, StdinRole::Beside | StdinRole::Perhaps) => super::say(
            &"note: standard input is open but silent; continuing without it (`< /dev/null` tells \
              tine that there is no input)",
        ),
    }
    Ok(false)
}

fn plan_silence(role: StdinRole, pipe: StdinPipe, has_input: bool) -> SilencePlan {
    use SilencePlan::{Continue, Fail, Wait, WaitThenContinue, WaitThenFail};
    use StdinRole::{Beside, Perhaps, Prompt, Substitute};
    use StdinWriters::{Ancestor, Nobody, Producer, Unseen};

    let StdinPipe { writers, is_inherited } = pipe;
    match (writers, role) {
        (Nobody, _) if has_input => Continue,
        (Nobody, _) => Fail,
        (Producer | Ancestor | Unseen, _) if !is_inherited && has_input => Wait,
        (Producer, Beside | Perhaps | Substitute) => match (is_inherited, has_input) {
            (false, _) => Wait,
            (true, false) => WaitThenContinue(PATIENCE),
            (true, true) => WaitThenContinue(PAUSE),
        },
        (Ancestor | Unseen, Prompt) if is_inherited => WaitThenFail(PATIENCE),
        (Producer | Ancestor | Unseen, Prompt) => Wait,
        (Ancestor | Unseen, Beside | Perhaps | Substitute) if has_input => {
            WaitThenContinue(PATIENCE)
        }
        (Ancestor | Unseen, Perhaps) => Continue,
        // The pipe belongs to the script that runs this command.
        (Ancestor | Unseen, Beside | Substitute) if is_inherited => Continue,
        // The ancestor has opened the pipe for this command.
        (Ancestor, Beside) => WaitThenFail(PATIENCE),
        (Unseen, Beside) | (Ancestor | Unseen, Substitute) => WaitThenContinue(PATIENCE),
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
fn wait_readable(stdin: &Stdin, seconds: u16) -> bool {
    let mut descriptors = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(u32::from(seconds) * 1_000).unwrap_or(PollTimeout::MAX);
    loop {
        match poll(&mut descriptors, timeout) {
            Err(Errno::EINTR) => {}
            // An error means that the descriptor cannot be polled: then reading it
            // does not block either.
            ready => return ready.map_or(true, |ready| ready > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SilencePlan::{Continue, Fail, Wait, WaitThenContinue, WaitThenFail};
    use super::StdinRole::{Beside, Perhaps, Prompt, Substitute};
    use super::StdinWriters::{Ancestor, Nobody, Producer, Unseen};
    use super::*;

    const ROLES: [StdinRole; 4] = [Prompt, Substitute, Beside, Perhaps];

    fn plans(writers: StdinWriters, is_inherited: bool, has_input: bool) -> [SilencePlan; 4] {
        ROLES.map(|role| plan_silence(role, StdinPipe { writers, is_inherited }, has_input))
    }

    #[test]
    fn a_silent_pipe_is_waited_for_as_its_writers_allow() {
        let (go_on, fail) = (WaitThenContinue(PATIENCE), WaitThenFail(PATIENCE));
        for (writers, is_inherited, expected) in [
            // `cargo test | tine -p …`
            (Producer, false, [Wait, Wait, Wait, Wait]),
            // `tail -f log | while read line; do tine -p "$line"; done`
            (Producer, true, [Wait, go_on, go_on, go_on]),
            // A program that starts tine with a pipe of its own.
            (Ancestor, false, [Wait, go_on, fail, Continue]),
            // A CI step that inherits an open pipe.
            (Ancestor, true, [fail, Continue, Continue, Continue]),
            // `ssh host 'tine -p …'`, `docker exec -i container tine -p …`
            (Unseen, false, [Wait, go_on, go_on, Continue]),
            (Unseen, true, [fail, Continue, Continue, Continue]),
            (Nobody, false, [Fail, Fail, Fail, Fail]),
            (Nobody, true, [Fail, Fail, Fail, Fail]),
        ] {
            let found = plans(writers, is_inherited, false);
            assert_eq!(found, expected, "{writers:?} {is_inherited}: {ROLES:?}");
        }
    }

    #[test]
    fn a_pause_in_the_input_ends_only_a_pipe_that_another_process_reads_too() {
        let (go_on, fail) = (WaitThenContinue(PATIENCE), WaitThenFail(PATIENCE));
        let pause = WaitThenContinue(PAUSE);
        for (writers, is_inherited, expected) in [
            (Producer, false, [Wait, Wait, Wait, Wait]),
            (Producer, true, [Wait, pause, pause, pause]),
            (Ancestor, false, [Wait, Wait, Wait, Wait]),
            (Ancestor, true, [fail, go_on, go_on, go_on]),
            (Unseen, false, [Wait, Wait, Wait, Wait]),
            (Unseen, true, [fail, go_on, go_on, go_on]),
            (Nobody, false, [Continue, Continue, Continue, Continue]),
        ] {
            let found = plans(writers, is_inherited, true);
            assert_eq!(found, expected, "{writers:?} {is_inherited}: {ROLES:?}");
        }
    }
}
