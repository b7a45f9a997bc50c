//! Asking on the terminal: a question on standard error, a line from standard
//! input.
//!
//! Nothing is read unless a question is on the screen, and what was typed
//! before it came is thrown away: an answer is always one to the question that
//! could be read.

use std::io::{self, IsTerminal as _, PipeReader, PipeWriter, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
use tokio::sync::mpsc;

use super::terminal::is_foreground;
use crate::event::{QuestionId, Verdict};
use crate::report::Prompter;
use crate::report::filling::{Answering, Heard};
use crate::run::FromUser;

/// Most answers that wait for the run. One question is asked at a time.
const WAITING_CAP: usize = 2;

/// Most bytes of a line: what a terminal takes.
const LINE_CAP: usize = 4_096;

/// Puts questions to whoever sits at the terminal.
pub(super) struct TerminalPrompter {
    answers: mpsc::Sender<FromUser>,
    shown: Option<Shown>,
}

/// A question on the screen.
struct Shown {
    /// Whether the line was ended by whoever typed it.
    was_entered: Arc<AtomicBool>,
    /// Ends the wait for an answer when it is dropped.
    _wait: PipeWriter,
}

/// Returns what asks on the terminal and where the answers arrive; `None` if
/// there is no terminal, or this process may not read from it.
pub(super) fn on_terminal() -> Option<(TerminalPrompter, mpsc::Receiver<FromUser>)> {
    let stdin = io::stdin();
    if !stdin.is_terminal() || !io::stderr().is_terminal() || !is_foreground(&stdin) {
        return None;
    }
    let (answers, arriving) = mpsc::channel(WAITING_CAP);
    Some((TerminalPrompter { answers, shown: None }, arriving))
}

impl Prompter for TerminalPrompter {
    fn prompt(&mut self, id: QuestionId, question: &str, answering: Answering) -> io::Result<()> {
        // The terminal is gone: then nothing is typed either.
        let _ = tcflush(io::stdin(), FlushArg::TCIFLUSH);
        say(question);
        let was_entered = Arc::new(AtomicBool::new(false));
        let answer = Waiting { id, answering, answers: self.answers.clone() };
        match wait_for_answer(answer, Arc::clone(&was_entered)) {
            Ok(wait) => self.shown = Some(Shown { was_entered, _wait: wait }),
            // Whoever cannot be heard has not said yes; the run may be over.
            Err(_) => drop(self.answers.try_send(FromUser::Answered { id, verdict: Verdict::No })),
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        let was_entered = self.shown.take().is_some_and(|shown| shown.was_entered());
        if !was_entered {
            say("\n");
        }
        Ok(())
    }
}

impl Shown {
    fn was_entered(&self) -> bool {
        self.was_entered.load(Ordering::Relaxed)
    }
}

/// The question that is being answered.
struct Waiting {
    id: QuestionId,
    answering: Answering,
    answers: mpsc::Sender<FromUser>,
}

/// Waits for an answer on a thread of its own, until it comes or the returned
/// value is dropped.
fn wait_for_answer(waiting: Waiting, was_entered: Arc<AtomicBool>) -> io::Result<PipeWriter> {
    let (over, wait) = io::pipe()?;
    let waiting = move || {
        let Waiting { id, mut answering, answers } = waiting;
        while let Some(line) = line_before(&over) {
            let is_whole = line.ends_with(b"\n");
            match heard(&mut answering, &line) {
                Heard::Answer(verdict) => {
                    was_entered.store(is_whole, Ordering::Relaxed);
                    // The run may be over by now.
                    let _ = answers.try_send(FromUser::Answered { id, verdict });
                    return;
                }
                Heard::Part(asked) | Heard::NoAnswer(asked) => say(&asked),
            }
        }
    };
    std::thread::Builder::new().name("answers".to_owned()).spawn(waiting)?;
    Ok(wait)
}

/// Reads a line from the terminal, nothing at its end; `None` if the question
/// is over before.
fn line_before(over: &PipeReader) -> Option<Vec<u8>> {
    let stdin = io::stdin();
    let mut both = [over.as_fd(), stdin.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    while poll(&mut both, PollTimeout::NONE) == Err(Errno::EINTR) {}
    if both[0].any().unwrap_or(true) {
        return None;
    }
    let mut line = vec![0; LINE_CAP];
    let length = nix::unistd::read(&stdin, &mut line).unwrap_or(0);
    line.truncate(length);
    Some(line)
}

/// Returns what a line says. Only a whole one is an answer: whoever ends the
/// input in the middle has not said yes.
fn heard(answering: &mut Answering, line: &[u8]) -> Heard {
    match line.strip_suffix(b"\n") {
        Some(line) => answering.line(&String::from_utf8_lossy(line)),
        None => Heard::Answer(Verdict::No),
    }
}

fn say(text: &str) {
    let mut stderr = io::stderr().lock();
    // Nobody hears it: then nobody answers, or the terminal is gone.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Choices;

    #[test]
    fn only_a_whole_line_says_yes() {
        for (line, expected) in [
            ("y\n", Some(Verdict::Yes)),
            ("y", Some(Verdict::No)),
            ("", Some(Verdict::No)),
            ("what?\n", None),
        ] {
            let said = match heard(&mut Answering::Choices(Choices::Batch), line.as_bytes()) {
                Heard::Answer(verdict) => Some(verdict),
                Heard::Part(_) | Heard::NoAnswer(_) => None,
            };
            assert_eq!(said, expected, "{line:?}");
        }
    }
}
