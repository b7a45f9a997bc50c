//! What it costs to go on with a long session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tine::branch::{Branch, Token};
use tine::event::{
    Compaction, CompactionTrigger, Event, EventKind, Invocation, InvocationEnd, Origin, Outcome,
    Replied, Seq, SessionHead, SessionId, SlotPosition, UnitEnd, UnitHead, UnitId, UnixMillis,
};
use tine::message::{Call, CallId, Output, Reply, StopReason, Usage};
use tine::session::SessionLog;
use tine::session::dirs::{LOG, session_directory};

use crate::measure::{RUNS, median, millis, peak};
use crate::program::{self, Place};
use crate::script::{Part, Script};
use crate::table::{Figure, Unit};

/// How many prompts the session had. The run of the last one was cut off.
const PROMPTS: u32 = 40;

/// How many turns main took for each, besides the one that starts the batch.
const TURNS: u32 = 150;

/// How many slots each batch had, and how many turns each slot took.
const SLOTS: u32 = 200;
const SLOT_TURNS: u32 = 5;

/// Characters of a tool's output: about as many as a page of a source file has.
const OUTPUT: usize = 1_300;

/// How many events and bytes the log has to have at least.
const EVENTS: u64 = 200_000;
const BYTES: u64 = 100_000_000;

/// From just before the process is made to the server's having the whole first
/// request, and the most memory held by then.
pub(crate) fn resume() -> Vec<Figure> {
    let place = Place::new();
    let directory = write_session(&place);
    let log = directory.join(LOG);
    let whole = place.workspace().join("whole.jsonl");
    std::fs::rename(&log, &whole).expect("one file system holds both");
    let script = Script { main: Part::TEXT, slots: 0, slot: Part::TEXT };
    let (mut times, mut peaks) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        // A run goes on in the log, so each gets a fresh one.
        std::fs::copy(&whole, &log).expect("the disk has room");
        let ended = program::start(&place, &script, &["-c"]).wait();
        assert_eq!(ended.code, Some(0), "a run failed: {:?}", ended.records.last());
        let told = ended.records[1]["content"].as_str().unwrap_or_default();
        assert!(told.contains("8 cut off") && told.contains("100 never started"), "{told}");
        times.push(millis(ended.seen[0].at - ended.started));
        peaks.push(peak(&ended));
    }
    vec![
        Figure::new(
            "resume of 200,000 events, to first request",
            median(times),
            1_500.0,
            Unit::Millis,
        ),
        Figure::new("... peak memory", median(peaks), 150.0, Unit::MiB),
    ]
}

/// Writes the session and returns its directory.
fn write_session(place: &Place) -> PathBuf {
    let workspace = place.workspace().canonicalize().expect("a place has a workspace");
    let sessions = place.home().join(".local/state/tine/sessions");
    let session = SessionId("0199a000-0000-7000-8000-000000000001".into());
    let directory = session_directory(&sessions, &workspace, &session);
    let log = SessionLog::create(&directory).expect("the session is new");
    let mut writer = Writer::new(log, &workspace);
    let head = SessionHead {
        session,
        version: "0".into(),
        cwd: workspace.to_string_lossy().into(),
        model: "bench".into(),
        mode: "default".into(),
        forked_from: None,
        sandbox: None,
    };
    writer.main(EventKind::SessionOpened(head));
    for prompt in 1..=PROMPTS {
        writer.prompt(prompt, prompt == PROMPTS);
    }
    let bytes = std::fs::metadata(directory.join(LOG)).expect("the log is there").len();
    assert!(writer.seq >= EVENTS && bytes >= BYTES, "{} events, {bytes} bytes", writer.seq);
    directory
}

/// Writes a log as runs write it.
struct Writer {
    log: SessionLog,
    seq: u64,
    invocation: Invocation,
    next_unit: u32,
    output: String,
}

impl Writer {
    fn new(log: SessionLog, workspace: &Path) -> Self {
        let line = format!("{}: let total = \"prices\".iter().sum();\n", workspace.display());
        let output = line.repeat(OUTPUT / line.len() + 1);
        Self { log, seq: 0, invocation: Invocation(1), next_unit: 1, output }
    }

    fn write(&mut self, unit: UnitId, branch: &Branch, kind: EventKind) {
        self.seq += 1;
        let (seq, at) = (Seq(self.seq), UnixMillis(1_700_000_000_000 + self.seq));
        let invocation = self.invocation;
        let event = Event { seq, at, invocation, unit, branch: branch.clone(), kind };
        self.log.append(&event).expect("the disk has room");
    }

    fn main(&mut self, kind: EventKind) {
        self.write(UnitId::MAIN, &Branch::root(), kind);
    }

