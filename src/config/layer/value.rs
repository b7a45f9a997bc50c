//! Takes values out of a layer, or notes what is wrong with them.

use std::num::NonZeroU32;

use reqwest::header::{HeaderName, HeaderValue};
use serde_json::Value;
use toml::de::DeValue;

use super::{Layer, Setting, dotted};
use crate::config::Problem;
use crate::config::nearest::nearest;
use crate::config::written::{self, Order};
use crate::message::Usd;

/// Each returns `None` after it has noted a problem.
impl Layer<'_> {
    pub(super) fn text(&mut self, setting: &Setting<'_>) -> Option<String> {
        match setting.value.as_str() {
            Some("") => {
                self.bad(setting, "it must not be empty".to_owned());
                None
            }
            Some(text) => Some(text.to_owned()),
            None => {
                self.wrong_type(setting, "a string");
                None
            }
        }
    }

    pub(super) fn truth(&mut self, setting: &Setting<'_>) -> Option<bool> {
        let truth = setting.value.as_bool();
        if truth.is_none() {
            self.wrong_type(setting, "`true` or `false`");
        }
        truth
    }

    /// A text that is one of several names.
    pub(super) fn one_of<T>(
        &mut self,
        setting: &Setting<'_>,
        find: impl FnOnce(&str) -> Option<T>,
        names: &[&str],
    ) -> Option<T> {
        let found = find(&self.text(setting)?);
        if found.is_none() {
            self.bad(setting, format!("it must be one of {}", names.join(", ")));
        }
        found
    }

    pub(super) fn header(&mut self, setting: &Setting<'_>) -> Option<String> {
        let value = self.text(setting)?;
        let name_fits = HeaderName::from_bytes(setting.name().as_bytes()).is_ok();
        if name_fits && HeaderValue::from_str(&value).is_ok() {
            return Some(value);
        }
        self.bad(setting, "a header's name and value are plain ASCII on one line".to_owned());
        None
    }

    pub(super) fn texts(&mut self, setting: &Setting<'_>) -> Option<Vec<String>> {
        let array = setting.value.as_array();
        let texts = array.and_then(|array| {
            array.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect()
        });
        if texts.is_none() {
            self.wrong_type(setting, "an array of strings");
        }
        texts
    }

    /// Directories that mean the same wherever we are started.
    pub(super) fn directories(&mut self, setting: &Setting<'_>) -> Option<Vec<String>> {
        let directories = self.texts(setting)?;
        let is_whole = |path: &String| path.starts_with('/') || path.starts_with("~/");
        if let Some(other) = directories.iter().find(|path| !is_whole(path)) {
            self.bad(setting, format!("`{other}` must begin with `/` or `~/`"));
            return None;
        }
        Some(directories)
    }

    pub(super) fn integer(&mut self, setting: &Setting<'_>) -> Option<i64> {
        let Some(written) = setting.value.as_integer() else {
            self.wrong_type(setting, "a whole number");
            return None;
        };
        let number = i64::from_str_radix(written.as_str(), written.radix()).ok();
        if number.is_none() {
            self.bad(setting, "use a smaller number".to_owned());
        }
        number
    }

    pub(super) fn number(&mut self, setting: &Setting<'_>, least: u32, most: u32) -> Option<u32> {
        let number = self.integer(setting)?;
        let fitting = u32::try_from(number).ok().filter(|number| (least..=most).contains(number));
        if fitting.is_none() {
            self.bad(setting, format!("it must be from {least} to {most}"));
        }
        fitting
    }

    /// A number that is not 0.
    pub(super) fn count(&mut self, setting: &Setting<'_>) -> Option<NonZeroU32> {
        self.number(setting, 1, u32::MAX).and_then(NonZeroU32::new)
    }

    /// An amount of money in dollars.
    pub(super) fn dollars(&mut self, setting: &Setting<'_>) -> Option<Usd> {
        let amount = Usd::from_dollars(self.fraction(setting)?);
        if amount.is_none() {
            self.bad(setting, "it must be an amount of dollars, such as 0.25".to_owned());
        }
        amount
    }

    pub(super) fn fraction(&mut self, setting: &Setting<'_>) -> Option<f64> {
        let number = match setting.value {
            DeValue::Float(written) => written.as_str().parse().ok(),
            DeValue::Integer(written) => written.as_str().parse().ok(),
            DeValue::String(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => None,
        };
        if number.is_none() {
            self.wrong_type(setting, "a number");
        }
        number
    }

    pub(super) fn json(&mut self, setting: &Setting<'_>) -> Option<Value> {
        let value = written::json(setting.value, Order::Sorted);
        if value.is_none() {
            self.bad(setting, "use only what JSON has: no dates, `inf` or `nan`".to_owned());
        }
        value
    }

    /// Reports every value below a key that is not known, so that each gets
    /// the hint that fits it.
    pub(super) fn unknown(&mut self, setting: &Setting<'_>) {
        match setting.value.as_table() {
            Some(table) if !table.is_empty() => self.each(setting, Self::unknown),
            Some(_) | None => {
                let problem = Problem::UnknownKey {
                    key: dotted(&setting.key),
                    place: self.origin.place(setting.offset),
                    nearest: nearest(&setting.key),
                };
                self.layers.problems.push(problem);
            }
        }
    }

    pub(super) fn wrong_type(&mut self, setting: &Setting<'_>, expected: &'static str) {
        let found = written::kind(setting.value);
        let (key, place) = (dotted(&setting.key), self.origin.place(setting.offset));
        self.layers.problems.push(Problem::WrongType { key, place, found, expected });
    }

    pub(super) fn bad(&mut self, setting: &Setting<'_>, must: String) {
        let (key, place) = (dotted(&setting.key), self.origin.place(setting.offset));
        self.layers.problems.push(Problem::BadValue { key, place, must });
    }
}
