/// A destination of streams. All are in the trial's own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Accepts connections and reads all.
    Sink,
    /// Accepts connections and reads nothing.
    Silent,
    /// Accepts connections and writes without end.
    Source,
    /// Refuses connections.
    Closed,
    /// A service of the gateway's own host, at an address that only a route makes its own.
    LocalRoute,
    /// Port of the program's own host that it shows to strangers.
    Fronted,
    /// The same by another name of that host.
    AlmostFronted,
    /// Answers one datagram with very many empty ones.
    EmptyDatagrams,
    /// Answers one datagram with very many of 1,200 bytes.
    Datagrams,
    /// The gateway itself, which counts what comes: half of a measurement.
    MeasuredUp,
    /// The gateway itself, which sends bytes of its own: the other half.
    MeasuredDown,
}

impl Place {
    /// True if streams to it carry datagrams.
    pub(crate) fn is_datagrams(self) -> bool {
        matches!(self, Self::EmptyDatagrams | Self::Datagrams)
    }
}
