//! The gate against bash: what the one lets through, the other runs, as it was
//! written and as it was written out again.
//!
//! Each command runs in a workspace that was made to do harm: the configuration
//! of its repository, of a submodule and of cargo names programs, links lead out
//! of it, and rules deny two files of it.

use std::ops::Range;
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};

use tine::guard::Decision;
use tine::guard::shell::Judged;

use crate::support::dice::Dice;
use crate::support::throwaway::{Throwaway, for_each, shows_denied};

/// How many commands are made; in the long job `TINE_FUZZ_RUNS` says how many,
/// and `TINE_FUZZ_SEED` with which seed they begin.
const RUNS: u32 = 500;

/// At least this share of them passes, or the rest says little.
const LEAST_SHARE: f64 = 0.2;

/// Commands that only read, with the attack where it is a text.
const HARMLESS: &[&str] = &[
    "echo 'a; touch CANARY'",
    "echo \"touch CANARY\" b",
    "echo touch CANARY",
    "echo a\\;touch\\ CANARY",
    "cat evil",
    "cat 'touch CANARY'",
    "grep -n 'touch CANARY' evil",
    "grep -c \"a|touch CANARY\" evil",
    "printf '%s\\n' '$(touch CANARY)'",
    "printf '%s %s\\n' \"a\\`touch CANARY\\`\" b",
    "head -n 1 evil",
    "wc -l evil",
    "sort -u evil",
    "uniq -c evil",
    "sed -n 's/sh/touch CANARY/p' evil",
    "sed -n '1p;2p' evil",
    "find . -name '*touch CANARY*'",
    "find . \\( -name evil -o -name x \\) -print",
    "test -f evil",
    "[ 'touch CANARY' = x ]",
    "tr a-z A-Z",
    "true",
    "xxd -p evil",
    "ls -1 evil",
    "basename 'a/touch CANARY'",
    "cut -c 1-4 evil",
    "cd .",
    "jq -n '\"touch CANARY\"'",
    "expr 'touch CANARY' : t",
    "seq 3",
    "cd link",
    "cd sub",
    "cat link/b",
    "grep -c x a/b/b",
    "cat /proc/meminfo | head -n 1 | cut -c 1-8",
];

/// What the setup makes dangerous: as it is written, each leaves a canary or
/// prints what is denied.
const HOSTILE: &[&str] = &[
    "git status",
    "git -C . status --short",
    "git -C sub status",
    "git diff",
    "git diff HEAD~1 --stat",
    "git diff x ../denied",
    "git -C sub diff ../x ../../denied",
    "git show HEAD",
    "git show :0:secret.txt",
    "git show 'HEAD^{/t*}:secret.txt'",
    "git log -p",
    "git log -2 --cc -p",
    "git log -L1,1:secret.txt",
    "git reflog -c",
    "git reflog --diff-merges=on",
    "git stash list -U5",
    "git stash list --binary",
    "git stash show -p",
    "git blame secret.txt",
    "git grep -n DENIE.",
    "git cat-file -p HEAD:secret.txt",
    "git describe --tags --dirty",
    "git describe --tags --broken",
    "git --help branch",
    "cd link && cargo tree",
    "cd sub && git status",
    "cd && cat ../denied/text",
    "cd link && cat ../../secret.txt",
    "cat secret.txt",
    "cat link/../../secret.txt",
    "cat out/text",
    "cat /proc/self/cwd/secret.txt",
    "cat /proc/1/cwd/../denied/text",
    "cat /dev/fd/../cwd/secret.txt",
    "cat proc/cwd/secret.txt",
    "grep -rh . .",
    "grep -r D out/",
    "sort secret.txt",
    "diff secret.txt /dev/null",
    "sed -n p out/text",
];

