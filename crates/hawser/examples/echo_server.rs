//! Sends back whatever it gets.
use std::io;
use std::time::Duration;

use hawser::{BondListener, Endpoint};
use tokio::io::AsyncWriteExt as _;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let address = address.unwrap_or("127.0.0.1:7400".to_owned());
    let listener = Endpoint::new()?.listen(&address).await?;
    println!("{}", listener.invite(Duration::from_secs(3600))?);
    Ok(serve(listener).await?)
}

/// Accepts streams, and sends back what comes.
pub async fn serve(listener: BondListener) -> io::Result<()> {
    loop {
        let (stream, peer) = listener.accept().await?;
        println!("a stream from {peer:?}");
        tokio::spawn(async move {
            let (mut reader, mut writer) = tokio::io::split(stream);
            tokio::io::copy(&mut reader, &mut writer).await?;
            writer.shutdown().await
        });
    }
}
