//! The lines of the control protocol that go to a client.
//!
//! Unlike records they have neither `uuid` nor `session_id`: a request has an id
//! of its own, which names its question, and a response that of its request.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::replies::{
    CommandsRecord, ContextRecord, ModelsRecord, PluginsRecord, ServersRecord, ServersSet,
    SessionCost, SettingsRecord,
};
use super::{raw, tool_input};
use crate::event::{CallQuestion, Form, Question, QuestionId, UnitId};
use crate::report::control::request_id;
use crate::report::words;

/// A line that is no record.
#[derive(Serialize)]
#[serde(tag = "type")]
pub(in crate::report) enum Control<'a> {
    /// A question to the client.
    #[serde(rename = "control_request")]
    Request { request_id: String, request: Asks<'a> },
    /// Something else that the client is asked.
    #[serde(rename = "control_request")]
    Call { request_id: String, request: ClientCall<'a> },
    /// A question is taken back.
    #[serde(rename = "control_cancel_request")]
    Cancel { request_id: String },
    /// What became of the client's own request.
    #[serde(rename = "control_response")]
    Response { response: Given<'a> },
}

/// A question, as a client knows it.
#[derive(Serialize)]
#[serde(untagged)]
pub(in crate::report) enum Asks<'a> {
    Tool(Box<CanUseTool<'a>>),
    Server(Elicitation<'a>),
}

/// A server's question.
#[derive(Serialize)]
#[serde(tag = "subtype", rename = "elicitation")]
pub(in crate::report) struct Elicitation<'a> {
    mcp_server_name: &'a str,
    message: &'a str,
    mode: &'static str,
    requested_schema: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
}

/// What a client is asked besides questions.
#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(in crate::report) enum ClientCall<'a> {
    HookCallback {
        callback_id: &'a str,
        input: &'a Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_use_id: Option<&'a str>,
    },
    McpMessage {
        server_name: &'a str,
        message: &'a Value,
    },
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename = "can_use_tool")]
pub(in crate::report) struct CanUseTool<'a> {
    tool_name: &'a str,
    input: Box<RawValue>,
    tool_use_id: String,
    permission_suggestions: Vec<Suggestion<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_path: Option<String>,
    decision_reason: String,
    title: String,
    display_name: &'a str,
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
        still_queued: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        cancelled: Option<&'a [String]>,
    },
    SetAside {
        backgrounded: bool,
    },
    Continued {
        subtype: &'static str,
        accepted: bool,
    },
    Forgot {
        cancelled: bool,
    },
    EffortIs {
        subtype: &'static str,
        effort: &'a str,
        applied: bool,
        r#override: Option<()>,
    },
    Context(Box<ContextRecord<'a>>),
    Commands(CommandsRecord<'a>),
    Models(ModelsRecord<'a>),
    Servers(ServersRecord<'a>),
    Plugins(PluginsRecord<'a>),
    File {
        contents: &'a str,
        #[serde(rename = "absPath")]
        path: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        encoding: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        lossy: Option<bool>,
    },
    Rewound {
        #[serde(rename = "canRewind")]
        can_rewind: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
        #[serde(rename = "filesChanged")]
        files_changed: &'a [String],
    },
    ServersSet(ServersSet<'a>),
    Cost(SessionCost),
    Settings(SettingsRecord<'a>),
    ModeIs {
        status: &'static str,
        mode: &'static str,
    },
    ModelIs {
        subtype: &'static str,
        model: &'a str,
    },
    Done {},
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename = "initialize")]
#[expect(clippy::struct_excessive_bools, reason = "the protocol says it with one key each")]
pub(in crate::report) struct Initialized<'a> {
    pub(in crate::report) session_id: &'a str,
    pub(in crate::report) commands: Vec<CommandRecord<'a>>,
    pub(in crate::report) agents: Vec<AgentRecord<'a>>,
    pub(in crate::report) models: Vec<ModelRecord<'a>>,
    pub(in crate::report) output_style: &'static str,
    pub(in crate::report) available_output_styles: [&'static str; 1],
    pub(in crate::report) capabilities: Capabilities,
    pub(in crate::report) account: Account<'a>,
    pub(in crate::report) claude_code_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) effort_status: Option<EffortStatus>,
    pub(in crate::report) hook_on_failure_supported: bool,
    pub(in crate::report) hooks_applied: bool,
    pub(in crate::report) mcp_servers_applied: bool,
    pub(in crate::report) settings_applied: bool,
    pub(in crate::report) disallowed_tools_applied: bool,
}

/// What became of the wish to have models think this hard.
#[derive(Serialize)]
pub(in crate::report) struct EffortStatus {
    pub(in crate::report) applied: bool,
    pub(in crate::report) r#override: Option<()>,
}

#[derive(Serialize)]
pub(in crate::report) struct Account<'a> {
    #[serde(rename = "apiKeySource")]
    pub(in crate::report) api_key_source: &'a str,
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
        can_handle_hook_callback: true,
        can_set_permission_mode: true,
        can_set_model: true,
        can_handle_mcp_message: true,
    };
}

impl<'a> Control<'a> {
    /// Asks the client what a unit asks.
    pub(in crate::report) fn asks(unit: UnitId, id: QuestionId, question: &'a Question) -> Self {
        let agent_id = (unit != UnitId::MAIN).then(|| unit.to_string());
        let request = match question {
            Question::Call(asked) => CanUseTool::of_call(asked, agent_id),
            Question::Form(form) => match &form.server {
                Some(server) => {
                    let request = Asks::Server(Elicitation {
                        mcp_server_name: server,
                        message: &form.message,
                        mode: "form",
                        requested_schema: tool_input(&form.arguments),
                        agent_id,
                    });
                    return Self::Request { request_id: request_id(id), request };
                }
                None => CanUseTool::of_form(form, agent_id),
            },
            Question::Batch { slots } => CanUseTool {
                tool_name: "Agent",
                input: raw(format!("{{\"slots\":{slots}}}")),
                // The question is about a batch and not about one call of it.
                tool_use_id: request_id(id),
                permission_suggestions: Vec::new(),
                blocked_path: None,
                decision_reason: words::question(question),
                title: words::question(question),
                display_name: "Agent",
                description: words::question(question),
                agent_id,
            },
        };
        let request = Asks::Tool(Box::new(request));
        Self::Request { request_id: request_id(id), request }
    }

    /// Takes a question back.
    pub(in crate::report) fn takes_back(id: QuestionId) -> Self {
        Self::Cancel { request_id: request_id(id) }
    }
}

impl<'a> CanUseTool<'a> {
    fn of_call(asked: &'a CallQuestion, agent_id: Option<String>) -> Self {
        let CallQuestion { call, tool, subject, arguments, reason, rules, confinement } = asked;
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
            decision_reason: reason.to_string(),
            title: match subject.is_empty() {
                true => tool.to_string(),
                false => format!("{tool}: {subject}"),
            },
            display_name: tool,
            description: format!("{reason}{}", bounds.unwrap_or_default()),
            agent_id,
        }
    }
}

impl<'a> CanUseTool<'a> {
    /// Asks for the arguments with what a person says in them.
    fn of_form(form: &'a Form, agent_id: Option<String>) -> Self {
        let Form { call, tool, server: _, arguments, message, fields } = form;
        let texts = fields.iter().map(|field| &*field.text);
        let said = [&**message].into_iter().chain(texts).filter(|text| !text.is_empty());
        Self {
            tool_name: tool,
            input: tool_input(arguments),
            tool_use_id: call.0.to_string(),
            permission_suggestions: Vec::new(),
            blocked_path: None,
            decision_reason: "the model asks".to_owned(),
            title: tool.to_string(),
            display_name: tool,
            description: said.collect::<Vec<_>>().join(" "),
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
