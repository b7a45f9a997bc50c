//! The words people read: durations, tokens, money, states, ends.
//!
//! Everything these functions return is safe for a terminal and bounded: text
//! that came from a model, a tool or a file has gone through
//! [`super::sanitise`] before it is cut.

mod asking;
mod change;
mod guarding;
mod hooking;
mod losing;
mod offered;
mod steering;

use std::borrow::Cow;
use std::slice;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use unicode_width::UnicodeWidthChar as _;

use crate::event::{
    AfterFailure, CancelReason, Compaction, ForkShare, InvocationEnd, NoticeLevel, Outcome,
    PrefixShare, RequestFailed, ThrottleCause, Throttled, UnitEnd, UnitHead, UnitId, UnitState,
    UnixMillis,
};
use crate::message::{Cost, Image, Prompt, Usage, Usd, byte_size, counted, short_number};
use crate::tool_name::SANDBOX_NETWORK;

use super::result::Ending;
use super::row::columns_of;
use super::sanitise;
use super::units::{Counts, HoldCause};

pub use asking::{
    AskedPart, AskedRow, Room, asked, asked_in, asked_whole, field_keys, field_offers, form_in,
    next_field, shows_what_lasts,
};
use guarding::denied_in_all;
pub use guarding::{answered, confined, file_changed, is_told_alone, question, started, worktree};
pub use hooking::{hook, hook_ran};
pub use losing::{lost, waits_again};
pub use offered::offered;
pub use steering::{TOOK_BACK, chosen, rewound, set_aside, walked};

/// Most characters of a unit's name. A description may be a sentence, and it
/// stands in front of each of the unit's lines.
const NAME_CAP: usize = 40;

/// Most characters of what a call is about: two lines of a usual terminal.
const SUBJECT_CAP: usize = 160;

/// Most characters of a sentence in a list of lines.
const SENTENCE_CAP: usize = 300;

/// Most characters of the error a run ends in. Providers answer with whole
/// HTML pages; the beginning says what is wrong.
const ERROR_CAP: usize = 2_000;

/// Most names in a list of them; the rest are counted.
const NAMED: usize = 8;

/// Returns a duration as people say it: `40 ms`, `3.2 s`, `1m 05s`, `2h 03m`.
#[must_use]
pub fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        60_000.. => clock(milliseconds / 1_000),
    }
}

/// Returns how long something will take, to the second and not too short:
/// `400 ms`, `12 s`, `1m 05s`.
#[must_use]
pub fn wait(milliseconds: u64) -> String {
    let seconds = milliseconds.div_ceil(1_000);
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000.. if seconds < 60 => format!("{seconds} s"),
        1_000.. => clock(seconds),
    }
}

/// Returns a running time in whole seconds, as it counts up on a screen.
#[must_use]
pub fn elapsed(milliseconds: u64) -> String {
    let seconds = milliseconds / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60.. => clock(seconds),
    }
}

/// Returns the day and the minute of a time, in UTC; nothing for one that no
/// calendar has.
#[must_use]
pub fn utc_time(at: UnixMillis) -> String {
    moment(at, TimeZone::UTC, "%Y-%m-%d %H:%M UTC")
}

/// Returns a time as programs read it; nothing for one that no calendar has.
#[must_use]
pub fn iso_time(at: UnixMillis) -> String {
    moment(at, TimeZone::UTC, "%Y-%m-%dT%H:%M:%S.%3fZ")
}

/// The same on the clock of a place, which the text does not name.
#[must_use]
pub fn local_time(at: UnixMillis, zone: TimeZone) -> String {
    moment(at, zone, "%Y-%m-%d %H:%M")
}

/// Returns the first names of a list, and how many more there are.
///
/// The names are safe for a terminal already.
#[must_use]
pub(super) fn named(names: impl ExactSizeIterator<Item = String>) -> String {
    let rest = names.len().saturating_sub(NAMED);
    let named = names.take(NAMED).collect::<Vec<_>>().join(", ");
    if rest == 0 { named } else { format!("{named} and {rest} more") }
}

