//! Which blocks a text in Markdown has at its top, and where a paragraph can be
//! cut.
//!
//! Nothing is drawn here: `inline` does that, of the pieces that `prose` cuts.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use super::inline;

/// How far back what opened and did not close is believed to close.
const PATIENCE: usize = 500;

/// A block at the top of a text.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) kind: Kind,
    /// From the beginning of its first line.
    pub(super) range: Range<usize>,
    /// Where its items begin, if it is a list.
    pub(super) items: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Paragraph,
    /// A heading or a rule: it ends with its line.
    Line,
    Fence(String),
    Indented,
    List(Option<u64>),
    Table,
    /// A quote, HTML.
    Other,
    /// What Markdown does not show: where its references lead.
    Hidden,
}

/// Returns the blocks at the top of a text, and what stands between them.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let line_of = |at: usize| text[..at].rfind('\n').map_or(0, |end| end + 1);
    let mut found: Vec<Block> = Vec::new();
    let mut depth = 0_usize;
    let mut end = 0;
    for (event, range) in Parser::new_ext(text, inline::OPTIONS).into_offset_iter() {
        let begins = matches!(event, Event::Start(_)) || (depth == 0 && event == Event::Rule);
        if depth == 0 && begins {
            let from = line_of(range.start).max(end);
            hidden(text, end..from, &mut found);
            let kind = kind(&event);
            end = range.end.max(from);
            found.push(Block { kind, range: from..end, items: Vec::new() });
        }
        match event {
            Event::Start(Tag::Item) if depth == 1 => {
                if let Some(block) = found.last_mut() {
                    block.items.push(line_of(range.start));
                }
                depth += 1;
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            Event::Text(_)
            | Event::Code(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::Html(_)
            | Event::InlineHtml(_)
            | Event::FootnoteReference(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::Rule
            | Event::TaskListMarker(_) => {}
        }
    }
    hidden(text, end..text.len(), &mut found);
    found
}

fn hidden(text: &str, range: Range<usize>, found: &mut Vec<Block>) {
    if !text[range.clone()].trim().is_empty() {
        found.push(Block { kind: Kind::Hidden, range, items: Vec::new() });
    }
}

fn kind(event: &Event<'_>) -> Kind {
    let Event::Start(tag) = event else { return Kind::Line };
    if let Tag::CodeBlock(CodeBlockKind::Fenced(language)) = tag {
        return Kind::Fence(language.to_string());
    }
    if let Tag::List(first) = tag {
        return Kind::List(*first);
    }
    if matches!(tag, Tag::Paragraph) {
        Kind::Paragraph
    } else if matches!(tag, Tag::Heading { .. }) {
        Kind::Line
    } else if matches!(tag, Tag::CodeBlock(_)) {
        Kind::Indented
    } else if matches!(tag, Tag::Table(_)) {
        Kind::Table
    } else {
        Kind::Other
    }
}

/// Returns a line of indented code without its indent; `None` if it has none.
pub(super) fn unindented(line: &str) -> Option<&str> {
    let mut columns = 0;
    for (at, character) in line.char_indices() {
        match character {
            _ if columns >= 4 => return Some(&line[at..]),
            ' ' => columns += 1,
            '\t' => columns += 4 - columns % 4,
            _ => return None,
        }
    }
    None
}

/// Returns the last blank of a paragraph, not behind `limit`, at which nothing
/// is open that may still close.
pub(super) fn balanced_end(text: &str, limit: usize) -> Option<usize> {
    let mut open: Vec<(char, usize, usize)> = Vec::new();
    let mut found = None;
    let mut before = ' ';
    let mut rest = text.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        if at > limit {
            break;
        }
        open.retain(|(_, _, since)| limit - since <= PATIENCE);
        let is_in_code = open.last().is_some_and(|(mark, ..)| *mark == '`');
        match character {
            '\\' if !is_in_code => {
                rest.next();
            }
            ' ' | '\n' if open.is_empty() && !matches!(before, ' ' | '\n' | '\\') => {
                let is_followed = rest.peek().is_some_and(|(_, next)| !next.is_whitespace());
                found = if is_followed { Some(at) } else { found };
            }
            '`' | '*' | '_' | '~' if character == '`' || !is_in_code => {
                let mut length = 1;
                while rest.next_if(|(_, next)| *next == character).is_some() {
                    length += 1;
                }
                let is_before_blank = rest.peek().is_none_or(|(_, next)| next.is_whitespace());
                let matching = |(mark, wanted, _): &(char, usize, usize)| {
                    (*mark, *wanted) == (character, length)
                };
                match open.iter().rposition(matching) {
                    Some(opener) => open.truncate(opener),
                    None if is_in_code || (character != '`' && is_before_blank) => {}
                    None => open.push((character, length, at)),
                }
            }
            '[' | '(' | '<' if !is_in_code => open.push((character, 1, at)),
            ']' | ')' | '>' if !is_in_code => {
                let opening = [(']', '['), (')', '('), ('>', '<')];
                let opening = opening.into_iter().find(|(closing, _)| *closing == character);
                let opener =
                    |(mark, ..): &(char, usize, usize)| Some(*mark) == opening.map(|o| o.1);
                if let Some(opener) = open.iter().rposition(opener) {
                    open.truncate(opener);
                }
            }
            _ => {}
        }
        before = character;
    }
    found
}
