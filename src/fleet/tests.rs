//! Both ends of a slot's line, tied together without a server.

mod lost;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::far::{Far, Heard, Rest, Ties};
use super::near::{Attempt, Claimant, Ended, FromFar, Near};
use super::wire::{Ask, AskId, Claimed, FarEnd, Frame, Had, ToSlot, Word};
use crate::branch::{Branch, Token};
use crate::event::{NoticeLevel, Origin, Outcome, Piece, Replied, UnitId};
use crate::line::testing::plain;
use crate::line::{
    Child, FromUnit, LINE_CAP, Line, News, Order, RequestLeave, Seat, Strand, Tend, Told,
    UnitEvent, Wait,
};
use crate::message::{StopReason, Usage};

const SLOT: UnitId = UnitId(7);
const LEASE: Duration = Duration::from_secs(10);

/// A slot with both ends of its line, and who is at them.
struct Tied {
    /// The slot's own line, on the worker.
    line: Line,
    /// What the dispatcher hears.
    dispatcher: mpsc::Receiver<FromUnit>,
    /// What arrives at the coordinator besides frames.
    arriving: mpsc::Sender<FromFar>,
    heard: Arc<Heard>,
    /// Stops the slot, at the coordinator.
    near_cancel: CancellationToken,
    /// The same, on the worker.
    far_cancel: CancellationToken,
    /// Sets the slot aside, at the coordinator.
    near_aside: CancellationToken,
    /// The same, on the worker.
    far_aside: CancellationToken,
    over: Option<oneshot::Sender<()>>,
    /// Says that the slot was sent a message.
    first_news: Option<oneshot::Sender<()>>,
    far: JoinHandle<Rest>,
    near: JoinHandle<Ended>,
    /// How many messages to the slot are lost from now on.
    loses: Arc<AtomicUsize>,
    is_connected: Arc<AtomicBool>,
    frames: Arc<Mutex<Vec<Frame>>>,
}

fn seat(unit: UnitId, cancel: CancellationToken) -> Seat {
    let branch = Branch::root();
    Seat { unit, branch, origin: Origin::Prompt, cancel, aside: CancellationToken::new() }
}

fn tied() -> Tied {
    tied_as(false, true)
}

/// Ties both ends of a slot. Nothing may limit what that uses, and its worker may not
/// have waited for it.
fn tied_as(is_unlimited: bool, is_awaited: bool) -> Tied {
    let (near_cancel, far_cancel) = (CancellationToken::new(), CancellationToken::new());
    let (sender, said) = mpsc::channel(LINE_CAP);
    let (to, told) = mpsc::channel(64);
    let (frames, going) = mpsc::channel::<Frame>(1);
    let (over, is_over) = oneshot::channel();
    let heard = Arc::new(Heard::new(Arc::<Notify>::default()));
    let [far_seat, near_seat] = [&far_cancel, &near_cancel].map(|it| seat(SLOT, it.clone()));
    let (near_aside, far_aside) = (near_seat.aside.clone(), far_seat.aside.clone());
    let far = Far::new(&far_seat, (1, is_unlimited), Arc::clone(&heard));
    let far = tokio::spawn(far.relay(Ties { said, told, frames, over: is_over }));
    let (arriving, mut from) = mpsc::channel(64);
    let all = carried(going, arriving.clone());
    let (sender_near, dispatcher) = mpsc::channel(LINE_CAP);
    let (first_news, news) = oneshot::channel();
    let (loses, is_connected) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    let (lost, connected) = (Arc::clone(&loses), Arc::clone(&is_connected));
    let begun = Instant::now();
    let near = tokio::spawn(async move {
        let attempt = Attempt {
            run: &"run".into(),
            number: 1,
            worker: &"first".into(),
            lease: LEASE,
            is_awaited,
            connected: &|| connected.load(Ordering::Relaxed).then_some(begun),
            send: &|message: &ToSlot| {
                let message = ToSlot::decode(&message.encode()).unwrap();
                if lost.load(Ordering::Relaxed) == 0 {
                    let _ = to.try_send(message);
                } else {
                    lost.fetch_sub(1, Ordering::Relaxed);
                }
            },
            grant: &|| Claimed::Over,
        };
        let line = Line::new(UnitId::MAIN, sender_near);
        Near::new(&line, &near_seat, news, attempt).relay(&mut from).await
    });
    Tied {
        line: Line::new(SLOT, sender),
        dispatcher,
        arriving,
        heard,
        near_cancel,
        far_cancel,
        near_aside,
        far_aside,
        over: Some(over),
        first_news: Some(first_news),
        far,
        near,
        loses,
        is_connected,
        frames: all,
    }
}

