//! Dotted paths such as `main.review.security`: how people name a strand.

use std::fmt;
use std::sync::Arc;

/// Most characters of one segment; a description may be a whole sentence.
const SEGMENT_CAP: usize = 32;

/// A dotted path; a clone shares the text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BranchPath(Arc<str>);

impl Default for BranchPath {
    fn default() -> Self {
        Self::main()
    }
}

impl BranchPath {
    /// The path of the main conversation.
    #[must_use]
    pub fn main() -> Self {
        Self("main".into())
    }

    /// Takes a path as it stands in a log.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the path of a child. The segment is one that
    /// [`BranchPath::segment`] made, so that it holds no dot.
    #[must_use]
    pub fn child(&self, segment: &str) -> Self {
        Self(format!("{}.{segment}", self.0).into())
    }

    /// Cuts any text down to a segment: lower-case letters, digits, dashes and
    /// underscores.
    #[must_use]
    pub fn segment(name: &str) -> String {
        segment(name)
    }

    /// Tells whether an event of this path is visible to `viewer`: it is the
    /// same path or an ancestor, segment by segment (`orch` is no ancestor of
    /// `orchestra`).
    #[must_use]
    pub fn is_visible_to(&self, viewer: &Self) -> bool {
        viewer.0.strip_prefix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Returns the path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Tells whether `viewer` sees an event of the path `event`, where either may
/// be without one: an event that belongs to no path is for everybody, and
/// whoever looks from no path in particular sees everything.
#[must_use]
pub fn path_sees(viewer: Option<&BranchPath>, event: Option<&BranchPath>) -> bool {
    match (viewer, event) {
        (Some(viewer), Some(event)) => event.is_visible_to(viewer),
        (None, _) | (_, None) => true,
    }
}

impl fmt::Display for BranchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn segment(name: &str) -> String {
    let mut segment = String::new();
    for character in name.chars() {
        if segment.len() >= SEGMENT_CAP {
            break;
        }
        if character.is_alphanumeric() || character == '_' {
            segment.extend(character.to_lowercase());
        } else if !segment.is_empty() && !segment.ends_with('-') {
            segment.push('-');
        }
    }
    let trimmed = segment.trim_end_matches('-');
    if trimmed.is_empty() { "unit".to_owned() } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_row_of_the_fixture_gives_its_visibility() {
        let fixtures: Value =
            serde_json::from_str(include_str!("../../tests/fixtures/fixtures.json")).unwrap();
        let path = |text: &Value| text.as_str().map(BranchPath::from_text);
        let rows = fixtures["path_visibility"].as_array().unwrap();
        assert_eq!(rows.len(), 14);
        for row in rows {
            let (viewer, event) = (path(&row["viewer"]), path(&row["event"]));
            let visible = path_sees(viewer.as_ref(), event.as_ref());
            assert_eq!(Some(visible), row["visible"].as_bool(), "{row}");
        }
    }

    #[test]
    fn a_child_is_named_by_a_plain_segment() {
        let child = |name| BranchPath::main().child(&BranchPath::segment(name)).to_string();
        assert_eq!(child("Security review: auth.rs"), "main.security-review-auth-rs");
        assert_eq!(child("agent_10"), "main.agent_10");
        assert_eq!(child("…"), "main.unit");
    }

    #[test]
    fn ancestors_are_taken_by_segment() {
        let path = BranchPath::from_text;
        assert!(path("orch").is_visible_to(&path("orch.researcher")));
        assert!(!path("orch").is_visible_to(&path("orchestra.researcher")));
        assert!(!path("p.agent_1").is_visible_to(&path("p.agent_10")));
        assert!(!path("orch.researcher").is_visible_to(&path("orch")));
    }
}
