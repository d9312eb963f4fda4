//! Packets that are sealed one by one, for transports that lose, repeat and reorder them.
//!
//! Each end of a datagram channel has a [`DatagramSealer`] for the packets that it sends and a
//! [`DatagramOpener`] for those that it receives, over all links. A datagram that cannot be opened
//! is not answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hawser_types::{ChannelId, Instant, NumberWindow};
use ring::aead;
use zeroize::Zeroizing;

use super::{Aead, Direction, Ratchet, SessionKeys, TAG_LENGTH, expand};

/// Identifier of the keys of a datagram: those of one direction of one datagram channel.
///
/// It is the unencrypted beginning of every datagram. Without the session's secret it does not
/// reveal the session or the channel, nor that two identifiers belong to the same session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; KEY_ID_LENGTH]);

impl KeyId {
    /// Reads the identifier of `datagram`; `None` if it is too short for a sealed datagram.
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
    /// Creates the sealer for one direction of a datagram channel, over all links.
    ///
    /// Create only one for each channel number and direction. With two, numbers of datagrams would
    /// repeat, and so would nonces.
    pub fn datagram_sealer(&self, channel: ChannelId, direction: Direction) -> DatagramSealer {
        let (id, ratchet) = self.datagram_ratchet(channel, direction);
        DatagramSealer {
            id,
            key: Arc::new(DatagramKey { ratchet, phase: 0 }),
            number: 0,
            began: None,
        }
    }

    /// Creates the opener for one direction of a datagram channel, over all links.
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

/// Numbers and seals packets; see [`SessionKeys::datagram_sealer`].
pub struct DatagramSealer {
    id: KeyId,
    key: Arc<DatagramKey>,
    /// Number of the next datagram.
    number: u64,
    /// Time when the key was first used.
    began: Option<Instant>,
}

/// A datagram channel has used all its numbers. Another channel has to take its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the datagram channel has no numbers left")]
pub struct Exhausted;

impl DatagramSealer {
    /// Returns the key id at the front of its datagrams.
    pub fn key_id(&self) -> KeyId {
        self.id
    }

    /// Appends the sealed `packet` to `out`, which is [`OVERHEAD`] bytes longer.
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

    /// Returns the key of the datagram that is prepared next, at the same instant.
    pub fn key(&mut self, now: Instant) -> &Arc<DatagramKey> {
        self.ratchet_when_due(now);
        &self.key
    }

    /// Appends an unsealed datagram to `out`: the next number, `packet`, and room for the tag. It
    /// has to be sealed once by [`DatagramKey::seal`], with the key that [`Self::key`] returned
    /// before this call. So one place can number datagrams, and others can seal them later.
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

    /// Changes to the next key if the numbers of this one are used up, or if it is too old; then
    /// the rest of its numbers stays unused.
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

/// Key that seals datagrams of [`DatagramSealer::prepare`].
pub struct DatagramKey {
    ratchet: Ratchet,
    /// Position of the key in the sequence of keys.
    phase: u64,
}

impl DatagramKey {
    /// Seals a datagram in place. Sealing it a second time would reveal its content.
    ///
    /// Bytes that are too short for a datagram are not changed.
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

/// Opens each datagram once; see [`SessionKeys::datagram_opener`].
pub struct DatagramOpener {
    id: KeyId,
    /// Position of `latest` in the sequence of keys.
    phase: u64,
    /// The key before `latest`, and the end of its use. Datagrams that the first one under `latest`
    /// has overtaken may arrive until then.
    previous: Option<(Key, Instant)>,
    latest: Key,
    /// The key after `latest`. It is derived in advance, so that a forged datagram costs no more
    /// than others.
    next: Key,
    forgeries: u64,
    most_forgeries: u64,
}

/// Reason to drop a datagram without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// It is too short for a sealed datagram.
    #[error("{0} bytes are too few for a sealed datagram")]
    TooShort(usize),
    /// It names other keys.
    #[error("{0:?} is another's")]
    OtherKey(KeyId),
    /// Its number belongs to a key that is not used yet, or not any more.
    #[error("datagram {0} belongs to a key that is not used now")]
    Phase(u64),
    /// Its number has arrived before, or is too old to tell.
    #[error("datagram {0} is a repetition, or too late")]
    Repeated(u64),
    /// It is forged or altered.
    #[error("datagram {0} does not open")]
    Forged(u64),
    /// The number of forgeries has reached the limit of the AEAD. No datagram is opened any more.
    #[error("too many forged datagrams")]
    Exhausted,
}

impl DatagramOpener {
    /// Returns the key id at the front of its datagrams.
    pub fn key_id(&self) -> KeyId {
        self.id
    }

    /// Returns the number of datagrams with its key id that were forged.
    pub fn forgeries(&self) -> u64 {
        self.forgeries
    }

    /// Opens `datagram` in place and returns its packet.
    ///
    /// # Errors
    /// When the datagram has to be dropped. The opener can still open others.
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

    /// Returns the phase of the transmitted low bits of a number. They match at most one of the
    /// three phases that have keys; otherwise the result is a phase without a key.
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

/// Key that opens datagrams, and its numbers that have arrived.
struct Key {
    ratchet: Ratchet,
    seen: NumberWindow<WORDS>,
}

impl Key {
    fn new(ratchet: Ratchet) -> Self {
        Self {
            ratchet,
            seen: NumberWindow::default(),
        }
    }

    fn open(
        &mut self,
        associated: [u8; HEADER_LENGTH],
        number: u64,
        sealed: &mut BytesMut,
    ) -> Result<(), Rejected> {
        // This is checked before decryption, since the cheapest attack is to repeat datagrams.
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
    /// Returns the maximum number of forged datagrams on a channel; with more, the chance that one
    /// is accepted becomes too high.
    ///
    /// Source: RFC 9001 §6.6.
    fn most_forgeries(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 52,
            Self::ChaCha20Poly1305 => 1 << 36,
        }
    }
}

/// Returns the full number of a datagram from the phase of its key and its transmitted low bits.
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

/// Number of bytes that sealing adds to a packet.
pub const OVERHEAD: usize = HEADER_LENGTH + TAG_LENGTH;
/// Words of the ring of numbers that have arrived: 8 KiB. At 1 Gbit/s with packets of 1400 bytes
/// they cover three quarters of a second. That is more than the delays of paths for such a rate
/// differ by. Later datagrams are lost, as in a full queue.
const WORDS: usize = 1024;
const HEADER_LENGTH: usize = KEY_ID_LENGTH + NUMBER_LENGTH;
const KEY_ID_LENGTH: usize = 4;
/// Length of the transmitted low bits of a number: the number under its key, and the low bits of
/// the key's phase.
const NUMBER_LENGTH: usize = 3;
/// Number of consecutive phases that the transmitted bits distinguish: the previous, the latest,
/// the next, and one without a key.
const PHASES_TOLD: u64 = (1 << (8 * NUMBER_LENGTH)) / NUMBERS_PER_KEY;
const _: () = assert!(PHASES_TOLD == 4);
/// Limit of numbers, which is not used itself.
const END: u64 = 1 << 48;
/// Numbers under one key: half of the limit of AES-GCM for packets of any size (RFC 9001 §6.6). It
/// is a power of two, so that the high bits of a number are the phase of its key.
const NUMBERS_PER_KEY: u64 = 1 << 22;
const MAX_KEY_AGE: Duration = Duration::from_secs(3600);
/// Time for which the previous key is kept, for datagrams that others have overtaken.
const PREVIOUS_KEPT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
