//! While one process hands the routing of hosts to another, no rule leads packets of hosts to the
//! device, or packets of taken connections to their sockets. If this machine forwards anyway, these
//! packets would reach their destinations, which do not know the connection and may reset it; if it
//! has no other route, hosts would get an unreachable error.

use ipnet::IpNet;
use tokio::task::spawn_blocking;

use super::{LanError, rules, set_of};
use crate::guard::Guard;
use hawser_link::links::particular_prefixes;

/// Drops packets of hosts unless they are for this machine, its networks or a taken connection's
/// socket, until [`Self::end`] or the end of this value. Hosts send them again.
#[derive(Debug)]
pub struct LanHold {
    guard: Guard,
}

impl LanHold {
    /// Begins to drop packets that arrive by `interfaces`.
    ///
    /// # Errors
    /// The system lacks a feature or forbids it.
    pub async fn begin(interfaces: &[String], mut guard: Guard) -> Result<Self, LanError> {
        let near = particular_prefixes().await;
        let near = near.map_err(|error| LanError::Routes(error.to_string()))?;
        let script = script(interfaces, &near);
        let beginning = spawn_blocking(move || guard.begin_table(TABLE, || script).map(|()| guard));
        let guard = beginning.await.map_err(|_| LanError::Ending)??;
        Ok(Self { guard })
    }

    /// Ends the hold.
    pub async fn end(self) {
        // Dropping the guard waits for its process.
        let _ = spawn_blocking(move || drop(self.guard)).await;
    }
}

/// Builds a chain after the one that takes TCP (-90), whose mark is on the packets it routes.
/// `near`: networks that are always reached without Hawser. Drops name queries, which possibly no
/// process answers now: a host repeats a query that is not refused.
fn script(interfaces: &[String], near: &[IpNet]) -> String {
    let (lans, taken) = (set_of(interfaces), rules::TAKEN);
    let mut pass = String::new();
    for (family, is_v4) in [("ip", true), ("ip6", false)] {
        let near = near.iter().filter(|net| net.addr().is_ipv4() == is_v4);
        for net in near.take(MAX_NEAR) {
            pass += &format!("{family} daddr {net} accept; ");
        }
    }
    format!(
        "table inet {TABLE} {{ flags owner; \
         chain holding {{ type filter hook prerouting priority -80; policy accept; \
         iifname != {lans} accept; meta mark & {taken:#x} != 0 accept; \
         fib daddr type local udp dport 53 drop; \
         fib daddr type {{ local, broadcast, anycast, multicast }} accept; {pass}drop; }}; }}\n"
    )
}

const TABLE: &str = "hawser_lan_hold";
/// Most networks of each family. A router may know all of the internet's; packets to the other
/// networks are merely held as well.
const MAX_NEAR: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_this_machine_are_reached_meanwhile() {
        let near = ["192.168.77.0/24", "fd77::/64"].map(|it| it.parse().unwrap());
        let script = script(&["lan".to_owned()], &near);
        let passes = "ip daddr 192.168.77.0/24 accept; ip6 daddr fd77::/64 accept; drop;";
        assert!(script.contains(passes), "{script}");
        assert!(
            script.find("udp dport 53 drop") < script.find("type { local"),
            "{script}"
        );
        assert!(
            script.contains("iifname != { \"lan\" } accept;"),
            "{script}"
        );
        // The guard reads one line at a time.
        assert_eq!(script.lines().count(), 1);
    }
}
