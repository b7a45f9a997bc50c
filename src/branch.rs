//! Which events a unit may see: a set of tokens, and a dotted path for people.
//!
//! A branch is a plain value. This file owns the set arithmetic (fork, join,
//! visibility within one invocation), [`Sight`] what is seen of earlier ones;
//! who draws tokens and when is the dispatcher's business.

mod path;
mod sight;
mod tokens;

pub use path::{BranchPath, path_sees};
pub use sight::{RootJoins, Sight};
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
mod tests;
