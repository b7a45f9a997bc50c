//! How much runs without a rule, and what two such words mean together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

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
            // Where a model decides about the rest there, a person does here.
            "auto-edit" | "auto" => Some(Self::AcceptEdits),
            "yolo" => Some(Self::BypassPermissions),
            _ => Self::ALL.into_iter().find(|mode| mode.as_str() == name),
        }
    }
}

/// The mode that holds for a unit: the session's, or what is left of it to the
/// unit. A clone shares the session's.
///
/// A person may change that while units work, and it holds for all of them from
/// their next call on: so it is one cell, and not a value that each has a copy
/// of.
#[derive(Debug, Clone)]
pub(super) struct Holding {
    session: Arc<AtomicU8>,
    narrowed: Reach,
}

impl Holding {
    pub(super) fn new(mode: Mode) -> Self {
        Self { session: Arc::new(AtomicU8::new(mode as u8)), narrowed: Reach::ALL }
    }

    /// Changes the session's mode.
    pub(super) fn set(&self, mode: Mode) {
        self.session.store(mode as u8, Ordering::Relaxed);
    }

    /// Returns what is left of it where a mode holds besides.
    pub(super) fn and(&self, mode: Mode) -> Self {
        self.bounded(Reach::of(mode))
    }

    /// Returns what is left of it where no more than this does besides.
    pub(super) fn bounded(&self, reach: Reach) -> Self {
        Self { narrowed: self.narrowed.and(reach), ..self.clone() }
    }

    /// Returns what is left of it where nobody is asked.
    pub(super) fn without_questions(&self) -> Self {
        let nobody = Reach { may_ask: false, ..Reach::ALL };
        self.bounded(nobody)
    }

    /// Returns what is left of it for a unit that goes on for another one.
    pub(super) fn within(&self, other: &Self) -> Self {
        self.bounded(other.narrowed)
    }

    pub(super) fn reach(&self) -> Reach {
        let held = self.session.load(Ordering::Relaxed);
        let session = Mode::ALL.into_iter().find(|mode| *mode as u8 == held);
        self.narrowed.and(Reach::of(session.unwrap_or_default()))
    }

    pub(super) fn mode(&self) -> Mode {
        self.reach().mode()
    }
}

impl Default for Holding {
    fn default() -> Self {
        Self::new(Mode::Default)
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
    /// Takes nothing away from any other.
    pub(super) const ALL: Self = Self { runs: Mode::BypassPermissions, may_ask: true };

    /// Returns what runs without a person's word.
    pub(super) fn runs(self) -> Mode {
        self.runs
    }

    pub(super) fn of(mode: Mode) -> Self {
        match mode {
            Mode::DontAsk => Self { runs: Mode::Default, may_ask: false },
            Mode::Plan | Mode::Default | Mode::AcceptEdits | Mode::BypassPermissions => {
                Self { runs: mode, may_ask: true }
            }
        }
    }

    /// Returns the same, where nobody is asked unless somebody may be.
    pub(super) fn asking(self, may_ask: bool) -> Self {
        Self { may_ask: self.may_ask && may_ask, ..self }
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
    fn a_sessions_mode_is_changed_for_all_and_what_a_unit_has_of_it_stays_bounded() {
        let session = Holding::new(Mode::Default);
        let unit = session.and(Mode::AcceptEdits);
        let bounded = unit.within(&session.and(Mode::Plan));
        for mode in Mode::ALL {
            session.set(mode);
            assert_eq!(session.mode(), mode);
            assert_eq!(unit.reach(), Reach::of(mode).and(Reach::of(Mode::AcceptEdits)));
            assert_eq!(bounded.mode(), Mode::Plan);
        }
    }

    #[test]
    fn without_questions_runs_what_ran_before() {
        let session = Holding::new(Mode::AcceptEdits);
        let unasked = session.without_questions();
        assert_eq!(unasked.reach(), Reach { runs: Mode::AcceptEdits, may_ask: false });
        session.set(Mode::Default);
        assert_eq!(unasked.mode(), Mode::DontAsk);
    }

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
