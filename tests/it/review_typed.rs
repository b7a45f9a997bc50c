//! `/review` in a session: the flow that `tine review` walks, whose report is what
//! the conversation goes on with.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::review_flow::{FILES, answered, provider, react, repository, small};
use crate::support::repository::Repository;
use crate::support::screen::Size;
use crate::support::server::{Gate, Reaction, RecordedRequest, Server};
use crate::support::talk::{Talk, serve};
use crate::support::terminal::Sitting;
use crate::support::tine::{Finished, Place};

/// The file of the small change.
const SMALL: &str = "src/part01.rs";

/// Tells whether the table of a report says that so many angles have read all that
/// changed in a file.
pub(crate) fn covers(report: &str, path: &str, angles: usize) -> bool {
    let (begin, end) = (format!("| `{path}:"), format!("` |{}", " read |".repeat(angles)));
    report.lines().any(|row| row.starts_with(&begin) && row.ends_with(&end))
}

/// A provider of reviewers, whose models answer everything else with `ok`.
fn talkative() -> Server {
    serve(|talk| match talk.last_prompt().ends_with("so?") {
        true => Reaction::text_reply("ok"),
        false => react(talk),
    })
}

fn typed(place: &Place, server: &Server, prompt: &str, flags: &[&str]) -> Finished {
    let fixed = ["-p", prompt, "-m", "m", "--config", "retry.most=0"];
    place.tine(fixed.iter().chain(flags)).server(server).run()
}

/// What the last request of a conversation shows, without the facts of the moment.
fn conversation(requests: &[RecordedRequest]) -> Vec<(String, String)> {
    let last = requests.iter().map(Talk::of).rfind(|talk| talk.last_prompt().ends_with("so?"));
    let last = last.expect("the conversation went on");
    let messages = last.messages().iter().filter(|message| message["role"] != "system");
    let said = |message: &Value| {
        let text = message["content"].as_str().unwrap_or_default().to_owned();
        (message["role"].as_str().unwrap_or_default().to_owned(), text)
    };
    messages.map(said).collect()
}

/// Checks that a conversation went on behind a report.
#[track_caller]
fn went_on(requests: &[RecordedRequest], report: &str) {
    let said = conversation(requests);
    let roles: Vec<&str> = said.iter().map(|(role, _)| &**role).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "{said:?}");
    assert_eq!(said[1].1.trim_end(), report.trim_end());
    assert!(report.starts_with("# Review of ") && covers(report, SMALL, 2), "{report}");
}

#[test]
fn a_typed_review_fans_out_under_a_model_that_never_would_and_answers_with_coverage() {
    let repository = repository();
    let (gate, came) = (Gate::closed(), Arc::new(AtomicUsize::new(0)));
    let server = serve(move |talk| match talk.turn() {
        1 if talk.task().contains("\nReview ") => {
            // Each waits for all: one after the other would wait forever.
            if came.fetch_add(1, Ordering::SeqCst) == 4 {
                gate.open();
            }
            react(talk).behind(&gate)
        }
        _ => react(talk),
    });
    let finished = typed(&repository.place, &server, "/review watch the locks", &[]).exits(0);
    let report = &finished.stdout;
    assert!(report.starts_with("# Review of "), "{report}");
    assert!(report.contains("## Coverage\n"), "{report}");
    for number in 0..FILES {
        assert!(covers(report, &format!("src/part{number:02}.rs"), 5), "{number}:\n{report}");
    }
    assert!(report.contains(&format!("{} high.", FILES - 1)), "{report}");
    let requests = server.finish();
    let reviewers = requests
        .iter()
        .map(Talk::of)
        .filter(|talk| talk.turn() == 1 && talk.task().contains("\nReview "));
    let reviewers: Vec<Talk> = reviewers.collect();
    assert_eq!(reviewers.len(), 5);
    assert!(reviewers.iter().all(|talk| talk.task().contains("watch the locks")));
}

