//! What tests declare.

use std::sync::Arc;

use super::{Budget, Child, Strand};
use crate::event::Origin;

/// A child with nothing special about it.
pub(crate) fn plain(description: impl Into<Arc<str>>) -> Child {
    Child {
        description: description.into(),
        agent: "explore".into(),
        slot: None,
        origin: Origin::Prompt,
        is_background: false,
        strand: Strand::Fresh,
        budget: Budget::default(),
        again: None,
        step: None,
    }
}
