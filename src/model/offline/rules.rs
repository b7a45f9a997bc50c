//! The rules: those of `rules.txt`, and two that take more than a pattern.

use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, sinks::UTF8};

use super::source::Source;
use crate::code::{indentation, is_code, is_test, stem};
use crate::message::{Call, Output};

/// The angles there are rules for.
pub(super) const ANGLES: [&str; 5] = ["correctness", "security", "tests", "performance", "clarity"];

/// Most findings of one rule in one file; the third tells how many are left.
const SAME_CAP: usize = 3;

/// Lines of a function that still fit on a screen or two.
const FUNCTION_LINES: u32 = 80;

/// Applies the rules of one angle to all files; a line for each finding.
pub(super) fn apply(
    angle: &str,
    sources: &[Source<'_>],
    outputs: &[(&Call, &Output)],
) -> Vec<String> {
    let mut findings = Vec::new();
    for rule in include_str!("rules.txt").lines() {
        let [of, severity, place, languages, pattern, exception, reason] =
            rule.split('\t').collect::<Vec<_>>()[..]
        else {
            continue;
        };
        let mut sources = sources.iter().filter(|source| is_in(languages, source)).peekable();
        if of != angle || sources.peek().is_none() {
            continue;
        }
        let (pattern, exception) = (compile(pattern), compile(exception));
        for source in sources {
            let lines = hits(source, place, &pattern).into_iter();
            let lines = lines.filter(|(_, text)| matches(&exception, [*text]) == [false]);
            let lines = lines.map(|(number, _)| number).collect::<Vec<_>>();
            let left = lines.len().saturating_sub(SAME_CAP);
            for (left, line) in [0, 0, left].into_iter().zip(lines) {
                let more = if left > 0 { format!(" (and {left} more)") } else { String::new() };
                let path = source.path.escape_debug();
                findings.push(format!("- [{severity}] {path}:{line}: {reason}{more}"));
            }
        }
    }
    for source in sources {
        let more = match angle {
            "tests" => untested(source, sources, outputs).into_iter().collect(),
            "clarity" => long_functions(source),
            _ => Vec::new(),
        };
        let path = source.path.escape_debug();
        findings.extend(more.iter().map(|(line, text)| format!("- [low] {path}:{line}: {text}")));
    }
    findings
}

fn is_in(languages: &str, source: &Source<'_>) -> bool {
    let is_code = is_code(source.language);
    languages
        .split(' ')
        .any(|name| name == source.language || name == "*" || name == "code" && is_code)
}

fn compile(pattern: &str) -> RegexMatcher {
    RegexMatcher::new(pattern).expect("a test compiles every pattern")
}

/// The new lines of a file that hold a pattern where a rule looks for it.
fn hits<'a>(source: &'a Source<'_>, place: &str, pattern: &RegexMatcher) -> Vec<(u32, &'a str)> {
    let looked_at = source.added.iter().filter_map(|line| match place {
        "line" => Some((line.number, line.whole)),
        "test" if line.test => Some((line.number, &*line.code)),
        "code" if !line.test => Some((line.number, &line.code)),
        "text" if !line.test => Some((line.number, &line.text)),
        "comment" if !line.test => Some((line.number, &line.comment)),
        _ => None,
    });
    let looked_at = looked_at.collect::<Vec<_>>();
    let found = matches(pattern, looked_at.iter().map(|(_, text)| *text));
    looked_at.into_iter().zip(found).filter(|(_, found)| *found).map(|(line, _)| line).collect()
}

/// Tells for each text whether a pattern is in it.
fn matches<'a>(pattern: &RegexMatcher, texts: impl IntoIterator<Item = &'a str>) -> Vec<bool> {
    let texts = texts.into_iter().collect::<Vec<_>>();
    let mut found = vec![false; texts.len()];
    let sink = UTF8(|line, _| {
        found[usize::try_from(line).expect("lines fit memory") - 1] = true;
        Ok(true)
    });
    // Searching text in memory has nothing to fail at.
    let _ = Searcher::new().search_slice(pattern, texts.join("\n").as_bytes(), sink);
    found
}

/// New code that nothing beside it seems to test.
fn untested(
    source: &Source<'_>,
    sources: &[Source<'_>],
    outputs: &[(&Call, &Output)],
) -> Option<(u32, String)> {
    let stem = stem(source.path);
    let entry = ["main", "mod", "lib", "index", "__init__", "build", "setup"].contains(&stem);
    let named = |path: &str| is_test(path) && path.contains(stem);
    let tested = source.added.iter().any(|line| line.test)
        || source.lines.values().any(|line| line.contains("cfg(test)"))
        || sources.iter().any(|other| named(other.path))
        || outputs.iter().any(|(call, output)| match call.tool.as_str() {
            "Glob" => output.text.lines().any(named),
            _ => call.arguments.contains(source.path) && output.text.contains("cfg(test)"),
        });
    let new = source.added.iter().find(|line| is_head(&line.code, source.language))?;
    (!entry && !tested)
        .then(|| (new.number, format!("no test was found for this code of `{stem}`")))
}

/// Functions that the change touches and that are longer than they should be.
fn long_functions(source: &Source<'_>) -> Vec<(u32, String)> {
    let heads = source.lines.iter().filter(|(_, line)| is_head(line, source.language));
    let long = heads.filter_map(|(&start, head)| {
        let depth = indentation(head);
        let closes = |line: &str| indentation(line) == depth && line.trim_start().starts_with('}');
        let left =
            |line: &str| !line.is_empty() && indentation(line) <= depth && !line.contains("):");
        let is_python = source.language == "py";
        let mut after = source.lines.range(start + 1..);
        let (end, _) = after.find(|(_, line)| if is_python { left(line) } else { closes(line) })?;
        let touched = source.added.iter().find(|line| (start..*end).contains(&line.number))?;
        let known = source.lines.range(start..*end).count() == (end - start) as usize;
        let text = format!("the function from line {start} on has {} lines; split it", end - start);
        (known && !touched.test && end - start > FUNCTION_LINES).then_some((touched.number, text))
    });
    long.collect()
}

/// Tells whether a line begins a function.
fn is_head(line: &str, language: &str) -> bool {
    let mut words = line.split_whitespace().take_while(|word| !word.contains('='));
    let keyword = words.any(|word| ["fn", "def", "func", "function"].contains(&word));
    keyword && is_code(language) && !line.ends_with(';') && !line.trim_start().starts_with('/')
}
