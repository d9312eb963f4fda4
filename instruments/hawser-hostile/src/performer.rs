//! Performs the steps of a script.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use hawser_types::{ChannelId, StreamId};
use hawser_wire::{Command, StreamKind, TransportChoice};
use tokio::net::TcpStream;

use crate::client::Client;
use crate::datagrams::{Datagrams, Names};
use crate::error::HostileError;
use crate::frames;
use crate::network;
use crate::samples;
use crate::scene::Scene;
use crate::session::Session;
use crate::step::{Manners, Place, Step, Turn};

mod connections;

/// One session of a hostile peer, and what it keeps open beside it.
pub(crate) struct Performer<'a> {
    scene: &'a Scene,
    /// How further connections are made; a gateway makes none.
    client: Option<&'a Client>,
    pub(crate) session: Session,
    ghosts: Vec<Session>,
    datagrams: Option<Datagrams>,
    tunnel: Option<StreamId>,
    names: Names,
    /// Most connections that the kernel was seen to track.
    pub(crate) tracked: Option<u64>,
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
            tunnel: None,
            names: Names::default(),
            tracked: None,
            idle: Vec::new(),
            refused: 0,
            came: 0,
            turns: HashMap::new(),
            until,
        }
    }

    /// Performs steps in their order. When the time is over, a step that does something many times
    /// ends early; each begins, since a script of which nothing was done would show nothing.
    pub(crate) async fn perform(&mut self, steps: &[Step]) -> Result<(), HostileError> {
        for step in steps {
            Box::pin(self.step(step)).await?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), HostileError> {
        match step {
            Step::Listen(manners) => self.session.heard().lock().manners = *manners,
            Step::Pause(length) => tokio::time::sleep(*length).await,
            Step::Raw(bytes) => match self.session.send_raw(bytes).await {
                // The bytes are no record: who refuses them may do so at the first one.
                Err(HostileError::Gone) if !self.session.is_over() => {}
                sent => sent?,
            },
            Step::Lost => self.session.lose_current().await?,
            Step::Records(count, make) => self.records(key(step), *count, *make).await?,
            Step::FramesOf(count, kind) => {
                let make = |turn: Turn<'_>, out: &mut BytesMut| samples::frame(*kind, turn, out);
                self.records(key(step), *count, make).await?;
            }
            Step::StreamsOf(count, kind) => {
                let make = |turn: Turn<'_>, out: &mut BytesMut| samples::open(*kind, turn, out);
                self.records(key(step), *count, make).await?;
            }
            Step::Commands(count, make) => self.commands(key(step), *count, *make).await?,
            Step::CommandsOf(count, kind) => {
                let make = |turn: Turn<'_>, out: &mut Vec<Command>| {
                    out.push(samples::command(*kind, turn));
                };
                self.commands(key(step), *count, make).await?;
            }
            Step::SkipCommands(bytes) => self.session.skip_commands(*bytes),
            Step::Open(count, place, data) => self.open(*count, *place, *data).await?,
            Step::Refused(count) => self.await_refusals(*count).await?,
            Step::Came(count) => self.await_datagrams(*count).await?,
            Step::Associate(count) => self.spend_grants(*count, associate).await?,
            Step::GiveUp(count) => {
                let give_up = |channel| Command::ChannelClosed { channel };
                self.spend_grants(*count, give_up).await?;
            }
            Step::First => self.session.use_first(),
            Step::Leave => self.session.leave(),
            Step::HalfDead => self.session.vanish(false).await?,
            Step::Repeat(count, steps) => {
                for _ in 0..*count {
                    self.perform(steps).await?;
                    if self.is_late() {
                        break;
                    }
                }
            }
            Step::Tunnel => self.open_tunnel().await?,
            Step::InnerPackets(count, make) => {
                let stream = self
                    .tunnel
                    .ok_or_else(|| HostileError::Strange("there is no tunnel".to_owned()))?;
                let make = |turn: Turn<'_>, out: &mut BytesMut| {
                    let mut packet = BytesMut::new();
                    make(turn, &mut packet);
                    hawser_wire::put_datagram(stream, &packet, out);
                };
                self.records(key(step), *count, make).await?;
                self.tracked = self.tracked.max(network::tracked());
            }
            Step::NothingFrom(address) => {
                tokio::time::sleep(RETRY).await;
                if self.session.heard().lock().packets_from.contains(address) {
                    return Err(HostileError::Strange(format!("{address} answers")));
                }
            }
            Step::Packets(..) | Step::Strays(..) | Step::Replay(_) | Step::Stands => {
                self.datagrams(step).await?;
            }
            _ => self.connect(step).await?,
        }
        Ok(())
    }

    /// Opens a tunnel, and takes the address that it is granted.
    async fn open_tunnel(&mut self) -> Result<(), HostileError> {
        let stream = StreamId::new(self.session.take_stream());
        let mut body = BytesMut::new();
        let metadata = self.scene.opening(StreamKind::Packets, 0);
        frames::chunk((stream.value(), 0), frames::OPEN, &metadata, &[], &mut body);
        self.session.send([body.freeze()]).await?;
        let heard = self.session.heard();
        let terms = || {
            let accepted = heard.lock().accepted.clone();
            let terms = accepted.filter(|(of, _)| *of == stream)?.1;
            terms
                .first_chunk()
                .map(|inner: &[u8; 4]| Ipv4Addr::from(*inner))
        };
        self.names.inner = self.session.until("a tunnel is granted", terms).await?;
        self.tunnel = Some(stream);
        Ok(())
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
        make: impl Fn(Turn<'_>, &mut BytesMut),
    ) -> Result<(), HostileError> {
        let mut left = count;
        while left > 0 {
            let (mut bodies, mut bytes) = (Vec::new(), 0);
            while left > 0 && bytes < BATCH && bodies.len() < MOST_AT_ONCE {
                let mut body = BytesMut::new();
                make(self.turn(key), &mut body);
                bytes += body.len();
                bodies.push(body.freeze());
                left -= 1;
            }
            self.session.send(bodies).await?;
            if self.is_late() {
                break;
            }
        }
        Ok(())
    }

    async fn commands(
        &mut self,
        key: usize,
        count: u64,
        make: impl Fn(Turn<'_>, &mut Vec<Command>),
    ) -> Result<(), HostileError> {
        let mut left = count;
        while left > 0 {
            let mut commands = Vec::new();
            for _ in 0..left.min(COMMANDS_AT_ONCE) {
                make(self.turn(key), &mut commands);
            }
            left -= left.min(COMMANDS_AT_ONCE);
            self.session.say(&commands).await?;
            if self.is_late() {
                break;
            }
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
            if self.is_late() {
                break;
            }
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
            let id = self.session.take_grant().await?;
            self.session.say(&[make(id)]).await?;
            if self.is_late() {
                break;
            }
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
            if Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    /// Checks that the session still works: a stream is opened and refused.
    pub(crate) async fn probe(&mut self) -> Result<(), HostileError> {
        if self.client.is_none() {
            tokio::time::sleep(RETRY).await;
            return if self.session.is_over() {
                Err(HostileError::Gone)
            } else {
                Ok(())
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
            names: self.names,
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

/// Steps stay in their place while a script is performed.
fn key(step: &Step) -> usize {
    std::ptr::from_ref(step).addr()
}

const BATCH: usize = 256 * 1024;
const MOST_AT_ONCE: usize = 512;
const COMMANDS_AT_ONCE: u64 = 100;
/// Far beyond the streams of any script.
const PROBE_STREAM: u64 = 1 << 40;
const RETRY: Duration = Duration::from_millis(300);
