//! Between the terminal and the run: sessions one after another, what a person
//! asks of each, and the end.
//!
//! It waits for everything at once and for nothing in particular, so a command
//! that takes its time keeps neither a signal nor an answer waiting.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nix::sys::signal::{self, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal as arriving};
use tokio::sync::mpsc;

use super::desk::{Desk, Manners, Seen, Step};
use super::history::History;
use super::lines::{self, Lines};
use super::seat::Seat;
use super::session::{After, Session};
use super::terminal::{self, Making, SEEN_CAP, STEPS_CAP, SessionNumber, ToTerminal};
use super::tty;
use crate::cli::args::RunFlags;
use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::model::DefaultModel;
use crate::cli::setup::{self, SetUp};
use crate::cli::start::{Kept, Start};
use crate::cli::{print, say, signals, telemetry};
use crate::config::{Environment, dirs};
use crate::event::{Digest, FileChange};
use crate::report::difference::BothSides;
use crate::report::ink::{Highlighter, Ink, ReadSides};
use crate::report::row::Row;
use crate::run::Signal;
use crate::session::Blobs;

/// How long the terminal may take to show the last of it.
const TERMINAL_GRACE: Duration = Duration::from_secs(2);

/// How long the window's size is given time to settle.
const RESIZE_WAIT: Duration = Duration::from_millis(40);

/// Most bytes of a file whose change is shown.
const SHOWN_CAP: u64 = 1 << 20;

/// Runs a chat, which may begin with a prompt.
pub(in crate::cli) fn run(
    environment: &Environment,
    flags: RunFlags,
    prompt: Option<String>,
) -> Result<Exit, Refusal> {
    if flags.json_schema.is_some() {
        return Err(Refusal::new(Exit::Usage, "what is said in a chat fits no schema")
            .hint("`--json-schema` needs a prompt: `tine -p PROMPT`"));
    }
    let start = first(environment, flags)?;
    if start.kit.has_screen() {
        // Before there are more threads.
        tty::keep_stops().map_err(|error| Refusal::new(Exit::Error, error.to_string()))?;
    }
    let runtime = print::runtime()?;
    let Kept { models, servers, pool: _, exporter } = start.kit.goes_on();
    let Over { exit, scratch, takes_words } = runtime.block_on(async {
        let (driver, seat) = Driver::new(environment, start, prompt)?;
        Ok::<_, Refusal>(driver.go(seat).await)
    })?;
    runtime.block_on(servers.close());
    let lost = runtime.block_on(telemetry::flush(exporter.as_ref(), Some(exit)));
    if takes_words {
        telemetry::say(lost);
        print::say_remarks(&models);
    }
    runtime.shutdown_timeout(print::SHUTDOWN_GRACE);
    // Only now: until here some unit may still have been writing there.
    drop(scratch);
    Ok(exit)
}

/// Returns what the first session is made of. Where no model is configured one
/// is chosen first.
fn first(environment: &Environment, mut flags: RunFlags) -> Result<Start, Refusal> {
    match Start::new(environment, flags.clone(), DefaultModel::None) {
        Err(refusal) if refusal.lacks_model => {
            if let SetUp::ForNow(name) = setup::choose(environment, &flags)? {
                flags.model = Some(name.to_owned());
            }
            Start::new(environment, flags, DefaultModel::None)
        }
        other => other,
    }
}

/// A chat that is over.
struct Over {
    exit: Exit,
    scratch: Vec<TempDir>,
    /// Whether the terminal takes anything: else whoever writes to it waits.
    takes_words: bool,
}

struct Driver {
    terminal: SyncSender<ToTerminal>,
    /// Leads there, too, and never waits.
    shown: Sender<ToTerminal>,
    thread: JoinHandle<()>,
    steps: mpsc::Receiver<(SessionNumber, Step)>,
    /// The session that goes on.
    number: SessionNumber,
    signals: mpsc::Receiver<Signal>,
    scratch: Vec<TempDir>,
    /// What the first session begins with.
    prompt: Option<String>,
}

