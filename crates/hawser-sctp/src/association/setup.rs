mod collision;
mod initiator;
mod rounds;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use hawser_types::Instant;
use hawser_wire::sctp::{
    Cause, ChecksumRule, Chunk, Framing, PacketNames, PacketWriter, VerificationTag,
};
use rand::rngs::StdRng;
use smallvec::{SmallVec, smallvec};

use super::offer::{InitFault, Offer};
use super::terms::{Names, Terms};
use crate::endpoint::CookieKey;
use crate::error::Closed;
use crate::{AssociationConfig, Local, Route, Transmit};
use rounds::{Due, Rounds};

/// How an association begins: the four-way handshake, collisions, and beginning anew
/// (RFC 9260 §5).
///
/// For every packet the association asks [`Self::admits`] of its first chunk; only then it reads the
/// packet, and hands INIT, INIT ACK, COOKIE ECHO, COOKIE ACK, ERROR and ABORT to [`Self::on_chunk`],
/// in their turn. Afterwards, and after [`Self::handle_timeout`], it drains [`Self::poll_transmit`].
/// Data flows only after [`SetupNews::Established`]: nothing is bundled with COOKIE ECHO and
/// COOKIE ACK. Source: SCTP aggregation §3.2.
#[derive(Debug)]
pub(crate) struct Setup {
    beginning: Beginning,
    offer: Offer,
    names: Names,
    stage: Stage,
    outgoing: VecDeque<Outgoing>,
}

/// What an endpoint gives every association on its way.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) config: AssociationConfig,
    /// Where packets can leave.
    pub(crate) locals: Vec<Local>,
    pub(crate) key: CookieKey,
    pub(crate) random: StdRng,
}

/// How a chunk came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// From where to where.
    pub(crate) route: Route,
    /// What its packet carried.
    pub(crate) tag: VerificationTag,
    /// [`super::Shutdown::is_acknowledging`].
    pub(crate) acknowledging: bool,
}

/// A packet to be sent; its tag is not always the association's.
#[derive(Clone, Debug)]
struct Outgoing {
    route: Route,
    tag: VerificationTag,
    /// At least one. Those that have no room are left out.
    chunks: SmallVec<[Chunk; 2]>,
}

/// What the association does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SetupNews {
    /// Goes on to the packet's next chunk.
    Nothing,
    /// Drops the rest of the packet: it may be anybody's.
    Discard,
    /// Establishes itself.
    Established(Terms),
    /// Forgets all that it knows of the peer and establishes itself anew.
    Restarted(Terms),
    /// Drops the rest of the packet and sends its SHUTDOWN ACK again
    /// ([`super::Shutdown::on_late_beginning`]).
    Late,
    /// It is over.
    Closed(Closed),
}

#[derive(Debug)]
enum Stage {
    CookieWait {
        rounds: Rounds,
        /// The cookie came back too late so often, the last time by so much.
        stale: u32,
        patience: Duration,
    },
    CookieEchoed {
        rounds: Rounds,
        chunks: SmallVec<[Chunk; 2]>,
        terms: Terms,
        stale: u32,
    },
    /// Its cookie has come, and is about to be read.
    Accepting(Terms),
    Established(Terms),
    Closed,
}

impl Setup {
    /// Begins an association with who is at `remotes`, over all routes in turn until one answers.
    pub(crate) fn connect(
        now: Instant,
        beginning: Beginning,
        names: Names,
        remotes: &[SocketAddr],
    ) -> Self {
        let rounds = Rounds::new(now, &beginning, remotes, None);
        let stage = Stage::CookieWait {
            rounds,
            stale: 0,
            patience: Duration::ZERO,
        };
        let mut setup = Self::new(beginning, names, stage);
        setup.handle_timeout(now);
        setup
    }

    /// The association that a cookie stands for. The packet with the cookie is still to be read: that
    /// establishes and answers.
    pub(crate) fn accept(beginning: Beginning, terms: Terms) -> Self {
        let names = Names {
            tag: terms.local_tag,
            initial_tsn: terms.initial_tsn,
            port: terms.port,
            peer_port: terms.peer_port,
        };
        Self::new(beginning, names, Stage::Accepting(terms))
    }

