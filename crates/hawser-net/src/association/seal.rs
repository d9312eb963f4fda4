use hawser_session::seal::datagram::{DatagramOpener, DatagramSealer, KeyId};
use hawser_session::seal::{Direction, SessionKeys};
use hawser_types::ChannelId;
use tracing::Span;

/// One end's keys of a datagram channel, good for one association.
pub struct Seal {
    pub(super) sealer: DatagramSealer,
    pub(super) opener: DatagramOpener,
    /// The span of the association's log lines.
    pub(super) span: Span,
}

impl Seal {
    /// The keys of one end, from those of the session. `channel`: a number that both ends know and
    /// never use again; `direction`: the direction in which this end sends. Log lines of the
    /// association have the current span.
    pub fn new(keys: &SessionKeys, channel: ChannelId, direction: Direction) -> Self {
        Self {
            sealer: keys.datagram_sealer(channel, direction),
            opener: keys.datagram_opener(channel, direction.reverse()),
            span: Span::current(),
        }
    }

    /// The key id at the front of received datagrams.
    pub(super) fn key_id(&self) -> KeyId {
        self.opener.key_id()
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ours, theirs) = (self.sealer.key_id(), self.opener.key_id());
        write!(f, "Seal({ours:?}, {theirs:?})")
    }
}
