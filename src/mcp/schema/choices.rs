//! Removal of `allOf`, `anyOf`, `oneOf`, `not`, `enum` and `$ref` from the top of a schema, where
//! providers refuse them. Their properties move to the top, and a sentence describes the choice.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::{QUOTE_CAP, REFERENCES_CAP, cut, target};

/// Maximum nesting of choices within choices that is unfolded.
const DEPTH_CAP: usize = 6;

/// Maximum parts of one schema that are unfolded: each may refer to the whole.
pub(super) const PARTS_CAP: usize = 2_000;

/// Keywords that providers refuse at the top.
const REFUSED: [&str; 6] = ["$ref", "allOf", "anyOf", "enum", "not", "oneOf"];

/// Maximum names that a sentence lists of one alternative.
const NAMES_CAP: usize = 20;

/// The top of a schema while its combinators are removed.
pub(super) struct Top<'a> {
    pub(super) root: Map<String, Value>,
    /// The sentences that replace what was removed.
    pub(super) words: Vec<String>,
    /// The schema that references are resolved in.
    written: &'a Value,
    depth: usize,
    /// Remaining number of parts that may be unfolded.
    parts_left: &'a Cell<usize>,
}

impl<'a> Top<'a> {
    pub(super) fn new(
        root: Map<String, Value>,
        written: &'a Value,
        parts_left: &'a Cell<usize>,
    ) -> Self {
        Self { root, words: Vec::new(), written, depth: 0, parts_left }
    }

    /// Removes every combinator from the top.
    pub(super) fn flatten(&mut self) {
        self.follow_reference();
        for branch in self.take_list("allOf") {
            if let Value::Object(branch) = branch {
                self.merge_all(branch);
            }
        }
        for (key, lead) in [("anyOf", "At least one of"), ("oneOf", "Exactly one of")] {
            let branches = self.take_list(key);
            if !branches.is_empty() {
                self.merge_choice(lead, branches);
            }
        }
        if let Some(not) = self.root.remove("not") {
            let shape = match self.unfold(&not) {
                Some(branch) => branch.shape(),
                None => cut(&not.to_string(), QUOTE_CAP),
            };
            self.words.push(format!("Not allowed: {shape}."));
        }
        if let Some(values) = self.root.remove("enum") {
            self.words.push(format!("One of: {}.", cut(&values.to_string(), QUOTE_CAP)));
        }
    }

    fn take_list(&mut self, key: &str) -> Vec<Value> {
        match self.root.remove(key) {
            Some(Value::Array(branches)) => branches,
            Some(_) | None => Vec::new(),
        }
    }

    /// Replaces `$ref` by its target.
    fn follow_reference(&mut self) {
        for _ in 0..REFERENCES_CAP {
            let Some(Value::String(reference)) = self.root.remove("$ref") else { return };
            match target(self.written, &reference) {
                Some(Value::Object(found)) => {
                    for (key, value) in found {
                        self.root.entry(key.clone()).or_insert_with(|| value.clone());
                    }
                }
                Some(_) | None => {
                    self.words.push(format!("(Its schema `{reference}` is missing.)"));
                    return;
                }
            }
        }
    }

    /// Merges a schema that always applies.
    fn merge_all(&mut self, branch: Map<String, Value>) {
        let Some(Top { root, words, .. }) = self.unfold(&Value::Object(branch)) else { return };
        self.words.extend(words);
        for (key, value) in root {
            match (key.as_str(), value) {
                ("properties", Value::Object(properties)) => self.add_properties(properties),
                ("required", Value::Array(names)) => self.add_required(names),
                // At the top they would also apply to the properties of other parts.
                ("additionalProperties" | "unevaluatedProperties", _) => {}
                (key, value) if REFUSED.contains(&key) => {
                    let rule = cut(&json!({ key: value }).to_string(), QUOTE_CAP);
                    self.words.push(format!("It must also match: {rule}."));
                }
                (_, value) => drop(self.root.entry(key).or_insert(value)),
            }
        }
    }

    /// Merges alternatives: the top gets all their properties, and requires what each alternative
    /// requires. A sentence describes the alternatives.
    fn merge_choice(&mut self, lead: &str, branches: Vec<Value>) {
        if branches.iter().any(|branch| branch.as_object().is_some_and(Map::is_empty)) {
            // An empty alternative accepts every object.
            return;
        }
        let unfolded: Vec<Top<'_>> = branches
            .iter()
            .filter_map(|branch| self.unfold(branch))
            .filter(Top::takes_objects)
            .collect();
        match <[Top<'_>; 1]>::try_from(unfolded) {
            Ok([only]) => self.merge_all(only.root),
            Err(unfolded) if unfolded.is_empty() => {}
            Err(unfolded) => self.merge_several(lead, unfolded),
        }
    }

    fn merge_several(&mut self, lead: &str, unfolded: Vec<Top<'_>>) {
        let shapes: Vec<String> = unfolded.iter().map(Top::shape).collect();
        self.words.push(format!("{lead}: {}.", shapes.join(" or ")));
        let mut common: Option<Vec<Value>> = None;
        let mut properties = Map::new();
        for branch in unfolded {
            let required = match branch.root.get("required") {
                Some(Value::Array(names)) => names.clone(),
                Some(_) | None => Vec::new(),
            };
            common = Some(match common {
                Some(names) => names.into_iter().filter(|it| required.contains(it)).collect(),
                None => required,
            });
            if let Some(Value::Object(of_branch)) = branch.root.get("properties") {
                for (name, value) in of_branch {
                    let merged = match properties.remove(name) {
                        Some(other) => either(other, value.clone()),
                        None => value.clone(),
                    };
                    properties.insert(name.clone(), merged);
                }
            }
        }
        self.add_properties(properties);
        self.add_required(common.unwrap_or_default());
    }

