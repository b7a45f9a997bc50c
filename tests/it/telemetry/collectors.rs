//! Collectors that take nothing, or only some of it, and how they are reached.

use nix::sys::signal::Signal;
use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message as _;
use serde_json::json;
use tine::config::{Environment, Telemetry};
use tine::event::UnixMillis;
use tine::telemetry::{CLOSE_LIMIT, Exporter, Kind, SIGNAL_LIMIT, Span, SpanAt};
use tokio::time::Instant;

use super::{ENDPOINT, batch, collector, told};
use crate::support::server::{Reaction, Server};
use crate::support::talk::serve_calls;
use crate::support::tine::{Finished, HANG_LIMIT, Place, Tine};

fn hello() -> Server {
    Server::start(|_| Reaction::text_reply("Hello."))
}

/// Where a collector is, without a path.
fn address(collector: &Server) -> String {
    collector.base_url().trim_end_matches("/v1").to_owned()
}

/// One prompt whose spans go nowhere yet.
fn asking(change: impl FnOnce(Tine) -> Tine) -> Finished {
    let (place, provider) = (Place::new(), hello());
    change(place.asking(&provider, &[])).run().exits(0)
}

/// The code and the answer of a run whose collector is somewhere.
fn with_collector(endpoint: &str) -> (Option<i32>, String, String) {
    let (place, provider) = (Place::new(), hello());
    let finished = place.asking(&provider, &[]).env(ENDPOINT, endpoint).run();
    (finished.status.code(), finished.stdout, finished.stderr)
}

#[test]
fn a_collector_that_hangs_refuses_or_is_not_there_changes_no_result_and_is_warned_of_once() {
    let hangs = Server::start(|_| Reaction::Hang);
    let refuses = Server::start(|_| Reaction::json(403, &json!({})));
    // No other test comes to listen there, as at a port that was let go.
    let nobody = "http://127.0.0.1:1".to_owned();
    for url in [address(&hangs), address(&refuses), nobody] {
        let (code, stdout, stderr) = with_collector(&url);
        assert_eq!((code, stdout.as_str()), (Some(0), "Hello.\n"), "{stderr}");
        let warning = format!("warning: 3 spans did not get to `{url}/v1/traces`: ");
        assert_eq!(stderr.matches(&warning).count(), 1, "{stderr}");
        assert_eq!(stderr.matches("warning: ").count(), 1, "{stderr}");
    }
}

#[test]
fn what_the_variables_say_wrong_is_a_warning_and_the_run_goes_on() {
    let (place, provider, collector) = (Place::new(), hello(), collector());
    let tine = told(place.asking(&provider, &[]), &collector);
    let finished = tine.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").run().exits(0);
    assert!(finished.stderr.contains("`OTEL_EXPORTER_OTLP_PROTOCOL` is `grpc`"), "{finished:?}");
    assert_eq!((finished.stdout.as_str(), collector.count()), ("Hello.\n", 0));
}

#[test]
fn nothing_is_sent_where_no_variable_says_so() {
    let (place, provider, collector) = (Place::new(), hello(), collector());
    let disabled = told(place.asking(&provider, &[]), &collector).env("OTEL_SDK_DISABLED", "true");
    disabled.run().exits(0);
    let finished = place.asking(&provider, &[]).env("OTEL_SERVICE_NAME", "x").run().exits(0);
    assert_eq!((collector.connections(), finished.stderr.contains("span")), (0, false));
}

#[test]
fn spans_that_a_collector_rejects_are_lost_and_its_reason_is_told() {
    let partly = |rejected_spans| {
        let error_message = "they are too old".to_owned();
        let partial_success = Some(ExportTracePartialSuccess { rejected_spans, error_message });
        ExportTraceServiceResponse { partial_success }.encode_to_vec()
    };
    let warning = |content_type: &'static str, body: Vec<u8>, protocol: &str| {
        let collector = Server::start(move |request| match request.sequence {
            0 => Reaction::status(200, content_type, body.clone()),
            _ => Reaction::status(200, content_type, Vec::new()),
        });
        let protocol = |tine: Tine| tine.env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
        let finished = asking(|tine| protocol(told(tine, &collector)));
        finished.stderr.replace(&address(&collector), "URL")
    };
    let binary = ("application/x-protobuf", "http/protobuf");
    let of = |rejected| warning(binary.0, partly(rejected), binary.1);
    let lost = "warning: 1 span did not get to `URL/v1/traces`: they are too old\n";
    assert_eq!(of(1), lost);
    assert_eq!(of(0), "", "a remark on what was taken is no loss");
    let json = json!({ "partialSuccess": {
        "rejectedSpans": "1", "errorMessage": "they are too old" } });
    let json = json.to_string().into_bytes();
    assert_eq!(warning("application/json", json, "http/json"), lost);
}

