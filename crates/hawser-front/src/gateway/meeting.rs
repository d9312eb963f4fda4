//! Lets clients of the gateway reach each other where no direct path exists.
//!
//! A host offers to be met by opening a stream that stays open. Another host opens a stream that
//! names the first one's key. The gateway then opens a stream to the first host, which names the
//! caller's key, and relays bytes between the two streams. The bytes are encrypted end to end: the
//! gateway sees their number and timing only.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use hawser_net::association::Token;
use hawser_net::gateway::Gateway;
use hawser_net::session::SessionHandle;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::client::{ClientId, ClientLimits, Clients, StreamSlot};
use crate::bonded::{Bonded, Purpose, refusal};
use crate::incoming::IncomingStream as _;
use crate::relay::{RelayCounters, RelayOptions, RelayReport, relay_within};
use crate::transport::DialError;
use crate::udp_addresses;
use hawser_types::{Budget, ByteCount};

/// The clients of a gateway that other clients may reach through it.
pub struct MeetingPlace {
    hosts: Mutex<Hosts>,
    clients: Arc<Clients>,
    moved: RelayCounters,
    /// The gateway whose UDP port receives tokens.
    gateway: OnceLock<Weak<Gateway>>,
}

/// Counts of meetings between clients so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MeetingStats {
    /// Hosts that other clients may reach now.
    pub hosts: u64,
    /// Bytes from callers to the hosts that they called.
    pub bytes_up: ByteCount,
    /// Bytes from called hosts to callers.
    pub bytes_down: ByteCount,
}

#[derive(Debug, Default)]
struct Hosts {
    present: BTreeMap<ClientId, Present>,
    next: u64,
}

/// A host that other clients may reach.
#[derive(Debug)]
struct Present {
    number: u64,
    session: SessionHandle,
    /// Dropped when the host offers itself again: its offer in an earlier session is void.
    _displaced: oneshot::Sender<()>,
}

impl std::fmt::Debug for MeetingPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MeetingPlace").finish_non_exhaustive()
    }
}

impl Default for MeetingPlace {
    fn default() -> Self {
        Self {
            hosts: Mutex::default(),
            clients: Clients::new(LIMITS),
            moved: RelayCounters::default(),
            gateway: OnceLock::new(),
        }
    }
}

impl MeetingPlace {
    /// Lets other clients reach `host` until `stream` ends.
    pub async fn be_met(&self, host: ClientId, mut stream: Bonded) {
        let _permit = match self.admit(host) {
            Ok(permit) => permit,
            Err(error) => return stream.refuse(error),
        };
        let (number, displaced) = self.enter(host, stream.session());
        stream.accept();
        tokio::select! {
            // The client sends nothing in this stream; a read shows its end.
            _ = stream.read_u8() => {}
            _ = displaced => {}
        }
        let mut hosts = self.hosts.lock();
        let is_this = |present: &Present| present.number == number;
        if hosts.present.get(&host).is_some_and(is_this) {
            hosts.present.remove(&host);
        }
    }

    /// Relays `stream`, which `caller` has opened, to the host with the key `to`, until its end.
    /// Buffered bytes are charged to the caller's `account`.
    ///
    /// # Errors
    /// The cause that was sent to the caller.
    pub async fn meet(
        &self,
        (caller, account): (ClientId, &Budget),
        to: ClientId,
        mut stream: Bonded,
    ) -> Result<RelayReport, DialError> {
        let (far, _permit) = match self.open(caller, to).await {
            Ok(opened) => opened,
            Err(error) => {
                stream.refuse(error);
                return Err(error);
            }
        };
        stream.accept();
        let options = RelayOptions::default();
        Ok(relay_within(account, stream.into(), far.into(), &options, &self.moved).await)
    }

    /// Names the gateway at whose UDP port tokens arrive.
    pub fn set_gateway(&self, gateway: &Arc<Gateway>) {
        let _ = self.gateway.set(Arc::downgrade(gateway));
    }

    /// Reports the source addresses of datagrams with this token to a client, until `stream` ends.
    pub async fn observe(&self, client: ClientId, token: Token, mut stream: Bonded) {
        let permit = self.admit(client);
        let gateway = self.gateway.get().and_then(Weak::upgrade);
        let sightings = gateway.and_then(|it| it.wait_for_token(token));
        let (Ok(_permit), Some(mut sightings)) = (permit, sightings) else {
            return stream.refuse(DialError::LimitReached);
        };
        stream.accept();
        loop {
            tokio::select! {
                // The client sends nothing in this stream; a read shows its end.
                _ = stream.read_u8() => return,
                address = sightings.next() => {
                    let mut bytes = Vec::new();
                    udp_addresses::put(address, &mut bytes);
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// The counts of this moment.
    pub fn stats(&self) -> MeetingStats {
        MeetingStats {
            hosts: self.hosts.lock().present.len() as u64,
            bytes_up: self.moved.up(),
            bytes_down: self.moved.down(),
        }
    }

    async fn open(
        &self,
        caller: ClientId,
        to: ClientId,
    ) -> Result<(Bonded, StreamSlot), DialError> {
        let permit = self.admit(caller)?;
        let session = self
            .hosts
            .lock()
            .present
            .get(&to)
            .map(|it| it.session.clone());
        let session = session.ok_or(DialError::HostUnreachable)?;
        let opening = Purpose::Meet(caller.to_bytes()).opening();
        // The caller must not learn whether the host is absent or does not know the caller.
        let far = session.open(opening);
        let mut far = far.map_err(|_| DialError::HostUnreachable)?;
        match timeout(ANSWER_PATIENCE, far.accepted()).await {
            Ok(Ok(_)) => Ok((Bonded::new(far), permit)),
            // The host gives this reason only to hosts that it knows.
            Ok(Err(error)) if refusal(&error) == Some(DialError::LimitReached) => {
                Err(DialError::LimitReached)
            }
            Ok(Err(_)) | Err(_) => Err(DialError::HostUnreachable),
        }
    }

    /// Admits one more stream of a client that is for meetings.
    fn admit(&self, client: ClientId) -> Result<StreamSlot, DialError> {
        let permit = self.clients.admit(client, Instant::now());
        permit.map_err(|reason| {
            tracing::debug!(?reason, "refused a meeting stream: too many of this client");
            DialError::LimitReached
        })
    }

    fn enter(&self, host: ClientId, session: SessionHandle) -> (u64, oneshot::Receiver<()>) {
        let (_displaced, displaced) = oneshot::channel();
        let mut hosts = self.hosts.lock();
        hosts.next += 1;
        let number = hosts.next;
        let present = Present {
            number,
            session,
            _displaced,
        };
        hosts.present.insert(host, present);
        (number, displaced)
    }
}

/// Two hosts need one or two connections with each other; each attempt takes one more. Each stream
/// by which a host offers to be met counts, too.
const LIMITS: ClientLimits = ClientLimits {
    streams: 32,
    network_streams: usize::MAX,
    all_streams: 4096,
    connects_per_second: 4,
    connect_burst: 32,
    new_destinations_per_second: 0,
    new_destination_burst: 0,
};
/// A round trip of the slowest links, and one retransmission.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
