//! Directions that end early, command by command: one session, whose peer the test plays.

use bytes::{Bytes, BytesMut};
use hawser_types::{ChannelId, Instant, SegmentNumber, StreamId, StreamOffset};
use hawser_wire::{
    ChannelRole, ChunkFlags, ChunkHeader, Command, Frame, FrameIterator, Hello, StateFrame,
};

use super::raw::{commands, commands_at, spec};
use crate::error::PeerFault;
use crate::{
    CODE_LIMIT_REACHED, Event, Outgoing, ReadOutcome, Session, SessionConfig, Side, StreamError,
};

const CODE: u32 = 77;
const CHANNEL: ChannelId = ChannelId::new(0);

/// A session with one channel.
struct Lone {
    session: Session,
    now: Instant,
    /// Bytes of commands that its peer has sent.
    offset: u64,
    /// Records that it has sent.
    records: u64,
}

impl Lone {
    fn new(side: Side) -> Self {
        Self::with_streams(side, SessionConfig::default().max_streams)
    }

    /// Allows the peer `max_streams` streams.
    fn with_streams(side: Side, max_streams: u64) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let config = SessionConfig {
            max_streams,
            ..SessionConfig::default()
        };
        let mut session = Session::new(now, side, config);
        session.add_channel(now, spec(0, ChannelRole::Express, 7));
        session.handle_writable(now, CHANNEL);
        let (offset, records) = (0, 0);
        let mut lone = Self {
            session,
            now,
            offset,
            records,
        };
        lone.sent();
        lone
    }

    /// The peer has said hello, and knows directions that end early if `ends_halves`.
    fn greeted(mut self, ends_halves: bool) -> Self {
        self.hear(&[hello(ends_halves)]).unwrap();
        self.sent();
        self.events();
        self
    }

    /// Takes in commands of the peer, in one record.
    fn hear(&mut self, commands: &[Command]) -> Result<(), PeerFault> {
        let mut bytes = BytesMut::new();
        commands
            .iter()
            .for_each(|command| command.encode(&mut bytes));
        let record = commands_at(self.offset, &bytes);
        self.offset += bytes.len() as u64;
        self.session.handle_record(self.now, CHANNEL, record)
    }

    /// Takes in a chunk of the peer.
    fn take(&mut self, id: StreamId, offset: u64, open: bool, payload: &[u8]) {
        self.take_flagged(id, offset, ChunkFlags { open, fin: false }, payload);
    }

    fn take_flagged(&mut self, id: StreamId, offset: u64, flags: ChunkFlags, payload: &[u8]) {
        let mut body = BytesMut::new();
        ChunkHeader {
            stream: id,
            segment: SegmentNumber::new(0),
            offset: StreamOffset::new(offset),
            flags,
            metadata: Bytes::new(),
        }
        .encode(&mut body);
        body.extend_from_slice(payload);
        let taken = self.session.handle_record(self.now, CHANNEL, body.freeze());
        taken.unwrap();
    }

    /// Takes out everything that the session sends now.
    fn sent(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.session.handle_writable(self.now, CHANNEL);
        while self.session.poll_wake().is_some() {
            let mut out = Outgoing::default();
            while self.session.poll_transmit(self.now, CHANNEL, &mut out) {
                self.records += 1;
                let mut body = out.head.clone();
                out.payload
                    .iter()
                    .for_each(|piece| body.extend_from_slice(piece));
                let read = FrameIterator::new(body.freeze());
                frames.extend(read.map(|frame| frame.unwrap()));
                self.session.handle_writable(self.now, CHANNEL);
            }
        }
        frames
    }

    /// The peer acknowledges everything that was sent.
    fn acknowledge(&mut self) {
        let mut body = BytesMut::new();
        let (channel, records) = (CHANNEL, self.records);
        StateFrame::Ack { channel, records }.encode(&mut body);
        let taken = self.session.handle_record(self.now, CHANNEL, body.freeze());
        taken.unwrap();
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.session.poll_event()).collect()
    }

    fn streams(&self) -> usize {
        self.session.snapshot(self.now, 0).stream_count
    }
}

fn hello(ends_halves: bool) -> Command {
    Command::Hello(Hello {
        max_streams: 9,
        accepts_plain: false,
        takes_datagrams: false,
        ends_halves,
        follows_scheduler: false,
        knows_signals: false,
        link: 1,
    })
}

/// A number of a stream that the peer of this side opens.
fn of_peer(side: Side, number: u64) -> StreamId {
    StreamId::new(side.peer().first_stream().value() + number * 2)
}

fn stop(stream: StreamId) -> Command {
    Command::Stop { stream, code: CODE }
}

