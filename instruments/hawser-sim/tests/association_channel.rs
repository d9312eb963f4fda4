//! Sessions with an association beside their TCP channels.

use std::time::Duration;

use bytes::Bytes;
use hawser_scenario::{Direction, Scenario, no_files};
use hawser_sched::chunk::ChunkPolicy;
use hawser_session::{
    ReadOutcome, SessionConfig, SessionSnapshot, Side, Transport, TransportChoice,
};
use hawser_sim::bond::{Bond, BondConfig, Signal};
use hawser_sim::bulk::{self, Bulk};
use hawser_sim::network::UdpFate;
use hawser_types::{ByteCount, Instant, StreamId};

fn scenario(links: &str) -> Scenario {
    Scenario::parse("test", &format!("payload = \"1MB\"\n{links}"), &no_files).unwrap()
}

fn link(rate: &str, delay: &str) -> String {
    format!("[[link]]\nrate = \"{rate}\"\ndelay = \"{delay}\"\nqueue = \"60ms\"\n")
}

fn unlike() -> Scenario {
    scenario(&(link("20Mbit/s", "10ms") + &link("10Mbit/s", "40ms")))
}

fn bond(scenario: &Scenario, transport: TransportChoice) -> Bond {
    let config = BondConfig {
        transport,
        ..BondConfig::default()
    };
    let mut bond = Bond::new(scenario, 7, config);
    bond.rest(Duration::from_secs(2));
    bond
}

fn look(bond: &Bond, side: Side) -> SessionSnapshot {
    bond.session(side).snapshot(bond.now(), 0)
}

fn has_association(bond: &Bond) -> bool {
    let sides = [Side::Client, Side::Gateway];
    let mut sides = sides.map(|side| look(bond, side).transport.association);
    sides.iter_mut().all(|association| association.is_some())
}

/// Bytes of records that went over TCP channels since a look before.
fn over_tcp(now: &SessionSnapshot, before: &SessionSnapshot) -> u64 {
    let sum = |snapshot: &SessionSnapshot| -> u64 {
        let tcp = snapshot.channels.iter();
        let tcp = tcp.filter(|channel| channel.transport == Transport::Tcp);
        tcp.map(|channel| channel.sent.as_u64()).sum()
    };
    sum(now) - sum(before)
}

#[test]
fn a_transfer_goes_over_the_links_of_an_association_both_ways() {
    let scenario = unlike();
    let mut bond = bond(&scenario, TransportChoice::Sctp);
    assert!(has_association(&bond));
    for (direction, side) in [
        (Direction::Put, Side::Client),
        (Direction::Get, Side::Gateway),
    ] {
        let before = look(&bond, side);
        let bytes = ByteCount::new(8_000_000);
        let bulk = Bulk::new(direction, bytes, Duration::from_secs(60));
        let outcome = bulk::run(&mut bond, &bulk);
        assert!(
            outcome
                .took
                .is_some_and(|took| took < Duration::from_secs(5)),
            "{:?}",
            outcome.took
        );
        bond.rest(Duration::from_secs(1));
        let after = look(&bond, side);
        assert!(over_tcp(&after, &before) < 50_000);
        // Each link has its part on its account, as at the gateway so at the client.
        let carried = |number: usize| {
            let [now, then] = [&after, &before].map(|it| it.links[number].sent.as_u64());
            now - then
        };
        let offset = after.links.len() - 2;
        let [first, second] = [carried(offset), carried(offset + 1)];
        assert!(
            (8_000_000..9_500_000).contains(&(first + second)),
            "{first} {second}"
        );
        assert!(first > second && second > 1_000_000, "{first} {second}");
    }
}

/// Bytes that the client's links carry for a transfer of a megabyte.
fn carried_for_a_megabyte(bond: &mut Bond) -> u64 {
    let sent = |bond: &Bond| -> u64 {
        let links = look(bond, Side::Client).links;
        links.iter().map(|link| link.sent.as_u64()).sum()
    };
    let before = sent(bond);
    let megabyte = ByteCount::new(1_000_000);
    let bulk = Bulk::new(Direction::Put, megabyte, Duration::from_secs(60));
    bulk::run(bond, &bulk).took.unwrap();
    bond.rest(Duration::from_secs(1));
    sent(bond) - before
}

