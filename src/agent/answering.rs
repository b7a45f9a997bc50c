//! What counts as a unit's answer: its last word, or where a schema asks for
//! it, what a call of StructuredOutput was given.
//!
//! The count of tries is in no log: it belongs to one run of the loop, and a
//! session that is gone on with begins anew.

use std::sync::Arc;

use serde_json::Value;

use crate::event::{FailureKind, Outcome};

/// Most tries to give an answer that fits its schema: what a model gets wrong so
/// often it does not get right any more, and each is a request.
pub const TRIES_CAP: u32 = 5;

/// Most characters of the last misfit that a failure tells of.
const WHY_CAP: usize = 400;

/// What a turn came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turned {
    /// Its answer had no calls.
    Said(Arc<str>),
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
    Reminded,
    /// It has this to say.
    Answered(Arc<str>),
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
            Turned::Said(text) if !self.is_wanted => Ok(Judged::Answered(text)),
            // It was told something after its answer, and has nothing to add.
            Turned::Said(_) if self.has_answered => Ok(Judged::Answered(Arc::default())),
            Turned::Said(_) => self.failed("it ended without one").map(|()| Judged::Reminded),
            Turned::Called(None) => Ok(Judged::GoesOn),
            Turned::Called(Some(Given::Answer(answer))) => {
                (self.has_answered, self.tries) = (true, 0);
                Ok(Judged::Answered(answer.to_string().into()))
            }
            Turned::Called(Some(Given::Misfit(why))) => match self.failed(&why) {
                Ok(()) => Ok(Judged::GoesOn),
                // It has an answer; that it could not better it loses nothing.
                Err(_) if self.has_answered => Ok(Judged::Answered(Arc::default())),
                Err(outcome) => Err(outcome),
            },
        }
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
        Turned::Said(text.into())
    }

    fn misfit() -> Turned {
        Turned::Called(Some(Given::Misfit("`/a`: must be there".to_owned())))
    }

    #[test]
    fn without_a_schema_the_last_word_is_the_answer() {
        let mut answering = Answering::new(false);
        assert_eq!(answering.judge(Turned::Called(None)), Ok(Judged::GoesOn));
        assert_eq!(answering.judge(said("x")), Ok(Judged::Answered("x".into())));
    }

    #[test]
    fn with_one_only_a_call_is_and_nothing_later_takes_it_back() {
        let mut answering = Answering::new(true);
        assert_eq!(answering.judge(said("x")), Ok(Judged::Reminded));
        assert_eq!(answering.judge(misfit()), Ok(Judged::GoesOn));
        let given = |value| Turned::Called(Some(Given::Answer(value)));
        let answer = Judged::Answered(r#"{"a":1}"#.into());
        assert_eq!(answering.judge(given(json!({"a": 1}))), Ok(answer));
        assert_eq!(answering.judge(said("and so on")), Ok(Judged::Answered("".into())));
        assert_eq!(answering.judge(given(json!(2))), Ok(Judged::Answered("2".into())));
        for _ in 1..TRIES_CAP {
            assert_eq!(answering.judge(misfit()), Ok(Judged::GoesOn));
        }
        assert_eq!(answering.judge(misfit()), Ok(Judged::Answered("".into())));
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
}
