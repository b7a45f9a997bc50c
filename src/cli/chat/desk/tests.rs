//! What keys and events come to, and that every frame fits.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;

use super::*;
use crate::cli::chat::commands::What;
use crate::cli::chat::decode::Pasted;
use crate::config::Editing;
use crate::event::testing::{field, form};
use crate::event::{Entry, Form, Question, Verdict};
use crate::report::story::{Story, done, question};
use crate::run::FromUser;

const NOW: UnixMillis = UnixMillis(1_000_000);

/// Longer than a question is guarded.
const LATER: UnixMillis = UnixMillis(1_000_400);

fn desk() -> Desk {
    let manners = Manners { editing: Editing::Emacs, bell_after_ms: 10_000 };
    let size = Size { columns: 80, rows: 24 };
    let mut desk = Desk::new(manners, History::default(), size);
    let skills = vec![("review".to_owned(), "looks at a change".to_owned())];
    let about = About { mode: "default", skills, ..About::default() };
    desk.see(Seen::Began { about, highlighter: None, rows: Vec::new(), context: Some(0) }, NOW);
    desk
}

fn tell(desk: &mut Desk, story: &Story) -> Vec<Step> {
    let seen = |event: &Event| Seen::Event(Box::new(event.clone()));
    story.events().iter().flat_map(|event| desk.see(seen(event), NOW)).collect()
}

fn press(desk: &mut Desk, code: KeyCode, modifiers: KeyModifiers) -> Vec<Step> {
    desk.see(Seen::Typed(Typed::Key(KeyEvent::new(code, modifiers))), LATER)
}

fn control(desk: &mut Desk, letter: char) -> Vec<Step> {
    press(desk, KeyCode::Char(letter), KeyModifiers::CONTROL)
}

/// Types letters; a line feed is Enter and an escape Esc.
fn types(desk: &mut Desk, text: &str) -> Vec<Step> {
    let code = |letter| match letter {
        '\n' => KeyCode::Enter,
        '\u{1b}' => KeyCode::Esc,
        '\t' => KeyCode::Tab,
        '\u{8}' => KeyCode::Backspace,
        letter => KeyCode::Char(letter),
    };
    text.chars().flat_map(|letter| press(desk, code(letter), KeyModifiers::NONE)).collect()
}

/// A turn with two units at work and one that waits.
fn busy() -> Story {
    let mut story = Story::new();
    story.invocation("look").batch("c", &["north", "south", "east"]).start(1).start(2);
    story
}

fn wrote(text: &str) -> Step {
    Step::Tell(FromUser::Wrote(text.into()))
}

fn answered(id: u64, verdict: Verdict) -> Step {
    Step::Tell(FromUser::Answered { id: QuestionId(crate::event::Seq(id)), verdict })
}

/// Types letters, and nothing more for a while.
fn says(desk: &mut Desk, text: &str) -> Vec<Step> {
    let mut steps = types(desk, text);
    steps.extend(desk.due(UnixMillis(LATER.0 + 350)));
    steps
}

#[test]
fn what_the_chat_was_started_with_is_sent_as_if_it_was_typed_or_stays_in_the_line() {
    let mut begun = desk();
    let first = |text: &str| Seen::First(text.to_owned());
    assert_eq!(begun.see(first(" look "), NOW), [Step::Invoke("look".to_owned())]);
    assert_eq!(begun.line.text(), "");
    let mut begun = desk();
    assert_eq!(begun.see(first("/revew"), NOW), []);
    assert_eq!(begun.line.text(), "/revew");
    assert!(begun.note.is_some_and(|note| note.contains("try /review")));
}

#[test]
fn what_is_typed_is_asked_at_rest_and_waits_while_main_works() {
    let mut desk = desk();
    assert_eq!(types(&mut desk, "look\n"), [Step::Invoke("look".to_owned())]);
    assert_eq!(types(&mut desk, "and there\n"), [wrote("and there")], "it is about to begin");
    tell(&mut desk, &busy());
    assert_eq!(types(&mut desk, "/review\n"), [], "a skill waits for the end of the turn");
    assert_eq!(desk.line.text(), "/review");
    assert!(desk.note.as_ref().is_some_and(|note| note.contains("once the turn is over")));
    desk.line.clear();
    assert_eq!(types(&mut desk, "/usage\n"), [Step::Command(What::Usage, String::new())]);
    assert_eq!(types(&mut desk, "!ls\n"), []);
}

