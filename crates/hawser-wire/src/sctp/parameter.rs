use std::net::IpAddr;

use bytes::Bytes;

use super::{Tsn, UnknownAction};

/// A parameter of INIT, INIT ACK, ASCONF or ASCONF-ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parameter {
    /// An address of the sender.
    Address(IpAddr),
    /// The state of an association that does not exist yet.
    Cookie(Bytes),
    /// Parameters that the receiver of an INIT did not know, each whole.
    Unrecognized(Bytes),
    /// The sender would like its cookie to live longer, by this many milliseconds.
    CookiePreservative(u32),
    /// Kinds of addresses that the sender can use, by the types of their parameters.
    SupportedAddressTypes(Vec<u16>),
    /// FORWARD-TSN is understood (RFC 3758).
    ForwardTsnSupported,
    /// Chunk types beyond RFC 9260's that are understood (RFC 5061 §4.2.7).
    SupportedExtensions(Vec<u8>),
    /// What the sender wants in place of checksums: the error detection method (RFC 9653).
    ZeroChecksumAcceptable(u32),
    /// A request to add an address (RFC 5061).
    AddAddress {
        /// Names the request.
        correlation: u32,
        /// The address; the unspecified one stands for where the packet came from.
        address: IpAddr,
    },
    /// A request to delete one.
    DeleteAddress {
        /// Names the request.
        correlation: u32,
        /// The address; the unspecified one stands for all but where the packet came from.
        address: IpAddr,
    },
    /// A request to send to this one first.
    SetPrimary {
        /// Names the request.
        correlation: u32,
        /// The address.
        address: IpAddr,
    },
    /// An ASCONF's request was followed.
    Success {
        /// The request's.
        correlation: u32,
    },
    /// An ASCONF's request was refused.
    Refused {
        /// The request's.
        correlation: u32,
        /// Why.
        causes: Vec<Cause>,
    },
    /// A parameter of a type that is not known here.
    Unknown {
        /// Its type.
        kind: u16,
        /// What has to be done about it.
        action: UnknownAction,
        /// The whole parameter with its header, to be reported.
        parameter: Bytes,
    },
}

/// Why something was refused or ended: an error cause of ERROR, ABORT or ASCONF-ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// 1: a stream that does not exist.
    InvalidStream(u16),
    /// 2: parameters that must be there are not; their types.
    MissingParameters(Vec<u16>),
    /// 3: the cookie is too old, by this many microseconds.
    StaleCookie(u32),
    /// 4: no memory or no place.
    OutOfResource,
    /// 5: an address that can't be resolved; the parameter whole.
    UnresolvableAddress(Bytes),
    /// 6: a chunk of an unknown type, whole.
    UnrecognizedChunk(Bytes),
    /// 7: a parameter that must not have that value.
    InvalidParameter,
    /// 8: parameters of unknown types, whole.
    UnrecognizedParameters(Bytes),
    /// 9: a DATA chunk without payload.
    NoUserData(Tsn),
    /// 10: a cookie came while a SHUTDOWN was under way.
    CookieWhileShuttingDown,
    /// 11: an INIT with new addresses for an association that exists; the addresses' parameters.
    RestartWithNewAddresses(Bytes),
    /// 12: the application ended it, and may say why.
    UserAbort(Bytes),
    /// 13: the peer did what the protocol forbids; more, for people.
    ProtocolViolation(Bytes),
    /// Any other code with its value (RFC 5061's among them).
    Other {
        /// The code.
        code: u16,
        /// What follows it.
        value: Bytes,
    },
}

/// Types of parameters.
pub(super) mod parameter_kind {
    pub(in super::super) const HEARTBEAT_INFORMATION: u16 = 1;
    pub(in super::super) const IPV4: u16 = 5;
    pub(in super::super) const IPV6: u16 = 6;
    pub(in super::super) const COOKIE: u16 = 7;
    pub(in super::super) const UNRECOGNIZED: u16 = 8;
    pub(in super::super) const COOKIE_PRESERVATIVE: u16 = 9;
    pub(in super::super) const SUPPORTED_ADDRESS_TYPES: u16 = 12;
    pub(in super::super) const ZERO_CHECKSUM: u16 = 0x8001;
    pub(in super::super) const SUPPORTED_EXTENSIONS: u16 = 0x8008;
    pub(in super::super) const FORWARD_TSN_SUPPORTED: u16 = 0xc000;
    pub(in super::super) const ADD_ADDRESS: u16 = 0xc001;
    pub(in super::super) const DELETE_ADDRESS: u16 = 0xc002;
    pub(in super::super) const REFUSED: u16 = 0xc003;
    pub(in super::super) const SET_PRIMARY: u16 = 0xc004;
    pub(in super::super) const SUCCESS: u16 = 0xc005;
}

/// Codes of causes.
pub(super) mod cause_code {
    pub(in super::super) const INVALID_STREAM: u16 = 1;
    pub(in super::super) const MISSING_PARAMETERS: u16 = 2;
    pub(in super::super) const STALE_COOKIE: u16 = 3;
    pub(in super::super) const OUT_OF_RESOURCE: u16 = 4;
    pub(in super::super) const UNRESOLVABLE_ADDRESS: u16 = 5;
    pub(in super::super) const UNRECOGNIZED_CHUNK: u16 = 6;
    pub(in super::super) const INVALID_PARAMETER: u16 = 7;
    pub(in super::super) const UNRECOGNIZED_PARAMETERS: u16 = 8;
    pub(in super::super) const NO_USER_DATA: u16 = 9;
    pub(in super::super) const COOKIE_WHILE_SHUTTING_DOWN: u16 = 10;
    pub(in super::super) const RESTART_WITH_NEW_ADDRESSES: u16 = 11;
    pub(in super::super) const USER_ABORT: u16 = 12;
    pub(in super::super) const PROTOCOL_VIOLATION: u16 = 13;
}
