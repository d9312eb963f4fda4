//! Looks after one session for as long as it lives.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use hawser_wire::Enrolment;
use tracing::Span;

use super::shared::{Ends, GatewayState, HandOver, Incoming, IncomingSession, REFUSED_PATIENCE};
use super::{associate, further, going};
use crate::driver::{CLOSE_REFUSED, Driver};
use crate::session::SessionHandle;
use crate::stream::BondStream;
use hawser_keys::identity::PublicKey;

/// Hands out the session's streams once its client is known; removes the session when it is over.
/// `client`: the client's span, which encloses that of the session.
pub(super) async fn serve(
    shared: Arc<GatewayState>,
    driver: Driver,
    (client, key): (Span, PublicKey),
    ends: Ends,
) {
    let peer = if shared.admission.is_enrolled(&key) {
        Some(key)
    } else {
        let enrolling = enrol(&shared, &driver, key);
        let peer = tokio::time::timeout(ENROL_PATIENCE, enrolling).await;
        let peer = peer.unwrap_or(None);
        if let Some(peer) = &peer {
            shared.name_client(&client, peer);
            tracing::info!(client = %peer, "a client is enrolled");
        }
        peer
    };
    match peer {
        Some(peer) if peer == key || shared.give(driver.id(), peer) => {
            // This future never ends by itself.
            let adding = async {
                tokio::join!(
                    associate::serve(&shared, &driver),
                    further::serve(&shared, &driver)
                );
                std::future::pending::<()>().await
            };
            tokio::select! {
                () = hand_over(&shared, &driver, peer, ends) => {}
                () = adding => {}
                () = going::follow(&shared, &driver) => {}
            }
        }
        Some(peer) => {
            shared.tell_of_limit(peer, "too many sessions");
            driver.abort();
        }
        None => {
            // The client learns that trying again is of no use.
            driver.close(CLOSE_REFUSED);
            tokio::time::sleep(REFUSED_PATIENCE).await;
            driver.abort();
        }
    }
    shared.sessions.lock().remove(&driver.id());
    tracing::info!(reason = ?driver.closed(), "the session is over");
    // The last acknowledgements go out.
    tokio::time::sleep(LAST_WORDS).await;
}

/// Hands the session, or its streams, to the application, until the session is over.
async fn hand_over(shared: &GatewayState, driver: &Driver, peer: PublicKey, ends: Ends) {
    let mut decided = shared.hand_over.subscribe();
    let decided = tokio::select! {
        decided = decided.wait_for(Option::is_some) => decided.map_or(None, |decided| *decided),
        () = ended(driver) => return,
    };
    match decided {
        Some(HandOver::Sessions) => {
            let arrival = IncomingSession {
                session: SessionHandle::new(driver.clone()),
                peer,
                remote: ends.remote,
            };
            tokio::select! {
                sent = shared.arrivals.send(arrival) => if sent.is_err() {
                    return;
                },
                // The application accepts no sessions now; a session that is over must not be kept.
                () = ended(driver) => return,
            }
            ended(driver).await;
        }
        _ => hand_out(shared, driver, peer, ends).await,
    }
}

async fn hand_out(shared: &GatewayState, driver: &Driver, peer: PublicKey, ends: Ends) {
    while let Some(id) = poll_fn(|cx| driver.poll_incoming(cx)).await {
        shared.note_used(driver.id());
        let opening = driver
            .with(|session, _| session.peer_metadata(id))
            .unwrap_or_default();
        let stream = BondStream::new(driver.clone(), id, opening);
        let incoming = Incoming {
            stream,
            peer,
            ends,
            from: driver.opened_from(id),
            account: driver.account().clone(),
        };
        let sent = shared.incoming.send(incoming);
        tokio::select! {
            sent = sent => if sent.is_err() {
                return;
            },
            // The application accepts no streams now; a session that is over must not be kept.
            () = ended(driver) => return,
        }
    }
}

/// Waits until the session is over.
pub(super) async fn ended(driver: &Driver) {
    let mut changes = driver.changes();
    while driver.closed().is_none() && changes.changed().await.is_ok() {}
}

/// Waits for the client to show its own key; streams wait meanwhile.
async fn enrol(
    shared: &Arc<GatewayState>,
    driver: &Driver,
    invite: PublicKey,
) -> Option<PublicKey> {
    let mut changes = driver.changes();
    loop {
        if let Some(enrolment) = driver.take_enrolment() {
            return admit(shared, driver, invite, enrolment).await;
        }
        if driver.closed().is_some() || changes.changed().await.is_err() {
            return None;
        }
    }
}

async fn admit(
    shared: &Arc<GatewayState>,
    driver: &Driver,
    invite: PublicKey,
    enrolment: Enrolment,
) -> Option<PublicKey> {
    let client = PublicKey::from_bytes(enrolment.key);
    let challenge = driver.keys().enrolment_challenge();
    if client.verify(&challenge, &enrolment.signature).is_err() {
        tracing::warn!(%client, "refused an enrolment that is not signed by the key that it names");
        return None;
    }
    let admission = Arc::clone(&shared.admission);
    let name = enrolment.name;
    let kept = tokio::task::spawn_blocking(move || admission.enrol(invite, client, &name)).await;
    match kept {
        Ok(Ok(())) => {
            driver.confirm_enrolment();
            shared.count(|counters| counters.enrolments += 1);
            Some(client)
        }
        Ok(Err(reason)) => {
            tracing::warn!(%client, %reason, "an enrolment is refused");
            None
        }
        Err(_) => None,
    }
}

/// Time that a client that came with an invite has to show its own key.
const ENROL_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

const LAST_WORDS: Duration = Duration::from_millis(100);
