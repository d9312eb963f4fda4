use std::net::{IpAddr, SocketAddr};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hawser_types::{ChannelId, MIN_JOIN_PORT, StreamId};

use crate::association::{TransportChoice, take_link};
use crate::link_rules::{LinkRulesEntry, MAX_LINK_RULES, take_link_rules};
use crate::numbers::{CRITICAL, CommandKind};
use crate::varint::{take_length, take_varint_u32};
use crate::{Malformed, MalformedReason, put_varint, take_varint};

/// Maximum length of a command's value.
pub const MAX_COMMAND_VALUE: usize = 4096;

/// The longest text of a [`Command::CloseReason`], in bytes. A longer one is cut when it is sent.
pub const MAX_CLOSE_REASON: usize = 512;

/// A command on stream 0: delivered in order, exactly once, and repeated over another channel when
/// one fails, like data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// The first command of each side.
    Hello(Hello),
    /// The gateway allows the client to join channels.
    Grant(Grant),
    /// Both directions of a stream end at once; data not yet delivered is dropped.
    Reset {
        /// The stream.
        stream: StreamId,
        /// Error code of the application, 0 for none.
        code: u32,
    },
    /// The sender reads no more of a stream: the receiver ends its direction of it. Only to a peer
    /// that has said [`Hello::ends_halves`].
    Stop {
        /// The stream.
        stream: StreamId,
        /// The reason: the application's code, 0 when there is none.
        code: u32,
    },
    /// The sender's direction of a stream ends before its end; data not yet delivered is dropped.
    /// Only to a peer that has said [`Hello::ends_halves`].
    ResetSending {
        /// The stream.
        stream: StreamId,
        /// The reason: the application's code, 0 when there is none.
        code: u32,
    },
    /// The application's reason for the [`Command::Close`] that follows.
    CloseReason {
        /// The application's code.
        code: u32,
        /// A text for people, at most [`MAX_CLOSE_REASON`] bytes of UTF-8.
        text: String,
    },
    /// The sender has given this channel up; its records in flight are sent over others.
    ChannelClosed {
        /// The channel.
        channel: ChannelId,
    },
    /// The session ends gracefully; no stream is opened any more.
    Close {
        /// Code of the end; 0 for a normal one.
        code: u32,
    },
    /// A client with an invite shows the key that it will use from now on.
    Enrol(Enrolment),
    /// The gateway has stored the client's key.
    Enrolled,
    /// Rules of the client's user for what the gateway sends on each link. They replace all earlier
    /// ones. At most [`MAX_LINK_RULES`](crate::MAX_LINK_RULES); a link that is not listed has no
    /// restrictions.
    LinkRules(Vec<LinkRulesEntry>),
    /// The client's user wants bulk chunks of the gateway to be placed by this policy. Only to a
    /// gateway that has said [`Hello::follows_scheduler`].
    Scheduler {
        /// The policy's number, 0 for the gateway's own. One that the gateway does not know is
        /// ignored.
        policy: u32,
    },
    /// The gateway accepts associations at this UDP port of its addresses.
    DatagramPort {
        /// The port, not 0.
        port: u16,
    },
    /// The client takes connections of the gateway's at this TCP port of the addresses that its own
    /// connections come from. The first such command counts.
    AcceptsJoins {
        /// The port, at least [`MIN_JOIN_PORT`].
        port: u16,
    },
    /// The client begins an association, or changes its transport choice.
    Associate {
        /// Channel number from a grant; that of the current association if only the choice changes.
        channel: ChannelId,
        /// Transport choice for the gateway's chunks.
        transport: TransportChoice,
    },
    /// The gateway asks the client to begin another session, by connecting anew, and to open
    /// streams there from now on. Streams that are open are served to their end.
    GoingAway,
}

/// Properties that each side announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Maximum number of concurrent streams opened by the peer.
    pub max_streams: u64,
    /// Unsealed records are accepted.
    pub accepts_plain: bool,
    /// Datagrams are accepted.
    pub takes_datagrams: bool,
    /// The sender understands [`Command::Stop`] and [`Command::ResetSending`].
    pub ends_halves: bool,
    /// The sender places chunks by the policy of [`Command::Scheduler`]. False from a client.
    pub follows_scheduler: bool,
    /// The sender understands rules of links whose signal fades. False from a client.
    pub knows_signals: bool,
    /// The sender's number for the link of the channel that began the session; it only tells paths
    /// apart. 0 from a gateway.
    pub link: u32,
}

