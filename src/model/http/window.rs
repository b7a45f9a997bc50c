//! The context window that a server names when it refuses a request as too long.

use std::num::NonZeroU64;
use std::sync::LazyLock;

use fancy_regex::Regex;
use serde_json::Value;

/// Bytes of an error's words that are searched. The number is in the first sentence; what
/// follows may be the whole prompt.
const SEARCHED: usize = 2_000;

/// A smaller number is not a window: the system prompt alone is longer.
const LEAST: u64 = 512;

/// Fields of error objects that hold the window: llama.cpp, then gateways.
const FIELDS: [&str; 3] = ["n_ctx", "max_model_len", "context_length"];

/// Texts that providers write before the number, and Anthropic's `> 200000 maximum`.
static WORDS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?ix) (?: context \s (?: size | length | window ) (?: \s (?: is | of ) )? (?: \s only )?
              | max (?: imum )? \s (?: model | prompt | input | sequence | total )? \s? (?: length | size )
                    (?: \s (?: is | of ) )?
              | tokens \s allowed | token \s limit | limited \s to | limit \s of
              | must \s be \s <= | cannot \s exceed | length \s should \s be \s \[ \d+ ,
              | > (?= \s? \d+ \s maximum ) )
          [\s:(=`]* ( \d [\d,_]* ) ( k \b )?
          (?! [\d,_]*+ \s* (?: [kmg] i? b \b | [mg] \b | bytes? \b | char | message | image | request ) )",
    )
    .expect("the pattern is valid")
});

/// Returns the smallest context window in tokens that an error names.
pub(super) fn window_in(error: &Value, words: &str) -> Option<NonZeroU64> {
    let inner = error.get("error").filter(|inner| inner.is_object()).unwrap_or(error);
    let fields = FIELDS.iter().filter_map(|field| inner.get(field)?.as_u64());
    let end = words.floor_char_boundary(SEARCHED);
    let found = WORDS.captures_iter(&words[..end]).filter_map(|found| {
        let found = found.ok()?;
        let digits = found.get(1)?.as_str().replace([',', '_'], "");
        let number: u64 = digits.parse().ok()?;
        Some(if found.get(2).is_some() { number.saturating_mul(1_000) } else { number })
    });
    fields.chain(found).filter(|tokens| *tokens >= LEAST).min().and_then(NonZeroU64::new)
}

/// Returns the smallest context window in tokens that a refusal with this status names.
pub(super) fn window_in_refusal(status: u16, error: &Value, words: &str) -> Option<NonZeroU64> {
    // Proxies answer so, too, and name their limit of the body.
    let may_mean_bytes = status == 413 && {
        let words = words.to_lowercase();
        !words.contains("token") && !words.contains("context")
    };
    if may_mean_bytes { None } else { window_in(error, words) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_window_is_found_in_the_words_of_each_provider() {
        for (words, expected) in [
            (
                "This model's maximum context length is 8192 tokens. However, you requested 8500",
                8192,
            ),
            ("prompt is too long: 208310 tokens > 200000 maximum", 200_000),
            ("request (9412 tokens) exceeds the available context size (8192 tokens)", 8192),
            (
                "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
                4096,
            ),
            (
                "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
                4096,
            ),
            ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", 4096),
            (
                "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
                1_048_575,
            ),
            (
                "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
                131_072,
            ),
            ("Range of input length should be [1, 30720]", 30_720),
            ("Your request exceeded model token limit: 8192", 8192),
            ("Input length 140000 exceeds the maximum length 131072", 131_072),
            ("Request body too large for gpt-4o model. Max size: 8000 tokens.", 8000),
            ("this model is limited to 8k", 8000),
            (
                "total number of tokens in the prompt cannot exceed 128000 - received 130000",
                128_000,
            ),
            ("a context size of 90,000 tokens exceeds the limit of 65,536", 65_536),
        ] {
            let found = window_in(&Value::Null, words).map(NonZeroU64::get);
            assert_eq!(found, Some(expected), "{words}");
        }
    }

    #[test]
    fn a_body_that_is_too_large_names_no_window_without_a_word_of_tokens() {
        let found =
            |status, words| window_in_refusal(status, &Value::Null, words).map(NonZeroU64::get);
        assert_eq!(found(413, "maximum size 100000"), None);
        assert_eq!(found(400, "maximum size 100000"), Some(100_000));
        assert_eq!(found(413, "Request body too large. Max size: 8000 tokens."), Some(8_000));
    }

    #[test]
    fn a_field_names_the_window_and_other_numbers_do_not() {
        let llama = json!({ "error": { "n_ctx": 8192, "n_prompt_tokens": 9412, "code": 400 } });
        assert_eq!(window_in(&llama, "too long").map(NonZeroU64::get), Some(8192));
        for words in ["too long", "prompt is too long: 9000 tokens", "limit of 5 requests", ""] {
            assert_eq!(window_in(&Value::Null, words), None, "{words}");
        }
        for words in [
            "Payload too large: maximum size is 1000 KB",
            "limit of 1024kb",
            "limit of 1,024 KiB",
            "max size: 20 MB",
            "maximum length 65536 characters",
            "maximum length 65536 chars",
            "maximum size of 1048576 bytes",
            "limit of 1000 messages",
        ] {
            assert_eq!(window_in(&Value::Null, words), None, "{words}");
        }
        let long = format!("{} maximum context length is 8192", "x".repeat(SEARCHED));
        assert_eq!(window_in(&Value::Null, &long), None);
    }
}
