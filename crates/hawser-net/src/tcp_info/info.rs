use std::time::Duration;

use hawser_types::{ByteCount, Rate};

/// One look at a TCP connection's sender and receiver.
///
/// Counters start at the connection's birth. What a kernel older than 5.4 does not tell reads as
/// zero; where zero would be mistaken for a measurement the field is an `Option`.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct TcpInfo {
    /// The state of the connection.
    pub state: TcpState,
    /// Smoothed round-trip time; none before the first sample.
    pub srtt: Option<Duration>,
    /// Mean deviation of the round-trip time.
    pub rttvar: Duration,
    /// The smallest round-trip time of the last minutes (`net.ipv4.tcp_min_rtt_wlen`); none before
    /// the first sample.
    pub min_rtt: Option<Duration>,
    /// Retransmission timeout as it stands, back-off included.
    pub rto: Duration,
    /// Doublings of the retransmission timeout since the last progress.
    pub backoff: u8,
    /// Congestion window, in segments of [`Self::mss`].
    pub cwnd: u32,
    /// Largest segment sent, payload only.
    pub mss: ByteCount,
    /// Segments sent and not acknowledged cumulatively.
    pub unacked: u32,
    /// Of these, reported by selective acknowledgement.
    pub sacked: u32,
    /// Of these, held for lost.
    pub lost: u32,
    /// Of these, sent again and not acknowledged yet.
    pub retrans: u32,
    /// Retransmissions since the connection began.
    pub total_retrans: u32,
    /// Bytes in the send queue that were never sent.
    pub not_sent: ByteCount,
    /// Bytes that the peer has acknowledged cumulatively.
    pub bytes_acked: ByteCount,
    /// Bytes received in order.
    pub bytes_received: ByteCount,
    /// Bytes sent, retransmissions included.
    pub bytes_sent: ByteCount,
    /// Bytes sent again.
    pub bytes_retrans: ByteCount,
    /// Segments with data that the peer has received, by cumulative or selective acknowledgement.
    pub delivered: u32,
    /// The rate at which data was lately delivered to the peer; zero before the first sample.
    pub delivery_rate: Rate,
    /// True if [`Self::delivery_rate`] was held down by too little data in the queue, so that the
    /// path may do more.
    pub app_limited: bool,
    /// The rate at which the kernel spaces segments; none when it does not.
    pub pacing_rate: Option<Rate>,
    /// Time in which there was something to send.
    pub busy: Duration,
    /// The part of [`Self::busy`] in which the peer's receive window was the limit.
    pub rwnd_limited: Duration,
    /// The part of [`Self::busy`] in which the send buffer was the limit.
    pub sndbuf_limited: Duration,
    /// Since data was last sent; milliseconds resolution, as the next two.
    pub last_data_sent: Duration,
    /// Since data was last received.
    pub last_data_recv: Duration,
    /// Since an acknowledgement was last received.
    pub last_ack_recv: Duration,
    /// The peer's receive window.
    pub snd_wnd: ByteCount,
    /// Retransmission timeouts in all; none before Linux 6.7.
    pub total_rto: Option<TotalRto>,
}

/// Retransmission timeouts over a connection's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TotalRto {
    /// Timeouts, repeated ones included.
    pub timeouts: u16,
    /// Episodes of one or more timeouts that ended well.
    pub recoveries: u16,
    /// Time spent in such episodes.
    pub time: Duration,
}

/// The state of a TCP connection (RFC 9293 §3.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are the RFC's")]
pub enum TcpState {
    Established,
    SynSent,
    SynReceived,
    FinWait1,
    FinWait2,
    TimeWait,
    Closed,
    CloseWait,
    LastAck,
    Listen,
    Closing,
    /// A number that this program does not know.
    Unknown(u8),
}

impl TcpInfo {
    /// Segments in the network as the kernel sees it: sent, and neither acknowledged nor held for
    /// lost.
    pub const fn in_flight(&self) -> u32 {
        let gone = self.sacked.saturating_add(self.lost);
        self.unacked
            .saturating_sub(gone)
            .saturating_add(self.retrans)
    }
}

impl From<u8> for TcpState {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Established,
            2 => Self::SynSent,
            // 12 is a connection request that has no socket of its own yet.
            3 | 12 => Self::SynReceived,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            6 => Self::TimeWait,
            7 => Self::Closed,
            8 => Self::CloseWait,
            9 => Self::LastAck,
            10 => Self::Listen,
            11 => Self::Closing,
            other => Self::Unknown(other),
        }
    }
}
