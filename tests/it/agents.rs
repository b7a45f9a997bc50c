//! The Agent call over a real socket: its shapes, its texts for the model, and
//! what becomes of slots that end badly.

use serde_json::{Value, json};

use crate::support::server::{End, Gate, Reaction, RecordedRequest, events};
use crate::support::talk::{Talk, serve, serve_calls, shown};
use crate::support::tine::Place;

fn task(description: &str, agent: &str) -> Value {
    json!({ "description": description, "prompt": description, "subagent_type": agent })
}

/// A task with one more field.
fn task_with(description: &str, field: &str, value: impl Into<Value>) -> Value {
    let mut task = task(description, "explore");
    task[field] = value.into();
    task
}

fn batch(tasks: &[Value]) -> Value {
    json!({ "tasks": tasks })
}

/// Makes one Agent call and returns its output as main's next request has it,
/// and all requests. Units answer with their own task.
fn call(place: &Place, arguments: Value) -> (String, Vec<RecordedRequest>) {
    call_with(place, arguments, |talk| Reaction::text_reply(&format!("I did {}.", talk.task())))
}

fn call_with(
    place: &Place,
    arguments: Value,
    react: impl Fn(&Talk) -> Reaction + Send + Sync + 'static,
) -> (String, Vec<RecordedRequest>) {
    let server = serve_calls(&[("Agent", arguments)], react);
    let finished = place.ask(&server, &[]).exits(0);
    assert_eq!(finished.stdout, "done\n");
    let requests = server.finish();
    let outputs = shown(&requests);
    let [output] = <[_; 1]>::try_from(outputs).expect("one call, one output");
    (output, requests)
}

fn of_task<'a>(requests: &'a [RecordedRequest], task: &str) -> Vec<&'a RecordedRequest> {
    requests.iter().filter(|request| Talk::of(request).task() == task).collect()
}

#[test]
fn a_single_call_gives_the_agents_answer_and_nothing_around_it() {
    let (output, requests) = call(&Place::new(), task("look", "explore"));
    assert_eq!(output, "I did look.");
    let slot = Talk::of(of_task(&requests, "look")[0]);
    assert_eq!(slot.tools(), ["Read", "Glob", "Grep", "TodoWrite"]);
    assert!(slot.system().starts_with("You answer one question about the code"));
}

#[test]
fn a_batch_gives_every_slots_answer_in_declared_order() {
    let tasks = [task("A", "explore"), task("B", "reviewer"), task("C", "general-purpose")];
    let (output, requests) = call(&Place::new(), batch(&tasks));
    assert_eq!(
        output,
        "## Task 1: A (explore)\n\nI did A.\n\n---\n\n## Task 2: B (reviewer)\n\nI did B.\
         \n\n---\n\n## Task 3: C (general-purpose)\n\nI did C."
    );
    assert_eq!(requests.len(), 5);
}

#[test]
fn names_of_agents_and_tools_match_in_any_case_and_task_is_agent() {
    let server =
        serve_calls(&[("Task", task("look", "EXPLORE"))], |_| Reaction::text_reply("I looked."));
    Place::new().ask(&server, &[]).exits(0);
    assert_eq!(shown(&server.finish()), ["I looked."]);
}

#[test]
fn a_call_that_cannot_be_run_is_told_why_and_the_run_goes_on() {
    let types = "general-purpose, explore, reviewer";
    let unknown =
        |place: &str| format!("Subagent \"cook\"{place} not found. Available subagents: {types}");
    let rows = [
        (
            json!({}),
            "Parameters missing: provide tasks[] (batch form) or description+prompt+subagent_type (single-task form).",
        ),
        (json!({ "tasks": "oops" }), "Parameter \"tasks\" must be an array of task objects."),
        (json!({ "tasks": ["oops"] }), "Entry tasks[0] must be a task object."),
        (
            json!({ "tasks": [task("a", "explore")], "description": "d" }),
            "Provide either tasks[] (batch form) or description+prompt+subagent_type (single-task form), not both.",
        ),
        (
            json!({ "tasks": [{ "description": "d", "prompt": "p" }] }),
            "Parameter \"subagent_type\" in tasks[0] is required in batch mode.",
        ),
        (task("a", "cook"), &unknown("")),
        (batch(&[task("a", "explore"), task("b", "cook")]), &unknown(" in tasks[1]")),
    ];
    for (arguments, expected) in rows {
        let server = serve_calls(&[("Agent", arguments)], |_| Reaction::Close);
        let finished = Place::new().ask(&server, &["-o", "stream-json"]).exits(0);
        let [output] = &finished.records().outputs()[..] else { panic!("one call, one output") };
        assert_eq!((output.text.as_str(), output.is_error), (expected, true));
        let requests = server.finish();
        assert_eq!((requests.len(), shown(&requests)), (2, vec![expected.to_owned()]));
    }
}

