//! Dispatches the streams that clients open at a gateway to their servers, by purpose.

use std::fmt;
use std::sync::Arc;

use hawser_net::gateway::Incoming;
use hawser_types::{ByteCount, StreamId};
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;
use tracing::{Instrument as _, debug};

use super::client::{ClientId, Permit};
use super::measurement;
use super::meeting::MeetingPlace;
use super::serve::Gateway;
use crate::bonded::{Bonded, Purpose};
use crate::connect::Connect;
use crate::incoming::IncomingStream as _;
use crate::packets::Exchange;
use crate::resolve::{Resolve, SystemResolver};
use crate::transport::DialError;

/// Serves every kind of stream that clients open at a gateway.
pub struct ClientStreams<C, R = SystemResolver> {
    /// Serves streams and flows to destinations, and admits streams of every kind.
    pub relay: Gateway<C, R>,
    /// Forwards packets of clients, if that is enabled.
    pub exchange: Option<Arc<Exchange>>,
    /// Connects clients with each other, if that is enabled.
    pub meeting: Option<Arc<MeetingPlace>>,
    /// Answers clients that ask why the gateway chose its links.
    pub reasons: Reasons,
}

/// Answers a client that asks why the gateway chose its links: for the whole session of this
/// stream, or for one stream.
pub type Reasons = Box<
    dyn Fn(ClientId, &mut Bonded, Option<StreamId>) -> Result<Vec<u8>, DialError> + Send + Sync,
>;

impl<C: Connect, R: Resolve> ClientStreams<C, R> {
    /// Serves one stream to its end. Every stream gets a permit before any other work, so no kind
    /// of stream goes without one.
    pub async fn serve(&self, incoming: Incoming) {
        let span = incoming.stream.span();
        let serving = async {
            let client = ClientId::new(*incoming.peer.as_bytes());
            let stream = Bonded::new(incoming.stream);
            let admitted = self.relay.admit(client, &incoming.account, stream);
            let served = match admitted {
                Ok((permit, stream)) => self.serve_admitted(permit, stream).await,
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                debug!(%error, "refused a client's stream");
            }
        };
        serving.instrument(span).await;
    }

    async fn serve_admitted(&self, mut permit: Permit, stream: Bonded) -> Result<(), DialError> {
        let client = permit.client();
        let (exchange, meeting) = (self.exchange.as_ref(), self.meeting.as_deref());
        match (Purpose::of(stream.open_metadata()), exchange, meeting) {
            (Some(Purpose::Connect), ..) => {
                return self.relay.relay(permit, stream).await.map(drop);
            }
            (Some(Purpose::Datagrams), ..) => return self.relay.carry(permit, stream).await,
            (Some(Purpose::Packets), Some(exchange), _) => {
                if let Err(reason) = permit.be_tunnel(Instant::now()) {
                    return refuse(stream, self.relay.limited(reason));
                }
                return exchange.serve(client, stream).await;
            }
            (Some(Purpose::Sink), ..) => measurement::swallow(stream).await,
            (Some(Purpose::Source(size)), ..) => measurement::pour(stream, size).await,
            (Some(Purpose::Reasons(of)), ..) => return self.tell(&mut permit, stream, of).await,
            (Some(Purpose::BeMet), _, Some(meeting)) => meeting.be_met(client, stream).await,
            (Some(Purpose::Observe(token)), _, Some(meeting)) => {
                meeting.observe(client, token, stream).await;
            }
            (Some(Purpose::Meet(key)), _, Some(meeting)) => {
                let caller = (client, permit.account());
                let met = meeting.meet(caller, ClientId::new(key), stream);
                return met.await.map(drop);
            }
            (Some(Purpose::File | Purpose::Punch) | None, ..) => {
                return refuse(stream, DialError::MalformedDestination);
            }
            _ => return refuse(stream, DialError::RefusedByPolicy),
        }
        Ok(())
    }

    async fn tell(
        &self,
        permit: &mut Permit,
        mut stream: Bonded,
        of: Option<StreamId>,
    ) -> Result<(), DialError> {
        let client = permit.client();
        let told = match (self.reasons)(client, &mut stream, of) {
            Ok(told) => told,
            Err(error) => return refuse(stream, error),
        };
        if let Err(reason) = permit.add(ByteCount::from(told.len())) {
            return refuse(stream, self.relay.limited(reason));
        }
        stream.accept();
        if stream.write_all(&told).await.is_ok() {
            measurement::finish(stream).await;
        }
        Ok(())
    }
}

impl<C, R> fmt::Debug for ClientStreams<C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientStreams").finish_non_exhaustive()
    }
}

fn refuse(stream: Bonded, error: DialError) -> Result<(), DialError> {
    stream.refuse(error);
    Err(error)
}
