//! Single sessions, driven record by record as the driver does it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_path::KernelSample;
use hawser_types::{
    ByteCount, ChannelId, Instant, LinkIndex, SegmentNumber, StreamId, StreamOffset,
};
use hawser_wire::{
    ChannelRole, ChunkFlags, ChunkHeader, Command, CommandDecoder, Frame, FrameIterator, Hello,
    StateFrame,
};

use crate::{ChannelSpec, Event, Outgoing, ReadBuffer, Session, SessionConfig, Side};

pub(super) const HELLO: Command = Command::Hello(Hello {
    max_streams: 9,
    accepts_plain: false,
    takes_datagrams: false,
    ends_halves: false,
    follows_scheduler: false,
    knows_signals: false,
    link: 1,
});

/// The body of a record with a piece of the command stream.
pub(super) fn commands_at(offset: u64, bytes: &[u8]) -> Bytes {
    let mut body = BytesMut::new();
    ChunkHeader {
        stream: StreamId::COMMANDS,
        segment: SegmentNumber::new(0),
        offset: StreamOffset::new(offset),
        flags: ChunkFlags::default(),
        metadata: Bytes::new(),
    }
    .encode(&mut body);
    body.extend_from_slice(bytes);
    body.freeze()
}

pub(super) fn spec(id: u32, role: ChannelRole, link: u32) -> ChannelSpec {
    ChannelSpec {
        begun_by: Side::Client,
        id: ChannelId::new(id),
        role,
        link: LinkIndex::new(link),
        records: u64::from(id > 0),
        segment_size: None,
    }
}
pub(super) fn drain(s: &mut Session, now: Instant) -> Vec<Frame> {
    let mut got = Vec::new();
    while let Some(id) = s.poll_wake() {
        let mut out = Outgoing::default();
        while s.poll_transmit(now, id, &mut out) {
            let mut body = out.head.clone();
            out.payload.iter().for_each(|p| body.extend_from_slice(p));
            for f in FrameIterator::new(body.freeze()) {
                got.push(f.unwrap());
            }
            s.handle_writable(now, id);
        }
    }
    while s.poll_event().is_some() {}
    got
}
pub(super) fn commands(frames: &[Frame]) -> Vec<Command> {
    let mut d = CommandDecoder::default();
    for f in frames {
        if let Frame::Chunk(h, p) = f
            && h.stream == StreamId::COMMANDS
        {
            d.push(p);
        }
    }
    let mut v = Vec::new();
    while let Some(c) = d.next_command().unwrap() {
        v.push(c);
    }
    v
}
#[test]
fn a_channel_that_was_idle_is_not_taken_for_dead_when_traffic_resumes() {
    // the driver samples busy channels only
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut s = Session::new(now, Side::Client, SessionConfig::default());
    for (i, role, link) in [
        (0, ChannelRole::Express, 1),
        (1, ChannelRole::Bulk, 1),
        (2, ChannelRole::Bulk, 2),
    ] {
        s.add_channel(now, spec(i, role, link));
        s.handle_sample(
            now,
            ChannelId::new(i),
            KernelSample {
                rtt: Duration::from_millis(10),
                ..Default::default()
            },
        );
        s.handle_writable(now, ChannelId::new(i));
    }
    drain(&mut s, now);
    // a chunk of the peer comes on channel 2; its acknowledgement goes out alone
    let mut body = BytesMut::new();
    ChunkHeader {
        stream: StreamId::new(1),
        segment: SegmentNumber::new(0),
        offset: StreamOffset::new(0),
        flags: ChunkFlags {
            open: true,
            fin: false,
        },
        metadata: Bytes::new(),
    }
    .encode(&mut body);
    body.extend_from_slice(b"x");
    s.handle_record(now, ChannelId::new(2), body.freeze())
        .unwrap();
    // all commands acked
    let mut body = BytesMut::new();
    StateFrame::Ack {
        channel: ChannelId::new(0),
        records: 1,
    }
    .encode(&mut body);
    s.handle_record(now, ChannelId::new(0), body.freeze())
        .unwrap();
    let mut dead = Vec::new();
    let mut step = |s: &mut Session, now: Instant| {
        if s.poll_timeout().is_some_and(|at| at <= now) {
            let busy: Vec<_> = s.busy_channels().collect();
            for b in busy {
                s.handle_sample(
                    now,
                    b,
                    KernelSample {
                        rtt: Duration::from_millis(10),
                        unacknowledged: ByteCount::ZERO,
                        ..Default::default()
                    },
                );
            }
            s.handle_timeout(now);
        }
        while let Some(id) = s.poll_wake() {
            // as the writer does: sample before
            s.handle_sample(
                now,
                id,
                KernelSample {
                    rtt: Duration::from_millis(10),
                    ..Default::default()
                },
            );
            let mut out = Outgoing::default();
            while s.poll_transmit(now, id, &mut out) {
                s.handle_writable(now, id);
            }
        }
        while let Some(e) = s.poll_event() {
            if let Event::Dead(c) = e {
                dead.push(c);
            }
        }
    };
    for _ in 0..5000 {
        now += Duration::from_millis(1);
        step(&mut s, now);
    }
    let id = s.open_stream(now, Bytes::from_static(b"m")).unwrap();
    s.write_slice(now, id, b"hello").unwrap();
    for _ in 0..100 {
        now += Duration::from_millis(1);
        step(&mut s, now);
    }
    assert!(dead.is_empty(), "{dead:?}");
}
#[test]
fn the_last_words_of_the_peer_are_acknowledged_at_once() {
    let now = Instant::from_nanos(1_000_000_000);
    let mut s = Session::new(now, Side::Gateway, SessionConfig::default());
    s.add_channel(now, spec(0, ChannelRole::Express, 7));
    s.handle_writable(now, ChannelId::new(0));
    drain(&mut s, now);
    let mut bytes = BytesMut::new();
    HELLO.encode(&mut bytes);
    Command::Close { code: 0 }.encode(&mut bytes);
    s.handle_record(now, ChannelId::new(0), commands_at(0, &bytes))
        .unwrap();
    assert!(s.is_closed());
    let mut out = Outgoing::default();
    assert!(
        s.poll_transmit(now, ChannelId::new(0), &mut out),
        "the driver's writer asks once and ends"
    );
}
#[test]
fn an_acknowledgement_that_a_full_channel_keeps_waiting_asks_for_no_time() {
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut s = Session::new(now, Side::Gateway, SessionConfig::default());
    s.add_channel(now, spec(0, ChannelRole::Express, 1));
    drain(&mut s, now);
    let mut hello = BytesMut::new();
    HELLO.encode(&mut hello);
    s.handle_record(now, ChannelId::new(0), commands_at(0, &hello))
        .unwrap();
    // The driver hears of it, and has bytes in hand that the kernel does not take.
    for _ in 0..20 {
        let Some(at) = s.poll_timeout() else { break };
        assert!(at > now, "asked again at once");
        now = at;
        s.handle_timeout(now);
    }
    assert!(s.poll_wake().is_some());
}

