//! The ApplyPatch tool: several files at once, all of them or none.
//!
//! Every file is locked and every hunk fitted before the first byte is
//! written. A hunk proves by its lines that the model knows the place; what is
//! overwritten as a whole or deleted must have been read, as for Write. A symbolic link
//! that is deleted goes itself; that is the business of `links`.

mod fit;
mod links;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::look_alike::named_differences;
use crate::message::{Output, ToolSchema};
use crate::patch::{FilePatch, Hunk, Line, Patch};

use super::blocking::to_the_end;
use super::bound::first_characters;
use super::change::{Before, Change, Done, FILE_CAP, Held, Planned, make_with_links, written_note};
use super::contents::Contents;
use super::edit::excerpt::numbered;
use super::edit::forgive::Leniency;
use super::edit::indent::foreign_note;
use super::encoding::TextEncoding;
use super::replace::Access;
use super::write::{NewContents, refuse_unseen, replaced};
use super::{Effect, Granted, Tool, ToolContext, ToolError, arguments};

use fit::{Fitted, Misfit, Place, fit};
use links::LinkDeletion;

/// Most lines and hunks that are listed for one file.
const PLACES_CAP: usize = 20;

/// Most characters of a line that an error quotes.
const QUOTE_CAP: usize = 120;

/// Applies patches.
#[derive(Debug, Clone, Copy)]
pub struct ApplyPatch;

const PARAMETERS: &str = r#"{"type":"object","properties":{
    "patch":{"type":"string","description":"The patch, from `*** Begin Patch` to `*** End Patch`."}
    },"required":["patch"]}"#;

impl Tool for ApplyPatch {
    fn schema(&self) -> ToolSchema {
        let description = include_str!("../../prompts/tools/apply_patch.md");
        arguments::schema("ApplyPatch", description, PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Edits
    }

    fn subject(&self, arguments: &Value) -> String {
        let patch = crate::patch::text(arguments).map(Patch::parse);
        let Some(Ok(patch)) = patch else { return String::new() };
        let paths: Vec<&str> = patch.paths().collect();
        cut(&paths.join(", "), arguments::SUBJECT_CAP)
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let Some(text) = crate::patch::text(&arguments) else {
                return Err(arguments::wrong("patch", "a string"));
            };
            let patch = Patch::parse(text)
                .map_err(|error| ToolError::tell(format!("Nothing was changed: {error}.")))?;
            let (workspace, places) = (Arc::clone(&context.workspace), call.places.clone());
            let (patch, unlinked) = to_the_end(move || {
                let unlinked = links::find(&workspace, &places, &patch);
                (patch, unlinked)
            })
            .await;
            let unlinked = unlinked?;
            let root = &context.workspace.root;
            let files = patch.files().iter().enumerate();
            let files = files.filter(|(index, _)| !unlinked.contains_key(index));
            let paths =
                files.flat_map(|(_, file)| file.paths()).map(|path| arguments::path(root, path));
            let held = Held::wait_all(context, call, paths.collect::<Result<_, _>>()?).await?;
            let steps = to_the_end(move || plan(&patch, held, unlinked)).await?;
            apply(context, call, steps).await
        })
    }
}

