//! Limits hold for slots on workers as they do for any other, and flows go on.

use serde_json::{Value, json};

use super::{Side, both, call, script, task, task_with};
use crate::support::tine::Place;

/// A reply that used so many tokens, at a dollar each.
fn reply(text: &str, is_last: bool, tokens: u64) -> Value {
    let calls = if is_last { vec![] } else { vec![call("TodoWrite", json!({"todos": []}))] };
    json!({"text": text, "calls": calls, "usage": {"output": tokens, "cost_usd": tokens}})
}

/// Runs a script to its end, and returns its result and the outcomes of its slots.
#[track_caller]
fn limited(side: &mut Side, playing: &Value, flags: &[&str], code: i32) -> (Value, Vec<Value>) {
    side.work(&[4, 4], None);
    let place = Place::new();
    let flags = [&["-o", "json"], flags].concat();
    let result = side.play(&place, playing, &flags).run().exits(code).result();
    let facts = ["subtype", "errors", "result", "total_cost_usd", "usage", "num_turns"];
    let facts: Value = facts.iter().map(|name| result[*name].clone()).collect();
    let mut ended = super::logged(&place, "unit_ended");
    ended.sort_by_key(|line| line["unit"].to_string());
    let ended = ended.into_iter().map(|line| {
        let body = &line["body"];
        json!([line["unit"], body["outcome"], body["text"], body["usage"], body["turns"]])
    });
    (facts, ended.collect())
}

#[test]
fn a_tasks_tokens_are_counted_where_it_runs_and_of_what_it_starts() {
    both(|side| {
        let tasks = [
            task_with("spends", "max_tokens", 10),
            task_with("outer", "max_tokens", 10),
            task("free"),
        ];
        let agents = json!({
            "spends": [reply("some", false, 6), reply("more", false, 6), reply("none", true, 1)],
            "outer": [
                {"calls": [super::batch(&[task("inner")])], "usage": {"output": 1}},
                reply("x", true, 1),
            ],
            "inner": [reply("much", false, 20), reply("none", true, 1)],
            "free": [reply("a lot", false, 50), reply("free", true, 50)],
        });
        limited(side, &script(&tasks, agents), &[], 0)
    });
}

#[test]
fn at_the_runs_budget_slots_on_workers_end_and_then_the_run_does() {
    both(|side| {
        let turns = [reply("some", false, 3), reply("more", false, 4), reply("none", true, 1)];
        let agents = json!({ "spends": turns });
        let playing = script(&[task("spends")], agents);
        limited(side, &playing, &["--max-budget-usd", "5"], 53)
    });
}

#[test]
fn calls_and_turns_are_counted_where_slots_run() {
    both(|side| {
        let turns = ["a", "b", "c", "d"].map(|text| reply(text, text == "d", 0));
        let agents = json!({ "calls": turns });
        let playing = script(&[task("calls")], agents);
        limited(side, &playing, &["--max-tool-calls", "3"], 53)
    });
    both(|side| {
        let agents =
            json!({"turns": [reply("a", false, 0), reply("b", false, 0), reply("c", true, 0)]});
        let playing = script(&[task_with("turns", "max_turns", 2)], agents);
        limited(side, &playing, &[], 0)
    });
}

#[test]
fn a_slot_runs_no_longer_than_its_time() {
    both(|side| {
        let agents = json!({"slow": [{"text": "half", "fault": "hang"}]});
        let playing = script(&[task_with("slow", "timeout_s", 1), task("other")], agents);
        limited(side, &json!({"units": playing["units"], "then": {"text": "fine"}}), &[], 0)
    });
}

#[test]
fn a_flow_that_goes_on_runs_only_what_has_not_finished() {
    both(|side| {
        side.work(&[2], None);
        let place = Place::new();
        let text = "[[step]]\nname = \"a\"\nsees = \"none\"\nprompt = \"greet\"\n\
                    [[step]]\nname = \"b\"\nsees = \"none\"\nprompt = \"b of {{ steps.a.text }}\"\n\
                    [[step]]\nname = \"c\"\nprompt = \"c of {{ steps.b.text }}\"\n";
        place.write("a.toml", text);
        let down = json!([{"fault": {"error": {"status": 400, "message": "no"}}}]);
        let units = json!({"a": [{"text": "hello"}], "b": down, "c": [{"text": "first c"}]});
        let model = place.script("one.json", &json!({ "units": units }));
        let begun = side.tine(&place, &["flow", "run", "a.toml", "-m", &model]).run();
        let units = json!({
            "b": [{"text": "now b", "expect": {"contains": ["b of hello"]}}],
            "c": [{"text": "now c", "expect": {"contains": ["c of now b"]}}],
        });
        let model = place.script("two.json", &json!({ "units": units }));
        let again = ["flow", "run", "a.toml", "--continue", "-m", &model];
        let gone_on = side.tine(&place, &again).run().exits(0);
        assert_eq!(gone_on.stdout, "now c\n");
        let tokens = |line: &Value| (line["path"].clone(), line["branch"].clone());
        let ended: Vec<_> = super::logged(&place, "unit_ended").iter().map(tokens).collect();
        (begun.status.code(), begun.stdout, ended)
    });
}
