//! The tools with which a unit tends the units it started in the background.
//!
//! They ask the dispatcher, which knows what each unit is doing; a unit can
//! ask about its own background units and no others.

mod look;
mod steer;

pub use look::{TaskList, TaskOutput, TaskWait};
pub use steer::{SendMessage, TaskStop};

use serde_json::Value;

use super::bound::{fits, short_name};
use super::{OUTPUT_CAP, ToolContext, ToolError, arguments};
use crate::event::{Outcome, UnitEnd, UnitId};
use crate::line::{Glance, Tend};
use crate::message::counted;
use crate::prompt::{cut_escaped, ending};

/// Most characters kept free in an output for what stands around the texts of
/// units.
const FRAME: usize = 300;

/// Most units that one call reads. With more, the share of each says nothing.
const READ_CAP: usize = 20;

/// Most units that are named where one was not found.
const NAMED: usize = 20;

/// Most characters of a message to a unit.
pub const MESSAGE_CAP: usize = 16_000;

/// Reads a parameter that names one unit.
fn unit(name: &str, value: &Value) -> Result<UnitId, ToolError> {
    let text = value.as_str().unwrap_or_default().trim();
    UnitId::from_name(text)
        .filter(|unit| *unit != UnitId::MAIN)
        .ok_or_else(|| arguments::wrong(name, "an agent's id such as \"agent-3\""))
}

/// Returns what is known of one background unit of the caller.
async fn glance(context: &ToolContext, unit: UnitId) -> Result<Glance, ToolError> {
    let glances = glances(context, Some(unit)).await;
    match glances.into_iter().next() {
        Some(glance) => Ok(glance),
        None => Err(not_yours(context, &unit.to_string()).await),
    }
}

/// Returns what is known of the caller's background units, in declared order.
async fn glances(context: &ToolContext, unit: Option<UnitId>) -> Vec<Glance> {
    context.line.ask(|reply| Tend::Look { unit, reply }).await.unwrap_or_default()
}

/// Says that a unit is none of the caller's, and which are.
async fn not_yours(context: &ToolContext, name: &str) -> ToolError {
    let own = glances(context, None).await;
    let name = short_name(name);
    if own.is_empty() {
        return ToolError::tell(format!(
            "Agent \"{name}\" not found. You have no agents in the background."
        ));
    }
    // The latest: whoever mistakes one seldom means one from long ago.
    let latest = &own[own.len().saturating_sub(NAMED)..];
    let names: Vec<String> = latest.iter().map(|glance| glance.unit.to_string()).collect();
    let earlier = own.len() - latest.len();
    let earlier = if earlier > 0 { format!(" and {earlier} earlier ones") } else { String::new() };
    let names = names.join(", ");
    ToolError::tell(format!(
        "Agent \"{name}\" not found. Yours in the background: {names}{earlier}"
    ))
}

/// Says that the caller was given the whole ends of some units: then no news
/// of them are due.
async fn taken(context: &ToolContext, glances: &[Glance]) {
    let units: Vec<UnitId> =
        glances.iter().filter(|glance| glance.end.is_some()).map(|glance| glance.unit).collect();
    if !units.is_empty() {
        // No answer means that the run is over.
        let _ = context.line.ask(|reply| Tend::Taken { units, reply }).await;
    }
}

/// Returns one line on a unit: what it is, what it does, what it has done.
fn headline(glance: &Glance) -> String {
    let Glance { unit, description, agent, state, turns, tool_uses, continued_by, .. } = glance;
    let description = short_name(description.lines().next().unwrap_or_default());
    let (turns, calls) = (counted(*turns, "turn"), counted(*tool_uses, "call"));
    let late = match glance.unread {
        0 => String::new(),
        _ if !state.has_ended() => String::new(),
        late => format!(", {late} of your messages came too late for it"),
    };
    let next = continued_by.map(|next| format!(", continued by {next}")).unwrap_or_default();
    format!("{unit} ({agent}) \"{description}\": {}, {turns}, {calls}{late}{next}", state.as_str())
}

/// Returns a unit's text in about `room` characters: what it has to say at its
/// end, or what it has written so far. What does not fit and is in no file yet
/// goes into one.
fn text_of(glance: &Glance, context: &ToolContext, room: usize) -> String {
    let written = match glance.end.as_deref() {
        Some(UnitEnd { outcome: Outcome::Done { text: _ }, .. }) => None,
        Some(end) => Some(end.text.trim()).filter(|text| !fits(text, room / 2)),
        None => Some(glance.text.trim()).filter(|text| !fits(text, room)),
    };
    let spill = &context.workspace.spill;
    // Without the file the text is merely cut; that is said where it is cut.
    let kept = written.and_then(|text| spill.keep(&format!("{}-so-far", glance.unit), text).ok());
    let file = kept.map(|path| path.to_string_lossy().into_owned());
    match glance.end.as_deref() {
        Some(end) => ending(end, room, file.as_deref()),
        None if glance.text.trim().is_empty() => "(no text yet)".to_owned(),
        None => cut_escaped(glance.text.trim(), room, file.as_deref()),
    }
}

/// Puts units together, each with its share of an output.
fn report(glances: &[Glance], context: &ToolContext) -> String {
    let share = (OUTPUT_CAP / glances.len().max(1)).saturating_sub(FRAME);
    let parts: Vec<String> = glances
        .iter()
        .map(|glance| format!("{}\n\n{}", headline(glance), text_of(glance, context, share)))
        .collect();
    parts.join("\n\n---\n\n")
}
