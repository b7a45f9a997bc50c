//! The run as stream-json records, for programs and SDKs.
//!
//! Events become records here, one line each; `record` holds their form. A
//! unit never has a `result`: a client takes any for the end of the turn.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use crate::branch::Branch;
use crate::event::{
    Compaction, Delta, Event, EventKind, NoticeLevel, Outcome, Replied, SessionId, UnitEnd,
    UnitHead, UnitId, UnixMillis,
};
use crate::message::{CallId, Output};
use crate::run::Reporter;

use super::lines::{Lines, message_id};
use super::record::{
    self, Assistant, BackgroundTask, BackgroundTasksChanged, Block, CompactBoundary,
    CompactMetadata, Informational, Init, ModelMessage, NotificationStatus, Patch,
    PermissionDenied, PrefixShareRecord, Record, ResultContent, ResultRecord, Speaker, Strand,
    StreamEvent, System, TaskNotification, TaskProgress, TaskStarted, TaskStatus, TaskUpdated,
    TaskUsage, ToolResult, User, UserMessage,
};
use super::result::{Ending, Tally};
use super::stream::Stream;
use super::units::{Unit, Units};
use super::words;

/// What of tine's own a client may rely on.
const CAPABILITIES: [&str; 3] = ["agent_batch_v1", "agent_queue_v1", "branches_v1"];

/// Most units in the background that are listed; the rest is counted.
const BACKGROUND_LISTED: usize = 100;

/// Which records are wanted besides the usual ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamOptions {
    /// Answers as they grow.
    pub include_partial_messages: bool,
    /// What units say; without it only what they do.
    pub forward_subagent_text: bool,
}

/// What the first record tells and no event holds.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The session's id; stands in every record.
    pub session: SessionId,
    /// The working directory.
    pub cwd: String,
    /// The names of the tools, in the registry's order.
    pub tools: Vec<String>,
    /// The names of the agent definitions.
    pub agents: Vec<String>,
    /// The names of the skills.
    pub skills: Vec<String>,
    /// The names of the slash commands.
    pub slash_commands: Vec<String>,
    /// The model of the main conversation.
    pub model: Arc<str>,
    /// The permission mode's name.
    pub permission_mode: String,
    /// Where the key comes from, in a word; never the key.
    pub api_key_source: String,
    /// The version of tine.
    pub version: String,
}

/// Writes a run as stream-json records.
pub struct StreamJson {
    output: Lines,
    options: StreamOptions,
    facts: Facts,
    units: Units,
    tally: Tally,
    /// The answers that are being written, by unit.
    streams: BTreeMap<UnitId, Stream>,
    /// Whether a unit in the background has come or gone since they were
    /// listed.
    background_is_new: bool,
}

impl StreamJson {
    /// A stream of records to `output`.
    #[must_use]
    pub fn new(output: Box<dyn Write + Send>, options: StreamOptions, facts: Facts) -> Self {
        Self {
            output: Lines::new(output, facts.session.clone()),
            options,
            facts,
            units: Units::default(),
            tally: Tally::default(),
            streams: BTreeMap::new(),
            background_is_new: false,
        }
    }

    fn shows_text_of(&self, unit: UnitId) -> bool {
        unit == UnitId::MAIN || self.options.forward_subagent_text
    }

    fn streams_text_of(&self, unit: UnitId) -> bool {
        self.options.include_partial_messages && self.shows_text_of(unit)
    }

    fn queued(&mut self, event: &Event, head: &UnitHead) -> io::Result<()> {
        let task_id = event.unit.to_string();
        let strand = strand(event.unit, head, &event.branch);
        self.output.write(Record::System(System::TaskStarted(TaskStarted {
            task_id: &task_id,
            tool_use_id: call_of(head),
            description: &head.description,
            subagent_type: &head.agent,
            is_backgrounded: head.is_background,
            spawn_depth: head.depth,
            parent_task_id: (head.parent != UnitId::MAIN).then(|| head.parent.to_string()),
            strand: strand.clone(),
        })))?;
        self.background_is_new |= head.is_background;
        self.output.write(updated(&task_id, TaskStatus::Pending, strand))
    }

