//! What a person is asked to say: fields, each with options to pick from or
//! to be filled in in own words.
//!
//! It knows nothing of who asks. A tool of tine may want to know something, or
//! a server; what is said goes back to it as it was given, field by field.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::message::CallId;

/// What a person is asked to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// The call that wants to know it.
    pub call: CallId,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// The server that wants to know it; `None` if it is the tool itself.
    pub server: Option<Arc<str>>,
    /// What a program that speaks for a person is shown of it: a JSON object, the
    /// call's arguments or JSON Schema of what a server wants.
    pub arguments: Arc<str>,
    /// What it is about as a whole; empty if the fields say it all.
    pub message: Arc<str>,
    /// What is asked, in order; never empty.
    pub fields: Vec<Field>,
}

/// One thing that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// What programs call its answer.
    pub name: Arc<str>,
    /// The same in a word or two, for people; may be empty.
    pub header: Arc<str>,
    /// The whole question.
    pub text: Arc<str>,
    /// What answers it.
    pub takes: Takes,
    /// Whether it may be passed over.
    pub may_be_empty: bool,
}

/// What answers a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Takes {
    /// Some of these.
    Options {
        /// What there is to pick from.
        options: Vec<Choice>,
        /// Whether several may be picked.
        several: bool,
        /// Whether own words do as well.
        own_words: bool,
    },
    /// Any words.
    Words,
    /// A number.
    Number {
        /// Whether it has to be a whole one.
        is_whole: bool,
    },
}

/// Something to pick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What it is called.
    pub label: Arc<str>,
    /// What it means; may be empty.
    pub description: Arc<str>,
}

/// What was said to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Nothing: it was passed over.
    Nothing,
    /// These of its options, counted from 0, in their order.
    Picked(Vec<u32>),
    /// This.
    Words(Arc<str>),
}

impl Form {
    /// Returns what answers come to that are given for this form: one for each
    /// field, and none that its field does not take.
    #[must_use]
    pub fn fitted(&self, given: &[Entry]) -> Arc<[Entry]> {
        let given = given.iter().chain(std::iter::repeat(&Entry::Nothing));
        self.fields.iter().zip(given).map(|(field, given)| field.fitted(given)).collect()
    }

    /// Reads what a program says for a person: in its changed arguments, or
    /// none, there is an object `answers` with a text for each field.
    #[must_use]
    pub fn read(&self, arguments: Option<&str>) -> Arc<[Entry]> {
        let arguments: Option<Value> = arguments.and_then(|text| serde_json::from_str(text).ok());
        let answers = arguments.as_ref().and_then(|it| it.get("answers")?.as_object());
        let none = Map::new();
        let answers = answers.unwrap_or(&none);
        self.fields.iter().map(|field| field.read_value(answers.get(&*field.name))).collect()
    }
}

impl Field {
    /// Returns the options there are to pick from.
    #[must_use]
    pub fn options(&self) -> &[Choice] {
        match &self.takes {
            Takes::Options { options, several: _, own_words: _ } => options,
            Takes::Words | Takes::Number { is_whole: _ } => &[],
        }
    }

    /// Tells whether several options may be picked.
    #[must_use]
    pub fn takes_several(&self) -> bool {
        matches!(self.takes, Takes::Options { several: true, .. })
    }

    /// Tells whether anything but the options answers it.
    #[must_use]
    pub fn takes_words(&self) -> bool {
        match self.takes {
            Takes::Options { options: _, several: _, own_words } => own_words,
            Takes::Words | Takes::Number { is_whole: _ } => true,
        }
    }

    /// Reads words; `None` if they are no answer to it.
    #[must_use]
    pub fn words(&self, words: &str) -> Option<Entry> {
        let words = words.trim();
        let is_answer = match self.takes {
            _ if words.is_empty() => return self.may_be_empty.then_some(Entry::Nothing),
            Takes::Options { options: _, several: _, own_words } => own_words,
            Takes::Words => true,
            Takes::Number { is_whole: true } => words.parse::<i64>().is_ok(),
            Takes::Number { is_whole: false } => words.parse::<f64>().is_ok_and(f64::is_finite),
        };
        is_answer.then(|| Entry::Words(words.into()))
    }

    /// Returns what was said to it as one text; `None` if nothing was.
    #[must_use]
    pub fn said(&self, given: &Entry) -> Option<String> {
        match given {
            Entry::Nothing => None,
            Entry::Picked(picked) => {
                let label = |number: &u32| self.options().get(usize::try_from(*number).ok()?);
                let labels = picked.iter().filter_map(label).map(|option| &*option.label);
                Some(labels.collect::<Vec<_>>().join(", "))
            }
            Entry::Words(words) => Some(words.to_string()),
        }
    }

    fn fitted(&self, given: &Entry) -> Entry {
        match given {
            Entry::Nothing => Entry::Nothing,
            Entry::Words(words) => self.words(words).unwrap_or(Entry::Nothing),
            Entry::Picked(picked) => {
                let is_there = |number: &&u32| {
                    usize::try_from(**number).is_ok_and(|number| number < self.options().len())
                };
                let mut picked: Vec<u32> = picked.iter().filter(is_there).copied().collect();
                picked.sort_unstable();
                picked.dedup();
                if !self.takes_several() {
                    picked.truncate(1);
                }
                if picked.is_empty() { Entry::Nothing } else { Entry::Picked(picked) }
            }
        }
    }

