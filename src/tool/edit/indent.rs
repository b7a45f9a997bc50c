//! The indentation of new lines: the model's, converted to the file's style.
//!
//! The matched lines show how the file writes each indentation that the model wrote. An
//! indentation that none of them has is computed from a known one by adding or removing
//! levels. If that is not possible, the indentation is unknown; it is never guessed.

use std::collections::BTreeMap;

/// Widest indentation of one level, in spaces.
const UNIT_CAP: usize = 8;

/// Usual widths of a level. A line that is off by another width is aligned to something.
const UNITS: [usize; 4] = [2, 3, 4, UNIT_CAP];

/// Characters that a file writes for one level of indentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tool) enum IndentStyle {
    /// One tab each.
    Tabs,
    /// This many spaces each; `None` if the number is unknown.
    Spaces(Option<usize>),
}

impl IndentStyle {
    /// Returns how most of the lines are indented; `None` if none is.
    pub(in crate::tool) fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let (mut tabs, mut spaces) = (0_usize, 0_usize);
        let mut steps: BTreeMap<usize, usize> = BTreeMap::new();
        let mut before: Option<usize> = None;
        for line in lines.filter(|line| !is_blank(line)) {
            let indentation = indentation(line);
            match indentation.first() {
                Some(b'\t') => tabs += 1,
                // One space is how comments are continued.
                Some(b' ') if indentation.len() > 1 => {
                    spaces += 1;
                    let step = before.map_or(0, |before| indentation.len().saturating_sub(before));
                    if UNITS.contains(&step) {
                        *steps.entry(step).or_default() += 1;
                    }
                }
                Some(_) | None => {}
            }
            before = Some(indentation.len());
        }
        match (tabs, spaces) {
            (0, 0) => None,
            (tabs, spaces) if tabs > spaces => Some(Self::Tabs),
            _ => {
                // Of two that are as frequent, the smaller one.
                let most = steps.iter().max_by_key(|(step, count)| (**count, UNIT_CAP - **step));
                Some(Self::Spaces(most.map(|(step, _)| *step)))
            }
        }
    }
}

/// A line as a model wrote it, and the same line in the file, without its end.
#[derive(Debug, Clone, Copy)]
pub(in crate::tool) struct LinePair<'a> {
    pub(in crate::tool) written: &'a [u8],
    pub(in crate::tool) real: &'a [u8],
}

/// Indentations that are known from matched lines.
#[derive(Debug)]
pub(in crate::tool) struct Indents<'a> {
    /// Indentations of the file, by those that the model wrote for them.
    known: BTreeMap<&'a [u8], Vec<&'a [u8]>>,
    /// Spaces of one level, as the model writes them.
    written_unit: Option<usize>,
    style: Option<IndentStyle>,
}

