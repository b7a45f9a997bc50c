//! All that speaks NATS, against a real server that is killed and comes back.
//!
//! Where there is no server these tests pass, unless `REQUIRE_NATS=1`.

use std::io::Write as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_nats::jetstream::consumer::{self, AckPolicy};
use async_nats::{Subscriber, jetstream};
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, TryStreamExt as _};
use tine::fleet::engine::{
    ClaimError, Engine, EngineError, Frame, Hash, Job, Said, Settings, Stop, Ticket, Tickets, Won,
};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::support::nats::{self, NatsServer, offer};
use super::support::tine::HANG_LIMIT;

const RUN: &str = "0192f0c1-4a5b-7c6d-8e9f-001122334455";

fn settings(url: String) -> Settings {
    nats::settings(url, Duration::from_secs(1))
}

async fn engine(server: &NatsServer) -> Engine {
    Engine::connect(&settings(server.url()), "test").await.expect("the server is there")
}

/// One with a lease that no test outlasts: no ticket comes again because a machine is
/// slow.
async fn patient(server: &NatsServer) -> Engine {
    let settings = nats::settings(server.url(), Duration::from_secs(600));
    Engine::connect(&settings, "test").await.expect("the server is there")
}

async fn raw(server: &NatsServer) -> jetstream::Context {
    jetstream::new(async_nats::connect(server.url()).await.expect("the server is there"))
}

fn job(unit: u32) -> Job {
    Job { run: RUN.into(), unit, label: None }
}

fn said(seq: u64) -> Said<'static> {
    Said { run: RUN, unit: 1, attempt: 1, seq }
}

fn bytes(text: impl Into<String>) -> Bytes {
    text.into().into_bytes().into()
}

/// Takes a ticket, or says that there is none at once.
async fn ticket_now(tickets: &mut Tickets, offered_after: &Engine) -> Option<Ticket> {
    // Whatever was offered before is handed out before this one; each is another,
    // as the same again would be taken for a double.
    static MARKS: AtomicU32 = AtomicU32::new(0);
    let unit = MARKS.fetch_add(1, Ordering::Relaxed);
    let mark = Job { run: "mark".into(), unit, label: None };
    offer(offered_after, [mark.clone()]).await;
    let ticket = tickets.next().await.expect("the server is there");
    match ticket.job == mark {
        true => {
            ticket.done().await.expect("the server is there");
            None
        }
        false => Some(ticket),
    }
}

#[tokio::test]
async fn what_one_lays_out_everybody_else_finds_equal() {
    let Some(server) = NatsServer::start() else { return };
    // Many at once, and one who comes late.
    let settings = settings(server.url());
    let many = (0..8).map(|_| Engine::connect(&settings, "test"));
    for connected in join_all(many).await {
        connected.unwrap();
    }
    Engine::connect(&settings, "test").await.unwrap();
}

/// A stream's settings in one line: name and subjects, how messages go, their age and
/// how long a double is known, most for each subject, and where they are kept.
async fn settings_of(stream: &str, server: &NatsServer) -> String {
    let stream = raw(server).await.get_stream(stream).await.expect("it was laid out");
    let it = &stream.cached_info().config;
    let bounds = [it.max_messages, it.max_bytes, it.max_message_size.into()];
    assert!(bounds.iter().all(|&bound| bound <= 0), "nothing else bounds it: {it:?}");
    let each = if it.discard_new_per_subject { " per subject" } else { "" };
    format!(
        "{} [{}] {:?} {:?}{each} {:?}/{:?} {} {:?}*{} rollup={} deny_delete={}",
        it.name,
        it.subjects.join(" "),
        it.retention,
        it.discard,
        it.max_age,
        it.duplicate_window,
        it.max_messages_per_subject,
        it.storage,
        it.num_replicas,
        it.allow_rollup,
        it.deny_delete,
    )
}

