//! What a client of the control protocol is answered.
//!
//! Questions go to it as requests from `stream_json`; here is how its own
//! requests are replied to, and how a question is called on the wire. What a
//! client sends is read in the command line.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::lines::write;
use super::record::{
    Account, AgentRecord, Answer, Capabilities, ClientCall, CommandRecord, CommandsRecord, Control,
    EffortStatus, Given, Initialized, ModelRecord, ModelsRecord, PluginsRecord, Replayed, SPOKEN,
    ServersRecord, ServersSet, SessionCost, Spent,
};
use super::window::Window;
use crate::event::{QuestionId, Seq, ServerGlance, SessionId};
use crate::message::{CallId, Cost, Prompt};

/// What a request id of ours begins with.
const QUESTION: &str = "question-";

/// Returns the id under which a client is asked a question.
pub(super) fn request_id(id: QuestionId) -> String {
    format!("{QUESTION}{}", id.0.0)
}

/// Returns the question that a client was asked under this id; `None` if it is
/// no id of ours.
#[must_use]
pub fn question_of(request_id: &str) -> Option<QuestionId> {
    Some(QuestionId(Seq(number(request_id.strip_prefix(QUESTION)?)?)))
}

/// What the id of a request begins with that is no question.
const CALL: &str = "call-";

fn call_id(id: u64) -> String {
    format!("{CALL}{id}")
}

/// Returns the number of the request that a client got under this id, if it was
/// no question; `None` if it is no id of ours.
#[must_use]
pub fn call_of(request_id: &str) -> Option<u64> {
    number(request_id.strip_prefix(CALL)?)
}

/// Reads a number as it is written here.
fn number(digits: &str) -> Option<u64> {
    digits.parse().ok().filter(|number: &u64| number.to_string() == digits)
}

/// Returns the line that asks a callback of a client's hooks.
#[must_use]
pub fn hook_callback(id: u64, callback: &str, input: &Value, call: Option<&CallId>) -> Vec<u8> {
    let tool_use_id = call.map(|call| &*call.0);
    let request = ClientCall::HookCallback { callback_id: callback, input, tool_use_id };
    line(&Control::Call { request_id: call_id(id), request })
}

/// Returns the line that gives a message to a server that a client carries.
#[must_use]
pub fn server_message(id: u64, server: &str, message: &Value) -> Vec<u8> {
    let request = ClientCall::McpMessage { server_name: server, message };
    line(&Control::Call { request_id: call_id(id), request })
}

/// Returns the line that takes such a request back.
#[must_use]
pub fn call_withdrawn(id: u64) -> Vec<u8> {
    line(&Control::Cancel { request_id: call_id(id) })
}

fn line(control: &Control<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    write(control, &mut line).expect("memory can always be written to");
    line
}

/// What a client learns at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// The session's id.
    pub session: SessionId,
    /// What can be typed as `/name`.
    pub commands: Vec<Named>,
    /// The agent definitions.
    pub agents: Vec<Named>,
    /// The models that can be chosen, the one that answers first.
    pub models: Vec<ModelNamed>,
    /// Where the model's key comes from, in a word; never the key.
    pub api_key_source: String,
    /// Whether anybody says how hard models think.
    pub effort: bool,
    /// Whether all is as the client has just said.
    pub is_applied: bool,
}

/// A model that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelNamed {
    /// Its name.
    pub name: String,
    /// The tokens of its context window, if they are known.
    pub window: Option<u64>,
}

/// What fills main's context window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextUsage {
    /// The model that answers.
    pub model: String,
    /// The window.
    pub window: Window,
    /// The names of the tools.
    pub tools: Vec<String>,
    /// Those of tools of servers, each with its server's.
    pub served: Vec<(String, String)>,
    /// The names of the skills.
    pub skills: Vec<String>,
    /// Whether all these are told, or the parts alone.
    pub in_detail: bool,
}