    /// Lists the units in the background, if any has come or gone since they
    /// were listed last. Not at each of their events: a list of ten thousand,
    /// ten thousand times, is no list.
    fn list_background(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.background_is_new) {
            return Ok(());
        }
        let all = self.units.background();
        let tasks = all.take(BACKGROUND_LISTED).map(|(id, unit)| BackgroundTask {
            task_id: id.to_string(),
            description: &unit.head.description,
            subagent_type: &unit.head.agent,
        });
        let tasks: Vec<_> = tasks.collect();
        let left_out = self.units.background().count() - tasks.len();
        let changed = BackgroundTasksChanged { tasks, left_out };
        self.output.write(Record::System(System::BackgroundTasksChanged(changed)))
    }

    fn compacted(&mut self, event: &Event, compaction: &Compaction) -> io::Result<()> {
        let Some(speaker) = speaker(&self.units, event.unit, &event.branch) else {
            return Ok(());
        };
        self.output.write(Record::System(System::CompactBoundary(CompactBoundary {
            compact_metadata: CompactMetadata {
                trigger: compaction.trigger.as_str(),
                pre_tokens: compaction.tokens_before,
                post_tokens: compaction.tokens_after,
            },
            strand: speaker.strand,
        })))
    }

    fn started(&mut self, event: &Event) -> io::Result<()> {
        let Some(unit) = self.units.get(event.unit) else { return Ok(()) };
        let strand = strand(event.unit, &unit.head, &event.branch);
        self.output.write(updated(&event.unit.to_string(), TaskStatus::Running, strand))
    }

    fn turn_started(&mut self, event: &Event) -> io::Result<()> {
        self.break_off(event.unit)?;
        let id = message_id(&self.facts.session, event.seq);
        self.streams.insert(event.unit, Stream::new(id, event.seq));
        Ok(())
    }

    fn replied(&mut self, event: &Event, replied: &Replied) -> io::Result<()> {
        let stream = self.streams.remove(&event.unit);
        let is_streamed = self.streams_text_of(event.unit);
        let is_shown = self.shows_text_of(event.unit);
        let Some(speaker) = speaker(&self.units, event.unit, &event.branch) else {
            return Ok(());
        };
        let stream = stream
            .unwrap_or_else(|| Stream::new(message_id(&self.facts.session, event.seq), event.seq));
        let id = stream.message_id.clone();
        if is_streamed {
            stream.finish(replied, &mut |origin, streamed| {
                self.output.write_from(origin, stream_event(streamed, &speaker))
            })?;
        }
        for content in contents(replied, is_shown) {
            self.output.write(Record::Assistant(Assistant {
                message: message(&id, replied, content),
                speaker: speaker.clone(),
            }))?;
        }
        self.progress(event)
    }

    fn tool_finished(&mut self, event: &Event, call: &CallId, output: &Output) -> io::Result<()> {
        let Some(speaker) = speaker(&self.units, event.unit, &event.branch) else {
            return Ok(());
        };
        let result = ToolResult {
            tool_use_id: &call.0,
            content: ResultContent::from(output),
            is_error: output.is_error,
        };
        let message = UserMessage { role: "user", content: [result] };
        self.output.write(Record::User(User { message, speaker }))?;
        self.progress(event)
    }

    fn progress(&mut self, event: &Event) -> io::Result<()> {
        let Some(unit) = self.units.get(event.unit) else { return Ok(()) };
        self.output.write(Record::System(System::TaskProgress(TaskProgress {
            task_id: &event.unit.to_string(),
            tool_use_id: call_of(&unit.head),
            description: &unit.head.description,
            usage: TaskUsage {
                total_tokens: unit.usage.total(),
                tool_uses: unit.tool_uses,
                duration_ms: unit.started.map_or(0, |started| event.at.since(started)),
            },
            last_tool_name: unit.last_call.as_ref().map(|call| &*call.tool),
            strand: strand(event.unit, &unit.head, &event.branch),
        })))
    }

    fn denied(&mut self, event: &Event, call: &CallId, tool: &str, why: &str) -> io::Result<()> {
        let Some(speaker) = speaker(&self.units, event.unit, &event.branch) else {
            return Ok(());
        };
        self.output.write(Record::System(System::PermissionDenied(PermissionDenied {
            tool_name: tool,
            tool_use_id: &call.0,
            message: why,
            strand: speaker.strand,
        })))
    }

    fn notice(&mut self, event: &Event, level: NoticeLevel, text: &str) -> io::Result<()> {
        let speaker = speaker(&self.units, event.unit, &event.branch);
        self.output.write(Record::System(System::Informational(Informational {
            content: text,
            level: level.as_str(),
            strand: speaker.map(|speaker| speaker.strand).unwrap_or_default(),
        })))
    }

    fn unit_ended(&mut self, event: &Event, unit: &Unit, end: &UnitEnd) -> io::Result<()> {
        let task_id = event.unit.to_string();
        let strand = strand(event.unit, &unit.head, &event.branch);
        let patch = ended_patch(&end.outcome, event.at);
        self.output.write(Record::System(System::TaskUpdated(TaskUpdated {
            task_id: &task_id,
            patch,
            strand: strand.clone(),
        })))?;
        let notification = notification(&task_id, unit, end, strand);
        self.background_is_new |= unit.head.is_background;
        self.output.write(Record::System(System::TaskNotification(notification)))
    }

    fn invocation_ended(&mut self, ending: &Ending) -> io::Result<()> {
        while let Some((&unit, _)) = self.streams.first_key_value() {
            self.break_off(unit)?;
        }
        self.list_background()?;
        self.output.write(Record::Result(Box::new(ResultRecord::from(ending))))?;
        self.output.flush()
    }

    /// Ends the answer that a unit was writing. Called before the unit is
    /// forgotten.
    fn break_off(&mut self, unit: UnitId) -> io::Result<()> {
        let Some(stream) = self.streams.remove(&unit) else { return Ok(()) };
        let branch = self.branch_of(unit);
        let Some(speaker) = speaker(&self.units, unit, &branch) else { return Ok(()) };
        stream.break_off(&mut |origin, streamed| {
            self.output.write_from(origin, stream_event(streamed, &speaker))
        })
    }

    fn branch_of(&self, unit: UnitId) -> Branch {
        self.units.get(unit).map_or_else(Branch::root, |unit| unit.branch.clone())
    }
}