#[test]
fn resets_of_streams_that_never_were_are_bounded() {
    let now = Instant::from_nanos(1_000_000_000);
    let mut s = Session::new(now, Side::Gateway, SessionConfig::default());
    s.add_channel(now, spec(0, ChannelRole::Express, 7));
    let mut offset = 0;
    let mut send = |s: &mut Session, command: &Command| {
        let mut bytes = BytesMut::new();
        command.encode(&mut bytes);
        let result = s.handle_record(now, ChannelId::new(0), commands_at(offset, &bytes));
        offset += bytes.len() as u64;
        result
    };
    send(&mut s, &HELLO).unwrap();
    let refused = (0..50_000).find(|n| {
        let stream = StreamId::new(2 + n * 4);
        send(&mut s, &Command::Reset { stream, code: 0 }).is_err()
    });
    assert!(refused.is_some_and(|n| n < 20_000), "{refused:?}");
}

#[test]
fn a_reset_right_after_a_write_goes_out() {
    let now = Instant::from_nanos(1_000_000_000);
    let mut s = Session::new(now, Side::Client, SessionConfig::default());
    s.add_channel(now, spec(0, ChannelRole::Express, 7));
    s.handle_writable(now, ChannelId::new(0));
    let id = s.open_stream(now, Bytes::from_static(b"m")).unwrap();
    drain(&mut s, now);
    let before = s.snapshot(now, 0).channels[0].in_flight;
    s.write_slice(now, id, b"hello").unwrap();
    s.reset(now, id, 5);
    // as the driver's writer does
    let mut got = Vec::new();
    while let Some(ch) = s.poll_wake() {
        loop {
            s.handle_writable(now, ch);
            let mut out = Outgoing::default();
            if !s.poll_transmit(now, ch, &mut out) {
                break;
            }
            let mut body = out.head.clone();
            out.payload.iter().for_each(|p| body.extend_from_slice(p));
            for f in FrameIterator::new(body.freeze()) {
                got.push(f.unwrap());
            }
        }
    }
    assert!(
        commands(&got)
            .iter()
            .any(|c| matches!(c, Command::Reset { .. }))
    );
    assert_eq!(
        s.snapshot(now, 0).channels[0].in_flight,
        before + ByteCount::new(4)
    );
}

