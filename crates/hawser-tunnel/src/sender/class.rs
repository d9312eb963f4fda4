/// Class of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Real-time while it is small, or marked as such, and its flow carries little.
    #[default]
    Auto,
    /// Real-time by a rule.
    RealTime,
    /// Not real-time by a rule.
    Bulk,
}
