//! Schemas and values, and what is said of them.

use serde_json::json;

use super::*;

#[track_caller]
fn check(schema: Value, value: Value, problems: &[&str]) {
    let schema = Schema::compile(&schema).unwrap();
    let found = schema.check(&value).err().map(|mismatch| mismatch.problems).unwrap_or_default();
    assert_eq!(found, problems, "{value}");
}

/// Says of each value whether it fits.
#[track_caller]
fn fits(schema: &Value, values: &[(Value, bool)]) {
    let compiled = Schema::compile(schema).unwrap();
    for (value, expected) in values {
        assert_eq!(compiled.check(value).is_ok(), *expected, "{schema} {value}");
    }
}

#[track_caller]
fn refused(schema: Value, place: &str, reason: &str) {
    let error = Schema::compile(&schema).unwrap_err();
    assert_eq!((error.place.as_str(), error.reason.as_str()), (place, reason));
}

#[test]
fn a_value_that_does_not_fit_is_told_what_it_must_be() {
    for (schema, value, problem) in [
        (json!({"type": "string"}), json!(3), "the whole: must be string, not number 3"),
        (
            json!({"type": ["integer", "null"]}),
            json!([]),
            "the whole: must be integer or null, not array",
        ),
        (json!({"type": "integer"}), json!(1.5), "the whole: must be integer, not number 1.5"),
        (json!({"enum": ["a", 1]}), json!("b"), "the whole: must be one of \"a\", 1, not \"b\""),
        (json!({"const": {"a": 1}}), json!(2), "the whole: must be {\"a\":1}, not 2"),
        (json!({"minimum": 3}), json!(2), "the whole: must be at least 3, not 2"),
        (json!({"exclusiveMinimum": 3}), json!(3), "the whole: must be above 3, not 3"),
        (json!({"maximum": 3.5}), json!(4), "the whole: must be at most 3.5, not 4"),
        (json!({"exclusiveMaximum": 3}), json!(3), "the whole: must be below 3, not 3"),
        (
            json!({"multipleOf": 0.01}),
            json!(0.005),
            "the whole: must be a multiple of 0.01, not 0.005",
        ),
        (
            json!({"minLength": 2}),
            json!("ü"),
            "the whole: must have at least 2 characters, and has 1",
        ),
        (json!({"maxItems": 1}), json!([1, 2]), "the whole: must have at most 1 items, and has 2"),
        (
            json!({"minProperties": 1}),
            json!({}),
            "the whole: must have at least 1 properties, and has 0",
        ),
        (
            json!({"pattern": "^a+$"}),
            json!("b"),
            "the whole: must match the pattern `^a+$`, not be \"b\"",
        ),
    ] {
        check(schema, value, &[problem]);
    }
}

#[test]
fn items_that_do_not_fit_are_told_by_their_numbers() {
    for (schema, value, problem) in [
        (
            json!({"uniqueItems": true}),
            json!([1, 1.0]),
            "the whole: must not hold the same item twice",
        ),
        (json!({"items": {"type": "null"}}), json!([null, 1]), "`/1`: must be null, not number 1"),
        (json!({"prefixItems": [true], "items": false}), json!([1, 2]), "`/1`: must not be there"),
        (
            json!({"items": [true], "additionalItems": false}),
            json!([1, 2]),
            "`/1`: must not be there",
        ),
        (
            json!({"contains": {"const": 1}, "maxContains": 1}),
            json!([1, 1]),
            "the whole: must hold at least 1 and at most 1 of what `contains` describes, and holds 2",
        ),
    ] {
        check(schema, value, &[problem]);
    }
}

#[test]
fn properties_that_do_not_fit_are_told_by_their_names() {
    for (schema, value, problem) in [
        (json!({"required": ["a", "b"]}), json!({"a": 1}), "the whole: lacks `b`"),
        (
            json!({"properties": {"a/b": {"type": "null"}}}),
            json!({"a/b": 1}),
            "`/a~1b`: must be null, not number 1",
        ),
        (json!({"additionalProperties": false}), json!({"x": 1}), "`/x`: must not be there"),
        (
            json!({"patternProperties": {"^x": {"type": "null"}}, "additionalProperties": false}),
            json!({"xy": 1}),
            "`/xy`: must be null, not number 1",
        ),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"xy": 1}),
            "the whole: must not have the name `xy`",
        ),
        (json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1}), "the whole: lacks `b`"),
        (
            json!({"dependencies": {"a": {"required": ["b"]}}}),
            json!({"a": 1}),
            "the whole: lacks `b`",
        ),
    ] {
        check(schema, value, &[problem]);
    }
}

