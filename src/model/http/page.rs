//! Web pages where an answer should be: what they say, and who sends them.
//!
//! A page hardly ever comes from the model's server. A gateway, a firewall or
//! another web server sends it, and the status says which of them it is.

use super::fault::bounded_line;

/// Maximum characters of a page that are shown.
const SHOWN_CAP: usize = 120;

/// Maximum bytes of a page that are read for its text.
const READ_CAP: usize = 16 * 1024;

/// How the text of a page begins, in lower case. Cloudflare sends some errors as a
/// line of plain text.
const STARTS: [&str; 9] =
    ["<!doctype", "<html", "<head", "<body", "<title", "<center", "<h1", "<!--", "error code:"];

/// Returns whether an answer is a web page, whatever its type says.
pub(super) fn is_page(content_type: &str, text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with(['{', '[']) {
        return false;
    }
    let start: String = text.chars().take(12).collect::<String>().to_ascii_lowercase();
    content_type.to_ascii_lowercase().contains("html")
        || STARTS.iter().any(|known| start.starts_with(known))
}

/// Returns the error's sentence for a page with this status.
pub(super) fn describe_page(status: u16, host: &str, page: &str) -> String {
    let heading = page_heading(page);
    let answered = match heading.is_empty() {
        true => "answered with a web page".to_owned(),
        false => format!("answered with \"{heading}\""),
    };
    match status {
        401 => format!("the gateway at {host} {answered}: it asks for a login"),
        403 => format!(
            "the gateway at {host} {answered}: it blocks the request (a firewall, a region or a \
             filter for bots; the key may be right)"
        ),
        407 => format!("the proxy before {host} {answered}: it asks for a login"),
        413 => format!("the gateway at {host} {answered}: the request is too large for it"),
        429 => format!("the gateway at {host} {answered}: too many requests"),
        408 | 504 | 522 | 524 => {
            format!(
                "the gateway at {host} {answered}: the server behind it does not answer in time"
            )
        }
        500 => format!("the server at {host} {answered}"),
        501.. => {
            format!("the gateway at {host} {answered}: the server behind it does not answer")
        }
        _ => format!("the server at {host} {answered}, a web page; is `base_url` right?"),
    }
}

/// Returns a page's title, or its first words where the title says nothing.
pub(super) fn page_heading(page: &str) -> String {
    let title = between(page, "<title", "</title").map(page_text);
    let says_something = |title: &String| !title.is_empty() && !title.eq_ignore_ascii_case("error");
    let heading = title.filter(says_something).unwrap_or_else(|| {
        let body = find(page, "<body").map_or(page, |at| &page[at..]);
        page_text(body)
    });
    bounded_line(&heading, SHOWN_CAP)
}

/// Returns the text of a page without its marks, on one line.
pub(super) fn page_text(page: &str) -> String {
    let mut end = page.len().min(READ_CAP);
    while !page.is_char_boundary(end) {
        end -= 1;
    }
    let mut rest = &page[..end];
    let mut text = String::new();
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        text.push(' ');
        let mark = &rest[at..];
        let skipped = ["script", "style"].into_iter().find_map(|name| {
            let is_named = mark[1..].get(..name.len())?.eq_ignore_ascii_case(name);
            is_named.then(|| find(mark, &format!("</{name}")).unwrap_or(mark.len()))
        });
        let from = skipped.unwrap_or(0);
        rest = mark[from..].find('>').map_or("", |end| &mark[from + end + 1..]);
    }
    // What comes before the first `>` is the rest of a mark that was cut.
    text.push_str(rest);
    let words: Vec<_> = text.split_whitespace().collect();
    unescaped(&words.join(" "))
}

fn between<'a>(page: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let inner = &page[find(page, start)?..];
    let inner = &inner[inner.find('>')? + 1..];
    Some(&inner[..find(inner, end)?])
}

/// Finds a mark in whatever case it is written.
fn find(page: &str, mark: &str) -> Option<usize> {
    let page = page.as_bytes();
    page.windows(mark.len()).position(|part| part.eq_ignore_ascii_case(mark.as_bytes()))
}

fn unescaped(text: &str) -> String {
    let marks = [("&nbsp;", " "), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'")];
    let text = marks.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_by_its_type_or_its_start() {
        assert!(is_page("text/html; charset=utf-8", "hello"));
        assert!(is_page("text/plain", "\n<!DOCTYPE html><title>x</title>"));
        for start in ["<HTML>", "\u{feff}<html>", "<h1>no</h1>", "error code: 1020"] {
            assert!(is_page("", start), "{start}");
        }
        assert!(!is_page("text/html", r#" {"error": "no"}"#));
        assert!(!is_page("application/json", "<x>"));
    }

    #[test]
    fn a_page_is_shown_by_its_title_or_else_its_first_words() {
        for (page, expected) in [
            ("<html><head><title>502 Bad Gateway</title></head>", "502 Bad Gateway"),
            ("<TITLE lang=en>\n Just a\n moment...\n</TITLE>", "Just a moment..."),
            (
                "<title>Error</title><body><pre>PayloadTooLargeError: too large<br> &nbsp; at x",
                "PayloadTooLargeError: too large at x",
            ),
            ("<html><style>b { x: 1 }</style><h1>No &amp; &lt;no&gt;</h1>", "No & <no>"),
            ("<html><script>if (a < b) {}</script></html>", ""),
            ("<title></title>", ""),
            ("<title>never closed", "never closed"),
            ("<", ""),
            ("<script", ""),
            ("", ""),
        ] {
            assert_eq!(page_heading(page), expected, "{page}");
        }
        let long = format!("<title>{}</title>", "ü".repeat(30_000));
        assert_eq!(page_heading(&long), format!("{}…", "ü".repeat(SHOWN_CAP)));
    }

    #[test]
    fn the_cause_that_is_named_is_that_of_the_status() {
        let page = "<title>X</title>";
        for (status, cause) in [
            (502, "the gateway at h answered with \"X\": the server behind it does not answer"),
            (503, "the gateway at h answered with \"X\": the server behind it does not answer"),
            (520, "the gateway at h answered with \"X\": the server behind it does not answer"),
            (
                504,
                "the gateway at h answered with \"X\": the server behind it does not answer in time",
            ),
            (
                524,
                "the gateway at h answered with \"X\": the server behind it does not answer in time",
            ),
            (413, "the gateway at h answered with \"X\": the request is too large for it"),
            (404, "the server at h answered with \"X\", a web page; is `base_url` right?"),
            (405, "the server at h answered with \"X\", a web page; is `base_url` right?"),
        ] {
            assert_eq!(describe_page(status, "h", page), cause, "{status}");
        }
        assert!(
            describe_page(403, "h", "")
                .starts_with("the gateway at h answered with a web page: it bl")
        );
        for status in 400..600 {
            let blames_url = describe_page(status, "h", page).contains("base_url");
            let may_be_the_url = status < 500 && ![401, 403, 407, 408, 413, 429].contains(&status);
            assert_eq!(blames_url, may_be_the_url, "{status}");
        }
    }
}
