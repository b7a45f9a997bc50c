//! Processes that die, and disks that fail: the session opens again, nothing is
//! lost and nothing runs twice.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tine::event::{Event, EventKind, UnitState};
use tine::run::FromUser;
use tine::session::dirs::session_directory;
use tine::session::{CUT_OFF, Past};

use crate::fanout::check_invariants;
use crate::support::faults::Fault;
use crate::support::inside::{Setup, Story};
use crate::support::tine::{Finished, Place};

const SESSION: &str = "0199a000-0000-7000-8000-000000000001";

/// How many binaries run side by side: a traced one mostly waits.
const SIDE_BY_SIDE: usize = 4;

fn agents(agent: &str, names: &[&str]) -> Value {
    let task = |name: &&str| json!({ "description": name, "prompt": name, "subagent_type": agent });
    let tasks: Vec<_> = names.iter().map(task).collect();
    json!([{ "name": "Agent", "arguments": { "tasks": tasks } }])
}

/// Three slots; the second one runs a command with an effect that can be
/// counted.
fn script() -> Value {
    let command = json!([{ "name": "Bash", "arguments": { "command": "echo ran >> counter" } }]);
    json!({ "units": {
        "main": [
            { "text": "Three looks.", "calls": agents("general-purpose", &["one", "two", "three"]) },
            { "text": "all done" },
        ],
        "two": [{ "calls": command }, { "text": "found two" }],
        "*": [{ "text": "found" }],
    } })
}

impl Place {
    fn crash_log(&self) -> PathBuf {
        let sessions = self.home().join(".local/state/tine/sessions");
        let id = tine::event::SessionId(SESSION.into());
        session_directory(&sessions, &self.work(), &id).join("log.jsonl")
    }

    /// The arguments of a run of the script under a cap of one.
    fn crash_run(&self, flags: &[&str]) -> Vec<String> {
        let model = self.script("script.json", &script());
        let fixed = ["-p", "go", "-m", &model, "--session-id", SESSION];
        let more =
            ["--permission-mode", "bypassPermissions", "--config", "agents.max_concurrent=1"];
        [&fixed[..], &more, flags].concat().into_iter().map(str::to_owned).collect()
    }

    /// The arguments with which the session is gone on with.
    fn go_on(&self) -> Vec<String> {
        let model =
            self.script("more.json", &json!({ "units": { "main": [{ "text": "gone on" }] } }));
        ["-c", "-p", "more", "-m", &model].map(str::to_owned).into()
    }

    /// How often the command of the script has run.
    fn times_run(&self) -> usize {
        self.read("counter").map_or(0, |text| text.lines().count())
    }
}

/// What a log says, line by line.
struct Log {
    bytes: Vec<u8>,
    lines: Vec<Value>,
}

impl Log {
    /// Reads a log; each line has to be whole.
    #[track_caller]
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).expect("a session has a log");
        assert!(bytes.is_empty() || bytes.ends_with(b"\n"), "the last line is torn");
        let lines = String::from_utf8(bytes.clone()).expect("a log is text");
        let lines = lines.lines().map(|line| serde_json::from_str(line).expect("a line is JSON"));
        Self { lines: lines.collect(), bytes }
    }

    fn has(&self, kind: &str, unit: &str) -> bool {
        self.lines.iter().any(|line| line["kind"] == kind && line["unit"] == unit)
    }

    /// Returns the state of each unit.
    fn states(&self) -> BTreeMap<&str, String> {
        let mut states = BTreeMap::new();
        for line in &self.lines {
            let state = match line["kind"].as_str() {
                Some("unit_queued") => "queued".to_owned(),
                Some("unit_started") => "running".to_owned(),
                Some("unit_ended") => line["body"]["outcome"].to_string(),
                _ => continue,
            };
            states.insert(line["unit"].as_str().expect("units have names"), state);
        }
        states
    }

    /// Returns how often each thing that has to end has its end.
    fn ends(&self) -> BTreeMap<String, usize> {
        let mut ends = BTreeMap::new();
        for line in &self.lines {
            let (unit, body) = (&line["unit"], &line["body"]);
            let (name, count) = match line["kind"].as_str() {
                Some("invocation_started") => (format!("run {}", line["inv"]), 0),
                Some("invocation_ended") => (format!("run {}", line["inv"]), 1),
                Some("unit_queued") => (format!("{unit}"), 0),
                Some("unit_ended") => (format!("{unit}"), 1),
                Some("tool_finished") => (format!("{unit} {}", body["call"]), 1),
                Some("replied") => {
                    for call in body["calls"].as_array().into_iter().flatten() {
                        ends.entry(format!("{unit} {}", call["id"])).or_insert(0);
                    }
                    continue;
                }
                _ => continue,
            };
            *ends.entry(name).or_insert(0) += count;
        }
        ends
    }
}

