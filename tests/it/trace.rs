//! Sessions as a page, for Perfetto, as JSON, and served while they run. What
//! the page shows in a browser is tested in `tests/page`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::review_flow;
use crate::support::server::{Reaction, Server};
use crate::support::talk::serve;
use crate::support::tine::{Finished, Place, Running, executable};

const ID: &str = "0199a000-0000-7000-8000-000000000001";

const DOCUMENT: &str = include_str!("../../docs/trace.md");

/// A session with a batch of three, of which one fails for want of turns.
fn batch(place: &Place) {
    let task = |name: &str| json!({ "description": name, "prompt": name, "subagent_type": "explore", "max_turns": 1 });
    let tasks = json!({ "tasks": Value::from_iter(["a", "b", "c"].map(task)) });
    let list = json!({ "calls": [{ "name": "Glob", "arguments": { "pattern": "*" } }] });
    let script = json!({ "units": {
        "main": [{ "calls": [{ "name": "Agent", "arguments": tasks }] }, { "text": "main is done" }],
        "a": [{ "text": "a is done </script>" }],
        "b": [list, { "text": "never said" }],
        "c": [{ "text": "c is done" }],
    } });
    place.play(&script, &["--session-id", ID, "--config", "agents.max_concurrent=1"]).exits(0);
}

fn trace(place: &Place, flags: &[&str]) -> Finished {
    place.tine(["trace"].iter().chain(flags)).run()
}

fn json_of(place: &Place) -> Value {
    let finished = trace(place, &[ID, "--format", "json"]).exits(0);
    assert_eq!((&*finished.stderr, finished.stdout.lines().count()), ("", 1));
    serde_json::from_str(&finished.stdout).expect("it is JSON")
}

#[test]
fn no_trace_leaves_the_repository_by_a_link() {
    let place = Place::new();
    batch(&place);
    fs::create_dir_all(place.work().join(".git")).unwrap();
    fs::create_dir_all(place.work().join("sub")).unwrap();
    trace(&place, &["-o", "old.html"]).exits(0);
    for (name, target, flags) in [
        ("trace.html", "../page.html", &[][..]),
        ("trace.html", "../empty.html", &[]),
        ("trace.html", "../old.html", &[]),
        ("trace.html", "link.html", &[]),
        ("out", "../pages", &["-o", "out/x.html"]),
        ("p.json", "../p.json", &["--format", "perfetto", "-o", "./sub/../p.json"]),
        ("t.json", "../t.json", &["--format", "json", "-o", "t.json"]),
    ] {
        let outside = place.root();
        fs::create_dir_all(outside.join("pages")).unwrap();
        fs::write(outside.join("empty.html"), "").unwrap();
        fs::copy(place.work().join("old.html"), outside.join("old.html")).unwrap();
        let before = listing(&outside);
        let link = place.work().join(name);
        std::os::unix::fs::symlink("../page.html", place.work().join("link.html")).unwrap();
        std::os::unix::fs::symlink(target, &link).unwrap();
        let refused = trace(&place, flags).exits(42);
        assert!(refused.stderr.contains("leads out of this directory by a link"), "{refused:?}");
        assert_eq!(listing(&outside), before, "{name} {target}");
        fs::remove_file(link).unwrap();
        fs::remove_file(place.work().join("link.html")).unwrap();
    }
    // From a directory below the root, up to the repository's link.
    std::os::unix::fs::symlink("../page.html", place.work().join("trace.html")).unwrap();
    let below = place.tine(["trace", ID, "-o", "../trace.html"]).at(&place.work().join("sub"));
    below.run().exits(42);
    assert!(!place.root().join("page.html").exists());
    fs::remove_file(place.work().join("trace.html")).unwrap();
    // A link that stays in the repository is followed, and a file elsewhere may be named.
    std::os::unix::fs::symlink("sub/page.html", place.work().join("trace.html")).unwrap();
    place.write("sub/page.html", "");
    trace(&place, &[]).exits(0);
    assert!(place.read("sub/page.html").expect("it is there").starts_with("<!doctype html>"));
    let named = place.root().join("named.html");
    trace(&place, &["-o", named.to_str().unwrap()]).exits(0);
    assert!(named.exists());
}

