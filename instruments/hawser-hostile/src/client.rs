//! The hostile client: enrols, opens sessions and joins channels as an honest one does.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::BytesMut;
use hawser_keys::identity::{Identity, PublicKey};
use hawser_keys::invite::Invite;
use hawser_net::clock;
use hawser_seal::TlsClient;
use hawser_session::Side;
use hawser_session::seal::{Direction, SessionKeys};
use hawser_types::{ChannelId, SessionId};
use hawser_wire::{ChannelRole, Command, Enrolment, JoinPrelude, StateFrame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::channel::Connection;
use crate::error::HostileError;
use crate::session::{Session, Shared};

/// A client with a key that the gateway admits.
pub(crate) struct Client {
    identity: Identity,
    gateway: PublicKey,
    address: SocketAddr,
    /// Connections have the least receive window that there is.
    narrow: bool,
}

impl Client {
    /// Enrols a fresh key with an invite.
    pub(crate) async fn enrol(invite: &Invite) -> Result<Self, HostileError> {
        let addresses = invite.addresses().iter();
        let address = addresses.filter_map(|it| it.socket_addr()).next();
        let address = address.ok_or(HostileError::Strange("invite without address".into()))?;
        let client = Self {
            identity: Identity::generate()?,
            gateway: invite.gateway(),
            address,
            narrow: false,
        };
        let mut session = client.begin_as(&invite.enrolment_identity()).await?;
        session.greet().await?;
        let challenge = session.shared().keys.enrolment_challenge();
        let enrolment = Enrolment {
            key: *client.identity.public().as_bytes(),
            signature: client.identity.sign(&challenge),
            name: "hostile".to_owned(),
        };
        session.say(&[Command::Enrol(enrolment)]).await?;
        let is_enrolled = || session.heard().lock().enrolled.then_some(());
        session.until("the key is enrolled", is_enrolled).await?;
        session.say(&[Command::Close { code: 0 }]).await?;
        Ok(client)
    }

    /// A client with a key that is not enrolled, at a port that admits every key.
    pub(crate) fn stranger(gateway: PublicKey, address: SocketAddr) -> Result<Self, HostileError> {
        Ok(Self {
            identity: Identity::generate()?,
            gateway,
            address,
            narrow: false,
        })
    }

    /// A client with another key at the same port.
    pub(crate) fn another(&self) -> Result<Self, HostileError> {
        Self::stranger(self.gateway, self.address)
    }

    /// Address of the gateway.
    pub(crate) fn gateway(&self) -> SocketAddr {
        self.address
    }

    /// Gives connections from now on little room for what comes.
    pub(crate) fn narrow(&mut self) {
        self.narrow = true;
    }

    /// Begins a session in which nothing was said yet.
    pub(crate) async fn begin(&self) -> Result<Session, HostileError> {
        self.begin_as(&self.identity).await
    }

    /// Begins a session and says hello.
    pub(crate) async fn begin_greeted(&self) -> Result<Session, HostileError> {
        let mut session = self.begin().await?;
        session.greet().await?;
        Ok(session)
    }

    async fn connect(&self) -> Result<TcpStream, HostileError> {
        let socket = TcpSocket::new_v4()?;
        if self.narrow {
            socket.set_recv_buffer_size(LEAST_WINDOW)?;
        }
        Ok(socket.connect(self.address).await?)
    }

    async fn begin_as(&self, identity: &Identity) -> Result<Session, HostileError> {
        let stream = self.connect().await?;
        let tls = TlsClient::new(identity, self.gateway)?;
        let shaken = timeout(PATIENCE, async {
            let mut handshake = tls.handshake(stream).await?;
            handshake.accepted().await?;
            Ok::<_, HostileError>(handshake)
        });
        let handshake = shaken
            .await
            .map_err(|_| HostileError::Never("a handshake is answered".to_owned()))??;
        let keys = SessionKeys::new(handshake.exporter.clone(), handshake.aead);
        let id = ChannelId::new(0);
        let first = Connection {
            id,
            stream: handshake.stream,
            sealer: keys.sealer(id, Direction::ClientToGateway),
            reader: keys.reader(id, Direction::GatewayToClient, false),
            records: 0,
        };
        Ok(Session::begin(Side::Client, keys, first))
    }

    /// Joins with `id` over a connection of its own.
    ///
    /// # Errors
    /// [`HostileError::Refused`] when the gateway closes that connection.
    pub(crate) async fn join(
        &self,
        session: &Shared,
        id: ChannelId,
    ) -> Result<Connection, HostileError> {
        let named = session.keys.session_id();
        self.join_named(named, session, id).await
    }

    /// The same where the join names this session, and has the keys of another one.
    pub(crate) async fn join_named(
        &self,
        named: SessionId,
        session: &Shared,
        id: ChannelId,
    ) -> Result<Connection, HostileError> {
        let mut stream = self.connect().await?;
        let mut sealer = session.keys.sealer(id, Direction::ClientToGateway);
        let mut reader = session.keys.reader(id, Direction::GatewayToClient, false);
        let prelude = JoinPrelude {
            session: named,
            channel: id,
        };
        let mut frame = BytesMut::new();
        let (role, link) = (ChannelRole::Bulk, id.value() % LINKS);
        StateFrame::Join { role, link }.encode(&mut frame);
        let mut out = BytesMut::from(&prelude.encode()[..]);
        sealer.seal(clock::now(), &frame, &Default::default(), &mut out);
        // A connection that is closed before all of this was read is reset.
        let refused = |_| HostileError::Refused;
        stream.write_all(&out).await.map_err(refused)?;
        let answered = timeout(PATIENCE, async {
            while !matches!(reader.next_record(), Ok(Some(_))) {
                let read = stream.read_buf(reader.buffer()).await;
                if read.map_err(refused)? == 0 {
                    return Err(HostileError::Refused);
                }
            }
            Ok(())
        });
        answered
            .await
            .map_err(|_| HostileError::Never("a join is answered".to_owned()))??;
        Ok(Connection {
            id,
            stream,
            sealer,
            reader,
            records: 1,
        })
    }

    /// Connects to the gateway's port from one of many local addresses, and says nothing.
    pub(crate) async fn connect_silently(&self, number: u64) -> Result<TcpStream, HostileError> {
        let [high, low] = ((number / PER_SOURCE) as u16).to_be_bytes();
        let source = Ipv4Addr::new(127, 1 + high, low, 9);
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(source.into(), 0))?;
        Ok(socket.connect(self.address).await?)
    }
}

const LEAST_WINDOW: u32 = 2304;
/// Longer than a gateway waits, which says why it has given a connection up.
const PATIENCE: Duration = Duration::from_secs(15);
/// Links that the client says it has.
const LINKS: u32 = 4;
/// Idle connections from one address; a gateway takes no more from there by default.
const PER_SOURCE: u64 = 32;