/// Channel numbers that a client may join with, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The first number.
    pub first: ChannelId,
    /// Count of consecutive numbers.
    pub count: u32,
    /// Addresses to connect to; empty for the address that the client used last. At most 16.
    pub addresses: Vec<GrantAddress>,
}

/// An address and port of a gateway.
pub type GrantAddress = SocketAddr;

/// The identity that a client shows when it enrols with an invite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// The client's own Ed25519 public key.
    pub key: [u8; 32],
    /// Its signature over the session's enrolment challenge, which is bound to the TLS exporter.
    pub signature: [u8; 64],
    /// Display name, at most 64 bytes of UTF-8; may be empty.
    pub name: String,
}

impl Command {
    /// Returns its type.
    pub const fn kind(&self) -> CommandKind {
        match self {
            Self::Hello(_) => CommandKind::Hello,
            Self::Grant(_) => CommandKind::Grant,
            Self::Reset { .. } => CommandKind::Reset,
            Self::Stop { .. } => CommandKind::Stop,
            Self::ResetSending { .. } => CommandKind::ResetSending,
            Self::CloseReason { .. } => CommandKind::CloseReason,
            Self::ChannelClosed { .. } => CommandKind::ChannelClosed,
            Self::Close { .. } => CommandKind::Close,
            Self::Enrol(_) => CommandKind::Enrol,
            Self::Enrolled => CommandKind::Enrolled,
            Self::LinkRules(_) => CommandKind::LinkRules,
            Self::Scheduler { .. } => CommandKind::Scheduler,
            Self::DatagramPort { .. } => CommandKind::DatagramPort,
            Self::AcceptsJoins { .. } => CommandKind::AcceptsJoins,
            Self::Associate { .. } => CommandKind::Associate,
            Self::GoingAway => CommandKind::GoingAway,
        }
    }

    /// Appends the command to the command stream.
    pub fn encode(&self, out: &mut BytesMut) {
        let mut value = BytesMut::new();
        self.encode_value(&mut value);
        let kind = self.kind();
        out.put_u8(kind.number() | if kind.is_critical() { CRITICAL } else { 0 });
        put_varint(out, value.len() as u64);
        out.extend_from_slice(&value);
    }

    fn encode_value(&self, value: &mut BytesMut) {
        match self {
            Self::Hello(hello) => hello.encode_value(value),
            Self::Grant(grant) => {
                put_varint(value, u64::from(grant.first.value()));
                put_varint(value, u64::from(grant.count));
                for address in grant.addresses.iter().take(MAX_GRANT_ADDRESSES) {
                    put_address(value, address);
                }
            }
            Self::Reset { stream, code } => put_stream_code(value, *stream, *code),
            Self::Stop { stream, code } => put_stream_code(value, *stream, *code),
            Self::ResetSending { stream, code } => put_stream_code(value, *stream, *code),
            Self::CloseReason { code, text } => {
                put_varint(value, u64::from(*code));
                value.extend_from_slice(cut_text(text, MAX_CLOSE_REASON).as_bytes());
            }
            Self::ChannelClosed { channel } => put_varint(value, u64::from(channel.value())),
            Self::Close { code } => put_varint(value, u64::from(*code)),
            Self::Enrol(enrolment) => {
                value.extend_from_slice(&enrolment.key);
                value.extend_from_slice(&enrolment.signature);
                value.extend_from_slice(enrolment.name.as_bytes());
            }
            Self::Enrolled | Self::GoingAway => {}
            Self::LinkRules(list) => {
                let list = list.iter().take(MAX_LINK_RULES);
                list.for_each(|entry| entry.encode(value));
            }
            Self::Scheduler { policy } => put_varint(value, u64::from(*policy)),
            Self::DatagramPort { port } => put_varint(value, u64::from(*port)),
            Self::AcceptsJoins { port } => put_varint(value, u64::from(*port)),
            Self::Associate { channel, transport } => {
                put_varint(value, u64::from(channel.value()));
                put_varint(value, *transport as u64);
            }
        }
    }

