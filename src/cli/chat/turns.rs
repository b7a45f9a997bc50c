//! Where main stands, and what whoever sits there has asked for twice: the same
//! for a chat with a screen and for one without.

use super::desk::{Given, Step};
use crate::event::{Event, EventKind, UnitId, UnixMillis};
use crate::message::counted;

/// How long a second Ctrl-C belongs to the first, in milliseconds.
pub(super) const TWICE: u64 = 2_000;

/// What a note about a second Ctrl-C begins with.
pub(super) const AGAIN: &str = "Ctrl-C again";

/// A fold over events and over what was asked for.
#[derive(Debug)]
pub(super) struct Turns {
    /// A turn that took less ends without a bell, in milliseconds.
    bell_after_ms: u64,
    /// A prompt was given that has not begun.
    is_pending: bool,
    /// The user ended the turn, or it brought nothing: news wait until
    /// something else happens.
    is_calm: bool,
    /// News were asked for, and main was told none yet.
    awaits_news: bool,
    /// When main began; `None` while it rests.
    began: Option<UnixMillis>,
    /// When Ctrl-C was typed last, and did not only empty the line.
    interrupted: Option<UnixMillis>,
    /// Whether leaving was asked for, and is to be said again.
    wants_to_leave: bool,
    is_leaving: bool,
}

impl Turns {
    pub(super) fn new(bell_after_ms: u64) -> Self {
        Self {
            bell_after_ms,
            is_pending: false,
            is_calm: false,
            awaits_news: false,
            began: None,
            interrupted: None,
            wants_to_leave: false,
            is_leaving: false,
        }
    }

    /// Returns how the next session begins.
    pub(super) fn anew(&self) -> Self {
        Self::new(self.bell_after_ms)
    }

    /// Takes note of an event. The end of a long turn calls whoever waits for
    /// it.
    pub(super) fn take(&mut self, event: &Event) -> Option<Step> {
        if let EventKind::InvocationStarted { .. } = event.kind {
            (self.is_pending, self.is_calm) = (false, false);
            self.began = Some(event.at);
        }
        if let EventKind::UnitEnded(_) = event.kind {
            self.is_calm = false;
        }
        if let (EventKind::Notified { .. }, UnitId::MAIN) = (&event.kind, event.unit) {
            self.awaits_news = false;
        }
        let EventKind::InvocationEnded(end) = &event.kind else { return None };
        // Whoever ended the turn does not want another at once, and what brought
        // nothing would bring nothing again.
        let brought_nothing = std::mem::take(&mut self.awaits_news);
        self.is_calm = end.cancel.is_some() || brought_nothing;
        let took = event.at.since(self.began.take()?);
        (took >= self.bell_after_ms).then(|| Step::Call("the turn is over".to_owned()))
    }

    /// Tells whether main works.
    pub(super) fn is_at_work(&self) -> bool {
        self.began.is_some()
    }

    /// Tells whether main works, or is about to.
    pub(super) fn is_busy(&self) -> bool {
        self.began.is_some() || self.is_pending
    }

    /// Tells whether the chat is being left.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Tells whether main may be told news unasked.
    pub(super) fn takes_news(&self) -> bool {
        !self.is_busy() && !self.is_leaving && !self.is_calm
    }

    /// Has main asked something.
    pub(super) fn ask(&mut self, step: Step) -> Step {
        self.is_pending = true;
        self.awaits_news = step == Step::News;
        step
    }

    /// Takes note that something is not carried out.
    pub(super) fn refused(&mut self, given: Given) {
        if given == Given::Prompt {
            // What would be refused again is not asked for again at once.
            (self.is_pending, self.is_calm) = (false, true);
        }
    }

    /// Returns when a Ctrl-C is a first one again.
    pub(super) fn forgets_interrupt(&self) -> Option<UnixMillis> {
        self.interrupted.map(|first| UnixMillis(first.0 + TWICE + 1))
    }

    /// Something else was typed than Ctrl-C: the next one is a first one.
    pub(super) fn not_interrupted(&mut self) {
        self.interrupted = None;
    }

    /// Something else was typed than Ctrl-D: the next one asks again.
    pub(super) fn stays(&mut self) {
        self.wants_to_leave = false;
    }

    /// Leaves, whatever is under way.
    pub(super) fn leave_now(&mut self) -> Step {
        self.is_leaving = true;
        Step::Leave { at_once: false }
    }

    /// The second Ctrl-C in a short time ends all; `None` if it is the first.
    pub(super) fn second_interrupt(&mut self, now: UnixMillis) -> Option<Step> {
        let first = self.interrupted?;
        (now.since(first) <= TWICE).then(|| {
            self.is_leaving = true;
            Step::Leave { at_once: true }
        })
    }

    /// Takes note of a first Ctrl-C, and says what a second one does.
    pub(super) fn first_interrupt(&mut self, now: UnixMillis) -> String {
        self.interrupted = Some(now);
        match self.is_busy() {
            true => format!("{AGAIN} ends everything and leaves"),
            false => format!("{AGAIN} leaves"),
        }
    }

    /// Leaves, if nothing would be lost by it or it was said twice; else says
    /// what would be. `background` is how many units go on beside main.
    pub(super) fn leave(&mut self, background: usize) -> Result<Step, String> {
        let what = match (self.is_busy(), background) {
            (true, _) => Some("a turn is under way".to_owned()),
            (false, 1..) => Some(in_background(background)),
            (false, 0) => None,
        };
        match what {
            Some(what) if !std::mem::replace(&mut self.wants_to_leave, true) => {
                Err(format!("{what}: Ctrl-D again ends it and leaves"))
            }
            Some(_) | None => Ok(self.leave_now()),
        }
    }
}

/// Says how many units go on beside main.
pub(super) fn in_background(count: usize) -> String {
    format!("{} in the background", counted(count as u64, "agent"))
}
