//! Decoding of chunks, parameters and causes.

use std::net::IpAddr;

use bytes::{Buf, Bytes};

use super::element::{ELEMENT_HEADER, Element, Reader};
use super::parameter::{cause_code, parameter_kind};
use super::{
    Cause, Chunk, ChunkKind, Data, DataOrder, ForwardTsn, GapBlock, Init, Parameter, Sack,
    SkippedStream, StreamNumber, Tsn, UnknownAction, VerificationTag, flag,
};
use crate::{Malformed, MalformedReason};

/// Reads a chunk.
pub(super) fn chunk(element: Element) -> Result<Chunk, Malformed> {
    let [kind, flags] = element.head;
    let reflected = flags & flag::REFLECTED != 0;
    let value = || element.value();
    Ok(match ChunkKind::of_number(kind) {
        Some(ChunkKind::Data) => Chunk::Data(data(element.whole, flags)?),
        Some(ChunkKind::IData) => Chunk::Data(interleaved_data(element.whole, flags)?),
        Some(ChunkKind::Sack) => Chunk::Sack(sack(value())?),
        Some(ChunkKind::Init) => Chunk::Init(init("INIT", value())?),
        Some(ChunkKind::InitAck) => Chunk::InitAck(init("INIT ACK", value())?),
        Some(ChunkKind::Heartbeat) => Chunk::Heartbeat(heartbeat("HEARTBEAT", value())?),
        Some(ChunkKind::HeartbeatAck) => Chunk::HeartbeatAck(heartbeat("HEARTBEAT ACK", value())?),
        Some(ChunkKind::Abort) => Chunk::Abort {
            reflected,
            causes: causes(value())?,
        },
        Some(ChunkKind::Shutdown) => {
            let mut reader = Reader::new("SHUTDOWN", value());
            let cumulative = Tsn::new(reader.take_u32()?);
            reader.end()?;
            Chunk::Shutdown(cumulative)
        }
        Some(ChunkKind::ShutdownAck) => Chunk::ShutdownAck,
        Some(ChunkKind::ShutdownComplete) => Chunk::ShutdownComplete { reflected },
        Some(ChunkKind::Error) => Chunk::Error(causes(value())?),
        Some(ChunkKind::CookieEcho) => Chunk::CookieEcho(value()),
        Some(ChunkKind::CookieAck) => Chunk::CookieAck,
        Some(ChunkKind::ForwardTsn) => Chunk::ForwardTsn(forward_tsn(value())?),
        Some(ChunkKind::IForwardTsn) => Chunk::ForwardTsn(interleaved_forward_tsn(value())?),
        Some(ChunkKind::Asconf) => {
            let (serial, parameters) = asconf("ASCONF", value())?;
            Chunk::Asconf { serial, parameters }
        }
        Some(ChunkKind::AsconfAck) => {
            let (serial, parameters) = asconf("ASCONF-ACK", value())?;
            Chunk::AsconfAck { serial, parameters }
        }
        // The length has 16 bits with the header.
        Some(ChunkKind::Pad) => Chunk::Pad(value().len() as u16),
        None => Chunk::Unknown {
            kind,
            action: UnknownAction::of(kind >> 6),
            chunk: element.whole,
        },
    })
}

fn data(mut chunk: Bytes, flags: u8) -> Result<Data, Malformed> {
    let Some(&[_, _, _, _, t0, t1, t2, t3, s0, s1, n0, n1, p0, p1, p2, p3]) = chunk.first_chunk()
    else {
        return Err(Malformed::truncated("DATA"));
    };
    chunk.advance(DATA_HEADER);
    Ok(Data {
        tsn: Tsn::new(u32::from_be_bytes([t0, t1, t2, t3])),
        stream: StreamNumber::new(u16::from_be_bytes([s0, s1])),
        order: DataOrder::Sequence(u16::from_be_bytes([n0, n1])),
        unordered: flags & flag::UNORDERED != 0,
        first: flags & flag::FIRST != 0,
        last: flags & flag::LAST != 0,
        immediate: flags & flag::IMMEDIATE != 0,
        protocol: u32::from_be_bytes([p0, p1, p2, p3]),
        payload: chunk,
    })
}

fn interleaved_data(mut chunk: Bytes, flags: u8) -> Result<Data, Malformed> {
    let Some(&header) = chunk.first_chunk::<I_DATA_HEADER>() else {
        return Err(Malformed::truncated("I-DATA"));
    };
    let [_, _, _, _, t0, t1, t2, t3, s0, s1, _, _, rest @ ..] = header;
    let [m0, m1, m2, m3, x0, x1, x2, x3] = rest;
    // One field holds the payload protocol identifier of a first part, or the fragment number of
    // any other.
    let shared = u32::from_be_bytes([x0, x1, x2, x3]);
    let first = flags & flag::FIRST != 0;
    let (protocol, fragment) = if first { (shared, 0) } else { (0, shared) };
    chunk.advance(I_DATA_HEADER);
    Ok(Data {
        tsn: Tsn::new(u32::from_be_bytes([t0, t1, t2, t3])),
        stream: StreamNumber::new(u16::from_be_bytes([s0, s1])),
        order: DataOrder::Interleaved {
            message: u32::from_be_bytes([m0, m1, m2, m3]),
            fragment,
        },
        unordered: flags & flag::UNORDERED != 0,
        first,
        last: flags & flag::LAST != 0,
        immediate: flags & flag::IMMEDIATE != 0,
        protocol,
        payload: chunk,
    })
}

