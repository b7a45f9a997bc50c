//! `tine doctor`, and what a newcomer without a model is told.
//!
//! What listens on this machine's usual ports is none of the tests' business,
//! so the lines about local servers are left out everywhere.

use serde_json::json;

use crate::support::repository::Repository;
use crate::support::server::{Reaction, Server};
use crate::support::tine::{Finished, Place};

/// Returns the lines about `subject`, with what to do if there is something.
fn lines<'a>(finished: &'a Finished, subject: &str) -> Vec<&'a str> {
    let mut lines = Vec::new();
    let mut is_wanted = false;
    for line in finished.stdout.lines() {
        if !line.starts_with("      ") {
            is_wanted = line.split_whitespace().nth(1) == Some(subject);
        }
        if is_wanted {
            lines.push(line);
        }
    }
    lines
}

fn listing(models: &[&str]) -> Server {
    let data: Vec<_> = models.iter().map(|id| json!({ "id": id, "object": "model" })).collect();
    let body = json!({ "object": "list", "data": data });
    Server::start(move |request| {
        assert_eq!((&*request.method, &*request.path), ("GET", "/v1/models"));
        Reaction::json(200, &body)
    })
}

#[test]
fn with_nothing_configured_the_doctor_finds_nothing_wrong_and_says_what_is_missing() {
    let repository = Repository::new();
    let place = &repository.place;
    let finished = place.tine(["doctor"]).run().exits(0);
    assert_eq!(finished.stderr, "");
    let config = place.home().join(".config/tine/config.toml");
    let [line] = lines(&finished, "configuration")[..] else { panic!("{}", finished.stdout) };
    assert!(line.starts_with("- ") && line.contains(config.to_str().unwrap()), "{line}");
    let [line] = lines(&finished, "model")[..] else { panic!("{}", finished.stdout) };
    let words = ["none configured", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "`-m offline`"];
    for word in words.iter().chain(&["OPENAI_BASE_URL", "`tine models`"]) {
        assert!(line.contains(word), "{line}");
    }
    let [line] = lines(&finished, "git")[..] else { panic!("{}", finished.stdout) };
    assert!(line.starts_with("ok ") && line.contains(place.work().to_str().unwrap()), "{line}");
    for line in lines(&finished, "sandbox") {
        let is_there = line.starts_with("ok ") && line.contains(" hold; commands run in it");
        assert!(is_there || line.starts_with("- ") && line.contains("; "), "{line}");
    }
    assert_eq!(lines(&finished, "sandbox").len(), 2, "{}", finished.stdout);
    let [line] = lines(&finished, "terminal")[..] else { panic!("{}", finished.stdout) };
    assert!(line.contains("plain lines"), "{line}");
    let [line] = lines(&finished, "state")[..] else { panic!("{}", finished.stdout) };
    assert!(line.starts_with("ok ") && line.contains("/tine/sessions"), "{line}");
}

#[test]
fn a_server_that_lists_the_model_is_fine() {
    let (place, server) = (Place::new(), listing(&["small", "big"]));
    let finished = place.tine(["doctor", "-m", "big"]).server(&server).run().exits(0);
    let expected = format!("ok    model          big at {}", server.base_url());
    assert_eq!(lines(&finished, "model"), [expected]);
}

#[test]
fn a_server_that_does_not_list_the_model_names_those_it_has() {
    let (place, server) = (Place::new(), listing(&["small", "big"]));
    let finished = place.tine(["doctor", "-m", "huge"]).server(&server).run().exits(1);
    let [found, to_do] = lines(&finished, "model")[..] else { panic!("{}", finished.stdout) };
    assert!(found.starts_with("FAIL ") && found.contains("`huge`"), "{found}");
    assert!(to_do.contains("small, big"), "{to_do}");
}

