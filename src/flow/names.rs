//! Which names a text of a flow may use: found out before anything runs, from
//! the tree alone.
//!
//! A step is there for whatever has to come behind it: steps after it in a
//! sequence around it, at any depth. What is inside a `for_each` is there for
//! nobody outside, since there is one of it for each item.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::error::{FlowError, StepPlace, TextPlace, listed};
use super::step::{AgentStep, Each, Inner, Passed, Step, Steps, Until, When};
use super::text::{Expression, GLOBALS, Wording};
use super::{Input, NAME_CAP};
use crate::slips;

/// The fields of what an agent, a nested flow or a computation came to.
pub(super) const ANSWER_FIELDS: [&str; 5] = ["status", "text", "value", "error", "unit"];

/// The fields of what several steps came to.
pub(super) const GROUP_FIELDS: [&str; 3] = ["status", "items", "error"];

/// Most slips between a name that is not there and one that may be meant.
const SLIPS_CAP: usize = 2;

/// Most names that are held against one that is not there: a flow of a thousand
/// wrong names is not compared with itself.
const MEANT_CAP: usize = 100;

/// Most names that are listed where one is not there.
const LISTED_CAP: usize = 25;

/// What a step gives those that come behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gives {
    /// What is answered to a schema, or made by a flow or the program.
    Answer,
    /// An answer in words, which has no value.
    Words,
    Group,
}

impl Gives {
    fn of(agent: &AgentStep) -> Self {
        if agent.schema.is_some() { Self::Answer } else { Self::Words }
    }
}

/// What there is where a text stands.
#[derive(Debug, Clone, Default)]
struct There {
    steps: BTreeMap<Arc<str>, Gives>,
    has_item: bool,
    has_round: bool,
}

/// A step and where it stands.
#[derive(Clone, Copy)]
struct Stands<'a> {
    step: &'a Step,
    at: &'a StepPlace,
}

/// Checks all names of a flow, and returns those of steps that texts use.
/// `success` is what must hold behind all of it.
pub(super) fn check(
    inputs: &[Input],
    step: &Step,
    success: Option<&Expression>,
) -> Result<BTreeSet<Arc<str>>, Vec<FlowError>> {
    let mut check = Check::new(inputs);
    let at = StepPlace::default();
    let whole = Stands { step, at: &at };
    check.declare(whole, None);
    let gives = check.step(whole, &There::default());
    if let Some(success) = success {
        let there = There { steps: gives.into_iter().collect(), ..There::default() };
        check.expression(whole, TextPlace::Success, success, &there);
    }
    if check.errors.is_empty() { Ok(check.kept) } else { Err(check.errors) }
}

struct Check<'a> {
    /// The inputs as they are declared.
    inputs: Vec<&'a str>,
    /// The same, to find one of thousands.
    known_inputs: BTreeSet<&'a str>,
    /// Every step that has a name, with the `for_each` that it is inside.
    declared: BTreeMap<Arc<str>, Option<Arc<str>>>,
    kept: BTreeSet<Arc<str>>,
    errors: Vec<FlowError>,
}

impl<'a> Check<'a> {
    fn new(inputs: &'a [Input]) -> Self {
        let inputs: Vec<&str> = inputs.iter().map(|input| &*input.name).collect();
        let known_inputs = inputs.iter().copied().collect();
        let (declared, kept) = (BTreeMap::new(), BTreeSet::new());
        Self { inputs, known_inputs, declared, kept, errors: Vec::new() }
    }

    /// Takes note of every name, whether or not a text may use it.
    fn declare(&mut self, Stands { step, at }: Stands<'_>, inside: Option<&Arc<str>>) {
        match step {
            Step::Agent(_) | Step::Inner(_) | Step::Computed(_) => self.name(step, at, inside),
            Step::Sequence(steps) | Step::Parallel(steps) => {
                self.name(step, at, inside);
                for (step, at) in members(steps, at) {
                    self.declare(Stands { step, at: &at }, inside);
                }
            }
            Step::Each(Each { name, body, .. }) => {
                self.name(step, at, inside);
                // What it walks for each item may go by the same name.
                let is_same = body.name() == Some(name);
                let outside = is_same.then(|| self.declared.remove(name)).flatten();
                self.declare(Stands { step: body, at }, Some(name));
                if let Some(outside) = outside {
                    self.declared.insert(Arc::clone(name), outside);
                }
            }
            Step::Until(Until { body, .. }) | Step::When(When { body, .. }) => {
                self.declare(Stands { step: body, at }, inside);
            }
        }
    }

