//! `--input-format stream-json`: a program that speaks for a person.
//!
//! Its lines are heard while a message is being answered, and no line waits for
//! that: questions go out as requests, and their answers come in as lines. Each
//! message is an invocation of its own in the one session, one after the other.
//! The end of the input says that nothing more comes, neither a message nor an
//! answer; the work in hand is finished.

mod incoming;
mod talk;
mod wire;

use std::future::Future;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::args::{Format, RunFlags};
use super::exit::{Exit, Refusal};
use super::model::DefaultModel;
use super::start::{Client, Kept, Outside, Start};
use super::{print, resume, signals, slash, undo};
use crate::config::Environment;
use crate::definition::AgentDefinition;
use crate::event::CancelReason;
use crate::guard::Mode;
use crate::report::control::{Introduction, Named, Reply};
use crate::run::{FromUser, RunEnd, Signal};
use talk::{Step, Talk};
use wire::{Heard, Replies};

pub(super) use wire::WholeLines;

/// Most of what a client has said that waits for a run. Ten thousand agents may
/// ask at once, and a client may answer all of them at once.
const SAID_CAP: usize = 1 << 16;

/// Most signals that wait for a run.
const SIGNALS_CAP: usize = 8;

/// Answers a client until its input ends.
pub(super) fn run(
    environment: &Environment,
    flags: RunFlags,
    typed: Option<&str>,
) -> Result<Exit, Refusal> {
    if flags.output_format() != Format::StreamJson {
        let message = "`--input-format stream-json` needs `--output-format stream-json`";
        return Err(Refusal::new(Exit::Usage, message));
    }
    if let Some(typed) = typed.filter(|typed| *typed != "-") {
        let message = format!("with `--input-format stream-json` there is no prompt but `{typed}`");
        return Err(Refusal::new(Exit::Usage, message)
            .hint("leave the prompt out: messages are read from standard input"));
    }
    let start = Start::new(environment, flags.clone(), DefaultModel::None)?;
    let runtime = print::runtime()?;
    let mut conversation = Conversation::new(environment.clone(), flags, start);
    let exit = runtime.block_on(conversation.go());
    let Conversation { replies, scratch, kept, .. } = conversation;
    runtime.block_on(kept.servers.close());
    print::say_remarks(&kept.models);
    replies.close();
    runtime.shutdown_timeout(print::SHUTDOWN_GRACE);
    // Only now: until here some unit may still have been writing there.
    drop(scratch);
    exit
}

/// A run, until its end.
type Running = Pin<Box<dyn Future<Output = Result<(RunEnd, Option<TempDir>), Refusal>>>>;

/// A conversation with a client.
struct Conversation {
    environment: Environment,
    /// Those of the next run.
    flags: RunFlags,
    /// What the next run is made of, if that is there already.
    ready: Option<Start>,
    /// What goes on from one message to the next.
    kept: Kept,
    talk: Talk,
    replies: Replies,
    /// Whether the last reply was left out, because too many are not read.
    is_unread: bool,
    /// Whether people know that messages are not taken.
    has_refused: bool,
    /// Ends the wait for a client to read, once a signal has asked for the end.
    is_told: CancellationToken,
    /// Where the run hears the client; `None` while there is no run, or once
    /// the input has ended.
    said: Option<mpsc::Sender<FromUser>>,
    /// Where the run hears signals.
    signals: Option<mpsc::Sender<Signal>>,
    /// Whether the session is kept, so that a second message can go on with it.
    is_kept: bool,
    session: String,
    /// Whether anything was run.
    has_begun: bool,
    scratch: Vec<TempDir>,
}

impl Conversation {
    fn new(environment: Environment, flags: RunFlags, start: Start) -> Self {
        Self {
            environment,
            flags,
            kept: start.kit.goes_on(),
            talk: Talk::new(introduction(&start)),
            replies: Replies::new(),
            is_unread: false,
            has_refused: false,
            is_told: CancellationToken::new(),
            said: None,
            signals: None,
            is_kept: start.kit.is_kept,
            session: start.kit.session.to_string(),
            ready: Some(start),
            has_begun: false,
            scratch: Vec::new(),
        }
    }

