//! Runs on a bad day, simulated: a provider that is slow, refuses, breaks off and stalls,
//! cancels at any moment, processes that die, limits that are reached.
//!
//! Gate, pool, dispatcher, retries and budgets are the real ones, on paused time. One seed
//! decides everything that is random, so a seed that fails can be run again by itself:
//! `TINE_SIMULATION_SEED=N TINE_SIMULATION_RUNS=1 cargo test --test it -- simulation`.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{FutureExt as _, join_all};
use futures_util::stream::{self, BoxStream};
use serde_json::{Value, json};
use tine::event::{EventKind, UnitId};
use tine::fanout::Pool;
use tine::line::Budget;
use tine::message::{Call, Message, Prefix, Reply, StopReason, Usage};
use tine::model::gate::{Gate, Lane, Quota};
use tine::model::retry::Policy;
use tine::model::{Answer, Chunk, Model, ModelError, ModelErrorKind, Request};
use tine::run::Signal;
use tokio::time::Instant;

use crate::fanout::check_invariants;
use crate::support::dice::Dice;
use crate::support::inside::{Setup, Story};

/// How many seeds are simulated; `TINE_SIMULATION_RUNS` says otherwise, and
/// `TINE_SIMULATION_SEED` with which one to begin.
const RUNS: u64 = 60;

/// Most agents that one run starts.
const AGENTS_CAP: usize = 24;

/// Longer than any run takes in which no waiter is forgotten.
const FOREVER: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The longest time from a signal to the end.
const END_LIMIT: Duration = Duration::from_secs(1);

/// How a provider answers one request.
#[derive(Debug, Clone)]
enum Reaction {
    /// After some time.
    Answers(Duration, Box<Answer>),
    /// The first piece comes; the rest after some time, or never.
    Begins(Duration, Result<Box<Answer>, ModelError>),
    /// Not at all.
    Fails(Duration, ModelError),
    /// It panics, as a bug would.
    Panics,
}

/// A provider that has a bad day.
struct Provider {
    name: Arc<str>,
    lane: Lane,
    state: Arc<Mutex<State>>,
}

struct State {
    dice: Dice,
    /// Requests that it serves at once.
    places: usize,
    /// Requests that it takes in a stretch of time, and when the last ones came.
    window: Option<(usize, Duration)>,
    taken: Vec<Instant>,
    /// From when until when it refuses everything.
    outage: Option<(Instant, Instant)>,
    in_flight: usize,
    /// Those of them that are not of main, and how many there may be.
    of_agents: usize,
    cap: usize,
    agents: usize,
    requests: u64,
    /// Until when a unit may not come again.
    floors: BTreeMap<UnitId, Instant>,
    /// What must not have happened.
    violations: Vec<String>,
}

