//! Whether an error says that a request is too long.
//!
//! Providers have some hundred wordings, and each gateway adds new ones. So this
//! looks for the structure: the input or the context window, a measure of it, and
//! a word for excess. Errors about an answer's limit, a rate, an image or a name
//! look alike and are excluded.

/// The degree to which an error says that the request is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OverflowEvidence {
    /// It says nothing of that.
    No,
    /// It mentions the input.
    ByInput,
    /// It mentions the context window, or has a code for a full one.
    ByContext,
}

/// Names of the error, without what stands between their letters.
const NAMES: [&str; 26] = [
    "contextlengthexceeded",
    "contextwindowexceeded",
    "contextsizeexceeded",
    "contextlimitexceeded",
    "contextexceeded",
    "exceedcontextsize",
    "exceedscontext",
    "contextoverflow",
    "maxprompttokensexceeded",
    "maxcontextlength",
    "maxinputlength",
    "tokenslimitreached",
    "tokenlimitexceeded",
    "inputtokensexceed",
    "toomanytokens",
    "toomanyinputtokens",
    "toomanyprompttokens",
    "inputtoolong",
    "prompttoolong",
    "contexttoolong",
    "conversationtoolong",
    "requesttoolarge",
    "payloadtoolarge",
    "entitytoolarge",
    "bodytoolarge",
    "requesttoolong",
];

/// Words for the bound of a conversation.
const CONTEXT: [&str; 32] = [
    "context length",
    "context window",
    "context size",
    "context limit",
    "context budget",
    "context token",
    "context overflow",
    "context is too",
    "context too",
    "context_length",
    "context_window",
    "context_size",
    "maximum context",
    "max context",
    "model length",
    "model_length",
    "max_model_len",
    "max_seq_len",
    "max_sequence_length",
    "max sequence length",
    "maximum sequence length",
    "n_ctx",
    "kv size",
    "kv cache",
    "contextwindow",
    "contextlength",
    "max message tokens",
    "上下文",
    "model context",
    "context space",
    "context capacity",
    "kv slot",
];

/// Words for the input.
const INPUT: [&str; 29] = [
    "prompt",
    "input",
    "message",
    "conversation",
    "request",
    "body",
    "payload",
    "entity",
    "content",
    "history",
    "query",
    "sequence",
    "text bytes",
    "token",
    "输入",
    "提示",
    "请求",
    "消息",
    "对话",
    "会话",
    "内容",
    "文本",
    "长度",
    "text",
    "thread",
    "session",
    "輸入",
    "入力",
    "トークン",
];

/// Words for its measure.
const MEASURES: [&str; 19] = [
    "token",
    "length",
    "too long",
    "longer",
    "shorte",
    "size",
    "too large",
    "larger",
    "too big",
    "bigger",
    "bytes",
    "character",
    "number of messages",
    "too many messages",
    "长",
    "大",
    "字",
    "長",
    "トークン",
];

/// Words for excess.
const EXCESS: [&str; 58] = [
    "exceed",
    "too long",
    "too large",
    "too many",
    "too big",
    "larger than",
    "greater than",
    "longer than",
    "bigger than",
    "more than",
    "higher than",
    "over the limit",
    "over the maximum",
    "over limit",
    "above the",
    "beyond",
    "surpass",
    "overflow",
    "out of range",
    "must be less than",
    "must have less than",
    "should be less than",
    "must be smaller",
    "must be shorter",
    "must be <",
    "must not be more",
    "should be [",
    "limited to",
    "limit of",
    "limit reached",
    "limit is",
    "reached",
    "not fit",
    "n't fit",
    "reduce",
    "shorten",
    "shorter",
    "truncate",
    "expected maxlength",
    "超过",
    "超出",
    "超限",
    "超长",
    "过长",
    "太长",
    "过大",
    "过多",
    "限制",
    "not enough",
    "no room",
    "is full",
    "out of",
    "could not find",
    "failed to find",
    "超過",
    "過長",
    "超え",
    "長すぎ",
];

/// Parameters that bound the answer, and other names with `token` in them that are
/// not about the input. They are read as `{limit}`.
const OUTPUT_LIMITS: [&str; 22] = [
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "max_tokens_to_sample",
    "max_tokens",
    "max-tokens",
    "maxoutputtokens",
    "maxtokens",
    "max tokens",
    "maximum tokens",
    "maximum output tokens",
    "budget_tokens",
    "thinking_budget",
    "output tokens",
    "output token",
    "output length",
    "completion tokens",
    "completion token",
    "generated tokens",
    "response tokens",
    "输出长度",
    // Pydantic's word for any value.
    "input should",
];

