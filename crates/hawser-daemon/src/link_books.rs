//! Traffic of each link of this machine, summed over all sources.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_control::{ConnectionsStatus, LinkStatus, LinkTraffic, PlacingStatus};
use hawser_path::{LinkLoss, Segments};
use hawser_session::ChannelSnapshot;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex};

use super::books::key;
use super::meter::{Meter, Moved};
use super::subject::View;

/// The traffic accounts of all links by name, updated once a second.
#[derive(Default)]
pub(super) struct LinkBooks {
    now: Instant,
    links: BTreeMap<String, Account>,
    /// The totals of channels, by session.
    sessions: BTreeMap<String, BTreeMap<(ChannelId, LinkIndex), ChannelTotals>>,
    /// Traffic of connections that were placed on links, by the link's name.
    placed: BTreeMap<String, Moved>,
}

/// The account of one link.
#[derive(Default)]
struct Account {
    total: Moved,
    meter: Meter,
    loss: LinkLoss,
    channels: Channels,
}

/// State of a link's channels at the last update.
#[derive(Default)]
struct Channels {
    rtt: Option<Duration>,
    queue: Option<Duration>,
    cwnd: ByteCount,
}

/// State of a channel at the last update.
#[derive(Clone, Copy, Default)]
struct ChannelTotals {
    moved: Moved,
    segments: Segments,
}

impl LinkBooks {
    /// Updates the accounts, `span` after the last update, to the current totals: those of
    /// sessions, and those of connections that were placed on links, by the links' names.
    pub(super) fn enter(
        &mut self,
        span: Duration,
        (views, placed): (&[View], &BTreeMap<String, [ByteCount; 2]>),
        links: &[LinkStatus],
    ) {
        self.now += span;
        for account in self.links.values_mut() {
            account.channels = Channels::default();
        }
        let mut before = std::mem::take(&mut self.sessions);
        for view in views {
            let before = before.remove(&view.id).unwrap_or_default();
            self.enter_session(view, &before, links);
        }
        for (name, [sent, received]) in placed {
            let now = Moved::new(*sent, *received);
            let before = self.placed.insert(name.clone(), now).unwrap_or_default();
            if let Some(account) = open(&mut self.links, name) {
                account.total.add(now.since(before));
            }
        }
        for account in self.links.values_mut() {
            account.meter.enter(account.total, span);
        }
    }

    /// Fills in the traffic of these links, together with the director's measurements.
    pub(super) fn fill(&self, links: &mut [LinkStatus], connections: Option<&ConnectionsStatus>) {
        let placing = connections.map_or(&[][..], |status| &status.links);
        for link in links {
            let placing = placing.iter().find(|it| it.index == link.index);
            let account = self.links.get(&link.name);
            link.traffic = self.traffic(account, placing);
        }
    }

    fn enter_session(
        &mut self,
        view: &View,
        before: &BTreeMap<(ChannelId, LinkIndex), ChannelTotals>,
        links: &[LinkStatus],
    ) {
        let mut seen = BTreeMap::new();
        let channels = view.session.iter().flat_map(|session| &session.channels);
        for channel in channels {
            let before = before.get(&key(channel)).copied();
            let name = own_link(view, channel, links);
            let Some(account) = name.and_then(|name| open(&mut self.links, name)) else {
                // The link may be known again later; then its traffic counts from here on.
                seen.extend(before.map(|before| (key(channel), before)));
                continue;
            };
            let before = before.unwrap_or_default();
            let now = ChannelTotals {
                moved: Moved::new(channel.sent, channel.received),
                segments: Segments {
                    delivered: channel.segments_delivered.unwrap_or_default(),
                    again: channel.retransmissions,
                },
            };
            seen.insert(key(channel), now);
            account.total.add(now.moved.since(before.moved));
            if channel.segments_delivered.is_some() {
                account
                    .loss
                    .on_segments(self.now, before.segments, now.segments);
            }
            account.channels.add(channel);
        }
        self.sessions.insert(view.id.clone(), seen);
    }

