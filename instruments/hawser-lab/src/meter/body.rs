//! The bytes of a transfer: generated, written, read and checked.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

use super::{BIN, Receipt};

/// The bytes of one transfer as its sender makes them.
#[derive(Debug)]
pub(crate) struct Source {
    block: Vec<u8>,
    crc: crc32fast::Hasher,
    left: u64,
}

impl Source {
    /// `bytes` bytes that do not compress.
    pub(crate) fn new(bytes: u64) -> Self {
        let mut block = vec![0; BLOCK];
        SmallRng::seed_from_u64(bytes).fill_bytes(&mut block);
        Self {
            block,
            crc: crc32fast::Hasher::new(),
            left: bytes,
        }
    }

    /// The next ones, which have to be sent whole; nothing at the end.
    pub(crate) fn next_part(&mut self) -> Option<&[u8]> {
        let count = usize::try_from(self.left).unwrap_or(BLOCK).min(BLOCK);
        let part = self.block.get(..count).filter(|part| !part.is_empty())?;
        self.left -= part.len() as u64;
        self.crc.update(part);
        Some(part)
    }

    /// The CRC of all that was given.
    pub(crate) fn crc(self) -> u32 {
        self.crc.finalize()
    }
}

/// A receiver's record of a transfer.
#[derive(Debug)]
pub(crate) struct Sink {
    crc: crc32fast::Hasher,
    start: Instant,
    last: Instant,
    /// Number of bytes that arrived.
    pub(crate) bytes: u64,
    worst: Duration,
    bins: Vec<u64>,
}

impl Sink {
    /// Creates an empty record; the time of the first byte counts from now.
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self {
            crc: crc32fast::Hasher::new(),
            start: now,
            last: now,
            bytes: 0,
            worst: Duration::ZERO,
            bins: Vec::new(),
        }
    }

    /// Takes note of bytes that have just come.
    pub(crate) fn note(&mut self, part: &[u8]) {
        let now = Instant::now();
        self.worst = self.worst.max(now - self.last);
        self.last = now;
        let bin = (now - self.start).as_millis() / BIN.as_millis();
        let bin = usize::try_from(bin).unwrap_or(MAX_BINS);
        if bin < MAX_BINS {
            if self.bins.len() <= bin {
                self.bins.resize(bin + 1, 0);
            }
            self.bins[bin] += part.len() as u64;
        }
        self.crc.update(part);
        self.bytes += part.len() as u64;
    }

    /// The receipt, when `bytes` bytes with the CRC `crc` were sent; `None` when that never came.
    pub(crate) fn receipt(self, bytes: u64, crc: Option<u64>) -> Receipt {
        let own = u64::from(self.crc.finalize());
        Receipt {
            ok: self.bytes == bytes && crc == Some(own),
            worst: self.worst.as_secs_f64(),
            bins: self.bins,
        }
    }
}

/// Writes `bytes` bytes that do not compress, counting them in `done`, and returns their CRC.
pub(super) fn feed(to: &mut impl Write, bytes: u64, done: &AtomicU64) -> io::Result<u32> {
    let mut source = Source::new(bytes);
    while let Some(part) = source.next_part() {
        to.write_all(part)?;
        done.fetch_add(part.len() as u64, Ordering::Relaxed);
    }
    Ok(source.crc())
}

/// Reads up to `bytes` bytes, less when the peer ends early, counting them in `done`.
pub(super) fn drain(from: &mut impl Read, bytes: u64, done: &AtomicU64) -> io::Result<Sink> {
    let mut block = vec![0; BLOCK];
    let mut sink = Sink::new();
    while sink.bytes < bytes {
        let wanted = usize::try_from(bytes - sink.bytes)
            .unwrap_or(BLOCK)
            .min(BLOCK);
        let count = match from.read(&mut block[..wanted]) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        sink.note(&block[..count]);
        done.fetch_add(count as u64, Ordering::Relaxed);
    }
    Ok(sink)
}

/// Reads what stands behind the bytes: their CRC; nothing when it is cut off.
pub(super) fn read_check(from: &mut impl Read) -> Option<u64> {
    let mut check = [0; 8];
    from.read_exact(&mut check).ok()?;
    Some(u64::from_be_bytes(check))
}

/// Written and read at once.
pub(crate) const BLOCK: usize = 256 << 10;
/// A day of bins; what comes later is counted but not drawn.
const MAX_BINS: usize = 86_400 * 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fed_arrives_with_the_same_check() {
        let (mut wire, done) = (Vec::new(), AtomicU64::new(0));
        let crc = feed(&mut wire, 700_001, &done).unwrap();
        let sink = drain(&mut wire.as_slice(), 700_001, &done).unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 2 * 700_001);
        let receipt = sink.receipt(700_001, Some(crc.into()));
        assert!(receipt.ok);
        assert_eq!(receipt.bins.iter().sum::<u64>(), 700_001);
    }

    #[test]
    fn an_early_end_is_seen_by_its_count() {
        let sink = drain(&mut [1_u8, 2, 3].as_slice(), 10, &AtomicU64::new(0)).unwrap();
        assert_eq!(sink.bytes, 3);
        let crc = u64::from(crc32fast::hash(&[1, 2, 3]));
        assert!(!sink.receipt(10, Some(crc)).ok);
    }

    #[test]
    fn a_missing_or_wrong_check_is_no_success() {
        for crc in [None, Some(0)] {
            let sink = drain(&mut [1_u8].as_slice(), 1, &AtomicU64::new(0)).unwrap();
            assert!(!sink.receipt(1, crc).ok, "{crc:?}");
        }
    }
}
