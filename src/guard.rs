//! What decides whether a tool call may run.
//!
//! Until a question can be put to somebody, the guard only allows or denies:
//! reading is allowed, changing is allowed as far as a mode or a rule says so,
//! and every denial carries its reason. A decision runs nothing and writes
//! nothing; it only follows the links of the paths a call names.

mod launch;
mod paths;
mod pattern;
mod rules;
pub mod sandbox;
mod searches;
pub mod shell;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::event::Access;
use crate::path_text;

use rules::Subjects;

pub use rules::{Rule, RuleError};
pub use searches::{LeftOut, Searches};

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: calls of one turn run side by side, and one that was cut off
    /// could be repeated.
    Reads,
    /// Starts units, which are guarded themselves. Runs beside other calls.
    Delegates,
    /// Changes files of the workspace.
    Edits,
    /// Runs a command; it may do anything.
    Executes,
}

impl Effect {
    /// Tells whether calls of one turn may run side by side.
    #[must_use]
    pub fn is_parallel_safe(self) -> bool {
        match self {
            Self::Reads | Self::Delegates => true,
            Self::Edits | Self::Executes => false,
        }
    }
}

/// How much runs without a rule that allows it, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Mode {
    /// Reading only, whatever the rules allow.
    Plan,
    /// Reading, and what a rule allows.
    #[default]
    Default,
    /// As `Default`; never asks, now or later.
    DontAsk,
    /// Reading, edits inside the workspace, and what a rule allows.
    AcceptEdits,
    /// Everything that no rule denies.
    BypassPermissions,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 5] =
        [Self::Plan, Self::Default, Self::DontAsk, Self::AcceptEdits, Self::BypassPermissions];

    /// Returns the mode's name in flags, settings and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Default => "default",
            Self::DontAsk => "dontAsk",
            Self::AcceptEdits => "acceptEdits",
            Self::BypassPermissions => "bypassPermissions",
        }
    }

    /// Reads a mode's name, or one that other harnesses use for it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "manual" => Some(Self::Default),
            "auto-edit" => Some(Self::AcceptEdits),
            "yolo" => Some(Self::BypassPermissions),
            _ => Self::ALL.into_iter().find(|mode| mode.as_str() == name),
        }
    }
}

/// What the units of a run may do.
#[derive(Debug, Clone)]
pub struct Policy {
    /// How much runs without a rule.
    pub mode: Mode,
    /// Rules that allow calls.
    pub allow: Vec<Rule>,
    /// Rules that deny calls; they win over all else.
    pub deny: Vec<Rule>,
    /// The directories whose files may be edited.
    pub roots: Arc<[PathBuf]>,
    /// More files and directories that edits need a rule for, wherever they
    /// are: our own configuration.
    pub guarded: Arc<[PathBuf]>,
}

/// What the guard says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call may run.
    Allow(Allowed),
    /// The call may run if a person says so.
    Ask(Ask),
    /// The call does not run.
    Deny {
        /// Why, and what would allow it, in words for the model and for people.
        reason: String,
    },
}

/// How a call that may run, runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    /// What a command may write; `None` for what runs no command.
    pub access: Option<Access>,
    /// What runs instead of the command as it was written: the same, with
    /// nothing in it that could be read in another way.
    pub script: Option<Arc<str>>,
    /// The files that the paths of the call led to when it was judged, every
    /// link followed. It touches no others.
    pub places: Vec<PathBuf>,
}

/// What a person has to know to decide about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Why it is asked.
    pub reason: String,
    /// The narrowest rules that would allow the call and others like it; empty
    /// if none is sensible.
    pub rules: Vec<Arc<str>>,
    /// How it runs after a yes.
    pub allowed: Allowed,
}

impl Decision {
    /// A call that runs no command may run.
    pub const ALLOW: Self = Self::Allow(Allowed { access: None, script: None, places: Vec::new() });

    fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: reason.into() }
    }
}

