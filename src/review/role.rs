//! What a unit does in a review, by the step that it was declared for.

use super::Angle;
use crate::event::{Origin, UnitHead, UnitId};

/// The step whose units try to refute findings.
pub(super) const VERIFY: &str = "verify";

/// What a unit does in a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It looks at a territory.
    Reviewer {
        /// From what side.
        angle: Angle,
        /// Which one, from 0.
        index: u32,
    },
    /// It tries to refute a finding.
    Verifier {
        /// Which one of those that are verified, from 0.
        index: u32,
    },
}

impl Role {
    /// Returns what a unit does; `None` if it has no part in a review.
    ///
    /// The steps of the flow have the names of the angles, and each item of a
    /// `for_each` has its place as a slot.
    #[must_use]
    pub fn of(head: &UnitHead) -> Option<Self> {
        if head.origin == Origin::Steps {
            return None;
        }
        let index = head.slot.map_or(0, |slot| slot.index);
        let name = head.description.split(|c: char| !c.is_ascii_alphabetic()).next()?;
        if name == VERIFY {
            return Some(Self::Verifier { index });
        }
        let angle = Angle::ALL.into_iter().find(|angle| angle.as_str() == name)?;
        Some(Self::Reviewer { angle, index })
    }
}

/// Returns the unit whose whole conversation a unit's begins with: what that one
/// was shown this one has before it.
pub(super) fn goes_on(origin: Origin) -> Option<UnitId> {
    match origin {
        Origin::Continued(unit) => Some(unit),
        // A fork begins with its parent's, and no reviewer is anybody's parent.
        Origin::Prompt | Origin::Visible | Origin::Fork | Origin::Steps => None,
    }
}
