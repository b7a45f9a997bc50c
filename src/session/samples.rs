//! Events for the tests of this module: one of every kind, and arbitrary ones.

use std::sync::Arc;

use proptest::prelude::*;

use crate::branch::{Branch, BranchPath, Token, TokenSet};
use crate::event::testing::{field, form, hook_ran};
use crate::event::{
    AfterFailure, Backend, CallQuestion, CancelReason, ChangedBy, Chosen, Compaction,
    CompactionTrigger, Confinement, Digest, Entry, Event, EventKind, FailureKind, Field,
    FileChange, FileState, FlowHead, ForkShare, Form, HookDecision, HookEvent, HookOutcome,
    HookRan, Insistence, Invocation, InvocationEnd, Lasting, NetworkAccess, NoticeLevel, Offered,
    OfferedTool, Origin, Outcome, PrefixShare, Question, QuestionId, Replied, RequestFailed,
    SandboxHead, Seq, ServerGlance, ServerStatus, SessionHead, SessionId, SlotPosition, StepDigest,
    StepMark, Takes, Terms, ThrottleCause, Throttled, UnitEnd, UnitHead, UnitId, UnixMillis,
    Verdict, Worktree,
};
use crate::message::{
    Call, CallId, Cost, Image, ImageKind, Output, Placed, Prompt, Reply, Sealed, StopReason, Usage,
    Usd,
};

/// An event of the main conversation; its time is a hundred times its number.
pub(super) fn event(seq: u64, kind: EventKind) -> Event {
    Event {
        seq: Seq(seq),
        at: UnixMillis(seq * 100),
        invocation: Invocation(1),
        unit: UnitId::MAIN,
        branch: Branch::root(),
        kind,
    }
}

pub(super) fn opened() -> EventKind {
    EventKind::SessionOpened(SessionHead {
        session: SessionId("0198-a".into()),
        version: "0.1.0".into(),
        cwd: "/home/ada/work/api".into(),
        model: "offline".into(),
        mode: "default".into(),
        forked_from: Some(SessionId("0197-b".into())),
        sandbox: Some(SandboxHead {
            mode: Insistence::Best,
            network: NetworkAccess::None,
            installed: Backend::Bwrap,
        }),
    })
}

pub(super) fn started(prompt: &str) -> EventKind {
    EventKind::InvocationStarted { prompt: prompt.into(), message: None }
}

pub(super) fn ended() -> EventKind {
    EventKind::InvocationEnded(Arc::new(InvocationEnd {
        outcome: Outcome::Done { text: "done".into() },
        text: "done".into(),
        cancel: None,
        unfinished: Vec::new(),
    }))
}

pub(super) fn notice(text: &str) -> EventKind {
    EventKind::Notice { level: NoticeLevel::Warning, text: text.into() }
}

/// One event of every kind, in the order of [`EventKind`].
pub(crate) fn one_of_each() -> Vec<Event> {
    let prompt = "say \"hi\"\nand\u{1b}[1m stop";
    let mut events = vec![
        event(0, opened()),
        event(0, started(prompt)),
        event(0, EventKind::Prompted("hi".into())),
        event(0, EventKind::Notified { children: vec![UnitId(4)], text: "news".into(), wrote: 1 }),
        event(0, EventKind::UserWrote { text: "and also".into() }),
        event(0, EventKind::UserTookBack),
        event(0, EventKind::Compacted(Arc::new(compaction()))),
    ];
    events.extend(turn_of_a_slot());
    events.push(event(0, EventKind::SetAside { units: vec![UnitId(1), UnitId(3)] }));
    events.push(event(0, EventKind::Rewound { to: Seq(3) }));
    events.push(event(0, walked()));
    events.push(event(0, EventKind::Joined { children: vec![UnitId(1), UnitId(3)] }));
    events.push(event(0, notice("the key is old")));
    let end = InvocationEnd {
        outcome: Outcome::Cancelled { ran: true },
        text: "so far".into(),
        cancel: Some(CancelReason::Terminate),
        unfinished: vec![UnitId(2)],
    };
    events.push(event(0, EventKind::InvocationEnded(Arc::new(end))));
    let chosen = Chosen { model: "offline".into(), mode: "plan".into() };
    events.push(event(0, EventKind::Chosen(chosen)));
    events.push(event(0, EventKind::Left));
    events.push(event(0, EventKind::HookRan(Arc::new(hook_ran()))));
    events.push(event(0, EventKind::Offered(Arc::new(offered()))));
    for (seq, event) in (1..).zip(&mut events) {
        (event.seq, event.at) = (Seq(seq), UnixMillis(1_700_000_000_000 + seq));
    }
    events
}

