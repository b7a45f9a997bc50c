//! Reads a schema. Subschemas are taken up one after the other, not one inside
//! the other, so that no nesting takes the stack away.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use super::node::{
    Bound, Count, Counted, InPlace, Node, NodeId, OfFields, OfItems, Pattern, Properties, Rule,
    Side, Type,
};
use super::reference::{Places, below};
use super::{
    PATTERN_LENGTH_CAP, PATTERNS_CAP, PLACE_LENGTH_CAP, SUBSCHEMAS_CAP, SchemaError, normal,
    normal_number,
};

type Compiled<T> = Result<T, SchemaError>;

/// Reads a whole schema; its first subschema is the schema itself.
pub(super) fn compile(root: &Value) -> Compiled<Vec<Node>> {
    let mut compiler = Compiler {
        root,
        places: Places::of(root),
        ids: HashMap::new(),
        found: Vec::new(),
        patterns: 0,
        is_draft_7: is_draft_7(root),
    };
    compiler.node(String::new(), root)?;
    let mut nodes = Vec::new();
    while let Some((pointer, value)) = compiler.found.get(nodes.len()).cloned() {
        nodes.push(match value {
            Value::Object(fields) => {
                Subschema { compiler: &mut compiler, pointer: &pointer, fields }.compile()?
            }
            Value::Bool(false) => Node { rules: vec![Rule::Never] },
            // Of others no subschema is made.
            Value::Bool(true)
            | Value::Null
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Node::default(),
        });
    }
    match endless(&nodes) {
        Some(node) => {
            let reason = "refers to itself without an end".to_owned();
            Err(error(&compiler.found[node].0, reason))
        }
        None => Ok(shortened(nodes)),
    }
}

/// Leaves out what says nothing: a list of a thousand such subschemas would be
/// gone through for each part of a value.
fn shortened(mut nodes: Vec<Node>) -> Vec<Node> {
    let takes_all: Vec<bool> = nodes.iter().map(|node| node.rules.is_empty()).collect();
    for node in &mut nodes {
        node.rules.retain_mut(|rule| match rule {
            Rule::InPlace(rule) => rule.shorten(|node| takes_all[node.index()]),
            Rule::Never
            | Rule::Types(_)
            | Rule::Values(_)
            | Rule::Bound(_)
            | Rule::MultipleOf(_)
            | Rule::Count(_)
            | Rule::Pattern(_)
            | Rule::Items(_)
            | Rule::Fields(_) => true,
        });
    }
    nodes
}

fn error(pointer: &str, reason: impl Into<String>) -> SchemaError {
    SchemaError { place: format!("#{pointer}"), reason: reason.into() }
}

/// Tells whether beside a `$ref` nothing counts.
fn is_draft_7(root: &Value) -> bool {
    let draft = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
    ["draft-04", "draft-06", "draft-07"].iter().any(|old| draft.contains(old))
}

/// A schema that is being read.
struct Compiler<'a> {
    root: &'a Value,
    places: Places,
    /// The numbers of subschemas, by their pointers.
    ids: HashMap<String, NodeId>,
    /// The subschemas in the order of their numbers.
    found: Vec<(String, &'a Value)>,
    patterns: usize,
    is_draft_7: bool,
}

impl<'a> Compiler<'a> {
    /// Returns the number of the subschema at a place.
    fn node(&mut self, pointer: String, value: &'a Value) -> Compiled<NodeId> {
        if let Some(id) = self.ids.get(&pointer) {
            return Ok(*id);
        }
        if !matches!(value, Value::Object(_) | Value::Bool(_)) {
            return Err(error(&pointer, "must be a schema: an object, true or false"));
        }
        if pointer.len() > PLACE_LENGTH_CAP {
            let reason =
                format!("has a subschema behind more than {PLACE_LENGTH_CAP} bytes of names");
            return Err(error("", reason));
        }
        if self.found.len() == SUBSCHEMAS_CAP {
            let reason = format!("has more than {SUBSCHEMAS_CAP} subschemas");
            return Err(error("", reason));
        }
        let number = u32::try_from(self.found.len()).expect("there are not so many subschemas");
        self.ids.insert(pointer.clone(), NodeId(number));
        self.found.push((pointer, value));
        Ok(NodeId(number))
    }

