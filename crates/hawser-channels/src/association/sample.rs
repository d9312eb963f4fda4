//! Report to the session about an association and the links below its paths.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_sched::tally::Placed;
use hawser_sctp::{Association, Backlog, PathSnapshot, Traffic};
use hawser_session::seal::datagram::OVERHEAD;
use hawser_session::{AssociationSample, PathSample, Session};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};

use super::PathLinks;

/// State of an association at one moment, taken without access to the session.
#[derive(Clone, Debug)]
pub struct AssociationState {
    /// Paths that have answered at least once.
    paths: Vec<PathSnapshot>,
    /// Data placed on links since the previous state.
    placed: Vec<Placed>,
    backlog: Backlog,
    /// Bytes of messages that the association has not accepted yet.
    waiting: ByteCount,
    /// Time since the peer's last acknowledgement, or since the association's start.
    since_ack: Duration,
    /// Whether no path carries the data that the peer waits for.
    is_stuck: bool,
}

impl AssociationState {
    /// Takes the state of an association. Placed data is in one state only, so each state must be
    /// reported. `began` is the time when the association became a channel; `waiting` are bytes of
    /// messages that it has not accepted yet.
    pub fn take(
        now: Instant,
        began: Instant,
        association: &mut Association,
        waiting: ByteCount,
    ) -> Self {
        let (paths, backlog) = (association.paths(now), association.backlog());
        let placed = association.take_placed();
        Self {
            placed,
            is_stuck: association.is_stuck(now),
            ..Self::new(now, began, paths, backlog, waiting)
        }
    }

    fn new(
        now: Instant,
        began: Instant,
        mut paths: Vec<PathSnapshot>,
        backlog: Backlog,
        waiting: ByteCount,
    ) -> Self {
        // A path that never answered has no link yet.
        paths.retain(|path| path.is_active || path.rtt.is_some());
        Self {
            paths,
            placed: Vec::new(),
            waiting,
            since_ack: now.since(backlog.acknowledged_at.max(began)),
            backlog,
            is_stuck: false,
        }
    }

    /// True if TCP channels may tell more about the link of a path: the owner then updates `links`
    /// before it reports.
    pub fn has_unknown_path(&self, links: &PathLinks) -> bool {
        self.paths.iter().any(|path| links.is_unknown(path))
    }

    /// Reports the state to the session.
    pub fn report(
        &self,
        now: Instant,
        session: &mut Session,
        channel: ChannelId,
        links: &mut PathLinks,
    ) {
        links.set_paths(&self.paths);
        let paths = self.samples(links);
        let placed = self.placed(links);
        let queued = self.backlog.queued + self.waiting;
        let sample = AssociationSample {
            paths: &paths,
            placed: &placed,
            unacknowledged: self.backlog.in_flight + queued,
            queued,
            since_ack: self.since_ack,
            duplicated: self.backlog.sent_twice,
            copied: self.backlog.copied,
            is_stuck: self.is_stuck,
        };
        session.handle_association_sample(now, channel, &sample);
    }

    /// Returns the placed data, by the links of the session.
    fn placed(&self, links: &PathLinks) -> Vec<Placed> {
        let placed = self.placed.iter().copied();
        let named = placed.map(|placed| Placed {
            link: links.of_session(&self.paths, placed.link),
            ..placed
        });
        named.collect()
    }

    /// Returns one sample per link: the session treats all paths of a link as one.
    fn samples(&self, links: &PathLinks) -> Vec<PathSample> {
        let mut samples: BTreeMap<LinkIndex, PathSample> = BTreeMap::new();
        for path in &self.paths {
            let link = links.link(path).unwrap_or(LinkIndex::ALL);
            let sample = sample_of(link, path);
            let merged = samples.get(&link).map(|known| merge(*known, sample));
            samples.insert(link, merged.unwrap_or(sample));
        }
        samples.into_values().collect()
    }
}

fn sample_of(link: LinkIndex, path: &PathSnapshot) -> PathSample {
    PathSample {
        link,
        is_active: path.is_active,
        is_suspect: path.is_suspect,
        rtt: path.rtt,
        min_rtt: path.min_rtt,
        rate: path.rate,
        window: path.window,
        in_flight: path.in_flight,
        sent: on_the_wire(path.sent),
        received: on_the_wire(path.received),
        packets: path.sent.packets,
        overtaken: path.overtaken,
    }
}

/// Returns the bytes of the datagrams that carry these packets.
fn on_the_wire(traffic: Traffic) -> ByteCount {
    traffic.bytes + ByteCount::new(traffic.packets * OVERHEAD as u64)
}

/// Merges two paths of one link. A path that does not answer beside one that does counts only with
/// its carried bytes.
fn merge(one: PathSample, other: PathSample) -> PathSample {
    let (best, rest) = if other.is_active && !one.is_active {
        (other, one)
    } else {
        (one, other)
    };
    let counts = rest.is_active == best.is_active;
    let sum = |value: fn(&PathSample) -> ByteCount| {
        if counts {
            value(&best) + value(&rest)
        } else {
            value(&best)
        }
    };
    let rate = if counts { rest.rate } else { Rate::ZERO };
    let lowest = |time: fn(&PathSample) -> Option<Duration>| {
        let rest = time(&rest).filter(|_| counts);
        time(&best).into_iter().chain(rest).min()
    };
    PathSample {
        is_suspect: best.is_suspect && (rest.is_suspect || !counts),
        rtt: lowest(|path| path.rtt),
        min_rtt: lowest(|path| path.min_rtt),
        rate: best.rate + rate,
        window: sum(|path| path.window),
        in_flight: sum(|path| path.in_flight),
        sent: one.sent + other.sent,
        received: one.received + other.received,
        packets: one.packets + other.packets,
        overtaken: one.overtaken + other.overtaken,
        ..best
    }
}