#[test]
fn what_waits_comes_back_into_the_line_when_the_turn_is_ended() {
    let mut desk = desk();
    let mut story = busy();
    story.push(0, EventKind::UserWrote { text: "one".into() });
    story.push(0, EventKind::UserWrote { text: "two".into() });
    tell(&mut desk, &story);
    types(&mut desk, "three");
    let ends = [Step::Tell(FromUser::TookBack), Step::Tell(FromUser::EndTurn)];
    assert_eq!(types(&mut desk, "\u{1b}"), ends);
    assert_eq!(desk.line.text(), "one\n\ntwo\n\nthree");
}

#[test]
fn digits_pick_from_an_empty_line_alone() {
    let mut desk = desk();
    tell(&mut desk, &busy());
    assert_eq!(types(&mut desk, "2"), []);
    assert_eq!(desk.focus, Focus::Picked(UnitId(2)));
    assert_eq!(types(&mut desk, "x"), [Step::Tell(FromUser::Stop(UnitId(2)))]);
    assert_eq!(types(&mut desk, "r"), [Step::Tell(FromUser::Again(UnitId(2)))]);
    types(&mut desk, "\n");
    assert_eq!(desk.focus, Focus::Strand(UnitId(2)));
    types(&mut desk, "\u{1b}");
    assert_eq!(desk.focus, Focus::Line);
    types(&mut desk, "a2");
    assert_eq!((desk.line.text(), &desk.focus), ("a2", &Focus::Line));
}

#[test]
fn a_question_takes_keys_after_a_moment_and_from_an_empty_line() {
    let mut desk = desk();
    let mut story = busy();
    story.asks(1, 7, question("ls"));
    assert_eq!(tell(&mut desk, &story), [Step::Call("north asks".to_owned())]);
    assert_eq!(desk.question_keys(LATER), panels::Keys::NotYet, "nobody has seen it");
    desk.frame(NOW);
    assert_eq!(desk.question_keys(NOW), panels::Keys::NotYet);
    assert_eq!(says(&mut desk, "y"), [answered(7, Verdict::Yes)]);
    // The first one is not answered before the log says so.
    story.asks(2, 8, question("rm"));
    let mut again = self::desk();
    types(&mut again, "so");
    tell(&mut again, &story);
    again.frame(NOW);
    assert_eq!(types(&mut again, "y"), [], "it is a letter of the line");
    assert_eq!(again.line.text(), "soy");
    assert_eq!(says(&mut again, "\tn"), [answered(7, Verdict::No)]);
}

#[test]
fn a_letter_that_begins_words_answers_nothing() {
    let asked = || {
        let mut desk = desk();
        let mut story = busy();
        story.asks(1, 7, question("ls"));
        tell(&mut desk, &story);
        desk.frame(NOW);
        desk
    };
    let mut desk = asked();
    assert_eq!(types(&mut desk, "a"), []);
    assert_eq!(desk.wakes(LATER), Some(UnixMillis(LATER.0 + 350)));
    assert_eq!(desk.due(UnixMillis(LATER.0 + 349)), [], "another letter may come");
    assert_eq!(says(&mut desk, "lso look"), []);
    assert_eq!((desk.line.text(), &desk.focus), ("also look", &Focus::Line));

    for (typed, said) in [("aa", 1), ("a\n", 1), ("a\u{8}", 0), ("a\u{1b}", 0)] {
        let mut desk = asked();
        let steps = types(&mut desk, typed);
        let always = answered(7, Verdict::Always);
        assert_eq!(steps.iter().filter(|step| **step == always).count(), said, "{typed:?}");
        assert_eq!(desk.line.text(), "");
    }
    let mut desk = asked();
    types(&mut desk, "a");
    let late = UnixMillis(LATER.0 + 900);
    assert_eq!(desk.see(Seen::Shown(Vec::new()), late), [], "a key may wait to be read");
    let key = Typed::Key(KeyEvent::new(KeyCode::Char('l'), KeyModifiers::NONE));
    assert_eq!(desk.see(Seen::Typed(key), late), []);
    assert_eq!(desk.line.text(), "al");

    let mut desk = asked();
    types(&mut desk, "a");
    desk.see(Seen::Choose(Listing::new("turns", Vec::new())), LATER);
    assert_eq!(says(&mut desk, ""), [], "nobody sees the question any more");
    assert_eq!(desk.focus, Focus::List);
}

