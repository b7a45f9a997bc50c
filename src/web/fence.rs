//! A fence around the library that reads HTML: what comes through has few kinds
//! of tags, few attributes, and bounds on how deep and how many they are.
//!
//! A tree of HTML costs more than its bytes: open elements nest, formats are
//! opened again in each paragraph, attributes are compared with each other. So
//! the page is gone through once, in time that grows as its length does, and is
//! written anew: whatever tags the library finds in it were put there here.

mod hidden;

use std::collections::BTreeSet;

use memchr::memmem;
use reqwest::Url;

/// Most tags of a page, and signs that might have been one. The largest manuals have that many, and the first part
/// of them fills any context; what a library takes for them may grow as their
/// square.
pub(super) const TAG_CAP: usize = 50_000;

/// How deep elements may nest. Beyond, they are left out and what is in them
/// stays. Pages made by hand have thirty levels.
const DEPTH_CAP: usize = 100;

/// How deep lists, quotes and tables may nest: each level is written in front
/// of every line below it.
const LEVELS_CAP: usize = 16;

/// Most bytes of an attribute: URLs are not longer.
const VALUE_CAP: usize = 2_000;

/// Most attributes of a tag that are looked at.
const ATTRIBUTES_CAP: usize = 64;

/// Most characters of a title.
const TITLE_CAP: usize = 300;

/// A page that can do no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fenced {
    pub(super) html: String,
    pub(super) title: Option<String>,
    /// Whether something is left out because there is too much of it.
    pub(super) is_cut: bool,
    /// Whether elements are left out that the page does not show.
    pub(super) has_hidden: bool,
}

