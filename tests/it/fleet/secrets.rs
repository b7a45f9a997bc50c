//! What must not leave a machine: keys, the environment and the configuration, of the
//! run and of its workers.

use std::fs;
use std::path::Path;

use super::{LONG, held_by, mapping, write_table};
use crate::support::fleet::{Fleet, THEIR_KEY};
use crate::support::repository::Repository;
use crate::support::server::{Gate, Server};
use crate::support::tine::{KEY, Place};
use crate::support::wait::until;
use crate::support::wire::Wire;

/// What no file and no message may hold: keys of models, variables, and values of
/// `config.toml`.
const SECRETS: [&str; 6] = [
    KEY,
    THEIR_KEY,
    "variable-of-the-run",
    "variable-of-the-worker",
    "header-of-the-run",
    "header-of-the-worker",
];

/// Something of the workspace.
const WORKSPACE: &str = "A line of the workspace.";

/// What the configuration says of the model, for the run or for the worker.
fn configured(model: &Server, whose: &str) -> String {
    let url = model.base_url();
    let key = "key_env = \"OPENAI_API_KEY\"";
    let headers = format!("headers = {{ X-Secret = \"header-of-the-{whose}\" }}");
    format!("[models.m]\nbase_url = \"{url}\"\n{key}\n{headers}\n")
}

/// Returns which of these texts are in a file below this directory, or in its name.
fn found<'a>(directory: &Path, texts: &[&'a str]) -> Vec<&'a str> {
    let (mut directories, mut bytes) = (vec![directory.to_owned()], Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("it can be listed") {
            let entry = entry.expect("it can be listed");
            bytes.extend_from_slice(entry.file_name().as_encoded_bytes());
            bytes.push(b'\n');
            match entry.file_type().expect("it is there") {
                kind if kind.is_dir() => directories.push(entry.path()),
                kind if kind.is_file() => bytes.extend(fs::read(entry.path()).expect("it is ours")),
                _ => {}
            }
        }
    }
    among(&bytes, texts)
}

/// Returns which of these texts are among these bytes.
fn among<'a>(bytes: &[u8], texts: &[&'a str]) -> Vec<&'a str> {
    let is_there = |text: &&&str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    texts.iter().filter(is_there).copied().collect()
}

/// Checks the same of all that passed the server, and that this stood in an answer to a
/// worker that asked for a slot: what it is given is stored nowhere.
#[track_caller]
fn check_passed(wire: &Wire, known: &str) {
    let (mut bytes, mut granted) = (Vec::new(), Vec::new());
    let claims = wire.of_subject("tine.claim.");
    for message in wire.messages() {
        let is_granted = claims.iter().any(|claim| claim.reply.as_ref() == Some(&message.subject));
        if is_granted {
            granted.extend_from_slice(&message.payload);
        }
        let headers = message.headers.iter().flat_map(|headers| headers.iter());
        let headers = headers.map(|(name, values)| format!("{name}: {values:?}\n"));
        bytes.extend(headers.collect::<String>().into_bytes());
        bytes.extend_from_slice(message.subject.as_bytes());
        bytes.extend_from_slice(&message.payload);
        bytes.push(b'\n');
    }
    assert_eq!(among(&granted, &[known]), [known]);
    assert_eq!(among(&bytes, &SECRETS), [""; 0]);
}

/// Checks that of all that must not be there nothing is in this directory, and this is.
#[track_caller]
fn check_holds(directory: &Path, known: &str) {
    let texts = [&SECRETS[..], &[known]].concat();
    assert_eq!(found(directory, &texts), [known], "in {}", directory.display());
}

#[track_caller]
fn check_session(place: &Place, known: &str) {
    let [session] = &place.sessions()[..] else { panic!("one session was kept") };
    check_holds(session, known);
}

#[test]
fn no_key_no_variable_and_nothing_of_a_configuration_is_said_or_stored_anywhere() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let (wire, gate) = (Wire::of(&fleet.nats), Gate::closed());
    let (repository, model) = (Repository::new(), held_by(&gate));
    let place = &repository.place;
    write_table(place, 2);
    repository.write("file.txt", WORKSPACE);
    repository.commit("Begin");
    fleet.work_as(2, &[], &configured(&model, "worker"), |tine| {
        tine.env("OPENAI_API_KEY", THEIR_KEY).env("A_VARIABLE", "variable-of-the-worker")
    });
    place.configure(&format!("{}{}", fleet.configuration(), configured(&model, "run")));
    let running = mapping(place, &model, &[]).env("A_VARIABLE", "variable-of-the-run");
    let running = running.start();
    model.wait_until_came(2);
    let copies = fleet.workers[0].directory();
    check_holds(&copies, WORKSPACE);
    for asked in ["tine.rate.", "tine.beat."] {
        until("workers ask for permits, and say that they live", || {
            !wire.of_subject(asked).is_empty()
        });
    }
    gate.open();
    running.wait().exits(0);
    check_passed(&wire, "Look at r1");
    check_holds(&fleet.nats.store(), "saw r1");
    check_session(place, "saw r1");
    assert_eq!(found(&copies, &SECRETS), [""; 0]);
    // All this was in use.
    for request in model.finish() {
        let sent = ["authorization", "x-secret"].map(|name| request.header(name));
        let key = format!("Bearer {THEIR_KEY}");
        assert_eq!(sent, [Some(&*key), Some("header-of-the-worker")]);
    }
}
