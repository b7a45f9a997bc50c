//! Settings that a program applies: what they replace, and what they outlive.

use serde_json::{Value, json};

use super::{Client, FLAGS, client_of, writes};
use crate::support::server::{Reaction, Server};
use crate::support::tine::Place;

/// A client of a process with these flags, whose model writes a file for each
/// message.
fn client(flags: &[&str]) -> Client {
    let place = Place::new();
    let model = place.script("script.json", &writes(&["a.txt"]));
    let running =
        place.tine(FLAGS.iter().chain(&["-m", &model]).chain(flags)).silent_stdin().start();
    Client { running, place }
}

#[track_caller]
fn succeeds(client: &mut Client, request: Value) {
    let reply = client.request(&request);
    assert_eq!(reply["subtype"], "success", "{request}: {reply}");
}

fn apply(settings: Value) -> Value {
    json!({"subtype": "apply_flag_settings", "settings": settings})
}

fn initialize(wish: Value) -> Value {
    let mut request = wish;
    request["subtype"] = json!("initialize");
    request
}

/// What becomes of a call.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Runs,
    IsAsked,
    IsDenied,
}

/// What becomes of the file that the model writes for the next message.
fn fate(client: &mut Client) -> Fate {
    client.ask("go");
    let record = client
        .running
        .read_until(|record| record["type"] == "result" || record["type"] == "control_request");
    if record["type"] == "control_request" {
        client.answer(&record, &json!({"behavior": "deny"}));
        client.result();
        return Fate::IsAsked;
    }
    match record["permission_denials"] == json!([]) {
        true => Fate::Runs,
        false => Fate::IsDenied,
    }
}

#[track_caller]
fn check(flags: &[&str], requests: &[Value], expected: &Fate) {
    let mut client = client(flags);
    requests.iter().for_each(|request| succeeds(&mut client, request.clone()));
    assert_eq!(fate(&mut client), *expected, "{flags:?}: {requests:?}");
    client.ends(0);
}