/// What becomes of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It stays, under this name, and is closed by its end tag.
    Nests(&'static str),
    /// It stays; another one, or what it is in, ends it as well.
    EndsItself(&'static str),
    /// It stays and holds nothing.
    Void(&'static str),
    /// It goes with what is in it, up to its end tag; without one, all that
    /// follows does.
    Raw,
    /// It goes with what is in it, if it has an end.
    Hidden,
    /// It goes; what is in it stays.
    Goes,
}

fn fate(name: &str) -> Fate {
    match name {
        "script" | "style" | "textarea" | "title" | "xmp" | "noembed" | "noframes" | "iframe"
        | "plaintext" => Fate::Raw,
        "svg" | "math" | "template" | "noscript" | "object" | "canvas" | "audio" | "video"
        | "select" | "dialog" => Fate::Hidden,
        "br" => Fate::Void("br"),
        "hr" => Fate::Void("hr"),
        "img" => Fate::Void("img"),
        "p" => Fate::EndsItself("p"),
        "li" => Fate::EndsItself("li"),
        "dt" => Fate::EndsItself("dt"),
        "dd" => Fate::EndsItself("dd"),
        "tr" => Fate::EndsItself("tr"),
        "td" => Fate::EndsItself("td"),
        "th" => Fate::EndsItself("th"),
        "thead" => Fate::EndsItself("thead"),
        "tbody" => Fate::EndsItself("tbody"),
        "tfoot" => Fate::EndsItself("tfoot"),
        "caption" => Fate::EndsItself("caption"),
        "h1" => Fate::Nests("h1"),
        "h2" => Fate::Nests("h2"),
        "h3" => Fate::Nests("h3"),
        "h4" => Fate::Nests("h4"),
        "h5" => Fate::Nests("h5"),
        "h6" => Fate::Nests("h6"),
        "ul" | "menu" => Fate::Nests("ul"),
        "ol" => Fate::Nests("ol"),
        "dl" => Fate::Nests("dl"),
        "table" => Fate::Nests("table"),
        "blockquote" => Fate::Nests("blockquote"),
        "pre" => Fate::Nests("pre"),
        "code" | "samp" | "kbd" | "tt" => Fate::Nests("code"),
        "a" => Fate::Nests("a"),
        "b" | "strong" => Fate::Nests("strong"),
        "i" | "em" => Fate::Nests("em"),
        "s" | "del" | "strike" => Fate::Nests("del"),
        "div" | "section" | "article" | "main" | "header" | "footer" | "nav" | "aside"
        | "figure" | "figcaption" | "address" | "details" | "summary" | "form" | "fieldset"
        | "legend" | "center" | "hgroup" | "search" => Fate::Nests("div"),
        _ => Fate::Goes,
    }
}

/// Puts a page in its fence; links in it become whole ones.
pub(super) fn fence(html: &str, base: &Url) -> Fenced {
    let mut fence = Fence {
        base,
        out: String::new(),
        open: Vec::new(),
        cells: Vec::new(),
        endless: BTreeSet::new(),
        tags: 0,
        title: None,
        has_hidden: false,
    };
    let is_cut = fence.go_through(html);
    let title = fence.title.filter(|title| !title.is_empty());
    Fenced { html: fence.out, title, is_cut, has_hidden: fence.has_hidden }
}

struct Fence<'a> {
    base: &'a Url,
    out: String,
    /// Elements that are open and nest, outermost first.
    open: Vec<&'static str>,
    /// Of each open table, outermost first, whether a cell of it is.
    cells: Vec<bool>,
    /// Names of hidden elements that have no end further on.
    endless: BTreeSet<String>,
    tags: usize,
    title: Option<String>,
    has_hidden: bool,
}

impl Fence<'_> {
    /// Returns whether there was too much of it.
    fn go_through(&mut self, html: &str) -> bool {
        let mut rest = html;
        while let Some(at) = memchr::memchr(b'<', rest.as_bytes()) {
            if self.tags >= TAG_CAP {
                return true;
            }
            self.text(&rest[..at]);
            rest = &rest[at..];
            if let Some((tag, behind)) = Tag::read(rest) {
                let fate = fate(&tag.name);
                rest = if tag.is_end { behind } else { self.start(fate, &tag, behind) };
                if tag.is_end {
                    self.end(fate);
                }
            } else if let Some(behind) = behind_declaration(rest) {
                rest = behind;
            } else {
                self.text("&lt;");
                self.tags += 1;
                rest = &rest[1..];
            }
        }
        self.text(rest);
        false
    }

    /// Takes a start tag; returns what is left to go through.
    fn start<'h>(&mut self, fate: Fate, tag: &Tag<'h>, behind: &'h str) -> &'h str {
        if fate != Fate::Raw && hidden::is_hidden(tag) {
            if hidden::is_void(&tag.name) {
                return behind;
            }
            self.has_hidden = true;
            return hidden::behind(behind, tag, &self.open, &mut self.tags);
        }
        match fate {
            Fate::Goes => {}
            Fate::Raw => {
                let (inside, behind) = raw(behind, &tag.name).unwrap_or((behind, ""));
                if tag.name == "title" && self.title.is_none() {
                    self.title = Some(title(inside));
                }
                return behind;
            }
            Fate::Hidden if self.endless.contains(&tag.name) => {}
            Fate::Hidden => match raw(behind, &tag.name) {
                Some((_, behind)) => return behind,
                // It has none further on, either.
                None => drop(self.endless.insert(tag.name.clone())),
            },
            Fate::Void(name) | Fate::EndsItself(name) => {
                self.place(name);
                self.write(name, tag);
            }
            Fate::Nests(name) if self.has_room(name) => {
                self.enter_cell();
                self.open.push(name);
                if name == "table" {
                    self.cells.push(false);
                }
                self.write(name, tag);
            }
            Fate::Nests(_) => {}
        }
        behind
    }

    fn has_room(&self, name: &str) -> bool {
        let is_level = |name: &str| matches!(name, "ul" | "ol" | "dl" | "blockquote" | "table");
        let levels = self.open.iter().filter(|open| is_level(open)).count();
        self.open.len() < DEPTH_CAP && (!is_level(name) || levels < LEVELS_CAP)
    }

    fn text(&mut self, text: &str) {
        if !text.trim_ascii().is_empty() {
            self.enter_cell();
        }
        self.out.push_str(text);
    }

    /// Has what comes next in a cell. What stands in a table and in no cell of it
    /// would be moved before the table, one piece past all others.
    fn enter_cell(&mut self) {
        if let Some(is_open @ false) = self.cells.last_mut() {
            *is_open = true;
            self.out.push_str("<td>");
            self.tags += 1;
        }
    }

    fn end(&mut self, fate: Fate) {
        match fate {
            Fate::Nests(name) => {
                let Some(at) = self.open.iter().rposition(|open| *open == name) else { return };
                for open in self.open.drain(at..).rev() {
                    if open == "table" {
                        self.cells.pop();
                    }
                    self.out.push_str(&format!("</{open}>"));
                    self.tags += 1;
                }
            }
            Fate::EndsItself(name) => {
                match name {
                    "tr" | "td" | "th" | "thead" | "tbody" | "tfoot" | "caption" => {
                        if let Some(is_open) = self.cells.last_mut() {
                            *is_open = false;
                        }
                    }
                    _ => self.enter_cell(),
                }
                self.out.push_str(&format!("</{name}>"));
                self.tags += 1;
            }
            Fate::Void(_) | Fate::Raw | Fate::Hidden | Fate::Goes => {}
        }
    }

    /// Opens the cell that an element needs, or notes that it is one.
    fn place(&mut self, name: &str) {
        let is_cell = match name {
            "td" | "th" | "caption" => true,
            "tr" | "thead" | "tbody" | "tfoot" => false,
            _ => return self.enter_cell(),
        };
        if let Some(is_open) = self.cells.last_mut() {
            *is_open = is_cell;
        }
    }

    fn write(&mut self, name: &str, tag: &Tag<'_>) {
        self.tags += 1;
        self.out.push('<');
        self.out.push_str(name);
        match name {
            "a" => self.attribute("href", tag.attribute("href").and_then(|it| self.link(it))),
            "img" => {
                self.attribute("src", tag.attribute("src").and_then(|it| self.link(it)));
                self.attribute("alt", tag.attribute("alt").map(str::to_owned));
            }
            "code" | "pre" => {
                let is_language = |class: &&str| class.starts_with("language-");
                let classes = tag.attribute("class").unwrap_or_default();
                let language = classes.split_ascii_whitespace().find(is_language);
                self.attribute("class", language.map(str::to_owned));
            }
            "ol" => {
                let start = tag.attribute("start").and_then(|it| it.trim().parse::<u32>().ok());
                self.attribute("start", start.map(|start| start.to_string()));
            }
            _ => {}
        }
        self.out.push('>');
    }

    /// Returns a link as a whole URL, if it leads to a page.
    fn link(&self, written: &str) -> Option<String> {
        let url = self.base.join(&written.trim().replace("&amp;", "&")).ok()?;
        let leads_out = matches!(url.scheme(), "http" | "https" | "mailto");
        leads_out.then(|| url.as_str().replace('&', "&amp;"))
    }

    fn attribute(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            let value = value.replace('"', "&quot;");
            self.out.push_str(&format!(" {name}=\"{value}\""));
        }
    }
}

