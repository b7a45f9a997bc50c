//! `--input-format stream-json`: a program that speaks for a person.
//!
//! Its lines are heard while a message is being answered, and no line waits for
//! that: questions go out as requests, and their answers come in as lines. The
//! run begins with the first message and lives on between them, so what works in
//! the background outlives a result, and main is told of it when it rests. The
//! end of the input says that nothing more comes, neither a message nor an
//! answer; the work in hand is finished.

mod answers;
mod calling;
mod carried;
mod deeds;
mod files;
mod incoming;
mod messages;
mod progress;
mod refusals;
mod requests;
mod rewinding;
mod sat;
mod settings;
mod skim;
mod talk;
mod wire;
mod wishes;

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::args::{Format, RunFlags};
use super::exit::{Exit, Refusal};
use super::kit::Kit;
use super::model::DefaultModel;
use super::start::{Brought, Kept, Sitter, Sitting, Start};
use super::target::{Links, Target};
use super::{print, resume, rules, signals, telemetry};
use crate::config::Environment;
use crate::event::CancelReason;
use crate::guard::Mode;
use crate::run::{FromUser, RunEnd, Signal};
use calling::Calls;
use carried::CarriedServers;
use files::Readers;
use messages::Begun;
use progress::{Progress, Teller};
use rewinding::Rewinds;
use sat::{Done, Sat, ended, got_on};
use settings::InForce;
use talk::{Step, Talk};
use wire::Replies;

pub(super) use wire::{Heard, WholeLines, listen, reader_gone, watch_reader};

/// Most of what a client has said that waits for a run. Ten thousand agents may
/// ask at once, and a client may answer all of them at once.
const SAID_CAP: usize = 1 << 16;

/// Most signals that wait for a run.
const SIGNALS_CAP: usize = 8;

/// Most that a run is asked before it has taken it: one thing, since it does one
/// at a time.
const ASKED_CAP: usize = 1;

/// Most things that are found out or written beside everything else: a client
/// that asks for more is heard once some of them are done.
const WORK_CAP: usize = 64;

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
    let runtime = print::runtime()?;
    // The agent that main is may come with the first request.
    let first = RunFlags { agent: None, ..flags.clone() };
    let start = Start::new(environment, first, DefaultModel::None);
    let start = start.inspect_err(|refusal| runtime.block_on(refusals::decline(refusal)))?;
    let mut conversation = Conversation::new(environment.clone(), flags, start);
    let exit = runtime.block_on(conversation.go());
    let Conversation { replies, scratch, kept, .. } = conversation;
    runtime.block_on(kept.servers.close());
    runtime.block_on(telemetry::close(kept.exporter.as_ref(), exit.as_ref().ok().copied()));
    print::say_remarks(&kept.models);
    replies.close();
    runtime.shutdown_timeout(print::SHUTDOWN_GRACE);
    // Only now: until here some unit may still have been writing there.
    drop(scratch);
    exit
}

/// A conversation with a client.
struct Conversation {
    environment: Environment,
    flags: RunFlags,
    /// The model that was asked for at the start.
    first_model: Option<String>,
    /// The mode that was.
    first_mode: Option<Mode>,
    settings: InForce,
    /// What goes on where a run is made again.
    kept: Kept,
    session: String,
    talk: Talk,
    /// What else the client is asked than the questions of a run.
    calls: Calls,
    carried: CarriedServers,
    /// What it has brought along.
    brought: Brought,
    replies: Replies,
    readers: Readers,
    rewinds: Rewinds,
    /// Whether the last reply was left out, because too many are not read.
    is_unread: bool,
    /// What the run is made of, until there is one.
    ready: Option<Start>,
    /// Whether the agent that main is has not been looked for.
    lacks_agent: bool,
    /// Why there is nothing that it could be made of, as the client wants it.
    refusal: Option<Refusal>,
    run: Option<Sat>,
    /// How far the run is.
    progress: Option<watch::Receiver<Progress>>,
    /// The run itself.
    running: Option<JoinHandle<RunEnd>>,
    /// What is found out or written beside everything else.
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// The message whose meaning is being found out; one with another number is
    /// not wanted any more.
    wanted: Option<Begun>,
    messages: u64,
    /// Whether a result is being written that no run has.
    is_writing: bool,
    /// Whether news that were not asked for wait until something else happens:
    /// the client has ended a turn.
    is_calm: bool,
    /// Whether the input has ended.
    has_ended: bool,
    /// The signal that asked for the end.
    told: Option<Signal>,
    /// Ends the wait for a client to read, once it has.
    is_told: CancellationToken,
    /// How the process ends, as far as that is known.
    exit: Exit,
    scratch: Vec<TempDir>,
}

