//! The pause that a provider asks for when it refuses a request.
//!
//! A provider that takes four requests at once refuses the fifth with the same words as
//! one that takes ten in a minute. If other requests are in flight, the refusal pauses the
//! gate only until one of them is answered: the limit stays where it was, and only requests
//! beyond it wait for the named time. If the provider refuses a request that passes after
//! such an answer and before the named time, it counts all requests. For some minutes no
//! answer ends a pause then.

use std::time::Duration;

use tokio::time::Instant;

/// Time for which no answer ends a pause, after a provider has shown that it counts all
/// requests. It spans several windows of a provider that counts in windows; after it, a
/// wrong guess costs one more refusal.
const ABOUT_ALL: Duration = Duration::from_secs(5 * 60);

/// A refusal that names a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedTime {
    /// The moment from which the provider takes requests again.
    pub(super) until: Instant,
    /// The moment at which the refused request was sent.
    pub(super) passed_at: Instant,
    /// `true` if no other request was in flight.
    pub(super) is_alone: bool,
}

/// The pause of a gate.
#[derive(Debug, Default)]
pub(super) struct Pause {
    /// The end of the pause.
    not_before: Option<Instant>,
    /// `true` if the answer to a request in flight ends it early.
    ends_with_answer: bool,
    /// The last pause that an answer ended: when, and when it would have ended otherwise.
    ended: Option<(Instant, Instant)>,
    /// The moment before which no answer ends a pause.
    about_all: Option<Instant>,
}

impl Pause {
    /// Returns the end of the pause; `None` if there is none now.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|until| *until > now)
    }

    /// Pauses until then, whatever is answered.
    pub(super) fn hold(&mut self, until: Instant) {
        self.not_before = self.not_before.max(Some(until));
        self.ends_with_answer = false;
    }

    /// Pauses because a request was refused. Returns whether the refusal may be about the
    /// limit of requests in flight.
    pub(super) fn refused(&mut self, named: NamedTime, now: Instant) -> bool {
        let NamedTime { mut until, passed_at, is_alone } = named;
        let ended = self.ended.filter(|&(from, to)| from <= passed_at && passed_at < to);
        if let Some((_, to)) = ended {
            self.ended = None;
            self.about_all = Some(now + ABOUT_ALL);
            until = until.max(to);
        }
        let is_about_all = self.about_all.is_some_and(|end| now < end);
        let is_about_limit = !is_alone && !is_about_all;
        let was_open = self.until(now).is_none();
        self.ends_with_answer = is_about_limit && (was_open || self.ends_with_answer);
        self.not_before = self.not_before.max(Some(until));
        is_about_limit
    }

    /// Ends the pause early if the answer to a request may do so.
    pub(super) fn answered(&mut self, now: Instant) {
        if let Some(until) = self.until(now).filter(|_| self.ends_with_answer) {
            self.ended = Some((now, until));
            self.not_before = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event, a tenth of a second after the one before.
    #[derive(Clone, Copy)]
    enum Step {
        /// Refused beside others, with so many seconds named, sent so many tenths ago.
        Refused(u64, u64),
        /// Refused alone.
        Alone(u64),
        /// Failed with so many seconds named.
        Failed(u64),
        Answered,
        Seconds(u64),
    }
    use Step::{Alone, Answered, Failed, Refused, Seconds};

    const TENTH: Duration = Duration::from_millis(100);

    /// Checks after each step how long the pause still is, in tenths of a second.
    #[track_caller]
    fn check(steps: &[(Step, u128)]) {
        let mut pause = Pause::default();
        let mut now = Instant::now() + Duration::from_secs(3_600);
        for (index, (step, expected)) in steps.iter().enumerate() {
            now += TENTH;
            let in_seconds = |seconds| now + Duration::from_secs(seconds);
            match *step {
                Refused(seconds, ago) => {
                    let passed_at = now - TENTH * u32::try_from(ago).unwrap();
                    let until = in_seconds(seconds);
                    pause.refused(NamedTime { until, passed_at, is_alone: false }, now);
                }
                Alone(seconds) => {
                    let until = in_seconds(seconds);
                    let named = NamedTime { until, passed_at: now, is_alone: true };
                    assert!(!pause.refused(named, now));
                }
                Failed(seconds) => pause.hold(in_seconds(seconds)),
                Answered => pause.answered(now),
                Seconds(seconds) => now += Duration::from_secs(seconds),
            }
            let left = pause.until(now).map_or(0, |until| (until - now).as_millis() / 100);
            assert_eq!(left, *expected, "after step {index}");
        }
    }

    #[test]
    fn an_answer_ends_the_pause_of_a_refusal_beside_others() {
        check(&[(Refused(5, 1), 50), (Answered, 0), (Refused(5, 9), 50), (Answered, 0)]);
    }

    #[test]
    fn without_an_answer_it_lasts() {
        check(&[(Refused(5, 1), 50), (Seconds(3), 19), (Refused(1, 50), 18), (Seconds(1), 7)]);
    }

    #[test]
    fn nothing_ends_the_pause_of_a_refusal_alone_or_of_a_failure() {
        check(&[(Alone(5), 50), (Answered, 49)]);
        check(&[(Failed(5), 50), (Answered, 49)]);
        check(&[(Refused(9, 1), 90), (Failed(5), 89), (Answered, 88)]);
        check(&[(Failed(5), 50), (Refused(9, 1), 90), (Answered, 89)]);
        check(&[(Alone(1), 10), (Seconds(2), 0), (Refused(5, 1), 50), (Answered, 0)]);
    }

    #[test]
    fn a_refusal_within_a_time_that_an_answer_ended_means_all_requests() {
        check(&[(Refused(5, 1), 50), (Answered, 0), (Refused(2, 1), 48), (Answered, 47)]);
        let again = [(Seconds(10), 0), (Refused(5, 1), 50), (Answered, 49)];
        check(&[&[(Refused(5, 1), 50), (Answered, 0), (Refused(5, 1), 50)], &again[..]].concat());
    }

    #[test]
    fn for_some_minutes() {
        check(&[
            (Refused(5, 1), 50),
            (Answered, 0),
            (Refused(5, 1), 50),
            (Seconds(400), 0),
            (Refused(5, 1), 50),
            (Answered, 0),
        ]);
    }

    #[test]
    fn a_refusal_after_the_time_says_nothing_of_it() {
        check(&[
            (Refused(1, 1), 10),
            (Answered, 0),
            (Seconds(2), 0),
            (Refused(5, 1), 50),
            (Answered, 0),
        ]);
    }
}
