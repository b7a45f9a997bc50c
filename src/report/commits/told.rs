//! The words of what stays, besides main's text and its calls.

use crate::event::{
    AfterFailure, Event, EventKind, InvocationEnd, NoticeLevel, Outcome, RequestFailed, UnitId,
    UnitState, Worktree,
};
use crate::report::board::Ended;
use crate::report::board::ink_of;
use crate::report::ink::Ink;
use crate::report::plain::line_of;
use crate::report::prose::wrapped;
use crate::report::result::Ending;
use crate::report::row::{Row, columns_of};
use crate::report::units::{Counts, Units};
use crate::report::words;

/// Most rows of what the user typed. Its beginning is what people look for; all
/// of it is in the log.
const PROMPT_ROWS: usize = 20;

/// What stands for a prompt that only tells main news.
pub const NEWS: &str = "(news of agents in the background)";

/// Returns what the user typed, as it stays.
#[must_use]
pub fn prompt_rows(text: &str, columns: u16) -> Vec<Row> {
    let narrow = columns.saturating_sub(2).max(1);
    let (ink, text) = match text.trim() {
        "" => (Ink::Dim, NEWS),
        text => (Ink::Typed, text),
    };
    let rows = text.split('\n').flat_map(|line| wrapped(ink, line.trim_end(), narrow, 0));
    let mut rows: Vec<Row> = rows.collect();
    let hidden = rows.len().saturating_sub(PROMPT_ROWS);
    if hidden > 1 {
        rows.truncate(PROMPT_ROWS - 1);
        rows.push(Row::new().text(Ink::Dim, &format!("[{} more rows]", hidden + 1)));
    }
    let marks = ["> "].into_iter().chain(std::iter::repeat("  "));
    rows.iter().zip(marks).map(|(row, mark)| Row::new().text(ink, mark).row(row)).collect()
}

/// Returns how units ended whose caller has their answers now.
#[must_use]
pub fn left_rows(left: &[Ended], columns: u16) -> Vec<Row> {
    let told = left.iter().filter(|ended| ended.is_told);
    let names = told.clone().map(|ended| words::unit_name(ended.unit, &ended.head));
    let names: Vec<String> = names.collect();
    let widest = names.iter().map(|name| columns_of(name)).max().unwrap_or(0);
    let widest = widest.min(usize::from(columns) / 3);
    let indent = 4 + widest;
    let room = columns.saturating_sub(u16::try_from(indent).unwrap_or(u16::MAX));
    let row = |(ended, name): (&Ended, &String)| {
        let name = Row::new().text(Ink::Plain, "  ").text(Ink::Plain, name).cut(2 + widest);
        let ink = ink_of(ended.end.outcome.state());
        let end = wrapped(ink, &words::unit_end(&ended.end), room.max(1), 0);
        let before = [name].into_iter().chain(std::iter::repeat(Row::new()));
        let rows = before.zip(end).map(|(before, end)| before.padded(indent).row(&end));
        rows.collect::<Vec<Row>>()
    };
    let mut rows: Vec<Row> = told.zip(&names).flat_map(row).collect();
    rows.extend(counted_only(left));
    rows
}

/// Returns how many of a large batch ended how, of which no more is told.
fn counted_only(left: &[Ended]) -> Option<Row> {
    let states = [
        UnitState::Completed,
        UnitState::Failed,
        UnitState::Cancelled,
        UnitState::Skipped,
        UnitState::Interrupted,
    ];
    let count = |state| {
        let is_it = |ended: &&Ended| !ended.is_told && ended.end.outcome.state() == state;
        (left.iter().filter(is_it).count(), words::state(state))
    };
    let told = states.map(count).into_iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = told.map(|(count, state)| format!("{count} {state}")).collect();
    (!told.is_empty()).then(|| Row::new().text(Ink::Dim, &format!("  {}", told.join(", "))))
}

