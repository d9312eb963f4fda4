//! Two hosts with a session between them over every link: the simulated stand-in for the driver,
//! the client that makes connections, and the gateway that accepts them.

mod association_channel;
mod association_end;
mod host;
mod keeper;
mod rival;
mod token;
mod writer;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use hawser_channels::association::AssociationBackOff;
use hawser_channels::keeper::JOIN_TIMEOUT;
use hawser_scenario::{Action, Congestion, Scenario};
use hawser_session::{ChannelSpec, Event, Session, SessionConfig, Side, TransportChoice};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex};
use hawser_wire::ChannelRole;

use crate::association::client_local;
use crate::network::{End, Happening, Network};
use crate::tcp::{SEGMENT, TcpConfig};
use association_channel::AssociationChannel;
use host::Host;
use keeper::Keeper;
use rival::Rival;
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
        }
    }
}

/// A client and a gateway, the session between them, and the links below.
pub struct Bond {
    network: Network,
    config: BondConfig,
    /// The gateway, the client.
    hosts: [Host; 2],
    keepers: Vec<Keeper>,
    uses: BTreeMap<usize, Use>,
    /// Connections of others over the same links.
    rivals: BTreeMap<usize, Rival>,
    /// The association that carries a channel.
    association: Option<AssociationChannel>,
    association_back_off: AssociationBackOff,
    /// Time from which another association may begin.
    next_association: Instant,
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

/// What a connection is, and which records are on their way over it.
#[derive(Debug)]
struct Use {
    link: usize,
    role: ChannelRole,
    stage: Stage,
    /// Records with the position of their end, by the side that they go to: gateway, client.
    records: [VecDeque<(u64, Bytes)>; 2],
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// One of those that race for the handshake.
    First(Handshake),
    /// It is to join; no number was taken for it yet.
    Connecting,
    /// The client has sent its number; the gateway may have let it in.
    Joining(ChannelId, bool),
    /// It carries records, on both sides or on one.
    Channel(ChannelId),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    Connecting,
    Hello,
    Answered,
}

impl Bond {
    /// Two hosts that know each other, at the moment at which the client starts.
    pub fn new(scenario: &Scenario, seed: u64, config: BondConfig) -> Self {
        let network = Network::new(&scenario.links, scenario.server.as_ref(), seed);
        let now = network.now();
        let host = |side| Host::new(side, Session::new(now, side, config.session.clone()));
        let mut bond = Self {
            hosts: [host(Side::Gateway), host(Side::Client)],
            keepers: scenario
                .links
                .iter()
                .map(|_| Keeper::new(now, None))
                .collect(),
            network,
            config,
            uses: BTreeMap::new(),
            rivals: BTreeMap::new(),
            association: None,
            association_back_off: AssociationBackOff::default(),
            next_association: Instant::ZERO,
            seed,
            signals: VecDeque::new(),
            began: false,
        };
        for link in 0..bond.keepers.len() {
            bond.connect(
                link,
                ChannelRole::Express,
                Stage::First(Handshake::Connecting),
            );
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
        &self.hosts[place(side)].session
    }

    /// Works on a session as an application does.
    pub fn with<R>(&mut self, side: Side, work: impl FnOnce(&mut Session, Instant) -> R) -> R {
        let now = self.now();
        let result = work(&mut self.hosts[place(side)].session, now);
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
                self.keepers[link].up = true;
                self.look_after(link);
                self.move_association(link, true);
            }
            Action::AddressChange => {
                self.lose_link(link, false);
                self.keepers[link].up = true;
                self.look_after(link);
            }
        }
    }

