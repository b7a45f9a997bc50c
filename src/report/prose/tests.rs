//! Markdown in pieces, against the same text at once.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::report::sanitise;

/// Something of everything that models write.
const CORPUS: &[&str] = &[
    "# Title\n\nA paragraph with **strong**, *stressed*, ~~struck~~ and `code`.\n",
    "para\n---\nafter\n===\nlast",
    "- one\n- two\n  goes on\n\n  and on\n- [x] three\n   - inner\n   - other\n\nafter",
    "1. a\n1. b\n1. c\n\n* x\n+ y\n",
    "3) three\n4) four\n\n\n5) five\nlazy\n",
    "```rust\nfn main() {\n\n    a();\n}\n```\n\n~~~\nno language\n```\n~~~\nend",
    "  ```sh\n  ls\n ```\nunclosed:\n```\na\n  b",
    "    indented\n\n    more\n\npara\n",
    "| a | b |\n|---|--:|\n| 1 | 2 |\n| `x` | long cell with many words in it |\n\nafter\n",
    "a | b\n--|--\n1 | 2\nno table row\n\n> quote\n> goes on\nlazy\n\n> another\n",
    "[a](http://x.invalid) <http://y.invalid> [b][c] ![i](p.png)\n\n[c]: http://z.invalid\n\nend",
    "<div>\n<b>html</b>\n</div>\n\ntext &amp; more &#27;[2J\n\n***\n",
    "\r\nwindows\r\nlines\r\n\r\n- a\r\n- b\r",
    "a line  \nwith a hard\\\nbreak\n#no heading\n# yes\n",
    "日本語のテキスト、とても長い行です。日本語のテキスト、とても長い行です。\n",
    "- \n- a\n-\n\n1.\n2. x\n",
    "> - quoted list\n> - two\n>\n> ```\n> code\n> ```\n",
    "text\n\n\n\n\ntext\n \n\t\ntext",
];

/// Most bytes that may be kept: the cap, and what comes before the next look.
const MOST: usize = TAIL_CAP + TAIL_CAP / 16 + 4 * STRIDE;

fn plain(rows: &[Row]) -> String {
    rows.iter().map(|row| row.plain().trim_end().to_owned() + "\n").collect()
}

/// Returns all rows of a text that comes in these pieces; holds that what went
/// out and the tail are, after each piece, what the text so far is at once.
#[track_caller]
fn in_pieces(pieces: &[&str], columns: u16) -> Vec<Row> {
    let mut prose = Prose::new(1);
    let mut rows = Vec::new();
    let mut so_far = String::new();
    for piece in pieces {
        prose.push(piece);
        so_far.push_str(piece);
        rows.extend(prose.settled(columns));
        let mut shown = rows.clone();
        shown.extend(prose.tail(columns, u16::MAX));
        assert_eq!(plain(&shown), plain(&at_once(&so_far, columns)), "{so_far:?}");
        assert!(prose.tail.len() <= MOST);
    }
    rows.extend(prose.finish(columns));
    assert!(prose.is_empty());
    rows
}

fn at_once(text: &str, columns: u16) -> Vec<Row> {
    let mut prose = Prose::new(1);
    prose.push(text);
    prose.finish(columns)
}

/// A long text of sentences in which things open and close.
fn long_paragraph() -> String {
    let sentence = "Some *words that are stressed*, `code with spaces`, [a link](http://x.invalid) \
                    and a lone * star; then **strong words over\na line end** and so on. ";
    sentence.repeat(12)
}

fn long_table() -> String {
    let rows: String = (0..80).map(|n| format!("| {n} | value {n} |\n")).collect();
    format!(
        "| number | value |\n|---|---|\n{rows}| 80 | much wider than all that was there |\n\nend\n"
    )
}

#[test]
fn however_a_text_is_cut_its_rows_are_the_same() {
    let all: Vec<String> = CORPUS.iter().map(|text| (*text).to_owned()).collect();
    let joined = all.join("\n\n");
    for text in all.iter().chain([&joined, &long_paragraph()]) {
        for columns in [80, 24] {
            let whole = at_once(text, columns);
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(|letter| &**letter).collect();
            if text.len() < 1_500 {
                assert_eq!(in_pieces(&letters, columns), whole);
            }
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            assert_eq!(in_pieces(&lines, columns), whole);
            for (at, _) in text.char_indices().step_by(1 + text.len() / 60) {
                let (first, second) = text.split_at(at);
                assert_eq!(in_pieces(&[first, second], columns), whole);
            }
        }
    }
}

#[test]
fn a_long_table_goes_out_row_by_row_with_the_widths_that_it_had() {
    let table = long_table();
    let lines: Vec<&str> = table.split_inclusive('\n').collect();
    let whole = at_once(&table, 80);
    assert_eq!(in_pieces(&lines, 80), whole);
    let mut prose = Prose::new(1);
    prose.push(&lines[..70].concat());
    assert_eq!(prose.settled(80).len(), 70);
    assert_eq!(prose.tail(80, 6), []);
}

#[test]
fn a_long_paragraph_goes_out_while_it_is_written() {
    let text = long_paragraph();
    let mut prose = Prose::new(1);
    prose.push(&text);
    let settled = prose.settled(80).len();
    let all = settled + prose.tail(80, u16::MAX).len();
    assert!(settled > all * 2 / 3, "{settled} of {all}");
    assert!(!plain(&at_once(&text, 80)).contains("**"));
}