    /// Adds properties that the top does not have.
    fn add_properties(&mut self, properties: Map<String, Value>) {
        if properties.is_empty() {
            return;
        }
        let own = self.root.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(own) = own {
            for (name, value) in properties {
                match own.get(&name) {
                    // A property without rules gets those of the alternative.
                    Some(Value::Object(rules)) if !rules.is_empty() => {}
                    Some(_) | None => drop(own.insert(name, value)),
                }
            }
        }
    }

    fn add_required(&mut self, names: Vec<Value>) {
        if names.is_empty() {
            return;
        }
        let own = self.root.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(own) = own {
            for name in names {
                if !own.contains(&name) {
                    own.push(name);
                }
            }
        }
    }

    /// Returns a subschema without combinators at its top; `None` if it accepts no object.
    fn unfold(&self, branch: &Value) -> Option<Top<'a>> {
        let root = match branch {
            Value::Object(root) => root.clone(),
            Value::Bool(true) => Map::new(),
            Value::Null
            | Value::Bool(false)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => return None,
        };
        let mut top =
            Top { depth: self.depth + 1, ..Top::new(root, self.written, self.parts_left) };
        if let Some(left) = self.parts_left.get().checked_sub(1)
            && top.depth < DEPTH_CAP
        {
            self.parts_left.set(left);
            top.flatten();
        }
        Some(top)
    }

    fn takes_objects(&self) -> bool {
        match self.root.get("type") {
            Some(Value::String(kind)) => kind == "object",
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
            Some(_) | None => true,
        }
    }

    /// Returns the properties of an alternative in the notation of the sentence: `{a, b?}`.
    fn shape(&self) -> String {
        let names = |key: &str| match self.root.get(key) {
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            Some(Value::Object(map)) => map.keys().cloned().collect(),
            Some(_) | None => Vec::new(),
        };
        let (required, mut optional): (Vec<String>, Vec<String>) =
            (names("required"), names("properties"));
        optional.retain(|name| !required.contains(name));
        optional.sort();
        if required.is_empty() && optional.is_empty() {
            let rest = self.root.iter().filter(|(key, _)| key.as_str() != "type");
            let rest: Map<String, Value> =
                rest.map(|(key, value)| (key.clone(), value.clone())).collect();
            return match (rest.is_empty(), self.words.join(" ")) {
                (true, words) if words.is_empty() => "any object".to_owned(),
                (true, words) => format!("({})", cut(&words, QUOTE_CAP)),
                (false, _) => cut(&Value::Object(rest).to_string(), QUOTE_CAP),
            };
        }
        let required = required.iter().map(|name| format!("{name}{}", self.value_of(name)));
        let optional = optional.iter().map(|name| format!("{name}?{}", self.value_of(name)));
        let mut all: Vec<String> = required.chain(optional).collect();
        if all.len() > NAMES_CAP {
            all.truncate(NAMES_CAP);
            all.push("…".to_owned());
        }
        match self.words.join(" ") {
            words if words.is_empty() => format!("{{{}}}", all.join(", ")),
            words => format!("{{{}}} ({})", all.join(", "), cut(&words, QUOTE_CAP)),
        }
    }

    /// Returns the only value that a property may have, as `: "value"`; empty without one.
    fn value_of(&self, name: &str) -> String {
        let property = self.root.get("properties").and_then(|all| all.get(name));
        match property.map(fixed_values).as_deref() {
            Some([value]) => format!(": {}", cut(&value.to_string(), QUOTE_CAP)),
            Some(_) | None => String::new(),
        }
    }
}

/// Returns the values of a property with `const` or `enum`.
fn fixed_values(property: &Value) -> Vec<Value> {
    match (property.get("const"), property.get("enum")) {
        (Some(value), None) => vec![value.clone()],
        (None, Some(Value::Array(values))) => values.clone(),
        (Some(_) | None, _) => Vec::new(),
    }
}

/// Returns a schema that accepts what either of two schemas accepts.
fn either(one: Value, other: Value) -> Value {
    if one == other {
        return one;
    }
    let (mut values, more) = (fixed_values(&one), fixed_values(&other));
    if !values.is_empty() && !more.is_empty() && one.get("type") == other.get("type") {
        for value in more {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let mut merged = json!({ "enum": values });
        if let Some(kind) = one.get("type") {
            merged["type"] = kind.clone();
        }
        return merged;
    }
    let is_choice = |value: &Value| {
        value.as_object().is_some_and(|map| map.len() == 1 && map.contains_key("anyOf"))
    };
    if !is_choice(&one) {
        return json!({ "anyOf": [one, other] });
    }
    let mut choice = one;
    if let Some(Value::Array(branches)) = choice.get_mut("anyOf")
        && !branches.contains(&other)
    {
        branches.push(other);
    }
    choice
}
