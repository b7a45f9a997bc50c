//! Providers and local servers that need no more than their name: where they
//! are, which variable holds their key, which API they speak, and where they
//! depart from what that API's documents say.
//!
//! All of it stands in one table, from the providers' own documents. What is
//! known of single models is in `known`.

use super::entry::Api;
use super::known::{self, Known};

/// A provider or local server.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    /// What people call it: `-m NAME:MODEL` and `preset = "NAME"`.
    pub name: &'static str,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// Where it is, without a slash at its end.
    pub base_url: &'static str,
    /// The environment variable that moves it elsewhere, as it does for the
    /// provider's own programs.
    pub moved_by: Option<Mover>,
    /// The environment variable that holds its key; `None` if it asks for none.
    pub key_env: Option<&'static str>,
    /// How it is spoken to.
    pub api: Api,
    /// Where it departs from the documents.
    pub quirks: Quirks,
    /// Models of it that are known.
    pub known: &'static [Known],
}

/// An environment variable that says where a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mover {
    /// `OPENAI_BASE_URL`. What it points at speaks Chat Completions: nearly
    /// every server does, and few speak Responses.
    OpenAiBaseUrl,
    /// `ANTHROPIC_BASE_URL`.
    AnthropicBaseUrl,
    /// `OLLAMA_HOST`: a host and a port, not a URL.
    OllamaHost,
}

/// Where a server departs from what the documents of its API say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// The key of Chat Completions that carries the output limit.
    pub output_limit: OutputLimitKey,
    /// The key of Chat Completions that carries the effort.
    pub effort: EffortKey,
    /// What Chat Completions must be sent back of a model's reasoning.
    pub reasoning: ReasoningBack,
    /// When Chat Completions counts tokens in a stream.
    pub usage: UsageInStream,
    /// Whether models see images of which nothing else is known.
    pub images: bool,
}

impl Quirks {
    /// What servers of which nothing is known are taken to be like. Each choice
    /// is the one that most servers understand.
    pub const NONE: Self = Self {
        output_limit: OutputLimitKey::MaxTokens,
        effort: EffortKey::ReasoningEffort,
        reasoning: ReasoningBack::None,
        usage: UsageInStream::OnRequest,
        images: false,
    };
}

impl Default for Quirks {
    fn default() -> Self {
        Self::NONE
    }
}

/// The key of Chat Completions that carries the output limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputLimitKey {
    /// `max_tokens`, the older one. OpenAI's newer models refuse it.
    MaxTokens,
    /// `max_completion_tokens`. Many servers do not know it.
    MaxCompletionTokens,
}

impl OutputLimitKey {
    /// Returns the key.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// The key of Chat Completions that carries the effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffortKey {
    /// `"reasoning_effort": "low"`.
    ReasoningEffort,
    /// `"reasoning": {"effort": "low"}`.
    Reasoning,
}

/// What Chat Completions must be sent back of a model's reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningBack {
    /// Nothing.
    None,
    /// `reasoning_content` of every message of the model that has calls, also
    /// where it is empty: without the key the request is refused.
    WithCalls,
}

/// When Chat Completions counts tokens in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageInStream {
    /// If `stream_options` asks for it.
    OnRequest,
    /// Always; asking changes nothing.
    Always,
}

