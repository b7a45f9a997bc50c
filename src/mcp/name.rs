//! What a server's tools are called: `mcp__server__tool`, in letters that every
//! provider takes.
//!
//! A name never depends on which servers answer, only on what is configured and
//! on what a server lists. Of those that look the same none has the plain name:
//! so what comes later never takes a name that rules mean another by. A rule
//! that named one of them then means none until it is written anew.

use std::collections::{BTreeMap, BTreeSet};

/// Longest name of a tool: OpenAI's API takes 64 characters.
const NAME_CAP: usize = 64;

/// Longest name of a server within one: so much is left for the tool.
const LABEL_CAP: usize = 24;

/// What every such name begins with.
pub const PREFIX: &str = "mcp__";

/// How many characters of a hash tell names apart that look the same.
const MARK: usize = 6;

/// Returns names for servers, in the order in which they are given: each in
/// letters, digits, `-` and single `_`, and no two the same in any case.
pub fn labels<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let names = names.into_iter().map(|name| (label(name), name)).collect();
    distinct(names, LABEL_CAP)
}

/// Returns whole names for the tools of a server, in the order in which they
/// are given, and no two the same in any case.
pub fn tools<'a>(label: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let start = format!("{PREFIX}{label}__");
    let whole = |name: &'a str| {
        let letters: String = name.chars().map(letter).collect();
        let letters = if letters.is_empty() { "tool".to_owned() } else { letters };
        (format!("{start}{letters}"), name)
    };
    distinct(names.into_iter().map(whole).collect(), NAME_CAP)
}

/// Two `_` divide a server's name from a tool's, so there are none within it or
/// at its ends.
fn label(name: &str) -> String {
    let letters: String = name.chars().map(letter).collect();
    let parts: Vec<&str> = letters.split('_').filter(|part| !part.is_empty()).collect();
    match parts.join("_") {
        joined if joined.is_empty() => "server".to_owned(),
        joined => joined,
    }
}

fn letter(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }
}

/// Returns the letters of each name, with a mark of the whole name behind them
/// where they are too long or another's, too: what is cut off would tell two long
/// names apart.
fn distinct(names: Vec<(String, &str)>, cap: usize) -> Vec<String> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for (letters, _) in &names {
        *counts.entry(letters.to_ascii_lowercase()).or_default() += 1;
    }
    let is_plain =
        |letters: &str| letters.len() <= cap && counts[&letters.to_ascii_lowercase()] == 1;
    let plain = names.iter().map(|(letters, _)| letters).filter(|letters| is_plain(letters));
    let mut taken: BTreeSet<String> = plain.map(|letters| letters.to_ascii_lowercase()).collect();
    let named = names.into_iter().map(|(letters, name)| match is_plain(&letters) {
        true => letters,
        false => marked(&letters, name, cap, &mut taken),
    });
    named.collect()
}

fn marked(letters: &str, name: &str, cap: usize, taken: &mut BTreeSet<String>) -> String {
    // The same name twice gets another mark each time.
    for copy in 0_u32.. {
        let mark = blake3::hash(format!("{name}\0{copy}").as_bytes()).to_hex();
        let kept = &letters[..letters.len().min(cap - MARK - 1)];
        let whole = format!("{}-{}", kept.trim_end_matches('_'), &mark[..MARK]);
        if taken.insert(whole.to_ascii_lowercase()) {
            return whole;
        }
    }
    unreachable!("there are more marks than names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_names_that_can_be_told_from_those_of_tools() {
        let names = ["files", "my server", "a__b", "__x_", "größe", "", "Files", "a b", "a_b"];
        let labels = labels(names);
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
        assert_eq!(self::labels(names), labels);
    }

    #[test]
    fn what_comes_later_takes_no_name_of_what_was_there() {
        let earlier = self::tools("a", ["read", "read file"]);
        for newcomer in ["Read", "READ", "read_file", "read.file"] {
            let later = self::tools("a", ["read", "read file", newcomer]);
            assert!(!earlier.contains(&later[2]), "{later:?}");
            assert!(!later[2].eq_ignore_ascii_case(&earlier[0]), "{later:?}");
        }
        assert!(!labels(["Files", "files"]).contains(&"files".to_owned()));
    }

    #[test]
    fn every_name_is_one_that_providers_take_and_no_two_are_the_same() {
        let long = "x".repeat(200);
        let longer = format!("{long}y");
        let names =
            ["read", "Read", "read", "read file", "read_file", "", "\u{1b}[2J", &long, &longer];
        let tools = tools("a", names);
        assert_eq!(self::tools("a", ["read", "read file"]), ["mcp__a__read", "mcp__a__read_file"]);
        let distinct: BTreeSet<String> = tools.iter().map(|it| it.to_ascii_lowercase()).collect();
        assert_eq!(distinct.len(), names.len(), "{tools:?}");
        for tool in &tools {
            assert!(tool.len() <= 64 && tool.chars().all(|c| letter(c) == c), "{tool}");
            assert!(tool.starts_with("mcp__a__"), "{tool}");
        }
        assert_eq!(self::tools("a", names), tools);
        let label = "l".repeat(LABEL_CAP);
        assert!(self::tools(&label, [&*long]).iter().all(|name| name.len() == NAME_CAP));
    }
}
