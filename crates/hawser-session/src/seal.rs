//! Keys, sealed records, and the way from received bytes back to records; and sealed datagrams.

pub mod datagram;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_types::{ByteCount, ChannelId, Instant, SessionId};
use hawser_wire::{MAX_RECORD_BODY, Malformed, RECORD_HEADER_LENGTH, RecordFlags, RecordHeader};
use ring::{aead, hkdf};
use zeroize::Zeroizing;

use crate::Payload;
use crate::arena::Arena;

/// The AEAD that seals records: the one of the TLS suite that the handshake agreed on, which is
/// what both CPUs do well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aead {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

/// Which way a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the side that began the session.
    ClientToGateway,
    /// Towards it.
    GatewayToClient,
}

impl Direction {
    /// The other way.
    pub const fn reverse(self) -> Self {
        match self {
            Self::ClientToGateway => Self::GatewayToClient,
            Self::GatewayToClient => Self::ClientToGateway,
        }
    }
}

/// The secret that both ends have once the TLS handshake is done; every key comes from it.
pub struct SessionKeys {
    exporter: Zeroizing<[u8; 32]>,
    aead: Aead,
}

/// A record that must not be believed. The connection that carried it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The header does not follow the protocol.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The record was not sealed with the key and number that are due: forged, altered, replayed
    /// or out of order.
    #[error("record is not sealed with the key and number that are due")]
    Forged,
    /// The record is not sealed, and this side did not allow that.
    #[error("record is not sealed, though encryption is required")]
    Plain,
}

impl SessionKeys {
    /// Keys from what TLS exported under the label `EXPORTER-hawser-1`.
    pub fn new(exporter: Zeroizing<[u8; 32]>, aead: Aead) -> Self {
        Self { exporter, aead }
    }

    /// The public name of the session.
    pub fn session_id(&self) -> SessionId {
        let mut id = [0; 16];
        expand(&self.exporter[..], &[b"hawser session id"], &mut id);
        SessionId::new(id)
    }

    /// Returns what an enrolling client signs with its own key, of no use in another session.
    pub fn enrolment_challenge(&self) -> [u8; 32] {
        let mut challenge = [0; 32];
        expand(&self.exporter[..], &[b"hawser enrolment"], &mut challenge);
        challenge
    }

    /// Seals the records of one direction of a channel.
    pub fn sealer(&self, channel: ChannelId, direction: Direction) -> Sealer {
        Sealer {
            ratchet: self.ratchet(channel, direction),
            number: 0,
            epoch: None,
        }
    }

    /// Opens the records of one direction of a channel. `accepts_plain`: unsealed ones too, from
    /// the second record on.
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

/// Seals the records that one side sends on one channel, numbering them.
pub struct Sealer {
    ratchet: Ratchet,
    number: u64,
    epoch: Option<Epoch>,
}

/// Time and record at which a key came into use.
struct Epoch {
    first: u64,
    began: Instant,
}

impl Sealer {
    /// Appends one record to `out`: `head` and `payload`, sealed.
    ///
    /// The body must not be larger than [`MAX_RECORD_BODY`] less the tag; the session's chunks
    /// never are.
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

    /// Appends the header and `head` of a record whose body stays as it is; `payload` bytes of
    /// payload have to follow it.
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

/// Turns the bytes of one direction of a channel back into records, in the buffer that they were
/// received in.
pub struct RecordReader {
    ratchet: Ratchet,
    number: u64,
    accepts_plain: bool,
    memory: Arena,
}

impl RecordReader {
    /// Returns the buffer that received bytes are to be appended to.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.memory.bytes_mut()
    }

    /// Makes room for `additional` bytes behind those that wait, in memory of earlier records
    /// that nobody holds any more where there is some.
    pub fn reserve(&mut self, additional: usize) {
        self.memory.reserve(additional);
    }

    /// Returns the size of the buffer that the next record is a slice of, for
    /// [`Session::handle_record_in`](crate::Session::handle_record_in).
    pub fn buffer_size(&self) -> ByteCount {
        ByteCount::from(self.memory.size())
    }

    /// Gives back memory that was not needed since the last call. Call it about once a second
    /// while [`RecordReader::holds_memory`].
    pub fn trim(&mut self) {
        self.memory.trim();
    }

    /// True if there is memory that [`RecordReader::trim`] could give back, now or later.
    pub fn holds_memory(&self) -> bool {
        self.memory.holds_memory()
    }

    /// True if the connection would end inside a record if it ended now.
    pub fn is_mid_record(&self) -> bool {
        !self.memory.bytes().is_empty()
    }

    /// Returns how many more bytes the record at the front needs; 0 when it is whole.
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

    /// The body of the next whole record, opened; `None` until more bytes come. After an error
    /// the reader must not be used any more.
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
            // The first record proves who joined, so it is always sealed.
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

/// One direction's key and the secret that the next one comes from.
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

    /// The record's number, xored into the end of the iv. Source: RFC 8446 §5.3.
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

/// Bytes that sealing adds to a body.
pub const TAG_LENGTH: usize = 16;
/// With records of 64 KiB this stays below the 2^34.5 blocks that AES-GCM is good for under one
/// key (RFC 8446 §5.5).
const MAX_RECORDS_PER_KEY: u64 = 1 << 22;
const MAX_KEY_AGE: Duration = Duration::from_secs(3600);
const _: () = assert!(MAX_RECORD_BODY < 1 << 24);

#[cfg(test)]
mod tests;
