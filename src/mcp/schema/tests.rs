//! Schemas of servers, and what becomes of them.

use serde_json::{Value, json};

use super::*;

/// Checks what a schema becomes, and the sentences that replace parts of it.
#[track_caller]
fn check(written: &Value, expected: &Value, words: &str) {
    let accepted = accept(Some(written)).unwrap();
    assert_eq!((accepted.schema, &*accepted.words), (expected.clone(), words), "{written}");
}

/// Checks what the one property `a` of a schema becomes.
#[track_caller]
fn check_property(written: &Value, expected: &Value) {
    let of = |property: &Value| json!({"properties": {"a": property}, "type": "object"});
    check(&of(written), &of(expected), "");
}

#[test]
fn what_providers_accept_keeps_its_bytes() {
    for fine in [
        json!({"properties": {}, "type": "object"}),
        json!({
            "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}, "type": "object"}},
            "additionalProperties": {"type": "string"},
            "description": "d",
            "properties": {
                "any": true,
                "choice": {"anyOf": [{"type": "string"}, {"items": {"type": "integer"}, "type": "array"}]},
                "constant": {"const": 1},
                "date": {"format": "date-time", "pattern": "^[0-9]{4}-", "type": "string"},
                "number": {"default": null, "exclusiveMinimum": 0, "multipleOf": 0.5, "type": ["number", "null"]},
                "open": {"additionalProperties": true, "nullable": true, "type": "object"},
                "type": {"enum": ["a", "b"], "type": "string"},
                "required": {"type": "boolean"},
                "whole": {"$ref": "#/$defs/node"},
            },
            "required": ["any"],
            "type": "object",
        }),
    ] {
        let mut sorted = fine.clone();
        sorted.sort_all_objects();
        let accepted = accept(Some(&fine)).unwrap();
        assert_eq!(accepted.schema.to_string(), sorted.to_string());
        assert_eq!(accepted.words, "");
    }
}

#[test]
fn a_tool_without_parameters_is_offered_however_a_library_writes_that() {
    let empty = json!({"properties": {}, "type": "object"});
    assert_eq!(accept(None).unwrap().schema, empty);
    for written in [
        json!(null),
        json!({}),
        json!([]),
        json!(true),
        json!("{}"),
        json!({"type": "object"}),
        json!({"type": null}),
        json!({"type": "object", "properties": null}),
        json!({"type": "object", "properties": [], "required": []}),
        json!({"type": "object", "properties": {}, "required": null}),
        json!({"type": ["object", "null"], "$schema": "http://json-schema.org/draft-04/schema#"}),
        json!({"type": "OBJECT", "properties": null, "additionalProperties": null}),
        json!({"type": "dict", "$defs": null, "anyOf": [], "enum": null}),
    ] {
        let accepted = accept(Some(&written)).unwrap();
        let mut schema = accepted.schema;
        // An empty list is one that providers take.
        schema.as_object_mut().unwrap().retain(|key, _| key != "required");
        assert_eq!((schema, &*accepted.words), (empty.clone(), ""), "{written}");
    }
}

#[test]
fn what_is_no_schema_of_objects_is_refused_with_the_reason() {
    for (written, why) in [
        (json!({"type": "array"}), "its schema has the type \"array\", not \"object\""),
        (
            json!({"type": ["string", "null"]}),
            "its schema has the type [\"string\",\"null\"], not \"object\"",
        ),
        (json!("object"), "its schema is not an object"),
        (json!(7), "its schema is not an object"),
        (json!(false), "its schema is not an object"),
        (json!([{"type": "object"}]), "its schema is not an object"),
        (json!({"properties": "none"}), "the `properties` of its schema are not an object"),
        (json!({"properties": [1]}), "the `properties` of its schema are not an object"),
    ] {
        assert_eq!(accept(Some(&written)), Err(why.to_owned()), "{written}");
    }
}

