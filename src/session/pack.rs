//! A file of kept bytes, one piece behind the other.
//!
//! Each piece stands behind a line with its hash and its length. Only the
//! process that made a pack adds to it, so nothing but its end can be torn. A
//! piece without its line is none; bytes that are not what the line says are
//! for the reader to find out.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::fcntl::OFlag;

use super::blobs::BLOB_CAP;
use crate::event::Digest;

/// Bytes of the line before a piece: the hash in hexadecimal digits, a space,
/// the length in decimal ones, and the end of the line.
const LINE: usize = DIGITS + 1 + 10 + 1;
const DIGITS: usize = 64;

/// Where a piece lies in its pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    at: u64,
    pub(super) length: u64,
}

/// Makes a pack that holds nothing. Only the user can read it.
pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a pack to read it.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    let file = options.open(path)?;
    // A pipe holds nothing, and is not what holds nothing.
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("a pack of kept bytes is no file")),
    }
}

/// Writes a piece to `at`, where the last one ends. What a failure leaves there
/// is written over the next time.
pub(super) fn append(file: &File, at: u64, digest: Digest, bytes: &[u8]) -> io::Result<Piece> {
    let length = bytes.len() as u64;
    let line = format!("{digest} {length:>10}\n");
    debug_assert_eq!(line.len(), LINE);
    let piece = Piece { at: at + LINE as u64, length };
    file.write_all_at(line.as_bytes(), at)?;
    file.write_all_at(bytes, piece.at)?;
    Ok(piece)
}

/// Reads a piece.
pub(super) fn read(file: &File, piece: Piece) -> io::Result<Vec<u8>> {
    let length = usize::try_from(piece.length).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, piece.at)?;
    Ok(bytes)
}

/// Returns the pieces of a pack behind `from`, where a piece ends.
pub(super) fn pieces(file: &File, from: u64) -> io::Result<Vec<(Digest, Piece)>> {
    let end = file.metadata()?.len();
    let (mut at, mut found) = (from, Vec::new());
    let mut line = [0; LINE];
    while at.saturating_add(LINE as u64) <= end {
        file.read_exact_at(&mut line, at)?;
        let Some((digest, length)) = told(&line) else { break };
        let piece = Piece { at: at + LINE as u64, length };
        if piece.end() > end {
            break;
        }
        at = piece.end();
        found.push((digest, piece));
    }
    Ok(found)
}

fn told(line: &[u8; LINE]) -> Option<(Digest, u64)> {
    let (digest, length) =
        str::from_utf8(line).ok()?.strip_suffix('\n')?.split_at_checked(DIGITS)?;
    let length: u64 = length.trim_start().parse().ok()?;
    (length <= BLOB_CAP).then_some((Digest::from_hex(digest)?, length))
}

impl Piece {
    /// Where the next one begins.
    pub(super) fn end(self) -> u64 {
        self.at + self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_found_again_up_to_a_torn_one_which_the_next_one_covers() {
        let place = tempfile::tempdir().unwrap();
        let file = create(&place.path().join("pack")).unwrap();
        let put = |at, bytes: &[u8]| {
            let digest = Digest::of(bytes);
            (digest, append(&file, at, digest, bytes).unwrap())
        };
        let one = put(0, b"one");
        let none = put(one.1.end(), b"");
        let whole = [one, none];
        assert_eq!(pieces(&file, 0).unwrap(), whole);
        let torn = put(none.1.end(), &[b'x'; 500]);
        for length in none.1.end()..torn.1.end() {
            file.set_len(length).unwrap();
            assert_eq!(pieces(&file, 0).unwrap(), whole);
        }
        let two = put(none.1.end(), b"two");
        assert_eq!(pieces(&file, 0).unwrap(), [one, none, two]);
        assert_eq!(pieces(&file, one.1.end()).unwrap(), [none, two]);
        for (_, piece) in [one, none, two] {
            let bytes = read(&file, piece).unwrap();
            assert_eq!(bytes.len() as u64, piece.length);
        }
        assert_eq!(read(&file, two.1).unwrap(), b"two");
        assert!(read(&file, torn.1).is_err());
    }

    #[test]
    fn a_line_that_names_no_piece_is_none() {
        let place = tempfile::tempdir().unwrap();
        let digest = Digest::of(b"");
        for line in [
            format!("{digest} {:>10}\n", "x"),
            format!("{digest} {:>10}\n", "-1"),
            format!("{digest} {:>10} ", "0"),
            format!("{digest} {:>10}\n", BLOB_CAP + 1),
            format!("{:>64} {:>10}\n", "x", "0"),
            "é".repeat(LINE / 2),
        ] {
            let path = place.path().join("pack");
            std::fs::write(&path, line + &"x".repeat(100)).unwrap();
            assert_eq!(pieces(&open(&path).unwrap(), 0).unwrap(), []);
        }
    }
}
