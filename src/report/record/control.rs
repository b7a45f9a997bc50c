//! The lines of the control protocol that go to a client.
//!
//! Unlike records they have neither `uuid` nor `session_id`: a request has an id
//! of its own, which names its question, and a response that of its request.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ServerRecord, raw, tool_input};
use crate::event::{CallQuestion, Question, QuestionId, UnitId};
use crate::report::control::request_id;
use crate::report::words;

/// A line that is no record.
#[derive(Serialize)]
#[serde(tag = "type")]
pub(in crate::report) enum Control<'a> {
    /// A question to the client.
    #[serde(rename = "control_request")]
    Request { request_id: String, request: CanUseTool<'a> },
    /// A question is taken back.
    #[serde(rename = "control_cancel_request")]
    Cancel { request_id: String },
    /// What became of the client's own request.
    #[serde(rename = "control_response")]
    Response { response: Given<'a> },
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename = "can_use_tool")]
pub(in crate::report) struct CanUseTool<'a> {
    tool_name: &'a str,
    input: Box<RawValue>,
    tool_use_id: String,
    permission_suggestions: Vec<Suggestion<'a>>,
    blocked_path: Option<String>,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
}

/// Rules that a client may send back with a yes.
#[derive(Serialize)]
#[serde(tag = "type", rename = "addRules")]
struct Suggestion<'a> {
    rules: Vec<RuleRecord<'a>>,
    behavior: &'static str,
    destination: &'static str,
}

#[derive(Serialize)]
struct RuleRecord<'a> {
    #[serde(rename = "toolName")]
    tool_name: &'a str,
    #[serde(rename = "ruleContent", skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(in crate::report) enum Given<'a> {
    Success { request_id: &'a str, response: Answer<'a> },
    Error { request_id: &'a str, error: &'a str },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(in crate::report) enum Answer<'a> {
    Initialized(Box<Initialized<'a>>),
    Interrupted {
        subtype: &'static str,
    },
    ModeIs {
        status: &'static str,
        mode: &'static str,
    },
    Servers {
        subtype: &'static str,
        #[serde(rename = "mcpServers")]
        mcp_servers: Vec<ServerRecord<'a>>,
    },
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename = "initialize")]
pub(in crate::report) struct Initialized<'a> {
    pub(in crate::report) session_id: &'a str,
    pub(in crate::report) commands: Vec<CommandRecord<'a>>,
    pub(in crate::report) agents: Vec<AgentRecord<'a>>,
    pub(in crate::report) models: Vec<ModelRecord<'a>>,
    pub(in crate::report) output_style: &'static str,
    pub(in crate::report) available_output_styles: [&'static str; 1],
    pub(in crate::report) capabilities: Capabilities,
}

#[derive(Serialize)]
pub(in crate::report) struct CommandRecord<'a> {
    pub(in crate::report) name: &'a str,
    pub(in crate::report) description: &'a str,
    #[serde(rename = "argumentHint")]
    pub(in crate::report) argument_hint: &'a str,
}

#[derive(Serialize)]
pub(in crate::report) struct AgentRecord<'a> {
    pub(in crate::report) name: &'a str,
    pub(in crate::report) description: &'a str,
}

#[derive(Serialize)]
pub(in crate::report) struct ModelRecord<'a> {
    pub(in crate::report) value: &'a str,
    #[serde(rename = "displayName")]
    pub(in crate::report) display_name: &'a str,
    pub(in crate::report) description: &'static str,
}

/// What requests and questions there are.
#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the protocol says it with one key each")]
pub(in crate::report) struct Capabilities {
    can_handle_can_use_tool: bool,
    can_handle_hook_callback: bool,
    can_set_permission_mode: bool,
    can_set_model: bool,
    can_handle_mcp_message: bool,
}

impl Capabilities {
    pub(in crate::report) const OURS: Self = Self {
        can_handle_can_use_tool: true,
        can_handle_hook_callback: false,
        can_set_permission_mode: true,
        can_set_model: false,
        can_handle_mcp_message: false,
    };
}

impl<'a> Control<'a> {
    /// Asks the client what a unit asks.
    pub(in crate::report) fn asks(unit: UnitId, id: QuestionId, question: &'a Question) -> Self {
        let agent_id = (unit != UnitId::MAIN).then(|| unit.to_string());
        let request = match question {
            Question::Call(asked) => CanUseTool::of_call(asked, agent_id),
            Question::Batch { slots } => CanUseTool {
                tool_name: "Agent",
                input: raw(format!("{{\"slots\":{slots}}}")),
                // The question is about a batch and not about one call of it.
                tool_use_id: request_id(id),
                permission_suggestions: Vec::new(),
                blocked_path: None,
                description: words::question(question),
                agent_id,
            },
        };
        Self::Request { request_id: request_id(id), request }
    }

    /// Takes a question back.
    pub(in crate::report) fn takes_back(id: QuestionId) -> Self {
        Self::Cancel { request_id: request_id(id) }
    }
}

impl<'a> CanUseTool<'a> {
    fn of_call(asked: &'a CallQuestion, agent_id: Option<String>) -> Self {
        let CallQuestion { call, tool, subject: _, arguments, reason, rules, confinement } = asked;
        let rules: Vec<_> = rules.iter().map(|rule| RuleRecord::of(rule)).collect();
        let suggestion = Suggestion { rules, behavior: "allow", destination: "session" };
        let bounds =
            confinement.map(|bounds| format!("; it would run {}", words::confined(bounds)));
        Self {
            tool_name: tool,
            input: tool_input(arguments),
            tool_use_id: call.0.to_string(),
            permission_suggestions: match suggestion.rules.is_empty() {
                true => Vec::new(),
                false => vec![suggestion],
            },
            blocked_path: named_path(arguments),
            description: format!("{reason}{}", bounds.unwrap_or_default()),
            agent_id,
        }
    }
}

impl<'a> RuleRecord<'a> {
    fn of(rule: &'a str) -> Self {
        let content =
            rule.split_once('(').and_then(|(tool, rest)| Some((tool, rest.strip_suffix(')')?)));
        match content {
            Some((tool_name, content)) => Self { tool_name, content: Some(content) },
            None => Self { tool_name: rule, content: None },
        }
    }
}

/// Returns the file that a call is about, if it is about one.
fn named_path(arguments: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    let path = ["file_path", "path"].iter().find_map(|name| arguments.get(name)?.as_str());
    path.map(str::to_owned)
}
