//! What a server's tools are called: `mcp__server__tool`, in letters that every
//! provider takes.
//!
//! A name never depends on which servers answer, only on what is configured and
//! on what a server lists. Of those that look the same none has the plain name:
//! so what comes later never takes a name that rules mean another by. A rule
//! that denies or asks means all of them by it; see [`crate::tool_name::others`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::tool_name::OtherName;

/// Longest name of a tool: OpenAI's API takes 64 characters.
const NAME_CAP: usize = 64;

/// Longest name of a server within one: behind it there is room for a tool of
/// one letter.
const LABEL_CAP: usize = NAME_CAP - PREFIX.len() - DIVIDER.len() - 1;

/// Longest name of a server in a name that would be too long otherwise: so much
/// is left for the tool.
const SHORT_CAP: usize = 24;

/// What every such name begins with.
pub const PREFIX: &str = "mcp__";

/// What stands between a server's name and a tool's.
const DIVIDER: &str = "__";

/// How many characters of a hash tell names apart that look the same.
const MARK: usize = 6;

/// A server's part in names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// What it is wherever there is room for it.
    pub whole: Arc<str>,
    /// What it is in a name that would be too long otherwise.
    pub short: Arc<str>,
    /// Whether no other server looks the same.
    pub is_alone: bool,
}

/// Returns names for servers, in the order in which they are given: each in
/// letters, digits, `-` and single `_`, and no two the same in any case.
pub fn labels<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Label> {
    let names: Vec<(String, &str)> = names.into_iter().map(|name| (label(name), name)).collect();
    let counts = counts(names.iter().map(|(letters, _)| letters));
    let is_alone = |letters: &str| counts[&letters.to_ascii_lowercase()] == 1;
    let is_plain = |letters: &str| letters.len() <= LABEL_CAP && is_alone(letters);
    let plain = names.iter().map(|(letters, _)| letters).filter(|letters| is_plain(letters));
    let mut taken: BTreeSet<String> = plain.map(|letters| letters.to_ascii_lowercase()).collect();
    let mut short = |letters: &str, name: &str| marked(("", letters), name, SHORT_CAP, &mut taken);
    let named = names.into_iter().map(|(letters, name)| {
        let is_alone = is_alone(&letters);
        let whole = if is_plain(&letters) { letters.clone() } else { short(&letters, name) };
        let short = match whole.len() <= SHORT_CAP {
            true => whole.clone(),
            false => short(&letters, name),
        };
        Label { whole: whole.into(), short: short.into(), is_alone }
    });
    named.collect()
}

/// Returns whole names for the tools of a server, in the order in which they
/// are given, and no two the same in any case.
pub fn tools<'a>(label: &Label, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<(String, &str)> = names.into_iter().map(|name| (tool(name), name)).collect();
    let counts = counts(names.iter().map(|(letters, _)| letters));
    let start = |label: &str| format!("{PREFIX}{label}{DIVIDER}");
    let starts = [start(&label.whole), start(&label.short)];
    // The one with the server's plain name, if that leaves so much room.
    let start = |length: usize| starts.iter().find(|start| start.len() + length <= NAME_CAP);
    let plain = |letters: &str| {
        let is_alone = counts[&letters.to_ascii_lowercase()] == 1;
        start(letters.len()).filter(|_| is_alone).map(|start| format!("{start}{letters}"))
    };
    let mut taken: BTreeSet<String> = names
        .iter()
        .filter_map(|(letters, _)| Some(plain(letters)?.to_ascii_lowercase()))
        .collect();
    let named = names.iter().map(|(letters, name)| {
        plain(letters).unwrap_or_else(|| {
            let start = start(letters.len() + 1 + MARK).unwrap_or(&starts[1]);
            marked((start, letters), name, NAME_CAP, &mut taken)
        })
    });
    named.collect()
}

