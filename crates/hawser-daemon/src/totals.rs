//! Sums of the counters of all sessions since the daemon started.

use std::collections::BTreeMap;

use hawser_session::{Counters, SessionSnapshot, TunnelCounts};
use hawser_types::ChannelId;

use super::picture::{counted, packets_counted};
use super::subject::View;

/// Sums that only grow, updated once a second. They keep the counts of ended sessions up to the
/// last update.
#[derive(Default)]
pub(super) struct Totals {
    sums: BTreeMap<&'static str, u64>,
    /// Counters of the sessions at the last update, by the sessions' names.
    sessions: BTreeMap<String, SessionCounters>,
}

/// The counters of one session.
#[derive(Default)]
struct SessionCounters {
    counters: Counters,
    tunnel: TunnelCounts,
    /// Number of segments that the kernel has retransmitted, for each channel.
    segments: BTreeMap<ChannelId, u64>,
}

impl Totals {
    /// Updates the sums to the sessions' current counters.
    pub(super) fn enter(&mut self, views: &[View]) {
        let mut before = std::mem::take(&mut self.sessions);
        for view in views {
            let mut seen = before.remove(&view.id).unwrap_or_default();
            if let Some(session) = &view.session {
                seen = self.enter_session(&seen, session);
            }
            self.sessions.insert(view.id.clone(), seen);
        }
    }

    /// Adds the sums to the counters of the daemon.
    pub(super) fn list(&self, counters: &mut BTreeMap<String, u64>) {
        let named = |(name, sum): (&&str, &u64)| (format!("sessions-{name}"), *sum);
        counters.extend(self.sums.iter().map(named));
    }

    fn enter_session(
        &mut self,
        before: &SessionCounters,
        session: &SessionSnapshot,
    ) -> SessionCounters {
        let all = |counters, tunnel| counted(counters).into_iter().chain(packets_counted(tunnel));
        let counters = all(&before.counters, &before.tunnel);
        let now = all(&session.counters, &session.tunnel);
        for ((_, before), (name, now)) in counters.zip(now) {
            self.add(name, before, now);
        }
        let again =
            |channel: &hawser_session::ChannelSnapshot| (channel.id, channel.retransmissions);
        let segments: BTreeMap<_, _> = session.channels.iter().map(again).collect();
        for (channel, now) in &segments {
            let before = before.segments.get(channel).copied();
            self.add(SEGMENTS, before.unwrap_or_default(), *now);
        }
        SessionCounters {
            counters: session.counters,
            tunnel: session.tunnel,
            segments,
        }
    }

    fn add(&mut self, name: &'static str, before: u64, now: u64) {
        let sum = self.sums.entry(name).or_default();
        *sum = sum.saturating_add(now.saturating_sub(before));
    }
}

/// Name of the counter of segments that the kernel has retransmitted on channels.
const SEGMENTS: &str = "segments-again";

#[cfg(test)]
mod tests {
    use super::super::books::tests::view;
    use super::*;

    /// A session with these numbers of retransmitted chunks, and of retransmitted segments by
    /// channel.
    fn counted(id: &str, chunks: u64, channels: &[(u32, u64)]) -> View {
        let sent: Vec<_> = channels.iter().map(|(id, _)| (*id, 0)).collect();
        let mut view = view(&sent, &[]);
        view.id = id.to_owned();
        if let Some(session) = &mut view.session {
            session.counters.chunks_again = chunks;
            for (channel, (_, again)) in session.channels.iter_mut().zip(channels) {
                channel.retransmissions = *again;
            }
        }
        view
    }

    #[test]
    fn what_sessions_and_channels_have_counted_stays_when_they_end() {
        let mut totals = Totals::default();
        let mut enter = |views: &[View]| {
            totals.enter(views);
            let mut list = BTreeMap::new();
            totals.list(&mut list);
            let sum = |name: &str| list.get(name).copied().unwrap_or_default();
            (sum("sessions-chunks-again"), sum("sessions-segments-again"))
        };
        let other = || counted("b", 100, &[(1, 1000)]);
        assert_eq!(enter(&[counted("a", 3, &[(1, 10)]), other()]), (103, 1010));
        // One channel has closed, and another one has opened.
        assert_eq!(enter(&[counted("a", 5, &[(2, 7)]), other()]), (105, 1017));
        assert_eq!(enter(&[other()]), (105, 1017));
        // A session that is being established has no counts yet, and begins from zero.
        let unmade = View {
            session: None,
            ..counted("a", 0, &[])
        };
        assert_eq!(enter(&[unmade]), (105, 1017));
        assert_eq!(enter(&[counted("a", 2, &[(1, 1)])]), (107, 1018));
    }

    #[test]
    fn everything_that_is_counted_is_listed_from_the_first_session_on() {
        let mut totals = Totals::default();
        totals.enter(&[counted("a", 0, &[(1, 0)])]);
        let mut list = BTreeMap::new();
        totals.list(&mut list);
        assert_eq!(list.len(), 19);
    }
}