#[cfg(test)]
pub(super) mod testing {
    use std::net::SocketAddr;

    use hawser_sctp::{Local, Route};

    use super::*;

    /// Returns a path from a translator's address, as the gateway sees it, over the link that the
    /// client named.
    pub(in crate::association) fn path(port: u16, peer_link: Option<u32>) -> PathSnapshot {
        PathSnapshot {
            route: Route {
                local: Local {
                    link: LinkIndex::new(1),
                    address: [192, 0, 2, 1].into(),
                },
                remote: SocketAddr::from(([203, 0, 113, 9], port)),
            },
            peer_link: peer_link.map(LinkIndex::new),
            link: LinkIndex::new(1),
            is_active: true,
            is_selected: true,
            is_suspect: false,
            rtt: None,
            min_rtt: None,
            rto: Duration::ZERO,
            window: ByteCount::ZERO,
            in_flight: ByteCount::ZERO,
            rate: Rate::ZERO,
            packet_size: 1200,
            sent: Traffic::default(),
            overtaken: 0,
            received: Traffic::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hawser_session::Side;
    use hawser_types::StreamId;

    use super::testing::path;
    use super::*;

    #[test]
    fn paths_of_one_link_are_one_and_what_does_not_answer_counts_only_in_what_it_has_carried() {
        let bytes = ByteCount::new;
        let path = |is_active, rtt, window| PathSample {
            link: LinkIndex::new(2),
            is_active,
            is_suspect: !is_active,
            rtt: Some(Duration::from_millis(rtt)),
            min_rtt: Some(Duration::from_millis(rtt / 2)),
            rate: Rate::from_bits_per_second(1000),
            window: bytes(window),
            in_flight: bytes(10),
            sent: bytes(100),
            received: bytes(7),
            packets: 4,
            overtaken: 1,
        };
        let (quick, slow) = (path(true, 20, 1000), path(true, 50, 300));
        let both = merge(slow, quick);
        assert_eq!(both, merge(quick, slow));
        assert_eq!((both.rtt, both.min_rtt), (quick.rtt, quick.min_rtt));
        assert_eq!((both.window, both.in_flight), (bytes(1300), bytes(20)));
        assert_eq!(both.rate, Rate::from_bits_per_second(2000));
        let dead = path(false, 5, 9000);
        let carried = PathSample {
            sent: bytes(200),
            received: bytes(14),
            packets: 8,
            overtaken: 2,
            ..slow
        };
        assert_eq!(merge(dead, slow), carried);
        assert_eq!(merge(slow, dead), carried);
    }

    #[test]
    fn paths_count_with_their_seals_by_links_and_only_once_they_have_answered() {
        let carried = |bytes, packets| Traffic {
            packets,
            bytes: ByteCount::new(bytes),
        };
        let first = PathSnapshot {
            sent: carried(1000, 2),
            ..path(4000, None)
        };
        let second = PathSnapshot {
            sent: carried(500, 1),
            ..path(4001, None)
        };
        let silent = PathSnapshot {
            is_active: false,
            ..path(4002, Some(9))
        };
        let mut links = PathLinks::new(Side::Gateway);
        let now = Instant::from_nanos(5_000_000_000);
        let began = Instant::from_nanos(3_000_000_000);
        let paths = vec![first, second, silent];
        let state = AssociationState::new(now, began, paths, Backlog::default(), ByteCount::ZERO);
        assert_eq!(state.since_ack, Duration::from_secs(2));
        assert!(state.has_unknown_path(&links));
        assert_eq!(state.samples(&links)[0].link, LinkIndex::ALL);
        links.learn(LinkIndex::new(4), Some([203, 0, 113, 9].into()));
        assert!(!state.has_unknown_path(&links));
        let samples = state.samples(&links);
        assert_eq!(samples.len(), 1);
        let sent = ByteCount::new(1500 + 3 * OVERHEAD as u64);
        assert_eq!(
            (samples[0].link, samples[0].sent),
            (LinkIndex::new(4), sent)
        );
    }

    #[test]
    fn what_was_placed_on_a_link_that_only_policies_know_is_told_by_the_sessions_link() {
        let [own, lte] = [1, 4].map(LinkIndex::new);
        let stream = Some(StreamId::new(6));
        let placed = |link| Placed {
            stream,
            link,
            tally: Default::default(),
        };
        let mut links = PathLinks::new(Side::Gateway);
        let now = Instant::from_nanos(1);
        let paths = vec![path(4000, None)];
        let state = AssociationState {
            placed: vec![placed(own), placed(lte), placed(LinkIndex::new(9))],
            ..AssociationState::new(now, now, paths, Backlog::default(), ByteCount::ZERO)
        };
        // The gateway's own link 1 is below the path, and is unrelated to the client's links.
        let told = |links: &PathLinks| {
            state
                .placed(links)
                .iter()
                .map(|it| it.link)
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&links), [LinkIndex::ALL; 3]);
        // The path over link 4 is known meanwhile; another path over it is already gone.
        links.learn(lte, Some([203, 0, 113, 9].into()));
        assert_eq!(told(&links), [lte, lte, LinkIndex::ALL]);
        let client = PathLinks::new(Side::Client);
        assert_eq!(told(&client), [own, lte, LinkIndex::new(9)]);
    }
}
