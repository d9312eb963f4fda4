//! Packet-level TCP: one end of a connection, without I/O and without bytes.
//!
//! All parts that affect throughput and delay are modelled after Linux: selective acknowledgement,
//! RACK with loss probes, time-outs with back-off and their undoing, delayed acknowledgement, CUBIC
//! with HyStart and BBR with pacing, slow start after idle, `TCP_NOTSENT_LOWAT` and `TCP_INFO`.

mod ack;
mod bbr;
mod control;
mod cubic;
mod packet;
mod rate;
mod receive;
mod reno;
mod repair;
mod rtt;
mod send;
mod switch;
mod window;

use std::time::Duration;

use hawser_path::KernelSample;
use hawser_scenario::Congestion;
use hawser_types::{ByteCount, Instant};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use packet::Kind;
pub use packet::Packet;
pub(crate) use packet::{HEADER, SEGMENT};
use receive::Receiver;
use send::Sender;

/// How one end of a connection behaves.
#[derive(Clone, Copy, Debug)]
pub struct TcpConfig {
    /// Its congestion control.
    pub congestion: Congestion,
    /// Selective acknowledgement was agreed on: nothing on the way strips the option.
    pub selective: bool,
    /// The same of time stamps.
    pub stamps: bool,
    /// Bytes of payload in a full segment (`TCP_MAXSEG` less the time stamps).
    pub segment: u32,
    /// Starts BBR's choice of where its cycle begins.
    pub seed: u64,
}

impl TcpConfig {
    /// An end on a way that leaves headers alone.
    pub fn new(congestion: Congestion) -> Self {
        Self {
            congestion,
            selective: true,
            stamps: true,
            segment: SEGMENT,
            seed: 0,
        }
    }

    /// Announces a maximum segment size (`TCP_MAXSEG`), which bounds the segments of both ends.
    pub fn announce(&mut self, limit: u16) {
        let options = (packet::HEADER - packet::BARE_HEADER) as u32;
        self.segment = self.segment.min(u32::from(limit) - options);
    }
}

/// One end of a TCP connection.
///
/// Change it by one call, then drain [`Tcp::poll_packet`] to `None` and wait for
/// [`Tcp::poll_timeout`].
#[derive(Debug)]
pub(crate) struct Tcp {
    state: State,
    sender: Sender,
    receiver: Receiver,
    began: Instant,
    tries: u32,
    retry_at: Option<Instant>,
    control: Option<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Listening,
    SynSent,
    SynReceived,
    Established,
    Closed,
}

impl Tcp {
    /// An end that connects at once.
    pub(crate) fn connect(now: Instant, config: TcpConfig) -> Self {
        let mut tcp = Self::listen(config);
        tcp.state = State::SynSent;
        tcp.greet(now, Kind::Syn);
        tcp
    }

    /// An end that waits for the other.
    pub(crate) fn listen(config: TcpConfig) -> Self {
        Self {
            state: State::Listening,
            sender: Sender::new(
                config.congestion,
                config.selective,
                config.segment,
                SmallRng::seed_from_u64(config.seed),
            ),
            receiver: Receiver::new(config.selective, config.stamps),
            began: Instant::ZERO,
            tries: 0,
            retry_at: None,
            control: None,
        }
    }

    pub(crate) fn is_established(&self) -> bool {
        self.state == State::Established
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Closes this end; the other hears a reset, if `tell`.
    pub(crate) fn close(&mut self, tell: bool) {
        if self.state != State::Closed {
            self.state = State::Closed;
            self.retry_at = None;
            self.control = tell.then_some(Kind::Reset);
        }
    }

    /// Bytes of payload in a full segment.
    pub(crate) fn segment(&self) -> u32 {
        self.sender.segment
    }

    /// Takes as many of `bytes` as there is room for.
    pub(crate) fn write(&mut self, now: Instant, bytes: u64) -> u64 {
        match self.state {
            State::Established => self.sender.write(now, bytes),
            _ => 0,
        }
    }

    /// Whether `poll(2)` says that it can be written to.
    pub(crate) fn is_writable(&self) -> bool {
        self.state == State::Established && self.sender.is_writable()
    }

    /// Sets `TCP_NOTSENT_LOWAT`.
    pub(crate) fn set_low_water(&mut self, bytes: u64) {
        self.sender.low_water = bytes;
    }

    /// Changes the congestion control.
    pub(crate) fn set_congestion(&mut self, now: Instant, congestion: Congestion) {
        self.sender.set_congestion(now, congestion);
    }

    /// Bytes that were written.
    pub(crate) fn written(&self) -> u64 {
        self.sender.written
    }

    /// Bytes that the other end has and this one knows of.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.sender.una
    }

    /// Bytes that came in order.
    pub(crate) fn arrived(&self) -> u64 {
        self.receiver.arrived()
    }

    /// Bytes that came and wait behind a hole.
    pub(crate) fn waiting(&self) -> u64 {
        self.receiver.waiting()
    }