#[test]
fn what_settings_deny_is_denied_in_a_run_that_is_made_again() {
    let deny = || apply(json!({"permissions": {"deny": ["Write"]}}));
    let prompt = || initialize(json!({"appendSystemPrompt": "Be brief."}));
    let allowed = ["--allowed-tools", "Write"];
    check(&allowed, &[deny(), prompt()], &Fate::IsDenied);
    check(&allowed, &[prompt(), deny()], &Fate::IsDenied);
    check(&["--allowed-tools", "Write", "--agent", "general-purpose"], &[deny()], &Fate::IsDenied);
    // What was said of something else leaves the settings of the command line.
    let given = ["--allowed-tools", "Write", "--settings", r#"{"permissions":{"deny":["Write"]}}"#];
    check(&given, &[initialize(json!({"settings": {"env": {"A": "b"}}}))], &Fate::IsDenied);
    // Whoever speaks of permissions last has the word.
    let allow = || json!({"permissions": {"allow": ["Write(a.txt)"]}});
    check(&[], &[deny(), initialize(json!({"settings": allow()}))], &Fate::Runs);
    check(&[], &[initialize(json!({"settings": allow()})), deny()], &Fate::IsDenied);
}

#[test]
fn what_settings_deny_to_read_no_search_shows_from_then_on() {
    let place = Place::new();
    place.write("secret.txt", "needle");
    let search = json!({"name": "Grep", "arguments": {"pattern": "needle"}});
    let found = |contains: &[&str], lacks: &[&str]| json!({"text": "done", "expect": {"contains": contains, "lacks": lacks}});
    let script = json!({"units": {"main": [
        {"calls": [search]}, found(&["secret.txt\n"], &[]),
        {"calls": [search]}, found(&["No match in ."], &[]),
    ]}});
    let model = place.script("script.json", &script);
    let running = place.tine(FLAGS.iter().chain(&["-m", &model])).silent_stdin().start();
    let mut client = Client { running, place };
    for settings in [json!({}), json!({"permissions": {"deny": ["Read(secret.txt)"]}})] {
        succeeds(&mut client, apply(settings));
        client.ask("go");
        let result = client.result();
        assert_eq!(result["result"], "done", "{result}");
    }
    client.ends(0);
}

#[test]
fn what_settings_allow_is_taken_back_by_later_ones() {
    let allow = || json!({"permissions": {"allow": ["Write(a.txt)"]}});
    let text = allow().to_string();
    let by_flag: (&[&str], Vec<Value>) = (&["--settings", &text], vec![]);
    let by_wish: (&[&str], _) = (&[], vec![initialize(json!({"settings": allow()}))]);
    let by_request: (&[&str], _) = (&[], vec![apply(allow())]);
    for (flags, requests) in [by_flag, by_wish, by_request] {
        check(flags, &requests, &Fate::Runs);
        for nothing in [json!(null), json!({}), json!({"allow": []})] {
            let after = apply(json!({"permissions": nothing}));
            check(flags, &[requests.clone(), vec![after]].concat(), &Fate::IsAsked);
        }
        // What is not named stays.
        let other = apply(json!({"model": null}));
        check(flags, &[requests.clone(), vec![other]].concat(), &Fate::Runs);
    }
    // A flag is none of the settings.
    let nothing = apply(json!({"permissions": null}));
    check(&["--allowed-tools", "Write"], &[nothing], &Fate::Runs);
}

/// The mode that is in force.
fn mode(client: &mut Client) -> Value {
    let reply = client.request(&json!({"subtype": "get_settings"}));
    reply["response"]["effective"]["permissions"]["defaultMode"].clone()
}

#[test]
fn a_mode_of_settings_goes_with_them_and_one_that_was_set_stays() {
    let edits = || json!({"permissions": {"defaultMode": "acceptEdits"}});
    let (nothing, text) = (|| apply(json!({"permissions": null})), edits().to_string());
    for (flags, before) in [(vec![], "default"), (vec!["--permission-mode", "plan"], "plan")] {
        let mut client = client(&flags);
        succeeds(&mut client, apply(edits()));
        assert_eq!(mode(&mut client), "acceptEdits");
        succeeds(&mut client, nothing());
        assert_eq!(mode(&mut client), before);
        succeeds(&mut client, json!({"subtype": "set_permission_mode", "mode": "dontAsk"}));
        succeeds(&mut client, nothing());
        assert_eq!(mode(&mut client), "dontAsk");
        client.ends(0);
    }
    let mut client = client(&["--settings", &text]);
    assert_eq!(mode(&mut client), "acceptEdits");
    succeeds(&mut client, nothing());
    assert_eq!(mode(&mut client), "default");
    client.ends(0);
}

#[test]
fn a_model_and_an_effort_are_set_together_or_not_at_all_and_taken_back() {
    let server = Server::start(|_| Reaction::text_reply("fine"));
    let mut client = client_of(&server, "first", &[]);
    let ask = |client: &mut Client| {
        client.ask("go");
        assert_eq!(client.result()["result"], "fine");
    };
    succeeds(&mut client, apply(json!({"model": "second", "effortLevel": "low"})));
    ask(&mut client);
    let bad = apply(json!({"effortLevel": "high", "model": "scripted:nothing"}));
    assert_eq!(client.request(&bad)["subtype"], "error");
    ask(&mut client);
    succeeds(&mut client, apply(json!({"effortLevel": null})));
    ask(&mut client);
    succeeds(&mut client, apply(json!({"effortLevel": "high"})));
    succeeds(&mut client, apply(json!({"model": null})));
    ask(&mut client);
    client.ends(0);
    let asked: Vec<_> = server.finish().iter().map(|request| request.json()).collect();
    let asked: Vec<_> = asked.iter().map(|it| (&it["model"], &it["reasoning_effort"])).collect();
    let (first, second) = (json!("first"), json!("second"));
    let (low, high) = (json!("low"), json!("high"));
    let expected = [(&second, &low), (&second, &low), (&second, &Value::Null), (&first, &high)];
    assert_eq!(asked, expected);
}
