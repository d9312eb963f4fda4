//! The gateway's side of a join: the client's proof, and the answer.

use std::io;

use bytes::BytesMut;
use hawser_session::seal::{Direction, RecordReader};
use hawser_session::{ChannelSpec, Side};
use hawser_types::{ChannelId, LinkIndex};
use hawser_wire::{
    ChannelRole, Frame, FrameIterator, JOIN_PRELUDE_LENGTH, JoinPrelude, StateFrame,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::shared::GatewayState;
use crate::clock;
use crate::driver::{Driver, NewChannel};

/// Adds a connection that this gateway has begun to a session, once the client joins with it.
pub(super) async fn join_offered(
    shared: &GatewayState,
    driver: &Driver,
    mut stream: TcpStream,
) -> Result<ChannelId, String> {
    let prelude = read_prelude(&mut stream).await?;
    if prelude.session != driver.id() {
        return Err("the join is for another session".to_owned());
    }
    let id = prelude.channel;
    driver.check_join(id).map_err(|error| error.to_string())?;
    answer_join(shared, driver, (id, Side::Gateway), stream).await?;
    shared.count(|counters| counters.joins += 1);
    Ok(id)
}

/// Reads the prelude of a joining connection.
pub(super) async fn read_prelude(stream: &mut TcpStream) -> Result<JoinPrelude, String> {
    let mut prelude = [0; JOIN_PRELUDE_LENGTH];
    let read = stream.read_exact(&mut prelude).await;
    read.map_err(|error| error.to_string())?;
    let prelude = JoinPrelude::decode(&prelude).ok_or("unknown version of the prelude")?;
    Ok(prelude)
}

/// Waits for the proof that a connection belongs to the session, sends this side's proof, and adds
/// the channel with this number, begun by the side `begun_by`.
pub(super) async fn answer_join(
    shared: &GatewayState,
    driver: &Driver,
    (id, begun_by): (ChannelId, Side),
    mut stream: TcpStream,
) -> Result<(), String> {
    let plain = shared.config.session.plain;
    let mut reader = driver.keys().reader(id, Direction::ClientToGateway, plain);
    let (role, link) = read_join(&mut stream, &mut reader).await?;
    let mut sealer = driver.keys().sealer(id, Direction::GatewayToClient);
    let mut frame = BytesMut::new();
    StateFrame::Join { role, link }.encode(&mut frame);
    let mut out = BytesMut::new();
    sealer.seal(clock::now(), &frame, &Default::default(), &mut out);
    stream
        .write_all(&out)
        .await
        .map_err(|error| error.to_string())?;
    let link = LinkIndex::new(link);
    let spec = ChannelSpec {
        id,
        role,
        link,
        begun_by,
        records: 1,
        segment_size: None,
    };
    let new = NewChannel {
        stream,
        reader,
        sealer,
    };
    driver.admit_channel(spec, new)
}

/// Waits for the first record of a joining connection, which proves that it belongs to the session.
async fn read_join(
    stream: &mut TcpStream,
    reader: &mut RecordReader,
) -> Result<(ChannelRole, u32), String> {
    let record = loop {
        if let Some(record) = reader.next_record().map_err(|error| error.to_string())? {
            break record;
        }
        let read = stream
            .read_buf(reader.buffer())
            .await
            .map_err(|error| error.to_string())?;
        if read == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).to_string());
        }
    };
    match FrameIterator::new(record).next() {
        Some(Ok(Frame::State(StateFrame::Join { role, link }))) => Ok((role, link)),
        _ => Err("the first record is no join".to_owned()),
    }
}
