//! The connections between both hosts that are channels, or may become channels.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use hawser_scenario::Congestion;
use hawser_session::Side;
use hawser_types::ChannelId;
use hawser_wire::ChannelRole;

use super::side::place;
use crate::network::{End, Network};
use crate::tcp::TcpConfig;

/// What each connection is for, and which records are in flight over it.
#[derive(Debug)]
pub(super) struct Connections {
    uses: BTreeMap<usize, Use>,
    /// The congestion control of all; `None`: as the session chooses.
    congestion: Option<Congestion>,
}

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
pub(super) enum Stage {
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
pub(super) enum Handshake {
    Connecting,
    Hello,
    Answered,
}

impl Connections {
    pub(super) const fn new(congestion: Option<Congestion>) -> Self {
        Self {
            uses: BTreeMap::new(),
            congestion,
        }
    }

    /// Begins a connection from the client over a link. Returns the client's end.
    pub(super) fn connect(
        &mut self,
        network: &mut Network,
        link: usize,
        role: ChannelRole,
        max_segment: Option<u16>,
        stage: Stage,
    ) -> End {
        let mut config = TcpConfig::new(self.congestion.unwrap_or(Congestion::Cubic));
        if let Some(limit) = max_segment {
            config.announce(limit);
        }
        let end = network.connect(link, config);
        network.set_low_water(end, FIRST_LOW_WATER);
        let used = Use {
            link,
            role,
            stage,
            records: Default::default(),
        };
        self.uses.insert(end.connection, used);
        end
    }

    /// Gives an end the congestion control that its session chooses, unless all have the same.
    pub(super) fn set_congestion(&self, network: &mut Network, end: End, congestion: Congestion) {
        if self.congestion.is_none() {
            network.set_congestion(end, congestion);
        }
    }

    /// How far a connection has come; `None` for one that is not of this session.
    pub(super) fn stage(&self, end: End) -> Option<Stage> {
        self.uses.get(&end.connection).map(|used| used.stage)
    }

    pub(super) fn set_stage(&mut self, end: End, stage: Stage) {
        if let Some(used) = self.uses.get_mut(&end.connection) {
            used.stage = stage;
        }
    }

    pub(super) fn link(&self, end: End) -> usize {
        self.uses[&end.connection].link
    }

    pub(super) fn role(&self, end: End) -> ChannelRole {
        self.uses[&end.connection].role
    }

    /// The client's ends of all connections over a link.
    pub(super) fn over(&self, link: usize) -> Vec<(End, Stage)> {
        let on_link = self.uses.iter().filter(|(_, used)| used.link == link);
        on_link
            .map(|(connection, used)| (client_end(*connection), used.stage))
            .collect()
    }

    /// TLS, reduced to the sizes and turns of its messages. Returns true when the client has its
    /// answer.
    pub(super) fn shake_hands(
        &mut self,
        network: &mut Network,
        end: End,
        handshake: Handshake,
    ) -> bool {
        let stage = match (end.client, handshake) {
            (true, Handshake::Connecting) if network.is_established(end) => {
                network.write(end, HELLO);
                Handshake::Hello
            }
            (false, Handshake::Hello) if network.arrived(end) >= HELLO => {
                network.write(end, ANSWER);
                Handshake::Answered
            }
            (true, Handshake::Answered) if network.arrived(end) >= ANSWER => return true,
            _ => return false,
        };
        self.set_stage(end, Stage::First(stage));
        false
    }

    /// The handshake is over: the winner becomes the first channel, the others are let go of.
    pub(super) fn end_race(&mut self, network: &mut Network, winner: End, id: ChannelId) {
        let racing = self
            .uses
            .iter()
            .filter(|(_, used)| matches!(used.stage, Stage::First(_)));
        let losers: Vec<_> = racing
            .map(|(connection, _)| client_end(*connection))
            .filter(|end| end.connection != winner.connection)
            .collect();
        for end in losers {
            network.close(end, true);
            self.set_stage(end, Stage::Over);
        }
        network.write(winner, FINISHED);
        self.set_stage(winner, Stage::Joining(id, false));
    }

    /// Shows the gateway the number that a connection joins with.
    pub(super) fn show_number(&mut self, network: &mut Network, end: End, id: ChannelId) {
        network.write(end, JOIN);
        self.set_stage(end, Stage::Joining(id, false));
    }

    /// True if the gateway has all that it needs to let a connection in.
    pub(super) fn has_number(network: &Network, end: End, is_first: bool) -> bool {
        let wanted = if is_first { HELLO + FINISHED } else { JOIN };
        network.arrived(end) >= wanted
    }

    /// The gateway lets a connection in.
    pub(super) fn answer_join(network: &mut Network, end: End) {
        network.write(end, JOIN_ANSWER);
    }

    /// True if the client knows that its connection was let in.
    pub(super) fn has_join_answer(network: &Network, end: End) -> bool {
        network.arrived(end) >= JOIN_ANSWER
    }

    /// Puts a record on its way to one side; it ends at this position of the connection.
    pub(super) fn push_record(&mut self, end: End, to: Side, position: u64, record: Bytes) {
        if let Some(used) = self.uses.get_mut(&end.connection) {
            used.records[place(to)].push_back((position, record));
        }
    }

    /// Takes the next record for one side, of which as many bytes of the connection have arrived.
    pub(super) fn pop_record(&mut self, end: End, to: Side, arrived: u64) -> Option<Bytes> {
        let records = &mut self.uses.get_mut(&end.connection)?.records[place(to)];
        let (position, _) = records.front()?;
        if *position > arrived {
            return None;
        }
        records.pop_front().map(|(_, record)| record)
    }
}

const fn client_end(connection: usize) -> End {
    End {
        connection,
        client: true,
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
