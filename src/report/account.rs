//! What became of a session's last run, for people who go on with it.

use std::sync::Arc;

use crate::event::{Outcome, UnitId, UnitState};
use crate::session::Account;

use super::unfinished::{NamedUnit, OpenCall, Unfinished, Writer, unfinished_lines};
use super::words;

/// Most units that a list names for each state. More fill no screen usefully;
/// the session's transcript has them all.
const NAMED_IN_LIST: usize = 100;

/// Most characters of a unit's name, a prompt and an error.
const NAME_CAP: usize = 40;
const LINE_CAP: usize = 300;

/// What is told of a last run, in this order.
const STATES: [UnitState; 5] = [
    UnitState::Completed,
    UnitState::Failed,
    UnitState::Cancelled,
    UnitState::Interrupted,
    UnitState::Skipped,
];

/// Returns what to say when a session is gone on with: how far its last run
/// had come when it was cut off. `None` if it came to an end.
#[must_use]
pub fn resumed(session: &str, account: &Account) -> Option<String> {
    // Where main had come to its end, what worked beside it had not.
    let mut states = account.units.values().map(|(_, state)| *state);
    let is_cut_off = matches!(account.outcome, Some(Outcome::Interrupted))
        || states.any(|state| state == UnitState::Interrupted);
    if !is_cut_off {
        return None;
    }
    let how_far = unfinished_lines(&unfinished(account), Writer::Gone).join("; ");
    Some(format!("resumed {session}: the last run was {how_far}"))
}

fn unfinished(account: &Account) -> Unfinished {
    let units =
        |wanted: UnitState| account.units.iter().filter(move |(_, (_, state))| *state == wanted);
    let named = |wanted| units(wanted).map(|(&unit, (name, _))| named_unit(unit, Some(name)));
    let open_calls = account.cut_off.iter().map(|cut_off| OpenCall {
        call: cut_off.call.clone(),
        unit: named_unit(cut_off.unit, account.units.get(&cut_off.unit).map(|(name, _)| name)),
        tool: Arc::clone(&cut_off.tool),
        subject: Arc::clone(&cut_off.subject),
    });
    Unfinished {
        completed: units(UnitState::Completed).count() as u64,
        failed: units(UnitState::Failed).count() as u64,
        cancelled: units(UnitState::Cancelled).count() as u64,
        cut_off: named(UnitState::Interrupted).collect(),
        never_started: named(UnitState::Skipped).collect(),
        lost: Vec::new(),
        open_calls: open_calls.collect(),
    }
}

fn named_unit(unit: UnitId, description: Option<&Arc<str>>) -> NamedUnit {
    let name = match description.map(|name| name.trim()) {
        None | Some("") => unit.to_string(),
        Some(name) => words::short_line(name, NAME_CAP),
    };
    NamedUnit { unit, name }
}

/// Returns the lines that tell what became of a session's last run: how it
/// ended, which units are in which state, and which calls were cut off.
#[must_use]
pub fn account_lines(session: &str, account: &Account) -> Vec<String> {
    let mut lines = vec![format!("session {session}")];
    if account.prompt.trim().is_empty() {
        lines.push("nothing was asked yet".to_owned());
        return lines;
    }
    let prompt = account.prompt.trim().lines().next().unwrap_or_default();
    lines.push(format!("prompt: {}", words::short_line(prompt, LINE_CAP)));
    lines.push(format!("the last run {}", ending(account.outcome.as_ref())));
    for state in STATES {
        if let Some((count, names)) = named(account, state) {
            lines.push(format!("{count} {}: {names}", words::state(state)));
        }
    }
    for open in unfinished(account).open_calls.iter().take(NAMED_IN_LIST) {
        let (call, name) = (words::call(&open.tool, &open.subject), &open.unit.name);
        lines.push(format!("cut off in the middle, so what it did is unknown: {call} ({name})"));
    }
    lines
}

fn ending(outcome: Option<&Outcome>) -> String {
    match outcome {
        Some(Outcome::Done { text: _ }) => "came to its end".to_owned(),
        Some(Outcome::Failed(failure)) => {
            format!("failed: {}", words::short_line(&failure.message, LINE_CAP))
        }
        Some(Outcome::Cancelled { ran: _ }) => "was cancelled".to_owned(),
        Some(Outcome::Interrupted) => "was interrupted".to_owned(),
        None => "is not over".to_owned(),
    }
}

