//! What counts as a unit's answer: its last word, or where a schema asks for
//! it, what a call of StructuredOutput was given.
//!
//! One rule for all units: if the last answer is incomplete, the unit has failed, and the
//! text is its partial result. The parent's text, a row of a map, a flow's step, a review
//! and the exit code all follow from that outcome.
//!
//! The count of tries is in no log: it belongs to one run of the loop, and a
//! session that is gone on with begins anew.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::event::{FailureKind, Outcome};
use crate::message::{Call, Reply, StopReason};
use crate::model::{Answer, ModelError, ModelErrorKind};
use crate::tool_name::STRUCTURED_OUTPUT;

/// Most tries to give an answer that fits its schema: what a model gets wrong so
/// often it does not get right any more, and each is a request.
pub const TRIES_CAP: u32 = 5;

/// How many of the last tries ask for the answer as text: servers can hold a text to a
/// schema from its first token, but no server makes a small model begin a call.
const TEXT_TRIES: u32 = 2;

/// Id of the call that a text becomes.
const ANSWER_CALL: &str = "answer";

/// Most characters of the last misfit that a failure tells of.
const WHY_CAP: usize = 400;

/// Reason why a unit's last answer is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shortfall {
    /// It stops at the model's output limit.
    OutputLimit,
    /// The provider withheld it, or the rest of it.
    Withheld,
    /// It has no text.
    Empty,
}

impl Shortfall {
    /// Returns the end of the unit whose answer has this fault.
    pub(super) fn into_outcome(self) -> Outcome {
        let kind = match self {
            Self::OutputLimit => FailureKind::OutputLimit,
            Self::Withheld => FailureKind::Refusal,
            Self::Empty => FailureKind::EmptyAnswer,
        };
        Outcome::failed(kind, self.message())
    }

    /// Says what is wrong with the answer.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::OutputLimit => {
                "the answer stops at the model's output limit; ask for less at once, or raise \
                 `max_output_tokens`"
            }
            Self::Withheld => "the provider withheld the answer, or the rest of it",
            Self::Empty => "the model's answer is empty",
        }
    }
}

/// Text of an answer that has no calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FinalAnswer {
    pub(super) text: Arc<str>,
    /// Why it is incomplete; `None` if it is complete.
    pub(super) shortfall: Option<Shortfall>,
}

impl FinalAnswer {
    /// Creates one with the shortfall that the model's stop reason implies.
    pub(super) fn new(text: Arc<str>, stop: StopReason) -> Self {
        let shortfall = match stop {
            StopReason::MaxTokens => Some(Shortfall::OutputLimit),
            StopReason::Refusal => Some(Shortfall::Withheld),
            StopReason::EndTurn | StopReason::ToolUse if text.trim().is_empty() => {
                Some(Shortfall::Empty)
            }
            StopReason::EndTurn | StopReason::ToolUse => None,
        };
        Self { text, shortfall }
    }

    /// Returns the unit's answer after a later answer.
    ///
    /// A later answer that is empty does not replace this one.
    pub(super) fn superseded_by(self, later: Self) -> Self {
        let has_nothing_to_add = match later.shortfall {
            Some(Shortfall::OutputLimit | Shortfall::Withheld) => false,
            Some(Shortfall::Empty) | None => later.text.trim().is_empty(),
        };
        match (has_nothing_to_add, self.text.trim().is_empty()) {
            (true, false) => self,
            (false, false) if later.text.trim().is_empty() => {
                Self { text: self.text, shortfall: later.shortfall }
            }
            (true | false, _) => later,
        }
    }

    /// Says what was written in place of an answer that fits a schema.
    fn describe_misfit(&self) -> String {
        let what = match self.shortfall {
            Some(Shortfall::OutputLimit) => "it stopped at its output limit without one",
            Some(Shortfall::Withheld) => "the provider withheld it",
            Some(Shortfall::Empty) | None => "it ended without one",
        };
        match self.text.trim() {
            "" => what.to_owned(),
            // On its own line, so that all failures of this kind share their first line.
            text => format!("{what}\nit wrote: {text}"),
        }
    }
}

impl From<Arc<str>> for FinalAnswer {
    fn from(text: Arc<str>) -> Self {
        Self { text, shortfall: None }
    }
}

