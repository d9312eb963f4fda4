//! Channels that the gateway began: what befalls them says nothing of the client's on that link.

use std::time::Duration;

use hawser_path::KernelSample;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex};
use hawser_wire::{ChannelRole, Frame, StateFrame};

use super::raw::{drain, spec};
use crate::{ChannelSpec, Event, Session, SessionConfig, Side};

const BEGAN: Instant = Instant::from_nanos(1_000_000_000);
const LINK: LinkIndex = LinkIndex::new(1);
/// The client's.
const OWN: [ChannelId; 2] = [ChannelId::new(0), ChannelId::new(1)];
/// The gateway's.
const FURTHER: ChannelId = ChannelId::new(2);
const SEGMENT: u32 = 1448;

fn further() -> ChannelSpec {
    ChannelSpec {
        begun_by: Side::Gateway,
        segment_size: Some(SEGMENT),
        ..spec(2, ChannelRole::Bulk, 1)
    }
}

/// A session whose channels all go over one link of the client's.
fn session(side: Side) -> Session {
    let mut session = Session::new(BEGAN, side, SessionConfig::default());
    let own = [
        spec(0, ChannelRole::Express, 1),
        spec(1, ChannelRole::Bulk, 1),
    ];
    for spec in own.into_iter().chain([further()]) {
        session.add_channel(BEGAN, spec);
        session.handle_sample(BEGAN, spec.id, quiet());
        session.handle_writable(BEGAN, spec.id);
    }
    // Something is sent on each, so that they are looked after.
    session.probe(BEGAN);
    drain(&mut session, BEGAN);
    session
}

/// Everything has arrived, just now.
fn quiet() -> KernelSample {
    KernelSample {
        rtt: Duration::from_millis(20),
        not_sent: Some(ByteCount::ZERO),
        delivered: Some(5),
        ..KernelSample::default()
    }
}

/// Nothing has come for so long, and two full segments are in flight.
fn silent(since_ack: Duration, retransmissions: u64) -> KernelSample {
    KernelSample {
        unacknowledged: ByteCount::new(2 * u64::from(SEGMENT)),
        since_ack,
        retransmissions,
        ..quiet()
    }
}

/// For a second, nothing arrives on the gateway's channel, and everything on the client's. Returns
/// the events.
fn fall_silent(session: &mut Session, retransmissions: impl Fn(u64) -> u64) -> Vec<Event> {
    let mut events = Vec::new();
    for tick in 1..=50 {
        let since = Duration::from_millis(20 * tick);
        let now = BEGAN + since;
        for id in OWN {
            session.handle_sample(now, id, quiet());
        }
        session.handle_sample(now, FURTHER, silent(since, retransmissions(tick)));
        session.handle_timeout(now);
        events.extend(std::iter::from_fn(|| session.poll_event()));
    }
    events
}

#[test]
fn large_segments_that_it_loses_are_told_to_its_plan_and_not_to_the_client() {
    let mut session = session(Side::Gateway);
    let events = fall_silent(&mut session, |tick| tick / 5);
    let told = events.iter().find_map(|event| match event {
        Event::SegmentsLost(id, lost) => Some((*id, lost.size)),
        _ => None,
    });
    assert_eq!(told, Some((FURTHER, SEGMENT)), "{events:?}");
    assert!(events.contains(&Event::Dead(FURTHER)), "{events:?}");
    let sent = drain(&mut session, BEGAN + Duration::from_secs(1));
    let is_notice = |frame: &Frame| matches!(frame, Frame::State(StateFrame::SegmentsLost { .. }));
    assert!(!sent.iter().any(is_notice), "{sent:?}");
}

#[test]
fn large_segments_that_it_loses_replace_no_channel_of_the_client() {
    let mut session = session(Side::Client);
    let events = fall_silent(&mut session, |tick| tick / 5);
    assert!(events.contains(&Event::Dead(FURTHER)), "{events:?}");
    assert_eq!(session.lost_segment(LINK), None);
    assert!(OWN.iter().all(|id| !events.contains(&Event::Dead(*id))));
}

#[test]
fn its_silence_is_suspect_although_the_link_lives() {
    let mut session = session(Side::Client);
    let wanted = session.wanted_channels(LINK);
    let events = fall_silent(&mut session, |_| 0);
    assert!(events.contains(&Event::Suspect(FURTHER)), "{events:?}");
    assert!(OWN.iter().all(|id| !events.contains(&Event::Suspect(*id))));
    assert_eq!(session.wanted_channels(LINK), wanted);
    // A fresh connection of the client's proves nothing of it, and does not take its place.
    session.add_channel(
        BEGAN + Duration::from_secs(1),
        spec(3, ChannelRole::Bulk, 1),
    );
    let events: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
    assert!(!events.contains(&Event::Dead(FURTHER)), "{events:?}");
}
