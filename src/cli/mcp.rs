//! `tine mcp`: the servers of tools there are, and tine as one.

mod progress;
mod serve;

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};
use std::sync::Arc;

use super::args::{McpCommand, RunFlags};
use super::exit::{Exit, Refusal};
use super::project::{self, Manner};
use super::{print, servers, session, start};
use crate::config::Environment;
use crate::event::ServerStatus;
use crate::mcp::{Server, Servers};
use crate::message::counted;
use crate::report::{sanitise, server_record};

/// Does what `tine mcp` was asked for.
pub(super) fn run(
    environment: &Environment,
    flags: RunFlags,
    command: &McpCommand,
) -> Result<Exit, Refusal> {
    match command {
        McpCommand::List { json } => list(environment, &flags, *json),
        McpCommand::Serve => serve::run(environment, flags),
    }
}

/// Connects to all servers, and says how each stands and what it offers.
fn list(environment: &Environment, flags: &RunFlags, json: bool) -> Result<Exit, Refusal> {
    let (config, trusted) = project::config(environment, flags, Manner::Tell)?;
    let root = start::working_directory(environment)?;
    let servers = servers::servers((environment, &config), flags, (&trusted, &root), &[])?;
    let runtime = print::runtime()?;
    runtime.block_on(servers.settled_once());
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match json {
        true => servers.iter().try_for_each(|server| {
            out.write_all(&server_record(&server.name, &server.label, &server.state()))
        }),
        false => out.write_all(text(&servers).as_bytes()),
    };
    let is_well = servers.iter().all(|server| is_of_use(server.state().status()));
    let exit = session::finish(written.and_then(|()| out.flush()));
    let exit = exit.map(|exit| if is_well { exit } else { Exit::Error });
    runtime.block_on(servers.close());
    runtime.shutdown_timeout(print::SHUTDOWN_GRACE);
    exit
}

/// Tells whether a server stands as whoever configured it wants it to.
fn is_of_use(status: ServerStatus) -> bool {
    match status {
        ServerStatus::Connected | ServerStatus::Disabled => true,
        ServerStatus::Pending | ServerStatus::Failed | ServerStatus::NeedsAuth => false,
    }
}

fn text(servers: &Servers) -> String {
    if servers.is_empty() {
        return "no servers of tools; see `[mcp]` in `config.example.toml`\n".to_owned();
    }
    let mut text = String::new();
    for server in servers.iter() {
        for line in lines(server) {
            writeln!(text, "{}", sanitise::line(&line)).expect("a string takes every text");
        }
    }
    text
}

/// Says how a server stands: its name first, what it offers below.
pub(super) fn lines(server: &Arc<Server>) -> Vec<String> {
    let Server { name, origin, .. } = &**server;
    let state = server.state();
    let first = format!("{name}  {}  ({origin})", state.status().as_str());
    let mut lines = vec![first];
    lines.extend(state.why().map(|why| format!("  {why}")));
    if let Some(listing) = state.listing() {
        lines.extend(listing.tools.iter().map(|tool| format!("  {}", tool.name)));
        lines.extend(listing.prompts.iter().map(|prompt| format!("  /{}", prompt.name)));
        let resources = listing.resources.len() as u64;
        if resources > 0 {
            let label = &server.label;
            lines.push(format!("  {}, as @{label}:URI", counted(resources, "resource")));
            let shown = listing.resources.iter().take(RESOURCES_SHOWN);
            lines.extend(shown.map(|resource| format!("    @{label}:{}", resource.uri)));
        }
        lines.extend(listing.left_out.iter().map(|what| format!("  {what}")));
    }
    if state.status() == ServerStatus::NeedsAuth {
        lines.push("  tine does no logins: put a token into its `headers`".to_owned());
    }
    lines
}

/// Most resources of a server that are named.
const RESOURCES_SHOWN: usize = 10;
