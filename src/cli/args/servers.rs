//! Which servers of tools are used.

use clap::Args;

use super::GivenJson;

/// Flags that say which servers of tools are used.
#[derive(Debug, Clone, Default, Args)]
pub struct ServerFlags {
    /// More servers of tools: a file like `.mcp.json`, or such JSON itself
    #[arg(long, global = true, value_name = "FILE|JSON", num_args = 1..)]
    pub mcp_config: Vec<GivenJson>,

    /// Use no servers but those of `--mcp-config`
    #[arg(long, global = true)]
    pub strict_mcp_config: bool,

    /// The only servers that are used, by name
    #[arg(long, global = true, value_name = "NAMES", num_args = 1..)]
    pub allowed_mcp_server_names: Vec<String>,
}
