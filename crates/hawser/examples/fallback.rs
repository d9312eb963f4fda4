//! Bonded where the peer knows Hawser, plain TCP where it does not.
use hawser::{EitherStream, Endpoint};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A service that knows TCP alone, and nothing at its bonded address.
    let service = TcpListener::bind("127.0.0.1:0").await?;
    let plain = service.local_addr()?;
    tokio::spawn(greet(service));
    let (text, is_bonded) = run("127.0.0.1:9", &plain.to_string()).await?;
    println!("{text:?}, bonded: {is_bonded}");
    Ok(())
}

/// Reads what a service says that is at `bonded` if it knows Hawser, and at `plain` if not.
pub async fn run(bonded: &str, plain: &str) -> Result<(String, bool), Box<dyn std::error::Error>> {
    let endpoint = Endpoint::new()?;
    let mut stream: EitherStream = endpoint.connect_or_tcp(bonded, None, plain).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok((text, stream.is_bonded()))
}

/// Says hello to every client.
pub async fn greet(service: TcpListener) -> std::io::Result<()> {
    loop {
        let (mut stream, _) = service.accept().await?;
        stream.write_all(b"hello over tcp").await?;
        stream.shutdown().await?;
    }
}