/// What must hold once a session that was cut off was gone on with.
#[track_caller]
fn check(before: &Log, after: &Log) {
    assert!(after.bytes.starts_with(&before.bytes), "what was written has changed");
    let ends = after.ends();
    assert!(ends.values().all(|&count| count == 1), "{ends:?}");
    let states = after.states();
    for (unit, state) in before.states() {
        let expected = match &*state {
            "queued" => r#"{"state":"cancelled","ran":false}"#,
            "running" => r#"{"state":"interrupted"}"#,
            ended => ended,
        };
        let found: Value = serde_json::from_str(&states[unit]).expect("it has an outcome");
        assert_eq!(found, serde_json::from_str::<Value>(expected).expect("it is one"), "{unit}");
    }
    let numbers: Vec<_> = after.lines.iter().map(|line| line["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).map(Some).collect::<Vec<_>>());
}

#[track_caller]
fn has_gone_on(finished: &Finished) {
    let Finished { status, stdout, stderr } = finished;
    assert_eq!((status.code(), &**stdout), (Some(0), "gone on\n"), "{stderr}");
}

/// Does something for each number, some of them side by side.
pub(crate) fn for_each(numbers: std::ops::RangeInclusive<usize>, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(*numbers.start());
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number > *numbers.end() {
                        return;
                    }
                    work(number);
                }
            });
        }
    });
}

/// Returns how many events the run writes if nothing happens to it.
fn events_of_a_whole_run() -> usize {
    let place = Place::new();
    place.tine(place.crash_run(&[])).run().exits(0);
    assert_eq!(place.times_run(), 1);
    Log::read(&place.crash_log()).lines.len()
}

#[test]
fn a_run_that_is_killed_at_any_write_can_be_gone_on_with() {
    for_each(1..=events_of_a_whole_run(), |number| {
        let place = Place::new();
        let (run, log) = (place.tine(place.crash_run(&[])), place.crash_log());
        let killed = run.with_fault(Fault::KilledAtWrite(number), &log).run();
        assert_eq!(killed.status.code(), None, "{number}: {}", killed.stderr);
        // What was written is there, to the last event.
        let before = Log::read(&log);
        assert_eq!(before.lines.len(), number - 1);
        let times = place.times_run();
        let (started, finished) =
            (before.has("tool_started", "agent-2"), before.has("tool_finished", "agent-2"));
        assert!(times <= usize::from(started) && times >= usize::from(finished), "{number}");

        has_gone_on(&place.tine(place.go_on()).run());
        let after = Log::read(&log);
        check(&before, &after);
        assert_eq!(place.times_run(), times, "{number}: the command ran again");
        let outputs = after
            .lines
            .iter()
            .filter(|line| line["kind"] == "tool_finished" && line["body"]["text"] == CUT_OFF);
        assert_eq!(outputs.count(), usize::from(started && !finished), "{number}");
    });
}