/// Carries frames as the wire does, and keeps them.
fn carried(
    mut going: mpsc::Receiver<Frame>,
    arriving: mpsc::Sender<FromFar>,
) -> Arc<Mutex<Vec<Frame>>> {
    let all = Arc::<Mutex<Vec<Frame>>>::default();
    let kept = Arc::clone(&all);
    tokio::spawn(async move {
        while let Some(frame) = going.recv().await {
            let frame = Frame::decode(&frame.encode()).unwrap();
            kept.lock().unwrap().push(frame.clone());
            let _ = arriving.send(FromFar::Frame(frame)).await;
        }
    });
    all
}

impl Tied {
    async fn heard(&mut self) -> FromUnit {
        self.dispatcher.recv().await.unwrap()
    }

    async fn notice(&mut self) -> (UnitId, String) {
        let FromUnit { unit, event } = self.heard().await;
        let UnitEvent::Told(Told::Notice { level: _, text }) = event else {
            panic!("it is no notice: {event:?}")
        };
        (unit, text.to_string())
    }

    async fn grant_a_request(&mut self) {
        let UnitEvent::MayRequest { turn: Some(1), reply } = self.heard().await.event else {
            panic!("it is asked for leave")
        };
        reply.send(Ok(RequestLeave { calls_are_limited: true })).unwrap();
    }
}

fn notice(text: &str) -> Told {
    Told::Notice { level: NoticeLevel::Info, text: text.into() }
}

fn frame(seq: u64, unit: UnitId, text: &str) -> FromFar {
    let words = vec![(unit, Word::Told(notice(text)))];
    FromFar::Frame(Frame { attempt: 1, seq, words })
}

fn replied() -> Replied {
    Replied {
        reply: Arc::default(),
        stop: StopReason::EndTurn,
        usage: Usage::default(),
        model: "m".into(),
        took_ms: 1,
    }
}

fn end(attempt: u32, after: u64) -> FarEnd {
    let outcome = Outcome::Done { text: "done".into() };
    FarEnd { attempt, after, words: Vec::new(), outcome, changes: None, left: None }
}