/// Words for other limits, which a shorter conversation does not help with.
const OTHER_LIMITS: [&str; 46] = [
    "image",
    "图",
    "pixel",
    "audio",
    "video",
    "pdf",
    "file",
    "attachment",
    "description",
    "描述",
    "call_id",
    "call id",
    ".id'",
    ".id\"",
    ".id:",
    ".id`",
    "tool_calls[",
    ".name",
    "'name'",
    "`name`",
    "\"name\"",
    "function name",
    "tool name",
    "名称",
    "cache_key",
    "metadata",
    "schema",
    "enum",
    "stop sequence",
    "stop_sequences",
    "'stop'",
    "number of tools",
    "'tools'",
    "header",
    "uri ",
    "url",
    "'user'",
    "user_id",
    "safety_identifier",
    "logprob",
    "logit",
    "temperature",
    "top_p",
    "timeout",
    "batch size",
    "parallel",
];

/// Words for limits that only time or money helps with.
const RATES: [&str; 26] = [
    "per minute",
    "per min",
    "per second",
    "per hour",
    "per day",
    "/min",
    "(tpm)",
    "(rpm)",
    "(tpd)",
    "rate limit",
    "rate_limit",
    "ratelimit",
    "rate-limit",
    "too many requests",
    "too_many_requests",
    "throttl",
    "quota",
    "try again later",
    "please wait",
    "billing",
    "subscription",
    "balance",
    "budget has been",
    "每分钟",
    "限流",
    "频率",
];

/// Returns whether an error says it, judged by its names and its sentence.
pub(super) fn read(names: &str, words: &str) -> OverflowEvidence {
    let (names, words) = (names.to_lowercase(), words.to_lowercase());
    if has(&words, &RATES) || has(&names, &RATES) {
        return OverflowEvidence::No;
    }
    // The server computes the room for the answer and gets a negative number.
    if has(&words, &OUTPUT_LIMITS) && (words.contains("got -") || words.contains("got: -")) {
        return OverflowEvidence::ByContext;
    }
    let words = OUTPUT_LIMITS.iter().fold(words, |words, limit| words.replace(limit, "{limit}"));
    if is_about_parameter(&words) {
        return OverflowEvidence::No;
    }
    let is_beyond = has(&words, &EXCESS) || words.contains("too small");
    if has(&words, &CONTEXT) && (is_beyond || large_numbers(&words) > 1) {
        return OverflowEvidence::ByContext;
    }
    if has(&letters(&names), &NAMES) {
        return OverflowEvidence::ByContext;
    }
    if has(&words, &OTHER_LIMITS) {
        return OverflowEvidence::No;
    }
    if has(&letters(&words), &NAMES) {
        return OverflowEvidence::ByContext;
    }
    match sentences(&words).any(is_about_input) {
        true => OverflowEvidence::ByInput,
        false => OverflowEvidence::No,
    }
}

/// Returns whether an error says that this one request needs more than the quota
/// of a whole minute, which no wait helps with.
pub(super) fn exceeds_a_whole_quota(words: &str) -> bool {
    let words = letters(&words.to_lowercase());
    words.contains("requesttoolarge") || words.contains("mustbereduced")
}

/// Returns whether a text is about the bound of a parameter for the answer.
fn is_about_parameter(words: &str) -> bool {
    let words = words.trim_start_matches(['`', '\'', '"']);
    let names_input = || {
        let words = words.replace("token", "");
        has(&words, &CONTEXT) || has(&words, &INPUT)
    };
    words.starts_with("{limit}` must be") || words.starts_with("{limit}") && !names_input()
}

fn is_about_input(sentence: &str) -> bool {
    const LIMITS: [&str; 10] =
        ["maximum", "limit", "max ", "allowed", "only", "supports", " > ", " >= ", "最大", "上限"];
    has(sentence, &INPUT)
        && has(sentence, &MEASURES)
        && (has(sentence, &EXCESS)
            || has(sentence, &LIMITS) && large_numbers(sentence) > 1
            || sentence.contains("token") && sentence.contains("at most"))
}

/// Returns the sentences of a text. A full stop within a number or a name does
/// not end one.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '。', '；']).flat_map(|line| line.split(". "))
}

fn has(text: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| text.contains(part))
}

fn letters(text: &str) -> String {
    text.chars().filter(|character| character.is_alphanumeric()).collect()
}

/// Returns how many numbers with at least three digits a text has.
fn large_numbers(text: &str) -> usize {
    let text = text.replace(',', "");
    text.split(|character: char| !character.is_ascii_digit()).filter(|run| run.len() > 2).count()
}
