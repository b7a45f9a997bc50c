//! Sessions: resumed, cleared, asked of another model, and taken back.

use serde_json::json;

use super::{
    CTRL_D, CTRL_L, DOWN, MIDDLE, at_every_size, at_usual_size, chat_of, footer, rests, rows_with,
    sit,
};
use crate::support::server::{Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::terminal::Sitting;
use crate::support::tine::{KEY, Place};

/// A model that counts its turns.
fn counts() -> Server {
    serve(|talk| Reaction::text_reply(&format!("This is turn {}.", talk.turn())))
}

/// Sends a message and waits for the answer with this text.
fn ask(sitting: &mut Sitting, text: &str, answer: &str) {
    sitting.keys(&format!("{text}\r"));
    sitting.wait_until(|screen| rests(screen) && screen.text().contains(answer));
}

#[test]
fn a_session_that_was_left_is_resumed_where_it_was() {
    at_every_size("resume", |scene| {
        let server = counts();
        let mut sitting = scene.chat(&server, &[]);
        ask(&mut sitting, "what is this?", "turn 1.");
        sitting.keys(CTRL_D);
        assert_eq!(sitting.wait().0, Some(0));
        scene.picture("it was left", &sitting);
        let mut sitting = scene.chat(&server, &["-c"]);
        scene.picture("it was resumed", &sitting);
        ask(&mut sitting, "and then?", "turn 2.");
        let requests = server.finish();
        let goes_on = tine::model::check::check_continues(&requests[0].body, &requests[1].body);
        goes_on.expect("it goes on from the same bytes");
    });
}

#[test]
fn files_that_were_written_go_back() {
    at_every_size("undo", |scene| {
        scene.place.write("old.txt", "old\n");
        let write = |path: &str| ("Write", json!({ "file_path": path, "content": "new\n" }));
        let calls = [("Read", json!({ "file_path": "old.txt" }))];
        let writes = [write("new.txt"), write("old.txt")];
        let server = serve(move |talk| match talk.turn() {
            1 => Reaction::call_reply(&calls),
            2 => Reaction::call_reply(&writes),
            turn => Reaction::text_reply(&format!("Turn {turn}.")),
        });
        let mut sitting = scene.chat(&server, &["--permission-mode", "acceptEdits"]);
        ask(&mut sitting, "write", "Turn 3.");
        sitting.keys("/undo\r");
        sitting.wait_for("shall they go back?");
        scene.picture("what would go back", &sitting);
        assert_eq!(scene.place.read("new.txt").as_deref(), Some("new\n"));
        sitting.keys("\r");
        sitting.wait_until(|screen| {
            rests(screen)
                && rows_with(screen, "> /undo") == 1
                && rows_with(screen, "files put back") == 1
        });
        assert_eq!(scene.place.read("new.txt"), None);
        assert_eq!(scene.place.read("old.txt").as_deref(), Some("old\n"));
        ask(&mut sitting, "go on", "Turn 4.");
        scene.picture("they went back, and work goes on", &sitting);
    });
}

#[test]
fn a_conversation_goes_back_before_a_turn() {
    at_every_size("rewind", |scene| {
        let server = counts();
        let mut sitting = scene.chat(&server, &[]);
        ask(&mut sitting, "apples", "turn 1.");
        ask(&mut sitting, "bananas", "turn 2.");
        sitting.keys("/rewind\r");
        sitting.wait_for("go back to before");
        sitting.keys("ban");
        sitting.wait_for("go back to before  ban");
        sitting.keys("\r");
        sitting.wait_for("what goes back?");
        scene.picture("what of it", &sitting);
        sitting.keys(&[DOWN, "\r"].concat());
        sitting.wait_until(|screen| {
            screen.text().contains("the conversation is as")
                && screen.text().lines().rev().nth(1) == Some("> bananas")
        });
        scene.picture("it went back, and what was typed is in the line", &sitting);
        sitting.keys("\u{15}cherries\r");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "turn 2.") == 2);
        scene.picture("it goes on from there", &sitting);
        let requests = server.finish();
        let body = String::from_utf8_lossy(&requests[2].body).into_owned();
        assert!(body.contains("cherries") && !body.contains("bananas"), "{body}");
    });
}