fn offered() -> Offered {
    let tool = OfferedTool {
        name: "mcp__files__read".into(),
        server: "files".into(),
        remote: "read".into(),
        description: "Reads \"it\".".into(),
        parameters: r#"{"type":"object"}"#.into(),
    };
    let server = ServerGlance { name: "files".into(), status: ServerStatus::NeedsAuth };
    Offered { servers: vec![server], tools: Some([tool].into()) }
}

fn any_offered() -> impl Strategy<Value = EventKind> {
    let status = prop::sample::select(ServerStatus::ALL.to_vec());
    let server = (any_text(), status).prop_map(|(name, status)| ServerGlance { name, status });
    let tool = [any_text(), any_text(), any_text(), any_text(), any_text()].prop_map(
        |[name, server, remote, description, parameters]| OfferedTool {
            name,
            server,
            remote,
            description,
            parameters,
        },
    );
    let tools = prop::option::of(prop::collection::vec(tool, 0..3));
    (prop::collection::vec(server, 0..3), tools).prop_map(|(servers, tools)| {
        let tools = tools.map(Into::into);
        EventKind::Offered(Arc::new(Offered { servers, tools }))
    })
}

fn compaction() -> Compaction {
    Compaction {
        trigger: CompactionTrigger::Manual,
        text: "what was said".into(),
        kept_prompts: 1,
        tokens_before: 90_000,
        tokens_after: 8_000,
        model: "offline".into(),
        usage: Usage { input: 90_000, output: 800, ..Usage::default() },
        took_ms: 4_000,
    }
}

/// What a person decides.
fn of_a_person() -> [EventKind; 6] {
    let denied = EventKind::Denied {
        call: "call-3".into(),
        tool: "bash".into(),
        arguments: "{}".into(),
        reason: "not asked for".into(),
    };
    let (id, question) = (QuestionId(Seq(17)), Question::Batch { slots: 40 });
    let asked = EventKind::Asked { id, question: question.clone() };
    let answered = EventKind::Answered { id, question, answer: Verdict::No };
    let question =
        call_question("call-3".into(), ["bash", "cargo test", "it writes"].map(Into::into));
    let terms = Terms {
        arguments: Some("{\"command\":\"cargo check\"}".into()),
        lasting: Lasting::Session,
        rules: vec!["Bash(cargo *)".into()],
    };
    let [refused, on_terms, covered] = [
        Verdict::NoBecause("not now".into()),
        Verdict::YesWith(Arc::new(terms)),
        Verdict::Covered(QuestionId(Seq(9))),
    ]
    .map(|answer| EventKind::Answered { id, question: question.clone(), answer });
    [denied, asked, answered, refused, on_terms, covered]
}

fn call_question(call: CallId, words: [Arc<str>; 3]) -> Question {
    let [tool, subject, reason] = words;
    Question::Call(Arc::new(CallQuestion {
        call,
        tool,
        subject,
        arguments: "{}".into(),
        reason,
        rules: vec!["Bash(cargo test *)".into()],
        confinement: Some(Confinement::NONE),
    }))
}

/// What a person says to a form.
fn of_a_form() -> [EventKind; 2] {
    let mut form = form(&["Which database?"]);
    form.fields.push(Field {
        takes: Takes::Number { is_whole: true },
        may_be_empty: true,
        ..field("How many?", &[], false)
    });
    form.fields.push(Field { takes: Takes::Words, ..field("Why?", &[], false) });
    let (id, question) = (QuestionId(Seq(17)), Question::Form(Arc::new(form)));
    let given = [Entry::Picked(vec![0]), Entry::Nothing, Entry::Words("it is there".into())];
    let answer = Verdict::Filled(given.into());
    let asked = EventKind::Asked { id, question: question.clone() };
    [asked, EventKind::Answered { id, question, answer }]
}

