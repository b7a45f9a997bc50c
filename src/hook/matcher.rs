//! What a hook is asked about: everything, some names, or what a pattern finds.
//!
//! As in Claude Code: letters, digits, bars and commas are names, which have to be
//! the same but for their case; whatever else there is makes it a regular expression,
//! which may match anywhere. A permission rule stands for its tool: a gate that was
//! written so would otherwise never be asked.

use std::sync::Arc;

use fancy_regex::Regex;

use crate::tool_name;

/// Tells what a hook is asked about.
#[derive(Debug, Clone)]
pub enum Matcher {
    /// Everything.
    Any,
    /// What has one of these names.
    Names(Vec<String>),
    /// What this is found in.
    Pattern(Arc<Regex>),
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, Self::Any) => true,
            (Self::Names(one), Self::Names(other)) => one == other,
            (Self::Pattern(one), Self::Pattern(other)) => one.as_str() == other.as_str(),
            (Self::Any | Self::Names(_) | Self::Pattern(_), _) => false,
        }
    }
}

impl Matcher {
    /// Reads a matcher as it is written.
    ///
    /// # Errors
    ///
    /// It is no regular expression; the error says why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text == "*" {
            return Ok(Self::Any);
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-|, ".contains(c);
        if text.chars().all(is_plain) {
            let names = text.split(['|', ',']).map(|name| name.trim().to_owned());
            return Ok(Self::Names(names.collect()));
        }
        if let Some(tool) = tool_of_rule(text) {
            return Ok(Self::Names(vec![tool.to_owned()]));
        }
        let pattern = Regex::new(text).map_err(|error| error.to_string())?;
        Ok(Self::Pattern(Arc::new(pattern)))
    }

    /// Tells whether something is meant that goes by these names. What has none
    /// is always meant.
    #[must_use]
    pub fn matches(&self, names: &[&str]) -> bool {
        match self {
            _ if names.is_empty() => true,
            Self::Any => true,
            Self::Names(meant) => {
                names.iter().any(|name| meant.iter().any(|it| it.eq_ignore_ascii_case(name)))
            }
            Self::Pattern(pattern) => {
                // One that says what a name must not be has only the first in
                // mind: each of the others is something else than that.
                let meant = if excludes(pattern) { &names[..1] } else { names };
                // One that gives up on a name has not found it.
                meant.iter().any(|name| pattern.is_match(name).unwrap_or(false))
            }
        }
    }
}

/// Returns the tool of a permission rule such as `Bash(git *)`, which as a regular
/// expression matches no tool. `Notebook(Edit|Read)` is a regular expression.
fn tool_of_rule(text: &str) -> Option<&str> {
    let (tool, specifier) = text.strip_suffix(')')?.split_once('(')?;
    let is_rule = specifier.contains([' ', ':', '/', '~']) && !specifier.starts_with('?');
    (is_rule && tool_name::is_ruled(tool_name::canonical(tool))).then_some(tool)
}

/// Tells whether a pattern says what there must not be.
fn excludes(pattern: &Regex) -> bool {
    ["(?!", "(?<!"].iter().any(|look| pattern.as_str().contains(look))
}

/// Returns the names by which hooks may know a tool: its own, and those of the
/// tools of other harnesses that do the same. A patch does whatever Write and
/// Edit do.
pub(super) fn names_of(tool: &str) -> Vec<&str> {
    let others: &[&str] = match tool {
        "Agent" => &["Task", "agent", "task"],
        "ApplyPatch" => &["Edit", "Write", "apply_patch", "edit", "write_file"],
        "Bash" => &["run_shell_command"],
        "Edit" => &["edit", "replace"],
        "Glob" => &["glob"],
        "Grep" => &["grep_search", "search_file_content"],
        "Read" => &["read_file"],
        "Skill" => &["skill"],
        "TodoWrite" => &["todo_write"],
        "Write" => &["write_file"],
        _ => &[],
    };
    std::iter::once(tool).chain(others.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(matcher: &str, meant: &[&str], not_meant: &[&str]) {
        let matcher = Matcher::parse(matcher).unwrap();
        for tool in meant {
            assert!(matcher.matches(&names_of(tool)), "{tool}");
        }
        for tool in not_meant {
            assert!(!matcher.matches(&names_of(tool)), "{tool}");
        }
    }

    #[test]
    fn names_are_exact_and_everything_else_is_a_pattern() {
        check("", &["Bash", "Read"], &[]);
        check("*", &["Bash", "Read"], &[]);
        check("Bash", &["Bash"], &["BashOutput", "Read"]);
        check("Write|Edit", &["Write", "Edit", "ApplyPatch"], &["Read", "TodoWrite"]);
        check("mcp__memory__.*", &["mcp__memory__store"], &["mcp__files__read"]);
        check("^(?!Bash)", &["Read"], &["Bash"]);
        check("Task", &["Agent"], &["TaskList"]);
        check("bash, WRITE", &["Bash", "Write", "ApplyPatch"], &["Read"]);
        check("Bash(git *)", &["Bash"], &["Read"]);
        check("Bash(rm:*)", &["Bash"], &["Read"]);
        check("Task(List|Output)", &["TaskList", "TaskOutput"], &["Agent", "Read"]);
        check("run_shell_command|write_file", &["Bash", "Write", "ApplyPatch"], &["Read"]);
    }

    #[test]
    fn what_is_no_pattern_is_said_to_be_none() {
        assert!(Matcher::parse("mcp__(").is_err());
    }

    #[test]
    fn what_has_no_name_is_meant_by_every_matcher() {
        assert!(Matcher::parse("Bash").unwrap().matches(&[]));
    }
}
