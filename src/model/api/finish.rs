//! The meaning of the words with which providers end an answer: one table for all
//! APIs, since gateways pass the words of one API on in the shape of another.
//!
//! Only a word in the table proves that an answer is whole. The parts of any other
//! word can at most say what went wrong.

use super::super::http::fault;
use super::super::http::secrets::Secrets;
use super::super::{ModelError, ModelErrorKind};
use crate::message::StopReason;

/// The meaning of the word that ends an answer, in rising order of weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::model) enum FinishMeaning {
    /// The model said all it had to say.
    Whole,
    /// The model waits for the outputs of its calls.
    ToolCalls,
    /// The answer reached its output limit.
    OutputLimit,
    /// The prompt and the answer together filled the context window.
    ContextFull,
    /// The model wrote something that its provider could not use.
    Malformed,
    /// The provider failed, or was made to stop.
    Failed,
    /// The provider withheld the rest.
    Withheld,
}

/// The documented words, in the form that [`normalized`] gives them.
const WORDS: [(FinishMeaning, &[&str]); 7] = [
    (
        FinishMeaning::Whole,
        &[
            // OpenAI and most others; Google and Cohere in capitals.
            "stop",
            "stop_sequence",
            "complete",
            "completed",
            // Anthropic, Bedrock.
            "end_turn",
            // Text Generation Inference, Together, watsonx, LM Studio.
            "eos",
            "eos_token",
            "eos_found",
            "eos_token_found",
            "stop_token",
            "stop_string",
            "stop_string_found",
            "stop_word",
            "stop_words",
            // Baidu, and servers that name the last token.
            "normal",
            "end",
            "ended",
            "end_of_turn",
            "end_of_text",
            "end_of_sequence",
            "end_of_message",
            "eot",
            "eom",
            "im_end",
            "stopped",
            "done",
            "finish",
            "finished",
            "success",
        ],
    ),
    (
        FinishMeaning::ToolCalls,
        &[
            "tool_calls",
            "tool_call",
            "toolcalls",
            "tool_use",
            "tool_uses",
            "function_call",
            "function_calls",
        ],
    ),
    (
        FinishMeaning::OutputLimit,
        &[
            "length",
            "max_tokens",
            "max_token",
            "max_output",
            "max_output_tokens",
            "max_completion_tokens",
            "max_new_tokens",
            "max_length",
            "max_len",
            "max_tokens_reached",
            "max_predicted_tokens_reached",
            "token_limit",
            "length_limit",
            "output_limit",
            "limit",
        ],
    ),
    (
        FinishMeaning::ContextFull,
        &[
            // Anthropic, Bedrock, Zhipu.
            "model_context_window_exceeded",
            "context_window_exceeded",
            "context_length_exceeded",
            // LM Studio.
            "context_length_reached",
            // Mistral.
            "model_length",
            // Cohere.
            "error_limit",
        ],
    ),
    (
        FinishMeaning::Malformed,
        &[
            // Google, also with `function_call_filter: ` before it.
            "function_call_filter",
            "malformed_function_call",
            "malformed_response",
            "unexpected_tool_call",
            "too_many_tool_calls",
            "missing_thought_signature",
            "no_image",
            "image_other",
            // Bedrock.
            "malformed_model_output",
            "malformed_tool_use",
            // vLLM, Xiaomi, Tencent.
            "repetition",
            "repetition_truncation",
        ],
    ),
    (
        FinishMeaning::Failed,
        &[
            // OpenRouter, Mistral, vLLM, Cohere.
            "error",
            // Zhipu.
            "network_error",
            // DeepSeek.
            "insufficient_system_resource",
            // vLLM, SGLang, Zhipu.
            "abort",
            "aborted",
            // Ollama: the model was loaded or unloaded, and nothing was asked.
            "load",
            "unload",
            "model_unloaded",
            // Cohere, watsonx, TensorRT-LLM, LM Studio.
            "user_cancel",
            "user_stopped",
            "cancelled",
            "timeout",
            "time_limit",
            "failed",
            // Anthropic: the request has to be sent again for the rest.
            "pause_turn",
            "compaction",
        ],
    ),
    (
        FinishMeaning::Withheld,
        &[
            "content_filter",
            "refusal",
            // Google, also with `content_filter: ` before it.
            "safety",
            "recitation",
            "language",
            "blocklist",
            "prohibited_content",
            "spii",
            "model_armor",
            "image_safety",
            "image_prohibited_content",
            "image_recitation",
            // Zhipu, Hunyuan.
            "sensitive",
            // Bedrock.
            "guardrail_intervened",
            "content_filtered",
            // Cohere.
            "error_toxic",
        ],
    ),
];

