//! What the kernel knows about a TCP connection: `getsockopt(TCP_INFO)`, with units in the types.

mod layout;

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use hawser_types::{ByteCount, Rate};

use crate::sys;
use layout::Raw;

/// One look at a TCP connection's sender and receiver.
///
/// Counters start at the connection's birth. What a kernel older than 5.4 does not tell reads as
/// zero; where zero would be mistaken for a measurement the field is an `Option`.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct TcpInfo {
    /// Where the connection is in its life.
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
    /// Whether [`Self::delivery_rate`] was held down by too little data in the queue, so that the
    /// path may do more.
    pub app_limited: bool,
    /// The rate at which the kernel spaces segments; none when it does not.
    pub pacing_rate: Option<Rate>,
    /// How long there has been something to send.
    pub busy: Duration,
    /// How much of [`Self::busy`] the peer's receive window was the limit.
    pub rwnd_limited: Duration,
    /// How much of [`Self::busy`] the send buffer was the limit.
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

/// Asks the kernel about the TCP connection `socket`.
pub fn read(socket: &impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = Raw::new();
    let descriptor = socket.as_fd().as_raw_fd();
    let length = sys::read_option(descriptor, libc::IPPROTO_TCP, libc::TCP_INFO, raw.buffer())?;
    Ok(raw.truncated(length).interpret())
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, server) = tokio::join!(client, listener.accept());
        (client.unwrap(), server.unwrap().0)
    }

    #[tokio::test]
    async fn a_transfer_over_loopback_shows_in_the_counters() {
        let started = Instant::now();
        let (mut client, mut server) = connected().await;
        let data = vec![7; 1 << 20];
        let send = async {
            client.write_all(&data).await.unwrap();
            // An answer means that everything was received, hence acknowledged up to the answer.
            client.read_u8().await.unwrap();
        };
        let receive = async {
            let mut got = vec![0; data.len()];
            server.read_exact(&mut got).await.unwrap();
            server.write_u8(1).await.unwrap();
        };
        tokio::join!(send, receive);
        let (sent, received) = (read(&client).unwrap(), read(&server).unwrap());
        // Some of the kernel's clocks advance with the ticks of its timer.
        let elapsed = started.elapsed() + Duration::from_millis(20);
        assert_eq!(sent.state, TcpState::Established);
        // The kernel counts the SYN with the acknowledged bytes.
        let acked = sent.bytes_acked.as_u64();
        assert!(((1 << 20)..=(1 << 20) + 1).contains(&acked), "{acked}");
        assert!(sent.bytes_sent >= ByteCount::from_mib(1));
        assert_eq!(received.bytes_received, ByteCount::from_mib(1));
        assert_eq!(
            (sent.unacked, sent.in_flight(), sent.not_sent),
            (0, 0, ByteCount::ZERO)
        );
        let (srtt, min_rtt) = (sent.srtt.unwrap(), sent.min_rtt.unwrap());
        assert!(
            min_rtt <= elapsed && srtt <= elapsed,
            "{min_rtt:?} {srtt:?} {elapsed:?}"
        );
        assert!(sent.rto >= Duration::from_millis(1) && sent.rto <= Duration::from_secs(10));
        assert!(sent.busy <= elapsed, "{:?}", sent.busy);
        assert!(sent.cwnd > 0 && sent.delivered > 0 && sent.delivery_rate > Rate::ZERO);
        assert!(sent.mss > ByteCount::new(500) && sent.snd_wnd > ByteCount::ZERO);
        assert!(sent.last_ack_recv <= elapsed, "{:?}", sent.last_ack_recv);
    }

    #[tokio::test]
    async fn data_that_the_peer_does_not_take_is_waiting() {
        let (client, _server) = connected().await;
        let chunk = vec![0; 1 << 16];
        while client.try_write(&chunk).is_ok() {}
        let info = read(&client).unwrap();
        assert!(info.not_sent > ByteCount::ZERO, "{info:?}");
    }

    #[tokio::test]
    async fn a_socket_that_is_not_tcp_is_an_error() {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        assert!(read(&socket).is_err());
    }
}
