//! Prints what a connection measures while it carries a transfer.
use std::time::Duration;

use hawser::{ConnectionStats, Endpoint};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    show(&run().await?);
    Ok(())
}

/// Sends 2 MB between two endpoints of this program; gives the sender's statistics.
pub async fn run() -> Result<ConnectionStats, Box<dyn std::error::Error>> {
    let listener = Endpoint::new()?.listen("127.0.0.1:0").await?;
    let invite = listener.invite(Duration::from_secs(60))?;
    let connection = Endpoint::new()?.connect(&invite).await?;
    let mut stream = connection.open_with("a transfer".into()).await?;
    let writing = async {
        stream.write_all(&vec![1; 2_000_000]).await?;
        stream.shutdown().await?;
        stream.acknowledged().await
    };
    let reading = async {
        let (mut there, _peer) = listener.accept().await?;
        there.read_to_end(&mut Vec::new()).await?;
        Ok::<_, std::io::Error>(there)
    };
    let (written, read) = tokio::join!(writing, reading);
    written?;
    let stats = connection.stats();
    drop(read?);
    Ok(stats)
}

fn show(stats: &ConnectionStats) {
    for path in &stats.paths {
        let name = path.name.as_deref().unwrap_or("?");
        println!("{name}: {:?}, {}, {} sent", path.rtt, path.rate, path.sent);
    }
    for stream in &stats.streams {
        println!("{} {:?}: {} sent", stream.id, stream.opening, stream.sent);
    }
    println!("{} channels", stats.channels.len());
}
