//! Sessions that are named, looked for, deleted, and grow old.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::support::server::Reaction;
use crate::support::talk::serve;
use crate::support::tine::Place;

const FIRST: &str = "0199a000-0000-7000-8000-000000000001";
const SECOND: &str = "0199b000-0000-7000-8000-000000000002";
const THIRD: &str = "0199b000-0000-7000-8000-000000000003";

/// Runs one prompt with an answer of its own, and returns the session.
fn kept(place: &Place, id: &str, prompt: &str, answer: &str) -> PathBuf {
    let script = json!({ "units": { "main": [{ "text": answer }] } });
    let model = place.script(&format!("{id}.json"), &script);
    place.tine(["-p", prompt, "-m", &model, "--session-id", id]).run().exits(0);
    let sessions = place.sessions();
    sessions.into_iter().find(|path| path.ends_with(id)).expect("the session is kept")
}

fn three(place: &Place) -> [PathBuf; 3] {
    [
        kept(place, FIRST, "find the retry logic", "It is in gate.rs."),
        kept(place, SECOND, "Größe des Puffers?", "The GATE holds 4."),
        kept(place, THIRD, "third", "nothing to say"),
    ]
}

/// The ids of a listing, in order.
fn ids(listing: &str) -> Vec<&str> {
    let lines = listing.lines().filter(|line| !line.starts_with(' '));
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

fn listed(place: &Place, arguments: &[&str]) -> String {
    place.tine(["sessions"].iter().chain(arguments)).run().exits(0).stdout
}

#[test]
fn a_name_is_kept_listed_and_found() {
    let place = Place::new();
    place.tine(["-p", "go", "-m", "offline", "-n", "  Nightly run "]).run().exits(0);
    let [session] = &place.sessions()[..] else { panic!("one session") };
    let file = session.join("name");
    assert_eq!(fs::read_to_string(&file).unwrap(), "Nightly run\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(listed(&place, &[]).ends_with("  [Nightly run] go\n"));
    let shown = place.tine(["session", "show", "nightly RUN"]).run().exits(0);
    assert!(shown.stdout.contains("invocation 1 done"), "{}", shown.stdout);
}

#[test]
fn a_name_that_is_none_is_refused_before_anything_is_begun() {
    let place = Place::new();
    let refuses = |name: &str, said: &str| {
        place.tine(["-p", "go", "-m", "offline", "--name", name]).run().refuses(42, said);
    };
    refuses(" ", "error: the session's name is empty\nhint: give it 1 to 80 characters\n");
    let control = "error: the session's name holds a line break or a control character\n\
                   hint: leave it out\n";
    refuses("a\nb", control);
    refuses("a\u{1b}[2Jb", control);
    refuses(&"é".repeat(81), "error: the session's name has 81 characters\nhint: it may have 80\n");
    assert_eq!(place.sessions(), Vec::<PathBuf>::new());
}

#[test]
fn a_session_that_is_not_kept_has_no_name() {
    let place = Place::new();
    let flags = ["-p", "go", "-m", "offline", "-n", "x", "--no-session-persistence"];
    let finished = place.tine(flags).run().exits(0);
    assert!(finished.stderr.starts_with("note: the session is not kept"), "{}", finished.stderr);
    assert_eq!(place.sessions(), Vec::<PathBuf>::new());
}

#[test]
fn a_session_is_renamed_and_loses_its_name() {
    let place = Place::new();
    three(&place);
    let rename = |id: &str, name: &str| place.tine(["sessions", "rename", id, name]).run();
    let said = rename("0199a", "alpha").exits(0);
    assert_eq!(
        (&*said.stdout, &*said.stderr),
        ("", &*format!("session {FIRST} is named `alpha`\n"))
    );
    rename("ALPHA", "beta").exits(0);
    assert!(listed(&place, &[]).contains("[beta] find"));
    rename("beta", "").exits(0);
    assert!(!listed(&place, &[]).contains('['));
    rename("beta", "x")
        .refuses(42, "error: no session `beta`\nhint: `tine sessions` lists all of them\n");
    let long = "the session's name has 100 characters";
    let refused = rename("0199a", &"x".repeat(100)).exits(42);
    assert!(refused.stderr.contains(long), "{}", refused.stderr);
}

#[test]
fn two_sessions_of_one_name_are_told_apart_by_their_ids() {
    let place = Place::new();
    three(&place);
    for id in [FIRST, SECOND] {
        place.tine(["sessions", "rename", id, "same"]).run().exits(0);
    }
    let said = format!(
        "error: `same` is the name of 2 sessions\n  {FIRST}\n  {SECOND}\n\
         hint: give the id, or the beginning of it\n"
    );
    place.tine(["session", "show", "same"]).run().refuses(42, &said);
    place.tine(["sessions", "delete", "same"]).run().refuses(42, &said);
    assert_eq!(place.sessions().len(), 3);
}

#[test]
fn a_listing_may_be_of_one_directory_and_short() {
    let place = Place::new();
    three(&place);
    let other = place.home().join("other");
    fs::create_dir(&other).unwrap();
    place.tine(["-p", "elsewhere", "-m", "offline"]).at(&other).run().exits(0);
    assert_eq!(ids(&listed(&place, &[])).len(), 4);
    assert_eq!(listed(&place, &["list", "--all"]), listed(&place, &[]));
    assert_eq!(ids(&listed(&place, &["list", "--here"])), [THIRD, SECOND, FIRST]);
    assert_eq!(ids(&listed(&place, &["--here", "--limit", "2"])), [THIRD, SECOND]);
    let empty = place.tine(["sessions", "--here"]).at(&place.home()).run().exits(0);
    assert_eq!(empty.stdout, "");
    assert!(empty.stderr.starts_with("no sessions of this directory"), "{}", empty.stderr);
}

#[test]
fn a_flag_of_the_list_before_another_command_is_a_usage_error() {
    let place = Place::new();
    place.tine(["sessions", "--here", "delete", "x"]).run().refuses(
        2,
        "error: flags of a list stand before another command\n\
         hint: put them behind it: `tine sessions list --here`\n",
    );
    place.tine(["sessions", "list", "--here", "--all"]).run().exits(2);
    place.tine(["sessions", "list", "--limit", "0"]).run().exits(2);
}

#[test]
fn a_listing_for_programs_is_one_object_a_line() {
    let place = Place::new();
    let [first, ..] = three(&place);
    place.tine(["sessions", "rename", FIRST, "alpha"]).run().exits(0);
    let listing = listed(&place, &["list", "--json"]);
    let records: Vec<Value> =
        listing.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |key: &str| records.iter().map(|record| record[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("id"), [THIRD, SECOND, FIRST]);
    assert_eq!(of("name"), [Value::Null, Value::Null, json!("alpha")]);
    assert_eq!(of("first_prompt"), ["third", "Größe des Puffers?", "find the retry logic"]);
    assert_eq!(of("cwd"), vec![json!(place.work()); 3]);
    assert_eq!(of("state"), ["ended"; 3]);
    let log = fs::read_to_string(first.join("log.jsonl")).unwrap();
    assert_eq!(records[2]["bytes"], log.len());
    let times: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records[2]["started_ms"], times[0]["at"]);
    assert_eq!(records[2]["last_activity_ms"], times.last().unwrap()["at"]);
}

#[test]
fn a_search_finds_what_was_said_in_any_case() {
    let place = Place::new();
    let [first, ..] = three(&place);
    let search = |words: &[&str]| place.tine(["sessions", "search"].iter().chain(words)).run();
    let found = search(&["gate"]).exits(0).stdout;
    assert_eq!(ids(&found), [SECOND, FIRST]);
    let excerpts: Vec<_> = found.lines().filter(|line| line.starts_with(' ')).collect();
    assert_eq!(excerpts, ["    The GATE holds 4.", "    It is in gate.rs."]);
    assert_eq!(ids(&search(&["GATE", "RETRY"]).exits(0).stdout), [FIRST]);
    assert_eq!(ids(&search(&["größe"]).exits(0).stdout), [SECOND]);
    assert_eq!(ids(&search(&["GRÖSSE"]).exits(0).stdout), [SECOND]);
    assert_eq!(ids(&search(&["retry logic", "0199a000"]).exits(0).stdout), [FIRST]);
    assert_eq!(ids(&search(&["gate", "--limit", "1"]).exits(0).stdout), [SECOND]);
    let record = search(&["puffers", "--json"]).exits(0).result();
    assert_eq!((&record["id"], &record["excerpt"]), (&json!(SECOND), &json!("Größe des Puffers?")));

    fs::write(first.join("log.jsonl"), b"gate\n\xff\n{\"kind\":\"replied\",\"gate").unwrap();
    assert_eq!(ids(&search(&["gate"]).exits(0).stdout), [SECOND]);
    let nothing = search(&["logic retry"]).exits(0);
    assert_eq!((&*nothing.stdout, &*nothing.stderr), ("", "no session holds all of these words\n"));
    search(&[" "]).refuses(
        42,
        "error: there is nothing to look for\nhint: name a word: `tine sessions search retry`\n",
    );
    search(&[]).exits(2);
}

#[test]
fn a_deleted_session_is_gone_with_all_that_belongs_to_it() {
    let place = Place::new();
    let [first, second, third] = three(&place);
    let outside = place.write("precious", "precious");
    symlink(&outside, first.join("link")).unwrap();
    symlink(place.work(), first.join("directory")).unwrap();
    fs::create_dir_all(first.join("deep/er")).unwrap();
    let finished = place.tine(["sessions", "delete", FIRST]).run().exits(0);
    assert_eq!(finished.stdout, format!("deleted {FIRST}\n"));
    assert!(!first.exists() && second.exists() && third.exists());
    assert_eq!(place.read("precious").as_deref(), Some("precious"));

    place.tine(["sessions", "delete", SECOND, THIRD]).run().exits(0);
    let project = second.parent().unwrap();
    assert!(!project.exists(), "the project has no session left");
    kept(&place, FIRST, "again", "and again");
}

/// The third prefix fits two sessions, and only one once the first is gone.
#[test]
fn each_session_to_delete_is_judged_by_itself() {
    let place = Place::new();
    let [first, second, third] = three(&place);
    let finished =
        place.tine(["sessions", "delete", SECOND, "nope", "0199b", FIRST, FIRST]).run().exits(42);
    assert_eq!(finished.stdout, format!("deleted {SECOND}\ndeleted {FIRST}\n"));
    let said = format!(
        "error: no session `nope`\nhint: `tine sessions` lists all of them\n\
         error: `0199b` could be any of 2 sessions\n  {SECOND}\n  {THIRD}\n\
         hint: give more of the id\n"
    );
    assert_eq!(finished.stderr, said);
    assert!(!first.exists() && !second.exists() && third.exists());
}

#[test]
fn a_session_that_runs_is_named_and_shown_but_not_deleted() {
    let place = Place::new();
    let server = serve(|_| Reaction::Hang);
    let running = place.asking(&server, &["--session-id", FIRST]).start();
    server.wait_until_came(1);
    assert!(listed(&place, &[]).contains("  running  "));
    place.tine(["sessions", "rename", FIRST, "alpha"]).run().exits(0);
    let shown = place.tine(["session", "show", "alpha"]).run().exits(0);
    assert!(
        shown.stdout.ends_with("\nrunning: the main conversation is at work\n"),
        "{}",
        shown.stdout
    );
    let said = format!(
        "error: session `{FIRST}` is running, in process {}\nhint: end it, and delete it then\n",
        running.id()
    );
    place.tine(["sessions", "delete", FIRST]).run().refuses(42, &said);
    assert_eq!(place.sessions().len(), 1);
    running.signal(nix::sys::signal::Signal::SIGKILL);
    assert_eq!(running.wait().status.code(), None);
    place.tine(["sessions", "delete", FIRST]).run().exits(0);
    assert_eq!(place.sessions(), Vec::<PathBuf>::new());
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Makes a session look as if it had last been used so many days ago.
fn age(session: &Path, days: u32) {
    let then = SystemTime::now() - DAY * days;
    let at = then.duration_since(UNIX_EPOCH).expect("it is later than 1970").as_secs() * 1_000;
    let path = session.join("log.jsonl");
    let log = fs::read_to_string(&path).expect("a session has a log");
    let lines = log.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).expect("a line is JSON");
        line["at"] = json!(at);
        line.to_string() + "\n"
    });
    fs::write(&path, lines.collect::<String>()).expect("the place can be written");
    let opened = File::options().append(true).open(&path);
    opened.and_then(|log| log.set_modified(then)).expect("the place can be written");
}

