//! What to do about a request that went wrong.
//!
//! The decision is a function of the error and of what was tried before it;
//! waiting, asking again and telling of it are the agent loop's. Only a turn of
//! which nothing has run yet may be asked for again, which only that loop knows.

pub mod floor;

use std::time::Duration;

use super::{ModelError, ModelErrorKind};
use crate::message::counted;

/// Most times that one model is asked again for one turn. Without floors they
/// come to 80 seconds of waiting on average: longer than most overloads, and
/// short enough to tell people of an outage.
pub const MOST_RETRIES: u32 = 10;

/// Maximum number of retries where nothing listens on this machine: the system says so at
/// once, and a server that was just started needs about a second.
pub const NOT_RUNNING_RETRIES: u32 = 2;

/// Maximum number of retries in a row while no connection can be made. Each may take as
/// long as the timeout of a connection, and a wrong address stays wrong.
pub const UNREACHABLE_RETRIES: u32 = 2;

/// The first wait of these retries, in usual first waits: 4 s. The second is twice as long:
/// a network that was lost for a moment is back by that time.
const UNREACHABLE_PAUSE: u32 = 8;

/// The longest first wait: about what a request that is refused takes. Each
/// further one may be twice as long.
pub const BASE: Duration = Duration::from_millis(500);

/// What a wait grows to at most.
pub const CAP: Duration = Duration::from_secs(32);

/// The longest floor that is waited for. Whoever sends more means a quota of an
/// hour or a day, and whoever waits for that is better told.
pub const LONGEST_FLOOR: Duration = Duration::from_secs(10 * 60);

/// Maximum retries of one model for one turn because its answer is unusable. Each
/// answer is paid for in full, and most end in the same way.
pub const MOST_UNUSABLE: u32 = 2;

/// After so many overloads in a row another model is asked, if there is one.
pub const OVERLOADS_BEFORE_FALLBACK: u32 = 3;

/// How often and how soon a request is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Most times that one model is asked again for one turn.
    pub most: u32,
    /// The longest first wait; each further one may be twice as long.
    pub base: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self { most: MOST_RETRIES, base: BASE }
    }
}

/// An overloaded provider that wants to be left alone for longer than this is
/// left for another model at once, if there is one.
pub const LONGEST_BEFORE_FALLBACK: Duration = Duration::from_secs(30);

/// What was tried for a turn before the error that is decided on. Each model of
/// a turn starts with a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tried {
    /// How often the model was asked again.
    pub retries: u32,
    /// How many overloads (429, 529, 5xx) came last, with nothing else between.
    pub overloads: u32,
    /// Number of answers that were unusable.
    pub unusable: u32,
    /// Number of attempts in a row for which no connection could be made.
    pub unreachable: u32,
    /// Whether the key was refused (401).
    pub key_was_refused: bool,
}

impl Tried {
    /// Returns what has been tried once the model is asked again after `error`.
    #[must_use]
    pub fn and(self, error: &ModelError) -> Self {
        Self {
            retries: self.retries.saturating_add(1),
            overloads: self.overloads_with(error),
            unusable: self.unusable.saturating_add(u32::from(is_unusable(error))),
            unreachable: match error.kind == ModelErrorKind::Unreachable {
                true => self.unreachable.saturating_add(1),
                false => 0,
            },
            key_was_refused: self.key_was_refused || is_unauthorised(error),
        }
    }

    fn overloads_with(self, error: &ModelError) -> u32 {
        if is_overload(error) { self.overloads.saturating_add(1) } else { 0 }
    }
}

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a decision that is dropped is a turn without an end"]
pub enum Decision {
    /// Ask the same model again after this time.
    Again {
        /// From now.
        after: Duration,
    },
    /// Ask the next model, at once.
    NextModel,
    /// End the turn.
    GiveUp(Why),
}

