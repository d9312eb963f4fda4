mod collision;
mod initiator;
mod schedule;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::BytesMut;
use hawser_types::Instant;
use hawser_wire::sctp::{
    Cause, ChecksumRule, Chunk, CommonHeader, Framing, PacketWriter, VerificationTag,
};
use rand::rngs::StdRng;
use smallvec::{SmallVec, smallvec};

use crate::error::Closed;
use crate::handshake::{CookieKey, Identifiers, InitFault, Negotiated, Offer};
use crate::{AssociationConfig, Local, Route, Transmit};
use schedule::{Due, HandshakeSchedule};

/// Association setup: the four-way handshake, collisions and restarts (RFC 9260 §5).
///
/// The association passes the first chunk of every packet to [`Self::admits`]. If it is admitted,
/// the association reads the packet and hands INIT, INIT ACK, COOKIE ECHO, COOKIE ACK, ERROR and
/// ABORT to [`Self::on_chunk`] in order. Afterwards, and after [`Self::handle_timeout`], it drains
/// [`Self::poll_transmit`]. Data flows only after [`SetupOutcome::Established`]: nothing is bundled
/// with COOKIE ECHO and COOKIE ACK. Source: SCTP aggregation §3.2.
#[derive(Debug)]
pub(crate) struct Setup {
    context: SetupContext,
    offer: Offer,
    identifiers: Identifiers,
    stage: SetupStage,
    outgoing: VecDeque<Outgoing>,
}

/// Context that an endpoint passes to the setup of each association.
#[derive(Debug)]
pub(crate) struct SetupContext {
    pub(crate) config: AssociationConfig,
    /// Local addresses that packets can leave from.
    pub(crate) locals: Vec<Local>,
    pub(crate) key: CookieKey,
    pub(crate) random: StdRng,
}

/// How a chunk arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The route of its packet.
    pub(crate) route: Route,
    /// The verification tag of its packet.
    pub(crate) tag: VerificationTag,
    /// [`super::Shutdown::is_acknowledging`].
    pub(crate) acknowledging: bool,
}

/// A packet to be sent. Its tag is not always the association's.
#[derive(Clone, Debug)]
struct Outgoing {
    route: Route,
    tag: VerificationTag,
    /// At least one chunk. Chunks that do not fit are left out.
    chunks: SmallVec<[Chunk; 2]>,
}

/// Next step of the association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SetupOutcome {
    /// Continue with the packet's next chunk.
    Nothing,
    /// Drop the rest of the packet: its sender is not verified.
    Discard,
    /// Become established.
    Established(Negotiated),
    /// Discard all state of the peer and become established again.
    Restarted(Negotiated),
    /// Drop the rest of the packet and send SHUTDOWN ACK again
    /// ([`super::Shutdown::on_late_beginning`]).
    Late,
    /// The association is over.
    Closed(Closed),
}

#[derive(Debug)]
enum SetupStage {
    CookieWait(Box<HandshakeSchedule>),
    CookieEchoed {
        schedule: Box<HandshakeSchedule>,
        chunks: SmallVec<[Chunk; 2]>,
        negotiated: Negotiated,
    },
    /// Its cookie was accepted and the packet with the cookie is about to be read.
    Accepting(Negotiated),
    Established(Negotiated),
    Closed,
}

impl Setup {
    /// Begins an association with the host at `remotes`, over all routes in turn until one answers.
    pub(crate) fn connect(
        now: Instant,
        context: SetupContext,
        identifiers: Identifiers,
        remotes: &[SocketAddr],
    ) -> Self {
        let schedule = HandshakeSchedule::new(now, &context.config, &context.locals, remotes, None);
        let mut setup = Self::new(
            context,
            identifiers,
            SetupStage::CookieWait(schedule.into()),
        );
        setup.handle_timeout(now);
        setup
    }

    /// Creates the association that a cookie describes. Reading the packet with the cookie then
    /// establishes it and answers.
    pub(crate) fn accept(context: SetupContext, negotiated: Negotiated) -> Self {
        let identifiers = Identifiers {
            tag: negotiated.local_tag,
            initial_tsn: negotiated.initial_tsn,
            port: negotiated.port,
            peer_port: negotiated.peer_port,
        };
        Self::new(context, identifiers, SetupStage::Accepting(negotiated))
    }

