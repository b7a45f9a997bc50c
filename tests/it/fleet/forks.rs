//! Forks on workers: the bytes they share with their parents, where they work, and
//! what becomes of one whose worker cannot send them.

use async_nats::jetstream;
use futures_util::StreamExt as _;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tine::fleet::wire::Conversation;
use tine::model::check;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Runtime;

use super::{LONG, SESSION, SHORT, Side, batch, both, call, logged, task_with};
use crate::support::fleet::{Fleet, THEIR_KEY};
use crate::support::repository::Repository;
use crate::support::server::{Gate, Reaction, RecordedRequest, Server};
use crate::support::talk::{Talk, serve};
use crate::support::tine::{Place, Tine};

fn fork(name: &str) -> Value {
    task_with(name, "subagent_type", "fork")
}

/// What a fork was told to do, behind what it was told of where it works.
fn told(talk: &Talk) -> Option<&str> {
    let directive = talk.directive()?;
    Some(directive.rsplit_once("\n\n").map_or(directive, |(_, directive)| directive))
}

/// A server whose main conversation reads a file and then forks.
pub(super) fn serve_forks(
    names: &[&str],
    react: impl Fn(&str, &Talk) -> Reaction + Send + Sync + 'static,
) -> Server {
    let forks = json!({ "tasks": names.iter().copied().map(fork).collect::<Vec<_>>() });
    serve(move |talk| match (told(talk), talk.turn()) {
        (Some(name), _) => react(name, talk),
        (None, 1) => Reaction::call_reply(&[("Read", json!({"file_path": "lines.txt"}))]),
        (None, 2) => Reaction::reply(Some("Let me see."), &[("Agent", forks.clone())]),
        (None, _) => Reaction::text_reply("done"),
    })
}

pub(super) fn repository() -> Repository {
    let repository = Repository::new();
    repository.write("lines.txt", "one\n");
    repository.commit("Begin");
    repository
}

pub(super) fn run(fleet: &Fleet, place: &Place, model: &Server, flags: &[&str]) -> Tine {
    place.configure(&fleet.configuration());
    let asked = ["-p", "go", "-m", "m", "--executor", "nats", "--permission-mode", "acceptEdits"];
    place.tine(asked.iter().chain(flags)).server(model)
}

/// Tells whether a worker has sent it.
pub(super) fn is_theirs(request: &RecordedRequest) -> bool {
    request.header("authorization") == Some(&format!("Bearer {THEIR_KEY}"))
}

/// The requests of forks, in the order of their names.
fn of_forks(requests: &[RecordedRequest]) -> Vec<(String, &RecordedRequest)> {
    let named = |request| told(&Talk::of(request)).map(|name| (name.to_owned(), request));
    let mut forks: Vec<_> = requests.iter().filter_map(named).collect();
    forks.sort_by(|(one, _), (other, _)| one.cmp(other));
    forks
}

/// How many conversations were shipped.
fn shipped(fleet: &Fleet) -> usize {
    Runtime::new().expect("a runtime").block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        let blobs = jetstream::new(client).get_object_store("tine-blobs").await;
        let blobs = blobs.expect("the bucket is there");
        let mut all = blobs.list().await.expect("it has a list");
        let mut count = 0;
        while let Some(info) = all.next().await {
            let (name, mut bytes) = (info.expect("it can be listed").name, Vec::new());
            let mut blob = blobs.get(name).await.expect("it is there");
            blob.read_to_end(&mut bytes).await.expect("it can be read");
            count += usize::from(Conversation::decode(&bytes).is_ok());
        }
        count
    })
}