impl Reporter for StreamJson {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.output.begin(event.seq);
        if let EventKind::UnitEnded(_) = &event.kind {
            self.break_off(event.unit)?;
        }
        let ended = self.units.take(event);
        let ending = self.tally.take(event);
        if let Some(ending) = ending {
            return self.invocation_ended(&ending);
        }
        match &event.kind {
            EventKind::InvocationStarted { prompt: _ } => self.output.write(init(&self.facts)),
            EventKind::UnitQueued(head) => self.queued(event, head),
            EventKind::UnitStarted => self.started(event),
            EventKind::TurnStarted { turn: _ } => self.turn_started(event),
            EventKind::Replied(replied) => self.replied(event, replied),
            EventKind::ToolFinished { call, tool: _, output, took_ms: _ } => {
                self.tool_finished(event, call, output)
            }
            EventKind::Denied { call, tool, arguments: _, reason } => {
                self.denied(event, call, tool, reason)
            }
            EventKind::UnitEnded(end) => match ended {
                Some(unit) => self.unit_ended(event, &unit, end),
                None => Ok(()),
            },
            EventKind::Notice { level, text } => self.notice(event, *level, text),
            EventKind::Compacted(compaction) => self.compacted(event, compaction),
            EventKind::SessionOpened(_)
            | EventKind::Prompted { .. }
            | EventKind::Notified { .. }
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { waited_ms: _ }
            | EventKind::RequestFailed(_)
            | EventKind::ToolStarted { .. }
            | EventKind::Joined { .. }
            | EventKind::InvocationEnded(_) => Ok(()),
        }
    }

    fn delta(&mut self, delta: &Delta) -> io::Result<()> {
        if !self.streams_text_of(delta.unit) {
            return Ok(());
        }
        let branch = self.branch_of(delta.unit);
        let Some(speaker) = speaker(&self.units, delta.unit, &branch) else { return Ok(()) };
        // A piece outside a turn belongs to no answer.
        let Some(stream) = self.streams.get_mut(&delta.unit) else { return Ok(()) };
        stream.piece(&delta.piece, &self.facts.model, &mut |origin, streamed| {
            self.output.write_from(origin, stream_event(streamed, &speaker))
        })
    }

    fn pause(&mut self) -> io::Result<()> {
        self.list_background()?;
        self.output.flush()
    }
}

fn init(facts: &Facts) -> Record<'_> {
    Record::System(System::Init(Box::new(Init {
        cwd: &facts.cwd,
        tools: &facts.tools,
        mcp_servers: [],
        model: &facts.model,
        permission_mode_camel: &facts.permission_mode,
        permission_mode: &facts.permission_mode,
        slash_commands: &facts.slash_commands,
        agents: &facts.agents,
        skills: &facts.skills,
        api_key_source: &facts.api_key_source,
        output_style: "default",
        tine_version: &facts.version,
        capabilities: CAPABILITIES,
    })))
}

/// Returns who speaks; `None` for a unit whose declaration was never seen:
/// without its call nothing would tell its records from main's.
fn speaker<'a>(units: &'a Units, unit: UnitId, branch: &Branch) -> Option<Speaker<'a>> {
    if unit == UnitId::MAIN {
        return Some(Speaker::default());
    }
    let head = &units.get(unit)?.head;
    Some(Speaker {
        // A client takes what has no call for main's.
        parent_tool_use_id: Some(match &head.call {
            Some(call) => Cow::Borrowed(&*call.0),
            None => Cow::Owned(unit.to_string()),
        }),
        strand: strand(unit, head, branch),
        subagent_type: Some(&head.agent),
        task_description: Some(&head.description),
    })
}

fn call_of(head: &UnitHead) -> Option<&str> {
    head.call.as_ref().map(|call| &*call.0)
}

fn strand(unit: UnitId, head: &UnitHead, branch: &Branch) -> Strand {
    Strand {
        agent_id: Some(unit.to_string()),
        branch: Some(branch.tokens.to_string()),
        slot: head.slot.map(record::Slot::from),
    }
}