/// Returns a number of tokens: `812 tokens`, `1.2k tokens`.
#[must_use]
pub fn tokens(count: u64) -> String {
    match count {
        1 => "1 token".to_owned(),
        _ => format!("{} tokens", short_number(count)),
    }
}

/// Returns what images there are: `image/png 120 kB`.
#[must_use]
pub(super) fn images(images: &[Image]) -> String {
    let image = |image: &Image| format!("{} {}", image.kind.media_type(), byte_size(image.bytes()));
    named(images.iter().map(image))
}

/// Returns a prompt, with the name of each image in its place.
#[must_use]
pub fn prompt(prompt: &Prompt) -> String {
    prompt.text_with(|image| format!("({})", images(slice::from_ref(image))))
}

/// Returns tokens, and how many of them were read from a cache.
#[must_use]
pub fn usage(usage: Usage) -> String {
    let total = tokens(usage.total());
    match usage.cache_read {
        0 => total,
        cached => format!("{total} ({} from the cache)", short_number(cached)),
    }
}

/// Returns what something cost as far as it is known: `$0.42`, `at least
/// $0.42`; `None` if nothing of it is known, or if it cost nothing.
#[must_use]
pub fn cost(cost: Cost) -> Option<String> {
    match cost {
        Cost { usd: Usd(0), is_partial: _ } => None,
        Cost { usd, is_partial: true } => Some(format!("at least {usd}")),
        Cost { usd, is_partial: false } => Some(usd.to_string()),
    }
}

/// Returns how often a request was made again; `None` if none was.
#[must_use]
pub fn retries(count: u64) -> Option<String> {
    (count > 0).then(|| counted(count, "retry"))
}

/// Returns a number of agents: `1 agent`, `5 agents`.
#[must_use]
pub fn agents(count: u64) -> String {
    counted(count, "agent")
}

/// Returns a state in one or two words.
#[must_use]
pub fn state(state: UnitState) -> &'static str {
    match state {
        UnitState::Queued => "queued",
        UnitState::Running => "running",
        UnitState::Throttled => "throttled",
        UnitState::AwaitingApproval => "awaiting approval",
        UnitState::Completed => "done",
        UnitState::Failed => "failed",
        UnitState::Cancelled => "cancelled",
        UnitState::Skipped => "never started",
        UnitState::Interrupted => "cut off",
    }
}

/// Returns what a request waits for in the gate.
#[must_use]
pub fn throttled(throttled: &Throttled) -> String {
    let Throttled { model, cause, wait_ms } = throttled;
    let model = short_line(model, NAME_CAP);
    format!(
        "{}: {} (`{model}`)",
        state(UnitState::Throttled),
        hold(HoldCause::Gate(*cause), *wait_ms)
    )
}

/// Returns why a request does not go out yet, and how long, in milliseconds.
#[must_use]
pub fn hold(cause: HoldCause, wait_ms: Option<u64>) -> String {
    let (why, between) = match cause {
        HoldCause::Gate(ThrottleCause::InFlight) => ("waits for other requests".into(), " for "),
        HoldCause::Gate(ThrottleCause::Provider) => ("provider asked to wait".into(), " "),
        HoldCause::Gate(ThrottleCause::Requests) => {
            ("requests per minute are used up".into(), " for ")
        }
        HoldCause::Gate(ThrottleCause::Tokens) => ("tokens per minute are used up".into(), " for "),
        HoldCause::Retry { retry, most } => (format!("retry {retry} of {most}"), " in "),
    };
    match wait_ms {
        Some(left) => format!("{why}{between}{}", wait(left)),
        None => why,
    }
}