impl Provider {
    fn new(name: &str, cap: usize, seed: u64) -> Arc<Self> {
        let mut dice = Dice(seed);
        let places = 1 + dice.below(6);
        let window = (3 + dice.below(8), Duration::from_secs(10));
        let outage = Instant::now() + Duration::from_millis(dice.between(0, 30_000));
        let outage = (outage, outage + Duration::from_millis(dice.between(1, 60_000)));
        let state = State {
            places,
            window: dice.one_in(4).then_some(window),
            taken: Vec::new(),
            outage: dice.one_in(4).then_some(outage),
            dice,
            in_flight: 0,
            of_agents: 0,
            cap,
            agents: 0,
            requests: 0,
            floors: BTreeMap::new(),
            violations: Vec::new(),
        };
        let lane = Gate::new(None).lane(Quota::default());
        Arc::new(Self { name: name.into(), lane, state: Arc::new(Mutex::new(state)) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the lock")
    }
}

impl State {
    fn react(&mut self, request: &Request) -> Reaction {
        self.requests += 1;
        let (unit, now) = (request.asker.unit, Instant::now());
        if self.floors.get(&unit).is_some_and(|floor| now < *floor) {
            self.violations.push(format!("{unit} asks again before it may"));
        }
        self.violations.extend(conversation_fault(&request.prefix));
        let soon = Duration::from_millis(self.dice.between(5, 400));
        let recent = |window: Duration| {
            self.taken.iter().rev().take_while(|came| now - **came < window).count()
        };
        let is_full = self.window.is_some_and(|(most, window)| recent(window) >= most);
        let is_out = self.outage.is_some_and(|(from, until)| from <= now && now < until);
        if self.in_flight > self.places || is_full || is_out {
            return self.refuse(soon);
        }
        self.taken.push(now);
        let later = Duration::from_millis(self.dice.between(50, 5_000));
        match self.dice.below(60) {
            0..=2 => self.refuse(soon),
            3 => Reaction::Fails(soon, error(ModelErrorKind::Overloaded, Some(500))),
            4 => Reaction::Fails(soon, error(ModelErrorKind::Connection, None)),
            5 => Reaction::Fails(Duration::from_secs(180), error(ModelErrorKind::Silent, None)),
            6 => {
                Reaction::Begins(Duration::from_secs(60), Err(error(ModelErrorKind::Silent, None)))
            }
            7 | 8 => Reaction::Begins(later, Err(error(ModelErrorKind::Cut, None))),
            9 => Reaction::Fails(later, error(ModelErrorKind::Unusable, None)),
            10 => Reaction::Answers(later, Box::new(self.say("", StopReason::EndTurn))),
            11 => Reaction::Begins(later, Ok(Box::new(self.say("half", StopReason::MaxTokens)))),
            12 => Reaction::Answers(later, Box::new(self.say("no", StopReason::Refusal))),
            13 if self.dice.one_in(3) => {
                Reaction::Fails(soon, error(ModelErrorKind::Request, Some(400)))
            }
            14 if self.dice.one_in(4) => Reaction::Panics,
            15..=20 => Reaction::Begins(later, Ok(Box::new(self.answer(request)))),
            _ => Reaction::Answers(later, Box::new(self.answer(request))),
        }
    }

    fn refuse(&mut self, after: Duration) -> Reaction {
        let (kind, status) = self.dice.pick(&[
            (ModelErrorKind::RateLimited, 429),
            (ModelErrorKind::RateLimited, 529),
            (ModelErrorKind::Overloaded, 503),
        ]);
        let wait = Duration::from_millis(self.dice.between(1, 8_000));
        let retry_after = (!self.dice.one_in(3)).then_some(wait);
        Reaction::Fails(after, ModelError { retry_after, ..error(kind, Some(status)) })
    }

    fn say(&mut self, text: &str, stop: StopReason) -> Answer {
        let reply = Reply { text: text.to_owned(), ..Reply::default() };
        Answer { reply, usage: self.usage(), stop }
    }

    fn usage(&mut self) -> Usage {
        let (input, output) = (self.dice.between(100, 2_000), self.dice.between(1, 300));
        Usage { input, output, ..Usage::default() }
    }

    /// Makes a few calls, or says the last word.
    fn answer(&mut self, request: &Request) -> Answer {
        let is_main = request.asker.unit == UnitId::MAIN;
        let most_turns = if is_main { 5 } else { 3 };
        if request.asker.turn > most_turns || self.dice.one_in(if is_main { 6 } else { 2 }) {
            return self.say("done", StopReason::EndTurn);
        }
        let count = 1 + self.dice.below(3);
        let calls = (0..count).map(|place| {
            let (tool, arguments) = self.call(is_main);
            let id = format!("{}-{}-{place}", request.asker.unit, request.asker.turn);
            Call { id: id.as_str().into(), tool: tool.to_owned(), arguments: arguments.to_string() }
        });
        let reply = Reply { calls: calls.collect(), ..Reply::default() };
        Answer { reply, usage: self.usage(), stop: StopReason::ToolUse }
    }

    fn call(&mut self, is_main: bool) -> (&'static str, Value) {
        let agent = format!("agent-{}", 1 + self.dice.below(self.agents.max(1)));
        let starts_agents = self.agents < AGENTS_CAP && (is_main || self.dice.one_in(4));
        match self.dice.below(8) {
            0..=3 if starts_agents => ("Agent", self.batch()),
            4 => ("TaskWait", json!({})),
            5 => ("SendMessage", json!({ "to": agent, "message": "and this" })),
            6 => ("TaskStop", json!({ "task_id": agent })),
            7 => ("TaskList", json!({})),
            _ => ("TodoWrite", json!({ "todos": [] })),
        }
    }

    fn batch(&mut self) -> Value {
        let is_background = self.dice.one_in(3);
        let size = 1 + self.dice.below(6);
        self.agents += size;
        let mut task = || {
            let kind = self.dice.pick(&["general-purpose", "explore", "fork"]);
            let mut task =
                json!({ "description": "task", "prompt": "work", "subagent_type": kind });
            if self.dice.one_in(4) {
                task["timeout_s"] = json!(self.dice.between(1, 30));
            }
            if self.dice.one_in(4) {
                task["max_turns"] = json!(self.dice.between(1, 3));
            }
            task
        };
        if is_background {
            let mut task = task();
            task["run_in_background"] = json!(true);
            return task;
        }
        json!({ "tasks": (0..size).map(|_| task()).collect::<Vec<_>>() })
    }
}

fn error(kind: ModelErrorKind, status: Option<u16>) -> ModelError {
    ModelError { status, ..ModelError::new(kind, "a bad day") }
}

/// Says what no server would accept in a conversation.
fn conversation_fault(prefix: &Prefix) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut is_answered = true;
    for message in prefix.messages() {
        match message {
            Message::Output { call, output: _ } => {
                if open.first() != Some(&&*call.0) {
                    return Some(format!("the output of {call} answers none of {open:?}"));
                }
                open.remove(0);
            }
            Message::User(_) | Message::Model(_) if !open.is_empty() => {
                return Some(format!("{open:?} have no output"));
            }
            Message::User(_) => is_answered = false,
            Message::Model(reply) => {
                open.extend(reply.calls.iter().map(|call| &*call.id.0));
                is_answered = reply.calls.is_empty();
            }
        }
    }
    let is_open = !open.is_empty();
    (is_open || is_answered).then(|| "the last message asks for nothing".to_owned())
}

/// A request in flight, until it is answered or dropped.
struct InFlight {
    state: Arc<Mutex<State>>,
    unit: UnitId,
}

impl InFlight {
    fn new(state: &Arc<Mutex<State>>, unit: UnitId) -> Self {
        let mut counted = state.lock().expect("nothing panics while it holds the lock");
        counted.in_flight += 1;
        counted.of_agents += usize::from(unit != UnitId::MAIN);
        if counted.of_agents > counted.cap {
            let violation =
                format!("{} agents ask, and {} may run", counted.of_agents, counted.cap);
            counted.violations.push(violation);
        }
        drop(counted);
        Self { state: Arc::clone(state), unit }
    }

