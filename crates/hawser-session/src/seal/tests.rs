use super::*;

const CHANNEL: ChannelId = ChannelId::new(3);
const UP: Direction = Direction::ClientToGateway;

fn keys(aead: Aead) -> SessionKeys {
    SessionKeys::new(Zeroizing::new([7; 32]), aead)
}

fn sealed(sealer: &mut Sealer, now: Instant, text: &'static [u8]) -> BytesMut {
    let mut out = BytesMut::new();
    sealer.seal(
        now,
        b"head:",
        &Payload::from_iter([Bytes::from_static(text)]),
        &mut out,
    );
    out
}

fn read(reader: &mut RecordReader, bytes: &[u8]) -> Result<Option<Bytes>, RecordError> {
    reader.buffer().extend_from_slice(bytes);
    reader.next_record()
}

#[test]
fn records_survive_every_aead_even_byte_by_byte() {
    for aead in [Aead::Aes128Gcm, Aead::Aes256Gcm, Aead::ChaCha20Poly1305] {
        let (keys, now) = (keys(aead), Instant::ZERO);
        let mut sealer = keys.sealer(CHANNEL, UP);
        let mut reader = keys.reader(CHANNEL, UP, false);
        for text in [&b"one"[..], b"", b"three"] {
            let bytes = sealed(&mut sealer, now, text);
            let (last, rest) = bytes.split_last().unwrap();
            for byte in rest {
                assert_eq!(read(&mut reader, &[*byte]), Ok(None));
                assert!(reader.is_mid_record() && reader.missing() > 0);
            }
            let record = read(&mut reader, &[*last]).unwrap().unwrap();
            assert_eq!(record, [b"head:", text].concat());
        }
        assert!(!reader.is_mid_record());
    }
}

#[test]
fn a_replayed_reordered_or_altered_record_is_forged() {
    let (keys, now) = (keys(Aead::Aes128Gcm), Instant::ZERO);
    let mut sealer = keys.sealer(CHANNEL, UP);
    let first = sealed(&mut sealer, now, b"first");
    let second = sealed(&mut sealer, now, b"second");

    let mut replayed = keys.reader(CHANNEL, UP, false);
    assert!(read(&mut replayed, &first).is_ok());
    assert_eq!(read(&mut replayed, &first), Err(RecordError::Forged));

    assert_eq!(
        read(&mut keys.reader(CHANNEL, UP, false), &second),
        Err(RecordError::Forged)
    );

    for position in RECORD_HEADER_LENGTH..first.len() {
        let mut altered = first.clone();
        altered[position] ^= 1;
        assert_eq!(
            read(&mut keys.reader(CHANNEL, UP, false), &altered),
            Err(RecordError::Forged)
        );
    }
}

#[test]
fn a_record_of_another_channel_or_direction_is_forged() {
    let keys = keys(Aead::ChaCha20Poly1305);
    let bytes = sealed(&mut keys.sealer(CHANNEL, UP), Instant::ZERO, b"mine");
    let other = ChannelId::new(4);
    assert_eq!(
        read(&mut keys.reader(other, UP, false), &bytes),
        Err(RecordError::Forged)
    );
    assert_eq!(
        read(&mut keys.reader(CHANNEL, UP.reverse(), false), &bytes),
        Err(RecordError::Forged)
    );
}

#[test]
fn the_key_moves_on_after_an_hour_and_the_reader_follows() {
    let keys = keys(Aead::Aes256Gcm);
    let mut sealer = keys.sealer(CHANNEL, UP);
    let mut reader = keys.reader(CHANNEL, UP, false);
    let mut now = Instant::ZERO;
    let mut phases = Vec::new();
    for _ in 0..4 {
        let bytes = sealed(&mut sealer, now, b"text");
        phases.push(bytes[0] & 1);
        assert!(read(&mut reader, &bytes).unwrap().is_some());
        now += MAX_KEY_AGE;
    }
    assert_eq!(phases, [0, 1, 0, 1]);
}

#[test]
fn plain_records_are_refused_unless_allowed_and_never_come_first() {
    let keys = keys(Aead::Aes128Gcm);
    let mut sealer = keys.sealer(CHANNEL, UP);
    let first = sealed(&mut sealer, Instant::ZERO, b"proof");
    let mut plain = BytesMut::new();
    sealer.plain(b"head", 0, &mut plain);

    let mut strict = keys.reader(CHANNEL, UP, false);
    read(&mut strict, &first).unwrap();
    assert_eq!(read(&mut strict, &plain), Err(RecordError::Plain));

    let mut open = keys.reader(CHANNEL, UP, true);
    assert_eq!(read(&mut open, &plain), Err(RecordError::Plain));
    let mut open = keys.reader(CHANNEL, UP, true);
    read(&mut open, &first).unwrap();
    assert_eq!(
        read(&mut open, &plain),
        Ok(Some(Bytes::from_static(b"head")))
    );
}

#[test]
fn debug_output_shows_no_secret() {
    let text = format!("{:?}", keys(Aead::Aes128Gcm));
    assert!(!text.contains("7, 7"), "{text}");
}
