//! The hostile peer's end of an association: sealed datagrams to the gateway's UDP port.
//!
//! The association is opened as by an honest peer. From then on only the script sends.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hawser_channels::association::{association_config, below_seal};
use hawser_net::clock;
use hawser_sctp::{
    Association, AssociationConfig, Endpoint, EndpointConfig, Event, Handled, Local, Route,
};
use hawser_session::seal::datagram::{DatagramOpener, DatagramSealer};
use hawser_session::seal::{Direction, SessionKeys};
use hawser_session::{SessionConfig, Side};
use hawser_types::{ChannelId, LinkIndex};
use hawser_wire::sctp::{Chunk, CommonHeader, Packet, PacketWriter, VerificationTag};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::error::HostileError;

/// An association with the gateway, and all that was sent for it.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    sealer: DatagramSealer,
    opener: DatagramOpener,
    endpoint: Endpoint,
    association: Association,
    route: Route,
    /// Datagrams of the beginning, as they went over the wire.
    sent: Vec<Bytes>,
    pub(crate) names: Names,
}

/// What scripts have to know of an association or of a tunnel to write its packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    /// The beginning of every datagram to the gateway.
    pub(crate) key: [u8; 4],
    /// Number of the first chunk with data from here.
    pub(crate) tsn: u32,
    /// The same from the gateway.
    pub(crate) peer_tsn: u32,
    /// The address of the tunnel's end here.
    pub(crate) inner: Ipv4Addr,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            key: [0; 4],
            tsn: 0,
            peer_tsn: 0,
            inner: Ipv4Addr::UNSPECIFIED,
        }
    }
}