/// Returns what went wrong with a request and what comes of it.
#[must_use]
pub fn request_failed(failed: &RequestFailed) -> String {
    let RequestFailed { model, attempt, message, next, .. } = failed;
    let next = match next {
        AfterFailure::Retry { delay_ms, most } => {
            let cause = HoldCause::Retry { retry: *attempt, most: *most };
            hold(cause, Some(*delay_ms))
        }
        AfterFailure::Fallback { model } => {
            format!("goes on with `{}`", short_line(model, NAME_CAP))
        }
        AfterFailure::Compact => "the conversation is compacted".to_owned(),
        AfterFailure::LeaveOut => {
            "the unanswered messages before the last one are left out".to_owned()
        }
        AfterFailure::TooLong | AfterFailure::Nothing => {
            format!("given up after {}", counted(*attempt, "attempt"))
        }
    };
    let model = short_line(model, NAME_CAP);
    format!("request to `{model}` failed: {}; {next}", short_line(message, SENTENCE_CAP))
}

/// Returns how long a request waited before it went out.
#[must_use]
pub fn admitted(waited_ms: u64) -> String {
    format!("request waited {}", duration(waited_ms))
}

/// Returns how many lines were not shown.
#[must_use]
pub(super) fn lines_left_out(count: u32) -> String {
    format!("{} left out while a question was open", counted(count, "line"))
}

/// Returns what people call a unit: its description, or its id if it has none.
#[must_use]
pub fn unit_name(unit: UnitId, head: &UnitHead) -> String {
    match head.description.trim() {
        "" => unit.to_string(),
        description => short_line(description, NAME_CAP),
    }
}

/// Returns a call in a few words: the tool and what it is about.
#[must_use]
pub fn call(tool: &str, subject: &str) -> String {
    let tool = match tool {
        SANDBOX_NETWORK => "connection to".to_owned(),
        tool => short_line(tool, NAME_CAP),
    };
    match subject.trim() {
        "" => tool,
        subject => format!("{tool} {}", short_line(subject, SUBJECT_CAP)),
    }
}

/// Returns a refused call and why it was refused.
#[must_use]
pub fn denied(tool: &str, reason: &str) -> String {
    format!("denied {}: {}", short_line(tool, NAME_CAP), short_line(reason, SENTENCE_CAP))
}

/// Returns a notice with a word for its level.
#[must_use]
pub fn notice(level: NoticeLevel, text: &str) -> String {
    let level = match level {
        NoticeLevel::Info => "note",
        NoticeLevel::Warning => "warning",
    };
    format!("{level}: {}", short_line(text, SENTENCE_CAP))
}

/// Returns the end of a unit in one line, without its name.
#[must_use]
pub fn unit_end(end: &UnitEnd) -> String {
    match &end.outcome {
        Outcome::Done { text: _ } => {
            let (took, tokens) = (duration(end.duration_ms), tokens(end.usage.total()));
            let cost = cost(end.usage.cost).map(|cost| format!(", {cost}")).unwrap_or_default();
            format!("done in {took}, {tokens}{cost}{}", share(end.share))
        }
        Outcome::Failed(failure) => {
            format!("failed: {}", short_line(&failure.message, SENTENCE_CAP))
        }
        Outcome::Cancelled { ran: true } => state(UnitState::Cancelled).to_owned(),
        Outcome::Cancelled { ran: false } => state(UnitState::Skipped).to_owned(),
        Outcome::Interrupted => state(UnitState::Interrupted).to_owned(),
    }
}

/// Returns how much of a fork's first request its parent had sent before.
fn share(share: Option<ForkShare>) -> String {
    let Some(ForkShare { prefix, cached_tokens }) = share else {
        return String::new();
    };
    let PrefixShare { shared_bytes, total_bytes } = prefix;
    let [shared, total, cached] = [shared_bytes, total_bytes, cached_tokens].map(short_number);
    format!(", shared {shared} of {total} bytes, {cached} tokens from the cache")
}

/// Returns what a compaction did.
#[must_use]
pub fn compaction(compaction: &Compaction) -> String {
    let (before, after) = (compaction.tokens_before, compaction.tokens_after);
    format!("compacted from {} to about {}", tokens(before), tokens(after))
}

