//! The bodies of questions that only a person may answer.

use serde::{Deserialize, Serialize};

use super::Text;
use super::body::named;
use crate::event::{EventKind, Question, QuestionId, Seq, Verdict};

#[derive(Serialize, Deserialize)]
pub(super) struct Asked {
    id: u64,
    question: QuestionBody,
}

impl Asked {
    pub(super) fn of(id: QuestionId, question: &Question) -> Self {
        Self { id: id.0.0, question: QuestionBody::of(question) }
    }

    pub(super) fn into_kind(self) -> EventKind {
        let id = QuestionId(Seq(self.id));
        EventKind::Asked { id, question: self.question.into_question() }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Answered<'a> {
    id: u64,
    question: QuestionBody,
    answer: Text<'a>,
}

impl Answered<'_> {
    pub(super) fn of(id: QuestionId, question: &Question, answer: Verdict) -> Self {
        let Asked { id, question } = Asked::of(id, question);
        Self { id, question, answer: answer.as_str().into() }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        Ok(EventKind::Answered {
            id: QuestionId(Seq(self.id)),
            question: self.question.into_question(),
            answer: named(&Verdict::ALL, Verdict::as_str, &self.answer)?,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum QuestionBody {
    Batch { slots: u32 },
}

impl QuestionBody {
    fn of(question: &Question) -> Self {
        match *question {
            Question::Batch { slots } => Self::Batch { slots },
        }
    }

    fn into_question(self) -> Question {
        match self {
            Self::Batch { slots } => Question::Batch { slots },
        }
    }
}
