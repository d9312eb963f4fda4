use std::cell::RefCell;

/// A buffer of [`MAX_HELD`] bytes, from the thread's stock where there is one.
pub(super) fn take() -> Box<[u8]> {
    STOCK
        .with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| vec![0; MAX_HELD].into_boxed_slice())
}

/// Gives a buffer back to the stock of this thread; one of another size or too many is freed.
pub(super) fn give_back(buffer: Box<[u8]>) {
    STOCK.with_borrow_mut(|stock| {
        if buffer.len() == MAX_HELD && stock.len() < MAX_STOCK {
            stock.push(buffer);
        }
    });
}

/// Bytes that were read and not yet written.
#[derive(Debug)]
pub(super) struct Held {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Held {
    /// The first `length` bytes of `buffer`.
    pub(super) fn new(buffer: Box<[u8]>, length: usize) -> Self {
        let end = length.min(buffer.len());
        Self {
            buffer,
            start: 0,
            end,
        }
    }

    pub(super) fn unwritten(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(super) fn advance(&mut self, written: usize) {
        self.start = (self.start + written).min(self.end);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Moves a small rest out of a large buffer, which others can use meanwhile.
    pub(super) fn shrink(&mut self) {
        let rest = self.unwritten();
        if rest.len() > self.buffer.len() / 4 {
            return;
        }
        let rest: Box<[u8]> = rest.into();
        self.start = 0;
        self.end = rest.len();
        give_back(std::mem::replace(&mut self.buffer, rest));
    }

    pub(super) fn release(self) {
        give_back(self.buffer);
    }
}

/// The most that a relay holds in one direction, and the size of its reads at full speed.
pub const MAX_HELD: usize = 128 * 1024;

/// Enough for the relays that are in the middle of a read or write on one thread.
const MAX_STOCK: usize = 8;

thread_local! {
    static STOCK: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}
