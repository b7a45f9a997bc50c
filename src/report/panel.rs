//! What stands above the board: a question, a list, or a strand that is
//! followed.
//!
//! A panel is rows for the room there is. What is in a list and which question
//! is open, its owner says; a question is shown so that its answers can always
//! be seen.

use super::asking::Choices;
use super::board::Board;
use super::filling::Filling;
use super::ink::Ink;
use super::prose::wrapped;
use super::row::Row;
use super::units::{Counts, Doing};
use super::words::{self, AskedPart, AskedRow, Room};
use crate::event::{Question, UnitId, UnitState, UnixMillis};
use crate::message::short_number;

/// The keys of a form that has no field to be shown.
const NO_ANSWER: &str = "n no answer  d all";

/// A question that is open.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// What people call the unit that asks.
    pub name: &'a str,
    /// What it asks.
    pub question: &'a Question,
    /// The answers that it takes.
    pub choices: Choices,
    /// The form that it is, as far as it is filled in.
    pub filling: Option<&'a Filling>,
    /// How many more are behind it.
    pub waiting: usize,
    /// Whether its keys count already: until they do they are not shown.
    pub takes_keys: bool,
    /// Whether all of it was put into the scrollback.
    pub was_shown_whole: bool,
}

/// A question as it is shown, and what can be said to that.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// Its rows, the keys that answer it last.
    pub rows: Vec<Row>,
    /// The answers that it takes as it is shown: none that allows what is not on
    /// the screen. `None` takes a no alone.
    pub choices: Option<Choices>,
}

/// Returns a question in at most so many rows.
///
/// Who asks is always there, and the keys. Where not all has room, rules go first.
/// Answers that would keep them are there only if all of it is shown, or was.
#[must_use]
pub fn question_rows(asked: Asked<'_>, columns: u16, rows: usize) -> Shown {
    let Asked { name, question, choices, filling, waiting, takes_keys, was_shown_whole } = asked;
    let name = words::in_columns(name, usize::from(columns) / 2);
    if let Some(filling) = filling {
        return form_rows(&name, (filling, waiting, takes_keys), columns, rows);
    }
    let shown = |choices: Option<Choices>| {
        let keys = key_rows(question, choices, columns);
        // Who asks comes before how to answer.
        let room = rows.saturating_sub(keys.len()).max(1);
        let room = Room { columns: usize::from(columns), rows: room };
        (words::asked_in(&name, question, (choices, waiting), room), keys)
    };
    let offers = [Some(choices), Some(choices.once()), None];
    let is_seen = |offer: Option<Choices>| {
        let (text, keys) = shown(offer);
        let has = |part| text.iter().any(|row| row.part == part);
        let fits = text.len() + keys.len() <= rows;
        match offer {
            Some(Choices::Batch | Choices::Form) => fits,
            Some(choices @ Choices::Call { .. }) => {
                let may_last = was_shown_whole || words::shows_what_lasts(&text);
                fits && has(AskedPart::About) && (may_last || !choices.lasts())
            }
            None => true,
        }
    };
    let choices = offers.into_iter().find(|offer| is_seen(*offer)).flatten();
    let (mut text, mut keys) = shown(choices);
    text.truncate(rows.saturating_sub(keys.len()).max(1));
    if !takes_keys {
        keys.fill(Row::new());
    }
    let mut rows = in_ink(&text, columns);
    rows.extend(keys);
    Shown { rows, choices }
}

/// Returns the field of a form that is shown, and the keys that answer it.
fn form_rows(
    name: &str,
    (filling, waiting, takes_keys): (&Filling, usize, bool),
    columns: u16,
    rows: usize,
) -> Shown {
    let mut keys = in_key_rows(&words::field_keys(filling), columns);
    let room = rows.saturating_sub(keys.len()).max(1);
    let room = Room { columns: usize::from(columns), rows: room };
    let mut text = words::form_in(name, filling, waiting, room);
    text.truncate(room.rows);
    if !takes_keys {
        keys.fill(Row::new());
    }
    let mut rows = in_ink(&text, columns);
    rows.extend(keys);
    Shown { rows, choices: Some(Choices::Form) }
}

