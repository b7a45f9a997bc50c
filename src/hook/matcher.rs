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
        let parts: Vec<MatcherPart<'_>> =
            alternatives(text).into_iter().map(MatcherPart::read).collect();
        let name = |part: &MatcherPart<'_>| match part {
            MatcherPart::Name(name) | MatcherPart::Rule(name) => Some((*name).to_owned()),
            MatcherPart::Pattern(_) => None,
        };
        if let Some(names) = parts.iter().map(name).collect() {
            return Ok(Self::Names(names));
        }
        if parts.iter().any(|part| matches!(part, MatcherPart::Pattern("*"))) {
            return Ok(Self::Any);
        }
        let has_rule = parts.iter().any(|part| matches!(part, MatcherPart::Rule(_)));
        let patterns: Vec<String> = parts.iter().map(|part| part.pattern(has_rule)).collect();
        let pattern = patterns.join("|");
        let pattern = Regex::new(&pattern).map_err(|error| error.to_string())?;
        Ok(Self::Pattern(Arc::new(pattern)))
    }

    /// Returns the text of a matcher that matches no tool, here or of another harness;
    /// `None` if it matches one, or may match one of a server.
    pub(super) fn unmatched_text(&self) -> Option<String> {
        let text = match self {
            Self::Any => return None,
            Self::Names(names) => names.join("|"),
            Self::Pattern(pattern) => pattern.as_str().to_owned(),
        };
        // No tool of a server has such a character in its name.
        let may_be_of_server = (text.contains("mcp") || text.contains("__"))
            && !text.contains([' ', ';', '&', '"', '\'', '`']);
        let matches = |tool: &str| self.matches(&names_of(tool));
        let is_known = match self {
            Self::Any | Self::Pattern(_) => false,
            Self::Names(names) => {
                names.iter().any(|name| tool_name::is_ruled(tool_name::canonical(name)))
            }
        };
        (!may_be_of_server && !is_known && !tool_name::ruled().any(matches)).then_some(text)
    }

    /// Tells whether something is meant that goes by these names. What has none
    /// is always meant.
    #[must_use]
    pub fn matches(&self, names: &[&str]) -> bool {
        match self {
            _ if names.is_empty() => true,
            Self::Any => true,
            Self::Names(meant) => {
                let is_name = |it: &str, name: &str| {
                    [it, tool_name::canonical(it)].iter().any(|it| it.eq_ignore_ascii_case(name))
                };
                names.iter().any(|name| meant.iter().any(|it| is_name(it, name)))
            }
            Self::Pattern(pattern) => {
                // One that says what a name must not be has only the first in
                // mind: each of the others is something else than that.
                let meant = if excludes(pattern) { &names[..1] } else { names };
                // A gate whose pattern gives up on a name is asked.
                meant.iter().any(|name| pattern.is_match(name).unwrap_or(true))
            }
        }
    }
}

