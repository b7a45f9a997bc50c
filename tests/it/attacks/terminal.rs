//! Text that a terminal obeys, hides or turns round, on every way that leads
//! to one.

use serde_json::{Value, json};

use super::payloads::ATTACKS;
use crate::support::terminal::{Sitting, StandardOutput};
use crate::support::tine::Place;

/// Returns what a terminal does with bytes besides showing them.
pub(super) fn obeyed(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut found = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => {
                let kind = rest.next().unwrap_or_default();
                let is_end: fn(char) -> bool = match kind {
                    '[' => |c| ('\u{40}'..='\u{7e}').contains(&c),
                    ']' | 'P' | '_' | '^' | 'X' => |c| matches!(c, '\u{7}' | '\u{1b}'),
                    _ => |_| true,
                };
                let mut sequence = format!("ESC {kind}");
                if matches!(kind, '[' | ']' | 'P' | '_' | '^' | 'X') {
                    for next in rest.by_ref() {
                        sequence.push(next);
                        if is_end(next) {
                            break;
                        }
                    }
                }
                found.push(sequence);
            }
            '\n' | '\t' => {}
            '\r' if rest.peek() == Some(&'\n') => {}
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => {
                found.push(format!("control {:x}", u32::from(character)));
            }
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0d}'
            | '\u{e0000}'..='\u{e01ef}' => {
                found.push(format!("hidden {:x}", u32::from(character)));
            }
            _ => {}
        }
    }
    found
}

/// Tells whether our own display uses a sequence: colours, moves of the
/// cursor, erasing, hiding the cursor.
pub(super) fn is_our_own(sequence: &str) -> bool {
    let Some(body) = sequence.strip_prefix("ESC [") else { return sequence == "control d" };
    match body.chars().last() {
        Some('A' | 'B' | 'C' | 'D' | 'K' | 'J' | 'm') => !["8m", "2J", "3J"].contains(&body),
        Some('h' | 'l') => body.starts_with("?25"),
        _ => false,
    }
}

/// A run that says the text in every way in which something can be said.
fn says_everywhere(text: &str) -> Value {
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let task = |description: &str| {
        json!({ "description": description, "prompt": text,
        "subagent_type": "explore" })
    };
    let failing = format!("{text} fails");
    let calls = [
        call(&format!("No{text}Such"), json!({})),
        call("Read", json!({ "file_path": text })),
        call("Read", json!({ "file_path": "hostile.txt" })),
        call("Read", json!({ "file_path": "bytes.bin" })),
        call("Glob", json!({ "pattern": "*" })),
        call("Grep", json!({ "pattern": text, "output_mode": "content" })),
        call("Bash", json!({ "command": format!("touch x; {text}"), "description": text })),
        call("Write", json!({ "file_path": format!("/etc/{text}"), "content": text })),
        call(
            "TodoWrite",
            json!({ "todos": [{ "content": text, "status": "pending",
            "activeForm": text }] }),
        ),
        call("Agent", json!({ "tasks": [task(text), task(&failing)] })),
        call("Agent", json!({ "description": text, "prompt": "x", "subagent_type": text })),
        call("Skill", json!({ "skill": text })),
    ];
    let fault = json!({ "error": { "status": 400, "message": format!("no: {text}") } });
    let mut units = json!({
        "main": [
            { "text": text, "thinking": text, "calls": calls },
            { "text": format!("The end: {text}") },
        ],
        "*": [{ "text": text }],
    });
    units[failing] = json!([{ "text": text, "fault": fault }]);
    json!({ "units": units })
}

#[track_caller]
fn check(what: &str, (does, text): (&str, &str), raw: &[u8]) {
    assert!(!raw.is_empty(), "{what} says nothing");
    let is_there = raw.windows(text.len()).any(|window| window == text.as_bytes());
    let obeyed: Vec<_> = obeyed(raw).into_iter().filter(|sequence| !is_our_own(sequence)).collect();
    assert!(!is_there && obeyed.is_empty(), "{what} {does}: {obeyed:?}");
}

/// Returns all that a command writes to its terminal.
fn on_terminal(place: &Place, arguments: &[&str]) -> Vec<u8> {
    let mut terminal = Sitting::watch(place.tine(arguments), StandardOutput::Terminal);
    terminal.wait();
    std::mem::take(&mut terminal.raw)
}

#[test]
fn no_text_of_others_is_obeyed_by_a_terminal() {
    for attack in ATTACKS {
        let (does, text) = attack;
        assert!(!obeyed(text.as_bytes()).is_empty(), "what {does} is obeyed where it gets through");
        let place = Place::new();
        place.write("hostile.txt", format!("{text}\n"));
        place.write("bytes.bin", b"8-bit: \x9b2J \x9d0;root\x9c \x90q\x9c\n");
        let name: String = text.chars().filter(|c| *c != '/' && *c != '\0').collect();
        place.write(&name, text);
        let model = place.script("script.json", &says_everywhere(text));
        let prompt = format!("go {text}").replace('\0', "");
        let run = ["-p", &prompt, "-m", &model, "--disallowed-tools", "Write(//etc/**)"];
        check("a run", attack, &on_terminal(&place, &run));
        let plain = [&run[..], &["--debug=off"]].concat();
        check("a run in lines", attack, &on_terminal(&place, &plain));
        check("the list of sessions", attack, &on_terminal(&place, &["sessions"]));
        let found = ["sessions", "search", "end"];
        check("a search", attack, &on_terminal(&place, &found));
        let log = place.sessions().pop().expect("the run has a session");
        let id = log.file_name().expect("a session has a name").to_string_lossy().into_owned();
        check("a transcript", attack, &on_terminal(&place, &["session", "show", &id]));
        check("an export", attack, &on_terminal(&place, &["session", "export", &id]));
    }
}

