//! Sessions with the destination itself come before the gateway and links, or instead of them.

use hawser_policy::{Action, Avoid, LinkChoice, Mode, Rule};
use hawser_sched::connection::{ConnectionPolicy, GatewayUse};

use super::super::*;
use crate::testing::Rig;
use crate::{FarEnds, Known};

/// Creates a director with links a and b, and a gateway that is used as `usage` says.
fn director(usage: GatewayUse) -> Rig {
    let director = Rig::with_links(ConnectionPolicy::Auto, &["a", "b"]);
    director.set_gateway(usage);
    director.set_session(Some(SessionView {
        links: Vec::new(),
        moved: [ByteCount::ZERO; 2],
    }));
    director
}

/// Returns the name of the route of a connection to an address.
fn route(director: &Rig, ends: FarEnds) -> String {
    let request = ConnectionRequest {
        remote: "198.51.100.1".parse().ok(),
        port: 443,
        ..ConnectionRequest::default()
    };
    let question = Question {
        request: &request,
        is_near: Some(false),
        is_resolved: true,
        ends,
    };
    match director.with(|it, now| it.decide(now, &question)) {
        Route::Gateway(_) => "gateway".to_owned(),
        Route::Links(_) => "links".to_owned(),
        other => format!("{other:?}"),
    }
}

fn rule(director: &Rig, then: Action) {
    director.set_rule(Rule {
        then,
        ..Rule::default()
    });
}

const NOT_YET: FarEnds = FarEnds {
    named: Known::NotYet,
    vouched: Known::NotYet,
    held: Known::NotYet,
    peer: Known::NotYet,
    server: Known::NotYet,
};
const ALL: FarEnds = FarEnds {
    named: Known::Yes,
    vouched: Known::Yes,
    held: Known::Yes,
    peer: Known::Yes,
    server: Known::Yes,
};

#[test]
fn far_ends_are_asked_for_one_by_one_and_the_first_that_is_there_is_the_route() {
    let director = director(GatewayUse::Never);
    let mut ends = NOT_YET;
    for (field, missing, found) in [
        (0, "Unresolved(Named)", "Named"),
        (1, "Unresolved(Vouched)", "Vouched"),
        (2, "Unresolved(Held)", "Peer"),
        (3, "Unresolved(Peer)", "Peer"),
        (4, "Unresolved(Server)", "Discovered"),
    ] {
        assert_eq!(route(&director, ends), missing);
        let mut there = ends;
        *known(&mut there, field) = Known::Yes;
        assert_eq!(route(&director, there), found);
        *known(&mut ends, field) = Known::No;
    }
    assert_eq!(ends, FarEnds::NONE);
    assert_eq!(route(&director, ends), "links");
}

fn known(ends: &mut FarEnds, field: usize) -> &mut Known {
    [
        &mut ends.named,
        &mut ends.vouched,
        &mut ends.held,
        &mut ends.peer,
        &mut ends.server,
    ]
    .into_iter()
    .nth(field)
    .unwrap()
}

#[test]
fn a_named_host_has_no_other_route_whatever_the_gateway_and_the_rules_are() {
    let named = FarEnds {
        named: Known::Yes,
        ..FarEnds::NONE
    };
    for usage in [GatewayUse::Never, GatewayUse::Auto, GatewayUse::Always] {
        let director = director(usage);
        assert_eq!(route(&director, ALL), "Named");
        assert_eq!(route(&director, named), "Named");
        assert_eq!(route(&director, NOT_YET), "Unresolved(Named)");
        rule(
            &director,
            Action {
                mode: Some(Mode::Direct),
                links: Some(LinkChoice::Only(vec!["a".to_owned()])),
                ..Action::default()
            },
        );
        assert_eq!(route(&director, named), "Named");
    }
}

#[test]
fn a_vouched_name_has_no_other_route_and_waits_for_its_voucher() {
    let vouched = FarEnds {
        named: Known::No,
        ..ALL
    };
    let not_yet = FarEnds {
        vouched: Known::NotYet,
        ..vouched
    };
    for usage in [GatewayUse::Never, GatewayUse::Auto] {
        let director = director(usage);
        assert_eq!(route(&director, vouched), "Vouched");
        assert_eq!(route(&director, not_yet), "Unresolved(Vouched)");
    }
}

#[test]
fn a_gateway_for_everything_and_rules_keep_connections_off_other_sessions() {
    let unnamed = FarEnds {
        named: Known::No,
        ..ALL
    };
    let all = director(GatewayUse::Always);
    assert_eq!(route(&all, unnamed), "gateway");
    for then in [
        Action {
            mode: Some(Mode::Direct),
            ..Action::default()
        },
        Action {
            links: Some(LinkChoice::Only(vec!["a".to_owned()])),
            ..Action::default()
        },
        Action {
            avoid: Some(vec![Avoid::Metered]),
            ..Action::default()
        },
    ] {
        let director = director(GatewayUse::Never);
        rule(&director, then.clone());
        assert_eq!(route(&director, unnamed), "links", "{then:?}");
    }
}

#[test]
fn with_a_gateway_the_surroundings_are_missing_before_anything_is_weighed() {
    let request = ConnectionRequest {
        domain: Some("example.org".to_owned()),
        port: 443,
        ..ConnectionRequest::default()
    };
    let decide = |director: &Rig| {
        let question = Question {
            request: &request,
            is_near: None,
            is_resolved: false,
            ends: FarEnds::NONE,
        };
        director.with(|it, now| it.decide(now, &question))
    };
    for usage in GatewayUse::ALL {
        let route = decide(&director(usage));
        let is_asked = matches!(route, Route::Unresolved(Missing::Surroundings));
        assert!(is_asked, "{usage:?}: {route:?}");
    }
    let without = Rig::with_links(ConnectionPolicy::Auto, &["a", "b"]);
    let route = decide(&without);
    assert!(
        matches!(route, Route::Unresolved(Missing::Addresses)),
        "{route:?}"
    );
}