    fn decode(kind: u8, mut value: Bytes) -> Result<Option<Self>, Malformed> {
        let input = &mut value;
        let command = match CommandKind::of_number(kind & !CRITICAL) {
            Some(CommandKind::Hello) => {
                let max_streams = take_varint(input, "hello")?;
                let flags = take_varint(input, "hello")?;
                let link = take_link(input, "hello")?;
                // Later versions append fields; unknown ones are ignored.
                input.clear();
                Self::Hello(Hello {
                    max_streams,
                    accepts_plain: flags & FLAG_PLAIN != 0,
                    takes_datagrams: flags & FLAG_DATAGRAMS != 0,
                    ends_halves: flags & FLAG_HALVES != 0,
                    follows_scheduler: flags & FLAG_SCHEDULER != 0,
                    knows_signals: flags & FLAG_SIGNALS != 0,
                    link,
                })
            }
            Some(CommandKind::Grant) => Self::Grant(take_grant(input)?),
            Some(CommandKind::Reset) => Self::Reset {
                stream: StreamId::new(take_varint(input, "reset")?),
                code: take_varint_u32(input, "reset")?,
            },
            Some(CommandKind::Stop) => Self::Stop {
                stream: StreamId::new(take_varint(input, "stop")?),
                code: take_varint_u32(input, "stop")?,
            },
            Some(CommandKind::ResetSending) => Self::ResetSending {
                stream: StreamId::new(take_varint(input, "reset sending")?),
                code: take_varint_u32(input, "reset sending")?,
            },
            Some(CommandKind::CloseReason) => Self::CloseReason {
                code: take_varint_u32(input, "close reason")?,
                text: take_text(input, MAX_CLOSE_REASON, "close reason")?,
            },
            Some(CommandKind::ChannelClosed) => {
                let channel = ChannelId::new(take_varint_u32(input, "channel closed")?);
                Self::ChannelClosed { channel }
            }
            Some(CommandKind::Close) => Self::Close {
                code: take_varint_u32(input, "close")?,
            },
            Some(CommandKind::Enrol) => Self::Enrol(take_enrolment(input)?),
            Some(CommandKind::Enrolled) => Self::Enrolled,
            Some(CommandKind::LinkRules) => Self::LinkRules(take_link_rules(input)?),
            Some(CommandKind::Scheduler) => Self::Scheduler {
                policy: take_varint_u32(input, "scheduler")?,
            },
            Some(CommandKind::DatagramPort) => Self::DatagramPort {
                port: take_port(input, 1, "datagram port")?,
            },
            Some(CommandKind::AcceptsJoins) => Self::AcceptsJoins {
                port: take_port(input, MIN_JOIN_PORT, "accepts joins")?,
            },
            Some(CommandKind::Associate) => Self::Associate {
                channel: ChannelId::new(take_varint_u32(input, "associate")?),
                transport: TransportChoice::read(take_varint(input, "associate")?)?,
            },
            Some(CommandKind::GoingAway) => Self::GoingAway,
            None if kind & CRITICAL != 0 => {
                return Err(Malformed::new("command", MalformedReason::UnknownCritical));
            }
            None => return Ok(None),
        };
        if input.has_remaining() {
            return Err(Malformed::new("command", MalformedReason::TrailingBytes));
        }
        Ok(Some(command))
    }
}

impl CommandKind {
    /// Whether a receiver that does not know it may not skip it.
    const fn is_critical(self) -> bool {
        matches!(
            self,
            Self::Hello | Self::Grant | Self::Reset | Self::Close | Self::Enrol | Self::Enrolled
        )
    }
}

impl Hello {
    fn encode_value(&self, value: &mut BytesMut) {
        put_varint(value, self.max_streams);
        let plain = u64::from(self.accepts_plain) * FLAG_PLAIN;
        let datagrams = u64::from(self.takes_datagrams) * FLAG_DATAGRAMS;
        let halves = u64::from(self.ends_halves) * FLAG_HALVES;
        let scheduler = u64::from(self.follows_scheduler) * FLAG_SCHEDULER;
        let signals = u64::from(self.knows_signals) * FLAG_SIGNALS;
        put_varint(value, plain | datagrams | halves | scheduler | signals);
        put_varint(value, u64::from(self.link));
    }
}

/// Decoder that splits the ordered bytes of stream 0 into commands.
#[derive(Debug, Default)]
pub struct CommandDecoder {
    buffer: BytesMut,
}