#[test]
fn anthropics_api_is_asked_in_its_own_way() {
    let place = Place::new();
    let body = json!({ "data": [{ "id": "claude-opus-5-5-20260901", "type": "model" }] });
    let server = Server::start(move |request| {
        assert_eq!((&*request.method, &*request.path), ("GET", "/v1/models"));
        assert_eq!(request.header("x-api-key"), Some("sk-for-tests-only"));
        assert_eq!(request.header("authorization"), None);
        assert!(request.header("anthropic-version").is_some());
        Reaction::json(200, &body)
    });
    let doctor = |model: &str| {
        let tine =
            place.tine(["doctor", "-m", model]).env("ANTHROPIC_BASE_URL", &server.base_url());
        tine.env("ANTHROPIC_API_KEY", "sk-for-tests-only").run()
    };
    let expected = format!("ok    model          claude-opus-5-5 at {}", server.base_url());
    assert_eq!(lines(&doctor("claude-opus-5-5").exits(0), "model"), [expected]);
    let finished = doctor("claude-opus-9").exits(1);
    assert!(lines(&finished, "model")[0].contains("does not list `claude-opus-9`"));
}

#[test]
fn a_server_that_is_not_there_or_refuses_the_key_is_a_failure_with_what_to_do() {
    let check = |provider: &str, url: &str, word: &str| {
        let place = Place::new();
        let tine = place.tine(["doctor", "-m", "m"]).env(&format!("{provider}_BASE_URL"), url);
        let tine = tine.env(&format!("{provider}_API_KEY"), "sk-for-tests-only");
        let finished = tine.run().exits(1);
        let [found, to_do] = lines(&finished, "model")[..] else { panic!("{}", finished.stdout) };
        assert!(found.starts_with("FAIL ") && found.contains(word), "{found}");
        assert!(to_do.contains("check the address"), "{to_do}");
        assert!(!finished.stdout.contains("sk-for-tests-only"), "{}", finished.stdout);
    };
    check("OPENAI", "http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1");
    let error = json!({ "error": { "message": "no such key: sk-for-tests-only" } });
    let server = Server::start(move |_| Reaction::json(401, &error));
    check("OPENAI", &server.base_url(), "401");
    check("ANTHROPIC", &server.base_url(), "401");
}

#[test]
fn a_broken_configuration_is_a_failure_that_names_the_line() {
    let place = Place::new();
    place.configure("[agents]\nmax_concurent = 3\n");
    let finished = place.tine(["doctor"]).run().exits(1);
    let found = lines(&finished, "configuration").join("\n");
    assert!(found.starts_with("FAIL ") && found.contains("line 2"), "{found}");
}

#[test]
fn a_state_directory_that_cannot_be_written_is_a_failure() {
    let place = Place::new();
    let file = place.write("file", "");
    let tine = place.tine(["doctor"]).env("XDG_STATE_HOME", file.to_str().unwrap());
    let finished = tine.run().exits(1);
    let [found, to_do] = lines(&finished, "state")[..] else { panic!("{}", finished.stdout) };
    assert!(found.starts_with("FAIL ") && to_do.contains("TINE_HOME"), "{found}\n{to_do}");
}

#[test]
fn a_prompt_with_nothing_configured_names_four_ways_to_a_model_and_offline() {
    let place = Place::new();
    let finished = place.tine(["-p", "hello"]).run().exits(52);
    let lines: Vec<_> = finished.stderr.lines().collect();
    let [error, provider, environment, ollama, config, hint] = lines[..] else {
        panic!("{}", finished.stderr)
    };
    assert_eq!(error, "error: no model is configured; choose one of these:");
    assert!(provider.contains("_API_KEY=") && provider.contains("`tine models`"), "{provider}");
    assert!(environment.contains("OPENAI_API_KEY") && environment.contains("OPENAI_BASE_URL"));
    assert!(ollama.contains("ollama pull") && ollama.contains("-m ollama:qwen3"));
    let path = place.home().join(".config/tine/config.toml");
    assert!(config.contains(path.to_str().unwrap()) && config.contains("[models.NAME]"));
    assert!(hint.starts_with("hint: ") && hint.contains("`-m offline`"), "{hint}");
    assert_eq!(place.sessions(), [""; 0].map(std::path::PathBuf::from));
}

#[test]
fn the_offline_model_says_what_it_is() {
    let finished = Place::new().tine(["-p", "hello", "-m", "offline"]).run().exits(0);
    assert!(finished.stdout.starts_with("This is the offline model"), "{}", finished.stdout);
}
