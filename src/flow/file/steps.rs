//! The steps of a flow file: what each is, and what is made of it.

use std::num::NonZeroU32;
use std::sync::Arc;

use toml::de::DeValue;

use super::fields::{Field, Fields};
use super::places::{Spot, Spots};
use super::{Page, agent, meant, shown};
use crate::flow::error::listed;
use crate::flow::names::{is_name, nearest};
use crate::flow::{
    AgentStep, Expression, Flow, FlowError, ITEMS, ITEMS_CAP, NESTING_CAP, OnError, Passed,
    ROUNDS_CAP, Step, TextPlace,
};

/// What a step is: exactly one of these.
const BODIES: [&str; 6] = ["prompt", "prompt_file", "parallel", "steps", "flow", "compute"];

/// What may be said of a step besides, whatever it is.
const MODIFIERS: [&str; 7] =
    ["name", "when", "for_each", "max_items", "until", "max_rounds", "on_error"];

impl Page<'_, '_> {
    /// Reads steps that stand in an array. `at` is where they stand in the flow.
    pub(super) fn steps(&mut self, field: &Field<'_>, at: &mut Vec<usize>) -> Option<Vec<Step>> {
        let array = match field.value.get_ref() {
            DeValue::Array(array) => array,
            DeValue::Table(_) => {
                let key = field.key;
                let message =
                    format!("`{key}` is one table; steps are many, each under `[[…{key}]]`");
                self.error(field.at, message);
                return None;
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_) => {
                self.wrong_type(field, "an array of steps");
                return None;
            }
        };
        if array.is_empty() {
            self.error(field.at, format!("`{}` has no steps", field.key));
        }
        let mut steps = Vec::new();
        for (index, item) in array.iter().enumerate() {
            let begin = item.span().start;
            let Some(table) = item.get_ref().as_table() else {
                self.error(begin, "a step is a table".to_owned());
                continue;
            };
            at.push(index);
            steps.extend(self.step(Fields::new(table, begin), at));
            at.pop();
        }
        (steps.len() == array.len() && !steps.is_empty()).then_some(steps)
    }

    /// Reads one step.
    fn step(&mut self, mut fields: Fields<'_>, at: &mut Vec<usize>) -> Option<Step> {
        let begin = fields.at;
        let name = fields.take("name");
        let mut spots = Spots { name: name.map_or(begin, |field| field.at), ..Spots::default() };
        let modifiers = self.modifiers(&mut fields, &mut spots);
        let on_error = fields.take("on_error");
        let body = self.body_of(&mut fields)?;
        let is_named = name.is_some() || !self.lacks_name(begin, &body, &modifiers);
        let name = name.and_then(|field| self.text(&field));
        let on_error = self.on_error(on_error, &body);
        let made = self.of_body((name.clone(), on_error), &body, (&mut fields, at), &mut spots);
        let known = BODIES.iter().chain(&MODIFIERS).chain(&agent::KEYS).chain(&["inputs"]);
        self.rest(fields, &known.copied().collect::<Vec<_>>());
        self.places.put(at, spots);
        let made = made.filter(|_| is_named)?;
        let step = if let Some(name) = name { made.named(name) } else { made };
        self.made(begin, modifiers.around(step))
    }

