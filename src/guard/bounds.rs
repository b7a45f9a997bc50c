//! What bounds a command in a sandbox besides what bounds every command there.

use std::path::PathBuf;

/// What one command must neither see nor change: what rules deny to read, and what
/// runs later. Default is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandBounds {
    /// Existing files and directories that rules deny to read. No link is in them.
    pub hidden: Vec<PathBuf>,
    /// Files and directories in the workspace that must stay as they are. No link is in
    /// them, and not each of them exists.
    pub kept: Vec<PathBuf>,
}

impl CommandBounds {
    /// No bounds besides those of every command.
    pub const NONE: Self = Self { hidden: Vec::new(), kept: Vec::new() };
}
