//! Workers in which something broke: none goes on as if nothing had happened.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_nats::jetstream;
use serde_json::{Value, json};
use tine::cli::args::{RunFlags, WorkerFlags};
use tine::cli::worker::kit::{Footing, SlotKit};
use tine::config::Environment;
use tine::fanout::Pool;
use tine::fleet::ground::Grounds;
use tine::fleet::packet::Packet;
use tine::fleet::worker::{Outfit, Outfitted, Worker};
use tine::git::Program;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::refused::engine;
use super::{SESSION, SHORT, check_each_row_once, echo, logged, map, table};
use crate::support::fleet::Fleet;
use crate::support::server::Server;
use crate::support::tine::Place;
use crate::support::wait::until;
use crate::support::wire::{Wire, said};

#[test]
fn a_worker_that_is_deaf_to_stops_ends_and_says_why() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    fleet.work(1, None);
    let runtime = Runtime::new().expect("a runtime");
    let engine = runtime.block_on(engine(&fleet));
    // It says that it is there once it hears what is over.
    until("the worker is there", || !runtime.block_on(engine.workers()).unwrap().is_empty());
    runtime.block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.unwrap();
        jetstream::new(client).delete_stream("KV_tine-control").await.unwrap();
    });
    let (code, said) = fleet.workers[0].ends();
    assert_eq!(code, Some(52), "{said:?}");
    assert!(said[0].starts_with("error: reading a stream failed: stream not found"), "{said:?}");
}

/// Runs slots like `tine worker`, but for the first one beside which something panics.
struct Breaks {
    footing: Footing,
    is_broken: Arc<AtomicBool>,
}

impl Outfit for Breaks {
    fn outfit(&self, packet: &Packet, root: &Path, pool: &Pool) -> Result<Outfitted, String> {
        let kit = self.footing.kit(packet, root, pool.clone()).map_err(|it| it.to_string())?;
        let SlotKit { mut fanout, policy, tools, model: _ } = kit;
        let (find, is_broken) = (fanout.find_model, Arc::clone(&self.is_broken));
        fanout.find_model = Box::new(move |name| {
            assert!(is_broken.swap(true, Ordering::Relaxed), "it was not broken before");
            find(name)
        });
        Ok(Outfitted { fanout: Arc::new(fanout), tools, policy })
    }
}

/// A worker in this process, in which that breaks.
async fn breaking(fleet: &Fleet, place: &Place, model: &Server) -> Worker {
    place.configure("[sandbox]\nmode = \"off\"\n");
    let path = std::env::var("PATH").expect("the tests have a PATH");
    let home = place.home().display().to_string();
    let environment = Environment::from_variables([
        ("HOME", home),
        ("PATH", path.clone()),
        ("OPENAI_BASE_URL", model.base_url()),
        ("OPENAI_API_KEY", "sk-of-a-test".to_owned()),
    ]);
    let footing = Footing::new(&environment, &RunFlags::default(), &WorkerFlags::default());
    let footing = footing.unwrap_or_else(|refusal| panic!("{refusal}"));
    let git = Program::find([("PATH".as_ref(), path.as_ref())], &[]);
    let grounds = Grounds::new(&git, &place.root().join("copies"));
    Worker {
        engine: engine(fleet).await,
        name: "breaking".into(),
        labels: Vec::new(),
        pool: Pool::new(NonZeroUsize::MIN),
        most: 1,
        grounds: grounds.expect("the place is new"),
        outfit: Arc::new(Breaks { footing, is_broken: Arc::default() }),
        say: |_| {},
    }
}

#[test]
fn a_slot_beside_which_its_worker_panics_begins_again() {
    let Some(fleet) = Fleet::start(SHORT) else { return };
    let wire = Wire::of(&fleet.nats);
    let (place, own, model) = (table(1), Place::new(), echo());
    let runtime = Runtime::new().expect("a runtime");
    let worker = runtime.block_on(breaking(&fleet, &own, &model));
    let drain = CancellationToken::new();
    let drained = drain.clone();
    let working = std::thread::spawn(move || {
        runtime.block_on(worker.work(drained, CancellationToken::new()))
    });
    map(&fleet, &place, &model, &["--session-id", SESSION]).run().exits(0);
    check_each_row_once(&place, 1);
    // Nothing was heard of the first attempt but that it was had.
    assert!(!logged(&place, "lost").is_empty());
    let had: Vec<Value> =
        wire.of_subject("tine.claim.").iter().map(|claim| said(claim)["had"].take()).collect();
    assert!(had.contains(&json!({ "attempt": 1, "has_ended": false })), "{had:?}");
    drain.cancel();
    // It has nothing left.
    working.join().unwrap().unwrap();
}
