//! The inputs of a flow: what it takes, and what one walk of it is given.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::error::InputError;
use super::{Flow, INPUTS_CAP};
use crate::json_text;

/// Something that a flow takes from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Its name; texts know it as `inputs.NAME`.
    pub name: Arc<str>,
    /// What it is if it is not given; `None` means that it must be.
    pub default: Option<Value>,
    /// Whether words that are given for it are JSON.
    pub is_json: bool,
    /// What it is for, in words for people.
    pub description: Arc<str>,
}

/// What is given for one input.
#[derive(Debug, Clone, PartialEq)]
pub enum Supplied {
    /// Words, as somebody typed them.
    Words(String),
    /// A value as it is.
    Value(Value),
}

/// The values of all inputs of a flow.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InputValues(Map<String, Value>);

impl InputValues {
    /// Returns them by name, in declared order.
    #[must_use]
    pub fn values(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Writes them down, as [`InputValues::recorded`] reads them.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(&self.0).expect("values are always JSON")
    }

    /// Reads what an earlier walk was given; nothing if it is none of that.
    #[must_use]
    pub fn recorded(json: &str) -> Vec<(String, Supplied)> {
        let values: Map<String, Value> = serde_json::from_str(json).unwrap_or_default();
        values.into_iter().map(|(name, value)| (name, Supplied::Value(value))).collect()
    }
}

impl Flow {
    /// Gives each input its value: what is given for it, else its default.
    ///
    /// # Errors
    ///
    /// All that is wrong: something is given that it does not take, or twice, or
    /// as words that are no JSON; or something is not given that must be.
    pub fn given(
        &self,
        given: impl IntoIterator<Item = (String, Supplied)>,
    ) -> Result<InputValues, Vec<InputError>> {
        let mut errors = Vec::new();
        let mut values = Map::new();
        for (name, supplied) in given {
            let Some(input) = self.input(&name) else {
                let known = self.inputs().iter().map(|input| Arc::clone(&input.name)).collect();
                errors.push(InputError::Unknown { name, known });
                continue;
            };
            match input.value(supplied) {
                Ok(_) if values.contains_key(&name) => errors.push(InputError::Twice { name }),
                Ok(value) => drop(values.insert(name, value)),
                Err(error) => {
                    // It is given, if not as it should be.
                    values.insert(name, Value::Null);
                    errors.push(error);
                }
            }
        }
        let mut all = Map::new();
        for Input { name, default, .. } in self.inputs() {
            match values.remove(&**name).or_else(|| default.clone()) {
                Some(value) => drop(all.insert(name.to_string(), value)),
                None => errors.push(InputError::Missing { name: Arc::clone(name) }),
            }
        }
        let all = InputValues(all);
        let length = all.json().len();
        if length > INPUTS_CAP {
            errors.push(InputError::TooLong { length });
        }
        if errors.is_empty() { Ok(all) } else { Err(errors) }
    }

    /// Gives each input the value that an earlier walk had, unless it is given
    /// again. What the flow does not take any more is left out.
    ///
    /// # Errors
    ///
    /// As for [`Flow::given`].
    pub fn given_again(
        &self,
        before: &str,
        given: Vec<(String, Supplied)>,
    ) -> Result<InputValues, Vec<InputError>> {
        let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
        let mut all: Vec<_> = InputValues::recorded(before)
            .into_iter()
            .filter(|(name, _)| self.input(name).is_some() && !is_given(name))
            .collect();
        all.extend(given);
        self.given(all)
    }

    /// Checks that the flow can be walked with inputs of these names.
    pub(super) fn takes<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), InputError> {
        let mut given = BTreeSet::new();
        for name in names {
            if self.input(name).is_none() {
                let known = self.inputs().iter().map(|input| Arc::clone(&input.name)).collect();
                return Err(InputError::Unknown { name: name.to_owned(), known });
            }
            if !given.insert(name) {
                return Err(InputError::Twice { name: name.to_owned() });
            }
        }
        let is_missing = |input: &&Input| input.default.is_none() && !given.contains(&*input.name);
        match self.inputs().iter().find(is_missing) {
            Some(input) => Err(InputError::Missing { name: Arc::clone(&input.name) }),
            None => Ok(()),
        }
    }

    fn input(&self, name: &str) -> Option<&Input> {
        self.inputs().iter().find(|input| *input.name == *name)
    }
}

impl Input {
    fn value(&self, supplied: Supplied) -> Result<Value, InputError> {
        match supplied {
            Supplied::Value(value) => Ok(value),
            Supplied::Words(words) if !self.is_json => Ok(Value::String(words)),
            Supplied::Words(words) => json_text::parse(&words).map_err(|error| {
                InputError::NoJson { name: Arc::clone(&self.name), reason: error.to_string() }
            }),
        }
    }
}
