//! When a provider wants to hear of a request again, read from its headers or
//! from its words.
//!
//! There are as many forms as providers. What cannot be read is as if it were
//! not there: a wrong header must neither fail a request nor stop it for good.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;

/// Longest time that is believed. Later moments come from wrong clocks.
pub const FARTHEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Most bytes of a header's value that are read; a date has 35.
const LONGEST_VALUE: usize = 64;

/// From here on a number of seconds is a date, and from a thousand times as
/// much on one in milliseconds: nobody asks for a wait of thirty years.
const FIRST_UNIX_SECOND: f64 = 1e9;

/// What is left of a quota, and when it is there again: OpenAI and most that
/// follow it, Cerebras, OpenRouter and others, Mistral, the IETF's draft, Anthropic.
const RESETS: [(&str, &str); 14] = [
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining-requests-minute", "x-ratelimit-reset-requests-minute"),
    ("x-ratelimit-remaining-requests-day", "x-ratelimit-reset-requests-day"),
    ("x-ratelimit-remaining-tokens-minute", "x-ratelimit-reset-tokens-minute"),
    ("x-ratelimit-remaining-tokens-day", "x-ratelimit-reset-tokens-day"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-ratelimit-remaining", "x-ratelimit-reset-after"),
    ("ratelimit-remaining", "ratelimit-reset"),
    ("ratelimitbysize-remaining", "ratelimitbysize-reset"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
];

/// Returns how long the provider wants not to hear of the request; `None` if it
/// does not say, or says that it may come at once.
///
/// `Retry-After`, in milliseconds or else in seconds or as a date, counts for
/// more than the resets of quotas. Of those only the ones count whose quota is
/// used up, or does not say what is left of it.
pub fn retry_after<'a>(
    headers: impl Fn(&str) -> Option<&'a str>,
    now: SystemTime,
) -> Option<Duration> {
    let read = |name, unit| time(headers(name)?, unit, now);
    let floor = read("retry-after-ms", Duration::from_millis(1))
        .or_else(|| read("retry-after", Duration::from_secs(1)))
        .or_else(|| {
            let is_used_up =
                |remaining| headers(remaining).is_none_or(|left| number(left.trim()) == Some(0.0));
            let resets = RESETS.iter().filter(|(remaining, _)| is_used_up(remaining));
            resets.filter_map(|(_, reset)| read(reset, Duration::from_secs(1))).max()
        });
    floor.filter(|floor| !floor.is_zero()).map(|floor| floor.min(FARTHEST))
}

/// Words that are followed by the time to wait.
const BEFORE_A_TIME: [&str; 17] = [
    "again in",
    "again after",
    "retry in",
    "retry after",
    "retry-after",
    "retry_after",
    "retrying in",
    "retry delay",
    "retrydelay",
    "wait",
    "waiting",
    "available in",
    "back in",
    "reset in",
    "resets in",
    "reset after",
    "等待",
];

/// Words that may come between those and the time.
const FILLERS: [&str; 14] = [
    "for",
    "at",
    "least",
    "about",
    "approximately",
    "around",
    "another",
    "up",
    "to",
    "a",
    "minimum",
    "of",
    "is",
    "约",
];

/// Returns how long a provider's sentence asks to wait; `None` if it does not
/// say. Many providers say it nowhere else.
pub fn retry_after_in(sentence: &str) -> Option<Duration> {
    let sentence = sentence.to_lowercase();
    let starts = BEFORE_A_TIME
        .iter()
        .flat_map(|before| sentence.match_indices(before).map(|(at, found)| at + found.len()));
    let waits = starts.filter_map(|start| spoken_time(&sentence[start..]));
    waits.chain(time_before_retry(&sentence)).max().map(|wait| wait.min(FARTHEST))
}

/// Reads the time that a text begins with: `3s`, `1m30.5s`, `20 seconds`, `1 minute
/// and 5 seconds`. A number without a unit could mean anything.
fn spoken_time(text: &str) -> Option<Duration> {
    let is_mark = |c: char| c.is_whitespace() || "\"'`:=~(,".contains(c);
    let mut rest = text.trim_start_matches(is_mark);
    while let Some(filler) = FILLERS.iter().find(|filler| {
        rest.strip_prefix(**filler).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    }) {
        rest = rest[filler.len()..].trim_start_matches(is_mark);
    }
    let mut sum = Duration::ZERO;
    while let Some((part, behind)) = time_part(rest) {
        sum = sum.checked_add(part)?;
        rest = behind.trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    (!sum.is_zero()).then_some(sum)
}

/// Reads one number with its unit, and returns the text after it.
fn time_part(text: &str) -> Option<(Duration, &str)> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let digits = text.find(|c| !is_digit(c))?;
    let count = number(&text[..digits])?;
    let behind = text[digits..].trim_start_matches([' ', '-']);
    let end = behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len());
    let (word, behind) = behind.split_at(end);
    // Chinese has no blank behind a unit.
    let (unit, length) = match seconds_of(word) {
        Some(unit) => (unit, word.len()),
        None => ["毫秒", "分钟", "小时", "秒", "分"].into_iter().find_map(|unit| {
            word.starts_with(unit).then(|| Some((seconds_of(unit)?, unit.len())))?
        })?,
    };
    let part = Duration::try_from_secs_f64(count * unit).ok()?;
    let rest_of_word = &word[length..];
    Some((part, if rest_of_word.is_empty() { behind } else { rest_of_word }))
}

