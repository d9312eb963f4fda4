/// Action for an unknown type, by its highest two bits. Source: RFC 9260 §3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownAction {
    /// Stop reading the packet.
    Stop,
    /// Stop reading the packet, and report the chunk.
    StopAndReport,
    /// Skip it.
    Skip,
    /// Skip it, and report it.
    SkipAndReport,
}

impl UnknownAction {
    /// Returns the action for the highest two bits of a type.
    pub(super) fn of(bits: u8) -> Self {
        match bits {
            0 => Self::Stop,
            1 => Self::StopAndReport,
            2 => Self::Skip,
            _ => Self::SkipAndReport,
        }
    }
}
