//! Servers over channels: what becomes of those that answer, hang, die and lie.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::BoxFuture;
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
    Servers::new(configured.collect(), limits, Surroundings::default())
}

fn statuses(servers: &Servers) -> Vec<(String, ServerStatus)> {
    let glances = servers.glances().into_iter();
    glances.map(|glance| (glance.name.to_string(), glance.status)).collect()
}

struct Nobody;

impl People for Nobody {
    fn ask<'a>(&'a self, _: &'a str, _: &'a Value) -> BoxFuture<'a, Elicited> {
        Box::pin(std::future::ready(Elicited::Cancelled))
    }
}

async fn echo(servers: &Servers, name: &str) -> Result<Value, NoAnswer> {
    let server = servers.find(name).unwrap();
    server.call(("echo", Map::new()), &Nobody, &CancellationToken::new()).await
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
    let calling = servers.find("a").unwrap().call(("echo", Map::new()), &Nobody, &cancel);
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
            json!({"tools": [{"name": "echo", "inputSchema": 7}], "nextCursor": cursor})
        })
    });
    let servers = servers(&[("a", &endless)]);
    servers.settled_once().await;
    let State::Connected(listing) = servers.find("a").unwrap().state() else { panic!("connected") };
    assert_eq!((listing.tools.len(), listing.left_out.len()), (0, 32));
    servers.close().await;
}

/// What a server of a test says to a message, given how often it was opened;
/// `null` ends it.
type Reacts = dyn Fn(u32, &Value) -> Vec<Value> + Send + Sync;

/// A server that says what it likes.
struct Free {
    reacts: Arc<Reacts>,
    opened: AtomicU32,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Free {
    /// What `reacts` says nothing to is answered as an honest server does.
    fn new(
        reacts: impl Fn(u32, &Value) -> Option<Vec<Value>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let reacts = move |opened: u32, message: &Value| {
            reacts(opened, message).unwrap_or_else(|| plain(message).into_iter().collect())
        };
        Arc::new(Self {
            reacts: Arc::new(reacts),
            opened: AtomicU32::new(0),
            heard: Arc::default(),
        })
    }

    fn heard(&self, method: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|heard| *heard == method).count()
    }
}

impl Open for Free {
    fn open(&self) -> Result<Channel, String> {
        let opened = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let (near, mut far) = channel();
        let (reacts, heard) = (Arc::clone(&self.reacts), Arc::clone(&self.heard));
        tokio::spawn(async move {
            while let Some(text) = far.received.recv().await {
                let message: Value = serde_json::from_str(&text).unwrap();
                let method = message["method"].as_str().unwrap_or_default().to_owned();
                heard.lock().unwrap().push(method);
                for said in reacts(opened, &message) {
                    if said.is_null() || far.said.send(said.to_string()).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(near)
    }
}

fn result(message: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
}

fn plain(message: &Value) -> Option<Value> {
    message.get("id")?;
    let method = message["method"].as_str()?;
    let said = match method {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "free", "version": "1"},
        }),
        other => honest(other, &message["params"])?,
    };
    Some(result(message, said))
}

fn changed() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
}

const SHORT: Limits = Limits {
    startup: Duration::from_secs(5),
    connect: Duration::from_secs(30),
    call: Duration::from_secs(10),
};

fn one(free: &Arc<Free>, limits: Limits) -> Servers {
    let configured = Configured {
        name: "a".to_owned(),
        origin: "a test".to_owned(),
        reached: Reached::Channel(Arc::clone(free) as Arc<dyn Open>),
    };
    Servers::new(vec![configured], limits, Surroundings::default())
}