/// Returns what else people may call the tools of a server, in the order in
/// which they are given: by the names as they are configured and listed.
///
/// What may be another's is not certain: of servers and tools that look the
/// same, and of a server with two `_` in its name.
pub fn others<'a>(
    label: &Label,
    configured: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Vec<Vec<OtherName>> {
    let names: Vec<String> = names.into_iter().map(tool).collect();
    let counts = counts(&names);
    let servers = [
        (label.whole.to_string(), true),
        (label.short.to_string(), true),
        (self::label(configured), label.is_alone),
        (letters(configured), false),
    ];
    let others = names.iter().map(|letters| {
        let is_alone = counts[&letters.to_ascii_lowercase()] == 1;
        let both = servers.iter().filter(|(server, _)| !server.is_empty());
        let both = both.flat_map(|(server, is_certain)| {
            let tool = format!("{PREFIX}{server}{DIVIDER}{letters}");
            let server = format!("{PREFIX}{server}");
            [
                OtherName { text: server, is_server: true, is_certain: *is_certain },
                OtherName { text: tool, is_server: false, is_certain: *is_certain && is_alone },
            ]
        });
        both.collect()
    });
    others.collect()
}

/// Two `_` divide a server's name from a tool's, so there are none within it or
/// at its ends.
fn label(name: &str) -> String {
    let letters = letters(name);
    let parts: Vec<&str> = letters.split('_').filter(|part| !part.is_empty()).collect();
    match parts.join("_") {
        joined if joined.is_empty() => "server".to_owned(),
        joined => joined,
    }
}

fn tool(name: &str) -> String {
    if name.is_empty() { "tool".to_owned() } else { letters(name) }
}

fn letters(name: &str) -> String {
    name.chars().map(letter).collect()
}

fn letter(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }
}

/// Counts those that are the same in any case.
fn counts<'a>(names: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for letters in names {
        *counts.entry(letters.to_ascii_lowercase()).or_default() += 1;
    }
    counts
}

/// Returns the start and the letters with a mark of the whole name behind them:
/// what is cut off would tell two long names apart.
fn marked(
    (start, letters): (&str, &str),
    name: &str,
    cap: usize,
    taken: &mut BTreeSet<String>,
) -> String {
    let kept = &letters[..letters.len().min(cap - start.len() - MARK - 1)];
    let kept = kept.trim_end_matches('_');
    // The same name twice gets another mark each time.
    for copy in 0_u32.. {
        let mark = blake3::hash(format!("{name}\0{copy}").as_bytes()).to_hex();
        let whole = format!("{start}{kept}-{}", &mark[..MARK]);
        if taken.insert(whole.to_ascii_lowercase()) {
            return whole;
        }
    }
    unreachable!("there are more marks than names")
}

#[cfg(test)]
impl From<&str> for Label {
    fn from(name: &str) -> Self {
        labels([name]).remove(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        labels(names).into_iter().map(|label| label.whole.to_string()).collect()
    }

    fn tools<'a>(label: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        super::tools(&label.into(), names)
    }

    #[test]
    fn servers_have_names_that_can_be_told_from_those_of_tools() {
        let names = ["files", "my server", "a__b", "__x_", "größe", "", "Files", "a b", "a_b"];
        let labels = whole(names);
        let odd = |label: &String| !label.contains("__") && !label.ends_with('_');
        assert!(labels.iter().all(odd), "{labels:?}");
        assert_eq!(
            (&*labels[1], &labels[3..6]),
            ("my_server", &["x", "gr_e", "server"].map(str::to_owned)[..])
        );
        for (label, start) in [(0, "files-"), (6, "Files-"), (2, "a_b-"), (7, "a_b-"), (8, "a_b-")]
        {
            assert!(labels[label].starts_with(start), "{labels:?}");
        }
        let distinct: BTreeSet<&String> = labels.iter().collect();
        assert_eq!(distinct.len(), labels.len());
        assert_eq!(whole(names), labels);
    }

