//! Two hosts with a session between them over every link: the simulated stand-in for the driver,
//! the client that opens connections, and the gateway that accepts them.
//!
//! The parts below keep their own state and do not call each other. [`Bond`] runs them: it calls
//! one, asks the session for its news, and calls the parts that these concern.

mod association_channel;
mod association_end;
mod connections;
mod host;
mod keeper;
mod rival;
mod side;
mod token;
mod writer;

use std::collections::VecDeque;
use std::time::Duration;

use hawser_channels::keeper::{AttemptFailure, KeeperAction};
use hawser_channels::tcp_writer::Next;
use hawser_scenario::{Action, Congestion, Direction, Link, Scenario};
use hawser_session::{ChannelSpec, Event, Outgoing, Session, SessionConfig, Side, TransportChoice};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex};
use hawser_wire::ChannelRole;

use crate::arrivals::Arrivals;
use crate::association::client_local;
use crate::network::{End, Happening, Network, UdpFate};
use association_channel::{Associations, Ran};
use connections::{Connections, Handshake, Stage};
use host::Host;
use keeper::Keeper;
use rival::Rivals;
use side::{place, side_of};
use token::Token;

/// How the two ends are set up.
#[derive(Clone, Debug)]
pub struct BondConfig {
    /// Both sessions'.
    pub session: SessionConfig,
    /// The congestion control of every channel; `None`: as the session chooses.
    pub congestion: Option<Congestion>,
    /// What chunks go over. With anything but TCP the client begins an association as soon as it
    /// may.
    pub transport: TransportChoice,
    /// What becomes of UDP from the beginning on.
    pub udp: UdpFate,
}

impl Default for BondConfig {
    fn default() -> Self {
        Self {
            // Only who asks for a recording pays for it.
            session: SessionConfig {
                recorder: ByteCount::ZERO,
                ..SessionConfig::default()
            },
            congestion: None,
            transport: TransportChoice::Tcp,
            udp: UdpFate::Passes,
        }
    }
}

/// A client and a gateway, the session between them, and the links below.
pub struct Bond {
    network: Network,
    config: BondConfig,
    /// The gateway, the client.
    hosts: [Host; 2],
    /// By link.
    keepers: Vec<Keeper>,
    connections: Connections,
    /// Connections of others over the same links.
    rivals: Rivals,
    associations: Associations,
    seed: u64,
    signals: VecDeque<Signal>,
    began: bool,
}

/// What the owner of a bond is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// An event of a session that concerns applications.
    Event(Side, Event),
    /// An alarm set by the owner.
    Alarm(u64),
}

impl Bond {
    /// Two hosts that know each other, at the moment at which the client starts.
    pub fn new(scenario: &Scenario, seed: u64, config: BondConfig) -> Self {
        let mut network = Network::new(&scenario.links, scenario.server.as_ref(), seed);
        network.set_udp(config.udp);
        let now = network.now();
        let host = |side| {
            let session = Session::new(now, side, config.session.clone());
            Host::new(side, session)
        };
        let links = scenario.links.len();
        let mut bond = Self {
            hosts: [host(Side::Gateway), host(Side::Client)],
            keepers: (0..links).map(|_| Keeper::new(now, None)).collect(),
            connections: Connections::new(config.congestion),
            rivals: Rivals::default(),
            associations: Associations::new(links),
            network,
            config,
            seed,
            signals: VecDeque::new(),
            began: false,
        };
        let stage = Stage::First(Handshake::Connecting);
        for link in 0..links {
            bond.connect(link, ChannelRole::Express, None, stage);
        }
        bond
    }

    /// The present.
    pub fn now(&self) -> Instant {
        self.network.now()
    }

    /// The links and connections.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// One side's session, to look at.
    pub fn session(&self, side: Side) -> &Session {
        self.hosts[place(side)].session()
    }

    /// Works on a session as an application does.
    pub fn with<R>(&mut self, side: Side, work: impl FnOnce(&mut Session, Instant) -> R) -> R {
        let now = self.now();
        let result = work(self.hosts[place(side)].session_mut(), now);
        self.settle(side);
        result
    }

    /// Reports [`Signal::Alarm`] at a time; `token` below 2^56.
    pub fn set_alarm(&mut self, at: Instant, token: u64) {
        self.network.set_alarm(at, Token::Owner(token).pack());
    }

