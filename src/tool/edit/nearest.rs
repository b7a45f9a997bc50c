//! The line of a file that is nearest to one that is not there.

use crate::look_alike::PlainText;
use crate::slips::distance;

/// Maximum characters of a line that are compared: enough to know it again.
const COMPARED_CAP: usize = 120;

/// Maximum comparisons of two characters, over all lines: some hundredths of a second.
const WORK_CAP: usize = 20_000_000;

/// Returns the index of the line that is nearest to `wanted`; `None` if none is near.
pub(in crate::tool) fn nearest_line<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    wanted: &str,
) -> Option<usize> {
    let compared = |line: &[u8]| -> Vec<char> {
        let cut = &line[..line.len().min(COMPARED_CAP * 4)];
        let plain = PlainText::of(cut.trim_ascii()).bytes;
        String::from_utf8_lossy(plain.trim_ascii()).chars().take(COMPARED_CAP).collect()
    };
    let wanted = compared(wanted.as_bytes());
    let most = wanted.len() / 3;
    let mut work = 0;
    let mut best: Option<(usize, usize)> = None;
    for (at, line) in lines.enumerate() {
        let line = compared(line);
        if line.is_empty() || line.len().abs_diff(wanted.len()) > most {
            continue;
        }
        work += line.len() * wanted.len();
        if work > WORK_CAP {
            break;
        }
        let near = distance(&wanted, &line);
        if near <= most && best.is_none_or(|(least, _)| near < least) {
            best = Some((near, at));
        }
    }
    best.map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_line_is_found_if_one_is_near() {
        let near = |wanted| {
            let lines = ["fn main() {", "    print(\"one\")", "    print(\"two\");", "}", ""];
            nearest_line(lines.iter().map(|line| line.as_bytes()), wanted)
        };
        assert_eq!(near("print(\"twoo\");"), Some(2));
        assert_eq!(near("print(\u{201c}one\u{201d})"), Some(1));
        assert_eq!((near("struct A;"), near("x"), near("")), (None, None, None));
    }
}