    fn traffic(&self, account: Option<&Account>, placing: Option<&PlacingStatus>) -> LinkTraffic {
        let nothing = Account::default();
        let account = account.unwrap_or(&nothing);
        let channels = &account.channels;
        LinkTraffic {
            up: account.meter.up,
            down: account.meter.down,
            sent_bytes: ByteCount::new(account.total.sent),
            received_bytes: ByteCount::new(account.total.received),
            rtt: channels.rtt.or_else(|| placing?.latency),
            up_loss: self.loss(account, placing),
            queue: channels.queue,
            cwnd_bytes: channels.cwnd,
        }
    }

    /// Returns the loss that sessions or connections have measured, whichever have more traffic;
    /// `None` if there is too little traffic.
    fn loss(&self, account: &Account, placing: Option<&PlacingStatus>) -> Option<f64> {
        let own = (account.loss.confidence(self.now), account.loss.rate());
        let placed = placing.map_or((0.0, None), |it| (it.up_loss_confidence, it.up_loss));
        let (confidence, rate) = if own.0 >= placed.0 { own } else { placed };
        rate.filter(|_| confidence >= ENOUGH)
    }
}

impl Channels {
    fn add(&mut self, channel: &ChannelSnapshot) {
        let rtt = Some(channel.rtt).filter(|rtt| !rtt.is_zero() && !channel.suspect);
        self.rtt = match (self.rtt, rtt) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let at_peer = channel.peer.and_then(|peer| peer.queue);
        self.queue = self.queue.max(channel.incoming_queue).max(at_peer);
        self.cwnd += channel.congestion_window;
    }
}

/// Returns the link of this machine that a channel uses, if it is known. A gateway knows its
/// clients' links only by number, and its own links by the channels' local addresses.
fn own_link<'a>(
    view: &'a View,
    channel: &ChannelSnapshot,
    links: &'a [LinkStatus],
) -> Option<&'a str> {
    let Some(address) = view.addresses.get(&key(channel)) else {
        let way = view.paths.get(&channel.link.value())?;
        return Some(way.link.as_str()).filter(|name| !name.is_empty());
    };
    let mut having = links.iter().filter(|it| it.addresses.contains(address));
    match (having.next(), having.next()) {
        (Some(link), None) => Some(&link.name),
        // Several links have the address.
        _ => None,
    }
}

/// Returns the account of a link; `None` if there are too many accounts.
fn open<'a>(links: &'a mut BTreeMap<String, Account>, name: &str) -> Option<&'a mut Account> {
    if !links.contains_key(name) {
        if links.len() >= MAX_LINKS {
            return None;
        }
        links.insert(name.to_owned(), Account::default());
    }
    links.get_mut(name)
}

/// Limit of accounts: interfaces of containers appear under ever new names.
const MAX_LINKS: usize = 256;
/// Least confidence in a loss rate: about fifty segments.
const ENOUGH: f64 = 0.2;

#[cfg(test)]
mod tests {

    use super::super::books::tests;
    use super::*;

    fn placed(sent: u64, received: u64) -> BTreeMap<String, [ByteCount; 2]> {
        let moved = [ByteCount::new(sent), ByteCount::new(received)];
        BTreeMap::from([("dsl".to_owned(), moved)])
    }

    fn dsl() -> LinkStatus {
        LinkStatus {
            name: "dsl".to_owned(),
            index: LinkIndex::new(2),
            addresses: vec!["192.0.2.1".parse().unwrap()],
            ..LinkStatus::default()
        }
    }

