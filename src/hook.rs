//! Hooks: commands and callbacks of the user's own that are asked at certain
//! moments, and may block, allow, change or add something.
//!
//! Here they are read from settings, chosen for a moment, run side by side and
//! within limits, and what they say becomes one [`Effect`]. Whoever asks does
//! what that says; nothing here knows of agents, and nothing waits for a hook
//! but the one unit that asked.

mod answer;
mod callback;
mod direct;
mod effect;
mod environment;
mod files;
mod footing;
mod found;
mod inert;
mod matcher;
mod occasion;
mod process;
mod remedy;
mod repeated;
mod reply;
mod settings;
mod unawaited;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::event::{HookEvent, HookOutcome, HookRan, SessionId};
use crate::guard::SearchPath;
use crate::message::CallId;
use crate::tool_name::OtherNames;

pub use callback::{Callback, Client};
pub use direct::DirectCommand;
pub use effect::{CONTEXT_CAP, Effect, REASON_CAP, Wish};
pub use environment::environment;
pub use files::{files_named, names_its_files};
pub use footing::Footing;
pub use matcher::Matcher;
pub use occasion::{CallFacts, Occasion, Source, Who};
pub use process::OUTPUT_CAP;
pub(crate) use remedy::missing_program;
pub use settings::{Brought, HOOKS_CAP, LIMIT_CAP, Parsed, parse, parse_callbacks};
pub use unawaited::{UNAWAITED_CAP, UNAWAITED_GRACE};

use callback::Answered;
use process::{Ended, Order};
use reply::Reply;
use unawaited::Unawaited;

/// How long a hook may take that does not say so itself. Long enough for the
/// tests of a small project, short enough that a person still waits.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Most hooks that somebody waits for and that run at once, over all units. As
/// many as one moment can have, so that all of a moment's fit, and few enough
/// that a batch of hundreds of slots does not start a process for each of them.
pub const RUNNING_CAP: u32 = 32;

/// One hook.
#[derive(Debug, Clone, PartialEq)]
pub struct Hook {
    /// The moment at which it is asked.
    pub event: HookEvent,
    /// About what it is asked.
    pub matcher: Matcher,
    /// What is asked.
    pub handler: Handler,
    /// How long it may take.
    pub limit: Duration,
    /// Policy for its failure; `None` means the moment's default.
    pub on_failure: Option<OnFailure>,
    /// Where a command runs, and what it is held to.
    pub footing: Footing,
    /// What people are to know of it before it is asked.
    pub note: Option<Arc<str>>,
}

/// Policy for a hook that fails: it cannot run, exits with another status than 0 or 2,
/// times out, or gives an answer that cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Denies the call or prompt that the hook was asked about.
    Block,
    /// Asks the user.
    Ask,
    /// Warns, and continues.
    Warn,
}

impl OnFailure {
    /// Returns the default policy of a moment.
    #[must_use]
    pub fn default_at(event: HookEvent) -> Self {
        match event {
            HookEvent::PreToolUse | HookEvent::UserPromptSubmit => Self::Block,
            // This hook might have denied what another one allows.
            HookEvent::PermissionRequest => Self::Ask,
            // A refusal here would only keep an agent busy or hide its work.
            HookEvent::PostToolUse
            | HookEvent::Stop
            | HookEvent::SubagentStop
            | HookEvent::PreCompact
            | HookEvent::SessionStart
            | HookEvent::SessionEnd
            | HookEvent::SubagentStart
            | HookEvent::Notification => Self::Warn,
        }
    }

    /// Reads the `onFailure` of a hook.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "block" => Some(Self::Block),
            "warn" => Some(Self::Warn),
            _ => None,
        }
    }
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Handler {
    /// A command, which gets JSON and may print some.
    Command(Command),
    /// A program that speaks for the user, which has named a callback.
    Callback(Callback),
    /// Nothing: it is of a kind that only other harnesses have.
    NotDone {
        /// What stands for it.
        name: Arc<str>,
        /// Why it is not asked.
        why: Arc<str>,
    },
}

impl Hook {
    fn is_waited_for(&self) -> bool {
        match &self.handler {
            Handler::Command(command) => !command.is_async,
            Handler::Callback(_) | Handler::NotDone { .. } => true,
        }
    }
}

impl Handler {
    /// Returns what it is called.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::Command(command) => &command.text,
            Self::Callback(callback) => &callback.id,
            Self::NotDone { name, why: _ } => name,
        }
    }
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What a shell is to run, or with `arguments` the program.
    pub text: Arc<str>,
    /// The program's arguments; `None` if a shell runs it.
    pub arguments: Option<Vec<String>>,
    /// Whether nobody waits for it, or hears what it says.
    pub is_async: bool,
}

