//! What the units of a run may do, and what is decided about one call.
//!
//! The order is the same in every mode: what denies, what has it asked, what
//! allows, and last what the mode says. Each step knows the rule it went by, so
//! that a decision can be explained.

mod allowing;
mod bounded;
mod copied;
mod entries;
mod following;
mod governed;
mod hosts;
mod made;
mod parts;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::copies::Copies;
use super::explained::Explained;
use super::hard_links;
use super::hidden::LastHidden;
use super::mode::Holding;
use super::named::GitConfigFiles;
use super::path_pattern::escape_path;
use super::paths::{self, Ground};
use super::rules::Rule;
use super::searches::ForSearches;
use super::subjects::{self, Subjects};
use super::unasked::{Gate, OnlyReads, Touch};
use super::{
    Allowed, Ask, Decided, Decision, Effect, Mode, Rules, Script, Secrets, Sourced, suggest,
};
use crate::event::Access;
use crate::path_text;
use crate::tool_name::OtherNames;
use allowing::{allowing, why_unsure};

pub use copied::{PathMeaning, PathUse};
pub use hosts::HostDecision;
pub use parts::PolicyParts;

/// What the units of a run may do.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(super) mode: Holding,
    rules: Arc<Rules>,
    /// What its own definition denies a unit, and those it starts.
    denied: Arc<[Sourced]>,
    /// What a unit may do besides while it follows a skill.
    leave: Arc<[Sourced]>,
    /// The directories whose files may be edited.
    roots: Arc<[PathBuf]>,
    /// More files and directories that edits need a rule for, wherever they
    /// are: our own configuration.
    guarded: Arc<[PathBuf]>,
    /// Files that git's configuration names; git is asked on first use.
    named: Arc<GitConfigFiles>,
    /// Files that are hidden from the commands of one answer.
    hidden: LastHidden,
    copies: Copies,
    /// Whether the rules that allow were written for another machine.
    is_governed: bool,
    secrets: Arc<Secrets>,
    /// `None` where no command is taken for one that only reads.
    gate: Option<Gate>,
    /// What else tools may be called.
    others: OtherNames,
}