    fn name(&mut self, step: &Step, at: &StepPlace, inside: Option<&Arc<str>>) {
        let Some(name) = step.name() else { return };
        if !is_name(name) {
            let name = Arc::clone(name);
            self.errors.push(FlowError::NoName { name, at: at.clone() });
        } else if self.declared.insert(Arc::clone(name), inside.cloned()).is_some() {
            self.errors.push(FlowError::Twice { name: Arc::clone(name), at: at.clone() });
        }
    }

    /// Checks a step and returns what is there behind it.
    fn step(&mut self, stands: Stands<'_>, there: &There) -> Vec<(Arc<str>, Gives)> {
        let Stands { step, at } = stands;
        let named = |gives| step.name().map(|name| (Arc::clone(name), gives));
        match step {
            Step::Agent(agent) => {
                self.wording(stands, TextPlace::Prompt, &agent.prompt, there);
                named(Gives::of(agent)).into_iter().collect()
            }
            Step::Sequence(steps) => {
                let mut here = there.clone();
                let mut gives = Vec::new();
                for (step, at) in members(steps, at) {
                    let more = self.step(Stands { step, at: &at }, &here);
                    here.steps.extend(more.iter().cloned());
                    gives.extend(more);
                }
                gives.extend(named(Gives::Group));
                gives
            }
            Step::Parallel(steps) => {
                let mut gives = Vec::new();
                for (step, at) in members(steps, at) {
                    gives.extend(self.step(Stands { step, at: &at }, there));
                }
                gives.extend(named(Gives::Group));
                gives
            }
            Step::Each(Each { items, body, .. }) => {
                self.expression(stands, TextPlace::ForEach, items, there);
                let inside = There { has_item: true, ..there.clone() };
                // What is inside is there for nobody outside.
                let _ = self.step(Stands { step: body, at }, &inside);
                named(Gives::Group).into_iter().collect()
            }
            Step::Until(Until { condition, body, .. }) => {
                let mut inside = There { has_round: true, ..there.clone() };
                let gives = self.step(Stands { step: body, at }, &inside);
                inside.steps.extend(gives.iter().cloned());
                self.expression(stands, TextPlace::Until, condition, &inside);
                gives
            }
            Step::When(When { condition, body }) => {
                self.expression(stands, TextPlace::When, condition, there);
                self.step(Stands { step: body, at }, there)
            }
            Step::Inner(Inner { inputs, .. }) => {
                for (name, passed) in inputs {
                    if let Passed::Words(wording) = passed {
                        self.wording(stands, TextPlace::Input(Arc::clone(name)), wording, there);
                    }
                }
                named(Gives::Answer).into_iter().collect()
            }
            Step::Computed(computed) => {
                for name in computed.compute.reads() {
                    let name = format!("steps.{name}");
                    self.text_name(stands, &TextPlace::Computation, &name, there);
                }
                named(Gives::Answer).into_iter().collect()
            }
        }
    }

    fn wording(&mut self, stands: Stands<'_>, text: TextPlace, wording: &Wording, there: &There) {
        for name in wording.names() {
            self.text_name(stands, &text, name, there);
        }
    }

    fn expression(
        &mut self,
        stands: Stands<'_>,
        text: TextPlace,
        expression: &Expression,
        there: &There,
    ) {
        for name in expression.names() {
            self.text_name(stands, &text, name, there);
        }
    }

    /// Checks one name that a text uses, such as `steps.plan.text`.
    fn text_name(&mut self, stands: Stands<'_>, text: &TextPlace, name: &str, there: &There) {
        let Err(why) = self.resolve(name, there) else { return };
        let step = stands.step.name().cloned().unwrap_or_else(|| kind(stands.step).into());
        let (at, text, name) = (stands.at.clone(), text.clone(), name.to_owned());
        self.errors.push(FlowError::Names { step, at, text, name, why });
    }

