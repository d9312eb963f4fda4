//! The bound on the data of all sessions together.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Pair, PairOptions, echo_checked, in_time};
use futures_util::future::join_all;
use hawser_net::gateway::AcceptLimits;
use hawser_types::ByteCount;

/// Returns the most bytes that all sessions have lent and in flight while clients move data.
async fn most_held(memory: ByteCount) -> (u64, u64) {
    let limits = AcceptLimits {
        memory,
        ..AcceptLimits::default()
    };
    let pair = Pair::new(PairOptions::limited(limits)).await;
    pair.serve_echo();
    let clients: Vec<_> = (0..CLIENTS).map(|_| pair.enrolled_client()).collect();
    let over = AtomicBool::new(false);
    let moving = async {
        let all = clients
            .iter()
            .flat_map(|client| (0..4).map(move |seed| echo_checked(client, seed, 6_000_000)));
        join_all(all).await;
        over.store(true, Ordering::Relaxed);
    };
    let watching = async {
        let mut most = (0, 0);
        while !over.load(Ordering::Relaxed) {
            let sessions = pair.gateway.sessions(0);
            let lent = sessions.iter().map(|it| it.session.credit_lent.as_u64());
            let sent = sessions.iter().map(|it| it.session.unacknowledged.as_u64());
            most = (lent.sum::<u64>().max(most.0), sent.sum::<u64>().max(most.1));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        most
    };
    tokio::join!(moving, watching).1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_sessions_together_hold_no_more_than_the_limit_and_all_get_on() {
    in_time(async {
        let half = LIMIT.as_u64() / 2;
        let (lent, sent) = most_held(LIMIT).await;
        assert!(lent <= half, "{lent} lent");
        // Beside its share each session may have one chunk in flight, and another that was cut just
        // below the bound.
        let besides = CLIENTS * 2 * 64 * 1024;
        assert!(sent <= half + besides, "{sent} in flight");
        // The sessions would take more if they could.
        let (lent, _) = most_held(ByteCount::from_mib(1024)).await;
        assert!(lent > half, "{lent} lent without need");
    })
    .await;
}

const CLIENTS: u64 = 6;
const LIMIT: ByteCount = ByteCount::from_mib(6);
