//! Packets that are sealed each by itself, for transports that lose, repeat and reorder them.
//!
//! Both ends of a datagram channel have a [`DatagramSealer`] for what they send, over whichever
//! link, and a [`DatagramOpener`] for what comes. What does not open is not answered.

mod window;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hawser_types::{ChannelId, Instant};
use ring::aead;
use window::Window;
use zeroize::Zeroizing;

use super::{Aead, Direction, Ratchet, SessionKeys, TAG_LENGTH, expand};

/// Which keys a datagram is sealed with: one direction of one datagram channel.
///
/// It stands in the clear at the front of every datagram and is no secret. Nobody without the
/// session's secret can tell which session or number it belongs to, or that two belong together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; KEY_ID_LENGTH]);

impl KeyId {
    /// What `datagram` says; `None` if it is too short to be sealed at all.
    pub fn of(datagram: &[u8]) -> Option<Self> {
        let id = datagram.first_chunk().copied().map(Self);
        id.filter(|_| datagram.len() >= OVERHEAD)
    }
}

impl std::fmt::Debug for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyId({:08x})", u32::from_be_bytes(self.0))
    }
}

impl SessionKeys {
    /// Seals what goes in one direction of a datagram channel, over all links.
    ///
    /// Make one for each number and direction, ever: numbers of datagrams, and so nonces, would
    /// repeat otherwise.
    pub fn datagram_sealer(&self, channel: ChannelId, direction: Direction) -> DatagramSealer {
        let (id, ratchet) = self.datagram_ratchet(channel, direction);
        DatagramSealer {
            id,
            key: Arc::new(DatagramKey { ratchet, phase: 0 }),
            number: 0,
            began: None,
        }
    }

    /// Opens what comes in one direction of a datagram channel, over all links.
    pub fn datagram_opener(&self, channel: ChannelId, direction: Direction) -> DatagramOpener {
        let (id, ratchet) = self.datagram_ratchet(channel, direction);
        DatagramOpener {
            id,
            phase: 0,
            previous: None,
            next: Key::new(ratchet.next()),
            latest: Key::new(ratchet),
            forgeries: 0,
            most_forgeries: self.aead.most_forgeries(),
        }
    }

    fn datagram_ratchet(&self, channel: ChannelId, direction: Direction) -> (KeyId, Ratchet) {
        let mut secret = Zeroizing::new([0; 32]);
        let number = channel.value().to_be_bytes();
        let info: [&[u8]; 3] = [b"hawser datagram", &number, &[direction as u8]];
        expand(&self.exporter[..], &info, &mut secret[..]);
        let mut id = [0; KEY_ID_LENGTH];
        expand(&secret[..], &[b"hawser key id"], &mut id);
        (KeyId(id), Ratchet::new(secret, self.aead))
    }
}

/// Seals packets, numbering them; see [`SessionKeys::datagram_sealer`].
pub struct DatagramSealer {
    id: KeyId,
    key: Arc<DatagramKey>,
    /// Of the next datagram.
    number: u64,
    /// Time when the key was first used.
    began: Option<Instant>,
}

/// A datagram channel has sealed as many datagrams as it may; go on with one of another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the datagram channel has no numbers left")]
pub struct Exhausted;

impl DatagramSealer {
    /// Returns the key id at the front of its datagrams.
    pub fn key_id(&self) -> KeyId {
        self.id
    }

    /// Appends `packet`, sealed, to `out`: [`OVERHEAD`] bytes more than it has.
    ///
    /// # Errors
    /// When the numbers are used up; nothing was appended then.
    pub fn seal(
        &mut self,
        now: Instant,
        packet: &[u8],
        out: &mut BytesMut,
    ) -> Result<(), Exhausted> {
        let start = out.len();
        self.prepare(now, packet, out)?;
        self.key.seal(&mut out[start..]);
        Ok(())
    }

    /// The key of the datagram that is prepared next, at the same instant.
    pub fn key(&mut self, now: Instant) -> &Arc<DatagramKey> {
        self.ratchet_when_due(now);
        &self.key
    }

    /// Appends to `out` what [`DatagramKey::seal`] makes a sealed datagram of, once: `packet` with
    /// the
    /// next number in front and room behind. So datagrams can be numbered in one place, and sealed
    /// later
    /// by whoever sends them, with the [`Self::key`] that they had here.
    ///
    /// # Errors
    /// When the numbers are used up; nothing was appended then.
    pub fn prepare(
        &mut self,
        now: Instant,
        packet: &[u8],
        out: &mut impl BufMut,
    ) -> Result<(), Exhausted> {
        self.ratchet_when_due(now);
        if self.number >= END {
            return Err(Exhausted);
        }
        out.put_slice(&header(self.id, self.number));
        out.put_slice(packet);
        out.put_bytes(0, TAG_LENGTH);
        self.number += 1;
        Ok(())
    }

