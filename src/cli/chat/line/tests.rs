//! What keys do to the line, typed as a terminal sends them.

use super::super::decode::{Decoder, Typed};
use super::*;
use proptest::prelude::*;

const UP: &str = "\u{1b}[A";
const DOWN: &str = "\u{1b}[B";
const LEFT: &str = "\u{1b}[D";
const ESC: &str = "\u{1b}[27u";

fn line(editing: Editing, entries: &[&str]) -> Line {
    let mut history = History::default();
    entries.iter().for_each(|entry| history.add(entry).unwrap());
    Line::new(editing, history)
}

/// Types into a line; returns what became of the last key.
fn types(line: &mut Line, keys: &str) -> Edited {
    let (mut decoder, mut typed) = (Decoder::default(), Vec::new());
    decoder.feed(keys.as_bytes(), &mut typed);
    decoder.settle(&mut typed);
    let mut last = Edited::Unused;
    for one in typed {
        match one {
            Typed::Key(key) => last = line.key(key),
            Typed::Paste(pasted) => line.paste(&pasted.text),
        }
    }
    last
}

/// The text with a `|` where the cursor is.
fn shown(line: &Line) -> String {
    let (before, after) = line.text().split_at(line.cursor());
    format!("{before}|{after}")
}

#[track_caller]
fn check(line: &mut Line, keys: &str, expected: &str, edited: Edited) {
    let last = types(line, keys);
    assert_eq!((shown(line).as_str(), last), (expected, edited), "after {keys:?}");
}

#[test]
fn the_keys_of_emacs_are_those_of_a_shell() {
    let mut line = line(Editing::Emacs, &[]);
    check(&mut line, "fix the tets", "fix the tets|", Edited::Taken);
    check(&mut line, "\u{17}", "fix the |", Edited::Taken);
    check(&mut line, "\u{19}", "fix the tets|", Edited::Taken);
    check(&mut line, "\u{1}\u{1b}d", "| the tets", Edited::Taken);
    check(&mut line, "\u{5}\u{2}\u{2}\u{b}", " the te|", Edited::Taken);
    check(&mut line, "\u{1b}b\u{15}", "|te", Edited::Taken);
    check(&mut line, "\u{1f}", " the |te", Edited::Taken);
    check(&mut line, "\u{1b}/", "|te", Edited::Taken);
    check(&mut line, "\u{4}\u{6}\u{8}\u{4}", "|", Edited::End);
}

#[test]
fn keys_that_lead_out_of_the_line_leave_it_as_it_is() {
    for editing in Editing::ALL {
        let mut line = line(editing, &[]);
        for (keys, edited) in [
            ("\r", Edited::Enter),
            ("\u{3}", Edited::Interrupt),
            ("\u{12}", Edited::Search),
            ("\u{7}", Edited::Editor),
            ("\u{c}", Edited::Redraw),
            ("\u{f}", Edited::Unused),
            ("\u{1a}", Edited::Unused),
            ("\t", Edited::Unused),
            ("\u{1b}[5~", Edited::Unused),
        ] {
            line.set("text");
            check(&mut line, keys, "text|", edited);
        }
    }
}

#[test]
fn a_line_break_comes_with_alt_enter_ctrl_j_shift_enter_or_behind_a_backslash() {
    for editing in Editing::ALL {
        for keys in ["\u{1b}\r", "\n", "\u{1b}[13;2u", "\\\r"] {
            check(&mut line(editing, &[]), &format!("a{keys}b"), "a\nb|", Edited::Taken);
        }
    }
    check(&mut line(Editing::Emacs, &[]), &format!("a\\b{LEFT}\r"), "a\n|b", Edited::Taken);
}

#[test]
fn a_paste_is_text_and_one_step_of_the_way_back() {
    for editing in Editing::ALL {
        let mut line = line(editing, &[]);
        let rows = "row\n".repeat(200);
        types(&mut line, &format!("a\u{1b}[200~{rows}\u{1b}[201~"));
        assert_eq!(line.text(), format!("a{rows}"));
        types(&mut line, if editing == Editing::Vi { "\u{1b}[27uu" } else { "\u{1f}" });
        assert_eq!(line.text(), "a");
    }
}

#[test]
fn up_and_down_go_through_the_lines_and_then_through_what_was_typed_before() {
    let mut line = line(Editing::Emacs, &["one", "two\nlines", "three"]);
    check(&mut line, UP, "three|", Edited::Taken);
    check(&mut line, UP, "two|\nlines", Edited::Taken);
    check(&mut line, UP, "one|", Edited::Taken);
    check(&mut line, UP, "one|", Edited::Unused);
    check(&mut line, DOWN, "two\nlines|", Edited::Taken);
    check(&mut line, UP, "two|\nlines", Edited::Taken);
    check(&mut line, DOWN, "two\nlin|es", Edited::Taken);
    check(&mut line, DOWN, "three|", Edited::Taken);
    check(&mut line, DOWN, "|", Edited::Taken);
    check(&mut line, DOWN, "|", Edited::Unused);
}

#[test]
fn a_draft_is_there_again_at_the_end_and_only_what_begins_like_it_is_shown() {
    let mut line = line(Editing::Emacs, &["fix a", "test", "fix b"]);
    check(&mut line, &format!("fix{UP}"), "fix b|", Edited::Taken);
    check(&mut line, UP, "fix a|", Edited::Taken);
    check(&mut line, &format!("{DOWN}{DOWN}"), "fix|", Edited::Taken);
    // What is changed is a draft of its own.
    check(&mut line, &format!("{UP}!{DOWN}"), "fix b!|", Edited::Unused);
    check(&mut line, &format!("{LEFT}{UP}"), "fix b|", Edited::Taken);
    check(&mut line, "\u{10}", "test|", Edited::Taken);
    check(&mut line, "\u{e}\u{e}", "fix b!|", Edited::Taken);
}

