//! Hooks at the binary: real commands at every moment, with every end, and
//! none that nobody has agreed to.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tine::event::{EventKind, HookDecision, HookEvent, HookOutcome, SessionId};
use tine::hook::{self, Brought, Callback, Client, Handler, Hook, Hooks, Matcher, Source};
use tine::message::CallId;
use tine::run::{Boundaries, Signal};

use crate::support::bodies::{self, model_on};
use crate::support::inside::Setup;
use crate::support::server::{Reaction, Server};
use crate::support::talk::{Talk, serve, serve_calls, shown};
use crate::support::tine::{Finished, Place, executable};

/// Adds a line of what it is told to `told`.
const TELLS: &str = "cat >> told";

/// Hooks of one moment, as settings write them.
fn hooks(event: &str, matcher: &str, commands: &[&str]) -> Value {
    let hooks: Vec<Value> = commands
        .iter()
        .map(|command| json!({ "type": "command", "command": command, "timeout": 30 }))
        .collect();
    json!({ "hooks": { event: [{ "matcher": matcher, "hooks": hooks }] } })
}

fn one(event: &str, command: &str) -> Value {
    hooks(event, "*", &[command])
}

/// A command that answers with JSON.
fn answers(json: &Value) -> String {
    format!("cat > /dev/null; printf %s '{json}'")
}

/// A command that answers with what is specific for its moment.
fn specific(event: &str, mut fields: Value) -> String {
    fields["hookEventName"] = event.into();
    answers(&json!({ "hookSpecificOutput": fields }))
}

fn bash(command: &str) -> (&'static str, Value) {
    ("Bash", json!({ "command": command }))
}

/// Lets main make these calls, with these hooks; returns their outputs.
fn call(
    place: &Place,
    calls: &[(&str, Value)],
    settings: &Value,
    flags: &[&str],
) -> (Vec<String>, Finished) {
    let server = serve_calls(calls, |_| Reaction::text_reply("looked"));
    let settings = settings.to_string();
    let flags = [&["-o", "stream-json", "--settings", &settings], flags].concat();
    let finished = place.ask(&server, &flags).exits(0);
    (shown(&server.finish()), finished)
}

/// Asks for something that needs no call; returns what the model read last.
fn prompt(place: &Place, settings: &Value, flags: &[&str]) -> (Vec<Value>, Finished) {
    let server = serve(|_| Reaction::text_reply("done"));
    let settings = settings.to_string();
    let flags = [&["-o", "stream-json", "--settings", &settings], flags].concat();
    let finished = place.ask(&server, &flags);
    (server.finish().iter().map(|request| request.json()).collect(), finished)
}

/// Reads what the hooks of a place were told, in order.
fn told(place: &Place) -> Vec<Value> {
    let told = place.read("told").unwrap_or_default();
    told.lines().map(|line| serde_json::from_str(line).expect("hooks are told JSON")).collect()
}

/// Returns the records of hooks: moment, outcome, decision and reason.
fn ran(finished: &Finished) -> Vec<[String; 4]> {
    let text = |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let records = finished.records();
    let responses = records.system("hook_response").into_iter();
    let fields = ["hook_event", "outcome", "decision", "reason"];
    responses.map(|record| fields.map(|name| text(record, name))).collect()
}

#[track_caller]
fn has_ran(finished: &Finished, expected: &[[&str; 4]]) {
    assert_eq!(ran(finished), expected);
}

#[test]
fn a_hook_is_told_of_a_call_before_and_after_it() {
    let place = Place::new();
    let settings = json!({ "hooks": {
        "PreToolUse": [{ "matcher": "Bash", "hooks": [{ "type": "command", "command": TELLS }] }],
        "PostToolUse": [{ "matcher": "Ba.*", "hooks": [{ "type": "command", "command": TELLS }] }],
        "Stop": [{ "hooks": [{ "type": "command", "command": "printenv CLAUDE_PROJECT_DIR TINE_PROJECT_DIR > dirs" }] }],
    } });
    let allowed = ["--allowed-tools", "Bash(echo *)"];
    let (outputs, finished) = call(&place, &[bash("echo hi")], &settings, &allowed);
    assert_eq!(outputs, ["hi\n"]);
    let session = finished.records().0[0]["session_id"].clone();
    let log = place.sessions()[0].join("log.jsonl");
    let common = |event: &str| {
        json!({ "session_id": session, "transcript_path": log, "cwd": place.work(),
            "permission_mode": "default", "hook_event_name": event, "tool_name": "Bash",
            "tool_input": { "command": "echo hi" }, "tool_use_id": "call_a" })
    };
    let mut after = common("PostToolUse");
    after["tool_response"] = json!({ "content": "hi\n", "is_error": false });
    assert_eq!(told(&place), [common("PreToolUse"), after]);
    let directory = place.work().display().to_string();
    assert_eq!(place.read("dirs").unwrap(), format!("{directory}\n{directory}\n"));
}

#[test]
fn status_2_denies_a_call_and_the_model_reads_why() {
    let place = Place::new();
    let settings = one("PreToolUse", "echo not on Mondays >&2; exit 2");
    let (outputs, finished) =
        call(&place, &[bash("touch made")], &settings, &["--dangerously-skip-permissions"]);
    let expected = "Permission to use Bash denied: a hook says no: not on Mondays";
    assert_eq!(outputs, [expected]);
    assert_eq!(place.read("made"), None);
    has_ran(&finished, &[["PreToolUse", "success", "deny", "not on Mondays"]]);
    assert_eq!(finished.records().system("permission_denied").len(), 1);
}

