//! The names of adaptations: in configurations, in the file of what was
//! learned, and in what the user is told.

use std::fmt;

use super::lessons::NEEDED_KEYS;
use super::{Adaptation, ContentId};

/// Adaptations that carry nothing, by name.
const PLAIN: [(&str, Adaptation); 13] = [
    ("other_limit_key", Adaptation::OtherLimitKey),
    ("reasoning_content", Adaptation::ReasoningContent),
    ("empty_content", Adaptation::EmptyContent),
    ("text_beside_calls", Adaptation::TextBesideCalls),
    ("no_empty_messages", Adaptation::NoEmptyMessages),
    ("short_call_ids", Adaptation::ShortCallIds),
    ("nine_character_call_ids", Adaptation::NineCharacterCallIds),
    ("alternating_roles", Adaptation::AlternatingRoles),
    ("single_calls", Adaptation::SingleCalls),
    ("no_system_role", Adaptation::NoSystemRole),
    ("calls_as_text", Adaptation::CallsAsText),
    ("no_tools", Adaptation::NoTools),
    ("no_images", Adaptation::NoImages),
];

const WITHOUT: &str = "without:";
const WITHOUT_TOOL: &str = "without_tool:";
const WITHOUT_CONTENT: &str = "without_content:";

impl Adaptation {
    /// The names that [`Adaptation::from_name`] knows, for an error.
    pub const RULE: &'static str = "expected `without:KEY`, `without_tool:NAME` or one of: \
        other_limit_key, reasoning_content, empty_content, text_beside_calls, no_empty_messages, \
        short_call_ids, nine_character_call_ids, alternating_roles, single_calls, no_system_role, \
        calls_as_text, no_tools, no_images";

    /// Finds an adaptation by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if let Some((_, plain)) = PLAIN.iter().find(|(known, _)| *known == name) {
            return Some(plain.clone());
        }
        let behind = |start| name.strip_prefix(start).filter(|rest| !rest.trim().is_empty());
        if let Some(key) = behind(WITHOUT).filter(|key| !NEEDED_KEYS.contains(key)) {
            return Some(Self::Without(key.into()));
        }
        if let Some(tool) = behind(WITHOUT_TOOL) {
            return Some(Self::WithoutTool(tool.into()));
        }
        let is_digit = |digit: char| matches!(digit, '0'..='9' | 'a'..='f');
        let id = behind(WITHOUT_CONTENT)
            .filter(|id| id.len() == ContentId::DIGITS && id.chars().all(is_digit));
        id.map(|id| Self::WithoutContent(ContentId(id.into())))
    }

    /// Returns what is done, as the rest of "tine ... for this model".
    #[must_use]
    pub fn describe(&self) -> String {
        let plain = match self {
            Self::Without(key) => return format!("leaves `{key}` out"),
            Self::WithoutTool(tool) => return format!("leaves the tool `{tool}` out"),
            Self::OtherLimitKey => "swaps the keys `max_tokens` and `max_completion_tokens`",
            Self::ReasoningContent => "sends `reasoning_content` back",
            Self::EmptyContent => "sends an empty text in place of `null`",
            Self::TextBesideCalls => "adds a short text to messages that contain only calls",
            Self::NoEmptyMessages => "sends a note in place of empty messages",
            Self::ShortCallIds => "shortens call ids",
            Self::NineCharacterCallIds => "sends call ids of nine letters and digits",
            Self::AlternatingRoles => {
                "joins adjacent user messages and puts a short answer between outputs and a prompt"
            }
            Self::SingleCalls => "sends parallel calls one by one",
            Self::NoSystemRole => "puts the system prompt into the first user message",
            Self::CallsAsText => "sends earlier calls and outputs as plain text",
            Self::NoTools => "offers no tools",
            Self::NoImages => "sends a note in place of images",
            Self::WithoutContent(_) => {
                "leaves the refused image or reasoning out and sends the rest"
            }
        };
        plain.to_owned()
    }

    /// Returns whether a configuration can ask for it.
    #[must_use]
    pub fn is_a_setting(&self) -> bool {
        !matches!(self, Self::WithoutContent(_))
    }
}

impl fmt::Display for Adaptation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = PLAIN.iter().find(|(_, plain)| plain == self) {
            return f.write_str(name);
        }
        match self {
            Self::Without(key) => write!(f, "{WITHOUT}{key}"),
            Self::WithoutTool(tool) => write!(f, "{WITHOUT_TOOL}{tool}"),
            Self::WithoutContent(ContentId(id)) => write!(f, "{WITHOUT_CONTENT}{id}"),
            Self::OtherLimitKey
            | Self::ReasoningContent
            | Self::EmptyContent
            | Self::TextBesideCalls
            | Self::NoEmptyMessages
            | Self::ShortCallIds
            | Self::NineCharacterCallIds
            | Self::AlternatingRoles
            | Self::SingleCalls
            | Self::NoSystemRole
            | Self::CallsAsText
            | Self::NoTools
            | Self::NoImages => unreachable!("it is in the table"),
        }
    }
}
