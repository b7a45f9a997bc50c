//! One prompt, one answer, over a real socket: prompts from every side, models
//! by every way, the tool loop and its bytes.

use serde_json::{Value, json};
use tine::model::check::check_continues;

use crate::support::server::{Gate, Reaction, RecordedRequest, Server};
use crate::support::talk::{Talk, serve, serve_calls, shown};
use crate::support::tine::{KEY, Place, Tine};

fn answering(text: &str) -> Server {
    let reply = Reaction::text_reply(text);
    serve(move |_| reply.clone())
}

/// Returns the one request of a run.
#[track_caller]
fn one_request(server: Server) -> RecordedRequest {
    let requests = server.finish();
    let [request] = <[_; 1]>::try_from(requests).expect("one prompt, one request");
    request
}

#[track_caller]
fn check_prompt(arguments: &[&str], stdin: Option<&str>, expected: &str) {
    let (place, server) = (Place::new(), answering("Hello"));
    let mut tine = place.tine(["-m", "m"].iter().chain(arguments)).server(&server);
    if let Some(stdin) = stdin {
        tine = tine.stdin(stdin);
    }
    let finished = tine.run().exits(0);
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("Hello\n", ""));
    assert_eq!(Talk::of(&one_request(server)).task(), expected, "{arguments:?}");
}

#[test]
fn a_prompt_comes_from_the_command_line_from_standard_input_or_from_both() {
    check_prompt(&["-p", "say it"], None, "say it");
    check_prompt(&["--print", "say it"], None, "say it");
    check_prompt(&["say it"], None, "say it");
    check_prompt(&["-p", "-"], Some("piped\nin\n"), "piped\nin");
    check_prompt(&["-p"], Some("piped in"), "piped in");
    check_prompt(&[], Some("piped in"), "piped in");
    let both = "say it\n\n<stdin>\npiped in\n</stdin>";
    check_prompt(&["-p", "say it"], Some("piped in\n"), both);
    check_prompt(&["-p", "say it"], Some(""), "say it");
    check_prompt(&["-p", "say it"], Some("caf\u{e9}"), "say it\n\n<stdin>\ncaf\u{e9}\n</stdin>");
}

#[test]
fn an_open_and_silent_pipe_does_not_hang_a_run_that_has_a_prompt() {
    let (place, server) = (Place::new(), answering("Hello"));
    // As run by a script whose standard input is a pipe that no process closes.
    let script = place.asking(&server, &[]).by("sh", ["-c", "\"$@\"; exit $?", "sh"]);
    let finished = script.silent_stdin().run().exits(0);
    assert_eq!(finished.stdout, "Hello\n");
    assert!(finished.stderr.starts_with("note: standard input is open but silent"));
    assert_eq!(Talk::of(&one_request(server)).task(), "go");
}

#[test]
fn no_prompt_at_all_is_a_usage_error() {
    let said = "error: there is no prompt\nhint: give one: `tine -p \"PROMPT\"`, or pipe it in; \
                `tine --help` lists all commands\n";
    Place::new().tine(["-p", "-m", "offline"]).run().refuses(2, said);
    Place::new().tine(["-p", "-", "-m", "offline"]).stdin(" \n").run().refuses(2, said);
}

#[test]
fn the_environment_names_server_key_and_model() {
    let (place, server) = (Place::new(), answering("Hello"));
    place.ask(&server, &[]).exits(0);
    let request = one_request(server);
    assert_eq!((&*request.method, &*request.path), ("POST", "/v1/chat/completions"));
    assert_eq!(request.header("authorization"), Some(&*format!("Bearer {KEY}")));
    let talk = Talk::of(&request);
    assert_eq!(talk.model(), "m");
    assert_eq!(talk.tools(), tine::tool_name::KNOWN);
}

#[test]
fn a_configured_model_has_its_own_server_key_name_and_fields() {
    let (place, server) = (Place::new(), answering("Hello"));
    place.configure(&format!(
        "[models.small]\nbase_url = \"{}/\"\nkey_env = \"SMALL_KEY\"\nmodel = \"small-9\"\n\
         max_output_tokens = 77\nheaders = {{ X-Team = \"tools\" }}\nextra_body = {{ top_k = 20 }}\n",
        server.base_url()
    ));
    let run = |tine: Tine| tine.env("SMALL_KEY", "sk-small").run().exits(0);
    // The only one needs no choosing, and neither of these is its server.
    run(place.tine(["-p", "go"]).env("OPENAI_API_KEY", KEY));
    run(place.tine(["-p", "go", "-m", "small"]).env("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"));
    let requests = server.finish();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(request.header("authorization"), Some("Bearer sk-small"));
        assert_eq!(request.header("x-team"), Some("tools"));
        let body = request.json();
        assert_eq!(body["model"], "small-9");
        assert_eq!(body["max_tokens"], 77);
        assert_eq!(body["top_k"], 20);
    }
}

