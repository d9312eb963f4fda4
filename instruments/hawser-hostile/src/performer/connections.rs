//! The steps that open connections.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Performer, RETRY};
use crate::client::Client;
use crate::error::HostileError;
use crate::samples;
use crate::step::Step;

impl Performer<'_> {
    /// The steps that make connections.
    pub(super) async fn connect(&mut self, step: &Step) -> Result<(), HostileError> {
        let no_client = || HostileError::Strange("a gateway makes no connections".to_owned());
        let client = self.client.ok_or_else(no_client)?;
        match step {
            Step::Join(count) => self.join(client, *count).await?,
            Step::JoinRefused => self.join_in_vain(client).await?,
            Step::Churn(count) => {
                for _ in 0..*count {
                    self.join(client, 1).await?;
                    self.session.leave();
                    if self.is_late() {
                        break;
                    }
                }
            }
            Step::JoinTwice => self.join_twice(client).await?,
            Step::Hijack(count) => self.hijack(client, *count).await?,
            Step::Associated => self.associate(client).await?,
            Step::Ghosts(count) => self.haunt(client, *count).await?,
            Step::Return(within) => {
                let until = Instant::now() + *within;
                while let Err(error) = client.begin_greeted().await {
                    if Instant::now() > until {
                        let what = format!("a proven key gets a session ({error})");
                        return Err(HostileError::Never(what));
                    }
                    tokio::time::sleep(RETRY).await;
                }
            }
            Step::Idle(count) => {
                self.idle.clear();
                for number in 0..*count {
                    self.idle.push(client.connect_silently(number).await?);
                }
            }
            Step::Begin(count, word) => {
                self.idle.clear();
                for number in 0..*count {
                    let mut connection = client.connect_silently(number).await?;
                    let says = samples::first_word(*word, number);
                    // The gateway may have closed it before it has heard all.
                    let _ = connection.write_all(&says).await;
                    self.idle.push(connection);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Begins sessions and lets all of them fall silent at once.
    async fn haunt(&mut self, client: &Client, count: u64) -> Result<(), HostileError> {
        let mut ghosts = Vec::new();
        for _ in 0..count {
            ghosts.push(client.begin_greeted().await?);
        }
        // What is not acknowledged by then the kernel would send again and again, which is a sign
        // of life.
        tokio::time::sleep(RETRY).await;
        for ghost in &ghosts {
            ghost.vanish(true).await?;
        }
        self.ghosts.append(&mut ghosts);
        Ok(())
    }

    async fn join(&mut self, client: &Client, count: u64) -> Result<(), HostileError> {
        for _ in 0..count {
            let id = self.session.take_grant().await?;
            let connection = client.join(self.session.shared(), id).await?;
            self.session.add(connection);
        }
        Ok(())
    }

    async fn join_in_vain(&mut self, client: &Client) -> Result<(), HostileError> {
        let id = self.session.take_grant().await?;
        match client.join(self.session.shared(), id).await {
            Err(HostileError::Refused) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(HostileError::Strange("a join too many is taken".to_owned())),
        }
    }

    async fn join_twice(&mut self, client: &Client) -> Result<(), HostileError> {
        let id = self.session.take_grant().await?;
        let connection = client.join(self.session.shared(), id).await?;
        self.session.add(connection);
        // The gateway answers before it marks the number as used. So both may have an answer, and
        // one of them is closed after it.
        let Ok(mut second) = client.join(self.session.shared(), id).await else {
            return Ok(());
        };
        let mut rest = Vec::new();
        let end = second.stream.read_to_end(&mut rest);
        let first_is_lost = async {
            while !self.session.has_lost_current() {
                tokio::time::sleep(RETRY).await;
            }
        };
        tokio::select! {
            _ = end => Ok(()),
            () = first_is_lost => Ok(()),
            () = tokio::time::sleep(CLOSED_WITHIN) => Err(HostileError::Strange(TWICE.into())),
        }
    }

    /// Another client tries to join this session.
    async fn hijack(&mut self, client: &Client, count: u64) -> Result<(), HostileError> {
        let thief = client.another()?;
        let own = thief.begin_greeted().await?;
        for _ in 0..count {
            let id = self.session.take_grant().await?;
            let named = self.session.shared().keys.session_id();
            match thief.join_named(named, own.shared(), id).await {
                Err(HostileError::Refused) => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    let what = "a client of another key joins a session".to_owned();
                    return Err(HostileError::Strange(what));
                }
            }
        }
        Ok(())
    }
}

const TWICE: &str = "a number was taken twice";
/// Time in which the gateway closes the connection that came second.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);