/// A call, as rules see it.
struct Call<'a> {
    tool: &'a str,
    effect: Effect,
    subjects: Subjects,
    /// What the gate says of it; `None` if nobody asked the gate.
    reading: Option<Result<OnlyReads, String>>,
    /// The files that a command may name, for rules about reading.
    named: Vec<Subjects>,
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
            mode: Holding::new(mode),
            rules: Arc::default(),
            denied: [].into(),
            leave: [].into(),
            roots: roots.into(),
            guarded: [].into(),
            named: Arc::default(),
            hidden: LastHidden::default(),
            copies: Copies::default(),
            is_governed: false,
            secrets: Arc::default(),
            gate: None,
            others: OtherNames::default(),
        }
    }

    /// Returns the same policy for a unit that works in a `copy` of a directory.
    /// What denies or asks about a file of the original means the copy's, too.
    #[must_use]
    pub fn at(&self, roots: &[PathBuf], (original, copy): (&Path, &Path)) -> Self {
        let (roots, copies) = (Arc::from(roots), self.copies.and(original, copy));
        let gate = self.gate.as_ref().map(|gate| Gate {
            machine: Arc::new(gate.machine.with_roots(&roots)),
            sandbox: gate.sandbox.clone(),
        });
        Self { roots, gate: None, copies, ..self.clone() }.gated(gate)
    }

    /// Returns what is left of the policy for a unit whose definition names a
    /// mode and denies some calls. It is never more than this policy.
    #[must_use]
    pub fn narrowed(&self, mode: Option<Mode>, denied: &[Sourced]) -> Self {
        let mode = mode.map_or_else(|| self.mode.clone(), |mode| self.mode.and(mode));
        // A definition is read where no home is known.
        let at_home = governed::at_home(denied, self.secrets.homes());
        let denied = self.denied.iter().chain(denied).cloned().chain(at_home).collect();
        Self { mode, denied, ..self.clone() }
    }

    /// Returns the same policy, where what would be asked about is denied.
    #[must_use]
    pub fn without_questions(self) -> Self {
        Self { mode: self.mode.without_questions(), ..self }
    }

    /// Returns what both policies leave, for a unit of the first that goes on for
    /// one of the second. It works where that one does: a copy of its own is gone.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        let denied = self.denied.iter().chain(&*other.denied).cloned().collect();
        let leave = self.leave.iter().filter(|rule| other.leave.contains(rule)).cloned().collect();
        Self { mode: self.mode.within(&other.mode), denied, leave, ..other.clone() }
    }

    /// Returns the mode, as it is called.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode.mode()
    }

    /// Changes the session's mode for every policy that was made from the same
    /// one as this, from their next decision on.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.set(mode);
    }

    /// Returns what is asked about before it is read, in words: what it is, and
    /// where.
    #[must_use]
    pub fn secrets(&self) -> Vec<(&'static str, Vec<String>)> {
        let is_asked = self.mode() != Mode::BypassPermissions;
        if is_asked { self.secrets.listed() } else { Vec::new() }
    }

    /// Returns what searches go by.
    pub(super) fn for_searches(&self) -> ForSearches<'_> {
        ForSearches {
            denied: self.denials().map(|it| &it.rule).collect(),
            asked: self.rules.ask.iter().map(|it| &it.rule).collect(),
            shown: self.shown().map(|it| &it.rule).collect(),
            secrets: (self.mode() != Mode::BypassPermissions).then_some(&*self.secrets),
            root: self.root(),
            copies: &self.copies,
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
        if subjects::is_no_patch(tool, arguments) {
            // The tool reads it in the same way, says what is wrong with it,
            // and has leave to touch no file: nobody need be asked.
            return Explained::allow(Allowed::default(), None, "no file is named");
        }
        self.explain_about(tool, effect, subjects::subjects(tool, arguments))
    }

    fn explain_about(&self, tool: &str, effect: Effect, subjects: Subjects) -> Explained {
        self.named.retry();
        let subjects = subjects.called(&self.others).located(self.root()).among(&self.copies);
        let reading = match (&self.gate, tool, &subjects.words[..]) {
            (Some(gate), "Bash", [command]) => Some(gate.judge(command, self.root(), &self.copies)),
            _ => None,
        };
        let named = self.named_files(tool, &subjects);
        let call = Call { tool, effect, subjects, reading, named };
        let mut explained = self.bounded(&call, self.weigh(&call));
        let places = call.subjects.into_places();
        let ask = match &mut explained.decision {
            Decision::Ask(ask) => ask,
            Decision::Allow(allowed) => {
                allowed.places = places;
                return explained;
            }
            Decision::Deny { reason: _ } => return explained,
        };
        ask.allowed.places = places;
        if self.mode.reach().may_ask {
            return explained;
        }
        let remedy = ask.remedy.as_deref().map(|remedy| format!("; {remedy}"));
        let reason = format!("{}; `dontAsk` asks nobody{}", ask.reason, remedy.unwrap_or_default());
        Explained::deny(explained.rule.as_ref(), reason)
    }

    fn weigh(&self, call: &Call<'_>) -> Explained {
        if let Some(denied) = self.weigh_denials(call) {
            return denied;
        }
        if let Some(asked) = self.weigh_asks(call) {
            return asked;
        }
        if self.mode() == Mode::BypassPermissions {
            let reason = "`bypassPermissions` allows what no rule denies or has asked";
            return Explained::allow(call.with(Access::Off), None, reason);
        }
        // Before what rules allow: it bounds the command more narrowly.
        if let Some(script) = self.runs_unasked(call) {
            let reason = "it only reads, and a sandbox holds it to that";
            return Explained::allow(reading_only(script), None, reason);
        }
        let rules = self.rules.allow.iter().chain(&*self.leave);
        if self.is_in_bounds(&call.subjects)
            && let Some(rule) = allowing(rules, call.tool, &call.subjects, self.ground())
        {
            let allowed = self.running(call, Access::WorkspaceWrite);
            return Explained::allow(allowed, Some(rule), format!("allowed by the rule `{rule}`"));
        }
        match call.effect {
            Effect::Reads => self.weigh_reading(call),
            Effect::Asks => Explained::question(self.mode.reach().may_ask),
            Effect::Fetches => self.weigh_command(call),
            Effect::Delegates => {
                let reason = "agents are under the same rules themselves";
                Explained::allow(Allowed::default(), None, reason)
            }
            Effect::Edits => self.weigh_edit(call),
            Effect::Executes => self.weigh_command(call),
        }
    }

    /// What must not be, whatever else is said.
    fn weigh_denials(&self, call: &Call<'_>) -> Option<Explained> {
        if let Some(rule) = self.denials().find(|rule| self.is_about(rule, call)) {
            return Some(Explained::deny(Some(rule), format!("denied by the rule `{rule}`")));
        }
        if let Some((rule, why)) = why_unsure(self.denials(), call) {
            return Some(Explained::deny(Some(rule), why));
        }
        let changes = match call.effect {
            Effect::Reads | Effect::Asks | Effect::Fetches | Effect::Delegates => false,
            Effect::Edits => true,
            Effect::Executes => call.only_reads().is_none(),
        };
        (changes && self.mode() == Mode::Plan).then(|| {
            let reason = "plan mode only reads; describe the change instead of making it";
            Explained::deny(None, reason)
        })
    }

    /// What a person has to be asked about, whatever allows it.
    fn weigh_asks(&self, call: &Call<'_>) -> Option<Explained> {
        let ask = |rule: &Sourced, reason: String| {
            // No allow rule would answer it, so there is none to offer.
            let ask = self.ask(reason, Vec::new(), call, None);
            // Nor does one for the whole tool.
            Explained::ask(Ask { is_sparable: false, ..ask }, Some(rule))
        };
        if let Some(rule) = self.rules.ask.iter().find(|rule| self.is_about(rule, call)) {
            return Some(ask(rule, format!("the rule `{rule}` has it asked")));
        }
        if let Some((rule, why)) = why_unsure(self.rules.ask.iter(), call) {
            return Some(ask(rule, why));
        }
        let reading = call.only_reads()?;
        let mut rules = self.denials().chain(&self.rules.ask);
        let rule = rules.find(|rule| reading.touches(rule, self.ground()).is_some())?;
        Some(ask(rule, format!("it may read what the rule `{rule}` is about")))
    }

    /// Tells whether a rule that denies or asks is about a call, or about what
    /// the call surely reads.
    fn is_about(&self, sourced: &Sourced, call: &Call<'_>) -> bool {
        sourced.rule.denies(call.tool, &call.subjects, self.root())
            || call.only_reads().is_some_and(|reading| {
                reading.touches(sourced, self.ground()) == Some(Touch::Surely)
            })
            || sourced.rule.reading_pattern().is_some()
                && call.named.iter().any(|it| sourced.rule.denies("Read", it, self.root()))
    }

    /// Returns what runs if the call is a command that may run unasked.
    fn runs_unasked(&self, call: &Call<'_>) -> Option<Script> {
        let (reading, gate) = (call.only_reads()?, self.gate.as_ref()?);
        let is_free = reading.secret(&self.secrets, self.root()).is_none();
        (is_free && gate.sandbox.holds()).then(|| reading.script.clone())
    }

    /// Returns how a call runs that a rule or a person allows: in plan mode as
    /// what it was found to be, a reader.
    fn running(&self, call: &Call<'_>, access: Access) -> Allowed {
        match call.only_reads() {
            Some(reading) if self.mode() == Mode::Plan => reading_only(reading.script.clone()),
            Some(_) | None => call.with(access),
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
        let reason = match (&call.reading, call.tool) {
            (Some(Ok(reading)), _) => match reading.secret(&self.secrets, self.root()) {
                Some(secret) => secret,
                None => "it only reads, but there is no sandbox to hold it to that".to_owned(),
            },
            (Some(Err(why)), _) => format!("no rule allows this command, and {why}"),
            (None, "Bash") => "no rule allows this command".to_owned(),
            (None, _) => "no rule allows this call".to_owned(),
        };
        Explained::ask(self.ask(reason, self.suggestion(call), call, None), None)
    }

    fn weigh_edit(&self, call: &Call<'_>) -> Explained {
        let (tool, paths) = (call.tool, &call.subjects.paths);
        let with_rule = |path: &Path| {
            let path = paths::resolved(self.root(), path);
            let pattern =
                |path: &Path| escape_path(path).unwrap_or_else(|| path_text::to_text(path));
            let shown = match path.strip_prefix(paths::resolved(self.root(), Path::new("."))) {
                Ok(inside) => pattern(inside),
                Err(_) => format!("/{}", pattern(&path)),
            };
            format!("the rule `{tool}({shown})` would allow it")
        };
        let ask = |reason: String, path: &Path, more: &str| {
            let remedy = match call.subjects.entries[..] {
                [] => format!("{}{more}", with_rule(path)),
                // A pattern is about what a link leads to.
                [_, ..] => format!("the rule `{tool}` would allow it"),
            };
            Explained::ask(self.ask(reason, self.suggestion(call), call, Some(remedy)), None)
        };
        let Some(first) = paths.first() else {
            return Explained::deny(None, "the call names no file");
        };
        for path in paths {
            if let Some(guard) = self.ground().guards(path).first() {
                return ask(self.ground().reason(*guard), path, "");
            }
            if paths::place(self.root(), path, &self.roots).is_none() {
                let path_shown = path_text::to_text(path);
                let reason = format!("`{path_shown}` is outside the workspace");
                return ask(reason, path, ", and `--add-dir` its directory");
            }
        }
        if let Some(reason) = self.why_entry_is_asked(&call.subjects) {
            return ask(reason, first, "");
        }
        let is_accepted = self.mode() == Mode::AcceptEdits;
        if is_accepted && let Some((path, reason)) = self.runs_later(paths) {
            return ask(reason, path, "");
        }
        if let Some((path, what)) = self.secret_in(paths) {
            return ask(format!("`{path}` holds {what}"), first, "");
        }
        if is_accepted {
            let reason = "`acceptEdits` allows edits inside the workspace";
            return Explained::allow(Allowed::default(), None, reason);
        }
        let more = ", and so would `--permission-mode acceptEdits`";
        ask("no rule allows this edit".to_owned(), first, more)
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
        // What has no rule to offer is asked each time: what an ask rule puts,
        // and what would have to be named.
        let decided = if rules.is_empty() { Decided::default() } else { self.decided(call) };
        Ask {
            reason: reason.into(),
            rules: rules.iter().map(|rule| rule.to_string().into()).collect(),
            allowed: self.running(call, Access::Off),
            remedy,
            decided,
            is_sparable: self.is_sparable(call),
        }
    }

    /// Tells whether a rule for the whole tool would allow the call, which no
    /// rule has asked.
    fn is_sparable(&self, call: &Call<'_>) -> bool {
        let whole = Rule::parse(call.tool, None).ok();
        whole.is_some_and(|rule| rule.allows(call.tool, &call.subjects, self.ground()))
    }

    /// Returns the narrowest rules that would allow the call. Whatever does not
    /// is none.
    fn suggestion(&self, call: &Call<'_>) -> Vec<Rule> {
        let Call { tool, effect: _, subjects, reading: _, named: _ } = call;
        let rules = suggest::rules(tool, subjects, (self.ground(), &self.copies));
        let suffice = self.decided(call).covered_by(rules.iter().map(|rule| (rule, ()))).is_some();
        if suffice { rules } else { Vec::new() }
    }

    fn decided(&self, call: &Call<'_>) -> Decided {
        Decided::of(call.tool, &call.subjects, self.root())
    }

    /// Returns the first path that holds something which is better asked about,
    /// and what.
    fn secret_in(&self, paths: &[PathBuf]) -> Option<(String, &'static str)> {
        paths.iter().find_map(|path| {
            let opened = paths::resolved(self.root(), path);
            let what = hard_links::secret_in(&self.secrets, self.root(), &opened)?;
            Some((path_text::shown(self.root(), &opened), what))
        })
    }

    fn denials(&self) -> impl Iterator<Item = &Sourced> {
        self.denied.iter().chain(&self.rules.deny)
    }

    fn ground(&self) -> Ground<'_> {
        Ground { roots: &self.roots, own: &self.guarded, named: Some(&self.named) }
    }

    fn root(&self) -> &Path {
        self.ground().root()
    }
}

impl Call<'_> {
    fn only_reads(&self) -> Option<&OnlyReads> {
        self.reading.as_ref()?.as_ref().ok()
    }

    /// Returns how the call runs: a command with this access, anything else
    /// without any.
    fn with(&self, access: Access) -> Allowed {
        let access = (self.tool == "Bash").then_some(access);
        Allowed { access, ..Allowed::default() }
    }
}

fn reading_only(script: Script) -> Allowed {
    Allowed { access: Some(Access::ReadOnly), script: Some(script), ..Allowed::default() }
}

#[cfg(test)]
mod tests;
