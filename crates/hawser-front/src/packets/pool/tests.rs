use std::collections::BTreeSet;

use super::*;

const ALICE: ClientId = ClientId::new([1; 32]);
const BOB: ClientId = ClientId::new([2; 32]);
const REST: Duration = Duration::from_secs(600);
const PERMANENT: Wish = Wish {
    is_permanent: true,
    is_for_hosts: false,
    before: Inner { v4: None, v6: None },
};

const ROUTER: Wish = Wish {
    is_for_hosts: true,
    ..PERMANENT
};

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn give(
    pool: &mut AddressPool,
    client: ClientId,
    wish: Wish,
    tunnel: u64,
) -> Result<Granted, PoolError> {
    pool.grant(Instant::now(), client, wish, tunnel)
}

fn own(number: u32) -> OwnAddresses {
    OwnAddresses {
        number,
        block: None,
    }
}

fn small() -> AddressPool {
    AddressPool::new(&nets(&["10.83.0.0/29", "fd00::/64"]), REST).unwrap()
}

#[test]
fn addresses_of_both_families_have_the_same_number() {
    let pool = small();
    assert_eq!(pool.gateway(), nets(&["10.83.0.1/29", "fd00::1/64"]));
    let both = pool.addresses(5);
    assert_eq!(both.v4, Some("10.83.0.5".parse().unwrap()));
    assert_eq!(both.v6, Some("fd00::5".parse().unwrap()));
    for address in both.addresses() {
        assert_eq!(pool.networks.number(address), Some(5));
    }
    for other in [
        "10.82.255.255",
        "10.83.0.7",
        "10.84.0.0",
        "fd00::7",
        "fd00:1::",
        "::",
    ] {
        assert_eq!(
            pool.networks.number(other.parse().unwrap()),
            None,
            "{other}"
        );
    }
}

#[test]
fn a_clients_own_address_stays_its_own() {
    let mut pool = small();
    let granted = give(&mut pool, ALICE, PERMANENT, 1).unwrap();
    assert!(granted.to_keep.is_some());
    let again = give(&mut pool, ALICE, PERMANENT, 2).unwrap();
    assert_eq!(
        (again.number, again.to_keep.is_some()),
        (granted.number, false)
    );
    // The end of the first tunnel does not release the second one's address.
    pool.release(Instant::now(), granted.number, 1);
    assert!(pool.leases.contains_key(&granted.number));
    pool.release(Instant::now(), granted.number, 2);
    for _ in 0..20 {
        let other = give(&mut pool, BOB, Wish::default(), 3).unwrap();
        assert_ne!(other.number, granted.number);
        pool.release(Instant::now(), other.number, 3);
    }
    let mut later = small();
    later.remember(Instant::now(), ALICE, own(granted.number));
    later.remember(Instant::now(), BOB, own(granted.number));
    later.remember(Instant::now(), BOB, own(7));
    let back = give(&mut later, ALICE, PERMANENT, 1).unwrap();
    assert_eq!(
        (back.number, back.to_keep.is_some()),
        (granted.number, false)
    );
    assert!(
        give(&mut later, BOB, PERMANENT, 1)
            .unwrap()
            .to_keep
            .is_some()
    );
}

#[test]
fn a_tunnel_that_comes_back_gets_its_address_unless_it_is_anothers() {
    let mut pool = small();
    let first = give(&mut pool, ALICE, Wish::default(), 1).unwrap().number;
    let wish = Wish {
        is_permanent: false,
        is_for_hosts: false,
        before: pool.addresses(first),
    };
    assert_eq!(give(&mut pool, ALICE, wish, 2).unwrap().number, first);
    assert_ne!(give(&mut pool, BOB, wish, 3).unwrap().number, first);
    pool.release(Instant::now(), first, 2);
    assert_eq!(give(&mut pool, BOB, wish, 4).unwrap().number, first);
    assert_ne!(give(&mut pool, ALICE, wish, 5).unwrap().number, first);
}

#[test]
fn what_is_given_away_is_bounded() {
    let mut pool = small();
    for tunnel in 0..5 {
        assert!(give(&mut pool, ALICE, Wish::default(), tunnel).is_ok());
    }
    let error = give(&mut pool, BOB, Wish::default(), 9).unwrap_err();
    assert_eq!(error, PoolError::Exhausted(5));
    let mut large = AddressPool::new(&nets(&["10.83.0.0/16"]), REST).unwrap();
    for tunnel in 0..MAX_TUNNELS as u64 {
        assert!(give(&mut large, ALICE, Wish::default(), tunnel).is_ok());
    }
    let error = give(&mut large, ALICE, Wish::default(), 99).unwrap_err();
    assert_eq!(error, PoolError::TooMany);
    assert!(give(&mut large, BOB, Wish::default(), 99).is_ok());
}

fn with_blocks() -> AddressPool {
    AddressPool::new(&nets(&["10.83.0.0/22", "fd48::/64"]), REST).unwrap()
}

