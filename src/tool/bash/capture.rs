//! What is kept of a command's output: its first and last bytes in memory, all
//! of it in a spill file as soon as it is too long for an output. All of that is the
//! text that `plain` makes of what the command prints.

use std::collections::VecDeque;
use std::io::{self, Write};

use crate::session::{Spill, SpillFile};
use crate::tool::OUTPUT_CAP;
use crate::tool::bound::{TooLong, cut, fits};

use super::TOTAL_CAP;
use super::plain::TerminalText;

/// Note below an output that lacks text because other text was printed over it.
const OVERWRITTEN: &str = "[Overwritten text, such as progress bars, is shown in its final state.]";

/// Takes bytes as they come. Costs twice [`OUTPUT_CAP`] of memory, however many
/// there are.
pub(super) struct Capture<'a> {
    spill: &'a Spill,
    name: String,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes that the command has printed.
    printed: u64,
    plain: TerminalText,
    /// Bytes of the text that this is.
    total: u64,
    file: Option<io::Result<SpillFile>>,
}

impl<'a> Capture<'a> {
    pub(super) fn new(spill: &'a Spill, name: String) -> Self {
        let (head, tail, plain) = (Vec::new(), VecDeque::new(), TerminalText::default());
        Self { spill, name, head, tail, printed: 0, plain, total: 0, file: None }
    }

    /// Takes more output; `false` once there is more than [`TOTAL_CAP`], which
    /// is not kept.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let room = usize::try_from(TOTAL_CAP - self.printed).unwrap_or(usize::MAX);
        let kept = &bytes[..bytes.len().min(room)];
        self.printed += kept.len() as u64;
        let mut text = Vec::with_capacity(kept.len());
        self.plain.push(kept, &mut text);
        self.keep(&text);
        kept.len() == bytes.len()
    }

    fn keep(&mut self, kept: &[u8]) {
        self.total += kept.len() as u64;
        if self.total > OUTPUT_CAP as u64 {
            self.open_file();
            // On this thread: a piece of output goes into the page cache
            // faster than it would go to another thread.
            self.write(kept);
        }
        let to_head = kept.len().min(OUTPUT_CAP - self.head.len());
        self.head.extend_from_slice(&kept[..to_head]);
        let to_tail = &kept[kept.len().saturating_sub(OUTPUT_CAP)..];
        self.tail.extend(to_tail);
        self.tail.drain(..self.tail.len().saturating_sub(OUTPUT_CAP));
    }

    /// Returns the output and the last words, in at most [`OUTPUT_CAP`]
    /// characters.
    pub(super) fn finish(mut self, last_words: &str) -> String {
        let mut rest = Vec::new();
        self.plain.finish(&mut rest);
        self.keep(&rest);
        let note = if self.plain.has_overwritten() { OVERWRITTEN } else { "" };
        let last_words = format!("{note}{}{last_words}", line_end(note, last_words));
        self.finish_with(&last_words)
    }

    fn finish_with(mut self, last_words: &str) -> String {
        if self.total == 0 {
            let nothing = if last_words.is_empty() { "(no output)" } else { "" };
            return format!("{nothing}{last_words}");
        }
        let ends_line = self.tail.back() == Some(&b'\n');
        let gap = if ends_line || last_words.is_empty() { "" } else { "\n" };
        let whole = if self.total <= OUTPUT_CAP as u64 {
            Some(format!("{}{gap}{last_words}", String::from_utf8_lossy(&self.head)))
        } else {
            None
        };
        if let Some(whole) = whole.filter(|whole| fits(whole, OUTPUT_CAP)) {
            return whole;
        }
        self.open_file();
        let file = self.file.take().expect("the file was just opened");
        let kept = file.map(|file| file.path);
        let tail = self.tail.make_contiguous();
        let long = TooLong { head: &self.head, tail, total: self.total };
        let room = OUTPUT_CAP.saturating_sub(gap.len() + last_words.chars().count());
        format!("{}{gap}{last_words}", cut(&long, &kept, room))
    }

    /// Makes the file with all output so far. Called before anything is dropped
    /// from the head.
    fn open_file(&mut self) {
        if self.file.is_none() {
            self.file = Some(self.spill.create(&self.name));
            let head = std::mem::take(&mut self.head);
            self.write(&head);
            self.head = head;
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(Ok(spill)) = &mut self.file
            && let Err(error) = spill.file.write_all(bytes)
        {
            self.file = Some(Err(error));
        }
    }
}

