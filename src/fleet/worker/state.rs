//! What a worker says of itself, for whoever looks at all of them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A worker at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The version of tine that it is.
    pub version: String,
    /// What it is said to have, beside what every worker has.
    pub labels: Vec<Arc<str>>,
    /// How many slots it runs at once.
    pub most: usize,
    /// How many it has now.
    pub running: usize,
    /// Whether it takes no more.
    pub is_draining: bool,
}

impl State {
    /// Writes it as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { version, labels, most, running, is_draining } = self;
        let written = Written {
            version: version.clone(),
            labels: labels.iter().map(ToString::to_string).collect(),
            most: *most,
            running: *running,
            is_draining: *is_draining,
        };
        serde_json::to_vec(&written).expect("texts and numbers can be written as JSON")
    }

    /// Reads what a worker wrote; `None` if it is anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let written: Written = serde_json::from_slice(bytes).ok()?;
        let Written { version, labels, most, running, is_draining } = written;
        let labels = labels.into_iter().map(Into::into).collect();
        Some(Self { version, labels, most, running, is_draining })
    }
}

/// A later tine may say more.
#[derive(Serialize, Deserialize)]
struct Written {
    version: String,
    labels: Vec<String>,
    most: usize,
    running: usize,
    is_draining: bool,
}
