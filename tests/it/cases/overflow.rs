//! Conversations that outgrow the context window.
//!
//! A server here takes as many bytes as its window has and refuses every longer body, as
//! real servers do with tokens. A session has to go on after each refusal.

use serde_json::{Value, json};

use crate::support::server::{Reaction, RecordedRequest, Server, events};
use crate::support::tine::{Finished, Place};

/// Bytes of a body that the server takes. The system prompt and the tools have about 22,000.
const WINDOW: usize = 60_000;

/// What each request for a summary says, and no other message.
const ASKS_FOR_SUMMARY: &str = "Write a summary of this conversation.";

/// How a server says that a request is too long.
#[derive(Clone, Copy)]
enum Refusal {
    /// With the window, as llama.cpp does.
    NamesWindow,
    /// With nothing but that.
    NamesNothing,
}

fn server(refusal: Refusal) -> Server {
    Server::start(move |request: &RecordedRequest| {
        let length = request.body.len();
        if length <= WINDOW {
            let is_summary = String::from_utf8_lossy(&request.body).contains(ASKS_FOR_SUMMARY);
            return Reaction::text_reply(if is_summary { "SUMMARY" } else { "ANSWER" });
        }
        let (sent, window) = (length / 4, WINDOW / 4);
        let message = "the request exceeds the available context size, try increasing it";
        let error = match refusal {
            Refusal::NamesWindow => json!({ "code": 400, "type": "exceed_context_size_error",
                "message": message, "n_prompt_tokens": sent, "n_ctx": window }),
            Refusal::NamesNothing => json!({ "message": message }),
        };
        Reaction::json(400, &json!({ "error": error }))
    })
}

/// Runs one prompt of the session: `length` bytes that end in `name`.
fn prompt(place: &Place, server: &Server, name: &str, length: usize) -> Finished {
    let goes_on = if place.sessions().is_empty() { vec![] } else { vec!["-c"] };
    let flags: Vec<&str> = goes_on.into_iter().chain(["-o", "json"]).collect();
    let text = format!("{}{name}", "pad ".repeat(length / 4));
    let asking = ["-p", "-", "-m", "m", "--config", "retry.most=0"];
    place.tine(asking.iter().chain(&flags)).server(server).stdin(text).run()
}

/// Plays a session and checks the exit code of each prompt.
#[track_caller]
fn check(context_window: u32, refusal: Refusal, prompts: &[(&str, usize, i32)]) -> Vec<Value> {
    let (place, server) = (Place::new(), server(refusal));
    place.configure(&format!(
        "[models.m]\nbase_url = \"{}\"\ncontext_window = {context_window}\n",
        server.base_url()
    ));
    let play = |(name, length, code): &(&str, usize, i32)| {
        prompt(&place, &server, name, *length).exits(*code).result()
    };
    let results = prompts.iter().map(play).collect();
    for request in server.requests().iter().filter(|request| request.body.len() <= WINDOW) {
        let text = String::from_utf8_lossy(&request.body);
        // A request for a summary holds no prompt that waits for its answer.
        assert!(!(text.contains(ASKS_FOR_SUMMARY) && text.contains("IN HAND")), "{text}");
    }
    results
}

#[test]
fn a_prompt_that_makes_the_conversation_too_long_is_answered_after_a_summary_without_it() {
    // The window is right, wrong but named by the server, wrong and never named.
    for (window, refusal) in [
        (15_000, Refusal::NamesWindow),
        (131_072, Refusal::NamesWindow),
        (131_072, Refusal::NamesNothing),
    ] {
        check(window, refusal, &[("one", 20_000, 0), ("IN HAND", 25_000, 0), ("three", 40, 0)]);
    }
}

#[test]
fn a_prompt_that_is_too_long_by_itself_ends_only_its_own_turn() {
    for (window, refusal) in [
        (15_000, Refusal::NamesWindow),
        (131_072, Refusal::NamesWindow),
        (131_072, Refusal::NamesNothing),
    ] {
        // As the first prompt, and after an answer.
        for before in [&[][..], &[("one", 8_000, 0)]] {
            let prompts = [before, &[("long", 90_000, 1), ("next", 40, 0), ("last", 40, 0)]];
            let results = check(window, refusal, &prompts.concat());
            let error = results[before.len()]["errors"][0].as_str().expect("it failed");
            assert!(error.contains("put it into a file"), "{error}");
        }
    }
}

