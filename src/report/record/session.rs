//! What is told of a whole session: how it begins, how it stands.

use serde::Serialize;

use super::{SandboxRecord, ServerRecord, is_false};

/// The version of Claude Code whose records these are, for clients that ask for
/// one before they rely on something.
pub(in crate::report) const SPOKEN: &str = "2.1.330";

/// How a session stands: `running`, `requires_action` or `idle`.
#[derive(Serialize)]
pub(in crate::report) struct SessionStateChanged {
    pub(in crate::report) state: &'static str,
    /// Whether it is for the program alone that drives it.
    #[serde(skip_serializing_if = "is_false")]
    pub(in crate::report) sdk_host_only: bool,
}

/// Another permission mode holds.
#[derive(Serialize)]
pub(in crate::report) struct ModeRecord<'a> {
    pub(in crate::report) status: Option<()>,
    #[serde(rename = "permissionMode")]
    pub(in crate::report) mode: &'a str,
}

#[derive(Serialize)]
pub(in crate::report) struct Init<'a> {
    pub(in crate::report) cwd: &'a str,
    pub(in crate::report) tools: &'a [String],
    pub(in crate::report) mcp_servers: Vec<ServerRecord<'a>>,
    pub(in crate::report) model: &'a str,
    #[serde(rename = "permissionMode")]
    pub(in crate::report) permission_mode_camel: &'a str,
    pub(in crate::report) permission_mode: &'a str,
    pub(in crate::report) slash_commands: &'a [String],
    pub(in crate::report) agents: &'a [String],
    pub(in crate::report) skills: &'a [String],
    #[serde(rename = "apiKeySource")]
    pub(in crate::report) api_key_source: &'a str,
    pub(in crate::report) output_style: &'static str,
    pub(in crate::report) tine_version: &'a str,
    pub(in crate::report) claude_code_version: &'static str,
    pub(in crate::report) plugins: [(); 0],
    pub(in crate::report) sandbox: SandboxRecord,
    pub(in crate::report) capabilities: [&'static str; 3],
}
