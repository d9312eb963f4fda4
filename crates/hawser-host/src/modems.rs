//! The modems of this machine and the signals of their links, from ModemManager.
//!
//! ModemManager knows the strength only while it measures, which keeps a modem awake: Hawser asks
//! it to measure only the links that the user has chosen.

mod measuring;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use hawser_types::{ModemState, Radio, SignalStrength};
use tokio::time::sleep;
use zbus::zvariant::{OwnedObjectPath, OwnedValue};

pub use self::measuring::Measuring;
use crate::bus::{BusError, Following, Interfaces, Properties, Service, property};
use crate::measured::{NAME, SIGNAL};

/// The link of a modem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modem {
    /// The interface that carries its data.
    pub link: String,
    /// State of the modem.
    pub state: ModemState,
    /// The technology of its connection, such as `LTE`, where known.
    pub technology: Option<&'static str>,
    /// Kind of radio and strength, if the strength is measured and the link carries data.
    pub signal: Option<(Radio, SignalStrength)>,
    /// Why the strength is not measured although the user wants it.
    pub problem: Option<String>,
}

/// Calls `tell` with all modems, repeatedly, until `ended` resolves. The list is empty while
/// ModemManager does not run.
///
/// `measuring` says which signals ModemManager shall measure. They end with this call.
pub async fn follow_modems(
    mut measuring: Measuring,
    mut tell: impl FnMut(Vec<Modem>),
    ended: impl Future<Output = ()>,
) {
    let following = async {
        loop {
            let Err(error) = follow(&mut measuring, &mut tell).await;
            tracing::debug!(%error, "cannot follow modems, retrying");
            tell(Vec::new());
            sleep(TRY_AGAIN).await;
        }
    };
    tokio::select! {
        () = following => {}
        () = ended => {}
    }
    measuring.end().await;
}

/// Calls `tell` with all modems, repeatedly, until the bus is gone.
async fn follow(
    measuring: &mut Measuring,
    tell: &mut impl FnMut(Vec<Modem>),
) -> Result<Infallible, BusError> {
    let mut following = Following::start(NAME).await?;
    loop {
        let modems = match following.next().await? {
            Some(service) => read(&service, measuring).await,
            None => Ok(Vec::new()),
        };
        tell(modems.unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot read modems from ModemManager");
            Vec::new()
        }));
    }
}

