//! Looks names up and leaves out what is not on the public web, so that what is
//! connected to is what was looked at.
//!
//! Each connection is made to an address of a lookup of its own: there is none
//! before it whose answer could be another one.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use thiserror::Error;

use super::address::{is_in_own_network, is_public, own_networks};

/// A name leads to no public address.
#[derive(Debug, Error)]
#[error("it is not on the public web")]
pub(super) struct PrivateAddress;

/// Finds the addresses of a name.
pub(super) type LookUp =
    dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync;

/// Looks a name up as the system does.
pub(super) fn system(name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
    Box::pin(async move {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|found| found.ip()).collect())
    })
}

/// Looks names up, and gives out only what is public.
pub(super) struct Filtering {
    /// The proxy's own name, which may lead anywhere: nothing else is fetched
    /// from there.
    pub(super) trusted: Option<String>,
    pub(super) look_up: Arc<LookUp>,
}

impl fmt::Debug for Filtering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtering").field("trusted", &self.trusted).finish_non_exhaustive()
    }
}

impl Resolve for Filtering {
    fn resolve(&self, name: Name) -> Resolving {
        let is_trusted = self.trusted.as_deref().is_some_and(|it| it == name.as_str());
        let finding = (self.look_up)(name.as_str().to_owned());
        Box::pin(async move {
            let found = finding.await?.into_iter();
            let networks = own_networks();
            let public: Vec<SocketAddr> = found
                .filter(|found| {
                    is_trusted || is_public(*found) && !is_in_own_network(*found, &networks)
                })
                .map(|found| SocketAddr::new(found, 0))
                .collect();
            if public.is_empty() {
                return Err(PrivateAddress.into());
            }
            let addresses: Addrs = Box::new(public.into_iter());
            Ok(addresses)
        })
    }
}

/// Tells whether a request failed because of where it would have gone.
pub(super) fn is_private(error: &reqwest::Error) -> bool {
    let mut cause = Error::source(error);
    while let Some(error) = cause {
        if error.is::<PrivateAddress>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn resolved(trusted: Option<&str>) -> Result<usize, String> {
        let look_up = Arc::new(system);
        let filtering = Filtering { trusted: trusted.map(str::to_owned), look_up };
        let resolving = filtering.resolve("localhost".parse().unwrap());
        resolving.await.map(Iterator::count).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_name_that_leads_here_leads_nowhere_unless_it_is_the_proxys() {
        assert_eq!(resolved(None).await, Err("it is not on the public web".to_owned()));
        assert_eq!(resolved(Some("proxy.example.com")).await, resolved(None).await);
        assert!(resolved(Some("localhost")).await.is_ok_and(|count| count > 0));
    }
}
