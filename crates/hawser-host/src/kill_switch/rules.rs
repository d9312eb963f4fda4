//! The kill switch's table, as text.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::inbound::Connection;
use hawser_keys::unix_time::UnixTime;
use hawser_link::bind::OWN_MARK;

/// Destinations and interfaces that a kill switch leaves open beside Hawser's own traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Openings {
    /// Networks that all programs may reach.
    pub networks: Vec<IpNet>,
    /// Interfaces with hosts behind this machine: the machine answers these hosts as before, and
    /// their traffic leaves only through Hawser.
    pub inside: Vec<String>,
}

/// State of the table in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// No table.
    Missing,
    /// A table without rules: it was emptied on purpose a moment ago.
    Off,
    /// The switch is on.
    On(UnixTime),
}

impl Table {
    /// Reads the output of `nft`.
    pub(super) fn read(listed: Option<&str>) -> Self {
        let Some(text) = listed else {
            return Self::Missing;
        };
        if text.contains(&format!("comment \"{OFF}\"")) {
            return Self::Off;
        }
        let since = text.split_once(&format!("comment \"{SINCE}"));
        let since = since.and_then(|(_, rest)| rest.split_once('"')?.0.parse().ok());
        // Even with an unknown text, the table exists and has rules.
        Self::On(UnixTime::from_secs(since.unwrap_or(0)))
    }
}

/// Builds the script that creates or replaces the table in one step, with these openings. The
/// `inbound` connections continue.
pub(super) fn script(since: UnixTime, open: &Openings, inbound: &[Connection]) -> String {
    let is_v4 = |address: &SocketAddr| address.is_ipv4();
    let [four, six] = [true, false].map(|v4| {
        let of_family = inbound.iter().filter(|(local, _)| is_v4(local) == v4);
        elements(of_family.map(|(local, remote)| {
            let end = |end: &SocketAddr| format!("{} . {}", end.ip(), end.port());
            format!("{} . {}", end(local), end(remote))
        }))
    });
    let nets = |v4: bool| {
        let of_family = open
            .networks
            .iter()
            .filter(move |net| matches!(net.addr(), IpAddr::V4(_)) == v4);
        elements(of_family.map(|net| net.trunc().to_string()))
    };
    let (open_four, open_six) = (nets(true), nets(false));
    let inside = elements(open.inside.iter().map(|name| format!("\"{name}\"")));
    format!(
        r#"{before}table inet {NAME} {{
    comment "{SINCE}{since}"
    set inbound4 {{ type ipv4_addr . inet_service . ipv4_addr . inet_service; {four} }}
    set inbound6 {{ type ipv6_addr . inet_service . ipv6_addr . inet_service; {six} }}
    set open4 {{ type ipv4_addr; flags interval; auto-merge; {open_four} }}
    set open6 {{ type ipv6_addr; flags interval; auto-merge; {open_six} }}
    set inside {{ type ifname; {inside} }}
{chains}}}
"#,
        before = removed(),
        chains = chains(),
    )
}

/// Builds the chains. Rejects outgoing packets with an error where possible; packets that are
/// rerouted later are checked again, where no error can be sent. Inside hosts get answers from this
/// machine and packets that Hawser delivers; no host on a link reaches them through it.
fn chains() -> String {
    format!(
        r#"    chain allowed {{
        oifname "lo" accept
        oifname "hawser*" accept
        meta mark {OWN_MARK} accept
        ip daddr @open4 accept
        ip6 daddr @open6 accept
        ip saddr . tcp sport . ip daddr . tcp dport @inbound4 accept
        ip6 saddr . tcp sport . ip6 daddr . tcp dport @inbound6 accept
        meta l4proto {{ tcp, icmp, icmpv6 }} ct direction reply ct state established accept
        meta nfproto ipv4 udp sport 68 udp dport 67 accept
        ip6 saddr fe80::/10 udp sport 546 udp dport 547 accept
        ip6 hoplimit 255 icmpv6 type {{ {NEIGHBOURS} }} accept
        ip6 hoplimit 1 icmpv6 type {{ {LISTENERS} }} accept
    }}
    chain leaving {{
        type filter hook output priority {LATE}; policy drop;
        oifname @inside accept
        jump allowed
        reject with icmpx type admin-prohibited
    }}
    chain passing {{
        type filter hook forward priority {LATE}; policy drop;
        iifname "hawser*" accept
        iifname @inside oifname @inside accept
        jump allowed
        reject with icmpx type admin-prohibited
    }}
    chain left {{
        type filter hook postrouting priority {LATE}; policy drop;
        iifname "hawser*" accept
        oifname @inside accept
        jump allowed
    }}
    chain arriving {{
        type filter hook input priority {LATE}; policy accept;
        iifname "lo" accept
        iifname "hawser*" accept
        ip daddr . tcp dport . ip saddr . tcp sport @inbound4 accept
        ip6 daddr . tcp dport . ip6 saddr . tcp sport @inbound6 accept
        meta l4proto tcp ct state new tcp flags & (fin|syn|rst|ack) != syn drop
    }}
