//! The thread that has the terminal: it sees what comes, lets the desk say what
//! follows, and paints.
//!
//! Nobody else writes while it has the screen. Another program gets it for a
//! while, and so does the driver where words of other parts have to be seen;
//! meanwhile the desk goes on seeing.

mod lending;

use std::collections::VecDeque;
use std::io::{self, Stdin, Stdout};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::clock::Clock;
use super::complete::Paths;
use super::desk::{Desk, Seen, Step};
use super::tty::{self, Ahead, FromTerminal, Keys, Raw};
use crate::config::{Bell, Environment, Theme};
use crate::report::ink::{Ink, Level, Palette};
use crate::report::paint::{Reflow, Screen};
use crate::report::row::Row;

/// Most things that wait to be seen.
pub(super) const SEEN_CAP: usize = 1_024;

/// Most steps that wait for the driver.
pub(super) const STEPS_CAP: usize = 256;

/// Shortest time between two frames that no key asked for.
const FRAME: Duration = Duration::from_millis(33);

/// How long a key may take from the terminal to its reader.
const UNREAD: Duration = Duration::from_millis(5);

/// How late the end of a program is noticed that has the terminal.
const MEANWHILE: Duration = Duration::from_millis(20);

/// Tells the sessions of a chat apart, one after another. What was meant for one
/// is not for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SessionNumber(u64);

impl SessionNumber {
    /// Returns that of the session after it.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Something for the thread.
pub(super) enum ToTerminal {
    /// For the desk.
    Seen(Seen),
    /// Somebody typed, or nobody will any more.
    Typed(FromTerminal),
    /// The window has another size.
    Resized,
    /// A line can be read: of a chat without a screen, whose terminal is as the
    /// shell left it.
    Readable,
    /// Ctrl-C was typed there.
    Interrupted,
    /// Somebody else writes to the terminal now.
    Away(oneshot::Sender<()>),
    /// And no longer does.
    Back,
    /// The chat is over.
    Over,
}

/// What the thread is made of.
pub(super) struct Making {
    pub(super) desk: Desk,
    pub(super) environment: Environment,
    pub(super) theme: Theme,
    pub(super) bell: Bell,
    pub(super) has_title: bool,
    pub(super) root: std::path::PathBuf,
    pub(super) inbox: Receiver<ToTerminal>,
    pub(super) sender: SyncSender<ToTerminal>,
    pub(super) steps: mpsc::Sender<(SessionNumber, Step)>,
}

/// Takes the terminal. It is as it was once the thread has ended.
///
/// # Errors
///
/// If it cannot be made raw, or there is no thread to be had.
pub(super) fn start(making: Making) -> io::Result<JoinHandle<()>> {
    let Making { desk, environment, theme, bell, has_title, root, inbox, sender, steps } = making;
    let reflow = if environment.reflows { Reflow::Yes } else { Reflow::No };
    let palette = Palette { level: level(&environment), theme };
    let screen = Screen::new(io::stdout(), tty::size(io::stdout()), palette, reflow);
    let mut terminal = Terminal {
        desk,
        screen,
        stdin: io::stdin(),
        held: None,
        environment,
        bell,
        title: has_title.then(String::new),
        root,
        inbox,
        sender,
        steps,
        session: SessionNumber::default(),
        typed: VecDeque::new(),
        clock: Clock::start(),
        painted: None,
        is_away: false,
        missed_call: None,
        is_over: false,
    };
    terminal.take_screen(Ahead::Other)?;
    thread::Builder::new().name("terminal".to_owned()).spawn(move || terminal.go())
}

/// Returns how many colours a terminal knows.
fn level(environment: &Environment) -> Level {
    let is = |known: &Option<String>, names: &[&str]| {
        known.as_deref().is_some_and(|known| names.iter().any(|name| known.contains(name)))
    };
    if environment.no_color || environment.is_dumb_terminal {
        Level::None
    } else if is(&environment.color_term, &["truecolor", "24bit"]) {
        Level::True
    } else if is(&environment.term, &["256color"]) {
        Level::Indexed
    } else {
        Level::Basic
    }
}

struct Terminal {
    desk: Desk,
    screen: Screen<Stdout>,
    stdin: Stdin,
    /// While the screen is ours: raw mode, and the thread that reads keys. The
    /// keys go first.
    held: Option<(Keys, Raw)>,
    environment: Environment,
    bell: Bell,
    /// The title as it was set last; `None` if there is to be none.
    title: Option<String>,
    root: std::path::PathBuf,
    inbox: Receiver<ToTerminal>,
    sender: SyncSender<ToTerminal>,
    steps: mpsc::Sender<(SessionNumber, Step)>,
    /// The session that is seen.
    session: SessionNumber,
    /// What was typed before another program got the terminal.
    typed: VecDeque<FromTerminal>,
    clock: Clock,
    /// When the last frame was painted.
    painted: Option<Instant>,
    is_away: bool,
    /// What would have called meanwhile.
    missed_call: Option<String>,
    is_over: bool,
}

/// Whether there is something new to be painted, and how soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Paint {
    Nothing,
    Soon,
    /// A key asked for it.
    Now,
}

