//! What is known of a unit that can still say something.

use std::collections::HashMap;
use std::sync::Arc;

use crate::event::{Seq, UnitId};
use crate::message::{CallId, Reply};

/// What is known of a unit that has not ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Speaker {
    pub(super) name: Arc<str>,
    pub(super) is_silent: bool,
    /// Whether all it says is the answer with which it ends.
    pub(super) is_reused: bool,
    /// Its user messages: what a summary keeps is counted in them.
    pub(super) prompts: Vec<Seq>,
    /// Who started it; `None` of main, and where nothing says it.
    pub(super) parent: Option<UnitId>,
    /// Which parts are its own: what a summary may take the place of.
    pub(super) parts: Vec<Seq>,
    /// Which are of units that it had started and that have ended: what goes if
    /// it is lost. Main has none: nobody loses that.
    pub(super) below: Vec<Seq>,
    pub(super) open_calls: HashMap<CallId, Box<str>>,
    /// Its last answer.
    pub(super) answer: Option<Arc<Reply>>,
}

impl Speaker {
    /// It was lost: whatever it says comes from its beginning. Returns what it
    /// had said, and what those had that it had started.
    pub(super) fn begins_anew(&mut self) -> Vec<Seq> {
        let (name, parent) = (Arc::clone(&self.name), self.parent);
        let Self { is_silent, is_reused, .. } = *self;
        let anew = Self { name, is_silent, is_reused, parent, ..Self::default() };
        let Self { mut parts, below, .. } = std::mem::replace(self, anew);
        parts.extend(below);
        parts
    }
}
