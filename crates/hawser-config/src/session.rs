use std::time::Duration;

use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::packet::PacketPolicy;
use hawser_session::{ChunkSize, SctpPaths, Spread, TransportChoice};
use hawser_types::ByteCount;

use crate::ConfigError;
use crate::document::{Field, key};

/// `[session]`: chunking, distribution and encryption of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// `scheduler`: policy that assigns chunks to links. Default `"auto"`.
    pub scheduler: ChunkPolicy,
    /// `packet-scheduler`: the policy that places packets of tunnels.
    pub packet_scheduler: PacketPolicy,
    /// `chunk-size`: size of the chunks of a stream: `"auto"`, `"mtu"`, or a size from 256 B to 64
    /// KiB. Default `"auto"`.
    pub chunk_size: ChunkSize,
    /// `channels-per-link`: number of bulk channels of each link: `"auto"`, or from 1 to 4; the
    /// client decides. Default `"auto"`.
    pub channels_per_link: Spread,
    /// `encryption`: encryption of data. Default `"default"`.
    pub encryption: Encryption,
    /// `survive`: time that a session survives without any link. From 1 s to 7 days, default 60 s.
    pub survive: Duration,
    /// `receive-memory`: memory for received data of one session that cannot be delivered yet. From
    /// 1 MiB to 64 GiB, default 64 MiB.
    pub receive_memory: ByteCount,
    /// `recorder`: memory for the flight recorder of one session, which `hawser why` reads; a
    /// gateway may grant less. From 64 KiB to 64 MiB, or 0 for none. Default 1 MiB.
    pub recorder: ByteCount,
    /// `congestion`: congestion control of the channels. Default `"auto"`.
    pub congestion: Congestion,
    /// `express`: a second, lightly used channel on each link for small or urgent data. Default
    /// yes.
    pub express: bool,
    /// `transport`: transport of data, in both directions; the client decides. Default `"auto"`.
    pub transport: TransportChoice,
    /// `sctp-paths`: paths that carry this end's data where it travels over SCTP. Default `"all"`.
    pub sctp_paths: SctpPaths,
}

/// Encryption of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Encryption {
    /// `default`: encrypted, with the cipher that suits the processor.
    #[default]
    Default,
    /// `none`: not encrypted; for private links. Both ends must set it. The right to join a session
    /// is still verified.
    None,
}

/// Congestion control that the channels request from the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Congestion {
    /// `auto`: the best of those that the kernel allows.
    #[default]
    Auto,
    /// The one with this name, such as `bbr`.
    Named(String),
}

impl Congestion {
    /// Returns the configured name; `None` if the program chooses.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Auto => None,
            Self::Named(name) => Some(name.clone()),
        }
    }
}

impl SessionConfig {
    /// Returns the configuration of a session with at most `max_streams` streams.
    pub fn for_session(&self, max_streams: u32) -> hawser_session::SessionConfig {
        hawser_session::SessionConfig {
            scheduler: self.scheduler,
            packet_scheduler: self.packet_scheduler,
            follows_scheduler: true,
            channels_per_link: self.channels_per_link,
            chunk_size: self.chunk_size,
            receive_memory: self.receive_memory,
            // Twice the peer's memory: data that it holds, and as much in flight.
            send_memory: self.receive_memory + self.receive_memory,
            max_streams: max_streams.into(),
            recorder: self.recorder,
            survive: self.survive,
            plain: self.encryption == Encryption::None,
            sctp_paths: self.sctp_paths,
        }
    }
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            scheduler: ChunkPolicy::default(),
            packet_scheduler: PacketPolicy::default(),
            channels_per_link: Spread::default(),
            chunk_size: ChunkSize::default(),
            encryption: Encryption::default(),
            survive: DEFAULT_SURVIVE,
            receive_memory: DEFAULT_RECEIVE_MEMORY,
            recorder: DEFAULT_RECORDER,
            congestion: Congestion::default(),
            express: true,
            transport: TransportChoice::default(),
            sctp_paths: SctpPaths::default(),
        }
    }
}

