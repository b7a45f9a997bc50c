//! A session that goes on, from the side of whoever sits at it: what is asked
//! of its run, and what is worked on beside it.

mod commands;

use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};

use super::desk::listing::Before;
use super::desk::{About, Given, Seen, Step};
use super::opening::place;
use super::seat::{Place, Seat};
use super::terminal::ToTerminal;
use super::tty;
use crate::agent::Opening;
use crate::cli::args::RunFlags;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::slash::{self, Typed};
use crate::cli::start::Start;
use crate::report::row::Row;
use crate::run::{Asked, FromUser, Main, NoRewind, NoUndo, Signal, TakeBack};
use commands::Plan;

/// What becomes of a chat once a session is over.
pub(super) enum After {
    /// It is over, too.
    Leave(Exit),
    /// Another session.
    Next(Box<Seat>),
}

/// Something that was worked on beside everything else.
pub(super) enum Done {
    /// What a prompt means, by its number.
    Meant { number: u64, text: String, main: Result<Main, Refusal> },
    /// Something to be seen.
    Seen(Result<Seen, Refusal>),
    /// What would go back, and the rows that tell it; the conversation after
    /// it, if it goes back, too.
    Planned(Result<(Vec<Row>, Option<Box<TakeBack>>), Refusal>, Option<Before>),
    /// What became of the files, and what the conversation goes back to then.
    Undone(Option<Result<(), NoUndo>>, Option<Before>),
    /// What became of the conversation, and what had been typed.
    Rewound(Option<Result<(), NoRewind>>, String),
    /// The session to go on with.
    Next(Result<Box<Seat>, Refusal>),
}

/// A session that goes on.
pub(super) struct Session {
    pub(super) kit: Arc<Kit>,
    pub(super) terminal: SyncSender<ToTerminal>,
    /// Leads there, too, and never waits. It holds what one person has asked
    /// for since the terminal last took something.
    pub(super) shown: Sender<ToTerminal>,
    /// Where the run is asked; `None` once it is to end.
    pub(super) asking: Option<mpsc::Sender<Asked>>,
    pub(super) said: mpsc::Sender<FromUser>,
    pub(super) signals: mpsc::Sender<Signal>,
    pub(super) work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// The prompt whose meaning is being found out; a number that is not this
    /// is not wanted any more.
    pub(super) wanted: Option<(u64, String)>,
    /// What goes back once that is confirmed.
    pub(super) plan: Option<Plan>,
    pub(super) after: Option<After>,
    /// Whether another session is being opened.
    pub(super) is_opening: bool,
    pub(super) place: Place,
    /// How many prompts were given.
    pub(super) prompts: u64,
    /// How many of them the run was asked.
    pub(super) asked: u64,
}

impl Session {
    /// Returns what the chat shows of the session.
    pub(super) fn about(&self) -> About {
        let kit = &self.kit;
        // Whoever reads what is typed waits for nothing.
        let _ = slash::places();
        let window = kit.model.facts().context_window;
        let skills = kit.skills.iter().filter(|skill| skill.user_invocable);
        About {
            model: Arc::clone(kit.model.name()),
            window: (window < u64::MAX).then_some(window),
            mode: kit.policy.mode().as_str(),
            place: place(&kit.root, &kit.environment),
            skills: skills.map(|skill| (skill.name.clone(), skill.description.clone())).collect(),
        }
    }

    /// Shows what comes before all that the run has to show.
    pub(super) async fn first(&self, seen: Seen) {
        let terminal = self.terminal.clone();
        let tell = move || drop(terminal.send(ToTerminal::Seen(seen)));
        tokio::task::spawn_blocking(tell).await.expect("nothing panics there");
    }

    /// Shows something, behind all that was shown so before. A terminal that
    /// takes nothing holds up nobody.
    pub(super) fn show(&self, seen: Seen) {
        // Without a terminal there is nobody to see it.
        let _ = self.shown.send(ToTerminal::Seen(seen));
    }

    /// Says why a command is not carried out.
    pub(super) fn refuse(&self, refusal: Refusal) {
        self.refuse_text(Given::Command, "", refusal);
    }

    fn refuse_text(&self, given: Given, text: &str, refusal: Refusal) {
        self.show(Seen::Refused { given, text: text.to_owned(), refusal });
    }

    /// Takes a step that was meant for the session before: words go back into
    /// the line, all else is over with it.
    pub(super) fn missed(&self, step: Step) {
        if let Step::Invoke(text) = &step {
            let refusal = Refusal::new(Exit::Interrupted, "the session before was over");
            self.refuse_text(Given::Command, text, refusal);
        }
        if let Step::Tell(FromUser::Wrote(text)) = &step {
            let refusal = Refusal::new(Exit::Interrupted, "the session before was over");
            self.refuse_text(Given::Command, text, refusal);
        }
    }

    /// The session is to end; what follows is known.
    pub(super) fn end(&mut self, after: After) {
        // Whoever leaves goes on nowhere.
        if !matches!((&self.after, &after), (Some(After::Leave(_)), After::Next(_))) {
            self.after = Some(after);
        }
        self.asking = None;
    }

    /// Takes a signal of the system.
    pub(super) fn signal(&mut self, signal: Signal) {
        // It was typed for the program that has the terminal.
        if signal == Signal::Interrupt && tty::is_lent() {
            return;
        }
        // It is a key, too.
        if signal == Signal::Interrupt && !self.kit.has_screen() {
            let _ = self.shown.send(ToTerminal::Interrupted);
            return;
        }
        // A run that has so many of them is about to end.
        let _ = self.signals.try_send(signal);
        match signal {
            Signal::Interrupt => {}
            Signal::Terminate | Signal::Hangup | Signal::OutputGone => {
                self.end(After::Leave(Exit::after(signal)));
            }
        }
    }

