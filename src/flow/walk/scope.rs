//! What a text of a flow may read where it stands, and how it is filled in.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use minijinja::value::{DynObject, Object, Serde};
use minijinja::{Environment, Value};

use super::came::Exports;
use crate::flow::given::Given;
use crate::flow::inputs::InputValues;
use crate::flow::step::{Each, Inner, Passed, Step, Until, When};
use crate::flow::text::{self, Expression, Wording};
use crate::flow::{Flow, RENDERED_CAP};

/// What there is where a step stands. A clone costs next to nothing: each item
/// of ten thousand has one.
#[derive(Clone)]
pub(super) struct Scope {
    inputs: Value,
    steps: Arc<Results>,
    item: Option<(Value, usize)>,
    pub(super) round: Option<u32>,
}

/// What steps came to, by name.
#[derive(Debug, Clone, Default)]
struct Results(BTreeMap<Arc<str>, Value>);

impl Object for Results {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_str()?).cloned()
    }
}

impl Scope {
    /// What there is at the beginning of a flow.
    pub(super) fn new(inputs: &InputValues) -> Self {
        let inputs = Value::from(Serde(inputs.values()));
        Self { inputs, steps: Arc::default(), item: None, round: None }
    }

    /// What there is for one item.
    pub(super) fn with_item(&self, item: Value, index: usize) -> Self {
        Self { item: Some((item, index)), ..self.clone() }
    }

    /// From here on there is what these steps came to.
    pub(super) fn learn(&mut self, exports: &Exports) {
        if !exports.is_empty() {
            let steps = &mut Arc::make_mut(&mut self.steps).0;
            steps.extend(exports.iter().map(|(name, value)| (Arc::clone(name), value.clone())));
        }
    }

    /// Returns what a computation is given that reads these steps.
    pub(super) fn given(&self, reads: &[&str]) -> Given {
        let plain = |value: &Value| serde_json::to_value(value).unwrap_or_default();
        let read = |name: &&str| Some((name.to_string(), plain(self.steps.0.get(*name)?)));
        Given {
            inputs: plain(&self.inputs),
            steps: reads.iter().filter_map(read).collect(),
            item: self.item.as_ref().map(|(item, _)| plain(item)),
            index: self.item.as_ref().map(|(_, index)| *index),
            round: self.round,
        }
    }

    fn names(&self) -> Value {
        let steps = DynObject::new(Arc::clone(&self.steps));
        let mut names = BTreeMap::from([
            ("inputs", self.inputs.clone()),
            ("steps", Value::from_dyn_object(steps)),
        ]);
        if let Some((item, index)) = &self.item {
            names.extend([("item", item.clone()), ("index", Value::from(*index))]);
        }
        names.extend(self.round.map(|round| ("round", Value::from(round))));
        Value::from(names)
    }
}

/// Fills in the texts of a flow.
pub(super) struct Texts {
    /// With every template of the flow, each under its own text.
    environment: Environment<'static>,
}

impl Texts {
    pub(super) fn of(flow: &Flow) -> Self {
        let mut texts = Self { environment: text::environment() };
        texts.add(flow.step());
        texts
    }

    fn add(&mut self, step: &Step) {
        match step {
            Step::Agent(agent) => self.add_wording(&agent.prompt),
            Step::Sequence(steps) | Step::Parallel(steps) => {
                steps.iter().for_each(|step| self.add(step));
            }
            Step::Each(Each { body, .. })
            | Step::Until(Until { body, .. })
            | Step::When(When { body, .. }) => self.add(body),
            Step::Inner(Inner { flow, inputs, .. }) => {
                for (_, passed) in inputs {
                    if let Passed::Words(wording) = passed {
                        self.add_wording(wording);
                    }
                }
                self.add(flow.step());
            }
            Step::Computed(_) => {}
        }
    }

