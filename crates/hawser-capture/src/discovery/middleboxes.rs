use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_types::{Instant, LinkIndex, is_private};
use ipnet::IpNet;

use super::{Learnt, Outcome};

/// Places where the option does not get through, because middleboxes drop SYNs that have it, remove
/// it, or send it back. Each place is remembered by link and destination: for ten minutes at first,
/// and twice as long each further time, up to a day.
///
/// A SYN that had to be repeated counts once the one without the option is answered: a destination
/// that answers neither does not exist. The first SYN may also have been lost; the only cost is to
/// avoid the option for a time. If destinations of three networks (IPv4 /16, IPv6 /32) in a row on
/// a link answer only without the option, the link is at fault: no destination is asked over it
/// until one answers a SYN with the option or the avoidance ends. A link that has let the option
/// through within an hour is not at fault, whatever destinations do.
///
/// Destinations near a link (private addresses, ULA and link-local ones) prove nothing about it: a
/// SYN to a router or printer, or through a VPN, does not pass the network behind the link.
///
/// An answer without the option is no fault, unless the destination has shown over another link
/// that it can bond.
#[derive(Debug, Default)]
pub struct Middleboxes {
    faults: BTreeMap<NetworkPlace, Fault>,
    links: BTreeMap<Option<LinkIndex>, Passage>,
    /// Destinations that can bond, with the time of their last answer.
    bonding: BTreeMap<SocketAddr, Instant>,
}

/// A place where the option is avoided, and for how long from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avoidance {
    /// The link; `None` for sockets that are bound to none.
    pub link: Option<LinkIndex>,
    /// The destination; `None` for all.
    pub to: Option<IpAddr>,
    /// Time for which the option is avoided; zero ends the avoidance.
    pub span: Duration,
}

/// The option's success on a link.
#[derive(Debug, Default)]
struct Passage {
    /// When a destination has last answered a SYN that had the option.
    passed: Option<Instant>,
    /// Networks of destinations that answered only without the option, since then.
    in_a_row: BTreeSet<IpNet>,
}

type NetworkPlace = (Option<LinkIndex>, Option<IpAddr>);

#[derive(Clone, Copy, Debug)]
struct Fault {
    until: Instant,
    span: Duration,
    /// A SYN-ACK without a valid answer came back, so the SYN was not lost.
    is_certain: bool,
}

impl Middleboxes {
    /// Tells whether handshakes over these links reveal nothing about a destination, because a
    /// middlebox alters the option or all of the links are at fault. A single repeated SYN may have
    /// been lost, and does not count.
    pub fn is_silent(
        &self,
        now: Instant,
        links: impl IntoIterator<Item = LinkIndex>,
        to: IpAddr,
    ) -> bool {
        let fault = |place: NetworkPlace| self.faults.get(&place).filter(|it| now < it.until);
        let mut links = links.into_iter().map(Some).peekable();
        links.peek().is_some()
            && links.all(|link| {
                let altered = fault((link, Some(to))).is_some_and(|it| it.is_certain);
                altered || fault((link, None)).is_some()
            })
    }

    /// Returns the places where the option is avoided at this time, each with the remaining time.
    pub fn avoided(&self, now: Instant) -> Vec<Avoidance> {
        let lasting = self.faults.iter().filter(|(_, fault)| now < fault.until);
        let avoidance = |(&(link, to), fault): (&NetworkPlace, &Fault)| Avoidance {
            link,
            to,
            span: fault.until.since(now),
        };
        lasting.map(avoidance).collect()
    }

    /// Takes in the result of a handshake; returns the places to avoid, or to avoid no longer.
    pub fn handle_learnt(&mut self, now: Instant, learnt: &Learnt) -> Vec<Avoidance> {
        let place = (learnt.link, Some(learnt.to.ip()));
        match learnt.outcome {
            Outcome::Answered(_) => {
                self.bonding.insert(learnt.to, now);
                limit(&mut self.bonding, |at| *at);
                self.let_through(now, place)
            }
            Outcome::Plain if self.bonding.contains_key(&learnt.to) => {
                self.on_fault(now, place, true)
            }
            Outcome::Plain => self.let_through(now, place),
            Outcome::Echoed | Outcome::Unreadable(_) => self.on_fault(now, place, true),
            // It is not known yet whether the destination exists.
            Outcome::Repeated => Vec::new(),
            Outcome::AnsweredWithout => self.on_answered_without(now, place, learnt.to.ip()),
        }
    }

