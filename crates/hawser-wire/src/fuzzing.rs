//! Entry points for the fuzzers: each takes any bytes and must return.

use bytes::{Bytes, BytesMut};

use crate::dns::DnsQuestion;
use crate::sctp::{
    ChecksumRule, CommonHeader, PACKET_HEADER_LENGTH, Packet, PacketWriter, VerificationTag,
};
use crate::tunnel::{TunnelHeader, TunnelMessage};
use crate::{
    CommandDecoder, FrameIterator, JoinOffer, JoinPrelude, RecordHeader, SynOption,
    take_record_number,
};

/// The body of an opened record, and the same bytes as a message of an association.
pub fn fuzz_frames(data: &[u8]) {
    let mut message = Bytes::copy_from_slice(data);
    for frame in FrameIterator::new(message.clone()) {
        let _ = frame;
    }
    if take_record_number(&mut message).is_ok() {
        for frame in FrameIterator::new(message) {
            let _ = frame;
        }
    }
}

/// The command stream, arriving in two pieces.
pub fn fuzz_commands(data: &[u8]) {
    let mut decoder = CommandDecoder::default();
    let (head, tail) = data.split_at(data.len() / 2);
    for piece in [head, tail] {
        decoder.push(piece);
        while let Ok(Some(_)) = decoder.next_command() {}
    }
}

/// The first bytes of a connection and the header of its first record, and the same bytes as what a
/// gateway says first: what is read must survive encoding.
pub fn fuzz_join(data: &[u8]) {
    if let Some((bytes, _)) = data.split_first_chunk()
        && let Some(offer) = JoinOffer::decode(bytes)
    {
        assert_eq!(offer.encode(), *bytes);
    }
    if let Some((prelude, rest)) = data.split_first_chunk() {
        let _ = JoinPrelude::decode(prelude);
        if let Some((header, _)) = rest.split_first_chunk() {
            let _ = RecordHeader::decode(*header);
        }
    }
}

/// One TCP option, and the same bytes as the options of a header: what is read must survive
/// encoding.
pub fn fuzz_syn_option(data: &[u8]) {
    let mut found = SynOption::find(data).unwrap_or_default();
    if let Ok(option) = SynOption::decode(data) {
        assert_eq!(found, Some(option), "an option alone is one of a header");
    }
    if let Some(option) = found.take() {
        let encoded = option.encode().expect("what was read can be written");
        assert!(
            data.windows(encoded.as_ref().len())
                .any(|it| it == encoded.as_ref())
        );
        assert!(!option.is_answer_to(&option), "an echo is no answer");
    }
}

/// A message of the domain name system as a question, and the same bytes as the answer to it.
pub fn fuzz_dns(data: &[u8]) {
    let mut message = data.to_vec();
    let Some(flags) = message.get_mut(2) else {
        return;
    };
    *flags &= 0x07;
    let Ok(question) = DnsQuestion::decode(&message) else {
        return;
    };
    assert!(question.name().len() <= data.len() * 3);
    let _ = question.is_ordinary();
    assert!(crate::dns::datagram_limit(&message) >= 512);
    assert!(crate::dns::cut(&message).len() <= message.len());
    let failure = crate::dns::failure(&message).and_then(|it| question.decode_answer(&it).ok()?);
    assert!(failure.is_some_and(|answer| !answer.has_records));
    message[2] |= 0x80;
    match question.decode_answer(&message) {
        Ok(Some(answer)) => {
            assert!(answer.has_records || answer.told.is_empty());
            assert!(answer.addresses.iter().all(|it| answer.told.contains(it)));
            assert!(answer.told.len() <= data.len() / 4);
        }
        Ok(None) => panic!("an answer with the same question answers another one"),
        Err(_) => {}
    }
}

/// A message of a tunnel: what is read must survive encoding.
pub fn fuzz_tunnel(data: &[u8]) {
    if let Ok(TunnelMessage::Packet(header)) = TunnelMessage::take(&mut &data[..]) {
        let mut out = Vec::new();
        header.put(&mut out);
        assert!(out.len() <= TunnelHeader::MAX_LENGTH);
        let again = TunnelMessage::take(&mut &out[..]);
        assert_eq!(again, Ok(TunnelMessage::Packet(header)));
    }
}

/// Decodes a datagram with SCTP; and the same bytes as the chunks of a packet, so that a fuzzer
/// need not find the checksum, and as sealed content. Decoded chunks must survive encoding.
pub fn fuzz_sctp(data: &[u8]) {
    fuzz_compact(data);
    if let Ok(packet) = Packet::decode(Bytes::copy_from_slice(data), ChecksumRule::Crc32c) {
        for chunk in packet.chunks() {
            let _ = chunk;
        }
    }
    let datagram: Bytes = [&[0; PACKET_HEADER_LENGTH], data].concat().into();
    let Ok(packet) = Packet::decode(datagram, ChecksumRule::Zero) else {
        return;
    };
    for chunk in packet.chunks().map_while(Result::ok) {
        let mut writer = PacketWriter::new(0, 0, packet.tag, usize::from(u16::MAX));
        if writer.put(&chunk) {
            let again = Packet::decode(writer.finish(ChecksumRule::Zero), ChecksumRule::Zero);
            let again = again.map(|packet| packet.chunks().collect::<Vec<_>>());
            assert_eq!(again, Ok(vec![Ok(chunk)]));
        }
    }
}

fn fuzz_compact(data: &[u8]) {
    let names = CommonHeader {
        source_port: 1,
        destination_port: 2,
        tag: VerificationTag::new(3),
    };
    let read = |bytes| Packet::decode_sealed(bytes, Some(names));
    let Ok(packet) = read(Bytes::copy_from_slice(data)) else {
        return;
    };
    let known: Vec<_> = packet.chunks().map_while(Result::ok).collect();
    let mut writer = PacketWriter::compact(BytesMut::new(), usize::from(u16::MAX));
    // Nothing fits behind a chunk without length, and whole packets allow other chunks.
    let written: Vec<_> = known.into_iter().filter(|it| writer.put(it)).collect();
    if !written.is_empty() {
        let again = read(writer.finish(ChecksumRule::Zero));
        let again = again.map(|packet| packet.chunks().collect::<Vec<_>>());
        assert_eq!(again, Ok(written.into_iter().map(Ok).collect()));
    }
}

#[cfg(test)]
mod tests;
