//! The kill switch's table, as text.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::inbound::Connection;
use crate::bind::OWN_MARK;
use crate::unix_time::UnixTime;

/// What a kill switch leaves open beside Hawser's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Openings {
    /// Networks that all programs reach.
    pub networks: Vec<IpNet>,
    /// Interfaces with hosts behind this machine: it answers them as before, and what they send
    /// leaves by Hawser alone.
    pub inside: Vec<String>,
}

/// What there is in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// No table.
    Missing,
    /// One without rules: it was removed on purpose a moment ago.
    Off,
    /// The switch is on.
    On(UnixTime),
}

impl Table {
    /// Reads what `nft` lists.
    pub(super) fn read(listed: Option<&str>) -> Self {
        let Some(text) = listed else {
            return Self::Missing;
        };
        if text.contains(&format!("comment \"{OFF}\"")) {
            return Self::Off;
        }
        let since = text.split_once(&format!("comment \"{SINCE}"));
        let since = since.and_then(|(_, rest)| rest.split_once('"')?.0.parse().ok());
        // Whatever it says, it is there and has rules.
        Self::On(UnixTime::from_secs(since.unwrap_or(0)))
    }
}

/// Puts the table in place, or another one in its place, in one step, with these openings. The
/// connections of `inbound` go on.
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

/// A refusal is told on the way out. What is routed again after that is looked at once more, where
/// nothing can be told. Hosts inside are answered by this machine and by what Hawser brings; nobody
/// reaches them by a link through it.
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

/// Takes all rules out, in one step, and leaves a sign that this was meant.
pub(super) fn emptied() -> String {
    format!("{}table inet {NAME} {{ comment \"{OFF}\"; }}\n", removed())
}

/// Removes the table, if it is there.
pub(super) fn removed() -> String {
    // `destroy`, which needs no table, came with nftables 1.0.7.
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
/// After those who change packets.
const LATE: i32 = 100;
/// Neighbour discovery (RFC 4861), which a router never forwards.
const NEIGHBOURS: &str =
    "nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert";
/// What switches want to hear before they pass neighbour discovery on (RFC 2710, RFC 3810).
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
                return hawser_skip::skip(&format!("hawser_net::{test}"), "no nft here");
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