#[test]
fn credit_that_overtook_the_opening_of_its_stream_is_said_again() {
    let now = Instant::from_nanos(1_000_000_000);
    let mut client = Session::new(now, Side::Client, SessionConfig::default());
    client.add_channel(now, spec(0, ChannelRole::Bulk, 1));
    client.handle_writable(now, ChannelId::new(0));
    drain(&mut client, now);
    client.handle_writable(now, ChannelId::new(0));
    let id = client.open_stream(now, Bytes::new()).unwrap();
    let credits = |frames: &[Frame]| {
        let is_credit = |frame: &&Frame| match frame {
            Frame::State(StateFrame::Credit { stream, .. }) => *stream == id,
            _ => false,
        };
        frames.iter().filter(is_credit).count()
    };
    // It may have gone by another channel than the opening, and come before.
    assert_eq!(credits(&drain(&mut client, now)), 1);
    let mut body = BytesMut::new();
    StateFrame::Ack {
        channel: ChannelId::new(0),
        records: 2,
    }
    .encode(&mut body);
    client
        .handle_record(now, ChannelId::new(0), body.freeze())
        .unwrap();
    assert_eq!(credits(&drain(&mut client, now)), 1);
}

#[test]
fn credit_goes_over_two_links() {
    let now = Instant::ZERO;
    let mut s = Session::new(now, Side::Client, SessionConfig::default());
    s.add_channel(now, spec(0, ChannelRole::Express, 1));
    s.add_channel(now, spec(1, ChannelRole::Bulk, 1));
    s.add_channel(now, spec(2, ChannelRole::Bulk, 2));
    for id in 0..3 {
        s.handle_writable(now, ChannelId::new(id));
    }
    let id = s.open_stream(now, Bytes::new()).unwrap();
    let mut channels = Vec::new();
    while let Some(channel) = s.poll_wake() {
        let mut out = Outgoing::default();
        while s.poll_transmit(now, channel, &mut out) {
            let head = out.head.clone().freeze();
            let credit = FrameIterator::new(head).any(|frame| {
                matches!(frame, Ok(Frame::State(StateFrame::Credit { stream, .. })) if stream == id)
            });
            channels.extend(credit.then_some(channel.value()));
        }
    }
    // The quickest one, and another link's; not a third.
    assert_eq!(channels, [0, 2]);
}

#[test]
fn a_channel_that_takes_nothing_keeps_no_credit_of_streams_that_are_over() {
    let now = Instant::ZERO;
    let mut s = Session::new(now, Side::Client, SessionConfig::default());
    s.add_channel(now, spec(0, ChannelRole::Express, 1));
    s.add_channel(now, spec(1, ChannelRole::Bulk, 2));
    s.handle_writable(now, ChannelId::new(0));
    let copies = |s: &Session| -> usize {
        let channels = s.channels.iter();
        channels.map(|channel| channel.credit_copies()).sum()
    };
    // Limits of the streams that the peer is to open are kept.
    let prepared = 2;
    for _ in 0..3 {
        let id = s.open_stream(now, Bytes::new()).unwrap();
        let mut out = Outgoing::default();
        while s.poll_transmit(now, ChannelId::new(0), &mut out) {
            s.handle_writable(now, ChannelId::new(0));
        }
        assert_eq!(copies(&s), prepared + 1);
        s.reset(now, id, 0);
        assert_eq!(copies(&s), prepared);
    }
}

/// A sample of a channel that was last heard `since_ack` ago.
pub(super) fn heard(since_ack: Duration, unacknowledged: u64) -> KernelSample {
    KernelSample {
        rtt: Duration::from_millis(10),
        unacknowledged: ByteCount::new(unacknowledged),
        since_ack,
        ..KernelSample::default()
    }
}

