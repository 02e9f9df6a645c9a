//! Names to addresses, on the host, once a connection, all of them checked.
//!
//! Answers to: `dial`. Must not: connect. INVARIANT: one address that may not be reached spoils the whole answer:
//! a name that leads inside as well as outside is not a public name.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

use tokio::time::timeout;

use crate::limits::{Hooks, Limits};
use crate::refusal::Refusal;
use crate::target::{Host, Target};

/// What a resolver gives, when it is ready.
pub type Answer<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Turns a name into addresses.
pub trait Resolve: Send + Sync {
    /// All addresses of the name.
    fn resolve<'a>(&'a self, host: &'a str) -> Answer<'a>;
}

/// The host's own resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> Answer<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// The most addresses of one name that are tried.
const TRIED: usize = 4;

/// The target's addresses, each of them checked; the first few are kept.
pub(crate) async fn pin(
    resolver: &dyn Resolve,
    hooks: &dyn Hooks,
    limits: &Limits,
    target: &Target,
) -> Result<Vec<IpAddr>, Refusal> {
    let host = target.host.to_string();
    let mut found = match &target.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => match timeout(limits.connect_time, resolver.resolve(name)).await {
            Ok(Ok(found)) if !found.is_empty() => found,
            Ok(_) | Err(_) => return Err(Refusal::Unresolved { host }),
        },
    };
    if !found.iter().all(|address| hooks.allow_address(address)) {
        return Err(Refusal::Address { host });
    }
    found.truncate(TRIED);
    Ok(found)
}