#[tokio::test(start_paused = true)]
async fn what_a_slot_asks_is_answered_as_if_it_were_here() {
    let mut tied = tied();
    let line = tied.line.clone();
    let asking = tokio::spawn(async move { line.may_request(Some(1)).await });
    tied.grant_a_request().await;
    let leave = asking.await.unwrap();
    assert_eq!(leave, Some(Ok(RequestLeave { calls_are_limited: true })));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_dropped_there_is_dropped_here() {
    let mut tied = tied();
    let line = tied.line.clone();
    let asking = tokio::spawn(async move { line.may_call(2).await });
    let UnitEvent::MayCall { count: 2, reply } = tied.heard().await.event else {
        panic!("it asks")
    };
    drop(reply);
    assert_eq!(asking.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_is_said_again_once_the_worker_says_how_far_it_has_heard() {
    let mut tied = tied();
    tied.loses.store(1, Ordering::Relaxed);
    let line = tied.line.clone();
    let asking = tokio::spawn(async move { line.may_request(Some(1)).await });
    tied.grant_a_request().await;
    tokio::task::yield_now().await;
    assert_eq!(tied.heard.number(), 0);
    // The worker beats until it has heard.
    while tied.heard.number() == 0 {
        let heard = tied.heard.number();
        tied.arriving.send(FromFar::Beat { attempt: 1, heard }).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(asking.await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn frames_are_heard_once_and_in_order_whatever_the_way_does_to_them() {
    let mut tied = tied();
    for (seq, text) in [(2, "two"), (1, "one"), (1, "one"), (3, "three"), (2, "two")] {
        tied.arriving.send(frame(seq, SLOT, text)).await.unwrap();
    }
    tied.arriving.send(FromFar::End(end(1, 3))).await.unwrap();
    for expected in ["one", "two", "three"] {
        assert_eq!(tied.notice().await, (SLOT, expected.to_owned()));
    }
    assert!(matches!(tied.near.await.unwrap(), Ended::Over(_)));
    assert!(tied.dispatcher.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_end_that_overtakes_frames_waits_for_them() {
    let mut tied = tied();
    tied.arriving.send(FromFar::End(end(1, 2))).await.unwrap();
    tied.arriving.send(frame(1, SLOT, "one")).await.unwrap();
    assert_eq!(tied.notice().await.1, "one");
    tokio::task::yield_now().await;
    assert!(!tied.near.is_finished());
    tied.arriving.send(frame(2, SLOT, "two")).await.unwrap();
    assert_eq!(tied.notice().await.1, "two");
    assert!(matches!(tied.near.await.unwrap(), Ended::Over(_)));
}

#[tokio::test(start_paused = true)]
async fn a_worker_speaks_for_nobody_that_it_was_not_given() {
    let mut tied = tied();
    for (seq, unit) in [(1, UnitId::MAIN), (2, UnitId(8)), (3, SLOT)] {
        tied.arriving.send(frame(seq, unit, "I am the slot")).await.unwrap();
    }
    assert_eq!(tied.notice().await.0, SLOT);
}

#[tokio::test(start_paused = true)]
async fn what_a_slot_starts_may_speak_and_is_stopped_from_here() {
    let mut tied = tied();
    let line = tied.line.clone();
    let declaring = tokio::spawn(async move { line.declare(None, vec![plain("nested")]).await });
    let UnitEvent::Declare { reply, .. } = tied.heard().await.event else { panic!("declared") };
    let nested = CancellationToken::new();
    reply.send(vec![seat(UnitId(9), nested.clone())]).unwrap();
    let seats = declaring.await.unwrap().unwrap();
    let far = &seats[0];
    assert_eq!(far.unit, UnitId(9));
    tied.line.of(far.unit).tell(notice("from below")).await;
    assert_eq!(tied.notice().await, (UnitId(9), "from below".to_owned()));
    nested.cancel();
    far.cancel.cancelled().await;
    assert!(!tied.far_cancel.is_cancelled());
    tied.near_cancel.cancel();
    tied.far_cancel.cancelled().await;
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_set_aside_hears_of_it_and_goes_on() {
    let mut tied = tied();
    tied.loses.store(1, Ordering::Relaxed);
    tied.near_aside.cancel();
    tokio::task::yield_now().await;
    assert!(!tied.far_aside.is_cancelled());
    beat(&tied).await;
    tied.far_aside.cancelled().await;
    assert!(!tied.far_cancel.is_cancelled());
    tied.line.tell(notice("I go on")).await;
    assert_eq!(tied.notice().await.1, "I go on");
}

#[tokio::test(start_paused = true)]
async fn a_worker_asks_nothing_about_others() {
    let mut tied = tied();
    let others = [
        Ask::Join { children: vec![UnitId::MAIN] },
        Ask::Join { children: vec![SLOT] },
        Ask::Taken { units: vec![UnitId(8)] },
        Ask::Reserve { count: u64::MAX },
        Ask::Ended { outcome: Outcome::Interrupted, output_file: None },
        Ask::MayStart,
        Ask::Declare {
            call: None,
            children: vec![Child { strand: Strand::Reserved(Token(1)), ..plain("nested") }],
            takes_orders: false,
        },
    ];
    for (seq, ask) in (1..).zip(others) {
        let words = vec![(SLOT, Word::Ask { id: AskId(seq), ask })];
        tied.arriving.send(FromFar::Frame(Frame { attempt: 1, seq, words })).await.unwrap();
    }
    tied.arriving.send(frame(8, SLOT, "all was refused")).await.unwrap();
    assert_eq!(tied.notice().await.1, "all was refused");
}

async fn beat(tied: &Tied) {
    tied.arriving.send(FromFar::Beat { attempt: 1, heard: 0 }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn text_that_is_being_written_goes_in_few_frames_and_not_behind_its_answer() {
    let mut tied = tied();
    for piece in ["It ", "is ", "so."] {
        tied.line.tell(UnitEvent::Delta(Piece::Text(piece.into()))).await;
    }
    let UnitEvent::Delta(Piece::Text(text)) = tied.heard().await.event else { panic!("text") };
    assert_eq!(&*text, "It is so.");
    tied.line.tell(UnitEvent::Delta(Piece::Text("Or ".into()))).await;
    tied.line.tell(UnitEvent::Replied(replied())).await;
    assert!(matches!(tied.heard().await.event, UnitEvent::Replied(_)));
    assert_eq!(tied.frames.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_goes_with_what_somebody_waits_for() {
    let mut tied = tied();
    tied.line.tell(notice("one")).await;
    tied.line.tell(notice("two")).await;
    let line = tied.line.clone();
    let asking = tokio::spawn(async move { line.may_request(Some(1)).await });
    let begun = Instant::now();
    assert_eq!(tied.notice().await.1, "one");
    assert_eq!(tied.notice().await.1, "two");
    tied.grant_a_request().await;
    assert!(asking.await.unwrap().is_some());
    assert_eq!((tied.frames.lock().unwrap().len(), begun.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_nothing_limits_asks_for_no_leave_and_its_turns_are_told() {
    let mut tied = tied_as(true, true);
    let leave = tied.line.may_request(Some(1)).await;
    assert_eq!(leave, Some(Ok(RequestLeave { calls_are_limited: false })));
    assert_eq!(tied.line.may_request(None).await, leave);
    assert!(matches!(tied.heard().await.event, UnitEvent::TurnStarted { turn: 1 }));
    tied.near_cancel.cancel();
    tied.far_cancel.cancelled().await;
    assert_eq!(tied.line.may_request(Some(2)).await, None, "a cancel has begun");
    // Nor does what it starts, which may have limits of its own, go without.
    let Tied { line, dispatcher, .. } = &mut tied;
    let (declaring, seats) = tokio::join!(line.declare(None, vec![plain("nested")]), async {
        let UnitEvent::Declare { reply, .. } = dispatcher.recv().await.unwrap().event else {
            panic!("it declares")
        };
        reply.send(vec![seat(UnitId(9), CancellationToken::new())])
    });
    seats.unwrap();
    let nested = line.of(declaring.unwrap()[0].unit);
    let asking = tokio::spawn(async move { nested.may_request(Some(1)).await });
    tied.grant_a_request().await;
    assert!(asking.await.unwrap().is_some());
}

/// Hears that a unit asks for news, and says that there are some.
async fn gives_news(tied: &mut Tied, to: UnitId) {
    let FromUnit { unit, event } = tied.heard().await;
    let UnitEvent::Tend(Tend::News { wait: Wait::No, reply }) = event else {
        panic!("it asks for news: {event:?}")
    };
    assert_eq!(unit, to);
    reply.send(News::Message("heard".into())).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slot_asks_for_news_once_it_can_have_some() {
    let mut tied = tied();
    for wait in [Wait::No, Wait::UntilThereAre] {
        assert_eq!(tied.line.news(wait).await, News::Nothing);
    }
    tied.first_news.take().unwrap().send(()).unwrap();
    while tied.heard.number() == 0 {
        tokio::task::yield_now().await;
    }
    let line = tied.line.clone();
    let asking = tokio::spawn(async move { line.news(Wait::No).await });
    gives_news(&mut tied, SLOT).await;
    assert_eq!(asking.await.unwrap(), News::Message("heard".into()));
    assert_eq!(tied.frames.lock().unwrap().len(), 1, "nothing else was asked");
}

#[tokio::test(start_paused = true)]
async fn a_slot_asks_for_news_of_what_runs_beside_it() {
    for is_background in [true, false] {
        let mut tied = tied();
        let (orders, mut ordered) = mpsc::channel(1);
        let (line, child) = (tied.line.clone(), Child { is_background, ..plain("nested") });
        let declaring =
            tokio::spawn(async move { line.declare_with(None, vec![child], orders).await });
        let UnitEvent::Declare { reply, orders, .. } = tied.heard().await.event else {
            panic!("it declares")
        };
        reply.send(vec![seat(UnitId(9), CancellationToken::new())]).unwrap();
        assert!(declaring.await.unwrap().is_some());
        if !is_background {
            assert_eq!(tied.line.news(Wait::No).await, News::Nothing);
            orders.unwrap().send(Order::Aside(vec![UnitId(9)])).await.unwrap();
            ordered.recv().await.unwrap();
        }
        let line = tied.line.clone();
        let asking = tokio::spawn(async move { line.news(Wait::No).await });
        gives_news(&mut tied, SLOT).await;
        assert_eq!(asking.await.unwrap(), News::Message("heard".into()));
    }
}

#[tokio::test(start_paused = true)]
async fn all_that_was_said_goes_out_before_the_slot_is_over() {
    let mut tied = tied();
    for number in 0..500 {
        if number == 200 {
            // More than waits on the way.
            tokio::task::yield_now().await;
        }
        tied.line.tell(notice(&number.to_string())).await;
        if number % 100 == 99 {
            while tied.dispatcher.len() > 50 {
                tied.notice().await;
            }
        }
    }
    tied.over.take().unwrap().send(()).unwrap();
    let Rest { after, words } = (&mut tied.far).await.unwrap();
    assert_eq!(after, u64::try_from(tied.frames.lock().unwrap().len()).unwrap());
    let end = FarEnd { words, ..end(1, after) };
    tied.arriving.send(FromFar::End(end)).await.unwrap();
    let mut last = String::new();
    while last != "499" {
        last = tied.notice().await.1;
    }
    assert!(matches!(tied.near.await.unwrap(), Ended::Over(_)));
}
