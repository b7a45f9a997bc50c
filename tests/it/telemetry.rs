//! Spans as a collector gets them: what they say, and what they keep to
//! themselves.

mod collectors;

use std::collections::HashMap;

use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use serde_json::json;

use crate::support::server::{Reaction, RecordedRequest, Server};
use crate::support::talk::{serve, serve_calls};
use crate::support::tine::{KEY, Place, Tine};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const SESSION: &str = "0199a000-0000-7000-8000-000000000001";

/// A collector that takes everything.
fn collector() -> Server {
    Server::start(|_| Reaction::status(200, "application/x-protobuf", Vec::new()))
}

/// A run that sends its spans there.
fn told(tine: Tine, collector: &Server) -> Tine {
    tine.env(ENDPOINT, collector.base_url().trim_end_matches("/v1"))
}

/// Everything that a collector was sent, as OTLP's own types read it.
fn read(requests: &[RecordedRequest]) -> Vec<ExportTraceServiceRequest> {
    let export = |request: &RecordedRequest| {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/traces"));
        match request.header("content-type") {
            Some("application/json") => {
                serde_json::from_slice(&request.body).expect("it is OTLP's JSON")
            }
            Some("application/x-protobuf") => {
                ExportTraceServiceRequest::decode(&*request.body).expect("it is OTLP")
            }
            other => panic!("neither of the two encodings: {other:?}"),
        }
    };
    requests.iter().map(export).collect()
}

fn spans(collector: Server) -> Vec<Span> {
    let exports = read(&collector.finish());
    let resources = exports.into_iter().flat_map(|export| export.resource_spans);
    let scopes = resources.flat_map(|resource| resource.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

/// What a span says, as text.
fn said(span: &Span) -> HashMap<&str, String> {
    let text = |value: &Any| match value {
        Any::StringValue(text) => text.clone(),
        Any::IntValue(number) => number.to_string(),
        Any::BoolValue(truth) => truth.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = span.attributes.iter().filter_map(|said| {
        let value = said.value.as_ref()?.value.as_ref()?;
        Some((said.key.as_str(), text(value)))
    });
    pairs.collect()
}

fn above<'a>(spans: &'a [Span], span: &Span) -> Option<&'a Span> {
    spans.iter().find(|other| other.span_id == span.parent_span_id)
}

/// The names of a span and of all above it, the highest first.
fn path(spans: &[Span], span: &Span) -> Vec<String> {
    let mut names = above(spans, span).map(|above| path(spans, above)).unwrap_or_default();
    names.push(span.name.clone());
    names
}

fn batch() -> serde_json::Value {
    let task =
        |name: &str| json!({ "description": name, "prompt": name, "subagent_type": "explore" });
    json!({ "tasks": [task("north"), task("south")] })
}

/// A provider whose main starts two agents, of which one fails.
fn provider() -> Server {
    serve_calls(&[("Agent", batch())], |talk| match talk.task() {
        "north" => Reaction::text_reply("I looked."),
        _ => Reaction::json(400, &json!({ "error": { "message": "no" } })),
    })
}

#[test]
fn a_batch_is_told_as_a_tree_of_spans_with_the_names_of_the_conventions() {
    let (place, provider, collector) = (Place::new(), provider(), collector());
    let asking = place.asking(&provider, &["--session-id", SESSION]);
    told(asking, &collector).run().exits(0);
    let requests = collector.requests();
    assert_eq!(requests[0].header("content-type"), Some("application/x-protobuf"));
    let exports = read(&requests);
    let resource = &exports[0].resource_spans[0].resource.as_ref().unwrap().attributes;
    let service = resource.iter().find(|said| said.key == "service.name").unwrap();
    let value = service.value.as_ref().unwrap().value.as_ref().unwrap();
    assert_eq!(value, &Any::StringValue("tine".to_owned()));
    let conventions = &exports[0].resource_spans[0].scope_spans[0].schema_url;
    assert_eq!(conventions, "https://opentelemetry.io/schemas/1.41.0");

    let spans = spans(collector);
    let mut paths: Vec<_> = spans.iter().map(|span| path(&spans, span).join(" / ")).collect();
    paths.sort();
    let slot = "invoke_agent main / turn 1 / execute_tool Agent / invoke_agent explore";
    let mut expected = vec![
        "invoke_agent main".to_owned(),
        "invoke_agent main / turn 1".to_owned(),
        "invoke_agent main / turn 1 / chat m".to_owned(),
        "invoke_agent main / turn 1 / execute_tool Agent".to_owned(),
        "invoke_agent main / turn 2".to_owned(),
        "invoke_agent main / turn 2 / chat m".to_owned(),
    ];
    for _ in ["north", "south"] {
        let below = ["", " / turn 1", " / turn 1 / chat m"];
        expected.extend(below.map(|below| format!("{slot}{below}")));
    }
    expected.sort();
    assert_eq!(paths, expected);

    for span in &spans {
        assert_eq!(span.trace_id, spans[0].trace_id);
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        if let Some(above) = above(&spans, span) {
            assert!(above.start_time_unix_nano <= span.start_time_unix_nano, "{span:?}");
            assert!(span.end_time_unix_nano <= above.end_time_unix_nano, "{span:?}");
        }
        assert_eq!(said(span)["gen_ai.conversation.id"], SESSION);
    }
}

#[test]
fn requests_calls_and_agents_say_what_the_conventions_ask_for() {
    let (place, provider, collector) = (Place::new(), provider(), collector());
    told(place.asking(&provider, &[]), &collector).run().exits(0);
    let spans = spans(collector);
    let is_well = |span: &&Span| span.status.as_ref().is_none_or(|status| status.code == 0);
    let (well, ill): (Vec<_>, Vec<_>) = spans.iter().partition(is_well);

    let chat = well.iter().find(|span| span.name == "chat m").unwrap();
    assert_eq!(chat.kind, SpanKind::Client as i32);
    let chat = said(chat);
    for (name, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "m"),
        ("gen_ai.usage.input_tokens", "10"),
        ("gen_ai.usage.output_tokens", "5"),
        ("server.address", "127.0.0.1"),
    ] {
        assert_eq!(chat[name], value, "{name}");
    }
    let call = said(well.iter().find(|span| span.name == "execute_tool Agent").unwrap());
    assert_eq!(call["gen_ai.operation.name"], "execute_tool");
    assert_eq!((&*call["gen_ai.tool.name"], &*call["gen_ai.tool.call.id"]), ("Agent", "call_a"));

    let mut types: Vec<_> =
        ill.iter().map(|span| (span.name.as_str(), said(span)["error.type"].clone())).collect();
    types.sort();
    assert_eq!(
        types,
        [("chat m", "400"), ("invoke_agent explore", "request"), ("turn 1", "request")]
            .map(|(name, kind)| (name, kind.to_owned()))
    );
    assert!(ill.iter().all(|span| span.status.as_ref().unwrap().code == 2));
}