impl Conversation {
    fn new(environment: Environment, flags: RunFlags, start: Start) -> Self {
        Self {
            environment,
            first_model: flags.model.clone(),
            first_mode: rules::mode_of_flags(&flags),
            settings: InForce::of(&flags),
            lacks_agent: flags.agent.is_some(),
            flags,
            kept: start.kit.goes_on(),
            session: start.kit.session.to_string(),
            talk: Talk::default(),
            calls: Calls::default(),
            carried: CarriedServers::default(),
            brought: Brought::default(),
            replies: Replies::new(),
            readers: Readers::default(),
            rewinds: Rewinds::default(),
            is_unread: false,
            ready: Some(start),
            refusal: None,
            run: None,
            progress: None,
            running: None,
            work: FuturesUnordered::new(),
            wanted: None,
            messages: 0,
            is_writing: false,
            is_calm: false,
            has_ended: false,
            told: None,
            is_told: CancellationToken::new(),
            exit: Exit::Done,
            scratch: Vec::new(),
        }
    }

    /// Answers messages until there are no more. Returns how the process ends.
    async fn go(&mut self) -> Result<Exit, Refusal> {
        let mut arriving = signals::listen().map_err(|error| {
            Refusal::new(Exit::Error, format!("cannot listen to signals: {error}"))
        })?;
        let mut heard = wire::listen();
        let mut gone = Some(wire::watch_reader());
        loop {
            self.feed();
            if self.is_over() {
                return Ok(self.told.map_or(self.exit, Exit::after));
            }
            tokio::select! {
                biased;
                Some(signal) = arriving.recv() => self.signal(signal),
                due = self.calls.due() => {
                    self.calls.carry_out(due, |line| self.replies.send(line));
                }
                () = got_on(&mut self.progress) => self.got_on(),
                ended = ended(&mut self.running) => return Ok(self.ended(&ended)),
                line = heard.recv(), if !self.has_ended && self.work.len() < WORK_CAP => match line {
                    Some(line) => self.hear(&line),
                    None => self.input_ended(),
                },
                // Whoever still writes may do without an answer.
                () = wire::reader_gone(&mut gone), if self.has_ended => self.signal(Signal::Hangup),
                Some(done) = self.work.next() => self.done(done),
            }
        }
    }

    /// Tells whether nothing is left to be done, and no run to wait for.
    fn is_over(&self) -> bool {
        let is_idle = !self.is_busy() && self.run.is_none();
        // What was asked before the end of the input is answered.
        let is_done = self.has_ended && !self.talk.has_message() && self.work.is_empty();
        is_idle && (self.told.is_some() || is_done)
    }

    /// Tells whether a message is being answered, or about to be.
    fn is_busy(&self) -> bool {
        let is_at_work = |run: &Sat| run.asked > run.known.ended;
        let is_aside = self.is_writing || self.rewinds.is_busy() || self.wanted.is_some();
        is_aside || self.run.as_ref().is_some_and(is_at_work)
    }

    /// Asks for what is next, if main rests.
    fn feed(&mut self) {
        if self.is_busy() {
            return;
        }
        let owes_news = |known: &Progress| match self.has_ended {
            // Main waits for what is still at work.
            true => known.owes_news(),
            false => known.untold > 0 && !self.is_calm,
        };
        if self.told.is_some() {
            return self.leave();
        }
        if let Some((id, wanted)) = self.rewinds.next() {
            return self.rewind(id, wanted);
        }
        if let Some(message) = self.talk.next_message() {
            return self.begin(message);
        }
        if self.run.as_ref().is_some_and(|run| owes_news(&run.known)) {
            self.is_calm = true;
            self.ask_news();
        } else if self.has_ended && self.work.is_empty() {
            // What was asked before the end is answered first.
            self.leave();
        }
    }

    /// Lets the run come to its end.
    fn leave(&mut self) {
        if let Some(run) = &mut self.run {
            run.asking = None;
        }
    }

    /// Returns what prompts are made with. The run begins now if there is none.
    fn sit(&mut self) -> Result<Arc<Kit>, Refusal> {
        if let Some(run) = &self.run {
            return Ok(Arc::clone(&run.kit));
        }
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let start = match self.ready.take().filter(|_| !std::mem::take(&mut self.lacks_agent)) {
            Some(start) => start,
            None => {
                let mut start = self.start_again(&self.flags.clone())?;
                start.kit.policy = self.settings.over(&start.kit.policy);
                start
            }
        };
        let (signals, arriving) = mpsc::channel(SIGNALS_CAP);
        let (said, answers) = mpsc::channel(SAID_CAP);
        let (asking, asked) = mpsc::channel(ASKED_CAP);
        let (teller, progress) = Teller::new();
        let sitter = Sitter::Client(Box::new(teller));
        let sitting = Sitting { signals: arriving, answers, asking: asked, sitter, follows: false };
        let (run, kit, scratch) = start.sit(sitting)?;
        self.scratch.extend(scratch);
        self.run = Some(Sat {
            kit: Arc::clone(&kit),
            asking: Some(asking),
            // Nobody answers once the input has ended.
            said: (!self.has_ended).then_some(said),
            signals,
            known: Progress::default(),
            asked: 0,
        });
        (self.progress, self.running) = (Some(progress), Some(tokio::spawn(run.go())));
        Ok(kit)
    }