/// Why a request is not made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It would fail in the same way.
    Hopeless,
    /// It was made often enough.
    TriedOut {
        /// So often again.
        retries: u32,
    },
    /// The provider wants to hear of it again too late.
    TooLate {
        /// In this time.
        after: Duration,
    },
}

impl Why {
    /// Adds to the error why it is the last one.
    #[must_use]
    pub fn told(self, error: ModelError) -> ModelError {
        let message = match self {
            Self::Hopeless | Self::TriedOut { retries: 0 } => return error,
            Self::TriedOut { retries } => {
                format!("{} (after {})", error.message, counted(retries, "retry"))
            }
            Self::TooLate { after } => {
                format!("{} (it may work again in {})", error.message, in_words(after))
            }
        };
        ModelError { message, ..error }
    }
}

/// Decides what to do about an error.
///
/// `random` is at least 0 and below 1: units that were refused together must
/// not ask again together.
pub fn decide(
    error: &ModelError,
    tried: Tried,
    policy: Policy,
    has_fallback: bool,
    random: f64,
) -> Decision {
    let is_first = policy.most > 0 && !tried.key_was_refused;
    if error.should_retry != Some(false) && is_unauthorised(error) && is_first {
        // The environment, where keys come from, is the same as before; but a
        // key that was just made is not known everywhere at once.
        return Decision::Again { after: Duration::ZERO };
    }
    let is_overload = is_overload(error);
    let next_or = |why| {
        if has_fallback { Decision::NextModel } else { Decision::GiveUp(why) }
    };
    if !may_work_again(error) {
        // A provider that is overloaded and wants no second request says
        // nothing about other providers.
        return if is_overload { next_or(Why::Hopeless) } else { Decision::GiveUp(Why::Hopeless) };
    }
    let floor = error.retry_after.unwrap_or_default();
    if floor > LONGEST_FLOOR {
        return next_or(Why::TooLate { after: floor });
    }
    let most = match error.kind {
        ModelErrorKind::NotRunning => policy.most.min(NOT_RUNNING_RETRIES),
        ModelErrorKind::Authentication
        | ModelErrorKind::Request
        | ModelErrorKind::Overflow
        | ModelErrorKind::RateLimited
        | ModelErrorKind::Overloaded
        | ModelErrorKind::Connection
        | ModelErrorKind::Unreachable
        | ModelErrorKind::Cut
        | ModelErrorKind::Unusable
        | ModelErrorKind::Empty
        | ModelErrorKind::Silent => policy.most,
    };
    let is_unreachable = error.kind == ModelErrorKind::Unreachable;
    let is_tried_out = is_unusable(error) && tried.unusable >= MOST_UNUSABLE
        || is_unreachable && tried.unreachable >= UNREACHABLE_RETRIES;
    if is_tried_out || tried.retries >= most {
        return next_or(Why::TriedOut { retries: tried.retries });
    }
    let is_lasting =
        tried.overloads_with(error) >= OVERLOADS_BEFORE_FALLBACK || floor > LONGEST_BEFORE_FALLBACK;
    if has_fallback && is_overload && is_lasting {
        return Decision::NextModel;
    }
    let backoff = policy.base.saturating_mul(1 << tried.retries.min(MOST_RETRIES)).min(CAP);
    let pause = match is_unreachable {
        true => policy.base.saturating_mul(UNREACHABLE_PAUSE << tried.unreachable),
        false => Duration::ZERO,
    };
    Decision::Again { after: floor.max(pause) + backoff.mul_f64(random) }
}

/// Whether the same request may be answered another time. What the provider
/// itself says of that counts for more than its status.
fn may_work_again(error: &ModelError) -> bool {
    match error.kind {
        // It would be just as long.
        ModelErrorKind::Overflow => false,
        ModelErrorKind::Authentication | ModelErrorKind::Request => {
            error.should_retry == Some(true)
        }
        ModelErrorKind::RateLimited
        | ModelErrorKind::Overloaded
        | ModelErrorKind::Connection
        | ModelErrorKind::Unreachable
        | ModelErrorKind::NotRunning
        | ModelErrorKind::Cut
        | ModelErrorKind::Unusable
        | ModelErrorKind::Empty
        | ModelErrorKind::Silent => error.should_retry != Some(false),
    }
}

