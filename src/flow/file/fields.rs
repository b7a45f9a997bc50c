//! The fields of a table, taken one by one: what is left over in the end is
//! known to nobody.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Page;
use crate::config::written;

/// A key, its value and where they stand.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    /// The key.
    pub(super) key: &'a str,
    /// Where the key begins.
    pub(super) at: usize,
    /// The value.
    pub(super) value: &'a Spanned<DeValue<'a>>,
}

/// The fields of a table that were not taken yet.
pub(super) struct Fields<'a> {
    left: Vec<Field<'a>>,
    /// Where the table begins.
    pub(super) at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(table: &'a DeTable<'a>, at: usize) -> Self {
        let mut left: Vec<_> = table.iter().map(|(key, value)| field(key, value)).collect();
        // A table goes by the alphabet, people write in an order.
        left.sort_by_key(|field| field.at);
        Self { left, at }
    }

    /// Takes a field; `None` if it is not there.
    pub(super) fn take(&mut self, key: &str) -> Option<Field<'a>> {
        let place = self.left.iter().position(|field| field.key == key)?;
        Some(self.left.remove(place))
    }

    /// Returns the keys that were not taken so far, and where they stand.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&'a str, usize)> {
        self.left.iter().map(|field| (field.key, field.at))
    }

    /// Returns what was not taken.
    pub(super) fn left(self) -> Vec<Field<'a>> {
        self.left
    }
}

fn field<'a>(key: &'a Spanned<Cow<'a, str>>, value: &'a Spanned<DeValue<'a>>) -> Field<'a> {
    Field { key: key.get_ref(), at: key.span().start, value }
}

/// Each returns `None` after it has said what is wrong.
impl Page<'_, '_> {
    pub(super) fn text(&mut self, field: &Field<'_>) -> Option<String> {
        match field.value.get_ref().as_str() {
            Some(text) if text.trim().is_empty() => {
                self.error(field.at, format!("`{}` must not be empty", field.key));
                None
            }
            Some(text) => Some(text.to_owned()),
            None => {
                self.wrong_type(field, "a string");
                None
            }
        }
    }

    pub(super) fn truth(&mut self, field: &Field<'_>) -> Option<bool> {
        let truth = field.value.get_ref().as_bool();
        if truth.is_none() {
            self.wrong_type(field, "`true` or `false`");
        }
        truth
    }

    /// A whole number within these bounds.
    pub(super) fn number(&mut self, field: &Field<'_>, (least, most): (u64, u64)) -> Option<u64> {
        let Some(written) = field.value.get_ref().as_integer() else {
            self.wrong_type(field, "a whole number");
            return None;
        };
        let number = u64::from_str_radix(written.as_str(), written.radix()).ok();
        let number = number.filter(|number| (least..=most).contains(number));
        if number.is_none() {
            let message = format!("`{}` must be from {least} to {most}", field.key);
            self.error(field.at, message);
        }
        number
    }

    /// A text that is one of several words.
    pub(super) fn one_of<T: Copy>(&mut self, field: &Field<'_>, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(field)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meant)| *meant);
        if found.is_none() {
            let words: Vec<_> = words.iter().map(|(word, _)| format!("`\"{word}\"`")).collect();
            let (key, words) = (field.key, words.join(" or "));
            self.error(field.at, format!("`{key}` must be {words}, not `{}`", super::shown(&text)));
        }
        found
    }

    pub(super) fn table<'a>(&mut self, field: &Field<'a>) -> Option<Fields<'a>> {
        let table = field.value.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(field, "a table");
        }
        table.map(|table| Fields::new(table, field.at))
    }

    pub(super) fn wrong_type(&mut self, field: &Field<'_>, expected: &str) {
        let found = written::kind(field.value.get_ref());
        self.error(field.at, format!("`{}` is {found}; it must be {expected}", field.key));
    }
}
