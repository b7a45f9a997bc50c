//! What stays of the stories of a run.

use insta::assert_snapshot;

use super::*;
use crate::event::{AfterFailure, NoticeLevel, Verdict};
use crate::message::Reply;
use crate::report::board::Board;
use crate::report::difference::BothSides;
use crate::report::sanitise;
use crate::report::story::{
    Story, call_of, cancelled, done, failed, question, skipped, text_delta, thinking_delta, usage,
};

const NOW: UnixMillis = UnixMillis(2_000_000);

/// Shows a story and returns what stays of it.
fn stays(story: &Story, columns: u16) -> Vec<Row> {
    let mut board = Board::default();
    let mut commits = Commits::new(None);
    let mut rows = Vec::new();
    for event in story.events() {
        let left = board.take(event);
        commits.take(event, (board.units(), &left), columns);
        rows.extend(commits.settled(columns, NOW));
    }
    rows
}

fn plain(rows: &[Row]) -> String {
    rows.iter().map(|row| row.plain().trim_end().to_owned() + "\n").collect()
}

fn answered() -> Story {
    let mut story = Story::new();
    story.invocation("where is the retry logic, and who calls it?").turn(0, 1);
    let calls = vec![call_of("g", "Grep", "{}")];
    let reply = Reply { thinking: "I look for it.".to_owned(), calls, ..Reply::default() };
    story.replied(0, reply, usage(10, 5));
    story.call(0, "g", "Grep", "retry").output(0, "g", "Grep", "a\nb\nc");
    story.turn(0, 2).reply(0, "It lives in `src/model/retry.rs`:\n\n- one\n- two", 20, 9);
    story.over(done("x"), "x");
    story
}

