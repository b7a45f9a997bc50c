//! The Edit tool: one piece of a file for another.
//!
//! It works on bytes: what lies outside the match is never decoded, so line
//! ends, byte order marks and other encodings survive. Only UTF-16 is decoded, and
//! written back as it was. The match itself proves that the model knows the place, so
//! no earlier Read is asked for.

pub(super) mod excerpt;
pub(super) mod find;
pub(super) mod forgive;
pub(super) mod indent;
pub(super) mod nearest;
pub(super) mod rewrite;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;

use crate::look_alike::named_differences;
use crate::message::{Output, ToolSchema};

use super::arguments;
use super::blocking::to_the_end;
use super::bound::first_characters;
use super::change::{Before, Change, Done, FILE_CAP, Held, Planned, make, written_note};
use super::encoding::{TextEncoding, conversion_hint};
use super::replace::Access;
use super::{Effect, Granted, Tool, ToolContext, ToolError};

use excerpt::{excerpt, numbered};
use forgive::{Fitted, Found, Leniency, plain_line};
use indent::foreign_note;
use nearest::nearest_line;

/// Most line numbers that are listed for one call.
const PLACES_CAP: usize = 20;

/// Maximum characters that are named for one call.
const CHARACTERS_CAP: usize = 5;

/// Maximum lines of the nearest place that an error shows.
const NEAREST_LINES: usize = 8;

/// Maximum characters of a line that an error quotes.
const QUOTE_CAP: usize = 120;

/// Bytes of a file that show in which encoding it is.
const HINT_BYTES: usize = 8_000;

/// Edits files.
#[derive(Debug, Clone, Copy)]
pub struct Edit;

const PARAMETERS: &str = r#"{"type":"object","properties":{
    "file_path":{"type":"string","description":"The file, absolute or relative to the working directory."},
    "old_string":{"type":"string","description":"The text to replace, exactly as it stands in the file."},
    "new_string":{"type":"string","description":"The text to put there; may be empty."},
    "replace_all":{"type":"boolean","description":"Replace every place instead of the only one."}
    },"required":["file_path","old_string","new_string"]}"#;

impl Tool for Edit {
    fn schema(&self) -> ToolSchema {
        arguments::schema("Edit", include_str!("../../prompts/tools/edit.md"), PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Edits
    }

    fn subject(&self, arguments: &Value) -> String {
        arguments::subject(arguments, "file_path")
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let (path, wanted) = Wanted::parse(arguments)?;
            let path = arguments::path(&context.workspace.root, &path)?;
            let held = Held::wait(context, call, path).await?;
            let (planned, told) = to_the_end(move || plan(held, &wanted)).await?;
            let done = make(context, call, vec![planned]).await?;
            Ok(Output::ok(done.iter().map(|done| told.of(done)).collect::<String>()))
        })
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    file_path: Value,
    #[serde(default)]
    old_string: Value,
    #[serde(default)]
    new_string: Value,
    #[serde(default)]
    replace_all: Value,
}

/// The change a call asks for: two texts that differ, the first not empty.
struct Wanted {
    old: String,
    new: String,
    everywhere: bool,
}

impl Wanted {
    fn parse(arguments: Value) -> Result<(String, Self), ToolError> {
        let raw: Raw = arguments::parse(arguments)?;
        let path = arguments::text("file_path", raw.file_path)?;
        let old = arguments::any_text("old_string", raw.old_string)?;
        let new = arguments::any_text("new_string", raw.new_string)?;
        let everywhere = arguments::flag("replace_all", &raw.replace_all, false)?;
        if old.is_empty() {
            return Err(ToolError::tell(
                "\"old_string\" is empty. Use Write to make a file or to replace all of it.",
            ));
        }
        if old == new {
            return Err(ToolError::tell("\"old_string\" and \"new_string\" are the same."));
        }
        Ok((path, Self { old, new, everywhere }))
    }

    /// Returns the same change with line ends as in the file. A model is shown
    /// no carriage returns, so it writes none.
    fn with_line_ends_of(&self, bytes: &[u8]) -> Self {
        let plain = |text: &str| text.replace("\r\n", "\n");
        let Self { old, new, everywhere } = self;
        let (old, new) = if find::only_crlf(bytes) {
            (with_crlf(old), with_crlf(new))
        } else if old.contains("\r\n") && !bytes.contains(&b'\r') {
            (plain(old), plain(new))
        } else {
            (old.clone(), new.clone())
        };
        Self { old, new, everywhere: *everywhere }
    }
}

fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Works the change out.
fn plan(held: Held, wanted: &Wanted) -> Result<(Planned, Told), ToolError> {
    let Some(before) = held.before()? else {
        return Err(held.missing());
    };
    let (encoding, text) = TextEncoding::decode(&before.bytes);
    let mut wanted = wanted.with_line_ends_of(&text);
    if wanted.old == wanted.new {
        return Err(ToolError::tell(format!(
            "\"old_string\" and \"new_string\" differ only in line endings. Edit keeps those of \
             {}; nothing was changed. To convert the file, use Bash.",
            held.shown()
        )));
    }
    let old = wanted.old.clone();
    let mut places = find::all(&text, old.as_bytes());
    if let [only] = places[..]
        && !wanted.everywhere
    {
        places.extend(find::second(&text, old.as_bytes(), only));
    }
    if !places.is_empty() {
        check_encoding(&held, &before, &encoding)?;
    }
    let (after, told) = match places[..] {
        [] => forgiven(&held, &before, &text, &wanted)?,
        [_, _, ..] if !wanted.everywhere => {
            let (shown, count, lines) = (held.shown(), places.len(), line_list(&text, &places));
            return Err(ToolError::tell(format!(
                "\"old_string\" stands {count} times in {shown}, at {lines}. \
                 Add lines around it until it is unique, or set \"replace_all\"."
            )));
        }
        [first, ..] => {
            if !old.contains('\n') && places.iter().all(|place| is_crlf_at(&text, *place)) {
                wanted.new = with_crlf(&wanted.new);
            }
            let new = &wanted.new;
            let after = spliced(&text, &places, old.len(), new.as_bytes());
            let after = after.ok_or_else(|| held.grown())?;
            let what = match places.len() {
                1 => "1 replacement".to_owned(),
                count => format!("{count} replacements, at {} before", line_list(&text, &places)),
            };
            // If the text begins within a line, the start of that line is the file's own.
            let lines = text.split(|&byte| byte == b'\n');
            let note = foreign_note(lines, old.lines().skip(1), new.lines().skip(1));
            let excerpt = excerpt(&after, first, new.len());
            (after, Told { what, note, excerpt })
        }
    };
    let after = encoding.encode(after);
    if after.len() as u64 > FILE_CAP {
        return Err(held.grown());
    }
    let change = Change::Write { bytes: after.into(), access: Access::Usual };
    Ok((Planned { held, before: Some(before), change }, told))
}

/// Refuses a file whose characters have two or four bytes each and that has no byte order mark:
/// a text of another length would shift all characters after it.
fn check_encoding(held: &Held, before: &Before, encoding: &TextEncoding) -> Result<(), ToolError> {
    let start = &before.bytes[..before.bytes.len().min(HINT_BYTES)];
    let hint = conversion_hint(start, &held.shown());
    if matches!(encoding, TextEncoding::Bytes) && !hint.is_empty() {
        return Err(ToolError::tell(format!("Nothing was changed in {}.{hint}", held.shown())));
    }
    Ok(())
}

/// Returns whether the line that holds a place ends with CRLF.
fn is_crlf_at(bytes: &[u8], place: usize) -> bool {
    let feed = memchr::memchr(b'\n', &bytes[place..]);
    feed.is_some_and(|feed| bytes[..place + feed].ends_with(b"\r"))
}

/// Makes the change where `old` is found only by what is forgiven.
fn forgiven(
    held: &Held,
    before: &Before,
    text: &[u8],
    wanted: &Wanted,
) -> Result<(Vec<u8>, Told), ToolError> {
    let found = forgive::find(text, &wanted.old, &wanted.new);
    let Found::Once(fitted) = &found else {
        return Err(no_match(held, before, text, &found, wanted));
    };
    if wanted.everywhere {
        return Err(no_match(held, before, text, &found, wanted));
    }
    let Fitted { place, new, .. } = fitted;
    if text[place.clone()] == **new {
        return Err(ToolError::tell(format!(
            "{} already holds \"new_string\" there; nothing was changed.",
            held.shown()
        )));
    }
    let after = spliced(text, &[place.start], place.len(), new).ok_or_else(|| held.grown())?;
    let excerpt = excerpt(&after, place.start, new.len());
    let what = format!("1 replacement. {} Check the result", forgiven_words(text, fitted));
    Ok((after, Told { what, note: "", excerpt }))
}