"#
    )
}

/// Removes all rules in one step, and leaves a comment that marks the removal as intended.
pub(super) fn emptied() -> String {
    format!("{}table inet {NAME} {{ comment \"{OFF}\"; }}\n", removed())
}

/// Removes the table, if it is there.
pub(super) fn removed() -> String {
    // `destroy`, which accepts a missing table, came with nftables 1.0.7.
    format!("add table inet {NAME}\ndelete table inet {NAME}\n")
}

fn elements(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    if all.is_empty() {
        String::new()
    } else {
        format!("elements = {{ {} }};", all.join(", "))
    }
}

pub(super) const NAME: &str = "hawser_kill_switch";
const SINCE: &str = "since ";
const OFF: &str = "off";
/// Priority after chains that change packets.
const LATE: i32 = 100;
/// Neighbour discovery (RFC 4861), which a router never forwards.
const NEIGHBOURS: &str =
    "nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert";
/// Reports that switches need before they forward neighbour discovery (RFC 2710, RFC 3810).
const LISTENERS: &str = "mld-listener-report, mld-listener-done, mld2-listener-report";

#[cfg(test)]
mod tests {
    use hawser_skip::namespace::in_namespace;

    use super::*;
    use crate::nft::{self, NftError};

    #[test]
    fn the_kernel_takes_the_table_and_it_says_what_it_is() {
        let test = "kill_switch::rules::tests::the_kernel_takes_the_table_and_it_says_what_it_is";
        in_namespace(test, || {
            if let Err(NftError::Missing(_)) = nft::list(NAME) {
                return hawser_skip::skip(&format!("hawser_host::{test}"), "no nft here");
            }
            let found = || Table::read(nft::list(NAME).unwrap().as_deref());
            assert_eq!(found(), Table::Missing);
            let open = ["192.168.7.9/24", "192.168.0.0/16", "fd00::1/8"];
            let open = Openings {
                networks: open.map(|net| net.parse().unwrap()).into(),
                inside: vec!["eth1".to_owned(), "br-lan.7".to_owned()],
            };
            let inbound = [
                ("192.0.2.1:22", "192.0.2.2:5"),
                ("[fd00::1]:22", "[fd00::2]:5"),
            ];
            let inbound = inbound.map(|(to, from)| (to.parse().unwrap(), from.parse().unwrap()));
            let since = UnixTime::from_secs(1_795_000_000);
            for _ in 0..2 {
                nft::apply(&script(since, &open, &inbound)).unwrap();
                assert_eq!(found(), Table::On(since));
            }
            nft::apply(&script(since, &Openings::default(), &[])).unwrap();
            assert_eq!(found(), Table::On(since));
            nft::apply(&emptied()).unwrap();
            assert_eq!(found(), Table::Off);
            for _ in 0..2 {
                nft::apply(&removed()).unwrap();
                assert_eq!(found(), Table::Missing);
            }
        });
    }

    #[test]
    fn a_table_of_an_unknown_text_counts_as_on() {
        let strange = "table inet hawser_kill_switch {\n\tcomment \"since noon\"\n}\n";
        assert_eq!(Table::read(Some(strange)), Table::On(UnixTime::default()));
    }
}