    /// Reads what a step is; who has it and what its failure means is known.
    fn of_body(
        &mut self,
        (name, on_error): (Option<String>, OnError),
        body: &Field<'_>,
        (fields, at): (&mut Fields<'_>, &mut Vec<usize>),
        spots: &mut Spots,
    ) -> Option<Step> {
        let inputs = if body.key == "flow" { fields.take("inputs") } else { None };
        self.refuse(fields, &["inputs"], "a step with `flow`", body);
        if !body.key.starts_with("prompt") {
            self.refuse(fields, &agent::KEYS, "a step with a prompt", body);
        }
        let name_or_none = name.clone().unwrap_or_default();
        match body.key {
            "parallel" => {
                self.steps(body, at).and_then(|it| self.made(body.at, Step::parallel(it)))
            }
            "steps" => self.steps(body, at).and_then(|it| self.made(body.at, Step::sequence(it))),
            "flow" => self.inner((name, body), inputs, on_error, spots),
            "compute" => self.computed(name_or_none, body, on_error),
            _ => {
                let agent = self.agent(name_or_none, body, fields, spots);
                Some(Step::Agent(AgentStep { on_error, ..agent }))
            }
        }
    }

    /// Says of a step without a name that it needs one, if it does.
    fn lacks_name(&mut self, begin: usize, body: &Field<'_>, modifiers: &Modifiers) -> bool {
        let what = match body.key {
            // One that has a name of its own.
            "flow" => return false,
            "parallel" | "steps" if modifiers.each.is_none() => return false,
            "parallel" | "steps" => "for_each",
            other => other,
        };
        self.error(begin, format!("a step with `{what}` needs a `name`"));
        true
    }

    /// Finds out what a step is.
    fn body_of<'a>(&mut self, fields: &mut Fields<'a>) -> Option<Field<'a>> {
        let mut bodies: Vec<_> = BODIES.iter().filter_map(|key| fields.take(key)).collect();
        bodies.sort_by_key(|field| field.at);
        match bodies.as_slice() {
            [body] => Some(*body),
            [] => {
                let (at, message) = bodiless(fields);
                self.error(at, message);
                None
            }
            [first, second, ..] => {
                let (first, other, at) = (first.key, second.key, second.at);
                let message = format!("a step has `{first}` or `{other}`, not both");
                self.error(at, message);
                None
            }
        }
    }

    /// Refuses what belongs to another kind of step.
    fn refuse(&mut self, fields: &mut Fields<'_>, keys: &[&str], whose: &str, body: &Field<'_>) {
        for field in keys.iter().filter_map(|key| fields.take(key)) {
            let (key, body) = (field.key, body.key);
            self.error(field.at, format!("`{key}` is for {whose}, and this one has `{body}`"));
        }
    }

    fn on_error(&mut self, field: Option<Field<'_>>, body: &Field<'_>) -> OnError {
        let Some(field) = field else { return OnError::default() };
        if matches!(body.key, "parallel" | "steps") {
            let message = format!("`on_error` is for the steps in `{}`, each for itself", body.key);
            self.error(field.at, message);
        }
        let words = [("continue", OnError::Continue), ("stop", OnError::Stop)];
        self.one_of(&field, &words).unwrap_or_default()
    }

    fn made(&mut self, begin: usize, made: Result<Step, FlowError>) -> Option<Step> {
        made.map_err(|error| self.error(begin, error.to_string())).ok()
    }

    /// Reads a flow that is a step of this one.
    fn inner(
        &mut self,
        (name, field): (Option<String>, &Field<'_>),
        inputs: Option<Field<'_>>,
        on_error: OnError,
        spots: &mut Spots,
    ) -> Option<Step> {
        let passed = inputs.map(|inputs| self.passed(&inputs, spots)).unwrap_or_default();
        let flow = self.nested(field)?;
        let name = match name {
            Some(name) => name,
            None if is_name(flow.name()) => flow.name().to_string(),
            None => {
                let message = format!(
                    "this step needs a `name`: that of its flow, `{}`, is none that texts can use",
                    flow.name()
                );
                self.error(field.at, message);
                return None;
            }
        };
        let at = inputs.map_or(field.at, |inputs| inputs.at);
        self.made(at, Step::inner(name, flow, passed, on_error))
    }

    fn nested(&mut self, field: &Field<'_>) -> Option<Arc<Flow>> {
        let (path, opened) = self.named_flow(field)?;
        let chain = &self.reading.chain;
        if let Some(place) = chain.iter().position(|(identity, _)| *identity == opened.identity) {
            let again = path.display().to_string();
            let names = chain[place..].iter().map(|(_, name)| name).chain([&again]);
            let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
            let message = format!("a flow cannot be a step of itself: {}", names.join(" → "));
            self.error(field.at, message);
            return None;
        }
        if chain.len() >= NESTING_CAP as usize {
            self.error(field.at, FlowError::TooDeep.to_string());
            return None;
        }
        self.reading.file(self.sources, &path, opened)
    }

    /// Reads what a nested flow is given.
    fn passed(&mut self, field: &Field<'_>, spots: &mut Spots) -> Vec<(Arc<str>, Passed)> {
        let Some(fields) = self.table(field) else { return Vec::new() };
        let mut passed = Vec::new();
        for field in fields.left() {
            let name: Arc<str> = field.key.into();
            let value = match field.value.get_ref().as_str() {
                Some(text) => {
                    let text = (Spot::Here(field.value.span()), text.into());
                    let place = TextPlace::Input(Arc::clone(&name));
                    Some(Passed::Words(self.wording(place, field.key, text, spots)))
                }
                None => self.json(&field).map(Passed::Value),
            };
            passed.extend(value.map(|value| (name, value)));
        }
        passed
    }

    fn computed(&mut self, name: String, field: &Field<'_>, on_error: OnError) -> Option<Step> {
        let wanted = self.text(field)?;
        let known = &self.reading.known.computations;
        if let Some((_, compute)) = known.iter().find(|(name, _)| *name == wanted) {
            return Some(Step::computed(name, Arc::clone(compute), on_error));
        }
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let which = match names.as_slice() {
            [] => "; a file can name none".to_owned(),
            names => meant(&wanted, names),
        };
        self.error(field.at, format!("tine computes nothing called `{}`{which}", shown(&wanted)));
        None
    }

    fn modifiers(&mut self, fields: &mut Fields<'_>, spots: &mut Spots) -> Modifiers {
        let when = fields.take("when");
        let when = when.and_then(|field| self.expression(&field, TextPlace::When, spots));
        let each = fields.take("for_each");
        let most = fields.take("max_items");
        self.needs(most.as_ref(), each.is_some(), "for_each");
        let most = most.and_then(|field| self.count(&field, ITEMS_CAP));
        let is_each = each.is_some();
        let each = each.and_then(|field| self.expression(&field, TextPlace::ForEach, spots));
        let each = each.map(|items| (items, most.unwrap_or(ITEMS_BY_DEFAULT)));
        let until = fields.take("until");
        let rounds = fields.take("max_rounds");
        self.needs(rounds.as_ref(), until.is_some(), "until");
        if let (Some(field), None) = (&until, &rounds) {
            self.error(field.at, "an `until` needs `max_rounds`, how often at most".to_owned());
        }
        let rounds = rounds.and_then(|field| self.count(&field, ROUNDS_CAP));
        let is_until = until.is_some();
        let until = until.and_then(|field| self.expression(&field, TextPlace::Until, spots));
        let until = until.zip(rounds);
        self.lacks |= is_each != each.is_some() || is_until != until.is_some();
        Modifiers { when, each, until }
    }

    fn needs(&mut self, field: Option<&Field<'_>>, is_there: bool, other: &str) {
        if let Some(field) = field.filter(|_| !is_there) {
            self.error(field.at, format!("`{}` is for a step with `{other}`", field.key));
        }
    }

    fn count(&mut self, field: &Field<'_>, most: u32) -> Option<NonZeroU32> {
        let number = self.number(field, (1, most.into()))?;
        u32::try_from(number).ok().and_then(NonZeroU32::new)
    }

    pub(super) fn expression(
        &mut self,
        field: &Field<'_>,
        place: TextPlace,
        spots: &mut Spots,
    ) -> Option<Expression> {
        let text = self.text(field)?;
        if text.trim_start().starts_with("{{") {
            let message =
                format!("`{}` is an expression, which stands without `{{{{ }}}}`", field.key);
            self.error(field.at, message);
            return None;
        }
        let spot = Spot::Here(field.value.span());
        let expression = Expression::parse(text);
        if let Err(error) = &expression {
            self.text_error(field.key, &spot, error);
        }
        spots.texts.push((place, spot));
        expression.ok()
    }
}

