//! The configuration of a server that tine ships, and the commands that its documents
//! begin with: both as they are written there.

use std::collections::HashSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use async_nats::ConnectOptions;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::runtime::Runtime;

use super::forks::{is_theirs, repository, run, serve_forks};
use super::secured::key;
use super::{LONG, SESSION, check_each_row_once, echo, map, table, write_table};
use crate::support::certificates::Authority;
use crate::support::fleet::Fleet;
use crate::support::nats::{ADDRESS, NatsServer, objects_to, routes};
use crate::support::server::Reaction;
use crate::support::talk::serve;
use crate::support::tine::{HANG_LIMIT, Place};
use crate::support::wait::until;

const PASSWORD: &str = "secret";

/// The hash of that, as `nats server passwd` makes it, but of little work.
const HASH: &str = "$2a$04$tinetinetinetinetinetu7gtC1zCTJ94w1.lMhMxfJ3vu/T9elJG";

/// Reads a file of this project.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(path).expect("the project has it")
}

/// Puts other texts in the place of some, which have to be there.
#[track_caller]
fn replaced(text: &str, pairs: &[(&str, &str)]) -> String {
    pairs.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "there is no `{from}` in it:\n{text}");
        text.replace(from, to)
    })
}

/// A configuration whose server listens and stores where the test has it.
#[track_caller]
fn placed(configuration: &str, address: &str) -> String {
    replaced(configuration, &[(address, ADDRESS), ("\"/var/tmp/tine-nats\"", "STORE")])
}

/// What three terminals are for, one line each.
fn commands(document: &str) -> Vec<String> {
    let text = read(document);
    let mut blocks = text.split("```").filter_map(|block| block.strip_prefix("sh\n"));
    let block = blocks.find(|block| block.starts_with("nats-server -c docs/"));
    block.expect("it says how to begin").lines().map(str::to_owned).collect()
}

#[test]
fn the_three_commands_that_documents_begin_with_map_a_table() {
    let [lines, same] = ["README.md", "docs/workers.md"].map(commands);
    assert_eq!(lines, same);
    let [serving, working, mapping] = <[String; 3]>::try_from(lines).expect("three terminals");
    let configuration = serving.strip_prefix("nats-server -c ").expect("a server is first");
    let configuration = placed(&read(configuration), "127.0.0.1:4222");
    let Some(server) = NatsServer::start_from(&configuration) else { return };
    let (place, here, there) = (Place::new(), echo(), echo());
    write_table(&place, 3);
    place.write("look.md", "Look at {{ path }}");
    place.configure(&format!("model = \"m\"\n[executor.nats]\nservers = [\"{}\"]\n", server.url()));
    let tine =
        |line: &str| place.tine(line.strip_prefix("tine ").expect("tine is next").split(' '));
    let worker = tine(&working).server(&there).start();
    tine(&mapping).server(&here).run().exits(0);
    check_each_row_once(&place, 3);
    worker.signal(Signal::SIGTERM);
    worker.wait().exits(0);
    assert_eq!((here.finish().len(), there.finish().len()), (0, 3));
}

#[test]
fn what_the_shipped_server_acknowledges_is_on_its_disk() {
    let telling = format!("{}\nhttp: \"127.0.0.1:-1\"\n", read("docs/nats.conf"));
    let configuration = placed(&telling, "127.0.0.1:4222");
    let Some(server) = NatsServer::start_from(&configuration) else { return };
    let told = server.tells("/varz");
    assert_eq!(told["jetstream"]["config"]["sync_always"], true, "{told}");
}

/// A line of a configuration without the signs that keep it from being read, if it is
/// a setting.
fn uncommented(line: &str) -> String {
    let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
    // Prose stands one space behind its sign, a setting none or its own indentation.
    let is_prose = |rest: &str| rest.is_empty() || rest.starts_with(' ') && !rest.starts_with("  ");
    match rest.strip_prefix('#').filter(|rest| !is_prose(rest)) {
        Some(setting) => uncommented(&format!("{indent}{setting}")),
        None => line.to_owned(),
    }
}

/// Writes a path as it stands in a configuration.
fn file(path: &Path) -> String {
    path.to_str().expect("the path of a place is text").to_owned()
}

