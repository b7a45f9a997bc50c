//! Fits hunks into the bytes of a file.
//!
//! Each hunk is searched for after the previous one: exactly, then ignoring trailing
//! white space, then ignoring white space at both ends of lines, then ignoring the
//! differences between look-alike characters. A hunk that fits several places is refused.
//! Context lines keep the file's bytes, and new lines get the file's style.

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::patch::{Hunk, Line};
use crate::tool::edit::find::{BYTE_ORDER_MARK, only_crlf, overlapping};
use crate::tool::edit::forgive::{Leniency, plain_line};
use crate::tool::edit::indent::{IndentStyle, LinePair};
use crate::tool::edit::nearest::nearest_line;
use crate::tool::edit::rewrite::{LineOp, ResultLine, rewrite};

/// A file with the hunks in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fitted {
    /// What the file shall hold.
    pub(super) bytes: Vec<u8>,
    /// Where each hunk is, in the new bytes.
    pub(super) places: Vec<Place>,
}

/// Where a hunk went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its first line in the new bytes, from 1.
    pub(super) line: usize,
    /// How many lines it has there.
    pub(super) count: usize,
    /// Differences that were forgiven.
    pub(super) forgiven: Option<Leniency>,
}

/// Why a hunk, counted from 0, fits nowhere.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// Its lines do not stand behind the line `after` (0 for the whole file);
    /// so many of its first ones do at most, from the line `near` on. If none does,
    /// `near` is the line that is nearest to the first; 0 if none is near.
    Missing { hunk: usize, after: usize, matched: usize, near: usize },
    /// Its lines are at `line`, with other white space, and the indentation of `new` there is
    /// unknown.
    Unfit { hunk: usize, line: usize, new: String },
    /// Its lines stand at these lines.
    Several { hunk: usize, lines: Vec<usize> },
    /// It follows a line that is not there.
    Anchor { hunk: usize, anchor: String },
    /// Nothing says where its lines go.
    Nowhere { hunk: usize },
}

/// What of a line is compared.
type View = fn(&[u8]) -> Cow<'_, [u8]>;

/// Ways to compare lines, the strictest first, each with the differences that it forgives.
const VIEWS: [(View, Option<Leniency>); 4] = [
    (|line| Cow::Borrowed(line), None),
    (|line| Cow::Borrowed(line.trim_ascii_end()), Some(Leniency::Space)),
    (|line| Cow::Borrowed(line.trim_ascii()), Some(Leniency::Space)),
    (plain_line, Some(Leniency::Characters)),
];

/// A file as lines, and each line with its end.
struct File<'a> {
    lines: Vec<(&'a [u8], &'a [u8])>,
    /// True if all lines end with CRLF.
    is_crlf: bool,
    /// Its indentation; looked up once something is forgiven.
    style: OnceCell<Option<IndentStyle>>,
}

