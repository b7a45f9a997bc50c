//! What cannot be worked on: one line that says why, a hint where there is
//! something to do, and the right exit code.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;

use crate::support::repository::Repository;
use crate::support::server::Reaction;
use crate::support::talk::serve;
use crate::support::tine::Place;

fn committed() -> Repository {
    let repository = Repository::new();
    repository.write("a.rs", "fn a() {}\n");
    repository.commit("Begin");
    repository
}

#[test]
fn a_review_outside_a_repository_is_bad_input() {
    let place = Place::new();
    let said = format!("error: {} is not in a git repository\n", place.work().display());
    place.tine(["review"]).run().refuses(42, &said);
}

#[test]
fn a_review_of_an_unknown_branch_or_commit_is_bad_input() {
    let repository = committed();
    let said = "error: no branch or commit is named `nope`\n";
    repository.place.tine(["review", "--base", "nope"]).run().refuses(42, said);
    repository.place.tine(["review", "--commit", "nope"]).run().refuses(42, said);
    let said = "error: no branch or commit is named `--output=x`\n";
    repository.place.tine(["review", "--base=--output=x"]).run().refuses(42, said);
}

#[test]
fn a_review_of_what_a_shallow_clone_lacks_says_how_to_get_it() {
    let repository = committed();
    repository.git(&["checkout", "--quiet", "-b", "feature"]);
    repository.write("b.rs", "fn b() {}\n");
    let commit = repository.commit("Add b")[..10].to_owned();
    let (root, from) = (repository.place.root(), repository.place.work());
    let [clone, bare] = ["clone", "bare"].map(|name| root.join(name));
    let from = format!("file://{}", from.display());
    let to = clone.to_str().expect("the place has a plain name");
    repository.git(&["clone", "--quiet", "--depth", "1", &from, to]);
    let review =
        |flags: &[&str]| repository.place.tine(["review"].iter().chain(flags)).at(&clone).run();
    let said = format!(
        "error: the parent of commit `{commit}` is not here: the clone is shallow\n\
         hint: `git fetch --deepen=1` gets it; in CI, check out with `fetch-depth: 2` or `0`\n"
    );
    review(&[]).refuses(42, &said);
    review(&["--commit", "HEAD"]).refuses(42, &said);
    let typed = ["-p", "/review --commit HEAD", "-m", "offline"];
    let typed = repository.place.tine(typed).at(&clone).run().exits(42);
    assert!(typed.stderr.ends_with(&said), "{}", typed.stderr);
    let hash = "0123456789012345678901234567890123456789";
    for (flag, name) in [("--base", "HEAD~1"), ("--commit", "HEAD^"), ("--commit", hash)] {
        let said = format!(
            "error: no branch or commit is named `{name}`\n\
             hint: `git fetch --unshallow` gets the older commits; in CI, check out with \
             `fetch-depth: 0`\n"
        );
        review(&[flag, name]).refuses(42, &said);
    }
    let said = "error: no branch or commit is named `main`\n\
                hint: `git fetch origin main`, and then `--base FETCH_HEAD`\n";
    review(&["--base", "main"]).refuses(42, said);
    repository.git(&["-C", to, "fetch", "--quiet", "--deepen=1"]);
    review(&[]).exits(0);
    repository.git(&["-C", to, "fetch", "--quiet", "origin", "main:refs/remotes/origin/main"]);
    let said = "error: no branch or commit is named `main`\n\
                hint: `--base origin/main` is the branch as it was last fetched\n";
    review(&["--base", "main"]).refuses(42, said);
    review(&["--base", "origin/main"]).exits(0);
    let to = bare.to_str().expect("the place has a plain name");
    repository.git(&["clone", "--quiet", "--bare", &from, to]);
    let said = format!(
        "error: {to} is in no working tree of its git repository\n\
         hint: run it in a checkout: `git worktree add ../DIR` makes one\n"
    );
    repository.place.tine(["review"]).at(&bare).run().refuses(42, &said);
}

#[test]
fn a_review_of_nothing_is_bad_input() {
    let check = |repository: &Repository, flags: &[&str]| {
        let finished = repository.place.tine(["review"].iter().chain(flags)).run().exits(42);
        assert_eq!(finished.stdout, "");
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
        assert!(finished.stderr.starts_with("error: "), "{}", finished.stderr);
    };
    let repository = committed();
    check(&repository, &["--uncommitted"]);
    check(&repository, &["--base", "main"]);
    check(&Repository::new(), &[]);
}

#[test]
fn two_changes_at_once_are_a_usage_error() {
    let finished = committed().place.tine(["review", "--base", "main", "--commit", "x"]).run();
    assert!(finished.exits(2).stderr.contains("cannot be used with"));
}

#[test]
fn a_directory_to_work_in_that_is_not_there_is_bad_input() {
    let finished = Place::new().tine(["-p", "go", "-m", "offline", "-C", "none"]).run().exits(42);
    assert!(finished.stderr.starts_with("error: cannot work in `none`: "), "{}", finished.stderr);
}

#[track_caller]
fn check_config(text: &str, expected: &str) {
    let place = Place::new();
    let path = place.configure(text);
    let said = expected.replace("FILE", &path.display().to_string());
    place.tine(["-p", "go", "-m", "offline"]).run().refuses(52, &said);
}