/// Parts of undocumented words. None of them means a good end.
const PARTS: [(FinishMeaning, &[&str]); 5] = [
    (
        FinishMeaning::Withheld,
        &[
            "content_filter",
            "safety",
            "refus",
            "prohibited",
            "block",
            "moderat",
            "guardrail",
            "sensitive",
            "toxic",
            "policy",
            "violat",
            "harm",
            "censor",
            "flagged",
        ],
    ),
    (
        FinishMeaning::Malformed,
        &["malformed", "repetit", "unexpected_tool", "invalid_tool", "parse"],
    ),
    (FinishMeaning::ContextFull, &["context"]),
    (
        FinishMeaning::Failed,
        &[
            "error",
            "fail",
            "abort",
            "cancel",
            "timeout",
            "timed_out",
            "interrupt",
            "unavailable",
            "overload",
            "network",
            "disconnect",
            "insufficient",
            "unload",
            "preempt",
            "evict",
            "kill",
            "shutdown",
            "incomplete",
            "truncat",
            "pause",
        ],
    ),
    (FinishMeaning::OutputLimit, &["max_", "limit", "length"]),
];

/// Words that some servers send in every piece before the end.
const ABSENT: [&str; 9] = [
    "",
    "null",
    "none",
    "nil",
    "undefined",
    "unspecified",
    "not_finished",
    "unfinished",
    "in_progress",
];

impl FinishMeaning {
    /// Returns the meaning of a provider's word; `None` if it is unknown. Some words
    /// have two parts (`content_filter: SAFETY`): the weightier one counts.
    pub(in crate::model) fn of_word(word: &str) -> Option<Self> {
        word.split(':').filter_map(|part| Self::of_part(&normalized(part))).max()
    }

    fn of_part(part: &str) -> Option<Self> {
        let listed = WORDS.iter().find(|(_, words)| words.contains(&part));
        let similar = || {
            let has_part = |parts: &[&str]| parts.iter().any(|stem| part.contains(stem));
            PARTS.iter().find(|(_, parts)| has_part(parts))
        };
        listed.or_else(similar).map(|&(meaning, _)| meaning)
    }
}

/// Returns whether a word says that the answer has not ended.
pub(in crate::model) fn is_absent(word: &str) -> bool {
    ABSENT.contains(&&*normalized(word))
}

/// Returns the word that tells more about the end: the upstream provider's own
/// where a gateway hides a failure or a limit behind a good end.
pub(in crate::model) fn telling<'a>(word: &'a str, native: &'a str) -> &'a str {
    let meaning = FinishMeaning::of_word(native);
    if meaning.is_some_and(|meaning| meaning > FinishMeaning::ToolCalls) { native } else { word }
}

