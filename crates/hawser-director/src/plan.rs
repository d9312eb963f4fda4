//! The order of connection attempts: which address is tried over which link, and when.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_types::Link;

use super::decision::{AddressRoute, Candidate, LinkDecision, Standing};

/// One address over one link.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The address.
    pub address: IpAddr,
    /// The link; `None` for the system's routes.
    pub link: Option<Arc<Link>>,
    /// Wait for its answer before the next attempt begins too.
    pub patience: Duration,
    /// Minimum wait for the attempts before it, unless they have failed.
    pub reserve: Duration,
}

/// Returns the attempts for `addresses`, in the order in which they start; none if no route is
/// open. `goes_by_system` is true for addresses that are this machine's own or have routes of their
/// own.
///
/// The first address is tried over the best link, then the second address over the second-best
/// link, so that the second attempt shares neither the family nor the link with the first; then the
/// rest.
pub fn plan(
    decision: &LinkDecision,
    addresses: &[IpAddr],
    goes_by_system: &[bool],
) -> VecDeque<Attempt> {
    let mut ranked = Vec::new();
    for (row, address) in addresses.iter().enumerate() {
        let by_system = goes_by_system.get(row).is_some_and(|by_system| *by_system);
        match decision.route(*address) {
            _ if by_system => ranked.push((rank(Standing::Equal, row, 0), by_routes(*address))),
            AddressRoute::System => {
                ranked.push((rank(Standing::Equal, row, 0), by_routes(*address)))
            }
            AddressRoute::Closed => {}
            AddressRoute::Links => {
                let leading = decision
                    .candidates
                    .iter()
                    .filter(|it| it.leads_to(*address));
                ranked.extend(leading.enumerate().map(|(column, candidate)| {
                    let attempt = by_link(*address, candidate);
                    (rank(candidate.standing, row, column), attempt)
                }));
            }
        }
    }
    // The sort is stable: equal attempts stay in the order of their addresses.
    ranked.sort_by_key(|(rank, _)| *rank);
    let attempts = ranked.into_iter().map(|(_, attempt)| attempt);
    attempts.take(MAX_ATTEMPTS).collect()
}

type Rank = (Standing, usize, bool);

fn rank(standing: Standing, row: usize, column: usize) -> Rank {
    (standing, row.max(column), row != column)
}

fn by_routes(address: IpAddr) -> Attempt {
    Attempt {
        address,
        link: None,
        patience: PATIENCE_BY_ROUTES,
        reserve: Duration::ZERO,
    }
}

fn by_link(address: IpAddr, candidate: &Candidate) -> Attempt {
    Attempt {
        address,
        link: Some(Arc::clone(&candidate.link)),
        patience: candidate.patience,
        reserve: match candidate.standing {
            Standing::Reserve => RESERVE_WAITS,
            _ => Duration::ZERO,
        },
    }
}

/// RFC 8305 §8.
const PATIENCE_BY_ROUTES: Duration = Duration::from_millis(250);
/// A link in reserve may cost money: the links before it get a good chance first.
const RESERVE_WAITS: Duration = Duration::from_secs(1);
/// Limit of attempts, however many addresses and links there are.
const MAX_ATTEMPTS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{candidate, decision};

    fn planned(candidates: Vec<Candidate>, addresses: &[&str]) -> Vec<String> {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let attempts = plan(&decision(candidates), &addresses, &[]);
        let name = |attempt: Attempt| match attempt.link {
            Some(link) => format!("{} {}", attempt.address, link.name),
            None => format!("{} system", attempt.address),
        };
        attempts.into_iter().map(name).collect()
    }

    #[test]
    fn the_second_attempt_shares_neither_family_nor_link_with_the_first() {
        let candidates = vec![
            candidate("a", Standing::Equal),
            candidate("b", Standing::Equal),
        ];
        let expected = [
            "2001:db8::1 a",
            "192.0.2.1 b",
            "2001:db8::1 b",
            "192.0.2.1 a",
        ];
        assert_eq!(planned(candidates, &["2001:db8::1", "192.0.2.1"]), expected);
    }

    #[test]
    fn links_that_lead_to_one_family_only_are_tried_for_that_one() {
        let mut v4_only = candidate("a", Standing::Equal);
        Arc::make_mut(&mut v4_only.link).has_default_route_v6 = false;
        let candidates = vec![v4_only, candidate("b", Standing::Equal)];
        let expected = ["2001:db8::1 b", "192.0.2.1 b", "192.0.2.1 a"];
        assert_eq!(planned(candidates, &["2001:db8::1", "192.0.2.1"]), expected);
    }

    #[test]
    fn reserves_and_suspects_come_last() {
        let candidates = vec![
            candidate("a", Standing::Equal),
            candidate("reserve", Standing::Reserve),
            candidate("suspect", Standing::Suspect),
        ];
        let attempts = plan(&decision(candidates), &["192.0.2.1".parse().unwrap()], &[]);
        let order: Vec<_> = attempts
            .iter()
            .map(|it| it.link.as_ref().unwrap().name.as_str())
            .collect();
        assert_eq!(order, ["a", "reserve", "suspect"]);
        assert_eq!(attempts[1].reserve, RESERVE_WAITS);
    }

    #[test]
    fn addresses_without_end_are_not_all_tried() {
        let texts: Vec<String> = (0..200).map(|n| format!("192.0.2.{n}")).collect();
        let addresses: Vec<&str> = texts.iter().map(String::as_str).collect();
        let candidates = vec![candidate("a", Standing::Equal)];
        assert_eq!(planned(candidates, &addresses).len(), MAX_ATTEMPTS);
    }

    #[test]
    fn what_no_link_leads_to_goes_as_the_system_has_it_unless_links_are_forbidden() {
        assert_eq!(planned(vec![], &["192.0.2.1"]), ["192.0.2.1 system"]);
        let mut closed = decision(vec![]);
        closed.system.leads = [true, false];
        let addresses = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        let attempts = plan(&closed, &addresses, &[]);
        assert_eq!(attempts.len(), 1);
        assert_eq!(attempts[0].address, addresses[1]);
        assert_eq!(plan(&closed, &addresses, &[true, true]).len(), 2, "local");
    }
}