    fn new(beginning: Beginning, names: Names, stage: Stage) -> Self {
        Self {
            offer: Offer::new(&beginning.config),
            beginning,
            names,
            stage,
            outgoing: VecDeque::new(),
        }
    }

    /// What was agreed on, from [`SetupNews::Established`] until the association is over.
    pub(crate) fn terms(&self) -> Option<&Terms> {
        match &self.stage {
            Stage::Established(terms) => Some(terms),
            _ => None,
        }
    }

    /// Whether a packet with this tag, and this chunk at its beginning, is the peer's; every other one
    /// is dropped without answer (RFC 9260 §8.5).
    pub(crate) fn admits(&self, tag: VerificationTag, first: &Chunk) -> bool {
        match first {
            Chunk::Init(_) => tag == VerificationTag::NONE,
            // The cookie itself says which one it has to be.
            Chunk::CookieEcho(_) => true,
            Chunk::Abort { reflected, .. } | Chunk::ShutdownComplete { reflected } => {
                self.is_ending_tag(tag, *reflected)
            }
            _ => tag == self.names.tag,
        }
    }

    /// A chunk has come.
    pub(crate) fn on_chunk(&mut self, now: Instant, arrival: Arrival, chunk: &Chunk) -> SetupNews {
        match chunk {
            Chunk::Init(init) => self.on_init(now, arrival, init),
            Chunk::InitAck(init) => self.on_init_ack(now, arrival, init),
            Chunk::CookieEcho(cookie) => self.on_cookie_echo(now, arrival, cookie),
            Chunk::CookieAck => self.on_cookie_ack(),
            Chunk::Error(causes) => self.on_error(now, causes),
            Chunk::Abort { reflected, causes } => self.on_abort(arrival, *reflected, causes),
            _ => SetupNews::Nothing,
        }
    }

    /// Ends it at once, with a word to the peer if it is known already: by `route`, or the way that it
    /// has answered.
    pub(crate) fn abort(&mut self, route: Option<Route>, causes: Vec<Cause>) {
        let answered = match &self.stage {
            Stage::CookieEchoed { rounds, .. } => rounds.first(),
            _ => None,
        };
        self.outgoing.clear();
        if let (Some(route), Some(tag)) = (route.or(answered), self.peer_tag()) {
            self.send(
                route,
                tag,
                Chunk::Abort {
                    reflected: false,
                    causes,
                },
            );
        }
        self.move_to(Stage::Closed);
    }

    /// The peer can be reached at these addresses from now on.
    pub(crate) fn addresses_changed(&mut self, addresses: &[SocketAddr]) {
        if let Stage::Established(terms) = &mut self.stage {
            terms.peer_addresses = addresses.to_vec();
        }
    }

