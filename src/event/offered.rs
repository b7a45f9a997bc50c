//! What servers of tools offer to the main conversation.

use std::sync::Arc;

/// What servers of tools offer, as a prompt begins or a summary has made room.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offered {
    /// Every server that is configured, in order.
    pub servers: Vec<ServerGlance>,
    /// The tools of servers that the conversation has from here on, in their
    /// order; `None` if they are as before. They stay what they are until the
    /// next summary, so that what requests begin with stays the same.
    pub tools: Option<Arc<[OfferedTool]>>,
}

/// A tool of a server, as models are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedTool {
    /// Its whole name, `mcp__server__tool`.
    pub name: Arc<str>,
    /// The server's part of that.
    pub server: Arc<str>,
    /// What the server calls it; may be anything.
    pub remote: Arc<str>,
    /// What it does, in the server's words.
    pub description: Arc<str>,
    /// JSON Schema of the arguments.
    pub parameters: Arc<str>,
}

/// How a server stood at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerGlance {
    /// Its name, as it is configured; may be anything.
    pub name: Arc<str>,
    /// How it stands.
    pub status: ServerStatus,
}

/// How a server stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerStatus {
    /// It has not answered yet.
    Pending,
    /// It answers.
    Connected,
    /// It cannot be reached, or has died too often.
    Failed,
    /// It wants somebody to log in.
    NeedsAuth,
    /// It is not to be used.
    Disabled,
}

impl ServerStatus {
    /// Every status.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Connected, Self::Failed, Self::NeedsAuth, Self::Disabled];

    /// Returns the name used in records and in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connected => "connected",
            Self::Failed => "failed",
            Self::NeedsAuth => "needs-auth",
            Self::Disabled => "disabled",
        }
    }
}
