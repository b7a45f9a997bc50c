//! The JSON of what units are answered.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::facts::Fact;
use super::json::{BranchBody, Raw, Text, each, name, text, token, unit};
use super::seen::{GlanceBody, SaidBody, end_of, state};
use super::word::{Answered, FarSeat};
use crate::branch::Token;
use crate::event::{EventKind, Failure, Outcome};
use crate::line::{CallLeave, News, RequestLeave, Sent};
use crate::session::kinds;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnsweredBody<'a> {
    GoOn,
    Seats(Vec<SeatBody<'a>>),
    Request {
        calls_are_limited: bool,
    },
    /// The answer to a request that is not let go; the failure is that of an
    /// outcome.
    NoRequest(Raw),
    Calls {
        count: usize,
        refused: Option<Raw>,
    },
    Verdict(Raw),
    End(Fact<'a>),
    First(u64),
    News(NewsBody<'a>),
    Glances(Vec<GlanceBody<'a>>),
    State(Option<Text<'a>>),
    Sent(SentBody<'a>),
    Visible(Vec<SaidBody>),
    Dropped,
}

#[derive(Serialize, Deserialize)]
pub(super) struct SeatBody<'a> {
    unit: Text<'a>,
    branch: BranchBody<'a>,
    origin: Raw,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NewsBody<'a> {
    Message(Text<'a>),
    NotYet,
    Nothing,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SentBody<'a> {
    Queued,
    Full,
    Ended(Text<'a>),
    Unknown,
}

impl<'a> AnsweredBody<'a> {
    pub(super) fn of(answered: &'a Answered) -> Self {
        match answered {
            Answered::GoOn => Self::GoOn,
            Answered::Seats(seats) => Self::Seats(seats.iter().map(SeatBody::of).collect()),
            Answered::Request(Ok(RequestLeave { calls_are_limited })) => {
                Self::Request { calls_are_limited: *calls_are_limited }
            }
            Answered::Request(Err(failure)) => Self::NoRequest(of_failure(failure)),
            Answered::Calls(CallLeave { count, refused }) => {
                Self::Calls { count: *count, refused: refused.as_ref().map(of_failure) }
            }
            Answered::Verdict(verdict) => Self::Verdict(kinds::of_verdict(verdict)),
            Answered::End(end) => Self::End(Fact::of(&EventKind::UnitEnded(Arc::clone(end)))),
            Answered::First(Token(number)) => Self::First(*number),
            Answered::News(news) => Self::News(NewsBody::of(news)),
            Answered::Glances(glances) => {
                Self::Glances(glances.iter().map(GlanceBody::of).collect())
            }
            Answered::State(state) => Self::State(state.map(|state| state.as_str().into())),
            Answered::Sent(sent) => Self::Sent(SentBody::of(*sent)),
            Answered::Visible(said) => {
                Self::Visible(said.iter().map(|said| SaidBody::of(said.apart())).collect())
            }
            Answered::Dropped => Self::Dropped,
        }
    }

    pub(super) fn into_answered(self) -> Result<Answered, String> {
        Ok(match self {
            Self::GoOn => Answered::GoOn,
            Self::Seats(seats) => Answered::Seats(each(seats, SeatBody::into_seat)?),
            Self::Request { calls_are_limited } => {
                Answered::Request(Ok(RequestLeave { calls_are_limited }))
            }
            Self::NoRequest(why) => Answered::Request(Err(failure(&why)?)),
            Self::Calls { count, refused } => {
                let refused = refused.map(|why| failure(&why)).transpose()?;
                Answered::Calls(CallLeave { count, refused })
            }
            Self::Verdict(verdict) => Answered::Verdict(kinds::verdict(&verdict)?),
            Self::End(end) => Answered::End(end_of(end)?),
            Self::First(number) => Answered::First(token(number)?),
            Self::News(news) => Answered::News(news.into()),
            Self::Glances(glances) => Answered::Glances(each(glances, GlanceBody::into_glance)?),
            Self::State(name) => Answered::State(name.map(|name| state(&name)).transpose()?),
            Self::Sent(sent) => Answered::Sent(sent.into_sent()?),
            Self::Visible(said) => {
                let said = each(said, SaidBody::into_apart)?;
                Answered::Visible(said.into_iter().map(|said| Arc::new(said.into())).collect())
            }
            Self::Dropped => Answered::Dropped,
        })
    }
}

fn of_failure(failure: &Failure) -> Raw {
    kinds::of_outcome(&Outcome::Failed(failure.clone()))
}

fn failure(body: &Raw) -> Result<Failure, String> {
    match kinds::outcome(body)? {
        Outcome::Failed(failure) => Ok(failure),
        Outcome::Done { text: _ } | Outcome::Cancelled { ran: _ } | Outcome::Interrupted => {
            Err("what refuses is no failure".to_owned())
        }
    }
}

impl<'a> SeatBody<'a> {
    fn of(seat: &'a FarSeat) -> Self {
        let FarSeat { unit, branch, origin } = seat;
        let origin = kinds::of_origin(*origin);
        Self { unit: name(*unit), branch: BranchBody::of(branch), origin }
    }

    fn into_seat(self) -> Result<FarSeat, String> {
        Ok(FarSeat {
            unit: unit(&self.unit)?,
            branch: self.branch.into_branch()?,
            origin: kinds::origin(&self.origin)?,
        })
    }
}

impl<'a> NewsBody<'a> {
    fn of(news: &'a News) -> Self {
        match news {
            News::Message(message) => Self::Message(text(message)),
            News::NotYet => Self::NotYet,
            News::Nothing => Self::Nothing,
        }
    }
}

impl From<NewsBody<'_>> for News {
    fn from(body: NewsBody<'_>) -> Self {
        match body {
            NewsBody::Message(message) => Self::Message(message.into()),
            NewsBody::NotYet => Self::NotYet,
            NewsBody::Nothing => Self::Nothing,
        }
    }
}

impl SentBody<'_> {
    fn of(sent: Sent) -> Self {
        match sent {
            Sent::Queued => Self::Queued,
            Sent::Full => Self::Full,
            Sent::Ended(state) => Self::Ended(state.as_str().into()),
            Sent::Unknown => Self::Unknown,
        }
    }

    fn into_sent(self) -> Result<Sent, String> {
        Ok(match self {
            Self::Queued => Sent::Queued,
            Self::Full => Sent::Full,
            Self::Ended(name) => Sent::Ended(state(&name)?),
            Self::Unknown => Sent::Unknown,
        })
    }
}
