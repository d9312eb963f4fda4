mod compact;
mod golden;
mod hostile;
mod round_trip;

use bytes::Bytes;

use super::*;
use crate::{Malformed, MalformedReason};

/// Encodes a packet with this chunk alone, without the common header.
fn encode(chunk: &Chunk) -> Bytes {
    let mut writer = PacketWriter::new(1, 2, VerificationTag::new(3), 65535);
    assert!(writer.put(chunk), "it is longer than a packet: {chunk:?}");
    let packet = writer.finish(ChecksumRule::Crc32c);
    packet.slice(PACKET_HEADER_LENGTH..)
}

/// Decodes a packet with these bytes behind its header.
fn decode(chunks: &[u8]) -> Result<Vec<Chunk>, Malformed> {
    packet(chunks).chunks().collect()
}

fn packet(chunks: &[u8]) -> Packet {
    let datagram = [&[0; PACKET_HEADER_LENGTH], chunks].concat();
    Packet::decode(datagram.into(), ChecksumRule::Zero).unwrap()
}

fn data(payload: &'static [u8]) -> Data {
    Data {
        tsn: Tsn::new(0x0102_0304),
        stream: StreamNumber::new(5),
        order: DataOrder::Sequence(6),
        unordered: false,
        first: true,
        last: true,
        immediate: false,
        protocol: 51,
        payload: Bytes::from_static(payload),
    }
}