/// Puts hunks into a file.
pub(super) fn fit(before: &[u8], hunks: &[Hunk]) -> Result<Fitted, Misfit> {
    let mark = if before.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let file = File::of(&before[mark..]);
    let is_ended = file.lines.last().is_none_or(|(_, end)| !end.is_empty());
    let mut new: Vec<(Cow<'_, [u8]>, &[u8])> = Vec::new();
    let mut places = Vec::with_capacity(hunks.len());
    let mut next = 0;
    for (number, hunk) in hunks.iter().enumerate() {
        let Spot { line, forgiven } = file.find(number, hunk, next)?;
        let old = hunk.old().len();
        new.extend(file.lines[next..line].iter().map(|(text, end)| ((*text).into(), *end)));
        let start = new.len();
        file.put(hunk, line, &mut new).map_err(|text| Misfit::Unfit {
            hunk: number,
            line: line + 1,
            new: text,
        })?;
        places.push(Place { line: start + 1, count: new.len() - start, forgiven });
        next = line + old;
    }
    new.extend(file.lines[next..].iter().map(|(text, end)| ((*text).into(), *end)));
    let usual: &[u8] = if file.is_crlf { b"\r\n" } else { b"\n" };
    let mut bytes = before[..mark].to_vec();
    let count = new.len();
    for (at, (text, end)) in new.into_iter().enumerate() {
        bytes.extend_from_slice(&text);
        // A file whose last line has no end keeps it that way.
        let is_last = at + 1 == count;
        match (is_last, end.is_empty()) {
            (true, _) if !is_ended => {}
            (true | false, true) => bytes.extend_from_slice(usual),
            (true | false, false) => bytes.extend_from_slice(end),
        }
    }
    Ok(Fitted { bytes, places })
}

/// The line in front of which a hunk begins.
struct Spot {
    line: usize,
    forgiven: Option<Leniency>,
}

impl<'a> File<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let lines = bytes.split_inclusive(|&byte| byte == b'\n').map(|line| {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let text = if text.len() < line.len() {
                text.strip_suffix(b"\r").unwrap_or(text)
            } else {
                text
            };
            line.split_at(text.len())
        });
        Self { lines: lines.collect(), is_crlf: only_crlf(bytes), style: OnceCell::new() }
    }

    /// Returns where lines stand, from the line `next` on.
    fn places(&self, view: View, wanted: &[Cow<'_, [u8]>], next: usize) -> Vec<usize> {
        let seen = self.lines[next..].iter().map(|(text, _)| view(text));
        let mut places = overlapping(seen, wanted);
        places.iter_mut().for_each(|line| *line += next);
        places
    }

    /// Finds the only place of a hunk from the line `next` on.
    fn find(&self, number: usize, hunk: &Hunk, next: usize) -> Result<Spot, Misfit> {
        let starts = self.starts(number, hunk, next)?;
        let old = hunk.old();
        if old.is_empty() {
            let end = self.lines.len();
            return match starts[..] {
                _ if hunk.at_end || end == 0 => Ok(Spot { line: end, forgiven: None }),
                [start] if !hunk.anchors.is_empty() => Ok(Spot { line: start, forgiven: None }),
                [] | [_] => Err(Misfit::Nowhere { hunk: number }),
                [_, _, ..] => Err(Misfit::several(number, &starts)),
            };
        }
        for (view, forgiven) in VIEWS {
            let wanted: Vec<Cow<'_, [u8]>> = old.iter().map(|line| view(line.as_bytes())).collect();
            let mut found = self.places(view, &wanted, next);
            let end = self.lines.len();
            if hunk.at_end && found.last().is_some_and(|last| last + old.len() == end) {
                found = found.split_off(found.len() - 1);
            }
            if !hunk.anchors.is_empty() {
                // The first one behind each line that it may follow.
                found = firsts_behind(&starts, &found);
            }
            match found[..] {
                [] => {}
                [line] => return Ok(Spot { line, forgiven }),
                [_, _, ..] => return Err(Misfit::several(number, &found)),
            }
        }
        Err(self.missing(number, &old, next))
    }

    /// Returns the lines that stand behind a hunk's anchors.
    fn starts(&self, number: usize, hunk: &Hunk, next: usize) -> Result<Vec<usize>, Misfit> {
        let mut starts = vec![next];
        for (depth, anchor) in hunk.anchors.iter().enumerate() {
            let behind = VIEWS.into_iter().find_map(|(view, _)| {
                let wanted = view(anchor.as_bytes());
                let from = starts[0];
                let lines = self.lines[from..].iter().enumerate();
                let lines = lines.filter(|(_, (text, _))| view(text) == wanted);
                let mut behind: Vec<usize> = lines.map(|(line, _)| line + from).collect();
                if depth > 0 {
                    behind = firsts_behind(&starts, &behind);
                }
                behind.iter_mut().for_each(|line| *line += 1);
                (!behind.is_empty()).then_some(behind)
            });
            let gone = || Misfit::Anchor { hunk: number, anchor: anchor.clone() };
            starts = behind.ok_or_else(gone)?;
        }
        Ok(starts)
    }

    /// Says how much of a hunk there is.
    fn missing(&self, number: usize, old: &[&str], next: usize) -> Misfit {
        let wanted: Vec<Cow<'_, [u8]>> =
            old.iter().map(|line| plain_line(line.as_bytes())).collect();
        let first = |count: usize| {
            let places = self.places(plain_line, &wanted[..count], next);
            places.first().map(|line| line + 1)
        };
        // A beginning of what fits also fits, so halving finds the longest.
        let (mut fits, mut fails) = (0, old.len());
        while fits + 1 < fails {
            let count = fits + (fails - fits) / 2;
            match first(count) {
                Some(_) => fits = count,
                None => fails = count,
            }
        }
        let near = match fits {
            0 => {
                let lines = self.lines[next..].iter().map(|(text, _)| *text);
                nearest_line(lines, old[0]).map_or(0, |line| next + line + 1)
            }
            fits => first(fits).unwrap_or_default(),
        };
        Misfit::Missing { hunk: number, after: next, matched: fits, near }
    }

    /// Adds a hunk's lines, those that stay as they are in the file. The error is a new
    /// line of which nothing says how it is indented.
    fn put<'b>(
        &'b self,
        hunk: &'b Hunk,
        line: usize,
        new: &mut Vec<(Cow<'b, [u8]>, &'b [u8])>,
    ) -> Result<(), String> {
        let old = hunk.old();
        let real = &self.lines[line..line + old.len()];
        let mut ends = real.iter().map(|(_, end)| *end).filter(|end| !end.is_empty()).peekable();
        let is_crlf = self.is_crlf || (ends.peek().is_some() && ends.all(|end| end == b"\r\n"));
        let usual: &[u8] = if is_crlf { b"\r\n" } else { b"\n" };
        let ops = hunk.lines.iter().map(|line| match line {
            Line::Kept(_) => LineOp::Keep,
            Line::Removed(_) => LineOp::Remove,
            Line::Added(text) if is_crlf => {
                LineOp::Add(text.strip_suffix('\r').unwrap_or(text).as_bytes())
            }
            Line::Added(text) => LineOp::Add(text.as_bytes()),
        });
        let pairs = old.iter().zip(real);
        let pairs =
            pairs.map(|(written, real)| LinePair { written: written.as_bytes(), real: real.0 });
        let (pairs, ops): (Vec<LinePair<'_>>, Vec<LineOp<'_>>) = (pairs.collect(), ops.collect());
        let is_exact = pairs.iter().all(|pair| pair.written == pair.real);
        let look = || IndentStyle::of(self.lines.iter().map(|(text, _)| *text));
        let style = if is_exact { None } else { *self.style.get_or_init(look) };
        for row in rewrite(&pairs, &ops, style).map_err(|unfit| unfit.line)? {
            new.push(match row {
                ResultLine::Real(at) => (real[at].0.into(), real[at].1),
                ResultLine::New { line, replaced: Some(at) } => (line.into(), real[at].1),
                ResultLine::New { line, replaced: None } => (line.into(), usual),
            });
        }
        Ok(())
    }
}