impl Driver {
    /// Opens the first session, and takes the terminal.
    fn new(
        environment: &Environment,
        start: Start,
        prompt: Option<String>,
    ) -> Result<(Self, Seat), Refusal> {
        let cannot = |what: &str, error: &io::Error| {
            Refusal::new(Exit::Error, format!("cannot {what}: {error}"))
        };
        let signals = signals::listen().map_err(|error| cannot("listen to signals", &error))?;
        let (terminal, inbox) = sync_channel(SEEN_CAP);
        let (sender, steps) = mpsc::channel(STEPS_CAP);
        let seat = Seat::take(start, false, &terminal)?;
        let (kit, sender) = (&seat.kit, (terminal.clone(), sender));
        let thread = serve(kit, environment, inbox, sender)
            .map_err(|error| cannot("use the terminal", &error))?;
        quits().map_err(|error| cannot("listen to signals", &error))?;
        let shown = forward(&terminal).map_err(|error| cannot("use the terminal", &error))?;
        let (number, scratch) = (SessionNumber::default(), Vec::new());
        let driver = Self { terminal, shown, thread, steps, number, signals, scratch, prompt };
        Ok((driver, seat))
    }

    /// Goes through sessions until the user leaves.
    async fn go(mut self, mut seat: Seat) -> Over {
        let (exit, note) = loop {
            let (after, note) = self.session(seat).await;
            match after {
                After::Next(next) => seat = *next,
                After::Leave(exit) => break (exit, note),
            }
        };
        let Self { terminal, thread, .. } = self;
        let ending = tokio::task::spawn_blocking(move || {
            // It may have ended by itself; one that panicked has said so.
            let _ = terminal.send(ToTerminal::Over);
            let _ = thread.join();
        });
        // A terminal that takes nothing any more keeps nobody from leaving.
        let takes_words = tokio::time::timeout(TERMINAL_GRACE, ending).await.is_ok();
        if takes_words {
            note.iter().for_each(say);
        } else {
            tty::put_back();
        }
        Over { exit, scratch: self.scratch, takes_words }
    }

    /// Goes through one session. Returns what follows, and what is said of it
    /// if that is the end.
    async fn session(&mut self, seat: Seat) -> (After, Option<String>) {
        let Seat { run, kit, scratch, rows, context, asking, said, signals, place } = seat;
        self.scratch.extend(scratch);
        let highlighter = kit.has_screen().then(|| self.highlighter(&kit.directory)).flatten();
        let mut session = Session {
            kit,
            terminal: self.terminal.clone(),
            shown: self.shown.clone(),
            asking: Some(asking),
            said,
            signals,
            work: FuturesUnordered::new(),
            prompts: 0,
            asked: 0,
            wanted: None,
            plan: None,
            after: None,
            is_opening: false,
            place,
        };
        self.number = self.number.next();
        let began = Seen::Began { about: session.about(), highlighter, rows, context };
        session.first(began).await;
        if let Some(prompt) = self.prompt.take() {
            session.first(Seen::First(prompt)).await;
        }
        let mut running = tokio::spawn(run.go());
        let ended = loop {
            tokio::select! {
                biased;
                Some(signal) = self.signals.recv() => session.signal(signal),
                // Before the run's end: one whose terminal is gone may end by itself.
                step = self.steps.recv(), if session.asking.is_some() => match step {
                    // A terminal is gone for every session.
                    Some((_, Step::Gone)) => session.step(Step::Gone),
                    Some((number, step)) if number == self.number => session.step(step),
                    // It was meant for the session before.
                    Some((_, step)) => session.missed(step),
                    // The terminal's thread ended and could not say why.
                    None => session.end(After::Leave(Exit::Error)),
                },
                ended = &mut running => break ended,
                Some(done) = session.work.next() => session.done(done),
            }
        };
        let ended = ended.expect("a run never panics");
        for trouble in &ended.trouble {
            let row = Row::new().text(Ink::Caution, &format!("warning: {trouble}"));
            session.show(Seen::Shown(vec![row]));
        }
        let note = session.place.farewell();
        // Nobody could be shown anything any more.
        (session.after.take().unwrap_or(After::Leave(Exit::Error)), note)
    }

    /// Starts what colours code and finds what changed in files.
    fn highlighter(&self, directory: &Path) -> Option<Highlighter> {
        let terminal = self.terminal.clone();
        let deliver = move |coloured| {
            // Nobody waits for it any more.
            let _ = terminal.send(ToTerminal::Seen(Seen::Coloured(coloured)));
        };
        // Without a thread everything is plain.
        Highlighter::start(both_sides(directory), deliver).ok()
    }
}

