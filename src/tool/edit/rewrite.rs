//! Replaces matched lines by new ones in the file's style.
//!
//! A near match proves what the lines mean, not how they are to be written. So all text
//! that the model does not change keeps the file's bytes, and new lines get the file's
//! indentation. If the indentation is unknown, nothing is changed.

use std::collections::VecDeque;

use super::indent::{IndentStyle, Indents, LinePair, indentation, is_blank};
use crate::look_alike::merged;

/// One step of rewriting matched lines, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tool) enum LineOp<'a> {
    /// Keeps the next matched line.
    Keep,
    /// Removes the next matched line.
    Remove,
    /// Adds this line.
    Add(&'a [u8]),
}

/// One line of the result.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::tool) enum ResultLine {
    /// The matched line with this index.
    Real(usize),
    /// A new line, without its end.
    New {
        line: Vec<u8>,
        /// The matched line in whose place it comes.
        replaced: Option<usize>,
    },
}

/// A new line of which nothing says how the file indents it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tool) struct UnknownIndent {
    pub(in crate::tool) line: String,
}

/// Carries out what becomes of the matched lines. `style` is how the file is indented
/// elsewhere.
pub(in crate::tool) fn rewrite<'a>(
    pairs: &[LinePair<'a>],
    ops: &[LineOp<'a>],
    style: Option<IndentStyle>,
) -> Result<Vec<ResultLine>, UnknownIndent> {
    let is_exact = pairs.iter().all(|pair| pair.written == pair.real);
    let added = ops.iter().filter_map(|op| match *op {
        LineOp::Add(line) => Some(line),
        LineOp::Keep | LineOp::Remove => None,
    });
    let indents = Indents::learn(pairs, added, style);
    let (mut rows, mut removed, mut next) = (Vec::with_capacity(ops.len()), VecDeque::new(), 0);
    for op in ops {
        match *op {
            LineOp::Keep => {
                rows.push(ResultLine::Real(next));
                removed.clear();
                next += 1;
            }
            LineOp::Remove => {
                removed.push_back(next);
                next += 1;
            }
            LineOp::Add(line) => {
                let replaced = removed.pop_front();
                let line = match is_exact || is_blank(line) {
                    true => line.to_vec(),
                    false => fitted(&indents, line, replaced.map(|at: usize| &pairs[at]))?,
                };
                rows.push(ResultLine::New { line, replaced });
            }
        }
    }
    Ok(rows)
}

/// Returns a new line in the file's style.
fn fitted(
    indents: &Indents<'_>,
    line: &[u8],
    replaced: Option<&LinePair<'_>>,
) -> Result<Vec<u8>, UnknownIndent> {
    let unfit = || UnknownIndent { line: String::from_utf8_lossy(line.trim_ascii()).into_owned() };
    let mut new = indents.fit(line, replaced).ok_or_else(unfit)?;
    let text = &line[indentation(line).len()..];
    let texts = replaced.map(|pair| (pair.written.trim_ascii(), pair.real.trim_ascii()));
    match texts {
        Some((old, real)) if old != real => {
            let [old, text] = [old, text].map(String::from_utf8_lossy);
            new.extend(merged(&old, &text, real));
        }
        Some(_) | None => new.extend_from_slice(text),
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair<'a>(written: &'a str, real: &'a str) -> LinePair<'a> {
        LinePair { written: written.as_bytes(), real: real.as_bytes() }
    }

    fn new(line: &str, replaced: Option<usize>) -> ResultLine {
        ResultLine::New { line: line.into(), replaced }
    }

    #[test]
    fn lines_that_stay_are_the_files_own_and_new_ones_are_indented_as_it_is() {
        let pairs = [pair("if x:", "\tif x:  "), pair("    y(\"a\")", "\t\ty(\u{201c}a\u{201d})")];
        let ops = [
            LineOp::Keep,
            LineOp::Remove,
            LineOp::Add(b"    z(\"a\")"),
            LineOp::Add(b"        w()"),
        ];
        let quoted = new("\t\tz(\u{201c}a\u{201d})", Some(1));
        let expected = vec![ResultLine::Real(0), quoted, new("\t\t\tw()", None)];
        assert_eq!(rewrite(&pairs, &ops, None), Ok(expected));
    }

    #[test]
    fn a_line_takes_the_indentation_of_the_one_it_replaces() {
        let pairs = [pair("a", "a"), pair("b", "  b")];
        let ops = [LineOp::Keep, LineOp::Remove, LineOp::Add(b"c")];
        assert_eq!(rewrite(&pairs, &ops, None), Ok(vec![ResultLine::Real(0), new("  c", Some(1))]));
        let ops = [LineOp::Keep, LineOp::Keep, LineOp::Add(b"c")];
        assert_eq!(rewrite(&pairs, &ops, None), Err(UnknownIndent { line: "c".to_owned() }));
    }

    #[test]
    fn lines_that_match_exactly_change_nothing_of_what_was_written() {
        let pairs = [pair("\ta", "\ta")];
        let ops = [LineOp::Remove, LineOp::Add(b"   b")];
        assert_eq!(rewrite(&pairs, &ops, None), Ok(vec![new("   b", Some(0))]));
    }
}
