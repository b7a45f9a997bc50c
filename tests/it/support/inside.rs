//! A run inside the test's own process, on the scripted model and on paused
//! time, seen through its session log.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tine::agent::{Bounds, History, Opening, Unit};
use tine::config::WindowShare;
use tine::definition::Definitions;
use tine::event::{
    CancelReason, Delta, Event, EventKind, InvocationEnd, Outcome, SessionHead, SessionId, UnitId,
    UnitState, Verdict,
};
use tine::fanout::{Caller, Fanout, Limits, Local, Parking, Pool, Surroundings, Worktrees};
use tine::flow::{self, Flow, InputValues, Step, Walk};
use tine::guard::sandbox::{Insistence, Sandbox, Settings, Variables};
use tine::guard::{Mode, Policy, Rules, Searches, Source, Sourced};
use tine::hook::Hooks;
use tine::line::{Budget, FromUnit, LINE_CAP, Line, RequestLeave, Told, UnitEvent};
use tine::mcp::Servers;
use tine::model::Model;
use tine::model::retry::{self, Jitter};
use tine::model::scripted::Scripted;
use tine::prompt::Context;
use tine::run::dispatcher::{Dispatcher, Effect, Input, Reach};
use tine::run::{
    self, Boundaries, FromUser, Invoked, Main, Prompts, Reporter, Resumed, Run, Signal, mend,
};
use tine::session::{self, Blobs, Entry, Past, SessionLog, Spill};
use tine::skill::{Places, Skills};
use tine::tool::files::{Files, Seen};
use tine::tool::roots::Roots;
use tine::tool::{AnswerSchema, ForkPoint, Registry, ToolContext, Workspace};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::repository::program;

mod sitting;

pub(crate) use sitting::Sitting;

/// What a user answers to every question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Says {
    Yes,
    No,
    /// Whatever it is.
    This(Verdict),
    /// That, after some time.
    Later(Duration, Verdict),
    /// The user is away.
    Nothing,
}

/// A user who answers every question.
struct User {
    verdict: Verdict,
    /// How long it takes; not at all without a pause.
    after: Duration,
    runtime: Handle,
    answers: mpsc::Sender<FromUser>,
}

impl Reporter for User {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let EventKind::Asked { id, .. } = event.kind {
            // The run may be over by now.
            let answer = FromUser::Answered { id, verdict: self.verdict.clone() };
            if self.after.is_zero() {
                let _ = self.answers.try_send(answer);
                return Ok(());
            }
            let (after, answers) = (self.after, self.answers.clone());
            self.runtime.spawn(async move {
                tokio::time::sleep(after).await;
                let _ = answers.send(answer).await;
            });
        }
        Ok(())
    }

    fn delta(&mut self, _: &Delta) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How a run is set up.
pub(crate) struct Setup {
    /// What the scripted model plays.
    pub(crate) script: Value,
    /// How many units run at once.
    pub(crate) cap: usize,
    /// The pool of permits; `None` for one of its own.
    pub(crate) pool: Option<Pool>,
    /// How deep units may nest.
    pub(crate) depth: u32,
    /// Signals, each after so much time.
    pub(crate) signals: Vec<(Duration, Signal)>,
    /// What answers instead of a script.
    pub(crate) model: Option<Arc<dyn Model>>,
    /// What the main unit does.
    pub(crate) main: Main,
    /// What the units may do.
    pub(crate) mode: Mode,
    /// How long the run waits for units in the background.
    pub(crate) background_wait: Duration,
    /// How long forks wait for the first of them.
    pub(crate) prime: Duration,
    /// How often and how soon a request is made again.
    pub(crate) retries: retry::Policy,
    /// The models to ask where the own one is overloaded.
    pub(crate) fallbacks: Vec<Arc<dyn Model>>,
    /// Of all that is random.
    pub(crate) seed: u64,
    /// What is asked at certain moments.
    pub(crate) hooks: Arc<Hooks>,
    /// What of the session's beginning and end hooks hear.
    pub(crate) boundaries: Boundaries,
    /// Most that all units may use together.
    pub(crate) budget: Budget,
    /// Most turns of main.
    pub(crate) max_turns: Option<u32>,
    /// Who answers questions; `None` if nobody does.
    pub(crate) user_says: Option<Says>,
    /// Rules about calls that are asked about whatever else allows them, and
    /// about calls that are denied.
    pub(crate) rules: [&'static [&'static str]; 2],
    /// How many slots a batch may have unasked; 0 for any number.
    pub(crate) confirm_above: usize,
    /// Models that tasks can name.
    pub(crate) models: HashMap<&'static str, Arc<dyn Model>>,
    /// What main's answer must fit.
    pub(crate) schema: Option<Value>,
}