/// Returns ModemManager's name for the modem with this link; `None` if it knows no such modem.
pub(crate) async fn modem_behind(link: &str) -> Result<Option<String>, BusError> {
    let Some(service) = Service::find(NAME).await? else {
        return Ok(None);
    };
    for (path, modem) in service.objects(ROOT).await?.into_iter().take(MAX_MODEMS) {
        if modem.contains_key(MODEM) && links(&service, &modem).await?.contains_key(link) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Lists the modems; `None` where ModemManager does not run.
pub async fn list_modems() -> Result<Option<Vec<Modem>>, BusError> {
    match Service::find(NAME).await? {
        Some(service) => read(&service, &mut Measuring::default()).await.map(Some),
        None => Ok(None),
    }
}

async fn read(service: &Service, measuring: &mut Measuring) -> Result<Vec<Modem>, BusError> {
    let objects = service.objects(ROOT).await?;
    let modems = objects.iter().filter(|(_, it)| it.contains_key(MODEM));
    let mut told = Vec::new();
    for (path, modem) in modems.take(MAX_MODEMS) {
        let links = links(service, modem).await?;
        measuring.ask(service, path, modem, links.keys()).await;
        let links = links.into_iter();
        let problem = measuring.refusal(path);
        told.extend(links.map(|(link, is_connected)| Modem {
            problem: problem.map(str::to_owned),
            ..describe(modem, link, is_connected)
        }));
    }
    measuring.keep(|path| objects.contains_key(path));
    Ok(told)
}

/// Returns the names of a modem's links, and whether each of them carries data.
async fn links(service: &Service, modem: &Interfaces) -> Result<BTreeMap<String, bool>, BusError> {
    let ports: Vec<(String, u32)> = value(modem, MODEM, "Ports").unwrap_or_default();
    let ports = ports.into_iter().filter(|(_, kind)| *kind == NETWORK_PORT);
    let ports = ports.map(|(name, _)| (name, false)).take(MAX_LINKS);
    let mut links: BTreeMap<String, bool> = ports.collect();
    let bearers: Vec<OwnedObjectPath> = value(modem, MODEM, "Bearers").unwrap_or_default();
    for bearer in bearers.iter().take(MAX_LINKS) {
        // The bearer may have vanished.
        let bearer = match service.properties(bearer.as_str(), BEARER).await {
            Err(error) if error.is_of_one_question() => continue,
            read => read?,
        };
        let link: Option<String> = property(&bearer, "Interface");
        if let Some(link) = link.filter(|_| property(&bearer, "Connected") == Some(true)) {
            links.insert(link, true);
        }
    }
    Ok(links)
}

fn describe(modem: &Interfaces, link: String, is_connected: bool) -> Modem {
    let technologies = value(modem, MODEM, "AccessTechnologies").unwrap_or_default();
    let technology = Technology::of(technologies);
    let signal = technology.filter(|_| is_connected).and_then(|it| {
        let (radio, interface, fact) = it.measured?;
        let facts: Properties = value(modem, SIGNAL, interface)?;
        Some((radio, SignalStrength::nearest(property(&facts, fact)?)?))
    });
    Modem {
        link,
        state: state(modem),
        technology: technology.map(|it| it.name),
        signal,
        problem: None,
    }
}

/// Reads the registration too: for ModemManager a modem that lost its network is still connected.
fn state(modem: &Interfaces) -> ModemState {
    let state = match value(modem, MODEM, "State").unwrap_or_default() {
        i32::MIN..=-1 => ModemState::Failed,
        2 => ModemState::Locked,
        7 => ModemState::Searching,
        8 => ModemState::Registered,
        9 | 10 => ModemState::Connecting,
        11 => ModemState::Connected,
        _ => ModemState::Off,
    };
    // Absent for a modem without 3GPP networks.
    let registration: Option<u32> = value(modem, NETWORK, "RegistrationState");
    match registration {
        // Home network, with all services or without calls.
        None | Some(1 | 6 | 9) => state,
        Some(5 | 7 | 10) if state == ModemState::Connected => ModemState::Roaming,
        Some(5 | 7 | 10) => state,
        Some(_) if state.has_network() => ModemState::Searching,
        Some(_) => state,
    }
}

fn value<T: TryFrom<OwnedValue>>(object: &Interfaces, interface: &str, name: &str) -> Option<T> {
    property(object.get(interface)?, name)
}

/// An access technology, and the property that holds its signal strength.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Technology {
    name: &'static str,
    /// The radio, the property of the signal interface, and the key in that property.
    measured: Option<(Radio, &'static str, &'static str)>,
}

impl Technology {
    /// Reads a set of `MMModemAccessTechnology`. If LTE and 5G are used together, LTE anchors the
    /// connection.
    fn of(technologies: u32) -> Option<Self> {
        let has = |bits: u32| technologies & bits != 0;
        let lte = Some((Radio::Lte, "Lte", "rsrp"));
        let (name, measured) = match () {
            () if has(LTE) && has(NR) => ("LTE and 5G", lte),
            () if has(LTE) => ("LTE", lte),
            () if has(NR) => ("5G", Some((Radio::Nr, "Nr5g", "rsrp"))),
            () if has(UMTS) => ("UMTS", Some((Radio::Umts, "Umts", "rscp"))),
            () if has(CDMA) => ("CDMA", None),
            () if has(GSM) => ("GSM", None),
            () => return None,
        };
        Some(Self { name, measured })
    }
}

const ROOT: &str = "/org/freedesktop/ModemManager1";
const MODEM: &str = "org.freedesktop.ModemManager1.Modem";
const NETWORK: &str = "org.freedesktop.ModemManager1.Modem.Modem3gpp";
const BEARER: &str = "org.freedesktop.ModemManager1.Bearer";
/// `MM_MODEM_PORT_TYPE_NET`.
const NETWORK_PORT: u32 = 2;
/// Bits of `MMModemAccessTechnology`: GSM to EDGE, UMTS to HSPA+, and LTE with its narrow variants.
const GSM: u32 = 0b1_1110;
const UMTS: u32 = 0b11_1110_0000;
const CDMA: u32 = 0b11_1100_0000_0000;
const LTE: u32 = 1 << 14 | 1 << 16 | 1 << 17;
const NR: u32 = 1 << 15;
/// Most modems that are read: no real machine has more.
const MAX_MODEMS: usize = 32;
/// Most links of one modem.
const MAX_LINKS: usize = 8;
/// A bus may be started at any time.
const TRY_AGAIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use zbus::zvariant::Value;

    use super::*;

    fn modem(state: impl Into<Value<'static>>, technologies: u32) -> Interfaces {
        let own = |value: Value<'static>| OwnedValue::try_from(value).unwrap();
        let signal = |fact: &'static str, dbm: f64| {
            own(Value::from(std::collections::HashMap::from([(
                fact,
                Value::from(dbm),
            )])))
        };
        let of = |properties: Vec<(&str, OwnedValue)>| {
            let named = properties.into_iter();
            named
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Properties>()
        };
        Interfaces::from([
            (
                MODEM.to_owned(),
                of(vec![
                    ("State", own(state.into())),
                    ("AccessTechnologies", own(technologies.into())),
                ]),
            ),
            (
                SIGNAL.to_owned(),
                of(vec![
                    ("Lte", signal("rsrp", -101.6)),
                    ("Nr5g", signal("rsrp", -95.0)),
                    ("Umts", signal("rscp", f64::MIN)),
                ]),
            ),
        ])
    }

    fn dbm(radio: Radio, strength: i16) -> Option<(Radio, SignalStrength)> {
        Some((radio, SignalStrength::new(strength).unwrap()))
    }

    #[test]
    fn the_strength_is_that_of_the_radio_that_holds_the_connection() {
        for (technologies, name, expected) in [
            (1 << 14, Some("LTE"), dbm(Radio::Lte, -102)),
            (1 << 14 | 1 << 15, Some("LTE and 5G"), dbm(Radio::Lte, -102)),
            (1 << 15, Some("5G"), dbm(Radio::Nr, -95)),
            // ModemManager's value for an unknown strength.
            (1 << 5 | 1 << 6, Some("UMTS"), None),
            (1 << 3, Some("GSM"), None),
            (0, None, None),
        ] {
            let told = describe(&modem(11, technologies), "wwan0".to_owned(), true);
            assert_eq!(
                (told.technology, told.signal),
                (name, expected),
                "{technologies:b}"
            );
            let idle = describe(&modem(8, technologies), "wwan0".to_owned(), false);
            assert_eq!(idle.signal, None);
        }
    }

    #[test]
    fn a_connected_modem_that_has_lost_its_network_searches() {
        let with = |state: i32, registration: u32| {
            let mut modem = modem(state, 1 << 14);
            let registration = OwnedValue::from(registration);
            let network = Properties::from([("RegistrationState".to_owned(), registration)]);
            modem.insert(NETWORK.to_owned(), network);
            super::state(&modem)
        };
        assert_eq!(super::state(&modem(11, 0)), ModemState::Connected);
        assert_eq!(with(11, 1), ModemState::Connected);
        assert_eq!(with(11, 5), ModemState::Roaming);
        assert_eq!(with(11, 2), ModemState::Searching);
        assert_eq!(with(11, 3), ModemState::Searching, "refused");
        assert_eq!(with(11, 99), ModemState::Searching, "unheard of");
        assert_eq!(with(8, 5), ModemState::Registered);
        assert_eq!(with(-1, 0), ModemState::Failed);
        assert_eq!(with(3, 0), ModemState::Off);
    }

    #[test]
    fn values_of_other_types_are_as_good_as_none() {
        let told = describe(&modem("connected", 1 << 14), "wwan0".to_owned(), true);
        assert_eq!(told.state, ModemState::Off);
        let mut wrong = modem(11, 1 << 14);
        let text = OwnedValue::try_from(Value::from("strong")).unwrap();
        wrong
            .get_mut(SIGNAL)
            .unwrap()
            .insert("Lte".to_owned(), text);
        assert_eq!(describe(&wrong, "wwan0".to_owned(), true).signal, None);
    }
}
