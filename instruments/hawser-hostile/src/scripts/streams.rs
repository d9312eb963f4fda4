//! Scripts that break the rules of streams.

use std::time::Duration;

use hawser_session::Misbehaviour;
use hawser_types::StreamId;
use hawser_wire::{ChunkFlags, Command};

use crate::frames;
use crate::script::{Script, TOO_MANY_STREAMS};
use crate::step::{Manners, Place, Step};

pub(crate) fn streams() -> Vec<Script> {
    [first_part(), second_part()].concat()
}

fn first_part() -> Vec<Script> {
    let first = StreamId::new(2);
    vec![
        Script::client(
            "beyond-credit",
            vec![Step::Records(400, |turn, out| {
                frames::data(2, turn.number * 60_000, &[0; 60_000], out);
            })],
        )
        .ends_by(Misbehaviour::CreditExceeded(first)),
        Script::client(
            "overlap",
            vec![Step::Records(2, |turn, out| {
                frames::data(2, 10 + 5 * turn.number, &[0; 10], out);
            })],
        )
        .ends_by(Misbehaviour::Overlap(first)),
        Script::client(
            "two-ends",
            vec![Step::Records(2, |turn, out| {
                let at = (2, 100 + turn.number);
                frames::chunk(at, frames::FIN, &[], &[1], out);
            })],
        )
        .ends_by(Misbehaviour::BeyondEnd(first)),
        Script::client(
            "stream-of-the-gateway",
            vec![Step::Records(1, |_, out| frames::data(9, 0, &[1], out))],
        )
        .ends_by(Misbehaviour::NotOpened(StreamId::new(9))),
        Script::client(
            "open-behind-the-beginning",
            vec![Step::Records(1, |_, out| {
                frames::chunk((2, 5), frames::OPEN, &[1], &[], out);
            })],
        )
        .ends_by_malformed("chunk header"),
        Script::client(
            "longest-metadata",
            vec![
                Step::Records(500, |turn, out| {
                    frames::chunk((turn.stream(), 0), frames::OPEN, &[0x11; 1024], &[], out);
                }),
                // Each is no opening that the gateway knows, or one stream too many.
                Step::Refused(500),
            ],
        ),
        Script::client(
            "metadata-too-long",
            vec![Step::Records(1, |_, out| {
                frames::chunk((2, 0), frames::OPEN, &[0; 1025], &[], out);
            })],
        )
        .ends_by_malformed("opening metadata"),
        Script::client("open-flood", vec![Step::Open(6000, Place::Closed, 0)])
            .may_overflow()
            .descriptors(4200),
        Script::client(
            "open-and-reset",
            vec![Step::Repeat(
                40,
                vec![
                    Step::Records(100, |turn, out| {
                        let metadata = turn.scene.metadata(Place::Sink);
                        let at = (turn.stream(), 0);
                        frames::chunk(at, frames::OPEN, &metadata, &[0; 100], out);
                    }),
                    Step::Commands(100, |turn, out| {
                        let stream = StreamId::new(turn.stream());
                        out.push(Command::Reset { stream, code: 0 });
                    }),
                ],
            )],
        )
        .descriptors(4200),
    ]
}

fn second_part() -> Vec<Script> {
    vec![
        Script::client(
            "reset-storm",
            vec![
                Step::Open(32, Place::Source, 0),
                Step::Listen(Manners::NO_ACKS),
                Step::Pause(Duration::from_millis(300)),
                // Streams that never were, so that each is one more that is over.
                Step::Commands(50_000, |turn, out| {
                    let stream = StreamId::new(1000 + turn.stream());
                    out.push(Command::Reset { stream, code: 1 });
                }),
            ],
        )
        .may_overflow()
        .may_be_given_up(),
        Script::client(
            "reset-with-gaps",
            vec![Step::Commands(20_000, |turn, out| {
                let stream = StreamId::new(2 * turn.stream());
                out.push(Command::Reset { stream, code: 1 });
            })],
        )
        // Too many streams are over in no order; which one is too many depends on limits.
        .ends_by_fault(TOO_MANY_STREAMS.to_owned()),
        Script::client(
            "both-halves-end",
            vec![Step::Commands(20_000, |turn, out| {
                let (stream, code) = (StreamId::new(turn.stream()), 1);
                out.push(Command::Stop { stream, code });
                out.push(Command::ResetSending { stream, code });
            })],
        )
        .may_overflow(),
        Script::client(
            "every-flag-on-every-stream",
            vec![Step::Records(3000, |turn, out| {
                let flags = ChunkFlags {
                    open: turn.number % 2 == 0,
                    fin: turn.number % 3 == 0,
                };
                let metadata = turn.scene.metadata(Place::Closed);
                frames::chunk((turn.stream(), 0), flags, &metadata, &[0; 3], out);
            })],
        )
        .may_overflow()
        .descriptors(4200),
        Script::client(
            "credit-without-end",
            vec![
                Step::Listen(Manners::EAGER),
                Step::Open(8, Place::Source, 0),
                Step::Records(20_000, |turn, out| {
                    frames::credit(turn.stream(), u64::MAX >> 2, out);
                }),
            ],
        )
        .may_be_given_up(),
    ]
}
