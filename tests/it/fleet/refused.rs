//! What cannot be done with workers: said by whom it concerns, and nobody else is
//! kept from anything.

use std::time::Duration;

use async_nats::jetstream;
use futures_util::FutureExt as _;
use nix::sys::signal::Signal;
use serde_json::Value;
use tine::event::UnitId;
use tine::fleet::engine::{Asked, Engine, Job};
use tine::fleet::wire::{Claim, Claimed};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{LONG, SESSION, SHORT, check_each_row_once, echo, logged, map, table};
use crate::support::fleet::Fleet;
use crate::support::nats::{NatsServer, offer, settings};
use crate::support::tine::{Finished, HANG_LIMIT, Place};

/// A place that meets at this address.
pub(super) fn meeting_at(url: &str) -> Place {
    let place = Place::new();
    place.configure(&format!("[executor.nats]\nservers = [\"{url}\"]\nlease_s = {LONG}\n"));
    place
}

/// Has a run, a worker and a list of workers meet at this address.
pub(super) fn meet_at(place: &Place) -> [Finished; 3] {
    let run = ["-p", "go", "-m", "offline", "--executor", "nats"];
    [&run[..], &["worker"], &["workers"]].map(|arguments| place.tine(arguments).run())
}

/// The client of another worker.
pub(super) async fn engine(fleet: &Fleet) -> Engine {
    let settings = settings(fleet.nats.url(), fleet.lease());
    Engine::connect(&settings, "test").await.expect("the server is there")
}

#[test]
fn where_no_server_is_that_is_said_with_a_hint() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has one");
    drop(listener);
    for finished in meet_at(&meeting_at(&format!("nats://{address}"))) {
        finished.refuses(
            52,
            &format!(
                "error: no NATS server answers at {address}: Connection refused (os error 111)\n\
             hint: is it running? `servers` under `[executor.nats]` says where it is looked for\n"
            ),
        );
    }
}

#[test]
fn a_wrong_password_is_refused_and_not_shown() {
    let user = "authorization { user: ada, password: \"right\" }";
    let more = format!("jetstream {{ store_dir: STORE }}\n{user}");
    let Some(server) = NatsServer::start_with(&more) else { return };
    let url = server.url();
    let shown = url.trim_start_matches("nats://");
    let with = |login: &str| meeting_at(&url.replace("nats://", &format!("nats://{login}@")));
    for finished in meet_at(&with("ada:wrong")) {
        finished.refuses(
            52,
            &format!(
                "error: the NATS server at {shown} refused these credentials\n\
             hint: check the user, token or credentials file under `[executor.nats]`\n"
            ),
        );
    }
    with("ada:right").tine(["workers"]).run().exits(0);
}

#[test]
fn a_stream_of_the_name_with_other_settings_is_named() {
    let Some(server) = NatsServer::start() else { return };
    let other = jetstream::stream::Config {
        name: "tine-jobs".to_owned(),
        subjects: vec!["tine.jobs.>".to_owned()],
        ..Default::default()
    };
    Runtime::new().expect("a runtime").block_on(async {
        let client = async_nats::connect(server.url()).await.expect("the server is there");
        jetstream::new(client).create_stream(other).await.expect("it is new");
    });
    for finished in meet_at(&meeting_at(&server.url())) {
        let finished = finished.exits(52);
        let lines: Vec<&str> = finished.stderr.lines().collect();
        let [error, hint] = lines[..] else { panic!("{lines:?}") };
        assert!(error.starts_with("error: stream `tine-jobs` is there with another `"), "{error}");
        assert!(
            hint.starts_with("hint: choose another `prefix` under `[executor.nats]`"),
            "{hint}"
        );
    }
}

#[test]
fn another_lease_than_everybody_elses_is_refused() {
    let Some(mut fleet) = Fleet::start(LONG + 1) else { return };
    fleet.work(1, None);
    for finished in meet_at(&meeting_at(&fleet.nats.url())) {
        let finished = finished.exits(52);
        let said =
            "error: stream `tine-jobs` is there with another `duplicate_window`: 11s, not 10s";
        assert_eq!(finished.stderr.lines().next(), Some(said));
    }
}

#[test]
fn more_copies_than_there_are_servers_are_refused() {
    let Some(fleet) = Fleet::start(LONG) else { return };
    let fleet = fleet.with("replicas = 3");
    let finished = map(&fleet, &table(1), &echo(), &[]).run().exits(52);
    let said = "error: there are too few NATS servers for 3 copies of what is stored: ";
    assert!(finished.stderr.starts_with(said), "{}", finished.stderr);
    assert!(finished.stderr.contains("or set `replicas = 1` under `[executor.nats]`"));
}

