//! Addresses for all clients, and links that can fall silent.

use std::net::Ipv4Addr;

use crate::ip::{self, IpError};
use crate::meter::address;
use crate::topology::{Lab, mac as mac_of};

/// Gives the client host an address on every link for each of `clients`.
pub(super) fn add_addresses(lab: &Lab, clients: u32) -> Result<(), IpError> {
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for (k, link) in (1..).zip(lab.links()) {
        let [a, b, ..] = address(k, 0).octets();
        far.push(format!(
            "route add {a}.{b}.0.0/16 via {} dev w{k}",
            link.address()
        ));
        let all = (0..=clients).map(|number| address(k, number));
        near.extend(all.map(|own| format!("address add {own}/32 dev lo")));
    }
    ip::batch(lab.client(), &near)?;
    ip::batch(lab.server(), &far)
}

/// Lets nothing through in either direction, with no sign of it at either end: both ends send to a
/// hardware address that is not there.
pub(super) fn silence(lab: &Lab, is_silent: bool) -> Result<(), IpError> {
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for (k, link) in (1..).zip(lab.links()) {
        let mac = |far| {
            if is_silent {
                UNUSED_MAC.to_owned()
            } else {
                mac_of(k, far)
            }
        };
        let replace = |address: Ipv4Addr, mac: String, device: &str| {
            format!("neigh replace {address} lladdr {mac} dev {device}{k} nud permanent")
        };
        near.push(replace(link.gateway, mac(true), "l"));
        far.push(replace(link.address(), mac(false), "w"));
    }
    ip::batch(lab.client(), &near)?;
    ip::batch(lab.server(), &far)
}

/// A hardware address that no interface of a lab has.
const UNUSED_MAC: &str = "02:68:77:ff:ff:ff";