/// The configuration for several machines: all that is commented out holds, and the
/// address for one machine does not.
fn for_several(authority: &Authority) -> String {
    let text = read("docs/nats.conf");
    let settings = text.lines().filter(|line| *line != "listen: \"127.0.0.1:4222\"");
    let text: String = settings.map(|line| uncommented(line) + "\n").collect();
    let shown = authority.server("IP:127.0.0.1");
    let pairs = [
        ("/etc/nats/server.pem", &*file(&shown.certificate)),
        ("/etc/nats/server.key", &*file(&shown.key)),
        ("/etc/nats/ca.pem", &*file(&authority.certificate())),
        ("$2a$11$...", HASH),
        // One that nobody else has.
        ("127.0.0.1:8222", "127.0.0.1:-1"),
    ];
    replaced(&text, &pairs)
}

#[test]
fn a_server_takes_the_shipped_configuration_with_all_that_is_commented_out() {
    let authority = Authority::new();
    let shown = authority.routes("IP:127.0.0.1");
    let pairs = [
        ("/etc/nats/route.pem", &*file(&shown.certificate)),
        ("/etc/nats/route.key", &*file(&shown.key)),
    ];
    let text = replaced(&for_several(&authority), &pairs);
    for block in ["listen: \"0", "tls {", "authorization {", "server_name: ", "cluster {"] {
        assert!(text.contains(&format!("\n{block}")), "{text}");
    }
    let Some(objections) = objects_to(&text) else { return };
    assert_eq!(objections, Ok(()));
    // It would say so.
    let objections = objects_to(&text.replace("verify: true", "verified: true"));
    assert!(objections.is_some_and(|it| it.is_err()));
}

/// Starts a server of the shipped cluster, which knows the password of the others or
/// another one.
fn member(authority: &Authority, meeting: &[String; 3], at: usize, password: &str) -> NatsServer {
    let names = meeting
        .each_ref()
        .map(|address| format!("IP:{}", address.split_once(':').expect("an address has a port").0));
    let shown = authority.routes(&names.join(","));
    let (name, listen) = (format!("server_name: \"n{at}\""), format!("{:?}", meeting[at]));
    let text = replaced(
        &for_several(authority),
        &[
            ("server_name: \"box-1\"", &*name),
            ("\"0.0.0.0:6222\"", &*listen),
            ("box-2:6222", &*meeting[(at + 1) % 3]),
            ("box-3:6222", &*meeting[(at + 2) % 3]),
            ("/etc/nats/route.pem", &*file(&shown.certificate)),
            ("/etc/nats/route.key", &*file(&shown.key)),
            ("PASSWORD", password),
        ],
    );
    NatsServer::start_from(&placed(&text, "0.0.0.0:4222")).expect("the program is there")
}

#[test]
fn servers_of_the_shipped_cluster_encrypt_and_take_none_in_without_the_password() {
    let authority = Authority::new();
    if objects_to(&for_several(&authority)).is_none() {
        return;
    }
    let meeting = routes();
    let one = member(&authority, &meeting, 0, "right");
    let two = member(&authority, &meeting, 1, "right");
    let routes = |server: &NatsServer| {
        let told = server.tells("/routez")["routes"].take();
        let routes = told.as_array().expect("there is a list").iter();
        routes.map(|route| route["remote_name"].clone()).collect::<HashSet<_>>()
    };
    until("two of them meet", || routes(&one) == [json!("n1")].into());
    let other = member(&authority, &meeting, 2, "wrong");
    one.wait_until_says("authentication error");
    // Whoever connects lists the other until it is told that it may not; then it tries again.
    until("it is not taken in", || {
        (routes(&one), routes(&other)) == ([json!("n1")].into(), [].into())
    });
    drop(other);
    let three = member(&authority, &meeting, 2, "right");
    until("all meet", || routes(&three) == [json!("n0"), json!("n1")].into());
    // Somebody who does not encrypt hears nothing of what they say to each other.
    let mut plain = TcpStream::connect(&meeting[0]).expect("it listens");
    plain
        .write_all(b"CONNECT {\"user\":\"route\",\"pass\":\"right\"}\r\nPING\r\n")
        .expect("it reads");
    plain.set_read_timeout(Some(HANG_LIMIT)).expect("it is some time");
    let mut heard = Vec::new();
    // It is hung up on, in whichever way.
    let _ = plain.read_to_end(&mut heard);
    let heard = String::from_utf8_lossy(&heard);
    assert!(!heard.contains("PONG"), "{heard}");
    one.wait_until_says("TLS route handshake error");
    drop(two);
}

