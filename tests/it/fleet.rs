//! Slots that workers run, through the binary: the same script with the executor
//! `local` and with `nats` has to come to the same.
//!
//! Where there is no NATS server these tests pass, unless `REQUIRE_NATS=1`.

mod altered;
mod apart;
mod asked;
mod batches;
mod bounds;
mod broken;
mod cancelled;
mod chaos;
mod clustered;
mod continued;
mod drained;
mod files;
mod forks;
mod healthy;
mod large;
mod late;
mod limits;
mod lost;
mod packing;
mod parted;
mod permitted;
mod refused;
mod reviewed;
mod room;
mod secrets;
mod secured;
mod seen;
mod sent;
mod shipped;
mod slow;
mod stories;
mod unheard;
mod waiting;
mod walked;

use std::fmt::Debug;

use async_nats::jetstream;
use futures_util::TryStreamExt as _;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::fleet::Fleet;
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::{Talk, serve};
use crate::support::tine::{Place, Tine};

/// A lease that no worker outlasts by mistake, however slow the machine is.
const LONG: u32 = 10;

/// One that it does not take long to outlast, but not shorter than a process that has to
/// wait for its turn on a machine with much to do. Whoever is silent for longer is lost
/// all the same: so tests with it count at least what has to be lost.
const SHORT: u32 = 2;

const SESSION: &str = "0199a000-0000-7000-8000-000000000001";

/// Who runs the slots of a run: the process itself, or workers.
struct Side {
    fleet: Option<Fleet>,
    /// How many slots run at once.
    most: usize,
}

/// Has both sides find out facts, and checks that they are the same.
#[track_caller]
fn both<T: Debug + PartialEq>(facts: impl Fn(&mut Side) -> T) {
    let Some(fleet) = Fleet::start(LONG) else { return };
    let there = facts(&mut Side { fleet: Some(fleet), most: 0 });
    let here = facts(&mut Side { fleet: None, most: 0 });
    assert_eq!(there, here, "with workers (left) it is not what it is in one process (right)");
}

impl Side {
    /// Has so many workers, each of which takes so many slots at once; or so many
    /// slots of its own.
    fn work(&mut self, most: &[usize], model: Option<&Server>) {
        self.most += most.iter().sum::<usize>();
        if let Some(fleet) = &mut self.fleet {
            for most in most {
                fleet.work(*most, model);
            }
        }
    }

    /// The binary, which has its slots run on this side.
    fn tine(&self, place: &Place, arguments: &[&str]) -> Tine {
        if let Some(fleet) = &self.fleet {
            place.configure(&fleet.configuration());
        }
        let executor = if self.fleet.is_some() { "nats" } else { "local" };
        let most = format!("agents.max_concurrent={}", self.most);
        let own = ["--executor", executor, "--config", &most];
        place.tine(arguments.iter().chain(&own))
    }

    /// Runs one prompt against a script, and returns its process.
    fn play(&self, place: &Place, script: &Value, flags: &[&str]) -> Tine {
        let model = place.script("script.json", script);
        let asked = [&["-p", "go", "-m", &model][..], flags].concat();
        self.tine(place, &asked)
    }

    /// Writes a text of a run in this place without what is never the same: the
    /// directory it worked in, there or here, and the session.
    fn plain(&self, place: &Place, text: &str) -> String {
        let mut text = text.to_owned();
        for worker in self.fleet.iter().flat_map(|fleet| &fleet.workers) {
            let lanes = format!("{}/lanes/", worker.directory().display());
            while let Some((before, after)) = text.split_once(&lanes) {
                text =
                    format!("{before}ROOT{}", after.trim_start_matches(|c: char| c.is_numeric()));
            }
        }
        text.replace(&place.root().display().to_string(), "ROOT")
    }
}

fn task(name: &str) -> Value {
    json!({"description": name, "prompt": name, "subagent_type": "general-purpose"})
}