#[test]
fn letters_typed_too_early_go_to_the_line() {
    let mut desk = desk();
    let mut story = busy();
    story.asks(1, 7, question("ls"));
    tell(&mut desk, &story);
    let key = KeyEvent::new(KeyCode::Char('y'), KeyModifiers::NONE);
    assert_eq!(desk.see(Seen::Typed(Typed::Key(key)), NOW), []);
    assert_eq!((desk.line.text(), &desk.focus), ("y", &Focus::Line));
}

#[test]
fn a_question_under_a_list_takes_no_keys_before_it_is_seen() {
    let mut desk = desk();
    let mut story = busy();
    tell(&mut desk, &story);
    types(&mut desk, "/theme\n");
    story.asks(1, 7, question("ls"));
    tell(&mut desk, &story);
    desk.frame(NOW);
    types(&mut desk, "\u{1b}");
    assert_eq!(types(&mut desk, "y"), [], "it was never on the screen");
}

#[test]
fn a_no_may_have_words_and_the_draft_comes_back() {
    let mut desk = desk();
    types(&mut desk, "draft");
    let mut story = busy();
    story.asks(1, 7, question("ls"));
    tell(&mut desk, &story);
    desk.frame(NOW);
    types(&mut desk, "\tm");
    assert_eq!(desk.line.text(), "");
    let because = Verdict::NoBecause("use rg".into());
    assert_eq!(types(&mut desk, "use rg\n"), [answered(7, because)]);
    assert_eq!(desk.line.text(), "draft");
}

#[test]
fn words_of_a_no_stay_when_their_question_goes() {
    let mut desk = desk();
    types(&mut desk, "draft");
    let mut story = busy();
    story.asks(1, 7, question("ls")).asks(2, 8, question("rm"));
    tell(&mut desk, &story);
    desk.frame(NOW);
    types(&mut desk, "\tmno, use pnpm");
    let mut rest = Story::new();
    rest.answered(1, 7, (question("ls"), Verdict::Withdrawn));
    tell(&mut desk, &rest);
    desk.frame(NOW);
    assert_eq!((desk.line.text(), &desk.focus), ("no, use pnpm\n\ndraft", &Focus::Line));
    assert_eq!(says(&mut desk, "a"), [], "it was meant for no other question");
}

#[test]
fn a_list_that_comes_late_covers_no_words() {
    let mut desk = desk();
    let mut story = busy();
    story.asks(1, 7, question("ls"));
    tell(&mut desk, &story);
    desk.frame(NOW);
    types(&mut desk, "mno");
    desk.see(Seen::Choose(Listing::new("turns", Vec::new())), LATER);
    types(&mut desk, "\u{1b}");
    assert_eq!((desk.line.text(), &desk.focus), ("no", &Focus::Line));
}

#[test]
fn offers_that_are_not_seen_take_no_keys() {
    let mut desk = desk();
    let mut story = busy();
    tell(&mut desk, &story);
    types(&mut desk, "/re");
    assert!(desk.offers());
    story.asks(1, 7, question("ls"));
    tell(&mut desk, &story);
    assert!(!desk.offers());
    types(&mut desk, "\t");
    assert_eq!((desk.line.text(), &desk.focus), ("/re", &Focus::Question));
    types(&mut desk, "\t\u{1b}");
    assert_eq!(desk.line.text(), "/re");
}

#[test]
fn a_digit_that_begins_a_message_stays_in_it() {
    let mut desk = desk();
    tell(&mut desk, &busy());
    types(&mut desk, "2 more");
    assert_eq!((desk.line.text(), &desk.focus), ("2 more", &Focus::Line));
    desk.line.clear();
    types(&mut desk, "7 more");
    assert_eq!(desk.line.text(), "7 more", "no agent has that number");
    for message in ["12 more", "2D", "27 more", "72"] {
        desk.line.clear();
        types(&mut desk, message);
        assert_eq!(desk.line.text(), message);
    }
    desk.line.clear();
    types(&mut desk, "2");
    let pasted = Pasted { text: " more".to_owned(), left_out: 0 };
    desk.see(Seen::Typed(Typed::Paste(pasted)), LATER);
    assert_eq!(desk.line.text(), "2 more");
    desk.line.clear();
    types(&mut desk, "2\u{1b}");
    press(&mut desk, KeyCode::Down, KeyModifiers::NONE);
    types(&mut desk, "h");
    assert_eq!(desk.line.text(), "h", "nothing of it stays");
    desk.line.clear();
    assert_eq!(types(&mut desk, "12x"), [Step::Tell(FromUser::Stop(UnitId(2)))]);
    assert_eq!(desk.line.text(), "");
    types(&mut desk, "\u{1b}2\n1 more");
    assert_eq!(desk.line.text(), "1 more", "while one is followed, too");
}

