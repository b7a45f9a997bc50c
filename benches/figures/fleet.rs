//! Slots on workers, over a server of NATS that writes each message to the disk.
//!
//! The server is the one that `NATS_SERVER` names, or `nats-server`; without it there
//! are no figures. The model is scripted, in the workers' own processes.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::clock;
use crate::measure::{median, millis};
use crate::program::{self, Place};
use crate::table::{Figure, Unit};

/// How often each map is measured.
const RUNS: usize = 3;

/// How often a cancel is.
const CANCELS: usize = 5;

/// How often a worker is killed.
const KILLS: usize = 3;

/// How many slots one worker has at once.
const EACH: u32 = 8;

/// What the model takes for an answer.
const DELAY_MS: u32 = 5;

/// What it takes where a worker is killed: long enough that all have some at work.
const LONG_DELAY_MS: u32 = 1_000;

/// How long a worker may be silent that is set up as everybody is, in milliseconds.
const LEASE_MS: f64 = 10_000.0;

/// The executor without a server.
const LOCAL: &str = "local";

/// The time of maps, beside the local pool, and how it grows.
pub(crate) fn fleet() -> Vec<Figure> {
    let Some(server) = Server::start() else {
        // As the tests have it.
        let is_wanted = std::env::var_os("REQUIRE_NATS").is_some();
        assert!(!is_wanted, "there is no NATS server: set `NATS_SERVER`");
        return Vec::new();
    };
    let two = Fleet::start(&server, 2);
    let local = two.map(LOCAL, 1_000);
    let some = two.map("nats", 1_000);
    let many = two.map("nats", 10_000);
    let many_here = two.map(LOCAL, 10_000);
    let mut faults = Vec::new();
    let cancel = (0..CANCELS).map(|_| two.cancel(&mut faults)).fold(0.0, f64::max);
    drop(two);
    let eight = Fleet::start(&server, 8);
    let wide = eight.map("nats", 10_000);
    drop(eight);
    let mut kept = Vec::new();
    let kills = (0..KILLS).map(|_| Fleet::start(&server, 2).killed(&mut kept));
    // What holds is the limit of each, and not of most.
    let again = kills.fold(0.0, f64::max);
    let slot = (some - local) / 1_000.0;
    // A ticket goes to whoever has a place next.
    let most = LEASE_MS + f64::from(LONG_DELAY_MS);
    let growth = format!("10,000 slots ({:.1} s) over 1,000, 2 workers", many / 1e3);
    let wider = format!("10,000 slots, 8 workers ({:.1} s) over 2", wide / 1e3);
    vec![
        Figure::new("1,000 slots of 5 ms, 2 workers x 8", some, 2_000.0, Unit::Millis),
        Figure::new("what a slot costs more than in the local pool of 16", slot, 2.0, Unit::Millis),
        Figure::new(growth, many / some, 13.0, Unit::Times),
        // Two workers keep two cores busy, so more of them can only cost nothing; a fifth
        // is what one run differs from the next.
        Figure::new(wider, wide / many, 1.2, Unit::Times),
        Figure::new("10,000 slots in the local pool of 16", many_here, 8_000.0, Unit::Millis),
        Figure::new(
            "kill -9 of one of 2 workers, its 8 begun again, slowest of 3",
            again,
            most,
            Unit::Millis,
        ),
        Figure::none_of("... faults: 8 lost once each, every row completed", kept),
        Figure::new(
            "cancel of 16 running and 984 queued, slowest of 5",
            cancel,
            50.0,
            Unit::Millis,
        ),
        Figure::none_of("... faults: 16 cancelled, 984 never started, exit code 130", faults),
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
        let answer = format!(r#"{{"text": "said", "delay_ms": {DELAY_MS}, "repeat": true}}"#);
        let mut command = self.mapping(&place, executor, (rows, &answer));
        let started = clock::now();
        let status = command.status().expect("the program can be started");
        let took = clock::now() - started;
        assert!(status.success(), "every row is completed");
        let out = std::fs::read_to_string(place.workspace().join("out.jsonl"));
        assert_eq!(out.expect("it is written").lines().count(), rows as usize);
        millis(took)
    }

    /// Cancels a map when every worker has all that it takes, and returns how long it is
    /// until the log has the end of the last slot that was at work, in milliseconds.
    fn cancel(&self, faults: &mut Vec<String>) -> f64 {
        let place = Place::new();
        let never = r#"{"text": "half", "fault": "hang", "repeat": true}"#;
        let mut child = self.mapping(&place, "nats", (1_000, never)).spawn().expect("as above");
        let running = self.workers.len() * EACH as usize;
        wait_for_turns(&place, running);
        let sent = SystemTime::UNIX_EPOCH.elapsed().expect("it is later than that");
        let pid = i32::try_from(child.id()).expect("process ids are small");
        kill(Pid::from_raw(pid), Signal::SIGINT).expect("the process runs");
        let code = child.wait().expect("a child can be waited for").code();
        let ended: Vec<Value> =
            log(&place).into_iter().filter(|line| line["kind"] == "unit_ended").collect();
        let (ran, never): (Vec<&Value>, Vec<&Value>) =
            ended.iter().partition(|line| line["body"]["outcome"]["ran"] == true);
        let found = (ran.len(), never.len(), code);
        if found != (running, 1_000 - running, Some(130)) {
            faults.push(format!("cancelled, never started, exit code: {found:?}"));
        }
        let last = ran.iter().filter_map(|line| line["at"].as_u64()).max();
        let last = Duration::from_millis(last.expect("some were at work"));
        millis(last.saturating_sub(sent))
    }

    /// Kills one of the workers when all have all that they take, and returns how long it
    /// is until the log has the last of its slots at work again, in milliseconds.
    fn killed(mut self, faults: &mut Vec<String>) -> f64 {
        let place = Place::new();
        let answer = format!(r#"{{"text": "said", "delay_ms": {LONG_DELAY_MS}, "repeat": true}}"#);
        let mut child = self.mapping(&place, "nats", (200, &answer)).spawn().expect("as above");
        wait_for_turns(&place, self.workers.len() * EACH as usize);
        let sent = SystemTime::UNIX_EPOCH.elapsed().expect("it is later than that");
        end(&mut self.workers[0].0);
        let status = child.wait().expect("a child can be waited for");
        let lines = log(&place);
        let is_lost = |line: &&Value| line["kind"] == "lost";
        let lost: Vec<&Value> = lines.iter().filter(is_lost).map(|line| &line["unit"]).collect();
        let count = lost.iter().copied().collect::<HashSet<_>>().len();
        if (lost.len(), count, status.success()) != (EACH as usize, EACH as usize, true) {
            faults.push(format!("lost {}, of {count} slots, {status}", lost.len()));
        }
        // The last turn of each is the one that it has come to its end with.
        let begun = lines.iter().filter(|line| line["kind"] == "turn_started");
        let begun = begun.filter(|line| lost.contains(&&line["unit"]));
        let last = begun.filter_map(|line| line["at"].as_u64()).max();
        let last = Duration::from_millis(last.expect("some were lost"));
        millis(last.saturating_sub(sent))
    }

    /// Returns a map of so many rows, each of which is answered so.
    fn mapping(&self, place: &Place, executor: &str, (rows, answer): (u32, &str)) -> Command {
        let write = |name: &str, text: String| {
            let path = place.workspace().join(name);
            std::fs::write(&path, text).expect("a new file");
            path
        };
        let mut table = "number\n".to_owned();
        (0..rows).for_each(|row| writeln!(table, "{row}").expect("a string takes it"));
        write("rows.csv", table);
        write("prompt.md", "Say {{ number }}".to_owned());
        let script = write("script.json", format!(r#"{{"units": {{"*": [{answer}]}}}}"#));
        let mut command = program::command(place);
        let servers = format!("executor.nats.servers=[\"{}\"]", self.url);
        command.args(["map", "--input", "rows.csv", "--prompt", "prompt.md"]);
        command.args(["--output", "out.jsonl", "--config", &servers]);
        // On workers as many as they take: all tickets are in the queue at once.
        if executor == LOCAL {
            command.args(["--max-concurrent", "16"]);
        }
        command.args(["-m", &format!("scripted:{}", script.display()), "--executor", executor]);
        command
    }
}

/// Waits until so many turns have begun.
fn wait_for_turns(place: &Place, count: usize) {
    let asks = |line: &&Value| line["kind"] == "turn_started";
    while log(place).iter().filter(asks).count() < count {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads the log of the one session of a place; nothing while there is none.
fn log(place: &Place) -> Vec<Value> {
    let mut directory = place.home().join(".local/state/tine/sessions");
    // By project, then by session.
    for _ in 0..2 {
        let entry = std::fs::read_dir(&directory).ok().and_then(|mut found| found.next());
        let Some(Ok(entry)) = entry else { return Vec::new() };
        directory = entry.path();
    }
    let text = std::fs::read_to_string(directory.join("log.jsonl")).unwrap_or_default();
    // The last line may be half a one.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
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