/// Returns why a model stopped.
///
/// `word` is the provider's; `None` is an end that the protocol proves without a
/// word. `has_calls` outweighs a word for a good end: many servers send `stop`
/// with calls.
///
/// # Errors
///
/// The answer is not whole, or nothing proves that it is whole.
pub(in crate::model) fn stop_reason(
    word: Option<&str>,
    has_calls: bool,
    secrets: &Secrets,
) -> Result<StopReason, ModelError> {
    let ended = if has_calls { StopReason::ToolUse } else { StopReason::EndTurn };
    let Some(word) = word else { return Ok(ended) };
    let said = || {
        let word = fault::short(word.to_owned(), secrets);
        format!("the provider ended the answer with `{word}`")
    };
    let failed = |kind, message: String| Err(ModelError::new(kind, message));
    match FinishMeaning::of_word(word) {
        Some(FinishMeaning::ToolCalls) if !has_calls => {
            failed(ModelErrorKind::Unusable, format!("{}, but sent no call", said()))
        }
        Some(FinishMeaning::Whole | FinishMeaning::ToolCalls) => Ok(ended),
        Some(FinishMeaning::OutputLimit) => Ok(StopReason::MaxTokens),
        Some(FinishMeaning::Withheld) => Ok(StopReason::Refusal),
        Some(FinishMeaning::ContextFull) => {
            failed(ModelErrorKind::Overflow, format!("{}: the context window is full", said()))
        }
        Some(FinishMeaning::Malformed) => failed(ModelErrorKind::Unusable, said()),
        Some(FinishMeaning::Failed) => failed(ModelErrorKind::Cut, said()),
        None => failed(
            ModelErrorKind::Unusable,
            format!("{}, an unknown reason, so the answer may be incomplete", said()),
        ),
    }
}

/// Returns why a model stopped whose answer the provider calls incomplete, for
/// the reason in `word`.
///
/// # Errors
///
/// The reason is neither a limit of the answer nor a filter.
pub(in crate::model) fn incomplete(
    word: &str,
    secrets: &Secrets,
) -> Result<StopReason, ModelError> {
    match stop_reason(Some(word), false, secrets)? {
        stop @ (StopReason::MaxTokens | StopReason::Refusal) => Ok(stop),
        StopReason::EndTurn | StopReason::ToolUse => {
            let word = fault::short(word.to_owned(), secrets);
            let message = format!("the provider calls the answer incomplete: `{word}`");
            Err(ModelError::new(ModelErrorKind::Cut, message))
        }
    }
}