#[test]
fn a_paste_is_something_else_that_was_typed() {
    let mut desk = desk();
    control(&mut desk, 'c');
    let pasted = Pasted { text: "text".to_owned(), left_out: 0 };
    desk.see(Seen::Typed(Typed::Paste(pasted)), LATER);
    assert_eq!(control(&mut desk, 'c'), [], "it empties the line");
    assert_eq!(control(&mut desk, 'c'), [], "that was a first one");
}

#[test]
fn a_note_about_a_second_key_ends_with_its_time() {
    let mut desk = desk();
    control(&mut desk, 'c');
    assert_eq!(desk.note.as_deref(), Some("Ctrl-C again leaves"));
    let over = desk.wakes(LATER).expect("the time is known");
    assert_eq!(desk.due(UnixMillis(over.0 - 1)), []);
    assert!(desk.note.is_some());
    assert_eq!(desk.due(over), []);
    assert_eq!(desk.note, None);
}

#[test]
fn a_question_that_is_withdrawn_gives_the_keys_back() {
    let mut desk = desk();
    let mut story = busy();
    story.asks(1, 7, question("ls")).asks(2, 8, question("rm"));
    story.answered(1, 7, (question("ls"), Verdict::Withdrawn));
    let steps = tell(&mut desk, &story);
    assert_eq!(steps.last(), Some(&Step::Call("south asks".to_owned())));
    let mut rest = Story::new();
    rest.answered(2, 8, (question("rm"), Verdict::Withdrawn));
    tell(&mut desk, &rest);
    assert_eq!((desk.is_asked(), &desk.focus), (false, &Focus::Line));
}

#[test]
fn ctrl_c_empties_the_line_then_ends_the_turn_then_all() {
    let mut desk = desk();
    tell(&mut desk, &busy());
    types(&mut desk, "text");
    assert_eq!(control(&mut desk, 'c'), []);
    assert_eq!(desk.line.text(), "");
    assert_eq!(control(&mut desk, 'c'), [Step::Tell(FromUser::EndTurn)]);
    assert_eq!(control(&mut desk, 'c'), [Step::Leave { at_once: true }]);
}

#[test]
fn two_interrupts_leave_also_where_the_first_took_back_what_waited() {
    let mut desk = desk();
    let mut story = busy();
    story.push(0, EventKind::UserWrote { text: "one".into() });
    tell(&mut desk, &story);
    let ends = [Step::Tell(FromUser::TookBack), Step::Tell(FromUser::EndTurn)];
    assert_eq!(control(&mut desk, 'c'), ends);
    assert_eq!(control(&mut desk, 'c'), [Step::Leave { at_once: true }]);
}

#[test]
fn a_key_between_two_interrupts_tells_them_apart() {
    let mut desk = desk();
    control(&mut desk, 'c');
    types(&mut desk, "a");
    assert_eq!(control(&mut desk, 'c'), [], "it empties the line");
    assert_eq!(control(&mut desk, 'c'), [], "it is a first one again");
    assert_eq!(control(&mut desk, 'c'), [Step::Leave { at_once: true }]);
}

#[test]
fn whoever_follows_a_unit_follows_the_one_that_does_its_task_again() {
    let mut desk = desk();
    let mut story = busy();
    tell(&mut desk, &story);
    types(&mut desk, "2\n");
    types(&mut desk, "r");
    let EventKind::UnitQueued(head) = &story.events()[2].kind else { panic!("it is declared") };
    let head = UnitHead { again: Some(UnitId(2)), ..head.clone() };
    let mut rest = Story::new();
    rest.push(4, EventKind::UnitQueued(head));
    tell(&mut desk, &rest);
    assert_eq!(desk.focus, Focus::Strand(UnitId(4)));
    assert_eq!(desk.strands.followed(), Some(UnitId(4)));
    story.start(4);
}

