//! Tells runs as events, for the tests of this module.
//!
//! Numbers and times go up by themselves: an event is one `seq` and 100 ms
//! after the one before. The methods are the words of a run; a test reads like
//! what happened.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use crate::branch::{Branch, Token};
use crate::event::{
    AfterFailure, CallQuestion, CancelReason, Confinement, Delta, Event, EventKind, FailureKind,
    Invocation, InvocationEnd, NoticeLevel, Origin, Outcome, Piece, Question, QuestionId, Replied,
    RequestFailed, Seq, SlotPosition, ThrottleCause, Throttled, UnitEnd, UnitHead, UnitId,
    UnixMillis, Verdict,
};
use crate::message::{Call, Cost, Image, ImageKind, Output, Reply, StopReason, Usage, Usd};
use crate::run::Reporter;

/// A run as it is told so far.
pub(crate) struct Story {
    events: Vec<Event>,
    units: u32,
}

pub(crate) fn done(text: &str) -> Outcome {
    Outcome::Done { text: text.into() }
}

pub(crate) fn failed(message: &str) -> Outcome {
    Outcome::failed(FailureKind::Provider, message)
}

pub(crate) fn cancelled() -> Outcome {
    Outcome::Cancelled { ran: true }
}

pub(crate) fn skipped() -> Outcome {
    Outcome::Cancelled { ran: false }
}

pub(crate) fn text_delta(unit: u32, text: &str) -> Delta {
    Delta { unit: UnitId(unit), piece: Piece::Text(text.into()) }
}

pub(crate) fn thinking_delta(unit: u32, text: &str) -> Delta {
    Delta { unit: UnitId(unit), piece: Piece::Thinking(text.into()) }
}

