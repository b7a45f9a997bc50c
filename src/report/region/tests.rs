//! The whole region, and what stays above it, for screens of several sizes.

use insta::assert_snapshot;

use super::*;
use crate::event::{EventKind, NoticeLevel, Verdict};
use crate::report::Choices;
use crate::report::paint::Frame;
use crate::report::panel::{Asked, List, list_rows, question_rows, strand_head};
use crate::report::payloads;
use crate::report::sanitise;
use crate::report::story::{Story, question, text_delta};
use crate::report::strands::Strands;

/// What a story leaves on a screen of this size: above the region what
/// stays, marked.
fn screen(story: &Story, text: &str, size: (u16, u16), asks: bool) -> String {
    let size = Size { columns: size.0, rows: size.1 };
    let columns = size.text_columns();
    let (mut board, mut commits) = (Board::default(), Commits::new(None));
    let now = UnixMillis(1_014_000);
    for event in story.events() {
        let left = board.take(event);
        commits.take(event, (board.units(), &left), columns);
    }
    board.delta(&text_delta(0, text));
    commits.delta(&text_delta(0, text), columns);
    let settled = commits.settled(columns, now);
    let line = [Row::new().text(Ink::Plain, "> then run")];
    let question = question("cargo audit --deny warnings");
    let mut panel = |columns: u16, rows: usize| {
        let choices = Choices::Call { in_batch: true, has_rules: true };
        let asked = Asked {
            name: "security",
            question: &question,
            choices,
            filling: None,
            waiting: 1,
            takes_keys: true,
            was_shown_whole: false,
        };
        if asks { question_rows(asked, columns, rows).rows } else { Vec::new() }
    };
    let footer = Row::new().text(Ink::Dim, "qwen3-coder  31% of 262k  1-8 pick  Esc ends");
    let parts = Parts {
        commits: &commits,
        board: &board,
        picked: None,
        panel: &mut panel,
        line: &line,
        cursor: (0, 10),
        footer,
    };
    let (region, cursor) = region(parts, size, now);
    let frame = Frame { commits: settled, region, cursor };
    assert!(frame.region.len() < usize::from(size.rows), "{}", frame.region.len());
    assert!(frame.region.iter().all(|row| row.columns() <= usize::from(columns)));
    assert_eq!(frame.region[usize::from(cursor.0)].plain(), "> then run");
    let stays = frame.commits.iter().map(|row| format!("{:<60}c\n", row.plain()));
    stays.chain(frame.region.iter().map(|row| row.plain().trim_end().to_owned() + "\n")).collect()
}

fn streaming() -> Story {
    let mut story = Story::new();
    story.invocation("where is the retry logic?").turn(0, 1);
    story.call(0, "g", "Grep", "retry").output(0, "g", "Grep", "a\nb").turn(0, 2);
    story.push(0, EventKind::UserWrote { text: "and write a test for the cut stream".into() });
    story
}

const TEXT: &str = "The retries live in `src/model/retry.rs`, above the gate:\n\n\
                    - What is retried: 429, 5xx, resets and cut streams\n\
                    - Who calls it: `Unit::ask` in `src/agent/asking.rs`, which also";

fn eight() -> Story {
    let names = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
    let mut story = Story::new();
    story.invocation("/review").call(0, "c", "Agent", "8 tasks").batch("c", &names);
    (1..=6).for_each(|unit| {
        story.start(unit);
    });
    story.call(2, "b", "Bash", "cargo audit --deny warnings");
    story
}

