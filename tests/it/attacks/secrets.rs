//! Keys: what a run says, keeps and starts holds none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::server::Reaction;
use crate::support::talk::serve_calls;
use crate::support::tine::Place;

const KEY: &str = "sk-canary-5a0c7f31";

/// Whoever runs the tests as root has them look as somebody else: root reads
/// everything.
const NOBODY: &str = "65534";

/// Commands that look for the key where it can be.
const LOOKS: [&str; 5] = [
    "env",
    "cat /proc/self/environ",
    "cat /proc/$PPID/environ; cat /proc/[0-9]*/environ",
    "cat /proc/[0-9]*/cmdline",
    "grep -a canary /proc/$PPID/maps /proc/$PPID/mem",
];

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("the directory can be listed");
    let paths = entries.map(|entry| entry.expect("the directory can be listed").path());
    paths
        .flat_map(|path| {
            let below = if path.is_dir() { files_below(&path) } else { Vec::new() };
            std::iter::once(path).chain(below)
        })
        .collect()
}

fn holds_the_key(bytes: &[u8]) -> bool {
    bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes())
}

#[test]
fn a_key_is_in_no_output_no_file_and_no_command() {
    let own = std::env::temp_dir();
    let found = Command::new("bash").args(["-c", LOOKS[0]]).env("M_KEY", KEY).output().unwrap();
    assert!(holds_the_key(&found.stdout), "a command sees its environment, in {}", own.display());

    let place = Place::new();
    let calls = LOOKS.map(|command| ("Bash", json!({ "command": command })));
    // Providers quote the key in what they say of it.
    let server = serve_calls(&calls, |_| {
        Reaction::status(400, "text/plain", format!("the key {KEY} is no good"))
    });
    place.configure(&format!(
        "[models.m]\nbase_url = \"{}\"\nkey_env = \"M_KEY\"\nheaders = {{ X-Team = \"{KEY}\" }}\n",
        server.base_url()
    ));
    let flags =
        ["-p", "go", "-m", "m", "--allowed-tools", "Bash", "--debug=trace", "-o", "stream-json"];
    let records = place.root().join("records.jsonl");
    let to_file = ["--json-file", records.to_str().unwrap(), "--config", "retry.most=0"];
    let mut tine = place.tine(flags.iter().chain(&to_file)).env("M_KEY", KEY);
    if nix::unistd::Uid::effective().is_root() {
        let given = Command::new("chown").args(["-R", NOBODY]).arg(place.root()).status();
        assert!(given.unwrap().success());
        tine = tine.by("setpriv", ["--reuid", NOBODY, "--clear-groups"]);
    }
    let finished = tine.run();
    let requests = server.finish();
    assert_eq!(requests[0].header("authorization"), Some(&*format!("Bearer {KEY}")));
    let last = requests.last().expect("the commands were run");
    assert!(!holds_the_key(&last.body), "{}", String::from_utf8_lossy(&last.body));
    assert!(String::from_utf8_lossy(&last.body).contains("HOME="), "they were run");
    for said in [&finished.stdout, &finished.stderr] {
        assert!(!holds_the_key(said.as_bytes()), "{said}");
    }
    let configured = place.home().join(".config");
    for path in files_below(&place.root()).into_iter().filter(|path| path.is_file()) {
        let is_whole = path.starts_with(&configured) || !holds_the_key(&fs::read(&path).unwrap());
        assert!(is_whole, "{} holds the key", path.display());
    }
    let state = place.home().join(".local/state/tine");
    for path in files_below(&state) {
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        let private = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, private, "{}", path.display());
    }
}

#[test]
fn no_link_of_a_repository_sends_a_file_of_the_user() {
    let text = format!("---\nname: leak\ndescription: d\n---\n{KEY}\n");
    for (link, target) in [
        (".claude/commands/leak.md", "file.md"),
        (".tine/commands/deep/leak.md", "file.md"),
        (".claude/skills/leak/SKILL.md", "file.md"),
        (".agents/skills/leak", "directory"),
        (".claude/commands", "directory"),
        (".claude/agents/leak.md", "file.md"),
        (".claude/agents", "directory"),
    ] {
        for is_outside in [true, false] {
            let place = Place::new();
            let top = if is_outside { place.home() } else { place.work().join("own") };
            fs::create_dir_all(top.join("directory")).expect("the place is ours");
            for name in ["file.md", "directory/leak.md", "directory/SKILL.md"] {
                fs::write(top.join(name), &text).expect("the place is ours");
            }
            let link = place.work().join(link);
            fs::create_dir_all(link.parent().expect("it is below")).expect("the place is ours");
            std::os::unix::fs::symlink(top.join(target), &link).expect("the place is ours");
            let task = json!({ "description": "t", "prompt": "t", "subagent_type": "leak" });
            let server = serve_calls(&[("Agent", task)], |_| Reaction::text_reply("seen"));
            let is_agent =
                link.to_string_lossy().contains("agents/leak") || link.ends_with(".claude/agents");
            let prompt = if is_agent { "go" } else { "/leak" };
            let asking = ["-p", prompt, "-m", "m", "--config", "retry.most=0"];
            let finished = place.tine(asking).server(&server).run();
            let is_sent = server.finish().iter().any(|request| holds_the_key(&request.body));
            assert_eq!(is_sent, !is_outside, "{} {finished:?}", link.display());
            let is_told = finished.stderr.contains("leads out of the repository");
            assert_eq!(is_told, is_outside, "{} {finished:?}", link.display());
        }
    }
}