    /// The unit hears now that it may not come again before.
    fn set_floor(&self, floor: Instant) {
        let mut state = self.state.lock().expect("nothing panics while it holds the lock");
        state.floors.insert(self.unit, floor);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut counted = self.state.lock().expect("nothing panics while it holds the lock");
        counted.in_flight -= 1;
        counted.of_agents -= usize::from(self.unit != UnitId::MAIN);
    }
}

impl Model for Provider {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn lane(&self) -> Option<&Lane> {
        Some(&self.lane)
    }

    fn respond(&self, request: Request) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let in_flight = InFlight::new(&self.state, request.asker.unit);
        let reaction = self.state().react(&request);
        let finished = |answer: Box<Answer>| Ok(Chunk::Finished(answer));
        match reaction {
            Reaction::Answers(after, answer) => after_a_while(after, in_flight, finished(answer)),
            Reaction::Fails(after, error) => after_a_while(after, in_flight, Err(error)),
            Reaction::Begins(after, end) => {
                let first = stream::once(async { Ok(Chunk::Text("half".into())) });
                first.chain(after_a_while(after, in_flight, end.and_then(finished))).boxed()
            }
            Reaction::Panics => panic!("the simulated provider panics"),
        }
    }
}

fn after_a_while(
    after: Duration,
    in_flight: InFlight,
    item: Result<Chunk, ModelError>,
) -> BoxStream<'static, Result<Chunk, ModelError>> {
    stream::once(async move {
        tokio::time::sleep(after).await;
        if let Err(ModelError { retry_after: Some(wait), .. }) = &item {
            in_flight.set_floor(Instant::now() + *wait);
        }
        drop(in_flight);
        item
    })
    .boxed()
}

/// One day: its run, and what is checked afterwards.
struct Day {
    provider: Arc<Provider>,
    other: Option<Arc<Provider>>,
    pool: Pool,
    cap: usize,
    budget: Budget,
    signal: Option<(Duration, Signal)>,
    seed: u64,
}

