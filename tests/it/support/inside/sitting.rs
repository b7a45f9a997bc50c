//! A run that lives on inside the test's own process: what is asked, what a
//! person does meanwhile, and what main's model was sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::BoxStream;
use serde_json::{Value, json};
use tempfile::TempDir;
use tine::agent::Opening;
use tine::event::{Event, EventKind, UnitId};
use tine::model::scripted::Scripted;
use tine::model::{Asker, Chunk, Facts, Model, ModelError, Request};
use tine::run::undo::Undo;
use tine::run::{
    Asked, FromUser, Invoked, Main, Prompts, Reporter, Resumed, Run, RunEnd, Signal, mend,
};
use tine::session::{self, Entry, Past, SessionLog, Spill};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Setup, Story};

/// A run that waits for what is asked of it.
pub(crate) struct Sitting {
    asking: mpsc::Sender<Asked>,
    telling: mpsc::Sender<FromUser>,
    signalling: mpsc::Sender<Signal>,
    running: JoinHandle<RunEnd>,
    /// What main is made of, but for what it is asked.
    invoked: Box<Invoked>,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
    started: tokio::time::Instant,
    directory: TempDir,
}

/// A script that writes down what main sends. Of several units of the same name
/// the second plays what its name and ` again` has, and so on.
struct Overheard {
    script: Scripted,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
    namesakes: Mutex<HashMap<Arc<str>, Vec<UnitId>>>,
}

impl Overheard {
    /// Returns what a unit is called in the script.
    fn called(&self, unit: UnitId, description: &Arc<str>) -> Arc<str> {
        let mut namesakes = self.namesakes.lock().expect("nobody panics over it");
        let units = namesakes.entry(Arc::clone(description)).or_default();
        let place = units.iter().position(|known| *known == unit).unwrap_or_else(|| {
            units.push(unit);
            units.len() - 1
        });
        format!("{description}{}", " again".repeat(place)).into()
    }
}

impl Model for Overheard {
    fn name(&self) -> &Arc<str> {
        self.script.name()
    }

    fn body(&self, prefix: &tine::message::Prefix) -> Vec<u8> {
        self.script.body(prefix)
    }

    fn facts(&self) -> &Facts {
        self.script.facts()
    }

    fn respond(&self, mut request: Request) -> BoxStream<'static, Result<Chunk, ModelError>> {
        if request.asker.unit == UnitId::MAIN {
            let body = self.script.body(&request.prefix);
            self.bodies.lock().expect("nobody panics over it").push(body);
        }
        let Asker { unit, description, .. } = &mut request.asker;
        *description = self.called(*unit, description);
        self.script.respond(request)
    }
}

impl Setup {
    /// Begins a sitting in a new session.
    pub(crate) fn sit(self) -> Sitting {
        let directory = tempfile::tempdir().expect("the system has room for a directory");
        let log = SessionLog::create(&directory.path().join("session")).expect("the log is new");
        self.sit_in(directory, log, None, Vec::new())
    }

    /// Begins a sitting that is shown to somebody.
    pub(crate) fn sit_before(self, reporter: Box<dyn Reporter>) -> Sitting {
        let directory = tempfile::tempdir().expect("the system has room for a directory");
        let log = SessionLog::create(&directory.path().join("session")).expect("the log is new");
        self.sit_in(directory, log, None, vec![reporter])
    }

    /// Begins a sitting in a session that was left.
    pub(crate) fn sit_after(self, story: Story) -> Sitting {
        let session = story.directory.path().join("session");
        let log = SessionLog::open_for_append(&session).expect("its writer is gone");
        let past = Past::read(&session).expect("a session has a log");
        let resumed = Resumed { past, note: None, from: session };
        self.sit_in(story.directory, log, Some(resumed), Vec::new())
    }

    fn sit_in(
        self,
        directory: TempDir,
        log: SessionLog,
        resumed: Option<Resumed>,
        reporters: Vec<Box<dyn Reporter>>,
    ) -> Sitting {
        let (signalling, signals) = mpsc::channel(8);
        let (asking, asked) = mpsc::channel(8);
        let (telling, told) = mpsc::channel(64);
        let run = self.build(directory.path(), self.model(), log, signals);
        let Prompts::One(invoked) = run.prompts else { panic!("a setup has one prompt") };
        let prompts = Prompts::Many(asked);
        let run = Run { prompts, answers: Some(told), resumed, reporters, ..run };
        Sitting {
            asking,
            telling,
            signalling,
            running: tokio::spawn(run.go()),
            invoked,
            bodies: Arc::default(),
            started: tokio::time::Instant::now(),
            directory,
        }
    }
}

impl Sitting {
    /// Asks for the next thing. The units that follow from it play `units`.
    pub(crate) async fn ask(&self, typed: &str, units: Value) {
        self.invoke(typed, Opening::Prompt(typed.into()), ("scripted", units)).await;
    }

