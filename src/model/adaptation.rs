//! Changes to a model's requests that its server would otherwise refuse.
//!
//! The session log and the history keep the original conversation. An [`Adaptation`]
//! is one small change that is made while a request is encoded, and only for the
//! server that refused the unchanged request. The same conversation is always changed
//! in the same way, and the change of a message depends only on earlier messages, so
//! later turns, forks and siblings still share their prefix.

mod conversation;
mod learned;
mod lessons;
mod names;
mod store;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::api::Options;
use crate::config::{OutputLimitKey, ReasoningBack};
use crate::message::Prefix;

pub use learned::{AdaptationClaim, LearnedAdaptations, Untried};
pub(super) use lessons::{SentRequest, advice, candidates, is_template_error, keys_of, sentence};
pub use store::AdaptationStore;

/// Maximum number of times one request is repeated with a further adaptation. More
/// than any known server needs; it ends a request that fails in a new way each
/// time.
pub const ADAPTATIONS_CAP: u32 = 12;

/// One change to the requests of a model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Adaptation {
    /// This key of a request, a message or a tool is left out.
    Without(Arc<str>),
    /// The output limit goes under the other one of its two keys.
    OtherLimitKey,
    /// Messages with calls carry `reasoning_content`.
    ReasoningContent,
    /// A message of calls alone has an empty text in place of `null`.
    EmptyContent,
    /// A message of calls alone has a short text.
    TextBesideCalls,
    /// Messages without content get a note as their text.
    NoEmptyMessages,
    /// Call ids have at most 40 characters, all of `[A-Za-z0-9_-]`.
    ShortCallIds,
    /// Call ids have nine letters and digits, as Mistral wants them.
    NineCharacterCallIds,
    /// User and assistant messages alternate: adjacent ones are joined, and a
    /// short assistant message stands between outputs and a user message.
    AlternatingRoles,
    /// A message makes one call; its output follows.
    SingleCalls,
    /// The system prompt is the beginning of the first user message.
    NoSystemRole,
    /// Calls and outputs are sent as plain text.
    CallsAsText,
    /// No tool is offered; calls and outputs are sent as plain text.
    NoTools,
    /// This tool is not offered.
    WithoutTool(Arc<str>),
    /// No image is sent.
    NoImages,
    /// This image or sealed reasoning is not sent.
    WithoutContent(ContentId),
}

/// Identifies an image or sealed reasoning by its hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(Arc<str>);

impl ContentId {
    /// Hexadecimal digits of an id: enough that no two contents share one.
    const DIGITS: usize = 16;

    fn new(content: &str) -> Self {
        Self(blake3::hash(content.as_bytes()).to_hex()[..Self::DIGITS].into())
    }
}

/// All changes to the requests of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Adaptations(BTreeSet<Adaptation>);

impl Adaptations {
    /// Returns the adaptations that a model's name implies: those without which every
    /// server of the model refuses conversations that another model began.
    #[must_use]
    pub fn from_model_name(model: &str) -> Self {
        /// Families of Mistral, whose call ids have nine letters and digits.
        const MISTRAL: [&str; 7] =
            ["mistral", "ministral", "mixtral", "devstral", "codestral", "magistral", "pixtral"];
        let model = model.to_ascii_lowercase();
        let is_mistral = MISTRAL.iter().any(|family| model.contains(family));
        is_mistral.then_some(Adaptation::NineCharacterCallIds).into_iter().collect()
    }

    /// Returns whether requests are sent as they are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the adaptations, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = &Adaptation> {
        self.0.iter()
    }

    /// Returns these adaptations and one more.
    #[must_use]
    pub fn with(&self, adaptation: Adaptation) -> Self {
        let mut all = self.clone();
        all.0.insert(adaptation);
        all
    }

    fn remove(&mut self, adaptations: &[&Adaptation]) {
        self.0.retain(|it| !adaptations.contains(&it));
    }

    fn has(&self, adaptation: &Adaptation) -> bool {
        self.0.contains(adaptation)
    }

    fn is_without(&self, content: &str) -> bool {
        let any = |it: &Adaptation| matches!(it, Adaptation::WithoutContent(_));
        // Hashing an image costs more than the look.
        self.0.iter().any(any) && self.has(&Adaptation::WithoutContent(ContentId::new(content)))
    }

    fn is_without_tool(&self, name: &str) -> bool {
        self.0.iter().any(|it| matches!(it, Adaptation::WithoutTool(tool) if **tool == *name))
    }

    /// Returns the options of a request to this model.
    pub(super) fn options(&self, options: &Options) -> Options {
        let mut options = options.clone();
        for adaptation in &self.0 {
            match adaptation {
                Adaptation::Without(key) if **key == *"reasoning_content" => {
                    options.quirks.reasoning = ReasoningBack::None;
                }
                Adaptation::Without(key) => {
                    options.without.insert(Arc::clone(key));
                }
                Adaptation::OtherLimitKey => {
                    options.quirks.output_limit = match options.quirks.output_limit {
                        OutputLimitKey::MaxTokens => OutputLimitKey::MaxCompletionTokens,
                        OutputLimitKey::MaxCompletionTokens => OutputLimitKey::MaxTokens,
                    };
                }
                Adaptation::ReasoningContent => {
                    options.quirks.reasoning = ReasoningBack::WithCalls;
                }
                Adaptation::EmptyContent => options.sends_null_content = false,
                Adaptation::TextBesideCalls
                | Adaptation::NoEmptyMessages
                | Adaptation::ShortCallIds
                | Adaptation::NineCharacterCallIds
                | Adaptation::AlternatingRoles
                | Adaptation::SingleCalls
                | Adaptation::NoSystemRole
                | Adaptation::CallsAsText
                | Adaptation::NoTools
                | Adaptation::WithoutTool(_)
                | Adaptation::NoImages
                | Adaptation::WithoutContent(_) => {}
            }
        }
        options
    }

    /// Returns the conversation as it is sent to this model: the same one, with
    /// the bytes it was rendered to, if nothing in it changes.
    pub(super) fn prefix(&self, prefix: &Prefix) -> Prefix {
        let is_setting = |it: &Adaptation| {
            // Some keys are of messages or of tools.
            matches!(it, Adaptation::Without(key) if !lessons::INNER_KEYS.contains(&&**key))
                || *it == Adaptation::OtherLimitKey
        };
        match self.0.iter().all(is_setting) {
            true => prefix.clone(),
            false => conversation::adapt(self, prefix),
        }
    }
}

impl FromIterator<Adaptation> for Adaptations {
    fn from_iter<I: IntoIterator<Item = Adaptation>>(adaptations: I) -> Self {
        Self(adaptations.into_iter().collect())
    }
}

impl Extend<Adaptation> for Adaptations {
    fn extend<I: IntoIterator<Item = Adaptation>>(&mut self, adaptations: I) {
        self.0.extend(adaptations);
    }
}

/// A request that a server refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRequest {
    /// All texts of the server's answer, in lower case but for quoted names.
    pub said: Arc<str>,
    /// The adaptations that the request was sent with.
    pub adaptations: Adaptations,
}

impl RefusedRequest {
    /// Reads a server's answer, without keys: its JSON, or its text as a string.
    #[must_use]
    pub fn new(answer: &Value) -> Self {
        Self { said: lessons::spoken(answer).into(), adaptations: Adaptations::default() }
    }
}
