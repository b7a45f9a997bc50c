//! Looking at background units, and waiting for them.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{READ_CAP, glance, glances, headline, not_yours, report, taken, unit};
use crate::event::UnitId;
use crate::line::{Glance, Tend, Until};
use crate::message::{Output, ToolSchema};
use crate::tool::{Effect, Granted, Tool, ToolContext, ToolError, arguments};

/// Most units that are listed. The latest are.
const LISTED: usize = 100;

/// How long TaskOutput waits for a unit that has not ended, if the call does
/// not say.
const USUAL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long TaskWait waits, if the call does not say.
const USUAL_DEADLINE: Duration = Duration::from_secs(300);

/// The longest that any call waits. A unit that waits does nothing else.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// Lists background units.
#[derive(Debug, Clone, Copy)]
pub struct TaskList;

const LIST_PARAMETERS: &str = r#"{"type":"object","properties":{
    "after":{"type":"string","description":"An agent's id: list those that were started after it, the first 100; the latest 100 if left out"}
    }}"#;

impl Tool for TaskList {
    fn schema(&self) -> ToolSchema {
        let description = include_str!("../../../prompts/tools/task_list.md");
        arguments::schema("TaskList", description, LIST_PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn subject(&self, _arguments: &Value) -> String {
        String::new()
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        _call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let all = glances(context, None).await;
            if all.is_empty() {
                return Ok(Output::ok("You have started no agents in the background."));
            }
            let after = &arguments["after"];
            let first = match after.is_null() {
                true => all.len().saturating_sub(LISTED),
                false => {
                    let after = unit("after", after)?;
                    all.iter().position(|glance| glance.unit > after).unwrap_or(all.len())
                }
            };
            let mut text = listed(&all[first..]);
            if first > 0 && after.is_null() {
                text = format!("({first} earlier ones: list them with `after`)\n{text}");
            }
            Ok(Output::ok(text))
        })
    }
}

/// Reads what one background unit has to say.
#[derive(Debug, Clone, Copy)]
pub struct TaskOutput;

const OUTPUT_PARAMETERS: &str = r#"{"type":"object","properties":{
    "task_id":{"type":"string","description":"The agent's id, such as agent-3"},
    "block":{"type":"boolean","description":"Whether to wait for its end; true if left out"},
    "timeout":{"type":"integer","minimum":0,"description":"Most milliseconds (not seconds) to wait: 30000 if left out, 3600000 at most"}
    },"required":["task_id"]}"#;

impl Tool for TaskOutput {
    fn schema(&self) -> ToolSchema {
        let description = include_str!("../../../prompts/tools/task_output.md");
        arguments::schema("TaskOutput", description, OUTPUT_PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn subject(&self, arguments: &Value) -> String {
        arguments::subject(arguments, "task_id")
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        _call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let of = unit("task_id", &arguments["task_id"])?;
            let waits = arguments::flag("block", &arguments["block"], true)?;
            let most = arguments::optional_number("timeout", &arguments["timeout"])?
                .map_or(USUAL_TIMEOUT, Duration::from_millis);
            if waits && !glance(context, of).await?.state.has_ended() {
                wait(context, vec![of], Until::All, most).await?;
            }
            let seen = [glance(context, of).await?];
            taken(context, &seen).await;
            Ok(Output::ok(report(&seen, context)))
        })
    }
}

/// Waits for background units.
#[derive(Debug, Clone, Copy)]
pub struct TaskWait;

const WAIT_PARAMETERS: &str = r#"{"type":"object","properties":{
    "task_ids":{"type":"array","items":{"type":"string"},"description":"The agents' ids; all that have not ended if left out"},
    "until":{"type":"string","enum":["all","any"],"description":"Whether all of them have to end or one; all if left out"},
    "timeout_s":{"type":"number","minimum":0,"description":"Most seconds to wait: 300 if left out, 3600 at most"}
    }}"#;

