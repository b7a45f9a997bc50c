//! A sandboxed command that connects to a host which no rule allows: the client is asked.

use serde_json::{Value, json};

use super::{Client, FLAGS};
use crate::sandbox::hosts::{line_server, through_proxy};
use crate::support::tine::Place;

/// A command that connects to this port of `localhost` so many times, and then prints `end`.
fn connects(port: u16, times: usize) -> Value {
    let words = format!("CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n");
    let command = format!("{}; echo", through_proxy(&words));
    let command = format!("{}; echo end", vec![command; times].join("; "));
    json!({"calls": [{"name": "Bash", "arguments": {"command": command}}]})
}

fn config(port: u16) -> [String; 4] {
    let hosts = format!("web.allow_hosts=[\"localhost:{port}\"]");
    ["--config", "sandbox.network=hosts", "--config", &hosts].map(str::to_owned)
}

fn client(port: u16, turns: &[Value]) -> Client {
    let place = Place::new();
    let model = place.script("script.json", &json!({"units": {"main": turns}}));
    let config = config(port);
    let flags = FLAGS.into_iter().chain(config.iter().map(String::as_str));
    let flags = flags.chain(["-m", &model, "--allowed-tools", "Bash"]);
    let running = place.tine(flags).silent_stdin().start();
    Client { running, place }
}

impl Client {
    /// Waits for the output of the next call.
    fn output(&mut self) -> String {
        let record = self.running.read_until(|record| record["type"] == "user");
        record["message"]["content"][0]["content"].as_str().expect("an output is text").to_owned()
    }
}

#[test]
fn a_client_is_asked_once_for_each_host_of_a_command() {
    let (port, _server) = line_server();
    let mut client = client(port, &[connects(port, 2), json!({"text": "done"})]);
    client.ask("go");
    let question = client.is_asked();
    let request = &question["request"];
    assert_eq!(request["tool_name"], "SandboxNetworkAccess");
    assert_eq!(request["input"], json!({"host": "localhost"}));
    let suggested = &request["permission_suggestions"][0]["rules"];
    let rule = json!([{"toolName": "SandboxNetworkAccess", "ruleContent": "localhost"}]);
    assert_eq!(*suggested, rule);
    client.answer(&question, &json!({"behavior": "allow", "updatedInput": request["input"]}));
    let output = client.output();
    assert_eq!(output.matches("reached\n").count(), 2, "{output}");
    assert!(output.ends_with("\nend\n"), "{output}");
    client.result();
    client.ends(0);
}

#[test]
fn after_a_no_the_command_and_the_model_are_told_why() {
    let (port, _server) = line_server();
    let mut client = client(port, &[connects(port, 2), json!({"text": "done"})]);
    client.ask("go");
    let question = client.is_asked();
    client.answer(&question, &json!({"behavior": "deny", "message": "not there"}));
    let output = client.output();
    let why = "No connection to localhost: the user said no: not there.";
    assert_eq!(output.matches("HTTP/1.1 403 Forbidden").count(), 2, "{output}");
    assert!(output.contains(&format!("\nend\n[{why}]")), "{output}");
    client.result();
    client.ends(0);
}

#[test]
fn what_is_allowed_for_the_session_is_not_asked_again() {
    let (port, _server) = line_server();
    let turns = [connects(port, 1), connects(port, 1), json!({"text": "done"})];
    let mut client = client(port, &turns);
    client.ask("go");
    let question = client.is_asked();
    let suggested = &question["request"]["permission_suggestions"];
    client.answer(&question, &json!({"behavior": "allow", "updatedPermissions": suggested}));
    for _ in 0..2 {
        let output = client.output();
        assert!(output.contains("reached\n"), "{output}");
    }
    client.result();
    client.ends(0);
}

#[test]
fn a_question_goes_when_its_command_ends_and_the_turn_goes_on() {
    let (port, _server) = line_server();
    // It does not wait for its connection.
    let words = format!("CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\n");
    let command = format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128; printf '{words}' >&3; read -r line <go; echo end"
    );
    let turns = [
        json!({"calls": [{"name": "Bash", "arguments": {"command": command}}]}),
        json!({"text": "done"}),
    ];
    let mut client = client(port, &turns);
    let go = client.place.work().join("go");
    nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).expect("the place is ours");
    client.ask("go");
    let question = client.is_asked();
    std::fs::write(&go, "go\n").expect("the command reads it");
    let gone = client.running.read_until(|record| record["type"] == "control_cancel_request");
    assert_eq!(gone["request_id"], question["request_id"]);
    let output = client.output();
    assert!(output.starts_with("end\n"), "{output}");
    assert_eq!(client.result()["result"], "done");
    client.ends(0);
}