#[test]
fn subschemas_that_are_put_together_say_which_of_them_do_not_fit() {
    for (schema, value, problem) in [
        (json!({"allOf": [{"minimum": 3}]}), json!(2), "the whole: must be at least 3, not 2"),
        (
            json!({"anyOf": [{"type": "null"}, {"properties": {"a": {"type": "null"}}, "type": "object"}]}),
            json!({"a": 1}),
            "the whole: fits none of 2 alternatives (must be null, not object; or `/a`: must be null, not number 1)",
        ),
        (
            json!({"oneOf": [{"minimum": 1}, {"maximum": 5}]}),
            json!(3),
            "the whole: must fit only one of 2 alternatives, and fits 2",
        ),
        (
            json!({"not": {"type": "null"}}),
            json!(null),
            "the whole: must not be what `not` describes",
        ),
        (
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": false}),
            json!({"a": 1}),
            "the whole: lacks `b`",
        ),
        (
            json!({"allOf": [{"properties": {"a": true}}], "unevaluatedProperties": false}),
            json!({"a": 1, "b": 1}),
            "`/b`: must not be there",
        ),
        (
            json!({"anyOf": [{"prefixItems": [true]}], "unevaluatedItems": false}),
            json!([1, 2]),
            "`/1`: must not be there",
        ),
    ] {
        check(schema, value, &[problem]);
    }
}

#[test]
fn what_fits_has_no_problems() {
    fits(
        &json!({"type": "integer"}),
        &[(json!(1.0), true), (json!(1e300), true), (json!("1"), false)],
    );
    fits(
        &json!({"multipleOf": 0.01}),
        &[(json!(0.07), true), (json!(19.99), true), (json!(0.075), false)],
    );
    fits(&json!({"multipleOf": 5}), &[(json!(10.0), true), (json!(-5), true), (json!(7), false)]);
    fits(
        &json!({"enum": [1, {"a": [2.0]}]}),
        &[(json!(1.0), true), (json!({"a": [2]}), true), (json!(2), false)],
    );
    fits(&json!({"minimum": u64::MAX}), &[(json!(u64::MAX), true), (json!(i64::MIN), false)]);
    fits(&json!({"format": "email", "contentEncoding": "base64"}), &[(json!("?"), true)]);
    fits(&json!({"uniqueItems": true}), &[(json!([{"a": 1, "b": 2}, {"b": 2, "a": 2}]), true)]);
    fits(&json!(false), &[(json!(null), false)]);
    let tree = json!({
        "$defs": {"node": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"]}},
        "$ref": "#/$defs/node",
    });
    fits(&tree, &[(json!({"next": {"next": null}}), true), (json!({"next": {"next": 1}}), false)]);
}

#[test]
fn a_reference_leads_to_a_pointer_an_anchor_or_an_id_within_the_schema() {
    let schema = json!({
        "$id": "https://example.com/all",
        "$defs": {
            "a b/c": {"const": 1},
            "named": {"$anchor": "two", "const": 2},
            "part": {"$id": "part", "const": 3, "$defs": {"own": {"const": 4}}, "properties": {"x": {"$ref": "#/$defs/own"}}},
        },
        "properties": {
            "pointer": {"$ref": "#/$defs/a%20b~1c"},
            "anchor": {"$ref": "#two"},
            "id": {"$ref": "part"},
            "below": {"$ref": "part#/$defs/own"},
            "whole": {"$ref": "https://example.com/all#/$defs/named"},
        },
    });
    for (name, value) in [("pointer", 1), ("anchor", 2), ("id", 3), ("below", 4), ("whole", 2)] {
        fits(&schema, &[(json!({name: value}), true), (json!({name: 9}), false)]);
    }
}

#[test]
fn in_draft_7_nothing_counts_beside_a_reference() {
    let mut schema =
        json!({"$ref": "#/definitions/a", "maximum": 1, "definitions": {"a": {"type": "number"}}});
    fits(&schema, &[(json!(2), false)]);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    fits(&schema, &[(json!(2), true), (json!("x"), false)]);
}

#[test]
fn what_cannot_be_used_is_refused_with_its_place() {
    refused(
        json!({"$ref": "http://127.0.0.1:9/x"}),
        "#/$ref",
        "`http://127.0.0.1:9/x` leads out of the schema, and nothing is fetched",
    );
    refused(
        json!({"items": {"$ref": "file:///etc/passwd#/a"}}),
        "#/items/$ref",
        "`file:///etc/passwd#/a` leads out of the schema, and nothing is fetched",
    );
    refused(json!({"$ref": "#/$defs/x"}), "#/$ref", "`#/$defs/x` leads nowhere");
    refused(json!({"$ref": "#x"}), "#/$ref", "`#x` names no anchor of the schema");
    refused(json!({"$ref": "#%FF"}), "#/$ref", "`#%FF` is no reference");
    refused(json!({"$ref": "#"}), "#", "refers to itself without an end");
    refused(
        json!({"anyOf": [true, {"not": {"$ref": "#"}}]}),
        "#",
        "refers to itself without an end",
    );
    refused(
        json!({"properties": {"a": 1}}),
        "#/properties/a",
        "must be a schema: an object, true or false",
    );
    refused(json!({"properties": []}), "#/properties", "must be an object");
    refused(json!({"required": true}), "#/required", "must be an array of strings");
    refused(json!({"minLength": -1}), "#/minLength", "must be a whole number, at least 0");
    refused(json!({"multipleOf": 0}), "#/multipleOf", "must be a number above 0");
    refused(json!({"anyOf": []}), "#/anyOf", "must be an array of at least one schema");
    let long = "a".repeat(PATTERN_LENGTH_CAP + 1);
    refused(json!({"pattern": long}), "#/pattern", "a pattern has at most 2000 bytes");
    let many = vec![json!({"pattern": "a"}); PATTERNS_CAP + 1];
    refused(json!({"allOf": many}), "#", "has more than 100 patterns");
    refused(
        json!({"allOf": vec![json!({}); SUBSCHEMAS_CAP]}),
        "#",
        "has more than 10000 subschemas",
    );
    let name = "n".repeat(PLACE_LENGTH_CAP);
    refused(
        json!({"properties": {name: {}}}),
        "#",
        "has a subschema behind more than 1000 bytes of names",
    );
    let error = Schema::compile(&json!({"pattern": "("})).unwrap_err().to_string();
    assert!(error.starts_with("at `#/pattern`: is no pattern that can be used: "), "{error}");
    let huge = Schema::compile(&json!({"pattern": "(\\w{100}){100}"})).unwrap_err();
    assert_eq!(huge.place, "#/pattern");
}

/// Nested as deep as JSON can be that anybody can read.
fn nested(levels: u32) -> Value {
    (0..levels).fold(json!(7), |inner, _| json!([inner]))
}

#[test]
fn alternatives_that_share_their_parts_take_no_longer_with_every_level() {
    let twice = |next: &Value| json!({"anyOf": [{"allOf": [next, {"minItems": 2}]}, next]});
    let schema = json!({"items": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "not": {"const": 7}});
    fits(&schema, &[(nested(60), false)]);
    let mut defs = serde_json::Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        defs.insert(level.to_string(), twice(&next));
    }
    defs.insert("40".to_owned(), json!({"type": "array"}));
    let schema = json!({"$ref": "#/$defs/0", "$defs": defs});
    fits(&schema, &[(json!([]), true), (json!(1), false)]);
}

