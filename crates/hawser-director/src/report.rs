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
    /// The links that connections may be placed on, by index.
    pub links: Vec<LinkReport>,
    /// The gateway, where there is one.
    pub gateway: Option<GatewayReport>,
    /// Connections placed on links so far.
    pub opened: u64,
    /// Of these, answered on another link than the one that was tried first.
    pub moved_over: u64,
    /// Destinations that answered on no link.
    pub unanswered: u64,
    /// The VPNs that take all IPv4 and all IPv6 traffic, so that connections are left to them.
    pub tunnels: [Option<String>; 2],
}

impl DirectorReport {
    /// Returns the links that may be used, the best first: those that answer before those that do
    /// not, then by what rules and signals allow, then the quicker ones, then the cheaper ones.
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

/// What is known of one link.
#[derive(Clone, Debug)]
pub struct LinkReport {
    /// The link.
    pub link: Arc<Link>,
    /// What tells the network that it is attached to from others; `None` until that is known.
    pub network: Option<String>,
    /// Rate at which it can send; zero while unknown.
    pub up: Rate,
    /// Rate at which it can receive; zero while unknown.
    pub down: Rate,
    /// Rates that decisions go by, sent and received, whatever is known of it.
    pub counts_for: [Rate; 2],
    /// Confidence in the two rates, from 0 to 1.
    pub confidence: [f64; 2],
    /// Its round-trip time as it is now; zero while unknown.
    pub latency: Duration,
    /// Share of segments sent over it that had to be sent again, from 0 to 1; `None` while nothing
    /// was sent.
    pub loss: Option<f64>,
    /// Confidence in that share, from 0 to 1.
    pub loss_confidence: f64,
    /// What the connections on it have still to carry.
    pub load: Load,
    /// Connections placed on it so far.
    pub opened: u64,
    /// Connections on it that are open, idle ones too.
    pub open: u64,
    /// True if using it costs nothing: it has no price and no allowance, and is not kept back.
    pub is_free: bool,
    /// Price of a gigabyte on it, in the user's unit.
    pub price: f64,
    /// What the user and its signal allow on it.
    pub permission: Permission,
    /// State of the link, as connections have shown it.
    pub health: Health,
    /// Time since when it is suspect, if it is.
    pub suspect_for: Option<Duration>,
    /// Time since anything last came over it for a connection, as far as that was noticed.
    pub unheard_for: Option<Duration>,
}

/// What is known of the gateway, and what went over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayReport {
    /// What it is used for.
    pub usage: GatewayUse,
    /// True while a session with it runs.
    pub is_up: bool,
    /// Links of that session that are not silent.
    pub links: usize,
    /// Rate at which it was seen to send on; zero while unknown.
    pub up: Rate,
    /// Rate at which it was seen to bring back; zero while unknown.
    pub down: Rate,
    /// Time that connecting over it takes; zero while unknown.
    pub latency: Duration,
    /// What the connections over it have still to carry.
    pub load: Load,
    /// Connections that came about over it.
    pub opened: u64,
    /// Those of them that are open.
    pub open: u64,
}