impl Setup {
    /// A run of a script with 8 units at once and no signal.
    pub(crate) fn new(script: Value) -> Self {
        Self {
            script,
            cap: 8,
            pool: None,
            depth: 3,
            signals: Vec::new(),
            model: None,
            main: Main::Conversation(Opening::Prompt("go".into())),
            mode: Mode::Default,
            background_wait: Duration::from_secs(600),
            prime: Duration::ZERO,
            retries: retry::Policy { most: 0, base: Duration::ZERO },
            fallbacks: Vec::new(),
            seed: 0,
            hooks: Arc::default(),
            boundaries: Boundaries::default(),
            budget: Budget::default(),
            max_turns: None,
            user_says: None,
            rules: [&[]; 2],
            confirm_above: 0,
            models: HashMap::new(),
            schema: None,
        }
    }

    /// A run on a model of the test's own.
    pub(crate) fn on(model: Arc<dyn Model>) -> Self {
        Self { model: Some(model), ..Self::new(Value::Null) }
    }

    /// Walks a flow of these steps instead of a conversation.
    pub(crate) fn flow(self, step: Step) -> Self {
        let flow = Flow::new("test", "", Vec::new(), step).expect("its texts name what is there");
        self.walks(Walk::new(Arc::new(flow), InputValues::default()))
    }

    /// Walks a flow instead of a conversation.
    pub(crate) fn walks(self, walk: Walk) -> Self {
        Self { main: Main::Flow { walk: Arc::new(walk), request: "go".into() }, ..self }
    }

    /// Sets how many units run at once.
    pub(crate) fn cap(self, cap: usize) -> Self {
        Self { cap, ..self }
    }

    /// Sets how deep units may nest.
    pub(crate) fn depth(self, depth: u32) -> Self {
        Self { depth, ..self }
    }

    /// Sends a signal after some time.
    pub(crate) fn signal(mut self, after: Duration, signal: Signal) -> Self {
        self.signals.push((after, signal));
        self
    }

    /// Sets what the units may do.
    pub(crate) fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Sets what main's conversation begins with.
    pub(crate) fn opens(self, opening: Opening) -> Self {
        Self { main: Main::Conversation(opening), ..self }
    }

    fn opening(&self) -> Opening {
        match &self.main {
            Main::Conversation(opening) => opening.clone(),
            Main::Flow { .. } => panic!("a flow is no conversation"),
        }
    }

    /// Runs it in a new session.
    pub(crate) async fn run(self) -> Story {
        let directory = tempfile::tempdir().expect("the system has room for a directory");
        let log = SessionLog::create(&directory.path().join("session")).expect("the log is new");
        self.run_in(directory, log, None).await
    }

    /// Walks its flow on with the session of `story`, whose process died after
    /// it had written `kept` events.
    pub(crate) async fn walk_on(self, story: Story, kept: usize) -> Story {
        let Main::Flow { walk, .. } = &self.main else { panic!("no flow to walk") };
        let finished = story.events[..kept].iter().collect();
        let walk = Walk { finished, ..(**walk).clone() };
        self.walks(walk).run_after(story, kept).await
    }