    /// Forgets everything about a link whose network has changed. The kernel's program must be told
    /// as well: [`crate::Discovery::forget_link`].
    pub fn forget_link(&mut self, link: Option<LinkIndex>) {
        self.faults.retain(|(of, _), _| *of != link);
        self.links.remove(&link);
    }

    /// Records that the option has come through: neither the destination nor the link is at fault.
    fn let_through(&mut self, now: Instant, place: NetworkPlace) -> Vec<Avoidance> {
        let (link, to) = place;
        let mut over = vec![place];
        if !to.is_some_and(is_private) {
            let passage = self.passage(link);
            passage.passed = Some(now);
            passage.in_a_row.clear();
            over.push((link, None));
        }
        let over = over.into_iter();
        let over = over.filter(|place| self.faults.remove(place).is_some());
        let avoidance = |(link, to)| Avoidance {
            link,
            to,
            span: Duration::ZERO,
        };
        over.map(avoidance).collect()
    }

    fn on_answered_without(
        &mut self,
        now: Instant,
        place: NetworkPlace,
        to: IpAddr,
    ) -> Vec<Avoidance> {
        let mut found = self.on_fault(now, place, false);
        let passage = self.passage(place.0);
        if is_private(to) || passage.has_passed(now) {
            return found;
        }
        // A network in the size that providers get, so that one owner has few.
        let to = to.to_canonical();
        let length = if to.is_ipv4() { 16 } else { 32 };
        let network = IpNet::new_assert(to, length).trunc();
        passage.in_a_row.insert(network);
        if passage.in_a_row.len() >= LINK_AT_FAULT {
            passage.in_a_row.clear();
            found.extend(self.on_fault(now, (place.0, None), true));
        }
        found
    }

    fn passage(&mut self, link: Option<LinkIndex>) -> &mut Passage {
        while self.links.len() >= MAX_LINKS && !self.links.contains_key(&link) {
            self.links.pop_first();
        }
        self.links.entry(link).or_default()
    }

    fn on_fault(&mut self, now: Instant, place: NetworkPlace, is_certain: bool) -> Vec<Avoidance> {
        let before = self.faults.get(&place);
        let span = before.map_or(FIRST_SPAN, |fault| fault.span * 2);
        let span = span.min(MAX_SPAN);
        let is_certain = is_certain || before.is_some_and(|fault| fault.is_certain);
        let fault = Fault {
            until: now + span,
            span,
            is_certain,
        };
        self.faults.insert(place, fault);
        limit(&mut self.faults, |fault| fault.until);
        let (link, to) = place;
        vec![Avoidance { link, to, span }]
    }
}

impl Passage {
    /// Tells whether the option gets through on the link, so that destinations which do not answer
    /// the option are at fault themselves.
    fn has_passed(&self, now: Instant) -> bool {
        self.passed
            .is_some_and(|passed| now.since(passed) < PASSAGE)
    }
}

/// Drops the entry with the earliest time from a table that is full.
fn limit<K: Ord + Copy, V>(table: &mut BTreeMap<K, V>, time: impl Fn(&V) -> Instant) {
    if table.len() > MAX_ENTRIES {
        let first = table.iter().min_by_key(|(_, value)| time(value));
        if let Some(key) = first.map(|(key, _)| *key) {
            table.remove(&key);
        }
    }
}

const FIRST_SPAN: Duration = Duration::from_secs(10 * 60);
const MAX_SPAN: Duration = Duration::from_secs(24 * 60 * 60);
/// Networks in a row after which their link is at fault.
const LINK_AT_FAULT: usize = 3;
/// Time after a success during which a link is not at fault.
const PASSAGE: Duration = Duration::from_secs(60 * 60);
const MAX_ENTRIES: usize = 1024;
const MAX_LINKS: usize = 64;

