//! Parameters that both sides of the handshake share.

use std::sync::Arc;

use hawser_wire::FirstWord;

use hawser_keys::identity::PublicKey;

/// Decides whether a client that has proved its key is admitted. Called once per handshake, on the
/// task that drives it, so it must not block.
pub type Allow = Arc<dyn Fn(&PublicKey) -> bool + Send + Sync>;

/// Returns whether the first byte behind the handshake begins a TLS record: the server's alert.
pub const fn is_tls_record(first: u8) -> bool {
    matches!(FirstWord::of(first), FirstWord::Handshake)
}

/// The only application protocol offered and accepted.
pub const ALPN: &[u8] = b"hawser/1";
/// Most bytes that are read for one handshake; a genuine one takes less than 1 KiB.
pub const MAX_HANDSHAKE: usize = 64 * 1024;
