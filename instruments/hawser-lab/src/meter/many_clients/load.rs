//! Some of the clients transfer, others make small requests, and one may be hostile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use tokio::task::JoinSet;

use super::client::{Client, honest};
use super::hostile;
use super::protocol::{Load, Loaded};

/// Makes a load and measures it once every busy client has had its first byte.
pub(super) async fn run(clients: &[Arc<Client>], load: Load) -> anyhow::Result<Loaded> {
    let every = honest(clients).len() / load.busy.max(1);
    ensure!(every > 1, "as many are to be busy as there are clients");
    let busy: Vec<_> = honest(clients)
        .iter()
        .step_by(every)
        .take(load.busy)
        .collect();
    let counts: Arc<Vec<_>> = Arc::new(busy.iter().map(|_| AtomicU64::new(0)).collect());
    let mut tasks = JoinSet::new();
    for (number, client) in busy.iter().enumerate() {
        let (client, counts) = (Arc::clone(client), Arc::clone(&counts));
        tasks.spawn(async move { transfer(&client, &counts[number]).await });
    }
    let streams = Arc::new(AtomicU64::new(0));
    if let Some(enemy) = clients.last().filter(|_| load.hostile) {
        tasks.spawn(hostile::run(Arc::clone(enemy), Arc::clone(&streams)));
    }
    let begun = Instant::now();
    let none_yet = || {
        counts
            .iter()
            .any(|count| count.load(Ordering::Relaxed) == 0)
    };
    while none_yet() && begun.elapsed() < WARM_UP_LIMIT {
        tokio::time::sleep(POLL).await;
    }
    tokio::time::sleep(WARM_UP).await;
    let now = || counts.iter().map(|count| count.load(Ordering::Relaxed));
    let (start, before) = (Instant::now(), now().collect::<Vec<_>>());
    let askers = honest(clients).iter().skip(every / 2).step_by(every);
    let asked = ask(askers.take(ASKERS), load.seconds).await;
    let seconds = start.elapsed().as_secs_f64();
    let loaded = Loaded {
        bytes: now()
            .zip(before)
            .map(|(now, before)| now - before)
            .collect(),
        seconds,
        failed: asked.iter().filter(|took| took.is_none()).count(),
        requests: asked.into_iter().flatten().collect(),
        hostile_streams: streams.load(Ordering::Relaxed),
    };
    tasks.shutdown().await;
    Ok(loaded)
}

/// Lets clients make small requests for so many seconds; gives the time that each took, or none
/// where it failed.
async fn ask<'a>(clients: impl Iterator<Item = &'a Arc<Client>>, seconds: f64) -> Vec<Option<f64>> {
    let end = tokio::time::Instant::now() + Duration::from_secs_f64(seconds);
    let mut tasks = JoinSet::new();
    for client in clients {
        let client = Arc::clone(client);
        tasks.spawn(async move {
            let mut took = Vec::new();
            while tokio::time::Instant::now() < end {
                let next = tokio::time::Instant::now() + BETWEEN_REQUESTS;
                let begin = Instant::now();
                let done = tokio::time::timeout(REQUEST_LIMIT, client.request()).await;
                let is_done = matches!(done, Ok(Ok(())));
                took.push(is_done.then(|| begin.elapsed().as_secs_f64()));
                tokio::time::sleep_until(next.min(end)).await;
            }
            tokio::time::sleep_until(end).await;
            took
        });
    }
    tokio::time::sleep_until(end).await;
    tasks.join_all().await.concat()
}

/// Takes bytes for as long as it lives, over one stream after the other.
async fn transfer(client: &Client, taken: &AtomicU64) {
    loop {
        let Ok(mut stream) = client.fetch(WITHOUT_END).await else {
            tokio::time::sleep(POLL).await;
            continue;
        };
        while let Ok(Some(chunk)) = stream.read_chunk(CHUNK).await {
            taken.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
        }
    }
}

const WITHOUT_END: u64 = 1 << 50;
const CHUNK: usize = 64 << 10;
const ASKERS: usize = 20;
const BETWEEN_REQUESTS: Duration = Duration::from_millis(200);
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
const WARM_UP: Duration = Duration::from_secs(2);
const WARM_UP_LIMIT: Duration = Duration::from_secs(20);