#[test]
fn a_typed_review_and_the_command_are_one_flow_and_come_to_the_same() {
    let (repository, server) = (small(), provider());
    let place = &repository.place;
    let command = ["review", "-m", "m", "--uncommitted", "--effort", "low", "the", "locks"];
    let by_command = place.tine(command).server(&server).run().exits(0);
    let words = "/review --uncommitted --effort low the locks";
    let by_words = typed(place, &server, words, &[]).exits(0);
    assert_eq!(by_words.stdout, by_command.stdout);
    let inputs = ["--input", "uncommitted=true", "--input", "effort=low", "-m", "m"];
    let flow = ["flow", "run", "review", "--input", "focus=the locks"].iter().chain(&inputs);
    let by_name = place.tine(flow).server(&server).run().exits(0);
    assert_eq!(by_name.stdout, by_command.stdout);
    let walks = place.sessions().into_iter().map(|session| {
        let log = fs::read_to_string(session.join("log.jsonl")).expect("it is kept");
        let mut events = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        events.find(|event| event["kind"] == "walked").expect("a flow was walked")["body"].take()
    });
    let walks: Vec<Value> = walks.collect();
    assert_eq!(walks.len(), 3);
    assert_eq!((&walks[0], &walks[1]), (&walks[1], &walks[2]));
}

#[test]
fn a_conversation_goes_on_behind_the_report() {
    let (repository, server) = (small(), talkative());
    let place = &repository.place;
    let report = typed(place, &server, "/review --effort low", &[]).exits(0).stdout;
    typed(place, &server, "so?", &["-c"]).exits(0);
    went_on(&server.finish(), &report);
}

#[test]
fn a_program_is_answered_with_the_report_also_where_nothing_is_kept() {
    for kept in [&[][..], &["--no-session-persistence"]] {
        let (repository, server) = (small(), talkative());
        let message =
            |text: &str| json!({"type": "user", "message": {"role": "user", "content": text}});
        let lines = format!("{}\n{}\n", message("/review --effort low"), message("so?"));
        let flags = ["--input-format", "stream-json", "-o", "stream-json", "-m", "m"];
        let tine = repository.place.tine(flags.iter().chain(kept)).server(&server).stdin(lines);
        let lines = tine.run().exits(0).stdout;
        let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let results = records.filter(|record| record["type"] == "result");
        let results: Vec<Value> = results.map(|mut record| record["result"].take()).collect();
        let [report, next] = &results[..] else { panic!("{results:?}") };
        assert_eq!(next, "ok");
        went_on(&server.finish(), report.as_str().expect("a report is text"));
        assert_eq!(repository.place.sessions().len(), usize::from(kept.is_empty()));
    }
}

#[test]
fn one_prompt_is_answered_with_the_report_also_where_nothing_is_kept() {
    let (repository, server) = (small(), provider());
    let flags = ["--no-session-persistence", "-o", "json"];
    let result = typed(&repository.place, &server, "/review --effort low", &flags).exits(0);
    let report = result.result()["result"].as_str().unwrap_or_default().to_owned();
    assert!(covers(&report, SMALL, 2), "{report}");
    assert_eq!(repository.place.sessions().len(), 0);
    // Nor does anything come into a session that it goes on with.
    typed(&repository.place, &server, "/review --effort low", &[]).exits(0);
    let before = repository.place.log();
    let again =
        typed(&repository.place, &server, "/review --effort low", &[&flags[..], &["-c"]].concat());
    assert!(again.exits(0).stdout.contains("## Coverage"), "it has a report");
    assert_eq!(repository.place.log(), before);
}