/// A task with one more field.
fn task_with(name: &str, field: &str, value: impl Into<Value>) -> Value {
    let mut task = task(name);
    task[field] = value.into();
    task
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

fn batch(tasks: &[Value]) -> Value {
    call("Agent", json!({ "tasks": tasks }))
}

fn write(path: &str, text: &str) -> Value {
    json!({"calls": [call("Write", json!({"file_path": path, "content": text}))]})
}

/// A script in which main starts these tasks and then is done, and its agents answer
/// so.
fn script(tasks: &[Value], agents: Value) -> Value {
    let mut units = agents;
    units["main"] = json!([{"calls": [batch(tasks)]}, {"text": "done"}]);
    json!({ "units": units })
}

/// A place with a table of so many rows.
fn table(count: usize) -> Place {
    let place = Place::new();
    write_table(&place, count);
    place
}

fn write_table(place: &Place, count: usize) {
    place.write("p.md", "Look at {{ path }}");
    let rows: String = (0..count).map(|number| format!("r{number}\n")).collect();
    place.write("items.csv", format!("path\n{rows}"));
}

/// The row that a request is about.
fn row(talk: &Talk) -> &str {
    talk.task().strip_prefix("Look at ").expect("every request is about a row")
}

/// A server that says which row it was asked for.
fn echo() -> Server {
    serve(|talk| Reaction::text_reply(&format!("saw {}", row(talk))))
}

/// A server that says so when the gate is open that belongs to the row. It hears of
/// clients that do not wait for that.
fn held(gate: impl Fn(&Talk) -> Gate + Send + Sync + 'static) -> Server {
    serve(move |talk| {
        let text = format!("saw {}", row(talk));
        Reaction::in_steps([(text.as_str(), &gate(talk))])
    })
}

/// One that says so when the gate is open.
fn held_by(gate: &Gate) -> Server {
    let gate = gate.clone();
    held(move |_| gate.clone())
}

/// A map of the table, by workers.
fn map(fleet: &Fleet, place: &Place, model: &Server, flags: &[&str]) -> Tine {
    place.configure(&fleet.configuration());
    mapping(place, model, flags)
}

/// The same for a place that is configured.
fn mapping(place: &Place, model: &Server, flags: &[&str]) -> Tine {
    let fixed = ["map", "--executor", "nats", "--prompt", "p.md", "--input", "items.csv", "-m"];
    let more = ["m", "--config", "retry.most=0", "--output", "out.jsonl"];
    place.tine(fixed.iter().chain(&more).chain(flags)).server(model)
}

/// Checks that each row of the table stands in the output once, in its order, with
/// its own answer.
#[track_caller]
fn check_each_row_once(place: &Place, count: usize) {
    let text = place.read("out.jsonl").expect("it was written");
    let short = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        json!([line["id"], line["status"], line["result"]])
    };
    let lines: Vec<Value> = text.lines().map(short).collect();
    let expected = (0..count)
        .map(|index| json!([(index + 1).to_string(), "completed", format!("saw r{index}")]));
    assert_eq!(lines, expected.collect::<Vec<_>>());
}

/// Returns how many results the server has of each slot.
fn results(fleet: &Fleet) -> Vec<usize> {
    Runtime::new().expect("a runtime").block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        let context = jetstream::new(client);
        let mut counts = Vec::new();
        for shard in 0..4 {
            let stream = context.get_stream(format!("tine-events-{shard}")).await;
            let stream = stream.expect("whoever came first has made it");
            let subjects = stream.info_with_subjects("tine.results.>").await;
            let subjects = subjects.expect("it can be asked");
            let found: Vec<(String, usize)> = subjects.try_collect().await.expect("it is read");
            counts.extend(found.into_iter().map(|(_, count)| count));
        }
        counts
    })
}

/// How many slots of this worker were lost, as often as each was.
fn lost_of(place: &Place, worker: &str) -> usize {
    logged(place, "lost").iter().filter(|line| line["body"]["worker"] == *worker).count()
}

/// The lines of the log of one kind.
fn logged(place: &Place, kind: &str) -> Vec<Value> {
    place.log().into_iter().filter(|line| line["kind"] == kind).collect()
}
