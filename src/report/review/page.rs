//! What a whole Markdown page may not hold if others wrote parts of it: HTML, and
//! images, which would have a reader fetch what they name.
//!
//! Only a parser of the whole page can tell what is one: that depends on what
//! stands around it, from backslashes to the code that a backtick far away begins.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Options, Parser, Tag};

/// How often a page is read again. What is taken out can make other words count;
/// whoever writes more layers than this gets a page that is less pretty.
const ROUNDS: usize = 8;

/// Returns the page with every piece of HTML and every image shown as its own text.
pub(super) fn harmless(mut page: String) -> String {
    for _ in 0..ROUNDS {
        let begins = begins(&page);
        if begins.is_empty() {
            return page;
        }
        let mut safe = String::with_capacity(page.len() + begins.len());
        let mut from = 0;
        for at in begins {
            safe.push_str(&page[from..at]);
            safe.push('\\');
            from = at;
        }
        safe.push_str(&page[from..]);
        page = safe;
    }
    // No reader takes these for anything else, wherever they stand.
    page.replace('<', "&lt;").replace("![", "&#33;[")
}

/// Who reads a page: one who knows the standard, and one who knows what GitHub has
/// besides.
pub(super) fn readers() -> [Options; 2] {
    let more = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    [Options::empty(), more | Options::ENABLE_FOOTNOTES | Options::ENABLE_GFM]
}

/// Where HTML and images begin for some reader.
fn begins(page: &str) -> BTreeSet<usize> {
    let events =
        readers().into_iter().flat_map(|options| Parser::new_ext(page, options).into_offset_iter());
    let begin = |(event, range): (Event<'_>, std::ops::Range<usize>)| {
        let is_html = matches!(event, Event::Html(_) | Event::InlineHtml(_));
        let is_image = matches!(event, Event::Start(Tag::Image { .. }));
        let sign = if is_html { '<' } else { '!' };
        let at = page[range.clone()].find(sign).filter(|_| is_html || is_image);
        at.map(|at| range.start + at)
    };
    events.filter_map(begin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_markup_is_left_and_all_else_stays_as_it_is() {
        for (page, expected) in [
            ("a <b> 1 < 2 ![x](y) `Vec<T>`", "a \\<b> 1 < 2 \\![x](y) `Vec<T>`"),
            ("` <img>", "` \\<img>"),
            ("`` <img> ``", "`` <img> ``"),
            ("\\<img src=x>", "\\<img src=x>"),
            ("\\\\<img src=x>", "\\\\\\<img src=x>"),
            ("\\`<img src=x>`", "\\`\\<img src=x>`"),
            ("` a\n\n<img src=x> `", "` a\n\n\\<img src=x> `"),
            ("![a]\n\n[a]: http://e", "\\![a]\n\n[a]: http://e"),
        ] {
            assert_eq!(harmless(page.to_owned()), expected);
        }
    }
}
