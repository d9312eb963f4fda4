//! One of the clients.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hawser_front::destination::Destination;
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::Identity;
use hawser_link::links::Link;
use hawser_net::client::{Client as Session, ClientConfig};
use hawser_net::stream::BondStream;
use hawser_session::TransportChoice;
use hawser_types::Host;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

use super::super::header::Header;
use super::order::ManyClients;
use crate::scenario::Direction;

/// A client with its own address on each link.
#[derive(Debug)]
pub(super) struct Client {
    session: Session,
    /// Kept, since the session follows it.
    _links: watch::Sender<Arc<Vec<Link>>>,
    /// What streams say that are to go to the meter.
    target: Bytes,
    /// The gateway and the address on the first link, for connections outside the session.
    pub(super) gateway: SocketAddrV4,
    pub(super) own: Ipv4Addr,
}

impl Client {
    /// Starts connecting.
    pub(super) fn start(order: &ManyClients, number: u32, links: &[Link]) -> anyhow::Result<Self> {
        let own = (1..).zip(links).map(|(k, link)| Link {
            addresses: vec![IpAddr::V4(address(k, number))],
            ..link.clone()
        });
        let (sender, links) = watch::channel(Arc::new(own.collect()));
        let gateway = Host::Ip((*order.gateway.ip()).into());
        let config = ClientConfig {
            links: order.links.clone(),
            transport: TransportChoice::Tcp,
            ..ClientConfig::new(
                identity(number),
                order.key,
                vec![HostPort::new(gateway, order.gateway.port())?],
            )
        };
        let mut target = Vec::new();
        let host = Host::Ip((*order.target.ip()).into());
        Destination::new(host, order.target.port()).encode(&mut target);
        Ok(Self {
            session: Session::start(config, links),
            _links: sender,
            target: target.into(),
            gateway: order.gateway,
            own: address(1, number),
        })
    }

    /// Opens a stream to the meter and asks it for `bytes`.
    pub(super) async fn fetch(&self, bytes: u64) -> io::Result<BondStream> {
        let mut stream = self.open().await?;
        let header = Header::transfer(Direction::Get, bytes);
        stream.write_all(&header.bytes()).await?;
        Ok(stream)
    }

    /// Opens a stream to the meter.
    pub(super) async fn open(&self) -> io::Result<BondStream> {
        self.open_as(self.target.clone()).await
    }

    /// Opens a stream with this for its opening.
    pub(super) async fn open_as(&self, opening: Bytes) -> io::Result<BondStream> {
        self.session.open(opening).await.map_err(io::Error::other)
    }

    /// Makes one small request over a stream of its own.
    pub(super) async fn request(&self) -> io::Result<()> {
        let mut stream = self.open().await?;
        let mut request = Header::echo(REQUEST as u64).bytes().to_vec();
        request.extend([b'?'; REQUEST]);
        stream.write_all(&request).await?;
        let mut answer = [0; REQUEST];
        stream.read_exact(&mut answer).await?;
        stream.shutdown().await?;
        if answer == [b'?'; REQUEST] {
            Ok(())
        } else {
            Err(io::Error::other("the answer is not what was asked"))
        }
    }

    /// Makes requests until one is answered; false if none was in time.
    pub(super) async fn request_until(&self, deadline: Instant) -> bool {
        let trying = async {
            while self.request().await.is_err() {
                tokio::time::sleep(AGAIN).await;
            }
        };
        tokio::time::timeout_at(deadline.into(), trying)
            .await
            .is_ok()
    }

    /// A plain connection to the gateway from this client's address.
    pub(super) async fn knock(&self) -> io::Result<tokio::net::TcpStream> {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(self.own.into(), 0))?;
        socket.connect(self.gateway.into()).await
    }
}

/// All but the last.
pub(super) fn honest(clients: &[Arc<Client>]) -> &[Arc<Client>] {
    clients.split_last().map_or(&[], |(_, honest)| honest)
}

/// Returns the address of client `number` on link `k`, from 1.
pub(crate) fn address(k: u8, number: u32) -> Ipv4Addr {
    let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    let (high, low) = (number / HOSTS, number % HOSTS);
    Ipv4Addr::new(10, FIRST_NETWORK + k, byte(high), 1 + byte(low))
}

/// Returns the key of a client: always the same, so that it can be enrolled before it is there.
pub(crate) fn identity(number: u32) -> Identity {
    let mut seed = *b"one of the lab's thousand client";
    seed[..4].copy_from_slice(&number.to_be_bytes());
    Identity::from_seed(seed)
}

/// The most honest clients that there are addresses for.
pub(crate) const MAX_CLIENTS: u32 = 255 * HOSTS;
/// Clients whose addresses differ in the last byte only.
const HOSTS: u32 = 250;
/// Clients' addresses on link k are in 10.(100 + k).0.0/16.
const FIRST_NETWORK: u8 = 100;
/// Bytes of a small request, and of its answer.
const REQUEST: usize = 200;
const AGAIN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_clients_share_an_address_or_a_key() {
        let all = |k| (0..=1000).map(move |number| address(k, number));
        let different: std::collections::BTreeSet<_> = all(1).chain(all(2)).collect();
        assert_eq!(different.len(), 2002);
        assert_eq!(address(1, 999), Ipv4Addr::new(10, 101, 3, 250));
        assert_ne!(identity(1).public(), identity(256).public());
    }
}
