//! What is told of others, written down within its bound.

use std::sync::Arc;

use super::super::marks::holds_tag;
use super::{CONTEXT_CAP, Part, SHARE_FLOOR, Said};

/// Writes down what a unit sees of others; `None` if that is nothing.
///
/// The whole is bounded by [`CONTEXT_CAP`]: the longest parts are cut to the
/// same length, and if there are too many for that the oldest are left out,
/// but never the user's last request. What is missing of a part is counted;
/// how many parts are missing is not, as [`super::Context::seen_by`] does not look.
#[must_use]
pub fn context(said: &[Arc<Said>]) -> Option<String> {
    if said.is_empty() {
        return None;
    }
    let kept = fitting(said);
    let share = share(&kept);
    let mark = unused_mark(&kept);
    let mut parts: Vec<String> = kept.iter().map(|said| said.framed(&mark, share)).collect();
    if kept.len() < said.len() {
        parts.insert(0, "[older parts are left out]".to_owned());
    }
    let parts = parts.join("\n\n");
    Some(include_str!("../../../prompts/context.md").trim_end().replace("{parts}", &parts))
}

/// Returns the parts that have room for [`SHARE_FLOOR`] characters each.
fn fitting(said: &[Arc<Said>]) -> Vec<&Said> {
    let request = said.iter().rposition(|said| said.part == Part::Asked);
    let mut room = CONTEXT_CAP.saturating_sub(request.map_or(0, |place| said[place].least()));
    let mut kept: Vec<&Said> = Vec::new();
    for (place, said) in said.iter().enumerate().rev() {
        if Some(place) != request {
            match room.checked_sub(said.least()) {
                Some(rest) => room = rest,
                // Nothing that is older is let in behind a gap.
                None => {
                    room = 0;
                    continue;
                }
            }
        }
        kept.push(said);
    }
    kept.reverse();
    kept
}

/// Returns the most characters of each part with which all of them fit.
fn share(kept: &[&Said]) -> usize {
    let frames: usize = kept.iter().map(|said| said.frame()).sum();
    let mut room = CONTEXT_CAP.saturating_sub(frames);
    let mut lengths: Vec<usize> = kept.iter().map(|said| said.text.length).collect();
    lengths.sort_unstable();
    for (shorter, length) in lengths.iter().enumerate() {
        let share = room / (lengths.len() - shorter);
        if *length > share {
            return share;
        }
        room -= length;
    }
    usize::MAX
}

/// Returns what makes tags that none of the parts holds.
fn unused_mark(kept: &[&Said]) -> String {
    let mut mark = String::new();
    let holds = |mark: &str| {
        let tags = [format!("said{mark}"), format!("output{mark}")];
        let held = |text: &str| tags.iter().any(|tag| holds_tag(text, tag));
        kept.iter().any(|said| held(&said.from) || held(said.call()) || held(&said.text.head))
    };
    while holds(&mark) {
        mark.push('_');
    }
    mark
}

impl Said {
    /// The characters around its text.
    fn frame(&self) -> usize {
        /// Tags, line breaks and the note of what is missing.
        const AROUND: usize = 100;
        AROUND + self.from.chars().count() + self.call().chars().count()
    }

    /// The characters that it takes up at least.
    pub(super) fn least(&self) -> usize {
        self.frame() + self.text.length.min(SHARE_FLOOR)
    }

    /// The call it is about; empty if it is about none.
    fn call(&self) -> &str {
        match &self.part {
            Part::Called(line) => line,
            Part::Asked | Part::Said | Part::SummedUp { before: _ } => "",
        }
    }

    fn framed(&self, mark: &str, share: usize) -> String {
        let Self { from, part, .. } = self;
        let from = from.replace('"', "'");
        let text = self.text.text(share);
        match part {
            Part::Asked | Part::Said | Part::SummedUp { before: _ } => {
                format!("<said{mark} from=\"{from}\">\n{text}\n</said{mark}>")
            }
            Part::Called(line) => {
                format!("<output{mark} from=\"{from}\">\n{line}\n\n{text}\n</output{mark}>")
            }
        }
    }
}