    /// Goes on with the session of `story`, whose process died after it had
    /// written `kept` events.
    pub(crate) async fn run_after(self, story: Story, kept: usize) -> Story {
        let session = story.directory.path().join("session");
        let path = session.join("log.jsonl");
        let text = std::fs::read_to_string(&path).expect("a session has a log");
        let lines: String = text.split_inclusive('\n').take(kept).collect();
        std::fs::write(&path, lines).expect("the log can be written");
        let mut log = SessionLog::open_for_append(&session).expect("its writer is gone");
        let mut past = Past::read(&session).expect("a session has a log");
        let spill = Spill { directory: story.directory.path().join("spill") };
        mend(&mut past, Some(&mut log), &spill).expect("the log can be written");
        let resumed = Resumed { past, note: None, from: session };
        self.run_in(story.directory, log, Some(resumed)).await
    }

    async fn run_in(self, directory: TempDir, log: SessionLog, resumed: Option<Resumed>) -> Story {
        let model = self.model();
        let (sender, receiver) = mpsc::channel(8);
        let signals = self.signals.clone();
        let signalling = tokio::spawn(async move {
            for (after, signal) in signals {
                tokio::time::sleep(after).await;
                // The run may be over by now.
                let _ = sender.send(signal).await;
            }
        });
        let started = tokio::time::Instant::now();
        let run = self.build(directory.path(), model, log, receiver);
        let end = Run { resumed, ..run }.go().await.end;
        let took = started.elapsed();
        signalling.abort();
        let events = session::read(&directory.path().join("session"))
            .expect("the log was just written")
            .map(|entry| match entry {
                Entry::Event(event) => event,
                Entry::Unknown { .. } | Entry::Bad { .. } => panic!("a bad line: {entry:?}"),
            })
            .collect();
        Story { events, end, took, directory }
    }

    /// Walks the flow in front of a dispatcher of its own, which cancels the
    /// unit of this name as soon as a model writes in it or in one inside it.
    pub(crate) async fn walk_cancelling(self, victim: &str) -> Story {
        let directory = tempfile::tempdir().expect("the system has room for a directory");
        let log = SessionLog::create(&directory.path().join("session")).expect("the log is new");
        let run = self.build(directory.path(), self.model(), log, mpsc::channel(1).1);
        let Prompts::One(invoked) = run.prompts else { panic!("a setup has one prompt") };
        let Main::Flow { walk, request: _ } = invoked.main else { panic!("no flow to walk") };
        let mut dispatcher = Dispatcher::new();
        dispatcher.keep_context(Context::default());
        let (sender, mut inbox) = mpsc::channel(LINE_CAP);
        let main = Caller {
            place: run.fanout.place(),
            fanout: run.fanout,
            line: Line::new(UnitId::MAIN, sender),
            depth: 0,
            is_fork: false,
            tools: invoked.tools,
            policy: invoked.policy,
            model: invoked.model,
            hold: None,
            cancel: dispatcher.main_cancel(),
        };
        let started = tokio::time::Instant::now();
        let walking = tokio::spawn(async move {
            let outcome = flow::walk(&main, &walk).await;
            main.line.ended(outcome, None).await;
        });
        let mut events: Vec<Event> = Vec::new();
        while let Some(message) = inbox.recv().await {
            let written_in = match &message.event {
                UnitEvent::Delta(_) => Some(message.unit),
                _ => None,
            };
            for effect in dispatcher.handle(Input::Unit(message), run::now()).effects {
                match effect {
                    Effect::Record(event) => events.push(event),
                    Effect::Answer(answer) | Effect::AnswerSynced(answer) => answer.give(),
                    Effect::Glimpse(_)
                    | Effect::Sync
                    | Effect::KeepRules(_)
                    | Effect::StartDeadline
                    | Effect::Finish
                    | Effect::Over => {}
                }
            }
            let named = written_in.and_then(|unit| ancestor_named(&events, unit, victim));
            if let Some(unit) = named {
                let cancel = Input::Cancel(Reach::Unit(unit), CancelReason::Interrupt);
                assert!(dispatcher.handle(cancel, run::now()).effects.is_empty());
            }
        }
        walking.await.expect("a walk does not panic");
        let Some(EventKind::InvocationEnded(end)) = events.last().map(|event| &event.kind) else {
            panic!("no end: {events:?}")
        };
        let end = Arc::clone(end);
        Story { events, end, took: started.elapsed(), directory }
    }

