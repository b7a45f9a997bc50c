//! Untracked files as the additions they would be, without touching the index.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

use super::{Apart, ApartKind, Diff, GitError, OUTPUT_CAP, call};
use crate::code;

/// Most untracked files that are looked at. More is a build directory somebody
/// forgot to ignore.
const FILES_CAP: usize = 2_000;

/// Most bytes of one untracked file that is shown as text. Larger ones are
/// data sets and bundles; they are named without their content.
pub(super) const FILE_CAP: usize = 512 * 1024;

/// The mode of a file that is no link and that nobody is to run.
const PLAIN: &str = "100644";

/// How far git looks for a NUL byte to tell whether a file is binary.
const BINARY_PROBE: usize = 8_000;

/// How the files begin that this program writes where it is told to: traces and
/// SARIF of reviews.
const OURS: [&[u8]; 4] = [
    b"<!doctype html>\n<!-- tine-trace ",
    b"{\"format\":\"tine-trace\"",
    b"{\"otherData\":{\"format\":\"tine-trace\"",
    b"{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\",\"version\":\"2.1.0\",\
      \"runs\":[{\"tool\":{\"driver\":{\"name\":\"tine\"",
];

/// Appends each file that `names` lists, separated by NUL, to a diff. What may be
/// text and is too large is named besides, and what is no work of the user's is set
/// apart.
pub(super) fn append(top: &Path, names: &[u8], diff: &mut Diff) -> Result<(), GitError> {
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    // A name that ends with a slash is a repository of its own.
    let (nested, names): (Vec<_>, Vec<_>) = names.partition(|name| name.ends_with(b"/"));
    diff.apart.extend(nested.into_iter().map(|name| apart(name, ApartKind::Repository)));
    if names.len() > FILES_CAP {
        let message = format!(
            "there are {} untracked files; add what is generated to .gitignore",
            names.len()
        );
        return Err(GitError::Failed { message });
    }
    for name in names {
        // A file can go away between the listing and now.
        let Ok(file) = read(&top.join(call::path(name))) else { continue };
        if is_ours(name, &file) {
            diff.apart.push(apart(name, ApartKind::Ours));
            continue;
        }
        if file.is_too_large && !is_binary(&file.content) {
            diff.too_large.insert(String::from_utf8_lossy(name).into_owned());
        }
        append_file(name, &file, &mut diff.text);
        if diff.text.len() > OUTPUT_CAP {
            let message = format!("the change is larger than {OUTPUT_CAP} bytes");
            return Err(GitError::Failed { message });
        }
    }
    Ok(())
}

struct Untracked {
    mode: &'static str,
    /// Its first bytes if it is too large.
    content: Vec<u8>,
    is_too_large: bool,
}

fn apart(name: &[u8], kind: ApartKind) -> Apart {
    let name = name.strip_suffix(b"/").unwrap_or(name);
    Apart { path: String::from_utf8_lossy(name).into_owned(), kind }
}

/// Tells whether this program may have written a file: it begins so, and is nothing
/// that runs. Anybody can begin a file like this, and go on with code.
fn is_ours(name: &[u8], file: &Untracked) -> bool {
    // By its ending alone: nobody writes by hand what is in `dist`, and yet it runs.
    let ending = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let ending = format!("file.{}", String::from_utf8_lossy(ending));
    let is_code = code::language(&ending).is_some_and(code::is_code);
    !is_code && file.mode == PLAIN && begins_as_ours(&file.content)
}

fn begins_as_ours(content: &[u8]) -> bool {
    // The lines of a map begin with what a row is called.
    let is_map = content.strip_prefix(b"{\"id\":\"").is_some_and(|rest| {
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let next = b"\",\"row\":1,\"status\":\"";
        line.windows(next.len()).any(|part| part == next)
    });
    is_map || OURS.iter().any(|begin| content.starts_with(begin))
}

/// Tells whether git would take a file that begins so for binary.
fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(BINARY_PROBE)].contains(&0)
}

fn read(path: &Path) -> std::io::Result<Untracked> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_symlink() {
        let target = fs::read_link(path)?;
        return Ok(Untracked {
            mode: "120000",
            content: target.as_os_str().as_bytes().to_vec(),
            is_too_large: false,
        });
    }
    // A file that was swapped for a link or a pipe since must neither lead out
    // of the repository nor make us wait.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let mut content = Vec::new();
    file.take(FILE_CAP as u64 + 1).read_to_end(&mut content)?;
    let mode = if metadata.permissions().mode() & 0o100 == 0 { PLAIN } else { "100755" };
    let is_too_large = content.len() > FILE_CAP;
    Ok(Untracked { mode, content, is_too_large })
}

fn append_file(name: &[u8], file: &Untracked, diff: &mut Vec<u8>) {
    let (old, new) = (quote(b"a/", name), quote(b"b/", name));
    let mut put = |parts: &[&[u8]]| diff.extend(parts.concat());
    put(&[b"diff --git ", &old, b" ", &new, b"\nnew file mode ", file.mode.as_bytes(), b"\n"]);
    let text = &file.content;
    if file.is_too_large || is_binary(text) {
        return put(&[b"Binary files /dev/null and ", &new, b" differ\n"]);
    }
    if text.is_empty() {
        return;
    }
    let end: &[u8] = if name.contains(&b' ') { b"\t\n" } else { b"\n" };
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    let count = lines.clone().count().to_string();
    put(&[b"--- /dev/null\n+++ ", &new, end, b"@@ -0,0 +1,", count.as_bytes(), b" @@\n"]);
    for line in lines {
        put(&[b"+", line]);
    }
    if !text.ends_with(b"\n") {
        put(&[b"\n\\ No newline at end of file\n"]);
    }
}

/// Writes a name as git does: in quotes if it holds a quote, a backslash or a
/// control character.
fn quote(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    let plain = |&byte: &u8| byte >= b' ' && !matches!(byte, b'"' | b'\\' | 0x7f);
    if name.iter().all(plain) {
        return [prefix, name].concat();
    }
    let mut quoted = [b"\"", prefix].concat();
    for byte in name {
        if plain(byte) {
            quoted.push(*byte);
        } else {
            quoted.extend(format!("\\{byte:03o}").into_bytes());
        }
    }
    quoted.push(b'"');
    quoted
}
