//! The bytes of `struct tcp_info` as of Linux 6.7; the kernel only ever appends fields.

use std::mem::offset_of;
use std::time::Duration;

use hawser_types::{ByteCount, Rate};

use super::info::{TcpInfo, TotalRto};

/// The bytes that the kernel wrote, and their number.
pub(super) struct Raw {
    bytes: [u8; size_of::<Layout>()],
    length: usize,
}

impl Raw {
    pub(super) const fn new() -> Self {
        Self {
            bytes: [0; size_of::<Layout>()],
            length: 0,
        }
    }

    /// Returns the memory that the kernel may write to.
    pub(super) const fn buffer(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Limits the valid bytes to the first `length`.
    pub(super) const fn truncated(mut self, length: usize) -> Self {
        self.length = length;
        self
    }

    pub(super) fn interpret(&self) -> TcpInfo {
        let segments = |offset| self.u32(offset).unwrap_or(0);
        let bytes = |offset| ByteCount::new(self.u64(offset).unwrap_or(0));
        let small_bytes = |offset| ByteCount::new(self.u32(offset).unwrap_or(0).into());
        let micros = |offset| Duration::from_micros(self.u32(offset).unwrap_or(0).into());
        let long_micros = |offset| Duration::from_micros(self.u64(offset).unwrap_or(0));
        let millis = |offset| Duration::from_millis(self.u32(offset).unwrap_or(0).into());
        let rate = |offset| self.u64(offset).map(Rate::from_bytes_per_second);
        TcpInfo {
            state: self.byte(offset_of!(Layout, state)).into(),
            srtt: Some(micros(offset_of!(Layout, rtt))).filter(|srtt| !srtt.is_zero()),
            rttvar: micros(offset_of!(Layout, rttvar)),
            min_rtt: self.min_rtt(),
            rto: micros(offset_of!(Layout, rto)),
            backoff: self.byte(offset_of!(Layout, backoff)),
            cwnd: segments(offset_of!(Layout, snd_cwnd)),
            mss: small_bytes(offset_of!(Layout, snd_mss)),
            unacked: segments(offset_of!(Layout, unacked)),
            sacked: segments(offset_of!(Layout, sacked)),
            lost: segments(offset_of!(Layout, lost)),
            retrans: segments(offset_of!(Layout, retrans)),
            total_retrans: segments(offset_of!(Layout, total_retrans)),
            not_sent: small_bytes(offset_of!(Layout, notsent_bytes)),
            bytes_acked: bytes(offset_of!(Layout, bytes_acked)),
            bytes_received: bytes(offset_of!(Layout, bytes_received)),
            bytes_sent: bytes(offset_of!(Layout, bytes_sent)),
            bytes_retrans: bytes(offset_of!(Layout, bytes_retrans)),
            delivered: segments(offset_of!(Layout, delivered)),
            delivery_rate: rate(offset_of!(Layout, delivery_rate)).unwrap_or(Rate::ZERO),
            app_limited: self.byte(offset_of!(Layout, limited)) & APP_LIMITED != 0,
            // All ones means "unlimited"; kernels without a value report zero.
            pacing_rate: self
                .u64(offset_of!(Layout, pacing_rate))
                .filter(|&rate| !matches!(rate, 0 | u64::MAX))
                .map(Rate::from_bytes_per_second),
            busy: long_micros(offset_of!(Layout, busy_time)),
            rwnd_limited: long_micros(offset_of!(Layout, rwnd_limited)),
            sndbuf_limited: long_micros(offset_of!(Layout, sndbuf_limited)),
            last_data_sent: millis(offset_of!(Layout, last_data_sent)),
            last_data_recv: millis(offset_of!(Layout, last_data_recv)),
            last_ack_recv: millis(offset_of!(Layout, last_ack_recv)),
            snd_wnd: small_bytes(offset_of!(Layout, snd_wnd)),
            total_rto: self.total_rto(),
        }
    }

    fn min_rtt(&self) -> Option<Duration> {
        let micros = self.u32(offset_of!(Layout, min_rtt))?;
        // All ones means that there is no sample yet.
        (micros != u32::MAX && micros != 0).then(|| Duration::from_micros(micros.into()))
    }

    fn total_rto(&self) -> Option<TotalRto> {
        Some(TotalRto {
            timeouts: u16::from_ne_bytes(self.array(offset_of!(Layout, total_rto))?),
            recoveries: u16::from_ne_bytes(self.array(offset_of!(Layout, total_rto_recoveries))?),
            time: Duration::from_millis(self.u32(offset_of!(Layout, total_rto_time))?.into()),
        })
    }

    fn byte(&self, offset: usize) -> u8 {
        self.array(offset).map_or(0, |[byte]| byte)
    }

    fn u32(&self, offset: usize) -> Option<u32> {
        self.array(offset).map(u32::from_ne_bytes)
    }

    fn u64(&self, offset: usize) -> Option<u64> {
        self.array(offset).map(u64::from_ne_bytes)
    }

    /// Returns the bytes of a field, if the kernel has written all of it.
    fn array<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.bytes
            .get(..self.length)?
            .get(offset..)?
            .first_chunk()
            .copied()
    }
}

