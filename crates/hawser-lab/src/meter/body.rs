//! The bytes of a transfer: made, written, read and checked.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

use super::BIN;

/// Writes `bytes` bytes that do not compress, counting them in `done`, and returns their CRC.
pub(super) fn feed(to: &mut impl Write, bytes: u64, done: &AtomicU64) -> io::Result<u32> {
    let mut block = vec![0; BLOCK];
    SmallRng::seed_from_u64(bytes).fill_bytes(&mut block);
    let mut crc = crc32fast::Hasher::new();
    let mut left = bytes;
    while left > 0 {
        let part = &block[..usize::try_from(left).unwrap_or(BLOCK).min(BLOCK)];
        to.write_all(part)?;
        crc.update(part);
        left -= part.len() as u64;
        done.fetch_add(part.len() as u64, Ordering::Relaxed);
    }
    Ok(crc.finalize())
}

/// What arrived.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) crc: u32,
    pub(super) bytes: u64,
    pub(super) worst: Duration,
    pub(super) bins: Vec<u64>,
}

/// Reads up to `bytes` bytes, less when the peer ends early, counting them in `done`.
pub(super) fn drain(from: &mut impl Read, bytes: u64, done: &AtomicU64) -> io::Result<Arrived> {
    let mut block = vec![0; BLOCK];
    let mut crc = crc32fast::Hasher::new();
    let start = Instant::now();
    let mut last = start;
    let mut arrived = Arrived {
        crc: 0,
        bytes: 0,
        worst: Duration::ZERO,
        bins: Vec::new(),
    };
    while arrived.bytes < bytes {
        let wanted = usize::try_from(bytes - arrived.bytes)
            .unwrap_or(BLOCK)
            .min(BLOCK);
        let count = match from.read(&mut block[..wanted]) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        arrived.worst = arrived.worst.max(now - last);
        last = now;
        let bin = usize::try_from((now - start).as_millis() / BIN.as_millis()).unwrap_or(MAX_BINS);
        if bin < MAX_BINS {
            if arrived.bins.len() <= bin {
                arrived.bins.resize(bin + 1, 0);
            }
            arrived.bins[bin] += count as u64;
        }
        crc.update(&block[..count]);
        arrived.bytes += count as u64;
        done.fetch_add(count as u64, Ordering::Relaxed);
    }
    arrived.crc = crc.finalize();
    Ok(arrived)
}

const BLOCK: usize = 256 << 10;
/// A day of bins; what comes later is counted but not drawn.
const MAX_BINS: usize = 86_400 * 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fed_arrives_with_the_same_check() {
        let (mut wire, done) = (Vec::new(), AtomicU64::new(0));
        let crc = feed(&mut wire, 700_001, &done).unwrap();
        let arrived = drain(&mut wire.as_slice(), 700_001, &done).unwrap();
        assert_eq!((arrived.crc, arrived.bytes), (crc, 700_001));
        assert_eq!(arrived.bins.iter().sum::<u64>(), 700_001);
        assert_eq!(done.load(Ordering::Relaxed), 2 * 700_001);
    }

    #[test]
    fn an_early_end_is_seen_by_its_count() {
        let arrived = drain(&mut [1_u8, 2, 3].as_slice(), 10, &AtomicU64::new(0)).unwrap();
        assert_eq!(arrived.bytes, 3);
    }
}