/// Returns a word in lower case with `_` between its parts, however its provider
/// spells it: `MAX_TOKENS`, `tool-calls`, `eosFound`, `FinishReason.STOP`.
fn normalized(word: &str) -> String {
    let mut normal = String::with_capacity(word.len() + 4);
    let mut after_lower = false;
    for character in word.trim().chars() {
        if character.is_uppercase() && after_lower {
            normal.push('_');
        }
        after_lower = character.is_lowercase();
        match character {
            '-' | ' ' | '.' => normal.push('_'),
            other => normal.extend(other.to_lowercase()),
        }
    }
    for prefix in ["finish_reason_", "stop_reason_"] {
        if let Some(rest) = normal.strip_prefix(prefix) {
            return rest.to_owned();
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the stop reason, or the kind of the error.
    fn ends(word: &str, has_calls: bool) -> Result<StopReason, ModelErrorKind> {
        stop_reason(Some(word), has_calls, &Secrets::default()).map_err(|error| error.kind)
    }

    #[test]
    fn every_word_of_the_table_ends_an_answer_as_it_says() {
        for (meaning, words) in WORDS {
            let expected = match meaning {
                FinishMeaning::Whole => Ok(StopReason::EndTurn),
                FinishMeaning::ToolCalls | FinishMeaning::Malformed => {
                    Err(ModelErrorKind::Unusable)
                }
                FinishMeaning::OutputLimit => Ok(StopReason::MaxTokens),
                FinishMeaning::ContextFull => Err(ModelErrorKind::Overflow),
                FinishMeaning::Failed => Err(ModelErrorKind::Cut),
                FinishMeaning::Withheld => Ok(StopReason::Refusal),
            };
            for word in words {
                for spelt in [(*word).to_owned(), word.to_uppercase(), word.replace('_', "-")] {
                    assert_eq!(ends(&spelt, false), expected, "{spelt}");
                }
                assert!(!is_absent(word), "{word}");
            }
        }
    }

    #[test]
    fn no_word_stands_in_the_table_twice() {
        let mut words: Vec<_> = WORDS.iter().flat_map(|(_, words)| words.iter()).collect();
        let count = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), count);
    }

    #[test]
    fn calls_count_for_more_than_a_good_end_and_for_less_than_a_bad_one() {
        assert_eq!(ends("stop", true), Ok(StopReason::ToolUse));
        assert_eq!(ends("tool_calls", true), Ok(StopReason::ToolUse));
        assert_eq!(ends("length", true), Ok(StopReason::MaxTokens));
        assert_eq!(ends("network_error", true), Err(ModelErrorKind::Cut));
        assert_eq!(ends("jumped", true), Err(ModelErrorKind::Unusable));
        let unproved = |has_calls| stop_reason(None, has_calls, &Secrets::default());
        assert_eq!(unproved(true), Ok(StopReason::ToolUse));
        assert_eq!(unproved(false), Ok(StopReason::EndTurn));
    }

    #[test]
    fn words_are_known_in_every_spelling_and_by_their_parts() {
        use FinishMeaning::{ContextFull, Failed, Malformed, OutputLimit, Whole, Withheld};
        for (word, meaning) in [
            ("FinishReason.STOP", Whole),
            ("FINISH_REASON_MAX_TOKENS", OutputLimit),
            ("eosFound", Whole),
            ("contextLengthReached", ContextFull),
            ("maxPredictedTokensReached", OutputLimit),
            ("toolCalls", FinishMeaning::ToolCalls),
            ("stop: END", Whole),
            ("function_call_filter: MALFORMED_FUNCTION_CALL", Malformed),
            ("function_call_filter: UNEXPECTED_TOOL_CALL", Malformed),
            ("content_filter: SAFETY", Withheld),
            ("content_filter: OTHER", Withheld),
            ("content_filter:PROHIBITED_CONTENT", Withheld),
            ("error: rate limited", Failed),
            ("stop_sequence: ###", Whole),
            // In no documentation.
            ("upstream_error", Failed),
            ("request_aborted", Failed),
            ("server_timeout", Failed),
            ("blocked_by_policy", Withheld),
            ("moderation", Withheld),
            ("malformed_json", Malformed),
            ("context_overflow", ContextFull),
            ("max_total_tokens", OutputLimit),
            ("thinking_limit", OutputLimit),
        ] {
            assert_eq!(FinishMeaning::of_word(word), Some(meaning), "{word}");
        }
    }

    #[test]
    fn an_unknown_finish_reason_is_an_error_that_names_it() {
        for word in ["OTHER", "unknown", "jumped", "stop_early", "not_done", "endless", "42", "完"]
        {
            assert_eq!(FinishMeaning::of_word(word), None, "{word}");
            let error = stop_reason(Some(word), false, &Secrets::default()).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Unusable, "{word}");
            assert!(error.message.contains(&format!("`{word}`")), "{error}");
        }
    }

    #[test]
    fn placeholder_finish_reasons_are_absent() {
        for word in ["", " ", "null", "None", "NULL", "FINISH_REASON_UNSPECIFIED", "NOT_FINISHED"] {
            assert!(is_absent(word), "{word}");
        }
        assert!(!is_absent("stop") && !is_absent("other"));
    }

    #[test]
    fn the_word_behind_a_gateway_counts_where_it_says_worse() {
        for (word, native, expected) in [
            ("stop", "STOP", "stop"),
            ("stop", "whatever", "stop"),
            ("stop", "", "stop"),
            ("stop", "MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
            ("stop", "max_tokens", "max_tokens"),
            ("tool_calls", "tool_use", "tool_calls"),
            ("tool_calls", "completed", "tool_calls"),
            ("content_filter", "SAFETY", "SAFETY"),
            ("error", "network_error", "network_error"),
        ] {
            assert_eq!(telling(word, native), expected, "{word} {native}");
        }
    }
}