fn stream_event<'a>(event: record::Streamed<'a>, speaker: &Speaker<'a>) -> Record<'a> {
    Record::StreamEvent(StreamEvent { event, speaker: speaker.clone() })
}

fn updated(task_id: &str, status: TaskStatus, strand: Strand) -> Record<'_> {
    let patch = Patch { status, error: None, end_time: None };
    Record::System(System::TaskUpdated(TaskUpdated { task_id, patch, strand }))
}

/// Returns the content of a reply, one list for each kind of block it has.
fn contents(replied: &Replied, is_shown: bool) -> impl Iterator<Item = Vec<Block<'_>>> {
    let reply = &replied.reply;
    let mut thinking = Vec::new();
    let mut text = Vec::new();
    if is_shown && !reply.thinking.is_empty() {
        thinking.push(Block::Thinking { thinking: &reply.thinking, signature: "" });
    }
    if is_shown && !reply.text.is_empty() {
        text.push(Block::Text { text: &reply.text });
    }
    let calls = reply.calls.iter().map(Block::from).collect();
    [thinking, text, calls].into_iter().filter(|content| !content.is_empty())
}

fn message<'a>(id: &'a str, replied: &'a Replied, content: Vec<Block<'a>>) -> ModelMessage<'a> {
    ModelMessage {
        id,
        role: "assistant",
        model: &replied.model,
        content,
        stop_reason: Some(replied.stop.as_str()),
        stop_sequence: None,
        usage: replied.usage.into(),
    }
}

fn ended_patch(outcome: &Outcome, at: UnixMillis) -> Patch<'_> {
    let (status, error) = match outcome {
        Outcome::Done { text: _ } => (TaskStatus::Completed, None),
        Outcome::Failed(failure) => (TaskStatus::Failed, Some(&*failure.message)),
        Outcome::Cancelled { ran: _ } | Outcome::Interrupted => (TaskStatus::Killed, None),
    };
    Patch { status, error, end_time: Some(at.0) }
}

