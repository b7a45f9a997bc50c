//! What an error of a provider means, from its status, its names and its words.
//!
//! The status says least: one and the same stands for an empty account and for
//! a quota of a minute, for a wrong request and for one that is too long. No
//! two providers have the same names, so the words are looked at too.

use serde_json::Value;

use crate::model::ModelErrorKind;

/// What is to be read of an error.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The status of HTTP, where the error is a whole answer.
    status: Option<u16>,
    /// Its type and its code, in lower case.
    names: String,
    /// Its sentence, in lower case.
    words: String,
    /// Whether the provider says when to ask again.
    has_floor: bool,
}

/// What an error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nobody pays: no request works until that is mended.
    Unpaid,
    /// As for every error.
    Kind(ModelErrorKind),
}

/// Names of errors, or parts of them, for an account that has run out.
const UNPAID_NAMES: [&str; 7] = [
    "insufficient_quota",
    "insufficient_balance",
    "insufficient_credits",
    "exceeded_current_quota",
    "billing",
    "billoverdue",
    "arrearage",
];

/// The same in words, for providers that have no name for it: Anthropic,
/// DeepSeek, OpenRouter.
const UNPAID_WORDS: [&str; 3] =
    ["credit balance is too low", "insufficient balance", "insufficient credits"];

/// Names of errors, or parts of them, for a request that is too long.
const OVERFLOW_NAMES: [&str; 5] = [
    "context_length_exceeded",
    "exceed_context_size",
    "context_exceeded",
    "max_prompt_tokens_exceeded",
    "request_too_large",
];

/// The same in words. Whoever says one of them may mean the limit of the answer
/// that is asked for beside the prompt: a shorter prompt helps then too.
const OVERFLOW_WORDS: [&str; 21] = [
    // OpenAI, DeepSeek, vLLM, SGLang, Mistral, OpenRouter.
    "maximum context length",
    // OpenAI's Responses.
    "exceeds the context window",
    // Anthropic.
    "prompt is too long",
    "exceed context limit",
    // llama.cpp, and what is built on it.
    "exceeds the available context size",
    "exceeds context size",
    "greater than the context length",
    "context the overflows",
    // Ollama.
    "exceeds the context length",
    // vLLM and SGLang, in further words.
    "longer than the maximum model length",
    "longer than the model's context length",
    // Text Generation Inference.
    "`max_new_tokens` must be <=",
    // Google.
    "exceeds the maximum number of tokens allowed",
    // xAI.
    "maximum prompt length is",
    // Groq; it says 413 where a prompt is longer than the quota of a minute.
    "reduce the length of the messages",
    "request too large for model",
    // DashScope.
    "range of input length should be",
    // Moonshot.
    "exceeded model token limit",
    // MiniMax and Zhipu.
    "context window exceeds limit",
    "prompt exceeds max length",
    // Bedrock.
    "input is too long for requested model",
];

impl Told {
    /// An answer with a status other than 2xx.
    pub(super) fn by_status(status: u16, body: &Value, has_floor: bool) -> Self {
        Self { status: Some(status), has_floor, ..Self::by_object(body) }
    }

    /// An error object within an answer.
    pub(super) fn by_object(error: &Value) -> Self {
        let inner = error.get("error").filter(|inner| inner.is_object()).unwrap_or(error);
        let names =
            ["type", "code", "status"].into_iter().filter_map(|key| inner.get(key)?.as_str());
        Self {
            status: status_in(inner),
            names: names.collect::<Vec<_>>().join(" ").to_ascii_lowercase(),
            words: words(error).to_ascii_lowercase(),
            has_floor: false,
        }
    }

    /// Returns what it means.
    pub(super) fn meaning(&self) -> Meaning {
        if self.is_unpaid() {
            return Meaning::Unpaid;
        }
        if self.is_overflow() {
            return Meaning::Kind(ModelErrorKind::Overflow);
        }
        let of_status = self.status.map(ModelErrorKind::of_status);
        Meaning::Kind(of_status.unwrap_or_else(|| self.kind_of_names()))
    }

    fn is_unpaid(&self) -> bool {
        if self.status == Some(402) {
            return true;
        }
        // Alibaba has the name and the words of an empty account for its quotas
        // of a minute. And whoever says when to come again means no account.
        let is_quota = ["aliyun", "alibaba", "allocated quota"];
        if self.has_floor || is_quota.iter().any(|word| self.words.contains(word)) {
            return false;
        }
        UNPAID_NAMES.iter().any(|name| self.names.contains(name))
            || UNPAID_WORDS.iter().any(|words| self.words.contains(words))
    }

    fn is_overflow(&self) -> bool {
        // A busy provider may speak of too many tokens too.
        let may_be = matches!(self.status, None | Some(400 | 413 | 422 | 500));
        may_be
            && (OVERFLOW_NAMES.iter().any(|name| self.names.contains(name))
                || OVERFLOW_WORDS.iter().any(|words| self.words.contains(words)))
    }

    fn kind_of_names(&self) -> ModelErrorKind {
        let has = |part| self.names.contains(part);
        if has("authentication") || has("api_key") || has("permission") {
            ModelErrorKind::Authentication
        } else if has("rate_limit") || has("too_many_requests") || has("overloaded") {
            ModelErrorKind::RateLimited
        } else if has("invalid_request") || has("invalid_prompt") || has("not_found") {
            ModelErrorKind::Request
        } else {
            ModelErrorKind::Overloaded
        }
    }
}

