//! Agents that ended on workers and are sent a message: they go on from the bytes that
//! they had sent, wherever a worker is.

use serde_json::{Value, json};
use tine::model::check;

use super::forks::{is_theirs, play, repository, run};
use super::{LONG, batch, both, call, task, write};
use crate::support::fleet::Fleet;
use crate::support::repository::Repository;
use crate::support::server::{Gate, Reaction, RecordedRequest, Server};
use crate::support::talk::{Talk, serve};
use crate::support::tine::Running;

fn beside(name: &str, agent: &str) -> Value {
    let arguments = json!({"description": name, "prompt": name, "subagent_type": agent,
        "run_in_background": true});
    call("Agent", arguments)
}

fn message(to: &str) -> Value {
    call("SendMessage", json!({"to": to, "message": "and on?"}))
}

/// The requests of the agent that looks.
fn of_agent(requests: &[RecordedRequest]) -> Vec<&RecordedRequest> {
    requests.iter().filter(|request| Talk::of(request).task() == "look").collect()
}

/// A server whose main conversation starts an agent, waits for it, and sends it a message
/// once the gate is open.
fn serve_message(gate: &Gate) -> Server {
    let gate = gate.clone();
    serve(move |talk| {
        let calls = |calls: Value| {
            let (name, arguments) = (calls["name"].clone(), calls["arguments"].clone());
            Reaction::call_reply(&[(name.as_str().expect("it is a text"), arguments)])
        };
        match (talk.task(), talk.turn()) {
            ("go", 1) => calls(beside("look", "explore")),
            ("go", 2) => calls(call("TaskWait", json!({}))),
            ("go", 3) => calls(message("agent-1")).behind(&gate),
            ("go", _) => Reaction::text_reply("done"),
            (_, 1) => calls(call("Glob", json!({"pattern": "*"}))),
            (_, turn) => Reaction::text_reply(&format!("Turn {turn}.")),
        }
    })
}

/// Starts a run whose agent has ended on a worker that has gone since.
fn with_its_worker_gone(fleet: &mut Fleet, model: &Server) -> (Repository, Running) {
    fleet.work_apart(1, model, "");
    let repository = repository();
    let running = run(fleet, &repository.place, model, &[]).start();
    // It has ended: main has waited for it.
    model.wait_until_came(5);
    fleet.workers[0].kill9();
    (repository, running)
}

#[test]
fn an_agent_goes_on_from_its_own_bytes_on_another_worker() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let gate = Gate::closed();
    let model = serve_message(&gate);
    let (_repository, running) = with_its_worker_gone(&mut fleet, &model);
    fleet.work_apart(1, &model, "");
    gate.open();
    running.wait().exits(0);
    let requests = model.finish();
    let [first, second, third] = of_agent(&requests)[..] else { panic!("three turns") };
    check::check_continues(&first.body, &second.body).expect("it goes on");
    check::check_continues(&second.body, &third.body).expect("it goes on");
    assert!(is_theirs(third));
    let asked = Talk::of(third);
    let lanes = fleet.workers[1].directory().join("lanes");
    assert!(asked.last_prompt().starts_with(&format!("You work in {}/", lanes.display())));
    assert!(asked.last_prompt().ends_with("<message>\nand on?\n</message>"));
    assert_eq!(asked.messages()[4]["content"], "Turn 2.");
    let last = Talk::of(requests.last().expect("main has asked"));
    assert!(last.last_prompt().contains("Turn 3."), "{}", last.last_prompt());
}

#[test]
fn a_worker_that_would_send_other_bytes_than_the_agent_has_sends_none() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let gate = Gate::closed();
    let model = serve_message(&gate);
    let (_repository, running) = with_its_worker_gone(&mut fleet, &model);
    let url = model.base_url();
    let more = "[models.m]\nkey_env = \"OPENAI_API_KEY\"\nmax_output_tokens = 99\n";
    fleet.work_apart(1, &model, &format!("{more}base_url = \"{url}\"\n"));
    gate.open();
    running.wait().exits(0);
    let requests = model.finish();
    assert_eq!(of_agent(&requests).len(), 2);
    let last = Talk::of(requests.last().expect("main has asked"));
    assert!(last.last_prompt().contains("would send `m` other bytes"), "{}", last.last_prompt());
}