/// Every preset: hosted ones, then those on one's own machine.
pub static PRESETS: [Preset; 10] = [
    Preset {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        moved_by: Some(Mover::OpenAiBaseUrl),
        key_env: Some("OPENAI_API_KEY"),
        // OpenAI recommends it for everything new, and its reasoning models
        // answer better there.
        api: Api::Responses,
        quirks: Quirks {
            output_limit: OutputLimitKey::MaxCompletionTokens,
            images: true,
            ..Quirks::NONE
        },
        known: &known::OPENAI,
        ..HOSTED
    },
    Preset {
        name: "anthropic",
        base_url: "https://api.anthropic.com/v1",
        moved_by: Some(Mover::AnthropicBaseUrl),
        key_env: Some("ANTHROPIC_API_KEY"),
        api: Api::Anthropic,
        quirks: Quirks { images: true, ..Quirks::NONE },
        known: &known::ANTHROPIC,
        ..HOSTED
    },
    Preset {
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        key_env: Some("OPENROUTER_API_KEY"),
        quirks: Quirks {
            effort: EffortKey::Reasoning,
            usage: UsageInStream::Always,
            ..Quirks::NONE
        },
        ..HOSTED
    },
    Preset {
        name: "deepseek",
        base_url: "https://api.deepseek.com",
        key_env: Some("DEEPSEEK_API_KEY"),
        quirks: Quirks { reasoning: ReasoningBack::WithCalls, ..Quirks::NONE },
        known: &known::DEEPSEEK,
        ..HOSTED
    },
    Preset {
        name: "dashscope",
        alias: Some("qwen"),
        // The international one; those of Beijing and Virginia have keys of
        // their own.
        base_url: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key_env: Some("DASHSCOPE_API_KEY"),
        ..HOSTED
    },
    Preset {
        name: "groq",
        base_url: "https://api.groq.com/openai/v1",
        key_env: Some("GROQ_API_KEY"),
        quirks: Quirks { output_limit: OutputLimitKey::MaxCompletionTokens, ..Quirks::NONE },
        ..HOSTED
    },
    Preset {
        name: "ollama",
        base_url: "http://127.0.0.1:11434/v1",
        moved_by: Some(Mover::OllamaHost),
        ..LOCAL
    },
    Preset { name: "lmstudio", base_url: "http://127.0.0.1:1234/v1", ..LOCAL },
    // It has announced 9931 as its next port; 8080 is that of the builds there are.
    Preset { name: "llamacpp", base_url: "http://127.0.0.1:8080/v1", ..LOCAL },
    Preset {
        name: "vllm",
        base_url: "http://127.0.0.1:8000/v1",
        quirks: Quirks { output_limit: OutputLimitKey::MaxCompletionTokens, ..Quirks::NONE },
        ..LOCAL
    },
];

/// What most hosted ones have in common.
const HOSTED: Preset = Preset {
    name: "",
    alias: None,
    base_url: "",
    moved_by: None,
    key_env: None,
    api: Api::Chat,
    quirks: Quirks::NONE,
    known: &[],
};

/// What those on one's own machine have in common: they ask for no key, and
/// which model one serves is not known.
const LOCAL: Preset = HOSTED;

impl Preset {
    /// Finds a preset by its name or its alias.
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name || preset.alias == Some(name))
    }

    /// Finds the hosted preset whose server has this host.
    #[must_use]
    pub(super) fn from_host(host: &str) -> Option<&'static Self> {
        let hosted = PRESETS.iter().filter(|preset| !preset.is_own_server());
        hosted.into_iter().find(|preset| {
            let rest = preset.base_url.strip_prefix("https://");
            rest.is_some_and(|rest| rest.split('/').next() == Some(host))
        })
    }

    /// Returns whether it is a server that people run themselves, not a hosted one.
    #[must_use]
    pub(super) fn is_own_server(&self) -> bool {
        self.key_env.is_none()
    }

    /// Splits `PRESET:MODEL`; `None` if what is before the first colon is no
    /// preset. The model may be empty.
    #[must_use]
    pub fn split(name: &str) -> Option<(&'static Self, &str)> {
        let (preset, model) = name.split_once(':')?;
        Some((Self::from_name(preset)?, model))
    }
}

impl Mover {
    /// Returns the variable's name.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::OpenAiBaseUrl => "OPENAI_BASE_URL",
            Self::AnthropicBaseUrl => "ANTHROPIC_BASE_URL",
            Self::OllamaHost => "OLLAMA_HOST",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_found_by_its_name_its_alias_and_its_host() {
        for preset in &PRESETS {
            assert_eq!(Preset::from_name(preset.name), Some(preset));
            assert!(!preset.base_url.ends_with('/'), "{}", preset.name);
            // A colon would end the name in `PRESET:MODEL`.
            assert!(preset.name.chars().all(|c| c.is_ascii_lowercase()), "{}", preset.name);
        }
        let name = |preset: Option<&'static Preset>| preset.map(|preset| preset.name);
        assert_eq!(name(Preset::from_name("qwen")), Some("dashscope"));
        assert_eq!(name(Preset::from_name("")), None);
        assert_eq!(name(Preset::from_host("api.deepseek.com")), Some("deepseek"));
        assert_eq!(name(Preset::from_host("127.0.0.1:8000")), None);
        assert_eq!(name(Preset::from_host("api.openai.com.example.com")), None);
    }

    #[test]
    fn only_the_first_colon_parts_a_preset_from_its_model() {
        let split = |name| Preset::split(name).map(|(preset, model)| (preset.name, model));
        assert_eq!(split("ollama:qwen3:8b"), Some(("ollama", "qwen3:8b")));
        assert_eq!(split("openrouter:a/b"), Some(("openrouter", "a/b")));
        assert_eq!(split("groq:"), Some(("groq", "")));
        assert_eq!((split("qwen3:8b"), split("groq"), split(":groq")), (None, None, None));
    }
}
