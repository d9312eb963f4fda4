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

pub(crate) use associations::associations;
pub(crate) use channels::channels;
pub(crate) use commands::commands;
pub(crate) use floods::floods;
pub(crate) use gateways::gateways;
pub(crate) use memory::memory;
pub(crate) use packets::packets;
pub(crate) use strangers::strangers;
pub(crate) use streams::streams;
