//! `--debug`: what it tells, where it takes its filter from, and that no key
//! is in it.

use serde_json::json;

use crate::support::server::{Reaction, Server};
use crate::support::talk::serve_calls;
use crate::support::tine::{KEY, Place};

/// A provider whose main starts an agent.
fn provider() -> Server {
    let task = json!({ "description": "d", "prompt": "look", "subagent_type": "explore" });
    serve_calls(&[("Agent", task)], |_| Reaction::text_reply("I looked."))
}

#[test]
fn what_happens_inside_is_told_without_keys_and_without_what_a_terminal_obeys() {
    let place = Place::new();
    let provider = Server::start(|_| {
        let evil = format!("no \u{1b}[2J {KEY}");
        Reaction::json(400, &json!({ "error": { "message": evil } }))
    });
    let flags = ["--debug=trace", "--debug-file", "debug.log"];
    place.asking(&provider, &flags).run();
    let log = place.read("debug.log").unwrap();
    for joint in [
        "invocation started",
        "turn started",
        "a request is sent",
        "request failed",
        "invocation ended",
    ] {
        assert!(log.contains(joint), "no `{joint}` in {log}");
    }
    assert!(!log.contains(KEY) && !log.contains('\u{1b}'), "{log}");
}

#[test]
fn a_new_debug_file_can_be_read_by_the_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = Place::new();
    let provider = provider();
    place.write("shared.log", "of several");
    let shared = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(place.work().join("shared.log"), shared).unwrap();
    for (name, expected) in [("debug.log", 0o600), ("shared.log", 0o640)] {
        place.asking(&provider, &["--debug", "--debug-file", name]).run().exits(0);
        let mode = place.work().join(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, expected, "{name}");
        assert!(!place.read(name).unwrap().starts_with("of several"));
    }
}

#[test]
fn a_filter_says_what_is_told_and_one_that_is_none_is_refused() {
    let place = Place::new();
    let provider = provider();
    let ask = |filter: &str| place.asking(&provider, &[filter]).run().stderr;
    let events = ask("--debug=tine::event=debug");
    for joint in ["unit queued", "unit started", "call started", "call finished", "unit ended"] {
        assert!(events.contains(joint), "no `{joint}` in {events}");
    }
    assert!(!events.contains("a request is sent"), "{events}");
    assert!(!ask("--debug=off").contains("unit started"));
    let refused = place.asking(&provider, &["--debug=tine=loud"]).run().exits(2);
    assert!(refused.stderr.contains("`--debug=tine=loud` is no filter"), "{refused:?}");
}

#[test]
fn the_flag_comes_before_the_variable_and_each_is_named_where_it_is_wrong() {
    let place = Place::new();
    let provider = provider();
    let ask = |flag: &str, variable: &str| {
        place.asking(&provider, &[flag]).env("RUST_LOG", variable).run().stderr
    };
    let tells = |text: &str| ["unit started", "a request is sent"].map(|it| text.contains(it));
    assert_eq!(tells(&ask("--debug=tine::event=debug", "off")), [true, false]);
    assert_eq!(tells(&ask("--debug=tine=debug", "off")), [true, true], "the default, but said");
    assert_eq!(tells(&ask("--debug", "tine::model=debug")), [false, true]);
    assert_eq!(tells(&ask("--debug=", "tine::event=debug")), [true, false]);
    assert_eq!(tells(&ask("--debug=", "")), [true, true]);
    let wrong = ask("--debug", "tine=loud");
    assert!(wrong.starts_with("error: `RUST_LOG` is `tine=loud`, which is no filter"), "{wrong}");
    let wrong = ask("--debug=tine=loud", "off");
    assert!(wrong.starts_with("error: `--debug=tine=loud` is no filter"), "{wrong}");
}

#[test]
fn what_servers_of_tools_are_given_is_in_no_line_whatever_they_write() {
    let place = Place::new();
    place.configure(
        "[models.m]\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1\"\n\
         headers = { x-team = \"model-header\" }\n",
    );
    let words = [
        "literal-token",
        "header-secret",
        "settings-secret",
        "model-header",
        "url-password",
        "query-secret",
    ];
    let says = format!("echo \"heard {}\" >&2; echo \"heard $A\" >&2; exit 1", words.join(" "));
    let servers = json!({ "mcpServers": {
        "says": { "command": "sh", "args": ["-c", says],
            "env": { "MY_TOKEN": words[0], "A": "${OUR_SECRET}" } },
        "far": { "url": format!("http://u:{}@127.0.0.1:1/?k={}", words[4], words[5]),
            "headers": { "x-any": format!("Bearer {}", words[1]) } },
    } })
    .to_string();
    let settings = json!({ "env": { "OUR_SECRET": words[2] } }).to_string();
    let flags = ["-p", "hi", "-m", "offline", "--debug=tine::mcp=debug"];
    // Away from warnings, whose last words of a server are for who wrote its entry.
    let more = ["--debug-file", "debug.log", "--mcp-config", &servers, "--settings", &settings];
    place.tine(flags.iter().chain(&more)).run().exits(0);
    let log = place.read("debug.log").expect("lines were written");
    assert!(log.contains("heard [key] [key] [key] [key] [key] [key]"), "{log}");
    assert!(log.contains("heard [key]\n"), "{log}");
    assert!(!words.iter().any(|word| log.contains(word)), "{log}");
}
