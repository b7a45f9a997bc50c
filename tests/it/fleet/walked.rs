//! Maps and flows on either side: their lines, their cap, and how they go on.

use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::batches::repository;
use super::stories::{most_at_work, of_log, of_records};
use super::{SESSION, Side, both, held, logged, row, table};
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::serve;
use crate::support::tine::{Place, Tine};
use crate::support::wait::until;

/// A map of the table on this side.
fn map(side: &Side, place: &Place, model: &Server, flags: &[&str]) -> Tine {
    let fixed = ["map", "--prompt", "p.md", "--input", "items.csv", "-m", "m"];
    let more = ["--config", "retry.most=0", "--output", "out.jsonl"];
    side.tine(place, &[&fixed[..], &more, flags].concat()).server(model)
}

/// The lines that a map has written, without what is never the same.
fn lines(place: &Place) -> Vec<Value> {
    let text = place.read("out.jsonl").expect("it was written");
    let line = |line: &str| -> Value {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        ["id", "status", "result", "error"].iter().map(|name| line[*name].clone()).collect()
    };
    text.lines().map(line).collect()
}

#[test]
fn a_map_has_no_more_rows_at_work_than_it_says_though_there_are_places() {
    both(|side| {
        let (gate, came) = (Gate::closed(), AtomicUsize::new(0));
        let model = serve(move |talk| {
            if came.fetch_add(1, Ordering::SeqCst) == 1 {
                gate.open();
            }
            Reaction::text_reply(&format!("saw {}", row(talk))).behind(&gate)
        });
        side.work(&[3, 2], Some(&model));
        let place = table(40);
        map(side, &place, &model, &["--max-concurrent", "2"]).run().exits(0);
        assert_eq!((model.most_open(), most_at_work(&place)), (2, 2));
        lines(&place)
    });
}

#[test]
fn what_still_waits_for_the_maps_own_cap_at_a_cancel_is_skipped() {
    both(|side| {
        let model = serve(|_| Reaction::Hang);
        side.work(&[4], Some(&model));
        let place = table(5);
        let running = map(side, &place, &model, &["--max-concurrent", "2"]).start();
        model.wait_until_came(2);
        running.signal(Signal::SIGINT);
        running.wait().exits(130);
        assert_eq!(model.finish().len(), 2);
        lines(&place)
    });
}

#[test]
fn a_table_has_the_same_lines_however_its_rows_end() {
    both(|side| {
        let model = serve(|talk| match row(talk) {
            "r0" => Reaction::text_reply("saw r0"),
            "r1" => Reaction::json(400, &json!({"error": {"message": "too hot"}})),
            _ => Reaction::Hang,
        });
        side.work(&[2], Some(&model));
        let place = table(6);
        let running = map(side, &place, &model, &["--session-id", SESSION]).start();
        model.wait_until_came(4);
        running.signal(Signal::SIGINT);
        let finished = running.wait().exits(130);
        let states: Vec<Value> = lines(&place).iter().map(|line| line[1].clone()).collect();
        let cut = ["cancelled", "cancelled", "skipped", "skipped"];
        assert_eq!(states, [&["completed", "failed"][..], &cut].concat());
        let counts = finished.stderr.lines().find(|line| line.contains("6 rows: "));
        let counts = counts.expect("it counts them").to_owned();
        (lines(&place), counts, of_log(side, &place).keys().cloned().collect::<Vec<_>>())
    });
}

