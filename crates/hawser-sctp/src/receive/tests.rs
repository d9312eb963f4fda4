mod hostile;
mod model;
mod order;
mod placed;
mod sack;

use std::time::Duration;

use hawser_types::ByteCount;
use hawser_wire::sctp::{Chunk, PacketWriter, SkippedStream, VerificationTag};

use super::*;

const INITIAL: u32 = u32::MAX - 3;

/// Creates a receiver with this buffer, whose first TSN is close to the wrap.
fn inbound(buffer: u64, interleaving: bool) -> Inbound {
    let config = AssociationConfig {
        receive_buffer: ByteCount::new(buffer),
        ..AssociationConfig::default()
    };
    Inbound::new(&config, Tsn::new(INITIAL), 10, interleaving, true)
}

fn at(milliseconds: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(milliseconds)
}

/// Returns the TSN of the `count`th part, from 0.
fn tsn(count: u32) -> Tsn {
    Tsn::new(INITIAL).advance(count)
}

/// Builds a complete ordered message of stream 1.
fn whole(count: u32, number: u16, payload: &'static [u8]) -> Data {
    Data {
        tsn: tsn(count),
        stream: StreamNumber::new(1),
        order: DataOrder::Sequence(number),
        unordered: false,
        first: true,
        last: true,
        immediate: false,
        protocol: 51,
        payload: Bytes::from_static(payload),
    }
}

/// Builds a part of a message: `place` is one of `"first"`, `"middle"`, `"last"`.
fn part(count: u32, number: u16, place: &str, payload: &'static [u8]) -> Data {
    Data {
        first: place == "first",
        last: place == "last",
        ..whole(count, number, payload)
    }
}

fn interleaved(data: Data, message: u32, fragment: u32) -> Data {
    Data {
        order: DataOrder::Interleaved { message, fragment },
        ..data
    }
}

fn unordered(data: Data) -> Data {
    Data {
        unordered: true,
        ..data
    }
}

/// Handles a packet with these parts.
fn packet(inbound: &mut Inbound, now: Instant, parts: impl IntoIterator<Item = Data>) {
    for part in parts {
        inbound.on_data(now, part, None).unwrap();
    }
    inbound.on_packet_end(now);
}

/// Returns all messages that can be received, as text.
fn texts(inbound: &mut Inbound) -> Vec<String> {
    let received = std::iter::from_fn(|| inbound.receive());
    received
        .map(|received| String::from_utf8_lossy(&received.payload()).into_owned())
        .collect()
}

/// Builds a FORWARD-TSN that abandons ordered messages of stream 1 up to this one, and all parts up
/// to the `count`th.
fn forward(count: u32, interleaved: bool, last: u32) -> ForwardTsn {
    ForwardTsn {
        cumulative: tsn(count),
        interleaved,
        skipped: vec![SkippedStream {
            stream: StreamNumber::new(1),
            unordered: false,
            last,
        }],
    }
}
