//! The faults and their implementation.

use std::time::{Duration, Instant};

use hawser_scenario::{Forgotten, TcpOption};
use hawser_types::{ByteCount, Rate};
use serde::{Deserialize, Serialize};

use crate::emulator::{Faults, Translator};
use crate::scenario::{Action, Scenario};
use crate::topology::{Lab, LabError};

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fault {
    Silent,
    UpDead,
    DownDead,
    Flapping,
    AddressChange,
    Rebinding,
    RebindingAll,
    NatForgets,
    NatForgetsSilently,
    Suspend,
    UdpDropped,
    UdpBlocked,
    UdpThrottled,
    UdpThrottledEarly,
    UdpThrottledOne,
    OptionsStripped,
    OptionsDropped,
    MtuHole,
    MtuHoleAll,
    GatewayKilled,
}

impl Fault {
    #[cfg(test)]
    pub(super) const ALL: [Self; 20] = [
        Self::Silent,
        Self::UpDead,
        Self::DownDead,
        Self::Flapping,
        Self::AddressChange,
        Self::Rebinding,
        Self::RebindingAll,
        Self::NatForgets,
        Self::NatForgetsSilently,
        Self::Suspend,
        Self::UdpDropped,
        Self::UdpBlocked,
        Self::UdpThrottled,
        Self::UdpThrottledEarly,
        Self::UdpThrottledOne,
        Self::OptionsStripped,
        Self::OptionsDropped,
        Self::MtuHole,
        Self::MtuHoleAll,
        Self::GatewayKilled,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::UpDead => "up-dead",
            Self::DownDead => "down-dead",
            Self::Flapping => "flapping",
            Self::AddressChange => "address-change",
            Self::Rebinding => "rebinding",
            Self::RebindingAll => "rebinding-all",
            Self::NatForgets => "nat-forgets",
            Self::NatForgetsSilently => "nat-forgets-silently",
            Self::Suspend => "suspend",
            Self::UdpDropped => "udp-dropped",
            Self::UdpBlocked => "udp-blocked",
            Self::UdpThrottled => "udp-throttled",
            Self::UdpThrottledEarly => "udp-throttled-early",
            Self::UdpThrottledOne => "udp-throttled-one",
            Self::OptionsStripped => "options-stripped",
            Self::OptionsDropped => "options-dropped",
            Self::MtuHole => "mtu-hole",
            Self::MtuHoleAll => "mtu-hole-all",
            Self::GatewayKilled => "gateway-killed",
        }
    }

    /// Time from the beginning of a transfer to the fault; zero for those that are there before
    /// anything starts.
    pub(super) fn begins(self) -> Duration {
        match self {
            Self::UdpDropped | Self::OptionsStripped | Self::OptionsDropped => Duration::ZERO,
            Self::UdpBlocked | Self::UdpThrottled => Duration::from_secs(60),
            _ => Duration::from_secs(4),
        }
    }

    /// Time that a transfer goes on after the fault began, or that a connection at rest is quiet.
    pub(super) fn lasts(self) -> Duration {
        Duration::from_secs(match self {
            Self::Suspend => 600,
            // Beyond what the translators remember, and not at a round multiple of it.
            Self::NatForgets | Self::NatForgetsSilently => 47,
            Self::Flapping
            | Self::UdpThrottled
            | Self::UdpThrottledEarly
            | Self::UdpThrottledOne => 14,
            Self::GatewayKilled => 1,
            _ => 8,
        })
    }

    /// Changes the links before the lab is built.
    pub(super) fn prepare(self, scenario: &mut Scenario) {
        if self == Self::OptionsStripped {
            for link in &mut scenario.links {
                link.strip = vec![TcpOption::Unknown, TcpOption::Sack, TcpOption::Timestamps];
            }
        }
    }

    /// What the links do before anything starts.
    pub(super) fn before(self, lab: &Lab) {
        let then = match self {
            Self::NatForgetsSilently => Forgotten::Silence,
            _ => Forgotten::Reset,
        };
        let forget = match self {
            Self::NatForgets | Self::NatForgetsSilently | Self::Suspend => 30,
            // Whatever these translators forget, they do not forget for silence.
            _ => 3600,
        };
        let translator = Translator {
            forget: Duration::from_secs(forget),
            then,
            reboots: 0,
        };
        change_all(lab, |faults| {
            match self {
                Self::Rebinding
                | Self::RebindingAll
                | Self::NatForgets
                | Self::NatForgetsSilently
                | Self::Suspend => faults.translator = Some(translator),
                Self::UdpDropped => faults.udp = Some(Rate::ZERO),
                Self::OptionsDropped => faults.drops_options = true,
                _ => {}
            };
        });
    }

    /// Lets the fault happen, and returns when no more of it is to come. `is_over` ends what goes
    /// on for long.
    pub(super) fn happen(self, lab: &Lab, is_over: impl Fn() -> bool) -> Result<(), LabError> {
        let first = |change: fn(&mut Faults)| {
            if let Some(emulator) = lab.emulator() {
                emulator.change_faults(0, change);
            }
        };
        match self {
            Self::Silent => lab.apply(0, Action::BlackHole)?,
            Self::UpDead => first(|faults| faults.up_dead = true),
            Self::DownDead => first(|faults| faults.down_dead = true),
            Self::Flapping => flap(lab, self.lasts(), is_over)?,
            Self::AddressChange => lab.apply(0, Action::AddressChange)?,
            Self::Rebinding => first(reboot),
            Self::RebindingAll => change_all(lab, reboot),
            Self::UdpBlocked => change_all(lab, |faults| faults.udp = Some(Rate::ZERO)),
            Self::UdpThrottled | Self::UdpThrottledEarly => {
                change_all(lab, |faults| faults.udp = Some(THROTTLED));
            }
            Self::UdpThrottledOne => first(|faults| faults.udp = Some(THROTTLED)),
            Self::MtuHole => first(|faults| faults.largest_packet = Some(LARGEST)),
            Self::MtuHoleAll => change_all(lab, |faults| faults.largest_packet = Some(LARGEST)),
            Self::Suspend => {
                lab.apply(0, Action::BlackHole)?;
                lab.apply(1, Action::BlackHole)?;
            }
            Self::NatForgets
            | Self::NatForgetsSilently
            | Self::UdpDropped
            | Self::OptionsStripped
            | Self::OptionsDropped
            | Self::GatewayKilled => {}
        }
        Ok(())
    }
}

/// Link 1 is silent every other second.
fn flap(lab: &Lab, span: Duration, is_over: impl Fn() -> bool) -> Result<(), LabError> {
    let begun = Instant::now();
    for second in 0.. {
        let at = Duration::from_secs(second);
        while begun.elapsed() < at {
            if is_over() {
                return lab.apply(0, Action::Pass);
            }
            std::thread::sleep(LOOK);
        }
        let silent = second % 2 == 0 && at < span;
        let action = if silent {
            Action::BlackHole
        } else {
            Action::Pass
        };
        lab.apply(0, action)?;
        if at >= span {
            break;
        }
    }
    Ok(())
}

fn reboot(faults: &mut Faults) {
    if let Some(translator) = &mut faults.translator {
        translator.reboots += 1;
    }
}

fn change_all(lab: &Lab, change: impl Fn(&mut Faults)) {
    for index in 0..lab.links().len() {
        if let Some(emulator) = lab.emulator() {
            emulator.change_faults(index, &change);
        }
    }
}

const THROTTLED: Rate = Rate::from_bits_per_second(200_000);
const LARGEST: ByteCount = ByteCount::new(1300);
const LOOK: Duration = Duration::from_millis(20);
