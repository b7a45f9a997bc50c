//! Records on their way out: one line each, written whole, with a name.
//!
//! Names are derived from the log, so that the same log gives the same lines.
//! What a terminal would obey or hide is escaped as JSON escapes it; what a
//! record says is decided elsewhere.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use uuid::Uuid;

use crate::event::{Seq, SessionId};

use super::record::{Line, Record};
use super::sanitise;

/// Writes records as lines and names them.
pub(super) struct Lines {
    output: BufWriter<Box<dyn Write + Send>>,
    session: SessionId,
    /// The event whose records are being written, and how many there are.
    event: Seq,
    written: u32,
    /// Reused, so that a line is written whole.
    line: Vec<u8>,
}

impl Lines {
    pub(super) fn new(output: Box<dyn Write + Send>, session: SessionId) -> Self {
        Self {
            output: BufWriter::new(output),
            session,
            event: Seq::default(),
            written: 0,
            line: Vec::new(),
        }
    }

    /// Says which event the next records are made from.
    pub(super) fn begin(&mut self, event: Seq) {
        self.event = event;
        self.written = 0;
    }

    /// Writes the next record of the event.
    pub(super) fn write(&mut self, record: Record<'_>) -> io::Result<()> {
        let origin = Origin::Event(self.event, self.written);
        self.written += 1;
        self.write_from(origin, record)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    /// Writes what is no record: a line of the control protocol, which has
    /// neither name nor session.
    pub(super) fn write_bare(&mut self, line: &impl Serialize) -> io::Result<()> {
        self.line.clear();
        write(line, &mut self.line)?;
        self.output.write_all(&self.line)
    }

    /// Writes a record that has a name of its own.
    pub(super) fn write_from(&mut self, origin: Origin, record: Record<'_>) -> io::Result<()> {
        self.line.clear();
        let uuid = origin.uuid(&self.session);
        let line = Line { record, uuid, session_id: &self.session.0 };
        write(&line, &mut self.line)?;
        self.output.write_all(&self.line)
    }
}

/// Names a record by where it comes from, so that the same log gives the same
/// names.
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin {
    /// The n-th record of an event.
    Event(Seq, u32),
    /// The n-th piece of what was streamed after an event.
    Stream(Seq, u32),
    /// What was told of a session up to an event, without adding to it.
    Look(Seq),
}

impl Origin {
    /// Returns the record's `uuid`.
    pub(super) fn uuid(self, session: &SessionId) -> String {
        let (tag, seq, index) = match self {
            Self::Event(seq, index) => (b'e', seq, index),
            Self::Stream(seq, index) => (b's', seq, index),
            Self::Look(seq) => (b'l', seq, 0),
        };
        let hash = derive(session, tag, seq, index);
        Uuid::new_v8(hash).hyphenated().to_string()
    }
}

/// Returns the id that all records of one answer share; `turn` is the event
/// that began the turn.
pub(super) fn message_id(session: &SessionId, turn: Seq) -> String {
    let hash = derive(session, b'm', turn, 0);
    format!("msg_{}", Uuid::from_bytes(hash).simple())
}

/// Appends `line` and a line break to `out`.
pub(super) fn write(line: &impl Serialize, out: &mut Vec<u8>) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, Shown);
    line.serialize(&mut serializer)?;
    out.push(b'\n');
    Ok(())
}

/// Compact JSON in which characters a terminal would obey or hide are written
/// as `\u` escapes: the same value for a parser, harmless on a screen.
struct Shown;

impl serde_json::ser::Formatter for Shown {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        writer.write_all(sanitise::json(fragment).as_bytes())
    }

    fn write_raw_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        // Outside its strings, valid JSON holds none of these characters.
        writer.write_all(sanitise::json(fragment).as_bytes())
    }
}

fn derive(session: &SessionId, tag: u8, seq: Seq, index: u32) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    // The session's id comes last, since it is the only part without a fixed
    // length.
    hasher.update(&[tag]).update(&seq.0.to_le_bytes()).update(&index.to_le_bytes());
    hasher.update(session.0.as_bytes());
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_log_alone() {
        let session = SessionId("s-1".into());
        let origins = [
            Origin::Event(Seq(1), 0),
            Origin::Event(Seq(1), 1),
            Origin::Event(Seq(2), 0),
            Origin::Stream(Seq(1), 0),
            Origin::Look(Seq(1)),
        ];
        let names = origins.map(|origin| origin.uuid(&session));
        assert_eq!(names, origins.map(|origin| origin.uuid(&session)));
        let other = SessionId("s-2".into());
        let distinct: std::collections::BTreeSet<_> =
            names.iter().cloned().chain([origins[0].uuid(&other)]).collect();
        assert_eq!(distinct.len(), 6);
        assert!(names.iter().all(|name| Uuid::parse_str(name).unwrap().get_version_num() == 8));
        insta::assert_snapshot!(message_id(&session, Seq(1)), @r#"msg_0d1f32d4cedbdd9b1e6de2a1049b2047"#);
    }
}
