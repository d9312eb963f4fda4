use hawser_types::{ModemState, Radio, SignalState, SignalStrength};
use serde::{Deserialize, Serialize};

/// Signal of a link with a radio, or with a strength set by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalStatus {
    /// The latest strength.
    #[serde(rename = "dbm")]
    pub strength: SignalStrength,
    /// Technology of the radio.
    pub radio: Radio,
    /// Trend of the signal: traffic leaves a link whose signal is not good.
    pub state: SignalState,
    /// Source of the value.
    pub source: SignalSource,
    /// Strength below which traffic leaves the link.
    #[serde(rename = "leave_below_dbm")]
    pub leave_below: SignalStrength,
}

/// Source of a signal's strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SignalSource {
    /// The user, by a command.
    User,
    /// The kernel's driver of a Wi-Fi card.
    Kernel,
    /// The service that runs modems.
    Modem,
}

/// The modem behind a link, as ModemManager knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModemStatus {
    /// Activity of the modem.
    pub state: ModemState,
    /// Technology of its connection, such as `LTE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub technology: Option<String>,
    /// Reason why its signal is not measured although the user wants that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ModemStatus {
    /// Returns the modem's activity in words: `its modem is connected (LTE)`.
    pub fn told(&self) -> String {
        let state = match self.state {
            ModemState::Failed => "has failed",
            ModemState::Locked => "waits for a PIN",
            ModemState::Off => "is off",
            ModemState::Searching => "has no network",
            ModemState::Registered => "is registered",
            ModemState::Connecting => "connects or disconnects",
            ModemState::Connected => "is connected",
            ModemState::Roaming => "is connected and roams",
        };
        let technology = self.technology.as_ref();
        let technology = technology.map_or_else(String::new, |it| format!(" ({it})"));
        let reason = self.reason.as_ref();
        let reason = reason.map_or_else(String::new, |it| {
            format!("; its signal is not measured: {it}")
        });
        format!("its modem {state}{technology}{reason}")
    }
}

impl SignalStatus {
    /// Returns a warning if traffic leaves the link: `its signal fades (-83dBm)`.
    pub fn warning(&self) -> Option<String> {
        let what = match self.state {
            SignalState::Good => return None,
            SignalState::Fading => "fades",
            SignalState::Lost => "is lost",
        };
        Some(format!("its signal {what} ({})", self.strength))
    }
}
