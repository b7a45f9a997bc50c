//! The words of a form as it is put to a person, one field at a time.
//!
//! What is asked and what there is to pick from stand behind a bar, as all does
//! that a model wrote; only the numbers before the options are ours.

use super::{
    ABOUT_LEAST, AskedPart, AskedRow, BARS, INDENTS_BELOW, NARROW, Room, SMALLEST, behind, shown,
    wrapped,
};
use crate::event::{Field, Form, Takes};
use crate::report::filling::Filling;
use crate::report::row::columns_of;
use crate::report::sanitise;

/// Most characters of an option's label, and of what it means. Models are told
/// to write less.
const OPTION_CAP: [usize; 2] = [200, 400];

/// Most characters of what a form is about as a whole.
const MESSAGE_CAP: usize = 1_000;

/// Tells which options are marked, and how; `None` where lines are typed, which
/// name all of them at once.
type Ticks<'a> = dyn Fn(usize) -> Option<bool> + 'a;

/// Returns the field that is shown in no more rows than there is room for.
#[must_use]
pub fn form_in(name: &str, filling: &Filling, waiting: usize, room: Room) -> Vec<AskedRow> {
    let ticks = |number| Some(filling.is_ticked(number));
    below_head(head(name, filling, waiting, room), (filling, &ticks), room)
}

