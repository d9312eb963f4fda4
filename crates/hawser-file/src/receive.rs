//! The receiving end.

use std::path::Path;
use std::sync::Arc;

use tokio::io::AsyncWrite;

use super::error::{ReceiveError, StoreError};
use super::inbox::Inbox;
use super::incoming::{Incoming, Received};
use super::options::ReceiveOptions;
use super::progress::Progress;
use super::transport::UnorderedRead;

/// Receives files into one directory, many at a time. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Receiver {
    inbox: Arc<Inbox>,
}

impl Receiver {
    /// Receives into `directory`, which must exist.
    pub fn new(directory: &Path, options: ReceiveOptions) -> Result<Self, StoreError> {
        Ok(Self {
            inbox: Arc::new(Inbox::open(directory, options)?),
        })
    }

    /// Receives the file of one stream.
    ///
    /// The result is also reported to the sender, unless the stream itself failed. The received
    /// part of an interrupted file is kept, and the next transfer of the file continues with it.
    /// Dropping the future interrupts the transfer.
    pub async fn receive<R, W>(
        &self,
        reader: R,
        writer: W,
        progress: &dyn Progress,
    ) -> Result<Received, ReceiveError>
    where
        R: UnorderedRead + Send,
        W: AsyncWrite + Unpin + Send,
    {
        let mut incoming = Incoming::new(&self.inbox, reader, writer, progress);
        let result = incoming.run().await;
        incoming.tell(&result).await;
        result
    }
}