#[tokio::test(start_paused = true)]
async fn a_call_has_one_limit_for_the_connection_and_the_answer() {
    for (call, expected) in [(10, 10), (600, 30)] {
        let free = Free::new(|opened, message| match message["method"].as_str() {
            Some("tools/call") => Some(vec![Value::Null]),
            _ if opened > 1 => Some(Vec::new()),
            _ => None,
        });
        let servers = one(&free, Limits { call: Duration::from_secs(call), ..SHORT });
        servers.settled_once().await;
        assert!(matches!(echo(&servers, "a").await, Err(NoAnswer::Gone(_))));
        let began = Instant::now();
        echo(&servers, "a").await.unwrap_err();
        assert_eq!(began.elapsed(), Duration::from_secs(expected));
        servers.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_say_what_has_changed_keeps_no_call_waiting() {
    let lists = AtomicU32::new(0);
    let free = Free::new(move |_, message| {
        (message["method"] == "tools/list").then(|| {
            let is_first = lists.fetch_add(1, Ordering::Relaxed) == 0;
            let said = is_first.then(|| [plain(message).unwrap(), changed()]);
            said.into_iter().flatten().collect()
        })
    });
    let servers = one(&free, SHORT);
    servers.settled_once().await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(free.heard("tools/list"), 2);
    let began = Instant::now();
    assert!(echo(&servers, "a").await.is_ok());
    assert_eq!(began.elapsed(), Duration::ZERO);
    servers.close().await;
}

#[tokio::test(start_paused = true)]
async fn whichever_of_its_lists_has_changed_a_server_is_asked_again() {
    for what in ["tools", "prompts", "resources"] {
        let lists = AtomicU32::new(0);
        let free = Free::new(move |_, message| {
            (message["method"] == "tools/list").then(|| {
                let is_first = lists.fetch_add(1, Ordering::Relaxed) == 0;
                let method = format!("notifications/{what}/list_changed");
                let changed = json!({"jsonrpc": "2.0", "method": method});
                let all = [plain(message), is_first.then_some(changed)];
                all.into_iter().flatten().collect()
            })
        });
        let servers = one(&free, SHORT);
        servers.settled_once().await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(free.heard("tools/list"), 2, "{what}");
        servers.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_changes_without_end_is_asked_now_and_then() {
    let free = Free::new(|_, message| {
        let is_list = message["method"] == "tools/list";
        is_list.then(|| vec![plain(message).unwrap(), changed()])
    });
    let servers = one(&free, SHORT);
    servers.settled_once().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let lists = free.heard("tools/list");
    assert!((10..=14).contains(&lists), "{lists}");
    servers.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_ended_is_said_to_have_and_keeps_its_tools_for_the_next_call() {
    let free = Free::new(|_, message| {
        let is_fatal = message["params"]["name"] == "die";
        is_fatal.then(|| vec![Value::Null])
    });
    let servers = one(&free, SHORT);
    servers.settled_once().await;
    let server = servers.find("a").unwrap();
    let died = server.call(("die", Map::new()), &Nobody, &CancellationToken::new()).await;
    assert!(matches!(died, Err(NoAnswer::Gone(_))), "{died:?}");
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(statuses(&servers)[0].1, ServerStatus::Failed);
    assert_eq!(server.state().why().map(|why| &**why), Some("it ended the connection"));
    assert_eq!((servers.tools().len(), free.opened.load(Ordering::Relaxed)), (1, 1));
    assert!(echo(&servers, "a").await.is_ok());
    assert_eq!(statuses(&servers)[0].1, ServerStatus::Connected);
    servers.close().await;
}

/// Somebody who takes a long time.
struct Slow;

impl People for Slow {
    fn ask<'a>(&'a self, _: &'a str, _: &'a Value) -> BoxFuture<'a, Elicited> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            Elicited::Declined
        })
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_call_stands_still_while_its_own_question_is_open_and_no_others() {
    let asking = Mutex::new(Value::Null);
    let free = Free::new(move |_, message| {
        if message["id"] == "q" {
            return Some(vec![result(&asking.lock().unwrap(), message["result"].clone())]);
        }
        match message["params"]["name"].as_str()? {
            "ask" => {
                *asking.lock().unwrap() = message.clone();
                let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
                let asked = json!({"message": "Who?", "requestedSchema": schema});
                let method = "elicitation/create";
                Some(vec![json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": asked})])
            }
            "hang" => Some(Vec::new()),
            _ => None,
        }
    });
    let servers = one(&free, SHORT);
    servers.settled_once().await;
    let (server, cancel, began) =
        (servers.find("a").unwrap(), CancellationToken::new(), Instant::now());
    let timed = async |tool| {
        let answer = server.call((tool, Map::new()), &Slow, &cancel).await;
        (answer.map(|answer| answer["action"].clone()), began.elapsed().as_secs())
    };
    let (asked, hung) = tokio::join!(timed("ask"), async {
        // The question is the first call's by then.
        tokio::time::sleep(Duration::from_secs(1)).await;
        timed("hang").await
    });
    assert_eq!(asked, (Ok(json!("decline")), 100));
    assert_eq!(hung, (Err(NoAnswer::TooLong), 11));
    servers.close().await;
}
