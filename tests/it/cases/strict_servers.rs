//! Servers and chat templates that refuse what others accept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, context};
use serde_json::{Value, json};

use crate::support::play::Case;
use crate::support::server::{Reaction, RecordedRequest, Server};
use crate::support::tine::Place;

/// The part that all chat templates here share: the format of a prompt.
const FORM: &str = r#"
{%- for m in messages %}<{{ m.role }}>{{ m.content or "" }}
{%- for call in m.tool_calls or [] %}[{{ call.function.name }} {{ call.id }}]{% endfor %}
{%- if m.tool_call_id %}({{ m.tool_call_id }}){% endif %}</{{ m.role }}>
{%- endfor %}"#;

/// Mistral Nemo and Small: turns of user and assistant, ids of nine characters.
const MISTRAL: &str = r#"
{%- set rest = messages[1:] if messages[0].role == "system" else messages %}
{%- set ns = namespace(turn=0) %}
{%- for m in rest %}
  {%- if m.role != "tool" and not m.tool_calls %}
    {%- if (m.role == "user") != (ns.turn % 2 == 0) %}{{ raise_exception("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...") }}{% endif %}
    {%- set ns.turn = ns.turn + 1 %}
  {%- endif %}
  {%- for call in m.tool_calls or [] %}
    {%- if call.id | length != 9 %}{{ raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}{% endif %}
  {%- endfor %}
  {%- if m.role == "tool" and m.tool_call_id | length != 9 %}{{ raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}{% endif %}
{%- endfor %}"#;

/// Ministral 3: turns, and no message without content.
const MINISTRAL: &str = r#"
{%- set rest = messages[1:] if messages[0].role == "system" else messages %}
{%- set ns = namespace(turn=0) %}
{%- for m in rest %}
  {%- if m.role == "user" or (m.role == "assistant" and not m.tool_calls) %}
    {%- if (m.role == "user") != (ns.turn % 2 == 0) %}{{ raise_exception("After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.") }}{% endif %}
    {%- set ns.turn = ns.turn + 1 %}
    {%- if not m.content %}{{ raise_exception("Assistant message must have a string or a list of chunks in content or a list of tool calls.") }}{% endif %}
  {%- endif %}
{%- endfor %}"#;

/// Llama 3.1 and 3.3: one call in a message.
const LLAMA: &str = r#"
{%- for m in messages %}
  {%- if m.tool_calls and m.tool_calls | length != 1 %}{{ raise_exception("This model only supports single tool-calls at once!") }}{% endif %}
{%- endfor %}"#;

/// Gemma 2: neither a system role nor calls.
const GEMMA: &str = r#"
{%- if messages[0].role == "system" %}{{ raise_exception("System role not supported") }}{% endif %}
{%- for m in messages %}
  {%- if (m.role == "user") != (loop.index0 % 2 == 0) %}{{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}{% endif %}
{%- endfor %}"#;

/// A model whose server renders conversations with a chat template.
struct Templated {
    place: Place,
    server: Server,
    /// Set if the template's rules apply; else it accepts everything.
    is_strict: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
    rules: &'static str,
}

/// Renders a body; the error is what the template raises.
fn render(rules: &str, body: &Value) -> Result<String, String> {
    let mut environment = Environment::new();
    environment.add_function("raise_exception", |words: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, words))
    });
    let messages = context! { messages => Serde(body["messages"].clone()) };
    let rendered = environment.render_str(rules, &messages);
    let rendered = rendered.and_then(|_| environment.render_str(FORM, &messages));
    rendered.map_err(|error| error.detail().unwrap_or("it does not render").to_owned())
}

/// Answers by the last message alone, so that forks may come in any order.
fn answer(body: &Value) -> Reaction {
    let last = body["messages"].as_array().and_then(|all| all.last()).expect("there is a message");
    let text = last["content"].as_str().unwrap_or_default();
    let fork = |name: &str| json!({"description": name, "prompt": name, "subagent_type": "fork"});
    if last["role"] == "user" && text.ends_with("read both") {
        let read = |name: &str| ("Read", json!({ "file_path": name }));
        return Reaction::call_reply(&[read("a.txt"), read("b.txt")]);
    }
    if last["role"] == "user" && text.ends_with("split it") {
        let tasks = json!({ "tasks": [fork("part one"), fork("part two")] });
        return Reaction::call_reply(&[("Agent", tasks)]);
    }
    Reaction::text_reply("done")
}

