//! Collectors that take nothing, or only some of it, and how they are reached.

use serde_json::json;

use super::{ENDPOINT, collector, told};
use crate::support::server::{Reaction, Server};
use crate::support::tine::Place;

/// The code and the answer of a run whose collector is somewhere.
fn with_collector(endpoint: &str) -> (Option<i32>, String, String) {
    let place = Place::new();
    let provider = Server::start(|_| Reaction::text_reply("Hello."));
    let finished = place.asking(&provider, &[]).env(ENDPOINT, endpoint).run();
    (finished.status.code(), finished.stdout, finished.stderr)
}

#[test]
fn a_collector_that_hangs_refuses_or_is_not_there_changes_no_result_and_is_warned_of_once() {
    let hangs = Server::start(|_| Reaction::Hang);
    let refuses = Server::start(|_| Reaction::json(403, &json!({})));
    let gone = collector();
    let urls = [&hangs, &refuses, &gone]
        .map(|server| server.base_url().trim_end_matches("/v1").to_owned());
    drop(gone);
    for url in urls {
        let (code, stdout, stderr) = with_collector(&url);
        assert_eq!((code, stdout.as_str()), (Some(0), "Hello.\n"), "{stderr}");
        let warning = format!("warning: 3 spans did not get to `{url}/v1/traces`: ");
        assert_eq!(stderr.matches(&warning).count(), 1, "{stderr}");
        assert_eq!(stderr.matches("warning: ").count(), 1, "{stderr}");
    }
}

#[test]
fn what_the_variables_say_wrong_is_a_warning_and_the_run_goes_on() {
    let (place, collector) = (Place::new(), collector());
    let provider = Server::start(|_| Reaction::text_reply("Hello."));
    let tine = told(place.asking(&provider, &[]), &collector);
    let finished = tine.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").run().exits(0);
    assert!(finished.stderr.contains("`OTEL_EXPORTER_OTLP_PROTOCOL` is `grpc`"), "{finished:?}");
    assert_eq!((finished.stdout.as_str(), collector.count()), ("Hello.\n", 0));
}

#[test]
fn nothing_is_sent_where_no_variable_says_so() {
    let (place, collector) = (Place::new(), collector());
    let provider = Server::start(|_| Reaction::text_reply("Hello."));
    let disabled = told(place.asking(&provider, &[]), &collector).env("OTEL_SDK_DISABLED", "true");
    disabled.run().exits(0);
    let finished = place.asking(&provider, &[]).env("OTEL_SERVICE_NAME", "x").run().exits(0);
    assert_eq!((collector.connections(), finished.stderr.contains("span")), (0, false));
}
