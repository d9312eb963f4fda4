//! The association that carries a channel of the session beside its TCP connections, and the
//! driver's work for it.

use std::net::SocketAddr;

use hawser_channels::association::{
    AssociationBackOff, AssociationWriter, Next, association_config, below_seal, record_of,
};
use hawser_sctp::{Handled, Local, Route, Transmit};
use hawser_session::seal::datagram;
use hawser_session::{ChannelSpec, SessionConfig, Side};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex};

use super::association_end::AssociationEnd;
use super::host::Host;
use super::side::place;
use super::token::Token;
use crate::association::{client_local, server_local};
use crate::network::{Datagram, Network};

/// The association of a session, one after another.
///
/// Where a function returns true, or the side that it returns, has work to do: a run of that end
/// is [`Associations::start`], [`Associations::run_once`] until it returns [`Ran::Nothing`], and
/// [`Associations::stop`]. After each the session is to be asked what it has to tell.
pub(super) struct Associations {
    current: Option<AssociationChannel>,
    back_off: AssociationBackOff,
    /// Time from which another may begin.
    next: Instant,
    /// Links of the client.
    links: usize,
}

/// Both ends of an association, from its first datagram on.
struct AssociationChannel {
    channel: ChannelId,
    began: Instant,
    /// The gateway's end, the client's.
    ends: [AssociationEnd; 2],
    /// The gateway knows its keys.
    expected: bool,
}

/// What a run of one end came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    /// There was nothing to do.
    Nothing,
    /// There may be more to do.
    Something,
    /// The association is over, and the channel with it.
    Lost(ChannelId),
}

impl Associations {
    pub(super) fn new(links: usize) -> Self {
        Self {
            current: None,
            back_off: AssociationBackOff::default(),
            next: Instant::ZERO,
            links,
        }
    }

    /// True if there is no association, and another may begin.
    pub(super) fn may_begin(&self, now: Instant) -> bool {
        self.current.is_none() && now >= self.next
    }

