//! The networks and interfaces that the kill switch leaves open, by the configuration.

use hawser_config::{CaptureScope, UpConfig};
use hawser_host::kill_switch::{self, Openings};
use hawser_host::lan::check_known;
use hawser_link::links::{Link, list_links};

/// Blocks the interfaces that the active kill switch opens and that `hawser up` refuses: they may
/// have become links since the switch was turned on.
pub(crate) async fn shut_refused(config: &UpConfig) -> anyhow::Result<()> {
    let (openings, problems) = checked(config).await;
    if !problems.is_empty() && kill_switch::find().await?.is_some() {
        kill_switch::turn_on(&openings).await?;
        let problems = problems.join("; ");
        tracing::warn!("kill switch now blocks interfaces that it opened: {problems}");
    }
    Ok(())
}

/// Returns the openings that are allowed, and the reasons why others are not.
pub async fn checked(config: &UpConfig) -> (Openings, Vec<String>) {
    let mut openings = openings(config);
    let problems = match list_links().await {
        Ok(links) => shut(&mut openings.inside, &links, &config.links),
        // Without the list of links, no interface is known to be safe to open.
        Err(error) if !openings.inside.is_empty() => {
            openings.inside.clear();
            vec![format!("can't list the links: {error}")]
        }
        Err(_) => Vec::new(),
    };
    (openings, problems)
}

/// Removes the interfaces that cannot have a network behind them; returns one reason for each.
fn shut(inside: &mut Vec<String>, links: &[Link], wanted: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    inside.retain(|name| {
        let checked = check_known(std::slice::from_ref(name), links, wanted);
        problems.extend(checked.as_ref().err().map(ToString::to_string));
        checked.is_ok()
    });
    problems
}

/// Returns the networks and interfaces that the configuration exempts from the kill switch.
pub(crate) fn openings(config: &UpConfig) -> Openings {
    let lan = |scope: &CaptureScope| match scope {
        CaptureScope::Lan(name) => Some(name.clone()),
        CaptureScope::System | CaptureScope::Group(_) => None,
    };
    Openings {
        networks: config.kill_switch_allow.clone(),
        inside: config.capture.iter().filter_map(lan).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_have_no_network_behind_it_is_shut_and_the_rest_stays_open() {
        let mut inside = ["eth0", "eth1", "hawser0"].map(str::to_owned).to_vec();
        let problems = shut(&mut inside, &[], &["eth0".to_owned()]);
        assert_eq!(inside, ["eth1"]);
        assert_eq!(
            problems,
            [
                "eth0 is one of the links that are to be used",
                "hawser0 is an interface of Hawser itself"
            ]
        );
    }
}