impl Tool for TaskWait {
    fn schema(&self) -> ToolSchema {
        let description = include_str!("../../../prompts/tools/task_wait.md");
        arguments::schema("TaskWait", description, WAIT_PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn subject(&self, arguments: &Value) -> String {
        match arguments["task_ids"].as_array() {
            Some(units) => format!("{} agents", units.len()),
            None => String::new(),
        }
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        _call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let wanted = wanted(context, &arguments["task_ids"]).await?;
            let until = until(&arguments["until"])?;
            let most = deadline(&arguments["timeout_s"])?;
            wait(context, wanted.clone(), until, most).await?;
            let mut seen = glances(context, None).await;
            seen.retain(|glance| wanted.contains(&glance.unit));
            let (ended, out): (Vec<Glance>, Vec<Glance>) =
                seen.into_iter().partition(|glance| glance.state.has_ended());
            let (read, more) = ended.split_at(ended.len().min(READ_CAP));
            taken(context, read).await;
            let mut text = report(read, context);
            for (title, glances) in
                [("Ended as well; TaskOutput reads them", more), ("Still out", out.as_slice())]
            {
                if !glances.is_empty() {
                    text = format!("{text}\n\n{title}:\n{}", listed(glances));
                }
            }
            Ok(Output::ok(text.trim_start()))
        })
    }
}

/// Returns a line for each of the first units, and how many more there are.
fn listed(glances: &[Glance]) -> String {
    let (listed, more) = glances.split_at(glances.len().min(LISTED));
    let mut lines: Vec<String> = listed.iter().map(headline).collect();
    if !more.is_empty() {
        lines.push(format!("({} more: list them with TaskList and `after`)", more.len()));
    }
    lines.join("\n")
}

/// Returns the units that a call names, or all that have not ended.
async fn wanted(context: &ToolContext, value: &Value) -> Result<Vec<UnitId>, ToolError> {
    let own = glances(context, None).await;
    let names = match value {
        Value::Null => {
            let is_out = |own: &&Glance| !own.state.has_ended();
            let out: Vec<UnitId> = own.iter().filter(is_out).map(|own| own.unit).collect();
            return match out.is_empty() {
                true => Err(ToolError::tell("No agent is out.")),
                false => Ok(out),
            };
        }
        Value::Array(names) if !names.is_empty() && names.len() <= READ_CAP => names,
        Value::Array(_)
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_) => {
            let expected = format!("an array of 1 to {READ_CAP} ids of agents");
            return Err(arguments::wrong("task_ids", &expected));
        }
    };
    let mut units = Vec::with_capacity(names.len());
    for name in names {
        let unit = unit("task_ids", name)?;
        if !own.iter().any(|own| own.unit == unit) {
            return Err(not_yours(context, &unit.to_string()).await);
        }
        units.push(unit);
    }
    Ok(units)
}

fn until(value: &Value) -> Result<Until, ToolError> {
    match value.as_str() {
        None if value.is_null() => Ok(Until::All),
        Some("all") => Ok(Until::All),
        Some("any") => Ok(Until::Any),
        Some(_) | None => Err(arguments::wrong("until", "\"all\" or \"any\"")),
    }
}

fn deadline(value: &Value) -> Result<Duration, ToolError> {
    let wrong = || arguments::wrong("timeout_s", "a number of seconds, 0 or more");
    match value {
        Value::Null => Ok(USUAL_DEADLINE),
        Value::Number(seconds) => {
            Duration::try_from_secs_f64(seconds.as_f64().unwrap_or(-1.0)).map_err(|_| wrong())
        }
        Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => Err(wrong()),
    }
}

/// Waits for units, at most so long, and lets others work meanwhile.
async fn wait(
    context: &ToolContext,
    units: Vec<UnitId>,
    until: Until,
    most: Duration,
) -> Result<(), ToolError> {
    let started = tokio::time::Instant::now();
    let ended = async {
        // No answer means that the run is over; the cancel is then on its way.
        let ask = context.line.ask(|reply| Tend::Await { units, until, reply });
        // A deadline passed is no error: whoever asked learns who is still out.
        let _ = tokio::time::timeout(most.min(LONGEST_WAIT), ask).await;
    };
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err(ToolError::Cancelled { after: started.elapsed() }),
        () = context.delegate.lend(Box::pin(ended)) => Ok(()),
    }
}
