//! Stories, and the trees of spans that they come to.

use std::fmt::Write as _;

use opentelemetry::Value;

use super::*;
use crate::config::Environment;
use crate::event::{AfterFailure, FailureKind, Offered, PrefixShare, ThrottleCause};
use crate::message::{Reply, Usage};
use crate::report::story::{Story, call_of, cancelled, done, failed, paid};

const PARENT: (&str, &str) =
    ("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
const CONTENT: (&str, &str) = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");

/// Folds a story under these variables.
fn fold(story: &Story, variables: &[(&str, &str)]) -> Vec<Span> {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
    let all = [endpoint].into_iter().chain(variables.iter().copied());
    let settings = Telemetry::from_environment(&Environment::from_variables(all));
    let describe: DescribeModel = Arc::new(|name| ModelPlace {
        provider: "openai",
        model: format!("{name}-1"),
        server: Some(("models.example".to_owned(), 443)),
    });
    let session = SessionId("s-1".into());
    let mut spans = Spans::new(session, settings.unwrap().unwrap(), describe);
    story.events().iter().flat_map(|event| spans.take(event)).collect()
}

/// Draws spans as a tree, each with its times within the story.
fn tree(spans: &[Span]) -> String {
    let mut text = String::new();
    let is_root = |span: &&Span| {
        span.is_parent_remote || !spans.iter().any(|other| Some(other.at.span) == span.parent)
    };
    for root in spans.iter().filter(is_root) {
        draw(spans, root, 0, &mut text);
    }
    text
}

fn draw(spans: &[Span], span: &Span, depth: usize, text: &mut String) {
    let (start, end) = (span.start.0 - 1_000_000, span.end.0 - 1_000_000);
    let failed = span.failed.as_ref().map(|it| format!(" !{}", it.kind)).unwrap_or_default();
    let indent = "  ".repeat(depth);
    writeln!(text, "{indent}{} {start}..{end}{failed}", span.name).unwrap();
    let mut below: Vec<_> =
        spans.iter().filter(|other| other.parent == Some(span.at.span)).collect();
    below.sort_by_key(|span| span.start);
    below.into_iter().for_each(|span| draw(spans, span, depth + 1, text));
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found = spans.iter().find(|span| span.name == name);
    found.unwrap_or_else(|| panic!("no `{name}` in\n{}", tree(spans)))
}

fn said(span: &Span, name: &str) -> Option<Value> {
    let mut found = span.attributes.iter().filter(|said| said.key.as_str() == name);
    let value = found.next().map(|said| said.value.clone());
    assert!(found.next().is_none(), "`{name}` is said twice: {:?}", span.attributes);
    value
}

#[test]
fn units_stand_below_the_call_that_started_them_and_turns_below_their_unit() {
    let expected = "\
invoke_agent main 100..2100
  turn 1 200..1800
    chat m-1 250..300
    execute_tool Agent 400..1800
      invoke_agent reviewer 800..1500
        turn 1 900..1400
          chat m-1 1150..1200
          execute_tool Read 1300..1400
      invoke_agent reviewer 1000..1600 !provider
        turn 1 1100..1600 !provider
          chat 1100..1600 !provider
      invoke_agent reviewer 1700..1700 !skipped
  turn 2 1900..2000
    chat m-1 1950..2000
";
    let spans = fold(&Story::batch_of_three(), &[]);
    assert_eq!(tree(&spans), expected);
    assert!(spans.iter().all(|span| span.at.trace == spans[0].at.trace));
}

#[test]
fn the_same_events_give_the_same_spans_and_no_two_have_one_id() {
    let spans = fold(&Story::batch_of_three(), &[]);
    assert_eq!(spans, fold(&Story::batch_of_three(), &[]));
    let mut ids: Vec<_> = spans.iter().map(|span| span.at.span.to_bytes()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), spans.len());
}

