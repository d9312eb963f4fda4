//! Enrolment with an invite: once, by one client, even if the answer is lost.

mod common;

use std::time::Duration;

use common::{Pair, PairOptions, echo_checked, in_time, until};
use hawser_keys::identity::Identity;
use hawser_net::client::OpenStreamError;
use hawser_session::SessionConfig;

/// One link and one kind of channel, so that all data uses the one connection.
fn narrow() -> PairOptions {
    PairOptions {
        session: SessionConfig {
            survive: Duration::from_secs(1),
            ..SessionConfig::default()
        },
        ..PairOptions::narrow()
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_client_enrols_and_can_use_the_session_at_once() {
    in_time(async {
        let pair = Pair::new(PairOptions::default()).await;
        pair.serve_echo();
        let identity = Identity::generate().unwrap();
        let client = pair.start(pair.config(identity.clone(), Some(pair.invite())));
        echo_checked(&client, 1, 100_000).await;
        client.enrolled(PATIENCE).await.unwrap();
        pair.until("it is counted", |c| c.enrolments == 1).await;
        assert_eq!(pair.gateway.sessions(0)[0].peer, identity.public());
        // From now on the client's own key suffices.
        client.close(PATIENCE).await;
        let client = pair.start(pair.config(identity, None));
        client.admitted(PATIENCE).await.unwrap();
        echo_checked(&client, 2, 100_000).await;
        assert_eq!(pair.counters().enrolments, 1);
    })
    .await;
}

#[tokio::test]
async fn an_enrolment_whose_answer_was_lost_is_repeated_and_does_no_harm() {
    in_time(async {
        let pair = Pair::new(narrow()).await;
        pair.serve_echo();
        pair.forwarders[0].set_mute(true);
        let identity = Identity::generate().unwrap();
        let client = pair.start(pair.config(identity.clone(), Some(pair.invite())));
        pair.until("the gateway has kept the key", |c| c.enrolments == 1)
            .await;
        assert!(client.enrolled(Duration::ZERO).await.is_err());
        // The client did not receive the answer.
        pair.forwarders[0].set_mute(false);
        pair.forwarders[0]
            .pipes()
            .iter()
            .for_each(|pipe| pipe.cut());
        client.enrolled(PATIENCE).await.unwrap();
        echo_checked(&client, 1, 100_000).await;
        let peers = pair.door.peers.lock().clone();
        assert_eq!(peers.into_iter().collect::<Vec<_>>(), [identity.public()]);
        assert_eq!(pair.counters().enrolments, 2);
    })
    .await;
}

#[tokio::test]
async fn a_client_whose_invite_expired_after_it_was_enrolled_comes_back_by_its_key() {
    in_time(async {
        let pair = Pair::new(narrow()).await;
        pair.serve_echo();
        let identity = Identity::generate().unwrap();
        let client = pair.start(pair.config(identity, Some(pair.invite())));
        client.enrolled(PATIENCE).await.unwrap();
        pair.door.invites.lock().clear();
        pair.forwarders[0].go_down();
        until("the session is over", || {
            pair.gateway.sessions(0).is_empty()
        })
        .await;
        until("the client knows", || client.snapshot(0).session.is_none()).await;
        pair.forwarders[0].come_up();
        echo_checked(&client, 1, 100_000).await;
        assert_eq!(pair.counters().enrolments, 1);
    })
    .await;
}

#[tokio::test]
async fn an_invite_that_another_client_used_enrols_no_other_client() {
    in_time(async {
        let pair = Pair::new(narrow()).await;
        pair.serve_echo();
        let invite = pair.invite();
        let first = Identity::generate().unwrap();
        let client = pair.start(pair.config(first.clone(), Some(invite.clone())));
        client.enrolled(PATIENCE).await.unwrap();
        let second = Identity::generate().unwrap();
        let thief = pair.start(pair.config(second, Some(invite)));
        let refused = thief.enrolled(Duration::from_secs(3)).await;
        assert!(refused.is_err());
        assert_eq!(pair.counters().enrolments, 1);
        let peers = pair.door.peers.lock().clone();
        assert_eq!(peers.into_iter().collect::<Vec<_>>(), [first.public()]);
        echo_checked(&client, 1, 100_000).await;
    })
    .await;
}

#[tokio::test]
async fn an_invite_that_the_gateway_does_not_know_is_a_failed_handshake() {
    in_time(async {
        let pair = Pair::new(narrow()).await;
        let invite = pair.invite();
        pair.door.invites.lock().clear();
        let client = pair.start(pair.config(Identity::generate().unwrap(), Some(invite)));
        let refused = client.enrolled(PATIENCE).await;
        assert_eq!(refused, Err(OpenStreamError::NotAdmitted));
        pair.until("it is counted", |c| c.handshakes_failed >= 1)
            .await;
        assert_eq!(pair.counters().sessions, 0);
    })
    .await;
}
