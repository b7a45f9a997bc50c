//! What an editor is offered: what tine can do, and what a session has to choose
//! from.

use std::collections::BTreeMap;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, AvailableCommand, AvailableCommandInput, Implementation, InitializeResponse,
    McpCapabilities, McpServer, PromptCapabilities, SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities, SessionCloseCapabilities, SessionConfigOption,
    SessionConfigOptionCategory, SessionConfigSelectOption, SessionListCapabilities, SessionMode,
    SessionModeState, SessionResumeCapabilities, UnstructuredCommandInput,
};

use serde_json::{Map, Value, json};

use crate::cli::chat::commands::{self, models};
use crate::cli::kit::Kit;
use crate::cli::slash;
use crate::guard::Mode;

/// What the choice of a mode is called, and that of a model.
pub(super) const MODE: &str = "mode";
pub(super) const MODEL: &str = "model";

/// Returns what tine can do. There is nobody to authenticate: keys are in the
/// user's own configuration.
pub(super) fn introduction() -> InitializeResponse {
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .mcp_capabilities(McpCapabilities::new().http(true))
        .prompt_capabilities(PromptCapabilities::new().embedded_context(true))
        .session_capabilities(sessions);
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .agent_info(Implementation::new("tine", env!("CARGO_PKG_VERSION")).title("tine".to_owned()))
}

/// Returns the modes there are, and the one that holds.
pub(super) fn modes(kit: &Kit) -> SessionModeState {
    let mode = |mode: Mode| {
        let (name, description) = words(mode);
        SessionMode::new(mode.as_str(), name).description(description.to_owned())
    };
    SessionModeState::new(kit.policy.mode().as_str(), Mode::ALL.map(mode).to_vec())
}

fn words(mode: Mode) -> (&'static str, &'static str) {
    match mode {
        Mode::Plan => ("Plan", "Reads only, whatever the rules allow"),
        Mode::Default => ("Default", "Asks before what no rule allows"),
        Mode::DontAsk => ("Don't ask", "Denies what it would have to ask about"),
        Mode::AcceptEdits => ("Accept edits", "Edits files of the workspace without asking"),
        Mode::BypassPermissions => ("Bypass permissions", "Does all that no rule denies"),
    }
}

/// Returns what of a session can be chosen, by one way for all of it.
pub(super) fn options(kit: &Kit) -> Vec<SessionConfigOption> {
    let mode = |mode: Mode| {
        let (name, description) = words(mode);
        SessionConfigSelectOption::new(mode.as_str(), name).description(description.to_owned())
    };
    let modes = Mode::ALL.map(mode).to_vec();
    let now = kit.model.name().to_string();
    let listed = models::items(kit).into_iter().map(|item| item.typed);
    // Of a preset the name of a model is to follow.
    let others = listed.filter(|typed| !typed.ends_with(':') && *typed != now);
    let models = std::iter::once(now.clone()).chain(others);
    let models: Vec<_> =
        models.map(|name| SessionConfigSelectOption::new(name.clone(), name)).collect();
    vec![
        SessionConfigOption::select(MODE, "Mode", kit.policy.mode().as_str(), modes)
            .category(SessionConfigOptionCategory::Mode),
        SessionConfigOption::select(MODEL, "Model", now, models)
            .category(SessionConfigOptionCategory::Model),
    ]
}

/// Returns what can be typed as `/name`.
pub(super) fn typed(kit: &Kit) -> Vec<AvailableCommand> {
    let command = |name: String| {
        let skill = kit.skills.find(&name);
        let description = match skill {
            Some(skill) => skill.description.clone(),
            None => commands::find(&name).map(|it| it.about.to_owned()).unwrap_or_default(),
        };
        let input = AvailableCommandInput::Unstructured(UnstructuredCommandInput::new("arguments"));
        AvailableCommand::new(name, description).input(input)
    };
    // Files are put back on the command line, where it is shown what would be.
    let names = slash::names(&kit.skills).into_iter().filter(|name| name != slash::UNDO);
    names.map(command).collect()
}

/// Returns the servers that an editor brings along as a configuration of them.
pub(super) fn configured(servers: &[McpServer]) -> Option<String> {
    if servers.is_empty() {
        return None;
    }
    let server = |server: &McpServer| match server {
        McpServer::Http(server) => {
            let named = server.headers.iter().map(|header| (&header.name, &header.value));
            let headers: BTreeMap<_, _> = named.collect();
            (server.name.clone(), json!({ "type": "http", "url": server.url, "headers": headers }))
        }
        McpServer::Stdio(server) => {
            let named = server.env.iter().map(|variable| (&variable.name, &variable.value));
            let variables: BTreeMap<_, _> = named.collect();
            let program =
                json!({ "command": server.command, "args": server.args, "env": variables });
            (server.name.clone(), program)
        }
        McpServer::Sse(server) => {
            (server.name.clone(), json!({ "type": "sse", "url": server.url }))
        }
        _ => ("unknown".to_owned(), json!({ "type": "unknown" })),
    };
    let servers: Map<String, Value> = servers.iter().map(server).collect();
    Some(json!({ "mcpServers": servers }).to_string())
}