fn reset_sending(stream: StreamId) -> Command {
    Command::ResetSending { stream, code: CODE }
}

#[test]
fn a_stop_that_comes_before_the_opening_is_told_right_after_it() {
    for side in [Side::Client, Side::Gateway] {
        let mut lone = Lone::new(side).greeted(true);
        let id = of_peer(side, 0);
        lone.hear(&[stop(id)]).unwrap();
        assert_eq!(lone.events(), []);
        lone.take(id, 0, true, b"data");
        let told = [
            Event::StreamOpened(id),
            Event::Stopped(id, CODE),
            Event::Readable(id),
        ];
        assert_eq!(lone.events(), told);
    }
}

#[test]
fn a_stream_that_the_peer_ends_before_it_answers_is_over_for_who_opened_it() {
    for ends in [[0, 1], [1, 0]] {
        let mut lone = Lone::new(Side::Client).greeted(true);
        let id = lone.session.open_stream(lone.now, Bytes::new()).unwrap();
        lone.session.write_slice(lone.now, id, b"data").unwrap();
        lone.sent();
        lone.acknowledge();
        lone.events();
        let ends = ends.map(|which| [stop(id), reset_sending(id)][which].clone());
        lone.hear(&ends).unwrap();
        // An application that waits for the answer would wait without end.
        assert_eq!(lone.events().last(), Some(&Event::Reset(id, CODE)));
        assert_eq!(lone.streams(), 0);
    }
}

#[test]
fn a_request_that_was_not_read_to_its_end_does_not_destroy_the_answer() {
    let mut lone = Lone::new(Side::Gateway).greeted(true);
    let id = of_peer(Side::Gateway, 0);
    let whole = ChunkFlags {
        open: true,
        fin: true,
    };
    lone.take_flagged(id, 0, whole, b"request");
    lone.session.write_slice(lone.now, id, b"answer").unwrap();
    lone.session.abandon(lone.now, id);
    lone.sent();
    lone.acknowledge();
    // The peer holds the answer, and may not have read it yet.
    assert_eq!(commands(&lone.sent()), []);
    assert_eq!(lone.streams(), 0);
}

#[test]
fn a_stop_is_told_once() {
    let mut lone = Lone::new(Side::Client).greeted(true);
    let id = lone.session.open_stream(lone.now, Bytes::new()).unwrap();
    lone.sent();
    // The opening chunk is in flight, so that the direction is not over.
    lone.hear(&[stop(id), stop(id)]).unwrap();
    assert_eq!(lone.events(), [Event::Stopped(id, CODE)]);
}

#[test]
fn nothing_ends_the_command_stream() {
    let zero = StreamId::COMMANDS;
    let reset = Command::Reset {
        stream: zero,
        code: CODE,
    };
    for side in [Side::Client, Side::Gateway] {
        for command in [stop(zero), reset_sending(zero), reset.clone()] {
            let mut lone = Lone::new(side).greeted(true);
            lone.hear(&[command.clone(), command.clone()]).unwrap();
            assert_eq!(lone.events(), [], "{side:?} {command:?}");
            assert_eq!(lone.streams(), 0, "{side:?} {command:?}");
            // The stream whose number is next to it begins all the same.
            let id = of_peer(side, 0);
            lone.take(id, 0, true, b"data");
            assert_eq!(lone.events()[0], Event::StreamOpened(id));
            assert_eq!(commands(&lone.sent()), [], "{side:?} {command:?}");
        }
    }
}

#[test]
fn nothing_opens_a_stream_of_a_session_that_is_over() {
    let id = of_peer(Side::Gateway, 0);
    for command in [stop(id), reset_sending(id)] {
        let mut lone = Lone::new(Side::Gateway).greeted(true);
        lone.hear(&[Command::Close { code: 0 }, command]).unwrap();
        let events = lone.events();
        assert!(matches!(events[..], [Event::Closed(_)]), "{events:?}");
        assert_eq!(lone.streams(), 0);
    }
}

#[test]
fn a_stream_that_the_peer_ends_both_ways_is_over_and_that_is_told_once() {
    let id = of_peer(Side::Gateway, 0);
    for commands in [[stop(id), reset_sending(id)], [reset_sending(id), stop(id)]] {
        let mut lone = Lone::new(Side::Gateway).greeted(true);
        lone.take(id, 0, true, b"data");
        lone.events();
        let [first, second] = commands;
        lone.hear(&[first]).unwrap();
        assert!(!lone.events().contains(&Event::Over(id)));
        lone.hear(std::slice::from_ref(&second)).unwrap();
        assert_eq!(lone.events().last(), Some(&Event::Over(id)));
        assert_eq!(lone.streams(), 0);
        lone.hear(&[second]).unwrap();
        assert_eq!(lone.events(), []);
    }
}

