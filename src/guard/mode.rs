//! How much runs without a rule, and what two such words mean together.

/// How much runs without a rule, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Mode {
    /// Reading only, whatever the rules allow.
    Plan,
    /// Reading, and what a rule allows; the rest is asked about.
    #[default]
    Default,
    /// As `Default`, but what would be asked about is denied.
    DontAsk,
    /// Reading, edits inside the workspace, and what a rule allows; the rest is
    /// asked about.
    AcceptEdits,
    /// Everything that no rule denies or has asked about.
    BypassPermissions,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 5] =
        [Self::Plan, Self::Default, Self::DontAsk, Self::AcceptEdits, Self::BypassPermissions];

    /// Returns the mode's name in flags, settings and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Default => "default",
            Self::DontAsk => "dontAsk",
            Self::AcceptEdits => "acceptEdits",
            Self::BypassPermissions => "bypassPermissions",
        }
    }

    /// Reads a mode's name, or one that other harnesses use for it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "manual" => Some(Self::Default),
            "auto-edit" => Some(Self::AcceptEdits),
            "yolo" => Some(Self::BypassPermissions),
            _ => Self::ALL.into_iter().find(|mode| mode.as_str() == name),
        }
    }
}

/// What one mode, or several together, leave to a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    /// What runs; never `DontAsk`, which is `Default` without questions.
    runs: Mode,
    /// Whether a person may be asked about the rest.
    pub(super) may_ask: bool,
}

impl Reach {
    pub(super) fn of(mode: Mode) -> Self {
        match mode {
            Mode::DontAsk => Self { runs: Mode::Default, may_ask: false },
            Mode::Plan | Mode::Default | Mode::AcceptEdits | Mode::BypassPermissions => {
                Self { runs: mode, may_ask: true }
            }
        }
    }

    /// Returns what both leave.
    pub(super) fn and(self, other: Self) -> Self {
        Self { runs: self.runs.min(other.runs), may_ask: self.may_ask && other.may_ask }
    }

    /// Returns the name it goes by.
    pub(super) fn mode(self) -> Mode {
        match (self.runs, self.may_ask) {
            (Mode::Default, false) => Mode::DontAsk,
            (mode, _) => mode,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_modes_together_are_never_more_than_either() {
        let both = |one, other| Reach::of(one).and(Reach::of(other));
        for one in Mode::ALL {
            assert_eq!(both(one, one), Reach::of(one));
            assert_eq!(both(one, one).mode(), one);
            for other in Mode::ALL {
                assert_eq!(both(one, other), both(other, one));
            }
        }
        use Mode::{AcceptEdits, BypassPermissions, Default, DontAsk, Plan};
        assert_eq!(both(AcceptEdits, BypassPermissions).mode(), AcceptEdits);
        assert_eq!(both(AcceptEdits, DontAsk).mode(), DontAsk);
        assert_eq!(both(Default, DontAsk).mode(), DontAsk);
        // It reads as planning does, and asks nobody.
        assert_eq!(both(Plan, DontAsk), Reach { runs: Plan, may_ask: false });
    }
}
