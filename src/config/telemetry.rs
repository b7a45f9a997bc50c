//! Where spans go and what they may hold, as OpenTelemetry's own variables say.
//!
//! The names and their meaning are those of its specification, so that what
//! serves other programs serves here. Nothing is sent to where no variable
//! points.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry::trace::{SpanId, TraceId};
use reqwest::Url;
use secrecy::SecretString;
use thiserror::Error;

use super::Environment;

/// The variables whose values may be keys.
pub const OTLP_HEADERS: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];

/// Where everything goes, and where spans do.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const OWN_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

/// How long a collector may take for one batch, where nothing is said.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where spans go and what they may hold.
#[derive(Debug, Clone)]
pub struct Telemetry {
    /// The whole address that batches are posted to.
    pub endpoint: String,
    /// Sent with every batch.
    pub headers: Vec<(String, SecretString)>,
    /// How batches are written.
    pub encoding: Encoding,
    /// How long a collector may take for one batch.
    pub timeout: Duration,
    /// The name that this program goes by.
    pub service: String,
    /// What else is said of where it runs.
    pub resource: Vec<(String, String)>,
    /// Which traces are sent.
    pub sampler: Sampler,
    /// The span that all invocations of this process belong to.
    pub parent: Option<TraceParent>,
    /// Whether spans hold what was said, and what tools were given and gave.
    pub captures_content: bool,
}

/// How a batch of spans is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Protocol buffers.
    Protobuf,
    /// JSON.
    Json,
}

/// Which traces are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// The share of traces that begin here, from 0 to 1.
    pub share: f64,
    /// Whether a trace that began elsewhere is sent if it was sent there.
    pub follows_parent: bool,
}

impl Sampler {
    /// Tells whether a trace is sent. Whoever else decides by the same share
    /// decides alike, since the trace's own bytes decide.
    #[must_use]
    pub fn takes(&self, trace: TraceId, parent: Option<&TraceParent>) -> bool {
        if let Some(parent) = parent.filter(|_| self.follows_parent) {
            return parent.is_sampled;
        }
        let bytes = trace.to_bytes();
        let last = bytes.iter().skip(8).fold(0_u64, |all, &byte| (all << 8) | u64::from(byte));
        // 53 bits are what a float holds exactly.
        ((last >> 11) as f64) < self.share * (1_u64 << 53) as f64
    }
}

/// A span that began elsewhere, as the W3C's `traceparent` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Its trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// Whether it is sent.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Reads the form `00-TRACE-SPAN-FLAGS`; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let mut hex = |digits: usize| {
            let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            parts.next().filter(|part| part.len() == digits && part.chars().all(is_hex))
        };
        let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
        // A later version may say more behind what is known.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let trace = TraceId::from_hex(trace).ok().filter(|trace| *trace != TraceId::INVALID)?;
        let span = SpanId::from_hex(span).ok().filter(|span| *span != SpanId::INVALID)?;
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(Self { trace, span, is_sampled })
    }
}

/// Why nothing is sent although something is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{variable}` is `{value}`, {what}: no spans are sent\nhint: {hint}")]
pub struct TelemetryError {
    /// The variable that is to blame.
    pub variable: &'static str,
    /// What it holds, as far as that can be shown.
    pub value: String,
    /// What is wrong with it.
    pub what: &'static str,
    /// What helps.
    pub hint: &'static str,
}

/// One of two variables that is set: that of spans before that of everything.
struct Found {
    variable: &'static str,
    value: String,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Protobuf => "http/protobuf",
            Self::Json => "http/json",
        })
    }
}

