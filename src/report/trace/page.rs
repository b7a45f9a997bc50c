//! A trace as one page of HTML that needs nothing else.
//!
//! The page's own script, style and markup are files beside this one. What a
//! session said is put in as JSON that a browser does not run, with no `<` in
//! it, and the script sets it as text only. A policy in the page lets no other
//! script or style run and nothing be fetched, so that a mistake in either has
//! no way out.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA256, digest};

use super::{Trace, TraceFacts};

const MARKUP: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");

/// The parts of the script, in the order in which they stand.
const SCRIPT: [&str; 9] = [
    include_str!("page/words.js"),
    include_str!("page/model.js"),
    include_str!("page/rows.js"),
    include_str!("page/timeline.js"),
    include_str!("page/branches.js"),
    include_str!("page/tables.js"),
    include_str!("page/details.js"),
    include_str!("page/follow.js"),
    include_str!("page/main.js"),
];

/// What the page may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Nothing: it is a file.
    Nothing,
    /// Whoever served it, for what has come since.
    Server,
}

impl Trace {
    /// Returns it as a page.
    #[must_use]
    pub fn page(&self, facts: &TraceFacts, reach: Reach) -> Vec<u8> {
        let script = SCRIPT.concat();
        let data = embedded(&self.json(facts));
        let mut page = Vec::with_capacity(data.len() + script.len() + STYLE.len() + MARKUP.len());
        let policy = policy(&script, reach);
        let parts = [
            ("policy", policy.as_bytes()),
            ("style", STYLE.as_bytes()),
            ("data", &data),
            ("script", script.as_bytes()),
        ];
        let mut rest = MARKUP;
        for (name, part) in parts {
            let (before, behind) = rest
                .split_once(&format!("{{{{{name}}}}}"))
                .expect("the markup has a place for each part, in this order");
            page.extend_from_slice(before.as_bytes());
            page.extend_from_slice(part);
            rest = behind;
        }
        page.extend_from_slice(rest.as_bytes());
        page
    }
}

/// Returns the page's policy: what of it runs, and what it may reach.
fn policy(script: &str, reach: Reach) -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()));
    let connect = match reach {
        Reach::Nothing => "",
        Reach::Server => "connect-src 'self'; ",
    };
    format!(
        "default-src 'none'; {connect}img-src data:; style-src 'sha256-{}'; \
         script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(script)
    )
}

/// Returns JSON in a form that ends no element and begins none, whatever is in
/// its strings. Outside them JSON has no `<`. Separators of lines, which older
/// scripts would stumble over, are escaped as all hidden characters are.
fn embedded(json: &[u8]) -> Vec<u8> {
    let mut safe = Vec::with_capacity(json.len() + 1024);
    for &byte in json {
        match byte {
            b'<' => safe.extend_from_slice(b"\\u003c"),
            byte => safe.push(byte),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Origin, UnitId, UnitState};
    use crate::report::trace::record::begins_with;
    use crate::report::trace::{LegKind, SpanKind};

    /// Returns the names that a table of the script has a word for.
    fn keys(table: &str) -> Vec<String> {
        let script = SCRIPT.concat();
        let (_, rest) = script.split_once(&format!("const {table} = {{")).expect("it is there");
        let (rows, _) = rest.split_once("};").expect("it has an end");
        let keys = rows.split(':').filter_map(|before| before.rsplit([' ', ',', '\n']).next());
        keys.map(str::to_owned).collect()
    }

    #[track_caller]
    fn check<'a>(table: &str, names: impl IntoIterator<Item = &'a str>) {
        let keys = keys(table);
        let missing: Vec<&str> =
            names.into_iter().filter(|name| !keys.iter().any(|key| key == name)).collect();
        assert_eq!(missing, [] as [&str; 0], "{table} has {keys:?}");
    }

    /// Every origin; another one stops this from being built.
    fn origins() -> [Origin; 6] {
        let before = UnitId(7);
        let all = [
            Origin::Prompt,
            Origin::Visible,
            Origin::Fork,
            Origin::Continued(before),
            Origin::Steps,
            Origin::Reused(before),
        ];
        for origin in all {
            match origin {
                Origin::Prompt
                | Origin::Visible
                | Origin::Fork
                | Origin::Continued(_)
                | Origin::Steps
                | Origin::Reused(_) => {}
            }
        }
        all
    }

    #[test]
    fn the_page_has_a_word_for_every_name_that_a_trace_can_hold() {
        check("BEGINS", origins().map(begins_with));
        check("KINDS", SpanKind::ALL.map(SpanKind::as_str));
        check("STATES", UnitState::ALL.map(UnitState::as_str));
        check("LEGS", LegKind::ALL.map(LegKind::as_str));
    }
}
