//! What the wire promises: exact round trips, and an error and no panic for
//! all else.

mod relay;

use std::fmt::Debug;

use proptest::prelude::*;

use super::facts::told_of;
use super::samples::{asks_and_answers, conversation, grants, left, words};
use super::*;
use crate::event::FailureKind;
use crate::session::samples::any_event;

type Encode<M> = fn(&M) -> Vec<u8>;
type Decode<M> = fn(&[u8]) -> Result<M, Malformed>;

/// A message as it is sent.
struct Bytes {
    bytes: Vec<u8>,
    /// Tells whether bytes are such a message.
    is_one: IsOne,
}

type IsOne = Box<dyn Fn(&[u8]) -> bool>;

/// Every sort of message.
fn messages() -> Vec<Bytes> {
    let mut all = frames();
    all.extend(others());
    all
}

/// Every word, each in a frame of its own.
fn frames() -> Vec<Bytes> {
    let frame = |(seq, word)| {
        let frame = Frame { attempt: 1, seq, words: vec![(UnitId(4), word)] };
        bytes(&frame, Frame::encode, Frame::decode)
    };
    (1..).zip(words()).map(frame).collect()
}

fn others() -> Vec<Bytes> {
    let unit = UnitId(4);
    let mut all = Vec::new();
    let end = FarEnd {
        attempt: 1,
        after: 9,
        words: vec![(unit, Word::Unasked)],
        outcome: Outcome::failed(FailureKind::Provider, "gone"),
        changes: Some("af13".into()),
        left: None,
    };
    all.push(bytes(&end, FarEnd::encode, FarEnd::decode));
    let end = FarEnd { outcome: Outcome::Done { text: "done".into() }, changes: None, ..end };
    all.push(bytes(&end, FarEnd::encode, FarEnd::decode));
    for left in left() {
        let end = FarEnd { left: Some(left), ..end.clone() };
        all.push(bytes(&end, FarEnd::encode, FarEnd::decode));
    }
    let answers = asks_and_answers().into_iter().map(|(_, answered)| answered);
    let answers = answers.chain([Answered::Dropped]);
    let answers = answers.map(|answered| Back::Answer { id: AskId(7), answered });
    let back = answers.chain([
        Back::Order { ask: AskId(7), order: Order::Aside(vec![UnitId(5), UnitId(6)]) },
        Back::Order { ask: AskId(7), order: Order::Again(UnitId(5)) },
        Back::Cancel { unit },
        Back::HasNews,
    ]);
    for (number, what) in (1..).zip(back) {
        let message = ToSlot { run: "run".into(), unit, attempt: 1, number, what };
        all.push(bytes(&message, ToSlot::encode, ToSlot::decode));
    }
    for had in [None, Some(Had { attempt: 2, has_ended: true })] {
        let (version, worker, ended) = ("0.1.0".into(), "w1".into(), vec![UnitId(3)]);
        let claim = Claim { version, worker, unit, ended, had };
        all.push(bytes(&claim, Claim::encode, Claim::decode));
    }
    let claimed = grants().map(|grant| Claimed::Granted(Box::new(grant)));
    for claimed in claimed.into_iter().chain([Claimed::Over, Claimed::Refused("it is old".into())])
    {
        all.push(bytes(&claimed, Claimed::encode, Claimed::decode));
    }
    let beat = Beat {
        worker: "w1".into(),
        slots: vec![(unit, 2, 11)],
        broken: vec![(unit, 1, "full".into())],
    };
    all.push(bytes(&beat, Beat::encode, Beat::decode));
    all.push(bytes(&Beaten { gone: vec![unit] }, Beaten::encode, Beaten::decode));
    all.push(Bytes {
        bytes: Conversation(conversation()).encode(),
        is_one: Box::new(|bytes| Conversation::decode(bytes).is_ok()),
    });
    all
}

/// Sends a message, which must arrive as it is.
#[track_caller]
fn sent<M: PartialEq + Debug>(message: &M, encode: Encode<M>, decode: Decode<M>) -> M {
    let arrived = decode(&encode(message)).unwrap();
    assert_eq!(arrived, *message);
    arrived
}

