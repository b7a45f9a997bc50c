//! Which servers of tools a run has: those of the flag, of the project and of
//! the user, in that order where two have one name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::args::{RunFlags, Unread};
use super::debug;
use super::exit::{Exit, Refusal};
use super::project::Trusted;
use super::{rules, start};
use crate::config::{Config, Environment};
use crate::mcp::{self, Configured, Entry, Limits, Open, Reached, Servers, Surroundings};

/// What a flag's own JSON is called.
const FLAG: &str = "--mcp-config";

/// A server that the program which drives us carries.
#[derive(Clone)]
pub(super) struct Carried {
    pub(super) name: String,
    pub(super) open: Arc<dyn Open>,
}

/// Collects what is configured, in whose place what is `carried` comes. Nothing is started by this.
///
/// # Errors
///
/// If something that names servers cannot be read as a whole. A single server
/// that cannot be used is that server's failure.
pub(super) fn servers(
    (environment, config): (&Environment, &Config),
    flags: &RunFlags,
    (trusted, root): (&Trusted, &Path),
    carried: &[Carried],
) -> Result<Servers, Refusal> {
    let mut found = Found::default();
    for given in &flags.servers.mcp_config {
        let text = given.text().map_err(unread)?;
        found.json(given.file().unwrap_or(FLAG), text, Whose::Users)?;
    }
    if !flags.servers.strict_mcp_config {
        if let Some((path, text)) = &trusted.servers {
            found.json(&path.display().to_string(), text, Whose::Projects)?;
        }
        for (name, entry) in &config.mcp.servers {
            let (origin, whose) = match config.mcp.of_project.contains(name) {
                true => ("`mcp.servers` of .tine/config.toml", Whose::Projects),
                false => ("`mcp.servers` of config.toml", Whose::Users),
            };
            found.add(name, Ok(entry.clone()), origin.to_owned(), whose);
        }
    }
    let keys: BTreeSet<String> = config.secret_variables().into_iter().collect();
    let allowed = super::rules::split(&flags.servers.allowed_mcp_server_names);
    let lookup = |name: &str, whose: Whose| {
        // A project may name any variable; a key is not its to send anywhere.
        let is_kept = whose == Whose::Projects && keys.contains(name);
        (!is_kept).then(|| environment.variable(name)).flatten()
    };
    let is_carried = |name: &str| carried.iter().any(|server| server.name == name);
    found.servers.retain(|name, _| !is_carried(name));
    let roots = rules::roots(flags, root)?;
    let project = start::repository_root(root).unwrap_or_else(|| root.to_owned());
    let configured = found.servers.into_iter().map(|(name, (entry, origin, whose))| {
        let is_allowed = allowed.is_empty() || allowed.contains(&name);
        let reached = match entry {
            _ if !is_allowed => {
                Reached::Disabled("`--allowed-mcp-server-names` leaves it out".into())
            }
            Ok(entry) if entry.is_disabled => Reached::Disabled("it is switched off".into()),
            Ok(entry) => match entry.launch(&|name| lookup(name, whose)) {
                Ok(launch) => {
                    debug::hide_launch(&launch);
                    let directory = match whose {
                        Whose::Users => root,
                        // Its files were trusted from here.
                        Whose::Projects => &project,
                    };
                    // Now, when no agent has done anything yet.
                    Reached::Launch(launch.watched(directory, &project))
                }
                Err(bad) => Reached::Not(bad),
            },
            Err(bad) => Reached::Not(bad),
        };
        Configured { name, origin, reached }
    });
    let carried = carried.iter().map(|Carried { name, open }| Configured {
        name: name.clone(),
        origin: "the client".to_owned(),
        reached: Reached::Channel(Arc::clone(open)),
    });
    let secret: Vec<String> = keys.iter().cloned().collect();
    let variables = environment.inherited.without(&secret);
    let workspace = start::whole_workspace(&roots);
    let surroundings = Surroundings { variables, directory: root.to_owned(), workspace };
    Ok(Servers::new(configured.chain(carried).collect(), limits(config), surroundings))
}

fn limits(config: &Config) -> Limits {
    let (startup, call) = (config.mcp.startup, config.mcp.call);
    Limits { startup, connect: mcp::CONNECT_LIMIT.max(startup), call }
}

/// Who names a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The user.
    Users,
    /// A project that the user trusts.
    Projects,
}

#[derive(Default)]
struct Found {
    servers: BTreeMap<String, (Result<Entry, mcp::BadEntry>, String, Whose)>,
}

impl Found {
    fn json(&mut self, origin: &str, text: &str, whose: Whose) -> Result<(), Refusal> {
        let servers = mcp::file::read(text)
            .map_err(|why| Refusal::new(Exit::BadConfig, format!("`{origin}` {why}")))?;
        for (name, entry) in servers {
            self.add(&name, entry, format!("`{origin}`"), whose);
        }
        Ok(())
    }

    /// The first of a name stays.
    fn add(
        &mut self,
        name: &str,
        entry: Result<Entry, mcp::BadEntry>,
        origin: String,
        whose: Whose,
    ) {
        self.servers.entry(name.to_owned()).or_insert((entry, origin, whose));
    }
}

fn unread(Unread { file, why }: &Unread) -> Refusal {
    let message = format!("cannot read `{file}` of `{FLAG}`: {why}");
    Refusal::new(Exit::BadConfig, message)
        .hint("give a file, or JSON that begins with `{`: `{\"mcpServers\":{…}}`")
}