/// Says something, then calls a tool.
fn partly(text: &str) -> Reaction {
    Reaction::reply(Some(text), &[("Glob", json!({ "pattern": "*" }))])
}

/// Says something and then nothing more, for ever.
fn then_silent(text: &str) -> Reaction {
    let delta = json!({ "choices": [{ "index": 0, "delta": { "content": text } }] });
    Reaction::pieces([events([&delta])], End::Hang)
}

/// One batch in which every slot but the first ends badly, each in its way.
#[test]
fn a_slot_that_ends_badly_fails_alone_with_its_error_and_its_partial_text() {
    let place = Place::new();
    let tasks = [
        task("good", "explore"),
        task("error", "explore"),
        task_with("slow", "timeout_s", 1),
        task_with("long", "max_turns", 2),
        task_with("setup", "model", "scripted:/none"),
        task("mute", "explore"),
    ];
    let (output, _) = call_with(&place, batch(&tasks), |talk| match (talk.task(), talk.turn()) {
        ("error", 1) => partly("error half"),
        ("error", _) => Reaction::json(500, &json!({ "error": { "message": "out of cheese" } })),
        ("slow", _) => then_silent("slow half"),
        ("long", _) => partly("long half"),
        ("mute", _) => Reaction::json(400, &json!({ "error": { "message": "too hot" } })),
        _ => Reaction::text_reply("All good."),
    });
    let sections: Vec<_> = output.split("\n\n---\n\n").collect();
    let half = |name: &str| format!("\n\nPartial result:\n\n{name} half");
    let expected = [
        ("## Task 1: good (explore)\n\nAll good.", String::new()),
        ("## Task 2: error (explore)\n\n[failed: ", half("error")),
        ("## Task 3: slow (explore)\n\n[failed: ran past its time limit of 1 s]", half("slow")),
        (
            "## Task 4: long (explore)\n\n[failed: reached its limit of 2 turns (`max_turns`)]",
            half("long"),
        ),
        (
            "## Task 5: setup (explore)\n\n[failed: `scripted:/none` can only be chosen with `-m`]",
            String::new(),
        ),
        ("## Task 6: mute (explore)\n\n[failed: ", String::new()),
    ];
    assert_eq!(sections.len(), expected.len(), "{output}");
    for (section, (start, end)) in sections.iter().zip(&expected) {
        assert!(section.starts_with(start) && section.ends_with(end.as_str()), "{section}");
        assert_eq!(section.contains("Partial result"), !end.is_empty(), "{section}");
    }
    assert!(sections[1].contains("500") && sections[1].contains("out of cheese"), "{output}");
    assert!(sections[5].contains("400") && sections[5].contains("too hot"), "{output}");
}

#[test]
fn a_single_agent_that_fails_is_an_output_with_its_error() {
    let error = json!({ "error": { "message": "too hot" } });
    let (output, _) =
        call_with(&Place::new(), task("look", "explore"), move |_| Reaction::json(400, &error));
    assert!(output.starts_with("[failed: ") && output.contains("too hot"), "{output}");
}

#[test]
fn a_batch_whose_every_slot_fails_is_an_error_and_the_run_is_none() {
    let server = serve_calls(&[("Agent", batch(&[task("a", "explore")]))], |_| Reaction::Close);
    let records = Place::new().ask(&server, &["-o", "stream-json"]).exits(0).records();
    let [output] = &records.outputs()[..] else { panic!("one call, one output") };
    assert!(output.is_error && output.text.contains("[failed: "), "{output:?}");
    assert_eq!(records.result()["subtype"], "success");
}