/// Reads `20 秒后重试`, where the time comes first.
fn time_before_retry(sentence: &str) -> Option<Duration> {
    let is_said = ["重试", "再试", "重新"].iter().any(|word| sentence.contains(word));
    let mut rest = sentence;
    while is_said && let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        if let Some((wait, behind)) = time_part(&rest[at..])
            && behind.trim_start().starts_with(['后', '之'])
        {
            return Some(wait);
        }
        let digits = rest[at..].find(|c: char| !c.is_ascii_digit());
        rest = digits.map_or("", |digits| &rest[at + digits..]);
    }
    None
}

fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "d" | "day" | "days" => 86_400.0,
        "h" | "hr" | "hrs" | "hour" | "hours" | "小时" => 3_600.0,
        "m" | "min" | "mins" | "minute" | "minutes" | "分钟" | "分" => 60.0,
        "s" | "sec" | "secs" | "second" | "seconds" | "秒" => 1.0,
        "ms" | "msec" | "millis" | "millisecond" | "milliseconds" | "毫秒" => 1e-3,
        "us" | "µs" | "μs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    })
}

/// Returns what the provider itself says about trying again.
pub fn should_retry<'a>(headers: impl Fn(&str) -> Option<&'a str>) -> Option<bool> {
    match headers("x-should-retry")?.trim() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Reads a time from now: a number, of `unit`s or the date in Unix time, a
/// duration with units, or a date. One in the past is no time at all.
fn time(text: &str, unit: Duration, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if text.len() > LONGEST_VALUE {
        return None;
    }
    let until = |moment: SystemTime| moment.duration_since(now).unwrap_or_default();
    if let Some(number) = number(text) {
        let since_epoch = if number >= FIRST_UNIX_SECOND * 1e3 {
            number / 1e3
        } else if number >= FIRST_UNIX_SECOND {
            number
        } else {
            return Some(unit.mul_f64(number));
        };
        let since_epoch = Duration::try_from_secs_f64(since_epoch).ok()?;
        return Some(until(UNIX_EPOCH.checked_add(since_epoch)?));
    }
    duration(text).or_else(|| Some(until(SystemTime::from(date(text)?))))
}

fn number(text: &str) -> Option<f64> {
    // `parse` alone knows `inf`, `NaN`, signs and exponents.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain { text.parse().ok() } else { None }
}

/// Reads a duration as Go writes it: `6m0s`, `1.5s`, `120ms`.
pub fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (count, behind) = rest.split_at(digits);
        let end = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let part = Duration::try_from_secs_f64(number(count)? * seconds_of(unit)?).ok()?;
        sum = sum.checked_add(part)?;
        rest = behind;
    }
    (!text.is_empty()).then_some(sum)
}

