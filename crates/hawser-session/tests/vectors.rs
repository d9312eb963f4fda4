//! The example of keys and records in docs/protocol.md, section 14, with an exporter of 32 bytes
//! 07.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_session::Payload;
use hawser_session::seal::{Aead, Direction, RecordReader, Sealer, SessionKeys};
use hawser_types::{ChannelId, Instant};
use ring::{aead, hkdf};
use zeroize::Zeroizing;

const UP: Direction = Direction::ClientToGateway;
const SECRET: &str = "030b980b91b339ddee92780902b9de26351bb5faa13fc2ca41f664eebd7f5507";
const KEY: &str = "72bfcba097d41c33d4cd0f8be8d0a7b1";
const IV: &str = "d87ba8efb75da62522d89adf";
const NEXT_SECRET: &str = "4e0588797b18e620390facb4f507fa458b1b3e09f1b9504019c580c500030724";

fn keys() -> SessionKeys {
    SessionKeys::new(Zeroizing::new([7; 32]), Aead::Aes128Gcm)
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

fn seal(sealer: &mut Sealer, now: Instant, body: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    sealer.seal(now, body, &Payload::default(), &mut out);
    out
}

fn open(reader: &mut RecordReader, record: &[u8]) -> Bytes {
    reader.buffer().extend_from_slice(record);
    reader.next_record().unwrap().unwrap()
}

/// HKDF-Expand with SHA-256, `secret` being the pseudo-random key.
fn expand(secret: &str, info: &[u8], length: usize) -> Vec<u8> {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut out = vec![0; length];
    let secret = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &hex(secret));
    let info = [info];
    let okm = secret.expand(&info, Length(length)).unwrap();
    okm.fill(&mut out).unwrap();
    out
}

/// A record as section 3 describes it, made without the crate's help.
fn record(phase: u8, key: &[u8], iv: &[u8], number: u64, body: &[u8]) -> Vec<u8> {
    let key = aead::LessSafeKey::new(aead::UnboundKey::new(&aead::AES_128_GCM, key).unwrap());
    let mut nonce: [u8; 12] = iv.try_into().unwrap();
    for (byte, number) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
        *byte ^= number;
    }
    let header = [phase, 0, 0, u8::try_from(body.len() + 16).unwrap()];
    let mut sealed = body.to_vec();
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, aead::Aad::from(header), &mut sealed)
        .unwrap();
    [&header[..], &sealed].concat()
}

#[test]
fn the_session_has_the_name_and_the_challenge_of_the_specification() {
    let id = hex("d6e7cd317b73684b65f58c6c096dcd58");
    assert_eq!(keys().session_id().as_bytes()[..], id);
    let challenge = "5fb48a3d513153d023c9c9eb77de534621c9ca5e44542555eb47385f97597882";
    assert_eq!(keys().enrolment_challenge()[..], hex(challenge));
}

#[test]
fn the_keys_of_the_specification_follow_from_each_other() {
    assert_eq!(expand(SECRET, b"hawser key", 16), hex(KEY));
    assert_eq!(expand(SECRET, b"hawser iv", 12), hex(IV));
    assert_eq!(expand(SECRET, b"hawser ratchet", 32), hex(NEXT_SECRET));
}

#[test]
fn records_of_channel_3_are_those_of_the_specification() {
    let mut sealer = keys().sealer(ChannelId::new(3), UP);
    let join = seal(&mut sealer, Instant::ZERO, &hex("43020002"));
    let first = seal(&mut sealer, Instant::ZERO, b"head:first");
    let expected = [
        "00000014 015755c9 9a6e5210 3f1bfcdb b45ecfa5 6b8b5c24",
        "0000001a 894e5ed5 294d2214 584728ac 5c3dffd0 d6a40dba f6629fa2 06f9",
    ];
    assert_eq!(join[..], hex(expected[0]));
    assert_eq!(first[..], hex(expected[1]));
    let made = record(0, &hex(KEY), &hex(IV), 0, &hex("43020002"));
    assert_eq!(made, hex(expected[0]));
    let mut reader = keys().reader(ChannelId::new(3), UP, false);
    assert_eq!(open(&mut reader, &made)[..], hex("43020002"));
    assert_eq!(open(&mut reader, &first)[..], b"head:first"[..]);
}

#[test]
fn the_next_phase_is_that_of_the_specification() {
    let mut sealer = keys().sealer(ChannelId::new(3), UP);
    seal(&mut sealer, Instant::ZERO, b"before");
    let later = Instant::ZERO + Duration::from_secs(3600);
    let sealed = seal(&mut sealer, later, b"after");
    let key = expand(NEXT_SECRET, b"hawser key", 16);
    let iv = expand(NEXT_SECRET, b"hawser iv", 12);
    assert_eq!(sealed[..], record(1, &key, &iv, 1, b"after"));
}

#[test]
fn sealed_datagrams_are_those_of_the_specification() {
    let expected = [
        "25f0b8a4 000000 074e7afe9a27 4abc65722f842226d921002e8ed9efa0",
        "25f0b8a4 000001 5b5cc9e9132e59 d291fa37286d29828bccc2c088255cbd",
        "25f0b8a4 400000 3efa8a54de 46dbc03ea2a7e3f2605effe9b5dc430e",
    ];
    let later = Instant::ZERO + Duration::from_secs(3600);
    let packets = [
        (Instant::ZERO, &b"packet"[..]),
        (Instant::ZERO, b"another"),
        (later, b"after"),
    ];
    let mut sealer = keys().datagram_sealer(ChannelId::new(3), UP);
    let mut opener = keys().datagram_opener(ChannelId::new(3), UP);
    for ((now, packet), expected) in packets.into_iter().zip(expected) {
        let mut datagram = BytesMut::new();
        sealer.seal(now, packet, &mut datagram).unwrap();
        assert_eq!(datagram[..], hex(expected));
        assert_eq!(opener.open(now, datagram).unwrap()[..], *packet);
    }
}

#[test]
fn a_datagram_of_the_specification_is_sealed_with_chacha_too() {
    let keys = SessionKeys::new(Zeroizing::new([7; 32]), Aead::ChaCha20Poly1305);
    let mut sealer = keys.datagram_sealer(ChannelId::new(3), UP);
    let mut datagram = BytesMut::new();
    sealer
        .seal(Instant::ZERO, b"packet", &mut datagram)
        .unwrap();
    let expected = "25f0b8a4 000000 e85a51771345 44580764432a1f6fd787e0d171138a97";
    assert_eq!(datagram[..], hex(expected));
}