#[test]
fn forks_of_a_batch_run_on_workers_and_begin_with_their_parents_bytes() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let write = json!({"file_path": "made.txt", "content": "of a fork\n"});
    let model = serve_forks(&["alpha", "beta", "gamma"], move |name, talk| match talk.turn() {
        3 if name == "beta" => Reaction::call_reply(&[("Write", write.clone())]),
        _ => Reaction::text_reply(&format!("I did {name}.")),
    });
    fleet.work_apart(2, &model, "");
    fleet.work_apart(1, &model, "");
    let repository = repository();
    let place = &repository.place;
    let records = run(&fleet, place, &model, &["-o", "stream-json"]).run().exits(0).records();
    let requests = model.finish();
    let parent = &requests[1];
    let forks = of_forks(&requests);
    let named: Vec<&str> = forks.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(named, ["alpha", "beta", "beta", "gamma"]);
    for (_, fork) in &forks {
        assert!(is_theirs(fork));
        check::check_continues(&parent.body, &fork.body).expect("it goes on from its parent");
        let directive = Talk::of(fork).directive().map(str::to_owned).unwrap_or_default();
        let lanes = fleet.workers.iter().map(|worker| worker.directory().join("lanes"));
        let told = lanes.map(|lanes| format!("You work in {}/", lanes.display()));
        assert!(told.into_iter().any(|told| directive.contains(&told)), "{directive}");
    }
    let here = requests.iter().filter(|request| !is_theirs(request)).count();
    assert_eq!((here, shipped(&fleet)), (3, 1));
    assert_eq!(place.read("made.txt").as_deref(), Some("of a fork\n"));
    let texts: Vec<String> = records.outputs().into_iter().map(|output| output.text).collect();
    let at = |name: &str| texts[1].find(&format!("I did {name}.")).expect("its answer is there");
    assert!(at("alpha") < at("beta") && at("beta") < at("gamma"), "{texts:?}");
    let stem = check::stem(&parent.body).len();
    for told in records.system("task_notification") {
        assert_eq!(told["prefix_share"]["shared_bytes"], stem, "{told}");
    }
}

/// What the calls of each agent came to, and how each ended.
fn told_of_agents(place: &Place) -> Vec<Value> {
    let of_agents = place.log().into_iter().filter(|line| line["unit"] != "main");
    let mut all: Vec<Value> = of_agents
        .filter_map(|line| match line["kind"].as_str() {
            Some("tool_finished") => Some(json!([line["unit"], line["body"]["text"]])),
            Some("unit_ended") => {
                let body = &line["body"];
                Some(json!([line["unit"], body["outcome"], body["text"], body["turns"]]))
            }
            Some(_) | None => None,
        })
        .collect();
    all.sort_by_key(|told| told[0].to_string());
    all
}

pub(super) fn play(
    side: &mut Side,
    main: Value,
    forks: Value,
    flags: &[&str],
) -> (Vec<Value>, Vec<String>) {
    side.work(&[2, 2], None);
    let place = repository().place;
    let mut units = forks;
    units["main"] = main;
    let playing = json!({"units": units, "then": {"text": "done"}});
    let flags = [&["-o", "stream-json", "--config", "retry.most=0"], flags].concat();
    let records = side.play(&place, &playing, &flags).run().exits(0).records();
    let outputs = records.outputs().into_iter().map(|output| output.text).collect();
    (told_of_agents(&place), outputs)
}

#[test]
fn forks_end_alike_wherever_they_run_and_start_no_agents() {
    both(|side| {
        let look = call("Glob", json!({"pattern": "*"}));
        let again = [
            batch(&[fork("again")]),
            call(
                "Agent",
                json!({"description": "x",
            "prompt": "x", "subagent_type": "explore"}),
            ),
        ];
        let mut long = fork("long");
        long["max_turns"] = json!(2);
        let forks = ["good", "forks", "error", "panics"].map(fork);
        let refused = json!({"error": {"status": 400, "message": "too hot"}});
        let agents = json!({
            "good": [{"calls": [look]}, {"text": "All good."}],
            "forks": [{"calls": again}, {"text": "I did it myself."}],
            "error": [{"text": "half", "calls": [look]}, {"text": "an", "fault": refused}],
            "panics": [{"text": "so far", "fault": "panic"}],
            "long": [{"text": "and on", "calls": [look], "repeat": true}],
        });
        let tasks: Vec<Value> = forks.into_iter().chain([long]).collect();
        let main = json!([{"calls": [look]}, {"calls": [batch(&tasks)]}, {"text": "done"}]);
        let (agents, outputs) = play(side, main, agents, &[]);
        let refusals = agents
            .iter()
            .filter(|told| told[1].as_str().is_some_and(|text| text.starts_with("You are a fork")));
        assert_eq!(refusals.count(), 2, "{agents:?}");
        (agents, outputs)
    });
}