/// A tag as it is written.
struct Tag<'a> {
    name: String,
    is_end: bool,
    attributes: Vec<(&'a str, &'a str)>,
}

impl<'a> Tag<'a> {
    /// Reads a tag; `None` if none begins here. What follows one without an end
    /// is all in it.
    fn read(html: &'a str) -> Option<(Self, &'a str)> {
        let rest = html.strip_prefix('<')?;
        let (is_end, rest) = match rest.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        rest.starts_with(|first: char| first.is_ascii_alphabetic()).then_some(())?;
        let end = rest.find(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>'));
        let (name, mut rest) = rest.split_at(end.unwrap_or(rest.len()));
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            if let Some(behind) = rest.strip_prefix('>') {
                let name = name.to_ascii_lowercase();
                return Some((Self { name, is_end, attributes }, behind));
            }
            if rest.is_empty() {
                // It would be none for a browser.
                return Some((Self { name: String::new(), is_end: true, attributes }, ""));
            }
            let (attribute, behind) = attribute(rest);
            rest = behind;
            if attributes.len() < ATTRIBUTES_CAP {
                attributes.push(attribute);
            }
        }
    }

    fn attribute(&self, name: &str) -> Option<&'a str> {
        let found = self.attributes.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value).filter(|value| value.len() <= VALUE_CAP)
    }
}

