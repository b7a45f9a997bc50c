//! Requests of workers pass the gate of their coordinator; while that is silent, each
//! worker goes by its share.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::refused::engine;
use super::{LONG, SESSION, check_each_row_once, logged, mapping, row, table};
use crate::support::fleet::Fleet;
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::serve;
use crate::support::tine::{Place, Running};
use crate::support::wait::{found, until};
use crate::support::wire::{Wire, said};

const KEPT: [&str; 2] = ["--session-id", SESSION];

const ROWS: usize = 4;

const WORKERS: usize = 2;

/// A worker, and its number for a request.
type Name = (String, u64);

/// What workers and their coordinator have said about permits.
#[derive(Default)]
struct Permits {
    /// How often a request was told to wait.
    held: BTreeMap<Name, usize>,
    /// How often it was told that a request goes without: nobody has answered.
    unanswered: BTreeMap<Name, usize>,
}

impl Permits {
    fn heard_on(wire: &Wire) -> Self {
        let mut permits = Self::default();
        for asked in wire.of_subject("tine.rate.") {
            let words = said(&asked);
            let (ask, tell) = (&words["ask"], &words["tell"]);
            let answers = asked.reply.map(|reply| wire.of_subject(&reply)).unwrap_or_default();
            if answers.iter().any(|answer| said(answer)["held"] != Value::Null) {
                *permits.held.entry(name(&ask["worker"], &ask["id"])).or_default() += 1;
            }
            let ended = tell["ended"].as_array().into_iter().flatten();
            for end in ended.filter(|end| end[1] == "dropped") {
                *permits.unanswered.entry(name(&tell["worker"], &end[0])).or_default() += 1;
            }
        }
        permits
    }
}

fn name(worker: &Value, id: &Value) -> Name {
    let worker = worker.as_str().expect("a worker has a name").to_owned();
    (worker, id.as_u64().expect("a request has a number"))
}

/// A map of four rows that is at work, by two workers with places for two each.
struct AtWork {
    fleet: Fleet,
    wire: Wire,
    place: Place,
    model: Server,
    running: Running,
}

impl AtWork {
    /// Begins it. This is configured for the model here, and that there; it answers
    /// when the gate is open.
    fn begin(here: &str, there: &str, gate: &Gate) -> Option<Self> {
        let mut fleet = Fleet::start(LONG)?;
        let (wire, place, gate) = (Wire::of(&fleet.nats), table(ROWS), gate.clone());
        let model =
            serve(move |talk| Reaction::text_reply(&format!("saw {}", row(talk))).behind(&gate));
        let provider = format!("base_url = \"{}\"\nkey_env = \"OPENAI_API_KEY\"", model.base_url());
        let configured = |key| format!("[models.m]\n{provider}\n{key}\n");
        for _ in 0..WORKERS {
            let most = ROWS / WORKERS;
            fleet.work_as(most, &[], &configured(there), |tine| tine.server(&model));
        }
        let runtime = Runtime::new().expect("a runtime");
        let engine = runtime.block_on(engine(&fleet));
        until("both workers are known", || {
            runtime.block_on(engine.worker_count()).is_ok_and(|count| count == WORKERS)
        });
        place.configure(&format!("{}{}", fleet.configuration(), configured(here)));
        let running = mapping(&place, &model, &KEPT).start();
        Some(Self { fleet, wire, place, model, running })
    }

    /// Begins one whose workers have nothing configured, and returns it when all rows but
    /// one wait.
    fn held(here: &str, gate: &Gate) -> Option<Self> {
        found("a run in which all are answered in time", || {
            let Some(begun) = Self::begin(here, "", gate) else { return Some(None) };
            // A coordinator that waits for its turn on a machine with much to do may be
            // as silent as one that is gone: that is no run to look at.
            begun.waits().then_some(Some(begun))
        })
    }

    /// Waits until all requests but one were told that they wait, and told again; false
    /// if one was not answered in time.
    fn waits(&self) -> bool {
        found("all but one wait", || {
            let Permits { held, unanswered } = Permits::heard_on(&self.wire);
            let waiting = held.values().filter(|count| **count > 1).count();
            match unanswered.is_empty() {
                true => (waiting == ROWS - 1).then_some(true),
                false => Some(false),
            }
        })
    }

    /// Waits until the log says that all rows but one wait, for this reason.
    #[track_caller]
    fn check_throttled(&self, cause: &str) {
        let throttled = || logged(&self.place, "throttled");
        until("the log says who waits", || throttled().len() == ROWS - 1);
        assert!(throttled().iter().all(|line| line["body"]["cause"] == cause), "{:?}", throttled());
    }
}

#[test]
fn as_many_requests_of_all_workers_are_open_at_once_as_the_coordinator_allows() {
    let gate = Gate::closed();
    let Some(at_work) = AtWork::held("max_in_flight = 1", &gate) else { return };
    at_work.check_throttled("in_flight");
    assert_eq!(at_work.model.most_open(), 1);
    gate.open();
    at_work.running.wait().exits(0);
    check_each_row_once(&at_work.place, ROWS);
    assert_eq!(at_work.model.finish().len(), ROWS);
}

#[test]
fn as_many_requests_of_all_workers_go_in_a_minute_as_the_coordinator_allows() {
    let gate = Gate::closed();
    gate.open();
    let Some(at_work) = AtWork::held("requests_per_minute = 1", &gate) else { return };
    at_work.check_throttled("requests_per_minute");
    assert_eq!(at_work.model.count(), 1);
    at_work.running.signal(Signal::SIGINT);
    at_work.running.wait().exits(130);
    assert_eq!(at_work.model.finish().len(), 1);
}

#[test]
fn workers_of_a_coordinator_that_is_silent_go_on_with_their_shares_and_no_more() {
    let gate = Gate::closed();
    let (here, there) = ("max_in_flight = 1", "max_in_flight = 2");
    let Some(at_work) = AtWork::begin(here, there, &gate) else { return };
    let AtWork { fleet: _fleet, wire, place, model, running } = at_work;
    model.wait_until_came(1);
    until("all rows are at work", || logged(&place, "turn_started").len() == ROWS);
    running.signal(Signal::SIGSTOP);
    // The coordinator lets one through at most. What is told again was told a while ago:
    // by now whatever may go has gone.
    until("all others go without it", || {
        let unanswered = Permits::heard_on(&wire).unanswered;
        unanswered.len() >= ROWS - 1 && unanswered.values().all(|told| *told > 1)
    });
    model.wait_until_came(WORKERS);
    // Each worker has one of the two that are configured there for both.
    assert!(model.most_open() <= 1 + WORKERS, "{} are open", model.most_open());
    gate.open();
    model.wait_until_came(ROWS);
    running.signal(Signal::SIGCONT);
    running.wait().exits(0);
    check_each_row_once(&place, ROWS);
    assert_eq!(model.finish().len(), ROWS);
}
