//! Further connections of a session.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_session::ChannelSpec;
use hawser_session::seal::Direction;
use hawser_types::{ChannelId, LinkIndex};
use hawser_wire::{ChannelRole, Frame, FrameIterator, JoinPrelude, StateFrame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Shared;
use super::reach::reach;
use crate::bind::{self, ConnectError};
use crate::driver::{Driver, NewChannel};
use crate::{clock, links::Link};

/// Why a channel could not be added.
#[derive(Debug, thiserror::Error)]
pub(super) enum JoinError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{0}")]
    NoAddress(String),
    #[error("the gateway has not granted another channel yet")]
    NoGrant,
    #[error("the connection broke while it joined: {0}")]
    Broken(#[from] io::Error),
    #[error("an earlier connection is about to be answered")]
    Overtaken,
    #[error("the gateway does not answer the join")]
    NoAnswer,
    #[error("the gateway's answer to the join is not one")]
    Strange,
}

/// Keeps the attempts of one link out of each other's way: where a round trip takes longer than the
/// pause between attempts, the gateway would get channels, and put data on them, that the client
/// drops when their answers come.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Until when an answer to a join of this role may well come.
    expected: [AtomicU64; 2],
}

impl Turns {
    /// Whether a connection that took this long to make may join now.
    fn take(&self, role: ChannelRole, took: Duration) -> bool {
        let now = clock::now();
        let expected = &self.expected[role as usize];
        let free = expected.load(Ordering::Relaxed) <= now.as_nanos();
        if free {
            let until = now + (took * 2).max(MIN_TURN);
            expected.store(until.as_nanos(), Ordering::Relaxed);
        }
        free
    }

    /// The join came to an end.
    fn give_back(&self, role: ChannelRole) {
        self.expected[role as usize].store(0, Ordering::Relaxed);
    }
}

/// Connects over `link` to `remote`, or to the address that suits the link best; joins the session
/// and adds the channel to it. Gives where it goes.
pub(super) async fn join(
    shared: &Shared,
    driver: &Driver,
    link: &Link,
    remote: Option<SocketAddr>,
    role: ChannelRole,
    turns: &Turns,
) -> Result<(ChannelId, SocketAddr), JoinError> {
    let began = clock::now();
    let (remote, stream) = match remote {
        Some(remote) => {
            let link = (!link.loopback).then_some(link);
            let stream = bind::connect_on_link(link, remote, &shared.socket_options()).await?;
            (remote, stream)
        }
        None => reach(shared, link).await?,
    };
    if !turns.take(role, clock::now().since(began)) {
        return Err(JoinError::Overtaken);
    }
    let joined = join_as(shared, driver, link, role, stream).await;
    turns.give_back(role);
    joined.map(|id| (id, remote))
}

/// A channel's number, given up unless the channel comes to be: the gateway may have taken the
/// connection for one already, and would place chunks on it that nobody reads. An attempt also ends
/// where it waits, when its link goes or when another one was quicker.
struct Grant<'a> {
    driver: &'a Driver,
    id: ChannelId,
    kept: bool,
}

impl<'a> Grant<'a> {
    fn take(driver: &'a Driver) -> Option<Self> {
        let id = driver.take_grant()?;
        Some(Self {
            driver,
            id,
            kept: false,
        })
    }

    /// The channel was added.
    fn keep(mut self) -> ChannelId {
        self.kept = true;
        self.id
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.driver.give_up_grant(self.id);
        }
    }
}

/// Joins over a connection that stands.
async fn join_as(
    shared: &Shared,
    driver: &Driver,
    link: &Link,
    role: ChannelRole,
    stream: tokio::net::TcpStream,
) -> Result<ChannelId, JoinError> {
    let grant = Grant::take(driver).ok_or(JoinError::NoGrant)?;
    let spec = ChannelSpec {
        id: grant.id,
        role,
        link: LinkIndex::new(link.index),
        records: 1,
        segment_size: None,
    };
    let joining = introduce(shared, driver, stream, spec);
    let new = tokio::time::timeout(ANSWER_TIMEOUT, joining).await;
    let new = new.unwrap_or(Err(JoinError::NoAnswer))?;
    driver.add_channel(spec, new);
    Ok(grant.keep())
}

/// Proves that this end holds the session's keys, and waits for the gateway's proof.
async fn introduce(
    shared: &Shared,
    driver: &Driver,
    mut stream: tokio::net::TcpStream,
    spec: ChannelSpec,
) -> Result<NewChannel, JoinError> {
    let mut sealer = driver.keys().sealer(spec.id, Direction::ClientToGateway);
    let mut reader = driver.keys().reader(
        spec.id,
        Direction::GatewayToClient,
        shared.config.session.plain,
    );
    let prelude = JoinPrelude {
        session: driver.id(),
        channel: spec.id,
    };
    let mut frame = BytesMut::new();
    StateFrame::Join {
        role: spec.role,
        link: spec.link.value(),
    }
    .encode(&mut frame);
    let mut out = BytesMut::from(&prelude.encode()[..]);
    sealer.seal(clock::now(), &frame, &Default::default(), &mut out);
    stream.write_all(&out).await?;
    loop {
        match reader.next_record() {
            Ok(Some(record)) if is_join(&record, spec.role) => break,
            Ok(Some(_)) | Err(_) => return Err(JoinError::Strange),
            Ok(None) => {}
        }
        if stream.read_buf(reader.buffer()).await? == 0 {
            return Err(JoinError::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(NewChannel {
        stream,
        reader,
        sealer,
    })
}

fn is_join(record: &Bytes, expected: ChannelRole) -> bool {
    let mut frames = FrameIterator::new(record.clone());
    matches!(
        frames.next(),
        Some(Ok(Frame::State(StateFrame::Join { role, .. }))) if role == expected
    )
}

/// What the gateway may need besides a round trip.
const MIN_TURN: Duration = Duration::from_millis(100);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_connections_the_later_one_stands_back_until_the_first_has_ended() {
        let turns = Turns::default();
        let long = Duration::from_secs(60);
        assert!(turns.take(ChannelRole::Bulk, long));
        assert!(!turns.take(ChannelRole::Bulk, long));
        assert!(turns.take(ChannelRole::Express, long));
        turns.give_back(ChannelRole::Bulk);
        assert!(turns.take(ChannelRole::Bulk, long));
    }
}
