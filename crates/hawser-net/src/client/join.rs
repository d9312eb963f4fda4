//! Further connections of a session.

use std::io;
use std::net::SocketAddr;
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
    #[error("the gateway does not answer the join")]
    NoAnswer,
    #[error("the gateway's answer to the join is not one")]
    Strange,
}

/// Connects over `link` to `remote`, or to the address that suits the link best; joins the session
/// and adds the channel to it. Gives where it goes.
pub(super) async fn join(
    shared: &Shared,
    driver: &Driver,
    link: &Link,
    remote: Option<SocketAddr>,
    role: ChannelRole,
) -> Result<(ChannelId, SocketAddr), JoinError> {
    let (remote, stream) = match remote {
        Some(remote) => {
            let link = (!link.loopback).then_some(link);
            let stream = bind::connect_on_link(link, remote, &shared.socket_options()).await?;
            (remote, stream)
        }
        None => reach(shared, link).await?,
    };
    let id = driver.take_grant().ok_or(JoinError::NoGrant)?;
    let spec = ChannelSpec {
        id,
        role,
        link: LinkIndex::new(link.index),
        records: 1,
        segment_size: None,
        weight: shared.weight(link),
    };
    let joining = introduce(shared, driver, stream, spec);
    let new = tokio::time::timeout(ANSWER_TIMEOUT, joining).await;
    match new.unwrap_or(Err(JoinError::NoAnswer)) {
        Ok(new) => {
            driver.add_channel(spec, new);
            Ok((id, remote))
        }
        Err(error) => {
            driver.give_up_grant(id);
            Err(error)
        }
    }
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

const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
