//! Servers over channels: what becomes of those that answer, hang, die and lie.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, Value, json};

use super::*;
use crate::event::ServerStatus;

/// What a server of a test does with a request: its result, or nothing.
type Answers = dyn Fn(&str, &Value) -> Option<Value> + Send + Sync;

/// A server that answers in a task of its own.
struct Playing {
    answers: Arc<Answers>,
    /// How often a channel was opened.
    opened: AtomicU32,
    /// The methods that came.
    heard: Arc<Mutex<Vec<String>>>,
    /// After so many requests beside the handshake and the lists it dies.
    dies_after: u32,
}

impl Playing {
    fn new(answers: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static) -> Arc<Self> {
        Self::mortal(u32::MAX, answers)
    }

    fn mortal(
        dies_after: u32,
        answers: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (opened, heard) = (AtomicU32::new(0), Arc::default());
        Arc::new(Self { answers: Arc::new(answers), opened, heard, dies_after })
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

impl Open for Playing {
    fn open(&self) -> Result<Channel, String> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let (near, far) = channel();
        let (answers, heard) = (Arc::clone(&self.answers), Arc::clone(&self.heard));
        tokio::spawn(play(far, answers, heard, self.dies_after));
        Ok(near)
    }
}

async fn play(
    mut far: FarEnds,
    answers: Arc<Answers>,
    heard: Arc<Mutex<Vec<String>>>,
    dies_after: u32,
) {
    let mut calls = 0;
    while let Some(text) = far.received.recv().await {
        let message: Value = serde_json::from_str(&text).unwrap();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        heard.lock().unwrap().push(method.clone());
        let Some(id) = message.get("id") else { continue };
        if method.ends_with("/call") {
            calls += 1;
            if calls > dies_after {
                return;
            }
        }
        let result = match method.as_str() {
            "initialize" => Some(json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}, "prompts": {}},
                "serverInfo": {"name": "played", "version": "1"},
            })),
            other => answers(other, &message["params"]),
        };
        if let Some(result) = result {
            let reply = json!({"jsonrpc": "2.0", "id": id, "result": result});
            if far.said.send(reply.to_string()).await.is_err() {
                return;
            }
        }
    }
}

/// Lists one tool and one prompt, and says what it was called with.
fn honest(method: &str, parameters: &Value) -> Option<Value> {
    Some(match method {
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "prompts/list" => json!({"prompts": [{"name": "greet"}]}),
        "tools/call" => {
            let text = format!("{} {}", parameters["name"], parameters["arguments"]);
            json!({"content": [{"type": "text", "text": text}]})
        }
        "prompts/get" => json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": "hello"}}
        ]}),
        _ => return None,
    })
}

fn lists_only(method: &str, parameters: &Value) -> Option<Value> {
    honest(method, parameters).filter(|_| method.ends_with("/list"))
}

fn servers(played: &[(&str, &Arc<Playing>)]) -> Servers {
    let configured = played.iter().map(|(name, played)| Configured {
        name: (*name).to_owned(),
        origin: "a test".to_owned(),
        reached: Reached::Channel(Arc::clone(*played) as Arc<dyn Open>),
    });
    let limits = Limits {
        startup: Duration::from_secs(5),
        connect: Duration::from_secs(30),
        call: Duration::from_secs(60),
    };
    let surroundings = Surroundings {
        variables: crate::guard::sandbox::Variables::default(),
        directory: PathBuf::from("/"),
    };
    Servers::new(configured.collect(), limits, surroundings)
}

fn statuses(servers: &Servers) -> Vec<(String, ServerStatus)> {
    let glances = servers.glances().into_iter();
    glances.map(|glance| (glance.name.to_string(), glance.status)).collect()
}

async fn echo(servers: &Servers, name: &str) -> Result<Value, NoAnswer> {
    let server = servers.find(name).unwrap();
    server.call("echo", Map::new(), &CancellationToken::new()).await
}

