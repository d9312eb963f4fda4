//! Encoding of chunks, parameters and causes.

use std::net::IpAddr;

use bytes::{BufMut, BytesMut};

use super::element::{pad, put_element};
use super::parameter::{cause_code, parameter_kind};
use super::{Cause, Chunk, ChunkKind, Data, DataOrder, ForwardTsn, Init, Parameter, Sack, flag};

/// Writes a chunk without its padding.
pub(super) fn put_chunk(out: &mut BytesMut, chunk: &Chunk) {
    match chunk {
        Chunk::Data(data) => put_data(out, &[], data),
        Chunk::Init(init) => put_init(out, ChunkKind::Init, init),
        Chunk::InitAck(init) => put_init(out, ChunkKind::InitAck, init),
        Chunk::Sack(sack) => put_sack(out, sack),
        Chunk::Heartbeat(value) => put_heartbeat(out, ChunkKind::Heartbeat, value),
        Chunk::HeartbeatAck(value) => put_heartbeat(out, ChunkKind::HeartbeatAck, value),
        Chunk::Abort { reflected, causes } => {
            let head = ChunkKind::Abort.with_flags(reflected_flag(*reflected));
            put_element(out, head, |out| put_causes(out, causes));
        }
        Chunk::Shutdown(cumulative) => {
            let value = cumulative.value().to_be_bytes();
            put_element(out, ChunkKind::Shutdown.with_flags(0), |out| {
                out.put_slice(&value);
            });
        }
        Chunk::ShutdownAck => put_element(out, ChunkKind::ShutdownAck.with_flags(0), |_| ()),
        Chunk::ShutdownComplete { reflected } => {
            let head = ChunkKind::ShutdownComplete.with_flags(reflected_flag(*reflected));
            put_element(out, head, |_| ());
        }
        Chunk::Error(causes) => put_element(out, ChunkKind::Error.with_flags(0), |out| {
            put_causes(out, causes);
        }),
        Chunk::CookieEcho(cookie) => {
            put_element(out, ChunkKind::CookieEcho.with_flags(0), |out| {
                out.put_slice(cookie);
            });
        }
        Chunk::CookieAck => put_element(out, ChunkKind::CookieAck.with_flags(0), |_| ()),
        Chunk::ForwardTsn(forward) => put_forward_tsn(out, forward),
        Chunk::Asconf { serial, parameters } => {
            put_asconf(out, ChunkKind::Asconf, *serial, parameters);
        }
        Chunk::AsconfAck { serial, parameters } => {
            put_asconf(out, ChunkKind::AsconfAck, *serial, parameters);
        }
        Chunk::Pad(length) => {
            put_element(out, ChunkKind::Pad.with_flags(0), |out| {
                out.put_bytes(0, (*length).into());
            });
        }
        Chunk::Unknown { chunk, .. } => out.put_slice(chunk),
    }
}

/// Writes DATA or I-DATA with `front` before its payload, without padding.
pub(super) fn put_data(out: &mut BytesMut, front: &[u8], data: &Data) {
    let flags = [
        (data.last, flag::LAST),
        (data.first, flag::FIRST),
        (data.unordered, flag::UNORDERED),
        (data.immediate, flag::IMMEDIATE),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set);
    let flags = flags.fold(0, |all, (_, flag)| all | flag);
    let kind = match data.order {
        DataOrder::Sequence(_) => ChunkKind::Data,
        DataOrder::Interleaved { .. } => ChunkKind::IData,
    };
    put_element(out, kind.with_flags(flags), |out| {
        out.put_u32(data.tsn.value());
        out.put_u16(data.stream.value());
        match data.order {
            DataOrder::Sequence(number) => {
                out.put_u16(number);
                out.put_u32(data.protocol);
            }
            DataOrder::Interleaved { message, fragment } => {
                out.put_u16(0);
                out.put_u32(message);
                out.put_u32(if data.first { data.protocol } else { fragment });
            }
        }
        out.put_slice(front);
        out.put_slice(&data.payload);
    });
}

