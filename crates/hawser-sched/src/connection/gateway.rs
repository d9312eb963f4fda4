//! Whether a connection goes over one link, straight to its destination, or over all links by a
//! gateway.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hawser_types::{ByteCount, Rate};

use super::auto::is_short;
use super::link_view::{known, time};
use super::{Class, Demand, LinkView, Load, MAX_SHARING};

/// How a connection goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum By {
    /// Straight to its destination, over one link.
    Link,
    /// Over all links to a gateway, and from there to its destination.
    Gateway,
}

/// Use of a gateway where rules don't decide, by the names that users choose it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum GatewayUse {
    /// For everything.
    #[default]
    Always,
    /// For what gains by it.
    Auto,
    /// For nothing.
    Never,
}

impl GatewayUse {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Always, Self::Auto, Self::Never];

    /// The word for it in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }
}

/// State of the way over a gateway at one moment.
#[derive(Clone, Copy, Debug)]
pub struct GatewayView<'a> {
    /// The links of the session, with what connections that go straight have on them.
    pub links: &'a [LinkView],
    /// Highest rate at which the gateway was seen to send on, or the rate of all links together.
    pub up: Rate,
    /// Highest rate at which it was seen to bring back, likewise.
    pub down: Rate,
    /// A round trip to destinations behind it.
    pub latency: Duration,
    /// Load that the connections over it have still to carry.
    pub load: Load,
}

/// The most that was seen of a destination either way, sent and received; `None` where nothing is
/// known. It bounds what one connection gets there, and says nothing of what others get elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Reached {
    /// Straight.
    pub by_link: [Option<Rate>; 2],
    /// Over the gateway.
    pub by_gateway: [Option<Rate>; 2],
}

/// The better way for a connection: the gateway if it saves at least an eighth of the time, or if
/// none of `links`, those that the connection may take, leads there.
///
/// Real-time connections go where a round trip is shortest; others where they are over first. Over
/// the gateway that is when all links of the session have carried what is on them and this, each
/// what it can, unless the gateway itself carries less. Either way it is no sooner than what was
/// `reached` with the destination allows.
///
/// Source: DBAS §II.A (in which of the modes a connection is served) and §II.D (time to finish).
pub fn choose_way(
    demand: &Demand,
    links: &[LinkView],
    gateway: &GatewayView<'_>,
    reached: &Reached,
) -> By {
    let direct = links.iter().map(|link| gateway.time_beside(demand, link));
    let Some(direct) = direct.min() else {
        return By::Gateway;
    };
    let direct = direct.max(own(demand, reached.by_link));
    let bonded = gateway.time(demand).max(own(demand, reached.by_gateway));
    let saved = direct.saturating_sub(bonded);
    if saved > direct / WORTH {
        By::Gateway
    } else {
        By::Link
    }
}

impl GatewayView<'_> {
    /// How long a connection takes over the gateway.
    fn time(&self, demand: &Demand) -> Duration {
        let trips = self.latency.saturating_mul(2);
        match demand.class {
            Class::RealTime => self.latency,
            _ if is_short(demand) => trips.saturating_add(self.time_to_share(demand)),
            _ => trips.saturating_add(self.time_to_fill(demand)),
        }
    }

    /// How long it takes over one link, on which the session has its part, too.
    fn time_beside(&self, demand: &Demand, link: &LinkView) -> Duration {
        let shared = LinkView {
            load: Load {
                connections: link
                    .load
                    .connections
                    .saturating_add(self.load.connections.min(1)),
                up: link.load.up + part(self.load.up, link.up, self.up),
                down: link.load.down + part(self.load.down, link.down, self.down),
            },
            ..*link
        };
        match demand.class {
            Class::RealTime => shared.latency,
            _ if is_short(demand) => shared.time_to_answer(demand),
            // One round trip to connect, one to be answered.
            _ => {
                let trips = shared.latency.saturating_mul(2);
                trips.saturating_add(shared.time_to_finish(demand))
            }
        }
    }

    /// How long a short connection takes that has its share of each link, and of the session.
    fn time_to_share(&self, demand: &Demand) -> Duration {
        let sharing = |load: &Load| u64::from(load.connections.min(MAX_SHARING)) + 1;
        let own = sharing(&self.load);
        let shared = |bytes: ByteCount| ByteCount::new(bytes.as_u64().saturating_mul(own));
        let share = |rate: fn(&LinkView) -> Rate, most: Rate| {
            let of_link = |link: &LinkView| rate(link).bytes_per_second() / sharing(&link.load);
            let all = self.links.iter().map(of_link).fold(0, u64::saturating_add);
            most.min(Rate::from_bytes_per_second(all))
        };
        let up = time(shared(demand.up), share(|link| link.up, self.up));
        let down = time(shared(demand.down), share(|link| link.down, self.down));
        up.max(down)
    }

    /// How long the links have to carry what is on them, on the session, and this.
    fn time_to_fill(&self, demand: &Demand) -> Duration {
        let (up, down) = (self.load.up + demand.up, self.load.down + demand.down);
        let links = || self.links.iter();
        let ways = [
            time(up, self.up),
            time(down, self.down),
            level(up, links().map(|link| (link.load.up, link.up))),
            level(down, links().map(|link| (link.load.down, link.down))),
        ];
        ways.into_iter().max().unwrap_or_default()
    }
}

