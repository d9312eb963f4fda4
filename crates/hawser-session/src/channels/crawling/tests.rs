use hawser_path::KernelSample;
use hawser_types::LinkIndex;

use super::*;
use crate::channel::{ChannelSpec, Trial};
use crate::side::Side;
use crate::unacknowledged::ChunkKey;

const HEALTHY: ChannelId = ChannelId::new(1);
const DYING: ChannelId = ChannelId::new(2);
const ROUND_TRIP: Duration = Duration::from_millis(50);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// Two links with a channel for bulk each, over which `rates` bytes come in a millisecond from the
/// first second on, in this time: both have more in flight than that all the time.
struct Links {
    channels: Channels,
    written: u64,
    arrived: [u64; 2],
    /// Bytes in flight on the second link that were sent later.
    trial: u64,
    now: u64,
}

impl Links {
    fn new() -> Self {
        let mut channels = Channels::default();
        for id in [HEALTHY, DYING] {
            channels.insert(Channel::new(ChannelSpec {
                begun_by: Side::Client,
                id,
                role: ChannelRole::Bulk,
                link: LinkIndex::new(id.value()),
                records: 0,
                segment_size: Some(1448),
            }));
        }
        let mut links = Self {
            channels,
            written: 0,
            arrived: [0; 2],
            trial: 0,
            now: 1000,
        };
        for id in [HEALTHY, DYING] {
            let channel = links.channels.get_mut(id).unwrap();
            for _ in 0..2000 {
                channel
                    .outbound_mut()
                    .assign(ChunkKey::default(), 10_000, false);
                let chunk = channel.outbound_mut().take_assigned();
                channel.on_record(at(1000), 10_000, chunk);
            }
        }
        links.written = 20_000_000;
        links
    }

    /// So many milliseconds go by, in each of which so many bytes come.
    fn pass(&mut self, millis: u64, rates: [u64; 2]) {
        for _ in 0..millis / 10 {
            self.now += 10;
            for (place, id) in [HEALTHY, DYING].into_iter().enumerate() {
                self.arrived[place] += rates[place] * 10;
                let trial = if id == DYING { self.trial } else { 0 };
                let sample = KernelSample {
                    rtt: ROUND_TRIP,
                    min_rtt: Some(ROUND_TRIP),
                    delivery_rate: Rate::from_bytes_per_second(rates[place].max(1) * 1000),
                    unacknowledged: ByteCount::new(self.written - self.arrived[place] + trial),
                    ..KernelSample::default()
                };
                let sample = match rates[place] {
                    0 => KernelSample {
                        since_ack: Duration::from_millis(millis),
                        ..sample
                    },
                    _ => sample,
                };
                let channel = self.channels.get_mut(id).unwrap();
                channel.on_sample(at(self.now), sample);
            }
        }
    }

    fn crawls(&self, id: ChannelId) -> bool {
        let channel = self.channels.get(id).unwrap();
        self.channels.judges_crawling(at(self.now), channel)
    }

    fn is_slow(&self, id: ChannelId) -> bool {
        let channel = self.channels.get(id).unwrap();
        self.channels.slow_pace(at(self.now), channel).is_some()
    }
}

#[test]
fn a_link_that_brings_a_hundredth_of_another_crawls_and_one_that_brings_a_thirtieth_does_not() {
    let mut links = Links::new();
    links.pass(1000, [2000, 2000]);
    assert!(!links.crawls(DYING) && !links.is_slow(DYING));
    links.pass(160, [2000, 20]);
    assert!(links.crawls(DYING) && links.is_slow(DYING));
    assert!(!links.crawls(HEALTHY) && !links.is_slow(HEALTHY));
    links.pass(160, [2000, 66]);
    assert!(!links.crawls(DYING));
    assert!(links.is_slow(DYING), "it is, however, far below");
}

#[test]
fn a_link_that_does_not_answer_is_left_to_those_who_judge_silence() {
    let mut links = Links::new();
    links.pass(1000, [2000, 2000]);
    links.pass(200, [2000, 0]);
    assert!(!links.crawls(DYING));
}

