use super::*;

const CHANNEL: ChannelId = ChannelId::new(3);
const UP: Direction = Direction::ClientToGateway;

fn keys(aead: Aead) -> SessionKeys {
    SessionKeys::new(Zeroizing::new([7; 32]), aead)
}

fn pair() -> (DatagramSealer, DatagramOpener) {
    let keys = keys(Aead::Aes128Gcm);
    let sealer = keys.datagram_sealer(CHANNEL, UP);
    (sealer, keys.datagram_opener(CHANNEL, UP))
}

fn sealed(sealer: &mut DatagramSealer, now: Instant, packet: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    sealer.seal(now, packet, &mut out).unwrap();
    out
}

#[test]
fn packets_survive_every_aead_and_cost_the_overhead_that_is_said() {
    for aead in [Aead::Aes128Gcm, Aead::Aes256Gcm, Aead::ChaCha20Poly1305] {
        let mut sealer = keys(aead).datagram_sealer(CHANNEL, UP);
        let mut opener = keys(aead).datagram_opener(CHANNEL, UP);
        for packet in [&b"one"[..], b"", &[5; 1400]] {
            let datagram = sealed(&mut sealer, Instant::ZERO, packet);
            assert_eq!(datagram.len(), packet.len() + OVERHEAD);
            assert_eq!(KeyId::of(&datagram), Some(opener.key_id()));
            assert_eq!(opener.open(Instant::ZERO, datagram).unwrap()[..], *packet);
        }
    }
}

#[test]
fn sealing_appends_so_that_many_leave_with_one_call() {
    let (mut sealer, mut opener) = pair();
    let mut out = BytesMut::new();
    sealer.seal(Instant::ZERO, b"first", &mut out).unwrap();
    sealer.seal(Instant::ZERO, b"then", &mut out).unwrap();
    let first = out.split_to(5 + OVERHEAD);
    assert_eq!(opener.open(Instant::ZERO, out).unwrap()[..], b"then"[..]);
    assert_eq!(opener.open(Instant::ZERO, first).unwrap()[..], b"first"[..]);
}

#[test]
fn no_altered_bit_goes_unnoticed_and_none_keeps_the_true_datagram_out() {
    let (mut sealer, mut opener) = pair();
    let datagram = sealed(&mut sealer, Instant::ZERO, b"packet");
    for position in 0..datagram.len() {
        for bit in 0..8 {
            let mut altered = datagram.clone();
            altered[position] ^= 1 << bit;
            assert!(opener.open(Instant::ZERO, altered).is_err());
        }
    }
    assert!(opener.forgeries() > 0);
    assert!(opener.open(Instant::ZERO, datagram).is_ok());
}

#[test]
fn a_datagram_cut_short_or_made_longer_does_not_open() {
    let (mut sealer, mut opener) = pair();
    let datagram = sealed(&mut sealer, Instant::ZERO, b"packet");
    for length in 0..datagram.len() {
        let cut = BytesMut::from(&datagram[..length]);
        let rejected = opener.open(Instant::ZERO, cut).unwrap_err();
        assert_eq!(
            rejected == Rejected::TooShort(length),
            length < OVERHEAD,
            "{rejected}"
        );
    }
    let mut longer = datagram.clone();
    longer.extend_from_slice(b"x");
    assert_eq!(opener.open(Instant::ZERO, longer), Err(Rejected::Forged(0)));
}

#[test]
fn a_repeated_datagram_is_rejected_also_under_the_previous_key() {
    let (mut sealer, mut opener) = pair();
    let first = sealed(&mut sealer, Instant::ZERO, b"first");
    assert!(opener.open(Instant::ZERO, first.clone()).is_ok());
    let repeated = opener.open(Instant::ZERO, first.clone());
    assert_eq!(repeated, Err(Rejected::Repeated(0)));
    let later = Instant::ZERO + MAX_KEY_AGE;
    let second = sealed(&mut sealer, later, b"second");
    assert!(opener.open(later, second).is_ok());
    assert_eq!(opener.open(later, first), Err(Rejected::Repeated(0)));
}

#[test]
fn datagrams_come_as_late_as_the_window_reaches_and_no_later() {
    let (mut sealer, mut opener) = pair();
    let late = sealed(&mut sealer, Instant::ZERO, b"too late");
    let just = sealed(&mut sealer, Instant::ZERO, b"just in time");
    sealer.number = NumberWindow::<WORDS>::REACH;
    let newest = sealed(&mut sealer, Instant::ZERO, b"newest");
    assert!(opener.open(Instant::ZERO, newest).is_ok());
    assert_eq!(opener.open(Instant::ZERO, late), Err(Rejected::Repeated(0)));
    assert!(opener.open(Instant::ZERO, just).is_ok());
}

