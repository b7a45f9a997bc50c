//! The chat without a screen, on a pseudo-terminal: lines in, lines out, and no
//! doubt about what a line is.

use serde_json::json;

use crate::support::screen::Size;
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::terminal::Sitting;
use crate::support::tine::{Place, Tine};

const SIZE: Size = Size { columns: 100, rows: 40 };

/// A chat in lines with a scripted model.
fn chat(place: &Place, server: &Server, flags: &[&str]) -> Sitting {
    let fixed = ["-m", "m", "--ax-screen-reader", "--config", "retry.most=0"];
    Sitting::start(place.tine(fixed.iter().chain(flags)).server(server), SIZE)
}

/// Returns what main is told last, without the facts of the moment.
fn told(talk: &Talk) -> String {
    let last = talk.last_prompt();
    last.split_once("</environment>\n\n").map_or(last, |(_, text)| text).trim().to_owned()
}

/// Returns what the terminal shows, without what differs from run to run.
fn text(sitting: &Sitting) -> String {
    let text = sitting.screen.text();
    let kept =
        text.lines().filter(|line| !line.starts_with("tine ") && !line.contains("comes back"));
    kept.filter(|line| !line.starts_with("session ")).collect::<Vec<_>>().join("\n")
}

/// Tells whether the chat waits for a message.
fn waits(sitting: &mut Sitting, times: usize) {
    sitting.wait_until(|screen| {
        let text = screen.text();
        let prompts = text.lines().filter(|line| line.starts_with('>')).count();
        prompts >= times && text.lines().last().is_some_and(|line| line.trim_end() == ">")
    });
}

#[track_caller]
fn leaves(sitting: &mut Sitting, code: i32) {
    let (found, _) = sitting.wait();
    assert_eq!(found, Some(code), "{}", sitting.screen.text());
    let raw = String::from_utf8_lossy(&sitting.raw);
    let moves = |c: char| c.is_control() && !matches!(c, '\r' | '\n');
    assert!(!raw.contains(moves), "{raw:?}");
    assert!(!raw.replace("\r\n", "").contains('\r'), "{raw:?}");
    assert_eq!(sitting.screen.calls(), ("", &[][..], 0));
}

fn echo() -> Server {
    serve(|talk| Reaction::text_reply(&format!("You said: {}.", told(talk))))
}

#[track_caller]
fn check_is_in_lines(change: impl FnOnce(&Place) -> Tine) {
    let (place, server) = (Place::new(), echo());
    let mut sitting = Sitting::start(change(&place).server(&server), SIZE);
    waits(&mut sitting, 1);
    sitting.keys("hello\n");
    sitting.wait_for("You said: hello.");
    waits(&mut sitting, 2);
    sitting.keys("\u{4}");
    leaves(&mut sitting, 0);
}

#[test]
fn a_chat_begins_with_the_prompt_that_it_was_started_with_and_goes_on() {
    let (place, server) = (Place::new(), echo());
    let mut sitting = chat(&place, &server, &["-i", "hello"]);
    sitting.wait_for("You said: hello.");
    waits(&mut sitting, 2);
    sitting.keys("and you\n");
    sitting.wait_for("You said: and you.");
    waits(&mut sitting, 3);
    sitting.keys("\u{4}");
    leaves(&mut sitting, 0);
    assert_eq!(server.finish().len(), 2);
}

#[test]
fn whoever_has_no_screen_or_wants_none_gets_lines() {
    check_is_in_lines(|place| place.tine(["-m", "m"]).env("TERM", "dumb"));
    check_is_in_lines(|place| place.tine(["-m", "m", "--ax-screen-reader"]));
    check_is_in_lines(|place| place.tine(["-m", "m", "--debug=off"]));
    check_is_in_lines(|place| {
        place.configure("[chat]\nscreen_reader = true\n");
        place.tine(["-m", "m"])
    });
}

#[test]
fn where_nobody_sits_there_is_no_chat() {
    let place = Place::new();
    let tine = place.tine(["--ax-screen-reader", "-m", "offline"]).env("CI", "true");
    let mut sitting = Sitting::start(tine, SIZE);
    assert_eq!(sitting.wait().0, Some(2));
    assert!(sitting.screen.text().starts_with("error: there is no prompt\n"));
}

