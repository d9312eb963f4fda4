use std::collections::BTreeSet;
use std::ops::Range;

use super::*;

/// Puts a packet of each of these flows of a host into the queue; returns their numbers.
fn begin(sender: &mut Sender, now: Instant, host: u8, ports: Range<u16>) -> BTreeSet<TunnelFlow> {
    let packets = ports.map(|port| of_host(HostEnd::Source, 4, host, port, 1000));
    let mut enqueue = |packet| sender.enqueue(now, packet).unwrap();
    packets.map(&mut enqueue).collect()
}

#[test]
fn a_flood_of_flows_of_one_host_leaves_numbers_to_others() {
    let mut sender = sender(PacketPolicy::Auto);
    let flood = begin(&mut sender, ms(0), 7, 0..9000);
    let [second, third] = [8, 9].map(|host| begin(&mut sender, ms(0), host, 0..300));
    assert_eq!((second.len(), third.len()), (300, 300));
    for other in [&second, &third] {
        assert!(flood.is_disjoint(other));
    }
    assert!(second.is_disjoint(&third));
    // Flows without a number of their own send all the same, and each host has its share.
    let placed = drain(&mut sender, ms(1), &mut paths(&[600_000]));
    let counts = [7, 8, 9].map(|host| count_of(host, &placed));
    assert!(counts.iter().all(|count| *count > 150), "{counts:?}");
    drain(&mut sender, ms(1), &mut paths(&[1 << 24]));
    assert!(sender.is_empty());
    let again = begin(&mut sender, ms(2), 7, 0..2000);
    assert_eq!(again.len(), 2000, "nothing of the flood is left");
}

#[test]
fn flows_that_have_rested_begin_again_within_the_same_bound() {
    let mut sender = sender(PacketPolicy::Auto);
    let count = TunnelFlow::COUNT;
    for port in 0..count {
        begin(&mut sender, ms(0), 7, port..port + 1);
        drain(&mut sender, ms(0), &mut paths(&[1 << 20]));
    }
    let all: Vec<_> = sender.flows().collect();
    assert_eq!(all.len(), usize::from(count), "each has a number");
    let flood = begin(&mut sender, ms(1), 7, 0..count);
    let other = begin(&mut sender, ms(1), 8, 0..300);
    assert_eq!(other.len(), 300);
    assert!(flood.is_disjoint(&other));
}
