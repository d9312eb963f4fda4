//! Performs the steps of a script.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use hawser_types::{ChannelId, StreamId};
use hawser_wire::{Command, TransportChoice};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::client::Client;
use crate::datagrams::{Datagrams, Names};
use crate::error::HostileError;
use crate::frames;
use crate::scene::Scene;
use crate::session::Session;
use crate::step::{Make, Manners, Place, Step, Turn};

/// One session of a hostile peer, and what it keeps open beside it.
pub(crate) struct Performer<'a> {
    scene: &'a Scene,
    /// How further connections are made; a gateway makes none.
    client: Option<&'a Client>,
    pub(crate) session: Session,
    ghosts: Vec<Session>,
    datagrams: Option<Datagrams>,
    idle: Vec<TcpStream>,
    /// Streams whose refusal was waited for.
    refused: usize,
    /// Datagrams that were waited for.
    came: u64,
    /// How often each step has done its part, by its place in memory.
    turns: HashMap<usize, u64>,
    until: Instant,
}

impl<'a> Performer<'a> {
    /// Performs on `session` until that time.
    pub(crate) fn new(
        scene: &'a Scene,
        client: Option<&'a Client>,
        session: Session,
        until: Instant,
    ) -> Self {
        Self {
            scene,
            client,
            session,
            ghosts: Vec::new(),
            datagrams: None,
            idle: Vec::new(),
            refused: 0,
            came: 0,
            turns: HashMap::new(),
            until,
        }
    }