#[test]
fn a_hook_before_a_call_that_fails_in_any_way_denies_the_call_unless_it_says_otherwise() {
    for (command, expected) in [
        ("echo oh >&2; exit 1", "ended with exit status 1: oh"),
        ("kill -KILL $$", "ended with signal 9"),
        ("echo '{\"decision\":'", "printed JSON that cannot be read"),
        ("echo '{\"decision\":\"maybe\"}'", "answered with the unknown `decision` `maybe`"),
        ("yes | head -c 2000000", "printed more than 1048576 bytes"),
        ("exec <&-; exit 3", "ended with exit status 3"),
    ] {
        let (place, mut settings) = (Place::new(), one("PreToolUse", command));
        let allowed = ["--allowed-tools", "Bash(echo *)"];
        let (outputs, finished) = call(&place, &[bash("echo hi")], &settings, &allowed);
        let [[_, outcome, decision, reason]] = &ran(&finished)[..] else { panic!("{command}") };
        assert_eq!((&**outcome, &**decision), ("success", "deny"), "{command}");
        assert!(reason.contains(expected), "{command}: {reason}");
        let denied = "Permission to use Bash denied: a hook says no: the hook `";
        assert!(outputs[0].starts_with(denied) && outputs[0].contains(expected), "{outputs:?}");
        settings["hooks"]["PreToolUse"][0]["hooks"][0]["onFailure"] = json!("warn");
        let (outputs, finished) = call(&place, &[bash("echo hi")], &settings, &allowed);
        assert_eq!(outputs, ["hi\n"], "{command}");
        let [[_, outcome, decision, reason]] = &ran(&finished)[..] else { panic!("{command}") };
        assert_eq!((&**outcome, &**decision), ("error", ""), "{command}");
        assert!(reason.starts_with(expected), "{command}: {reason}");
    }
}

