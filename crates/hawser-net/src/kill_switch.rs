//! The kill switch: rules of the kernel by which nothing leaves this machine past Hawser.
//!
//! It is one table of nftables for both families, and belongs to no process: it holds before Hawser
//! uses a link, after Hawser has ended or was killed, and until it is removed by [`remove`].

mod changes;
mod inbound;
mod rules;

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::sleep;

use crate::bind::mark_sockets;
use crate::lan::has_plain_name;
use crate::nft::{self, NftError};
use crate::unix_time::UnixTime;
use changes::Changes;
use rules::{NAME, Table, emptied, removed, script};

pub use rules::Openings;

/// A kill switch that this process looks after. It stays on when this is dropped.
#[derive(Debug)]
pub struct KillSwitch {
    since: watch::Receiver<Option<UnixTime>>,
    following: JoinHandle<()>,
}

/// Why there is no kill switch, or why it is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KillSwitchError {
    /// `nft` is missing, or refuses, for which the usual reason is a missing right.
    #[error(transparent)]
    Nft(#[from] NftError),
    /// Its table can't be watched.
    #[error("cannot follow the changes of nftables: {0}")]
    Follow(std::io::Error),
    /// An interface that cannot be written into rules.
    #[error("no rule can name the interface {0:?}: letters, digits and -_.@+ are allowed")]
    Interface(String),
    /// The work was given up.
    #[error("the work was given up: {0}")]
    GivenUp(#[from] JoinError),
}

impl KillSwitch {
    /// Turns it on, with these openings; one that is on already goes on, with them in place of its
    /// own. From then on this process's sockets are marked, and if something else than [`remove`]
    /// removes the table, it is made again.
    ///
    /// # Errors
    /// That this process may not, or that the system can't.
    pub async fn turn_on(open: Openings) -> Result<Self, KillSwitchError> {
        // First, so that no change is missed.
        let changes = Changes::follow().map_err(KillSwitchError::Follow)?;
        let since = turn_on(&open).await?;
        mark_sockets();
        Ok(Self::start(changes, since, Some(open)))
    }

    /// Finds one that is on, and marks this process's sockets from then on, so that they pass it.
    ///
    /// # Errors
    /// That this process may not look.
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
                    tracing::warn!(%error, "the kill switch can't be looked after now");
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

    /// Since when it is on; `None` when it has been removed.
    pub fn since(&self) -> watch::Receiver<Option<UnixTime>> {
        self.since.clone()
    }
}

impl Drop for KillSwitch {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// Since when a kill switch is on; `None`: there is none.
///
/// # Errors
/// That this process may not look.
pub async fn find() -> Result<Option<UnixTime>, KillSwitchError> {
    Ok(match look().await? {
        Table::On(since) => Some(since),
        Table::Off | Table::Missing => None,
    })
}

/// Marks this process's sockets if a kill switch is on, and says since when that is.
///
/// # Errors
/// That this process may not look.
pub async fn join() -> Result<Option<UnixTime>, KillSwitchError> {
    let since = find().await?;
    if since.is_some() {
        mark_sockets();
    }
    Ok(since)
}

/// Removes the kill switch. Returns since when it was on; `None`: there was none.
///
/// The table is emptied first, which tells those who look after it that this is meant. One of them
/// removes it then; where there is none, this does.
///
/// # Errors
/// That this process may not.
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
            // Turned on again meanwhile.
            Table::On(_) => return Ok(Some(since)),
        }
    }
    apply(removed()).await?;
    Ok(Some(since))
}

/// Looks after the table until it is removed on purpose.
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
                tracing::warn!("the kill switch was removed by name");
                return Ok(());
            }
            Table::Missing => {
                let Some(open) = open else {
                    since.send_replace(None);
                    tracing::warn!("the kill switch is gone, and this daemon has not turned it on");
                    return Ok(());
                };
                turn_on(open).await?;
                tracing::warn!("something removed the kill switch's table; it is there again");
            }
        }
        // Other tables may change all the time.
        sleep(BETWEEN_LOOKS).await;
        changes.next().await;
    }
}

/// Turns it on and leaves it alone, with these openings, or changes those of one that is on.
/// Returns since when it is on.
///
/// # Errors
/// That this process may not, or that the system can't.
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

/// Before something that has failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
