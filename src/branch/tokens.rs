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
pub struct Token(pub u64);

impl Token {
    /// The largest token that is read from text. A log that was tampered with
    /// can so not use up the numbers that a resumed invocation still has to
    /// draw.
    pub const READ_LIMIT: Self = Self(u64::MAX / 2);
}

/// Draws tokens that no strand of the invocation has had.
///
/// It never runs out, so drawing cannot fail: at least half of all 64-bit
/// numbers lie above [`Token::READ_LIMIT`], and each one drawn is a unit
/// declared and an event logged. A million a second would take 290,000 years.
#[derive(Debug, Clone)]
pub struct Tokens {
    next: u64,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { next: 1 }
    }
}

impl Tokens {
    /// Continues after the largest token of a log, so that a resumed
    /// invocation never gives a strand a token that another one had. It is one
    /// that was drawn or read, so there is one after it.
    #[must_use]
    pub fn after(largest: Token) -> Self {
        Self { next: largest.0 + 1 }
    }

    /// Returns the next token.
    pub fn draw(&mut self) -> Token {
        self.reserve(1)
    }

    /// Takes the next `count` tokens and returns the first of them.
    pub fn reserve(&mut self, count: u64) -> Token {
        let first = Token(self.next);
        self.next += count;
        first
    }
}

/// The first and the last of some tokens in a row.
type Range = (u64, u64);

/// An immutable set of tokens; a clone shares the ranges.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TokenSet {
    /// Sorted, with a gap between any two.
    ranges: Arc<[Range]>,
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
            // Children have most of their tokens from their parent: what all of
            // them repeat must not be collected once for each.
            ranges.extend(other.ranges.iter().filter(|range| !covers(&self.ranges, range)));
        }
        if ranges.len() == self.ranges.len() { self.clone() } else { Self::from_ranges(ranges) }
    }

    /// Tells whether every token of this set is in `other`.
    ///
    /// It takes a binary search for each range of this set, so a viewer that
    /// joined ten thousand strands looks at an event nearly as fast as one that
    /// joined none.
    #[must_use]
    pub fn is_subset_of(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.ranges, &other.ranges) {
            return true;
        }
        let mut rest = &*other.ranges;
        self.ranges.iter().all(|range| {
            // Both are sorted: what lies before this range lies before all
            // that follow it.
            rest = from_token(rest, range.0);
            begins_with_all_of(rest, range)
        })
    }

    /// Tells whether `token` is in the set.
    #[must_use]
    pub fn contains(&self, token: Token) -> bool {
        covers(&self.ranges, &(token.0, token.0))
    }

    /// Tells whether this is the root's set, which holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the largest token, or `None` for the root's empty set.
    #[must_use]
    pub fn largest(&self) -> Option<Token> {
        self.ranges.last().map(|&(_, high)| Token(high))
    }

    /// Returns the largest token, and the set without it; `None` for the root's
    /// empty set.
    #[must_use]
    pub fn split_last(&self) -> Option<(Token, Self)> {
        let (&(low, high), before) = self.ranges.split_last()?;
        let rest = (low < high).then(|| (low, high - 1));
        let ranges = before.iter().copied().chain(rest).collect();
        Some((Token(high), Self { ranges }))
    }

    /// Returns how many ranges store the set.
    #[must_use]
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    fn from_ranges(mut ranges: Vec<Range>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                Some(_) | None => merged.push((low, high)),
            }
        }
        Self { ranges: merged.into() }
    }
}

/// Returns the sorted ranges that end at `token` or after it.
fn from_token(ranges: &[Range], token: u64) -> &[Range] {
    let is_before = |range: &Range| range.1 < token;
    let before = match ranges {
        // Two large sets are mostly alike; then the range that is looked for
        // is the very next one.
        [first, ..] if !is_before(first) => 0,
        [_, second, ..] if !is_before(second) => 1,
        _ => ranges.partition_point(is_before),
    };
    &ranges[before..]
}

fn begins_with_all_of(ranges: &[Range], &(low, high): &Range) -> bool {
    ranges.first().is_some_and(|&(first, last)| first <= low && high <= last)
}

