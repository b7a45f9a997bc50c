//! The JSON of what slots are started for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::json::{Text, name, text, unit};
use super::tasks::TaskBody;
use super::{Shipped, Work};
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
        })
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