fn sack(value: Bytes) -> Result<Sack, Malformed> {
    let mut reader = Reader::new("SACK", value);
    let cumulative = Tsn::new(reader.take_u32()?);
    let window = reader.take_u32()?;
    let gaps = usize::from(reader.take_u16()?);
    let duplicates = usize::from(reader.take_u16()?);
    // Check before memory is allocated for the stated counts.
    if reader.remaining() < 4 * (gaps + duplicates) {
        return Err(reader.error(MalformedReason::Truncated));
    }
    let mut sack = Sack {
        cumulative,
        window,
        gaps: Vec::with_capacity(gaps),
        duplicates: Vec::with_capacity(duplicates),
    };
    // The TSN after the cumulative one is missing.
    let mut before = 1;
    for _ in 0..gaps {
        let (first, last) = (reader.take_u16()?, reader.take_u16()?);
        if first <= before || last < first {
            return Err(reader.error(MalformedReason::BadValue));
        }
        before = last;
        sack.gaps.push(GapBlock { first, last });
    }
    for _ in 0..duplicates {
        sack.duplicates.push(Tsn::new(reader.take_u32()?));
    }
    reader.end()?;
    Ok(sack)
}

fn init(what: &'static str, value: Bytes) -> Result<Init, Malformed> {
    let mut reader = Reader::new(what, value);
    Ok(Init {
        tag: VerificationTag::new(reader.take_u32()?),
        window: reader.take_u32()?,
        outbound_streams: reader.take_u16()?,
        inbound_streams: reader.take_u16()?,
        initial_tsn: Tsn::new(reader.take_u32()?),
        parameters: parameters(reader.rest())?,
    })
}

fn heartbeat(what: &'static str, mut value: Bytes) -> Result<Bytes, Malformed> {
    let information = Element::take(&mut value, what)?.ok_or(Malformed::truncated(what))?;
    if information.kind() != parameter_kind::HEARTBEAT_INFORMATION {
        return Err(Malformed::new(what, MalformedReason::BadValue));
    }
    Ok(information.value())
}

fn forward_tsn(value: Bytes) -> Result<ForwardTsn, Malformed> {
    let mut reader = Reader::new("FORWARD-TSN", value);
    let cumulative = Tsn::new(reader.take_u32()?);
    let mut skipped = Vec::with_capacity(reader.remaining() / 4);
    while !reader.is_empty() {
        skipped.push(SkippedStream {
            stream: StreamNumber::new(reader.take_u16()?),
            unordered: false,
            last: reader.take_u16()?.into(),
        });
    }
    Ok(ForwardTsn {
        cumulative,
        interleaved: false,
        skipped,
    })
}

fn interleaved_forward_tsn(value: Bytes) -> Result<ForwardTsn, Malformed> {
    let mut reader = Reader::new("I-FORWARD-TSN", value);
    let cumulative = Tsn::new(reader.take_u32()?);
    let mut skipped = Vec::with_capacity(reader.remaining() / 8);
    while !reader.is_empty() {
        skipped.push(SkippedStream {
            stream: StreamNumber::new(reader.take_u16()?),
            unordered: reader.take_u16()? & flag::SKIPPED_UNORDERED != 0,
            last: reader.take_u32()?,
        });
    }
    Ok(ForwardTsn {
        cumulative,
        interleaved: true,
        skipped,
    })
}

fn asconf(what: &'static str, value: Bytes) -> Result<(u32, Vec<Parameter>), Malformed> {
    let mut reader = Reader::new(what, value);
    Ok((reader.take_u32()?, parameters(reader.rest())?))
}

fn parameters(mut rest: Bytes) -> Result<Vec<Parameter>, Malformed> {
    let mut list = Vec::new();
    while let Some(element) = Element::take(&mut rest, "SCTP parameter")? {
        if list.len() == MAX_ELEMENTS {
            return Err(Malformed::new("SCTP parameters", MalformedReason::TooLarge));
        }
        list.push(one_parameter(element)?);
    }
    Ok(list)
}