#[test]
fn a_configuration_that_is_wrong_is_refused_with_file_line_key_and_hint() {
    check_config(
        "[agents]\n\nmax_concurent = 4\n",
        "error: unknown key `agents.max_concurent` in FILE, line 3\n\
         hint: did you mean `agents.max_concurrent`?\n",
    );
    check_config(
        "[agents]\nmax_depth = \"deep\"\n",
        "error: `agents.max_depth` is a string in FILE, line 2\n\
         hint: it must be a whole number\n",
    );
    check_config(
        "colour = 1\n[session]\npersist = 7\n",
        "error: unknown key `colour` in FILE, line 1\nhint: `config.example.toml` shows every key\n\
         error: `session.persist` is a whole number in FILE, line 3\nhint: it must be `true` or `false`\n",
    );
    check_config(
        "[permissions]\nmode = \"wild\"\n",
        "error: `permissions.mode` cannot be used in FILE, line 2\n\
         hint: it must be one of plan, default, dontAsk, acceptEdits, bypassPermissions\n",
    );
}

#[test]
fn a_configuration_that_is_no_toml_is_refused_with_its_line() {
    let place = Place::new();
    let path = place.configure("[agents]\nmax_depth = \n");
    let finished = place.tine(["-p", "go", "-m", "offline"]).run().exits(52);
    let start = format!("error: failed to parse {}, line 2: ", path.display());
    assert!(finished.stderr.starts_with(&start), "{}", finished.stderr);
}

#[test]
fn a_cap_below_one_becomes_one_with_a_warning() {
    for value in ["0", "-3"] {
        let flag = format!("agents.max_concurrent={value}");
        let finished =
            Place::new().tine(["-p", "go", "-m", "offline", "--config", &flag]).run().exits(0);
        let warning = finished.stderr.lines().next().unwrap_or_default();
        assert!(warning.starts_with("warning: "), "{}", finished.stderr);
        assert!(warning.contains("agents.max_concurrent") && warning.contains('1'), "{warning}");
    }
}

#[test]
fn a_script_that_is_not_there_is_a_bad_configuration() {
    let finished = Place::new().tine(["-p", "go", "-m", "scripted:none.json"]).run().exits(52);
    assert!(finished.stderr.starts_with("error: cannot read script `none.json`: "));
}

#[test]
fn an_unknown_flag_tool_or_rule_is_a_usage_error() {
    let run = |flags: &[&str]| {
        let place = Place::new();
        place.tine(["-p", "go", "-m", "offline"].iter().chain(flags)).run().exits(2).stderr
    };
    assert!(run(&["--nope"]).contains("--nope"));
    assert!(run(&["--tools", "Read,Nope"]).starts_with("error: there is no tool `Nope`\n"));
    assert!(run(&["--allowed-tools", "Bash(git"]).contains("`Bash(git`"));
    assert!(run(&["--permission-mode", "wild"]).contains("acceptEdits"));
}

#[test]
fn an_argument_that_is_no_utf_8_is_a_usage_error() {
    let arguments = [OsStr::new("-p"), OsStr::from_bytes(b"caf\xe9")];
    let finished = Place::new().tine(arguments).run().exits(2);
    assert!(finished.stderr.contains("UTF-8"), "{}", finished.stderr);
}

/// The reader goes away after the first record, while the run goes on.
#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let server = serve(|_| Reaction::call_reply(&[("Glob", json!({ "pattern": "*" }))]));
    let flags = ["--include-partial-messages", "--max-turns", "1000", "-o", "stream-json"];
    let place = Place::new();
    let (mut child, stdout) = started(place.asking(&server, &flags).into_command());
    let mut reader = BufReader::new(stdout);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.starts_with("{\"type\":\"system\""), "{line}");
    drop(reader);
    assert_eq!((child.wait().unwrap().code(), said(&mut child)), (Some(141), String::new()));
}

/// Nothing is written before the end, and the model never answers.
#[test]
fn a_run_ends_as_soon_as_nobody_can_read_its_output() {
    let place = Place::new();
    let script = json!({ "units": { "main": [{ "text": "late", "delay_ms": 3_600_000 }] } });
    let model = place.script("late.json", &script);
    for output in ["text", "json", "stream-json"] {
        let command = place.tine(["-p", "go", "-m", &model, "-o", output]).into_command();
        let (mut child, stdout) = started(command);
        drop(stdout);
        assert_eq!(child.wait().unwrap().code(), Some(141), "{output}");
    }
    let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = place.tine(["-p", "go", "-m", &model]).into_command();
    command.stdin(Stdio::null()).stdout(std::os::fd::OwnedFd::from(other)).stderr(Stdio::null());
    let mut child = command.spawn().expect("cargo has built the binary");
    drop((one, command));
    assert_eq!(child.wait().unwrap().code(), Some(141), "a socket");
}

fn started(mut command: Command) -> (Child, ChildStdout) {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("cargo has built the binary");
    let stdout = child.stdout.take().expect("it was piped");
    (child, stdout)
}

fn said(child: &mut Child) -> String {
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("it was piped");
    stderr.read_to_string(&mut said).expect("it is text");
    said
}

#[test]
fn a_list_whose_reader_goes_away_ends_quietly() {
    let place = Place::new();
    let script = json!({ "units": { "main": [{ "text": "word ".repeat(100_000) }] } });
    place.play(&script, &[]).exits(0);
    let [session] = &place.sessions()[..] else { panic!("one session") };
    let id = session.file_name().unwrap().to_str().unwrap();
    let mut command = place.tine(["session", "show", id]).into_command();
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}