    /// The model that answers.
    fn build(
        &self,
        root: &Path,
        model: Arc<dyn Model>,
        log: SessionLog,
        signals: mpsc::Receiver<Signal>,
    ) -> Run {
        let Parts { fanout, tools, policy } = self.parts(root);
        let (reporters, answers) = self.user();
        let invoked = Invoked {
            typed: "go".into(),
            message: None,
            main: self.main.clone(),
            model: Arc::clone(&model),
            tools,
            policy,
            system: "be good".to_owned(),
        };
        Run {
            prompts: Prompts::One(Box::new(invoked)),
            fanout,
            resumed: None,
            head: SessionHead {
                session: SessionId("test".into()),
                version: "0".into(),
                cwd: "/".into(),
                model: Arc::clone(model.name()),
                mode: "default".into(),
                forked_from: None,
                sandbox: None,
            },
            max_turns: self.max_turns,
            budget: self.budget,
            log: Some(log),
            reporters,
            signals,
            answers,
            keep_rule: Arc::new(|_| Ok(())),
            boundaries: self.boundaries,
        }
    }

    /// Whoever answers questions, and where the answers arrive.
    fn user(&self) -> (Vec<Box<dyn Reporter>>, Option<mpsc::Receiver<FromUser>>) {
        let Some(says) = &self.user_says else { return (Vec::new(), None) };
        let (answers, arriving) = mpsc::channel(64);
        let (verdict, after) = match says {
            Says::Yes => (Verdict::Yes, Duration::ZERO),
            Says::No => (Verdict::No, Duration::ZERO),
            Says::This(verdict) => (verdict.clone(), Duration::ZERO),
            Says::Later(after, verdict) => (verdict.clone(), *after),
            Says::Nothing => {
                // As long as the run may listen.
                tokio::spawn(async move { answers.closed().await });
                return (Vec::new(), Some(arriving));
            }
        };
        (
            vec![Box::new(User { verdict, after, runtime: Handle::current(), answers })],
            Some(arriving),
        )
    }

    fn model(&self) -> Arc<dyn Model> {
        self.model.clone().unwrap_or_else(|| {
            let script = self.script.to_string();
            Arc::new(Scripted::parse("scripted", "script", &script).expect("the script is valid"))
        })
    }

    /// Runs a main unit with a conversation of the test's own, and returns what
    /// it told. Nobody answers what it asks, but for leave to send requests.
    pub(crate) async fn run_unit(&self, history: History) -> (Outcome, Vec<Told>) {
        let root = tempfile::tempdir().expect("the system has room for a directory");
        let (sender, mut receiver) = mpsc::channel(LINE_CAP);
        let hearing = tokio::spawn(async move {
            let mut told = Vec::new();
            while let Some(FromUnit { unit: _, event }) = receiver.recv().await {
                match event {
                    UnitEvent::Told(event) => told.push(event),
                    // The unit has gone if it does not wait for the answer.
                    UnitEvent::MayRequest { turn: _, reply } => {
                        drop(reply.send(Ok(RequestLeave::default())));
                    }
                    _ => {}
                }
            }
            told
        });
        let outcome = self.unit(root.path(), history, sender).run(self.opening()).await;
        (outcome, hearing.await.expect("it only listens"))
    }

