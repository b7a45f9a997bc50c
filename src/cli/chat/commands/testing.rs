//! A session in real directories, for the tests of the commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tokio::sync::watch;

use crate::cli::args::RunFlags;
use crate::cli::kit::Kit;
use crate::cli::{rules, sandbox};
use crate::config::{Config, Environment, ModelChoice};
use crate::definition::Definitions;
use crate::event::testing::Log;
use crate::event::{EventKind, InvocationEnd, Outcome, SessionHead, SessionId, UnixMillis};
use crate::fanout::Pool;
use crate::mcp::Servers;
use crate::model::Models;
use crate::report::row::Row;
use crate::session::SessionLog;
use crate::session::dirs::session_directory;
use crate::skill::{Places, Skills};
use crate::tool::Registry;

/// What the commands get, and where its directories are.
pub(super) struct Place {
    pub(super) home: TempDir,
    pub(super) kit: Kit,
}

impl Place {
    /// A session of the offline model that is kept and has no log yet, with
    /// these settings.
    pub(super) fn with(config: Config) -> Self {
        let home = tempfile::tempdir().unwrap();
        let top = home.path().canonicalize().unwrap();
        let (root, own) = (top.join("work"), top.join("own"));
        std::fs::create_dir(&root).unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let variables = [("HOME", top.into_os_string()), ("TINE_HOME", own.into()), ("PATH", path)];
        let environment = Environment::from_variables(variables);
        let flags = RunFlags::default();
        let sandbox = Arc::new(sandbox::of(&environment, &config));
        let (policy, git) =
            rules::policy(&environment, &config, &flags, (&root, &sandbox)).unwrap();
        let models = Arc::new(Models::default());
        let model = models.open(&ModelChoice::Offline).unwrap();
        let session = SessionId("0198aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee".into());
        let directory = Self::sessions(&environment, &root, &session);
        let kit = Kit {
            flags,
            config,
            models,
            skills: Arc::new(Skills::load(&Places::default(), |_, _| false).0),
            definitions: Definitions::load(&[], None, |_, _| true).0,
            sandbox,
            git,
            root,
            session,
            directory,
            is_kept: true,
            choice: ModelChoice::Offline,
            answers: watch::Sender::new(ModelChoice::Offline),
            model,
            tools: Registry::all([]),
            servers: Arc::new(Servers::none()),
            pool: Pool::new(std::num::NonZeroUsize::MIN),
            exporter: None,
            policy,
            hooks: Vec::new(),
            system: "You help.".to_owned(),
            instructions: "Use tabs.".into(),
            environment,
        };
        Self { home, kit }
    }

    pub(super) fn new() -> Self {
        Self::with(Config::default())
    }

    /// One that is not to be kept.
    pub(super) fn unkept() -> Self {
        let mut place = Self::new();
        place.kit.is_kept = false;
        place
    }

    fn sessions(environment: &Environment, root: &Path, session: &SessionId) -> PathBuf {
        let sessions = crate::config::dirs::sessions_root(environment).unwrap();
        session_directory(&sessions, root, session)
    }

    /// Writes the log of a session: this one, or another one of the same
    /// directory. Each event is a minute after the one before.
    pub(super) fn write(&self, session: &SessionId, log: &Log) -> PathBuf {
        let directory = Self::sessions(&self.kit.environment, &self.kit.root, session);
        let mut file = SessionLog::create(&directory).unwrap();
        for event in &log.events {
            let at = UnixMillis(event.seq.0 * 60_000);
            file.append(&crate::event::Event { at, ..event.clone() }).unwrap();
        }
        directory
    }

    /// Returns rows as lines, without the names of directories that are new in
    /// each test.
    pub(super) fn shown(&self, rows: &[Row]) -> String {
        let top = self.home.path().canonicalize().unwrap();
        let line = |row: &Row| row.plain().replace(&*top.to_string_lossy(), "HOME") + "\n";
        rows.iter().map(line).collect()
    }
}

pub(super) fn opened() -> EventKind {
    EventKind::SessionOpened(SessionHead {
        session: SessionId("s".into()),
        version: "1".into(),
        cwd: "/w".into(),
        model: "offline".into(),
        mode: "default".into(),
        forked_from: None,
        sandbox: None,
    })
}

pub(super) fn started(prompt: &str) -> EventKind {
    EventKind::InvocationStarted { prompt: prompt.into(), message: None }
}

pub(super) fn over() -> EventKind {
    EventKind::InvocationEnded(Arc::new(InvocationEnd {
        outcome: Outcome::Done { text: "done".into() },
        text: "done".into(),
        cancel: None,
        unfinished: Vec::new(),
    }))
}

/// A session in which one thing was asked and answered.
pub(super) fn asked(prompt: &str) -> Log {
    let mut log = Log { invocation: 1, ..Log::default() };
    log.put(0, "", opened()).put(0, "", started(prompt));
    log.put(0, "", crate::event::testing::prompted(prompt));
    log.put(0, "", crate::event::testing::replied("It is there.")).put(0, "", over());
    log
}
