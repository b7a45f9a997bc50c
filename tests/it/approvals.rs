//! Calls that only a person may allow: who asks, what an answer holds for, and
//! what becomes of a question without one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tine::event::{EventKind, Lasting, Question, QuestionId, Terms, UnitId, UnitState, Verdict};
use tine::run::Signal;

use crate::fanout::check_invariants;
use crate::support::inside::{Says, Setup, Story};
use crate::support::repository::Repository;
use crate::support::terminal::{Sitting, StandardOutput};
use crate::support::tine::Place;

fn batch(names: &[&str]) -> Value {
    let task = |name: &&str| json!({"description": name, "prompt": name, "subagent_type": "general-purpose"});
    json!({"name": "Agent", "arguments": {"tasks": names.iter().map(task).collect::<Vec<_>>()}})
}

fn write(path: &str) -> Value {
    json!({"name": "Write", "arguments": {"file_path": path, "content": "new\n"}})
}

fn look() -> Value {
    json!({"name": "Glob", "arguments": {"pattern": "*"}})
}

/// Main starts a batch; the slots with a path write to it, the others look.
fn script(slots: &[(&str, Option<&str>)]) -> Value {
    let names: Vec<&str> = slots.iter().map(|(name, _)| *name).collect();
    let mut units = json!({"main": [{"calls": [batch(&names)]}, {"text": "done"}]});
    for (name, path) in slots {
        let call = path.map_or_else(look, write);
        units[*name] =
            json!([{"calls": [call], "delay_ms": 3}, {"text": format!("{name} is done")}]);
    }
    json!({ "units": units })
}

fn setup(slots: &[(&str, Option<&str>)], says: Says) -> Setup {
    Setup { user_says: Some(says), ..Setup::new(script(slots)) }
}

/// What was asked in a run, and what became of it, in the order of the answers.
/// Checks that every question has exactly one answer.
fn answers(story: &Story) -> Vec<(UnitId, String, Verdict)> {
    check_invariants(story);
    let mut open: BTreeMap<QuestionId, UnitId> = BTreeMap::new();
    let mut answers = Vec::new();
    for event in &story.events {
        match &event.kind {
            EventKind::Asked { id, .. } => assert_eq!(open.insert(*id, event.unit), None),
            EventKind::Answered { id, question, answer } => {
                let was_asked = open.remove(id).is_some();
                let unasked = matches!(answer, Verdict::NobodyToAsk | Verdict::Covered(_));
                assert!(was_asked || unasked, "{event:?}");
                let Question::Call(asked) = question else { panic!("{event:?}") };
                answers.push((event.unit, asked.subject.to_string(), answer.clone()));
            }
            _ => {}
        }
    }
    assert_eq!(open, BTreeMap::new(), "a question was left open");
    answers
}

fn verdicts(story: &Story) -> Vec<Verdict> {
    answers(story).into_iter().map(|(_, _, verdict)| verdict).collect()
}

/// Eight slots of which the last one wants to write.
const EIGHT: [(&str, Option<&str>); 8] = [
    ("correctness", None),
    ("security", None),
    ("tests", None),
    ("performance", None),
    ("clarity", None),
    ("docs", None),
    ("style", None),
    ("fixer", Some("note.txt")),
];

#[tokio::test(start_paused = true)]
async fn of_eight_slots_only_the_one_that_writes_asks_and_a_yes_lets_it() {
    let story = setup(&EIGHT, Says::Yes).run().await;
    assert_eq!(answers(&story), [(UnitId(8), "note.txt".to_owned(), Verdict::Yes)]);
    assert_eq!(story.states(), [UnitState::Completed; 8]);
    assert_eq!(story.read("note.txt").as_deref(), Some("new\n"));
}

#[tokio::test(start_paused = true)]
async fn eight_slots_that_only_read_ask_nothing() {
    let story = setup(&EIGHT.map(|(name, _)| (name, None)), Says::Nothing).run().await;
    assert_eq!((answers(&story), story.states()), (vec![], vec![UnitState::Completed; 8]));
}

