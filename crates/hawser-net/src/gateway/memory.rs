//! One bound on the data of all sessions together.
//!
//! Half of it is for received data that waits to be handed on, half for sent data that is not
//! acknowledged. Each half is shared out so that no session loses memory that it holds, and all
//! sessions may otherwise have the same: as much as a session's configuration asks for, at most a
//! quarter of the half. Every session has a little besides: a quarter of its share, or 1 MiB, for
//! the first 64 KiB of credit of its streams, and one chunk's worth of sending.
//!
//! The following is subtracted before the halves are made:
//!
//! - the memory of the sessions' recorders, a quarter at most;
//! - the clients' charges for sessions, channels, streams and lookups (`accounts.rs`), half at
//!   most;
//! - the memory that channels read into: an eighth, and one record of each channel besides, until
//!   one client has more than its part;
//! - the memory of connections that have not proved who they are (`half_open.rs`);
//! - the memory of associations for their keys and for data that arrives out of order. Above a
//!   quarter, the largest of them end. Their sent data counts as the data of their sessions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hawser_session::SessionConfig;
use hawser_types::{ByteCount, SessionId};

use super::config::GatewayConfig;
use super::shared::{Entry, GatewayState};
use super::shares::{MIN_SENDING, Shares};
use crate::driver::Driver;
use crate::ticks::Ticks;

/// Shares out anew every second, since the memory that sessions hold changes.
pub(super) async fn keep(shared: Arc<GatewayState>) {
    let mut ticks = Ticks::every(PERIOD);
    loop {
        ticks.tick().await;
        let associations = shared.associations.get();
        let most = shared.config.limits.memory.as_u64() / 4;
        let held = associations.map(|it| it.bound(ByteCount::new(most)));
        shared.note_associations(held.unwrap_or_default());
        let sessions = shared.sessions.lock();
        *shared.shares.lock() = share_out(&shared, &sessions);
    }
}

/// The configuration of one session of a gateway: its recorder has at most its part of a quarter of
/// the memory, for the highest permitted number of sessions.
pub(super) fn for_session(config: &GatewayConfig) -> SessionConfig {
    let limits = &config.limits;
    let sessions = u64::try_from(limits.sessions.max(1)).unwrap_or(u64::MAX);
    let part = ByteCount::new(limits.memory.as_u64() / 4 / sessions);
    let fitting = config.session.recorder.min(part);
    SessionConfig {
        recorder: if fitting < MIN_RECORDER {
            ByteCount::ZERO
        } else {
            fitting
        },
        ..config.session.clone()
    }
}

/// Gives a new session the share of all others if that much is left; otherwise shares out anew.
///
/// Sharing out asks every session. After a restart a thousand of them begin at once.
pub(super) fn begin(shared: &GatewayState, sessions: &HashMap<SessionId, Entry>, new: &Driver) {
    let recorder = for_session(&shared.config).recorder.as_u64();
    let mut shares = shared.shares.lock();
    if shares.take(recorder) {
        let (receive, send) = (
            ByteCount::new(shares.receive()),
            ByteCount::new(shares.send()),
        );
        new.with(|session, now| session.set_memory(now, receive, send));
    } else {
        *shares = share_out(shared, sessions);
    }
}

/// Gives every session its share.
fn share_out(shared: &GatewayState, sessions: &HashMap<SessionId, Entry>) -> Shares {
    let recorder = for_session(&shared.config).recorder.as_u64();
    let recorders = recorder.saturating_mul(sessions.len() as u64);
    let memory = shared.config.limits.memory.as_u64();
    let others = recorders
        .saturating_add(shared.held_by_associations().as_u64())
        .saturating_add(shared.half_open.held().as_u64())
        .saturating_add(shared.accounts.held().as_u64());
    let half = memory.saturating_sub(others) / 2;
    let config = &shared.config.session;
    let most = |wanted: ByteCount| wanted.as_u64().min(half / 4);
    // First, no session may take more, so that the counted memory is the held memory.
    let stop = |entry: &Entry| {
        let least = ByteCount::new(MIN_SENDING);
        let (received, sent) = entry.driver.with(|session, _| session.stop_lending(least));
        (received.as_u64(), sent.as_u64())
    };
    let held: Vec<_> = sessions.values().map(stop).collect();
    let received: Vec<u64> = held.iter().map(|(received, _)| *received).collect();
    let sent: Vec<u64> = held.iter().map(|(_, sent)| *sent).collect();
    let receive = share(half, most(config.receive_memory), &received);
    let send = share(half, most(config.send_memory), &sent).max(MIN_SENDING);
    let left = |share: u64, held: &[u64]| {
        let taken: u64 = held.iter().map(|held| share.max(*held)).sum();
        half.saturating_sub(taken)
    };
    let left = [left(receive, &received), left(send, &sent)];
    for (entry, (received, sent)) in sessions.values().zip(held) {
        let receive = ByteCount::new(receive.max(received));
        let send = ByteCount::new(send.max(sent));
        entry
            .driver
            .with(|session, now| session.set_memory(now, receive, send));
    }
    Shares::new(receive, send, left)
}