    /// Lets something happen to a link, now.
    pub fn act(&mut self, link: usize, action: Action) {
        match action {
            Action::BlackHole => self.network.set_black_hole(link, true),
            Action::Pass => self.network.set_black_hole(link, false),
            Action::CarrierDown => {
                self.network.set_black_hole(link, true);
                self.lose_link(link, true);
                self.move_association(link, false);
            }
            Action::CarrierUp => {
                self.network.set_black_hole(link, false);
                self.keepers[link].set_up();
                self.look_after(link);
                self.move_association(link, true);
            }
            Action::AddressChange => {
                self.lose_link(link, false);
                self.keepers[link].set_up();
                self.look_after(link);
            }
        }
    }

    /// Decides what becomes of UDP from now on.
    pub fn set_udp(&mut self, fate: UdpFate) {
        self.network.set_udp(fate);
    }

    /// Lets packets of more than `most` bytes vanish on a link from `at` on, both ways.
    pub fn narrow(&mut self, link: usize, at: Instant, most: ByteCount) {
        self.network.narrow(link, at, most);
    }

    /// Makes a link another one from `at` on, of the same delay.
    pub fn change(&mut self, link: usize, at: Instant, into: &Link) {
        self.network.change(link, at, into);
    }

    /// Starts a competing connection over a link, which sends for ever.
    pub fn add_rival(&mut self, link: usize, congestion: Congestion, direction: Direction) {
        self.rivals
            .add(&mut self.network, link, congestion, direction);
    }

    /// What has come over each of the others' connections, in the order in which they began.
    pub fn rivals(&self) -> impl Iterator<Item = &Arrivals> {
        self.rivals.arrivals()
    }

    /// Lets time pass until there is something to tell, at `until` at most.
    pub fn step(&mut self, until: Instant) -> Option<Signal> {
        loop {
            if let Some(signal) = self.signals.pop_front() {
                return Some(signal);
            }
            match self.network.step(until)? {
                Happening::End(end) => self.on_end(end),
                Happening::Alarm(token) => self.on_alarm(Token::unpack(token)),
                Happening::Datagram => self.on_datagram(),
            }
        }
    }

    /// Lets time pass, without reporting events.
    pub fn rest(&mut self, span: Duration) {
        let until = self.now() + span;
        while self.step(until).is_some() {}
    }

    /// How many channels both sides have.
    pub fn channels(&self) -> usize {
        let [gateway, client] = &self.hosts;
        gateway.channels().min(client.channels())
    }

    /// Tells both sessions what is known of the association now, as the driver does before it makes
    /// a snapshot: otherwise they hear of it only while they use it.
    pub fn sample_associations(&mut self) {
        if let Some(channel) = self.associations.channel() {
            self.sample_association(Side::Gateway, channel);
            self.sample_association(Side::Client, channel);
        }
    }

    fn on_alarm(&mut self, token: Token) {
        match token {
            Token::Timer(side) => self.fire(side),
            Token::Hold(side, channel) => self.write(side, channel),
            Token::Keeper(link) => self.look_after(link),
            Token::Association(side) => {
                if self.associations.on_alarm(self.network.now(), side) {
                    self.run_association(side);
                }
            }
            Token::BeginAssociation => self.begin_association(),
            Token::Owner(token) => self.signals.push_back(Signal::Alarm(token)),
        }
    }

    fn on_end(&mut self, end: End) {
        let Some(stage) = self.connections.stage(end) else {
            return self.rivals.on_end(&mut self.network, end);
        };
        match stage {
            Stage::First(handshake) => {
                if self
                    .connections
                    .shake_hands(&mut self.network, end, handshake)
                {
                    self.begin(end);
                }
            }
            Stage::Connecting => self.try_join(end),
            Stage::Joining(id, admitted) => self.joining(end, id, admitted),
            Stage::Channel(id) => self.on_channel(end, id),
            Stage::Over => {}
        }
    }
}

/// Sessions, and what they say after they were worked on.
impl Bond {
    /// Hands out what a session has to say after it was worked on, and lets writers write.
    fn settle(&mut self, side: Side) {
        let index = place(side);
        loop {
            let host = &mut self.hosts[index];
            if let Some(id) = host.session_mut().poll_wake() {
                self.wake(side, id);
                continue;
            }
            let Some(event) = host.session_mut().poll_event() else {
                break;
            };
            self.on_event(side, event);
        }
        self.hosts[index].plan_timer(&mut self.network);
        if self.hosts[index].take_change() && side == Side::Client {
            let now = self.now();
            for link in 0..self.keepers.len() {
                self.keepers[link].on_change(now);
                self.look_after(link);
            }
            self.begin_association();
        }
    }

