//! Files that go back to what they were before a message, as a client wants it.
//!
//! What `/undo --to` does, between two turns: a client that asks while a message
//! is answered has its reply once main rests. A file that somebody else has
//! changed since keeps every file where it is.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::deeds::no_run;
use super::incoming::short;
use super::refusals::plain;
use super::{Conversation, Done};
use crate::cli::args::UndoFlags;
use crate::cli::exit::Refusal;
use crate::cli::kit::Kit;
use crate::cli::{session, undo};
use crate::event::{Event, EventKind, Seq};
use crate::path_text;
use crate::report::control::Reply;
use crate::report::{UndoReport, UndoState};
use crate::run::{Asked, NoUndo, TakeBack};
use crate::session::undo::{Fate, Plan, PlannedFile};
use crate::session::{LogError, read};

/// Most requests that wait for main to rest. A client asks for one and waits.
const WAITING_CAP: usize = 16;

/// What a client wants to go back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RewindWanted {
    /// The message, as the client calls it.
    message: String,
    /// Whether it only wants to know.
    is_dry: bool,
}

impl RewindWanted {
    /// Reads a request; the error says what is wrong with it.
    pub(super) fn read(request: &Map<String, Value>) -> Result<Self, String> {
        let message = request.get("user_message_id").and_then(Value::as_str);
        let message = message.filter(|name| !name.is_empty());
        let message = message.ok_or("there is no `user_message_id`")?;
        let is_dry = request.get("dry_run").and_then(Value::as_bool).unwrap_or(false);
        Ok(Self { message: short(message), is_dry })
    }
}

/// What was asked to go back and has not yet, oldest first.
#[derive(Default)]
pub(super) struct Rewinds {
    waiting: VecDeque<(String, RewindWanted)>,
    /// Whether one is looked at or carried out.
    is_busy: bool,
}

impl Rewinds {
    /// Tells whether one is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Returns the one that is due, with the request it is to answer.
    pub(super) fn next(&mut self) -> Option<(String, RewindWanted)> {
        self.waiting.pop_front()
    }
}

/// What becomes of files if they go back.
pub(super) struct RewindPlanned {
    /// The request.
    id: String,
    /// What it is answered, if all goes well.
    reply: Reply,
    /// What has to be done before; `None` if nothing.
    take_back: Option<Box<TakeBack>>,
}

impl Conversation {
    /// Has files go back once main rests.
    pub(super) fn rewind_later(&mut self, id: String, wanted: RewindWanted) {
        if self.rewinds.waiting.len() < WAITING_CAP {
            return self.rewinds.waiting.push_back((id, wanted));
        }
        let why = format!("{WAITING_CAP} requests like it wait already");
        self.reply(&id, &Reply::Refused(why));
    }

    /// Finds out what would go back.
    pub(super) fn rewind(&mut self, id: String, wanted: RewindWanted) {
        let Some(kit) = self.kit() else { return self.reply(&id, &no_run()) };
        self.rewinds.is_busy = true;
        self.work.push(Box::pin(async move {
            let planning = tokio::task::spawn_blocking(move || plan(&kit, &wanted));
            let planned = planning.await.expect("planning never panics");
            let (reply, take_back) =
                planned.unwrap_or_else(|refusal| (refused(plain(&refusal)), None));
            Done::Planned(Box::new(RewindPlanned { id, reply, take_back }))
        }));
    }

    /// Has the run put the files back.
    pub(super) fn rewind_planned(&mut self, planned: RewindPlanned) {
        let RewindPlanned { id, reply, take_back } = planned;
        let Some(take_back) = take_back else { return self.rewound(&id, &reply) };
        // A session that is gone on with has no run before its first message.
        if let Err(refusal) = self.sit() {
            return self.rewound(&id, &refused(plain(&refusal)));
        }
        let asking = self.run.as_ref().and_then(|run| run.asking.as_ref());
        let (answer, answered) = oneshot::channel();
        // It rests, so it takes it; unless it has ended, and drops the answer.
        let _ = asking.map(|asking| asking.try_send(Asked::Undo(take_back, answer)));
        self.work.push(Box::pin(async move {
            let reply = match answered.await {
                Ok(Ok(())) => reply,
                Ok(Err(error)) => refused(why_not(&error)),
                Err(_) => refused("the session has ended".to_owned()),
            };
            Done::Rewound { id, reply }
        }));
    }

    /// Tells the client what became of it.
    pub(super) fn rewound(&mut self, id: &str, reply: &Reply) {
        self.rewinds.is_busy = false;
        self.reply(id, reply);
    }
}

fn refused(why: String) -> Reply {
    Reply::Rewound { files: Vec::new(), refused: Some(why) }
}

fn why_not(error: &NoUndo) -> String {
    plain(&Refusal::because(crate::cli::exit::Exit::Error, error))
}

/// Returns what a client is told of files that go back, and what has to be done
/// for it.
fn plan(kit: &Kit, wanted: &RewindWanted) -> Result<(Reply, Option<Box<TakeBack>>), Refusal> {
    let directory = kit.kept()?;
    let RewindWanted { message, is_dry } = wanted;
    let Some(Seq(to)) = before(directory, message)? else {
        let why = format!("no turn of this session began with a message `{message}`");
        return Ok((refused(why), None));
    };
    let flags = UndoFlags { to: Some(to), ..UndoFlags::default() };
    let (undo, plan) = undo::plan(directory, &flags)?;
    let (session, root, before) = (&kit.session, &*kit.root, undo.changes().last());
    let report = |state| UndoReport { session, root, plan: &plan, state, before };
    if undo::stays(&plan) {
        return Ok((refused(what_stays(&report(UndoState::Refused))), None));
    }
    let reply = Reply::Rewound { files: files(root, &plan), refused: None };
    if *is_dry || !undo::goes_back(&plan) {
        return Ok((reply, None));
    }
    let said = undo::said(&flags, &report(UndoState::Done));
    let take_back = TakeBack { undo, plan, said, is_shown: false };
    Ok((reply, Some(Box::new(take_back))))
}

/// Returns the event before the turn that a message began; `None` if none did.
fn before(directory: &Path, wanted: &str) -> Result<Option<Seq>, Refusal> {
    let entries = match read(directory) {
        Ok(entries) => entries,
        // The session is there only once something was run in it.
        Err(LogError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(session::cannot_read(&error)),
    };
    let begins = |event: Event| {
        let EventKind::InvocationStarted { message, .. } = &event.kind else { return None };
        let is_it = message.as_deref() == Some(wanted);
        is_it.then(|| Seq(event.seq.0.saturating_sub(1)))
    };
    Ok(entries.events().filter_map(begins).last())
}

fn what_stays(report: &UndoReport<'_>) -> String {
    let stays = |file: &&PlannedFile| matches!(file.fate, Fate::Stays(_));
    let stay = report.plan.files.iter().filter(stays).count();
    // Those that stay are told last.
    let lines = report.lines();
    let told = lines.iter().skip(lines.len() - stay).map(|line| line.trim());
    let told: Vec<&str> = told.collect();
    format!("no file was changed: {}: {}", report.sentence(), told.join("; "))
}

/// Returns the paths of files that go back, whole.
fn files(root: &Path, plan: &Plan) -> Vec<String> {
    let back = plan.files.iter().filter(|file| file.fate == Fate::GoesBack);
    back.map(|file| path_text::to_text(&root.join(&*file.path))).collect()
}
