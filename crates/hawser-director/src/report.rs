use std::sync::Arc;
use std::time::Duration;

use hawser_sched::connection::{ConnectionPolicy, GatewayUse, Load};
use hawser_types::{Link, LinkIndex, Permission, Rate};

use super::health::Health;

/// The director's state at one moment.
#[derive(Clone, Debug)]
pub struct DirectorReport {
    /// The policy that chooses links.
    pub policy: ConnectionPolicy,
    /// Links for connections, by index.
    pub links: Vec<LinkReport>,
    /// The gateway, if there is one.
    pub gateway: Option<GatewayReport>,
    /// Connections placed on links so far.
    pub opened: u64,
    /// Connections established on another link than the one that was tried first.
    pub moved_over: u64,
    /// Destinations that answered on no link.
    pub unanswered: u64,
    /// VPNs that take all IPv4 and all IPv6 traffic, so that connections are left to them.
    pub tunnels: [Option<String>; 2],
}

impl DirectorReport {
    /// Returns the usable links, the best first: links that answer, then by permission from rules
    /// and signals, then the faster ones, then the cheaper ones.
    pub fn ranking(&self) -> Vec<LinkIndex> {
        let usable = self.links.iter().filter(|it| !it.permission.is_forbidden());
        let mut ranked: Vec<&LinkReport> = usable.collect();
        let by_place = |it: &LinkReport| (it.health != Health::Sound, it.permission.rank());
        let rate = |it: &LinkReport| {
            let [up, down] = it.counts_for;
            up.bytes_per_second()
                .saturating_add(down.bytes_per_second())
        };
        ranked.sort_by(|one, other| {
            let by_rate = || rate(other).cmp(&rate(one));
            let by_price = || one.price.total_cmp(&other.price);
            let order = by_place(one).cmp(&by_place(other));
            order.then_with(by_rate).then_with(by_price)
        });
        ranked.into_iter().map(|it| it.link.index).collect()
    }
}

/// State of one link.
#[derive(Clone, Debug)]
pub struct LinkReport {
    /// The link.
    pub link: Arc<Link>,
    /// Identity of its network; `None` until it is known.
    pub network: Option<String>,
    /// Sending rate; zero while unknown.
    pub up: Rate,
    /// Receiving rate; zero while unknown.
    pub down: Rate,
    /// Effective rates for decisions, sent and received, whether known or assumed.
    pub counts_for: [Rate; 2],
    /// Confidence in the two rates, from 0 to 1.
    pub confidence: [f64; 2],
    /// Its current round-trip time; zero while unknown.
    pub latency: Duration,
    /// Share of segments sent over it that were retransmitted, from 0 to 1; `None` while nothing
    /// was sent.
    pub loss: Option<f64>,
    /// Confidence in that share, from 0 to 1.
    pub loss_confidence: f64,
    /// Remaining load of the connections on it.
    pub load: Load,
    /// Connections placed on it so far.
    pub opened: u64,
    /// Open connections on it, including idle ones.
    pub open: u64,
    /// True if using it costs nothing: it has no price, no allowance, and is not in reserve.
    pub is_free: bool,
    /// Price of a gigabyte on it, in the user's unit.
    pub price: f64,
    /// Permission to use it, from the user's rules and its signal.
    pub permission: Permission,
    /// State of the link, as shown by connections over it.
    pub health: Health,
    /// Time since when it is suspect, if it is.
    pub suspect_for: Option<Duration>,
    /// Time since the latest packet of a connection over it, as far as noticed.
    pub unheard_for: Option<Duration>,
}

/// State of the gateway, and its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayReport {
    /// Use of the gateway.
    pub usage: GatewayUse,
    /// True while a session with it runs.
    pub is_up: bool,
    /// Links of that session that are not silent.
    pub links: usize,
    /// Rate at which it was seen to forward data; zero while unknown.
    pub up: Rate,
    /// Rate at which it was seen to return data; zero while unknown.
    pub down: Rate,
    /// Time to connect over it; zero while unknown.
    pub latency: Duration,
    /// Remaining load of the connections over it.
    pub load: Load,
    /// Connections established over it.
    pub opened: u64,
    /// Open connections over it.
    pub open: u64,
}
