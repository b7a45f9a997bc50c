//! The program's standard output: the answer goes there, and nothing else.

use std::io::{self, Write};

use super::sanitise;

/// What standard output is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdoutKind {
    /// A terminal, which would obey control sequences in the answer.
    Terminal,
    /// A pipe or a file, which gets the answer byte for byte.
    Other,
}

/// Where a run's answer is written.
pub struct Stdout {
    output: Box<dyn Write + Send>,
    kind: StdoutKind,
}

impl Stdout {
    /// Standard output as seen by the cli.
    #[must_use]
    pub fn new(output: Box<dyn Write + Send>, kind: StdoutKind) -> Self {
        Self { output, kind }
    }

    /// Writes `text` with exactly one line break at its end; nothing if there
    /// is no text.
    pub(super) fn answer(&mut self, text: &str) -> io::Result<()> {
        let text = text.trim_end_matches(['\n', '\r']);
        if text.is_empty() {
            return Ok(());
        }
        match self.kind {
            StdoutKind::Terminal => self.output.write_all(sanitise::text(text).as_bytes())?,
            StdoutKind::Other => self.output.write_all(text.as_bytes())?,
        }
        self.output.write_all(b"\n")?;
        self.output.flush()
    }
}

/// Where a run's talk is written: standard error. Talk that nobody hears is no
/// reason to end the work, so writing never fails.
pub struct Stderr(Box<dyn Write + Send>);

impl Stderr {
    /// Standard error as seen by the cli.
    #[must_use]
    pub fn new(output: Box<dyn Write + Send>) -> Self {
        Self(output)
    }
}

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A part that was written is written again by nobody: see above.
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}