impl Day {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let cap = 1 + dice.below(8);
        let budget = Budget {
            tokens: dice.one_in(4).then(|| dice.between(2_000, 40_000)).and_then(NonZeroU64::new),
            tool_calls: dice.one_in(6).then(|| u32::try_from(dice.below(20)).expect("it is small")),
            usd: None,
        };
        let signal = dice.pick(&[Signal::Interrupt, Signal::Terminate, Signal::Hangup]);
        let signal = (Duration::from_millis(dice.between(0, 60_000)), signal);
        let signal = dice.one_in(4).then_some(signal);
        let other = dice.one_in(4).then(|| Provider::new("other", cap, dice.next()));
        let provider = Provider::new("provider", cap, dice.next());
        let pool = Pool::new(NonZeroUsize::new(cap).expect("it is at least 1"));
        Self { provider, other, pool, cap, budget, signal, seed }
    }

    fn setup(&self) -> Setup {
        let model = Arc::clone(&self.provider) as Arc<dyn Model>;
        let fallbacks = self.other.iter().map(|other| Arc::clone(other) as Arc<dyn Model>);
        let setup = Setup {
            retries: Policy::default(),
            seed: self.seed,
            cap: self.cap,
            pool: Some(self.pool.clone()),
            budget: self.budget,
            fallbacks: fallbacks.collect(),
            ..Setup::on(model)
        };
        match self.signal {
            Some((after, signal)) => setup.signal(after, signal),
            None => setup,
        }
    }

    /// Runs it, and checks what must hold after each event and at the end.
    async fn run(&self, run: impl Future<Output = Story>) -> Result<Story, String> {
        let story = tokio::time::timeout(FOREVER, run).await;
        let story = story.map_err(|_| "a waiter is forgotten".to_owned())?;
        check_invariants(&story);
        if self.signal.is_some_and(|(after, _)| story.took > after + END_LIMIT) {
            return Err(format!("it ended {:?} after its start, in spite of a signal", story.took));
        }
        self.check_budget(&story)?;
        for provider in self.other.iter().chain([&self.provider]) {
            let state = provider.state();
            if let Some(violation) = state.violations.first() {
                return Err(violation.clone());
            }
            if state.in_flight > 0 {
                return Err(format!("{} requests go on after the end", state.in_flight));
            }
            if provider.lane.in_flight() > 0 {
                return Err(format!("the gate misses {} places", provider.lane.in_flight()));
            }
        }
        // A unit tells its end before its task returns the permit. Paused time passes only
        // when no task can run, so this waits for those tasks and for nothing else.
        let all = join_all((0..self.cap).map(|_| self.pool.acquire(self.pool.ticket())));
        let Ok(permits) = tokio::time::timeout(END_LIMIT, all).await else {
            return Err(format!("fewer than {} permits are free", self.cap));
        };
        if self.pool.acquire(self.pool.ticket()).now_or_never().is_some() {
            return Err(format!("more than {} permits are free", permits.len()));
        }
        Ok(story)
    }

    /// No request is begun, and no call run, once a limit is reached.
    fn check_budget(&self, story: &Story) -> Result<(), String> {
        let (mut tokens, mut calls) = (0, 0);
        for event in &story.events {
            match &event.kind {
                EventKind::Replied(replied) => tokens += replied.usage.total(),
                EventKind::RequestFailed(failed) => tokens += failed.usage.total(),
                EventKind::InvocationStarted { .. } => (tokens, calls) = (0, 0),
                EventKind::TurnStarted { .. }
                    if self.budget.tokens.is_some_and(|most| tokens >= most.get()) =>
                {
                    return Err(format!("a turn begins after {tokens} tokens"));
                }
                EventKind::ToolStarted { .. } => {
                    calls += 1;
                    if self.budget.tool_calls.is_some_and(|most| calls > most) {
                        return Err(format!("call {calls} runs"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Simulates one seed. Every fourth process dies somewhere, and another one goes on.
async fn simulate(seed: u64) -> Result<(), String> {
    let day = Day::new(seed);
    let mut story = Box::pin(day.run(day.setup().run())).await?;
    let mut dice = Dice(!seed);
    if dice.one_in(4) {
        let kept = 1 + dice.below(story.events.len());
        // The next process gives the numbers of lost units to others, and heard no refusal.
        for provider in day.other.iter().chain([&day.provider]) {
            provider.state().floors.clear();
        }
        story = Box::pin(day.run(day.setup().run_after(story, kept))).await?;
    }
    drop(story);
    Ok(())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_bad_day_leaves_every_invariant() {
    let first = number("TINE_SIMULATION_SEED").unwrap_or(0);
    let runs = number("TINE_SIMULATION_RUNS").unwrap_or(RUNS);
    for seed in first..first + runs {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("the system has room for a runtime");
        let simulated = std::panic::AssertUnwindSafe(|| runtime.block_on(simulate(seed)));
        match std::panic::catch_unwind(simulated) {
            Ok(Ok(())) => {}
            Ok(Err(violation)) => panic!("seed {seed}: {violation}"),
            Err(panicked) => {
                let said = panicked.downcast_ref::<String>().map_or("it panicked", String::as_str);
                panic!("seed {seed}: {said}");
            }
        }
    }
}