/// What a unit does to files.
fn of_files() -> [EventKind; 4] {
    let state = |bytes: &[u8]| Some(FileState { digest: Digest::of(bytes), mode: 0o644 });
    let change = FileChange {
        by: ChangedBy::Call("call-2".into()),
        path: "/w/new/a".into(),
        before: None,
        after: state(b"new"),
        directories: 1,
    };
    let undone = FileChange {
        by: ChangedBy::Undo { from: Seq(7) },
        path: "/w/a".into(),
        before: state(b"new"),
        after: state(b"old"),
        directories: 0,
    };
    let kept = Worktree::Kept {
        path: "/t/1".into(),
        patch: "/t/1.patch".into(),
        conflicts: vec!["a".into()],
    };
    [
        EventKind::FileChanged(Arc::new(change)),
        EventKind::FileChanged(Arc::new(undone)),
        EventKind::Worktree(Worktree::Made { path: "/t/1".into(), base: "abc".into() }),
        EventKind::Worktree(kept),
    ]
}

fn turn_of_a_slot() -> Vec<Event> {
    let tokens: TokenSet = [1, 2, 3, 5].into_iter().map(Token).collect();
    let branch = Branch { tokens, path: BranchPath::from_text("main.review") };
    let cost = Cost { usd: Usd(50), is_partial: true };
    let usage = Usage { input: 10, output: 20, cache_read: 30, cache_creation: 40, cost };
    let call =
        Call { id: "call-2".into(), tool: "Read".into(), arguments: "{\"path\":\"a\"".into() };
    let sealed = Some(Sealed { by: "responses".into(), json: "[1]".into() });
    let reply = Reply { text: "reading".into(), thinking: "hm".into(), calls: vec![call], sealed };
    let replied = Replied {
        reply: Arc::new(reply),
        model: "offline".into(),
        usage,
        stop: StopReason::ToolUse,
        took_ms: 12,
    };
    let image = Image { kind: ImageKind::Png, base64: "aGk=".into() };
    let output = Arc::new(Output { images: vec![image], ..Output::error("no such file") });
    let share = PrefixShare { shared_bytes: 90, total_bytes: 100 };
    let end = end_of_a_slot(usage, share);
    let [throttled, admitted, failed] = of_a_request(usage);
    let [denied, asked, answered, refused, on_terms, covered] = of_a_person();
    let [form_asked, form_filled] = of_a_form();
    let [changed, undone, made, kept] = of_files();
    let [started, finished] = of_a_call(output);
    let kinds = [
        EventKind::UnitQueued(head_of_a_slot()),
        EventKind::UnitStarted,
        EventKind::Lost { worker: "w-7".into(), attempt: 1 },
        EventKind::TurnStarted { turn: 1 },
        EventKind::PrefixShared(share),
        throttled,
        admitted,
        failed,
        EventKind::Replied(replied),
        started,
        finished,
        denied,
        asked,
        answered,
        refused,
        on_terms,
        covered,
        form_asked,
        form_filled,
        changed,
        undone,
        made,
        kept,
        EventKind::UnitEnded(Arc::new(end)),
    ];
    let slot = |kind| Event { unit: UnitId(3), branch: branch.clone(), ..event(0, kind) };
    kinds.into_iter().map(slot).collect()
}

fn end_of_a_slot(usage: Usage, share: PrefixShare) -> UnitEnd {
    UnitEnd {
        outcome: Outcome::failed(FailureKind::MaxTurns, "100 turns"),
        text: "so far".into(),
        usage,
        turns: 100,
        tool_uses: 7,
        duration_ms: 900,
        output_file: Some("/tmp/out.md".into()),
        share: Some(ForkShare { prefix: share, cached_tokens: 8 }),
    }
}

fn head_of_a_slot() -> UnitHead {
    UnitHead {
        description: "review".into(),
        agent: "reviewer".into(),
        call: Some("call-1".into()),
        parent: UnitId::MAIN,
        depth: 1,
        slot: Some(SlotPosition { index: 2, total: 3 }),
        origin: Origin::Continued(UnitId(2)),
        is_background: true,
        again: Some(UnitId(2)),
        step: Some(StepMark { key: "review[3]/verify#2".into(), digest: StepDigest(0xfeed << 64) }),
    }
}