    fn unit(&self, root: &Path, history: History, sender: mpsc::Sender<FromUnit>) -> Unit {
        let model = self.model();
        let Parts { fanout, tools, policy } = self.parts(root);
        let (line, cancel) = (Line::new(UnitId::MAIN, sender), CancellationToken::new());
        let caller = Caller {
            place: fanout.place(),
            fanout: Arc::clone(&fanout),
            line: line.clone(),
            depth: 0,
            is_fork: false,
            tools: tools.clone(),
            policy: Arc::clone(&policy),
            model: Arc::clone(&model),
            hold: None,
            cancel: cancel.clone(),
        };
        let conversation = history.prefix().clone();
        let point = ForkPoint::new(conversation, &Seen::default(), Arc::clone(&model));
        let context = ToolContext {
            line,
            cancel,
            workspace: Arc::clone(&fanout.workspace),
            policy: Arc::clone(&policy),
            searches: Searches::by(&policy),
            seen: Seen::default(),
            takes_images: model.facts().takes_images,
            skills: Arc::clone(&fanout.skills),
            delegate: Arc::new(caller),
            fork_point: Arc::new(point),
        };
        let persistence = fanout.persistence(UnitId::MAIN, &*model);
        Unit {
            agent: "main".into(),
            description: "".into(),
            model,
            answer: tools.answer().cloned(),
            tools,
            policy,
            hooks: Arc::clone(&self.hooks),
            bounds: Bounds {
                max_turns: None,
                background_wait: Some(self.background_wait),
                prime: self.prime,
            },
            context,
            history,
            forked_from: None,
            compacting: fanout.compacting(&fanout.place()),
            persistence,
            offers: None,
        }
    }

    fn parts(&self, root: &Path) -> Parts {
        let (definitions, _) = Definitions::load(&[], None, |_, _| false);
        let (skills, _) = Skills::load(&Places::default(), |_, _| false);
        let offered: Vec<(&str, &str)> = definitions
            .iter()
            .map(|definition| (definition.name.as_str(), definition.description.as_str()))
            .collect();
        let schema = self
            .schema
            .as_ref()
            .map(|schema| Arc::new(AnswerSchema::of(schema).expect("the schema can be used")));
        let tools = Registry::all(offered).answering(schema.as_ref());
        let [ask, deny] = self.rules.map(|rules| rules.iter().map(|rule| sourced(rule)).collect());
        let rules = Rules { ask, deny, ..Rules::default() };
        let policy = Policy::new(self.mode, [root.to_owned()]).with_rules(rules);
        let workspace = Workspace {
            root: root.to_owned(),
            added: Vec::new(),
            roots: Roots::open([root]).expect("the directory is there"),
            spill: Spill { directory: root.join("spill") },
            before: Blobs::of(&root.join("spill")),
            files: Files::default(),
            git: program(),
            web: Arc::default(),
            original: None,
            sandbox: Arc::new(Sandbox::new(Settings {
                insistence: Insistence::Off,
                variables: Variables::new(std::env::vars_os()),
                ..Settings::default()
            })),
        };
        let fanout = Fanout {
            definitions,
            skills: Arc::new(skills),
            workspace: Arc::new(workspace),
            pool: self.pool.clone().unwrap_or_else(|| {
                Pool::new(NonZeroUsize::new(self.cap).expect("a cap is at least 1"))
            }),
            executor: Arc::new(Local),
            limits: Limits {
                max_turns: 50,
                timeout: None,
                max_depth: self.depth,
                background_wait: self.background_wait,
                prime: self.prime,
                confirm_above: NonZeroUsize::new(self.confirm_above),
                needs_price: self.budget.usd.is_some(),
                compact_at: Some(WindowShare::default()),
                retries: self.retries,
            },
            find_model: Box::new(find_model(self.models.clone())),
            surroundings: Surroundings::default(),
            parking: Parking::default(),
            fallbacks: self.fallbacks.clone(),
            jitter: Jitter::new(self.seed),
            worktrees: Worktrees::default(),
            hooks: Arc::clone(&self.hooks),
            servers: Arc::new(Servers::none()),
        };
        Parts { fanout: Arc::new(fanout), tools, policy: Arc::new(policy) }
    }
}