#[test]
fn other_channels_directions_and_sessions_have_other_ids_and_keys() {
    let ours = keys(Aead::Aes128Gcm);
    let others = SessionKeys::new(Zeroizing::new([8; 32]), Aead::Aes128Gcm);
    let (_, mut opener) = pair();
    for mut sealer in [
        ours.datagram_sealer(ChannelId::new(4), UP),
        ours.datagram_sealer(CHANNEL, UP.reverse()),
        others.datagram_sealer(CHANNEL, UP),
    ] {
        let id = sealer.key_id();
        let mut datagram = sealed(&mut sealer, Instant::ZERO, b"packet");
        let rejected = opener.open(Instant::ZERO, datagram.clone());
        assert_eq!(rejected, Err(Rejected::OtherKey(id)));
        datagram[..KEY_ID_LENGTH].copy_from_slice(&opener.key_id().0);
        let rejected = opener.open(Instant::ZERO, datagram);
        assert_eq!(rejected, Err(Rejected::Forged(0)));
    }
}

#[test]
fn a_key_is_left_after_an_hour_or_when_its_numbers_are_used_up() {
    let (mut sealer, mut opener) = pair();
    let mut now = Instant::ZERO;
    let number = |datagram: &BytesMut| (&datagram[KEY_ID_LENGTH..]).get_uint(NUMBER_LENGTH);
    let mut check = |datagram: BytesMut, now, expected| {
        assert_eq!(number(&datagram), expected % (1 << 24));
        assert!(opener.open(now, datagram).is_ok());
    };
    check(sealed(&mut sealer, now, b"a"), now, 0);
    now += MAX_KEY_AGE;
    check(sealed(&mut sealer, now, b"b"), now, NUMBERS_PER_KEY);
    // However long nothing was sent, it is one step.
    now += MAX_KEY_AGE * 5;
    check(sealed(&mut sealer, now, b"c"), now, 2 * NUMBERS_PER_KEY);
    sealer.number = 3 * NUMBERS_PER_KEY - 1;
    check(sealed(&mut sealer, now, b"d"), now, 3 * NUMBERS_PER_KEY - 1);
    check(sealed(&mut sealer, now, b"e"), now, 3 * NUMBERS_PER_KEY);
    assert_eq!(sealer.key.phase, 3);
}

#[test]
fn what_the_key_change_overtook_opens_for_a_minute() {
    for (wait, opens) in [
        (PREVIOUS_KEPT - Duration::from_nanos(1), true),
        (PREVIOUS_KEPT, false),
    ] {
        let (mut sealer, mut opener) = pair();
        let overtaken = sealed(&mut sealer, Instant::ZERO, b"overtaken");
        let now = Instant::ZERO + MAX_KEY_AGE;
        let first = sealed(&mut sealer, now, b"first under the new key");
        assert!(opener.open(now, first).is_ok());
        let opened = opener.open(now + wait, overtaken);
        assert_eq!(opened.is_ok(), opens, "{opened:?}");
    }
}

#[test]
fn a_forged_number_of_the_next_key_does_not_move_the_keys() {
    let (mut sealer, mut opener) = pair();
    let datagram = sealed(&mut sealer, Instant::ZERO, b"packet");
    let mut forged = datagram.clone();
    forged[KEY_ID_LENGTH..HEADER_LENGTH]
        .copy_from_slice(&NUMBERS_PER_KEY.to_be_bytes()[8 - NUMBER_LENGTH..]);
    let rejected = opener.open(Instant::ZERO, forged);
    assert_eq!(rejected, Err(Rejected::Forged(NUMBERS_PER_KEY)));
    assert_eq!((opener.phase, opener.previous.is_some()), (0, false));
    assert!(opener.open(Instant::ZERO, datagram).is_ok());
}

#[test]
fn a_number_two_keys_ahead_is_not_even_tried() {
    let (mut sealer, mut opener) = pair();
    sealed(&mut sealer, Instant::ZERO, b"lost");
    sealed(&mut sealer, Instant::ZERO + MAX_KEY_AGE, b"lost");
    let now = Instant::ZERO + 2 * MAX_KEY_AGE;
    let far = sealed(&mut sealer, now, b"far");
    let rejected = opener.open(now, far);
    assert_eq!(rejected, Err(Rejected::Phase(2 * NUMBERS_PER_KEY)));
    assert_eq!(opener.forgeries(), 0);
}

