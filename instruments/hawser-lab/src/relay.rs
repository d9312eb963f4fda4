//! A plain TCP relay: the minimum cost of any program between two sockets.

use std::io;
use std::net::SocketAddrV4;

use tokio::net::{TcpListener, TcpStream};

/// Takes connections on `listen` and carries each one's bytes to and from `target`.
pub(crate) fn serve(listen: SocketAddrV4, target: SocketAddrV4) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        loop {
            let (near, _) = listener.accept().await?;
            tokio::spawn(async move {
                if let Err(error) = carry(near, target).await {
                    eprintln!("relay: {error}");
                }
            });
        }
    })
}

async fn carry(mut near: TcpStream, target: SocketAddrV4) -> io::Result<()> {
    let mut far = TcpStream::connect(target).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}