#[test]
fn a_link_of_the_users_own_is_followed_if_the_user_names_it() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    batch(&place);
    let git = |words: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
        let mut git = std::process::Command::new("git");
        let done = git.args(identity).args(words).current_dir(place.work()).output().unwrap();
        assert!(done.status.success(), "{words:?}");
    };
    git(&["init", "-q"]);
    symlink("../brought.html", place.work().join("brought.html")).unwrap();
    git(&["add", "brought.html"]);
    git(&["commit", "-qm", "it"]);
    fs::create_dir_all(place.root().join(".config")).unwrap();
    fs::create_dir_all(place.root().join("pages")).unwrap();
    executable(&place.root().join("program"), "");
    for (link, target) in [
        ("own.html", "../own-report.html"),
        ("again.html", "own.html"),
        ("there", "../pages"),
        ("trace.html", "../default.html"),
        ("hidden.html", "../.config/page.html"),
        ("rc.html", "../.profile"),
        ("program.html", "../program"),
        ("through.html", "brought.html"),
    ] {
        symlink(target, place.work().join(link)).unwrap();
    }
    for (output, written) in [
        ("own.html", "own-report.html"),
        ("again.html", "own-report.html"),
        ("there/page.html", "pages/page.html"),
    ] {
        trace(&place, &["-o", output]).exits(0);
        let file = place.root().join(written);
        assert!(fs::read_to_string(&file).unwrap().starts_with("<!doctype html>"), "{output}");
        fs::remove_file(file).unwrap();
        assert!(place.work().join("own.html").is_symlink());
    }
    for (flags, why) in [
        (&["-o", "brought.html"][..], "the repository has brought that link along"),
        (&["-o", "through.html"], "the repository has brought that link along"),
        (&[], "only a link to a file that you name is followed"),
        (&["-o", "hidden.html"], "links to hidden files are not followed"),
        (&["-o", "rc.html"], "links to hidden files are not followed"),
        (&["-o", "program.html"], "links to programs are not followed"),
    ] {
        let before = listing(&place.root());
        let refused = trace(&place, flags).exits(42);
        assert!(refused.stderr.contains(why), "{flags:?}: {refused:?}");
        assert_eq!(listing(&place.root()), before, "{flags:?}");
    }
}

#[test]
fn a_link_that_an_agent_makes_of_the_file_for_the_last_message_is_not_followed() {
    let place = Place::new();
    let command = "ln -s ../outside.md last.md";
    let call = json!({ "name": "Bash", "arguments": { "command": command } });
    let script = json!({ "units": { "main": [{ "calls": [call] }, { "text": "the last" }] } });
    let flags = ["--output-last-message", "last.md", "--allowed-tools", "Bash"];
    let finished = place.play(&script, &flags);
    assert!(place.work().join("last.md").is_symlink(), "{finished:?}");
    assert!(
        finished.stderr.contains("it has become a link to another file meanwhile"),
        "{finished:?}"
    );
    assert!(!place.root().join("outside.md").exists());
}

/// What is in a directory beside the places of a test, and how long each file is.
fn listing(directory: &Path) -> BTreeSet<(PathBuf, u64)> {
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("the place is ours").path();
        let length = path.metadata().map_or(0, |file| if file.is_file() { file.len() } else { 0 });
        (path, length)
    };
    let read = |path: &Path| fs::read_dir(path).expect("the place is ours").map(entry);
    read(directory).chain(read(&directory.join("pages"))).collect()
}

