//! Whose view of a session is shown: everything, or what one strand sees.

use std::borrow::Borrow;

use crate::branch::{BranchPath, ParseTokensError, TokenSet, path_sees};
use crate::event::Event;

/// Most paths that are offered instead of one that occurs nowhere.
const PATHS_CAP: usize = 10;

/// Whose view is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Viewer {
    /// All that happened.
    #[default]
    Anyone,
    /// What has no path, this one, or one above it.
    Path(BranchPath),
    /// What has no token but these.
    Tokens(TokenSet),
}

impl Viewer {
    /// Reads a path such as `main.review`, or tokens such as `1-3,5`; an empty
    /// text is the root, which has no token.
    ///
    /// # Errors
    ///
    /// If the text looks like tokens and is none.
    pub fn parse(text: &str) -> Result<Self, ParseTokensError> {
        let is_of_tokens = |c: char| c.is_ascii_digit() || c == '-' || c == ',' || c == ' ';
        if !text.chars().all(is_of_tokens) {
            return Ok(Self::Path(BranchPath::from_text(text)));
        }
        // People write `1, 2` for what is `1-2`.
        let set = |part: &str| Some(part.trim()).filter(|part| !part.is_empty())?.parse().ok();
        match text.split(',').map(set).collect::<Option<Vec<TokenSet>>>() {
            Some(sets) => Ok(Self::Tokens(TokenSet::default().union(&sets))),
            None => text.parse().map(Self::Tokens),
        }
    }

    /// Tells whether an event is shown.
    #[must_use]
    pub fn sees(&self, event: &Event) -> bool {
        match self {
            Self::Anyone => true,
            Self::Path(viewer) => {
                let path = Some(&event.branch.path).filter(|path| !path.as_str().is_empty());
                path_sees(Some(viewer), path)
            }
            Self::Tokens(viewer) => event.branch.tokens.is_subset_of(viewer),
        }
    }

    /// Checks that there is such a strand in a session.
    ///
    /// # Errors
    ///
    /// If its path occurs nowhere, the first few paths that do.
    pub fn check(
        &self,
        events: impl Iterator<Item = impl Borrow<Event>>,
    ) -> Result<(), Vec<BranchPath>> {
        let Self::Path(wanted) = self else { return Ok(()) };
        let mut others: Vec<BranchPath> = Vec::new();
        for event in events {
            let path = &event.borrow().branch.path;
            // What stands above a path that occurs is a strand, too.
            if wanted.is_visible_to(path) {
                return Ok(());
            }
            let is_new = !path.as_str().is_empty() && !others.contains(path);
            if is_new && others.len() < PATHS_CAP {
                others.push(path.clone());
            }
        }
        Err(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::branch::Branch;
    use crate::event::EventKind;
    use crate::report::story::Story;

    fn event(tokens: &str, path: &str) -> Event {
        let mut story = Story::new();
        story.push(0, EventKind::UnitStarted);
        let branch = Branch { tokens: tokens.parse().unwrap(), path: BranchPath::from_text(path) };
        Event { branch, ..story.events()[0].clone() }
    }

    #[track_caller]
    fn check(viewer: &str, expected: &[&str]) {
        let viewer = Viewer::parse(viewer).unwrap();
        let events = [
            event("", ""),
            event("", "main"),
            event("1", "main.orch"),
            event("1,3", "main.orch.a_1"),
            event("1,4", "main.orch.a_10"),
            event("2", "main.orchestra"),
        ];
        let seen: Vec<_> = events
            .iter()
            .filter(|event| viewer.sees(event))
            .map(|event| event.branch.path.as_str())
            .collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_path_sees_what_has_none_itself_and_what_is_above_it() {
        check("main", &["", "main"]);
        check("main.orch", &["", "main", "main.orch"]);
        check("main.orch.a_10", &["", "main", "main.orch", "main.orch.a_10"]);
        check("main.orchestra", &["", "main", "main.orchestra"]);
        check("main.orc", &["", "main"]);
    }

    #[test]
    fn tokens_see_what_has_no_other_token() {
        check("", &["", "main"]);
        check("2", &["", "main", "main.orchestra"]);
        check("1-3", &["", "main", "main.orch", "main.orch.a_1", "main.orchestra"]);
        check("4, 1", &["", "main", "main.orch", "main.orch.a_10"]);
    }

    #[test]
    fn what_looks_like_tokens_and_is_none_is_refused() {
        for text in ["3-1", "1,", "-", "1 2", "99999999999999999999999"] {
            assert!(Viewer::parse(text).is_err(), "{text}");
        }
        assert_eq!(
            Viewer::parse("1,3-2").unwrap_err().to_string(),
            "`1,3-2` is not a token set such as `1-3,5`"
        );
    }

    #[test]
    fn a_path_that_occurs_nowhere_is_answered_with_some_that_do() {
        let mut events = vec![event("", ""), event("", "main"), event("1", "main.a.b")];
        events.extend((0..20).map(|number| event("2", &format!("main.s{number}"))));
        let checked = |path: &str| Viewer::parse(path).unwrap().check(events.iter());
        assert_eq!(checked("main.a.b"), Ok(()));
        assert_eq!(checked("main.a"), Ok(()));
        assert_eq!(checked("7"), Ok(()));
        let others = checked("main.b").unwrap_err();
        assert_eq!(others.len(), PATHS_CAP);
        assert_eq!(others[..3], ["main", "main.a.b", "main.s0"].map(BranchPath::from_text));
    }
}
