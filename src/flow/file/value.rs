//! Values of a file as JSON, and spans of time.

use std::time::Duration;

use serde_json::Value;

use super::Page;
use super::fields::Field;
use crate::config::written::{self, Order};

/// The units of time that a span may be given in, in seconds.
const UNITS: [(char, u64); 3] = [('s', 1), ('m', 60), ('h', 3_600)];

/// The longest span of time: a week. No unit of a run lives as long.
const LONGEST: u64 = 7 * 24 * 3_600;

impl Page<'_, '_> {
    /// A value as JSON, whose objects keep the order in which they are written.
    pub(super) fn json(&mut self, field: &Field<'_>) -> Option<Value> {
        let value = written::json(field.value.get_ref(), Order::Written);
        if value.is_none() {
            let message =
                format!("`{}` holds what JSON has not: a date, `inf` or `nan`", field.key);
            self.error(field.at, message);
        }
        value
    }

    /// A span of time, such as `"90s"`, `"10m"` or `"1h"`.
    pub(super) fn span(&mut self, field: &Field<'_>) -> Option<Duration> {
        let text = self.text(field)?;
        let span = span(&text);
        if span.is_none() {
            let (key, text) = (field.key, super::shown(&text));
            let message = format!(
                "`{key}` is `{text}`; it must be a span of time such as `\"90s\"`, `\"10m\"` or \
                 `\"1h\"`, at most a week"
            );
            self.error(field.at, message);
        }
        span
    }
}

/// Reads a span of time, such as `90s`, `10m` or `1h`: at least a second and at
/// most a week.
#[must_use]
pub fn span(text: &str) -> Option<Duration> {
    let seconds = seconds(text).filter(|seconds| (1..=LONGEST).contains(seconds));
    seconds.map(Duration::from_secs)
}

fn seconds(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let (_, seconds) = UNITS.iter().find(|(letter, _)| *letter == unit)?;
    let number = text.strip_suffix(unit)?;
    // `parse` would take a sign.
    let is_plain = number.starts_with(|c: char| c.is_ascii_digit());
    number.parse::<u64>().ok().filter(|_| is_plain)?.checked_mul(*seconds)
}
