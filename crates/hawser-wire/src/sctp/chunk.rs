use bytes::Bytes;

use super::{Cause, Parameter, StreamNumber, Tsn, UnknownAction, VerificationTag};

/// One chunk of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chunk {
    /// DATA, or I-DATA where [`Data::order`] says so.
    Data(Data),
    /// INIT, alone in its packet.
    Init(Init),
    /// INIT ACK, alone in its packet.
    InitAck(Init),
    /// SACK.
    Sack(Sack),
    /// HEARTBEAT: the value of its parameter, which the peer returns unchanged.
    Heartbeat(Bytes),
    /// HEARTBEAT ACK: the value of the HEARTBEAT's parameter.
    HeartbeatAck(Bytes),
    /// ABORT.
    Abort {
        /// The packet has the sender's own tag, since it does not know the receiver's (T bit).
        reflected: bool,
        /// Reasons, if given.
        causes: Vec<Cause>,
    },
    /// SHUTDOWN, which also acknowledges.
    Shutdown(Tsn),
    /// SHUTDOWN ACK.
    ShutdownAck,
    /// SHUTDOWN COMPLETE.
    ShutdownComplete {
        /// As in [`Chunk::Abort`].
        reflected: bool,
    },
    /// ERROR.
    Error(Vec<Cause>),
    /// COOKIE ECHO: the cookie, as the INIT ACK brought it.
    CookieEcho(Bytes),
    /// COOKIE ACK.
    CookieAck,
    /// FORWARD-TSN, or I-FORWARD-TSN.
    ForwardTsn(ForwardTsn),
    /// ASCONF.
    Asconf {
        /// Serial number of the chunk.
        serial: u32,
        /// The first is an address by which the receiver finds the association; the others add,
        /// delete or set primary, each with its correlation number.
        parameters: Vec<Parameter>,
    },
    /// ASCONF-ACK.
    AsconfAck {
        /// Serial number of the ASCONF.
        serial: u32,
        /// The answers.
        parameters: Vec<Parameter>,
    },
    /// PAD with this many bytes of value; it has no meaning.
    Pad(u16),
    /// A chunk of an unknown type.
    Unknown {
        /// Its type.
        kind: u8,
        /// Action that its type asks for.
        action: UnknownAction,
        /// The whole chunk with its header, to be reported.
        chunk: Bytes,
    },
}

/// DATA or I-DATA: a whole message or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Transmission sequence number in this direction.
    pub tsn: Tsn,
    /// The stream that the message belongs to.
    pub stream: StreamNumber,
    /// Position of the message in the stream, and of the part in the message.
    pub order: DataOrder,
    /// The message is delivered as soon as it is complete (the U bit).
    pub unordered: bool,
    /// The message begins here (the B bit).
    pub first: bool,
    /// The message ends here (the E bit).
    pub last: bool,
    /// The sender asks for a SACK at once (the I bit).
    pub immediate: bool,
    /// Payload protocol identifier; with I-DATA on the first part only, else 0.
    pub protocol: u32,
    /// At least one byte. An empty chunk is decoded too, since the ABORT that answers it names its
    /// TSN.
    pub payload: Bytes,
}

/// Position of a part, in DATA or I-DATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataOrder {
    /// DATA: the stream sequence number; the parts of a message have consecutive TSNs.
    Sequence(u16),
    /// I-DATA (RFC 8260): parts of several messages may be interleaved.
    Interleaved {
        /// The message's number among the ordered, or among the unordered ones of its stream.
        message: u32,
        /// The part's number in the message.
        fragment: u32,
    },
}

/// INIT or INIT ACK. Forbidden zeros are decoded too, since some of these chunks have to be
/// answered by an ABORT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// Verification tag of packets to the sender of this chunk; never 0.
    pub tag: VerificationTag,
    /// The sender's window, in bytes.
    pub window: u32,
    /// Number of outbound streams that it asks for; never 0.
    pub outbound_streams: u16,
    /// Maximum number of inbound streams; never 0.
    pub inbound_streams: u16,
    /// TSN of its first DATA chunk.
    pub initial_tsn: Tsn,
    /// Addresses, cookie and supported features.
    pub parameters: Vec<Parameter>,
}

/// Selective acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Sack {
    /// Cumulative TSN: everything up to it has arrived.
    pub cumulative: Tsn,
    /// Advertised receive window, in bytes.
    pub window: u32,
    /// Runs that have arrived beyond it, in ascending order.
    pub gaps: Vec<GapBlock>,
    /// TSNs received more than once since the last SACK.
    pub duplicates: Vec<Tsn>,
}

/// A run of chunks received after a gap, as distances from the cumulative TSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapBlock {
    /// The first, at least 2, since the TSN after the cumulative one is missing.
    pub first: u16,
    /// The last, not before the first.
    pub last: u16,
}

/// FORWARD-TSN or I-FORWARD-TSN: what the sender has abandoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardTsn {
    /// New cumulative TSN: the receiver acts as if everything up to it had arrived.
    pub cumulative: Tsn,
    /// It is an I-FORWARD-TSN, which goes with I-DATA.
    pub interleaved: bool,
    /// The streams with abandoned messages.
    pub skipped: Vec<SkippedStream>,
}

/// The last abandoned message of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedStream {
    /// The stream.
    pub stream: StreamNumber,
    /// The message is unordered; with I-FORWARD-TSN only.
    pub unordered: bool,
    /// Number of the message in the stream; 16 bits with DATA.
    pub last: u32,
}