#[test]
fn a_choice_at_the_top_becomes_a_sentence_and_its_properties_stay() {
    let text = json!({"type": "string"});
    check(
        &json!({
            "type": "object",
            "properties": {"body": text, "reaction": text},
            "anyOf": [{"required": ["body"]}, {"required": ["reaction"]}],
        }),
        &json!({"properties": {"body": text, "reaction": text}, "type": "object"}),
        "At least one of: {body} or {reaction}.",
    );
    check(
        &json!({"oneOf": [
            {"properties": {"a": text, "b": text}, "required": ["a", "b"]},
            {"properties": {"b": text, "c": {"type": "integer"}}, "required": ["b"]},
        ]}),
        &json!({
            "properties": {"a": text, "b": text, "c": {"type": "integer"}},
            "required": ["b"],
            "type": "object",
        }),
        "Exactly one of: {a, b} or {b, c?}.",
    );
    // The alternatives of a union that is told by a constant.
    check(
        &json!({"oneOf": [
            {"type": "object", "properties": {"do": {"const": "add"}, "text": text}, "required": ["do", "text"]},
            {"type": "object", "properties": {"do": {"const": "remove"}, "id": {"type": "integer"}}, "required": ["do"]},
            {"type": "null"},
        ]}),
        &json!({
            "properties": {"do": {"enum": ["add", "remove"]}, "id": {"type": "integer"}, "text": text},
            "required": ["do"],
            "type": "object",
        }),
        "Exactly one of: {do: \"add\", text} or {do: \"remove\", id?}.",
    );
    // What differs between alternatives may be either.
    check(
        &json!({"anyOf": [{"properties": {"a": text}}, {"properties": {"a": {"type": "integer"}}}]}),
        &json!({"properties": {"a": {"anyOf": [text, {"type": "integer"}]}}, "type": "object"}),
        "At least one of: {a?} or {a?}.",
    );
}

#[test]
fn parts_that_hold_in_any_case_are_merged_without_a_sentence() {
    let text = json!({"type": "string"});
    let merged = json!({
        "properties": {"a": text, "b": text}, "required": ["a", "b"], "type": "object",
    });
    let one = json!({"properties": {"a": text}, "required": ["a"]});
    let other = json!({"type": "object", "properties": {"b": text}, "required": ["b"], "additionalProperties": false});
    check(&json!({"allOf": [one, other]}), &merged, "");
    // A single alternative always applies, also next to ones that accept no object.
    check(&json!({"allOf": [one], "anyOf": [other]}), &merged, "");
    check(&json!({"allOf": [one], "oneOf": [other, {"type": "null"}, false]}), &merged, "");
    check(
        &json!({"anyOf": [{}, {"required": ["a"]}]}),
        &json!({"properties": {}, "type": "object"}),
        "",
    );
    // Within each other.
    check(
        &json!({"allOf": [{"allOf": [one, {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}]}, other]}),
        &merged,
        "At least one of: {a} or {b}.",
    );
}

#[test]
fn other_rules_at_the_top_become_sentences() {
    let a = json!({"type": "string"});
    let plain = json!({"properties": {"a": a}, "type": "object"});
    let with =
        |key: &str, value: Value| json!({"properties": {"a": a}, "type": "object", key: value});
    check(&with("not", json!({"required": ["a", "b"]})), &plain, "Not allowed: {a, b}.");
    check(&with("enum", json!([{"a": "x"}])), &plain, "One of: [{\"a\":\"x\"}].");
    check(
        &with("oneOf", json!([{"minProperties": 1}, {"required": ["a"]}])),
        &plain,
        "Exactly one of: {\"minProperties\":1} or {a}.",
    );
}

