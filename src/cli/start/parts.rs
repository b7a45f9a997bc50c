//! What a run is made of that flags and files say.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::args::{RunFlags, Unread};
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::project::Trusted;
use crate::cli::start::{repository_root, whole_workspace};
use crate::cli::{rules, say};
use crate::config::{self, Environment, dirs};
use crate::definition::{self, AgentDefinition, Definitions};
use crate::fanout::Limits;
use crate::front_matter::Problem;
use crate::guard::{Decision, Effect, Mode, Policy, SearchPath};
use crate::hook::{self, Hooks, Setting};
use crate::json_text;
use crate::model::http::exchange::{Exchanges, Pace};
use crate::model::retry;
use crate::path_text;
use crate::prompt;
use crate::session;
use crate::skill::{Places, Skills};
use crate::tool::{AnswerSchema, OfServers, Registry};
use crate::tool_name::{self, OtherNames};

/// Returns the skills and the definitions that are found around a directory, and
/// says what is odd about them.
pub(super) fn found(
    around: (&Path, Option<&Path>),
    environment: &Environment,
    flags: &RunFlags,
    trusted: &Trusted,
) -> (Skills, Definitions) {
    let Discovered { skills, definitions, problems } =
        discover(around, environment, flags, trusted);
    problems.iter().for_each(|problem| say(&format!("warning: {problem}")));
    (skills, definitions)
}

/// What is found around a directory.
pub(in crate::cli) struct Discovered {
    pub(in crate::cli) skills: Skills,
    pub(in crate::cli) definitions: Definitions,
    pub(in crate::cli) problems: Vec<Problem>,
}

/// Looks for skills and definitions.
pub(in crate::cli) fn discover(
    (root, top): (&Path, Option<&Path>),
    environment: &Environment,
    flags: &RunFlags,
    trusted: &Trusted,
) -> Discovered {
    let sources = flags.borrowed.sources();
    // What lies in a home directory that is a repository is the user's own.
    let home = environment.home.as_ref().and_then(|home| home.canonicalize().ok());
    let bounds = Some(top.unwrap_or(root)).filter(|top| Some(*top) != home.as_deref());
    let (skills, mut problems) = match flags.borrowed.disable_slash_commands {
        true => (Skills::default(), Vec::new()),
        false => {
            let places = Places {
                skills: &dirs::skill_directories(root, top, environment, sources),
                commands: &dirs::command_directories(root, top, environment, sources),
                home: environment.home.as_deref(),
                bounds,
            };
            Skills::load(&places, |path, text| trusted.covers(path, text))
        }
    };
    let agents = dirs::agent_directories(root, top, environment, sources);
    let (definitions, more) =
        Definitions::load(&agents, bounds, |path, text| trusted.covers(path, text));
    problems.extend(more);
    Discovered { skills, definitions, problems }
}

/// Returns what people have written for agents, as every unit reads it.
pub(super) fn instructions(
    around: (&Path, Option<&Path>),
    environment: &Environment,
    flags: &RunFlags,
    policy: &Policy,
) -> String {
    // A repository's text names these files, not the user: so they are
    // judged as in the default mode even if the run asks no questions.
    let policy = policy.narrowed(Some(Mode::Default), &[]);
    let may_read = |path: &Path| {
        let arguments = json!({"file_path": path_text::to_text(path)});
        match policy.decide("Read", Effect::Reads, &arguments) {
            Decision::Allow(_) => Ok(()),
            Decision::Ask(ask) => Err(ask.reason),
            Decision::Deny { reason } => Err(reason),
        }
    };
    let sources = flags.borrowed.sources();
    prompt::instructions(&config::instructions(around, environment, sources, &may_read))
}