#[test]
fn a_number_means_the_phase_near_by_that_ends_so() {
    let (_, mut opener) = pair();
    let quarter = NUMBERS_PER_KEY;
    for (phase, said, meant) in [
        (0, 5, 0),
        (0, quarter + 5, 1),
        (0, 3 * quarter + 5, 3),
        (3, 5, 4),
        (4, 3 * quarter + 5, 3),
        (4, 2 * quarter, 6),
        (7, 4 * quarter - 1, 7),
        (9, 0, 8),
    ] {
        opener.phase = phase;
        assert_eq!(opener.phase_of(said), meant, "{phase} {said:x}");
        assert_eq!(number_of(meant, said) % (4 * quarter), said);
    }
}

#[test]
fn what_comes_so_late_that_its_number_means_another_does_not_open() {
    let (mut sealer, mut opener) = pair();
    let late = sealed(&mut sealer, Instant::ZERO, b"late");
    let mut now = Instant::ZERO;
    for phase in 1..=5 {
        now += MAX_KEY_AGE;
        let datagram = sealed(&mut sealer, now, b"in time");
        assert!(opener.open(now, datagram).is_ok());
        assert!(phase == 1 || opener.open(now, late.clone()).is_err());
    }
    // Of the phases 2 to 5, 3 and 5 have such a number near by.
    assert!(opener.forgeries() > 0);
}

#[test]
fn the_last_number_is_used_and_none_after_it() {
    let (mut sealer, mut opener) = pair();
    let last_phase = END / NUMBERS_PER_KEY - 1;
    sealer.number = END - 1;
    let key = Arc::get_mut(&mut sealer.key).unwrap();
    key.phase = last_phase;
    opener.phase = last_phase;
    let last = sealed(&mut sealer, Instant::ZERO, b"last");
    assert!(opener.open(Instant::ZERO, last).is_ok());
    let mut out = BytesMut::new();
    for hours in 0..3 {
        let now = Instant::ZERO + hours * MAX_KEY_AGE;
        assert_eq!(sealer.seal(now, b"more", &mut out), Err(Exhausted));
    }
    assert!(out.is_empty());
}

#[test]
fn after_too_many_forgeries_nothing_opens_any_more() {
    let keys = keys(Aead::ChaCha20Poly1305);
    let mut sealer = keys.datagram_sealer(CHANNEL, UP);
    let mut opener = keys.datagram_opener(CHANNEL, UP);
    opener.forgeries = opener.most_forgeries - 1;
    let datagram = sealed(&mut sealer, Instant::ZERO, b"true");
    let mut forged = datagram.clone();
    forged[OVERHEAD] ^= 1;
    let rejected = opener.open(Instant::ZERO, forged);
    assert_eq!(rejected, Err(Rejected::Forged(0)));
    let rejected = opener.open(Instant::ZERO, datagram);
    assert_eq!(rejected, Err(Rejected::Exhausted));
}

#[test]
fn what_is_prepared_first_and_sealed_later_opens_as_what_is_sealed_at_once() {
    let (mut sealer, mut opener) = pair();
    let mut at_once = pair().0;
    let now = Instant::ZERO;
    let mut train = Vec::new();
    let key = sealer.key(now).clone();
    sealer.prepare(now, b"one", &mut train).unwrap();
    let one = train.len();
    sealer.prepare(now, b"another", &mut train).unwrap();
    // The second first, as nothing says that one seals in order.
    key.seal(&mut train[one..]);
    key.seal(&mut train[..one]);
    assert_eq!(train[..one], sealed(&mut at_once, now, b"one"));
    let opened = opener.open(now, BytesMut::from(&train[one..])).unwrap();
    assert_eq!(opened, "another");
    let mut nothing = [1; OVERHEAD - 1];
    key.seal(&mut nothing);
    assert_eq!(nothing, [1; OVERHEAD - 1]);
}

#[test]
fn the_key_of_what_is_prepared_is_another_when_the_old_one_is_used_up() {
    let (mut sealer, mut opener) = pair();
    sealer.number = NUMBERS_PER_KEY - 1;
    let now = Instant::ZERO;
    let mut keys = Vec::new();
    for packet in [b"last", b"next"] {
        let mut datagram = Vec::new();
        keys.push(sealer.key(now).clone());
        sealer.prepare(now, packet, &mut datagram).unwrap();
        keys.last().unwrap().seal(&mut datagram);
        let opened = opener.open(now, BytesMut::from(&datagram[..])).unwrap();
        assert_eq!(opened, packet[..]);
    }
    assert!(!Arc::ptr_eq(&keys[0], &keys[1]));
}
