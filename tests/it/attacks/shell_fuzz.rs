//! The gate against bash: what the one lets through, the other runs, as it was
//! written and as it was written out again.

use std::ops::Range;
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};

use tine::guard::shell::Judged;

use crate::support::throwaway::{Throwaway, for_each};

/// How many commands are made; `TINE_FUZZ_RUNS` asks for more in the long job.
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
];

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

/// A stream of numbers that a seed repeats (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a length fits");
        usize::try_from(self.next() % bound).expect("it is below a length")
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

fn command(seed: u64) -> String {
    let mut dice = Dice(seed);
    let is_harmless = dice.one_in(3);
    let mut line = String::new();
    for index in 0..=dice.below(4) {
        if index > 0 {
            line.push_str(dice.pick(JOINTS));
        }
        let is_harmful = !is_harmless && dice.one_in(5);
        let part = dice.pick(if is_harmful { HARMFUL } else { HARMLESS });
        let (open, close) =
            if !is_harmless && dice.one_in(8) { dice.pick(WRAPS) } else { ("", "") };
        line.push_str(&[open, part, close, dice.pick(REDIRECTIONS)].concat());
    }
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
    let throwaway = Throwaway::new();
    let mut passed = 0;
    for seed in seeds {
        let command = command(seed);
        let Judged::Reads(reading) = throwaway.judge(&command) else { continue };
        passed += 1;
        let script = &reading.script;
        let as_written = throwaway.run(&command, &throwaway.variables());
        if throwaway.has_canary() {
            return Err(format!("seed {seed}: {command:?} leaves a canary"));
        }
        let as_read = throwaway.run_reading(script, throwaway.variables());
        if throwaway.has_canary() {
            return Err(format!("seed {seed}: {script:?} leaves a canary"));
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
    let runs = std::env::var("TINE_FUZZ_RUNS").ok().and_then(|runs| runs.parse().ok());
    let runs: u32 = runs.unwrap_or(RUNS);
    let starts: Vec<u32> = (0..runs).step_by(50).collect();
    let passed = AtomicU32::new(0);
    let wrong = for_each(&starts, |&start| {
        let count = check(start.into()..runs.min(start + 50).into())?;
        passed.fetch_add(u32::try_from(count).expect("it is at most 50"), Ordering::Relaxed);
        Ok(())
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let share = f64::from(passed.into_inner()) / f64::from(runs);
    assert!(share >= LEAST_SHARE, "only {share:.2} of the commands passed");
}

#[test]
fn the_harmful_parts_are_alive() {
    let wrong = for_each(HARMFUL, |part| {
        let throwaway = Throwaway::new();
        throwaway.run(part, &throwaway.variables());
        if throwaway.has_canary() { Ok(()) } else { Err((*part).to_owned()) }
    });
    assert!(wrong.is_empty(), "{wrong:?}");
}
