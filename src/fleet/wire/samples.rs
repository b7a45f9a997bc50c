//! Words, questions and answers for the tests of this module: one of every
//! kind.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::facts::told_of;
use super::{Answered, Ask, AskId, FarSeat, Grant, Shipped, Word, Work};
use crate::agent::{LimitSource, TurnLimit};
use crate::branch::{Branch, Token};
use crate::event::testing::{Log, called, ended, finished, prompted, queued, replied};
use crate::event::{
    Compaction, CompactionTrigger, Confinement, EventKind, Failure, FailureKind, Invocation,
    Origin, Outcome, Piece, Question, QuestionId, Seq, SlotPosition, StepDigest, StepMark, UnitEnd,
    UnitId, UnitState, Verdict,
};
use crate::fanout::Elsewhere;
use crate::guard::{About, Decided, Place, Rule, Source, Sourced};
use crate::line::testing::plain;
use crate::line::{
    Budget, CallLeave, Child, Glance, News, RequestLeave, Sent, Strand, Told, Until, Wait,
};
use crate::message::{
    Call, Head, Image, ImageKind, Message, Output, Prefix, Prompt, Reply, Sealed, ToolSchema,
    Usage, Usd,
};
use crate::prompt::{Context, Said};
use crate::session::samples::one_of_each;
use crate::skill::Followed;
use crate::tool::{AnswerSchema, Isolation, Task, TaskKind, Typed};

pub(super) fn words() -> Vec<Word> {
    let facts = one_of_each().into_iter().filter_map(|event| told_of(event.kind).ok());
    let mut words: Vec<Word> = facts.map(Word::Told).collect();
    let EventKind::Replied(replied) = replied("It is short.") else { unreachable!() };
    words.extend([
        Word::Told(Told::Reminded { text: "answer".into() }),
        Word::TurnStarted { turn: 2 },
        Word::Replied(replied),
        Word::ToolFinished {
            call: "call-1".into(),
            tool: "Read".into(),
            output: Arc::new(Output::error("no such file")),
            took_ms: 7,
        },
        Word::Delta(Piece::Text("It is".into())),
        Word::Delta(Piece::Thinking("Hm".into())),
        Word::Leaves("so far".into()),
        Word::Unasked,
        Word::Unheard(vec![AskId(3), AskId(4)]),
    ]);
    let asks = asks_and_answers().into_iter().zip(1..);
    words.extend(asks.map(|((ask, _), id)| Word::Ask { id: AskId(id), ask }));
    words
}

/// Everything that can be asked, each with an answer that fits.
pub(super) fn asks_and_answers() -> Vec<(Ask, Answered)> {
    let mut all = of_calls();
    all.extend(of_units());
    all.extend(of_the_background());
    all
}

fn of_calls() -> Vec<(Ask, Answered)> {
    let change = |kind| if let EventKind::FileChanged(change) = kind { Some(change) } else { None };
    let change = one_of_each().into_iter().find_map(|event| change(event.kind)).unwrap();
    let question = |kind| {
        let EventKind::Asked { id: _, question } = kind else { return None };
        matches!(question, Question::Form(_)).then_some(question)
    };
    let question = one_of_each().into_iter().find_map(|event| question(event.kind)).unwrap();
    let started = Ask::ToolStarted {
        call: "call-1".into(),
        tool: "Bash".into(),
        subject: "cargo test".into(),
        confinement: Some(Confinement::NONE),
        is_synced: true,
    };
    let refused = CallLeave { count: 1, refused: Some(failure(FailureKind::MaxToolCalls)) };
    vec![
        (started, Answered::GoOn),
        (Ask::FileChanged(change), Answered::GoOn),
        (Ask::MayCall { count: 3 }, Answered::Calls(refused)),
        (Ask::MayCall { count: 1 }, Answered::Calls(CallLeave { count: 1, refused: None })),
        (
            Ask::User { question, decided: decided() },
            Answered::Verdict(Verdict::NoBecause("no".into())),
        ),
        (
            Ask::User { question: Question::Batch { slots: 9 }, decided: Decided::default() },
            Answered::Verdict(Verdict::Covered(QuestionId(Seq(9)))),
        ),
    ]
}

fn of_units() -> Vec<(Ask, Answered)> {
    let seats = [4, 5, 6].map(|unit| FarSeat {
        unit: UnitId(unit),
        branch: branch(),
        origin: Origin::Continued(UnitId(1)),
    });
    let leave = RequestLeave { calls_are_limited: true };
    vec![
        (
            Ask::Declare { call: Some("call-1".into()), children: children(), takes_orders: true },
            Answered::Seats(seats.into()),
        ),
        (Ask::MayStart, Answered::GoOn),
        (Ask::MayRequest { turn: Some(1) }, Answered::Request(Ok(leave))),
        (Ask::MayRequest { turn: None }, Answered::Request(Err(failure(FailureKind::Budget)))),
        (
            Ask::Ended {
                outcome: Outcome::Done { text: "done".into() },
                output_file: Some("/t/out.md".into()),
            },
            Answered::End(end()),
        ),
        (Ask::Join { children: vec![UnitId(4), UnitId(5)] }, Answered::GoOn),
        (Ask::Reserve { count: 3 }, Answered::First(Token(12))),
        (Ask::Visible, Answered::Visible(said())),
    ]
}

