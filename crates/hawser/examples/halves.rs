//! The halves of a stream have owners of their own, and each can end early, with a code.
use std::time::Duration;

use bytes::Bytes;
use hawser::{BondListener, Endpoint, ReadError, RecvStream, SendStream, WriteError};
use tokio::io::AsyncReadExt as _;

/// The server has read enough.
const ENOUGH: u32 = 3;
/// The server has no answer.
const NO_ANSWER: u32 = 4;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (stopped, reset) = run().await?;
    println!("the writer was stopped with code {stopped}, the reader was reset with code {reset}");
    Ok(())
}

/// Connects two endpoints of this program; gives the codes that the client heard.
pub async fn run() -> Result<(u32, u32), Box<dyn std::error::Error>> {
    let listener = Endpoint::new()?.listen("127.0.0.1:0").await?;
    let invite = listener.invite(Duration::from_secs(60))?;
    let server = tokio::spawn(async move { serve(listener).await.map_err(|e| e.to_string()) });

    let connection = Endpoint::new()?.connect(&invite).await?;
    let (receive, send) = connection.open().await?.into_split();
    let writing = tokio::spawn(write_until_stopped(send));
    let reset = read_until_reset(receive).await?;
    let stopped = writing.await??;
    connection.close(0, "");
    server.await??;
    Ok((stopped, reset))
}

/// Writes until the peer has read enough; gives its code.
async fn write_until_stopped(mut send: SendStream) -> Result<u32, WriteError> {
    let block = Bytes::from(vec![7; 64 * 1024]);
    loop {
        match send.write_bytes(&mut block.clone()).await {
            Ok(_) => {}
            Err(WriteError::Stopped { code }) => return Ok(code),
            Err(error) => return Err(error),
        }
    }
}

/// Reads until the peer gives up its direction; gives its code, or 0 for an orderly end.
async fn read_until_reset(mut receive: RecvStream) -> Result<u32, ReadError> {
    loop {
        match receive.read_chunk(64 * 1024).await {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(0),
            Err(ReadError::Reset { code }) => return Ok(code),
            Err(error) => return Err(error),
        }
    }
}

/// Reads a little of a stream, stops the client, and gives up its own direction.
async fn serve(listener: BondListener) -> Result<(), Box<dyn std::error::Error>> {
    let connection = listener.accept_connection().await?;
    let (mut receive, mut send) = connection.accept().await?.into_split();
    let mut little = vec![0; 100_000];
    receive.read_exact(&mut little).await?;
    receive.stop(ENOUGH);
    send.reset(NO_ANSWER);
    connection.closed().await;
    Ok(())
}
