//! What the units of a run may do, and what is decided about one call.
//!
//! The order is the same in every mode: what denies, what has it asked, what
//! allows, and last what the mode says. Each step knows the rule it went by, so
//! that a decision can be explained.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::mode::Reach;
use super::paths::{self, Ground};
use super::rules::{self, Rule, Subjects};
use super::{
    Allowed, Ask, Decision, Effect, Mode, Rules, Searches, Secrets, Sourced, shell, suggest,
};
use crate::event::{Access, CallQuestion};
use crate::path_text;

/// What the units of a run may do.
#[derive(Debug, Clone)]
pub struct Policy {
    reach: Reach,
    rules: Arc<Rules>,
    /// What its own definition denies a unit, and those it starts.
    denied: Arc<[Sourced]>,
    /// The directories whose files may be edited.
    roots: Arc<[PathBuf]>,
    /// More files and directories that edits need a rule for, wherever they
    /// are: our own configuration.
    guarded: Arc<[PathBuf]>,
    secrets: Arc<Secrets>,
}

/// A decision, and why it is so.
#[derive(Debug, Clone)]
pub struct Explained {
    /// What is to be done.
    pub decision: Decision,
    /// The rule that it went by, if it was one.
    pub rule: Option<Sourced>,
    /// Why, in words.
    pub reason: String,
}

impl Explained {
    fn allow(allowed: Allowed, rule: Option<&Sourced>, reason: impl Into<String>) -> Self {
        Self { decision: Decision::Allow(allowed), rule: rule.cloned(), reason: reason.into() }
    }

    fn deny(rule: Option<&Sourced>, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        let decision = Decision::Deny { reason: reason.clone() };
        Self { decision, rule: rule.cloned(), reason }
    }

    fn ask(ask: Ask, rule: Option<&Sourced>) -> Self {
        let reason = ask.reason.clone();
        Self { decision: Decision::Ask(ask), rule: rule.cloned(), reason }
    }
}

/// A call, as rules see it.
struct Call<'a> {
    tool: &'a str,
    effect: Effect,
    subjects: Subjects,
}

impl Policy {
    /// A policy without any rule. The first of `roots` is the working
    /// directory.
    ///
    /// # Panics
    ///
    /// Its decisions do, if there are no roots.
    #[must_use]
    pub fn new(mode: Mode, roots: impl Into<Arc<[PathBuf]>>) -> Self {
        Self {
            reach: Reach::of(mode),
            rules: Arc::default(),
            denied: [].into(),
            roots: roots.into(),
            guarded: [].into(),
            secrets: Arc::default(),
        }
    }