#[test]
fn a_repair_that_is_killed_at_any_write_is_completed_by_the_next_one() {
    let place = Place::new();
    let (run, log) = (place.tine(place.crash_run(&[])), place.crash_log());
    let whole = events_of_a_whole_run();
    run.with_fault(Fault::KilledAtWrite(whole * 2 / 3), &log).run();
    let before = Log::read(&log);
    let states: Vec<String> = before.states().into_values().collect();
    assert_eq!(states[1..], ["running", "queued"]);
    has_gone_on(&place.tine(place.go_on()).run());
    let after = Log::read(&log);
    check(&before, &after);
    let written = after.lines.len() - before.lines.len();
    for_each(1..=written, |number| {
        let place = Place::new();
        let log = place.crash_log();
        fs::create_dir_all(log.parent().expect("a log has a directory")).expect("the place is new");
        fs::write(&log, &before.bytes).expect("the place is new");
        let fault = Fault::KilledAtWrite(number);
        let killed = place.tine(place.go_on()).with_fault(fault, &log).run();
        assert_eq!(killed.status.code(), None, "{number}: {}", killed.stderr);
        let half = Log::read(&log);
        assert_eq!(half.lines.len(), before.lines.len() + number - 1);
        has_gone_on(&place.tine(place.go_on()).run());
        let again = Log::read(&log);
        check(&before, &again);
        check(&half, &again);
    });
}

/// The places at which a process is killed below, after so many records: any
/// will do, and the same each time.
fn random_numbers(count: usize, below: usize) -> Vec<usize> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..count).map(|_| usize::try_from(next() % below as u64).expect("it is small")).collect()
}

#[test]
fn a_run_that_is_killed_at_random_moments_can_be_gone_on_with() {
    let place = Place::new();
    let records = place.tine(place.crash_run(&["-o", "stream-json"])).run().exits(0).records();
    let moments = random_numbers(16, records.0.len() - 1);
    for_each(0..=moments.len() - 1, |index| {
        let place = Place::new();
        let mut running = place.tine(place.crash_run(&["-o", "stream-json"])).start();
        let mut left = moments[index];
        running.read_until(|_| {
            let is_it = left == 0;
            left = left.saturating_sub(1);
            is_it
        });
        running.signal(Signal::SIGKILL);
        running.wait();
        let log = place.crash_log();
        let bytes = fs::read(&log).expect("a record was written, so an event was before");
        has_gone_on(&place.tine(place.go_on()).run());
        let after = Log::read(&log);
        // The last line may have been torn.
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let lines = after.bytes.iter().take(whole).filter(|&&byte| byte == b'\n').count();
        let before = Log { bytes: bytes[..whole].to_vec(), lines: after.lines[..lines].to_vec() };
        check(&before, &after);
        assert!(place.times_run() <= 1);
    });
}

/// The disk is full or broken from some call on: people and programs are told
/// once, the run goes on, and the log opens again.
#[track_caller]
fn check_disk(fault: Fault, told: &str) {
    let warning = |log: &Path| {
        let (action, reason) = told.split_once(": ").expect("an action and its reason");
        format!(
            "the session is no longer kept: failed to {action} session log {}: {reason}",
            log.display()
        )
    };
    let place = Place::new();
    let (run, log) = (place.tine(place.crash_run(&[])), place.crash_log());
    let finished = run.with_fault(fault, &log).run().exits(0);
    assert_eq!(finished.stdout, "all done\n");
    let warned = format!("warning: {}", warning(&log));
    let count = finished.stderr.lines().filter(|line| **line == warned).count();
    assert_eq!(count, 1, "{fault:?}: {}", finished.stderr);
    let before = Log::read(&log);
    has_gone_on(&place.tine(place.go_on()).run());
    check(&before, &Log::read(&log));
    assert_eq!(place.times_run(), 1);

    let place = Place::new();
    let (run, log) = (place.tine(place.crash_run(&["-o", "stream-json"])), place.crash_log());
    let records = run.with_fault(fault, &log).run().exits(0).records();
    let notices = records.system("informational");
    let [notice] = notices[..] else { panic!("{fault:?}: {notices:?}") };
    assert_eq!((&notice["content"], &notice["level"]), (&json!(warning(&log)), &json!("warning")));
    assert_eq!(records.result()["result"], "all done");
    has_gone_on(&place.tine(place.go_on()).run());
}