#[tokio::test]
async fn all_that_is_laid_out_has_these_settings() {
    let Some(server) = NatsServer::start() else { return };
    let settings = nats::settings(server.url(), Duration::from_secs(10));
    let _engine = Engine::connect(&settings, "test").await.unwrap();
    let names: Vec<String> = raw(&server).await.stream_names().try_collect().await.unwrap();
    let mut all = join_all(names.iter().map(|name| settings_of(name, &server))).await;
    all.sort();
    insta::assert_snapshot!(all.join("\n"), @r"
    KV_tine-control [$KV.tine-control.>] Limits New 86400s/120s 1 File*1 rollup=true deny_delete=true
    KV_tine-workers [$KV.tine-workers.>] Limits New 15s/15s 1 File*1 rollup=true deny_delete=true
    OBJ_tine-blobs [$O.tine-blobs.C.> $O.tine-blobs.M.>] Limits New 604800s/120s -1 File*1 rollup=true deny_delete=false
    tine-events-0 [tine.events.0.> tine.results.0.>] Limits Old 604800s/120s -1 File*1 rollup=false deny_delete=false
    tine-events-1 [tine.events.1.> tine.results.1.>] Limits Old 604800s/120s -1 File*1 rollup=false deny_delete=false
    tine-events-2 [tine.events.2.> tine.results.2.>] Limits Old 604800s/120s -1 File*1 rollup=false deny_delete=false
    tine-events-3 [tine.events.3.> tine.results.3.>] Limits Old 604800s/120s -1 File*1 rollup=false deny_delete=false
    tine-jobs [tine.jobs.>] WorkQueue New per subject 86400s/10s 1 File*1 rollup=false deny_delete=false
    ");
    let jobs = raw(&server).await.get_stream("tine-jobs").await.unwrap();
    let any = format!("{}_any", env!("CARGO_PKG_VERSION").replace('.', "-"));
    let any = jobs.consumer_info(any).await.unwrap().config;
    let expected = (AckPolicy::Explicit, Duration::from_secs(10), -1, 4096);
    assert_eq!((any.ack_policy, any.ack_wait, any.max_deliver, any.max_waiting), expected);
}

#[tokio::test]
async fn a_stream_with_other_settings_is_named_with_the_setting() {
    let Some(server) = NatsServer::start() else { return };
    let other = jetstream::stream::Config {
        name: "tine-events-2".to_owned(),
        subjects: vec!["tine.events.2.>".to_owned(), "tine.results.2.>".to_owned()],
        max_age: Duration::from_secs(60),
        ..Default::default()
    };
    raw(&server).await.create_stream(other).await.unwrap();
    let error = Engine::connect(&settings(server.url()), "test").await.unwrap_err().to_string();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(
        lines[0],
        "stream `tine-events-2` is there with another `max_age`: 60s, not 604800s"
    );
    assert!(lines[1].starts_with("hint: choose another `prefix`"), "{error}");
}

/// A stream that takes everything and never says so would have all wait for ever.
#[tokio::test]
async fn a_stream_that_acknowledges_nothing_is_another_one() {
    let Some(server) = NatsServer::start() else { return };
    engine(&server).await;
    let context = raw(&server).await;
    for name in ["tine-jobs", "tine-events-1"] {
        let mut found = context.get_stream(name).await.unwrap().cached_info().config.clone();
        found.no_ack = true;
        context.update_stream(&found).await.unwrap();
        let error = Engine::connect(&settings(server.url()), "test").await.unwrap_err();
        let error = error.to_string();
        let expected = format!("stream `{name}` is there with another `no_ack`: true, not false");
        assert_eq!(error.lines().next(), Some(&*expected));
        found.no_ack = false;
        context.update_stream(&found).await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_of_which_no_message_may_be_deleted_is_another_one() {
    let Some(server) = NatsServer::start() else { return };
    engine(&server).await;
    let context = raw(&server).await;
    let mut found = context.get_stream("tine-jobs").await.unwrap().cached_info().config.clone();
    found.deny_delete = true;
    context.update_stream(&found).await.unwrap();
    let error = Engine::connect(&settings(server.url()), "test").await.unwrap_err().to_string();
    let expected = "stream `tine-jobs` is there with another `deny_delete`: true, not false";
    assert_eq!(error.lines().next(), Some(expected));
}

#[tokio::test]
async fn a_consumer_that_goes_sooner_is_another_one() {
    let Some(server) = NatsServer::start() else { return };
    engine(&server).await;
    let stream = raw(&server).await.get_stream("tine-jobs").await.unwrap();
    let names: Vec<String> = stream.consumer_names().try_collect().await.unwrap();
    let found = stream.consumer_info(&names[0]).await.unwrap().config;
    let sooner = consumer::Config { inactive_threshold: Duration::from_secs(60), ..found };
    stream.update_consumer(sooner).await.unwrap();
    let error = Engine::connect(&settings(server.url()), "test").await.unwrap_err().to_string();
    let expected = format!(
        "consumer `{}` is there with another `inactive_threshold`: 60s, not 604800s",
        names[0]
    );
    assert_eq!(error.lines().next(), Some(&*expected));
}

#[tokio::test]
async fn another_lease_is_another_setting() {
    let Some(server) = NatsServer::start() else { return };
    engine(&server).await;
    let other = Settings { lease: Duration::from_secs(2), ..settings(server.url()) };
    let error = Engine::connect(&other, "test").await.unwrap_err().to_string();
    let first = error.lines().next();
    let expected = "stream `tine-jobs` is there with another `duplicate_window`: 1s, not 2s";
    assert_eq!(first, Some(expected));
}

#[tokio::test]
async fn whom_the_server_does_not_know_is_told_so() {
    let jetstream = "jetstream { store_dir: STORE }";
    let user = "authorization { user: ada, password: \"right@\" }";
    let Some(server) = NatsServer::start_with(&format!("{jetstream}\n{user}")) else { return };
    let with = |login| settings(server.url().replace("nats://", &format!("nats://{login}")));
    // Nobody, a wrong password, and the right one as a token.
    for login in ["", "ada:wrong@", "right%40@"] {
        let error = Engine::connect(&with(login), "test").await.unwrap_err();
        assert!(matches!(error, EngineError::Credentials { servers: _ }), "{error:?}");
    }
    Engine::connect(&with("ada:right%40@"), "test").await.unwrap();
    let error = Engine::connect(&with("ada:secret@"), "test").await.unwrap_err().to_string();
    assert!(!error.contains("secret"), "{error}");
}

#[tokio::test]
async fn a_server_without_storage_is_named() {
    let Some(server) = NatsServer::start_with("") else { return };
    let error = Engine::connect(&settings(server.url()), "test").await.unwrap_err();
    assert!(matches!(error, EngineError::NoJetStream { cause: _ }), "{error:?}");
}

#[tokio::test]
async fn what_is_not_permitted_is_said() {
    let may = "publish: [\"$JS.API.>\", \"_INBOX.>\"], subscribe: [\">\"]";
    let user = format!("authorization {{ default_permissions: {{ {may} }}, users: [USERS] }}");
    let user = user.replace("USERS", "{user: ada, password: x}");
    let more = format!("jetstream {{ store_dir: STORE }}\n{user}");
    let Some(server) = NatsServer::start_with(&more) else { return };
    let url = server.url().replace("nats://", "nats://ada:x@");
    let engine = Engine::connect(&settings(url), "test").await.unwrap();
    let error = engine.say(said(1), bytes("x")).await.unwrap_err();
    assert!(matches!(error, EngineError::NotPermitted { cause: _ }), "{error:?}");
}

#[tokio::test]
async fn where_nothing_listens_there_is_no_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = Engine::connect(&settings(url), "test").await.unwrap_err();
    assert!(matches!(error, EngineError::NoServer { servers: _, cause: _ }), "{error:?}");
}

#[tokio::test]
async fn what_speaks_something_else_is_no_server_of_nats() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        stream
    });
    let error = Engine::connect(&settings(url), "test").await.unwrap_err();
    other.join().unwrap();
    assert!(matches!(error, EngineError::NotNats { servers: _, cause: _ }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_is_too_old_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let old = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let info = r#"{"server_id":"X","server_name":"X","host":"127.0.0.1","port":1,"version":"2.9.10","go":"go1","max_payload":1048576,"proto":1,"headers":true,"jetstream":true}"#;
        stream.write_all(format!("INFO {info}\r\nPONG\r\n").as_bytes()).unwrap();
        stream
    });
    let error = Engine::connect(&settings(url), "test").await.unwrap_err();
    drop(old.join().unwrap());
    assert!(error.to_string().contains("is version 2.9.10\nhint: 2.10"), "{error:?}");
}

