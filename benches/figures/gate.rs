//! What the gate costs a request that need not wait: library code, timed in
//! this process.

use std::hint::black_box;
use std::num::{NonZeroU32, NonZeroUsize};

use futures_util::FutureExt as _;
use tine::model::gate::{Entry, Gate, Lane, Quota};

use crate::clock;
use crate::measure::median_of;
use crate::table::{Figure, Unit};

/// How many requests pass in a round.
const PASSES: u32 = 100_000;

/// How often each figure is measured.
const ROUNDS: usize = 11;

/// From asking to enter to having told of the answer, one after the other.
pub(crate) fn gate() -> Vec<Figure> {
    let open = Gate::new(None).lane(Quota::default());
    // More than a minute's passes, so that nothing ever waits.
    let quota = Quota {
        requests_per_minute: Some(NonZeroU32::MAX),
        tokens_per_minute: Some(NonZeroU32::MAX),
    };
    let counted = Gate::new(NonZeroUsize::new(8)).lane(quota);
    let passes = |name: &str, lane| {
        let name = format!("a pass that need not wait, {name}");
        Figure::new(name, time_of_pass(&lane), 20.0, Unit::Micros)
    };
    vec![passes("nothing configured", open), passes("both quotas and a most in flight", counted)]
}

/// Returns the microseconds of one pass.
fn time_of_pass(lane: &Lane) -> f64 {
    median_of(ROUNDS, |_| {
        let started = clock::now();
        for _ in 0..PASSES {
            match black_box(lane).ask(black_box(100)).now_or_never() {
                Some(Entry::Passed(pass)) => pass.answered(black_box(80)),
                Some(Entry::Held(_) | Entry::Shut(_)) | None => {
                    panic!("nothing stands before it")
                }
            }
        }
        let took = clock::now() - started;
        took.as_secs_f64() * 1e6 / f64::from(PASSES)
    })
}
