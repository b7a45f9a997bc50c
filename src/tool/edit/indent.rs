//! How far lines that a model wrote are indented too much or too little.

/// The white space that lines lack in front, or have too much.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::tool) enum Shift<'a> {
    /// As it should be.
    Nothing,
    /// This is missing.
    Missing(&'a [u8]),
    /// This is too much.
    TooMuch(&'a [u8]),
}

impl<'a> Shift<'a> {
    /// Compares lines as they were written with the same lines as they are;
    /// `None` if they are not all off by the same. Blank lines say nothing.
    pub(in crate::tool) fn between(
        lines: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Option<Self> {
        let mut shifts = lines
            .filter(|(written, _)| !is_blank(written))
            .map(|(written, real)| Self::of(indentation(written), indentation(real)));
        let first = shifts.next()??;
        shifts.all(|shift| shift.as_ref() == Some(&first)).then_some(first)
    }

    fn of(written: &'a [u8], real: &'a [u8]) -> Option<Self> {
        if written == real {
            return Some(Self::Nothing);
        }
        let missing = real.strip_suffix(written).map(Self::Missing);
        missing.or_else(|| written.strip_suffix(real).map(Self::TooMuch))
    }

    /// Returns new lines, moved; `None` if one has less than is too much.
    pub(in crate::tool) fn moved(&self, lines: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
        let moved = |line: &&[u8]| match self {
            _ if is_blank(line) => Some(line.to_vec()),
            Self::Nothing => Some(line.to_vec()),
            Self::Missing(missing) => Some([missing, *line].concat()),
            Self::TooMuch(much) => line.strip_prefix(*much).map(<[u8]>::to_vec),
        };
        lines.iter().map(moved).collect()
    }
}

pub(in crate::tool) fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

fn indentation(line: &[u8]) -> &[u8] {
    &line[..line.len() - line.trim_ascii_start().len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[(&str, &str)], new: &[&str], expected: Option<&[&str]>) {
        let pairs = pairs.iter().map(|(written, real)| (written.as_bytes(), real.as_bytes()));
        let new: Vec<&[u8]> = new.iter().map(|line| line.as_bytes()).collect();
        let moved = Shift::between(pairs).and_then(|shift| shift.moved(&new));
        let expected: Option<Vec<Vec<u8>>> =
            expected.map(|lines| lines.iter().map(|line| line.as_bytes().to_vec()).collect());
        assert_eq!(moved, expected);
    }

    #[test]
    fn lines_that_are_all_off_by_the_same_are_moved_by_it() {
        let missing = [("a", "    a"), ("", ""), ("  b", "      b")];
        check(&missing, &["x", "", "  y"], Some(&["    x", "", "      y"]));
        check(&[("\t\ta", "\ta")], &["\tx", "\t\ty"], Some(&["x", "\ty"]));
        check(&[("a ", "a")], &["x"], Some(&["x"]));
    }

    #[test]
    fn lines_that_are_off_by_different_white_space_are_not_moved() {
        check(&[("a", "  a"), ("b", "b")], &["x"], None);
        check(&[("    a", "\ta")], &["x"], None);
        check(&[("    a", "a")], &["  x"], None);
        check(&[("", "")], &["x"], None);
    }
}
