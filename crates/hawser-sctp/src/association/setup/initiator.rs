//! The initiator's part of the setup: what it sends until it is answered, and how it handles the
//! answers.

use hawser_types::Instant;
use hawser_wire::sctp::{Cause, Chunk, Init, VerificationTag};
use smallvec::{SmallVec, smallvec};

use super::schedule::HandshakeSchedule;
use super::{Arrival, MAX_OUTGOING, Outgoing, Setup, SetupOutcome, SetupStage};
use crate::error::{Closed, Misbehaviour};
use crate::handshake::{MAX_PEER_ADDRESSES, Negotiated, PeerOffer, own_addresses};
use crate::{Checksum, Route};

impl Setup {
    pub(super) fn on_init_ack(
        &mut self,
        now: Instant,
        arrival: Arrival,
        init: &Init,
    ) -> SetupOutcome {
        let SetupStage::CookieWait(schedule) = &self.stage else {
            return SetupOutcome::Nothing;
        };
        let began = schedule.began();
        let Route { local, remote } = arrival.route;
        // Data would go to the source of the answer, so it must be an address that was asked.
        if !schedule.remotes().any(|asked| asked.ip() == remote.ip()) {
            return SetupOutcome::Discard;
        }
        let (peer, cookie) = match PeerOffer::read(init, remote.ip(), local.address) {
            Ok(PeerOffer { cookie: None, .. }) => {
                let missing = Cause::MissingParameters(vec![COOKIE]);
                return self.refuse(arrival.route, init.tag, missing);
            }
            Ok(mut peer) => {
                let cookie = peer.cookie.take().unwrap_or_default();
                (peer, cookie)
            }
            Err(fault) => {
                return match fault.cause() {
                    None => self.close(Closed::Misbehaved(Misbehaviour::InvalidInit)),
                    Some(cause) => self.refuse(arrival.route, init.tag, cause),
                };
            }
        };
        if cookie.len() > MAX_COOKIE {
            return self.refuse(arrival.route, init.tag, Cause::InvalidParameter);
        }
        let mut chunks: SmallVec<[Chunk; 2]> = smallvec![Chunk::CookieEcho(cookie)];
        if !peer.unrecognized.is_empty() {
            let cause = Cause::UnrecognizedParameters(peer.unrecognized_whole());
            chunks.push(Chunk::Error(vec![cause]));
        }
        let mut negotiated = Negotiated::agree(&self.offer, self.identifiers, &peer, remote);
        self.add_given(&mut negotiated);
        let schedule = HandshakeSchedule::new(
            now,
            &self.context.config,
            &self.context.locals,
            &negotiated.peer_addresses,
            Some(arrival.route),
        );
        let schedule = schedule.after_answer(began, &self.context.config);
        self.move_to(SetupStage::CookieEchoed {
            schedule: schedule.into(),
            chunks,
            negotiated,
        });
        self.handle_timeout(now)
    }

    /// Adds what the owner specified about the peer's addresses: the ports of those that the peer
    /// lists too. Where packets are authenticated below, it adds the other addresses as well: a
    /// peer behind a NAT does not know its own.
    fn add_given(&self, negotiated: &mut Negotiated) {
        let SetupStage::CookieWait(schedule) = &self.stage else {
            return;
        };
        let takes_others = self.context.config.checksum == Checksum::LowerLayer;
        for given in schedule.remotes() {
            let addresses = &mut negotiated.peer_addresses;
            match addresses.iter().position(|it| it.ip() == given.ip()) {
                // The source of the answer is more reliable.
                Some(0) => {}
                Some(place) => addresses[place] = given,
                None if takes_others && addresses.len() < MAX_PEER_ADDRESSES => {
                    addresses.push(given);
                }
                None => {}
            }
        }
    }

    /// Handles a chunk that is valid only in an established association. While the cookie is
    /// echoed, such a chunk shows that the peer has the cookie and its COOKIE ACK is lost or late;
    /// repeating the cookie asks for another. A HEARTBEAT is answered (§8.3), or its path would
    /// stay unused until the next one.
    pub(crate) fn on_early_chunk(&mut self, now: Instant, route: Route, chunk: Chunk) {
        let SetupStage::CookieEchoed {
            schedule,
            negotiated,
            ..
        } = &mut self.stage
        else {
            return;
        };
        let (tag, may_ask) = (negotiated.peer_tag, schedule.take_early(now));
        if let Chunk::Heartbeat(info) = chunk {
            self.send(route, tag, Chunk::HeartbeatAck(info));
        }
        if may_ask {
            self.send_first(route);
        }
    }

    pub(super) fn on_cookie_ack(&mut self) -> SetupOutcome {
        let SetupStage::CookieEchoed { negotiated, .. } = &self.stage else {
            return SetupOutcome::Nothing;
        };
        let negotiated = negotiated.clone();
        self.establish(negotiated)
    }

    /// Handles an ERROR. Only the stale cookie matters here: the association is over (RFC 9260
    /// §5.2.6, option 2).
    ///
    /// Asking for another cookie with the same tag, as option 3 has it, is not safe: a late ERROR
    /// or COOKIE ACK for the old cookie would count for the new one. An owner that tries again
    /// draws a new tag.
    pub(super) fn on_error(&mut self, causes: &[Cause]) -> SetupOutcome {
        let is_stale = causes.iter().any(|it| matches!(it, Cause::StaleCookie(_)));
        match self.stage {
            SetupStage::CookieEchoed { .. } if is_stale => self.close(Closed::Refused),
            _ => SetupOutcome::Nothing,
        }
    }

    /// Sends the packet that this stage repeats until it is answered.
    pub(super) fn send_first(&mut self, route: Route) {
        match &self.stage {
            SetupStage::CookieWait(_) => {
                let addresses = own_addresses(&self.context.locals, route, [true, true]);
                let chunk = Chunk::Init(self.offer.init(self.identifiers, &addresses));
                self.send(route, VerificationTag::NONE, chunk);
            }
            SetupStage::CookieEchoed {
                chunks, negotiated, ..
            } => {
                let (tag, chunks) = (negotiated.peer_tag, chunks.clone());
                self.queue(Outgoing { route, tag, chunks });
            }
            SetupStage::Accepting(_) | SetupStage::Established(_) | SetupStage::Closed => {}
        }
    }

    /// Refuses an unusable INIT ACK and closes the association.
    fn refuse(&mut self, route: Route, tag: VerificationTag, cause: Cause) -> SetupOutcome {
        self.send(
            route,
            tag,
            Chunk::Abort {
                reflected: false,
                causes: vec![cause],
            },
        );
        self.close(Closed::Misbehaved(Misbehaviour::InvalidInit))
    }
}

/// Maximum length of a peer's cookie.
const MAX_COOKIE: usize = MAX_OUTGOING - 64;

/// The parameter type of the cookie.
const COOKIE: u16 = 7;