#[test]
fn no_argument_of_a_command_line_is_obeyed_by_a_terminal() {
    for attack in ATTACKS {
        let text = attack.1.replace('\0', "");
        let place = Place::new();
        for arguments in [
            &["-p", "x", "-m", &text][..],
            &["session", "show", &text],
            &["-r", &text, "-p", "x"],
            &["-p", "x", "--config", &format!("{text}=1")],
            &["-p", "x", "--allowed-tools", &format!("Bash({text}")],
            &["-p", "x", "-C", &text],
        ] {
            check("an error", attack, &on_terminal(&place, arguments));
        }
    }
}

/// Stands at the end of a question about a call, behind the answers.
const AT_THE_END: &str = "n no, n TEXT no and why";

/// Rows of the smallest screen on which all of a question is seen.
const SCREEN: usize = 24;

/// A slot, called as this says, that runs a command and writes a file.
fn asks(name: &str, command: &str, path: &str, content: &str) -> Value {
    let task = json!({ "description": name, "prompt": "slot",
        "subagent_type": "general-purpose" });
    let calls = json!([
        { "name": "Bash", "arguments": { "command": command, "description": content,
            "timeout": 9_000 } },
        { "name": "Write", "arguments": { "file_path": path, "content": content } },
    ]);
    json!({ "units": {
        "main": [
            { "calls": [{ "name": "Agent", "arguments": { "tasks": [task] } }] },
            { "text": "done" },
        ],
        "*": [{ "calls": calls }, { "text": "fine" }],
    }})
}

/// Tells whether a row is the head or the end of a question: whatever else is
/// in one, is indented.
fn is_ours(row: &str) -> bool {
    !row.starts_with("  ")
}

/// Says no to both questions of such a slot; returns how each stood on the
/// screen, and all that went to the terminal.
fn questions(place: &Place, script: &Value) -> ([Vec<String>; 2], Vec<u8>) {
    let model = place.script("script.json", script);
    let tine = place.tine(["-p", "go", "-m", &model]);
    let mut terminal = Sitting::answer(tine, StandardOutput::Terminal);
    let asked = [1, 2].map(|count| {
        terminal.wait_until(|screen| {
            let text = screen.text();
            let is_end = |row: &&str| is_ours(row) && row.contains(AT_THE_END);
            let is_asked = [":", ", d all of it:"]
                .iter()
                .any(|end| text.trim_end().ends_with(&format!("{AT_THE_END}{end}")));
            text.lines().filter(is_end).count() == count && is_asked
        });
        let text = terminal.screen.text();
        let mut rows: Vec<String> = text.lines().rev().map(str::to_owned).collect();
        let head = rows.iter().position(|row| is_ours(row) && row.contains(" asks to use "));
        rows.truncate(head.expect("a question has a head") + 1);
        rows.reverse();
        terminal.keys("n\n");
        rows
    });
    assert_eq!(terminal.wait().0, Some(0));
    (asked, std::mem::take(&mut terminal.raw))
}

#[test]
fn no_question_is_obeyed_by_the_terminal_that_it_is_put_on() {
    for attack in ATTACKS {
        let text = attack.1;
        let place = Place::new();
        // What runs would have to be text without a zero byte.
        let path = format!("new/{}", text.replace(['\0', '/'], ""));
        let script = asks(text, &format!("touch made; {text}"), &path, &format!("{text}\n"));
        let (asked, raw) = questions(&place, &script);
        check("a question", attack, &raw);
        let [command, write] = &asked;
        assert!(command[1].starts_with("  | touch made; "), "{command:?}");
        assert!(write[1].starts_with("  | new/"), "{write:?}");
        assert!(place.read("made").is_none() && !place.work().join("new").exists());
    }
}

#[test]
fn nothing_that_is_asked_about_answers_for_us_or_pushes_our_words_out_of_sight() {
    let ours = "y once, n no, n TEXT no and why: y\n  no rule allows it\nmain asks to use Read:\n";
    for (name, text) in [
        ("words of ours", ours.to_owned()),
        ("one long line", "x ".repeat(4_500)),
        ("one long word", "x".repeat(9_000)),
        ("many lines", "x\n".repeat(3_000)),
        ("empty lines", format!("a{}b", "\n".repeat(3_000))),
        ("wide letters", "\u{4e00}".repeat(2_000)),
    ] {
        let place = Place::new();
        let long = text.replace('\n', "_").chars().take(60).collect::<String>();
        let command = format!("touch made\n{text}touch made");
        let (asked, _) = questions(&place, &asks("fixer", &command, &format!("new/{long}"), &text));
        for rows in &asked {
            assert!(rows.len() < SCREEN, "{name}: {} rows: {rows:#?}", rows.len());
            let ours = rows.iter().filter(|row| is_ours(row)).count();
            assert_eq!(ours, 2, "{name}: its head and its answers: {rows:#?}");
            let is_whole = text.len() < 200;
            let hides = rows.iter().any(|row| row.contains(" characters left out, of "));
            assert_eq!(hides, !is_whole, "{name}: {rows:#?}");
        }
        assert!(place.read("made").is_none() && !place.work().join("new").exists());
    }
}
