//! A chat in lines, told what happens and what is typed.

use insta::assert_snapshot;

use super::typed::LATE;
use super::*;
use crate::cli::chat::commands::What;
use crate::cli::chat::desk::listing::{Choice, Item, Listing};
use crate::cli::chat::turns::TWICE;
use crate::event::testing::form;
use crate::event::{Entry, Question, Seq, Verdict};
use crate::message::Reply;
use crate::report::ink::Ink;
use crate::report::story::{Story, call_of, cancelled, done, question, usage};
use crate::run::FromUser;

const NOW: UnixMillis = UnixMillis(1_000_000);

/// Behind the time in which an answer may be to the question before.
const LATER: UnixMillis = UnixMillis(NOW.0 + LATE);

fn lines() -> Lines {
    let mut lines = Lines::new(10_000);
    let skills = vec![("review".to_owned(), "looks at a change".to_owned())];
    let about = About { mode: "default", skills, ..About::default() };
    lines.see(Seen::Began { about, highlighter: None, rows: Vec::new(), context: Some(0) });
    lines.prompt(NOW);
    assert_eq!(lines.take(), "> ");
    lines
}

/// Tells what happens, and what was not told before of it.
fn tell(lines: &mut Lines, story: &Story, from: usize) -> Vec<Step> {
    let seen = |event: &Event| Seen::Event(Box::new(event.clone()));
    let events = story.events()[from..].iter();
    let steps = events.flat_map(|event| lines.see(seen(event))).collect();
    lines.prompt(NOW);
    steps
}

fn types(lines: &mut Lines, text: &str) -> Vec<Step> {
    let steps = lines.typed(text, NOW);
    lines.prompt(NOW);
    steps
}

fn busy() -> Story {
    let mut story = Story::new();
    story.invocation("look").batch("c", &["north", "south"]).start(1).start(2);
    story
}

fn wrote(text: &str) -> Step {
    Step::Tell(FromUser::Wrote(text.into()))
}

fn answered(id: u64, verdict: Verdict) -> Step {
    Step::Tell(FromUser::Answered { id: QuestionId(Seq(id)), verdict })
}