#[test]
fn a_worker_of_another_version_is_given_nothing_and_told_why() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let (place, model) = (table(1), echo());
    let running = map(&fleet, &place, &model, &[]).start();
    let answer = Runtime::new().expect("a runtime").block_on(async {
        let engine = engine(&fleet).await;
        let ticket = engine.pull(&[]).await.unwrap().next().await.unwrap();
        let unit = UnitId(ticket.job.unit);
        let claim = Claim {
            version: "9.9.9".to_owned(),
            worker: "other".into(),
            unit,
            ended: Vec::new(),
            had: None,
        };
        let answer = engine.claim(&ticket.job.run, claim.encode().into()).await.unwrap();
        ticket.give_back(Duration::ZERO).await;
        Claimed::decode(&answer).unwrap()
    });
    let own = env!("CARGO_PKG_VERSION");
    let why = format!(
        "the coordinator is tine {own}, this worker is tine 9.9.9; install the same on both"
    );
    assert_eq!(answer, Claimed::Refused(why));
    fleet.work(1, Some(&model));
    running.wait().exits(0);
    check_each_row_once(&place, 1);
}

#[test]
fn tickets_of_another_version_are_left_to_workers_of_that_one() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let (place, model) = (table(3), echo());
    let runtime = Runtime::new().expect("a runtime");
    let (context, mut claims) = runtime.block_on(async {
        let claims = engine(&fleet).await.claims("another").await.unwrap();
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        let context = jetstream::new(client);
        let stored = context.publish("tine.jobs.9-9-9.any.another.1", "".into()).await.unwrap();
        stored.await.expect("it is a ticket like any other");
        (context, claims)
    });
    fleet.work(1, Some(&model));
    map(&fleet, &place, &model, &[]).run().exits(0);
    check_each_row_once(&place, 3);
    fleet.workers[0].signal(Signal::SIGTERM);
    let end = "taking no more agents; a second signal ends those at work, too".to_owned();
    assert_eq!(fleet.workers[0].ends(), (Some(0), vec![end]));
    let left = runtime.block_on(async {
        let stream = context.get_stream("tine-jobs").await.expect("it is there");
        stream.cached_info().state.messages
    });
    assert_eq!(left, 1);
    assert!(runtime.block_on(async { claims.next().now_or_never() }).is_none());
}

#[test]
fn a_worker_says_once_why_it_was_refused_and_works_for_others() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let (place, model) = (table(3), echo());
    fleet.work(2, Some(&model));
    // Both live on until what was to be sent is sent.
    let runtime = Runtime::new().expect("a runtime");
    let _engine = runtime.block_on(async {
        let engine = engine(&fleet).await;
        let mut claims = engine.claims("another").await.unwrap();
        offer(&engine, [1, 2, 3].map(|unit| Job { run: "another".into(), unit, label: None }))
            .await;
        let mut units = Vec::new();
        for _ in 0..3 {
            let request = claims.next().await.unwrap();
            let claim = Claim::decode(&request.payload).unwrap();
            assert_eq!(&*claim.worker, &*fleet.workers[0].name);
            assert_eq!(claim.version, env!("CARGO_PKG_VERSION"));
            units.push(claim.unit);
            let refused = Claimed::Refused("it is too small".to_owned());
            engine.answer(&request, refused.encode().into()).await.unwrap();
        }
        units.sort();
        assert_eq!(units, [1, 2, 3].map(UnitId));
        engine
    });
    let said = fleet.workers[0].says();
    assert_eq!(said, "a slot of another is not for this worker: it is too small");
    map(&fleet, &place, &model, &[]).run().exits(0);
    check_each_row_once(&place, 3);
    let worker = &mut fleet.workers[0];
    worker.signal(Signal::SIGTERM);
    assert!(worker.says().starts_with("taking no more agents"));
}

/// Answers the first claim for a slot of `another` with what is no answer, and returns
/// who hears of the claims behind that.
async fn answers_strangely(engine: &Engine) -> Asked {
    let mut claims = engine.claims("another").await.expect("the server is there");
    offer(engine, [Job { run: "another".into(), unit: 1, label: None }]).await;
    let request = claims.next().await.expect("the slot is claimed");
    engine.answer(&request, "\u{0}{[".into()).await.expect("the server is there");
    claims
}