/// What is said of one change.
enum Told {
    /// The file is new, or all of it is.
    Added { lines: usize, note: String },
    /// It is gone.
    Deleted { has_other_names: bool },
    /// It is gone from here: what it became is told as well.
    Moved,
    /// It is another one, and perhaps somewhere else.
    Updated { from: Option<From>, places: Vec<Place>, note: &'static str },
}

/// Where a file was before.
struct From {
    shown: String,
    /// Whether the unit had seen all of it.
    known: bool,
    /// True if it has other hard links, which stay.
    has_other_names: bool,
}

/// A part of a patch that is worked out.
enum PatchStep {
    File(Box<Planned>, Told),
    Link(LinkDeletion),
}

/// Makes all changes, and says what was done, in the order of the patch.
async fn apply(
    context: &ToolContext,
    call: &Granted,
    steps: Vec<PatchStep>,
) -> Result<Output, ToolError> {
    let (mut planned, mut links, mut told) = (Vec::new(), Vec::new(), Vec::new());
    for step in steps {
        match step {
            PatchStep::File(change, words) => {
                planned.push(*change);
                told.push(Ok(words));
            }
            PatchStep::Link(LinkDeletion { relink, text }) => {
                links.push(relink);
                told.push(Err(text));
            }
        }
    }
    let done = make_with_links(context, call, planned, links).await?;
    let mut done = done.iter();
    let told = told.into_iter().map(|words| match words {
        Ok(words) => done.next().map(|done| words.of(done)).unwrap_or_default(),
        Err(of_link) => of_link,
    });
    Ok(Output::ok(told.collect::<String>()))
}

/// Works every change out, or says all that is wrong.
fn plan(
    patch: &Patch,
    held: Vec<Held>,
    mut unlinked: BTreeMap<usize, LinkDeletion>,
) -> Result<Vec<PatchStep>, ToolError> {
    let mut held = held.into_iter();
    let mut next = || held.next().expect("every path of the patch is held");
    let (mut steps, mut wrong) = (Vec::new(), Vec::new());
    for (index, file) in patch.files().iter().enumerate() {
        if let Some(unlinked) = unlinked.remove(&index) {
            steps.push(PatchStep::Link(unlinked));
            continue;
        }
        let planned = match file {
            FilePatch::Add { path: _, content } => add(next(), content),
            FilePatch::Delete { path: _ } => delete(next()),
            FilePatch::Update { path: _, to: None, hunks } => update(next(), hunks),
            FilePatch::Update { path: _, to: Some(_), hunks } => moved(next(), next(), hunks),
        };
        match planned {
            Ok(planned) => steps.extend(planned),
            Err(ToolError::TellModel { message }) => wrong.push(message),
            Err(error @ ToolError::Cancelled { .. }) => return Err(error),
        }
    }
    if wrong.is_empty() {
        return Ok(steps);
    }
    wrong.push("Nothing was changed in any file of the patch.".to_owned());
    Err(ToolError::tell(wrong.join("\n")))
}

fn add(held: Held, content: &str) -> Result<Vec<PatchStep>, ToolError> {
    let before = held.before()?;
    if let Some(before) = &before {
        refuse_unseen(&held, before, "Read it first, or use `*** Update File:`.")?;
    }
    let NewContents { bytes, note } = replaced(before.as_ref(), content);
    let change = Change::Write { bytes: bytes.into(), access: Access::Usual };
    let told = Told::Added { lines: content.lines().count(), note };
    Ok(vec![PatchStep::File(Box::new(Planned { held, before, change }), told)])
}

fn delete(held: Held) -> Result<Vec<PatchStep>, ToolError> {
    let before = held.before()?.ok_or_else(|| held.missing())?;
    refuse_unseen(&held, &before, "Read it before you delete it.")?;
    let change = Change::Delete;
    let told = Told::Deleted { has_other_names: before.has_other_names };
    Ok(vec![PatchStep::File(Box::new(Planned { held, before: Some(before), change }), told)])
}

fn update(held: Held, hunks: &[Hunk]) -> Result<Vec<PatchStep>, ToolError> {
    let before = held.before()?.ok_or_else(|| held.missing())?;
    let Fitted { bytes, places } = fitted(&held, &before, hunks)?;
    if bytes == *before.bytes {
        let shown = held.shown();
        return Err(ToolError::tell(format!("{shown} already is as the patch would leave it.")));
    }
    let change = Change::Write { bytes: bytes.into(), access: Access::Usual };
    let note = indent_note(&before, hunks);
    let told = Told::Updated { from: None, places, note };
    Ok(vec![PatchStep::File(Box::new(Planned { held, before: Some(before), change }), told)])
}

fn moved(from: Held, to: Held, hunks: &[Hunk]) -> Result<Vec<PatchStep>, ToolError> {
    let before = from.before()?.ok_or_else(|| from.missing())?;
    let there = to.before()?;
    if let Some(there) = &there {
        refuse_unseen(&to, there, "Read it before you move another file there.")?;
    }
    let Fitted { bytes, places } = fitted(&from, &before, hunks)?;
    let change = Change::Write { bytes: bytes.into(), access: Access::Exactly(before.rights) };
    let known = from.seen.of(&from.lock.target).whole == Some(before.hash());
    let has_other_names = before.has_other_names;
    let moved = From { shown: from.shown(), known, has_other_names };
    let note = indent_note(&before, hunks);
    let told = Told::Updated { from: Some(moved), places, note };
    let written = Planned { held: to, before: there, change };
    let gone = Planned { held: from, before: Some(before), change: Change::Delete };
    Ok(vec![PatchStep::File(Box::new(written), told), PatchStep::File(Box::new(gone), Told::Moved)])
}

fn fitted(held: &Held, before: &Before, hunks: &[Hunk]) -> Result<Fitted, ToolError> {
    let (encoding, text) = TextEncoding::decode(&before.bytes);
    let fitted = fit(&text, hunks).map_err(|misfit| misfitting(held, before, hunks, &misfit))?;
    let bytes = encoding.encode(fitted.bytes);
    if bytes.len() as u64 > FILE_CAP {
        return Err(held.grown());
    }
    Ok(Fitted { bytes, ..fitted })
}

/// Says that lines of hunks are indented otherwise than the file; may be empty.
fn indent_note(before: &Before, hunks: &[Hunk]) -> &'static str {
    let (_, text) = TextEncoding::decode(&before.bytes);
    let lines = |is_new: bool| {
        let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
        lines.filter(move |line| matches!(line, Line::Added(_)) == is_new).map(Line::text)
    };
    foreign_note(text.split(|&byte| byte == b'\n'), lines(false), lines(true))
}

