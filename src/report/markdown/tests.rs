//! What a document looks like.

use insta::assert_snapshot;

use super::*;
use crate::event::{AfterFailure, SessionId, ThrottleCause};
use crate::message::{Reply, Usage};
use crate::report::story::{Story, call_of, done, failed, paid};
use crate::report::viewer::Viewer;

fn opened() -> EventKind {
    EventKind::SessionOpened(SessionHead {
        session: SessionId("0190-5".into()),
        version: "0.1.0".into(),
        cwd: "/repo".into(),
        model: "m".into(),
        mode: "default".into(),
        forked_from: Some(SessionId("0180-1".into())),
        sandbox: None,
    })
}

fn written(story: &Story, name: Option<&str>, kind: StdoutKind) -> String {
    let document = Document { name, view: View::Everything, writer: Writer::Gone, kind };
    let mut out = Vec::new();
    markdown(story.events().iter(), &document, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn what_happens_to_a_request_stands_where_it_happened() {
    let mut story = Story::new();
    story.invocation("go").turn(0, 1).throttled(0, ThrottleCause::Provider, Some(1_500));
    story.admitted(0, 1_600).batch("c", &["a"]).start(1).turn(1, 1).retried(1, 1, Some(503));
    let next = AfterFailure::Fallback { model: "small_*".into() };
    story.request_failed(1, 2, None, next).end(1, done("x"));
    let reply = Reply { text: "x".to_owned(), ..Reply::default() };
    story.replied(0, reply, paid(900, 30, 7)).over(done("x"), "x");
    assert_snapshot!(written(&story, None, StdoutKind::Other), @r#"
    # go

    ## Prompt 1

    > go

    throttled: provider asked to wait 2 s (\`m\`)

    request waited 1.6 s

    ### agent-1: a (reviewer)

    request to \`m\` failed: the provider said 503; retry 1 of 10 in 3 s

    request to \`m\` failed: the answer broke off; goes on with \`small\_\*\`

    done in 3.2 s, 1.2k tokens

    ### main

    x

    940 tokens, $0.0700, 1 retry, requests waited 1.6 s in all
    "#);
}

#[test]
fn agents_that_worked_side_by_side_stand_one_after_the_other() {
    let mut story = Story::new();
    story.push(0, opened()).invocation("Review *this*\nall of it");
    story.push(0, EventKind::Prompted("today\n\nReview *this*\nall of it".into()));
    for event in &Story::batch_of_three().events()[1..] {
        story.push(event.unit.0, event.kind.clone());
    }
    assert_snapshot!(written(&story, None, StdoutKind::Other), @r#"
    # Review \*this\*

    - session: `0190-5`
    - directory: `/repo`
    - model: `m`
    - forked from: `0180-1`
    - permissions: `default`
    - begun: `1970-01-01 00:16 UTC`
    - tine: `0.1.0`

    ## Prompt 1

    > Review *this*
    > all of it

    `Agent 3 tasks`

    ### agent-1: correctness (reviewer)

    secret thoughts of a slot

    `Read src/a.rs` took 20 ms

    <details><summary>output, 1 line</summary>

    ```
    fn a() {}
    ```

    </details>

    done in 3.2 s, 1.2k tokens

    ### agent-2: security (reviewer)

    failed: the provider said 500

    ### agent-3: style (reviewer)

    never started

    ### main

    `Agent 3 tasks` took 20 ms

    <details><summary>output, 1 line</summary>

    ```
    1 of 3 completed
    ```

    </details>

    All fine.

    495 tokens
    "#);
}

#[test]
fn a_log_that_ends_in_the_middle_says_so_at_its_end() {
    let mut story = Story::new();
    story.invocation("go").batch("c", &["a", "b"]).start(1);
    story.push(1, EventKind::Prompted("look".into()));
    story.call(1, "w", "Bash", "make");
    assert_snapshot!(written(&story, Some("nightly"), StdoutKind::Other), @r#"
    # nightly

    ## Prompt 1

    > go

    ### agent-1: a (reviewer)

    > look

    `Bash make` was cut off; what it did is unknown

    ---

    interrupted: 1 cut off (a), 1 never started (b)

    cut off in the middle, so what they did is unknown: Bash make (a)
"#);
}

#[test]
fn calls_of_a_process_that_is_gone_stand_in_its_invocation() {
    let mut story = Story::new();
    story.invocation("one").call(0, "w", "Bash", "make").invocation("two").over(done("x"), "x");
    let text = written(&story, None, StdoutKind::Other);
    let cut_off =
        "> one\n\n`Bash make` was cut off; what it did is unknown\n\n## Prompt 1\n\n> two\n\n";
    assert!(text.ends_with(cut_off), "{text}");
}

#[test]
fn an_image_is_named_and_not_shown() {
    let mut story = Story::new();
    story.invocation("go").shows(0, "c", "two of them", &[90, 120_000]).over(done("ok"), "ok");
    assert_snapshot!(written(&story, None, StdoutKind::Other), @"
    # go

    ## Prompt 1

    > go

    `Read` took 20 ms

    <details><summary>output, 1 line</summary>

    ```
    two of them
    ```

    </details>

    (image/png 90 bytes, image/png 120 kB)
    ");
}

#[test]
fn text_of_others_does_not_break_the_document() {
    let mut story = Story::new();
    let thinking = "hm\n```".to_owned();
    let text = "see\n```rust\nfn a() {}".to_owned();
    story.invocation("go\u{1b}[2J").replied(
        0,
        Reply { thinking, text, calls: vec![call_of("c", "Bash", "{}")], ..Reply::default() },
        Usage::default(),
    );
    story.call(0, "c", "Bash", "echo `x`\u{7}").output(
        0,
        "c",
        "Bash",
        "````\r\n\u{1b}]0;x\u{7}y\n",
    );
    story.denied(0, "d", "Bash", "no").output(0, "d", "Bash", "");
    story.over(failed("a <b> \u{9b}"), "");
    assert_snapshot!(written(&story, None, StdoutKind::Other), @r#"
    # go\\u{1b}\[2J

    ## Prompt 1

    > go[2J

    <details><summary>thinking</summary>

    > hm
    > ```

    </details>

    see
    ```rust
    fn a() {}
    ```

    ``Bash echo `x`\u{7}`` took 20 ms

    <details><summary>output, 2 lines</summary>

    `````
    ````
    ]0;xy
    `````

    </details>

    `Bash {"command":"rm -rf /"}` was denied

    1 call was denied

    error: a \<b> \\u{9b}
    "#);
    let shown = written(&story, Some("a\u{202e}"), StdoutKind::Terminal);
    assert!(!shown.contains(sanitise::is_hidden) && shown.contains("> go\\u{1b}[2J\n"), "{shown}");
}

#[test]
fn what_only_holds_the_branch_of_steps_has_no_part_but_with_a_failure_of_its_own() {
    let mut story = Story::angles();
    story.end(4, done("x")).end(1, done("x")).over(done("x"), "x");
    assert_snapshot!(written(&story, None, StdoutKind::Other), @r#"
    # review

    ## Prompt 1

    > review

    ### agent-5: security\[0\] (reviewer), for agent-2

    failed: boom

    ### agent-3: tests (for\_each)

    failed: for\_each = "x": it gives none, and not a list

    ### agent-4: correctness\[0\] (reviewer), for agent-1

    done in 3.2 s, 1.2k tokens
    "#);
}

#[test]
fn a_part_that_is_too_long_to_keep_is_written_in_pieces() {
    let mut story = Story::new();
    story.invocation("go").batch("c", &["a", "b"]).start(1).start(2);
    story.reply(2, "short", 1, 1);
    story.reply(1, &"x".repeat(PART_CAP), 1, 1).reply(1, "more", 1, 1);
    story.end(2, done("x")).end(1, done("x")).over(done("x"), "x");
    let text = written(&story, None, StdoutKind::Other);
    let headings: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(
        headings,
        [
            "# go",
            "## Prompt 1",
            "### agent-1: a (reviewer)",
            "### agent-2: b (reviewer)",
            "### agent-1: a (reviewer), continued",
            "### main",
        ]
    );
}

#[test]
fn a_strand_is_shown_alone_and_under_the_whole_title() {
    let mut story = Story::new();
    story.push(0, opened());
    for event in Story::batch_of_three().events() {
        story.push(event.unit.0, event.kind.clone());
    }
    let view = Viewer::parse("2").unwrap().view(story.events().iter()).unwrap();
    let (writer, kind) = (Writer::Gone, StdoutKind::Other);
    let document = Document { name: None, view, writer, kind };
    let mut out = Vec::new();
    markdown(story.events().iter(), &document, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let headings: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(
        headings,
        ["# review", "## Prompt 1", "### agent-2: security (reviewer)", "### main"]
    );
}