#[test]
fn lines_of_code_go_out_when_they_end_and_know_their_block() {
    let mut prose = Prose::new(1);
    prose.push("```rust\nfn main() {\n    a(");
    let rows = prose.settled(80);
    assert_eq!(plain(&rows), "rust\nfn main() {\n");
    assert_eq!(rows[1].code().map(|block| &*block.language), Some("rust"));
    assert_eq!(plain(&prose.tail(80, 6)), "    a(\n");
}

#[test]
fn what_never_ends_goes_out_as_plain_text() {
    for text in ["- word ".repeat(10_000), "x".repeat(40_000), "> a\n".repeat(9_000)] {
        let mut prose = Prose::new(1);
        let mut rows = Vec::new();
        for piece in text.as_bytes().chunks(700) {
            prose.push(std::str::from_utf8(piece).unwrap());
            rows.extend(prose.settled(80));
            assert!(prose.tail.len() <= MOST, "{}", prose.tail.len());
        }
        rows.extend(prose.finish(80));
        assert_eq!(rows, at_once(&text, 80));
    }
}

const REPLY: &str = "\
## What is retried

The retries live in `src/model/retry.rs`, above the gate, and are **bounded**:

- What is retried: 429, 5xx, resets and cut streams
- Who calls it: `Unit::ask` in `src/agent/asking.rs`, which also tells the gate of each
  1. first
  2. second

| cause | wait | who |
|:------|-----:|-----|
| 429 | 12 s | the provider's own word, up to a bound of five minutes and no more |
| reset | 1 s | us |

```rust
fn retry() {}
```

> See [the docs](https://docs.invalid/retry) for more.
";

#[test]
fn a_reply_is_read_at_80_columns() {
    assert_snapshot!(plain(&at_once(REPLY, 79)), @"
## What is retried

The retries live in `src/model/retry.rs`, above the gate, and are bounded:

- What is retried: 429, 5xx, resets and cut streams
- Who calls it: `Unit::ask` in `src/agent/asking.rs`, which also tells the gate
  of each
  1. first
  2. second

cause  wait  who
-----  ----  ------------------------------------------------------------------
429    12 s  the provider's own word, up to a bound of five minutes and no more
reset   1 s  us

rust
fn retry() {}

| See the docs (https://docs.invalid/retry) for more.
");
}

#[test]
fn a_reply_is_read_at_120_columns_no_wider_than_is_easy_to_read() {
    assert_snapshot!(plain(&at_once(REPLY, 88)), @"
## What is retried

The retries live in `src/model/retry.rs`, above the gate, and are bounded:

- What is retried: 429, 5xx, resets and cut streams
- Who calls it: `Unit::ask` in `src/agent/asking.rs`, which also tells the gate of each
  1. first
  2. second

cause  wait  who
-----  ----  ------------------------------------------------------------------
429    12 s  the provider's own word, up to a bound of five minutes and no more
reset   1 s  us

rust
fn retry() {}

| See the docs (https://docs.invalid/retry) for more.
");
}

#[test]
fn a_reply_is_read_at_40_columns() {
    assert_snapshot!(plain(&at_once(REPLY, 39)), @"
## What is retried

The retries live in
`src/model/retry.rs`, above the gate,
and are bounded:

- What is retried: 429, 5xx, resets and
  cut streams
- Who calls it: `Unit::ask` in
  `src/agent/asking.rs`, which also
  tells the gate of each
  1. first
  2. second

cause  wait  who
-----  ----  --------------------------
429    12 s  the provider's own word,
             up to a bound of five
             minutes and no more
reset   1 s  us

rust
fn retry() {}

| See the docs
| (https://docs.invalid/retry) for
| more.
");
}

#[test]
fn a_table_with_no_room_for_its_columns_becomes_lines() {
    let table =
        "| name | what it is | where |\n|---|---|---|\n| retry | tries again | model/retry.rs |\n";
    assert_snapshot!(plain(&at_once(table, 19)), @"
name: retry
what it is: tries
again
where:
model/retry.rs
---
");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_soup_of_marks_is_the_same_in_pieces(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "a", "b ", " ", "\n", "\n\n", "\r\n", "# ", "- ", "1. ", "> ", "```", "~~~", "    ",
                "| ", "|-", "---", "===", "*", "**", "_", "`", "[", "](", ")", "<", ">", "&#27;", "\\",
                "\u{1b}", "日", "[x]: y", "- [ ] ", "\t", "word word word word word word word ",
            ]),
            0..60,
        ),
        cuts in prop::collection::vec(any::<bool>(), 60),
        columns in 1_u16..60,
    ) {
        let mut pieces: Vec<String> = vec![String::new()];
        for (word, cut) in words.iter().zip(cuts) {
            pieces.last_mut().unwrap().push_str(word);
            if cut {
                pieces.push(String::new());
            }
        }
        let pieces: Vec<&str> = pieces.iter().map(|piece| &**piece).collect();
        let rows = in_pieces(&pieces, columns);
        prop_assert_eq!(&rows, &at_once(&pieces.concat(), columns));
        let hidden = |row: &Row| row.plain().chars().any(sanitise::is_hidden);
        prop_assert!(!rows.iter().any(hidden));
    }
}
