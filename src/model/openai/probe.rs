//! Asking a server which models it has: for `tine doctor`, not for work.

use std::time::Duration;

use serde::Deserialize;

use super::transport;
use super::{OpenAi, OpenAiSettings};
use crate::model::{ModelError, ModelErrorKind};

/// Most bytes of the list that are read. Aggregators list hundreds of models
/// with prices and descriptions; no list is longer than this.
const LIST_CAP: usize = 8 * 1024 * 1024;

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    data: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
}

impl OpenAi {
    /// Returns the ids of the models that the server lists.
    ///
    /// # Errors
    ///
    /// As for a request; a server that answers but has no list gives an empty
    /// one.
    pub async fn served_models(&self, limit: Duration) -> Result<Vec<String>, ModelError> {
        let address = &self.endpoint.address;
        let asked = transport::get(address, "/models", LIST_CAP);
        let answer = tokio::time::timeout(limit, asked).await.map_err(|_| {
            let message = format!("{} was silent for {limit:?}", address.shown());
            ModelError::new(ModelErrorKind::Silent, message)
        })?;
        let bytes = answer
            .map_err(|error| ModelError { message: address.redact(error.message), ..error })?;
        let list: List = serde_json::from_slice(&bytes).unwrap_or(List { data: Vec::new() });
        Ok(list.data.into_iter().map(|listed| listed.id).collect())
    }
}

/// Returns the models of the server at `base_url`, which needs no key.
///
/// # Errors
///
/// If nothing there answers as such a server does.
pub async fn served_at(base_url: &str, limit: Duration) -> Result<Vec<String>, ModelError> {
    let settings = OpenAiSettings::new("probe", "probe", base_url);
    let client = OpenAi::new(settings)
        .map_err(|error| ModelError::new(ModelErrorKind::Request, error.to_string()))?;
    client.served_models(limit).await
}
