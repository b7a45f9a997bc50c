//! What is written line by line: what follows what, and what has to wait while
//! a question stands at the end.

/// Most bytes of what happens that wait while a question is open, or while
/// another program has the terminal. What is more is counted.
const HELD_CAP: usize = 256 * 1024;

/// What is to be written.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
    /// Whether the cursor stands behind something.
    is_behind: bool,
    /// Whether what it stands behind asks for a line.
    is_prompted: bool,
    holds: bool,
    held: String,
    left_out: usize,
}

impl Page {
    /// Writes a line, or several. What is in it is safe for a terminal.
    pub(super) fn line(&mut self, line: &str) {
        self.begin();
        self.text.push_str(line.trim_end_matches('\n'));
        self.text.push('\n');
        (self.is_behind, self.is_prompted) = (false, false);
    }

    /// The same with something that happens, which may have to wait.
    pub(super) fn news(&mut self, lines: &str) {
        let lines = lines.trim_end_matches('\n');
        if !self.holds {
            return self.line(lines);
        }
        if self.held.len() + lines.len() > HELD_CAP {
            self.left_out += lines.lines().count();
            return;
        }
        self.held.push_str(lines);
        self.held.push('\n');
    }

    /// Writes something that a line is to follow.
    pub(super) fn prompt(&mut self, text: &str) {
        self.begin();
        self.text.push_str(text);
        (self.is_behind, self.is_prompted) = (true, true);
    }

    /// Tells whether a line is asked for.
    pub(super) fn is_prompted(&self) -> bool {
        self.is_prompted
    }

    /// A line was typed, and the terminal has shown it.
    pub(super) fn entered(&mut self) {
        (self.is_behind, self.is_prompted) = (false, false);
    }

    /// A key was typed that ends no line, and the terminal has shown it.
    pub(super) fn broken_off(&mut self) {
        (self.is_behind, self.is_prompted) = (true, false);
    }

    /// From now on what happens waits, or no longer does.
    pub(super) fn hold(&mut self, holds: bool) {
        self.holds = holds;
        if holds {
            return;
        }
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.line(&held);
        }
        match std::mem::take(&mut self.left_out) {
            0 => {}
            left_out => self.line(&format!("[{left_out} lines left out]")),
        }
    }

    /// Rings the bell.
    pub(super) fn ring(&mut self) {
        self.text.push('\u{7}');
    }

    /// Ends the line that the cursor stands in.
    pub(super) fn begin(&mut self) {
        if std::mem::take(&mut self.is_behind) {
            self.text.push('\n');
        }
    }

    /// Returns what is to be written now.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_never_follows_in_the_row_of_a_prompt() {
        let mut page = Page::default();
        page.prompt("> ");
        page.line("one");
        page.news("two\nthree\n");
        page.prompt("> ");
        page.entered();
        page.line("four");
        page.broken_off();
        page.prompt("> ");
        assert_eq!(page.take(), "> \none\ntwo\nthree\n> four\n\n> ");
    }

    #[test]
    fn what_happens_behind_a_question_is_told_after_it_and_has_a_bound() {
        let mut page = Page::default();
        page.hold(true);
        page.news("one");
        page.line("that is no answer");
        page.news(&"x\n".repeat(HELD_CAP));
        page.news("two");
        assert_eq!(page.take(), "that is no answer\n");
        page.hold(false);
        page.news("three");
        let expected = format!("one\ntwo\n[{HELD_CAP} lines left out]\nthree\n");
        assert_eq!(page.take(), expected);
    }
}