#[test]
fn old_sessions_without_a_name_are_pruned() {
    let place = Place::new();
    let [first, second, third] = three(&place);
    age(&first, 40);
    age(&second, 40);
    age(&third, 20);
    place.tine(["sessions", "rename", SECOND, "keep"]).run().exits(0);
    let prune = |flags: &[&str]| place.tine(["sessions", "prune"].iter().chain(flags)).run();

    let would = prune(&["--older-than", "30", "--dry-run"]).exits(0);
    assert_eq!((ids(&would.stdout), &*would.stderr), (vec![FIRST], "1 session would be deleted\n"));
    assert!(first.exists());
    let pruned = prune(&["--older-than", "30"]).exits(0);
    assert_eq!(
        (&*pruned.stdout, &*pruned.stderr),
        (&*format!("deleted {FIRST}\n"), "1 session deleted\n")
    );
    assert!(!first.exists() && second.exists() && third.exists());

    place.configure("[session]\nmax_age_days = 30\n");
    assert_eq!(prune(&[]).exits(0).stdout, "");
    assert_eq!(
        prune(&["--config", "session.max_age_days=10"]).exits(0).stdout,
        format!("deleted {THIRD}\n")
    );
    assert!(second.exists());
}

#[test]
fn how_old_is_too_old_must_be_said() {
    let place = Place::new();
    place.tine(["sessions", "prune"]).run().refuses(
        2,
        "error: nothing says how old is too old\n\
         hint: say it: `--older-than DAYS`, or `session.max_age_days` in `config.toml`\n",
    );
    place.tine(["sessions", "prune", "--older-than", "0"]).run().exits(2);
    let path = place.configure("[session]\nmax_age_days = -1\n");
    let said = format!(
        "error: `session.max_age_days` cannot be used in {}, line 2\nhint: it must be from 0 to {}\n",
        path.display(),
        u32::MAX
    );
    place.tine(["-p", "go", "-m", "offline"]).run().refuses(52, &said);
}

/// The run itself waits until the old session is gone, so nobody else has to.
#[test]
fn a_run_removes_what_is_too_old_beside_its_work() {
    let place = Place::new();
    let [first, second, third] = three(&place);
    age(&first, 40);
    age(&second, 40);
    place.tine(["sessions", "rename", SECOND, "keep"]).run().exits(0);
    let command = format!("until test ! -e '{}'; do :; done", first.display());
    let script = json!({ "units": { "main": [
        { "calls": [{ "name": "Bash", "arguments": { "command": command } }] },
        { "text": "gone" },
    ] } });
    let flags = ["--permission-mode", "bypassPermissions", "--config", "session.max_age_days=30"];
    let finished = place.play(&script, &flags).exits(0);
    assert_eq!(finished.stdout, "gone\n");
    assert!(!first.exists() && second.exists() && third.exists());
}