/// Reads an attribute, which has at least one character.
fn attribute(html: &str) -> ((&str, &str), &str) {
    // A sign of equality at the start is part of the name.
    let first = html.chars().next().map_or(0, char::len_utf8);
    let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>' | '=');
    let end = html[first..].find(is_end).map_or(html.len(), |end| first + end);
    let (name, rest) = html.split_at(end);
    let Some(rest) = rest.trim_ascii_start().strip_prefix('=') else { return ((name, ""), rest) };
    let rest = rest.trim_ascii_start();
    for quote in ['"', '\''] {
        if let Some(rest) = rest.strip_prefix(quote) {
            let (value, behind) = rest.split_once(quote).unwrap_or((rest, ""));
            return ((name, value), behind);
        }
    }
    let end = rest.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(rest.len());
    let (value, rest) = rest.split_at(end);
    ((name, value), rest)
}

/// Returns what is behind a comment or another declaration; `None` if none
/// begins here.
fn behind_declaration(html: &str) -> Option<&str> {
    let rest = html.strip_prefix('<')?;
    let end = match rest.strip_prefix("!--") {
        // `<!-->` is a whole one.
        Some(comment) if comment.starts_with('>') => return Some(&comment[1..]),
        Some(comment) if comment.starts_with("->") => return Some(&comment[2..]),
        Some(_) => "-->",
        None if rest.starts_with(['!', '?', '/']) => ">",
        None => return None,
    };
    Some(memmem::find(rest.as_bytes(), end.as_bytes()).map_or("", |at| &rest[at + end.len()..]))
}

/// Returns what is in an element up to its end tag, and what is behind that;
/// `None` if it has none.
fn raw<'a>(html: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let mut from = 0;
    while let Some(at) = memmem::find(&html.as_bytes()[from..], b"</") {
        let at = from + at;
        let behind = &html[at + 2..];
        let is_own = behind.get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name))
            && behind[name.len()..]
                .starts_with(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>'));
        if is_own {
            let end = memchr::memchr(b'>', behind.as_bytes()).map_or(behind.len(), |end| end + 1);
            return Some((&html[..at], &behind[end..]));
        }
        from = at + 2;
    }
    None
}

