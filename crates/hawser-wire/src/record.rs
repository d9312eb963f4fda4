use crate::{Malformed, MalformedReason};

/// Length of a record header in bytes: one of flags, three of length.
pub const RECORD_HEADER_LENGTH: usize = 4;
/// The largest payload of one chunk.
pub const MAX_CHUNK_PAYLOAD: usize = 64 * 1024;
/// Maximum length of a record's body: a full chunk, its header and metadata, piggybacked state and
/// the AEAD tag.
pub const MAX_RECORD_BODY: usize = MAX_CHUNK_PAYLOAD + 4096;

/// Flags in the header of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFlags {
    /// Flips each time the sender moves to the next key of the ratchet.
    pub key_phase: bool,
    /// The body is not sealed; only accepted when the receiver was configured for it.
    pub plain: bool,
}

/// The four-byte header of each record. It is the AEAD's associated data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Key phase and sealing.
    pub flags: RecordFlags,
    /// Length of the body in bytes, with its tag; 1 to [`MAX_RECORD_BODY`].
    pub length: usize,
}

impl RecordHeader {
    /// Encodes the header. A length beyond [`MAX_RECORD_BODY`] is the caller's mistake; it is cut
    /// to 24 bits.
    pub const fn encode(self) -> [u8; RECORD_HEADER_LENGTH] {
        debug_assert!(self.length <= MAX_RECORD_BODY);
        let flags = self.flags.key_phase as u8 | ((self.flags.plain as u8) << 1);
        let length = (self.length as u32).to_be_bytes();
        [flags, length[1], length[2], length[3]]
    }

    /// Reads a header.
    pub fn decode(bytes: [u8; RECORD_HEADER_LENGTH]) -> Result<Self, Malformed> {
        const WHAT: &str = "record header";
        let [flags, high, middle, low] = bytes;
        if flags & !0b11 != 0 {
            return Err(Malformed::new(WHAT, MalformedReason::Reserved));
        }
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        if length > MAX_RECORD_BODY {
            return Err(Malformed::new(WHAT, MalformedReason::TooLarge));
        }
        if length == 0 {
            return Err(Malformed::truncated(WHAT));
        }
        let flags = RecordFlags {
            key_phase: flags & 1 != 0,
            plain: flags & 2 != 0,
        };
        Ok(Self { flags, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_these_golden_bytes() {
        let flags = RecordFlags {
            key_phase: true,
            plain: false,
        };
        let header = RecordHeader {
            flags,
            length: 0x1_0203,
        };
        assert_eq!(header.encode(), [1, 1, 2, 3]);
        assert_eq!(RecordHeader::decode([1, 1, 2, 3]), Ok(header));
    }

    #[test]
    fn lengths_and_flags_outside_the_protocol_are_refused() {
        assert!(RecordHeader::decode([0, 0, 0, 0]).is_err());
        assert!(RecordHeader::decode([0, 0xff, 0xff, 0xff]).is_err());
        assert!(RecordHeader::decode([4, 0, 0, 1]).is_err());
    }
}
