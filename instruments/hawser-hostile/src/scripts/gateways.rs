//! Scripts of a hostile gateway against the client's daemon.

use std::time::Duration;

use hawser_session::Misbehaviour;
use hawser_types::{ChannelId, StreamId};
use hawser_wire::{Command, StreamKind};

use crate::frames;
use crate::samples;
use crate::script::Script;
use crate::step::{Manners, Step};

pub(crate) fn gateways() -> Vec<Script> {
    vec![
        Script::gateway(
            "gateway-opens-streams",
            vec![Step::Records(6000, |turn, out| {
                frames::chunk((turn.stream(), 0), frames::OPEN, &[1], &[0; 900], out);
            })],
        )
        .may_overflow(),
        Script::gateway(
            "gateway-opens-streams-of-every-kind",
            vec![Step::Records(6000, |turn, out| {
                let kind = StreamKind::ALL[turn.number as usize % StreamKind::ALL.len()];
                samples::open(kind, turn, out);
            })],
        )
        .may_overflow(),
        Script::gateway(
            "gateway-unopened-streams",
            vec![Step::Records(4096, |turn, out| {
                frames::data(turn.stream(), 0, &[0; 16 * 1024], out);
            })],
        )
        .may_overflow(),
        Script::gateway(
            "gateway-accepts-nothing",
            vec![Step::Pause(Duration::from_secs(3))],
        ),
        Script::gateway(
            "gateway-takes-all-and-acknowledges-nothing",
            vec![
                Step::Listen(Manners::GREEDY),
                Step::Records(64, accept),
                Step::Pause(Duration::from_secs(3)),
            ],
        )
        .may_be_given_up(),
        Script::gateway(
            "gateway-reads-nothing",
            vec![
                Step::Records(64, accept),
                Step::Listen(Manners::DEAF),
                Step::Pause(Duration::from_secs(3)),
            ],
        )
        .may_be_given_up(),
        Script::gateway(
            "gateway-beyond-credit",
            vec![
                Step::Pause(Duration::from_millis(500)),
                Step::Records(8, |turn, out| {
                    let at = turn.number * 60_000;
                    frames::data(1, (1 << 30) + at, &[0; 60_000], out);
                }),
            ],
        )
        .ends_by(Misbehaviour::CreditExceeded(StreamId::new(1))),
        Script::gateway(
            "gateway-acknowledges-what-was-not-sent",
            vec![Step::Records(1, |_, out| frames::ack(0, 1 << 40, out))],
        )
        .ends_by(Misbehaviour::AckOfUnsent),
        Script::gateway(
            "gateway-closes-channels",
            vec![Step::Repeat(
                20,
                vec![
                    Step::Pause(Duration::from_millis(100)),
                    Step::Commands(10, |turn, out| {
                        let number = u32::try_from(turn.number).unwrap_or(u32::MAX);
                        let channel = ChannelId::new(1 + number);
                        out.push(Command::ChannelClosed { channel });
                    }),
                ],
            )],
        ),
    ]
}

/// Accepts a stream of the client, in the order of their numbers, and grants it much.
fn accept(turn: crate::step::Turn<'_>, out: &mut bytes::BytesMut) {
    let stream = 2 + 2 * turn.number;
    frames::credit(stream, 1 << 30, out);
}