#[test]
fn several_refused_prompts_in_a_row_do_not_end_the_session() {
    let prompts =
        [("one", 8_000, 0), ("a", 90_000, 1), ("b", 70_000, 1), ("c", 90_000, 1), ("next", 40, 0)];
    check(131_072, Refusal::NamesNothing, &prompts);
    check(15_000, Refusal::NamesWindow, &prompts);
}

#[test]
fn a_prompt_that_was_set_aside_stays_in_the_log_and_its_start_in_the_conversation() {
    let (place, server) = (Place::new(), server(Refusal::NamesWindow));
    prompt(&place, &server, "ends here", 90_000).exits(1);
    prompt(&place, &server, "next", 40).exits(0);
    let last = server.requests().last().expect("it was asked").json();
    let text = last["messages"][1]["content"].as_str().expect("it is a text");
    assert!(text.contains("It was too long for the model and was not answered"), "{text}");
    assert!(text.contains("pad pad") && text.contains("ends here"), "{text}");
    let log = place.sessions()[0].join("log.jsonl");
    let log = std::fs::read_to_string(log).expect("a session has a log");
    assert!(log.contains(&"pad ".repeat(22_000)));
}

#[test]
fn the_window_that_a_refusal_names_is_told_once_and_holds_from_there_on() {
    let (place, server) = (Place::new(), server(Refusal::NamesWindow));
    prompt(&place, &server, "one", 20_000).exits(0);
    let asking = ["-c", "-p", "-", "-m", "m"];
    let told = place.tine(asking).server(&server).stdin("pad ".repeat(6_000)).run().exits(0).stderr;
    assert_eq!(told.matches("context window of 15000 tokens").count(), 1, "{told}");
}

/// An answer of one text again and again, without an end.
fn endless(text: &str) -> Reaction {
    let piece = json!({ "choices": [{ "index": 0, "delta": { "content": text } }] });
    let pieces: Vec<&Value> = std::iter::repeat_n(&piece, 3_000).collect();
    Reaction::stream(events(pieces))
}

#[test]
fn a_model_that_repeats_itself_is_stopped_and_not_asked_again() {
    let (place, server) = (Place::new(), Server::start(|_| endless("ember")));
    let tine = place.tine(["-p", "go", "-m", "m", "-o", "json"]).server(&server);
    let result = tine.run().exits(75).result();
    let error = result["errors"][0].as_str().expect("it failed");
    assert!(error.contains("without end; its answer was stopped"), "{error}");
    assert_eq!(server.count(), 1);
}

/// An answer for which the server counted so many tokens in the prompt.
fn counted(tokens: u64) -> Reaction {
    let delta = json!({ "role": "assistant", "content": "ok" });
    let usage = json!({ "prompt_tokens": tokens, "completion_tokens": 1 });
    let mut bytes = events([
        &json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": "stop" }] }),
        &json!({ "choices": [], "usage": usage }),
    ]);
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    Reaction::stream(bytes)
}

#[test]
fn a_server_that_leaves_the_tools_out_is_noticed_by_what_it_counts() {
    let place = Place::new();
    for (tokens, is_told) in [(650, true), (5_700, false), (4_000, false), (10, false), (0, false)]
    {
        let server = Server::start(move |_| counted(tokens));
        let finished = place.ask(&server, &[]).exits(0);
        let told = finished.stderr.contains("leave the tools out");
        assert_eq!(told, is_told, "{tokens}: {}", finished.stderr);
    }
}

#[test]
fn the_window_that_a_server_lists_is_written_by_setup_and_compared_by_doctor() {
    let place = Place::new();
    let server = Server::start(|request| match &*request.method {
        "GET" => Reaction::json(
            200,
            &json!({ "data": [{ "id": "smol", "owned_by": "llamacpp", "meta": { "n_ctx": 8192 } }] }),
        ),
        _ => Reaction::text_reply("Hello."),
    });
    let doctor = || {
        let tine = place.tine(["doctor", "-m", "smol"]);
        tine.env("OPENAI_BASE_URL", &server.base_url()).run().stdout
    };
    let told = doctor();
    assert!(told.contains("set `context_window = 8192`"), "{told}");
    let typed = format!("other\n{}\n\nsmol\n", server.base_url());
    place.tine(["setup"]).stdin(typed).run().exits(0);
    let written = std::fs::read_to_string(place.home().join(".config/tine/config.toml"));
    let written = written.expect("setup has written it");
    assert!(written.contains("[models.smol]\n"), "{written}");
    assert!(written.contains("context_window = 8192\n"), "{written}");
    let told = doctor();
    assert!(told.contains("context window 8192"), "{told}");
}
