//! The association that a session rides on beside its connections, and what the driver does for it.

mod messages;

use std::time::Duration;

use hawser_sctp::{
    Association, AssociationConfig, AssociationId, Begin, Endpoint, EndpointConfig, Event, Handled,
    LinkWord, Local, Message, Place, Route, Transmit,
};
use hawser_session::seal::datagram;
use hawser_session::{ChannelSpec, Side, TransportChoice};
use hawser_types::{ByteCount, ChannelId, Instant};
use hawser_wire::sctp::StreamNumber;

use super::{Bond, Token, place};
use crate::association::compare::sealed;
use crate::association::{client_local, server_local};
use crate::network::Datagram;
use messages::link_of;

/// Both ends of an association, from its first datagram on.
pub(super) struct Rider {
    pub(super) channel: ChannelId,
    /// The gateway's, the client's.
    ends: [RiderEnd; 2],
    /// The gateway knows its keys.
    expected: bool,
}

struct RiderEnd {
    endpoint: Endpoint,
    association: Option<(AssociationId, Association)>,
    /// The session has the channel.
    joined: bool,
    /// A message that there was no room for.
    held: Option<(StreamNumber, Message)>,
    next_sample: Instant,
    planned: Option<Instant>,
    /// There may be work, and it is being done.
    notified: bool,
    running: bool,
}

impl RiderEnd {
    fn new(config: &AssociationConfig, locals: &[Local], seed: u64) -> Self {
        let config = EndpointConfig::new(config.clone(), locals);
        Self {
            endpoint: Endpoint::new(config, [seed as u8; 32], seed),
            association: None,
            joined: false,
            held: None,
            next_sample: Instant::ZERO,
            planned: None,
            notified: false,
            running: false,
        }
    }
}

impl Bond {
    /// The client may begin an association, if it is to have one and has none.
    pub(super) fn look_after_rider(&mut self) {
        let now = self.now();
        let wanted = self.config.transport != TransportChoice::Tcp;
        if !wanted || self.rider.is_some() || now < self.next_ride {
            return;
        }
        let session = &mut self.hosts[place(Side::Client)].session;
        let Some(channel) = session.take_grant() else {
            return;
        };
        session.set_transport(now, self.config.transport);
        session.begin_association(now, channel);
        let config = config();
        let up = self.keepers.iter().enumerate();
        let up = up.filter(|(_, keeper)| keeper.up);
        let locals: Vec<Local> = up.map(|(link, _)| client_local(link)).collect();
        let server = server_local(0);
        let seed = self.seed ^ u64::from(channel.value()) << 8;
        let mut client = RiderEnd::new(&config, &locals, seed ^ 1);
        let gateway = RiderEnd::new(&config, &[server], seed ^ 2);
        let remote = std::net::SocketAddr::new(server.address, PORT);
        client.association = client
            .endpoint
            .connect(now, config, &locals, &[remote])
            .ok();
        self.rider = Some(Rider {
            channel,
            ends: [gateway, client],
            expected: false,
        });
        self.settle(Side::Client);
        self.ride(Side::Client);
    }

    /// The gateway has heard that it comes.
    pub(super) fn expect_rider(&mut self, channel: ChannelId) {
        if let Some(rider) = self.rider.as_mut().filter(|it| it.channel == channel) {
            rider.expected = true;
        }
    }

    /// It is over for both; the client begins another after a while.
    pub(super) fn end_rider(&mut self, channel: ChannelId) {
        if self.rider.as_ref().is_some_and(|it| it.channel == channel) {
            self.rider = None;
            self.next_ride = self.now() + PAUSE;
            self.network.set_alarm(self.next_ride, Token::Ride.pack());
        }
    }

    /// Whether a channel is the association; it has work then.
    pub(super) fn wake_rider(&mut self, side: Side, channel: ChannelId) -> bool {
        let rider = self.rider.as_mut().filter(|it| it.channel == channel);
        let is_it = rider.is_some();
        if is_it {
            self.ride(side);
        }
        is_it
    }

    pub(super) fn on_datagram(&mut self) {
        let now = self.now();
        while let Some(datagram) = self.network.take_datagram() {
            let rider = self.rider.as_mut();
            let Some(rider) = rider.filter(|it| it.channel == datagram.channel) else {
                continue;
            };
            let side = match datagram.to_server {
                true => Side::Gateway,
                false => Side::Client,
            };
            // What opens with no key that is known is not answered.
            if side == Side::Gateway && !rider.expected {
                continue;
            }
            let (local, remote) = match side {
                Side::Gateway => (server_local(0), client_local(datagram.link)),
                Side::Client => (client_local(datagram.link), server_local(0)),
            };
            let remote = std::net::SocketAddr::new(remote.address, PORT);
            let route = Route { local, remote };
            let end = &mut rider.ends[place(side)];
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
            self.ride(side);
        }
    }

