//! Links: their names are the only external names that become labels.

use std::collections::BTreeSet;

use hawser_control::{LinkAllowed, LinkState, LinkStatus, PlacingStatus, StatusSnapshot};
use hawser_types::{ByteCount, LinkUse, SignalState};

use super::text::{Family, Label, Text, Value};

/// Limit of links with samples of their own.
pub const MAX_LINKS: usize = 64;

pub(super) fn write(text: &mut Text, snapshot: &StatusSnapshot) {
    let links = Shown::of(snapshot);
    let in_state = |state: &LinkState| {
        let links = snapshot.links.iter();
        links.filter(|link| link.state == *state).count() as u64
    };
    text.gauge("hawser_links", "Links of this machine, by state.")
        .put_counts("state", LinkState::ALL, in_state);
    text.gauge(
        "hawser_links_omitted",
        "Links that have no samples of their own since they are too many.",
    )
    .put(&[], links.omitted);
    let mut state = text.gauge("hawser_link_state", "1 for the state that a link is in.");
    for link in &links.list {
        state.put_state(&[link.label()], "state", LinkState::ALL, &link.status.state);
    }
    let since = "Unix time since when a link is in its state; absent where it always was.";
    let since = text.gauge("hawser_link_state_since_timestamp_seconds", since);
    links.put(since, |link| {
        let since = link.status.since_unix_ms? as f64 / 1e3;
        Some(Value::Real(since))
    });
    links.traffic(text);
    links.uses(text);
    links.signals(text);
    links.month(text);
    links.placing(text);
    links.estimates(text);
}

/// Links with samples of their own: links that are usable or have carried traffic.
struct Shown<'a> {
    list: Vec<Link<'a>>,
    omitted: u64,
    /// True if this daemon places connections on links.
    is_placing: bool,
}

struct Link<'a> {
    status: &'a LinkStatus,
    /// Figures of connections on this link; `None` while connections can't be placed on it.
    placing: Option<&'a PlacingStatus>,
}