/// The first eight are answered only when all of them have come, so that fewer
/// at once would hang, and more would be seen.
#[test]
fn as_many_slots_run_as_the_cap_allows_and_never_more() {
    let tasks: Vec<_> = (1..=12).map(|number| task(&format!("slot {number}"), "explore")).collect();
    let gate = Gate::closed();
    let came = std::sync::atomic::AtomicUsize::new(0);
    let server = serve_calls(&[("Agent", batch(&tasks))], move |_| {
        if came.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == 8 {
            gate.open();
        }
        Reaction::text_reply("ok").behind(&gate)
    });
    let records = Place::new().ask(&server, &["-o", "stream-json"]).exits(0).records();
    assert_eq!((server.most_open(), records.most_running()), (8, 8));
    for slot in records.system("task_started") {
        let states = records.states(slot["task_id"].as_str().unwrap());
        assert_eq!(states, ["pending", "running", "completed"]);
    }
    assert_eq!(server.finish().len(), 2 + 12);
}

/// So many slots that an end that is told too late shows as one too many.
#[test]
fn a_thousand_slots_never_exceed_the_cap_and_all_are_told() {
    let tasks: Vec<_> = (1..=1_000).map(|number| task(&format!("{number}"), "explore")).collect();
    let script = json!({
        "units": { "main": [
            { "calls": [{ "name": "Agent", "arguments": batch(&tasks) }] },
            { "text": "done", "expect": { "contains": ["1000 tasks, completed as a whole, 1000 completed."] } },
        ] },
        "then": { "text": "ok" },
    });
    let flags = ["-o", "stream-json", "--allow-large-batches"];
    let records = Place::new().play(&script, &flags).exits(0).records();
    assert!(records.most_running() <= 8, "{} ran at once", records.most_running());
    assert_eq!(records.system("task_notification").len(), 1_000);
}

#[test]
fn the_configured_cap_is_held() {
    let tasks: Vec<_> = (1..=6).map(|number| task(&format!("slot {number}"), "explore")).collect();
    let server = serve_calls(&[("Agent", batch(&tasks))], |_| Reaction::text_reply("ok"));
    let flags = ["-o", "stream-json", "--config", "agents.max_concurrent=1"];
    let records = Place::new().ask(&server, &flags).exits(0).records();
    assert_eq!((server.most_open(), records.most_running()), (1, 1));
    // First come, first served.
    let requests = server.finish();
    let order: Vec<_> = requests[1..7].iter().map(|r| Talk::of(r).task().to_owned()).collect();
    assert_eq!(order, ["slot 1", "slot 2", "slot 3", "slot 4", "slot 5", "slot 6"]);
}

#[test]
fn nested_batches_under_a_cap_of_one_come_to_their_end() {
    let pair = |name: &str| {
        let name = |number: u32| format!("{name}.{number}");
        batch(&[task(&name(1), "general-purpose"), task(&name(2), "general-purpose")])
    };
    let server = serve(move |talk| match (talk.task(), talk.turn()) {
        ("go", 1) => Reaction::call_reply(&[("Agent", pair("a")), ("Agent", pair("b"))]),
        (task @ ("a.1" | "a.2" | "b.1" | "b.2"), 1) => {
            Reaction::call_reply(&[("Agent", pair(task)), ("Agent", pair(&format!("{task}+")))])
        }
        ("go", _) => Reaction::text_reply("done"),
        (task, _) => Reaction::text_reply(&format!("I did {task}.")),
    });
    let place = Place::new();
    let finished = place.ask(&server, &["--config", "agents.max_concurrent=1"]).exits(0);
    assert_eq!(finished.stdout, "done\n");
    let requests = server.finish();
    // Main and four units with two turns each, sixteen with one.
    assert_eq!(requests.len(), 2 + 4 * 2 + 16);
    let inner = Talk::of(of_task(&requests, "b.2")[1]).outputs().join("\n");
    assert!(inner.contains("I did b.2.1.") && inner.contains("I did b.2+.2."), "{inner}");
}

