use hawser_path::{KnownLink, LinkKey};
use hawser_sched::connection::ConnectionPolicy;
use hawser_sched::rules::LinkRules;
use hawser_types::{DefaultRoute, LimitedBy, Permission, Rate};

use super::super::*;
use super::{by, connect};
use crate::testing::{Rig, index};

fn director(names: &[&str], routes: &[(&str, &str)]) -> Rig {
    let director = Rig::with_links(ConnectionPolicy::MaxThroughput, names);
    let route = |&(name, gateway): &(&str, &str)| DefaultRoute {
        link: index(name),
        gateway: gateway.parse().ok(),
    };
    set_routes(&director, routes.iter().map(route).collect());
    director
}

/// Returns the effective rates of the links for receiving, in kbit/s.
fn counts_for(director: &Rig) -> Vec<u64> {
    let links = director.report().links;
    let kilobits = |rate: Rate| rate.bits_per_second() / 1000;
    links
        .iter()
        .map(|link| kilobits(link.counts_for[1]))
        .collect()
}

fn measure(director: &Rig, name: &str, bytes: u64) {
    director.handle_probe(index(name), false, bytes, Duration::from_secs(1));
}

fn set_routes(director: &Rig, routes: Vec<DefaultRoute>) {
    director.with(|it, now| it.set_default_routes(now, routes));
}

fn take_rates(director: &Rig) -> BTreeMap<LinkKey, KnownLink> {
    director.with(|it, _| it.take_rates())
}

fn load_rates(director: &Rig, known: BTreeMap<LinkKey, KnownLink>) {
    director.with(|it, now| it.load_rates(now, known.into_iter().collect()));
}

#[test]
fn while_nothing_is_known_the_systems_own_link_is_thought_the_best() {
    let director = director(&["a", "b", "c"], &[("b", "192.0.2.1"), ("a", "192.0.2.2")]);
    assert_eq!(counts_for(&director), [5_555, 10_000, 5_555]);
    measure(&director, "b", 5_000_000);
    assert_eq!(counts_for(&director), [22_222, 40_000, 22_222]);
    measure(&director, "a", 3_000_000);
    assert_eq!(counts_for(&director), [24_000, 40_000, 22_222]);
}

#[test]
fn of_equal_connections_at_once_the_second_goes_where_nothing_is_known() {
    for policy in [ConnectionPolicy::Auto, ConnectionPolicy::MaxThroughput] {
        let director = director(&["a", "b"], &[("a", "192.0.2.1"), ("b", "192.0.2.2")]);
        director.with(|it, _| it.set_policy(policy));
        let flows: Vec<_> = (0..4).map(|_| connect(&director, &by("x"))).collect();
        let links: Vec<_> = flows.iter().map(|flow| flow.link()).collect();
        assert_eq!(links[..2], [index("a"), index("b")], "{policy:?}");
        let on_a = links.iter().filter(|link| **link == index("a")).count();
        assert!((2..4).contains(&on_a), "{policy:?}: {links:?}");
    }
}

#[test]
fn what_one_run_has_learned_the_next_one_begins_with() {
    let routes = [("a", "192.0.2.1"), ("b", "198.51.100.1")];
    let first = director(&["a", "b"], &routes);
    assert!(take_rates(&first).is_empty());
    measure(&first, "b", 1_000_000);
    let learned = take_rates(&first);
    let keys: Vec<_> = learned.keys().cloned().collect();
    assert_eq!(keys, [("b".to_owned(), "198.51.100.1".to_owned())]);
    assert!(take_rates(&first).is_empty(), "nothing new");
    measure(&first, "b", 1_500_000);
    let learned = take_rates(&first);
    let second = director(&["a", "b"], &routes);
    load_rates(&second, learned.clone());
    assert_eq!(counts_for(&second), [10_000, 12_000]);
    assert!(take_rates(&second).is_empty(), "it was not seen again");
    // In another network only the name is known, which halves the confidence.
    let elsewhere = director(&["b"], &[("b", "203.0.113.1")]);
    load_rates(&elsewhere, learned);
    let confidence = |director: &Rig| director.report().links.last().unwrap().confidence[1];
    assert_eq!(counts_for(&elsewhere), [12_000]);
    assert!(confidence(&elsewhere) < 0.6 * confidence(&second));
}

#[test]
fn a_link_in_another_network_is_another_link_and_one_without_routes_the_same() {
    let director = director(&["a"], &[("a", "192.0.2.1")]);
    measure(&director, "a", 5_000_000);
    set_routes(&director, Vec::new());
    assert_eq!(counts_for(&director), [40_000]);
    set_routes(
        &director,
        vec![DefaultRoute {
            link: index("a"),
            gateway: "198.51.100.1".parse().ok(),
        }],
    );
    assert_eq!(counts_for(&director), [10_000]);
}

fn ranking(director: &Rig) -> Vec<LinkIndex> {
    director.report().ranking()
}

#[test]
fn links_are_ranked_by_rules_and_signal_then_rate_then_price() {
    let director = director(&["a", "b", "c"], &[("c", "192.0.2.1")]);
    let order = |names: [&str; 3]| names.map(index).to_vec();
    assert_eq!(
        ranking(&director),
        order(["c", "a", "b"]),
        "the system's own first"
    );
    let price = LinkRules {
        price: 2.0,
        ..LinkRules::default()
    };
    let mut rules = AllLinkRules {
        by_name: BTreeMap::from([("a".to_owned(), price)]),
        ..AllLinkRules::default()
    };
    director.set_link_rules(rules.clone());
    assert_eq!(
        ranking(&director),
        order(["c", "b", "a"]),
        "as quick, and cheaper"
    );
    measure(&director, "a", 5_000_000);
    assert_eq!(ranking(&director), order(["a", "b", "c"]), "the quickest");
    let fading = |rules: LinkRules| rules.while_fading();
    rules.by_name.insert("a".to_owned(), fading(price));
    director.set_link_rules(rules.clone());
    assert_eq!(ranking(&director), order(["b", "c", "a"]), "about to go");
    let never = Permission::Forbidden(LimitedBy::Choice);
    let never = LinkRules {
        up: never,
        down: never,
        ..LinkRules::default()
    };
    rules.by_name.insert("b".to_owned(), never);
    director.set_link_rules(rules);
    assert_eq!(ranking(&director), [index("c"), index("a")]);
}

#[test]
fn a_weak_signal_halves_what_is_supposed_and_nothing_that_is_known() {
    let director = director(&["a", "b"], &[("b", "192.0.2.1")]);
    let weak = |names: &[&str]| AllLinkRules {
        weak: names.iter().map(|name| (*name).to_owned()).collect(),
        ..AllLinkRules::default()
    };
    director.set_link_rules(weak(&["b"]));
    assert_eq!(counts_for(&director), [5_555, 5_000]);
    director.set_link_rules(weak(&["a", "b"]));
    assert_eq!(counts_for(&director), [2_777, 5_000]);
    measure(&director, "a", 5_000_000);
    assert_eq!(counts_for(&director)[0], 40_000);
}
