//! Says hello and prints the answer: the version for plain TCP.
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::args().nth(1).ok_or("give the server's address")?;
    println!("{}", talk(&server).await?);
    Ok(())
}

/// Says hello; gives the answer.
pub async fn talk(server: &str) -> Result<String, Box<dyn std::error::Error>> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(b"hello").await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
