//! The wire records, written out by hand.
//!
//! What stands here is a promise to scripts and SDKs: names, order and shape of
//! every field. Inner types never serialise themselves; each record is made
//! from them by a conversion in `stream_json` or here, and each has a snapshot.
//! How a record becomes a line and gets its name is in `lines`.

mod control;
mod ending;
mod hook;
mod replies;
mod request;
mod sandbox;
mod server;
mod session;
mod task;
mod usage;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::event::{CancelReason, SlotPosition, UnitId};
use crate::message::{Call, Image, Output, Piece, Prompt, StopReason, Usage};

use super::result::{Denial, Ending, FindFacts};

pub(super) use control::{
    Account, AgentRecord, Answer, Capabilities, ClientCall, CommandRecord, Control, EffortStatus,
    Given, Initialized, ModelRecord,
};
use ending::{ModelUsage, ResultUsage, terminal_reason};
pub(super) use hook::HookResponse;
pub(super) use replies::{
    CommandsRecord, ModelsRecord, PluginsRecord, Replayed, ServersRecord, ServersSet, SessionCost,
    Spent,
};
pub(super) use request::{ApiRetry, Status, Wait};
pub(super) use sandbox::SandboxRecord;
pub(super) use server::ServerRecord;
pub(super) use session::{Init, ModeRecord, SPOKEN, SessionStateChanged};
pub(super) use task::{
    BackgroundTask, BackgroundTasksChanged, NotificationStatus, Patch, PrefixShareRecord,
    TaskNotification, TaskProgress, TaskStarted, TaskStatus, TaskUpdated, TaskUsage,
};

pub(super) use usage::{SessionUsageRecord, UsageResult};

/// A record with what every record has.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    #[serde(flatten)]
    pub(super) record: Record<'a>,
    pub(super) uuid: String,
    pub(super) session_id: &'a str,
}