#[test]
fn while_main_writes_its_tail_stands_above_the_line() {
    assert_snapshot!(screen(&streaming(), TEXT, (80, 24), false), @"
    > where is the retry logic?                                 c
    Grep retry  2 lines                                         c
                                                                c
    The retries live in `src/model/retry.rs`, above the gate:   c
                                                                c
    - What is retried: 429, 5xx, resets and cut streams
    - Who calls it: `Unit::ask` in `src/agent/asking.rs`, which also
    main  running writing                                                       13s
      waits: and write a test for the cut stream
    > then run
    qwen3-coder  31% of 262k  1-8 pick  Esc ends
    ");
    assert_snapshot!(screen(&streaming(), TEXT, (40, 15), false), @"
    > where is the retry logic?                                 c
    Grep retry  2 lines                                         c
                                                                c
    The retries live in                                         c
    `src/model/retry.rs`, above the gate:                       c
                                                                c
    - What is retried: 429, 5xx, resets and
      cut streams
    - Who calls it: `Unit::ask` in
      `src/agent/asking.rs`, which also
    main  writing                       13s
      waits: and write a test for the cut …
    > then run
    qwen3-coder  31% of 262k  1-8 pick  Es…
    ");
}

#[test]
fn eight_slots_fit_a_usual_screen_and_fold_on_a_small_one() {
    assert_snapshot!(screen(&eight(), "", (80, 24), false), @"
    > /review                                                   c
    Agent 8 tasks                                               c
    1 one    running                                                            12s
    2 two    running Bash cargo audit --deny warnings                           12s
    3 three  running                                                            12s
    4 four   running                                                            12s
    5 five   running                                                            12s
    6 six    running                                                            12s
    7 seven  queued 1st
    8 eight  queued 2nd
    8 agents: 6 running, 2 queued                                               13s
    > then run
    qwen3-coder  31% of 262k  1-8 pick  Esc ends
    ");
    assert_snapshot!(screen(&eight(), "", (120, 40), false), @"
    > /review                                                   c
    Agent 8 tasks                                               c
    1 one    running                                                                     12s
    2 two    running Bash cargo audit --deny warnings                                    12s
    3 three  running                                                                     12s
    4 four   running                                                                     12s
    5 five   running                                                                     12s
    6 six    running                                                                     12s
    7 seven  queued 1st
    8 eight  queued 2nd
    8 agents: 6 running, 2 queued                                                        13s
    > then run
    qwen3-coder  31% of 262k  1-8 pick  Esc ends
    ");
    assert_snapshot!(screen(&eight(), "", (40, 11), false), @"
    > /review                                                   c
    Agent 8 tasks                                               c
    1 one    running                    12s
    2 two    Bash cargo audit --de…     12s
    3 three  running                    12s
    4 four   running                    12s
    5 five   running                    12s
    6 six    running                    12s
    7 seven  queued 1st
    8 eight  queued 2nd
    8 agents: 6 running, 2 queued       13s
    > then run
    ");
}

#[test]
fn a_question_stands_over_a_live_batch() {
    let mut story = eight();
    story.asks(2, 90, question("cargo audit --deny warnings"));
    assert_snapshot!(screen(&story, "", (80, 24), true), @"
    > /review                                                   c
    Agent 8 tasks                                               c
    security asks to use Bash (1 question behind it):
      | cargo audit --deny warnings
      no rule allows it
      after a yes it runs without a sandbox
      b, s and a allow more; a keeps it in your settings:
        `Bash(cargo audit --deny warnings *)`
      y once  b this batch  s this session  a always  n no  m no and why  d all
    1 one    running                                                            12s
    2 two    asks Bash cargo audit --deny warnings                              12s
    3 three  running                                                            12s
    4 four   running                                                            12s
    5 five   running                                                            12s
    6 six    running                                                            12s
    7 seven  queued 1st
    8 eight  queued 2nd
    8 agents: 5 running, 1 asks, 2 queued                                       13s
    > then run
    qwen3-coder  31% of 262k  1-8 pick  Esc ends
    ");
    assert_snapshot!(screen(&story, "", (40, 15), true), @"
    > /review                                                   c
    Agent 8 tasks                                               c
    security asks to use Bash (1 behind
      it):
      | cargo audit --deny warnings
      no rule allows it
      after a yes it runs without a sandbox
      y once  n no  m no and why  d all
    1 one    running                    12s
    2 two    asks                       12s
    3 three  running                    12s
    4 four   running                    12s
    8 agents: 5 running, 1 asks,
      2 queued                          13s
    > then run
    qwen3-coder  31% of 262k  1-8 pick  Es…
    ");
}

#[test]
fn wherever_text_of_others_appears_it_is_only_text() {
    for (does, text) in payloads::ATTACKS {
        let markdown = format!(
            "# {text}\n\n{text}\n\n| {text} | b |\n|---|---|\n| {text} | x |\n\n```{text}\n{text}\n```\n\n\
             - [{text}](http://{text})\n\n> {text}\n\n&#27;[2J {text}"
        );
        let mut story = eight();
        story.queue(text, "c9", None).start(9).call(9, "t", text, text);
        story.output(9, "t", text, text).notice(NoticeLevel::Warning, text);
        story.denied(9, "u", text, text).push(0, EventKind::UserWrote { text: text.into() });
        story.asks(2, 90, question(text)).answered(2, 90, (question(text), Verdict::No));
        story.reply(0, &markdown, 1, 1).reply(9, &markdown, 1, 1);
        story.call(0, "v", text, text).output(0, "v", text, text);
        let (mut board, mut commits) = (Board::default(), Commits::new(None));
        let mut strands = Strands::default();
        strands.follow(Some(UnitId(9)));
        let now = UnixMillis(1_014_000);
        for event in story.events() {
            let left = board.take(event);
            commits.take(event, (board.units(), &left), 60);
            strands.take(event);
        }
        commits.delta(&text_delta(0, &markdown), 60);
        let mut rows = commits.settled(60, now);
        rows.extend(strands.rows(60, 100));
        let question = question(text);
        let items = [Row::new().text(Ink::Plain, text)];
        let list = List { title: text, filter: text, items: &items, picked: 0 };
        let mut panel = |columns, rows| {
            let choices = Choices::Call { in_batch: true, has_rules: true };
            let (name, question) = ("x", &question);
            let asked = Asked {
                name,
                question,
                choices,
                filling: None,
                waiting: 1,
                takes_keys: true,
                was_shown_whole: false,
            };
            let mut shown = question_rows(asked, columns, rows).rows;
            shown.extend(list_rows(&list, columns, 4));
            shown.push(strand_head(&board, UnitId(9), now, columns));
            shown
        };
        let line = [Row::new().text(Ink::Plain, text)];
        let footer = Row::new().text(Ink::Dim, text);
        let (commits, board, panel) = (&commits, &board, &mut panel);
        let (picked, cursor) = (Some(UnitId(9)), (0, 0));
        let parts = Parts { commits, board, picked, panel, line: &line, cursor, footer };
        rows.extend(region(parts, Size { columns: 61, rows: 60 }, now).0);
        for row in rows {
            let is_raw = |c: char| sanitise::is_hidden(c) || matches!(c, '\n' | '\t');
            assert!(!row.plain().contains(is_raw), "{does}: {row:?}");
        }
    }
}

#[test]
fn the_smallest_screen_still_has_its_line() {
    for rows in 2..8 {
        let drawn = screen(&eight(), TEXT, (20, rows), false);
        assert!(drawn.contains("> then run\n"), "{rows}: {drawn}");
    }
}

#[test]
fn of_a_long_line_the_part_with_the_cursor_is_seen() {
    let rows: Vec<Row> =
        (0..30).map(|number| Row::new().text(Ink::Plain, &format!("{number}"))).collect();
    let seen = |at| {
        let (rows, cursor) = seen(&rows, (at, 1), 4);
        (rows.first().map(Row::plain), rows.len(), cursor)
    };
    assert_eq!(seen(0), (Some("0".into()), 4, (0, 1)));
    assert_eq!(seen(29), (Some("26".into()), 4, (3, 1)));
    assert_eq!(seen(10), (Some("7".into()), 4, (3, 1)));
}

#[test]
fn of_many_messages_that_wait_the_rest_is_counted() {
    let texts: Vec<Arc<str>> = (0..9).map(|n| format!("message\n{n}").into()).collect();
    let texts: Vec<&Arc<str>> = texts.iter().collect();
    let rows = waiting(&texts, 30, 8);
    let rows: Vec<String> = rows.iter().map(Row::plain).collect();
    assert_eq!(rows, ["  waits: message\\n0", "  waits: message\\n1", "  waits: 7 more"]);
}
