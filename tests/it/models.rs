//! Models by name: configured, of a preset, of the environment; and the list of
//! them.

use serde_json::json;
use tine::config::PRESETS;

use crate::support::server::{Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::tine::{Finished, Place};

const PAGE: &str = include_str!("../../docs/models.md");

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

/// A configuration with one of everything.
const CONFIGURATION: &str = r#"
model = "deep"

[models.deep]
preset = "anthropic"
model = "claude-opus-5-5"
price = { input = 4, output = 20, cache_read = 0.4, cache_write = 5 }
max_in_flight = 8
effort = "high"

[models."a model with a long name"]
preset = "dashscope"
model = "qwen3-coder-plus-2025-07-22"

[models.local]
base_url = "http://me:secret@127.0.0.1:8000/v1"
key_env = "LOCAL_KEY"

[models.odd]
base_url = "box:80"
"#;

#[test]
fn the_list_says_what_can_be_chosen_and_what_each_lacks() {
    let place = Place::new();
    place.configure(CONFIGURATION);
    let list = place.tine(["models"]).env("GROQ_API_KEY", "sk-for-tests-only");
    let finished = list.env("OPENAI_BASE_URL", "http://box:8000/v1").run().exits(0);
    insta::assert_snapshot!(finished.stdout, @"
    models, as `-m NAME` (* where no `-m` is given)
      a model with a long name
                      chat       DASHSCOPE_API_KEY is not set
                      qwen3-coder-plus-2025-07-22
                      at https://dashscope-intl.aliyuncs.com/compatible-mode/v1
    * deep            anthropic  ANTHROPIC_API_KEY is not set
                      claude-opus-5-5 at https://api.anthropic.com/v1
                      window 1000000 tokens
                      a million tokens: $4.00 in, $20.00 out,
                      $0.40 from the cache, $5.00 to the cache
      local           chat       LOCAL_KEY is not set
                      local at http://127.0.0.1:8000/v1
      odd
                      `models.odd.base_url` is `box:80`, which is no `http` or `https` URL
                      hint: it should look like `https://api.example.com/v1`

    presets, as `-m PRESET:MODEL`
      openai          chat       OPENAI_API_KEY is not set
                      http://box:8000/v1
                      takes every other name, as `-m MODEL`
      anthropic       anthropic  ANTHROPIC_API_KEY is not set
                      https://api.anthropic.com/v1
      openrouter      chat       OPENROUTER_API_KEY is not set
                      https://openrouter.ai/api/v1
      deepseek        chat       DEEPSEEK_API_KEY is not set
                      https://api.deepseek.com
      dashscope, qwen chat       DASHSCOPE_API_KEY is not set
                      https://dashscope-intl.aliyuncs.com/compatible-mode/v1
      groq            chat       GROQ_API_KEY is set
                      https://api.groq.com/openai/v1
      ollama          chat       no key
                      http://127.0.0.1:11434/v1
      lmstudio        chat       no key
                      http://127.0.0.1:1234/v1
      llamacpp        chat       no key
                      http://127.0.0.1:8080/v1
      vllm            chat       no key
                      http://127.0.0.1:8000/v1
    ");
    let hint =
        "hint: `export ANTHROPIC_API_KEY=\u{2026}`, then `tine -p \"\u{2026}\"` asks `deep`\n";
    assert_eq!(finished.stderr, hint);
    // An error is as long as what it quotes.
    let mut lines = finished.stdout.lines().filter(|line| !line.contains("URL"));
    let wide = lines.find(|line| line.chars().count() > 80);
    assert_eq!(wide, None);
}

#[test]
fn the_list_as_records_has_every_field_and_no_secret() {
    let place = Place::new();
    place.configure(CONFIGURATION);
    let list = place.tine(["models", "--json"]).env("LOCAL_KEY", "sk-for-tests-only");
    let finished = list.run().exits(0);
    assert_eq!(finished.stderr, "");
    assert!(!finished.stdout.contains("secret") && !finished.stdout.contains("sk-for-tests"));
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(lines.len(), 4 + 10);
    let records = [lines[1], lines[2], lines[3], lines[9]].join("\n");
    insta::assert_snapshot!(records, @r#"
    {"name":"deep","kind":"configured","default":true,"ready":false,"api":"anthropic","base_url":"https://api.anthropic.com/v1","model":"claude-opus-5-5","key_env":"ANTHROPIC_API_KEY","key_set":false,"context_window":1000000,"max_output_tokens":null,"price":{"input":4.0,"output":20.0,"cache_read":0.4,"cache_write":5.0},"requests_per_minute":null,"tokens_per_minute":null,"max_in_flight":8,"effort":"high","images":true}
    {"name":"local","kind":"configured","default":false,"ready":true,"api":"chat","base_url":"http://127.0.0.1:8000/v1","model":"local","key_env":"LOCAL_KEY","key_set":true,"context_window":null,"max_output_tokens":null,"price":null,"requests_per_minute":null,"tokens_per_minute":null,"max_in_flight":null,"effort":null,"images":false}
    {"name":"odd","kind":"configured","default":false,"problem":"`models.odd.base_url` is `box:80`, which is no `http` or `https` URL\nhint: it should look like `https://api.example.com/v1`","ready":false,"api":null,"base_url":null,"model":null,"key_env":null,"key_set":false,"context_window":null,"max_output_tokens":null,"price":null,"requests_per_minute":null,"tokens_per_minute":null,"max_in_flight":null,"effort":null,"images":false}
    {"name":"groq","kind":"preset","default":false,"ready":false,"api":"chat","base_url":"https://api.groq.com/openai/v1","model":null,"key_env":"GROQ_API_KEY","key_set":false,"context_window":null,"max_output_tokens":null,"price":null,"requests_per_minute":null,"tokens_per_minute":null,"max_in_flight":null,"effort":null,"images":false}
    "#);
}

#[track_caller]
fn check_hint(configuration: &str, variables: &[(&str, &str)], expected: &str) {
    let place = Place::new();
    place.configure(configuration);
    let list =
        variables.iter().fold(place.tine(["models"]), |list, (name, value)| list.env(name, value));
    let expected = expected.replace("...", "\u{2026}");
    assert_eq!(list.run().exits(0).stderr, format!("hint: {expected}\n"));
}

#[test]
fn the_hint_is_the_command_that_is_nearest_to_working() {
    let local = "[models.local]\nbase_url = 'http://localhost/v1'\n";
    check_hint(local, &[], "`tine -p \"...\"` asks `local`");
    check_hint("model = 'offline'", &[], "`tine -p \"...\"` asks `offline`");
    let two = format!("{local}[models.hosted]\npreset = 'groq'\n");
    check_hint(&two, &[], "`tine -m local -p \"...\"`");
    let groq = ("GROQ_API_KEY", "k");
    check_hint(&two, &[groq], "`tine -m hosted -p \"...\"`");
    let spaced = "[models.'my model']\nbase_url = 'http://box'\n[models.q]\npreset = 'groq'\n";
    check_hint(spaced, &[], "`tine -m 'my model' -p \"...\"`");
    check_hint("", &[groq], "`tine -m groq:MODEL -p \"...\"`");
    check_hint("", &[groq, ("OPENAI_API_KEY", "k")], "`tine -m MODEL -p \"...\"`");
    check_hint(
        "",
        &[],
        "`export OPENROUTER_API_KEY=...`, then `tine -m openrouter:MODEL -p \"...\"`; or with \
         Ollama `tine -m ollama:MODEL -p \"...\"`",
    );
}

#[test]
fn a_broken_configuration_has_no_list() {
    let place = Place::new();
    place.configure("[models.q]\npreset = 'grok'\n");
    let finished = place.tine(["models"]).run().exits(52);
    assert!(finished.stderr.contains("line 2") && finished.stderr.contains("groq"));
    assert_eq!(finished.stdout, "");
}

/// Returns the page's one block in this language.
fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).expect("the page has the block");
    rest.split_once("```").expect("the block has an end").0
}

#[test]
fn the_pages_example_is_a_configuration_and_lists_as_it_says() {
    let place = Place::new();
    place.configure(block("toml"));
    let listed = place.tine(["models", "--json"]).run().exits(0).stdout;
    assert!(listed.lines().any(|line| line == block("jsonl").trim_end()), "{listed}");
    for name in ["deep", "fast", "ours"] {
        assert!(listed.contains(&format!("{{\"name\":\"{name}\",\"kind\":\"configured\"")));
    }
}

#[test]
fn the_page_has_every_preset_and_every_key() {
    for preset in &PRESETS {
        let alias = preset.alias.map(|alias| format!(", `{alias}`")).unwrap_or_default();
        let key = preset.key_env.map_or("none".to_owned(), |key| format!("`{key}`"));
        let (name, url, api) = (preset.name, preset.base_url, preset.api.as_str());
        let row = format!("| `{name}`{alias} | `{url}` | {key} | `{api}` |\n");
        assert!(PAGE.contains(&row), "{row}");
    }
    let example = include_str!("../../config.example.toml");
    let (_, keys) = example.split_once("#[models.qwen]\n").expect("the example has a model");
    let (keys, _) = keys.split_once("[agents]").expect("the agents follow");
    let keys = keys.lines().filter_map(|line| line.strip_prefix('#')?.split_once(" = "));
    for (key, _) in keys.filter(|(key, _)| !key.starts_with(' ')) {
        let rows = || PAGE.lines().filter(|line| line.starts_with("| `"));
        assert!(rows().any(|row| row.contains(&format!("`{key}`"))), "{key}");
    }
}

/// Prompts with a model of this server, while there is a key for another one.
fn beside(place: &Place, server: &Server, other: &Server, flags: &[&str]) -> Finished {
    place.configure(&format!(
        "model = \"m\"\n[models.m]\nbase_url = \"{}\"\n[retry]\nmost = 0\n",
        server.base_url()
    ));
    let environment = [("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", &other.base_url())];
    let tine = place.tine(flags);
    environment.into_iter().fold(tine, |tine, (name, value)| tine.env(name, value)).run().exits(0)
}

#[test]
fn no_file_of_a_repository_sends_a_conversation_to_another_server() {
    for (model, why) in [
        ("gpt-5", "`gpt-5` can only be chosen with `-m`"),
        ("openai:gpt-5", "`openai:gpt-5` can only be chosen with `-m`"),
        ("scripted:x.json", "`scripted:x.json` can only be chosen with `-m`"),
        ("sonnet", "`sonnet` names no model here; `[models.sonnet]` could say which"),
    ] {
        let place = Place::new();
        place.write("x.json", r#"{"units": {"main": [{"text": "not I"}]}}"#);
        let head = format!("---\nname: notes\ndescription: d\nmodel: {model}\n---\nLook.\n");
        place.write(".claude/skills/notes/SKILL.md", &head);
        place.write(".claude/agents/notes.md", &head);
        let reply = |talk: &Talk| match (talk.task(), talk.turn()) {
            ("fan out", 1) => {
                let task = json!({ "description": "d", "prompt": "p", "subagent_type": "notes" });
                Reaction::call_reply(&[("Agent", task)])
            }
            _ => Reaction::text_reply("I"),
        };
        let (server, other) = (serve(reply), serve(|_| Reaction::text_reply("not I")));
        for flags in [&["-p", "/notes"][..], &["-p", "fan out"], &["-p", "hi", "--agent", "notes"]]
        {
            let finished = beside(&place, &server, &other, flags);
            assert_eq!(finished.stdout, "I\n", "{model} {flags:?}");
            let warning = match flags[1] {
                "fan out" => "which is not configured; it uses `m`".to_owned(),
                _ => format!("asks for the model `{model}`, and `m` goes on: {why}"),
            };
            assert!(finished.stderr.contains(&warning), "{flags:?}: {}", finished.stderr);
        }
        assert!(other.finish().is_empty(), "{model}");
    }
}

#[test]
fn an_agent_may_have_another_model_of_the_server_that_answers() {
    let place = Place::new();
    let head = "---\nname: notes\ndescription: d\nmodel: small\n---\nLook.\n";
    place.write(".claude/agents/notes.md", head);
    let server = serve(|_| Reaction::text_reply("I"));
    for flags in [&["-p", "hi", "-m", "large"][..], &["-p", "hi", "--agent", "notes"]] {
        let tine = place.tine(flags).env("OPENAI_BASE_URL", &server.base_url());
        tine.env("OPENAI_API_KEY", "k").run();
    }
    place.configure("model = \"openai:large\"\n");
    let tine = place.tine(["-p", "hi", "--agent", "notes"]);
    tine.env("OPENAI_BASE_URL", &server.base_url()).env("OPENAI_API_KEY", "k").run().exits(0);
    let requests = server.finish();
    let asked: Vec<_> = requests.iter().map(|it| Talk::of(it).model().to_owned()).collect();
    assert_eq!(asked, ["large", "small"]);
}

#[test]
fn what_a_client_has_chosen_since_is_what_answers_and_stays_it() {
    let place = Place::new();
    let head = "---\nname: notes\ndescription: d\nmodel: small\n---\nLook.\n";
    place.write(".claude/agents/notes.md", head);
    let first = serve(|_| Reaction::text_reply("not I"));
    let second = serve(|talk| match (talk.task(), talk.turn()) {
        ("fan out", 1) => {
            let task = json!({ "description": "d", "prompt": "p", "subagent_type": "notes" });
            Reaction::call_reply(&[("Agent", task)])
        }
        _ => Reaction::text_reply("I"),
    });
    place.configure(&format!("[models.b]\nbase_url = \"{}\"\n", second.base_url()));
    let flags = ["--input-format", "stream-json", "-o", "stream-json", "-m", "large"];
    let tine = place.tine(flags).env("OPENAI_BASE_URL", &first.base_url());
    let mut running = tine.env("OPENAI_API_KEY", "k").silent_stdin().start();
    for request in [
        json!({"subtype": "set_model", "model": "b"}),
        json!({"subtype": "set_effort", "effort": "low"}),
    ] {
        let line = json!({"type": "control_request", "request_id": "r", "request": request});
        running.say(&line.to_string());
        let reply = running.read_until(|record| record["type"] == "control_response");
        assert_eq!(reply["response"]["subtype"], "success", "{reply}");
    }
    let message = json!({"type": "user", "message": {"role": "user", "content": "fan out"}});
    running.say(&message.to_string());
    let result = running.read_until(|record| record["type"] == "result");
    assert_eq!(result["result"], "I");
    running.hang_up();
    running.wait().exits(0);
    assert!(first.finish().is_empty());
    let requests = second.finish();
    assert!(requests.iter().all(|it| it.json()["reasoning_effort"] == "low"));
    assert_eq!(requests.len(), 3);
}
