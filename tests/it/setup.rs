//! `tine setup`: a model is chosen, tried, and written down.
//!
//! What listens on this machine's usual ports is none of the tests' business,
//! so what is chosen is chosen by its name.

use serde_json::{Value, json};

use crate::support::server::{Reaction, Server};
use crate::support::tine::{Finished, Place};

const KEY: &str = "sk-for-tests-only";

/// A server with these models, which says hello; it answers as `refused` to a
/// model of that name.
fn server(models: &[&str]) -> Server {
    let data: Vec<Value> = models.iter().map(|id| json!({ "id": id })).collect();
    let list = json!({ "data": data });
    let error = json!({ "error": { "message": "the model is broken" } });
    Server::start(move |request| match (&*request.method, &*request.path) {
        ("GET", "/v1/models") => Reaction::json(200, &list),
        ("POST", "/v1/chat/completions") if request.json()["model"] == "broken" => {
            Reaction::json(400, &error)
        }
        ("POST", "/v1/chat/completions") => Reaction::text_reply("Hello there."),
        other => panic!("{other:?}"),
    })
}

fn set_up(place: &Place, server: &Server, typed: &str) -> Finished {
    let tine = place.tine(["setup"]).env("OPENAI_BASE_URL", &server.base_url());
    tine.env("OPENAI_API_KEY", KEY).stdin(typed).run()
}

fn configuration(place: &Place) -> Option<String> {
    std::fs::read_to_string(place.home().join(".config/tine/config.toml")).ok()
}

#[test]
fn a_provider_whose_key_is_set_is_found_and_its_model_tried_and_written_down() {
    let (place, server) = (Place::new(), server(&["small", "big"]));
    let finished = set_up(&place, &server, "openai\n2\n").exits(0);
    let shown = &finished.stdout;
    for expected in [
        "openai      OPENAI_API_KEY is set\n",
        "other       another server, whose address you know\n",
        "which model [small]: asking openai:big …\nit answers: Hello there.\n",
    ] {
        assert!(shown.contains(expected), "{shown}");
    }
    assert!(!shown.contains(KEY), "{shown}");
    assert_eq!(configuration(&place).as_deref(), Some("model = \"openai:big\"\n"));
    let tine = place.tine(["-p", "hi"]).env("OPENAI_BASE_URL", &server.base_url());
    let asked = tine.env("OPENAI_API_KEY", KEY).run().exits(0);
    assert_eq!(asked.stdout, "Hello there.\n");
}

#[test]
fn a_model_that_does_not_answer_is_not_written_and_the_questions_come_again() {
    let (place, server) = (Place::new(), server(&["broken", "whole"]));
    let finished = set_up(&place, &server, "openai\nbroken\nopenai\nwhole\n").exits(0);
    assert!(finished.stdout.contains("the model is broken"), "{}", finished.stdout);
    assert_eq!(configuration(&place).as_deref(), Some("model = \"openai:whole\"\n"));
}

#[test]
fn another_server_gets_a_table_of_its_own() {
    let (place, server) = (Place::new(), server(&["small"]));
    let url = server.base_url();
    let typed = format!("other\n{url}/\n\n\n");
    place.tine(["setup"]).stdin(typed).run().exits(0);
    let expected =
        format!("model = \"small\"\n\n[models.small]\nbase_url = \"{url}\"\nmodel = \"small\"\n");
    assert_eq!(configuration(&place), Some(expected));
    assert_eq!(place.tine(["-p", "hi"]).run().exits(0).stdout, "Hello there.\n");
}

#[test]
fn who_leaves_or_looks_around_changes_nothing() {
    let (place, server) = (Place::new(), server(&["small"]));
    let hint = "hint: `tine setup` asks again; `-m MODEL` needs no configuration\n";
    for typed in ["", "openai\n"] {
        let finished = set_up(&place, &server, typed);
        assert_eq!(finished.stderr, format!("error: no model was chosen\n{hint}"));
    }
    let finished = place.tine(["setup"]).stdin("offline\n").run().exits(0);
    assert_eq!(finished.stderr, "hint: nothing is kept; `tine -m offline` uses it\n");
    assert_eq!(configuration(&place), None);
}

#[test]
fn a_server_that_refuses_the_key_or_is_none_says_so_and_another_can_be_chosen() {
    let place = Place::new();
    let error = json!({ "error": { "message": format!("no such key: {KEY}") } });
    let server = Server::start(move |_| Reaction::json(401, &error));
    let typed = "openai\nother\nbox\n\nother\nhttp://127.0.0.1:1/v1\n\noffline\n";
    let finished = set_up(&place, &server, typed).exits(0);
    let shown = &finished.stdout;
    for expected in ["401", "which is no `http` or `https` URL", "http://127.0.0.1:1/v1"] {
        assert!(shown.contains(expected), "{shown}");
    }
    assert!(!shown.contains(KEY), "{shown}");
}
