//! Keys, sealing of records, reading of records from received bytes, and sealed datagrams.

pub mod datagram;
mod join_offer;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_types::{ByteCount, ChannelId, Instant, SessionId};
use hawser_wire::{MAX_RECORD_BODY, Malformed, RECORD_HEADER_LENGTH, RecordFlags, RecordHeader};
use ring::{aead, hkdf};
use zeroize::Zeroizing;

use crate::Payload;
use crate::arena::Arena;
use crate::read_buffers::ReadBuffer;
pub use join_offer::OfferEnds;

/// The AEAD that seals records: that of the TLS suite that the handshake agreed on, so that both
/// CPUs are good at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aead {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

/// Direction of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the side that began the session to the other.
    ClientToGateway,
    /// To the side that began the session.
    GatewayToClient,
}

impl Direction {
    /// Returns the opposite direction.
    pub const fn reverse(self) -> Self {
        match self {
            Self::ClientToGateway => Self::GatewayToClient,
            Self::GatewayToClient => Self::ClientToGateway,
        }
    }
}

/// The secret that both ends share after the TLS handshake. Every key is derived from it.
pub struct SessionKeys {
    exporter: Zeroizing<[u8; 32]>,
    aead: Aead,
}

/// Reason to refuse a record. The connection that carried it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The header does not follow the protocol.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The record was not sealed with the expected key and number: it is forged, altered, replayed
    /// or out of order.
    #[error("record is not sealed with the key and number that are due")]
    Forged,
    /// The record is not sealed, and this side does not allow that.
    #[error("record is not sealed, though encryption is required")]
    Plain,
}

impl SessionKeys {
    /// Creates the keys from the secret that TLS exports under the label `EXPORTER-hawser-1`.
    pub fn new(exporter: Zeroizing<[u8; 32]>, aead: Aead) -> Self {
        Self { exporter, aead }
    }

    /// Returns the public name of the session.
    pub fn session_id(&self) -> SessionId {
        let mut id = [0; 16];
        expand(&self.exporter[..], &[b"hawser session id"], &mut id);
        SessionId::new(id)
    }

    /// Returns the challenge that an enrolling client signs with its own key. It is valid in this
    /// session only.
    pub fn enrolment_challenge(&self) -> [u8; 32] {
        let mut challenge = [0; 32];
        expand(&self.exporter[..], &[b"hawser enrolment"], &mut challenge);
        challenge
    }

    /// Creates the sealer for the records of one direction of a channel.
    pub fn sealer(&self, channel: ChannelId, direction: Direction) -> Sealer {
        Sealer {
            ratchet: self.ratchet(channel, direction),
            number: 0,
            epoch: None,
        }
    }

    /// Creates the reader for the records of one direction of a channel. `accepts_plain`: from the
    /// second record on, unsealed records are accepted too.
    pub fn reader(
        &self,
        channel: ChannelId,
        direction: Direction,
        accepts_plain: bool,
    ) -> RecordReader {
        let ratchet = self.ratchet(channel, direction);
        RecordReader {
            ratchet,
            number: 0,
            accepts_plain,
            memory: Arena::default(),
        }
    }

    fn ratchet(&self, channel: ChannelId, direction: Direction) -> Ratchet {
        let mut secret = Zeroizing::new([0; 32]);
        let id = channel.value().to_be_bytes();
        let info: [&[u8]; 3] = [b"hawser channel", &id, &[direction as u8]];
        expand(&self.exporter[..], &info, &mut secret[..]);
        Ratchet::new(secret, self.aead)
    }
}

impl std::fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SessionKeys({:?}, {})", self.aead, self.session_id())
    }
}

/// Numbers and seals the records that one side sends on one channel.
pub struct Sealer {
    ratchet: Ratchet,
    number: u64,
    epoch: Option<Epoch>,
}

/// First record and first time of use of a key.
struct Epoch {
    first: u64,
    began: Instant,
}