#[test]
fn chains_that_would_take_the_stack_away_are_given_up() {
    let mut defs = serde_json::Map::new();
    for level in 0..5_000 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        defs.insert(level.to_string(), next);
    }
    defs.insert("5000".to_owned(), json!({"items": {"$ref": "#/$defs/0"}}));
    check(
        json!({"$ref": "#/$defs/0", "$defs": defs}),
        nested(100),
        &["the value is too deep to be checked against the schema"],
    );
    let mut schema = json!({});
    for _ in 0..120 {
        schema = json!({"items": schema});
    }
    fits(&schema, &[(nested(120), true)]);
}

#[test]
fn work_and_patterns_have_an_end() {
    let items: Vec<Value> = (0..2_000).map(|number| json!(number)).collect();
    let schema = json!({"items": {"enum": items}});
    let one = "`/0`: must be one of 0, 1, 2, 3, 4, 5, 6, 7, …, not 2000";
    check(schema, json!([2_000]), &[one]);
    let schema = json!({"items": {"not": {"enum": vec![json!(0); 2_000]}}});
    let value = json!(vec![1; 1_000]);
    check(schema, value, &["the value is too large to be checked against the schema"]);
    let text = "a".repeat(50) + "b";
    fits(&json!({"pattern": "^(a+)+$"}), &[(json!(text), false)]);
    check(
        json!({"pattern": "^(?=a)(a|a)*(?<!b)$"}),
        json!(text),
        &["a pattern of the schema takes too long on the value"],
    );
}

