//! Maps that go on: no row is lost, and none is asked again whose answer is on
//! disk.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{KEPT, PROMPT, SESSION, check_all_completed, echo, map, parse, row, rows};
use crate::crash::for_each;
use crate::support::faults::Fault;
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::tine::{Finished, Place};
use tine::event::SessionId;
use tine::session::dirs::session_directory;

const GONE_ON: [&str; 6] = ["--output", "out.jsonl", "--max-concurrent", "4", "--resume", SESSION];

/// How many rows the table has that is killed at every write.
const ROWS: usize = 3;

/// Which row each request was about, and how often.
fn counts(servers: Vec<Server>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in servers.into_iter().flat_map(Server::finish) {
        *counts.entry(row(&Talk::of(&request)).to_owned()).or_default() += 1;
    }
    counts
}

/// The rows that have ended well by a log.
fn done(place: &Place) -> Vec<String> {
    let log = place.log();
    let mut names = BTreeMap::new();
    for line in log.iter().filter(|line| line["kind"] == "unit_queued") {
        let name = line["body"]["description"].as_str().expect("it is a text");
        let index = name.trim_start_matches("rows[").trim_end_matches(']');
        names.insert(line["unit"].to_string(), format!("r{index}"));
    }
    let ended = log.iter().filter(|line| line["kind"] == "unit_ended");
    let done = ended.filter(|line| line["body"]["outcome"]["state"] == "done");
    done.filter_map(|line| names.get(&line["unit"].to_string()).cloned()).collect()
}

#[test]
fn a_map_that_is_killed_goes_on_and_runs_no_row_twice_whose_result_is_on_disk() {
    for killed_at in [1, 9, 22, 40] {
        let place = rows(40);
        let first = echo();
        let running = map(&place, &first, &KEPT).start();
        first.wait_until_came(killed_at);
        running.signal(Signal::SIGKILL);
        drop(running.wait());
        let done = done(&place);
        let lines = parse(&place.read("out.jsonl").unwrap_or_default());
        assert!(lines.len() <= done.len(), "a line is written behind the log");
        let second = echo();
        map(&place, &second, &GONE_ON).run().exits(0);
        check_all_completed(&place, 40);
        let counts = counts(vec![first, second]);
        assert_eq!(counts.len(), 40);
        assert!(done.iter().all(|row| counts[row] == 1), "{killed_at}: {done:?} {counts:?}");
        assert!(counts.values().sum::<usize>() <= 44, "only those at work run again: {counts:?}");
    }
}

/// At each write to the log, and so between any two things that happen.
#[test]
fn a_map_that_is_killed_at_any_write_goes_on() {
    let log = |place: &Place| {
        let sessions = place.home().join(".local/state/tine/sessions");
        let id = SessionId(SESSION.into());
        session_directory(&sessions, &place.work(), &id).join("log.jsonl")
    };
    let whole = rows(ROWS);
    map(&whole, &echo(), &KEPT).run().exits(0);
    for_each(1..=whole.log().len(), |number| {
        let (place, first) = (rows(ROWS), echo());
        let fault = Fault::KilledAtWrite(number);
        let killed = map(&place, &first, &KEPT).with_fault(fault, &log(&place)).run();
        assert_eq!(killed.status.code(), None, "{number}: {}", killed.stderr);
        let done = done(&place);
        let second = echo();
        map(&place, &second, &GONE_ON).run().exits(0);
        check_all_completed(&place, ROWS);
        let counts = counts(vec![first, second]);
        assert_eq!(counts.len(), ROWS, "{number}");
        assert!(done.iter().all(|row| counts[row] == 1), "{number}: {done:?} {counts:?}");
    });
}

#[test]
fn rows_that_were_at_work_and_those_behind_them_run_when_a_killed_map_goes_on() {
    let place = rows(12);
    let gate = Gate::closed();
    let first = serve(move |talk| {
        let answer = Reaction::text_reply(&format!("saw {}", row(talk)));
        let number: usize = row(talk)[1..].parse().expect("rows are numbered");
        if number < 5 { answer } else { answer.behind(&gate) }
    });
    let running = map(&place, &first, &KEPT).start();
    // Each row beyond the first four has a place because another's end is on disk.
    first.wait_until_came(9);
    running.signal(Signal::SIGKILL);
    drop(running.wait());
    let second = echo();
    map(&place, &second, &GONE_ON).run().exits(0);
    check_all_completed(&place, 12);
    let lines = parse(&place.read("out.jsonl").expect("it was written"));
    let from_before = |line: &Value| line["from_before"] == true;
    let expected: Vec<bool> = (0..12).map(|index| index < 5).collect();
    assert_eq!(lines.iter().map(from_before).collect::<Vec<_>>(), expected);
    // Also what they used, though it was not in this process.
    assert!(lines.iter().all(|line| line["usage"]["input_tokens"] == 10 && line["turns"] == 1));
    let counts = counts(vec![first, second]);
    let twice: Vec<&str> =
        counts.iter().filter(|(_, count)| **count == 2).map(|(row, _)| &**row).collect();
    assert_eq!((counts.len(), twice), (12, vec!["r5", "r6", "r7", "r8"]));
}