fn of_the_background() -> Vec<(Ask, Answered)> {
    let glance = |end: Option<Arc<UnitEnd>>| Glance {
        unit: UnitId(4),
        description: "look".into(),
        agent: "explore".into(),
        state: UnitState::Running,
        text: "I".into(),
        turns: 2,
        tool_uses: 3,
        continued_by: end.as_ref().map(|_| UnitId(5)),
        end,
        unread: 1,
    };
    let glances = vec![glance(None), glance(Some(end()))];
    let send = || Ask::Send { to: UnitId(4), text: "hurry".into() };
    vec![
        (Ask::News { wait: Wait::No }, Answered::News(News::NotYet)),
        (Ask::News { wait: Wait::UntilThereAre }, Answered::News(News::Message("new".into()))),
        (Ask::News { wait: Wait::No }, Answered::News(News::Nothing)),
        (Ask::Look { unit: None }, Answered::Glances(glances)),
        (Ask::Look { unit: Some(UnitId(4)) }, Answered::Glances(Vec::new())),
        (Ask::Await { units: vec![UnitId(4)], until: Until::Any }, Answered::GoOn),
        (Ask::Await { units: vec![UnitId(4)], until: Until::All }, Answered::GoOn),
        (Ask::Taken { units: vec![UnitId(4)] }, Answered::GoOn),
        (Ask::Stop { unit: UnitId(4) }, Answered::State(Some(UnitState::AwaitingApproval))),
        (Ask::Stop { unit: UnitId(9) }, Answered::State(None)),
        (send(), Answered::Sent(Sent::Queued)),
        (send(), Answered::Sent(Sent::Full)),
        (send(), Answered::Sent(Sent::Ended(UnitState::Skipped))),
        (send(), Answered::Sent(Sent::Unknown)),
    ]
}

fn failure(kind: FailureKind) -> Failure {
    Failure { kind, message: "no \"more\"".into() }
}

fn branch() -> Branch {
    Branch { tokens: "1-3,5".parse().unwrap(), ..Branch::root() }
}

fn children() -> Vec<Child> {
    let child = Child {
        description: "look".into(),
        agent: "explore".into(),
        slot: Some(SlotPosition { index: 0, total: 3 }),
        origin: Origin::Visible,
        is_background: true,
        strand: Strand::Reserved(Token(7)),
        budget: Budget { usd: Some(Usd::ONE), tokens: 9.try_into().ok(), tool_calls: Some(0) },
        again: Some(UnitId(2)),
        step: Some(StepMark { key: "review[3]".into(), digest: StepDigest(7) }),
    };
    let on_its_parents = Child { strand: Strand::Parents, ..plain("look") };
    vec![child, plain("look"), on_its_parents]
}

fn decided() -> Decided {
    let command = About::Command { text: "cargo test".into(), only_exactly: true };
    let path = PathBuf::from(OsStr::from_bytes(b"/w/\xff\\x41"));
    let inside =
        Place { path: path.clone(), relative: path.strip_prefix("/w").ok().map(Into::into) };
    let places = About::Places(vec![inside, Place { path, relative: None }]);
    let parts = vec![About::Names(vec!["explore".into()]), places, About::Unknown];
    Decided::from_parts("Bash".into(), Some(command), parts)
}

fn end() -> Arc<UnitEnd> {
    let outcome = Outcome::Failed(failure(FailureKind::Timeout));
    let EventKind::UnitEnded(end) = ended(outcome, "so far") else { unreachable!() };
    end
}

/// One part of each sort.
fn said() -> Vec<Arc<Said>> {
    let summary = EventKind::Compacted(Arc::new(Compaction {
        trigger: CompactionTrigger::Auto,
        text: "what was said".into(),
        kept_prompts: 0,
        tokens_before: 9,
        tokens_after: 1,
        model: "m".into(),
        usage: Usage::default(),
        took_ms: 1,
    }));
    let mut log = Log::default();
    log.put(0, "", prompted("go"))
        .put(1, "1", queued("Ada", 0, Origin::Prompt, None))
        .put(1, "1", summary)
        .put(1, "1", called("I look.", &[("Read", "{}")]))
        .put(1, "1", finished("Read", Output::ok("é".repeat(2_000))));
    let tokens = "1".parse().unwrap();
    let said = log.events.iter().collect::<Context>().seen_by(UnitId(9), Invocation(0), &tokens);
    assert_eq!(said.len(), 4);
    said
}

