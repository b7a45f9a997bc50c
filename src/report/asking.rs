//! Questions put to a person, one at a time and beside whatever shows the run.
//!
//! What a question is shown with is told first of it and last of its answer, so
//! that it can make way on the screen. Who reads what is typed is not known
//! here: an answer comes back as an event.

use std::collections::BTreeMap;
use std::io;

use super::units::Units;
use super::words;
use crate::event::{Delta, Event, EventKind, Question, QuestionId, UnitId};
use crate::run::Reporter;

/// Puts one question at a time to a person.
pub trait Prompter: Send {
    /// Shows a question and begins to wait for its answer.
    ///
    /// # Errors
    ///
    /// As for [`Reporter::event`].
    fn prompt(&mut self, id: QuestionId, question: &str) -> io::Result<()>;

    /// Ends the question that is shown: it has its answer, or was taken back.
    ///
    /// # Errors
    ///
    /// As for [`Reporter::event`].
    fn end(&mut self) -> io::Result<()>;
}

/// Shows a run, and puts its questions to a person.
pub struct Asking {
    shown: Box<dyn Reporter>,
    prompter: Box<dyn Prompter>,
    units: Units,
    /// Questions without an answer; the first is the one that is shown.
    open: BTreeMap<QuestionId, String>,
}

impl Asking {
    /// Shows a run as `shown` does.
    #[must_use]
    pub fn new(shown: Box<dyn Reporter>, prompter: Box<dyn Prompter>) -> Self {
        Self { shown, prompter, units: Units::default(), open: BTreeMap::new() }
    }

    fn asked(&mut self, unit: UnitId, id: QuestionId, question: &Question) -> io::Result<()> {
        let name = self.units.get(unit).map(|known| words::unit_name(unit, &known.head));
        let name = name.unwrap_or_else(|| unit.to_string());
        self.open.insert(id, format!("{name} asks: {}", words::question(question)));
        if self.open.len() > 1 {
            return Ok(());
        }
        self.prompt_first()
    }

    fn answered(&mut self, id: QuestionId) -> io::Result<()> {
        if self.open.first_key_value().is_some_and(|(first, _)| *first == id) {
            self.prompter.end()?;
        }
        self.open.remove(&id);
        Ok(())
    }

    fn prompt_first(&mut self) -> io::Result<()> {
        match self.open.first_key_value() {
            Some((id, question)) => self.prompter.prompt(*id, question),
            None => Ok(()),
        }
    }
}

impl Reporter for Asking {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.units.take(event);
        match &event.kind {
            EventKind::Asked { id, question } => {
                self.shown.event(event)?;
                // Nothing of it must be drawn behind the question.
                self.shown.pause()?;
                self.asked(event.unit, *id, question)
            }
            EventKind::Answered { id, .. } => {
                let was_shown = self.open.first_key_value().is_some_and(|(first, _)| first == id);
                self.answered(*id)?;
                self.shown.event(event)?;
                if was_shown { self.prompt_first() } else { Ok(()) }
            }
            EventKind::SessionOpened(_)
            | EventKind::InvocationStarted { .. }
            | EventKind::Prompted { .. }
            | EventKind::Notified { .. }
            | EventKind::Compacted(_)
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::TurnStarted { .. }
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { .. }
            | EventKind::RequestFailed(_)
            | EventKind::Replied(_)
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::Denied { .. }
            | EventKind::UnitEnded(_)
            | EventKind::Joined { .. }
            | EventKind::Notice { .. }
            | EventKind::InvocationEnded(_) => self.shown.event(event),
        }
    }

    fn delta(&mut self, delta: &Delta) -> io::Result<()> {
        self.shown.delta(delta)
    }

    fn pause(&mut self) -> io::Result<()> {
        self.shown.pause()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::event::{Seq, Verdict};
    use crate::report::story::Story;

    /// What was shown and asked, in order.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<String>>>);

    impl Screen {
        fn put(&self, line: &str) -> io::Result<()> {
            self.0.lock().unwrap().push(line.to_owned());
            Ok(())
        }
    }

    impl Reporter for Screen {
        fn event(&mut self, event: &Event) -> io::Result<()> {
            if let EventKind::Asked { id, .. } = event.kind {
                self.put(&format!("makes way for {}", id.0.0))?;
            }
            if let EventKind::Answered { id, .. } = event.kind {
                self.put(&format!("{} is answered", id.0.0))?;
            }
            Ok(())
        }

        fn delta(&mut self, _: &Delta) -> io::Result<()> {
            Ok(())
        }

        fn pause(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Prompter for Screen {
        fn prompt(&mut self, _: QuestionId, question: &str) -> io::Result<()> {
            self.put(question)
        }

        fn end(&mut self) -> io::Result<()> {
            self.put("the prompt ends")
        }
    }

    #[test]
    fn one_question_is_shown_at_a_time_in_the_order_in_which_they_came() {
        let question = |slots| Question::Batch { slots };
        let asked =
            |id, slots| EventKind::Asked { id: QuestionId(Seq(id)), question: question(slots) };
        let answered = |id, slots, answer| {
            let (id, question) = (QuestionId(Seq(id)), question(slots));
            EventKind::Answered { id, question, answer }
        };
        let mut story = Story::new();
        story.batch("call", &["north"]).start(1);
        story.push(0, asked(1, 40)).push(1, asked(2, 50)).push(1, asked(3, 60));
        story.push(1, answered(2, 50, Verdict::Withdrawn));
        story.push(0, answered(1, 40, Verdict::Yes)).push(1, answered(3, 60, Verdict::No));
        let screen = Screen::default();
        let mut asking = Asking::new(Box::new(screen.clone()), Box::new(screen.clone()));
        story.events().iter().for_each(|event| asking.event(event).unwrap());
        assert_eq!(
            *screen.0.lock().unwrap(),
            [
                "makes way for 1",
                "main asks: start 40 agents at once?",
                "makes way for 2",
                "makes way for 3",
                "2 is answered",
                "the prompt ends",
                "1 is answered",
                "north asks: start 60 agents at once?",
                "the prompt ends",
                "3 is answered",
            ]
        );
    }
}
