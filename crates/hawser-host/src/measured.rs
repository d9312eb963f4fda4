//! The measurements that ModemManager was asked for, and how they end.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::bus::{BusError, Service, property};

/// Modems that measure because this program has asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// The bus's name for the ModemManager process that was asked.
    owner: String,
    /// Seconds between measurements, by ModemManager's names for modems.
    modems: BTreeMap<String, u32>,
}

impl Measured {
    fn by(owner: &str) -> Self {
        Self {
            owner: owner.to_owned(),
            modems: BTreeMap::new(),
        }
    }

    /// Records that `service` is asked to have a modem measure every `seconds`. Discards requests
    /// to another service process.
    pub(crate) fn insert(&mut self, service: &Service, path: &str, seconds: u32) {
        if self.owner != service.owner() {
            *self = Self::by(service.owner());
        }
        self.modems.insert(path.to_owned(), seconds);
    }

    /// Records that a modem was not asked after all.
    pub(crate) fn remove(&mut self, path: &str) {
        self.modems.remove(path);
    }

    /// Forgets modems that are gone.
    pub(crate) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.modems.retain(|path, _| is_there(path));
    }

    /// Ends the measurements of modems whose interval is still the one asked for.
    pub(crate) async fn end(self) -> Result<(), BusError> {
        let service = Service::find(NAME).await?;
        let Some(service) = service.filter(|it| it.owner() == self.owner) else {
            return Ok(());
        };
        let mut ended = Ok(());
        for (path, seconds) in self.modems {
            // A modem that is gone no longer measures.
            let Ok(signal) = service.properties(&path, SIGNAL).await else {
                continue;
            };
            if property(&signal, "Rate") == Some(seconds) {
                ended = ended.and(set_up(&service, &path, 0).await);
            }
        }
        ended
    }
}

/// Writes one line: neither bus names nor object names contain blanks or `=`.
impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.owner)?;
        let mut modems = self.modems.iter();
        modems.try_for_each(|(path, seconds)| write!(f, " {path}={seconds}"))
    }
}

/// The line is not a list of measurements.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotMeasured;

impl FromStr for Measured {
    type Err = NotMeasured;

    fn from_str(line: &str) -> Result<Self, NotMeasured> {
        let mut words = line.split(' ');
        let owner = words.next().filter(|it| !it.is_empty());
        let modem = |word: &str| {
            let (path, seconds) = word.split_once('=').ok_or(NotMeasured)?;
            let seconds = seconds.parse().map_err(|_| NotMeasured)?;
            Ok((path.to_owned(), seconds))
        };
        Ok(Self {
            owner: owner.ok_or(NotMeasured)?.to_owned(),
            modems: words.map(modem).collect::<Result<_, _>>()?,
        })
    }
}

/// Makes a modem measure its signal every `seconds`; 0 ends it.
pub(crate) async fn set_up(service: &Service, path: &str, seconds: u32) -> Result<(), BusError> {
    service.call(path, SIGNAL, "Setup", &(seconds,)).await
}

pub(crate) const NAME: &str = "org.freedesktop.ModemManager1";
/// Interface of a modem that has its signal.
pub(crate) const SIGNAL: &str = "org.freedesktop.ModemManager1.Modem.Signal";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_the_guard_parses_to_the_same_measurements() {
        let mut measured = Measured::by(":1.7");
        assert_eq!(measured.to_string().parse(), Ok(measured.clone()));
        for (number, seconds) in [(0, 5), (12, 60)] {
            measured.modems.insert(format!("/Modem/{number}"), seconds);
        }
        assert_eq!(measured.to_string(), ":1.7 /Modem/0=5 /Modem/12=60");
        assert_eq!(measured.to_string().parse(), Ok(measured));
        for wrong in ["", ":1.7 /Modem/0", ":1.7 /Modem/0=often"] {
            assert_eq!(wrong.parse::<Measured>(), Err(NotMeasured), "{wrong}");
        }
    }
}
