use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::AddressRequest::{Add, Delete, Prefer};
use super::*;

const RTO: Duration = Duration::from_millis(200);
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

fn address(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, n))
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Both ends, with different initial serial numbers; that of the first wraps soon.
fn pair() -> (Asconf, Asconf) {
    let (here, there) = (Tsn::new(u32::MAX - 1), Tsn::new(7));
    (Asconf::new(here, there), Asconf::new(there, here))
}

fn parts(chunk: &Chunk) -> (u32, &[Parameter]) {
    match chunk {
        Chunk::Asconf { serial, parameters } | Chunk::AsconfAck { serial, parameters } => {
            (*serial, parameters)
        }
        other => panic!("{other:?}"),
    }
}

/// Sends a request and its answer; returns the changes at the other end and the answers.
fn exchange(
    (here, there): &mut (Asconf, Asconf),
    requests: &[AddressRequest],
    source: IpAddr,
    known: &[IpAddr],
) -> (Vec<AddressRequest>, Vec<bool>) {
    requests.iter().for_each(|request| here.request(*request));
    let chunk = here.poll_chunk(at(0), source, RTO).unwrap();
    let (serial, parameters) = parts(&chunk);
    assert_eq!(parameters[0], Parameter::Address(source));
    let reply = there.on_asconf(serial, parameters, source, known).unwrap();
    let (serial, parameters) = parts(&reply.chunk);
    let answered = here.on_ack(serial, parameters);
    let accepted = answered.iter().map(|answered| answered.accepted);
    (reply.changes, accepted.collect())
}

#[test]
fn addresses_are_added_preferred_and_deleted_one_chunk_after_the_other() {
    let mut ends = pair();
    for n in 2..6 {
        let known = [address(1), address(n - 1)];
        let requests = [Add(address(n)), Prefer(address(n))];
        let (changes, accepted) = exchange(&mut ends, &requests, address(1), &known);
        assert_eq!(
            (changes.as_slice(), accepted.as_slice()),
            (&requests[..], &[true, true][..])
        );
    }
    let known = [address(1), address(5)];
    let (changes, _) = exchange(&mut ends, &[Delete(address(5))], address(1), &known);
    assert_eq!(changes, [Delete(address(5))]);
}

#[test]
fn the_unspecified_address_is_where_the_packet_comes_from() {
    let known = [address(1), address(2)];
    let (changes, _) = exchange(&mut pair(), &[Add(ANY), Prefer(ANY)], address(3), &known);
    assert_eq!(changes, [Add(address(3)), Prefer(address(3))]);
    let (changes, _) = exchange(&mut pair(), &[Add(ANY), Delete(ANY)], address(3), &known);
    assert_eq!(
        changes,
        [Add(address(3)), Delete(address(1)), Delete(address(2))]
    );
}

#[test]
fn what_would_leave_nothing_or_overload_is_refused() {
    let one = [address(1)];
    let refused = |request, known: &[IpAddr]| {
        let (changes, accepted) = exchange(&mut pair(), &[request], address(1), known);
        changes.is_empty() && accepted == [false]
    };
    assert!(refused(Delete(address(1)), &one));
    assert!(refused(Delete(address(1)), &[address(1), address(2)]));
    assert!(refused(Delete(ANY), &[address(2)]));
    assert!(refused(Prefer(address(9)), &one));
    assert!(refused(Add(IpAddr::V4(Ipv4Addr::BROADCAST)), &one));
    let many: Vec<IpAddr> = (1..=16).map(address).collect();
    assert!(refused(Add(address(99)), &many));
    // A request that is already satisfied needs no change.
    let (changes, accepted) = exchange(
        &mut pair(),
        &[Add(address(1)), Delete(address(9))],
        address(1),
        &one,
    );
    assert!(changes.is_empty() && accepted == [true, true]);
}

#[test]
fn an_address_of_this_hosts_own_network_is_refused_to_a_peer_from_outside() {
    let inside = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let (changes, accepted) = exchange(&mut pair(), &[Add(inside)], address(1), &[address(1)]);
    assert_eq!((changes, accepted), (vec![], vec![false]));
    let near = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    let (changes, accepted) = exchange(&mut pair(), &[Add(inside)], near, &[near]);
    assert_eq!((changes, accepted), (vec![Add(inside)], vec![true]));
}