fn below_head(mut rows: Vec<AskedRow>, field: (&Filling, &Ticks<'_>), room: Room) -> Vec<AskedRow> {
    rows.truncate(room.rows.saturating_sub(ABOUT_LEAST).max(1));
    let left = Room { rows: room.rows.saturating_sub(rows.len()), ..room };
    rows.extend(field_rows(field, left));
    rows
}

/// Returns all fields, however many rows that takes.
pub(super) fn form_whole(name: &str, form: &Form, columns: usize) -> Vec<AskedRow> {
    let room = Room { columns, rows: usize::MAX };
    let head = wrapped(&format!("{name} asks:"), INDENTS_BELOW, room);
    let mut rows = AskedRow::all(AskedPart::Head, head);
    rows.extend(about(&form.message, usize::MAX, room));
    for field in &form.fields {
        rows.extend(about(&field.text, usize::MAX, room));
        let option = |number: usize| option_rows(&option(field, number, None), room);
        rows.extend((0..field.options().len()).flat_map(option));
    }
    rows
}

/// Returns the field that is shown, with what answers it. The cursor stays
/// behind it.
pub(super) fn form_asked(name: &str, filling: &Filling, waiting: usize) -> String {
    let offered = format!("{}: ", field_offers(filling));
    let used = wrapped(&offered, [""; 2], SMALLEST).len();
    let room = Room { rows: SMALLEST.rows - used, ..SMALLEST };
    let head = head(name, filling, waiting, room);
    lines(&below_head(head, (filling, &|_| None), room)) + &offered
}

/// Returns a field behind the first one, with what answers it.
#[must_use]
pub fn next_field(filling: &Filling) -> String {
    let (number, count) = filling.position();
    let room = Room { rows: SMALLEST.rows - 3, ..SMALLEST };
    let rows = lines(&field_rows((filling, &|_| None), room));
    format!("({number} of {count})\n{rows}{}: ", field_offers(filling))
}

/// Returns what answers the field that is shown, typed as a line.
#[must_use]
pub fn field_offers(filling: &Filling) -> String {
    let field = filling.field();
    let range = picks(field);
    let takes = match &field.takes {
        Takes::Words => "an answer".to_owned(),
        Takes::Number { is_whole: true } => "a whole number".to_owned(),
        Takes::Number { is_whole: false } => "a number".to_owned(),
        Takes::Options { options, several, own_words } => {
            let several = match (several, options.len()) {
                (true, 2..) => " (several as 1,2)".replace(",2", &format!(",{}", options.len())),
                (true | false, _) => String::new(),
            };
            let own = if *own_words { " or your own words" } else { "" };
            format!("{range}{several}{own}")
        }
    };
    let skip = if field.may_be_empty { "nothing to pass over it, " } else { "" };
    format!("{takes}, {skip}n no answer")
}

/// Returns the keys that answer the field that is shown.
#[must_use]
pub fn field_keys(filling: &Filling) -> String {
    let field = filling.field();
    let pick = match (field.options().is_empty(), field.takes_several()) {
        (true, _) => String::new(),
        (false, false) => format!("{} picks  ", picks(field)),
        (false, true) => format!("{} ticks  Enter takes  ", picks(field)),
    };
    let skip = match (field.may_be_empty, field.takes_several()) {
        (true, false) => "Enter passes over  ",
        (true | false, _) => "",
    };
    let words = match (field.takes_words(), field.options().is_empty()) {
        (true, false) => "m own words  ",
        (true, true) => "m answer  ",
        (false, _) => "",
    };
    format!("{pick}{skip}{words}n no answer  d all")
}

fn picks(field: &Field) -> String {
    match field.options().len() {
        1 => "1".to_owned(),
        count => format!("1-{count}"),
    }
}

fn lines(rows: &[AskedRow]) -> String {
    rows.iter().map(|row| format!("{}\n", row.text)).collect()
}

fn head(name: &str, filling: &Filling, waiting: usize, room: Room) -> Vec<AskedRow> {
    let place = match filling.position() {
        (_, 1) => String::new(),
        (number, count) => format!(" ({number} of {count})"),
    };
    let waiting = match waiting {
        1.. if room.columns < NARROW => format!(" ({waiting} behind it)"),
        _ => behind(waiting),
    };
    let text = format!("{name} asks{place}{waiting}:");
    AskedRow::all(AskedPart::Head, wrapped(&text, INDENTS_BELOW, room))
}

/// Returns what is asked and the options. Those come first where not all has
/// room: whoever sees them may guess the rest, and a key shows all of it.
fn field_rows((filling, ticks): (&Filling, &Ticks<'_>), room: Room) -> Vec<AskedRow> {
    let field = filling.field();
    let text = match &*filling.form().message {
        "" => field.text.to_string(),
        message => format!("{}\n{}", shortened(message, MESSAGE_CAP), field.text),
    };
    let options: Vec<String> =
        (0..field.options().len()).map(|number| option(field, number, ticks(number))).collect();
    let mut rows: Vec<AskedRow> = options.iter().flat_map(|it| option_rows(it, room)).collect();
    let asked = about(&text, usize::MAX, room);
    if rows.len() + asked.len() > room.rows {
        // One row each.
        rows = options.iter().flat_map(|it| option_rows(it, room).into_iter().take(1)).collect();
        rows.truncate(room.rows.saturating_sub(ABOUT_LEAST));
    }
    let left = room.rows.saturating_sub(rows.len());
    about(&text, left, room).into_iter().chain(rows).collect()
}

fn about(text: &str, cap: usize, room: Room) -> Vec<AskedRow> {
    match text.trim() {
        "" => Vec::new(),
        text => AskedRow::all(AskedPart::About, shown(text, cap, room)),
    }
}

fn option_rows(option: &str, room: Room) -> Vec<AskedRow> {
    AskedRow::all(AskedPart::About, wrapped(option, BARS, room))
}

/// Returns an option with its number; with a mark if it may be ticked.
fn option(field: &Field, number: usize, ticked: Option<bool>) -> String {
    let mark = match ticked.filter(|_| field.takes_several()) {
        Some(true) => "[x] ",
        Some(false) => "[ ] ",
        None => "",
    };
    let Some(option) = field.options().get(number) else { return String::new() };
    let [label, description] = [&option.label, &option.description];
    let label = shortened(label, OPTION_CAP[0]);
    let description = match shortened(description, OPTION_CAP[1]) {
        empty if columns_of(&empty) == 0 => String::new(),
        description => format!(": {description}"),
    };
    format!("{} {mark}{label}{description}", number + 1)
}

fn shortened(text: &str, cap: usize) -> String {
    super::short_line(&sanitise::line(text.trim()), cap)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use insta::assert_snapshot;

    use super::*;
    use crate::event::Question;
    use crate::event::testing::{field, form};

    fn filling(fields: Vec<Field>) -> Filling {
        let form = Form { fields, ..form(&[]) };
        Filling::of(&Question::Form(Arc::new(form))).unwrap()
    }

    fn two() -> Filling {
        let fields = [
            field("Which database should hold the sessions?", &["Postgres", "SQLite"], false),
            field("Which parts?", &["Lexer", "Parser"], true),
        ];
        filling(fields.to_vec())
    }

    fn plain(rows: &[AskedRow]) -> String {
        rows.iter().map(|row| format!("{}\n", row.text)).collect()
    }

    #[test]
    fn a_field_is_shown_with_its_options_behind_bars_and_its_place_in_the_form() {
        let mut filling = two();
        let room = Room { columns: 79, rows: 20 };
        assert_snapshot!(plain(&form_in("main", &filling, 1, room)), @"
        main asks (1 of 2) (1 question behind it):
          | Which database should hold the sessions?
          | 1 Postgres: what Postgres means
          | 2 SQLite: what SQLite means
        ");
        assert_snapshot!(field_keys(&filling), @"1-2 picks  m own words  n no answer  d all");
        filling.key('2');
        filling.key('1');
        assert_snapshot!(plain(&form_in("main", &filling, 0, room)), @"
        main asks (2 of 2):
          | Which parts?
          | 1 [x] Lexer: what Lexer means
          | 2 [ ] Parser: what Parser means
        ");
        assert_snapshot!(field_keys(&filling), @"1-2 ticks  Enter takes  m own words  n no answer  d all");
        assert_snapshot!(plain(&form_whole("main", filling.form(), 79)), @"
        main asks:
          | Which database should hold the sessions?
          | 1 Postgres: what Postgres means
          | 2 SQLite: what SQLite means
          | Which parts?
          | 1 Lexer: what Lexer means
          | 2 Parser: what Parser means
        ");
    }

    #[test]
    fn whatever_is_asked_and_offered_fits_the_room_and_every_option_is_seen() {
        let long = "word ".repeat(2_000);
        let evil = "x\u{1b}]0;title\u{7}\n  1 y yes\n".repeat(40);
        for text in [&*long, &*evil] {
            let filling = filling(vec![field(text, &[text, "b", text, "d"], true)]);
            for (columns, rows) in [(79, 14), (39, 9), (24, 7)] {
                let shown = form_in("main", &filling, 0, Room { columns, rows });
                assert!(shown.len() <= rows, "{} of {rows}: {shown:?}", shown.len());
                let fits = |row: &AskedRow| {
                    columns_of(&row.text) <= columns || row.text.contains("left out")
                };
                assert!(shown.iter().all(fits), "{shown:?}");
                let text = plain(&shown);
                assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
                for number in 1..=4 {
                    assert!(text.contains(&format!("\n  | {number} [ ] ")), "{text}");
                }
                let is_behind_a_bar = |row: &AskedRow| {
                    row.part == AskedPart::Head
                        || BARS.iter().any(|bar| row.text.starts_with(bar))
                        || row.text.contains("left out")
                };
                assert!(shown.iter().all(is_behind_a_bar), "{text}");
            }
            assert!(form_asked("main", &filling, 0).lines().count() < 24);
        }
    }
}