#[test]
fn a_hook_that_hangs_is_ended_at_its_limit_with_its_whole_group() {
    let place = Place::new();
    let command = "sleep 1000 & echo $! > sleeper; wait";
    let hook =
        json!({ "type": "command", "command": command, "timeout": 0.5, "onFailure": "warn" });
    let settings = json!({ "hooks": { "PreToolUse": [{ "hooks": [hook] }] } });
    let allowed = ["--allowed-tools", "Bash(echo *)"];
    let (outputs, finished) = call(&place, &[bash("echo hi")], &settings, &allowed);
    assert_eq!(outputs, ["hi\n"]);
    has_ran(&finished, &[["PreToolUse", "error", "", "ran past its limit of 0.5 s"]]);
    let sleeper = PathBuf::from("/proc").join(place.read("sleeper").unwrap().trim());
    // One that nobody waits for any more stays as a name until it is reaped.
    let state = std::fs::read_to_string(sleeper.join("stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
    let stderr = place
        .ask(
            &serve_calls(&[bash("true")], |_| Reaction::Close),
            &["--settings", &settings.to_string()],
        )
        .stderr;
    assert!(stderr.contains("warning: PreToolUse hook `sleep 1000 &"), "{stderr}");
}

#[test]
fn a_decision_of_a_hook_stands_between_rules_and_modes() {
    let decides = |decision: &str| {
        let reason = json!({ "permissionDecision": decision, "permissionDecisionReason": "so" });
        one("PreToolUse", &specific("PreToolUse", reason))
    };
    let bypass = "--dangerously-skip-permissions";
    let denied = |reason: &str| format!("Permission to use Bash denied: {reason}");
    for (decision, flags, expected) in [
        ("allow", vec![], "hi\n".to_owned()),
        ("deny", vec![bypass], denied("a hook says no: so")),
        ("deny", vec!["--allowed-tools", "Bash"], denied("a hook says no: so")),
        ("ask", vec![bypass], denied("a hook has it asked: so; nobody can be asked")),
        (
            "allow",
            vec!["--disallowed-tools", "Bash(echo *)"],
            denied("denied by the rule `Bash(echo *)`"),
        ),
        (
            "allow",
            vec!["--config", "permissions.ask=['Bash(echo *)']"],
            denied("the rule `Bash(echo *)` has it asked; nobody can be asked"),
        ),
    ] {
        // What only reads would run unasked.
        let call_it = [bash("echo hi; true > /dev/null; : > made")];
        let (outputs, _) = call(&Place::new(), &call_it, &decides(decision), &flags);
        assert_eq!(outputs, [expected], "{decision} {flags:?}");
    }
}

#[test]
fn arguments_that_a_hook_changes_are_decided_about_anew() {
    let place = Place::new();
    let change = |command: &str| {
        let fields =
            json!({ "permissionDecision": "allow", "updatedInput": { "command": command } });
        one("PreToolUse", &specific("PreToolUse", fields))
    };
    let (outputs, finished) = call(&place, &[bash("echo one > a")], &change("echo two"), &[]);
    assert_eq!(outputs, ["two\n"]);
    assert_eq!(place.read("a"), None);
    assert_eq!(finished.records().system("hook_response")[0]["updated_input"], true);
    let flags = ["--disallowed-tools", "Bash(rm *)"];
    let (outputs, _) = call(&place, &[bash("echo one")], &change("rm -r x"), &flags);
    assert_eq!(outputs, ["Permission to use Bash denied: denied by the rule `Bash(rm *)`"]);
}

#[test]
fn what_hooks_say_of_a_call_stands_below_its_output() {
    let place = Place::new();
    let context = |event: &str, text: &str| specific(event, json!({ "additionalContext": text }));
    let settings = json!({ "hooks": {
        "PreToolUse": [{ "hooks": [{ "type": "command", "command": context("PreToolUse", "before") }] }],
        "PostToolUse": [{ "hooks": [
            { "type": "command", "command": context("PostToolUse", "after") },
            { "type": "command", "command": "echo format it >&2; exit 2" },
        ] }],
    } });
    let allowed = ["--allowed-tools", "Bash(echo *)"];
    let (outputs, finished) = call(&place, &[bash("echo hi")], &settings, &allowed);
    let expected = "hi\n\n\n<hook event=\"PreToolUse\">\nbefore\n</hook>\n\n\
                    <hook event=\"PostToolUse\">\nformat it\n</hook>\n\n\
                    <hook event=\"PostToolUse\">\nafter\n</hook>";
    assert_eq!(outputs, [expected]);
    assert_eq!(ran(&finished).len(), 3);
}

#[test]
fn a_hook_after_a_call_gives_the_model_another_output() {
    let place = Place::new();
    let output = |text: &str| specific("PostToolUse", json!({ "updatedToolOutput": text }));
    let settings = json!({ "hooks": { "PostToolUse": [{ "hooks": [
        { "type": "command", "command": output("first") },
        { "type": "command", "command": output("nothing to see") },
        { "type": "command", "command": "echo format it >&2; exit 2" },
    ] }] } });
    let (outputs, _) =
        call(&place, &[bash("echo hi")], &settings, &["--allowed-tools", "Bash(echo *)"]);
    let below = "<hook event=\"PostToolUse\">\nformat it\n</hook>";
    assert_eq!(outputs, [format!("nothing to see\n\n{below}")]);
}

#[test]
fn a_hook_that_wants_no_more_ends_the_work_and_every_call_has_its_output() {
    let place = Place::new();
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let settings = hooks("PreToolUse", "Bash", &[&answers(&stop)]);
    let server = serve_calls(&[bash("touch a"), bash("touch b")], |_| Reaction::Close);
    let flags = ["-o", "stream-json", "--yolo", "--settings", &settings.to_string()];
    let finished = place.ask(&server, &flags).exits(1);
    assert_eq!(server.finish().len(), 1);
    let records = finished.records();
    let outputs: Vec<String> = records.outputs().into_iter().map(|output| output.text).collect();
    let expected = [
        "Permission to use Bash denied: a hook says no: enough",
        "Not run: a hook has ended the work.",
    ];
    assert_eq!(outputs, expected);
    assert_eq!(records.result()["errors"], json!(["a hook ended the work: enough"]));
    assert_eq!((place.read("a"), place.read("b")), (None, None));
}

#[test]
fn a_hook_answers_in_a_persons_stead() {
    let decides = |decision: Value| {
        one("PermissionRequest", &specific("PermissionRequest", json!({ "decision": decision })))
    };
    let place = Place::new();
    let yes = decides(json!({ "behavior": "allow" }));
    let (outputs, finished) = call(&place, &[bash("echo hi > made; cat made")], &yes, &[]);
    assert_eq!(outputs, ["hi\n"]);
    has_ran(&finished, &[["PermissionRequest", "success", "allow", ""]]);
    let no = decides(json!({ "behavior": "deny", "message": "ask me tomorrow" }));
    let (outputs, _) = call(&place, &[bash("echo hi > made")], &no, &[]);
    assert_eq!(outputs, ["Permission to use Bash denied: a hook says no: ask me tomorrow"]);
    let changed = decides(json!({ "behavior": "allow", "updatedInput": { "command": "rm -r x" } }));
    let flags = ["--disallowed-tools", "Bash(rm *)"];
    let (outputs, _) = call(&place, &[bash("echo hi > made")], &changed, &flags);
    let expected = "with a hook's arguments: denied by the rule `Bash(rm *)`";
    assert_eq!(outputs, [format!("Permission to use Bash denied: {expected}")]);
    // What a rule allows nobody would be asked about.
    let (_, finished) = call(&place, &[bash("echo hi")], &no, &["--allowed-tools", "Bash(echo *)"]);
    has_ran(&finished, &[]);
}

#[test]
fn what_is_printed_about_a_prompt_or_a_session_is_read_with_it() {
    let settings = json!({ "hooks": {
        "SessionStart": [
            { "matcher": "startup", "hooks": [{ "type": "command", "command": format!("{TELLS}; echo use tabs") }] },
            { "matcher": "resume", "hooks": [{ "type": "command", "command": format!("{TELLS}; echo again") }] },
        ],
        "UserPromptSubmit": [{ "hooks": [{ "type": "command", "command": format!("{TELLS}; echo it is Monday") }] }],
        "SessionEnd": [{ "matcher": "other", "hooks": [{ "type": "command", "command": "true" }] }],
    } });
    let place = Place::new();
    let (bodies, finished) = prompt(&place, &settings, &[]);
    let ran = ran(&finished.exits(0));
    let events: Vec<&str> = ran.iter().map(|[event, ..]| &**event).collect();
    assert_eq!(events, ["SessionStart", "UserPromptSubmit", "SessionEnd"]);
    let first = Talk::from(bodies[0].clone());
    let expected = "go\n\n<hook event=\"SessionStart\">\nuse tabs\n</hook>\n\n\
                    <hook event=\"UserPromptSubmit\">\nit is Monday\n</hook>";
    assert_eq!(first.task(), expected);
    let events = |told: &[Value]| -> Vec<(String, Value)> {
        let fact = |told: &Value| {
            let names = ["source", "prompt"];
            names.iter().map(|name| told[*name].clone()).find(|fact| !fact.is_null())
        };
        let event = |told: &Value| told["hook_event_name"].as_str().unwrap_or_default().to_owned();
        told.iter().map(|told| (event(told), fact(told).unwrap_or_default())).collect()
    };
    let pair = |event: &str, fact: &str| (event.to_owned(), json!(fact));
    let submit = pair("UserPromptSubmit", "go");
    let mut expected = vec![pair("SessionStart", "startup"), submit.clone()];
    assert_eq!(events(&told(&place)), expected);
    let (bodies, finished) = prompt(&place, &settings, &["--continue"]);
    finished.exits(0);
    assert!(Talk::from(bodies[0].clone()).last_prompt().contains("\nagain\n</hook>"));
    expected.extend([pair("SessionStart", "resume"), submit]);
    assert_eq!(events(&told(&place)), expected);
}

#[test]
fn a_prompt_that_a_hook_blocks_is_not_sent() {
    let place = Place::new();
    let settings = one("UserPromptSubmit", "echo no secrets please >&2; exit 2");
    let (bodies, finished) = prompt(&place, &settings, &[]);
    assert!(bodies.is_empty());
    let finished = finished.exits(1);
    let expected = json!(["a hook blocks the prompt: no secrets please"]);
    assert_eq!(finished.records().result()["errors"], expected);
}

#[test]
fn main_goes_on_until_its_hooks_are_content() {
    let place = Place::new();
    // Content once it is told that it has kept it going already.
    let command =
        "tee -a told | grep -q '\"stop_hook_active\":true' || { echo run the tests >&2; exit 2; }";
    let (bodies, finished) = prompt(&place, &one("Stop", command), &[]);
    let finished = finished.exits(0);
    assert_eq!(bodies.len(), 2);
    let expected = "Your work does not end here: a hook of the user's has looked at it and says what \
                    is still to be done.\n\n<hook event=\"Stop\">\nrun the tests\n</hook>";
    assert_eq!(Talk::from(bodies[1].clone()).last_prompt(), expected);
    let expected = [["Stop", "success", "deny", "run the tests"], ["Stop", "success", "", ""]];
    has_ran(&finished, &expected);
    let held: Vec<Value> =
        told(&place).iter().map(|told| told["stop_hook_active"].clone()).collect();
    assert_eq!(held, [false, true]);
    assert_eq!(told(&place)[0]["last_assistant_message"], "done");
}

#[test]
fn a_hook_that_is_never_content_is_overruled() {
    let (bodies, finished) = prompt(&Place::new(), &one("Stop", "exit 2"), &[]);
    let finished = finished.exits(0);
    assert_eq!(bodies.len(), 9);
    let records = finished.records();
    let said = records.system("informational");
    assert!(said[0]["content"].as_str().unwrap().contains("8 times"), "{said:?}");
}

/// Main starts two agents, one of which searches.
fn batch() -> (&'static str, Value) {
    let task =
        |name: &str| json!({ "description": name, "prompt": name, "subagent_type": "explore" });
    ("Agent", json!({ "tasks": [task("left"), task("right")] }))
}

#[test]
fn hooks_of_agents_are_told_which_agent_it_is() {
    let place = Place::new();
    let tells = [{ json!({ "type": "command", "command": TELLS }) }];
    let settings = json!({ "hooks": {
        "SubagentStart": [{ "matcher": "explore", "hooks": tells }],
        "SubagentStop": [{ "matcher": "explore", "hooks": tells }],
        "PreToolUse": [{ "matcher": "Glob", "hooks": tells }],
        "Stop": [{ "hooks": tells }],
    } });
    let server = serve_calls(&[batch()], |talk| match talk.turn() {
        1 => Reaction::call_reply(&[("Glob", json!({ "pattern": "*.none" }))]),
        _ => Reaction::text_reply("looked"),
    });
    place.ask(&server, &["--settings", &settings.to_string()]).exits(0);
    drop(server.finish());
    for agent in ["agent-1", "agent-2"] {
        let told = told(&place);
        let own: Vec<&Value> = told.iter().filter(|told| told["agent_id"] == agent).collect();
        let events: Vec<&Value> = own.iter().map(|told| &told["hook_event_name"]).collect();
        assert_eq!(events, ["SubagentStart", "PreToolUse", "SubagentStop"]);
        assert!(own.iter().all(|told| told["agent_type"] == "explore"));
    }
    let of_main: Vec<Value> =
        told(&place).into_iter().filter(|told| told["agent_id"].is_null()).collect();
    let [stop] = &of_main[..] else { panic!("{of_main:?}") };
    assert_eq!(stop["hook_event_name"], "Stop");
}

#[test]
fn agents_begin_with_what_hooks_add_and_go_on_until_they_are_content() {
    let place = Place::new();
    let context = specific("SubagentStart", json!({ "additionalContext": "speak softly" }));
    let command = "grep -q '\"stop_hook_active\":true' || { echo say more >&2; exit 2; }";
    let settings = json!({ "hooks": {
        "SubagentStart": [{ "hooks": [{ "type": "command", "command": context }] }],
        "SubagentStop": [{ "hooks": [{ "type": "command", "command": command }] }],
    } });
    let server = serve_calls(&[batch()], |_| Reaction::text_reply("looked"));
    place.ask(&server, &["--settings", &settings.to_string()]).exits(0);
    let requests = server.finish();
    let talks: Vec<Talk> = requests.iter().map(Talk::of).collect();
    let of_agents =
        |text: &str| talks.iter().filter(|talk| talk.last_prompt().contains(text)).count();
    assert_eq!(of_agents("\n\n<hook event=\"SubagentStart\">\nspeak softly\n</hook>"), 2);
    assert_eq!(of_agents("<hook event=\"SubagentStop\">\nsay more\n</hook>"), 2);
}

#[test]
fn a_slow_hook_of_one_agent_holds_up_no_other() {
    let place = Place::new();
    let fifo = place.work().join("gate");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("the place is ours");
    // The one waits until the other one's agent has ended.
    let start = "case $(cat) in *'\"prompt\":'*left*) read word < gate;; esac";
    let stop = "case $(cat) in *'\"agent_id\":\"agent-2\"'*) echo go > gate;; esac";
    let settings = json!({ "hooks": {
        "SubagentStart": [{ "hooks": [{ "type": "command", "command": start }] }],
        "SubagentStop": [{ "hooks": [{ "type": "command", "command": stop }] }],
    } });
    let server = serve_calls(&[batch()], |_| Reaction::text_reply("looked"));
    let finished = place.ask(&server, &["-o", "stream-json", "--settings", &settings.to_string()]);
    let finished = finished.exits(0);
    assert!(ran(&finished).iter().all(|[_, outcome, ..]| outcome == "success"));
}

#[test]
fn an_agent_that_never_starts_asks_no_hook() {
    let place = Place::new();
    let settings = one("SubagentStart", TELLS);
    let server = serve_calls(&[batch()], |_| Reaction::Hang);
    let flags = ["-o", "stream-json", "--config", "agents.max_concurrent=1", "--settings"];
    let settings = settings.to_string();
    let mut running = place.asking(&server, &[&flags[..], &[&settings]].concat()).start();
    running.read_until(|record| record["subtype"] == "hook_response");
    running.signal(nix::sys::signal::Signal::SIGTERM);
    running.wait().exits(143);
    drop(server);
    let told = told(&place);
    let agents: Vec<&Value> = told.iter().map(|told| &told["agent_id"]).collect();
    assert_eq!(agents, ["agent-1"]);
}

/// Takes note of the moments it is asked at, and answers with nothing.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Client for Notes {
    fn ask<'a>(
        &'a self,
        _: &'a str,
        input: &'a Value,
        _: Option<&'a CallId>,
    ) -> BoxFuture<'a, Result<Value, String>> {
        let event = input["hook_event_name"].as_str().unwrap_or_default().to_owned();
        self.0.lock().expect("nothing panics while it holds the lock").push(event);
        Box::pin(std::future::ready(Ok(json!({}))))
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_is_told_after_a_signal_too() {
    let notes = Arc::new(Notes::default());
    let client = Arc::clone(&notes) as Arc<dyn Client>;
    let hook = |event| Hook {
        event,
        matcher: Matcher::Any,
        handler: Handler::Callback(Callback { id: "notes".into(), client: Arc::clone(&client) }),
        limit: hook::LIMIT,
        on_failure: None,
        footing: hook::Footing::default(),
        note: None,
    };
    let hooks = HookEvent::ALL.map(hook).to_vec();
    let script = json!({ "units": { "main": [{ "text": "so far", "fault": "hang" }] } });
    let setup = Setup {
        hooks: Arc::new(Hooks::new(hooks, setting())),
        boundaries: Boundaries { begins: Some(Source::Startup), ends: true },
        signals: vec![(Duration::from_secs(1), Signal::Terminate)],
        ..Setup::new(script)
    };
    setup.run().await;
    let asked = notes.0.lock().expect("nothing panics while it holds the lock").clone();
    assert_eq!(asked, ["SessionStart", "UserPromptSubmit", "SessionEnd"]);
}

fn setting() -> hook::Setting {
    hook::Setting {
        session: SessionId("test".into()),
        transcript: None,
        shell: "sh".into(),
        variables: vec![("PATH".into(), std::env::var_os("PATH").expect("there is one"))],
        search: tine::guard::SearchPath::default(),
        has_people: false,
    }
}

#[test]
fn hooks_may_keep_a_conversation_from_being_compacted_or_say_what_a_summary_heeds() {
    let script = json!({
        "units": {
            "main": [{ "text": "first" }, { "text": "second" }],
            "main:compact": [{ "text": "sum", "expect": { "contains": ["keep the names"] } }],
        },
    });
    let place = Place::new();
    let model = place.script("script.json", &script);
    let run = |prompt: &str, settings: &Value, more: &[&str]| {
        let settings = settings.to_string();
        let flags = ["-p", prompt, "-m", &model, "-o", "stream-json", "--settings", &settings];
        place.tine(flags.iter().chain(more)).run()
    };
    run("go", &json!({}), &[]).exits(0);
    let blocks = hooks("PreCompact", "manual", &["echo not now >&2; exit 2"]);
    let blocked = run("/compact", &blocks, &["-c"]).exits(1);
    let errors = blocked.records().result()["errors"].clone();
    assert_eq!(errors, json!(["a hook blocks the compaction: not now"]));
    let only_auto = hooks("PreCompact", "auto", &["exit 2"]);
    let mut heeds = one("PreCompact", "tee -a told > /dev/null; echo keep the names");
    heeds["hooks"]["PreCompact"]
        .as_array_mut()
        .unwrap()
        .push(only_auto["hooks"]["PreCompact"][0].clone());
    heeds["hooks"]["SessionStart"] = json!([{ "matcher": "compact", "hooks": [{ "type": "command", "command": "echo still tabs" }] }]);
    let compacted = run("/compact", &heeds, &["-c"]).exits(0);
    assert_eq!(compacted.records().system("compact_boundary").len(), 1);
    assert_eq!(told(&place)[0]["trigger"], "manual");
    let events: Vec<[String; 4]> = ran(&compacted);
    assert_eq!(
        events.iter().map(|ran| &*ran[0]).collect::<Vec<_>>(),
        ["PreCompact", "SessionStart"]
    );
    let log: Vec<Value> = place.log();
    let prompted = log.iter().rfind(|line| line["kind"] == "prompted").expect("there is one");
    assert_eq!(prompted["body"]["text"], "<hook event=\"SessionStart\">\nstill tabs\n</hook>");
}

#[test]
fn hooks_are_told_that_a_person_is_waited_for() {
    let place = Place::new();
    let settings = one("Notification", TELLS).to_string();
    let server = serve_calls(&[bash("make all")], |_| Reaction::Close);
    let flags = ["--input-format", "stream-json", "-o", "stream-json", "-m", "m"];
    let mut running = place
        .tine(flags.iter().chain(&["--settings", &settings]))
        .server(&server)
        .silent_stdin()
        .start();
    running.say(
        &json!({ "type": "user", "message": { "role": "user", "content": "go" } }).to_string(),
    );
    let (mut question, mut is_told) = (None, false);
    running.read_until(|record| {
        is_told |= record["subtype"] == "hook_response";
        question =
            (record["type"] == "control_request").then(|| record.clone()).or(question.take());
        is_told && question.is_some()
    });
    let question = question.expect("it was waited for");
    let answer = json!({ "behavior": "deny", "message": "no" });
    let response =
        json!({ "subtype": "success", "request_id": question["request_id"], "response": answer });
    running.say(&json!({ "type": "control_response", "response": response }).to_string());
    running.read_until(|record| record["type"] == "result");
    running.hang_up();
    running.wait().exits(0);
    drop(server.finish());
    let told = told(&place);
    let [notification] = &told[..] else { panic!("{told:?}") };
    assert_eq!(notification["notification_type"], "permission_prompt");
    assert_eq!(notification["message"], "main needs your permission to use Bash");
}

#[test]
fn where_nobody_is_there_nobody_is_told() {
    let (_, finished) = call(&Place::new(), &[bash("make")], &one("Notification", TELLS), &[]);
    has_ran(&finished, &[]);
}

#[test]
fn all_hooks_of_a_moment_run_at_once() {
    let place = Place::new();
    let fifo = place.work().join("meet");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("the place is ours");
    // Each end of a pipe waits for the other one.
    let meeting = ["read word < meet; echo $word >&2; exit 2", "echo met > meet"];
    let allowed = ["--allowed-tools", "Bash(echo *)"];
    let settings = hooks("PreToolUse", "Bash", &meeting);
    let (outputs, _) = call(&place, &[bash("echo hi")], &settings, &allowed);
    assert_eq!(outputs, ["Permission to use Bash denied: a hook says no: met"]);
}

#[test]
fn the_log_tells_of_each_hook_and_people_of_those_that_block_or_fail() {
    let place = Place::new();
    let settings = json!({ "hooks": {
        "PreToolUse": [{ "hooks": [{ "type": "command", "command": "exit 0" }] }],
        "PostToolUse": [{ "hooks": [{ "type": "command", "command": "echo later >&2; exit 2" }] }],
        "Stop": [{ "hooks": [{ "type": "command", "command": "exit 7" }] }],
    } });
    let server = serve_calls(&[bash("echo hi")], |_| Reaction::Close);
    let flags = ["--allowed-tools", "Bash(echo *)", "--settings", &settings.to_string()];
    let finished = place.ask(&server, &flags).exits(0);
    drop(server.finish());
    let said: Vec<&str> = finished.stderr.lines().filter(|line| line.contains("hook")).collect();
    assert_eq!(said.len(), 2, "{}", finished.stderr);
    assert!(said[0].ends_with("PostToolUse hook `echo later >&2; exit 2` objects: later"));
    assert!(said[1].ends_with("warning: Stop hook `exit 7` ended with exit status 7"));
    let log = place.log();
    let ran: Vec<&Value> =
        log.iter().filter(|line| line["kind"] == "hook_ran").map(|line| &line["body"]).collect();
    let outcomes: Vec<(&Value, &Value)> =
        ran.iter().map(|body| (&body["event"], &body["outcome"])).collect();
    let expected = [("PreToolUse", "done"), ("PostToolUse", "blocked"), ("Stop", "failed")];
    let expected = expected.map(|(event, outcome)| (json!(event), json!(outcome)));
    assert_eq!(outcomes, expected.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>());
    assert_eq!(ran[0]["call"], "call_a");
}

/// Files in which a repository may bring hooks along.
const BROUGHT: [&str; 3] =
    [".claude/settings.json", ".claude/settings.local.json", ".tine/hooks.json"];

/// Runs a prompt and tells whether a hook of the repository ran.
#[track_caller]
fn runs(place: &Place, flags: &[&str]) -> bool {
    let _ = std::fs::remove_file(place.work().join("told"));
    let server = serve(|_| Reaction::text_reply("done"));
    place.ask(&server, flags).exits(0);
    drop(server.finish());
    place.read("told").is_some()
}

#[test]
fn hooks_of_a_repository_run_once_exactly_these_bytes_are_trusted() {
    for file in BROUGHT {
        let place = Place::new();
        place.write(file, one("Stop", "./look.sh").to_string());
        let script = place.work().join("look.sh");
        executable(&script, &format!("#!/bin/sh\n{TELLS}\n"));
        assert!(!runs(&place, &[]), "{file}");
        assert!(runs(&place, &["--trust"]), "{file}");
        place.tine(["trust", "--yes"]).run().exits(0);
        assert!(runs(&place, &[]), "{file}");
        // What would run is part of what is trusted.
        executable(&script, &format!("#!/bin/sh\n# else\n{TELLS}\n"));
        assert!(!runs(&place, &[]), "{file}");
        place.tine(["trust", "--yes"]).run().exits(0);
        assert!(runs(&place, &[]), "{file}");
        place.write(file, one("Stop", "./look.sh; true").to_string());
        assert!(!runs(&place, &[]), "{file}");
    }
}

#[test]
fn trust_shows_what_would_run_and_a_run_without_it_says_what_is_left_out() {
    let place = Place::new();
    place.write(BROUGHT[0], one("Stop", "./look.sh").to_string());
    let asked = place.tine(["trust"]).run();
    assert!(
        asked.stderr.contains("hooks.Stop[].hooks[].command = \"./look.sh\""),
        "{}",
        asked.stderr
    );
    let server = serve(|_| Reaction::text_reply("done"));
    let stderr = place.ask(&server, &[]).exits(0).stderr;
    drop(server.finish());
    assert!(
        stderr.contains("note: `.claude/settings.json` not used: this repository is not trusted")
    );
    // Settings without hooks ask for nothing.
    place.write(BROUGHT[0], json!({ "permissions": { "allow": ["Bash"] } }).to_string());
    let asked = place.tine(["trust"]).run().exits(0);
    assert!(asked.stderr.contains("brings nothing along"), "{}", asked.stderr);
}

#[test]
fn settings_of_a_repository_that_cannot_be_used_are_an_error_once_they_are_trusted() {
    for (text, expected) in [
        ("{\"hooks\": ".to_owned(), "it is not valid JSON: "),
        (
            json!({ "hooks": [{ "matcher": "(", "hooks": [] }] }).to_string(),
            "`hooks` must be an object",
        ),
    ] {
        let place = Place::new();
        place.write(BROUGHT[0], &text);
        let refused = place.tine(["-p", "go", "-m", "offline", "--trust"]).run().exits(52);
        let begin = "error: hooks of `.claude/settings.json` cannot be used: ";
        assert!(refused.stderr.starts_with(&format!("{begin}{expected}")), "{}", refused.stderr);
        assert_eq!(refused.stdout, "");
    }
}

#[test]
fn a_hook_that_only_another_harness_could_ask_denies_what_it_was_to_guard_and_nothing_else() {
    let place = Place::new();
    let prompt = json!([{ "type": "prompt", "prompt": "safe?" }]);
    let hooks = json!({ "hooks": {
        "PreToolUse": [{ "matcher": "Glob", "hooks": prompt }],
        "Stop": [{ "hooks": [{ "type": "command", "command": "exit 2", "once": true }] }],
    } });
    place.write(BROUGHT[0], hooks.to_string());
    let call = |name: &str| json!({ "calls": [{ "name": name, "arguments": { "pattern": "x" } }] });
    let script = json!({ "units": { "main": [call("Glob"), call("Grep"), { "text": "done" }] } });
    let model = place.script("s.json", &script);
    let flags = ["-p", "go", "-m", &model, "--trust", "-o", "stream-json"];
    let finished = place.tine(flags).run().exits(0);
    let denied: Vec<&str> =
        finished.stdout.lines().filter(|line| line.contains("\"permission_denied\"")).collect();
    assert_eq!(denied.len(), 1, "{denied:?}");
    let why = "was not run: `hooks.PreToolUse[0].hooks[0]` has the type `prompt`";
    assert!(denied[0].contains("\"Glob\"") && denied[0].contains(why), "{}", denied[0]);
    for warning in [
        "tine only runs `command`; the hook denies everything that it guards",
        "`hooks.Stop[0].hooks[0].once` is nothing that tine does; it is left out",
    ] {
        assert!(finished.stderr.contains(warning), "{}", finished.stderr);
    }
    assert!(finished.stderr.contains("warning: `.claude/settings.json`: "), "{}", finished.stderr);
}

#[test]
fn hooks_of_the_user_need_no_trust_and_run_in_the_order_they_are_configured() {
    let place = Place::new();
    let says = |name: &str| format!("echo {name}");
    place.configure(&format!(
        "[[hooks.UserPromptSubmit]]\nhooks = [{{ type = \"command\", command = \"{}\" }}]\n",
        says("one")
    ));
    let of_claude = place.home().join(".claude");
    std::fs::create_dir(&of_claude).expect("the place is ours");
    let settings = one("UserPromptSubmit", &says("two")).to_string();
    std::fs::write(of_claude.join("settings.json"), settings).expect("the place is ours");
    place.write(BROUGHT[0], one("UserPromptSubmit", &says("three")).to_string());
    let (bodies, finished) = prompt(&place, &one("UserPromptSubmit", &says("four")), &["--trust"]);
    finished.exits(0);
    let read = Talk::from(bodies[0].clone());
    let expected = "<hook event=\"UserPromptSubmit\">\none\n\ntwo\n\nthree\n\nfour\n</hook>";
    assert!(read.last_prompt().ends_with(expected), "{}", read.last_prompt());
    let (bodies, _) = prompt(&place, &json!({ "disableAllHooks": true }), &["--trust"]);
    assert!(!Talk::from(bodies[0].clone()).last_prompt().contains("<hook"));
    // Another program's settings are its own business.
    std::fs::write(of_claude.join("settings.json"), "{").expect("the place is ours");
    let (_, finished) = prompt(&place, &json!({}), &[]);
    assert!(finished.exits(0).stderr.contains("warning: ignoring the hooks in `"), "it is said");
}

#[tokio::test]
async fn every_request_is_rendered_from_the_events_before_it_with_what_hooks_add() {
    let context = |event: &str| {
        let command = specific(event, json!({ "additionalContext": format!("at {event}") }));
        json!([{ "hooks": [{ "type": "command", "command": command }] }])
    };
    let held = "grep -q '\"stop_hook_active\":true' || { echo more >&2; exit 2; }";
    let held = json!([{ "hooks": [{ "type": "command", "command": held }] }]);
    let settings = json!({
        "SessionStart": context("SessionStart"), "UserPromptSubmit": context("UserPromptSubmit"),
        "PreToolUse": context("PreToolUse"), "PostToolUse": context("PostToolUse"),
        "SubagentStart": context("SubagentStart"), "Stop": held, "SubagentStop": held,
    });
    let parsed = hook::parse(&settings, Brought::ForTine).expect("they are hooks");
    let server = Server::start(|request| {
        let body = request.json();
        let messages = body["messages"].as_array().expect("a request has messages");
        let is_main =
            messages[0]["content"].as_str().is_some_and(|text| text.starts_with("be good"));
        let answered = messages.iter().any(|message| message["role"] == "tool");
        match (is_main, answered) {
            (_, true) => Reaction::text_reply("all done"),
            (true, false) => Reaction::call_reply(&[batch()]),
            (false, false) => Reaction::call_reply(&[("Glob", json!({ "pattern": "*" }))]),
        }
    });
    let model = model_on(&server);
    let story = Setup {
        hooks: Arc::new(Hooks::new(parsed.hooks, setting())),
        boundaries: Boundaries { begins: Some(Source::Startup), ends: true },
        ..Setup::on(Arc::clone(&model) as _)
    };
    let story = story.run().await;
    let bodies = bodies::prove(&story.events, &server.finish(), &model);
    let turns: Vec<usize> = bodies.values().map(Vec::len).collect();
    assert_eq!(turns, [3, 3, 3], "a call, an answer, and one that hooks have asked for");
    let ran = |event: HookEvent| {
        let ran = story.events.iter().filter_map(|event| match &event.kind {
            EventKind::HookRan(ran) => Some(ran),
            _ => None,
        });
        ran.filter(|ran| ran.event == event && ran.outcome != HookOutcome::Failed).count()
    };
    let counts = HookEvent::ALL.map(ran);
    assert_eq!(counts, [3, 3, 1, 1, 0, 2, 2, 4, 0, 0, 0]);
    let denied = story.events.iter().filter(|event| {
        matches!(&event.kind, EventKind::HookRan(ran) if ran.decision == Some(HookDecision::Deny))
    });
    assert_eq!(denied.count(), 3);
}

#[test]
fn a_hook_that_only_the_workspace_has_is_named_with_its_entry_of_path() {
    let script = json!({ "units": { "main": [
        { "calls": [{ "name": "Bash", "arguments": { "command": "true" } }] },
        { "text": "done" },
    ] } });
    let place = Place::new();
    let model = place.script("script.json", &script);
    let bin = place.work().join(".local/bin");
    executable(&bin.join("gate"), "#!/bin/sh\n");
    executable(&bin.join("run"), "#!/usr/bin/env gate\n");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("there is a PATH"));
    let warning =
        format!("warning: hooks and MCP servers do not find programs in `{}`", bin.display());
    let run = |settings: &Value| {
        let settings = settings.to_string();
        let flags = ["-p", "go", "-m", &model, "-o", "stream-json", "--settings", &settings];
        place.tine(flags).env("PATH", &path).run()
    };
    for command in ["gate".to_owned(), bin.join("run").display().to_string()] {
        let finished = run(&one("PreToolUse", &command));
        let why = format!(
            "`gate` is only in `{bin}`, an entry of `PATH` in the workspace, where tine does not look \
             for programs; give its absolute path, `{bin}/gate`, in the hook's command",
            bin = bin.display()
        );
        assert!(finished.stdout.contains(&why), "{command}: {finished:?}");
        assert_eq!(finished.stderr.matches(&warning).count(), 1, "{finished:?}");
    }
    let finished = run(&json!({}));
    assert!(!finished.stderr.contains("PATH"), "{finished:?}");
}