/// `struct tcp_info` of linux/tcp.h; only its offsets are used.
#[repr(C)]
#[allow(dead_code, reason = "every field is needed to place those behind it")]
struct Layout {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    /// Two bit fields of four bits: window scales of both ends.
    wscale: u8,
    /// Bit fields: `delivery_rate_app_limited` (1), `fastopen_client_fail` (2).
    limited: u8,

    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,

    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,

    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,

    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,

    rcv_rtt: u32,
    rcv_space: u32,

    total_retrans: u32,

    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,

    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,

    delivery_rate: u64,

    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,

    delivered: u32,
    delivered_ce: u32,

    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,

    rcv_ooopack: u32,
    snd_wnd: u32,
    rcv_wnd: u32,
    rehash: u32,

    total_rto: u16,
    total_rto_recoveries: u16,
    total_rto_time: u32,
}

/// C puts the first bit field of a byte at its low end on little-endian machines only.
const APP_LIMITED: u8 = if cfg!(target_endian = "little") {
    0x01
} else {
    0x80
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_kernel() {
        // From `pahole tcp_info` and the sizes at which earlier kernels stopped.
        assert_eq!(offset_of!(Layout, rtt), 68);
        assert_eq!(offset_of!(Layout, pacing_rate), 104);
        assert_eq!(offset_of!(Layout, notsent_bytes), 144);
        assert_eq!(offset_of!(Layout, delivery_rate), 160);
        assert_eq!(offset_of!(Layout, bytes_sent), 200);
        assert_eq!(offset_of!(Layout, snd_wnd), 228);
        assert_eq!(size_of::<Layout>(), 248);
    }

    #[test]
    fn fields_that_an_old_kernel_lacks_are_empty() {
        let mut raw = Raw::new();
        raw.buffer().fill(0xff);
        let old = raw.truncated(offset_of!(Layout, notsent_bytes)).interpret();
        assert_eq!(old.min_rtt, None);
        assert_eq!(old.total_rto, None);
        assert_eq!(old.pacing_rate, None);
        assert_eq!(
            (old.not_sent, old.snd_wnd),
            (ByteCount::ZERO, ByteCount::ZERO)
        );
        assert_eq!(old.delivery_rate, Rate::ZERO);
        assert_eq!(old.cwnd, u32::MAX);
        // Half a field is ignored.
        let mut raw = Raw::new();
        raw.buffer().fill(1);
        let info = raw
            .truncated(offset_of!(Layout, total_rto_time) + 3)
            .interpret();
        assert_eq!(info.total_rto, None);
        assert_eq!(info.snd_wnd, ByteCount::new(0x0101_0101));
    }

    #[test]
    fn a_connection_without_a_sample_has_no_round_trip_time() {
        let mut raw = Raw::new();
        let at = offset_of!(Layout, min_rtt);
        raw.buffer()[at..at + 4].fill(0xff);
        let info = raw.truncated(size_of::<Layout>()).interpret();
        assert_eq!((info.srtt, info.min_rtt), (None, None));
    }
}