/// What is the same whenever a hook of a run is asked.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The session.
    pub session: SessionId,
    /// The session's log; `None` if it is not kept.
    pub transcript: Option<PathBuf>,
    /// The shell that runs commands.
    pub shell: Arc<str>,
    /// Their whole environment.
    pub variables: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    /// The `PATH` that tine was started with. That of `variables` has no directory of the
    /// workspace.
    pub search: SearchPath,
    /// Whether there is anybody who can be asked and told something.
    pub has_people: bool,
}

/// The hooks of a run.
#[derive(Debug)]
pub struct Hooks {
    hooks: Vec<Hook>,
    setting: Option<Setting>,
    running: Arc<Semaphore>,
    unawaited: Unawaited,
    /// What else tools may be called.
    others: OtherNames,
}

impl Default for Hooks {
    fn default() -> Self {
        let (running, unawaited) = (Arc::new(Semaphore::new(0)), Unawaited::default());
        Self { hooks: Vec::new(), setting: None, running, unawaited, others: OtherNames::default() }
    }
}

/// What came of asking the hooks of one moment.
#[derive(Debug, Default)]
pub struct Heard {
    /// What they want together.
    pub effect: Effect,
    /// Each of them, in the order in which they are configured.
    pub ran: Vec<Arc<HookRan>>,
}

impl Hooks {
    /// The hooks of a run, in the order in which they count.
    #[must_use]
    pub fn new(hooks: Vec<Hook>, setting: Setting) -> Self {
        let running = Arc::new(Semaphore::new(RUNNING_CAP as usize));
        Self { hooks, setting: Some(setting), running, ..Self::default() }
    }

    /// Returns the same hooks, whose matchers mean tools by these names, too.
    #[must_use]
    pub fn naming(self, others: OtherNames) -> Self {
        Self { others, ..self }
    }

    /// Tells whether any hook is asked at this moment, whatever it is about.
    #[must_use]
    pub fn has(&self, event: HookEvent) -> bool {
        self.hooks.iter().any(|hook| hook.event == event)
    }

    /// Tells whether there is anybody who can be asked and told something.
    #[must_use]
    pub fn has_people(&self) -> bool {
        self.setting.as_ref().is_some_and(|setting| setting.has_people)
    }

    /// Asks the hooks of a moment, side by side. When this returns, none of
    /// them runs any more but those that nobody waits for. A cancel ends them.
    pub async fn ask(
        &self,
        occasion: &Occasion<'_>,
        who: &Who<'_>,
        cancel: &CancellationToken,
    ) -> Heard {
        let (Some(setting), asked) = (&self.setting, self.about(occasion, who)) else {
            return Heard::default();
        };
        if asked.is_empty() {
            return Heard::default();
        }
        let begun = Instant::now();
        let waited_for = asked.iter().filter(|hook| hook.is_waited_for());
        let count = waited_for.clone().count().min(RUNNING_CAP as usize);
        let count = u32::try_from(count).expect("it is no more than the cap");
        // All of a moment's at once: hooks that wait for each other must not
        // wait for places that others of them hold. None gets one in time that
        // the most patient of them would not.
        let patience = waited_for.map(|hook| hook.limit).max().unwrap_or_default();
        let places = tokio::select! {
            biased;
            () = cancel.cancelled() => return Heard::default(),
            places = self.running.acquire_many(count) => Some(places),
            () = sleep(patience) => None,
        };
        let input = occasion.input(setting, who);
        let running = asked.iter().map(|hook| {
            let (call, unawaited) = (occasion.call(), &self.unawaited);
            let asking = Asking { hook, setting, who, call, cancel, unawaited, begun };
            asking.ask(&input)
        });
        let replies = join_all(running).await;
        let mut heard = Heard::default();
        for (reply, ran) in replies {
            heard.effect.add(reply);
            heard.ran.push(Arc::new(ran));
        }
        drop(places);
        heard
    }

    /// Waits for the hooks that nobody waits for, but no longer than `grace`, ends
    /// those that still run, and returns what is to be told of these.
    pub async fn finish(&self, grace: Duration) -> Vec<Arc<HookRan>> {
        self.unawaited.finish(grace).await
    }

    /// Returns the hooks that are asked, each once, in their order.
    fn about(&self, occasion: &Occasion<'_>, who: &Who<'_>) -> Vec<&Hook> {
        let event = occasion.event();
        let mut asked: Vec<&Hook> = Vec::new();
        let does_same = |hook: &Hook, other: &Hook| {
            let directories = [hook, other].map(|it| it.footing.directory(who.cwd));
            hook.handler == other.handler
                && hook.on_failure == other.on_failure
                && directories[0] == directories[1]
        };
        let others = occasion.call_facts().map(|call| self.others.of(call.tool));
        let mut names = occasion.names(who);
        names.extend(others.iter().flatten().map(String::as_str));
        for hook in &self.hooks {
            let is_meant = hook.event == event && hook.matcher.matches(&names);
            if is_meant && !asked.iter().any(|other| does_same(hook, other)) {
                asked.push(hook);
            }
        }
        asked
    }
}