/// Returns what separates two texts, of which each may be empty.
fn line_end(before: &str, after: &str) -> &'static str {
    if before.is_empty() || after.is_empty() { "" } else { "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spill() -> (tempfile::TempDir, Spill) {
        let place = tempfile::tempdir().unwrap();
        let spill = Spill { directory: place.path().join("spill") };
        (place, spill)
    }

    #[track_caller]
    fn check(pieces: &[&[u8]], last_words: &str, expected: &str) {
        let (_place, spill) = spill();
        let mut capture = Capture::new(&spill, "x".to_owned());
        assert!(pieces.iter().all(|piece| capture.push(piece)));
        assert_eq!(capture.finish(last_words), expected);
        assert!(!spill.directory.exists());
    }

    #[test]
    fn short_output_is_returned_as_it_came() {
        check(&[b"a\n", b"b"], "", "a\nb");
        check(&[b"a\n", b"b"], "exit code 1", "a\nb\nexit code 1");
        check(&[b"a\n"], "exit code 1", "a\nexit code 1");
        check(&[], "exit code 1", "exit code 1");
        check(&[], "", "(no output)");
        check(&[b"caf\xE9"], "", "caf\u{FFFD}");
    }

    #[test]
    fn what_is_meant_for_a_terminal_is_text() {
        check(&[b"\x1b[32mok\x1b", b"[0m\n"], "exit code 1", "ok\nexit code 1");
        check(&[b"\x1b[0m"], "", "(no output)");
        check(&[b"10%\r", b"99%\n"], "", &format!("99%\n{OVERWRITTEN}"));
        check(&[b"10%\r99%\n"], "exit code 1", &format!("99%\n{OVERWRITTEN}\nexit code 1"));
        let bar: String = (0..100_000).map(|number| format!("{number:>9}\r")).collect();
        check(&[bar.as_bytes(), b"\n"], "", &format!("    99999\r\n{OVERWRITTEN}"));
    }

    #[test]
    fn a_character_that_arrives_in_two_pieces_is_whole() {
        check(&[&"ß".as_bytes()[..1], &"ß".as_bytes()[1..]], "", "ß");
    }

    #[test]
    fn long_output_keeps_head_and_tail_and_the_file_has_every_byte() {
        for size in [OUTPUT_CAP - 5, OUTPUT_CAP + 1, 10 * OUTPUT_CAP] {
            for piece in [1, 777, 100_000] {
                let (_place, spill) = spill();
                let bytes: Vec<u8> = (0..size).map(|at| b'a' + (at % 26) as u8).collect();
                let mut capture = Capture::new(&spill, "x".to_owned());
                assert!(bytes.chunks(piece).all(|piece| capture.push(piece)));
                let text = capture.finish("exit code 1");
                let path = spill.directory.join("x.txt");
                assert_eq!(std::fs::read(&path).unwrap(), bytes);
                assert!(fits(&text, OUTPUT_CAP));

                let (head, rest) = text.split_once("\n[... ").unwrap();
                let (notice, tail) = rest.split_once(" ...]\n").unwrap();
                let tail = tail.strip_suffix("\nexit code 1").unwrap();
                let left_out = size - head.len() - tail.len();
                let path = path.display();
                let expected = format!("{left_out} bytes left out; the whole text is in {path}");
                assert_eq!(notice, expected);
                assert!(bytes.starts_with(head.as_bytes()) && bytes.ends_with(tail.as_bytes()));
            }
        }
    }

    #[test]
    fn what_comes_after_the_total_cap_is_refused_and_not_kept() {
        let (_place, spill) = spill();
        let mut capture = Capture::new(&spill, "x".to_owned());
        let piece = vec![b'x'; 1024 * 1024];
        let taken = (0..100).take_while(|_| capture.push(&piece)).count() as u64;
        assert_eq!(taken, TOTAL_CAP / 1024 / 1024);
        drop(capture);
        assert_eq!(spill.directory.join("x.txt").metadata().unwrap().len(), TOTAL_CAP);
    }

    #[test]
    fn a_spill_file_that_cannot_be_made_does_not_fail_the_command() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "").unwrap();
        let spill = Spill { directory: place.path().join("file") };
        let mut capture = Capture::new(&spill, "x".to_owned());
        assert!(capture.push(&vec![b'x'; OUTPUT_CAP + 1]));
        assert!(capture.finish("").contains(" bytes left out and not kept: "));
    }
}