#[test]
fn a_request_says_who_was_asked_and_what_it_took() {
    let mut story = Story::new();
    story.invocation("go").turn(0, 1);
    let usage = Usage { cache_read: 40, ..paid(10, 5, 25) };
    story.replied(0, Reply { text: "hi".to_owned(), ..Reply::default() }, usage);
    story.over(done("hi"), "hi");
    let spans = fold(&story, &[]);
    let chat = named(&spans, "chat m-1");
    assert_eq!(chat.kind, Kind::Client);
    for (name, value) in [
        ("gen_ai.operation.name", Value::from("chat")),
        ("gen_ai.provider.name", Value::from("openai")),
        ("gen_ai.request.model", Value::from("m-1")),
        ("gen_ai.conversation.id", Value::from("s-1")),
        ("gen_ai.agent.name", Value::from("main")),
        ("server.address", Value::from("models.example")),
        ("server.port", Value::from(443)),
        ("gen_ai.usage.input_tokens", Value::from(50)),
        ("gen_ai.usage.cache_read.input_tokens", Value::from(40)),
        ("gen_ai.usage.output_tokens", Value::from(5)),
        ("tine.cost_usd", Value::from(0.25)),
    ] {
        assert_eq!(said(chat, name), Some(value), "{name}");
    }
    let reasons = said(chat, "gen_ai.response.finish_reasons").unwrap();
    assert_eq!(reasons.to_string(), "[\"stop\"]");
    assert_eq!(said(chat, "gen_ai.usage.cache_creation.input_tokens"), None);
}

#[test]
fn a_slot_says_its_place_and_how_long_it_waited_for_it() {
    let spans = fold(&Story::batch_of_three(), &[]);
    let slots = spans.iter().filter(|span| span.name == "invoke_agent reviewer");
    let slot = slots.clone().find(|span| span.failed.is_none()).unwrap();
    for (name, value) in [
        ("gen_ai.operation.name", Value::from("invoke_agent")),
        ("gen_ai.agent.name", Value::from("reviewer")),
        ("tine.unit", Value::from("agent-1")),
        ("gen_ai.request.model", Value::from("m-1")),
        ("tine.branch", Value::from("1")),
        ("tine.slot.index", Value::from(0)),
        ("tine.slot.count", Value::from(3)),
        ("tine.queued_ms", Value::from(300)),
        ("tine.turns", Value::from(1)),
        ("tine.outcome", Value::from("completed")),
    ] {
        assert_eq!(said(slot, name), Some(value), "{name}");
    }
    let outcomes: Vec<_> = slots.filter_map(|slot| said(slot, "tine.outcome")).collect();
    assert_eq!(outcomes, ["completed", "failed", "skipped"].map(Value::from));
}

