use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hawser_types::Budget;
use tokio::time::Instant;
use tracing::debug;

use super::client::{ClientId, Clients, LimitReason, Permit};
use super::config::GatewayConfig;
use super::lookups::{Lookups, MAX_LOOKUPS};
use super::policy::DestinationPolicy;
use super::stats::{GatewayCounters, GatewayStats};
use crate::connect::{Connect, connect_any};
use crate::destination::Destination;
use crate::incoming::IncomingStream;
use crate::relay::{RelayOptions, RelayReport, relay_within};
use crate::resolve::{Resolve, SystemResolver};
use crate::tally::Present;
use crate::transport::{ByteStream, DialError};

/// Serves streams: resolves, checks, connects, relays.
#[derive(Debug)]
pub struct Gateway<C, R = SystemResolver> {
    connect: C,
    lookups: Lookups<R>,
    policy: DestinationPolicy,
    pub(super) config: GatewayConfig,
    clients: Arc<Clients>,
    pub(super) counters: Arc<GatewayCounters>,
}

impl<C: Connect> Gateway<C> {
    /// Creates a gateway with the system's resolver.
    pub fn new(connect: C, policy: DestinationPolicy, config: GatewayConfig) -> Self {
        let resolver = SystemResolver::with_room(MAX_LOOKUPS);
        Self::with_resolver(connect, resolver, policy, config)
    }
}

impl<C: Connect, R: Resolve> Gateway<C, R> {
    /// Creates a gateway with all its parts given.
    pub fn with_resolver(
        connect: C,
        resolver: R,
        policy: DestinationPolicy,
        config: GatewayConfig,
    ) -> Self {
        Self {
            connect,
            lookups: Lookups::new(resolver),
            policy,
            config,
            clients: Clients::new(config.limits),
            counters: Arc::new(GatewayCounters::default()),
        }
    }

    /// The counters, which stay readable without the gateway.
    pub fn counters(&self) -> Arc<GatewayCounters> {
        Arc::clone(&self.counters)
    }

    /// The counts of this moment.
    pub fn stats(&self) -> GatewayStats {
        self.counters.snapshot()
    }

    /// Serves one stream to a destination, to its end. Its memory is charged to the client's
    /// `account`.
    ///
    /// # Errors
    /// The cause that was sent to the client when there was no connection.
    pub async fn handle<S: IncomingStream>(
        &self,
        client: ClientId,
        account: &Budget,
        stream: S,
    ) -> Result<RelayReport, DialError> {
        let (permit, stream) = self.admit(client, account, stream)?;
        self.relay(permit, stream).await
    }

    /// Admits a stream of a client before it is read. Every stream holds a permit for as long as it
    /// is served, whatever its purpose.
    pub(super) fn admit<S: IncomingStream>(
        &self,
        client: ClientId,
        account: &Budget,
        stream: S,
    ) -> Result<(Permit, S), DialError> {
        self.counters.opened.fetch_add(1, Ordering::Relaxed);
        let place = self.clients.admit(client, Instant::now());
        match place.and_then(|place| Permit::new(place, account)) {
            Ok(permit) => Ok((permit, stream)),
            Err(reason) => {
                let error = self.limited(reason);
                self.counters.refused.add(error);
                stream.refuse(error);
                Err(error)
            }
        }
    }

    /// Serves an admitted stream that leads to a destination, to its end.
    pub(super) async fn relay<S: IncomingStream>(
        &self,
        permit: Permit,
        stream: S,
    ) -> Result<RelayReport, DialError> {
        let opening = stream.open_metadata().to_vec();
        let connecting = self.connect(permit, &opening);
        serve_by(connecting, stream, &self.config.relay, &self.counters).await
    }

    pub(super) fn limited(&self, reason: LimitReason) -> DialError {
        debug!(?reason, "refused a stream: limit reached");
        self.counters.limited.add(reason);
        DialError::LimitReached
    }

    async fn connect(
        &self,
        permit: Permit,
        metadata: &[u8],
    ) -> Result<(C::Stream, Permit), DialError> {
        let destination = Destination::decode(metadata).map_err(|error| {
            debug!(%error, "refused a stream: malformed destination");
            DialError::MalformedDestination
        })?;
        let passed = self.addresses(&permit, &destination).await?;
        let options = &self.config.connect;
        let server = connect_any(&self.connect, &passed, destination.port, options).await?;
        Ok((server, permit))
    }

    /// Returns the allowed addresses of a destination, if the client may have one more.
    pub(super) async fn addresses(
        &self,
        permit: &Permit,
        destination: &Destination,
    ) -> Result<Vec<IpAddr>, DialError> {
        permit
            .lead_to(destination, Instant::now())
            .map_err(|reason| self.limited(reason))?;
        let options = &self.config.connect;
        let patience = options.resolve_timeout;
        let addresses = self.lookups.addresses(permit, &destination.host, patience);
        let addresses = addresses.await?;
        // Checked after resolving, on exactly the addresses that are connected to: otherwise a name
        // could change its address between check and connect.
        let (passed, refused) = self.policy.filter(&addresses);
        for refusal in refused {
            debug!(%destination, ?refusal, "refused an address of the destination");
            self.counters.refused_addresses.add(refusal);
        }
        if passed.is_empty() {
            return Err(DialError::RefusedByPolicy);
        }
        Ok(passed)
    }
}

/// Serves one stream to its end, once `connecting` has succeeded.
///
/// # Errors
/// The cause that was sent to the client when there was no connection.
pub(super) async fn serve_by<S: IncomingStream, C: ByteStream>(
    connecting: impl Future<Output = Result<(C, Permit), DialError>>,
    mut stream: S,
    options: &RelayOptions,
    counters: &GatewayCounters,
) -> Result<RelayReport, DialError> {
    let _present = Present::new(&counters.current);
    let (server, permit) = match connecting.await {
        Ok(connected) => connected,
        Err(error) => {
            counters.refused.add(error);
            stream.refuse(error);
            return Err(error);
        }
    };
    counters.connected.fetch_add(1, Ordering::Relaxed);
    stream.accept();
    let (near, far) = (stream.into(), server.into());
    Ok(relay_within(permit.account(), near, far, options, &counters.bytes).await)
}
