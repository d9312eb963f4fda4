//! The hostile gateway: admits every client, and passes its sessions to the script.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::BytesMut;
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::{Identity, PublicKey};
use hawser_keys::invite::Invite;
use hawser_keys::unix_time::UnixTime;
use hawser_net::clock;
use hawser_seal::TlsServer;
use hawser_session::Side;
use hawser_session::seal::{Direction, SessionKeys};
use hawser_types::{ChannelId, SessionId};
use hawser_wire::{
    Command, Frame, FrameIterator, Grant, JOIN_PRELUDE_LENGTH, JoinPrelude, StateFrame,
};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::channel::Connection;
use crate::error::HostileError;
use crate::session::{Session, Shared};

/// A gateway that admits every client.
pub(crate) struct Gateway {
    invite: Invite,
    begun: mpsc::Receiver<Begun>,
}

/// A session of a client that has proved `key`.
struct Begun {
    session: Session,
    key: PublicKey,
}

/// What the tasks of the listener share.
struct Door {
    tls: TlsServer,
    sessions: Mutex<HashMap<SessionId, Weak<Shared>>>,
    begun: mpsc::Sender<Begun>,
}

impl Gateway {
    /// Listens at 127.0.0.1, as long as the runtime lives.
    pub(crate) async fn start() -> Result<Self, HostileError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let identity = Identity::generate()?;
        let named = HostPort::try_from(address)
            .map_err(|error| HostileError::Strange(error.to_string()))?;
        let expires = UnixTime::from_secs(UnixTime::now().as_secs() + 86_400);
        let invite = Invite::generate(identity.public(), vec![named], expires)?;
        let (sender, begun) = mpsc::channel(QUEUE);
        let door = Arc::new(Door {
            tls: TlsServer::new(&identity, Arc::new(|_| true))?,
            sessions: Mutex::default(),
            begun: sender,
        });
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let door = Arc::clone(&door);
                        // A connection that fails is the client's affair.
                        tokio::spawn(async move { door.admit(stream).await.ok() });
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        });
        Ok(Self { invite, begun })
    }

    /// An invite to it.
    pub(crate) fn invite(&self) -> &Invite {
        &self.invite
    }

    /// Waits for a client's next session and begins it as an honest gateway does. One that its
    /// client has left meanwhile is passed over.
    pub(crate) async fn accept(&mut self) -> Result<Session, HostileError> {
        let never = || HostileError::Never("a client connects".to_owned());
        loop {
            let begun = timeout(PATIENCE, self.begun.recv()).await;
            let begun = begun.map_err(|_| never())?.ok_or_else(never)?;
            match self.begin(begun).await {
                Err(HostileError::Gone) => {}
                begun => return begun,
            }
        }
    }

    async fn begin(&self, begun: Begun) -> Result<Session, HostileError> {
        let Begun { mut session, key } = begun;
        session.greet().await?;
        let grant = Grant {
            first: ChannelId::new(1),
            count: GRANTED,
            addresses: Vec::new(),
        };
        session.say(&[Command::Grant(grant)]).await?;
        if key == self.invite.enrolment_identity().public() {
            let has_asked = || session.heard().lock().enrolment.is_some().then_some(());
            session.until("the client enrols", has_asked).await?;
            session.say(&[Command::Enrolled]).await?;
        }
        Ok(session)
    }
}

impl Door {
    async fn admit(&self, stream: TcpStream) -> Result<(), HostileError> {
        let mut first = [0];
        stream.peek(&mut first).await?;
        if first[0] == JoinPrelude::FIRST_BYTE {
            return timeout(PATIENCE, self.join(stream)).await.unwrap_or(Ok(()));
        }
        let handshake = self.tls.handshake(stream, &[]).await?;
        let keys = SessionKeys::new(handshake.exporter.clone(), handshake.aead);
        let id = ChannelId::new(0);
        let first = Connection {
            id,
            stream: handshake.stream,
            sealer: keys.sealer(id, Direction::GatewayToClient),
            reader: keys.reader(id, Direction::ClientToGateway, false),
            records: 0,
        };
        let name = keys.session_id();
        let session = Session::begin(Side::Gateway, keys, first);
        let shared = Arc::downgrade(session.shared());
        self.sessions.lock().insert(name, shared);
        let key = handshake.peer;
        let begun = Begun { session, key };
        self.begun.send(begun).await.map_err(|_| HostileError::Gone)
    }

    async fn join(&self, mut stream: TcpStream) -> Result<(), HostileError> {
        let mut prelude = [0; JOIN_PRELUDE_LENGTH];
        stream.read_exact(&mut prelude).await?;
        let prelude = JoinPrelude::decode(&prelude).ok_or(HostileError::Gone)?;
        let known = self
            .sessions
            .lock()
            .get(&prelude.session)
            .and_then(Weak::upgrade);
        let session = known.ok_or(HostileError::Gone)?;
        let id = prelude.channel;
        let mut reader = session.keys.reader(id, Direction::ClientToGateway, false);
        let record = loop {
            match reader.next_record() {
                Ok(Some(record)) => break record,
                Ok(None) if stream.read_buf(reader.buffer()).await? > 0 => {}
                _ => return Err(HostileError::Gone),
            }
        };
        let Some(Ok(Frame::State(join @ StateFrame::Join { .. }))) =
            FrameIterator::new(record).next()
        else {
            return Err(HostileError::Gone);
        };
        let mut sealer = session.keys.sealer(id, Direction::GatewayToClient);
        let (mut frame, mut out) = (BytesMut::new(), BytesMut::new());
        join.encode(&mut frame);
        sealer.seal(clock::now(), &frame, &Default::default(), &mut out);
        stream.write_all(&out).await?;
        session.add(Connection {
            id,
            stream,
            sealer,
            reader,
            records: 1,
        });
        Ok(())
    }
}

const QUEUE: usize = 16;
const GRANTED: u32 = 64;
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);
