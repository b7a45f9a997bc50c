//! Forms that an editor has a person fill in: with its own means, or option by
//! option where it has none.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_client_protocol::v1::schema;
use schema::{
    CreateElicitationRequest, ElicitationAction, ElicitationContentValue, ElicitationFormMode,
    ElicitationPropertySchema, ElicitationSchema, ElicitationSessionScope, EnumOption,
    IntegerPropertySchema, MultiSelectPropertySchema, NumberPropertySchema, StringPropertySchema,
};

use super::questions::Asked;
use crate::event::{Choice, Entry, Field, Form, Takes, Verdict};

/// How a form is filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filling {
    /// Not by this editor.
    Impossible,
    /// As one form.
    Whole,
    /// Field by field, each with its options.
    ByOptions,
}

impl Filling {
    /// Returns how an editor that has forms, or has none, has one filled in.
    #[must_use]
    pub fn of(form: &Form, has_forms: bool) -> Self {
        let is_choice = |field: &Field| !field.options().is_empty() && !field.takes_several();
        match has_forms {
            true => Self::Whole,
            false if form.fields.iter().all(is_choice) => Self::ByOptions,
            false => Self::Impossible,
        }
    }
}

/// Returns the request that has a form filled in.
#[must_use]
pub fn elicitation(
    session: &schema::SessionId,
    asked: &Asked,
    form: &Form,
) -> CreateElicitationRequest {
    let call = asked.call.tool_call_id.clone();
    let scope = ElicitationSessionScope::new(session.clone()).tool_call_id(call);
    let fields = form.fields.iter().enumerate();
    let schema = fields.fold(ElicitationSchema::new(), |schema, (number, field)| {
        schema.property(name(number), property(field), !field.may_be_empty)
    });
    let first = form.fields.first().map_or("", |field| &*field.text);
    let message = if form.message.is_empty() { first } else { &*form.message };
    let message = match &asked.name {
        Some(name) => format!("the agent “{name}” asks: {message}"),
        None => message.to_owned(),
    };
    CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), message)
}

/// Returns what was said, field by field.
#[must_use]
pub fn filled(form: &Form, action: &ElicitationAction) -> Verdict {
    let ElicitationAction::Accept(accepted) = action else { return Verdict::No };
    let none = BTreeMap::new();
    let content = accepted.content.as_ref().unwrap_or(&none);
    let entry = |(number, field): (usize, &Field)| match content.get(&name(number)) {
        None => Entry::Nothing,
        Some(ElicitationContentValue::StringArray(labels)) => {
            Entry::Picked(labels.iter().filter_map(|label| picked(field, label)).collect())
        }
        Some(ElicitationContentValue::String(text)) => picked(field, text)
            .map_or_else(|| Entry::Words(text.as_str().into()), |it| Entry::Picked(vec![it])),
        Some(ElicitationContentValue::Integer(number)) => Entry::Words(number.to_string().into()),
        Some(ElicitationContentValue::Number(number)) => Entry::Words(number.to_string().into()),
        Some(ElicitationContentValue::Boolean(is_so)) => Entry::Words(is_so.to_string().into()),
        Some(_) => Entry::Nothing,
    };
    let entries: Arc<[Entry]> = form.fields.iter().enumerate().map(entry).collect();
    Verdict::Filled(entries)
}

/// Returns what a field is called on the wire. Its own name is a whole sentence,
/// and the wire has no order but that of names.
fn name(number: usize) -> String {
    format!("field_{number:02}")
}

fn picked(field: &Field, label: &str) -> Option<u32> {
    let found = field.options().iter().position(|option| *option.label == *label)?;
    u32::try_from(found).ok()
}

fn property(field: &Field) -> ElicitationPropertySchema {
    let header = (!field.header.is_empty()).then(|| field.header.to_string());
    let text = field.text.to_string();
    match &field.takes {
        Takes::Options { options, several: true, own_words: _ } => {
            ElicitationPropertySchema::Array(
                MultiSelectPropertySchema::titled(titled(options)).title(header).description(text),
            )
        }
        // A text with options takes nothing else, so its own words are given up.
        Takes::Options { options, several: false, own_words: _ } => {
            let schema = StringPropertySchema::new().title(header).description(text);
            ElicitationPropertySchema::String(schema.one_of(titled(options)))
        }
        Takes::Words => {
            let schema = StringPropertySchema::new().title(header).description(text);
            ElicitationPropertySchema::String(schema)
        }
        Takes::Number { is_whole: true } => {
            let schema = IntegerPropertySchema::new().title(header).description(text);
            ElicitationPropertySchema::Integer(schema)
        }
        Takes::Number { is_whole: false } => {
            let schema = NumberPropertySchema::new().title(header).description(text);
            ElicitationPropertySchema::Number(schema)
        }
    }
}

fn titled(options: &[Choice]) -> Vec<EnumOption> {
    let option = |Choice { label, description }: &Choice| {
        let described = (!description.is_empty()).then(|| description.to_string());
        EnumOption::new(label.to_string(), label.to_string()).description(described)
    };
    options.iter().map(option).collect()
}
