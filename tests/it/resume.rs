//! Going on with a session, however it ended: what the model is sent then, what
//! people are told, and which session is meant.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tine::branch::RootJoins;
use tine::event::{EventKind, Invocation, Outcome, UnitId, UnitState};
use tine::flow::{AgentStep, Step};

use crate::fanout::check_invariants;
use crate::support::inside::{Setup, Story};
use crate::support::repository::Repository;
use crate::support::tine::{Finished, Place};

/// A call for these agents.
fn agents(names: &[&str]) -> Value {
    let task =
        |name: &&str| json!({ "description": name, "prompt": name, "subagent_type": "explore" });
    let tasks: Vec<_> = names.iter().map(task).collect();
    json!([{ "name": "Agent", "arguments": { "tasks": tasks } }])
}

/// A script in which main gives one answer, if its request holds these texts.
fn answers(text: &str, contains: &[&str]) -> Value {
    json!({ "units": { "main": [{ "text": text, "expect": { "contains": contains } }] } })
}

/// Four slots under a cap of two: one is quick, the others take their time.
/// The quick one ends after the second has said its first words, whichever of
/// the two the runtime happens to go on with.
fn four_slots() -> Setup {
    let slow = |text: &str| json!([{ "text": text, "delay_ms": 500 }]);
    let script = json!({ "units": {
        "main": [{ "text": "Four looks.", "calls": agents(&["a", "b", "c", "d"]) }, { "text": "all" }],
        "a": [{ "text": "found a", "delay_ms": 100 }],
        "b": [
            { "text": "b so far", "calls": [{ "name": "Glob", "arguments": { "pattern": "*" } }] },
            { "text": "found b", "delay_ms": 500 },
        ],
        "c": slow("found c"),
        "d": slow("found d"),
    } });
    Setup::new(script).cap(2)
}