#[test]
fn a_disk_that_is_full_or_broken_ends_no_run_and_tears_no_log() {
    let whole = events_of_a_whole_run();
    let full = "write: No space left on device (os error 28)";
    let broken = "write: Input/output error (os error 5)";
    let unsynced = "sync: Input/output error (os error 5)";
    let cases = [
        (Fault::Fails("write", "ENOSPC", 1), full),
        (Fault::Fails("write", "ENOSPC", 5), full),
        (Fault::Fails("write", "ENOSPC", whole / 2), full),
        (Fault::Fails("write", "ENOSPC", whole - 4), full),
        (Fault::Fails("write", "EIO", 1), broken),
        (Fault::Fails("write", "EIO", whole / 2), broken),
        (Fault::Fails("fdatasync", "EIO", 1), unsynced),
        (Fault::Fails("fdatasync", "ENOSPC", 3), "sync: No space left on device (os error 28)"),
    ];
    for_each(0..=cases.len() - 1, |index| check_disk(cases[index].0, cases[index].1));
}

/// Where the repair cannot be written, nothing is begun; without writing
/// anything the session can still be gone on with.
#[test]
fn a_session_on_a_full_disk_is_refused_or_gone_on_with_in_memory() {
    let place = Place::new();
    let (run, log) = (place.tine(place.crash_run(&[])), place.crash_log());
    run.with_fault(Fault::KilledAtWrite(events_of_a_whole_run() / 2), &log).run();
    let before = fs::read(&log).expect("a session has a log");
    let full = Fault::Fails("write", "ENOSPC", 1);
    let refused = place.tine(place.go_on()).with_fault(full, &log).run().exits(1);
    assert_eq!(
        refused.stderr,
        format!(
            "error: failed to write session log {}: No space left on device (os error 28)\n\
             hint: `--no-session-persistence` goes on without writing anything\n",
            log.display()
        )
    );
    let flags = [place.go_on(), vec!["--no-session-persistence".to_owned()]].concat();
    has_gone_on(&place.tine(flags).with_fault(full, &log).run());
    assert_eq!(fs::read(&log).expect("a session has a log"), before);
    has_gone_on(&place.tine(place.go_on()).run());
}

/// A limit on the length of files makes the kernel take part of a line and
/// refuse the rest, as a full disk does.
#[test]
fn a_line_that_fits_in_part_is_not_kept_at_all() {
    for_each(1..=6, |blocks| {
        let place = Place::new();
        let limit = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let run = place.tine(place.crash_run(&[])).by("bash", ["-c", &limit]);
        let finished = run.run().exits(0);
        assert_eq!(finished.stdout, "all done\n");
        assert!(finished.stderr.contains("the session is no longer kept"), "{}", finished.stderr);
        let log = place.crash_log();
        let before = Log::read(&log);
        assert!(before.bytes.len() <= blocks * 1024 && !before.lines.is_empty());
        has_gone_on(&place.tine(place.go_on()).run());
        check(&before, &Log::read(&log));
    });
}

#[test]
fn sixteen_runs_at_once_on_one_state_directory_are_all_kept() {
    let place = Place::new();
    let model = place.script("script.json", &json!({ "units": { "main": [{ "text": "done" }] } }));
    let run = || place.tine(["-p", "go", "-m", &model]).start();
    let running: Vec<_> = (0..16).map(|_| run()).collect();
    for run in running {
        assert_eq!(run.wait().exits(0).stdout, "done\n");
    }
    let listed = place.tine(["sessions", "list", "--json"]).run().exits(0).stdout;
    let states = listed.lines().map(|line| -> Value {
        let session: Value = serde_json::from_str(line).expect("a record is JSON");
        session["state"].clone()
    });
    assert_eq!(states.collect::<Vec<_>>(), vec![json!("ended"); 16]);
}

