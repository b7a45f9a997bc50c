//! Files that git calls binary and that are text: because an attribute says so,
//! or because they are large.
//!
//! Attributes come with the change that is looked at, so none of them may keep a
//! file from whoever looks.

use std::collections::BTreeSet;

use super::{Git, GitError, OUTPUT_CAP, Repository};
use crate::diff::{self, Piece};

/// Most files of which git is asked what is in them. A change with more such
/// files is one of pictures; those beyond are told as ones that may be text.
const PROBES_CAP: usize = 500;

/// Most bytes that are looked at to tell whether a file is text.
const HEAD_CAP: usize = 64 * 1024;

/// Shows in a diff what is text after all, and returns it with the names of the
/// files that may be text and have no room in it. Of a diff that is not whole
/// because of its large files, none is shown.
pub(super) fn shown(
    repository: &Repository<'_>,
    revisions: &[&str],
    (text, is_whole): (&str, bool),
) -> Result<(String, BTreeSet<String>), GitError> {
    let pieces = diff::pieces(text);
    let mut too_large = BTreeSet::new();
    if !pieces.iter().any(|piece| piece.file.binary) {
        return Ok((text.to_owned(), too_large));
    }
    let git = Git::at(repository.program, &repository.top)?;
    let mut room = if is_whole { OUTPUT_CAP.saturating_sub(text.len()) } else { 0 };
    let (mut whole, mut probes) = (String::with_capacity(text.len()), 0);
    for piece in &pieces {
        if piece.file.binary {
            probes += 1;
            let found = match probes <= PROBES_CAP {
                true => look(&git, revisions, (piece, room))?,
                false => Found::Hidden,
            };
            match found {
                Found::Binary => {}
                Found::Text(text) => {
                    room = room.saturating_sub(text.len());
                    whole.push_str(&text);
                    continue;
                }
                Found::Hidden => {
                    too_large.insert(piece.file.path().to_owned());
                }
            }
        }
        whole.push_str(piece.head);
        whole.extend(piece.hunks.iter().copied());
    }
    Ok((whole, too_large))
}

/// What a file is that git calls binary.
enum Found {
    Binary,
    /// Its part of the diff.
    Text(String),
    /// It may be text, and cannot be shown.
    Hidden,
}

fn look(
    git: &Git,
    revisions: &[&str],
    (piece, room): (&Piece<'_>, usize),
) -> Result<Found, GitError> {
    let mut names: Vec<&String> =
        [&piece.file.old_path, &piece.file.new_path].into_iter().flatten().collect();
    names.dedup();
    let names: Vec<String> =
        names.into_iter().map(|name| format!(":(top,literal){name}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let arguments = [&Repository::DIFF, &["--text"][..], revisions, &["--"], &names].concat();
    let (head, is_cut) = git.head(&arguments, HEAD_CAP)?;
    if head.contains(&0) {
        return Ok(Found::Binary);
    }
    let text = match is_cut {
        false => head,
        true if room <= HEAD_CAP => return Ok(Found::Hidden),
        true => match git.head(&arguments, room)? {
            (_, true) => return Ok(Found::Hidden),
            (text, false) => text,
        },
    };
    // A name that is not UTF-8 is another one by now, and means nothing.
    match text.is_empty() || text.len() > room {
        true => Ok(Found::Hidden),
        false => Ok(Found::Text(half(&String::from_utf8_lossy(&text), piece))),
    }
}

/// Returns the part of git's answer that is about this piece. A file that has become
/// a link is two pieces of one name, and git is asked by the name.
fn half(answer: &str, piece: &Piece<'_>) -> String {
    let names = |piece: &Piece<'_>| (piece.file.old_path.clone(), piece.file.new_path.clone());
    let pieces = diff::pieces(answer);
    let own = pieces.iter().find(|other| names(other) == names(piece));
    own.map_or_else(|| answer.to_owned(), |own| format!("{}{}", own.head, own.hunks.concat()))
}