/// Makes a workspace in which little is what it seems.
const SETUP: &str = r#"
mkdir x; echo x > x/x; mkdir -p a/b/src a/.cargo; ln -s a/b link; ln -s ../denied out; ln -s /proc/self proc
echo x > a/b/b; echo > a/b/src/lib.rs
printf '[package]
name = "p"
version = "0.1.0"
edition = "2021"
' > a/b/Cargo.toml
(cd a/b; cargo generate-lockfile -q --offline)
printf '[build]
rustc = "%s"
' "$PWD/evil" > a/.cargo/config.toml
git init -q; echo DENIED one > secret.txt; echo t > t; echo '* diff=d filter=f' > .gitattributes
git add evil secret.txt t .gitattributes; git commit -qm one
git checkout -q -b side; echo DENIED side > secret.txt; git commit -qam side; git checkout -q main
echo DENIED two > secret.txt; git commit -qam two; git merge -q side > /dev/null 2>&1
echo DENIED merged > secret.txt; git commit -qam three; echo DENIED stashed > secret.txt; git stash -q; git tag v1
echo DENIED again > secret.txt; echo tt > t
git init -q sub; cp .gitattributes sub; echo s > sub/s; git -C sub add .; git -C sub commit -qm sub; echo ss > sub/s
git add sub 2> /dev/null; git commit -qm sub -- sub; git tag v2
e="$PWD/evil"
for repository in . sub; do
  git -C $repository config core.fsmonitor "$e"; git -C $repository config diff.external "$e"
  git -C $repository config diff.d.textconv "$e"; git -C $repository config filter.f.clean "$e"
  git -C $repository config man.viewer x; git -C $repository config man.x.cmd "$e"
done
rm -f CANARY
"#;

/// Parts that leave a canary if they run.
const HARMFUL: &[&str] = &[
    "touch CANARY",
    "> CANARY",
    "tee CANARY",
    "sort -o CANARY evil",
    "uniq evil CANARY",
    "sed -n 'w CANARY' evil",
    "./evil",
    "find . -fprint CANARY",
    "xxd evil CANARY",
    "$(touch CANARY)",
    "`touch CANARY`",
    "eval touch CANARY",
    "X=1 touch CANARY",
    "printf -v 'a[$(touch CANARY)0]' x",
    "command touch CANARY",
];

const JOINTS: &[&str] =
    &["; ", " && ", " || ", " | ", "\n", " |& ", ";", "&&", "|", " # c\n", " \\\n", " & "];

const REDIRECTIONS: &[&str] =
    &[" 2>&1", " >/dev/null", " 2> /dev/null", " </dev/null", " &>/dev/null", "", "", "", ""];

/// What wraps a command in more than a list.
const WRAPS: &[(&str, &str)] = &[
    ("(", ")"),
    ("{ ", "; }"),
    ("! ", ""),
    ("if true; then ", "; fi"),
    ("echo $(", ")"),
    ("echo \"`", "`\""),
    ("for i in 1; do ", "; done"),
    ("cat <<E\n$(", ")\nE"),
    ("f() { ", "; }; f"),
    ("cat <(", ")"),
    ("case a in a) ", ";; esac"),
    ("time ", ""),
];

/// What is put somewhere into a command.
const NOISE: &[&str] = &[
    "'", "\"", "\\", "$", "`", ";", "&", "|", "<", ">", "(", ")", "{", "}", "#", "!", "~", "*",
    "?", "[", "]", "\n", " ", "\t", "$'", "$(", "${", "\\\n", "''", "\"\"", "-", "--", "=", "%",
    ":", "^", ",", "\r", "\u{a0}", "\u{200b}", "$\"", "<<", "1>", "2>&1", "@(", "\\'", "\\\\",
];

fn command(seed: u64) -> String {
    let mut dice = Dice(seed);
    let is_harmless = dice.one_in(3);
    let mut line = String::new();
    for index in 0..=dice.below(4) {
        if index > 0 {
            line.push_str(dice.pick(JOINTS));
        }
        let is_harmful = !is_harmless && dice.one_in(5);
        let is_hostile = !is_harmful && dice.one_in(4);
        let part = match (is_harmful, is_hostile) {
            (true, _) => dice.pick(HARMFUL),
            (false, true) => dice.pick(HOSTILE),
            (false, false) => dice.pick(HARMLESS),
        };
        let (open, close) =
            if !is_harmless && dice.one_in(8) { dice.pick(WRAPS) } else { ("", "") };
        line.push_str(&[open, part, close, dice.pick(REDIRECTIONS)].concat());
    }
    // What is denied must not be in an error about the command.
    assert!(!line.contains("DENIED"), "{line}");
    if !is_harmless {
        for _ in 0..dice.below(4) {
            disturb(&mut line, &mut dice);
        }
    }
    line
}

