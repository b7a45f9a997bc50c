//! How much a text of a flow may have for the template engine to read.
//!
//! The engine goes down a chain of operators (`a.b.c…`, `1 + 1 + …`) by
//! recursion and has no bound of its own on it: some thousand of them take a
//! thread's whole stack, and the process with it. So each piece between two
//! marks, where such a chain has to stand, is kept short, and so is the one
//! chain that runs through several pieces, that of `{% elif %}`.

use super::error::TextError;

/// Most bytes of an expression, or of what stands between two marks of a
/// template. People write a hundred. A thread of the pool has 2 MB of stack,
/// of which the longest chain that fits here takes a good half in a debug build.
pub(super) const PIECE_CAP: usize = 1_000;

/// Most `{% elif %}` of one template. Each stands in the one before.
pub(super) const ELIF_CAP: usize = 200;

/// Checks that an expression is no longer than can be read.
pub(super) fn check_expression(source: &str) -> Result<(), TextError> {
    check_piece(source.len())
}

/// Checks that no piece of a template is longer than can be read.
pub(super) fn check_template(source: &str) -> Result<(), TextError> {
    let mut elifs = 0;
    for Piece { text, is_block, behind } in pieces(source) {
        let word = trimmed(text);
        if is_block && word == "raw" {
            // What is in it is nobody's code, but not everybody agrees where it
            // ends; whoever shows templates to agents shows short ones.
            return check_raw(behind);
        }
        check_piece(text.len())?;
        elifs += usize::from(is_block && word.starts_with("elif"));
        if elifs > ELIF_CAP {
            return Err(TextError::TooManyElifs);
        }
    }
    Ok(())
}

/// What stands between two marks of a template.
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    is_block: bool,
    /// What follows the second mark.
    behind: &'a str,
}

impl<'a> Piece<'a> {
    /// Returns what a block of this name says, such as `{% filter upper %}`.
    pub(super) fn said_to(&self, block: &str) -> Option<&'a str> {
        let behind = trimmed(self.text).strip_prefix(block).filter(|_| self.is_block)?;
        behind.starts_with(char::is_whitespace).then(|| behind.trim_start())
    }
}

/// Returns the pieces of a template, up to a `{% raw %}`: what follows that is for
/// the engine to tell.
pub(super) fn pieces(source: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = source;
    std::iter::from_fn(move || {
        loop {
            let (mark, behind) = next_mark(rest)?;
            let (text, behind) = match mark {
                Mark::Comment => {
                    // Left open it is an error that the engine tells of.
                    rest = behind.split_once("#}").map_or("", |(_, behind)| behind);
                    continue;
                }
                Mark::Block => up_to(behind, "%}"),
                Mark::Variable => up_to(behind, "}}"),
            };
            let is_block = mark == Mark::Block;
            rest = if is_block && trimmed(text) == "raw" { "" } else { behind };
            return Some(Piece { text, is_block, behind });
        }
    })
}

/// Returns a piece without what keeps white space, and white space.
fn trimmed(piece: &str) -> &str {
    piece.trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '+'))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Variable,
    Block,
    Comment,
}

/// Finds the next opening mark, and what follows it.
fn next_mark(text: &str) -> Option<(Mark, &str)> {
    let mut from = 0;
    while let Some(at) = text[from..].find('{').map(|at| from + at) {
        let mark = match text.as_bytes().get(at + 1) {
            Some(b'{') => Some(Mark::Variable),
            Some(b'%') => Some(Mark::Block),
            Some(b'#') => Some(Mark::Comment),
            Some(_) | None => None,
        };
        if let Some(mark) = mark {
            return Some((mark, &text[at + 2..]));
        }
        from = at + 1;
    }
    None
}

