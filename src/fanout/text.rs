//! What a parent reads of its children.
//!
//! Each slot's share is a function of how many slots there are, so the whole
//! text is bounded; what does not fit is in files that the text names.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use crate::event::{Outcome, UnitEnd, UnitId, UnitState, batch_state};
use crate::message::Output;
use crate::prompt::{breaks_line, ending};
use crate::session::{Spill, SpillFile};
use crate::tool::AGENT_OUTPUT_CAP;

/// Least characters a slot's text gets. With less, a text says nothing, and
/// the slot is only counted.
const SHARE_FLOOR: usize = 160;

/// Most characters of one slot's text, however few slots there are.
const SHARE_CAP: usize = 24_000;

/// Most characters of a slot's description in its heading.
const NAME_CAP: usize = 120;

/// Characters kept free for a slot's heading, its state and the note that
/// names its file.
const FRAME: usize = 360;

/// A slot that has ended, with as much of its text as its share allows: the
/// whole text of ten thousand slots would be no small thing to hold.
pub(crate) struct Ended {
    description: Arc<str>,
    agent: Arc<str>,
    state: UnitState,
    text: String,
}

impl Ended {
    /// A slot of which only its name and its type are known yet.
    pub(crate) fn not_yet(description: &Arc<str>, agent: &Arc<str>) -> Self {
        Self {
            description: Arc::clone(description),
            agent: Arc::clone(agent),
            state: UnitState::Skipped,
            text: "[never started]".to_owned(),
        }
    }

    /// Takes note that it runs beside its caller from now on.
    pub(super) fn goes_on(&mut self, unit: UnitId) {
        self.state = UnitState::Running;
        self.text = include_str!("../../prompts/background.md")
            .trim_end()
            .replace("{unit}", &unit.to_string());
    }

    /// Takes note that its caller waits for it no more.
    pub(super) fn is_set_aside(&mut self, unit: UnitId) {
        self.state = UnitState::Running;
        self.text = include_str!("../../prompts/set_aside.md")
            .trim_end()
            .replace("{unit}", &unit.to_string());
    }

    /// Takes note of the slot's end. `slots` is how many there are.
    pub(crate) fn ends(&mut self, end: &UnitEnd, slots: usize, spill: &Spill) {
        self.state = end.outcome.state();
        self.text = body(&self.description, end, share_of(slots), spill);
    }
}

/// Returns the most characters of each slot's text.
fn share_of(slots: usize) -> usize {
    (AGENT_OUTPUT_CAP / slots.max(1)).saturating_sub(FRAME).clamp(SHARE_FLOOR, SHARE_CAP)
}

/// Tells whether so many shares, each with its frame, fit one output.
fn fit(slots: usize) -> bool {
    slots * (share_of(slots) + FRAME) <= AGENT_OUTPUT_CAP
}

/// Writes the text of a batch.
pub(super) fn of_batch(slots: &[Ended], spill: &Spill) -> Output {
    let text = if fit(slots.len()) {
        let sections: Vec<String> = (1..)
            .zip(slots)
            .map(|(number, slot)| format!("{}\n\n{}", heading(number, slot), slot.text))
            .collect();
        sections.join("\n\n---\n\n")
    } else {
        of_many(slots, spill)
    };
    let is_error = !slots.iter().any(is_well);
    Output { text, is_error, images: Vec::new() }
}

/// Writes the text of a single call.
pub(super) fn of_single(slots: &[Ended]) -> Output {
    let Some(slot) = slots.first() else {
        return Output::error("nothing was run");
    };
    Output { text: slot.text.clone(), is_error: !is_well(slot), images: Vec::new() }
}

/// Tells whether nothing has gone wrong with a slot: it has its answer, or it
/// goes on beside its caller.
fn is_well(slot: &Ended) -> bool {
    matches!(slot.state, UnitState::Completed | UnitState::Running)
}

/// Keeps a text in a file if it may not fit its share.
pub(super) fn keep_whole(outcome: &Outcome, spill: &Spill, unit: UnitId) -> Option<Arc<str>> {
    let Outcome::Done { text } = outcome else {
        return None;
    };
    if text.len() < SHARE_FLOOR {
        return None;
    }
    // Without the file the text is merely cut; that is said where it is cut.
    let path = spill.keep(&unit.to_string(), text).ok()?;
    Some(path.to_string_lossy().into())
}

/// A batch of so many slots that their texts would say nothing: counts, the
/// slots that ended badly as far as they fit, and one file that lists all.
fn of_many(slots: &[Ended], spill: &Spill) -> String {
    let count = |wanted: UnitState| slots.iter().filter(|slot| slot.state == wanted).count();
    let whole = batch_state(slots.iter().map(|slot| slot.state));
    let mut text = format!("{} tasks, {} as a whole", slots.len(), whole.as_str());
    for state in UnitState::ALL {
        let number = count(state);
        if number > 0 {
            write!(text, ", {number} {}", state.as_str()).expect("a string takes any text");
        }
    }
    match keep_list(slots, spill) {
        Ok(path) => write!(
            text,
            ".\nThe answers, or the files that hold the long ones, are listed in {}; read it in \
             parts.",
            path.display()
        ),
        Err(error) => write!(text, ".\nThe answers could not be written to a file: {error}"),
    }
    .expect("a string takes any text");
    for (number, slot) in (1..).zip(slots) {
        if slot.state == UnitState::Completed {
            continue;
        }
        let line = format!("\n{}: {}", heading(number, slot), first_line(&slot.text));
        if text.len() + line.len() > AGENT_OUTPUT_CAP {
            text.push_str("\n…");
            break;
        }
        text.push_str(&line);
    }
    text
}