#[test]
fn agents_in_the_background_are_not_ended_by_another_session_unsaid() {
    let mut story = Story::new();
    story.invocation("go").push(1, EventKind::UnitQueued(background())).start(1);
    story.over(done("started"), "started");
    let mut desk = desk();
    tell(&mut desk, &story);
    assert_eq!(types(&mut desk, "/clear\n"), []);
    assert_eq!(desk.line.text(), "/clear");
    assert_eq!(types(&mut desk, "\n"), [Step::Command(What::Clear, String::new())]);
    let mut rest = Story::new();
    rest.end(1, done("found"));
    assert_eq!(tell(&mut desk, &rest), [], "no news of a session that is being left");
}

#[test]
fn a_command_that_is_refused_ends_no_prompt() {
    let mut desk = desk();
    types(&mut desk, "look\n");
    let refusal = || Refusal::new(crate::cli::exit::Exit::BadInput, "no");
    let refused = |given| Seen::Refused { given, text: String::new(), refusal: refusal() };
    desk.see(refused(Given::Command), LATER);
    assert!(desk.is_busy());
    desk.see(refused(Given::Prompt), LATER);
    assert!(!desk.is_busy());
}

#[test]
fn what_came_into_the_line_while_it_was_edited_stays() {
    let mut desk = desk();
    types(&mut desk, "draft");
    assert_eq!(control(&mut desk, 'g'), [Step::Edit("draft".to_owned())]);
    desk.see(Seen::Rewound("put back".to_owned()), LATER);
    desk.see(Seen::Edited("edited".to_owned()), LATER);
    assert_eq!(desk.line.text(), "edited\n\nput back\n\ndraft");
}

#[test]
fn how_full_the_window_is_goes_with_the_turns_that_went_back() {
    let mut desk = desk();
    desk.meter = Meter::with_context(Some(500));
    assert_eq!(desk.meter.percent_of(1_000), Some(50));
    desk.see(Seen::Rewound("again".to_owned()), LATER);
    assert_eq!((desk.meter.percent_of(1_000), desk.line.text()), (None, "again"));
}

#[test]
fn ctrl_d_leaves_at_rest_and_asks_once_more_at_work() {
    let mut desk = desk();
    assert_eq!(control(&mut desk, 'd'), [Step::Leave { at_once: false }]);
    let mut desk = self::desk();
    tell(&mut desk, &busy());
    assert_eq!(control(&mut desk, 'd'), []);
    assert_eq!(control(&mut desk, 'd'), [Step::Leave { at_once: false }]);
    let mut desk = self::desk();
    tell(&mut desk, &busy());
    control(&mut desk, 'd');
    types(&mut desk, "a");
    desk.line.clear();
    assert_eq!(control(&mut desk, 'd'), [], "another key came between");
}

#[test]
fn news_of_the_background_ask_for_a_turn_when_main_rests_and_nobody_types() {
    let mut story = Story::new();
    story.invocation("go").push(1, EventKind::UnitQueued(background())).start(1);
    story.over(done("started"), "started");
    let ended = |desk: &mut Desk| {
        let mut rest = Story::new();
        rest.end(1, done("found"));
        tell(desk, &rest)
    };
    let mut desk = desk();
    assert_eq!(tell(&mut desk, &story), []);
    assert_eq!(ended(&mut desk), [Step::News]);
    assert_eq!(desk.see(Seen::Shown(Vec::new()), LATER), [], "once");
    let mut desk = self::desk();
    tell(&mut desk, &story);
    types(&mut desk, "a");
    assert_eq!(ended(&mut desk), [], "somebody types");
    assert_eq!(control(&mut desk, 'c'), [Step::News], "and no longer does");
}

fn background() -> crate::event::UnitHead {
    let mut story = Story::new();
    story.batch("c", &["fork"]);
    let EventKind::UnitQueued(head) = &story.events()[0].kind else { panic!("it is declared") };
    let head = head.clone();
    crate::event::UnitHead { is_background: true, slot: None, ..head }
}

#[test]
fn ctrl_b_sets_units_aside_and_moves_left_without_any() {
    let mut desk = desk();
    types(&mut desk, "ab");
    assert_eq!(control(&mut desk, 'b'), []);
    assert_eq!(desk.line.cursor(), 1);
    tell(&mut desk, &busy());
    assert_eq!(control(&mut desk, 'b'), [Step::Tell(FromUser::SetAside)]);
}