/// Returns all that is asked, however many rows that takes.
#[must_use]
pub fn whole_question(asked: Asked<'_>, columns: u16) -> Vec<Row> {
    let Asked { name, question, choices, .. } = asked;
    in_ink(&words::asked_whole(name, question, choices, usize::from(columns)), columns)
}

fn in_ink(rows: &[AskedRow], columns: u16) -> Vec<Row> {
    let row = |AskedRow { text, part }: &AskedRow| {
        let ink = match part {
            AskedPart::Head => Ink::Caution,
            AskedPart::About => Ink::Plain,
            AskedPart::Removed => Ink::Removed,
            AskedPart::Added => Ink::Added,
            AskedPart::Words | AskedPart::Rules | AskedPart::LeftOut => Ink::Dim,
        };
        Row::new().text(ink, text).cut(usize::from(columns))
    };
    rows.iter().map(row).collect()
}

/// Returns the keys that answer a question, in rows.
fn key_rows(question: &Question, choices: Option<Choices>, columns: u16) -> Vec<Row> {
    let keys = match (choices, question) {
        (Some(choices), _) => keys(choices),
        (None, Question::Batch { slots: _ }) => "n no  d all".to_owned(),
        (None, Question::Call(_)) => "n no  m no and why  d all".to_owned(),
        (None, Question::Form(_)) => NO_ANSWER.to_owned(),
    };
    in_key_rows(&keys, columns)
}

fn in_key_rows(keys: &str, columns: u16) -> Vec<Row> {
    let keys = wrapped(Ink::Strong, keys, columns.saturating_sub(2), 2);
    let indent = Row::new().text(Ink::Plain, "  ");
    keys.into_iter().map(|row| indent.clone().row(&row)).collect()
}

/// Returns the keys that answer a question.
fn keys(choices: Choices) -> String {
    match choices {
        Choices::Batch => "y yes  n no  d all".to_owned(),
        Choices::Form => NO_ANSWER.to_owned(),
        Choices::Call { in_batch, has_rules } => {
            let batch = if in_batch && has_rules { "b this batch  " } else { "" };
            let rules = if has_rules { "s this session  a always  " } else { "" };
            format!("y once  {batch}{rules}n no  m no and why  d all")
        }
    }
}

/// A list to choose from.
#[derive(Debug, Clone)]
pub struct List<'a> {
    /// What is chosen.
    pub title: &'a str,
    /// What was typed to find something in it.
    pub filter: &'a str,
    /// What there is to choose from.
    pub items: &'a [Row],
    /// Which of them keys point at.
    pub picked: usize,
}

/// Returns a list in at most so many rows, what is picked among them.
#[must_use]
pub fn list_rows(list: &List<'_>, columns: u16, rows: usize) -> Vec<Row> {
    let List { title, filter, items, picked } = list;
    let columns = usize::from(columns);
    let mut head = Row::new().text(Ink::Dim, "--- ").text(Ink::Strong, title);
    if !filter.is_empty() {
        head = head.text(Ink::Plain, "  ").text(Ink::Typed, filter);
    }
    let room = rows.saturating_sub(1).min(items.len());
    let first = picked.saturating_sub(room / 2).min(items.len() - room);
    let hidden = items.len() - room;
    if hidden > 0 {
        head = head.text(Ink::Dim, &format!("  {} of {}", picked + 1, items.len()));
    }
    let mut shown = vec![head.cut(columns)];
    for (number, item) in items.iter().enumerate().skip(first).take(room) {
        let is_picked = number == *picked;
        let mark = Row::new().text(Ink::Caution, if is_picked { "> " } else { "  " });
        let item = item.clone().cut(columns.saturating_sub(2));
        shown.push(mark.row(&if is_picked { item.all(Ink::Picked) } else { item }));
    }
    if items.is_empty() && rows > 1 {
        shown.push(Row::new().text(Ink::Dim, "  nothing"));
    }
    shown
}

