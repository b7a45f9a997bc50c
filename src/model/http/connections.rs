//! The connections to a server, shared by all requests to it.

use std::sync::{Mutex, PoisonError};

use super::Address;
use crate::model::ModelError;

/// The connections to a server.
///
/// They are made for the first request: certificates take milliseconds to load, and most
/// configured models are never asked.
#[derive(Default)]
pub(in crate::model) struct Connections(Mutex<Option<reqwest::Client>>);

impl Connections {
    /// Returns a client of the connections.
    ///
    /// # Errors
    ///
    /// The system has no usable root certificates.
    pub(in crate::model) fn client(
        &self,
        address: &Address,
    ) -> Result<reqwest::Client, ModelError> {
        let mut client = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let made = address.connections()?;
        Ok(client.insert(made).clone())
    }

    /// Uses the connections of `client` for all later requests.
    pub(in crate::model) fn replace(&self, client: reqwest::Client) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
    }
}
