//! Hosts that meet at a gateway. If neither host can reach the other, for example because both are
//! behind NAT, the gateway that both have enrolled with relays bytes between them.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hawser_keys::identity::PublicKey;
use hawser_net::client::{Client, Relay};
use hawser_net::gateway::{Admission as _, Gateway};
use hawser_net::local_pair;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::book::Book;
use crate::bonded::{Bonded, Purpose, open};
use crate::connection::Origin;
use crate::gateway::{ClientId, ClientLimits, Clients, StreamSlot};
use crate::incoming::IncomingStream as _;
use crate::relay::{RelayCounters, RelayOptions, relay};
use crate::transport::DialError;

/// Announces at the gateway that other hosts may connect to this host through the gateway, for as
/// long as the future is polled. Announces again at once when the client moves to another session.
pub(super) async fn be_met(gateway: Arc<Client>) {
    let mut pause = FIRST_PAUSE;
    let mut said = None;
    loop {
        let begun = Instant::now();
        let refused = match open(&gateway, Purpose::BeMet.opening(), &Origin::default()).await {
            Ok(mut stream) => {
                tracing::info!("accepting known hosts through the gateway");
                said = None;
                let session = stream.session();
                tokio::select! {
                    // The stream ends with the session.
                    _ = stream.read_u8() => {}
                    () = session.superseded() => if session.end().is_none() {
                        continue;
                    },
                }
                None
            }
            Err(error) => Some(error),
        };
        if let Some(error) = refused.filter(|_| refused != said) {
            tracing::info!(
                problem = why(error),
                "can't accept known hosts through the gateway"
            );
            said = refused;
        }
        // Opening a stream waits for a session by itself, so only refusals need longer pauses.
        let is_back_soon = refused == Some(DialError::GatewayUnavailable);
        pause = if is_back_soon || begun.elapsed() > LONGEST_PAUSE {
            FIRST_PAUSE
        } else {
            LONGEST_PAUSE.min(pause * 2)
        };
        sleep(pause).await;
    }
}

/// Passes hosts that arrive through the gateway to `door`, which admits them; refuses hosts that
/// are not in the book.
pub(super) async fn let_in(gateway: Arc<Client>, book: Book, door: Arc<Gateway>) {
    let places = Clients::new(PASSING);
    while let Some(stream) = gateway.accept().await {
        let stream = Bonded::new(stream);
        let Some(Purpose::Meet(key)) = Purpose::of(stream.open_metadata()) else {
            stream.refuse(DialError::MalformedDestination);
            continue;
        };
        let key = PublicKey::from_bytes(key);
        // Check this first: other hosts must not learn that this host is present.
        if !book.admits(&key) {
            tracing::debug!(%key, "rejecting a host through the gateway: it is not in the book");
            stream.refuse(DialError::HostUnreachable);
            continue;
        }
        match places.admit(ClientId::new(*key.as_bytes()), Instant::now()) {
            Ok(place) => drop(tokio::spawn(lead(stream, Arc::clone(&door), key, place))),
            Err(reason) => {
                tracing::debug!(%key, ?reason, "rejecting a host that exceeds its limits");
                stream.refuse(DialError::LimitReached);
            }
        }
    }
}

/// Connects one host to the door, which has the host prove its key.
async fn lead(mut stream: Bonded, door: Arc<Gateway>, key: PublicKey, _place: StreamSlot) {
    let pair = local_pair().await;
    let pair = pair.and_then(|(near, far)| Ok((near, far.peer_addr()?, far)));
    let (near, remote, far) = match pair {
        Ok(pair) => pair,
        Err(error) => {
            tracing::warn!(%error, "can't admit a host through the gateway");
            return stream.refuse(DialError::Internal);
        }
    };
    door.take(far, remote, key);
    stream.accept();
    pass(stream, near).await;
}

/// Carries a client's connections through a gateway to the host with a given key.
pub struct ThroughGateway {
    gateway: Arc<Client>,
    to: PublicKey,
}

impl ThroughGateway {
    /// Creates the relay. `gateway`: the client of the gateway through which the host is reached.
    pub fn new(gateway: Arc<Client>, to: PublicKey) -> Self {
        Self { gateway, to }
    }
}

impl Relay for ThroughGateway {
    fn connect(&self) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(async move {
            let opening = Purpose::Meet(*self.to.as_bytes()).opening();
            let stream = open(&self.gateway, opening, &Origin::default()).await;
            let stream = stream.map_err(|error| io::Error::other(why(error)))?;
            let (near, far) = local_pair().await?;
            tokio::spawn(pass(stream, far));
            Ok(near)
        })
    }
}

impl fmt::Debug for ThroughGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThroughGateway")
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

/// Passes bytes on until the connection ends. Breaks off when the client moves to another session:
/// the hosts' session then makes a new connection there, and loses nothing.
async fn pass(stream: Bonded, local: TcpStream) {
    let session = stream.session();
    let (options, counters) = (RelayOptions::default(), RelayCounters::default());
    tokio::select! {
        _ = relay(stream.into(), local.into(), &options, &counters) => {}
        () = session.superseded() => {}
    }
}

pub(super) fn why(error: DialError) -> &'static str {
    match error {
        DialError::HostUnreachable => {
            "the host is not at this host's gateway, or does not know this host"
        }
        DialError::RefusedByPolicy | DialError::MalformedDestination => {
            "the gateway does not relay between its clients: relaying needs `hawser serve --meet`"
        }
        DialError::LimitReached => {
            "the gateway or the other host accepts no more streams of this host for now"
        }
        _ => "the gateway can't be reached",
    }
}

/// Limits for hosts that arrive through the gateway. A host has two or three connections at once,
/// and as many again while it replaces them.
const PASSING: ClientLimits = ClientLimits {
    streams: 8,
    network_streams: usize::MAX,
    all_streams: 256,
    connects_per_second: 4,
    connect_burst: 32,
    new_destinations_per_second: 0,
    new_destination_burst: 0,
};
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
