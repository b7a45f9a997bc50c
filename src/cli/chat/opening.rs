//! What a session shows first: what it is, and where it stood when it goes on.

use std::path::Path;

use crate::cli::start::Start;
use crate::config::Environment;
use crate::event::Outcome;
use crate::report::commits::prompt_rows;
use crate::report::ink::Ink;
use crate::report::prose::{Prose, wrapped};
use crate::report::row::Row;

/// Most rows of the answer that a session ended with.
const ANSWER_ROWS: usize = 40;

/// Tells the prose of what was said before apart from what is said now.
const BEFORE: u32 = u32::MAX;

/// Returns it for a terminal of so many columns.
pub(super) fn rows(start: &Start, columns: u16) -> Vec<Row> {
    let kit = &start.kit;
    let place = place(&kit.root, &kit.environment);
    let mode = kit.policy.mode().as_str();
    let mut head = Row::new().text(Ink::Strong, concat!("tine ", env!("CARGO_PKG_VERSION")));
    head.push(Ink::Plain, &format!("  {}  {mode}", kit.model.name()));
    let mut rows = match head.columns() + 2 + place.len() <= usize::from(columns) {
        true => vec![head.text(Ink::Dim, &format!("  {place}"))],
        false => vec![head.cut(usize::from(columns)), Row::new().text(Ink::Dim, &place)],
    };
    let back = match kit.is_kept {
        true => "`/help` lists keys and commands; `tine -c` comes back here later",
        false => "`/help` lists keys and commands; nothing of this session is kept",
    };
    rows.extend(wrapped(Ink::Dim, back, columns, 0));
    rows.extend(before(start, columns));
    rows
}

/// Returns the last prompt of a session that goes on, and what it came to.
fn before(start: &Start, columns: u16) -> Vec<Row> {
    let Some(account) = start.account() else { return Vec::new() };
    if account.prompt.trim().is_empty() {
        return Vec::new();
    }
    let mut rows = vec![Row::new()];
    rows.extend(prompt_rows(&account.prompt, columns));
    if let Some(Outcome::Done { text }) = &account.outcome {
        let mut prose = Prose::new(BEFORE);
        prose.push(text);
        let mut answer = prose.finish(columns);
        let hidden = answer.len().saturating_sub(ANSWER_ROWS);
        if hidden > 0 {
            let text = format!("[{hidden} rows before]");
            answer.splice(..hidden, [Row::new().text(Ink::Dim, &text)]);
        }
        rows.push(Row::new());
        rows.extend(answer);
    }
    rows.push(Row::new());
    rows
}

/// Returns a directory in a few letters.
pub(super) fn place(root: &Path, environment: &Environment) -> String {
    let home = environment.home.as_deref().filter(|home| home.parent().is_some());
    match home.and_then(|home| root.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => root.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_named_from_the_users_own() {
        let environment = Environment::from_variables([("HOME", "/home/me")]);
        for (root, expected) in [
            ("/home/me", "~"),
            ("/home/me/src/shop", "~/src/shop"),
            ("/home/mee", "/home/mee"),
            ("/", "/"),
        ] {
            assert_eq!(place(Path::new(root), &environment), expected);
        }
        let root_user = Environment::from_variables([("HOME", "/")]);
        assert_eq!(place(Path::new("/srv"), &root_user), "/srv");
    }
}
