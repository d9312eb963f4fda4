//! Reads a stream in the order in which its bytes come, each piece with its offset: what one link
//! brings does not wait for another.
use std::time::Duration;

use hawser::{BondListener, Endpoint};
use tokio::io::AsyncWriteExt as _;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data: Vec<u8> = (0..5_000_000_u32).map(|n| (n >> 4) as u8).collect();
    let got = run(data.clone()).await?;
    println!("{} bytes, the same: {}", got.len(), got == data);
    Ok(())
}

/// Sends `data` between two endpoints of this program; gives what came.
pub async fn run(data: Vec<u8>) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let listener = Endpoint::new()?.listen("127.0.0.1:0").await?;
    let invite = listener.invite(Duration::from_secs(60))?;
    let connection = Endpoint::new()?.connect(&invite).await?;
    let sending = async {
        let mut stream = connection.open().await?;
        stream.write_all(&data).await?;
        stream.shutdown().await?;
        Ok::<_, Box<dyn std::error::Error>>(stream)
    };
    let (sent, received) = tokio::join!(sending, receive(&listener));
    drop(sent?);
    received
}

/// Puts the pieces of the first stream where they belong, as a file's would be.
async fn receive(listener: &BondListener) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let (mut stream, _peer) = listener.accept().await?;
    let mut file = Vec::new();
    while let Some(chunk) = stream.read_chunk_unordered(64 * 1024).await? {
        let start = usize::try_from(chunk.offset)?;
        let end = start + chunk.bytes.len();
        file.resize(file.len().max(end), 0);
        file[start..end].copy_from_slice(&chunk.bytes);
    }
    Ok(file)
}