#[test]
fn a_fork_of_a_conversation_whose_answer_has_a_schema_has_the_tool_for_it_and_may_not_use_it() {
    both(|side| {
        let give = call("StructuredOutput", json!({"size": 3}));
        let main = json!([{"calls": [batch(&[fork("gives")])]}, {"calls": [give]}]);
        let agents = json!({"gives": [{"calls": [give]}, {"text": "I may not."}]});
        let schema = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        play(side, main, agents, &["--json-schema", &schema.to_string()])
    });
}

#[test]
fn a_fork_in_the_background_is_told_of_when_it_ends() {
    both(|side| {
        let beside = call("Agent", json!({"description": "beside", "prompt": "beside"}));
        let main = json!([{"calls": [beside]}, {"text": "done"}]);
        let (agents, outputs) = play(side, main, json!({"beside": [{"text": "It is so."}]}), &[]);
        assert_eq!(agents.len(), 1, "{agents:?}");
        (agents, outputs)
    });
}

#[test]
fn a_worker_that_would_send_other_bytes_sends_none_and_the_fork_says_what_to_do() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let model = serve_forks(&["alpha", "beta"], |_, _| Reaction::text_reply("never"));
    let url = model.base_url();
    let more = format!(
        "[models.m]\nbase_url = \"{url}\"\nkey_env = \"OPENAI_API_KEY\"\nmax_output_tokens = 99\n"
    );
    fleet.work_apart(2, &model, &more);
    let repository = repository();
    run(&fleet, &repository.place, &model, &[]).run().exits(0);
    let requests = model.finish();
    assert_eq!(requests.iter().filter(|request| is_theirs(request)).count(), 0);
    let [.., last] = &requests[..] else { panic!("main has asked") };
    let why = "this worker would send `m` other bytes than the conversation has been sent as that \
               it goes on from, so nothing was sent; set up `m` in its `config.toml` as where the \
               run is, and install the same tine on both";
    let output = Talk::of(last).outputs().concat();
    assert_eq!(output.matches(why).count(), 2, "{output}");
}

#[test]
fn a_fork_that_was_lost_with_its_worker_begins_again_with_the_same_bytes() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let gate = Gate::closed();
    let held = gate.clone();
    let model =
        serve_forks(&["alpha"], move |_, _| Reaction::text_reply("It is so.").behind(&held));
    fleet.work_apart(1, &model, "");
    let repository = repository();
    let place = &repository.place;
    let running = run(&fleet, place, &model, &[]).start();
    model.wait_until_came(3);
    fleet.workers[0].kill9();
    gate.open();
    fleet.work_apart(1, &model, "");
    running.wait().exits(0);
    assert_eq!(logged(place, "lost").len(), 1);
    let requests = model.finish();
    let forks = of_forks(&requests);
    let [(_, first), (_, second)] = &forks[..] else { panic!("two attempts: {}", forks.len()) };
    assert!(is_theirs(first) && is_theirs(second));
    for fork in [first, second] {
        check::check_continues(&requests[1].body, &fork.body).expect("it goes on from its parent");
    }
    assert!(Talk::of(requests.last().expect("main has asked")).outputs()[0].contains("It is so."));
}

