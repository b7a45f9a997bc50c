//! `recording.json`: which models were asked, with all that shapes what they
//! are sent, so that a replay needs no configuration.
//!
//! No key, no header and nothing of an address that may be secret.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::file::{VERSION, check_version};
use crate::config::{
    AnswerTimeouts, Api, Effort, EffortKey, Headers, KeySource, OutputLimitKey, Quirks,
    ReasoningBack, ServerModel, UsageInStream,
};
use crate::message::{Price, Usd};
use crate::model::adaptation::Adaptation;
use crate::model::http::address::shown;

/// The models of a recording.
#[derive(Debug, Clone, Default)]
pub(super) struct Manifest {
    /// The one that answers where none is chosen: the first that was opened.
    pub(super) model: Option<String>,
    /// By the names people gave them.
    pub(super) models: BTreeMap<String, ServerModel>,
}

impl Manifest {
    /// Takes in a model, unless it is there.
    pub(super) fn add(&mut self, server: &ServerModel) {
        self.model.get_or_insert_with(|| server.name.clone());
        self.models.entry(server.name.clone()).or_insert_with(|| ServerModel {
            key: None,
            key_source: KeySource::None,
            headers: Headers::default(),
            base_url: shown(&server.base_url),
            ..server.clone()
        });
    }

    /// Writes it down.
    pub(super) fn to_text(&self) -> String {
        let models: Map<String, Value> =
            self.models.iter().map(|(name, server)| (name.clone(), model(server))).collect();
        let whole = json!({
            "version": VERSION,
            "tine_version": env!("CARGO_PKG_VERSION"),
            "model": self.model,
            "models": models,
        });
        format!("{whole:#}\n")
    }

    /// Reads it back.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, in a sentence without a subject.
    pub(super) fn from_text(text: &str) -> Result<Self, String> {
        let read: Read = serde_json::from_str(text).map_err(|error| error.to_string())?;
        check_version(read.version)?;
        let models = read.models.into_iter().map(|(name, model)| {
            let server = model.into_server(&name)?;
            Ok((name, server))
        });
        let models = models.collect::<Result<BTreeMap<_, _>, String>>()?;
        match read.model {
            Some(model) if !models.contains_key(&model) => {
                Err(format!("its model `{model}` is not among its models"))
            }
            model => Ok(Self { model, models }),
        }
    }
}

fn model(server: &ServerModel) -> Value {
    let price = server.price.map(|price| {
        json!({
            "input": price.input.dollars(),
            "output": price.output.dollars(),
            "cache_read": price.cache_read.dollars(),
            "cache_write": price.cache_write.dollars(),
        })
    });
    let Quirks { output_limit, effort, reasoning, usage, images } = server.quirks;
    json!({
        "api": server.api.as_str(),
        "base_url": server.base_url,
        "model": server.model,
        "context_window": server.context_window,
        "max_output_tokens": server.max_output_tokens,
        "longest_answer": server.longest_answer,
        "price": price,
        "effort": server.effort.as_ref().map(Effort::as_str),
        "images": server.images,
        "extra_body": server.extra_body,
        "adaptations": server.adaptations.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "quirks": {
            "output_limit": name(&OUTPUT_LIMITS, output_limit),
            "effort": name(&EFFORTS, effort),
            "reasoning": name(&REASONINGS, reasoning),
            "usage": name(&USAGES, usage),
            "images": images,
        },
    })
}

const OUTPUT_LIMITS: [(&str, OutputLimitKey); 2] = [
    ("max_tokens", OutputLimitKey::MaxTokens),
    ("max_completion_tokens", OutputLimitKey::MaxCompletionTokens),
];

const EFFORTS: [(&str, EffortKey); 2] =
    [("reasoning_effort", EffortKey::ReasoningEffort), ("reasoning", EffortKey::Reasoning)];

const REASONINGS: [(&str, ReasoningBack); 2] =
    [("none", ReasoningBack::None), ("with_calls", ReasoningBack::WithCalls)];

const USAGES: [(&str, UsageInStream); 2] =
    [("on_request", UsageInStream::OnRequest), ("always", UsageInStream::Always)];

fn name<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    let found = names.iter().find(|(_, named)| *named == value);
    found.map(|(name, _)| *name).expect("every value has a name")
}

fn named<T: Copy>(names: &[(&str, T)], name: &str) -> Result<T, String> {
    let found = names.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| format!("it has a quirk `{name}`, which is none"))
}

#[derive(Deserialize)]
struct Read {
    version: u32,
    model: Option<String>,
    models: BTreeMap<String, ReadModel>,
}

#[derive(Deserialize)]
struct ReadModel {
    api: String,
    base_url: String,
    model: String,
    context_window: Option<u32>,
    max_output_tokens: Option<u32>,
    longest_answer: Option<u32>,
    price: Option<ReadPrice>,
    effort: Option<String>,
    #[serde(default)]
    images: bool,
    #[serde(default)]
    extra_body: Map<String, Value>,
    #[serde(default)]
    adaptations: Vec<String>,
    quirks: Option<ReadQuirks>,
}

#[derive(Deserialize)]
struct ReadPrice {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
}

