//! Texts that are filled in, and the places of steps.

use serde_json::json;

use super::*;
use crate::flow::{AgentStep, InputValues};

fn wording(text: &str) -> Wording {
    Wording::parse(text).unwrap()
}

/// Fills in a text where there is one input and one result.
fn words(text: &str) -> Result<String, String> {
    let wording = wording(text);
    let step = Step::Agent(AgentStep::new("a", "explore", wording.clone()));
    // The names are not what is looked at here.
    let flow = Flow {
        name: "x".into(),
        description: "".into(),
        inputs: Vec::new(),
        step,
        kept: Default::default(),
        success: None,
    };
    let mut scope = Scope::new(&InputValues::default()).with_item(Value::from("it"), 3);
    let result = Value::from(Serde(json!({"z": [1, 2.5], "a": null, "deep": {"y": "x"}})));
    scope.learn(&vec![("one".into(), result)]);
    Texts::of(&flow).words(&wording, &scope).map(|text| text.to_string())
}

#[test]
fn a_text_is_filled_in_as_it_is_written() {
    assert_eq!(words("{{ item }}[{{ index }}]\n"), Ok("it[3]\n".to_owned()));
    assert_eq!(words("a\n\n{# no #}<{{ steps.one.deep.y }}>&\n\n"), Ok("a\n\n<x>&\n\n".to_owned()));
    let json = r#"{"z": [1, 2.5], "a": null, "deep": {"y": "x"}}"#;
    assert_eq!(words("{{ steps.one | tojson }}"), Ok(json.to_owned()));
}

#[test]
fn what_is_undefined_is_named_with_its_line() {
    for (text, expected) in [
        ("{{ steps.one.none }}", "undefined value: `steps.one.none` is undefined"),
        (
            "x\ny {{ steps.one.deep.z.q }}",
            "undefined value: `steps.one.deep.z` is undefined (line 2)",
        ),
        ("{% if steps.two %}{% endif %}", "undefined value: `steps.two` is undefined"),
    ] {
        assert_eq!(words(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn a_text_that_never_ends_or_grows_without_end_is_given_up() {
    let forever =
        "{% for a in range(10000) %}{% for b in range(10000) %}{{ b }}{% endfor %}{% endfor %}";
    assert_eq!(words(forever), Err("engine ran out of fuel".to_owned()));
    let long = "{% for a in range(10000) %}{{ 'x' * 10000 }}{% endfor %}";
    assert_eq!(words(long), Err(format!("it comes to more than {RENDERED_CAP} bytes")));
}

#[test]
fn nothing_else_can_be_read_in() {
    for text in ["{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}"] {
        assert!(Wording::parse(text).is_err(), "{text}");
    }
}

#[test]
fn the_place_of_a_step_says_items_and_rounds_and_no_name_twice() {
    let key = |key: Key| key.as_text().to_string();
    let start = Key::default();
    assert_eq!(key(start.entered("plan")), "plan");
    let item = || start.entered("review").item(3);
    assert_eq!(key(item().entered("review")), "review[3]");
    assert_eq!(key(item().entered("verify").round(2).entered("verify")), "review[3]/verify#2");
    assert_eq!(key(item().entered("mend").round(1).entered("fix")), "review[3]/mend#1/fix");
    assert_eq!(key(item().closed().entered("review")), "review[3]/review");
    assert_eq!(&*item().entered("verify").round(2).label(), "verify#2");
}