impl Telemetry {
    /// Finds out where spans go; `None` if nothing says so.
    ///
    /// # Errors
    ///
    /// What is said cannot be done.
    pub fn from_environment(environment: &Environment) -> Result<Option<Self>, TelemetryError> {
        let value = |name: &str| environment.variable(name);
        let is_true = |name| value(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let exports = value("OTEL_TRACES_EXPORTER").is_none_or(|list| list.trim() != "none");
        let Some(endpoint) = either(environment, OWN_ENDPOINT, ENDPOINT).filter(|_| exports) else {
            return Ok(None);
        };
        if is_true("OTEL_SDK_DISABLED") {
            return Ok(None);
        }
        let (endpoint, credentials) = destination(endpoint)?;
        let headers = either(environment, OTLP_HEADERS[1], OTLP_HEADERS[0]);
        let mut headers = headers.map(|found| pairs(&found.value)).unwrap_or_default();
        let is_authorized =
            headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        headers.extend(credentials.filter(|_| !is_authorized));
        let resource = value("OTEL_RESOURCE_ATTRIBUTES").map(|list| pairs(&list));
        let mut resource = resource.unwrap_or_default();
        let named = resource.iter().find(|(name, _)| name == "service.name");
        let named = named.map(|(_, service)| service.clone());
        resource.retain(|(name, _)| name != "service.name");
        let service = value("OTEL_SERVICE_NAME").or(named).unwrap_or_else(|| "tine".to_owned());
        Ok(Some(Self {
            endpoint,
            headers: headers.into_iter().map(|(name, value)| (name, value.into())).collect(),
            encoding: encoding(environment)?,
            timeout: timeout(environment),
            service,
            resource,
            sampler: sampler(environment)?,
            parent: value("TRACEPARENT").as_deref().and_then(TraceParent::parse),
            captures_content: is_true("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        }))
    }
}

fn either(environment: &Environment, first: &'static str, second: &'static str) -> Option<Found> {
    let found = |variable| environment.variable(variable).map(|value| Found { variable, value });
    found(first).or_else(|| found(second))
}

/// Returns the whole address that spans go to, and the header that a user and a
/// password in it come to: an address is shown, a header never is.
fn destination(found: Found) -> Result<(String, Option<(String, String)>), TelemetryError> {
    let Found { variable, value } = found;
    let is_usable = |url: &Url| url.has_host() && matches!(url.scheme(), "http" | "https");
    let Some(mut url) = Url::parse(&value).ok().filter(is_usable) else {
        return Err(TelemetryError {
            variable,
            value: shown(&value),
            what: "which is no `http` or `https` URL",
            hint: "it should look like `http://localhost:4318`",
        });
    };
    if variable == ENDPOINT {
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    let credentials = credentials(&url);
    without_credentials(&mut url);
    Ok((url.into(), credentials))
}

fn credentials(url: &Url) -> Option<(String, String)> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let password = decoded(url.password().unwrap_or_default());
    let both = format!("{}:{password}", decoded(url.username()));
    Some(("authorization".to_owned(), format!("Basic {}", STANDARD.encode(both))))
}

/// Returns of what should be an address only what can be no secret.
fn shown(address: &str) -> String {
    match Url::parse(address) {
        Ok(mut url) if url.has_host() => {
            url.set_query(None);
            url.set_fragment(None);
            without_credentials(&mut url);
            url.into()
        }
        Ok(url) => format!("{}:…", url.scheme()),
        Err(_) => "…".to_owned(),
    }
}

fn without_credentials(url: &mut Url) {
    // Both fail only for URLs that have no host, which have no user either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

fn encoding(environment: &Environment) -> Result<Encoding, TelemetryError> {
    let own = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
    let Some(found) = either(environment, own, "OTEL_EXPORTER_OTLP_PROTOCOL") else {
        return Ok(Encoding::Protobuf);
    };
    let all = [Encoding::Protobuf, Encoding::Json];
    let known = all.into_iter().find(|encoding| encoding.to_string() == found.value.trim());
    known.ok_or(TelemetryError {
        variable: found.variable,
        value: found.value,
        what: "which is not spoken here",
        hint: "set it to `http/protobuf` or `http/json`, and the port to the collector's for HTTP",
    })
}

fn timeout(environment: &Environment) -> Duration {
    let own = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT";
    let found = either(environment, own, "OTEL_EXPORTER_OTLP_TIMEOUT");
    let milliseconds = found.and_then(|found| found.value.trim().parse().ok());
    milliseconds.filter(|&limit| limit > 0).map_or(TIMEOUT, Duration::from_millis)
}

fn sampler(environment: &Environment) -> Result<Sampler, TelemetryError> {
    let variable = "OTEL_TRACES_SAMPLER";
    let Some(value) = environment.variable(variable) else {
        return Ok(Sampler { share: 1.0, follows_parent: true });
    };
    let share = || {
        let given = environment.variable("OTEL_TRACES_SAMPLER_ARG");
        let given = given.and_then(|share| share.trim().parse::<f64>().ok());
        // As the specification has it: what is no share is all.
        given.filter(|share| (0.0..=1.0).contains(share)).unwrap_or(1.0)
    };
    let (name, follows_parent) = match value.trim().strip_prefix("parentbased_") {
        Some(name) => (name, true),
        None => (value.trim(), false),
    };
    let share = match name {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => share(),
        _ => {
            return Err(TelemetryError {
                variable,
                value,
                what: "which is not known here",
                hint: "set it to `always_on`, `always_off`, `traceidratio` or one of them behind \
                       `parentbased_`",
            });
        }
    };
    Ok(Sampler { share, follows_parent })
}

/// Reads `name=value,name=value`, in which bytes may stand as `%20`. What is no
/// pair is left out.
fn pairs(list: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        (!name.is_empty()).then(|| (name.to_owned(), decoded(value)))
    };
    list.split(',').filter_map(pair).collect()
}

/// Puts the bytes in that `%20` and its like stand for.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let digits = more.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.filter(|_| *first == b'%');
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    const HERE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318/");

    fn read(variables: &[(&str, &str)]) -> Result<Option<Telemetry>, TelemetryError> {
        let all = [HERE].into_iter().chain(variables.iter().copied());
        Telemetry::from_environment(&Environment::from_variables(all))
    }

    fn on(variables: &[(&str, &str)]) -> Telemetry {
        read(variables).unwrap().unwrap()
    }

    #[test]
    fn nothing_is_sent_unless_a_variable_says_where() {
        let of = |variables: &[(&str, &str)]| {
            let environment = Environment::from_variables(variables.iter().copied());
            Telemetry::from_environment(&environment).unwrap().map(|it| it.endpoint)
        };
        assert_eq!(of(&[("OTEL_SERVICE_NAME", "x")]), None);
        assert_eq!(of(&[HERE, ("OTEL_SDK_DISABLED", "true")]), None);
        assert_eq!(of(&[HERE, ("OTEL_TRACES_EXPORTER", "none")]), None);
        assert_eq!(of(&[HERE]).as_deref(), Some("http://localhost:4318/v1/traces"));
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c.example/in");
        assert_eq!(of(&[HERE, own]).as_deref(), Some("https://c.example/in"));
    }

    #[test]
    fn what_is_said_of_spans_comes_before_what_is_said_of_everything() {
        let set = on(&[
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "100"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "200"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%20k%2Fey, x = 2 ,=,no"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=core"),
            ("OTEL_SERVICE_NAME", "mine"),
        ]);
        assert_eq!((set.encoding, set.timeout), (Encoding::Json, Duration::from_millis(200)));
        let headers = set.headers.iter().map(|(name, value)| (&**name, value.expose_secret()));
        assert_eq!(headers.collect::<Vec<_>>(), [("authorization", "Bearer k/ey"), ("x", "2")]);
        assert_eq!(set.service, "mine");
        assert_eq!(set.resource, [("team".to_owned(), "core".to_owned())]);
        assert!(!format!("{set:?}").contains("k/ey"), "{set:?}");
    }

    #[test]
    fn what_cannot_be_done_names_its_variable_and_what_helps() {
        let refused = |name, value| read(&[(name, value)]).unwrap_err().to_string();
        assert_eq!(
            refused("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            "`OTEL_EXPORTER_OTLP_PROTOCOL` is `grpc`, which is not spoken here: no spans are sent\n\
             hint: set it to `http/protobuf` or `http/json`, and the port to the collector's for \
             HTTP"
        );
        assert!(refused("OTEL_TRACES_SAMPLER", "jaeger_remote").contains("always_on"));
        assert!(refused("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318").contains("no `http`"));
    }

    #[test]
    fn a_user_and_a_password_are_a_header_and_a_query_stays_where_it_is() {
        let set = |url, headers| {
            on(&[("OTEL_EXPORTER_OTLP_ENDPOINT", url), ("OTEL_EXPORTER_OTLP_HEADERS", headers)])
        };
        let all = |set: &Telemetry| -> Vec<String> {
            let headers = set.headers.iter();
            headers.map(|(name, value)| format!("{name}: {}", value.expose_secret())).collect()
        };
        let found = set("http://us%40er:pass@c.example/in/?key=k%2Fey", "x=1");
        assert_eq!(found.endpoint, "http://c.example/in/v1/traces?key=k%2Fey");
        assert_eq!(all(&found), ["x: 1", "authorization: Basic dXNAZXI6cGFzcw=="]);
        let found = set("http://user:pass@c.example", "Authorization=Bearer%20k");
        assert_eq!(all(&found), ["Authorization: Bearer k"]);
    }

    #[test]
    fn of_an_address_that_is_none_nothing_is_shown_that_may_be_secret() {
        for (address, expected) in [
            ("grpc://user:pass@c.example:1/in?key=k#f", "grpc://c.example:1/in"),
            ("user:pass@c.example", "user:…"),
            ("pass", "…"),
        ] {
            assert_eq!(shown(address), expected);
        }
    }

    #[test]
    fn a_share_of_the_traces_is_taken_by_their_own_bytes() {
        let sampler = |name, share| {
            on(&[("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", share)]).sampler
        };
        let trace = |last: u8| {
            let mut bytes = [9; 16];
            bytes[8] = last;
            TraceId::from_bytes(bytes)
        };
        let half = sampler("traceidratio", "0.5");
        assert!(half.takes(trace(0x7f), None) && !half.takes(trace(0x80), None));
        let parent = TraceParent::parse(&format!("00-{}-{}-00", "a".repeat(32), "b".repeat(16)));
        assert!(!on(&[]).sampler.takes(trace(1), parent.as_ref()));
        assert!(sampler("always_on", "0").takes(trace(1), parent.as_ref()));
        assert!(!sampler("parentbased_always_off", "").takes(trace(0), None));
    }

    #[test]
    fn a_parent_is_taken_only_whole() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = TraceParent::parse(good).unwrap();
        assert_eq!(parent.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(
            (parent.span.to_string().as_str(), parent.is_sampled),
            ("b7ad6b7169203331", true)
        );
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceParent::parse(bad), None, "{bad}");
        }
    }
}
