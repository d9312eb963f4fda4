//! An enrolled client that takes everything it can get.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::MissedTickBehavior;

use super::client::Client;

/// Stalls, floods and knocks until it is dropped; counts the streams that it opens.
///
/// Its pace is bounded, since it runs on the same processors as the others.
pub(super) async fn run(client: Arc<Client>, streams: Arc<AtomicU64>) {
    tokio::join!(
        stall(&client, &streams),
        flood(&client, &streams),
        knock(&client)
    );
}

/// Asks for many large transfers and reads none of them.
async fn stall(client: &Client, streams: &AtomicU64) {
    let mut held = Vec::new();
    while held.len() < STALLED {
        if let Ok(stream) = client.fetch(1 << 50).await {
            held.push(stream);
            streams.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(TICK).await;
    }
    std::future::pending().await
}

/// Opens streams as fast as the pace allows and lets go of them at once: half of them to the meter,
/// half with an opening that means nothing.
async fn flood(client: &Client, streams: &AtomicU64) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tick.tick().await;
        for number in 0..FLOOD_PER_TICK {
            let opened = match number % 2 {
                0 => client.open().await,
                _ => client.open_as(Bytes::from_static(&[0xff; 200])).await,
            };
            if let Ok(mut stream) = opened {
                stream.reset(7);
                streams.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Keeps connections to the gateway's door open that say nothing.
async fn knock(client: &Client) {
    let mut held = std::collections::VecDeque::new();
    loop {
        if let Ok(stream) = client.knock().await {
            held.push_back(stream);
        }
        if held.len() > IDLE_CONNECTIONS {
            held.pop_front();
        }
        tokio::time::sleep(TICK).await;
    }
}

const TICK: Duration = Duration::from_millis(10);
/// Streams that it asks much of and does not read.
const STALLED: usize = 200;
/// Streams that it opens and resets: 1,000 a second.
const FLOOD_PER_TICK: u32 = 10;
const IDLE_CONNECTIONS: usize = 256;