/// Everything that a collector was sent, as text.
fn sent(collector: Server) -> String {
    let bodies: Vec<u8> = collector.finish().into_iter().flat_map(|request| request.body).collect();
    String::from_utf8_lossy(&bodies).into_owned()
}

/// What leaves of a run without its content, and with it.
fn without_and_with_content(run: impl Fn() -> (Tine, Server)) -> (String, String) {
    let leaves = |content: &str| {
        let ((tine, _provider), collector) = (run(), collector());
        let tine = told(tine, &collector);
        tine.env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", content).run();
        sent(collector)
    };
    (leaves("false"), leaves("true"))
}

#[test]
fn neither_what_was_said_nor_a_key_leaves_unless_content_is_asked_for() {
    let place = Place::new();
    let (plain, whole) = without_and_with_content(|| {
        let provider = provider();
        (place.asking(&provider, &[]), provider)
    });
    assert!(plain.contains("execute_tool Agent"), "{plain}");
    assert!(!plain.contains("I looked.") && !plain.contains("north"), "{plain}");
    assert!(whole.contains("I looked.") && whole.contains("north"), "{whole}");
    assert!(!plain.contains(KEY) && !whole.contains(KEY));
}

#[test]
fn what_an_agent_said_leaves_with_no_error_either() {
    let place = Place::new();
    let skill = "---\ndescription: Audits.\ncontext: fork\nagent: explore\n---\nAudit it.\n";
    place.write(".tine/skills/audit/SKILL.md", skill);
    let (plain, whole) = without_and_with_content(|| {
        let provider = serve(|talk| match talk.turn() {
            1 => Reaction::reply(Some("SAID in /home/x"), &[("Glob", json!({ "pattern": "*" }))]),
            _ => Reaction::json(400, &json!({ "error": { "message": "no" } })),
        });
        let flags = ["-p", "/audit", "-m", "m", "--config", "retry.most=0"];
        (place.tine(flags).server(&provider), provider)
    });
    assert!(plain.contains("setup") && !plain.contains("SAID"), "{plain}");
    assert!(whole.contains("SAID in /home/x"), "{whole}");
}

