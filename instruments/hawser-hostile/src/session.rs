//! A session of a hostile peer, on either side: its channels, and sending on them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_session::Side;
use hawser_session::seal::SessionKeys;
use hawser_types::ChannelId;
use hawser_wire::{Command, Hello, MAX_CHUNK_PAYLOAD};
use parking_lot::Mutex;

use crate::channel::{Channel, Connection};
use crate::error::HostileError;
use crate::frames;
use crate::heard::Heard;

/// A session whose channels may come and go.
pub(crate) struct Session {
    shared: Arc<Shared>,
    current: ChannelId,
    commands_sent: u64,
    next_stream: u64,
}

/// The part of a session that a listener adds channels to.
pub(crate) struct Shared {
    pub(crate) side: Side,
    pub(crate) keys: SessionKeys,
    pub(crate) heard: Arc<Heard>,
    channels: Mutex<BTreeMap<ChannelId, Arc<Channel>>>,
}

impl Shared {
    /// Adds a channel and begins to listen to it.
    pub(crate) fn add(&self, connection: Connection) {
        let id = connection.id;
        let channel = Channel::start(connection, &self.heard);
        let mut channels = self.channels.lock();
        // What the peer has closed would keep its descriptor.
        channels.retain(|_, it| !it.is_ended());
        channels.insert(id, Arc::new(channel));
    }
}

impl Session {
    /// A session that begins with this connection. Nothing is said yet.
    pub(crate) fn begin(side: Side, keys: SessionKeys, first: Connection) -> Self {
        let shared = Arc::new(Shared {
            side,
            keys,
            heard: Arc::default(),
            channels: Mutex::default(),
        });
        let current = first.id;
        shared.add(first);
        Self {
            shared,
            current,
            commands_sent: 0,
            next_stream: first_stream(side),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn heard(&self) -> &Arc<Heard> {
        &self.shared.heard
    }

    /// The number of the side's first stream.
    pub(crate) fn first_stream(&self) -> u64 {
        first_stream(self.shared.side)
    }

    /// The number of the next stream that this side opens.
    pub(crate) fn take_stream(&mut self) -> u64 {
        let stream = self.next_stream;
        self.next_stream += 2;
        stream
    }

    /// Says hello as an honest peer does.
    pub(crate) async fn greet(&mut self) -> Result<(), HostileError> {
        let hello = Hello {
            max_streams: 4096,
            accepts_plain: false,
            takes_datagrams: true,
            ends_halves: true,
            follows_scheduler: false,
            knows_signals: false,
            link: 0,
        };
        self.say(&[Command::Hello(hello)]).await
    }

    /// Says commands, in as few chunks of stream 0 as hold them.
    pub(crate) async fn say(&mut self, commands: &[Command]) -> Result<(), HostileError> {
        let mut bytes = BytesMut::new();
        commands
            .iter()
            .for_each(|command| command.encode(&mut bytes));
        let mut bodies = Vec::new();
        for part in bytes.chunks(MAX_CHUNK_PAYLOAD) {
            let mut body = BytesMut::new();
            frames::data(0, self.commands_sent, part, &mut body);
            self.commands_sent += part.len() as u64;
            bodies.push(body.freeze());
        }
        self.send(bodies).await
    }

    /// Leaves a hole in the command stream.
    pub(crate) fn skip_commands(&mut self, bytes: u64) {
        self.commands_sent += bytes;
    }

    /// Sends records on the current channel.
    pub(crate) async fn send(
        &self,
        bodies: impl IntoIterator<Item = Bytes>,
    ) -> Result<(), HostileError> {
        self.current()?.send(bodies).await
    }

    /// Sends bytes as they are on the current channel.
    pub(crate) async fn send_raw(&self, bytes: &[u8]) -> Result<(), HostileError> {
        self.current()?.send_raw(bytes).await
    }

    fn current(&self) -> Result<Arc<Channel>, HostileError> {
        let channels = self.shared.channels.lock();
        channels
            .get(&self.current)
            .cloned()
            .ok_or(HostileError::Gone)
    }

    /// Adds a channel and makes it the current one.
    pub(crate) fn add(&mut self, connection: Connection) {
        self.current = connection.id;
        self.shared.add(connection);
    }

    /// Goes back to the first channel.
    pub(crate) fn use_first(&mut self) {
        self.current = ChannelId::new(0);
    }

    /// Closes all channels but the first.
    pub(crate) fn leave(&mut self) {
        self.use_first();
        self.shared.channels.lock().retain(|id, _| id.value() == 0);
    }

    /// Lets channels fall silent: all, or all but the first.
    pub(crate) async fn vanish(&self, with_first: bool) -> Result<(), HostileError> {
        let channels: Vec<_> = {
            let all = self.shared.channels.lock();
            let wanted = all.iter().filter(|(id, _)| with_first || id.value() > 0);
            wanted.map(|(_, channel)| Arc::clone(channel)).collect()
        };
        for channel in channels {
            channel.vanish().await?;
        }
        Ok(())
    }

    /// True once the current channel has ended.
    pub(crate) fn has_lost_current(&self) -> bool {
        self.current().map_or(true, |channel| channel.is_ended())
    }

    /// Waits until the peer has ended the current channel, and goes back to the first one.
    pub(crate) async fn lose_current(&mut self) -> Result<(), HostileError> {
        let is_lost = || self.has_lost_current().then_some(());
        self.until("the peer ends a connection", is_lost).await?;
        let lost = std::mem::take(&mut self.current);
        self.shared.channels.lock().remove(&lost);
        Ok(())
    }

    /// True once every channel has ended, or the peer has closed the session.
    pub(crate) fn is_over(&self) -> bool {
        let all_ended = self.shared.channels.lock().values().all(|it| it.is_ended());
        all_ended || self.heard().lock().closed.is_some()
    }

    /// Waits until it is over.
    pub(crate) async fn over(&self) {
        while !self.is_over() {
            tokio::time::sleep(POLL).await;
        }
    }

    /// Takes a granted channel number, waiting for more if need be.
    pub(crate) async fn take_grant(&self) -> Result<ChannelId, HostileError> {
        let take = || self.heard().lock().grants.pop_front();
        self.until("a grant", take).await
    }

    /// Waits until `found` gives something.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        mut found: impl FnMut() -> Option<T>,
    ) -> Result<T, HostileError> {
        for _ in 0..POLLS {
            if let Some(found) = found() {
                return Ok(found);
            }
            if self.is_over() {
                return Err(HostileError::Gone);
            }
            tokio::time::sleep(POLL).await;
        }
        Err(HostileError::Never(what.to_owned()))
    }
}

fn first_stream(side: Side) -> u64 {
    match side {
        Side::Client => 2,
        Side::Gateway => 1,
    }
}

const POLL: Duration = Duration::from_millis(5);
/// Half a minute: a flood of commands takes a busy machine seconds.
const POLLS: u32 = 6000;
