//! Words of servers that refuse something, by what helps then.

use super::Adaptation;

/// Words of a server that refuses a key.
pub(super) const KEY_REFUSED: [&str; 33] = [
    "not permitted",
    "extra_forbidden",
    "extra inputs",
    "extra fields",
    "additional propert",
    "unrecognized",
    "unrecognised",
    "unsupported",
    "not supported",
    "not support",
    "n't support",
    "not allowed",
    "only allowed",
    "unknown field",
    "unknown parameter",
    "unknown name",
    "unknown argument",
    "unknown key",
    "unknown property",
    "unexpected",
    "invalid field",
    "invalid parameter",
    "invalid argument",
    "invalid property",
    "not a valid",
    "not recognized",
    "not recognised",
    "not implemented",
    "not available",
    "not accept",
    "not enabled",
    "forbidden",
    "deprecated",
];

/// Words of a refusal, and what they ask for, the smallest change first.
pub(super) struct RefusalPattern {
    /// One of each of these is said.
    pub(super) words: &'static [&'static [&'static str]],
    pub(super) adaptations: &'static [Adaptation],
}

/// All families of refusals about messages, the more specific first.
pub(super) const PATTERNS: [RefusalPattern; 10] = [
    RefusalPattern {
        words: &[&["length 9", "length of 9", "nine characters", "9 characters", "length 9!"]],
        adaptations: &[Adaptation::NineCharacterCallIds],
    },
    RefusalPattern {
        words: &[
            &["call_id", "call id", "tool_calls", "tool_use.id", "tool_use_id"],
            &[
                "too long",
                "maximum length",
                "at most",
                "pattern",
                "should match",
                "must match",
                "invalid",
                "duplicate",
                "unique",
                "max_length",
                "string_above_max_length",
            ],
        ],
        adaptations: &[Adaptation::ShortCallIds],
    },
    RefusalPattern {
        words: &[&[
            "must alternate",
            "should alternate",
            "alternating",
            "\"3230\"",
            "code 3230",
            "expected last role",
            "unexpected role",
            "after role",
            "roles in a row",
            "consecutive",
            "messages in a row",
            "same role",
            "incorrect role",
            "role order",
        ]],
        adaptations: &[Adaptation::AlternatingRoles, Adaptation::CallsAsText],
    },
    RefusalPattern {
        words: &[&[
            "single tool-call",
            "single tool call",
            "one tool call",
            "one tool-call",
            "multiple tool calls",
            "parallel tool call",
            "only one function call",
            "parallel function call",
        ]],
        adaptations: &[Adaptation::SingleCalls],
    },
    RefusalPattern {
        words: &[
            &[
                "system role",
                "role system",
                "role: system",
                "role 'system'",
                "role \"system\"",
                "role `system`",
                "'system' role",
                "system message",
                "system prompt",
                "system instruction",
                "developer instruction",
                "'system' with this model",
                "'system'",
                "\"system\"",
            ],
            &[
                "support",
                "not allowed",
                "unknown",
                "unexpected",
                "invalid",
                "not enabled",
                "not one of",
                "not permitted",
                "only user",
            ],
        ],
        adaptations: &[Adaptation::NoSystemRole],
    },
    RefusalPattern {
        words: &[
            &["reasoning_content"],
            &["missing", "must be passed", "required", "must be provided", "must contain"],
        ],
        adaptations: &[Adaptation::ReasoningContent],
    },
    RefusalPattern {
        words: &[&[
            "non-empty",
            "nonempty",
            "must not be empty",
            "not be empty",
            "cannot be empty",
            "can't be empty",
            "cannot be blank",
            "content is empty",
            "message is empty",
            "text is empty",
            "empty content",
            "empty message",
            "empty text",
            "at least one content",
            "at least one parts",
            "either content or tool_calls",
            "content or tool_calls",
            "'content' or 'tool_calls'",
            "must have a string or a list",
            "minimum length",
            "too short",
            "at least 1 character",
        ]],
        adaptations: &[
            Adaptation::NoEmptyMessages,
            Adaptation::EmptyContent,
            Adaptation::TextBesideCalls,
        ],
    },
    RefusalPattern {
        words: &[
            &["content"],
            &[
                "null",
                "none",
                "valid string",
                "a string",
                "missing",
                "required",
                "string_type",
                "str type",
                "invalid type",
                "expected string",
                "content type",
            ],
        ],
        adaptations: &[Adaptation::EmptyContent, Adaptation::NoImages, Adaptation::TextBesideCalls],
    },
    RefusalPattern {
        words: &[
            &[
                "tool role",
                "role tool",
                "role: tool",
                "role 'tool'",
                "\"tool\"",
                "'tool'",
                "tool message",
            ],
            &[
                "not support",
                "unsupported",
                "unknown",
                "invalid",
                "not one of",
                "not allowed",
                "only user",
            ],
        ],
        adaptations: &[Adaptation::CallsAsText],
    },
    RefusalPattern { words: &[&IMAGES, &IMAGES_REFUSED], adaptations: &[Adaptation::NoImages] },
];

/// Words of images.
pub(super) const IMAGES: [&str; 8] = [
    "image",
    "vision",
    "multimodal",
    "multi-modal",
    "mmproj",
    "media type",
    "media_type",
    "picture",
];

/// Words of a model that takes no image at all.
pub(super) const IMAGES_REFUSED: [&str; 16] = [
    "does not support",
    "doesn't support",
    "do not support",
    "not support image",
    "support image input",
    "are not supported",
    "is not supported",
    "unknown variant",
    "only supports text",
    "text-only",
    "not a multimodal",
    "no vision",
    "mmproj",
    "must be a string",
    "not enabled",
    "invalid content type",
];

/// Words of reasoning.
pub(super) const REASONING: [&str; 4] = ["thinking", "reasoning", "signature", "encrypted"];

/// Words of a server that refuses reasoning it was sent back.
pub(super) const REASONING_REFUSED: [&str; 10] = [
    "cannot be modified",
    "invalid",
    "expected",
    "must start with",
    "could not be",
    "verif",
    "required following item",
    "without its",
    "not found",
    "mismatch",
];

/// Words of a model that calls no tools.
pub(super) const NO_TOOLS: [&str; 10] = [
    "not support tools",
    "not support tool",
    "not support function",
    "support tool use",
    "tools are not supported",
    "tools is not supported",
    "tool use is not supported",
    "tool calling is not supported",
    "function calling is not",
    "tool choice requires",
];

/// Words of a chat template that gives up. Servers answer 500 to them, though
/// the same request will always fail.
pub(super) const TEMPLATE_ERRORS: [&str; 6] = [
    "jinja",
    "chat template",
    "raise_exception",
    "templateerror",
    "must alternate",
    "single tool-calls at once",
];
