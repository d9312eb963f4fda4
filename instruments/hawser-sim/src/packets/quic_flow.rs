use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant as Clock;

use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use hawser_scenario::Congestion;
use hawser_types::Instant;
use quinn_proto::congestion::BbrConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    ServerConfig, StreamId, TransportConfig, VarInt,
};

use super::connection::{End, PACKET};
use crate::quic_keys;

/// Bytes of payload in a full packet: a short header, a frame's header and the tag take the rest.
pub(super) const PAYLOAD: u64 = (DATAGRAM - 40) as u64;

/// One end of a QUIC connection (quinn), which sends over one stream all that it can, or reads it.
///
/// The library draws some of its random numbers by itself, so runs differ by a little.
pub(super) struct Quic {
    /// What the library takes for the beginning of virtual time.
    epoch: Clock,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    outgoing: Option<StreamId>,
    incoming: Option<StreamId>,
    arrived: u64,
}

/// The ends of a connection, that of the host which sends, and begins, at its place.
#[expect(
    clippy::disallowed_methods,
    reason = "the library counts in the system's instants, and only differences matter"
)]
pub(super) fn ends(now: Instant, from: usize, congestion: Congestion) -> anyhow::Result<[Quic; 2]> {
    let epoch = Clock::now();
    let transport = transport(congestion);
    let mut server = ServerConfig::with_crypto(Arc::new(quic_keys::server()?));
    server.transport_config(Arc::clone(&transport));
    let listening = Quic::new(epoch, Some(server));
    let mut client = ClientConfig::new(Arc::new(quic_keys::client()?));
    client.transport_config(transport);
    let mut calling = Quic::new(epoch, None);
    let clock = calling.clock(now);
    let connected = calling.endpoint.connect(clock, client, PEER, "peer");
    calling.connection = Some(connected.context("no connection")?);
    Ok(if from == 0 {
        [calling, listening]
    } else {
        [listening, calling]
    })
}

impl Quic {
    fn new(epoch: Clock, server: Option<ServerConfig>) -> Self {
        let config = Arc::new(EndpointConfig::default());
        let seed = Some([server.is_some().into(); 32]);
        Self {
            epoch,
            endpoint: Endpoint::new(config, server.map(Arc::new), false, seed),
            connection: None,
            outgoing: None,
            incoming: None,
            arrived: 0,
        }
    }

    fn clock(&self, now: Instant) -> Clock {
        self.epoch + now.since(Instant::ZERO)
    }

    /// Lets connection and endpoint tell each other what they have to, and reads.
    fn settle(&mut self) {
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while connection.poll().is_some() {}
        if self.incoming.is_none() {
            self.incoming = connection.streams().accept(Dir::Uni);
        }
        let Some(stream) = self.incoming else {
            return;
        };
        let mut stream = connection.recv_stream(stream);
        if let Ok(mut chunks) = stream.read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                self.arrived += chunk.bytes.len() as u64;
            }
            // What is to be sent now is asked for in any case.
            let _ = chunks.finalize();
        }
    }
}

impl End for Quic {
    type Segment = Bytes;

    const PROTOCOL: u8 = 17;

    fn fill(&mut self, _now: Instant) {
        let Some((_, connection)) = &mut self.connection else {
            return;
        };
        if connection.is_handshaking() {
            return;
        }
        if self.outgoing.is_none() {
            self.outgoing = connection.streams().open(Dir::Uni);
        }
        if let Some(stream) = self.outgoing {
            while connection.send_stream(stream).write(&ZEROS).is_ok() {}
        }
    }

    fn poll_segment(&mut self, now: Instant) -> Option<(Bytes, usize)> {
        let clock = self.clock(now);
        let mut buffer = Vec::new();
        let (_, connection) = self.connection.as_mut()?;
        if connection.poll_transmit(clock, 1, &mut buffer).is_none() {
            self.settle();
            return None;
        }
        let size = buffer.len() + HEADERS;
        Some((buffer.into(), size))
    }

    fn handle_segment(&mut self, now: Instant, datagram: &Bytes) {
        let clock = self.clock(now);
        // Answers outside a connection have no use between two ends that know each other.
        let mut answer = Vec::new();
        let data = BytesMut::from(&datagram[..]);
        let event = self
            .endpoint
            .handle(clock, PEER, None, None, data, &mut answer);
        match (event, &mut self.connection) {
            (Some(DatagramEvent::ConnectionEvent(_, event)), Some((_, connection))) => {
                connection.handle_event(event);
            }
            (Some(DatagramEvent::NewConnection(incoming)), None) => {
                let accepted = self.endpoint.accept(incoming, clock, &mut answer, None);
                self.connection = accepted.ok();
            }
            _ => {}
        }
        self.settle();
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let (_, connection) = self.connection.as_mut()?;
        let at = connection.poll_timeout()?;
        Some(Instant::ZERO + at.saturating_duration_since(self.epoch))
    }

    fn handle_timeout(&mut self, now: Instant) {
        let clock = self.clock(now);
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(clock);
        }
        self.settle();
    }

    fn arrived(&self) -> u64 {
        self.arrived
    }

    fn retransmissions(&self, _now: Instant) -> u64 {
        let connection = self.connection.as_ref();
        connection.map_or(0, |(_, connection)| connection.stats().path.lost_packets)
    }
}

fn transport(congestion: Congestion) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(BUFFER));
    transport.receive_window(VarInt::from_u32(BUFFER));
    transport.send_window(BUFFER.into());
    transport.initial_mtu(DATAGRAM as u16);
    if congestion == Congestion::Bbr {
        transport.congestion_controller_factory(Arc::new(BbrConfig::default()));
    }
    Arc::new(transport)
}

/// IPv4 and UDP.
const HEADERS: usize = 28;
const DATAGRAM: usize = PACKET - HEADERS;
const BUFFER: u32 = 8 << 20;
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 443);
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
