//! One link to emulate.

use super::rewrite::Translation;
use super::ring::PacketSocket;
use crate::scenario::Link;

/// One link to emulate: the sockets at its two ends, and what it does to packets.
#[derive(Debug)]
pub struct Span {
    /// The end where the client's frames come in.
    pub client: PacketSocket,
    /// The end where the server's frames come in.
    pub server: PacketSocket,
    /// Delay, rate, queue and loss in between.
    pub link: Link,
    /// Translation of the client's address by the modem, when there is one.
    pub translation: Option<Translation>,
}
