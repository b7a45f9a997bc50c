//! Asking a server which models it has: for `tine doctor`, not for work.

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
}

/// Returns the ids of the models that a server lists; every API has the same
/// list.
///
/// # Errors
///
/// As for a request; a server that answers but has no list gives an empty one.
pub(in crate::model) async fn served_models(
    address: &Address,
    limit: Duration,
) -> Result<Vec<String>, ModelError> {
    let answer = tokio::time::timeout(limit, get(address, "/models")).await.map_err(|_| {
        let message = format!("{} was silent for {limit:?}", address.shown());
        ModelError::new(ModelErrorKind::Silent, message)
    })?;
    let bytes = answer.map_err(|error| address.redact(error))?;
    let list: List = serde_json::from_slice(&bytes).unwrap_or(List { data: Vec::new() });
    Ok(list.data.into_iter().map(|listed| listed.id).collect())
}

/// Returns the models of the server at `base_url`, which needs no key.
///
/// # Errors
///
/// If nothing there answers as such a server does.
pub async fn served_at(base_url: &str, limit: Duration) -> Result<Vec<String>, ModelError> {
    let address = Address::new(base_url, "")
        .map_err(|error| ModelError::new(ModelErrorKind::Request, error.to_string()))?;
    served_models(&address, limit).await
}

async fn get(address: &Address, path: &str) -> Result<Vec<u8>, ModelError> {
    let request = address.connections()?.get(address.beside(path));
    let sent = request.headers(address.headers().clone()).send().await;
    let response = sent.map_err(|error| fault::no_answer(&error, address))?;
    let mut response = Response::live(response);
    refuse(&mut response, address.secrets()).await?;
    body::read(&mut response, LIST_CAP, CONNECT_LIMIT).await.whole()
}
