/// Rule for the checksum field of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChecksumRule {
    /// CRC-32c. Source: RFC 9260 §6.8.
    #[default]
    Crc32c,
    /// Zero, since the layer below detects errors. Received packets may have CRC-32c as well. Sent
    /// packets with INIT or COOKIE ECHO have CRC-32c, since they precede the agreement. Source: RFC
    /// 9653.
    Zero,
}

impl ChecksumRule {
    /// Tells whether the packet is intact, as far as the rule can tell.
    pub(super) fn accepts(self, header: &[u8; 12], chunks: &[u8]) -> bool {
        let field = [header[8], header[9], header[10], header[11]];
        let waived = self == Self::Zero && field == [0; 4];
        waived || field == crc32c(header, chunks)
    }
}

/// Returns the CRC-32c of a packet, regardless of its checksum field.
pub(super) fn crc32c(header: &[u8; 12], chunks: &[u8]) -> [u8; 4] {
    let mut blank = *header;
    blank[8..].fill(0);
    crc32c::crc32c_append(crc32c::crc32c(&blank), chunks).to_le_bytes()
}