#[test]
fn where_nobody_can_be_asked_the_refusal_names_the_rule_that_would_allow_it() {
    let (port, _server) = line_server();
    for (flags, reason) in [
        (&[][..], "the rule `SandboxNetworkAccess(localhost)` would allow it"),
        (&["--permission-mode", "dontAsk"], "`dontAsk` asks nobody"),
        (&["--disallowed-tools", "SandboxNetworkAccess"], "denied by the rule"),
    ] {
        let place = Place::new();
        let script = json!({"units": {"main": [connects(port, 1), {"text": "done"}]}});
        let model = place.script("script.json", &script);
        let config = config(port);
        let all = ["-p", "go", "-o", "stream-json", "-m", &model, "--allowed-tools", "Bash"];
        let all = all.into_iter().chain(config.iter().map(String::as_str));
        let finished = place.tine(all.chain(flags.iter().copied())).run();
        let said = &finished.stdout;
        assert!(said.contains("HTTP/1.1 403 Forbidden") && said.contains(reason), "{said}");
    }
}

#[test]
fn a_flood_of_hosts_and_long_names_leave_a_bounded_output_and_no_error() {
    let (port, _server) = line_server();
    let long = "a".repeat(60);
    let long = format!("{long}.{long}.{long}.{long}.example");
    let command = format!(
        "for n in $(seq 15) {long} {}; do exec 3<>/dev/tcp/127.0.0.1/3128; \
         printf 'CONNECT %s.flood.example:1 HTTP/1.1\\r\\n\\r\\n' $n >&3; cat <&3 >/dev/null; done",
        "b".repeat(8_000)
    );
    let place = Place::new();
    let call = json!({"calls": [{"name": "Bash", "arguments": {"command": command}}]});
    let script = json!({"units": {"main": [call, {"text": "done"}]}});
    let model = place.script("script.json", &script);
    let config = config(port);
    let all = ["-p", "go", "-o", "stream-json", "-m", &model, "--allowed-tools", "Bash"];
    let finished = place.tine(all.into_iter().chain(config.iter().map(String::as_str))).run();
    let outputs = finished.exits(0).records().outputs();
    let [output] = &outputs[..] else { panic!("{} outputs", outputs.len()) };
    assert!(!output.is_error, "{}", output.text);
    assert_eq!(output.text.matches("[No connection to ").count(), 10, "{}", output.text);
    assert!(output.text.ends_with("[And more connections.]"), "{}", output.text);
}

#[test]
fn reasons_of_any_length_fit_into_the_output() {
    let (port, _server) = line_server();
    let command = "for n in $(seq 12); do exec 3<>/dev/tcp/127.0.0.1/3128; \
                   printf 'CONNECT %s.example:1 HTTP/1.1\\r\\n\\r\\n' $n >&3; cat <&3 >/dev/null; done";
    let call = json!({"calls": [{"name": "Bash", "arguments": {"command": command}}]});
    let mut client = client(port, &[call, json!({"text": "done"})]);
    client.ask("go");
    for _ in 0..12 {
        let question = client.is_asked();
        client.answer(&question, &json!({"behavior": "deny", "message": "no ".repeat(3_000)}));
    }
    let output = client.output();
    assert!(output.len() < 16_000 && output.contains("the user said no: no no"), "{output}");
    client.result();
    client.ends(0);
}

#[test]
fn an_answer_about_another_host_allows_nothing() {
    let (port, _server) = line_server();
    let mut client = client(port, &[connects(port, 1), json!({"text": "done"})]);
    client.ask("go");
    let question = client.is_asked();
    let changed = json!({"host": "other.example"});
    client.answer(&question, &json!({"behavior": "allow", "updatedInput": changed}));
    let output = client.output();
    assert!(output.contains("the answer was about another host"), "{output}");
    client.result();
    client.ends(0);
}