    fn pattern(&mut self, pointer: &str, text: &str) -> Compiled<Pattern> {
        self.patterns += 1;
        if self.patterns > PATTERNS_CAP {
            return Err(error("", format!("has more than {PATTERNS_CAP} patterns")));
        }
        if text.len() > PATTERN_LENGTH_CAP {
            let reason = format!("a pattern has at most {PATTERN_LENGTH_CAP} bytes");
            return Err(error(pointer, reason));
        }
        Pattern::new(text)
            .map_err(|why| error(pointer, format!("is no pattern that can be used: {why}")))
    }
}

/// One subschema that is being read.
struct Subschema<'c, 'a> {
    compiler: &'c mut Compiler<'a>,
    pointer: &'c str,
    fields: &'a Map<String, Value>,
}

impl<'a> Subschema<'_, 'a> {
    fn compile(mut self) -> Compiled<Node> {
        let mut rules = Vec::new();
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = self.text(keyword)? {
                let node = self.reference(keyword, reference)?;
                rules.push(Rule::InPlace(InPlace::Ref(node)));
                if self.compiler.is_draft_7 {
                    return Ok(Node { rules });
                }
            }
        }
        self.values(&mut rules)?;
        self.numbers(&mut rules)?;
        self.counts(&mut rules)?;
        self.arrays(&mut rules)?;
        self.objects(&mut rules)?;
        self.dependent(&mut rules)?;
        self.combined(&mut rules)?;
        // Last: they are about what the others have not looked at.
        let items = self.child("unevaluatedItems")?.map(OfItems::Unevaluated);
        rules.extend(items.map(Rule::Items));
        let fields = self.child("unevaluatedProperties")?.map(OfFields::Unevaluated);
        rules.extend(fields.map(Rule::Fields));
        Ok(Node { rules })
    }

    fn values(&mut self, rules: &mut Vec<Rule>) -> Compiled<()> {
        let fields = self.fields;
        let types = match fields.get("type") {
            None => None,
            Some(Value::String(name)) => Some(vec![name.as_str()]),
            Some(Value::Array(_)) => Some(self.texts("type")?),
            Some(_) => return Err(self.wrong("type", "the name of a type, or several")),
        };
        if let Some(names) = types {
            let known = |name: &&str| {
                Type::from_name(name).ok_or_else(|| {
                    self.wrong(
                        "type",
                        "one of null, boolean, integer, number, string, array and object",
                    )
                })
            };
            rules.push(Rule::Types(names.iter().map(known).collect::<Result<_, _>>()?));
        }
        match fields.get("enum") {
            None => {}
            Some(Value::Array(values)) => {
                rules.push(Rule::Values(values.iter().map(normal).collect()));
            }
            Some(_) => return Err(self.wrong("enum", "an array")),
        }
        rules.extend(fields.get("const").map(|value| Rule::Values(vec![normal(value)])));
        if let Some(text) = self.text("pattern")? {
            rules.push(Rule::Pattern(Box::new(
                self.compiler.pattern(&below(self.pointer, "pattern"), text)?,
            )));
        }
        Ok(())
    }

    fn numbers(&self, rules: &mut Vec<Rule>) -> Compiled<()> {
        for (keyword, side) in [
            ("minimum", Side::AtLeast),
            ("exclusiveMinimum", Side::Above),
            ("maximum", Side::AtMost),
            ("exclusiveMaximum", Side::Below),
        ] {
            if let Some(limit) = self.number(keyword)? {
                rules.push(Rule::Bound(Bound { side, limit }));
            }
        }
        if let Some(of) = self.number("multipleOf")? {
            if of.as_f64().is_none_or(|of| of <= 0.0) {
                return Err(self.wrong("multipleOf", "a number above 0"));
            }
            rules.push(Rule::MultipleOf(of));
        }
        Ok(())
    }

    fn counts(&self, rules: &mut Vec<Rule>) -> Compiled<()> {
        for (keyword, of, is_least) in [
            ("minLength", Counted::Characters, true),
            ("maxLength", Counted::Characters, false),
            ("minItems", Counted::Items, true),
            ("maxItems", Counted::Items, false),
            ("minProperties", Counted::Properties, true),
            ("maxProperties", Counted::Properties, false),
        ] {
            let limit = self.count(keyword)?;
            rules.extend(limit.map(|limit| Rule::Count(Count { of, is_least, limit })));
        }
        if self.flag("uniqueItems")? {
            rules.push(Rule::Items(OfItems::Unique));
        }
        Ok(())
    }

    fn arrays(&mut self, rules: &mut Vec<Rule>) -> Compiled<()> {
        // Before 2020-12 an array under `items` was what `prefixItems` is now.
        let (first, rest) = match self.fields.get("items") {
            Some(Value::Array(_)) => ("items", "additionalItems"),
            Some(_) | None => ("prefixItems", "items"),
        };
        let (first, rest) = (self.children(first)?, self.child(rest)?);
        if !first.is_empty() || rest.is_some() {
            rules.push(Rule::Items(OfItems::Each { first, rest }));
        }
        if let Some(node) = self.child("contains")? {
            let (least, most) = (self.count("minContains")?, self.count("maxContains")?);
            let least = least.unwrap_or(1);
            rules.push(Rule::Items(OfItems::Contains { node, least, most }));
        }
        Ok(())
    }

    fn objects(&mut self, rules: &mut Vec<Rule>) -> Compiled<()> {
        let named = self.named("properties")?;
        let mut patterns = Vec::new();
        for (text, node) in self.named("patternProperties")? {
            let pointer = below(&below(self.pointer, "patternProperties"), &text);
            patterns.push((self.compiler.pattern(&pointer, &text)?, node));
        }
        let rest = self.child("additionalProperties")?;
        if !named.is_empty() || !patterns.is_empty() || rest.is_some() {
            let each = OfFields::Each(Properties { named, patterns, rest });
            rules.push(Rule::Fields(each));
        }
        if self.fields.contains_key("required") {
            let required = self.texts("required")?.into_iter().map(str::to_owned).collect();
            rules.push(Rule::Fields(OfFields::Required(required)));
        }
        rules.extend(self.child("propertyNames")?.map(OfFields::Names).map(Rule::Fields));
        Ok(())
    }

    fn dependent(&mut self, rules: &mut Vec<Rule>) -> Compiled<()> {
        for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
            let Some(fields) = self.object(keyword)? else { continue };
            for (name, value) in fields {
                let pointer = below(&below(self.pointer, keyword), name);
                let name = name.clone();
                rules.push(match (value, keyword) {
                    (Value::Array(names), "dependentRequired" | "dependencies") => {
                        let required = texts(names)
                            .ok_or_else(|| error(&pointer, "must be an array of names"))?;
                        let required = required.into_iter().map(str::to_owned).collect();
                        Rule::Fields(OfFields::Dependent { name, required })
                    }
                    (_, "dependentRequired") => {
                        return Err(error(&pointer, "must be an array of names"));
                    }
                    _ => {
                        let node = self.compiler.node(pointer, value)?;
                        Rule::InPlace(InPlace::Dependent { name, node })
                    }
                });
            }
        }
        Ok(())
    }

    fn combined(&mut self, rules: &mut Vec<Rule>) -> Compiled<()> {
        for (keyword, rule) in [
            ("allOf", InPlace::All as fn(Vec<NodeId>) -> InPlace),
            ("anyOf", InPlace::Any),
            ("oneOf", InPlace::One),
        ] {
            let nodes = self.children(keyword)?;
            if self.fields.contains_key(keyword) {
                if nodes.is_empty() {
                    return Err(self.wrong(keyword, "an array of at least one schema"));
                }
                rules.push(Rule::InPlace(rule(nodes)));
            }
        }
        rules.extend(self.child("not")?.map(InPlace::Not).map(Rule::InPlace));
        let (then, otherwise) = (self.child("then")?, self.child("else")?);
        if let Some(test) = self.child("if")? {
            rules.push(Rule::InPlace(InPlace::If { test, then, otherwise }));
        }
        Ok(())
    }

    /// Returns the subschema that a reference leads to.
    fn reference(&mut self, keyword: &str, reference: &str) -> Compiled<NodeId> {
        let place = below(self.pointer, keyword);
        let resolved = self.compiler.places.resolve(reference, self.pointer);
        let pointer = resolved.map_err(|reason| error(&place, reason))?;
        let root = self.compiler.root;
        match root.pointer(&pointer) {
            Some(value) => self.compiler.node(pointer, value),
            None => Err(error(&place, format!("`{reference}` leads nowhere"))),
        }
    }

    fn child(&mut self, keyword: &str) -> Compiled<Option<NodeId>> {
        let Some(value) = self.fields.get(keyword) else { return Ok(None) };
        self.compiler.node(below(self.pointer, keyword), value).map(Some)
    }

    fn children(&mut self, keyword: &str) -> Compiled<Vec<NodeId>> {
        let pointer = below(self.pointer, keyword);
        match self.fields.get(keyword) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => values
                .iter()
                .enumerate()
                .map(|(at, value)| self.compiler.node(below(&pointer, &at.to_string()), value))
                .collect(),
            Some(_) => Err(self.wrong(keyword, "an array of schemas")),
        }
    }

    fn named(&mut self, keyword: &str) -> Compiled<Vec<(String, NodeId)>> {
        let pointer = below(self.pointer, keyword);
        let Some(fields) = self.object(keyword)? else { return Ok(Vec::new()) };
        let node = |(name, value): (&String, &'a Value)| {
            let node = self.compiler.node(below(&pointer, name), value)?;
            Ok((name.clone(), node))
        };
        fields.iter().map(node).collect()
    }

    fn object(&self, keyword: &str) -> Compiled<Option<&'a Map<String, Value>>> {
        match self.fields.get(keyword) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(fields)),
            Some(_) => Err(self.wrong(keyword, "an object")),
        }
    }

    fn text(&self, keyword: &str) -> Compiled<Option<&'a str>> {
        match self.fields.get(keyword) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(keyword, "a string")),
        }
    }

    fn texts(&self, keyword: &str) -> Compiled<Vec<&'a str>> {
        let found = self.fields.get(keyword).and_then(Value::as_array);
        found
            .and_then(|values| texts(values))
            .ok_or_else(|| self.wrong(keyword, "an array of strings"))
    }

    fn number(&self, keyword: &str) -> Compiled<Option<Number>> {
        match self.fields.get(keyword) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(normal_number(number))),
            Some(_) => Err(self.wrong(keyword, "a number")),
        }
    }

    fn count(&self, keyword: &str) -> Compiled<Option<u64>> {
        match self.number(keyword)? {
            None => Ok(None),
            Some(number) => match number.as_u64() {
                Some(count) => Ok(Some(count)),
                None => Err(self.wrong(keyword, "a whole number, at least 0")),
            },
        }
    }

    fn flag(&self, keyword: &str) -> Compiled<bool> {
        match self.fields.get(keyword) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => Err(self.wrong(keyword, "true or false")),
        }
    }

    fn wrong(&self, keyword: &str, what: &str) -> SchemaError {
        error(&below(self.pointer, keyword), format!("must be {what}"))
    }
}

fn texts(values: &[Value]) -> Option<Vec<&str>> {
    values.iter().map(Value::as_str).collect()
}

/// Finds a subschema that holds a value against itself again: that never ends.
fn endless(nodes: &[Node]) -> Option<usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; nodes.len()];
    for start in 0..nodes.len() {
        let mut open = vec![(start, false)];
        while let Some((node, is_left)) = open.pop() {
            match (is_left, marks[node]) {
                (true, _) => marks[node] = Mark::Done,
                (false, Mark::Done) => {}
                (false, Mark::Open) => return Some(node),
                (false, Mark::New) => {
                    marks[node] = Mark::Open;
                    open.push((node, true));
                    let next = nodes[node].rules.iter().filter_map(Rule::in_place);
                    open.extend(next.flat_map(InPlace::nodes).map(|next| (next.index(), false)));
                }
            }
        }
    }
    None
}
