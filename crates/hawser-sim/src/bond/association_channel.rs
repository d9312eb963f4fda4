//! The association that carries a channel of the session beside its TCP connections, and what the
//! driver does for it.

use std::net::SocketAddr;

use hawser_channels::association::{
    AssociationWriter, Next, association_config, below_seal, record_of,
};
use hawser_sctp::{Handled, Local, Route, Transmit};
use hawser_session::seal::datagram;
use hawser_session::{ChannelSpec, Side, TransportChoice};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex};

use super::association_end::AssociationEnd;
use super::{Bond, Token, place};
use crate::association::{client_local, server_local};
use crate::network::Datagram;

/// Both ends of an association, from its first datagram on.
pub(super) struct AssociationChannel {
    channel: ChannelId,
    began: Instant,
    /// The gateway's end, the client's.
    ends: [AssociationEnd; 2],
    /// The gateway knows its keys.
    expected: bool,
}

impl Bond {
    /// The client may begin an association, if it is to have one and has none.
    pub(super) fn begin_association(&mut self) {
        let now = self.now();
        let wanted = self.config.transport != TransportChoice::Tcp;
        if !wanted || self.association.is_some() || now < self.next_association {
            return;
        }
        let session = &mut self.hosts[place(Side::Client)].session;
        let Some(channel) = session.take_grant() else {
            return;
        };
        session.set_transport(now, self.config.transport);
        session.begin_association(now, channel);
        let session = &self.config.session;
        let config = |side| below_seal(association_config(session, side));
        let up = self.keepers.iter().enumerate();
        let up = up.filter(|(_, keeper)| keeper.up);
        let locals: Vec<Local> = up.map(|(link, _)| client_local(link)).collect();
        let server = server_local(0);
        let seed = self.seed ^ u64::from(channel.value()) << 8;
        let own = config(Side::Client);
        let mut client = AssociationEnd::new(&own, &locals, seed ^ 1);
        let gateway = AssociationEnd::new(&config(Side::Gateway), &[server], seed ^ 2);
        let remote = SocketAddr::new(server.address, PORT);
        client.association = client.endpoint.connect(now, own, &locals, &[remote]).ok();
        self.association = Some(AssociationChannel {
            channel,
            began: now,
            ends: [gateway, client],
            expected: false,
        });
        self.settle(Side::Client);
        self.run_association(Side::Client);
    }

    /// The gateway has heard that it comes.
    pub(super) fn expect_association(&mut self, channel: ChannelId) {
        if let Some(own) = self.association.as_mut().filter(|it| it.channel == channel) {
            own.expected = true;
        }
    }

    /// It is over for both; the client begins another after a while.
    pub(super) fn end_association(&mut self, channel: ChannelId) {
        let now = self.now();
        if let Some(own) = self.association.take_if(|it| it.channel == channel) {
            let age = now.since(own.began);
            let pause = self.association_back_off.next_pause(age);
            self.plan_association(now + pause);
        }
    }

    /// Links have come or gone for the client: an association that did not come about may do so
    /// now.
    pub(super) fn retry_association(&mut self) {
        if self.association.is_none() {
            self.association_back_off.reset();
            self.plan_association(self.now());
        }
    }

    fn plan_association(&mut self, at: Instant) {
        self.next_association = at;
        self.network.set_alarm(at, Token::BeginAssociation.pack());
    }

    /// The session names a channel. Returns true if that is the association, which has work then.
    pub(super) fn wake_association(&mut self, side: Side, channel: ChannelId) -> bool {
        let own = self.association.as_mut().filter(|it| it.channel == channel);
        let Some(own) = own else {
            return false;
        };
        own.ends[place(side)].is_woken = true;
        self.run_association(side);
        true
    }