/// Has a thread serve the terminal, which is told by one sender and tells by the
/// other.
fn serve(
    kit: &Kit,
    environment: &Environment,
    inbox: Receiver<ToTerminal>,
    (sender, steps): (SyncSender<ToTerminal>, mpsc::Sender<(SessionNumber, Step)>),
) -> io::Result<JoinHandle<()>> {
    let (chat, environment) = (&kit.config.chat, environment.clone());
    let bell_after_ms = u64::try_from(chat.bell_after.as_millis()).unwrap_or(u64::MAX);
    let bell = chat.bell;
    if !kit.has_screen() {
        let lines = Lines::new(bell_after_ms);
        return lines::start(lines::Making { lines, environment, bell, inbox, sender, steps });
    }
    let manners = Manners { editing: chat.editing, bell_after_ms };
    let history = history(&environment, kit.is_kept);
    tty::restore_on_panic();
    resizes(&sender)?;
    terminal::start(Making {
        desk: Desk::new(manners, history, tty::size(io::stdout())),
        environment,
        theme: chat.theme,
        bell,
        has_title: chat.title,
        root: kit.root.clone(),
        inbox,
        sender,
        steps,
    })
}

/// Opens what was typed before. What is not kept is remembered until the end.
fn history(environment: &Environment, is_kept: bool) -> History {
    let file = dirs::history_file(environment).ok().filter(|_| is_kept);
    let Some(file) = file else { return History::default() };
    History::open(&file).unwrap_or_else(|error| {
        let file = file.display();
        say(&format!("warning: what you type is not remembered in {file}: {error}"));
        History::default()
    })
}

/// Returns what leads to the terminal and never waits: a thread does.
fn forward(terminal: &SyncSender<ToTerminal>) -> io::Result<Sender<ToTerminal>> {
    let (shown, waiting) = channel();
    let terminal = terminal.clone();
    let forwarding = move || {
        let _ = waiting.into_iter().all(|next| terminal.send(next).is_ok());
    };
    std::thread::Builder::new().name("shown".to_owned()).spawn(forwarding)?;
    Ok(shown)
}

/// Tells the terminal whenever its window has another size.
fn resizes(terminal: &SyncSender<ToTerminal>) -> io::Result<()> {
    let mut changes = arriving(SignalKind::window_change())?;
    let terminal = terminal.clone();
    tokio::spawn(async move {
        while changes.recv().await.is_some() {
            // A window that is dragged has many sizes a second.
            tokio::time::sleep(RESIZE_WAIT).await;
            let terminal = terminal.clone();
            let tell = move || terminal.send(ToTerminal::Resized).is_ok();
            if !matches!(tokio::task::spawn_blocking(tell).await, Ok(true)) {
                return;
            }
        }
    });
    Ok(())
}

/// Has a quit that is typed for another program end that program alone.
fn quits() -> io::Result<()> {
    let mut quits = arriving(SignalKind::quit())?;
    tokio::spawn(async move {
        while quits.recv().await.is_some() {
            if !tty::was_lent() {
                // As whoever sent it wanted, and the terminal is given back.
                let _ = kill(Pid::this(), signal::SIGTERM);
            }
        }
    });
    Ok(())
}

/// Returns what reads both sides of a change: what was kept of it before, and
/// the file if it still is as the change left it.
fn both_sides(directory: &Path) -> Box<ReadSides> {
    let blobs = Blobs::of(directory);
    Box::new(move |change: &FileChange| {
        let before = match change.before {
            Some(state) => blobs.read(state.digest).ok()?,
            None => Vec::new(),
        };
        let after = match change.after {
            Some(state) => {
                let path = Path::new(&*change.path);
                let found = std::fs::symlink_metadata(path).ok()?;
                if !found.is_file() || found.len() > SHOWN_CAP {
                    return None;
                }
                std::fs::read(path).ok().filter(|bytes| Digest::of(bytes) == state.digest)?
            }
            None => Vec::new(),
        };
        Some(BothSides { before, after })
    })
}
