use hawser_types::ByteCount;

/// Packets in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of the packets, with all SCTP headers.
    pub bytes: ByteCount,
}

impl Traffic {
    pub(crate) fn add(&mut self, size: usize) {
        self.packets += 1;
        self.bytes += ByteCount::from(size);
    }
}
