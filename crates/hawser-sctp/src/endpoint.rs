//! Entry of datagrams: cookies for strangers, dispatch to associations for the rest.

mod config;
mod id;
mod limit;
mod table;
#[cfg(test)]
mod tests;
mod unassociated;

use std::net::SocketAddr;

use bytes::Bytes;
use hawser_types::Instant;
use hawser_wire::sctp::{ChecksumRule, Chunk, CommonHeader, Framing, Packet, Tsn, VerificationTag};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::association::{Association, Setup, SetupContext};
use crate::handshake::{CookieKey, Identifiers, is_host};
use crate::{AssociationConfig, Checksum, Local, Route, Transmit};
pub use config::EndpointConfig;
pub use id::AssociationId;
use limit::AnswerLimit;
use table::{Ports, Table};

/// All associations of a host: begins them, answers strangers, and finds the association of a
/// packet.
///
/// It sends only what [`Handled::Reply`] contains. It keeps no state for a stranger before the
/// stranger has returned its cookie, and answers to strangers are short and limited in number.
/// After [`crate::Event::Closed`], the owner calls [`Self::forget`]; when the peer's addresses have
/// changed, [`Self::addresses_changed`].
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    key: CookieKey,
    random: StdRng,
    table: Table,
    /// The header that compact packets omit: that of the one association, even when it is over.
    header: Option<CommonHeader>,
    /// Limit of answers to INITs and cookies.
    setup_limit: AnswerLimit,
    /// Limit of all other answers, so that they cannot use up the first limit.
    unexpected_limit: AnswerLimit,
}

/// Result of handling a datagram.
#[derive(Debug)]
pub enum Handled {
    /// The datagram is dropped.
    Ignored(Ignored),
    /// The datagram is answered.
    Reply(Transmit),
    /// A peer has begun an association, which has read the datagram already.
    Accepted(AssociationId, Box<Association>),
    /// The packet is for [`Association::handle_packet`] of this association.
    For(AssociationId, Packet),
}

/// Reason why a datagram is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ignored {
    /// It is no SCTP packet, or its checksum is wrong.
    Malformed,
    /// Its source is an address or port that no host has.
    Source,
    /// Its tag differs from that of the association between these addresses and ports.
    WrongTag,
    /// It belongs to no association and needs no answer.
    NoAssociation,
    /// Its cookie is not from this host, was changed, or was given to another host.
    ForgedCookie,
    /// Its cookie's association is over.
    UsedCookie,
    /// The limit of answers is reached.
    TooMany,
}

/// Reason why an association cannot be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No local address can reach any of the peer's.
    #[error("no local address can reach the peer")]
    NoRoute,
    /// An association exists already between these ports and one of these addresses.
    #[error("there is an association with the peer already")]
    Exists,
    /// The maximum number of associations exists.
    #[error("there are {0} associations, which is as many as allowed")]
    Full(usize),
}

impl Endpoint {
    /// Creates an endpoint without associations. `secret` makes its cookies and tags: it must be
    /// unknown to others and unique to this endpoint. `seed` makes two endpoints with one secret
    /// draw different numbers.
    pub fn new(config: EndpointConfig, secret: [u8; 32], seed: u64) -> Self {
        let derived = |what: &str| blake3::derive_key(what, &secret);
        let mut drawn = blake3::Hasher::new_keyed(&derived("hawser-sctp 2026 random numbers"));
        drawn.update(&seed.to_be_bytes());
        let limit = |most: u32| {
            let key = derived("hawser-sctp 2026 limits");
            AnswerLimit::new(key, most, config.max_associations)
        };
        Self {
            key: CookieKey::new(derived("hawser-sctp 2026 cookies")),
            random: StdRng::from_seed(*drawn.finalize().as_bytes()),
            table: Table::default(),
            header: None,
            setup_limit: limit(MAX_SETUP_ANSWERS),
            unexpected_limit: limit(MAX_UNEXPECTED),
            config,
        }
    }

