//! The parts of a policy that go to another machine with a unit.
//!
//! What is about the machine stays there: its directories, where its keys are,
//! which of its programs only read.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Policy;
use crate::guard::mode::Reach;
use crate::guard::paths;
use crate::guard::wire::{Malformed, WrittenRule};
use crate::guard::{Mode, Sourced};
use crate::path_text;

/// What a unit may do, for a machine that has a copy of the workspace: see
/// [`Policy::governed_by`].
///
/// This is what holds when it is taken. A session's mode that is changed later,
/// and what is answered with "always", do not follow it: whoever asks a person
/// from over there hears the answer, and whoever starts the next unit takes the
/// parts anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyParts {
    pub(super) root: PathBuf,
    /// What the root is a copy of: originals and copies, the innermost last.
    pub(super) copies: Vec<(PathBuf, PathBuf)>,
    pub(super) reach: Reach,
    pub(super) allow: Vec<Sourced>,
    pub(super) ask: Vec<Sourced>,
    pub(super) deny: Vec<Sourced>,
    pub(super) denied: Vec<Sourced>,
    pub(super) leave: Vec<Sourced>,
}

impl Policy {
    /// Returns what goes to another machine with a unit.
    #[must_use]
    pub fn parts(&self) -> PolicyParts {
        PolicyParts {
            root: paths::resolved(self.root(), Path::new(".")),
            copies: self.copies.pairs(),
            reach: self.mode.reach(),
            allow: self.rules.allow.clone(),
            ask: self.rules.ask.clone(),
            deny: self.rules.deny.clone(),
            denied: self.denied.to_vec(),
            leave: self.leave.to_vec(),
        }
    }
}

impl PolicyParts {
    /// Returns the working directory there, every link followed.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes them as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { root, copies, reach, allow, ask, deny, denied, leave } = self;
        let copies = copies.iter();
        let written = Written {
            root: path_text::to_text(root),
            copies: copies.map(|(one, two)| [one, two].map(|it| path_text::to_text(it))).collect(),
            mode: reach.runs().as_str().to_owned(),
            may_ask: reach.may_ask,
            allow: WrittenRule::all(allow),
            ask: WrittenRule::all(ask),
            deny: WrittenRule::all(deny),
            denied: WrittenRule::all(denied),
            leave: WrittenRule::all(leave),
        };
        serde_json::to_vec(&written).expect("texts, lists and truths can be written as JSON")
    }

    /// Reads what [`PolicyParts::encode`] wrote.
    ///
    /// # Errors
    ///
    /// It is anything else, or has more in it than is understood here: what is
    /// passed over might have denied something.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let written = serde_json::from_slice(bytes);
        let written = written.map_err(Malformed::because)?;
        let Written { root, copies, mode, may_ask, allow, ask, deny, denied, leave } = written;
        let known = Mode::from_name(&mode)
            .ok_or_else(|| Malformed::because(format!("there is no mode `{mode}`")))?;
        let reach = Reach::of(known);
        let copies = copies.iter();
        Ok(Self {
            root: path_text::from_text(&root),
            copies: copies
                .map(|[one, two]| (path_text::from_text(one), path_text::from_text(two)))
                .collect(),
            reach: reach.asking(may_ask),
            allow: WrittenRule::read(allow)?,
            ask: WrittenRule::read(ask)?,
            deny: WrittenRule::read(deny)?,
            denied: WrittenRule::read(denied)?,
            leave: WrittenRule::read(leave)?,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    root: String,
    copies: Vec<[String; 2]>,
    /// Never `dontAsk`: that is `default`, where nobody may be asked.
    mode: String,
    may_ask: bool,
    allow: Vec<WrittenRule>,
    ask: Vec<WrittenRule>,
    deny: Vec<WrittenRule>,
    denied: Vec<WrittenRule>,
    leave: Vec<WrittenRule>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::{Rule, Rules, Source};

    fn sourced(rule: &str, source: Source) -> Sourced {
        let home = Some(Path::new("/home/ada"));
        Sourced { rule: Rule::parse(rule, home).unwrap(), source }
    }

    #[test]
    fn they_are_the_same_behind_the_wire() {
        let rules = Rules {
            allow: vec![sourced("Bash(git *)", Source::Flag), sourced("Read", Source::User)],
            ask: vec![sourced("Edit(src/**)", Source::Project)],
            deny: vec![
                sourced("Read(~/.ssh/**)", Source::User),
                sourced("Edit(//etc/)", Source::Settings),
                sourced("WebFetch(domain:example.com)", Source::Flag),
                sourced("mcp__a__*", Source::Flag),
                sourced("ShellTool(rm)", Source::Flag),
            ],
        };
        let root = PathBuf::from("/w/caf\u{e9}");
        let policy = Policy::new(Mode::AcceptEdits, [root.clone()]).with_rules(rules);
        let denied = [sourced("Bash(git push *)", Source::Agent)];
        let leave = [sourced("Write(a)", Source::Skill)];
        let policy = policy.narrowed(Some(Mode::BypassPermissions), &denied).with_leave(&leave);
        let policy = policy.at(&[PathBuf::from("/copy")], (&root, Path::new("/copy")));
        for policy in [policy.clone(), policy.without_questions()] {
            let parts = policy.parts();
            let again = PolicyParts::decode(&parts.encode()).unwrap();
            assert_eq!(again, parts);
            // Rules compare as they are written; here what they mean counts.
            let meant = |parts: &PolicyParts| -> Vec<String> {
                parts.deny.iter().map(|it| it.rule.spelt_out()).collect()
            };
            assert_eq!(meant(&again), meant(&parts));
            assert_eq!(meant(&again)[0], "Read(//home/ada/.ssh/**)");
        }
    }

    #[track_caller]
    fn check(text: &str, why: &str) {
        let error = PolicyParts::decode(text.as_bytes()).unwrap_err().to_string();
        let expected = format!("what a unit may do cannot be read: {why}");
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn what_is_not_understood_is_refused_and_never_passed_over() {
        let policy = Policy::new(Mode::Default, [PathBuf::from("/w")]);
        let deny = vec![sourced("Read(a)", Source::User)];
        let policy = policy.with_rules(Rules { deny, ..Rules::default() });
        let text = String::from_utf8(policy.parts().encode()).unwrap();
        check("", "EOF while parsing");
        check(&text.replacen('{', "{\"more\":1,", 1), "unknown field `more`");
        check(&text.replace("\"leave\":[]", "\"left\":[]"), "unknown field `left`");
        check(&text.replace("default", "lax"), "there is no mode `lax`");
        check(&text.replace("\"user\"", "\"moon\""), "`Read(a)` comes from `moon`");
        check(&text.replace("Read(a)", "Sing(a)"), "`Sing(a)` names no tool");
    }
}