/// A form of fields with three options each, of which several may be picked or
/// one.
fn ask(fields: &[(&str, bool)]) -> Question {
    let labels = ["a", "b", "c"];
    let fields = fields.iter().map(|(text, several)| field(text, &labels, *several)).collect();
    Question::Form(Arc::new(Form { fields, ..form(&[]) }))
}

/// A chat in which main asks this, and the question has been seen for a while.
fn asked_form(fields: &[(&str, bool)]) -> Desk {
    let (mut desk, mut story) = (desk(), busy());
    story.asks(0, 7, ask(fields));
    tell(&mut desk, &story);
    desk.frame(NOW);
    desk.frame(LATER);
    desk
}

fn filled(given: &[Entry]) -> Step {
    answered(7, Verdict::Filled(given.into()))
}

#[test]
fn a_digit_picks_an_option_and_the_next_field_has_to_be_seen_before_keys_answer_it() {
    let mut desk = asked_form(&[("Which?", false), ("How?", false)]);
    assert_eq!(says(&mut desk, "2"), []);
    assert_eq!(desk.filling.as_ref().map(Filling::position), Some((2, 2)));
    assert_eq!(says(&mut desk, "1"), [], "nobody has seen it");
    assert_eq!((desk.line.text(), &desk.focus), ("", &Focus::Question));
    desk.frame(NOW);
    desk.frame(LATER);
    assert_eq!(says(&mut desk, "3"), [filled(&[Entry::Picked(vec![1]), Entry::Picked(vec![2])])]);
}

#[test]
fn digits_tick_and_enter_takes_where_several_may_be_picked() {
    let mut desk = asked_form(&[("Which?", true)]);
    assert_eq!(types(&mut desk, "\n"), [], "nothing is ticked");
    assert_eq!(types(&mut desk, "3122\n"), [filled(&[Entry::Picked(vec![0, 2])])]);
}

#[test]
fn an_m_writes_the_answer_in_own_words_and_the_draft_stays() {
    let mut desk = asked_form(&[("Which?", false)]);
    assert_eq!(types(&mut desk, "m"), []);
    assert_eq!(types(&mut desk, "\n"), [], "nothing is no answer");
    assert_eq!(desk.note.as_deref(), Some("that is no answer to it"));
    assert_eq!(types(&mut desk, "neither\n"), [filled(&[Entry::Words("neither".into())])]);
    let mut desk = asked_form(&[("Which?", false)]);
    assert_eq!(says(&mut desk, "n"), [answered(7, Verdict::No)]);
}

#[test]
fn words_that_begin_with_a_digit_answer_nothing() {
    let mut desk = asked_form(&[("Which?", false)]);
    assert_eq!(says(&mut desk, "2 of them"), []);
    assert_eq!(desk.line.text(), "2 of them");
}

#[test]
fn a_paste_never_picks_answers_or_sends() {
    let mut desk = desk();
    let mut story = busy();
    story.asks(1, 7, Question::Batch { slots: 40 });
    tell(&mut desk, &story);
    let pasted = Pasted { text: "y\n2\n".to_owned(), left_out: 0 };
    assert_eq!(desk.see(Seen::Typed(Typed::Paste(pasted)), LATER), []);
    assert_eq!(desk.line.text(), "y\n2\n");
}

#[test]
fn what_is_refused_comes_back_into_an_empty_line() {
    let mut desk = desk();
    types(&mut desk, "/revew\n");
    assert_eq!(desk.line.text(), "/revew", "it was never sent");
    assert_eq!(desk.note.as_deref(), Some("there is no /revew; try /review"));
    desk.line.clear();
    types(&mut desk, "/review x\n");
    assert!(desk.is_busy() && desk.line.text().is_empty());
    let refusal = Refusal::new(crate::cli::exit::Exit::BadInput, "there is no branch `x`");
    let seen = Seen::Refused { given: Given::Prompt, text: "/review x".to_owned(), refusal };
    desk.see(seen, LATER);
    assert_eq!(desk.line.text(), "/review x");
    assert!(!desk.is_busy());
}