fn put_init(out: &mut BytesMut, kind: ChunkKind, init: &Init) {
    put_element(out, kind.with_flags(0), |out| {
        out.put_u32(init.tag.value());
        out.put_u32(init.window);
        out.put_u16(init.outbound_streams);
        out.put_u16(init.inbound_streams);
        out.put_u32(init.initial_tsn.value());
        put_parameters(out, &init.parameters);
    });
}

fn put_sack(out: &mut BytesMut, sack: &Sack) {
    put_element(out, ChunkKind::Sack.with_flags(0), |out| {
        out.put_u32(sack.cumulative.value());
        out.put_u32(sack.window);
        // More gaps than the field can count do not fit into a packet; the writer checks that.
        out.put_u16(sack.gaps.len() as u16);
        out.put_u16(sack.duplicates.len() as u16);
        for gap in &sack.gaps {
            out.put_u16(gap.first);
            out.put_u16(gap.last);
        }
        for duplicate in &sack.duplicates {
            out.put_u32(duplicate.value());
        }
    });
}

fn put_heartbeat(out: &mut BytesMut, kind: ChunkKind, value: &[u8]) {
    put_element(out, kind.with_flags(0), |out| {
        let kind = parameter_kind::HEARTBEAT_INFORMATION.to_be_bytes();
        put_element(out, kind, |out| out.put_slice(value));
    });
}

fn put_forward_tsn(out: &mut BytesMut, forward: &ForwardTsn) {
    let kind = if forward.interleaved {
        ChunkKind::IForwardTsn
    } else {
        ChunkKind::ForwardTsn
    };
    put_element(out, kind.with_flags(0), |out| {
        out.put_u32(forward.cumulative.value());
        for skipped in &forward.skipped {
            out.put_u16(skipped.stream.value());
            if forward.interleaved {
                out.put_u16(u16::from(skipped.unordered) * flag::SKIPPED_UNORDERED);
                out.put_u32(skipped.last);
            } else {
                out.put_u16(skipped.last as u16);
            }
        }
    });
}

fn put_asconf(out: &mut BytesMut, kind: ChunkKind, serial: u32, parameters: &[Parameter]) {
    put_element(out, kind.with_flags(0), |out| {
        out.put_u32(serial);
        put_parameters(out, parameters);
    });
}

fn put_parameters(out: &mut BytesMut, parameters: &[Parameter]) {
    for parameter in parameters {
        if let Parameter::Unknown { parameter, .. } = parameter {
            pad(out);
            out.put_slice(parameter);
        } else {
            put_element(out, parameter.kind().to_be_bytes(), |out| {
                put_parameter_value(out, parameter);
            });
        }
    }
}

fn put_parameter_value(out: &mut BytesMut, parameter: &Parameter) {
    match parameter {
        Parameter::Address(IpAddr::V4(address)) => out.put_slice(&address.octets()),
        Parameter::Address(IpAddr::V6(address)) => out.put_slice(&address.octets()),
        Parameter::Cookie(value) | Parameter::Unrecognized(value) => out.put_slice(value),
        Parameter::SupportedAddressTypes(types) => {
            types.iter().for_each(|kind| out.put_u16(*kind));
        }
        Parameter::ForwardTsnSupported => (),
        Parameter::SupportedExtensions(chunks) => out.put_slice(chunks),
        Parameter::CookiePreservative(number)
        | Parameter::ZeroChecksumAcceptable(number)
        | Parameter::Success {
            correlation: number,
        } => out.put_u32(*number),
        Parameter::AddAddress {
            correlation,
            address,
        }
        | Parameter::DeleteAddress {
            correlation,
            address,
        }
        | Parameter::SetPrimary {
            correlation,
            address,
        } => {
            out.put_u32(*correlation);
            put_parameters(out, &[Parameter::Address(*address)]);
        }
        Parameter::Refused {
            correlation,
            causes,
        } => {
            out.put_u32(*correlation);
            put_causes(out, causes);
        }
        Parameter::Unknown { parameter, .. } => out.put_slice(parameter),
    }
}

