use hawser_types::LinkIndex;

use super::*;

fn link(name: &str, has_default_route: bool) -> Link {
    Link {
        addresses: vec!["192.0.2.1".parse().unwrap()],
        has_default_route_v4: has_default_route,
        loopback: name == "lo",
        ..Link::new(LinkIndex::new(7), name)
    }
}

fn said(name: &str, wanted: &[&str]) -> String {
    let names = ["lo", "eth0", "eth1", "hawser0", "eth\"1", "eth*"];
    let links = names.map(|name| link(name, name == "eth0"));
    let wanted: Vec<String> = wanted.iter().map(|&it| it.to_owned()).collect();
    let checked = check(&[name.to_owned()], &links, &wanted);
    checked.map_or_else(|error| error.to_string(), |()| "fine".to_owned())
}

#[test]
fn an_interface_that_is_no_lan_is_refused_with_its_reason() {
    assert_eq!(said("eth1", &["eth0"]), "fine");
    assert_eq!(
        said("eth0", &[]),
        "eth0 is a link: a default route leads by it"
    );
    assert_eq!(
        said("eth1", &["eth1"]),
        "eth1 is one of the links that are to be used"
    );
    assert_eq!(said("lo", &[]), "lo is the loopback interface");
    assert_eq!(
        said("hawser0", &[]),
        "hawser0 is an interface of Hawser itself"
    );
    for name in ["eth\"1", "eth*"] {
        assert!(said(name, &[]).contains("rules can't contain"), "{name}");
    }
    assert!(said("eth9", &[]).starts_with("no interface is called eth9; there are lo, eth0"));
}

#[test]
fn an_interface_that_is_not_there_yet_is_judged_by_what_is_known() {
    let links = [link("eth0", true)];
    let said = |name: &str, wanted: &[&str]| {
        let wanted: Vec<String> = wanted.iter().map(|&it| it.to_owned()).collect();
        let checked = check_known(&[name.to_owned()], &links, &wanted);
        checked.map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    };
    assert_eq!(said("eth1", &["eth0"]), "fine");
    for (name, wanted) in [("eth0", &[][..]), ("eth1", &["eth1"]), ("eth*", &[])] {
        assert_ne!(said(name, wanted), "fine", "{name}");
    }
}

fn plan(families: &[&str]) -> LanPlan {
    LanPlan {
        interfaces: vec!["eth1".to_owned(), "br-lan.7".to_owned()],
        device: "hawser0".to_owned(),
        families: families.iter().map(|it| it.parse().unwrap()).collect(),
        hosts: Vec::new(),
        ports: LanPorts {
            v4: 4444,
            v6: Some(6666),
        },
        rules: Vec::new(),
    }
}

#[test]
fn families_that_the_far_end_does_not_carry_are_left_alone() {
    let both = script(&plan(&["10.83.0.2", "fd00::2"]), &[], &[]);
    assert!(!both.contains("meta nfproto ipv4 accept"), "{both}");
    assert!(!both.contains("meta nfproto ipv6 accept"), "{both}");
    let one = script(&plan(&["10.83.0.2"]), &[], &[]);
    assert!(one.contains("meta nfproto ipv6 accept"), "{one}");
}

#[test]
fn hosts_have_addresses_of_their_own_where_the_far_end_has_networks_for_them() {
    let masquerade = "oifname \"hawser0\" masquerade; ";
    let mut plan = plan(&["10.83.0.2", "fd00::2"]);
    assert_eq!(leaving(&plan), masquerade);
    plan.hosts = vec!["10.83.128.64/26".parse().unwrap()];
    let v4 = "oifname \"hawser0\" ip saddr != 10.83.0.2 \
              snat ip to ip saddr & 0.0.0.63 | 10.83.128.64; ";
    assert_eq!(leaving(&plan), format!("{v4}{masquerade}"));
    plan.hosts.push("fd00::2:0/112".parse().unwrap());
    let v6 = "oifname \"hawser0\" ip6 saddr != fd00::2 \
              snat ip6 to ip6 saddr & ::ffff | fd00::2:0; ";
    assert_eq!(leaving(&plan), format!("{v4}{v6}{masquerade}"));
}

#[test]
fn what_was_not_forwarded_before_is_dropped() {
    let plan = plan(&["10.83.0.2"]);
    let before = script(&plan, &[], &[]);
    let after = script(&plan, &["eth1"], &[Family::V6]);
    for rule in [
        "meta nfproto ipv4 iifname { \"eth1\" } oifname != \"hawser0\" drop",
        "meta nfproto ipv6 iifname != \"hawser0\" oifname != \"hawser0\" drop",
    ] {
        assert!(after.contains(rule) && !before.contains(rule), "{after}");
    }
    assert_eq!(after.lines().count(), 1);
}