    #[test]
    fn what_comes_later_takes_no_name_of_what_was_there() {
        let earlier = tools("a", ["read", "read file"]);
        for newcomer in ["Read", "READ", "read_file", "read.file"] {
            let later = tools("a", ["read", "read file", newcomer]);
            assert!(!earlier.contains(&later[2]), "{later:?}");
            assert!(!later[2].eq_ignore_ascii_case(&earlier[0]), "{later:?}");
        }
        assert!(!whole(["Files", "files"]).contains(&"files".to_owned()));
    }

    #[test]
    fn every_name_is_one_that_providers_take_and_no_two_are_the_same() {
        let long = "x".repeat(200);
        let longer = format!("{long}y");
        let names =
            ["read", "Read", "read", "read file", "read_file", "", "\u{1b}[2J", &long, &longer];
        let named = tools("a", names);
        assert_eq!(tools("a", ["read", "read file"]), ["mcp__a__read", "mcp__a__read_file"]);
        let distinct: BTreeSet<String> = named.iter().map(|it| it.to_ascii_lowercase()).collect();
        assert_eq!(distinct.len(), names.len(), "{named:?}");
        for tool in &named {
            assert!(tool.len() <= 64 && tool.chars().all(|c| letter(c) == c), "{tool}");
            assert!(tool.starts_with("mcp__a__"), "{tool}");
        }
        assert_eq!(tools("a", names), named);
        let label = "l".repeat(LABEL_CAP);
        assert!(tools(&label, [&*long]).iter().all(|name| name.len() == NAME_CAP));
    }

    #[test]
    fn a_server_keeps_its_plain_name_for_as_long_as_the_whole_fits() {
        let long = "my-company-internal-tools";
        let whole = format!("mcp__{long}__delete");
        let edge = "t".repeat(NAME_CAP - "mcp____".len() - long.len());
        let [fits, longer] = [edge.clone(), format!("{edge}t")];
        let names = tools(long, ["delete", &fits, &longer]);
        assert_eq!(names[..2], [whole, format!("mcp__{long}__{fits}")]);
        assert!(names[2].starts_with("mcp__my-company-intern-"), "{names:?}");
        assert!(names[2].ends_with(&format!("__{longer}")), "{names:?}");
        // Marks leave the divider where it is, however long the server's name is.
        let longest = "l".repeat(LABEL_CAP);
        for names in [["a", "A"], ["_", "."]] {
            for name in tools(&longest, names) {
                let (server, tool) = name.split_at("mcp__".len() + SHORT_CAP);
                assert!(server.starts_with("mcp__lll") && tool.starts_with("__"), "{name}");
            }
        }
        let labels = labels([&*longest, &format!("{longest}l")]);
        assert_eq!((labels[0].whole.len(), labels[1].whole.len()), (LABEL_CAP, SHORT_CAP));
        assert!(labels.iter().all(|label| label.is_alone && label.short.len() == SHORT_CAP));
    }

    #[test]
    fn other_names_are_those_that_are_configured_and_certain_where_nothing_looks_the_same() {
        let check = |server: &str, all: &[&str], certain: &[&str], perhaps: &[&str]| {
            let label = labels(all.iter().copied()).remove(0);
            let others = others(&label, server, ["read.it", "Read_it", "del"]);
            for text in certain {
                let is_there = |other: &OtherName| other.text == *text && other.is_certain;
                assert!(others.iter().flatten().any(is_there), "{text}: {others:?}");
            }
            for text in perhaps {
                let mut same = others.iter().flatten().filter(|other| other.text == *text);
                assert!(same.clone().count() > 0, "{text}: {others:?}");
                assert!(same.all(|other| !other.is_certain), "{text}: {others:?}");
            }
        };
        check("a.b", &["a.b"], &["mcp__a_b", "mcp__a_b__del"], &["mcp__a_b__read_it"]);
        check("a.b", &["a.b", "a_b"], &[], &["mcp__a_b", "mcp__a_b__del"]);
        check("a__b", &["a__b"], &["mcp__a_b__del"], &["mcp__a__b__del", "mcp__a__b"]);
    }
}
