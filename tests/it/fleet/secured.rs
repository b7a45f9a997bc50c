//! Servers that encrypt and want to know who comes, and what somebody publishes there
//! who is neither a run nor a worker.

use std::path::Path;

use async_nats::jetstream;
use futures_util::StreamExt as _;
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::refused::{meet_at, meeting_at};
use super::{LONG, check_each_row_once, echo, map, mapping, table};
use crate::support::certificates::{Authority, Certificate};
use crate::support::fleet::Fleet;
use crate::support::nats::NatsServer;
use crate::support::tine::{Finished, HANG_LIMIT, Place};
use crate::support::vouched::Operator;

const STORED: &str = "jetstream { store_dir: STORE }";

/// Starts a server that encrypts; more stands in its block.
fn encrypting(shown: &Certificate, more: &str) -> Option<NatsServer> {
    let Certificate { certificate, key } = shown;
    let tls = format!("tls {{ cert_file: {certificate:?}, key_file: {key:?}, {more} }}");
    NatsServer::start_with(&format!("{STORED}\n{tls}"))
}

/// One that wants to see a certificate, too.
fn asking(authority: &Authority) -> Option<NatsServer> {
    let ca = format!("ca_file: {:?}, verify: true", authority.certificate());
    encrypting(&authority.server("IP:127.0.0.1"), &ca)
}

fn over_tls(server: &NatsServer) -> String {
    server.url().replace("nats://", "tls://")
}

pub(super) fn key(name: &str, file: &Path) -> String {
    format!("{name} = '{}'\n", file.display())
}

/// Checks that a map comes to its end over this address, with these keys of
/// `[executor.nats]`.
#[track_caller]
fn check_map(server: NatsServer, url: &str, keys: &str) {
    let mut fleet = Fleet::at(server, LONG).with(keys);
    let (place, model) = (table(3), echo());
    fleet.work_over(url, 2, Some(&model));
    place.configure(&fleet.configuration_over(url));
    mapping(&place, &model, &[]).run().exits(0);
    check_each_row_once(&place, 3);
}

/// A place that meets at this address, with more keys of `[executor.nats]`.
fn meeting_with(url: &str, keys: &str) -> Place {
    let place = meeting_at(url);
    let own = format!("[executor.nats]\nservers = [\"{url}\"]\nlease_s = {LONG}\n{keys}");
    place.configure(&own);
    place
}

/// Checks that a run, a worker and a list of workers are refused so.
#[track_caller]
fn check_refused(place: &Place, error: &str, hint: &str) {
    for finished in meet_at(place) {
        finished.refuses(52, &format!("error: {error}\nhint: {hint}\n"));
    }
}

/// Checks that the certificate of a server does not count.
#[track_caller]
fn check_untrusted(place: &Place, server: &NatsServer, why: &str) {
    let port = server.port();
    let error = format!(
        "the certificate of the NATS server at 127.0.0.1:{port} is not trusted: invalid peer \
         certificate: {why}"
    );
    let hint = "set `ca` under `[executor.nats]` to a file with the certificate that vouches for \
                it, and name the server as its own certificate does";
    check_refused(place, &error, hint);
}

#[test]
fn a_map_runs_over_tls_with_a_certificate_that_is_configured() {
    let authority = Authority::new();
    let Some(server) = encrypting(&authority.server("IP:127.0.0.1"), "") else { return };
    let url = over_tls(&server);
    check_map(server, &url, &key("ca", &authority.certificate()));
}

#[test]
fn a_server_that_asks_for_a_certificate_is_shown_ours() {
    let authority = Authority::new();
    let Some(server) = asking(&authority) else { return };
    let (url, ours) = (over_tls(&server), authority.client());
    let ours = key("certificate", &ours.certificate) + &key("key", &ours.key);
    check_map(server, &url, &(key("ca", &authority.certificate()) + &ours));
}

#[test]
fn a_server_that_is_shown_no_certificate_refuses_and_the_keys_are_named() {
    let authority = Authority::new();
    let Some(server) = asking(&authority) else { return };
    let place = meeting_with(&over_tls(&server), &key("ca", &authority.certificate()));
    let port = server.port();
    let error =
        format!("no TLS connection to 127.0.0.1:{port}: received fatal alert: CertificateRequired");
    check_refused(&place, &error, "check `ca`, `certificate` and `key` under `[executor.nats]`");
}

#[test]
fn a_certificate_that_nobody_here_vouches_for_is_named_and_what_to_set() {
    let authority = Authority::new();
    let Some(server) = encrypting(&authority.server("IP:127.0.0.1"), "") else { return };
    let place = meeting_at(&over_tls(&server));
    check_untrusted(&place, &server, "UnknownIssuer");
    // What the machine itself trusts is trusted.
    let trusted = authority.certificate();
    let trusted = trusted.to_str().expect("the path of a place is text");
    place.tine(["workers"]).env("SSL_CERT_FILE", trusted).run().exits(0);
    // The word of somebody else is not, even of the same name.
    let stranger = Authority::new();
    let place = meeting_with(&server.url(), &key("ca", &stranger.certificate()));
    check_untrusted(&place, &server, "BadSignature");
}