fn covers(ranges: &[Range], range: &Range) -> bool {
    begins_with_all_of(from_token(ranges, range.0), range)
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
        let number = |digits: &str| {
            let number = digits.parse().ok().filter(|&number| Token(number) <= Token::READ_LIMIT);
            number.ok_or_else(refuse)
        };
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
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    /// A set and its elements one by one.
    type Both = (TokenSet, BTreeSet<u64>);

    fn both(tokens: impl IntoIterator<Item = u64>) -> Both {
        let elements: BTreeSet<u64> = tokens.into_iter().collect();
        (set(elements.iter().copied()), elements)
    }

    fn set(tokens: impl IntoIterator<Item = u64>) -> TokenSet {
        tokens.into_iter().map(Token).collect()
    }

    fn any_set() -> impl Strategy<Value = TokenSet> {
        prop::collection::vec(1_u64..60, 0..20).prop_map(set)
    }

    /// Of so few tokens that two of them are often equal or one inside the
    /// other.
    fn tiny_set() -> impl Strategy<Value = TokenSet> {
        prop::collection::vec(1_u64..5, 0..4).prop_map(set)
    }

    /// Up to thousands of ranges: every so-manyeth token, some runs, some gaps.
    fn gappy_set() -> impl Strategy<Value = Both> {
        let strays = prop::collection::vec(1_u64..30_000, 0..40);
        let runs = prop::collection::vec((1_u64..30_000, 1_u64..200), 0..6);
        (2_u64..40, 0_u64..5_000, strays, runs).prop_map(|(step, count, strays, runs)| {
            let every = (0..count).map(|index| 1 + index * step).filter(|&token| token < 30_000);
            let runs = runs.into_iter().flat_map(|(first, length)| first..first + length);
            both(every.chain(strays).chain(runs))
        })
    }

    proptest! {
        #[test]
        fn text_round_trips(small in any_set(), (large, _) in gappy_set()) {
            prop_assert_eq!(small.to_string().parse::<TokenSet>(), Ok(small));
            prop_assert_eq!(large.to_string().parse::<TokenSet>(), Ok(large));
        }

        #[test]
        fn a_set_has_one_text(text in "[0-9]{0,2}([-,][0-9]{1,2}){0,4}", a in tiny_set()) {
            if let Ok(parsed) = text.parse::<TokenSet>() {
                prop_assert_eq!(parsed.to_string(), text);
            }
            let backwards = (1..5).rev().filter(|&token| a.contains(Token(token)));
            prop_assert_eq!(set(backwards).to_string(), a.to_string());
        }

        #[test]
        fn union_is_commutative_associative_and_idempotent(
            a in any_set(), b in any_set(), c in any_set(),
        ) {
            prop_assert_eq!(a.union([&b]), b.union([&a]));
            prop_assert_eq!(a.union([&b]).union([&c]), a.union([&b.union([&c])]));
            prop_assert_eq!(a.union([&b, &c]), a.union([&c, &b]));
            prop_assert_eq!(&a.union([&a]), &a);
            prop_assert_eq!(a.union([&TokenSet::default()]), a);
        }

        #[test]
        fn a_union_takes_in_its_subsets_and_nothing_else(a in tiny_set(), b in tiny_set()) {
            prop_assert_eq!(a.union([&b]) == b, a.is_subset_of(&b));
            prop_assert_eq!(a.union([&a.union([&b])]), a.union([&b]));
        }

        #[test]
        fn subset_is_reflexive_transitive_and_antisymmetric(
            a in tiny_set(), b in tiny_set(), c in tiny_set(),
        ) {
            prop_assert!(a.is_subset_of(&a));
            prop_assert!(a.is_subset_of(&a.to_string().parse().unwrap()));
            prop_assert!(TokenSet::default().is_subset_of(&a));
            prop_assert_eq!(a.is_subset_of(&b) && b.is_subset_of(&a), a == b);
            prop_assert!(!(a.is_subset_of(&b) && b.is_subset_of(&c)) || a.is_subset_of(&c));
            let (wider, widest) = (a.union([&b]), a.union([&b, &c]));
            prop_assert!(a.is_subset_of(&wider) && wider.is_subset_of(&widest));
            prop_assert!(a.is_subset_of(&widest));
        }

        #[test]
        fn subset_and_union_agree_with_the_elements_of_large_sets(
            (a, a_elements) in gappy_set(), (b, b_elements) in gappy_set(),
        ) {
            prop_assert_eq!(a.is_subset_of(&b), a_elements.is_subset(&b_elements));
            let union = a.union([&b]);
            prop_assert_eq!(&union, &set(a_elements.union(&b_elements).copied()));
            prop_assert!(a.is_subset_of(&union) && b.is_subset_of(&union));
            prop_assert_eq!(union.is_subset_of(&a), b_elements.is_subset(&a_elements));
            prop_assert_eq!(union.largest().map(|token| token.0), {
                a_elements.last().max(b_elements.last()).copied()
            });
        }

        #[test]
        fn one_token_more_or_less_in_a_large_set_is_noticed(
            (large, elements) in gappy_set(), token in 1_u64..30_001,
        ) {
            prop_assert_eq!(large.contains(Token(token)), elements.contains(&token));
            let without = set(elements.iter().copied().filter(|&element| element != token));
            let with = large.with(Token(token));
            prop_assert!(without.is_subset_of(&large) && large.is_subset_of(&with));
            prop_assert!(!with.is_subset_of(&without));
            prop_assert!(!without.contains(Token(token)) && with.contains(Token(token)));
        }
    }

    #[test]
    fn text_that_is_not_canonical_is_refused() {
        for text in ["1,2", "3-1", "2,1", "x", "1,", "01", " 1", "1-1", "+1", "-", ","] {
            assert!(text.parse::<TokenSet>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_union_that_brings_nothing_new_shares_the_ranges() {
        let parent = set([1, 3, 5]);
        let union = parent.union([&set([3]), &TokenSet::default()]);
        assert!(Arc::ptr_eq(&union.ranges, &parent.ranges));
    }

    #[test]
    fn tokens_go_on_after_the_largest_of_a_log() {
        assert_eq!(Tokens::after(Token(8)).draw(), Token(9));
    }

    #[test]
    fn no_text_leaves_an_invocation_without_tokens() {
        let largest = Token::READ_LIMIT.0;
        let read: TokenSet = format!("1-{largest}").parse().unwrap();
        let mut tokens = Tokens::after(read.largest().unwrap());
        let drawn = [tokens.draw(), tokens.draw()];
        assert_eq!(drawn, [Token(largest + 1), Token(largest + 2)]);
        assert!(drawn.iter().all(|&token| !read.contains(token)));
        for text in [format!("{}", largest + 1), u64::MAX.to_string(), format!("1-{}0", u64::MAX)] {
            assert!(text.parse::<TokenSet>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_token_is_taken_off_a_set() {
        let split = |text: &str| {
            let split = text.parse::<TokenSet>().unwrap().split_last();
            split.map(|(last, rest)| (last.0, rest.to_string()))
        };
        assert_eq!(split(""), None);
        assert_eq!(split("7"), Some((7, String::new())));
        assert_eq!(split("1-3"), Some((3, "1-2".to_owned())));
        assert_eq!(split("1-3,5"), Some((5, "1-3".to_owned())));
        assert_eq!(split("1,3-4"), Some((4, "1,3".to_owned())));
    }
}