    /// Returns what the run is made of where the first try came to nothing.
    fn start_again(&mut self, flags: &RunFlags) -> Result<Start, Refusal> {
        // The session is there only once something was run in it.
        let is_there = resume::is_wanted(flags) && !flags.fork_session;
        let session_id = if is_there { None } else { self.session.parse().ok() };
        let flags = RunFlags { session_id, ..flags.clone() };
        let (kept, brought) = (self.kept.clone(), self.brought.clone());
        let start = Start::bringing(&self.environment, flags, kept, brought)?;
        self.kept = start.kit.goes_on();
        Ok(start)
    }

    /// Takes what was worked on.
    fn done(&mut self, done: Done) {
        match done {
            Done::Written => self.is_writing = false,
            Done::Planned(planned) => self.rewind_planned(*planned),
            Done::Rewound { id, reply } => self.rewound(&id, &reply),
            Done::Replied { id, reply } => self.reply(&id, &reply),
            Done::Meant { number, typed, main } => self.meant(number, &typed, main),
        }
    }

    /// Takes note of how far the run is now.
    fn got_on(&mut self) {
        let (Some(run), Some(progress)) = (&mut self.run, &mut self.progress) else { return };
        let now = progress.borrow_and_update().clone();
        let before = std::mem::replace(&mut run.known, now);
        let (ended, last) = (run.known.ended > before.ended, run.known.last.clone());
        if run.known.unit_ends > before.unit_ends {
            self.is_calm = false;
        }
        if let Some(last) = last.filter(|_| ended) {
            // Whoever ended the turn does not want another at once.
            self.is_calm |= last.cancel.is_some();
            let exit = print::keep_last(&last, self.last_message());
            self.exit = match last.cancel {
                // The client ended a turn, and goes on.
                Some(CancelReason::Interrupt) if self.told.is_none() => Exit::Done,
                _ => exit,
            };
        }
    }

    /// Returns where the last message goes.
    fn last_message(&self) -> Option<Target> {
        let target = Target::new(self.flags.output_last_message.as_deref()?, Links::Inside);
        target.inspect_err(super::say).ok()
    }

    /// Returns how the process ends, now that the run has.
    fn ended(&mut self, ended: &RunEnd) -> Exit {
        self.got_on();
        self.run = None;
        let exit = match self.told {
            // A turn that ended before the signal reached it is done.
            Some(signal) if self.exit == Exit::Done => Exit::after(signal),
            Some(_) | None => self.exit,
        };
        print::wind_up(ended, exit)
    }

    fn signal(&mut self, signal: Signal) {
        self.told = Some(signal);
        if let Some(begun) = self.wanted.take() {
            self.stop_before_it_began(begun, Exit::after(signal));
        }
        self.is_told.cancel();
        // A run that has so many of them is about to end.
        let _ = self.run.as_ref().map(|run| run.signals.try_send(signal));
    }

    fn input_ended(&mut self) {
        self.has_ended = true;
        self.calls.close();
        // Nobody answers any more.
        if let Some(run) = &mut self.run {
            run.said = None;
        }
    }

    fn hear(&mut self, heard: &Heard) {
        let is_busy = self.is_busy();
        for step in self.talk.hear(heard, is_busy) {
            match step {
                Step::Reply { id, reply } => self.reply(&id, &reply),
                Step::Called { id, answer } => self.calls.answered(id, answer),
                Step::Tell(said) => self.tell(said),
                Step::EndTurn => self.end_turn(),
                Step::SetMode(mode) => self.set_mode(mode),
                Step::Do { id, deed } => self.carry_out(id, deed),
                Step::Say(text) => super::say(&format!("warning: {text}")),
            }
        }
    }

    /// Tells the run something, if there is one.
    fn tell(&self, said: FromUser) {
        let to = self.run.as_ref().and_then(|run| run.said.as_ref());
        let sent = to.map(|run| run.try_send(said));
        if matches!(sent, Some(Err(mpsc::error::TrySendError::Full(_)))) {
            super::say(&"warning: the client says too much; an answer is left out");
        }
    }

    fn set_mode(&mut self, mode: Mode) {
        self.settings.forget_mode();
        (self.flags.permission_mode, self.flags.dangerously_skip_permissions) = (Some(mode), false);
        if let Some(start) = &mut self.ready {
            start.kit.set_mode(mode);
        }
        if let Some(run) = &mut self.run {
            Arc::make_mut(&mut run.kit).set_mode(mode);
        }
        self.tell(FromUser::Mode(mode));
    }
}
