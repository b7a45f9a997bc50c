//! What a server's tools are called: `mcp__server__tool`, in letters that every
//! provider takes.
//!
//! A name never depends on which servers answer, only on what is configured and
//! on what a server lists: so rules that name a tool go on to mean it.

use std::collections::BTreeSet;

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
    let mut taken = BTreeSet::new();
    names.into_iter().map(|name| unique(&label(name), name, LABEL_CAP, &mut taken)).collect()
}

/// Returns whole names for the tools of a server, in the order in which they
/// are given, and no two the same in any case.
pub fn tools<'a>(label: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let start = format!("{PREFIX}{label}__");
    let tool = |name: &str| {
        let letters: String = name.chars().map(letter).collect();
        let letters = if letters.is_empty() { "tool".to_owned() } else { letters };
        let whole = format!("{start}{letters}");
        unique(&whole, name, NAME_CAP, &mut taken)
    };
    names.into_iter().map(tool).collect()
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

/// Returns the letters, with a mark of the whole name behind them where they are
/// too long or taken: what is cut off would tell two long names apart.
fn unique(letters: &str, name: &str, cap: usize, taken: &mut BTreeSet<String>) -> String {
    if letters.len() <= cap && taken.insert(letters.to_ascii_lowercase()) {
        return letters.to_owned();
    }
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
        assert_eq!(&labels[..6], ["files", "my_server", "a_b", "x", "gr_e", "server"]);
        assert!(labels[6].starts_with("Files-"), "{labels:?}");
        let distinct: BTreeSet<&String> = labels.iter().collect();
        assert_eq!(distinct.len(), labels.len());
        assert_eq!(self::labels(names), labels);
    }

    #[test]
    fn every_name_is_one_that_providers_take_and_no_two_are_the_same() {
        let long = "x".repeat(200);
        let longer = format!("{long}y");
        let names =
            ["read", "Read", "read", "read file", "read_file", "", "\u{1b}[2J", &long, &longer];
        let tools = tools("a", names);
        assert_eq!(tools[0], "mcp__a__read");
        assert_eq!(tools[3], "mcp__a__read_file");
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