/// Returns how many events there are up to the first that fits.
#[track_caller]
fn up_to(story: &Story, mut fits: impl FnMut(UnitId, &EventKind) -> bool) -> usize {
    let at = story.events.iter().position(|event| fits(event.unit, &event.kind));
    1 + at.expect("such an event happened")
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_cut_off_keeps_its_results_and_says_what_has_none() {
    let story = four_slots().run().await;
    let kept = up_to(&story, |unit, kind| unit == UnitId(3) && *kind == EventKind::UnitStarted);
    let more = answers("gone on", &["Four looks.", "## Task 1: a (explore)\n\nfound a"]);
    let story = Setup::new(more).run_after(story, kept).await;
    check_invariants(&story);
    assert_eq!(story.end.outcome, Outcome::Done { text: "gone on".into() });
    use UnitState::{Completed, Interrupted, Skipped};
    assert_eq!(story.states(), [Completed, Interrupted, Interrupted, Skipped]);
    assert_eq!(
        story.outputs(UnitId::MAIN),
        ["## Task 1: a (explore)\n\nfound a\n\n---\n\n\
          ## Task 2: b (explore)\n\n[interrupted: the process ended while it ran]\n\n\
          Partial result:\n\nb so far\n\n---\n\n\
          ## Task 3: c (explore)\n\n[interrupted: the process ended while it ran]\n\n---\n\n\
          ## Task 4: d (explore)\n\n[never started: cancelled]"]
    );
    let ends = story.events.iter().filter_map(|event| match &event.kind {
        EventKind::InvocationEnded(end) => Some((event.invocation, end.unfinished.clone())),
        _ => None,
    });
    let unfinished = vec![UnitId(2), UnitId(3), UnitId(4)];
    assert_eq!(
        ends.collect::<Vec<_>>(),
        [(Invocation(1), unfinished), (Invocation(2), Vec::new())]
    );
}

/// Wherever the process dies: what had ended is as it was, the rest says so,
/// and the model can be asked again, which checks every request.
#[tokio::test(start_paused = true)]
async fn a_run_that_was_cut_off_after_any_event_can_be_gone_on_with() {
    let whole = four_slots().run().await;
    for kept in 1..=whole.events.len() {
        let story = four_slots().run().await;
        let before = story.states_after(kept);
        let story = Setup::new(answers("gone on", &[])).run_after(story, kept).await;
        check_invariants(&story);
        assert_eq!(story.end.outcome, Outcome::Done { text: "gone on".into() }, "{kept}");
        let expected = before.iter().map(|state| match state {
            UnitState::Running => UnitState::Interrupted,
            UnitState::Queued => UnitState::Skipped,
            ended => *ended,
        });
        assert_eq!(story.states(), expected.collect::<Vec<_>>(), "{kept}");
    }
}

#[tokio::test(start_paused = true)]
async fn main_hears_first_of_what_ran_beside_it_when_the_process_died() {
    let task = |name: &str| {
        let arguments = json!({ "description": name, "prompt": name, "subagent_type": "explore",
            "run_in_background": true });
        json!({ "name": "Agent", "arguments": arguments })
    };
    let script = json!({ "units": {
        "main": [
            { "calls": [task("quick"), task("slow")] },
            { "text": "waiting" },
            { "text": "told" },
            { "text": "told again" },
        ],
        "quick": [{ "text": "found it", "delay_ms": 50 }],
        "slow": [{ "text": "found more", "delay_ms": 5000 }],
    } });
    let story = Setup::new(script.clone()).run().await;
    // Main has not heard of the quick one yet, and the slow one still runs.
    let kept =
        up_to(&story, |unit, kind| unit == UnitId(1) && matches!(kind, EventKind::UnitEnded(_)));
    let news = ["found it", "has ended: interrupted", "No agent is out any more."];
    let story = Setup::new(answers("gone on", &news)).run_after(story, kept).await;
    check_invariants(&story);
    assert_eq!(story.end.outcome, Outcome::Done { text: "gone on".into() });
    assert_eq!(story.states(), [UnitState::Completed, UnitState::Interrupted]);
    let joined = story.events.iter().rfind(|event| matches!(event.kind, EventKind::Joined { .. }));
    let joined = joined.unwrap();
    assert_eq!((joined.invocation, &*joined.branch.tokens.to_string()), (Invocation(1), "1-2"));
}

/// Two steps side by side with a third one after them, and a fourth beside all
/// of it.
fn nested_steps() -> Setup {
    let agent =
        |name: &str| Step::Agent(AgentStep::new(name, "explore", format!("speak as {name}")));
    let made = "there are steps";
    let pair = Step::parallel(["a", "b"].map(agent).into()).expect(made);
    let inner = Step::sequence(vec![pair, agent("c")]).expect(made);
    let flow = Step::parallel(vec![inner, agent("d")]);
    let said = |text: &str| json!([{ "text": text, "delay_ms": 50 }]);
    let script = json!({ "units": {
        "a": said("word(a)"), "b": said("word(b)"), "c": said("word(c)"), "d": said("word(d)"),
    } });
    Setup::new(script).flow(flow.expect(made))
}

/// The strands of a flow come home wherever its process died, so that later
/// invocations see what was said in them.
#[tokio::test(start_paused = true)]
async fn a_flow_that_was_cut_off_after_any_event_leaves_what_its_steps_have_said() {
    let whole = nested_steps().run().await;
    for kept in 1..=whole.events.len() {
        let story = nested_steps().run().await;
        let before = story.states_after(kept);
        let declared = story.events[..kept].iter().filter_map(|event| match event.kind {
            EventKind::UnitQueued(_) => Some(event.branch.tokens.clone()),
            _ => None,
        });
        let declared: Vec<_> = declared.collect();
        let story = Setup::new(answers("gone on", &[])).run_after(story, kept).await;
        check_invariants(&story);
        assert_eq!(story.states().len(), before.len());
        let joins: RootJoins = story.events.iter().collect();
        let home = joins.joined_in(Invocation(1));
        assert!(declared.iter().all(|tokens| tokens.is_subset_of(&home)), "{kept}: {home}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_steps_of_a_flow_see_what_was_said_in_the_session_before() {
    let story = Setup::new(answers("remember blue", &[])).run().await;
    let kept = story.events.len();
    let mut flow = nested_steps();
    flow.script["units"]["c"] =
        json!([{ "text": "word(c)", "expect": { "contains": ["remember blue", "word(a)"] } }]);
    let story = flow.run_after(story, kept).await;
    check_invariants(&story);
    assert!(
        story.states().iter().all(|state| *state == UnitState::Completed),
        "{:?}",
        story.ends()
    );
}

/// The scripted model names its calls by unit and turn, so each process begins
/// with the same names.
#[tokio::test(start_paused = true)]
async fn calls_and_tokens_never_repeat_within_a_session() {
    let script = || {
        json!({ "units": {
            "main": [{ "calls": agents(&["a", "b"]) }, { "text": "done" }],
            "*": [{ "text": "found", "delay_ms": 20 }],
        } })
    };
    let story = Setup::new(script()).run().await;
    let kept = story.events.len();
    let story = Setup::new(script()).run_after(story, kept).await;
    check_invariants(&story);
    let calls = story.events.iter().filter_map(|event| match &event.kind {
        EventKind::ToolFinished { call, .. } => Some(call.to_string()),
        _ => None,
    });
    assert_eq!(calls.collect::<Vec<_>>(), ["call_0_1_0", "call_0_1_0_2"]);
    let units = story.events.iter().filter(|event| matches!(event.kind, EventKind::UnitQueued(_)));
    let units: Vec<_> = units
        .map(|event| (event.unit.0, event.invocation.0, event.branch.tokens.to_string()))
        .collect();
    let expected = [(1, 1, "1"), (2, 1, "2"), (3, 2, "1"), (4, 2, "2")];
    assert_eq!(units, expected.map(|(unit, inv, tokens)| (unit, inv, tokens.to_owned())));
    let numbers: Vec<u64> = story.events.iter().map(|event| event.seq.0).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(story.took, Duration::from_millis(20));
}

const FIRST: &str = "0199a000-0000-7000-8000-000000000001";
const SECOND: &str = "0199b000-0000-7000-8000-000000000002";
const COPY: &str = "0199c000-0000-7000-8000-000000000003";

impl Place {
    /// Has a session in which main said `text`.
    fn has_said(&self, id: &str, prompt: &str, text: &str) {
        let model = self.script(&format!("{id}.json"), &answers(text, &[]));
        self.tine(["-p", prompt, "-m", &model, "--session-id", id]).run().exits(0);
    }

    /// Goes on with a prompt; main has to be sent these texts.
    fn goes_on(&self, flags: &[&str], contains: &[&str]) -> Finished {
        let model = self.script("more.json", &answers("gone on", contains));
        self.tine([&["-m", &model], flags].concat()).run()
    }

    fn log_of(&self, id: &str) -> PathBuf {
        let sessions = self.sessions();
        let session = sessions.iter().find(|path| path.ends_with(id)).expect("it was kept");
        session.join("log.jsonl")
    }
}

fn lines(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).expect("a session has a log");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

#[test]
fn flags_and_prompt_stand_in_any_order() {
    let place = Place::new();
    place.has_said(FIRST, "remember blue", "I do.");
    let texts = ["remember blue", "I do.", "and now"];
    let id = &FIRST[..6];
    for flags in [
        &["-c", "-p", "and now"][..],
        &["-p", "and now", "-c"],
        &["-c", "and now"],
        &["-p", "and now", "--continue"],
        &["-r", id, "-p", "and now"],
        &["-p", "and now", "-r", id],
        &["--resume", FIRST, "and now"],
        &["--resume=0199a", "and now"],
    ] {
        let finished = place.goes_on(flags, &texts).exits(0);
        assert_eq!((&*finished.stdout, &*finished.stderr), ("gone on\n", ""), "{flags:?}");
    }
    let log = lines(&place.log_of(FIRST));
    let started = log.iter().filter(|line| line["kind"] == "invocation_started").count();
    assert_eq!((started, place.sessions().len()), (9, 1));
    assert_eq!(log.last().unwrap()["inv"], 9);
}

#[test]
fn the_latest_session_of_the_directory_is_the_one_with_the_last_activity() {
    let place = Place::new();
    place.has_said(FIRST, "remember blue", "one");
    place.has_said(SECOND, "remember red", "two");
    place.goes_on(&["-c", "-p", "x"], &["remember red"]).exits(0);
    place.goes_on(&["-r", FIRST, "-p", "x"], &["remember blue"]).exits(0);
    place.goes_on(&["-c", "-p", "x"], &["remember blue"]).exits(0);
    let other = place.root().join("other");
    fs::create_dir(&other).unwrap();
    let nothing = place.tine(["-c", "-p", "x", "-m", "offline"]).at(&other).run().exits(42);
    assert_eq!(
        nothing.stderr,
        format!(
            "error: there is no session of {} to go on with\n\
             hint: `tine sessions` lists all sessions, `tine -r SESSION` goes on with one\n",
            other.display()
        )
    );
    let elsewhere = place.tine(["-r", FIRST, "-p", "x"]).at(&other).run().exits(0);
    let work = place.work();
    let (work, other) = (work.display(), other.display());
    assert_eq!(
        elsewhere.stderr,
        format!("note: this session was in {work}; it goes on in {other}\n")
    );
}

#[test]
fn a_session_has_to_be_named_to_be_meant() {
    let place = Place::new();
    place.has_said(FIRST, "the first", "one");
    place.has_said(SECOND, "the second", "two");
    let refuses = |flags: &[&str], code, stderr: &str| {
        place.tine(flags).run().refuses(code, stderr);
    };
    refuses(
        &["-p", "x", "-r"],
        2,
        &format!(
            "error: `--resume` needs a session; the latest of this directory:\n  \
             {SECOND}  ended        the second\n  {FIRST}  ended        the first\n\
             hint: `tine -r SESSION` goes on with one, `tine -c` with the latest\n"
        ),
    );
    refuses(
        &["-r", "go on with it"],
        42,
        "error: no session `go on with it`\n\
         hint: what follows `-r` is the session; the prompt goes behind `-p`\n",
    );
    refuses(
        &["-r", "7", "-p", "x"],
        42,
        "error: no session `7`\nhint: `tine sessions` lists all of them\n",
    );
    let finished = place.tine(["-r", "0199", "-p", "x"]).run().exits(42);
    assert!(finished.stderr.contains("could be any of 2 sessions"), "{}", finished.stderr);
    place.tine(["sessions", "rename", FIRST, "blue one"]).run().exits(0);
    place.goes_on(&["-r", "blue one", "-p", "x"], &["the first"]).exits(0);
}

#[test]
fn flags_that_cannot_stand_together_are_usage_errors() {
    let place = Place::new();
    place.has_said(FIRST, "the first", "one");
    for flags in [
        &["-c", "-r", FIRST, "-p", "x"][..],
        &["--fork-session", "-p", "x"],
        &["-c", "-p", "x", "--session-id", SECOND],
        &["-r", FIRST, "-p", "x", "--session-id", SECOND],
        &["sessions", "-c"],
        &["-c", "doctor"],
        &["-c", "-o", "json"],
    ] {
        let finished = place.tine(flags).run().exits(2);
        assert!(finished.stderr.contains("\nhint: "), "{flags:?}: {}", finished.stderr);
    }
    assert_eq!(lines(&place.log_of(FIRST)).last().unwrap()["inv"], 1);
}

#[test]
fn the_model_is_the_sessions_own_unless_another_is_chosen() {
    let place = Place::new();
    place.has_said(FIRST, "go", "one");
    let script = place.root().join(format!("{FIRST}.json"));
    // The script has one answer for each process.
    assert_eq!(place.tine(["-c", "-p", "x"]).run().exits(0).stdout, "one\n");
    assert_eq!(place.goes_on(&["-c", "-p", "x"], &[]).exits(0).stdout, "gone on\n");
    // Now that one is the session's own.
    assert_eq!(place.tine(["-c", "-p", "x"]).run().exits(0).stdout, "gone on\n");
    fs::remove_file(place.root().join("more.json")).unwrap();
    let refused = place.tine(["-c", "-p", "x"]).run().exits(52);
    let hint = "hint: this was the session's model; choose another with `-m MODEL`\n";
    assert!(refused.stderr.ends_with(hint), "{}", refused.stderr);
    place.configure(&format!("model = \"scripted:{}\"\n", script.display()));
    let finished = place.tine(["-c", "-p", "x"]).run().exits(0);
    assert_eq!(finished.stdout, "one\n");
    assert!(finished.stderr.starts_with("warning: the session's model is not there, `scripted:"));
}

/// What was allowed once is not allowed for ever.
#[test]
fn the_permission_mode_is_never_taken_from_the_session() {
    let place = Place::new();
    place.has_said(FIRST, "go", "one");
    let call = json!([{ "name": "Write", "arguments": { "file_path": "a", "content": "x" } }]);
    let script = json!({ "units": { "main": [{ "calls": call }, { "text": "done" }] } });
    let model = place.script("write.json", &script);
    let run = |flags: &[&str]| place.tine([&["-p", "x", "-c", "-m", &model], flags].concat()).run();
    run(&["--permission-mode", "acceptEdits"]).exits(0);
    assert_eq!(place.read("a").as_deref(), Some("x"));
    fs::remove_file(place.work().join("a")).unwrap();
    run(&[]).exits(0);
    assert_eq!(place.read("a"), None);
}

#[test]
fn a_copy_begins_with_all_that_was_said_and_leaves_the_session_as_it_is() {
    let place = Place::new();
    place.has_said(FIRST, "remember blue", "I do.");
    let before = fs::read(place.log_of(FIRST)).unwrap();
    let flags = ["-c", "--fork-session", "--session-id", COPY, "-p", "and now"];
    place.goes_on(&flags, &["remember blue", "I do."]).exits(0);
    assert_eq!(fs::read(place.log_of(FIRST)).unwrap(), before);
    let (original, copy) = (lines(&place.log_of(FIRST)), lines(&place.log_of(COPY)));
    assert_eq!(copy[0]["body"]["session"], COPY);
    assert_eq!(copy[0]["body"]["forked_from"], FIRST);
    assert_eq!(copy[0]["v"], 1);
    assert_eq!(copy[1..original.len()], original[1..]);
    assert_eq!(copy[original.len()]["seq"], original.len() as u64 + 1);
    // The copy is the latest one now, and its id is taken.
    place.goes_on(&["-c", "-p", "x"], &["and now"]).exits(0);
    let taken = place.goes_on(&flags, &[]).exits(42);
    assert!(taken.stderr.contains("there is a session `0199c"), "{}", taken.stderr);
    let fresh = place.goes_on(&["-r", FIRST, "--fork-session", "-p", "x", "-o", "json"], &[]);
    let id = fresh.exits(0).result()["session_id"].as_str().unwrap().to_owned();
    assert_eq!(lines(&place.log_of(&id))[0]["body"]["forked_from"], FIRST);
}

#[test]
fn a_session_can_be_gone_on_with_in_memory_alone() {
    let place = Place::new();
    place.has_said(FIRST, "remember blue", "I do.");
    let log = place.log_of(FIRST);
    // Half an event, as a process leaves it that was killed.
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend_from_slice(b"{\"seq\":");
    fs::write(&log, &bytes).unwrap();
    let flags = ["-c", "--no-session-persistence", "-p", "and now", "-o", "json"];
    let result = place.goes_on(&flags, &["remember blue"]).exits(0).result();
    assert_eq!((&result["result"], &result["session_id"]), (&json!("gone on"), &json!(FIRST)));
    assert_eq!(fs::read(&log).unwrap(), bytes);
    assert_eq!(place.sessions().len(), 1);
}

#[test]
fn a_skill_and_a_review_go_on_with_a_session_too() {
    let repository = Repository::new();
    repository.write("src/price.rs", "fn price() {}\n");
    repository.commit("Begin");
    let place = &repository.place;
    place.has_said(FIRST, "remember blue", "I do.");
    place.write(".tine/skills/look/SKILL.md", "---\nname: look\ndescription: Looks.\n---\nLook.");
    place.goes_on(&["-c", "-p", "/look"], &["remember blue", "Look."]).exits(0);
    // A flow asks each of its agents anew, whatever was said before.
    let model = place.script("review.json", &answers("- [low] src/price.rs:1: dull", &[]));
    // None of them looks at anything, so none counts and the review fails.
    let review = |_| place.tine(["review", "-c", "-m", &model]).run().exits(1).stdout;
    let [first, second] = [1, 2].map(review);
    for report in [first, second] {
        assert!(report.starts_with("# Review of uncommitted change"), "{report}");
    }
    // The rules know nothing of a conversation, so each review stands alone.
    let review = |_| place.tine(["review", "-c", "-m", "offline"]).run().exits(0).stdout;
    let [first, second] = [1, 2].map(review);
    assert!(first.starts_with("Checked by fixed rules"), "{first}");
    assert_eq!(first, second);
}

#[test]
fn a_summary_stands_for_what_was_said_in_every_later_process() {
    let place = Place::new();
    place.has_said(FIRST, "remember blue", "I do.");
    let script = json!({ "units": { "main": [], "main:compact": [{ "text": "IN SHORT" }] } });
    let model = place.script("compact.json", &script);
    place.tine(["-c", "-p", "/compact", "-m", &model]).run().exits(0);
    for prompt in ["and now", "once more"] {
        let expect = json!({ "contains": ["IN SHORT", prompt], "lacks": ["remember blue"] });
        let reply = json!([{ "text": "gone on", "expect": expect }]);
        let model = place.script("more.json", &json!({ "units": { "main": reply } }));
        place.tine(["-c", "-p", prompt, "-m", &model]).run().exits(0);
    }
    // All of it is still in the log.
    let shown = place.tine(["session", "show", FIRST]).run().exits(0).stdout;
    assert!(shown.contains("remember blue") && shown.contains("IN SHORT"), "{shown}");
}

#[test]
fn a_fork_goes_on_from_all_that_was_said_in_the_session() {
    let place = Place::new();
    place.has_said(FIRST, "remember blue", "I do.");
    let script = json!({ "units": {
        "agent:fork": [{ "text": "forked", "expect": { "contains": ["remember blue", "look there"] } }],
        "main": [{ "text": "told", "expect": { "contains": ["remember blue", "forked"] } }],
    } });
    let model = place.script("fork.json", &script);
    let finished = place.tine(["-c", "-p", "/fork look there", "-m", &model]).run().exits(0);
    assert_eq!(finished.stdout, "told\n");
    place.goes_on(&["-c", "-p", "x"], &["remember blue", "told"]).exits(0);
}

#[test]
fn without_a_prompt_the_last_run_is_told_and_nothing_is_run() {
    let place = Place::new();
    place.has_said(FIRST, "remember blue", "I do.");
    let before = fs::read(place.log_of(FIRST)).unwrap();
    let finished = place.tine(["-c"]).run().exits(0);
    let expected =
        format!("session {FIRST}\nprompt: remember blue\nthe last run came to its end\n");
    assert_eq!(finished.stdout, expected);
    assert_eq!(
        finished.stderr,
        format!("hint: nothing is run again by itself; `tine -r {FIRST} -p PROMPT` goes on\n")
    );
    assert_eq!(fs::read(place.log_of(FIRST)).unwrap(), before);
    // What is piped in is a prompt.
    let model = place.script("more.json", &answers("gone on", &["from a pipe"]));
    let piped = place.tine(["-c", "-m", &model]).stdin("from a pipe").run().exits(0);
    assert_eq!(piped.stdout, "gone on\n");
    let silent = place.tine(["-c"]).silent_stdin().run().exits(0);
    assert!(silent.stdout.starts_with("session "), "{}", silent.stdout);
}

/// Cuts a log off after this many lines, as a process leaves it that was
/// killed there.
fn cut(log: &Path, kept: usize) {
    let text = fs::read_to_string(log).expect("a session has a log");
    let lines: String = text.split_inclusive('\n').take(kept).collect();
    fs::write(log, lines).expect("the log can be written");
}

/// A session with three slots, cut off when the second one had started.
fn cut_off() -> Place {
    let place = Place::new();
    let script = json!({ "units": {
        "main": [{ "calls": agents(&["a", "b", "c"]) }, { "text": "all" }],
        "*": [{ "text": "found" }],
    } });
    let model = place.script("three.json", &script);
    let flags = ["--session-id", FIRST, "--config", "agents.max_concurrent=1", "-m", &model];
    place.tine([&["-p", "look"][..], &flags].concat()).run().exits(0);
    let log = place.log_of(FIRST);
    let started = lines(&log)
        .iter()
        .position(|line| line["kind"] == "unit_started" && line["unit"] == "agent-2");
    cut(&log, 1 + started.expect("the second slot starts"));
    place
}

const CUT_OFF: &str = "resumed 0199a000-0000-7000-8000-000000000001: the last run was \
    interrupted: 1 done, 1 cut off (b), 1 never started (c)";

#[test]
fn people_are_told_how_far_the_last_run_had_come() {
    let place = cut_off();
    let finished = place.goes_on(&["-c", "-p", "go on"], &["found", "never started"]).exits(0);
    assert_eq!(
        (&*finished.stdout, &*finished.stderr),
        ("gone on\n", &*format!("note: {CUT_OFF}\n"))
    );
    // Then there is nothing to be told any more.
    assert_eq!(place.goes_on(&["-c", "-p", "x"], &[]).exits(0).stderr, "");
}

#[test]
fn programs_are_told_behind_the_first_record_and_see_nothing_of_the_repair() {
    let place = cut_off();
    let finished = place.goes_on(&["-c", "-p", "go on", "-o", "stream-json"], &["found"]).exits(0);
    let records = finished.records();
    let kinds: Vec<&str> = records
        .0
        .iter()
        .map(|record| record["subtype"].as_str().or(record["type"].as_str()).unwrap())
        .collect();
    assert_eq!(kinds, ["init", "informational", "assistant", "success"]);
    assert_eq!(
        (&records.0[1]["content"], &records.0[1]["level"]),
        (&json!(CUT_OFF), &json!("info"))
    );
    assert!(records.0.iter().all(|record| record["session_id"] == FIRST));
}

#[test]
fn the_list_of_what_was_cut_off_stays_until_the_next_prompt() {
    let place = cut_off();
    let listed = format!(
        "session {FIRST}\nprompt: look\nthe last run was interrupted\n\
         1 done: a\n1 cut off: b\n1 never started: c\n"
    );
    assert_eq!(place.tine(["-c"]).run().exits(0).stdout, listed);
    let repaired = fs::read(place.log_of(FIRST)).unwrap();
    assert_eq!(place.tine(["-r", FIRST]).run().exits(0).stdout, listed);
    assert_eq!(fs::read(place.log_of(FIRST)).unwrap(), repaired);
    place.goes_on(&["-c", "-p", "go on"], &["found"]).exits(0);
    assert!(place.tine(["-c"]).run().exits(0).stdout.contains("came to its end"));
}

/// Damages a log, goes on with the session, and returns what was said.
#[track_caller]
fn damaged(damage: impl Fn(&[u8]) -> Vec<u8>, contains: &[&str]) -> String {
    let place = Place::new();
    place.has_said(FIRST, "remember blue", "I do.");
    let log = place.log_of(FIRST);
    let whole = fs::read(&log).expect("a session has a log");
    fs::write(&log, damage(&whole)).expect("the log can be written");
    let finished = place.goes_on(&["-c", "-p", "and now"], contains).exits(0);
    assert_eq!(finished.stdout, "gone on\n");
    let last = last_event(&log);
    assert_eq!(last["kind"], "invocation_ended");
    // What was damaged stays, and the session can be gone on with again.
    place.goes_on(&["-c", "-p", "once more"], &["and now"]).exits(0);
    finished.stderr
}

fn last_event(log: &Path) -> Value {
    let bytes = fs::read(log).expect("a session has a log");
    let mut lines = bytes.trim_ascii_end().rsplit(|byte| *byte == b'\n');
    let last = lines.next().expect("something was written");
    serde_json::from_slice(last).expect("the last line is an event")
}

#[test]
fn a_damaged_log_is_gone_on_with_as_far_as_it_can_be_read() {
    let all = ["remember blue", "I do."];
    let torn = damaged(|log| [log, b"{\"seq\":9,\"at\":1"].concat(), &all);
    assert_eq!(torn, "warning: the log's last event was half written (15 bytes); it is left out\n");
    assert_eq!(damaged(|log| log[..log.len() - 1].to_vec(), &all), "");
    let later = b"{\"seq\":99,\"at\":1,\"inv\":1,\"unit\":\"main\",\"branch\":\"\",\"path\":\"main\",\"kind\":\"later\",\"body\":{}}\n";
    assert_eq!(damaged(|log| [log, &later[..]].concat(), &all), "");
    let bad = "warning: 1 line of the session's log cannot be read\n";
    assert_eq!(damaged(|log| [log, b"\xff\xfe nonsense\n"].concat(), &all), bad);
    // Without its first line, its id is that of its directory.
    let behead = |log: &[u8]| {
        let end = log.iter().position(|byte| *byte == b'\n').unwrap();
        [b"nonsense\n", &log[end + 1..]].concat()
    };
    assert_eq!(damaged(behead, &all), bad);
    // Nothing at all is a session in which nothing was said.
    assert_eq!(damaged(|_| Vec::new(), &["and now"]), "");
    assert_eq!(damaged(|_| b"nonsense\n".to_vec(), &["and now"]), bad);
}

#[test]
fn a_log_of_a_later_tine_is_refused() {
    let place = Place::new();
    place.has_said(FIRST, "remember blue", "I do.");
    let log = place.log_of(FIRST);
    let text = fs::read_to_string(&log).unwrap().replacen("\"v\":1", "\"v\":2", 1);
    fs::write(&log, &text).unwrap();
    let finished = place.goes_on(&["-r", FIRST, "-p", "x"], &[]).exits(42);
    assert!(finished.stderr.contains("written by a later tine"), "{}", finished.stderr);
    assert_eq!(fs::read_to_string(&log).unwrap(), text);
}
