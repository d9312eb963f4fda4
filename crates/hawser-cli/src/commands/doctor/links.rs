//! The links, their routes, and whether sockets may be bound to them.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use hawser_link::links::{Link, full_tunnel};
use socket2::{Domain, Socket, Type};

use super::check::{Check, Status};

pub(super) fn check(
    all: &[Link],
    chosen: &[Link],
    wanted: &[String],
    listen: SocketAddr,
) -> Vec<Check> {
    let mut checks = vec![found(chosen)];
    let outside = all.iter().filter(|link| !link.loopback);
    for link in outside {
        checks.extend(of_link(link, chosen, wanted));
    }
    for name in wanted {
        if !all.iter().any(|link| link.name == *name) {
            checks.push(Check::fail(
                format!("link {name}"),
                "there is no such interface",
                "remove it from `links` in the configuration, or connect it",
            ));
        }
    }
    checks.extend(vpn(all, wanted));
    let binding = chosen.first().map(bindable);
    let can_bind = binding.as_ref().is_some_and(|it| it.status == Status::Ok);
    checks.extend(binding);
    if chosen.len() > 1 {
        checks.push(answers(listen, can_bind));
        let filter = |link| reverse_path_filter(link, Path::new(IPV4_CONF));
        checks.extend(chosen.iter().filter_map(filter));
    }
    checks
}

fn found(chosen: &[Link]) -> Check {
    let names: Vec<&str> = chosen.iter().map(|link| link.name.as_str()).collect();
    let names = names.join(", ");
    match chosen.len() {
        0 => Check::fail(
            "links",
            "none can be used",
            "connect one: it needs a carrier and an address",
        ),
        1 => Check::warn(
            "links",
            format!("only {names} can be used"),
            "connect a second one: a single link cannot be bonded",
        ),
        n => Check::ok("links", format!("{n} can be used: {names}")),
    }
}

fn of_link(link: &Link, chosen: &[Link], wanted: &[String]) -> Option<Check> {
    let name = format!("link {}", link.name);
    if chosen.iter().any(|other| other.index == link.index) {
        let routed = link.has_default_route_v4 || link.has_default_route_v6;
        return Some(if routed {
            Check::ok(name, "it is up and has a default route")
        } else {
            Check::warn(
                name,
                "it has no default route, so it reaches only its own network",
                format!(
                    "ip route add default via ROUTER dev {} metric 1000",
                    link.name
                ),
            )
        });
    }
    // Unusable links that are virtual or switched off are left out, unless the user has named
    // them.
    let asked_for = wanted.contains(&link.name);
    let unusable = link.why_unusable()?;
    if asked_for {
        let remedy = "connect it, or remove it from `links` in the configuration";
        Some(Check::fail(name, unusable.to_string(), remedy))
    } else if link.enabled && !link.kind.is_virtual() {
        let remedy = "connect it if you want to use it";
        Some(Check::warn(name, unusable.to_string(), remedy))
    } else {
        None
    }
}

/// Warns of a VPN that takes all traffic, so that direct connections bypass the links.
fn vpn(all: &[Link], wanted: &[String]) -> Option<Check> {
    let tunnel = full_tunnel(all, false).or_else(|| full_tunnel(all, true))?;
    let name = format!("VPN {}", tunnel.name);
    Some(if wanted.is_empty() {
        Check::warn(
            name,
            "the system sends all traffic through it, connections without a gateway too",
            "name links with --link or `links` to bypass it",
        )
    } else {
        Check::ok(name, "connections bypass it and use the named links")
    })
}

/// Tries to bind a socket to the link, as every channel does first.
fn bindable(link: &Link) -> Check {
    let name = "binding sockets to a link";
    let bound = Socket::new(Domain::IPV4, Type::STREAM, None)
        .and_then(|socket| socket.bind_device(Some(link.name.as_bytes())));
    match bound {
        Ok(()) => Check::ok(name, "this user may do it"),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Check::fail(
            name,
            "the kernel does not permit it to this user",
            "use Linux 5.7 or later, or run as root (or with CAP_NET_RAW)",
        ),
        Err(error) => Check::fail(
            name,
            format!("{error}"),
            "check whether the interface still exists",
        ),
    }
}