    /// Begins one as this channel, from these addresses of the client.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        channel: ChannelId,
        session: &SessionConfig,
        locals: &[Local],
        seed: u64,
    ) {
        let config = |side| below_seal(association_config(session, side));
        let server = server_local(0);
        let seed = seed ^ u64::from(channel.value()) << 8;
        let own = config(Side::Client);
        let mut client = AssociationEnd::new(&own, locals, seed ^ 1);
        let gateway = AssociationEnd::new(&config(Side::Gateway), &[server], seed ^ 2);
        let remote = SocketAddr::new(server.address, PORT);
        client.association = client.endpoint.connect(now, own, locals, &[remote]).ok();
        self.current = Some(AssociationChannel {
            channel,
            began: now,
            ends: [gateway, client],
            expected: false,
        });
    }

    /// Returns the channel of the association; `None` without an association.
    pub(super) fn channel(&self) -> Option<ChannelId> {
        self.current.as_ref().map(|own| own.channel)
    }

    /// The gateway has heard that it comes.
    pub(super) fn expect(&mut self, channel: ChannelId) {
        if let Some(own) = self.current.as_mut().filter(|it| it.channel == channel) {
            own.expected = true;
        }
    }

    /// It is over for both; another may begin after a while.
    pub(super) fn end(&mut self, network: &mut Network, channel: ChannelId) {
        if let Some(own) = self.current.take_if(|it| it.channel == channel) {
            let age = network.now().since(own.began);
            let pause = self.back_off.next_pause(age);
            self.plan(network, network.now() + pause);
        }
    }

    fn plan(&mut self, network: &mut Network, at: Instant) {
        self.next = at;
        network.set_alarm(at, Token::BeginAssociation.pack());
    }

    /// The session names a channel. Returns true if that is the association, which has work then.
    pub(super) fn wake(&mut self, side: Side, channel: ChannelId) -> bool {
        self.channel() == Some(channel) && self.wake_any(side)
    }

    /// Something has changed for the writer of one end. Returns true if there is an association.
    pub(super) fn wake_any(&mut self, side: Side) -> bool {
        let own = self.current.as_mut();
        own.is_some_and(|own| {
            own.ends[place(side)].is_woken = true;
            true
        })
    }

    /// A datagram has come. Returns the side that has work then.
    pub(super) fn handle_datagram(
        &mut self,
        network: &mut Network,
        datagram: Datagram,
    ) -> Option<Side> {
        let links = self.links;
        let own = self.current.as_mut();
        let own = own.filter(|it| it.channel == datagram.channel)?;
        own.handle_datagram(network, links, datagram)
    }

    /// The alarm of one end's timer has come. Returns true if that end has work then.
    pub(super) fn on_alarm(&mut self, now: Instant, side: Side) -> bool {
        let Some(own) = &mut self.current else {
            return false;
        };
        let end = &mut own.ends[place(side)];
        // An earlier alarm has taken the place of this one: it would set one of its own.
        if end.planned.take_if(|planned| *planned <= now).is_none() {
            return false;
        }
        if let Some((_, association)) = &mut end.association
            && association.poll_timeout().is_some_and(|at| at <= now)
        {
            association.handle_timeout(now);
        }
        true
    }

    /// A link has come or gone for the client. An association that did not come about may do so
    /// now. Returns true if the client's end has work then.
    pub(super) fn move_link(&mut self, network: &mut Network, link: usize, is_there: bool) -> bool {
        let now = network.now();
        let Some(own) = &mut self.current else {
            self.back_off.reset();
            self.plan(network, now);
            return false;
        };
        let local = client_local(link);
        let Some((_, association)) = &mut own.ends[place(Side::Client)].association else {
            return false;
        };
        if is_there {
            association.add_local(now, local);
        } else {
            association.remove_local(now, local);
        }
        true
    }

    /// Tells a side's session what is known of the association, if it is this channel.
    pub(super) fn sample(&mut self, now: Instant, side: Side, channel: ChannelId, host: &mut Host) {
        let own = self.current.as_mut().filter(|it| it.channel == channel);
        if let Some(state) = own.and_then(|it| it.ends[place(side)].take_state(now)) {
            let (session, links) = host.session_and_links();
            state.report(now, session, channel, links);
        }
    }

    /// Begins a run of one end. Returns false without an association, or during another run: the
    /// caller is part of that run, which checks again when it is done.
    pub(super) fn start(&mut self, side: Side) -> bool {
        let Some(own) = &mut self.current else {
            return false;
        };
        let end = &mut own.ends[place(side)];
        end.notified = true;
        !std::mem::replace(&mut end.running, true)
    }

    /// Does once what there is to do for one end.
    pub(super) fn run_once(&mut self, side: Side, host: &mut Host, network: &mut Network) -> Ran {
        let links = self.links;
        let Some(own) = &mut self.current else {
            return Ran::Nothing;
        };
        let end = &mut own.ends[place(side)];
        if !std::mem::take(&mut end.notified) {
            return Ran::Nothing;
        }
        if !end.take_events() {
            return Ran::Lost(own.channel);
        }
        if end.is_established {
            let now = network.now();
            own.add_to_session(now, side, host);
            own.take_messages(now, side, host);
            own.write(now, side, host);
        }
        own.transmit(network, links, side);
        Ran::Something
    }

    /// Ends a run of one end.
    pub(super) fn stop(&mut self, side: Side) {
        if let Some(own) = &mut self.current {
            own.ends[place(side)].running = false;
        }
    }
}

