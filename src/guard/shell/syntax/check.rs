//! What the grammar says, held against the text itself.
//!
//! tree-sitter takes `$'a\\'; rm x; echo '` for one word and `r\⏎m` for two.
//! Where a reading is not plain, the script says so, and is not believed.

use std::ops::Range;

use tree_sitter::Node;

use super::{Joint, Script, Simple, Word, word};

/// Checks that between the words of every command is white space and nothing
/// else, and between two commands of a list just what parts them.
pub(super) fn gaps(source: &str, script: &mut Script) {
    let mut unsure = None;
    for simple in &script.commands {
        if !is_well_spaced(source, simple) {
            unsure = Some("it is not plain where a word ends");
        }
    }
    if script.compound.is_none() {
        let mut end = 0;
        for (index, simple) in script.commands.iter().enumerate() {
            let joint = (index > 0).then_some(simple.joint);
            if !parts(&between(source, end..simple.range.start), joint) {
                unsure = Some("it is not plain where a command ends");
            }
            end = simple.range.end;
        }
        let last = between(source, end..source.len());
        if !matches!(last.as_str(), "" | "\n" | ";" | ";\n") {
            unsure = Some("it is not plain where the last command ends");
        }
    }
    if let Some(unsure) = unsure {
        script.unsure.get_or_insert_with(|| unsure.to_owned());
    }
}

fn is_well_spaced(source: &str, simple: &Simple) -> bool {
    let words = simple.assignments.iter().chain(simple.words.iter().map(|word| &word.range));
    let mut items: Vec<(&Range<usize>, bool)> = words.map(|range| (range, true)).collect();
    items.extend(simple.redirections.iter().map(|redirection| (&redirection.range, false)));
    items.sort_by_key(|(range, _)| range.start);
    let inside = items.first().is_none_or(|(first, _)| first.start == simple.range.start)
        && items.iter().map(|(range, _)| range.end).max().is_none_or(|end| end == simple.range.end);
    inside
        && items.windows(2).all(|pair| {
            let [(before, _), (behind, is_word)] = pair else { return true };
            let Some(gap) = source.get(before.end..behind.start) else { return false };
            is_blank(gap) || gap.is_empty() && !is_word && begins_by_itself(source, behind.start)
        })
}

/// Tells whether a redirection without a space before it belongs to no word:
/// to bash `a2>file` redirects the output of `a2`, and `{a}>file` sets `a`.
fn begins_by_itself(source: &str, at: usize) -> bool {
    source[at..].starts_with(['<', '>', '&'])
        && !source[..at].ends_with(|c: char| c == '}' || c.is_ascii_digit())
}

/// Tells whether a text parts two words and nothing more.
fn is_blank(gap: &str) -> bool {
    let without_continuations = gap.replace("\\\n", "");
    !without_continuations.is_empty()
        && without_continuations.chars().all(|c| c == ' ' || c == '\t')
}

fn parts(between: &str, joint: Option<Joint>) -> bool {
    let operator = match joint {
        None => return matches!(between, "" | "\n"),
        Some(Joint::Then) => return matches!(between, ";" | "\n" | ";\n"),
        Some(Joint::And) => "&&",
        Some(Joint::Or) => "||",
        Some(Joint::Pipe) => "|",
        Some(Joint::PipeBoth) => "|&",
        Some(Joint::Background) => "&",
    };
    between.strip_prefix(operator).is_some_and(|rest| rest.is_empty() || rest == "\n")
}

/// Returns what is left of a gap without white space and comments; the ends of
/// its lines become one. Commands that overlap have no gap.
fn between(source: &str, gap: Range<usize>) -> String {
    // Behind a word `#` begins no comment, at the start of a line it does.
    let mut is_at_word = gap.start > 0;
    let Some(gap) = source.get(gap) else { return "overlap".to_owned() };
    let mut left = String::new();
    for (number, line) in gap.replace("\\\n", " ").split('\n').enumerate() {
        if number > 0 && !left.ends_with('\n') {
            left.push('\n');
        }
        let comment = line
            .match_indices('#')
            .map(|(at, _)| at)
            .find(|&at| line[..at].ends_with([' ', '\t', ';', '&', '|']) || at == 0 && !is_at_word);
        left.extend(line[..comment.unwrap_or(line.len())].chars().filter(|c| !" \t".contains(*c)));
        is_at_word = false;
    }
    left
}

/// Checks that a comment begins where bash lets one begin.
pub(super) fn comment(source: &str, start: usize) -> Result<(), &'static str> {
    let before = source[..start].chars().next_back();
    if before.is_none_or(|c| " \t\n;&|()".contains(c)) {
        Ok(())
    } else {
        Err("it is not plain where a comment begins")
    }
}