impl Terminal {
    fn go(mut self) {
        // Nothing is known of the session yet.
        let mut paint = Paint::Nothing;
        while !self.is_over {
            if paint == Paint::Now || (paint == Paint::Soon && self.until_frame().is_zero()) {
                if self.paint().is_err() {
                    // The signal that says so may come later, or never.
                    self.tell(Step::Gone);
                    break;
                }
                paint = Paint::Nothing;
            }
            paint = paint.max(self.wait(paint));
        }
        // The terminal may be gone; then there is nothing to put back.
        let _ = self.paint().and_then(|()| self.give_screen());
        if self.title.is_some_and(|title| !title.is_empty()) {
            let _ = self.screen.title("");
        }
    }

    /// Waits for something to be seen, or for the time to paint.
    fn wait(&mut self, paint: Paint) -> Paint {
        if !self.holds_keys()
            && let Some(typed) = self.typed.pop_front()
        {
            return paint.max(self.take(ToTerminal::Typed(typed)));
        }
        let until = self.due();
        let until = match paint {
            Paint::Nothing => until,
            Paint::Soon | Paint::Now => Some(self.until_frame().min(until.unwrap_or(FRAME))),
        };
        let first = match until {
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => self.inbox.recv_timeout(until),
        };
        match first {
            Ok(first) => {
                let mut paint = self.take(first);
                for _ in 0..SEEN_CAP {
                    match self.inbox.try_recv() {
                        Ok(next) => paint = paint.max(self.take(next)),
                        Err(_) => break,
                    }
                }
                paint
            }
            Err(RecvTimeoutError::Timeout) => Paint::Soon,
            // Not while this thread has a sender itself.
            Err(RecvTimeoutError::Disconnected) => {
                self.is_over = true;
                Paint::Now
            }
        }
    }

    /// Does what is due, unless a key comes before it that was typed already.
    /// Returns how long nothing will be.
    fn due(&mut self) -> Option<Duration> {
        let now = self.clock.now();
        if self.desk.is_due(now) {
            if self.held.is_some() && tty::has_input(&self.stdin) {
                return Some(UNREAD);
            }
            for step in self.desk.due(now) {
                self.act(step);
            }
        }
        self.desk.wakes(now).map(|at| Duration::from_millis(at.since(now)))
    }

    /// Returns how long the last frame has to stand yet.
    fn until_frame(&self) -> Duration {
        self.painted.map_or(Duration::ZERO, |painted| FRAME.saturating_sub(painted.elapsed()))
    }

    fn take(&mut self, next: ToTerminal) -> Paint {
        match next {
            ToTerminal::Seen(seen) => {
                self.see(seen);
                Paint::Soon
            }
            // It is for whoever is seen then.
            ToTerminal::Typed(typed @ FromTerminal::Typed(_)) if self.holds_keys() => {
                self.typed.push_back(typed);
                Paint::Nothing
            }
            ToTerminal::Typed(FromTerminal::Typed(typed)) => {
                self.see(Seen::Typed(typed));
                Paint::Now
            }
            ToTerminal::Typed(FromTerminal::Gone) => {
                self.tell(Step::Gone);
                Paint::Nothing
            }
            ToTerminal::Resized => Paint::Soon,
            // There are keys instead.
            ToTerminal::Readable | ToTerminal::Interrupted => Paint::Nothing,
            ToTerminal::Away(given) => {
                // What cannot be painted is not to be seen any more, either.
                let _ = self.paint().and_then(|()| self.give_screen());
                self.is_away = true;
                // The driver may have been told to end meanwhile.
                let _ = given.send(());
                Paint::Nothing
            }
            ToTerminal::Back => {
                self.is_away = false;
                if self.take_screen(Ahead::Chat).and_then(|()| self.call_again()).is_err() {
                    self.tell(Step::Gone);
                    self.is_over = true;
                }
                Paint::Now
            }
            ToTerminal::Over => {
                self.is_over = true;
                Paint::Now
            }
        }
    }

