mod receive;
mod send;

pub(crate) use receive::{Pool, ReceiveStream};
pub(crate) use send::SendStream;

use bytes::Bytes;
use hawser_types::Instant;

use crate::session::datagrams::Arrived;

/// Both directions of one stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) send: SendStream,
    pub(crate) receive: ReceiveStream,
    /// The end of what the peer holds that lies furthest on; there may be holes before it.
    pub(crate) furthest_held: u64,
    /// What the peer said of the stream in its opening chunk, once that has come.
    pub(crate) peer_metadata: Option<Bytes>,
    /// What this side said of it when it opened it; empty for the peer's streams.
    pub(crate) own_metadata: Bytes,
    pub(crate) opened_at: Instant,
    pub(crate) datagrams: Arrived,
    /// They are a call's.
    pub(crate) is_call: bool,
    /// The application has read up to the end.
    pub(crate) read_out: bool,
    /// The application has let go of the stream.
    pub(crate) abandoned: bool,
}

impl Stream {
    pub(crate) fn new(now: Instant, send: SendStream, receive: ReceiveStream) -> Self {
        Self {
            send,
            receive,
            furthest_held: 0,
            peer_metadata: None,
            own_metadata: Bytes::new(),
            opened_at: now,
            datagrams: Arrived::default(),
            is_call: false,
            read_out: false,
            abandoned: false,
        }
    }

    /// The metadata that the stream was opened with, by whichever side.
    pub(crate) fn metadata(&self) -> &Bytes {
        match &self.peer_metadata {
            Some(metadata) if self.own_metadata.is_empty() => metadata,
            _ => &self.own_metadata,
        }
    }
}