#[test]
fn an_answer_that_cannot_be_read_is_told_with_what_to_do_and_its_worker_works_for_others() {
    // It does not end here: so no ticket comes again by itself.
    let Some(mut fleet) = Fleet::start(600) else { return };
    let (place, model) = (table(3), echo());
    fleet.work(1, Some(&model));
    let runtime = Runtime::new().expect("a runtime");
    let engine = runtime.block_on(engine(&fleet));
    let mut claims = runtime.block_on(answers_strangely(&engine));
    let said = fleet.workers[0].says();
    let expected = "a slot of another is not for this worker: what its coordinator answers cannot \
                    be read: malformed message: expected value at line 1 column 1; install the \
                    same tine on both";
    assert_eq!(said, expected);
    // One that came again at once would be asked for in front of these.
    map(&fleet, &place, &model, &[]).run().exits(0);
    check_each_row_once(&place, 3);
    assert!(runtime.block_on(async { claims.next().now_or_never() }).is_none());
}

#[test]
fn a_ticket_whose_answer_could_not_be_read_comes_again() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    fleet.work(1, None);
    let runtime = Runtime::new().expect("a runtime");
    let engine = runtime.block_on(engine(&fleet));
    let mut claims = runtime.block_on(answers_strangely(&engine));
    fleet.workers[0].says();
    runtime.block_on(async {
        let again = timeout(HANG_LIMIT, claims.next()).await;
        let again = again.expect("it is claimed again").unwrap();
        assert_eq!(Claim::decode(&again.payload).unwrap().unit, UnitId(1));
        engine.answer(&again, Claimed::Over.encode().into()).await.unwrap();
    });
    fleet.workers[0].signal(Signal::SIGTERM);
    let end = "taking no more agents; a second signal ends those at work, too".to_owned();
    assert_eq!(fleet.workers[0].ends(), (Some(0), vec![end]));
}

#[test]
fn tickets_of_runs_that_are_gone_keep_nobody_from_work() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let (place, model) = (table(5), echo());
    Runtime::new().expect("a runtime").block_on(async {
        let engine = engine(&fleet).await;
        offer(&engine, (0..20).map(|unit| Job { run: "nobody".into(), unit, label: None })).await;
    });
    fleet.work(2, Some(&model));
    map(&fleet, &place, &model, &[]).run().exits(0);
    check_each_row_once(&place, 5);
    fleet.workers[0].signal(Signal::SIGTERM);
    assert_eq!(fleet.workers[0].ends().0, Some(0));
}

#[test]
fn hooks_are_refused_since_no_worker_would_ask_them() {
    let Some(fleet) = Fleet::start(LONG) else { return };
    let place = Place::new();
    let hook = "[[hooks.PreToolUse]]\nhooks = [{ type = \"command\", command = \"true\" }]\n";
    place.configure(&format!("{}{hook}", fleet.configuration()));
    let asked = ["-p", "go", "-m", "offline", "--executor", "nats"];
    place.tine(asked).run().refuses(52, {
        "error: hooks are set, and workers ask none: what they forbid would be done there\n\
         hint: pass `--executor local`, or take the hooks out of the settings\n"
    });
}

#[test]
fn a_model_that_a_worker_has_not_fails_the_slot_and_is_named() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    fleet.work(1, None);
    let (place, model) = (table(1), echo());
    let base_url = model.base_url();
    place.configure(&format!("{}[models.here]\nbase_url = '{base_url}'\n", fleet.configuration()));
    let map = ["map", "--executor", "nats", "--prompt", "p.md", "--input", "items.csv"];
    let flags = ["-m", "here", "--session-id", SESSION];
    let finished = place.tine(map.iter().chain(&flags)).run().exits(1);
    let line: Value = serde_json::from_str(&finished.stdout).expect("it is one line");
    let error = line["error"].as_str().expect("it says why");
    assert!(
        error.contains(": model `here` is not configured") && error.contains("on worker "),
        "{error}"
    );
    assert!(model.finish().is_empty());
    let [ended] = &logged(&place, "unit_ended")[..] else { panic!("one has ended") };
    assert_eq!(ended["body"]["outcome"]["state"], "failed");
}

#[test]
fn two_workers_do_not_share_a_directory() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let directory = fleet.work(1, None).directory();
    let place = meeting_at(&fleet.nats.url());
    let directory = directory.to_str().expect("it is text");
    let finished = place.tine(["worker", "--work-dir", directory]).run().exits(42);
    let said = format!("another worker works in {directory}; give each its own directory\n");
    assert!(finished.stderr.ends_with(&said), "{}", finished.stderr);
}
