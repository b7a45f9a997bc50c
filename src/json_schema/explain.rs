//! Says in which places a value does not fit, in words for whoever made it.

use serde_json::{Map, Value};

use super::PROBLEMS_CAP;
use super::check::{Checked, Run};
use super::node::{Count, Counted, InPlace, NodeId, OfFields, OfItems, Rule, Side, Type};
use super::reference::below;

/// Most characters of a value, a name or a pattern that are told back.
const SHOWN_CAP: usize = 80;

/// Most values, names or alternatives that are listed.
const LISTED_CAP: usize = 8;

/// Most characters of a place: of a longer one the beginning is left out.
const PLACE_CAP: usize = 160;

/// Returns a sentence for each place, as far as they are listed.
pub(super) fn explain(run: &mut Run<'_>, value: &Value) -> Vec<String> {
    let mut problems = Problems::default();
    // What was found before the check gave up is true.
    let stopped = run.explain(NodeId::ROOT, value, "", &mut problems).err();
    if problems.found.is_empty() {
        let why = stopped.map_or_else(|| "does not fit".to_owned(), |why| why.to_string());
        problems.add("", &why);
    }
    problems.found
}

/// What does not fit, with its places.
#[derive(Default)]
struct Problems {
    found: Vec<String>,
    /// Whether they are those of one alternative among others.
    is_of_alternative: bool,
}

impl Problems {
    fn add(&mut self, place: &str, what: &str) {
        if self.is_full() {
            return;
        }
        let problem = match place {
            "" => format!("the whole: {what}"),
            place => format!("`{}`: {what}", ending(place)),
        };
        if !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }

    fn is_full(&self) -> bool {
        self.found.len() == PROBLEMS_CAP
    }
}

impl<'s> Run<'s> {
    fn explain(
        &mut self,
        node: NodeId,
        value: &Value,
        place: &str,
        problems: &mut Problems,
    ) -> Checked<()> {
        for rule in &self.nodes[node.index()].rules {
            if problems.is_full() {
                break;
            }
            if !self.holds(node, rule, value)? {
                self.within(|run| run.explain_rule(node, rule, value, (place, problems)))?;
            }
        }
        Ok(())
    }

    /// Explains a subschema if the value does not fit it.
    fn explain_misfit(
        &mut self,
        node: NodeId,
        value: &Value,
        place: &str,
        problems: &mut Problems,
    ) -> Checked<()> {
        if problems.is_full() || self.fits(node, value)? {
            return Ok(());
        }
        self.explain(node, value, place, problems)
    }

    /// Says why a rule is not kept.
    fn explain_rule(
        &mut self,
        node: NodeId,
        rule: &'s Rule,
        value: &Value,
        (place, problems): (&str, &mut Problems),
    ) -> Checked<()> {
        match (rule, value) {
            (Rule::InPlace(rule), _) => self.explain_in_place(rule, value, (place, problems)),
            (Rule::Items(rule), Value::Array(items)) => {
                self.explain_items((node, rule), items, value, (place, problems))
            }
            (Rule::Fields(rule), Value::Object(fields)) => {
                self.explain_fields((node, rule), fields, value, (place, problems))
            }
            (rule, _) => {
                problems.add(place, &plainly(rule, value));
                Ok(())
            }
        }
    }

    fn explain_in_place(
        &mut self,
        rule: &'s InPlace,
        value: &Value,
        (place, problems): (&str, &mut Problems),
    ) -> Checked<()> {
        match rule {
            InPlace::All(nodes) => {
                for node in nodes {
                    self.explain_misfit(*node, value, place, problems)?;
                }
            }
            InPlace::Ref(node) | InPlace::Dependent { name: _, node } => {
                self.explain_misfit(*node, value, place, problems)?;
            }
            InPlace::If { test, then, otherwise } => {
                let next = if self.fits(*test, value)? { then } else { otherwise };
                if let Some(next) = next {
                    self.explain_misfit(*next, value, place, problems)?;
                }
            }
            InPlace::Any(nodes) => {
                let what = self.alternatives(nodes, value, problems.is_of_alternative)?;
                problems.add(place, &what);
            }
            InPlace::One(nodes) => {
                let (count, fitting) = (nodes.len(), self.fitting(nodes, value, nodes.len())?);
                let what = match fitting {
                    0 => self.alternatives(nodes, value, problems.is_of_alternative)?,
                    many => format!("must fit only one of {count} alternatives, and fits {many}"),
                };
                problems.add(place, &what);
            }
            InPlace::Not(_) => problems.add(place, "must not be what `not` describes"),
        }
        Ok(())
    }

    /// Says of alternatives that none fits, and the first reason of each; but not
    /// of alternatives within one, which would be told to no end.
    fn alternatives(
        &mut self,
        nodes: &[NodeId],
        value: &Value,
        is_of_alternative: bool,
    ) -> Checked<String> {
        if is_of_alternative {
            return Ok(format!("fits none of {} alternatives", nodes.len()));
        }
        let mut reasons: Vec<String> = Vec::new();
        for node in nodes.iter().take(LISTED_CAP) {
            let mut problems = Problems { found: Vec::new(), is_of_alternative: true };
            self.explain_misfit(*node, value, "", &mut problems)?;
            let reason = problems.found.into_iter().next().unwrap_or_default();
            let reason = reason.trim_start_matches("the whole: ").to_owned();
            if !reason.is_empty() && !reasons.contains(&reason) {
                reasons.push(first_characters(&reason, SHOWN_CAP * 2));
            }
        }
        Ok(format!("fits none of {} alternatives ({})", nodes.len(), reasons.join("; or ")))
    }

