//! Says hello and prints the answer.
use hawser::{Endpoint, Invite};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::args().nth(1).ok_or("give the server's invite")?;
    println!("{}", talk(&server).await?);
    Ok(())
}

/// Says hello; gives the answer.
pub async fn talk(server: &str) -> Result<String, Box<dyn std::error::Error>> {
    let invite: Invite = server.parse()?;
    let connection = Endpoint::new()?.connect(&invite).await?;
    let mut stream = connection.open().await?;
    stream.write_all(b"hello").await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
