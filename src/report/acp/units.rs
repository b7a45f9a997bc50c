//! Agents as an editor is shown them: each is a tool call of its own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema;
use schema::{
    SessionUpdate, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
    ToolKind,
};
use serde_json::json;

use super::{View, beside};
use crate::event::{NoticeLevel, Outcome, UnitEnd, UnitHead, UnitId, Worktree};
use crate::report::units::Unit;
use crate::report::words;

/// Most characters of what an agent has written. It is all in its file, and an
/// editor keeps what it is shown.
const TEXT_CAP: usize = 16_000;

/// Where units work.
#[derive(Debug)]
pub(super) struct Places {
    root: PathBuf,
    /// Those that work elsewhere.
    others: HashMap<UnitId, PathBuf>,
}

impl Places {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, others: HashMap::new() }
    }

    pub(super) fn take(&mut self, unit: UnitId, worktree: &Worktree) {
        match worktree {
            Worktree::Made { path, base: _ } => {
                self.others.insert(unit, PathBuf::from(&**path));
            }
            Worktree::Dropped | Worktree::Applied { .. } | Worktree::Kept { .. } => {
                self.others.remove(&unit);
            }
        }
    }

    /// Returns where a unit works.
    pub(super) fn of(&self, unit: UnitId) -> &Path {
        self.others.get(&unit).unwrap_or(&self.root)
    }

    /// A unit works where its parent does, if nothing else is told of it.
    fn inherit(&mut self, unit: UnitId, parent: UnitId) {
        if let Some(place) = self.others.get(&parent).cloned() {
            self.others.insert(unit, place);
        }
    }
}

impl View {
    pub(super) fn queued(&mut self, unit: UnitId, head: &UnitHead) {
        self.places.inherit(unit, head.parent);
        // What only holds the branch of steps does nothing that could be shown.
        if !head.is_agent() {
            return;
        }
        let title = match head.description.trim() {
            "" => head.agent.to_string(),
            _ => format!("{}: {}", head.agent, words::unit_name(unit, head)),
        };
        let parent = head.call.as_ref().map(|call| self.call_name(head.parent, call));
        let fields = [
            ("agent", Some(unit.to_string())),
            ("state", Some("queued".to_owned())),
            ("parentToolCallId", parent),
        ];
        let call = ToolCall::new(unit.to_string(), title)
            .kind(ToolKind::Think)
            .status(ToolCallStatus::Pending)
            .raw_input(json!({ "description": &*head.description, "subagent_type": &*head.agent }))
            .meta(beside(fields.into_iter().filter_map(|(name, value)| Some((name, value?)))));
        self.update(SessionUpdate::ToolCall(call));
    }

    /// Tells that a unit is in another state. Main is the conversation itself.
    pub(super) fn state(&mut self, unit: UnitId, state: &'static str, has_started: bool) {
        let is_agent = self.units.get(unit).is_some_and(|known| known.head.is_agent());
        if !is_agent || unit == UnitId::MAIN {
            return;
        }
        let fields =
            ToolCallUpdateFields::new().status(has_started.then_some(ToolCallStatus::InProgress));
        self.unit_update(unit, fields, state);
    }

    /// Tells that a unit waits again that was lost with its worker.
    pub(super) fn unit_lost(&mut self, unit: UnitId, worker: &str, attempt: u32) {
        if self.units.get(unit).is_some_and(|known| known.head.is_agent()) {
            let fields = ToolCallUpdateFields::new()
                .status(ToolCallStatus::Pending)
                .content(vec![ToolCallContent::from(words::lost(worker, attempt))]);
            self.unit_update(unit, fields, "queued");
        }
    }

    pub(super) fn unit_ended(&mut self, unit: UnitId, known: Option<&Unit>, end: &UnitEnd) {
        self.places.others.remove(&unit);
        // Of main's end the end of the invocation tells.
        let Some(known) = known.filter(|known| known.tells(end)) else { return };
        if !known.head.is_agent() {
            let name = words::unit_name(unit, &known.head);
            let text = format!("[{name}] {}", words::unit_end(end));
            return self.notice(NoticeLevel::Warning, &text);
        }
        let (status, why) = match &end.outcome {
            Outcome::Done { text: _ } => (ToolCallStatus::Completed, None),
            Outcome::Failed(failure) => {
                (ToolCallStatus::Failed, Some(format!("failed: {}", failure.message)))
            }
            Outcome::Cancelled { ran: true } => {
                (ToolCallStatus::Failed, Some("cancelled".to_owned()))
            }
            Outcome::Cancelled { ran: false } => {
                (ToolCallStatus::Failed, Some("cancelled before it started".to_owned()))
            }
            Outcome::Interrupted => {
                (ToolCallStatus::Failed, Some("the process ended while it ran".to_owned()))
            }
        };
        let text = match &end.outcome {
            Outcome::Done { text } => text,
            Outcome::Failed(_) | Outcome::Cancelled { ran: _ } | Outcome::Interrupted => &end.text,
        };
        let text = Some(bounded(text)).filter(|text| !text.is_empty());
        let content = why.into_iter().chain(text).map(ToolCallContent::from);
        let state = end.outcome.state().as_str();
        let output = json!({
            "state": state, "turns": end.turns, "toolUses": end.tool_uses,
            "durationMs": end.duration_ms, "tokens": end.usage.total(),
            "outputFile": end.output_file.as_deref(),
        });
        let fields = ToolCallUpdateFields::new()
            .status(status)
            .content(content.collect::<Vec<_>>())
            .raw_output(output);
        self.unit_update(unit, fields, state);
    }

    /// Ends every unit that has not ended.
    pub(super) fn units_cut_off(&mut self) {
        let open = self.units.queued().chain(self.units.running());
        let open: Vec<UnitId> = open.map(|(unit, _)| unit).collect();
        for unit in open {
            let why = "the process ended before it did".to_owned();
            let fields = ToolCallUpdateFields::new()
                .status(ToolCallStatus::Failed)
                .content(vec![ToolCallContent::from(why)]);
            self.unit_update(unit, fields, "interrupted");
        }
    }

    fn unit_update(&mut self, unit: UnitId, fields: ToolCallUpdateFields, state: &str) {
        let meta = beside([("agent", unit.to_string()), ("state", state.to_owned())]);
        let update = ToolCallUpdate::new(unit.to_string(), fields).meta(meta);
        self.update(SessionUpdate::ToolCallUpdate(update));
    }
}

/// Returns the beginning of a text, and how much of it is left out.
pub(super) fn bounded(text: &str) -> String {
    match text.char_indices().nth(TEXT_CAP) {
        None => text.to_owned(),
        Some((end, _)) => {
            let left_out = text[end..].chars().count();
            format!("{}\n[{left_out} characters left out]", &text[..end])
        }
    }
}
