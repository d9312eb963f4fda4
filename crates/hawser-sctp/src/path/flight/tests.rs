use super::*;
use crate::AssociationConfig;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(1000 + millis)
}

fn rtt(millis: u64) -> RttEstimator {
    let mut rtt = RttEstimator::new(&AssociationConfig::default());
    rtt.on_sample(at(0), ms(millis));
    rtt
}

/// Sends packets of two chunks of 600 bytes each, one per millisecond.
fn sent(count: u64) -> Flight {
    let mut flight = Flight::default();
    for number in 0..count {
        let chunks = SmallVec::from_slice(&[2 * number, 2 * number + 1]);
        flight.on_sent(at(number), chunks, 1212, None);
    }
    flight
}

fn lost(flight: &mut Flight, now: Instant) -> Vec<u64> {
    let rtt = rtt(80);
    std::iter::from_fn(|| flight.pop_lost(now, &rtt))
        .map(|packet| packet.number)
        .collect()
}

#[test]
fn chunks_of_one_packet_are_closed_one_by_one_and_its_header_with_the_last() {
    let mut flight = sent(2);
    assert_eq!(flight.bytes(), ByteCount::new(2424));
    flight.acknowledge(at(80), 0, 600, true);
    assert_eq!(flight.bytes(), ByteCount::new(1824));
    flight.acknowledge(at(80), 0, 600, true);
    assert_eq!(flight.bytes(), ByteCount::new(1212));
    flight.forget(1, 600);
    flight.forget(1, 600);
    assert!(flight.is_empty() && flight.bytes() == ByteCount::ZERO);
    let news = flight.take_ack_summary().unwrap();
    assert_eq!(news.bytes, ByteCount::new(1212));
    assert_eq!((news.measurable, news.newest_sent), (Some(at(0)), at(0)));
}

#[test]
fn what_is_closed_already_changes_nothing() {
    let mut flight = sent(2);
    (0..5).for_each(|_| flight.forget(0, 600));
    flight.acknowledge(at(80), 0, 600, true);
    flight.acknowledge(at(80), 77, 600, true);
    assert_eq!(flight.bytes(), ByteCount::new(1212));
    assert!(flight.take_ack_summary().is_none());
}

#[test]
fn three_later_packets_make_one_lost_however_many_chunks_they_carry() {
    let mut flight = sent(6);
    flight.acknowledge(at(80), 2, 600, true);
    flight.acknowledge(at(80), 2, 600, true);
    assert!(lost(&mut flight, at(81)).is_empty());
    flight.acknowledge(at(82), 4, 600, true);
    assert_eq!(lost(&mut flight, at(82)), [0, 1]);
    assert_eq!(flight.overtaken(), 2);
    assert_eq!(flight.bytes(), ByteCount::new(2 * 1212 + 612));
}

#[test]
fn one_later_packet_makes_it_lost_after_an_eighth_of_a_round_trip() {
    let mut flight = sent(2);
    flight.acknowledge(at(81), 1, 600, true);
    assert!(lost(&mut flight, at(89)).is_empty());
    assert_eq!(flight.loss_at(&rtt(80)), Some(at(90)));
    assert_eq!(lost(&mut flight, at(90)), [0]);
    assert_eq!(flight.loss_at(&rtt(80)), None);
}

#[test]
fn packets_that_were_late_teach_patience() {
    let mut flight = sent(20);
    flight.acknowledge(at(80), 3, 600, true);
    assert_eq!(lost(&mut flight, at(81)), [0]);
    assert!(!flight.on_late(0), "one of two chunks");
    assert!(flight.on_late(0));
    assert!(!flight.on_late(0), "once");
    flight.acknowledge(at(82), 6, 600, true);
    assert!(lost(&mut flight, at(83)).is_empty(), "six are needed now");
    flight.acknowledge(at(83), 7, 600, true);
    assert_eq!(lost(&mut flight, at(83)), [1]);
}