    fn explain_items(
        &mut self,
        (node, rule): (NodeId, &'s OfItems),
        items: &[Value],
        value: &Value,
        (place, problems): (&str, &mut Problems),
    ) -> Checked<()> {
        match rule {
            OfItems::Each { first, rest } => {
                for (at, item) in items.iter().enumerate() {
                    let Some(node) = first.get(at).or(rest.as_ref()) else { break };
                    self.explain_misfit(*node, item, &below(place, &at.to_string()), problems)?;
                }
            }
            OfItems::Contains { node, least, most } => {
                let fitting = self.items_fitting(*node, items)?;
                let most = most.map(|most| format!(" and at most {most}")).unwrap_or_default();
                let what = format!(
                    "must hold at least {least}{most} of what `contains` describes, and holds {fitting}"
                );
                problems.add(place, &what);
            }
            OfItems::Unevaluated(rest) => {
                let seen = self.seen_items(node, items, value)?;
                for (at, item) in items.iter().enumerate().filter(|(at, _)| !seen.has(*at)) {
                    self.explain_misfit(*rest, item, &below(place, &at.to_string()), problems)?;
                }
            }
            OfItems::Unique => problems.add(place, "must not hold the same item twice"),
        }
        Ok(())
    }

    fn explain_fields(
        &mut self,
        (node, rule): (NodeId, &'s OfFields),
        fields: &Map<String, Value>,
        value: &Value,
        (place, problems): (&str, &mut Problems),
    ) -> Checked<()> {
        match rule {
            OfFields::Each(properties) => {
                for (name, value) in fields {
                    for node in self.nodes_of(properties, name)? {
                        self.explain_misfit(node, value, &below(place, name), problems)?;
                    }
                }
            }
            OfFields::Names(node) => {
                for name in fields.keys() {
                    if !self.name_fits(*node, name)? {
                        problems.add(place, &format!("must not have the name {}", quoted(name)));
                    }
                }
            }
            OfFields::Unevaluated(rest) => {
                let seen = self.seen_fields(node, fields, value)?;
                let unseen = fields.iter().enumerate().filter(|(at, _)| !seen.has(*at));
                for (_, (name, value)) in unseen {
                    self.explain_misfit(*rest, value, &below(place, name), problems)?;
                }
            }
            OfFields::Required(names) | OfFields::Dependent { name: _, required: names } => {
                let missing = names.iter().filter(|name| !fields.contains_key(*name));
                let missing = listed(missing.map(|name| quoted(name)));
                problems.add(place, &format!("lacks {missing}"));
            }
        }
        Ok(())
    }
}

/// Says why a rule is not kept that is about a value as a whole.
fn plainly(rule: &Rule, value: &Value) -> String {
    match rule {
        Rule::Never => "must not be there".to_owned(),
        Rule::Types(types) => {
            let names: Vec<&str> = types.iter().map(|known| known.as_str()).collect();
            format!("must be {}, not {}", names.join(" or "), shown_type(value))
        }
        Rule::Values(values) => match &values[..] {
            [only] => format!("must be {}, not {}", shown(only), shown(value)),
            many => {
                format!("must be one of {}, not {}", listed(many.iter().map(shown)), shown(value))
            }
        },
        Rule::Bound(bound) => {
            let side = match bound.side {
                Side::AtLeast => "at least",
                Side::Above => "above",
                Side::AtMost => "at most",
                Side::Below => "below",
            };
            format!("must be {side} {}, not {}", bound.limit, shown(value))
        }
        Rule::MultipleOf(of) => format!("must be a multiple of {of}, not {}", shown(value)),
        Rule::Count(count) => too_many(count, value),
        Rule::Pattern(pattern) => {
            format!("must match the pattern {}, not be {}", quoted(&pattern.text), shown(value))
        }
        // These are about the value's parts, or hold for it.
        Rule::InPlace(_) | Rule::Items(_) | Rule::Fields(_) => "does not fit".to_owned(),
    }
}

fn too_many(count: &Count, value: &Value) -> String {
    let have = count.of.of(value).unwrap_or_default();
    let (side, limit) = (if count.is_least { "at least" } else { "at most" }, count.limit);
    let what = match count.of {
        Counted::Characters => "characters",
        Counted::Items => "items",
        Counted::Properties => "properties",
    };
    format!("must have {side} {limit} {what}, and has {have}")
}

fn shown_type(value: &Value) -> String {
    let types = [Type::Null, Type::Boolean, Type::Number, Type::String, Type::Array, Type::Object];
    let name = types.into_iter().find(|known| known.takes(value)).map_or("", Type::as_str);
    match value {
        Value::Array(_) | Value::Object(_) | Value::Null => name.to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => format!("{name} {}", shown(value)),
    }
}

fn shown(value: &Value) -> String {
    first_characters(&value.to_string(), SHOWN_CAP)
}

fn quoted(text: &str) -> String {
    format!("`{}`", first_characters(text, SHOWN_CAP))
}

fn listed(names: impl Iterator<Item = String>) -> String {
    let mut names = names.peekable();
    let mut shown: Vec<String> = names.by_ref().take(LISTED_CAP).collect();
    if names.peek().is_some() {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

fn first_characters(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn ending(place: &str) -> String {
    match place.char_indices().nth_back(PLACE_CAP) {
        Some((start, first)) => format!("…{}", &place[start + first.len_utf8()..]),
        None => place.to_owned(),
    }
}
