//! What requests of a client are replied with, beyond the plain ones.
//!
//! Two sorts of clients read these, each with names of its own: a reply says the
//! same thing under both, where both ask for it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{AgentRecord, CommandRecord, ResultContent, ServerRecord};
use crate::message::Prompt;
use crate::report::control::{ContextUsage, InForce, ModelNamed, Named, ServerShown};
use crate::report::window::{Part, Window};

/// What fills a context window.
#[derive(Serialize)]
pub(in crate::report) struct ContextRecord<'a> {
    subtype: &'static str,
    categories: Vec<Category>,
    #[serde(rename = "totalTokens")]
    total_tokens: u64,
    #[serde(rename = "maxTokens")]
    max_tokens: u64,
    #[serde(rename = "rawMaxTokens")]
    raw_max_tokens: u64,
    percentage: u64,
    #[serde(rename = "gridRows")]
    grid_rows: [(); 0],
    model: &'a str,
    #[serde(rename = "memoryFiles")]
    memory_files: [(); 0],
    #[serde(rename = "mcpTools")]
    mcp_tools: Vec<Served<'a>>,
    agents: [(); 0],
    #[serde(rename = "isAutoCompactEnabled")]
    compacts: bool,
    #[serde(rename = "apiUsage")]
    api_usage: Option<()>,
    #[serde(rename = "modelName")]
    model_name: &'a str,
    #[serde(rename = "contextWindowSize")]
    window: u64,
    breakdown: Breakdown,
    #[serde(rename = "builtinTools")]
    tools: Vec<Weighed<'a>>,
    skills: Vec<Weighed<'a>>,
    #[serde(rename = "isEstimated")]
    is_estimated: bool,
    #[serde(rename = "showDetails")]
    shows_details: bool,
}

#[derive(Serialize)]
struct Category {
    name: &'static str,
    tokens: u64,
    color: &'static str,
    kind: &'static str,
}

#[derive(Serialize)]
struct Weighed<'a> {
    name: &'a str,
    tokens: u64,
}

/// A tool of a server.
#[derive(Serialize)]
struct Served<'a> {
    name: &'a str,
    #[serde(rename = "serverName")]
    server: &'a str,
    tokens: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Breakdown {
    system_prompt: u64,
    builtin_tools: u64,
    mcp_tools: u64,
    memory_files: u64,
    skills: u64,
    startup_context: u64,
    messages: u64,
    unattributed: u64,
    cached_tokens: u64,
    free_space: u64,
    autocompact_buffer: u64,
}

/// The parts of a window that were said.
const SAID: [Part; 5] =
    [Part::Summary, Part::Prompts, Part::Answers, Part::Thinking, Part::Outputs];

impl<'a> From<&'a ContextUsage> for ContextRecord<'a> {
    fn from(usage: &'a ContextUsage) -> Self {
        let ContextUsage { model, window, tools, served, skills, in_detail } = usage;
        let of = |part: Part| {
            window.parts.iter().find(|(other, _)| *other == part).map_or(0, |(_, tokens)| *tokens)
        };
        let used = window.parts.iter().map(|(_, tokens)| tokens).sum();
        let most = window.bounds.tokens.unwrap_or(0);
        let free = most.saturating_sub(used);
        let share = |part, count: usize| of(part) / u64::try_from(count.max(1)).unwrap_or(1);
        let named = |names: &'a [String], part| {
            let tokens = share(part, names.len());
            let told = names.iter().filter(|_| *in_detail);
            told.map(move |name| Weighed { name, tokens }).collect()
        };
        let of_server = |(name, server): &'a (String, String)| {
            let tokens = share(Part::Served, served.len());
            Served { name, server, tokens }
        };
        Self {
            subtype: "get_context_usage",
            categories: categories(window, free),
            total_tokens: used,
            max_tokens: most,
            raw_max_tokens: most,
            percentage: used.saturating_mul(100).checked_div(most).unwrap_or(0),
            grid_rows: [],
            model,
            memory_files: [],
            mcp_tools: served.iter().filter(|_| *in_detail).map(of_server).collect(),
            agents: [],
            compacts: window.bounds.compacts_at.is_some(),
            api_usage: None,
            model_name: model,
            window: most,
            breakdown: Breakdown {
                system_prompt: of(Part::System),
                builtin_tools: of(Part::Tools),
                mcp_tools: of(Part::Served),
                memory_files: of(Part::Instructions),
                skills: of(Part::Skills),
                startup_context: 0,
                messages: SAID.map(of).iter().sum(),
                unattributed: 0,
                cached_tokens: 0,
                free_space: free,
                autocompact_buffer: window
                    .bounds
                    .compacts_at
                    .map_or(0, |at| most.saturating_sub(at)),
            },
            tools: named(tools, Part::Tools),
            skills: named(skills, Part::Skills),
            is_estimated: !window.is_counted,
            shows_details: *in_detail,
        }
    }
}

