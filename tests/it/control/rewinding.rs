//! Files that go back to what they were before a message.

use serde_json::{Value, json};

use super::{Client, FLAGS, writes};
use crate::support::tine::Place;

/// A client of a process that may write, and has these flags besides. Each
/// message has its model write `a.txt`.
fn client(place: Place, flags: &[&str]) -> Client {
    let model = place.script("script.json", &writes(&["a.txt"]));
    let own = ["--permission-mode", "acceptEdits", "-m", &model];
    let running = place.tine(FLAGS.iter().chain(&own).chain(flags)).silent_stdin().start();
    Client { running, place }
}

fn wanted(message: &str, dry_run: bool) -> Value {
    json!({"subtype": "rewind_files", "user_message_id": message, "dry_run": dry_run})
}

fn go(client: &mut Client, uuid: &str) {
    let message = json!({"role": "user", "content": "go"});
    client.say(&json!({"type": "user", "uuid": uuid, "message": message}));
}

#[track_caller]
fn goes_back(client: &mut Client, wanted: &Value) {
    let reply = client.request(wanted)["response"].clone();
    let path = client.place.work().join("a.txt").display().to_string();
    assert_eq!(reply, json!({"canRewind": true, "filesChanged": [path]}));
}

#[track_caller]
fn stays(client: &mut Client, wanted: &Value, why: &str) {
    let reply = client.request(wanted)["response"].clone();
    assert_eq!((&reply["canRewind"], &reply["filesChanged"]), (&json!(false), &json!([])));
    let error = reply["error"].as_str().expect("it says why");
    assert!(error.contains(why), "{error}");
}

#[test]
fn files_go_back_to_what_they_were_before_a_message() {
    let mut client = client(Place::new(), &[]);
    go(&mut client, "u-1");
    client.result();
    goes_back(&mut client, &wanted("u-1", true));
    assert_eq!(client.place.read("a.txt").as_deref(), Some("new\n"), "it only asked");
    goes_back(&mut client, &wanted("u-1", false));
    assert_eq!(client.place.read("a.txt"), None);
    let nothing = client.request(&wanted("u-1", false))["response"].clone();
    assert_eq!(nothing, json!({"canRewind": true, "filesChanged": []}));
    // The conversation goes on, and its results are those of messages alone.
    go(&mut client, "u-2");
    assert_eq!(client.result()["user_message_uuid"], "u-2");
    assert_eq!(client.place.read("a.txt").as_deref(), Some("new\n"));
    client.ends(0);
}

#[test]
fn what_cannot_go_back_says_why_and_stays() {
    let mut client = client(Place::new(), &[]);
    stays(&mut client, &wanted("u-1", false), "no turn of this session began with a message `u-1`");
    go(&mut client, "u-1");
    client.result();
    client.place.write("a.txt", "mine\n");
    for dry_run in [true, false] {
        stays(&mut client, &wanted("u-1", dry_run), "somebody else has changed it");
    }
    let unnamed = client.request(&json!({"subtype": "rewind_files"}));
    assert_eq!(unnamed["error"], "there is no `user_message_id`");
    assert_eq!(client.ends(0).read("a.txt").as_deref(), Some("mine\n"));
}

#[test]
fn files_go_back_once_main_rests_and_before_the_next_message() {
    let mut client = client(Place::new(), &["--disallowed-tools", "Bash"]);
    go(&mut client, "u-1");
    client.result();
    // All of it may be heard before the first result is known here, too.
    let lines = [
        json!({"type": "user", "uuid": "u-2", "message": {"content": "go"}}),
        json!({"type": "control_request", "request_id": "r-1", "request": wanted("u-1", false)}),
        json!({"type": "user", "uuid": "u-3", "message": {"content": "go"}}),
    ];
    client.running.say(&lines.map(|line| line.to_string()).join("\n"));
    let mut seen = Vec::new();
    client.running.read_until(|record| {
        match (record["type"].as_str(), record["user_message_uuid"].as_str()) {
            (Some("result"), Some(uuid)) => seen.push(uuid.to_owned()),
            (Some("control_response"), _) => {
                assert_eq!(record["response"]["response"]["canRewind"], true, "{record}");
                seen.push("back".to_owned());
            }
            _ => {}
        }
        seen.len() == 3
    });
    assert_eq!(seen[2], "u-3", "{seen:?}");
    client.ends(0);
}

#[test]
fn a_session_that_is_gone_on_with_goes_back_before_its_first_message() {
    let mut first = client(Place::new(), &[]);
    go(&mut first, "u-1");
    let session = first.result()["session_id"].as_str().expect("a session has a name").to_owned();
    let place = first.ends(0);
    let mut second = client(place, &["--resume", &session]);
    goes_back(&mut second, &wanted("u-1", false));
    assert_eq!(second.ends(0).read("a.txt"), None);
}