#[test]
fn a_tool_that_there_is_not_is_no_name_of_a_span() {
    let place = Place::new();
    let (plain, whole) = without_and_with_content(|| {
        let calls = [("SAID_AS_A_NAME", json!({})), ("Glob", json!({ "pattern": 7 }))];
        let provider = serve_calls(&calls, |_| Reaction::text_reply("done"));
        (place.asking(&provider, &[]), provider)
    });
    assert!(plain.contains("_OTHER") && !plain.contains("SAID_AS_A_NAME"), "{plain}");
    assert!(
        plain.contains("execute_tool Glob"),
        "one that there is, though it did not run: {plain}"
    );
    assert!(whole.contains("execute_tool SAID_AS_A_NAME"), "{whole}");
}

#[test]
fn json_headers_names_and_a_parent_are_as_the_variables_say() {
    let (place, provider, collector) = (Place::new(), provider(), collector());
    let endpoint = format!("{}/traces", collector.base_url());
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let tine = place
        .asking(&provider, &[])
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=k%20ey")
        .env("OTEL_RESOURCE_ATTRIBUTES", "team=core")
        .env("OTEL_SERVICE_NAME", "ours")
        .env("TRACEPARENT", parent);
    tine.run().exits(0);
    let requests = collector.requests();
    assert_eq!(requests[0].header("content-type"), Some("application/json"));
    assert_eq!(requests[0].header("x-api-key"), Some("k ey"));
    let body = requests[0].json().to_string();
    assert!(body.contains("ours") && body.contains("core"), "{body}");
    let spans = spans(collector);
    let main = spans.iter().find(|span| span.name == "invoke_agent main").unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&main.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&main.parent_span_id), "b7ad6b7169203331");
}

#[test]
fn a_run_that_is_cancelled_tells_what_it_cut_off() {
    let (place, collector) = (Place::new(), collector());
    let provider = serve_calls(&[("Agent", batch())], |_| Reaction::Hang);
    let running = told(place.asking(&provider, &[]), &collector).start();
    provider.wait_until_came(3);
    running.signal(Signal::SIGINT);
    running.wait().exits(130);
    let spans = spans(collector);
    let cut_off = |name: &str| {
        let named = spans.iter().filter(|span| span.name == name);
        let kind = |span: &Span| said(span).get("error.type").cloned().unwrap_or_default();
        named.map(kind).filter(|kind| kind == "cancelled").count()
    };
    assert_eq!(cut_off("invoke_agent main"), 1);
    assert_eq!(cut_off("invoke_agent explore"), 2);
    assert_eq!(cut_off("chat"), 2, "{spans:?}");
}

#[test]
fn each_message_of_a_client_is_a_trace_of_its_own() {
    let (place, collector) = (Place::new(), collector());
    let provider = Server::start(|_| Reaction::text_reply("Hello."));
    let flags = ["-p", "-m", "m", "--input-format", "stream-json", "-o", "stream-json"];
    let message = |text: &str| {
        json!({ "type": "user", "message": { "role": "user", "content": text } }).to_string()
    };
    let lines = format!("{}\n{}\n", message("one"), message("two"));
    told(place.tine(flags).server(&provider), &collector).stdin(lines).run().exits(0);
    let spans = spans(collector);
    let mut traces: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "invoke_agent main")
        .map(|span| (said(span)["tine.invocation"].clone(), &span.trace_id))
        .collect();
    traces.sort();
    assert_eq!([&*traces[0].0, &*traces[1].0], ["1", "2"]);
    assert_ne!(traces[0].1, traces[1].1);
}
