//! What clients want to know of a result besides what there is to tell.

use serde::Serialize;

use super::UsageRecord;
use crate::message::{StopReason, Usage};
use crate::model::Facts;
use crate::report::result::{Ending, Subtype};

/// What a result says of main's tokens besides, which clients read without
/// asking whether it is there.
#[derive(Serialize)]
pub(super) struct ResultUsage {
    #[serde(flatten)]
    tokens: UsageRecord,
    cache_creation: CacheCreation,
    server_tool_use: ServerToolUse,
    service_tier: &'static str,
}

#[derive(Serialize)]
struct CacheCreation {
    ephemeral_1h_input_tokens: u64,
    ephemeral_5m_input_tokens: u64,
}

#[derive(Serialize)]
struct ServerToolUse {
    web_search_requests: u64,
    web_fetch_requests: u64,
}

#[derive(Serialize)]
pub(super) struct ModelUsage {
    #[serde(rename = "inputTokens")]
    input: u64,
    #[serde(rename = "outputTokens")]
    output: u64,
    #[serde(rename = "cacheReadInputTokens")]
    cache_read: u64,
    #[serde(rename = "cacheCreationInputTokens")]
    cache_creation: u64,
    #[serde(rename = "costUSD")]
    cost: f64,
    #[serde(rename = "contextWindow")]
    context_window: u64,
    #[serde(rename = "maxOutputTokens")]
    max_output_tokens: u64,
    #[serde(rename = "webSearchRequests")]
    web_searches: u64,
}

impl From<Usage> for ResultUsage {
    fn from(usage: Usage) -> Self {
        Self {
            tokens: usage.into(),
            cache_creation: CacheCreation {
                ephemeral_1h_input_tokens: 0,
                // That is how long those keep it that say what they wrote.
                ephemeral_5m_input_tokens: usage.cache_creation,
            },
            server_tool_use: ServerToolUse { web_search_requests: 0, web_fetch_requests: 0 },
            service_tier: "standard",
        }
    }
}

impl ModelUsage {
    pub(super) fn new(usage: Usage, facts: Option<Facts>) -> Self {
        let Usage { input, output, cache_read, cache_creation, cost } = usage;
        let window = facts.as_ref().map(|facts| facts.context_window);
        let most = facts.and_then(|facts| facts.max_output_tokens);
        Self {
            input,
            output,
            cache_read,
            cache_creation,
            cost: cost.usd.dollars(),
            // Clients read a number. No bound is not the largest one that
            // there is, which most of them cannot hold.
            context_window: window.filter(|window| *window != u64::MAX).unwrap_or(0),
            max_output_tokens: most.map_or(0, u64::from),
            web_searches: 0,
        }
    }
}

/// Returns the word that clients know for an end, where there is one.
pub(super) fn terminal_reason(ending: &Ending) -> Option<&'static str> {
    match (ending.cancel, ending.subtype) {
        // Its calls were at work, or about to be.
        (Some(_), _) if ending.stop == Some(StopReason::ToolUse) => Some("aborted_tools"),
        (Some(_), _) => Some("aborted_streaming"),
        (None, Subtype::Success) => Some("completed"),
        (None, Subtype::ErrorMaxTurns) => Some("max_turns"),
        (None, Subtype::ErrorMaxBudgetUsd) => Some("budget_exhausted"),
        (None, Subtype::ErrorMaxStructuredOutputRetries) => {
            Some("structured_output_retry_exhausted")
        }
        (None, Subtype::ErrorDuringExecution) => None,
    }
}