    /// Performs steps in their order; ends early when the time is over.
    pub(crate) async fn perform(&mut self, steps: &[Step]) -> Result<(), HostileError> {
        for step in steps {
            if self.is_late() {
                break;
            }
            Box::pin(self.step(step)).await?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), HostileError> {
        match step {
            Step::Listen(manners) => self.session.heard().lock().manners = *manners,
            Step::Pause(length) => tokio::time::sleep(*length).await,
            Step::Raw(bytes) => self.raw(bytes).await?,
            Step::Lost => self.session.lose_current().await?,
            Step::Records(count, make) => self.records(key(step), *count, *make).await?,
            Step::Commands(count, make) => self.commands(key(step), *count, *make).await?,
            Step::SkipCommands(bytes) => self.session.skip_commands(*bytes),
            Step::Open(count, place, data) => self.open(*count, *place, *data).await?,
            Step::Refused(count) => self.await_refusals(*count).await?,
            Step::Came(count) => self.await_datagrams(*count).await?,
            Step::Associate(count) => self.spend_grants(*count, associate).await?,
            Step::GiveUp(count) => self.spend_grants(*count, give_up).await?,
            Step::First => self.session.use_first(),
            Step::Leave => self.session.leave(),
            Step::HalfDead => self.session.vanish(false).await?,
            Step::Repeat(count, steps) => {
                for _ in 0..*count {
                    self.perform(steps).await?;
                }
            }
            Step::Packets(..) | Step::Strays(..) | Step::Replay(_) | Step::Stands => {
                self.datagrams(step).await?;
            }
            _ => self.connect(step).await?,
        }
        Ok(())
    }

    /// The steps that make connections.
    async fn connect(&mut self, step: &Step) -> Result<(), HostileError> {
        let no_client = || HostileError::Strange("a gateway makes no connections".to_owned());
        let client = self.client.ok_or_else(no_client)?;
        match step {
            Step::Join(count) => self.join(client, *count).await?,
            Step::JoinRefused => self.join_in_vain(client).await?,
            Step::Churn(count) => {
                for _ in 0..*count {
                    self.join(client, 1).await?;
                    self.session.leave();
                    if self.is_late() {
                        break;
                    }
                }
            }
            Step::JoinTwice => self.join_twice(client).await?,
            Step::Hijack(count) => self.hijack(client, *count).await?,
            Step::Associated => self.associate(client).await?,
            Step::Ghosts(count) => self.haunt(client, *count).await?,
            Step::Return(within) => {
                let until = Instant::now() + *within;
                while let Err(error) = client.begin_greeted().await {
                    if Instant::now() > until {
                        let what = format!("a proven key gets a session ({error})");
                        return Err(HostileError::Never(what));
                    }
                    tokio::time::sleep(RETRY).await;
                }
            }
            Step::Idle(count) => {
                self.idle.clear();
                for number in 0..*count {
                    self.idle.push(client.connect_silently(number).await?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends bytes that are no record; who refuses them may do so at the first one.
    async fn raw(&self, bytes: &[u8]) -> Result<(), HostileError> {
        match self.session.send_raw(bytes).await {
            Err(HostileError::Gone) if !self.session.is_over() => Ok(()),
            sent => sent,
        }
    }

    async fn await_refusals(&mut self, count: usize) -> Result<(), HostileError> {
        self.refused += count;
        let enough = || (self.session.heard().lock().resets >= self.refused).then_some(());
        self.session.until("streams are refused", enough).await
    }

    async fn await_datagrams(&mut self, count: u64) -> Result<(), HostileError> {
        let datagrams = || self.session.heard().lock().datagrams;
        let enough = || (datagrams() >= self.came + count).then_some(());
        let waited = self.session.until("datagrams come", enough).await;
        let now = datagrams();
        let came = now - std::mem::replace(&mut self.came, now);
        match waited {
            Err(HostileError::Never(_)) => {
                let what = format!("{count} datagrams come, of which {came} did");
                Err(HostileError::Never(what))
            }
            waited => waited,
        }
    }

    async fn records(
        &mut self,
        key: usize,
        count: u64,
        make: Make<BytesMut>,
    ) -> Result<(), HostileError> {
        let mut left = count;
        while left > 0 && !self.is_late() {
            let (mut bodies, mut bytes) = (Vec::new(), 0);
            while left > 0 && bytes < BATCH && bodies.len() < MOST_AT_ONCE {
                let mut body = BytesMut::new();
                make(self.turn(key), &mut body);
                bytes += body.len();
                bodies.push(body.freeze());
                left -= 1;
            }
            self.session.send(bodies).await?;
        }
        Ok(())
    }

    async fn commands(
        &mut self,
        key: usize,
        count: u64,
        make: Make<Vec<Command>>,
    ) -> Result<(), HostileError> {
        let mut left = count;
        while left > 0 && !self.is_late() {
            let mut commands = Vec::new();
            // However long each is, together they fit a record.
            for _ in 0..left.min(COMMANDS_AT_ONCE) {
                make(self.turn(key), &mut commands);
            }
            left -= left.min(COMMANDS_AT_ONCE);
            self.session.say(&commands).await?;
        }
        Ok(())
    }

    async fn open(&mut self, count: u64, place: Place, data: usize) -> Result<(), HostileError> {
        let metadata = self.scene.metadata(place);
        let mut payload = vec![0x77; data];
        if place.is_datagrams() {
            // One datagram of one byte, after its length.
            payload = vec![0, 1, 0x77];
        }
        for _ in 0..count {
            if self.is_late() {
                break;
            }
            let stream = self.session.take_stream();
            let mut body = BytesMut::new();
            let flags = frames::OPEN;
            frames::chunk((stream, 0), flags, &metadata, &payload, &mut body);
            let credit = self.session.heard().manners().credit;
            let mut bodies = vec![];
            if credit > 0 {
                let mut early = BytesMut::new();
                frames::credit(stream, credit, &mut early);
                bodies.push(early.freeze());
            }
            bodies.insert(0, body.freeze());
            self.session.send(bodies).await?;
        }
        Ok(())
    }

    /// Sends a command for each of so many granted numbers, each in a record of its own, as fast as
    /// the gateway grants more.
    async fn spend_grants(
        &mut self,
        count: u64,
        make: fn(ChannelId) -> Command,
    ) -> Result<(), HostileError> {
        for _ in 0..count {
            if self.is_late() {
                break;
            }
            let id = self.session.take_grant().await?;
            self.session.say(&[make(id)]).await?;
        }
        Ok(())
    }

    /// Begins an association in place of the one before.
    async fn associate(&mut self, client: &Client) -> Result<(), HostileError> {
        if let Some(before) = self.datagrams.take() {
            before.end().await?;
        }
        let port = || self.session.heard().lock().datagram_port;
        let port = self
            .session
            .until("the gateway has a UDP port", port)
            .await?;
        let channel = self.session.take_grant().await?;
        let transport = TransportChoice::Tcp;
        let command = Command::Associate { channel, transport };
        self.session.say(&[command]).await?;
        let gateway = SocketAddr::new(client.gateway().ip(), port);
        let keys = &self.session.shared().keys;
        let begun = tokio::select! {
            begun = Datagrams::begin(keys, channel, gateway) => begun?,
            () = self.session.over() => return Err(HostileError::Gone),
        };
        self.datagrams = Some(begun);
        Ok(())
    }

    /// The steps that send datagrams.
    async fn datagrams(&mut self, step: &Step) -> Result<(), HostileError> {
        let (scene, first_stream) = (self.scene, self.session.first_stream());
        let until = self.until;
        let missing = || HostileError::Strange("there is no association".to_owned());
        let datagrams = self.datagrams.as_mut().ok_or_else(missing)?;
        let (count, make) = match step {
            Step::Packets(count, make) | Step::Strays(count, make) => (*count, Some(make)),
            Step::Replay(count) => (*count, None),
            _ => return datagrams.probe().await,
        };
        for number in 0..count {
            if Instant::now() >= until {
                break;
            }
            let mut body = BytesMut::new();
            if let Some(make) = make {
                let names = datagrams.names;
                let turn = Turn {
                    number,
                    first_stream,
                    scene,
                    names,
                };
                make(turn, &mut body);
            }
            match step {
                Step::Packets(..) => datagrams.send(&body).await?,
                Step::Strays(..) => datagrams.send_raw(&body).await?,
                _ => datagrams.replay(number).await?,
            }
        }
        Ok(())
    }

    /// Begins sessions and lets all of them fall silent at once.
    async fn haunt(&mut self, client: &Client, count: u64) -> Result<(), HostileError> {
        let mut ghosts = Vec::new();
        for _ in 0..count {
            ghosts.push(client.begin_greeted().await?);
        }
        // What is not acknowledged by then the kernel would send again and again, which is a sign
        // of life.
        tokio::time::sleep(RETRY).await;
        for ghost in &ghosts {
            ghost.vanish(true).await?;
        }
        self.ghosts.append(&mut ghosts);
        Ok(())
    }

    async fn join(&mut self, client: &Client, count: u64) -> Result<(), HostileError> {
        for _ in 0..count {
            let id = self.session.take_grant().await?;
            let connection = client.join(self.session.shared(), id).await?;
            self.session.add(connection);
        }
        Ok(())
    }

    async fn join_in_vain(&mut self, client: &Client) -> Result<(), HostileError> {
        let id = self.session.take_grant().await?;
        match client.join(self.session.shared(), id).await {
            Err(HostileError::Refused) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(HostileError::Strange("a join too many is taken".to_owned())),
        }
    }

    async fn join_twice(&mut self, client: &Client) -> Result<(), HostileError> {
        let id = self.session.take_grant().await?;
        let connection = client.join(self.session.shared(), id).await?;
        self.session.add(connection);
        // The gateway answers before it marks the number as used. So both may have an answer, and
        // one of them is closed after it.
        let Ok(mut second) = client.join(self.session.shared(), id).await else {
            return Ok(());
        };
        let mut rest = Vec::new();
        let end = second.stream.read_to_end(&mut rest);
        let first_is_lost = async {
            while !self.session.has_lost_current() {
                tokio::time::sleep(RETRY).await;
            }
        };
        tokio::select! {
            _ = end => Ok(()),
            () = first_is_lost => Ok(()),
            () = tokio::time::sleep(CLOSED_WITHIN) => Err(HostileError::Strange(TWICE.into())),
        }
    }

    /// Another client tries to join this session.
    async fn hijack(&mut self, client: &Client, count: u64) -> Result<(), HostileError> {
        let thief = client.another()?;
        let own = thief.begin_greeted().await?;
        for _ in 0..count {
            let id = self.session.take_grant().await?;
            let named = self.session.shared().keys.session_id();
            match thief.join_named(named, own.shared(), id).await {
                Err(HostileError::Refused) => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    let what = "a client of another key joins a session".to_owned();
                    return Err(HostileError::Strange(what));
                }
            }
        }
        Ok(())
    }

    /// Checks that the session still works: a stream is opened and refused.
    pub(crate) async fn probe(&mut self) -> Result<(), HostileError> {
        if self.client.is_none() {
            tokio::time::sleep(RETRY).await;
            return match self.session.is_over() {
                true => Err(HostileError::Gone),
                false => Ok(()),
            };
        }
        self.session.heard().lock().manners = Manners::GOOD;
        self.session.use_first();
        let stream = PROBE_STREAM;
        let metadata = self.scene.metadata(Place::Closed);
        let mut body = BytesMut::new();
        let flags = frames::OPEN;
        frames::chunk((stream, 0), flags, &metadata, &[], &mut body);
        self.session.send([body.freeze()]).await?;
        let stream = StreamId::new(stream);
        let is_refused = || self.session.heard().lock().reset.contains(&stream);
        let what = "a stream is answered after the script";
        let refused = || is_refused().then_some(());
        self.session.until(what, refused).await
    }

    fn turn(&mut self, key: usize) -> Turn<'a> {
        let turns = self.turns.entry(key).or_default();
        let number = *turns;
        *turns += 1;
        Turn {
            number,
            first_stream: self.session.first_stream(),
            scene: self.scene,
            names: Names::default(),
        }
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }
}

fn associate(channel: ChannelId) -> Command {
    let transport = TransportChoice::Tcp;
    Command::Associate { channel, transport }
}

fn give_up(channel: ChannelId) -> Command {
    Command::ChannelClosed { channel }
}

/// Steps stay in their place while a script is performed.
fn key(step: &Step) -> usize {
    std::ptr::from_ref(step).addr()
}

const BATCH: usize = 256 * 1024;
const MOST_AT_ONCE: usize = 512;
const COMMANDS_AT_ONCE: u64 = 100;
const TWICE: &str = "a number was taken twice";
/// Time in which the gateway closes the connection that came second.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);
/// Far beyond the streams of any script.
const PROBE_STREAM: u64 = 1 << 40;
const RETRY: Duration = Duration::from_millis(300);