/// What is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    /// The model that answers from the next message on.
    pub model: String,
    /// The permission mode's name.
    pub mode: &'static str,
    /// How hard models think, if that was said.
    pub effort: Option<String>,
}

/// A server of tools, as a client is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerShown {
    /// How it stands.
    pub glance: ServerGlance,
    /// Why it does not answer, if it does not.
    pub why: Option<Arc<str>>,
    /// What it calls its tools, and what they are for; `None` if that is not
    /// known.
    pub tools: Option<Vec<Named>>,
}

/// Something with a name, and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// A sentence; may be empty.
    pub description: String,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// As text.
    Text {
        /// The text.
        text: String,
        /// Whether bytes of the file are none, and something else stands there.
        is_lossy: bool,
    },
    /// All bytes, in base64.
    Base64(String),
}

/// What a request of a client comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The client and tine know of each other.
    Initialized(Box<Introduction>),
    /// The turn ends, if there is one.
    Interrupted {
        /// What the client calls the messages that still wait.
        still_queued: Vec<String>,
        /// Those that are not wanted any more; `None` if that was not asked for.
        cancelled: Option<Vec<String>>,
    },
    /// Whether anything that main waited for goes on in the background now.
    SetAside(bool),
    /// There is no turn that could go on.
    NotContinued,
    /// Whether a message that waited is forgotten.
    Forgot(bool),
    /// From the next message on models think as hard as this.
    EffortIs(String),
    /// What fills main's context window.
    Context(Box<ContextUsage>),
    /// What can be typed as `/name`.
    Commands(Vec<Named>),
    /// The models that can be chosen.
    Models(Vec<ModelNamed>),
    /// The servers of tools.
    Servers(Vec<ServerShown>),
    /// What there is around plugins, of which there are none.
    Plugins {
        /// What can be typed as `/name`.
        commands: Vec<Named>,
        /// The agent definitions.
        agents: Vec<Named>,
        /// The servers of tools.
        servers: Vec<ServerShown>,
    },
    /// What a file holds.
    File {
        /// Where it is.
        path: String,
        /// What is in it, or the beginning of that.
        contents: Contents,
        /// Whether there is more.
        is_cut: bool,
    },
    /// What became of files that were to be as they were before a message.
    Rewound {
        /// The files that went back, or would.
        files: Vec<String>,
        /// Why none does; `None` if they do.
        refused: Option<String>,
    },
    /// The servers of tools stay as they are: these are not added.
    ServersSet {
        /// Their names.
        refused: Vec<String>,
    },
    /// What the process has cost so far.
    Cost(Cost),
    /// What is in force.
    Settings(InForce),
    /// From now on this permission mode holds.
    ModeIs(&'static str),
    /// From the next message on this model answers.
    ModelIs(String),
    /// It is done, and there is nothing to say of it.
    Done,
    /// It cannot be done, and why.
    Refused(String),
}

