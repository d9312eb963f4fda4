mod arrived_datagrams;
mod receive;
mod send;
mod send_buffers;

pub(crate) use arrived_datagrams::{ArrivedDatagrams, Taken, datagram_cost};
pub(crate) use receive::{Pool, ReceiveStream, Unread};
pub use send::SHORT_WRITE;
pub(crate) use send::SendStream;
pub(crate) use send_buffers::SendBuffers;

use bytes::Bytes;
use hawser_types::{ChannelId, Instant, StreamGroup};

/// Both directions of one stream.
#[derive(Debug)]
pub(crate) struct Stream {
    send: SendStream,
    receive: ReceiveStream,
    /// Furthest end of a chunk that the peer holds; there may be holes before it.
    furthest_held: u64,
    /// Metadata of the peer's opening chunk, once that has come.
    peer_metadata: Option<Bytes>,
    /// The channel that brought that chunk.
    opened_over: Option<ChannelId>,
    /// Metadata that this side opened the stream with; empty for the peer's streams.
    own_metadata: Bytes,
    /// On whose behalf it was opened.
    group: StreamGroup,
    opened_at: Instant,
    datagrams: ArrivedDatagrams,
    /// The datagrams are a call's.
    is_call: bool,
    /// The application has read up to the end.
    read_out: bool,
    /// The application has let go of the stream.
    abandoned: bool,
    /// The code with which the peer said that it reads no more.
    stopped: Option<u32>,
}

impl Stream {
    /// A stream that begins now. `own_metadata` is empty for the peer's streams.
    pub(crate) fn new(
        now: Instant,
        own_metadata: Bytes,
        send: SendStream,
        receive: ReceiveStream,
    ) -> Self {
        Self {
            send,
            receive,
            furthest_held: 0,
            peer_metadata: None,
            opened_over: None,
            own_metadata,
            group: StreamGroup::OWN,
            opened_at: now,
            datagrams: ArrivedDatagrams::default(),
            is_call: false,
            read_out: false,
            abandoned: false,
            stopped: None,
        }
    }

    /// Returns the sending direction.
    pub(crate) fn send(&self) -> &SendStream {
        &self.send
    }

    /// Returns the sending direction, to change it.
    pub(crate) fn send_mut(&mut self) -> &mut SendStream {
        &mut self.send
    }

    /// Returns the receiving direction.
    pub(crate) fn receive(&self) -> &ReceiveStream {
        &self.receive
    }

    /// Returns the receiving direction, to change it.
    pub(crate) fn receive_mut(&mut self) -> &mut ReceiveStream {
        &mut self.receive
    }

    /// Returns the datagrams that came.
    pub(crate) fn datagrams_mut(&mut self) -> &mut ArrivedDatagrams {
        &mut self.datagrams
    }

    /// Returns the metadata that the stream was opened with, by whichever side.
    pub(crate) fn metadata(&self) -> &Bytes {
        match &self.peer_metadata {
            Some(metadata) if self.own_metadata.is_empty() => metadata,
            _ => &self.own_metadata,
        }
    }

    /// Returns the metadata of the peer's opening chunk, once that has come.
    pub(crate) fn peer_metadata(&self) -> Option<&Bytes> {
        self.peer_metadata.as_ref()
    }

    /// Returns the channel that brought the peer's opening chunk, once that has come.
    pub(crate) fn opened_over(&self) -> Option<ChannelId> {
        self.opened_over
    }

    /// Keeps the metadata of the peer's opening chunk, and the channel that brought it. False if it
    /// came before.
    pub(crate) fn set_peer_metadata(&mut self, metadata: &[u8], over: ChannelId) -> bool {
        let is_first = self.peer_metadata.is_none();
        if is_first {
            self.peer_metadata = Some(Bytes::copy_from_slice(metadata));
            self.opened_over = Some(over);
        }
        is_first
    }

    /// Returns on whose behalf the stream was opened.
    pub(crate) fn group(&self) -> StreamGroup {
        self.group
    }

    /// Notes on whose behalf the stream was opened.
    pub(crate) fn set_group(&mut self, group: StreamGroup) {
        self.group = group;
    }

    /// Returns the time when the stream began.
    pub(crate) fn opened_at(&self) -> Instant {
        self.opened_at
    }

    /// Notes that the peer holds a chunk that ends here.
    pub(crate) fn on_held_up_to(&mut self, end: u64) {
        self.furthest_held = self.furthest_held.max(end);
    }

    /// True if the peer holds something that lies behind `offset`.
    pub(crate) fn is_held_behind(&self, offset: u64) -> bool {
        self.furthest_held > offset
    }

    /// Marks the stream's datagrams as a call's.
    pub(crate) fn set_call(&mut self) {
        self.is_call = true;
    }

    /// True if the stream's datagrams are a call's.
    pub(crate) fn is_call(&self) -> bool {
        self.is_call
    }

    /// Notes that the application has read up to the end.
    pub(crate) fn set_read_out(&mut self) {
        self.read_out = true;
    }

    /// True if the application has read up to the end, or wants no more.
    pub(crate) fn was_read_out(&self) -> bool {
        self.read_out
    }

    /// Notes that the application has let go of the stream: what it wrote still goes out, with the
    /// end after it. True if the peer is to be told at once that data lies unread.
    pub(crate) fn abandon(&mut self) -> bool {
        self.send.open(Bytes::new());
        self.send.finish();
        self.abandoned = true;
        self.read_out |= self.receive.is_complete();
        self.has_data_for_nothing()
    }

    /// True if the application has let go of the stream.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// True if the application has let go of the stream, the peer holds what was written, and data
    /// lies here that nothing reads, with more to come. Without more, the stream just ends: a reset
    /// would destroy what the peer holds and has not read.
    pub(crate) fn has_data_for_nothing(&self) -> bool {
        let unread = !self.read_out && self.receive.ready_bytes() > 0;
        self.abandoned && unread && self.send.is_acknowledged()
    }

    /// Notes that the peer reads no more, and said so with `code`.
    pub(crate) fn set_stopped(&mut self, code: u32) {
        self.stopped = Some(code);
    }

    /// Returns the code with which the peer said that it reads no more.
    pub(crate) fn stop_code(&self) -> Option<u32> {
        self.stopped
    }

    /// True if nothing more can happen to the stream.
    pub(crate) fn is_over(&self) -> bool {
        self.read_out && self.send.is_acknowledged()
    }
}