#[test]
fn nothing_that_was_said_is_in_a_span_unless_it_is_asked_for() {
    let quoted = ["review", "correctness", "secret thoughts", "src/a.rs", "fn a()", "All fine."];
    let shown = format!("{:?}", fold(&Story::batch_of_three(), &[]));
    assert_eq!(quoted.iter().find(|text| shown.contains(&format!("{text}\""))), None, "{shown}");
    assert!(!shown.contains("secret thoughts") && !shown.contains("fn a()"), "{shown}");

    let spans = fold(&Story::batch_of_three(), &[CONTENT]);
    let read = named(&spans, "execute_tool Read");
    let arguments = said(read, "gen_ai.tool.call.arguments").unwrap();
    assert_eq!(arguments, Value::from(r#"{"path":"src/a.rs"}"#));
    assert_eq!(said(read, "gen_ai.tool.call.result"), Some(Value::from("fn a() {}")));
    let main = named(&spans, "invoke_agent main");
    let asked = said(main, "gen_ai.input.messages").unwrap().to_string();
    assert_eq!(asked, r#"[{"role":"user","parts":[{"type":"text","content":"review"}]}]"#);
    let answer = said(main, "gen_ai.output.messages").unwrap().to_string();
    assert!(
        answer.contains("All fine.") && answer.contains(r#""finish_reason":"stop""#),
        "{answer}"
    );
}

#[test]
fn what_was_said_is_in_a_span_up_to_a_bound() {
    let mut story = Story::new();
    story.invocation(&"ö".repeat(10_000)).over(done(""), "");
    let spans = fold(&story, &[CONTENT]);
    let asked = said(&spans[0], "gen_ai.input.messages").unwrap().to_string();
    assert_eq!(asked.matches('ö').count(), 4_096);
}

#[test]
fn each_attempt_is_a_request_of_its_own_and_says_how_long_it_waited() {
    let mut story = Story::new();
    story.invocation("go").turn(0, 1).throttled(0, ThrottleCause::InFlight, None);
    story.admitted(0, 70).retried(0, 1, Some(503)).admitted(0, 3_000).reply(0, "x", 1, 1);
    story.over(done("x"), "x");
    let spans = fold(&story, &[]);
    let expected = "\
invoke_agent main 100..800
  turn 1 200..700
    chat m-1 480..500 !503
    chat m-1 650..700
";
    assert_eq!(tree(&spans), expected);
    let chats: Vec<_> = spans.iter().filter(|span| span.name == "chat m-1").collect();
    assert_eq!(said(chats[0], "http.response.status_code"), Some(Value::from(503)));
    assert_eq!(said(chats[0], "tine.waited_ms"), Some(Value::from(70)));
    assert_eq!(said(chats[1], "tine.waited_ms"), Some(Value::from(3_000)));
    assert_eq!(said(chats[1], "tine.attempt"), Some(Value::from(2)));
    assert_eq!(chats[0].failed.as_ref().unwrap().message, "the provider said 503");
}

#[test]
fn a_request_that_is_cut_off_ends_with_its_unit() {
    let mut story = Story::new();
    story.invocation("go").turn(0, 1).over(cancelled(), "");
    let expected = "\
invoke_agent main 100..300 !cancelled
  turn 1 200..300 !cancelled
    chat 200..300 !cancelled
";
    assert_eq!(tree(&fold(&story, &[])), expected);

    let mut story = Story::new();
    story.invocation("go").turn(0, 1).throttled(0, ThrottleCause::InFlight, None);
    story.over(cancelled(), "");
    let expected = "\
invoke_agent main 100..400 !cancelled
  turn 1 200..400 !cancelled
";
    assert_eq!(tree(&fold(&story, &[])), expected, "what waits was not sent");
}

#[test]
fn a_panic_and_a_failure_for_good_are_told_by_their_kind() {
    let mut story = Story::new();
    story.batch("c", &["a"]).start(1).turn(1, 1);
    story.request_failed(1, 1, Some(401), AfterFailure::Nothing);
    story.end(1, Outcome::failed(FailureKind::Authentication, "no key"));
    let expected = "\
invoke_agent reviewer 200..500 !authentication
  turn 1 300..500 !authentication
    chat m-1 380..400 !401
";
    assert_eq!(tree(&fold(&story, &[])), expected);
    let mut story = Story::new();
    story.batch("c", &["a"]).start(1).end(1, Outcome::failed(FailureKind::Panic, "boom"));
    assert_eq!(tree(&fold(&story, &[])), "invoke_agent reviewer 200..300 !panic\n");
}

#[test]
fn a_call_that_was_refused_is_told_as_denied_and_others_as_errors() {
    let mut story = Story::new();
    let calls = vec![call_of("a", "Bash", "{}"), call_of("b", "Read", "{}")];
    story.invocation("go").turn(0, 1).replied(
        0,
        Reply { calls, ..Reply::default() },
        Usage::default(),
    );
    story.denied(0, "a", "Bash", "no").output(0, "a", "Bash", "refused");
    let output = Arc::new(crate::message::Output::error("there is none"));
    let (call, tool) = ("b".into(), "Read".into());
    story.push(0, EventKind::ToolFinished { call, tool, output, took_ms: 20 });
    story.over(done("x"), "x");
    let expected = "\
invoke_agent main 100..700
  turn 1 200..600
    chat m-1 250..300
    execute_tool Bash 480..500 !denied
    execute_tool Read 580..600 !tool_error
";
    assert_eq!(tree(&fold(&story, &[])), expected);
}

#[test]
fn an_error_that_may_quote_somebody_is_told_by_its_kind_alone() {
    let message = |kind, variables: &[(&str, &str)]| {
        let mut story = Story::new();
        story.invocation("go").over(Outcome::failed(kind, "secret words"), "");
        let [main] = &fold(&story, variables)[..] else { panic!("there is main alone") };
        let failed = main.failed.clone().unwrap();
        assert_eq!(failed.kind, kind.as_str());
        failed.message
    };
    for kind in FailureKind::ALL {
        assert_eq!(message(kind, &[CONTENT]), "secret words");
    }
    for kind in [
        FailureKind::Setup,
        FailureKind::Panic,
        FailureKind::Hook,
        FailureKind::StructuredOutput,
        FailureKind::Loop,
        FailureKind::Overflow,
    ] {
        assert_eq!(message(kind, &[]), "", "{kind:?}");
    }
    assert_eq!(message(FailureKind::MaxTurns, &[]), "secret words", "ours are numbers");
}

#[test]
fn a_tool_is_named_if_there_is_one_of_that_name() {
    let mut story = Story::new();
    let tool = |name: &str| OfferedTool {
        name: name.into(),
        server: "s".into(),
        remote: "r".into(),
        description: "d".into(),
        parameters: "{}".into(),
    };
    let offered = Offered { servers: Vec::new(), tools: Some([tool("mcp__s__r")].into()) };
    story.invocation("go").push(0, EventKind::Offered(Arc::new(offered)));
    for name in ["mcp__s__r", "Read", "made up"] {
        story.output(0, name, name, "bad arguments");
    }
    story.call(0, "x", "mcp__s__before", "").output(0, "x", "mcp__s__before", "x");
    story.denied(0, "y", "mcp__s__old", "no").output(0, "y", "mcp__s__old", "refused");
    story.over(done("x"), "x");
    let named = |variables: &[(&str, &str)]| -> Vec<(String, String)> {
        let spans = fold(&story, variables);
        let calls = spans.iter().filter(|span| span.name.starts_with("execute_tool"));
        let name = |span: &Span| said(span, "gen_ai.tool.name").unwrap().to_string();
        calls.map(|span| (span.name.clone(), name(span))).collect()
    };
    let known = |name: &str| (format!("execute_tool {name}"), name.to_owned());
    let mut expected = ["mcp__s__r", "Read", "made up", "mcp__s__before", "mcp__s__old"].map(known);
    assert_eq!(named(&[CONTENT]), expected);
    expected[2] = ("execute_tool".to_owned(), "_OTHER".to_owned());
    assert_eq!(named(&[]), expected);
}

#[test]
fn a_unit_that_outlives_its_invocation_stays_in_its_trace() {
    let mut story = Story::new();
    story.invocation("go").batch("c", &["beside"]).start(1).over(done("x"), "x");
    story.turn(1, 1).reply(1, "late", 1, 1).end(1, done("late"));
    let spans = fold(&story, &[]);
    let (main, late) = (named(&spans, "invoke_agent main"), named(&spans, "invoke_agent reviewer"));
    assert_eq!((late.parent, late.at.trace), (Some(main.at.span), main.at.trace));
    assert!(late.end > main.end);
}

#[test]
fn each_invocation_is_a_trace_unless_a_parent_is_given() {
    let mut story = Story::new();
    story.invocation("one").over(done("1"), "1").invocation("two").over(done("2"), "2");
    let spans = fold(&story, &[]);
    assert_ne!(spans[0].at.trace, spans[1].at.trace);
    assert_eq!((spans[0].parent, spans[1].parent), (None, None));

    let spans = fold(&story, &[PARENT]);
    for span in &spans {
        assert_eq!(span.at.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(span.parent.unwrap().to_string(), "b7ad6b7169203331");
        assert!(span.is_parent_remote);
    }
}

#[test]
fn of_a_trace_that_is_not_taken_no_span_is_told() {
    let off = ("OTEL_TRACES_SAMPLER", "always_off");
    assert_eq!(fold(&Story::batch_of_three(), &[off]), []);
}

#[test]
fn of_what_began_in_another_process_nothing_is_told() {
    let mut story = Story::new();
    story.output(0, "old", "Bash", "x").end(7, failed("interrupted"));
    story.over(Outcome::Interrupted, "");
    assert_eq!(fold(&story, &[]), []);
}

#[test]
fn a_fork_says_what_it_shares_with_its_parent() {
    let mut story = Story::new();
    story.batch("c", &["fork"]).start(1).turn(1, 1);
    story.push(1, EventKind::PrefixShared(PrefixShare { shared_bytes: 900, total_bytes: 1_000 }));
    story.reply(1, "x", 1, 1).turn(1, 2).reply(1, "y", 1, 1).end(1, done("y"));
    let spans = fold(&story, &[]);
    let shared: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "chat m-1")
        .map(|span| said(span, "tine.shared_bytes"))
        .collect();
    assert_eq!(shared, [Some(Value::from(900)), None]);
}

#[test]
fn a_unit_that_ended_leaves_nothing_behind() {
    let mut story = Story::new();
    let names: Vec<String> = (0..100).map(|index| format!("slot {index}")).collect();
    story.invocation("go").batch("c", &names.iter().map(|name| &**name).collect::<Vec<_>>());
    for id in 1..=100 {
        story.start(id).end(id, done("x"));
    }
    story.over(done("x"), "x");
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")];
    let settings = Telemetry::from_environment(&Environment::from_variables(environment));
    let describe: DescribeModel = Arc::new(|_| unreachable!("no model was asked"));
    let mut spans = Spans::new(SessionId("s".into()), settings.unwrap().unwrap(), describe);
    story.events().iter().for_each(|event| drop(spans.take(event)));
    assert!(spans.strands.is_empty() && spans.over.is_empty());
}
