//! One connection of a hostile session: what is sent under its seal, and the reader of its answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_net::clock;
use hawser_session::seal::{RecordReader, Sealer};
use hawser_types::ChannelId;
use hawser_wire::StateFrame;
use socket2::{SockFilter, SockRef};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::error::HostileError;
use crate::heard::Heard;

/// A connection that has proved the session's keys.
pub(crate) struct Channel {
    out: Arc<Mutex<Out>>,
    ended: Arc<AtomicBool>,
    listening: JoinHandle<()>,
}

/// What a connection begins with: seals that have dealt with `records` records each.
pub(crate) struct Connection {
    pub(crate) id: ChannelId,
    pub(crate) stream: TcpStream,
    pub(crate) sealer: Sealer,
    pub(crate) reader: RecordReader,
    pub(crate) records: u64,
}

struct Out {
    half: OwnedWriteHalf,
    sealer: Sealer,
    /// Frames that answer what came, for the next record.
    answers: Answers,
}

/// Frames with which the listener answers. They wait while a step of the script writes, and go out
/// before its next records.
type Answers = Arc<parking_lot::Mutex<Vec<Bytes>>>;

impl Channel {
    /// Begins to listen; what comes goes to `heard`.
    pub(crate) fn start(connection: Connection, heard: &Arc<Heard>) -> Self {
        let (read, half) = connection.stream.into_split();
        let sealer = connection.sealer;
        let answers = Answers::default();
        let out = Arc::new(Mutex::new(Out {
            half,
            sealer,
            answers: Arc::clone(&answers),
        }));
        let ended = Arc::new(AtomicBool::new(false));
        let ear = Ear {
            id: connection.id,
            half: read,
            reader: connection.reader,
            records: connection.records,
            heard: Arc::clone(heard),
            out: Arc::clone(&out),
            answers,
        };
        let over = Arc::clone(&ended);
        let listening = tokio::spawn(async move {
            ear.listen().await;
            over.store(true, Ordering::Release);
        });
        Self {
            out,
            ended,
            listening,
        }
    }

    /// Sends records with these bodies.
    pub(crate) async fn send(
        &self,
        bodies: impl IntoIterator<Item = Bytes>,
    ) -> Result<(), HostileError> {
        let mut out = self.out.lock().await;
        out.send(bodies).await
    }

    /// Sends bytes that are no record.
    pub(crate) async fn send_raw(&self, bytes: &[u8]) -> Result<(), HostileError> {
        self.out.lock().await.write(bytes).await
    }

    /// Makes the kernel drop all that comes on the connection, so that not even TCP answers any
    /// more: what a power cut or a dead link looks like from the other end.
    pub(crate) async fn vanish(&self) -> Result<(), HostileError> {
        let drop_all = SockFilter::new(RETURN_CONSTANT, 0, 0, 0);
        let out = self.out.lock().await;
        SockRef::from(out.half.as_ref()).attach_filter(&[drop_all])?;
        self.listening.abort();
        Ok(())
    }

    /// True once the peer has ended the connection, or sent what does not open.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Out {
    /// Sends what answers wait, and records with these bodies.
    async fn send(&mut self, bodies: impl IntoIterator<Item = Bytes>) -> Result<(), HostileError> {
        let answers = std::mem::take(&mut *self.answers.lock());
        let mut bytes = BytesMut::new();
        for body in answers.into_iter().chain(bodies) {
            self.sealer
                .seal(clock::now(), &body, &Default::default(), &mut bytes);
        }
        self.write(&bytes).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), HostileError> {
        match timeout(PATIENCE, self.half.write_all(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(HostileError::Gone),
            Err(_) => Err(HostileError::Never("the peer reads a channel".to_owned())),
        }
    }
}

/// The listening half of a channel.
struct Ear {
    id: ChannelId,
    half: OwnedReadHalf,
    reader: RecordReader,
    records: u64,
    heard: Arc<Heard>,
    out: Arc<Mutex<Out>>,
    answers: Answers,
}

impl Ear {
    async fn listen(mut self) {
        loop {
            while !self.heard.manners().reads {
                tokio::time::sleep(POLL).await;
            }
            match self.take_records() {
                Ok(answer) => self.answer(answer).await,
                Err(problem) => return self.heard.complain(problem),
            }
            self.reader.reserve(READ_AT_ONCE);
            match self.half.read_buf(self.reader.buffer()).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    /// Takes in whole records; gives what is to be answered.
    fn take_records(&mut self) -> Result<BytesMut, String> {
        let mut answer = BytesMut::new();
        let mut has_chunk = false;
        loop {
            match self.reader.next_record() {
                Ok(None) => break,
                Ok(Some(body)) => {
                    self.records += 1;
                    has_chunk |= self.heard.on_record(body, &mut answer)?;
                }
                Err(error) => return Err(format!("{}: {error}", self.id)),
            }
        }
        if has_chunk && self.heard.manners().acknowledges {
            let (channel, records) = (self.id, self.records);
            StateFrame::Ack { channel, records }.encode(&mut answer);
        }
        Ok(answer)
    }

    /// Answers at once unless a step of the script is writing now: it may wait for the peer, which
    /// may wait for this.
    async fn answer(&mut self, answer: BytesMut) {
        if answer.is_empty() {
            return;
        }
        self.answers.lock().push(answer.freeze());
        if let Ok(mut out) = self.out.try_lock() {
            // An end shows when reading.
            let _ = out.send([]).await;
        }
    }
}

/// `BPF_RET | BPF_K`: with 0 nothing of the packet is kept.
const RETURN_CONSTANT: u16 = 0x06;
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);
const READ_AT_ONCE: usize = 64 * 1024;