    /// A timer of an association may be due.
    pub(super) fn fire_rider(&mut self, side: Side) {
        let now = self.now();
        if let Some(rider) = &mut self.rider {
            let end = &mut rider.ends[place(side)];
            // An alarm in whose place an earlier one was set is nobody's: it would set one of its own.
            if end.planned.take_if(|planned| *planned <= now).is_none() {
                return;
            }
            if let Some((_, association)) = &mut end.association
                && association.poll_timeout().is_some_and(|at| at <= now)
            {
                association.handle_timeout(now);
            }
            self.ride(side);
        }
    }

    /// A link has come or gone for the client.
    pub(super) fn move_rider(&mut self, link: usize, is_there: bool) {
        let now = self.now();
        let Some(rider) = &mut self.rider else {
            return;
        };
        let local = client_local(link);
        if let Some((_, association)) = &mut rider.ends[place(Side::Client)].association {
            match is_there {
                true => association.add_local(now, local),
                false => association.remove_local(now, local),
            }
            self.ride(Side::Client);
        }
    }

    /// Does for one end what there is to do.
    fn ride(&mut self, side: Side) {
        let Some(rider) = &mut self.rider else {
            return;
        };
        let end = &mut rider.ends[place(side)];
        end.notified = true;
        if std::mem::replace(&mut end.running, true) {
            // Its own work has led here: it looks again when that is done.
            return;
        }
        while self.ride_once(side) {}
        if let Some(rider) = &mut self.rider {
            rider.ends[place(side)].running = false;
        }
    }

    /// Whether there may be more to do.
    fn ride_once(&mut self, side: Side) -> bool {
        let Some(rider) = &mut self.rider else {
            return false;
        };
        let (channel, end) = (rider.channel, &mut rider.ends[place(side)]);
        if !std::mem::take(&mut end.notified) {
            return false;
        }
        let mut over = false;
        while let Some((id, association)) = &mut end.association
            && let Some(event) = association.poll_event()
        {
            match event {
                Event::Established => end.joined = true,
                Event::PeerAddresses(known) => end.endpoint.addresses_changed(*id, &known),
                Event::Closed(_) | Event::Restarted => over = true,
                _ => {}
            }
        }
        if over {
            let now = self.network.now();
            for side in [Side::Gateway, Side::Client] {
                let session = &mut self.hosts[place(side)].session;
                session.handle_channel_lost(now, channel);
            }
            self.end_rider(channel);
            self.settle(Side::Gateway);
            self.settle(Side::Client);
            return false;
        }
        if end.joined {
            self.add_rider(side, channel);
            self.take_messages(side, channel);
            self.give_messages(side, channel);
        }
        self.transmit(side);
        self.settle(side);
        true
    }

    fn add_rider(&mut self, side: Side, channel: ChannelId) {
        let now = self.network.now();
        let host = &mut self.hosts[place(side)];
        if host.riding.replace(channel) != Some(channel) {
            host.session
                .add_channel(now, ChannelSpec::association(channel));
            self.sample_rider(side, channel);
        }
    }

    /// Puts on the links what the association has to send, and plans its timer.
    fn transmit(&mut self, side: Side) {
        let now = self.network.now();
        while let Some(rider) = &mut self.rider
            && let Some((_, association)) = &mut rider.ends[place(side)].association
            && let Some(transmit) = association.poll_transmit(now)
        {
            // Room in its queue is room for records.
            rider.ends[place(side)].notified |= rider.ends[place(side)].joined;
            self.put_on_link(side, transmit);
        }
        let Some(rider) = &mut self.rider else {
            return;
        };
        let end = &mut rider.ends[place(side)];
        let due = end
            .association
            .as_ref()
            .and_then(|(_, it)| it.poll_timeout());
        if let Some(at) = due.map(|at| at.max(now))
            && end.planned.is_none_or(|planned| at < planned)
        {
            end.planned = Some(at);
            self.network.set_alarm(at, Token::Rider(side).pack());
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
        if let Some(rider) = &self.rider
            && link < self.keepers.len()
        {
            self.network.send_datagram(Datagram {
                channel: rider.channel,
                link,
                to_server: side == Side::Client,
                payload: datagram,
                overhead: OVERHEAD,
            });
        }
    }

    /// The terms of links have changed for one side.
    pub(super) fn set_rider_links(&mut self, side: Side) {
        let session = &self.hosts[place(side)].session;
        let rules = session.link_rules();
        let words = rules.map(|(link, terms)| LinkWord {
            place: match side {
                Side::Client => Place::Link(link),
                Side::Gateway => {
                    let number = (link.value() as usize).saturating_sub(1);
                    Place::Remote(client_local(number).address)
                }
            },
            link,
            terms,
        });
        let words: Vec<_> = words.collect();
        if let Some(rider) = &mut self.rider
            && let Some((_, association)) = &mut rider.ends[place(side)].association
        {
            association.set_links(words);
        }
    }
}

fn config() -> AssociationConfig {
    AssociationConfig {
        begin: Begin::AtOnce,
        max_init_retransmissions: 5,
        ..sealed(AssociationConfig::default())
    }
}

const PORT: u16 = 9899;
/// The seal, with UDP's header and IPv4's.
const OVERHEAD: ByteCount = ByteCount::new(datagram::OVERHEAD as u64 + 28);
/// How long after an association failed another is begun.
const PAUSE: Duration = Duration::from_secs(1);