/// Returns what bounds every unit.
pub(super) fn limits(kit: &Kit) -> Limits {
    let (agents, retry) = (&kit.config.agents, &kit.config.retry);
    let (prime, base) = match kit.models.exchanges() {
        Exchanges::Live | Exchanges::Record(_) => (agents.prime, retry.base),
        // There is no cache to wait for, and nobody to be spared.
        Exchanges::Replay(player) => match player.pace() {
            Pace::Recorded => (Duration::ZERO, retry.base),
            Pace::AtOnce => (Duration::ZERO, Duration::ZERO),
        },
    };
    Limits {
        max_turns: agents.max_turns,
        timeout: agents.timeout,
        max_depth: kit.flags.max_subagent_depth.unwrap_or(agents.max_depth),
        background_wait: kit.config.background.wait,
        prime,
        confirm_above: match kit.flags.allow_large_batches {
            true => None,
            false => agents.confirm_above,
        },
        // Where main's own model has none, the limit does not hold anyway, and
        // people know it.
        needs_price: kit.flags.max_budget_usd.is_some() && kit.model.facts().price.is_some(),
        compact_at: kit.config.session.compact_at,
        retries: retry::Policy { most: retry.most, base },
    }
}

/// Returns every tool, with these agents to start.
pub(in crate::cli) fn all_tools(definitions: &Definitions) -> Registry {
    let offered: Vec<(&str, &str)> = definitions
        .iter()
        .map(|definition| (definition.name.as_str(), definition.description.as_str()))
        .collect();
    Registry::all(offered)
}

/// Returns the tools that there are.
pub(super) fn tools(
    flags: &RunFlags,
    definitions: &Definitions,
    agent: Option<&AgentDefinition>,
) -> Result<Registry, Refusal> {
    let all = all_tools(definitions);
    // A whole tool that is denied is none that a model should know of.
    let denied = rules::split(&flags.disallowed_tools);
    let all = all.filtered(|name| {
        // Those of servers come later.
        let has = |agent: &AgentDefinition| agent.has(name, &OtherNames::default());
        !denied.iter().any(|denied| is_tool(denied, name)) && agent.is_none_or(has)
    });
    let of_agent = agent.map(|agent| agent.disallowed_tools.clone()).unwrap_or_default();
    let all = all.taking(OfServers {
        listed: agent.and_then(|agent| agent.tools.clone()),
        denied: denied.into_iter().chain(of_agent).collect(),
    });
    let wanted = rules::split(&flags.tools);
    // It is about our own tools; those of servers have a flag of their own.
    let wanted: Vec<String> =
        wanted.into_iter().filter(|name| !name.starts_with("mcp__")).collect();
    if flags.tools.is_empty() || wanted.iter().any(|name| name == "default") {
        return Ok(all);
    }
    let is_known = |name: &str| tool_name::is_ruled(tool_name::canonical(name));
    if let Some(unknown) = wanted.iter().find(|name| !is_known(name)) {
        let names: Vec<&str> = all.names().collect();
        return Err(Refusal::new(Exit::Usage, format!("there is no tool `{unknown}`"))
            .hint(format!("there are: {}", names.join(", "))));
    }
    let missing = wanted.iter().filter(|name| tool_name::is_elsewhere(name));
    missing.for_each(|name| say(&format!("note: there is no tool `{name}` here")));
    Ok(all.filtered(|name| wanted.iter().any(|wanted| is_tool(wanted, name))))
}

/// Gives the tools the one by which a prompt is answered, where its answer must
/// fit a schema.
pub(super) fn answering(tools: Registry, flags: &RunFlags) -> Result<Registry, Refusal> {
    Ok(tools.answering(answer_schema(flags)?.as_ref()))
}

/// Returns what the answer to each prompt must fit.
fn answer_schema(flags: &RunFlags) -> Result<Option<Arc<AnswerSchema>>, Refusal> {
    let Some(given) = &flags.json_schema else { return Ok(None) };
    let text = given.text().map_err(|Unread { file, why }| {
        Refusal::new(Exit::BadInput, format!("cannot read `{file}`: {why}"))
            .hint("`--json-schema` takes a JSON object or the name of a file")
    })?;
    let parsed = AnswerSchema::parse(text.trim()).map_err(|why| {
        let what = given.file().unwrap_or("--json-schema");
        let message = format!("`{what}` is not a usable JSON Schema: {why}");
        Refusal::new(Exit::BadInput, message)
    });
    parsed.map(|schema| Some(Arc::new(schema)))
}

