//! A place for the tests of tools: a directory, a context, and whatever the
//! line carries.

pub(crate) mod pictures;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::event::{Confinement, FileChange, UnitId};
use crate::guard::sandbox::{Insistence, Sandbox, Settings, Variables};
use crate::guard::{
    Allowed, CommandBounds, Decision, Mode, Policy, Rules, Searches, Source, Sourced,
};
use crate::line::{FromUnit, LINE_CAP, Line, UnitEvent};
use crate::message::{CallId, Head, Output, Prefix};
use crate::model::offline::Offline;
use crate::session::{Blobs, Spill};
use crate::skill::Skills;

use super::files::{Files, Seen};
use super::roots::Roots;
use super::{
    AgentCall, Delegate, ForkPoint, Granted, Known, MessageDelivery, Registry, Tool, ToolContext,
    ToolError, Workspace,
};

/// Starts nothing.
struct NoDelegate;

impl Delegate for NoDelegate {
    fn delegate<'a>(
        &'a self,
        _context: &'a ToolContext,
        _call: Option<&'a CallId>,
        _agent: AgentCall,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async { Err(ToolError::tell("no agents here")) })
    }

    fn send<'a>(
        &'a self,
        _context: &'a ToolContext,
        _call: &'a CallId,
        _to: UnitId,
        _message: Arc<str>,
    ) -> BoxFuture<'a, Result<MessageDelivery, ToolError>> {
        Box::pin(async { Err(ToolError::tell("no agents here")) })
    }

    fn lend<'a>(&'a self, wait: BoxFuture<'a, ()>) -> BoxFuture<'a, ()> {
        wait
    }

    fn known(&self) -> Known {
        Known::default()
    }

    fn may_delegate(&self) -> Result<(), ToolError> {
        Ok(())
    }

    fn find_model(&self, _name: &str) -> Result<Arc<dyn crate::model::Model>, String> {
        Err("no models here".to_owned())
    }

    fn with_tools(&self, _tools: Registry) -> Arc<dyn Delegate> {
        Arc::new(NoDelegate)
    }
}

/// A variable that is set under cargo and that no command gets to see.
pub(crate) const SECRET: &str = "CARGO_PKG_NAME";

/// A workspace in a directory of its own and the units that work there.
pub(crate) struct Place {
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) context: ToolContext,
    sender: mpsc::Sender<FromUnit>,
    changes: Arc<Mutex<Vec<FileChange>>>,
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with_deny_rules(&[])
    }

    /// Ends the run, and returns what is left of it.
    pub(crate) fn end(self) -> TempDir {
        self.directory
    }

    /// A workspace where `rules` deny calls.
    pub(crate) fn with_deny_rules(rules: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Canonical, because the directory for temporary files may be a link.
        let root = directory.path().canonicalize().unwrap().join("work");
        std::fs::create_dir(&root).unwrap();
        let deny = rules.iter().map(|rule| Sourced {
            rule: rule.parse().expect("the rule is well formed"),
            source: Source::Flag,
        });
        let rules = Rules { deny: deny.collect(), ..Rules::default() };
        let policy = Policy::new(Mode::Default, [root.clone()]).with_rules(rules);
        let workspace = Arc::new(Workspace {
            spill: Spill { directory: root.with_file_name("spill") },
            sandbox: Arc::new(Sandbox::new(Settings {
                insistence: Insistence::Off,
                stubs: root.with_file_name("stubs"),
                scratch: vec![directory.path().to_owned()],
                variables: Variables::new(std::env::vars_os()).without(&[SECRET.to_owned()]),
                ..Settings::default()
            })),
            before: Blobs::of(&root.with_file_name("spill")),
            roots: Roots::open([root.as_path()]).expect("the directory was just made"),
            root,
            added: Vec::new(),
            files: Files::default(),
            git: crate::git::tests::program(),
            web: Arc::default(),
            original: None,
        });
        let (sender, receiver) = mpsc::channel(LINE_CAP);
        let context = context((&workspace, &Arc::new(policy)), &sender, UnitId::MAIN);
        let changes = Arc::default();
        hear(receiver, Arc::clone(&changes));
        Self { workspace, context, sender, changes, directory }
    }

    /// The changes of files that were told of, in order.
    pub(crate) fn changes(&self) -> Vec<FileChange> {
        self.changes.lock().unwrap().clone()
    }

    /// Another unit in the same workspace.
    pub(crate) fn unit(&self, number: u32) -> ToolContext {
        context((&self.workspace, &self.context.policy), &self.sender, UnitId(number))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.workspace.root
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a file behind the tools' back.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Runs a call of the main unit.
    pub(crate) async fn call(&self, tool: &dyn Tool, arguments: Value) -> Result<String, String> {
        call(tool, &self.context, arguments).await
    }
}

/// Hears what tools say, and has their changes on disk.
fn hear(mut receiver: mpsc::Receiver<FromUnit>, changes: Arc<Mutex<Vec<FileChange>>>) {
    std::thread::spawn(move || {
        while let Some(FromUnit { unit: _, event }) = receiver.blocking_recv() {
            if let UnitEvent::FileChanged { change, synced } = event {
                changes.lock().unwrap().push((*change).clone());
                let _ = synced.send(());
            }
        }
    });
}

/// Runs a call; an error output and an error are both `Err`.
pub(crate) async fn call(
    tool: &dyn Tool,
    context: &ToolContext,
    arguments: Value,
) -> Result<String, String> {
    let granted = granted(tool, context, &arguments);
    match tool.run(context, &granted, arguments).await {
        Ok(Output { text, is_error: false, images: _ }) => Ok(text),
        Ok(Output { text, is_error: true, images: _ }) => Err(text),
        Err(error) => Err(error.to_string()),
    }
}

fn context(
    (workspace, policy): (&Arc<Workspace>, &Arc<Policy>),
    sender: &mpsc::Sender<FromUnit>,
    unit: UnitId,
) -> ToolContext {
    ToolContext {
        line: Line::new(unit, sender.clone()),
        cancel: CancellationToken::new(),
        workspace: Arc::clone(workspace),
        policy: Arc::clone(policy),
        searches: Searches::by(policy),
        seen: Seen::default(),
        takes_images: true,
        skills: Arc::new(Skills::default()),
        delegate: Arc::new(NoDelegate),
        fork_point: Arc::new(ForkPoint::new(
            Prefix::new(Arc::new(Head::new(String::new(), Vec::new()))),
            &Seen::default(),
            Arc::new(Offline::new()),
        )),
    }
}

/// A call that may do what it likes, with the files that it names.
pub(crate) fn granted(tool: &dyn Tool, context: &ToolContext, arguments: &Value) -> Granted {
    let policy = Policy::new(Mode::BypassPermissions, [context.workspace.root.clone()]);
    let decision = policy.decide(&tool.schema().name, tool.effect(), arguments);
    let Decision::Allow(Allowed { places, .. }) = decision else { panic!("{decision:?}") };
    let bounds = CommandBounds::NONE;
    Granted { id: "call_1".into(), confinement: Confinement::NONE, script: None, places, bounds }
}