/// A flow that goes on with an earlier walk.
fn walked() -> EventKind {
    EventKind::Walked(Arc::new(FlowHead {
        name: "audit".into(),
        inputs: r#"{"base":"main"}"#.into(),
        steps: 3,
        goes_on: true,
    }))
}

/// What becomes of a call.
fn of_a_call(output: Arc<Output>) -> [EventKind; 2] {
    let started = EventKind::ToolStarted {
        call: "call-2".into(),
        tool: "read".into(),
        subject: "a".into(),
        confinement: Some(Confinement::NONE),
    };
    let (call, tool) = ("call-2".into(), "read".into());
    [started, EventKind::ToolFinished { call, tool, output, took_ms: 3 }]
}

/// What happens to a request before its answer.
fn of_a_request(usage: Usage) -> [EventKind; 3] {
    [
        EventKind::Throttled(Throttled {
            model: "offline".into(),
            cause: ThrottleCause::Provider,
            wait_ms: Some(1_500),
        }),
        EventKind::Admitted { waited_ms: 1_600 },
        EventKind::RequestFailed(Arc::new(RequestFailed {
            model: "offline".into(),
            attempt: 2,
            status: Some(529),
            message: "HTTP 529: overloaded".into(),
            usage,
            took_ms: 7,
            next: AfterFailure::Retry { delay_ms: 800, most: 10 },
        })),
    ]
}

/// Any event.
pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    let tokens = prop::collection::vec(1_u64..40, 0..6);
    (any::<(u64, u64, u32)>(), any_unit(), tokens, any_text(), any_kind()).prop_map(
        |((seq, at, invocation), unit, tokens, path, kind)| Event {
            seq: Seq(seq),
            at: UnixMillis(at),
            invocation: Invocation(invocation),
            unit,
            branch: Branch {
                tokens: tokens.into_iter().map(Token).collect::<TokenSet>(),
                path: BranchPath::from_text(&path),
            },
            kind,
        },
    )
}

fn any_kind() -> impl Strategy<Value = EventKind> {
    prop_oneof![any_head(), any_of_a_turn(), any_of_a_call(), any_hook(), any_end(), any_offered()]
}

fn any_text() -> impl Strategy<Value = Arc<str>> {
    prop::collection::vec(any::<char>(), 0..12)
        .prop_map(|characters| characters.into_iter().collect::<String>().into())
}

fn any_unit() -> impl Strategy<Value = UnitId> {
    any::<u32>().prop_map(UnitId)
}

fn any_units() -> impl Strategy<Value = Vec<UnitId>> {
    prop::collection::vec(any_unit(), 0..4)
}

fn any_usage() -> impl Strategy<Value = Usage> {
    (any::<[u64; 5]>(), any::<bool>()).prop_map(
        |([input, output, cache_read, cache_creation, nano], is_partial)| {
            let cost = Cost { usd: Usd(nano), is_partial };
            Usage { input, output, cache_read, cache_creation, cost }
        },
    )
}

fn any_origin() -> impl Strategy<Value = Origin> {
    prop_oneof![
        Just(Origin::Prompt),
        Just(Origin::Visible),
        Just(Origin::Fork),
        any_unit().prop_map(Origin::Continued),
        Just(Origin::Steps),
        any_unit().prop_map(Origin::Reused),
    ]
}

fn any_step() -> impl Strategy<Value = StepMark> {
    (any_text(), any::<u128>())
        .prop_map(|(key, digest)| StepMark { key, digest: StepDigest(digest) })
}

fn any_share() -> impl Strategy<Value = PrefixShare> {
    any::<[u64; 2]>()
        .prop_map(|[shared_bytes, total_bytes]| PrefixShare { shared_bytes, total_bytes })
}

fn any_fork_share() -> impl Strategy<Value = ForkShare> {
    (any_share(), any::<u64>())
        .prop_map(|(prefix, cached_tokens)| ForkShare { prefix, cached_tokens })
}

