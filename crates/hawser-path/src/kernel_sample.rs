use std::time::Duration;

use hawser_types::{ByteCount, Rate};

/// The kernel's figures of one TCP connection at one moment (`TCP_INFO`, `SIOCOUTQ`).
///
/// An `Option` is `None` where the kernel is too old to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelSample {
    /// Smoothed round-trip time; zero before the first measurement.
    pub rtt: Duration,
    /// Mean deviation of the round-trip time.
    pub rtt_variation: Duration,
    /// The lowest round-trip time the kernel remembers.
    pub min_rtt: Option<Duration>,
    /// The latest rate sample.
    pub delivery_rate: Rate,
    /// The rate sample was limited by the application, not by the path.
    pub app_limited: bool,
    /// Congestion window.
    pub congestion_window: ByteCount,
    /// Bytes that were written to the channel and that the peer's kernel has not acknowledged,
    /// those that the kernel has not sent yet included.
    pub unacknowledged: ByteCount,
    /// Of these, the bytes that the kernel has not sent yet.
    pub not_sent: Option<ByteCount>,
    /// Time since the last acknowledgement came.
    pub since_ack: Duration,
    /// Segments sent again, in total.
    pub retransmissions: u64,
    /// Segments with data that the peer has received, in total.
    pub delivered: Option<u64>,
    /// Time in which there was something to send.
    pub busy: Option<Duration>,
    /// Part of it in which the peer's receive window was the limit.
    pub receiver_limited: Option<Duration>,
    /// Part of it in which the writer was the limit: the queue was empty and it came late.
    pub send_buffer_limited: Option<Duration>,
    /// The lowest round-trip time that BBR goes by; `None` with another congestion control.
    pub bbr_min_rtt: Option<Duration>,
}

impl KernelSample {
    /// Bytes on their way: sent and not acknowledged.
    pub fn in_network(&self) -> ByteCount {
        match self.not_sent {
            Some(not_sent) => self.unacknowledged - not_sent,
            None => self.unacknowledged.min(self.congestion_window),
        }
    }
}
