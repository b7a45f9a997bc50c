//! Calls of tools as an editor is shown them: what kind they are, which files
//! they are about, and what came of them.

use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::v1::schema;
use schema::{
    Content, ContentBlock, ImageContent, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus,
    SessionUpdate, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use serde_json::{Value, json};

use super::edits::{CHANGES_CAP, Edits};
use super::units::bounded;
use super::{View, beside, edits};
use crate::event::{ChangedBy, FileChange, Question, UnitId};
use crate::message::{Call, CallId, Output};
use crate::report::words;
use crate::tool::coerce::unquoted;
use crate::tool_name::{self, canonical};

/// A call without an output.
#[derive(Debug)]
pub(super) struct OpenCall {
    tool: String,
    arguments: Value,
    changes: Vec<Arc<FileChange>>,
    /// Whether an editor is shown the call; a list of what is to be done is
    /// shown as a plan.
    is_shown: bool,
}

/// What the arguments of tools say that a call is about, first what says most.
const SUBJECTS: [&str; 8] =
    ["file_path", "command", "pattern", "url", "description", "skill", "path", "query"];

const TODO_WRITE: &str = "TodoWrite";

impl View {
    pub(super) fn call_made(&mut self, unit: UnitId, call: &Call) {
        let tool = canonical(&call.tool).to_owned();
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
        let is_shown = tool != TODO_WRITE || unit != UnitId::MAIN;
        if is_shown {
            let subject = SUBJECTS.iter().find_map(|name| arguments.get(*name)?.as_str());
            let subject = subject.unwrap_or_default().lines().next().unwrap_or_default();
            // What the files hold may be what it has left there already.
            let edits = edits::announced(&tool, &arguments, self.places.of(unit), None);
            let shown =
                ToolCall::new(self.call_name(unit, &call.id), self.title(unit, &tool, subject))
                    .name(tool.clone())
                    .kind(kind(&tool))
                    .status(ToolCallStatus::Pending)
                    .content(edits.content)
                    .locations(self.locations(unit, &arguments, edits.locations))
                    .raw_input(input(&call.arguments, &arguments))
                    .meta(of_agent(unit));
            self.update(SessionUpdate::ToolCall(shown));
        }
        let open = OpenCall { tool, arguments, changes: Vec::new(), is_shown };
        self.calls.insert((unit, call.id.clone()), open);
    }

    pub(super) fn call_started(
        &mut self,
        unit: UnitId,
        call: &CallId,
        (tool, subject): (&str, &str),
    ) {
        let title = self.title(unit, tool, subject);
        let fields = ToolCallUpdateFields::new().title(title).status(ToolCallStatus::InProgress);
        self.call_update(unit, call, fields);
    }

    pub(super) fn file_changed(&mut self, unit: UnitId, change: &Arc<FileChange>) {
        let ChangedBy::Call(call) = &change.by else { return };
        if let Some(open) = self.calls.get_mut(&(unit, call.clone()))
            && open.changes.len() < CHANGES_CAP
        {
            open.changes.push(Arc::clone(change));
        }
    }

    pub(super) fn call_finished(&mut self, unit: UnitId, call: &CallId, output: &Output) {
        let Some(open) = self.calls.remove(&(unit, call.clone())) else { return };
        if !open.is_shown && !output.is_error {
            return self.update(SessionUpdate::Plan(plan(&open.arguments)));
        }
        let made = match output.is_error {
            true => Edits::default(),
            false => edits::made(&open.changes, &mut *self.reads.sides),
        };
        let status =
            if output.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
        let Edits { mut content, locations, .. } = made;
        // What changed says more than that it has changed.
        if content.is_empty() && !output.text.is_empty() {
            content.push(ToolCallContent::from(bounded(&output.text)));
        }
        content.extend(output.images.iter().map(|image| {
            let image = ImageContent::new(&*image.base64, image.kind.media_type());
            ToolCallContent::Content(Content::new(ContentBlock::Image(image)))
        }));
        let fields = ToolCallUpdateFields::new()
            .status(status)
            .content(content)
            .locations((!locations.is_empty()).then_some(locations))
            .raw_output(json!({ "text": bounded(&output.text), "isError": output.is_error }));
        if !open.is_shown {
            let shown = ToolCall::new(self.call_name(unit, call), self.title(unit, &open.tool, ""));
            self.update(SessionUpdate::ToolCall(shown.kind(ToolKind::Think)));
        }
        let update = ToolCallUpdate::new(self.call_name(unit, call), fields).meta(of_agent(unit));
        self.update(SessionUpdate::ToolCallUpdate(update));
    }

    /// Ends every call without an output.
    pub(super) fn calls_cut_off(&mut self) {
        let mut open: Vec<_> = self.calls.drain().filter(|(_, open)| open.is_shown).collect();
        open.sort_by(|((unit, call), _), ((other, second), _)| {
            (unit, &call.0).cmp(&(other, &second.0))
        });
        for ((unit, call), _) in open {
            let fields = ToolCallUpdateFields::new()
                .status(ToolCallStatus::Failed)
                .content(vec![ToolCallContent::from("interrupted, state unknown")]);
            let update =
                ToolCallUpdate::new(self.call_name(unit, &call), fields).meta(of_agent(unit));
            self.update(SessionUpdate::ToolCallUpdate(update));
        }
    }

    /// Returns the call that a question is about, as an editor knows it.
    pub(super) fn call_asked(&self, unit: UnitId, question: &Question) -> ToolCallUpdate {
        let (name, fields) = match question {
            Question::Call(asked) => {
                let arguments: Value =
                    serde_json::from_str(&asked.arguments).unwrap_or(Value::Null);
                // It waits for the answer, so the files are as they were.
                let (root, now) = (self.places.of(unit), Some(&*self.reads.now));
                let edits = edits::announced(&asked.tool, &arguments, root, now);
                let content = edits.content;
                let fields = ToolCallUpdateFields::new()
                    .title(self.title(unit, &asked.tool, &asked.subject))
                    .kind(kind(&asked.tool))
                    .status(ToolCallStatus::Pending)
                    .content((!content.is_empty()).then_some(content))
                    .locations(self.locations(unit, &arguments, edits.locations))
                    .raw_input(input(&asked.arguments, &arguments));
                (self.call_name(unit, &asked.call), fields)
            }
            Question::Form(form) => {
                let fields = ToolCallUpdateFields::new().status(ToolCallStatus::Pending);
                (self.call_name(unit, &form.call), fields)
            }
            // The call itself is not known here, but what it wants is.
            Question::Batch { slots } => {
                let title = format!("start {} at once", words::agents(u64::from(*slots)));
                let fields = ToolCallUpdateFields::new().title(title).kind(ToolKind::Think);
                let call = self
                    .calls
                    .iter()
                    .find(|((of, _), open)| *of == unit && open.tool == tool_name::AGENT);
                let name = call
                    .map_or_else(|| unit.to_string(), |((_, call), _)| self.call_name(unit, call));
                (name, fields.status(ToolCallStatus::Pending))
            }
        };
        ToolCallUpdate::new(name, fields).meta(of_agent(unit))
    }

    /// Returns what a call is named: models of several units may name theirs
    /// alike.
    pub(super) fn call_name(&self, unit: UnitId, call: &CallId) -> String {
        if unit == UnitId::MAIN { call.to_string() } else { format!("{unit}/{call}") }
    }

    fn call_update(&mut self, unit: UnitId, call: &CallId, fields: ToolCallUpdateFields) {
        if self.calls.get(&(unit, call.clone())).is_some_and(|open| open.is_shown) {
            let update =
                ToolCallUpdate::new(self.call_name(unit, call), fields).meta(of_agent(unit));
            self.update(SessionUpdate::ToolCallUpdate(update));
        }
    }

    /// Returns what a call is called; one of an agent says whose it is.
    fn title(&self, unit: UnitId, tool: &str, subject: &str) -> String {
        let call = words::call(tool, subject);
        match self.units.get(unit) {
            Some(known) => format!("{}: {call}", words::unit_name(unit, &known.head)),
            None => call,
        }
    }

    /// Returns the file that a call names, and the line if it names one; those
    /// that it changes where it names them in another way.
    fn locations(
        &self,
        unit: UnitId,
        arguments: &Value,
        changed: Vec<ToolCallLocation>,
    ) -> Vec<ToolCallLocation> {
        let named = ["file_path", "path"].iter().find_map(|name| arguments.get(*name)?.as_str());
        let Some(named) = named.filter(|path| !path.is_empty()) else { return changed };
        let line = arguments.get("offset").and_then(Value::as_u64);
        let line = line.and_then(|line| u32::try_from(line).ok());
        vec![ToolCallLocation::new(PathBuf::from(self.places.of(unit)).join(named)).line(line)]
    }
}

/// Returns whose a call is, if it is not main's.
fn of_agent(unit: UnitId) -> Option<schema::Meta> {
    let fields = [("agent", unit.to_string()), ("parentToolCallId", unit.to_string())];
    (unit != UnitId::MAIN).then(|| beside(fields))
}

/// Returns arguments as they were written, also where they are no JSON.
fn input(written: &str, read: &Value) -> Value {
    match read {
        Value::Null if !written.trim().is_empty() => json!({ "_raw": written }),
        Value::Null => json!({}),
        Value::Object(_)
        | Value::Array(_)
        | Value::String(_)
        | Value::Number(_)
        | Value::Bool(_) => read.clone(),
    }
}

/// Returns what sort of call an editor takes it for.
fn kind(tool: &str) -> ToolKind {
    match canonical(tool) {
        "Read" => ToolKind::Read,
        "Write" | "Edit" | "ApplyPatch" => ToolKind::Edit,
        "Bash" => ToolKind::Execute,
        "Glob" | "Grep" => ToolKind::Search,
        "WebFetch" => ToolKind::Fetch,
        TODO_WRITE | tool_name::AGENT => ToolKind::Think,
        _ => ToolKind::Other,
    }
}

/// Returns a list of what is to be done.
fn plan(arguments: &Value) -> Plan {
    let todos = arguments.get("todos").map(unquoted);
    let items = todos.as_ref().and_then(|todos| todos.as_array());
    let entry = |item: &Value| {
        let status = match item.get("status").and_then(Value::as_str) {
            Some("in_progress") => PlanEntryStatus::InProgress,
            Some("completed") => PlanEntryStatus::Completed,
            Some(_) | None => PlanEntryStatus::Pending,
        };
        let content = item.get("content").and_then(Value::as_str).unwrap_or_default();
        // The list knows an order, and no priorities.
        PlanEntry::new(content, PlanEntryPriority::Medium, status)
    };
    Plan::new(items.into_iter().flatten().map(entry).collect())
}
