use std::net::IpAddr;

use bytes::Bytes;

use super::{Tsn, UnknownAction};

/// A parameter of INIT, INIT ACK, ASCONF or ASCONF-ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parameter {
    /// An address of the sender.
    Address(IpAddr),
    /// State cookie: an association that does not exist yet.
    Cookie(Bytes),
    /// Parameters unknown to the receiver of an INIT, each whole.
    Unrecognized(Bytes),
    /// Requested extension of the cookie's lifetime, in milliseconds.
    CookiePreservative(u32),
    /// Address types that the sender supports, by the types of their parameters.
    SupportedAddressTypes(Vec<u16>),
    /// FORWARD-TSN is supported (RFC 3758).
    ForwardTsnSupported,
    /// Supported chunk types beyond RFC 9260's (RFC 5061 §4.2.7).
    SupportedExtensions(Vec<u8>),
    /// Alternate error detection method of the sender (RFC 9653).
    ZeroChecksumAcceptable(u32),
    /// A request to add an address (RFC 5061).
    AddAddress {
        /// Correlation number of the request.
        correlation: u32,
        /// The address; the unspecified one stands for the source of the packet.
        address: IpAddr,
    },
    /// A request to delete an address (RFC 5061).
    DeleteAddress {
        /// Correlation number of the request.
        correlation: u32,
        /// The address; the unspecified one stands for all except the source of the packet.
        address: IpAddr,
    },
    /// A request to set the primary address (RFC 5061).
    SetPrimary {
        /// Correlation number of the request.
        correlation: u32,
        /// The address.
        address: IpAddr,
    },
    /// A request of an ASCONF was accepted.
    Success {
        /// Correlation number of the request.
        correlation: u32,
    },
    /// A request of an ASCONF was refused.
    Refused {
        /// Correlation number of the request.
        correlation: u32,
        /// Reasons.
        causes: Vec<Cause>,
    },
    /// A parameter of an unknown type.
    Unknown {
        /// Its type.
        kind: u16,
        /// Action that its type asks for.
        action: UnknownAction,
        /// The whole parameter with its header, to be reported.
        parameter: Bytes,
    },
}

/// Error cause of ERROR, ABORT or ASCONF-ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// 1: a nonexistent stream.
    InvalidStream(u16),
    /// 2: mandatory parameters are missing; their types.
    MissingParameters(Vec<u16>),
    /// 3: the cookie is stale, by this many microseconds.
    StaleCookie(u32),
    /// 4: out of resources.
    OutOfResource,
    /// 5: an unresolvable address; the whole parameter.
    UnresolvableAddress(Bytes),
    /// 6: a chunk of an unknown type, whole.
    UnrecognizedChunk(Bytes),
    /// 7: an invalid mandatory parameter.
    InvalidParameter,
    /// 8: parameters of unknown types, whole.
    UnrecognizedParameters(Bytes),
    /// 9: a DATA chunk without payload.
    NoUserData(Tsn),
    /// 10: a cookie arrived during a shutdown.
    CookieWhileShuttingDown,
    /// 11: a restart with new addresses; their parameters.
    RestartWithNewAddresses(Bytes),
    /// 12: abort by the application, with its reason.
    UserAbort(Bytes),
    /// 13: protocol violation, with a text.
    ProtocolViolation(Bytes),
    /// Any other code with its value (RFC 5061's among them).
    Other {
        /// The code.
        code: u16,
        /// Value after the code.
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
