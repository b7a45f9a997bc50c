//! The models that a chat can change to, each in a row.

use crate::cli::kit::Kit;
use crate::config::{Found, ListedKind, ListedModel, list_models};
use crate::report::ink::Ink;
use crate::report::row::Row;

/// Where the columns of a list begin.
const API_COLUMN: usize = 20;
const STATE_COLUMN: usize = 31;
const MODEL_COLUMN: usize = 42;

/// What stands between a preset and the name of a model.
const OF: char = ':';

/// A model, or a preset whose models can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What is typed behind `/model`; of a preset its name and a colon, which
    /// the name of a model is to follow.
    pub typed: String,
    /// What it is.
    pub kind: ListedKind,
    /// What a list shows of it.
    pub row: Row,
}

/// Returns the configured models, then the presets.
#[must_use]
pub fn items(kit: &Kit) -> Vec<Item> {
    let listed = list_models(&kit.config, &kit.environment);
    listed.iter().map(|listed| item(listed, kit.model.name())).collect()
}

fn item(listed: &ListedModel, now: &str) -> Item {
    let ListedModel { name, alias: _, kind, is_default: _, takes_other_names: _, found } = listed;
    let typed = match kind {
        ListedKind::Configured => name.clone(),
        ListedKind::Preset => format!("{name}{OF}"),
    };
    let (mark, ink) = if name == now { ("* ", Ink::Strong) } else { ("  ", Ink::Plain) };
    let row = Row::new().text(Ink::Good, mark).text(ink, &typed).padded(API_COLUMN - 1);
    let row = row.text(Ink::Plain, " ");
    let row = match found {
        Ok(Found { server, key_env, is_key_set, is_ready }) => {
            let row = row.text(Ink::Dim, server.api.as_str()).padded(STATE_COLUMN);
            let row = match (is_ready, key_env, is_key_set) {
                (true, Some(_), true) => row.text(Ink::Good, "key set"),
                (true, _, _) => row.text(Ink::Good, "ready"),
                (false, Some(variable), _) => {
                    row.text(Ink::Caution, &format!("{variable} is not set"))
                }
                (false, None, _) => row.text(Ink::Caution, "not ready"),
            };
            let is_named = !server.model.is_empty() && server.model != *name;
            let row = match is_named {
                true => row.padded(MODEL_COLUMN - 1).text(Ink::Plain, " "),
                false => row,
            };
            row.text(Ink::Dim, if is_named { &server.model } else { "" })
        }
        Err(error) => {
            let error = error.to_string();
            row.text(Ink::Bad, error.lines().next().unwrap_or_default())
        }
    };
    Item { typed, kind: *kind, row }
}
