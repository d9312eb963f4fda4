use hawser_session::SessionConfig;

use super::limits::AcceptLimits;
use crate::takeover::ToPredecessor;
use hawser_keys::identity::{Identity, PublicKey};

/// Decides which clients may have sessions here.
pub trait Admission: Send + Sync + 'static {
    /// True if a client that has proved to hold this key may have a session: an enrolled key, or
    /// the key of a valid invite.
    fn admits(&self, key: &PublicKey) -> bool;

    /// True if the key is enrolled, rather than that of an invite.
    fn is_enrolled(&self, key: &PublicKey) -> bool;

    /// The name under which a client is enrolled, for the log; `None` if it has none.
    fn name(&self, key: &PublicKey) -> Option<String> {
        let _ = key;
        None
    }

    /// Stores `client`'s key, which came with the invite whose key is `invite`. May block.
    fn enrol(&self, invite: PublicKey, client: PublicKey, name: &str) -> Result<(), String>;
}

/// Admits every key, and enrols none: for a port that is open to all.
#[derive(Clone, Copy, Debug)]
pub struct AdmitAll;

impl Admission for AdmitAll {
    fn admits(&self, _: &PublicKey) -> bool {
        true
    }

    fn is_enrolled(&self, _: &PublicKey) -> bool {
        true
    }

    fn enrol(&self, _: PublicKey, _: PublicKey, _: &str) -> Result<(), String> {
        Err("this port enrols no clients".to_owned())
    }
}

/// The behaviour of a gateway.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// The gateway's key.
    pub identity: Identity,
    /// The sessions' behaviour.
    pub session: SessionConfig,
    /// Limits of what strangers and clients may use.
    pub limits: AcceptLimits,
    /// Congestion control of the channels; `None`: where bbr is permitted, the session chooses for
    /// each channel, else the system's default applies.
    pub congestion: Option<String>,
    /// The process that this one succeeds, which still has sessions.
    pub predecessor: Option<ToPredecessor>,
}
