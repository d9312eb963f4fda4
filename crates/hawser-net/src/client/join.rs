//! Further connections of a session.

use std::io;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use hawser_channels::keeper::{JOIN_TIMEOUT, JoinTurns};
use hawser_session::seal::Direction;
use hawser_session::{ChannelSpec, Side};
use hawser_types::ChannelId;
use hawser_wire::{ChannelRole, Frame, FrameIterator, JoinPrelude, StateFrame};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::join_error::JoinError;
use super::reach::reach;
use super::shared::ClientState;
use crate::clock;
use crate::driver::{Driver, NewChannel};
use hawser_link::bind::SocketOptions;
use hawser_link::links::Link;

/// Connects over `link` to `remote`, or else to the address that suits the link best; joins the
/// session and adds the channel. Returns the channel and its remote address. `options`: of the
/// connection's socket.
pub(super) async fn join(
    shared: &ClientState,
    driver: &Driver,
    (link, options): (&Link, &SocketOptions),
    remote: Option<SocketAddr>,
    role: ChannelRole,
    turns: &Mutex<JoinTurns>,
) -> Result<(ChannelId, SocketAddr), JoinError> {
    let began = clock::now();
    let (remote, stream) = match remote {
        Some(remote) => {
            let stream = shared.connect(link, remote, options).await?;
            (remote, stream)
        }
        None => reach(shared, driver.id(), link, options).await?,
    };
    let now = clock::now();
    if !turns.lock().take(now, role, now.since(began)) {
        return Err(JoinError::Overtaken);
    }
    let path = (link, Side::Client);
    let joined = join_as(shared, driver, path, role, stream).await;
    turns.lock().give_back(role);
    joined.map(|id| (id, remote))
}

/// A granted channel number, given up on drop unless the channel was added: the gateway may have
/// taken the connection for a channel already, and would place chunks on it that are never read. A
/// waiting attempt is dropped when its link goes or another attempt was quicker.
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

    /// Keeps the number: the channel was added.
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

/// Joins over an existing connection on `link`, which the side `begun_by` began.
pub(super) async fn join_as(
    shared: &ClientState,
    driver: &Driver,
    (link, begun_by): (&Link, Side),
    role: ChannelRole,
    stream: tokio::net::TcpStream,
) -> Result<ChannelId, JoinError> {
    let grant = Grant::take(driver).ok_or(JoinError::NoGrant)?;
    let spec = ChannelSpec {
        id: grant.id,
        role,
        link: link.index,
        begun_by,
        records: 1,
        segment_size: None,
    };
    let joining = introduce(shared, driver, stream, spec);
    let new = tokio::time::timeout(JOIN_TIMEOUT, joining).await;
    let new = new.unwrap_or(Err(JoinError::NoAnswer))?;
    driver.add_channel(spec, new);
    Ok(grant.keep())
}

/// Proves that this end holds the session's keys, and waits for the gateway's proof.
async fn introduce(
    shared: &ClientState,
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