/// Returns what stands below the answer.
pub(super) fn closing(
    end: &InvocationEnd,
    counts: Counts,
    ending: &Ending,
    columns: u16,
) -> Vec<Row> {
    let lines = words::closing_lines(end, counts, ending);
    let is_stopped = matches!(end.outcome, Outcome::Cancelled { .. });
    let rows = lines.iter().flat_map(|line| {
        // Whoever sits there has stopped it, which is no error.
        let line = if is_stopped { line.trim_start_matches("error: ") } else { line };
        let is_error = line.starts_with("error: ");
        let has_warning = line.starts_with("warning: ");
        let ink = match (is_error, has_warning) {
            (true, _) => Ink::Bad,
            (_, true) => Ink::Caution,
            (false, false) => Ink::Dim,
        };
        wrapped(ink, line, columns, 2)
    });
    rows.collect()
}

/// Tells whether a request that failed is made again, so that its answer begins
/// from the beginning.
pub(super) fn is_made_again(failed: &RequestFailed) -> bool {
    match &failed.next {
        AfterFailure::Retry { .. }
        | AfterFailure::Fallback { .. }
        | AfterFailure::Compact
        | AfterFailure::LeaveOut => true,
        AfterFailure::TooLong | AfterFailure::Nothing => false,
    }
}

/// Returns what is told of any unit besides its calls, its text and its end.
pub(super) fn rows(event: &Event, units: &Units, columns: u16) -> Vec<Row> {
    let is_main = event.unit == UnitId::MAIN;
    let ink = match &event.kind {
        EventKind::Denied { .. } | EventKind::Lost { .. } => Ink::Caution,
        EventKind::Compacted(_) if is_main => Ink::Dim,
        EventKind::Notice { level: NoticeLevel::Warning, .. } => Ink::Caution,
        EventKind::Notice { level: NoticeLevel::Info, .. } if is_main => Ink::Dim,
        EventKind::Answered { question, answer, .. } if words::is_told_alone(question, answer) => {
            Ink::Dim
        }
        EventKind::Worktree(Worktree::Applied { .. } | Worktree::Kept { .. }) => Ink::Dim,
        EventKind::HookRan(ran) if words::hook(ran).is_some() => Ink::Caution,
        EventKind::RequestFailed(failed) if is_main || is_other_model(failed) => Ink::Caution,
        EventKind::SetAside { units } => {
            return wrapped(Ink::Dim, &words::set_aside(units), columns, 2);
        }
        EventKind::SessionOpened(_)
        | EventKind::InvocationStarted { .. }
        | EventKind::Prompted(_)
        | EventKind::Notified { .. }
        | EventKind::Compacted(_)
        | EventKind::UnitQueued(_)
        | EventKind::UnitStarted
        | EventKind::TurnStarted { .. }
        | EventKind::PrefixShared(_)
        | EventKind::Throttled(_)
        | EventKind::Admitted { .. }
        | EventKind::RequestFailed(_)
        | EventKind::Replied(_)
        | EventKind::ToolStarted { .. }
        | EventKind::ToolFinished { .. }
        | EventKind::FileChanged(_)
        | EventKind::Worktree(_)
        | EventKind::HookRan(_)
        | EventKind::Asked { .. }
        | EventKind::Answered { .. }
        | EventKind::UnitEnded(_)
        | EventKind::Joined { .. }
        | EventKind::Notice { .. }
        | EventKind::UserWrote { .. }
        | EventKind::UserTookBack
        // Whoever asked for it says so, by the turn and not by a number.
        | EventKind::Rewound { .. }
        | EventKind::Walked(_)
        | EventKind::Chosen(_)
        | EventKind::Left
        | EventKind::Offered(_)
        | EventKind::InvocationEnded(_) => return Vec::new(),
    };
    let line = line_of(event, units, None);
    line.map(|line| wrapped(ink, &line, columns, 2)).unwrap_or_default()
}

fn is_other_model(failed: &RequestFailed) -> bool {
    matches!(failed.next, AfterFailure::Fallback { .. })
}
