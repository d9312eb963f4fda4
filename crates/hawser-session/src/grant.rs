use hawser_types::{ChannelId, RangeSet};
use hawser_wire::Grant;

/// The gateway's book of the channel numbers it gave out.
#[derive(Debug)]
pub(crate) struct Granted {
    used: RangeSet,
    next: u32,
}

/// Reason for refusing a connection that would join a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinRefused {
    /// No grant has this number.
    #[error("{0} was never granted")]
    NotGranted(ChannelId),
    /// A channel with this number was there before; a replay, or a mistake.
    #[error("{0} was used before")]
    Used(ChannelId),
    /// The session has as many channels as it may have.
    #[error("the session has {0} channels, as many as allowed")]
    TooManyChannels(usize),
}

impl Granted {
    pub(crate) fn new() -> Self {
        let mut used = RangeSet::default();
        // Channel 0 is the connection that the session began with.
        used.insert(0..1);
        Self { used, next: 1 }
    }

    /// The next batch, when it is time for one.
    pub(crate) fn replenish(&mut self) -> Option<Grant> {
        let highest_used = u32::try_from(self.used.end()).unwrap_or(u32::MAX);
        if self.next.saturating_sub(highest_used) >= BATCH / 2 || self.next > u32::MAX - BATCH {
            return None;
        }
        let first = ChannelId::new(self.next);
        self.next += BATCH;
        Some(Grant {
            first,
            count: BATCH,
            addresses: Vec::new(),
        })
    }

    /// Checks whether a connection may join under this number.
    pub(crate) fn check(&self, channel: ChannelId) -> Result<(), JoinRefused> {
        if channel.value() >= self.next {
            return Err(JoinRefused::NotGranted(channel));
        }
        if self.used.contains(u64::from(channel.value())) {
            return Err(JoinRefused::Used(channel));
        }
        Ok(())
    }

    /// The number is used up for good, and so are those far below it: a client that leaves numbers
    /// out would make the set grow.
    pub(crate) fn mark_used(&mut self, channel: ChannelId) {
        let number = u64::from(channel.value());
        self.used.insert(number..number + 1);
        let highest = self.used.end().min(u64::from(self.next));
        let far_below = highest.saturating_sub(MAX_BEHIND);
        if far_below > self.used.prefix() {
            self.used.insert(0..far_below);
        }
    }
}

/// The client's store of channel numbers.
#[derive(Debug, Default)]
pub(crate) struct Received {
    next: u32,
    end: u32,
}

impl Received {
    /// Adds a batch. Batches follow one another; one that does not is ignored.
    pub(crate) fn add(&mut self, grant: &Grant) {
        let first = grant.first.value();
        if first >= self.end {
            if self.next == self.end {
                self.next = first;
            }
            self.end = first.saturating_add(grant.count);
        }
    }

    /// A number that was not used before.
    pub(crate) fn take(&mut self) -> Option<ChannelId> {
        let id = (self.next < self.end).then(|| ChannelId::new(self.next))?;
        self.next += 1;
        Some(id)
    }
}

/// Numbers in one grant; a new one follows when half of it may be used up.
const BATCH: u32 = 64;
/// Numbers below the highest used one that can still be used. Joins of a correct client overtake
/// far fewer.
const MAX_BEHIND: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_granted_once_and_used_once() {
        let (mut granted, mut received) = (Granted::new(), Received::default());
        assert_eq!(received.take(), None);
        received.add(&granted.replenish().unwrap());
        let id = received.take().unwrap();
        assert_eq!(id, ChannelId::new(1));
        assert_eq!(granted.check(id), Ok(()));
        granted.mark_used(id);
        assert_eq!(granted.check(id), Err(JoinRefused::Used(id)));
        let far = ChannelId::new(65);
        assert_eq!(granted.check(far), Err(JoinRefused::NotGranted(far)));
        assert_eq!(
            granted.check(ChannelId::new(0)),
            Err(JoinRefused::Used(ChannelId::new(0)))
        );
    }

    #[test]
    fn numbers_that_are_left_out_do_not_add_up() {
        let mut granted = Granted::new();
        for number in (2..100_000).step_by(2) {
            granted.replenish();
            let channel = ChannelId::new(number);
            assert_eq!(granted.check(channel), Ok(()));
            granted.mark_used(channel);
        }
        assert!(granted.used.range_count() as u64 <= MAX_BEHIND / 2 + 1);
        let (near, far) = (ChannelId::new(99_001), ChannelId::new(98_001));
        assert_eq!(granted.check(near), Ok(()));
        assert_eq!(granted.check(far), Err(JoinRefused::Used(far)));
    }

    #[test]
    fn grants_never_run_dry_while_joins_arrive() {
        let (mut granted, mut received) = (Granted::new(), Received::default());
        received.add(&granted.replenish().unwrap());
        for _ in 0..1000 {
            let id = received.take().unwrap();
            granted.check(id).unwrap();
            granted.mark_used(id);
            if let Some(grant) = granted.replenish() {
                received.add(&grant);
            }
        }
        assert!(granted.used.range_count() == 1);
    }
}
