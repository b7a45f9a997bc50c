//! The Edit tool: one piece of a file for another.
//!
//! It works on bytes: what lies outside the match is never decoded, so line
//! ends, byte order marks and other encodings survive. The match itself proves
//! that the model knows the place, so no earlier Read is asked for.

pub(super) mod excerpt;
pub(super) mod find;
mod forgive;
pub(super) mod indent;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;

use crate::message::{Output, ToolSchema};
use crate::path_text;

use super::arguments;
use super::blocking::to_the_end;
use super::change::{Change, Done, FILE_CAP, Held, Planned, in_place_note, make};
use super::contents::Contents;
use super::replace::Access;
use super::{Effect, Granted, Tool, ToolContext, ToolError};

use excerpt::excerpt;
use forgive::{Fitted, Found};

/// Most line numbers that are listed for one call.
const PLACES_CAP: usize = 20;

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
            let path = path_text::resolve(&context.workspace.root, &path);
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
    fn with_line_ends_of(&self, bytes: &[u8]) -> (String, String) {
        let own = self.old.contains('\r') || self.new.contains('\r');
        if own || !find::only_crlf(bytes) {
            return (self.old.clone(), self.new.clone());
        }
        (self.old.replace('\n', "\r\n"), self.new.replace('\n', "\r\n"))
    }
}

/// Works the change out.
fn plan(held: Held, wanted: &Wanted) -> Result<(Planned, Told), ToolError> {
    let Some(before) = held.before()? else {
        return Err(held.missing());
    };
    let bytes = &before.bytes;
    let (old, new) = wanted.with_line_ends_of(bytes);
    let (old, new) = (old.as_bytes(), new.as_bytes());
    let mut places = find::all(bytes, old);
    if let [only] = places[..]
        && !wanted.everywhere
    {
        places.extend(find::second(bytes, old, only));
    }
    let (after, told) = match places[..] {
        [] => forgiven(&held, bytes, wanted)?,
        [_, _, ..] if !wanted.everywhere => {
            let (shown, count, lines) = (held.shown(), places.len(), line_list(bytes, &places));
            return Err(ToolError::tell(format!(
                "\"old_string\" stands {count} times in {shown}, at {lines}. \
                 Add lines around it until it is unique, or set \"replace_all\"."
            )));
        }
        [first, ..] => {
            let after = spliced(bytes, &places, old.len(), new).ok_or_else(|| held.grown())?;
            let what = match places.len() {
                1 => "1 replacement".to_owned(),
                count => format!("{count} replacements, at {} before", line_list(bytes, &places)),
            };
            let excerpt = excerpt(&after, first, new.len());
            (after, Told { what, excerpt })
        }
    };
    let change = Change::Write { bytes: after.into(), access: Access::Usual };
    Ok((Planned { held, before: Some(before), change }, told))
}

/// Makes the change where only white space at the ends of lines differs.
fn forgiven(held: &Held, bytes: &Contents, wanted: &Wanted) -> Result<(Vec<u8>, Told), ToolError> {
    let found = forgive::find(bytes, wanted.old.as_bytes(), wanted.new.as_bytes());
    let Fitted { place, new, moved } = match found {
        Found::Once(fitted) if !wanted.everywhere => fitted,
        Found::Nowhere | Found::Once(_) | Found::Several(_) => {
            return Err(no_match(held, bytes, &found));
        }
    };
    let length = place.len();
    if bytes[place.clone()] == new {
        return Err(ToolError::tell(format!(
            "{} already holds \"new_string\" there; nothing was changed.",
            held.shown()
        )));
    }
    let after = spliced(bytes, &[place.start], length, &new).ok_or_else(|| held.grown())?;
    let (first, last) = line_span(bytes, place.start, length);
    let indented = if moved { " The new lines were indented as those were." } else { "" };
    let what = format!(
        "1 replacement. \"old_string\" stood at lines {first} to {last} with other white space \
         at the start or end of lines; that was forgiven.{indented} Check the result"
    );
    let excerpt = excerpt(&after, place.start, new.len());
    Ok((after, Told { what, excerpt }))
}

/// What is said of an edit.
struct Told {
    what: String,
    excerpt: String,
}

impl Told {
    fn of(&self, done: &Done) -> String {
        let Self { what, excerpt } = self;
        let (shown, note) = (done.planned.held.shown(), in_place_note(done.made));
        format!("Edited {shown}: {what}.{note}\n{excerpt}")
    }
}

fn no_match(held: &Held, bytes: &Contents, found: &Found) -> ToolError {
    let mut message = match held.changed_since(bytes) {
        Some(changed) => format!("{changed}, and \"old_string\" is not there; read it again."),
        None => format!("\"old_string\" does not stand in {}.", held.shown()),
    };
    match found {
        Found::Nowhere => {}
        Found::Once(fitted) => {
            let line = find::line_number(bytes, fitted.place.start);
            message.push_str(&format!(
                " It nearly matches at line {line}: only white space at the start or end of lines \
                 differs. \"replace_all\" forgives no white space."
            ));
        }
        Found::Several(places) => {
            let (count, lines) = (places.len(), line_list(bytes, places));
            message.push_str(&format!(
                " But for white space at the start or end of lines it stands there {count} times, \
                 at {lines}. Copy it from the file, with lines around it until it is unique."
            ));
        }
    }
    ToolError::tell(message)
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
        let expected = "Edited a: 1 replacement. \"old_string\" stood at lines 2 to 3 with other \
             white space at the start or end of lines; that was forgiven. The new lines were \
             indented as those were. Check the result.\n     1\tfn a() {\n     2\t    d();\n     \
             3\t      e();\n     4\t}\n";
        assert_eq!(text.as_deref(), Ok(expected));
        let refused = place.call(&Edit, arguments(" }\n\n", "}\n")).await.unwrap_err();
        assert_eq!(refused, "\"old_string\" does not stand in a.");
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
            "\"old_string\" does not stand in a. But for white space at the start or end of lines \
             it stands there 2 times, at lines 1, 3. Copy it from the file, with lines around it \
             until it is unique."
        );
        let mut everywhere = arguments("  x\ny", "z");
        everywhere["replace_all"] = json!(true);
        place.put("a", "x\n y\n");
        let refused = place.call(&Edit, everywhere).await.unwrap_err();
        assert_eq!(
            refused,
            "\"old_string\" does not stand in a. It nearly matches at line 1: only white space at \
             the start or end of lines differs. \"replace_all\" forgives no white space."
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
