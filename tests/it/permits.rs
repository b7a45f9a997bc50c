//! Permits over a real server: what one machine is told holds for the others.
//!
//! Where there is no server these tests pass, unless `REQUIRE_NATS=1`.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tine::config::{Config, Environment, ModelEntry, resolve_model};
use tine::definition::Definitions;
use tine::event::SessionId;
use tine::fanout::Limits;
use tine::fleet::engine::Engine;
use tine::fleet::packet::{Bounds, Packet};
use tine::fleet::permits::Permits;
use tine::fleet::{Fleet, Load};
use tine::model::gate::{Entry, Held, Pass, Throttle};
use tine::model::offline::Offline;
use tine::model::{Model, Models, retry};
use tine::skill::Skills;

use super::support::nats::{NatsServer, settings};

const LEASE: Duration = Duration::from_secs(30);

/// How long a coordinator may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// When a provider is to be asked again.
const PAUSE: Duration = Duration::from_secs(1);

async fn engine(server: &NatsServer) -> Engine {
    Engine::connect(&settings(server.url(), LEASE), "test").await.expect("the server is there")
}

fn load(session: &SessionId) -> Load {
    let packet = Packet {
        version: "1.2.3".to_owned(),
        session: session.clone(),
        root: "/".into(),
        definitions: Definitions::default(),
        skills: Skills::default(),
        instructions: String::new(),
        limits: Limits {
            max_turns: 7,
            timeout: None,
            max_depth: 2,
            confirm_above: Some(NonZeroUsize::MIN),
            background_wait: Duration::ZERO,
            prime: Duration::ZERO,
            needs_price: false,
            compact_at: None,
            retries: retry::Policy::default(),
        },
        bounds: Bounds::default(),
        workspace: None,
        model: "m".to_owned(),
        effort: None,
        fallbacks: Vec::new(),
        is_money_limited: false,
    };
    Load::new(packet, &Offline::new(), Path::new("no workspace is packed"))
}

fn opened(models: &Models, most: usize) -> Arc<dyn Model> {
    let entry = ModelEntry {
        base_url: Some("http://localhost:1/v1".to_owned()),
        key_env: Some("KEY".to_owned()),
        max_in_flight: NonZeroUsize::new(most),
        ..ModelEntry::default()
    };
    let config = Config { models: [("m".to_owned(), entry)].into(), ..Config::default() };
    let environment = Environment::from_variables([("KEY", "secret")]);
    let choice = resolve_model(&config, &environment, Some("m")).expect("it is configured");
    models.open(&choice).expect("a server needs nothing to be opened")
}

async fn passed(model: &Arc<dyn Model>) -> Pass {
    match model.lane().expect("a server has a gate").ask(1).await {
        Entry::Passed(pass) => pass,
        other => panic!("{other:?}"),
    }
}

async fn held(model: &Arc<dyn Model>) -> Held {
    match model.lane().expect("a server has a gate").ask(1).await {
        Entry::Held(held) => held,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_coordinator_lets_through_what_its_workers_send() {
    let Some(server) = NatsServer::start() else { return };
    let session = SessionId("0192f0c1-4a5b-7c6d-8e9f-001122334455".into());
    let models = Arc::new(Models::default());
    let own = opened(&models, 1);
    let run = ("0192f0c1-4a5b-7c6d-8e9f-001122334455-01234567".into(), None);
    let fleet = Fleet::open(engine(&server).await, run, load(&session), models, None);
    let fleet = fleet.await.unwrap();

    let worker = |name: &str, engine: Engine| {
        // However slow the machine is, nobody is taken for silent who is there.
        let permits = Permits::new(engine, name.into()).patient(PATIENCE);
        let model = opened(&Models::default().leading_to(permits.of(&session)), 0);
        (permits, model)
    };
    let (_one, one) = worker("one", engine(&server).await);
    let (_two, two) = worker("two", engine(&server).await);

    let first = passed(&one).await;
    let (here, there) = (held(&own).await, held(&two).await);
    assert_eq!((here.cause(), there.cause()), (Throttle::InFlight, Throttle::InFlight));
    first.answered(1);
    here.wait().await.unwrap().answered(1);
    let passed_there = there.wait().await.unwrap();
    let waits = held(&one).await;
    let start = Instant::now();
    passed_there.failed(1, Some(PAUSE));
    drop(waits.wait().await.unwrap());
    assert!(start.elapsed() >= PAUSE, "{:?}", start.elapsed());

    // Nobody answers any more, and each is on its own: of two that were still asked for
    // there, one would wait.
    drop(fleet);
    let (_here, _there) = (passed(&one).await, passed(&two).await);
}