/// Answer that a turn's request asks for.
#[derive(Debug, Clone)]
pub(super) struct WantedAnswer {
    /// An empty answer is accepted, because the unit has answered before or answers with a
    /// call.
    pub(super) may_be_silent: bool,
    /// Schema that the text of the answer must fit; `None` asks for text or calls.
    pub(super) text_schema: Option<Arc<RawValue>>,
}

impl WantedAnswer {
    /// Rejects an empty answer where the unit may not be silent.
    ///
    /// # Errors
    ///
    /// The error says what the answer has in place of text and calls.
    pub(super) fn check_not_empty(&self, answer: Answer) -> Result<Answer, ModelError> {
        let Answer { reply, usage, stop } = &answer;
        if self.may_be_silent || !reply.text.trim().is_empty() || !reply.calls.is_empty() {
            return Ok(answer);
        }
        let message = match stop {
            // The stop reason says it.
            StopReason::Refusal => return Ok(answer),
            StopReason::MaxTokens => {
                "the answer is empty: the model reached its output limit before it said anything \
                 (see `max_output_tokens`)"
            }
            StopReason::EndTurn | StopReason::ToolUse if reply.thinking.trim().is_empty() => {
                "the answer is empty: it has no text and no call"
            }
            StopReason::EndTurn | StopReason::ToolUse => {
                "the answer is empty: it has reasoning, but no text and no call"
            }
        };
        Err(ModelError { spent: *usage, ..ModelError::new(ModelErrorKind::Empty, message) })
    }

    /// Turns a text that was asked for into the call that gives the unit's answer.
    ///
    /// From there it is checked, shown and logged like any other call. A text that is not a
    /// JSON object stays a text.
    pub(super) fn take_as_call(&self, reply: &mut Reply, stop: StopReason) {
        let is_whole = match stop {
            StopReason::EndTurn | StopReason::ToolUse => true,
            StopReason::MaxTokens | StopReason::Refusal => false,
        };
        if self.text_schema.is_none() || !is_whole || !reply.calls.is_empty() {
            return;
        }
        let text = without_fence(&reply.text);
        if serde_json::from_str::<Map<String, Value>>(text).is_ok() {
            let (id, arguments) = (ANSWER_CALL.into(), text.into());
            reply.calls.push(Call { id, tool: STRUCTURED_OUTPUT.into(), arguments });
        }
    }
}

/// Returns a text without the Markdown fence around it. Servers that do not know schemas
/// leave models free to write one.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inside.map_or(text, |inside| inside.strip_prefix("json").unwrap_or(inside).trim())
}

/// What a turn came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turned {
    /// Its answer had no calls.
    Said(FinalAnswer),
    /// It made calls; the last one that gives an answer, if any was such.
    Called(Option<Given>),
}

/// What a call came to that gives an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// The answer, which fits.
    Answer(Value),
    /// Why there is none.
    Misfit(String),
}

/// What a unit does after a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It takes another one.
    GoesOn,
    /// The same, after it is reminded of its answer.
    Reminded(ReminderKind),
    /// It has this to say.
    Answered(FinalAnswer),
}

/// What a unit is reminded of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReminderKind {
    /// To give its answer by a call.
    Call,
    /// To write its answer as text.
    Text,
}

/// Where a unit stands with its answer.
#[derive(Debug)]
pub(super) struct Answering {
    /// Whether the answer must fit a schema.
    is_wanted: bool,
    has_answered: bool,
    tries: u32,
}

