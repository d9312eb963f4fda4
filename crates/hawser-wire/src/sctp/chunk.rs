use bytes::Bytes;

use super::{Cause, Parameter, StreamNumber, Tsn, VerificationTag};

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
    /// HEARTBEAT; the value of its one parameter, which comes back as it is.
    Heartbeat(Bytes),
    /// HEARTBEAT ACK, likewise.
    HeartbeatAck(Bytes),
    /// ABORT.
    Abort {
        /// The packet has the sender's own tag, since it does not know the receiver's.
        reflected: bool,
        /// Why, if it was said.
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
    /// ASCONF: its serial number, the sender's address by which the receiver finds the association,
    /// and what is asked for, each with its correlation number.
    Asconf {
        /// Counts the sender's ASCONF chunks.
        serial: u32,
        /// What is asked for: the first one an address, the others add, delete or set primary.
        parameters: Vec<Parameter>,
    },
    /// ASCONF-ACK.
    AsconfAck {
        /// That of the ASCONF.
        serial: u32,
        /// What was answered.
        parameters: Vec<Parameter>,
    },
    /// PAD, of this many bytes of value; it has no meaning.
    Pad(u16),
    /// A chunk of a type that is not known here.
    Unknown {
        /// Its type.
        kind: u8,
        /// What has to be done about it.
        action: UnknownAction,
        /// The whole chunk with its header, to be reported.
        chunk: Bytes,
    },
}

/// What the highest two bits of an unknown type ask for. Source: RFC 9260 §3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownAction {
    /// What follows it is not read either.
    Stop,
    /// Likewise, and it is reported.
    StopAndReport,
    /// It alone is passed over.
    Skip,
    /// Likewise, and it is reported.
    SkipAndReport,
}

/// A whole message or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its number among all of this direction.
    pub tsn: Tsn,
    /// The stream that the message belongs to.
    pub stream: StreamNumber,
    /// Where in the stream the message belongs, and the part in the message.
    pub order: DataOrder,
    /// The message is delivered as soon as it is whole (the U bit).
    pub unordered: bool,
    /// The message begins here (the B bit).
    pub first: bool,
    /// The message ends here (the E bit).
    pub last: bool,
    /// The sender asks for a SACK at once (the I bit).
    pub immediate: bool,
    /// What the application says that the payload is; with I-DATA on the first part only, else 0.
    pub protocol: u32,
    /// At least one byte; a chunk without any is read all the same, since the ABORT that answers it
    /// names its number.
    pub payload: Bytes,
}

/// How a part says where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataOrder {
    /// DATA: the message's number in its stream; the parts of a message have consecutive TSNs.
    Sequence(u16),
    /// I-DATA (RFC 8260): parts of several messages may come in turns.
    Interleaved {
        /// The message's number among the ordered, or among the unordered ones of its stream.
        message: u32,
        /// The part's number in the message.
        fragment: u32,
    },
}

/// INIT or INIT ACK. Numbers that must not be 0 are read all the same, since some of these chunks
/// have to be answered by an ABORT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// What packets to the sender of this chunk have to carry; never 0.
    pub tag: VerificationTag,
    /// The sender's window, in bytes.
    pub window: u32,
    /// How many streams it wants to send on; never 0.
    pub outbound_streams: u16,
    /// The most it accepts; never 0.
    pub inbound_streams: u16,
    /// The number of its first DATA chunk.
    pub initial_tsn: Tsn,
    /// Addresses, cookie, what it supports.
    pub parameters: Vec<Parameter>,
}

/// What has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Sack {
    /// Everything up to this one has arrived.
    pub cumulative: Tsn,
    /// The window that is left, in bytes.
    pub window: u32,
    /// What has arrived beyond, in ascending order.
    pub gaps: Vec<GapBlock>,
    /// What has arrived more than once since the last SACK.
    pub duplicates: Vec<Tsn>,
}

/// A run of chunks that have arrived behind a hole, as distances from the cumulative TSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapBlock {
    /// The first, at least 2: what follows the cumulative TSN itself is missing.
    pub first: u16,
    /// The last, not before the first.
    pub last: u16,
}

/// What the sender has given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardTsn {
    /// The receiver acts as if everything up to this one had arrived.
    pub cumulative: Tsn,
    /// It is an I-FORWARD-TSN, which goes with I-DATA.
    pub interleaved: bool,
    /// The streams on which messages were given up.
    pub skipped: Vec<SkippedStream>,
}

/// Up to which message a stream is to move on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedStream {
    /// The stream.
    pub stream: StreamNumber,
    /// Of unordered messages; with I-FORWARD-TSN only.
    pub unordered: bool,
    /// The last message given up, by its number in the stream; that of DATA has 16 bits.
    pub last: u32,
}