impl Templated {
    fn new(status: u16, rules: &'static str) -> Self {
        let place = Place::new();
        place.write("a.txt", "alpha");
        place.write("b.txt", "beta");
        let is_strict = Arc::new(AtomicBool::new(false));
        let refused = Arc::new(AtomicUsize::new(0));
        let (strict, count) = (Arc::clone(&is_strict), Arc::clone(&refused));
        let server = Server::start(move |request: &RecordedRequest| {
            let body = request.json();
            let rules = if strict.load(Ordering::Relaxed) { rules } else { "" };
            let Err(words) = render(rules, &body) else { return answer(&body) };
            count.fetch_add(1, Ordering::Relaxed);
            let message = format!(
                "\n------------\nWhile executing CallExpression at line 52, column 37:\nError: Jinja Exception: {words}"
            );
            Reaction::json(
                status,
                &json!({"error": {"code": status, "message": message, "type": "server_error"}}),
            )
        });
        Self { place, server, is_strict, refused, rules }
    }

    /// Runs a prompt to its end and returns what was told on standard error.
    #[track_caller]
    fn prompt(&self, flags: &[&str], text: &str) -> String {
        let arguments = flags.iter().copied().chain(["-m", "m", "-p", text]);
        let finished = self
            .place
            .tine(arguments)
            .env("OPENAI_BASE_URL", &self.server.base_url())
            .run()
            .exits(0);
        assert_eq!(finished.stdout.trim(), "done", "{text}");
        finished.stderr
    }

    /// Returns the prompts that the template made of the bodies it took.
    fn rendered(&self) -> Vec<String> {
        let bodies = self.server.requests();
        bodies.iter().filter_map(|request| render(self.rules, &request.json()).ok()).collect()
    }
}

/// Continues a conversation with two parallel calls at a server with these rules:
/// a turn, two forks, another turn.
#[track_caller]
fn check_template(status: u16, rules: &'static str, expected: &[&str]) {
    let model = Templated::new(status, rules);
    model.prompt(&[], "read both");
    model.is_strict.store(true, Ordering::Relaxed);
    let told = model.prompt(&["-c"], "split it");
    for name in expected {
        assert_eq!(told.matches(&format!("[\"{name}\"]")).count(), 1, "{name}: {told}");
    }
    assert_eq!(told.matches("from now on").count(), expected.len(), "{told}");
    let refused = model.refused.load(Ordering::Relaxed);
    // A fork may have been sent before its sibling was refused.
    assert!((expected.len()..=expected.len() + 1).contains(&refused), "{refused}: {told}");
    // The next process begins with what was found out.
    let told = model.prompt(&["-c"], "go on");
    assert!(!told.contains("from now on"), "{told}");
    assert_eq!(model.refused.load(Ordering::Relaxed), refused);
    // Forks begin with what their parent's request held.
    let rendered = model.rendered();
    let is_fork = |text: &&String| text.contains("part one") || text.contains("part two");
    let forks: Vec<&String> = rendered.iter().filter(is_fork).collect();
    let parent = rendered.iter().rfind(|text| text.ends_with("split it</user>"));
    let parent = parent.expect("the parent was answered");
    assert!(forks.len() >= 2 && forks.iter().all(|fork| fork.starts_with(parent.as_str())));
}

#[test]
fn a_server_of_mistral_gets_ids_of_nine_characters_and_turns() {
    check_template(400, MISTRAL, &["nine_character_call_ids", "alternating_roles"]);
}

#[test]
fn a_template_that_fails_with_500_is_not_asked_again_unchanged() {
    check_template(500, MINISTRAL, &["alternating_roles"]);
}