#[test]
fn a_second_process_on_a_session_is_refused_and_told_who_the_first_is() {
    let place = Place::new();
    let hang = json!({ "units": { "main": [{ "text": "so far", "fault": "hang" }] } });
    let model = place.script("hang.json", &hang);
    let flags = ["-p", "go", "-m", &model, "--session-id", SESSION, "-o", "stream-json"];
    let mut first = place.tine(flags).start();
    first.read_until(|record| record["subtype"] == "init");
    let directory = place.crash_log();
    let directory = directory.parent().expect("a log has a directory").display();
    let message = format!(
        "session {directory} is in use by process {}\nhint: end it there, or start a new session",
        first.id()
    );
    let again = |flags: &[&str]| place.tine([&["-r", SESSION, "-p", "x"], flags].concat()).run();
    again(&[]).refuses(42, &format!("error: {message}\n"));
    let result = again(&["-o", "json"]).exits(42).result();
    assert_eq!(result["errors"], json!([message]));
    assert_eq!((&result["is_error"], &result["session_id"]), (&json!(true), &json!(SESSION)));
    again(&["-o", "stream-json"]).exits(42).records();
    let latest = place.tine(["-c", "-p", "x"]).run().exits(42);
    let alone = "error: the only session of this directory is running\n";
    assert!(latest.stderr.starts_with(alone), "{}", latest.stderr);
    // A copy of it is nobody else's.
    let copied = place
        .tine(
            [&place.go_on()[1..], &["-r".into(), SESSION.into(), "--fork-session".into()]].concat(),
        )
        .run();
    has_gone_on(&copied);
    first.signal(Signal::SIGKILL);
    first.wait();
    let model = place.script("more.json", &json!({ "units": { "main": [{ "text": "gone on" }] } }));
    has_gone_on(&place.tine(["-r", SESSION, "-p", "x", "-m", &model]).run());
}

const REVIEWERS: [&str; 5] = ["correctness", "security", "tests", "performance", "clarity"];

/// Starts a review of five under a cap of two, of which one is done and two
/// never end; ends it by a signal when it is there.
fn review_until(place: &Place, signal: Signal) -> Finished {
    let hang = json!([{ "text": "so far", "fault": "hang" }]);
    let script = json!({ "units": {
        "main": [{ "calls": agents("reviewer", &REVIEWERS) }],
        "correctness": [{ "text": "no defects" }],
        "*": hang,
    } });
    let model = place.script("review.json", &script);
    let flags = ["-p", "review it", "-m", &model, "-o", "stream-json", "--session-id", SESSION];
    let cap = ["--config", "agents.max_concurrent=2"];
    let mut running = place.tine([&flags[..], &cap].concat()).hangups(true).start();
    let mut started = 0;
    running.read_until(|record| {
        started += usize::from(record["patch"]["status"] == "running");
        started == 3
    });
    running.signal(signal);
    running.wait()
}

#[test]
fn whoever_kills_the_terminal_sees_what_finished_what_was_cut_off_and_what_never_began() {
    let place = Place::new();
    assert_eq!(review_until(&place, Signal::SIGKILL).status.code(), None);
    let seen = place.tine(["-c"]).run().exits(0);
    assert_eq!(
        seen.stdout,
        format!(
            "session {SESSION}\nprompt: review it\nthe last run was interrupted\n\
             1 done: correctness\n2 cut off: security, tests\n2 never started: performance, clarity\n"
        )
    );
    let told = "the last run was interrupted: 1 done, 2 cut off (security, tests), \
                2 never started (performance, clarity)";
    let gone_on = place.tine(place.go_on()).run();
    has_gone_on(&gone_on);
    assert_eq!(gone_on.stderr, format!("note: resumed {SESSION}: {told}\n"));
}

