//! Hosts behind the client host: each a namespace with an address and a default route, on one
//! switch.

use std::net::Ipv4Addr;

use crate::ip;
use crate::netns::NetNs;
use crate::topology::{Lab, SERVER};

/// The hosts, in order.
#[derive(Debug)]
pub(crate) struct Hosts {
    hosts: Vec<NetNs>,
    /// What they are plugged into. It has a network of its own: where `br_netfilter` is loaded, a
    /// bridge shows its frames to the rules of its network, and TPROXY does not work.
    _switch: NetNs,
}

impl Hosts {
    /// Plugs in so many, one at least.
    pub(crate) fn new(lab: &Lab, count: u8) -> anyhow::Result<Self> {
        let switch = NetNs::create()?;
        let router = [
            format!(
                "link add lan type veth peer name router netns {}",
                switch.path().display()
            ),
            format!("address add {}/24 dev lan", host(0)),
            "link set lan up".to_owned(),
        ];
        let mut ports = vec![
            "link add switch type bridge".to_owned(),
            "link set switch up".to_owned(),
            "link set router master switch up".to_owned(),
        ];
        let mut hosts = Vec::new();
        for number in 1..=count {
            let namespace = NetNs::create()?;
            let place = namespace.path();
            ports.push(format!(
                "link add p{number} type veth peer name eth0 netns {}",
                place.display()
            ));
            ports.push(format!("link set p{number} master switch up"));
            hosts.push(namespace);
        }
        ip::batch(lab.client(), &router)?;
        ip::batch(&switch, &ports)?;
        let (mut number, mut far) = (0, Vec::new());
        for namespace in &hosts {
            number += 1;
            let lines = [
                "link set lo up".to_owned(),
                format!("address add {}/24 dev eth0", host(number)),
                "link set eth0 up".to_owned(),
                format!("route add default via {}", host(0)),
            ];
            ip::batch(namespace, &lines)?;
            far.push(format!("address add {}/32 dev lo", server_of(number)));
        }
        ip::batch(lab.server(), &far)?;
        Ok(Self {
            hosts,
            _switch: switch,
        })
    }

    /// The first one; there is one at least.
    pub(crate) fn first(&self) -> &NetNs {
        &self.hosts[0]
    }

    /// Each with its number, from 1.
    pub(super) fn each(&self) -> impl Iterator<Item = (u8, &NetNs)> {
        (1..).zip(&self.hosts)
    }
}

/// The address of a host; 0 is the router.
pub(crate) fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 77, number + 1)
}

/// An address of the server host that only this host asks.
pub(super) fn server_of(number: u8) -> Ipv4Addr {
    let [a, b, c, d] = SERVER.octets();
    Ipv4Addr::new(a, b, c, d + number)
}