#[test]
fn what_is_taken_is_remembered_and_the_line_is_empty() {
    let mut line = line(Editing::Emacs, &[]);
    types(&mut line, "one");
    let (text, kept) = line.take();
    assert_eq!((text.as_str(), kept.is_ok(), shown(&line).as_str()), ("one", true, "|"));
    types(&mut line, " secret");
    assert_eq!(line.take().0, " secret");
    check(&mut line, UP, "one|", Edited::Taken);
    line.clear();
    check(&mut line, "\u{1f}", "one|", Edited::Taken);
}

#[test]
fn the_keys_of_vi_insert_command_and_select() {
    let mut line = line(Editing::Vi, &["before"]);
    check(&mut line, "one two", "one two|", Edited::Taken);
    assert_eq!(line.state(), State::Insert);
    check(&mut line, ESC, "one tw|o", Edited::Taken);
    assert_eq!(line.state(), State::Normal);
    check(&mut line, "b", "one |two", Edited::Taken);
    check(&mut line, "cwthree", "one three|", Edited::Taken);
    check(&mut line, &format!("{ESC}0"), "|one three", Edited::Taken);
    check(&mut line, "v", "|one three", Edited::Taken);
    assert_eq!((line.state(), line.selection()), (State::Visual, Some(0..1)));
    check(&mut line, "ed", "| three", Edited::Taken);
    assert_eq!(line.state(), State::Normal);
    check(&mut line, "u", "on|e three", Edited::Taken);
    check(&mut line, "A\u{1b}\rx", "one three\nx|", Edited::Taken);
    check(&mut line, &format!("{ESC}kk"), "befor|e", Edited::Taken);
    check(&mut line, "\r", "before|", Edited::Enter);
    assert_eq!(line.state(), State::Insert);
}

#[test]
fn an_escape_leaves_what_there_is_to_leave_and_then_the_line() {
    let mut emacs = line(Editing::Emacs, &[]);
    check(&mut emacs, &format!("ab{ESC}"), "ab|", Edited::Escape);
    check(&mut emacs, &format!("{LEFT}{ESC}"), "a|b", Edited::Escape);

    let mut vi = line(Editing::Vi, &[]);
    check(&mut vi, &format!("ab{ESC}"), "a|b", Edited::Taken);
    check(&mut vi, ESC, "a|b", Edited::Escape);
    check(&mut vi, &format!("d{ESC}"), "a|b", Edited::Taken);
    check(&mut vi, ESC, "a|b", Edited::Escape);
    check(&mut vi, &format!("vh{ESC}"), "|ab", Edited::Taken);
    assert_eq!((vi.state(), vi.selection()), (State::Normal, None));
    check(&mut vi, &format!("i{ESC}"), "|ab", Edited::Taken);
}

#[test]
fn a_part_is_replaced_in_one_step_of_the_way_back() {
    let mut line = line(Editing::Emacs, &[]);
    types(&mut line, "see @sr now");
    line.replace(4..7, "@src/main.rs");
    assert_eq!(shown(&line), "see @src/main.rs| now");
    check(&mut line, "\u{1f}", "see @sr now|", Edited::Taken);
    line.set("other");
    check(&mut line, "\u{1f}", "see @sr now|", Edited::Taken);
}

#[test]
fn texts_to_go_back_to_are_bounded() {
    let mut line = line(Editing::Emacs, &[]);
    line.paste(&"x ".repeat(512 * 1024));
    for _ in 0..70 {
        types(&mut line, "y ");
        assert!(line.undoable <= UNDO_CAP + line.text().len());
    }
    assert_eq!((line.text().len(), line.cursor()), (1024 * 1024 + 140, 1024 * 1024 + 140));
}

#[test]
fn a_command_on_which_the_editor_panics_changes_nothing() {
    let mut line = line(Editing::Vi, &[]);
    check(&mut line, &format!("\u{4e00}{ESC}v"), "|\u{4e00}", Edited::Taken);
    check(&mut line, "D", "|\u{4e00}", Edited::Taken);
    check(&mut line, "ix", "x|\u{4e00}", Edited::Taken);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_keys_bring_the_line_out_of_order(
        is_vi in any::<bool>(),
        keys in prop::collection::vec(
            prop_oneof![
                "[a-zA-Z0-9$^.;,~ä\u{4e00}\u{1f980}]".prop_map(String::from),
                "[\u{1}-\u{1f}\u{7f}]".prop_map(String::from),
                "\u{1b}[a-z<>/\r\u{7f}]",
                "\u{1b}\\[[ABCDFHZ]",
                "\u{1b}\\[1;[2-6][ABCDFH]",
                Just(ESC.to_owned()),
                Just("\u{1b}[200~a\nä\u{1b}[201~".to_owned()),
            ],
            0..40,
        ),
    ) {
        let editing = if is_vi { Editing::Vi } else { Editing::Emacs };
        let mut line = line(editing, &["one", "two\nlines", "ä\u{4e00}"]);
        for key in keys {
            types(&mut line, &key);
            let text = line.text();
            prop_assert!(text.is_char_boundary(line.cursor()));
            prop_assert!(!text.contains('\r'));
            if let Some(range) = line.selection() {
                prop_assert!(text.get(range).is_some());
            }
        }
    }
}