    fn resolve(&mut self, name: &str, there: &There) -> Result<(), String> {
        let mut parts = name.split('.');
        let first = parts.next().unwrap_or_default();
        let mut roots = vec!["inputs", "steps"];
        roots.extend(there.has_item.then_some(["item", "index"]).into_iter().flatten());
        roots.extend(there.has_round.then_some("round"));
        match (first, parts.next()) {
            ("inputs", Some(input)) => self.resolve_input(input),
            ("steps", Some(step)) => self.resolve_step(step, parts.next(), there),
            ("steps", None) => {
                Err("name one of them, as `steps.NAME`; what no text names is not kept".to_owned())
            }
            (root, _) if roots.contains(&root) || GLOBALS.contains(&root) => Ok(()),
            ("item" | "index", _) => Err("that is there only inside a `for_each`".to_owned()),
            ("round", _) => Err("that is there only inside an `until`".to_owned()),
            _ => Err(format!("there is no such thing here, but {}", listed(roots))),
        }
    }

    fn resolve_input(&self, name: &str) -> Result<(), String> {
        if self.known_inputs.contains(name) {
            return Ok(());
        }
        match &*self.inputs {
            [] => Err("the flow has no inputs".to_owned()),
            known => Err(format!("there is no such input{}", meant(name, known))),
        }
    }

    fn resolve_step(
        &mut self,
        name: &str,
        field: Option<&str>,
        there: &There,
    ) -> Result<(), String> {
        let Some(gives) = there.steps.get(name) else { return Err(self.no_step(name, there)) };
        let fields: &[&str] = match gives {
            Gives::Answer | Gives::Words => &ANSWER_FIELDS,
            Gives::Group => &GROUP_FIELDS,
        };
        if let Some(field) = field.filter(|field| !fields.contains(field)) {
            return Err(format!("`{name}` has no `{field}`, but {}", listed(fields)));
        }
        if (gives, field) == (&Gives::Words, Some("value")) {
            return Err(format!(
                "`{name}` answers in words, so it has no value; give it a `schema` or a \
                 `schema_file`, or name `steps.{name}.text`"
            ));
        }
        self.kept.insert(name.into());
        Ok(())
    }

    fn no_step(&self, name: &str, there: &There) -> String {
        match self.declared.get(name) {
            Some(Some(each)) => format!(
                "it is a step inside the `for_each` of `{each}`, of which there is one for each \
                 item; `steps.{each}.items` has what they came to"
            ),
            Some(None) => "that step has not ended for sure when this one begins".to_owned(),
            None => {
                let known: Vec<&str> = there.steps.keys().map(|known| &**known).collect();
                match known.as_slice() {
                    [] => "no step has ended before this one".to_owned(),
                    known => format!("there is no such step{}", meant(name, known)),
                }
            }
        }
    }
}

/// Returns the steps of a sequence or a parallel, and where they stand.
fn members<'a>(steps: &'a Steps, at: &'a StepPlace) -> impl Iterator<Item = (&'a Step, StepPlace)> {
    steps.iter().enumerate().map(|(index, step)| {
        let mut place = at.0.clone();
        place.push(index);
        (step, StepPlace(place))
    })
}

/// Says which one of these is meant, or what there is.
pub(super) fn meant(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if known.len() > LISTED_CAP => {
            let more = known.len() - LISTED_CAP;
            format!("; there are {} and {more} more", listed(&known[..LISTED_CAP]))
        }
        None => format!("; there are {}", listed(known)),
    }
}

/// Returns the one of these that may be meant. Of words that share less than half of
/// their letters neither is meant by the other.
pub(super) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let letters = |word: &str| word.chars().take(NAME_CAP).collect::<Vec<_>>();
    let name = letters(name);
    let near = known.iter().take(MEANT_CAP).filter_map(|known| {
        let other = letters(known);
        let slips = slips::distance(&name, &other);
        let is_near = slips <= SLIPS_CAP && 2 * slips < name.len().max(other.len());
        is_near.then_some((slips, *known))
    });
    near.min().map(|(_, known)| known)
}

/// Tells whether a text can use a name.
pub(super) fn is_name(name: &str) -> bool {
    let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    name.len() <= NAME_CAP
        && name.starts_with(is_first)
        && name.chars().all(|letter| is_first(letter) || letter.is_ascii_digit())
}

/// Returns what a step is called that has no name.
pub(super) fn kind(step: &Step) -> &'static str {
    match step {
        Step::Agent(_) => "agent",
        Step::Sequence(_) => "sequence",
        Step::Parallel(_) => "parallel",
        Step::Each(_) => "for_each",
        Step::Until(_) => "until",
        Step::When(_) => "when",
        Step::Inner(_) => "flow",
        Step::Computed(_) => "computed",
    }
}

#[cfg(test)]
mod tests;
