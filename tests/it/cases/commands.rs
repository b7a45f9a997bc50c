//! Commands and what they leave running.

use serde_json::{Value, json};

use crate::support::play::{Case, outputs_of};
use crate::support::records::OutputRecord;
use crate::support::terminal::{Sitting, StandardOutput};
use crate::support::tine::Place;

fn outputs(case: &Case) -> Vec<OutputRecord> {
    case.scripted(&["--yolo"]).run().exits(0).records().outputs()
}

#[test]
fn arguments_that_are_quoted_as_json_or_left_empty_are_read() {
    let outputs = outputs(&Case::open("arguments-as-json-text"));
    let texts: Vec<&str> = outputs.iter().map(|output| output.text.as_str()).collect();
    assert!(outputs.iter().all(|output| !output.is_error), "{texts:?}");
    assert!(texts[0].contains('A') && texts[0].contains('B'), "{texts:?}");
    assert_eq!(texts[1], "[ ] x\n");
}

#[test]
fn every_tool_reads_arguments_in_other_forms_and_keeps_its_words_for_the_rest() {
    let place = Place::new();
    place.write("a.txt", "one\ntwo\n");
    let task = json!({ "description": "d", "prompt": "p", "subagent_type": "explore" });
    let with = |more: Value| {
        let mut task = task.clone();
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    };
    let quoted = json!([with(json!({ "tools": "[\"Read\"]", "max_turns": "3" }))]).to_string();
    let doubly = json!(quoted).to_string();
    let broken =
        "[{\"description\": \"d\", \"prompt\": \"one\ntwo\", \"subagent_type\": \"explore\"}]";
    let empty = json!({ "tasks": "", "model": null, "tools": [], "isolation": "", "schema": {},
        "max_turns": "", "timeout_s": null, "run_in_background": "" });
    let good = [
        ("Agent", json!({ "tasks": quoted })),
        ("Agent", json!({ "tasks": doubly })),
        ("Agent", json!({ "tasks": format!("```json\n{quoted}\n```") })),
        ("Agent", json!({ "tasks": broken })),
        ("Agent", json!({ "tasks": [task], "description": "", "prompt": "", "subagent_type": "" })),
        ("Agent", with(empty)),
        ("TodoWrite", json!({ "todos": "[]" })),
        ("Read", json!({ "file_path": "a.txt", "offset": "2", "limit": "" })),
        ("Grep", json!({ "pattern": "two", "-i": "", "-A": "", "output_mode": "", "path": null })),
    ];
    for output in outputs_of(&place, &good) {
        assert!(!output.is_error, "{}", output.text);
    }
    let bad = [
        ("Agent", json!({ "tasks": "oops" })),
        ("Agent", json!({ "tasks": "{}" })),
        ("TodoWrite", json!({ "todos": "oops" })),
        ("AskUserQuestion", json!({ "questions": "oops" })),
    ];
    let expected = [
        "Parameter \"tasks\" must be an array of task objects.",
        "Parameter \"tasks\" must be an array of task objects.",
        "Parameter \"todos\" must be an array of items.",
    ];
    let refused = outputs_of(&place, &bad);
    for (output, expected) in refused.iter().zip(expected) {
        assert_eq!(output.text, expected);
    }
    assert!(refused[3].is_error);
}

#[test]
fn a_working_directory_that_is_gone_is_named() {
    let case = Case::open("working-directory-gone");
    let outputs = outputs(&case);
    let expected = format!("The working directory {} is gone: ", case.place.work().display());
    assert!(outputs[1].text.starts_with(&expected), "{}", outputs[1].text);
    let place = Place::new();
    let command = json!({ "command": "d=$PWD; cd ..; mv \"$d\" \"$d-2\"" });
    let outputs = outputs_of(
        &place,
        &[
            ("Bash", command),
            ("Bash", json!({ "command": "echo hi" })),
            ("Read", json!({ "file_path": "a.txt" })),
            ("Grep", json!({ "pattern": "x" })),
            ("Glob", json!({ "pattern": "*" })),
        ],
    );
    for output in &outputs[1..] {
        let is_named = ["The working directory ", "was moved or replaced since the start"]
            .iter()
            .any(|words| output.text.contains(words));
        assert!(is_named, "{}", output.text);
    }
}

#[test]
fn a_child_with_a_session_of_its_own_ends_with_the_time_limit() {
    let case = Case::open("detached-child-outlives-cancel");
    let outputs = outputs(&case);
    let expected = "started\n[Timed out after 1 s; the command and all it started were ended.]";
    assert_eq!(outputs[0].text, expected);
    // Those that run in this place: another suite on the machine may play the case, too.
    let running = "for process in $(pgrep -x sleep); do readlink /proc/$process/cwd; done";
    let here = case.place.work().display().to_string();
    let left = case.shell(&format!("{{ {running}; }} 2>/dev/null || true"));
    assert!(!left.lines().any(|directory| directory == here), "{left}");
}

#[test]
fn what_a_command_prints_for_a_terminal_is_read_as_text() {
    let command =
        r"printf '\033[31mred\033[0m \033]8;;http://a\033\\link\033]8;;\033\\\n10%%\r100%%\n'";
    let outputs = outputs_of(&Place::new(), &[("Bash", json!({ "command": command }))]);
    let note = "[Overwritten text, such as progress bars, is shown in its final state.]";
    assert_eq!(outputs[0].text, format!("red link\n100%\n{note}"));
}

#[test]
fn ordinary_text_of_every_script_is_shown_as_it_is_on_a_terminal() {
    let case = Case::open("terminal-shows-joiners-as-escapes");
    let text = "می\u{200c}خواهم · क्\u{200d}ष · 👨\u{200d}👩\u{200d}👧 · abc\u{200f}אבג";
    for flags in [&[][..], &["--debug=off"]] {
        let given = ["-m", "scripted:@CASE@/script.json", "-p", "go"];
        let tine = case.tine(&[&given[..], flags].concat());
        let mut terminal = Sitting::watch(tine, StandardOutput::Terminal);
        terminal.wait();
        let shown = String::from_utf8_lossy(&terminal.raw).into_owned();
        assert!(shown.contains(text) && !shown.contains("\\u{"), "{shown}");
    }
}