#[test]
fn a_page_is_a_file_for_the_user_alone_and_replaces_only_traces() {
    let place = Place::new();
    batch(&place);
    let finished = trace(&place, &[]).exits(0);
    let said = format!("the trace of session {ID} is in `trace.html`\n");
    assert_eq!((&*finished.stdout, &*finished.stderr), ("", &*said));
    let page = place.read("trace.html").expect("it was written");
    assert!(page.starts_with("<!doctype html>\n<!-- tine-trace 1 -->"));
    assert!(page.contains(r"a is done \u003c/script>") && !page.contains("a is done </script>"));
    let mode = fs::metadata(place.work().join("trace.html")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Again, by the beginning of its id, and in other forms.
    trace(&place, &["0199a", "-o", "trace.html"]).exits(0);
    assert_eq!(trace(&place, &[ID, "-o", "-"]).exits(0).stdout, page);
    trace(&place, &["--format", "perfetto", "-o", "p.json"]).exits(0);
    trace(&place, &["--format", "json", "-o", "p.json"]).exits(0);
    let kept = place.read("p.json").expect("it was written");
    assert_eq!(serde_json::from_str::<Value>(&kept).unwrap()["format"], "tine-trace");

    place.write("mine.html", "<p>mine</p>");
    trace(&place, &["-o", "mine.html"]).refuses(
        42,
        "error: `mine.html` is there already, and is no trace\n\
         hint: name another file with `--output`, or remove that one first\n",
    );
    assert_eq!(place.read("mine.html").as_deref(), Some("<p>mine</p>"));
    fs::create_dir(place.work().join("pages")).unwrap();
    let said = "error: `pages` is a directory\nhint: name a file in it\n";
    trace(&place, &["-o", "pages"]).refuses(42, said);
    let nowhere = trace(&place, &["-o", "no/where.html"]).exits(42);
    assert!(nowhere.stderr.starts_with("error: cannot write `no/where.html`: "), "{nowhere:?}");
}

#[test]
fn a_session_that_is_not_there_is_refused() {
    let place = Place::new();
    let said = "error: no session `zzz`\nhint: `tine sessions` lists all of them\n";
    trace(&place, &["zzz"]).refuses(42, said);
    let work = place.work();
    let hint = "hint: `tine sessions` lists all of them; `tine trace ID` takes any\n";
    let said = format!("error: there is no session of {}\n{hint}", work.display());
    trace(&place, &[]).refuses(42, &said);
    let said = format!("error: no session runs in {}\n{hint}", work.display());
    trace(&place, &["--follow"]).refuses(42, &said);
    assert_eq!(place.read("trace.html"), None);
    batch(&place);
    trace(&place, &["--follow", ID]).refuses(
        42,
        &format!(
            "error: session `{ID}` does not run\n\
             hint: without `--follow` its page is written to a file\n"
        ),
    );
    trace(&place, &["--follow", "-o", "x.html"]).exits(2);
    trace(&place, &["--format", "pdf"]).exits(2);
}

/// What happens in each branch, and to how many.
fn meetings(trace: &Value) -> Vec<(&str, usize)> {
    let branches = trace["branches"].as_array().expect("there are branches").iter();
    branches
        .map(|it| {
            let kind = it["kind"].as_str().expect("a kind is a word");
            (kind, it["children"].as_array().expect("children are listed").len())
        })
        .collect()
}

#[test]
fn a_step_goes_on_where_its_flow_is_and_those_side_by_side_part_in_one_place() {
    let place = Place::new();
    let step = |name: &str| format!("name = \"{name}\"\nprompt = \"x\"\n");
    let side = |name: &str| format!("[[step.parallel]]\n{}", step(name));
    let flow = format!("[[step]]\n{}[[step]]\n{}{}", step("a"), side("b"), side("c"));
    place.write("flow.toml", &flow);
    let model = place.script("script.json", &json!({ "units": { "*": [{ "text": "y" }] } }));
    let run = ["flow", "run", "flow.toml", "-m", &model, "--session-id", ID];
    place.tine(run).run().exits(0);
    let expected = [("step", 1), ("join", 1), ("split", 2), ("join", 2)];
    assert_eq!(meetings(&json_of(&place)), expected);
}

#[test]
fn branches_of_a_real_review_part_where_its_steps_do() {
    let (repository, server) = (review_flow::repository(), review_flow::provider());
    let flags = ["review", "-m", "m", "--effort", "low", "--session-id", ID];
    repository.place.tine(flags).server(&server).run().exits(0);
    let trace = json_of(&repository.place);
    let mut told = meetings(&trace);
    // Two angles, a part for each, and verifiers: one place for all of them.
    told.sort_unstable();
    let (parted, joined) = ([1, 1, 2, review_flow::FILES], told.split_off(4));
    assert_eq!(told, joined.iter().map(|(_, count)| ("join", *count)).collect::<Vec<_>>());
    assert_eq!(joined, parted.map(|count| ("split", count)));
}

#[test]
fn the_json_tells_units_spans_branches_and_what_determined_the_end() {
    let place = Place::new();
    batch(&place);
    let trace = json_of(&place);
    let units = trace["units"].as_array().expect("there are units");
    let told: Vec<(&str, &str)> = units
        .iter()
        .map(|unit| (unit["description"].as_str().unwrap(), unit["state"].as_str().unwrap()))
        .collect();
    let expected = [("", "completed"), ("a", "completed"), ("b", "failed"), ("c", "completed")];
    assert_eq!(told, expected);
    assert_eq!((&units[2]["failure"], &units[3]["slot"]), (&json!("max_turns"), &json!([3, 3])));
    assert_eq!(units[3]["doing"][0][0], "queued");
    let branches = trace["branches"].as_array().expect("there are branches");
    let told: Vec<String> = branches
        .iter()
        .map(|it| format!("{} {}", it["kind"].as_str().unwrap(), it["children"]))
        .collect();
    let all = r#"["agent-1","agent-2","agent-3"]"#;
    assert_eq!(told, [format!("split {all}"), format!("join {all}")]);
    // The one permit goes round, so the path goes through the last.
    let prompt = &trace["prompts"][0];
    let path = prompt["path"].as_array().expect("there is a path");
    let legs: u64 = path
        .iter()
        .map(|leg| leg["to_ms"].as_u64().unwrap() - leg["from_ms"].as_u64().unwrap())
        .sum();
    assert_eq!(Some(legs), prompt["took_ms"].as_u64());
    // What the page adds up is what `session usage` says.
    let usage = place.tine(["session", "usage", ID, "--json"]).run().exits(0).stdout;
    let usage: Value = serde_json::from_str(&usage).expect("it is JSON");
    let requests: u64 = units.iter().map(|unit| unit["spent"]["requests"].as_u64().unwrap()).sum();
    assert_eq!(Some(requests), usage["total"]["requests"].as_u64(), "{usage}");
}

#[test]
fn every_field_of_the_json_is_told_by_its_document() {
    fn fields(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(all) => all.iter().for_each(|(name, value)| {
                found.insert(name.clone());
                fields(value, found);
            }),
            Value::Array(all) => all.iter().for_each(|value| fields(value, found)),
            _ => {}
        }
    }
    let place = Place::new();
    batch(&place);
    let mut found = BTreeSet::new();
    fields(&json_of(&place), &mut found);
    let untold: Vec<_> =
        found.iter().filter(|name| !DOCUMENT.contains(&format!("`{name}`"))).collect();
    assert!(untold.is_empty() && found.len() > 60, "{untold:?}");
}

