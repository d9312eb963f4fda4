//! A tunnel of packet mode over an association.

use std::time::Duration;

use bytes::Bytes;
use hawser_sched::packet::PacketPolicy;
use hawser_sctp::{
    Association, Front, LostMessage, PlacedMessage, Received, SendError, ToPlace, Transmit, Turn,
};
use hawser_session::{PacketFlow, Side};
use hawser_tunnel::{
    Delivery, PathDelay, Placed, Receiver, ReceiverConfig, ReceiverStats, Refused, Sender,
    SenderConfig, SenderStats, TunnelPaths,
};
use hawser_types::{ByteCount, Instant, PathId};
use hawser_wire::tunnel::{TunnelHeader, TunnelMessage};

use super::flows;

/// One end of the tunnel of an association.
///
/// The tunnel says over which path each packet leaves, and the association numbers them in the
/// order of these decisions, by which the far end compares paths.
///
/// The contract: change the association or the tunnel, call [`Self::handle_received`], drain
/// [`Self::poll_transmit`] and [`Self::poll_delivery`] to `None`, and call
/// [`Self::handle_timeout`] at [`Self::poll_timeout`]. All packets of the association leave by
/// [`Self::poll_transmit`].
#[derive(Debug)]
pub struct AssociationTunnel {
    sender: Sender,
    receiver: Receiver,
    paths: TunnelPaths,
    stage: Stage,
    /// Time at which the receiver was last told of the paths.
    told_at: Instant,
    /// Messages of the peer that could not be read.
    unreadable: u64,
}

/// What a tunnel has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelStats {
    /// Packets of this end.
    pub sent: SenderStats,
    /// Packets of the peer.
    pub received: ReceiverStats,
    /// Messages of the peer that could not be read.
    pub unreadable: u64,
}

/// Where [`AssociationTunnel::poll_transmit`] goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Packets are placed for as much as others have had.
    Fill,
    /// What may leave leaves; `any`: something did.
    Drain { any: bool },
    /// Packets are placed on what others have left.
    Rest,
    /// Others take what packets have left.
    Last,
}

impl AssociationTunnel {
    /// A tunnel without packets.
    pub fn new(sender: SenderConfig, receiver: ReceiverConfig) -> Self {
        Self {
            sender: Sender::new(sender),
            receiver: Receiver::new(receiver),
            paths: TunnelPaths::default(),
            stage: Stage::Fill,
            told_at: Instant::ZERO,
            unreadable: 0,
        }
    }

    /// Takes a packet to be sent.
    ///
    /// # Errors
    /// Refuses a packet whose IP headers are wrong.
    pub fn enqueue(&mut self, now: Instant, packet: Bytes) -> Result<(), Refused> {
        self.sender.enqueue(now, packet).map(drop)
    }

    /// Places packets by this policy from now on, those that wait too.
    pub fn set_policy(&mut self, policy: PacketPolicy) {
        self.sender.set_policy(policy);
    }

    /// Takes the packets that have come over the association.
    pub fn handle_received(&mut self, now: Instant, association: &mut Association) {
        self.tell_paths(now, association);
        while let Some(received) = association.receive_placed() {
            let path = received.carrier.path;
            if path.is_some_and(|path| !self.receiver.knows(path)) {
                self.told_at = Instant::ZERO;
                self.tell_paths(now, association);
            }
            self.receive(now, &received);
        }
    }