    /// Returns the same policy with these rules.
    #[must_use]
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules: Arc::new(rules), ..self }
    }

    /// Returns the same policy, where edits of these need a rule of their own.
    #[must_use]
    pub fn guarding(self, guarded: impl Into<Arc<[PathBuf]>>) -> Self {
        Self { guarded: guarded.into(), ..self }
    }

    /// Returns the same policy, where reading these is asked about.
    #[must_use]
    pub fn keeping(self, secrets: Secrets) -> Self {
        Self { secrets: Arc::new(secrets), ..self }
    }

    /// Returns the same policy for a unit that works in other directories.
    #[must_use]
    pub fn at(&self, roots: impl Into<Arc<[PathBuf]>>) -> Self {
        Self { roots: roots.into(), ..self.clone() }
    }

    /// Returns what is left of the policy for a unit whose definition names a
    /// mode and denies some calls. It is never more than this policy.
    #[must_use]
    pub fn narrowed(&self, mode: Option<Mode>, denied: &[Sourced]) -> Self {
        let reach = mode.map_or(self.reach, |mode| self.reach.and(Reach::of(mode)));
        let denied = self.denied.iter().chain(denied).cloned().collect();
        Self { reach, denied, ..self.clone() }
    }

    /// Returns the mode, as it is called.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.reach.mode()
    }

    /// Returns the rules in force.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the directories that are the workspace, the working directory
    /// first.
    #[must_use]
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Tells whether rules that a person has granted answer a question too.
    ///
    /// What an ask rule puts, or what a unit's own mode keeps from it, is never
    /// answered by them: the first offers no rules, the second asks nothing.
    #[must_use]
    pub fn covers(&self, granted: &[Rule], question: &CallQuestion) -> bool {
        let CallQuestion { tool, arguments, rules, .. } = question;
        let Ok(arguments) = serde_json::from_str(arguments) else { return false };
        let subjects = rules::subjects(tool, &arguments).located(self.root());
        !rules.is_empty() && granted.iter().any(|rule| rule.allows(tool, &subjects, self.ground()))
    }

    /// Returns what searches leave out of their results.
    #[must_use]
    pub fn searches(&self) -> Searches {
        let rules = |sourced: &[Sourced]| sourced.iter().map(|it| it.rule.clone()).collect();
        let secrets = (self.mode() != Mode::BypassPermissions).then(|| Arc::clone(&self.secrets));
        Searches {
            denied: rules(&self.rules.deny),
            asked: rules(&self.rules.ask),
            shown: rules(&self.rules.allow),
            secrets,
            root: self.root().to_owned(),
        }
    }

    /// Decides about one call. `tool` is the tool's own name.
    #[must_use]
    pub fn decide(&self, tool: &str, effect: Effect, arguments: &Value) -> Decision {
        self.explain(tool, effect, arguments).decision
    }

    /// Decides about one call and says why.
    #[must_use]
    pub fn explain(&self, tool: &str, effect: Effect, arguments: &Value) -> Explained {
        if rules::is_no_patch(tool, arguments) {
            // The tool reads it in the same way, says what is wrong with it,
            // and has leave to touch no file: nobody need be asked.
            return Explained::allow(Allowed::default(), None, "no file is named");
        }
        let subjects = rules::subjects(tool, arguments).located(self.root());
        let call = Call { tool, effect, subjects };
        let mut explained = self.weigh(&call);
        let places = call.subjects.paths;
        let ask = match &mut explained.decision {
            Decision::Ask(ask) => ask,
            Decision::Allow(allowed) => {
                allowed.places = places;
                return explained;
            }
            Decision::Deny { reason: _ } => return explained,
        };
        ask.allowed.places = places;
        if self.reach.may_ask {
            return explained;
        }
        let remedy = ask.remedy.as_deref().map(|remedy| format!("; {remedy}"));
        let reason =
            format!("{}, and `dontAsk` asks nobody{}", ask.reason, remedy.unwrap_or_default());
        Explained::deny(explained.rule.as_ref(), reason)
    }

    fn weigh(&self, call: &Call<'_>) -> Explained {
        let Call { tool, effect, subjects } = call;
        let is_about = |sourced: &&Sourced| sourced.rule.denies(tool, subjects, self.root());
        if let Some(rule) = self.denials().find(is_about) {
            return Explained::deny(Some(rule), format!("denied by the rule `{rule}`"));
        }
        if let Some((rule, why)) = why_unsure(self.denials(), call) {
            return Explained::deny(Some(rule), why);
        }
        let changes = match effect {
            Effect::Reads | Effect::Delegates => false,
            Effect::Edits | Effect::Executes => true,
        };
        if changes && self.mode() == Mode::Plan {
            let reason = "plan mode only reads; describe the change instead of making it";
            return Explained::deny(None, reason);
        }
        if let Some(rule) = self.rules.ask.iter().find(is_about) {
            return Explained::ask(self.asked_by(rule, call), Some(rule));
        }
        if let Some((rule, why)) = why_unsure(self.rules.ask.iter(), call) {
            return Explained::ask(Ask { reason: why, ..self.asked_by(rule, call) }, Some(rule));
        }
        if self.mode() == Mode::BypassPermissions {
            let allowed = call.with(Access::Off);
            return Explained::allow(
                allowed,
                None,
                "`bypassPermissions` allows what no rule denies",
            );
        }
        let allows = |sourced: &&Sourced| sourced.rule.allows(tool, subjects, self.ground());
        if let Some(rule) = self.rules.allow.iter().find(allows) {
            let allowed = call.with(Access::WorkspaceWrite);
            return Explained::allow(allowed, Some(rule), format!("allowed by the rule `{rule}`"));
        }
        match effect {
            Effect::Reads => self.weigh_reading(call),
            Effect::Delegates => {
                let reason = "agents are under the same rules themselves";
                Explained::allow(Allowed::default(), None, reason)
            }
            Effect::Edits => self.weigh_edit(call),
            Effect::Executes => self.weigh_command(call),
        }
    }

    fn weigh_reading(&self, call: &Call<'_>) -> Explained {
        match self.secret_in(&call.subjects.paths) {
            Some((path, what)) => {
                let reason = format!("`{path}` holds {what}");
                let remedy = format!("the rule `{}(//PATH)` would allow it", call.tool);
                Explained::ask(self.ask(reason, Vec::new(), call, Some(remedy)), None)
            }
            None => Explained::allow(Allowed::default(), None, "reading needs no rule"),
        }
    }

    fn weigh_command(&self, call: &Call<'_>) -> Explained {
        let reason = match call.tool {
            "Bash" => "no rule allows this command",
            _ => "no rule allows this call",
        };
        Explained::ask(self.ask(reason, self.suggestion(call), call, None), None)
    }

    fn weigh_edit(&self, call: &Call<'_>) -> Explained {
        let (tool, paths) = (call.tool, &call.subjects.paths);
        let with_rule = |path: &Path| {
            let path = paths::resolved(self.root(), path);
            let shown = match path.strip_prefix(paths::resolved(self.root(), Path::new("."))) {
                Ok(inside) => path_text::to_text(inside),
                Err(_) => format!("/{}", path_text::to_text(&path)),
            };
            format!("the rule `{tool}({shown})` would allow it")
        };
        let ask = |reason: String, path: &Path, more: &str| {
            let remedy = format!("{}{more}", with_rule(path));
            Explained::ask(self.ask(reason, self.suggestion(call), call, Some(remedy)), None)
        };
        let Some(first) = paths.first() else {
            return Explained::deny(None, "the call names no file");
        };
        for path in paths {
            if let Some(guard) = self.ground().guards(path).first() {
                let reason = format!("`{guard}` can make programs run");
                return ask(reason, path, "");
            }
            if paths::place(self.root(), path, &self.roots).is_none() {
                let path_shown = path_text::to_text(path);
                let reason = format!("`{path_shown}` is outside the workspace");
                return ask(reason, path, ", and `--add-dir` its directory");
            }
        }
        if let Some((path, what)) = self.secret_in(paths) {
            return ask(format!("`{path}` holds {what}"), first, "");
        }
        if self.mode() == Mode::AcceptEdits {
            let reason = "`acceptEdits` allows edits inside the workspace";
            return Explained::allow(Allowed::default(), None, reason);
        }
        let more = ", and so would `--permission-mode acceptEdits`";
        ask("no rule allows this edit".to_owned(), first, more)
    }

    /// Returns the question that an ask rule puts. No allow rule answers it.
    fn asked_by(&self, rule: &Sourced, call: &Call<'_>) -> Ask {
        self.ask(format!("the rule `{rule}` has it asked"), Vec::new(), call, None)
    }

    /// Puts a question together. Where a rule would answer it, that is the
    /// remedy unless there is a better one.
    fn ask(
        &self,
        reason: impl Into<String>,
        rules: Vec<Rule>,
        call: &Call<'_>,
        remedy: Option<String>,
    ) -> Ask {
        let quoted: Vec<String> = rules.iter().map(|rule| format!("`{rule}`")).collect();
        let remedy = remedy.or_else(|| match &quoted[..] {
            [] => None,
            [rule] => Some(format!("the rule {rule} would allow it")),
            rules => Some(format!("the rules {} would allow it", rules.join(", "))),
        });
        Ask {
            reason: reason.into(),
            rules: rules.iter().map(|rule| rule.to_string().into()).collect(),
            allowed: call.with(Access::Off),
            remedy,
        }
    }

    /// Returns the narrowest rules that would allow the call. Whatever does not
    /// is none.
    fn suggestion(&self, call: &Call<'_>) -> Vec<Rule> {
        let Call { tool, effect: _, subjects } = call;
        let rules = suggest::rules(tool, subjects, None, self.ground());
        let suffices = rules.iter().any(|rule| rule.allows(tool, subjects, self.ground()));
        if suffices { rules } else { Vec::new() }
    }

    /// Returns the first path that holds something which is better asked about,
    /// and what.
    fn secret_in(&self, paths: &[PathBuf]) -> Option<(String, &'static str)> {
        paths.iter().find_map(|path| {
            let opened = paths::resolved(self.root(), path);
            let what = self.secrets.within(&opened)?;
            Some((path_text::shown(self.root(), &opened), what))
        })
    }

    fn denials(&self) -> impl Iterator<Item = &Sourced> {
        self.denied.iter().chain(&self.rules.deny)
    }

    fn ground(&self) -> Ground<'_> {
        Ground { roots: &self.roots, own: &self.guarded }
    }

    fn root(&self) -> &Path {
        self.ground().root()
    }
}

impl Call<'_> {
    /// Returns how the call runs: a command with this access, anything else
    /// without any.
    fn with(&self, access: Access) -> Allowed {
        let access = (self.tool == "Bash").then_some(access);
        Allowed { access, ..Allowed::default() }
    }
}

/// Returns the rule about commands that cannot be sure of this one, and why.
fn why_unsure<'a>(
    mut rules: impl Iterator<Item = &'a Sourced>,
    call: &Call<'_>,
) -> Option<(&'a Sourced, String)> {
    let obscure = match call.effect {
        Effect::Executes => {
            call.subjects.words.iter().find_map(|command| shell::obscurity(command))?
        }
        Effect::Reads | Effect::Delegates | Effect::Edits => return None,
    };
    let rule = rules.find(|sourced| sourced.rule.reads_commands())?;
    let why = format!(
        "{obscure}, so the rule `{rule}` cannot be compared with the command; write plain \
         commands, one program each, without quotes around its name"
    );
    Some((rule, why))
}

#[cfg(test)]
mod tests;