fn categories(window: &Window, free: u64) -> Vec<Category> {
    let used = window.parts.iter().filter(|(_, tokens)| *tokens > 0);
    let used = used.map(|&(part, tokens)| Category {
        name: part.as_str(),
        tokens,
        color: "default",
        kind: "used",
    });
    let free = Category { name: "free", tokens: free, color: "default", kind: "free" };
    used.chain(window.bounds.tokens.map(|_| free)).collect()
}

/// What can be typed, for those who read names and for those who read more.
#[derive(Serialize)]
pub(in crate::report) struct CommandsRecord<'a> {
    subtype: &'static str,
    commands: Vec<&'a str>,
    skills: Vec<super::control::CommandRecord<'a>>,
}

impl<'a> CommandsRecord<'a> {
    pub(in crate::report) fn of(commands: &'a [Named]) -> Self {
        let mut names: Vec<&str> = commands.iter().map(|named| named.name.as_str()).collect();
        names.sort_unstable();
        let skills = commands.iter().map(Into::into).collect();
        Self { subtype: "supported_commands", commands: names, skills }
    }
}

#[derive(Serialize)]
pub(in crate::report) struct ModelsRecord<'a> {
    subtype: &'static str,
    models: Vec<ModelListed<'a>>,
}

#[derive(Serialize)]
struct ModelListed<'a> {
    id: &'a str,
    label: &'a str,
    value: &'a str,
    #[serde(rename = "displayName")]
    display_name: &'a str,
    description: &'static str,
    capabilities: [(); 0],
    #[serde(rename = "contextWindowSize")]
    window: Option<u64>,
}

impl<'a> ModelsRecord<'a> {
    pub(in crate::report) fn of(models: &'a [ModelNamed]) -> Self {
        let model = |ModelNamed { name, window }: &'a ModelNamed| ModelListed {
            id: name,
            label: name,
            value: name,
            display_name: name,
            description: "",
            capabilities: [],
            window: *window,
        };
        Self { subtype: "get_available_models", models: models.iter().map(model).collect() }
    }
}

/// The servers of tools, as two sorts of clients read them.
#[derive(Serialize)]
pub(in crate::report) struct ServersRecord<'a> {
    subtype: &'static str,
    #[serde(rename = "mcpServers")]
    servers: Vec<ShownRecord<'a>>,
    status: BTreeMap<&'a str, &'static str>,
}

#[derive(Serialize)]
struct ShownRecord<'a> {
    #[serde(flatten)]
    server: ServerRecord<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<ToolNamed<'a>>>,
}

#[derive(Serialize)]
struct ToolNamed<'a> {
    name: &'a str,
    description: &'a str,
}

impl<'a> ServersRecord<'a> {
    pub(in crate::report) fn of(servers: &'a [ServerShown]) -> Self {
        let record = |shown: &'a ServerShown| ShownRecord {
            server: ServerRecord::from(&shown.glance),
            error: shown.why.as_deref(),
            tools: shown.tools.as_ref().map(|tools| tools.iter().map(tool_named).collect()),
        };
        let status =
            |ServerShown { glance, .. }: &'a ServerShown| (&*glance.name, glance.status.as_str());
        Self {
            subtype: "mcp_server_status",
            servers: servers.iter().map(record).collect(),
            status: servers.iter().map(status).collect(),
        }
    }
}

