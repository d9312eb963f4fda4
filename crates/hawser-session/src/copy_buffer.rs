use bytes::Bytes;

use crate::arena::Arena;

/// Memory for copies of what an application writes from borrowed slices.
///
/// A writer copies into it before it takes the session's lock, and gives the copy to
/// [`Session::write`](crate::Session::write), which does not copy large pieces again. Memory is
/// used again once the peer has acknowledged what was in it.
#[derive(Debug, Default)]
pub struct CopyBuffer {
    memory: Arena,
}

impl CopyBuffer {
    /// Copies as many of `bytes` as fit the present piece of memory; never none, unless there are
    /// none.
    pub fn copy(&mut self, bytes: &[u8]) -> Bytes {
        self.memory.copy(bytes)
    }

    /// Gives back memory that was not needed since the last call. Call it about once a second
    /// while [`CopyBuffer::holds_memory`].
    pub fn trim(&mut self) {
        self.memory.trim();
    }

    /// True if there is memory that [`CopyBuffer::trim`] could give back, now or later.
    pub fn holds_memory(&self) -> bool {
        self.memory.holds_memory()
    }
}
