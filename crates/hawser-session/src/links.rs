//! The links of a session: what they carried, what they may be used for, how many channels they
//! need.

mod accounts;
mod bottlenecks;
mod counts;
mod governing;
mod lost_segments;
mod pauses;
mod rules;

use std::collections::BTreeMap;
use std::time::Duration;

use accounts::{LinkAccount, LinkAccounts};
use bottlenecks::SharedBottlenecks;
use counts::ChannelCounts;
use governing::Governing;
use hawser_path::{KernelSample, Silence};
use hawser_sched::Spread;
use hawser_sched::governor::Standing;
use hawser_sched::rules::LinkRules;
use hawser_types::{Instant, LinkIndex};
use hawser_wire::LinkRulesEntry;
pub use lost_segments::LostSegment;
use lost_segments::LostSegments;
use rules::Rules;
use smallvec::SmallVec;

use crate::channel::{Channel, LinksTraffic};
use crate::channels::Channels;
use crate::snapshot::LinkSnapshot;
use crate::streams::Streams;
use crate::unacknowledged::{ChunkKey, Unacknowledged};

/// A session's knowledge of its links, beside the measurements of their channels.
#[derive(Debug)]
pub(crate) struct Links {
    accounts: LinkAccounts,
    governing: Governing,
    bottlenecks: SharedBottlenecks,
    counts: ChannelCounts,
    rules: Rules,
    lost_segments: LostSegments,
}

/// Chunks that wait for a channel which may not be used any more.
pub(crate) type Released = SmallVec<[ChunkKey; 4]>;

impl Links {
    /// No links yet.
    pub(crate) fn new(spread: Spread) -> Self {
        Self {
            accounts: LinkAccounts::default(),
            governing: Governing::default(),
            bottlenecks: SharedBottlenecks::default(),
            counts: ChannelCounts::new(spread),
            rules: Rules::default(),
            lost_segments: LostSegments::default(),
        }
    }

    /// Returns the account of a link.
    pub(crate) fn account(&mut self, link: LinkIndex, channels: &Channels) -> &mut LinkAccount {
        self.accounts.of(link, channels)
    }

    /// Notes that a link has a new channel. `counts`: this side decides how many it has.
    pub(crate) fn on_channel(
        &mut self,
        now: Instant,
        link: LinkIndex,
        channels: &mut Channels,
        counts: bool,
    ) {
        let account = self.accounts.of(link, channels);
        account.pauses_mut().on_added(now);
        if counts {
            self.counts.add(link);
        }
        self.rules.apply(channels);
    }

    /// Notes that the link below the first channel is known now.
    pub(crate) fn on_link_known(&mut self, link: LinkIndex, channels: &mut Channels) {
        self.accounts.of(link, channels);
        self.rules.apply(channels);
    }

    /// Notes that a link lost a channel, with this record of its silences.
    pub(crate) fn on_channel_lost(
        &mut self,
        now: Instant,
        link: LinkIndex,
        channels: &Channels,
        silence: &Silence,
    ) {
        let account = self.accounts.of(link, channels);
        account.pauses_mut().on_lost(now, silence);
    }

    /// Returns the longest silence that is usual for a link; zero where none was seen.
    pub(crate) fn usual_silence(&self, link: LinkIndex) -> Duration {
        let account = self.accounts.get(link);
        account.map_or(Duration::ZERO, |account| account.pauses().patience())
    }

    /// Books the traffic of an association: `moved` since the last time, `all` since it began.
    pub(crate) fn book_association(
        &mut self,
        channels: &Channels,
        moved: &LinksTraffic,
        all: &LinksTraffic,
    ) {
        self.accounts.book_association(channels, moved, all);
    }

    /// Takes in a sample of the kernel, which the channel has taken in already. `before`: the one
    /// before it.
    pub(crate) fn on_sample(&mut self, now: Instant, channel: &Channel, before: &KernelSample) {
        self.bottlenecks.on_sample(now, channel, before);
    }

    /// Takes in what the peer says of the delay that queues add to a channel.
    pub(crate) fn on_queue(&mut self, now: Instant, channel: &Channel, queue: Duration) {
        self.bottlenecks.on_queue(now, channel, queue);
    }

