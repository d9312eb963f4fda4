//! Express channels that can send next to nothing for a moment.

use std::time::Duration;

use bytes::Bytes;
use hawser_path::KernelSample;
use hawser_types::{ByteCount, ChannelId, Instant, Rate};
use hawser_wire::ChannelRole;

use super::raw::spec;
use crate::{Outgoing, Session, SessionConfig, Side};

/// Sample of an idle connection with bbr whose window has so many segments.
fn idle(window: u64, rtt: u64) -> KernelSample {
    let rtt = Duration::from_millis(rtt);
    KernelSample {
        rtt,
        min_rtt: Some(rtt),
        bbr_min_rtt: Some(rtt),
        congestion_window: ByteCount::new(window * 1448),
        delivery_rate: Rate::from_bits_per_second(20_000_000),
        ..KernelSample::default()
    }
}

/// Payload that each channel is given of 8 kB: two on a link of 10 ms, two on one of 200 ms.
/// `window`: segments in that of the quick express channel.
fn given(window: u64) -> Vec<u64> {
    let now = Instant::ZERO + Duration::from_secs(1);
    let mut session = Session::new(now, Side::Client, SessionConfig::default());
    let channels = [
        (0, ChannelRole::Express, 1, window, 10),
        (1, ChannelRole::Bulk, 1, 20, 10),
        (2, ChannelRole::Express, 2, 20, 200),
        (3, ChannelRole::Bulk, 2, 20, 200),
    ];
    for (id, role, link, window, rtt) in channels {
        session.add_channel(now, spec(id, role, link));
        session.handle_sample(now, ChannelId::new(id), idle(window, rtt));
        session.handle_writable(now, ChannelId::new(id));
    }
    let stream = session.open_stream(now, Bytes::new()).unwrap();
    let mut data = Bytes::from(vec![1; 8000]);
    session.write(now, stream, &mut data).unwrap();
    while let Some(id) = session.poll_wake() {
        let mut out = Outgoing::default();
        while session.poll_transmit(now, id, &mut out) {
            session.handle_writable(now, id);
        }
    }
    let sent = |channel: &crate::ChannelSnapshot| channel.sent.as_u64();
    session.snapshot(now, 0).channels.iter().map(sent).collect()
}

/// Every ten seconds bbr has a window of four segments for 200 ms, and an object would take as many
/// round trips as it fills such windows. The link's bulk channel stands idle beside it.
#[test]
fn while_an_express_channel_pauses_its_links_bulk_channel_carries_what_it_cannot() {
    let pausing = given(4);
    assert!(pausing[1] > 0, "{pausing:?}");
    assert_eq!(given(20)[1], 0);
}