#[tokio::test]
async fn a_ticket_goes_to_one_worker_of_two() {
    let Some(server) = NatsServer::start() else { return };
    let engine = patient(&server).await;
    let mut one = engine.pull(&[]).await.unwrap();
    let mut other = engine.pull(&[]).await.unwrap();
    offer(&engine, [job(1)]).await;
    // It is there already: one is enough.
    offer(&engine, [job(1)]).await;
    let ticket = tokio::select! {
        ticket = one.next() => ticket.unwrap(),
        ticket = other.next() => ticket.unwrap(),
    };
    assert_eq!(ticket.job, job(1));
    ticket.done().await.unwrap();
    assert!(ticket_now(&mut one, &engine).await.is_none());
    assert!(ticket_now(&mut other, &engine).await.is_none());
}

#[tokio::test]
async fn a_worker_gets_jobs_for_any_and_for_its_labels_only() {
    let Some(server) = NatsServer::start() else { return };
    let engine = patient(&server).await;
    let label: Arc<str> = "gpu.big".into();
    let labelled = Job { label: Some(label.clone()), ..job(1) };
    offer(&engine, [labelled]).await;
    let mut plain = engine.pull(&[]).await.unwrap();
    assert!(ticket_now(&mut plain, &engine).await.is_none());
    offer(&engine, [job(2)]).await;
    let mut both = engine.pull(&[label.clone(), label]).await.unwrap();
    let first = both.next().await.unwrap();
    let second = both.next().await.unwrap();
    let mut units = [first.job.unit, second.job.unit];
    units.sort_unstable();
    assert_eq!(units, [1, 2]);
    for ticket in [first, second] {
        ticket.done().await.unwrap();
    }
    assert!(ticket_now(&mut both, &engine).await.is_none());
}

