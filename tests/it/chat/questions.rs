//! Questions: one at a time, over whatever goes on, and never in the way of
//! what is being typed.

use serde_json::json;

use super::{MIDDLE, at_every_size, batch, footer, open_gate, rests, rows_with};
use crate::support::screen::{Screen, Size};
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::serve;

/// Two agents that write a file each, the second once its gate is open, and one
/// that only works until the last gate opens.
fn writers(gates: [Gate; 2]) -> Server {
    let calling = Reaction::call_reply(&batch(&["fixer", "writer", "looker"]));
    let write = |path: &str, content: &str| {
        Reaction::call_reply(&[("Write", json!({ "file_path": path, "content": content }))])
    };
    serve(move |talk| match (talk.task(), talk.turn()) {
        ("go", 1) => calling.clone(),
        ("go", _) => Reaction::text_reply("All is done."),
        ("fixer", 1) => write("src/price.rs", "pub fn price() -> u32 {\n    7\n}\n"),
        ("writer", 1) => write("notes.md", "# Notes\n").behind(&gates[0]),
        ("looker", _) => Reaction::in_steps([("I ", &open_gate()), ("see.", &gates[1])]),
        (_, _) => Reaction::text_reply("Fine."),
    })
}

/// Tells whether the first question takes keys and the others work.
fn asks_alone(screen: &Screen, size: Size) -> bool {
    let works = size.rows < MIDDLE.rows || rows_with(screen, "writing") == 1;
    let sums = rows_with(screen, "3 agents: 2 running, 1 asks") == 1;
    rows_with(screen, "y once") == 1 && works && sums
}

#[test]
fn questions_come_one_after_another_over_a_batch_that_goes_on() {
    at_every_size("questions", |scene| {
        let gates = [Gate::closed(), Gate::closed()];
        let server = writers(gates.clone());
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("go\r");
        sitting.wait_until(|screen| asks_alone(screen, scene.size));
        scene.picture("the first question", &sitting);
        gates[0].open();
        sitting.wait_until(|screen| {
            rows_with(screen, "(1 behind") + rows_with(screen, "(1 question behind") == 1
        });
        scene.picture("another one behind it", &sitting);
        sitting.keys("y");
        sitting.wait_until(|screen| {
            let has_keys = rows_with(screen, "y once") == 1 && rows_with(screen, "1 done") == 1;
            rows_with(screen, "writer asks") == 1 && has_keys
        });
        scene.picture("the second question", &sitting);
        sitting.keys("m");
        sitting.wait_for("no, because:");
        sitting.keys("notes are kept elsewhere");
        sitting.wait_for("elsewhere");
        scene.picture("a no with words", &sitting);
        sitting.keys("\r");
        sitting.wait_until(|screen| rows_with(screen, "asks to use") == 0);
        gates[1].open();
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "All is done.") == 1);
        scene.picture("all have ended", &sitting);
        assert!(scene.place.read("src/price.rs").is_some());
        assert_eq!(scene.place.read("notes.md"), None);
        let requests = server.finish();
        let said = "denied: the user said no: notes are kept elsewhere";
        assert!(requests.iter().any(|sent| String::from_utf8_lossy(&sent.body).contains(said)));
    });
}

#[test]
fn a_question_takes_no_key_from_whoever_types() {
    at_every_size("question-typing", |scene| {
        let gates = [Gate::closed(), Gate::closed()];
        let held = gates.clone();
        let calling = Reaction::call_reply(&batch(&["writer"]));
        let write = json!({ "file_path": "notes.md", "content": "# Notes\n" });
        let server = serve(move |talk| match (talk.task(), talk.turn()) {
            ("go", 1) => calling.clone(),
            ("go", _) => Reaction::text_reply("All is done.").behind(&held[1]),
            ("writer", 1) => Reaction::call_reply(&[("Write", write.clone())]).behind(&held[0]),
            _ => Reaction::text_reply("Fine."),
        });
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("go\r");
        sitting.wait_until(|screen| rows_with(screen, "writer") == 1);
        sitting.keys("yes, but y");
        sitting.wait_for("> yes, but y");
        gates[0].open();
        sitting.wait_for("Tab answers it");
        scene.picture("a question while somebody types", &sitting);
        sitting.keys("n");
        sitting.wait_for("> yes, but yn");
        sitting.keys("\t");
        sitting.wait_for("y once");
        scene.picture("it has the keys", &sitting);
        sitting.keys("y");
        sitting.wait_until(|screen| rows_with(screen, "asks to use") == 0);
        gates[1].open();
        sitting.wait_until(|screen| {
            rows_with(screen, "All is done.") == 1 && footer(screen).contains("/help")
        });
        scene.picture("the draft is still there", &sitting);
        assert_eq!(scene.place.read("notes.md").as_deref(), Some("# Notes\n"));
    });
}