/// Returns the row above a strand that is followed.
#[must_use]
pub fn strand_head(board: &Board, unit: UnitId, now: UnixMillis, columns: u16) -> Row {
    let number = board.number_of(unit).map(|number| format!("{number} ")).unwrap_or_default();
    let mut row = Row::new().text(Ink::Dim, "--- ").text(Ink::Strong, &number);
    let Some(head) = board.head(unit) else {
        return row.text(Ink::Strong, &unit.to_string()).cut(usize::from(columns));
    };
    row.push(Ink::Strong, &words::unit_name(unit, head));
    if columns >= 60 {
        row.push(Ink::Dim, &format!(" ({})", words::short_line(&head.agent, 20)));
    }
    if let Some(ended) = board.ended(unit) {
        let state = ended.end.outcome.state();
        row.push(super::board::ink_of(state), &format!("  {}", words::state(state)));
    }
    if let Some(known) = board.units().get(unit) {
        let (ink, state) = match known.doing() {
            _ if board.units().questions_of(unit) > 0 => (Ink::Caution, "asks"),
            _ if known.started.is_none() => (Ink::Dim, words::state(UnitState::Queued)),
            Doing::Work => (Ink::Working, words::state(UnitState::Running)),
            Doing::Wait => (Ink::Plain, "waiting"),
            Doing::Hold(_) => (Ink::Caution, words::state(UnitState::Throttled)),
        };
        row.push(ink, &format!("  {state}"));
        if columns >= 60 {
            row.push(Ink::Dim, &format!("  {} tok", short_number(known.usage.total())));
        }
        if let Some(started) = known.started {
            row.push(Ink::Dim, &format!("  {}", words::elapsed(now.since(started))));
        }
    }
    row.cut(usize::from(columns))
}

/// Returns the row above a strand that is over and told: it has no number any
/// more.
#[must_use]
pub fn strand_head_after(name: &str, state: UnitState, columns: u16) -> Row {
    let row = Row::new().text(Ink::Dim, "--- ").text(Ink::Strong, name);
    let row = row.text(super::board::ink_of(state), &format!("  {}", words::state(state)));
    row.cut(usize::from(columns))
}

