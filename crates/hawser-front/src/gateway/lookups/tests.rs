use std::sync::atomic::{AtomicUsize, Ordering};

use hawser_types::Budget;

use super::super::client::{ClientLimits, Clients};
use super::*;

/// Answers at once. Exception: names that begin with `hang` hang for 30 s.
#[derive(Clone, Default)]
struct Script {
    asked: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Resolve for Script {
    async fn resolve(&self, name: &HostName) -> Result<Vec<IpAddr>, DialError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let running = 1 + self.running.fetch_add(1, Ordering::Relaxed);
        self.most.fetch_max(running, Ordering::Relaxed);
        if name.as_str().starts_with("hang") {
            tokio::time::sleep(HANGS).await;
        }
        self.running.fetch_sub(1, Ordering::Relaxed);
        match name.as_str() {
            "none.example" => Ok(Vec::new()),
            "panic.example" => panic!("as a resolver should not"),
            _ => Ok(vec!["192.0.2.1".parse().unwrap()]),
        }
    }
}

struct Scene {
    lookups: Arc<Lookups<Script>>,
    script: Script,
    clients: Arc<Clients>,
    account: Budget,
}

impl Scene {
    fn new() -> Self {
        let script = Script::default();
        Self {
            lookups: Arc::new(Lookups::new(script.clone())),
            script,
            clients: Clients::new(ClientLimits::default()),
            account: Budget::new(ByteCount::from_mib(64)),
        }
    }

    async fn ask(&self, client: ClientId, name: &str) -> Answer {
        let (host, permit) = (name.parse().unwrap(), self.permit(client));
        self.lookups.addresses(&permit, &host, PATIENCE).await
    }

    fn permit(&self, client: ClientId) -> Permit {
        let place = self.clients.admit(client, Instant::now()).unwrap();
        Permit::new(place, &self.account).unwrap()
    }

    /// A client asks for `names` names that hang. Returns when all lookups have begun.
    async fn hang(&self, client: ClientId, prefix: &str, names: usize) {
        for number in 0..names {
            let lookups = Arc::clone(&self.lookups);
            let host = format!("hang-{prefix}-{number}.example").parse().unwrap();
            let permit = self.permit(client);
            tokio::spawn(async move { lookups.addresses(&permit, &host, PATIENCE).await });
        }
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }

    fn running(&self) -> usize {
        self.script.running.load(Ordering::Relaxed)
    }

    fn asked(&self) -> usize {
        self.script.asked.swap(0, Ordering::Relaxed)
    }
}

fn client(number: u8) -> ClientId {
    ClientId::new([number; 32])
}

fn found() -> Answer {
    Ok(vec!["192.0.2.1".parse().unwrap()])
}

#[tokio::test(start_paused = true)]
async fn names_that_hang_delay_only_the_client_that_asks_for_them() {
    let scene = Scene::new();
    scene.hang(client(1), "a", 140).await;
    assert_eq!(scene.running(), LOOKUPS_OF_CLIENT);
    let begun = Instant::now();
    assert_eq!(scene.ask(client(2), "quick.example").await, found());
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // A name that waits behind them does not delay another client that asks for it, either.
    let (own, others) = tokio::join!(
        scene.ask(client(1), "later.example"),
        scene.ask(client(2), "later.example"),
    );
    assert_eq!(others, found());
    assert_eq!(own, Err(DialError::ResolverUnavailable));
    assert_eq!(begun.elapsed(), PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn many_clients_whose_names_hang_leave_places_for_others() {
    let scene = Scene::new();
    for number in 0..40 {
        scene.hang(client(number), &number.to_string(), 140).await;
    }
    assert!(scene.running() < MAX_LOOKUPS);
    let begun = Instant::now();
    assert_eq!(scene.ask(client(100), "quick.example").await, found());
    assert_eq!(begun.elapsed(), Duration::ZERO);
    tokio::time::sleep(20 * HANGS).await;
    assert!(scene.script.most.load(Ordering::Relaxed) <= MAX_LOOKUPS);
    assert_eq!(scene.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn equal_lookups_are_one_and_its_answer_is_remembered() {
    let scene = Scene::new();
    scene.hang(client(1), "a", 1).await;
    scene.hang(client(2), "a", 1).await;
    scene.hang(client(3), "a", 1).await;
    assert_eq!((scene.running(), scene.asked()), (1, 1));
    // The answer is cached although no client waited until the end.
    tokio::time::sleep(HANGS).await;
    assert_eq!(scene.ask(client(4), "hang-a-0.example").await, found());
    assert_eq!(scene.asked(), 0);
    for _ in 0..3 {
        let none = scene.ask(client(1), "none.example").await;
        assert_eq!(none, Err(DialError::NameNotFound));
    }
    assert_eq!(scene.asked(), 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let again = scene.ask(client(4), "hang-a-0.example").await;
    assert_eq!(again, Err(DialError::ResolverUnavailable));
    assert_eq!(scene.asked(), 1, "it is asked for again");
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_fails_in_itself_leaves_nothing_behind() {
    let scene = Scene::new();
    for _ in 0..3 {
        let failed = scene.ask(client(1), "panic.example").await;
        assert_eq!(failed, Err(DialError::Internal));
    }
    assert_eq!(scene.asked(), 3);
    let book = scene.lookups.book.lock();
    assert!(book.running.is_empty());
    assert_eq!(scene.lookups.common.available_permits(), COMMON_LOOKUPS);
}

#[tokio::test(start_paused = true)]
async fn clients_that_ask_for_nothing_any_more_are_forgotten() {
    let scene = Scene::new();
    for number in 0..=255 {
        for more in 0..4 {
            let mut key = [number; 32];
            key[0] = more;
            let name = format!("n{number}-{more}.example");
            assert_eq!(scene.ask(ClientId::new(key), &name).await, found());
        }
    }
    assert!(scene.lookups.book.lock().shares.by_client.len() <= MIN_SWEPT);
}

const HANGS: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_client_without_memory_gets_no_lookup_and_addresses_all_the_same() {
    let mut scene = Scene::new();
    let permit = scene.permit(client(1));
    scene.account = Budget::new(permit.account().held());
    let place = scene.clients.admit(client(2), Instant::now()).unwrap();
    let full = Permit::new(place, &scene.account).unwrap();
    let ask = |name: &str| name.parse().unwrap();
    let (name, address) = (ask("some.example"), ask("192.0.2.1"));
    let looked_up = scene.lookups.addresses(&full, &name, PATIENCE).await;
    assert_eq!(looked_up, Err(DialError::LimitReached));
    assert!(
        scene
            .lookups
            .addresses(&full, &address, PATIENCE)
            .await
            .is_ok()
    );
}
