//! What completes the command line, and the manual page.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::support::tine::Place;

fn printed(arguments: &[&str]) -> String {
    let finished = Place::new().tine(arguments).run().exits(0);
    assert_eq!(finished.stderr, "");
    finished.stdout
}

/// Runs a program on a text; `None` if it is not installed.
fn fed(program: &str, arguments: &[&str], text: &str) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut stdin = child.stdin.take().expect("it was asked for");
    let text = text.to_owned();
    let writing = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writing.join().expect("nothing panics").expect("it reads");
    Some(output)
}

#[test]
fn every_shell_completes_commands_and_flags() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = printed(&["completions", shell]);
        for word in ["review", "completions", "permission-mode", "worktree"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    Place::new().tine(["completions", "dos"]).run().exits(2);
}

#[test]
fn bash_reads_its_script_and_completes_by_it() {
    let script = printed(&["completions", "bash"]);
    let read = fed("bash", &["-n"], &script).expect("bash is there");
    assert_eq!((read.status.code(), &*read.stderr), (Some(0), &b""[..]));
    let asked =
        "\nCOMP_WORDS=(tine rev); COMP_CWORD=1; _tine tine rev tine; echo \"${COMPREPLY[@]}\"\n";
    let completed = fed("bash", &["--norc"], &(script + asked)).expect("bash is there");
    assert_eq!(String::from_utf8_lossy(&completed.stdout), "review\n");
}

#[test]
fn the_manual_page_has_every_command_and_its_flags() {
    let page = printed(&["man"]);
    for heading in [".TH tine 1", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH COMMANDS"] {
        assert_eq!(page.matches(heading).count(), 1, "{heading}");
    }
    for command in [".SS tine review\n", ".SS tine session show\n", ".SS tine completions\n"] {
        assert!(page.contains(command), "{command}");
    }
    // In a synopsis and in a list of what they do.
    for flag in ["permission\\-mode\\fR", "\\-\\-commit\\fR"] {
        assert_eq!(page.matches(flag).count(), 2, "{flag}");
    }
    // Where there is something that sets pages, it has nothing to complain of.
    if let Some(set) = fed("groff", &["-man", "-Tutf8", "-ww", "-z"], &page) {
        assert_eq!(String::from_utf8_lossy(&set.stderr), "");
    }
}