#[tokio::test]
async fn a_ticket_whose_holder_is_gone_comes_again() {
    let Some(server) = NatsServer::start() else { return };
    let engine = engine(&server).await;
    offer(&engine, [job(1)]).await;
    let mut tickets = engine.pull(&[]).await.unwrap();
    drop(tickets.next().await.unwrap());
    assert_eq!(tickets.next().await.unwrap().job, job(1));
}

#[tokio::test]
async fn a_ticket_that_is_given_back_comes_again_and_one_that_is_dropped_does_not() {
    let Some(server) = NatsServer::start() else { return };
    let engine = patient(&server).await;
    offer(&engine, [job(1)]).await;
    let mut tickets = engine.pull(&[]).await.unwrap();
    tickets.next().await.unwrap().give_back(Duration::ZERO).await;
    let again = tickets.next().await.unwrap();
    assert_eq!(again.job, job(1));
    again.drop_it().await.unwrap();
    assert!(ticket_now(&mut tickets, &engine).await.is_none());
}

#[tokio::test]
async fn a_ticket_for_somebody_who_no_longer_waits_is_not_lost() {
    let Some(server) = NatsServer::start() else { return };
    let engine = patient(&server).await;
    let mut tickets = engine.pull(&[]).await.unwrap();
    for _ in 0..20 {
        // Polled once, so that the request may be on its way.
        let waiting = tokio::time::timeout(Duration::ZERO, tickets.next()).await;
        assert!(waiting.is_err());
    }
    offer(&engine, [job(1)]).await;
    assert_eq!(tickets.next().await.unwrap().job, job(1));
}

#[tokio::test]
async fn tickets_wait_over_a_crash_and_so_does_who_waits_for_them() {
    let Some(mut server) = NatsServer::start() else { return };
    let engine = patient(&server).await;
    let mut tickets = engine.pull(&[]).await.unwrap();
    let waiting = tokio::spawn(async move {
        let ticket = tickets.next().await.unwrap();
        (ticket, tickets)
    });
    tokio::task::yield_now().await;
    server.kill9();
    let offered = engine.clone();
    let offering = tokio::spawn(async move { offer(&offered, [job(1)]).await });
    server.restart();
    offering.await.unwrap();
    let (ticket, mut tickets) = waiting.await.unwrap();
    assert_eq!(ticket.job, job(1));
    server.kill9();
    server.restart();
    ticket.done().await.unwrap();
    assert!(ticket_now(&mut tickets, &engine).await.is_none());
}

/// Stands beside workers in the place of JetStream: hears who asks for a consumer.
async fn consumers_asked_for(server: &NatsServer) -> (async_nats::Client, Subscriber) {
    let client = async_nats::connect(server.url()).await.expect("the server is there");
    let asks = client.subscribe("$JS.API.CONSUMER.CREATE.>").await.expect("nobody forbids it");
    client.flush().await.expect("the server is there");
    (client, asks)
}