impl Reply {
    /// Returns the line that answers a request.
    #[must_use]
    pub fn line(&self, request_id: &str) -> Vec<u8> {
        let success = |response| Given::Success { request_id, response };
        let response = match self {
            Self::Refused(error) => Given::Error { request_id, error },
            Self::Initialized(introduction) => {
                success(Answer::Initialized(Box::new(initialized(introduction))))
            }
            Self::Interrupted { still_queued, cancelled } => success(Answer::Interrupted {
                subtype: "interrupt",
                still_queued,
                cancelled: cancelled.as_deref(),
            }),
            Self::SetAside(backgrounded) => {
                success(Answer::SetAside { backgrounded: *backgrounded })
            }
            Self::NotContinued => {
                success(Answer::Continued { subtype: "continue_last_turn", accepted: false })
            }
            Self::Forgot(cancelled) => success(Answer::Forgot { cancelled: *cancelled }),
            Self::EffortIs(effort) => {
                let (subtype, r#override) = ("set_effort", None);
                success(Answer::EffortIs { subtype, effort, applied: true, r#override })
            }
            Self::Context(usage) => success(Answer::Context(Box::new((&**usage).into()))),
            Self::Commands(commands) => success(Answer::Commands(CommandsRecord::of(commands))),
            Self::Models(models) => success(Answer::Models(ModelsRecord::of(models))),
            Self::Servers(servers) => success(Answer::Servers(ServersRecord::of(servers))),
            Self::Plugins { commands, agents, servers } => {
                success(Answer::Plugins(PluginsRecord::of(commands, agents, servers)))
            }
            Self::File { path, contents, is_cut: truncated } => {
                let (contents, encoding, lossy) = match contents {
                    Contents::Text { text, is_lossy } => (text, None, Some(*is_lossy)),
                    Contents::Base64(text) => (text, Some("base64"), None),
                };
                success(Answer::File { contents, path, truncated: *truncated, encoding, lossy })
            }
            Self::Rewound { files: files_changed, refused: error } => success(Answer::Rewound {
                can_rewind: error.is_none(),
                error: error.as_deref(),
                files_changed,
            }),
            Self::ServersSet { refused } => success(Answer::ServersSet(ServersSet::of(refused))),
            Self::Cost(Cost { usd, is_partial }) => success(Answer::Cost(SessionCost {
                session: Spent { total_cost_usd: usd.dollars(), is_partial: *is_partial },
                rate_limits_available: false,
                rate_limits: None,
                behaviors: None,
            })),
            Self::Settings(in_force) => success(Answer::Settings(in_force.into())),
            Self::ModeIs(mode) => success(Answer::ModeIs { status: "updated", mode }),
            Self::ModelIs(model) => success(Answer::ModelIs { subtype: "set_model", model }),
            Self::Done => success(Answer::Done {}),
        };
        line(&Control::Response { response })
    }
}

/// Returns the record that repeats a message as it is taken up. `uuid` is what the
/// client calls it.
#[must_use]
pub fn replayed(session: &SessionId, uuid: Option<&str>, prompt: &Prompt) -> Vec<u8> {
    let own;
    let uuid = match uuid {
        Some(uuid) => uuid,
        None => {
            own = Uuid::new_v4().to_string();
            &own
        }
    };
    let mut line = Vec::new();
    let record = Replayed::new(prompt, uuid, &session.0);
    write(&record, &mut line).expect("memory can always be written to");
    line
}

fn initialized(introduction: &Introduction) -> Initialized<'_> {
    let Introduction { session, commands, agents, models, api_key_source, effort, is_applied } =
        introduction;
    let model = |name| ModelRecord { value: name, display_name: name, description: "" };
    let names = models.iter().map(|model| model.name.as_str());
    Initialized {
        session_id: &session.0,
        commands: commands.iter().map(CommandRecord::from).collect(),
        agents: agents.iter().map(AgentRecord::from).collect(),
        models: names.map(model).collect(),
        account: Account { api_key_source },
        output_style: "default",
        available_output_styles: ["default"],
        capabilities: Capabilities::OURS,
        claude_code_version: SPOKEN,
        effort_status: effort.then_some(EffortStatus { applied: *is_applied, r#override: None }),
        hook_on_failure_supported: true,
        hooks_applied: *is_applied,
        mcp_servers_applied: *is_applied,
        settings_applied: *is_applied,
        disallowed_tools_applied: *is_applied,
    }
}

impl<'a> From<&'a Named> for CommandRecord<'a> {
    fn from(Named { name, description }: &'a Named) -> Self {
        Self { name, description, argument_hint: "" }
    }
}

impl<'a> From<&'a Named> for AgentRecord<'a> {
    fn from(Named { name, description }: &'a Named) -> Self {
        Self { name, description }
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::event::ServerStatus;

    fn written(reply: &Reply) -> String {
        String::from_utf8(reply.line("r-1")).unwrap()
    }

    #[test]
    fn every_reply_names_its_request() {
        let named = |name: &str| Named { name: name.to_owned(), description: "what".to_owned() };
        let introduction = Introduction {
            session: SessionId("s-1".into()),
            commands: vec![named("review")],
            agents: vec![named("explore")],
            models: vec![ModelNamed { name: "m".to_owned(), window: None }],
            api_key_source: "none".to_owned(),
            effort: true,
            is_applied: true,
        };
        assert_snapshot!(written(&Reply::Initialized(Box::new(introduction))), @r#"{"type":"control_response","response":{"subtype":"success","request_id":"r-1","response":{"subtype":"initialize","session_id":"s-1","commands":[{"name":"review","description":"what","argumentHint":""}],"agents":[{"name":"explore","description":"what"}],"models":[{"value":"m","displayName":"m","description":""}],"output_style":"default","available_output_styles":["default"],"capabilities":{"can_handle_can_use_tool":true,"can_handle_hook_callback":true,"can_set_permission_mode":true,"can_set_model":true,"can_handle_mcp_message":true},"account":{"apiKeySource":"none"},"claude_code_version":"2.1.330","effort_status":{"applied":true,"override":null},"hook_on_failure_supported":true,"hooks_applied":true,"mcp_servers_applied":true,"settings_applied":true,"disallowed_tools_applied":true}}}"#);
        assert_snapshot!(written(&Reply::Interrupted { still_queued: vec!["u-1".to_owned()], cancelled: None }), @r#"{"type":"control_response","response":{"subtype":"success","request_id":"r-1","response":{"subtype":"interrupt","still_queued":["u-1"]}}}"#);
        assert_snapshot!(written(&Reply::ModeIs("plan")), @r#"{"type":"control_response","response":{"subtype":"success","request_id":"r-1","response":{"status":"updated","mode":"plan"}}}"#);
        let server = ServerGlance { name: "files".into(), status: ServerStatus::Pending };
        let tools = Some(vec![named("read")]);
        let server = ServerShown { glance: server, why: None, tools };
        assert_snapshot!(written(&Reply::Servers(vec![server])), @r#"{"type":"control_response","response":{"subtype":"success","request_id":"r-1","response":{"subtype":"mcp_server_status","mcpServers":[{"name":"files","status":"pending","tools":[{"name":"read","description":"what"}]}],"status":{"files":"pending"}}}}"#);
        let file = |contents| Reply::File { path: "/a".to_owned(), contents, is_cut: false };
        let text = file(Contents::Text { text: "hi".to_owned(), is_lossy: false });
        assert_snapshot!(written(&text), @r#"{"type":"control_response","response":{"subtype":"success","request_id":"r-1","response":{"contents":"hi","absPath":"/a","lossy":false}}}"#);
        assert_snapshot!(written(&file(Contents::Base64("aGk=".to_owned()))), @r#"{"type":"control_response","response":{"subtype":"success","request_id":"r-1","response":{"contents":"aGk=","absPath":"/a","encoding":"base64"}}}"#);
        assert_snapshot!(written(&Reply::Refused("`x` is not known".to_owned())), @r#"{"type":"control_response","response":{"subtype":"error","request_id":"r-1","error":"`x` is not known"}}"#);
    }

    #[test]
    fn a_message_is_repeated_under_the_name_that_its_client_gave_it() {
        let line = replayed(&SessionId("s-1".into()), Some("u-1"), &"hi".into());
        assert_snapshot!(String::from_utf8(line).unwrap(), @r#"{"type":"user","message":{"role":"user","content":"hi"},"parent_tool_use_id":null,"isReplay":true,"uuid":"u-1","session_id":"s-1"}"#);
    }

    #[test]
    fn a_question_is_found_by_its_own_id_only() {
        let id = QuestionId(Seq(17));
        assert_eq!(question_of(&request_id(id)), Some(id));
        for other in ["", "17", "question-", "question-x", "question--1", "r-17"] {
            assert_eq!(question_of(other), None, "{other}");
        }
    }
}
