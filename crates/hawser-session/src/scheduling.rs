//! The policies that place chunks, and what they see.

mod interactive;
mod link_facts;

use std::time::Duration;

use hawser_sched::PathView;
use hawser_sched::chunk::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, express_scheduler};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};
use hawser_wire::ChannelRole;
use interactive::Interactive;
use link_facts::LinksFacts;

use crate::channel::Channel;
use crate::channels::Channels;
use crate::config::ChunkSize;
use crate::transports::carries;

/// The policies of a session, the views that they are shown, and what they wait for.
#[derive(Debug)]
pub(crate) struct Scheduling {
    bulk: Box<dyn ChunkScheduler>,
    /// The policy for bulk at the last [`Scheduling::take_news`].
    told: ChunkPolicy,
    express: Box<dyn ChunkScheduler>,
    /// Views of the channels that chunks may go to now.
    views: Vec<PathView>,
    links: LinksFacts,
    /// Latest time until which a policy waits for a channel.
    wait_until: Option<Instant>,
    interactive: Interactive,
    chunk_size: ChunkSize,
}

impl Scheduling {
    /// Places bulk by `policy`.
    pub(crate) fn new(policy: ChunkPolicy, chunk_size: ChunkSize) -> Self {
        Self {
            bulk: policy.scheduler(),
            told: ChunkPolicy::default(),
            express: express_scheduler(),
            views: Vec::new(),
            links: LinksFacts::default(),
            wait_until: None,
            interactive: Interactive::default(),
            chunk_size,
        }
    }

    /// Returns the policy that places bulk.
    pub(crate) fn policy(&self) -> ChunkPolicy {
        self.bulk.policy()
    }

    /// Places bulk by another policy from now on. False if it is the same one.
    pub(crate) fn set_policy(&mut self, policy: ChunkPolicy) -> bool {
        let is_new = self.bulk.policy() != policy;
        if is_new {
            self.bulk = policy.scheduler();
        }
        is_new
    }

    /// True if the policy is another one than at the last call; before the first one it was the
    /// default.
    pub(crate) fn take_news(&mut self) -> bool {
        let policy = self.policy();
        std::mem::replace(&mut self.told, policy) != policy
    }

    /// Asks the policy for chunks of a kind, over the views.
    pub(crate) fn select(&mut self, now: Instant, role: ChannelRole, unit: ChunkUnit) -> Decision {
        let scheduler = match role {
            ChannelRole::Bulk => &mut self.bulk,
            ChannelRole::Express => &mut self.express,
        };
        scheduler.select(now, unit, &self.views)
    }

    /// Returns the views that the policy was asked over.
    pub(crate) fn views(&self) -> &[PathView] {
        &self.views
    }

    /// True if a channel in the views takes a chunk.
    pub(crate) fn any_ready(&self) -> bool {
        self.views.iter().any(|view| view.ready)
    }

    /// Returns the quickest channel in the views that has nothing to send.
    pub(crate) fn quickest_idle(&self) -> Option<ChannelId> {
        let idle = self.views.iter().filter(|view| view.ready && !view.suspect);
        idle.min_by_key(|view| view.rtt).map(|view| view.channel)
    }

    /// Takes a channel for full, in the views.
    pub(crate) fn set_full(&mut self, channel: ChannelId) {
        let view = self.views.iter_mut().find(|view| view.channel == channel);
        if let Some(view) = view {
            view.ready = false;
        }
    }

    /// Notes in the views that a channel has another chunk.
    pub(crate) fn on_assigned(&mut self, channel: ChannelId, link: LinkIndex, length: ByteCount) {
        for view in self.views.iter_mut().filter(|view| view.link == link) {
            if view.channel == channel {
                view.ready = false;
                view.in_flight += length;
            } else {
                view.beside += length;
            }
        }
    }

    /// Ends all waits: the policies are asked anew.
    pub(crate) fn end_waits(&mut self) {
        self.wait_until = None;
    }

    /// Notes that a policy waits, until `until` at most.
    pub(crate) fn wait(&mut self, until: Option<Instant>) {
        self.wait_until = self.wait_until.into_iter().chain(until).min();
    }

