//! The JSON of what units ask.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::children::ChildBody;
use super::facts::Fact;
use super::json::{Raw, Text, each, name, names, text, unit, units};
use super::word::Ask;
use crate::event::{EventKind, QuestionId, Seq};
use crate::guard::{About, Decided, Place};
use crate::line::{Until, Wait};
use crate::message::CallId;
use crate::path_text;
use crate::session::kinds;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AskBody<'a> {
    ToolStarted {
        fact: Fact<'a>,
        is_synced: bool,
    },
    FileChanged(Fact<'a>),
    Declare {
        call: Option<Text<'a>>,
        children: Vec<ChildBody<'a>>,
        takes_orders: bool,
    },
    MayStart,
    MayRequest {
        turn: Option<u32>,
    },
    MayCall {
        count: usize,
    },
    User {
        /// As it is asked in the log; the number there is not given yet.
        question: Fact<'a>,
        decided: DecidedBody<'a>,
    },
    Ended {
        outcome: Raw,
        output_file: Option<Text<'a>>,
    },
    Join {
        children: Vec<Text<'a>>,
    },
    Reserve {
        count: u64,
    },
    News {
        wait: WaitBody,
    },
    Look {
        unit: Option<Text<'a>>,
    },
    Await {
        units: Vec<Text<'a>>,
        until: UntilBody,
    },
    Taken {
        units: Vec<Text<'a>>,
    },
    Stop {
        unit: Text<'a>,
    },
    Send {
        to: Text<'a>,
        text: Text<'a>,
    },
    Visible,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WaitBody {
    No,
    UntilThereAre,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UntilBody {
    Any,
    All,
}

/// What stands for the number of a question that has none yet.
const NOT_ASKED_YET: QuestionId = QuestionId(Seq(0));

impl<'a> AskBody<'a> {
    pub(super) fn of(ask: &'a Ask) -> Self {
        match ask {
            Ask::ToolStarted { call, tool, subject, confinement, is_synced } => {
                let fact = Fact::of(&EventKind::ToolStarted {
                    call: call.clone(),
                    tool: Arc::clone(tool),
                    subject: Arc::clone(subject),
                    confinement: *confinement,
                });
                Self::ToolStarted { fact, is_synced: *is_synced }
            }
            Ask::FileChanged(change) => {
                Self::FileChanged(Fact::of(&EventKind::FileChanged(Arc::clone(change))))
            }
            Ask::Declare { call, children, takes_orders } => Self::Declare {
                call: call.as_ref().map(|call| text(&call.0)),
                children: children.iter().map(ChildBody::of).collect(),
                takes_orders: *takes_orders,
            },
            Ask::MayStart => Self::MayStart,
            Ask::MayRequest { turn } => Self::MayRequest { turn: *turn },
            Ask::MayCall { count } => Self::MayCall { count: *count },
            Ask::User { question, decided } => {
                let asked = EventKind::Asked { id: NOT_ASKED_YET, question: question.clone() };
                Self::User { question: Fact::of(&asked), decided: DecidedBody::of(decided) }
            }
            Ask::Ended { outcome, output_file } => Self::Ended {
                outcome: kinds::of_outcome(outcome),
                output_file: output_file.as_deref().map(text),
            },
            Ask::Join { children } => Self::Join { children: names(children) },
            Ask::Reserve { count } => Self::Reserve { count: *count },
            Ask::News { wait } => Self::News { wait: WaitBody::of(*wait) },
            Ask::Look { unit } => Self::Look { unit: unit.map(name) },
            Ask::Await { units, until } => {
                Self::Await { units: names(units), until: UntilBody::of(*until) }
            }
            Ask::Taken { units } => Self::Taken { units: names(units) },
            Ask::Stop { unit } => Self::Stop { unit: name(*unit) },
            Ask::Send { to, text: sent } => Self::Send { to: name(*to), text: text(sent) },
            Ask::Visible => Self::Visible,
        }
    }

    pub(super) fn into_ask(self) -> Result<Ask, String> {
        Ok(match self {
            Self::ToolStarted { fact, is_synced } => started(fact, is_synced)?,
            Self::FileChanged(fact) => changed(fact)?,
            Self::Declare { call, children, takes_orders } => Ask::Declare {
                call: call.map(|call| CallId(call.into())),
                children: each(children, ChildBody::into_child)?,
                takes_orders,
            },
            Self::MayStart => Ask::MayStart,
            Self::MayRequest { turn } => Ask::MayRequest { turn },
            Self::MayCall { count } => Ask::MayCall { count },
            Self::User { question, decided } => asked(question, decided)?,
            Self::Ended { outcome, output_file } => Ask::Ended {
                outcome: kinds::outcome(&outcome)?,
                output_file: output_file.map(Into::into),
            },
            Self::Join { children } => Ask::Join { children: units(&children)? },
            Self::Reserve { count } => Ask::Reserve { count },
            Self::News { wait } => Ask::News { wait: wait.into() },
            Self::Look { unit: of } => Ask::Look { unit: of.map(|name| unit(&name)).transpose()? },
            Self::Await { units: all, until } => {
                Ask::Await { units: units(&all)?, until: until.into() }
            }
            Self::Taken { units: all } => Ask::Taken { units: units(&all)? },
            Self::Stop { unit: name } => Ask::Stop { unit: unit(&name)? },
            Self::Send { to, text } => Ask::Send { to: unit(&to)?, text: text.into() },
            Self::Visible => Ask::Visible,
        })
    }
}

fn started(fact: Fact<'_>, is_synced: bool) -> Result<Ask, String> {
    let found = fact.into_kind()?;
    let EventKind::ToolStarted { call, tool, subject, confinement } = found else {
        return Err(Fact::is_wrong(&found));
    };
    Ok(Ask::ToolStarted { call, tool, subject, confinement, is_synced })
}

fn changed(fact: Fact<'_>) -> Result<Ask, String> {
    let found = fact.into_kind()?;
    let EventKind::FileChanged(change) = found else { return Err(Fact::is_wrong(&found)) };
    Ok(Ask::FileChanged(change))
}

fn asked(question: Fact<'_>, decided: DecidedBody<'_>) -> Result<Ask, String> {
    let found = question.into_kind()?;
    let EventKind::Asked { id: _, question } = found else { return Err(Fact::is_wrong(&found)) };
    Ok(Ask::User { question, decided: decided.into_decided() })
}

impl WaitBody {
    fn of(wait: Wait) -> Self {
        match wait {
            Wait::No => Self::No,
            Wait::UntilThereAre => Self::UntilThereAre,
        }
    }
}

impl From<WaitBody> for Wait {
    fn from(body: WaitBody) -> Self {
        match body {
            WaitBody::No => Self::No,
            WaitBody::UntilThereAre => Self::UntilThereAre,
        }
    }
}

impl UntilBody {
    fn of(until: Until) -> Self {
        match until {
            Until::Any => Self::Any,
            Until::All => Self::All,
        }
    }
}

impl From<UntilBody> for Until {
    fn from(body: UntilBody) -> Self {
        match body {
            UntilBody::Any => Self::Any,
            UntilBody::All => Self::All,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct DecidedBody<'a> {
    tool: Text<'a>,
    whole: Option<AboutBody<'a>>,
    parts: Vec<AboutBody<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AboutBody<'a> {
    Command { text: Text<'a>, only_exactly: bool },
    Names(Vec<Text<'a>>),
    Places(Vec<PlaceBody>),
    Unknown,
}

/// Both as texts of [`path_text`].
#[derive(Serialize, Deserialize)]
struct PlaceBody {
    path: String,
    relative: Option<String>,
}

impl<'a> DecidedBody<'a> {
    fn of(decided: &'a Decided) -> Self {
        let (tool, whole, parts) = decided.parts();
        Self {
            tool: text(tool),
            whole: whole.map(AboutBody::of),
            parts: parts.iter().map(AboutBody::of).collect(),
        }
    }

    fn into_decided(self) -> Decided {
        let Self { tool, whole, parts } = self;
        let parts = parts.into_iter().map(Into::into).collect();
        Decided::from_parts(tool.into(), whole.map(Into::into), parts)
    }
}

impl<'a> AboutBody<'a> {
    fn of(about: &'a About) -> Self {
        match about {
            About::Command { text: command, only_exactly } => {
                Self::Command { text: text(command), only_exactly: *only_exactly }
            }
            About::Names(names) => Self::Names(names.iter().map(|name| text(name)).collect()),
            About::Places(places) => Self::Places(places.iter().map(PlaceBody::of).collect()),
            About::Unknown => Self::Unknown,
        }
    }
}

impl From<AboutBody<'_>> for About {
    fn from(body: AboutBody<'_>) -> Self {
        match body {
            AboutBody::Command { text, only_exactly } => {
                Self::Command { text: text.into(), only_exactly }
            }
            AboutBody::Names(names) => Self::Names(names.into_iter().map(Into::into).collect()),
            AboutBody::Places(places) => Self::Places(places.into_iter().map(Into::into).collect()),
            AboutBody::Unknown => Self::Unknown,
        }
    }
}

impl PlaceBody {
    fn of(place: &Place) -> Self {
        let Place { path, relative } = place;
        Self {
            path: path_text::to_text(path),
            relative: relative.as_deref().map(path_text::to_text),
        }
    }
}

impl From<PlaceBody> for Place {
    fn from(body: PlaceBody) -> Self {
        let PlaceBody { path, relative } = body;
        Self {
            path: path_text::from_text(&path),
            relative: relative.as_deref().map(path_text::from_text),
        }
    }
}