#[test]
fn an_unknown_model_says_where_to_configure_it() {
    let said = "error: model `other` is not configured\nhint: add it under `[models]` in \
                `config.toml`, or pass `-m PRESET:other`; `tine models` lists what there is\n";
    Place::new().tine(["-p", "go", "-m", "other"]).run().refuses(52, said);
}

#[test]
fn the_exit_code_says_what_went_wrong() {
    let error = |code| Reaction::json(code, &json!({ "error": { "message": "not today" } }));
    for (code, exit) in [(401, 41), (403, 41), (400, 1), (429, 75), (500, 75)] {
        let server = serve(move |_| error(code));
        let finished = Place::new().ask(&server, &[]).exits(exit);
        assert_eq!(finished.stdout, "");
        assert!(finished.stderr.starts_with("error: ") && finished.stderr.contains("not today"));
        let result = Place::new().ask(&server, &["-o", "json"]).exits(exit).result();
        assert_eq!((&result["is_error"], &result["result"]), (&json!(true), &Value::Null));
        assert!(result["errors"][0].as_str().unwrap().contains("not today"), "{result}");
    }
    let nobody = Place::new()
        .tine(["-p", "go", "-m", "m", "--config", "retry.most=0"])
        .env("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
        .run()
        .exits(75);
    assert!(nobody.stderr.contains("http://127.0.0.1:1/v1"), "{}", nobody.stderr);
}

#[test]
fn a_turn_limit_ends_the_run_with_what_there_is() {
    let server =
        serve(|_| Reaction::reply(Some("Looking."), &[("Glob", json!({ "pattern": "*" }))]));
    let finished = Place::new().ask(&server, &["--max-turns", "2"]).exits(53);
    assert_eq!(finished.stdout, "Looking.\n");
    assert!(finished.stderr.ends_with("error: reached its limit of 2 turns (`--max-turns`)\n"));
    let records = Place::new().ask(&server, &["--max-turns", "2", "-o", "stream-json"]).records();
    assert_eq!(records.result()["subtype"], "error_max_turns");
    assert_eq!(server.finish().len(), 4);
}

#[test]
fn a_tool_loop_goes_on_until_an_answer_has_no_calls() {
    let place = Place::new();
    place.write("notes.txt", "the word is fork\n");
    let server = serve(|talk| match talk.turn() {
        1 => Reaction::call_reply(&[("Glob", json!({ "pattern": "*.txt" }))]),
        2 => Reaction::call_reply(&[("Read", json!({ "file_path": "notes.txt" }))]),
        3 => Reaction::call_reply(&[("Grep", json!({ "pattern": "fork" }))]),
        _ => Reaction::text_reply("It is fork."),
    });
    let finished = place.ask(&server, &[]).exits(0);
    assert_eq!(finished.stdout, "It is fork.\n");
    assert_eq!(finished.stderr, "Glob *.txt\nRead notes.txt\nGrep fork\n");
    let requests = server.finish();
    let outputs: Vec<_> =
        requests.iter().map(|request| Talk::of(request).outputs().join("")).collect();
    assert_eq!(outputs[0], "");
    assert!(outputs[1].contains("notes.txt"), "{outputs:?}");
    assert_eq!(outputs[2], "     1\tthe word is fork\n");
    assert!(outputs[3].contains("notes.txt"), "{outputs:?}");
    for pair in requests.windows(2) {
        assert_eq!(check_continues(&pair[0].body, &pair[1].body), Ok(()));
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let place = Place::new();
    place.write("AGENTS.md", "Be brief.\n");
    place.write(".tine/skills/tidy/SKILL.md", "---\ndescription: Tidies.\n---\nTidy.\n");
    place.write(".tine/agents/cook.md", "---\nname: cook\ndescription: Cooks.\n---\nCook.\n");
    let calls = [("Glob", json!({ "pattern": "*" })), ("Nope", json!({ "b": 1, "a": 2 }))];
    let bodies = |_| {
        let server = serve_calls(&calls, |_| Reaction::Close);
        place.ask(&server, &[]).exits(0);
        server.finish().into_iter().map(|request| request.body).collect::<Vec<_>>()
    };
    let [first, second] = [1, 2].map(bodies);
    assert_eq!(first.len(), 2);
    assert_eq!(first, second);
}

#[test]
fn instructions_of_the_project_are_in_the_system_prompt() {
    let (place, server) = (Place::new(), answering("Hello"));
    place.write("AGENTS.md", "Never touch vendor/.\n");
    place.ask(&server, &["--append-system-prompt", "Answer in verse."]).exits(0);
    let request = one_request(server);
    let talk = Talk::of(&request);
    assert!(talk.system().contains("Never touch vendor/."), "{}", talk.system());
    assert!(talk.system().contains("Answer in verse."), "{}", talk.system());
}

/// Two single Agent calls in one turn; `early` ends before `late` may answer.
#[test]
fn safe_calls_of_a_turn_run_side_by_side_and_their_outputs_go_back_in_call_order() {
    let task =
        |name: &str| json!({ "description": name, "prompt": name, "subagent_type": "explore" });
    let calls = [("Agent", task("late")), ("Agent", task("early"))];
    let gate = Gate::closed();
    let server = serve_calls(&calls, {
        let gate = gate.clone();
        move |talk| match talk.task() {
            "late" => Reaction::text_reply("late's answer").behind(&gate),
            _ => Reaction::text_reply("early's answer"),
        }
    });
    let place = Place::new();
    let mut running = place.asking(&server, &["-o", "stream-json"]).start();
    running.read_until(|record| record["message"]["content"][0]["content"] == "early's answer");
    gate.open();
    let records = running.wait().exits(0).records();
    let outputs = records.outputs();
    let in_time: Vec<_> = outputs.iter().map(|output| output.text.as_str()).collect();
    assert_eq!(in_time, ["early's answer", "late's answer"]);
    assert_eq!(shown(&server.finish()), ["late's answer", "early's answer"]);
}

#[test]
fn calls_that_change_something_run_one_after_the_other() {
    let append =
        |word: &str| ("Bash", json!({ "command": format!("cat log; echo {word} >> log") }));
    let calls = [append("one"), append("two"), append("three")];
    let server = serve_calls(&calls, |_| Reaction::Close);
    let place = Place::new();
    place.write("log", "");
    place.ask(&server, &["--permission-mode", "bypassPermissions"]).exits(0);
    assert_eq!(shown(&server.finish()), ["(no output)", "one\n", "one\ntwo\n"]);
    assert_eq!(place.read("log").as_deref(), Some("one\ntwo\nthree\n"));
}

#[test]
fn commands_never_see_the_key() {
    let calls = [("Bash", json!({ "command": "echo ${OPENAI_API_KEY-unset}" }))];
    let server = serve_calls(&calls, |_| Reaction::Close);
    Place::new().ask(&server, &["--permission-mode", "bypassPermissions"]).exits(0);
    assert_eq!(shown(&server.finish()), ["unset\n"]);
}

#[test]
fn an_empty_answer_is_told_as_one() {
    let server = serve(|_| Reaction::text_reply(""));
    let finished = Place::new().ask(&server, &[]).exits(75);
    assert!(finished.stderr.contains("the answer is empty"), "{}", finished.stderr);
}

#[test]
fn a_second_prompt_and_a_prompt_beside_a_command_are_refused() {
    for arguments in [&["-p", "one", "two"][..], &["-p", "one", "doctor"]] {
        let finished = Place::new().tine(arguments).run().exits(2);
        assert!(finished.stderr.contains("prompt"), "{}", finished.stderr);
    }
}

#[test]
fn flags_of_other_harnesses_are_accepted_and_said_to_do_nothing() {
    let server = serve(|_| Reaction::text_reply("ok"));
    let flags = ["--verbose", "--betas", "context", "--ide"];
    let finished = Place::new().ask(&server, &flags).exits(0);
    assert_eq!(finished.stdout, "ok\n");
    let said = "note: `--betas` does nothing here\n\
                note: `--ide` does nothing here\n";
    assert!(finished.stderr.starts_with(said), "{}", finished.stderr);
}