#[test]
fn a_turn_stays_as_prompt_calls_and_text() {
    assert_snapshot!(plain(&stays(&answered(), 79)), @"
    > where is the retry logic, and who calls it?

    I look for it.

    Grep retry  3 lines

    It lives in `src/model/retry.rs`:

    - one
    - two
    ");
    assert_snapshot!(plain(&stays(&answered(), 39)), @"
    > where is the retry logic, and who
      calls it?

    I look for it.

    Grep retry  3 lines

    It lives in `src/model/retry.rs`:

    - one
    - two
    ");
}

#[test]
fn a_batch_stays_as_a_line_for_each_slot_in_their_order() {
    let mut story = Story::batch_of_three();
    assert_snapshot!(plain(&stays(&story, 79)), @"
    > review
    Agent 3 tasks

    All fine.

      correctness  done in 3.2 s, 1.2k tokens
      security     failed: the provider said 500
      style        never started
    495 tokens
    ");
    story.invocation("more").batch("c", &["slot"; 30]);
    (4..=33).for_each(|unit| {
        story.start(unit).end(unit, if unit == 9 { failed("no key") } else { done("x") });
    });
    story.push(0, EventKind::Joined { children: (4..=33).map(UnitId).collect() });
    let rows = stays(&story, 79);
    assert_snapshot!(plain(&rows[rows.len() - 2..]), @"
    slot  failed: no key
    29 done
    ");
}

#[test]
fn what_only_holds_the_branch_of_steps_stays_only_with_a_failure_of_its_own() {
    let mut story = Story::angles();
    story.end(4, done("x")).end(1, done("x"));
    story.push(1, EventKind::Joined { children: vec![UnitId(4)] });
    story.push(2, EventKind::Joined { children: vec![UnitId(5)] });
    story.push(0, EventKind::Joined { children: [1, 2, 3].map(UnitId).to_vec() });
    assert_snapshot!(plain(&stays(&story, 79)), @r#"
    > review
      correctness[0]  done in 3.2 s, 1.2k tokens
      security[0]  failed: boom
      tests  failed: for_each = "x": it gives none, and not a list
    "#);
}

#[test]
fn what_went_wrong_is_told_once_and_in_place() {
    let mut story = Story::new();
    story.invocation("go").turn(0, 1);
    story.call(0, "b", "Bash", "cargo test");
    let output =
        Arc::new(Output { text: "error: no\nmore".into(), is_error: true, images: vec![] });
    let (call, tool) = ("b".into(), "Bash".into());
    story.push(0, EventKind::ToolFinished { call, tool, output, took_ms: 3_200 });
    story.denied(0, "d", "Bash", "a rule denies it").output(0, "d", "Bash", "denied");
    story.asks(0, 50, question("ls")).answered(0, 50, (question("ls"), Verdict::No));
    story.notice(NoticeLevel::Warning, "careful").notice(NoticeLevel::Info, "good to know");
    story.over(failed("the provider said 500"), "");
    assert_snapshot!(plain(&stays(&story, 79)), @"
    > go
    Bash cargo test  failed: error: no  3.2 s
    denied Bash: a rule denies it
    Bash ls? (no rule allows it; it would run without a sandbox) no
    warning: careful
    note: good to know
    1 call was denied
    error: the provider said 500
    ");
}

#[test]
fn an_answer_that_breaks_off_begins_anew_and_its_tail_goes() {
    let mut board = Board::default();
    let mut commits = Commits::new(None);
    let mut story = Story::new();
    story.invocation("go").turn(0, 1);
    let next = AfterFailure::Retry { delay_ms: 10, most: 3 };
    story.request_failed(0, 1, None, next).reply(0, "Whole.", 1, 1);
    let mut rows = Vec::new();
    for (number, event) in story.events().iter().enumerate() {
        if number == 2 {
            commits.delta(&thinking_delta(0, "hm\nand"), 79);
            commits.delta(&text_delta(0, "# Begun\n\nand not fin"), 79);
            rows.extend(commits.settled(79, NOW));
            assert_eq!(plain(&commits.tail(79, 6)), "\nand not fin\n");
        }
        let left = board.take(event);
        commits.take(event, (board.units(), &left), 79);
        rows.extend(commits.settled(79, NOW));
    }
    assert_snapshot!(plain(&rows), @"
    > go

    hm
    and

    # Begun

    the answer broke off and begins anew
    request to `m` failed: the answer broke off; retry 1 of 3 in 10 ms

    Whole.
    ");
}

/// Returns what stays of an answer that comes in two pieces, much being told
/// between them.
fn between(pieces: [&str; 2]) -> String {
    let mut story = Story::new();
    story.invocation("go").turn(0, 1).notice(NoticeLevel::Warning, "careful");
    story.denied(0, "d", "Bash", "a rule denies it");
    story.answered(0, 50, (question("ls"), Verdict::Yes));
    story.push(0, EventKind::SetAside { units: vec![UnitId(1)] });
    story.reply(0, &pieces.concat(), 1, 1);
    let (mut board, mut commits) = (Board::default(), Commits::new(None));
    let mut rows = Vec::new();
    for (number, event) in story.events().iter().enumerate() {
        let piece = match number {
            2 => Some(pieces[0]),
            6 => Some(pieces[1]),
            _ => None,
        };
        piece.into_iter().for_each(|piece| commits.delta(&text_delta(0, piece), 79));
        rows.extend(commits.settled(79, NOW));
        let left = board.take(event);
        commits.take(event, (board.units(), &left), 79);
        rows.extend(commits.settled(79, NOW));
    }
    plain(&rows)
}

#[test]
fn what_is_told_while_main_writes_does_not_tear_its_text() {
    assert_snapshot!(between(["A word that is to", "rn apart."]), @"
    > go
    warning: careful
    denied Bash: a rule denies it
    Bash ls? (no rule allows it; it would run without a sandbox) yes
    1 agent set aside: from here on in the background

    A word that is torn apart.
    ");
    assert_snapshot!(between(["| a | b |\n|---|---|\n| 1 | 2", " |\n| 3 | 4 |\n"]), @"
    > go
    warning: careful
    denied Bash: a rule denies it
    Bash ls? (no rule allows it; it would run without a sandbox) yes
    1 agent set aside: from here on in the background

    a  b
    -  -
    1  2
    3  4
    ");
    assert_snapshot!(between(["```\none\n", "*two*\n```\n\n*end*"]), @"
    > go

    one

    warning: careful
    denied Bash: a rule denies it
    Bash ls? (no rule allows it; it would run without a sandbox) yes
    1 agent set aside: from here on in the background

    *two*

    end
    ");
}

#[test]
fn a_batch_that_was_ended_is_told_by_its_slots_alone() {
    let mut story = Story::new();
    story.invocation("go").call(0, "c", "Agent", "2 tasks").batch("c", &["a", "b"]).start(1);
    story.end(1, cancelled()).end(2, skipped());
    let text = "## Task 1: a\n\ncancelled";
    let failed = |call: &str, text: &str| EventKind::ToolFinished {
        call: call.into(),
        tool: "Agent".into(),
        output: Arc::new(Output { text: text.into(), is_error: true, images: vec![] }),
        took_ms: 20,
    };
    story.push(0, failed("c", text));
    story.call(0, "d", "Agent", "").push(0, failed("d", "it has no `prompt`"));
    story.over(cancelled(), "");
    assert_snapshot!(plain(&stays(&story, 79)), @"
    > go
    Agent 2 tasks
    Agent
    Agent  failed: it has no `prompt`
      a  cancelled
      b  never started
    cancelled
    ");
}

#[test]
fn a_no_of_the_user_is_told_once() {
    let mut story = Story::new();
    story.invocation("go");
    let asked = question("ls");
    let Question::Call(call) = &asked else { unreachable!() };
    let call = call.call.to_string();
    story.answered(0, 50, (asked.clone(), Verdict::NoBecause("use rg".into())));
    story.denied(0, &call, "Bash", "the user said no: use rg");
    story.denied(0, &call, "Bash", "a rule denies it");
    assert_snapshot!(plain(&stays(&story, 79)), @"
    > go
    Bash ls? (no rule allows it; it would run without a sandbox) no: use rg
    denied Bash: a rule denies it
    ");
}

#[test]
fn an_output_that_was_cut_says_so_when_it_is_opened() {
    let mut story = Story::new();
    let long = "a line\n".repeat(20_000);
    story.invocation("go").call(0, "b", "Bash", "seq").output(0, "b", "Bash", &long);
    let (mut board, mut commits) = (Board::default(), Commits::new(None));
    for event in story.events() {
        let left = board.take(event);
        commits.take(event, (board.units(), &left), 79);
    }
    commits.settled(79, NOW);
    assert!(commits.open_call(0) && !commits.open_call(1));
    let rows = commits.settled(79, NOW);
    assert_eq!(rows.iter().take(2).map(Row::plain).collect::<Vec<_>>(), ["Bash seq", "a line"]);
    assert_snapshot!(rows.last().unwrap().plain(), @"[74 kB left out: of an output 65 kB are kept for this]");
}

/// Commits whose highlighter reads with this, and what comes back from it.
fn with_reader(
    read: impl FnMut(&FileChange) -> Option<BothSides> + Send + 'static,
) -> (Commits, std::sync::mpsc::Receiver<Coloured>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let deliver = move |coloured| {
        // A test that is over needs it no more.
        let _ = sender.send(coloured);
    };
    let highlighter = Highlighter::start(Box::new(read), deliver).unwrap();
    (Commits::new(Some(highlighter)), receiver)
}

fn edited() -> Story {
    let mut story = Story::new();
    story.invocation("go").call(0, "e", "Edit", "a.bin");
    story.push(
        0,
        EventKind::FileChanged(Arc::new(FileChange {
            by: ChangedBy::Call("e".into()),
            path: "a.bin".into(),
            before: None,
            after: None,
            directories: 0,
        })),
    );
    story.output(0, "e", "Edit", "done");
    story
}

fn take_all(commits: &mut Commits, story: &Story) {
    let mut board = Board::default();
    for event in story.events() {
        let left = board.take(event);
        commits.take(event, (board.units(), &left), 79);
    }
}

#[test]
fn a_change_that_takes_too_long_is_told_from_when_it_was_first_wanted() {
    let (wait, waits) = std::sync::mpsc::channel::<()>();
    let (mut commits, _coloured) = with_reader(move |_| {
        // An error is what it waits for: the test is over.
        let _ = waits.recv();
        None
    });
    take_all(&mut commits, &edited());
    assert_eq!(plain(&commits.settled(79, NOW)), "> go\nEdit a.bin  1 line\n");
    assert_eq!(commits.deadline(), Some(UnixMillis(NOW.0 + 500)));
    assert_eq!(commits.settled(79, UnixMillis(NOW.0 + 499)), []);
    assert_snapshot!(plain(&commits.settled(79, UnixMillis(NOW.0 + 500))), @"  [the change is not shown: it took too long to find]");
    drop(wait);
}

#[test]
fn a_change_that_cannot_be_shown_says_why() {
    let found = [None, Some(BothSides { before: b"\0".to_vec(), after: b"x".to_vec() })];
    let mut found = found.into_iter();
    let (mut commits, coloured) = with_reader(move |_| found.next().flatten());
    let mut rows = Vec::new();
    for _ in 0..2 {
        take_all(&mut commits, &edited());
        commits.coloured(coloured.recv_timeout(std::time::Duration::from_secs(60)).unwrap());
        rows.extend(commits.settled(79, NOW));
    }
    assert_snapshot!(plain(&rows), @"
    > go
    Edit a.bin  1 line
      [the change is not shown: the file is very large or has changed since]

    > go
    Edit a.bin  1 line
      [the change is not shown: the file is no text]
    ");
}

#[test]
fn what_the_user_wrote_waits_until_it_is_read() {
    let mut board = Board::default();
    let mut commits = Commits::new(None);
    let mut story = Story::new();
    story.invocation("go");
    for text in ["first", "second\nline", "third"] {
        story.push(0, EventKind::UserWrote { text: text.into() });
    }
    story.push(0, EventKind::Notified { children: vec![], text: "x".into(), wrote: 2 });
    for event in story.events() {
        let left = board.take(event);
        commits.take(event, (board.units(), &left), 79);
    }
    assert_eq!(commits.waiting().map(|text| &**text).collect::<Vec<_>>(), ["third"]);
    assert_snapshot!(plain(&commits.settled(79, NOW)), @"
    > go

    > first

    > second
      line
    ");
}

#[test]
fn a_long_thought_is_cut_and_counted_and_a_long_prompt_too() {
    let mut story = Story::new();
    story.invocation(&"line\n".repeat(200));
    let thinking = "thought\n".repeat(40);
    story.replied(0, Reply { thinking, ..Reply::default() }, usage(1, 1));
    let rows = plain(&stays(&story, 79));
    assert!(rows.contains("\n  [181 more rows]\n"), "{rows}");
    assert_eq!(rows.matches("thought\n").count(), THOUGHTS);
    assert!(rows.ends_with("[28 rows of thinking left out]\n"), "{rows}");
}

#[test]
fn code_waits_for_its_colours_in_order_and_not_for_long() {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    // Nothing comes back before the test says so, and nothing after.
    let deliver = move |_| {
        // An error is what it waits for: the test is over.
        let _ = receiver.recv();
    };
    let highlighter = Highlighter::start(Box::new(|_: &FileChange| None), deliver).unwrap();
    let mut commits = Commits::new(Some(highlighter));
    commits.delta(&text_delta(0, "```rust\nfn a() {}\nfn b() {}\n```\n\ntext\n\n"), 79);
    assert_eq!(plain(&commits.settled(79, NOW)), "rust\n");
    assert_eq!(commits.deadline(), Some(UnixMillis(NOW.0 + 250)));
    let coloured = vec![Row::new().text(Ink::Keyword, "fn").text(Ink::Plain, " a() {}")];
    commits.coloured(Coloured { number: 2, rows: coloured.clone() });
    assert_eq!(commits.settled(79, NOW), coloured);
    assert_eq!(plain(&commits.tail(79, 6)), "fn b() {}\n\ntext\n");
    assert_eq!(plain(&commits.settled(79, UnixMillis(NOW.0 + 250))), "fn b() {}\n");
    drop(sender);
}

#[test]
fn nothing_that_others_wrote_leaves_as_more_than_text() {
    let hostile = "\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\u{200b}\r\u{8}\u{e0072}";
    let mut story = Story::new();
    story.invocation(hostile).batch("c", &[hostile]).start(1).end(1, failed(hostile));
    story.replied(
        0,
        Reply { text: hostile.into(), thinking: hostile.into(), ..Reply::default() },
        usage(1, 1),
    );
    story.call(0, "x", hostile, hostile).output(0, "x", hostile, hostile);
    story.denied(0, "y", hostile, hostile).notice(NoticeLevel::Warning, hostile);
    story.answered(0, 9, (question(hostile), Verdict::NoBecause(hostile.into())));
    story.end(0, skipped()).over(failed(hostile), hostile);
    for row in stays(&story, 39) {
        assert!(!row.plain().chars().any(|c| sanitise::is_hidden(c) || c == '\n'), "{row:?}");
    }
}
