//! Content and time of SACKs.

use super::*;

fn is_due(inbound: &mut Inbound, now: Instant) -> bool {
    inbound.poll_sack(now, false).is_some()
}

fn numbered(count: u32) -> Data {
    whole(count, count as u16, b"?")
}

/// Fills the buffer; returns the number of messages.
fn fill(inbound: &mut Inbound) -> u32 {
    let mut count = 0;
    while inbound.window() > 0 {
        packet(inbound, at(0), [whole(count, count as u16, &[7; 1000])]);
        count += 1;
    }
    count
}

#[test]
fn every_second_packet_is_acknowledged_at_once_and_a_single_one_after_the_delay() {
    let mut inbound = inbound(65536, false);
    assert_eq!(inbound.poll_timeout(), None);
    assert!(!is_due(&mut inbound, at(0)));
    packet(&mut inbound, at(10), [numbered(0), numbered(1)]);
    assert_eq!(inbound.poll_timeout(), Some(at(35)));
    assert!(!is_due(&mut inbound, at(34)));
    packet(&mut inbound, at(34), [numbered(2)]);
    let sack = inbound.poll_sack(at(34), false).unwrap();
    assert_eq!(sack.cumulative, tsn(2));
    assert!(sack.gaps.is_empty() && sack.duplicates.is_empty());
    packet(&mut inbound, at(40), [numbered(3)]);
    assert!(!is_due(&mut inbound, at(64)));
    assert!(is_due(&mut inbound, at(65)));
    assert!(!is_due(&mut inbound, at(999)));
    assert_eq!(inbound.poll_timeout(), None);
}

#[test]
fn a_packet_that_leaves_anyway_takes_the_acknowledgement_along() {
    let mut inbound = inbound(65536, false);
    assert_eq!(inbound.poll_sack(at(0), true), None);
    packet(&mut inbound, at(0), [numbered(0)]);
    assert!(inbound.poll_sack(at(0), true).is_some());
    assert_eq!(inbound.poll_sack(at(0), true), None);
}

#[test]
fn a_long_acknowledgement_does_not_take_the_room_of_data_before_it_is_due() {
    let mut inbound = inbound(1 << 20, false);
    packet(
        &mut inbound,
        at(0),
        (0..20).map(|count| numbered(2 * count + 1)),
    );
    assert_eq!(inbound.poll_sack(at(24), true), None);
    let sack = inbound.poll_sack(at(25), true).unwrap();
    assert_eq!(sack.gaps.len(), 20);
}

#[test]
fn a_hole_is_told_at_once_until_it_is_filled() {
    let mut inbound = inbound(65536, false);
    let expected = [
        (1, vec![(2, 2)]),
        (2, vec![(2, 3)]),
        (4, vec![(2, 3), (5, 5)]),
    ];
    for (count, gaps) in expected {
        packet(&mut inbound, at(0), [numbered(count)]);
        let sack = inbound.poll_sack(at(0), false).unwrap();
        let told = sack.gaps.iter().map(|gap| (gap.first, gap.last));
        assert_eq!(told.collect::<Vec<_>>(), gaps);
        assert_eq!(sack.cumulative.advance(1), tsn(0));
    }
    for (count, cumulative) in [(0, 2), (3, 4)] {
        packet(&mut inbound, at(0), [numbered(count)]);
        let sack = inbound.poll_sack(at(0), false).unwrap();
        assert_eq!(sack.cumulative, tsn(cumulative));
    }
    packet(&mut inbound, at(0), [numbered(5)]);
    assert!(!is_due(&mut inbound, at(0)));
}

#[test]
fn with_many_holes_acknowledgements_become_fewer_since_each_is_long() {
    let mut inbound = inbound(1 << 24, false);
    let mut sacks = 0;
    for count in 0..2000 {
        packet(&mut inbound, at(0), [numbered(2 * count + 1)]);
        if let Some(sack) = inbound.poll_sack(at(0), false) {
            sacks += 1;
            assert!(sack.gaps.len() <= 256);
            // The newest gaps are reported.
            let last = sack.gaps.last().map(|gap| u32::from(gap.last));
            assert_eq!(last, Some(2 * count + 2));
        }
    }
    assert!((20..200).contains(&sacks), "{sacks}");
    assert_eq!(inbound.poll_timeout(), Some(at(25)));
}

#[test]
fn the_longest_sack_fits_the_smallest_packet() {
    let mut inbound = inbound(1 << 24, false);
    for count in 0..400 {
        packet(&mut inbound, at(0), [numbered(2 * count + 1), numbered(1)]);
    }
    let sack = inbound.poll_sack(at(0), false).unwrap();
    assert_eq!((sack.gaps.len(), sack.duplicates.len()), (256, 32));
    let size = AssociationConfig::BASE_PACKET;
    let mut writer = PacketWriter::new(1, 2, VerificationTag::new(3), size);
    assert!(writer.put(&Chunk::Sack(sack)));
}

#[test]
fn what_comes_again_is_told_at_once() {
    let mut inbound = inbound(65536, false);
    packet(&mut inbound, at(0), [numbered(0), numbered(1)]);
    assert!(inbound.poll_sack(at(0), true).is_some());
    packet(&mut inbound, at(0), [numbered(0)]);
    let sack = inbound.poll_sack(at(0), false).unwrap();
    assert_eq!(sack.duplicates, [tsn(0)]);
    assert_eq!(texts(&mut inbound).len(), 2);
}

#[test]
fn the_i_bit_asks_for_an_acknowledgement_at_once() {
    let mut inbound = inbound(65536, false);
    let data = Data {
        immediate: true,
        ..numbered(0)
    };
    packet(&mut inbound, at(0), [data]);
    assert!(is_due(&mut inbound, at(0)));
}

#[test]
fn what_was_given_up_is_acknowledged_after_the_delay() {
    let mut inbound = inbound(65536, false);
    inbound
        .on_forward_tsn(at(0), &forward(4, false, 0))
        .unwrap();
    assert!(!is_due(&mut inbound, at(24)));
    let sack = inbound.poll_sack(at(25), false).unwrap();
    assert_eq!(sack.cumulative, tsn(4));
}

#[test]
fn a_closed_window_is_opened_when_the_reader_has_made_an_eighth_free() {
    let mut inbound = inbound(65536, false);
    fill(&mut inbound);
    let sack = inbound.poll_sack(at(0), true).unwrap();
    assert_eq!(sack.window, 0);
    let mut taken = 0;
    while inbound.poll_timeout().is_none() {
        assert!(inbound.receive().is_some());
        taken += 1;
    }
    assert!(taken > 3);
    let sack = inbound.poll_sack(at(0), false).unwrap();
    assert!((8192..12_000).contains(&sack.window), "{}", sack.window);
    // An increase by half of the buffer is announced as well.
    while inbound.poll_timeout().is_none() {
        assert!(inbound.receive().is_some());
    }
    assert!(inbound.window() >= sack.window + 32768);
}

#[test]
fn a_hole_is_filled_though_the_buffer_is_full() {
    let mut inbound = inbound(65536, false);
    packet(&mut inbound, at(0), [numbered(60)]);
    let count = fill(&mut inbound);
    assert!(inbound.receive().is_some());
    assert!(count < 60);
    for count in count..60 {
        packet(
            &mut inbound,
            at(0),
            [whole(count, count as u16, &[7; 1000])],
        );
    }
    assert_eq!(inbound.cumulative(), tsn(60));
    assert_eq!(texts(&mut inbound).len(), 60);
    assert_eq!(inbound.window(), 65536);
}
