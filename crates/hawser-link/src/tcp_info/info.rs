use std::time::Duration;

use hawser_types::{ByteCount, Rate};

/// A snapshot of a TCP connection's sender and receiver.
///
/// Counters start at the connection's birth. Facts that a kernel older than 5.4 does not report
/// read as zero; where zero would look like a measurement, the field is an `Option`.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct TcpInfo {
    /// The state of the connection.
    pub state: TcpState,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Mean deviation of the round-trip time.
    pub rttvar: Duration,
    /// The smallest round-trip time of the last minutes (`net.ipv4.tcp_min_rtt_wlen`); `None`
    /// before the first sample.
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
    /// Segments of `unacked` reported by selective acknowledgement.
    pub sacked: u32,
    /// Segments of `unacked` presumed lost.
    pub lost: u32,
    /// Segments of `unacked` that were retransmitted.
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
    /// Bytes retransmitted.
    pub bytes_retrans: ByteCount,
    /// Segments with data that the peer has received, by cumulative or selective acknowledgement.
    pub delivered: u32,
    /// Recent rate of delivery to the peer; zero before the first sample.
    pub delivery_rate: Rate,
    /// Whether too little data in the queue limited [`Self::delivery_rate`], so that the path may
    /// allow more.
    pub app_limited: bool,
    /// The rate at which the kernel paces segments; `None` without pacing.
    pub pacing_rate: Option<Rate>,
    /// Time with data to send.
    pub busy: Duration,
    /// The part of [`Self::busy`] in which the peer's receive window was the limit.
    pub rwnd_limited: Duration,
    /// The part of [`Self::busy`] in which the send buffer was the limit.
    pub sndbuf_limited: Duration,
    /// Time since data was last sent; in milliseconds, as the next two.
    pub last_data_sent: Duration,
    /// Time since data was last received.
    pub last_data_recv: Duration,
    /// Time since an acknowledgement was last received.
    pub last_ack_recv: Duration,
    /// The peer's receive window.
    pub snd_wnd: ByteCount,
    /// Number of all retransmission timeouts; `None` before Linux 6.7.
    pub total_rto: Option<TotalRto>,
}

/// Retransmission timeouts over a connection's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TotalRto {
    /// Timeouts, repeated ones included.
    pub timeouts: u16,
    /// Episodes of one or more timeouts that ended in recovery.
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
    /// Returns the segments in flight as the kernel sees it: sent, and neither acknowledged nor
    /// presumed lost.
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
            // 12 is a connection request that has no full socket yet.
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
