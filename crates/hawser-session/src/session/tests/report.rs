//! Reports between the two ends on channels.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_types::{ChannelId, Instant};
use hawser_wire::{ChannelRole, Frame, FrameIterator, PathReport, StateFrame};

use super::pair::{CLIENT, GATEWAY, Pair, link, pattern};
use super::raw::{heard, spec};
use crate::{Event, Outgoing, Session, SessionConfig, Side};

const BEGAN: Instant = Instant::from_nanos(1_000_000_000);

/// A session with one channel on each of two links, and a second one on the first.
fn session(side: Side) -> Session {
    let mut s = Session::new(BEGAN, side, SessionConfig::default());
    for (id, role, link) in [
        (0, ChannelRole::Express, 1),
        (1, ChannelRole::Bulk, 1),
        (2, ChannelRole::Bulk, 2),
    ] {
        s.add_channel(BEGAN, spec(id, role, link));
        s.handle_sample(BEGAN, ChannelId::new(id), heard(Duration::ZERO, 0));
    }
    s
}

fn frames_on(s: &mut Session, now: Instant, id: u32) -> Vec<Frame> {
    let (mut frames, mut out) = (Vec::new(), Outgoing::default());
    s.handle_writable(now, ChannelId::new(id));
    while s.poll_transmit(now, ChannelId::new(id), &mut out) {
        let mut body = out.head.split();
        out.payload.iter().for_each(|p| body.extend_from_slice(p));
        frames.extend(FrameIterator::new(body.freeze()).map(Result::unwrap));
        s.handle_writable(now, ChannelId::new(id));
    }
    frames
}

fn report(stamp: u64, silent: bool) -> Bytes {
    let mut body = BytesMut::new();
    StateFrame::Path(PathReport {
        channel: ChannelId::new(1),
        stamp,
        silent,
        ..PathReport::default()
    })
    .encode(&mut body);
    body.freeze()
}

fn suspects(s: &mut Session) -> Vec<u32> {
    let events = std::iter::from_fn(|| s.poll_event());
    let suspects = events.filter_map(|event| match event {
        Event::Suspect(id) => Some(id.value()),
        _ => None,
    });
    suspects.collect()
}

#[test]
fn a_link_that_the_peer_finds_silent_has_to_answer_and_its_records_are_acknowledged_elsewhere() {
    let mut s = session(Side::Gateway);
    let now = BEGAN + Duration::from_secs(1);
    s.handle_record(now, ChannelId::new(2), report(7, true))
        .unwrap();
    assert_eq!(suspects(&mut s), [0, 1]);
    let ack = StateFrame::Ack {
        channel: ChannelId::new(1),
        records: 1,
    };
    assert!(frames_on(&mut s, now, 2).contains(&Frame::State(ack)));
    let beat = Frame::State(StateFrame::Heartbeat);
    assert!(frames_on(&mut s, now, 0).contains(&beat));
    // An older report that comes late changes nothing.
    s.handle_record(now, ChannelId::new(2), report(6, false))
        .unwrap();
    let silent = |s: &Session| s.snapshot(now, 0).channels[1].peer.map(|peer| peer.silent);
    assert_eq!(silent(&s), Some(true));
    s.handle_record(now, ChannelId::new(2), report(8, false))
        .unwrap();
    assert_eq!(silent(&s), Some(false));
}

#[test]
fn a_link_that_was_heard_just_now_is_not_doubted() {
    let mut s = session(Side::Gateway);
    let now = BEGAN + Duration::from_millis(20);
    s.handle_record(now, ChannelId::new(2), report(7, true))
        .unwrap();
    assert_eq!(suspects(&mut s), [0; 0]);
}

#[test]
fn what_the_peers_kernel_has_is_copied_last() {
    let mut s = Session::new(BEGAN, Side::Client, SessionConfig::default());
    let silent = ChannelId::new(1);
    for (id, link) in [(1, 1), (2, 2)] {
        s.add_channel(BEGAN, spec(id, ChannelRole::Bulk, link));
        s.handle_sample(BEGAN, ChannelId::new(id), heard(Duration::ZERO, 0));
    }
    let stream = s.open_stream(BEGAN, Bytes::new()).unwrap();
    s.write_slice(BEGAN, stream, &[0; 50_000]).unwrap();
    let chunks = |frames: Vec<Frame>| -> Vec<u64> {
        let chunks = frames.into_iter().filter_map(|frame| match frame {
            Frame::Chunk(header, _) => Some(header.segment.value()),
            Frame::State(_) | Frame::Datagram(..) => None,
        });
        chunks.collect()
    };
    let sent = chunks(frames_on(&mut s, BEGAN, 1));
    let (last, before) = sent.split_last().unwrap();
    assert!(!before.is_empty());
    let mut copied = Vec::new();
    for millis in (10..800).step_by(10) {
        let now = BEGAN + Duration::from_millis(millis);
        // All but the last bytes were acknowledged by TCP, none of them by the peer's session.
        s.handle_sample(now, silent, heard(now.since(BEGAN), 100));
        s.handle_sample(now, ChannelId::new(2), heard(Duration::ZERO, 0));
        s.handle_timeout(now);
        copied.extend(chunks(frames_on(&mut s, now, 2)));
    }
    copied.retain(|segment| sent.contains(segment));
    assert_eq!(copied.first(), Some(last), "{copied:?} of {sent:?}");
    copied.sort_unstable();
    assert_eq!(copied, sent);
}

#[test]
fn both_ends_learn_what_arrives_at_the_other_while_there_is_traffic() {
    let mut pair = Pair::over(&[link(1, 20, 10), link(2, 20, 10)]);
    let data = pattern(4_000_000);
    pair.transfer(CLIENT, &data);
    let view = |pair: &Pair, side: usize| pair.sides[side].snapshot(pair.now, 0).channels[1].peer;
    let arrives = view(&pair, CLIENT).unwrap();
    let mbit = arrives.rate.bits_per_second() / 1_000_000;
    assert!((10..=22).contains(&mbit), "{mbit} Mbit/s");
    assert!(!arrives.silent);
    assert!(arrives.queue.is_some());
    assert!(view(&pair, GATEWAY).is_some());
    pair.run_for(5_000);
    assert_eq!(view(&pair, CLIENT), Some(arrives));
}