fn is_overload(error: &ModelError) -> bool {
    match error.kind {
        ModelErrorKind::RateLimited | ModelErrorKind::Overloaded => true,
        ModelErrorKind::Authentication
        | ModelErrorKind::Request
        | ModelErrorKind::Overflow
        | ModelErrorKind::Connection
        | ModelErrorKind::Unreachable
        | ModelErrorKind::NotRunning
        | ModelErrorKind::Cut
        | ModelErrorKind::Unusable
        | ModelErrorKind::Empty
        | ModelErrorKind::Silent => false,
    }
}

fn is_unusable(error: &ModelError) -> bool {
    matches!(error.kind, ModelErrorKind::Unusable | ModelErrorKind::Empty)
}

/// Of the two statuses of its kind, 403 is about what a key may do, and stays so.
fn is_unauthorised(error: &ModelError) -> bool {
    error.kind == ModelErrorKind::Authentication && error.status == Some(401)
}

/// Whole minutes, rounded up: nobody waits for the seconds.
fn in_words(time: Duration) -> String {
    let minutes = time.as_secs().div_ceil(60);
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// Numbers that spread retries out: the same in every run with the same seed,
/// and others for each unit.
///
/// The generator is splitmix64 (Steele, Lea and Flood, 2014).
#[derive(Debug, Clone)]
pub struct Jitter(u64);

impl Jitter {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the numbers of one unit.
    #[must_use]
    pub fn of(&self, unit: u64) -> Self {
        Self(mixed(self.0 ^ mixed(unit)))
    }

    /// Draws the next number, at least 0 and below 1.
    pub fn draw(&mut self) -> f64 {
        /// The bits that a float between 1 and 2 has behind its point.
        const FRACTION_BITS: u32 = 52;
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let fraction = mixed(self.0) >> (64 - FRACTION_BITS);
        f64::from_bits(1f64.to_bits() | fraction) - 1.0
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ModelErrorKind::{
        Authentication, Connection, Cut, Overflow, Overloaded, RateLimited, Request, Silent,
        Unreachable, Unusable,
    };

    const AFRESH: Tried =
        Tried { retries: 0, overloads: 0, unusable: 0, unreachable: 0, key_was_refused: false };
    const HALF_A_SECOND: Decision = Decision::Again { after: Duration::from_millis(500) };
    const HOPELESS: Decision = Decision::GiveUp(Why::Hopeless);

    fn error(kind: ModelErrorKind) -> ModelError {
        ModelError::new(kind, "it went wrong")
    }

    fn of_status(status: u16) -> ModelError {
        ModelError { status: Some(status), ..error(ModelErrorKind::of_status(status)) }
    }

    fn with_floor(seconds: u64) -> ModelError {
        ModelError { retry_after: Some(Duration::from_secs(seconds)), ..of_status(429) }
    }

    fn saying(should_retry: bool, error: ModelError) -> ModelError {
        ModelError { should_retry: Some(should_retry), ..error }
    }

    fn tried(retries: u32, overloads: u32) -> Tried {
        Tried { retries, overloads, ..AFRESH }
    }

    /// Decides with the largest jitter there is, and no other model.
    #[track_caller]
    fn check(error: &ModelError, tried: Tried, expected: Decision) {
        assert_eq!(decide(error, tried, Policy::default(), false, 1.0), expected, "{error:?}");
    }

    #[track_caller]
    fn check_with_fallback(error: &ModelError, tried: Tried, expected: Decision) {
        assert_eq!(decide(error, tried, Policy::default(), true, 1.0), expected, "{error:?}");
    }

    #[test]
    fn the_status_decides_what_is_asked_again() {
        for status in [408, 409, 425, 429, 500, 502, 503, 504, 529] {
            check(&of_status(status), AFRESH, HALF_A_SECOND);
        }
        for status in [400, 403, 404, 413, 422] {
            check(&of_status(status), AFRESH, HOPELESS);
        }
        check(&of_status(401), AFRESH, Decision::Again { after: Duration::ZERO });
    }

    #[test]
    fn so_does_the_sort_of_error_without_one() {
        for kind in [RateLimited, Overloaded, Connection, Cut, Silent, Unusable] {
            check(&error(kind), AFRESH, HALF_A_SECOND);
        }
        for kind in [Authentication, Request, Overflow] {
            check(&error(kind), AFRESH, HOPELESS);
        }
    }

    #[test]
    fn what_the_provider_says_counts_for_more_than_the_status() {
        check(&saying(true, of_status(400)), AFRESH, HALF_A_SECOND);
        check(&saying(true, of_status(403)), AFRESH, HALF_A_SECOND);
        for status in [401, 429, 500, 503] {
            check(&saying(false, of_status(status)), AFRESH, HOPELESS);
        }
        // It would be just as long.
        check(&saying(true, error(Overflow)), AFRESH, HOPELESS);
    }

    #[test]
    fn a_refused_key_is_tried_once_more() {
        let again = AFRESH.and(&of_status(401));
        assert_eq!(again, Tried { retries: 1, key_was_refused: true, ..AFRESH });
        check(&of_status(401), again, HOPELESS);
        check_with_fallback(&of_status(401), again, HOPELESS);
    }

    #[test]
    fn waits_double_up_to_the_cap_and_end() {
        let mut so_far = AFRESH;
        let mut waits = Vec::new();
        let error = error(Connection);
        while let Decision::Again { after } = decide(&error, so_far, Policy::default(), false, 1.0)
        {
            waits.push(after.as_millis());
            so_far = so_far.and(&error);
        }
        let all = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000, 32_000, 32_000];
        assert_eq!(waits, all);
        check(&error, so_far, Decision::GiveUp(Why::TriedOut { retries: 10 }));
        check_with_fallback(&error, so_far, Decision::NextModel);
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_tried_three_times_in_a_row() {
        // What else went wrong before does not count.
        let mut so_far = AFRESH.and(&error(Cut)).and(&error(Unreachable)).and(&of_status(429));
        let error = error(Unreachable);
        let mut waits = Vec::new();
        while let Decision::Again { after } = decide(&error, so_far, Policy::default(), false, 0.0)
        {
            waits.push(after.as_secs());
            so_far = so_far.and(&error);
        }
        assert_eq!(waits, [4, 8]);
        check(&error, so_far, Decision::GiveUp(Why::TriedOut { retries: 5 }));
        check_with_fallback(&error, so_far, Decision::NextModel);
        let never = Policy { most: 0, ..Policy::default() };
        let given_up = Decision::GiveUp(Why::TriedOut { retries: 0 });
        assert_eq!(decide(&error, AFRESH, never, false, 0.0), given_up);
    }

    #[test]
    fn an_answer_that_cannot_be_used_is_asked_for_twice_more() {
        // What else went wrong before does not count.
        let mut so_far = AFRESH.and(&error(Cut)).and(&of_status(429)).and(&of_status(503));
        let error = error(Unusable);
        for _ in 0..MOST_UNUSABLE {
            assert!(matches!(
                decide(&error, so_far, Policy::default(), false, 0.0),
                Decision::Again { .. }
            ));
            so_far = so_far.and(&error);
        }
        check(&error, so_far, Decision::GiveUp(Why::TriedOut { retries: 5 }));
        check_with_fallback(&error, so_far, Decision::NextModel);
        let never = Policy { most: 0, ..Policy::default() };
        let given_up = Decision::GiveUp(Why::TriedOut { retries: 0 });
        assert_eq!(decide(&error, AFRESH, never, false, 0.0), given_up);
    }

    #[test]
    fn jitter_goes_from_the_floor_up() {
        let wait = |random| decide(&with_floor(20), tried(2, 0), Policy::default(), false, random);
        let again = |millis| Decision::Again { after: Duration::from_millis(millis) };
        assert_eq!(wait(0.0), again(20_000));
        assert_eq!(wait(0.5), again(21_000));
        assert_eq!(decide(&of_status(503), tried(2, 0), Policy::default(), false, 0.0), again(0));
    }

    #[test]
    fn a_floor_above_ten_minutes_is_not_waited_for() {
        check(&with_floor(600), AFRESH, Decision::Again { after: Duration::from_millis(600_500) });
        let after = Duration::from_secs(601);
        check(&with_floor(601), AFRESH, Decision::GiveUp(Why::TooLate { after }));
        check(&saying(true, with_floor(601)), AFRESH, Decision::GiveUp(Why::TooLate { after }));
        check_with_fallback(&with_floor(601), AFRESH, Decision::NextModel);
    }

    #[test]
    fn the_third_overload_in_a_row_goes_to_the_next_model() {
        let mut so_far = AFRESH;
        for status in [503, 429] {
            assert!(matches!(
                decide(&of_status(status), so_far, Policy::default(), true, 0.0),
                Decision::Again { .. }
            ));
            so_far = so_far.and(&of_status(status));
        }
        check_with_fallback(&of_status(529), so_far, Decision::NextModel);
        check(&of_status(529), so_far, Decision::Again { after: Duration::from_secs(2) });
        // A break in between is another sort of trouble.
        let so_far = so_far.and(&error(Cut));
        assert_eq!(so_far, tried(3, 0));
        assert!(matches!(
            decide(&of_status(529), so_far, Policy::default(), true, 0.0),
            Decision::Again { .. }
        ));
        check_with_fallback(&error(Cut), tried(5, 5), Decision::Again { after: BASE * 32 });
    }

    #[test]
    fn an_overload_that_wants_no_retry_goes_to_the_next_model_and_a_mistake_to_none() {
        check_with_fallback(&saying(false, of_status(529)), AFRESH, Decision::NextModel);
        for status in [400, 403, 404] {
            check_with_fallback(&of_status(status), AFRESH, HOPELESS);
        }
        check_with_fallback(&error(Overflow), AFRESH, HOPELESS);
    }

    #[test]
    fn the_last_error_says_why_it_is_the_last() {
        let told = |why: Why| why.told(error(RateLimited)).message;
        let too_late = |seconds| Why::TooLate { after: Duration::from_secs(seconds) };
        assert_eq!(told(Why::Hopeless), "it went wrong");
        assert_eq!(told(Why::TriedOut { retries: 10 }), "it went wrong (after 10 retries)");
        assert_eq!(told(too_late(601)), "it went wrong (it may work again in 11 min)");
        assert_eq!(told(too_late(7_200)), "it went wrong (it may work again in 2 h)");
        assert_eq!(told(too_late(86_000)), "it went wrong (it may work again in 23 h 54 min)");
    }

    #[test]
    fn jitter_is_the_same_for_a_seed_and_another_for_each_unit() {
        let draws = |seed, unit| {
            let mut jitter = Jitter::new(seed).of(unit);
            [(); 3].map(|()| (jitter.draw() * 1_000.0).floor())
        };
        assert_eq!(draws(1, 1), draws(1, 1));
        assert_ne!(draws(1, 1), draws(1, 2));
        assert_ne!(draws(1, 1), draws(2, 1));
        let mut counts = [0; 10];
        let mut jitter = Jitter::new(7).of(7);
        for _ in 0..10_000 {
            let draw = jitter.draw();
            assert!((0.0..1.0).contains(&draw));
            let tenth = Duration::from_secs(10).mul_f64(draw).as_secs();
            counts[usize::try_from(tenth).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }
}
