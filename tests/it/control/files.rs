//! Files that a client is shown.

use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;
use serde_json::{Value, json};

use super::{Client, FLAGS, writes};
use crate::support::tine::Place;

/// A client of a process with these flags, and files around it.
fn client(flags: &[&str]) -> Client {
    let place = Place::new();
    let model = place.script("script.json", &writes(&[]));
    let running =
        place.tine(FLAGS.iter().chain(&["-m", &model]).chain(flags)).silent_stdin().start();
    Client { running, place }
}

fn named(path: &str) -> Value {
    json!({"subtype": "read_file", "path": path})
}

#[track_caller]
fn refused(client: &mut Client, path: &str, why: &str) {
    let reply = client.request(&named(path));
    assert_eq!(reply["subtype"], "error", "{path}: {reply}");
    let error = reply["error"].as_str().expect("it says why");
    assert!(error.contains(why), "{path}: {error}");
}

#[track_caller]
fn shown(client: &mut Client, path: &str, contents: &str) {
    let reply = client.request(&named(path));
    assert_eq!(reply["response"]["contents"], contents, "{path}: {reply}");
}

#[test]
fn a_file_is_read_for_the_client_and_what_is_none_is_an_error() {
    let mut client = client(&[]);
    client.place.write("a.txt", "inside\n");
    shown(&mut client, "a.txt", "inside\n");
    let some = json!({"subtype": "read_file", "path": "a.txt", "max_bytes": 2});
    let reply = client.request(&some)["response"].clone();
    let path = client.place.work().join("a.txt").display().to_string();
    let expected = json!({"contents": "in", "absPath": path, "truncated": true, "lossy": false});
    assert_eq!(reply, expected);
    refused(&mut client, "nowhere.txt", "No such file");
    refused(&mut client, ".", "it is no regular file");
    let reply = client.request(&json!({"subtype": "read_file"}));
    assert_eq!(reply["error"], "there is no `path`");
    client.ends(0);
}

#[test]
fn a_file_that_the_rules_keep_from_the_model_is_kept_from_the_client() {
    let mut client = client(&["--disallowed-tools", "Read(.env)"]);
    client.place.write(".env", "SECRET=hunter2\n");
    client.place.write("plain.txt", "plain\n");
    let (work, home) = (client.place.work(), client.place.home());
    symlink(".env", work.join("link.txt")).unwrap();
    for path in [".env", "./.env", "link.txt", work.join(".env").to_str().unwrap()] {
        refused(&mut client, path, "denied by the rule `Read(.env)`");
    }
    // What the model's own call would be asked about.
    std::fs::create_dir(home.join(".ssh")).unwrap();
    let key = home.join(".ssh/id_ed25519");
    std::fs::write(&key, "a key\n").unwrap();
    symlink(&key, work.join("key.txt")).unwrap();
    for path in [key.to_str().unwrap(), "key.txt"] {
        refused(&mut client, path, "nobody can be asked");
    }
    shown(&mut client, "plain.txt", "plain\n");
    // Rules that come later hold as well.
    let settings = json!({"permissions": {"deny": ["Read(plain.*)"]}});
    let applied = client.request(&json!({"subtype": "apply_flag_settings", "settings": settings}));
    assert_eq!(applied["subtype"], "success");
    refused(&mut client, "plain.txt", "denied by the rule `Read(plain.*)`");
    client.ends(0);
}

#[test]
fn what_is_no_regular_file_keeps_nobody_waiting() {
    let mut client = client(&[]);
    let work = client.place.work();
    nix::unistd::mkfifo(&work.join("pipe"), Mode::S_IRWXU).unwrap();
    symlink("pipe", work.join("to-pipe")).unwrap();
    symlink("/dev/zero", work.join("zero")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(work.join("socket")).unwrap();
    for path in ["pipe", "to-pipe", "zero", "socket"] {
        refused(&mut client, path, "it is no regular file");
    }
    client.ends(0);
}

#[test]
fn bytes_that_are_no_text_come_whole_in_base64() {
    let mut client = client(&[]);
    client.place.write("a.bin", b"\xff\x00\xfe");
    let mut wanted = named("a.bin");
    let path = client.place.work().join("a.bin").display().to_string();
    let as_text = json!({"contents": "\u{fffd}\0\u{fffd}", "absPath": path, "lossy": true});
    assert_eq!(client.request(&wanted)["response"], as_text);
    wanted["encoding"] = json!("base64");
    let whole = json!({"contents": "/wD+", "absPath": path, "encoding": "base64"});
    assert_eq!(client.request(&wanted)["response"], whole);
    wanted["max_bytes"] = json!(1);
    let cut = json!({"contents": "/w==", "absPath": path, "truncated": true, "encoding": "base64"});
    assert_eq!(client.request(&wanted)["response"], cut);
    client.ends(0);
}
