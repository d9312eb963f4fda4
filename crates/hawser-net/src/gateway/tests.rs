//! A gateway whose application takes nothing.

use std::time::Duration;

use hawser_session::SessionConfig;
use tokio::net::TcpStream;

use super::*;
use crate::identity::Identity;
use crate::tls::client_handshake;

/// Admits every client.
pub(super) struct Everybody;

impl Admission for Everybody {
    fn admits(&self, _: &PublicKey) -> bool {
        true
    }
    fn is_enrolled(&self, _: &PublicKey) -> bool {
        true
    }
    fn enrol(&self, _: PublicKey, _: PublicKey, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// A client may begin sessions and end them for as long as it likes: what nobody has taken yet
/// must not pile up.
#[tokio::test]
async fn sessions_that_ended_do_not_wait_to_be_accepted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let identity = Identity::from_seed([1; 32]);
    let key = identity.public();
    let config = GatewayConfig {
        identity,
        session: SessionConfig::default(),
        limits: AcceptLimits::default(),
        congestion: None,
    };
    let gateway = Gateway::start(config, vec![listener], Arc::new(Everybody)).unwrap();
    // The application wants sessions, and looks no further.
    let asked = tokio::time::timeout(Duration::from_millis(1), gateway.accept_session());
    assert!(asked.await.is_err());
    let me = Identity::from_seed([2; 32]);
    for number in 1..=SESSIONS {
        let stream = TcpStream::connect(address).await.unwrap();
        drop(client_handshake(stream, &me, key).await.unwrap());
        let ended = async {
            while gateway.counters().sessions < number || gateway.session_count() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap();
    }
    let waiting = gateway.arrivals.lock().await.len();
    assert!(
        waiting <= ARRIVALS_QUEUE,
        "{waiting} sessions that are over are kept"
    );
}

const SESSIONS: u64 = 2 * ARRIVALS_QUEUE as u64;
const PATIENCE: Duration = Duration::from_secs(30);