#[test]
fn a_chat_shows_the_report_and_goes_on() {
    let (repository, server) = (small(), talkative());
    let flags = ["-m", "m", "--ax-screen-reader", "--config", "retry.most=0"];
    let tine = repository.place.tine(flags).server(&server);
    let mut sitting = Sitting::start(tine, Size { columns: 120, rows: 60 });
    sitting.wait_for(">");
    sitting.keys("/review --effort low\n");
    sitting.wait_for("Changed lines that each angle's reviewers were shown");
    let rests = |screen: &crate::support::screen::Screen| {
        screen.text().lines().last().is_some_and(|row| row.trim_end() == ">")
    };
    sitting.wait_until(rests);
    sitting.keys("so?\n");
    sitting.wait_until(|screen| screen.text().lines().any(|row| row.trim_end() == "ok"));
    sitting.wait_until(rests);
    sitting.keys("\u{4}");
    assert_eq!(sitting.wait().0, Some(0), "{}", sitting.screen.text());
    let requests = server.finish();
    let report = conversation(&requests)[1].1.clone();
    went_on(&requests, &report);
}

#[test]
fn a_typed_review_that_was_cut_off_after_any_event_goes_on_and_a_finished_one_begins_anew() {
    let (repository, server) = (small(), provider());
    let (place, prompt) = (&repository.place, "/review --effort low");
    let whole = typed(place, &server, prompt, &[]).exits(0).stdout;
    let asked = server.count();
    let log = place.sessions()[0].join("log.jsonl");
    let text = fs::read_to_string(&log).expect("the session is kept");
    let lines: Vec<&str> = text.lines().collect();
    for kept in 1..=lines.len() {
        let kept = &lines[..kept];
        fs::write(&log, format!("{}\n", kept.join("\n"))).expect("it is ours");
        let before = server.count();
        let again = typed(place, &server, prompt, &["-c"]).exits(0).stdout;
        assert_eq!(again, whole, "after {} of {}", kept.len(), lines.len());
        let is_over = kept.iter().any(|line| line.contains("\"kind\":\"invocation_ended\""));
        let spared = if is_over { 0 } else { answered(kept) };
        let now = server.count() - before;
        assert_eq!(now, asked - spared, "after {} of {}", kept.len(), lines.len());
    }
}

#[test]
fn a_second_review_of_a_session_tells_of_its_own_change_alone() {
    let (repository, server) = (small(), provider());
    let place = &repository.place;
    typed(place, &server, "/review --effort low", &[]).exits(0);
    repository.commit("Unwrap");
    repository.write("src/part02.rs", "fn c() {}\n");
    let report = typed(place, &server, "/review --effort low", &["-c"]).exits(0).stdout;
    assert!(report.contains("src/part02.rs") && !report.contains("src/part01.rs"), "{report}");
    // One of which nothing can be reviewed is not taken for the one before it.
    repository.commit("More");
    fs::write(place.work().join("picture.bin"), [0, 159, 146, 150, 0]).expect("it is ours");
    let asked = server.count();
    let report = typed(place, &server, "/review --effort low", &["-c"]).exits(0).stdout;
    assert!(report.contains("picture.bin") && !report.contains("src/part02.rs"), "{report}");
    assert_eq!(server.count(), asked);
}

#[test]
fn what_cannot_be_reviewed_is_refused_before_anything_runs() {
    let (repository, server) = (Repository::new(), provider());
    let refused = |prompt: &str| {
        let finished = typed(&repository.place, &server, prompt, &[]).exits(42);
        assert_eq!(repository.place.sessions().len(), 0, "{prompt}");
        finished.stderr
    };
    assert!(refused("/review").contains("commit"), "there is none");
    repository.write("a.rs", "fn a() {}\n");
    repository.commit("Begin");
    for (prompt, expected) in [
        ("/review --effort heroic", "error: a review has no effort `heroic`\nhint: it is `low`"),
        ("/review --sarif x", "unknown option `--sarif`; use --uncommitted, --base BRANCH"),
        ("/review --base gone", "gone"),
        ("/review --uncommitted --base main", "only one of --uncommitted, --base and --commit"),
        ("/review main", "hint: `--base main` reviews what has come since, `--commit main` that"),
        ("/review a.rs", "error: `a.rs` names a file, and words say what to look for besides"),
        ("/review --commit HEAD..main", "hint: `--base HEAD` reviews what has come since"),
    ] {
        let told = refused(prompt);
        assert!(told.contains(expected), "{prompt}: {told}");
    }
    assert_eq!(server.count(), 0);
}
