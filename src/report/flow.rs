//! A flow as a record: what `tine flow show --json` prints.
//!
//! As for every record, names and order of the fields are a promise.

use serde::Serialize;
use serde_json::Value;

use super::listing::line;
use crate::definition::Isolation;
use crate::flow::{Flow, Input, OnError, Sees, Shown, Step};

/// Returns the record of a flow and its steps as a line with its line feed.
#[must_use]
pub fn flow_record(flow: &Flow, tree: &Shown<'_>) -> Vec<u8> {
    line(&FlowRecord {
        name: flow.name(),
        description: flow.description(),
        inputs: flow.inputs().iter().map(input).collect(),
        succeeds_if: flow.success().map(|success| &**success.condition.source()),
        steps: flow.step().whole(),
        tokens: flow.step().forks(),
        step: step(tree),
    })
}

fn input(input: &Input) -> InputRecord<'_> {
    let Input { name, default, is_json, description } = input;
    let required = default.is_none();
    InputRecord { name, description, required, json: *is_json, default: default.as_ref() }
}

fn step<'a>(shown: &'a Shown<'a>) -> StepRecord<'a> {
    let Shown { step: own, tokens, inside, at: _, draws: _, reserves: _ } = shown;
    let record = StepRecord {
        kind: own.kind(),
        name: own.name().map(|name| &**name),
        branch: tokens.to_string(),
        parts: shown.parts().map(|(first, last)| [first.0, last.0]),
        steps: inside.iter().map(step).collect(),
        ..StepRecord::default()
    };
    match own {
        Step::Agent(agent) => StepRecord {
            agent: Some(&agent.agent),
            prompt: Some(agent.prompt.source()),
            model: agent.model.as_deref(),
            sees: Some(match agent.sees {
                Sees::Visible => "visible",
                Sees::Nothing => "none",
            }),
            schema: Some(agent.schema.is_some()),
            isolation: agent.isolation.map(|isolation| match isolation {
                Isolation::Worktree => "worktree",
            }),
            on_error: Some(on_error(agent.on_error)),
            ..record
        },
        Step::Each(each) => StepRecord {
            for_each: Some(each.items().source()),
            max_items: Some(each.max_items().get()),
            ..record
        },
        Step::Until(until) => StepRecord {
            until: Some(until.condition().source()),
            max_rounds: Some(until.max_rounds().get()),
            ..record
        },
        Step::When(when) => StepRecord { when: Some(when.condition().source()), ..record },
        Step::Inner(inner) => {
            let flow = Some(&**inner.flow().name());
            StepRecord { flow, on_error: Some(on_error(own.on_error())), ..record }
        }
        Step::Computed(_) => StepRecord { on_error: Some(on_error(own.on_error())), ..record },
        Step::Sequence(_) | Step::Parallel(_) => record,
    }
}

fn on_error(on_error: OnError) -> &'static str {
    match on_error {
        OnError::Continue => "continue",
        OnError::Stop => "stop",
        OnError::StopIfRefused => "stop_if_refused",
    }
}

#[derive(Serialize)]
struct FlowRecord<'a> {
    name: &'a str,
    description: &'a str,
    inputs: Vec<InputRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    succeeds_if: Option<&'a str>,
    steps: u32,
    tokens: u64,
    step: StepRecord<'a>,
}

#[derive(Serialize)]
struct InputRecord<'a> {
    name: &'a str,
    description: &'a str,
    required: bool,
    json: bool,
    default: Option<&'a Value>,
}

#[derive(Serialize, Default)]
struct StepRecord<'a> {
    kind: &'static str,
    name: Option<&'a str>,
    branch: String,
    parts: Option<[u64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sees: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    for_each: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_items: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_rounds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_error: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<Self>,
}