#[test]
fn at_the_depth_limit_there_is_no_agent_tool_and_a_call_of_it_is_told_so() {
    let nest = |talk: &Talk| match (talk.task(), talk.turn()) {
        (_, 2) => Reaction::text_reply(talk.outputs()[0]),
        ("go", _) => Reaction::call_reply(&[("Agent", task("one", "general-purpose"))]),
        ("one", _) => Reaction::call_reply(&[("Agent", task("two", "general-purpose"))]),
        _ => Reaction::call_reply(&[("Agent", task("three", "general-purpose"))]),
    };
    let server = serve(nest);
    let finished = Place::new().ask(&server, &["--max-subagent-depth", "2"]).exits(0);
    let requests = server.finish();
    let has_agent = |task: &str| Talk::of(of_task(&requests, task)[0]).tools().contains(&"Agent");
    assert_eq!(["go", "one", "two"].map(has_agent), [true, true, false]);
    assert!(of_task(&requests, "three").is_empty());
    assert!(finished.stdout.starts_with("Tool \"Agent\" not found"), "{}", finished.stdout);

    let server = serve(nest);
    let finished = Place::new().ask(&server, &["--max-subagent-depth", "0"]).exits(0);
    let expected = "Agents nest at most 0 deep (`agents.max_depth`), and this one is at the limit. \
                    Do the work yourself.\n";
    assert_eq!(finished.stdout, expected);
}

#[test]
fn a_project_defines_agents_in_any_of_three_places() {
    for (owner, name) in [(".tine", "smith"), (".agents", "baker"), (".claude", "cook")] {
        let place = Place::new();
        let text = format!(
            "---\nname: {name}\ndescription: Works.\ntools: Grep, Bash(git *), Read\nmodel: big\n\
             ---\nYou are the {name}.\n"
        );
        place.write(&format!("{owner}/agents/{name}.md"), text);
        let (output, requests) = call(&place, batch(&[task("work", name)]));
        assert_eq!(output, format!("## Task 1: work ({name})\n\nI did work."));
        let slot = Talk::of(of_task(&requests, "work")[0]);
        assert_eq!(slot.tools(), ["Read", "Bash", "Grep"]);
        assert_eq!(slot.model(), "big");
        assert!(slot.system().starts_with(&format!("You are the {name}.")));
        let main = requests[0].json().to_string();
        assert!(main.contains(&format!("- `{name}`: Works.")), "main is not offered {name}");
    }
}

#[test]
fn a_task_narrows_the_tools_of_its_agent_and_never_widens_them() {
    let tools = |wanted: Value| {
        let (output, requests) = call(&Place::new(), batch(&[task_with("work", "tools", wanted)]));
        assert_eq!(output, "## Task 1: work (explore)\n\nI did work.");
        Talk::of(of_task(&requests, "work")[0]).tools().join(" ")
    };
    assert_eq!(tools(json!(["grep", "Read"])), "Read Grep");
    assert_eq!(tools(json!(["Bash", "Read"])), "Read");
}

#[test]
fn an_agents_long_answer_is_bounded_and_its_file_has_all_of_it() {
    let place = Place::new();
    let long: String = (0..20_000).map(|number| format!("{number:08}\n")).collect();
    let tasks: Vec<_> = (1..=8).map(|number| task(&format!("slot {number}"), "explore")).collect();
    let answer = long.clone();
    let (output, _) = call_with(&place, batch(&tasks), move |_| Reaction::text_reply(&answer));
    assert!(output.chars().count() <= 64_000, "{} characters", output.chars().count());
    let notes: Vec<_> = output.split("the whole text is in ").skip(1).collect();
    assert_eq!(notes.len(), 8);
    for note in notes {
        let path = note.split(']').next().unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), long);
    }
}

/// A file of a repository must not speak in a model's place.
#[test]
fn a_definition_cannot_choose_a_script_for_its_model() {
    let place = Place::new();
    let script = place.script("evil.json", &json!({ "units": { "*": [{ "text": "evil" }] } }));
    let definition = format!("---\nname: spy\ndescription: d\nmodel: {script}\n---\nBe bad.\n");
    place.write(".claude/agents/spy.md", definition);
    let (output, _) = call_with(&place, task("a", "spy"), |_| Reaction::text_reply("honest"));
    assert_eq!(output, "honest");
}
