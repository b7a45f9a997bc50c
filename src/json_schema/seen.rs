//! Which parts of a value a subschema has looked at, for what is said of the
//! others: `unevaluatedItems` and `unevaluatedProperties`.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::check::{Checked, Run, key};
use super::node::{InPlace, NodeId, OfFields, OfItems, Rule};

/// Parts of a value, by their places in it.
#[derive(Debug)]
pub(super) enum Seen {
    All,
    Some(BTreeSet<usize>),
}

impl Seen {
    pub(super) fn has(&self, at: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(places) => places.contains(&at),
        }
    }

    /// Returns how many steps it takes to add it to others.
    fn steps(&self) -> usize {
        match self {
            Self::All => 1,
            Self::Some(places) => 1 + places.len(),
        }
    }

    fn add(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::All, _) => {}
            (_, Self::All) => *self = Self::All,
            (Self::Some(places), Self::Some(more)) => places.extend(more),
        }
    }
}

/// Says which parts a rule looks at; `None` if it looks at none.
type Look<'l, 's> = dyn FnMut(&mut Run<'s>, &'s Rule) -> Checked<Option<Seen>> + 'l;

impl<'s> Run<'s> {
    /// Returns the items that a subschema has looked at, besides what its own
    /// `unevaluatedItems` is about.
    pub(super) fn seen_items(
        &mut self,
        node: NodeId,
        items: &[Value],
        value: &Value,
    ) -> Checked<Seen> {
        self.seen(node, value, true, &mut |run, rule| {
            let Rule::Items(rule) = rule else { return Ok(None) };
            run.step(items.len())?;
            Ok(match rule {
                OfItems::Each { first: _, rest: Some(_) } | OfItems::Unevaluated(_) => {
                    Some(Seen::All)
                }
                OfItems::Each { first, rest: None } => {
                    Some(Seen::Some((0..first.len().min(items.len())).collect()))
                }
                OfItems::Contains { node, least: _, most: _ } => {
                    let mut found = BTreeSet::new();
                    for (at, item) in items.iter().enumerate() {
                        if run.fits(*node, item)? {
                            found.insert(at);
                        }
                    }
                    Some(Seen::Some(found))
                }
                OfItems::Unique => None,
            })
        })
    }

    /// The same of the properties of an object.
    pub(super) fn seen_fields(
        &mut self,
        node: NodeId,
        fields: &Map<String, Value>,
        value: &Value,
    ) -> Checked<Seen> {
        self.seen(node, value, true, &mut |run, rule| {
            let Rule::Fields(rule) = rule else { return Ok(None) };
            run.step(fields.len())?;
            Ok(match rule {
                OfFields::Unevaluated(_) => Some(Seen::All),
                OfFields::Each(properties) if properties.rest.is_some() => Some(Seen::All),
                OfFields::Each(properties) => {
                    let mut found = BTreeSet::new();
                    for (at, name) in fields.keys().enumerate() {
                        if !run.nodes_of(properties, name)?.is_empty() {
                            found.insert(at);
                        }
                    }
                    Some(Seen::Some(found))
                }
                OfFields::Required(_)
                | OfFields::Names(_)
                | OfFields::Dependent { name: _, required: _ } => None,
            })
        })
    }

    /// Puts together what a subschema looks at, and what those do that it holds
    /// the same value against, as far as they fit. `is_asking` says that it is
    /// the one that wants to know.
    fn seen(
        &mut self,
        node: NodeId,
        value: &Value,
        is_asking: bool,
        look: &mut Look<'_, 's>,
    ) -> Checked<Seen> {
        let mut seen = Seen::Some(BTreeSet::new());
        for rule in &self.nodes[node.index()].rules {
            self.step(1)?;
            let is_own = matches!(
                rule,
                Rule::Items(OfItems::Unevaluated(_)) | Rule::Fields(OfFields::Unevaluated(_))
            );
            if is_asking && is_own {
                continue;
            }
            if let Some(more) = look(self, rule)? {
                self.step(more.steps())?;
                seen.add(&more);
            }
            let Some(rule) = rule.in_place() else { continue };
            for node in self.fitting_in_place(rule, value)? {
                let more = self.seen_below(node, value, look)?;
                self.step(more.steps())?;
                seen.add(&more);
            }
        }
        Ok(seen)
    }

    /// Returns what a subschema looks at that another holds the same value
    /// against. It is found out once, however many lead there.
    fn seen_below(
        &mut self,
        node: NodeId,
        value: &Value,
        look: &mut Look<'_, 's>,
    ) -> Checked<Rc<Seen>> {
        let key = key(node, value);
        if let Some(seen) = self.seen.get(&key) {
            return Ok(Rc::clone(seen));
        }
        let seen = Rc::new(self.within(|run| run.seen(node, value, false, look))?);
        self.seen.insert(key, Rc::clone(&seen));
        Ok(seen)
    }

    /// Returns the subschemas that a value is held against and that count for
    /// it.
    fn fitting_in_place(&mut self, rule: &'s InPlace, value: &Value) -> Checked<Vec<NodeId>> {
        let nodes = match rule {
            InPlace::Not(_) => Vec::new(),
            InPlace::Dependent { name, node } => match value.get(name) {
                Some(_) => vec![*node],
                None => Vec::new(),
            },
            InPlace::If { test, then, otherwise } => match self.fits(*test, value)? {
                true => [Some(*test), *then].into_iter().flatten().collect(),
                false => otherwise.iter().copied().collect(),
            },
            InPlace::All(nodes) | InPlace::Any(nodes) | InPlace::One(nodes) => nodes.clone(),
            InPlace::Ref(node) => vec![*node],
        };
        let mut fitting = Vec::new();
        for node in nodes {
            if self.fits(node, value)? {
                fitting.push(node);
            }
        }
        Ok(fitting)
    }
}
