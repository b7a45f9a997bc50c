//! Looks names up and leaves out what is not on the public web, so that what is
//! connected to is what was looked at.

use std::error::Error;
use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use thiserror::Error;

use super::address::is_public;

/// A name leads to no public address.
#[derive(Debug, Error)]
#[error("it is not on the public web")]
pub(super) struct PrivateAddress;

/// Looks names up as the system does.
#[derive(Debug)]
pub(super) struct Filtering {
    /// The proxy's own name, which may lead anywhere: nothing else is fetched
    /// from there.
    pub(super) trusted: Option<String>,
}

impl Resolve for Filtering {
    fn resolve(&self, name: Name) -> Resolving {
        let is_trusted = self.trusted.as_deref().is_some_and(|it| it == name.as_str());
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> =
                found.filter(|found| is_trusted || is_public(found.ip())).collect();
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
        let filtering = Filtering { trusted: trusted.map(str::to_owned) };
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