/// Puts something in, or takes a character out.
fn disturb(line: &mut String, dice: &mut Dice) {
    let places: Vec<usize> = line.char_indices().map(|(at, _)| at).collect();
    let Some(&at) = places.get(dice.below(places.len().max(1))) else { return };
    if dice.one_in(3) {
        line.remove(at);
    } else {
        line.insert_str(at, dice.pick(NOISE));
    }
}

fn told(output: &Output) -> (String, Option<i32>) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

/// Runs the commands of some seeds and returns how many passed.
fn check(seeds: Range<u64>) -> Result<usize, String> {
    let throwaway = hostile();
    let mut passed = 0;
    for seed in seeds {
        let command = command(seed);
        let Judged::Reads(reading) = throwaway.judge(&command) else { continue };
        passed += 1;
        let script = &reading.script;
        let as_read = throwaway.run_reading(script, throwaway.variables());
        if throwaway.has_canary() {
            return Err(format!("seed {seed}: {script:?} leaves a canary"));
        }
        let runs_unasked = matches!(throwaway.decide(&command), Decision::Allow(_));
        if runs_unasked && shows_denied(&as_read) {
            return Err(format!("seed {seed}: {script:?} shows what is denied"));
        }
        // As it is written, git does what its configuration says.
        if reading.parts.iter().any(|part| part.words[0] == "git") {
            continue;
        }
        let as_written = throwaway.run(&command, &throwaway.variables());
        if throwaway.has_canary() {
            return Err(format!("seed {seed}: {command:?} leaves a canary"));
        }
        let (read, written) = (told(&as_read), told(&as_written));
        if read != written {
            return Err(format!(
                "seed {seed}: {command:?} says {written:?}, but {script:?} {read:?}"
            ));
        }
    }
    Ok(passed)
}

#[test]
fn what_the_gate_passes_leaves_no_canary_and_says_what_bash_would() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let runs: u32 = number("TINE_FUZZ_RUNS").unwrap_or(RUNS);
    let first: u32 = number("TINE_FUZZ_SEED").unwrap_or(0);
    let end = first + runs;
    // What passes changes nothing, so that one workspace does for many.
    let share = (runs / 40).max(50);
    let step = usize::try_from(share).expect("it is a number of commands");
    let starts: Vec<u32> = (first..end).step_by(step).collect();
    let passed = AtomicU32::new(0);
    let wrong = for_each(&starts, |&start| {
        let count = check(start.into()..end.min(start + share).into())?;
        passed.fetch_add(
            u32::try_from(count).expect("it is no more than were made"),
            Ordering::Relaxed,
        );
        Ok(())
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let share = f64::from(passed.into_inner()) / f64::from(runs);
    assert!(share >= LEAST_SHARE, "only {share:.2} of the commands passed");
}

fn hostile() -> Throwaway {
    let throwaway = Throwaway::new();
    throwaway.set_up(SETUP);
    assert!(!throwaway.has_canary(), "the setup leaves a canary");
    throwaway
}

#[test]
fn the_harmful_parts_are_alive() {
    let parts: Vec<&str> = HARMFUL.iter().chain(HOSTILE).copied().collect();
    let wrong = for_each(&parts, |part| {
        let throwaway = hostile();
        let output = throwaway.run(part, &throwaway.variables());
        let is_alive = throwaway.has_canary() || shows_denied(&output);
        if is_alive { Ok(()) } else { Err(format!("{part}: {output:?}")) }
    });
    assert!(wrong.is_empty(), "{wrong:?}");
}