    /// Takes a step of whoever sits there.
    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Tell(said) => self.tell(said),
            Step::Invoke(text) => self.find_meaning(text),
            Step::News => self.ask("", Opening::News),
            Step::Command(what, arguments) => self.command(what, arguments),
            Step::Chosen(choice) => self.chosen(choice),
            Step::Gone => self.signal(Signal::Hangup),
            Step::Leave { at_once } => {
                // Whoever leaves waits for no turn.
                self.tell(FromUser::EndAll);
                let exit = if at_once { Exit::after(Signal::Interrupt) } else { Exit::Done };
                self.end(After::Leave(exit));
            }
            // The terminal's own.
            Step::Edit(_)
            | Step::Shell(_)
            | Step::Suspend
            | Step::Call(_)
            | Step::Gather
            | Step::Colour(_)
            | Step::Redraw => {}
        }
    }

    fn tell(&mut self, said: FromUser) {
        // The turn that ends may not have begun.
        if said == FromUser::EndTurn
            && let Some((_, text)) = self.wanted.take()
        {
            let refusal = Refusal::new(Exit::Interrupted, "stopped before it began");
            self.refuse_text(Given::Prompt, &text, refusal);
            return;
        }
        // The run may not know of it yet.
        let said = if said == FromUser::EndTurn { FromUser::EndAsked(self.asked) } else { said };
        // It hears them as fast as anybody can type.
        if let Err(error) = self.said.try_send(said) {
            let text = match error.into_inner() {
                FromUser::Wrote(text) => text.to_string(),
                FromUser::Answered { .. }
                | FromUser::AnsweredLast { .. }
                | FromUser::EndTurn
                | FromUser::EndAsked(_)
                | FromUser::EndAll
                | FromUser::Stop(_)
                | FromUser::Again(_)
                | FromUser::SetAside
                | FromUser::SetAsideOf { .. }
                | FromUser::Mode(_)
                | FromUser::TookBack => String::new(),
            };
            let refusal = Refusal::new(Exit::Error, "the session is busy; that was not heard");
            self.refuse_text(Given::Command, &text, refusal);
        }
    }

    /// Finds out what a prompt means, and asks main then.
    fn find_meaning(&mut self, text: String) {
        self.prompts += 1;
        let (number, kit) = (self.prompts, Arc::clone(&self.kit));
        self.wanted = Some((number, text.clone()));
        self.work.push(Box::pin(async move {
            let typed = text.clone();
            let finding = tokio::task::spawn_blocking(move || kit.meaning(&typed, Typed::Chat));
            let main = finding.await.expect("a skill's text is put together without panics");
            Done::Meant { number, text, main }
        }));
    }

    /// Has main asked something.
    fn ask(&mut self, text: &str, main: impl Into<Main>) {
        let invoked = Box::new(self.kit.invoked(text, main));
        let sent = self.asking.as_ref().map(|run| run.try_send(Asked::Invoke(invoked)));
        if matches!(sent, Some(Ok(()))) {
            self.asked += 1;
            self.place.begins();
        } else {
            let refusal = Refusal::new(Exit::Error, "the turn before is not over yet");
            let refusal = refusal.hint("send it again in a moment");
            self.refuse_text(Given::Prompt, text, refusal);
        }
    }

    /// Works on something that takes its time, on a thread of its own.
    pub(super) fn look(
        &mut self,
        what: impl FnOnce(&Kit) -> Result<Seen, Refusal> + Send + 'static,
    ) {
        let kit = Arc::clone(&self.kit);
        self.work.push(Box::pin(async move {
            let looking = tokio::task::spawn_blocking(move || what(&kit));
            Done::Seen(looking.await.expect("what is shown is put together without panics"))
        }));
    }

    /// Opens the session to go on with, while others may write to the terminal.
    pub(super) fn open(&mut self, flags: RunFlags) {
        // Two at once would both want the terminal.
        if std::mem::replace(&mut self.is_opening, true) {
            return;
        }
        let kit = Arc::clone(&self.kit);
        let terminal = self.terminal.clone();
        self.work.push(Box::pin(async move {
            let (given, is_given) = oneshot::channel();
            let opening = tokio::task::spawn_blocking(move || {
                // Without a terminal there is nothing to wait for.
                let away = terminal.send(ToTerminal::Away(given)).is_ok();
                let _ = away.then(|| is_given.blocking_recv());
                let start = Start::again(&kit.environment, flags, kit.goes_on());
                let seat = start.and_then(|start| Seat::take(start, true, &terminal));
                let _ = terminal.send(ToTerminal::Back);
                seat.map(Box::new)
            });
            Done::Next(opening.await.expect("a session is opened without panics"))
        }));
    }

    /// Takes what was worked on.
    pub(super) fn done(&mut self, done: Done) {
        if let Done::Next(_) = done {
            self.is_opening = false;
        }
        match done {
            Done::Meant { number, text, main } => {
                if self.wanted.as_ref().is_none_or(|(wanted, _)| *wanted != number) {
                    return;
                }
                self.wanted = None;
                match main {
                    Ok(main) => self.ask(&text, main),
                    Err(refusal) => self.refuse_text(Given::Prompt, &text, refusal),
                }
            }
            Done::Seen(Ok(seen)) => self.show(seen),
            Done::Planned(Ok(planned), before) => self.planned(planned, before),
            Done::Undone(result, before) => self.undone(result, before),
            Done::Rewound(result, prompt) => self.rewound(result, prompt),
            Done::Next(Ok(next)) => self.end(After::Next(next)),
            Done::Seen(Err(refusal))
            | Done::Planned(Err(refusal), _)
            | Done::Next(Err(refusal)) => {
                self.refuse(refusal);
            }
        }
    }
}
