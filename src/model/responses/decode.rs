//! The events of an answer, as servers really send them.
//!
//! Every field may be missing, null or of a neighbouring type; unknown fields
//! and events are passed over. All is borrowed: most events are a few letters
//! of text in ten times as much of what only OpenAI needs to know.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::Usage;
use crate::model::api::lenient::{Count, Text};

/// What an event tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// More of a text, or the whole of it.
    Text(Spoken, Reach),
    /// More of a call's arguments, or the whole of them.
    Arguments(Reach),
    /// A part of an item is whole.
    PartDone,
    /// An item begins.
    ItemAdded,
    /// An item is whole.
    ItemDone,
    /// The answer has ended, well or not.
    Ended(Ending),
    /// There is no answer.
    Error,
    /// Nothing that matters here.
    Other,
}

/// Whose text it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoken {
    Output,
    Refusal,
    Summary,
    Reasoning,
}

/// How much of a text an event holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    More,
    Whole,
}

/// What an event says of the end; the response in it may know better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

impl Kind {
    fn named(name: &str) -> Self {
        match name {
            "response.output_text.delta" => Self::Text(Spoken::Output, Reach::More),
            "response.output_text.done" => Self::Text(Spoken::Output, Reach::Whole),
            "response.refusal.delta" => Self::Text(Spoken::Refusal, Reach::More),
            "response.refusal.done" => Self::Text(Spoken::Refusal, Reach::Whole),
            "response.reasoning_summary_text.delta" | "response.reasoning_summary.delta" => {
                Self::Text(Spoken::Summary, Reach::More)
            }
            "response.reasoning_summary_text.done" | "response.reasoning_summary.done" => {
                Self::Text(Spoken::Summary, Reach::Whole)
            }
            // The shorter names are those of the first servers that had it.
            "response.reasoning_text.delta" | "response.reasoning.delta" => {
                Self::Text(Spoken::Reasoning, Reach::More)
            }
            "response.reasoning_text.done" | "response.reasoning.done" => {
                Self::Text(Spoken::Reasoning, Reach::Whole)
            }
            "response.function_call_arguments.delta" => Self::Arguments(Reach::More),
            "response.function_call_arguments.done" => Self::Arguments(Reach::Whole),
            "response.content_part.done" | "response.reasoning_summary_part.done" => Self::PartDone,
            "response.output_item.added" => Self::ItemAdded,
            "response.output_item.done" => Self::ItemDone,
            "response.completed" | "response.done" => Self::Ended(Ending::Completed),
            "response.incomplete" => Self::Ended(Ending::Incomplete),
            "response.failed" => Self::Ended(Ending::Failed),
            "response.cancelled" => Self::Ended(Ending::Cancelled),
            "error" | "response.error" => Self::Error,
            _ => Self::Other,
        }
    }
}

/// One event.
#[derive(Debug, Deserialize)]
pub(super) struct WireEvent<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) item_id: Text<'a>,
    #[serde(default)]
    pub(super) output_index: Count,
    #[serde(default)]
    content_index: Count,
    #[serde(default)]
    summary_index: Count,
    #[serde(borrow, default)]
    pub(super) delta: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    /// The tool's, beside whole arguments.
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) part: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

impl<'a> WireEvent<'a> {
    /// Returns what the event tells. Some servers say it only in the event's
    /// name.
    pub(super) fn kind(&self, name: &str) -> Kind {
        let kind = self.kind.get();
        let kind = Kind::named(kind.as_deref().unwrap_or(name));
        let is_error = self.error.is_some() || name.eq_ignore_ascii_case("error");
        if kind == Kind::Other && is_error { Kind::Error } else { kind }
    }

    /// Returns the text that the event brings.
    pub(super) fn spoken(&self, spoken: Spoken, reach: Reach) -> Text<'a> {
        match (reach, spoken) {
            (Reach::More, _) => self.delta,
            (Reach::Whole, Spoken::Refusal) => self.refusal,
            (Reach::Whole, Spoken::Output | Spoken::Summary | Spoken::Reasoning) => self.text,
        }
    }

    /// Returns the number of the part of the item that the event is about.
    pub(super) fn part_index(&self, spoken: Spoken) -> Option<u64> {
        match spoken {
            Spoken::Summary => self.summary_index.0,
            Spoken::Output | Spoken::Refusal | Spoken::Reasoning => self.content_index.0,
        }
    }
}