/// What there is around plugins, of which there are none.
#[derive(Serialize)]
pub(in crate::report) struct PluginsRecord<'a> {
    commands: Vec<CommandRecord<'a>>,
    agents: Vec<AgentRecord<'a>>,
    plugins: [(); 0],
    #[serde(rename = "mcpServers")]
    servers: Vec<ShownRecord<'a>>,
    error_count: u32,
}

impl<'a> PluginsRecord<'a> {
    pub(in crate::report) fn of(
        commands: &'a [Named],
        agents: &'a [Named],
        servers: &'a [ServerShown],
    ) -> Self {
        Self {
            commands: commands.iter().map(CommandRecord::from).collect(),
            agents: agents.iter().map(AgentRecord::from).collect(),
            plugins: [],
            servers: ServersRecord::of(servers).servers,
            error_count: 0,
        }
    }
}

/// What became of the wish for other servers of tools.
#[derive(Serialize)]
pub(in crate::report) struct ServersSet<'a> {
    added: [(); 0],
    removed: [(); 0],
    errors: BTreeMap<&'a str, &'static str>,
}

impl<'a> ServersSet<'a> {
    pub(in crate::report) fn of(refused: &'a [String]) -> Self {
        let why = "servers of tools are named at the start, by `--mcp-config` or `initialize`";
        let errors = refused.iter().map(|name| (name.as_str(), why)).collect();
        Self { added: [], removed: [], errors }
    }
}

fn tool_named(Named { name, description }: &Named) -> ToolNamed<'_> {
    ToolNamed { name, description }
}

/// What a session has used.
#[derive(Serialize)]
pub(in crate::report) struct SessionCost {
    pub(in crate::report) session: Spent,
    pub(in crate::report) rate_limits_available: bool,
    pub(in crate::report) rate_limits: Option<()>,
    pub(in crate::report) behaviors: Option<()>,
}

#[derive(Serialize)]
pub(in crate::report) struct Spent {
    pub(in crate::report) total_cost_usd: f64,
    /// Ours: whether a model has no price, so that something is missing.
    pub(in crate::report) is_partial: bool,
}

/// What is in force.
#[derive(Serialize)]
pub(in crate::report) struct SettingsRecord<'a> {
    effective: Effective<'a>,
    applied: Applied<'a>,
}

#[derive(Serialize)]
struct Effective<'a> {
    model: &'a str,
    permissions: EffectivePermissions,
}

#[derive(Serialize)]
struct EffectivePermissions {
    #[serde(rename = "defaultMode")]
    mode: &'static str,
}

#[derive(Serialize)]
struct Applied<'a> {
    model: &'a str,
    effort: Option<&'a str>,
}

impl<'a> From<&'a InForce> for SettingsRecord<'a> {
    fn from(InForce { model, mode, effort }: &'a InForce) -> Self {
        Self {
            effective: Effective { model, permissions: EffectivePermissions { mode } },
            applied: Applied { model, effort: effort.as_deref() },
        }
    }
}

/// A message of the user, repeated as it is taken up.
#[derive(Serialize)]
#[serde(tag = "type", rename = "user")]
pub(in crate::report) struct Replayed<'a> {
    message: Said<'a>,
    parent_tool_use_id: Option<()>,
    #[serde(rename = "isReplay")]
    is_replay: bool,
    uuid: &'a str,
    session_id: &'a str,
}

#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    content: ResultContent<'a>,
}

impl<'a> Replayed<'a> {
    pub(in crate::report) fn new(prompt: &'a Prompt, uuid: &'a str, session_id: &'a str) -> Self {
        let message = Said { role: "user", content: ResultContent::from(prompt) };
        Self { message, parent_tool_use_id: None, is_replay: true, uuid, session_id }
    }
}