/// Cuts a text where a piece ends, as the engine does: not in a string, and not
/// while a bracket is open.
fn up_to<'a>(text: &'a str, end: &str) -> (&'a str, &'a str) {
    let bytes = text.as_bytes();
    let (mut at, mut open) = (0, 0_i64);
    while at < bytes.len() {
        if open == 0 && bytes[at..].starts_with(end.as_bytes()) {
            return (&text[..at], &text[at + end.len()..]);
        }
        match bytes[at] {
            quote @ (b'\'' | b'"') => at = string_end(bytes, at, quote),
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open -= 1,
            _ => {}
        }
        at += 1;
    }
    (text, "")
}

/// Returns where the string ends that begins here.
pub(super) fn string_end(bytes: &[u8], begin: usize, quote: u8) -> usize {
    let mut at = begin + 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at
}

/// Checks what stands behind `{% raw %}`, up to the template's end, as if all
/// of it were code.
fn check_raw(text: &str) -> Result<(), TextError> {
    let marks = |text: &str| text.contains("{{") || text.contains("{%");
    // All that can follow is its end, and then no code at all.
    let is_plain = text.split_once("endraw").is_some_and(|(_, behind)| {
        behind.split_once("%}").is_some_and(|(_, behind)| !marks(behind))
    });
    if is_plain { Ok(()) } else { check_piece(text.len()) }
}

fn check_piece(length: usize) -> Result<(), TextError> {
    match length {
        length if length > PIECE_CAP => Err(TextError::PieceTooLong { length }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Expression, Wording};

    fn check(source: &str, expected: Result<(), TextError>) {
        assert_eq!(check_template(source), expected, "{source:.80}");
    }

    #[test]
    fn texts_as_people_write_them_are_read() {
        let long = "words { and } braces ".repeat(10_000);
        check(&long, Ok(()));
        check(&format!("{long}{{{{ inputs.a }}}}{long}"), Ok(()));
        check(&"{{ steps.a.items[0] }}\n".repeat(10_000), Ok(()));
        check("{% raw %}{{ shown }}{% endraw %} and no more", Ok(()));
        check(&format!("{{# {long} #}}"), Ok(()));
    }

    #[test]
    fn no_string_bracket_or_comment_hides_a_long_piece() {
        let chain = "+1".repeat(PIECE_CAP);
        for hidden in [
            format!("{{{{ 1{chain} }}}}"),
            format!("{{% if 1{chain} %}}{{% endif %}}"),
            format!("{{{{ '}}}}' ~ \"\\\"}}}}\" ~ 1{chain} }}}}"),
            format!("{{{{ {{'a': {{}}}} ~ 1{chain} }}}}"),
            format!("{{# {{{{ #}}{{{{ 1{chain} }}}}"),
            format!("{{%- raw -%}} {{# {{%- endraw -%}}{{{{ 1{chain} }}}}"),
            format!("{{% raw %}}endraw %}} {{# {{% endraw %}}{{{{ 1{chain} }}}}"),
        ] {
            let found = check_template(&hidden);
            assert!(
                matches!(found, Err(TextError::PieceTooLong { .. })),
                "{found:?}: {hidden:.60}"
            );
        }
        let elifs = format!("{{% if a %}}{}{{% endif %}}", "{%- elif a %}".repeat(ELIF_CAP + 1));
        check(&elifs, Err(TextError::TooManyElifs));
    }

    #[test]
    fn the_longest_chains_fit_a_threads_stack() {
        let chains = ["+1", ".b", "|d", "~''", " if a", "[0]", "()", " is b", " and a"];
        let around = |unit: &str| unit.repeat((PIECE_CAP - 10) / unit.len());
        let mut texts: Vec<_> = chains.iter().map(|unit| format!("a{}", around(unit))).collect();
        texts.extend(["not ", "-", "(", "[", "{1:"].map(|unit| format!("{}a", around(unit))));
        for text in texts {
            // Whether it is right is not what this is about.
            let _ = Expression::parse(&*text);
            let _ = Wording::parse(format!("{{{{ {text} }}}}"));
            let _ = Wording::parse(format!("{{% if {text} %}}{{% endif %}}"));
        }
        let elifs = format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(ELIF_CAP));
        assert!(Wording::parse(elifs).is_ok());
    }
}
