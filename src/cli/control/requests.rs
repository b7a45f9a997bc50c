//! What a client is told when it asks.

use std::sync::Arc;

use super::incoming::Look;
use crate::cli::chat::commands::{look, models};
use crate::cli::kit::Kit;
use crate::cli::slash;
use crate::definition::AgentDefinition;
use crate::event::{OfferedTool, ServerGlance};
use crate::mcp::Server;
use crate::message::Cost;
use crate::report::control::{
    ContextUsage, InForce, Introduction, ModelNamed, Named, Reply, ServerShown,
};
use crate::session::Past;

/// Returns what answers a question of a client. `cost` is what the session has
/// cost in this process.
pub(super) fn look(kit: &Kit, what: Look, cost: Cost) -> Reply {
    match what {
        Look::Context { in_detail } => context(kit, in_detail),
        Look::Commands => Reply::Commands(commands(kit)),
        Look::Models => Reply::Models(named_models(kit)),
        Look::Servers => Reply::Servers(servers(kit)),
        Look::Plugins => {
            Reply::Plugins { commands: commands(kit), agents: agents(kit), servers: servers(kit) }
        }
        Look::Cost => Reply::Cost(cost),
        Look::Settings => Reply::Settings(InForce {
            model: kit.model.name().to_string(),
            mode: kit.policy.mode().as_str(),
            effort: kit.flags.effort.as_ref().map(|effort| effort.as_str().to_owned()),
        }),
    }
}

fn servers(kit: &Kit) -> Vec<ServerShown> {
    kit.servers.iter().map(|server| shown(server)).collect()
}

fn agents(kit: &Kit) -> Vec<Named> {
    let agent = |definition: &AgentDefinition| Named {
        name: definition.name.clone(),
        description: definition.description.clone(),
    };
    kit.definitions.iter().map(|definition| agent(definition)).collect()
}

fn shown(server: &Server) -> ServerShown {
    let state = server.state();
    let tool = |tool: &OfferedTool| Named {
        name: tool.remote.to_string(),
        description: tool.description.to_string(),
    };
    let tools = state.listing().map(|listing| listing.tools.iter().map(tool).collect());
    let glance = ServerGlance { name: Arc::clone(&server.name), status: state.status() };
    ServerShown { glance, why: state.why().cloned(), tools }
}

/// Returns what a client learns at the start.
pub(super) fn introduction(kit: &Kit) -> Introduction {
    Introduction {
        session: kit.session.clone(),
        commands: commands(kit),
        agents: agents(kit),
        models: named_models(kit),
        api_key_source: kit.key_source().to_owned(),
        effort: kit.flags.effort.is_some(),
        is_applied: true,
    }
}

fn commands(kit: &Kit) -> Vec<Named> {
    let described = |name: String| {
        let skill = kit.skills.find(&name);
        let description = skill.map_or_else(String::new, |skill| skill.description.clone());
        Named { name, description }
    };
    slash::names(&kit.skills).into_iter().map(described).collect()
}

/// Returns the models that can be chosen by their names alone, the one that
/// answers first.
fn named_models(kit: &Kit) -> Vec<ModelNamed> {
    let name = kit.model.name().to_string();
    let listed = models::items(kit).into_iter().map(|item| item.typed);
    // Of a preset the name of a model is to follow.
    let others = listed.filter(|typed| !typed.ends_with(':') && *typed != name);
    let window = kit.model.facts().context_window;
    let known = (window < u64::MAX).then_some(window);
    let others = others.map(|name| ModelNamed { name, window: None }).collect::<Vec<_>>();
    std::iter::once(ModelNamed { name, window: known }).chain(others).collect()
}

fn context(kit: &Kit, in_detail: bool) -> Reply {
    let past = match kit.is_kept {
        true => Past::read(&kit.directory).unwrap_or_default(),
        false => Past::default(),
    };
    let served = past.offered().into_iter().flat_map(|offered| offered.iter());
    Reply::Context(Box::new(ContextUsage {
        model: kit.model.name().to_string(),
        window: look::window(kit, &past),
        tools: kit.tools.names().map(str::to_owned).collect(),
        served: served.map(|tool| (tool.name.to_string(), tool.server.to_string())).collect(),
        skills: kit.skills.iter().map(|skill| skill.name.clone()).collect(),
        in_detail,
    }))
}