    fn new(context: SetupContext, identifiers: Identifiers, stage: SetupStage) -> Self {
        Self {
            offer: Offer::new(&context.config),
            context,
            identifiers,
            stage,
            outgoing: VecDeque::new(),
        }
    }

    /// Returns the negotiated values, from [`SetupOutcome::Established`] until the association is
    /// over.
    pub(crate) fn negotiated(&self) -> Option<&Negotiated> {
        match &self.stage {
            SetupStage::Established(negotiated) => Some(negotiated),
            _ => None,
        }
    }

    /// Tells whether a packet with this tag and this first chunk is the peer's. All others are
    /// dropped without an answer (RFC 9260 §8.5).
    pub(crate) fn admits(&self, tag: VerificationTag, first: &Chunk) -> bool {
        match first {
            Chunk::Init(_) => tag == VerificationTag::NONE,
            // The cookie itself states the tag that it needs.
            Chunk::CookieEcho(_) => true,
            Chunk::Abort { reflected, .. } | Chunk::ShutdownComplete { reflected } => {
                self.is_ending_tag(tag, *reflected)
            }
            _ => tag == self.identifiers.tag,
        }
    }

    /// Handles a chunk of the setup.
    pub(crate) fn on_chunk(
        &mut self,
        now: Instant,
        arrival: Arrival,
        chunk: &Chunk,
    ) -> SetupOutcome {
        match chunk {
            Chunk::Init(init) => self.on_init(now, arrival, init),
            Chunk::InitAck(init) => self.on_init_ack(now, arrival, init),
            Chunk::CookieEcho(cookie) => self.on_cookie_echo(now, arrival, cookie),
            Chunk::CookieAck => self.on_cookie_ack(),
            Chunk::Error(causes) => self.on_error(causes),
            Chunk::Abort { reflected, causes } => self.on_abort(arrival, *reflected, causes),
            _ => SetupOutcome::Nothing,
        }
    }

    /// Ends the association at once. An ABORT goes to the peer if its tag is known: over `route`,
    /// or over the route that the peer has answered on.
    pub(crate) fn abort(&mut self, route: Option<Route>, causes: Vec<Cause>) {
        let answered = match &self.stage {
            SetupStage::CookieEchoed { schedule, .. } => schedule.first(),
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
        self.move_to(SetupStage::Closed);
    }

    /// Replaces the peer's addresses.
    pub(crate) fn addresses_changed(&mut self, addresses: &[SocketAddr]) {
        if let SetupStage::Established(negotiated) = &mut self.stage {
            negotiated.peer_addresses = addresses.to_vec();
        }
    }

    /// Returns the next packet to send; it has a checksum, whatever was negotiated.
    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        let Outgoing { route, tag, chunks } = self.outgoing.pop_front()?;
        let Identifiers {
            port, peer_port, ..
        } = self.identifiers;
        let header = CommonHeader {
            source_port: port,
            destination_port: peer_port,
            tag,
        };
        let mut writer = whole_packet(self.context.config.framing, header);
        for chunk in &chunks {
            writer.put(chunk);
        }
        let datagram = writer.finish(ChecksumRule::Crc32c);
        Some(Transmit::whole(route, datagram))
    }

    /// Replaces the local addresses.
    pub(crate) fn locals_changed(&mut self, locals: &[Local]) {
        self.context.locals = locals.to_vec();
    }

