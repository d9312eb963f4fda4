//! Resolves names to addresses.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::net::lookup_host;
use tokio::sync::Semaphore;

use crate::destination::{Host, HostName};
use crate::transport::DialError;

/// Finds the addresses of names.
pub trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of `name`, best first; an empty list means not found. The caller
    /// bounds the time.
    fn resolve(
        &self,
        name: &HostName,
    ) -> impl Future<Output = Result<Vec<IpAddr>, DialError>> + Send;
}

/// The resolver of the operating system, with its hosts file, search list and address sorting.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    /// Bounds lookups: one that hangs keeps a thread of the runtime's blocking pool, which others
    /// use too.
    running: Arc<Semaphore>,
}

impl SystemResolver {
    /// Creates a resolver without lookups in progress.
    pub fn new() -> Self {
        Self::with_room(MAX_LOOKUPS)
    }

    /// Creates a resolver for at most `lookups` at the same time, each of which may take a thread.
    pub(crate) fn with_room(lookups: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(lookups)),
        }
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolve for SystemResolver {
    async fn resolve(&self, name: &HostName) -> Result<Vec<IpAddr>, DialError> {
        let permit = Arc::clone(&self.running)
            .acquire_owned()
            .await
            .map_err(|_| DialError::Internal)?;
        let name = name.as_str().to_owned();
        // The lookup runs to its end even if its caller gives up, and keeps its permit, so that
        // abandoned lookups count too.
        let lookup = tokio::spawn(async move {
            let _permit = permit;
            lookup_host((name, 0)).await.map(|found| {
                let mut addresses: Vec<IpAddr> = Vec::new();
                for address in found.take(MAX_ADDRESSES) {
                    if !addresses.contains(&address.ip()) {
                        addresses.push(address.ip());
                    }
                }
                addresses
            })
        });
        match lookup.await {
            Ok(Ok(addresses)) => Ok(addresses),
            // A failure of getaddrinfo itself has no number in `io::Error`; a failure of the system
            // below it has one.
            Ok(Err(error)) if error.raw_os_error().is_some() => Err(DialError::ResolverUnavailable),
            Ok(Err(_)) => Err(DialError::NameNotFound),
            Err(_) => Err(DialError::Internal),
        }
    }
}

/// Returns the addresses of `host`, which may be an address already.
pub(crate) async fn addresses_of<R: Resolve>(
    resolver: &R,
    host: &Host,
) -> Result<Vec<IpAddr>, DialError> {
    match host {
        Host::Ip(address) => Ok(vec![*address]),
        Host::Name(name) => {
            let mut addresses = resolver.resolve(name).await?;
            addresses.truncate(MAX_ADDRESSES);
            if addresses.is_empty() {
                Err(DialError::NameNotFound)
            } else {
                Ok(addresses)
            }
        }
    }
}

/// Most addresses of one name that are tried.
const MAX_ADDRESSES: usize = 16;
const MAX_LOOKUPS: usize = 128;
