//! Text that a terminal obeys, hides or turns round, in every place where a
//! chat shows text.
//!
//! The screen of the tests panics at each sequence that a chat has no use for;
//! here what it has a use for is looked at, too, and what is hidden.

use serde_json::{Value, json};

use super::payloads::ATTACKS;
use super::terminal::{is_our_own, obeyed};
use crate::support::screen::{Screen, Size};
use crate::support::server::{Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::terminal::Sitting;
use crate::support::throwaway::for_each;
use crate::support::tine::Place;

const SIZE: Size = Size { columns: 100, rows: 40 };

const ESC: &str = "\u{1b}";

/// Markdown that has the text in every kind of block.
fn markdown(text: &str) -> String {
    format!(
        "# Head {text}\n\n| {text} | b |\n|---|---|\n| cell {text} | 1 |\n\n- item {text}\n\n\
         [link {text}](https://example.com/{text})\n\n> {text}\n\n<b>{text}</b>\n\n\
         ```{text}\ncode {text}\n```\n\n    {text}\n\nIt ends with {text}\n"
    )
}

/// A model whose first answer says the text, and calls tools with it, in every
/// way there is; its second one ends the turn.
fn says_everywhere(text: &str, name: &str) -> Server {
    let path = format!("new {name}");
    let task = |description: &str| json!({ "description": description, "prompt": "slot", "subagent_type": "explore" });
    let calls: Vec<(String, Value)> = vec![
        (format!("No{text}Such"), json!({ "a": text })),
        ("Read".to_owned(), json!({ "file_path": text })),
        ("Read".to_owned(), json!({ "file_path": "hostile.txt" })),
        ("Glob".to_owned(), json!({ "pattern": "*" })),
        ("Grep".to_owned(), json!({ "pattern": text, "output_mode": "content" })),
        ("Write".to_owned(), json!({ "file_path": path, "content": format!("{text}\n{text}") })),
        (
            "Bash".to_owned(),
            json!({ "command": format!("touch made; {text}"), "description": text }),
        ),
        ("Agent".to_owned(), json!({ "tasks": [task(text), task("fails")] })),
        ("Agent".to_owned(), json!({ "description": text, "prompt": "x", "subagent_type": text })),
        ("Skill".to_owned(), json!({ "skill": text })),
    ];
    let text = text.to_owned();
    serve(move |talk| react(talk, &text, &calls))
}

fn react(talk: &Talk, text: &str, calls: &[(String, Value)]) -> Reaction {
    let prompt = talk.last_prompt();
    let error = json!({ "error": { "message": format!("no: {text}") } });
    if talk.task() == "slot" {
        return match talk.turn() {
            1 => {
                let call = ("Read", json!({ "file_path": text }));
                Reaction::reply(Some(&markdown(text)), &[call])
            }
            _ => Reaction::json(400, &error),
        };
    }
    if prompt.ends_with("fail") {
        return Reaction::json(400, &error);
    }
    match talk.turn() {
        1 => {
            let calls: Vec<(&str, Value)> =
                calls.iter().map(|(name, arguments)| (&**name, arguments.clone())).collect();
            Reaction::reply(Some(&markdown(text)), &calls)
        }
        _ => Reaction::text_reply(&format!("The end: {}", markdown(text))),
    }
}

/// Returns the last row that is not empty.
fn footer(screen: &Screen) -> String {
    screen.shown().into_iter().rfind(|row| !row.is_empty()).unwrap_or_default()
}

fn rests(screen: &Screen) -> bool {
    footer(screen).ends_with("  /help")
}

/// Returns what stays: all but the line and the footer.
fn above_line(screen: &Screen) -> String {
    let text = screen.text();
    text.rsplitn(3, '\n').last().unwrap_or_default().trim_end().to_owned()
}

/// Returns how many turns were answered or refused.
fn ends(screen: &Screen) -> usize {
    ["The end: ", "error: "].iter().map(|end| screen.text().matches(end).count()).sum()
}

/// Tells whether all of a paste stands in the line, which begins like this.
fn line_is(screen: &Screen, beginning: &str) -> bool {
    let rows = screen.shown();
    let begins = rows.iter().rposition(|row| row.starts_with(beginning));
    begins.is_some_and(|first| rows[first..].iter().any(|row| row.ends_with('.')))
}

fn shows(screen: &Screen, text: &str) -> bool {
    screen.shown().iter().any(|row| row.contains(text))
}

/// Says no to each question, the first time after all of it was shown, until
/// the turn is over.
fn go_through_questions(sitting: &mut Sitting) -> usize {
    let mut asked = 0;
    loop {
        sitting.wait_until(|screen| shows(screen, "y once") || rests(screen));
        if rests(&sitting.screen) {
            return asked;
        }
        sitting.keys("d\r");
        sitting.keys("n\r");
        sitting.wait_until(|screen| !shows(screen, "y once"));
        asked += 1;
    }
}

/// Opens a list, and closes it.
fn look_at(sitting: &mut Sitting, keys: &str, title: &str) {
    sitting.keys(keys);
    sitting.wait_until(|screen| shows(screen, title));
    sitting.keys(ESC);
    sitting.wait_until(rests);
}

/// Has a chat show the text wherever it can; returns all that was written.
fn show_everywhere(text: &str) -> Vec<u8> {
    let place = Place::new();
    let name: String = text.chars().filter(|c| !matches!(c, '/' | '\0')).collect();
    // The window's title names the directory.
    let work = place.work().join(format!("in {name}"));
    std::fs::create_dir(&work).expect("any name will do");
    // What holds a control character is not completed.
    let typable: String = name.chars().filter(|c| !c.is_control()).collect();
    for (name, bytes) in [("hostile.txt", text), (&*format!("at{typable}"), "")] {
        std::fs::write(work.join(name), bytes).expect("any name will do");
    }
    let about = text.replace(['\n', '\r', '\0'], " ");
    place.write(
        "../home/.config/tine/skills/hostile/SKILL.md",
        format!("---\ndescription: It {about}\n---\nx"),
    );
    let server = says_everywhere(text, &name);
    let flags = ["-m", "m", "--config", "retry.most=0", "--permission-mode", "acceptEdits"];
    // Another session of the same directory, with a name.
    let prompt = format!("fail {}fail", text.replace('\0', ""));
    let once = place.tine(["-p", &prompt, "-m", "m", "--config", "retry.most=0"]).at(&work);
    once.server(&server).run();
    let mut sitting = Sitting::start(place.tine(flags).at(&work).server(&server), SIZE);
    sitting.wait_until(rests);

    // At the end some of them would break the line.
    sitting.paste(&format!("go {text}."));
    sitting.wait_until(|screen| line_is(screen, "> go"));
    sitting.keys("\r");
    sitting.wait_until(|screen| !rests(screen));
    assert_eq!(go_through_questions(&mut sitting), 1, "the command is asked about");
    // Outputs of all the calls.
    for _ in 0..10 {
        sitting.keys("\u{f}");
    }
    look_at(&mut sitting, "/rewind\r", "go back to before");
    look_at(&mut sitting, "/resume\r", "--- resume");
    look_at(&mut sitting, "\u{12}", "--- history");
    for command in ["/skills", "/agents", "/usage", "/context", "/permissions", "/diff"] {
        let before = above_line(&sitting.screen);
        sitting.keys(&format!("{command}\r"));
        sitting.wait_until(|screen| rests(screen) && above_line(screen) != before);
    }
    sitting.keys("/tasks\r");
    sitting.wait_until(|screen| shows(screen, "--- agents"));
    sitting.keys("\r");
    sitting.wait_until(|screen| footer(screen).contains("Up/Down scroll"));
    sitting.keys("\u{f}");
    sitting.keys(ESC);
    sitting.wait_until(rests);
    sitting.keys("look at @at");
    sitting.wait_until(|screen| shows(screen, "  @at"));
    sitting.keys("\u{15}\u{15}/no");
    sitting.paste(&format!("{text}."));
    sitting.wait_until(|screen| line_is(screen, "> /no"));
    // Refused, unless it looks like a path.
    let before = ends(&sitting.screen);
    sitting.keys("\r");
    sitting.wait_until(|screen| {
        rests(screen) && ends(screen) > before || footer(screen).contains("there is no /")
    });
    let before = ends(&sitting.screen);
    sitting.keys("\u{15}\u{15}\u{15}fail\r");
    sitting.wait_until(|screen| rests(screen) && ends(screen) > before);
    sitting.keys("\u{4}");
    assert_eq!(sitting.wait().0, Some(0));
    std::mem::take(&mut sitting.raw)
}

/// Tells whether a chat uses a sequence: besides what every display of ours
/// does, it has frames, marks pastes, breaks no rows and names the window.
fn is_the_chats(sequence: &str) -> bool {
    let is_mode =
        |mode: &&str| ["h", "l"].iter().any(|end| sequence == format!("ESC [?{mode}{end}"));
    is_our_own(sequence)
        || ["7", "2004", "2026"].iter().any(is_mode)
        || (sequence.starts_with("ESC ]2;") && sequence.ends_with('\u{7}'))
}

#[test]
fn no_place_of_a_chat_lets_a_terminal_obey() {
    let wrong = for_each(&ATTACKS, |(does, text)| {
        let raw = show_everywhere(text);
        // Pastes are marked no more once the terminal is given back.
        let own = usize::from(*text == "\u{1b}[?2004l");
        let found = raw.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
        let is_there = found > own;
        let wrong: Vec<_> = obeyed(&raw).into_iter().filter(|found| !is_the_chats(found)).collect();
        match is_there || !wrong.is_empty() {
            true => Err(format!("a chat {does}: {wrong:?}")),
            false => Ok(()),
        }
    });
    assert_eq!(wrong, [""; 0]);
}