impl SessionConfig {
    pub(crate) fn read(section: &Field<'_>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        section.read_keys(vec![
            key("scheduler", &mut config.scheduler, |f| {
                f.named(&ChunkPolicy::ALL, ChunkPolicy::name)
            }),
            key("packet-scheduler", &mut config.packet_scheduler, |f| {
                f.named(&PacketPolicy::ALL, PacketPolicy::name)
            }),
            key(
                "channels-per-link",
                &mut config.channels_per_link,
                read_channels,
            ),
            key("chunk-size", &mut config.chunk_size, read_chunk_size),
            key("encryption", &mut config.encryption, |f| {
                f.word(&ENCRYPTIONS)
            }),
            key("survive", &mut config.survive, |f| {
                f.duration(
                    MIN_SURVIVE..=MAX_SURVIVE,
                    "a time from 1s to 7d, such as \"60s\"",
                )
            }),
            key("receive-memory", &mut config.receive_memory, |f| {
                let is_allowed = |m: &_| (MIN_RECEIVE_MEMORY..=MAX_RECEIVE_MEMORY).contains(m);
                f.parse_if(is_allowed, "a size from 1MiB to 64GiB, such as \"64MiB\"")
            }),
            key("recorder", &mut config.recorder, |f| {
                let range = MIN_RECORDER..=MAX_RECORDER;
                f.parse_if(|m| *m == ByteCount::ZERO || range.contains(m), RECORDER)
            }),
            key("congestion", &mut config.congestion, |f| {
                f.parse_with(read_congestion, CONGESTION)
            }),
            key("express", &mut config.express, Field::boolean),
            key("transport", &mut config.transport, |f| {
                f.named(&TransportChoice::ALL, TransportChoice::name)
            }),
            key("sctp-paths", &mut config.sctp_paths, |f| {
                f.named(&SctpPaths::ALL, SctpPaths::name)
            }),
        ])?;
        Ok(config)
    }
}

fn read_channels(field: &Field<'_>) -> Result<Spread, ConfigError> {
    if field.text() == Some("auto") {
        return Ok(Spread::Auto);
    }
    let count = field.integer(1..=MAX_CHANNELS);
    let fixed = count.map(|count| Spread::Fixed(count as usize));
    fixed.map_err(|_| field.wrong("\"auto\", or a whole number from 1 to 4"))
}

fn read_chunk_size(field: &Field<'_>) -> Result<ChunkSize, ConfigError> {
    let read = |text: &str| match text {
        "auto" => Some(ChunkSize::Auto),
        "mtu" => Some(ChunkSize::Mtu),
        _ => {
            let bytes = text.parse().ok();
            let bytes = bytes.filter(|b| (MIN_CHUNK_SIZE..=MAX_CHUNK_SIZE).contains(b))?;
            Some(ChunkSize::Fixed(bytes))
        }
    };
    field.parse_with(read, "\"auto\", \"mtu\", or a size from 256B to 64KiB")
}

/// Reads the name of a congestion control: short and lower-case. Whether the kernel knows it shows
/// when a channel requests it.
fn read_congestion(text: &str) -> Option<Congestion> {
    let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
    match text {
        "auto" => Some(Congestion::Auto),
        _ if (1..=MAX_CONGESTION_NAME).contains(&text.len()) && text.bytes().all(is_name) => {
            Some(Congestion::Named(text.to_owned()))
        }
        _ => None,
    }
}

const ENCRYPTIONS: [(&str, Encryption); 2] =
    [("default", Encryption::Default), ("none", Encryption::None)];
const CONGESTION: &str = "\"auto\" or the name of a congestion control such as \"bbr\"";

const DEFAULT_SURVIVE: Duration = Duration::from_secs(60);
/// Minimum time that a session survives without links.
pub const MIN_SURVIVE: Duration = Duration::from_secs(1);
/// Maximum time that a session survives without links.
pub const MAX_SURVIVE: Duration = Duration::from_secs(7 * 86_400);

const DEFAULT_RECEIVE_MEMORY: ByteCount = ByteCount::from_mib(64);
/// Minimum memory for a session to use more than one link.
pub const MIN_RECEIVE_MEMORY: ByteCount = ByteCount::from_mib(1);
/// Maximum memory of one session.
pub const MAX_RECEIVE_MEMORY: ByteCount = ByteCount::from_mib(64 * 1024);

const DEFAULT_RECORDER: ByteCount = ByteCount::from_mib(1);
/// Minimum memory of a recorder, for more than a moment.
pub const MIN_RECORDER: ByteCount = ByteCount::from_kib(64);
/// Maximum memory of a recorder.
pub const MAX_RECORDER: ByteCount = ByteCount::from_mib(64);
const RECORDER: &str = "a size from 64KiB to 64MiB, such as \"1MiB\", or \"0B\" for none";

/// PATTHEL's `channel spread`.
const MAX_CHANNELS: u32 = 4;
/// Minimum chunk size: below it, headers take far more than 1.5 % of the bytes.
pub const MIN_CHUNK_SIZE: ByteCount = ByteCount::new(256);
/// The largest chunk.
pub const MAX_CHUNK_SIZE: ByteCount = ByteCount::from_kib(64);

/// `TCP_CA_NAME_MAX` less the closing zero.
const MAX_CONGESTION_NAME: usize = 15;
