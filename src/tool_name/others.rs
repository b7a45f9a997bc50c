//! What tools of servers are called besides their own names.
//!
//! A name that would be too long, or another's too, is cut or marked. What
//! people wrote before they saw it stands all the same: what denies, asks or
//! listens means a tool by the name as it is configured; what allows does
//! where that can be no other tool's.
//!
//! A tool's names are learned with what its server offers, long after rules and
//! hooks were read; but before any call, and they never change. So one table is
//! shared by whoever compares names.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::{canonical, is_kept_from, is_of_server, lists, server};

/// Most tools that have other names. Each summary may bring new ones, and those
/// before it may still be called. One more is not offered.
const TOOLS_CAP: usize = 10_000;

/// What a tool is called besides its own name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherName {
    /// The name.
    pub text: String,
    /// Whether it is that of its server, which stands for all its tools.
    pub is_server: bool,
    /// Whether it can mean no other tool.
    pub is_certain: bool,
}

/// The other names of tools. A clone is the same table.
#[derive(Debug, Clone, Default)]
pub struct OtherNames(Arc<watch::Sender<BTreeMap<String, Vec<OtherName>>>>);

impl OtherNames {
    /// Takes note of what else a tool is called, and tells whether there was
    /// room for it.
    #[must_use = "what a tool is called that is not kept, no rule can mean"]
    pub fn note(&self, tool: &str, mut others: Vec<OtherName>) -> bool {
        others.retain(|other| {
            !other.text.eq_ignore_ascii_case(tool) && !is_of_server(&other.text, tool)
        });
        if others.is_empty() {
            return true;
        }
        let mut is_kept = true;
        self.0.send_if_modified(|tools| {
            is_kept = tools.contains_key(tool) || tools.len() < TOOLS_CAP;
            let is_new = is_kept && !tools.contains_key(tool);
            if is_new {
                tools.insert(tool.to_owned(), others);
            }
            is_new
        });
        is_kept
    }

    /// Tells whether a name that somebody wrote means a tool, and no other one,
    /// though it is not the tool's own.
    #[must_use]
    pub fn surely(&self, written: &str, tool: &str) -> bool {
        self.any(tool, |other| other.is_certain && other.text.eq_ignore_ascii_case(written))
    }

    /// Tells whether a name that somebody wrote may mean a tool, though it is
    /// not the tool's own.
    #[must_use]
    pub fn perhaps(&self, written: &str, tool: &str) -> bool {
        self.any(tool, |other| other.text.eq_ignore_ascii_case(written))
    }

    /// Returns all names by which a tool may be meant, but for its own and its
    /// server's.
    #[must_use]
    pub fn of(&self, tool: &str) -> Vec<String> {
        let tools = self.0.borrow();
        let others = tools.get(tool).into_iter().flatten().filter(|other| !other.is_server);
        others.map(|other| other.text.clone()).collect()
    }

    /// Does as [`lists`], also by names that surely mean the tool.
    #[must_use]
    pub fn lists(&self, list: &[String], tool: &str) -> bool {
        lists(list, tool) || list.iter().any(|listed| self.surely(whole(listed), tool))
    }

    /// Does as [`is_kept_from`], also by names that may
    /// mean the tool.
    #[must_use]
    pub fn is_kept_from(&self, list: &[String], tool: &str) -> bool {
        is_kept_from(list, tool) || list.iter().any(|listed| self.perhaps(whole(listed), tool))
    }

    fn any(&self, tool: &str, is_meant: impl Fn(&OtherName) -> bool) -> bool {
        self.0.borrow().get(tool).is_some_and(|others| others.iter().any(is_meant))
    }
}

fn whole(listed: &str) -> &str {
    let listed = canonical(listed);
    server(listed).unwrap_or(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(text: &str, is_certain: bool) -> OtherName {
        OtherName { text: text.to_owned(), is_server: !text.ends_with("__t"), is_certain }
    }

    #[test]
    fn what_denies_means_a_tool_by_any_of_its_names_and_what_allows_by_those_that_are_its_alone() {
        let names = OtherNames::default();
        let others =
            [("mcp__a_b__t", false), ("mcp__long", true), ("mcp__long__t", true), ("mcp__l", true)];
        let others = others.map(|(text, is_certain)| other(text, is_certain)).to_vec();
        assert!(names.note("mcp__l__t", others));
        for (written, surely) in [
            ("mcp__a_b__t", false),
            ("MCP__A_B__T", false),
            ("mcp__long__*", true),
            ("mcp__long__t", true),
            ("mcp__l", true),
        ] {
            let list = [written.to_owned()];
            assert!(names.is_kept_from(&list, "mcp__l__t"), "{written}");
            assert_eq!(names.lists(&list, "mcp__l__t"), surely, "{written}");
            assert!(!names.is_kept_from(&list, "mcp__x__t"), "{written}");
        }
        assert_eq!(names.of("mcp__l__t"), ["mcp__a_b__t", "mcp__long__t"]);
    }

    #[test]
    fn a_tool_for_whose_names_there_is_no_room_is_said_to_be_one() {
        let names = OtherNames::default();
        let more = |tool: usize| names.note(&tool.to_string(), vec![other("mcp__x__t", true)]);
        assert!((0..TOOLS_CAP).all(more));
        assert!(!more(TOOLS_CAP) && more(0));
        assert!(names.note("mcp__x__t", vec![other("mcp__x__t", true)]));
    }
}