fn any_compaction() -> impl Strategy<Value = Compaction> {
    let trigger = prop::sample::select(CompactionTrigger::ALL.to_vec());
    let numbers = any::<(u32, u64, u64, u64)>();
    (trigger, [any_text(), any_text()], numbers, any_usage()).prop_map(
        |(trigger, [text, model], (kept_prompts, tokens_before, tokens_after, took_ms), usage)| {
            Compaction {
                trigger,
                text,
                kept_prompts,
                tokens_before,
                tokens_after,
                model,
                usage,
                took_ms,
            }
        },
    )
}

fn any_sandbox() -> impl Strategy<Value = SandboxHead> {
    let modes = prop::sample::select(&Insistence::ALL[..]);
    let networks = prop::sample::select(&NetworkAccess::ALL[..]);
    let backends = prop::sample::select(&Backend::ALL[..]);
    (modes, networks, backends).prop_map(|(mode, network, installed)| SandboxHead {
        mode,
        network,
        installed,
    })
}

fn any_head() -> impl Strategy<Value = EventKind> {
    let slot = prop::option::of(any::<(u32, u32)>());
    prop_oneof![
        (
            [any_text(), any_text(), any_text(), any_text(), any_text()],
            prop::option::of(any_text()),
            prop::option::of(any_sandbox())
        )
            .prop_map(|([session, version, cwd, model, mode], forked_from, sandbox)| {
                EventKind::SessionOpened(SessionHead {
                    session: SessionId(session),
                    version,
                    cwd,
                    model,
                    mode,
                    forked_from: forked_from.map(SessionId),
                    sandbox,
                })
            }),
        (
            [any_text(), any_text()],
            prop::option::of(any_text()),
            (any_unit(), prop::option::of(any_unit())),
            prop::option::of(any_step()),
            any::<(u32, bool)>(),
            slot,
            any_origin()
        )
            .prop_map(
                |(
                    [description, agent],
                    call,
                    (parent, again),
                    step,
                    (depth, is_background),
                    slot,
                    origin,
                )| {
                    EventKind::UnitQueued(UnitHead {
                        description,
                        agent,
                        call: call.map(CallId),
                        parent,
                        depth,
                        slot: slot.map(|(index, total)| SlotPosition { index, total }),
                        origin,
                        is_background,
                        again,
                        step,
                    })
                }
            ),
    ]
}

fn any_of_a_turn() -> impl Strategy<Value = EventKind> {
    let call = (any_text(), any_text(), any_text()).prop_map(|(id, tool, arguments)| Call {
        id: (&*id).into(),
        tool: tool.to_string(),
        arguments: arguments.to_string(),
    });
    let stop = prop::sample::select(vec![
        StopReason::EndTurn,
        StopReason::ToolUse,
        StopReason::MaxTokens,
        StopReason::Refusal,
    ]);
    let replied = (
        any_text(),
        any_text(),
        prop::collection::vec(call, 0..3),
        any_usage(),
        stop,
        any::<u64>(),
    )
        .prop_map(|(text, thinking, calls, usage, stop, took_ms)| {
            let sealed = (!thinking.is_empty())
                .then(|| Sealed { by: Arc::clone(&text), json: Arc::clone(&thinking) });
            let (text, thinking) = (text.to_string(), thinking.to_string());
            EventKind::Replied(Replied {
                model: text.as_str().into(),
                reply: Arc::new(Reply { text, thinking, calls, sealed }),
                usage,
                stop,
                took_ms,
            })
        });
    prop_oneof![
        (any_text(), proptest::option::of(any_text()))
            .prop_map(|(prompt, message)| EventKind::InvocationStarted { prompt, message }),
        any_prompt().prop_map(EventKind::Prompted),
        (any_units(), any_text(), any::<u32>())
            .prop_map(|(children, text, wrote)| EventKind::Notified { children, text, wrote }),
        any_text().prop_map(|text| EventKind::UserWrote { text }),
        Just(EventKind::UserTookBack),
        any_compaction().prop_map(|compaction| EventKind::Compacted(Arc::new(compaction))),
        any_share().prop_map(EventKind::PrefixShared),
        Just(EventKind::UnitStarted),
        (any_text(), any::<u32>())
            .prop_map(|(worker, attempt)| EventKind::Lost { worker, attempt }),
        any::<u32>().prop_map(|turn| EventKind::TurnStarted { turn }),
        any_of_a_request(),
        replied,
    ]
}

