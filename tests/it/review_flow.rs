//! `tine review` with a model: a flow that no model can leave a part of, whose
//! report says what was read.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::repository::Repository;
use crate::support::server::{Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::tine::{Finished, Place};

pub(crate) const FILES: usize = 30;

/// A repository with a change of many files, each of which has one fault.
pub(crate) fn repository() -> Repository {
    let repository = Repository::new();
    let text = |number: usize, body: &str| {
        format!("pub fn half_{number}(text: &str) -> u32 {{\n    {body}\n}}\n")
    };
    for number in 0..FILES {
        repository.write(&format!("src/part{number:02}.rs"), &text(number, "0"));
    }
    repository.commit("Begin");
    for number in 0..FILES {
        let body = "text.parse::<u32>().unwrap() / 2";
        repository.write(&format!("src/part{number:02}.rs"), &text(number, body));
    }
    repository
}

/// A repository with a change of one file, which has one fault.
pub(crate) fn small() -> Repository {
    let repository = Repository::new();
    repository.write("src/part01.rs", "fn a() {}\n");
    repository.commit("Begin");
    repository.write("src/part01.rs", "fn a() {\n    b.unwrap();\n}\n");
    repository
}

pub(crate) fn answer(answer: &Value) -> Reaction {
    Reaction::call_reply(&[("StructuredOutput", answer.clone())])
}

/// The files that a reviewer was given.
pub(crate) fn given(talk: &Talk) -> Vec<String> {
    let names = talk.task().lines().filter_map(|line| line.strip_prefix("+++ b/"));
    names.map(str::to_owned).collect()
}

pub(crate) fn finding(path: &str) -> Value {
    json!({ "path": path, "line": 2, "severity": "high", "title": "text without a number ends the program",
        "reason": "`unwrap` panics on \"x\"" })
}

/// A provider whose models do what they are asked and nothing besides: none of
/// them ever starts an agent.
pub(crate) fn provider() -> Server {
    serve(react)
}

/// What such models answer.
pub(crate) fn react(talk: &Talk) -> Reaction {
    assert!(!talk.task().starts_with("/review"), "no model is asked to fan out");
    if talk.verifies() {
        if talk.turn() == 1 {
            return Reaction::call_reply(&[("Glob", json!({ "pattern": "src/*" }))]);
        }
        let is_wrong = talk.task().contains("src/part00.rs");
        let verdict = if is_wrong { "refuted" } else { "confirmed" };
        return answer(&json!({ "verdict": verdict, "reason": "I looked." }));
    }
    let files = given(talk);
    if talk.turn() == 1 {
        let look = json!({ "file_path": files[0] });
        return Reaction::call_reply(&[("Read", look)]);
    }
    let is_correctness = talk.task().contains("for correctness");
    let found = files.iter().filter(|_| is_correctness).map(|path| finding(path));
    answer(&json!({ "findings": found.collect::<Vec<_>>() }))
}

fn review(place: &Place, server: &Server, flags: &[&str]) -> Finished {
    let flags = ["review", "-m", "m", "--config", "retry.most=0"].iter().chain(flags);
    place.tine(flags).server(server).run()
}

#[test]
fn a_review_of_thirty_files_is_done_by_parts_and_says_what_was_read() {
    let (repository, server) = (repository(), provider());
    let sarif = repository.place.work().join("out.sarif");
    let sarif = sarif.to_str().expect("the place has a plain name");
    let finished = review(
        &repository.place,
        &server,
        &["--sarif", sarif, "--annotations", "--fail-on", "high"],
    );
    let finished = finished.exits(1);
    let report = &finished.stdout;
    for number in 1..FILES {
        assert!(report.contains(&format!("src/part{number:02}.rs:2")), "{number}:\n{report}");
    }
    let annotations = report.lines().filter(|line| line.starts_with("::error ")).count();
    assert_eq!(annotations, FILES - 1, "{report}");
    let written = repository.place.read("out.sarif").expect("it was written");
    let written: Value = serde_json::from_str(&written).expect("it is JSON");
    let results = written["runs"][0]["results"].as_array().expect("results");
    assert_eq!(results.len(), FILES - 1);
}

#[test]
fn a_review_as_json_has_what_its_document_says_and_covers_every_hunk() {
    let (repository, server) = (repository(), provider());
    let finished = review(&repository.place, &server, &["-o", "json", "--effort", "low"]).exits(0);
    let result: Value = serde_json::from_str(&finished.stdout).expect("one object");
    let output = &result["structured_output"];
    assert_eq!((&output["complete"], &output["effort"]), (&json!(true), &json!("low")), "{output}");
    assert_eq!(output["coverage"]["unread"], json!([]));
    let hunks = output["coverage"]["hunks"].as_array().expect("hunks");
    assert_eq!(hunks.len(), FILES);
    let refuted = |finding: &&Value| finding["verification"]["verdict"] == "refuted";
    let findings = output["findings"].as_array().expect("findings");
    assert_eq!((findings.len(), findings.iter().filter(refuted).count()), (FILES, 1));
}

#[test]
fn a_reviewer_that_looks_at_nothing_is_named_and_what_it_was_given_goes_out_again() {
    let repository = repository();
    let server = serve(|talk| match talk.verifies() {
        true => answer(&json!({ "verdict": "unsure", "reason": "?" })),
        false => answer(&json!({ "findings": [] })),
    });
    let finished = review(&repository.place, &server, &["-o", "json", "--effort", "low"]).exits(1);
    let result: Value = serde_json::from_str(&finished.stdout).expect("one object");
    let output = &result["structured_output"];
    assert_eq!((&result["is_error"], &output["complete"]), (&json!(true), &json!(false)));
    let reviewers = output["reviewers"].as_array().expect("reviewers");
    assert!(reviewers.iter().all(|it| it["missing"]["why"] == "no_look"), "{output}");
    assert!(reviewers.iter().any(|it| it["angle"] == "again"), "{output}");
    assert_eq!(output["coverage"]["unread"].as_array().map(Vec::len), Some(FILES));
}

/// A repository with a change of three parts.
fn large() -> Repository {
    let repository = Repository::new();
    let text = |word: &str| -> String {
        (0..200).map(|line| format!("let {word}_{line} = read(\"{word}\", {line});\n")).collect()
    };
    let names: Vec<String> = (0..10).map(|number| format!("src/part{number:02}.rs")).collect();
    for name in &names {
        repository.write(name, &text("old"));
    }
    repository.commit("Begin");
    for name in &names {
        repository.write(name, &text("new"));
    }
    repository
}

/// The coverage table against what came over the wire: in one angle all look
/// around, in the other one only the reviewer of the first part does.
#[test]
fn the_table_says_of_each_angle_what_its_models_were_sent_before_they_answered() {
    let repository = large();
    let looked: Arc<Mutex<BTreeSet<(String, String)>>> = Arc::default();
    let seen = Arc::clone(&looked);
    let server = serve(move |talk| {
        let files = given(talk);
        let angle = ["correctness", "security"].into_iter().find(|angle| {
            talk.task().contains(&format!("\nReview a part of a change for {angle}"))
        });
        let Some(angle) = angle else { return react(talk) };
        let looks = angle == "correctness" || files[0].ends_with("part00.rs");
        if looks && talk.turn() == 1 {
            return Reaction::call_reply(&[("Glob", json!({ "pattern": "src/*" }))]);
        }
        if talk.messages().iter().any(|message| message["role"] == "tool") {
            let mut seen = seen.lock().expect("nobody panics");
            seen.extend(files.into_iter().map(|file| (angle.to_owned(), file)));
        }
        answer(&json!({ "findings": [] }))
    });
    let finished = review(&repository.place, &server, &["-o", "json", "--effort", "low"]).exits(0);
    let result: Value = serde_json::from_str(&finished.stdout).expect("one object");
    let output = &result["structured_output"];
    let mut told = BTreeSet::new();
    for hunk in output["coverage"]["hunks"].as_array().expect("hunks") {
        let by = hunk["read_lines_by"].as_object().expect("an object").iter();
        let whole = by.filter(|(_, lines)| **lines == hunk["changed_lines"]);
        let path = hunk["path"].as_str().expect("a path");
        told.extend(whole.map(|(angle, _)| (angle.clone(), path.to_owned())));
    }
    let looked = looked.lock().expect("nobody panics").clone();
    assert_eq!(told, looked);
    let of = |name: &str| looked.iter().filter(|(angle, _)| angle == name).count();
    assert_eq!(of("correctness"), 10);
    assert!((1..10).contains(&of("security")), "{}", output["reviewers"]);
    assert_eq!((&output["complete"], &output["coverage"]["unread"]), (&json!(false), &json!([])));
}

/// How many requests of steps that had their answer stand in a log.
pub(crate) fn answered(log: &[&str]) -> usize {
    let events: Vec<Value> =
        log.iter().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    let of_kind = |kind: &'static str| events.iter().filter(move |event| event["kind"] == kind);
    let is_done = |event: &&Value| event["body"]["outcome"]["state"] == "done";
    let done: Vec<&Value> =
        of_kind("unit_ended").filter(is_done).map(|event| &event["unit"]).collect();
    of_kind("replied").filter(|event| done.contains(&&event["unit"])).count()
}

#[test]
fn a_review_that_was_cut_off_after_any_event_comes_to_the_same_and_asks_nobody_twice() {
    let repository = small();
    // Nobody looks at first, so the change goes out once more.
    let server = serve(|talk| {
        let task = talk.task();
        match talk.turn() {
            _ if task.contains("\nReview a part of a change") => answer(&json!({ "findings": [] })),
            2 if task.contains("\nReview what nobody has read") => {
                answer(&json!({ "findings": [finding(&given(talk)[0])] }))
            }
            _ => react(talk),
        }
    });
    let place = &repository.place;
    let flags = ["-o", "json", "--effort", "low"];
    let output = |finished: Finished| {
        let result: Value = serde_json::from_str(&finished.stdout).expect("one object");
        let mut output = result["structured_output"].clone();
        // Another unit is asked in the place of one that was cut off.
        for reviewer in output["reviewers"].as_array_mut().expect("reviewers") {
            reviewer.as_object_mut().expect("an object").remove("agent_id");
        }
        output
    };
    let whole = output(review(place, &server, &flags).exits(0));
    assert_eq!(whole["findings"][0]["verification"]["verdict"], "confirmed", "{whole}");
    assert_eq!(whole["coverage"]["unread"], json!([]), "{whole}");
    let asked = server.count();
    let log = place.sessions()[0].join("log.jsonl");
    let text = std::fs::read_to_string(&log).expect("the session is kept");
    let lines: Vec<&str> = text.lines().collect();
    for kept in 1..=lines.len() {
        std::fs::write(&log, format!("{}\n", lines[..kept].join("\n"))).expect("it is ours");
        let before = server.count();
        let again = review(place, &server, &[&flags[..], &["--continue"]].concat()).exits(0);
        assert_eq!(output(again), whole, "after {kept} of {}", lines.len());
        let spared = answered(&lines[..kept]);
        assert_eq!(server.count() - before, asked - spared, "after {kept} of {}", lines.len());
    }
}

#[test]
fn what_tine_itself_has_written_is_no_part_of_the_change() {
    let (repository, server) = (small(), provider());
    let place = &repository.place;
    let flags = ["-o", "json", "--effort", "low", "--sarif", "out.sarif"];
    let output = |finished: Finished| {
        let result: Value = serde_json::from_str(&finished.stdout).expect("one object");
        result["structured_output"].clone()
    };
    let before = output(review(place, &server, &flags).exits(0));
    place.tine(["trace"]).run().exits(0);
    place.tine(["trace", "--format", "json", "-o", "trace.json"]).run().exits(0);
    place.write("p.md", "{{ path }}");
    place.write("items.csv", "path\na\n");
    let ours = ["p.md", "items.csv"];
    repository.git(&[&["add", "--"][..], &ours].concat());
    repository.git(&[&["commit", "--quiet", "--message", "A table", "--"][..], &ours].concat());
    let map =
        ["map", "--input", "items.csv", "--prompt", "p.md", "--output", "rows.jsonl", "-m", "m"];
    let other = serve(|_| Reaction::text_reply("fine"));
    place.tine(map).server(&other).run().exits(0);
    repository.git(&["init", "--quiet", "inside"]);
    place.write("inside/own.rs", "fn own() {}\n");
    let after = output(review(place, &server, &flags).exits(0));
    assert_eq!(after["coverage"]["hunks"], before["coverage"]["hunks"]);
    let title = after["title"].as_str().expect("a title");
    let without = "; without 4 files that tine wrote; without 1 repository inside it";
    assert!(title.ends_with(without), "{title}");
    let left_out = after["left_out"].as_array().expect("a list").iter();
    let why = |path: &str| left_out.clone().find(|it| it["path"] == path).map(|it| &it["why"]);
    for path in ["out.sarif", "rows.jsonl", "trace.json"] {
        assert_eq!(why(path), Some(&json!("written_by_tine")), "{path}");
    }
    assert_eq!((why("inside"), left_out.len()), (Some(&json!("repository")), 5));
}

#[test]
fn an_effort_that_there_is_not_and_a_file_that_cannot_be_written_are_refused_at_once() {
    let (repository, server) = (repository(), provider());
    let refused = review(&repository.place, &server, &["--effort", "heroic"]).exits(2);
    assert!(refused.stderr.contains("it is `low`, `medium` or `high`"), "{}", refused.stderr);
    let refused = review(&repository.place, &server, &["--sarif", "/nowhere/x"]).exits(42);
    assert!(refused.stderr.contains("cannot write"), "{}", refused.stderr);
    assert_eq!(server.count(), 0);
}

#[test]
fn what_is_reviewed_holds_for_a_review_that_goes_on_unless_it_is_said_anew() {
    let (repository, server) = (small(), provider());
    let first = repository.git(&["rev-parse", "HEAD"]);
    let flags = ["--commit", &first, "--effort", "low", "-o", "json"];
    let title = |finished: Finished| finished.result()["structured_output"]["title"].clone();
    let of_commit = title(review(&repository.place, &server, &flags).exits(0));
    assert!(of_commit.as_str().is_some_and(|it| it.contains(&first[..7])), "{of_commit}");
    let asked = server.count();
    let again = review(&repository.place, &server, &["-c", "-o", "json"]).exits(0);
    assert_eq!((title(again), server.count()), (of_commit.clone(), asked));
    let other = ["-c", "--uncommitted", "-o", "json"];
    let other = title(review(&repository.place, &server, &other).exits(0));
    assert_ne!(other, of_commit);
}