#[test]
fn a_certificate_for_another_name_is_not_trusted() {
    let authority = Authority::new();
    let Some(server) = encrypting(&authority.server("DNS:box.example"), "") else { return };
    let place = meeting_with(&over_tls(&server), &key("ca", &authority.certificate()));
    let why = "certificate not valid for name \"127.0.0.1\"; certificate is only valid for \
               DnsName(\"box.example\")";
    check_untrusted(&place, &server, why);
}

#[test]
fn a_server_that_does_not_encrypt_is_not_talked_to_over_tls() {
    let Some(server) = NatsServer::start() else { return };
    for finished in meet_at(&meeting_at(&over_tls(&server))) {
        let Finished { stderr, .. } = finished.exits(52);
        let said = format!("error: no TLS connection to 127.0.0.1:{}: ", server.port());
        assert!(stderr.starts_with(&said), "{stderr}");
    }
}

#[test]
fn a_map_runs_as_the_user_that_the_address_names() {
    let user = "authorization { user: ada, password: \"p@ss word\" }";
    let Some(server) = NatsServer::start_with(&format!("{STORED}\n{user}")) else { return };
    let url = server.url().replace("nats://", "nats://ada:p%40ss%20word@");
    check_map(server, &url, "");
}

#[test]
fn a_map_runs_with_a_file_of_credentials() {
    let (operator, place) = (Operator::new(), Place::new());
    let more = format!("{STORED}\n{}", operator.configuration());
    let Some(server) = NatsServer::start_with(&more) else { return };
    let file = place.write("ada.creds", operator.credentials());
    let url = server.url();
    check_map(server, &url, &key("credentials", &file));
}

#[test]
fn credentials_that_another_operator_vouches_for_are_refused() {
    let (operator, other) = (Operator::new(), Operator::new());
    let more = format!("{STORED}\n{}", operator.configuration());
    let Some(server) = NatsServer::start_with(&more) else { return };
    let files = Place::new();
    let file = files.write("ada.creds", other.credentials());
    let error = format!("the NATS server at 127.0.0.1:{} refused these credentials", server.port());
    let hint = "check the user, token or credentials file under `[executor.nats]`";
    for keys in [key("credentials", &file), String::new()] {
        check_refused(&meeting_with(&server.url(), &keys), &error, hint);
    }
}

/// Publishes these with this in each, and returns once all of them are stored.
async fn publish(client: &async_nats::Client, subjects: &[String], text: &'static str) {
    let jetstream = jetstream::new(client.clone());
    for subject in subjects {
        let stored = jetstream.publish(subject.clone(), text.into()).await;
        stored.expect("the server is there").await.expect("the stream takes it");
    }
}

#[test]
fn what_is_no_ticket_is_dropped_and_the_worker_says_so_and_goes_on() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let (place, model) = (table(3), echo());
    fleet.work(1, Some(&model));
    let own = env!("CARGO_PKG_VERSION").replace('.', "-");
    // The last has a name as a ticket's.
    let strange = [
        "somebody.x",
        "somebody.-1",
        "somebody.4294967296",
        "somebody.1.2",
        "somebody",
        "somebody.8",
    ];
    let strange = strange.map(|rest| format!("tine.jobs.{own}.any.{rest}"));
    Runtime::new().expect("a runtime").block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        let dropped = format!("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.tine-jobs.{own}_any");
        let mut dropped = client.subscribe(dropped).await.expect("it is connected");
        client.flush().await.expect("it is connected");
        publish(&client, &strange, "\u{0}{[").await;
        // One that looks like a ticket, of a run that never was.
        publish(&client, &[format!("tine.jobs.{own}.any.somebody.7")], "1").await;
        for number in 1..=strange.len() {
            let next = timeout(HANG_LIMIT, dropped.next()).await;
            let next = next.expect("all are dropped").expect("it is connected");
            let event: Value = serde_json::from_slice(&next.payload).expect("it is JSON");
            assert_eq!(event["stream_seq"], number, "{event}");
        }
    });
    for subject in strange {
        let said = fleet.workers[0].says();
        let expected = format!(
            "dropped what is no ticket: `{subject}`; somebody else publishes under this prefix"
        );
        assert_eq!(said, expected);
    }
    map(&fleet, &place, &model, &[]).run().exits(0);
    check_each_row_once(&place, 3);
    fleet.workers[0].signal(Signal::SIGTERM);
    let end = "taking no more agents; a second signal ends those at work, too".to_owned();
    assert_eq!(fleet.workers[0].ends(), (Some(0), vec![end]));
}
