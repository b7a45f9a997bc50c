//! Elements that a page does not show: `hidden`, `display:none` and the like.
//!
//! Only attributes of the element itself count. What a style sheet or a script hides, or
//! writes in the color of its background, is not known here.

use super::{Fate, Tag, fate, raw};

/// Maximum elements inside of a hidden one that are told apart. More of them nest in no
/// page; the hidden element then ends at the first end tag of its name.
const NESTED_CAP: usize = 200;

/// Returns whether a browser shows nothing of an element.
pub(super) fn is_hidden(tag: &Tag<'_>) -> bool {
    let hidden = tag.attribute("hidden");
    // `until-found` is shown once the reader searches for it.
    hidden.is_some_and(|value| !value.trim().eq_ignore_ascii_case("until-found"))
        || tag.attribute("style").is_some_and(hides)
}

/// Returns whether a style hides the element that has it.
fn hides(style: &str) -> bool {
    style.split(';').any(|declaration| {
        let Some((name, value)) = declaration.split_once(':') else { return false };
        let value = value.to_ascii_lowercase().replace("!important", "");
        let value = value.trim();
        match &*name.trim().to_ascii_lowercase() {
            "display" => value == "none",
            "visibility" => matches!(value, "hidden" | "collapse"),
            "content-visibility" => value == "hidden",
            "opacity" | "font-size" => is_zero(value),
            _ => false,
        }
    })
}

/// Returns whether a value is zero, whatever its unit.
fn is_zero(value: &str) -> bool {
    let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    number.parse::<f64>().is_ok_and(|number| number == 0.0)
}

/// Returns what is behind a hidden element whose start tag is read; `html` is what is
/// behind that. `open` are the elements around it. Counts in `tags` the tags inside.
pub(super) fn behind<'h>(
    html: &'h str,
    own: &Tag<'_>,
    open: &[&'static str],
    tags: &mut usize,
) -> &'h str {
    // Names of the open elements inside, outermost first.
    let mut inside: Vec<String> = Vec::new();
    let mut rest = html;
    while let Some(at) = memchr::memchr(b'<', rest.as_bytes()) {
        let here = &rest[at..];
        let Some((tag, behind)) = Tag::read(here) else {
            rest = super::behind_declaration(here).unwrap_or(&here[1..]);
            continue;
        };
        *tags += 1;
        rest = behind;
        match (tag.is_end, fate(&tag.name)) {
            (false, Fate::Raw) => rest = raw(behind, &tag.name).map_or("", |(_, behind)| behind),
            (false, Fate::Void(_)) => {}
            (false, fate) if inside.is_empty() && ends_before(own, &tag, fate) => return here,
            (false, Fate::EndsItself(_)) => {}
            (false, Fate::Nests(_) | Fate::Hidden | Fate::Goes) => {
                if !is_void(&tag.name) && inside.len() < NESTED_CAP {
                    inside.push(tag.name);
                }
            }
            (true, fate) => {
                if let Some(at) = inside.iter().rposition(|name| *name == tag.name) {
                    inside.truncate(at);
                } else if tag.name == own.name {
                    return rest;
                } else if matches!(fate, Fate::Nests(name) if open.contains(&name)) {
                    // The element around it ends.
                    return here;
                }
            }
        }
    }
    ""
}

/// Returns whether an element without an end tag ends before a start tag.
fn ends_before(own: &Tag<'_>, next: &Tag<'_>, next_fate: Fate) -> bool {
    let is_inline = |name| matches!(name, "a" | "strong" | "em" | "del" | "code");
    match (fate(&own.name), next_fate) {
        (Fate::EndsItself("p"), Fate::Nests(name)) => !is_inline(name),
        (Fate::EndsItself(_), Fate::EndsItself(_)) => {
            own.name == next.name || own.name == "p" || matches!(&*next.name, "dt" | "dd" | "tr")
        }
        _ => false,
    }
}

/// Returns whether an element never has an end tag.
pub(super) fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "br"
            | "col"
            | "embed"
            | "hr"
            | "img"
            | "input"
            | "link"
            | "meta"
            | "source"
            | "track"
            | "wbr"
    )
}
