//! What whoever begins on a strand sees, found once for all that begin there.
//!
//! Units that a flow starts side by side see the same of others, but for what
//! was said on the strand of each. To look through all that their siblings have
//! said for each of them would be work that grows with the square of their number.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::{Part, Said};
use crate::branch::{Sight, Token, TokenSet};
use crate::event::{Invocation, Seq};

/// How many views are kept: as many as there are strands from main to the deepest
/// step of a flow, and of its siblings.
const KEPT: usize = 16;

/// What was found of late, and what each strand has said of its own.
#[derive(Debug, Clone, Default)]
pub(super) struct Views {
    kept: VecDeque<View>,
    /// The parts by the last token of those who said them.
    strands: HashMap<(Invocation, Token), BTreeSet<Seq>>,
}

/// What a set of tokens lets see: the newest part first, no more than there is
/// room for.
#[derive(Debug, Clone)]
struct View {
    sight: Sight,
    seen: Arc<[Arc<Said>]>,
}

impl Views {
    /// Takes note of a part. What does not see it is as it was.
    pub(super) fn said(&mut self, said: &Said) {
        self.kept.retain(|view| !view.sight.sees(said.invocation, &said.tokens));
        if let Some(last) = said.tokens.largest() {
            self.strands.entry((said.invocation, last)).or_default().insert(said.seq);
        }
    }

    /// Takes note of a part that nobody is told any more.
    pub(super) fn dropped(&mut self, said: &Said) {
        self.kept.clear();
        let Some(last) = said.tokens.largest() else { return };
        if let Some(parts) = self.strands.get_mut(&(said.invocation, last)) {
            parts.remove(&said.seq);
            if parts.is_empty() {
                self.strands.remove(&(said.invocation, last));
            }
        }
    }

    /// Takes note that others see more than before.
    pub(super) fn joined(&mut self) {
        self.kept.clear();
    }

    /// Returns the parts of those whose last token it is, the newest first.
    pub(super) fn on(&self, invocation: Invocation, last: Token) -> impl Iterator<Item = Seq> {
        self.strands
            .get(&(invocation, last))
            .into_iter()
            .flat_map(|parts| parts.iter().rev().copied())
    }

    /// Returns what tokens let see, if that was found before.
    pub(super) fn find(
        &mut self,
        invocation: Invocation,
        tokens: &TokenSet,
    ) -> Option<Arc<[Arc<Said>]>> {
        let place = self.kept.iter().position(|view| view.sight.is_of(invocation, tokens))?;
        let view = self.kept.remove(place)?;
        let seen = Arc::clone(&view.seen);
        self.kept.push_front(view);
        Some(seen)
    }

    /// Keeps what was found; the view that nobody has asked for longest goes for it.
    pub(super) fn keep(&mut self, sight: Sight, seen: Arc<[Arc<Said>]>) {
        self.kept.truncate(KEPT - 1);
        self.kept.push_front(View { sight, seen });
    }
}

/// Returns parts of two lists in one, the newest first; `None` if a summary in one of
/// them may stand for parts in the other, which have taken room there.
pub(super) fn merged(own: Vec<Arc<Said>>, base: &[Arc<Said>]) -> Option<Vec<Arc<Said>>> {
    let is_summary = |said: &&Arc<Said>| matches!(said.part, Part::SummedUp { before: _ });
    for summary in own.iter().chain(base).filter(is_summary) {
        let speaks = |parts: &[Arc<Said>]| parts.iter().any(|said| said.unit == summary.unit);
        if speaks(&own) && speaks(base) {
            return None;
        }
    }
    let mut all = own;
    all.extend(base.iter().cloned());
    // Two runs that are sorted: a merge.
    all.sort_by_key(|said| Reverse(said.seq));
    Some(all)
}