    /// Answers messages until there are no more. Returns how the last one went.
    async fn go(&mut self) -> Result<Exit, Refusal> {
        let mut arriving = signals::listen().map_err(|error| {
            Refusal::new(Exit::Error, format!("cannot listen to signals: {error}"))
        })?;
        let mut heard = wire::listen();
        let (mut exit, mut told, mut has_ended) = (Exit::Done, None, false);
        let mut running: Option<Running> = None;
        loop {
            if running.is_none() {
                match (told, self.talk.next_message()) {
                    (Some(signal), _) => return Ok(Exit::after(signal)),
                    (None, Some(message)) => running = Some(self.begin(message, has_ended)),
                    (None, None) if has_ended => return Ok(exit),
                    (None, None) => {}
                }
            }
            tokio::select! {
                biased;
                Some(signal) = arriving.recv() => {
                    told = Some(signal);
                    self.is_told.cancel();
                    // A run that has so many of them is about to end.
                    let _ = self.signals.as_ref().map(|run| run.try_send(signal));
                }
                ended = ended(&mut running) => {
                    running = None;
                    exit = self.end(ended, told.is_some());
                }
                line = heard.recv(), if !has_ended => match line {
                    Some(line) => self.hear(&line),
                    None => {
                        has_ended = true;
                        // Nobody answers any more.
                        self.said = None;
                    }
                },
            }
        }
    }

    /// Begins to answer a message.
    fn begin(&mut self, message: Result<String, String>, nobody_answers: bool) -> Running {
        let (signals, arriving) = mpsc::channel(SIGNALS_CAP);
        let (said, hearing) = mpsc::channel(SAID_CAP);
        let answers = (!nobody_answers).then_some(hearing);
        (self.signals, self.said) = (Some(signals), answers.is_some().then_some(said));
        let client = Client { answers, is_first: !self.has_begun };
        let outside = Outside { signals: arriving, client: Some(client) };
        let message = message.map_err(|why| Refusal::new(Exit::BadInput, why));
        let ready = message.and_then(|prompt| Ok((self.next_start()?, prompt)));
        let (session, is_told) = (self.session.parse().ok(), self.is_told.clone());
        Box::pin(async move {
            let answering = async {
                let (start, prompt) = ready?;
                if slash::asks_for_usage(&prompt) || undo::asked(&prompt).is_some() {
                    let message = "`/usage` and `/undo` are for the command line";
                    return Err(Refusal::new(Exit::Usage, message)
                        .hint("there are `tine session usage` and `tine session revert`, too"));
                }
                print::go(start, prompt, outside).await
            };
            let answered = answering.await;
            if let Err(refusal) = &answered {
                // Before the next message is begun, whose records come after.
                let result = refused(refusal, session);
                let written = tokio::task::spawn_blocking(move || WholeLines.write_all(&result));
                tokio::select! {
                    // Nobody reads: the refusal is on standard error, too.
                    _ = written => {}
                    () = is_told.cancelled() => {}
                }
            }
            answered
        })
    }

    /// Returns what the next run is made of: it goes on where the last one
    /// ended.
    fn next_start(&mut self) -> Result<Start, Refusal> {
        if let Some(start) = self.ready.take() {
            return Ok(start);
        }
        if !self.has_begun {
            // The session is there only once something was run in it.
            let is_there = resume::is_wanted(&self.flags) && !self.flags.fork_session;
            let session_id = if is_there { None } else { self.session.parse().ok() };
            let flags = RunFlags { session_id, ..self.flags.clone() };
            return Start::again(&self.environment, flags, self.kept.clone());
        }
        if !self.is_kept {
            let message = "a session that is not kept takes one message only";
            return Err(
                Refusal::new(Exit::BadInput, message).hint("leave `--no-session-persistence` out")
            );
        }
        let flags = RunFlags {
            continue_latest: false,
            resume: Some(self.session.clone()),
            fork_session: false,
            session_id: None,
            name: None,
            ..self.flags.clone()
        };
        Start::again(&self.environment, flags, self.kept.clone())
    }