/// Returns the row below a strand that is followed: what the others do.
#[must_use]
pub fn strand_foot(board: &Board, unit: UnitId, columns: u16) -> Option<Row> {
    let Counts { queued, running, throttled, waiting, .. } = board.units().counts();
    let all = queued + running + throttled + waiting;
    let own = u64::from(board.units().get(unit).is_some());
    let others = all.checked_sub(own).filter(|others| *others > 0)?;
    let asks = board.units().asking().filter(|unit| *unit != UnitId::MAIN).count();
    let asks = if asks > 0 { format!(", {asks} of all ask") } else { String::new() };
    let queued = if queued > 0 { format!(", {queued} queued") } else { String::new() };
    let text = format!("--- {others} others{asks}{queued}");
    Some(Row::new().text(Ink::Dim, &text).cut(usize::from(columns)))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::report::story::{Story, question};

    fn plain(rows: &[Row]) -> String {
        rows.iter().map(|row| row.plain().trim_end().to_owned() + "\n").collect()
    }

    fn asked(question: &Question, takes_keys: bool) -> Asked<'_> {
        let choices = Choices::Call { in_batch: true, has_rules: true };
        Asked {
            name: "security",
            question,
            choices,
            filling: None,
            waiting: 1,
            takes_keys,
            was_shown_whole: false,
        }
    }

    #[test]
    fn a_question_is_shown_with_the_keys_that_answer_it() {
        let question = question("cargo audit --deny warnings");
        assert_snapshot!(plain(&question_rows(asked(&question, true), 79, 12).rows), @"
        security asks to use Bash (1 question behind it):
          | cargo audit --deny warnings
          no rule allows it
          after a yes it runs without a sandbox
          b, s and a allow more; a keeps it in your settings:
            `Bash(cargo audit --deny warnings *)`
          y once  b this batch  s this session  a always  n no  m no and why  d all
        ");
        assert_snapshot!(plain(&question_rows(asked(&question, true), 39, 12).rows), @"
        security asks to use Bash (1 behind
          it):
          | cargo audit --deny warnings
          no rule allows it
          after a yes it runs without a sandbox
          b, s and a allow more; a keeps it in
            your settings:
            `Bash(cargo audit --deny warnings
            *)`
          y once  b this batch  s this
            session  a always  n no  m no and
            why  d all
        ");
    }

    #[test]
    fn before_its_keys_count_their_rows_are_there_and_empty() {
        let question = question("ls");
        let shown = question_rows(asked(&question, true), 79, 12).rows;
        let early = question_rows(asked(&question, false), 79, 12).rows;
        assert_eq!(early.len(), shown.len());
        assert!(!plain(&early).contains("y once"));
    }

    #[test]
    fn whatever_is_asked_its_answers_stay_in_sight() {
        for text in ["x ".repeat(5_000), "x\n".repeat(3_000), "日".repeat(2_000)] {
            let question = question(&text);
            for (columns, rows) in [(79, 14), (39, 14), (24, 12)] {
                let shown = question_rows(asked(&question, true), columns, rows).rows;
                assert!(shown.len() <= rows, "{} of {rows}: {shown:?}", shown.len());
                assert!(shown.iter().all(|row| row.columns() <= usize::from(columns)), "{shown:?}");
                assert!(plain(&shown).contains("y once"));
                assert!(plain(&shown).starts_with("security asks"));
                let is_seen = plain(&shown).contains("\n  | ");
                assert!(is_seen || columns < 39, "{columns}: {}", plain(&shown));
            }
        }
    }

    /// What is shown of a question in so little room, and what it takes.
    fn small(question: &Question, columns: u16, rows: usize) -> String {
        let Shown { rows, choices } = question_rows(asked(question, true), columns, rows);
        format!("{}{choices:?}", plain(&rows))
    }

    #[test]
    fn without_room_for_the_rules_no_answer_that_lasts_is_offered() {
        let command = question("cargo audit --deny warnings");
        assert_snapshot!(small(&command, 39, 10), @"
        security asks to use Bash (1 behind
          it):
          | cargo audit --deny warnings
          no rule allows it
          after a yes it runs without a sandbox
          y once  n no  m no and why  d all
        Some(Call { in_batch: true, has_rules: false })
        ");
        assert_snapshot!(small(&command, 79, 5), @"
        security asks to use Bash (1 question behind it):
          | cargo audit --deny warnings
          no rule allows it
          after a yes it runs without a sandbox
          y once  n no  m no and why  d all
        Some(Call { in_batch: true, has_rules: false })
        ");
        assert_snapshot!(small(&command, 39, 4), @"
        security asks to use Bash (1 behind
          | cargo audit --deny warnings
          no rule allows it
          y once  n no  m no and why  d all
        Some(Call { in_batch: true, has_rules: false })
        ");
    }

    #[test]
    fn without_a_row_of_what_is_asked_about_only_a_no_is_offered() {
        let command = question("cargo audit --deny warnings");
        assert_snapshot!(small(&command, 79, 2), @"
        security asks to use Bash (1 question behind it):
          n no  m no and why  d all
        None
        ");
        assert_snapshot!(small(&question(&"x ".repeat(500)), 39, 3), @"
        security asks to use Bash (1 behind
          [1000 characters left out, of 29 row…
          n no  m no and why  d all
        None
        ");
        let batch = Question::Batch { slots: 40 };
        let of_batch = |rows| {
            let choices = Choices::Batch;
            let asked = Asked { choices, ..asked(&batch, true) };
            question_rows(asked, 39, rows).choices
        };
        assert_eq!((of_batch(8), of_batch(2)), (Some(Choices::Batch), None));
    }

    #[test]
    fn whatever_is_not_on_the_screen_is_not_allowed_by_a_key() {
        for text in ["ls".to_owned(), "x ".repeat(5_000), "日\n".repeat(2_000)] {
            let question = question(&text);
            for (columns, rows) in (12..100).step_by(9).flat_map(|at| (0..20).map(move |n| (at, n)))
            {
                let Shown { rows: shown, choices } =
                    question_rows(asked(&question, true), columns, rows);
                let text = plain(&shown);
                assert!(shown.len() <= rows || choices.is_none(), "{columns}x{rows}: {text}");
                assert!(choices.is_none() || text.contains("\n  | "), "{columns}x{rows}: {text}");
                let lasts = choices.is_some_and(Choices::lasts);
                assert!(!lasts || text.contains('`'), "{columns}x{rows}: {text}");
            }
        }
    }

    #[test]
    fn after_all_of_it_was_shown_every_answer_is_offered() {
        let command = question(&"echo a; ".repeat(300));
        let offered = |was_shown_whole| {
            let asked = Asked { was_shown_whole, ..asked(&command, true) };
            let Shown { rows, choices } = question_rows(asked, 79, 14);
            (choices.is_some_and(Choices::lasts), plain(&rows))
        };
        let (lasts, text) = offered(false);
        assert!(!lasts && text.contains("d shows all of it with its rule;"), "{text}");
        let (lasts, text) = offered(true);
        assert!(lasts && text.contains("s this session  a always"), "{text}");
    }

    #[test]
    fn the_rows_of_a_change_have_their_inks_and_all_of_it_can_be_seen() {
        let arguments = serde_json::json!({"file_path": "a.rs", "old_string": "a();",
            "new_string": "b();\nc();", "replace_all": true});
        let Question::Call(call) = question("a.rs") else { unreachable!() };
        let edit = Question::Call(std::sync::Arc::new(crate::event::CallQuestion {
            tool: "Edit".into(),
            arguments: arguments.to_string().into(),
            ..crate::event::CallQuestion::clone(&call)
        }));
        let Shown { rows, .. } = question_rows(asked(&edit, true), 79, 12);
        let inks: Vec<Ink> = rows[1..6].iter().map(|row| row.spans()[0].0).collect();
        assert_eq!(inks, [Ink::Plain, Ink::Dim, Ink::Removed, Ink::Added, Ink::Added]);
        let whole = whole_question(asked(&edit, true), 79);
        assert_snapshot!(plain(&whole), @"
        security asks to use Edit:
          | a.rs
          +2 -1:
          | -a();
          | +b();
          | +c();
          with replace_all = true
          no rule allows it
          after a yes it runs without a sandbox
          b, s and a allow more; a keeps it in your settings:
            `Bash(a.rs *)`
        ");
        assert_eq!(whole[2].spans()[0].0, Ink::Dim);
        assert_eq!(whole[3].spans()[0].0, Ink::Removed);
    }

    #[test]
    fn what_is_picked_in_a_long_list_is_in_sight() {
        let items: Vec<Row> =
            (1..=50).map(|number| Row::new().text(Ink::Plain, &format!("turn {number}"))).collect();
        let list = |picked| List { title: "rewind", filter: "tu", items: &items, picked };
        assert_snapshot!(plain(&list_rows(&list(0), 39, 4)), @"
        --- rewind  tu  1 of 50
        > turn 1
          turn 2
          turn 3
        ");
        assert_snapshot!(plain(&list_rows(&list(49), 39, 4)), @"
        --- rewind  tu  50 of 50
          turn 48
          turn 49
        > turn 50
        ");
        let none = List { items: &[], ..list(0) };
        assert_snapshot!(plain(&list_rows(&none, 39, 4)), @"
        --- rewind  tu
          nothing
        ");
    }

    #[test]
    fn a_strand_says_who_it_is_and_how_many_others_there_are() {
        let mut story = Story::new();
        story.batch("c", &["correctness", "security", "docs"]).start(1).start(2);
        let mut board = Board::default();
        story.events().iter().for_each(|event| drop(board.take(event)));
        let now = UnixMillis(1_031_600);
        let head = |columns| strand_head(&board, UnitId(2), now, columns).plain();
        assert_eq!(head(79), "--- 2 security (reviewer)  running  0 tok  31s");
        assert_eq!(head(39), "--- 2 security  running  31s");
        let foot = strand_foot(&board, UnitId(2), 79).map(|row| row.plain());
        assert_eq!(foot.as_deref(), Some("--- 2 others, 1 queued"));
    }
}
