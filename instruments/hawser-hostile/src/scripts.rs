//! The table of scripts. A new script takes a few lines in one of these files.

mod associations;
mod channels;
mod commands;
mod floods;
mod gateways;
mod memory;
mod packets;
mod strangers;
mod streams;

use crate::script::Script;

/// A group of scripts about one matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The gateway is to hold ever more.
    Memory,
    /// The rules of streams.
    Streams,
    /// Commands and state.
    Commands,
    /// Channels, joins and the gateway's port.
    Channels,
    /// The port for clients that have not enrolled.
    Strangers,
    /// The UDP port, and associations behind it.
    Associations,
    /// A gateway that carries packets, and has a network of its own.
    Packets,
    /// A gateway against a client.
    Gateways,
    /// Many of each: streams of a kind, commands and frames of a type, first words.
    Floods,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 9] = [
        Self::Memory,
        Self::Streams,
        Self::Commands,
        Self::Channels,
        Self::Strangers,
        Self::Associations,
        Self::Packets,
        Self::Gateways,
        Self::Floods,
    ];

    /// Its scripts.
    pub fn scripts(self) -> Vec<Script> {
        match self {
            Self::Memory => memory::memory(),
            Self::Streams => streams::streams(),
            Self::Commands => commands::commands(),
            Self::Channels => channels::channels(),
            Self::Strangers => strangers::strangers(),
            Self::Associations => associations::associations(),
            Self::Packets => packets::packets(),
            Self::Gateways => gateways::gateways(),
            Self::Floods => floods::floods(),
        }
    }
}

/// All scripts.
pub fn all() -> Vec<Script> {
    Group::ALL.into_iter().flat_map(Group::scripts).collect()
}

/// The script of this name.
pub fn named(name: &str) -> Option<Script> {
    all().into_iter().find(|script| script.name == name)
}
