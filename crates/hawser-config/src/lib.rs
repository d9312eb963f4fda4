//! Configuration files: strict TOML to validated types.
//!
//! A configuration file is optional, and so is every key in it: [`Config::default`] is the meaning
//! of an empty file. Keys are kebab-case, values have units (`"25Mbit/s"`, `"40ms"`, `"64MiB"`),
//! and nothing is clamped or ignored: an unknown key or a value outside its range is a
//! [`ConfigError`] that names file, line, key, the value found and the values allowed.
//!
//! The way through: [`Config::load`] → `document.rs` (a document that is read key by key and knows
//! positions) → one file for each section: `up.rs`, `serve.rs` (with `front.rs`), `session.rs`,
//! `connection.rs`, `directory.rs`, `link.rs`, `rule.rs`. `rule.rs` also reads files of rules, and
//! has the profiles and the built-in rules ([`rule_set`]).
//!
//! To add a key:
//!
//! 1. a field with its default and its reading in the section's file;
//! 2. a line in `docs/hawser.example.toml`, which shows every key with its default;
//! 3. `tests.rs`: `every_key_reaches_its_place` (begin a section there if yours is missing) and the
//!    lists of wrong values; the tests also load the example;
//! 4. where a flag sets it too: `args.rs` or `args/` of `hawser-cli`, which overrides the file
//!    (`apply_to`); for `[session]` a function beside `with_transport` in `setup.rs` of
//!    `hawser-daemon`, called in `commands/up.rs` of `hawser-cli`;
//! 5. for `[session]`: `for_session` hands it to `config.rs` of `hawser-session`, whose public
//!    fields `api.txt` of `hawser` lists (`cargo xtask api --bless`); what the driver takes goes by
//!    `proxy/session.rs` and `gateway/door.rs` of `hawser-daemon`;
//! 6. for `[connection]`: its use in `proxy/` (`direct.rs`, `peering.rs`), `up/parts.rs` or `up.rs`
//!    of `hawser-daemon`; what the last two use, `commands/run.rs` of `hawser-cli` uses too (tests:
//!    `connections.rs`, `peer.rs` in `end_to_end/`).
#![forbid(unsafe_code)]

mod address;
mod capture;
mod connection;
mod directory;
mod document;
mod error;
mod front;
mod gateway;
mod http_url;
mod link;
mod rule;
mod serve;
mod session;
mod up;
mod user;

use std::path::Path;

pub use address::{HostPort, HostPortError, read_network};
pub use capture::{CaptureScope, UnknownCaptureScope};
pub use connection::ConnectionConfig;
pub use directory::{Digest, DirectoryConfig, DirectoryLimits};
pub use error::ConfigError;
pub use front::{DEFAULT_FRONT_PORT, FrontConfig, FrontPort, UnknownFrontPort};
pub use gateway::{GatewaySource, GatewaySourceError};
pub use hawser_sched::chunk::ChunkPolicy;
pub use hawser_sched::connection::{ConnectionPolicy, GatewayUse};
pub use hawser_session::{
    ChunkSize, SctpPaths, TransportChoice, UnknownSctpPaths, UnknownTransport,
};
pub use http_url::{HttpUrl, HttpUrlError};
pub use ipnet::IpNet;
pub use link::{LinkConfig, read_link_name};
pub use rule::{load_rules, parse_rules, rule_set};
pub use serve::{
    DEFAULT_GATEWAY_PORT, MAX_LIMIT, PACKET_POOL, PacketExit, ServeConfig, ServeLimits,
    UnknownPacketExit, WEB_ADDRESS, read_web_address,
};
pub use session::{
    Congestion, Encryption, MAX_CHUNK_SIZE, MAX_RECEIVE_MEMORY, MAX_RECORDER, MAX_SURVIVE,
    MIN_CHUNK_SIZE, MIN_RECEIVE_MEMORY, MIN_RECORDER, MIN_SURVIVE, SessionConfig,
};
pub use up::{DEFAULT_PROXY_PORT, MAX_VOUCHED, UpConfig};
pub use user::{UnknownUser, read_user};

use hawser_policy::{Rule, Source};

use document::{Field, key};

/// Content of a configuration file.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Config {
    /// `[serve]`: the gateway.
    pub serve: ServeConfig,
    /// `[up]`: the proxy port and the gateway.
    pub up: UpConfig,
    /// `[session]`: chunking, distribution and encryption of data; for both ends.
    pub session: SessionConfig,
    /// `[directory]`: the SIP registrar and proxy beside the gateway.
    pub directory: DirectoryConfig,
    /// `[[link]]`: properties of links, at most one entry for a name.
    pub links: Vec<LinkConfig>,
    /// `[connection]`: connections that each go over one link.
    pub connection: ConnectionConfig,
    /// `[[rule]]`: the user's rules for connections, the first ahead of the others.
    pub rules: Vec<Rule>,
}

impl Config {
    /// Reads the file at `path`.
    ///
    /// Fails when it cannot be read, is larger than 1 MiB, is not TOML, or has an invalid key or
    /// value.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        document::load(path, Self::parse)
    }

    /// Reads `text`; `file` is the name that errors give to it.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        document::parse(file, text, Self::read)
    }

    /// Returns the entry for the link called `name`.
    pub fn link(&self, name: &str) -> Option<&LinkConfig> {
        self.links.iter().find(|link| link.name == name)
    }

    fn read(root: &Field<'_>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        root.read_keys(vec![
            key("serve", &mut config.serve, ServeConfig::read),
            key("up", &mut config.up, UpConfig::read),
            key("session", &mut config.session, SessionConfig::read),
            key("directory", &mut config.directory, DirectoryConfig::read),
            key("link", &mut config.links, link::read_all),
            key("connection", &mut config.connection, ConnectionConfig::read),
            key("rule", &mut config.rules, |f| {
                rule::read_all(f, Source::User)
            }),
        ])?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