    /// Tells how a message was answered, and returns what that means for the
    /// process. `is_told` is whether a signal has asked it to end.
    fn end(&mut self, ended: Result<(RunEnd, Option<TempDir>), Refusal>, is_told: bool) -> Exit {
        self.talk.answered();
        (self.said, self.signals) = (None, None);
        let (finished, scratch) = match ended {
            Ok(ended) => ended,
            Err(refusal) => {
                super::say(&refusal);
                return refusal.exit;
            }
        };
        self.has_begun = true;
        self.scratch.extend(scratch);
        let last_message = self.flags.output_last_message.as_deref().map(print::create);
        let last_message = last_message.transpose().unwrap_or_else(|refusal| {
            super::say(&refusal);
            None
        });
        let exit = print::wind_up(&finished, last_message);
        match finished.end.cancel {
            // The client ended a turn, and goes on.
            Some(CancelReason::Interrupt) if !is_told => Exit::Done,
            _ => exit,
        }
    }

    /// Tells that a message is not taken: its result says so. Whoever sends many
    /// of them may not read meanwhile, so people are told once.
    fn refuse(&mut self, refusal: &Refusal) {
        if !std::mem::replace(&mut self.has_refused, true) {
            super::say(refusal);
        }
        self.send(refused(refusal, self.session.parse().ok()));
    }

    /// Sends a line, and tells people if the client has begun to miss some.
    fn send(&mut self, line: Vec<u8>) {
        let is_unread = !self.replies.send(line);
        if is_unread && !self.is_unread {
            super::say(&"warning: the client reads no replies; some are left out");
        }
        self.is_unread = is_unread;
    }

    fn hear(&mut self, heard: &Heard) {
        for step in self.talk.hear(heard) {
            match step {
                Step::Reply { id, reply } => self.send(reply.line(&id)),
                Step::TellServers { id } => {
                    let reply = Reply::Servers(self.kept.servers.glances());
                    self.send(reply.line(&id));
                }
                Step::Tell(said) => {
                    let full = self.said.as_ref().is_some_and(|run| {
                        matches!(run.try_send(said), Err(mpsc::error::TrySendError::Full(_)))
                    });
                    if full {
                        super::say(&"warning: the client says too much; an answer is left out");
                    }
                }
                Step::SetMode(mode) => self.set_mode(mode),
                Step::Refuse(why) => self.refuse(&Refusal::new(Exit::BadInput, why)),
                Step::Say(text) => super::say(&format!("warning: {text}")),
            }
        }
    }

    fn set_mode(&mut self, mode: Mode) {
        (self.flags.permission_mode, self.flags.dangerously_skip_permissions) = (Some(mode), false);
        // What cannot be made of the same flags again is told with the message.
        if let Some(Err(refusal)) = self.ready.as_mut().map(|start| start.kit.set_mode(mode)) {
            self.ready = None;
            super::say(&refusal);
        }
    }
}

/// Waits for the end of a run; forever if there is none. Dropping the future
/// loses nothing.
async fn ended(running: &mut Option<Running>) -> <Running as Future>::Output {
    match running {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
}

/// Returns the result of a message that was not answered.
fn refused(refusal: &Refusal, session: Option<Uuid>) -> Vec<u8> {
    wire::written_by(|output| print::show_refusal(refusal, session, vec![output]))
}

fn introduction(start: &Start) -> Introduction {
    let agent = |definition: &Arc<AgentDefinition>| Named {
        name: definition.name.clone(),
        description: definition.description.clone(),
    };
    let described = |name: String| {
        let skill = start.kit.skills.find(&name);
        Named {
            name,
            description: skill.map_or_else(String::new, |skill| skill.description.clone()),
        }
    };
    Introduction {
        session: start.kit.session.clone(),
        commands: slash::names(&start.kit.skills).into_iter().map(described).collect(),
        agents: start.kit.definitions.iter().map(agent).collect(),
        models: vec![start.kit.model.name().to_string()],
    }
}
