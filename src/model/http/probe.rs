//! Asking a server which models it has: for `tine doctor`, not for work.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

use super::address::{Address, CONNECT_LIMIT};
use super::exchange::Response;
use super::{body, fault, refuse};
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
    /// vLLM and SGLang.
    max_model_len: Option<NonZeroU32>,
    /// OpenRouter, Mistral, LM Studio.
    #[serde(alias = "max_context_length")]
    context_length: Option<NonZeroU32>,
    /// llama.cpp.
    meta: Option<Meta>,
}

/// What llama.cpp says of a model that it has loaded.
#[derive(Deserialize)]
struct Meta {
    n_ctx: Option<NonZeroU32>,
}

/// A model that a server lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvailableModel {
    /// The name to use in requests.
    pub id: String,
    /// The context window in tokens that the server gives it; `None` if it names none.
    pub context_window: Option<NonZeroU32>,
}

impl From<Listed> for AvailableModel {
    fn from(listed: Listed) -> Self {
        let Listed { id, max_model_len, context_length, meta } = listed;
        // What the server runs it with comes before what the model could do.
        let running = meta.and_then(|meta| meta.n_ctx).or(max_model_len);
        Self { id, context_window: running.or(context_length) }
    }
}

/// Returns the models that a server lists; every API has the same list.
///
/// # Errors
///
/// As for a request; a server that answers but has no list gives an empty one.
pub(in crate::model) async fn served_models(
    address: &Address,
    limit: Duration,
) -> Result<Vec<AvailableModel>, ModelError> {
    let answer = tokio::time::timeout(limit, get(address, "/models")).await.map_err(|_| {
        let message = format!("{} was silent for {limit:?}", address.shown());
        ModelError::new(ModelErrorKind::Silent, message)
    })?;
    let bytes = answer.map_err(|error| address.redact(error))?;
    let list: List = serde_json::from_slice(&bytes).unwrap_or(List { data: Vec::new() });
    Ok(list.data.into_iter().map(AvailableModel::from).collect())
}

/// Returns the models of the server at `base_url`, which needs no key.
///
/// # Errors
///
/// If nothing there answers as such a server does.
pub async fn served_at(base_url: &str, limit: Duration) -> Result<Vec<AvailableModel>, ModelError> {
    let address = Address::new(base_url, "")
        .map_err(|error| ModelError::new(ModelErrorKind::Request, error.to_string()))?;
    served_models(&address, limit).await
}

async fn get(address: &Address, path: &str) -> Result<Vec<u8>, ModelError> {
    let request = address.connections()?.get(address.beside(path));
    let sent = request.headers(address.headers().clone()).send().await;
    let response = sent.map_err(|error| fault::no_answer(&error, address))?;
    let mut response = Response::live(response);
    refuse(&mut response, address).await?;
    body::read(&mut response, LIST_CAP, CONNECT_LIMIT).await.whole()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_that_a_server_runs_a_model_with_is_read() {
        for (listed, expected) in [
            (r#"{"id":"a","meta":{"n_ctx":8192,"n_ctx_train":32768}}"#, Some(8192)),
            (r#"{"id":"a","max_model_len":16384}"#, Some(16_384)),
            (r#"{"id":"a","context_length":131072}"#, Some(131_072)),
            (r#"{"id":"a","max_context_length":32768}"#, Some(32_768)),
            (r#"{"id":"a","context_length":null,"meta":null,"object":"model"}"#, None),
            (r#"{"id":"a","meta":{}}"#, None),
        ] {
            let listed: Listed = serde_json::from_str(listed).unwrap();
            let window = AvailableModel::from(listed).context_window;
            assert_eq!(window.map(NonZeroU32::get), expected);
        }
    }
}
