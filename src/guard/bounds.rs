//! Bounds of one sandboxed command, in addition to those of every sandboxed command.

use std::path::PathBuf;

use crate::git::KnownVersions;

/// Files that one command must not see, because rules deny to read them, or not change,
/// because other programs run them later. The default is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandBounds {
    /// Existing files and directories that rules deny to read. No link is in them.
    pub hidden: Vec<PathBuf>,
    /// Those of them whose directories must not be moved either.
    pub unmovable: Vec<PathBuf>,
    /// Files and directories in the workspace that must stay as they are. No link is in
    /// them, and not each of them exists.
    pub kept: Vec<PathBuf>,
    /// Committed versions of files that other programs run later: commands may create
    /// these. `None` if no repository is known.
    pub versions: Option<KnownVersions>,
}

impl CommandBounds {
    /// Only the bounds of every command.
    pub const NONE: Self =
        Self { hidden: Vec::new(), unmovable: Vec::new(), kept: Vec::new(), versions: None };
}
