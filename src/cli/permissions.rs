//! `tine permissions`: the rules in force, and what would become of one call.
//!
//! Nothing runs and nobody is asked: a decision is explained as a run with the
//! same flags would take it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::{PermissionsCommand, RunFlags};
use super::exit::{Exit, Refusal};
use super::project::{self, Manner, Trusted};
use super::{rules, sandbox, session, start};
use crate::config::{Environment, dirs};
use crate::event::Confinement;
use crate::guard::sandbox::Sandbox;
use crate::guard::sandbox::proxy::Target;
use crate::guard::trust::SETTINGS;
use crate::guard::{Allowed, Decision, Effect, Explained, Policy, Rules, Source, Sourced};
use crate::path_text::to_text;
use crate::report::sanitise;
use crate::tool::Registry;
use crate::tool_name::{self, SANDBOX_NETWORK};

/// Lists the rules, or explains a decision.
pub(super) fn run(
    environment: &Environment,
    mut flags: RunFlags,
    command: Option<PermissionsCommand>,
    json: bool,
) -> Result<Exit, Refusal> {
    let check = match command {
        None => None,
        Some(PermissionsCommand::Check { call, mode, json: own }) => {
            flags.permission_mode = mode.or(flags.permission_mode);
            Some((Call::parse(&call, environment.home.as_deref())?, own || json))
        }
    };
    let root = start::working_directory(environment)?;
    let (config, trusted) = project::config(environment, &flags, Manner::Tell)?;
    let sandbox = Arc::new(sandbox::of(environment, &config));
    let (policy, _) = rules::policy(environment, &config, &flags, (&root, &sandbox))?;
    let text = match check {
        Some((call, true)) => call.explained(&policy).record(&sandbox),
        Some((call, false)) => call.explained(&policy).words(&sandbox),
        None => list(&policy, &Files::of(environment, &trusted), json),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    session::finish(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Where rules are written.
pub(super) struct Files {
    user: Option<PathBuf>,
    project: Option<PathBuf>,
}

impl Files {
    fn of(environment: &Environment, trusted: &Trusted) -> Self {
        let project = trusted.settings.as_ref().map(|settings| settings.path.clone());
        Self { user: dirs::config_file(environment), project }
    }

    /// Those of a run that works in `root`. What a project says is only in
    /// force there if it is trusted.
    pub(super) fn around(environment: &Environment, root: &Path) -> Self {
        let top = start::repository_root(root).unwrap_or_else(|| root.to_owned());
        Self { user: dirs::config_file(environment), project: Some(top.join(SETTINGS)) }
    }

    fn file(&self, source: Source) -> Option<String> {
        let file = match source {
            Source::User => self.user.as_ref(),
            Source::Project => self.project.as_ref(),
            Source::Flag | Source::Settings | Source::Agent | Source::Skill => None,
        };
        file.map(|file| file.display().to_string())
    }
}

/// A rule in force, or what is asked about before it is read.
pub(super) struct Listed {
    /// What it does: `deny`, `ask`, `allow` or `secret`.
    pub(super) what: &'static str,
    /// The rule, or the places. It may be anything.
    pub(super) text: String,
    /// Where it comes from, or what is there. It may be anything.
    pub(super) from: String,
}

/// Returns what is in force, what goes first in front.
pub(super) fn listed(policy: &Policy, files: &Files) -> Vec<Listed> {
    let rules = rules(policy).map(|(what, Sourced { rule, source })| {
        let place = files.file(*source).map(|file| format!(", {file}")).unwrap_or_default();
        Listed { what, text: rule.to_string(), from: format!("{}{place}", source.as_str()) }
    });
    let secrets = policy.secrets().into_iter().map(|(what, places)| Listed {
        what: "secret",
        text: places.join(", "),
        from: what.to_owned(),
    });
    rules.chain(secrets).collect()
}

fn rules(policy: &Policy) -> impl Iterator<Item = (&'static str, &Sourced)> {
    let Rules { deny, ask, allow } = policy.rules();
    let lists = [("deny", deny), ("ask", ask), ("allow", allow)];
    lists.into_iter().flat_map(|(what, rules)| rules.iter().map(move |rule| (what, rule)))
}

fn list(policy: &Policy, files: &Files, json: bool) -> String {
    let mode = policy.mode().as_str();
    if json {
        let rules: Vec<Value> = rules(policy)
            .map(|(what, Sourced { rule, source })| {
                let (rule, file) = (rule.to_string(), files.file(*source));
                json!({"decision": what, "rule": rule, "source": source.as_str(), "file": file})
            })
            .collect();
        let secrets: Vec<Value> = policy
            .secrets()
            .into_iter()
            .map(|(what, places)| json!({"what": what, "places": places}))
            .collect();
        return format!("{}\n", json!({"mode": mode, "rules": rules, "secrets": secrets}));
    }
    let mut text = format!("mode   {mode}\n");
    for Listed { what, text: rule, from } in listed(policy, files) {
        let (rule, from) = (sanitise::line(&rule), sanitise::line(&from));
        writeln!(text, "{what:<6} {rule}  ({from})").expect("a string takes every text");
    }
    text
}

/// A call that is not made.
struct Call {
    tool: String,
    effect: Effect,
    arguments: Value,
}

impl Call {
    /// Reads `Tool(subject)`. Whatever stands between the first parenthesis and
    /// the last is the subject.
    fn parse(text: &str, home: Option<&Path>) -> Result<Self, Refusal> {
        let refuse = |what: &str| {
            Err(Refusal::new(Exit::Usage, format!("`{}` {what}", sanitise::line(text)))
                .hint("write a tool and what it is called for, as in `Bash(git status)`"))
        };
        let whole = text.trim();
        let (tool, subject) = match whole.split_once('(') {
            None => (whole, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(subject) => (tool, Some(subject)),
                None => return refuse("has no parenthesis at its end"),
            },
        };
        let tool = tool_name::canonical(tool);
        if !tool_name::is_ruled(tool) {
            return refuse("names no tool");
        }
        // As rules read it.
        let subject = match (subject.and_then(|subject| subject.strip_prefix("~/")), home) {
            (Some(rest), Some(home)) if tool != "Bash" => {
                Some(Cow::Owned(to_text(&home.join(rest))))
            }
            (Some(_) | None, _) => subject.map(Cow::Borrowed),
        };
        // More lines would be more of a patch.
        let is_path = |subject: &str| !subject.trim().is_empty() && !subject.contains(['\n', '\r']);
        if tool == "ApplyPatch" && !subject.as_deref().is_none_or(is_path) {
            return refuse("names no file");
        }
        let arguments = arguments(tool, subject.as_deref());
        // What is not here would run somewhere else.
        let effect = Registry::all([]).find(tool).map_or(Effect::Executes, |(_, it)| it.effect());
        Ok(Self { tool: tool.to_owned(), effect, arguments })
    }

    fn explained(&self, policy: &Policy) -> Explained {
        policy.explain(&self.tool, self.effect, &self.arguments)
    }
}

/// Returns the arguments with which a tool is called for a subject. No rule
/// looks at those of the tools that are not named here.
fn arguments(tool: &str, subject: Option<&str>) -> Value {
    let Some(subject) = subject else { return json!({}) };
    match tool {
        "Bash" => json!({ "command": subject }),
        "Read" | "Write" | "Edit" => json!({ "file_path": subject }),
        "ApplyPatch" => {
            let patch = format!("*** Begin Patch\n*** Delete File: {subject}\n*** End Patch");
            json!({ "input": patch })
        }
        "Glob" | "Grep" => json!({ "path": subject }),
        "Skill" => json!({ "skill": subject }),
        "Agent" => json!({ "subagent_type": subject }),
        "WebFetch" => match subject.strip_prefix("domain:") {
            Some(site) => json!({ "url": format!("https://{}/", site.trim()) }),
            None => json!({ "url": subject }),
        },
        SANDBOX_NETWORK => match Target::new(subject, 0) {
            Some(Target { host, port: _ }) => json!({ "host": host }),
            None => json!({ "host": subject }),
        },
        _ => json!({}),
    }
}

/// A decision, in the words of the wire.
impl Explained {
    fn name(&self) -> &'static str {
        match &self.decision {
            Decision::Allow(_) => "allow",
            Decision::Ask(_) => "ask",
            Decision::Deny { reason: _ } => "deny",
        }
    }

    /// Returns how a command would be confined; `None` if none runs.
    fn confinement(&self, sandbox: &Sandbox) -> Option<Confinement> {
        let allowed = match &self.decision {
            Decision::Allow(allowed) => allowed,
            Decision::Ask(ask) => &ask.allowed,
            Decision::Deny { reason: _ } => return None,
        };
        let Allowed { access, .. } = allowed;
        access.map(|access| sandbox.confinement(access))
    }

    fn record(&self, sandbox: &Sandbox) -> String {
        let rule = self.rule.as_ref().map(ToString::to_string);
        let source = self.rule.as_ref().map(|rule| rule.source.as_str());
        let access = self.confinement(sandbox).map(|bounds| bounds.access.as_str());
        let record = json!({
            "decision": self.name(),
            "rule": rule,
            "source": source,
            "reason": self.reason,
            "sandbox": access,
        });
        format!("{record}\n")
    }

    fn words(&self, sandbox: &Sandbox) -> String {
        let mut text = format!("{}: {}\n", self.name(), sanitise::line(&self.reason));
        if let Some(Sourced { rule, source }) = &self.rule {
            let rule = rule.to_string();
            writeln!(text, "rule: {} ({})", sanitise::line(&rule), source.as_str())
                .expect("a string takes every text");
        }
        if let Some(bounds) = self.confinement(sandbox) {
            writeln!(text, "sandbox: {} ({})", bounds.access.as_str(), bounds.backend.as_str())
                .expect("a string takes every text");
        }
        text
    }
}