#[cfg(test)]
mod tests {
    use hawser_wire::{Offer, OfferForm, SynOption};
    use proptest::prelude::*;

    use super::*;

    const WEST: Option<LinkIndex> = Some(LinkIndex::new(2));
    const EAST: Option<LinkIndex> = Some(LinkIndex::new(3));

    fn answered() -> Outcome {
        Outcome::Answered(SynOption {
            offer: Offer {
                form: OfferForm::Paper,
                version: 0,
                interfaces: 2,
                key_hint: None,
            },
            bond: true,
            connection: 1,
        })
    }

    fn learnt(link: Option<LinkIndex>, host: u8, outcome: Outcome) -> Learnt {
        Learnt {
            to: SocketAddr::new(ip(host), 443),
            link,
            at: at(0),
            outcome,
        }
    }

    /// Returns an address in a network of its own.
    fn ip(host: u8) -> IpAddr {
        IpAddr::from([198, host, 0, 1])
    }

    impl Middleboxes {
        /// Whether a SYN over this link to this destination may have the option.
        fn may_ask(&self, now: Instant, link: Option<LinkIndex>, to: IpAddr) -> bool {
            let is_it = |it: &Avoidance| it.link == link && it.to.is_none_or(|at| at == to);
            !self.avoided(now).iter().any(is_it)
        }
    }

    fn at(minutes: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(60 * minutes)
    }

    #[test]
    fn a_syn_that_is_answered_without_the_option_alone_counts_for_its_link_and_destination() {
        let mut boxes = Middleboxes::default();
        let found = boxes.handle_learnt(at(0), &learnt(WEST, 1, Outcome::AnsweredWithout));
        let expected = Avoidance {
            link: WEST,
            to: Some(ip(1)),
            span: FIRST_SPAN,
        };
        assert_eq!(found, [expected]);
        assert!(!boxes.may_ask(at(9), WEST, ip(1)));
        assert!(boxes.may_ask(at(9), WEST, ip(2)));
        assert!(boxes.may_ask(at(9), EAST, ip(1)));
        assert!(boxes.may_ask(at(10), WEST, ip(1)));
    }

    #[test]
    fn it_lasts_twice_as_long_each_time_and_a_day_at_most_until_an_answer() {
        let mut boxes = Middleboxes::default();
        let mut spans = Vec::new();
        for _ in 0..9 {
            let found = boxes.handle_learnt(at(0), &learnt(WEST, 1, Outcome::Echoed));
            spans.push(found[0].span.as_secs() / 60);
        }
        assert_eq!(spans, [10, 20, 40, 80, 160, 320, 640, 1280, 1440]);
        let over = Avoidance {
            link: WEST,
            to: Some(ip(1)),
            span: Duration::ZERO,
        };
        let found = boxes.handle_learnt(at(0), &learnt(WEST, 1, answered()));
        assert_eq!(found, [over]);
        assert!(boxes.may_ask(at(0), WEST, ip(1)));
        let found = boxes.handle_learnt(at(0), &learnt(WEST, 1, Outcome::Echoed));
        assert_eq!(found[0].span, FIRST_SPAN);
    }

    #[test]
    fn destinations_of_three_networks_in_a_row_make_the_link_at_fault() {
        let mut boxes = Middleboxes::default();
        for host in [3, 4, 4] {
            boxes.handle_learnt(at(0), &learnt(WEST, host, Outcome::AnsweredWithout));
        }
        let mut neighbour = learnt(WEST, 4, Outcome::AnsweredWithout);
        neighbour.to.set_ip(IpAddr::from([198, 4, 77, 1]));
        boxes.handle_learnt(at(0), &neighbour);
        assert!(boxes.may_ask(at(0), WEST, ip(200)));
        let found = boxes.handle_learnt(at(0), &learnt(WEST, 5, Outcome::AnsweredWithout));
        assert_eq!(found[1].to, None);
        assert!(!boxes.may_ask(at(0), WEST, ip(200)));
        assert!(boxes.may_ask(at(0), EAST, ip(200)));
        assert!(boxes.is_silent(at(0), WEST, ip(200)));
        boxes.forget_link(WEST);
        assert!(boxes.may_ask(at(0), WEST, ip(5)));
    }

