use std::net::{IpAddr, Ipv4Addr};

use hawser_types::LinkIndex;
use proptest::prelude::*;

use super::*;

/// Builds pairs from rows: one for each local address, with the round-trip time in milliseconds to
/// each remote address; 0 for unreachable.
fn candidates(rows: &[&[u64]]) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (local, row) in (1..).zip(rows) {
        for (remote, rtt) in (1..).zip(*row) {
            candidates.push(Candidate {
                route: route(local, remote),
                rtt: (*rtt > 0).then(|| Duration::from_millis(*rtt)),
            });
        }
    }
    candidates
}

fn route(local: u8, remote: u8) -> Route {
    Route {
        local: Local {
            link: LinkIndex::new(u32::from(local)),
            address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, local)),
        },
        remote: SocketAddr::from(([192, 0, 2, remote], 9899)),
    }
}

/// Returns the selected pairs as (row, column) from 1.
fn selected(rows: &[&[u64]], theta: f64) -> Vec<(usize, usize)> {
    let columns = rows[0].len();
    select(&candidates(rows), theta)
        .into_iter()
        .map(|place| (place / columns + 1, place % columns + 1))
        .collect()
}

#[test]
fn the_quickest_pairs_are_taken_when_they_reach_every_address() {
    assert_eq!(selected(&[&[10, 50], &[60, 20]], 4.0), [(1, 1), (2, 2)]);
    assert_eq!(
        selected(&[&[30, 80, 80], &[80, 20, 80], &[80, 80, 10]], 4.0),
        [(3, 3), (2, 2), (1, 1)]
    );
}

#[test]
fn with_one_address_at_one_end_each_of_the_other_has_a_pair() {
    assert_eq!(
        selected(&[&[30], &[10], &[20]], 4.0),
        [(2, 1), (3, 1), (1, 1)]
    );
    assert_eq!(selected(&[&[30, 10]], 4.0), [(1, 2), (1, 1)]);
    assert_eq!(selected(&[&[10]], 4.0), [(1, 1)]);
}

#[test]
fn pairs_slower_than_theta_times_the_quickest_are_left_out() {
    assert_eq!(selected(&[&[10], &[40], &[41]], 4.0), [(1, 1), (2, 1)]);
}

#[test]
fn theta_says_which_link_the_papers_tables_show_unused() {
    // Time of a packet of 1500 bit at a rate in Mbit/s, and a delay in units of 10 µs.
    let rows = [
        ([2, 2, 5], [2, 8, 3], None),
        ([5, 5, 5], [2, 8, 3], None),
        ([2, 5, 10], [2, 8, 3], Some(1)),
        ([2, 5, 10], [2, 48, 63], None),
        ([2, 5, 10], [2, 48, 143], None),
        ([2, 5, 10], [62, 3, 53], Some(1)),
        ([2, 5, 10], [2, 48, 303], Some(3)),
        ([2, 5, 10], [2, 128, 303], Some(3)),
    ];
    for (rates, delays, unused) in rows {
        let rtts: Vec<[u64; 1]> = std::iter::zip(rates, delays)
            .map(|(rate, delay)| [1500 / rate + 10 * delay])
            .collect();
        let rows: Vec<&[u64]> = rtts.iter().map(<[u64; 1]>::as_slice).collect();
        let used = selected(&rows, 4.0);
        let out = (1..=3).find(|link| !used.contains(&(*link, 1)));
        assert_eq!(out, unused, "{rates:?} {delays:?}");
    }
}

#[test]
fn unreachable_pairs_are_left_out() {
    assert_eq!(selected(&[&[10, 0], &[0, 30]], 4.0), [(1, 1), (2, 2)]);
    assert_eq!(selected(&[&[10, 0], &[20, 0]], 4.0), [(1, 1), (2, 1)]);
    assert!(selected(&[&[0, 0], &[0, 0]], 4.0).is_empty());
    assert!(select(&[], 4.0).is_empty());
}

#[test]
fn a_missing_address_replaces_the_slowest_redundant_pair() {
    // First 1-1, 1-2, 2-1; the third remote address is missing. 1-1 shares an address with 2-1 and
    // one with 1-2: only 1-1 is fully redundant, but it is the fastest. With 2-3, 2-1 is redundant;
    // with 1-3, only 1-1 is.
    let rows: [&[u64]; 2] = [&[10, 12, 35], &[14, 30, 38]];
    assert_eq!(selected(&rows, 4.0), [(1, 1), (1, 2), (2, 3)]);
}

#[test]
fn among_several_redundant_pairs_the_slowest_goes() {
    // First 1-1, 1-2, 2-1, 2-2 of 4: locals 3 and 4 are missing. 3-1 replaces 2-2, and 4-2 replaces
    // 2-1 or 1-2, whichever is slower and still redundant.
    let rows: [&[u64]; 4] = [&[10, 11], &[12, 13], &[20, 30], &[30, 21]];
    assert_eq!(selected(&rows, 4.0), [(1, 1), (2, 1), (3, 1), (4, 2)]);
}

#[test]
fn two_hosts_with_two_addresses_each_use_all_four() {
    // Both fast pairs use the first local address. The fastest stays, so 2-2 replaces the other,
    // though 2-1 is faster.
    assert_eq!(selected(&[&[10, 12], &[20, 22]], 4.0), [(1, 1), (2, 2)]);
    // Where 2-2 is unreachable, the fastest pair is replaced.
    assert_eq!(selected(&[&[10, 12], &[20, 0]], 4.0), [(1, 2), (2, 1)]);
}

#[test]
fn an_address_that_is_reached_too_slowly_stays_out() {
    assert_eq!(selected(&[&[10, 12], &[41, 50]], 4.0), [(1, 1), (1, 2)]);
}

proptest! {
    #[test]
    fn what_is_selected_keeps_every_bound(
        rows in 1usize..5,
        columns in 1usize..5,
        rtts in prop::collection::vec(0u64..100, 16),
        theta in 1.0f64..8.0,
    ) {
        let table = rtts.chunks(columns).take(rows);
        let table: Vec<&[u64]> = table.filter(|row| row.len() == columns).collect();
        let candidates = candidates(&table);
        let selected = select(&candidates, theta);
        prop_assert!(selected.len() <= table.len().max(columns));
        let rtt = |place: usize| candidates[place].rtt.unwrap();
        prop_assert!(selected.windows(2).all(|pair| rtt(pair[0]) <= rtt(pair[1])));
        let quickest = candidates.iter().filter_map(|candidate| candidate.rtt).min();
        let limit = quickest.unwrap_or_default().as_secs_f64() * theta;
        prop_assert!(selected.iter().all(|place| rtt(*place).as_secs_f64() <= limit));
        // With one address at one end, every address reachable within the limit has its pair.
        if columns == 1 {
            let reached = candidates.iter().filter(|candidate| {
                candidate.rtt.is_some_and(|rtt| rtt.as_secs_f64() <= limit)
            });
            prop_assert_eq!(selected.len(), reached.count());
        }
    }
}