    /// A key that has become old leaves the rest of its numbers unused.
    fn ratchet_when_due(&mut self, now: Instant) {
        if now.since(*self.began.get_or_insert(now)) >= MAX_KEY_AGE {
            self.number = (self.key.phase + 1) * NUMBERS_PER_KEY;
        }
        if self.number / NUMBERS_PER_KEY != self.key.phase {
            self.key = Arc::new(DatagramKey {
                ratchet: self.key.ratchet.next(),
                phase: self.key.phase + 1,
            });
            self.began = Some(now);
        }
    }
}

impl std::fmt::Debug for DatagramSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatagramSealer({:?})", self.id)
    }
}

/// A key for sealing what [`DatagramSealer::prepare`] has prepared.
pub struct DatagramKey {
    ratchet: Ratchet,
    /// Which of the row it is.
    phase: u64,
}

impl DatagramKey {
    /// Seals a datagram where it is. A second time would give away what is in it.
    ///
    /// What no datagram can be is left alone.
    pub fn seal(&self, datagram: &mut [u8]) {
        let Some((header, rest)) = datagram.split_first_chunk_mut::<HEADER_LENGTH>() else {
            return;
        };
        let Some((packet, room)) = rest.split_last_chunk_mut::<TAG_LENGTH>() else {
            return;
        };
        let number = header[KEY_ID_LENGTH..].iter();
        let said = number.fold(0, |number, byte| number << 8 | u64::from(*byte));
        let nonce = self.ratchet.nonce(number_of(self.phase, said));
        let key = &self.ratchet.key;
        let tag = key
            .seal_in_place_separate_tag(nonce, aead::Aad::from(*header), packet)
            .expect("a packet is far shorter than what an AEAD can seal");
        room.copy_from_slice(tag.as_ref());
    }
}

impl std::fmt::Debug for DatagramKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DatagramKey")
    }
}

/// Opens datagrams, each of them once; see [`SessionKeys::datagram_opener`].
pub struct DatagramOpener {
    id: KeyId,
    /// Which key of the row is `latest`.
    phase: u64,
    /// Datagrams that were overtaken by the first one under `latest`, and until when they may come.
    previous: Option<(Key, Instant)>,
    latest: Key,
    /// Kept ready, so that a forged datagram costs no more than any other.
    next: Key,
    forgeries: u64,
    most_forgeries: u64,
}

/// A datagram that must be dropped without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// Too short to be sealed.
    #[error("{0} bytes are too few for a sealed datagram")]
    TooShort(usize),
    /// Sealed with the keys of something else.
    #[error("{0:?} is another's")]
    OtherKey(KeyId),
    /// Its number belongs to a key that is not used yet, or was forgotten.
    #[error("datagram {0} belongs to a key that is not used now")]
    Phase(u64),
    /// Its number was there before, or so many larger ones were that nobody knows.
    #[error("datagram {0} is a repetition, or too late")]
    Repeated(u64),
    /// Forged or altered.
    #[error("datagram {0} does not open")]
    Forged(u64),
    /// More forgeries have come than the keys may be tried with; nothing opens any more.
    #[error("too many forged datagrams")]
    Exhausted,
}

impl DatagramOpener {
    /// Returns the key id at the front of its datagrams.
    pub fn key_id(&self) -> KeyId {
        self.id
    }

    /// Returns how many datagrams had its key id and did not open.
    pub fn forgeries(&self) -> u64 {
        self.forgeries
    }

    /// The packet inside `datagram`, opened in its own memory.
    ///
    /// # Errors
    /// When it must not be believed. The opener remains good for others.
    pub fn open(&mut self, now: Instant, mut datagram: BytesMut) -> Result<Bytes, Rejected> {
        let id = KeyId::of(&datagram).ok_or(Rejected::TooShort(datagram.len()))?;
        if id != self.id {
            return Err(Rejected::OtherKey(id));
        }
        if self.forgeries >= self.most_forgeries {
            return Err(Rejected::Exhausted);
        }
        datagram.advance(KEY_ID_LENGTH);
        let said = datagram.get_uint(NUMBER_LENGTH);
        if self.previous.as_ref().is_some_and(|(_, end)| now >= *end) {
            self.previous = None;
        }
        let phase = self.phase_of(said);
        let number = number_of(phase, said);
        let key = self.key_of(phase).ok_or(Rejected::Phase(number))?;
        match key.open(header(id, number), number, &mut datagram) {
            Ok(()) if phase > self.phase => self.move_to_next(now),
            Ok(()) => {}
            Err(why) => {
                self.forgeries += u64::from(matches!(why, Rejected::Forged(_)));
                return Err(why);
            }
        }
        Ok(datagram.freeze())
    }

