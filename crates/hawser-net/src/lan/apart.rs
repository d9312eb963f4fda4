//! Networks that the far end grants to hosts must not be those that the hosts are in.

use ipnet::IpNet;

use crate::links::{LinkError, list_links, networks_by};

/// Takes networks out of `granted` that overlap with one behind `interfaces`, and says so: hosts
/// then have the device's address.
pub(super) async fn keep_apart(
    granted: &mut Vec<IpNet>,
    interfaces: &[String],
) -> Result<(), LinkError> {
    if granted.is_empty() {
        return Ok(());
    }
    let links = list_links().await?.into_iter();
    let behind = links.filter(|link| interfaces.contains(&link.name));
    let indices: Vec<_> = behind.map(|link| link.index).collect();
    let behind = networks_by(&indices).await?;
    granted.retain(|net| match overlap(*net, &behind) {
        Some(problem) => {
            tracing::warn!("hosts share this machine's address in the tunnel: {problem}");
            false
        }
        None => true,
    });
    Ok(())
}

/// What is wrong with a network that the far end grants, if anything is. `behind`: networks that
/// hosts are in.
fn overlap(granted: IpNet, behind: &[IpNet]) -> Option<String> {
    let mut behind = behind.iter();
    let theirs = behind.find(|net| net.contains(&granted) || granted.contains(*net))?;
    Some(format!(
        "the far end grants them {granted}, which overlaps with their own network {theirs}; \
         allowed is a network that is not behind this machine"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_the_hosts_own_is_none_for_them_at_the_far_end() {
        let nets = |texts: &[&str]| -> Vec<IpNet> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let behind = nets(&["192.168.1.0/24", "10.83.130.0/26", "fd48::/64"]);
        for apart in ["192.168.2.0/26", "10.83.130.64/26", "fd48:0:0:1::/112"] {
            assert_eq!(overlap(apart.parse().unwrap(), &behind), None, "{apart}");
        }
        for (granted, theirs) in [
            ("192.168.1.64/26", "192.168.1.0/24"),
            ("10.83.128.0/17", "10.83.130.0/26"),
            ("10.83.130.0/26", "10.83.130.0/26"),
            ("fd48::1:0/112", "fd48::/64"),
        ] {
            let told = overlap(granted.parse().unwrap(), &behind).unwrap();
            assert!(told.contains(&format!("{granted}, which")), "{told}");
            assert!(told.contains(&format!("{theirs};")), "{told}");
        }
    }
}