/// A hang-up is heard, so the run comes to its own end.
#[test]
fn whoever_closes_the_terminal_sees_it_too() {
    let place = Place::new();
    let records = review_until(&place, Signal::SIGHUP).exits(129).records();
    assert_eq!(records.result()["is_error"], true);
    let seen = place.tine(["-c"]).run().exits(0);
    assert_eq!(
        seen.stdout,
        format!(
            "session {SESSION}\nprompt: review it\nthe last run was cancelled\n\
             1 done: correctness\n2 cancelled: security, tests\n\
             2 never started: performance, clarity\n"
        )
    );
    let gone_on = place.tine(place.go_on()).run();
    has_gone_on(&gone_on);
    assert_eq!(gone_on.stderr, "");
}

/// What main starts beside itself, what it is told to go on without, and what
/// it has not read when its process dies.
async fn rested() -> (Story, usize) {
    let task = |name: &str| json!({ "description": name, "prompt": name, "subagent_type": "general-purpose" });
    let mut look = task("look");
    look["run_in_background"] = json!(true);
    let look = json!([{ "name": "Agent", "arguments": look }]);
    let calls = [look, agents("general-purpose", &["a", "b"])];
    let calls: Vec<&Value> =
        calls.iter().flat_map(|calls| calls.as_array().expect("calls")).collect();
    let long = json!([{ "text": "found", "delay_ms": 90_000 }]);
    let units = json!({
        "main": [{ "calls": calls }, { "text": "done" }],
        "look": [{ "calls": agents("general-purpose", &["inner"]) }, { "text": "found" }],
        "a": [{ "text": "from a", "delay_ms": 1_000 }],
        "b": long,
        "inner": long,
    });
    let sitting = Setup::new(json!({ "units": {} })).sit();
    sitting.ask("one", units).await;
    sitting.wait(2_000).await;
    sitting.say(FromUser::Wrote("mind the gap".into())).await;
    sitting.say(FromUser::SetAside).await;
    sitting.wait(1_000).await;
    sitting.ask("two", json!({ "main": [{ "text": "second" }] })).await;
    sitting.wait(1_000).await;
    sitting.say(FromUser::Wrote("mind the step".into())).await;
    sitting.wait(1_000).await;
    let kept = sitting.events().len();
    (sitting.leave().await, kept)
}

