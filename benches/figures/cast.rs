//! The recording in the README: a chat with the scripted model, typed by this
//! program and kept as it came, as a cast of asciinema and as a picture.
//!
//! Everything but the model's words is real: the program, its agents, their
//! calls, the question, the times.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::clock;
use crate::program::{self, Place};
use crate::svg::{self, Still};
use crate::terminal::screen::Screen;
use crate::terminal::{SIZE, Sitting, row_of_line};

/// The argument that has it recorded.
pub(crate) const ARGUMENT: &str = "cast";

/// What the model says.
const SCRIPT: &str = include_str!("cast.json");

/// Where that lies, from the directory that is worked in.
const SCRIPT_FILE: &str = "../review.json";

/// What is typed.
const PROMPT: &str = "review my change from eight sides at once";

/// What the picture is of, for those who do not see it.
const ABOUT: &str = "tine reviews a change with eight agents at once: six run and two wait, one \
                     asks before it runs a command, one is followed, and the report comes last";

/// The files of the repository, as they are committed and as they are changed.
const FILES: [(&str, &str, &str); 3] = [
    (
        "src/orders.py",
        include_str!("../../src/cli/demo/before/orders.py"),
        include_str!("../../src/cli/demo/after/orders.py"),
    ),
    (
        "src/report.js",
        include_str!("../../src/cli/demo/before/report.js"),
        include_str!("../../src/cli/demo/after/report.js"),
    ),
    (
        "src/totals.rs",
        include_str!("../../src/cli/demo/before/totals.rs"),
        include_str!("../../src/cli/demo/after/totals.rs"),
    ),
];

/// What the agent that asks wants to run.
const AUDIT: &str = "echo '2 packages looked at, none with a known flaw'\n";

/// From one key to the next of somebody who types.
const KEY: Duration = Duration::from_millis(55);

/// Records `docs/chat.cast` and `docs/chat.svg`.
pub(crate) fn record() {
    let place = Place::new();
    let shop = make(&place);
    let mut command = program::command_on_terminal(&place);
    command
        .env("COLORTERM", "truecolor")
        .current_dir(shop)
        .args(["-m", &format!("scripted:{SCRIPT_FILE}")])
        .args(["--config", "agents.max_concurrent=6"]);
    let mut sitting = Sitting::start(command);
    let stills = play(&mut sitting);
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let write = |name: &str, text: String| {
        std::fs::write(docs.join(name), text).expect("the repository can be written to");
    };
    write("chat.cast", cast(&sitting));
    // The one that says most by itself.
    write("chat.svg", svg::draw(&stills, 1, ABOUT));
}

/// Plays the scene; returns its telling moments.
fn play(sitting: &mut Sitting) -> Vec<Still> {
    let has = |text: &'static str| {
        move |screen: &Screen| screen.shown().iter().any(|row| row.contains(text))
    };
    let mut stills = Vec::new();
    sitting.wait_until("the first prompt", |screen| row_of_line(screen).is_some());
    pause(sitting, 900);
    for letter in PROMPT.chars() {
        sitting.keys(&letter.to_string());
        sitting.watch_until(clock::now() + KEY);
    }
    pause(sitting, 400);
    sitting.keys("\r");
    sitting.wait_until("agents that wait", has("queued 2nd"));
    pause(sitting, 1_900);
    stills
        .push(Still::of(&sitting.screen, "eight agents under a cap of six: two wait for a place"));
    sitting.wait_until("a question", has("y once"));
    pause(sitting, 1_800);
    stills.push(Still::of(&sitting.screen, "one of them asks; the others go on"));
    sitting.keys("y");
    pause(sitting, 900);
    sitting.keys("2");
    pause(sitting, 500);
    sitting.keys("\r");
    sitting.wait_until("a strand", has("--- 2 "));
    pause(sitting, 3_300);
    stills.push(Still::of(&sitting.screen, "one of them followed, as it writes"));
    sitting.keys("\u{1b}");
    sitting.wait_until("the report", has("What was checked"));
    sitting.wait_until("the end", has("/help"));
    pause(sitting, 2_500);
    stills.push(Still::of(&sitting.screen, "every answer came home, in order"));
    stills
}

fn pause(sitting: &mut Sitting, milliseconds: u64) {
    sitting.watch_until(clock::now() + Duration::from_millis(milliseconds));
}

/// Returns what was shown as a cast of asciinema, version 2.
fn cast(sitting: &Sitting) -> String {
    let head = json!({
        "version": 2,
        "width": SIZE.columns,
        "height": SIZE.rows,
        "title": "tine: eight agents review a change",
        "env": { "TERM": "xterm-256color" },
    });
    let mut lines = format!("{head}\n");
    let mut begun: Vec<u8> = Vec::new();
    for (at, bytes) in &sitting.taken {
        begun.extend(bytes);
        // A character may have come in two halves.
        let whole = match std::str::from_utf8(&begun) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let text: Vec<u8> = begun.drain(..whole).collect();
        let text = String::from_utf8(text).expect("it was looked at");
        let seconds = (*at - sitting.started).as_millis();
        let seconds = f64::from(u32::try_from(seconds).expect("it takes seconds")) / 1e3;
        lines.push_str(&format!("{}\n", json!([seconds, "o", text])));
    }
    lines
}

/// Makes the repository with a change in it, and the model's script beside it.
fn make(place: &Place) -> PathBuf {
    let shop = place.home().join("shop");
    std::fs::create_dir_all(shop.join("src")).expect("a new directory");
    std::fs::create_dir_all(shop.join("tools")).expect("a new directory");
    let write = |name: &str, text: &str| {
        std::fs::write(shop.join(name), text).expect("a new file");
    };
    FILES.iter().for_each(|(name, before, _)| write(name, before));
    write("tools/audit.sh", AUDIT);
    git(&shop, &["init", "--quiet"]);
    git(&shop, &["add", "."]);
    git(&shop, &["commit", "--quiet", "--message", "Begin the shop"]);
    FILES.iter().for_each(|(name, _, after)| write(name, after));
    write(SCRIPT_FILE, SCRIPT);
    shop
}

fn git(directory: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=tine", "-c", "user.email=tine@localhost"])
        .args(["-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "git {arguments:?} failed");
}
