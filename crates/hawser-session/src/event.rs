use std::collections::VecDeque;

use hawser_types::{ChannelId, LinkIndex, StreamId};
use hawser_wire::{Enrolment, GrantAddress};

use crate::links::LostSegment;

/// Something that the driver or the application has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The peer opened a stream; its metadata is there.
    StreamOpened(StreamId),
    /// The peer's opening chunk of a stream that this side opened has come.
    StreamAccepted(StreamId),
    /// Bytes, or the end of the stream, can be read.
    Readable(StreamId),
    /// A datagram came that belongs to the stream.
    Datagram(StreamId),
    /// The stream's send buffer has room again.
    Writable(StreamId),
    /// Everything written to the stream, its end included, is held by the peer.
    Acknowledged(StreamId),
    /// The stream was reset: by the peer, or by this side, since the peer went beyond a limit.
    Reset(StreamId, u32),
    /// The peer's direction of the stream ended before its end, with this code.
    SendingReset(StreamId, u32),
    /// The peer reads no more of the stream, and said so with this code.
    Stopped(StreamId, u32),
    /// The stream is over, since the peer ended both of its directions.
    Over(StreamId),
    /// A channel fell silent against expectation, or its link crawls; what was in flight on it goes
    /// over others too.
    Suspect(ChannelId),
    /// A suspect channel came back by itself.
    Recovered(ChannelId),
    /// A channel is given up: its connection is to be closed and a fresh one tried.
    Dead(ChannelId),
    /// The link is to have another number of bulk channels: see
    /// [`Session::wanted_channels`](crate::Session::wanted_channels).
    Spread(LinkIndex),
    /// The gateway allows more channels.
    Granted(Vec<GrantAddress>),
    /// The gateway takes associations at this UDP port.
    DatagramPort(u16),
    /// Segments of that size do not arrive over a channel that this gateway began. The channel is
    /// given up.
    SegmentsLost(ChannelId, LostSegment),
    /// The client takes connections of this gateway's at this TCP port.
    JoinsAccepted(u16),
    /// The gateway asks this client to begin another session, and to open streams there.
    GoingAway,
    /// The client begins an association with the keys of this channel, whose number is used up by
    /// that. One that was to come before and has not is not to be expected any more.
    AssociationExpected(ChannelId),
    /// The rules of [`Session::link_rules`](crate::Session::link_rules) have changed.
    RulesChanged,
    /// A client wants to be enrolled.
    EnrolRequested(Enrolment),
    /// The gateway has kept this client's key.
    Enrolled,
    /// The peer's application gave a code and a text for the close that follows.
    CloseReason(u32, String),
    /// The session is over.
    Closed(CloseReason),
}

/// Events that the driver has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Events(VecDeque<Event>);

impl Events {
    /// Adds an event.
    pub(crate) fn push(&mut self, event: Event) {
        self.0.push_back(event);
    }

    /// Adds events, if there are any.
    pub(crate) fn extend(&mut self, events: impl IntoIterator<Item = Event>) {
        self.0.extend(events);
    }

    /// Takes out the oldest event.
    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.0.pop_front()
    }
}

/// Reason for the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// This side closed it, and the peer holds everything that was sent.
    Local,
    /// The peer closed it, with this code.
    Peer(u32),
    /// No channel was left for as long as the session survives that.
    Abandoned,
    /// This side ended it, since something would have grown beyond its limit.
    LimitExceeded(Limit),
}

/// A limit of a session that ends it rather than be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Bytes of one record.
    Record,
    /// Bytes of commands that wait for the peer to acknowledge earlier ones.
    Commands,
}