/// The policy of the session places the association's packets: `redundant` sends each one twice.
#[test]
fn an_association_follows_the_policy_of_its_session_at_the_start_and_when_it_changes() {
    let scenario = scenario(&link("10Mbit/s", "20ms").repeat(2));
    let config = BondConfig {
        transport: TransportChoice::Sctp,
        session: SessionConfig {
            scheduler: ChunkPolicy::Redundant,
            ..BondConfig::default().session
        },
        ..BondConfig::default()
    };
    let mut bond = Bond::new(&scenario, 7, config);
    bond.rest(Duration::from_secs(2));
    assert!(has_association(&bond));
    let twice = carried_for_a_megabyte(&mut bond);
    assert!((2_000_000..2_400_000).contains(&twice), "{twice}");
    bond.with(Side::Client, |session, now| {
        session.set_scheduler(now, ChunkPolicy::RoundRobin);
    });
    let once = carried_for_a_megabyte(&mut bond);
    assert!((1_000_000..1_200_000).contains(&once), "{once}");
}

/// The bytes of a stream, so that what is out of order shows.
fn byte(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A stream from the client, which ends after `size` bytes.
struct Flow {
    id: StreamId,
    written: u64,
    read: u64,
    size: u64,
    ended: bool,
}

impl Flow {
    fn step(&mut self, bond: &mut Bond) {
        let room = self.size - self.written;
        let piece: Vec<u8> = (0..room.min(100_000))
            .map(|n| byte(self.written + n))
            .collect();
        let (id, last) = (self.id, room <= 100_000);
        self.written += bond.with(Side::Client, |session, now| {
            let taken = session.write_slice(now, id, &piece).unwrap_or(0);
            if last && taken == piece.len() && !piece.is_empty() {
                session.finish(now, id).unwrap();
            }
            taken as u64
        });
        while let Ok(outcome) =
            bond.with(Side::Gateway, |session, now| session.read(now, id, 1 << 20))
        {
            match outcome {
                ReadOutcome::Data(at, bytes) => {
                    assert_eq!(at, self.read);
                    for (position, got) in (at..).zip(&bytes) {
                        assert_eq!(*got, byte(position), "at {position}");
                    }
                    self.read += bytes.len() as u64;
                }
                ReadOutcome::Blocked => break,
                ReadOutcome::End => {
                    self.ended = true;
                    break;
                }
            }
        }
    }

    fn run(&mut self, bond: &mut Bond, until: Instant) {
        while bond.now() < until && !self.ended {
            self.step(bond);
            let next = (bond.now() + Duration::from_millis(5)).min(until);
            while let Some(Signal::Event(..) | Signal::Alarm(_)) = bond.step(next) {}
        }
    }
}

/// How long after the session the client has the association, and how long until all its paths
/// answer.
fn beginning(delays: &[u64]) -> [Duration; 2] {
    let links = delays
        .iter()
        .map(|delay| link("20Mbit/s", &format!("{delay}ms")));
    let scenario = scenario(&links.collect::<String>());
    let config = BondConfig {
        transport: TransportChoice::Sctp,
        ..BondConfig::default()
    };
    let mut bond = Bond::new(&scenario, 7, config);
    while look(&bond, Side::Client).channels.is_empty() {
        bond.rest(Duration::from_millis(1));
    }
    let began = bond.now();
    let mut at = [None; 2];
    while at.contains(&None) {
        bond.rest(Duration::from_millis(1));
        let age = bond.now().since(began);
        assert!(age < Duration::from_secs(60), "{delays:?}: {at:?}");
        bond.sample_associations();
        let now = look(&bond, Side::Client);
        if now.transport.association.is_some() {
            at[0].get_or_insert(age);
        }
        let paths = now.channels.iter();
        let answering = paths.filter(|it| it.transport == Transport::Association && !it.suspect);
        if answering.count() >= scenario.links.len() {
            at[1].get_or_insert(age);
        }
    }
    at.map(Option::unwrap)
}

/// INIT over the quick link comes before ASSOCIATE where links differ, and waits for no slow one.
#[test]
fn an_association_stands_three_of_the_quickest_round_trips_after_the_session() {
    for delays in [&[5][..], &[30], &[100], &[5, 30, 100], &[100, 30, 5]] {
        let [stands, whole] = beginning(delays);
        let round_trip =
            |delay: Option<&u64>| Duration::from_millis(delay.copied().unwrap_or(0) * 2);
        let [quickest, longest] = [delays.iter().min(), delays.iter().max()].map(round_trip);
        let late = Duration::from_millis(15);
        assert!(stands <= quickest * 3 + late, "{delays:?}: {stands:?}");
        assert!(whole <= stands + longest + late, "{delays:?}: {whole:?}");
    }
}

/// A firewall that begins to drop UDP costs no byte and no connection, and one that lets it pass
/// again is noticed.
#[test]
fn a_stream_survives_that_udp_is_dropped_and_goes_over_the_association_again() {
    let scenario = unlike();
    let mut bond = bond(&scenario, TransportChoice::Sctp);
    let id = bond.with(Side::Client, |session, now| {
        session.open_stream(now, Bytes::from_static(b"x")).unwrap()
    });
    let mut flow = Flow {
        id,
        written: 0,
        read: 0,
        size: 40_000_000,
        ended: false,
    };
    let at = |bond: &Bond, seconds| bond.now() + Duration::from_secs(seconds);
    let until = at(&bond, 2);
    flow.run(&mut bond, until);
    assert_eq!(
        look(&bond, Side::Client).transport.in_use,
        Transport::Association
    );
    bond.set_udp(UdpFate::Blocked);
    let (before, read) = (look(&bond, Side::Client), flow.read);
    let until = at(&bond, 4);
    flow.run(&mut bond, until);
    let blocked = look(&bond, Side::Client);
    assert_eq!(blocked.transport.in_use, Transport::Tcp);
    assert!(over_tcp(&blocked, &before) > 8_000_000);
    assert!(flow.read - read > 8_000_000, "{}", flow.read - read);
    bond.set_udp(UdpFate::Passes);
    let until = at(&bond, 5);
    flow.run(&mut bond, until);
    let after = look(&bond, Side::Client);
    assert_eq!(after.transport.in_use, Transport::Association);
    let until = at(&bond, 60);
    flow.run(&mut bond, until);
    assert!(
        flow.ended && flow.read == flow.size,
        "{} of {}",
        flow.read,
        flow.size
    );
}

/// Where UDP never passes, everything is as without it.
#[test]
fn a_network_without_udp_costs_nothing() {
    let scenario = unlike();
    let took = |transport| {
        let config = BondConfig {
            transport,
            ..BondConfig::default()
        };
        let mut bond = Bond::new(&scenario, 7, config);
        bond.set_udp(UdpFate::Blocked);
        bond.rest(Duration::from_secs(2));
        let bytes = ByteCount::new(8_000_000);
        let bulk = Bulk::new(Direction::Get, bytes, Duration::from_secs(60));
        bulk::run(&mut bond, &bulk).took.unwrap()
    };
    let [tcp, auto] = [TransportChoice::Tcp, TransportChoice::Auto].map(took);
    assert!(auto < tcp + tcp / 20, "{auto:?} {tcp:?}");
}

/// The association brings a little all the time, so that no silence makes what it has go again. All
/// that comes over TCP would wait for the 100 kB or so, for four seconds.
#[test]
fn what_a_limited_association_has_goes_again_over_tcp() {
    let rate = "8Mbit/s";
    let scenario = scenario(&(link(rate, "12ms") + &link(rate, "12ms")));
    for direction in [Direction::Put, Direction::Get] {
        let mut bond = bond(&scenario, TransportChoice::Auto);
        bond.set_udp(UdpFate::Limited(Duration::from_secs(4)));
        let bulk = Bulk::new(
            direction,
            ByteCount::new(16_000_000),
            Duration::from_secs(60),
        );
        let outcome = bulk::run(&mut bond, &bulk);
        let gap = outcome.arrivals.gap(Duration::from_secs(1));
        assert!(gap < Duration::from_secs(1), "{direction:?}: {gap:?}");
        let took = outcome.took;
        assert!(
            took.is_some_and(|it| it < Duration::from_secs(10)),
            "{direction:?}: {took:?}"
        );
    }
}