#[test]
fn an_unanswered_request_is_sent_again_ever_more_seldom() {
    let (mut here, _) = pair();
    here.request(Add(address(2)));
    let first = here.poll_chunk(at(0), address(1), RTO).unwrap();
    assert_eq!(here.poll_timeout(), Some(at(200)));
    assert!(here.poll_chunk(at(199), address(1), RTO).is_none());
    assert_eq!(here.poll_chunk(at(200), address(1), RTO), Some(first));
    assert_eq!(here.poll_timeout(), Some(at(600)));
    // A request made meanwhile waits.
    here.request(Add(address(3)));
    let again = here.poll_chunk(at(600), address(1), RTO).unwrap();
    assert_eq!(parts(&again).1.len(), 2);
    let answered = here.on_ack(u32::MAX - 1, &[]);
    assert_eq!(
        answered,
        [Answered {
            request: Add(address(2)),
            accepted: true
        }]
    );
    let next = here.poll_chunk(at(700), address(1), RTO).unwrap();
    assert_eq!(parts(&next).0, u32::MAX);
}

#[test]
fn a_request_that_comes_again_is_answered_alike_and_followed_once() {
    let (_, mut there) = pair();
    let request = [Add(address(2)).parameter(0)];
    let serial = u32::MAX - 1;
    let first = there
        .on_asconf(serial, &request, address(1), &[address(1)])
        .unwrap();
    let again = there
        .on_asconf(serial, &request, address(1), &[address(1)])
        .unwrap();
    assert_eq!((first.changes.len(), again.changes.len()), (1, 0));
    assert_eq!(first.chunk, again.chunk);
}

#[test]
fn chunks_that_are_not_in_their_turn_are_passed_over() {
    let (mut here, mut there) = pair();
    let request = [Add(address(2)).parameter(0)];
    for serial in [0, 7, u32::MAX - 2, u32::MAX] {
        assert!(
            there
                .on_asconf(serial, &request, address(1), &[address(1)])
                .is_none()
        );
    }
    here.request(Add(address(2)));
    here.poll_chunk(at(0), address(1), RTO).unwrap();
    for serial in [0, 7, u32::MAX] {
        assert!(here.on_ack(serial, &[]).is_empty());
    }
    assert_eq!(here.on_ack(u32::MAX - 1, &[]).len(), 1);
    assert!(here.on_ack(u32::MAX, &[]).is_empty());
    assert_eq!(here.poll_timeout(), None);
}

#[test]
fn what_is_taken_back_before_it_was_asked_is_never_asked() {
    let (mut here, _) = pair();
    here.request(Add(address(2)));
    here.request(Prefer(address(2)));
    here.request(Delete(address(2)));
    here.request(Prefer(address(3)));
    here.request(Prefer(address(4)));
    let chunk = here.poll_chunk(at(0), address(1), RTO).unwrap();
    let wanted = [
        Delete(address(2)).parameter(0),
        Prefer(address(4)).parameter(1),
    ];
    assert_eq!(parts(&chunk).1[1..], wanted);
}

#[test]
fn what_waits_is_bounded() {
    let (mut here, _) = pair();
    (0..=255).for_each(|n| here.request(Add(address(n))));
    assert_eq!(here.waiting.len(), MAX_WAITING);
    let chunk = here.poll_chunk(at(0), address(1), RTO).unwrap();
    assert_eq!(parts(&chunk).1.len(), 1 + MAX_REQUESTS);
}

proptest! {
    /// Whatever a peer requests, it keeps between one address and sixteen, none of them
    /// unspecified.
    #[test]
    fn no_request_leaves_an_impossible_set(
        requests in prop::collection::vec((0u8..4, 0u8..24), 0..40),
        source in 1u8..24,
        first in 1u8..24,
    ) {
        let mut there = pair().1;
        let mut known = vec![address(first)];
        let parameters: Vec<Parameter> = requests
            .iter()
            .map(|(kind, n)| {
                let address = if *n == 0 { ANY } else { address(*n) };
                match kind {
                    0 | 1 => Add(address),
                    2 => Delete(address),
                    _ => Prefer(address),
                }
                .parameter(0)
            })
            .collect();
        let reply = there.on_asconf(u32::MAX - 1, &parameters, address(source), &known).unwrap();
        for change in reply.changes {
            match change {
                Add(address) => known.push(address),
                Delete(address) => known.retain(|known| *known != address),
                Prefer(address) => prop_assert!(known.contains(&address)),
            }
            prop_assert!((1..=16).contains(&known.len()));
            prop_assert!(!known.contains(&ANY));
        }
    }
}