/// A server that encrypts and wants to see certificates, for the user of the shipped
/// configuration; and its configuration of runs and workers.
fn entered(authority: &Authority) -> Option<Fleet> {
    let text = for_several(authority);
    // The other servers of a cluster are not there.
    let (text, _) = text.split_once("\nserver_name: ").expect("the cluster comes last");
    let server = NatsServer::start_from(&placed(text, "0.0.0.0:4222"))?;
    let ours = authority.client();
    let keys = key("ca", &authority.certificate())
        + &key("certificate", &ours.certificate)
        + &key("key", &ours.key);
    Some(Fleet::at(server.entered_by("tine", PASSWORD), LONG).with(&keys))
}

/// Has all workers end.
#[track_caller]
fn dismiss(fleet: &mut Fleet) {
    for mut worker in fleet.workers.drain(..) {
        worker.signal(Signal::SIGTERM);
        assert_eq!(worker.ends().0, Some(0));
    }
}

/// Has two rows mapped, and the worker listed.
#[track_caller]
fn check_map(fleet: &mut Fleet) {
    let (place, model) = (table(2), echo());
    let worker = fleet.work(2, Some(&model)).name.clone();
    map(fleet, &place, &model, &[]).run().exits(0);
    check_each_row_once(&place, 2);
    until("it is listed", || place.tine(["workers"]).run().exits(0).stdout.contains(&worker));
    dismiss(fleet);
}

/// Has a fork write a file, in a workspace that is more than a server sends before it
/// hears that it may go on.
#[track_caller]
fn check_fork(fleet: &mut Fleet) {
    let write = json!({"file_path": "made.txt", "content": "of a fork\n"});
    let model = serve_forks(&["alpha"], move |_, talk| match talk.turn() {
        3 => Reaction::call_reply(&[("Write", write.clone())]),
        _ => Reaction::text_reply("It is so."),
    });
    fleet.work_apart(1, &model, "");
    let repository = repository();
    // Packed it would be small if it repeated anything.
    let words = (0..800_000_u32).map(|it| format!("{:08x}", it.wrapping_mul(2_654_435_761)));
    repository.write("large.txt", &words.collect::<String>());
    repository.commit("Grow");
    run(fleet, &repository.place, &model, &[]).run().exits(0);
    assert_eq!(repository.place.read("made.txt").as_deref(), Some("of a fork\n"));
    assert_eq!(model.finish().iter().filter(|request| is_theirs(request)).count(), 2);
    dismiss(fleet);
}

/// Has a run stopped of which one slot is at work and two wait.
#[track_caller]
fn check_cancel(fleet: &mut Fleet) {
    let (place, model) = (table(3), serve(|_| Reaction::Hang));
    fleet.work(1, Some(&model));
    let running = map(fleet, &place, &model, &["--session-id", SESSION]).start();
    model.wait_until_came(1);
    running.signal(Signal::SIGINT);
    running.wait().exits(130);
    model.wait_until_hung_up(1);
    dismiss(fleet);
}

#[test]
fn the_user_of_the_shipped_configuration_may_do_what_the_pool_needs_and_no_more() {
    let authority = Authority::new();
    let Some(mut fleet) = entered(&authority) else { return };
    check_map(&mut fleet);
    check_fork(&mut fleet);
    check_cancel(&mut fleet);
    let ours = authority.client();
    let before = Runtime::new().expect("a runtime").block_on(async {
        let client = ConnectOptions::with_user_and_password("tine".into(), PASSWORD.into())
            .add_root_certificates(authority.certificate())
            .add_client_certificate(ours.certificate, ours.key)
            .require_tls(true);
        let address = format!("127.0.0.1:{}", fleet.nats.port());
        let client = client.connect(address).await.expect("the server is there");
        client.publish("other.jobs.any.run.1", "".into()).await.expect("it is connected");
        client.flush().await.expect("it is connected");
        let refused = "Publish Violation - User \"tine\", Subject \"other.jobs.any.run.1\"";
        let before = fleet.nats.says_before(refused);
        let _hears = client.subscribe("other.>").await.expect("it is connected");
        client.flush().await.expect("it is connected");
        let refused = "Subscription Violation - User \"tine\", Subject \"other.>\"";
        fleet.nats.wait_until_says(refused);
        before
    });
    let refused: Vec<_> = before.iter().filter(|line| line.contains("Violation")).collect();
    assert_eq!(refused, [""; 0], "what runs and workers do is permitted");
}
