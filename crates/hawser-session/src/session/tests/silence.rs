//! Beginning and end of a silence.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_path::KernelSample;
use hawser_sched::chunk::ChunkPolicy;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate, StreamId};
use hawser_wire::{ChannelRole, StateFrame};

use super::raw::spec;
use crate::{Event, Outgoing, Session, SessionConfig, Side};

const BEGAN: Instant = Instant::from_nanos(1_000_000_000);
/// Bytes written in a round trip.
const FULL: u64 = 200_000;
const EXPRESS: ChannelId = ChannelId::new(0);
const BULK: ChannelId = ChannelId::new(1);
const OTHER: ChannelId = ChannelId::new(2);

/// Two links, of which the first is kept full.
struct Busy {
    session: Session,
    stream: StreamId,
    now: Instant,
    /// Records on the bulk channel of the first link.
    records: u64,
    /// Bytes there that the peer's kernel has not acknowledged.
    in_flight: u64,
}

impl Busy {
    /// Acknowledgements have come every 10 ms for two seconds.
    fn new() -> Self {
        let config = SessionConfig {
            scheduler: ChunkPolicy::Backlog,
            ..SessionConfig::default()
        };
        let mut session = Session::new(BEGAN, Side::Client, config);
        session.add_channel(BEGAN, spec(0, ChannelRole::Express, 1));
        session.add_channel(BEGAN, spec(1, ChannelRole::Bulk, 1));
        session.add_channel(BEGAN, spec(2, ChannelRole::Bulk, 2));
        let rare = KernelSample {
            rtt_variation: Duration::from_millis(150),
            ..sample(Duration::ZERO, 0)
        };
        for id in [EXPRESS, BULK, OTHER] {
            session.handle_sample(BEGAN, id, rare);
        }
        let stream = session.open_stream(BEGAN, Bytes::new()).unwrap();
        let mut body = BytesMut::new();
        let limit = 100_000_000;
        StateFrame::Credit { stream, limit }.encode(&mut body);
        session.handle_record(BEGAN, OTHER, body.freeze()).unwrap();
        let mut busy = Self {
            session,
            stream,
            now: BEGAN,
            records: 1,
            in_flight: 0,
        };
        for _ in 0..200 {
            busy.write();
            busy.acknowledge(10);
            busy.step(Duration::ZERO);
        }
        busy
    }

    /// More is written to the channel that is kept full.
    fn write(&mut self) {
        let _ = self
            .session
            .write_slice(self.now, self.stream, &[0; 20_000]);
        let mut out = Outgoing::default();
        // Streams begin on express channels.
        self.session.handle_writable(self.now, EXPRESS);
        while self.session.poll_transmit(self.now, EXPRESS, &mut out) {}
        self.session.handle_writable(self.now, BULK);
        if self.session.poll_transmit(self.now, BULK, &mut out) {
            self.records += 1;
            self.in_flight += out.payload.iter().map(Bytes::len).sum::<usize>() as u64;
        }
    }

    /// The peer's session has all records but the last so many.
    fn acknowledge(&mut self, but: u64) {
        let mut body = BytesMut::new();
        let records = self.records.saturating_sub(but).max(1);
        let channel = BULK;
        StateFrame::Ack { channel, records }.encode(&mut body);
        let body = body.freeze();
        self.session.handle_record(self.now, OTHER, body).unwrap();
    }

    /// Ten milliseconds pass, and the peer's kernel was last heard `since` before their end.
    fn step(&mut self, since: Duration) -> Vec<Event> {
        self.now += Duration::from_millis(10);
        if since == Duration::ZERO {
            self.in_flight = self.in_flight.min(FULL);
        }
        let (session, now) = (&mut self.session, self.now);
        session.handle_sample(now, BULK, sample(since, self.in_flight));
        session.handle_sample(now, OTHER, sample(Duration::ZERO, 0));
        session.handle_timeout(now);
        std::iter::from_fn(|| session.poll_event()).collect()
    }
}

