//! The filters, tests and methods that a text of a flow calls: whether there are
//! any such.
//!
//! The engine finds out only when it comes to one, which in a flow may be after
//! hours of agents. So pieces of code are looked through for names before anything
//! runs; that there are these filters and tests, a test asks the engine.

use super::bounds::{self, string_end};
use super::error::TextError;

/// The filters of the engine as it is built here.
const FILTERS: [&str; 48] = [
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "zip",
];

/// Its tests.
const TESTS: [&str; 36] = [
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "safe",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

/// The methods of `loop`. No other value has any: those of Python are no part of the
/// engine.
const OF_LOOP: [&str; 2] = ["changed", "cycle"];

/// Checks that there is every filter, test and method that an expression calls.
pub(super) fn check_expression(source: &str) -> Result<(), TextError> {
    check(source, source, Before::Other)
}

/// Checks that there is every filter, test and method that a template calls.
pub(super) fn check_template(source: &str) -> Result<(), TextError> {
    bounds::pieces(source).try_for_each(|piece| {
        match piece.said_to("filter") {
            // The filter that a block names stands behind no bar.
            Some(filter) => check(source, filter, Before::Bar),
            None => check(source, piece.text, Before::Other),
        }
    })
}

fn check(source: &str, piece: &str, before: Before) -> Result<(), TextError> {
    let (name, message) = match unknown(piece, before) {
        None => return Ok(()),
        Some(Called::Filter(name)) => (name, no_such("filter", name, &FILTERS)),
        Some(Called::Test(name)) => (name, no_such("test", name, &TESTS)),
        Some(Called::Method(name)) => (name, no_method(name)),
    };
    let before = name.as_ptr().addr() - source.as_ptr().addr();
    let lines = source[..before].matches('\n').count();
    let line = u32::try_from(lines).unwrap_or(u32::MAX).saturating_add(1);
    Err(TextError::Syntax { line, message })
}

fn no_such(sort: &str, name: &str, known: &[&str]) -> String {
    format!("there is no {sort} `{name}`; there are {}", known.join(", "))
}

fn no_method(name: &str) -> String {
    match FILTERS.contains(&name) {
        true => format!("values have no methods, so no `{name}`; the filter `| {name}` is there"),
        false => format!(
            "values have no methods, so no `{name}`; there are the filters {}",
            FILTERS.join(", ")
        ),
    }
}

/// What a piece of code calls.
enum Called<'a> {
    Filter(&'a str),
    Test(&'a str),
    Method(&'a str),
}

/// Returns the first that there is not. `before` stands before the piece.
fn unknown(piece: &str, mut before: Before) -> Option<Called<'_>> {
    let bytes = piece.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte == b'\'' || byte == b'"' {
            at = string_end(bytes, at, byte) + 1;
            before = Before::Other;
        } else if is_of_word(byte) {
            let rest = &piece[at..];
            let length = rest.bytes().take_while(|byte| is_of_word(*byte)).count();
            let word = &rest[..length];
            match before {
                Before::Bar if !FILTERS.contains(&word) => {
                    return Some(Called::Filter(word));
                }
                Before::Is if word == "not" => {}
                Before::Is if !TESTS.contains(&word) => {
                    return Some(Called::Test(word));
                }
                Before::Dot if is_call(&rest[length..]) => return Some(Called::Method(word)),
                Before::DotOfLoop
                    if is_call(&rest[length..]) && !is_of_loop(word, &rest[length..]) =>
                {
                    return Some(Called::Method(word));
                }
                Before::Bar | Before::Is => before = Before::Other,
                // A field may have any name.
                Before::Dot | Before::DotOfLoop => before = Before::Other,
                Before::Other | Before::Loop => {
                    before = match word {
                        "is" => Before::Is,
                        "loop" => Before::Loop,
                        _ => Before::Other,
                    }
                }
            }
            at += length;
        } else {
            before = match (byte, before) {
                (b'|', _) => Before::Bar,
                (b'.', Before::Loop) => Before::DotOfLoop,
                (b'.', _) => Before::Dot,
                (byte, before) if byte.is_ascii_whitespace() => before,
                _ => Before::Other,
            };
            at += 1;
        }
    }
    None
}

/// What stands before a word and says what it is.
#[derive(Clone, Copy)]
enum Before {
    Bar,
    Is,
    Dot,
    /// The word `loop`.
    Loop,
    DotOfLoop,
    Other,
}

/// Tells whether `loop` has a method that can be called so. Without arguments the
/// engine's `cycle` panics.
fn is_of_loop(word: &str, behind: &str) -> bool {
    let arguments = behind.trim_start().strip_prefix('(').unwrap_or_default();
    let is_bare = arguments.trim_start().starts_with(')');
    OF_LOOP.contains(&word) && !(word == "cycle" && is_bare)
}

/// Tells whether what stands behind a word calls it.
fn is_call(behind: &str) -> bool {
    behind.trim_start().starts_with('(')
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use minijinja::ErrorKind;

    use super::*;
    use crate::flow::text::environment;
    use crate::flow::{Expression, Wording};

    #[test]
    fn every_filter_and_test_that_is_named_is_there() {
        let environment = environment();
        let kind = |source: String| {
            let expression = environment.compile_expression(&source).unwrap();
            expression.eval(()).err().map(|error| error.kind())
        };
        for name in FILTERS {
            assert_ne!(kind(format!("0|{name}")), Some(ErrorKind::UnknownFilter), "{name}");
        }
        for name in TESTS {
            assert_ne!(kind(format!("0 is {name}")), Some(ErrorKind::UnknownTest), "{name}");
        }
        assert_eq!(kind("0|nothing".to_owned()), Some(ErrorKind::UnknownFilter));
        assert_eq!(kind("0 is nothing".to_owned()), Some(ErrorKind::UnknownTest));
    }

    #[test]
    fn no_value_but_loop_has_a_method() {
        let environment = environment();
        let kind =
            |source: &str| environment.render_str(source, ()).err().map(|error| error.kind());
        for name in FILTERS.iter().chain(&["get", "keys", "values", "strip"]) {
            for value in ["'a'", "[1]", "{'a': 1}", "(1)", "dict(a=1)", "range(3)"] {
                let source = format!("{{{{ {value}.{name}() }}}}");
                assert_eq!(kind(&source), Some(ErrorKind::UnknownMethod), "{source}");
            }
        }
        for name in OF_LOOP {
            let source = format!("{{% for a in [1] %}}{{{{ loop.{name}(a) }}}}{{% endfor %}}");
            assert_eq!(kind(&source), None, "{source}");
        }
    }

    #[track_caller]
    fn check(source: &str, expected: Option<(u32, &str)>) {
        let found = match Wording::parse(source) {
            Ok(_) => None,
            Err(TextError::Syntax { line, message }) => Some((line, message)),
            Err(other) => panic!("{other}"),
        };
        let found = found.as_ref().map(|(line, message)| {
            (*line, message.split_once(';').map_or(&**message, |(what, _)| what))
        });
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn what_a_text_calls_that_there_is_not_is_told_before_anything_runs() {
        check("{{ inputs.a | join(', ') | upper }} a | nothing", None);
        check("{{ inputs.a\n  | nothing }}", Some((2, "there is no filter `nothing`")));
        check("{{ '| nothing' ~ \"is no|thing\" }}", None);
        check(
            "{% if inputs.a is not nothing %}{% endif %}",
            Some((1, "there is no test `nothing`")),
        );
        check("{% if inputs.is and inputs.a is defined %}{% endif %}", None);
        check(
            "{% for it in inputs.a|sort|nosort %}{% endfor %}",
            Some((1, "there is no filter `nosort`")),
        );
        check("{% filter upper %}x{% endfilter %}", None);
        check(
            "x\n{%- filter nothing %}x{% endfilter %}",
            Some((2, "there is no filter `nothing`")),
        );
        check("{# {{ a|nothing }} #}{% raw %}{{ a|nothing }}{% endraw %}", None);
        check(
            "{{ inputs.a.upper }}\n{{ inputs.a.upper() }}",
            Some((2, "values have no methods, so no `upper`")),
        );
        check("{{ 'a'.strip () | upper }}", Some((1, "values have no methods, so no `strip`")));
        check("{{ f(inputs.a)[0].get('x') }}", Some((1, "values have no methods, so no `get`")));
        check(
            "{% for a in inputs.a.items() %}{% endfor %}",
            Some((1, "values have no methods, so no `items`")),
        );
        check(
            "{% for a in [1] %}{{ loop . changed(a) }}{{ loop.cycle('a', 'b') }}{% endfor %}",
            None,
        );
        check(
            "{% for a in [1] %}{{ loop.cycle() }}{% endfor %}",
            Some((1, "values have no methods, so no `cycle`")),
        );
        check(
            "{% for a in [1] %}{{ loop.index() }}{% endfor %}",
            Some((1, "values have no methods, so no `index`")),
        );
        check("{{ '.upper()' }} a.upper() {{ (inputs.a) ~ range(2) }}", None);
        let told = Wording::parse("{{ inputs.a.upper() }}").unwrap_err().to_string();
        let expected =
            "values have no methods, so no `upper`; the filter `| upper` is there (line 1)";
        assert_eq!(told, expected);
        assert!(Expression::parse("steps.a.text.startswith('a')").is_err());
        assert!(Expression::parse("steps.a.value|lengt > 0").is_err());
        assert!(Expression::parse("steps.a.value|length > 0").is_ok());
    }
}