impl Policy {
    /// Decides about one call. `tool` is the tool's own name.
    #[must_use]
    pub fn decide(&self, tool: &str, effect: Effect, arguments: &Value) -> Decision {
        let subjects = rules::subjects(tool, arguments).located(self.root());
        if rules::is_no_patch(tool, arguments) {
            // The tool reads it in the same way, says what is wrong with it,
            // and has leave to touch no file: nobody need be asked.
            return Decision::ALLOW;
        }
        match self.judge(tool, effect, &subjects) {
            Decision::Allow(allowed) => {
                Decision::Allow(Allowed { places: subjects.paths, ..allowed })
            }
            Decision::Ask(ask) => {
                let allowed = Allowed { places: subjects.paths, ..ask.allowed };
                Decision::Ask(Ask { allowed, ..ask })
            }
            Decision::Deny { reason } => Decision::Deny { reason },
        }
    }

    fn judge(&self, tool: &str, effect: Effect, subjects: &Subjects) -> Decision {
        let root = self.root();
        if let Some(rule) = self.deny.iter().find(|rule| rule.denies(tool, subjects, root)) {
            return Decision::deny(format!("denied by the rule `{rule}`"));
        }
        if let Some(reason) = self.why_unsure(effect, &subjects.words) {
            return Decision::deny(reason);
        }
        match effect {
            Effect::Reads | Effect::Delegates => return Decision::ALLOW,
            Effect::Edits | Effect::Executes => {}
        }
        if self.mode == Mode::Plan {
            return Decision::deny(
                "plan mode only reads; describe the change instead of making it",
            );
        }
        if self.mode == Mode::BypassPermissions
            || self.allow.iter().any(|rule| rule.allows(tool, subjects, root))
        {
            let access = match effect {
                Effect::Executes => Some(Access::Off),
                Effect::Reads | Effect::Delegates | Effect::Edits => None,
            };
            return Decision::Allow(Allowed { access, ..Allowed::default() });
        }
        match effect {
            Effect::Edits => self.decide_edit(tool, &subjects.paths),
            Effect::Executes => Decision::deny(format!(
                "commands need a rule: `--allowed-tools '{tool}(COMMAND)'`, or \
                 `--permission-mode bypassPermissions`"
            )),
            Effect::Reads | Effect::Delegates => Decision::ALLOW,
        }
    }

    /// Returns what searches leave out of their results.
    #[must_use]
    pub fn searches(&self) -> Searches {
        Searches { deny: self.deny.clone(), root: self.root().to_owned() }
    }

    /// Tells why no deny rule about commands can be sure of this one.
    fn why_unsure(&self, effect: Effect, commands: &[String]) -> Option<String> {
        let rule = self.deny.iter().find(|rule| rule.reads_commands())?;
        let obscure = match effect {
            Effect::Executes => commands.iter().find_map(|command| shell::obscurity(command))?,
            Effect::Reads | Effect::Delegates | Effect::Edits => return None,
        };
        Some(format!(
            "{obscure}, so the rule `{rule}` cannot be compared with the command; write plain \
             commands, one program each, without quotes around its name"
        ))
    }

    fn decide_edit(&self, tool: &str, paths: &[PathBuf]) -> Decision {
        if self.mode != Mode::AcceptEdits {
            return Decision::deny(format!(
                "edits need `--permission-mode acceptEdits` or `--allowed-tools '{tool}(PATH)'`"
            ));
        }
        if paths.is_empty() {
            return Decision::deny("the call names no file");
        }
        for path in paths {
            let Some(place) = paths::place(self.root(), path, &self.roots) else {
                let path = path_text::to_text(path);
                return Decision::deny(format!(
                    "`{path}` is outside the workspace; add its directory with `--add-dir`, or \
                     allow it with `--allowed-tools '{tool}(//PATH)'`"
                ));
            };
            let part = paths::guarded_part(&place).map(str::to_owned);
            let own = || paths::holder(self.root(), path, &self.guarded).map(path_text::to_text);
            if let Some(part) = part.or_else(own) {
                let file = path_text::shown(self.root(), &paths::resolved(self.root(), path));
                return Decision::deny(format!(
                    "`{part}` can make programs run, so edits there need a rule: \
                     `--allowed-tools '{tool}({file})'`"
                ));
            }
        }
        Decision::ALLOW
    }

