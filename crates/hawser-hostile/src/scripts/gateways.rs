//! Scripts of a hostile gateway against the client's daemon.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use hawser_session::Misbehaviour;
use hawser_types::{ChannelId, StreamId};
use hawser_wire::{Command, Grant, StateFrame};

use crate::frames;
use crate::script::Script;
use crate::step::{Manners, Step};

pub(crate) fn gateways() -> Vec<Script> {
    [first_part(), second_part()].concat()
}

// long: a table
fn first_part() -> Vec<Script> {
    vec![
        Script::gateway(
            "gateway-opens-streams",
            vec![Step::Records(6000, |turn, out| {
                frames::chunk((turn.stream(), 0), frames::OPEN, &[1], &[0; 900], out);
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
            "gateway-announces-an-association",
            vec![Step::Commands(1, |_, out| {
                out.push(Command::Associate {
                    channel: ChannelId::new(1),
                    transport: Default::default(),
                });
            })],
        )
        .ends_by(Misbehaviour::WrongSide),
    ]
}

// long: a table
fn second_part() -> Vec<Script> {
    vec![
        Script::gateway(
            "grants-to-private-networks",
            vec![Step::Commands(2000, |turn, out| {
                let number = u32::try_from(turn.number).unwrap_or(u32::MAX);
                let address = SocketAddr::from((Ipv4Addr::new(192, 168, 1, 1), 80));
                out.push(Command::Grant(Grant {
                    first: ChannelId::new(1000 + 100 * number),
                    count: 100,
                    addresses: vec![address; 16],
                }));
            })],
        ),
        Script::gateway(
            "gateway-repeats-itself",
            vec![Step::Commands(20_000, |turn, out| {
                let port = 1 + (turn.number % 60_000) as u16;
                out.push(Command::Enrolled);
                out.push(Command::DatagramPort { port });
            })],
        ),
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
        Script::gateway(
            "gateway-reset-storm",
            vec![Step::Commands(50_000, |turn, out| {
                let stream = StreamId::new(1 + turn.number);
                out.push(Command::Reset { stream, code: 257 });
            })],
        ),
        Script::gateway(
            "gateway-datagrams-of-no-stream",
            vec![Step::Records(20_000, |turn, out| {
                let stream = StreamId::new(1 + turn.number);
                hawser_wire::put_datagram(stream, &[], out);
                StateFrame::Heartbeat.encode(out);
            })],
        ),
    ]
}

/// Accepts a stream of the client, in the order of their numbers, and grants it much.
fn accept(turn: crate::step::Turn<'_>, out: &mut bytes::BytesMut) {
    let stream = 2 + 2 * turn.number;
    frames::credit(stream, 1 << 30, out);
}