    fn on_event(&mut self, side: Side, event: Event) {
        if let Some(writer) = self.hosts[place(side)].on_event(&event) {
            self.network.close(writer.end(), true);
        }
        match &event {
            Event::Dead(id) => self.associations.end(&mut self.network, *id),
            Event::AssociationExpected(id) => self.associations.expect(*id),
            Event::RulesChanged => {
                let (_, links) = self.hosts[place(side)].session_and_links();
                links.mark_stale();
                if self.associations.wake_any(side) {
                    self.run_association(side);
                }
            }
            _ => {}
        }
        self.signals.push_back(Signal::Event(side, event));
    }

    /// A session's timer may be due.
    fn fire(&mut self, side: Side) {
        let now = self.network.now();
        let host = &mut self.hosts[place(side)];
        if !host.on_alarm(now) {
            return host.plan_timer(&mut self.network);
        }
        let busy: Vec<_> = host.session().busy_channels().collect();
        for id in busy {
            if !self.hosts[place(side)].sample(&self.network, id) {
                self.sample_association(side, id);
            }
        }
        let session = self.hosts[place(side)].session_mut();
        session.handle_timeout(now);
        self.settle(side);
    }
}

/// Channels over TCP.
impl Bond {
    /// The session names a channel.
    fn wake(&mut self, side: Side, id: ChannelId) {
        if let Some((writer, _)) = self.hosts[place(side)].writer_mut(id) {
            writer.notify();
        }
        if self.associations.wake(side, id) {
            return self.run_association(side);
        }
        let writer = self.hosts[place(side)].writer(id);
        if writer.is_some_and(writer::Writer::is_woken) {
            self.write(side, id);
        }
    }

    /// A channel's connection has moved.
    fn on_channel(&mut self, end: End, id: ChannelId) {
        let side = side_of(end);
        let host = &mut self.hosts[place(side)];
        if host.writer(id).is_none_or(|writer| writer.end() != end) {
            return;
        }
        if host.take_records(&self.network, &mut self.connections, end, id) {
            self.settle(side);
        }
        if self.network.is_closed(end) {
            return self.lose_channel(side, id);
        }
        let writer = self.hosts[place(side)].writer(id);
        if writer.is_some_and(|writer| writer.is_unblocked(&self.network)) {
            self.write(side, id);
        }
    }

    /// Writes records for as long as there are some and the connection takes them.
    fn write(&mut self, side: Side, id: ChannelId) {
        let writer = self.hosts[place(side)].writer_mut(id);
        if !writer.is_some_and(|(writer, _)| writer.start()) {
            return;
        }
        let mut out = Outgoing::default();
        while self.write_once(side, id, &mut out) {}
        if let Some((writer, _)) = self.hosts[place(side)].writer_mut(id) {
            writer.stop();
        }
    }

    /// Writes what is in hand and takes the next record. Whether to go on.
    fn write_once(&mut self, side: Side, id: ChannelId, out: &mut Outgoing) -> bool {
        let (network, connections) = (&mut self.network, &mut self.connections);
        let Some((writer, session)) = self.hosts[place(side)].writer_mut(id) else {
            return false;
        };
        if !writer.flush(network) {
            return false;
        }
        let next = writer.step(side, session, network, connections, out);
        self.settle(side);
        if next == Next::Write {
            return true;
        }
        let writer = self.hosts[place(side)].writer_mut(id);
        writer.is_some_and(|(writer, _)| writer.wait(side, id, next, &mut self.network))
    }

    fn add_channel(&mut self, end: End, id: ChannelId, records: u64) {
        let (side, link) = (side_of(end), self.connections.link(end));
        let index = LinkIndex::new(link as u32 + 1);
        let spec = ChannelSpec {
            begun_by: Side::Client,
            id,
            role: self.connections.role(end),
            // A gateway learns the first channel's link from the client's hello.
            link: match (side, records) {
                (Side::Gateway, 0) => LinkIndex::new(0),
                _ => index,
            },
            records,
            segment_size: Some(self.network.segment_size(end)),
        };
        let host = &mut self.hosts[place(side)];
        host.add_channel(
            &self.network,
            end,
            spec,
            (index, client_local(link).address),
        );
        self.settle(side);
        self.write(side, id);
    }

    /// A channel's connection is over, as this side sees it.
    fn lose_channel(&mut self, side: Side, id: ChannelId) {
        let now = self.network.now();
        if self.hosts[place(side)].lose_channel(now, id) {
            self.settle(side);
        }
    }