fn notification<'a>(
    task_id: &'a str,
    unit: &'a Unit,
    end: &'a UnitEnd,
    strand: Strand,
) -> TaskNotification<'a> {
    let (status, reason) = match &end.outcome {
        Outcome::Done { text: _ } => (NotificationStatus::Completed, None),
        Outcome::Failed(failure) => (NotificationStatus::Failed, Some(failure.kind.as_str())),
        Outcome::Cancelled { ran: true } => (NotificationStatus::Stopped, Some("cancelled")),
        Outcome::Cancelled { ran: false } => (NotificationStatus::Stopped, Some("never_started")),
        Outcome::Interrupted => (NotificationStatus::Stopped, Some("interrupted")),
    };
    TaskNotification {
        task_id,
        tool_use_id: call_of(&unit.head),
        status,
        reason,
        output_file: end.output_file.as_deref().unwrap_or_default(),
        summary: format!("{}: {}", unit.head.description, words::unit_end(end)),
        usage: unit.started.map(|_| TaskUsage {
            total_tokens: end.usage.total(),
            tool_uses: end.tool_uses,
            duration_ms: end.duration_ms,
        }),
        prefix_share: end.share.map(PrefixShareRecord::from),
        strand,
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::Value;

    use super::*;
    use crate::event::CancelReason;
    use crate::message::{Reply, Usage};
    use crate::report::story::{
        BrokenPipe, Paper, Story, call_of, cancelled, done, failed, skipped, tell, text_delta,
        thinking_delta, usage,
    };

    const PARTIAL: StreamOptions =
        StreamOptions { include_partial_messages: true, forward_subagent_text: false };
    const EVERYTHING: StreamOptions =
        StreamOptions { include_partial_messages: true, forward_subagent_text: true };

    fn facts() -> Facts {
        Facts {
            session: SessionId("s-1".into()),
            cwd: "/repo".to_owned(),
            tools: vec!["Read".to_owned(), "Agent".to_owned()],
            agents: vec!["reviewer".to_owned()],
            skills: Vec::new(),
            slash_commands: Vec::new(),
            model: "m".into(),
            permission_mode: "default".to_owned(),
            api_key_source: "none".to_owned(),
            version: "0.1.0".to_owned(),
        }
    }

    fn reporter(options: StreamOptions) -> (StreamJson, Paper) {
        let paper = Paper::default();
        (StreamJson::new(paper.writer(), options, facts()), paper)
    }

    fn written(story: &Story, options: StreamOptions) -> String {
        let (mut reporter, paper) = reporter(options);
        tell(&mut reporter, story);
        paper.text()
    }

    fn records(text: &str) -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Leaves out what stands at the end of every line and differs by design.
    fn bare(text: &str) -> String {
        let lines = text.lines().map(|line| line.split(",\"uuid\"").next().unwrap());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns the kinds of the records, and of the streamed events in them.
    fn outline(text: &str) -> String {
        let kind = |record: &Value| {
            let parts = ["/type", "/subtype", "/event/type", "/event/delta/type", "/patch/status"];
            let parts = parts.iter().filter_map(|part| record.pointer(part)?.as_str());
            let agent = record["agent_id"].as_str().unwrap_or("main");
            format!("{agent}: {}", parts.collect::<Vec<_>>().join(" "))
        };
        records(text).iter().map(kind).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_batch_is_told_record_by_record() {
        let text = written(&Story::batch_of_three(), StreamOptions::default());
        assert_snapshot!(bare(&text), @r#"
        {"type":"system","subtype":"init","cwd":"/repo","tools":["Read","Agent"],"mcp_servers":[],"model":"m","permissionMode":"default","permission_mode":"default","slash_commands":[],"agents":["reviewer"],"skills":[],"apiKeySource":"none","output_style":"default","tine_version":"0.1.0","capabilities":["agent_batch_v1","agent_queue_v1","branches_v1"]
        {"type":"assistant","message":{"type":"message","id":"msg_e94ed2d5676c6f908dad6031b0fce1f8","role":"assistant","model":"m","content":[{"type":"tool_use","id":"call-1","name":"Agent","input":{"tasks":[1,2,3]}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":100,"output_tokens":10,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}},"parent_tool_use_id":null
        {"type":"system","subtype":"task_started","task_id":"agent-1","tool_use_id":"call-1","description":"correctness","subagent_type":"reviewer","is_backgrounded":false,"spawn_depth":1,"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":3}
        {"type":"system","subtype":"task_updated","task_id":"agent-1","patch":{"status":"pending"},"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":3}
        {"type":"system","subtype":"task_started","task_id":"agent-2","tool_use_id":"call-1","description":"security","subagent_type":"reviewer","is_backgrounded":false,"spawn_depth":1,"agent_id":"agent-2","branch":"2","slot":{"index":1,"total":3}
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"pending"},"agent_id":"agent-2","branch":"2","slot":{"index":1,"total":3}
        {"type":"system","subtype":"task_started","task_id":"agent-3","tool_use_id":"call-1","description":"style","subagent_type":"reviewer","is_backgrounded":false,"spawn_depth":1,"agent_id":"agent-3","branch":"3","slot":{"index":2,"total":3}
        {"type":"system","subtype":"task_updated","task_id":"agent-3","patch":{"status":"pending"},"agent_id":"agent-3","branch":"3","slot":{"index":2,"total":3}
        {"type":"system","subtype":"task_updated","task_id":"agent-1","patch":{"status":"running"},"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":3}
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"running"},"agent_id":"agent-2","branch":"2","slot":{"index":1,"total":3}
        {"type":"assistant","message":{"type":"message","id":"msg_4314cd7986c6283e8122db0e944d6dab","role":"assistant","model":"m","content":[{"type":"tool_use","id":"read-1","name":"Read","input":{"path":"src/a.rs"}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":200,"output_tokens":20,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}},"parent_tool_use_id":"call-1","agent_id":"agent-1","branch":"1","slot":{"index":0,"total":3},"subagent_type":"reviewer","task_description":"correctness"
        {"type":"system","subtype":"task_progress","task_id":"agent-1","tool_use_id":"call-1","description":"correctness","usage":{"total_tokens":220,"tool_uses":0,"duration_ms":400},"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":3}
        {"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"read-1","content":"fn a() {}","is_error":false}]},"parent_tool_use_id":"call-1","agent_id":"agent-1","branch":"1","slot":{"index":0,"total":3},"subagent_type":"reviewer","task_description":"correctness"
        {"type":"system","subtype":"task_progress","task_id":"agent-1","tool_use_id":"call-1","description":"correctness","usage":{"total_tokens":220,"tool_uses":1,"duration_ms":600},"last_tool_name":"Read","agent_id":"agent-1","branch":"1","slot":{"index":0,"total":3}
        {"type":"system","subtype":"task_updated","task_id":"agent-1","patch":{"status":"completed","end_time":1001500},"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":3}
        {"type":"system","subtype":"task_notification","task_id":"agent-1","tool_use_id":"call-1","status":"completed","output_file":"/state/out.txt","summary":"correctness: done in 3.2 s, 1.2k tokens","usage":{"total_tokens":1234,"tool_uses":2,"duration_ms":3250},"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":3}
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"failed","error":"the provider said 500","end_time":1001600},"agent_id":"agent-2","branch":"2","slot":{"index":1,"total":3}
        {"type":"system","subtype":"task_notification","task_id":"agent-2","tool_use_id":"call-1","status":"failed","reason":"provider","output_file":"/state/out.txt","summary":"security: failed: the provider said 500","usage":{"total_tokens":1234,"tool_uses":2,"duration_ms":3250},"agent_id":"agent-2","branch":"2","slot":{"index":1,"total":3}
        {"type":"system","subtype":"task_updated","task_id":"agent-3","patch":{"status":"killed","end_time":1001700},"agent_id":"agent-3","branch":"3","slot":{"index":2,"total":3}
        {"type":"system","subtype":"task_notification","task_id":"agent-3","tool_use_id":"call-1","status":"stopped","reason":"never_started","output_file":"","summary":"style: never started","agent_id":"agent-3","branch":"3","slot":{"index":2,"total":3}
        {"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"call-1","content":"1 of 3 completed","is_error":false}]},"parent_tool_use_id":null
        {"type":"assistant","message":{"type":"message","id":"msg_d3c029cdfda4493bb42878e8c14f4de7","role":"assistant","model":"m","content":[{"type":"text","text":"All fine."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":150,"output_tokens":15,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}},"parent_tool_use_id":null
        {"type":"result","subtype":"success","is_error":false,"duration_ms":2000,"duration_api_ms":150,"num_turns":2,"result":"All fine.","stop_reason":"end_turn","total_cost_usd":0.0,"usage":{"input_tokens":250,"output_tokens":25,"cache_read_input_tokens":0,"cache_creation_input_tokens":0},"modelUsage":{"m":{"inputTokens":450,"outputTokens":45,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.0,"contextWindow":0,"maxOutputTokens":0}},"permission_denials":[]
        "#);
    }

    #[test]
    fn a_failed_a_cancelled_and_a_skipped_slot_are_told_apart() {
        let mut story = Story::new();
        story.invocation("go").batch("call-1", &["a", "b", "c"]).start(1).start(2);
        story.end(1, failed("boom")).end(2, cancelled()).end(3, skipped());
        let text = written(&story, StreamOptions::default());
        let ends: Vec<Value> = records(&text).split_off(9);
        let told = |record: &Value| {
            let at = |pointer| record.pointer(pointer).cloned().unwrap_or_default();
            [at("/task_id"), at("/patch/status"), at("/patch/error"), at("/status"), at("/reason")]
        };
        let expected = serde_json::json!([
            ["agent-1", "failed", "boom", null, null],
            ["agent-1", null, null, "failed", "provider"],
            ["agent-2", "killed", null, null, null],
            ["agent-2", null, null, "stopped", "cancelled"],
            ["agent-3", "killed", null, null, null],
            ["agent-3", null, null, "stopped", "never_started"],
        ]);
        assert_eq!(serde_json::json!(ends.iter().map(told).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn there_is_one_result_and_it_is_last() {
        for options in [StreamOptions::default(), PARTIAL, EVERYTHING] {
            let text = written(&Story::batch_of_three(), options);
            let kinds: Vec<Value> =
                records(&text).iter().map(|record| record["type"].clone()).collect();
            assert_eq!(kinds.iter().filter(|kind| *kind == "result").count(), 1);
            assert_eq!(*kinds.last().unwrap(), "result");
        }
    }

    #[test]
    fn what_a_slot_says_is_kept_back_unless_it_is_asked_for() {
        let mut story = Story::new();
        story.invocation("go").batch("call-1", &["a"]).start(1).turn(1, 1);
        let told = story.events().len();
        let calls = vec![call_of("r", "Read", "{}")];
        let thinking = "secret thinking".to_owned();
        let reply = Reply { text: "secret text".to_owned(), thinking, calls, ..Reply::default() };
        story.replied(1, reply, Usage::default()).output(1, "r", "Read", "content");
        let run = |options| {
            let (mut reporter, paper) = reporter(options);
            story.events()[..told].iter().for_each(|event| reporter.event(event).unwrap());
            reporter.delta(&text_delta(1, "secret")).unwrap();
            story.events()[told..].iter().for_each(|event| reporter.event(event).unwrap());
            reporter.pause().unwrap();
            paper.text()
        };
        let kept_back = run(PARTIAL);
        assert!(!kept_back.contains("secret"));
        assert!(
            kept_back.contains("\"tool_use\"") && kept_back.contains("\"content\":\"content\"")
        );
        let forwarded = run(EVERYTHING);
        assert!(forwarded.contains("secret text") && forwarded.contains("secret thinking"));
        assert!(forwarded.contains("text_delta"));
    }

    #[test]
    fn an_answer_grows_block_by_block_and_is_closed() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1);
        let told = story.events().len();
        let calls = vec![call_of("r", "Read", r#"{"path":"a"}"#)];
        let reply = Reply {
            text: "Hello.".to_owned(),
            thinking: "hm".to_owned(),
            calls,
            ..Reply::default()
        };
        story.replied(0, reply, usage(10, 5)).over(done("Hello."), "Hello.");
        let (mut reporter, paper) = reporter(PARTIAL);
        story.events()[..told].iter().for_each(|event| reporter.event(event).unwrap());
        for delta in [thinking_delta(0, "hm"), text_delta(0, "Hel"), text_delta(0, "lo.")] {
            reporter.delta(&delta).unwrap();
        }
        story.events()[told..].iter().for_each(|event| reporter.event(event).unwrap());
        assert_snapshot!(bare(&paper.text()), @r#"
        {"type":"system","subtype":"init","cwd":"/repo","tools":["Read","Agent"],"mcp_servers":[],"model":"m","permissionMode":"default","permission_mode":"default","slash_commands":[],"agents":["reviewer"],"skills":[],"apiKeySource":"none","output_style":"default","tine_version":"0.1.0","capabilities":["agent_batch_v1","agent_queue_v1","branches_v1"]
        {"type":"stream_event","event":{"type":"message_start","message":{"type":"message","id":"msg_e94ed2d5676c6f908dad6031b0fce1f8","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}}},"parent_tool_use_id":null
        {"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}},"parent_tool_use_id":null
        {"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}},"parent_tool_use_id":null
        {"type":"stream_event","event":{"type":"content_block_stop","index":0},"parent_tool_use_id":null
        {"type":"stream_event","event":{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}},"parent_tool_use_id":null
        {"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hel"}},"parent_tool_use_id":null
        {"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"lo."}},"parent_tool_use_id":null
        {"type":"stream_event","event":{"type":"content_block_stop","index":1},"parent_tool_use_id":null
        {"type":"stream_event","event":{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"r","name":"Read","input":{}}},"parent_tool_use_id":null
        {"type":"stream_event","event":{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"a\"}"}},"parent_tool_use_id":null
        {"type":"stream_event","event":{"type":"content_block_stop","index":2},"parent_tool_use_id":null
        {"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}},"parent_tool_use_id":null
        {"type":"stream_event","event":{"type":"message_stop"},"parent_tool_use_id":null
        {"type":"assistant","message":{"type":"message","id":"msg_e94ed2d5676c6f908dad6031b0fce1f8","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm","signature":""}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}},"parent_tool_use_id":null
        {"type":"assistant","message":{"type":"message","id":"msg_e94ed2d5676c6f908dad6031b0fce1f8","role":"assistant","model":"m","content":[{"type":"text","text":"Hello."}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}},"parent_tool_use_id":null
        {"type":"assistant","message":{"type":"message","id":"msg_e94ed2d5676c6f908dad6031b0fce1f8","role":"assistant","model":"m","content":[{"type":"tool_use","id":"r","name":"Read","input":{"path":"a"}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}},"parent_tool_use_id":null
        {"type":"result","subtype":"success","is_error":false,"duration_ms":300,"duration_api_ms":50,"num_turns":1,"result":"Hello.","stop_reason":"tool_use","total_cost_usd":0.0,"usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":0,"cache_creation_input_tokens":0},"modelUsage":{"m":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.0,"contextWindow":0,"maxOutputTokens":0}},"permission_denials":[]
        "#);
    }

    #[test]
    fn an_answer_that_was_never_streamed_comes_in_one_piece() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).reply(0, "Hello.", 1, 1).over(done("x"), "x");
        assert_snapshot!(outline(&written(&story, PARTIAL)), @r#"
        main: system init
        main: stream_event message_start
        main: stream_event content_block_start
        main: stream_event content_block_delta text_delta
        main: stream_event content_block_stop
        main: stream_event message_delta
        main: stream_event message_stop
        main: assistant
        main: result success
        "#);
    }

    #[test]
    fn an_answer_that_breaks_off_is_closed_before_the_end_is_told() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).batch("c", &["a"]).start(1).turn(1, 1);
        let told = story.events().len();
        story.end(1, cancelled()).over_after(
            cancelled(),
            "par",
            Some(CancelReason::Terminate),
            &[1],
        );
        let (mut reporter, paper) = reporter(EVERYTHING);
        story.events()[..told].iter().for_each(|event| reporter.event(event).unwrap());
        for delta in [text_delta(0, "par"), text_delta(1, "x"), thinking_delta(1, "y")] {
            reporter.delta(&delta).unwrap();
        }
        story.events()[told..].iter().for_each(|event| reporter.event(event).unwrap());
        assert_snapshot!(outline(&paper.text()), @r#"
        main: system init
        agent-1: system task_started
        agent-1: system task_updated pending
        agent-1: system task_updated running
        main: stream_event message_start
        main: stream_event content_block_start
        main: stream_event content_block_delta text_delta
        agent-1: stream_event message_start
        agent-1: stream_event content_block_start
        agent-1: stream_event content_block_delta text_delta
        agent-1: stream_event content_block_stop
        agent-1: stream_event content_block_start
        agent-1: stream_event content_block_delta thinking_delta
        agent-1: stream_event content_block_stop
        agent-1: stream_event message_delta
        agent-1: stream_event message_stop
        agent-1: system task_updated killed
        agent-1: system task_notification
        main: stream_event content_block_stop
        main: stream_event message_delta
        main: stream_event message_stop
        main: result error_during_execution
        "#);
    }

    #[test]
    fn a_turn_that_is_tried_again_closes_the_answer_before() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).turn(0, 2);
        let (mut reporter, paper) = reporter(PARTIAL);
        reporter.event(&story.events()[0]).unwrap();
        for event in &story.events()[1..] {
            reporter.event(event).unwrap();
            reporter.delta(&text_delta(0, "x")).unwrap();
        }
        reporter.pause().unwrap();
        assert_snapshot!(outline(&paper.text()), @r#"
        main: system init
        main: stream_event message_start
        main: stream_event content_block_start
        main: stream_event content_block_delta text_delta
        main: stream_event content_block_stop
        main: stream_event message_delta
        main: stream_event message_stop
        main: stream_event message_start
        main: stream_event content_block_start
        main: stream_event content_block_delta text_delta
        "#);
    }

    #[test]
    fn the_records_of_one_answer_share_its_id() {
        let mut story = Story::new();
        let calls = vec![call_of("r", "Read", "{}")];
        let reply =
            Reply { text: "x".to_owned(), thinking: "y".to_owned(), calls, ..Reply::default() };
        story.invocation("go").turn(0, 1).replied(0, reply, Usage::default());
        story.turn(0, 2).reply(0, "z", 1, 1);
        let text = written(&story, PARTIAL);
        let ids: Vec<String> = records(&text)
            .iter()
            .filter_map(|record| {
                record.pointer("/message/id").or(record.pointer("/event/message/id"))
            })
            .map(ToString::to_string)
            .collect();
        assert_eq!(ids.len(), 6);
        assert!(ids[..4].iter().all(|id| *id == ids[0]));
        assert!(ids[4..].iter().all(|id| *id == ids[4] && *id != ids[0]));
    }

    #[test]
    fn the_same_log_gives_the_same_records_each_with_a_name_of_its_own() {
        let story = Story::batch_of_three();
        let text = written(&story, EVERYTHING);
        assert_eq!(text, written(&story, EVERYTHING));
        let names: std::collections::BTreeSet<String> =
            records(&text).iter().map(|record| record["uuid"].to_string()).collect();
        assert_eq!(names.len(), text.lines().count());
        assert!(records(&text).iter().all(|record| record["session_id"] == "s-1"));
    }

    #[test]
    fn the_models_of_the_result_add_up_to_every_unit() {
        let text = written(&Story::batch_of_three(), StreamOptions::default());
        let result = records(&text).pop().unwrap();
        assert_eq!(result["usage"]["input_tokens"], 250);
        assert_eq!(result["usage"]["output_tokens"], 25);
        assert_eq!(result["modelUsage"]["m"]["inputTokens"], 450);
        assert_eq!(result["modelUsage"]["m"]["outputTokens"], 45);
    }

    #[test]
    fn a_unit_that_was_never_declared_is_not_taken_for_main() {
        let mut story = Story::new();
        story.turn(9, 1).reply(9, "x", 1, 1).output(9, "r", "Read", "x").end(9, done("x"));
        assert_eq!(written(&story, EVERYTHING), "");
    }

    #[test]
    fn hostile_text_is_escaped_in_every_record() {
        const HOSTILE: &str = "a\u{1b}]0;t\u{7}\u{9b}2J\u{202e}\u{e0041}";
        let mut story = Story::new();
        story.invocation("go").batch(HOSTILE, &[HOSTILE]).start(1).turn(1, 1);
        story
            .reply(1, HOSTILE, 1, 1)
            .call(1, "r", HOSTILE, HOSTILE)
            .output(1, "r", HOSTILE, HOSTILE);
        story
            .denied(1, "d", HOSTILE, HOSTILE)
            .end(1, failed(HOSTILE))
            .over(failed(HOSTILE), HOSTILE);
        let text = written(&story, EVERYTHING);
        let is_shown = |character: char| !crate::report::sanitise::is_hidden(character);
        assert!(text.chars().all(is_shown));
        let result = records(&text).pop().unwrap();
        assert_eq!(result["errors"][0], HOSTILE);
    }

    #[test]
    fn output_is_flushed_at_a_pause_and_with_the_result() {
        let story = Story::batch_of_three();
        let (mut reporter, paper) = reporter(StreamOptions::default());
        for event in story.events() {
            assert_eq!(paper.flushes(), 0);
            reporter.event(event).unwrap();
        }
        assert_eq!(paper.flushes(), 1);
        reporter.pause().unwrap();
        assert_eq!(paper.flushes(), 2);
    }

    #[test]
    fn a_broken_pipe_is_an_error_and_no_panic() {
        let mut reporter = StreamJson::new(Box::new(BrokenPipe), StreamOptions::default(), facts());
        let mut story = Story::new();
        story.invocation("go");
        reporter.event(&story.events()[0]).unwrap();
        assert_eq!(reporter.pause().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