#[test]
fn when_a_silent_channel_dies_its_idle_neighbour_has_to_answer_before_it_gets_any() {
    let began = Instant::from_nanos(1_000_000_000);
    let mut s = Session::new(began, Side::Client, SessionConfig::default());
    let [idle, silent, sound] = [0, 1, 2].map(ChannelId::new);
    s.add_channel(began, spec(0, ChannelRole::Express, 1));
    s.add_channel(began, spec(1, ChannelRole::Bulk, 1));
    s.add_channel(began, spec(2, ChannelRole::Bulk, 2));
    for id in [idle, silent, sound] {
        s.handle_sample(began, id, heard(Duration::ZERO, 0));
        s.handle_writable(began, id);
    }
    let id = s.open_stream(began, Bytes::new()).unwrap();
    s.write_slice(began, id, &[0; 200_000]).unwrap();
    let (mut records, mut out) = (0, Outgoing::default());
    while let Some(id) = s.poll_wake() {
        while s.poll_transmit(began, id, &mut out) {
            records += u64::from(id == idle);
            s.handle_writable(began, id);
        }
    }
    let mut body = BytesMut::new();
    let channel = idle;
    StateFrame::Ack { channel, records }.encode(&mut body);
    s.handle_record(began, sound, body.freeze()).unwrap();
    s.handle_sample(began, idle, heard(Duration::ZERO, 0));
    let mut events = Vec::new();
    let mut now = began;
    for millis in (20..1500).step_by(20) {
        now = began + Duration::from_millis(millis);
        s.handle_sample(now, silent, heard(now.since(began), 10_000));
        s.handle_sample(now, sound, heard(Duration::ZERO, 10_000));
        s.handle_timeout(now);
        while let Some(event) = s.poll_event() {
            events.push(event);
        }
    }
    let at = |event| events.iter().position(|e| *e == event);
    let dead = at(Event::Dead(silent)).unwrap();
    assert!(at(Event::Suspect(idle)).unwrap() > dead, "{events:?}");
    assert_eq!(at(Event::Recovered(idle)), None);
    // It was asked, and answers.
    assert!(s.poll_transmit(now, idle, &mut out));
    now += Duration::from_millis(20);
    s.handle_sample(now, idle, heard(Duration::from_millis(5), 0));
    assert_eq!(s.poll_event(), Some(Event::Recovered(idle)));
}

#[test]
fn limits_are_kept_for_the_next_streams_only() {
    let now = Instant::ZERO;
    let mut s = Session::new(now, Side::Client, SessionConfig::default());
    s.add_channel(now, spec(0, ChannelRole::Bulk, 1));
    let mut credits = bytes::BytesMut::new();
    for stream in [1, 2, 4, 32, 34, u64::MAX - 1] {
        let stream = StreamId::new(stream);
        StateFrame::Credit {
            stream,
            limit: 1 << 20,
        }
        .encode(&mut credits);
    }
    s.handle_record(now, ChannelId::new(0), credits.freeze())
        .unwrap();
    let mut kept = Vec::new();
    for _ in 0..20 {
        let id = s.open_stream(now, Bytes::new()).unwrap();
        if s.streams.get(id).unwrap().send().limit() == 1 << 20 {
            kept.push(id.value());
        }
    }
    assert_eq!(kept, [2, 4, 32]);
}

/// Gives a gateway a chunk of 4 KiB that came in a buffer of so many bytes. True if what is read is
/// a slice of that buffer.
fn reads_a_slice(buffer: usize) -> bool {
    let now = Instant::ZERO;
    let mut s = Session::new(now, Side::Gateway, SessionConfig::default());
    s.add_channel(now, spec(0, ChannelRole::Bulk, 1));
    let mut body = BytesMut::with_capacity(buffer);
    let header = ChunkHeader {
        stream: StreamId::new(2),
        segment: SegmentNumber::new(0),
        offset: StreamOffset::new(0),
        flags: ChunkFlags {
            open: true,
            fin: false,
        },
        metadata: Bytes::new(),
    };
    header.encode(&mut body);
    body.extend_from_slice(&[7; 4096]);
    let body = body.freeze();
    let memory = body.as_ptr_range();
    let buffer = ReadBuffer {
        number: 1,
        size: ByteCount::from(buffer),
    };
    s.handle_record_in(now, ChannelId::new(0), body.clone(), buffer)
        .unwrap();
    match s.read(now, header.stream, usize::MAX) {
        Ok(crate::ReadOutcome::Data(0, bytes)) => memory.contains(&bytes.as_ptr()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_payload_is_copied_only_out_of_a_buffer_that_it_would_not_be_worth() {
    assert!(reads_a_slice(16 * 1024));
    assert!(reads_a_slice(32 * 1024));
    assert!(!reads_a_slice(64 * 1024));
}