/// Returns the first of `lines` that stands at or behind each start, each once.
/// Both are in rising order.
fn firsts_behind(starts: &[usize], lines: &[usize]) -> Vec<usize> {
    let behind = |start: &usize| lines.get(lines.partition_point(|line| line < start)).copied();
    let mut firsts: Vec<usize> = starts.iter().filter_map(behind).collect();
    firsts.dedup();
    firsts
}

impl Misfit {
    fn several(hunk: usize, lines: &[usize]) -> Self {
        Self::Several { hunk, lines: lines.iter().map(|line| line + 1).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::{FilePatch, Patch};

    fn hunks(body: &str) -> Vec<Hunk> {
        let text = format!("*** Begin Patch\n*** Update File: a\n{body}\n*** End Patch");
        match Patch::parse(&text).unwrap().files() {
            [FilePatch::Update { hunks, .. }] => hunks.clone(),
            files => panic!("{files:?}"),
        }
    }

    #[track_caller]
    fn check(before: &str, body: &str, after: &str) {
        let fitted = fit(before.as_bytes(), &hunks(body)).unwrap();
        assert_eq!(String::from_utf8(fitted.bytes).unwrap(), after);
    }

    #[track_caller]
    fn check_misfit(before: &str, body: &str, expected: Misfit) {
        assert_eq!(fit(before.as_bytes(), &hunks(body)), Err(expected));
    }

    #[test]
    fn hunks_go_where_their_lines_stand_one_behind_the_other() {
        check("a\nb\nc\nd\n", "@@\n a\n-b\n+x\n+y\n@@\n-d", "a\nx\ny\nc\n");
        // The second place of `a` is behind the first hunk.
        check("a\nb\na\nc\n", " a\n-b\n@@\n-a", "a\nc\n");
        check("a\n", "-a", "");
        check("a\nb\n", "-b\n+c\n*** End of File", "a\nc\n");
    }

    #[test]
    fn an_anchor_tells_places_apart() {
        let before = "fn a() {\n  x\n}\nfn b() {\n  x\n}\n";
        check(before, "@@ fn b() {\n-  x\n+  y", "fn a() {\n  x\n}\nfn b() {\n  y\n}\n");
        check(before, "@@ fn a() {\n+  w", "fn a() {\n  w\n  x\n}\nfn b() {\n  x\n}\n");
        let nested = "mod m\n  fn a\n    x\nmod n\n  fn a\n    x\n";
        check(nested, "@@ mod n\n@@ fn a\n-    x", "mod m\n  fn a\n    x\nmod n\n  fn a\n");
        let anchor = "fn c() {".to_owned();
        check_misfit(before, "@@ fn c() {\n-  x", Misfit::Anchor { hunk: 0, anchor });
        let several = Misfit::Several { hunk: 0, lines: vec![3, 6] };
        check_misfit(nested, "@@ fn a\n-    x", several);
    }

    #[test]
    fn anchors_that_stand_everywhere_are_followed_in_no_time() {
        // Each with each, these would be 10^10 comparisons.
        let before = "a\nb\n".repeat(100_000);
        let lines = (0..100_000).map(|pair| 2 * pair + 2).collect();
        check_misfit(&before, "@@ a\n-b", Misfit::Several { hunk: 0, lines });
        let lines = (1..100_000).map(|pair| 2 * pair + 1).collect();
        check_misfit(&before, "@@ a\n@@ b\n-a", Misfit::Several { hunk: 0, lines });
        assert_eq!(firsts_behind(&[0, 1, 2, 5, 9], &[1, 4, 5, 6]), [1, 4, 5]);
    }

    #[test]
    fn what_ends_a_file_and_what_is_empty_needs_no_lines_around_it() {
        check("a\n", "@@\n+b\n*** End of File", "a\nb\n");
        check("a", "@@\n+b\n*** End of File", "a\nb");
        check("", "@@\n+b", "b\n");
        check("x\na\nx\n", "-x\n+y\n*** End of File", "x\na\ny\n");
        check_misfit("a\n", "@@\n+b", Misfit::Nowhere { hunk: 0 });
    }

    #[test]
    fn white_space_is_forgiven_and_lines_that_stay_are_the_files_own() {
        check("\ta  \n\tb\n", " a\n-b\n+c", "\ta  \n\tc\n");
        check("  a \nb\n", "   a\n-b\n+c", "  a \nc\n");
        let exact = fit(b"a\n a\n", &hunks("-a\n+b")).unwrap();
        assert_eq!(exact.places, [Place { line: 1, count: 1, forgiven: None }]);
        let forgiven = fit(b" a\n", &hunks("-a\n+b")).unwrap();
        assert_eq!(forgiven.places, [Place { line: 1, count: 1, forgiven: Some(Leniency::Space) }]);
    }

    #[test]
    fn new_lines_are_indented_as_the_file_is_or_nothing_is_written() {
        let file = "class A:\n\tdef f(self):\n\t\treturn 1\n";
        check(
            file,
            "     def f(self):\n-        return 1\n+        if x:\n+            return 2",
            "class A:\n\tdef f(self):\n\t\tif x:\n\t\t\treturn 2\n",
        );
        check("all:\n\tcc a\n", " all:\n-    cc a\n+    cc b\n+    ld", "all:\n\tcc b\n\tld\n");
        check("a:\n    b\n", " a:\n-\tb\n+\tc\n+\t\td", "a:\n    c\n        d\n");
        // With `y`, nothing says how many spaces one level has.
        let misfit = Misfit::Unfit { hunk: 0, line: 2, new: "z".to_owned() };
        check_misfit(file, "-    def f(self):\n+    x\n+        z\n+       y", misfit);
    }

    #[test]
    fn characters_that_look_alike_are_forgiven_and_stay() {
        check(
            "a\u{a0}b\nsay \u{201c}hi\u{201d}\n",
            " a b\n-say \"hi\"\n+say \"ho\"",
            "a\u{a0}b\nsay \u{201c}ho\u{201d}\n",
        );
        check("cafe\u{301}\r\nx\r\n", "@@ caf\u{e9}\n-x\n+y", "cafe\u{301}\r\ny\r\n");
        check("mixed\nb\r\n", "-b\n+x", "mixed\nx\r\n");
        let fitted = fit("a\u{200b}\n".as_bytes(), &hunks("-a\n+b")).unwrap();
        assert_eq!(fitted.places[0].forgiven, Some(Leniency::Characters));
        let near = Misfit::Missing { hunk: 0, after: 0, matched: 0, near: 2 };
        check_misfit("x\nprintln(one)\n", "-printline(one)\n+y", near);
    }

    #[test]
    fn line_ends_marks_and_other_encodings_survive() {
        check("a\r\nb\r\n", " a\n-b\n+c\n+d", "a\r\nc\r\nd\r\n");
        check("a\nb\r\nc\n", "-b\n+x", "a\nx\r\nc\n");
        check("\u{feff}a\nb", "-a\n+x", "\u{feff}x\nb");
        let fitted = fit(b"caf\xE9\nb\n\x93\n", &hunks("-b\n+x")).unwrap();
        assert_eq!(fitted.bytes, b"caf\xE9\nx\n\x93\n");
    }

    #[test]
    fn what_fits_nowhere_or_in_several_places_is_said() {
        check_misfit("a\nb\na\n", "-a", Misfit::Several { hunk: 0, lines: vec![1, 3] });
        let missing = Misfit::Missing { hunk: 0, after: 0, matched: 2, near: 2 };
        check_misfit("x\na\nb\nc\n", " a\n b\n-d", missing);
        let behind = Misfit::Missing { hunk: 1, after: 2, matched: 0, near: 0 };
        check_misfit("a\nb\n", "-b\n@@\n-a", behind);
    }
}
