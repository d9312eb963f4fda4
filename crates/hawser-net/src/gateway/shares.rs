//! Gives a gateway's next session its share of the memory without sharing out the memory anew.

/// The share of the next session, as long as enough memory is left.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// Memory for received data, for each session.
    receive: u64,
    /// Memory for sent data, for each session.
    send: u64,
    /// Unassigned memory for received data and for sent data.
    left: [u64; 2],
}

impl Shares {
    /// `receive` and `send`: the share of each session. `left`: the unassigned memory for received
    /// data and for sent data.
    pub(super) fn new(receive: u64, send: u64, left: [u64; 2]) -> Self {
        Self {
            receive,
            send,
            left,
        }
    }

    pub(super) fn receive(&self) -> u64 {
        self.receive
    }

    pub(super) fn send(&self) -> u64 {
        self.send
    }

    /// Takes a session's share and half of its recorder's memory from each kind of memory. Returns
    /// false, and takes nothing, if too little is left.
    pub(super) fn take(&mut self, recorder: u64) -> bool {
        if self.send < MIN_SENDING {
            return false;
        }
        let [received, sent] = self.left;
        let received = received.checked_sub(self.receive.saturating_add(recorder / 2));
        let sent = sent.checked_sub(self.send.saturating_add(recorder / 2));
        let (Some(received), Some(sent)) = (received, sent) else {
            return false;
        };
        self.left = [received, sent];
        true
    }
}

/// One chunk: with less, a session would stall.
pub(super) const MIN_SENDING: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_the_same_until_nothing_is_left() {
        let mib = 1 << 20;
        let mut shares = Shares::new(2 * mib, mib, [5 * mib, 9 * mib]);
        assert!(shares.take(mib));
        assert!(shares.take(mib));
        assert!(!shares.take(mib));
        assert_eq!(shares.left, [0, 6 * mib]);
        assert!(!Shares::default().take(0));
    }
}