fn put_causes(out: &mut BytesMut, causes: &[Cause]) {
    for cause in causes {
        put_element(out, cause.code().to_be_bytes(), |out| {
            put_cause_value(out, cause);
        });
    }
}

fn put_cause_value(out: &mut BytesMut, cause: &Cause) {
    match cause {
        Cause::InvalidStream(stream) => {
            out.put_u16(*stream);
            out.put_u16(0);
        }
        Cause::MissingParameters(types) => {
            out.put_u32(types.len() as u32);
            types.iter().for_each(|kind| out.put_u16(*kind));
        }
        Cause::StaleCookie(by) => out.put_u32(*by),
        Cause::NoUserData(tsn) => out.put_u32(tsn.value()),
        Cause::OutOfResource | Cause::InvalidParameter | Cause::CookieWhileShuttingDown => (),
        Cause::UnresolvableAddress(value)
        | Cause::UnrecognizedChunk(value)
        | Cause::UnrecognizedParameters(value)
        | Cause::RestartWithNewAddresses(value)
        | Cause::UserAbort(value)
        | Cause::ProtocolViolation(value)
        | Cause::Other { value, .. } => out.put_slice(value),
    }
}

impl Parameter {
    /// Returns the number of its type.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Address(IpAddr::V4(_)) => parameter_kind::IPV4,
            Self::Address(IpAddr::V6(_)) => parameter_kind::IPV6,
            Self::Cookie(_) => parameter_kind::COOKIE,
            Self::Unrecognized(_) => parameter_kind::UNRECOGNIZED,
            Self::CookiePreservative(_) => parameter_kind::COOKIE_PRESERVATIVE,
            Self::SupportedAddressTypes(_) => parameter_kind::SUPPORTED_ADDRESS_TYPES,
            Self::ForwardTsnSupported => parameter_kind::FORWARD_TSN_SUPPORTED,
            Self::SupportedExtensions(_) => parameter_kind::SUPPORTED_EXTENSIONS,
            Self::ZeroChecksumAcceptable(_) => parameter_kind::ZERO_CHECKSUM,
            Self::AddAddress { .. } => parameter_kind::ADD_ADDRESS,
            Self::DeleteAddress { .. } => parameter_kind::DELETE_ADDRESS,
            Self::SetPrimary { .. } => parameter_kind::SET_PRIMARY,
            Self::Success { .. } => parameter_kind::SUCCESS,
            Self::Refused { .. } => parameter_kind::REFUSED,
            Self::Unknown { kind, .. } => *kind,
        }
    }
}

impl Cause {
    /// Returns its code.
    pub fn code(&self) -> u16 {
        match self {
            Self::InvalidStream(_) => cause_code::INVALID_STREAM,
            Self::MissingParameters(_) => cause_code::MISSING_PARAMETERS,
            Self::StaleCookie(_) => cause_code::STALE_COOKIE,
            Self::OutOfResource => cause_code::OUT_OF_RESOURCE,
            Self::UnresolvableAddress(_) => cause_code::UNRESOLVABLE_ADDRESS,
            Self::UnrecognizedChunk(_) => cause_code::UNRECOGNIZED_CHUNK,
            Self::InvalidParameter => cause_code::INVALID_PARAMETER,
            Self::UnrecognizedParameters(_) => cause_code::UNRECOGNIZED_PARAMETERS,
            Self::NoUserData(_) => cause_code::NO_USER_DATA,
            Self::CookieWhileShuttingDown => cause_code::COOKIE_WHILE_SHUTTING_DOWN,
            Self::RestartWithNewAddresses(_) => cause_code::RESTART_WITH_NEW_ADDRESSES,
            Self::UserAbort(_) => cause_code::USER_ABORT,
            Self::ProtocolViolation(_) => cause_code::PROTOCOL_VIOLATION,
            Self::Other { code, .. } => *code,
        }
    }
}

fn reflected_flag(reflected: bool) -> u8 {
    u8::from(reflected) * flag::REFLECTED
}
