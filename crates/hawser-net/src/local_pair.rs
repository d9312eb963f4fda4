//! Two ends of a connection within this program.

use std::io;
use std::net::Ipv4Addr;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connects this program with itself by TCP, which channels and their measurements are made for.
/// The kernel holds little data in between, so that a writer notices how fast the data leaves.
///
/// # Errors
/// When the system has no socket left, or its loopback interface is down.
pub async fn local_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listening = small()?;
    listening.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let listener: TcpListener = listening.listen(1)?;
    let near = small()?;
    near.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let own = near.local_addr()?;
    // Any program of this machine may connect first, and must not fill the queue.
    let accepting = async {
        loop {
            let (far, from) = listener.accept().await?;
            if from == own {
                return Ok(far);
            }
        }
    };
    let (near, far) = tokio::try_join!(near.connect(listener.local_addr()?), accepting)?;
    far.set_nodelay(true)?;
    near.set_nodelay(true)?;
    Ok((near, far))
}

fn small() -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_send_buffer_size(BUFFER)?;
    socket.set_recv_buffer_size(BUFFER)?;
    Ok(socket)
}

/// Size of two of the largest records. The kernel doubles it for its own needs.
const BUFFER: u32 = 128 * 1024;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn bytes_written_at_one_end_are_read_at_the_other() {
        let (mut near, mut far) = local_pair().await.unwrap();
        near.write_all(b"there").await.unwrap();
        far.write_all(b"back").await.unwrap();
        let (mut there, mut back) = ([0; 5], [0; 4]);
        far.read_exact(&mut there).await.unwrap();
        near.read_exact(&mut back).await.unwrap();
        assert_eq!((&there, &back), (b"there", b"back"));
    }
}