#[test]
fn a_late_packet_of_a_loss_long_ago_undoes_nothing() {
    let mut flight = sent(10);
    flight.acknowledge(at(80), 3, 600, true);
    assert_eq!(lost(&mut flight, at(81)), [0]);
    flight.on_sent(at(90), SmallVec::from_slice(&[30]), 1212, None);
    (0..3).for_each(|n| flight.on_sent(at(91 + n), SmallVec::from_slice(&[31 + n]), 1212, None));
    flight.acknowledge(at(180), 13, 1200, true);
    assert!(lost(&mut flight, at(180)).contains(&10), "another episode");
    assert!(
        !flight.on_late(0),
        "which that one does not belong to alone"
    );
}

#[test]
fn t3_runs_from_the_last_answer_and_the_probe_before_it() {
    let mut flight = sent(3);
    let rtt = rtt(40);
    let delay = ms(25);
    assert_eq!(flight.t3(&rtt), Some(at(0) + rtt.rto()));
    assert_eq!(flight.probe_at(&rtt, delay), Some(at(2 + 80)));
    flight.acknowledge(at(50), 0, 600, true);
    assert_eq!(flight.t3(&rtt), Some(at(50) + rtt.rto()));
    for packet in [0, 1, 1] {
        flight.acknowledge(at(60), packet, 600, true);
    }
    // The peer may delay the acknowledgement of a single packet.
    assert_eq!(flight.probe_at(&rtt, delay), Some(at(60 + 80 + 25)));
    flight.request_probe();
    assert!(flight.is_probe_due());
    flight.on_sent(at(170), SmallVec::from_slice(&[6]), 1212, None);
    assert!(!flight.is_probe_due());
    assert_eq!(flight.probe_at(&rtt, delay), None, "once");
}

#[test]
fn when_t3_expires_everything_is_lost_oldest_first() {
    let mut flight = sent(4);
    flight.acknowledge(at(80), 1, 600, true);
    flight.acknowledge(at(80), 1, 600, true);
    let lost: Vec<_> = flight
        .take_all()
        .iter()
        .map(|packet| packet.number)
        .collect();
    assert_eq!(lost, [0, 2, 3]);
    assert_eq!(flight.overtaken(), 0);
    assert!(flight.is_empty() && flight.bytes() == ByteCount::ZERO);
    assert_eq!(flight.t3(&rtt(40)), None);
    assert_eq!(flight.next_number(), 4);
    assert!(
        flight.on_late(2),
        "the first that arrives late shows that the answers were"
    );
}

#[test]
fn what_timed_out_is_put_back_with_its_numbers_as_far_as_it_is_missing() {
    let mut flight = sent(4);
    let before = flight.bytes();
    flight.take_all();
    flight.on_sent(at(400), SmallVec::from_slice(&[0]), 1212, None);
    assert_eq!(flight.take_timed_out(4).first(), None, "it was sent later");
    let mut timed_out = flight.take_timed_out(0);
    timed_out.keep(|packet, chunk| (packet != 0 && chunk != 3).then_some(600));
    flight.put_back(at(500), 0, timed_out);
    assert_eq!(flight.next_number(), 5);
    let restored = flight.bytes().as_u64() - 1212;
    assert!((before.as_u64() / 2..before.as_u64()).contains(&restored));
    assert_eq!(flight.sent_at(0), None);
    for (packet, chunks) in [(1, 1), (2, 2), (3, 2), (4, 1)] {
        assert!(flight.sent_at(packet).is_some());
        (0..chunks).for_each(|_| flight.acknowledge(at(501), packet, 600, true));
    }
    assert!(flight.is_empty() && flight.bytes() == ByteCount::ZERO);
}

#[test]
fn what_timed_out_is_forgotten_once_something_newer_has_arrived() {
    let mut flight = sent(4);
    flight.take_all();
    flight.on_sent(at(400), SmallVec::from_slice(&[8]), 1212, None);
    flight.acknowledge(at(450), 4, 1200, true);
    assert_eq!(flight.take_timed_out(0).first(), None);
}