    /// Begins an association with the host that has all the addresses `remotes`. Packets leave from
    /// `locals`. Ports are those of `config`, checksums and framing those of the endpoint.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Instant,
        config: AssociationConfig,
        locals: &[Local],
        remotes: &[SocketAddr],
    ) -> Result<(AssociationId, Association), ConnectError> {
        let reaches = |remote: &SocketAddr| {
            let mut locals = locals.iter();
            is_host(remote.ip()) && locals.any(|it| it.address.is_ipv4() == remote.is_ipv4())
        };
        let remotes: Vec<SocketAddr> = remotes.iter().copied().filter(reaches).collect();
        if remotes.is_empty() {
            return Err(ConnectError::NoRoute);
        }
        let ports = Ports {
            own: config.port,
            peer: config.peer_port,
        };
        if remotes
            .iter()
            .any(|it| self.table.by_address(ports, *it).is_some())
        {
            return Err(ConnectError::Exists);
        }
        if self.table.len() >= self.config.max_associations {
            return Err(ConnectError::Full(self.table.len()));
        }
        let identifiers = self.draw_identifiers(ports);
        let id = self.table.insert(ports, identifiers.tag, &remotes);
        self.header = Some(CommonHeader {
            source_port: ports.peer,
            destination_port: ports.own,
            tag: identifiers.tag,
        });
        let AssociationConfig {
            checksum, framing, ..
        } = self.config.association;
        let config = AssociationConfig {
            checksum,
            framing,
            ..config
        };
        let context = self.setup_context(config.clone(), locals);
        let setup = Setup::connect(now, context, identifiers, &remotes);
        let seed = self.random.random();
        Ok((id, Association::new(setup, config, locals.to_vec(), seed)))
    }

    /// Handles a datagram.
    pub fn handle_datagram(&mut self, now: Instant, route: Route, datagram: Bytes) -> Handled {
        self.table.on_time(now);
        let AssociationConfig {
            checksum, framing, ..
        } = self.config.association;
        let packet = match (framing, checksum) {
            (Framing::Compact, _) => Packet::decode_sealed(datagram, self.header),
            (_, Checksum::Crc32c) => Packet::decode(datagram, ChecksumRule::Crc32c),
            (_, Checksum::LowerLayer) => Packet::decode(datagram, ChecksumRule::Zero),
        };
        let Ok(packet) = packet else {
            return Handled::Ignored(Ignored::Malformed);
        };
        let ports = Ports {
            own: packet.destination_port,
            peer: packet.source_port,
        };
        if let Some(id) = self.table.by_tag(packet.tag, ports) {
            return Handled::For(id, packet);
        }
        if !is_host(route.remote.ip()) || ports.own == 0 || ports.peer == 0 {
            return Handled::Ignored(Ignored::Source);
        }
        let Some(Ok(first)) = packet.chunks().next() else {
            return Handled::Ignored(Ignored::Malformed);
        };
        match first {
            Chunk::Init(init) => self.on_init(now, route, packet, &init),
            _ if packet.tag == VerificationTag::NONE => Handled::Ignored(Ignored::WrongTag),
            Chunk::CookieEcho(cookie) => self.on_cookie_echo(now, route, packet, &cookie),
            Chunk::Abort {
                reflected: true, ..
            }
            | Chunk::ShutdownComplete { reflected: true } => self
                .table
                .by_address(ports, route.remote)
                .map_or(Handled::Ignored(Ignored::NoAssociation), |id| {
                    Handled::For(id, packet)
                }),
            first => self.on_unexpected(now, route, &packet, &first),
        }
    }

    /// Removes an association that is over.
    pub fn forget(&mut self, id: AssociationId) {
        self.table
            .remove(id, self.config.association.cookie_life * 2);
    }

    /// Replaces the addresses of an association's peer.
    pub fn addresses_changed(&mut self, id: AssociationId, addresses: &[SocketAddr]) {
        self.table.set_addresses(id, addresses);
    }

    /// Replaces this host's addresses, for new associations. Existing ones are told by
    /// [`Association`].
    pub fn set_locals(&mut self, locals: &[Local]) {
        self.config.locals = locals.to_vec();
    }

    /// Returns the number of associations.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Tells whether there is no association.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells whether the association is still known.
    #[cfg(test)]
    fn has(&self, id: AssociationId) -> bool {
        self.table.has(id)
    }

    fn draw_identifiers(&mut self, ports: Ports) -> Identifiers {
        loop {
            let tag = VerificationTag::new(self.random.random_range(1..=u32::MAX));
            if self.table.is_free(tag) {
                let initial_tsn = Tsn::new(self.random.random());
                return Identifiers {
                    tag,
                    initial_tsn,
                    port: ports.own,
                    peer_port: ports.peer,
                };
            }
        }
    }

    fn setup_context(&mut self, config: AssociationConfig, locals: &[Local]) -> SetupContext {
        SetupContext {
            config,
            locals: locals.to_vec(),
            key: self.key.clone(),
            random: StdRng::from_rng(&mut self.random),
        }
    }
}

/// Maximum number of answers to INITs and cookies in a second. Each takes a few microseconds and
/// some 200 bytes.
const MAX_SETUP_ANSWERS: u32 = 10_000;

/// Maximum number of answers to other packets of no association in a second.
const MAX_UNEXPECTED: u32 = 1000;