    /// Returns the time at which a policy is to be asked again at the latest.
    pub(crate) fn waits_until(&self) -> Option<Instant> {
        self.wait_until
    }

    /// True if preferred channels are to be seen alone before all are. Auto weighs the user's wish
    /// itself, and redundant wants two links anyway.
    pub(crate) fn preferred_go_first(&self, role: ChannelRole) -> bool {
        let by_itself = matches!(self.policy(), ChunkPolicy::Auto | ChunkPolicy::Redundant);
        (role == ChannelRole::Express || !by_itself) && self.views.iter().any(|v| v.preferred)
    }

    /// Hides all channels but those that the user prefers.
    pub(crate) fn hide_others_than_preferred(&mut self) {
        self.views.retain(|view| view.preferred);
    }

    /// Refreshes the views of the channels that chunks of a kind may use.
    ///
    /// Each kind has its own channel on every link. Where a link has none for bulk, or no sound
    /// link has one for express, the other kind's serves. A link on which one channel is suspect is
    /// left alone while there are others. While a link's express channel pauses, its bulk channel
    /// serves beside it. No policy sees a link that may not be used.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        role: ChannelRole,
        channels: &Channels,
        association: Option<ChannelId>,
    ) {
        self.links.gather(channels, role, association);
        self.views.clear();
        let (any_sound, any_own) = (self.links.any_sound(), self.links.any_own());
        let usable = |c: &&Channel| !c.is_excluded() && carries(c, association);
        for channel in channels.iter().filter(usable) {
            let Some(link) = self.links.of(channel.route()) else {
                continue;
            };
            let has_own = match role {
                ChannelRole::Bulk => link.has_own(),
                ChannelRole::Express => any_own,
            };
            let usable = !any_sound || !link.is_suspect();
            if usable && (channel.role() == role || !has_own || link.pauses()) {
                let mut view = channel.view(now, self.chunk_size(now, channel));
                view.beside = link.beside(channel);
                if role == ChannelRole::Express {
                    know_link(now, &mut view, channels);
                }
                // Others take the rate for a share, which one slow moment does not change.
                if self.policy() == ChunkPolicy::Auto
                    && let Some(pace) = channels.slow_pace(now, channel)
                {
                    view.rate = pace.max(SLOWEST);
                }
                self.views.push(view);
            }
        }
    }

    /// Returns the size of chunks for a channel.
    pub(crate) fn chunk_size(&self, now: Instant, channel: &Channel) -> ChunkSize {
        let size = self.chunk_size;
        self.interactive.chunk_size(now, channel, size)
    }

    /// Takes note of a chunk that was cut from a stream.
    pub(crate) fn on_cut(&mut self, now: Instant, role: ChannelRole, length: usize) {
        self.interactive.on_cut(now, role, length);
    }

    /// True if a channel's bulk would only stand in its link's queue, where interactive data has to
    /// go. `in_flight`: bytes written that the peer's kernel has not acknowledged, asked only when
    /// it matters.
    pub(crate) fn restrains(
        &self,
        now: Instant,
        channel: &Channel,
        channels: &Channels,
        in_flight: impl Fn() -> ByteCount,
    ) -> bool {
        let shortest = || -> Duration { channels.shortest_path().unwrap_or_default() };
        self.interactive
            .restrains(now, channel, shortest, in_flight)
    }
}

/// Rate of a channel that brings nothing now.
const SLOWEST: Rate = Rate::from_bytes_per_second(100);

/// Puts the rate of the link into the view of an express channel, which has too little to send to
/// know it: its neighbours together may.
fn know_link(now: Instant, view: &mut PathView, channels: &Channels) {
    let (mut rate, mut most) = (Rate::ZERO, view.confidence);
    for other in channels.of_link(view.link) {
        if other.id() != view.channel {
            rate = rate + other.path().rate();
            most = most.max(other.path().delivery().confidence(now));
        }
    }
    if most > view.confidence {
        (view.rate, view.confidence) = (rate, most);
    }
}
