use super::*;
use hawser_keys::identity::Identity;

fn half_open(all: usize, per_source: usize) -> HalfOpen {
    HalfOpen::new(AcceptLimits {
        half_open: all,
        half_open_per_source: per_source,
        ..Default::default()
    })
}

fn enter(half_open: &HalfOpen, address: &str) -> HalfOpenSlot {
    half_open.enter(address_of(address), Instant::now())
}

fn address_of(text: &str) -> Origin {
    Origin::Address(text.parse().unwrap())
}

fn has_place(place: &HalfOpenSlot) -> bool {
    place
        .half_open
        .places
        .lock()
        .holders
        .get(place.number)
        .is_some()
}

#[test]
fn one_source_has_its_own_places_and_no_others() {
    let half_open = half_open(3, 2);
    let other = enter(&half_open, "192.0.2.1");
    let own: Vec<HalfOpenSlot> = (1..=9)
        .map(|n| enter(&half_open, &format!("2001:db8::{n}")))
        .collect();
    assert!(has_place(&other));
    assert_eq!(own.iter().filter(|it| has_place(it)).count(), 2);
}

#[test]
fn a_newcomer_gets_in_at_once_when_idle_connections_of_eight_sources_hold_every_place() {
    let half_open = half_open(256, 32);
    let mut idle = Vec::new();
    for host in 1..=8 {
        for _ in 0..32 {
            idle.push(enter(&half_open, &format!("192.0.{host}.1")));
        }
    }
    assert!(idle.iter().all(has_place));
    let client = enter(&half_open, "198.51.100.1");
    // Sources that refill their places displace their own connections.
    for host in 1..=8 {
        idle.push(enter(&half_open, &format!("192.0.{host}.1")));
    }
    assert!(has_place(&client));
    assert_eq!(idle.iter().filter(|it| has_place(it)).count(), 255);
}

#[test]
fn a_network_of_many_sources_has_at_most_half_of_the_places() {
    let half_open = half_open(8, 2);
    let crowd: Vec<HalfOpenSlot> = (1..=200)
        .map(|n| enter(&half_open, &format!("192.0.2.{n}")))
        .collect();
    assert_eq!(crowd.iter().filter(|it| has_place(it)).count(), 4);
    let of_v6: Vec<HalfOpenSlot> = (1..=200)
        .map(|n| enter(&half_open, &format!("2001:db8:0:{n:x}::1")))
        .collect();
    assert_eq!(of_v6.iter().filter(|it| has_place(it)).count(), 4);
}

#[test]
fn each_caller_that_comes_by_a_gateway_has_places_of_its_own() {
    let half_open = half_open(8, 2);
    let came_by_gateway = |seed| {
        let key = Identity::from_seed([seed; 32]).public();
        half_open.enter(Origin::Relayed(key), Instant::now())
    };
    let flood: Vec<HalfOpenSlot> = (0..9).map(|_| came_by_gateway(1)).collect();
    assert_eq!(flood.iter().filter(|it| has_place(it)).count(), 2);
    let caller = came_by_gateway(2);
    assert!(has_place(&caller));
    // A program of this machine is no caller.
    assert!(has_place(&enter(&half_open, "127.0.0.1")));
    // All callers together have no more places than a network has.
    let crowd: Vec<HalfOpenSlot> = (3..99).map(came_by_gateway).collect();
    let callers = flood.iter().chain([&caller]).chain(&crowd);
    assert_eq!(callers.filter(|it| has_place(it)).count(), 4);
}

#[test]
fn the_oldest_goes_once_it_had_time_for_a_handshake() {
    let half_open = half_open(2, 2);
    let source = address_of("192.0.2.1");
    let began = Instant::now();
    let first = half_open.enter(source, began);
    let second = half_open.enter(source, began + HANDSHAKE_TIME);
    assert!(has_place(&first));
    let third = half_open.enter(source, began + HANDSHAKE_TIME);
    assert!(!has_place(&first));
    assert!(has_place(&second) && has_place(&third));
}

#[test]
fn places_come_back() {
    let half_open = half_open(2, 1);
    for _ in 0..3 {
        let place = enter(&half_open, "192.0.2.1");
        place.join(SessionId::new([1; 16]));
    }
    let places = half_open.places.lock();
    assert!(places.holders.is_empty() && places.line.is_empty() && places.joins.is_empty());
}

#[test]
fn joins_of_a_live_session_are_not_displaced_and_leave_places_for_other_sessions() {
    let half_open = half_open(64, 64);
    let joins: Vec<HalfOpenSlot> = (0..40)
        .map(|_| {
            let place = enter(&half_open, "192.0.2.1");
            place.join(SessionId::new([1; 16]));
            place
        })
        .collect();
    let flood: Vec<HalfOpenSlot> = (0..1000)
        .map(|n| enter(&half_open, &format!("10.{}.{}.1", n / 250, n % 250)))
        .collect();
    let kept = |places: &[HalfOpenSlot]| {
        let all = half_open.places.lock();
        let is_kept = |it: &&HalfOpenSlot| all.joins.contains_key(&it.number);
        places.iter().filter(is_kept).count()
    };
    assert_eq!(kept(&joins), JOINS_PER_SESSION);
    assert_eq!(flood.iter().filter(|it| has_place(it)).count(), 64);
    let other = enter(&half_open, "192.0.2.1");
    other.join(SessionId::new([2; 16]));
    assert_eq!(kept(&[other]), 1);
}

/// After a restart of the gateway, for example.
#[tokio::test]
async fn clients_that_come_at_once_wait_for_each_other_and_displace_no_other() {
    let half_open = half_open(16, 8);
    let source = |n: usize| format!("192.0.2.{}", n % 50);
    let places: Vec<HalfOpenSlot> = (0..64).map(|n| enter(&half_open, &source(n))).collect();
    assert_eq!(places.iter().filter(|it| has_place(it)).count(), 8);
    for place in places {
        place.ready().await;
        assert!(has_place(&place));
        // Its handshake is over.
        drop(place);
    }
    assert!(half_open.places.lock().line.is_empty());
}

#[test]
fn a_waiting_connection_takes_the_place_of_one_that_had_time_for_a_handshake() {
    let half_open = half_open(4, 1);
    let idle = enter(&half_open, "192.0.2.1");
    let client = enter(&half_open, "192.0.2.1");
    assert!(has_place(&idle) && !client.has_place(Instant::now()));
    assert!(client.has_place(Instant::now() + HANDSHAKE_TIME));
    assert!(!has_place(&idle));
}

#[test]
fn the_line_is_bounded_and_a_flood_that_fills_it_keeps_no_newcomer_out() {
    let half_open = half_open(4, 1);
    let flood: Vec<HalfOpenSlot> = (0..100)
        .map(|n| enter(&half_open, &format!("10.0.{n}.1")))
        .collect();
    assert_eq!(half_open.places.lock().line.len(), 4 * LINE);
    let client = enter(&half_open, "192.0.2.1");
    assert!(has_place(&client));
    assert_eq!(flood.iter().filter(|it| has_place(it)).count(), 3);
}

#[tokio::test]
async fn a_displaced_connection_hears_of_it_even_if_it_waits_later() {
    let half_open = half_open(1, 1);
    let began = Instant::now();
    let place = half_open.enter(address_of("192.0.2.1"), began);
    let later = began + HANDSHAKE_TIME;
    let _newcomer = half_open.enter(address_of("192.0.2.1"), later);
    place.displaced().await;
}