    /// A prompt, main's turns, a batch, and a summary at the end, unless the
    /// process dies in the middle of the batch.
    fn prompt(&mut self, number: u32, is_cut_off: bool) {
        self.invocation = Invocation(number);
        let prompt: Arc<str> = format!("prompt {number}").into();
        self.main(EventKind::InvocationStarted { prompt: Arc::clone(&prompt), message: None });
        self.main(EventKind::Prompted(prompt.into()));
        for turn in 1..=TURNS {
            self.turn(UnitId::MAIN, &Branch::root(), turn);
        }
        let call = self.calls(UnitId::MAIN, &Branch::root(), TURNS + 1, "Agent");
        let branches = self.batch(&call, is_cut_off);
        if is_cut_off {
            return;
        }
        let joined = Branch::root().join(branches.iter().map(|branch| &branch.tokens));
        let children = (self.next_unit - SLOTS..self.next_unit).map(UnitId).collect();
        self.write(UnitId::MAIN, &joined, EventKind::Joined { children });
        self.finishes(UnitId::MAIN, &joined, call);
        self.write(UnitId::MAIN, &joined, EventKind::Compacted(Arc::new(summary())));
        let done = Outcome::Done { text: "done".into() };
        let end = InvocationEnd {
            outcome: done,
            text: "done".into(),
            cancel: None,
            unfinished: Vec::new(),
        };
        self.write(UnitId::MAIN, &joined, EventKind::InvocationEnded(Arc::new(end)));
    }

    fn batch(&mut self, call: &CallId, is_cut_off: bool) -> Vec<Branch> {
        let first = self.next_unit;
        self.next_unit += SLOTS;
        let branch = |index: u32| Branch::root().fork(Token(u64::from(index) + 1), "slot");
        for index in 0..SLOTS {
            let head = UnitHead {
                description: format!("slot {index}").into(),
                agent: "explore".into(),
                call: Some(call.clone()),
                parent: UnitId::MAIN,
                depth: 1,
                slot: Some(SlotPosition { index, total: SLOTS }),
                origin: Origin::Prompt,
                is_background: false,
                again: None,
                step: None,
            };
            self.write(UnitId(first + index), &branch(index), EventKind::UnitQueued(head));
        }
        let begun = if is_cut_off { SLOTS / 2 } else { SLOTS };
        for index in 0..begun {
            let (unit, branch) = (UnitId(first + index), branch(index));
            self.write(unit, &branch, EventKind::UnitStarted);
            self.write(unit, &branch, EventKind::Prompted("Look there.".into()));
            for turn in 1..=SLOT_TURNS {
                self.turn(unit, &branch, turn);
            }
            // The last few were at work.
            if !is_cut_off || index + 8 < begun {
                self.write(unit, &branch, EventKind::UnitEnded(Arc::new(unit_end())));
            }
        }
        (0..SLOTS).map(branch).collect()
    }

    fn turn(&mut self, unit: UnitId, branch: &Branch, turn: u32) {
        let call = self.calls(unit, branch, turn, "Read");
        self.finishes(unit, branch, call);
    }

    fn calls(&mut self, unit: UnitId, branch: &Branch, turn: u32, tool: &str) -> CallId {
        self.write(unit, branch, EventKind::TurnStarted { turn });
        let id = CallId(format!("call_{}_{}_{turn}", self.invocation.0, unit.0).into());
        let arguments = r#"{"file_path":"src/measured.txt","offset":1,"limit":40}"#.to_owned();
        let call = Call { id: id.clone(), tool: tool.to_owned(), arguments };
        let text = "I look at the next file.".to_owned();
        let reply = Reply { text, thinking: String::new(), calls: vec![call], sealed: None };
        let usage = Usage { input: 9_000, output: 90, ..Usage::default() };
        self.write(
            unit,
            branch,
            EventKind::Replied(Replied {
                reply: Arc::new(reply),
                model: "bench".into(),
                usage,
                stop: StopReason::ToolUse,
                took_ms: 900,
            }),
        );
        let (call, tool) = (id.clone(), tool.into());
        let subject = "src/measured.txt".into();
        self.write(unit, branch, EventKind::ToolStarted { call, tool, subject, confinement: None });
        id
    }

    fn finishes(&mut self, unit: UnitId, branch: &Branch, call: CallId) {
        let output = Arc::new(Output::ok(self.output.clone()));
        let tool = "Read".into();
        self.write(unit, branch, EventKind::ToolFinished { call, tool, output, took_ms: 3 });
    }
}

fn unit_end() -> UnitEnd {
    let text: Arc<str> = "Nothing is wrong there. ".repeat(40).into();
    UnitEnd {
        outcome: Outcome::Done { text: Arc::clone(&text) },
        text,
        usage: Usage::default(),
        turns: SLOT_TURNS,
        tool_uses: SLOT_TURNS,
        duration_ms: 4_000,
        output_file: None,
        share: None,
    }
}

fn summary() -> Compaction {
    Compaction {
        trigger: CompactionTrigger::Auto,
        text: "What was done so far. ".repeat(200).into(),
        kept_prompts: 1,
        tokens_before: 90_000,
        tokens_after: 8_000,
        model: "bench".into(),
        usage: Usage::default(),
        took_ms: 4_000,
    }
}
