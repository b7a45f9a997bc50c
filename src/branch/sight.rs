//! What a viewer sees of a whole session: of its own invocation and of those
//! before it.
//!
//! Tokens begin anew with each invocation, so the same number stands for
//! another strand in each, and sets of two invocations are never compared. Of an
//! earlier invocation everybody sees what the root branch took home from it;
//! [`RootJoins`] folds that from the events.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::TokenSet;
use crate::event::{Event, EventKind, Invocation, UnitId};

/// What the root branch has joined in each invocation: a fold over the events
/// of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RootJoins {
    joined: BTreeMap<Invocation, TokenSet>,
}

impl RootJoins {
    /// Takes note of one event; only joins of the main unit change anything.
    ///
    /// A background strand may come home late, after its invocation's last
    /// event of the main unit: the join counts for the invocation that it is
    /// recorded in.
    pub fn take(&mut self, event: &Event) {
        let is_join = matches!(event.kind, EventKind::Joined { children: _ });
        if is_join && event.unit == UnitId::MAIN {
            let joined = self.joined.entry(event.invocation).or_default();
            // The event's branch is the joined one, so it holds all that was
            // joined before; the union only makes the order not matter.
            *joined = event.branch.tokens.union([&*joined]);
        }
    }

    /// Returns what the root branch has joined in an invocation so far: its own
    /// set at this moment, or at the end of one that is over.
    #[must_use]
    pub fn joined_in(&self, invocation: Invocation) -> TokenSet {
        self.joined.get(&invocation).cloned().unwrap_or_default()
    }
}

impl<'a> Extend<&'a Event> for RootJoins {
    fn extend<I: IntoIterator<Item = &'a Event>>(&mut self, events: I) {
        events.into_iter().for_each(|event| self.take(event));
    }
}

impl<'a> FromIterator<&'a Event> for RootJoins {
    fn from_iter<I: IntoIterator<Item = &'a Event>>(events: I) -> Self {
        let mut joins = Self::default();
        joins.extend(events);
        joins
    }
}

/// What one viewer sees of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    invocation: Invocation,
    tokens: TokenSet,
    joins: Arc<RootJoins>,
}

impl Sight {
    /// The sight of a viewer that works in `invocation` and has `tokens` there.
    /// Of `joins` only the invocations before it count.
    #[must_use]
    pub fn new(invocation: Invocation, tokens: TokenSet, joins: Arc<RootJoins>) -> Self {
        Self { invocation, tokens, joins }
    }

    /// The sight of the root branch in `invocation`, as far as `joins` goes.
    #[must_use]
    pub fn of_root(invocation: Invocation, joins: Arc<RootJoins>) -> Self {
        Self::new(invocation, joins.joined_in(invocation), joins)
    }

    /// Tells whether it is the sight of whoever works in `invocation` and has
    /// `tokens` there.
    #[must_use]
    pub fn is_of(&self, invocation: Invocation, tokens: &TokenSet) -> bool {
        self.invocation == invocation && self.tokens == *tokens
    }

    /// Tells whether the viewer sees an event that happened in `invocation` on a
    /// branch with `tokens`.
    ///
    /// Nothing of a later invocation is seen. Of an earlier one in which the root
    /// branch joined nothing only its own events are.
    #[must_use]
    pub fn sees(&self, invocation: Invocation, tokens: &TokenSet) -> bool {
        match invocation.cmp(&self.invocation) {
            Ordering::Equal => tokens.is_subset_of(&self.tokens),
            Ordering::Less => match self.joins.joined.get(&invocation) {
                Some(joined) => tokens.is_subset_of(joined),
                None => tokens.is_empty(),
            },
            Ordering::Greater => false,
        }
    }

    /// Tells whether the viewer sees `event`.
    #[must_use]
    pub fn sees_event(&self, event: &Event) -> bool {
        self.sees(event.invocation, &event.branch.tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::branch::Branch;
    use crate::event::{Seq, UnixMillis};

    fn set(text: &str) -> TokenSet {
        text.parse().unwrap()
    }

    fn event(invocation: u32, unit: UnitId, tokens: &str, kind: EventKind) -> Event {
        Event {
            seq: Seq(1),
            at: UnixMillis(0),
            invocation: Invocation(invocation),
            unit,
            branch: Branch { tokens: set(tokens), ..Branch::root() },
            kind,
        }
    }

    fn join(invocation: u32, tokens: &str) -> Event {
        event(invocation, UnitId::MAIN, tokens, EventKind::Joined { children: Vec::new() })
    }

    /// A viewer with the tokens 1 and 3 in invocation 3. In the first the root
    /// branch joined twice, in the second never, in the others it did later.
    fn sight() -> Sight {
        let inner = EventKind::Joined { children: Vec::new() };
        let log = [
            join(1, "1-2"),
            event(1, UnitId(1), "1,7-8", inner),
            join(1, "1-4"),
            event(2, UnitId::MAIN, "9", EventKind::UnitStarted),
            join(3, "1-5"),
            join(4, "1-9"),
        ];
        Sight::new(Invocation(3), set("1,3"), Arc::new(log.iter().collect()))
    }

    #[track_caller]
    fn check(invocation: u32, tokens: &str, expected: bool) {
        let event = event(invocation, UnitId(1), tokens, EventKind::UnitStarted);
        assert_eq!(sight().sees_event(&event), expected, "{invocation}: {tokens}");
    }

    #[test]
    fn in_its_own_invocation_a_viewer_sees_by_its_own_tokens() {
        check(3, "", true);
        check(3, "1", true);
        check(3, "1,3", true);
        check(3, "2", false);
        check(3, "1-3", false);
    }

    #[test]
    fn of_an_earlier_invocation_everybody_sees_what_the_root_joined_in_it() {
        check(1, "", true);
        check(1, "2", true);
        check(1, "1-4", true);
        check(1, "5", false);
        check(1, "1,7", false);
    }

    #[test]
    fn of_an_earlier_invocation_without_a_join_only_root_events_are_seen() {
        check(2, "", true);
        check(2, "1", false);
        check(2, "9", false);
    }

    #[test]
    fn nothing_of_a_later_invocation_is_seen() {
        check(4, "", false);
        check(4, "1", false);
    }

    #[test]
    fn the_root_sees_what_it_has_joined_so_far() {
        let mut joins = RootJoins::default();
        let child = set("1");
        let sees = |joins: &RootJoins| {
            Sight::of_root(Invocation(1), Arc::new(joins.clone())).sees(Invocation(1), &child)
        };
        assert!(!sees(&joins));
        joins.take(&join(1, "1"));
        assert!(sees(&joins));
    }

    #[test]
    fn a_strand_that_comes_home_late_counts_where_its_join_is_recorded() {
        let mut joins: RootJoins = [join(1, "1"), join(2, "1-2")].iter().collect();
        joins.take(&join(1, "1,4"));
        assert_eq!(joins.joined_in(Invocation(1)), set("1,4"));
        assert_eq!(joins.joined_in(Invocation(2)), set("1-2"));
        joins.take(&join(1, "1"));
        assert_eq!(joins.joined_in(Invocation(1)), set("1,4"));
        assert_eq!(joins.joined_in(Invocation(3)), TokenSet::default());
    }
}