    /// Charges links for what readers waited for, finds shared bottlenecks, asks the governor about
    /// every link, and follows it. Called every few milliseconds while something is in flight.
    pub(crate) fn govern(
        &mut self,
        now: Instant,
        channels: &mut Channels,
        streams: &Streams,
        unacknowledged: &Unacknowledged,
        pressure: Pressure,
    ) {
        if let Some(span) = self.governing.busy_span(now) {
            governing::book_waits(
                span,
                &mut self.accounts,
                channels,
                streams,
                unacknowledged,
                pressure.used_up,
            );
        }
        self.bottlenecks.find(now, channels);
        let demand = pressure.demand;
        self.governing.follow(now, channels, &self.accounts, demand);
    }

    /// Finds out which links may be used now, given which of them live. Tells `on_standing` of
    /// every link. Returns the chunks that wait for a link which is excluded from now on.
    pub(crate) fn review(
        &self,
        channels: &mut Channels,
        mut on_standing: impl FnMut(LinkIndex, Standing),
    ) -> Released {
        let mut released = Released::new();
        let governed_only = |channel: &Channel| channel.standing().is_governed_only();
        if self.rules.is_empty() && channels.iter().all(governed_only) {
            return released;
        }
        let living = rules::living_permissions(channels);
        for channel in channels.iter_mut() {
            let was_excluded = channel.is_excluded();
            channel.standing_mut().review(&living);
            on_standing(channel.link(), channel.standing().standing());
            if channel.is_excluded() && !was_excluded {
                released.extend(channel.outbound_mut().take_outbox());
            }
        }
        released
    }

    /// Takes the user's rules in place of those before.
    pub(crate) fn set_rules(
        &mut self,
        rules: &BTreeMap<LinkIndex, LinkRules>,
        channels: &mut Channels,
    ) {
        self.rules.set(rules);
        self.rules.apply(channels);
    }

    /// Returns the rules that a client has to tell its gateway, if it has not heard them;
    /// `knows_signals`: the gateway understands rules of links whose signal fades.
    pub(crate) fn take_rule_news(&mut self, knows_signals: bool) -> Option<Vec<LinkRulesEntry>> {
        self.rules.take_news(knows_signals)
    }

    /// Takes what the client tells of its user's rules, in place of what it told before.
    pub(crate) fn set_told_rules(&mut self, list: &[LinkRulesEntry], channels: &mut Channels) {
        self.rules.set_told(list);
        self.rules.apply(channels);
    }

    /// Returns the rules of all links that have one, for this side's direction.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (LinkIndex, LinkRules)> {
        let rules = self.rules.iter();
        rules.map(|(link, rules)| (link, rules.as_link_rules()))
    }

    /// Returns the segments that do not arrive over a link, if any.
    pub(crate) fn lost_segments(&self) -> &LostSegments {
        &self.lost_segments
    }

    /// Returns the segments that do not arrive over a link, to note others.
    pub(crate) fn lost_segments_mut(&mut self) -> &mut LostSegments {
        &mut self.lost_segments
    }

    /// Returns how many bulk channels a link should have.
    pub(crate) fn wanted_channels(&self, link: LinkIndex) -> usize {
        self.counts.wanted(link)
    }

    /// Looks at what every link carries, and calls `on_change` for each one that should have
    /// another number of bulk channels. `waits`: bulk waits for a channel.
    pub(crate) fn count_channels(
        &mut self,
        now: Instant,
        channels: &Channels,
        waits: bool,
        on_change: impl FnMut(LinkIndex),
    ) {
        let accounts = &self.accounts;
        self.counts.look(now, channels, accounts, waits, on_change);
    }

    /// Returns when the first surplus channel goes if its link stays at rest.
    pub(crate) fn next_rest(&self) -> Option<Instant> {
        self.counts.next_rest()
    }

    /// Returns what there is to see of every link.
    pub(crate) fn snapshots(&self, now: Instant, channels: &Channels) -> Vec<LinkSnapshot> {
        self.accounts.snapshots(now, channels)
    }
}

/// Data to send, compared with what may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pressure {
    demand: bool,
    used_up: bool,
}

impl Pressure {
    /// `waits`: bulk waits for a channel; `used_up`: nothing new may be sent before something is
    /// acknowledged or read.
    pub(crate) fn new(waits: bool, used_up: bool) -> Self {
        Self {
            demand: waits || used_up,
            used_up,
        }
    }

    /// True if there is more to send than links take.
    pub(crate) fn is_demand(self) -> bool {
        self.demand
    }
}