    /// Which phase a number means that says it by its last digits: of the three for which there are
    /// keys one at most, and otherwise one for which there is none.
    fn phase_of(&self, said: u64) -> u64 {
        let ahead = (said / NUMBERS_PER_KEY).wrapping_sub(self.phase) % PHASES_TOLD;
        match self.phase.checked_sub(1) {
            Some(previous) if ahead == PHASES_TOLD - 1 => previous,
            _ => self.phase + ahead,
        }
    }

    fn key_of(&mut self, phase: u64) -> Option<&mut Key> {
        if phase == self.phase {
            Some(&mut self.latest)
        } else if phase == self.phase + 1 {
            Some(&mut self.next)
        } else if phase + 1 == self.phase {
            self.previous.as_mut().map(|(key, _)| key)
        } else {
            None
        }
    }

    fn move_to_next(&mut self, now: Instant) {
        let after = Key::new(self.next.ratchet.next());
        let latest = std::mem::replace(&mut self.next, after);
        let previous = std::mem::replace(&mut self.latest, latest);
        self.previous = Some((previous, now + PREVIOUS_KEPT));
        self.phase += 1;
    }
}

impl std::fmt::Debug for DatagramOpener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatagramOpener({:?})", self.id)
    }
}

/// A key for opening, and which of its numbers have come.
struct Key {
    ratchet: Ratchet,
    seen: Window,
}

impl Key {
    fn new(ratchet: Ratchet) -> Self {
        Self {
            ratchet,
            seen: Window::default(),
        }
    }

    fn open(
        &mut self,
        associated: [u8; HEADER_LENGTH],
        number: u64,
        sealed: &mut BytesMut,
    ) -> Result<(), Rejected> {
        // Before the costly part: repeating what was overheard is the cheapest attack.
        if !self.seen.is_new(number % NUMBERS_PER_KEY) {
            return Err(Rejected::Repeated(number));
        }
        let nonce = self.ratchet.nonce(number);
        let key = &self.ratchet.key;
        let opened = key
            .open_in_place(nonce, aead::Aad::from(associated), &mut sealed[..])
            .map_err(|_| Rejected::Forged(number))?
            .len();
        sealed.truncate(opened);
        self.seen.insert(number % NUMBERS_PER_KEY);
        Ok(())
    }
}

impl Aead {
    /// How many forged datagrams a channel may try before forging one becomes likely enough to
    /// count.
    ///
    /// Source: RFC 9001 §6.6.
    fn most_forgeries(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 52,
            Self::ChaCha20Poly1305 => 1 << 36,
        }
    }
}

/// What a number is under a key of this phase that says so much of itself.
fn number_of(phase: u64, said: u64) -> u64 {
    phase * NUMBERS_PER_KEY + said % NUMBERS_PER_KEY
}

fn header(id: KeyId, number: u64) -> [u8; HEADER_LENGTH] {
    let mut header = [0; HEADER_LENGTH];
    let (front, back) = header.split_at_mut(KEY_ID_LENGTH);
    front.copy_from_slice(&id.0);
    back.copy_from_slice(&number.to_be_bytes()[8 - NUMBER_LENGTH..]);
    header
}

/// Bytes that a sealed datagram has beyond its packet.
pub const OVERHEAD: usize = HEADER_LENGTH + TAG_LENGTH;
const HEADER_LENGTH: usize = KEY_ID_LENGTH + NUMBER_LENGTH;
const KEY_ID_LENGTH: usize = 4;
/// Of what is said of a number: all that it is under its key, and enough of which key that is.
const NUMBER_LENGTH: usize = 3;
/// How many phases in a row can be told from each other: the previous, the latest, the next, and
/// others.
const PHASES_TOLD: u64 = (1 << (8 * NUMBER_LENGTH)) / NUMBERS_PER_KEY;
const _: () = assert!(PHASES_TOLD == 4);
/// The first number that is never used.
const END: u64 = 1 << 48;
/// Half of what AES-GCM is good for under one key with datagrams of any size (RFC 9001 §6.6). A
/// power of two, so that a number says by itself which key it belongs to.
const NUMBERS_PER_KEY: u64 = 1 << 22;
const MAX_KEY_AGE: Duration = Duration::from_secs(3600);
/// How long datagrams that were overtaken may be in flight.
const PREVIOUS_KEPT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