#[test]
fn a_server_of_llama_gets_calls_one_by_one() {
    check_template(500, LLAMA, &["single_calls"]);
}

#[test]
fn a_server_of_gemma_gets_neither_a_system_prompt_nor_calls() {
    check_template(400, GEMMA, &["no_system_role", "calls_as_text", "alternating_roles"]);
}

#[test]
fn a_key_that_is_refused_is_left_out_and_stays_so() {
    let case = Case::open("stream-options-refused");
    let finished = case.tine(&["-m", "m", "-p", "go", "-o", "json"]).run().exits(0);
    assert_eq!(finished.result()["result"], "OK");
    let finished = case.tine(&["-m", "m", "-c", "-p", "on"]).run().exits(0);
    assert!(!finished.stderr.contains("stream_options"), "{}", finished.stderr);
    let asked: Vec<bool> =
        case.bodies().iter().map(|body| body.get("stream_options").is_some()).collect();
    assert_eq!(asked, [true, false, false]);
    let case = Case::open("stream-options-refused");
    let finished = case.tine(&["-m", "m", "-p", "go"]).run().exits(0);
    assert_eq!(finished.stderr.matches("without:stream_options").count(), 1, "{}", finished.stderr);
}

#[test]
fn a_configured_adaptation_needs_no_refusal_and_a_wrong_one_is_an_error() {
    let case = Case::playing("stream-options-refused", &["2.200.sse"]);
    let url = case.server.base_url();
    let configure = |name: &str| {
        let text = format!("[models.m]\nbase_url = \"{url}\"\nadaptations = [\"{name}\"]\n");
        case.place.configure(&text);
        case.tine(&["-m", "m", "-p", "go"]).run()
    };
    configure("without:stream_options").exits(0);
    assert_eq!(case.bodies()[0].get("stream_options"), None);
    let finished = configure("no_images_at_all").exits(52);
    assert!(
        finished.stderr.contains("unknown adaptation `no_images_at_all`"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_long_call_id_is_sent_back_short_for_the_call_and_its_output() {
    let case = Case::open("long-call-ids");
    case.tine(&["-m", "m", "-p", "go"]).run().exits(0);
    let bodies = case.bodies();
    let messages = bodies[1]["messages"].as_array().expect("they are sent");
    let id = messages.iter().find_map(|message| message["tool_calls"][0]["id"].as_str());
    let id = id.expect("the call is sent back");
    assert!(id.len() <= 40 && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{id}");
    let output =
        messages.iter().find(|message| message["role"] == "tool").expect("its output, too");
    assert_eq!(output["tool_call_id"], id);
}

#[test]
fn a_prompt_behind_one_that_was_refused_is_joined_with_it() {
    let case = Case::open("two-user-messages");
    case.tine(&["-m", "m", "-p", "one"]).run().exits(1);
    let second = case.tine(&["-m", "m", "-c", "-p", "two"]).run().exits(0);
    assert_eq!(second.stdout.trim(), "fine");
    let bodies = case.bodies();
    let messages = bodies.last().expect("it asked")["messages"].as_array().expect("they are sent");
    let roles: Vec<&str> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user"]);
    let text = messages[1]["content"].as_str().expect("it is a text");
    assert!(text.contains("one") && text.ends_with("two"), "{text}");
}

#[test]
fn an_image_that_is_refused_is_left_out_and_the_session_goes_on() {
    let place = Place::new();
    place.write("p.png", include_bytes!("../../fixtures/pictures/colour.png"));
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    let server = Server::start(move |request: &RecordedRequest| {
        let body = request.json();
        if body.to_string().contains("image_url") {
            count.fetch_add(1, Ordering::Relaxed);
            let words = json!({ "error": { "message": "Could not process image" } });
            return Reaction::json(400, &words);
        }
        let messages = body["messages"].as_array().expect("there are messages");
        match messages.len() {
            2 => Reaction::call_reply(&[("Read", json!({ "file_path": "p.png" }))]),
            _ => Reaction::text_reply("done"),
        }
    });
    let url = server.base_url();
    place.configure(&format!("[models.m]\nbase_url = \"{url}\"\nimages = true\n"));
    let first = place.tine(["-m", "m", "-p", "look"]).run().exits(0);
    assert_eq!(first.stderr.matches("leaves the refused image").count(), 1, "{}", first.stderr);
    for prompt in ["go on", "/compact", "and on"] {
        place.tine(["-m", "m", "-c", "-p", prompt]).run().exits(0);
    }
    assert_eq!(refused.load(Ordering::Relaxed), 1);
    let bodies = server.requests();
    let second = bodies.get(2).expect("it was asked again").json().to_string();
    assert!(second.contains("The server of this model refused it"), "{second}");
}

#[test]
fn a_model_that_takes_no_tools_and_a_key_of_the_user_are_named() {
    for (words, expected) in [
        ("registry.example/m does not support tools", "no_tools"),
        ("Unsupported parameter: 'top_k'", "`top_k` is in `extra_body`"),
    ] {
        let body = json!({ "error": { "message": words } }).to_string().into_bytes();
        let case = Case::answering("two-user-messages", vec![(400, "application/json", body)]);
        let url = case.server.base_url();
        let text = format!("[models.m]\nbase_url = \"{url}\"\nextra_body = {{ top_k = 2 }}\n");
        case.place.configure(&text);
        let finished = case.tine(&["-m", "m", "-p", "go"]).run().exits(1);
        assert!(finished.stderr.contains(expected), "{}", finished.stderr);
        assert_eq!(case.bodies().len(), 1);
        // The next refusal says how to get out.
        let finished = case.tine(&["-m", "m", "-c", "-p", "on"]).run().exits(1);
        assert!(finished.stderr.contains(expected), "{}", finished.stderr);
    }
}

/// A server whose content filter refuses each request that holds a word.
fn filtering(word: &'static str) -> Server {
    Server::start(move |request: &RecordedRequest| {
        let body = request.json();
        if body["messages"].to_string().contains(word) {
            let message = "The response was filtered due to the prompt triggering the content \
                management policy";
            let error = json!({ "code": "content_filter", "message": message });
            return Reaction::json(400, &json!({ "error": error }));
        }
        let last = body["messages"].as_array().and_then(|all| all.last());
        let last = last.and_then(|last| last["content"].as_str()).unwrap_or_default();
        match last.ends_with("read it") {
            true => Reaction::call_reply(&[("Read", json!({ "file_path": "a.txt" }))]),
            false => Reaction::text_reply("fine"),
        }
    })
}

#[test]
fn a_prompt_that_a_content_filter_refuses_does_not_end_the_session() {
    let (place, server) = (Place::new(), filtering("FORBIDDEN"));
    let prompt = |text: &str, code: i32| {
        let goes_on = if place.sessions().is_empty() { vec![] } else { vec!["-c"] };
        let asking = ["-m", "m", "-p", text];
        place.tine(asking.iter().chain(&goes_on)).server(&server).run().exits(code)
    };
    let has = |text: &str| {
        let last = server.requests().last().expect("it was asked").json();
        last["messages"].to_string().contains(text)
    };
    // As the first prompts, and after an answer.
    for _ in 0..2 {
        prompt("say FORBIDDEN", 1);
        let told = prompt("FORBIDDEN again", 1).stderr;
        assert!(told.contains("content management policy"), "{told}");
        assert!(!told.contains("/rewind"), "{told}");
        prompt("next question", 0);
        assert!(has("the provider refused the conversation with it") && has("next question"));
        prompt("and on", 0);
        assert!(has("next question") && has("and on"));
    }
}

#[test]
fn an_output_that_a_content_filter_refuses_does_not_end_the_session() {
    let (place, server) = (Place::new(), filtering("FORBIDDEN"));
    place.write("a.txt", "FORBIDDEN");
    for (flags, prompt, code) in
        [(&[][..], "read it", 1), (&["-c"], "go on", 0), (&["-c"], "and on", 0)]
    {
        let asking = ["-m", "m", "-p", prompt];
        place.tine(asking.iter().chain(flags)).server(&server).run().exits(code);
    }
}