#[test]
fn a_question_goes_with_the_agent_that_asked() {
    at_every_size("question-withdrawn", |scene| {
        let gates = [Gate::closed(), Gate::closed()];
        let server = writers(gates);
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("go\r");
        sitting.wait_until(|screen| asks_alone(screen, scene.size));
        sitting.keys("1");
        sitting.wait_until(|screen| footer(screen).contains("x stops it"));
        scene.picture("its agent is picked", &sitting);
        sitting.keys("x");
        sitting.wait_until(|screen| {
            rows_with(screen, "asks to use") == 0 && rows_with(screen, "cancelled") > 0
        });
        scene.picture("it was withdrawn", &sitting);
        assert_eq!(scene.place.read("src/price.rs"), None);
    });
}

#[test]
fn all_of_a_long_question_is_shown_on_demand() {
    at_every_size("question-whole", |scene| {
        let lines: Vec<String> = (1..=30).map(|number| format!("line {number}")).collect();
        let write = json!({ "file_path": "long.txt", "content": lines.join("\n") });
        let server = serve(move |talk| match talk.turn() {
            1 => Reaction::call_reply(&[("Write", write.clone())]),
            _ => Reaction::text_reply("Then not."),
        });
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("go\r");
        sitting.wait_for("y once");
        scene.picture("a long file", &sitting);
        sitting.keys("d");
        sitting.wait_until(|screen| screen.text().contains("line 17"));
        scene.picture("all of it", &sitting);
        sitting.keys("n");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "Then not.") == 1);
        assert_eq!(scene.place.read("long.txt"), None);
    });
}

#[test]
fn a_model_asks_and_digits_ticks_and_words_answer_it() {
    at_every_size("form", |scene| {
        let option = |label: &str, about: &str| json!({ "label": label, "description": about });
        let question = |text: &str, several: bool| {
            json!({ "question": text, "header": "h", "multiSelect": several, "options": [
                option("Postgres", "it runs already, and the tests know it"),
                option("SQLite", "a file, no server"),
            ] })
        };
        let questions = [
            question("Which database should hold the sessions?", false),
            question("Which ones should the tests run against?", true),
            question("And what of the old files?", false),
        ];
        let asks = Reaction::call_reply(&[("AskUserQuestion", json!({ "questions": questions }))]);
        let server = serve(move |talk| match talk.turn() {
            1 => asks.clone(),
            _ => Reaction::text_reply("So be it."),
        });
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("go\r");
        sitting.wait_for("1-2 picks");
        scene.picture("the first question", &sitting);
        sitting.keys("2");
        sitting.wait_for("1-2 ticks");
        sitting.keys("12");
        sitting.wait_until(|screen| rows_with(screen, "[x]") == 2);
        scene.picture("two are ticked", &sitting);
        sitting.keys("1\r");
        sitting.wait_for("(3 of 3)");
        sitting.wait_for("1-2 picks");
        sitting.keys("m");
        sitting.wait_for("answer:");
        sitting.keys("keep them");
        sitting.wait_for("keep them");
        scene.picture("an answer in own words", &sitting);
        sitting.keys("\r");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "So be it.") == 1);
        scene.picture("it has its answers", &sitting);
        let requests = server.finish();
        let said = "sessions?\\n> SQLite\\n\\nWhich ones should the tests run against?\\n> SQLite\\n\\nAnd \
                    what of the old files?\\n> keep them";
        let body = String::from_utf8_lossy(&requests[1].body).into_owned();
        assert!(body.contains(said), "{body}");
    });
}
