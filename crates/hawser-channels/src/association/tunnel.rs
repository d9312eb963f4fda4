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
/// The tunnel chooses the path of each packet, and the association numbers the packets in the order
/// of these decisions, so that the far end can compare paths.
///
/// After each change of the association or the tunnel, call [`Self::handle_received`], drain
/// [`Self::poll_transmit`] and [`Self::poll_delivery`] to `None`, and call [`Self::handle_timeout`]
/// at [`Self::poll_timeout`]. All packets of the association leave by [`Self::poll_transmit`].
#[derive(Debug)]
pub struct AssociationTunnel {
    sender: Sender,
    receiver: Receiver,
    paths: TunnelPaths,
    stage: TransmitStage,
    /// Time when the receiver last got the state of the paths.
    told_at: Instant,
    /// Messages of the peer that could not be parsed.
    unreadable: u64,
}

/// Counters of a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelStats {
    /// Packets of this end.
    pub sent: SenderStats,
    /// Packets of the peer.
    pub received: ReceiverStats,
    /// Messages of the peer that could not be parsed.
    pub unreadable: u64,
}

/// Next stage of [`AssociationTunnel::poll_transmit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransmitStage {
    /// Place as many packets as other data has received room.
    Fill,
    /// Send what may leave; `any`: something was sent.
    Drain { any: bool },
    /// Place packets in the room that other data left.
    Rest,
    /// Let other data use the room that packets left.
    Last,
}

impl AssociationTunnel {
    /// Creates a tunnel without packets.
    pub fn new(sender: SenderConfig, receiver: ReceiverConfig) -> Self {
        Self {
            sender: Sender::new(sender),
            receiver: Receiver::new(receiver),
            paths: TunnelPaths::default(),
            stage: TransmitStage::Fill,
            told_at: Instant::ZERO,
            unreadable: 0,
        }
    }

    /// Queues a packet for sending.
    ///
    /// # Errors
    /// Rejects a packet with faulty IP headers.
    pub fn enqueue(&mut self, now: Instant, packet: Bytes) -> Result<(), Refused> {
        self.sender.enqueue(now, packet).map(drop)
    }

    /// Sets the policy that places packets, including queued ones.
    pub fn set_policy(&mut self, policy: PacketPolicy) {
        self.sender.set_policy(policy);
    }

    /// Receives the packets that arrived over the association.
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

    /// Returns the next packet of the association, and places packets of the tunnel while paths
    /// have room.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        association: &mut Association,
    ) -> Option<Transmit> {
        loop {
            match self.stage {
                TransmitStage::Fill => {
                    self.place(now, association, Turn::Own);
                    self.stage = TransmitStage::Drain { any: false };
                }
                TransmitStage::Drain { any } => {
                    let transmit = association.poll_transmit(now);
                    self.stage = match (transmit.is_some(), any) {
                        (true, _) => TransmitStage::Drain { any: true },
                        (false, true) => TransmitStage::Fill,
                        (false, false) => TransmitStage::Rest,
                    };
                    if transmit.is_some() {
                        return transmit;
                    }
                }
                TransmitStage::Rest => {
                    self.stage = if self.place(now, association, Turn::Any) {
                        TransmitStage::Drain { any: false }
                    } else {
                        TransmitStage::Last
                    };
                }
                TransmitStage::Last => {
                    let transmit = association.poll_transmit(now);
                    if transmit.is_none() {
                        self.stage = TransmitStage::Fill;
                    }
                    return transmit;
                }
            }
        }
    }

    /// Returns the next packet of the peer to deliver.
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

    /// Returns the memory of packets that wait to be sent.
    pub fn waiting(&self) -> ByteCount {
        self.sender.waiting()
    }

    /// Returns the memory of packets that wait at this end, in either direction.
    pub fn held(&self) -> ByteCount {
        self.sender.waiting() + self.receiver.held()
    }

    /// Returns the flows that moved data lately, at most `most` of them, the latest first, and
    /// their total number. Their links are named as in policies. `side` is this end.
    pub fn flows(&self, now: Instant, side: Side, most: usize) -> (Vec<PacketFlow>, usize) {
        flows::list(
            now,
            side,
            (self.sender.flows(), self.receiver.flows()),
            most,
        )
    }

    /// Returns the counters.
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
                    // It had room, so the association is about to end: the packet counts as lost.
                    tracing::debug!(%error, "dropping a packet that the association refused");
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

    /// Sends a lost message again.
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

    /// Passes the current paths to the receiver from time to time.
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

/// Interval of updates of the paths: a few packets of a call.
const TELL_EACH: Duration = Duration::from_millis(50);
