//! Sends back whatever it gets: the version for plain TCP.
use std::io;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let address = address.unwrap_or("127.0.0.1:7400".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("{}", listener.local_addr()?);
    Ok(serve(listener).await?)
}

/// Accepts streams, and sends back what comes.
pub async fn serve(listener: TcpListener) -> io::Result<()> {
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