/// Writes what is held of all answers, one behind the other.
fn keep_list(slots: &[Ended], spill: &Spill) -> io::Result<PathBuf> {
    let SpillFile { path, file } = spill.create("batch")?;
    let mut file = BufWriter::new(file);
    for (number, slot) in (1..).zip(slots) {
        write!(file, "{}\n\n{}\n\n", heading(number, slot), slot.text)?;
    }
    file.flush()?;
    Ok(path)
}

fn heading(number: usize, slot: &Ended) -> String {
    let name: String = first_line(&slot.description).chars().take(NAME_CAP).collect();
    format!("## Task {number}: {name} ({})", slot.agent)
}

/// Tells whether what a slot leaves is kept in a file when it ends: the part of a
/// text that does not fit. A whole one has its file already.
pub(super) fn needs_a_file(end: &UnitEnd, slots: usize) -> bool {
    is_cut_short(end, share_of(slots))
}

fn is_cut_short(end: &UnitEnd, share: usize) -> bool {
    let is_done = matches!(end.outcome, Outcome::Done { text: _ });
    !is_done && end.text.trim().chars().nth(share / 2).is_some()
}

fn body(description: &str, end: &UnitEnd, share: usize, spill: &Spill) -> String {
    let file = is_cut_short(end, share)
        .then(|| spill.keep(&format!("{description}-partial"), end.text.trim()).ok())
        .flatten()
        .map(|path| path.to_string_lossy().into_owned());
    ending(end, share, file.as_deref())
}

pub(super) fn first_line(text: &str) -> &str {
    text.split(breaks_line).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FailureKind;
    use crate::message::Usage;

    /// One of `slots` slots that has ended.
    fn slot(name: (&str, &str), outcome: Outcome, text: &str, slots: usize) -> Ended {
        let end = UnitEnd {
            outcome,
            text: text.into(),
            usage: Usage::default(),
            turns: 1,
            tool_uses: 0,
            duration_ms: 1,
            output_file: None,
            share: None,
        };
        let (description, agent) = (name.0.into(), name.1.into());
        let text = String::new();
        let mut slot = Ended { description, agent, state: UnitState::Skipped, text };
        slot.ends(&end, slots, &spill().1);
        slot
    }

    fn done(name: (&str, &str), text: &str, slots: usize) -> Ended {
        slot(name, Outcome::Done { text: text.into() }, text, slots)
    }

    fn spill() -> (tempfile::TempDir, Spill) {
        let directory = tempfile::tempdir().unwrap();
        let spill = Spill { directory: directory.path().to_owned() };
        (directory, spill)
    }

    #[test]
    fn the_text_of_a_batch_is_the_fixtures() {
        let fixtures: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/fixtures/fixtures.json")).unwrap();
        let slots =
            [done(("A", "file-search"), "result 1", 2), done(("B", "code-review"), "result 2", 2)];
        let output = of_batch(&slots, &spill().1);
        assert_eq!(Some(output.text.as_str()), fixtures["batch_model_text"].as_str());
        assert!(!output.is_error);
    }

    #[test]
    fn a_bad_end_is_told_with_its_error_and_its_partial_text() {
        let failed = Outcome::failed(FailureKind::Provider, "503 overloaded");
        let slots = [
            slot(("A", "x"), failed, "half an answer", 3),
            slot(("B", "x"), Outcome::Cancelled { ran: true }, "", 3),
            slot(("C", "x"), Outcome::Cancelled { ran: false }, "", 3),
        ];
        let output = of_batch(&slots, &spill().1);
        assert_eq!(
            output.text,
            "## Task 1: A (x)\n\n[failed: 503 overloaded]\n\nPartial result:\n\nhalf an answer\
             \n\n---\n\n## Task 2: B (x)\n\n[cancelled: stopped while it ran]\
             \n\n---\n\n## Task 3: C (x)\n\n[never started: cancelled]"
        );
        assert!(output.is_error);
    }

    #[test]
    fn any_number_of_slots_fits_the_cap_and_the_rest_is_in_files() {
        let (_directory, spill) = spill();
        let long = "x".repeat(100_000);
        for count in [1, 5, 100, 300, 5_000] {
            let name = (long.as_str(), "a");
            let all = count + 1;
            let mut slots: Vec<Ended> = (0..count).map(|_| done(name, &long, all)).collect();
            let failed = Outcome::failed(FailureKind::Panic, long.as_str());
            slots.push(slot(("bad", "a"), failed, &long, all));
            let output = of_batch(&slots, &spill);
            assert!(output.text.len() <= AGENT_OUTPUT_CAP, "{count}: {}", output.text.len());
            assert!(output.text.contains("failed: xxx"), "{count}");
            let whole = format!("{all} tasks, failed as a whole, {count} completed, 1 failed.");
            assert_eq!(output.text.starts_with(&whole), !fit(all), "{count}");
        }
    }
}