#[tokio::test]
async fn tickets_come_again_after_a_time_without_jetstream() {
    let Some(mut server) = NatsServer::start() else { return };
    let engine = patient(&server).await;
    let mut tickets = engine.pull(&["gpu".into()]).await.unwrap();
    server.restart_without_storage();
    let (client, mut asks) = consumers_asked_for(&server).await;
    let mut waiting = Box::pin(tickets.next());
    let off = r#"{"type":"io.nats.jetstream.api.v1.consumer_create_response",
        "error":{"code":503,"err_code":10076,"description":"jetstream not enabled"}}"#;
    // What it says does not end the wait: they are looked for again.
    for _ in 0..2 {
        let asked = tokio::select! {
            ticket = &mut waiting => panic!("there is none: {ticket:?}"),
            asked = timeout(HANG_LIMIT, asks.next()) => asked.expect("it is asked").unwrap(),
        };
        let reply = asked.reply.expect("an answer is awaited");
        client.publish(reply, off.into()).await.unwrap();
        client.flush().await.unwrap();
    }
    drop((client, asks));
    server.restart();
    offer(&engine, [job(1), Job { label: Some("gpu".into()), ..job(2) }]).await;
    let first = timeout(HANG_LIMIT, waiting).await.expect("it comes").unwrap();
    let second = timeout(HANG_LIMIT, tickets.next()).await.expect("it comes").unwrap();
    let mut units = [first.job.unit, second.job.unit];
    units.sort_unstable();
    assert_eq!(units, [1, 2]);
}

#[tokio::test]
async fn tickets_come_to_one_who_left_off_while_its_consumers_were_looked_for() {
    let Some(mut server) = NatsServer::start() else { return };
    let engine = patient(&server).await;
    let mut tickets = engine.pull(&[]).await.unwrap();
    server.restart_without_storage();
    let (client, mut asks) = consumers_asked_for(&server).await;
    tokio::select! {
        ticket = tickets.next() => panic!("there is none: {ticket:?}"),
        // Nobody answers it, and whoever waits for a ticket does something else.
        asked = timeout(HANG_LIMIT, asks.next()) => drop(asked.expect("it is asked").unwrap()),
    }
    drop((client, asks));
    server.restart();
    offer(&engine, [job(1)]).await;
    let ticket = timeout(HANG_LIMIT, tickets.next()).await.expect("it comes").unwrap();
    assert_eq!(ticket.job, job(1));
}

#[tokio::test]
async fn a_queue_of_offers_keeps_its_order() {
    let Some(server) = NatsServer::start() else { return };
    let engine = patient(&server).await;
    offer(&engine, (0..600).map(job)).await;
    let mut tickets = engine.pull(&[]).await.unwrap();
    for unit in 0..600 {
        assert_eq!(tickets.next().await.unwrap().job.unit, unit);
    }
}

#[tokio::test]
async fn a_queue_of_offers_survives_a_crash_with_one_ticket_each() {
    let Some(mut server) = NatsServer::start() else { return };
    let engine = patient(&server).await;
    let (offers, mut refused) = engine.offer_queue();
    for unit in 0..2_000 {
        offers.push(job(unit));
    }
    // Somewhere among them.
    let mut first = engine.pull(&[]).await.unwrap();
    let ticket = first.next().await.unwrap();
    server.kill9();
    server.restart();
    drop(offers);
    assert!(refused.next().await.is_none());
    drop(ticket);
    let raw = raw(&server).await;
    let stored = raw.get_stream("tine-jobs").await.unwrap().cached_info().state.messages;
    assert_eq!(stored, 2_000);
}

#[tokio::test]
async fn a_run_that_is_withdrawn_leaves_nothing_to_pull() {
    let Some(server) = NatsServer::start() else { return };
    let engine = patient(&server).await;
    let label = |unit: u32| unit.is_multiple_of(2).then(|| "gpu".into());
    offer(&engine, (0..10).map(|unit| Job { label: label(unit), ..job(unit) })).await;
    let other = Job { run: "other".into(), ..job(1) };
    offer(&engine, [other.clone()]).await;
    engine.withdraw_run(RUN).await.unwrap();
    let mut tickets = engine.pull(&["gpu".into()]).await.unwrap();
    let ticket = tickets.next().await.unwrap();
    assert_eq!(ticket.job, other);
    ticket.done().await.unwrap();
    assert!(ticket_now(&mut tickets, &engine).await.is_none());
}

