//! Whether spans of this process are sent, and what its runs add to that.

use std::sync::Arc;
use std::time::Duration;

use super::exit::Exit;
use super::kit::Kit;
use crate::config::{Api, Config, Environment, ModelChoice, ServerModel, Telemetry, resolve_model};
use crate::report::{self, DescribeModel, ModelPlace, Spans, lost_spans};
use crate::telemetry::{CLOSE_LIMIT, Exporter, Lost, SIGNAL_LIMIT};

/// Returns what sends spans away, if the environment says where. What it says
/// wrong keeps no run from its work.
pub(super) fn exporter(environment: &Environment) -> Option<Exporter> {
    let settings = Telemetry::from_environment(environment).unwrap_or_else(|error| {
        super::say(&format!("warning: {error}"));
        None
    });
    settings.map(Exporter::new)
}

/// Sends what waits still, and says what was lost. `exit` is how the process
/// ends; `None` where it could not do its work.
pub(super) async fn close(exporter: Option<&Exporter>, exit: Option<Exit>) {
    say(flush(exporter, exit).await);
}

/// Sends what waits still, and returns what was lost.
pub(super) async fn flush(exporter: Option<&Exporter>, exit: Option<Exit>) -> Option<Lost> {
    exporter?.close(patience(exit)).await
}

/// Says what was lost.
pub(super) fn say(lost: Option<Lost>) {
    if let Some(lost) = lost {
        super::say(&format!("warning: {}", lost_spans(&lost)));
    }
}

/// Returns how long the end of the process waits for a collector.
fn patience(exit: Option<Exit>) -> Duration {
    if exit.is_some_and(Exit::is_by_signal) { SIGNAL_LIMIT } else { CLOSE_LIMIT }
}

/// Returns what sends the spans of a run away.
pub(super) fn reporter(kit: &Kit) -> Option<report::Telemetry> {
    let exporter = kit.exporter.clone()?;
    let describe = describe(kit.config.clone(), kit.environment.clone());
    let spans = Spans::new(kit.session.clone(), exporter.settings().clone(), describe);
    Some(report::Telemetry::new(spans, exporter))
}

fn describe(config: Config, environment: Environment) -> DescribeModel {
    Arc::new(move |name| match resolve_model(&config, &environment, Some(name)) {
        Ok(ModelChoice::Server(server)) => place(*server),
        Ok(ModelChoice::Offline | ModelChoice::Scripted(_)) => {
            ModelPlace { provider: "tine", model: name.to_owned(), server: None }
        }
        // A recording plays models that are not configured.
        Err(_) => ModelPlace { provider: "_OTHER", model: name.to_owned(), server: None },
    })
}

fn place(server: ServerModel) -> ModelPlace {
    let url = reqwest::Url::parse(&server.base_url).ok();
    let host = url.as_ref().and_then(|url| url.host_str()).unwrap_or_default();
    let port = url.as_ref().and_then(reqwest::Url::port_or_known_default);
    ModelPlace {
        provider: provider(host, server.api),
        server: port.map(|port| (host.to_owned(), port)),
        model: server.model,
    }
}

/// Providers that the conventions have a name for, by the end of their host.
const PROVIDERS: [(&str, &str); 10] = [
    ("api.openai.com", "openai"),
    ("anthropic.com", "anthropic"),
    ("openai.azure.com", "azure.ai.openai"),
    ("deepseek.com", "deepseek"),
    ("groq.com", "groq"),
    ("mistral.ai", "mistral_ai"),
    ("moonshot.ai", "moonshot_ai"),
    ("perplexity.ai", "perplexity"),
    ("x.ai", "x_ai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
];

/// Returns the provider's name: of a host that nobody knows, whose API it
/// speaks.
fn provider(host: &str, api: Api) -> &'static str {
    let is_at = |end: &str| {
        host.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let known = PROVIDERS.iter().find(|(end, _)| is_at(end)).map(|(_, name)| *name);
    known.unwrap_or(match api {
        Api::Chat | Api::Responses => "openai",
        Api::Anthropic => "anthropic",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_sends_a_signal_waits_less_for_a_collector() {
        for exit in [Exit::Hangup, Exit::Interrupted, Exit::Terminated] {
            assert_eq!(patience(Some(exit)), SIGNAL_LIMIT);
        }
        assert!(SIGNAL_LIMIT < CLOSE_LIMIT);
        assert_eq!([Some(Exit::Done), Some(Exit::Error), None].map(patience), [CLOSE_LIMIT; 3]);
    }

    #[test]
    fn a_provider_is_told_by_its_host_and_else_by_its_api() {
        assert_eq!(provider("api.x.ai", Api::Chat), "x_ai");
        assert_eq!(provider("max.ai", Api::Chat), "openai");
        assert_eq!(provider("mine.openai.azure.com", Api::Responses), "azure.ai.openai");
        assert_eq!(provider("127.0.0.1", Api::Anthropic), "anthropic");
    }
}
