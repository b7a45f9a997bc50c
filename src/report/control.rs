//! What a client of the control protocol is answered.
//!
//! Questions go to it as requests from `stream_json`; here is how its own
//! requests are replied to, and how a question is called on the wire. What a
//! client sends is read in the command line.

use super::lines::write;
use super::record::ServerRecord;
use super::record::{
    AgentRecord, Answer, Capabilities, CommandRecord, Control, Given, Initialized, ModelRecord,
};
use crate::event::{QuestionId, Seq, ServerGlance, SessionId};

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
    let number = request_id.strip_prefix(QUESTION)?.parse().ok()?;
    Some(QuestionId(Seq(number)))
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
    /// The names of models.
    pub models: Vec<String>,
}

/// Something with a name, and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// A sentence; may be empty.
    pub description: String,
}

/// What a request of a client comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The client and tine know of each other.
    Initialized(Box<Introduction>),
    /// The turn ends.
    Interrupted,
    /// From now on this permission mode holds.
    ModeIs(&'static str),
    /// So the servers of tools stand.
    Servers(Vec<ServerGlance>),
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
            Self::Servers(servers) => {
                let servers = servers.iter().map(ServerRecord::from).collect();
                success(Answer::Servers { subtype: "mcp_server_status", mcp_servers: servers })
            }
            Self::Interrupted => success(Answer::Interrupted { subtype: "interrupt" }),
            Self::ModeIs(mode) => success(Answer::ModeIs { status: "updated", mode }),
        };
        let mut line = Vec::new();
        write(&Control::Response { response }, &mut line).expect("memory can always be written to");
        line
    }
}

fn initialized(introduction: &Introduction) -> Initialized<'_> {
    let Introduction { session, commands, agents, models } = introduction;
    let model = |name| ModelRecord { value: name, display_name: name, description: "" };
    Initialized {
        session_id: &session.0,
        commands: commands.iter().map(CommandRecord::from).collect(),
        agents: agents.iter().map(AgentRecord::from).collect(),
        models: models.iter().map(String::as_str).map(model).collect(),
        output_style: "default",
        available_output_styles: ["default"],
        capabilities: Capabilities::OURS,
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
            models: vec!["m".to_owned()],
        };
        assert_snapshot!(written(&Reply::Initialized(Box::new(introduction))), @r#"{"type":"control_response","response":{"subtype":"success","request_id":"r-1","response":{"subtype":"initialize","session_id":"s-1","commands":[{"name":"review","description":"what","argumentHint":""}],"agents":[{"name":"explore","description":"what"}],"models":[{"value":"m","displayName":"m","description":""}],"output_style":"default","available_output_styles":["default"],"capabilities":{"can_handle_can_use_tool":true,"can_handle_hook_callback":false,"can_set_permission_mode":true,"can_set_model":false,"can_handle_mcp_message":false}}}}"#);
        assert_snapshot!(written(&Reply::Interrupted), @r#"{"type":"control_response","response":{"subtype":"success","request_id":"r-1","response":{"subtype":"interrupt"}}}"#);
        assert_snapshot!(written(&Reply::ModeIs("plan")), @r#"{"type":"control_response","response":{"subtype":"success","request_id":"r-1","response":{"status":"updated","mode":"plan"}}}"#);
        let server = ServerGlance { name: "files".into(), status: ServerStatus::Pending };
        assert_snapshot!(written(&Reply::Servers(vec![server])), @r#"{"type":"control_response","response":{"subtype":"success","request_id":"r-1","response":{"subtype":"mcp_server_status","mcpServers":[{"name":"files","status":"pending"}]}}}"#);
        assert_snapshot!(written(&Reply::Refused("`x` is not known".to_owned())), @r#"{"type":"control_response","response":{"subtype":"error","request_id":"r-1","error":"`x` is not known"}}"#);
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