    #[test]
    fn destinations_make_no_link_at_fault_that_lets_the_option_through() {
        let mut boxes = Middleboxes::default();
        for host in [1, 2] {
            boxes.handle_learnt(at(0), &learnt(WEST, host, Outcome::AnsweredWithout));
        }
        boxes.handle_learnt(at(0), &learnt(WEST, 9, Outcome::Plain));
        for host in 10..100 {
            boxes.handle_learnt(at(59), &learnt(WEST, host, Outcome::AnsweredWithout));
        }
        assert!(boxes.may_ask(at(59), WEST, ip(200)));
        assert!(!boxes.is_silent(at(59), WEST, ip(200)));
        // An hour later the link may be at fault, and one answer shows that it is not.
        for host in [101, 102] {
            boxes.handle_learnt(at(60), &learnt(WEST, host, Outcome::AnsweredWithout));
        }
        boxes.handle_learnt(at(60), &learnt(WEST, 9, answered()));
        boxes.handle_learnt(at(60), &learnt(WEST, 103, Outcome::AnsweredWithout));
        assert!(boxes.may_ask(at(60), WEST, ip(200)));
        for host in [104, 105, 106] {
            boxes.handle_learnt(at(120), &learnt(WEST, host, Outcome::AnsweredWithout));
        }
        assert!(!boxes.may_ask(at(120), WEST, ip(200)));
        // Earlier results do not count in another network.
        boxes.handle_learnt(at(121), &learnt(WEST, 9, Outcome::Plain));
        boxes.forget_link(WEST);
        for host in [107, 108, 109] {
            boxes.handle_learnt(at(121), &learnt(WEST, host, Outcome::AnsweredWithout));
        }
        assert!(!boxes.may_ask(at(121), WEST, ip(200)));
    }

    #[test]
    fn an_option_that_comes_through_ends_the_fault_of_its_link() {
        let mut boxes = Middleboxes::default();
        for host in [1, 2, 3] {
            boxes.handle_learnt(at(0), &learnt(WEST, host, Outcome::AnsweredWithout));
        }
        assert!(!boxes.may_ask(at(0), WEST, ip(9)));
        // The result of a SYN that left before.
        let found = boxes.handle_learnt(at(0), &learnt(WEST, 8, Outcome::Plain));
        let places = found.iter().map(|it| (it.to, it.span));
        assert!(places.eq([(None, Duration::ZERO)]), "{found:?}");
        assert!(boxes.may_ask(at(0), WEST, ip(9)) && !boxes.is_silent(at(0), WEST, ip(9)));
        assert!(!boxes.may_ask(at(0), WEST, ip(1)), "its own fault stays");
    }

    #[test]
    fn destinations_near_a_link_say_nothing_of_it() {
        let near = ["10.9.9.9", "172.16.0.1", "192.168.1.1", "169.254.7.7"];
        let near = near
            .into_iter()
            .chain(["fd00::1", "fe80::1", "::ffff:10.1.1.1"]);
        let near: Vec<IpAddr> = near.map(|it| it.parse().unwrap()).collect();
        let to = |host: &IpAddr, outcome| Learnt {
            to: SocketAddr::new(*host, 443),
            ..learnt(WEST, 1, outcome)
        };
        let mut boxes = Middleboxes::default();
        for host in &near {
            boxes.handle_learnt(at(0), &to(host, Outcome::AnsweredWithout));
            assert!(!boxes.may_ask(at(0), WEST, *host));
        }
        assert!(
            boxes.may_ask(at(0), WEST, ip(9)),
            "the link is not at fault"
        );
        for host in [1, 2, 3] {
            for host in &near {
                boxes.handle_learnt(at(0), &to(host, Outcome::Plain));
            }
            boxes.handle_learnt(at(0), &learnt(WEST, host, Outcome::AnsweredWithout));
        }
        assert!(!boxes.may_ask(at(0), WEST, ip(9)), "now it is");
        boxes.handle_learnt(at(0), &to(&near[0], answered()));
        assert!(!boxes.may_ask(at(0), WEST, ip(9)), "and stays so");
    }