#[test]
fn a_conversation_that_is_resumed_is_forked_on_workers() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let model = serve_forks(&["alpha"], |_, _| Reaction::Hang);
    fleet.work_apart(1, &model, "");
    let repository = repository();
    let place = &repository.place;
    let running = run(&fleet, place, &model, &["--session-id", SESSION]).start();
    model.wait_until_came(3);
    running.signal(Signal::SIGKILL);
    drop(running.wait());
    fleet.workers[0].kill9();
    drop(model);
    let again = json!({ "tasks": [fork("beta")] });
    let model = serve(move |talk| match (told(talk), talk.turn()) {
        (Some(name), _) => Reaction::text_reply(&format!("I did {name}.")),
        (None, 3) => Reaction::call_reply(&[("Agent", again.clone())]),
        (None, _) => Reaction::text_reply("done"),
    });
    fleet.work_apart(1, &model, "");
    let resume = ["-p", "on", "-m", "m", "--executor", "nats", "--resume", SESSION];
    place.tine(resume).server(&model).run().exits(0);
    let requests = model.finish();
    let forks = of_forks(&requests);
    let [(name, fork)] = &forks[..] else { panic!("one fork: {}", forks.len()) };
    assert!(name == "beta" && is_theirs(fork));
    check::check_continues(&requests[0].body, &fork.body).expect("it goes on from its parent");
}

#[test]
fn a_fork_with_tools_that_workers_lack_runs_where_its_parent_is() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let model = serve_forks(&["alpha"], |_, _| Reaction::text_reply("It is so."));
    fleet.work_apart(1, &model, "");
    let repository = repository();
    let place = &repository.place;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/odd.mjs");
    let servers = json!({"mcpServers": {"odd": {"command": "node", "args": [script, "plain"]}}});
    let flags = ["--mcp-config", &servers.to_string(), "--config", "mcp.startup_ms=60000"];
    run(&fleet, place, &model, &flags).run().exits(0);
    let requests = model.finish();
    let forks = of_forks(&requests);
    let [(_, fork)] = &forks[..] else { panic!("one fork: {}", forks.len()) };
    let has_theirs = Talk::of(fork).tools().iter().any(|tool| tool.starts_with("mcp__odd__"));
    assert!(has_theirs && !is_theirs(fork));
}

#[test]
fn a_fork_of_a_model_that_thinks_harder_than_at_first_runs_where_its_parent_is() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let forks = json!({ "tasks": [fork("alpha")] });
    let model = serve(move |talk| match (told(talk), talk.turn()) {
        (Some(_), _) => Reaction::text_reply("It is so."),
        (None, 2) => Reaction::call_reply(&[("Agent", forks.clone())]),
        (None, _) => Reaction::text_reply("done"),
    });
    fleet.work_apart(1, &model, "");
    let place = repository().place;
    place.configure(&fleet.configuration());
    let talking = ["--input-format", "stream-json", "-o", "stream-json", "-m", "m"];
    let tine = place.tine(talking.iter().chain(&["--executor", "nats"]));
    let mut running = tine.server(&model).silent_stdin().start();
    let says = |text: &str| {
        json!({"type": "user", "message": {"role": "user", "content": text}}).to_string()
    };
    // What workers know is how it was asked when the run began.
    running.say(&says("hello"));
    running.read_until(|record| record["type"] == "result");
    let harder = json!({"subtype": "set_effort", "effort": "high"});
    let harder = json!({"type": "control_request", "request_id": "1", "request": harder});
    running.say(&harder.to_string());
    running.read_until(|record| record["type"] == "control_response");
    running.say(&says("go"));
    running.read_until(|record| record["type"] == "result");
    running.hang_up();
    running.wait().exits(0);
    let requests = model.finish();
    let forks = of_forks(&requests);
    let [(_, fork)] = &forks[..] else { panic!("one fork: {}", forks.len()) };
    let effort = fork.json()["reasoning_effort"].clone();
    assert_eq!((effort, is_theirs(fork)), (json!("high"), false));
}
