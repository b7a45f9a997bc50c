//! The bodies of questions that only a person may answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Text;
use super::body::text;
use super::calls::ConfinementBody;
use super::forms::{EntryBody, FormBody};
use crate::event::{CallQuestion, EventKind, Lasting, Question, QuestionId, Seq, Terms, Verdict};
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
    #[serde(flatten, borrow)]
    answer: VerdictBody<'a>,
}

/// What became of a question; `answer` says which of the others there is.
#[derive(Serialize, Deserialize)]
pub(super) struct VerdictBody<'a> {
    answer: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terms: Option<TermsBody<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    given: Option<Vec<EntryBody<'a>>>,
}

#[derive(Serialize, Deserialize)]
struct TermsBody<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arguments: Option<Text<'a>>,
    lasting: Text<'a>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rules: Vec<Text<'a>>,
}

impl<'a> Answered<'a> {
    pub(super) fn of(id: QuestionId, question: &'a Question, answer: &'a Verdict) -> Self {
        let Asked { id, question } = Asked::of(id, question);
        Self { id, question, answer: VerdictBody::of(answer) }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        let Self { id, question, answer } = self;
        Ok(EventKind::Answered {
            id: QuestionId(Seq(id)),
            question: question.into_question()?,
            answer: answer.into_verdict()?,
        })
    }
}

impl<'a> VerdictBody<'a> {
    pub(super) fn of(answer: &'a Verdict) -> Self {
        let (mut message, mut by, mut terms, mut given) = (None, None, None, None);
        match answer {
            Verdict::NoBecause(told) => message = Some(text(told)),
            Verdict::Covered(earlier) => by = Some(earlier.0.0),
            Verdict::YesWith(other) => terms = Some(TermsBody::of(other)),
            Verdict::Filled(all) => given = Some(all.iter().map(EntryBody::of).collect()),
            Verdict::Yes
            | Verdict::ForBatch
            | Verdict::ForSession
            | Verdict::Always
            | Verdict::No
            | Verdict::NobodyToAsk
            | Verdict::Withdrawn => {}
        }
        Self { answer: answer.as_str().into(), message, by, terms, given }
    }

    pub(super) fn into_verdict(self) -> Result<Verdict, String> {
        let Self { answer, message, by, terms, given } = self;
        let plain = Verdict::PLAIN.into_iter().find(|verdict| verdict.as_str() == answer);
        let terms = terms.map(TermsBody::into_terms).transpose()?;
        let with_more = || {
            [
                message.map(|message| Verdict::NoBecause(message.into())),
                by.map(|by| Verdict::Covered(QuestionId(Seq(by)))),
                terms.map(|terms| Verdict::YesWith(Arc::new(terms))),
                given.map(|given| Verdict::Filled(given.into_iter().map(Into::into).collect())),
            ]
            .into_iter()
            .flatten()
            .find(|verdict| verdict.as_str() == answer)
        };
        plain.or_else(with_more).ok_or_else(|| format!("`{answer}` is not known"))
    }
}

impl<'a> TermsBody<'a> {
    fn of(terms: &'a Terms) -> Self {
        Self {
            arguments: terms.arguments.as_ref().map(text),
            lasting: terms.lasting.as_str().into(),
            rules: terms.rules.iter().map(text).collect(),
        }
    }

    fn into_terms(self) -> Result<Terms, String> {
        let lasting = Lasting::ALL.into_iter().find(|lasting| lasting.as_str() == self.lasting);
        Ok(Terms {
            arguments: self.arguments.map(Into::into),
            lasting: lasting.ok_or_else(|| format!("`{}` is not known", self.lasting))?,
            rules: self.rules.into_iter().map(Into::into).collect(),
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
    #[serde(borrow)]
    Form(FormBody<'a>),
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
            Question::Form(form) => Self::Form(FormBody::of(form)),
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
            Self::Form(form) => return Ok(Question::Form(Arc::new(form.into()))),
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
