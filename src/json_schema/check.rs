//! Holds a value against a schema.
//!
//! What is found out of a part of the value against a part of the schema is
//! kept: alternatives that hold the same parts in common would else be twice the
//! work on each level.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value};

use super::node::{
    Counted, InPlace, Node, NodeId, OfFields, OfItems, Pattern, Properties, Rule, is_multiple,
};
use super::seen::Seen;
use super::{BYTES_PER_STEP, DEPTH_CAP, KNOWN_CAP, STEPS_CAP, STOP_EVERY, Unchecked};

/// One check of one value.
pub(super) struct Run<'s> {
    pub(super) nodes: &'s [Node],
    /// By subschema and by where the part of the value is in memory, which stays
    /// there for as long as it is checked.
    pub(super) known: HashMap<(NodeId, usize), bool>,
    /// The same of which parts were looked at.
    pub(super) seen: HashMap<(NodeId, usize), Rc<Seen>>,
    pub(super) steps: usize,
    depth: u32,
    is_stopped: &'s dyn Fn() -> bool,
}

pub(super) type Checked<T> = Result<T, Unchecked>;

impl<'s> Run<'s> {
    pub(super) fn new(nodes: &'s [Node], is_stopped: &'s dyn Fn() -> bool) -> Self {
        let (known, seen) = (HashMap::new(), HashMap::new());
        Self { nodes, known, seen, steps: 0, depth: 0, is_stopped }
    }