impl Sealer {
    /// Appends one sealed record of `head` and `payload` to `out`.
    ///
    /// The body must not be larger than [`MAX_RECORD_BODY`] less the tag. The session's chunks are
    /// always smaller.
    pub fn seal(&mut self, now: Instant, head: &[u8], payload: &Payload, out: &mut BytesMut) {
        self.ratchet_when_due(now);
        let body = head.len() + payload.iter().map(Bytes::len).sum::<usize>();
        let flags = RecordFlags {
            key_phase: self.ratchet.phase,
            plain: false,
        };
        let header = RecordHeader {
            flags,
            length: body + TAG_LENGTH,
        }
        .encode();
        out.reserve(RECORD_HEADER_LENGTH + body + TAG_LENGTH);
        out.extend_from_slice(&header);
        let start = out.len();
        out.extend_from_slice(head);
        payload
            .iter()
            .for_each(|piece| out.extend_from_slice(piece));
        let nonce = self.ratchet.nonce(self.number);
        let tag = self
            .ratchet
            .key
            .seal_in_place_separate_tag(nonce, aead::Aad::from(header), &mut out[start..])
            .expect("a record is far shorter than what an AEAD can seal");
        out.extend_from_slice(tag.as_ref());
        self.number += 1;
    }

    /// Appends the header and `head` of an unsealed record. The caller has to append `payload`
    /// bytes of payload.
    pub fn plain(&mut self, head: &[u8], payload: usize, out: &mut BytesMut) {
        let flags = RecordFlags {
            key_phase: self.ratchet.phase,
            plain: true,
        };
        out.extend_from_slice(
            &RecordHeader {
                flags,
                length: head.len() + payload,
            }
            .encode(),
        );
        out.extend_from_slice(head);
        self.number += 1;
    }

    /// Returns the number of records that this side has sent on the channel.
    pub fn records(&self) -> u64 {
        self.number
    }

    fn ratchet_when_due(&mut self, now: Instant) {
        let epoch = self.epoch.get_or_insert(Epoch {
            first: self.number,
            began: now,
        });
        if self.number - epoch.first >= MAX_RECORDS_PER_KEY || now.since(epoch.began) >= MAX_KEY_AGE
        {
            self.ratchet = self.ratchet.next();
            self.epoch = Some(Epoch {
                first: self.number,
                began: now,
            });
        }
    }
}

/// Reads records from the bytes of one direction of a channel, in the buffer that received them.
pub struct RecordReader {
    ratchet: Ratchet,
    number: u64,
    accepts_plain: bool,
    memory: Arena,
}

