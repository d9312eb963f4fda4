//! Flows of packets, which go through a tunnel instead of streams.

use std::time::Duration;

use hawser_types::{ByteCount, LinkIndex, Rate};
use serde::{Deserialize, Serialize};

use crate::why_count::WhyCount;
use crate::words::words;

/// One flow of packets over a session.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct PacketFlowStatus {
    /// Protocol behind the IP headers: `tcp`, `udp`, `icmp`, …, or its number.
    pub protocol: String,
    /// Inner address at the client, with the port if there is one.
    pub source: String,
    /// Destination, in the same form.
    pub destination: String,
    /// Name of the destination, if this daemon answered the name query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Differentiated services code point.
    #[serde(default)]
    pub dscp: u8,
    /// How the packets sent here are placed.
    pub placed: PacketPlacing,
    /// Most frequent reason for the choice of a link, for programs; `None` if no packet was sent
    /// here.
    #[serde(default)]
    pub why: Option<String>,
    /// Packets sent here, without copies.
    pub packets_sent: u64,
    /// Inner bytes sent here, including the inner headers.
    pub bytes_sent: ByteCount,
    /// Packets received, each once.
    pub packets_received: u64,
    /// Inner bytes received.
    pub bytes_received: ByteCount,
    /// Packets that were also sent over a second link.
    pub copies: u64,
    /// Packets dropped from the queue here.
    pub dropped: u64,
    /// Packets marked in the queue instead, which tells their sender to slow down.
    pub marked: u64,
    /// Packets from the far end that did not arrive.
    pub lost: u64,
    /// Packets received after they were counted as lost.
    pub late: u64,
    /// Time since its first packet.
    #[serde(rename = "age_ms", with = "crate::units::milliseconds")]
    pub age: Duration,
    /// Time since its latest packet.
    #[serde(rename = "idle_ms", with = "crate::units::milliseconds")]
    pub idle: Duration,
    /// Current rate of sending and receiving.
    #[serde(rename = "rate_bps", with = "crate::units::bits_per_second")]
    pub rate: Rate,
    /// Links that have carried it.
    pub links: Vec<PacketFlowLink>,
}

/// How the packets of a flow are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PacketPlacing {
    /// In order, as the policy decides.
    #[default]
    Bulk,
    /// On the link where each arrives first, without waiting for others.
    RealTime,
    /// Likewise, over two links at once.
    Copied,
}

/// One link's part of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PacketFlowLink {
    /// Its name.
    pub link: String,
    /// The kernel's number for it.
    pub index: LinkIndex,
    /// Bytes sent over it, without copies.
    pub bytes_sent: ByteCount,
    /// Bytes of copies: the packets were sent over another link, too.
    pub bytes_copied: ByteCount,
    /// Bytes received over it.
    pub bytes_received: ByteCount,
    /// Packets placed here, by reason; only in answers to `why`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chosen: Vec<WhyCount>,
}

impl PacketFlowStatus {
    /// Returns the destination for people: with its name in place of the address, if known.
    pub fn to(&self) -> String {
        let Some(name) = &self.name else {
            return self.destination.clone();
        };
        // IPv6 addresses contain colons; with a port they are in brackets.
        let has_port =
            self.destination.matches(':').count() == 1 || self.destination.starts_with('[');
        let port = self.destination.rsplit_once(':').map(|(_, port)| port);
        match port.filter(|port| has_port && port.parse::<u16>().is_ok()) {
            Some(port) => format!("{name}:{port}"),
            None => name.clone(),
        }
    }

    /// Returns the links that have carried it, the busiest first, with the share of each: `dsl 75 %
    /// lte 25 %`.
    pub fn over(&self) -> String {
        let bytes = |link: &PacketFlowLink| {
            (link.bytes_sent + link.bytes_copied + link.bytes_received).as_u64()
        };
        let all: u64 = self.links.iter().map(bytes).sum();
        let mut links: Vec<_> = self.links.iter().filter(|link| bytes(link) > 0).collect();
        links.sort_by_key(|link| std::cmp::Reverse(bytes(link)));
        if let [only] = links[..] {
            return only.link.clone();
        }
        let share = |link: &&PacketFlowLink| {
            let share = bytes(link) as f64 / all.max(1) as f64 * 100.0;
            format!("{} {share:.0}%", link.link)
        };
        links.iter().map(share).collect::<Vec<_>>().join(" ")
    }

    /// Returns the bytes in both directions.
    pub fn moved(&self) -> ByteCount {
        self.bytes_sent + self.bytes_received
    }
}

words! {
    PacketPlacing { Bulk => "bulk", RealTime => "real-time", Copied => "copied" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(destination: &str, name: Option<&str>) -> String {
        PacketFlowStatus {
            destination: destination.to_owned(),
            name: name.map(ToOwned::to_owned),
            ..PacketFlowStatus::default()
        }
        .to()
    }

    #[test]
    fn a_name_stands_in_place_of_the_address_alone() {
        let name = Some("example.org");
        assert_eq!(to("192.0.2.1:443", None), "192.0.2.1:443");
        assert_eq!(to("192.0.2.1:443", name), "example.org:443");
        assert_eq!(to("192.0.2.1", name), "example.org");
        assert_eq!(to("2001:db8::1", name), "example.org");
        assert_eq!(to("[2001:db8::1]:53", name), "example.org:53");
    }

    #[test]
    fn links_have_their_shares_the_busiest_first() {
        let link = |name: &str, sent, received| PacketFlowLink {
            link: name.to_owned(),
            bytes_sent: ByteCount::new(sent),
            bytes_received: ByteCount::new(received),
            ..PacketFlowLink::default()
        };
        let mut flow = PacketFlowStatus {
            links: vec![link("lte", 20, 5), link("dsl", 0, 75), link("usb0", 0, 0)],
            ..PacketFlowStatus::default()
        };
        assert_eq!(flow.over(), "dsl 75% lte 25%");
        flow.links.remove(0);
        assert_eq!(flow.over(), "dsl");
    }
}
