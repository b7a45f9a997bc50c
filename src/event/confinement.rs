//! How a command is kept in bounds while it runs.

/// What a command runs in, and what it can do there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confinement {
    /// What holds the bounds.
    pub backend: Backend,
    /// What may be written.
    pub access: Access,
    /// Its network access.
    pub network: NetworkAccess,
}

impl Confinement {
    /// No bounds at all.
    pub const NONE: Self =
        Self { backend: Backend::None, access: Access::Off, network: NetworkAccess::Shared };
}

/// What was wanted of sandboxes when a session began, and what there was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxHead {
    /// Whether there must be one.
    pub mode: Insistence,
    /// Network access of commands that may write the workspace.
    pub network: NetworkAccess,
    /// In the log the best that is installed, which is not tried out for it; in records what
    /// holds commands. What held each command is told with that.
    pub installed: Backend,
}

/// Network access of a command. Later variants allow more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum NetworkAccess {
    /// Nothing.
    #[default]
    None,
    /// The hosts that rules and people allow, through tine's proxy.
    Hosts,
    /// Every host of the public internet that no rule denies, through tine's proxy.
    Public,
    /// Whatever this machine can reach, and this machine itself.
    Shared,
}

impl NetworkAccess {
    /// Every access, least first.
    pub const ALL: [Self; 4] = [Self::None, Self::Hosts, Self::Public, Self::Shared];

    /// Returns the name used in records, in the log and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hosts => "hosts",
            Self::Public => "public",
            Self::Shared => "shared",
        }
    }

    /// Reads the name in the configuration and on the command line.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|access| access.as_str() == name)
    }

    /// Returns whether all connections go through tine's proxy, so that the command has a
    /// network namespace of its own.
    #[must_use]
    pub fn is_proxied(self) -> bool {
        match self {
            Self::Hosts | Self::Public => true,
            Self::None | Self::Shared => false,
        }
    }

    /// Returns whether hosts can be reached that no rule names.
    #[must_use]
    pub fn allows_unlisted_hosts(self) -> bool {
        match self {
            Self::Public | Self::Shared => true,
            Self::None | Self::Hosts => false,
        }
    }
}

/// How much there must be a sandbox. The stricter is the less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Insistence {
    /// No command runs without one, not even one that a person has approved.
    Required,
    /// The best there is, or none.
    #[default]
    Best,
    /// None.
    Off,
}

impl Insistence {
    /// Every one, the strictest first.
    pub const ALL: [Self; 3] = [Self::Required, Self::Best, Self::Off];

    /// Returns the name in the configuration and in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Best => "best",
            Self::Off => "off",
        }
    }

    /// Reads the name in the configuration.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|insistence| insistence.as_str() == name)
    }
}

/// What holds a command in its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// bubblewrap: namespaces of its own, and seccomp.
    Bwrap,
    /// Landlock and seccomp.
    Landlock,
    /// Nothing.
    None,
}

impl Backend {
    /// Every backend, the best first.
    pub const ALL: [Self; 3] = [Self::Bwrap, Self::Landlock, Self::None];

    /// Returns the name used in records, in the log and by `tine doctor`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }
}

/// What a command may write. Later variants allow more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing but a temporary directory of its own.
    ReadOnly,
    /// The workspace too.
    WorkspaceWrite,
    /// Whatever the user may.
    Off,
}

impl Access {
    /// Every access, least first.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::WorkspaceWrite, Self::Off];

    /// Returns the name used in records, in the log and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::Off => "off",
        }
    }
}