/// One line of the stream.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Record<'a> {
    System(System<'a>),
    Assistant(Assistant<'a>),
    User(User<'a>),
    StreamEvent(StreamEvent<'a>),
    Result(Box<ResultRecord<'a>>),
}

/// Whatever is no part of a conversation.
#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum System<'a> {
    Init(Box<Init<'a>>),
    TaskStarted(TaskStarted<'a>),
    TaskUpdated(TaskUpdated<'a>),
    TaskProgress(TaskProgress<'a>),
    TaskNotification(TaskNotification<'a>),
    BackgroundTasksChanged(BackgroundTasksChanged<'a>),
    CompactBoundary(CompactBoundary),
    ApiRetry(ApiRetry<'a>),
    Status(Status),
    PermissionDenied(PermissionDenied<'a>),
    Informational(Informational<'a>),
    SessionStateChanged(SessionStateChanged),
    #[serde(rename = "status")]
    Mode(ModeRecord<'a>),
    HookResponse(HookResponse<'a>),
}

/// What every record of a unit tells of it; empty for main.
#[derive(Serialize, Clone, Default)]
pub(super) struct Strand {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slot: Option<Slot>,
}

#[derive(Serialize, Clone, Copy)]
pub(super) struct Slot {
    index: u32,
    total: u32,
}

/// Who speaks in a message: nothing but nulls for main.
#[derive(Serialize, Clone, Default)]
pub(super) struct Speaker<'a> {
    pub(super) parent_tool_use_id: Option<Cow<'a, str>>,
    #[serde(flatten)]
    pub(super) strand: Strand,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subagent_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task_description: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct Assistant<'a> {
    pub(super) message: ModelMessage<'a>,
    #[serde(flatten)]
    pub(super) speaker: Speaker<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "message")]
pub(super) struct ModelMessage<'a> {
    pub(super) id: &'a str,
    pub(super) role: &'static str,
    pub(super) model: &'a str,
    pub(super) content: Vec<Block<'a>>,
    pub(super) stop_reason: Option<&'static str>,
    pub(super) stop_sequence: Option<&'static str>,
    pub(super) usage: UsageRecord,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    /// `signature` is empty: no provider of ours signs, clients want the key.
    Thinking {
        thinking: &'a str,
        signature: &'static str,
    },
    Text {
        text: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Box<RawValue>,
    },
}

#[derive(Serialize)]
pub(super) struct User<'a> {
    pub(super) message: UserMessage<'a>,
    #[serde(flatten)]
    pub(super) speaker: Speaker<'a>,
}

#[derive(Serialize)]
pub(super) struct UserMessage<'a> {
    pub(super) role: &'static str,
    pub(super) content: [ToolResult<'a>; 1],
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "tool_result")]
pub(super) struct ToolResult<'a> {
    pub(super) tool_use_id: &'a str,
    pub(super) content: ResultContent<'a>,
    pub(super) is_error: bool,
}

/// What a call gave, or the user said: a text, or with images a list of blocks.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ResultContent<'a> {
    Text(&'a str),
    Blocks(Vec<ResultBlock<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResultBlock<'a> {
    Text { text: &'a str },
    Image { source: ImageSource<'a> },
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "base64")]
pub(super) struct ImageSource<'a> {
    media_type: &'static str,
    data: &'a str,
}

#[derive(Serialize)]
pub(super) struct StreamEvent<'a> {
    pub(super) event: Streamed<'a>,
    /// Ours, with the last event of a message: nothing of it counts.
    #[serde(rename = "void", skip_serializing_if = "is_false")]
    pub(super) is_void: bool,
    #[serde(flatten)]
    pub(super) speaker: Speaker<'a>,
}

/// A message as it grows.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Streamed<'a> {
    MessageStart {
        message: Box<ModelMessage<'a>>,
    },
    ContentBlockStart {
        index: u32,
        content_block: Block<'a>,
    },
    ContentBlockDelta {
        index: u32,
        delta: BlockDelta<'a>,
    },
    ContentBlockStop {
        index: u32,
    },
    MessageDelta {
        delta: MessageEnd,
        usage: UsageRecord,
    },
    MessageStop,
    /// The end of a message that does not count.
    #[serde(rename = "message_stop")]
    MessageVoid,
}

#[derive(Serialize)]
#[serde(tag = "type")]
pub(super) enum BlockDelta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

#[derive(Serialize)]
pub(super) struct MessageEnd {
    pub(super) stop_reason: Option<&'static str>,
    pub(super) stop_sequence: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct CompactBoundary {
    pub(super) compact_metadata: CompactMetadata,
    #[serde(flatten)]
    pub(super) strand: Strand,
}

#[derive(Serialize)]
pub(super) struct CompactMetadata {
    pub(super) trigger: &'static str,
    pub(super) pre_tokens: u64,
    pub(super) post_tokens: u64,
}

#[derive(Serialize)]
pub(super) struct PermissionDenied<'a> {
    pub(super) tool_name: &'a str,
    pub(super) tool_use_id: &'a str,
    pub(super) message: &'a str,
    #[serde(flatten)]
    pub(super) strand: Strand,
}

#[derive(Serialize)]
pub(super) struct Informational<'a> {
    pub(super) content: &'a str,
    pub(super) level: &'static str,
    #[serde(flatten)]
    pub(super) strand: Strand,
}

/// The one result of an invocation.
#[derive(Serialize)]
pub(super) struct ResultRecord<'a> {
    subtype: &'static str,
    is_error: bool,
    duration_ms: u64,
    duration_api_ms: u64,
    num_turns: u32,
    /// With an error: what there is of an answer, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a str>,
    /// The answer to a schema, as data.
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_output: Option<&'a RawValue>,
    stop_reason: Option<&'static str>,
    total_cost_usd: f64,
    /// Ours: the cost lacks what a model used that has no price.
    #[serde(skip_serializing_if = "is_false")]
    cost_is_partial: bool,
    /// Ours: how often a request of any unit was made again.
    #[serde(skip_serializing_if = "is_zero")]
    api_retries: u64,
    /// Ours: how long requests of all units together had to wait.
    #[serde(skip_serializing_if = "is_zero")]
    throttled_ms: u64,
    usage: ResultUsage,
    #[serde(rename = "modelUsage")]
    model_usage: BTreeMap<&'a str, ModelUsage>,
    permission_denials: Vec<PermissionDenial<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    permission_denials_left_out: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    terminal_reason: Option<&'static str>,
    /// Ours: who ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unfinished: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<[&'a str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_message_uuid: Option<&'a str>,
}

#[derive(Serialize, Clone, Copy, Default)]
pub(super) struct UsageRecord {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_creation_input_tokens: u64,
}

#[derive(Serialize)]
struct PermissionDenial<'a> {
    tool_name: &'a str,
    tool_use_id: &'a str,
    tool_input: Box<RawValue>,
    /// Ours: whose call it was; none of main.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
}

/// Returns a call's arguments as an object; what is none is kept whole under
/// `_raw`.
pub(super) fn tool_input(arguments: &str) -> Box<RawValue> {
    if arguments.trim().is_empty() {
        return raw("{}".to_owned());
    }
    // Parsed only to know what it is. The text itself is passed on, so the
    // order of keys and the digits of numbers stay the model's.
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        // In valid JSON a line break stands only between tokens.
        Ok(_) => raw(arguments.trim().replace(['\n', '\r'], " ")),
        Err(_) => to_raw_value(&serde_json::json!({ "_raw": arguments }))
            .expect("an object of one string can always be written"),
    }
}

impl From<SlotPosition> for Slot {
    fn from(SlotPosition { index, total }: SlotPosition) -> Self {
        Self { index, total }
    }
}

impl From<Usage> for UsageRecord {
    fn from(Usage { input, output, cache_read, cache_creation, cost: _ }: Usage) -> Self {
        Self {
            input_tokens: input,
            output_tokens: output,
            cache_read_input_tokens: cache_read,
            cache_creation_input_tokens: cache_creation,
        }
    }
}

impl<'a> From<&'a Call> for Block<'a> {
    fn from(call: &'a Call) -> Self {
        Self::ToolUse { id: &call.id.0, name: &call.tool, input: tool_input(&call.arguments) }
    }
}

impl<'a> From<&'a Output> for ResultContent<'a> {
    fn from(output: &'a Output) -> Self {
        if output.images.is_empty() {
            return Self::Text(&output.text);
        }
        let text = (!output.text.is_empty()).then_some(ResultBlock::Text { text: &output.text });
        Self::Blocks(text.into_iter().chain(output.images.iter().map(ResultBlock::from)).collect())
    }
}

impl<'a> From<&'a Prompt> for ResultContent<'a> {
    fn from(prompt: &'a Prompt) -> Self {
        if prompt.images.is_empty() {
            return Self::Text(&prompt.text);
        }
        let block = |piece| match piece {
            Piece::Text(text) => ResultBlock::Text { text },
            Piece::Image(image) => ResultBlock::from(image),
        };
        Self::Blocks(prompt.pieces().map(block).collect())
    }
}