impl<'a> Indents<'a> {
    /// Learns from matched lines. `new` are the lines that are to be indented, and `style`
    /// is how the file is indented elsewhere.
    pub(in crate::tool) fn learn(
        pairs: &[LinePair<'a>],
        new: impl Iterator<Item = &'a [u8]> + Clone,
        style: Option<IndentStyle>,
    ) -> Self {
        let mut known: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
        for pair in pairs.iter().filter(|pair| !is_blank(pair.written)) {
            let reals = known.entry(indentation(pair.written)).or_default();
            let real = indentation(pair.real);
            if !reals.contains(&real) {
                reals.push(real);
            }
        }
        let own = IndentStyle::of(pairs.iter().map(|pair| pair.real));
        let style = match (own, style) {
            (Some(IndentStyle::Spaces(None)), Some(IndentStyle::Spaces(unit))) => {
                Some(IndentStyle::Spaces(unit))
            }
            (Some(own), _) => Some(own),
            (None, style) => style,
        };
        let new = new.filter(|line| !is_blank(line)).map(indentation);
        let written_unit = unit(known.keys().copied().chain(new));
        Self { known, written_unit, style }
    }

    /// Returns the indentation of a new line in the file. `replaced` is the line in
    /// whose place it comes. `None` if it cannot be told.
    pub(in crate::tool) fn fit(
        &self,
        line: &[u8],
        replaced: Option<&LinePair<'a>>,
    ) -> Option<Vec<u8>> {
        let wanted = indentation(line);
        if let Some(pair) = replaced.filter(|pair| indentation(pair.written) == wanted) {
            return Some(indentation(pair.real).to_vec());
        }
        let differs =
            |(written, reals): (&&[u8], &Vec<&[u8]>)| reals.iter().any(|it| it != written);
        let is_foreign = match self.style {
            Some(IndentStyle::Tabs) => wanted.contains(&b' '),
            Some(IndentStyle::Spaces(_)) => wanted.contains(&b'\t'),
            None => false,
        };
        if self.known.is_empty() || !(is_foreign || self.known.iter().any(differs)) {
            // The model writes it as the file does, or only blank lines were matched.
            return Some(wanted.to_vec());
        }
        match self.known.get(wanted).map(Vec::as_slice) {
            Some([real]) => return Some(real.to_vec()),
            Some(_) => return None,
            None => {}
        }
        let shorter = self.known.iter().rev().find(|(written, _)| wanted.starts_with(written));
        if let Some((written, reals)) = shorter {
            let [real] = reals[..] else { return None };
            let more = self.levels(&wanted[written.len()..], real)?;
            return Some([real, &more].concat());
        }
        let (written, reals) =
            self.known.iter().find(|(written, _)| written.starts_with(wanted))?;
        let [real] = reals[..] else { return None };
        let less = self.levels(&written[wanted.len()..], real)?;
        real.strip_suffix(&*less).map(<[u8]>::to_vec)
    }

    /// Converts a part of an indentation to the style that the file uses next to `anchor`.
    fn levels(&self, part: &[u8], anchor: &[u8]) -> Option<Vec<u8>> {
        let all = |bytes: &[u8], one: u8| bytes.iter().all(|byte| *byte == one);
        let style = match self.style {
            _ if !anchor.is_empty() && all(anchor, b'\t') => IndentStyle::Tabs,
            Some(IndentStyle::Spaces(unit)) if all(anchor, b' ') => IndentStyle::Spaces(unit),
            _ if !anchor.is_empty() && all(anchor, b' ') => IndentStyle::Spaces(None),
            Some(style) if anchor.is_empty() => style,
            None if anchor.is_empty() => return Some(part.to_vec()),
            Some(_) | None => return None,
        };
        let count = |unit: usize| part.len().is_multiple_of(unit).then(|| part.len() / unit);
        match style {
            IndentStyle::Tabs if all(part, b'\t') => Some(part.to_vec()),
            IndentStyle::Tabs if all(part, b' ') => Some(vec![b'\t'; count(self.written_unit?)?]),
            IndentStyle::Spaces(unit) if all(part, b' ') => {
                let levels = self.written_unit.and_then(count).zip(unit);
                let fits = unit.is_none_or(|unit| part.len().is_multiple_of(unit));
                match levels {
                    Some((levels, unit)) if !fits => Some(vec![b' '; levels * unit]),
                    Some(_) | None => Some(part.to_vec()),
                }
            }
            IndentStyle::Spaces(unit) if all(part, b'\t') => Some(vec![b' '; part.len() * unit?]),
            IndentStyle::Tabs | IndentStyle::Spaces(_) => None,
        }
    }
}

/// Says that new lines are indented otherwise than most of a file; may be empty. `old` are
/// the lines in whose place they come.
pub(in crate::tool) fn foreign_note<'a>(
    file: impl Iterator<Item = &'a [u8]>,
    old: impl Iterator<Item = &'a str>,
    new: impl Iterator<Item = &'a str>,
) -> &'static str {
    let begins = |start: &'static str| {
        move |line: &str| line.starts_with(start) && !is_blank(line.as_bytes())
    };
    let (tab, spaces) = (begins("\t"), begins("  "));
    let of = |lines: &mut dyn Iterator<Item = &'a str>| {
        lines.fold((false, false), |(tabs, spaced), line| {
            (tabs || tab(line), spaced || spaces(line))
        })
    };
    let (mut old, mut new) = (old, new);
    match (of(&mut new), of(&mut old), IndentStyle::of(file)) {
        ((_, true), (_, false), Some(IndentStyle::Tabs)) => {
            " Check the indentation: the new lines use spaces, the file uses tabs."
        }
        ((true, _), (false, _), Some(IndentStyle::Spaces(_))) => {
            " Check the indentation: the new lines use tabs, the file uses spaces."
        }
        _ => "",
    }
}

/// Returns the spaces of one level: what all differences between indentations of spaces
/// are multiples of. `None` if that is not the width of a level.
fn unit<'a>(indentations: impl Iterator<Item = &'a [u8]>) -> Option<usize> {
    let of_spaces = indentations.filter(|it| it.iter().all(|byte| *byte == b' '));
    let widths: Vec<usize> = of_spaces.map(<[u8]>::len).collect();
    let first = widths.iter().min()?;
    let common = widths.iter().fold(0, |common, width| greatest_divisor(common, width - first));
    UNITS.contains(&common).then_some(common)
}

fn greatest_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

pub(in crate::tool) fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