/// Says what was forgiven, and what the file's own is.
fn forgiven_words(text: &[u8], fitted: &Fitted) -> String {
    let Fitted { place, new: _, moved, forgiven, characters } = fitted;
    let (first, last) = line_span(text, place.start, place.len());
    let mut words = match forgiven {
        Leniency::Space => format!(
            "\"old_string\" matched lines {first} to {last} except for white space at the start \
             or end of lines."
        ),
        Leniency::Characters => format!(
            "\"old_string\" matched lines {first} to {last} except for look-alike characters; \
             where both strings agree, the file keeps its characters."
        ),
    };
    if !characters.is_empty() {
        let named: Vec<&str> = characters.iter().take(CHARACTERS_CAP).map(String::as_str).collect();
        words.push_str(&format!(" Differing characters: {}.", named.join(", ")));
    }
    if *moved {
        words.push_str(" The new lines were indented like the matched lines.");
    }
    words
}

/// What is said of an edit.
struct Told {
    what: String,
    note: &'static str,
    excerpt: String,
}

impl Told {
    fn of(&self, done: &Done) -> String {
        let Self { what, note: own, excerpt } = self;
        let (shown, note) =
            (done.planned.held.shown(), written_note(&done.planned.held, done.made));
        format!("Edited {shown}: {what}.{own}{note}\n{excerpt}")
    }
}

/// Says why nothing was changed, and shows the nearest place.
fn no_match(
    held: &Held,
    before: &Before,
    text: &[u8],
    found: &Found,
    wanted: &Wanted,
) -> ToolError {
    let mut message = match held.changed_since(&before.bytes) {
        Some(changed) => format!("{changed}, and \"old_string\" is not there; read it again."),
        None => format!("\"old_string\" does not stand in {}.", held.shown()),
    };
    let differing = |forgiven: &Leniency| match forgiven {
        Leniency::Space => "white space at the start or end of lines",
        Leniency::Characters => "characters that look alike",
    };
    message.push_str(&match found {
        Found::Nowhere => {
            let hint = conversion_hint(&text[..text.len().min(HINT_BYTES)], &held.shown());
            hint + &nearest_words(text, &wanted.old)
        }
        Found::Once(fitted) => {
            let line = find::line_number(text, fitted.place.start);
            let named: Vec<&str> =
                fitted.characters.iter().take(CHARACTERS_CAP).map(String::as_str).collect();
            let named =
                if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
            format!(
                " It matches at line {line} except for {}{named}. \"replace_all\" needs exact \
                 matches.",
                differing(&fitted.forgiven)
            )
        }
        Found::UnknownIndent(place, unfit) => {
            let (first, last) = line_span(text, place.start, place.len());
            let line = first_characters(&unfit.line, QUOTE_CAP).0;
            format!(
                " It matches lines {first} to {last} except for the white space at the start of \
                 lines, and the indentation of `{line}` there cannot be determined. Copy the \
                 lines from the file:\n{}",
                numbered(text, first, last)
            )
        }
        Found::Several(places, forgiven) => {
            let (count, lines) = (places.len(), line_list(text, places));
            format!(
                " Except for {}, it occurs {count} times, at {lines}. Copy it from the file, \
                 with enough surrounding lines to make it unique.",
                differing(forgiven)
            )
        }
    });
    ToolError::tell(message)
}

/// Shows the lines that are nearest to the first line of a text; may be empty.
fn nearest_words(text: &[u8], old: &str) -> String {
    let Some(first) = old.lines().find(|line| !line.trim().is_empty()) else {
        return String::new();
    };
    let Some(at) = nearest_line(text.split(|&byte| byte == b'\n'), first) else {
        return String::new();
    };
    let line = text.split(|&byte| byte == b'\n').nth(at).unwrap_or_default();
    let last = at + old.lines().count().min(NEAREST_LINES);
    let same = plain_line(line) == plain_line(first.as_bytes());
    let which = if same { "Its first line matches" } else { "The nearest is" };
    let named = named_differences(first, line);
    let named: Vec<&str> = named.iter().take(CHARACTERS_CAP).map(String::as_str).collect();
    let named = match named.is_empty() {
        true => String::new(),
        false => format!(" (it differs in {})", named.join(", ")),
    };
    format!(" {which} line {}{named}:\n{}", at + 1, numbered(text, at + 1, last))
}