impl<'a> From<&'a Image> for ResultBlock<'a> {
    fn from(image: &'a Image) -> Self {
        let Image { kind, base64 } = image;
        Self::Image { source: ImageSource { media_type: kind.media_type(), data: base64 } }
    }
}

impl<'a> From<&'a Denial> for PermissionDenial<'a> {
    fn from(Denial { unit, call, tool, arguments }: &'a Denial) -> Self {
        Self {
            tool_name: tool,
            tool_use_id: &call.0,
            tool_input: tool_input(arguments),
            agent_id: (*unit != UnitId::MAIN).then(|| unit.to_string()),
        }
    }
}

impl<'a> ResultRecord<'a> {
    pub(super) fn new(ending: &'a Ending, find_facts: &FindFacts) -> Self {
        let cost = ending.total().cost;
        let is_error = ending.error.is_some();
        Self {
            subtype: ending.subtype.as_str(),
            is_error,
            duration_ms: ending.duration_ms,
            duration_api_ms: ending.api_ms,
            num_turns: ending.turns,
            result: (!is_error || !ending.text.is_empty()).then_some(&*ending.text),
            structured_output: ending
                .is_structured
                .then(|| serde_json::from_str(&ending.text).ok())
                .flatten(),
            stop_reason: ending.stop.map(StopReason::as_str),
            total_cost_usd: cost.usd.dollars(),
            cost_is_partial: cost.is_partial,
            api_retries: ending.retries,
            throttled_ms: ending.waited_ms,
            usage: ending.usage.into(),
            model_usage: ending
                .models
                .iter()
                .map(|(name, &usage)| (&**name, ModelUsage::new(usage, find_facts(name))))
                .collect(),
            permission_denials: ending.denials.iter().map(PermissionDenial::from).collect(),
            permission_denials_left_out: ending.denials_left_out,
            terminal_reason: terminal_reason(ending),
            cancel_reason: ending.cancel.map(CancelReason::as_str),
            unfinished: ending.unfinished.iter().map(ToString::to_string).collect(),
            errors: ending.error.as_deref().map(|error| [error]),
            user_message_uuid: ending.message.as_deref(),
        }
    }
}

