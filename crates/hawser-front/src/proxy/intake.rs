//! Bytes that have been read and not yet consumed.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::parse::{Malformed, Parse};

/// A buffer that grows with the size of reads and costs nothing while it is empty and idle.
#[derive(Debug, Default)]
pub(super) struct Intake {
    bytes: Vec<u8>,
    start: usize,
    /// The size of the next read.
    step: usize,
}

impl Intake {
    pub(super) fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unread().is_empty()
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.bytes.len());
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// All unread bytes.
    pub(super) fn into_unread(mut self) -> Vec<u8> {
        self.bytes.drain(..self.start);
        self.bytes
    }

    /// Frees the memory of an empty buffer.
    pub(super) fn rest(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Reads once; 0 is the end. No bytes are lost when the future is dropped.
    pub(super) async fn fill<R: AsyncRead + Unpin>(&mut self, reader: &mut R) -> io::Result<usize> {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.step = self.step.max(MIN_STEP);
        self.bytes.reserve_exact(self.step);
        let read = reader.read_buf(&mut self.bytes).await?;
        if read >= self.step {
            self.step = (self.step * 2).min(MAX_STEP);
        }
        Ok(read)
    }

    /// Reads until `parse` returns a complete message, and consumes it.
    pub(super) async fn read_message<R, T>(
        &mut self,
        reader: &mut R,
        mut parse: impl FnMut(&[u8]) -> Parse<T>,
    ) -> Result<T, Fault>
    where
        R: AsyncRead + Unpin,
    {
        loop {
            match parse(self.unread()) {
                Parse::Parsed { value, consumed } => {
                    self.consume(consumed);
                    return Ok(value);
                }
                Parse::Malformed(reason) => return Err(Fault::Malformed(reason)),
                Parse::Incomplete => {}
            }
            let was_empty = self.is_empty();
            match self.fill(reader).await {
                Ok(0) if was_empty => return Err(Fault::Gone),
                Ok(0) => return Err(Fault::Malformed(Malformed::Truncated)),
                Ok(_) => {}
                Err(_) => return Err(Fault::Gone),
            }
        }
    }
}

/// The reason why a connection was not served to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The client broke the protocol.
    Malformed(Malformed),
    /// The client did not finish its request in time.
    TooSlow,
    /// The client went away.
    Gone,
}

const MIN_STEP: usize = 4 * 1024;
const MAX_STEP: usize = 64 * 1024;