impl AssociationChannel {
    fn handle_datagram(
        &mut self,
        network: &mut Network,
        links: usize,
        datagram: Datagram,
    ) -> Option<Side> {
        let now = network.now();
        let side = if datagram.to_server {
            Side::Gateway
        } else {
            Side::Client
        };
        // What opens with no key that is known is not answered.
        if side == Side::Gateway && !self.expected {
            return None;
        }
        let (local, remote) = match side {
            Side::Gateway => (server_local(0), client_local(datagram.link)),
            Side::Client => (client_local(datagram.link), server_local(0)),
        };
        let remote = SocketAddr::new(remote.address, PORT);
        let route = Route { local, remote };
        let end = &mut self.ends[place(side)];
        match end.endpoint.handle_datagram(now, route, datagram.payload) {
            Handled::Ignored(_) => {}
            Handled::Reply(transmit) => self.put_on_link(network, links, side, transmit),
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
        Some(side)
    }

    /// Adds the channel to the session, once.
    fn add_to_session(&mut self, now: Instant, side: Side, host: &mut Host) {
        let end = &mut self.ends[place(side)];
        if let Some((_, association)) = &end.association
            && end.writer.is_none()
        {
            let streams = association.outbound_streams();
            end.writer = Some((AssociationWriter::new(now, self.channel, streams), now));
            let (session, links) = host.session_and_links();
            links.mark_stale();
            session.add_channel(now, ChannelSpec::association(self.channel));
            session.handle_writable(now, self.channel);
        }
    }

    /// Hands messages that have come to the session.
    fn take_messages(&mut self, now: Instant, side: Side, host: &mut Host) {
        while let Some((_, association)) = &mut self.ends[place(side)].association
            && let Some(received) = association.receive()
        {
            let record = record_of(&received).expect("records are short");
            let session = host.session_mut();
            if let Err(fault) = session.handle_record(now, self.channel, record) {
                // Sessions of one program never misunderstand each other.
                unreachable!("{fault}");
            }
        }
    }

    /// Moves records from the session to the association, as the driver's writing task does.
    fn write(&mut self, now: Instant, side: Side, host: &mut Host) {
        let end = &mut self.ends[place(side)];
        while end.is_writer_due() {
            end.is_woken = false;
            let is_due = |(writer, _): &(AssociationWriter, Instant)| writer.is_sample_due(now);
            let state = end
                .writer
                .as_ref()
                .is_some_and(is_due)
                .then(|| end.take_state(now));
            let (Some((_, association)), Some((writer, _))) =
                (&mut end.association, &mut end.writer)
            else {
                return;
            };
            let (session, links) = host.session_and_links();
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
    fn transmit(&mut self, network: &mut Network, links: usize, side: Side) {
        let now = network.now();
        while let Some((_, association)) = &mut self.ends[place(side)].association
            && let Some(transmit) = association.poll_transmit(now)
        {
            // Room in its queue is room for records.
            self.ends[place(side)].notified |= self.ends[place(side)].is_established;
            self.put_on_link(network, links, side, transmit);
        }
        let end = &mut self.ends[place(side)];
        let due = end
            .association
            .as_ref()
            .and_then(|(_, it)| it.poll_timeout());
        if let Some(at) = due.map(|at| at.max(now))
            && end.planned.is_none_or(|planned| at < planned)
        {
            end.planned = Some(at);
            network.set_alarm(at, Token::Association(side).pack());
        }
    }

    fn put_on_link(&self, network: &mut Network, links: usize, side: Side, transmit: Transmit) {
        // No link of a scenario is too narrow for a packet.
        let Transmit {
            route, datagram, ..
        } = transmit;
        let link = match side {
            Side::Client => route.local.link,
            Side::Gateway => {
                let client = route.remote.ip();
                let number = (0..255).find(|number| client_local(*number).address == client);
                number.map_or(LinkIndex::ALL, |number| client_local(number).link)
            }
        };
        let link = (link.value() as usize).checked_sub(1);
        if let Some(link) = link.filter(|link| *link < links) {
            network.send_datagram(Datagram {
                channel: self.channel,
                link,
                to_server: side == Side::Client,
                payload: datagram,
                overhead: OVERHEAD,
            });
        }
    }
}

const PORT: u16 = 9899;
/// The seal, with UDP's header and IPv4's.
const OVERHEAD: ByteCount = ByteCount::new(datagram::OVERHEAD as u64 + 28);