#[test]
fn what_is_continued_has_its_tools_its_bounds_and_stays_a_fork_wherever_it_runs() {
    both(|side| {
        let fork = call("Agent", json!({"description": "forks", "prompt": "forks"}));
        let wait =
            |agents: [&str; 2]| json!({"calls": [call("TaskWait", json!({ "task_ids": agents }))]});
        let started = [fork, beside("looks", "explore")];
        let main = json!([
            {"calls": started},
            wait(["agent-1", "agent-2"]),
            // One after the other: whoever is continued first has the next number.
            {"calls": [message("agent-1")]},
            {"calls": [message("agent-2")]},
            wait(["agent-3", "agent-4"]),
            {"text": "done"},
        ]);
        let again = call("Agent", json!({"description": "x", "prompt": "x"}));
        let bash = call("Bash", json!({"command": "touch made.txt"}));
        let agents = json!({
            "forks": [{"calls": [again]}, {"text": "I did it myself."}],
            "looks": [{"calls": [write("a.txt", "a")["calls"][0].clone(), bash]}, {"text": "L"}],
        });
        let (agents, outputs) = play(side, main, agents, &[]);
        let of = |unit: &str| agents.iter().filter(|told| told[0] == *unit).count();
        assert_eq!(["agent-1", "agent-2", "agent-3", "agent-4"].map(of), [2, 3, 2, 3]);
        let refusals = agents
            .iter()
            .filter(|told| told[1].as_str().is_some_and(|text| text.starts_with("You are a fork")));
        assert_eq!(refusals.count(), 2, "{agents:?}");
        // What is waited for may have ended and been told of before, and outputs of one
        // turn come as they come.
        let is_of_message = |text: &String| text.contains("continues");
        let mut messages: Vec<_> = outputs.into_iter().filter(is_of_message).collect();
        messages.sort();
        (agents, messages)
    });
}

#[test]
fn one_that_was_set_aside_while_it_ran_can_be_sent_a_message() {
    both(|side| {
        side.work(&[1], None);
        let place = repository().place;
        let units = json!({
            "main": [
                {"calls": [batch(&[task("slow")])]},
                {"calls": [call("TaskWait", json!({}))]},
                {"calls": [message("agent-1")]},
                {"calls": [call("TaskWait", json!({}))]},
                {"text": "done"},
            ],
            "slow": [write("a.txt", "a\n"), {"text": "I could not."}],
        });
        let playing = json!({"units": units, "then": {"text": "done"}});
        let model = place.script("script.json", &playing);
        let talking = ["--input-format", "stream-json", "-o", "stream-json", "-m", &model];
        let mut running = side.tine(&place, &talking).silent_stdin().start();
        let prompt = json!({"type": "user", "message": {"role": "user", "content": "go"}});
        running.say(&prompt.to_string());
        let deny = |question: &Value| {
            let response = json!({"behavior": "deny", "message": "not there"});
            let response = json!({"subtype": "success", "request_id": question["request_id"],
                "response": response});
            json!({"type": "control_response", "response": response}).to_string()
        };
        let first = running.read_until(|record| record["type"] == "control_request");
        let aside = json!({"type": "control_request", "request_id": "aside",
            "request": {"subtype": "background_tasks"}});
        running.say(&aside.to_string());
        let moved = running.read_until(|record| record["type"] == "control_response");
        assert_eq!(moved["response"]["response"]["backgrounded"], true, "{moved}");
        // It ends only after another turn, for which it has to ask.
        running.say(&deny(&first));
        let second = running.read_until(|record| record["type"] == "control_request");
        running.say(&deny(&second));
        let result = running.read_until(|record| record["type"] == "result");
        running.hang_up();
        running.wait();
        (second["request"]["agent_id"].clone(), result["result"].clone())
    });
}
