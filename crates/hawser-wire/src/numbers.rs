//! The protocol's lists of numbers. A new number is added here, and nowhere else: decoders match
//! over these lists, and so do the scripts of a hostile peer, of which each number has one.

/// Makes a list of numbers on the wire: its names, all of them, and the way there and back.
macro_rules! numbers {
    (
        $(#[$about_all:meta])*
        pub enum $name:ident {
            $($(#[$about:meta])* $variant:ident = $number:literal,)+
        }
    ) => {
        $(#[$about_all])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$about])* $variant = $number,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the number on the wire.
            pub const fn number(self) -> u8 {
                self as u8
            }

            /// Returns what has this number; `None` when this version does not know it.
            pub const fn of_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use numbers;

numbers! {
    /// Type of a [`Command`](crate::Command).
    pub enum CommandKind {
        /// Properties of the sender.
        Hello = 0x01,
        /// Channel numbers that a client may join with.
        Grant = 0x02,
        /// Both directions of a stream end.
        Reset = 0x03,
        /// A channel is given up.
        ChannelClosed = 0x04,
        /// The session ends.
        Close = 0x05,
        /// A client shows its key.
        Enrol = 0x06,
        /// The gateway has stored it.
        Enrolled = 0x07,
        /// The user's rules for links.
        LinkRules = 0x08,
        /// Where the gateway takes associations.
        DatagramPort = 0x09,
        /// An association begins.
        Associate = 0x0a,
        /// The sender reads no more of a stream.
        Stop = 0x0b,
        /// The sender's direction of a stream ends early.
        ResetSending = 0x0c,
        /// Why the session ends.
        CloseReason = 0x0d,
        /// Policy for bulk chunks.
        Scheduler = 0x0e,
        /// Where the client takes the gateway's connections.
        AcceptsJoins = 0x0f,
        /// The gateway asks for another session.
        GoingAway = 0x10,
    }
}

numbers! {
    /// Type of a [`Frame`](crate::Frame).
    pub enum FrameKind {
        /// Records are held.
        Ack = 0x01,
        /// More may be sent on a stream.
        Credit = 0x02,
        /// First frame of a channel.
        Join = 0x03,
        /// Nothing, for TCP to acknowledge.
        Heartbeat = 0x04,
        /// Measurements of a channel.
        Path = 0x05,
        /// A datagram of a stream.
        Datagram = 0x06,
        /// The record's chunk opens a stream of a group.
        Group = 0x07,
        /// Large segments are lost on a link.
        SegmentsLost = 0x10,
        /// A chunk, whose lower bits are flags.
        Chunk = 0x80,
    }
}

numbers! {
    /// Purpose of a stream: the first byte of its opening metadata.
    pub enum StreamKind {
        /// A connection to an IPv4 address.
        ConnectV4 = 0x01,
        /// A connection to an IPv6 address.
        ConnectV6 = 0x02,
        /// A connection to a name.
        ConnectName = 0x03,
        /// Datagrams to an IPv4 address.
        DatagramsV4 = 0x04,
        /// Datagrams to an IPv6 address.
        DatagramsV6 = 0x05,
        /// Datagrams to a name.
        DatagramsName = 0x06,
        /// Datagrams of a call to an IPv4 address.
        CallV4 = 0x07,
        /// Datagrams of a call to an IPv6 address.
        CallV6 = 0x08,
        /// Datagrams of a call to a name.
        CallName = 0x09,
        /// A file.
        File = 0x10,
        /// A measurement: the acceptor swallows what comes.
        Sink = 0x11,
        /// A measurement: the acceptor sends.
        Source = 0x12,
        /// The acceptor's reasons for its choice of links.
        Reasons = 0x13,
        /// Packets of a TUN device.
        Packets = 0x14,
        /// The opener may be met by other clients.
        BeMet = 0x15,
        /// A connection to another client.
        Meet = 0x16,
        /// From where datagrams with a token come.
        Observe = 0x17,
        /// UDP addresses of both ends of the session.
        Punch = 0x18,
    }
}

impl FrameKind {
    /// Returns the kind of frame that begins with this byte; `None` when this version does not know
    /// it.
    pub const fn of_byte(byte: u8) -> Option<Self> {
        match byte & Self::Chunk.number() {
            0 => Self::of_number(byte & !CRITICAL),
            _ => Some(Self::Chunk),
        }
    }
}

impl StreamKind {
    /// Returns the purpose of the stream with this opening metadata; `None` when it is unknown.
    pub fn of_opening(metadata: &[u8]) -> Option<Self> {
        metadata.first().and_then(|number| Self::of_number(*number))
    }
}

/// Bit in the type of a frame or command that must not be skipped when unknown.
pub(crate) const CRITICAL: u8 = 0x40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_others_are_unknown() {
        for kind in CommandKind::ALL {
            assert_eq!(CommandKind::of_number(kind.number()), Some(*kind));
        }
        for kind in StreamKind::ALL {
            assert_eq!(StreamKind::of_opening(&[kind.number(), 9]), Some(*kind));
        }
        assert_eq!(CommandKind::of_number(0x11), None);
        assert_eq!(StreamKind::of_opening(&[0x19]), None);
        assert_eq!(StreamKind::of_opening(&[]), None);
    }

    #[test]
    fn frames_are_told_by_their_first_byte() {
        for kind in FrameKind::ALL {
            assert_eq!(FrameKind::of_byte(kind.number()), Some(*kind));
        }
        assert_eq!(FrameKind::of_byte(0x43), Some(FrameKind::Join));
        assert_eq!(FrameKind::of_byte(0x83), Some(FrameKind::Chunk));
        assert_eq!(FrameKind::of_byte(0x20), None);
    }
}