#[test]
fn a_reference_at_the_top_is_followed_and_one_that_leads_nowhere_takes_anything() {
    let arguments =
        json!({"properties": {"a": {"type": "string"}}, "required": ["a"], "type": "object"});
    let mut expected = arguments.clone();
    expected["definitions"] = json!({"Args": arguments});
    check(
        &json!({"$ref": "#/definitions/Args", "definitions": {"Args": arguments}}),
        &expected,
        "",
    );
    let missing = "(Its schema `#/$defs/gone` is missing.)";
    check(&json!({"$ref": "#/$defs/gone"}), &json!({"properties": {}, "type": "object"}), missing);
    check_property(&json!({"$ref": "#/$defs/gone"}), &json!({"description": missing}));
    check_property(
        &json!({"$ref": "https://example.com/s.json", "description": "d"}),
        &json!({"description": "d (Its schema `https://example.com/s.json` is missing.)"}),
    );
    // What moved with a choice is put where it is meant.
    check(
        &json!({"anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"$ref": "#/anyOf/0/properties/a"}}}]}),
        &json!({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "type": "object"}),
        "At least one of: {a?} or {b?}.",
    );
    // A circle ends.
    assert!(accept(Some(&json!({"$ref": "#"}))).is_ok());
    assert!(accept(Some(&json!({"allOf": [{"$ref": "#"}]}))).is_ok());
    let round = json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"});
    assert!(accept(Some(&round)).is_ok());
}

#[test]
fn keywords_of_older_drafts_and_of_other_languages_are_mended() {
    for (written, expected) in [
        (
            json!({"type": "number", "minimum": 0, "exclusiveMinimum": true}),
            json!({"type": "number", "exclusiveMinimum": 0}),
        ),
        (
            json!({"type": "number", "maximum": 9, "exclusiveMaximum": false}),
            json!({"type": "number", "maximum": 9}),
        ),
        (
            json!({"type": "string", "minLength": "3", "maxLength": null}),
            json!({"type": "string", "minLength": 3}),
        ),
        (
            json!({"type": "integer", "minimum": -1, "minItems": -1, "multipleOf": 0}),
            json!({"type": "integer", "minimum": -1}),
        ),
        (json!({"type": "array"}), json!({"type": "array", "items": {}})),
        (
            json!({"type": "array", "items": [{"type": "string"}, {"type": "int"}], "additionalItems": false}),
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false}),
        ),
        (
            json!({"type": "array", "items": null, "uniqueItems": "true"}),
            json!({"type": "array", "items": {}, "uniqueItems": true}),
        ),
        (json!({"type": "String"}), json!({"type": "string"})),
        (json!({"type": "any"}), json!({})),
        (json!({"type": ["string", "any"]}), json!({})),
        (json!({"type": ["str", "string", "None"]}), json!({"type": ["string", "null"]})),
        (json!({"type": []}), json!({})),
        (json!({"enum": []}), json!({})),
        (json!({"enum": "a"}), json!({"enum": ["a"]})),
        (json!({"description": null, "title": 7, "format": null}), json!({"title": "7"})),
        (json!({"anyOf": {"type": "string"}}), json!({"anyOf": [{"type": "string"}]})),
        (json!({"oneOf": null, "allOf": []}), json!({})),
        (
            json!({"additionalProperties": "false", "type": "object"}),
            json!({"additionalProperties": false, "type": "object"}),
        ),
        (json!({"required": "b", "type": "object"}), json!({"required": ["b"], "type": "object"})),
        (json!({"required": ["b", 7, "b"]}), json!({"required": ["b"]})),
        (json!({"type": "object", "properties": "none"}), json!({"type": "object"})),
        (json!({"$schema": "http://json-schema.org/draft-07/schema#", "$defs": []}), json!({})),
        (json!({"$defs": {"x": {"type": "bool"}}}), json!({"$defs": {"x": {"type": "boolean"}}})),
        (json!(null), json!({})),
        (json!("string"), json!({"type": "string"})),
        (json!("the name"), json!({"description": "the name"})),
        (json!(false), json!(false)),
    ] {
        check_property(&written, &expected);
    }
    let listed = json!({"properties": [{"name": "a", "type": "string", "required": true}]});
    let named =
        json!({"properties": {"a": {"type": "string"}}, "required": ["a"], "type": "object"});
    check(&listed, &named, "");
    check(&json!({"properties": {"a": {"type": "string", "required": true}}}), &named, "");
}

#[test]
fn patterns_that_no_provider_reads_become_words() {
    for pattern in ["^(?!x)", "(?<=a)b", "(a)\\1", "[", "^[\\w-.]+$"] {
        let words = format!("d (It matches the pattern `{pattern}`.)");
        check_property(
            &json!({"type": "string", "pattern": pattern, "description": "d"}),
            &json!({"type": "string", "description": words}),
        );
    }
    let number = json!({"type": "number"});
    check_property(
        &json!({"type": "object", "patternProperties": {"^(.*)$": number}}),
        &json!({"type": "object", "additionalProperties": number}),
    );
    check_property(
        &json!({"type": "object", "patternProperties": {"^(?!_)": number}, "additionalProperties": false}),
        &json!({
            "type": "object",
            "additionalProperties": number,
            "description": "(Names of further properties match the pattern `^(?!_)`.)",
        }),
    );
    check_property(
        &json!({"type": "object", "patternProperties": {"^x-": number}}),
        &json!({"type": "object", "patternProperties": {"^x-": number}}),
    );
}

#[test]
fn whatever_a_server_writes_the_top_is_one_that_providers_take_and_again_the_same() {
    let deep = (0..100).fold(json!({"type": "string"}), |inner, _| {
        json!({"anyOf": [{"properties": {"a": inner}}, {"required": ["b"]}], "type": "object"})
    });
    let wide = json!({"oneOf": (0..500).map(|number| json!({"required": [format!("p{number}")]})).collect::<Vec<_>>()});
    // Each part refers to the whole, which would never end.
    let endless = json!({"allOf": vec![json!({"$ref": "#"}); 50], "properties": {"a": {}}});
    for written in [deep, wide, endless] {
        let AcceptedSchema { schema, words } = accept(Some(&written)).unwrap();
        let top = schema.as_object().unwrap();
        assert_eq!(top["type"], "object");
        assert!(top["properties"].is_object());
        for refused in ["anyOf", "oneOf", "allOf", "not", "enum", "$ref"] {
            assert!(!top.contains_key(refused), "{refused}");
        }
        assert!(words.chars().count() <= WORDS_CAP + 1);
        assert_eq!(accept(Some(&schema)).unwrap().schema, schema);
    }
}