    /// Reads a text with one label or several, a list of labels, or own words.
    fn read_value(&self, value: Option<&Value>) -> Entry {
        let items: Vec<String> = match value {
            Some(Value::Array(items)) => items.iter().filter_map(text_of).collect(),
            Some(value) => text_of(value).into_iter().collect(),
            None => Vec::new(),
        };
        let named = |label: &str| {
            let found =
                self.options().iter().position(|option| option.label.trim() == label.trim())?;
            u32::try_from(found).ok()
        };
        // Before they are one text: a label may hold a comma itself.
        let each = || -> Option<Vec<u32>> {
            let may_be = items.len() == 1 || self.takes_several();
            items.iter().filter(|_| may_be).map(|item| named(item)).collect()
        };
        let text = items.join(", ");
        let several = || -> Option<Vec<u32>> {
            text.split(',').filter(|_| self.takes_several()).map(named).collect()
        };
        let is_some = |picked: &Vec<u32>| !picked.is_empty();
        let picked = each().filter(is_some).or_else(|| several().filter(is_some));
        let given = picked.map_or_else(|| Entry::Words(text.trim().into()), Entry::Picked);
        self.fitted(&given)
    }
}

/// Returns what a program says with one value, if it says anything.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::testing::{field, form};

    #[track_caller]
    fn check(field: &Field, value: Value, expected: Entry) {
        assert_eq!(field.read_value(Some(&value)), expected, "{value}");
    }

    #[test]
    fn a_program_answers_with_labels_or_in_own_words() {
        let one = field("Which database?", &["Postgres", "SQLite, in a file"], false);
        check(&one, json!("Postgres"), Entry::Picked(vec![0]));
        check(&one, json!(" SQLite, in a file "), Entry::Picked(vec![1]));
        check(&one, json!("neither"), Entry::Words("neither".into()));
        check(&one, json!("Postgres, SQLite, in a file"), {
            Entry::Words("Postgres, SQLite, in a file".into())
        });
        check(&one, json!(""), Entry::Nothing);
        check(&one, json!(null), Entry::Nothing);
        check(&one, json!({"label": "Postgres"}), Entry::Nothing);
        let several = field("Which parts?", &["Lexer", "Parser", "Printer"], true);
        check(&several, json!("Printer, Lexer"), Entry::Picked(vec![0, 2]));
        check(&several, json!(["Parser"]), Entry::Picked(vec![1]));
        check(&several, json!("Lexer, Tests"), Entry::Words("Lexer, Tests".into()));
    }

    #[test]
    fn a_list_holds_labels_whatever_is_in_them() {
        let several = field("Which parts?", &["Lexer, by hand", "Parser", "3"], true);
        check(&several, json!(["Parser", " Lexer, by hand "]), Entry::Picked(vec![0, 1]));
        check(&several, json!(["Lexer, by hand"]), Entry::Picked(vec![0]));
        check(&several, json!([3, "Parser"]), Entry::Picked(vec![1, 2]));
        check(&several, json!(["3, Parser"]), Entry::Picked(vec![1, 2]));
        check(&several, json!(["Lexer, by hand", "Tests"]), {
            Entry::Words("Lexer, by hand, Tests".into())
        });
        check(&several, json!([]), Entry::Nothing);
        check(&several, json!([null, {"label": "Parser"}]), Entry::Nothing);
        let one = field("Which database?", &["Postgres", "SQLite, in a file"], false);
        check(&one, json!(["SQLite, in a file"]), Entry::Picked(vec![1]));
        check(&one, json!(["Postgres", "SQLite, in a file"]), {
            Entry::Words("Postgres, SQLite, in a file".into())
        });
    }

    #[test]
    fn answers_go_by_the_names_of_their_fields_and_what_is_missing_is_nothing() {
        let form = form(&["Which database?", "Which port?"]);
        let answers = r#"{"questions":[],"answers":{"Which port?":"5433","Which?":"x"}}"#;
        let given = form.read(Some(answers));
        assert_eq!(*given, [Entry::Nothing, Entry::Words("5433".into())]);
        let nothing = [Entry::Nothing, Entry::Nothing];
        for arguments in [None, Some("{}"), Some("oops"), Some(r#"{"answers":"5433"}"#)] {
            assert_eq!(*form.read(arguments), nothing, "{arguments:?}");
        }
    }

    #[test]
    fn an_answer_that_a_field_does_not_take_is_none() {
        let form = form(&["Which database?", "Which port?"]);
        let given = [Entry::Picked(vec![1, 0, 7])];
        assert_eq!(*form.fitted(&given), [Entry::Picked(vec![0]), Entry::Nothing]);
        let given = [Entry::Picked(vec![9]), Entry::Words("  ".into()), Entry::Nothing];
        assert_eq!(*form.fitted(&given), [Entry::Nothing, Entry::Nothing]);
    }

    #[test]
    fn a_number_is_a_number() {
        let number = |is_whole| Field {
            takes: Takes::Number { is_whole },
            may_be_empty: false,
            ..field("How many?", &[], false)
        };
        assert_eq!(number(true).words(" 12 "), Some(Entry::Words("12".into())));
        assert_eq!(number(false).words("1.5"), Some(Entry::Words("1.5".into())));
        for (is_whole, words) in [(true, "1.5"), (true, "many"), (false, "inf"), (false, "")] {
            assert_eq!(number(is_whole).words(words), None, "{words}");
        }
    }
}