    /// Returns the next packet of the association, with packets of the tunnel placed as paths have
    /// room.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        association: &mut Association,
    ) -> Option<Transmit> {
        loop {
            match self.stage {
                Stage::Fill => {
                    self.place(now, association, Turn::Own);
                    self.stage = Stage::Drain { any: false };
                }
                Stage::Drain { any } => {
                    let transmit = association.poll_transmit(now);
                    self.stage = match (transmit.is_some(), any) {
                        (true, _) => Stage::Drain { any: true },
                        (false, true) => Stage::Fill,
                        (false, false) => Stage::Rest,
                    };
                    if transmit.is_some() {
                        return transmit;
                    }
                }
                Stage::Rest => {
                    self.stage = if self.place(now, association, Turn::Any) {
                        Stage::Drain { any: false }
                    } else {
                        Stage::Last
                    };
                }
                Stage::Last => {
                    let transmit = association.poll_transmit(now);
                    if transmit.is_none() {
                        self.stage = Stage::Fill;
                    }
                    return transmit;
                }
            }
        }
    }

    /// Returns the next packet of the peer to hand on.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.receiver.poll_delivery()
    }

    /// Returns when to call [`Self::handle_timeout`]; `None` means not before another input.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let both = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
        both.into_iter().flatten().min()
    }

    /// Handles timers that have expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.receiver.handle_timeout(now);
    }

    /// Memory of the packets that wait to be sent.
    pub fn waiting(&self) -> ByteCount {
        self.sender.waiting()
    }

    /// Memory of the packets that wait at this end, in either direction.
    pub fn held(&self) -> ByteCount {
        self.sender.waiting() + self.receiver.held()
    }

    /// Returns the flows that have moved something lately, at most `most` of them, the latest
    /// first, and how many there are. Their links are named as policies know them. `side`: of this
    /// end.
    pub fn flows(&self, now: Instant, side: Side, most: usize) -> (Vec<PacketFlow>, usize) {
        flows::list(
            now,
            side,
            (self.sender.flows(), self.receiver.flows()),
            most,
        )
    }

    /// What was done so far.
    pub fn stats(&self) -> TunnelStats {
        TunnelStats {
            sent: self.sender.stats(),
            received: self.receiver.stats(),
            unreadable: self.unreadable,
        }
    }

    /// Places packets while paths have room. Returns whether there were any.
    fn place(&mut self, now: Instant, association: &mut Association, turn: Turn) -> bool {
        let mut any = false;
        while let Some(lost) = association.take_lost() {
            self.repair(now, lost);
        }
        if !self.sender.is_empty() {
            let paths = &mut self.paths;
            paths.clear();
            association.show_rooms(now, turn, |view, room| paths.push(view.clone(), room));
            while let Some(placed) = self.sender.poll(now, &mut self.paths) {
                any = true;
                if let Err(error) = send(association, placed) {
                    // Lost, as on the way: it had room, so the association is about to end.
                    tracing::debug!(%error, "a packet is not sent");
                }
            }
        }
        association.set_to_place(match (self.sender.is_empty(), turn, any) {
            (true, ..) => ToPlace::Nothing,
            (false, Turn::Any, false) => ToPlace::Later,
            (false, ..) => ToPlace::InTurn,
        });
        any
    }

    /// Lets a message that was lost leave once more.
    fn repair(&mut self, now: Instant, lost: LostMessage) {
        let PlacedMessage { front, payload } = lost.message;
        if let Ok(TunnelMessage::Packet(header)) = TunnelMessage::take(&mut &front[..]) {
            let left_at = lost.left_at.unwrap_or(now);
            self.sender.repair(left_at, header, payload);
        }
    }

    fn receive(&mut self, now: Instant, received: &Received) {
        let mut packet = received.payload();
        let read = TunnelMessage::take(&mut packet);
        match (read, received.carrier.path) {
            (Ok(TunnelMessage::Packet(header)), Some(path)) => {
                let number = received.carrier.number;
                self.receiver.handle(now, path, number, &header, packet);
            }
            _ => self.unreadable += 1,
        }
    }

    /// Tells the receiver which paths there are, from time to time.
    fn tell_paths(&mut self, now: Instant, association: &mut Association) {
        if now.since(self.told_at) < TELL_EACH {
            return;
        }
        self.told_at = now;
        let mut delays = Vec::new();
        association.show_rooms(now, Turn::Any, |view, _| {
            if !view.suspect {
                delays.push(PathDelay {
                    path: PathId::new(view.channel.value()),
                    link: view.link,
                    rtt: view.rtt,
                    variation: view.rtt_variation,
                });
            }
        });
        self.receiver.set_paths(now, &delays);
    }
}

/// Sends a packet behind its header.
fn send(association: &mut Association, placed: Placed) -> Result<(), SendError> {
    let mut header = [0; TunnelHeader::MAX_LENGTH];
    let mut room = &mut header[..];
    placed.header.put(&mut room);
    let length = TunnelHeader::MAX_LENGTH - room.len();
    let message = PlacedMessage {
        front: Front::from_slice(&header[..length]),
        payload: placed.packet,
    };
    association.send_over(PathId::new(placed.path.value()), message)
}

/// Time between two looks at the paths: a few packets of a call.
const TELL_EACH: Duration = Duration::from_millis(50);