fn one_parameter(element: Element) -> Result<Parameter, Malformed> {
    let kind = element.kind();
    let mut reader = Reader::new("SCTP parameter", element.value());
    Ok(match kind {
        parameter_kind::IPV4 | parameter_kind::IPV6 => Parameter::Address(address(&element)?),
        parameter_kind::COOKIE => Parameter::Cookie(reader.rest()),
        parameter_kind::UNRECOGNIZED => Parameter::Unrecognized(reader.rest()),
        parameter_kind::COOKIE_PRESERVATIVE => {
            let more = reader.take_u32()?;
            reader.end()?;
            Parameter::CookiePreservative(more)
        }
        parameter_kind::SUPPORTED_ADDRESS_TYPES => Parameter::SupportedAddressTypes(types(reader)?),
        parameter_kind::FORWARD_TSN_SUPPORTED => Parameter::ForwardTsnSupported,
        parameter_kind::SUPPORTED_EXTENSIONS => {
            Parameter::SupportedExtensions(reader.rest().into())
        }
        parameter_kind::ZERO_CHECKSUM => {
            let method = reader.take_u32()?;
            reader.end()?;
            Parameter::ZeroChecksumAcceptable(method)
        }
        parameter_kind::ADD_ADDRESS => Parameter::AddAddress {
            correlation: reader.take_u32()?,
            address: only_address(reader.rest())?,
        },
        parameter_kind::DELETE_ADDRESS => Parameter::DeleteAddress {
            correlation: reader.take_u32()?,
            address: only_address(reader.rest())?,
        },
        parameter_kind::SET_PRIMARY => Parameter::SetPrimary {
            correlation: reader.take_u32()?,
            address: only_address(reader.rest())?,
        },
        parameter_kind::SUCCESS => {
            let correlation = reader.take_u32()?;
            reader.end()?;
            Parameter::Success { correlation }
        }
        parameter_kind::REFUSED => Parameter::Refused {
            correlation: reader.take_u32()?,
            causes: causes(reader.rest())?,
        },
        kind => Parameter::Unknown {
            kind,
            action: UnknownAction::of((kind >> 14) as u8),
            parameter: element.whole,
        },
    })
}

fn only_address(mut rest: Bytes) -> Result<IpAddr, Malformed> {
    let element = Element::take(&mut rest, "SCTP address")?;
    address(&element.ok_or(Malformed::truncated("SCTP address"))?)
}

fn address(element: &Element) -> Result<IpAddr, Malformed> {
    let value = &element.whole[ELEMENT_HEADER..];
    let address = match element.kind() {
        parameter_kind::IPV4 => value.try_into().ok().map(<[u8; 4]>::into),
        parameter_kind::IPV6 => value.try_into().ok().map(<[u8; 16]>::into),
        _ => None,
    };
    address.ok_or(Malformed::new("SCTP address", MalformedReason::BadValue))
}

fn types(mut reader: Reader) -> Result<Vec<u16>, Malformed> {
    let mut types = Vec::with_capacity(reader.remaining() / 2);
    while !reader.is_empty() {
        types.push(reader.take_u16()?);
    }
    Ok(types)
}

fn causes(mut rest: Bytes) -> Result<Vec<Cause>, Malformed> {
    let mut list = Vec::new();
    while let Some(element) = Element::take(&mut rest, "SCTP error cause")? {
        if list.len() == MAX_ELEMENTS {
            return Err(Malformed::new("SCTP causes", MalformedReason::TooLarge));
        }
        list.push(one_cause(element)?);
    }
    Ok(list)
}

fn one_cause(element: Element) -> Result<Cause, Malformed> {
    let mut reader = Reader::new("SCTP error cause", element.value());
    Ok(match element.kind() {
        cause_code::INVALID_STREAM => Cause::InvalidStream(reader.take_u16()?),
        cause_code::MISSING_PARAMETERS => {
            let count = reader.take_u32()?;
            if u64::from(count) * 2 > reader.remaining() as u64 {
                return Err(reader.error(MalformedReason::Truncated));
            }
            Cause::MissingParameters(types(reader)?)
        }
        cause_code::STALE_COOKIE => Cause::StaleCookie(reader.take_u32()?),
        cause_code::OUT_OF_RESOURCE => Cause::OutOfResource,
        cause_code::UNRESOLVABLE_ADDRESS => Cause::UnresolvableAddress(reader.rest()),
        cause_code::UNRECOGNIZED_CHUNK => Cause::UnrecognizedChunk(reader.rest()),
        cause_code::INVALID_PARAMETER => Cause::InvalidParameter,
        cause_code::UNRECOGNIZED_PARAMETERS => Cause::UnrecognizedParameters(reader.rest()),
        cause_code::NO_USER_DATA => Cause::NoUserData(Tsn::new(reader.take_u32()?)),
        cause_code::COOKIE_WHILE_SHUTTING_DOWN => Cause::CookieWhileShuttingDown,
        cause_code::RESTART_WITH_NEW_ADDRESSES => Cause::RestartWithNewAddresses(reader.rest()),
        cause_code::USER_ABORT => Cause::UserAbort(reader.rest()),
        cause_code::PROTOCOL_VIOLATION => Cause::ProtocolViolation(reader.rest()),
        code => Cause::Other {
            code,
            value: reader.rest(),
        },
    })
}

/// Length of the DATA header, with the chunk header.
pub(super) const DATA_HEADER: usize = 16;
pub(super) const I_DATA_HEADER: usize = 20;

/// Maximum number of parameters or causes, so that small ones do not take many times the memory of
/// their packet.
const MAX_ELEMENTS: usize = 256;