#[test]
fn news_that_never_come_are_not_asked_for_again() {
    let mut desk = desk();
    let mut story = busy();
    story.push(0, EventKind::SetAside { units: vec![UnitId(1)] });
    story.end(1, done("x"));
    story.over(done("x"), "x");
    assert_eq!(tell(&mut desk, &story).last(), Some(&Step::News));
    let mut nothing = Story::new();
    nothing.invocation("").over(done(""), "");
    assert_eq!(tell(&mut desk, &nothing), []);
    let seen = Seen::Shown(Vec::new());
    assert_eq!(desk.see(seen, LATER), [], "not before something else has ended");
}

#[test]
fn what_waits_is_taken_back_once() {
    let mut desk = desk();
    let mut story = busy();
    story.push(0, EventKind::UserWrote { text: "waits".into() });
    tell(&mut desk, &story);
    let back = Step::Tell(FromUser::TookBack);
    assert_eq!(press(&mut desk, KeyCode::Up, KeyModifiers::ALT), [back]);
    assert_eq!(press(&mut desk, KeyCode::Up, KeyModifiers::ALT), []);
    assert_eq!(desk.line.text(), "waits");
}

#[test]
fn names_and_paths_are_completed() {
    let mut desk = desk();
    types(&mut desk, "/rev");
    assert!(desk.completing.is_open());
    types(&mut desk, "\t");
    assert_eq!(desk.line.text(), "/review ");
    types(&mut desk, "@");
    let mut desk = self::desk();
    assert_eq!(types(&mut desk, "see @"), [Step::Gather]);
    types(&mut desk, "\u{1b}");
    assert_eq!(desk.line.text(), "see @", "Esc only closes");
}

fn any_key() -> impl Strategy<Value = KeyEvent> {
    let code = prop_oneof![
        any::<char>().prop_map(KeyCode::Char),
        proptest::char::range(' ', '~').prop_map(KeyCode::Char),
        prop_oneof![
            Just(KeyCode::Enter),
            Just(KeyCode::Esc),
            Just(KeyCode::Tab),
            Just(KeyCode::BackTab),
            Just(KeyCode::Up),
            Just(KeyCode::Down),
            Just(KeyCode::Left),
            Just(KeyCode::PageUp),
            Just(KeyCode::PageDown),
            Just(KeyCode::Backspace),
            Just(KeyCode::Delete),
            Just(KeyCode::F(5)),
        ],
    ];
    let modifiers = prop_oneof![
        4 => Just(KeyModifiers::NONE),
        1 => Just(KeyModifiers::CONTROL),
        1 => Just(KeyModifiers::ALT),
        1 => Just(KeyModifiers::SHIFT),
    ];
    (code, modifiers).prop_map(|(code, modifiers)| KeyEvent::new(code, modifiers))
}

/// A life with everything in it that takes keys.
fn eventful() -> Story {
    let mut story = busy();
    story.push(0, EventKind::UserWrote { text: "wait".into() });
    story.asks(1, 7, question("ls")).asks(2, 8, question("rm"));
    story.answered(1, 7, (question("ls"), Verdict::No)).end(1, done("x"));
    story.asks(2, 9, ask(&[("Which?", true), ("How?", false)]));
    story.push(4, EventKind::UnitQueued(background())).start(4);
    story.answered(2, 8, (question("rm"), Verdict::Withdrawn));
    story.answered(2, 9, (ask(&[("Which?", true), ("How?", false)]), Verdict::Withdrawn));
    story.end(2, done("x"));
    story.over(done("over"), "over").end(4, done("y"));
    story
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_typed_and_happens_there_is_a_frame_that_fits(
        keys in prop::collection::vec((any_key(), 0usize..3), 0..60),
        columns in 1u16..100, rows in 1u16..40,
    ) {
        let (mut desk, story) = (desk(), eventful());
        let mut events = story.events().iter();
        let mut now = NOW;
        for (key, steps) in keys {
            for event in events.by_ref().take(steps) {
                desk.see(Seen::Event(Box::new(event.clone())), now);
            }
            now = UnixMillis(now.0 + 150);
            desk.see(Seen::Typed(Typed::Key(key)), now);
            desk.resized(Size { columns, rows });
            let frame = desk.frame(now);
            prop_assert!(frame.region.len() <= usize::from(rows.max(1)));
            let wide = usize::from(Size { columns, rows }.text_columns());
            prop_assert!(frame.region.iter().all(|row| row.columns() <= wide));
            prop_assert!(usize::from(frame.cursor.0) < frame.region.len().max(1));
        }
    }
}
