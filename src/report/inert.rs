//! Output that a runner of GitHub reads, and that it must not obey.
//!
//! Of each line of a build's log it obeys one that begins with `::`, whatever
//! white space stands before it, and one with `##[` anywhere. Models, files and
//! providers can write both. A backslash keeps them from being that, and Markdown
//! shows the same without it.

use std::io::{self, Write};

/// Returns text that a runner obeys nothing of.
#[must_use]
pub fn text(text: &str) -> String {
    text.split_inclusive('\n').map(line).collect()
}

fn line(line: &str) -> String {
    let begin = line.len() - line.trim_start().len();
    let (white, rest) = line.split_at(begin);
    let sign = if rest.starts_with("::") { "\\" } else { "" };
    // The last one of several signs stands before the bracket.
    format!("{white}{sign}{}", rest.replace("##[", "##\\["))
}

/// What is printed: talk, or records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    Text,
    /// JSON: it means the same afterwards.
    Json,
}

/// Passes on whole lines that a runner obeys nothing of.
pub struct Inert<W: Write> {
    output: W,
    form: Form,
    /// The line that is not whole yet. It grows no larger than what is printed at
    /// once: a record, or a line of talk.
    line: Vec<u8>,
}

impl<W: Write> Inert<W> {
    /// A writer in front of another one.
    #[must_use]
    pub fn new(output: W, form: Form) -> Self {
        Self { output, form, line: Vec::new() }
    }

    fn pass(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let safe = match self.form {
            Form::Text => line(&text),
            // It can only stand in a string.
            Form::Json => text.replace("##[", "\\u0023#["),
        };
        self.output.write_all(safe.as_bytes())
    }
}

impl<W: Write> Write for Inert<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.pass()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

impl<W: Write> Drop for Inert<W> {
    fn drop(&mut self) {
        // Whoever wants to know of an error has ended the line.
        let _ = self.pass().and_then(|()| self.output.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the runner takes for a command.
    fn obeyed(line: &str) -> bool {
        line.trim().starts_with("::") || line.contains("##[")
    }

    #[test]
    fn no_line_is_a_command_whatever_stands_in_it() {
        let hostile = "::error::x\n \t::stop-commands::abc\n\u{a0}::a\na ##[error]b\n###[x]##[y]##\\[\n:: ##[z";
        let safe = text(hostile);
        assert!(hostile.lines().all(obeyed) && !safe.lines().any(obeyed), "{safe}");
        assert!(safe.starts_with("\\::error::x\n \t\\::stop-commands::abc\n"), "{safe}");
        assert_eq!(text("a::b # [c] :d\n"), "a::b # [c] :d\n");
    }

    #[test]
    fn what_is_written_in_pieces_is_a_line_all_the_same() {
        let mut printed = Vec::new();
        let mut inert = Inert::new(&mut printed, Form::Text);
        for piece in [":", ":error::x\na#", "#[b]\n ", "::c"] {
            inert.write_all(piece.as_bytes()).unwrap();
        }
        drop(inert);
        assert_eq!(String::from_utf8(printed).unwrap(), "\\::error::x\na##\\[b]\n \\::c");
    }

    #[test]
    fn a_record_means_the_same() {
        let mut printed = Vec::new();
        let record = serde_json::json!({ "a": "x\\##[error]\n::b" }).to_string();
        writeln!(Inert::new(&mut printed, Form::Json), "{record}").unwrap();
        let text = String::from_utf8(printed).unwrap();
        assert!(!text.lines().any(obeyed), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read.to_string(), record);
    }
}
