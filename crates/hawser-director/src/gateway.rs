use std::time::Duration;

use hawser_sched::connection::{GatewayUse, Load};
use hawser_types::{ByteCount, Instant, LinkIndex, Rate};

use super::charges::Charges;
use super::estimates::Estimates;
use super::report::GatewayReport;
use super::sites::Sites;

/// A session with a gateway at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SessionView {
    /// Its links, each with the round-trip time to the gateway.
    pub links: Vec<(LinkIndex, Duration)>,
    /// Bytes that went over all of them in it: sent and acknowledged, and received.
    pub moved: [ByteCount; 2],
}

/// What is known of the gateway, and of the connections over it.
#[derive(Debug)]
pub(crate) struct GatewayRecord {
    usage: GatewayUse,
    estimates: Estimates,
    charges: Charges,
    /// The session, and the time at which it was so; `None` while there is none.
    session: Option<(Instant, SessionView)>,
    /// The time of the session's state whose bytes were counted last.
    counted: Option<Instant>,
    /// True, sent and received, if a connection was active on it without a pause since then.
    busy: [bool; 2],
    sites: Sites,
}

impl GatewayRecord {
    pub(crate) fn new(usage: GatewayUse) -> Self {
        Self {
            usage,
            estimates: Estimates::default(),
            charges: Charges::default(),
            session: None,
            counted: None,
            busy: [false; 2],
            sites: Sites::default(),
        }
    }

    pub(crate) const fn usage(&self) -> GatewayUse {
        self.usage
    }

    pub(crate) const fn set_usage(&mut self, usage: GatewayUse) {
        self.usage = usage;
    }

    pub(crate) const fn sites(&self) -> &Sites {
        &self.sites
    }

    pub(crate) const fn sites_mut(&mut self) -> &mut Sites {
        &mut self.sites
    }

    pub(crate) const fn parts_mut(&mut self) -> (&mut Estimates, &mut Charges) {
        (&mut self.estimates, &mut self.charges)
    }

    pub(crate) const fn load(&self) -> Load {
        self.charges.load()
    }

    pub(crate) fn set_session(&mut self, now: Instant, session: Option<SessionView>) {
        self.session = session.map(|session| (now, session));
    }

    pub(crate) fn session(&self) -> Option<&SessionView> {
        Some(&self.session.as_ref()?.1)
    }

    /// True if a session runs, or is waited for.
    pub(crate) fn is_there(&self) -> bool {
        // One that is not for everything is not waited for.
        self.session.is_some() || self.usage == GatewayUse::Always
    }

    /// True if the session runs over the link.
    pub(crate) fn is_on(&self, link: LinkIndex) -> bool {
        let mut links = self.session().into_iter().flat_map(|it| &it.links);
        links.any(|(index, _)| *index == link)
    }

    /// The gateway had not answered within `waited`, and a link was in its place.
    pub(crate) fn on_slow(&mut self, waited: Duration) {
        self.estimates.on_unanswered(waited);
    }

    /// Takes in what went over the session up to the time of its last state. `busy`: a connection
    /// was active on it without a pause since the last call. The session's state is told by another
    /// task than the one that calls this, so it may have been told once since then, not at all, or
    /// twice.
    pub(crate) fn count(&mut self, busy: [bool; 2]) {
        self.busy = [self.busy[0] && busy[0], self.busy[1] && busy[1]];
        let Some((at, session)) = &self.session else {
            return;
        };
        if Some(*at) == self.counted {
            return;
        }
        let [sent, received] = session.moved;
        self.estimates.on_sent(*at, sent, self.busy[0]);
        self.estimates.on_received(*at, received, self.busy[1]);
        (self.counted, self.busy) = (Some(*at), [true; 2]);
    }

    /// Head start of the gateway before a link is tried as well.
    pub(crate) fn patience(&self) -> Duration {
        self.estimates.patience()
    }

    /// Round-trip time of connections over the gateway: as long as connecting takes, but no less
    /// than to the gateway itself.
    pub(crate) fn latency(&self, nearest: Duration) -> Duration {
        match self.estimates.latency() {
            // From the gateway on it goes over a good line, mostly.
            Duration::ZERO => nearest.saturating_add(nearest / 2),
            known => known.max(nearest),
        }
    }

    /// The rates that it passes on, where an unknown one counts as given here.
    pub(crate) fn counts_for(&self, now: Instant, unknown: [Rate; 2]) -> [Rate; 2] {
        self.estimates.counts_for(now, unknown)
    }

    pub(crate) fn report(&self, open: u64) -> GatewayReport {
        let [up, down] = self.estimates.rates();
        GatewayReport {
            usage: self.usage,
            is_up: self.session.is_some(),
            links: self
                .session
                .as_ref()
                .map_or(0, |(_, view)| view.links.len()),
            up,
            down,
            latency: self.estimates.latency(),
            load: self.charges.load(),
            opened: self.charges.opened(),
            open,
        }
    }
}
