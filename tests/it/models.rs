//! Models by name: configured, of a preset, of the environment; and the list of
//! them.

use serde_json::json;

use crate::support::server::{Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::tine::Place;

fn answering() -> Server {
    serve(|_| Reaction::text_reply("Hello"))
}

/// Returns what a run's one request says: its model and its authorization.
#[track_caller]
fn asked(server: Server) -> (String, Option<String>) {
    let requests = server.finish();
    let [request] = &requests[..] else { panic!("one prompt, one request") };
    let key = request.header("authorization").map(str::to_owned);
    (Talk::of(request).model().to_owned(), key)
}

/// The server's address as `OLLAMA_HOST` has it.
fn host(server: &Server) -> String {
    server.base_url().trim_end_matches("/v1").to_owned()
}

#[test]
fn a_model_of_a_preset_is_asked_at_the_presets_address() {
    let (place, server) = (Place::new(), answering());
    let tine = place.tine(["-p", "go", "-m", "ollama:qwen3:8b"]).env("OLLAMA_HOST", &host(&server));
    let finished = tine.env("OPENAI_API_KEY", "sk-for-tests-only").run().exits(0);
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("Hello\n", ""));
    assert_eq!(asked(server), ("qwen3:8b".to_owned(), None));
}

#[test]
fn a_presets_key_is_not_sent_to_an_address_of_the_configuration() {
    let (place, server) = (Place::new(), answering());
    let url = server.base_url();
    let entry = format!("[models.fast]\npreset = 'groq'\nmodel = 'm'\nbase_url = '{url}'\n");
    place.configure(&entry);
    place.tine(["-p", "go"]).env("GROQ_API_KEY", "sk-for-tests-only").run().exits(0);
    assert_eq!(asked(server), ("m".to_owned(), None));

    let server = answering();
    let named = [
        "models.fast.key_env=GROQ_API_KEY",
        &format!("models.fast.base_url={}", server.base_url()),
    ];
    let tine = place.tine(["-p", "go", "--config", named[0], "--config", named[1]]);
    tine.env("GROQ_API_KEY", "sk-for-tests-only").run().exits(0);
    assert_eq!(asked(server), ("m".to_owned(), Some("Bearer sk-for-tests-only".to_owned())));
}

#[test]
fn a_presets_model_without_its_key_is_refused_with_what_to_set() {
    let place = Place::new();
    let refuses = |model: &str, stderr: &str| {
        place.tine(["-p", "go", "-m", model]).run().refuses(52, stderr);
    };
    refuses("groq:m", "error: model `groq:m` has no key\nhint: set `GROQ_API_KEY`\n");
    refuses("groq:", "error: `groq:` names no model\nhint: write `groq:MODEL`\n");
}

#[test]
fn an_agents_task_chooses_no_model_of_a_preset() {
    // It may come from a repository, which must not send a conversation to
    // whichever provider there happens to be a key for.
    let place = Place::new();
    let task = json!({ "description": "d", "prompt": "p", "subagent_type": "explore", "model": "ollama:m" });
    let script = json!({ "units": { "main": [
        { "calls": [{ "name": "Agent", "arguments": task }] },
        { "text": "Done.", "expect": { "contains": ["`ollama:m` can only be chosen with `-m`"] } },
    ] } });
    assert_eq!(place.play(&script, &[]).exits(0).stdout, "Done.\n");
}
