//! A file of kept bytes, one behind the other.
//!
//! Before the bytes stands a line with their hash and their length. Only who
//! made a pack adds to it, so only its end can be torn. What lies behind a
//! damaged line is lost, and bytes that are not what their line says are for
//! the reader to find out.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::fcntl::OFlag;

use super::blobs::BLOB_CAP;
use crate::event::Digest;

/// Bytes of the hash in a line, in hexadecimal digits.
const HASH: usize = 64;

/// Bytes of the length in a line, in decimal digits with spaces before them.
const LENGTH: usize = 10;

/// Bytes of a line: the hash, a space, the length, the end of the line.
const LINE: usize = HASH + 1 + LENGTH + 1;

/// Most entries that are looked at in a pack at once. No run changes so many
/// files.
const ENTRY_CAP: usize = 1_000_000;

/// Where bytes lie in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    at: u64,
    length: u64,
}

impl Extent {
    /// How many bytes there are.
    pub(super) fn length(self) -> u64 {
        self.length
    }

    /// Where the next line begins.
    pub(super) fn end(self) -> u64 {
        self.at + self.length
    }
}

/// Makes a pack that holds nothing. Only the user can read it.
pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a pack to read it. Whatever else may stand there, a link or a pipe,
/// neither leads elsewhere nor has us wait.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("what was kept is in no regular file")),
    }
}

/// Returns how many bytes these take in a pack.
pub(super) fn size(bytes: &[u8]) -> u64 {
    LINE as u64 + bytes.len() as u64
}

/// Writes bytes at `at`, where the last ones end, and returns where the next
/// ones go. What a failure leaves there is for the caller to take off.
pub(super) fn append(file: &File, at: u64, digest: Digest, bytes: &[u8]) -> io::Result<u64> {
    let line = format!("{digest} {:>LENGTH$}\n", bytes.len());
    file.write_all_at(line.as_bytes(), at)?;
    file.write_all_at(bytes, at + LINE as u64)?;
    Ok(at + size(bytes))
}

/// Reads bytes.
pub(super) fn read(file: &File, extent: Extent) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(extent.length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, extent.at)?;
    Ok(bytes)
}

/// Returns what lies in a pack from `from` on, where a line begins.
pub(super) fn entries(file: &File, from: u64) -> io::Result<Vec<(Digest, Extent)>> {
    let end = file.metadata()?.len();
    let (mut at, mut found) = (from, Vec::new());
    let mut line = [0; LINE];
    while at.saturating_add(LINE as u64) <= end && found.len() < ENTRY_CAP {
        file.read_exact_at(&mut line, at)?;
        let Some((digest, length)) = parse(&line) else { break };
        let extent = Extent { at: at + LINE as u64, length };
        if extent.end() > end {
            break;
        }
        at = extent.end();
        found.push((digest, extent));
    }
    Ok(found)
}

fn parse(line: &[u8; LINE]) -> Option<(Digest, u64)> {
    let (digest, length) = str::from_utf8(line).ok()?.strip_suffix('\n')?.split_at_checked(HASH)?;
    let length: u64 = length.trim_start().parse().ok()?;
    (length <= BLOB_CAP).then_some((Digest::from_hex(digest)?, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pack with these bytes in it, and where each of them ends.
    fn pack_of(path: &Path, all: &[&[u8]]) -> (File, Vec<u64>) {
        let file = create(path).unwrap();
        let mut ends = Vec::new();
        for bytes in all {
            let at = ends.last().copied().unwrap_or_default();
            ends.push(append(&file, at, Digest::of(bytes), bytes).unwrap());
        }
        (file, ends)
    }

    #[track_caller]
    fn check(path: &Path, from: u64, expected: &[&[u8]]) {
        let file = open(path).unwrap();
        let found = entries(&file, from).unwrap();
        let found: Vec<_> = found
            .into_iter()
            .map(|(digest, extent)| (digest, read(&file, extent).unwrap()))
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|bytes| (Digest::of(bytes), bytes.to_vec())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_was_put_there_is_found_again_up_to_what_is_torn() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pack");
        let (file, ends) = pack_of(&path, &[b"one", b"", &[b'x'; 500]]);
        check(&path, 0, &[b"one", b"", &[b'x'; 500]]);
        check(&path, ends[0], &[b"", &[b'x'; 500]]);
        for length in ends[1]..ends[2] {
            file.set_len(length).unwrap();
            check(&path, 0, &[b"one", b""]);
        }
        append(&file, ends[1], Digest::of(b"two"), b"two").unwrap();
        file.set_len(ends[1] + size(b"two")).unwrap();
        check(&path, 0, &[b"one", b"", b"two"]);
    }

    #[test]
    fn a_line_that_is_damaged_ends_the_pack() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pack");
        let digest = Digest::of(b"");
        let with_letter = format!("{}é", &digest.to_string()[1..]);
        for line in [
            format!("{digest} {:>LENGTH$}\n", "x"),
            format!("{digest} {:>LENGTH$}\n", "-1"),
            format!("{digest} {:>LENGTH$} ", "0"),
            format!("{digest} {:>LENGTH$}\n", BLOB_CAP + 1),
            format!("{:>HASH$} {:>LENGTH$}\n", "x", "0"),
            format!("{with_letter} {:>9}\n", "0"),
        ] {
            assert_eq!(line.len(), LINE, "{line}");
            let (file, ends) = pack_of(&path, &[b"one"]);
            file.write_all_at(line.as_bytes(), ends[0]).unwrap();
            // Room enough for whatever length it names.
            file.set_len(2 * BLOB_CAP).unwrap();
            check(&path, 0, &[b"one"]);
            std::fs::remove_file(&path).unwrap();
        }
    }
}
