//! Which events a unit may see: a set of tokens, and a dotted path for people.
//!
//! A branch is a plain value. This file owns the set arithmetic (fork, join,
//! visibility); who draws tokens and when is the dispatcher's business.

mod path;
mod tokens;

pub use path::BranchPath;
pub use tokens::{ParseTokensError, Token, TokenSet, Tokens};

/// A strand of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Branch {
    /// The tokens that say what this strand may see.
    pub tokens: TokenSet,
    /// The name people read and filter by; it decides nothing about visibility
    /// of a unit's prompt.
    pub path: BranchPath,
}

impl Branch {
    /// The branch of the main conversation before anything was forked.
    #[must_use]
    pub fn root() -> Self {
        Self { tokens: TokenSet::default(), path: BranchPath::main() }
    }

    /// Returns the branch of a child: the parent's tokens and one fresh one, the
    /// parent's path and one segment.
    #[must_use]
    pub fn fork(&self, token: Token, segment: &str) -> Self {
        Self { tokens: self.tokens.with(token), path: self.path.child(segment) }
    }

    /// Returns the branch of a step that goes on where this one is: the same
    /// tokens, under a name of its own.
    #[must_use]
    pub fn at(&self, segment: &str) -> Self {
        Self { tokens: self.tokens.clone(), path: self.path.child(segment) }
    }

    /// Returns this branch after its children came back: it has seen what they
    /// have seen, whatever their outcome.
    #[must_use]
    pub fn join<'a>(&self, children: impl IntoIterator<Item = &'a TokenSet>) -> Self {
        Self { tokens: self.tokens.union(children), path: self.path.clone() }
    }

    /// Tells whether an event of this branch is visible to `viewer` within one
    /// invocation.
    #[must_use]
    pub fn is_visible_to(&self, viewer: &Self) -> bool {
        self.tokens.is_subset_of(&viewer.tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(tokens: &[u32]) -> TokenSet {
        tokens.iter().map(|&token| Token(token)).collect()
    }

    #[test]
    fn a_fork_sees_its_parent_and_its_parent_does_not_see_it_before_the_join() {
        let parent = Branch::root();
        let child = parent.fork(Token(1), "a");
        assert!(parent.is_visible_to(&child));
        assert!(!child.is_visible_to(&parent));
        assert!(child.is_visible_to(&parent.join([&child.tokens])));
    }

    #[test]
    fn siblings_never_see_each_other() {
        let parent = Branch::root();
        let (first, second) = (parent.fork(Token(1), "a"), parent.fork(Token(2), "b"));
        assert!(!first.is_visible_to(&second));
        assert!(!second.is_visible_to(&first));
    }

    #[test]
    fn a_join_takes_every_child_whatever_its_outcome() {
        let joined = Branch::root().join([&set(&[1]), &set(&[2]), &set(&[3])]);
        assert_eq!(joined.tokens.to_string(), "1-3");
    }

    #[test]
    fn a_thousand_forks_and_joins_leave_at_most_two_ranges() {
        let mut tokens = Tokens::default();
        let mut branch = Branch::root();
        for _ in 0..1_000 {
            let children = [branch.fork(tokens.draw(), "a"), branch.fork(tokens.draw(), "b")];
            assert!(children.iter().all(|child| child.tokens.range_count() <= 2));
            branch = branch.join(children.iter().map(|child| &child.tokens));
            assert_eq!(branch.tokens.range_count(), 1);
        }
    }
}