    /// Tells whether what is typed is not for the session that is seen.
    fn holds_keys(&self) -> bool {
        self.is_away || self.desk.is_switching()
    }

    fn see(&mut self, seen: Seen) {
        if let Seen::Began { .. } = seen {
            self.session = self.session.next();
        }
        let now = self.clock.now();
        for step in self.desk.see(seen, now) {
            self.act(step);
        }
    }

    /// Does what is the terminal's to do, and tells the driver the rest.
    fn act(&mut self, step: Step) {
        let done = match step {
            Step::Edit(text) => self.edit(&text),
            Step::Shell(line) => self.shell(&line),
            Step::Suspend => self.suspend(),
            Step::Call(why) => self.call(&why),
            Step::Gather => {
                let sender = self.sender.clone();
                let tell = move |paths| drop(sender.send(ToTerminal::Seen(Seen::Paths(paths))));
                Paths::gather(&self.root, tell)
            }
            Step::Colour(theme) => {
                let level = level(&self.environment);
                self.screen.set_palette(Palette { level, theme });
                let name = theme.as_str();
                self.show(Ink::Dim, &format!("`theme = \"{name}\"` under `[chat]` keeps it"));
                Ok(())
            }
            Step::Redraw => self.screen.scroll_away(),
            Step::Tell(_)
            | Step::Invoke(_)
            | Step::News
            | Step::Command(..)
            | Step::Chosen(_)
            | Step::Gone
            | Step::Leave { .. } => {
                self.tell(step);
                Ok(())
            }
        };
        if let Err(error) = done {
            self.show(Ink::Bad, &format!("error: {error}"));
        }
    }

    fn tell(&mut self, step: Step) {
        // It takes them as fast as anybody can type; if it is gone, so are we.
        if self.steps.try_send((self.session, step)).is_err() {
            self.show(Ink::Bad, "error: too much at once; the last key is left out");
        }
    }

    fn show(&mut self, ink: Ink, text: &str) {
        let rows = vec![Row::new().text(ink, text)];
        // It sets off nothing.
        let now = self.clock.now();
        let _ = self.desk.see(Seen::Shown(rows), now);
    }

    fn paint(&mut self) -> io::Result<()> {
        if self.is_away {
            return Ok(());
        }
        // A frame for another size than the terminal has would be broken anew in
        // a way that nobody could count.
        self.measure();
        let now = self.clock.now();
        let frame = self.desk.frame(now);
        self.screen.paint(&frame)?;
        self.painted = Some(Instant::now());
        let title = self.desk.title();
        if let Some(set) = self.title.as_mut().filter(|set| **set != title) {
            self.screen.title(&title)?;
            *set = title;
        }
        Ok(())
    }

    /// Makes the screen ours, if it is not.
    fn take_screen(&mut self, ahead: Ahead) -> io::Result<()> {
        if self.held.is_some() {
            return Ok(());
        }
        let raw = Raw::enter(&self.stdin, io::stdout())?;
        let sender = self.sender.clone();
        let keys = Keys::read(&self.stdin, io::stdout(), ahead, move |typed| {
            match sender.send(ToTerminal::Typed(typed)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        self.held = Some((keys, raw));
        Ok(())
    }

    /// Takes note of the size that the window has now.
    fn measure(&mut self) {
        let size = tty::size(io::stdout());
        self.desk.resized(size);
        self.screen.resized(size);
    }

    /// Leaves the screen to others, the cursor at the beginning of a row.
    fn give_screen(&mut self) -> io::Result<()> {
        let erased = self.screen.erase();
        self.held = None;
        erased
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: Level) {
        let environment = Environment::from_variables(variables.iter().copied());
        assert_eq!(level(&environment), expected, "{variables:?}");
    }

    #[test]
    fn colours_are_as_many_as_the_terminal_says_it_knows() {
        check(&[], Level::Basic);
        check(&[("TERM", "xterm")], Level::Basic);
        check(&[("TERM", "linux"), ("COLORTERM", "")], Level::Basic);
        check(&[("TERM", "screen-256color")], Level::Indexed);
        check(&[("TERM", "xterm"), ("COLORTERM", "yes")], Level::Basic);
        for all in ["truecolor", "24bit"] {
            check(&[("TERM", "xterm-256color"), ("COLORTERM", all)], Level::True);
        }
        for none in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            check(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), none], Level::None);
        }
        check(&[("TERM", "xterm-256color"), ("NO_COLOR", "")], Level::Indexed);
    }
}