/// Returns a number of the pool that lies in a block.
fn number_in(pool: &AddressPool, block: u32) -> u32 {
    let first = pool.networks.of_block(block).v4.unwrap().network();
    pool.networks.number(first.into()).unwrap()
}

#[test]
fn a_router_gets_a_block_for_its_hosts_that_no_single_address_is_in() {
    let mut pool = with_blocks();
    // An address from before there were blocks stays, and its block is not given.
    let old = number_in(&pool, 3);
    pool.remember(Instant::now(), BOB, own(old));
    let mut given = BTreeSet::new();
    while let Some(block) = grant(&mut pool, given.len() as u8, ROUTER).block {
        assert!(given.insert(block));
    }
    let places = pool.networks.blocks;
    let all = (0..).take_while(|block| places.has(*block));
    assert!(given.into_iter().eq(all.filter(|block| *block != 3)));
    let places =
        |pool: &AddressPool, address: IpAddr| pool.networks.places(address).collect::<Vec<_>>();
    for net in pool.networks.of_block(1).networks() {
        assert_eq!(
            places(&pool, net.network()).last(),
            Some(&AddressHolder::Block(1))
        );
    }
    assert_eq!(give(&mut pool, BOB, ROUTER, 2).unwrap().number, old);
    for address in pool.addresses(old).addresses() {
        assert_eq!(places(&pool, address)[0], AddressHolder::Client(old));
    }
    // An earlier address that now lies in a block is not given to a tunnel again.
    let before = Wish {
        before: pool.addresses(old + 70),
        ..Wish::default()
    };
    assert!(give(&mut pool, ALICE, before, 6).unwrap().number < old);
}

#[test]
fn only_who_asks_and_has_an_address_of_its_own_gets_a_block() {
    let mut pool = with_blocks();
    assert_eq!(grant(&mut pool, 1, PERMANENT).block, None);
    let for_now = Wish {
        is_permanent: false,
        ..ROUTER
    };
    assert_eq!(grant(&mut pool, 2, for_now).block, None);
    assert!(grant(&mut pool, 3, ROUTER).block.is_some());
}

#[test]
fn what_is_a_clients_own_is_kept_over_a_restart() {
    let mut pool = with_blocks();
    let first = grant(&mut pool, 1, PERMANENT).to_keep.unwrap();
    assert_eq!(first.block, None);
    let router = grant(&mut pool, 1, ROUTER);
    let kept = router.to_keep.unwrap();
    assert_eq!((kept.number, kept.block), (first.number, router.block));
    assert!(kept.block.is_some());
    for wish in [PERMANENT, ROUTER] {
        assert_eq!(grant(&mut pool, 1, wish).to_keep, None, "known already");
    }
    let mut later = with_blocks();
    let now = Instant::now();
    later.remember(now, client(1), kept);
    // Addresses of another pool are not restored.
    let foreign = OwnAddresses {
        number: 5000,
        block: Some(7),
    };
    later.remember(now, client(2), foreign);
    let (back, new) = (grant(&mut later, 1, ROUTER), grant(&mut later, 2, ROUTER));
    assert_eq!((back.number, back.block), (kept.number, kept.block));
    assert_eq!(back.to_keep, None);
    assert!(new.to_keep.unwrap().block.is_some_and(|block| block < 7));
}

#[test]
fn a_block_rests_before_another_client_has_it_also_over_a_restart() {
    let began = Instant::now();
    let mut pool = with_blocks();
    pool.remember_block(began, client(200), Some(0));
    for number in 1..7 {
        assert!(grant(&mut pool, number, ROUTER).block.is_some());
    }
    let now = |after: u64| began + Duration::from_secs(after);
    let mut ask = |now, number| pool.grant(now, client(number), ROUTER, 0).unwrap();
    assert_eq!(ask(now(599), 7).block, None);
    assert_eq!(ask(now(600), 7).block, Some(0));
    // The owner's tunnel ends, while another client's tunnel has existed until now.
    let (own, third) = (ask(now(700), 7).number, ask(now(700), 3));
    pool.release(now(800), own, 0);
    pool.release(now(900), third.number, 0);
    let mut ask = |after| pool.grant(now(after), client(8), ROUTER, 0).unwrap();
    assert_eq!(ask(1399).block, None);
    assert_eq!(ask(1400).block, Some(0));
}

fn client(number: u8) -> ClientId {
    ClientId::new([number; 32])
}

fn grant(pool: &mut AddressPool, number: u8, wish: Wish) -> Granted {
    give(pool, client(number), wish, 0).unwrap()
}

#[test]
fn networks_without_room_make_no_pool() {
    for texts in [
        &["10.0.0.0/30"][..],
        &["fd00::/126"],
        &["10.0.0.0/8", "10.1.0.0/16"],
    ] {
        assert!(AddressPool::new(&nets(texts), REST).is_err(), "{texts:?}");
    }
}
