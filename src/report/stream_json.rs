//! The run as stream-json records, for programs and SDKs.
//!
//! Events become records here, one line each; `record` holds their form,
//! `requests` tells of requests that have no answer yet. A unit never has a
//! `result`: a client takes any for the end of the turn.

mod convert;
mod requests;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;

use crate::branch::Branch;
use crate::event::{
    Chosen, Compaction, Delta, Event, EventKind, HookRan, NoticeLevel, Replied, SandboxHead,
    ServerGlance, SessionId, UnitEnd, UnitHead, UnitId,
};
use crate::message::{CallId, Output, Usage};
use crate::run::Reporter;

use super::lines::{Lines, message_id};
use super::record::{
    Assistant, BackgroundTask, BackgroundTasksChanged, CompactBoundary, CompactMetadata,
    HookResponse, Informational, ModeRecord, PermissionDenied, Record, ResultContent, ResultRecord,
    SessionStateChanged, System, TaskProgress, TaskStarted, TaskStatus, TaskUpdated, ToolResult,
    User, UserMessage, Wait,
};
use super::result::{Ending, FindFacts, Tally};
use super::stream::Stream;
use super::units::{Unit, Units};
use convert::{
    call_of, contents, ended_patch, init, message, notification, speaker, strand, stream_event,
    task_usage, updated,
};
use standing::{Standing, State};

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
    /// Questions, as requests to the client.
    pub asks_client: bool,
    /// How the session stands, and whether that is for the program alone that
    /// drives it.
    pub states: Option<HostOnly>,
}

/// Whether something is for the program that drives a run, and not for who uses
/// that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostOnly(pub bool);

/// Returns what is wanted of the sandbox and what holds commands.
pub type FindSandbox = Arc<dyn Fn() -> SandboxHead + Send + Sync>;

/// What the records tell and no event holds.
#[derive(Clone)]
pub struct Facts {
    /// The session's id; stands in every record.
    pub session: SessionId,
    /// The working directory.
    pub cwd: String,
    /// The names of the tools, in the registry's order; those of servers come
    /// behind them once they are offered.
    pub tools: Vec<String>,
    /// The servers of tools that are configured.
    pub servers: Vec<ServerGlance>,
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
    /// Finds out what holds commands. That takes longer than the rest of a start, and no
    /// request waits for this record.
    pub sandbox: FindSandbox,
    /// What is known of the models.
    pub models: FindFacts,
}