#[track_caller]
fn bytes<M: PartialEq + Debug + 'static>(
    message: &M,
    encode: Encode<M>,
    decode: Decode<M>,
) -> Bytes {
    let bytes = encode(&sent(message, encode, decode));
    Bytes { bytes, is_one: Box::new(move |bytes| decode(bytes).is_ok()) }
}

#[track_caller]
fn check_malformed<M: Debug>(decode: Decode<M>, bytes: &str, why: &str) {
    let error = decode(bytes.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), format!("malformed message: {why}"));
}

/// Returns messages as lines, without all of a text that is cut.
fn lines(messages: Vec<Bytes>) -> String {
    let text = |message: Bytes| String::from_utf8(message.bytes).unwrap() + "\n";
    messages.into_iter().map(text).collect::<String>().replace(&"é".repeat(1_000), "é…")
}

#[test]
fn the_form_of_what_units_say_is_known() {
    insta::assert_snapshot!(lines(frames()), @r#"
    {"attempt":1,"seq":1,"words":[{"unit":"agent-4","word":{"fact":{"kind":"prompted","body":{"text":"hi"}}}}]}
    {"attempt":1,"seq":2,"words":[{"unit":"agent-4","word":{"fact":{"kind":"compacted","body":{"trigger":"manual","text":"what was said","kept_prompts":1,"tokens_before":90000,"tokens_after":8000,"model":"offline","usage":{"input":90000,"output":800,"cache_read":0,"cache_creation":0},"took_ms":4000}}}}]}
    {"attempt":1,"seq":3,"words":[{"unit":"agent-4","word":{"fact":{"kind":"prefix_shared","body":{"shared_bytes":90,"total_bytes":100}}}}]}
    {"attempt":1,"seq":4,"words":[{"unit":"agent-4","word":{"fact":{"kind":"throttled","body":{"model":"offline","cause":"provider","wait_ms":1500}}}}]}
    {"attempt":1,"seq":5,"words":[{"unit":"agent-4","word":{"fact":{"kind":"admitted","body":{"waited_ms":1600}}}}]}
    {"attempt":1,"seq":6,"words":[{"unit":"agent-4","word":{"fact":{"kind":"request_failed","body":{"model":"offline","attempt":2,"status":529,"message":"HTTP 529: overloaded","usage":{"input":10,"output":20,"cache_read":30,"cache_creation":40,"nano_usd":50,"unpriced":true},"took_ms":7,"next":{"retry":{"delay_ms":800,"most":10}}}}}}]}
    {"attempt":1,"seq":7,"words":[{"unit":"agent-4","word":{"fact":{"kind":"denied","body":{"call":"call-3","tool":"bash","arguments":"{}","reason":"not asked for"}}}}]}
    {"attempt":1,"seq":8,"words":[{"unit":"agent-4","word":{"fact":{"kind":"worktree","body":{"made":{"path":"/t/1","base":"abc"}}}}}]}
    {"attempt":1,"seq":9,"words":[{"unit":"agent-4","word":{"fact":{"kind":"worktree","body":{"kept":{"path":"/t/1","patch":"/t/1.patch","conflicts":["a"]}}}}}]}
    {"attempt":1,"seq":10,"words":[{"unit":"agent-4","word":{"fact":{"kind":"walked","body":{"name":"audit","inputs":"{\"base\":\"main\"}","steps":3,"goes_on":true}}}}]}
    {"attempt":1,"seq":11,"words":[{"unit":"agent-4","word":{"fact":{"kind":"notice","body":{"level":"warning","text":"the key is old"}}}}]}
    {"attempt":1,"seq":12,"words":[{"unit":"agent-4","word":{"fact":{"kind":"hook_ran","body":{"event":"PreToolUse","hook":"./check.sh","call":"call-2","outcome":"blocked","exit_code":2,"decision":"deny","reason":"not there","context":"more","message":"look","changes_input":true,"took_ms":12}}}}]}
    {"attempt":1,"seq":13,"words":[{"unit":"agent-4","word":{"fact":{"kind":"offered","body":{"servers":[{"name":"files","status":"needs-auth"}],"tools":[{"name":"mcp__files__read","server":"files","remote":"read","description":"Reads \"it\".","parameters":"{\"type\":\"object\"}"}]}}}}]}
    {"attempt":1,"seq":14,"words":[{"unit":"agent-4","word":{"fact":{"kind":"notified","body":{"children":[],"text":"answer"}}}}]}
    {"attempt":1,"seq":15,"words":[{"unit":"agent-4","word":{"fact":{"kind":"turn_started","body":{"turn":2}}}}]}
    {"attempt":1,"seq":16,"words":[{"unit":"agent-4","word":{"fact":{"kind":"replied","body":{"text":"It is short.","thinking":"","calls":[],"model":"m","usage":{"input":0,"output":0,"cache_read":0,"cache_creation":0},"stop":"end_turn","took_ms":1}}}}]}
    {"attempt":1,"seq":17,"words":[{"unit":"agent-4","word":{"fact":{"kind":"tool_finished","body":{"call":"call-1","tool":"Read","text":"no such file","is_error":true,"took_ms":7}}}}]}
    {"attempt":1,"seq":18,"words":[{"unit":"agent-4","word":{"text":"It is"}}]}
    {"attempt":1,"seq":19,"words":[{"unit":"agent-4","word":{"thinking":"Hm"}}]}
    {"attempt":1,"seq":20,"words":[{"unit":"agent-4","word":{"leaves":"so far"}}]}
    {"attempt":1,"seq":21,"words":[{"unit":"agent-4","word":"unasked"}]}
    {"attempt":1,"seq":22,"words":[{"unit":"agent-4","word":{"unheard":[3,4]}}]}
    {"attempt":1,"seq":23,"words":[{"unit":"agent-4","word":{"ask":{"id":1,"ask":{"tool_started":{"fact":{"kind":"tool_started","body":{"call":"call-1","tool":"Bash","subject":"cargo test","confinement":{"backend":"none","access":"off","network":true}}},"is_synced":true}}}}}]}
    {"attempt":1,"seq":24,"words":[{"unit":"agent-4","word":{"ask":{"id":2,"ask":{"file_changed":{"kind":"file_changed","body":{"call":"call-2","path":"/w/new/a","after":{"blake3":"b20ab0a020a48d349e0c64d109c441f87c9bc43d49fc701c4a5f6f1b16aa4e32","mode":420},"directories":1}}}}}}]}
    {"attempt":1,"seq":25,"words":[{"unit":"agent-4","word":{"ask":{"id":3,"ask":{"may_call":{"count":3}}}}}]}
    {"attempt":1,"seq":26,"words":[{"unit":"agent-4","word":{"ask":{"id":4,"ask":{"may_call":{"count":1}}}}}]}
    {"attempt":1,"seq":27,"words":[{"unit":"agent-4","word":{"ask":{"id":5,"ask":{"user":{"question":{"kind":"asked","body":{"id":0,"question":{"form":{"call":"ask-1","tool":"AskUserQuestion","arguments":"{}","message":"","fields":[{"name":"Which database?","header":"","text":"Which database?","takes":{"options":{"options":[{"label":"yes","description":"what yes means"},{"label":"no","description":"what no means"}],"several":false,"own_words":true}},"may_be_empty":false},{"name":"How many?","header":"","text":"How many?","takes":{"number":{"is_whole":true}},"may_be_empty":true},{"name":"Why?","header":"","text":"Why?","takes":"words","may_be_empty":false}]}}}},"decided":{"tool":"Bash","whole":{"command":{"text":"cargo test","only_exactly":true}},"parts":[{"names":["explore"]},{"places":[{"path":"/w/\\xff\\x5cx41","relative":"\\xff\\x5cx41"},{"path":"/w/\\xff\\x5cx41","relative":null}]},"unknown"]}}}}}}]}
    {"attempt":1,"seq":28,"words":[{"unit":"agent-4","word":{"ask":{"id":6,"ask":{"user":{"question":{"kind":"asked","body":{"id":0,"question":{"batch":{"slots":9}}}},"decided":{"tool":"","whole":null,"parts":[]}}}}}}]}
    {"attempt":1,"seq":29,"words":[{"unit":"agent-4","word":{"ask":{"id":7,"ask":{"declare":{"call":"call-1","children":[{"description":"look","agent":"explore","slot":{"index":0,"total":3},"origin":"visible","is_background":true,"strand":{"reserved":7},"budget":{"nano_usd":1000000000,"tokens":9,"tool_calls":0},"again":"agent-2","step":{"key":"review[3]","digest":"00000000000000000000000000000007"}},{"description":"look","agent":"explore","slot":null,"origin":null,"is_background":false,"strand":"fresh","budget":{"nano_usd":null,"tokens":null,"tool_calls":null},"again":null,"step":null},{"description":"look","agent":"explore","slot":null,"origin":null,"is_background":false,"strand":"parents","budget":{"nano_usd":null,"tokens":null,"tool_calls":null},"again":null,"step":null}],"takes_orders":true}}}}}]}
    {"attempt":1,"seq":30,"words":[{"unit":"agent-4","word":{"ask":{"id":8,"ask":"may_start"}}}]}
    {"attempt":1,"seq":31,"words":[{"unit":"agent-4","word":{"ask":{"id":9,"ask":{"may_request":{"turn":1}}}}}]}
    {"attempt":1,"seq":32,"words":[{"unit":"agent-4","word":{"ask":{"id":10,"ask":{"may_request":{"turn":null}}}}}]}
    {"attempt":1,"seq":33,"words":[{"unit":"agent-4","word":{"ask":{"id":11,"ask":{"ended":{"outcome":{"state":"done","text":"done"},"output_file":"/t/out.md"}}}}}]}
    {"attempt":1,"seq":34,"words":[{"unit":"agent-4","word":{"ask":{"id":12,"ask":{"join":{"children":["agent-4","agent-5"]}}}}}]}
    {"attempt":1,"seq":35,"words":[{"unit":"agent-4","word":{"ask":{"id":13,"ask":{"reserve":{"count":3}}}}}]}
    {"attempt":1,"seq":36,"words":[{"unit":"agent-4","word":{"ask":{"id":14,"ask":"visible"}}}]}
    {"attempt":1,"seq":37,"words":[{"unit":"agent-4","word":{"ask":{"id":15,"ask":{"news":{"wait":"no"}}}}}]}
    {"attempt":1,"seq":38,"words":[{"unit":"agent-4","word":{"ask":{"id":16,"ask":{"news":{"wait":"until_there_are"}}}}}]}
    {"attempt":1,"seq":39,"words":[{"unit":"agent-4","word":{"ask":{"id":17,"ask":{"news":{"wait":"no"}}}}}]}
    {"attempt":1,"seq":40,"words":[{"unit":"agent-4","word":{"ask":{"id":18,"ask":{"look":{"unit":null}}}}}]}
    {"attempt":1,"seq":41,"words":[{"unit":"agent-4","word":{"ask":{"id":19,"ask":{"look":{"unit":"agent-4"}}}}}]}
    {"attempt":1,"seq":42,"words":[{"unit":"agent-4","word":{"ask":{"id":20,"ask":{"await":{"units":["agent-4"],"until":"any"}}}}}]}
    {"attempt":1,"seq":43,"words":[{"unit":"agent-4","word":{"ask":{"id":21,"ask":{"await":{"units":["agent-4"],"until":"all"}}}}}]}
    {"attempt":1,"seq":44,"words":[{"unit":"agent-4","word":{"ask":{"id":22,"ask":{"taken":{"units":["agent-4"]}}}}}]}
    {"attempt":1,"seq":45,"words":[{"unit":"agent-4","word":{"ask":{"id":23,"ask":{"stop":{"unit":"agent-4"}}}}}]}
    {"attempt":1,"seq":46,"words":[{"unit":"agent-4","word":{"ask":{"id":24,"ask":{"stop":{"unit":"agent-9"}}}}}]}
    {"attempt":1,"seq":47,"words":[{"unit":"agent-4","word":{"ask":{"id":25,"ask":{"send":{"to":"agent-4","text":"hurry"}}}}}]}
    {"attempt":1,"seq":48,"words":[{"unit":"agent-4","word":{"ask":{"id":26,"ask":{"send":{"to":"agent-4","text":"hurry"}}}}}]}
    {"attempt":1,"seq":49,"words":[{"unit":"agent-4","word":{"ask":{"id":27,"ask":{"send":{"to":"agent-4","text":"hurry"}}}}}]}
    {"attempt":1,"seq":50,"words":[{"unit":"agent-4","word":{"ask":{"id":28,"ask":{"send":{"to":"agent-4","text":"hurry"}}}}}]}
    "#);
}

#[test]
fn the_form_of_all_else_is_known() {
    insta::assert_snapshot!(lines(others()), @r#"
    {"attempt":1,"after":9,"words":[{"unit":"agent-4","word":"unasked"}],"outcome":{"state":"failed","kind":"provider","message":"gone"},"changes":"af13","left":null}
    {"attempt":1,"after":9,"words":[{"unit":"agent-4","word":"unasked"}],"outcome":{"state":"done","text":"done"},"changes":null,"left":null}
    {"attempt":1,"after":9,"words":[{"unit":"agent-4","word":"unasked"}],"outcome":{"state":"done","text":"done"},"changes":null,"left":{"from":{"blob":"b10b","body":"b0d7"},"model":"small","tools":["Read","StructuredOutput"],"schema":"true","max_turns":{"most":100,"source":"flag"}}}
    {"attempt":1,"after":9,"words":[{"unit":"agent-4","word":"unasked"}],"outcome":{"state":"done","text":"done"},"changes":null,"left":{"from":{"blob":"b10b","body":"b0d7"},"model":"small","tools":["Read","StructuredOutput"],"schema":"true","max_turns":{"most":100,"source":"task"}}}
    {"attempt":1,"after":9,"words":[{"unit":"agent-4","word":"unasked"}],"outcome":{"state":"done","text":"done"},"changes":null,"left":{"from":{"blob":"b10b","body":"b0d7"},"model":"small","tools":["Read","StructuredOutput"],"schema":"true","max_turns":{"most":100,"source":"definition"}}}
    {"attempt":1,"after":9,"words":[{"unit":"agent-4","word":"unasked"}],"outcome":{"state":"done","text":"done"},"changes":null,"left":{"from":{"blob":"b10b","body":"b0d7"},"model":"small","tools":["Read","StructuredOutput"],"schema":"true","max_turns":{"most":100,"source":"config"}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":1,"what":{"answer":{"id":7,"answered":"go_on"}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":2,"what":{"answer":{"id":7,"answered":"go_on"}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":3,"what":{"answer":{"id":7,"answered":{"calls":{"count":1,"refused":{"state":"failed","kind":"max_tool_calls","message":"no \"more\""}}}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":4,"what":{"answer":{"id":7,"answered":{"calls":{"count":1,"refused":null}}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":5,"what":{"answer":{"id":7,"answered":{"verdict":{"answer":"no_because","message":"no"}}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":6,"what":{"answer":{"id":7,"answered":{"verdict":{"answer":"covered","by":9}}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":7,"what":{"answer":{"id":7,"answered":{"seats":[{"unit":"agent-4","branch":{"tokens":"1-3,5","path":"main"},"origin":{"continued":"agent-1"}},{"unit":"agent-5","branch":{"tokens":"1-3,5","path":"main"},"origin":{"continued":"agent-1"}},{"unit":"agent-6","branch":{"tokens":"1-3,5","path":"main"},"origin":{"continued":"agent-1"}}]}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":8,"what":{"answer":{"id":7,"answered":"go_on"}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":9,"what":{"answer":{"id":7,"answered":{"request":{"calls_are_limited":true}}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":10,"what":{"answer":{"id":7,"answered":{"no_request":{"state":"failed","kind":"budget","message":"no \"more\""}}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":11,"what":{"answer":{"id":7,"answered":{"end":{"kind":"unit_ended","body":{"outcome":{"state":"failed","kind":"timeout","message":"no \"more\""},"text":"so far","usage":{"input":0,"output":0,"cache_read":0,"cache_creation":0},"turns":1,"tool_uses":0,"duration_ms":1,"output_file":null}}}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":12,"what":{"answer":{"id":7,"answered":"go_on"}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":13,"what":{"answer":{"id":7,"answered":{"first":12}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":14,"what":{"answer":{"id":7,"answered":{"visible":[{"seq":1,"unit":"main","invocation":0,"tokens":"","from":"user","part":"asked","head":"go","missing":0},{"seq":3,"unit":"agent-1","invocation":0,"tokens":"1","from":"Ada","part":{"summed_up":{"before":3}},"head":"what was said","missing":0},{"seq":4,"unit":"agent-1","invocation":0,"tokens":"1","from":"Ada","part":"said","head":"I look.","missing":0},{"seq":5,"unit":"agent-1","invocation":0,"tokens":"1","from":"Ada","part":{"called":"Read {}"},"head":"é…","missing":2000}]}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":15,"what":{"answer":{"id":7,"answered":{"news":"not_yet"}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":16,"what":{"answer":{"id":7,"answered":{"news":{"message":"new"}}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":17,"what":{"answer":{"id":7,"answered":{"news":"nothing"}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":18,"what":{"answer":{"id":7,"answered":{"glances":[{"unit":"agent-4","description":"look","agent":"explore","state":"running","text":"I","turns":2,"tool_uses":3,"end":null,"unread":1},{"unit":"agent-4","description":"look","agent":"explore","state":"running","text":"I","turns":2,"tool_uses":3,"end":{"kind":"unit_ended","body":{"outcome":{"state":"failed","kind":"timeout","message":"no \"more\""},"text":"so far","usage":{"input":0,"output":0,"cache_read":0,"cache_creation":0},"turns":1,"tool_uses":0,"duration_ms":1,"output_file":null}},"unread":1,"continued_by":"agent-5"}]}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":19,"what":{"answer":{"id":7,"answered":{"glances":[]}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":20,"what":{"answer":{"id":7,"answered":"go_on"}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":21,"what":{"answer":{"id":7,"answered":"go_on"}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":22,"what":{"answer":{"id":7,"answered":"go_on"}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":23,"what":{"answer":{"id":7,"answered":{"state":"awaiting_approval"}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":24,"what":{"answer":{"id":7,"answered":{"state":null}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":25,"what":{"answer":{"id":7,"answered":{"sent":"queued"}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":26,"what":{"answer":{"id":7,"answered":{"sent":"full"}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":27,"what":{"answer":{"id":7,"answered":{"sent":{"ended":"skipped"}}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":28,"what":{"answer":{"id":7,"answered":{"sent":"unknown"}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":29,"what":{"answer":{"id":7,"answered":"dropped"}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":30,"what":{"order":{"ask":7,"order":{"aside":["agent-5","agent-6"]}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":31,"what":{"order":{"ask":7,"order":{"again":"agent-5"}}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":32,"what":{"cancel":{"unit":"agent-4"}}}
    {"run":"run","unit":"agent-4","attempt":1,"number":33,"what":"has_news"}
    {"version":"0.1.0","worker":"w1","unit":"agent-4","ended":["agent-3"]}
    {"version":"0.1.0","worker":"w1","unit":"agent-4","ended":["agent-3"],"had":{"attempt":2,"has_ended":true}}
    {"granted":{"unit":"agent-4","attempt":2,"branch":{"tokens":"1-3,5","path":"main"},"origin":null,"is_unlimited":true,"depth":1,"work":{"typed":{"task":{"description":"look","prompt":"Look at \"it\".\n","kind":{"typed":{"agent":"explore","is_built_in":true,"model":"large","tools":["Read","Grep"],"followed":{"skill":"tidy","leave":[{"rule":"Read(~/notes/**)","means":"Read(//home/ada/notes/**)","source":"skill"},{"rule":"Bash(git log *)","means":"Bash(git log *)","source":"skill"}],"model":"m"}}},"max_turns":3,"max_tokens":100000,"timeout":{"secs":1,"nanos":500000001},"isolation":"worktree","is_background":false,"schema":"{\"type\":\"object\",\"properties\":{\"é\":{\"type\":\"string\"}}}"},"is_verbatim":true}},"tools":["Read","Bash"],"model":"small","packet":"af13","policy":"eyJtb2RlIjoiZGVmYXVsdCJ9/w=="}}
    {"granted":{"unit":"agent-4","attempt":2,"branch":{"tokens":"1-3,5","path":"main"},"origin":"fork","is_unlimited":true,"depth":1,"work":{"fork":{"task":{"description":"d","prompt":"p","kind":"fork","max_turns":null,"max_tokens":null,"timeout":null,"isolation":null,"is_background":true,"schema":null},"parent":"main","from":{"blob":"b10b","body":"b0d7"},"schema":"{\"type\":\"object\",\"properties\":{\"é\":{\"type\":\"string\"}}}"}},"tools":["Read","Bash"],"model":"small","packet":"af13","policy":"eyJtb2RlIjoiZGVmYXVsdCJ9/w=="}}
    {"granted":{"unit":"agent-4","attempt":2,"branch":{"tokens":"1-3,5","path":"main"},"origin":{"continued":"agent-2"},"is_unlimited":true,"depth":1,"work":{"continued":{"task":{"description":"d","prompt":"and on?","kind":"fork","max_turns":null,"max_tokens":null,"timeout":null,"isolation":null,"is_background":true,"schema":null},"ended":"agent-2","from":{"blob":"b10b","body":"b0d7"},"max_turns":{"most":7,"source":"definition"}}},"tools":["Read","Bash"],"model":"small","packet":"af13","policy":"eyJtb2RlIjoiZGVmYXVsdCJ9/w=="}}
    "over"
    {"refused":"it is old"}
    {"worker":"w1","slots":[{"unit":"agent-4","attempt":2,"heard":11}],"broken":[{"unit":"agent-4","attempt":1,"why":"full"}]}
    {"gone":["agent-4"]}
    {"system":"Be good.","tools":[{"name":"Read","description":"Reads \"it\".\n","parameters":"{ \"z\": 1,  \"a\": \"\\u00e9\" }"},{"name":"Agent","description":"Reads \"it\".\n","parameters":"{}"}],"messages":[{"kind":"prompted","body":{"text":"look: \n\né","images":[{"at":6,"media_type":"image/png","base64":"bm90IG9uZQ=="}]}},{"kind":"replied","body":{"text":"I look.","thinking":"Hm","calls":[{"id":"call-1","tool":"Read","arguments":"{}"},{"id":"call-2","tool":"Read","arguments":"no json"}],"sealed":{"by":"responses http://localhost/v1 big","json":"[1]"},"model":"","usage":{"input":0,"output":0,"cache_read":0,"cache_creation":0},"stop":"end_turn","took_ms":0}},{"kind":"tool_finished","body":{"call":"call-1","tool":"","text":"a picture","is_error":false,"images":[{"media_type":"image/png","base64":"bm90IG9uZQ=="}],"took_ms":0}},{"kind":"tool_finished","body":{"call":"call-2","tool":"","text":"no such file","is_error":true,"took_ms":0}},{"kind":"replied","body":{"text":"So.","thinking":"","calls":[],"model":"","usage":{"input":0,"output":0,"cache_read":0,"cache_creation":0},"stop":"end_turn","took_ms":0}}]}
    "#);
}

#[test]
fn every_message_arrives_as_it_was_and_no_part_of_one_is_one() {
    for Bytes { bytes, is_one } in messages() {
        assert!(is_one(&bytes));
        for cut in 0..bytes.len() {
            assert!(!is_one(&bytes[..cut]), "{}", String::from_utf8_lossy(&bytes[..cut]));
        }
    }
}

#[test]
fn the_rules_of_a_skill_mean_the_same_elsewhere() {
    let [grant, ..] = grants();
    let claimed = Claimed::Granted(Box::new(grant.clone()));
    let Claimed::Granted(arrived) = sent(&claimed, Claimed::encode, Claimed::decode) else {
        unreachable!()
    };
    // Rules are equal if their texts are; all that they mean shows only here.
    let kind = |grant: &Grant| match &grant.work {
        Work::Typed { task, .. } | Work::Fork { task, .. } | Work::Continued { task, .. } => {
            format!("{:?}", task.kind)
        }
    };
    assert_eq!(kind(&arrived), kind(&grant));
}

#[test]
fn a_conversation_arrives_as_it_was_to_the_byte_of_its_schemas() {
    let said = conversation();
    let Conversation(arrived) = Conversation::decode(&Conversation(said.clone()).encode()).unwrap();
    assert!(arrived.messages().eq(said.messages()));
    assert_eq!(format!("{:?}", arrived.head), format!("{:?}", said.head));
}

proptest! {
    #[test]
    fn whatever_a_unit_tells_arrives_as_it_was(event in any_event()) {
        if let Ok(told) = told_of(event.kind) {
            let words = vec![(event.unit, Word::Told(told))];
            sent(&Frame { attempt: 1, seq: 1, words }, Frame::encode, Frame::decode);
        }
    }

    #[test]
    fn no_bytes_are_too_bad_to_read(bytes in any::<Vec<u8>>()) {
        drop(Frame::decode(&bytes));
        drop(FarEnd::decode(&bytes));
        drop(ToSlot::decode(&bytes));
        drop(Claim::decode(&bytes));
        drop(Claimed::decode(&bytes));
        drop(Beat::decode(&bytes));
        drop(Beaten::decode(&bytes));
        drop(Conversation::decode(&bytes));
    }

    #[test]
    fn no_change_of_a_message_is_too_bad_to_read(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut messages = messages();
        let which = which.index(messages.len());
        let Bytes { mut bytes, is_one } = messages.swap_remove(which);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        // It may be another message; what counts is that it does not panic.
        is_one(&bytes);
    }
}

#[test]
fn a_message_that_is_none_says_why() {
    check_malformed(Beat::decode, "", "EOF while parsing a value at line 1 column 0");
    check_malformed(Beaten::decode, r#"{"gone":["agent-04"]}"#, "`agent-04` is not a unit");
    check_malformed(
        Frame::decode,
        &said(r#"{"fact":{"kind":"unit_started","body":{}}}"#),
        "`unit_started` is not what is said here",
    );
    check_malformed(
        Frame::decode,
        &said(r#"{"fact":{"kind":"dreamt","body":{}}}"#),
        "`dreamt` is not known",
    );
    check_malformed(
        Frame::decode,
        &said(
            r#"{"ask":{"id":1,"ask":{"file_changed":{"kind":"notice","body":{"level":"info","text":""}}}}}"#,
        ),
        "`notice` is not what is said here",
    );
    check_malformed(
        Conversation::decode,
        r#"{"system":"","tools":[],"messages":[{"kind":"unit_started","body":{}}]}"#,
        "`unit_started` is not what is said here",
    );
    let first = |token: u64| {
        let answer = format!(r#"{{"answer":{{"id":1,"answered":{{"first":{token}}}}}}}"#);
        format!(r#"{{"run":"r","unit":"agent-1","attempt":1,"number":1,"what":{answer}}}"#)
    };
    assert!(ToSlot::decode(first(1).as_bytes()).is_ok());
    check_malformed(ToSlot::decode, &first(u64::MAX), "18446744073709551615 is not a token");
    let long = said(&format!(r#"{{"fact":{{"kind":"{}","body":{{}}}}}}"#, "é".repeat(9_999)));
    let why = Frame::decode(long.as_bytes()).unwrap_err();
    assert!(why.to_string().chars().count() < 300, "{why}");
}

/// A frame with one word.
fn said(word: &str) -> String {
    format!(r#"{{"attempt":1,"seq":1,"words":[{{"unit":"agent-1","word":{word}}}]}}"#)
}

#[test]
fn what_a_later_version_adds_to_a_claim_is_skipped() {
    let claim = r#"{"version":"9.0.0","worker":"w1","unit":"agent-4","mood":[1]}"#;
    let (version, ended) = ("9.0.0".into(), Vec::new());
    let claimed = Claim { version, worker: "w1".into(), unit: UnitId(4), ended, had: None };
    assert_eq!(Claim::decode(claim.as_bytes()), Ok(claimed));
}