impl Datagrams {
    /// Begins the association of this channel, which the gateway was told of.
    pub(crate) async fn begin(
        keys: &SessionKeys,
        channel: ChannelId,
        gateway: SocketAddr,
    ) -> Result<Self, HostileError> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        socket.connect(gateway).await?;
        let local = Local {
            link: LinkIndex::new(0),
            address: Ipv4Addr::LOCALHOST.into(),
        };
        let config = AssociationConfig {
            announces_links: false,
            ..association_config(&SessionConfig::default(), Side::Client)
        };
        let config = EndpointConfig {
            accepts: false,
            ..EndpointConfig::new(below_seal(config), &[local])
        };
        let association = config.association.clone();
        // The attacker's own endpoint needs no secret key: it is not attacked.
        let mut endpoint = Endpoint::new(config, [7; 32], channel.value().into());
        let begun = endpoint.connect(clock::now(), association, &[local], &[gateway]);
        let (_, association) = begun.map_err(|error| HostileError::Strange(error.to_string()))?;
        let mut datagrams = Self {
            socket,
            sealer: keys.datagram_sealer(channel, Direction::ClientToGateway),
            opener: keys.datagram_opener(channel, Direction::GatewayToClient),
            endpoint,
            association,
            route: Route {
                local,
                remote: gateway,
            },
            sent: Vec::new(),
            names: Names::default(),
        };
        datagrams.establish().await?;
        Ok(datagrams)
    }

    async fn establish(&mut self) -> Result<(), HostileError> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            while let Some(transmit) = self.association.poll_transmit(clock::now()) {
                if let Some(Chunk::Init(init)) = first_chunk(&transmit.datagram) {
                    self.names.tsn = init.initial_tsn.value();
                }
                self.send(&transmit.datagram).await?;
            }
            while let Some(event) = self.association.poll_event() {
                match event {
                    Event::Established => return Ok(()),
                    Event::Closed(why) => return Err(HostileError::Strange(format!("{why:?}"))),
                    _ => {}
                }
            }
            let packet = self.receive().await?;
            let now = clock::now();
            if let Some(packet) = packet {
                if let Some(Chunk::InitAck(init)) = first_chunk(&packet) {
                    self.names.peer_tsn = init.initial_tsn.value();
                }
                let handled = self.endpoint.handle_datagram(now, self.route, packet);
                if let Handled::For(_, packet) = handled {
                    self.association.handle_packet(now, self.route, &packet);
                }
            }
            if self.association.poll_timeout().is_some_and(|at| at <= now) {
                self.association.handle_timeout(now);
            }
        }
        Err(HostileError::Never("an association stands".to_owned()))
    }

    /// Sends a packet under the association's seal.
    pub(crate) async fn send(&mut self, packet: &[u8]) -> Result<(), HostileError> {
        let mut datagram = BytesMut::new();
        let sealed = self.sealer.seal(clock::now(), packet, &mut datagram);
        sealed.map_err(|error| HostileError::Strange(error.to_string()))?;
        if let Some(key) = datagram.first_chunk() {
            self.names.key = *key;
        }
        let datagram = datagram.freeze();
        self.send_raw(&datagram).await?;
        if self.sent.len() < MOST_KEPT {
            self.sent.push(datagram);
        }
        Ok(())
    }

    /// Sends a datagram as it is.
    pub(crate) async fn send_raw(&self, datagram: &[u8]) -> Result<(), HostileError> {
        self.socket.send(datagram).await?;
        Ok(())
    }

    /// Sends one of the first datagrams once more.
    pub(crate) async fn replay(&self, number: u64) -> Result<(), HostileError> {
        let at = number as usize % self.sent.len().max(1);
        match self.sent.get(at) {
            Some(datagram) => self.send_raw(datagram).await,
            None => Ok(()),
        }
    }

    /// Checks that the association still stands: the gateway answers a heartbeat.
    pub(crate) async fn probe(&mut self) -> Result<(), HostileError> {
        let information = Bytes::from_static(b"does it stand?..");
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let mut packet = PacketWriter::compact(BytesMut::new(), 1200);
            packet.put(&Chunk::Heartbeat(information.clone()));
            let packet = packet.finish(hawser_wire::sctp::ChecksumRule::Zero);
            self.send(&packet).await?;
            // More may wait than this answer.
            while let Some(packet) = self.receive().await? {
                let chunks = Packet::decode_sealed(packet, Some(ANY_NAMES));
                let mut chunks = chunks.iter().flat_map(Packet::chunks);
                let is_answer = |it| matches!(it, Ok(Chunk::HeartbeatAck(it)) if it == information);
                if chunks.any(is_answer) {
                    return Ok(());
                }
            }
        }
        Err(HostileError::Never("the association stands".to_owned()))
    }

    /// Ends the association, so that the gateway has room for another.
    pub(crate) async fn end(mut self) -> Result<(), HostileError> {
        self.association.abort(Bytes::new());
        while let Some(transmit) = self.association.poll_transmit(clock::now()) {
            // What was sent before may have filled the gateway's socket.
            for _ in 0..REPETITIONS {
                self.send(&transmit.datagram).await?;
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(())
    }

    /// The next packet that opens, if one comes soon.
    async fn receive(&mut self) -> Result<Option<Bytes>, HostileError> {
        let mut buffer = BytesMut::zeroed(64 * 1024);
        loop {
            match timeout(POLL, self.socket.recv(&mut buffer)).await {
                Err(_) => return Ok(None),
                Ok(length) => {
                    let datagram = BytesMut::from(&buffer[..length?]);
                    if let Ok(packet) = self.opener.open(clock::now(), datagram) {
                        return Ok(Some(packet));
                    }
                }
            }
        }
    }
}

/// The first chunk of a whole packet.
fn first_chunk(packet: &Bytes) -> Option<Chunk> {
    let packet = Packet::decode_sealed(packet.clone(), None).ok()?;
    packet.chunks().next()?.ok()
}

/// Names of compact packets, which have none.
const ANY_NAMES: CommonHeader = CommonHeader {
    source_port: 9,
    destination_port: 9,
    tag: VerificationTag::NONE,
};
/// The gateway may let an association wait for a while.
const PATIENCE: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(50);
const REPETITIONS: usize = 3;
/// Datagrams that are kept to be sent again.
const MOST_KEPT: usize = 256;