    /// Every channel of a link goes at once, since its carrier or its address has.
    fn lose_link(&mut self, link: usize, carrier: bool) {
        self.keepers[link] = Keeper::down(self.network.now());
        let client = place(Side::Client);
        for (end, stage) in self.connections.over(link) {
            if carrier {
                self.network.close(end, false);
            } else {
                self.network.orphan(end);
            }
            match stage {
                Stage::Channel(id) | Stage::Joining(id, _)
                    if self.hosts[client].writer(id).is_some() =>
                {
                    self.lose_channel(Side::Client, id);
                }
                Stage::Joining(..) | Stage::Connecting => self.abandon(end),
                _ => {}
            }
        }
    }
}

/// Connections that become channels.
impl Bond {
    fn connect(
        &mut self,
        link: usize,
        role: ChannelRole,
        max_segment: Option<u16>,
        stage: Stage,
    ) -> End {
        let network = &mut self.network;
        self.connections
            .connect(network, link, role, max_segment, stage)
    }

    /// The first connection to get through begins the session.
    fn begin(&mut self, end: End) {
        self.began = true;
        let id = ChannelId::new(0);
        self.connections.end_race(&mut self.network, end, id);
        let link = self.connections.link(end);
        self.keepers[link] = Keeper::new(self.network.now(), Some(id));
        self.add_channel(end, id, 0);
        for link in 0..self.keepers.len() {
            self.look_after(link);
        }
    }

    /// Does what the plan of a link asks for now.
    fn look_after(&mut self, link: usize) {
        if !self.began || !self.keepers[link].is_up() {
            return;
        }
        let now = self.now();
        for end in self.keepers[link].overdue(now) {
            self.network.close(end, true);
            self.fail_attempt(link, end, AttemptFailure::NoChannel);
        }
        let (client, index) = (place(Side::Client), LinkIndex::new(link as u32 + 1));
        while let Some(action) = self.keepers[link].poll(now, &self.hosts[client], index) {
            self.execute(link, now, action);
        }
        if let Some(at) = self.keepers[link].next_at(now) {
            self.network.set_alarm(at, Token::Keeper(link).pack());
        }
    }

    fn execute(&mut self, link: usize, now: Instant, action: KeeperAction) {
        match action {
            KeeperAction::Attempt {
                role, max_segment, ..
            } => {
                let stage = Stage::Connecting;
                let end = self.connect(link, role, max_segment, stage);
                self.keepers[link].on_attempt(now, end);
            }
            KeeperAction::AbandonAttempts => {
                for end in self.keepers[link].take_attempts() {
                    self.network.close(end, true);
                    self.abandon(end);
                }
            }
            KeeperAction::Drop(id) => {
                if let Some(writer) = self.hosts[place(Side::Client)].writer(id) {
                    self.network.close(writer.end(), true);
                    self.lose_channel(Side::Client, id);
                }
            }
            // The simulated gateway forgets no session, and no other session is begun here.
            KeeperAction::AskGateway | KeeperAction::EndSession => {}
        }
    }

    /// A connection stands: it takes a number and shows it.
    fn try_join(&mut self, end: End) {
        if !end.client || !self.network.is_established(end) {
            return;
        }
        let now = self.now();
        let (link, role) = (self.connections.link(end), self.connections.role(end));
        let session = self.hosts[place(Side::Client)].session_mut();
        match self.keepers[link].take_turn(now, session, end, role) {
            Ok(id) => {
                self.connections.show_number(&mut self.network, end, id);
                self.keepers[link].on_joining(now, end);
            }
            Err(failure) => {
                self.network.close(end, true);
                self.fail_attempt(link, end, failure);
                self.look_after(link);
            }
        }
    }

    /// A connection that one side, or none, takes for a channel yet.
    fn joining(&mut self, end: End, id: ChannelId, admitted: bool) {
        let is_first = id.value() == 0;
        if !end.client && !admitted {
            self.admit(end, id, is_first);
        } else if end.client && !is_first {
            self.try_finish_join(end, id);
        } else {
            self.on_channel(end, id);
        }
    }

    /// The gateway lets a connection in once it knows its number.
    fn admit(&mut self, end: End, id: ChannelId, is_first: bool) {
        if !Connections::has_number(&self.network, end, is_first) {
            return;
        }
        self.connections.set_stage(end, Stage::Joining(id, true));
        let session = self.hosts[place(Side::Gateway)].session_mut();
        if is_first {
            self.connections.set_stage(end, Stage::Channel(id));
            self.add_channel(end, id, 0);
        } else if session.reserve_join(id).is_ok() {
            Connections::answer_join(&mut self.network, end);
            self.add_channel(end, id, 1);
        } else {
            self.network.close(end, true);
        }
        self.on_channel(end, id);
    }