    /// Returns when to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match &self.stage {
            SetupStage::CookieWait(schedule) | SetupStage::CookieEchoed { schedule, .. } => {
                Some(schedule.at())
            }
            SetupStage::Accepting(_) | SetupStage::Established(_) | SetupStage::Closed => None,
        }
    }

    /// Handles the expiry of T1-init or T1-cookie.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> SetupOutcome {
        loop {
            let (SetupStage::CookieWait(schedule) | SetupStage::CookieEchoed { schedule, .. }) =
                &mut self.stage
            else {
                return SetupOutcome::Nothing;
            };
            match schedule.take(now) {
                Due::Nothing => return SetupOutcome::Nothing,
                Due::Send(route) => self.send_first(route),
                Due::GiveUp => return self.close(Closed::NoAnswer),
            }
        }
    }

    fn on_abort(&mut self, arrival: Arrival, reflected: bool, causes: &[Cause]) -> SetupOutcome {
        if !self.is_ending_tag(arrival.tag, reflected) {
            return SetupOutcome::Discard;
        }
        let said = causes.iter().find_map(|cause| match cause {
            Cause::UserAbort(reason) | Cause::ProtocolViolation(reason) => Some(reason.clone()),
            _ => None,
        });
        match self.stage {
            SetupStage::CookieWait(_) | SetupStage::CookieEchoed { .. } => {
                self.close(Closed::Refused)
            }
            // All data was acknowledged and the peer has discarded the association: a late packet
            // made it answer with ABORT.
            SetupStage::Established(_) if arrival.acknowledging => self.close(Closed::Shutdown),
            SetupStage::Accepting(_) | SetupStage::Established(_) => {
                self.close(Closed::AbortedByPeer(said.unwrap_or_default()))
            }
            SetupStage::Closed => SetupOutcome::Nothing,
        }
    }

    fn establish(&mut self, negotiated: Negotiated) -> SetupOutcome {
        self.move_to(SetupStage::Established(negotiated.clone()));
        SetupOutcome::Established(negotiated)
    }

    fn close(&mut self, why: Closed) -> SetupOutcome {
        self.move_to(SetupStage::Closed);
        SetupOutcome::Closed(why)
    }

    fn move_to(&mut self, stage: SetupStage) {
        tracing::debug!(from = self.stage.name(), to = stage.name(), "association");
        self.stage = stage;
    }

    /// Returns the number that names this association in cookies that would replace it.
    fn tie(&self) -> u64 {
        self.context.key.tie(self.identifiers.tag)
    }

    /// Returns the tag of packets to the peer, once it is known.
    fn peer_tag(&self) -> Option<VerificationTag> {
        match &self.stage {
            SetupStage::CookieEchoed { negotiated, .. }
            | SetupStage::Accepting(negotiated)
            | SetupStage::Established(negotiated) => Some(negotiated.peer_tag),
            SetupStage::CookieWait(_) | SetupStage::Closed => None,
        }
    }

    /// Tells whether ABORT or SHUTDOWN COMPLETE may carry this tag (§8.5.1).
    fn is_ending_tag(&self, tag: VerificationTag, reflected: bool) -> bool {
        if reflected {
            self.peer_tag() == Some(tag)
        } else {
            tag == self.identifiers.tag
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
    /// Returns the cause to report to the sender, if it can be reached.
    pub(crate) fn cause(self) -> Option<Cause> {
        match self {
            Self::NoTag => None,
            Self::Numbers => Some(Cause::InvalidParameter),
            Self::HostName(name) => Some(Cause::UnresolvableAddress(name)),
        }
    }
}

impl SetupStage {
    fn name(&self) -> &'static str {
        match self {
            Self::CookieWait(_) => "cookie-wait",
            Self::CookieEchoed { .. } => "cookie-echoed",
            Self::Accepting(_) => "accepting",
            Self::Established(_) => "established",
            Self::Closed => "closed",
        }
    }
}

/// Maximum number of packets waiting to be sent; further answers are dropped, as if lost on the
/// network.
const MAX_QUEUED: usize = 64;

/// Creates a writer for a packet that sets up or ends an association, or belongs to none.
pub(crate) fn whole_packet(framing: Framing, header: CommonHeader) -> PacketWriter {
    match framing {
        Framing::Whole => PacketWriter::within(BytesMut::new(), header, MAX_OUTGOING),
        Framing::Compact => PacketWriter::sealed(BytesMut::new(), header, MAX_OUTGOING),
    }
}

/// Maximum length of a setup packet. A peer's cookie has to come back whole, if necessary in IP
/// fragments.
const MAX_OUTGOING: usize = 4096;
