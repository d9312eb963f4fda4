//! Measures the connection of a TCP channel.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hawser_path::KernelSample;
use hawser_types::ByteCount;
use tokio::net::TcpStream;

use hawser_link::{sys, tcp_info};

/// Measures one channel's connection.
pub(super) struct Gauge {
    stream: Arc<TcpStream>,
    /// This end's address.
    pub(super) local: Option<IpAddr>,
    /// The peer's address and port.
    pub(super) remote: Option<SocketAddr>,
    /// Bytes that the session has handed out and the kernel has not accepted yet.
    pending: AtomicU64,
}

impl Gauge {
    pub(super) fn new(stream: Arc<TcpStream>) -> Self {
        let canonical = |it: SocketAddr| SocketAddr::new(it.ip().to_canonical(), it.port());
        let local = stream.local_addr().ok().map(canonical);
        Self {
            local: local.map(|it| it.ip()),
            remote: stream.peer_addr().ok().map(canonical),
            stream,
            pending: AtomicU64::new(0),
        }
    }

    pub(super) fn set_pending(&self, bytes: usize) {
        self.pending.store(bytes as u64, Ordering::Relaxed);
    }

    /// The state of the connection in the kernel; `None` when the connection is gone.
    pub(super) fn sample(&self) -> Option<KernelSample> {
        let info = tcp_info::read(&self.stream).ok()?;
        Some(KernelSample {
            rtt: info.srtt.unwrap_or_default(),
            rtt_variation: info.rttvar,
            min_rtt: info.min_rtt,
            delivery_rate: info.delivery_rate,
            app_limited: info.app_limited,
            congestion_window: ByteCount::new(u64::from(info.cwnd) * info.mss.as_u64()),
            unacknowledged: self.unacknowledged(),
            not_sent: Some(info.not_sent + ByteCount::new(self.pending.load(Ordering::Relaxed))),
            since_ack: info.last_ack_recv,
            retransmissions: u64::from(info.total_retrans),
            // A connection that has a round-trip time has delivered its handshake at least.
            delivered: Some(u64::from(info.delivered)).filter(|delivered| *delivered > 0),
            busy: Some(info.busy),
            receiver_limited: Some(info.rwnd_limited),
            send_buffer_limited: Some(info.sndbuf_limited),
            bbr_min_rtt: self.bbr_min_rtt(),
        })
    }

    /// BBR's estimate of the lowest round-trip time.
    fn bbr_min_rtt(&self) -> Option<Duration> {
        sys::bbr_min_rtt(self.stream.as_fd()).map(|micros| Duration::from_micros(micros.into()))
    }

    /// Bytes that the peer's kernel has not acknowledged.
    pub(super) fn unacknowledged(&self) -> ByteCount {
        let queued = sys::send_queue(self.stream.as_fd()).unwrap_or(0);
        ByteCount::new(queued + self.pending.load(Ordering::Relaxed))
    }

    /// True if the kernel would send more at once: its unsent data is below the low-water mark.
    /// As a side effect the reactor reports the next change.
    pub(super) fn is_ready(&self) -> bool {
        let attempt = || match sys::is_writable(self.stream.as_fd()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error),
        };
        match self.stream.try_io(tokio::io::Interest::WRITABLE, attempt) {
            Ok(()) => true,
            // A broken connection is ready for the write that reports the error.
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