fn find_model(
    models: HashMap<&'static str, Arc<dyn Model>>,
) -> impl Fn(&str) -> Result<Arc<dyn Model>, String> {
    move |name| models.get(name).cloned().ok_or_else(|| format!("model `{name}` is not configured"))
}

fn sourced(rule: &str) -> Sourced {
    Sourced {
        rule: rule.parse().expect("the test knows how rules are written"),
        source: Source::Flag,
    }
}

/// What main is made of, and all its units share.
struct Parts {
    fanout: Arc<Fanout>,
    tools: Registry,
    policy: Arc<Policy>,
}

/// Returns the unit, or the one around it, that has this name.
fn ancestor_named(events: &[Event], unit: UnitId, name: &str) -> Option<UnitId> {
    let head = events.iter().find_map(|event| match &event.kind {
        EventKind::UnitQueued(head) if event.unit == unit => Some(head),
        _ => None,
    })?;
    if &*head.description == name {
        return Some(unit);
    }
    ancestor_named(events, head.parent, name)
}

/// What happened in a run.
pub(crate) struct Story {
    /// Every event, in order.
    pub(crate) events: Vec<Event>,
    /// How it ended.
    pub(crate) end: Arc<InvocationEnd>,
    /// How long it took, in paused time.
    pub(crate) took: Duration,
    directory: TempDir,
}

impl Story {
    /// Reads a file of the working directory; `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.directory.path().join(name)).ok()
    }

    /// The ends of units, in the order in which they came.
    pub(crate) fn ends(&self) -> Vec<(UnitId, UnitState)> {
        let end = |event: &Event| match &event.kind {
            EventKind::UnitEnded(end) => Some((event.unit, end.outcome.state())),
            _ => None,
        };
        self.events.iter().filter_map(end).collect()
    }

    /// The final state of each unit, in declared order.
    pub(crate) fn states(&self) -> Vec<UnitState> {
        let mut ends = self.ends();
        ends.sort();
        ends.into_iter().map(|(_, state)| state).collect()
    }

    /// The state of each unit after so many events, in declared order.
    pub(crate) fn states_after(&self, kept: usize) -> Vec<UnitState> {
        let mut states = BTreeMap::new();
        for event in &self.events[..kept] {
            let state = match &event.kind {
                EventKind::UnitQueued(_) | EventKind::Lost { .. } => UnitState::Queued,
                EventKind::UnitStarted => UnitState::Running,
                EventKind::UnitEnded(end) => end.outcome.state(),
                _ => continue,
            };
            states.insert(event.unit, state);
        }
        states.into_values().collect()
    }

    /// The outputs that a unit's calls got, in order.
    pub(crate) fn outputs(&self, unit: UnitId) -> Vec<&str> {
        let output = |event: &'_ Event| event.unit == unit;
        self.events
            .iter()
            .filter(|event| output(event))
            .filter_map(|event| match &event.kind {
                EventKind::ToolFinished { output, .. } => Some(output.text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The most units that ran at the same moment. A unit that waits for its
    /// children does not run: they run in its place.
    pub(crate) fn most_running(&self) -> usize {
        let (mut running, mut most) = (0_usize, 0);
        // Those that were lost and wait again.
        let mut lost = BTreeSet::new();
        for event in &self.events {
            let is_wait = |tool: &str| tool == "Agent" && event.unit != UnitId::MAIN;
            match &event.kind {
                EventKind::UnitStarted => {
                    lost.remove(&event.unit);
                    running += 1;
                }
                EventKind::Lost { .. } => {
                    lost.insert(event.unit);
                    running -= 1;
                }
                EventKind::UnitEnded(_) if lost.contains(&event.unit) => {}
                EventKind::ToolStarted { tool, .. } if is_wait(tool) => running -= 1,
                EventKind::ToolFinished { tool, .. } if is_wait(tool) => running += 1,
                EventKind::UnitEnded(end) if end.outcome.state() != UnitState::Skipped => {
                    running -= 1;
                }
                _ => {}
            }
            most = most.max(running);
        }
        most
    }
}