impl CommandDecoder {
    /// Appends the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete command; `None` until more bytes arrive. Unknown commands that are
    /// not critical are skipped. After an error the stream is unusable.
    pub fn next_command(&mut self) -> Result<Option<Command>, Malformed> {
        loop {
            let mut peek = &self.buffer[..];
            if peek.is_empty() {
                return Ok(None);
            }
            let kind = peek.get_u8();
            let Ok(length) = take_varint(&mut peek, "command") else {
                return Ok(None);
            };
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > MAX_COMMAND_VALUE {
                return Err(Malformed::new("command", MalformedReason::TooLarge));
            }
            if peek.remaining() < length {
                return Ok(None);
            }
            let header = self.buffer.len() - peek.remaining();
            self.buffer.advance(header);
            let value = self.buffer.split_to(length).freeze();
            if let Some(command) = Command::decode(kind, value)? {
                return Ok(Some(command));
            }
        }
    }
}

fn take_grant(input: &mut Bytes) -> Result<Grant, Malformed> {
    let first = ChannelId::new(take_varint_u32(input, "grant")?);
    let count = take_varint_u32(input, "grant")?;
    let mut addresses = Vec::new();
    while input.has_remaining() {
        if addresses.len() == MAX_GRANT_ADDRESSES {
            return Err(Malformed::new("grant", MalformedReason::TooLarge));
        }
        addresses.push(take_address(input)?);
    }
    Ok(Grant {
        first,
        count,
        addresses,
    })
}

fn take_port(input: &mut Bytes, least: u16, what: &'static str) -> Result<u16, Malformed> {
    let port = u16::try_from(take_varint(input, what)?).ok();
    let port = port.filter(|port| *port >= least);
    port.ok_or(Malformed::new(what, MalformedReason::BadValue))
}

fn take_enrolment(input: &mut Bytes) -> Result<Enrolment, Malformed> {
    const WHAT: &str = "enrolment";
    let mut key = [0; 32];
    let mut signature = [0; 64];
    if input.remaining() < key.len() + signature.len() {
        return Err(Malformed::truncated(WHAT));
    }
    input.copy_to_slice(&mut key);
    input.copy_to_slice(&mut signature);
    let name = take_text(input, MAX_ENROLMENT_NAME, WHAT)?;
    Ok(Enrolment {
        key,
        signature,
        name,
    })
}

/// Takes the rest of `input` as text of at most `max` bytes.
fn take_text(input: &mut Bytes, max: usize, what: &'static str) -> Result<String, Malformed> {
    if input.remaining() > max {
        return Err(Malformed::new(what, MalformedReason::TooLarge));
    }
    String::from_utf8(input.split_off(0).to_vec())
        .map_err(|_| Malformed::new(what, MalformedReason::BadValue))
}

/// Returns as many whole characters of `text` as fit `max` bytes.
fn cut_text(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

fn put_stream_code(out: &mut BytesMut, stream: StreamId, code: u32) {
    put_varint(out, stream.value());
    put_varint(out, u64::from(code));
}

fn put_address(out: &mut BytesMut, address: &SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            put_varint(out, 4);
            out.put_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            put_varint(out, 16);
            out.put_slice(&ip.octets());
        }
    }
    out.put_u16(address.port());
}

fn take_address(input: &mut Bytes) -> Result<SocketAddr, Malformed> {
    const WHAT: &str = "grant address";
    let length = take_length(input, 16, WHAT)?;
    if input.remaining() < length + 2 {
        return Err(Malformed::truncated(WHAT));
    }
    let ip = input.split_to(length);
    let ip = if let Ok(octets) = <[u8; 4]>::try_from(&ip[..]) {
        IpAddr::from(octets)
    } else if let Ok(octets) = <[u8; 16]>::try_from(&ip[..]) {
        IpAddr::from(octets)
    } else {
        return Err(Malformed::new(WHAT, MalformedReason::BadValue));
    };
    Ok(SocketAddr::new(ip, input.get_u16()))
}

const FLAG_PLAIN: u64 = 0x01;
const FLAG_DATAGRAMS: u64 = 0x02;
const FLAG_HALVES: u64 = 0x04;
const FLAG_SCHEDULER: u64 = 0x08;
const FLAG_SIGNALS: u64 = 0x10;

const MAX_GRANT_ADDRESSES: usize = 16;
const MAX_ENROLMENT_NAME: usize = 64;

#[cfg(test)]
mod tests;