impl Story {
    pub(crate) fn new() -> Self {
        Self { events: Vec::new(), units: 0 }
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Appends an event of any kind.
    pub(crate) fn push(&mut self, unit: u32, kind: EventKind) -> &mut Self {
        let seq = self.events.len() as u64 + 1;
        let branch = match unit {
            0 => Branch::root(),
            _ => Branch::root().fork(Token(unit.into()), "unit"),
        };
        self.events.push(Event {
            seq: Seq(seq),
            at: UnixMillis(1_000_000 + seq * 100),
            invocation: Invocation(1),
            unit: UnitId(unit),
            branch,
            kind,
        });
        self
    }

    /// Makes its last event one of another kind.
    pub(crate) fn replace_last(&mut self, kind: EventKind) -> &mut Self {
        self.events.last_mut().unwrap().kind = kind;
        self
    }

    pub(crate) fn invocation(&mut self, prompt: &str) -> &mut Self {
        self.push(0, EventKind::InvocationStarted { prompt: prompt.into(), message: None })
    }

    /// Declares a batch of main; its units are numbered on from the last.
    pub(crate) fn batch(&mut self, call: &str, descriptions: &[&str]) -> &mut Self {
        let total = descriptions.len() as u32;
        for (index, description) in (0..).zip(descriptions) {
            self.queue(description, call, Some(SlotPosition { index, total }));
        }
        self
    }

    pub(crate) fn queue(
        &mut self,
        description: &str,
        call: &str,
        slot: Option<SlotPosition>,
    ) -> &mut Self {
        self.units += 1;
        let head = UnitHead {
            description: description.into(),
            agent: "reviewer".into(),
            call: Some(call.into()),
            parent: UnitId::MAIN,
            depth: 1,
            slot,
            origin: Origin::Prompt,
            is_background: false,
            again: None,
            step: None,
        };
        self.push(self.units, EventKind::UnitQueued(head))
    }

    /// Declares what a flow does side by side, for a unit.
    pub(crate) fn steps(
        &mut self,
        parent: u32,
        origin: Origin,
        descriptions: &[&str],
    ) -> &mut Self {
        let total = descriptions.len() as u32;
        let agent = if origin == Origin::Steps { "for_each" } else { "reviewer" };
        for (index, description) in (0..).zip(descriptions) {
            self.units += 1;
            let head = UnitHead {
                description: (*description).into(),
                agent: agent.into(),
                call: None,
                parent: UnitId(parent),
                depth: parent + 1,
                slot: Some(SlotPosition { index, total }),
                origin,
                is_background: false,
                again: None,
                step: None,
            };
            self.push(self.units, EventKind::UnitQueued(head));
        }
        self
    }

    pub(crate) fn start(&mut self, unit: u32) -> &mut Self {
        self.push(unit, EventKind::UnitStarted)
    }

    /// The unit is lost with the worker `w-7`.
    pub(crate) fn lose(&mut self, unit: u32, attempt: u32) -> &mut Self {
        self.push(unit, EventKind::Lost { worker: "w-7".into(), attempt })
    }

    pub(crate) fn turn(&mut self, unit: u32, turn: u32) -> &mut Self {
        self.push(unit, EventKind::TurnStarted { turn })
    }

    /// A reply of text alone, from the model `m`.
    pub(crate) fn reply(&mut self, unit: u32, text: &str, input: u64, output: u64) -> &mut Self {
        let reply = Reply { text: text.to_owned(), ..Reply::default() };
        self.replied(unit, reply, Usage { input, output, ..Usage::default() })
    }

    pub(crate) fn replied(&mut self, unit: u32, reply: Reply, usage: Usage) -> &mut Self {
        self.replied_by(unit, "m", reply, usage)
    }

    pub(crate) fn replied_by(
        &mut self,
        unit: u32,
        model: &str,
        reply: Reply,
        usage: Usage,
    ) -> &mut Self {
        let stop = if reply.calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let (reply, model) = (Arc::new(reply), model.into());
        self.push(unit, EventKind::Replied(Replied { reply, model, usage, stop, took_ms: 50 }))
    }

    /// A request for the model `m` that waits in the gate.
    pub(crate) fn throttled(
        &mut self,
        unit: u32,
        cause: ThrottleCause,
        wait_ms: Option<u64>,
    ) -> &mut Self {
        self.push(unit, EventKind::Throttled(Throttled { model: "m".into(), cause, wait_ms }))
    }

    pub(crate) fn admitted(&mut self, unit: u32, waited_ms: u64) -> &mut Self {
        self.push(unit, EventKind::Admitted { waited_ms })
    }

    /// A request to the model `m` that fails and is made again 3 s later.
    pub(crate) fn retried(&mut self, unit: u32, attempt: u32, status: Option<u16>) -> &mut Self {
        let next = AfterFailure::Retry { delay_ms: 3_000, most: 10 };
        self.request_failed(unit, attempt, status, next)
    }

    /// A request to the model `m` that fails after it was charged for 5 tokens.
    pub(crate) fn request_failed(
        &mut self,
        unit: u32,
        attempt: u32,
        status: Option<u16>,
        next: AfterFailure,
    ) -> &mut Self {
        let message = match status {
            Some(status) => format!("the provider said {status}"),
            None => "the answer broke off".to_owned(),
        };
        let (model, message, usage) = ("m".into(), message.into(), usage(5, 0));
        let failed = RequestFailed { model, attempt, status, message, usage, took_ms: 20, next };
        self.push(unit, EventKind::RequestFailed(Arc::new(failed)))
    }

    pub(crate) fn call(&mut self, unit: u32, call: &str, tool: &str, subject: &str) -> &mut Self {
        let (call, tool, subject) = (call.into(), tool.into(), subject.into());
        self.push(unit, EventKind::ToolStarted { call, tool, subject, confinement: None })
    }

    pub(crate) fn output(&mut self, unit: u32, call: &str, tool: &str, text: &str) -> &mut Self {
        let output = Arc::new(Output::ok(text));
        let (call, tool) = (call.into(), tool.into());
        self.push(unit, EventKind::ToolFinished { call, tool, output, took_ms: 20 })
    }

    /// An output of the Read tool with images of so many bytes.
    pub(crate) fn shows(
        &mut self,
        unit: u32,
        call: &str,
        text: &str,
        bytes: &[usize],
    ) -> &mut Self {
        let image = |&bytes: &usize| Image::new(ImageKind::Png, &vec![0; bytes]);
        let images = bytes.iter().map(image).collect();
        let output = Arc::new(Output { images, ..Output::ok(text) });
        let (call, tool) = (call.into(), "Read".into());
        self.push(unit, EventKind::ToolFinished { call, tool, output, took_ms: 20 })
    }

    pub(crate) fn denied(&mut self, unit: u32, call: &str, tool: &str, reason: &str) -> &mut Self {
        let (call, tool, reason) = (call.into(), tool.into(), reason.into());
        let arguments = r#"{"command":"rm -rf /"}"#.into();
        self.push(unit, EventKind::Denied { call, tool, arguments, reason })
    }

    /// A unit asks about a command; the question has this number.
    pub(crate) fn asks(&mut self, unit: u32, id: u64, question: Question) -> &mut Self {
        self.push(unit, EventKind::Asked { id: QuestionId(Seq(id)), question })
    }

    pub(crate) fn answered(
        &mut self,
        unit: u32,
        id: u64,
        (question, answer): (Question, Verdict),
    ) -> &mut Self {
        self.push(unit, EventKind::Answered { id: QuestionId(Seq(id)), question, answer })
    }

    pub(crate) fn notice(&mut self, level: NoticeLevel, text: &str) -> &mut Self {
        self.push(0, EventKind::Notice { level, text: text.into() })
    }

    pub(crate) fn end(&mut self, unit: u32, outcome: Outcome) -> &mut Self {
        let ran = outcome != skipped();
        let end = UnitEnd {
            outcome,
            text: "partial".into(),
            usage: Usage { input: 1_000, output: 234, ..Usage::default() },
            turns: u32::from(ran),
            tool_uses: 2,
            duration_ms: if ran { 3_250 } else { 0 },
            output_file: ran.then(|| "/state/out.txt".into()),
            share: None,
        };
        self.push(unit, EventKind::UnitEnded(Arc::new(end)))
    }

    pub(crate) fn over(&mut self, outcome: Outcome, text: &str) -> &mut Self {
        self.over_after(outcome, text, None, &[])
    }

    pub(crate) fn over_after(
        &mut self,
        outcome: Outcome,
        text: &str,
        cancel: Option<CancelReason>,
        unfinished: &[u32],
    ) -> &mut Self {
        let unfinished = unfinished.iter().copied().map(UnitId).collect();
        let end = InvocationEnd { outcome, text: text.into(), cancel, unfinished };
        self.push(0, EventKind::InvocationEnded(Arc::new(end)))
    }

    /// A review as a flow: of three angles side by side, each with an agent for
    /// each part, one is at work, one fails by its agent, and one before it has
    /// any.
    pub(crate) fn angles() -> Self {
        let mut story = Self::new();
        story.invocation("review");
        story.steps(0, Origin::Steps, &["correctness", "security", "tests"]);
        story.start(1).start(2).start(3);
        story.steps(1, Origin::Prompt, &["correctness[0]"]);
        story.steps(2, Origin::Prompt, &["security[0]"]).start(4).start(5);
        story.end(5, failed("boom")).end(2, failed("`security[0]` failed: boom"));
        story.end(3, failed("for_each = \"x\": it gives none, and not a list"));
        story
    }

    /// The run of most tests: a batch of three, of which the first completes,
    /// the second fails and the third never starts.
    pub(crate) fn batch_of_three() -> Self {
        let mut story = Self::new();
        let calls = vec![call_of("call-1", "Agent", r#"{"tasks":[1,2,3]}"#)];
        story.invocation("review").turn(0, 1);
        story.replied(0, Reply { calls, ..Reply::default() }, usage(100, 10));
        story.call(0, "call-1", "Agent", "3 tasks");
        story.batch("call-1", &["correctness", "security", "style"]);
        story.start(1).turn(1, 1).start(2).turn(2, 1);
        let calls = vec![call_of("read-1", "Read", r#"{"path":"src/a.rs"}"#)];
        let reply =
            Reply { text: "secret thoughts of a slot".to_owned(), calls, ..Reply::default() };
        story.replied(1, reply, usage(200, 20));
        story.call(1, "read-1", "Read", "src/a.rs").output(1, "read-1", "Read", "fn a() {}");
        story.end(1, done("no defects")).end(2, failed("the provider said 500"));
        story.end(3, skipped());
        story.output(0, "call-1", "Agent", "1 of 3 completed");
        story.turn(0, 2).reply(0, "All fine.", 150, 15).over(done("All fine."), "All fine.");
        story
    }
}

/// A question about a command that a rule would allow.
pub(crate) fn question(command: &str) -> Question {
    Question::Call(Arc::new(CallQuestion {
        call: "bash-1".into(),
        tool: "Bash".into(),
        subject: command.into(),
        arguments: serde_json::json!({"command": command}).to_string().into(),
        reason: "no rule allows it".into(),
        rules: vec![format!("Bash({command} *)").into()],
        confinement: Some(Confinement::NONE),
    }))
}

pub(crate) fn call_of(id: &str, tool: &str, arguments: &str) -> Call {
    Call { id: id.into(), tool: tool.to_owned(), arguments: arguments.to_owned() }
}

pub(crate) fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

/// Tokens that cost so many cents.
pub(crate) fn paid(input: u64, output: u64, cents: u64) -> Usage {
    let cost = Cost { usd: Usd(cents * Usd::ONE.0 / 100), is_partial: false };
    Usage { cost, ..usage(input, output) }
}

/// Collects what a reporter writes and how often it flushes.
#[derive(Clone, Default)]
pub(crate) struct Paper(Arc<Mutex<Written>>);

#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    flushes: usize,
}

impl Paper {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().bytes.clone()).unwrap()
    }

    pub(crate) fn flushes(&self) -> usize {
        self.0.lock().unwrap().flushes
    }

    pub(crate) fn writer(&self) -> Box<dyn Write + Send> {
        Box::new(self.clone())
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().flushes += 1;
        Ok(())
    }
}

/// An output that nobody reads any more.
pub(crate) struct BrokenPipe;

impl Write for BrokenPipe {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// Shows a whole story to a reporter, with a pause at its end.
pub(crate) fn tell(reporter: &mut dyn Reporter, story: &Story) {
    for event in story.events() {
        reporter.event(event).unwrap();
    }
    reporter.pause().unwrap();
}
