//! The server and its files.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use hawser_types::ByteCount;

use super::files::Percent;
use crate::ip;
use crate::netns::NetNs;
use crate::process::Program;
use crate::topology::{Lab, SERVER};
use crate::web;

/// A task whose files are on the server.
pub(super) trait Load {
    /// Returns the bytes that the task has to load.
    fn bytes(&self) -> ByteCount;

    /// The program and its arguments for this round, with nothing left of what was loaded before.
    fn command(&self, round: u8) -> io::Result<Vec<OsString>>;

    /// An error where something is missing or wrong; else how long it took, if the program knows
    /// better than who started it.
    fn check(&self, printed: &str) -> anyhow::Result<Option<f64>>;
}

/// The server with its files.
pub(super) struct Site<'a> {
    pub(super) lab: &'a Lab,
    /// Folder of the client's files.
    pub(super) folder: &'a Path,
    /// Folder of the server's files.
    pub(super) root: PathBuf,
    pub(super) percent: Percent,
    web: Program,
}

impl<'a> Site<'a> {
    /// Starts nginx on the server host, with four addresses.
    pub(super) fn start(lab: &'a Lab, folder: &'a Path, percent: Percent) -> anyhow::Result<Self> {
        let others = HOSTS.iter().filter(|host| **host != SERVER);
        let lines = others.map(|host| format!("address add {host}/32 dev lo"));
        ip::batch(lab.server(), &lines.collect::<Vec<_>>())?;
        let addresses = HOSTS.map(|host| SocketAddrV4::new(host, 80));
        let at = folder.join("web");
        // Without the types browsers refuse style sheets and images.
        let more = "types { text/html html; text/css css; text/javascript js; image/svg+xml svg; }
  add_header Cache-Control no-store;";
        let web = web::start(lab.server(), &at, &addresses, more)?;
        let root = web::root(&at);
        Ok(Self {
            lab,
            folder,
            root,
            percent,
            web,
        })
    }

    pub(super) fn client(&self) -> &NetNs {
        self.lab.client()
    }

    /// An error when it has ended.
    pub(super) fn check_alive(&mut self) -> io::Result<()> {
        self.web.check_alive()
    }
}

/// The server's addresses, which stand for hosts of their own.
pub(super) const HOSTS: [Ipv4Addr; 4] = [
    SERVER,
    Ipv4Addr::new(10, 99, 0, 2),
    Ipv4Addr::new(10, 99, 0, 3),
    Ipv4Addr::new(10, 99, 0, 4),
];