/// Returns what a file would hold with these hunks; `None` if they do not fit.
#[must_use]
pub fn patched(before: &[u8], hunks: &[Hunk]) -> Option<Vec<u8>> {
    let (encoding, text) = TextEncoding::decode(before);
    fit(&text, hunks).ok().map(|fitted| encoding.encode(fitted.bytes))
}

/// Says why a hunk does not fit, and what to do.
fn misfitting(held: &Held, before: &Before, hunks: &[Hunk], misfit: &Misfit) -> ToolError {
    let shown = held.shown();
    let changed = held.changed_since(&before.bytes);
    let why = match misfit {
        Misfit::Missing { hunk, after, matched, near } => {
            let place = if *after == 0 { String::new() } else { format!(" behind line {after}") };
            let old = hunks[*hunk].old();
            let line = cut(old[*matched], QUOTE_CAP);
            let first = match matched {
                0 => format!("there is no line `{line}`{}", nearest_words(before, &line, *near)),
                1 => format!("its first line stands at line {near}, but `{line}` does not follow"),
                more => format!(
                    "its first {more} lines stand at line {near}, but `{line}` does not follow"
                ),
            };
            let number = hunk + 1;
            format!("hunk {number} does not stand there{place}: {first}")
        }
        Misfit::Unfit { hunk, line, new } => format!(
            "hunk {} matches at line {line} except for the white space at the start of lines, and \
             the indentation of `{}` there cannot be determined",
            hunk + 1,
            cut(new, QUOTE_CAP)
        ),
        Misfit::Several { hunk, lines } => {
            let (number, count) = (hunk + 1, lines.len());
            let listed: Vec<String> = lines.iter().take(PLACES_CAP).map(usize::to_string).collect();
            let more = match count - listed.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "hunk {number} fits {count} times, at lines {}{more}; add lines around \
                 it, or `@@` and a line that stands above it",
                listed.join(", ")
            )
        }
        Misfit::Anchor { hunk, anchor } => {
            let (number, anchor) = (hunk + 1, cut(anchor, QUOTE_CAP));
            format!("hunk {number} follows `{anchor}`, which does not stand there")
        }
        Misfit::Nowhere { hunk } => format!(
            "hunk {} only adds lines and does not say where; add a line that is \
             there, or `*** End of File`",
            hunk + 1
        ),
    };
    ToolError::tell(match (changed, misfit) {
        (Some(changed), Misfit::Missing { .. } | Misfit::Anchor { .. }) => {
            format!("{changed}, and {why}; read it again.")
        }
        (_, Misfit::Missing { .. } | Misfit::Anchor { .. } | Misfit::Unfit { .. }) => {
            format!("In {shown} {why}. Copy the lines from the file.")
        }
        (_, Misfit::Several { .. } | Misfit::Nowhere { .. }) => format!("In {shown} {why}."),
    })
}