/// One item of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct WireItem<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) call_id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) phase: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) summary: Option<&'a RawValue>,
}

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Call,
}

impl WireItem<'_> {
    /// Returns what the item is; `None` if it is none of ours.
    pub(super) fn kind(&self) -> Option<ItemKind> {
        match &*self.kind.get()? {
            "message" => Some(ItemKind::Message),
            "reasoning" => Some(ItemKind::Reasoning),
            "function_call" => Some(ItemKind::Call),
            _ => None,
        }
    }
}

/// A part of a message or of reasoning.
#[derive(Debug, Default, Deserialize)]
pub(super) struct WirePart<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
}

impl<'a> WirePart<'a> {
    /// Returns whose text the part is; `None` if it is nobody's.
    pub(super) fn spoken(&self) -> Option<Spoken> {
        match &*self.kind.get()? {
            "output_text" | "text" => Some(Spoken::Output),
            "refusal" => Some(Spoken::Refusal),
            "summary_text" => Some(Spoken::Summary),
            "reasoning_text" => Some(Spoken::Reasoning),
            _ => None,
        }
    }

    /// Returns its text.
    pub(super) fn text(&self) -> Option<Cow<'a, str>> {
        self.text.get().or_else(|| self.refusal.get())
    }
}

/// Reads a list of parts, or the text that stands in its place.
pub(super) fn parts(raw: &RawValue) -> Vec<WirePart<'_>> {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| {
        let text = serde_json::from_str(raw.get()).unwrap_or_default();
        vec![WirePart { text, ..WirePart::default() }]
    })
}

/// The answer as a whole, as the last event has it.
#[derive(Debug, Deserialize)]
pub(super) struct WireResponse<'a> {
    #[serde(borrow, default)]
    status: Text<'a>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    incomplete_details: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

impl<'a> WireResponse<'a> {
    /// Returns the error that this is instead of an answer.
    pub(super) fn error(&self) -> Option<Value> {
        self.error.map(value)
    }

    /// Returns how the answer ended, where the response tells.
    pub(super) fn ending(&self) -> Option<Ending> {
        match &*self.status.get()? {
            "completed" => Some(Ending::Completed),
            "incomplete" => Some(Ending::Incomplete),
            "failed" => Some(Ending::Failed),
            "cancelled" => Some(Ending::Cancelled),
            _ => None,
        }
    }

    /// Returns the word for how it ended; empty if it has none.
    pub(super) fn status(&self) -> Cow<'a, str> {
        self.status.get().unwrap_or_default()
    }

    /// Returns the word for why the answer is not complete.
    pub(super) fn incomplete_reason(&self) -> Option<Cow<'a, str>> {
        #[derive(Deserialize)]
        struct Details<'a> {
            #[serde(borrow, default)]
            reason: Text<'a>,
        }
        let details = self.incomplete_details.map_or("{}", RawValue::get);
        serde_json::from_str::<Details<'a>>(details).ok()?.reason.get()
    }

    /// Tells whether there is a list of items, be it empty.
    pub(super) fn has_output(&self) -> bool {
        self.output.is_some()
    }

    /// Returns the items of the answer.
    pub(super) fn output(&self) -> Vec<&'a RawValue> {
        let output = self.output.map_or("[]", RawValue::get);
        serde_json::from_str(output).unwrap_or_default()
    }

    /// Returns the counted tokens, if there is a count.
    pub(super) fn usage(&self) -> Option<Usage> {
        let usage: WireUsage = serde_json::from_str(self.usage?.get()).ok()?;
        let prompt = usage.input_tokens.0.unwrap_or(0);
        let details = usage.input_tokens_details.unwrap_or_default();
        let read = details.cached_tokens.0.unwrap_or(0);
        let written = details.cache_write_tokens.0.unwrap_or(0);
        Some(Usage {
            // All of them are in the sum.
            input: prompt.saturating_sub(read).saturating_sub(written),
            // Reasoning too.
            output: usage.output_tokens.0.unwrap_or(0),
            cache_read: read,
            cache_creation: written,
            ..Usage::default()
        })
    }
}

/// Reads what an error says. Half a character or a thousand levels pass as raw
/// JSON; then it is its own text.
fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| Value::String(raw.get().to_owned()))
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    input_tokens_details: Option<WireDetails>,
}

#[derive(Default, Deserialize)]
struct WireDetails {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
}
