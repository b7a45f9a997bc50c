//! What an error of a provider means, from its status, its names and its words.
//!
//! The status says least: one and the same stands for an empty account and for
//! a quota of a minute, for a wrong request and for one that is too long. No
//! two providers have the same names, so the words are looked at too.

mod overflow;

use serde_json::Value;

use self::overflow::OverflowEvidence;
use super::spoken;
use crate::model::ModelErrorKind;

/// What is to be read of an error.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The status of HTTP, or the one that the error names.
    status: Option<u16>,
    /// Its type and its codes, in lower case.
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

/// Names of errors, or parts of them, for a key that is refused.
const KEY_NAMES: [&str; 4] = ["api_key", "apikey", "authentication", "unauthenticated"];

/// Words for a key.
const KEYS: [&str; 5] = ["api key", "api-key", "api_key", "apikey", "access token"];

/// Words for the fault of a refused key.
const KEY_FAULTS: [&str; 11] = [
    "not valid",
    "invalid",
    "incorrect",
    "expired",
    "missing",
    "not found",
    "not provided",
    "no api key",
    "revoked",
    "无效",
    "错误",
];

impl Told {
    /// Reads an answer with a status other than 2xx.
    pub(super) fn by_status(status: u16, body: &Value, has_floor: bool) -> Self {
        Self { status: Some(status), ..Self::by_object(body, has_floor) }
    }

    /// Reads an error object within an answer.
    pub(super) fn by_object(error: &Value, has_floor: bool) -> Self {
        Self {
            status: spoken::status(error),
            names: spoken::names(error).to_lowercase(),
            words: spoken::sentence(error).to_lowercase(),
            has_floor,
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
        if self.is_refused_key() {
            return Meaning::Kind(ModelErrorKind::Authentication);
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
        let too_long = || overflow::read(&self.names, &self.words);
        match self.status {
            Some(413) => true,
            Some(429) => overflow::exceeds_a_whole_quota(&self.words),
            // A busy provider, too, may report too many tokens.
            Some(401..=404 | 407..=409 | 425 | 529) => false,
            Some(500..) => too_long() >= OverflowEvidence::ByContext,
            Some(_) | None => too_long() >= OverflowEvidence::ByInput,
        }
    }

    /// Google refuses a key with the status of a wrong request.
    fn is_refused_key(&self) -> bool {
        let has = |text: &str, parts: &[&str]| parts.iter().any(|part| text.contains(part));
        matches!(self.status, None | Some(400 | 422))
            && (has(&self.names, &KEY_NAMES)
                || has(&self.words, &KEYS) && has(&self.words, &KEY_FAULTS))
    }

    fn kind_of_names(&self) -> ModelErrorKind {
        let has = |part| self.names.contains(part);
        if has("authentication") || has("api_key") || has("permission") {
            ModelErrorKind::Authentication
        } else if has("rate_limit")
            || has("too_many_requests")
            || has("overloaded")
            || has("throttl")
            || has("resource_exhausted")
        {
            ModelErrorKind::RateLimited
        } else if has("invalid_request") || has("invalid_prompt") || has("not_found") {
            ModelErrorKind::Request
        } else {
            ModelErrorKind::Overloaded
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RATE_LIMITED: Meaning = Meaning::Kind(ModelErrorKind::RateLimited);
    const REQUEST: Meaning = Meaning::Kind(ModelErrorKind::Request);

    fn meaning(status: u16, error: Value) -> Meaning {
        Told::by_status(status, &json!({ "error": error }), false).meaning()
    }

    fn meaning_of_words(status: u16, words: &str) -> Meaning {
        meaning(status, json!({ "message": words }))
    }

    /// A body of an error and what it means.
    #[derive(serde::Deserialize)]
    struct Sample {
        /// The server that sends it.
        from: String,
        /// Its status; 0 within a stream.
        status: u16,
        body: Value,
        means: String,
    }

    /// Bodies of errors as servers send them: those of requests that are too long,
    /// and those that look alike.
    const SAMPLES: &str = include_str!("../../../tests/cases/overflow-wordings/bodies.jsonl");

    fn samples() -> impl Iterator<Item = Sample> {
        SAMPLES.lines().map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        })
    }

    #[test]
    fn every_sample_means_what_it_says() {
        let wrong: Vec<_> = samples()
            .filter_map(|Sample { from, status, body, means }| {
                let told = match status {
                    0 => Told::by_object(&body, false),
                    status => Told::by_status(status, &body, false),
                };
                let found = match told.meaning() {
                    Meaning::Unpaid => "unpaid".to_owned(),
                    Meaning::Kind(kind) => format!("{kind:?}").to_lowercase(),
                };
                (found != means).then(|| format!("{from}: {found}, not {means}: {body}"))
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn the_samples_have_enough_of_both_sides() {
        let overflows = samples().filter(|sample| sample.means == "overflow").count();
        let others = samples().count() - overflows;
        assert!(overflows >= 80 && others >= 50, "{overflows} and {others}");
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
            assert_eq!(Told::by_object(&error, false).meaning(), Meaning::Kind(kind), "{error}");
        }
    }
}