    pub(super) fn on_datagram(&mut self) {
        let now = self.now();
        while let Some(datagram) = self.network.take_datagram() {
            let own = self.association.as_mut();
            let Some(own) = own.filter(|it| it.channel == datagram.channel) else {
                continue;
            };
            let side = match datagram.to_server {
                true => Side::Gateway,
                false => Side::Client,
            };
            // What opens with no key that is known is not answered.
            if side == Side::Gateway && !own.expected {
                continue;
            }
            let (local, remote) = match side {
                Side::Gateway => (server_local(0), client_local(datagram.link)),
                Side::Client => (client_local(datagram.link), server_local(0)),
            };
            let remote = SocketAddr::new(remote.address, PORT);
            let route = Route { local, remote };
            let end = &mut own.ends[place(side)];
            match end.endpoint.handle_datagram(now, route, datagram.payload) {
                Handled::Ignored(_) => {}
                Handled::Reply(transmit) => self.put_on_link(side, transmit),
                Handled::Accepted(id, association) => {
                    end.association = Some((id, *association));
                }
                Handled::For(id, packet) => {
                    if let Some((own, association)) = &mut end.association
                        && *own == id
                    {
                        association.handle_packet(now, route, &packet);
                    }
                }
            }
            self.run_association(side);
        }
    }

    /// A timer of an association may be due.
    pub(super) fn fire_association(&mut self, side: Side) {
        let now = self.now();
        if let Some(own) = &mut self.association {
            let end = &mut own.ends[place(side)];
            // An earlier alarm has taken the place of this one: it would set one of its own.
            if end.planned.take_if(|planned| *planned <= now).is_none() {
                return;
            }
            if let Some((_, association)) = &mut end.association
                && association.poll_timeout().is_some_and(|at| at <= now)
            {
                association.handle_timeout(now);
            }
            self.run_association(side);
        }
    }

    /// A link has come or gone for the client.
    pub(super) fn move_association(&mut self, link: usize, is_there: bool) {
        let now = self.now();
        let Some(own) = &mut self.association else {
            return self.retry_association();
        };
        let local = client_local(link);
        if let Some((_, association)) = &mut own.ends[place(Side::Client)].association {
            match is_there {
                true => association.add_local(now, local),
                false => association.remove_local(now, local),
            }
            self.run_association(Side::Client);
        }
    }

    /// What holds for links has changed for one side.
    pub(super) fn tell_links(&mut self, side: Side) {
        self.hosts[place(side)].path_links.mark_stale();
        if let Some(own) = &mut self.association {
            own.ends[place(side)].is_woken = true;
            self.run_association(side);
        }
    }

    /// Tells both sessions what is known of the association now, as the driver does before it makes
    /// a snapshot: otherwise they hear of it only while they use it.
    pub fn sample_associations(&mut self) {
        if let Some(channel) = self.association.as_ref().map(|own| own.channel) {
            self.sample_association(Side::Gateway, channel);
            self.sample_association(Side::Client, channel);
        }
    }

    /// Tells the session's side what is known of the association.
    pub(super) fn sample_association(&mut self, side: Side, channel: ChannelId) {
        let now = self.now();
        let own = self.association.as_ref().filter(|it| it.channel == channel);
        if let Some(state) = own.and_then(|it| it.ends[place(side)].state(now)) {
            let host = &mut self.hosts[place(side)];
            state.report(now, &mut host.session, channel, &mut host.path_links);
        }
    }

    /// Does for one end what there is to do.
    fn run_association(&mut self, side: Side) {
        let Some(own) = &mut self.association else {
            return;
        };
        let end = &mut own.ends[place(side)];
        end.notified = true;
        if std::mem::replace(&mut end.running, true) {
            // Its own work has led here: it looks again when that is done.
            return;
        }
        while self.run_association_once(side) {}
        if let Some(own) = &mut self.association {
            own.ends[place(side)].running = false;
        }
    }

    /// Returns true if there may be more to do.
    fn run_association_once(&mut self, side: Side) -> bool {
        let Some(own) = &mut self.association else {
            return false;
        };
        let (channel, end) = (own.channel, &mut own.ends[place(side)]);
        if !std::mem::take(&mut end.notified) {
            return false;
        }
        if !end.take_events() {
            self.lose_association(channel);
            return false;
        }
        if end.is_established {
            self.add_association(side, channel);
            self.take_messages(side, channel);
            self.write_association(side);
        }
        self.transmit(side);
        self.settle(side);
        true
    }

    fn lose_association(&mut self, channel: ChannelId) {
        let now = self.network.now();
        for side in [Side::Gateway, Side::Client] {
            let session = &mut self.hosts[place(side)].session;
            session.handle_channel_lost(now, channel);
        }
        self.end_association(channel);
        self.settle(Side::Gateway);
        self.settle(Side::Client);
    }

