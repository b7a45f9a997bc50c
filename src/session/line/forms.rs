//! The bodies of what a person is asked to say, and of what is said to it.

use serde::{Deserialize, Serialize};

use super::Text;
use super::body::text;
use crate::event::{Choice, Entry, Field, Form, Takes};
use crate::message::CallId;

#[derive(Serialize, Deserialize)]
pub(super) struct FormBody<'a> {
    call: Text<'a>,
    tool: Text<'a>,
    arguments: Text<'a>,
    message: Text<'a>,
    #[serde(borrow)]
    fields: Vec<FieldBody<'a>>,
}

#[derive(Serialize, Deserialize)]
struct FieldBody<'a> {
    name: Text<'a>,
    header: Text<'a>,
    text: Text<'a>,
    #[serde(borrow)]
    takes: TakesBody<'a>,
    may_be_empty: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TakesBody<'a> {
    #[serde(borrow)]
    Options(OptionsBody<'a>),
    Words,
    Number {
        is_whole: bool,
    },
}

#[derive(Serialize, Deserialize)]
struct OptionsBody<'a> {
    #[serde(borrow)]
    options: Vec<OfferedBody<'a>>,
    several: bool,
    own_words: bool,
}

#[derive(Serialize, Deserialize)]
struct OfferedBody<'a> {
    label: Text<'a>,
    description: Text<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EntryBody<'a> {
    Nothing,
    Picked(Vec<u32>),
    #[serde(borrow)]
    Words(Text<'a>),
}

impl<'a> FormBody<'a> {
    pub(super) fn of(form: &'a Form) -> Self {
        let Form { call, tool, arguments, message, fields } = form;
        Self {
            call: text(&call.0),
            tool: text(tool),
            arguments: text(arguments),
            message: text(message),
            fields: fields.iter().map(FieldBody::of).collect(),
        }
    }
}

impl From<FormBody<'_>> for Form {
    fn from(body: FormBody<'_>) -> Self {
        let FormBody { call, tool, arguments, message, fields } = body;
        Self {
            call: CallId(call.into()),
            tool: tool.into(),
            arguments: arguments.into(),
            message: message.into(),
            fields: fields.into_iter().map(Into::into).collect(),
        }
    }
}

impl<'a> FieldBody<'a> {
    fn of(field: &'a Field) -> Self {
        let Field { name, header, text: asked, takes, may_be_empty } = field;
        let takes = match takes {
            Takes::Words => TakesBody::Words,
            Takes::Number { is_whole } => TakesBody::Number { is_whole: *is_whole },
            Takes::Options { options, several, own_words } => {
                let offered = |Choice { label, description }: &'a Choice| OfferedBody {
                    label: text(label),
                    description: text(description),
                };
                TakesBody::Options(OptionsBody {
                    options: options.iter().map(offered).collect(),
                    several: *several,
                    own_words: *own_words,
                })
            }
        };
        let (name, header, text) = (text(name), text(header), text(asked));
        Self { name, header, text, takes, may_be_empty: *may_be_empty }
    }
}

impl From<FieldBody<'_>> for Field {
    fn from(body: FieldBody<'_>) -> Self {
        let FieldBody { name, header, text, takes, may_be_empty } = body;
        let takes = match takes {
            TakesBody::Words => Takes::Words,
            TakesBody::Number { is_whole } => Takes::Number { is_whole },
            TakesBody::Options(OptionsBody { options, several, own_words }) => {
                let offered = |OfferedBody { label, description }: OfferedBody<'_>| Choice {
                    label: label.into(),
                    description: description.into(),
                };
                let options = options.into_iter().map(offered).collect();
                Takes::Options { options, several, own_words }
            }
        };
        Self { name: name.into(), header: header.into(), text: text.into(), takes, may_be_empty }
    }
}

impl<'a> EntryBody<'a> {
    pub(super) fn of(given: &'a Entry) -> Self {
        match given {
            Entry::Nothing => Self::Nothing,
            Entry::Picked(picked) => Self::Picked(picked.clone()),
            Entry::Words(words) => Self::Words(text(words)),
        }
    }
}

impl From<EntryBody<'_>> for Entry {
    fn from(body: EntryBody<'_>) -> Self {
        match body {
            EntryBody::Nothing => Self::Nothing,
            EntryBody::Picked(picked) => Self::Picked(picked),
            EntryBody::Words(words) => Self::Words(words.into()),
        }
    }
}
