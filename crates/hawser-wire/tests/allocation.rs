//! Allocations of SCTP packets with data.

use bytes::Bytes;
use hawser_wire::sctp::{
    ChecksumRule, Chunk, Data, DataOrder, Packet, PacketWriter, StreamNumber, Tsn, VerificationTag,
};

/// Builds a packet full of small messages.
fn packet() -> Bytes {
    let data = Data {
        tsn: Tsn::new(1),
        stream: StreamNumber::new(2),
        order: DataOrder::Sequence(3),
        unordered: false,
        first: true,
        last: true,
        immediate: false,
        protocol: 0,
        payload: Bytes::from_static(&[7; 100]),
    };
    let mut writer = PacketWriter::new(1, 2, VerificationTag::new(3), 1400);
    while writer.put_data(&data) {}
    writer.finish(ChecksumRule::Crc32c)
}

#[test]
fn data_is_read_without_an_allocation() {
    // As drivers do, which share one buffer among datagrams.
    let datagram = packet();
    let shared = datagram.clone();
    let made = allocation_counter::measure(|| {
        let packet = Packet::decode(datagram, ChecksumRule::Crc32c).unwrap();
        let payloads = packet.chunks().map(|chunk| match chunk {
            Ok(Chunk::Data(data)) => data.payload.len(),
            other => panic!("{other:?}"),
        });
        assert_eq!(payloads.sum::<usize>(), 1100);
    });
    assert_eq!(made.count_total, 0);
    drop(shared);
}

#[test]
fn a_packet_of_data_is_written_into_one_buffer() {
    let made = allocation_counter::measure(|| drop(packet()));
    // The buffer, and its reference count.
    assert!(made.count_total <= 2, "{made:?}");
}
