//! Setup chunks that meet an existing association: simultaneous setup and restart (RFC 9260 §5.2).

use std::net::{IpAddr, SocketAddr};

use bytes::{BufMut as _, Bytes, BytesMut};
use hawser_types::Instant;
use hawser_wire::sctp::{Cause, Chunk, Framing, Init, Tsn, VerificationTag};
use rand::Rng as _;

use super::{Arrival, Setup, SetupOutcome, SetupStage};
use crate::handshake::{Answer, Cookie, Identifiers, Negotiated, PeerOffer};

impl Setup {
    /// Handles an INIT. It never changes an association; at most it is answered.
    pub(super) fn on_init(&mut self, now: Instant, arrival: Arrival, init: &Init) -> SetupOutcome {
        if arrival.acknowledging {
            return SetupOutcome::Late;
        }
        let Arrival { route, .. } = arrival;
        if let SetupStage::Established(negotiated) = &self.stage
            && negotiated.peer_tag == init.tag
        {
            // A late copy of the INIT that set up this association, over a slower route.
            return SetupOutcome::Discard;
        }
        let peer = match PeerOffer::read(init, route.remote.ip(), route.local.address) {
            Ok(peer) => peer,
            Err(fault) => {
                if let Some(cause) = fault.cause() {
                    let causes = vec![cause];
                    self.send(
                        route,
                        init.tag,
                        Chunk::Abort {
                            reflected: false,
                            causes,
                        },
                    );
                }
                return SetupOutcome::Discard;
            }
        };
        let (identifiers, tie) = match &self.stage {
            SetupStage::CookieWait(_) => (self.identifiers, 0),
            SetupStage::CookieEchoed { .. } => (self.identifiers, self.tie()),
            SetupStage::Established(_) => (self.draw_identifiers(), self.tie()),
            SetupStage::Accepting(_) | SetupStage::Closed => return SetupOutcome::Discard,
        };
        let chunk = match self.new_addresses(&peer, route.remote.ip()) {
            // A restart that adds addresses could take the association over (§5.2.2).
            Some(added) => Chunk::Abort {
                reflected: false,
                causes: vec![Cause::RestartWithNewAddresses(added)],
            },
            None => {
                let answer = Answer {
                    offer: &self.offer,
                    locals: &self.context.locals,
                    key: &self.context.key,
                    life: self.context.config.cookie_life,
                };
                answer.init_ack(now, route, identifiers, tie, &peer)
            }
        };
        self.send(route, peer.tag, chunk);
        SetupOutcome::Discard
    }

    /// Handles a COOKIE ECHO by the table of §5.2.4.
    pub(super) fn on_cookie_echo(
        &mut self,
        now: Instant,
        arrival: Arrival,
        sealed: &Bytes,
    ) -> SetupOutcome {
        let Ok(cookie) = self.context.key.open(sealed) else {
            return SetupOutcome::Discard;
        };
        if !cookie.fits(
            arrival.route.remote,
            arrival.tag,
            self.identifiers.port,
            self.identifiers.peer_port,
        ) {
            return SetupOutcome::Discard;
        }
        let knows_local = cookie.negotiated.local_tag == self.identifiers.tag;
        let knows_peer = self.peer_tag() == Some(cookie.negotiated.peer_tag);
        let knows_tie = cookie.tie == self.tie();
        match (knows_local, knows_peer) {
            (true, true) => self.on_known_cookie(arrival),
            (true, false) => self.on_crossing_cookie(now, arrival, cookie),
            (false, false) if knows_tie => self.on_restart_cookie(now, arrival, cookie),
            // A cookie that another one has overtaken, or one of a past association.
            (false, _) => SetupOutcome::Discard,
        }
    }

    /// Case D: the peer has not received the COOKIE ACK yet. The cookie's age does not matter.
    fn on_known_cookie(&mut self, arrival: Arrival) -> SetupOutcome {
        let (negotiated, is_new) = match &self.stage {
            SetupStage::CookieEchoed { negotiated, .. } | SetupStage::Accepting(negotiated) => {
                (negotiated.clone(), true)
            }
            SetupStage::Established(negotiated) => (negotiated.clone(), false),
            SetupStage::CookieWait(_) | SetupStage::Closed => return SetupOutcome::Discard,
        };
        self.send(arrival.route, negotiated.peer_tag, Chunk::CookieAck);
        if is_new {
            self.establish(negotiated)
        } else {
            SetupOutcome::Nothing
        }
    }

