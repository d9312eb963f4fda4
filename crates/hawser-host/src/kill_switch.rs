//! The kill switch: kernel rules that let no traffic leave this machine past Hawser.
//!
//! It is one nftables table for both families, and belongs to no process: it applies before Hawser
//! uses a link, after Hawser has ended or was killed, and until [`remove`].

mod changes;
mod inbound;
mod rules;

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::sleep;

use crate::lan::has_plain_name;
use crate::nft::{self, NftError};
use changes::Changes;
use hawser_keys::unix_time::UnixTime;
use hawser_link::bind::mark_sockets;
use rules::{NAME, Table, emptied, removed, script};

pub use rules::Openings;

/// A kill switch that this process watches. Dropping this value leaves it on.
#[derive(Debug)]
pub struct KillSwitch {
    since: watch::Receiver<Option<UnixTime>>,
    following: JoinHandle<()>,
}

/// Why there is no kill switch, or why its state is unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KillSwitchError {
    /// `nft` is missing, or refuses, usually because of a missing privilege.
    #[error(transparent)]
    Nft(#[from] NftError),
    /// The table cannot be watched.
    #[error("cannot follow the changes of nftables: {0}")]
    Follow(std::io::Error),
    /// An interface name that cannot be written into rules.
    #[error("no rule can name the interface {0:?}: letters, digits and -_.@+ are allowed")]
    Interface(String),
    /// The task was cancelled.
    #[error("the task was cancelled: {0}")]
    GivenUp(#[from] JoinError),
}

impl KillSwitch {
    /// Turns the kill switch on with these openings; they replace the openings of a switch that is
    /// already on. From then on this process's sockets are marked, and if anything but [`remove`]
    /// removes the table, this process creates it again.
    ///
    /// # Errors
    /// This process lacks the privilege, or the system lacks the feature.
    pub async fn turn_on(open: Openings) -> Result<Self, KillSwitchError> {
        // Follows changes first, so that no change is missed.
        let changes = Changes::follow().map_err(KillSwitchError::Follow)?;
        let since = turn_on(&open).await?;
        mark_sockets();
        Ok(Self::start(changes, since, Some(open)))
    }

    /// Finds a kill switch that is on, and marks this process's sockets so that they pass.
    ///
    /// # Errors
    /// This process lacks the privilege to look.
    pub async fn find() -> Result<Option<Self>, KillSwitchError> {
        let changes = Changes::follow().map_err(KillSwitchError::Follow)?;
        let Some(since) = join().await? else {
            return Ok(None);
        };
        Ok(Some(Self::start(changes, since, None)))
    }

    fn start(mut changes: Changes, since: UnixTime, open: Option<Openings>) -> Self {
        let (sender, receiver) = watch::channel(Some(since));
        let following = tokio::spawn(async move {
            let mut complaint = String::new();
            while let Err(error) = follow(&mut changes, &sender, open.as_ref()).await {
                let text = error.to_string();
                if text != complaint {
                    tracing::warn!(%error, "cannot watch the kill switch, retrying");
                    complaint = text;
                }
                sleep(AGAIN).await;
            }
        });
        Self {
            since: receiver,
            following,
        }
    }

    /// Returns the time since which the switch is on; `None` when it has been removed.
    pub fn since(&self) -> watch::Receiver<Option<UnixTime>> {
        self.since.clone()
    }
}

impl Drop for KillSwitch {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// Returns the time since which a kill switch is on; `None` if it is off.
///
/// # Errors
/// This process lacks the privilege to look.
pub async fn find() -> Result<Option<UnixTime>, KillSwitchError> {
    Ok(match look().await? {
        Table::On(since) => Some(since),
        Table::Off | Table::Missing => None,
    })
}

/// Marks this process's sockets if a kill switch is on, and returns the time since which it is on.
///
/// # Errors
/// This process lacks the privilege to look.
pub async fn join() -> Result<Option<UnixTime>, KillSwitchError> {
    let since = find().await?;
    if since.is_some() {
        mark_sockets();
    }
    Ok(since)
}

/// Removes the kill switch. Returns the time since which it was on; `None` if it was off.
///
/// The table is emptied first, which tells the processes that watch it that the removal is
/// intended. One of them then removes the table; if none watches, this function does.
///
/// # Errors
/// This process lacks the privilege.
pub async fn remove() -> Result<Option<UnixTime>, KillSwitchError> {
    let since = match look().await? {
        Table::On(since) => since,
        Table::Off | Table::Missing => return Ok(None),
    };
    apply(emptied()).await?;
    for _ in 0..LOOKS {
        sleep(BETWEEN_LOOKS).await;
        match look().await? {
            Table::Off => {}
            Table::Missing => return Ok(Some(since)),
            // The kill switch was turned on again meanwhile.
            Table::On(_) => return Ok(Some(since)),
        }
    }
    apply(removed()).await?;
    Ok(Some(since))
}

/// Watches the table until it is removed on purpose.
async fn follow(
    changes: &mut Changes,
    since: &watch::Sender<Option<UnixTime>>,
    open: Option<&Openings>,
) -> Result<(), KillSwitchError> {
    loop {
        match look().await? {
            Table::On(now) => drop(since.send_replace(Some(now))),
            Table::Off => {
                since.send_replace(None);
                apply(removed()).await?;
                tracing::warn!("kill switch removed on request");
                return Ok(());
            }
            Table::Missing => {
                let Some(open) = open else {
                    since.send_replace(None);
                    tracing::warn!("kill switch gone, not restored: not turned on by this daemon");
                    return Ok(());
                };
                turn_on(open).await?;
                tracing::warn!("restored the kill switch's table, which another program removed");
            }
        }
        // Limits the rate, since other tables may change all the time.
        sleep(BETWEEN_LOOKS).await;
        changes.next().await;
    }
}

/// Turns the kill switch on without watching it, or replaces the openings of one that is on.
/// Returns the time since which it is on.
///
/// # Errors
/// This process lacks the privilege, or the system lacks the feature.
pub async fn turn_on(open: &Openings) -> Result<UnixTime, KillSwitchError> {
    if let Some(name) = open.inside.iter().find(|name| !has_plain_name(name)) {
        return Err(KillSwitchError::Interface(name.clone()));
    }
    let since = find().await?.unwrap_or_else(UnixTime::now);
    let inbound = spawn_blocking(inbound::connections).await?;
    apply(script(since, open, &inbound)).await?;
    Ok(since)
}

async fn look() -> Result<Table, KillSwitchError> {
    let text = spawn_blocking(|| nft::list(NAME)).await??;
    Ok(Table::read(text.as_deref()))
}

async fn apply(script: String) -> Result<(), KillSwitchError> {
    Ok(spawn_blocking(move || nft::apply(&script)).await??)
}

/// Delay before a retry.
const AGAIN: Duration = Duration::from_secs(1);
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