    /// Tells whether a value fits a subschema.
    pub(super) fn fits(&mut self, node: NodeId, value: &Value) -> Checked<bool> {
        // Whoever asks again takes a step again: many may ask the same.
        self.step(1)?;
        if self.nodes[node.index()].rules.is_empty() {
            return Ok(true);
        }
        let key = key(node, value);
        if let Some(fits) = self.known.get(&key) {
            return Ok(*fits);
        }
        let fits = self.within(|run| {
            for rule in &run.nodes[node.index()].rules {
                if !run.holds(node, rule, value)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        if self.known.len() == KNOWN_CAP {
            return Err(Unchecked::Steps);
        }
        self.known.insert(key, fits);
        Ok(fits)
    }

    /// Goes one level deeper.
    pub(super) fn within<T>(&mut self, check: impl FnOnce(&mut Self) -> Checked<T>) -> Checked<T> {
        if self.depth == DEPTH_CAP {
            return Err(Unchecked::Depth);
        }
        self.depth += 1;
        let checked = check(self);
        self.depth -= 1;
        checked
    }

    /// Counts steps.
    pub(super) fn step(&mut self, steps: usize) -> Checked<()> {
        let looked = self.steps / STOP_EVERY;
        self.steps = self.steps.saturating_add(steps);
        if self.steps > STEPS_CAP {
            return Err(Unchecked::Steps);
        }
        if self.steps / STOP_EVERY > looked && (self.is_stopped)() {
            return Err(Unchecked::Stopped);
        }
        Ok(())
    }

    /// Tells whether a pattern is in a text. What that may read is paid before.
    fn is_in(&mut self, pattern: &Pattern, text: &str) -> Checked<bool> {
        for attempt in pattern.attempts() {
            self.step(attempt.cost(text.len()))?;
            if let Some(is_in) = attempt.is_in(text) {
                return Ok(is_in);
            }
        }
        Err(Unchecked::Pattern)
    }

    /// Tells whether a value keeps a rule of a subschema.
    pub(super) fn holds(&mut self, node: NodeId, rule: &'s Rule, value: &Value) -> Checked<bool> {
        self.step(1)?;
        // Whatever is said of other types than the value's, holds.
        match (rule, value) {
            (Rule::Never, _) => Ok(false),
            (Rule::Types(types), _) => Ok(types.iter().any(|known| known.takes(value))),
            (Rule::Values(values), _) => {
                self.step(values.len())?;
                Ok(values.contains(value))
            }
            (Rule::Bound(bound), Value::Number(number)) => Ok(bound.holds(number)),
            (Rule::MultipleOf(of), Value::Number(number)) => Ok(is_multiple(number, of)),
            (Rule::Pattern(pattern), Value::String(text)) => self.is_in(pattern, text),
            (Rule::Count(count), _) => {
                if let (Counted::Characters, Value::String(text)) = (count.of, value) {
                    self.step(text.len() / BYTES_PER_STEP)?;
                }
                Ok(count.of.of(value).is_none_or(|have| {
                    if count.is_least { have >= count.limit } else { have <= count.limit }
                }))
            }
            (Rule::InPlace(rule), _) => self.holds_in_place(rule, value),
            (Rule::Items(rule), Value::Array(items)) => {
                self.holds_of_items((node, rule), items, value)
            }
            (Rule::Fields(rule), Value::Object(fields)) => {
                self.holds_of_fields((node, rule), fields, value)
            }
            (
                Rule::Bound(_)
                | Rule::MultipleOf(_)
                | Rule::Pattern(_)
                | Rule::Items(_)
                | Rule::Fields(_),
                _,
            ) => Ok(true),
        }
    }

    fn holds_in_place(&mut self, rule: &'s InPlace, value: &Value) -> Checked<bool> {
        match rule {
            InPlace::All(nodes) => {
                for node in nodes {
                    if !self.fits(*node, value)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            InPlace::Any(nodes) => Ok(self.fitting(nodes, value, 1)? > 0),
            InPlace::One(nodes) => Ok(self.fitting(nodes, value, 2)? == 1),
            InPlace::Not(node) => self.fits(*node, value).map(|fits| !fits),
            InPlace::If { test, then, otherwise } => {
                let next = if self.fits(*test, value)? { then } else { otherwise };
                next.map_or(Ok(true), |next| self.fits(next, value))
            }
            InPlace::Ref(node) => self.fits(*node, value),
            InPlace::Dependent { name, node } => match value.get(name) {
                Some(_) => self.fits(*node, value),
                None => Ok(true),
            },
        }
    }

    /// Counts the subschemas that a value fits, up to `enough`.
    pub(super) fn fitting(
        &mut self,
        nodes: &[NodeId],
        value: &Value,
        enough: usize,
    ) -> Checked<usize> {
        let mut fitting = 0;
        for node in nodes {
            fitting += usize::from(self.fits(*node, value)?);
            if fitting == enough {
                break;
            }
        }
        Ok(fitting)
    }

    fn holds_of_items(
        &mut self,
        (node, rule): (NodeId, &'s OfItems),
        items: &[Value],
        value: &Value,
    ) -> Checked<bool> {
        match rule {
            OfItems::Unique => {
                self.step(items.len())?;
                let mut seen = HashSet::with_capacity(items.len());
                Ok(items.iter().all(|item| seen.insert(item)))
            }
            OfItems::Each { first, rest } => {
                for (at, item) in items.iter().enumerate() {
                    let Some(node) = first.get(at).or(rest.as_ref()) else { break };
                    if !self.fits(*node, item)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            OfItems::Contains { node, least, most } => {
                let fitting = self.items_fitting(*node, items)?;
                Ok(fitting >= *least && most.is_none_or(|most| fitting <= most))
            }
            OfItems::Unevaluated(rest) => {
                let seen = self.seen_items(node, items, value)?;
                for (at, item) in items.iter().enumerate() {
                    if !seen.has(at) && !self.fits(*rest, item)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    pub(super) fn items_fitting(&mut self, node: NodeId, items: &[Value]) -> Checked<u64> {
        let mut fitting = 0;
        for item in items {
            fitting += u64::from(self.fits(node, item)?);
        }
        Ok(fitting)
    }

    fn holds_of_fields(
        &mut self,
        (node, rule): (NodeId, &'s OfFields),
        fields: &Map<String, Value>,
        value: &Value,
    ) -> Checked<bool> {
        match rule {
            OfFields::Required(names) => {
                self.step(names.len())?;
                Ok(names.iter().all(|name| fields.contains_key(name)))
            }
            OfFields::Dependent { name, required } => {
                self.step(required.len())?;
                let is_there = fields.contains_key(name);
                Ok(!is_there || required.iter().all(|name| fields.contains_key(name)))
            }
            OfFields::Names(node) => {
                for name in fields.keys() {
                    if !self.name_fits(*node, name)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            OfFields::Each(properties) => {
                for (name, value) in fields {
                    for node in self.nodes_of(properties, name)? {
                        if !self.fits(node, value)? {
                            return Ok(false);
                        }
                    }
                }
                Ok(true)
            }
            OfFields::Unevaluated(rest) => {
                let seen = self.seen_fields(node, fields, value)?;
                for (at, value) in fields.values().enumerate() {
                    if !seen.has(at) && !self.fits(*rest, value)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Tells whether a property's name fits. It is in memory only for now, so
    /// nothing that is found out of it is kept.
    pub(super) fn name_fits(&mut self, node: NodeId, name: &str) -> Checked<bool> {
        let known = std::mem::take(&mut self.known);
        let fits = self.fits(node, &Value::String(name.to_owned()));
        self.known = known;
        fits
    }

    /// Returns the subschemas that a property is to fit.
    pub(super) fn nodes_of(
        &mut self,
        properties: &'s Properties,
        name: &str,
    ) -> Checked<Vec<NodeId>> {
        let Properties { named, patterns, rest } = properties;
        self.step(named.len())?;
        let named = named.iter().find(|(known, _)| known == name);
        let mut nodes: Vec<NodeId> = named.map(|(_, node)| *node).into_iter().collect();
        for (pattern, node) in patterns {
            if self.is_in(pattern, name)? {
                nodes.push(*node);
            }
        }
        if nodes.is_empty() {
            nodes.extend(*rest);
        }
        Ok(nodes)
    }
}

/// Returns what is known of a subschema and a part of the value by.
pub(super) fn key(node: NodeId, value: &Value) -> (NodeId, usize) {
    (node, std::ptr::from_ref(value) as usize)
}