#[test]
fn a_line_is_a_prompt_at_rest_and_waits_while_main_works() {
    let mut lines = lines();
    assert_eq!(types(&mut lines, "look\n"), [Step::Invoke("look".to_owned())]);
    assert_eq!(types(&mut lines, "and there\n"), [wrote("and there")], "it is about to begin");
    tell(&mut lines, &busy(), 0);
    assert_eq!(types(&mut lines, "/clear\n"), []);
    assert_eq!(types(&mut lines, "/usage\n"), [Step::Command(What::Usage, String::new())]);
    assert_eq!(types(&mut lines, "\n"), []);
    assert_snapshot!(lines.take(), @"
    2 agents queued
    [north] started (reviewer)
    [south] started (reviewer)
    /clear can be given once the turn is over
    ");
}

#[test]
fn a_message_goes_on_behind_a_backslash_and_is_read_in_parts() {
    let mut lines = lines();
    assert_eq!(types(&mut lines, "one \\\n"), []);
    assert_eq!(types(&mut lines, "tw"), []);
    assert_eq!(types(&mut lines, "o\n"), [Step::Invoke("one \ntwo".to_owned())]);
    assert_eq!(lines.take(), "> ");
}

#[test]
fn while_a_question_is_open_a_line_answers_it_or_is_told_how() {
    let (mut lines, mut story) = (lines(), busy());
    types(&mut lines, "look\n");
    story.asks(1, 7, question("ls"));
    assert_eq!(tell(&mut lines, &story, 0), [Step::Call("north asks".to_owned())]);
    lines.take();
    let told = story.events().len();
    story.call(2, "d", "Grep", "north");
    assert_eq!(tell(&mut lines, &story, told), []);
    assert_eq!(types(&mut lines, "look elsewhere\n"), []);
    assert_eq!(types(&mut lines, "/help\n"), []);
    assert_snapshot!(lines.take(), @"that is no answer; type y once, b this batch, s this session, a always, n no, n TEXT no and why: that is no answer; type y once, b this batch, s this session, a always, n no, n TEXT no and why:");
    assert_eq!(
        types(&mut lines, "n not now\n"),
        [answered(7, Verdict::NoBecause("not now".into()))]
    );
    assert_eq!(types(&mut lines, "y\n"), [wrote("y")], "it has its answer");
    assert_eq!(lines.take(), "[south] Grep north\n");
}

#[test]
fn a_form_is_answered_line_by_line_and_its_end_is_one_answer() {
    let (mut lines, mut story) = (lines(), busy());
    types(&mut lines, "look\n");
    let asked = Question::Form(Arc::new(form(&["Which?", "How?"])));
    story.asks(1, 7, asked.clone());
    tell(&mut lines, &story, 0);
    lines.take();
    assert_eq!(types(&mut lines, "9\n"), []);
    assert_eq!(types(&mut lines, "2\n"), []);
    assert_snapshot!(lines.take(), @"
    that is no answer; type 1-2 or your own words, n no answer: (2 of 2)
      | How?
      | 1 yes: what yes means
      | 2 no: what no means
    1-2 or your own words, n no answer:
    ");
    let given = [Entry::Picked(vec![1]), Entry::Words("as before".into())];
    assert_eq!(types(&mut lines, "as before\n"), [answered(7, Verdict::Filled(given.into()))]);
    assert_eq!(types(&mut lines, "2\n"), [wrote("2")], "it has its answer");
    let told = story.events().len();
    story.asks(1, 8, asked.clone()).answered(1, 8, (asked, Verdict::Withdrawn));
    tell(&mut lines, &story, told);
    lines.take();
}

#[test]
fn what_was_meant_for_a_question_that_is_gone_is_no_message_and_answers_no_other() {
    let (mut lines, mut story) = (lines(), busy());
    types(&mut lines, "look\n");
    story.asks(1, 7, question("ls")).asks(2, 8, question("rm -r x"));
    tell(&mut lines, &story, 0);
    let mut told = story.events().len();
    story.answered(1, 7, (question("ls"), Verdict::Withdrawn));
    assert_eq!(tell(&mut lines, &story, told), [Step::Call("south asks".to_owned())]);
    assert_eq!(types(&mut lines, "y\n"), [], "it was on its way to the first");
    assert_eq!(lines.typed("y\n", LATER), [answered(8, Verdict::Yes)]);
    told = story.events().len();
    story.answered(2, 8, (question("rm -r x"), Verdict::Yes)).asks(1, 9, question("ls"));
    tell(&mut lines, &story, told);
    told = story.events().len();
    story.answered(1, 9, (question("ls"), Verdict::Withdrawn));
    tell(&mut lines, &story, told);
    lines.take();
    assert_eq!(types(&mut lines, "n leave it\n"), []);
    assert_eq!(lines.take(), "the question is taken back; that is not sent\n");
    assert_eq!(types(&mut lines, "n leave it\n"), [wrote("n leave it")]);
}

#[test]
fn an_interrupt_ends_the_turn_with_what_waits_for_it_and_a_second_one_all() {
    let (mut lines, mut story) = (lines(), busy());
    tell(&mut lines, &story, 0);
    let told = story.events().len();
    story.push(0, EventKind::UserWrote { text: "one".into() });
    tell(&mut lines, &story, told);
    lines.take();
    let ends = [Step::Tell(FromUser::TookBack), Step::Tell(FromUser::EndTurn)];
    assert_eq!(lines.interrupt(NOW), ends);
    assert_eq!(lines.take(), "\nCtrl-C again ends everything and leaves\nnot sent: one\n");
    types(&mut lines, "x\n");
    assert_eq!(lines.interrupt(NOW), ends, "a line was typed since");
    assert_eq!(lines.interrupt(UnixMillis(NOW.0 + TWICE)), [Step::Leave { at_once: true }]);
}

#[test]
fn at_rest_an_interrupt_says_what_another_one_does() {
    let mut lines = lines();
    types(&mut lines, "half \\\n");
    assert_eq!(lines.interrupt(NOW), [], "what is not sent goes");
    assert_eq!(lines.interrupt(NOW), []);
    lines.prompt(NOW);
    assert_eq!(lines.take(), "> \nCtrl-C again leaves\n> ");
    let late = UnixMillis(NOW.0 + TWICE + 1);
    assert_eq!(lines.interrupt(late), [], "that was long ago");
    assert_eq!(lines.interrupt(late), [Step::Leave { at_once: true }]);
}

#[test]
fn the_end_of_the_input_leaves_and_is_to_be_said_again_where_something_would_be_lost() {
    let mut lines = lines();
    tell(&mut lines, &busy(), 0);
    lines.take();
    assert_eq!(lines.end_of_input(), []);
    assert_eq!(lines.take(), "\na turn is under way: Ctrl-D again ends it and leaves\n");
    types(&mut lines, "x\n");
    assert_eq!(lines.end_of_input(), []);
    assert_eq!(lines.end_of_input(), [Step::Leave { at_once: false }]);
    assert_eq!(super::tests::lines().end_of_input(), [Step::Leave { at_once: false }]);
}

#[test]
fn a_list_has_numbers_and_a_number_is_the_answer() {
    let item = |name: &str| Item {
        row: Row::new().text(Ink::Plain, name),
        choice: Choice::Model(name.to_owned()),
    };
    let listing = || Seen::Choose(Listing::new("model", ["fast", "slow"].map(item).into()));
    let mut lines = lines();
    assert_eq!(types(&mut lines, "/model\n"), [Step::Command(What::Model, String::new())]);
    lines.see(listing());
    lines.prompt(NOW);
    assert_eq!(types(&mut lines, "slow\n"), []);
    assert_eq!(types(&mut lines, "3\n"), []);
    assert_snapshot!(lines.take(), @"
    model
    1. fast
    2. slow
    1 to 2, or Enter for none: that is no answer; type 1 to 2, or Enter for none: that is no answer; type 1 to 2, or Enter for none:
    ");
    assert_eq!(types(&mut lines, "2\n"), [Step::Chosen(Choice::Model("slow".to_owned()))]);
    lines.see(listing());
    lines.prompt(NOW);
    assert_eq!(types(&mut lines, "\n"), []);
    assert_eq!(types(&mut lines, "2\n"), [Step::Invoke("2".to_owned())], "no list is open");
}

#[test]
fn agents_are_stopped_and_run_again_by_their_numbers() {
    let mut lines = lines();
    types(&mut lines, "/tasks\n");
    tell(&mut lines, &busy(), 0);
    lines.take();
    types(&mut lines, "/tasks\n");
    types(&mut lines, "3\n");
    assert_eq!(types(&mut lines, "1\n"), [Step::Tell(FromUser::Stop(UnitId(2)))]);
    assert_snapshot!(lines.take(), @"
    agents
    1. go on without those that the conversation waits for
    2. north: running
    3. south: running
    1 to 3, or Enter for none: south
    1. stop it
    2. run its task again
    1 to 2, or Enter for none:
    ");
    types(&mut lines, "/tasks\n");
    assert_eq!(types(&mut lines, "1\n"), [Step::Tell(FromUser::SetAside)]);
}

#[test]
fn what_main_says_between_its_calls_is_told_once() {
    let (mut lines, mut story) = (lines(), Story::new());
    types(&mut lines, "look\n");
    let reply = |text: &str, calls| Reply { text: text.to_owned(), calls, ..Reply::default() };
    let calls = vec![call_of("c", "Grep", "{}")];
    story.invocation("look").replied(0, reply("I look first.", calls), usage(5, 5));
    story.call(0, "c", "Grep", "x").reply(0, "Found it.", 5, 5);
    story.over(done("Found it."), "Found it.");
    tell(&mut lines, &story, 0);
    assert_snapshot!(lines.take(), @"
    I look first.
    Grep x
    Found it.
    >
    ");
}

#[test]
fn a_turn_that_is_cut_off_does_not_say_again_what_was_said() {
    let (mut lines, mut story) = (lines(), Story::new());
    types(&mut lines, "look\n");
    let calls = vec![call_of("c", "Grep", "{}")];
    let reply = Reply { text: "I look first.".to_owned(), calls, ..Reply::default() };
    story.invocation("look").replied(0, reply, usage(5, 5)).call(0, "c", "Grep", "x");
    story.over(cancelled(), "I look first.");
    tell(&mut lines, &story, 0);
    assert_snapshot!(lines.take(), @"
    I look first.
    Grep x
    error: cancelled
    >
    ");
}