#[test]
fn a_command_of_a_directory_is_typed_with_its_name_or_by_its_own() {
    let (place, server) = (Place::new(), echo());
    place.write(".claude/commands/ops/deploy.md", "Deploy $1.\n");
    let mut sitting = chat(&place, &server, &[]);
    waits(&mut sitting, 1);
    sitting.keys("/ops:deploy web\n");
    sitting.wait_for("You said: Deploy web..");
    waits(&mut sitting, 2);
    sitting.keys("/deploy shop\n");
    sitting.wait_for("You said: Deploy shop..");
    waits(&mut sitting, 3);
    sitting.keys("\u{4}");
    leaves(&mut sitting, 0);
}

#[test]
fn a_conversation_reads_from_top_to_bottom() {
    let (place, server) = (Place::new(), echo());
    let mut sitting = chat(&place, &server, &[]);
    waits(&mut sitting, 1);
    sitting.keys("one \\\n");
    waits(&mut sitting, 2);
    sitting.keys("two\n");
    waits(&mut sitting, 3);
    sitting.keys("/nothing\n");
    waits(&mut sitting, 4);
    sitting.keys("!echo $((6 * 7)); exit 3\n");
    waits(&mut sitting, 5);
    sitting.keys("\u{4}");
    leaves(&mut sitting, 0);
    insta::assert_snapshot!(text(&sitting), @r#"
    > one \
    > two
    You said: one
    two.
    > /nothing
    there is no /nothing; /help lists commands, /skills skills
    > !echo $((6 * 7)); exit 3
    42
    it ended with exit status: 3
    >
    "#);
    assert_eq!(server.finish().len(), 1, "what the shell did is no part of it");
}

#[test]
fn a_line_while_main_works_joins_at_the_next_boundary() {
    let (place, gate) = (Place::new(), Gate::closed());
    let held = gate.clone();
    let server = serve(move |talk| match talk.turn() {
        1 => Reaction::text_reply("First.").behind(&held),
        _ => Reaction::text_reply("Second."),
    });
    let mut sitting = chat(&place, &server, &[]);
    waits(&mut sitting, 1);
    sitting.keys("look\n");
    server.wait_until_came(1);
    sitting.keys("and there\n");
    sitting.wait_for("that waits until the model can read it");
    gate.open();
    sitting.wait_for("Second.");
    waits(&mut sitting, 2);
    sitting.keys("\u{4}");
    leaves(&mut sitting, 0);
    let text = text(&sitting);
    assert!(text.contains("\nFirst.\nSecond.\n"), "{text}");
    let requests = server.finish();
    assert!(Talk::of(&requests[1]).last_prompt().contains("and there"));
}

#[test]
fn a_question_takes_answers_only_and_what_is_none_goes_nowhere() {
    let place = Place::new();
    let server = serve(|talk| match (&*told(talk), talk.turn()) {
        ("write", 1) => {
            let new = json!({ "file_path": "new.txt", "content": "new\n" });
            Reaction::call_reply(&[("Write", new)])
        }
        _ => Reaction::text_reply("Done."),
    });
    let mut sitting = chat(&place, &server, &[]);
    waits(&mut sitting, 1);
    sitting.keys("write\n");
    sitting.wait_for("main asks to use Write");
    sitting.keys("what is it?\n");
    sitting.wait_for("that is no answer; type");
    sitting.keys("d\n");
    sitting.wait_for("n TEXT no and why");
    sitting.keys("y\n");
    waits(&mut sitting, 2);
    sitting.keys("y\n");
    waits(&mut sitting, 3);
    sitting.keys("\u{4}");
    leaves(&mut sitting, 0);
    assert_eq!(place.read("new.txt").as_deref(), Some("new\n"));
    let requests = server.finish();
    let prompts: Vec<String> = requests.iter().map(|request| told(&Talk::of(request))).collect();
    assert_eq!(prompts, ["write", "write", "y"], "the last one was a message");
}

#[test]
fn an_interrupt_ends_the_turn_and_two_end_all() {
    let place = Place::new();
    let server = serve(|talk| match &*told(talk) {
        "wait" => Reaction::Hang,
        said => Reaction::text_reply(&format!("You said: {said}.")),
    });
    let mut sitting = chat(&place, &server, &[]);
    waits(&mut sitting, 1);
    sitting.keys("wait\n");
    server.wait_until_came(1);
    sitting.keys("unsent\n");
    sitting.wait_for("that waits until");
    sitting.keys("\u{3}");
    sitting.wait_for("not sent: unsent");
    sitting.wait_for("error: interrupted");
    waits(&mut sitting, 2);
    sitting.keys("go on\n");
    sitting.wait_for("You said: go on.");
    waits(&mut sitting, 3);
    sitting.keys("wait\n");
    server.wait_until_came(3);
    let again = "Ctrl-C again ends everything and leaves";
    sitting.keys("\u{3}");
    // The first one was another one: a line was typed since.
    sitting.wait_until(|screen| screen.text().matches(again).count() == 2);
    sitting.keys("\u{3}");
    leaves(&mut sitting, 130);
}

#[test]
fn a_list_has_numbers_and_a_number_chooses() {
    let (place, server) = (Place::new(), echo());
    let url = server.base_url();
    let model = |name: &str| format!("[models.{name}]\nbase_url = \"{url}\"\nmodel = \"{name}\"\n");
    place.configure(&(model("fast") + &model("slow")));
    let mut sitting = Sitting::start(place.tine(["-m", "slow", "--ax-screen-reader"]), SIZE);
    waits(&mut sitting, 1);
    sitting.keys("/model\n");
    sitting.wait_for("or Enter for none:");
    sitting.keys("fast\n");
    sitting.wait_for("that is no answer; type 1 to ");
    let list = sitting.screen.text();
    let fast = list.lines().find(|line| line.contains(". fast ")).expect("it is listed");
    let number = fast.split('.').next().expect("it has a number").to_owned();
    sitting.keys(&format!("{number}\n"));
    sitting.wait_for("from the next message on: fast");
    waits(&mut sitting, 2);
    sitting.keys("hello\n");
    sitting.wait_for("You said: hello.");
    waits(&mut sitting, 3);
    sitting.keys("\u{4}");
    leaves(&mut sitting, 0);
    let requests = server.finish();
    assert_eq!(
        requests.iter().map(|one| Talk::of(one).model().to_owned()).collect::<Vec<_>>(),
        ["fast"]
    );
}

#[test]
fn news_of_an_agent_in_the_background_are_told_at_once_when_main_rests() {
    let (place, gate) = (Place::new(), Gate::closed());
    let held = gate.clone();
    let server = serve(move |talk| {
        let task = json!({ "description": "north", "prompt": "look north",
            "subagent_type": "explore", "run_in_background": true });
        match (talk.task(), talk.turn()) {
            ("look north", _) => Reaction::text_reply("Nothing there.").behind(&held),
            (_, 1) => Reaction::call_reply(&[("Agent", task)]),
            (_, 2) => Reaction::text_reply("It is on its way."),
            _ => Reaction::text_reply("It found nothing."),
        }
    });
    let mut sitting = chat(&place, &server, &[]);
    waits(&mut sitting, 1);
    sitting.keys("look\n");
    sitting.wait_for("It is on its way.");
    waits(&mut sitting, 2);
    sitting.keys("\u{4}");
    sitting.wait_for("1 agent in the background: Ctrl-D again ends it and leaves");
    gate.open();
    sitting.wait_for("It found nothing.");
    waits(&mut sitting, 4);
    sitting.keys("\u{4}");
    leaves(&mut sitting, 0);
    let text = text(&sitting);
    assert!(text.contains("\nthe conversation goes on with news of agents\n"), "{text}");
}

#[test]
fn a_terminal_that_takes_no_lines_is_a_window_that_is_closed() {
    let (place, server) = (Place::new(), echo());
    let tine = place.tine(["-m", "m", "--ax-screen-reader"]).server(&server);
    let mut sitting = Sitting::apart(tine, SIZE);
    waits(&mut sitting, 1);
    // Nothing is written any more that would show it.
    assert_eq!(sitting.wait_unread(), Some(129), "{}", sitting.screen.text());
}