#[tokio::test]
async fn a_slot_is_offered_until_its_ticket_is_done() {
    let Some(server) = NatsServer::start() else { return };
    let engine = patient(&server).await;
    let other = Job { run: "other".into(), unit: 9, label: Some("gpu".into()) };
    offer(&engine, (1..=3).map(job).chain([other])).await;
    assert_eq!(engine.offered(RUN).await.unwrap(), [1, 2, 3].into());
    let mut tickets = engine.pull(&[]).await.unwrap();
    let ticket = tickets.next().await.unwrap();
    assert_eq!(engine.offered(RUN).await.unwrap(), [1, 2, 3].into());
    let drawn = ticket.job.unit;
    ticket.done().await.unwrap();
    assert!(!engine.offered(RUN).await.unwrap().contains(&drawn));
    assert_eq!(engine.offered("other").await.unwrap(), [9].into());
    assert_eq!(engine.offered("none").await.unwrap(), [].into());
}

#[tokio::test]
async fn of_two_results_the_first_one_holds() {
    let Some(server) = NatsServer::start() else { return };
    let engine = engine(&server).await;
    assert_eq!(engine.result(RUN, 1, bytes("mine")).await.unwrap(), Won::First);
    assert_eq!(engine.result(RUN, 1, bytes("other")).await.unwrap(), Won::Late);
    // As if its acknowledgement had been lost.
    assert_eq!(engine.result(RUN, 1, bytes("mine")).await.unwrap(), Won::First);
    assert_eq!(engine.result(RUN, 2, bytes("other")).await.unwrap(), Won::First);
}

#[tokio::test]
async fn who_listens_hears_all_of_it_once_over_crashes() {
    let Some(mut server) = NatsServer::start() else { return };
    let engine = engine(&server).await;
    engine.say(said(0), bytes("before")).await.unwrap();
    let mut heard = engine.listen(RUN).await.unwrap();
    // Nothing is heard yet, and the server forgets who listens.
    server.kill9();
    server.restart();
    for seq in 1..=300 {
        if seq % 100 == 50 {
            server.kill9();
        }
        let (sayer, text) = (engine.clone(), bytes(seq.to_string()));
        let saying = tokio::spawn(async move { sayer.say(said(seq), text).await });
        if seq % 100 == 50 {
            server.restart();
        }
        saying.await.unwrap().unwrap();
        if seq % 3 == 0 {
            // A frame that is sent again.
            engine.say(said(seq), bytes("double")).await.unwrap();
        }
        if seq == 200 {
            for seq in 1..=100 {
                assert_eq!(heard.next().await.unwrap(), frame(seq.to_string(), false));
            }
        }
    }
    engine.result(RUN, 1, bytes("end")).await.unwrap();
    for seq in 101..=300 {
        assert_eq!(heard.next().await.unwrap(), frame(seq.to_string(), false));
    }
    assert_eq!(heard.next().await.unwrap(), frame("end".to_owned(), true));
}

/// Has whoever reads this stream begin anew.
async fn forget_readers(server: &NatsServer, stream: &str) {
    let stream = raw(server).await.get_stream(stream).await.expect("whoever came first made it");
    let names: Vec<String> =
        stream.consumer_names().try_collect().await.expect("the server tells of them");
    assert!(!names.is_empty(), "somebody reads it");
    for name in names {
        stream.delete_consumer(&name).await.expect("it is there");
    }
}

/// Says something for as long as this is polled, and counts that.
async fn talks(engine: &Engine, unit: u32, count: &Semaphore) {
    for seq in 1.. {
        let said = Said { run: RUN, unit, attempt: 1, seq };
        engine.say(said, bytes("and")).await.expect("the server is there");
        count.add_permits(1);
    }
}