/// Returns the hooks of a run.
pub(super) fn hooks(kit: &Kit, has_people: bool) -> Hooks {
    let inherited = kit.environment.inherited.without(&kit.config.secret_variables());
    let workspace = whole_workspace(kit.policy.roots());
    let search = inherited.path().map(|path| SearchPath::split(path, &workspace));
    let inherited = inherited.without_workspace(&workspace);
    let project = repository_root(&kit.root).unwrap_or_else(|| kit.root.clone());
    let setting = Setting {
        session: kit.session.clone(),
        transcript: kit.is_kept.then(|| kit.directory.join(session::dirs::LOG)),
        shell: kit.sandbox.shell().into(),
        variables: hook::environment(&inherited, &project),
        search: search.unwrap_or_default(),
        has_people,
    };
    Hooks::new(kit.hooks.clone(), setting).naming(kit.servers.other_names().clone())
}

/// Says which entries of `PATH` are in the workspace, if tine may look for programs there.
pub(super) fn warn_of_path(kit: &Kit) {
    if kit.hooks.is_empty() && kit.servers.is_empty() {
        return;
    }
    let Some(path) = kit.environment.inherited.path() else { return };
    let search = SearchPath::split(path, &whole_workspace(kit.policy.roots()));
    let left_out = search.left_out();
    if left_out.is_empty() {
        return;
    }
    let entries: Vec<String> = left_out.iter().map(|it| format!("`{}`", it.display())).collect();
    say(&format!(
        "warning: hooks and MCP servers do not find programs in {}: entries of `PATH` in the workspace \
         are left out, because an agent may write there\n\
         hint: give such a program by its absolute path, or work in a directory further down",
        entries.join(", ")
    ));
}

/// Tells whether a tool is meant by a name.
fn is_tool(meant: &str, name: &str) -> bool {
    tool_name::canonical(meant).eq_ignore_ascii_case(name)
}

/// Returns the definitions that a flag gives, as JSON or in a file.
pub(super) fn given(flags: &RunFlags) -> Result<Vec<AgentDefinition>, Refusal> {
    let Some(given) = &flags.agents else { return Ok(Vec::new()) };
    let wrong = |why: String| Refusal::new(Exit::Usage, format!("`--agents`: {why}"));
    let text = given
        .text()
        .map_err(|Unread { file, why }| wrong(format!("cannot read `{file}`: {why}")))?;
    let json: Value = json_text::parse(text).map_err(|error| match given.file() {
        Some(file) => wrong(format!("`{file}` is not valid JSON: {error}")),
        None => wrong(format!("the JSON is wrong: {error}")),
    })?;
    definition::given(&json).map_err(wrong)
}

/// Returns the definition that the main conversation follows, if it follows one.
pub(super) fn agent<'a>(
    flags: &RunFlags,
    definitions: &'a Definitions,
) -> Result<Option<&'a AgentDefinition>, Refusal> {
    let Some(name) = &flags.agent else { return Ok(None) };
    let found = definitions.find(name).map(|agent| &**agent);
    found.map(Some).ok_or_else(|| {
        Refusal::new(Exit::Usage, format!("there is no agent `{name}`"))
            .hint(format!("there are: {}", definitions.names().join(", ")))
    })
}

/// Returns what is left of a policy where the main conversation is an agent.
pub(super) fn narrowed(policy: Policy, agent: Option<&AgentDefinition>) -> Policy {
    match agent {
        Some(agent) => policy.narrowed(agent.permission_mode, &agent.denied),
        None => policy,
    }
}

pub(super) fn system_prompt(
    flags: &RunFlags,
    agent: Option<&AgentDefinition>,
    skills: &Skills,
) -> Result<String, Refusal> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| {
            Refusal::new(Exit::BadInput, format!("cannot read `{}`: {error}", path.display()))
        })
    };
    let own = agent.map(|agent| {
        let (prompt, left_out) = agent.prompt_with(skills);
        left_out.iter().for_each(|left_out| say(&format!("warning: {left_out}")));
        prompt
    });
    let own = own.filter(|prompt| !prompt.is_empty());
    let mut system = match (&flags.system_prompt, &flags.system_prompt_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => read(path)?,
        (None, None) => own.unwrap_or_else(|| prompt::main().to_owned()),
    };
    let added = match (&flags.append_system_prompt, &flags.append_system_prompt_file) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(path)) => Some(read(path)?),
        (None, None) => None,
    };
    if let Some(added) = added {
        system.push_str("\n\n");
        system.push_str(&added);
    }
    Ok(system)
}