fn title(html: &str) -> String {
    let text = html.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let text = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
        .into_iter()
        .fold(text, |text, (from, to)| text.replace(from, to));
    super::short(&text, TITLE_CAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fenced(html: &str) -> Fenced {
        fence(html, &"https://example.com/docs/a.html".parse().unwrap())
    }

    #[track_caller]
    fn check(html: &str, expected: &str) {
        assert_eq!(fenced(html).html, expected, "{html}");
    }

    #[test]
    fn only_what_says_something_comes_through() {
        check("a<script>if (a<b) '</p>'</SCRIPT >b", "ab");
        check("<style>p{}</style><p class=x onclick=\"a>b\">t</p>", "<p>t</p>");
        check("a<!-- <p> -->b<!doctype html>c<?php ?>d<!-->e", "abcde");
        check("a<svg><path d='>'/><title>t</title></svg>b", "ab");
        check("1 < 2 <3> <", "1 &lt; 2 &lt;3> &lt;");
        check("<custom-tag a=1>x</custom-tag>", "x");
        check("<section><b>x</b></section>", "<div><strong>x</strong></div>");
        check("<p>cut <a href='x", "<p>cut ");
        check("a<script>never ends", "a");
        check("a<svg>never ends", "anever ends");
        check("<code class='hl language-rust'>x</code>", "<code class=\"language-rust\">x</code>");
    }

    #[test]
    fn what_the_page_does_not_show_is_left_out() {
        for hidden in [
            "<div style='display:none'>no</div>",
            "<DIV STYLE=\"color:red; Display : NONE !important\">no<div>no</div>no</DIV>",
            "<span hidden>no</span>",
            "<span style='visibility:hidden'>no<span>no</span><br>no</span>",
            "<p hidden>no<b>no</b></p>",
            "<custom-tag style=font-size:0px>no<script></custom-tag></script>no</custom-tag>",
            "<i style='opacity:0.0'>no<!-- </i> -->no</i>",
            "<section hidden=''>no<section>no</section><input hidden><p>no</section>",
            "<a style='content-visibility:hidden' href=x>no</a>",
        ] {
            let page = fenced(&format!("<div>a{hidden}b</div>c"));
            assert_eq!(page.html, "<div>ab</div>c", "{hidden}");
            assert!(page.has_hidden, "{hidden}");
        }
        check("<ul><li hidden>no<ul><li>no</ul>no<li>b</ul>c", "<ul><li>b</ul>c");
        check("<p hidden>no<div>b</div>", "<div>b</div>");
        check("<div><span hidden>no</div>b", "<div></div>b");
        check("<dl><dt hidden>no<dd>b</dl>", "<dl><dd>b</dl>");
        check("a<div hidden>never ends<b>", "a");
        check("a<img hidden src=x>b", "ab");
    }

    #[test]
    fn what_only_looks_hidden_stays() {
        for (shown, text) in [
            ("<b hidden=until-found>x</b>", "<strong>x</strong>"),
            ("<b style='display:block'>x</b>", "<strong>x</strong>"),
            ("<b style='opacity:0.5;font-size:10px'>x</b>", "<strong>x</strong>"),
            ("<b data-hidden title='hidden'>x</b>", "<strong>x</strong>"),
            ("<b aria-hidden=true style='none'>x</b>", "<strong>x</strong>"),
        ] {
            let page = fenced(shown);
            assert_eq!((&*page.html, page.has_hidden), (text, false));
        }
        let nested = "<div hidden>".repeat(20_000) + &"</div>".repeat(20_000);
        assert!(fenced(&nested).html.len() < 6 * 20_000);
    }

    #[test]
    fn links_are_whole_and_lead_to_pages() {
        check("<a href=../b?x=1&amp;y=2>", "<a href=\"https://example.com/b?x=1&amp;y=2\">");
        check("<a href='//other.example/x'>", "<a href=\"https://other.example/x\">");
        check("<a href=\"javascript:alert(1)\">", "<a>");
        check(
            "<img src=data:image/png;base64,AAAA alt='a \"b\"'>",
            "<img alt=\"a &quot;b&quot;\">",
        );
        check("<a HREF = x\n>", "<a href=\"https://example.com/docs/x\">");
    }

    #[test]
    fn end_tags_close_what_is_open_and_nothing_else() {
        check("<div><b>x</div>y</b>", "<div><strong>x</strong></div>y");
        check("</div></a>x", "x");
        check("<ul><li>a<li>b</ul>", "<ul><li>a<li>b</ul>");
    }

    #[test]
    fn what_stands_in_a_table_stands_in_a_cell() {
        check("<table>x<br>y<tr>z</table>a", "<table><td>x<br>y<tr><td>z</table>a");
        check("<table> <tr> <td>x</td> </tr></table>", "<table> <tr> <td>x</td> </tr></table>");
        check("<table><table>x</table>y</table>", "<table><td><table><td>x</table>y</table>");
    }

    #[test]
    fn the_title_is_kept_apart() {
        let page = fenced("<head><title>\n A &amp; B </title></head><title>C</title>x");
        assert_eq!((page.title.as_deref(), &*page.html), (Some("A & B"), "x"));
        assert_eq!(fenced("<title></title>x").title, None);
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let deep = fenced(&"<div>".repeat(10_000));
        assert_eq!(deep.html.matches("<div>").count(), DEPTH_CAP);
        let lists = fenced(&"<ul><li>x".repeat(100));
        assert_eq!(lists.html.matches("<ul>").count(), LEVELS_CAP);
        let many = fenced(&"<p>x</p>".repeat(TAG_CAP));
        assert!(many.is_cut && many.html.len() < 10 * TAG_CAP);
    }
}
