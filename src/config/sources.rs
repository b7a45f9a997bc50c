//! Whose files are read.

/// Whose instructions, skills, commands and agents are read, and whether a
/// project's settings are. The user's `config.toml` is read in any case: it says
/// which models there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    /// The user's.
    pub user: bool,
    /// The project's.
    pub project: bool,
}

impl Sources {
    /// Nobody's.
    pub const NONE: Self = Self { user: false, project: false };
}

impl Default for Sources {
    fn default() -> Self {
        Self { user: true, project: true }
    }
}