#[derive(Deserialize)]
struct ReadQuirks {
    output_limit: String,
    effort: String,
    reasoning: String,
    usage: String,
    images: bool,
}

impl ReadModel {
    fn into_server(self, name: &str) -> Result<ServerModel, String> {
        let api = Api::from_name(&self.api)
            .ok_or_else(|| format!("model `{name}` has the API `{}`, which is none", self.api))?;
        let effort = self.effort.map(|level| {
            Effort::new(&level).ok_or_else(|| format!("model `{name}` has no effort `{level}`"))
        });
        let adaptation = |text: &String| {
            Adaptation::from_name(text)
                .ok_or_else(|| format!("model `{name}` has the unknown adaptation `{text}`"))
        };
        let adaptations: Result<_, String> = self.adaptations.iter().map(adaptation).collect();
        Ok(ServerModel {
            name: name.to_owned(),
            model: self.model,
            api,
            base_url: self.base_url,
            key: None,
            key_source: KeySource::None,
            context_window: self.context_window,
            max_output_tokens: self.max_output_tokens,
            longest_answer: self.longest_answer,
            price: self.price.map(ReadPrice::into_price).transpose()?,
            requests_per_minute: None,
            tokens_per_minute: None,
            max_in_flight: None,
            timeouts: AnswerTimeouts::HOSTED,
            effort: effort.transpose()?,
            images: self.images,
            quirks: self.quirks.map_or(Ok(Quirks::NONE), ReadQuirks::into_quirks)?,
            headers: Headers::default(),
            extra_body: self.extra_body,
            adaptations: adaptations?,
        })
    }
}

impl ReadPrice {
    fn into_price(self) -> Result<Price, String> {
        let dollars = |amount: f64| {
            Usd::from_dollars(amount).ok_or_else(|| format!("{amount} is no amount of dollars"))
        };
        Ok(Price {
            input: dollars(self.input)?,
            output: dollars(self.output)?,
            cache_read: dollars(self.cache_read)?,
            cache_write: dollars(self.cache_write)?,
        })
    }
}

impl ReadQuirks {
    fn into_quirks(self) -> Result<Quirks, String> {
        Ok(Quirks {
            output_limit: named(&OUTPUT_LIMITS, &self.output_limit)?,
            effort: named(&EFFORTS, &self.effort)?,
            reasoning: named(&REASONINGS, &self.reasoning)?,
            usage: named(&USAGES, &self.usage)?,
            images: self.images,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> ServerModel {
        ServerModel {
            name: name.into(),
            model: "m-1".into(),
            api: Api::Responses,
            base_url: "https://ada:pass@example.com/v1?token=secret".into(),
            key: Some("sk-secret-1".into()),
            key_source: KeySource::Variable("X_KEY".into()),
            context_window: Some(1000),
            max_output_tokens: None,
            longest_answer: Some(99),
            price: Some(Price {
                input: Usd(400_000_000),
                output: Usd(2_000_000_000),
                cache_read: Usd(1),
                cache_write: Usd(0),
            }),
            requests_per_minute: None,
            tokens_per_minute: None,
            max_in_flight: None,
            timeouts: AnswerTimeouts::HOSTED,
            effort: Effort::new("low"),
            images: true,
            quirks: Quirks { reasoning: ReasoningBack::WithCalls, ..Quirks::NONE },
            headers: Headers([("X-Key".to_owned(), "header-secret".to_owned())].into()),
            extra_body: json!({ "top_k": 20 }).as_object().cloned().unwrap_or_default(),
            adaptations: vec![Adaptation::SingleCalls],
        }
    }

    #[test]
    fn all_that_shapes_a_request_is_kept_and_nothing_that_is_secret() {
        let mut manifest = Manifest::default();
        manifest.add(&server("deep"));
        manifest.add(&server("a"));
        manifest.add(&ServerModel { model: "other".into(), ..server("a") });
        let text = manifest.to_text();
        let read = Manifest::from_text(&text).unwrap();
        assert_eq!(read.to_text(), text);
        assert!(!text.contains("secret") && !text.contains("pass"), "{text}");
        assert_eq!(read.model.as_deref(), Some("deep"));
        let expected = ServerModel {
            base_url: "https://example.com/v1".into(),
            key: None,
            key_source: KeySource::None,
            headers: Headers::default(),
            ..server("a")
        };
        assert_eq!(format!("{:?}", read.models["a"]), format!("{expected:?}"));
    }

    #[test]
    fn what_cannot_be_one_is_refused_with_the_reason() {
        let mut manifest = Manifest::default();
        manifest.add(&server("a"));
        let check = |from: &str, to: &str, expected: &str| {
            let text = manifest.to_text();
            assert!(text.contains(from), "{from}");
            let error = Manifest::from_text(&text.replace(from, to)).unwrap_err();
            assert_eq!(error, expected);
        };
        check("responses", "telepathy", "model `a` has the API `telepathy`, which is none");
        check("with_calls", "always_ish", "it has a quirk `always_ish`, which is none");
        check("\"low\"", "\"very low\"", "model `a` has no effort `very low`");
        check("\"model\": \"a\"", "\"model\": \"b\"", "its model `b` is not among its models");
        check("0.4", "-1.0", "-1 is no amount of dollars");
    }
}
