//! Sets of branch tokens, kept as sorted disjoint ranges.
//!
//! A parent that joined ten thousand slots holds one range, not ten thousand
//! numbers, so a set is cheap to store with every event.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// One number that stands for one strand of an invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

/// Draws tokens that no strand of the invocation has had.
#[derive(Debug, Clone)]
pub struct Tokens {
    next: u32,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { next: 1 }
    }
}

impl Tokens {
    /// Continues after the largest token of a log, so that a resumed
    /// invocation never gives a strand a token that another one had.
    #[must_use]
    pub fn after(largest: Token) -> Self {
        Self { next: largest.0.saturating_add(1) }
    }

    /// Returns the next token.
    pub fn draw(&mut self) -> Token {
        self.reserve(1)
    }

    /// Takes the next `count` tokens and returns the first of them.
    pub fn reserve(&mut self, count: u32) -> Token {
        let first = Token(self.next);
        self.next += count;
        first
    }
}

/// An immutable set of tokens; a clone shares the ranges.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TokenSet {
    /// Inclusive ranges, sorted, with a gap between any two.
    ranges: Arc<[(u32, u32)]>,
}

impl Default for TokenSet {
    fn default() -> Self {
        Self { ranges: Arc::new([]) }
    }
}

impl TokenSet {
    /// Returns this set and one more token.
    #[must_use]
    pub fn with(&self, token: Token) -> Self {
        let mut ranges = self.ranges.to_vec();
        ranges.push((token.0, token.0));
        Self::from_ranges(ranges)
    }

    /// Returns the union of this set and all of `others`.
    #[must_use]
    pub fn union<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut ranges = self.ranges.to_vec();
        for other in others {
            ranges.extend_from_slice(&other.ranges);
        }
        Self::from_ranges(ranges)
    }

    /// Tells whether every token of this set is in `other`.
    #[must_use]
    pub fn is_subset_of(&self, other: &Self) -> bool {
        let mut outer = other.ranges.iter();
        let mut current = outer.next();
        self.ranges.iter().all(|&(low, high)| {
            while let Some(&(_, end)) = current {
                if end >= low {
                    break;
                }
                current = outer.next();
            }
            current.is_some_and(|&(start, end)| start <= low && high <= end)
        })
    }

    /// Tells whether `token` is in the set.
    #[must_use]
    pub fn contains(&self, token: Token) -> bool {
        self.ranges.iter().any(|&(low, high)| (low..=high).contains(&token.0))
    }

    /// Returns the largest token, or `None` for the root's empty set.
    #[must_use]
    pub fn largest(&self) -> Option<Token> {
        self.ranges.last().map(|&(_, high)| Token(high))
    }

    /// Returns how many ranges store the set.
    #[must_use]
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    fn from_ranges(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                Some(_) | None => merged.push((low, high)),
            }
        }
        Self { ranges: merged.into() }
    }
}

impl FromIterator<Token> for TokenSet {
    fn from_iter<I: IntoIterator<Item = Token>>(tokens: I) -> Self {
        Self::from_ranges(tokens.into_iter().map(|token| (token.0, token.0)).collect())
    }
}

/// Writes the canonical text: `1-3,5`, and nothing for the root.
impl fmt::Display for TokenSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (low, high)) in self.ranges.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            if low == high {
                write!(f, "{separator}{low}")?;
            } else {
                write!(f, "{separator}{low}-{high}")?;
            }
        }
        Ok(())
    }
}

/// Why a text is not a canonical token set.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{text}` is not a token set such as `1-3,5`")]
pub struct ParseTokensError {
    text: String,
}

impl FromStr for TokenSet {
    type Err = ParseTokensError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || ParseTokensError { text: text.to_owned() };
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| refuse());
        let mut ranges = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high) = (number(low)?, number(high)?);
            if low > high {
                return Err(refuse());
            }
            ranges.push((low, high));
        }
        let set = Self::from_ranges(ranges);
        // Only canonical text is accepted: two spellings of one set would make
        // records that mean the same compare as different.
        if set.to_string() == text { Ok(set) } else { Err(refuse()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_set() -> impl Strategy<Value = TokenSet> {
        prop::collection::vec(1_u32..60, 0..20)
            .prop_map(|tokens| tokens.into_iter().map(Token).collect())
    }

    proptest! {
        #[test]
        fn text_round_trips(set in any_set()) {
            prop_assert_eq!(set.to_string().parse::<TokenSet>(), Ok(set));
        }

        #[test]
        fn union_is_commutative_associative_and_idempotent(
            a in any_set(), b in any_set(), c in any_set(),
        ) {
            prop_assert_eq!(a.union([&b]), b.union([&a]));
            prop_assert_eq!(a.union([&b]).union([&c]), a.union([&b.union([&c])]));
            prop_assert_eq!(a.union([&a]), a);
        }

        #[test]
        fn subset_agrees_with_the_elements(a in any_set(), b in any_set()) {
            let by_element =
                (0..70).map(Token).filter(|&token| a.contains(token)).all(|token| b.contains(token));
            prop_assert_eq!(a.is_subset_of(&b), by_element);
            prop_assert!(a.is_subset_of(&a.union([&b])));
        }
    }

    #[test]
    fn text_that_is_not_canonical_is_refused() {
        for text in ["1,2", "3-1", "2,1", "x", "1,", "01", " 1", "1-1"] {
            assert!(text.parse::<TokenSet>().is_err(), "{text}");
        }
    }

    #[test]
    fn tokens_go_on_after_the_largest_of_a_log() {
        assert_eq!(Tokens::after(Token(8)).draw(), Token(9));
    }
}