#[tokio::test(start_paused = true)]
async fn a_sitting_that_dies_at_any_event_can_be_gone_on_with() {
    let (story, at_rest) = rested().await;
    let has = |events: &[Event], is: fn(&EventKind) -> bool| {
        events.iter().filter(|event| is(&event.kind)).count()
    };
    for kept in 1..=at_rest {
        let again = Setup::new(json!({ "units": {} })).sit_after(story.cut(kept));
        again.ask("more", json!({ "main": [{ "text": "gone on", "repeat": true }] })).await;
        again.until_ended("more").await;
        let bodies = again.bodies().concat();
        let sent = String::from_utf8(bodies).expect("a body is text");
        let after = again.leave().await;
        check_invariants(&after);
        let (before, mended) = after.events.split_at(kept);
        assert_eq!(before, &story.events[..kept], "what was written has changed");
        let mut past = Past::default();
        after.events.iter().for_each(|event| past.take(event));
        assert!(past.untold().next().is_none() && past.units().is_empty(), "{kept}: {past:?}");

        // What main had not read is not told later, and is not lost in silence.
        let wrote = has(before, |kind| matches!(kind, EventKind::UserWrote { .. }));
        let read = has(before, |kind| matches!(kind, EventKind::Notified { wrote: 1, .. }));
        let took_back = has(mended, |kind| matches!(kind, EventKind::UserTookBack));
        assert_eq!(took_back, wrote - read, "{kept}");
        assert_eq!(sent.contains("mind the gap"), read == 1, "{kept}");
        assert!(!sent.contains("mind the step"), "{kept}");
        // Whoever worked beside main is told of, once, wherever it began.
        let aside = has(before, |kind| matches!(kind, EventKind::SetAside { .. }));
        let told = sent.matches(r#"<task-notification id=\"agent-3\""#).count();
        assert_eq!(told > 0, aside == 1, "{kept}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_worked_beside_main_when_its_process_died_at_rest_is_named() {
    let (story, at_rest) = rested().await;
    let mended = story.cut(at_rest);
    let mut past = Past::default();
    mended.events.iter().for_each(|event| past.take(event));
    let sentence = tine::report::resumed("x", past.account()).expect("something was cut off");
    assert_eq!(sentence, "resumed x: the last run was interrupted: 3 cut off (look, b, inner)");
    use UnitState::{Completed, Interrupted};
    assert_eq!(mended.states(), [Interrupted, Completed, Interrupted, Interrupted]);
}

/// Under `ulimit -f` the system would end the process with SIGXFSZ.
#[test]
fn a_limit_on_the_size_of_files_ends_no_run_without_a_result() {
    let large = "x".repeat(300_000);
    let write = json!({ "name": "Write", "arguments": { "file_path": "a", "content": large } });
    let edit = json!({ "name": "Edit", "arguments": {
        "file_path": "old", "old_string": "old", "new_string": large } });
    let read = json!({ "name": "Read", "arguments": { "file_path": "old" } });
    let print = json!({ "name": "Bash", "arguments": { "command": "yes | head -c 300000" } });
    let files = ["--json-file", "more.json"];
    let debug = ["--debug=trace", "--debug-file", "debug.log"];
    for (name, call, text, flags) in [
        ("write", &write, "done", &[][..]),
        ("edit", &edit, "done", &[]),
        ("spill", &print, "done", &[]),
        ("log", &read, &*large, &[]),
        ("another output", &read, &*large, &files),
        ("debug", &write, "done", &debug),
    ] {
        let place = Place::new();
        place.write("old", "old\n");
        let script = json!({ "units": { "main": [{ "calls": [call] }, { "text": text }] } });
        let model = place.script("script.json", &script);
        let fixed = ["-p", "go", "-m", &model, "-o", "json", "--permission-mode"];
        let all = [&fixed[..], &["bypassPermissions"], flags].concat();
        let limited = "ulimit -f 64; exec \"$0\" \"$@\"";
        let finished = place.tine(all).by("bash", ["-c", limited]).run();
        assert!(finished.status.code().is_some(), "{name}: {finished:?}");
        assert_eq!(finished.result()["result"], text, "{name}: {finished:?}");
        assert_eq!(place.read("old").as_deref(), Some("old\n"), "{name}");
        assert!(place.read("a").is_none(), "{name}");
    }
}

#[test]
fn a_process_that_is_killed_while_it_writes_leaves_no_temporary_file_in_the_workspace() {
    let write = json!({ "name": "Write", "arguments": { "file_path": "new", "content": "x" } });
    let edit = json!({ "name": "Edit", "arguments": {
        "file_path": "old", "old_string": "old", "new_string": "new" } });
    let mut killed = 0;
    for call in [&write, &edit] {
        let script = json!({ "units": { "main": [{ "calls": [call] }, { "text": "done" }] } });
        for (system_call, number) in
            [("linkat", 1), ("fdatasync", 1), ("fdatasync", 2), ("fdatasync", 3), ("fchmod", 1)]
        {
            let place = Place::new();
            place.write("old", "old\n");
            let model = place.script("script.json", &script);
            let flags = ["-p", "go", "-m", &model, "--permission-mode", "acceptEdits"];
            let fault = Fault::KilledAt(system_call, number);
            let finished = place.tine(flags).with_fault_anywhere(fault).run();
            killed += usize::from(!finished.status.success());
            let entries = fs::read_dir(place.work()).expect("the place is there");
            let names = entries.map(|entry| entry.expect("it can be read").file_name());
            let left: Vec<_> =
                names.filter(|name| name.to_string_lossy().starts_with(".tine-")).collect();
            assert!(left.is_empty(), "killed at {system_call} {number}: {left:?}");
        }
    }
    assert!(killed >= 4, "{killed} runs were killed");
}