/// Says where and what is wrong with a step that is nothing: a key may be meant for
/// what it is.
fn bodiless(fields: &Fields<'_>) -> (usize, String) {
    let is_known = |key: &str| key == "inputs" || agent::KEYS.contains(&key);
    let meant = fields
        .keys()
        .filter(|(key, _)| !is_known(key))
        .find_map(|(key, at)| Some((key, at, nearest(key, &BODIES)?)));
    match meant {
        Some((key, at, body)) => {
            (at, format!("there is no key `{}` here; did you mean `{body}`?", shown(key)))
        }
        None => (fields.at, format!("a step has one of {}, and this one has none", listed(BODIES))),
    }
}

const ITEMS_BY_DEFAULT: NonZeroU32 = match NonZeroU32::new(ITEMS) {
    Some(items) => items,
    None => NonZeroU32::MIN,
};

/// When, for what and how often a step is walked.
struct Modifiers {
    when: Option<Expression>,
    each: Option<(Expression, NonZeroU32)>,
    until: Option<(Expression, NonZeroU32)>,
}

impl Modifiers {
    /// Puts these around a step: the condition is asked first, then come the
    /// items, and the rounds of each.
    fn around(self, step: Step) -> Result<Step, FlowError> {
        let name = step.name().cloned();
        let step = match self.until {
            Some((condition, rounds)) => Step::until(condition, rounds, step)?,
            None => step,
        };
        let step = match self.each {
            Some((items, most)) => Step::each(name.unwrap_or_default(), items, most, step)?,
            None => step,
        };
        match self.when {
            Some(condition) => Step::when(condition, step),
            None => Ok(step),
        }
    }
}
