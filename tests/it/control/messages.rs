//! Messages that are not answered, and what goes along with messages.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;
use std::sync::mpsc;

use base64::Engine as _;
use serde_json::{Value, json};

use super::{Client, FLAGS, Killed, client_of, last, writes};
use crate::support::server::{Reaction, Server};
use crate::support::tine::{HANG_LIMIT, Place};

fn named(uuid: &str, content: Value) -> Value {
    json!({"type": "user", "uuid": uuid, "message": {"role": "user", "content": content}})
}

/// A message that is not to be answered.
fn note(content: Value) -> Value {
    json!({"type": "user", "shouldQuery": false, "message": {"content": content}})
}

fn picture() -> Value {
    let bytes = include_bytes!("../../fixtures/pictures/colour.png");
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    let source = json!({"type": "base64", "media_type": "image/png", "data": data});
    json!({"type": "image", "source": source})
}

#[test]
fn a_result_that_no_run_has_names_its_message_too() {
    let mut client = Client::new(&json!({"units": {"main": [{"text": "fine"}]}}));
    let cases = [
        (json!([{"type": "image"}]), true),
        (json!(" "), true),
        (json!("/undo"), true),
        (json!("/nonsense"), true),
        (json!([picture()]), true),
        (json!("/usage"), false),
        (json!("go"), false),
    ];
    for (number, (content, is_error)) in cases.into_iter().enumerate() {
        let uuid = format!("u-{number}");
        client.say(&named(&uuid, content.clone()));
        let result = client.result();
        assert_eq!(result["user_message_uuid"], uuid, "{content}: {result}");
        assert_eq!(result["is_error"], is_error, "{content}: {result}");
    }
    client.ask("/nonsense");
    assert_eq!(client.result().get("user_message_uuid"), None);
    client.ends(42);
}

#[test]
fn whoever_sends_a_line_that_is_too_long_learns_of_it() {
    let mut client = Client::new(&json!({"units": {"main": [{"text": "fine"}]}}));
    let long = "x".repeat(25 * 1024 * 1024);
    let message = json!({"message": {"content": long}, "type": "user", "uuid": "u-1"});
    client.say(&message);
    let result = client.result();
    assert_eq!((&result["is_error"], &result["user_message_uuid"]), (&json!(true), &json!("u-1")));
    assert!(result["errors"][0].as_str().unwrap().contains("longer than"), "{}", result["errors"]);
    let reply = client.request(&json!({"subtype": "rename_session", "title": long}));
    assert_eq!(reply["subtype"], "error", "{reply}");
    client.ask("go");
    assert_eq!(client.result()["result"], "fine");
    client.ends(0);
}

#[test]
fn an_answer_that_is_too_long_is_a_no() {
    let mut client = Client::new(&writes(&["a.txt"]));
    client.ask("go");
    let question = client.is_asked();
    let input = json!({"file_path": "a.txt", "content": "x".repeat(25 * 1024 * 1024)});
    client.answer(&question, &json!({"behavior": "allow", "updatedInput": input}));
    let result = client.result();
    assert_eq!(result["permission_denials"][0]["tool_name"], "Write", "{result}");
    assert_eq!(client.ends(0).read("a.txt"), None);
}

#[test]
fn a_message_is_asked_with_what_held_when_its_turn_came() {
    let server = Server::start(|_| Reaction::text_reply("fine"));
    let mut client = client_of(&server, "first", &[]);
    let request = |request: Value| json!({"type": "control_request", "request_id": "r-1", "request": request});
    let message = json!({"type": "user", "message": {"content": "go"}});
    let model = request(json!({"subtype": "set_model", "model": "second"}));
    // In one piece, so that nothing comes between them.
    client.running.say(&format!("{message}\n{model}"));
    client.result();
    client.ask("and on");
    client.result();
    client.ends(0);
    let asked: Vec<_> =
        server.finish().iter().map(|request| request.json()["model"].clone()).collect();
    assert_eq!(asked, ["first", "second"]);
    let mut client = Client::new(&writes(&["a.txt"]));
    let settings = json!({"permissions": {"allow": ["Write"]}});
    let settings = request(json!({"subtype": "apply_flag_settings", "settings": settings}));
    client.running.say(&format!("{message}\n{settings}"));
    let question = client
        .running
        .read_until(|record| record["type"] == "control_request" || record["type"] == "result");
    assert_eq!(question["type"], "control_request");
    client.answer(&question, &json!({"behavior": "deny"}));
    client.result();
    client.ends(0);
}

