//! Packets of no association: INIT, COOKIE ECHO and out-of-the-blue packets (RFC 9260 §5.1, §8.4).

use bytes::Bytes;
use hawser_types::Instant;
use hawser_wire::sctp::{Cause, ChecksumRule, Chunk, CommonHeader, Init, Packet, VerificationTag};

use rand::Rng as _;

use super::table::Ports;
use super::{Endpoint, Handled, Ignored};
use crate::association::{Association, Setup, whole_packet};
use crate::handshake::{Answer, Cookie, Offer, PeerOffer};
use crate::{Route, Transmit};

impl Endpoint {
    /// Answers an INIT with a cookie, without keeping state.
    pub(super) fn on_init(
        &mut self,
        now: Instant,
        route: Route,
        packet: Packet,
        init: &Init,
    ) -> Handled {
        if packet.tag != VerificationTag::NONE || init.tag == VerificationTag::NONE {
            return Handled::Ignored(Ignored::WrongTag);
        }
        if !self.setup_limit.take(now, route.remote.ip()) {
            return Handled::Ignored(Ignored::TooMany);
        }
        let ports = ports(&packet);
        if let Some(id) = self.table.by_address(ports, route.remote) {
            return Handled::For(id, packet);
        }
        if !self.config.accepts || ports.own != self.config.association.port {
            return self.refusal(route, ports, init.tag, None);
        }
        if self.is_full_for(route) {
            return self.refusal(route, ports, init.tag, Some(Cause::OutOfResource));
        }
        let peer = match PeerOffer::read(init, route.remote.ip(), route.local.address) {
            Ok(peer) => peer,
            Err(fault) => return self.refusal(route, ports, init.tag, fault.cause()),
        };
        let identifiers = self.draw_identifiers(ports);
        let answer = Answer {
            offer: &Offer::new(&self.config.association),
            locals: &self.config.locals,
            key: &self.key,
            life: self.config.association.cookie_life,
        };
        self.reply(
            route,
            ports,
            peer.tag,
            &answer.init_ack(now, route, identifiers, 0, &peer),
        )
    }

    /// Creates an association from a returned cookie.
    pub(super) fn on_cookie_echo(
        &mut self,
        now: Instant,
        route: Route,
        packet: Packet,
        sealed: &Bytes,
    ) -> Handled {
        let ports = ports(&packet);
        let Ok(cookie) = self.key.open(sealed) else {
            return Handled::Ignored(Ignored::ForgedCookie);
        };
        if !cookie.fits(route.remote, packet.tag, ports.own, ports.peer) {
            return Handled::Ignored(Ignored::ForgedCookie);
        }
        if self.table.is_past(packet.tag) {
            return Handled::Ignored(Ignored::UsedCookie);
        }
        if let Some(id) = self.table.by_address(ports, route.remote) {
            let key = &self.key;
            self.table
                .on_restart(id, packet.tag, |tag| key.tie(tag) == cookie.tie);
            return Handled::For(id, packet);
        }
        if cookie.tie != 0 {
            // The association that it would replace is over.
            return Handled::Ignored(Ignored::UsedCookie);
        }
        let refused = match cookie.stale_cause(now) {
            None if self.is_full_for(route) => Some(Chunk::Abort {
                reflected: false,
                causes: vec![Cause::OutOfResource],
            }),
            cause => cause.map(|it| Chunk::Error(vec![it])),
        };
        match refused {
            None => self.accept(now, route, packet, cookie),
            Some(_) if !self.setup_limit.take(now, route.remote.ip()) => {
                Handled::Ignored(Ignored::TooMany)
            }
            Some(chunk) => self.reply(route, ports, cookie.negotiated.peer_tag, &chunk),
        }
    }

    /// Answers a packet that is out of the blue or has a wrong tag. The answer is never longer than
    /// the packet.
    pub(super) fn on_unexpected(
        &mut self,
        now: Instant,
        route: Route,
        packet: &Packet,
        first: &Chunk,
    ) -> Handled {
        let ports = ports(packet);
        let chunk = match first {
            // The SHUTDOWN COMPLETE that answered an earlier SHUTDOWN ACK may be lost.
            Chunk::ShutdownAck => Chunk::ShutdownComplete { reflected: true },
            _ if self.table.by_address(ports, route.remote).is_some() => {
                return Handled::Ignored(Ignored::WrongTag);
            }
            _ if is_unanswerable(packet) => return Handled::Ignored(Ignored::NoAssociation),
            _ => Chunk::Abort {
                reflected: true,
                causes: Vec::new(),
            },
        };
        if !self.unexpected_limit.take(now, route.remote.ip()) {
            return Handled::Ignored(Ignored::TooMany);
        }
        self.reply(route, ports, packet.tag, &chunk)
    }

    fn accept(&mut self, now: Instant, route: Route, packet: Packet, cookie: Cookie) -> Handled {
        let Cookie { negotiated, .. } = cookie;
        let id = self.table.insert(
            ports(&packet),
            negotiated.local_tag,
            &negotiated.peer_addresses,
        );
        self.table.set_host(id, route.remote.ip());
        let (config, mut locals) = (self.config.association.clone(), self.config.locals.clone());
        // The owner may not have announced this address yet; the packet shows that it is one.
        if !locals.contains(&route.local) {
            locals.push(route.local);
        }
        self.header = Some(CommonHeader {
            source_port: negotiated.peer_port,
            destination_port: negotiated.port,
            tag: negotiated.local_tag,
        });
        let setup = Setup::accept(self.setup_context(config.clone(), &locals), negotiated);
        let seed = self.random.random();
        let mut association = Association::new(setup, config, locals, seed);
        association.handle_packet(now, route, &packet);
        Handled::Accepted(id, Box::new(association))
    }

    fn is_full_for(&self, route: Route) -> bool {
        self.table.len() >= self.config.max_associations
            || self.table.count_of(route.remote.ip()) >= self.config.max_associations_per_host
    }

    fn refusal(
        &self,
        route: Route,
        ports: Ports,
        tag: VerificationTag,
        cause: Option<Cause>,
    ) -> Handled {
        let causes = cause.into_iter().collect();
        self.reply(
            route,
            ports,
            tag,
            &Chunk::Abort {
                reflected: false,
                causes,
            },
        )
    }

    fn reply(&self, route: Route, ports: Ports, tag: VerificationTag, chunk: &Chunk) -> Handled {
        let header = CommonHeader {
            source_port: ports.own,
            destination_port: ports.peer,
            tag,
        };
        let mut writer = whole_packet(self.config.association.framing, header);
        writer.put(chunk);
        let datagram = writer.finish(ChecksumRule::Crc32c);
        Handled::Reply(Transmit::whole(route, datagram))
    }
}

/// Tells whether the packet must not be answered: ABORT, SHUTDOWN COMPLETE, COOKIE ACK, the report
/// of a stale cookie, or an unreadable chunk.
fn is_unanswerable(packet: &Packet) -> bool {
    packet.chunks().any(|chunk| match chunk {
        Ok(Chunk::Abort { .. } | Chunk::ShutdownComplete { .. } | Chunk::CookieAck) | Err(_) => {
            true
        }
        Ok(Chunk::Error(causes)) => causes.iter().any(|it| matches!(it, Cause::StaleCookie(_))),
        Ok(_) => false,
    })
}

fn ports(packet: &Packet) -> Ports {
    Ports {
        own: packet.destination_port,
        peer: packet.source_port,
    }
}
