//! A place where a call is judged by the guard and run, as a unit does it,
//! without a model or a dispatcher.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tempfile::TempDir;
use tine::event::{Confinement, UnitId};
use tine::git::Program;
use tine::guard::sandbox::{Insistence, Sandbox, Settings};
use tine::guard::{Allowed, Decision, Mode, Policy, Rules, Searches, Source, Sourced};
use tine::line::{FromUnit, LINE_CAP, Line, UnitEvent};
use tine::message::{CallId, Head, Output, Prefix};
use tine::model::Model;
use tine::model::offline::Offline;
use tine::session::{Blobs, Spill};
use tine::skill::Skills;
use tine::tool::files::{Files, Seen};
use tine::tool::roots::Roots;
use tine::tool::{
    AgentCall, Delegate, ForkPoint, Granted, Known, MessageDelivery, Registry, ToolContext,
    ToolError, Workspace,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A directory with a workspace `work`, an added directory `added` and, beside
/// them, `outside`.
pub(crate) struct Desk {
    pub(crate) top: PathBuf,
    pub(crate) policy: Policy,
    tools: Registry,
    workspace: Arc<Workspace>,
    sender: mpsc::Sender<FromUnit>,
    // Kept, so that a tool which speaks is not cut off.
    _directory: TempDir,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let top = directory.path().canonicalize().expect("it is there");
        let [root, added, outside] = ["work", "added", "outside"].map(|name| top.join(name));
        for made in [&root, &added, &outside, &top.join("config/tine")] {
            std::fs::create_dir_all(made).expect("it can be made");
        }
        let policy = Policy::new(Mode::AcceptEdits, [root.clone(), added.clone()])
            .guarding([top.join("config/tine")]);
        let settings = Settings { insistence: Insistence::Off, ..Settings::default() };
        let workspace = Arc::new(Workspace {
            roots: Roots::open([root.as_path(), &added]).expect("they were just made"),
            root,
            added: vec![added],
            before: Blobs::of(&top.join("spill")),
            spill: Spill { directory: top.join("spill") },
            files: Files::default(),
            // None of the tools here calls it.
            git: Program::find([], &[]),
            web: Arc::default(),
            original: None,
            sandbox: Arc::new(Sandbox::new(settings)),
        });
        let (sender, mut receiver) = mpsc::channel(LINE_CAP);
        let tools = Registry::all([]);
        // As the dispatcher does once a change is in the log.
        std::thread::spawn(move || {
            while let Some(FromUnit { event, .. }) = receiver.blocking_recv() {
                if let UnitEvent::FileChanged { synced, .. } = event {
                    // Whoever waited may have been cancelled.
                    let _ = synced.send(());
                }
            }
        });
        Self { top, policy, tools, workspace, sender, _directory: directory }
    }

    /// The workspace.
    pub(crate) fn root(&self) -> &Path {
        &self.workspace.root
    }

    /// Puts one rule into force.
    pub(crate) fn rule(&mut self, put: fn(&mut Rules) -> &mut Vec<Sourced>, rule: &str) {
        let mut rules = Rules::default();
        let rule = rule.parse().expect("it is a rule");
        put(&mut rules).push(Sourced { rule, source: Source::Flag });
        self.policy = self.policy.clone().with_rules(rules);
    }

    /// What a unit of this place calls tools with.
    pub(crate) fn unit(&self, number: u32) -> ToolContext {
        ToolContext {
            line: Line::new(UnitId(number), self.sender.clone()),
            cancel: CancellationToken::new(),
            workspace: Arc::clone(&self.workspace),
            policy: Arc::new(self.policy.clone()),
            searches: Searches::by(&Arc::new(self.policy.clone())),
            seen: Seen::default(),
            takes_images: false,
            skills: Arc::new(Skills::default()),
            delegate: Arc::new(Nobody),
            fork_point: Arc::new(ForkPoint::new(
                Prefix::new(Arc::new(Head::new(String::new(), Vec::new()))),
                &Seen::default(),
                Arc::new(Offline::new()),
            )),
        }
    }

    /// Asks the guard about a call.
    pub(crate) fn judge(&self, tool: &str, arguments: &Value) -> Result<Allowed, String> {
        let (name, tool) = self.tools.find(tool).expect("the tool is known");
        match self.policy.decide(name, tool.effect(), arguments) {
            Decision::Allow(allowed) => Ok(allowed),
            Decision::Ask(ask) => Err(ask.reason),
            Decision::Deny { reason } => Err(reason),
        }
    }

    /// Runs a call that the guard has allowed.
    pub(crate) async fn run(
        &self,
        unit: &ToolContext,
        tool: &str,
        arguments: Value,
        allowed: Allowed,
    ) -> Result<String, String> {
        let (_, tool) = self.tools.find(tool).expect("the tool is known");
        let Allowed { places, script, bounds, .. } = allowed;
        let bounds = bounds.unwrap_or_default();
        let granted =
            Granted { id: "call_1".into(), confinement: Confinement::NONE, script, places, bounds };
        match tool.run(unit, &granted, arguments).await {
            Ok(Output { text, is_error: false, .. }) => Ok(text),
            Ok(Output { text, .. }) => Err(text),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Has a call judged and, if it may, run.
    pub(crate) async fn call(
        &self,
        unit: &ToolContext,
        tool: &str,
        arguments: Value,
    ) -> Result<String, String> {
        let allowed = self.judge(tool, &arguments)?;
        self.run(unit, tool, arguments, allowed).await
    }
}

/// Starts nothing.
struct Nobody;

impl Delegate for Nobody {
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

    fn find_model(&self, _name: &str) -> Result<Arc<dyn Model>, String> {
        Err("no models here".to_owned())
    }

    fn with_tools(&self, _tools: Registry) -> Arc<dyn Delegate> {
        Arc::new(Nobody)
    }
}
