//! The kernel's facts about a TCP connection: `getsockopt(TCP_INFO)`, with units in the types.

mod info;
mod layout;

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::sys;
pub use info::{TcpInfo, TcpState, TotalRto};
use layout::Raw;

/// Asks the kernel about the TCP connection `socket`.
pub fn read(socket: &impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = Raw::new();
    let descriptor = socket.as_fd().as_raw_fd();
    let length = sys::read_option(descriptor, libc::IPPROTO_TCP, libc::TCP_INFO, raw.buffer())?;
    Ok(raw.truncated(length).interpret())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use hawser_types::{ByteCount, Rate};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, server) = tokio::join!(client, listener.accept());
        (client.unwrap(), server.unwrap().0)
    }

    #[tokio::test]
    async fn a_transfer_over_loopback_shows_in_the_counters() {
        let started = Instant::now();
        let (mut client, mut server) = connected().await;
        let data = vec![7; 1 << 20];
        let send = async {
            client.write_all(&data).await.unwrap();
            // An answer means that everything was received, hence acknowledged up to the answer.
            client.read_u8().await.unwrap();
        };
        let receive = async {
            let mut got = vec![0; data.len()];
            server.read_exact(&mut got).await.unwrap();
            server.write_u8(1).await.unwrap();
        };
        tokio::join!(send, receive);
        let (sent, received) = (read(&client).unwrap(), read(&server).unwrap());
        // Some of the kernel's clocks advance only with its timer ticks.
        let elapsed = started.elapsed() + Duration::from_millis(20);
        assert_eq!(sent.state, TcpState::Established);
        // The kernel counts the SYN with the acknowledged bytes.
        let acked = sent.bytes_acked.as_u64();
        assert!(((1 << 20)..=(1 << 20) + 1).contains(&acked), "{acked}");
        assert!(sent.bytes_sent >= ByteCount::from_mib(1));
        assert_eq!(received.bytes_received, ByteCount::from_mib(1));
        assert_eq!(
            (sent.unacked, sent.in_flight(), sent.not_sent),
            (0, 0, ByteCount::ZERO)
        );
        let (srtt, min_rtt) = (sent.srtt.unwrap(), sent.min_rtt.unwrap());
        assert!(
            min_rtt <= elapsed && srtt <= elapsed,
            "{min_rtt:?} {srtt:?} {elapsed:?}"
        );
        assert!(sent.rto >= Duration::from_millis(1) && sent.rto <= Duration::from_secs(10));
        assert!(sent.busy <= elapsed, "{:?}", sent.busy);
        assert!(sent.cwnd > 0 && sent.delivered > 0 && sent.delivery_rate > Rate::ZERO);
        assert!(sent.mss > ByteCount::new(500) && sent.snd_wnd > ByteCount::ZERO);
        assert!(sent.last_ack_recv <= elapsed, "{:?}", sent.last_ack_recv);
    }

    #[tokio::test]
    async fn data_that_the_peer_does_not_take_is_waiting() {
        let (client, _server) = connected().await;
        let chunk = vec![0; 1 << 16];
        while client.try_write(&chunk).is_ok() {}
        let info = read(&client).unwrap();
        assert!(info.not_sent > ByteCount::ZERO, "{info:?}");
    }

    #[tokio::test]
    async fn a_socket_that_is_not_tcp_is_an_error() {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        assert!(read(&socket).is_err());
    }
}
