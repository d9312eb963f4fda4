//! Datagrams of calls over an association, on links that lose packets.

use std::time::Duration;

use bytes::Bytes;
use hawser_scenario::{Scenario, no_files};
use hawser_session::{Event, Side, TransportChoice};
use hawser_sim::bond::{Bond, BondConfig, Signal};
use hawser_types::{Instant, StreamId};

/// One packet in thirty is lost, so both copies of one in 900.
const LOSSY: &str = "\
payload = \"1MB\"
[[link]]
rate = \"10Mbit/s\"
delay = \"20ms\"
loss = \"3.33%\"
[[link]]
rate = \"10Mbit/s\"
delay = \"25ms\"
loss = \"3.33%\"
";

#[test]
fn what_a_call_sends_twice_is_seldom_late() {
    let once = call(false);
    assert!((60..140).contains(&once.late), "{once:?}");
    let twice = call(true);
    assert!(twice.late < 10, "{twice:?}");
    assert!(twice.lost <= once.lost, "{once:?} {twice:?}");
}

/// Of [`DATAGRAMS`].
#[derive(Debug)]
struct Outcome {
    /// Not there when they are to be played.
    late: usize,
    /// Never there.
    lost: usize,
}

/// A minute of a call towards the gateway, which is told that it is one, or not.
fn call(is_told: bool) -> Outcome {
    let scenario = Scenario::parse("test", LOSSY, &no_files).unwrap();
    let config = BondConfig {
        transport: TransportChoice::Sctp,
        ..BondConfig::default()
    };
    let mut bond = Bond::new(&scenario, 7, config);
    bond.rest(Duration::from_secs(3));
    let id = bond.with(Side::Client, |session, now| {
        let id = session.open_stream(now, Bytes::from_static(b"x")).unwrap();
        if is_told {
            session.set_call(id);
        }
        id
    });
    let mut arrivals = Arrivals::default();
    for number in 0..DATAGRAMS {
        let payload = Bytes::from(format!("{number:0160}"));
        arrivals.0.push((bond.now(), None));
        bond.with(Side::Client, |session, now| {
            session.send_datagram(now, id, payload).unwrap();
        });
        arrivals.listen(&mut bond, id, EVERY);
    }
    arrivals.listen(&mut bond, id, Duration::from_secs(2));
    arrivals.outcome()
}

/// When each was sent, and when it came.
#[derive(Default)]
struct Arrivals(Vec<(Instant, Option<Instant>)>);

impl Arrivals {
    /// Lets time pass, and notes what comes to the gateway.
    fn listen(&mut self, bond: &mut Bond, id: StreamId, span: Duration) {
        let until = bond.now() + span;
        while let Some(signal) = bond.step(until) {
            if let Signal::Event(Side::Gateway, Event::StreamOpened(id)) = signal {
                bond.with(Side::Gateway, |session, now| {
                    session.accept_stream(now, id, Bytes::new()).unwrap();
                });
            }
            while let Some(payload) = take(bond, id) {
                let number: usize = str::from_utf8(&payload).unwrap().parse().unwrap();
                let came = self.0[number].1.replace(bond.now());
                assert_eq!(came, None, "{number} came twice");
            }
        }
    }

    fn outcome(&self) -> Outcome {
        let is_in_time = |(sent, came): &&(Instant, Option<Instant>)| {
            came.is_some_and(|came| came.since(*sent) <= PLAYED_AFTER)
        };
        Outcome {
            late: DATAGRAMS - self.0.iter().filter(is_in_time).count(),
            lost: self.0.iter().filter(|(_, came)| came.is_none()).count(),
        }
    }
}

/// A datagram that has come to the gateway, whose stream may not have been opened yet.
fn take(bond: &mut Bond, id: StreamId) -> Option<Bytes> {
    bond.with(Side::Gateway, |session, _| session.receive_datagram(id))
        .unwrap_or_default()
}

/// A minute of a call.
const DATAGRAMS: usize = 3000;
const EVERY: Duration = Duration::from_millis(20);
/// What is sent again after a loss takes longer.
const PLAYED_AFTER: Duration = Duration::from_millis(60);