    /// Adds the channel to the session, once.
    fn add_association(&mut self, side: Side, channel: ChannelId) {
        let now = self.network.now();
        let host = &mut self.hosts[place(side)];
        let Some(own) = &mut self.association else {
            return;
        };
        let end = &mut own.ends[place(side)];
        if let Some((_, association)) = &end.association
            && end.writer.is_none()
        {
            let streams = association.outbound_streams();
            end.writer = Some((AssociationWriter::new(now, channel, streams), now));
            host.path_links.mark_stale();
            host.session
                .add_channel(now, ChannelSpec::association(channel));
            host.session.handle_writable(now, channel);
        }
    }

    /// Hands messages that have come to the session.
    fn take_messages(&mut self, side: Side, channel: ChannelId) {
        let now = self.network.now();
        while let Some(own) = &mut self.association
            && let Some((_, association)) = &mut own.ends[place(side)].association
            && let Some(received) = association.receive()
        {
            let record = record_of(&received).expect("records are short");
            let session = &mut self.hosts[place(side)].session;
            if let Err(fault) = session.handle_record(now, channel, record) {
                // Sessions of one program never misunderstand each other.
                unreachable!("{fault}");
            }
        }
    }

    /// Moves records from the session to the association, as the driver's writing task does.
    fn write_association(&mut self, side: Side) {
        let now = self.network.now();
        let host = &mut self.hosts[place(side)];
        let Some(own) = &mut self.association else {
            return;
        };
        let end = &mut own.ends[place(side)];
        while end.is_writer_due() {
            end.is_woken = false;
            let is_due = |(writer, _): &(AssociationWriter, Instant)| writer.is_sample_due(now);
            let state = end
                .writer
                .as_ref()
                .is_some_and(is_due)
                .then(|| end.state(now));
            let (Some((_, association)), Some((writer, _))) =
                (&mut end.association, &mut end.writer)
            else {
                return;
            };
            let (session, links) = (&mut host.session, &mut host.path_links);
            let queued = association.queued();
            let state = state.flatten();
            let mut step = writer.step(now, session, links, state.as_ref(), queued);
            let instructions = std::mem::take(&mut step.instructions);
            if writer.has_work(&instructions)
                && writer.send(now, association, instructions).is_err()
            {
                // Its end is told by an event.
                end.waits = Next::Idle;
                return;
            }
            end.is_full |= writer.waiting() > ByteCount::ZERO;
            end.waits = writer.next(&step);
        }
    }

    /// Puts on the links what the association has to send, and plans its timer.
    fn transmit(&mut self, side: Side) {
        let now = self.network.now();
        while let Some(own) = &mut self.association
            && let Some((_, association)) = &mut own.ends[place(side)].association
            && let Some(transmit) = association.poll_transmit(now)
        {
            // Room in its queue is room for records.
            own.ends[place(side)].notified |= own.ends[place(side)].is_established;
            self.put_on_link(side, transmit);
        }
        let Some(own) = &mut self.association else {
            return;
        };
        let end = &mut own.ends[place(side)];
        let due = end
            .association
            .as_ref()
            .and_then(|(_, it)| it.poll_timeout());
        if let Some(at) = due.map(|at| at.max(now))
            && end.planned.is_none_or(|planned| at < planned)
        {
            end.planned = Some(at);
            self.network.set_alarm(at, Token::Association(side).pack());
        }
    }

    fn put_on_link(&mut self, side: Side, transmit: Transmit) {
        // No link of a scenario is too narrow for a packet.
        let Transmit {
            route, datagram, ..
        } = transmit;
        let link = match side {
            Side::Client => route.local.link,
            Side::Gateway => link_of(&route),
        };
        let Some(link) = (link.value() as usize).checked_sub(1) else {
            return;
        };
        if let Some(own) = &self.association
            && link < self.keepers.len()
        {
            self.network.send_datagram(Datagram {
                channel: own.channel,
                link,
                to_server: side == Side::Client,
                payload: datagram,
                overhead: OVERHEAD,
            });
        }
    }
}

/// The client's link at the other end of a route of the gateway.
fn link_of(route: &Route) -> LinkIndex {
    let client = route.remote.ip();
    let number = (0..255).find(|number| client_local(*number).address == client);
    number.map_or(LinkIndex::ALL, |number| client_local(number).link)
}

const PORT: u16 = 9899;
/// The seal, with UDP's header and IPv4's.
const OVERHEAD: ByteCount = ByteCount::new(datagram::OVERHEAD as u64 + 28);
