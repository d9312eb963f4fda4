use hawser_types::{ChannelId, LinkIndex};
use hawser_wire::ChannelRole;

use crate::side::Side;
use crate::transport::Transport;

/// The driver's facts about a channel that it adds to a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelSpec {
    /// Number of the channel.
    pub id: ChannelId,
    /// Kind of chunks that the channel is for.
    pub role: ChannelRole,
    /// The client's link below it. A gateway learns the first channel's from the client's hello.
    /// An association has [`LinkIndex::ALL`], and no other channel has.
    pub link: LinkIndex,
    /// The side that connected: a gateway does so from a link of its own that the client's
    /// connections do not take.
    pub begun_by: Side,
    /// Records exchanged before the session took over, the same in both directions: 1 for a
    /// channel that joined, 0 for the first.
    pub records: u64,
    /// Bytes of payload in a full TCP segment, or in a packet of the association, if known.
    pub segment_size: Option<u32>,
}

/// The way of a channel between the two hosts: what is silent, or drops large segments, on one way
/// says nothing of others.
///
/// The channels that the client began over one of its links go the same way. Each one that the
/// gateway began goes a way of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Route {
    link: LinkIndex,
    /// The channel that is alone on it, if the gateway began it.
    further: Option<ChannelId>,
}

impl Route {
    /// The way of the channels that the client began over a link.
    pub(crate) const fn of_client(link: LinkIndex) -> Self {
        Self {
            link,
            further: None,
        }
    }

    /// True if the gateway began the channel there.
    pub(crate) fn is_further(self) -> bool {
        self.further.is_some()
    }

    /// Returns the client's link.
    pub(crate) fn link(self) -> LinkIndex {
        self.link
    }
}

/// The link of channels that a gateway relays between two hosts. It is no interface's: the kernel's
/// numbers have 31 bits.
pub const RELAY_LINK: LinkIndex = LinkIndex::new(u32::MAX - 1);

impl ChannelSpec {
    /// An association that is established and carries messages from now on.
    pub const fn association(id: ChannelId) -> Self {
        Self {
            id,
            role: ChannelRole::Bulk,
            link: LinkIndex::ALL,
            begun_by: Side::Client,
            records: 0,
            segment_size: None,
        }
    }

    /// Returns what takes the channel's records.
    pub fn transport(&self) -> Transport {
        match self.link {
            LinkIndex::ALL => Transport::Association,
            _ => Transport::Tcp,
        }
    }

    /// Returns the way that the channel goes.
    pub(crate) fn route(&self) -> Route {
        match self.begun_by {
            Side::Client => Route::of_client(self.link),
            Side::Gateway => Route {
                link: self.link,
                further: Some(self.id),
            },
        }
    }

    /// True if a session with a gateway carries the channel. What the kernel says of its connection
    /// is about this machine alone.
    pub(crate) fn is_relayed(&self) -> bool {
        self.link == RELAY_LINK
    }

    /// True if the channel is an association.
    pub(crate) fn is_association(&self) -> bool {
        self.transport() == Transport::Association
    }

    /// Returns the bytes of payload in a full TCP segment, a usual one where that is not known.
    pub(crate) fn segment_size(&self) -> u32 {
        self.segment_size.unwrap_or(DEFAULT_SEGMENT)
    }

    /// Returns the bytes of payload in a packet of an association.
    pub(crate) fn packet_size(&self) -> usize {
        self.segment_size.unwrap_or(DEFAULT_PACKET) as usize
    }
}

const DEFAULT_SEGMENT: u32 = 1448;
/// Any path of an association carries this.
const DEFAULT_PACKET: u32 = 1100;
