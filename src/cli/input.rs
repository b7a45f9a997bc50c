//! The prompt: typed, piped, or both.

use std::io::{self, IsTerminal as _, Read as _, Stdin};
use std::os::fd::AsFd as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::exit::{Exit, Refusal};

/// Most bytes read from standard input. More is no prompt, and no model could
/// take it.
const STDIN_CAP: u64 = 10 * 1024 * 1024;

/// How long a pipe beside a typed prompt may stay silent, in milliseconds,
/// before the run goes on without it. A slow producer must not be lost; a pipe
/// that a parent process left open must not hang the run.
const SILENT_PIPE_GRACE_MS: u16 = 1_000;

/// Puts the prompt together: what was typed and what is piped in.
///
/// `-` or no typed prompt means that standard input is the prompt; otherwise
/// what is piped in is added as a block. A terminal is never read.
///
/// # Errors
///
/// If there is no prompt, or standard input cannot be read.
pub(super) fn prompt(typed: Option<String>) -> Result<String, Refusal> {
    let is_needed = typed_prompt(typed.as_deref()).is_none();
    put_together(typed, is_needed)?.ok_or_else(none)
}

/// Puts the prompt together, if there is one: a pipe that stays silent says
/// that there is none, unless `-` asks for it.
///
/// # Errors
///
/// As for [`prompt`], but for a prompt that is not there.
pub(super) fn prompt_if_any(typed: Option<String>) -> Result<Option<String>, Refusal> {
    let is_needed = typed.as_deref() == Some("-");
    let prompt = put_together(typed, is_needed)?;
    if is_needed && prompt.is_none() { Err(none()) } else { Ok(prompt) }
}

/// Says that there is no prompt.
pub(super) fn none() -> Refusal {
    Refusal::new(Exit::Usage, "there is no prompt")
        .hint("give one: `tine -p \"PROMPT\"`, or pipe it in; `tine --help` lists all commands")
}

fn typed_prompt(typed: Option<&str>) -> Option<&str> {
    typed.filter(|text| *text != "-" && !text.trim().is_empty())
}

fn put_together(typed: Option<String>, is_needed: bool) -> Result<Option<String>, Refusal> {
    let typed = typed_prompt(typed.as_deref());
    let stdin = io::stdin();
    let piped = if stdin.is_terminal() { String::new() } else { read(stdin, !is_needed)? };
    Ok(match (typed, piped.trim_end()) {
        (Some(typed), "") => Some(typed.to_owned()),
        (Some(typed), piped) => Some(format!("{typed}\n\n<stdin>\n{piped}\n</stdin>")),
        (None, "") => None,
        (None, piped) => Some(piped.to_owned()),
    })
}

fn read(stdin: Stdin, may_be_silent: bool) -> Result<String, Refusal> {
    if may_be_silent && !speaks(&stdin) {
        super::say(&"note: standard input is open but silent; going on without it");
        return Ok(String::new());
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

/// Waits until standard input has something to read or has ended.
fn speaks(stdin: &Stdin) -> bool {
    let mut descriptors = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::from(SILENT_PIPE_GRACE_MS);
    // An error means that the descriptor cannot be polled: then reading it
    // does not block either.
    poll(&mut descriptors, timeout).map_or(true, |ready| ready > 0)
}
