//! A schema as it is checked: subschemas by number, each a list of rules.

use std::cmp::Ordering;

use serde_json::{Number, Value};

pub(super) use super::pattern::Pattern;

/// Names a subschema of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeId(pub(super) u32);

impl NodeId {
    /// The whole schema.
    pub(super) const ROOT: Self = Self(0);

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A subschema. One without rules takes everything.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) rules: Vec<Rule>,
}

/// What a value must be. A rule about numbers says nothing about texts, and so
/// on.
#[derive(Debug)]
pub(super) enum Rule {
    /// Nothing fits.
    Never,
    /// It is one of these types.
    Types(Vec<Type>),
    /// It is one of these values, whose numbers are written in one way.
    Values(Vec<Value>),
    /// It is within a limit.
    Bound(Bound),
    /// It is a whole multiple.
    MultipleOf(Number),
    /// It has enough or not too much of something.
    Count(Count),
    /// The pattern is found in it.
    Pattern(Box<Pattern>),
    /// It is held against other subschemas.
    InPlace(InPlace),
    /// About the items of an array.
    Items(OfItems),
    /// About the properties of an object.
    Fields(OfFields),
}

/// Subschemas that the same value is held against.
#[derive(Debug)]
pub(super) enum InPlace {
    /// It fits all of them.
    All(Vec<NodeId>),
    /// It fits at least one.
    Any(Vec<NodeId>),
    /// It fits exactly one.
    One(Vec<NodeId>),
    /// It does not fit.
    Not(NodeId),
    /// Which one it fits hangs on whether it fits another.
    If { test: NodeId, then: Option<NodeId>, otherwise: Option<NodeId> },
    /// What stands elsewhere in the schema.
    Ref(NodeId),
    /// It fits if it is an object with this property.
    Dependent { name: String, node: NodeId },
}

/// A rule about the items of an array.
#[derive(Debug)]
pub(super) enum OfItems {
    /// No two are equal.
    Unique,
    /// The first ones fit one subschema each, and the others this one.
    Each { first: Vec<NodeId>, rest: Option<NodeId> },
    /// So many fit.
    Contains { node: NodeId, least: u64, most: Option<u64> },
    /// Those fit that nothing else in the subschema has looked at.
    Unevaluated(NodeId),
}

/// A rule about the properties of an object.
#[derive(Debug)]
pub(super) enum OfFields {
    /// They fit by their names.
    Each(Properties),
    /// These are there.
    Required(Vec<String>),
    /// Each name fits.
    Names(NodeId),
    /// Where one is, these are, too.
    Dependent { name: String, required: Vec<String> },
    /// Those fit that nothing else in the subschema has looked at.
    Unevaluated(NodeId),
}

/// Which subschemas the properties of an object fit.
#[derive(Debug, Default)]
pub(super) struct Properties {
    pub(super) named: Vec<(String, NodeId)>,
    pub(super) patterns: Vec<(Pattern, NodeId)>,
    pub(super) rest: Option<NodeId>,
}

impl Rule {
    pub(super) fn in_place(&self) -> Option<&InPlace> {
        match self {
            Self::InPlace(rule) => Some(rule),
            Self::Never
            | Self::Types(_)
            | Self::Values(_)
            | Self::Bound(_)
            | Self::MultipleOf(_)
            | Self::Count(_)
            | Self::Pattern(_)
            | Self::Items(_)
            | Self::Fields(_) => None,
        }
    }
}

impl InPlace {
    /// Leaves out subschemas that take everything; `false` if nothing is left.
    /// It says nothing then.
    pub(super) fn shorten(&mut self, takes_all: impl Fn(NodeId) -> bool) -> bool {
        match self {
            Self::All(nodes) => {
                nodes.retain(|node| !takes_all(*node));
                !nodes.is_empty()
            }
            Self::Ref(node) | Self::Dependent { name: _, node } => !takes_all(*node),
            Self::Any(_) | Self::One(_) | Self::Not(_) => true,
            Self::If { test: _, then: _, otherwise: _ } => true,
        }
    }

    /// Returns the subschemas, whether they count for a value or not.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        match self {
            Self::All(nodes) | Self::Any(nodes) | Self::One(nodes) => nodes.clone(),
            Self::Not(node) | Self::Ref(node) | Self::Dependent { name: _, node } => vec![*node],
            Self::If { test, then, otherwise } => {
                [Some(*test), *then, *otherwise].into_iter().flatten().collect()
            }
        }
    }
}

/// The types of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Type {
    const ALL: [Self; 7] = [
        Self::Null,
        Self::Boolean,
        Self::Integer,
        Self::Number,
        Self::String,
        Self::Array,
        Self::Object,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }

    pub(super) fn takes(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Null, Value::Null)
            | (Self::Boolean, Value::Bool(_))
            | (Self::Number, Value::Number(_))
            | (Self::String, Value::String(_))
            | (Self::Array, Value::Array(_))
            | (Self::Object, Value::Object(_)) => true,
            (Self::Integer, Value::Number(number)) => is_whole(number),
            (
                Self::Null
                | Self::Boolean
                | Self::Integer
                | Self::Number
                | Self::String
                | Self::Array
                | Self::Object,
                _,
            ) => false,
        }
    }
}

fn is_whole(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// A limit on a number.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) side: Side,
    pub(super) limit: Number,
}

/// On which side of a limit a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    AtLeast,
    Above,
    AtMost,
    Below,
}

impl Bound {
    pub(super) fn holds(&self, number: &Number) -> bool {
        let order = compare(number, &self.limit);
        match self.side {
            Side::AtLeast => order != Ordering::Less,
            Side::Above => order == Ordering::Greater,
            Side::AtMost => order != Ordering::Greater,
            Side::Below => order == Ordering::Less,
        }
    }
}

fn compare(left: &Number, right: &Number) -> Ordering {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) | (None, Some(_)) | (None, None) => {
            // No number that was parsed is neither: JSON has no NaN.
            let float = |number: &Number| number.as_f64().unwrap_or_default();
            float(left).total_cmp(&float(right))
        }
    }
}

/// Tells whether a number is a whole multiple of another, which is above 0.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    if let (Some(number), Some(of)) = (number.as_i128(), of.as_i128()) {
        return number % of == 0;
    }
    let (number, of) = (number.as_f64().unwrap_or_default(), of.as_f64().unwrap_or(1.0));
    let times = number / of;
    if !times.is_finite() {
        return number % of == 0.0;
    }
    // 0.0075 is 75 times 0.0001, and yet nothing divides it but for a rest.
    let off = (times - times.round()).abs();
    off <= times.abs().max(1.0) * 8.0 * f64::EPSILON
}

/// A limit on how much a value has.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) of: Counted,
    pub(super) is_least: bool,
    pub(super) limit: u64,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Characters,
    Items,
    Properties,
}

impl Counted {
    /// Returns how many a value has; `None` if it has none of the kind.
    pub(super) fn of(self, value: &Value) -> Option<u64> {
        let count = match (self, value) {
            (Self::Characters, Value::String(text)) => text.chars().count(),
            (Self::Items, Value::Array(items)) => items.len(),
            (Self::Properties, Value::Object(fields)) => fields.len(),
            (Self::Characters | Self::Items | Self::Properties, _) => return None,
        };
        Some(count as u64)
    }
}