fn any_of_a_request() -> impl Strategy<Value = EventKind> {
    let cause = prop::sample::select(ThrottleCause::ALL.to_vec());
    let throttled =
        (any_text(), cause, any::<Option<u64>>()).prop_map(|(model, cause, wait_ms)| {
            EventKind::Throttled(Throttled { model, cause, wait_ms })
        });
    let next = prop_oneof![
        any::<(u64, u32)>().prop_map(|(delay_ms, most)| AfterFailure::Retry { delay_ms, most }),
        any_text().prop_map(|model| AfterFailure::Fallback { model }),
        Just(AfterFailure::Compact),
        Just(AfterFailure::LeaveOut),
        Just(AfterFailure::TooLong),
        Just(AfterFailure::Nothing),
    ];
    let failed = (any_text(), any_text(), any::<(u32, Option<u16>, u64)>(), any_usage(), next)
        .prop_map(|(model, message, (attempt, status, took_ms), usage, next)| {
            EventKind::RequestFailed(Arc::new(RequestFailed {
                model,
                attempt,
                status,
                message,
                usage,
                took_ms,
                next,
            }))
        });
    let admitted = any::<u64>().prop_map(|waited_ms| EventKind::Admitted { waited_ms });
    prop_oneof![throttled, admitted, failed]
}

fn any_question() -> impl Strategy<Value = EventKind> {
    let lasting = prop::sample::select(Lasting::ALL.to_vec());
    let rules = prop::collection::vec(any_text(), 0..3);
    let terms =
        (prop::option::of(any_text()), lasting, rules).prop_map(|(arguments, lasting, rules)| {
            Verdict::YesWith(Arc::new(Terms { arguments, lasting, rules }))
        });
    let given = prop_oneof![
        Just(Entry::Nothing),
        prop::collection::vec(any::<u32>(), 0..3).prop_map(Entry::Picked),
        any_text().prop_map(Entry::Words),
    ];
    let answer = prop_oneof![
        prop::collection::vec(given, 0..3).prop_map(|given| Verdict::Filled(given.into())),
        prop::sample::select(Verdict::PLAIN.to_vec()),
        any_text().prop_map(Verdict::NoBecause),
        any::<u64>().prop_map(|by| Verdict::Covered(QuestionId(Seq(by)))),
        terms,
    ];
    let call = [any_text(), any_text(), any_text(), any_text()].prop_map(
        |[call, tool, subject, reason]| call_question((&*call).into(), [tool, subject, reason]),
    );
    let asked =
        (any_text(), any::<[bool; 3]>()).prop_map(|(text, [several, own_words, may_be_empty])| {
            let mut asked = field(&text, &[&text], several);
            asked.may_be_empty = may_be_empty;
            if !own_words {
                asked.takes = Takes::Number { is_whole: several };
            }
            asked
        });
    let filled = prop::collection::vec(asked, 0..3)
        .prop_map(|fields| Question::Form(Arc::new(Form { fields, ..form(&[]) })));
    let batch = any::<u32>().prop_map(|slots| Question::Batch { slots });
    let question = prop_oneof![batch, call, filled];
    (any::<u64>(), question, prop::option::of(answer)).prop_map(|(id, question, answer)| {
        let id = QuestionId(Seq(id));
        match answer {
            Some(answer) => EventKind::Answered { id, question, answer },
            None => EventKind::Asked { id, question },
        }
    })
}

fn any_prompt() -> impl Strategy<Value = Prompt> {
    (any_text(), any_images(), any::<usize>()).prop_map(|(text, images, at)| {
        let images = images.into_iter().map(|image| Placed { at, image }).collect();
        Prompt { text, images }
    })
}

fn any_images() -> impl Strategy<Value = Vec<Image>> {
    let image = (prop::sample::select(ImageKind::ALL.to_vec()), any_text())
        .prop_map(|(kind, base64)| Image { kind, base64 });
    prop::collection::vec(image, 0..2)
}

