//! Number of bulk channels that each link should have: the client's to decide, which makes the
//! connections.

use std::collections::BTreeMap;

use hawser_sched::{ChannelCount, LinkFacts, Spread};
use hawser_types::{ByteCount, Instant, LinkIndex};

use super::accounts::LinkAccounts;
use crate::channel::Channel;
use crate::channels::Channels;

/// Numbers of bulk channels of a client's links; empty at a gateway.
#[derive(Debug)]
pub(super) struct ChannelCounts {
    spread: Spread,
    by_link: BTreeMap<LinkIndex, ChannelCount>,
}

impl ChannelCounts {
    /// No links yet.
    pub(super) fn new(spread: Spread) -> Self {
        Self {
            spread,
            by_link: BTreeMap::new(),
        }
    }

    /// Finds out from now on how many channels a link should have.
    pub(super) fn add(&mut self, link: LinkIndex) {
        let spread = self.spread;
        let fresh = || ChannelCount::new(spread);
        self.by_link.entry(link).or_insert_with(fresh);
    }

    /// Returns how many channels a link should have.
    pub(super) fn wanted(&self, link: LinkIndex) -> usize {
        let count = self.by_link.get(&link).map(ChannelCount::wanted);
        count.unwrap_or_else(|| ChannelCount::new(self.spread).wanted())
    }

    /// Returns when the first surplus channel goes if its link stays at rest.
    pub(super) fn next_rest(&self) -> Option<Instant> {
        let counts = self.by_link.values();
        counts.filter_map(ChannelCount::rests_until).min()
    }

    /// Looks at what every link carries, and calls `on_change` for each link that should have
    /// another number. `waits`: bulk waits for a channel.
    pub(super) fn look(
        &mut self,
        now: Instant,
        channels: &Channels,
        accounts: &LinkAccounts,
        waits: bool,
        mut on_change: impl FnMut(LinkIndex),
    ) {
        self.by_link.retain(|link, count| {
            let Some(facts) = facts(now, *link, channels, accounts, waits) else {
                return false;
            };
            if count.on_facts(now, &facts) {
                tracing::debug!(%link, wanted = count.wanted(), "another number of bulk channels");
                on_change(*link);
            }
            true
        });
    }
}

/// Returns what is known of a link; `None` if it has no channel.
fn facts(
    now: Instant,
    link: LinkIndex,
    channels: &Channels,
    accounts: &LinkAccounts,
    waits: bool,
) -> Option<LinkFacts> {
    let account = accounts.get(link)?;
    let mut facts = LinkFacts {
        busy: waits,
        ..LinkFacts::default()
    };
    let mut shortest = None;
    for channel in channels.of_link(link) {
        let rtt = channel.path().min_rtt().unwrap_or_default();
        shortest = Some(shortest.map_or(rtt, |shortest| rtt.min(shortest)));
        facts.busy |= channel.inbound().is_flowing(now);
        facts.queue = facts.queue.max(queue(channel));
    }
    facts.rtt = shortest?;
    let in_flight = channels.in_flight_on(link);
    facts.carried = ByteCount::new(account.carried().saturating_sub(in_flight.as_u64()));
    Some(facts)
}

/// Returns the longer queue of both ways.
fn queue(channel: &Channel) -> std::time::Duration {
    let incoming = channel.path().one_way().queue().unwrap_or_default();
    channel.path().delay().standing_queue().max(incoming)
}