#[test]
fn a_collector_is_reached_as_settings_say_and_not_as_the_shell_does() {
    let collector = collector();
    let settings = json!({ "env": { (ENDPOINT): address(&collector),
        "OTEL_EXPORTER_OTLP_HEADERS": "x-api-key=ours" } });
    let (place, provider) = (Place::new(), hello());
    let tine = place.asking(&provider, &["--settings", &settings.to_string()]);
    tine.env("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=theirs,x-tenant=theirs")
        .env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json")
        .env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .run()
        .exits(0);
    let requests = collector.finish();
    let request = requests.first().expect("spans were sent");
    assert_eq!((request.header("x-api-key"), request.header("x-tenant")), (Some("ours"), None));
    assert_eq!(request.header("content-encoding"), None);
    let agent = concat!("tine/", env!("CARGO_PKG_VERSION"));
    assert_eq!(request.header("user-agent"), Some(agent));
}

#[test]
fn what_a_url_holds_besides_the_address_reaches_the_collector_and_no_line() {
    let collector = collector();
    let url = address(&collector).replace("http://", "http://user:pass%40word@");
    let (place, provider) = (Place::new(), hello());
    let tine = place.asking(&provider, &["--debug=trace"]);
    let finished = tine.env(ENDPOINT, &format!("{url}/in?api-key=very-secret")).run().exits(0);
    assert!(finished.stderr.contains("spans were sent"), "{finished:?}");
    for secret in ["pass@word", "pass%40word", "very-secret", "dXNlcjpwYXNz"] {
        assert!(!finished.stderr.contains(secret), "{finished:?}");
    }
    let requests = collector.finish();
    let request = requests.first().expect("spans were sent");
    assert_eq!(request.path, "/in/v1/traces?api-key=very-secret");
    // Of `user:pass@word`.
    assert_eq!(request.header("authorization"), Some("Basic dXNlcjpwYXNzQHdvcmQ="));

    let warned = |url: &str| asking(|tine| tine.env(ENDPOINT, url)).stderr;
    let warning = warned("grpc://user:passw0rd@collector:4317/in?api-key=very-secret");
    let names = "warning: `OTEL_EXPORTER_OTLP_ENDPOINT` is `grpc://collector:4317/in`, which is no";
    assert!(warning.starts_with(names), "{warning}");
    let warning = warned("user:passw0rd@collector");
    assert!(warning.contains(" is `user:…`, which is no"), "{warning}");
    assert!(warned("passw0rd").contains(" is `…`, which is no"));
}

/// What sends spans to a collector, with one that it was given.
fn exporter(collector: &Server) -> Exporter {
    let address = address(collector);
    let environment = Environment::from_variables([(ENDPOINT, &*address)]);
    let settings = Telemetry::from_environment(&environment).expect("the address is one");
    let exporter = Exporter::new(settings.expect("there is an address"));
    exporter.send(Span {
        at: SpanAt { trace: TraceId::from(1), span: SpanId::from(1) },
        parent: None,
        is_parent_remote: false,
        name: "one".to_owned(),
        kind: Kind::Internal,
        start: UnixMillis(1),
        end: UnixMillis(2),
        attributes: Vec::new(),
        failed: None,
    });
    exporter
}

#[tokio::test]
async fn a_collector_that_fails_is_asked_again_while_the_process_goes_on() {
    let collector = Server::start(|request| match request.sequence {
        0 => Reaction::json(503, &json!({})),
        _ => Reaction::status(200, "application/x-protobuf", Vec::new()),
    });
    let exporter = exporter(&collector);
    collector.came(2).await;
    assert_eq!(exporter.close(HANG_LIMIT).await, None);
    assert_eq!(collector.finish().len(), 2);
}

#[tokio::test]
async fn a_collector_that_fails_is_asked_no_more_once_the_process_is_over() {
    let collector = Server::start(|_| Reaction::json(503, &json!({})));
    let lost = exporter(&collector).close(HANG_LIMIT).await.expect("nobody took it");
    assert_eq!((lost.spans, lost.why.as_deref()), (1, Some("it answered 503 Service Unavailable")));
    assert_eq!(collector.finish().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_hangs_is_waited_for_as_long_as_is_said() {
    let collector = Server::start(|_| Reaction::Hang);
    let exporter = exporter(&collector);
    let begun = Instant::now();
    let lost = exporter.close(SIGNAL_LIMIT).await.expect("nobody took it");
    assert_eq!((lost.spans, lost.why), (1, None));
    assert!((SIGNAL_LIMIT..CLOSE_LIMIT).contains(&begun.elapsed()));
}

#[test]
fn a_signal_ends_a_run_whose_collector_hangs() {
    let (place, collector) = (Place::new(), Server::start(|_| Reaction::Hang));
    let provider = serve_calls(&[("Agent", batch())], |_| Reaction::Hang);
    let running = told(place.asking(&provider, &[]), &collector).start();
    provider.wait_until_came(3);
    running.signal(Signal::SIGTERM);
    let finished = running.wait().exits(143);
    assert_eq!(finished.stderr.matches("did not get to").count(), 1, "{finished:?}");
}