#[test]
fn what_is_told_is_bounded() {
    let schema = json!({"items": {"type": "null"}, "maxItems": 1});
    let mismatch = Schema::compile(&schema).unwrap().check(&json!(vec!["x".repeat(9_000); 30]));
    let problems = mismatch.unwrap_err().problems;
    assert_eq!(problems.len(), PROBLEMS_CAP);
    assert!(problems.iter().all(|problem| problem.len() < 400), "{problems:?}");
    let name = "n".repeat(9_000);
    let schema = json!({"additionalProperties": false, "required": [name.clone() + "x"]});
    let problems = Schema::compile(&schema).unwrap().check(&json!({name: 1})).unwrap_err().problems;
    assert!(problems.iter().all(|problem| problem.len() < 400), "{problems:?}");
}

/// Checks a value and returns how much was kept and how many steps it took.
fn work(schema: &Value, value: &Value) -> (usize, usize) {
    let schema = Schema::compile(schema).unwrap();
    let mut run = Run::new(&schema.nodes, &|| false);
    let _ = run.fits(NodeId::ROOT, value);
    (run.known.len(), run.steps)
}

#[test]
fn subschemas_that_say_nothing_take_no_memory_and_others_take_steps() {
    let items = json!(vec![0; 1_000]);
    let schema = json!({"items": {"allOf": vec![true; 9_000]}});
    assert_eq!(work(&schema, &items), (1, 1_002));
    let schema = json!({"items": {"allOf": vec![json!({"minLength": 1}); 9_000]}});
    let (known, _) = work(&schema, &items);
    assert!(known <= KNOWN_CAP, "{known}");
    let large = "the value is too large to be checked against the schema";
    check(schema, items, &[large]);
}

#[test]
fn a_pattern_pays_for_what_it_may_read_again() {
    let again = json!({"pattern": "^(?:(?!.*z)a)*$"});
    fits(&again, &[(json!("a".repeat(50)), true), (json!("a".repeat(50) + "z"), false)]);
    let large = "the value is too large to be checked against the schema";
    for length in [9_900, 90_000, 900_000] {
        check(again.clone(), json!("a".repeat(length)), &[large]);
    }
    // Without going back: at each place it looks to the end, and so on.
    let ahead = json!({"pattern": "^(?:(?=.*z)a)*z$"});
    fits(&ahead, &[(json!("a".repeat(500) + "z"), true)]);
    check(ahead, json!("a".repeat(90_000) + "z"), &[large]);
    let deeper = json!({"pattern": "^(?:(?=(?:(?=.*z)a)*)a)*z$"});
    fits(&deeper, &[(json!("a".repeat(50) + "z"), true)]);
    check(deeper, json!("a".repeat(900) + "z"), &[large]);
    // One that never goes back reads a text of any length once.
    fits(&json!({"pattern": "^a+$"}), &[(json!("a".repeat(900_000)), true)]);
    let usual = json!({"items": {"pattern": "^(?=.*[A-Z])(?=.*[0-9]).{8,64}$"}});
    fits(&usual, &[(json!(vec!["Correct4Horse"; 1_000]), true)]);
    refused(
        json!({"pattern": "(?:(?=a)){999999999}"}),
        "#/pattern",
        "is no pattern that can be used: it repeats more than 10000 times",
    );
}

#[test]
fn what_many_references_have_looked_at_is_found_out_once() {
    let mut defs = serde_json::Map::new();
    for level in 0..180 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        defs.insert(level.to_string(), next);
    }
    let fields: serde_json::Map<String, Value> =
        (0..100).map(|at| (format!("k{at}"), json!(1))).collect();
    let named: serde_json::Map<String, Value> =
        fields.keys().map(|name| (name.clone(), json!(true))).collect();
    defs.insert("180".to_owned(), json!({"properties": named}));
    let schema = json!({
        "allOf": vec![json!({"$ref": "#/$defs/0"}); 150],
        "unevaluatedProperties": false, "$defs": defs,
    });
    let value = Value::Object(fields);
    fits(&schema, &[(value.clone(), true)]);
    let (_, steps) = work(&schema, &value);
    // Each reference passes on what is behind it: 480 times 101, and what looks at
    // the names twice.
    assert!((48_000..80_000).contains(&steps), "{steps}");
}

#[test]
fn a_check_ends_soon_after_it_is_stopped() {
    let schema = Schema::compile(&json!({"items": {"type": "integer"}})).unwrap();
    let value = json!(vec![0; 10_000]);
    let asked = std::cell::Cell::new(0);
    let stopped = schema.check_until(&value, &|| {
        asked.set(asked.get() + 1);
        asked.get() == 2
    });
    assert_eq!(stopped.unwrap_err().problems, ["the check was stopped"]);
    assert_eq!(asked.get(), 2);
    assert_eq!(schema.check(&value), Ok(()));
}
