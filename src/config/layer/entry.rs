//! `[models.NAME]` of a layer: each key into its type.
//!
//! Prices are put together at the end: their parts may come from several
//! layers, and half a price is none.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};

use super::{Layer, Layers, Setting, dotted};
use crate::config::{Api, Effort, ModelEntry, PRESETS, Preset, Problem};
use crate::message::{Price, Usd};
use crate::model::adaptation::Adaptation;

/// The parts of prices, by model.
pub(super) type Prices = BTreeMap<String, PriceParts>;

/// What is said of a price so far.
#[derive(Default)]
pub(super) struct PriceParts {
    input: Option<Usd>,
    output: Option<Usd>,
    cache_read: Option<Usd>,
    cache_write: Option<Usd>,
}

impl Layers {
    /// Puts prices together, and notes what models lack.
    pub(super) fn complete_models(&mut self) {
        for (name, entry) in &mut self.config.models {
            let mut missing = |key: &[&str], must| {
                let key = dotted(&[&["models", name], key].concat());
                self.problems.push(Problem::Missing { key, must });
            };
            if entry.base_url.is_none() && entry.preset.is_none() {
                missing(
                    &["base_url"],
                    "set it, as in `base_url = \"http://localhost:11434/v1\"`, or set `preset`",
                );
            }
            let Some(parts) = self.prices.get(name) else { continue };
            let &PriceParts { input, output, cache_read, cache_write } = parts;
            let must = "a price has at least `input` and `output`, in dollars for a million tokens";
            match (input, output) {
                (Some(input), Some(output)) => {
                    let cache_read = cache_read.unwrap_or(input);
                    let cache_write = cache_write.unwrap_or(input);
                    entry.price = Some(Price { input, output, cache_read, cache_write });
                }
                (None, _) => missing(&["price", "input"], must),
                (Some(_), None) => missing(&["price", "output"], must),
            }
        }
    }
}

impl Layer<'_> {
    pub(super) fn model(&mut self, setting: &Setting<'_>) {
        let name = setting.name();
        if name == "offline" || name.starts_with("scripted:") {
            self.bad(setting, "choose another name: this one is built in".to_owned());
            return;
        }
        self.layers.config.models.entry(name.to_owned()).or_default();
        self.each(setting, Self::model_key);
    }

    fn model_key(&mut self, setting: &Setting<'_>) {
        match setting.name() {
            "preset" => {
                let preset =
                    self.one_of(setting, Preset::from_name, &PRESETS.each_ref().map(|it| it.name));
                self.set_model(setting, preset, |entry, preset| entry.preset = Some(preset));
            }
            "api" => {
                let api = self.one_of(setting, Api::from_name, &Api::ALL.map(Api::as_str));
                self.set_model(setting, api, |entry, api| entry.api = Some(api));
            }
            "base_url" => {
                let url = self.text(setting);
                self.set_model(setting, url, |entry, url| entry.base_url = Some(url));
            }
            "key_env" => {
                let variable = self.text(setting);
                self.set_model(setting, variable, |entry, name| entry.key_env = Some(name));
            }
            "model" => {
                let id = self.text(setting);
                self.set_model(setting, id, |entry, id| entry.model = Some(id));
            }
            "effort" => {
                let effort = self.effort(setting);
                self.set_model(setting, effort, |entry, effort| entry.effort = Some(effort));
            }
            "images" => {
                let images = self.truth(setting);
                self.set_model(setting, images, |entry, images| entry.images = Some(images));
            }
            "price" => self.each(setting, Self::price),
            "headers" => self.each(setting, |layer, header| {
                let value = layer.header(header);
                let name = header.name().to_owned();
                layer.set_model(header, value, |entry, value| {
                    entry.headers.0.insert(name, value);
                });
            }),
            "extra_body" => self.each(setting, |layer, field| {
                let value = layer.json(field);
                let name = field.name().to_owned();
                layer.set_model(field, value, |entry, value| {
                    entry.extra_body.insert(name, value);
                });
            }),
            "adaptations" => {
                let adaptations = self.adaptations(setting);
                self.set_model(setting, adaptations, |entry, all| entry.adaptations = all);
            }
            _ => self.model_limit(setting),
        }
    }

    /// The keys that are counts.
    fn model_limit(&mut self, setting: &Setting<'_>) {
        let set: fn(&mut ModelEntry, NonZeroU32) = match setting.name() {
            "context_window" => |entry, most| entry.context_window = Some(most.get()),
            "max_output_tokens" => |entry, most| entry.max_output_tokens = Some(most.get()),
            "headers_s" => |entry, most| entry.headers_s = Some(most),
            "first_piece_s" => |entry, most| entry.first_piece_s = Some(most),
            "idle_s" => |entry, most| entry.idle_s = Some(most),
            "requests_per_minute" => |entry, most| entry.requests_per_minute = Some(most),
            "tokens_per_minute" => |entry, most| entry.tokens_per_minute = Some(most),
            "max_in_flight" => |entry, most| {
                let most = NonZeroUsize::try_from(most).unwrap_or(NonZeroUsize::MAX);
                entry.max_in_flight = Some(most);
            },
            _ => {
                self.unknown(setting);
                return;
            }
        };
        let most = self.count(setting);
        self.set_model(setting, most, set);
    }

    fn adaptations(&mut self, setting: &Setting<'_>) -> Option<Vec<Adaptation>> {
        let names = self.texts(setting)?;
        let mut adaptations = Vec::with_capacity(names.len());
        for name in &names {
            match Adaptation::from_name(name).filter(Adaptation::is_a_setting) {
                Some(adaptation) => adaptations.push(adaptation),
                None => {
                    let rule = Adaptation::RULE;
                    self.bad(setting, format!("unknown adaptation `{name}` ({rule})"));
                    return None;
                }
            }
        }
        Some(adaptations)
    }

    fn effort(&mut self, setting: &Setting<'_>) -> Option<Effort> {
        let effort = Effort::new(&self.text(setting)?);
        if effort.is_none() {
            self.bad(setting, Effort::RULE.to_owned());
        }
        effort
    }

    fn price(&mut self, setting: &Setting<'_>) {
        let set: fn(&mut PriceParts, Usd) = match setting.name() {
            "input" => |parts, usd| parts.input = Some(usd),
            "output" => |parts, usd| parts.output = Some(usd),
            "cache_read" => |parts, usd| parts.cache_read = Some(usd),
            "cache_write" => |parts, usd| parts.cache_write = Some(usd),
            _ => {
                self.unknown(setting);
                return;
            }
        };
        if let (Some(usd), Some(&name)) = (self.dollars(setting), setting.key.get(1)) {
            set(self.layers.prices.entry(name.to_owned()).or_default(), usd);
        }
    }

    /// Sets something of the model that `setting` is a part of, if there is a
    /// value.
    fn set_model<T>(
        &mut self,
        setting: &Setting<'_>,
        value: Option<T>,
        set: impl FnOnce(&mut ModelEntry, T),
    ) {
        if let (Some(value), Some(&name)) = (value, setting.key.get(1)) {
            set(self.layers.config.models.entry(name.to_owned()).or_default(), value);
        }
    }
}
