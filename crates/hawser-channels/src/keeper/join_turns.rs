use std::time::Duration;

use hawser_types::Instant;
use hawser_wire::ChannelRole;

/// Coordinates the attempts of one link.
///
/// If a round trip takes longer than the pause between attempts, several connections would join for
/// one channel. The gateway would accept all of them and put data on them, and the client would
/// drop them when their answers arrive.
#[derive(Debug, Default)]
pub struct JoinTurns {
    /// Time until which an answer to a join is likely to arrive, by role.
    expected: [Instant; 2],
}

impl JoinTurns {
    /// Returns whether a connection may join now, and records that it does. `took` is the time to
    /// connect, which is one round trip.
    pub fn take(&mut self, now: Instant, role: ChannelRole, took: Duration) -> bool {
        let expected = &mut self.expected[role as usize];
        let is_free = *expected <= now;
        if is_free {
            *expected = now + (took * 2).max(MIN_TURN);
        }
        is_free
    }

    /// Records the end of the join that had the turn.
    pub fn give_back(&mut self, role: ChannelRole) {
        self.expected[role as usize] = Instant::ZERO;
    }
}

/// Time that the gateway may need in addition to a round trip.
const MIN_TURN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_connections_the_later_one_stands_back_until_the_first_has_ended() {
        let (mut turns, now) = (JoinTurns::default(), Instant::from_nanos(1));
        let long = Duration::from_secs(60);
        assert!(turns.take(now, ChannelRole::Bulk, long));
        assert!(!turns.take(now, ChannelRole::Bulk, long));
        assert!(turns.take(now, ChannelRole::Express, long));
        turns.give_back(ChannelRole::Bulk);
        assert!(turns.take(now, ChannelRole::Bulk, long));
    }

    #[test]
    fn a_join_that_is_not_answered_in_two_round_trips_holds_up_no_other() {
        let (mut turns, now) = (JoinTurns::default(), Instant::from_nanos(1));
        let round_trip = Duration::from_millis(200);
        assert!(turns.take(now, ChannelRole::Bulk, round_trip));
        assert!(!turns.take(now + round_trip, ChannelRole::Bulk, round_trip));
        assert!(turns.take(now + round_trip * 2, ChannelRole::Bulk, round_trip));
    }
}