/// Returns how many units are in a state and the names of the first; `None` if
/// none is.
fn named(account: &Account, wanted: UnitState) -> Option<(usize, String)> {
    let units = account.units.iter().filter(|(_, (_, state))| *state == wanted);
    let count = units.clone().count();
    let named = units.take(NAMED_IN_LIST);
    let names: Vec<String> =
        named.map(|(&unit, (name, _))| named_unit(unit, Some(name)).name).collect();
    let rest = match count.saturating_sub(NAMED_IN_LIST) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    (count > 0).then(|| (count, format!("{}{rest}", names.join(", "))))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::session::CutOff;

    fn account(units: &[(&str, UnitState)], outcome: Option<Outcome>) -> Account {
        let units =
            (1..).zip(units).map(|(id, (name, state))| (UnitId(id), ((*name).into(), *state)));
        Account {
            prompt: "review it\nall".into(),
            outcome,
            units: units.collect(),
            cut_off: Vec::new(),
        }
    }

    const UNITS: [(&str, UnitState); 4] = [
        ("tests", UnitState::Completed),
        ("style\u{1b}[1m", UnitState::Interrupted),
        ("clarity", UnitState::Skipped),
        ("speed", UnitState::Skipped),
    ];

    fn cut_off(unit: u32, tool: &str, subject: &str) -> CutOff {
        CutOff { unit: UnitId(unit), call: "c".into(), tool: tool.into(), subject: subject.into() }
    }

    #[test]
    fn a_sentence_says_how_far_a_run_had_come_that_was_cut_off() {
        let mut interrupted = account(&UNITS, Some(Outcome::Interrupted));
        assert_snapshot!(resumed("0198-a", &interrupted).unwrap(), @r"resumed 0198-a: the last run was interrupted: 1 done, 1 cut off (style\u{1b}[1m), 2 never started (clarity, speed)");
        interrupted.units.clear();
        interrupted.cut_off.push(cut_off(0, "Bash", "make"));
        assert_snapshot!(resumed("0198-a", &interrupted).unwrap(), @"resumed 0198-a: the last run was interrupted: the main conversation was cut off; cut off in the middle, so what they did is unknown: Bash make (main)");
        let done = account(&UNITS[..1], Some(Outcome::Done { text: "x".into() }));
        assert_eq!(resumed("0198-a", &done), None);
        let beside = account(&UNITS[..0], Some(Outcome::Done { text: "x".into() }));
        let units = [(UnitId(1), ("look".into(), UnitState::Interrupted))].into();
        let beside = Account { units, ..beside };
        assert_snapshot!(resumed("0198-a", &beside).unwrap(), @"resumed 0198-a: the last run was interrupted: 1 cut off (look)");
    }

    #[test]
    fn a_list_names_each_unit_by_its_state_and_each_call_that_was_cut_off() {
        let mut account = account(&UNITS, Some(Outcome::Interrupted));
        account.cut_off.push(cut_off(2, "Bash", "cargo test"));
        account.cut_off.push(cut_off(0, "Write", "a.txt"));
        assert_snapshot!(account_lines("0198-a", &account).join("\n"), @r"
        session 0198-a
        prompt: review it
        the last run was interrupted
        1 done: tests
        1 cut off: style\u{1b}[1m
        2 never started: clarity, speed
        cut off in the middle, so what it did is unknown: Bash cargo test (style\u{1b}[1m)
        cut off in the middle, so what it did is unknown: Write a.txt (main)
        ");
        assert_snapshot!(account_lines("0198-a", &Account::default()).join("\n"), @r"
        session 0198-a
        nothing was asked yet
        ");
    }

    #[test]
    fn many_units_are_counted() {
        let many = vec![("unit", UnitState::Interrupted); 10_000];
        let account = account(&many, Some(Outcome::Interrupted));
        let sentence = resumed("0198-a", &account).unwrap();
        assert!(sentence.contains("10000 cut off (unit, ") && sentence.contains(" and 9992 more)"));
        let list = account_lines("0198-a", &account).join("");
        assert!(list.ends_with("unit and 9900 more") && list.len() < 10_000, "{list}");
    }
}
