use hawser_types::{ChannelId, SessionId};

/// How a connection to a gateway begins, as its first byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FirstWord {
    /// With a handshake of TLS: a session.
    Handshake,
    /// With a [`JoinPrelude`]: a further channel.
    Join,
    /// With something else, which no gateway answers.
    Other,
}

impl FirstWord {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Handshake, Self::Join, Self::Other];

    /// Returns the kind of connection that begins with this byte.
    pub const fn of(byte: u8) -> Self {
        match byte {
            // Content types of TLS records, from `change_cipher_spec` to `application_data`.
            0x14..=0x17 => Self::Handshake,
            JoinPrelude::FIRST_BYTE => Self::Join,
            _ => Self::Other,
        }
    }
}

/// Length of a [`JoinPrelude`] in bytes.
pub const JOIN_PRELUDE_LENGTH: usize = 24;

/// The only cleartext bytes of a joining connection: its session and channel. Sealed records follow
/// at once; the first one proves that the sender holds the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinPrelude {
    /// The session that the connection wants to join.
    pub session: SessionId,
    /// Channel number from a grant.
    pub channel: ChannelId,
}

impl JoinPrelude {
    /// The first byte of a joining connection.
    pub const FIRST_BYTE: u8 = MAGIC[0];

    /// Encodes the prelude: `HWJ1`, the session, the channel in network order.
    pub fn encode(&self) -> [u8; JOIN_PRELUDE_LENGTH] {
        let mut out = [0; JOIN_PRELUDE_LENGTH];
        out[..4].copy_from_slice(&MAGIC);
        out[4..20].copy_from_slice(self.session.as_bytes());
        out[20..].copy_from_slice(&self.channel.value().to_be_bytes());
        out
    }

    /// Tells whether these bytes may be the beginning of a prelude.
    pub fn may_begin(bytes: &[u8]) -> bool {
        bytes.iter().zip(MAGIC).all(|(byte, magic)| *byte == magic)
    }

    /// Reads a prelude; `None` when it does not begin with the magic of this version.
    pub fn decode(bytes: &[u8; JOIN_PRELUDE_LENGTH]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (session, channel) = rest.split_first_chunk::<16>()?;
        let channel: [u8; 4] = channel.try_into().ok()?;
        let channel = ChannelId::new(u32::from_be_bytes(channel));
        Some(Self {
            session: SessionId::new(*session),
            channel,
        })
    }
}

const MAGIC: [u8; 4] = *b"HWJ1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prelude_survives_the_round_trip_and_other_magic_is_refused() {
        let prelude = JoinPrelude {
            session: SessionId::new([7; 16]),
            channel: ChannelId::new(0x0102_0304),
        };
        let mut bytes = prelude.encode();
        assert_eq!(&bytes[..5], b"HWJ1\x07");
        assert_eq!(&bytes[20..], [1, 2, 3, 4]);
        assert_eq!(JoinPrelude::decode(&bytes), Some(prelude));
        assert!(JoinPrelude::may_begin(&bytes) && JoinPrelude::may_begin(b"HW"));
        assert!(!JoinPrelude::may_begin(b"HTTP"));
        bytes[3] = b'2';
        assert_eq!(JoinPrelude::decode(&bytes), None);
    }
}