/// One alternative of a matcher.
enum MatcherPart<'a> {
    /// The name of a tool.
    Name(&'a str),
    /// The tool of a permission rule.
    Rule(&'a str),
    /// A regular expression.
    Pattern(&'a str),
}

impl<'a> MatcherPart<'a> {
    fn read(text: &'a str) -> Self {
        let text = text.trim();
        if text.chars().all(|c| c.is_ascii_alphanumeric() || "_- ".contains(c)) {
            return Self::Name(text);
        }
        tool_of_rule(text).map_or(Self::Pattern(text), Self::Rule)
    }

    /// Returns the alternative as a regular expression. Among other expressions a name may
    /// match anywhere, as in Claude Code; in a list that `has_rule` it is a tool's name.
    fn pattern(&self, has_rule: bool) -> String {
        let whole = |tool: &str| match tool_name::canonical(tool) {
            name if name == tool => format!("(?i:^{tool}$)"),
            name => format!("(?i:^(?:{tool}|{name})$)"),
        };
        match self {
            Self::Name(tool) if has_rule => whole(tool),
            Self::Name(tool) => format!("{tool}|{}", whole(tool)),
            Self::Rule(tool) => whole(tool),
            Self::Pattern(text) => with_bars(text),
        }
    }
}

/// Splits a matcher at its bars and commas, but not at those between brackets.
fn alternatives(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start, mut is_escaped) = (Vec::new(), 0_u32, 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '|' | ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    parts.push(&text[start..]);
    parts
}

/// Returns an expression with each separator as a bar, without white space around it. No
/// name contains a comma, so one outside of a class or a repetition separates names.
fn with_bars(text: &str) -> String {
    let (mut written, mut kept, mut is_escaped, mut closer) = (String::new(), 0, false, None);
    for c in text.chars() {
        let is_behind_bar = written.len() > kept && written.ends_with('|');
        match c {
            _ if is_escaped => {
                written.push(c);
                kept = written.len();
            }
            '|' | ',' if closer.is_none() => {
                written.truncate(written.trim_end().len().max(kept));
                written.push('|');
            }
            c if c.is_whitespace() && closer.is_none() && is_behind_bar => {}
            c => {
                closer = match (closer, c) {
                    (None, '[') => Some(']'),
                    (None, '{') => Some('}'),
                    (Some(end), c) if end == c => None,
                    (closer, _) => closer,
                };
                written.push(c);
            }
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    written
}

/// Returns the tool of a permission rule such as `Bash(git *)` or `Read(.env)`, which as
/// a regular expression matches no tool. `Task(List|Output)` is a regular expression.
fn tool_of_rule(text: &str) -> Option<&str> {
    let (tool, specifier) = text.strip_suffix(')')?.split_once('(')?;
    // A server's tools are not known here, and rules about them have no parentheses.
    if tool.starts_with("mcp__") || !tool_name::is_ruled(tool_name::canonical(tool)) {
        return None;
    }
    let is_specifier = specifier.contains([' ', ':', '/', '~']) && !specifier.starts_with('?');
    let matches_tool = |pattern: Regex| {
        let is_match = |name: &str| pattern.is_match(name).unwrap_or(true);
        tool_name::ruled().any(|tool| names_of(tool).into_iter().any(is_match))
    };
    (is_specifier || !Regex::new(text).is_ok_and(matches_tool)).then_some(tool.trim())
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
        check("Bash(rm*)", &["Bash"], &["Read"]);
        check("Bash(*)", &["Bash"], &["Read"]);
        check("MultiEdit", &["Edit", "ApplyPatch"], &["Read"]);
        check("MultiEdit(*.py)|^Web", &["Edit", "WebFetch"], &["Read"]);
        check("Bash(rm|mv)", &["Bash"], &["Read"]);
        check("Read(.env)", &["Read"], &["Bash"]);
        check("Write(*.py)", &["Write", "ApplyPatch"], &["Read"]);
        check("Agent(Explore)", &["Agent"], &["Bash"]);
        check("Bash(rm:*)|Write", &["Bash", "Write"], &["Read"]);
        check("bash(rm:*), Read(.env)", &["Bash", "Read"], &["Write"]);
        check("Bash(rm:*)|mcp__.*", &["Bash", "mcp__a__b"], &["Read"]);
        check("Bash(git *)|^Web", &["Bash", "WebFetch"], &["Read"]);
        check("Bash(?!Output)", &["Bash"], &["Read"]);
        check("mcp__a__(read|write)", &["mcp__a__read"], &["mcp__a__list", "Read"]);
        check("Task(List|Output)", &["TaskList", "TaskOutput"], &["Agent", "Read"]);
        check("run_shell_command|write_file", &["Bash", "Write", "ApplyPatch"], &["Read"]);
    }

    #[test]
    fn names_and_patterns_may_be_listed_with_commas_and_blanks() {
        let of_server = "mcp__github__push";
        check("Bash, mcp__github__.*", &["Bash", of_server], &["Read", "mcp__a__b"]);
        check("mcp__github__.*,Write", &[of_server, "Write", "ApplyPatch"], &["Read"]);
        check("Bash | mcp__github__.*", &["Bash", of_server], &["Read"]);
        check("^(Bash, mcp__github__.*)$", &["Bash", of_server], &["Read"]);
        check("(Bash | mcp__github__.*)", &["Bash", of_server], &["Read"]);
        check("Bash(rm:*), mcp__github__(push, pull)", &["Bash", of_server], &["Read"]);
        check("bash|mcp__github__.*", &["Bash", of_server], &["Read"]);
        check("shell, ^mcp__", &[of_server], &["Read"]);
        check("Bash, *", &["Bash", "Read", of_server], &[]);
        check("Bash|*", &["Bash", "Read"], &[]);
        check("mcp__[a-z, ]{1,9}__push, Read", &[of_server, "Read"], &["Bash"]);
        check("Bash|mcp__.*", &["Bash", "BashOutput", of_server], &["Read"]);
        check("Write\\|, mcp__.*", &[of_server], &["Write"]);
    }

    #[test]
    fn a_pattern_that_gives_up_on_a_name_matches_it() {
        // The search exceeds the engine's limit of backtracking.
        check("(a|b|ab)*(?>x)", &[&"ab".repeat(40)], &["Read"]);
    }

    #[test]
    fn a_matcher_that_matches_no_tool_is_told_from_others() {
        for (text, expected) in [
            ("Bsh", Some("Bsh")),
            ("^Bsh.*", Some("^Bsh.*")),
            ("Bsh|Wrte", Some("Bsh|Wrte")),
            ("Bash", None),
            ("bash", None),
            ("Bash|Bsh", None),
            ("NotebookEdit", None),
            ("MultiEdit", None),
            ("run_shell_command", None),
            ("Bash(rm*)", None),
            ("^(?!Bash)", None),
            (".*", None),
            ("", None),
            ("mcp__a__.*", None),
            (".*__delete", None),
            ("Bash; mcp__a__.*", Some("Bash; mcp__a__.*")),
            ("Bash mcp__a__b", Some("Bash mcp__a__b")),
            ("'mcp__a__.*'", Some("'mcp__a__.*'")),
            ("mcp__a__x && mcp__a__.*", Some("mcp__a__x && mcp__a__.*")),
            ("(Bsh , mcp__a__.*)", None),
        ] {
            let unmatched = Matcher::parse(text).unwrap().unmatched_text();
            assert_eq!(unmatched.as_deref(), expected, "{text}");
        }
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