    /// Lets main be told what is new.
    pub(crate) async fn tell_news(&self, units: Value) {
        self.invoke("", Opening::News, ("scripted", units)).await;
    }

    /// Begins an invocation in which main begins with this, on a model of this
    /// name.
    pub(crate) async fn invoke(
        &self,
        typed: &str,
        opening: Opening,
        (model, units): (&str, Value),
    ) {
        let script = json!({ "units": units }).to_string();
        let script = Scripted::parse(model, "script", &script).expect("the script is valid");
        let model = Arc::new(Overheard {
            script,
            bodies: Arc::clone(&self.bodies),
            namesakes: Mutex::default(),
        });
        let Invoked { tools, policy, system, .. } = &*self.invoked;
        let invoked = Invoked {
            typed: typed.into(),
            message: None,
            main: Main::Conversation(opening),
            model,
            tools: tools.clone(),
            policy: Arc::clone(policy),
            system: system.clone(),
        };
        self.order(Asked::Invoke(Box::new(invoked))).await;
    }

    /// Asks for anything.
    pub(crate) async fn order(&self, asked: Asked) {
        assert!(self.asking.send(asked).await.is_ok(), "the run lives on");
    }

    /// Says something while work goes on.
    pub(crate) async fn say(&self, from_user: FromUser) {
        self.telling.send(from_user).await.expect("the run lives on");
    }

    pub(crate) async fn signal(&self, signal: Signal) {
        self.signalling.send(signal).await.expect("the run lives on");
    }

    /// Lets some time pass, in milliseconds.
    pub(crate) async fn wait(&self, milliseconds: u64) {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }

    /// Waits for the end of what was asked with these words. What happens on
    /// threads of its own, as the log's way to the disk, takes no paused time.
    pub(crate) async fn until_ended(&self, typed: &str) {
        let is_begin = |event: &Event| matches!(&event.kind, EventKind::InvocationStarted { prompt, .. } if **prompt == *typed);
        let is_end = |event: &Event| matches!(event.kind, EventKind::InvocationEnded(_));
        for _ in 0..10_000 {
            let events = self.events();
            if events.iter().skip_while(|event| !is_begin(event)).any(is_end) {
                return;
            }
            self.wait(10).await;
        }
        panic!("`{typed}` never ends");
    }

    /// What has happened by now.
    pub(crate) fn events(&self) -> Vec<Event> {
        events(&self.directory)
    }

    /// What can be taken back by now.
    pub(crate) fn look_back(&self) -> Undo {
        Undo::read(&self.directory.path().join("session")).expect("the log can be read")
    }

    /// Reads a file of the working directory; `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.directory.path().join(name)).ok()
    }

    /// What main's model has been sent by now.
    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        self.bodies.lock().expect("nobody panics over it").clone()
    }

    /// Leaves, and returns all that happened.
    pub(crate) async fn leave(self) -> Story {
        drop(self.asking);
        let end = self.running.await.expect("a run does not panic");
        assert!(end.trouble.is_empty(), "{:?}", end.trouble);
        let end = end.end;
        let took = self.started.elapsed();
        Story { events: events(&self.directory), end, took, directory: self.directory }
    }

    /// Waits until the run ends without being left.
    pub(crate) async fn ends(self) -> (Story, RunEnd) {
        let end = self.running.await.expect("a run does not panic");
        assert!(self.asking.is_closed(), "nobody is asked any more");
        let (took, story_end) = (self.started.elapsed(), Arc::clone(&end.end));
        let events = events(&self.directory);
        (Story { events, end: story_end, took, directory: self.directory }, end)
    }
}

impl Story {
    /// Returns the session as the next process finds it if this one dies after
    /// it has written so many events, and mends it.
    pub(crate) fn cut(&self, kept: usize) -> Self {
        let directory = tempfile::tempdir().expect("the system has room for a directory");
        let (from, session) =
            (self.directory.path().join("session"), directory.path().join("session"));
        let text = std::fs::read_to_string(from.join("log.jsonl")).expect("a session has a log");
        drop(SessionLog::create(&session).expect("the log is new"));
        let lines: String = text.split_inclusive('\n').take(kept).collect();
        std::fs::write(session.join("log.jsonl"), lines).expect("the log can be written");
        let mut log = SessionLog::open_for_append(&session).expect("its writer is gone");
        let mut past = Past::read(&session).expect("a session has a log");
        let spill = Spill { directory: directory.path().join("spill") };
        mend(&mut past, Some(&mut log), &spill).expect("the log can be written");
        let (events, end) = (events(&directory), Arc::clone(&self.end));
        Self { events, end, took: Duration::ZERO, directory }
    }
}

fn events(directory: &TempDir) -> Vec<Event> {
    session::read(&directory.path().join("session"))
        .expect("the log was just written")
        .map(|entry| match entry {
            Entry::Event(event) => event,
            Entry::Unknown { .. } | Entry::Bad { .. } => panic!("a bad line: {entry:?}"),
        })
        .collect()
}
