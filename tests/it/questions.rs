//! Questions that only a person may answer: a batch that is larger than usual
//! is started only with leave, and a model may ask what it cannot decide.

use std::time::Duration;

use serde_json::{Value, json};
use tine::event::{EventKind, Outcome, Question, UnitId, UnitState, Verdict};
use tine::flow::{AgentStep, Sees, Step};
use tine::run::Signal;

use crate::fanout::check_invariants;
use crate::support::inside::{Says, Setup, Story};
use crate::support::screen::Screen;
use crate::support::server::{Gate, Reaction};
use crate::support::talk::serve_calls;
use crate::support::terminal::{Sitting, StandardOutput};
use crate::support::tine::Place;

fn task(description: &str) -> Value {
    json!({"description": description, "prompt": description, "subagent_type": "general-purpose"})
}

fn tasks(count: usize) -> Value {
    let tasks = (1..=count).map(|number| task(&format!("slot {number}")));
    json!({ "tasks": tasks.collect::<Vec<_>>() })
}

fn batch(count: usize) -> Value {
    json!({"name": "Agent", "arguments": tasks(count)})
}

/// Main starts these batches at once and then ends; so does the agent `outer`.
fn script(batches: &[Value]) -> Value {
    json!({"units": {
        "main": [{"calls": batches}, {"text": "done"}],
        "outer": [{"calls": [batch(3)]}, {"text": "outer is done"}],
        "*": [{"text": "fine", "delay_ms": 10}],
    }})
}

/// A run in which a batch of more than two slots is asked about.
async fn run(batches: &[Value], user_says: Option<Says>) -> Story {
    let setup = Setup { user_says, confirm_above: 2, ..Setup::new(script(batches)) };
    let story = setup.run().await;
    check_invariants(&story);
    story
}

/// Returns who asked for how many slots, and what became of it.
fn answers(story: &Story) -> Vec<(UnitId, u32, Verdict)> {
    let answered = |kind: &EventKind| match kind {
        EventKind::Answered { question: Question::Batch { slots }, answer, .. } => {
            Some((*slots, answer.clone()))
        }
        _ => None,
    };
    story
        .events
        .iter()
        .filter_map(|event| answered(&event.kind).map(|(slots, of)| (event.unit, slots, of)))
        .collect()
}

const UNASKED: &str = "Not started: a batch of more than 2 agents needs the user's leave, and in \
    this run nobody can be asked. A batch of up to 2 needs none: start fewer, or go on without. \
    If the task needs more at once, say so in your answer: the user can allow it with \
    `--allow-large-batches`, or set `agents.confirm_above`.";

const REFUSED: &str = "Not started: the user was asked whether 3 agents may start at once, and \
    said no. A batch of up to 2 needs no leave. Start fewer, or go on without; do not ask for the \
    same again.";

