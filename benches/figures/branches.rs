//! What branches cost: library code, timed in this process.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use tine::branch::{RootJoins, Sight, Token, TokenSet};
use tine::event::Invocation;

use crate::clock;
use crate::measure::median_of;
use crate::table::{Figure, Unit};

/// How many slots the viewer has joined.
const SLOTS: u32 = 10_000;

/// How many events it looks at.
const EVENTS: u32 = 1_000_000;

/// How often each figure is measured.
const ROUNDS: usize = 11;

/// One of this many events is the root's own.
const ROOT_SHARE: u32 = 10;

/// Whether a viewer sees an event, and sets of ten thousand tokens over those of
/// a thousand.
pub(crate) fn branches() -> Vec<Figure> {
    let sees = |name: &str, every| {
        let name = format!("visibility of an event, {name}");
        Figure::new(name, time_of_look(every), 50.0, Unit::Nanos)
    };
    let (large, small) = (time_of_sets(SLOTS), time_of_sets(SLOTS / 10));
    let name = format!("union, text, parsing of 10,000 ({large:.2} ms) over 1,000 sets");
    vec![
        sees("10,000 slots joined in a row", 1),
        sees("every other slot of 20,000 joined", 2),
        Figure::new(name, large / small, 13.0, Unit::Times),
    ]
}

/// Returns the nanoseconds that an event takes a viewer that joined one of
/// `every` so many slots. The events are in no order and have sets of their own,
/// as if they had been read from a log.
fn time_of_look(every: u32) -> f64 {
    let joined = every_so_many(SLOTS, every);
    let sight = Sight::new(Invocation(1), joined, Arc::new(RootJoins::default()));
    let mut random = Random(1);
    let events: Vec<(Invocation, TokenSet)> =
        (0..EVENTS).map(|_| (Invocation(1), any_branch(&mut random, SLOTS * every))).collect();
    median_of(ROUNDS, |_| {
        let started = clock::now();
        let seen = events.iter().filter(|(invocation, tokens)| sight.sees(*invocation, tokens));
        let seen = black_box(seen.count());
        let took = clock::now() - started;
        check_count(seen, every);
        nanos(took) / f64::from(EVENTS)
    })
}

/// Panics if what was timed was not the work that is meant.
fn check_count(seen: usize, every: u32) {
    let of_root = EVENTS / ROOT_SHARE;
    let expected = of_root + (EVENTS - of_root) / every;
    let seen = u32::try_from(seen).expect("no more are seen than there are");
    assert!(seen.abs_diff(expected) < EVENTS / 100, "{seen} events were seen, not {expected}");
}

fn any_branch(random: &mut Random, slots: u32) -> TokenSet {
    if random.below(ROOT_SHARE) == 0 {
        TokenSet::default()
    } else {
        TokenSet::default().with(token(random.below(slots)))
    }
}

/// Returns the milliseconds it takes to join every other one of so many strands,
/// and to write the set and read it.
fn time_of_sets(count: u32) -> f64 {
    let wanted = every_so_many(count, 2);
    let strands: Vec<TokenSet> =
        (0..count).map(|index| TokenSet::default().with(token(2 * index))).collect();
    median_of(ROUNDS, |_| {
        let started = clock::now();
        let joined = TokenSet::default().union(&strands);
        let read: TokenSet = joined.to_string().parse().expect("a set's text is canonical");
        let took = clock::now() - started;
        assert_eq!(black_box(read), wanted, "the sets come back");
        nanos(took) / 1e6
    })
}

fn every_so_many(count: u32, every: u32) -> TokenSet {
    (0..count).map(|index| token(every * index)).collect()
}

/// Returns the token of the slot with this number, from 0.
fn token(slot: u32) -> Token {
    Token(u64::from(slot) + 1)
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// Numbers that are the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let below = self.0 % u64::from(limit);
        u32::try_from(below).expect("it is below the limit")
    }
}