#[tokio::test]
async fn a_slot_is_heard_beside_others_that_never_stop_talking() {
    // It acknowledges what is not on the disk yet, and so more of it.
    let Some(server) = NatsServer::start_with("jetstream { store_dir: STORE }") else { return };
    let engine = patient(&server).await;
    let mut heard = engine.listen(RUN).await.unwrap();
    forget_readers(&server, "tine-events-1").await;
    engine.say(said(1), bytes("me, too")).await.unwrap();
    // These are all in another stream.
    let count = Semaphore::new(0);
    let talking = join_all((0..64).map(|number| talks(&engine, 4 * number, &count)));
    let hearing = async {
        // Of them there is always more to be heard: more than is sent ahead at first, and
        // then one from each for one that is read.
        count.acquire_many(1_000).await.unwrap().forget();
        loop {
            count.acquire_many(64).await.unwrap().forget();
            let frame = heard.next().await.unwrap();
            if frame.unit == 1 {
                return frame;
            }
        }
    };
    let frame = tokio::select! {
        frame = hearing => frame,
        _ = talking => unreachable!("they never stop"),
    };
    assert_eq!(frame.payload, bytes("me, too"));
}

fn frame(text: String, is_result: bool) -> Frame {
    Frame { unit: 1, is_result, attempt: (!is_result).then_some(1), payload: bytes(text) }
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_with_the_cap() {
    let more = "jetstream { store_dir: STORE }\nmax_payload: 1024";
    let Some(server) = NatsServer::start_with(more) else { return };
    let engine = engine(&server).await;
    let error = engine.say(said(1), vec![0; 2048].into()).await.unwrap_err();
    assert!(matches!(error, EngineError::TooLarge { cause: _, cap: 1024 }), "{error:?}");
}

#[tokio::test]
async fn a_full_store_is_named() {
    let more = "jetstream { store_dir: STORE, max_file_store: 65536 }";
    let Some(server) = NatsServer::start_with(more) else { return };
    let engine = engine(&server).await;
    let error = loop {
        let unit = Said { unit: 9, ..said(0) };
        let id = uuid::Uuid::new_v4().to_string();
        let said = Said { run: &id, ..unit };
        if let Err(error) = engine.say(said, vec![0; 16_384].into()).await {
            break error;
        }
    };
    assert!(matches!(error, EngineError::StorageFull { cause: _ }), "{error:?}");
}

#[tokio::test]
async fn a_blob_comes_back_as_it_was_and_no_other_under_its_name() {
    let Some(server) = NatsServer::start() else { return };
    let engine = engine(&server).await;
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7).to_le_bytes()[0]).collect();
    for blob in [&large[..], b"small", b""] {
        let hash = engine.put_blob(blob).await.unwrap();
        assert_eq!(engine.put_blob(blob).await.unwrap(), hash);
        assert!(engine.get_blob(hash).await.unwrap() == blob);
    }
    let missing = engine.get_blob(Hash::of(b"missing")).await.unwrap_err();
    assert!(matches!(missing, EngineError::NoBlob { name: _ }), "{missing:?}");

    let hash = Hash::of(b"what was meant");
    let store = raw(&server).await.get_object_store("tine-blobs").await.unwrap();
    let mut other: &[u8] = b"something else";
    store.put(hash.to_string().as_str(), &mut other).await.unwrap();
    let error = engine.get_blob(hash).await.unwrap_err().to_string();
    let expected = format!("blob {hash} is not what its name says");
    assert_eq!(error.lines().next(), Some(expected.as_str()));
}