#[tokio::test(start_paused = true)]
async fn a_no_is_an_output_for_that_slot_alone_and_says_why() {
    let no = Verdict::NoBecause("notes are kept elsewhere".into());
    let story = setup(&EIGHT, Says::This(no.clone())).run().await;
    assert_eq!(verdicts(&story), [no]);
    let denied = "Permission to use Write denied: the user said no: notes are kept elsewhere";
    assert_eq!(story.outputs(UnitId(8)), [denied]);
    assert_eq!((story.states(), story.read("note.txt")), (vec![UnitState::Completed; 8], None));
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_waits_for_an_answer_leaves_its_place_to_another() {
    let slots = [("waits", Some("a.txt")), ("goes on", None), ("goes on, too", None)];
    let story = setup(&slots, Says::Nothing)
        .cap(1)
        .signal(Duration::from_secs(60), Signal::Interrupt)
        .run()
        .await;
    assert_eq!(answers(&story), [(UnitId(1), "a.txt".to_owned(), Verdict::Withdrawn)]);
    let expected = [UnitState::Cancelled, UnitState::Completed, UnitState::Completed];
    assert_eq!(story.states(), expected);
    assert_eq!(story.took, Duration::from_secs(60), "a question keeps nobody after a cancel");
}

#[tokio::test(start_paused = true)]
async fn a_slots_time_does_not_run_while_it_waits_for_an_answer() {
    let mut script = script(&[("slow to hear", None)]);
    script["units"]["main"][0]["calls"][0]["arguments"]["tasks"][0]["timeout_s"] = json!(5);
    let late = Says::Later(Duration::from_secs(100), Verdict::Yes);
    // Not a call that waits for the disk, which knows nothing of paused time.
    let setup = Setup { rules: [&["Read"], &[]], ..Setup::new(script) };
    let story = Setup { user_says: Some(late), ..setup }.run().await;
    assert_eq!(
        (verdicts(&story), story.states()),
        (vec![Verdict::Yes], vec![UnitState::Completed])
    );
    assert!(story.took >= Duration::from_secs(100), "{:?}", story.took);
}

#[tokio::test(start_paused = true)]
async fn neither_does_it_while_a_slot_waits_for_leave_to_start_a_large_batch() {
    let mut script = script(&[("outer", None)]);
    script["units"]["main"][0]["calls"][0]["arguments"]["tasks"][0]["timeout_s"] = json!(5);
    script["units"]["outer"][0]["calls"] = json!([batch(&["a", "b", "c"])]);
    script["units"]["*"] = json!([{"text": "fine"}]);
    let late = Says::Later(Duration::from_secs(100), Verdict::Yes);
    let setup = Setup { user_says: Some(late), confirm_above: 2, ..Setup::new(script) };
    let story = setup.run().await;
    assert_eq!(story.states(), [UnitState::Completed; 4]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_the_batch_is_given_once_and_covers_its_slots() {
    let units = json!({"units": {
        "main": [{"calls": [batch(&["a", "b", "c", "d"])]}, {"text": "done"}],
        "*": [{"calls": [write("note.txt")]}, {"text": "x"}],
    }});
    for says in [Verdict::ForBatch, Verdict::ForSession, Verdict::Always] {
        let user_says = Some(Says::This(says.clone()));
        let story = Setup { user_says, ..Setup::new(units.clone()) }.run().await;
        let [first, others @ ..] = &verdicts(&story)[..] else { panic!("nobody asked") };
        assert_eq!(*first, says);
        assert!(others.iter().all(|verdict| matches!(verdict, Verdict::Covered(_))), "{others:?}");
        assert_eq!((others.len(), story.states()), (3, vec![UnitState::Completed; 4]));
        assert_eq!(story.read("note.txt").as_deref(), Some("new\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_gone_on_with_does_not_ask_again_what_was_allowed_for_it() {
    let main = json!([{"calls": [write("a.txt")]}, {"text": "done"},
        {"calls": [write("b.txt")]}, {"text": "done"}]);
    let units = json!({"units": {"main": main}});
    let says = Says::This(Verdict::ForSession);
    let first = Setup { user_says: Some(says), ..Setup::new(units.clone()) }.run().await;
    assert_eq!(verdicts(&first), [Verdict::ForSession]);
    let kept = first.events.len();
    // Nobody is there this time.
    let second = Setup::new(units).run_after(first, kept).await;
    let answers = verdicts(&second);
    assert!(matches!(answers[..], [Verdict::ForSession, Verdict::Covered(_)]), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_turn_ask_in_their_order_side_by_side_or_not() {
    let names = ["c", "a", "d", "b", "e"];
    let reads = names.map(|name| json!({"name": "Read", "arguments": {"file_path": name}}));
    for calls in [reads.to_vec(), names.map(write).to_vec()] {
        let units = json!({"units": {"main": [{"calls": calls}, {"text": "done"}]}});
        let asks = Setup { rules: [&["Read", "Edit"], &[]], ..Setup::new(units) };
        let story = Setup { user_says: Some(Says::Yes), ..asks }.run().await;
        let asked = story.events.iter().filter_map(|event| match &event.kind {
            EventKind::Asked { question: Question::Call(asked), .. } => Some(&*asked.subject),
            _ => None,
        });
        assert_eq!(asked.collect::<Vec<_>>(), names);
        assert_eq!(verdicts(&story), [const { Verdict::Yes }; 5]);
    }
}

#[track_caller]
fn with_arguments(arguments: &Value) -> Says {
    let arguments = Some(arguments.to_string().into());
    let terms = Terms { arguments, lasting: Lasting::Once, rules: Vec::new() };
    Says::This(Verdict::YesWith(Arc::new(terms)))
}

#[tokio::test(start_paused = true)]
async fn a_call_runs_with_the_arguments_that_a_person_gave_it() {
    let changed = json!({"file_path": "other.txt", "content": "changed\n"});
    let story = setup(&[("fixer", Some("note.txt"))], with_arguments(&changed)).run().await;
    assert_eq!(story.read("other.txt").as_deref(), Some("changed\n"));
    assert_eq!(story.read("note.txt"), None);
    let started = story.events.iter().find_map(|event| match &event.kind {
        EventKind::ToolStarted { subject, .. } if event.unit == UnitId(1) => Some(&**subject),
        _ => None,
    });
    assert_eq!(started, Some("other.txt"));
}

#[tokio::test(start_paused = true)]
async fn a_rule_denies_a_persons_own_arguments_too() {
    let changed = json!({"file_path": "secret.txt", "content": "x"});
    let setup = setup(&[("fixer", Some("note.txt"))], with_arguments(&changed));
    let story = Setup { rules: [&[], &["Edit(secret.txt)"]], ..setup }.run().await;
    let [output] = story.outputs(UnitId(1))[..] else { panic!("one call") };
    let denied = "Permission to use Write denied: with the user's own arguments: ";
    assert!(output.starts_with(denied), "{output}");
    assert_eq!((story.read("secret.txt"), story.read("note.txt")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_at_any_moment_leaves_no_question_open() {
    let slots = ["a", "b", "c", "d"].map(|name| (name, Some(name)));
    for says in [
        Says::Nothing,
        Says::Later(Duration::from_millis(4), Verdict::Yes),
        Says::Later(Duration::from_millis(4), Verdict::ForBatch),
        Says::Later(Duration::from_millis(2), Verdict::No),
    ] {
        for moment in 0..12 {
            for signal in [Signal::Interrupt, Signal::Terminate] {
                let setup = setup(&slots, says.clone()).cap(2);
                let story = setup.signal(Duration::from_millis(moment), signal).run().await;
                let verdicts = verdicts(&story);
                assert!(verdicts.len() <= 4, "{verdicts:?}");
                assert_eq!(story.states().len() % 4, 0, "each slot has its end, or none began");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_slots_may_ask_at_once_and_one_answer_serves_them_all() {
    let names: Vec<String> = (0..1_000).map(|number| format!("slot {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let units = json!({"units": {
        "main": [{"calls": [batch(&names)]}, {"text": "done"}],
        "*": [{"calls": [{"name": "Bash", "arguments": {"command": "true && make"}}]}, {"text": "x"}],
    }});
    let late = Says::Later(Duration::from_secs(9), Verdict::No);
    let story = Setup { user_says: Some(late), ..Setup::new(units) }.run().await;
    assert_eq!(verdicts(&story), vec![Verdict::No; 1_000]);
    // All of them wait at once, though only eight may run: eight at a time would
    // take 125 answers, one behind the other. A disk that is slow in real time
    // may let the paused clock run on before the last has asked.
    assert!(story.took < Duration::from_secs(9 * 10), "{:?}", story.took);
}

/// A small project with a change in it.
fn project() -> Repository {
    let repository = Repository::new();
    repository.write("src/lib.rs", "fn a() {}\n");
    repository.commit("Begin");
    repository.write("src/lib.rs", "fn a() { b() }\n");
    repository
}

/// What reviewers do all day, so that the gate and the sandbox take part.
const EVERYDAY: [&str; 7] = [
    "git diff",
    "git log --oneline -3 && git status --short",
    "git show HEAD:src/lib.rs | head -5",
    "grep -rn 'fn ' src",
    "cat src/lib.rs | wc -l",
    "ls -la src; pwd",
    "find . -name '*.rs' -not -path './.git/*'",
];

/// Tells whether commands that only read run unasked here.
pub(crate) fn has_sandbox(repository: &Repository) -> bool {
    let check = ["permissions", "check", "--json", "Bash(ls)"];
    let has = repository.place.tine(check).run().exits(0).stdout.contains("\"allow\"");
    assert!(has || std::env::var("REQUIRE_SANDBOX").is_err(), "there must be a sandbox");
    has
}

/// Starts a review on a terminal by a model that starts eight slots, which look at
/// the change as reviewers do.
fn review(repository: &Repository, slots: &[(&str, Option<&str>)]) -> Sitting {
    let mut script = script(slots);
    if has_sandbox(repository) {
        let bash = |command: &str| json!({"name": "Bash", "arguments": {"command": command}});
        let looks = json!({"calls": EVERYDAY.map(bash)});
        for (name, _) in slots {
            let turns = script["units"][*name].as_array_mut().expect("a slot has turns");
            turns.insert(0, looks.clone());
        }
    }
    let model = repository.place.script("script.json", &script);
    let tine = repository.place.tine(["-p", "review my change", "-m", &model]);
    Sitting::answer(tine, StandardOutput::Pipe)
}

#[test]
fn a_review_with_eight_slots_asks_nothing() {
    let repository = project();
    let mut terminal = review(&repository, &EIGHT.map(|(name, _)| (name, None)));
    assert_eq!(terminal.wait(), (Some(0), "done\n".to_owned()));
    assert!(!terminal.screen.text().contains(" asks to "), "{}", terminal.screen.text());
    let log = repository.place.log();
    let of = |kind: &str| log.iter().filter(|line| line["kind"] == kind).collect::<Vec<_>>();
    assert_eq!((of("asked").len(), of("denied").len()), (0, 0));
    let commands = of("tool_started").into_iter().filter(|line| line["body"]["tool"] == "Bash");
    let access: Vec<&Value> = commands.map(|it| &it["body"]["confinement"]["access"]).collect();
    let count = if has_sandbox(&repository) { 8 * EVERYDAY.len() } else { 0 };
    assert_eq!(access, vec!["read-only"; count]);
    let outputs = of("tool_finished");
    let shown = outputs.iter().filter(|line| {
        line["body"]["text"].as_str().is_some_and(|text| text.contains("+fn a() { b() }"))
    });
    assert_eq!(shown.count() * EVERYDAY.len(), count, "each saw the change");
}

#[test]
fn a_slot_of_a_review_that_wants_to_write_asks_once_by_name() {
    let repository = project();
    let mut terminal = review(&repository, &EIGHT);
    let keys = "y once, b this batch, s this session, a always, n no, n TEXT no and why:";
    terminal.wait_until(|screen| screen.row(keys).is_some());
    let shown = terminal.screen.text();
    let question: Vec<_> = shown.lines().skip_while(|row| !row.contains(" asks to ")).collect();
    let [first, path, what, line, .., last] = question[..] else { panic!("{shown}") };
    assert_eq!((first, path, last), ("fixer asks to use Write:", "  | note.txt", keys));
    assert_eq!((what, line), ("  the whole file, +1:", "  | +new"));
    assert!(question.iter().all(|row| row.chars().count() <= 80), "{shown}");
    terminal.keys("maybe\n");
    let again = "that is no answer; type y once, b this batch, s this session, a always, n no";
    terminal.wait_until(|screen| screen.row(again).is_some());
    terminal.keys("y\n");
    assert_eq!(terminal.wait(), (Some(0), "done\n".to_owned()));
    let text = terminal.screen.text();
    assert_eq!(text.matches(" asks to ").count(), 1, "{text}");
    assert_eq!(repository.place.read("note.txt").as_deref(), Some("new\n"));
}

#[test]
fn always_writes_the_rule_to_the_users_settings_and_the_next_run_does_not_ask() {
    let repository = project();
    let place = &repository.place;
    place.configure("# mine\n[agents]\nmax_concurrent = 2\n");
    let mut terminal = review(&repository, &EIGHT);
    terminal.wait_until(|screen| screen.text().ends_with("n TEXT no and why:"));
    terminal.keys("a\n");
    assert_eq!(terminal.wait(), (Some(0), "done\n".to_owned()));
    let settings = std::fs::read_to_string(place.home().join(".config/tine/config.toml")).unwrap();
    assert!(settings.starts_with("# mine\n[agents]\n"), "{settings}");
    assert!(settings.contains("/work/note.txt)"), "{settings}");
    std::fs::remove_file(place.work().join("note.txt")).unwrap();
    let mut again = review(&repository, &EIGHT);
    assert_eq!(again.wait(), (Some(0), "done\n".to_owned()));
    assert!(!again.screen.text().contains(" asks to "), "{}", again.screen.text());
    assert_eq!(place.read("note.txt").as_deref(), Some("new\n"));
}

#[test]
fn where_settings_cannot_be_written_the_answer_holds_and_that_is_told() {
    let repository = project();
    repository.place.configure("[permissions]\nallow = []\n");
    let settings = repository.place.home().join(".config/tine/config.toml");
    let mut terminal = review(&repository, &EIGHT);
    terminal.wait_until(|screen| screen.text().ends_with("n TEXT no and why:"));
    std::fs::write(&settings, "[permissions\n").unwrap();
    terminal.keys("a\n");
    assert_eq!(terminal.wait().0, Some(0));
    let text = terminal.screen.text();
    assert!(text.contains("warning: a rule holds for this session, but is not in the"), "{text}");
    assert_eq!(repository.place.read("note.txt").as_deref(), Some("new\n"));
}

#[test]
fn where_nobody_can_be_asked_the_call_is_denied_and_what_would_allow_it_is_said() {
    let slots = [("a", Some("a.txt")), ("b", Some("b.txt"))];
    let finished = Place::new().play(&script(&slots), &[]).exits(0);
    let lines: Vec<_> = finished.stderr.lines().rev().take(2).collect();
    let [hint, denied] = lines[..] else { panic!("{}", finished.stderr) };
    assert_eq!(denied, "2 calls were denied");
    assert!(hint.starts_with("hint: `--allowed-tools '"), "{hint}");
    let result = Place::new().play(&script(&slots), &["-o", "json"]).exits(0).result();
    let denials = result["permission_denials"].as_array().unwrap();
    let mut of: Vec<_> = denials.iter().map(|denial| denial["agent_id"].as_str()).collect();
    of.sort_unstable();
    assert_eq!(of, [Some("agent-1"), Some("agent-2")]);
}