#[test]
fn a_peer_has_no_more_streams_open_than_it_may_however_it_ends_them() {
    const MOST: u64 = 4;
    let mut lone = Lone::with_streams(Side::Gateway, MOST).greeted(true);
    let mut over = 0;
    for round in 0..100 {
        let ids: Vec<_> = (0..=MOST)
            .map(|n| of_peer(Side::Gateway, round * (MOST + 1) + n))
            .collect();
        // The last one of each round is one too many, and streams that were stopped count.
        for id in &ids {
            lone.take(*id, 0, true, b"data");
            lone.hear(&[stop(*id)]).unwrap();
        }
        let stream = ids[MOST as usize];
        let code = CODE_LIMIT_REACHED;
        assert_eq!(commands(&lone.sent()), [Command::Reset { stream, code }]);
        assert_eq!(lone.streams() as u64, MOST);
        for id in &ids[..MOST as usize] {
            lone.hear(&[reset_sending(*id)]).unwrap();
        }
        over += lone
            .events()
            .iter()
            .filter(|event| matches!(event, Event::Over(_)))
            .count();
        assert_eq!(lone.streams(), 0);
        lone.acknowledge();
    }
    // The owner hears of the end of each, so that none waits to be accepted for ever.
    assert_eq!(over as u64, 100 * MOST);
}

#[test]
fn a_write_on_a_stopped_stream_opens_nothing() {
    let id = of_peer(Side::Gateway, 0);
    let mut lone = Lone::new(Side::Gateway).greeted(true);
    lone.take(id, 0, true, b"data");
    lone.hear(&[stop(id)]).unwrap();
    lone.sent();
    let (session, now) = (&mut lone.session, lone.now);
    let finished = Err(StreamError::Finished);
    assert_eq!(session.write_slice(now, id, b"more"), finished);
    assert!(session.is_acknowledged(id));
    let mut more = Bytes::from_static(b"more");
    assert_eq!(session.write(now, id, &mut more), finished);
    assert!(session.is_acknowledged(id));
}

#[test]
fn ends_are_told_to_the_peer_once() {
    for before_hello in [true, false] {
        let mut lone = Lone::new(Side::Client);
        if !before_hello {
            lone = lone.greeted(true);
        }
        let id = lone.session.open_stream(lone.now, Bytes::new()).unwrap();
        lone.sent();
        for _ in 0..3 {
            lone.session.reset_sending(lone.now, id, CODE);
            lone.session.stop_reading(lone.now, id, CODE);
        }
        if before_hello {
            lone.hear(&[hello(true)]).unwrap();
        }
        let told = commands(&lone.sent());
        assert_eq!(told, [reset_sending(id), stop(id)], "{before_hello}");
    }
}

#[test]
fn a_direction_that_the_peer_stopped_is_not_reset_as_well() {
    let mut lone = Lone::new(Side::Client).greeted(true);
    let id = lone.session.open_stream(lone.now, Bytes::new()).unwrap();
    lone.sent();
    lone.hear(&[stop(id)]).unwrap();
    lone.session.reset_sending(lone.now, id, CODE);
    assert_eq!(commands(&lone.sent()), []);
}

/// Sends chunks of one byte with a hole behind each, until the session resets the stream.
fn holes_until_reset(lone: &mut Lone, id: StreamId) -> u64 {
    for n in 0..100_000 {
        lone.take(id, n * 2, n == 0, b"x");
        while let Ok(ReadOutcome::Data(..)) = lone.session.read(lone.now, id, 100) {}
        lone.acknowledge();
        let told = commands(&lone.sent());
        if !told.is_empty() {
            let code = CODE_LIMIT_REACHED;
            assert_eq!(told, [Command::Reset { stream: id, code }]);
            return n;
        }
    }
    panic!("the holes in a stream are not bounded");
}

#[test]
fn a_stream_that_is_read_out_of_order_has_a_bounded_number_of_holes() {
    let id = of_peer(Side::Gateway, 0);
    // A peer that can not be stopped goes on, and an application may want bytes as they come.
    for (stops, most) in [(true, 4096), (false, 65_536)] {
        let mut lone = Lone::new(Side::Gateway).greeted(false);
        lone.take(id, 0, true, b"");
        if stops {
            lone.session.stop_reading(lone.now, id, CODE);
        } else {
            lone.session.set_unordered(id).unwrap();
        }
        lone.sent();
        lone.events();
        assert_eq!(holes_until_reset(&mut lone, id), most);
        let told = Event::Reset(id, CODE_LIMIT_REACHED);
        assert!(lone.events().contains(&told), "a reader waits for ever");
        assert_eq!(lone.streams(), 0);
    }
}