/// What a slot can be granted: a task with all that one can have, a fork, and a message
/// to one that has ended.
pub(super) fn grants() -> [Grant; 3] {
    let home = Some(Path::new("/home/ada"));
    let leave = ["Read(~/notes/**)", "Bash(git log *)"]
        .map(|rule| Sourced { rule: Rule::parse(rule, home).unwrap(), source: Source::Skill });
    let followed = Followed { skill: "tidy".into(), leave: leave.into(), model: Some("m".into()) };
    let schema = r#"{"type": "object", "properties": {"é": {"type": "string"}}}"#;
    let typed = Typed {
        agent: "explore".into(),
        is_built_in: true,
        model: Some("large".into()),
        tools: Some(vec!["Read".into(), "Grep".into()]),
        followed: Some(Arc::new(followed)),
    };
    let task = Task {
        description: "look".into(),
        prompt: "Look at \"it\".\n".into(),
        kind: TaskKind::Typed(Arc::new(typed)),
        max_turns: Some(3),
        max_tokens: 100_000.try_into().ok(),
        timeout: Some(Duration::new(1, 500_000_001)),
        isolation: Some(Isolation::Worktree),
        is_background: false,
        schema: Some(Arc::new(AnswerSchema::parse(schema).unwrap())),
    };
    let grant = Grant {
        unit: UnitId(4),
        attempt: 2,
        branch: branch(),
        origin: Origin::Prompt,
        is_unlimited: true,
        depth: 1,
        work: Work::Typed { task, is_verbatim: true },
        tools: vec!["Read".into(), "Bash".into()],
        model: "small".into(),
        packet: "af13".into(),
        policy: b"{\"mode\":\"default\"}\xff".into(),
    };
    let fork = Work::Fork {
        task: Task::background_fork("d", "p"),
        parent: UnitId::MAIN,
        from: shipped(),
        schema: Some(Arc::new(AnswerSchema::parse(schema).unwrap())),
    };
    let fork = Grant { work: fork, origin: Origin::Fork, ..grant.clone() };
    let continued = Work::Continued {
        task: Task::background_fork("d", "and on?"),
        ended: UnitId(2),
        from: shipped(),
        max_turns: Some(TurnLimit { most: 7, source: LimitSource::Definition }),
    };
    let origin = Origin::Continued(UnitId(2));
    let continued = Grant { work: continued, origin, ..grant.clone() };
    [grant, fork, continued]
}

/// What is left of slots, with limits from every source.
pub(super) fn left() -> [Elsewhere; 4] {
    let sources =
        [LimitSource::Flag, LimitSource::Task, LimitSource::Definition, LimitSource::Config];
    sources.map(|source| Elsewhere {
        from: shipped(),
        model: "small".into(),
        tools: vec!["Read".into(), "StructuredOutput".into()],
        schema: Some(Arc::new(AnswerSchema::parse("true").unwrap())),
        max_turns: Some(TurnLimit { most: 100, source }),
    })
}

fn shipped() -> Shipped {
    Shipped { blob: "b10b".into(), body: "b0d7".into() }
}

/// A conversation with messages of every sort, in the forms that they can have.
pub(in crate::fleet) fn conversation() -> Prefix {
    let image = || Image::new(ImageKind::Png, b"not one");
    let schema = |name: &str, parameters: &str| ToolSchema {
        name: name.to_owned(),
        description: "Reads \"it\".\n".to_owned(),
        parameters: RawValue::from_string(parameters.to_owned()).unwrap(),
    };
    let tools = vec![schema("Read", r#"{ "z": 1,  "a": "\u00e9" }"#), schema("Agent", "{}")];
    let mut prefix = Prefix::new(Arc::new(Head::new("Be good.".to_owned(), tools)));
    prefix.push(Message::User(Prompt::joined(["look: ".into(), image().into(), "é".into()])));
    let call = |id: &str, arguments: &str| Call {
        id: id.into(),
        tool: "Read".to_owned(),
        arguments: arguments.to_owned(),
    };
    let sealed = Sealed { by: "responses http://localhost/v1 big".into(), json: "[1]".into() };
    prefix.push(Message::Model(Arc::new(Reply {
        text: "I look.".to_owned(),
        thinking: "Hm".to_owned(),
        calls: vec![call("call-1", "{}"), call("call-2", "no json")],
        sealed: Some(sealed),
    })));
    let shown = Output { images: vec![image()], ..Output::ok("a picture") };
    for (id, output) in [("call-1", shown), ("call-2", Output::error("no such file"))] {
        prefix.push(Message::Output { call: id.into(), output: Arc::new(output) });
    }
    prefix.push(Message::Model(Arc::new(Reply { text: "So.".to_owned(), ..Reply::default() })));
    prefix
}
