use std::time::Duration;

use hawser_sched::connection::{GatewayUse, Load};
use hawser_types::{ByteCount, Instant, LinkIndex, Rate};

use super::charges::Charges;
use super::estimates::Estimates;
use super::report::GatewayReport;
use super::sites::Sites;

/// State of a session with a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SessionView {
    /// Its links, each with the round-trip time to the gateway.
    pub links: Vec<(LinkIndex, Duration)>,
    /// Bytes over all of its links: sent and acknowledged, and received.
    pub moved: [ByteCount; 2],
}

/// Knowledge about the gateway and the connections over it.
#[derive(Debug)]
pub(crate) struct GatewayRecord {
    usage: GatewayUse,
    estimates: Estimates,
    charges: Charges,
    /// The session and the time of its state; `None` without a session.
    session: Option<(Instant, SessionView)>,
    /// Time of the session state whose bytes were counted last.
    counted: Option<Instant>,
    /// Whether a connection was continuously active on it since then, sending and receiving.
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

    /// True if a session runs, or must be waited for.
    pub(crate) fn is_there(&self) -> bool {
        // A gateway that is not for all connections is not waited for.
        self.session.is_some() || self.usage == GatewayUse::Always
    }

    /// True if the session uses the link.
    pub(crate) fn is_on(&self, link: LinkIndex) -> bool {
        let mut links = self.session().into_iter().flat_map(|it| &it.links);
        links.any(|(index, _)| *index == link)
    }

    /// Records that the gateway did not answer within `waited`, but a link did instead.
    pub(crate) fn on_slow(&mut self, waited: Duration) {
        self.estimates.on_unanswered(waited);
    }

    /// Counts the session's bytes up to the time of its last state. `busy`: a connection was
    /// continuously active on it since the last call. Another task reports the session's state, so
    /// that between two calls there may be one report, none, or two.
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

    /// Returns the head start of the gateway before a link is tried as well.
    pub(crate) fn patience(&self) -> Duration {
        self.estimates.patience()
    }

    /// Returns the round-trip time of connections over the gateway: the time to connect, but at
    /// least the round-trip time to the gateway itself.
    pub(crate) fn latency(&self, nearest: Duration) -> Duration {
        match self.estimates.latency() {
            // Beyond the gateway, the network is usually fast.
            Duration::ZERO => nearest.saturating_add(nearest / 2),
            known => known.max(nearest),
        }
    }

    /// Returns the gateway's effective rates, with the given values for unknown ones.
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