    /// What `TCP_INFO` and `SIOCOUTQ` say.
    pub(crate) fn sample(&self, now: Instant) -> KernelSample {
        let sender = &self.sender;
        let (delivery_rate, app_limited) = sender.rate.latest(sender.segment);
        let window = u64::from(sender.window.congestion) * u64::from(sender.segment);
        // The kernel counts in milliseconds.
        let since_ack = now.since(sender.last_ack).as_millis() as u64;
        KernelSample {
            rtt: sender.rtt.smoothed().unwrap_or_default(),
            rtt_variation: sender.rtt.deviation(),
            min_rtt: sender.rtt.lowest(),
            delivery_rate,
            app_limited,
            congestion_window: ByteCount::new(window),
            unacknowledged: ByteCount::new(sender.written - sender.una),
            since_ack: Duration::from_millis(since_ack),
            retransmissions: sender.retransmissions,
            not_sent: Some(ByteCount::new(sender.unsent())),
            delivered: Some(sender.rate.delivered),
            busy: Some(sender.busy(now)),
            // The window is never the limit, and a writer here is never late.
            receiver_limited: Some(Duration::ZERO),
            send_buffer_limited: Some(Duration::ZERO),
            bbr_min_rtt: sender.control.bbr_min_rtt(),
        }
    }

    pub(crate) fn handle_packet(&mut self, now: Instant, packet: &Packet) {
        match (self.state, packet.kind) {
            (State::Closed, Kind::Reset) => {}
            (State::Closed, _) => self.control = Some(Kind::Reset),
            (_, Kind::Reset) => self.close(false),
            (State::Listening | State::SynReceived, Kind::Syn) => {
                self.receiver.on_packet(now, packet);
                self.state = State::SynReceived;
                self.tries = 0;
                self.greet(now, Kind::SynAck);
            }
            (State::SynSent, Kind::SynAck) => {
                self.receiver.on_packet(now, packet);
                self.establish(now, packet);
                self.control = Some(Kind::Ordinary);
            }
            (State::SynReceived, Kind::Ordinary) => {
                self.establish(now, packet);
                self.take(now, packet);
            }
            // The answer to the SYN got lost or came twice.
            (State::Established, Kind::SynAck | Kind::Syn) => self.control = Some(Kind::Ordinary),
            (State::Established, Kind::Ordinary) => self.take(now, packet),
            (State::Listening | State::SynSent | State::SynReceived, _) => {}
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            match self.state {
                State::SynSent => self.greet(now, Kind::Syn),
                State::SynReceived => self.greet(now, Kind::SynAck),
                _ => {}
            }
        }
        if self.state == State::Established {
            self.sender.on_timeout(now);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Established => {
                let timers = [self.sender.next_timeout(), self.receiver.timeout()];
                timers.into_iter().flatten().min()
            }
            _ => self.retry_at,
        }
    }

    pub(crate) fn poll_packet(&mut self, now: Instant) -> Option<Packet> {
        if let Some(kind) = self.control.take() {
            return Some(self.packet(now, kind, self.sender.next, 0));
        }
        if self.state != State::Established {
            return None;
        }
        if let Some((sequence, length)) = self.sender.poll_segment(now) {
            return Some(self.packet(now, Kind::Ordinary, sequence, length));
        }
        if self.receiver.is_due(now) {
            return Some(self.packet(now, Kind::Ordinary, self.sender.next, 0));
        }
        None
    }

    fn take(&mut self, now: Instant, packet: &Packet) {
        self.receiver.on_packet(now, packet);
        self.sender.on_acknowledgement(now, packet);
    }

    fn establish(&mut self, now: Instant, packet: &Packet) {
        self.state = State::Established;
        self.retry_at = None;
        self.sender.last_ack = now;
        self.sender.peer_window = packet.window;
        // The stamp tells which of several SYNs was answered.
        let sent = packet.echo.unwrap_or(self.began);
        let rtt = now.since(sent);
        self.sender.rtt.on_sample(now, rtt, 0, 0);
        let window = &mut self.sender.window;
        self.sender.control.on_established(now, rtt, window);
    }

    fn greet(&mut self, now: Instant, kind: Kind) {
        self.began = now;
        self.control = Some(kind);
        self.retry_at = Some(now + FIRST_RETRY * (1 << self.tries.min(MAX_RETRY_DOUBLINGS)));
        self.tries += 1;
    }

    fn packet(&mut self, now: Instant, kind: Kind, sequence: u64, length: u32) -> Packet {
        let mut packet = Packet {
            kind,
            sequence,
            length,
            acknowledged: 0,
            window: receive::WINDOW,
            selective: smallvec::SmallVec::new(),
            duplicate: false,
            stamp: now,
            echo: None,
        };
        self.receiver.tell(&mut packet);
        packet
    }
}

/// `TCP_TIMEOUT_INIT`.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY_DOUBLINGS: u32 = 6;