fn sample(since_ack: Duration, unacknowledged: u64) -> KernelSample {
    KernelSample {
        rtt: Duration::from_millis(100),
        delivery_rate: Rate::from_bits_per_second(16_000_000),
        unacknowledged: ByteCount::new(unacknowledged),
        not_sent: Some(ByteCount::ZERO),
        since_ack,
        ..KernelSample::default()
    }
}

/// How long the silence lasts until the channel is suspect.
fn until_suspect(busy: &mut Busy) -> Duration {
    let last = busy.now;
    for _ in 0..100 {
        let since = busy.now.since(last) + Duration::from_millis(10);
        if busy.step(since).contains(&Event::Suspect(BULK)) {
            return since;
        }
        if since == Duration::from_millis(50) {
            busy.write();
        }
    }
    panic!("never suspect");
}

#[test]
fn what_a_channel_in_little_use_remembers_excuses_no_silence_of_one_that_is_kept_full() {
    let silence = until_suspect(&mut Busy::new());
    assert!(silence <= Duration::from_millis(140), "{silence:?}");
}

#[test]
fn a_suspect_is_sound_again_when_it_is_heard_and_not_before() {
    let mut busy = Busy::new();
    let silence = until_suspect(&mut busy);
    // The rest in flight is younger, but no acknowledgement has come.
    busy.acknowledge(1);
    let events = busy.step(silence + Duration::from_millis(10));
    assert!(!events.contains(&Event::Recovered(BULK)), "{events:?}");
    let events = busy.step(Duration::ZERO);
    assert!(events.contains(&Event::Recovered(BULK)), "{events:?}");
}

#[test]
fn the_queue_of_a_suspect_is_not_copied_when_it_is_heard_again() {
    let mut busy = Busy::new();
    let again = |busy: &Busy| busy.session.snapshot(busy.now, 0).counters.chunks_again;
    let before = again(&busy);
    until_suspect(&mut busy);
    let events = busy.step(Duration::ZERO);
    assert!(events.contains(&Event::Recovered(BULK)), "{events:?}");
    let mut out = Outgoing::default();
    for _ in 0..10 {
        busy.session.handle_writable(busy.now, OTHER);
        busy.session.poll_transmit(busy.now, OTHER, &mut out);
    }
    assert_eq!(again(&busy), before);
}

#[test]
fn another_connection_is_wanted_beside_a_suspect_and_whichever_speaks_first_stays() {
    let link = LinkIndex::new(1);
    let mut busy = Busy::new();
    assert_eq!(busy.session.wanted_channels(link), 1);
    let silence = until_suspect(&mut busy);
    assert_eq!(busy.session.wanted_channels(link), 2);
    let events = busy.step(Duration::ZERO);
    assert!(events.contains(&Event::Spread(link)), "{events:?}");
    assert_eq!(busy.session.wanted_channels(link), 1);

    until_suspect(&mut busy);
    let fresh = spec(3, ChannelRole::Bulk, 1);
    busy.session.add_channel(busy.now, fresh);
    let events = busy.step(silence);
    assert!(events.contains(&Event::Dead(BULK)), "{events:?}");
    assert_eq!(busy.session.wanted_channels(link), 1);
}

/// Time without a sign of life where one is due, by channel.
fn silent_for(busy: &Busy) -> Vec<Option<Duration>> {
    let snapshot = busy.session.snapshot(busy.now, 0);
    snapshot.channels.iter().map(|it| it.silent_for).collect()
}

#[test]
fn monitors_see_since_when_a_channel_is_silent() {
    let mut busy = Busy::new();
    assert_eq!(silent_for(&busy), [None; 3]);
    let silence = until_suspect(&mut busy);
    assert_eq!(silent_for(&busy)[1], Some(silence));
}

