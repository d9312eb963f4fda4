//! Congestion control: one trait, one file for each algorithm.

mod bbr;
#[cfg(test)]
mod bench;
mod control;
mod cubic;
mod reno;
#[cfg(test)]
mod tests;

use hawser_types::ByteCount;

use crate::Control;
use bbr::Bbr;
pub(crate) use control::{Acknowledged, CongestionControl, Lost, RateSample};
use cubic::Cubic;
use reno::Reno;

/// Creates the congestion control of a new path, for packets of `packet` bytes.
pub(crate) fn new(control: Control, packet: ByteCount) -> Box<dyn CongestionControl> {
    match control {
        Control::Reno => Box::new(Reno::new(packet)),
        Control::FirstReno => Box::new(Reno::first(packet)),
        Control::Cubic => Box::new(Cubic::new(packet)),
        Control::Bbr => Box::new(Bbr::new(packet)),
    }
}
