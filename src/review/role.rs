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
    /// The steps of the flow have the names of the angles. Each item of a
    /// `for_each` has its place behind its step's name, `tests[3]`, or as a slot.
    #[must_use]
    pub fn of(head: &UnitHead) -> Option<Self> {
        if head.origin == Origin::Steps {
            return None;
        }
        let (name, place) = head.description.split_once('[').unwrap_or((&head.description, ""));
        let place = place.strip_suffix(']').and_then(|place| place.parse().ok());
        let index = place.unwrap_or_else(|| head.slot.map_or(0, |slot| slot.index));
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
        // An answer of an earlier walk of the flow is that of whoever was asked.
        Origin::Continued(unit) | Origin::Reused(unit) => Some(unit),
        // A fork begins with its parent's, and no reviewer is anybody's parent.
        Origin::Prompt | Origin::Visible | Origin::Fork | Origin::Steps => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::testing::queued;
    use crate::event::{EventKind, SlotPosition};

    #[track_caller]
    fn check(description: &str, origin: Origin, expected: Option<Role>) {
        let EventKind::UnitQueued(mut head) = queued(description, 0, origin, None) else {
            unreachable!("it is what is queued")
        };
        head.slot = Some(SlotPosition { index: 7, total: 9 });
        assert_eq!(Role::of(&head), expected, "{description}");
    }

    #[test]
    fn a_unit_is_what_its_step_is_called_and_has_the_place_of_its_item() {
        let reviewer = |angle, index| Some(Role::Reviewer { angle, index });
        check("tests[3]", Origin::Prompt, reviewer(Angle::Tests, 3));
        check("tests", Origin::Prompt, reviewer(Angle::Tests, 7));
        check("again[0]", Origin::Visible, reviewer(Angle::Again, 0));
        check("verify[12]", Origin::Prompt, Some(Role::Verifier { index: 12 }));
        check("tests", Origin::Steps, None);
        check("testing", Origin::Prompt, None);
        check("plan", Origin::Prompt, None);
    }
}
