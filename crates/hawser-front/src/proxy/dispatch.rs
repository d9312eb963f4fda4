//! Detects the protocol of a connection, and calls its server.

use std::sync::atomic::Ordering;

use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::context::{Context, Ends};
use super::detect::Protocol;
use super::intake::{Fault, Intake};
use super::socks_server::Begun;
use super::{http_server, socks_server};
use crate::transport::{ByteStream, Dialer};

/// Serves one connection and counts the result.
pub(super) async fn serve<C: ByteStream, D: Dialer>(client: C, ends: Ends, context: &Context<D>) {
    let deadline = Instant::now() + context.config.handshake_timeout;
    let counters = &context.counters;
    match serve_detected(client, ends, deadline, context).await {
        Ok(()) | Err(Fault::Gone) => {}
        Err(Fault::TooSlow) => {
            counters.slow_clients.fetch_add(1, Ordering::Relaxed);
        }
        Err(Fault::Malformed(reason)) => {
            debug!(%reason, "refused a client's connection");
            counters.malformed.add(reason);
        }
    }
}

async fn serve_detected<C: ByteStream, D: Dialer>(
    mut client: C,
    ends: Ends,
    deadline: Instant,
    context: &Context<D>,
) -> Result<(), Fault> {
    let mut intake = Intake::default();
    match timeout_at(deadline, intake.fill(&mut client)).await {
        Ok(Ok(_)) => {}
        Ok(Err(_)) => return Err(Fault::Gone),
        Err(_) => return Err(Fault::TooSlow),
    }
    let first = *intake.unread().first().ok_or(Fault::Gone)?;
    match Protocol::detect(first).map_err(Fault::Malformed)? {
        Protocol::Socks5 => {
            let begun = Begun {
                client,
                intake,
                ends,
            };
            socks_server::serve_5(begun, deadline, context).await
        }
        Protocol::Socks4 => socks_server::serve_4(client, intake, deadline, context).await,
        Protocol::Http => http_server::serve(client, intake, deadline, context).await,
    }
}