/// Writes a run as stream-json records.
pub struct StreamJson {
    output: Lines,
    options: StreamOptions,
    facts: Facts,
    units: Units,
    tally: Tally,
    /// The tokens of every unit, by model, in all invocations that are over.
    spent: BTreeMap<Arc<str>, Usage>,
    /// The answers that are being written, by unit.
    streams: BTreeMap<UnitId, Stream>,
    /// The model that answered a unit last, or goes on for it.
    models: BTreeMap<UnitId, Arc<str>>,
    /// Units, main too, of which was told that their request has to wait.
    paused: BTreeSet<UnitId>,
    /// Whether a unit in the background has come or gone since they were
    /// listed.
    background_is_new: bool,
    standing: Standing,
    /// Whether the first record of an invocation is still to be written.
    is_unopened: bool,
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
            spent: BTreeMap::new(),
            streams: BTreeMap::new(),
            models: BTreeMap::new(),
            paused: BTreeSet::new(),
            background_is_new: false,
            standing: Standing::default(),
            is_unopened: false,
        }
    }

    /// Begins the records of an invocation. The first of them names what servers
    /// offer, so it waits for that if there are servers.
    fn invocation_started(&mut self) -> io::Result<()> {
        self.is_unopened = !self.facts.servers.is_empty();
        if self.is_unopened { Ok(()) } else { self.output.write(init(&self.facts, None)) }
    }

    /// Writes the first record before anything else is told.
    fn open(&mut self, event: &Event) -> io::Result<()> {
        let offered = event.kind.offered();
        if let Some(tools) = offered.and_then(|offered| offered.tools.as_ref()) {
            self.facts.tools.retain(|name| !name.starts_with(crate::mcp::name::PREFIX));
            self.facts.tools.extend(tools.iter().map(|tool| tool.name.to_string()));
        }
        if std::mem::take(&mut self.is_unopened) {
            self.output.write(init(&self.facts, offered))?;
        }
        Ok(())
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
        self.output.write(updated(&task_id, TaskStatus::Pending, Wait::default(), strand))
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
            task_type: "local_agent",
            task_id: id.to_string(),
            description: &unit.head.description,
            subagent_type: &unit.head.agent,
        });
        let tasks: Vec<_> = tasks.collect();
        let left_out = self.units.beside() - tasks.len();
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
        let task_id = event.unit.to_string();
        self.output.write(updated(&task_id, TaskStatus::Running, Wait::default(), strand))
    }

    fn turn_started(&mut self, event: &Event) -> io::Result<()> {
        self.break_off(event.unit, Usage::default())?;
        let id = message_id(&self.facts.session, event.seq);
        self.streams.insert(event.unit, Stream::new(id, event.seq));
        Ok(())
    }

    fn replied(&mut self, event: &Event, replied: &Replied) -> io::Result<()> {
        let stream = self.streams.remove(&event.unit);
        self.models.insert(event.unit, Arc::clone(&replied.model));
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
            usage: task_usage(
                unit.usage,
                unit.tool_uses,
                unit.started.map_or(0, |started| event.at.since(started)),
            ),
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

    fn hook_ran(&mut self, event: &Event, ran: &HookRan) -> io::Result<()> {
        let speaker = speaker(&self.units, event.unit, &event.branch);
        let strand = speaker.map(|speaker| speaker.strand).unwrap_or_default();
        let response = HookResponse::of(event.seq, ran, strand);
        self.output.write(Record::System(System::HookResponse(response)))
    }

    fn unit_ended(&mut self, event: &Event, unit: &Unit, end: &UnitEnd) -> io::Result<()> {
        let task_id = event.unit.to_string();
        let strand = strand(event.unit, &unit.head, &event.branch);
        let patch = ended_patch(&end.outcome, event.at);
        self.output.write(Record::System(System::TaskUpdated(TaskUpdated {
            task_id: &task_id,
            patch,
            wait: Wait::default(),
            strand: strand.clone(),
        })))?;
        let notification = notification(&task_id, unit, end, strand);
        self.background_is_new |= unit.head.is_background;
        self.output.write(Record::System(System::TaskNotification(notification)))
    }

    fn invocation_ended(&mut self, mut ending: Ending) -> io::Result<()> {
        // What a program pays for is the process, whatever it asks of it.
        for (model, usage) in std::mem::take(&mut ending.models) {
            *self.spent.entry(model).or_default() += usage;
        }
        ending.models = self.spent.clone();
        while let Some((&unit, _)) = self.streams.first_key_value() {
            self.break_off(unit, Usage::default())?;
        }
        self.paused.remove(&UnitId::MAIN);
        self.list_background()?;
        let result = ResultRecord::new(&ending, &self.facts.models);
        self.output.write(Record::Result(Box::new(result)))?;
        self.output.flush()
    }

    /// Ends the answer that a unit was writing. Called before the unit is
    /// forgotten.
    fn break_off(&mut self, unit: UnitId, usage: Usage) -> io::Result<()> {
        let Some(stream) = self.streams.remove(&unit) else { return Ok(()) };
        let branch = self.branch_of(unit);
        let Some(speaker) = speaker(&self.units, unit, &branch) else { return Ok(()) };
        stream.break_off(usage, &mut |origin, streamed| {
            self.output.write_from(origin, stream_event(streamed, &speaker))
        })
    }

    fn branch_of(&self, unit: UnitId) -> Branch {
        self.units.get(unit).map_or_else(Branch::root, |unit| unit.branch.clone())
    }

    /// Writes the records of an event.
    fn tell(&mut self, event: &Event, ended: Option<Unit>, was_asked: bool) -> io::Result<()> {
        match &event.kind {
            EventKind::InvocationStarted { .. } => self.invocation_started(),
            EventKind::UnitQueued(head) => self.queued(event, head),
            EventKind::UnitStarted => self.started(event),
            EventKind::Lost { worker, attempt } => self.lost(event, worker, *attempt),
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
            EventKind::HookRan(ran) => self.hook_ran(event, ran),
            EventKind::SetAside { .. } => {
                self.background_is_new = true;
                Ok(())
            }
            EventKind::Chosen(chosen) => self.chosen(chosen),
            EventKind::Compacted(compaction) => self.compacted(event, compaction),
            EventKind::Throttled(throttled) => self.throttled(event, throttled),
            EventKind::Admitted { waited_ms } => self.admitted(event, *waited_ms),
            EventKind::RequestFailed(failed) => self.request_failed(event, failed),
            EventKind::Asked { id, question } => self.asked(event, *id, question),
            // One that was never asked changed nothing of how its unit stands.
            EventKind::Answered { .. } if !was_asked => Ok(()),
            EventKind::Answered { id, question: _, answer } => self.answered(event, *id, answer),
            EventKind::SessionOpened(_)
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::PrefixShared(_)
            | EventKind::ToolStarted { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { .. }
            | EventKind::InvocationEnded(_) => Ok(()),
        }
    }

    fn chosen(&mut self, chosen: &Chosen) -> io::Result<()> {
        self.facts.model = Arc::clone(&chosen.model);
        let is_new = self.facts.permission_mode != *chosen.mode;
        self.facts.permission_mode = chosen.mode.to_string();
        if !is_new {
            return Ok(());
        }
        self.output
            .write(Record::System(System::Mode(ModeRecord { status: None, mode: &chosen.mode })))
    }

    /// Tells how the session stands, if that is wanted.
    fn stands(&mut self, state: State) -> io::Result<()> {
        let Some(HostOnly(sdk_host_only)) = self.options.states else { return Ok(()) };
        let changed = SessionStateChanged { state: state.as_str(), sdk_host_only };
        self.output.write(Record::System(System::SessionStateChanged(changed)))
    }
}

impl Reporter for StreamJson {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.output.begin(event.seq);
        self.open(event)?;
        if let EventKind::UnitEnded(_) | EventKind::Lost { .. } = &event.kind {
            self.break_off(event.unit, Usage::default())?;
            self.models.remove(&event.unit);
            self.paused.remove(&event.unit);
        }
        let was_asked = matches!(
            &event.kind,
            EventKind::Answered { id, .. } if self.units.is_open(event.unit, *id)
        );
        let ended = self.units.take(event);
        let ending = self.tally.take(event);
        let state = self.standing.take(event, &self.units);
        // It goes on before the first record of what goes on, and comes to rest
        // behind the last.
        match state {
            Some(State::Idle) | None => {}
            Some(state @ (State::Running | State::RequiresAction)) => self.stands(state)?,
        }
        if let Some(ending) = ending {
            self.invocation_ended(ending)?;
        } else {
            self.tell(event, ended, was_asked)?;
        }
        match state {
            Some(State::Idle) if self.options.states.is_some() => {
                self.stands(State::Idle)?;
                self.output.flush()
            }
            Some(State::Idle | State::Running | State::RequiresAction) | None => Ok(()),
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
        let model = self.models.get(&delta.unit).unwrap_or(&self.facts.model);
        stream.piece(&delta.piece, model, &mut |origin, streamed| {
            self.output.write_from(origin, stream_event(streamed, &speaker))
        })
    }

    fn pause(&mut self) -> io::Result<()> {
        self.list_background()?;
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::Value;

    use super::*;
    use crate::event::{
        AfterFailure, Backend, CancelReason, Insistence, NetworkAccess, Question, QuestionId, Seq,
        ThrottleCause, Verdict,
    };
    use crate::message::Reply;
    use crate::model;
    use crate::report::story::{
        BrokenPipe, Paper, Story, call_of, cancelled, done, failed, paid, question, skipped, tell,
        text_delta, thinking_delta, usage,
    };

    const NOTHING_MORE: StreamOptions = StreamOptions {
        include_partial_messages: false,
        forward_subagent_text: false,
        asks_client: false,
        states: None,
    };
    const PARTIAL: StreamOptions = StreamOptions { include_partial_messages: true, ..NOTHING_MORE };
    const EVERYTHING: StreamOptions = StreamOptions { forward_subagent_text: true, ..PARTIAL };
    const ASKING: StreamOptions = StreamOptions { asks_client: true, ..NOTHING_MORE };

    fn facts() -> Facts {
        Facts {
            session: SessionId("s-1".into()),
            cwd: "/repo".to_owned(),
            servers: Vec::new(),
            tools: vec!["Read".to_owned(), "Agent".to_owned()],
            agents: vec!["reviewer".to_owned()],
            skills: Vec::new(),
            slash_commands: Vec::new(),
            model: "m".into(),
            permission_mode: "default".to_owned(),
            api_key_source: "none".to_owned(),
            version: "0.1.0".to_owned(),
            sandbox: Arc::new(|| SandboxHead {
                mode: Insistence::Best,
                network: NetworkAccess::None,
                installed: Backend::Bwrap,
            }),
            models: Arc::new(|name| (name == "m").then_some(FACTS)),
        }
    }

    const FACTS: model::Facts = model::Facts {
        context_window: 200_000,
        max_output_tokens: Some(8_192),
        price: None,
        takes_images: false,
    };

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
        {"type":"system","subtype":"init","cwd":"/repo","tools":["Read","Agent"],"mcp_servers":[],"model":"m","permissionMode":"default","permission_mode":"default","slash_commands":[],"agents":["reviewer"],"skills":[],"apiKeySource":"none","output_style":"default","tine_version":"0.1.0","claude_code_version":"2.1.330","plugins":[],"sandbox":{"mode":"best","network":false,"network_access":"none","installed":"bwrap"},"capabilities":["agent_batch_v1","agent_queue_v1","branches_v1"]
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
        {"type":"system","subtype":"task_notification","task_id":"agent-2","tool_use_id":"call-1","status":"failed","cause":"provider","output_file":"/state/out.txt","summary":"security: failed: the provider said 500","usage":{"total_tokens":1234,"tool_uses":2,"duration_ms":3250},"agent_id":"agent-2","branch":"2","slot":{"index":1,"total":3}
        {"type":"system","subtype":"task_updated","task_id":"agent-3","patch":{"status":"killed","end_time":1001700},"agent_id":"agent-3","branch":"3","slot":{"index":2,"total":3}
        {"type":"system","subtype":"task_notification","task_id":"agent-3","tool_use_id":"call-1","status":"stopped","reason":"never_started","cause":"never_started","output_file":"","summary":"style: never started","agent_id":"agent-3","branch":"3","slot":{"index":2,"total":3}
        {"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"call-1","content":"1 of 3 completed","is_error":false}]},"parent_tool_use_id":null
        {"type":"assistant","message":{"type":"message","id":"msg_d3c029cdfda4493bb42878e8c14f4de7","role":"assistant","model":"m","content":[{"type":"text","text":"All fine."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":150,"output_tokens":15,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}},"parent_tool_use_id":null
        {"type":"result","subtype":"success","is_error":false,"duration_ms":2000,"duration_api_ms":150,"num_turns":2,"result":"All fine.","stop_reason":"end_turn","total_cost_usd":0.0,"usage":{"input_tokens":250,"output_tokens":25,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard"},"modelUsage":{"m":{"inputTokens":450,"outputTokens":45,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.0,"contextWindow":200000,"maxOutputTokens":8192,"webSearchRequests":0}},"permission_denials":[],"terminal_reason":"completed"
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
            [at("/task_id"), at("/patch/status"), at("/patch/error"), at("/status"), at("/cause")]
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
        {"type":"system","subtype":"init","cwd":"/repo","tools":["Read","Agent"],"mcp_servers":[],"model":"m","permissionMode":"default","permission_mode":"default","slash_commands":[],"agents":["reviewer"],"skills":[],"apiKeySource":"none","output_style":"default","tine_version":"0.1.0","claude_code_version":"2.1.330","plugins":[],"sandbox":{"mode":"best","network":false,"network_access":"none","installed":"bwrap"},"capabilities":["agent_batch_v1","agent_queue_v1","branches_v1"]
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
        {"type":"result","subtype":"success","is_error":false,"duration_ms":300,"duration_api_ms":50,"num_turns":1,"result":"Hello.","stop_reason":"tool_use","total_cost_usd":0.0,"usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard"},"modelUsage":{"m":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.0,"contextWindow":200000,"maxOutputTokens":8192,"webSearchRequests":0}},"permission_denials":[],"terminal_reason":"completed"
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
    fn a_request_that_waits_pauses_its_unit_and_one_that_is_made_again_says_so() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).throttled(0, ThrottleCause::Provider, Some(12_000));
        story.admitted(0, 12_050).retried(0, 1, Some(529)).admitted(0, 3_000);
        story.batch("call-1", &["a"]).start(1).turn(1, 1);
        story.throttled(1, ThrottleCause::InFlight, None).admitted(1, 70).retried(1, 1, None);
        story.throttled(1, ThrottleCause::Tokens, Some(800)).admitted(1, 3_900);
        story.request_failed(1, 2, Some(503), AfterFailure::Fallback { model: "small".into() });
        story.replied_by(1, "small", Reply::default(), paid(300, 30, 4)).end(1, done("x"));
        story.request_failed(0, 2, Some(401), AfterFailure::Nothing).over(failed("401"), "");
        let text = bare(&written(&story, StreamOptions::default()));
        let (_, told) = text.split_once('\n').unwrap();
        assert_snapshot!(told, @r#"
        {"type":"system","subtype":"status","status":null,"reason":"throttled","cause":"provider","wait_ms":12000
        {"type":"system","subtype":"status","status":"requesting","waited_ms":12050
        {"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":3000,"error_status":529,"error":"overloaded","message":"the provider said 529","model":"m"
        {"type":"system","subtype":"task_started","task_id":"agent-1","tool_use_id":"call-1","description":"a","subagent_type":"reviewer","is_backgrounded":false,"spawn_depth":1,"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":1}
        {"type":"system","subtype":"task_updated","task_id":"agent-1","patch":{"status":"pending"},"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":1}
        {"type":"system","subtype":"task_updated","task_id":"agent-1","patch":{"status":"running"},"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":1}
        {"type":"system","subtype":"task_updated","task_id":"agent-1","patch":{"status":"paused"},"reason":"throttled","cause":"in_flight","agent_id":"agent-1","branch":"1","slot":{"index":0,"total":1}
        {"type":"system","subtype":"task_updated","task_id":"agent-1","patch":{"status":"running"},"waited_ms":70,"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":1}
        {"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":3000,"error_status":null,"error":"unknown","message":"the answer broke off","model":"m","agent_id":"agent-1","branch":"1","slot":{"index":0,"total":1}
        {"type":"system","subtype":"task_updated","task_id":"agent-1","patch":{"status":"paused"},"reason":"throttled","cause":"tokens_per_minute","wait_ms":800,"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":1}
        {"type":"system","subtype":"task_updated","task_id":"agent-1","patch":{"status":"running"},"waited_ms":3900,"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":1}
        {"type":"system","subtype":"informational","content":"request to `m` failed: the provider said 503; goes on with `small`","level":"warning","agent_id":"agent-1","branch":"1","slot":{"index":0,"total":1}
        {"type":"system","subtype":"task_progress","task_id":"agent-1","tool_use_id":"call-1","description":"a","usage":{"total_tokens":340,"tool_uses":0,"duration_ms":800,"cost_usd":0.04},"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":1}
        {"type":"system","subtype":"task_updated","task_id":"agent-1","patch":{"status":"completed","end_time":1001700},"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":1}
        {"type":"system","subtype":"task_notification","task_id":"agent-1","tool_use_id":"call-1","status":"completed","output_file":"/state/out.txt","summary":"a: done in 3.2 s, 1.2k tokens","usage":{"total_tokens":1234,"tool_uses":2,"duration_ms":3250},"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":1}
        {"type":"result","subtype":"error_during_execution","is_error":true,"duration_ms":1800,"duration_api_ms":130,"num_turns":1,"stop_reason":null,"total_cost_usd":0.04,"api_retries":2,"throttled_ms":19020,"usage":{"input_tokens":10,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard"},"modelUsage":{"m":{"inputTokens":20,"outputTokens":0,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.0,"contextWindow":200000,"maxOutputTokens":8192,"webSearchRequests":0},"small":{"inputTokens":300,"outputTokens":30,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.04,"contextWindow":0,"maxOutputTokens":0,"webSearchRequests":0}},"permission_denials":[],"errors":["401"]
        "#);
    }

    #[test]
    fn a_unit_that_was_lost_is_pending_again_and_what_it_was_writing_is_closed() {
        let mut story = Story::new();
        story.invocation("go").batch("call-1", &["a"]).start(1).turn(1, 1).lose(1, 1);
        story.start(1).turn(1, 1).reply(1, "x", 1, 1).end(1, done("x")).over(done("x"), "x");
        let paper = Paper::default();
        let mut stream = StreamJson::new(paper.writer(), EVERYTHING, facts());
        for event in story.events() {
            stream.event(event).unwrap();
            if let EventKind::TurnStarted { turn: _ } = event.kind {
                stream.delta(&text_delta(1, "x")).unwrap();
            }
        }
        let told: Vec<String> = paper
            .text()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|record| {
                let event = record["event"]["type"].as_str().unwrap_or_default();
                let words = ["type", "subtype", "reason", "worker"].map(|name| &record[name]);
                let words = words.into_iter().filter_map(Value::as_str);
                let status = record["patch"]["status"].as_str();
                let words = words.chain(status).chain([event]).filter(|word| !word.is_empty());
                words.collect::<Vec<_>>().join(" ")
            })
            .collect();
        let place = told.iter().position(|line| line.contains("lost")).unwrap();
        assert_snapshot!(told[place - 4..=place + 2].join("\n"), @"
        stream_event content_block_delta
        stream_event content_block_stop
        stream_event message_delta
        stream_event message_stop
        system task_updated lost w-7 pending
        system task_updated running
        stream_event message_start
        ");
    }

    /// A client that puts messages together from their pieces, by the rules of
    /// the protocol, and forgets those that do not count.
    #[derive(Default)]
    struct Client {
        /// The messages that are being written, by speaker.
        open: BTreeMap<String, Message>,
        messages: Vec<Message>,
    }

    /// A message as far as it was put together.
    #[derive(Debug, PartialEq)]
    struct Message {
        id: String,
        /// The kind of each block, and what it holds.
        blocks: Vec<(String, String)>,
        open_block: Option<usize>,
    }

    impl Client {
        fn take(&mut self, record: &Value) {
            let speaker = record["agent_id"].as_str().unwrap_or("main").to_owned();
            let event = &record["event"];
            let index = || usize::try_from(event["index"].as_u64().unwrap()).unwrap();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            match event["type"].as_str().unwrap() {
                "message_start" => {
                    let id = text(&event["message"]["id"]);
                    let message = Message { id, blocks: Vec::new(), open_block: None };
                    let before = self.open.insert(speaker, message);
                    assert_eq!(before, None, "the message before has its end");
                }
                "message_stop" => {
                    let message = self.open.remove(&speaker).expect("it has begun");
                    assert_eq!(message.open_block, None, "every block has its end");
                    if record["void"] != true {
                        self.messages.push(message);
                    }
                }
                kind => {
                    let message = self.open.get_mut(&speaker).expect("it has begun");
                    let (blocks, open) = (&mut message.blocks, &mut message.open_block);
                    match kind {
                        "content_block_start" => {
                            assert_eq!((*open, index()), (None, blocks.len()));
                            *open = Some(blocks.len());
                            blocks.push((text(&event["content_block"]["type"]), String::new()));
                        }
                        "content_block_delta" => {
                            assert_eq!(*open, Some(index()));
                            let delta = &event["delta"];
                            let keys = ["text", "thinking", "partial_json"];
                            let piece = keys.iter().find_map(|key| delta[key].as_str()).unwrap();
                            blocks.last_mut().unwrap().1.push_str(piece);
                        }
                        "content_block_stop" => assert_eq!(open.take(), Some(index())),
                        _ => assert_eq!((kind, *open), ("message_delta", None)),
                    }
                }
            }
        }
    }

    /// Tells a story in which `pieces` are streamed behind each turn and each
    /// failed request.
    fn streamed(story: &Story, pieces: &[Delta]) -> String {
        let (mut reporter, paper) = reporter(EVERYTHING);
        for event in story.events() {
            reporter.event(event).unwrap();
            if let EventKind::TurnStarted { .. } | EventKind::RequestFailed(_) = event.kind {
                let of_unit = pieces.iter().filter(|piece| piece.unit == event.unit);
                of_unit.for_each(|piece| reporter.delta(piece).unwrap());
            }
        }
        reporter.pause().unwrap();
        paper.text()
    }

    #[test]
    fn what_a_client_collects_is_the_answer_however_often_a_request_was_made_again() {
        let mut story = Story::new();
        story.invocation("go").batch("call-1", &["a"]).start(1).turn(0, 1).turn(1, 1);
        story.retried(0, 1, Some(529)).retried(1, 1, None).retried(0, 2, None);
        story.request_failed(1, 2, None, AfterFailure::Fallback { model: "small".into() });
        let reply = |calls| Reply {
            text: "Hello.".to_owned(),
            thinking: "hm".to_owned(),
            calls,
            ..Reply::default()
        };
        story.replied_by(1, "small", reply(Vec::new()), usage(1, 1));
        story.replied(0, reply(vec![call_of("r", "Read", "{}")]), usage(1, 1));
        let pieces = [0, 1].map(|unit| {
            [thinking_delta(unit, "hm"), text_delta(unit, "Hel"), text_delta(unit, "lo.")]
        });
        let text = streamed(&story, &pieces.concat());

        let all = records(&text);
        let mut client = Client::default();
        all.iter().filter(|record| record["type"] == "stream_event").for_each(|record| {
            client.take(record);
        });
        let block = |kind: &str, text: &str| (kind.to_owned(), text.to_owned());
        let said = [block("thinking", "hm"), block("text", "Hello.")];
        let called = [&said[..], &[block("tool_use", "{}")]].concat();
        let collected: Vec<_> =
            client.messages.iter().map(|message| message.blocks.clone()).collect();
        assert_eq!(collected, [said.to_vec(), called]);
        // By the ids under which the whole answers come.
        let answers = all.iter().filter(|record| record["type"] == "assistant");
        let mut ids: Vec<_> = answers.map(|record| record["message"]["id"].as_str()).collect();
        ids.dedup();
        let collected: Vec<_> = client.messages.iter().map(|message| Some(&*message.id)).collect();
        assert_eq!(ids, collected);
        let uuids: BTreeSet<_> = all.iter().map(|record| record["uuid"].to_string()).collect();
        assert_eq!(uuids.len(), all.len());
        // The one that goes on is named from its first piece on.
        let starts = all.iter().filter_map(|record| record.pointer("/event/message/model"));
        let models: Vec<_> = starts.filter_map(Value::as_str).collect();
        assert_eq!(models, ["m", "m", "m", "m", "m", "small"]);
    }

    #[test]
    fn the_examples_of_the_json_page_are_what_such_a_run_prints() {
        const PAGE: &str = include_str!("../../docs/json.md");
        let (_, page) =
            PAGE.split_once("\n# Requests that wait or fail\n").expect("the page tells of them");
        let (page, _) = page.split_once("\n# ").expect("other things follow");
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).throttled(0, ThrottleCause::Provider, Some(12_000));
        story.admitted(0, 12_040).retried(0, 1, Some(529)).batch("call_0_1_0", &["price"]);
        story.start(1).turn(1, 1).throttled(1, ThrottleCause::InFlight, None).admitted(1, 640);
        story.retried(1, 1, None);
        let next = AfterFailure::Fallback { model: "qwen3-small".into() };
        story.request_failed(1, 2, Some(503), next);
        let paper = Paper::default();
        let session = SessionId("019a9f3c-5d2e-7c41-9b60-2f8f6a1d4e77".into());
        let mut reporter = StreamJson::new(paper.writer(), PARTIAL, Facts { session, ..facts() });
        for event in story.events() {
            reporter.event(event).unwrap();
            if let EventKind::Admitted { .. } = event.kind {
                reporter.delta(&text_delta(event.unit.0, "Two")).unwrap();
            }
        }
        reporter.pause().unwrap();
        let text = paper.text();
        let is_told = |line: &&str| {
            ["api_retry", "status\",\"status", "paused", "waited_ms", "informational", "void"]
                .iter()
                .any(|word| line.contains(word))
        };
        let told: Vec<&str> = text.lines().filter(is_told).collect();
        let shown = page.lines().filter(|line| line.starts_with("{\""));
        assert_eq!(shown.collect::<Vec<_>>().join("\n"), told.join("\n"));
    }

    #[test]
    fn an_attempt_is_closed_before_the_next_is_announced() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).retried(0, 1, Some(529)).reply(0, "x", 1, 1);
        assert_snapshot!(outline(&streamed(&story, &[text_delta(0, "x")])), @"
        main: system init
        main: stream_event message_start
        main: stream_event content_block_start
        main: stream_event content_block_delta text_delta
        main: stream_event content_block_stop
        main: stream_event message_delta
        main: stream_event message_stop
        main: system api_retry
        main: stream_event message_start
        main: stream_event content_block_start
        main: stream_event content_block_delta text_delta
        main: stream_event content_block_stop
        main: stream_event message_delta
        main: stream_event message_stop
        main: assistant
        ");
    }

    #[test]
    fn a_request_that_fails_before_it_streams_anything_leaves_no_message() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1).retried(0, 1, Some(529)).reply(0, "x", 1, 1);
        assert_snapshot!(outline(&written(&story, PARTIAL)), @"
        main: system init
        main: system api_retry
        main: stream_event message_start
        main: stream_event content_block_start
        main: stream_event content_block_delta text_delta
        main: stream_event content_block_stop
        main: stream_event message_delta
        main: stream_event message_stop
        main: assistant
        ");
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

    #[test]
    fn a_question_is_a_request_to_a_client_that_answers_and_is_taken_back_if_it_has_not() {
        let mut story = Story::new();
        let make = || question("make");
        story.invocation("go").batch("call-1", &["a", "b"]).start(1).start(2);
        story.asks(1, 17, make()).asks(2, 18, make());
        story.asks(0, 19, Question::Batch { slots: 40 });
        story.answered(1, 17, (make(), Verdict::ForSession));
        story.answered(2, 18, (make(), Verdict::Covered(QuestionId(Seq(17)))));
        story.answered(2, 30, (make(), Verdict::Covered(QuestionId(Seq(17)))));
        story.answered(0, 19, (Question::Batch { slots: 40 }, Verdict::Withdrawn));
        let text = written(&story, ASKING);
        let lines: Vec<&str> = text.lines().skip(7).collect();
        assert_snapshot!(bare(&lines.join("\n")), @r#"
        {"type":"system","subtype":"task_updated","task_id":"agent-1","patch":{"status":"paused"},"reason":"awaiting_approval","agent_id":"agent-1","branch":"1","slot":{"index":0,"total":2}
        {"type":"control_request","request_id":"question-17","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"make"},"tool_use_id":"bash-1","permission_suggestions":[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"make *"}],"behavior":"allow","destination":"session"}],"decision_reason":"no rule allows it","title":"Bash: make","display_name":"Bash","description":"no rule allows it; it would run without a sandbox","agent_id":"agent-1"}}
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"paused"},"reason":"awaiting_approval","agent_id":"agent-2","branch":"2","slot":{"index":1,"total":2}
        {"type":"control_request","request_id":"question-18","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"make"},"tool_use_id":"bash-1","permission_suggestions":[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"make *"}],"behavior":"allow","destination":"session"}],"decision_reason":"no rule allows it","title":"Bash: make","display_name":"Bash","description":"no rule allows it; it would run without a sandbox","agent_id":"agent-2"}}
        {"type":"system","subtype":"status","status":null,"reason":"awaiting_approval"
        {"type":"control_request","request_id":"question-19","request":{"subtype":"can_use_tool","tool_name":"Agent","input":{"slots":40},"tool_use_id":"question-19","permission_suggestions":[],"decision_reason":"start 40 agents at once?","title":"start 40 agents at once?","display_name":"Agent","description":"start 40 agents at once?"}}
        {"type":"system","subtype":"task_updated","task_id":"agent-1","patch":{"status":"running"},"agent_id":"agent-1","branch":"1","slot":{"index":0,"total":2}
        {"type":"control_cancel_request","request_id":"question-18"}
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"running"},"agent_id":"agent-2","branch":"2","slot":{"index":1,"total":2}
        {"type":"control_cancel_request","request_id":"question-19"}
        "#);
        let unasked = written(&story, NOTHING_MORE);
        assert!(!unasked.contains("control_"), "{unasked}");
    }
}