    fn root(&self) -> &Path {
        self.roots.first().expect("a policy always has the working directory as its first root")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(mode: Mode, allow: &[&str], deny: &[&str]) -> Policy {
        let parse = |rules: &[&str]| rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let root = std::env::current_dir().unwrap();
        let (allow, deny) = (parse(allow), parse(deny));
        Policy { mode, allow, deny, roots: [root].into(), guarded: [].into() }
    }

    #[track_caller]
    fn check(policy: &Policy, call: (&str, Effect, Value), allowed: bool) {
        let decision = policy.decide(call.0, call.1, &call.2);
        assert_eq!(matches!(decision, Decision::Allow(_)), allowed, "{decision:?}");
    }

    fn bash(command: &str) -> (&'static str, Effect, Value) {
        ("Bash", Effect::Executes, json!({"command": command}))
    }

    fn edit(path: &str) -> (&'static str, Effect, Value) {
        ("Edit", Effect::Edits, json!({"file_path": path}))
    }

    #[test]
    fn reading_is_allowed_in_every_mode_unless_a_rule_denies_it() {
        for mode in Mode::ALL {
            let read = ("Read", Effect::Reads, json!({"file_path": "src/lib.rs"}));
            check(&policy(mode, &[], &[]), read.clone(), true);
            check(&policy(mode, &["Read"], &["Read(src/**)"]), read, false);
        }
    }

    #[test]
    fn what_may_not_be_read_may_not_be_edited_either() {
        let denied = policy(Mode::BypassPermissions, &[], &["Read(src/**)"]);
        check(&denied, edit("src/lib.rs"), false);
        check(&denied, edit("tests/x.rs"), true);
    }

    #[test]
    fn edits_need_a_mode_or_a_rule() {
        check(&policy(Mode::Default, &[], &[]), edit("src/lib.rs"), false);
        check(&policy(Mode::DontAsk, &[], &[]), edit("src/lib.rs"), false);
        check(&policy(Mode::AcceptEdits, &[], &[]), edit("src/lib.rs"), true);
        check(&policy(Mode::AcceptEdits, &[], &[]), edit("src/new/dir/file.rs"), true);
        check(&policy(Mode::BypassPermissions, &[], &[]), edit("/etc/passwd"), true);
        check(&policy(Mode::Default, &["Edit(src/**)"], &[]), edit("src/lib.rs"), true);
        check(&policy(Mode::Default, &["Edit(src/**)"], &[]), edit("tests/it/main.rs"), false);
        check(&policy(Mode::Plan, &["Edit"], &[]), edit("src/lib.rs"), false);
    }

    #[test]
    fn accepted_edits_stay_inside_the_workspace_and_out_of_git() {
        let accept = policy(Mode::AcceptEdits, &[], &[]);
        for path in ["../x", "/etc/passwd", "src/../../x", ".git/hooks/pre-commit", ".git/config"] {
            check(&accept, edit(path), false);
        }
    }

    #[test]
    fn what_decides_over_later_runs_needs_a_rule() {
        let mut accept = policy(Mode::AcceptEdits, &[], &[]);
        accept.guarded = [accept.roots[0].join("own/tine")].into();
        for path in [".mcp.json", "sub/.mcp.json", ".MCP.json", "own/tine", "own/tine/config.toml"]
        {
            check(&accept, edit(path), false);
        }
        check(&accept, edit("own/tiny"), true);
        for path in [".mcp.json", "sub/.git/config", "own/tine/x"] {
            check(&policy(Mode::Default, &[&format!("Edit({path})")], &[]), edit(path), true);
        }
    }

    #[test]
    fn an_edit_that_names_no_file_is_denied() {
        let accept = policy(Mode::AcceptEdits, &[], &[]);
        for arguments in [json!({}), json!({"file_path": ["/etc/passwd"]})] {
            check(&accept, ("Write", Effect::Edits, arguments), false);
        }
    }

    #[test]
    fn a_link_to_nothing_is_judged_by_where_its_target_would_be() {
        let outside = tempfile::tempdir().unwrap();
        let inside = tempfile::tempdir().unwrap();
        let target = outside.path().join("new");
        std::os::unix::fs::symlink(&target, inside.path().join("link")).unwrap();
        let rule = format!("Edit(/{}/**)", outside.path().canonicalize().unwrap().display());
        let write = ("Write", Effect::Edits, json!({"file_path": "link"}));
        let mut accept = policy(Mode::AcceptEdits, &[], &[]);
        accept.roots = [inside.path().to_owned()].into();
        check(&accept, write.clone(), false);
        let mut denied = policy(Mode::BypassPermissions, &[], &[&rule]);
        denied.roots = [inside.path().to_owned()].into();
        check(&denied, write.clone(), false);
        let mut allowed = policy(Mode::Default, &["Edit(link)"], &[]);
        allowed.roots = [inside.path().to_owned()].into();
        check(&allowed, write, false);
    }

    #[test]
    fn a_path_is_judged_as_the_tools_read_it() {
        // The tools take `\x2f` for a slash, unless a file has that very name.
        let accept = policy(Mode::AcceptEdits, &[], &[]);
        for path in [r"\x2fetc/passwd", r"\x2egit/hooks/pre-commit", r"src/\x2e\x2e/../../x"] {
            check(&accept, edit(path), false);
        }
        let denied = policy(Mode::BypassPermissions, &["Edit"], &["Edit(src/**)", "Read(src/**)"]);
        check(&denied, edit(r"\x73rc/lib.rs"), false);
        for tool in ["Read", "Grep", "Glob"] {
            let path = json!({"file_path": r"\x73rc/lib.rs", "path": r"\x73rc/lib.rs"});
            check(&denied, (tool, Effect::Reads, path), false);
        }
    }

    #[test]
    fn commands_need_a_rule_and_a_pattern_never_covers_a_second_command() {
        check(&policy(Mode::AcceptEdits, &[], &[]), bash("ls"), false);
        let git = policy(Mode::Default, &["Bash(git *)", "Bash(npm run test)"], &[]);
        check(&git, bash("git status"), true);
        check(&git, bash("npm run test"), true);
        check(&git, bash("npm run test2"), false);
        for command in [
            "gitk",
            "git status; rm -rf .",
            "git status && rm x",
            "git log | sh",
            "git log > x",
            "git show $(rm x)",
            "git show `rm x`",
            "git status\nrm x",
            "git status & rm x",
            "git diff <(rm x)",
        ] {
            check(&git, bash(command), false);
        }
    }

    #[test]
    fn a_deny_rule_wins_over_every_mode_and_sees_each_part_of_a_command() {
        let denied = policy(Mode::BypassPermissions, &["Bash"], &["Bash(rm *)"]);
        check(&denied, bash("ls"), true);
        for command in ["rm x", "ls; rm x", "ls && rm x", "ls | rm x", "  rm x", "ls\nrm x"] {
            check(&denied, bash(command), false);
        }
    }

    #[test]
    fn a_deny_pattern_refuses_commands_it_cannot_see_through() {
        let denied = policy(Mode::BypassPermissions, &["Bash"], &["Bash(echo *)"]);
        for command in [
            "{ echo hi; }",
            "if true; then echo hi; fi",
            "X=1 echo hi",
            "/bin/echo hi",
            "ec\"\"ho hi",
            "echo  hi",
            "command echo hi",
        ] {
            check(&denied, bash(command), false);
        }
        check(&denied, bash("printf hi"), true);
        // A rule about the tool itself needs no look at the command.
        let free = policy(Mode::BypassPermissions, &[], &["Read(secrets)"]);
        check(&free, bash("{ echo hi; }"), true);
    }

    #[test]
    fn an_allow_pattern_covers_no_option_that_runs_another_program() {
        let rules = ["Bash(git *)", "Bash(find *)", "Bash(git -c a=b log)"];
        let allowed = policy(Mode::Default, &rules, &[]);
        check(&allowed, bash("git switch -c new"), true);
        check(&allowed, bash("git -c a=b log"), true);
        check(&allowed, bash("git -c alias.x='!touch /tmp/x' x"), false);
        check(&allowed, bash("find . -exec touch x +"), false);
    }

    #[test]
    fn agents_and_skills_can_be_denied_by_name() {
        let denied = policy(Mode::Default, &[], &["Agent(explore)", "Skill(deploy)"]);
        let agents = |names: &[&str]| {
            let tasks: Vec<Value> =
                names.iter().map(|name| json!({"subagent_type": name})).collect();
            ("Agent", Effect::Delegates, json!({"tasks": tasks}))
        };
        check(&denied, agents(&["reviewer"]), true);
        check(&denied, agents(&["reviewer", "Explore"]), false);
        check(&denied, ("Skill", Effect::Reads, json!({"skill": "deploy"})), false);
        check(&denied, ("Skill", Effect::Reads, json!({"skill": "/Deploy"})), false);
        check(&denied, ("Skill", Effect::Reads, json!({"skill": "review"})), true);
    }
}