fn any_of_a_call() -> impl Strategy<Value = EventKind> {
    let level = prop::sample::select(vec![NoticeLevel::Info, NoticeLevel::Warning]);
    prop_oneof![
        [any_text(), any_text(), any_text()].prop_map(|[call, tool, subject]| {
            let confinement = Some(Confinement::NONE);
            EventKind::ToolStarted { call: (&*call).into(), tool, subject, confinement }
        }),
        ([any_text(), any_text(), any_text()], any::<bool>(), any_images(), any::<u64>()).prop_map(
            |([call, tool, text], is_error, images, took_ms)| EventKind::ToolFinished {
                call: (&*call).into(),
                tool,
                output: Arc::new(Output { text: text.to_string(), is_error, images }),
                took_ms,
            }
        ),
        [any_text(), any_text(), any_text(), any_text()].prop_map(
            |[call, tool, arguments, reason]| EventKind::Denied {
                call: (&*call).into(),
                tool,
                arguments,
                reason
            }
        ),
        any_question(),
        (level, any_text()).prop_map(|(level, text)| EventKind::Notice { level, text }),
    ]
}

fn any_hook() -> impl Strategy<Value = EventKind> {
    let event = prop::sample::select(HookEvent::ALL.to_vec());
    let outcome = prop::sample::select(HookOutcome::ALL.to_vec());
    let decision = prop::option::of(prop::sample::select(HookDecision::ALL.to_vec()));
    let texts = [any_text(), any_text(), any_text(), any_text()];
    let rest = (prop::option::of(any_text()), any::<(Option<i32>, bool, u64)>());
    (event, outcome, decision, texts, rest).prop_map(
        |(event, outcome, decision, [hook, reason, context, message], (call, numbers))| {
            let (exit_code, changes_input, took_ms) = numbers;
            let call = call.map(|call| (&*call).into());
            EventKind::HookRan(Arc::new(HookRan {
                event,
                hook,
                call,
                outcome,
                exit_code,
                decision,
                reason,
                context,
                message,
                changes_input,
                took_ms,
            }))
        },
    )
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    let kind = prop::sample::select(FailureKind::ALL.to_vec());
    prop_oneof![
        any_text().prop_map(|text| Outcome::Done { text }),
        (kind, any_text()).prop_map(|(kind, message)| Outcome::failed(kind, message)),
        any::<bool>().prop_map(|ran| Outcome::Cancelled { ran }),
        Just(Outcome::Interrupted),
    ]
}

fn any_end() -> impl Strategy<Value = EventKind> {
    let counts = any::<(u32, u32, u64)>();
    let cancel = prop::option::of(prop::sample::select(CancelReason::ALL.to_vec()));
    prop_oneof![
        (
            any_outcome(),
            any_text(),
            any_usage(),
            counts,
            prop::option::of(any_text()),
            prop::option::of(any_fork_share())
        )
            .prop_map(
                |(outcome, text, usage, (turns, tool_uses, duration_ms), output_file, share)| {
                    EventKind::UnitEnded(Arc::new(UnitEnd {
                        outcome,
                        text,
                        usage,
                        turns,
                        tool_uses,
                        duration_ms,
                        output_file,
                        share,
                    }))
                }
            ),
        any_units().prop_map(|units| EventKind::SetAside { units }),
        any::<u64>().prop_map(|to| EventKind::Rewound { to: Seq(to) }),
        ([any_text(), any_text()], any::<(u32, bool)>()).prop_map(
            |([name, inputs], (steps, goes_on))| {
                EventKind::Walked(Arc::new(FlowHead { name, inputs, steps, goes_on }))
            }
        ),
        (any_text(), any_text())
            .prop_map(|(model, mode)| EventKind::Chosen(Chosen { model, mode })),
        Just(EventKind::Left),
        any_units().prop_map(|children| EventKind::Joined { children }),
        (any_outcome(), any_text(), cancel, any_units()).prop_map(
            |(outcome, text, cancel, unfinished)| {
                EventKind::InvocationEnded(Arc::new(InvocationEnd {
                    outcome,
                    text,
                    cancel,
                    unfinished,
                }))
            }
        ),
    ]
}