    /// Case B: both ends began at about the same time, and the peer chose another tag than in its
    /// first answer.
    fn on_crossing_cookie(
        &mut self,
        now: Instant,
        arrival: Arrival,
        cookie: Cookie,
    ) -> SetupOutcome {
        if self.refuse_stale(now, arrival, &cookie) {
            return SetupOutcome::Discard;
        }
        let is_new = match &self.stage {
            SetupStage::CookieWait(_) | SetupStage::CookieEchoed { .. } => true,
            SetupStage::Established(_) if !arrival.acknowledging && self.may_begin_anew() => false,
            SetupStage::Accepting(_) | SetupStage::Established(_) | SetupStage::Closed => {
                return SetupOutcome::Discard;
            }
        };
        self.send(arrival.route, cookie.negotiated.peer_tag, Chunk::CookieAck);
        let outcome = self.establish(cookie.negotiated);
        if is_new { outcome } else { anew(outcome) }
    }

    /// Case A: the peer has lost the association and restarts.
    fn on_restart_cookie(
        &mut self,
        now: Instant,
        arrival: Arrival,
        cookie: Cookie,
    ) -> SetupOutcome {
        let SetupStage::Established(negotiated) = &self.stage else {
            return SetupOutcome::Discard;
        };
        if !self.may_begin_anew() {
            return SetupOutcome::Discard;
        }
        let is_known = |it: &SocketAddr| is_listed(negotiated, it.ip());
        if !cookie.negotiated.peer_addresses.iter().all(is_known) {
            return SetupOutcome::Discard;
        }
        if self.refuse_stale(now, arrival, &cookie) {
            return SetupOutcome::Discard;
        }
        let (route, tag) = (arrival.route, cookie.negotiated.peer_tag);
        if arrival.acknowledging {
            self.send(
                route,
                tag,
                Chunk::Error(vec![Cause::CookieWhileShuttingDown]),
            );
            return SetupOutcome::Late;
        }
        self.identifiers.tag = cookie.negotiated.local_tag;
        self.identifiers.initial_tsn = cookie.negotiated.initial_tsn;
        self.send(route, tag, Chunk::CookieAck);
        anew(self.establish(cookie.negotiated))
    }

    /// Tells whether restarts are possible. Compact packets carry no tag to tell the associations
    /// apart.
    fn may_begin_anew(&self) -> bool {
        self.context.config.framing == Framing::Whole
    }

    /// Reports a stale cookie to the peer; `true` if it is stale.
    fn refuse_stale(&mut self, now: Instant, arrival: Arrival, cookie: &Cookie) -> bool {
        let Some(cause) = cookie.stale_cause(now) else {
            return false;
        };
        self.send(
            arrival.route,
            cookie.negotiated.peer_tag,
            Chunk::Error(vec![cause]),
        );
        true
    }

    /// Returns the peer's addresses that the association does not have, as parameters; `None` where
    /// it has them all or does not know the peer's yet.
    fn new_addresses(&self, peer: &PeerOffer, source: IpAddr) -> Option<Bytes> {
        let (SetupStage::CookieEchoed { negotiated, .. } | SetupStage::Established(negotiated)) =
            &self.stage
        else {
            return None;
        };
        let said = std::iter::once(&source).chain(&peer.addresses);
        let mut added = BytesMut::new();
        for address in said.filter(|it| !is_listed(negotiated, **it)) {
            put_address(&mut added, *address);
        }
        (!added.is_empty()).then(|| added.freeze())
    }

    /// Draws a new tag and initial TSN. A restarting peer must not learn the tag in use.
    fn draw_identifiers(&mut self) -> Identifiers {
        let random = &mut self.context.random;
        Identifiers {
            tag: VerificationTag::new(random.random_range(1..=u32::MAX)),
            initial_tsn: Tsn::new(random.random()),
            ..self.identifiers
        }
    }
}

fn anew(outcome: SetupOutcome) -> SetupOutcome {
    match outcome {
        SetupOutcome::Established(negotiated) => SetupOutcome::Restarted(negotiated),
        other => other,
    }
}

fn is_listed(negotiated: &Negotiated, address: IpAddr) -> bool {
    negotiated
        .peer_addresses
        .iter()
        .any(|it| it.ip() == address)
}

/// Writes an address parameter. Source: RFC 9260 §3.3.2.1.
fn put_address(out: &mut BytesMut, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            out.put_u16(5);
            out.put_u16(8);
            out.put_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.put_u16(6);
            out.put_u16(20);
            out.put_slice(&address.octets());
        }
    }
}