#[test]
fn chrome_gets_a_process_for_each_agent() {
    let place = Place::new();
    batch(&place);
    let file = trace(&place, &["--format", "perfetto"]).exits(0).stdout;
    let file: Value = serde_json::from_str(&file).expect("it is JSON");
    let events = file["traceEvents"].as_array().expect("there are events");
    let names: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "process_name")
        .filter_map(|event| event["args"]["name"].as_str())
        .collect();
    let expected = ["main", "agent-1 a (explore)", "agent-2 b (explore)", "agent-3 c (explore)"];
    assert_eq!(names, expected);
    let count = |ph: &str| events.iter().filter(|event| event["ph"] == ph).count();
    // An arrow to each agent and one back.
    assert_eq!((count("s"), count("f")), (6, 6));
    assert!(events.iter().all(|event| event["ts"].is_u64() && event["pid"].is_u64()));
}

#[test]
fn lines_that_cannot_be_read_are_told_and_hide_nothing() {
    let place = Place::new();
    batch(&place);
    let path = place.sessions().remove(0).join("log.jsonl");
    let log = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("???\n{log}{{\"torn")).unwrap();
    let finished = trace(&place, &[ID, "--format", "json"]).exits(0);
    assert_eq!(finished.stderr.lines().count(), 2, "{}", finished.stderr);
    let trace: Value = serde_json::from_str(&finished.stdout).expect("it is JSON");
    assert_eq!((&trace["bad_lines"], trace["units"].as_array().unwrap().len()), (&json!(2), 4));
}