    fn add_wording(&mut self, wording: &Wording) {
        match wording {
            Wording::Verbatim(_) => {}
            Wording::Template(_) => {
                if self.environment.get_template(wording.source()).is_ok() {
                    return;
                }
                let source = wording.source().to_string();
                let added = self.environment.add_template_owned(source.clone(), source);
                added.expect("a template is made only of a text that follows the grammar");
            }
        }
    }

    /// Fills in words. The error says what is wrong, and where.
    pub(super) fn words(&self, wording: &Wording, scope: &Scope) -> Result<Arc<str>, String> {
        let source = match wording {
            Wording::Verbatim(text) => return Ok(Arc::clone(text)),
            Wording::Template(_) => wording.source(),
        };
        let template = self.environment.get_template(source).map_err(|error| said(&error))?;
        let mut out = Bounded { text: Vec::new() };
        match template.render_captured_to(scope.names(), &mut out) {
            Ok(_) => {}
            Err(_) if out.is_full() => {
                return Err(format!("it comes to more than {RENDERED_CAP} bytes"));
            }
            Err(error) => return Err(said(&error)),
        }
        let text = String::from_utf8(out.text).map_err(|error| error.to_string())?;
        Ok(text.into())
    }

    /// Gives the value of an expression.
    pub(super) fn value(&self, expression: &Expression, scope: &Scope) -> Result<Value, String> {
        let source = expression.source().to_string();
        let compiled = self.environment.compile_expression_owned(source);
        let value = compiled.and_then(|compiled| compiled.eval(scope.names()));
        match value.map_err(|error| said(&error))? {
            value if value.is_undefined() => Err("there is no such value".to_owned()),
            value => Ok(value),
        }
    }

    /// Tells whether an expression holds.
    pub(super) fn holds(&self, expression: &Expression, scope: &Scope) -> Result<bool, String> {
        self.value(expression, scope).map(|value| value.is_true())
    }
}

fn said(error: &minijinja::Error) -> String {
    match error.line() {
        Some(line) if line > 1 => format!("{} (line {line})", text::said(error)),
        Some(_) | None => text::said(error),
    }
}

/// Takes as much text as an agent may be given.
struct Bounded {
    text: Vec<u8>,
}

impl Bounded {
    fn is_full(&self) -> bool {
        self.text.len() > RENDERED_CAP
    }
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // One byte too many is kept, to tell that there was one.
        let room = (RENDERED_CAP + 1).saturating_sub(self.text.len());
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if self.is_full() { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A step's place in its flow, by names that stay the same however the steps
/// around it are put together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Key {
    text: Arc<str>,
    /// What was entered last. A step of the same name is that very step.
    last: Option<Arc<str>>,
}

impl Key {
    /// The place of what goes by this name here.
    pub(super) fn entered(&self, name: &str) -> Self {
        if self.last.as_deref() == Some(name) {
            return self.clone();
        }
        let text =
            if self.text.is_empty() { name.into() } else { self.text(format_args!("/{name}")) };
        Self { text, last: Some(name.into()) }
    }

    /// The place of one item of it.
    pub(super) fn item(&self, index: usize) -> Self {
        Self { text: self.text(format_args!("[{index}]")), last: self.last.clone() }
    }

    /// The place of one round of it.
    pub(super) fn round(&self, round: u32) -> Self {
        Self { text: self.text(format_args!("#{round}")), last: self.last.clone() }
    }

    /// The place of what is inside it, whatever its name.
    pub(super) fn closed(self) -> Self {
        Self { last: None, ..self }
    }

    /// Returns it as the log has it.
    pub(super) fn as_text(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns what people read.
    pub(super) fn label(&self) -> Arc<str> {
        match self.text.rsplit_once('/') {
            Some((_, last)) => last.into(),
            None => Arc::clone(&self.text),
        }
    }

    fn text(&self, more: std::fmt::Arguments<'_>) -> Arc<str> {
        format!("{}{more}", self.text).into()
    }
}

#[cfg(test)]
mod tests;
