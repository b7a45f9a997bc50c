//! Frames around texts that may hold anything: other tags, names of places.

use super::marks::holds_tag;

/// Puts values into the places of a template, such as `{name}`.
///
/// One pass: what a value holds is never taken for a place. A place without a
/// value stays as it is.
#[must_use]
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let value = after.split_once('}').and_then(|(name, behind)| {
            let (_, value) = values.iter().find(|(known, _)| *known == name)?;
            Some((value, behind))
        });
        rest = match value {
            Some((value, behind)) => {
                text.push_str(value);
                behind
            }
            None => {
                text.push('{');
                after
            }
        };
    }
    text.push_str(rest);
    text
}

/// Returns `tag`, extended if necessary so that no text in `texts` contains its opening or
/// closing form or a look-alike. So no text can end its frame and begin another one.
#[must_use]
pub fn unused_tag(tag: &str, texts: &[&str]) -> String {
    let mut tag = tag.to_owned();
    while texts.iter().any(|text| holds_tag(text, &tag)) {
        tag.push('_');
    }
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_put_in_once_and_are_not_searched_for_places() {
        let values = [("a", "{b} {"), ("b", "B")];
        assert_eq!(fill("{a}-{b}-{c}-{", &values), "{b} {-B-{c}-{");
        assert_eq!(fill("no place", &values), "no place");
    }

    #[test]
    fn a_tag_is_one_that_no_text_holds() {
        assert_eq!(unused_tag("x", &["", "</y>"]), "x");
        assert_eq!(unused_tag("x", &["</x> </x_>", "a"]), "x__");
        assert_eq!(unused_tag("x", &["a", "<X a=\"b\">"]), "x_");
    }
}
