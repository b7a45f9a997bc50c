//! Slots on workers, over a server of NATS that writes each message to the disk.
//!
//! The server is the one that `NATS_SERVER` names, or `nats-server`; without it there
//! are no figures. The model is scripted, in the workers' own processes.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use crate::clock;
use crate::measure::{median, millis};
use crate::program::{self, Place};
use crate::table::{Figure, Unit};

/// How often each map is measured.
const RUNS: usize = 3;

/// How many slots one worker has at once.
const EACH: u32 = 8;

/// What the model takes for an answer.
const DELAY_MS: u32 = 5;

/// The time of maps, beside the local pool, and how it grows.
pub(crate) fn fleet() -> Vec<Figure> {
    let Some(server) = Server::start() else { return Vec::new() };
    let two = Fleet::start(&server, 2);
    let local = two.map("local", 1_000);
    let some = two.map("nats", 1_000);
    let many = two.map("nats", 10_000);
    drop(two);
    let eight = Fleet::start(&server, 8);
    let wide = eight.map("nats", 10_000);
    let slot = (some - local) / 1_000.0;
    let growth = format!("10,000 slots ({:.1} s) over 1,000, 2 workers", many / 1e3);
    let wider = format!("10,000 slots, 8 workers ({:.1} s) over 2", wide / 1e3);
    vec![
        Figure::new("1,000 slots of 5 ms, 2 workers x 8", some, 2_000.0, Unit::Millis),
        Figure::new("what a slot costs more than in the local pool of 16", slot, 2.0, Unit::Millis),
        Figure::new(growth, many / some, 13.0, Unit::Times),
        Figure::new(wider, wide / many, 1.0, Unit::Times),
    ]
}

/// A server of NATS in a directory of its own.
struct Server {
    child: Child,
    url: String,
    _place: Place,
}

impl Server {
    /// Returns `None` if there is no such program.
    fn start() -> Option<Self> {
        let place = Place::new();
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let store = place.home().join("store");
        let file = place.home().join("nats.conf");
        let text = format!(
            "listen: 127.0.0.1:{port}\njetstream {{ store_dir: {store:?}, sync_interval: always }}\n"
        );
        std::fs::write(&file, text).expect("a new file");
        let program = std::env::var_os("NATS_SERVER").unwrap_or_else(|| "nats-server".into());
        let mut command = Command::new(program);
        command.arg("-c").arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().ok()?;
        wait_for(&mut child, "Server is ready");
        Some(Self { child, url: format!("nats://127.0.0.1:{port}"), _place: place })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Workers that have begun.
struct Fleet {
    workers: Vec<(Child, Place)>,
    url: String,
}

impl Fleet {
    fn start(server: &Server, count: u32) -> Self {
        let workers = (0..count).map(|_| {
            let place = Place::new();
            let mut command = program::command(&place);
            let most = EACH.to_string();
            command.args(["worker", "--connect", &server.url, "--max-concurrent", &most]);
            let mut child = command.stderr(Stdio::piped()).spawn().expect("it can be started");
            wait_for(&mut child, " agents at once from ");
            (child, place)
        });
        Self { workers: workers.collect(), url: server.url.clone() }
    }

    /// Returns how long a map of so many rows takes, the start of its process too, in
    /// milliseconds.
    fn map(&self, executor: &str, rows: u32) -> f64 {
        median((0..RUNS).map(|_| self.run(executor, rows)).collect())
    }

    fn run(&self, executor: &str, rows: u32) -> f64 {
        let place = Place::new();
        let write = |name: &str, text: String| {
            let path = place.workspace().join(name);
            std::fs::write(&path, text).expect("a new file");
            path
        };
        let mut table = "number\n".to_owned();
        (0..rows).for_each(|row| writeln!(table, "{row}").expect("a string takes it"));
        write("rows.csv", table);
        write("prompt.md", "Say {{ number }}".to_owned());
        let answer = format!(r#"{{"text": "said", "delay_ms": {DELAY_MS}, "repeat": true}}"#);
        let script = write("script.json", format!(r#"{{"units": {{"*": [{answer}]}}}}"#));
        let mut command = program::command(&place);
        let servers = format!("executor.nats.servers=[\"{}\"]", self.url);
        command.args(["map", "--input", "rows.csv", "--prompt", "prompt.md"]);
        command.args(["--output", "out.jsonl", "--max-concurrent", "16", "--config", &servers]);
        command.args(["-m", &format!("scripted:{}", script.display()), "--executor", executor]);
        let started = clock::now();
        let status = command.status().expect("the program can be started");
        let took = clock::now() - started;
        assert!(status.success(), "every row is completed");
        let out = std::fs::read_to_string(place.workspace().join("out.jsonl"));
        assert_eq!(out.expect("it is written").lines().count(), rows as usize);
        millis(took)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.workers.iter_mut().for_each(|(child, _)| end(child));
    }
}

/// Reads what a process says until this is in it; the rest goes nowhere.
fn wait_for(child: &mut Child, sign: &str) {
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let said = lines.by_ref().map_while(Result::ok).any(|line| line.contains(sign));
    assert!(said, "the process ended before it said `{sign}`");
    std::thread::spawn(move || lines.for_each(drop));
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}
