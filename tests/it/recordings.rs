//! Runs that are recorded, and answered from their recording: without a server,
//! without a key, in another place.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tine::config::{AnswerTimeouts, Config, Environment, ModelChoice, resolve_model};
use tine::event::UnitId;
use tine::message::{Head, Message, Prefix};
use tine::model::http::exchange::{Exchanges, Pace, Player, Recorder, Volatile};
use tine::model::served::{Served, ServedSettings};
use tine::model::{Answer, Asker, Chunk, Model as _, ModelError, Purpose, Request};

use crate::support::server::{End, Gate, Piece, Reaction, Server, events};
use crate::support::talk::serve;
use crate::support::tine::{Finished, HANG_LIMIT, KEY, Place};
use crate::support::{anthropic, responses};

const PAGE: &str = include_str!("../../docs/recordings.md");

/// What every run here is about.
const NOTES: &str = "Prices are in cents.\n";

impl Place {
    fn with_notes() -> Self {
        let place = Self::new();
        place.write("notes.txt", NOTES);
        place
    }

    /// Where recordings go: beside home and working directory.
    fn recording(&self) -> PathBuf {
        self.root().join("recording")
    }

    #[track_caller]
    fn record(&self, server: &Server, flags: &[&str]) -> Finished {
        let directory = self.recording();
        let recording = ["--record", text(&directory)];
        self.ask(server, &[&recording, flags].concat())
    }

    /// Answers a prompt from a recording, wherever that was made.
    #[track_caller]
    fn replay(&self, recording: &Path, prompt: &str, flags: &[&str]) -> Finished {
        let replaying = ["-p", prompt, "--replay", text(recording)];
        self.tine(replaying.iter().chain(flags)).run()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary directories have plain names")
}

/// Returns the files of a recording with their texts, in order.
fn files(recording: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(recording).expect("there is a recording");
    let mut files: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("it can be listed").path();
            let name = path.file_name().expect("it was listed").to_string_lossy().into_owned();
            (name, fs::read_to_string(path).expect("its files are text"))
        })
        .collect();
    files.sort();
    files
}

fn names(recording: &Path) -> Vec<String> {
    files(recording).into_iter().map(|(name, _)| name).collect()
}

/// The records of a run without what differs from run to run, sorted: units
/// run side by side.
fn records(finished: &Finished, place: &Place) -> Vec<String> {
    fn settle(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                // A recorded model needs no key, so it has none.
                let volatile = |name: &str| {
                    matches!(name, "uuid" | "end_time" | "apiKeySource") || name.ends_with("_ms")
                };
                let is_id = |value: &Value| value.as_str().is_some_and(|id| id.starts_with("msg_"));
                fields.retain(|name, value| !volatile(name) && !is_id(value));
                if let Some(Value::String(summary)) = fields.get_mut("summary") {
                    let (what, rest) = summary.split_once(" in ").expect("it took some time");
                    let (_, rest) = rest.split_once(", ").expect("it has used tokens");
                    *summary = format!("{what}, {rest}");
                }
                fields.values_mut().for_each(settle);
            }
            Value::Array(items) => items.iter_mut().for_each(settle),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let records = finished.records();
    let session = records.result()["session_id"].as_str().expect("a result has it").to_owned();
    let root = place.root().to_string_lossy().into_owned();
    // A recording is no provider that is spared, so nothing waits for one.
    let is_wait = |record: &Value| {
        let is_throttled = |key: &str| record[key] == "throttled";
        is_throttled("reason") || record.get("waited_ms").is_some()
    };
    let mut texts: Vec<String> = records
        .0
        .into_iter()
        .filter(|record| !is_wait(record))
        .map(|mut record| {
            settle(&mut record);
            record.to_string().replace(&session, "SESSION").replace(&root, "ROOT")
        })
        .collect();
    texts.sort();
    texts
}

/// Main reads a file, starts a batch with a fork in it and a fork in the
/// background, and ends once it was told of that.
fn serve_everything() -> Server {
    let task = |what: &str, agent: &str| json!({ "description": what, "prompt": what, "subagent_type": agent });
    let calls = [
        ("Read", json!({ "file_path": "notes.txt" })),
        ("Agent", json!({ "tasks": [task("look", "explore"), task("slot", "fork")] })),
        ("Agent", json!({ "description": "beside", "prompt": "beside" })),
    ];
    let calling = Reaction::reply(Some("Let me see."), &calls);
    let reading = Reaction::call_reply(&[("Read", json!({ "file_path": "notes.txt" }))]);
    // Main goes on before the fork in the background has ended.
    let went_on = Gate::closed();
    serve(move |talk| match (talk.directive(), talk.task(), talk.turn()) {
        (Some("beside"), ..) => Reaction::text_reply("I was beside.").behind(&went_on),
        (Some(directive), ..) => Reaction::text_reply(&format!("I did {directive}.")),
        (None, "look", 1) => reading.clone(),
        (None, "look", _) => Reaction::text_reply("They are in cents."),
        (None, _, 1) => calling.clone(),
        (None, _, turn) => {
            went_on.open();
            let words = if turn == 2 { "waiting" } else { "done" };
            Reaction::text_reply(&format!("{words}, your key is {KEY}"))
        }
    })
}