/// Returns why a run was cancelled.
#[must_use]
pub fn cancel(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Interrupt => "interrupted",
        CancelReason::OutputGone => "cancelled because nobody reads the output any more",
        CancelReason::Hangup => "cancelled because the terminal went away",
        CancelReason::Terminate => "cancelled because the process was told to end",
    }
}

/// Returns what went wrong with an invocation, or `None` if nothing did. This
/// is as it was said, not yet safe for a terminal.
#[must_use]
pub fn invocation_error(end: &InvocationEnd) -> Option<Cow<'_, str>> {
    match (&end.outcome, end.cancel) {
        (Outcome::Done { text: _ }, _) => None,
        (Outcome::Failed(failure), _) => Some(Cow::Borrowed(&failure.message)),
        (Outcome::Cancelled { ran: _ }, Some(reason)) => Some(Cow::Borrowed(cancel(reason))),
        (Outcome::Cancelled { ran: _ }, None) => Some(Cow::Borrowed("cancelled")),
        (Outcome::Interrupted, _) => Some(Cow::Borrowed("the process ended while it ran")),
    }
}

/// Returns the lines that stand below the answer: what it took, what did not
/// finish, what went wrong.
#[must_use]
pub fn closing_lines(end: &InvocationEnd, counts: Counts, ending: &Ending) -> Vec<String> {
    let unfinished = (!end.unfinished.is_empty()).then(|| unfinished(&end.unfinished));
    let error = invocation_error(end)
        .map(|error| format!("error: {}", short(&sanitise::text(&error), ERROR_CAP)));
    let stopped = end.cancel.and_then(|_| stopped(counts));
    let denied = denied_in_all(ending);
    let lines = spent(ending, counts).into_iter().chain(stopped).chain(denied);
    lines.chain(unfinished).chain(error).collect()
}

/// Returns what an invocation took: retries, waiting, tokens, money; `None` if
/// there is nothing to tell but the tokens of one smooth conversation.
fn spent(ending: &Ending, counts: Counts) -> Option<String> {
    let total = ending.total();
    let is_smooth = ending.waited_ms == 0 && ending.retries == 0;
    if is_smooth && cost(total.cost).is_none() && counts == Counts::default() {
        return None;
    }
    taken(ending)
}

/// Returns what an invocation took, and what was denied in it.
#[must_use]
pub fn taken_lines(ending: &Ending) -> Vec<String> {
    taken(ending).into_iter().chain(denied_in_all(ending)).collect()
}

