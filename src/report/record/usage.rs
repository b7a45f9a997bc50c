//! What a session has used, as `tine session usage --json` and `/usage` tell it.

use serde::Serialize;

use super::{ResultRecord, is_false, is_zero};
use crate::message::{Cost, Usd};
use crate::report::usage::{BatchUsage, PromptUsage, SessionUsage, Spent, UnitUsage, top};

/// Most rows of each list. What used the most is there; ten thousand agents
/// are a sum.
const ROWS: usize = 1_000;

/// The result of a command that asked no model, with the answer in data.
#[derive(Serialize)]
pub(in crate::report) struct UsageResult<'a> {
    #[serde(rename = "type")]
    pub(in crate::report) kind: &'static str,
    #[serde(flatten)]
    pub(in crate::report) result: ResultRecord<'a>,
    pub(in crate::report) session_usage: SessionUsageRecord<'a>,
    pub(in crate::report) uuid: String,
    pub(in crate::report) session_id: &'a str,
}

#[derive(Serialize)]
pub(in crate::report) struct SessionUsageRecord<'a> {
    session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<&'a str>,
    total: Amounts,
    models: Vec<ModelRow<'a>>,
    prompts: Vec<PromptRow<'a>>,
    batches: Vec<BatchRow<'a>>,
    agents: Vec<AgentRow<'a>>,
    #[serde(skip_serializing_if = "LeftOut::is_nothing")]
    left_out: LeftOut,
}

/// What the lists leave out.
#[derive(Serialize)]
struct LeftOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    models: Option<Rest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompts: Option<Rest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batches: Option<Rest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agents: Option<Rest>,
}

#[derive(Serialize)]
struct Rest {
    count: u64,
    #[serde(flatten)]
    amounts: Amounts,
}

#[derive(Serialize)]
struct ModelRow<'a> {
    model: &'a str,
    #[serde(flatten)]
    amounts: Amounts,
}

#[derive(Serialize)]
struct PromptRow<'a> {
    number: u32,
    prompt: &'a str,
    #[serde(flatten)]
    amounts: Amounts,
}

#[derive(Serialize)]
struct BatchRow<'a> {
    tool_use_id: &'a str,
    agent_id: String,
    agents: u64,
    #[serde(flatten)]
    amounts: Amounts,
}

#[derive(Serialize)]
struct AgentRow<'a> {
    agent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subagent_type: Option<&'a str>,
    #[serde(flatten)]
    amounts: Amounts,
}

/// What was used by something.
#[derive(Serialize)]
struct Amounts {
    requests: u64,
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_creation_input_tokens: u64,
    /// Null if nothing is known of it.
    cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "is_false")]
    cost_is_partial: bool,
    #[serde(skip_serializing_if = "is_zero")]
    api_retries: u64,
    #[serde(skip_serializing_if = "is_zero")]
    throttled_ms: u64,
}

impl From<Spent> for Amounts {
    fn from(Spent { usage, requests, retries, waited_ms }: Spent) -> Self {
        let Cost { usd, is_partial } = usage.cost;
        Self {
            requests,
            input_tokens: usage.input,
            output_tokens: usage.output,
            cache_read_input_tokens: usage.cache_read,
            cache_creation_input_tokens: usage.cache_creation,
            cost_usd: (usd != Usd(0) || !is_partial).then(|| usd.dollars()),
            cost_is_partial: is_partial,
            api_retries: retries,
            throttled_ms: waited_ms,
        }
    }
}

impl LeftOut {
    fn is_nothing(&self) -> bool {
        let Self { models, prompts, batches, agents } = self;
        [models, prompts, batches, agents].iter().all(|rest| rest.is_none())
    }
}

impl<'a> From<&'a SessionUsage> for SessionUsageRecord<'a> {
    fn from(usage: &'a SessionUsage) -> Self {
        let (models, more_models) =
            rows(usage.models.iter().map(|row| (row, *row.1)), |(model, _), amounts| ModelRow {
                model,
                amounts,
            });
        let (prompts, more_prompts) = rows(
            usage.prompts.iter().map(|row| (row, row.1.spent)),
            |(number, PromptUsage { prompt, spent: _ }), amounts| PromptRow {
                number: number.0,
                prompt,
                amounts,
            },
        );
        let (batches, more_batches) = rows(
            usage.batches.iter().map(|row| (row, row.spent)),
            |BatchUsage { call, parent, agents, .. }, amounts| BatchRow {
                tool_use_id: &call.0,
                agent_id: parent.to_string(),
                agents: *agents,
                amounts,
            },
        );
        let (agents, more_agents) = rows(
            usage.units.iter().map(|row| (row, row.1.spent)),
            |(unit, UnitUsage { head, .. }), amounts| AgentRow {
                agent_id: unit.to_string(),
                description: head.as_ref().map(|head| &*head.description),
                subagent_type: head.as_ref().map(|head| &*head.agent),
                amounts,
            },
        );
        Self {
            session_id: usage.session_id(),
            forked_from: usage.forked_from.as_ref().map(|origin| &*origin.0),
            total: usage.total.into(),
            models,
            prompts,
            batches,
            agents,
            left_out: LeftOut {
                models: more_models,
                prompts: more_prompts,
                batches: more_batches,
                agents: more_agents,
            },
        }
    }
}

/// Returns the rows of a list, and what it leaves out.
fn rows<T, R>(
    all: impl Iterator<Item = (T, Spent)>,
    row: impl Fn(T, Amounts) -> R,
) -> (Vec<R>, Option<Rest>) {
    let (rows, count, rest) = top(all, ROWS);
    let rows = rows.into_iter().map(|(of, spent)| row(of, spent.into())).collect();
    (rows, (count > 0).then(|| Rest { count, amounts: rest.into() }))
}