#[test]
fn what_goes_along_with_a_message_that_is_refused_goes_along_with_the_next() {
    let server = Server::start(|_| Reaction::text_reply("fine"));
    let mut client = client_of(&server, "m", &[]);
    client.say(&note(json!("the colour is blue")));
    client.ask("/undo");
    assert_eq!(client.result()["is_error"], true);
    // This model is shown no images: that one is refused, and not each message.
    client.say(&note(json!([picture()])));
    client.ask("see?");
    assert_eq!(client.result()["is_error"], true);
    client.ask("which colour?");
    assert_eq!(client.result()["result"], "fine");
    client.ends(0);
    let requests = server.finish();
    assert_eq!(requests.len(), 1);
    assert!(last(&requests[0]).contains("the colour is blue\\n\\nwhich colour?"));
}

#[test]
fn what_cannot_go_along_has_no_result_of_its_own() {
    let mut client = Client::new(&json!({"units": {"main": [{"text": "fine"}]}}));
    client.say(&note(json!([{"type": "document"}])));
    client.say(&named("u-1", json!("go")));
    let result = client.result();
    assert_eq!(result["user_message_uuid"], "u-1", "{result}");
    let error = result["errors"][0].as_str().unwrap();
    assert!(error.starts_with("what was to go along with the message is missing: "), "{error}");
    client.say(&named("u-2", json!("go")));
    assert_eq!(client.result()["result"], "fine");
    client.ends(0);
}

#[test]
fn replies_that_nobody_reads_are_bounded_and_each_request_has_one() {
    const ASKED: usize = 12;
    let place = Place::new();
    let model = place.script("script.json", &writes(&[]));
    // Each byte of it is six on the wire.
    place.write("zeros", vec![0; 1024 * 1024]);
    let mut command = place.tine(FLAGS.iter().chain(&["-m", &model])).into_command();
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Killed(pipes.spawn().unwrap());
    let (mut stdin, mut stdout) = (child.0.stdin.take().unwrap(), child.0.stdout.take().unwrap());
    let stderr = BufReader::new(child.0.stderr.take().unwrap());
    let (sender, warned) = mpsc::channel();
    std::thread::spawn(move || stderr.lines().try_for_each(|line| sender.send(line.unwrap())));
    for number in 0..ASKED {
        let request = json!({"subtype": "read_file", "path": "zeros"});
        let request = json!({"type": "control_request", "request_id": number.to_string(),
            "request": request});
        stdin.write_all(format!("{request}\n").as_bytes()).unwrap();
    }
    let warning = warned.recv_timeout(HANG_LIMIT).expect("somebody is told");
    assert_eq!(warning, "warning: the client reads no replies; some are left out");
    drop(stdin);
    let (say_read, read) = mpsc::channel();
    std::thread::spawn(move || {
        let mut replies = String::new();
        stdout.read_to_string(&mut replies).unwrap();
        say_read.send(replies).unwrap();
    });
    let replies = read.recv_timeout(HANG_LIMIT).expect("the process ends with its input");
    let replies: Vec<Value> =
        replies.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replies.len(), ASKED);
    let refused = replies.iter().filter(|it| it["response"]["subtype"] == "error");
    let whys: Vec<_> = refused.map(|it| it["response"]["error"].clone()).collect();
    assert!(!whys.is_empty() && whys.len() < ASKED);
    assert!(whys.iter().all(|why| why == "the client leaves too much unread"), "{whys:?}");
}