/// Shows the line with the number `near`, which is nearest to `line`; empty if none is.
fn nearest_words(before: &Before, line: &str, near: usize) -> String {
    if near == 0 {
        return String::new();
    }
    let (_, text) = TextEncoding::decode(&before.bytes);
    let found = text.split(|&byte| byte == b'\n').nth(near - 1).unwrap_or_default();
    let named = named_differences(line, found);
    let named = match named.is_empty() {
        true => String::new(),
        false => format!(" (it differs in {})", named.join(", ")),
    };
    let found = cut(String::from_utf8_lossy(found).trim_end(), QUOTE_CAP);
    format!("; the nearest, line {near}, is `{found}`{named}")
}

/// Returns the start of a line.
fn cut(line: &str, most: usize) -> String {
    match first_characters(line, most) {
        (whole, 0) => whole.to_owned(),
        (start, _) => format!("{start}…"),
    }
}

impl Told {
    fn of(&self, done: &Done) -> String {
        let Done { planned: Planned { held, before, change }, made } = done;
        let (shown, note) = (held.shown(), written_note(held, *made));
        let note_whole = |bytes: &Contents| held.seen.note_whole(&held.lock.target, bytes.hash());
        let bytes = match change {
            Change::Write { bytes, access: _ } => Some(bytes),
            Change::Delete | Change::Link(_) => None,
        };
        match self {
            Self::Added { lines, note: kept } => {
                bytes.map(note_whole);
                let verb = if before.is_none() { "Created" } else { "Replaced" };
                format!("{verb} {shown}: {lines} lines.{kept}{note}\n")
            }
            Self::Deleted { has_other_names } => {
                format!("Deleted {shown}.{}\n", other_names_note(*has_other_names))
            }
            Self::Moved => String::new(),
            Self::Updated { from, places, note: own } => {
                let lines: Vec<String> =
                    places.iter().take(PLACES_CAP).map(|place| place.line.to_string()).collect();
                let more = if places.len() > lines.len() { ", …" } else { "" };
                let hunks = match places.len() {
                    0 => "unchanged".to_owned(),
                    1 => format!("1 hunk, at line {}", lines.join("")),
                    count => format!("{count} hunks, at lines {}{more}", lines.join(", ")),
                };
                let what = match from {
                    Some(From { shown: from, known, has_other_names: _ }) => {
                        if *known {
                            bytes.map(note_whole);
                        }
                        format!("Moved {from} to {shown}")
                    }
                    None => format!("Updated {shown}"),
                };
                let stay = from.as_ref().is_some_and(|from| from.has_other_names);
                let stay = other_names_note(stay);
                let after = bytes.map(|bytes| TextEncoding::decode(bytes).1).unwrap_or_default();
                format!("{what}: {hunks}.{own}{stay}{note}\n{}", forgiven_words(&after, places))
            }
        }
    }
}

fn other_names_note(has_other_names: bool) -> &'static str {
    if has_other_names { " The file's other hard links stay." } else { "" }
}