impl RecordReader {
    /// Returns the buffer for received bytes, which have to be appended.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.memory.bytes_mut()
    }

    /// Makes room for `additional` bytes after those in the buffer. It reuses the memory of earlier
    /// records if they were dropped.
    pub fn reserve(&mut self, additional: usize) {
        self.memory.reserve(additional);
    }

    /// Returns the buffer of which the next record is a slice, for
    /// [`Session::handle_record_in`](crate::Session::handle_record_in).
    pub fn read_buffer(&self) -> ReadBuffer {
        ReadBuffer {
            number: self.memory.number(),
            size: ByteCount::from(self.memory.size()),
        }
    }

    /// Frees memory that was not used since the last call. Call it about once a second while
    /// [`RecordReader::holds_memory`] returns true.
    pub fn trim(&mut self) {
        self.memory.trim();
    }

    /// Frees memory that is kept for later, until [`RecordReader::held`] is at most `most` or only
    /// the buffer for the next bytes is left.
    pub fn release_spare(&mut self, most: usize) {
        self.memory.release_spare(most);
    }

    /// Frees all memory that no bytes lie in.
    pub fn release(&mut self) {
        self.memory.release();
    }

    /// Returns the bytes of memory that the reader keeps for what comes next, with what waits in
    /// them.
    pub fn held(&self) -> usize {
        self.memory.held()
    }

    /// True if there is memory that [`RecordReader::trim`] can free, now or later.
    pub fn holds_memory(&self) -> bool {
        self.memory.holds_memory()
    }

    /// True if a part of a record has arrived and the rest has not.
    pub fn is_mid_record(&self) -> bool {
        !self.memory.bytes().is_empty()
    }

    /// Returns the number of bytes missing of the first record in the buffer; 0 if it is complete.
    pub fn missing(&self) -> usize {
        let bytes = self.memory.bytes();
        let Some((header, body)) = bytes.split_first_chunk() else {
            return RECORD_HEADER_LENGTH - bytes.len();
        };
        match RecordHeader::decode(*header) {
            Ok(header) => header.length.saturating_sub(body.len()),
            Err(_) => 0,
        }
    }

    /// Returns the opened body of the next record; `None` until it is complete. After an error the
    /// reader must not be used any more.
    pub fn next_record(&mut self) -> Result<Option<Bytes>, RecordError> {
        let Some((bytes, body)) = self.memory.bytes().split_first_chunk() else {
            return Ok(None);
        };
        let bytes = *bytes;
        let header = RecordHeader::decode(bytes)?;
        if body.len() < header.length {
            return Ok(None);
        }
        let whole = RECORD_HEADER_LENGTH + header.length;
        let mut record = self.memory.bytes_mut().split_to(whole);
        bytes::Buf::advance(&mut record, RECORD_HEADER_LENGTH);
        if header.flags.plain {
            // The first record authenticates the sender, so it is always sealed.
            if !self.accepts_plain || self.number == 0 {
                return Err(RecordError::Plain);
            }
        } else {
            self.open(header, bytes, &mut record)?;
        }
        self.number += 1;
        Ok(Some(record.freeze()))
    }

    fn open(
        &mut self,
        header: RecordHeader,
        associated: [u8; RECORD_HEADER_LENGTH],
        record: &mut BytesMut,
    ) -> Result<(), RecordError> {
        let next = (header.flags.key_phase != self.ratchet.phase).then(|| self.ratchet.next());
        let ratchet = next.as_ref().unwrap_or(&self.ratchet);
        let nonce = ratchet.nonce(self.number);
        let opened = ratchet
            .key
            .open_in_place(nonce, aead::Aad::from(associated), &mut record[..])
            .map_err(|_| RecordError::Forged)?
            .len();
        record.truncate(opened);
        if let Some(next) = next {
            self.ratchet = next;
        }
        Ok(())
    }
}

/// Key of one direction, and the secret from which the next key is derived.
struct Ratchet {
    secret: Zeroizing<[u8; 32]>,
    aead: Aead,
    key: aead::LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    phase: bool,
}

impl Ratchet {
    fn new(secret: Zeroizing<[u8; 32]>, aead: Aead) -> Self {
        let algorithm = aead.algorithm();
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..algorithm.key_len()];
        expand(&secret[..], &[b"hawser key"], key);
        let mut iv = [0; aead::NONCE_LEN];
        expand(&secret[..], &[b"hawser iv"], &mut iv);
        let key = aead::UnboundKey::new(algorithm, key).expect("the key has the AEAD's length");
        Self {
            secret,
            aead,
            key: aead::LessSafeKey::new(key),
            iv,
            phase: false,
        }
    }

    fn next(&self) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        expand(&self.secret[..], &[b"hawser ratchet"], &mut secret[..]);
        Self {
            phase: !self.phase,
            ..Self::new(secret, self.aead)
        }
    }

    /// Returns the IV with the record's number xored into its end. Source: RFC 8446 §5.3.
    fn nonce(&self, number: u64) -> aead::Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        aead::Nonce::assume_unique_for_key(nonce)
    }
}

impl Aead {
    fn algorithm(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128Gcm => &aead::AES_128_GCM,
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }
}

/// HKDF-Expand with SHA-256. Source: RFC 5869 §2.3.
fn expand(secret: &[u8], info: &[&[u8]], out: &mut [u8]) {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, secret)
        .expand(info, Length(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("every key is far shorter than what HKDF can give");
}

/// Number of bytes that sealing adds to a body.
pub const TAG_LENGTH: usize = 16;
/// Maximum number of records under one key. With records of 64 KiB these are fewer than the 2^34.5
/// blocks that are the limit of AES-GCM (RFC 8446 §5.5).
const MAX_RECORDS_PER_KEY: u64 = 1 << 22;
const MAX_KEY_AGE: Duration = Duration::from_secs(3600);
const _: () = assert!(MAX_RECORD_BODY < 1 << 24);

#[cfg(test)]
mod tests;