#[tokio::test(start_paused = true)]
async fn servers_answer_over_any_channel_and_stand_by_name() {
    let (a, b) = (Playing::new(honest), Playing::new(honest));
    let servers = servers(&[("b", &b), ("a x", &a)]);
    assert_eq!(a.opened.load(Ordering::Relaxed), 0, "nothing is started before it is wanted");
    assert!(servers.settled_once().await);
    assert!(!servers.settled_once().await);
    let names: Vec<_> = servers.tools().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["mcp__a_x__echo", "mcp__b__echo"]);
    let result = echo(&servers, "a_x").await.unwrap();
    assert_eq!(output(&result, false).text, r#""echo" {}"#);
    let (server, offer) = servers.find_prompt("MCP__b__greet").unwrap();
    let got = server.prompt(&offer.remote, Map::new(), &CancellationToken::new()).await.unwrap();
    assert_eq!(prompt(&got).as_deref(), Ok("hello"));
    servers.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_late_and_then_failed_and_keeps_nobody_waiting() {
    let (silent, honest) = (Playing::new(|_, _| None), Playing::new(honest));
    let servers = servers(&[("honest", &honest), ("silent", &silent)]);
    let began = Instant::now();
    servers.settled_once().await;
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    let (pending, connected) = (ServerStatus::Pending, ServerStatus::Connected);
    let expected = [("honest".to_owned(), connected), ("silent".to_owned(), pending)];
    assert_eq!(statuses(&servers), expected);
    servers.find("silent").unwrap().settled().await;
    let state = servers.find("silent").unwrap().state();
    assert_eq!(state, State::Failed("it did not answer within 30 s".into()));
    servers.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_ends_at_its_limit_or_at_a_cancel_and_the_server_is_told() {
    let played = Playing::new(lists_only);
    let servers = servers(&[("a", &played)]);
    servers.settled_once().await;
    let began = Instant::now();
    assert_eq!(echo(&servers, "a").await, Err(NoAnswer::TooLong));
    assert_eq!(began.elapsed(), Duration::from_secs(60));
    let cancel = CancellationToken::new();
    let calling = servers.find("a").unwrap().call("echo", Map::new(), &cancel);
    let began = Instant::now();
    let (ended, ()) = tokio::join!(calling, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    });
    assert_eq!((ended, began.elapsed()), (Err(NoAnswer::Cancelled), Duration::from_secs(1)));
    servers.close().await;
    let told = played.heard().iter().filter(|it| *it == "notifications/cancelled").count();
    assert_eq!(told, 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_died_is_started_again_by_the_next_call() {
    let played = Playing::mortal(1, honest);
    let servers = servers(&[("a", &played)]);
    servers.settled_once().await;
    for round in 1..4 {
        assert!(echo(&servers, "a").await.is_ok());
        assert!(matches!(echo(&servers, "a").await, Err(NoAnswer::Gone(_))), "{round}");
        assert_eq!(played.opened.load(Ordering::Relaxed), round);
    }
    servers.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_at_every_call_is_given_up() {
    let played = Playing::mortal(0, honest);
    let servers = servers(&[("a", &played)]);
    servers.settled_once().await;
    let mut last = String::new();
    for _ in 0..10 {
        last = echo(&servers, "a").await.unwrap_err().to_string();
    }
    assert_eq!(last, "it has died 5 times in a row: it ended the connection");
    assert_eq!(played.opened.load(Ordering::Relaxed), 5);
    assert_eq!(statuses(&servers)[0].1, ServerStatus::Failed);
    servers.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lies_about_its_lists_or_results_is_its_own_error() {
    for lie in [json!({}), json!({"tools": 7}), json!({"tools": {"a": 1}})] {
        let played = Playing::new(move |method, _| (method == "tools/list").then(|| lie.clone()));
        let servers = servers(&[("a", &played)]);
        servers.settled_once().await;
        let state = servers.find("a").unwrap().state();
        assert_eq!(state, State::Failed("it answered `tools/list` without `tools`".into()));
    }
    let endless = Playing::new(|method, _| {
        (method == "tools/list").then(|| {
            let cursor = uuid::Uuid::now_v7().to_string();
            json!({"tools": [{"name": "echo", "inputSchema": []}], "nextCursor": cursor})
        })
    });
    let servers = servers(&[("a", &endless)]);
    servers.settled_once().await;
    let State::Connected(listing) = servers.find("a").unwrap().state() else { panic!("connected") };
    assert_eq!((listing.tools.len(), listing.left_out.len()), (0, 32));
    servers.close().await;
}