/// The memory that is known to be held.
pub(super) fn charged(shared: &GatewayState) -> ByteCount {
    let associations = shared.associations.get();
    let associations = associations.map(|it| it.held()).unwrap_or_default();
    let sessions = shared.sessions.lock();
    let of_session = |entry: &Entry| entry.driver.with(|session, _| session.memory().as_u64());
    let data = sessions.values().map(of_session).sum();
    let strangers = shared.half_open.held();
    shared.accounts.held() + strangers + associations + ByteCount::new(data)
}

/// The share of each session: the highest one, or up to an eighth less if there is not enough for
/// all, so that the next sessions may have the same.
fn share(budget: u64, most: u64, held: &[u64]) -> u64 {
    let share = level(budget, most, held);
    let step = (share / 8).max(1).next_power_of_two() / 2;
    if share < most && step > 0 {
        share - share % step
    } else {
        share
    }
}

/// The highest share, up to `most`, with which all sessions together are within `budget`. Sessions
/// that hold more than this share keep the memory that they hold.
fn level(budget: u64, most: u64, held: &[u64]) -> u64 {
    let fits = |share: u64| held.iter().map(|held| share.max(*held)).sum::<u64>() <= budget;
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle
        } else {
            high = middle - 1
        }
    }
    low
}

/// Memory of a session beside its data and its channels. A charge; see docs/design/charges.md.
pub(super) const SESSION_CHARGE: ByteCount = ByteCount::from_kib(32);

const PERIOD: Duration = Duration::from_secs(1);

/// A smaller recorder keeps nothing of use.
const MIN_RECORDER: ByteCount = ByteCount::from_kib(32);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn recorders_have_a_quarter_at_most_and_none_rather_than_little() {
        let recorder = |sessions, memory| {
            let config = GatewayConfig {
                identity: hawser_keys::identity::Identity::generate().unwrap(),
                session: SessionConfig::default(),
                limits: super::super::AcceptLimits {
                    sessions,
                    memory,
                    ..Default::default()
                },
                congestion: None,
                predecessor: None,
            };
            for_session(&config).recorder
        };
        let (mib, gib) = (ByteCount::from_mib(1), ByteCount::from_mib(1024));
        assert_eq!(recorder(16, gib), mib);
        assert_eq!(recorder(1024, gib), ByteCount::from_kib(256));
        assert_eq!(recorder(1024, mib), ByteCount::ZERO);
    }

    #[test]
    fn few_beginnings_of_many_make_all_sessions_share_anew() {
        let budget = 1 << 30;
        let (mut shares, mut left) = (0, 0);
        let mut count = 0;
        for sessions in 1..=1000 {
            if left < shares || shares == 0 {
                let held = vec![0; sessions];
                shares = share(budget, budget / 4, &held);
                left = budget - shares * sessions as u64;
                count += 1;
            } else {
                left -= shares;
            }
        }
        assert!(count < 60, "{count}");
    }

    #[test]
    fn all_sessions_get_what_they_ask_for_while_there_is_enough_and_then_the_same() {
        assert_eq!(level(100, 20, &[0, 7]), 20);
        assert_eq!(level(100, 90, &[0, 0, 0, 0]), 25);
        // A session that holds more keeps it, and the others share the rest.
        assert_eq!(level(100, 90, &[70, 0, 0]), 15);
        assert_eq!(level(100, 90, &[70, 30, 0]), 0);
        assert_eq!(level(100, 90, &[]), 90);
    }

    proptest! {
        #[test]
        fn the_shares_are_within_the_budget_and_no_larger_ones_are(
            budget in 0..10_000_u64,
            most in 0..10_000_u64,
            parts in prop::collection::vec(0..100_u64, 1..20),
        ) {
            // The held memory was within the budget before.
            let scale = parts.iter().sum::<u64>().max(1);
            let held: Vec<u64> = parts.iter().map(|part| part * budget / scale).collect();
            let total = |share: u64| held.iter().map(|held| share.max(*held)).sum::<u64>();
            let share = level(budget, most, &held);
            prop_assert!(share <= most && total(share) <= budget);
            prop_assert!(share == most || total(share + 1) > budget);
            let rounded = super::share(budget, most, &held);
            prop_assert!(rounded <= share && rounded >= share - share / 8);
        }
    }
}