/// Says what was forgiven, and shows the lines where it was.
fn forgiven_words(after: &[u8], places: &[Place]) -> String {
    let mut text = String::new();
    for (forgiven, what) in [
        (Leniency::Space, "Matched except for white space around lines"),
        (Leniency::Characters, "Matched except for look-alike characters"),
    ] {
        let forgiven = places.iter().filter(|place| place.forgiven == Some(forgiven));
        for (at, Place { line, count, .. }) in forgiven.take(PLACES_CAP).enumerate() {
            if at == 0 {
                text.push_str(&format!("{what}; check the result:\n"));
            }
            text.push_str(&numbered(after, *line, line + count));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::tool::read::Read;
    use crate::tool::testing::{Place, call};

    fn patch(body: &str) -> Value {
        json!({"patch": format!("*** Begin Patch\n{body}\n*** End Patch\n")})
    }

    async fn read(place: &Place, name: &str) {
        place.call(&Read, json!({"file_path": name})).await.unwrap();
    }

    #[tokio::test]
    async fn files_are_made_changed_moved_and_deleted_by_one_call() {
        let place = Place::new();
        let script = place.put("run.sh", "one\ntwo\n");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o750)).unwrap();
        place.put("b", "x\n");
        place.put("old", "gone\n");
        read(&place, "old").await;
        let text = place
            .call(
                &ApplyPatch,
                patch(
                    "*** Add File: new/deep/c\n+c\n*** Update File: run.sh\n*** Move to: bin/go\n one\n\
                     -two\n+three\n*** Delete File: old\n*** Update File: b\n@@\n x\n+y",
                ),
            )
            .await;
        let expected = "Created new/deep/c: 1 lines.\nMoved run.sh to bin/go: 1 hunk, at line 1.\n\
             Deleted old.\nUpdated b: 1 hunk, at line 1.\n";
        assert_eq!(text.as_deref(), Ok(expected));
        let held = ["new/deep/c", "bin/go", "b"].map(|name| place.bytes(name));
        assert_eq!(held, [b"c\n".to_vec(), b"one\nthree\n".to_vec(), b"x\ny\n".to_vec()]);
        assert_eq!(place.path("bin/go").metadata().unwrap().permissions().mode() & 0o777, 0o750);
        assert!(!script.exists() && !place.path("old").exists());
    }

    #[tokio::test]
    async fn one_part_that_does_not_fit_leaves_every_file_as_it_is() {
        let place = Place::new();
        place.put("a", "1\n2\n1\n");
        place.put("b", "x\n");
        let refused = place
            .call(
                &ApplyPatch,
                patch(
                    "*** Update File: b\n-x\n+y\n*** Update File: a\n-1\n+3\n*** Add File: b2\n+z\n\
                     *** Delete File: none\n*** Update File: c\n*** Move to: d",
                ),
            )
            .await
            .unwrap_err();
        let expected = "In a hunk 1 fits 2 times, at lines 1, 3; add lines around it, or `@@` and a \
             line that stands above it.\nThere is no file none.\nThere is no file c. Did you mean a?\n\
             Nothing was changed in any file of the patch.";
        assert_eq!(refused, expected);
        assert_eq!((place.bytes("b"), place.path("b2").exists()), (b"x\n".to_vec(), false));
    }

    #[tokio::test]
    async fn a_misfit_names_the_hunk_and_how_far_it_fits() {
        let place = Place::new();
        let sibling = place.unit(3);
        place.put("a", "one\ntwo\nthree\n");
        let check = async |body: &str, expected: &str| {
            let body = format!("*** Update File: a\n{body}");
            let refused = place.call(&ApplyPatch, patch(&body)).await.unwrap_err();
            let expected = format!("{expected}\nNothing was changed in any file of the patch.");
            assert_eq!(refused, expected);
        };
        check(
            " one\n-two\n@@\n three\n-four",
            "In a hunk 2 does not stand there behind line 2: its first line stands at line 3, but \
             `four` does not follow. Copy the lines from the file.",
        )
        .await;
        check(
            "@@ fn main\n-two",
            "In a hunk 1 follows `fn main`, which does not stand there. Copy the lines from the file.",
        )
        .await;
        check(
            "+two",
            "In a hunk 1 only adds lines and does not say where; add a line that is there, or \
             `*** End of File`.",
        )
        .await;
        read(&place, "a").await;
        call(&ApplyPatch, &sibling, patch("*** Update File: a\n-two\n+2")).await.unwrap();
        check(
            "-two",
            "agent-3 changed a since you read it, and hunk 1 does not stand there: there is no line \
             `two`; read it again.",
        )
        .await;
    }

    #[tokio::test]
    async fn what_was_not_read_is_neither_deleted_nor_replaced() {
        let place = Place::new();
        place.put("a", "x\n");
        place.put("b", "y\n");
        let refused = place
            .call(
                &ApplyPatch,
                patch(
                    "*** Delete File: a\n*** Add File: b\n+z\n*** Update File: c\n*** Move to: d",
                ),
            )
            .await
            .unwrap_err();
        let expected = "a exists and you have not read it to its end. Read it before you delete it.\n\
             b exists and you have not read it to its end. Read it first, or use `*** Update File:`.\n\
             There is no file c. Did you mean a?\nNothing was changed in any file of the patch.";
        assert_eq!(refused, expected);
        read(&place, "a").await;
        let over = patch("*** Update File: b\n*** Move to: a");
        place.call(&ApplyPatch, over).await.unwrap();
        // What became of its own patch a unit need not read again.
        place.call(&ApplyPatch, patch("*** Add File: new\n+1")).await.unwrap();
        place.call(&ApplyPatch, patch("*** Delete File: new")).await.unwrap();
        assert_eq!(place.bytes("a"), b"y\n");
    }

    #[tokio::test]
    async fn a_file_that_is_named_twice_is_refused() {
        let place = Place::new();
        place.put("a", "x\ny\n");
        std::fs::hard_link(place.path("a"), place.path("b")).unwrap();
        for (other, expected) in [
            ("a", "a is named twice; say once what shall become of it."),
            ("b", "a and b are the same file; nothing was changed."),
        ] {
            let twice = patch(&format!("*** Update File: a\n-x\n*** Update File: {other}\n-y"));
            assert_eq!(place.call(&ApplyPatch, twice).await.unwrap_err(), expected);
        }
    }

    #[tokio::test]
    async fn a_failure_midway_puts_back_what_was_done() {
        let place = Place::new();
        let script = place.put("a", "x\n");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o705)).unwrap();
        place.put("gone", "y\n");
        read(&place, "gone").await;
        // Found out only when it is made: a file stands where a directory must.
        let body = "*** Update File: a\n-x\n+z\n*** Delete File: gone\n*** Add File: new/file\n+1\n\
                    *** Add File: new/file/below\n+2";
        let refused = place.call(&ApplyPatch, patch(body)).await.unwrap_err();
        let expected = "Cannot write new/file/below: Not a directory (os error 20). What had been \
             changed was put back; nothing is changed.";
        assert_eq!(refused, expected);
        assert_eq!((place.bytes("a"), place.bytes("gone")), (b"x\n".to_vec(), b"y\n".to_vec()));
        assert_eq!(script.metadata().unwrap().permissions().mode() & 0o777, 0o705);
        let names = place.root().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["a", "gone"]);
    }

    #[tokio::test]
    async fn forgiven_white_space_is_said_and_shown() {
        let place = Place::new();
        place.put("a", "if x:\n        y()\n        z()\n");
        let body = "*** Update File: a\n if x:\n-    y()\n-    z()\n+    w()";
        let refused = place.call(&ApplyPatch, patch(body)).await.unwrap();
        let expected = "Updated a: 1 hunk, at line 1.\nMatched except for white space around \
             lines; check the result:\n     1\tif x:\n     2\t        w()\n";
        assert_eq!(refused, expected);
    }

    #[tokio::test]
    async fn what_is_no_patch_is_said() {
        let place = Place::new();
        for (arguments, expected) in [
            (
                json!({"input": "x"}),
                "Nothing was changed: a patch begins with the line `*** Begin Patch`.",
            ),
            (json!({"patch": 1}), "Parameter \"patch\" must be a string."),
        ] {
            assert_eq!(place.call(&ApplyPatch, arguments).await.unwrap_err(), expected);
        }
    }

    #[tokio::test]
    async fn a_patch_waits_for_every_file_and_others_for_it() {
        let place = Place::new();
        place.put("a", "x\n");
        let (files, roots) = (&place.workspace.files, &place.workspace.roots);
        let held = files.lock(roots, &place.path("a")).await.unwrap();
        let body = "*** Update File: a\n-x\n+y\n*** Add File: b\n+z";
        let mut waiting = Box::pin(place.call(&ApplyPatch, patch(body)));
        assert_eq!(waiting.as_mut().now_or_never(), None);
        assert!(!place.path("b").exists());
        drop(held);
        waiting.await.unwrap();
        assert_eq!((place.bytes("a"), place.bytes("b")), (b"y\n".to_vec(), b"z\n".to_vec()));
    }
}