#[test]
fn rows_that_failed_run_again_only_where_that_is_wanted() {
    let place = rows(3);
    let failing = || {
        serve(|talk| match row(talk) {
            "r1" => Reaction::json(400, &json!({ "error": { "message": "no" } })),
            path => Reaction::text_reply(&format!("saw {path}")),
        })
    };
    let first = failing();
    let before = map(&place, &first, &KEPT).run().exits(1);
    assert!(before.stderr.contains("--retry-failed"), "{}", before.stderr);
    let lines = parse(&place.read("out.jsonl").expect("it was written"));
    let second = echo();
    let again = map(&place, &second, &GONE_ON).run().exits(1);
    assert!(again.stderr.contains("3 rows: 2 completed, 1 failed (3 before)"), "{}", again.stderr);
    assert!(second.finish().is_empty());
    let mut expected = lines;
    expected.iter_mut().for_each(|line| line["from_before"] = json!(true));
    assert_eq!(parse(&place.read("out.jsonl").expect("it was written")), expected);
    let third = echo();
    map(&place, &third, &[&GONE_ON[..], &["--retry-failed"]].concat()).run().exits(0);
    check_all_completed(&place, 3);
    assert_eq!(counts(vec![third]), BTreeMap::from([("r1".to_owned(), 1)]));
}

/// Ten thousand rows are not asked with a key that the provider has refused.
#[test]
fn a_key_that_is_refused_ends_the_map_and_with_another_one_it_goes_on() {
    let place = rows(40);
    let first = serve(|_| Reaction::json(401, &json!({ "error": { "message": "no such key" } })));
    let before = map(&place, &first, &KEPT).run().exits(41);
    assert!(before.stderr.contains("no such key"), "{}", before.stderr);
    let hint = format!(
        "hint: the same command with `--resume {SESSION} --retry-failed` goes on with the rest and \
         runs the rows again that failed"
    );
    assert_eq!(before.stderr.lines().last(), Some(&*hint));
    // Those in the four places, and who took a place before the first of them ended.
    let asked = first.finish().len();
    assert!(asked <= 8, "{asked}");
    let lines = parse(&place.read("out.jsonl").expect("it was written"));
    assert_eq!((lines.len(), &lines[39]["status"]), (40, &json!("skipped")));
    // That says nothing of the rows.
    map(&place, &echo(), &GONE_ON).run().exits(0);
    check_all_completed(&place, 40);
}

#[test]
fn a_map_that_is_interrupted_has_a_line_for_each_row_and_goes_on() {
    let place = rows(8);
    let first = serve(|talk| match row(talk) {
        "r0" => Reaction::text_reply("saw r0"),
        _ => Reaction::Hang,
    });
    let running = map(&place, &first, &KEPT).start();
    first.wait_until_came(5);
    running.signal(Signal::SIGINT);
    let Finished { stderr, .. } = running.wait().exits(130);
    assert!(stderr.contains("8 rows: 1 completed, 7 not done"), "{stderr}");
    let hint = format!("hint: the same command with `--resume {SESSION}` goes on with the rest");
    assert_eq!(stderr.lines().last(), Some(&*hint));
    let lines = parse(&place.read("out.jsonl").expect("it was written"));
    let status: Vec<&str> = lines.iter().filter_map(|line| line["status"].as_str()).collect();
    let expected = ["completed", "cancelled", "cancelled", "cancelled", "cancelled", "skipped"];
    assert_eq!(status[..6], expected);
    assert_eq!(status[6..], ["skipped", "skipped"]);
    map(&place, &echo(), &GONE_ON).run().exits(0);
    check_all_completed(&place, 8);
}

#[test]
fn what_has_changed_since_is_said_and_asked_again() {
    let place = rows(3);
    map(&place, &echo(), &KEPT).run().exits(0);
    let goes_on = |asked: &[&str], said: &[&str]| {
        let server = echo();
        let run = map(&place, &server, &GONE_ON).run().exits(0);
        let expected = asked.iter().map(|row| (row.to_string(), 1)).collect::<BTreeMap<_, _>>();
        assert_eq!(counts(vec![server]), expected);
        let lines: Vec<&str> = run.stderr.lines().skip(1).take(said.len()).collect();
        assert_eq!(lines, said, "{}", run.stderr);
        assert!(!run.stderr.lines().skip(1 + said.len()).any(|line| line.starts_with("warning")));
    };
    goes_on(&[], &["3 rows ended before, none is left"]);
    let changed = |rows: &str| {
        format!(
            "warning: asked again, since the table, the prompt, the agent or the schema has \
             changed: {rows} that had an answer"
        )
    };
    place.write("items.csv", "path\nr0\nnew\nr2\nr3\n");
    goes_on(&["new", "r3"], &["2 rows ended before, 2 to go", &changed("1 row")]);
    place.write("items.csv", "path\nr0\nnew\n");
    let gone = "warning: the table is shorter than before, by 2 rows";
    goes_on(&[], &["2 rows ended before, none is left", gone]);
    place.write("p.md", "Look at {{ path }}!");
    goes_on(&["r0!", "new!"], &[&changed("2 rows"), gone]);
}

#[test]
fn a_session_of_another_sort_is_no_map() {
    let other = Place::new();
    other.write("p.md", PROMPT);
    other.write("items.csv", "path\na\n");
    other.tine(["-p", "go", "-m", "offline", "--session-id", SESSION]).run().exits(0);
    let run = map(&other, &echo(), &["--resume", SESSION]).run().exits(42);
    let expected = format!("error: session `{SESSION}` is no map\n");
    assert!(run.stderr.starts_with(&expected), "{}", run.stderr);
}