#[test]
fn beside_a_link_that_is_hardly_faster_none_crawls() {
    let mut links = Links::new();
    links.pass(1000, [20, 10]);
    links.pass(200, [20, 0]);
    assert!(!links.crawls(DYING) && !links.is_slow(DYING));
}

#[test]
fn a_few_kilobytes_show_whether_a_link_still_crawls() {
    let is_quick = |millis: u64| {
        let mut links = Links::new();
        links.pass(1000, [2000, 20]);
        let route = links.channels.get(DYING).unwrap().route();
        assert_eq!(links.channels.mark_crawling(route).as_slice(), [DYING]);
        let channel = links.channels.get_mut(DYING).unwrap();
        channel.liveness_mut().suspect(at(2000));
        channel.outbound_mut().set_ready(true);
        // A single packet more would say nothing, and what is in flight has to come first.
        let due = |links: &Links, waiting| {
            let now = at(links.now);
            links.channels.due_for_trial(now, HEALTHY, waiting)
        };
        assert_eq!(due(&links, 100_000), None);
        links.arrived[1] = links.written;
        links.pass(500, [2000, 0]);
        assert_eq!(due(&links, 2000), None);
        assert_eq!(due(&links, 100_000), Some(DYING));
        let now = at(links.now);
        let channel = links.channels.get_mut(DYING).unwrap();
        let trial = Trial {
            at: now,
            bytes: ByteCount::new(5000),
            payload: channel.outbound().payload() + 5000,
        };
        channel.liveness_mut().try_out(trial);
        let outbound = channel.outbound_mut();
        outbound.assign(ChunkKey::default(), 5000, true);
        let chunk = outbound.take_assigned();
        channel.on_record(now, 5000, chunk);
        links.trial = 5000;
        links.pass(millis - 10, [2000, 0]);
        assert_eq!(due(&links, 100_000), None, "one at a time");
        links.trial = 0;
        links.pass(10, [2000, 0]);
        let channel = links.channels.get(DYING).unwrap();
        links.channels.is_quick_again(at(links.now), channel)
    };
    // A thirty-second of 2 MB/s takes 80 ms for it, behind 50 ms and 40 for looks.
    assert!(is_quick(160));
    assert!(!is_quick(180));
}

#[test]
fn ways_that_crawled_are_remembered_for_channels_to_come_within_a_bound() {
    let mut channels = Channels::default();
    for link in 1..100 {
        channels.mark_crawling(Route::of_client(LinkIndex::new(link)));
    }
    assert_eq!(channels.crawling.len(), MOST_CRAWLING);
    assert!(
        channels
            .crawling
            .contains(&Route::of_client(LinkIndex::new(99)))
    );
}

#[test]
fn a_link_that_crawls_is_taken_for_well_when_no_other_is_left_or_nothing_tries_it() {
    let mut links = Links::new();
    links.pass(1000, [2000, 20]);
    let route = links.channels.get(DYING).unwrap().route();
    links.channels.mark_crawling(route);
    let channel = links.channels.get_mut(DYING).unwrap();
    channel.liveness_mut().suspect(at(2000));
    let is_quick = |links: &Links| {
        let channel = links.channels.get(DYING).unwrap();
        links.channels.is_quick_again(at(links.now), channel)
    };
    assert!(!is_quick(&links));
    links.arrived[1] = links.written;
    links.pass(500, [2000, 0]);
    assert!(!is_quick(&links));
    // All has arrived, and nothing is there to try it with.
    links.pass(9400, [0, 0]);
    assert!(!is_quick(&links));
    links.pass(100, [0, 0]);
    assert!(is_quick(&links));
    links.now = 2600;
    links.channels.remove(HEALTHY);
    assert!(is_quick(&links));
}

#[test]
fn a_link_that_was_given_little_is_not_blamed_for_bringing_little() {
    let mut links = Links::new();
    links.pass(1000, [2000, 2000]);
    links.arrived[1] = links.written - 3000;
    links.pass(10, [2000, 0]);
    links.pass(300, [2000, 1]);
    assert!(!links.crawls(DYING) && !links.is_slow(DYING));
}
