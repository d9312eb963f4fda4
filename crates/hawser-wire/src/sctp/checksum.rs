/// What the checksum field of a packet has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChecksumRule {
    /// CRC-32c. Source: RFC 9260 §6.8.
    #[default]
    Crc32c,
    /// Zero, since what carries the packets sees to it that they are whole. Read: CRC-32c will do as
    /// well. Written: packets with INIT or COOKIE ECHO have CRC-32c all the same, since they come
    /// before the agreement. Source: RFC 9653.
    Zero,
}

impl ChecksumRule {
    /// Whether the packet is whole, as far as the rule can tell.
    pub(super) fn accepts(self, header: &[u8; 12], chunks: &[u8]) -> bool {
        let field = [header[8], header[9], header[10], header[11]];
        let waived = self == Self::Zero && field == [0; 4];
        waived || field == crc32c(header, chunks)
    }
}

/// CRC-32c of a packet, as its field has it, whatever the field has now.
pub(super) fn crc32c(header: &[u8; 12], chunks: &[u8]) -> [u8; 4] {
    let mut blank = *header;
    blank[8..].fill(0);
    crc32c::crc32c_append(crc32c::crc32c(&blank), chunks).to_le_bytes()
}