/// Waits until nothing of any blob is on the server.
async fn no_blob_is_left(server: &NatsServer) {
    let stream = raw(server).await.get_stream("OBJ_tine-blobs").await;
    let mut stream = stream.expect("whoever came first has made it");
    while stream.info().await.expect("the server is there").state.messages > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_blob_that_finds_no_room_leaves_none_of_its_pieces() {
    let more = "jetstream { store_dir: STORE, max_file_store: 1MB }";
    let Some(server) = NatsServer::start_with(more) else { return };
    let engine = engine(&server).await;
    let error = engine.put_blob(&[7; 3_000_000]).await.unwrap_err();
    assert!(matches!(error, EngineError::StorageFull { cause: _ }), "{error:?}");
    timeout(HANG_LIMIT, no_blob_is_left(&server)).await.expect("its pieces go");
    engine.put_blob(&[7; 600_000]).await.unwrap();
}

#[tokio::test]
async fn a_blob_that_nobody_waits_for_leaves_none_of_its_pieces() {
    let Some(server) = NatsServer::start() else { return };
    let engine = engine(&server).await;
    let other = async_nats::connect(server.url()).await.unwrap();
    let mut pieces = other.subscribe("$O.tine-blobs.C.>").await.unwrap();
    other.flush().await.unwrap();
    let bytes = vec![7; 30_000_000];
    tokio::select! {
        stored = engine.put_blob(&bytes) => panic!("it is done first: {stored:?}"),
        // Some are there by then.
        _ = async { for _ in 0..3 { pieces.next().await.unwrap(); } } => {}
    }
    timeout(HANG_LIMIT, no_blob_is_left(&server)).await.expect("its pieces go");
}

#[tokio::test]
async fn blobs_wait_for_a_server_that_is_away() {
    let Some(mut server) = NatsServer::start() else { return };
    let engine = engine(&server).await;
    let small = engine.put_blob(b"small").await.unwrap();
    server.kill9();
    let mut reconnections = engine.reconnections();
    while engine.connected_since().is_some() {
        tokio::task::yield_now().await;
    }
    let away = async {
        // Both have been asked for by now.
        tokio::task::yield_now().await;
        server.restart();
        reconnections.next().await;
    };
    let (read, stored, ()) =
        tokio::join!(engine.get_blob(small), engine.put_blob(b"another"), away);
    assert_eq!(read.unwrap(), b"small");
    assert_eq!(stored.unwrap(), Hash::of(b"another"));
}

#[tokio::test]
async fn who_watches_late_sees_what_is_over_already() {
    let Some(mut server) = NatsServer::start() else { return };
    let engine = engine(&server).await;
    engine.stop(RUN, Some(3)).await.unwrap();
    engine.stop("other", None).await.unwrap();
    let mut stops = engine.stops().await.unwrap();
    let stop = |run: &str, unit| Stop { run: run.to_owned(), unit };
    assert_eq!(stops.next().await.unwrap(), stop(RUN, Some(3)));
    assert_eq!(stops.next().await.unwrap(), stop("other", None));
    server.kill9();
    server.restart();
    engine.stop(RUN, None).await.unwrap();
    assert_eq!(stops.next().await.unwrap(), stop(RUN, None));
}

#[tokio::test]
async fn a_request_is_answered_or_has_nobody() {
    let Some(mut server) = NatsServer::start() else { return };
    let engine = engine(&server).await;
    let nobody = engine.claim(RUN, bytes("?")).await;
    assert!(matches!(nobody, Err(ClaimError::NoCoordinator)), "{nobody:?}");
    let mut claims = engine.claims(RUN).await.unwrap();
    // Who is asked is known again after a crash.
    for _ in 0..2 {
        let asking = async {
            loop {
                match engine.claim(RUN, bytes("?")).await {
                    Ok(answer) => return answer,
                    Err(ClaimError::NoCoordinator | ClaimError::TimedOut) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let answering = async {
            let request = claims.next().await.unwrap();
            assert_eq!(request.payload, bytes("?"));
            engine.answer(&request, bytes("!")).await.unwrap();
        };
        let (answer, ()) = tokio::join!(asking, answering);
        assert_eq!(answer, bytes("!"));
        server.kill9();
        server.restart();
    }
    let _permits = engine.permits("a.b").await.unwrap();
    let silent = engine.permit("a.b", bytes("?"), Duration::from_millis(250)).await;
    assert!(matches!(silent, Err(ClaimError::TimedOut)), "{silent:?}");
}

#[tokio::test]
async fn what_is_told_and_reported_arrives() {
    let Some(server) = NatsServer::start() else { return };
    let engine = engine(&server).await;
    let mut inbox = engine.inbox("ada@host.example").await.unwrap();
    engine.tell("ada@host.example", bytes("hello")).await.unwrap();
    assert_eq!(inbox.next().await.unwrap(), bytes("hello"));
    assert_eq!(engine.workers().await.unwrap(), []);
    engine.report("b", bytes("2")).await.unwrap();
    engine.report("ada@host.example", bytes("0")).await.unwrap();
    engine.report("ada@host.example", bytes("1")).await.unwrap();
    let expected = [("ada@host.example".to_owned(), bytes("1")), ("b".to_owned(), bytes("2"))];
    assert_eq!(engine.workers().await.unwrap(), expected);
}