#[test]
fn a_new_session_begins_on_the_same_screen() {
    at_every_size("clear", |scene| {
        let server = counts();
        let mut sitting = scene.chat(&server, &[]);
        ask(&mut sitting, "one", "turn 1.");
        sitting.keys("/clear\r");
        sitting
            .wait_until(|screen| rests(screen) && screen.text().matches("lists keys").count() == 2);
        sitting.keys("two\r");
        sitting.wait_until(|screen| rests(screen) && screen.text().matches("turn 1.").count() == 2);
        scene.picture("another session", &sitting);
        assert_eq!(scene.place.sessions().len(), 2);
    });
}

#[test]
fn another_model_answers_from_the_next_message_on() {
    at_every_size("model", |scene| {
        scene.place.configure(
            "[models.small]\nmodel = \"tiny\"\nbase_url = \"http://127.0.0.1:1\"\n\
             [models.big]\nmodel = \"huge\"\nbase_url = \"http://127.0.0.1:1\"\n",
        );
        let server = serve(|talk| Reaction::text_reply(&format!("I am {}.", talk.model())));
        let mut sitting = scene.chat(&server, &[]);
        ask(&mut sitting, "who is it?", "I am m.");
        sitting.keys("/model n\r");
        sitting.wait_for("from the next message on");
        ask(&mut sitting, "and now?", "I am n.");
        sitting.keys("/model\r");
        sitting.wait_for("--- model");
        scene.picture("the models", &sitting);
    });
}

#[test]
fn a_newcomer_chooses_a_model_and_then_the_chat_begins() {
    at_usual_size("newcomer", |scene| {
        let list = json!({ "data": [{ "id": "small" }, { "id": "big" }] });
        // So many that servers found on this machine are not in the picture.
        let lines: String = (1..=16).map(|number| format!("- line {number}\n")).collect();
        let server = Server::start(move |request| match &*request.path {
            "/v1/models" => Reaction::json(200, &list),
            _ => Reaction::text_reply(&match Talk::of(request) {
                talk if talk.last_prompt().ends_with("hi") => lines.clone(),
                talk => format!("Hello from {}.", talk.model()),
            }),
        });
        let home = scene.place.root();
        let tine = scene.place.tine([""; 0]).env("HOME", &home.to_string_lossy());
        let tine = tine.env("OPENAI_BASE_URL", &server.base_url()).env("OPENAI_API_KEY", KEY);
        let mut sitting = Sitting::start(tine, MIDDLE);
        sitting.wait_for("which one");
        sitting.keys("openai\r");
        sitting.wait_for("which model");
        sitting.keys("2\r");
        sitting.wait_until(|screen| footer(screen).ends_with("/help"));
        let text = sitting.screen.text();
        for said in ["openai      OPENAI_API_KEY is set", "it answers: Hello from big."] {
            assert!(text.contains(said), "{text}");
        }
        sitting.keys(CTRL_L);
        sitting.wait_until(|screen| rows_with(screen, "which model") == 0);
        ask(&mut sitting, "hi", "line 16");
        scene.picture("the chat goes on", &sitting);
        let written = std::fs::read_to_string(scene.place.home().join(".config/tine/config.toml"));
        assert_eq!(written.unwrap(), "model = \"openai:big\"\n");
    });
}

#[test]
fn another_session_is_chosen_from_a_list() {
    at_usual_size("resume-list", |scene| {
        let server = counts();
        let mut sitting = scene.chat(&server, &[]);
        ask(&mut sitting, "the first one", "turn 1.");
        sitting.keys(CTRL_D);
        assert_eq!(sitting.wait().0, Some(0));
        let mut sitting = scene.chat(&server, &[]);
        sitting.keys("/resume\r");
        sitting.wait_for("--- resume");
        scene.picture("the others", &sitting);
        sitting.keys("\r");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "> the first one") == 1);
        ask(&mut sitting, "go on", "turn 2.");
        scene.picture("it goes on", &sitting);
        assert_eq!(scene.place.sessions().len(), 1, "one in which nothing was said goes");
    });
}

#[test]
fn a_place_of_ones_own_is_named_from_home() {
    let (place, server) = (Place::new(), counts());
    let tine = chat_of(&place, &server, &[]).env("HOME", &place.work().to_string_lossy());
    let sitting = sit(tine, MIDDLE);
    assert!(sitting.screen.text().lines().next().unwrap().ends_with("  ~"));
}