fn taken(ending: &Ending) -> Option<String> {
    let total = ending.total();
    let waited = (ending.waited_ms > 0)
        .then(|| format!("requests waited {} in all", duration(ending.waited_ms)));
    let tokens = (total.total() > 0).then(|| usage(total));
    let parts: Vec<String> =
        [tokens, cost(total.cost), retries(ending.retries), waited].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Accounts for the units that a cancel has stopped; `None` if there are none.
fn stopped(counts: Counts) -> Option<String> {
    let Counts { completed, failed, cancelled, skipped, interrupted, .. } = counts;
    let parts: Vec<String> = [
        (completed, UnitState::Completed),
        (failed, UnitState::Failed),
        (cancelled, UnitState::Cancelled),
        (skipped, UnitState::Skipped),
        (interrupted, UnitState::Interrupted),
    ]
    .into_iter()
    .filter(|&(count, _)| count > 0)
    .map(|(count, ended)| format!("{count} {}", state(ended)))
    .collect();
    (cancelled + skipped > 0).then(|| format!("agents: {}", parts.join(", ")))
}

/// Returns `text` as one safe line of at most `cap` columns of a terminal.
#[must_use]
pub(super) fn in_columns(text: &str, cap: usize) -> String {
    let line = short_line(text, cap);
    if columns_of(&line) <= cap {
        return line;
    }
    let mut cut = String::new();
    for character in line.chars() {
        // One column is for the mark at the end.
        if columns_of(&cut) + character.width().unwrap_or(0) >= cap {
            break;
        }
        cut.push(character);
    }
    cut.push('…');
    cut
}

/// Returns a safe line with spaces behind it, up to so many columns.
#[must_use]
pub(super) fn padded(line: &str, columns: usize) -> String {
    format!("{line}{}", " ".repeat(columns.saturating_sub(columns_of(line))))
}

/// Returns `text` as one safe line of at most `cap` characters.
#[must_use]
pub fn short_line(text: &str, cap: usize) -> String {
    short(&sanitise::line(text), cap).into_owned()
}

fn unfinished(units: &[UnitId]) -> String {
    let named = named(units.iter().map(ToString::to_string));
    format!("warning: {} did not finish: {named}", agents(units.len() as u64))
}

fn moment(at: UnixMillis, zone: TimeZone, form: &str) -> String {
    let at = i64::try_from(at.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    at.map_or_else(String::new, |at| at.to_zoned(zone).strftime(form).to_string())
}

fn short(text: &str, cap: usize) -> Cow<'_, str> {
    // The last character gives way to the mark, so the cap holds.
    match text.char_indices().nth(cap) {
        None => Cow::Borrowed(text),
        Some(_) => {
            let kept: String = text.chars().take(cap.saturating_sub(1)).collect();
            Cow::Owned(format!("{}…", kept.trim_end()))
        }
    }
}

fn clock(seconds: u64) -> String {
    match seconds {
        0..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600.. => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::report::result::Tally;
    use crate::report::story::{Story, done, paid, usage as usage_of};

    #[test]
    fn a_time_is_told_in_utc_or_on_the_clock_of_a_place() {
        let at = UnixMillis(1_700_000_000_000);
        assert_eq!(utc_time(at), "2023-11-14 22:13 UTC");
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(local_time(at, east), "2023-11-15 00:13");
        assert_eq!(utc_time(UnixMillis(u64::MAX)), "");
    }

    #[test]
    fn of_a_long_list_the_first_are_named_and_the_rest_counted() {
        let names = |count: usize| named((0..count).map(|number| number.to_string()));
        assert_eq!(names(8), "0, 1, 2, 3, 4, 5, 6, 7");
        assert_eq!(names(10), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }

    #[test]
    fn durations_are_read_at_a_glance() {
        let all = [0, 99, 3_250, 59_999, 60_000, 65_400, 3_599_999, 7_380_000];
        assert_eq!(
            all.map(duration),
            ["0 ms", "99 ms", "3.2 s", "59.9 s", "1m 00s", "1m 05s", "59m 59s", "2h 03m"]
        );
        assert_eq!([0, 4_999, 65_000].map(elapsed), ["0s", "4s", "1m 05s"]);
    }

    #[test]
    fn tokens_are_cut_and_never_rounded_up() {
        let all = [0, 1, 999, 1_000, 1_299, 99_999, 100_000, 999_999, 1_250_000];
        assert_eq!(
            all.map(tokens),
            [
                "0 tokens",
                "1 token",
                "999 tokens",
                "1.0k tokens",
                "1.2k tokens",
                "99.9k tokens",
                "100k tokens",
                "999k tokens",
                "1.2M tokens"
            ]
        );
    }

    #[test]
    fn a_long_line_is_cut_at_its_cap_with_a_mark() {
        assert_eq!(short_line("abcdef", 6), "abcdef");
        assert_eq!(short_line("abcdefg", 6), "abcde…");
        assert_eq!(short_line("abcd efg", 6), "abcd…");
        assert_eq!(short_line("äöüäöü", 3), "äö…");
    }

    /// The ending of an invocation that took nothing.
    fn ending() -> Ending {
        let mut story = Story::new();
        story.over(done("x"), "x");
        Tally::default().take(&story.events()[0]).expect("it is its last event")
    }

    #[test]
    fn what_an_invocation_took_is_told_as_far_as_it_is_known() {
        let one_agent = Counts { completed: 1, ..Counts::default() };
        let check = |usage: Usage, (retries, waited_ms), expected: Option<&str>| {
            let models = [("m".into(), usage)].into();
            let ending = Ending { models, retries, waited_ms, ..ending() };
            assert_eq!(spent(&ending, one_agent).as_deref(), expected);
        };
        let alone = Ending { models: [("m".into(), usage_of(900, 30))].into(), ..ending() };
        assert_eq!(spent(&alone, Counts::default()), None);
        let cached = Usage { cache_read: 96_000, ..paid(23_000, 1_000, 42) };
        let cost = |cents: u64, is_partial| Cost { usd: paid(0, 0, cents).cost.usd, is_partial };
        check(usage_of(0, 0), (0, 0), None);
        check(usage_of(900, 30), (0, 0), Some("930 tokens"));
        check(cached, (0, 0), Some("120k tokens (96.0k from the cache), $0.42"));
        check(
            Usage { cost: cost(42, true), ..cached },
            (3, 80_000),
            Some(
                "120k tokens (96.0k from the cache), at least $0.42, 3 retries, \
                 requests waited 1m 20s in all",
            ),
        );
        let unknown = Usage { cost: cost(0, true), ..usage_of(900, 30) };
        check(unknown, (1, 0), Some("930 tokens, 1 retry"));
    }

    #[test]
    fn a_request_that_waits_says_why_and_how_long() {
        let all = ThrottleCause::ALL.map(HoldCause::Gate);
        assert_eq!(
            all.map(|cause| hold(cause, Some(12_000))),
            [
                "waits for other requests for 12 s",
                "provider asked to wait 12 s",
                "requests per minute are used up for 12 s",
                "tokens per minute are used up for 12 s",
            ]
        );
        assert_eq!(hold(all[1], None), "provider asked to wait");
        let retry = HoldCause::Retry { retry: 2, most: 10 };
        assert_eq!(hold(retry, Some(2_400)), "retry 2 of 10 in 3 s");
        assert_eq!(
            [0, 400, 1_000, 59_001, 61_000].map(wait),
            ["0 ms", "400 ms", "1 s", "1m 00s", "1m 01s"]
        );
    }

    #[test]
    fn a_request_that_failed_says_what_comes_of_it() {
        let failed = |next| {
            let mut story = Story::new();
            story.request_failed(0, 2, Some(503), next);
            let EventKind::RequestFailed(failed) = &story.events()[0].kind else {
                panic!("it is one")
            };
            request_failed(failed)
        };
        let all = [
            AfterFailure::Retry { delay_ms: 700, most: 10 },
            AfterFailure::Fallback { model: "b\u{1b}[2J".into() },
            AfterFailure::Compact,
            AfterFailure::Nothing,
        ];
        assert_eq!(
            all.map(failed),
            [
                "request to `m` failed: the provider said 503; retry 2 of 10 in 700 ms",
                "request to `m` failed: the provider said 503; goes on with `b\\u{1b}[2J`",
                "request to `m` failed: the provider said 503; the conversation is compacted",
                "request to `m` failed: the provider said 503; given up after 2 attempts",
            ]
        );
    }

    #[test]
    fn what_did_not_finish_is_named_up_to_a_bound() {
        let end = InvocationEnd {
            outcome: Outcome::Done { text: "x".into() },
            text: "x".into(),
            cancel: None,
            unfinished: (1..=10).map(UnitId).collect(),
        };
        assert_eq!(
            closing_lines(&end, Counts::default(), &ending()),
            ["warning: 10 agents did not finish: agent-1, agent-2, agent-3, agent-4, agent-5, \
              agent-6, agent-7, agent-8 and 2 more"]
        );
        let stopped = InvocationEnd {
            outcome: Outcome::Cancelled { ran: true },
            cancel: Some(CancelReason::Interrupt),
            unfinished: Vec::new(),
            ..end
        };
        let counts = Counts { completed: 1, cancelled: 8, skipped: 4, ..Counts::default() };
        assert_eq!(
            closing_lines(&stopped, counts, &ending()),
            ["agents: 1 done, 8 cancelled, 4 never started", "error: interrupted"]
        );
    }
}
