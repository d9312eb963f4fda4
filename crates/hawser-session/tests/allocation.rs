//! Recording a decision allocates nothing once the channels are known and the memory is taken.
#![allow(missing_docs, reason = "tests")]

use std::time::Duration;

use hawser_sched::PathView;
use hawser_sched::chunk::{ChunkUnit, Decision, Reason};
use hawser_session::recorder::{Note, Recorder};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate, StreamId};
use hawser_wire::ChannelRole;

#[test]
fn recording_a_decision_does_not_allocate() {
    let mut recorder = Recorder::new(Instant::ZERO, ByteCount::from_kib(64));
    let mut views: Vec<PathView> = (0..8).map(view).collect();
    for view in &views {
        let (channel, link, role) = (view.channel, view.link, ChannelRole::Bulk);
        recorder.note(
            Instant::ZERO,
            Note::Added {
                channel,
                link,
                role,
            },
        );
    }
    let mut decide = |n: u64| {
        let place = (n % 8) as usize;
        views[place].in_flight = ByteCount::new(n * 7919);
        views[place].ready = !n.is_multiple_of(3);
        let decision = match n % 4 {
            0 => Decision::Wait(None, Reason::QuickerSoon),
            1 => Decision::Duplicate([views[0].channel, views[1].channel], Reason::Redundant),
            _ => Decision::Channel(views[place].channel, Reason::Earliest),
        };
        let asked = (ChannelRole::Bulk, StreamId::new(n % 100));
        let now = Instant::from_nanos(n * 1_000_000);
        recorder.on_decision(now, asked, ChunkUnit::default(), &views, decision);
    };
    // Until every block was taken once, and every stream had its place.
    (0..20_000).for_each(&mut decide);
    let made = allocation_counter::measure(|| (20_000..40_000).for_each(&mut decide));
    assert_eq!(made.count_total, 0);
    assert!(
        recorder.held() <= ByteCount::from_kib(96),
        "{}",
        recorder.held()
    );
}

fn view(number: u32) -> PathView {
    PathView {
        channel: ChannelId::new(number),
        link: LinkIndex::new(number),
        rtt: Duration::from_millis(u64::from(number) * 20 + 10),
        rate: Rate::from_bits_per_second(10_000_000),
        ..PathView::default()
    }
}
