//! Both ends of a connection: streams are opened by either side, and a close tells its reason.
use std::time::Duration;

use bytes::Bytes;
use hawser::{BondListener, Connection, ConnectionError, Endpoint};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", run().await?);
    Ok(())
}

/// Connects two endpoints of this program; gives what the client heard last.
pub async fn run() -> Result<ConnectionError, Box<dyn std::error::Error>> {
    let listener = Endpoint::new()?.listen("127.0.0.1:0").await?;
    let invite = listener.invite(Duration::from_secs(60))?;
    let server = tokio::spawn(async move { serve(listener).await.map_err(|e| e.to_string()) });

    let connection = Endpoint::new()?.connect(&invite).await?;
    let mut question = connection
        .open_with(Bytes::from_static(b"question"))
        .await?;
    question.write_all(b"who are you?").await?;
    question.shutdown().await?;
    // The answer comes on a stream that the server opens.
    let mut answer = connection.accept().await?;
    let mut text = String::new();
    answer.read_to_string(&mut text).await?;
    println!("{text}");
    question.read_to_end(&mut Vec::new()).await?;
    drop((question, answer));
    let reason = connection.closed().await;
    server.await??;
    Ok(reason)
}

/// Takes one peer, answers its question on a stream of this side, and closes.
async fn serve(listener: BondListener) -> Result<(), Box<dyn std::error::Error>> {
    let connection: Connection = listener.accept_connection().await?;
    let mut question = connection.accept().await?;
    println!("a stream for a {:?}", question.opening());
    let mut text = String::new();
    question.read_to_string(&mut text).await?;
    let mut answer = connection.open().await?;
    answer
        .write_all(format!("{text} the key {}", listener.public_key()).as_bytes())
        .await?;
    answer.shutdown().await?;
    question.shutdown().await?;
    answer.acknowledged().await?;
    connection.close(7, "that was all");
    connection.closed().await;
    Ok(())
}
