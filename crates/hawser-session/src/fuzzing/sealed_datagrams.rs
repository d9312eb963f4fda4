//! Sealed datagrams that get lost, come twice, late, altered or in another order.

use std::time::Duration;

use bytes::BytesMut;
use hawser_types::{ChannelId, Instant};
use zeroize::Zeroizing;

use crate::seal::datagram::{DatagramOpener, DatagramSealer, OVERHEAD, Rejected};
use crate::seal::{Aead, Direction, SessionKeys};

/// Runs steps on sealed datagrams between two ends: each step is a byte that says what, and one
/// that says which or how much. Also checks that every datagram opens when it should, and once.
pub fn fuzz_datagrams(mut steps: &[u8]) {
    let mut world = World::new();
    while let Some(([what, value], rest)) = steps.split_first_chunk() {
        steps = rest;
        match what % 6 {
            0 => world.seal(*value),
            1 => world.deliver(*value),
            2 => world.deliver_altered(*value, what / 6),
            3 => world.sealing_at += Duration::from_secs(60) * u32::from(*value),
            4 => world.opening_at += Duration::from_secs(1) * u32::from(*value),
            _ => {
                let (bytes, rest) = steps.split_at(steps.len().min(usize::from(*value)));
                steps = rest;
                world.deliver_bytes(bytes);
            }
        }
    }
}

struct World {
    sealer: DatagramSealer,
    sealing_at: Instant,
    /// Which of the sequence the key of the latest sealed datagram is.
    sealing_key: u64,
    opener: DatagramOpener,
    opening_at: Instant,
    datagrams: Vec<Datagram>,
    /// The newest key that the opener has seen, and since when.
    newest_key: (u64, Instant),
}

struct Datagram {
    sealed: BytesMut,
    /// Which of the sequence its key is.
    key: u64,
    packet: Vec<u8>,
    has_arrived: bool,
}

impl World {
    fn new() -> Self {
        let keys = SessionKeys::new(Zeroizing::new([7; 32]), Aead::Aes128Gcm);
        let (channel, up) = (ChannelId::new(3), Direction::ClientToGateway);
        Self {
            sealer: keys.datagram_sealer(channel, up),
            sealing_at: Instant::ZERO,
            sealing_key: 0,
            opener: keys.datagram_opener(channel, up),
            opening_at: Instant::ZERO,
            datagrams: Vec::new(),
            newest_key: (0, Instant::ZERO),
        }
    }

    fn seal(&mut self, length: u8) {
        let packet = vec![length; usize::from(length)];
        let sealed = self.sealed(&packet);
        self.datagrams.push(Datagram {
            key: self.sealing_key,
            sealed,
            packet,
            has_arrived: false,
        });
    }

    fn sealed(&mut self, packet: &[u8]) -> BytesMut {
        let mut sealed = BytesMut::new();
        let done = self.sealer.seal(self.sealing_at, packet, &mut sealed);
        done.expect("no input is so long");
        debug_assert!(sealed.len() >= OVERHEAD);
        // Each key has 2^22 numbers, and a datagram tells the last three bytes of its number.
        let last = u64::from(sealed[KEY_ID] >> 6);
        self.sealing_key += last.wrapping_sub(self.sealing_key) % 4;
        sealed
    }

    fn deliver(&mut self, which: u8) {
        let Some(datagram) = self.datagrams.get_mut(usize::from(which)) else {
            return;
        };
        let key = datagram.key;
        let (newest, since) = self.newest_key;
        let is_overtaken_late =
            key + 1 == newest && self.opening_at.since(since) >= Duration::from_secs(60);
        let is_known = (newest.saturating_sub(1)..=newest + 1).contains(&key) && !is_overtaken_late;
        match self.opener.open(self.opening_at, datagram.sealed.clone()) {
            Ok(packet) => {
                assert_eq!(packet, datagram.packet);
                assert!(is_known && !datagram.has_arrived);
                datagram.has_arrived = true;
                if key > newest {
                    self.newest_key = (key, self.opening_at);
                }
            }
            // Four keys away, a number may mean another one, which has come.
            Err(Rejected::Repeated(_)) => assert!(!is_known || datagram.has_arrived),
            Err(Rejected::Phase(_) | Rejected::Forged(_)) => assert!(!is_known),
            Err(other) => panic!("{other}"),
        }
    }

    fn deliver_altered(&mut self, position: u8, bit: u8) {
        let Some(datagram) = self.datagrams.last() else {
            return;
        };
        let mut altered = datagram.sealed.clone();
        let position = usize::from(position) % altered.len();
        altered[position] ^= 1 << (bit % 8);
        assert!(self.opener.open(self.opening_at, altered).is_err());
    }

    /// As they are, and as if sealed with this key.
    fn deliver_bytes(&mut self, bytes: &[u8]) {
        let stranger = self.opener.open(self.opening_at, bytes.into());
        assert!(stranger.is_err());
        let mut forged = self.sealed(b"");
        // Only the key's id is kept.
        forged.truncate(KEY_ID);
        forged.extend_from_slice(bytes);
        assert!(self.opener.open(self.opening_at, forged).is_err());
    }
}

const KEY_ID: usize = 4;

#[cfg(test)]
mod tests;
