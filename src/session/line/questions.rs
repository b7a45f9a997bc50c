//! The bodies of questions that only a person may answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Text;
use super::body::text;
use super::calls::ConfinementBody;
use crate::event::{CallQuestion, EventKind, Question, QuestionId, Seq, Verdict};
use crate::message::CallId;

#[derive(Serialize, Deserialize)]
pub(super) struct Asked<'a> {
    id: u64,
    #[serde(borrow)]
    question: QuestionBody<'a>,
}

impl<'a> Asked<'a> {
    pub(super) fn of(id: QuestionId, question: &'a Question) -> Self {
        Self { id: id.0.0, question: QuestionBody::of(question) }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        let id = QuestionId(Seq(self.id));
        Ok(EventKind::Asked { id, question: self.question.into_question()? })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Answered<'a> {
    id: u64,
    #[serde(borrow)]
    question: QuestionBody<'a>,
    answer: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<Text<'a>>,
}

impl<'a> Answered<'a> {
    pub(super) fn of(id: QuestionId, question: &'a Question, answer: &'a Verdict) -> Self {
        let Asked { id, question } = Asked::of(id, question);
        let message = match answer {
            Verdict::NoBecause(message) => Some(text(message)),
            Verdict::Yes
            | Verdict::ForBatch
            | Verdict::ForSession
            | Verdict::Always
            | Verdict::No
            | Verdict::NobodyToAsk
            | Verdict::Withdrawn => None,
        };
        Self { id, question, answer: answer.as_str().into(), message }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        let answer = Verdict::from_name(&self.answer, self.message.map(Into::into));
        Ok(EventKind::Answered {
            id: QuestionId(Seq(self.id)),
            question: self.question.into_question()?,
            answer: answer.ok_or_else(|| format!("`{}` is not known", self.answer))?,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum QuestionBody<'a> {
    Batch {
        slots: u32,
    },
    #[serde(borrow)]
    Call(CallBody<'a>),
}

#[derive(Serialize, Deserialize)]
struct CallBody<'a> {
    call: Text<'a>,
    tool: Text<'a>,
    subject: Text<'a>,
    arguments: Text<'a>,
    reason: Text<'a>,
    rules: Vec<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    confinement: Option<ConfinementBody<'a>>,
}

impl<'a> QuestionBody<'a> {
    fn of(question: &'a Question) -> Self {
        match question {
            Question::Batch { slots } => Self::Batch { slots: *slots },
            Question::Call(asked) => Self::Call(CallBody {
                call: text(&asked.call.0),
                tool: text(&asked.tool),
                subject: text(&asked.subject),
                arguments: text(&asked.arguments),
                reason: text(&asked.reason),
                rules: asked.rules.iter().map(text).collect(),
                confinement: asked.confinement.map(ConfinementBody::of),
            }),
        }
    }

    fn into_question(self) -> Result<Question, String> {
        let call = match self {
            Self::Batch { slots } => return Ok(Question::Batch { slots }),
            Self::Call(call) => call,
        };
        let confinement = call.confinement.map(ConfinementBody::into_confinement);
        Ok(Question::Call(Arc::new(CallQuestion {
            call: CallId(call.call.into()),
            tool: call.tool.into(),
            subject: call.subject.into(),
            arguments: call.arguments.into(),
            reason: call.reason.into(),
            rules: call.rules.into_iter().map(Into::into).collect(),
            confinement: confinement.transpose()?,
        })))
    }
}
