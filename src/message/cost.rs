//! Money: what tokens cost, as far as anyone knows.
//!
//! Amounts are whole nano-dollars, so that sums are exact and the same on
//! every machine.

use std::fmt;
use std::ops::AddAssign;

use super::Usage;

/// How many tokens a [`Price`] is for.
const PRICED_TOKENS: u128 = 1_000_000;

/// An amount of money in nano-dollars: 1,000,000,000 are one US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Usd(pub u64);

impl Usd {
    /// One dollar.
    pub const ONE: Self = Self(1_000_000_000);

    /// Returns the amount in dollars, for records.
    #[must_use]
    pub fn dollars(self) -> f64 {
        // Exact up to nine million dollars, which no session reaches.
        self.0 as f64 / Self::ONE.0 as f64
    }

    /// Reads an amount in dollars, to the nearest nano-dollar; `None` if it is
    /// negative, no number or too large.
    #[must_use]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let nano = (dollars * Self::ONE.0 as f64).round();
        // Below 2^53 a float holds every whole number.
        (0.0..9.0e15).contains(&nano).then_some(Self(nano as u64))
    }
}

impl fmt::Display for Usd {
    /// Writes dollars: with cents, or with four digits below ten cents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.0 != 0 && self.0 < Self::ONE.0 / 10 { 4 } else { 2 };
        write!(f, "${:.digits$}", self.dollars())
    }
}

/// What a million tokens of a model cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Prompt tokens that were not read from a cache.
    pub input: Usd,
    /// Tokens the model wrote.
    pub output: Usd,
    /// Prompt tokens read from a cache.
    pub cache_read: Usd,
    /// Prompt tokens put into a cache.
    pub cache_write: Usd,
}

impl Price {
    /// Returns what so many tokens cost, to the nearest nano-dollar.
    #[must_use]
    pub fn of(&self, usage: Usage) -> Usd {
        let Usage { input, output, cache_read, cache_creation, cost: _ } = usage;
        let parts = [
            (input, self.input),
            (output, self.output),
            (cache_read, self.cache_read),
            (cache_creation, self.cache_write),
        ];
        let sum = parts.into_iter().fold(0_u128, |sum, (tokens, Usd(price))| {
            sum.saturating_add(u128::from(tokens) * u128::from(price))
        });
        let nano = sum.saturating_add(PRICED_TOKENS / 2) / PRICED_TOKENS;
        Usd(u64::try_from(nano).unwrap_or(u64::MAX))
    }
}

/// What requests cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// What is known of it.
    pub usd: Usd,
    /// Whether something is missing in it, because a model has no price.
    pub is_partial: bool,
}

impl Cost {
    /// What tokens cost at a price. Without a price, only no tokens are known
    /// to cost nothing.
    #[must_use]
    pub fn of(usage: Usage, price: Option<&Price>) -> Self {
        match price {
            Some(price) => Self { usd: price.of(usage), is_partial: false },
            None => Self { usd: Usd::default(), is_partial: usage.total() > 0 },
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.usd = Usd(self.usd.0.saturating_add(other.usd.0));
        self.is_partial = self.is_partial || other.is_partial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price {
        input: Usd(3_000_000_000),
        output: Usd(15_000_000_000),
        cache_read: Usd(300_000_000),
        cache_write: Usd(3_750_000_000),
    };

    #[test]
    fn each_sort_of_token_has_its_own_price() {
        let cost = Cost::default();
        let usage =
            Usage { input: 1_000, output: 100, cache_read: 10_000, cache_creation: 1, cost };
        assert_eq!(PRICE.of(usage), Usd(3_000_000 + 1_500_000 + 3_000_000 + 3_750));
        assert_eq!(PRICE.of(Usage::default()), Usd(0));
    }

    #[test]
    fn parts_of_a_nano_dollar_are_rounded_once() {
        let price = Price { input: Usd(400_000), ..PRICE };
        let of = |input| price.of(Usage { input, ..Usage::default() });
        assert_eq!((of(1), of(2), of(3)), (Usd(0), Usd(1), Usd(1)));
        assert_eq!(PRICE.of(Usage { input: u64::MAX, ..Usage::default() }), Usd(u64::MAX));
    }

    #[test]
    fn a_sum_says_whether_a_price_was_missing() {
        let usage = Usage { input: 1_000_000, ..Usage::default() };
        let mut cost = Cost::of(usage, Some(&PRICE));
        cost += Cost::of(Usage::default(), None);
        assert_eq!(cost, Cost { usd: Usd(3_000_000_000), is_partial: false });
        cost += Cost::of(usage, None);
        assert_eq!(cost, Cost { usd: Usd(3_000_000_000), is_partial: true });
    }

    #[test]
    fn amounts_are_written_as_people_write_them() {
        let shown = |nano| Usd(nano).to_string();
        assert_eq!(shown(0), "$0.00");
        assert_eq!(shown(1_234_567), "$0.0012");
        assert_eq!(shown(123_456_789), "$0.12");
        assert_eq!(shown(12_345_678_901), "$12.35");
        assert_eq!(Usd::from_dollars(0.1), Some(Usd(100_000_000)));
        assert_eq!([-1.0, f64::NAN, 1e10].map(Usd::from_dollars), [None; 3]);
    }
}
