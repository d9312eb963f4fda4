/// Budget for bytes that are sent twice ahead of need, by the session and by its associations.
#[derive(Debug, Default)]
pub(crate) struct DuplicateBudget {
    /// Bytes of payload sent on any channel since the session began, datagrams among them.
    sent: u64,
    spent: u64,
}

impl DuplicateBudget {
    /// Notes payload that was sent.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// Charges bytes that are sent twice.
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.spent += bytes;
    }

    /// True if so many bytes may be sent twice.
    pub(crate) fn allows(&self, bytes: u64) -> bool {
        self.spent + bytes <= self.sent / SHARE + FLOOR
    }

    /// Charges bytes if they may be sent twice. True if so.
    pub(crate) fn try_spend(&mut self, bytes: u64) -> bool {
        let allowed = self.allows(bytes);
        if allowed {
            self.spend(bytes);
        }
        allowed
    }
}

/// At most one byte in this many is sent twice ahead of need.
const SHARE: u64 = 50;
/// Bytes that may be sent twice besides, so that small transfers have tails that can be helped.
const FLOOR: u64 = 256 * 1024;
