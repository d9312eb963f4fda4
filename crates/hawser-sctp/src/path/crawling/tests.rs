use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hawser_types::LinkIndex;
use smallvec::SmallVec;

use super::*;
use crate::congestion::{Acknowledged, RateSample};
use crate::path::heartbeat::HeartbeatInfo;
use crate::{AssociationConfig, Local, Route};

const PACKET: u64 = 1200;

/// An association with two paths of 50 ms. Every millisecond a packet leaves over each; over the
/// first all are answered a round trip later.
struct Two {
    paths: Paths,
    ids: [PathId; 2],
    /// Milliseconds.
    now: u64,
}

impl Two {
    fn new() -> Self {
        let mut paths = Paths::new(&AssociationConfig::default(), 1);
        let ids = [1, 2].map(|link: u8| {
            let route = Route {
                local: Local {
                    link: LinkIndex::new(link.into()),
                    address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, link)),
                },
                remote: SocketAddr::from(([198, 51, 100, 1], 9899)),
            };
            let id = paths.add(at(0), route, true).unwrap();
            let path = paths.path_mut(id).unwrap();
            path.rtt.on_sample(at(0), Duration::from_millis(50));
            id
        });
        let mut two = Self { paths, ids, now: 0 };
        // The first heartbeats, and the search for the size of packets.
        while let Some(heartbeat) = two.paths.poll_heartbeat(at(0)) {
            let from = two.remote();
            two.paths.on_heartbeat_ack(at(0), from, &heartbeat.info);
        }
        two
    }

    /// Lets time pass; one packet in so many that left over the second path is answered.
    fn run(&mut self, ms: u64, one_in: u64) {
        for _ in 0..ms {
            self.now += 1;
            let now = at(self.now);
            for (place, id) in self.ids.into_iter().enumerate() {
                let path = self.paths.path_mut(id).unwrap();
                path.flight
                    .on_sent(now, SmallVec::from_slice(&[self.now]), PACKET, None);
                let answered = match place {
                    0 => true,
                    _ => one_in > 0 && self.now.is_multiple_of(one_in),
                };
                if answered && self.now > 50 {
                    let oldest = path.flight.uncopied().map(|packet| packet.number).unwrap();
                    path.flight.acknowledge(now, oldest, PACKET, true);
                    path.on_acknowledged(&acknowledged(now));
                    self.paths.on_answered(now, id);
                }
            }
            self.paths.watch(now);
        }
    }

    fn remote(&self) -> SocketAddr {
        self.paths.path(self.ids[0]).unwrap().route.remote
    }

    fn crawls(&self, place: usize) -> bool {
        let path = self.paths.path(self.ids[place]).unwrap();
        path.standing.crawls()
    }

    /// Sends both heartbeats of a trial, and answers the second so long after the first.
    fn try_out(&mut self, apart: u64) {
        let now = at(self.now);
        let sent = [(); 2].map(|()| self.paths.poll_heartbeat(now).unwrap());
        assert_eq!(sent[0].pad, 0);
        assert!(sent[1].pad > 1000, "{sent:?}");
        let from = self.remote();
        for (heartbeat, after) in sent.iter().zip([200, 200 + apart]) {
            assert_eq!(heartbeat.path, self.ids[1]);
            assert!(HeartbeatInfo::decode(&heartbeat.info, false).is_some());
            let now = at(self.now + after);
            self.paths.on_heartbeat_ack(now, from, &heartbeat.info);
        }
        self.now += 200 + apart;
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + ms * 1_000_000)
}

/// As if four such packets came each millisecond.
fn acknowledged(now: Instant) -> Acknowledged {
    let packet = ByteCount::new(PACKET);
    let sample = RateSample {
        rate: Rate::from_bytes_per_second(PACKET * 4000),
        delivered: packet,
        delivered_before: ByteCount::ZERO,
        application_limited: false,
    };
    Acknowledged {
        now,
        bytes: packet,
        flight_before: packet,
        flight: packet,
        rtt: None,
        smoothed_rtt: Duration::from_millis(50),
        newest_sent: now,
        may_grow: true,
        sample: Some(sample),
    }
}

#[test]
fn a_path_that_brings_next_to_nothing_is_suspect_and_one_that_brings_its_part_is_not() {
    let mut two = Two::new();
    two.run(400, 1);
    assert!(!two.crawls(1));
    // A thirty-second is worth having.
    two.run(400, 8);
    assert!(!two.crawls(1));
    two.run(400, 140);
    assert!(two.crawls(1));
    assert!(!two.crawls(0));
    let id = two.ids[1];
    assert!(two.paths.path(id).unwrap().is_suspect(at(two.now)));
}

#[test]
fn a_path_is_well_again_when_a_large_heartbeat_comes_soon_behind_a_short_one() {
    let mut two = Two::new();
    two.run(400, 1);
    two.run(400, 140);
    two.try_out(200);
    assert!(two.crawls(1));
    two.now += 200;
    two.try_out(10);
    assert!(!two.crawls(1));
}

#[test]
fn what_a_new_path_was_given_first_goes_over_another_when_it_is_late() {
    let mut two = Two::new();
    two.run(149, 0);
    assert!(!two.crawls(1));
    two.run(20, 0);
    assert!(two.crawls(1));
}
