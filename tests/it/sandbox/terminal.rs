//! No command has the terminal of tine: neither what is typed there nor what it shows.

use serde_json::{Value, json};

use crate::support::mounts::{HIDE_BWRAP, can_mount};
use crate::support::records::Records;
use crate::support::terminal::{Sitting, StandardOutput};
use crate::support::tine::{Place, Tine};

/// Ways to a terminal. Each writes `LEAK` to it, or says `GOT` if it has opened it.
const WAYS: [&str; 7] = [
    "printf LEAK >/dev/tty && echo GOT",
    "exec 3<>/dev/tty && printf LEAK >&3 && echo GOT",
    "read -r x </dev/tty && echo GOT",
    "setsid -c sh -c 'printf LEAK >/dev/tty && echo GOT'",
    "stty -F /dev/tty raw && echo GOT",
    "python3 -c 'import os; os.write(os.open(\"/dev/tty\", 2), b\"LEAK\"); print(\"GOT\")'",
    "sh -c 'exec >/dev/tty; echo LEAK' && echo GOT",
];

/// A run on a terminal whose commands try all of them.
fn run(place: &Place, flags: &[&str]) -> Tine {
    let call = |way: &&str| {
        let command = format!("({way}) 2>&1; echo END");
        json!({ "calls": [{ "name": "Bash", "arguments": { "command": command } }] })
    };
    let mut turns: Vec<Value> = WAYS.iter().map(call).collect();
    turns.push(json!({ "text": "done" }));
    let model = place.script("script.json", &json!({ "units": { "main": turns } }));
    let always = ["-p", "go", "-m", &model, "-o", "stream-json"];
    place.tine(always.iter().chain(flags))
}

#[track_caller]
fn check(tine: Tine) {
    let mut sitting = Sitting::answer(tine, StandardOutput::Pipe);
    let (code, stdout) = sitting.wait();
    assert_eq!(code, Some(0), "{stdout}");
    let outputs = Records::parse(&stdout).outputs();
    assert_eq!(outputs.len(), WAYS.len());
    for (output, way) in outputs.iter().zip(WAYS) {
        assert!(
            output.text.ends_with("END\n") && !output.text.contains("GOT"),
            "{way}: {output:?}"
        );
    }
    let shown = String::from_utf8_lossy(&sitting.raw);
    assert!(!shown.contains("LEAK"), "{shown}");
}

#[test]
fn no_command_opens_the_terminal_whatever_holds_it() {
    let place = Place::new();
    let allowed = ["--allowed-tools", "Bash"];
    check(run(&place, &allowed));
    check(run(&place, &["--permission-mode", "bypassPermissions"]));
    check(run(&place, &["--allowed-tools", "Bash", "--config", "sandbox.mode=\"off\""]));
    if can_mount() {
        check(run(&place, &allowed).mounting(HIDE_BWRAP));
    }
}