#[tokio::test(start_paused = true)]
async fn where_nobody_can_be_asked_a_large_batch_is_refused_and_the_model_is_told_what_to_do() {
    let story = run(&[batch(3)], None).await;
    assert_eq!(story.outputs(UnitId::MAIN), [UNASKED]);
    assert_eq!(story.states(), []);
    assert_eq!(answers(&story), [(UnitId::MAIN, 3, Verdict::NobodyToAsk)]);
    assert_eq!(story.end.outcome, Outcome::Done { text: "done".into() });
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_exactly_the_limit_is_not_asked_about() {
    let story = run(&[batch(2), batch(2)], None).await;
    assert_eq!((story.states(), answers(&story)), (vec![UnitState::Completed; 4], vec![]));
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_batch_is_declared_before_the_user_says_yes() {
    let story = run(&[batch(3)], Some(Says::Yes)).await;
    assert_eq!(story.states(), [UnitState::Completed; 3]);
    assert_eq!(answers(&story), [(UnitId::MAIN, 3, Verdict::Yes)]);
    let position = |fits: fn(&EventKind) -> bool| {
        story.events.iter().position(|event| fits(&event.kind)).unwrap()
    };
    let answered = position(|kind| matches!(kind, EventKind::Answered { .. }));
    let queued = position(|kind| matches!(kind, EventKind::UnitQueued(_)));
    assert!(answered < queued, "{answered} {queued}");
}

#[tokio::test(start_paused = true)]
async fn a_no_is_an_output_for_whoever_asked_and_the_run_goes_on() {
    let mut outer = task("outer");
    outer["prompt"] = json!("look");
    let outer = json!({"name": "Agent", "arguments": {"tasks": [outer, task("beside")]}});
    let story = run(&[outer], Some(Says::No)).await;
    assert_eq!(story.outputs(UnitId(1)), [REFUSED]);
    assert_eq!(story.states(), [UnitState::Completed; 2]);
    assert_eq!(answers(&story), [(UnitId(1), 3, Verdict::No)]);
}

#[tokio::test(start_paused = true)]
async fn questions_of_several_units_are_asked_side_by_side_and_each_has_its_answer() {
    let outer = json!({"name": "Agent", "arguments": {"tasks": [task("outer"), task("outer")]}});
    let story = run(&[batch(3), outer], Some(Says::Yes)).await;
    let mut of: Vec<UnitId> = answers(&story).into_iter().map(|(unit, ..)| unit).collect();
    of.sort_unstable();
    assert_eq!(of.len(), 3);
    assert_eq!((of[0], story.states()), (UnitId::MAIN, vec![UnitState::Completed; 11]));
}

#[tokio::test(start_paused = true)]
async fn while_one_unit_waits_for_an_answer_the_others_go_on() {
    let story = Setup {
        user_says: Some(Says::Nothing),
        confirm_above: 2,
        ..Setup::new(script(&[batch(3), batch(2)]))
    }
    .signal(Duration::from_secs(60), Signal::Interrupt)
    .run()
    .await;
    check_invariants(&story);
    assert_eq!(story.states(), [UnitState::Completed; 2]);
    assert_eq!(answers(&story), [(UnitId::MAIN, 3, Verdict::Withdrawn)]);
    assert_eq!(story.took, Duration::from_secs(60), "a question keeps nobody after a cancel");
    assert_eq!(story.end.outcome, Outcome::Cancelled { ran: true });
}

#[tokio::test(start_paused = true)]
async fn what_the_user_declared_is_not_asked_about() {
    let step = |number: usize| {
        let agent = AgentStep::new(format!("slot_{number}"), "explore", "look");
        Step::Agent(AgentStep { sees: Sees::Nothing, ..agent })
    };
    let flow = Step::parallel((0..5).map(step).collect()).unwrap();
    let story = Setup { confirm_above: 2, ..Setup::new(script(&[])) }.flow(flow).run().await;
    assert_eq!((story.states(), answers(&story)), (vec![UnitState::Completed; 5], vec![]));
}

#[test]
fn without_a_terminal_33_agents_need_a_flag_or_a_key_and_32_need_nothing() {
    let rows: [(usize, &[&str], bool); 5] = [
        (33, &[], false),
        (32, &[], true),
        (33, &["--allow-large-batches"], true),
        (33, &["--config", "agents.confirm_above=33"], true),
        (33, &["--config", "agents.confirm_above=0"], true),
    ];
    for (count, flags, is_allowed) in rows {
        let script = script(&[batch(count)]);
        let flags = [&["-o", "stream-json"][..], flags].concat();
        let records = Place::new().play(&script, &flags).exits(0).records();
        let [output, ..] = &records.outputs()[..] else { panic!("a call has an output") };
        assert_eq!(output.is_error, !is_allowed, "{flags:?}: {}", output.text);
        let started = if is_allowed { count } else { 0 };
        assert_eq!(records.system("task_started").len(), started, "{flags:?}");
    }
}

#[test]
fn people_who_only_read_are_told_why_nothing_started() {
    let finished = Place::new().play(&script(&[batch(33)]), &[]).exits(0);
    let lines: Vec<_> = finished.stderr.lines().take(2).collect();
    let answer = "start 33 agents at once? nobody can be asked; `--allow-large-batches` allows it";
    assert_eq!(lines, ["Agent 33 tasks", answer]);
}

/// Starts a run on a terminal that asks whether three agents may start.
fn on_terminal(place: &Place, script: &Value, flags: &[&str]) -> Sitting {
    let model = place.script("script.json", script);
    let limit = ["-p", "go", "-m", &model, "--config", "agents.confirm_above=2"];
    Sitting::answer(place.tine(limit.iter().chain(flags)), StandardOutput::Pipe)
}

const PROMPT: &str = "main asks: start 3 agents at once? [y/N]";

fn asks(screen: &Screen) -> bool {
    screen.row(PROMPT).is_some()
}

#[test]
fn on_a_terminal_a_yes_starts_the_batch_and_anything_else_does_not() {
    for (keys, slots) in
        [("y\n", 3), ("YES\n", 3), ("\n", 0), ("n\n", 0), ("n two will do\n", 0), ("\u{4}", 0)]
    {
        let place = Place::new();
        let mut terminal = on_terminal(&place, &script(&[batch(3)]), &[]);
        terminal.wait_until(asks);
        let screen = terminal.screen.text();
        assert_eq!(screen.lines().last(), Some(PROMPT), "the region makes way:\n{screen}");
        terminal.keys(keys);
        assert_eq!(terminal.wait(), (Some(0), "done\n".to_owned()), "{keys:?}");
        let text = terminal.screen.text();
        let typed = keys.trim_end_matches(['\n', '\u{4}']);
        assert!(text.contains(format!("{PROMPT} {typed}").trim_end()), "{text}");
        let ends = text.lines().filter(|line| line.starts_with("[slot ")).count();
        assert_eq!(ends, slots, "{keys:?}\n{text}");
        // Nothing of the region is left, and nothing stands behind a question.
        assert!(!text.contains("running"), "{text}");
    }
}

#[test]
fn what_was_typed_before_a_question_came_answers_nothing() {
    let (place, gate) = (Place::new(), Gate::closed());
    let held = gate.clone();
    let server = crate::support::talk::serve(move |talk| match talk.turn() {
        1 => Reaction::call_reply(&[("Agent", tasks(3))]).behind(&held),
        _ => Reaction::text_reply("done"),
    });
    let flags = ["--config", "agents.confirm_above=2"];
    let mut terminal = Sitting::answer(place.asking(&server, &flags), StandardOutput::Pipe);
    terminal.keys("y\ny\n");
    terminal.wait_until(|screen| screen.text().contains("y\ny"));
    gate.open();
    terminal.wait_until(asks);
    terminal.keys("n\n");
    assert_eq!(terminal.wait().0, Some(0));
    let requests = server.finish();
    assert_eq!(requests.len(), 2, "no agent was started");
}

#[test]
fn a_slots_question_names_the_slot_and_the_next_one_is_asked_when_it_is_answered() {
    let place = Place::new();
    let outer = json!({"name": "Agent", "arguments": {"tasks": [task("outer"), task("outer")]}});
    let mut terminal = on_terminal(&place, &script(&[outer]), &[]);
    let question = "outer asks: start 3 agents at once? [y/N]";
    let asked = |count| {
        move |screen: &Screen| {
            screen.text().lines().filter(|line| line.starts_with(question)).count() == count
        }
    };
    terminal.wait_until(asked(1));
    terminal.keys("n\n");
    terminal.wait_until(asked(2));
    terminal.keys("y\n");
    assert_eq!(terminal.wait().0, Some(0));
    let text = terminal.screen.text();
    let answered: Vec<_> = text.lines().filter(|line| line.starts_with(question)).collect();
    assert_eq!(answered, [format!("{question} n"), format!("{question} y")]);
}

#[test]
fn lines_of_others_wait_until_the_question_is_answered() {
    let (place, gate) = (Place::new(), Gate::closed());
    let held = gate.clone();
    let server = serve_calls(&[("Agent", tasks(3)), ("Agent", tasks(1))], move |_| {
        Reaction::text_reply("fine").behind(&held)
    });
    let flags = ["--config", "agents.confirm_above=2"];
    let mut terminal = Sitting::answer(place.asking(&server, &flags), StandardOutput::Pipe);
    terminal.wait_until(asks);
    server.wait_until_came(2);
    gate.open();
    terminal.keys("n\n");
    terminal.wait_until(|screen| screen.row("[slot 1] done").is_some());
    assert_eq!(terminal.wait().0, Some(0));
    let text = terminal.screen.text();
    let place = |start: &str| text.lines().position(|line| line.starts_with(start));
    assert!(place(PROMPT) < place("[slot 1] done"), "{text}");
}

#[test]
fn ctrl_c_ends_a_run_that_asks_as_it_ends_any() {
    let place = Place::new();
    let mut terminal = on_terminal(&place, &script(&[batch(3)]), &[]);
    terminal.wait_until(asks);
    terminal.keys("\u{3}");
    assert_eq!(terminal.wait().0, Some(130));
    let text = terminal.screen.text();
    let lines: Vec<_> = text.lines().collect();
    let [.., question, error] = lines[..] else { panic!("{text}") };
    assert_eq!((question, error), (PROMPT, "error: interrupted"));
}

#[test]
fn programs_see_that_a_unit_waits_for_approval_and_that_it_goes_on() {
    let place = Place::new();
    let outer = json!({"name": "Agent", "arguments": task("outer")});
    let mut terminal = on_terminal(&place, &script(&[outer]), &["-o", "stream-json"]);
    terminal.wait_until(|screen| screen.row("outer asks: start 3 agents at once?").is_some());
    terminal.keys("y\n");
    let (code, stdout) = terminal.wait();
    assert_eq!(code, Some(0));
    let patches: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|record| record["subtype"] == "task_updated" && record["task_id"] == "agent-1")
        .map(|record| json!([record["patch"]["status"], record["reason"]]))
        .collect();
    assert_eq!(
        patches,
        [
            json!(["pending", null]),
            json!(["running", null]),
            json!(["paused", "awaiting_approval"]),
            json!(["running", null]),
            json!(["completed", null]),
        ]
    );
}

/// Main asks the user two things and goes on.
fn asks_the_user() -> Value {
    let option = |label: &str| json!({"label": label, "description": "it is there"});
    let question = |text: &str, several: bool| {
        json!({"question": text, "header": "h", "multiSelect": several,
            "options": [option("Postgres"), option("SQLite")]})
    };
    let questions = [question("Which database?", false), question("Which to test?", true)];
    let arguments = json!({ "questions": questions });
    json!({"units": {"main": [
        {"calls": [{"name": "AskUserQuestion", "arguments": arguments}]},
        {"text": "done"},
    ]}})
}

#[test]
fn where_nobody_can_be_asked_a_model_is_told_to_decide_and_the_result_lists_what_it_asked() {
    let records = Place::new().play(&asks_the_user(), &["-o", "stream-json"]).exits(0).records();
    let [output, ..] = &records.outputs()[..] else { panic!("a call has an output") };
    assert!(output.text.starts_with("Not asked: in this run nobody can answer."), "{output:?}");
    assert!(!output.is_error);
    let result = records.result();
    assert_eq!((&result["subtype"], &result["result"]), (&json!("success"), &json!("done")));
    let denial = &result["permission_denials"][0];
    assert_eq!(denial["tool_name"], "AskUserQuestion");
    assert_eq!(denial["tool_input"]["questions"][0]["question"], "Which database?");
}

#[test]
fn a_mode_that_asks_nobody_asks_nothing_of_the_model_either() {
    let flags = ["-o", "stream-json", "--permission-mode", "dontAsk"];
    let records = Place::new().play(&asks_the_user(), &flags).exits(0).records();
    let [output, ..] = &records.outputs()[..] else { panic!("a call has an output") };
    assert!(output.text.contains("`dontAsk` asks nobody"), "{output:?}");
}

#[test]
fn on_a_terminal_a_model_is_answered_line_by_line() {
    let place = Place::new();
    let mut terminal = on_terminal(&place, &asks_the_user(), &["-o", "stream-json"]);
    let first = |screen: &Screen| screen.row("1-2 or your own words, n no answer:").is_some();
    terminal.wait_until(first);
    let screen = terminal.screen.text();
    assert!(
        screen.contains("main asks (1 of 2):\n  | Which database?\n  | 1 Postgres"),
        "{screen}"
    );
    terminal.keys("3\n");
    terminal.wait_until(|screen| screen.row("that is no answer; type 1-2 or").is_some());
    terminal.keys("the one that is there\n");
    terminal.wait_until(|screen| screen.row("(2 of 2)").is_some());
    terminal.keys("1,2\n");
    let (code, stdout) = terminal.wait();
    assert_eq!(code, Some(0));
    let answers = "The user has answered:\\n\\nWhich database?\\n> the one that is there\\n\\nWhich \
                   to test?\\n> Postgres, SQLite";
    assert!(stdout.contains(answers), "{stdout}");
}

#[test]
fn on_a_terminal_an_n_answers_nothing_and_the_end_of_the_input_too() {
    for keys in ["n\n", "\u{4}"] {
        let place = Place::new();
        let mut terminal = on_terminal(&place, &asks_the_user(), &["-o", "stream-json"]);
        terminal.wait_until(|screen| screen.row("1-2 or your own words").is_some());
        terminal.keys(keys);
        let (code, stdout) = terminal.wait();
        assert_eq!(code, Some(0));
        assert!(stdout.contains("The user does not want to answer. Go on"), "{stdout}");
    }
}