    /// The client takes a connection for a channel once it was let in.
    fn try_finish_join(&mut self, end: End, id: ChannelId) {
        let link = self.connections.link(end);
        if Connections::has_join_answer(&self.network, end) {
            self.connections.set_stage(end, Stage::Channel(id));
            let (now, role) = (self.now(), self.connections.role(end));
            if self.keepers[link].on_joined(now, end, role, id) {
                self.add_channel(end, id, 1);
                self.on_channel(end, id);
            } else {
                self.network.close(end, true);
                self.with(Side::Client, |session, now| session.give_up_grant(now, id));
                self.look_after(link);
            }
        } else if self.network.is_closed(end) {
            // The gateway has broken it off.
            self.fail_attempt(link, end, AttemptFailure::Broken);
            self.look_after(link);
        }
    }

    /// An attempt has failed.
    fn fail_attempt(&mut self, link: usize, end: End, failure: AttemptFailure) {
        let is_joining = matches!(self.connections.stage(end), Some(Stage::Joining(..)));
        let joining = is_joining.then(|| self.connections.role(end));
        self.abandon(end);
        let is_cut_off = self.hosts[place(Side::Client)].channels() == 0;
        self.keepers[link].on_failed(end, joining, failure, is_cut_off);
    }

    /// A connection that was to become a channel will not. What may have become one at the gateway
    /// already is given up there too.
    fn abandon(&mut self, end: End) {
        let stage = self.connections.stage(end);
        self.connections.set_stage(end, Stage::Over);
        if let Some(Stage::Joining(id, _)) = stage {
            self.with(Side::Client, |session, now| session.give_up_grant(now, id));
        }
    }
}

/// The association that carries a channel.
impl Bond {
    /// The client may begin an association, if it is to have one and has none.
    fn begin_association(&mut self) {
        let now = self.now();
        let wanted = self.config.transport != TransportChoice::Tcp;
        if !wanted || !self.associations.may_begin(now) {
            return;
        }
        let session = self.hosts[place(Side::Client)].session_mut();
        let Some(channel) = session.take_grant() else {
            return;
        };
        session.set_transport(now, self.config.transport);
        session.begin_association(now, channel);
        let up = self.keepers.iter().enumerate();
        let up = up.filter(|(_, keeper)| keeper.is_up());
        let locals: Vec<_> = up.map(|(link, _)| client_local(link)).collect();
        let config = &self.config.session;
        self.associations
            .begin(now, channel, config, &locals, self.seed);
        self.settle(Side::Client);
        self.run_association(Side::Client);
    }

    fn on_datagram(&mut self) {
        while let Some(datagram) = self.network.take_datagram() {
            let handled = self
                .associations
                .handle_datagram(&mut self.network, datagram);
            if let Some(side) = handled {
                self.run_association(side);
            }
        }
    }

    /// A link has come or gone for the client.
    fn move_association(&mut self, link: usize, is_there: bool) {
        if self
            .associations
            .move_link(&mut self.network, link, is_there)
        {
            self.run_association(Side::Client);
        }
    }

    /// Tells the session's side what is known of the association.
    fn sample_association(&mut self, side: Side, channel: ChannelId) {
        let now = self.now();
        let host = &mut self.hosts[place(side)];
        self.associations.sample(now, side, channel, host);
    }

    /// Does for one end what there is to do.
    fn run_association(&mut self, side: Side) {
        if !self.associations.start(side) {
            return;
        }
        loop {
            let host = &mut self.hosts[place(side)];
            match self.associations.run_once(side, host, &mut self.network) {
                Ran::Something => self.settle(side),
                Ran::Nothing => break,
                Ran::Lost(channel) => {
                    self.lose_association(channel);
                    break;
                }
            }
        }
        self.associations.stop(side);
    }

    fn lose_association(&mut self, channel: ChannelId) {
        let now = self.network.now();
        for host in &mut self.hosts {
            host.session_mut().handle_channel_lost(now, channel);
        }
        self.associations.end(&mut self.network, channel);
        self.settle(Side::Gateway);
        self.settle(Side::Client);
    }
}

impl std::fmt::Debug for Bond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bond at {:?}", self.now())
    }
}