/// Reads a date of RFC 3339, or one of HTTP: of its three forms two are
/// obsolete and still sent (RFC 9110, 5.6.7).
fn date(text: &str) -> Option<Timestamp> {
    let in_utc = |format| {
        let moment = DateTime::strptime(format, text).ok()?;
        TimeZone::UTC.to_timestamp(moment).ok()
    };
    text.parse()
        .ok()
        .or_else(|| rfc2822::DateTimeParser::new().parse_timestamp(text).ok())
        .or_else(|| in_utc("%A, %d-%b-%y %H:%M:%S GMT"))
        .or_else(|| in_utc("%a %b %e %H:%M:%S %Y"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Friday, 7 March 2025, 00:00:00 UTC.
    const NOW: u64 = 1_741_305_600;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(NOW)
    }

    fn floor(headers: &[(&str, &str)]) -> Option<Duration> {
        let header = |name: &str| {
            headers.iter().find(|(header, _)| *header == name).map(|(_, value)| *value)
        };
        retry_after(header, now())
    }

    /// Checks the floor's whole milliseconds.
    #[track_caller]
    fn check(headers: &[(&str, &str)], milliseconds: u128) {
        assert_eq!(
            floor(headers).map(|floor| floor.as_millis()),
            Some(milliseconds),
            "{headers:?}"
        );
    }

    #[track_caller]
    fn check_none(headers: &[(&str, &str)]) {
        assert_eq!(floor(headers), None, "{headers:?}");
    }

    #[test]
    fn retry_after_has_seconds_or_any_date_of_http() {
        check(&[("retry-after", "20")], 20_000);
        check(&[("retry-after", " 1.5 ")], 1_500);
        check(&[("retry-after", "Fri, 07 Mar 2025 00:00:30 GMT")], 30_000);
        check(&[("retry-after", "Friday, 07-Mar-25 00:00:30 GMT")], 30_000);
        check(&[("retry-after", "Fri Mar  7 00:00:30 2025")], 30_000);
        check(&[("retry-after", "2025-03-07T00:00:30Z")], 30_000);
        check(&[("retry-after", "30s")], 30_000);
    }

    #[test]
    fn milliseconds_count_for_more_and_both_for_more_than_resets() {
        check(&[("retry-after", "2"), ("retry-after-ms", "1250")], 1_250);
        check(&[("retry-after", "2"), ("x-ratelimit-reset-requests", "6m0s")], 2_000);
        check(&[("retry-after-ms", "soon"), ("retry-after", "2")], 2_000);
    }

    #[test]
    fn a_reset_counts_where_nothing_is_left_or_it_is_not_said() {
        let tokens = ("x-ratelimit-reset-tokens", "1s");
        let requests = ("x-ratelimit-reset-requests", "6m0s");
        check(&[tokens, requests], 360_000);
        check(&[tokens, requests, ("x-ratelimit-remaining-requests", "59")], 1_000);
        check(&[tokens, ("x-ratelimit-remaining-tokens", "0")], 1_000);
        check_none(&[tokens, ("x-ratelimit-remaining-tokens", "149984")]);
        check_none(&[tokens, ("x-ratelimit-remaining-tokens", "many")]);
    }

    #[test]
    fn a_reset_is_a_duration_seconds_or_a_moment() {
        let reset = |value: &'static str| [("x-ratelimit-reset", value)];
        check(&reset("120ms"), 120);
        check(&reset("6m0s"), 360_000);
        check(&reset("1h2m3.5s"), 3_723_500);
        check(&reset("2m59.56s"), 179_560);
        check(&reset("1d"), 86_400_000);
        check(&reset("1500us"), 1);
        check(&reset("33.0113"), 33_011);
        check(&reset("1741305610"), 10_000);
        check(&reset("1741305660000"), 60_000);
        check(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset-after", "7")], 7_000);
        check(&[("ratelimit-remaining", "0"), ("ratelimit-reset", "30")], 30_000);
        check(&[("ratelimitbysize-remaining", "0"), ("ratelimitbysize-reset", "12")], 12_000);
    }

    #[test]
    fn anthropic_says_the_moment() {
        let reset = |name, value| (name, value);
        check(
            &[
                reset("anthropic-ratelimit-requests-remaining", "0"),
                reset("anthropic-ratelimit-requests-reset", "2025-03-07T00:00:13Z"),
                reset("anthropic-ratelimit-tokens-remaining", "1000"),
                reset("anthropic-ratelimit-tokens-reset", "2025-03-07T01:00:00Z"),
            ],
            13_000,
        );
    }

    #[test]
    fn what_is_past_or_makes_no_sense_is_no_floor() {
        for value in [
            "",
            " ",
            "0",
            "-1",
            "+1",
            "NaN",
            "inf",
            "1e3",
            "1.2.3",
            ".",
            "soon",
            "s",
            "5x",
            "5s5",
            "1s,2s",
            "Thu, 06 Mar 2025 23:59:59 GMT",
            "2025-03-08",
            "Fri, 99 Mar 2025 00:00:30 GMT",
            "１０",
            "0s",
            "1741305600",
        ] {
            check_none(&[("retry-after", value)]);
            check_none(&[("x-ratelimit-reset-requests", value)]);
        }
        check_none(&[("retry-after", "9".repeat(10_000).as_str())]);
    }

    #[test]
    fn nothing_is_believed_to_be_more_than_thirty_days_off() {
        for value in ["99999999", "Sat, 07 Mar 2099 00:00:00 GMT", "999999d", "9999999999999"] {
            assert_eq!(floor(&[("retry-after", value)]), Some(FARTHEST), "{value}");
        }
    }

    #[test]
    fn a_provider_says_whether_to_try_again_or_nothing() {
        let said = |value| should_retry(|name| (name == "x-should-retry").then_some(value));
        let values = ["true", " false", "True", "1", ""].map(said);
        assert_eq!(values, [Some(true), Some(false), None, None, None]);
        assert_eq!(should_retry(|_| None), None);
    }

    #[test]
    fn a_sentence_says_when_to_try_again_or_nothing() {
        for (sentence, milliseconds) in [
            ("Rate limit reached. Please try again in 6.57s. Visit us.", Some(6_570)),
            ("Please try again in 20ms.", Some(20)),
            ("please try again in 1m12.5s", Some(72_500)),
            ("Try again in 86 seconds.", Some(86_000)),
            ("Please retry after 10 seconds, or raise the limit.", Some(10_000)),
            ("Retry after 2 minutes", Some(120_000)),
            ("Please retry in 3.2s.", Some(3_200)),
            ("Please wait 12 seconds before the next request.", Some(12_000)),
            ("You must wait for at least 1 minute and 5 seconds", Some(65_000)),
            ("please wait another 250 ms", Some(250)),
            ("Too many requests, retry after: 7s", Some(7_000)),
            ("retry_after=30s", Some(30_000)),
            ("Retry-After: \"2m\"", Some(120_000)),
            ("Your limit resets in 1 hour, 2 minutes.", Some(3_720_000)),
            ("It will be available in approximately 90 sec.", Some(90_000)),
            ("Try again in about 10-seconds", Some(10_000)),
            ("Try again in 1h2m3s, or try again in 5s", Some(3_723_000)),
            ("请求过于频繁，请在 20 秒后重试", Some(20_000)),
            ("请求超过限制 60 次，请 2 分钟后再试", Some(120_000)),
            ("请等待 3 秒", Some(3_000)),
            ("请 500 毫秒之后重试", Some(500)),
            ("请稍后重试（限制 60 次）", None),
            ("Limit 30000, Used 29000, please wait.", None),
            ("await 3 things, then wait for it", None),
            ("The server waited 30 s for the model", None),
            ("Please try again in 999999h0s.", Some(FARTHEST.as_millis())),
            ("Please try again in a few seconds.", None),
            ("Please try again in 5.", None),
            ("Please try again in 0s.", None),
            ("try again in ", None),
            ("Please try again later.", None),
        ] {
            let floor = retry_after_in(sentence).map(|floor| floor.as_millis());
            assert_eq!(floor, milliseconds, "{sentence}");
        }
    }

    proptest! {
        #[test]
        fn no_sentence_does_harm(time in "[0-9a-zµ.:, ]{0,70}") {
            if let Some(floor) = retry_after_in(&format!("try again in {time}")) {
                prop_assert!(floor > Duration::ZERO && floor <= FARTHEST);
            }
        }

        #[test]
        fn no_header_does_harm(value in "[0-9a-zµ.:,TZ+ -]{0,70}") {
            for name in ["retry-after-ms", "retry-after", "x-ratelimit-reset-tokens"] {
                if let Some(floor) = floor(&[(name, &value)]) {
                    prop_assert!(floor > Duration::ZERO && floor <= FARTHEST);
                }
            }
        }
    }
}
