//! What the line format promises: exact round trips, and one reason for every
//! line that is none.

use proptest::prelude::*;

use super::*;
use crate::event::SessionHead;
use crate::message::{Image, ImageKind, Prompt};
use crate::session::samples::{any_event, one_of_each};

fn encoded(event: &Event) -> String {
    let mut line = Vec::new();
    encode(event, &mut line);
    String::from_utf8(line).unwrap()
}

#[track_caller]
fn check(line: &str, expected: Result<Decoded, &str>) {
    assert_eq!(decode(line.as_bytes()), expected.map_err(str::to_owned));
}

/// The sample of a kind.
fn sample(kind: &str) -> Event {
    let name = format!(r#""kind":"{kind}""#);
    one_of_each().into_iter().find(|event| encoded(event).contains(&name)).unwrap()
}

/// The line of a kind's sample with `from` replaced, which must be there.
fn changed(kind: &str, from: &str, to: &str) -> String {
    let line = encoded(&sample(kind));
    assert!(line.contains(from), "{line}");
    line.replace(from, to)
}

proptest! {
    #[test]
    fn every_event_round_trips_exactly_on_one_line(event in any_event()) {
        let line = encoded(&event);
        let text = line.strip_suffix('\n').unwrap();
        prop_assert!(!text.contains('\n'));
        prop_assert_eq!(decode(text.as_bytes()), Ok(Decoded::Event(event)));
    }

    #[test]
    fn no_part_of_a_line_is_a_line(event in any_event(), cut in any::<prop::sample::Index>()) {
        let line = encoded(&event);
        let text = line.trim_end_matches('\n').as_bytes();
        prop_assert!(decode(&text[..cut.index(text.len())]).is_err());
    }
}

#[test]
fn the_format_of_every_kind_is_version_1() {
    let lines: String = one_of_each().iter().map(encoded).collect();
    insta::assert_snapshot!(lines, @r#"
    {"v":1,"seq":1,"at":1700000000001,"inv":1,"unit":"main","branch":"","path":"main","kind":"session_opened","body":{"session":"0198-a","version":"0.1.0","cwd":"/home/ada/work/api","model":"offline","mode":"default","forked_from":"0197-b","sandbox":{"mode":"best","network":false,"installed":"bwrap"}}}
    {"seq":2,"at":1700000000002,"inv":1,"unit":"main","branch":"","path":"main","kind":"invocation_started","body":{"prompt":"say \"hi\"\nand\u001b[1m stop"}}
    {"seq":3,"at":1700000000003,"inv":1,"unit":"main","branch":"","path":"main","kind":"prompted","body":{"text":"hi"}}
    {"seq":4,"at":1700000000004,"inv":1,"unit":"main","branch":"","path":"main","kind":"notified","body":{"children":["agent-4"],"text":"news","wrote":1}}
    {"seq":5,"at":1700000000005,"inv":1,"unit":"main","branch":"","path":"main","kind":"user_wrote","body":{"text":"and also"}}
    {"seq":6,"at":1700000000006,"inv":1,"unit":"main","branch":"","path":"main","kind":"user_took_back","body":{}}
    {"seq":7,"at":1700000000007,"inv":1,"unit":"main","branch":"","path":"main","kind":"compacted","body":{"trigger":"manual","text":"what was said","kept_prompts":1,"tokens_before":90000,"tokens_after":8000,"model":"offline","usage":{"input":90000,"output":800,"cache_read":0,"cache_creation":0},"took_ms":4000}}
    {"seq":8,"at":1700000000008,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"unit_queued","body":{"description":"review","agent":"reviewer","call":"call-1","parent":"main","depth":1,"slot":{"index":2,"total":3},"origin":{"continued":"agent-2"},"background":true,"again":"agent-2","step":{"key":"review[3]/verify#2","digest":"000000000000feed0000000000000000"}}}
    {"seq":9,"at":1700000000009,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"unit_started","body":{}}
    {"seq":10,"at":1700000000010,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"lost","body":{"worker":"w-7","attempt":1}}
    {"seq":11,"at":1700000000011,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"turn_started","body":{"turn":1}}
    {"seq":12,"at":1700000000012,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"prefix_shared","body":{"shared_bytes":90,"total_bytes":100}}
    {"seq":13,"at":1700000000013,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"throttled","body":{"model":"offline","cause":"provider","wait_ms":1500}}
    {"seq":14,"at":1700000000014,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"admitted","body":{"waited_ms":1600}}
    {"seq":15,"at":1700000000015,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"request_failed","body":{"model":"offline","attempt":2,"status":529,"message":"HTTP 529: overloaded","usage":{"input":10,"output":20,"cache_read":30,"cache_creation":40,"nano_usd":50,"unpriced":true},"took_ms":7,"next":{"retry":{"delay_ms":800,"most":10}}}}
    {"seq":16,"at":1700000000016,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"replied","body":{"text":"reading","thinking":"hm","calls":[{"id":"call-2","tool":"Read","arguments":"{\"path\":\"a\""}],"sealed":{"by":"responses","json":"[1]"},"model":"offline","usage":{"input":10,"output":20,"cache_read":30,"cache_creation":40,"nano_usd":50,"unpriced":true},"stop":"tool_use","took_ms":12}}
    {"seq":17,"at":1700000000017,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"tool_started","body":{"call":"call-2","tool":"read","subject":"a","confinement":{"backend":"none","access":"off","network":true}}}
    {"seq":18,"at":1700000000018,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"tool_finished","body":{"call":"call-2","tool":"read","text":"no such file","is_error":true,"images":[{"media_type":"image/png","base64":"aGk="}],"took_ms":3}}
    {"seq":19,"at":1700000000019,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"denied","body":{"call":"call-3","tool":"bash","arguments":"{}","reason":"not asked for"}}
    {"seq":20,"at":1700000000020,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"asked","body":{"id":17,"question":{"batch":{"slots":40}}}}
    {"seq":21,"at":1700000000021,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"answered","body":{"id":17,"question":{"batch":{"slots":40}},"answer":"no"}}
    {"seq":22,"at":1700000000022,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"answered","body":{"id":17,"question":{"call":{"call":"call-3","tool":"bash","subject":"cargo test","arguments":"{}","reason":"it writes","rules":["Bash(cargo test *)"],"confinement":{"backend":"none","access":"off","network":true}}},"answer":"no_because","message":"not now"}}
    {"seq":23,"at":1700000000023,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"answered","body":{"id":17,"question":{"call":{"call":"call-3","tool":"bash","subject":"cargo test","arguments":"{}","reason":"it writes","rules":["Bash(cargo test *)"],"confinement":{"backend":"none","access":"off","network":true}}},"answer":"yes_with","terms":{"arguments":"{\"command\":\"cargo check\"}","lasting":"session","rules":["Bash(cargo *)"]}}}
    {"seq":24,"at":1700000000024,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"answered","body":{"id":17,"question":{"call":{"call":"call-3","tool":"bash","subject":"cargo test","arguments":"{}","reason":"it writes","rules":["Bash(cargo test *)"],"confinement":{"backend":"none","access":"off","network":true}}},"answer":"covered","by":9}}
    {"seq":25,"at":1700000000025,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"asked","body":{"id":17,"question":{"form":{"call":"ask-1","tool":"AskUserQuestion","arguments":"{}","message":"","fields":[{"name":"Which database?","header":"","text":"Which database?","takes":{"options":{"options":[{"label":"yes","description":"what yes means"},{"label":"no","description":"what no means"}],"several":false,"own_words":true}},"may_be_empty":false},{"name":"How many?","header":"","text":"How many?","takes":{"number":{"is_whole":true}},"may_be_empty":true},{"name":"Why?","header":"","text":"Why?","takes":"words","may_be_empty":false}]}}}}
    {"seq":26,"at":1700000000026,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"answered","body":{"id":17,"question":{"form":{"call":"ask-1","tool":"AskUserQuestion","arguments":"{}","message":"","fields":[{"name":"Which database?","header":"","text":"Which database?","takes":{"options":{"options":[{"label":"yes","description":"what yes means"},{"label":"no","description":"what no means"}],"several":false,"own_words":true}},"may_be_empty":false},{"name":"How many?","header":"","text":"How many?","takes":{"number":{"is_whole":true}},"may_be_empty":true},{"name":"Why?","header":"","text":"Why?","takes":"words","may_be_empty":false}]}},"answer":"filled","given":[{"picked":[0]},"nothing",{"words":"it is there"}]}}
    {"seq":27,"at":1700000000027,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"file_changed","body":{"call":"call-2","path":"/w/new/a","after":{"blake3":"b20ab0a020a48d349e0c64d109c441f87c9bc43d49fc701c4a5f6f1b16aa4e32","mode":420},"directories":1}}
    {"seq":28,"at":1700000000028,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"file_changed","body":{"undoes":7,"path":"/w/a","before":{"blake3":"b20ab0a020a48d349e0c64d109c441f87c9bc43d49fc701c4a5f6f1b16aa4e32","mode":420},"after":{"blake3":"96a4257289f9ebcbc94bfc49276f89ed87f8c951e3fa832d44dceb9b220520a5","mode":420}}}
    {"seq":29,"at":1700000000029,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"worktree","body":{"made":{"path":"/t/1","base":"abc"}}}
    {"seq":30,"at":1700000000030,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"worktree","body":{"kept":{"path":"/t/1","patch":"/t/1.patch","conflicts":["a"]}}}
    {"seq":31,"at":1700000000031,"inv":1,"unit":"agent-3","branch":"1-3,5","path":"main.review","kind":"unit_ended","body":{"outcome":{"state":"failed","kind":"max_turns","message":"100 turns"},"text":"so far","usage":{"input":10,"output":20,"cache_read":30,"cache_creation":40,"nano_usd":50,"unpriced":true},"turns":100,"tool_uses":7,"duration_ms":900,"output_file":"/tmp/out.md","share":{"shared_bytes":90,"total_bytes":100,"cached_tokens":8}}}
    {"seq":32,"at":1700000000032,"inv":1,"unit":"main","branch":"","path":"main","kind":"set_aside","body":{"units":["agent-1","agent-3"]}}
    {"seq":33,"at":1700000000033,"inv":1,"unit":"main","branch":"","path":"main","kind":"rewound","body":{"to":3}}
    {"seq":34,"at":1700000000034,"inv":1,"unit":"main","branch":"","path":"main","kind":"walked","body":{"name":"audit","inputs":"{\"base\":\"main\"}","steps":3,"goes_on":true}}
    {"seq":35,"at":1700000000035,"inv":1,"unit":"main","branch":"","path":"main","kind":"joined","body":{"children":["agent-1","agent-3"]}}
    {"seq":36,"at":1700000000036,"inv":1,"unit":"main","branch":"","path":"main","kind":"notice","body":{"level":"warning","text":"the key is old"}}
    {"seq":37,"at":1700000000037,"inv":1,"unit":"main","branch":"","path":"main","kind":"invocation_ended","body":{"outcome":{"state":"cancelled","ran":true},"text":"so far","cancel":"terminate","unfinished":["agent-2"]}}
    {"seq":38,"at":1700000000038,"inv":1,"unit":"main","branch":"","path":"main","kind":"chosen","body":{"model":"offline","mode":"plan"}}
    {"seq":39,"at":1700000000039,"inv":1,"unit":"main","branch":"","path":"main","kind":"left","body":{}}
    {"seq":40,"at":1700000000040,"inv":1,"unit":"main","branch":"","path":"main","kind":"hook_ran","body":{"event":"PreToolUse","hook":"./check.sh","call":"call-2","outcome":"blocked","exit_code":2,"decision":"deny","reason":"not there","context":"more","message":"look","changes_input":true,"took_ms":12}}
    {"seq":41,"at":1700000000041,"inv":1,"unit":"main","branch":"","path":"main","kind":"offered","body":{"servers":[{"name":"files","status":"needs-auth"}],"tools":[{"name":"mcp__files__read","server":"files","remote":"read","description":"Reads \"it\".","parameters":"{\"type\":\"object\"}"}]}}
    "#);
}

#[test]
fn an_unknown_kind_is_kept_and_an_unknown_field_is_skipped() {
    let later = changed("unit_started", "unit_started", "unit_dreamt");
    check(&later, Ok(Decoded::Unknown { kind: "unit_dreamt".to_owned() }));
    let started = sample("unit_started");
    check(
        &changed("unit_started", r#""body":{}"#, r#""mood":1,"body":{"new":2}"#),
        Ok(Decoded::Event(started)),
    );
}

#[test]
fn a_session_that_says_nothing_of_its_sandbox_opens() {
    let sandbox = r#","sandbox":{"mode":"best","network":false,"installed":"bwrap"}"#;
    let EventKind::SessionOpened(head) = sample("session_opened").kind else { unreachable!() };
    let older = EventKind::SessionOpened(SessionHead { sandbox: None, ..head });
    let older = Event { kind: older, ..sample("session_opened") };
    check(&changed("session_opened", sandbox, ""), Ok(Decoded::Event(older)));
}

#[test]
fn a_line_of_another_version_says_so_whatever_else_changed() {
    let why = "format version 2, but this tine reads version 1";
    check(&changed("session_opened", r#""v":1"#, r#""v":2"#), Err(why));
    check(r#"{"v":2,"events":[]}"#, Err(why));
    check(
        &changed("session_opened", r#""v":1,"#, ""),
        Err("a session opens without a format version"),
    );
}

#[test]
fn a_line_that_is_no_event_says_why() {
    check(
        &changed("unit_started", r#""branch":"1-3,5""#, r#""branch":"1,2,3,5""#),
        Err("branch: `1,2,3,5` is not a token set such as `1-3,5`"),
    );
    check(&changed("unit_started", "agent-3", "agent-03"), Err("`agent-03` is not a unit"));
    check(&changed("joined", r#""agent-1""#, r#""agent-+1""#), Err("`agent-+1` is not a unit"));
    check(&changed("notice", "warning", "panic"), Err("`panic` is not known"));
    check(
        &changed("replied", r#""stop":"tool_use""#, r#""stop":"bored""#),
        Err("`bored` is not a stop reason"),
    );
    check(&changed("answered", r#""no""#, r#""perhaps""#), Err("`perhaps` is not known"));
    check(&changed("invocation_ended", "terminate", "sulk"), Err("`sulk` is not known"));
    check(
        &changed("unit_ended", r#""kind":"max_turns""#, r#""kind":"luck""#),
        Err("`luck` is not known"),
    );
    check("", Err("EOF while parsing a value at line 1 column 0"));
}

#[test]
fn a_reason_is_bounded_however_much_it_quotes() {
    let line =
        changed("turn_started", r#""turn":1"#, &format!(r#""turn":"{}""#, "é".repeat(9_999)));
    let why = decode(line.as_bytes()).unwrap_err();
    assert_eq!((why.chars().count(), why.chars().last()), (REASON_CAP + 1, Some('…')));
}

#[test]
fn an_image_of_a_prompt_stands_in_its_line_with_its_place() {
    let image = Image::new(ImageKind::Png, b"hi");
    let prompt = Prompt::joined(["see".into(), image.into(), "well".into()]);
    let event = Event { kind: EventKind::Prompted(prompt), ..sample("prompted") };
    let line = encoded(&event);
    let body = r#""body":{"text":"see\n\nwell","images":[{"at":3,"media_type":"image/png","base64":"aGk="}]}"#;
    assert!(line.contains(body), "{line}");
    assert_eq!(decode(line.trim_end().as_bytes()), Ok(Decoded::Event(event)));
}
