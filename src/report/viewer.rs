//! Whose view of a session is shown: everything, or what one strand sees.

use std::borrow::Borrow;
use std::sync::Arc;

use thiserror::Error;

use crate::branch::{BranchPath, ParseTokensError, RootJoins, Sight, TokenSet, path_sees};
use crate::event::{Event, Invocation};

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
    /// What has no token but these. They are of the last invocation, as tokens
    /// begin anew with each; of those before it what main took home is shown.
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

    /// Returns what is shown of a session with these events.
    ///
    /// # Errors
    ///
    /// If its path occurs nowhere.
    pub fn view(self, events: impl Iterator<Item = impl Borrow<Event>>) -> Result<View, NoBranch> {
        match self {
            Self::Anyone => Ok(View::Everything),
            Self::Path(wanted) => match others(&wanted, events) {
                None => Ok(View::Path(wanted)),
                Some(others) => Err(NoBranch { wanted, others }),
            },
            Self::Tokens(tokens) => Ok(View::Sight(sight(tokens, events))),
        }
    }
}

/// A path that occurs nowhere in a session.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no branch `{wanted}` in this session")]
pub struct NoBranch {
    /// The path.
    pub wanted: BranchPath,
    /// The first few paths that do occur. They are as the log has them, not
    /// yet safe for a terminal.
    pub others: Vec<BranchPath>,
}

/// What of a session is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// All that happened.
    Everything,
    /// What has no path, this one, or one above it.
    Path(BranchPath),
    /// What a viewer in the last invocation sees.
    Sight(Sight),
}

impl View {
    /// Tells whether an event is shown.
    #[must_use]
    pub fn sees(&self, event: &Event) -> bool {
        match self {
            Self::Everything => true,
            Self::Path(viewer) => {
                let path = Some(&event.branch.path).filter(|path| !path.as_str().is_empty());
                path_sees(Some(viewer), path)
            }
            Self::Sight(sight) => sight.sees_event(event),
        }
    }
}

/// Returns the first few strands of a session if the wanted one is not there.
fn others(
    wanted: &BranchPath,
    events: impl Iterator<Item = impl Borrow<Event>>,
) -> Option<Vec<BranchPath>> {
    let mut others: Vec<BranchPath> = Vec::new();
    for event in events {
        let path = &event.borrow().branch.path;
        // What stands above a path that occurs is a strand, too.
        if wanted.is_visible_to(path) {
            return None;
        }
        let is_new = !path.as_str().is_empty() && !others.contains(path);
        if is_new && others.len() < PATHS_CAP {
            others.push(path.clone());
        }
    }
    Some(others)
}

/// Returns the sight of a viewer with these tokens in the last invocation.
fn sight(tokens: TokenSet, events: impl Iterator<Item = impl Borrow<Event>>) -> Sight {
    let (mut last, mut joins) = (Invocation(1), RootJoins::default());
    for event in events {
        let event = event.borrow();
        last = last.max(event.invocation);
        joins.take(event);
    }
    Sight::new(last, tokens, Arc::new(joins))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::branch::Branch;
    use crate::event::testing::{Log, prompted, replied};
    use crate::event::{EventKind, UnitId};
    use crate::report::story::Story;

    fn event(tokens: &str, path: &str) -> Event {
        let mut story = Story::new();
        story.push(0, EventKind::UnitStarted);
        let branch = Branch { tokens: tokens.parse().unwrap(), path: BranchPath::from_text(path) };
        Event { branch, ..story.events()[0].clone() }
    }

    #[track_caller]
    fn check(viewer: &str, expected: &[&str]) {
        let events = [
            event("", ""),
            event("", "main"),
            event("1", "main.orch"),
            event("1,3", "main.orch.a_1"),
            event("1,4", "main.orch.a_10"),
            event("2", "main.orchestra"),
        ];
        let view = Viewer::parse(viewer).unwrap().view(events.iter()).unwrap();
        let seen: Vec<_> = events
            .iter()
            .filter(|event| view.sees(event))
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
    }

    #[test]
    fn tokens_see_what_has_no_other_token() {
        check("", &["", "main"]);
        check("2", &["", "main", "main.orchestra"]);
        check("1-3", &["", "main", "main.orch", "main.orch.a_1", "main.orchestra"]);
        check("4, 1", &["", "main", "main.orch", "main.orch.a_10"]);
    }

    #[test]
    fn tokens_are_those_of_the_last_invocation_and_of_earlier_ones_main_shows_what_it_took_home() {
        let mut log = Log { invocation: 1, ..Log::default() };
        log.put(0, "", prompted("one"))
            .put(1, "1", replied("taken home"))
            .put(2, "2", replied("never joined"))
            .put(0, "1", EventKind::Joined { children: vec![UnitId(1)] });
        log.invocation = 2;
        log.put(0, "", prompted("two")).put(3, "1", replied("hers")).put(4, "2", replied("his"));
        let seen = |viewer: &str| {
            let view = Viewer::parse(viewer).unwrap().view(log.events.iter()).unwrap();
            let seen = log.events.iter().filter(|event| view.sees(event));
            seen.map(|event| event.seq.0).collect::<Vec<_>>()
        };
        assert_eq!(seen(""), [1, 2, 4, 5]);
        assert_eq!(seen("2"), [1, 2, 4, 5, 7]);
        assert_eq!(seen("1-2"), [1, 2, 4, 5, 6, 7]);
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
        let checked = |path: &str| Viewer::parse(path).unwrap().view(events.iter()).map(drop);
        assert_eq!(checked("main.a.b"), Ok(()));
        assert_eq!(checked("main.a"), Ok(()));
        assert_eq!(checked("7"), Ok(()));
        let NoBranch { wanted: _, others } = checked("main.b").unwrap_err();
        assert_eq!(others.len(), PATHS_CAP);
        assert_eq!(others[..3], ["main", "main.a.b", "main.s0"].map(BranchPath::from_text));
    }
}