/// A run that waits for its model, and the server of its page.
fn followed(place: &Place) -> (Server, Running, Running, String) {
    let server = serve(|_| Reaction::Hang);
    let run = place.asking(&server, &["--session-id", ID]).start();
    server.wait_until_came(1);
    let mut follow = place.tine(["trace", "--follow"]).start();
    let url = follow.read_line().trim_end().to_owned();
    (server, run, follow, url)
}

/// Asks for something and returns the whole answer.
fn asked(port: &str, target: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_run_is_served_to_who_has_its_token_and_ends_with_it() {
    let place = Place::new();
    let (_server, run, follow, url) = followed(&place);
    let (host, query) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let port = host.strip_prefix("127.0.0.1:").expect("it is on loopback");
    let page = asked(port, &format!("/{query}"), host);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{}", &page[..200]);
    assert!(page.contains("connect-src 'self'; ") && page.contains("\"is_live\":true"));
    for (target, host) in [
        ("/", host),
        ("/changes?after=0", host),
        ("/?token=0", host),
        (&*format!("/{query}"), "attacker.example"),
        (&*format!("/{query}"), &*format!("attacker.example:{port}")),
    ] {
        let answer = asked(port, target, host);
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{target} {host}: {answer}");
        assert!(!answer.contains("tine-trace"));
    }
    let changes = |after: u64| -> Value {
        let answer = asked(port, &format!("/changes{query}&after={after}"), host);
        let (head, body) = answer.split_once("\r\n\r\n").expect("it has a body");
        assert!(head.contains("Content-Type: application/json"), "{head}");
        serde_json::from_str(body).expect("it is JSON")
    };
    let so_far = changes(0);
    let last = so_far["last_event"].as_u64().unwrap();
    assert_eq!(changes(last)["spans"], json!([]));
    run.signal(Signal::SIGTERM);
    assert_eq!(run.wait().status.code(), Some(143));
    let rest = changes(last);
    assert_eq!(
        (&rest["is_live"], &rest["prompts"][0]["state"]),
        (&json!(false), &json!("cancelled"))
    );
    // It was told that the run is over, so nobody is waited for.
    follow.wait().exits(0);
    assert!(TcpStream::connect(format!("127.0.0.1:{port}")).is_err());
}

#[test]
fn an_interrupt_ends_the_server_and_not_the_run() {
    let place = Place::new();
    let (_server, run, follow, url) = followed(&place);
    assert!(url.starts_with("http://127.0.0.1:"));
    follow.signal(Signal::SIGINT);
    let finished = follow.wait().exits(130);
    assert_eq!(
        finished.stderr,
        format!("session {ID}, for as long as it runs; Ctrl-C ends this:\n")
    );
    run.signal(Signal::SIGTERM);
    run.wait().exits(143);
}
