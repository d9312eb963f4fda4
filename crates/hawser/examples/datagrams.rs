//! Datagrams beside a stream: each goes once, over any link, and may be lost.
use std::time::Duration;

use bytes::Bytes;
use hawser::{BondListener, Endpoint};
use tokio::io::AsyncWriteExt as _;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:?}", run().await?);
    Ok(())
}

/// Connects two endpoints of this program; gives the answer to a datagram.
pub async fn run() -> Result<Bytes, Box<dyn std::error::Error>> {
    let listener = Endpoint::new()?.listen("127.0.0.1:0").await?;
    let invite = listener.invite(Duration::from_secs(60))?;
    let server = tokio::spawn(serve(listener));

    let connection = Endpoint::new()?.connect(&invite).await?;
    let mut stream = connection.open().await?;
    // Datagrams belong to a stream, and the peer must know it first.
    stream.write_all(b"hello").await?;
    stream.accepted().await?;
    let answer = loop {
        stream.send_datagram(Bytes::from_static(b"ping"))?;
        // It may be lost: the program asks again.
        let patience = Duration::from_millis(500);
        if let Ok(answer) = tokio::time::timeout(patience, stream.read_datagram()).await {
            break answer?;
        }
    };
    server.abort();
    Ok(answer)
}

/// Sends back what comes beside the first stream.
async fn serve(listener: BondListener) -> std::io::Result<()> {
    let (mut stream, _peer) = listener.accept().await?;
    loop {
        let datagram = stream.read_datagram().await?;
        stream.send_datagram([&b"heard: "[..], &datagram].concat().into())?;
    }
}