    /// Lets UDP pass no link any more, or every one again.
    pub fn set_blocks_udp(&mut self, blocks: bool) {
        self.network.set_blocks_datagrams(blocks);
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

    /// Lets time pass; nobody is told of what happens meanwhile.
    pub fn rest(&mut self, span: Duration) {
        let until = self.now() + span;
        while self.step(until).is_some() {}
    }

    /// How many channels both sides have.
    pub fn channels(&self) -> usize {
        let [gateway, client] = &self.hosts;
        gateway.writers.len().min(client.writers.len())
    }

    fn on_alarm(&mut self, token: Token) {
        match token {
            Token::Timer(side) => self.fire(side),
            Token::Hold(side, channel) => self.write(side, channel),
            Token::Keeper(link) => self.look_after(link),
            Token::Association(side) => self.fire_association(side),
            Token::BeginAssociation => self.begin_association(),
            Token::Owner(token) => self.signals.push_back(Signal::Alarm(token)),
        }
    }

    fn on_end(&mut self, end: End) {
        let Some(stage) = self.uses.get(&end.connection).map(|used| used.stage) else {
            return self.on_rival(end);
        };
        match stage {
            Stage::First(handshake) => self.shake_hands(end, handshake),
            Stage::Connecting => self.try_join(end),
            Stage::Joining(id, admitted) => self.joining(end, id, admitted),
            Stage::Channel(id) => self.on_channel(end, id),
            Stage::Over => {}
        }
    }

    fn connect(&mut self, link: usize, role: ChannelRole, stage: Stage) -> End {
        let config = TcpConfig::new(self.config.congestion.unwrap_or(Congestion::Cubic));
        let end = self.network.connect(link, config);
        self.network.set_low_water(end, FIRST_LOW_WATER);
        let used = Use {
            link,
            role,
            stage,
            records: Default::default(),
        };
        self.uses.insert(end.connection, used);
        end
    }

    /// TLS, reduced to the sizes and turns of its messages. The first connection to get through
    /// begins the session.
    fn shake_hands(&mut self, end: End, handshake: Handshake) {
        let stage = match (end.client, handshake) {
            (true, Handshake::Connecting) if self.network.is_established(end) => {
                self.network.write(end, HELLO);
                Handshake::Hello
            }
            (false, Handshake::Hello) if self.network.arrived(end) >= HELLO => {
                self.network.write(end, ANSWER);
                Handshake::Answered
            }
            (true, Handshake::Answered) if self.network.arrived(end) >= ANSWER => {
                return self.begin(end);
            }
            _ => return,
        };
        self.set_stage(end, Stage::First(stage));
    }

    fn begin(&mut self, end: End) {
        self.began = true;
        self.end_race(end);
        self.network.write(end, FINISHED);
        let id = ChannelId::new(0);
        self.set_stage(end, Stage::Joining(id, false));
        let link = self.uses[&end.connection].link;
        self.keepers[link] = Keeper::new(self.network.now(), Some(id));
        self.add_channel(end, id, 0);
        for link in 0..self.keepers.len() {
            self.look_after(link);
        }
    }

    /// The connections that lost are let go of.
    fn end_race(&mut self, winner: End) {
        let racing = self
            .uses
            .iter()
            .filter(|(_, used)| matches!(used.stage, Stage::First(_)));
        let losers: Vec<_> = racing
            .map(|(connection, _)| *connection)
            .filter(|connection| *connection != winner.connection)
            .collect();
        for connection in losers {
            let end = End {
                connection,
                client: true,
            };
            self.network.close(end, true);
            self.set_stage(end, Stage::Over);
        }
    }

    /// A connection stands: it takes a number and shows it.
    fn try_join(&mut self, end: End) {
        if !end.client || !self.network.is_established(end) {
            return;
        }
        let link = self.uses[&end.connection].link;
        let id = match self.take_turn(end) {
            Ok(id) => id,
            Err(failure) => {
                self.network.close(end, true);
                self.fail_attempt(link, end, failure);
                return self.look_after(link);
            }
        };
        self.network.write(end, JOIN);
        self.set_stage(end, Stage::Joining(id, false));
        let deadline = self.network.now() + JOIN_TIMEOUT;
        self.keepers[link].set_deadline(end, deadline);
    }

    /// A connection that one side, or none, takes for a channel yet.
    fn joining(&mut self, end: End, id: ChannelId, admitted: bool) {
        let first = id.value() == 0;
        if !end.client && !admitted {
            let wanted = if first { HELLO + FINISHED } else { JOIN };
            if self.network.arrived(end) < wanted {
                return;
            }
            self.set_stage(end, Stage::Joining(id, true));
            if first {
                self.set_stage(end, Stage::Channel(id));
                self.add_channel(end, id, 0);
            } else if self.hosts[place(Side::Gateway)]
                .session
                .reserve_join(id)
                .is_ok()
            {
                self.network.write(end, JOIN_ANSWER);
                self.add_channel(end, id, 1);
            } else {
                self.network.close(end, true);
            }
            return self.on_channel(end, id);
        }
        if end.client && !first {
            if self.network.arrived(end) >= JOIN_ANSWER {
                self.set_stage(end, Stage::Channel(id));
                if self.joined(end, id) {
                    self.add_channel(end, id, 1);
                    self.on_channel(end, id);
                }
            } else if self.network.is_closed(end) {
                self.give_up_join(end);
            }
            return;
        }
        self.on_channel(end, id);
    }

    fn add_channel(&mut self, end: End, id: ChannelId, records: u64) {
        let side = side_of(end);
        let used = &self.uses[&end.connection];
        // A gateway learns the first channel's link from the client's hello.
        let number = match (side, records) {
            (Side::Gateway, 0) => 0,
            _ => used.link as u32 + 1,
        };
        let spec = ChannelSpec {
            id,
            role: used.role,
            link: LinkIndex::new(number),
            records,
            segment_size: Some(SEGMENT),
        };
        let now = self.now();
        let sample = self.network.sample(end);
        let host = &mut self.hosts[place(side)];
        let position = self.network.written(end);
        host.writers
            .insert(id, writer::Writer::new(end, now, id, position));
        let link = LinkIndex::new(used.link as u32 + 1);
        host.learn_link(link, client_local(used.link).address);
        host.session.add_channel(now, spec);
        host.session.handle_sample(now, id, sample);
        host.session.handle_writable(now, id);
        self.settle(side);
        self.write(side, id);
    }

    fn set_stage(&mut self, end: End, stage: Stage) {
        if let Some(used) = self.uses.get_mut(&end.connection) {
            used.stage = stage;
        }
    }
}

impl std::fmt::Debug for Bond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bond at {:?}", self.now())
    }
}

/// The place of a side in arrays of two.
const fn place(side: Side) -> usize {
    match side {
        Side::Gateway => 0,
        Side::Client => 1,
    }
}

const fn side_of(end: End) -> Side {
    match end.client {
        true => Side::Client,
        false => Side::Gateway,
    }
}

/// Bytes of TLS' messages with raw public keys.
const HELLO: u64 = 250;
const ANSWER: u64 = 600;
const FINISHED: u64 = 350;
/// A prelude and the record that proves it; the record that answers.
const JOIN: u64 = 48;
const JOIN_ANSWER: u64 = 24;
/// Unsent data in the kernel until the channel's rate is known.
const FIRST_LOW_WATER: u64 = 16 * 1024;
