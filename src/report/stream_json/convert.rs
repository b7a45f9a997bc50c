//! From what is known to records: who speaks, what a message holds, what a
//! unit used and how it ended.

use std::borrow::Cow;

use super::{CAPABILITIES, Facts};
use crate::branch::Branch;
use crate::event::{Offered, Outcome, Replied, UnitEnd, UnitHead, UnitId, UnixMillis};
use crate::message::{Usage, Usd};
use crate::report::record::{
    self, Block, Init, ModelMessage, NotificationStatus, Patch, PrefixShareRecord, Record, SPOKEN,
    ServerRecord, Speaker, Strand, StreamEvent, System, TaskNotification, TaskStatus, TaskUpdated,
    TaskUsage, Wait,
};
use crate::report::units::{Unit, Units};
use crate::report::words;

/// Why a unit that was declared has no work to show.
const NEVER_STARTED: &str = "never_started";

pub(super) fn init<'a>(facts: &'a Facts, offered: Option<&'a Offered>) -> Record<'a> {
    let servers = offered.map_or(&facts.servers[..], |offered| &offered.servers);
    Record::System(System::Init(Box::new(Init {
        cwd: &facts.cwd,
        tools: &facts.tools,
        mcp_servers: servers.iter().map(ServerRecord::from).collect(),
        model: &facts.model,
        permission_mode_camel: &facts.permission_mode,
        permission_mode: &facts.permission_mode,
        slash_commands: &facts.slash_commands,
        agents: &facts.agents,
        skills: &facts.skills,
        api_key_source: &facts.api_key_source,
        output_style: "default",
        tine_version: &facts.version,
        claude_code_version: SPOKEN,
        plugins: [],
        sandbox: (facts.sandbox)().into(),
        capabilities: CAPABILITIES,
    })))
}

/// Returns who speaks; `None` for a unit whose declaration was never seen:
/// without its call nothing would tell its records from main's.
pub(super) fn speaker<'a>(units: &'a Units, unit: UnitId, branch: &Branch) -> Option<Speaker<'a>> {
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

pub(super) fn call_of(head: &UnitHead) -> Option<&str> {
    head.call.as_ref().map(|call| &*call.0)
}

pub(super) fn strand(unit: UnitId, head: &UnitHead, branch: &Branch) -> Strand {
    Strand {
        agent_id: Some(unit.to_string()),
        branch: Some(branch.tokens.to_string()),
        slot: head.slot.map(record::Slot::from),
    }
}

pub(super) fn stream_event<'a>(event: record::Streamed<'a>, speaker: &Speaker<'a>) -> Record<'a> {
    let is_void = matches!(event, record::Streamed::MessageVoid);
    Record::StreamEvent(StreamEvent { event, is_void, speaker: speaker.clone() })
}

pub(super) fn updated(task_id: &str, status: TaskStatus, wait: Wait, strand: Strand) -> Record<'_> {
    let patch = Patch { status, error: None, end_time: None };
    Record::System(System::TaskUpdated(TaskUpdated { task_id, patch, wait, strand }))
}

/// Returns the content of a reply, one list for each kind of block it has.
pub(super) fn contents(replied: &Replied, is_shown: bool) -> impl Iterator<Item = Vec<Block<'_>>> {
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

pub(super) fn message<'a>(
    id: &'a str,
    replied: &'a Replied,
    content: Vec<Block<'a>>,
) -> ModelMessage<'a> {
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

pub(super) fn ended_patch(outcome: &Outcome, at: UnixMillis) -> Patch<'_> {
    let (status, error) = match outcome {
        Outcome::Done { text: _ } => (TaskStatus::Completed, None),
        Outcome::Failed(failure) => (TaskStatus::Failed, Some(&*failure.message)),
        Outcome::Cancelled { ran: _ } | Outcome::Interrupted => (TaskStatus::Killed, None),
    };
    Patch { status, error, end_time: Some(at.0) }
}

pub(super) fn notification<'a>(
    task_id: &'a str,
    unit: &'a Unit,
    end: &'a UnitEnd,
    strand: Strand,
) -> TaskNotification<'a> {
    let (status, cause) = match &end.outcome {
        Outcome::Done { text: _ } => (NotificationStatus::Completed, None),
        Outcome::Failed(failure) => (NotificationStatus::Failed, Some(failure.kind.as_str())),
        Outcome::Cancelled { ran: true } => (NotificationStatus::Stopped, Some("cancelled")),
        Outcome::Cancelled { ran: false } => (NotificationStatus::Stopped, Some(NEVER_STARTED)),
        Outcome::Interrupted => (NotificationStatus::Stopped, Some("interrupted")),
    };
    TaskNotification {
        task_id,
        tool_use_id: call_of(&unit.head),
        status,
        reason: cause.filter(|cause| *cause == NEVER_STARTED),
        cause,
        output_file: end.output_file.as_deref().unwrap_or_default(),
        summary: format!("{}: {}", unit.head.description, words::unit_end(end)),
        usage: unit.has_run().then(|| task_usage(end.usage, end.tool_uses, end.duration_ms)),
        prefix_share: end.share.map(PrefixShareRecord::from),
        strand,
    }
}

pub(super) fn task_usage(usage: Usage, tool_uses: u32, duration_ms: u64) -> TaskUsage {
    TaskUsage {
        total_tokens: usage.total(),
        tool_uses,
        duration_ms,
        cost_usd: (usage.cost.usd != Usd(0)).then(|| usage.cost.usd.dollars()),
    }
}