/// Checks whether a gateway with several links answers over the link of the request.
fn answers(listen: SocketAddr, can_bind: bool) -> Check {
    let name = "answers of `hawser serve`";
    if !listen.ip().is_unspecified() {
        let finding = format!("to {listen} only; they leave over the best route");
        return Check::ok(name, finding);
    }
    if can_bind {
        Check::ok(name, "they leave over the link that the request came by")
    } else {
        Check::warn(
            name,
            "they leave over the best route, so clients on another link may not receive them",
            "use Linux 5.7 or later, or route by source address (`ip rule add from ADDRESS …`)",
        )
    }
}

/// Warns of strict filtering: it drops replies on every link but the one with the best route back.
fn reverse_path_filter(link: &Link, conf: &Path) -> Option<Check> {
    let read = |name: &str| -> Option<u8> {
        let text = std::fs::read_to_string(conf.join(name).join("rp_filter")).ok()?;
        text.trim().parse().ok()
    };
    // The kernel applies the larger of the two values.
    let filter = read("all")?.max(read(&link.name)?);
    let name = format!("rp_filter of {}", link.name);
    Some(match filter {
        1 => Check::warn(
            name,
            "strict: replies are dropped on every link but the one with the best route",
            format!("sysctl -w net.ipv4.conf.{}.rp_filter=2", link.name),
        ),
        other => Check::ok(name, format!("{other}: replies may arrive over any link")),
    })
}

const IPV4_CONF: &str = "/proc/sys/net/ipv4/conf";

#[cfg(test)]
mod tests {
    use hawser_types::LinkIndex;

    use super::*;

    const PORT: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), 7443);

    fn link(name: &str) -> Link {
        Link {
            addresses: vec!["192.0.2.1".parse().unwrap()],
            has_default_route_v4: true,
            ..Link::new(LinkIndex::new(7), name)
        }
    }

    #[test]
    fn a_gateway_that_cannot_bind_is_told_what_becomes_of_its_answers() {
        assert_eq!(answers(PORT, true).status, Status::Ok);
        assert_eq!(answers(PORT, false).status, Status::Warn);
        let one_address = "192.0.2.1:7443".parse().unwrap();
        assert_eq!(answers(one_address, false).status, Status::Ok);
    }

    #[test]
    fn strict_filters_are_found_wherever_they_are_set() {
        let conf = tempfile::tempdir().unwrap();
        let set = |name: &str, value: &str| {
            std::fs::create_dir_all(conf.path().join(name)).unwrap();
            std::fs::write(conf.path().join(name).join("rp_filter"), value).unwrap();
        };
        for (all, own, expected) in [
            ("0\n", "0\n", Status::Ok),
            ("1\n", "0\n", Status::Warn),
            ("0\n", "1\n", Status::Warn),
            ("1\n", "2\n", Status::Ok),
        ] {
            set("all", all);
            set("wwan0", own);
            let check = reverse_path_filter(&link("wwan0"), conf.path()).unwrap();
            assert_eq!(check.status, expected, "{check:?}");
        }
        assert!(reverse_path_filter(&link("gone0"), conf.path()).is_none());
    }

    #[test]
    fn a_vpn_for_all_traffic_is_told() {
        let tunnel = Link {
            kind: hawser_link::links::LinkKind::Tunnel,
            takes_ordinary_v4: true,
            ..link("wg0")
        };
        let all = [link("eth0"), tunnel];
        assert_eq!(vpn(&all, &[]).unwrap().status, Status::Warn);
        let named = vpn(&all, &["eth0".to_owned()]).unwrap();
        assert_eq!(named.status, Status::Ok);
        assert!(vpn(&all[..1], &[]).is_none());
    }

    #[test]
    fn a_link_that_was_asked_for_and_is_dead_is_a_failure() {
        let dead = Link {
            up: false,
            ..link("wwan0")
        };
        let wanted = ["wwan0".to_owned(), "lost0".to_owned()];
        let statuses: Vec<_> = check(&[link("eth0"), dead], &[], &wanted, PORT)
            .into_iter()
            .map(|check| (check.name, check.status))
            .collect();
        for name in ["links", "link wwan0", "link lost0"] {
            assert!(
                statuses.contains(&(name.to_owned(), Status::Fail)),
                "{statuses:?}"
            );
        }
    }
}