    fn traffic(books: &LinkBooks, connections: Option<&ConnectionsStatus>) -> LinkTraffic {
        let mut links = [dsl()];
        books.fill(&mut links, connections);
        links[0].traffic
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn sessions_and_connections_share_a_link_and_sessions_that_end_leave_what_they_moved() {
        let view = |sent| [tests::view(&[(0, sent)], &[])];
        let mut books = LinkBooks::default();
        books.enter(Duration::ZERO, (&view(100), &placed(7, 70)), &[]);
        books.enter(SECOND, (&view(150), &placed(8, 80)), &[]);
        let now = traffic(&books, None);
        let rates = (now.up.bytes_per_second(), now.down.bytes_per_second());
        assert_eq!(rates, (51, 110));
        let totals = (now.sent_bytes.as_u64(), now.received_bytes.as_u64());
        assert_eq!(totals, (158, 380));
        // The next session begins from nothing.
        books.enter(SECOND, (&[], &placed(8, 80)), &[]);
        books.enter(SECOND, (&view(20), &placed(8, 80)), &[]);
        let now = traffic(&books, None);
        let sent = (now.sent_bytes.as_u64(), now.up.bytes_per_second());
        assert_eq!(sent, (178, 20));
    }

    #[test]
    fn a_gateway_knows_its_links_by_the_addresses_that_clients_came_to() {
        let mut far = tests::view(&[(0, 100), (1, 1000)], &[]);
        far.paths.get_mut(&2).unwrap().link.clear();
        let mut books = LinkBooks::default();
        books.enter(
            SECOND,
            (std::slice::from_ref(&far), &BTreeMap::new()),
            &[dsl()],
        );
        assert_eq!(traffic(&books, None), LinkTraffic::default());
        far.addresses
            .insert((ChannelId::new(1), LinkIndex::new(2)), dsl().addresses[0]);
        books.enter(
            SECOND,
            (std::slice::from_ref(&far), &BTreeMap::new()),
            &[dsl()],
        );
        assert_eq!(traffic(&books, None).sent_bytes.as_u64(), 1000);
        // An address of several links does not tell the link.
        let mut books = LinkBooks::default();
        books.enter(SECOND, (&[far], &BTreeMap::new()), &[dsl(), dsl()]);
        assert_eq!(traffic(&books, None), LinkTraffic::default());
    }

    #[test]
    fn what_channels_show_goes_before_what_connections_showed() {
        let ms = |count| Some(Duration::from_millis(count));
        let placing = PlacingStatus {
            index: LinkIndex::new(2),
            latency: ms(50),
            up_loss: Some(0.5),
            up_loss_confidence: 0.4,
            ..PlacingStatus::default()
        };
        let connections = ConnectionsStatus {
            links: vec![placing],
            ..ConnectionsStatus::default()
        };
        let mut now = tests::view(&[(0, 1), (1, 1), (2, 1)], &[]);
        for (channel, millis) in now.session.as_mut().unwrap().channels.iter_mut().zip(1..) {
            channel.rtt = Duration::from_millis(20 * millis);
            channel.congestion_window = ByteCount::new(1000);
            channel.incoming_queue = ms(millis).filter(|_| millis < 3);
            channel.suspect = millis == 1;
            (channel.segments_delivered, channel.retransmissions) = (Some(990), 10);
        }
        let mut books = LinkBooks::default();
        books.enter(SECOND, (&[now], &BTreeMap::new()), &[]);
        let seen = traffic(&books, Some(&connections));
        assert_eq!((seen.rtt, seen.queue), (ms(40), ms(2)));
        assert_eq!(seen.cwnd_bytes.as_u64(), 3000);
        assert!((seen.up_loss.unwrap() - 0.01).abs() < 0.001, "{seen:?}");
        // Without channels, connections tell what they know.
        books.enter(SECOND, (&[], &BTreeMap::new()), &[]);
        assert_eq!(traffic(&books, Some(&connections)).rtt, ms(50));
        let seen = traffic(&LinkBooks::default(), Some(&connections));
        assert_eq!(seen.up_loss, Some(0.5));
    }
}
