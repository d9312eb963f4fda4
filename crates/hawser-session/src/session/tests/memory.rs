//! Memory that a session holds for streams, whatever its peer sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_path::KernelSample;
use hawser_types::{ByteCount, ChannelId, Instant, SegmentNumber, StreamId, StreamOffset};
use hawser_wire::{ChannelRole, ChunkFlags, ChunkHeader, Command, StateFrame};

use super::raw::{commands, drain, spec};
use crate::{
    CODE_LIMIT_REACHED, CloseReason, Event, Limit, ReadBuffer, ReadOutcome, Session, SessionConfig,
    Side,
};

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const CHANNEL: ChannelId = ChannelId::new(0);
const BUFFER: usize = 256 * 1024;
const SHARE: u64 = 8 << 20;
/// The share, and a quarter more.
const LIMIT: u64 = 10 << 20;

fn gateway(share: u64) -> Session {
    let config = SessionConfig {
        receive_memory: ByteCount::new(share),
        ..SessionConfig::default()
    };
    let mut session = Session::new(NOW, Side::Gateway, config);
    session.add_channel(NOW, spec(0, ChannelRole::Express, 1));
    session.handle_writable(NOW, CHANNEL);
    session
}

/// A read buffer that counts while it lives.
struct Memory(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.1.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

/// The peer of a gateway, and the memory of the buffers that its records were read into.
#[derive(Default)]
struct Peer {
    buffers: u64,
    living: Arc<AtomicUsize>,
}

impl Peer {
    /// Sends a chunk whose record is all that is left of its buffer.
    fn send(&mut self, to: &mut Session, id: u64, offset: u64, length: usize, open: bool) {
        let mut body = BytesMut::new();
        ChunkHeader {
            stream: StreamId::new(id),
            segment: SegmentNumber::new(0),
            offset: StreamOffset::new(offset),
            flags: ChunkFlags { open, fin: false },
            metadata: Bytes::new(),
        }
        .encode(&mut body);
        body.resize(body.len() + length, 7);
        let used = body.len();
        body.resize(BUFFER, 0);
        self.living.fetch_add(BUFFER, Ordering::Relaxed);
        let memory = Memory(body.to_vec(), Arc::clone(&self.living));
        self.buffers += 1;
        let buffer = ReadBuffer {
            number: self.buffers,
            size: ByteCount::from(BUFFER),
        };
        let record = Bytes::from_owner(memory).slice(..used);
        to.handle_record_in(NOW, CHANNEL, record, buffer).unwrap();
    }

    /// Opens a stream without data.
    fn send_small(&mut self, to: &mut Session, id: u64) {
        let mut body = BytesMut::new();
        let flags = ChunkFlags {
            open: true,
            fin: false,
        };
        ChunkHeader {
            stream: StreamId::new(id),
            segment: SegmentNumber::new(0),
            offset: StreamOffset::new(0),
            flags,
            metadata: Bytes::new(),
        }
        .encode(&mut body);
        to.handle_record(NOW, CHANNEL, body.freeze()).unwrap();
    }

    /// Returns the bytes of the buffers that live.
    fn living(&self) -> u64 {
        self.living.load(Ordering::Relaxed) as u64
    }
}

/// The streams that the session tells its peer were reset at a limit.
fn told_reset(session: &mut Session, now: Instant) -> Vec<u64> {
    let told = commands(&drain(session, now));
    let reset = told.into_iter().filter_map(|command| match command {
        Command::Reset { stream, code } => {
            assert_eq!(code, CODE_LIMIT_REACHED);
            Some(stream.value())
        }
        _ => None,
    });
    reset.collect()
}

fn held(session: &Session) -> u64 {
    session.snapshot(NOW, 0).held.as_u64()
}

/// Reads a stream to the end of what came. Returns the bytes.
fn read(session: &mut Session, id: u64) -> usize {
    let mut bytes = 0;
    while let ReadOutcome::Data(_, data) = session.read(NOW, StreamId::new(id), usize::MAX).unwrap()
    {
        assert!(data.iter().all(|byte| *byte == 7));
        bytes += data.len();
    }
    bytes
}

#[test]
fn unread_streams_take_no_more_than_the_session_may() {
    for open in [true, false] {
        let (mut session, mut peer) = (gateway(SHARE), Peer::default());
        let mut told = Vec::new();
        for n in 1..=400 {
            for offset in [0, 32 * 1024] {
                peer.send(&mut session, 2 * n, offset, 32 * 1024, open && offset == 0);
                assert!(held(&session) <= LIMIT, "{}", held(&session));
                // The latest buffer is the channel's, used or not.
                assert!(peer.living() <= held(&session) + BUFFER as u64);
            }
            told.extend(told_reset(&mut session, NOW));
        }
        // 26 MB came. Streams that were there first keep what they have.
        assert!(told.len() > 200, "{told:?}");
        assert!(told.iter().all(|id| *id > 200), "{told:?}");
        assert_eq!(read(&mut session, 2), 64 * 1024);
        assert!(!session.is_closed());
    }
}

#[test]
fn buffers_of_which_little_is_unread_are_copied_out_of_before_a_stream_is_reset() {
    let (mut session, mut peer) = (gateway(SHARE), Peer::default());
    let (stalled, read_out) = (2, 4);
    peer.send(&mut session, stalled, 0, 32 * 1024, true);
    peer.send(&mut session, read_out, 0, 32 * 1024, true);
    // Many buffers, each with a little for a stream that waits.
    for n in 1..100 {
        let id = 4 + 2 * n;
        peer.send(&mut session, id, 0, 32 * 1024, true);
        peer.send(&mut session, id, 32 * 1024, 32 * 1024, false);
    }
    assert_eq!(told_reset(&mut session, NOW), []);
    assert!(held(&session) <= LIMIT, "{}", held(&session));
    for n in 1..100 {
        assert_eq!(read(&mut session, 4 + 2 * n), 64 * 1024);
    }
    assert_eq!(read(&mut session, stalled), 32 * 1024);
    assert_eq!(read(&mut session, read_out), 32 * 1024);
    assert_eq!((held(&session), peer.living()), (0, 0));
}

#[test]
fn a_share_that_shrinks_resets_no_stream_and_does_not_grow_by_what_is_held() {
    let (mut session, mut peer) = (gateway(SHARE), Peer::default());
    for n in 1..=100 {
        peer.send(&mut session, 2 * n, 0, 64 * 1024, true);
    }
    let before = held(&session);
    assert!(before > 6 << 20);
    for _ in 0..10 {
        session.stop_lending(ByteCount::from_kib(64));
        session.set_memory(NOW, ByteCount::from_mib(1), ByteCount::from_mib(1));
        assert_eq!(told_reset(&mut session, NOW), []);
    }
    for n in 101..=200 {
        peer.send(&mut session, 2 * n, 0, 64 * 1024, true);
        session.set_memory(NOW, ByteCount::from_mib(1), ByteCount::from_mib(1));
    }
    assert!(held(&session) <= before + (1 << 20), "{}", held(&session));
    assert_eq!(read(&mut session, 2), 64 * 1024);
}

#[test]
fn a_stream_that_is_not_opened_within_seconds_is_reset() {
    let (mut session, mut peer) = (gateway(SHARE), Peer::default());
    peer.send(&mut session, 2, 0, 1000, true);
    peer.send(&mut session, 4, 1000, 1000, false);
    drain(&mut session, NOW);
    // So that the channel is not taken for silent.
    let records = session.channels.get(CHANNEL).unwrap();
    let records = records.outbound().next_record();
    let mut body = BytesMut::new();
    let channel = CHANNEL;
    StateFrame::Ack { channel, records }.encode(&mut body);
    let acknowledged = session.handle_record(NOW, CHANNEL, body.freeze());
    acknowledged.unwrap();
    session.handle_sample(NOW, CHANNEL, KernelSample::default());
    let (mut now, mut told) = (NOW, Vec::new());
    while told.is_empty() {
        let next = session.poll_timeout();
        assert!(next.is_some(), "{now:?}, closed: {}", session.is_closed());
        now = now.max(next.unwrap_or(now));
        assert!(now <= NOW + Duration::from_secs(30));
        session.handle_timeout(now);
        told = told_reset(&mut session, now);
    }
    assert_eq!(told, [4]);
    assert!(now >= NOW + Duration::from_secs(5));
    assert_eq!(read(&mut session, 2), 1000);
    // Its opening chunk comes too late, and harms nothing.
    peer.send(&mut session, 4, 0, 1000, true);
    assert_eq!(session.streams.len(), 1);
}

#[test]
fn as_many_streams_are_announced_as_memory_allows() {
    for (share, streams) in [(64 << 20, 4096), (SHARE, 512), (1 << 20, 256)] {
        let mut session = gateway(share);
        let told = commands(&drain(&mut session, NOW));
        let Some(Command::Hello(hello)) = told.first() else {
            panic!("{told:?}");
        };
        assert_eq!(hello.max_streams, streams);
    }
}

/// The peer opens streams, which the application resets, and acknowledges nothing that it is told.
#[test]
fn a_session_whose_peer_causes_commands_and_hears_none_ends() {
    let mut gateway = gateway(SHARE);
    let mut peer = Peer::default();
    let ends = (0..100_000).find_map(|number| {
        let id = 2 * (number + 1);
        peer.send_small(&mut gateway, id);
        gateway.reset(NOW, StreamId::new(id), 9);
        let events: Vec<_> = std::iter::from_fn(|| gateway.poll_event()).collect();
        drain(&mut gateway, NOW);
        events.into_iter().find_map(|event| match event {
            Event::Closed(reason) => Some(reason),
            _ => None,
        })
    });
    let limit = CloseReason::LimitExceeded(Limit::Commands);
    assert_eq!(ends, Some(limit));
}

#[test]
fn what_waits_in_many_streams_to_be_sent_is_bounded_together() {
    let send_memory = ByteCount::from_mib(8);
    let config = SessionConfig {
        send_memory,
        ..SessionConfig::default()
    };
    let mut session = Session::new(Instant::ZERO, Side::Client, config);
    let mut written = 0;
    // As many as may be opened before the peer has said anything.
    while let Ok(id) = session.open_stream(Instant::ZERO, Bytes::new()) {
        let mut bytes = Bytes::from(vec![0; 2 << 20]);
        written += session.write(Instant::ZERO, id, &mut bytes).unwrap();
    }
    assert!(written >= 1 << 20, "one stream has all that it can use");
    assert!(written as u64 <= send_memory.as_u64(), "{written}");
}