#[test]
fn a_run_with_agents_and_forks_is_replayed_elsewhere_without_server_and_key() {
    let (here, there) = (Place::with_notes(), Place::with_notes());
    let server = serve_everything();
    // The fork in the background must not keep the other one waiting.
    let side_by_side = ["--config", "agents.prime_ms=0"];
    let flags = [&["-o", "stream-json"], &side_by_side[..]].concat();
    let recorded = here.record(&server, &flags).exits(0);
    let count = server.finish().len();
    assert_eq!(recorded.records().result()["result"], format!("done, your key is {KEY}"));
    let elsewhere = there.root().join("elsewhere");
    let replayed = there
        .tine(["-p", "go", "-o", "stream-json", "--replay", text(&here.recording())])
        .env("TINE_HOME", text(&elsewhere))
        .run()
        .exits(0);
    assert_eq!(replayed.stderr, "", "nothing is left over");
    let with_key = |record: String| record.replace(KEY, "[key]");
    let recorded: Vec<_> = records(&recorded, &here).into_iter().map(with_key).collect();
    assert_eq!(records(&replayed, &there), recorded);
    let expected: Vec<_> = (1..=count).map(|number| format!("{number:04}.json")).collect();
    assert_eq!(names(&here.recording())[..count], expected);
}

#[test]
fn a_recording_holds_no_key_and_nothing_of_the_place() {
    let place = Place::with_notes();
    place.write(".env", format!("OPENAI_API_KEY={KEY}\n"));
    let server = serve(move |talk| match talk.turn() {
        1 => Reaction::call_reply(&[
            ("Read", json!({ "file_path": ".env" })),
            ("Bash", json!({ "command": "pwd" })),
        ]),
        _ => {
            let headers = [
                ("content-type", "application/json"),
                ("set-cookie", "track=me"),
                ("x-request-id", KEY),
                ("openai-organization", "ours"),
            ];
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let body = json!({ "error": { "message": format!("{KEY} is over its quota") } });
            Reaction::Status { code: 400, headers: headers.into(), body: body.to_string().into() }
        }
    });
    place.record(&server, &["--permission-mode", "bypassPermissions"]).exits(1);
    let place_is = place.root().to_string_lossy().into_owned();
    let recording = place.recording();
    let today = jiff::Zoned::now().date().to_string();
    for (name, text) in files(&recording) {
        for secret in [KEY, "authorization", "Bearer", "cookie", "track", "ours", &place_is, &today]
        {
            assert!(!text.contains(secret), "{name} holds `{secret}`:\n{text}");
        }
        let mode = fs::metadata(recording.join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::metadata(&recording).unwrap().permissions().mode() & 0o777, 0o700);
    let last = &files(&recording)[1].1;
    assert!(last.contains("OPENAI_API_KEY=[key]") && last.contains("{cwd}\\n"), "{last}");
    assert!(last.contains(r#""x-request-id": "[key]""#), "{last}");
}

#[test]
fn every_retry_is_replayed_and_nothing_is_waited_for() {
    let place = Place::new();
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => {
            let headers = [("content-type", "application/json"), ("retry-after", "0")];
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let body = json!({ "error": { "message": "slow down" } }).to_string();
            Reaction::Status { code: 429, headers: headers.into(), body: body.into() }
        }
        1 => Reaction::Close,
        2 => Reaction::pieces(["data: {}\n\n"], End::Cut),
        _ => Reaction::text_reply("done"),
    });
    let often = ["--config", "retry.most=3", "-o", "stream-json"];
    let quick = ["--config", "retry.base_ms=1"];
    let recorded = place.record(&server, &[&often[..], &quick].concat()).exits(0);
    assert_eq!(server.finish().len(), 4);
    // With the base that holds without a word of it, this would take seconds.
    let replayed = place.replay(&place.recording(), "go", &often).exits(0);
    assert_eq!(replayed.stderr, "");
    assert_eq!(records(&replayed, &place), records(&recorded, &place));
}

#[test]
fn a_changed_prompt_is_shown_where_it_parts_from_the_recording() {
    let place = Place::new();
    let server = serve(|_| Reaction::text_reply("done"));
    place.record(&server, &[]).exits(0);
    let finished = place.replay(&place.recording(), "stop", &[]).exits(1);
    let (before, after) = finished.stderr.split_once(" at byte ").expect("a place is named");
    assert!(
        before.ends_with("this request was not recorded: it parts from `0001.json`"),
        "{before}"
    );
    let (at, parts) = after.split_once(", where ").expect("both sides are shown");
    assert!(at.parse::<usize>().is_ok(), "{at}");
    let (was, is) = parts.split_once(" became ").expect("both sides are shown");
    assert!(was.contains(r"{facts}\n\ngo") && is.contains(r"{facts}\n\nstop"), "{parts}");
    let left = format!(
        "warning: 1 of 1 exchanges in `{}` were not asked for: 0001.json\n",
        place.recording().display()
    );
    assert!(finished.stderr.ends_with(&left), "{}", finished.stderr);
}

#[test]
fn a_recording_that_was_cut_short_replays_as_far_as_it_goes() {
    let place = Place::with_notes();
    let server = serve(|talk| match talk.turn() {
        1 => Reaction::call_reply(&[("Read", json!({ "file_path": "notes.txt" }))]),
        _ => Reaction::Hang,
    });
    let recording = place.recording();
    let running = place.asking(&server, &["--record", text(&recording)]).start();
    server.wait_until_came(2);
    running.signal(Signal::SIGKILL);
    drop(running.wait());
    assert_eq!(names(&recording), ["0001.json", "recording.json"]);
    let finished = place.replay(&recording, "go", &["-o", "stream-json"]).exits(1);
    assert_eq!(finished.records().outputs().len(), 1);
    let all = format!("this request was not recorded: all 1 in `{}` are used", recording.display());
    assert!(finished.records().result().to_string().contains(&all), "{}", finished.stdout);
}

#[test]
fn what_cannot_be_recorded_or_replayed_is_refused_before_the_run_starts() {
    let place = Place::new();
    let server = serve(|_| Reaction::text_reply("done"));
    place.record(&server, &[]).exits(0);
    let recording = place.recording();
    let shown = recording.display();
    let name = text(&recording);
    place.record(&server, &[]).refuses(
        42,
        &format!(
            "error: `{shown}` holds a recording already\n\
             hint: name another directory, or remove that one first\n"
        ),
    );
    let nothing = "asks no server: there is nothing to record\n\
        hint: leave `--record` out, or choose a model of a server with `-m MODEL`\n";
    let other = place.root().join("other");
    let offline = ["-p", "go", "-m", "offline", "--record", text(&other)];
    place.tine(offline).run().refuses(2, &format!("error: `offline` {nothing}"));
    place.replay(&recording, "go", &["-m", "x"]).refuses(
        42,
        &format!("error: model `x` is not in the recording `{shown}`\nhint: there is `m`\n"),
    );
    place.replay(&other, "go", &[]).refuses(
        42,
        &format!(
            "error: `{}` holds no recording\nhint: `--record DIR` makes one\n",
            other.display()
        ),
    );
    fs::write(recording.join("0002.json"), "{\"version\": 1").unwrap();
    place.replay(&recording, "go", &[]).refuses(
        42,
        &format!(
            "error: `{shown}/0002.json` is no part of a recording: EOF while parsing an object at \
             line 1 column 13\nhint: record it again\n"
        ),
    );
    let both = place.tine(["-p", "go", "--record", name, "--replay", name]).run().exits(2);
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
    assert_eq!(server.finish().len(), 1);
}

#[test]
fn an_agents_own_model_is_recorded_and_answers_without_being_configured() {
    let (here, there) = (Place::new(), Place::new());
    let task = json!({ "tasks": [
        { "description": "a", "prompt": "a", "subagent_type": "explore", "model": "deep" },
        { "description": "b", "prompt": "b", "subagent_type": "explore", "model": "nowhere" },
    ] });
    let server = serve(move |talk| match (talk.task(), talk.turn()) {
        ("go", 1) => Reaction::call_reply(&[("Agent", task.clone())]),
        ("go", _) => Reaction::text_reply(&talk.outputs().join("\n")),
        _ => Reaction::text_reply(&format!("asked {}", talk.model())),
    });
    here.configure(&format!(
        "[models.main]\nbase_url = \"{0}\"\nmodel = \"m-1\"\n\
         [models.deep]\nbase_url = \"{0}\"\nmodel = \"m-2\"\nextra_body = {{ top_k = 3 }}\n",
        server.base_url()
    ));
    let recording = here.recording();
    let run = ["-p", "go", "-m", "main", "--record", text(&recording)];
    let recorded = here.tine(run).run().exits(0);
    assert!(recorded.stdout.contains("asked m-2"), "{}", recorded.stdout);
    // Had the name of a model that is nowhere another sentence there, main's
    // next request would not be the recorded one.
    let replayed = there.replay(&recording, "go", &[]).exits(0);
    assert_eq!(replayed.stdout, recorded.stdout);
    assert!(!replayed.stderr.contains("warning"), "{}", replayed.stderr);
    let named = there.replay(&recording, "go", &["-m", "main", "-o", "json"]).exits(0);
    assert!(named.result().to_string().contains("asked m-2"));
}

#[test]
fn every_api_is_recorded_and_replayed_with_all_that_shapes_its_requests() {
    let answers = [
        ("chat", Reaction::text_reply("done")),
        ("responses", responses::Says::text("done").reaction()),
        ("anthropic", anthropic::text_reply("done")),
    ];
    for (api, answer) in answers {
        let (here, there) = (Place::new(), Place::new());
        let server = Server::start(move |_| answer.clone());
        here.configure(&format!(
            "[models.deep]\napi = \"{api}\"\nbase_url = \"{}\"\nmodel = \"m-1\"\n\
             effort = \"low\"\nmax_output_tokens = 999\ncontext_window = 65536\n\
             extra_body = {{ top_k = 3 }}\n",
            server.base_url()
        ));
        let recording = here.recording();
        here.tine(["-p", "go", "-m", "deep", "--record", text(&recording)]).run().exits(0);
        let [(_, exchange), _] = &files(&recording)[..] else { panic!("one exchange of {api}") };
        assert!(exchange.contains(&format!("\"api\": \"{api}\"")), "{exchange}");
        drop(server);
        let replayed = there.replay(&recording, "go", &[]).exits(0);
        assert_eq!(replayed.stdout, "done\n", "{api}");
    }
}

/// A model behind a server. Its limits pass only where no time does.
fn settings(base_url: &str, exchanges: Exchanges) -> ServedSettings {
    let settings = ServedSettings::new("m", "m", base_url);
    let timeouts = AnswerTimeouts {
        headers: HANG_LIMIT,
        first_piece: HANG_LIMIT,
        idle: HANG_LIMIT,
        second_request: None,
    };
    ServedSettings { timeouts, exchanges, ..settings }
}

fn request() -> Request {
    let mut prefix = Prefix::new(Arc::new(Head::new("Be brief.".into(), Vec::new())));
    prefix.push(Message::User("go".into()));
    let asker = Asker {
        unit: UnitId::MAIN,
        agent: "main".into(),
        description: "".into(),
        purpose: Purpose::Turn,
        turn: 1,
        attempt: 1,
        is_afresh: true,
        forked_from: None,
    };
    Request { prefix, asker, text_schema: None }
}

/// Everything that a model says to one request. Once it has said what it is
/// `silent_after`, every limit has passed.
async fn ask(
    settings: ServedSettings,
    silent_after: Option<&str>,
) -> (String, Result<Answer, ModelError>) {
    let model = Served::new(settings).expect("the settings can be used");
    let mut stream = model.respond(request());
    let mut text = String::new();
    loop {
        if silent_after == Some(&text) {
            tokio::time::pause();
        }
        match stream.next().await.expect("a stream ends in an answer or an error") {
            Ok(Chunk::Text(piece) | Chunk::Thinking(piece)) => text.push_str(&piece),
            Ok(Chunk::SentTwice(notice)) => panic!("{notice}"),
            Ok(Chunk::Finished(answer)) => return (text, Ok(*answer)),
            Err(error) => return (text, Err(error)),
        }
    }
}

/// The same of a server, which is silent for ever in the rows that say so: there
/// every limit passes once nothing more comes. Afterwards the clock stands.
async fn ask_server(
    server: &Server,
    row: &str,
    settings: ServedSettings,
) -> (String, Result<Answer, ModelError>) {
    match row {
        "an answer that stalls" => ask(settings, Some("Grüße an alle")).await,
        "silence" => {
            let ask_in_vain = async {
                server.came(1).await;
                tokio::time::pause();
            };
            tokio::join!(ask(settings, None), ask_in_vain).0
        }
        _ => {
            let live = ask(settings, None).await;
            tokio::time::pause();
            live
        }
    }
}

/// Names the model in a recording, as whoever opens models does.
fn add_model(recorder: &Recorder, base_url: &str) {
    let environment = Environment::from_variables([("OPENAI_BASE_URL", base_url)]);
    let choice = resolve_model(&Config::default(), &environment, Some("m"));
    let Ok(ModelChoice::Server(server)) = choice else { panic!("{choice:?}") };
    recorder.add_model(&server);
}

#[tokio::test]
async fn whatever_a_server_does_its_recording_does_too() {
    let delta = |text: &str| json!({ "choices": [{ "index": 0, "delta": { "content": text } }] });
    let begun = events([&delta("Grüße "), &delta("an alle")]);
    let error = json!({ "error": { "message": "over quota", "type": "server_error" } });
    let whole = json!({ "choices": [{ "message": { "content": "all at once" }, "finish_reason": "stop" }] });
    let ended = [&begun[..], b"data: [DONE]\n\n"].concat();
    let late = |bytes: &[u8]| {
        let after = Duration::from_millis(2);
        let parts = bytes.chunks(20).map(|part| Piece { after, bytes: part.to_vec() });
        let pieces = parts.collect();
        Reaction::Stream { content_type: "text/event-stream", pieces, end: End::Whole }
    };
    let rows = [
        ("an answer", Reaction::text_reply("Grüße")),
        ("an answer byte by byte", Reaction::byte_by_byte(&ended)),
        ("an answer in late pieces", late(&ended)),
        ("a whole answer", Reaction::json(200, &whole)),
        ("an answer that goes on for ever", Reaction::pieces([ended.clone()], End::Hang)),
        ("an answer that is cut", Reaction::pieces([begun.clone()], End::Cut)),
        ("an answer that ends too early", Reaction::pieces([begun.clone()], End::Whole)),
        ("an answer that stalls", Reaction::pieces([begun], End::Hang)),
        ("an error within an answer", Reaction::stream(events([&delta("oh"), &error]))),
        ("a refusal", Reaction::json(429, &error)),
        ("a redirect", Reaction::status(302, "text/plain", "")),
        ("a web page", Reaction::status(200, "text/html", "<html>")),
        ("a page of an error", Reaction::status(502, "text/html", "<html>")),
        ("not UTF-8", Reaction::stream(b"data: \xff\xfe\n\n".to_vec())),
        ("no answer", Reaction::Close),
        ("silence", Reaction::Hang),
    ];
    for (name, reaction) in rows {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(move |_| reaction.clone());
        let recorder = Recorder::create(directory.path(), Volatile::default()).unwrap();
        add_model(&recorder, &server.base_url());
        let base_url = server.base_url();
        let asking = settings(&base_url, Exchanges::Record(Arc::clone(&recorder)));
        let live = ask_server(&server, name, asking).await;
        drop(server);
        assert_eq!(recorder.trouble(), None, "{name}");
        for pace in [Pace::AtOnce, Pace::Recorded] {
            let player = Player::open(directory.path(), Volatile::default(), pace).unwrap();
            let replayed =
                ask(settings(&base_url, Exchanges::Replay(Arc::clone(&player))), None).await;
            assert_eq!(replayed, live, "{name}");
            assert_eq!(player.remarks(), [""; 0], "{name}");
        }
        tokio::time::resume();
    }
}

#[test]
fn the_example_of_the_page_works_as_it_stands() {
    let (_, skill) = PAGE.split_once("```markdown\n").expect("the page has a skill");
    let (skill, _) = skill.split_once("```").expect("the example has an end");
    let blocks: Vec<&str> =
        PAGE.split("```sh\n").skip(1).filter_map(|block| block.split("```").next()).collect();
    let [record, replay, ..] = &blocks[..] else { panic!("the page has two commands") };
    let place = Place::with_notes();
    place.write(".tine/skills/prices/SKILL.md", skill);
    let server = serve(|talk| match talk.turn() {
        1 => Reaction::call_reply(&[("Read", json!({ "file_path": "notes.txt" }))]),
        _ => Reaction::text_reply("cents"),
    });
    let run = |block: &str| {
        let script = format!("set -e\ntine() {{ \"$0\" \"$@\"; }}\n{block}");
        place.tine([""; 0]).by("sh", ["-c", &script])
    };
    run(record).server(&server).run().exits(0);
    assert_eq!(server.finish().len(), 2);
    let finished = run(replay).run().exits(0);
    assert!(!finished.stderr.contains("warning"), "{}", finished.stderr);
    assert_eq!(place.read("answer.txt").as_deref(), Some("cents\n"));
    // What the page says of a recording is what is there.
    assert_eq!(
        names(&place.work().join("tests/prices")),
        ["0001.json", "0002.json", "recording.json"]
    );
}
