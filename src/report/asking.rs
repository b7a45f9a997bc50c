//! Questions put to a person, one at a time and beside whatever shows the run.
//!
//! What a question is shown with is told first of it and last of its answer, so
//! that it can make way on the screen. Who reads what is typed is not known
//! here: an answer comes back as an event.

use std::io;

use super::filling::Answering;
use super::questions::{OpenQuestion, Questions};
use super::units::Units;
use super::words;
use crate::event::{Delta, Event, EventKind, QuestionId, Verdict};
use crate::run::Reporter;

/// Puts one question at a time to a person.
pub trait Prompter: Send {
    /// Shows a question and begins to wait for its answer.
    ///
    /// # Errors
    ///
    /// As for [`Reporter::event`].
    fn prompt(&mut self, id: QuestionId, question: &str, answering: Answering) -> io::Result<()>;

    /// Ends the question that is shown: it has its answer, or was taken back.
    ///
    /// # Errors
    ///
    /// As for [`Reporter::event`].
    fn end(&mut self) -> io::Result<()>;
}

/// The answers that a question takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choices {
    /// To whether so many agents may start.
    Batch,
    /// To a form: what its fields take, one after the other.
    Form,
    /// To whether a call may run.
    Call {
        /// Whether it is a call of a batch.
        in_batch: bool,
        /// Whether there are rules that would allow it and others like it.
        has_rules: bool,
    },
}

impl Choices {
    /// Reads what was typed; `None` if that is no answer to this question. What
    /// answers a form is not known here.
    #[must_use]
    pub fn read(self, typed: &str) -> Option<Verdict> {
        if self == Self::Form {
            return None;
        }
        let typed = typed.trim();
        let (word, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let (word, rest) = (word.to_ascii_lowercase(), rest.trim());
        let (in_batch, lasts) = (self.in_batch(), self.lasts());
        match (&*word, rest) {
            ("y" | "yes", "") => Some(Verdict::Yes),
            ("b", "") if in_batch => Some(Verdict::ForBatch),
            ("s", "") if lasts => Some(Verdict::ForSession),
            ("a", "") if lasts => Some(Verdict::Always),
            ("n" | "no", "") => Some(Verdict::No),
            ("n" | "no", message) => Some(Verdict::NoBecause(message.into())),
            ("", _) if self == Self::Batch => Some(Verdict::No),
            _ => None,
        }
    }

    /// Returns the answers that it takes, in one row.
    #[must_use]
    pub fn offered(self) -> String {
        let batch = if self.in_batch() { "b this batch, " } else { "" };
        let rules = if self.lasts() { "s this session, a always, " } else { "" };
        let once = if self == Self::Batch { "y yes" } else { "y once" };
        format!("{once}, {batch}{rules}n no, n TEXT no and why")
    }

    /// Returns those of them that hold for this once.
    #[must_use]
    pub(super) fn once(self) -> Self {
        match self {
            Self::Batch | Self::Form => self,
            Self::Call { in_batch, has_rules: _ } => Self::Call { in_batch, has_rules: false },
        }
    }

    /// Says what stands before the rules of the answers that allow more than
    /// the call.
    #[must_use]
    pub(super) fn lasting(self) -> &'static str {
        match self.in_batch() {
            true => "b, s and a allow more; a keeps it in your settings:",
            false => "s and a allow more; a keeps it in your settings:",
        }
    }

    /// Tells whether an answer can hold for more than the call.
    #[must_use]
    pub(super) fn lasts(self) -> bool {
        match self {
            Self::Batch | Self::Form => false,
            Self::Call { in_batch: _, has_rules } => has_rules,
        }
    }

    fn in_batch(self) -> bool {
        match self {
            Self::Batch | Self::Form => false,
            Self::Call { in_batch, has_rules } => in_batch && has_rules,
        }
    }
}

/// Shows a run, and puts its questions to a person.
pub struct Asking {
    shown: Box<dyn Reporter>,
    prompter: Box<dyn Prompter>,
    units: Units,
    questions: Questions,
}

impl Asking {
    /// Shows a run as `shown` does.
    #[must_use]
    pub fn new(shown: Box<dyn Reporter>, prompter: Box<dyn Prompter>) -> Self {
        let (units, questions) = (Units::default(), Questions::default());
        Self { shown, prompter, units, questions }
    }

    fn prompt_first(&mut self) -> io::Result<()> {
        let waiting = self.questions.waiting();
        let Some((id, open)) = self.questions.first() else { return Ok(()) };
        let OpenQuestion { unit: _, name, question, choices } = open;
        let (question, answering) = words::asked(name, question, *choices, waiting);
        self.prompter.prompt(id, &question, answering)
    }
}

impl Reporter for Asking {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.units.take(event);
        match &event.kind {
            EventKind::Asked { .. } => {
                self.shown.event(event)?;
                // Nothing of it must be drawn behind the question.
                self.shown.pause()?;
                let is_first = self.questions.take(event, &self.units);
                if is_first { self.prompt_first() } else { Ok(()) }
            }
            EventKind::Answered { .. } => {
                let was_shown = self.questions.take(event, &self.units);
                if was_shown {
                    self.prompter.end()?;
                }
                self.shown.event(event)?;
                if was_shown { self.prompt_first() } else { Ok(()) }
            }
            EventKind::SessionOpened(_)
            | EventKind::InvocationStarted { .. }
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::Compacted(_)
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::Lost { .. }
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
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::UnitEnded(_)
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
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
    use crate::event::{Question, Seq};
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
        fn prompt(&mut self, _: QuestionId, question: &str, _: Answering) -> io::Result<()> {
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
                "main asks: start 40 agents at once? [y/N] ",
                "makes way for 2",
                "makes way for 3",
                "2 is answered",
                "the prompt ends",
                "1 is answered",
                "north asks: start 60 agents at once? [y/N] ",
                "the prompt ends",
                "3 is answered",
            ]
        );
    }

    #[track_caller]
    fn check(choices: Choices, typed: &str, expected: Option<Verdict>) {
        assert_eq!(choices.read(typed), expected, "{typed:?}");
    }

    #[test]
    fn one_letter_answers_and_words_behind_a_no_go_to_the_model() {
        let all = Choices::Call { in_batch: true, has_rules: true };
        let because = |message: &str| Some(Verdict::NoBecause(message.into()));
        check(all, "y", Some(Verdict::Yes));
        check(all, " YES ", Some(Verdict::Yes));
        check(all, "b", Some(Verdict::ForBatch));
        check(all, "s", Some(Verdict::ForSession));
        check(all, "A", Some(Verdict::Always));
        check(all, "n", Some(Verdict::No));
        check(all, "No", Some(Verdict::No));
        check(all, "n  use rg instead ", because("use rg instead"));
        check(all, "no y", because("y"));
        for typed in ["", "yy", "y y", "yep", "x", "not now", "a b"] {
            check(all, typed, None);
        }
    }

    #[test]
    fn an_answer_that_was_not_offered_is_none() {
        let once = Choices::Call { in_batch: true, has_rules: false };
        for typed in ["b", "s", "a"] {
            check(once, typed, None);
            check(Choices::Batch, typed, None);
        }
        check(Choices::Call { in_batch: false, has_rules: true }, "b", None);
        check(Choices::Batch, "", Some(Verdict::No));
    }
}