impl Answering {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self { is_wanted, has_answered: false, tries: 0 }
    }

    /// Judges a turn.
    ///
    /// # Errors
    ///
    /// The outcome of a unit that has tried often enough.
    pub(super) fn judge(&mut self, turned: Turned) -> Result<Judged, Outcome> {
        match turned {
            Turned::Said(said) if !self.is_wanted => Ok(Judged::Answered(said)),
            // It was told something after its answer, and has nothing to add.
            Turned::Said(_) if self.has_answered => Ok(Judged::Answered(FinalAnswer::default())),
            Turned::Said(said) => {
                self.failed(&said.describe_misfit())?;
                Ok(Judged::Reminded(self.reminder()))
            }
            Turned::Called(None) => Ok(Judged::GoesOn),
            Turned::Called(Some(Given::Answer(answer))) => {
                (self.has_answered, self.tries) = (true, 0);
                Ok(Judged::Answered(Arc::<str>::from(answer.to_string()).into()))
            }
            Turned::Called(Some(Given::Misfit(why))) => match self.failed(&why) {
                Ok(()) if self.wants_text() => Ok(Judged::Reminded(ReminderKind::Text)),
                Ok(()) => Ok(Judged::GoesOn),
                // It has an answer; that it could not better it loses nothing.
                Err(_) if self.has_answered => Ok(Judged::Answered(FinalAnswer::default())),
                Err(outcome) => Err(outcome),
            },
        }
    }

    /// Returns whether the next turn asks for the answer as text.
    pub(super) fn wants_text(&self) -> bool {
        self.is_wanted && !self.has_answered && self.tries >= TRIES_CAP - TEXT_TRIES
    }

    fn reminder(&self) -> ReminderKind {
        if self.wants_text() { ReminderKind::Text } else { ReminderKind::Call }
    }

    fn failed(&mut self, why: &str) -> Result<(), Outcome> {
        self.tries += 1;
        if self.tries < TRIES_CAP {
            return Ok(());
        }
        let why: String = why.chars().take(WHY_CAP).collect();
        let message =
            format!("no answer that fits its schema in {TRIES_CAP} tries; at the last one: {why}");
        Err(Outcome::failed(FailureKind::StructuredOutput, message))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(text: &str) -> Turned {
        Turned::Said(FinalAnswer::new(text.into(), StopReason::EndTurn))
    }

    fn misfit() -> Turned {
        Turned::Called(Some(Given::Misfit("`/a`: must be there".to_owned())))
    }

    #[test]
    fn without_a_schema_the_last_word_is_the_answer() {
        let mut answering = Answering::new(false);
        assert_eq!(answering.judge(Turned::Called(None)), Ok(Judged::GoesOn));
        assert_eq!(answering.judge(said("x")), Ok(Judged::Answered(Arc::<str>::from("x").into())));
    }

    #[test]
    fn with_one_only_a_call_is_and_nothing_later_takes_it_back() {
        let mut answering = Answering::new(true);
        assert_eq!(answering.judge(said("x")), Ok(Judged::Reminded(ReminderKind::Call)));
        assert_eq!(answering.judge(misfit()), Ok(Judged::GoesOn));
        let given = |value| Turned::Called(Some(Given::Answer(value)));
        let answer = Judged::Answered(Arc::<str>::from(r#"{"a":1}"#).into());
        assert_eq!(answering.judge(given(json!({"a": 1}))), Ok(answer));
        assert_eq!(
            answering.judge(said("and so on")),
            Ok(Judged::Answered(FinalAnswer::default()))
        );
        let two = Judged::Answered(Arc::<str>::from("2").into());
        assert_eq!(answering.judge(given(json!(2))), Ok(two));
        for _ in 1..TRIES_CAP {
            assert_eq!(answering.judge(misfit()), Ok(Judged::GoesOn));
        }
        assert_eq!(answering.judge(misfit()), Ok(Judged::Answered(FinalAnswer::default())));
    }

    #[test]
    fn words_and_misfits_are_tries_and_other_calls_are_none() {
        let mut answering = Answering::new(true);
        for turned in [said("x"), misfit(), said("y"), misfit()] {
            assert!(answering.judge(turned).is_ok());
            assert_eq!(answering.judge(Turned::Called(None)), Ok(Judged::GoesOn));
        }
        let failed = Outcome::failed(
            FailureKind::StructuredOutput,
            "no answer that fits its schema in 5 tries; at the last one: `/a`: must be there",
        );
        assert_eq!(answering.judge(misfit()), Err(failed));
    }

    #[test]
    fn the_last_two_tries_ask_for_text() {
        let mut answering = Answering::new(true);
        let turns = [said("x"), misfit(), misfit(), said("y")];
        let reminders = turns.map(|turned| answering.judge(turned));
        let (call, text) = (ReminderKind::Call, ReminderKind::Text);
        let expected = [
            Ok(Judged::Reminded(call)),
            Ok(Judged::GoesOn),
            Ok(Judged::Reminded(text)),
            Ok(Judged::Reminded(text)),
        ];
        assert_eq!(reminders, expected);
        assert!(answering.wants_text());
        assert!(answering.judge(Turned::Called(Some(Given::Answer(json!(1))))).is_ok());
        assert!(!answering.wants_text());
        assert!(!Answering::new(false).wants_text());
    }

    #[test]
    fn a_whole_text_that_is_an_object_becomes_the_call_if_it_was_asked_for() {
        use StopReason::{EndTurn, MaxTokens, Refusal};
        let schema: Arc<RawValue> = RawValue::from_string("{}".to_owned()).unwrap().into();
        let given = |text: &str, stop, text_schema| {
            let wanted = WantedAnswer { may_be_silent: true, text_schema };
            let mut reply = Reply { text: text.to_owned(), ..Reply::default() };
            wanted.take_as_call(&mut reply, stop);
            assert_eq!(reply.text, text);
            reply.calls.first().map(|call| call.arguments.clone())
        };
        for (text, stop, expected) in [
            (r#"{"a":1}"#, EndTurn, Some(r#"{"a":1}"#)),
            (" {}\n", EndTurn, Some("{}")),
            ("```json\n{}\n```", EndTurn, Some("{}")),
            ("```\n{}\n```\n", EndTurn, Some("{}")),
            (r#"{"a":1}"#, MaxTokens, None),
            (r#"{"a":1}"#, Refusal, None),
            (r#"{"a":1"#, EndTurn, None),
            (r#"{"a":1} and so on"#, EndTurn, None),
            ("It is {}", EndTurn, None),
            ("[1]", EndTurn, None),
            ("```", EndTurn, None),
            ("", EndTurn, None),
        ] {
            let schema = Some(Arc::clone(&schema));
            assert_eq!(given(text, stop, schema).as_deref(), expected, "{text:?}, {stop:?}");
        }
        assert_eq!(given("{}", EndTurn, None), None);
    }

    #[test]
    fn only_a_text_that_came_to_its_end_is_whole() {
        use Shortfall::{Empty, OutputLimit, Withheld};
        use StopReason::{EndTurn, MaxTokens, Refusal, ToolUse};
        for (text, stop, expected) in [
            ("x", EndTurn, None),
            ("x", ToolUse, None),
            ("x", MaxTokens, Some(OutputLimit)),
            ("", MaxTokens, Some(OutputLimit)),
            ("x", Refusal, Some(Withheld)),
            ("", Refusal, Some(Withheld)),
            ("", EndTurn, Some(Empty)),
            (" \n\t", ToolUse, Some(Empty)),
        ] {
            assert_eq!(
                FinalAnswer::new(text.into(), stop).shortfall,
                expected,
                "{text:?}, {stop:?}"
            );
        }
    }

    #[test]
    fn an_empty_later_answer_changes_nothing_and_a_later_shortfall_counts() {
        use StopReason::{EndTurn, MaxTokens, Refusal};
        let said = |(text, stop): (&str, StopReason)| FinalAnswer::new(text.into(), stop);
        for (first, later, expected) in [
            (("a", EndTurn), ("b", EndTurn), ("b", EndTurn)),
            (("a", EndTurn), (" ", EndTurn), ("a", EndTurn)),
            (("a", MaxTokens), ("", EndTurn), ("a", MaxTokens)),
            (("a", MaxTokens), ("b", EndTurn), ("b", EndTurn)),
            (("a", EndTurn), ("b", MaxTokens), ("b", MaxTokens)),
            (("a", EndTurn), ("", MaxTokens), ("a", MaxTokens)),
            (("a", EndTurn), ("", Refusal), ("a", Refusal)),
            (("", EndTurn), ("", EndTurn), ("", EndTurn)),
            (("", EndTurn), ("b", Refusal), ("b", Refusal)),
        ] {
            assert_eq!(
                said(first).superseded_by(said(later)),
                said(expected),
                "{first:?}, {later:?}"
            );
        }
    }

    #[test]
    fn a_try_that_was_cut_off_says_so_and_what_it_wrote() {
        let mut answering = Answering::new(true);
        let cut = || Turned::Said(FinalAnswer::new("{\"a\":".into(), StopReason::MaxTokens));
        for _ in 1..TRIES_CAP {
            assert!(matches!(answering.judge(cut()), Ok(Judged::Reminded(_))));
        }
        let failed = Outcome::failed(
            FailureKind::StructuredOutput,
            "no answer that fits its schema in 5 tries; at the last one: it stopped at its output \
             limit without one\nit wrote: {\"a\":",
        );
        assert_eq!(answering.judge(cut()), Err(failed));
    }
}