    /// The next packet to send; it has a checksum, whatever was agreed on.
    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        let Outgoing { route, tag, chunks } = self.outgoing.pop_front()?;
        let Names {
            port, peer_port, ..
        } = self.names;
        let names = PacketNames {
            source_port: port,
            destination_port: peer_port,
            tag,
        };
        let mut writer = whole_packet(self.beginning.config.framing, names);
        for chunk in &chunks {
            writer.put(chunk);
        }
        let datagram = writer.finish(ChecksumRule::Crc32c);
        Some(Transmit::whole(route, datagram))
    }

    /// Packets can leave from these from now on.
    pub(crate) fn locals_changed(&mut self, locals: &[Local]) {
        self.beginning.locals = locals.to_vec();
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match &self.stage {
            Stage::CookieWait { rounds, .. } | Stage::CookieEchoed { rounds, .. } => {
                Some(rounds.at())
            }
            Stage::Accepting(_) | Stage::Established(_) | Stage::Closed => None,
        }
    }

    /// Time has passed: T1-init or T1-cookie may have expired.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> SetupNews {
        loop {
            let (Stage::CookieWait { rounds, .. } | Stage::CookieEchoed { rounds, .. }) =
                &mut self.stage
            else {
                return SetupNews::Nothing;
            };
            match rounds.take(now) {
                Due::Nothing => return SetupNews::Nothing,
                Due::Send(route) => self.send_first(route),
                Due::GiveUp => return self.close(Closed::NoAnswer),
            }
        }
    }

    fn on_abort(&mut self, arrival: Arrival, reflected: bool, causes: &[Cause]) -> SetupNews {
        if !self.is_ending_tag(arrival.tag, reflected) {
            return SetupNews::Discard;
        }
        let said = causes.iter().find_map(|cause| match cause {
            Cause::UserAbort(reason) | Cause::ProtocolViolation(reason) => Some(reason.clone()),
            _ => None,
        });
        match self.stage {
            Stage::CookieWait { .. } | Stage::CookieEchoed { .. } => self.close(Closed::Refused),
            // Both ends have all, and the peer has forgotten already: something late came to it.
            Stage::Established(_) if arrival.acknowledging => self.close(Closed::Shutdown),
            Stage::Accepting(_) | Stage::Established(_) => {
                self.close(Closed::AbortedByPeer(said.unwrap_or_default()))
            }
            Stage::Closed => SetupNews::Nothing,
        }
    }

    fn establish(&mut self, terms: Terms) -> SetupNews {
        self.move_to(Stage::Established(terms.clone()));
        SetupNews::Established(terms)
    }

    fn close(&mut self, why: Closed) -> SetupNews {
        self.move_to(Stage::Closed);
        SetupNews::Closed(why)
    }

    fn move_to(&mut self, stage: Stage) {
        tracing::debug!(from = self.stage.name(), to = stage.name(), "association");
        self.stage = stage;
    }

    /// Names this association in cookies that would replace it.
    fn tie(&self) -> u64 {
        self.beginning.key.tie(self.names.tag)
    }

    /// What packets to the peer carry, once that is known.
    fn peer_tag(&self) -> Option<VerificationTag> {
        match &self.stage {
            Stage::CookieEchoed { terms, .. }
            | Stage::Accepting(terms)
            | Stage::Established(terms) => Some(terms.peer_tag),
            Stage::CookieWait { .. } | Stage::Closed => None,
        }
    }

    /// Whether ABORT or SHUTDOWN COMPLETE may carry it (§8.5.1).
    fn is_ending_tag(&self, tag: VerificationTag, reflected: bool) -> bool {
        if reflected {
            self.peer_tag() == Some(tag)
        } else {
            tag == self.names.tag
        }
    }

    fn send(&mut self, route: Route, tag: VerificationTag, chunk: Chunk) {
        self.queue(Outgoing {
            route,
            tag,
            chunks: smallvec![chunk],
        });
    }

    fn queue(&mut self, outgoing: Outgoing) {
        if self.outgoing.len() < MAX_QUEUED {
            self.outgoing.push_back(outgoing);
        }
    }
}

impl InitFault {
    /// What its sender is told, if it can be.
    pub(crate) fn cause(self) -> Option<Cause> {
        match self {
            Self::NoTag => None,
            Self::Numbers => Some(Cause::InvalidParameter),
            Self::HostName(name) => Some(Cause::UnresolvableAddress(name)),
        }
    }
}

impl Stage {
    fn name(&self) -> &'static str {
        match self {
            Self::CookieWait { .. } => "cookie-wait",
            Self::CookieEchoed { .. } => "cookie-echoed",
            Self::Accepting(_) => "accepting",
            Self::Established(_) => "established",
            Self::Closed => "closed",
        }
    }
}

/// Packets that wait to be taken; an answer too many is lost as on the way.
const MAX_QUEUED: usize = 64;

/// A packet that begins or ends an association, or is none's.
pub(crate) fn whole_packet(framing: Framing, names: PacketNames) -> PacketWriter {
    match framing {
        Framing::Whole => PacketWriter::within(BytesMut::new(), names, MAX_OUTGOING),
        Framing::Compact => PacketWriter::sealed(BytesMut::new(), names, MAX_OUTGOING),
    }
}

/// The longest packet of a beginning: a peer's cookie comes back whole, if in pieces of IP.
const MAX_OUTGOING: usize = 4096;