/// Returns the white space in front of a line.
pub(in crate::tool) fn indentation(line: &[u8]) -> &[u8] {
    &line[..line.len() - line.trim_ascii_start().len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, pairs: &[(&str, &str)], new: &[&str], expected: Option<&[&str]>) {
        let pair = |(written, real): &(&'static str, &'static str)| LinePair {
            written: written.as_bytes(),
            real: real.as_bytes(),
        };
        let pairs: Vec<(&'static str, &'static str)> = pairs
            .iter()
            .map(|(one, other)| (&*one.to_string().leak(), &*other.to_string().leak()))
            .collect();
        let pairs: Vec<LinePair<'_>> = pairs.iter().map(pair).collect();
        let style = IndentStyle::of(file.lines().map(str::as_bytes));
        let lines = new.iter().map(|line| line.as_bytes());
        let indents = Indents::learn(&pairs, lines.clone(), style);
        let fitted = lines.map(|line| {
            let indentation = indents.fit(line, None)?;
            Some(String::from_utf8([&indentation, line.trim_ascii_start()].concat()).unwrap())
        });
        let fitted: Option<Vec<String>> = fitted.collect();
        let expected = expected.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect());
        assert_eq!(fitted, expected, "{pairs:?} {new:?}");
    }

    #[test]
    fn lines_that_are_all_off_by_the_same_are_moved_by_it() {
        let missing = [("a", "    a"), ("", ""), ("  b", "      b")];
        check("", &missing, &["x", "  y"], Some(&["    x", "      y"]));
        check("", &[("\t\ta", "\ta")], &["\tx", "\t\ty"], Some(&["x", "\ty"]));
        check("", &[("a ", "a")], &["x", "   y"], Some(&["x", "   y"]));
        check("", &[("  a", "    a")], &["  x", "    y"], Some(&["    x", "      y"]));
        // A level of the file is four spaces wide.
        let file = "a:\n    b:\n        c\n";
        check(file, &[("  a", "    a")], &["  x", "    y"], Some(&["    x", "        y"]));
    }

    #[test]
    fn spaces_become_the_files_tabs() {
        let file = "a:\n\tb:\n\t\tc\n";
        check(
            file,
            &[("    a", "\ta"), ("        b", "\t\tb")],
            &["    x", "        y", "            z"],
            Some(&["\tx", "\t\ty", "\t\t\tz"]),
        );
        check(file, &[("  a", "\ta")], &["  x", "    y", "z"], Some(&["\tx", "\t\ty", "z"]));
        check(file, &[("a", "\ta")], &["x", "    y"], Some(&["\tx", "\t\ty"]));
        check(file, &[("a", "\ta")], &["x", "\ty"], Some(&["\tx", "\t\ty"]));
        check(file, &[("a ", "a")], &["x", "    y"], Some(&["x", "\ty"]));
        check(file, &[("        a", "\t\ta")], &["    x"], Some(&["\tx"]));
        // Neither an unusual width nor a mixture can be converted.
        check(file, &[("    a", "\ta"), ("        b", "\t\tb")], &["       x"], None);
        check(file, &[("    a", "\ta")], &["    \t x"], None);
        check(file, &[("    a", "\t a")], &["      x"], None);
    }

    #[test]
    fn tabs_become_the_files_spaces() {
        let file = "a:\n  b:\n    c\n";
        check(file, &[("\ta", "  a")], &["\tx", "\t\ty", "z"], Some(&["  x", "    y", "z"]));
        check("", &[("\ta", "  a")], &["\tx"], Some(&["  x"]));
        check("", &[("\ta", "  a")], &["\t\tx"], None);
    }

    #[test]
    fn an_ambiguous_indentation_is_unknown() {
        check("", &[("a", "  a"), ("b", "b")], &["x"], None);
        check("", &[("    a", "a")], &["  x"], None);
        check("", &[("    a", "a")], &["    x"], Some(&["x"]));
        check("", &[("", "")], &["x", "  y"], Some(&["x", "  y"]));
    }

    #[test]
    fn new_lines_that_are_indented_otherwise_are_noted() {
        let note = |file: &str, old: &str, new: &str| {
            !foreign_note(file.lines().map(str::as_bytes), old.lines(), new.lines()).is_empty()
        };
        assert!(note("a\n\tb\n", "b", "b\n    c"));
        assert!(note("a\n  b\n", "b", "b\n\tc"));
        assert!(!note("a\n\tb\n", "b", "b\n\tc\n * d"));
        assert!(!note("a\n\tb\n    c\n\td", "    c", "    d"));
        assert!(!note("a\n", "a", "a\n\tb"));
    }

    #[test]
    fn most_lines_say_how_a_file_is_indented() {
        let style = |text: &str| IndentStyle::of(text.lines().map(str::as_bytes));
        assert_eq!(style("a\n\tb\n  c\n\td\n"), Some(IndentStyle::Tabs));
        assert_eq!(style("a\n    b\n        c\n    d\n"), Some(IndentStyle::Spaces(Some(4))));
        assert_eq!(style("/*\n * a\n */\n"), None);
        assert_eq!(style(""), None);
    }
}