/// How long a connection takes that gets no more than was reached; no time where nothing is known,
/// and where only a round trip counts.
fn own(demand: &Demand, [up, down]: [Option<Rate>; 2]) -> Duration {
    let way = |bytes, rate: Option<Rate>| rate.map_or(Duration::ZERO, |rate| time(bytes, rate));
    match demand.class {
        Class::RealTime => Duration::ZERO,
        _ => way(demand.up, up).max(way(demand.down, down)),
    }
}

/// How long links have to carry `bytes` beside what each of them carries already, each as much of
/// it as it can.
fn level(bytes: ByteCount, links: impl Iterator<Item = (ByteCount, Rate)> + Clone) -> Duration {
    let free = |(load, rate): (ByteCount, Rate)| time(load, rate);
    // With those links that are free by then; any others would only be later.
    let until = |last: Duration| {
        let taking = links.clone().filter(|link| free(*link) <= last);
        let zero = (bytes, Rate::ZERO);
        let (all, together) = taking.fold(zero, |(all, together), (load, rate)| {
            let together = together.bytes_per_second();
            let together = together.saturating_add(known(rate).bytes_per_second());
            (all + load, Rate::from_bytes_per_second(together))
        });
        time(all, together)
    };
    let levels = links.clone().map(|link| until(free(link)));
    levels.min().unwrap_or_default()
}

/// The part of `load` that goes over a link that carries so much of the whole.
fn part(load: ByteCount, link: Rate, whole: Rate) -> ByteCount {
    let (link, whole) = (link.bytes_per_second(), whole.bytes_per_second().max(1));
    let bytes = u128::from(load.as_u64()) * u128::from(link.min(whole)) / u128::from(whole);
    // No more than the load.
    ByteCount::new(u64::try_from(bytes).unwrap_or(u64::MAX))
}

impl fmt::Display for GatewayUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for GatewayUse {
    type Err = UnknownGatewayUse;

    fn from_str(name: &str) -> Result<Self, UnknownGatewayUse> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.name() == name)
            .ok_or_else(|| UnknownGatewayUse(name.to_owned()))
    }
}

/// No use of a gateway has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown use of the gateway `{0}`: allowed are always auto never")]
pub struct UnknownGatewayUse(String);

/// Less than this part of the time is within what estimates are wrong by, and not worth the way
/// through a third machine.
const WORTH: u32 = 8;

#[cfg(test)]
mod tests {
    use hawser_types::LinkIndex;

    use super::*;

    fn view(mbit: u64, milliseconds: u64) -> LinkView {
        let rate = Rate::from_bits_per_second(mbit * 1_000_000);
        LinkView {
            link: LinkIndex::new(1),
            up: rate,
            down: rate,
            latency: Duration::from_millis(milliseconds),
            load: Load::default(),
        }
    }