    #[test]
    fn destinations_that_answer_nothing_change_nothing() {
        let mut boxes = Middleboxes::default();
        for host in 0..=255 {
            let found = boxes.handle_learnt(at(0), &learnt(WEST, host, Outcome::Repeated));
            assert!(found.is_empty());
            assert!(!boxes.is_silent(at(0), WEST, ip(host)));
        }
        assert!(boxes.may_ask(at(0), WEST, ip(1)) && boxes.avoided(at(0)).is_empty());
    }

    #[test]
    fn handshakes_are_silent_where_something_alters_them_and_not_after_a_loss() {
        let mut boxes = Middleboxes::default();
        let both = || [WEST, EAST].into_iter().flatten();
        boxes.handle_learnt(at(0), &learnt(WEST, 1, Outcome::AnsweredWithout));
        boxes.handle_learnt(at(0), &learnt(EAST, 1, Outcome::AnsweredWithout));
        assert!(!boxes.is_silent(at(0), both(), ip(1)));
        assert!(!boxes.is_silent(at(0), [], ip(1)));
        boxes.handle_learnt(at(0), &learnt(WEST, 1, Outcome::Echoed));
        assert!(!boxes.is_silent(at(0), both(), ip(1)));
        boxes.handle_learnt(at(0), &learnt(EAST, 1, Outcome::Echoed));
        assert!(boxes.is_silent(at(0), both(), ip(1)));
        assert!(!boxes.is_silent(at(0), both(), ip(2)));
        assert_eq!(boxes.avoided(at(0)).len(), 2);
        assert!(boxes.avoided(at(20)).is_empty());
        assert!(!boxes.is_silent(at(20), both(), ip(1)));
    }

    #[test]
    fn a_missing_option_is_a_fault_only_of_a_destination_that_can_bond() {
        let mut boxes = Middleboxes::default();
        assert!(
            boxes
                .handle_learnt(at(0), &learnt(WEST, 1, Outcome::Plain))
                .is_empty()
        );
        assert!(boxes.may_ask(at(0), WEST, ip(1)));
        boxes.handle_learnt(at(0), &learnt(EAST, 1, answered()));
        let found = boxes.handle_learnt(at(0), &learnt(WEST, 1, Outcome::Plain));
        assert_eq!(found.len(), 1);
        assert!(!boxes.may_ask(at(0), WEST, ip(1)));
        assert!(boxes.may_ask(at(0), EAST, ip(1)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn its_memory_is_bounded(
            events in proptest::collection::vec((0u32..200, any::<u32>(), 0u8..4), 0..4000),
        ) {
            let mut boxes = Middleboxes::default();
            for (link, to, outcome) in events {
                let mut it = learnt(Some(LinkIndex::new(link)), 1, Outcome::Plain);
                it.to.set_ip(IpAddr::from(to.to_be_bytes()));
                it.outcome = match outcome {
                    0 => answered(),
                    1 => Outcome::Plain,
                    2 => Outcome::Echoed,
                    _ => Outcome::AnsweredWithout,
                };
                for avoidance in boxes.handle_learnt(at(0), &it) {
                    prop_assert!(avoidance.span <= MAX_SPAN);
                }
            }
            prop_assert!(boxes.faults.len() <= MAX_ENTRIES);
            prop_assert!(boxes.bonding.len() <= MAX_ENTRIES);
            prop_assert!(boxes.links.len() <= MAX_LINKS);
            let rows = boxes.links.values().map(|it| it.in_a_row.len());
            prop_assert!(rows.into_iter().all(|length| length < LINK_AT_FAULT));
        }
    }
}