/// One hook that is asked.
struct Asking<'a> {
    hook: &'a Hook,
    setting: &'a Setting,
    who: &'a Who<'a>,
    call: Option<&'a CallId>,
    cancel: &'a CancellationToken,
    unawaited: &'a Unawaited,
    /// When it was to be asked. A wait for a place counts towards its limit.
    begun: Instant,
}

impl Asking<'_> {
    async fn ask(self, input: &Value) -> (Reply, HookRan) {
        let (event, limit) = (self.hook.event, self.hook.limit);
        let is_gate = event.is_gate() && self.hook.is_waited_for();
        let changed = self.hook.footing.changed(self.who.cwd, is_gate).await;
        let left = match limit.saturating_sub(self.begun.elapsed()) {
            // Waiting for others must not be a way past it.
            left if is_gate && !left.is_zero() => limit,
            left => left,
        };
        let (reply, exit_code) = match (changed, &self.hook.handler) {
            (Some(file), _) => (Reply::changed(&file), None),
            (None, Handler::NotDone { name: _, why }) => (Reply::not_done(why), None),
            (None, Handler::Command(command)) if command.is_async => {
                (self.start(command, input), None)
            }
            (None, Handler::Command(_) | Handler::Callback(_)) if left.is_zero() => {
                (Reply::had_no_place(limit), None)
            }
            (None, Handler::Command(command)) => self.run(command, input, left).await,
            (None, Handler::Callback(callback)) => {
                let answer = callback.ask(input, self.call, left, self.cancel).await;
                let answer = match answer {
                    // Its limit is what was set for it.
                    Answered::TimedOut(_) => Answered::TimedOut(limit),
                    answer @ (Answered::Json(_) | Answered::Failed(_) | Answered::Cancelled) => {
                        answer
                    }
                };
                (Reply::of_callback(event, answer), None)
            }
        };
        let by = match &self.hook.handler {
            _ if !self.hook.is_waited_for() => OnFailure::Warn,
            // A warning named it when the hooks were read.
            Handler::NotDone { .. } if !event.is_gate() => OnFailure::Warn,
            Handler::Command(_) | Handler::Callback(_) | Handler::NotDone { .. } => {
                self.hook.on_failure.unwrap_or_else(|| OnFailure::default_at(event))
            }
        };
        let mut reply = reply.settle_failure(event, self.hook.handler.name(), by);
        reply.bound();
        let ran = self.ran(&reply, exit_code);
        (reply, ran)
    }

    async fn run(&self, command: &Command, input: &Value, left: Duration) -> (Reply, Option<i32>) {
        let order = self.order(command);
        let ended = process::run(&order, bytes(input), left, self.cancel).await;
        let exit_code = match &ended {
            Ended::Exited { status, .. } => status.code(),
            Ended::TimedOut { .. } | Ended::Cancelled | Ended::NotStarted(_) => None,
        };
        let places = remedy::Places { directory: &order.directory, search: &self.setting.search };
        let remedy = remedy::find_remedy(&ended, command, &places);
        let is_repeated = ended.repeats(input);
        let reply = Reply::of_command(self.hook.event, ended, self.hook.limit);
        let reply = if is_repeated { reply.without_grants(self.hook.event) } else { reply };
        (reply.with_remedy(remedy), exit_code)
    }

    /// Returns what is told of the hook.
    fn ran(&self, reply: &Reply, exit_code: Option<i32>) -> HookRan {
        let took = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        HookRan {
            event: self.hook.event,
            hook: effect::clipped(self.hook.handler.name(), effect::NAME_CAP),
            call: self.call.cloned(),
            outcome: reply.outcome,
            exit_code,
            decision: reply.decision(),
            reason: reply.why(),
            context: Arc::clone(&reply.context),
            message: Arc::clone(&reply.message),
            changes_input: reply.input.is_some(),
            took_ms: took,
        }
    }

    /// Starts a command that nobody waits for, if there is a place for one more.
    fn start(&self, command: &Command, input: &Value) -> Reply {
        let ended = self.ran(&Reply::outlived(), None);
        let (order, input) = (self.order(command), bytes(input));
        match self.unawaited.start(order, input, self.hook.limit, ended) {
            true => Reply { outcome: HookOutcome::Started, ..Reply::default() },
            false => Reply::one_too_many(),
        }
    }

    fn order(&self, command: &Command) -> Order {
        let Setting { shell, variables, .. } = self.setting;
        let words: Vec<String> = match &command.arguments {
            Some(arguments) => {
                std::iter::once(command.text.to_string()).chain(arguments.iter().cloned()).collect()
            }
            // The dashes end the shell's own options: a command may begin with one.
            None => [&**shell, "-c", "--", &*command.text].map(str::to_owned).to_vec(),
        };
        let directory = self.hook.footing.directory(self.who.cwd).to_owned();
        Order { words, directory, variables: variables.clone() }
    }
}

fn bytes(input: &Value) -> Vec<u8> {
    let mut bytes = input.to_string().into_bytes();
    // Scripts read lines.
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests;
