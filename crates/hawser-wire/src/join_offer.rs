use hawser_types::SessionId;

/// Length of a [`JoinOffer`] in bytes.
pub const JOIN_OFFER_LENGTH: usize = 60;

/// The first bytes of a connection that a gateway begins: it offers its client to join a session
/// with it. The client says nothing before the code has proved that the gateway holds the session's
/// keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinOffer {
    /// The session that the connection is for.
    pub session: SessionId,
    /// Number of the offer among those of the session: each is used once.
    pub number: u64,
    /// Authentication code over the number, and both ends' addresses and ports.
    pub code: [u8; 32],
}

impl JoinOffer {
    /// Encodes the offer: `HWO1`, the session, the number in network order, the code.
    pub fn encode(&self) -> [u8; JOIN_OFFER_LENGTH] {
        let mut out = [0; JOIN_OFFER_LENGTH];
        out[..4].copy_from_slice(&MAGIC);
        out[4..20].copy_from_slice(self.session.as_bytes());
        out[20..28].copy_from_slice(&self.number.to_be_bytes());
        out[28..].copy_from_slice(&self.code);
        out
    }

    /// Reads an offer; `None` when it does not begin with the magic of this version.
    pub fn decode(bytes: &[u8; JOIN_OFFER_LENGTH]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (session, rest) = rest.split_first_chunk::<16>()?;
        let (number, code) = rest.split_first_chunk::<8>()?;
        Some(Self {
            session: SessionId::new(*session),
            number: u64::from_be_bytes(*number),
            code: code.try_into().ok()?,
        })
    }
}

const MAGIC: [u8; 4] = *b"HWO1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_survives_the_round_trip_and_other_magic_is_refused() {
        let offer = JoinOffer {
            session: SessionId::new([7; 16]),
            number: 0x0102_0304_0506_0708,
            code: [9; 32],
        };
        let mut bytes = offer.encode();
        assert_eq!(&bytes[..5], b"HWO1\x07");
        assert_eq!(&bytes[19..29], [7, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(JoinOffer::decode(&bytes), Some(offer));
        bytes[2] = b'J';
        assert_eq!(JoinOffer::decode(&bytes), None);
    }
}