/// Returns the bytes with `new` in all places; `None` if there were more than
/// [`FILE_CAP`] of them.
fn spliced(bytes: &[u8], places: &[usize], old: usize, new: &[u8]) -> Option<Vec<u8>> {
    // A short text that stands often, and a long one for it: the product of
    // the two may be more than there is memory.
    let kept = bytes.len() - places.len() * old;
    let size = places.len().checked_mul(new.len())?.checked_add(kept)?;
    if size as u64 > FILE_CAP {
        return None;
    }
    let mut after = Vec::with_capacity(size);
    let mut from = 0;
    for &place in places {
        after.extend_from_slice(&bytes[from..place]);
        after.extend_from_slice(new);
        from = place + old;
    }
    after.extend_from_slice(&bytes[from..]);
    Some(after)
}

/// Returns the first and the last line of `length` bytes at `place`.
fn line_span(bytes: &[u8], place: usize, length: usize) -> (usize, usize) {
    let last = place + length.saturating_sub(1);
    (find::line_number(bytes, place), find::line_number(bytes, last))
}

fn line_list(bytes: &[u8], places: &[usize]) -> String {
    let lines = find::line_numbers(bytes, &places[..places.len().min(PLACES_CAP)]);
    let listed: Vec<String> = lines.iter().map(usize::to_string).collect();
    let more = match places.len() - lines.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("lines {}{more}", listed.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::excerpt::{EXCERPT_LINE, EXCERPT_LINES};
    use super::*;
    use crate::tool::read::Read;
    use crate::tool::testing::{Place, call};
    use crate::tool::write::Write;

    fn arguments(old: &str, new: &str) -> Value {
        json!({"file_path": "a", "old_string": old, "new_string": new})
    }

    #[track_caller]
    fn bytes_after(place: &Place, result: &Result<String, String>) -> Vec<u8> {
        assert!(result.is_ok(), "{result:?}");
        place.bytes("a")
    }

    #[tokio::test]
    async fn the_only_match_is_replaced_and_the_lines_around_it_are_shown() {
        let place = Place::new();
        let lines: String = (1..=9).map(|number| format!("line {number}\n")).collect();
        place.put("a", lines);
        let text = place.call(&Edit, arguments("line 5\n", "five\nand a half\n")).await;
        let expected = "Edited a: 1 replacement.\n     2\tline 2\n     3\tline 3\n     4\tline 4\n     \
             5\tfive\n     6\tand a half\n     7\tline 6\n     8\tline 7\n     9\tline 8\n    10\tline 9\n";
        assert_eq!(text.as_deref(), Ok(expected));
    }

    #[tokio::test]
    async fn texts_that_differ_only_in_line_endings_are_refused() {
        for (before, old, new) in [
            ("a\r\nb\r\n", "a\r\n", "a\n"),
            ("a\r\nb\r\n", "a\n", "a\r\n"),
            ("a\r\nb\r\n", "a\r\nb\n", "a\nb\r\n"),
            ("a\nb\n", "a\r\nb", "a\nb"),
            ("a\nb\n", "a\r\n", "a\n"),
            ("a\r\na\r\n", "a\r\n", "a\n"),
        ] {
            let place = Place::new();
            place.put("a", before);
            for everywhere in [false, true] {
                let mut arguments = arguments(old, new);
                arguments["replace_all"] = json!(everywhere);
                let refused = place.call(&Edit, arguments).await.unwrap_err();
                assert!(refused.contains("differ only in line endings"), "{refused}");
                assert_eq!(place.bytes("a"), before.as_bytes());
            }
        }
    }

    #[tokio::test]
    async fn a_change_that_makes_a_file_too_large_is_refused() {
        let place = Place::new();
        let before = "a".repeat(2_000_000);
        place.put("a", &before);
        let mut arguments = arguments("a", &"b".repeat(2_000_000));
        arguments["replace_all"] = json!(true);
        let refused = call(&Edit, &place.context, arguments).await.unwrap_err();
        assert_eq!(refused, "a would be larger than 32 MiB; nothing was changed.");
        assert_eq!(place.bytes("a"), before.as_bytes());
    }

    #[tokio::test]
    async fn an_excerpt_is_bounded() {
        let place = Place::new();
        place.put("a", "x");
        let new = format!("{}\n", "y".repeat(1_000)).repeat(1_000);
        let text = place.call(&Edit, arguments("x", &new)).await.unwrap();
        assert!(text.chars().count() < (EXCERPT_LINES + 1) * (EXCERPT_LINE + 10));
        assert!(text.ends_with("   ...\n"));
    }

    #[tokio::test]
    async fn every_byte_outside_the_match_survives() {
        for (before, old, new, after) in [
            (&b"\xEF\xBB\xBFa\r\nb\r\nc"[..], "b", "x", &b"\xEF\xBB\xBFa\r\nx\r\nc"[..]),
            (b"caf\xE9 (a) \x00\x93", "(a)", "[\u{e9}]", b"caf\xE9 [\xC3\xA9] \x00\x93"),
            (b"mixed\r\na\nb\r\n", "a\nb", "x\ny", b"mixed\r\nx\ny\r\n"),
        ] {
            let place = Place::new();
            place.put("a", before);
            let result = place.call(&Edit, arguments(old, new)).await;
            assert_eq!(bytes_after(&place, &result), after);
        }
    }

    #[tokio::test]
    async fn in_a_crlf_file_line_feeds_stand_for_crlf() {
        let place = Place::new();
        place.put("a", "a\r\nb\r\nc\r\n");
        let result = place.call(&Edit, arguments("a\nb", "x\ny\nz")).await;
        assert_eq!(bytes_after(&place, &result), b"x\r\ny\r\nz\r\nc\r\n");
        let result = place.call(&Edit, arguments("z\r\nc", "z")).await;
        assert_eq!(bytes_after(&place, &result), b"x\r\ny\r\nz\r\n");
    }

    #[tokio::test]
    async fn white_space_at_the_ends_of_lines_is_forgiven_and_the_output_says_so() {
        let place = Place::new();
        place.put("a", "fn a() {\n    b();\n    c();\n}\n");
        let text = place.call(&Edit, arguments("b(); \nc();", "d();\n  e();")).await;
        let expected = "Edited a: 1 replacement. \"old_string\" matched lines 2 to 3 except for \
             white space at the start or end of lines. The new lines were indented like the \
             matched lines. Check the result.\n     1\tfn a() {\n     2\t    d();\n     \
             3\t        e();\n     4\t}\n";
        assert_eq!(text.as_deref(), Ok(expected));
        let refused = place.call(&Edit, arguments(" }\n\n", "}\n")).await.unwrap_err();
        let nearest = "\"old_string\" does not stand in a. Its first line matches line 4:\n     \
             4\t}\n";
        assert_eq!(refused, nearest);
        let refused = place.call(&Edit, arguments("} \n", "}\n")).await.unwrap_err();
        assert_eq!(refused, "a already holds \"new_string\" there; nothing was changed.");
    }

    #[tokio::test]
    async fn what_is_forgiven_in_several_places_is_refused_with_the_lines() {
        let place = Place::new();
        place.put("a", "  x\n y\n\tx\n y\n");
        let refused = place.call(&Edit, arguments("x\ny\n", "z\n")).await.unwrap_err();
        assert_eq!(
            refused,
            "\"old_string\" does not stand in a. Except for white space at the start or end of \
             lines, it occurs 2 times, at lines 1, 3. Copy it from the file, with enough \
             surrounding lines to make it unique."
        );
        let mut everywhere = arguments("  x\ny", "z");
        everywhere["replace_all"] = json!(true);
        place.put("a", "x\n y\n");
        let refused = place.call(&Edit, everywhere).await.unwrap_err();
        assert_eq!(
            refused,
            "\"old_string\" does not stand in a. It matches at line 1 except for white space at \
             the start or end of lines. \"replace_all\" needs exact matches."
        );
    }

    #[tokio::test]
    async fn places_that_overlap_are_two_places() {
        let place = Place::new();
        place.put("a", "x\ny\nx\ny\nx\n");
        let refused = place.call(&Edit, arguments("x\ny\nx\n", "z\n")).await.unwrap_err();
        assert!(refused.starts_with("\"old_string\" stands 2 times in a, at lines 1, 3."));
    }

    #[tokio::test]
    async fn several_matches_are_counted_and_located_within_bounds() {
        let place = Place::new();
        place.put("a", "x\ny\nx x\n");
        let refused = place.call(&Edit, arguments("x", "z")).await.unwrap_err();
        let expected = "\"old_string\" stands 3 times in a, at lines 1, 3, 3. \
             Add lines around it until it is unique, or set \"replace_all\".";
        assert_eq!(refused, expected);
        place.put("a", "x\n".repeat(5_000));
        let refused = place.call(&Edit, arguments("x", "z")).await.unwrap_err();
        assert!(refused.contains(", 19, 20 and 4980 more. "), "{refused}");
    }

    #[tokio::test]
    async fn replace_all_replaces_every_match() {
        let place = Place::new();
        place.put("a", "x\ny\nxx\n");
        let mut arguments = arguments("x", "zz");
        arguments["replace_all"] = json!("true");
        let text = place.call(&Edit, arguments).await.unwrap();
        assert!(text.starts_with("Edited a: 3 replacements, at lines 1, 3, 3 before.\n"));
        assert_eq!(place.bytes("a"), b"zz\ny\nzzzz\n");
    }

    #[tokio::test]
    async fn calls_that_make_no_sense_are_refused_in_words() {
        let place = Place::new();
        place.put("a", "x");
        for (arguments, expected) in [
            (arguments("x", "x"), "\"old_string\" and \"new_string\" are the same."),
            (
                arguments("", "x"),
                "\"old_string\" is empty. Use Write to make a file or to replace all of it.",
            ),
            (json!({"file_path": "a"}), "Parameter \"old_string\" must be a string."),
            (
                json!({"file_path": "b", "old_string": "x", "new_string": "y"}),
                "There is no file b. Did you mean a?",
            ),
        ] {
            assert_eq!(place.call(&Edit, arguments).await.unwrap_err(), expected);
        }
    }

    #[tokio::test]
    async fn an_edit_whose_match_a_sibling_took_away_names_the_sibling() {
        let place = Place::new();
        let sibling = place.unit(3);
        place.put("a", "x\ny\n");
        place.call(&Read, json!({"file_path": "a"})).await.unwrap();
        call(&Edit, &sibling, arguments("x", "z")).await.unwrap();
        let refused = place.call(&Edit, arguments("x", "w")).await.unwrap_err();
        assert_eq!(
            refused,
            "agent-3 changed a since you read it, and \"old_string\" is not there; read it again."
        );
        // The rest of the file is still as it was read.
        place.call(&Edit, arguments("y", "w")).await.unwrap();
        assert_eq!(place.bytes("a"), b"z\nw\n");
    }

    #[tokio::test]
    async fn after_its_own_edit_a_unit_may_write_only_a_file_it_had_read() {
        let place = Place::new();
        let write = json!({"file_path": "a", "content": "new"});
        place.put("a", "x\ny\n");
        place.call(&Edit, arguments("x", "z")).await.unwrap();
        assert!(place.call(&Write, write.clone()).await.is_err());
        place.call(&Read, json!({"file_path": "a", "limit": 1})).await.unwrap();
        place.call(&Edit, arguments("z", "x")).await.unwrap();
        let refused = place.call(&Edit, arguments("none", "x")).await.unwrap_err();
        assert_eq!(refused, "\"old_string\" does not stand in a.");
        assert!(place.call(&Write, write.clone()).await.is_err());
        place.call(&Read, json!({"file_path": "a"})).await.unwrap();
        place.call(&Edit, arguments("x", "z")).await.unwrap();
        place.call(&Write, write).await.unwrap();
    }

    #[tokio::test]
    async fn a_file_that_is_too_large_is_refused_before_it_is_read() {
        let place = Place::new();
        let path = place.put("a", "x");
        std::fs::File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap();
        let refused = place.call(&Edit, arguments("x", "y")).await.unwrap_err();
        assert_eq!(refused, "a is larger than 32 MiB; change it with Bash.");
    }

    #[tokio::test]
    async fn edits_of_many_units_to_one_file_all_arrive() {
        let place = Place::new();
        let lines: String = (0..40).map(|number| format!("<{number}>\n")).collect();
        place.put("a", &lines);
        let units: Vec<_> = (0..40).map(|number| place.unit(number)).collect();
        let calls = units.iter().enumerate().map(|(number, unit)| {
            call(&Edit, unit, arguments(&format!("<{number}>"), &format!("[{number}]")))
        });
        let results = futures_util::future::join_all(calls).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        let expected = lines.replace('<', "[").replace('>', "]");
        assert_eq!(String::from_utf8(place.bytes("a")).unwrap(), expected);
    }
}
