use std::io;
use std::net::Ipv4Addr;

use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;

/// Another program has the port on the link at first; its release is not announced.
#[tokio::test]
async fn a_port_that_could_not_be_had_on_a_link_is_tried_again() {
    let other = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = other.local_addr().unwrap();
    let lo = Link::loopback(address.ip());
    assert!(bind::listen_on_link(address, lo.index).is_err());
    let (_sender, links) = watch::channel(Arc::new(vec![lo]));
    let (served, mut arriving) = mpsc::channel(1);
    let serve = move |listener: TcpListener| {
        let served = served.clone();
        async move {
            let (stream, _) = listener.accept().await.unwrap();
            served.send(stream).await.unwrap();
        }
    };
    tokio::spawn(follow(vec![address], links, <[Link]>::to_vec, serve));
    // The port has been tried by now: this runtime has one thread.
    tokio::task::yield_now().await;
    drop(other);
    let come = async {
        // No socket listens at first.
        while connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        arriving.recv().await
    };
    let stream = timeout(LONG, come).await.expect("it is tried again");
    assert_eq!(stream.unwrap().local_addr().unwrap(), address);
}

/// Connects from another address, so that the connection never reaches itself.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into())?;
    socket.connect(address).await
}

/// Far longer than the first pause.
const LONG: Duration = Duration::from_secs(60);