#[test]
fn monitors_see_that_the_last_link_is_silent_although_it_goes_on_being_used() {
    let mut session = Session::new(BEGAN, Side::Client, SessionConfig::default());
    session.add_channel(BEGAN, spec(0, ChannelRole::Express, 1));
    session.handle_sample(BEGAN, EXPRESS, sample(Duration::ZERO, 0));
    session.probe(BEGAN);
    let mut out = Outgoing::default();
    session.handle_writable(BEGAN, EXPRESS);
    assert!(session.poll_transmit(BEGAN, EXPRESS, &mut out));
    let last = |session: &Session, now| {
        let last = session.snapshot(now, 0).channels[0].clone();
        (last.suspect, last.silent_for)
    };
    assert_eq!(last(&session, BEGAN), (false, None));
    let silence = Duration::from_secs(2);
    session.handle_sample(BEGAN + silence, EXPRESS, sample(silence, 1000));
    session.handle_timeout(BEGAN + silence);
    assert_eq!(last(&session, BEGAN + silence), (false, Some(silence)));
}

#[test]
fn an_old_sample_makes_no_channel_at_rest_silent() {
    let mut session = Session::new(BEGAN, Side::Client, SessionConfig::default());
    session.add_channel(BEGAN, spec(0, ChannelRole::Express, 1));
    session.probe(BEGAN);
    let mut out = Outgoing::default();
    session.handle_writable(BEGAN, EXPRESS);
    assert!(session.poll_transmit(BEGAN, EXPRESS, &mut out));
    let mut body = BytesMut::new();
    let (channel, records) = (EXPRESS, 1);
    StateFrame::Ack { channel, records }.encode(&mut body);
    let mut now = BEGAN + Duration::from_millis(20);
    session.handle_record(now, EXPRESS, body.freeze()).unwrap();
    session.handle_sample(now, EXPRESS, sample(Duration::ZERO, 0));
    session.handle_timeout(now);
    now += Duration::from_millis(1);
    session.handle_sample(now, EXPRESS, sample(Duration::from_millis(20), 100));
    now += Duration::from_secs(13);
    assert_eq!(session.snapshot(now, 0).channels[0].silent_for, None);
    let rest = Duration::from_secs(12);
    session.probe_at_rest(now, rest, rest);
    session.handle_writable(now, EXPRESS);
    assert!(session.poll_transmit(now, EXPRESS, &mut out), "it is asked");
}

#[test]
fn a_link_at_rest_is_asked_for_a_sign_of_life_once_in_a_while() {
    let (rest, pause) = (Duration::from_secs(12), Duration::from_millis(400));
    let mut session = Session::new(BEGAN, Side::Client, SessionConfig::default());
    session.add_channel(BEGAN, spec(0, ChannelRole::Bulk, 1));
    session.handle_sample(BEGAN, EXPRESS, sample(Duration::ZERO, 0));
    let mut out = Outgoing::default();
    session.handle_writable(BEGAN, EXPRESS);
    while session.poll_transmit(BEGAN, EXPRESS, &mut out) {}
    let mut is_asked = |session: &mut Session, now| {
        session.probe_at_rest(now, rest, pause);
        session.handle_writable(now, EXPRESS);
        session.poll_transmit(now, EXPRESS, &mut out)
    };
    let heard = |session: &mut Session, now| {
        session.handle_sample(now, EXPRESS, sample(Duration::ZERO, 0));
    };
    let mut now = BEGAN + Duration::from_secs(3);
    heard(&mut session, now);
    assert!(!is_asked(&mut session, now + Duration::from_secs(11)));
    now += rest;
    assert!(is_asked(&mut session, now));
    assert!(!is_asked(&mut session, now), "the answer is awaited");
    heard(&mut session, now + Duration::from_millis(50));
    assert!(!is_asked(&mut session, now + Duration::from_secs(11)));
    assert!(is_asked(&mut session, now + Duration::from_secs(13)));
}
