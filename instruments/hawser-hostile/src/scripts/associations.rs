//! Scripts that misuse the UDP port and associations.

use bytes::{BufMut as _, BytesMut};
use hawser_types::ChannelId;
use hawser_wire::sctp::{ChecksumRule, Chunk, ChunkKind, GapBlock, PacketWriter, Sack, Tsn};
use hawser_wire::{Command, TransportChoice, put_varint};

use crate::frames;
use crate::samples;
use crate::script::Script;
use crate::step::{Step, Turn};

pub(crate) fn associations() -> Vec<Script> {
    [port(), packets(), records()].concat()
}

/// What does not open, and ASSOCIATE itself.
fn port() -> Vec<Script> {
    vec![
        Script::client(
            "associate-with-gaps",
            vec![Step::Commands(100_000, |turn, out| {
                out.push(associate(1 + 2 * turn.number));
            })],
        )
        .may_overflow(),
        Script::client(
            "associate-beyond-the-grants",
            vec![Step::Commands(20_000, |turn, out| {
                out.push(associate(1 + 100 * turn.number));
            })],
        )
        .ends_by_fault("was never granted".to_owned()),
        Script::client(
            "datagrams-that-do-not-open",
            vec![
                Step::Associated,
                Step::Strays(20_000, |turn, out| match turn.number % 5 {
                    0 => {}
                    1 => out.put_bytes(7, 22),
                    // A key that there is not.
                    2 => out.put_u64(turn.number),
                    3 => out.put_bytes(turn.number as u8, 1400),
                    // The right key, under which nothing was sealed.
                    _ => {
                        out.put_slice(&turn.names.key);
                        out.put_uint(turn.number, 3);
                        out.put_bytes(9, 60);
                    }
                }),
                Step::Stands,
            ],
        ),
        Script::client(
            "datagrams-again",
            vec![Step::Associated, Step::Replay(20_000), Step::Stands],
        ),
    ]
}

fn associate(number: u64) -> Command {
    Command::Associate {
        channel: ChannelId::new(u32::try_from(number).unwrap_or(u32::MAX)),
        transport: TransportChoice::Tcp,
    }
}

/// Packets that lie.
fn packets() -> Vec<Script> {
    vec![
        Script::client(
            "packets-of-other-associations",
            vec![
                Step::Associated,
                Step::Packets(20_000, |turn, out| {
                    samples::whole_packet(any_chunk(turn), turn, out);
                }),
                Step::Stands,
            ],
        ),
        Script::client(
            "chunks-of-every-kind",
            vec![
                Step::Associated,
                Step::Packets(20_000, |turn, out| {
                    samples::association_chunk(any_chunk(turn), turn, out);
                }),
            ],
        ),
        Script::client(
            "acknowledgements-that-lie",
            vec![Step::Associated, Step::Packets(5_000, lying_sack)],
        ),
        Script::client(
            "sizes-that-lie",
            vec![
                Step::Associated,
                Step::Packets(20_000, |turn, out| match turn.number % 6 {
                    0 => {}
                    // Shorter than its own header, and longer than the packet.
                    1 => out.put_slice(&[3, 0, 0, 2]),
                    2 => out.put_slice(&[3, 0, 0xff, 0xff, 1, 2, 3, 4]),
                    // Data whose length goes beyond the packet, or that is cut in its number.
                    3 => {
                        out.put_slice(&[0x57, 0xff, 0xff]);
                        out.put_u32(turn.names.tsn);
                        out.put_slice(&[1, 0, 0, 1]);
                    }
                    4 => out.put_slice(&[0x47, 1, 2]),
                    _ => out.put_slice(&[0x60, 0, 0, 4]),
                }),
                Step::Stands,
            ],
        ),
        Script::client(
            "message-that-never-ends",
            vec![
                Step::Associated,
                Step::Packets(20_000, |turn, out| {
                    let flags = if turn.number == 0 { BEGINS } else { 0 };
                    data(turn, turn.number, flags, [0, turn.number], out);
                    out.put_bytes(5, 1100);
                }),
            ],
        ),
        Script::client(
            "messages-behind-gaps",
            vec![
                Step::Associated,
                Step::Packets(20_000, |turn, out| {
                    // Every second one is missing, and none is whole.
                    data(turn, 1 + 2 * turn.number, BEGINS, [turn.number, 0], out);
                    out.put_u8(5);
                }),
            ],
        ),
    ]
}

/// Whole messages whose records break the rules.
fn records() -> Vec<Script> {
    vec![
        Script::client(
            "record-of-an-unknown-frame",
            vec![
                Step::Associated,
                Step::Packets(1, |turn, out| {
                    record(turn, 1, out);
                    out.put_slice(&[0x60, 1, 0]);
                }),
            ],
        )
        .ends_by_malformed("frame"),
        Script::client(
            "record-far-ahead",
            vec![
                Step::Associated,
                Step::Packets(1, |turn, out| {
                    record(turn, 1 << 20, out);
                    frames::padding(8, out);
                }),
            ],
        )
        .ends_by_fault("is too far ahead of what came".to_owned()),
        Script::client(
            "record-number-twice",
            vec![
                Step::Associated,
                Step::Packets(2, |turn, out| {
                    record(turn, 1, out);
                    frames::padding(8, out);
                }),
            ],
        )
        .ends_by_fault("came twice on".to_owned()),
        Script::client(
            "chunk-without-a-number",
            vec![
                Step::Associated,
                Step::Packets(1, |turn, out| {
                    record(turn, 0, out);
                    frames::data(2, 0, &[1], out);
                }),
            ],
        )
        .ends_by_fault("in a record without a number".to_owned()),
    ]
}

/// One kind after another.
fn any_chunk(turn: Turn<'_>) -> ChunkKind {
    ChunkKind::ALL[turn.number as usize % ChunkKind::ALL.len()]
}

/// Acknowledges what the gateway never sent, with runs that end before they begin.
fn lying_sack(turn: Turn<'_>, out: &mut BytesMut) {
    let ahead = [1, 1000, 1 << 20, 1 << 31][turn.number as usize % 4];
    let gap = GapBlock { first: 9, last: 2 };
    let sack = Sack {
        cumulative: Tsn::new(turn.names.peer_tsn.wrapping_add(ahead)),
        window: [0, u32::MAX][turn.number as usize % 2],
        gaps: vec![gap; turn.number as usize % 200],
        duplicates: Vec::new(),
    };
    let mut packet = PacketWriter::compact(BytesMut::new(), 1200);
    packet.put(&Chunk::Sack(sack));
    out.put_slice(&packet.finish(ChecksumRule::Zero));
}

/// Appends the head of unordered compact I-DATA on stream 0, with the TSN that is so far behind the
/// first one. `numbers`: of its message, and of its part or the protocol.
fn data(turn: Turn<'_>, behind: u64, flags: u8, numbers: [u64; 2], out: &mut BytesMut) {
    out.put_u8(0x40 | UNORDERED | flags);
    out.put_u32(turn.names.tsn.wrapping_add(behind as u32));
    put_varint(out, 0);
    numbers.iter().for_each(|number| put_varint(out, *number));
}

/// Appends the head of a message that is whole, and the number of its record.
fn record(turn: Turn<'_>, number: u64, out: &mut BytesMut) {
    let numbers = [turn.number, 0];
    data(turn, turn.number, BEGINS | ENDS, numbers, out);
    put_varint(out, number);
}

const ENDS: u8 = 1;
const BEGINS: u8 = 2;
const UNORDERED: u8 = 4;