/// Returns a provider's sentence out of an error: `{"error": {"message": …}}`,
/// `{"error": "…"}`, `{"message": …}`, `{"detail": …}` or any other.
pub(super) fn words(value: &Value) -> String {
    let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
    let spoken = ["message", "detail", "msg"]
        .into_iter()
        .find_map(|key| error.get(key).filter(|spoken| !spoken.is_null()))
        .unwrap_or(error);
    spoken.as_str().map_or_else(|| spoken.to_string(), str::to_owned)
}

fn status_in(error: &Value) -> Option<u16> {
    ["code", "status", "status_code"].into_iter().find_map(|key| {
        let value = error.get(key)?;
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
        u16::try_from(number).ok().filter(|status| (400..600).contains(status))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OVERFLOW: Meaning = Meaning::Kind(ModelErrorKind::Overflow);
    const RATE_LIMITED: Meaning = Meaning::Kind(ModelErrorKind::RateLimited);
    const REQUEST: Meaning = Meaning::Kind(ModelErrorKind::Request);

    fn meaning(status: u16, error: Value) -> Meaning {
        Told::by_status(status, &json!({ "error": error }), false).meaning()
    }

    fn meaning_of_words(status: u16, words: &str) -> Meaning {
        meaning(status, json!({ "message": words }))
    }

    #[test]
    fn a_request_that_is_too_long_is_known_in_every_providers_words() {
        for words in [
            "This model's maximum context length is 8192 tokens. However, you requested 8500",
            "Your input exceeds the context window of this model.",
            "prompt is too long: 208310 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 199211 + 20000 > 200000",
            "request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it",
            "Trying to keep the first 7215 tokens when context the overflows.",
            "the input length exceeds the context length",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "Please reduce the length of the messages or completion.",
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
            "Invalid request: Your request exceeded model token limit: 8192",
            "invalid params, context window exceeds limit (2013)",
            "Prompt exceeds max length",
            "Input is too long for requested model.",
        ] {
            assert_eq!(meaning_of_words(400, words), OVERFLOW, "{words}");
        }
        for name in ["context_length_exceeded", "exceed_context_size_error"] {
            assert_eq!(meaning(400, json!({ "code": name })), OVERFLOW, "{name}");
            assert_eq!(meaning(400, json!({ "type": name, "message": "no" })), OVERFLOW, "{name}");
        }
        assert_eq!(meaning(413, json!({ "type": "request_too_large" })), OVERFLOW);
        let inside = json!({ "type": "invalid_request_error", "message": "prompt is too long: 9" });
        assert_eq!(Told::by_object(&inside).meaning(), OVERFLOW);
    }

    #[test]
    fn a_provider_that_is_busy_is_not_taken_for_a_long_request() {
        let words = "Too many tokens, please wait before trying again. maximum context length";
        assert_eq!(meaning_of_words(429, words), RATE_LIMITED);
        assert_eq!(meaning_of_words(400, "max_tokens: must be at least 1"), REQUEST);
        assert_eq!(meaning_of_words(400, "messages: at least one is required"), REQUEST);
    }

    #[test]
    fn an_empty_account_is_known_whatever_its_status() {
        for (status, error) in [
            (429, json!({ "type": "insufficient_quota", "code": "insufficient_quota" })),
            (429, json!({ "type": "billing_not_active" })),
            (429, json!({ "type": "exceeded_current_quota_error", "message": "recharge" })),
            (402, json!({ "message": "Insufficient Balance", "code": "invalid_request_error" })),
            (402, json!("no")),
            (403, json!({ "message": "Insufficient credits" })),
            (
                400,
                json!({ "type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API." }),
            ),
            (400, json!({ "code": "Arrearage" })),
        ] {
            assert_eq!(meaning(status, error.clone()), Meaning::Unpaid, "{status} {error}");
        }
    }

    #[test]
    fn a_quota_of_a_minute_is_no_empty_account() {
        let quota = json!({ "error": { "type": "insufficient_quota", "message": "You exceeded your current quota" } });
        assert_eq!(Told::by_status(429, &quota, true).meaning(), RATE_LIMITED);
        for words in [
            "Allocated quota exceeded",
            "You exceeded your current quota, see https://help.aliyun.com",
        ] {
            let error = json!({ "code": "insufficient_quota", "message": words });
            assert_eq!(meaning(429, error), RATE_LIMITED, "{words}");
        }
        // Google says so of its free quotas of a minute.
        let words = "You exceeded your current quota, please check your plan and billing details.";
        let google = json!({ "code": 429, "status": "RESOURCE_EXHAUSTED", "message": words });
        assert_eq!(meaning(429, google), RATE_LIMITED);
    }

    #[test]
    fn an_error_within_an_answer_is_known_by_its_names() {
        use ModelErrorKind::{Authentication, Overloaded, RateLimited, Request};
        for (error, kind) in [
            (json!({ "type": "overloaded_error" }), RateLimited),
            (json!({ "code": "rate_limit_exceeded" }), RateLimited),
            (json!({ "type": "too_many_requests" }), RateLimited),
            (json!({ "type": "api_error" }), Overloaded),
            (json!({ "code": "server_error" }), Overloaded),
            (json!({ "type": "invalid_request_error" }), Request),
            (json!({ "type": "permission_error" }), Authentication),
            (json!({ "code": "503" }), Overloaded),
            (json!({ "code": 401 }), Authentication),
            (json!("boom"), Overloaded),
        ] {
            assert_eq!(Told::by_object(&error).meaning(), Meaning::Kind(kind), "{error}");
        }
    }
}