fn raw(json: String) -> Box<RawValue> {
    RawValue::from_string(json).expect("the text was parsed as JSON before")
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(truth: &bool) -> bool {
    !*truth
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use insta::assert_snapshot;

    use super::*;
    use crate::event::testing::hook_ran;
    use crate::event::{Backend, ForkShare, Insistence, NetworkAccess, PrefixShare, SandboxHead};
    use crate::event::{Seq, SessionId};
    use crate::message::{Cost, ImageKind, Usd};
    use crate::model::Facts;
    use crate::report::lines::{Origin, write};
    use crate::report::result::Subtype;
    use crate::report::sanitise;

    const USAGE: Usage = Usage {
        input: 1,
        output: 2,
        cache_read: 3,
        cache_creation: 4,
        cost: Cost { usd: Usd(1_500_000), is_partial: false },
    };

    fn written(record: Record<'_>) -> String {
        let session = SessionId("s-1".into());
        let uuid = Origin::Event(Seq(7), 1).uuid(&session);
        let mut out = Vec::new();
        write(&Line { record, uuid, session_id: &session.0 }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn strand() -> Strand {
        Strand {
            agent_id: Some("agent-2".to_owned()),
            branch: Some("1-3,5".to_owned()),
            slot: Some(Slot { index: 1, total: 3 }),
        }
    }

    fn speaker() -> Speaker<'static> {
        Speaker {
            parent_tool_use_id: Some("call-1".into()),
            strand: strand(),
            subagent_type: Some("reviewer"),
            task_description: Some("security"),
        }
    }

    fn message(content: Vec<Block<'_>>) -> ModelMessage<'_> {
        ModelMessage {
            id: "msg_1",
            role: "assistant",
            model: "m",
            content,
            stop_reason: Some("end_turn"),
            stop_sequence: None,
            usage: USAGE.into(),
        }
    }

    fn call(arguments: &str) -> Call {
        Call { id: "call-2".into(), tool: "Read".to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn init() {
        let names = ["a".to_owned(), "b".to_owned()];
        let init = Init {
            cwd: "/repo",
            tools: &names,
            mcp_servers: Vec::new(),
            model: "m",
            permission_mode_camel: "default",
            permission_mode: "default",
            slash_commands: &names[..0],
            agents: &names[..1],
            skills: &names[1..],
            api_key_source: "OPENAI_API_KEY",
            output_style: "default",
            tine_version: "0.1.0",
            claude_code_version: SPOKEN,
            plugins: [],
            sandbox: SandboxHead {
                mode: Insistence::Required,
                network: NetworkAccess::Shared,
                installed: Backend::Landlock,
            }
            .into(),
            capabilities: ["x_v1", "y_v1", "z_v1"],
        };
        assert_snapshot!(written(Record::System(System::Init(Box::new(init)))), @r#"{"type":"system","subtype":"init","cwd":"/repo","tools":["a","b"],"mcp_servers":[],"model":"m","permissionMode":"default","permission_mode":"default","slash_commands":[],"agents":["a"],"skills":["b"],"apiKeySource":"OPENAI_API_KEY","output_style":"default","tine_version":"0.1.0","claude_code_version":"2.1.330","plugins":[],"sandbox":{"mode":"required","network":true,"network_access":"shared","installed":"landlock"},"capabilities":["x_v1","y_v1","z_v1"],"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn assistant_text_of_main() {
        let message = message(vec![Block::Text { text: "Hello." }]);
        let speaker = Speaker::default();
        assert_snapshot!(written(Record::Assistant(Assistant { message, speaker })), @r#"{"type":"assistant","message":{"type":"message","id":"msg_1","role":"assistant","model":"m","content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn assistant_thinking_of_a_unit() {
        let message = message(vec![Block::Thinking { thinking: "hm", signature: "" }]);
        let speaker = speaker();
        assert_snapshot!(written(Record::Assistant(Assistant { message, speaker })), @r#"{"type":"assistant","message":{"type":"message","id":"msg_1","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm","signature":""}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}},"parent_tool_use_id":"call-1","agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"subagent_type":"reviewer","task_description":"security","uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn assistant_calls() {
        let calls = [call("{\n \"z\": 1.50,\n \"a\": 123456789012345678901\n}"), call("{oops")];
        let message = message(calls.iter().map(Block::from).collect());
        let speaker = Speaker::default();
        assert_snapshot!(written(Record::Assistant(Assistant { message, speaker })), @r#"{"type":"assistant","message":{"type":"message","id":"msg_1","role":"assistant","model":"m","content":[{"type":"tool_use","id":"call-2","name":"Read","input":{  "z": 1.50,  "a": 123456789012345678901 }},{"type":"tool_use","id":"call-2","name":"Read","input":{"_raw":"{oops"}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn user_tool_result() {
        let output = Output::error("a\nb");
        let content = ResultContent::from(&output);
        let result = ToolResult { tool_use_id: "call-2", content, is_error: true };
        let message = UserMessage { role: "user", content: [result] };
        assert_snapshot!(written(Record::User(User { message, speaker: speaker() })), @r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"call-2","content":"a\nb","is_error":true}]},"parent_tool_use_id":"call-1","agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"subagent_type":"reviewer","task_description":"security","uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn user_tool_result_with_images() {
        let images = [ImageKind::Png, ImageKind::Jpeg].map(|kind| Image::new(kind, b"hi"));
        let output = Output { images: images.into(), ..Output::ok("two") };
        let content = ResultContent::from(&output);
        let result = ToolResult { tool_use_id: "call-2", content, is_error: false };
        let message = UserMessage { role: "user", content: [result] };
        let speaker = Speaker::default();
        assert_snapshot!(written(Record::User(User { message, speaker })), @r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"call-2","content":[{"type":"text","text":"two"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"aGk="}}],"is_error":false}]},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn stream_events() {
        let delta = MessageEnd { stop_reason: Some("end_turn"), stop_sequence: None };
        let tool_use = Block::ToolUse { id: "call-2", name: "Read", input: tool_input("") };
        let thinking = Block::Thinking { thinking: "", signature: "" };
        let events = [
            Streamed::MessageStart { message: Box::new(message(vec![])) },
            Streamed::ContentBlockStart { index: 0, content_block: Block::Text { text: "" } },
            Streamed::ContentBlockStart { index: 1, content_block: thinking },
            Streamed::ContentBlockStart { index: 2, content_block: tool_use },
            Streamed::ContentBlockDelta { index: 0, delta: BlockDelta::Text { text: "x" } },
            Streamed::ContentBlockDelta { index: 1, delta: BlockDelta::Thinking { thinking: "x" } },
            Streamed::ContentBlockDelta {
                index: 2,
                delta: BlockDelta::InputJson { partial_json: "{\"a\":1}" },
            },
            Streamed::ContentBlockStop { index: 2 },
            Streamed::MessageDelta { delta, usage: USAGE.into() },
            Streamed::MessageStop,
        ];
        let lines = events.map(|event| {
            let speaker = Speaker::default();
            written(Record::StreamEvent(StreamEvent { event, is_void: false, speaker }))
        });
        assert_snapshot!(lines.concat(), @r#"
        {"type":"stream_event","event":{"type":"message_start","message":{"type":"message","id":"msg_1","role":"assistant","model":"m","content":[],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}}},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"stream_event","event":{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"","signature":""}},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"stream_event","event":{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call-2","name":"Read","input":{}}},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"x"}},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"stream_event","event":{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"stream_event","event":{"type":"content_block_stop","index":2},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"stream_event","event":{"type":"message_stop"},"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        "#);
    }

    #[test]
    fn stream_event_of_a_unit() {
        let event = Streamed::MessageStop;
        let record = Record::StreamEvent(StreamEvent { event, is_void: false, speaker: speaker() });
        assert_snapshot!(written(record), @r#"{"type":"stream_event","event":{"type":"message_stop"},"parent_tool_use_id":"call-1","agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"subagent_type":"reviewer","task_description":"security","uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn task_started() {
        let started = TaskStarted {
            task_id: "agent-2",
            tool_use_id: Some("call-1"),
            description: "security",
            subagent_type: "reviewer",
            is_backgrounded: false,
            spawn_depth: 2,
            parent_task_id: Some("agent-1".to_owned()),
            strand: strand(),
        };
        assert_snapshot!(written(Record::System(System::TaskStarted(started))), @r#"{"type":"system","subtype":"task_started","task_id":"agent-2","tool_use_id":"call-1","description":"security","subagent_type":"reviewer","is_backgrounded":false,"spawn_depth":2,"parent_task_id":"agent-1","agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn task_updated() {
        let all = [
            (TaskStatus::Pending, None, None),
            (TaskStatus::Running, None, None),
            (TaskStatus::Completed, None, Some(9)),
            (TaskStatus::Failed, Some("boom"), Some(9)),
            (TaskStatus::Killed, None, Some(9)),
        ];
        let lines = all.map(|(status, error, end_time)| {
            let patch = Patch { status, error, end_time };
            let (wait, strand) = (Wait::default(), strand());
            let updated = TaskUpdated { task_id: "agent-2", patch, wait, strand };
            written(Record::System(System::TaskUpdated(updated)))
        });
        assert_snapshot!(lines.concat(), @r#"
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"pending"},"agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"running"},"agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"completed","end_time":9},"agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"failed","error":"boom","end_time":9},"agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"killed","end_time":9},"agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        "#);
    }

    #[test]
    fn task_updated_of_a_unit_that_has_to_wait() {
        let lines = [
            (TaskStatus::Paused, Wait::throttled("provider", Some(12_000))),
            (TaskStatus::Paused, Wait::throttled("in_flight", None)),
            (TaskStatus::Running, Wait::over(12_340)),
            (TaskStatus::Paused, Wait::for_approval()),
        ]
        .map(|(status, wait)| {
            let patch = Patch { status, error: None, end_time: None };
            let updated = TaskUpdated { task_id: "agent-2", patch, wait, strand: strand() };
            written(Record::System(System::TaskUpdated(updated)))
        });
        assert_snapshot!(lines.concat(), @r#"
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"paused"},"reason":"throttled","cause":"provider","wait_ms":12000,"agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"paused"},"reason":"throttled","cause":"in_flight","agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"running"},"waited_ms":12340,"agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"system","subtype":"task_updated","task_id":"agent-2","patch":{"status":"paused"},"reason":"awaiting_approval","agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        "#);
    }

    #[test]
    fn status_of_main() {
        let lines = [
            Status { status: None, wait: Wait::throttled("provider", Some(12_000)) },
            Status { status: Some("requesting"), wait: Wait::over(12_340) },
            Status { status: None, wait: Wait::for_approval() },
        ]
        .map(|status| written(Record::System(System::Status(status))));
        assert_snapshot!(lines.concat(), @r#"
        {"type":"system","subtype":"status","status":null,"reason":"throttled","cause":"provider","wait_ms":12000,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"system","subtype":"status","status":"requesting","waited_ms":12340,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"system","subtype":"status","status":null,"reason":"awaiting_approval","uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        "#);
    }

    #[test]
    fn api_retry() {
        let lines =
            [(Some(529), strand()), (None, Strand::default())].map(|(error_status, strand)| {
                written(Record::System(System::ApiRetry(ApiRetry {
                    attempt: 1,
                    max_retries: 10,
                    retry_delay_ms: 500,
                    error_status,
                    error: "overloaded",
                    message: "the provider is overloaded",
                    model: "m",
                    strand,
                })))
            });
        assert_snapshot!(lines.concat(), @r#"
        {"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":500,"error_status":529,"error":"overloaded","message":"the provider is overloaded","model":"m","agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":500,"error_status":null,"error":"overloaded","message":"the provider is overloaded","model":"m","uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        "#);
    }

    #[test]
    fn the_end_of_a_message_that_does_not_count() {
        let (event, speaker) = (Streamed::MessageVoid, Speaker::default());
        let record = Record::StreamEvent(StreamEvent { event, is_void: true, speaker });
        assert_snapshot!(written(record), @r#"{"type":"stream_event","event":{"type":"message_stop"},"void":true,"parent_tool_use_id":null,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn task_progress() {
        let progress = TaskProgress {
            task_id: "agent-2",
            tool_use_id: Some("call-1"),
            description: "security",
            usage: TaskUsage { total_tokens: 10, tool_uses: 1, duration_ms: 200, cost_usd: None },
            last_tool_name: Some("Read"),
            strand: strand(),
        };
        assert_snapshot!(written(Record::System(System::TaskProgress(progress))), @r#"{"type":"system","subtype":"task_progress","task_id":"agent-2","tool_use_id":"call-1","description":"security","usage":{"total_tokens":10,"tool_uses":1,"duration_ms":200},"last_tool_name":"Read","agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn task_notification() {
        let usage = TaskUsage { total_tokens: 10, tool_uses: 1, duration_ms: 200, cost_usd: None };
        let all = [
            (NotificationStatus::Completed, None, Some(usage)),
            (NotificationStatus::Failed, Some("provider"), Some(usage)),
            (NotificationStatus::Stopped, Some("never_started"), None),
        ];
        let lines = all.map(|(status, cause, usage)| {
            written(Record::System(System::TaskNotification(TaskNotification {
                task_id: "agent-2",
                tool_use_id: Some("call-1"),
                status,
                reason: cause.filter(|cause| *cause == "never_started"),
                cause,
                output_file: "/state/out.txt",
                summary: "security: done".to_owned(),
                usage,
                prefix_share: None,
                strand: strand(),
            })))
        });
        assert_snapshot!(lines.concat(), @r#"
        {"type":"system","subtype":"task_notification","task_id":"agent-2","tool_use_id":"call-1","status":"completed","output_file":"/state/out.txt","summary":"security: done","usage":{"total_tokens":10,"tool_uses":1,"duration_ms":200},"agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"system","subtype":"task_notification","task_id":"agent-2","tool_use_id":"call-1","status":"failed","cause":"provider","output_file":"/state/out.txt","summary":"security: done","usage":{"total_tokens":10,"tool_uses":1,"duration_ms":200},"agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        {"type":"system","subtype":"task_notification","task_id":"agent-2","tool_use_id":"call-1","status":"stopped","reason":"never_started","cause":"never_started","output_file":"/state/out.txt","summary":"security: done","agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}
        "#);
    }

    #[test]
    fn task_notification_of_a_fork() {
        let prefix = PrefixShare { shared_bytes: 900, total_bytes: 1_000 };
        let share = ForkShare { prefix, cached_tokens: 80 };
        let notification = TaskNotification {
            task_id: "agent-2",
            tool_use_id: None,
            status: NotificationStatus::Completed,
            reason: None,
            cause: None,
            output_file: "",
            summary: "look: done".to_owned(),
            usage: None,
            prefix_share: Some(share.into()),
            strand: Strand::default(),
        };
        assert_snapshot!(written(Record::System(System::TaskNotification(notification))), @r#"{"type":"system","subtype":"task_notification","task_id":"agent-2","status":"completed","output_file":"","summary":"look: done","prefix_share":{"shared_bytes":900,"total_bytes":1000,"cached_tokens":80},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn background_tasks_changed() {
        let task_id = "agent-2".to_owned();
        let task = BackgroundTask {
            task_id,
            task_type: "local_agent",
            description: "look",
            subagent_type: "fork",
        };
        let changed = BackgroundTasksChanged { tasks: vec![task], left_out: 2 };
        assert_snapshot!(written(Record::System(System::BackgroundTasksChanged(changed))), @r#"{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"agent-2","task_type":"local_agent","description":"look","subagent_type":"fork"}],"left_out":2,"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn compact_boundary() {
        let compact_metadata =
            CompactMetadata { trigger: "auto", pre_tokens: 90_000, post_tokens: 8_000 };
        let boundary = CompactBoundary { compact_metadata, strand: strand() };
        assert_snapshot!(written(Record::System(System::CompactBoundary(boundary))), @r#"{"type":"system","subtype":"compact_boundary","compact_metadata":{"trigger":"auto","pre_tokens":90000,"post_tokens":8000},"agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn permission_denied() {
        let denied = PermissionDenied {
            tool_name: "Bash",
            tool_use_id: "call-2",
            message: "a rule denies it",
            strand: strand(),
        };
        assert_snapshot!(written(Record::System(System::PermissionDenied(denied))), @r#"{"type":"system","subtype":"permission_denied","tool_name":"Bash","tool_use_id":"call-2","message":"a rule denies it","agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn informational() {
        let strand = Strand::default();
        let informational = Informational { content: "the cap is 1", level: "warning", strand };
        assert_snapshot!(written(Record::System(System::Informational(informational))), @r#"{"type":"system","subtype":"informational","content":"the cap is 1","level":"warning","uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn hook_response() {
        let ran = hook_ran();
        let response = HookResponse::of(Seq(7), &ran, strand());
        assert_snapshot!(written(Record::System(System::HookResponse(response))), @r#"{"type":"system","subtype":"hook_response","hook_id":"hook-7","hook_event":"PreToolUse","hook_name":"./check.sh","outcome":"success","exit_code":2,"tool_use_id":"call-2","decision":"deny","reason":"not there","additional_context":"more","system_message":"look","updated_input":true,"duration_ms":12,"agent_id":"agent-2","branch":"1-3,5","slot":{"index":1,"total":3},"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    fn ending() -> Ending {
        Ending {
            subtype: Subtype::Success,
            duration_ms: 1_000,
            api_ms: 700,
            turns: 2,
            text: "All fine.".into(),
            is_structured: false,
            stop: Some(StopReason::EndTurn),
            usage: USAGE,
            models: [("m".into(), USAGE), ("n".into(), USAGE)].into(),
            retries: 0,
            waited_ms: 0,
            denials: Vec::new(),
            denials_left_out: 0,
            suggested: Vec::new(),
            cancel: None,
            unfinished: Vec::new(),
            error: None,
            message: None,
        }
    }

    /// The record of an ending whose model `m` is known.
    fn result(ending: &Ending) -> Record<'_> {
        let facts =
            Facts { context_window: 128_000, max_output_tokens: Some(4_096), ..Facts::UNBOUNDED };
        let find: FindFacts = Arc::new(move |name| match name {
            "m" => Some(facts.clone()),
            "n" => Some(Facts::UNBOUNDED),
            _ => None,
        });
        Record::Result(Box::new(ResultRecord::new(ending, &find)))
    }

    #[test]
    fn result_success() {
        let ending = ending();
        assert_snapshot!(written(result(&ending)), @r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":1000,"duration_api_ms":700,"num_turns":2,"result":"All fine.","stop_reason":"end_turn","total_cost_usd":0.003,"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4,"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":4},"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard"},"modelUsage":{"m":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":3,"cacheCreationInputTokens":4,"costUSD":0.0015,"contextWindow":128000,"maxOutputTokens":4096,"webSearchRequests":0},"n":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":3,"cacheCreationInputTokens":4,"costUSD":0.0015,"contextWindow":0,"maxOutputTokens":0,"webSearchRequests":0}},"permission_denials":[],"terminal_reason":"completed","uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn result_error() {
        let denial = |arguments: &str| Denial {
            unit: UnitId(2),
            call: "call-2".into(),
            tool: "Bash".into(),
            arguments: arguments.into(),
        };
        let ending = Ending {
            subtype: Subtype::ErrorDuringExecution,
            text: "".into(),
            stop: None,
            models: BTreeMap::new(),
            denials: vec![denial(r#"{"command":"rm"}"#), denial("[1]")],
            denials_left_out: 3,
            cancel: Some(CancelReason::Interrupt),
            unfinished: vec![UnitId(2), UnitId(3)],
            error: Some("interrupted".to_owned()),
            ..ending()
        };
        assert_snapshot!(written(result(&ending)), @r#"{"type":"result","subtype":"error_during_execution","is_error":true,"duration_ms":1000,"duration_api_ms":700,"num_turns":2,"stop_reason":null,"total_cost_usd":0.0,"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4,"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":4},"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard"},"modelUsage":{},"permission_denials":[{"tool_name":"Bash","tool_use_id":"call-2","tool_input":{"command":"rm"},"agent_id":"agent-2"},{"tool_name":"Bash","tool_use_id":"call-2","tool_input":{"_raw":"[1]"},"agent_id":"agent-2"}],"permission_denials_left_out":3,"terminal_reason":"aborted_streaming","cancel_reason":"interrupt","unfinished":["agent-2","agent-3"],"errors":["interrupted"],"uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn result_of_a_run_that_had_to_wait_and_whose_cost_is_known_in_part() {
        let cost = Cost { usd: Usd(1_500_000), is_partial: true };
        let models = [("m".into(), USAGE), ("?".into(), Usage { cost, ..USAGE })].into();
        let ending = Ending { models, retries: 3, waited_ms: 12_500, ..ending() };
        assert_snapshot!(written(result(&ending)), @r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":1000,"duration_api_ms":700,"num_turns":2,"result":"All fine.","stop_reason":"end_turn","total_cost_usd":0.003,"cost_is_partial":true,"api_retries":3,"throttled_ms":12500,"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4,"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":4},"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard"},"modelUsage":{"?":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":3,"cacheCreationInputTokens":4,"costUSD":0.0015,"contextWindow":0,"maxOutputTokens":0,"webSearchRequests":0},"m":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":3,"cacheCreationInputTokens":4,"costUSD":0.0015,"contextWindow":128000,"maxOutputTokens":4096,"webSearchRequests":0}},"permission_denials":[],"terminal_reason":"completed","uuid":"b8345949-ecc5-8c89-aeef-d7377a54ea43","session_id":"s-1"}"#);
    }

    #[test]
    fn a_result_names_the_message_that_it_answers() {
        let line = written(result(&Ending { message: Some("u-1".into()), ..ending() }));
        assert!(line.contains(r#","user_message_uuid":"u-1","#), "{line}");
    }

    #[test]
    fn an_answer_to_a_schema_is_there_as_data_and_as_text() {
        let ending = Ending { is_structured: true, text: r#"{"a":[1]}"#.into(), ..ending() };
        let line = written(result(&ending));
        assert!(
            line.contains(r#""result":"{\"a\":[1]}","structured_output":{"a":[1]},"#),
            "{line}"
        );
    }

    #[test]
    fn an_error_keeps_what_there_is_of_an_answer() {
        let ending = Ending { error: Some("boom".to_owned()), ..ending() };
        let line = written(result(&ending));
        let record: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(record["result"], "All fine.");
        assert_eq!(record["errors"], serde_json::json!(["boom"]));
    }

    #[test]
    fn hostile_characters_are_escaped_and_mean_the_same() {
        let hostile = "\u{1b}[2J\u{7f}\u{9b}\u{202e}\u{e0041}\u{2028}ä世";
        let calls = [call(&serde_json::json!({ hostile: hostile }).to_string())];
        let message = message(calls.iter().map(Block::from).collect());
        let line = written(Record::Assistant(Assistant { message, speaker: Speaker::default() }));
        assert!(!line.chars().any(sanitise::is_hidden), "{line}");
        let record: Value = serde_json::from_str(&line).unwrap();
        let input = &record["message"]["content"][0]["input"];
        assert_eq!(*input, serde_json::json!({ hostile: hostile }));
    }

    #[test]
    fn arguments_that_are_no_object_are_kept_whole() {
        let input = |arguments| tool_input(arguments).get().to_owned();
        assert_eq!(input(""), "{}");
        assert_eq!(input(" {\"b\":1,\r\n\"a\":2} "), "{\"b\":1,  \"a\":2}");
        assert_eq!(input("[1]"), r#"{"_raw":"[1]"}"#);
        assert_eq!(input("{\"a\":"), r#"{"_raw":"{\"a\":"}"#);
        assert_eq!(input(&"[".repeat(1_000)), format!(r#"{{"_raw":"{}"}}"#, "[".repeat(1_000)));
    }
}