#[test]
fn a_map_that_is_killed_goes_on_with_what_has_not_ended() {
    both(|side| {
        let (open, gate) = (Gate::closed(), Gate::closed());
        open.open();
        let held_back = gate.clone();
        let model = held(move |talk| {
            let number: usize = row(talk)[1..].parse().expect("rows are numbered");
            if number < 3 { open.clone() } else { held_back.clone() }
        });
        side.work(&[2], Some(&model));
        let place = table(8);
        let running = map(side, &place, &model, &["--session-id", SESSION]).start();
        // Each row beyond the first two has a place because another one has ended.
        model.wait_until_came(5);
        running.signal(Signal::SIGKILL);
        drop(running.wait());
        let ended = logged(&place, "unit_ended").len();
        gate.open();
        map(side, &place, &model, &["--resume", SESSION]).run().exits(0);
        let asked = model.finish().len();
        // Those at work run again, and those whose ends were on their way.
        assert!((8..=8 + 2 + 3 - ended).contains(&asked), "{asked}, {ended} had ended");
        let ends = logged(&place, "unit_ended").len();
        (lines(&place), ends)
    });
}

#[test]
fn a_session_that_is_killed_in_a_batch_goes_on_in_its_next_process() {
    both(|side| {
        let gate = Gate::closed();
        let held = gate.clone();
        let tasks = ["first", "second", "third"].map(super::task);
        let calls = [("Agent", json!({ "tasks": tasks }))];
        let model = crate::support::talk::serve_calls(&calls, move |talk| match talk.task() {
            "first" => Reaction::text_reply("I am the first."),
            _ => Reaction::text_reply("I am another.").behind(&held),
        });
        side.work(&[1], Some(&model));
        let place = Place::new();
        let asked = ["-p", "go", "-m", "m", "--session-id", SESSION];
        let running = side.tine(&place, &asked).server(&model).start();
        // Main, the first, and the second in its place.
        model.wait_until_came(3);
        until("the first has ended", || !logged(&place, "unit_ended").is_empty());
        running.signal(Signal::SIGKILL);
        drop(running.wait());
        gate.open();
        let again = ["-p", "go on", "-m", "m", "--resume", SESSION, "-o", "stream-json"];
        let records = side.tine(&place, &again).server(&model).run().exits(0).records();
        let ended = |line: &Value| (line["path"].clone(), line["body"]["outcome"].clone());
        let mut ended: Vec<_> = logged(&place, "unit_ended").iter().map(ended).collect();
        ended.sort_by_key(|(path, _)| path.to_string());
        (ended, records.result()["result"].clone())
    });
}

#[test]
fn a_flow_with_branches_conditions_and_lists_is_walked_alike() {
    both(|side| {
        side.work(&[2, 1], None);
        let place = repository().place;
        let text = "[[step]]\nname = \"a\"\nsees = \"none\"\nprompt = \"greet\"\n\
                    [[step]]\n\
                    [[step.parallel]]\nname = \"b\"\nsees = \"none\"\n\
                    prompt = \"b of {{ steps.a.text }}\"\n\
                    [[step.parallel]]\nname = \"never\"\nsees = \"none\"\nwhen = \"false\"\n\
                    prompt = \"x\"\n\
                    [[step.parallel]]\nname = \"c\"\nsees = \"none\"\nprompt = \"c\"\n\
                    [[step]]\nname = \"each\"\nsees = \"none\"\nfor_each = \"[1, 2, 3]\"\n\
                    prompt = \"x {{ item }}\"\n\
                    [[step]]\nname = \"sum\"\nprompt = \"sum of {{ steps.b.text }}\"\n";
        place.write("a.toml", text);
        let seen = |text: &str, seen: &str| json!([{"text": text, "expect": {"contains": [seen]}}]);
        let refused = json!({"error": {"status": 400, "message": "no"}});
        let units = json!({
            "a": [{"text": "hello"}], "b": seen("B", "b of hello"), "c": [{"fault": refused}],
            "each[0]": seen("one", "x 1"), "each[1]": seen("two", "x 2"),
            "each[2]": seen("three", "x 3"), "sum": seen("all", "sum of B"),
        });
        let model = place.script("script.json", &json!({ "units": units }));
        let run = ["flow", "run", "a.toml", "-m", &model, "-o", "stream-json"];
        let records = side.tine(&place, &run).run().records();
        (of_log(side, &place), of_records(side, &place, &records))
    });
}
