//! While one process gives the routing of hosts up and another one takes it, nothing leads what
//! hosts send to the device, or packets of taken connections to their sockets. Where this machine
//! forwards anyway, these would go on to their destinations, which know no such connection and may
//! reset it; where it has no other route, hosts would be told that nothing leads there.

use ipnet::IpNet;
use tokio::task::spawn_blocking;

use super::{LanError, rules, set_of};
use crate::guard::Guard;
use crate::links::particular_prefixes;

/// Drops what hosts send elsewhere than to this machine and its networks, unless it is led to a
/// socket, for as long as this lives or until it has ended. Hosts send it again.
#[derive(Debug)]
pub struct LanHold {
    guard: Guard,
}

impl LanHold {
    /// Begins, for what comes by `interfaces`.
    ///
    /// # Errors
    /// That the system lacks something or forbids it.
    pub async fn begin(interfaces: &[String], mut guard: Guard) -> Result<Self, LanError> {
        let near = particular_prefixes().await;
        let near = near.map_err(|error| LanError::Routes(error.to_string()))?;
        let script = script(interfaces, &near);
        let beginning = spawn_blocking(move || guard.begin_table(TABLE, || script).map(|()| guard));
        let guard = beginning.await.map_err(|_| LanError::Ending)??;
        Ok(Self { guard })
    }

    /// Ends it.
    pub async fn end(self) {
        // It waits for a process.
        let _ = spawn_blocking(move || drop(self.guard)).await;
    }
}

/// After the chain that takes (-90), whose mark is on what it leads somewhere. `near`: where
/// packets go as without Hawser in any case. Nobody may answer questions for names for a moment;
/// who is not refused asks again.
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
/// Networks of each family. A router may know all of the internet's; packets to others are only
/// held as well.
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
        // The guard reads a line.
        assert_eq!(script.lines().count(), 1);
    }
}