/// Checks that `$'…'` ends at its first quote that no backslash covers.
pub(super) fn ansi_string(text: &str) -> Result<(), &'static str> {
    let mut escaped = false;
    let end = text.char_indices().skip(2).find(|&(_, c)| {
        let ends = c == '\'' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    if end.is_some_and(|(at, _)| at + 1 == text.len()) {
        Ok(())
    } else {
        Err("it is not plain where `$'` ends")
    }
}

/// Checks that a text in double quotes ends at its first quote that is neither
/// covered by a backslash nor inside a substitution.
pub(super) fn string(source: &str, node: Node<'_>) -> Result<(), &'static str> {
    let mut inner: Vec<Range<usize>> = node
        .named_children(&mut node.walk())
        .filter(|child| child.kind() != "string_content")
        .map(|child| child.byte_range())
        .collect();
    inner.sort_by_key(|range| range.start);
    let bytes = source.as_bytes();
    let mut at = node.start_byte() + 1;
    while at < node.end_byte() {
        if let Some(range) = inner.iter().find(|range| range.start == at) {
            at = range.end.max(at + 1);
            continue;
        }
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => break,
            _ => at += 1,
        }
    }
    if at + 1 == node.end_byte() { Ok(()) } else { Err("it is not plain where a quote ends") }
}

/// Checks the text of a node in which quotes are not followed: an expansion,
/// arithmetic, a pattern.
pub(super) fn unquoted(text: &str) -> Result<(), &'static str> {
    if text.contains(['\'', '"', '\\', '\n', ';']) {
        Err("an expansion in it holds quotes")
    } else {
        Ok(())
    }
}

/// Checks a word that the grammar takes to be without quotes.
pub(super) fn bare(text: &str) -> Result<(), &'static str> {
    let mut escaped = false;
    for c in text.chars() {
        if !escaped && "'\"`$ \t\n;&|<>()".contains(c) && text != "$" {
            return Err("it is not plain where a word ends");
        }
        escaped = c == '\\' && !escaped;
    }
    Ok(())
}

/// Splits a text without expansions or operators into words; none if there is
/// anything else in it.
pub(super) fn words(source: &str, range: Range<usize>) -> Vec<Word> {
    let mut words = Vec::new();
    let (mut start, mut quote, mut escaped) = (None, None, false);
    let text = &source[range.clone()];
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        let is_end = quote.is_none() && !escaped && (c == ' ' || c == '\t');
        if is_end {
            if let Some(start) = start.take() {
                let word = range.start + start..range.start + at;
                let literal = word::literal(&source[word.clone()]);
                words.push(Word { range: word, literal });
            }
            continue;
        }
        if quote.is_none() && !escaped && ";&|<>()\n".contains(c) {
            return Vec::new();
        }
        start.get_or_insert(at);
        match quote {
            None if c == '\'' || c == '"' => quote = Some(c).filter(|_| !escaped),
            Some(open) if c == open && !escaped => quote = None,
            Some(_) | None => {}
        }
        escaped = c == '\\' && !escaped && quote != Some('\'');
    }
    if quote.is_some() { Vec::new() } else { words }
}

/// Checks that a here-document ends at the first line that is its word.
pub(super) fn document(source: &str, node: Node<'_>) -> Result<(), &'static str> {
    let wrong = Err("it is not plain where a document ends");
    let part = |kind: &str| node.children(&mut node.walk()).find(|child| child.kind() == kind);
    let (Some(start), Some(end)) = (part("heredoc_start"), part("heredoc_end")) else {
        return wrong;
    };
    let Some(word) = word::literal(&source[start.byte_range()]) else { return wrong };
    let first_line = source[start.end_byte()..].split('\n').next().unwrap_or_default();
    // A second document, or a line that goes on inside quotes.
    if first_line.contains("<<") || first_line.contains(['\'', '"', '\\', '`', '(']) {
        return wrong;
    }
    let is_indented = source[node.start_byte()..start.start_byte()].contains("<<-");
    let mut at = start.end_byte() + first_line.len() + 1;
    for line in source.get(at..).unwrap_or_default().split('\n') {
        let text = if is_indented { line.trim_start_matches('\t') } else { line };
        if text == word {
            let is_there = at + line.len() == end.end_byte() && end.start_byte() >= at;
            return if is_there { Ok(()) } else { wrong };
        }
        if !is_quoted(source, node) && line.ends_with('\\') {
            return wrong;
        }
        at += line.len() + 1;
    }
    wrong
}

/// Tells whether a here-document's word is quoted, so that nothing in its body
/// is expanded.
pub(super) fn is_quoted(source: &str, node: Node<'_>) -> bool {
    node.children(&mut node.walk())
        .find(|child| child.kind() == "heredoc_start")
        .is_some_and(|start| source[start.byte_range()].contains(['\'', '"', '\\']))
}