    /// A gateway behind links, which passes on so much.
    fn gateway(links: &[LinkView], mbit: u64, milliseconds: u64) -> GatewayView<'_> {
        let LinkView {
            up, down, latency, ..
        } = view(mbit, milliseconds);
        GatewayView {
            links,
            up,
            down,
            latency,
            load: Load::default(),
        }
    }

    fn load(connections: u32, megabytes: u64) -> Load {
        Load {
            connections,
            up: ByteCount::ZERO,
            down: ByteCount::new(megabytes * 1_000_000),
        }
    }

    fn needs(class: Class, down: u64) -> Demand {
        Demand {
            class,
            up: ByteCount::new(500),
            down: ByteCount::new(down),
        }
    }

    /// Where nothing was reached yet.
    fn choose(demand: &Demand, links: &[LinkView], gateway: &GatewayView<'_>) -> By {
        choose_way(demand, links, gateway, &Reached::default())
    }

    const BULK: u64 = 20_000_000;

    #[test]
    fn what_is_long_takes_the_sum_of_the_links_and_what_is_short_the_shorter_way() {
        let links = [view(20, 30), view(10, 40)];
        let far = gateway(&links, 30, 45);
        let bulk = needs(Class::Bulk, BULK);
        assert_eq!(choose(&bulk, &links, &far), By::Gateway);
        let page = needs(Class::Interactive, 20_000);
        assert_eq!(choose(&page, &links, &far), By::Link);
        let call = needs(Class::RealTime, BULK);
        assert_eq!(choose(&call, &links, &far), By::Link);
        // By the gateway's own line the destination is nearer.
        let near = gateway(&links, 30, 15);
        assert_eq!(choose(&page, &links, &near), By::Gateway);
        assert_eq!(choose(&call, &links, &near), By::Gateway);
    }

    #[test]
    fn a_gateway_that_passes_on_less_than_a_link_is_left_aside() {
        let bulk = needs(Class::Bulk, BULK);
        let links = [view(20, 30), view(10, 40)];
        let passing = |mbit| choose(&bulk, &links, &gateway(&links, mbit, 45));
        assert_eq!(passing(15), By::Link);
        // As is one that gains too little.
        assert_eq!(passing(22), By::Link);
        assert_eq!(passing(24), By::Gateway);
    }

    #[test]
    fn what_the_links_carry_already_counts_for_either_way() {
        let bulk = needs(Class::Bulk, 4_000_000);
        let busy = LinkView {
            load: load(4, 100),
            ..view(20, 30)
        };
        // By the time the quick link is free the other one has carried it alone.
        let links = [busy, view(10, 40)];
        assert_eq!(choose(&bulk, &links, &gateway(&links, 30, 45)), By::Link);
        let links = [busy, view(10, 40), view(10, 40)];
        let three = gateway(&links, 40, 45);
        assert_eq!(choose(&bulk, &links, &three), By::Gateway);
        // The session's load is on the links as well, so it speaks against neither way.
        let links = [view(20, 30), view(10, 40)];
        let loaded = GatewayView {
            load: load(1, 100),
            ..gateway(&links, 30, 45)
        };
        assert_eq!(choose(&bulk, &links, &loaded), By::Link);
    }

    #[test]
    fn a_slow_server_makes_no_link_slow_for_what_others_carry() {
        let bulk = needs(Class::Bulk, 4_000_000);
        let busy = [LinkView {
            load: load(1, 10),
            ..view(20, 30)
        }];
        let session = [busy[0], view(20, 30)];
        let far = gateway(&session, 40, 45);
        let slow = [None, Some(view(2, 0).down)];
        let choose = |by_link, by_gateway| {
            let reached = Reached {
                by_link,
                by_gateway,
            };
            choose_way(&bulk, &busy, &far, &reached)
        };
        assert_eq!(choose([None; 2], [None; 2]), By::Gateway);
        // The gateway gains nothing: the load on the link is gone long before.
        assert_eq!(choose(slow, slow), By::Link);
        assert_eq!(choose(slow, [None; 2]), By::Gateway);
        assert_eq!(choose([None; 2], slow), By::Link);
        // Of what is heard only the round trip counts.
        let call = needs(Class::RealTime, BULK);
        let near = gateway(&session, 40, 15);
        let reached = Reached {
            by_link: [None; 2],
            by_gateway: slow,
        };
        assert_eq!(choose_way(&call, &busy, &near, &reached), By::Gateway);
    }

    #[test]
    fn where_no_link_leads_the_gateway_does() {
        let page = needs(Class::Interactive, 20_000);
        let slow = [view(1, 500)];
        assert_eq!(choose(&page, &[], &gateway(&slow, 1, 900)), By::Gateway);
        // Nothing is known of either.
        let unknown = [LinkView::default()];
        assert_eq!(choose(&page, &unknown, &gateway(&unknown, 0, 0)), By::Link);
    }

    #[test]
    fn the_largest_figures_make_nothing_panic() {
        let most = LinkView {
            latency: Duration::MAX,
            load: load(u32::MAX, u64::MAX / 1_000_000),
            ..view(u64::MAX / 1_000_000, 0)
        };
        for class in Class::ALL {
            let endless = needs(class, u64::MAX);
            let links = [most, most];
            let never = GatewayView {
                latency: Duration::MAX,
                load: most.load,
                ..gateway(&links, 1, 0)
            };
            assert_eq!(choose(&endless, &links, &never), By::Link);
        }
    }

    #[test]
    fn uses_of_a_gateway_have_names() {
        for usage in GatewayUse::ALL {
            assert_eq!(usage.name().parse(), Ok(usage));
        }
        let error = "often".parse::<GatewayUse>().unwrap_err();
        assert!(error.to_string().contains("`often`"), "{error}");
    }
}
