//! The JSON of what slots are started for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::json::{Text, name, text, unit};
use super::tasks::TaskBody;
use super::{Shipped, Work};
use crate::agent::{LimitSource, TurnLimit};
use crate::fanout::Elsewhere;
use crate::tool::AnswerSchema;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkBody<'a> {
    Typed {
        task: TaskBody<'a>,
        is_verbatim: bool,
    },
    Fork {
        task: TaskBody<'a>,
        parent: Text<'a>,
        from: ShippedBody<'a>,
        /// As in a task.
        schema: Option<Text<'a>>,
    },
    Continued {
        task: TaskBody<'a>,
        ended: Text<'a>,
        from: ShippedBody<'a>,
        max_turns: Option<LimitBody>,
    },
}

/// What is left of a unit that has ended.
#[derive(Serialize, Deserialize)]
pub(super) struct LeftBody<'a> {
    from: ShippedBody<'a>,
    model: Text<'a>,
    tools: Vec<Text<'a>>,
    schema: Option<Text<'a>>,
    max_turns: Option<LimitBody>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct LimitBody {
    most: u32,
    source: SourceBody,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SourceBody {
    Flag,
    Task,
    Definition,
    Config,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ShippedBody<'a> {
    blob: Text<'a>,
    body: Text<'a>,
}

impl<'a> WorkBody<'a> {
    pub(super) fn of(work: &'a Work) -> Self {
        match work {
            Work::Typed { task, is_verbatim } => {
                Self::Typed { task: TaskBody::of(task), is_verbatim: *is_verbatim }
            }
            Work::Fork { task, parent, from, schema } => Self::Fork {
                task: TaskBody::of(task),
                parent: name(*parent),
                from: ShippedBody::of(from),
                schema: schema.as_deref().map(of_schema),
            },
            Work::Continued { task, ended, from, max_turns } => Self::Continued {
                task: TaskBody::of(task),
                ended: name(*ended),
                from: ShippedBody::of(from),
                max_turns: max_turns.map(LimitBody::of),
            },
        }
    }

    pub(super) fn into_work(self) -> Result<Work, String> {
        Ok(match self {
            Self::Typed { task, is_verbatim } => {
                Work::Typed { task: task.into_task()?, is_verbatim }
            }
            Self::Fork { task, parent, from, schema } => Work::Fork {
                task: task.into_task()?,
                parent: unit(&parent)?,
                from: from.into_shipped(),
                schema: schema.map(into_schema).transpose()?,
            },
            Self::Continued { task, ended, from, max_turns } => Work::Continued {
                task: task.into_task()?,
                ended: unit(&ended)?,
                from: from.into_shipped(),
                max_turns: max_turns.map(LimitBody::into_limit),
            },
        })
    }
}

impl<'a> LeftBody<'a> {
    pub(super) fn of(left: &'a Elsewhere) -> Self {
        let Elsewhere { from, model, tools, schema, max_turns } = left;
        Self {
            from: ShippedBody::of(from),
            model: text(model),
            tools: tools.iter().map(|tool| text(tool)).collect(),
            schema: schema.as_deref().map(of_schema),
            max_turns: max_turns.map(LimitBody::of),
        }
    }

    pub(super) fn into_left(self) -> Result<Elsewhere, String> {
        let Self { from, model, tools, schema, max_turns } = self;
        Ok(Elsewhere {
            from: from.into_shipped(),
            model: model.into(),
            tools: tools.into_iter().map(Into::into).collect(),
            schema: schema.map(into_schema).transpose()?,
            max_turns: max_turns.map(LimitBody::into_limit),
        })
    }
}

impl LimitBody {
    fn of(limit: TurnLimit) -> Self {
        let source = match limit.source {
            LimitSource::Flag => SourceBody::Flag,
            LimitSource::Task => SourceBody::Task,
            LimitSource::Definition => SourceBody::Definition,
            LimitSource::Config => SourceBody::Config,
        };
        Self { most: limit.most, source }
    }

    fn into_limit(self) -> TurnLimit {
        let source = match self.source {
            SourceBody::Flag => LimitSource::Flag,
            SourceBody::Task => LimitSource::Task,
            SourceBody::Definition => LimitSource::Definition,
            SourceBody::Config => LimitSource::Config,
        };
        TurnLimit { most: self.most, source }
    }
}

impl<'a> ShippedBody<'a> {
    pub(super) fn of(shipped: &'a Shipped) -> Self {
        let Shipped { blob, body } = shipped;
        Self { blob: text(blob), body: text(body) }
    }

    pub(super) fn into_shipped(self) -> Shipped {
        let Self { blob, body } = self;
        Shipped { blob: blob.into(), body: body.into() }
    }
}

pub(super) fn of_schema(schema: &AnswerSchema) -> Text<'_> {
    schema.source().to_string().into()
}

pub(super) fn into_schema(schema: Text<'_>) -> Result<Arc<AnswerSchema>, String> {
    AnswerSchema::parse(&schema).map(Arc::new)
}
