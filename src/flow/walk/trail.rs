//! Who has answered before a step, on its branch.
//!
//! An agent that sees others is asked the very same only if those are the very
//! same, too: one that failed and was asked again says something else now.

use crate::event::UnitId;

/// Agents in the order of the flow, as a hash: two trails are the same if the
/// same units have answered in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Trail(Option<[u8; 16]>);

impl Trail {
    /// A trail of one agent.
    pub(super) fn of(UnitId(unit): UnitId) -> Self {
        Self::hashed(&[b"unit", &unit.to_le_bytes()])
    }

    /// Returns the trail of these and then those.
    pub(super) fn then(self, behind: Self) -> Self {
        match (self.0, behind.0) {
            (None, _) => behind,
            (_, None) => self,
            (Some(before), Some(behind)) => Self::hashed(&[b"then", &before, &behind]),
        }
    }

    /// Returns what stands for it in a hash of more.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |hash| hash)
    }

    fn hashed(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(part);
        }
        let bytes: [u8; 32] = hasher.finalize().into();
        Self(bytes.first_chunk().copied())
    }
}

impl FromIterator<Self> for Trail {
    fn from_iter<I: IntoIterator<Item = Self>>(trails: I) -> Self {
        trails.into_iter().fold(Self::default(), Self::then)
    }
}