impl<'a> Shown<'a> {
    fn of(snapshot: &'a StatusSnapshot) -> Self {
        let connections = snapshot.connections.as_ref();
        let placings = connections.map_or(&[][..], |connections| &connections.links);
        let link = |status: &'a LinkStatus| Link {
            status,
            placing: placings.iter().find(|it| it.index == status.index),
        };
        let mut names = BTreeSet::new();
        let mut list: Vec<_> = snapshot
            .links
            .iter()
            .map(link)
            .filter(Link::is_worth_it)
            .filter(|link| names.insert(link.status.name.as_str()))
            .collect();
        let omitted = list.len().saturating_sub(MAX_LINKS) as u64;
        list.truncate(MAX_LINKS);
        Self {
            list,
            omitted,
            is_placing: connections.is_some(),
        }
    }

    fn traffic(&self, text: &mut Text) {
        let sent = "Bytes sent over a link for this daemon.";
        let sent = text.counter("hawser_link_sent_bytes_total", sent);
        self.put(sent, |link| Some(link.status.traffic.sent_bytes));
        let received = "Bytes received over a link for this daemon.";
        let received = text.counter("hawser_link_received_bytes_total", received);
        self.put(received, |link| Some(link.status.traffic.received_bytes));
        let rtt = "A link's round-trip time; absent while unknown.";
        let rtt = text.gauge("hawser_link_rtt_seconds", rtt);
        self.put(rtt, |link| link.status.traffic.rtt);
        let loss =
            "Share of what a link was sent lately that was sent again; absent while unknown.";
        let loss = text.gauge("hawser_link_loss_ratio", loss);
        self.put(loss, |link| link.status.traffic.up_loss);
        let queue = "Delay that queues on a link add; absent while unknown.";
        let queue = text.gauge("hawser_link_queue_seconds", queue);
        self.put(queue, |link| link.status.traffic.queue);
        let window = "Congestion windows of a link's channels together.";
        let window = text.gauge("hawser_link_congestion_window_bytes", window);
        self.put(window, |link| Some(link.status.traffic.cwnd_bytes));
    }

    /// Writes the user's rules for the link.
    fn uses(&self, text: &mut Text) {
        let mut family = text.gauge(
            "hawser_link_use",
            "1 for when a link is used in a direction, by the user's word.",
        );
        for link in &self.list {
            let Some(allowed) = link.allowed() else {
                continue;
            };
            for (direction, usage) in [("up", allowed.up), ("down", allowed.down)] {
                let labels = [link.label(), ("direction", direction)];
                family.put_state(&labels, "use", LinkUse::ALL, &usage);
            }
        }
    }

    /// Writes the signals, and the resulting order of links.
    fn signals(&self, text: &mut Text) {
        let strength = "Strength of a link's signal; absent where it is unknown.";
        let strength = text.gauge("hawser_link_signal_dbm", strength);
        self.put(strength, |link| {
            let dbm = link.status.signal?.strength.dbm();
            Some(Value::Real(dbm.into()))
        });
        let rank = "A link's place among those that may be used; the best has 1.";
        let rank = text.gauge("hawser_link_rank", rank);
        self.put(rank, |link| link.status.rank);
        let state = "1 for what a link's signal says: traffic leaves a link that is not good.";
        let mut state = text.gauge("hawser_link_signal_state", state);
        for link in &self.list {
            if let Some(signal) = link.status.signal {
                state.put_state(&[link.label()], "state", SignalState::ALL, &signal.state);
            }
        }
    }

    fn month(&self, text: &mut Text) {
        let sent = "Bytes sent over a link since its month began.";
        let sent = text.gauge("hawser_link_month_sent_bytes", sent);
        self.put(sent, |link| Some(link.allowed()?.sent_bytes));
        let received = "Bytes received over a link since its month began.";
        let received = text.gauge("hawser_link_month_received_bytes", received);
        self.put(received, |link| Some(link.allowed()?.received_bytes));
        let allowance = "What may go over a link in a month, both ways; +Inf without a limit.";
        let allowance = text.gauge("hawser_link_allowance_bytes", allowance);
        self.put(allowance, |link| {
            let bytes = link.allowed()?.allowance_bytes.map(Value::from);
            Some(bytes.unwrap_or(Value::Real(f64::INFINITY)))
        });
        let is_used_up = "Whether a link's allowance is used up.";
        let is_used_up = text.gauge("hawser_link_allowance_used_up", is_used_up);
        self.put(is_used_up, |link| Some(link.allowed()?.limit.is_some()));
    }

    /// Writes the connections over one link each.
    fn placing(&self, text: &mut Text) {
        let placed = "Connections placed on a link.";
        let placed = text.counter("hawser_link_connections_total", placed);
        self.put(placed, |link| self.count(link, |it| it.placed));
        let open = "Connections placed on a link that are open.";
        let open = text.gauge("hawser_link_connections_open", open);
        self.put(open, |link| self.count(link, |it| it.open));
        let active = "Connections placed on a link that moved something lately.";
        let active = text.gauge("hawser_link_connections_active", active);
        self.put(active, |link| self.count(link, |it| it.active));
        let health = "1 for what connecting over a link has shown it to be.";
        let mut health = text.gauge("hawser_link_health", health);
        for link in &self.list {
            if let Some(placing) = link.placing {
                let state = placing.state.as_str();
                health.put_state(&[link.label()], "health", &HEALTHS, &state);
            }
        }
    }

    /// Writes the estimated rates of links, for which there are no counters.
    fn estimates(&self, text: &mut Text) {
        let capacity = "What a link is thought to carry; 0 while unknown.";
        let capacity = text.gauge("hawser_link_capacity_bytes_per_second", capacity);
        self.put_both(capacity, |placing| [placing.up, placing.down]);
        let confidence = "How much is to be thought of a link's capacity, from 0 to 1.";
        let confidence = text.gauge("hawser_link_capacity_confidence_ratio", confidence);
        self.put_both(confidence, |placing| {
            [placing.up_confidence, placing.down_confidence]
        });
    }

    /// Returns zero for a link without connections now: it had a count, and may have one again.
    fn count(&self, link: &Link<'_>, count: fn(&PlacingStatus) -> u64) -> Option<u64> {
        self.is_placing.then(|| link.placing.map_or(0, count))
    }

    /// Writes one sample for each link with a known `value`.
    fn put<V: Into<Value>>(&self, mut family: Family<'_>, value: impl Fn(&Link<'a>) -> Option<V>) {
        for link in &self.list {
            family.put_known(&[link.label()], value(link));
        }
    }

    /// Writes one sample per direction of each link for connections.
    fn put_both<V: Into<Value>>(
        &self,
        mut family: Family<'_>,
        values: impl Fn(&PlacingStatus) -> [V; 2],
    ) {
        for link in &self.list {
            let Some(placing) = link.placing else {
                continue;
            };
            for (direction, value) in ["up", "down"].into_iter().zip(values(placing)) {
                family.put(&[link.label(), ("direction", direction)], value);
            }
        }
    }
}

impl<'a> Link<'a> {
    fn label(&self) -> Label<'a> {
        ("link", &self.status.name)
    }

    fn allowed(&self) -> Option<&'a LinkAllowed> {
        self.status.allowed.as_ref()
    }

    /// Leaves out unused interfaces without a route: containers create and remove such interfaces
    /// under ever new names.
    fn is_worth_it(&self) -> bool {
        let traffic = self.status.traffic;
        self.status.state != LinkState::Unused
            || traffic.sent_bytes > ByteCount::ZERO
            || traffic.received_bytes > ByteCount::ZERO
            || self.placing.is_some_and(|it| it.placed > 0)
    }
}

/// States as in [`PlacingStatus::state`].
const HEALTHS: [&str; 3] = ["sound", "suspect", "portal"];
