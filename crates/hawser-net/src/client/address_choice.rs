//! Chooses among addresses of a gateway that answer.

use std::net::SocketAddr;
use std::time::Duration;

/// Chooses among the addresses that `answered`, in the order of preference and each with the time
/// that its answer took: of those about as quick as the quickest, the one with the fewest users.
pub(super) fn choose(
    answered: &[(SocketAddr, Duration)],
    users: impl Fn(SocketAddr) -> usize,
) -> Option<SocketAddr> {
    let quickest = answered.iter().map(|(_, took)| *took).min()?;
    let quick = answered
        .iter()
        .filter(|(_, took)| *took <= alike(quickest))
        .map(|(remote, _)| *remote);
    quick.min_by_key(|remote| users(*remote))
}

/// The longest time that counts as quick as `quickest`.
pub(super) fn alike(quickest: Duration) -> Duration {
    quickest + quickest / 4 + SLACK
}

/// The noise of a quiet link.
const SLACK: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, number], 7443))
    }

    fn chosen(answered: &[(u8, u64)], users: &[(u8, usize)]) -> Option<SocketAddr> {
        let answered = answered
            .iter()
            .map(|(number, took)| (address(*number), Duration::from_millis(*took)));
        let answered: Vec<_> = answered.collect();
        choose(&answered, |remote| {
            let used = users.iter().find(|(number, _)| address(*number) == remote);
            used.map_or(0, |(_, count)| *count)
        })
    }

    #[test]
    fn the_quickest_address_is_taken_however_many_use_it() {
        assert_eq!(chosen(&[(1, 90), (2, 20)], &[(2, 7)]), Some(address(2)));
        assert_eq!(chosen(&[], &[]), None);
    }

    #[test]
    fn of_addresses_that_are_alike_the_one_with_the_fewest_links_is_taken() {
        assert_eq!(chosen(&[(1, 20), (2, 21)], &[]), Some(address(1)));
        assert_eq!(chosen(&[(1, 20), (2, 29)], &[(1, 1)]), Some(address(2)));
        assert_eq!(
            chosen(&[(1, 29), (2, 20)], &[(1, 1), (2, 1)]),
            Some(address(1))
        );
        assert_eq!(chosen(&[(1, 31), (2, 20)], &[(2, 1)]), Some(address(2)));
    }
}
