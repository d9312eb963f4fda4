//! Connecting and disconnecting links by NetworkManager.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use zbus::zvariant::{ObjectPath, OwnedObjectPath};

use crate::bus::{BusError, Properties, Service, property};
use crate::modems::modem_behind;

/// NetworkManager, while it runs.
#[derive(Clone)]
pub struct NetworkManager {
    service: Service,
}

/// A link, as NetworkManager knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    path: String,
    /// State of the device.
    pub state: DeviceState,
}

/// How NetworkManager handles a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// NetworkManager leaves the device to other programs.
    Unmanaged,
    /// The device cannot be connected: no carrier, no SIM card, or its radio is off.
    Unavailable,
    /// The device can be connected.
    Disconnected {
        /// True if the user has disconnected it.
        by_user: bool,
    },
    /// The device is being connected, is connected or is being disconnected.
    Active {
        /// NetworkManager's name for the connection. A later connection has another name.
        connection: String,
        /// True if the connection is complete.
        is_up: bool,
    },
}

impl NetworkManager {
    /// Finds NetworkManager; `None` if it does not run.
    pub async fn find() -> Result<Option<Self>, BusError> {
        let service = Service::find(NAME).await?;
        Ok(service.map(|service| Self { service }))
    }

    /// Returns the devices of links, by the links' names. Unknown links are missing.
    pub async fn devices<'a>(
        &self,
        links: impl Iterator<Item = &'a str>,
    ) -> Result<BTreeMap<String, Device>, BusError> {
        let mut missing: BTreeSet<&str> = links.collect();
        let manager = self.service.properties(ROOT, NAME).await?;
        let paths: Vec<OwnedObjectPath> = property(&manager, "Devices").unwrap_or_default();
        let (mut found, mut modems) = (BTreeMap::new(), Vec::new());
        for path in paths.iter().take(MAX_DEVICES).map(|path| path.as_str()) {
            // The device may have vanished.
            let device = match self.service.properties(path, DEVICE).await {
                Err(error) if error.is_of_one_question() => continue,
                read => read?,
            };
            let names = ["Interface", "IpInterface"].map(|it| property::<String>(&device, it));
            let mut names = names.iter().flatten();
            if let Some(link) = names.find_map(|name| missing.take(name.as_str())) {
                found.insert(link.to_owned(), self.describe(path, &device));
            } else if property(&device, "DeviceType") == Some(MODEM) {
                modems.push((path, device));
            }
        }
        if !modems.is_empty() {
            // A modem's device is named after its control port.
            for link in missing {
                // Without ModemManager the other devices are still found.
                let Ok(modem) = modem_behind(link).await else {
                    break;
                };
                let is_that = |device: &Properties| {
                    modem.is_some() && property::<String>(device, "Udi") == modem
                };
                if let Some((path, device)) = modems.iter().find(|(_, it)| is_that(it)) {
                    found.insert(link.to_owned(), self.describe(path, device));
                }
            }
        }
        Ok(found)
    }

    /// Returns whether this program may connect and disconnect links without a prompt to the user.
    pub async fn is_allowed(&self) -> Result<bool, BusError> {
        let answer = self.service.call(ROOT, NAME, "GetPermissions", &());
        let permissions: HashMap<String, String> = answer.await?;
        Ok(permissions.get(ACTION).is_some_and(|it| it == "yes"))
    }

    /// Connects a device by the connection that NetworkManager prefers. Returns the connection's
    /// name, with no time limit. If the caller stops waiting, the connection attempt goes on. The
    /// connection is complete when [`Self::devices`] says so.
    pub fn connect(
        &self,
        device: &Device,
    ) -> impl Future<Output = Result<String, BusError>> + Send + use<> {
        let (manager, device) = (self.clone(), device.path.clone());
        async move {
            // Leaves the choice of connection and access point to NetworkManager.
            let any = || ObjectPath::try_from("/").map_err(zbus::Error::from);
            let path = ObjectPath::try_from(device.as_str()).map_err(zbus::Error::from)?;
            let arguments = (any()?, path, any()?);
            let service = &manager.service;
            let made = service.call_patiently(ROOT, NAME, "ActivateConnection", &arguments);
            let made: OwnedObjectPath = made.await?;
            Ok(manager.name(&made))
        }
    }

    /// Ends a connection, if the present NetworkManager process has made it.
    pub async fn disconnect(&self, connection: &str) -> Result<(), BusError> {
        let path = connection.strip_prefix(self.service.owner());
        let Some(path) = path.filter(|path| path.starts_with('/')) else {
            return Ok(());
        };
        let path = ObjectPath::try_from(path).map_err(zbus::Error::from)?;
        self.service
            .call(ROOT, NAME, "DeactivateConnection", &(path,))
            .await
    }

    fn describe(&self, path: &str, device: &Properties) -> Device {
        Device {
            path: path.to_owned(),
            state: state(device, |connection| self.name(connection)),
        }
    }

    /// Builds a unique name of a connection: a restarted NetworkManager counts from 1 again, but
    /// has another name on the bus.
    fn name(&self, connection: &OwnedObjectPath) -> String {
        format!("{}{connection}", self.service.owner())
    }
}

fn state(device: &Properties, name: impl FnOnce(&OwnedObjectPath) -> String) -> DeviceState {
    let connection: Option<OwnedObjectPath> = property(device, "ActiveConnection");
    let connection = connection.filter(|it| it.as_str() != "/");
    let (_, reason): (u32, u32) = property(device, "StateReason").unwrap_or_default();
    match (property(device, "State").unwrap_or(0_u32), connection) {
        (UNAVAILABLE, _) => DeviceState::Unavailable,
        (DISCONNECTED, _) => DeviceState::Disconnected {
            by_user: reason == USER_REQUESTED,
        },
        (state @ DISCONNECTED.., Some(connection)) => DeviceState::Active {
            connection: name(&connection),
            is_up: state == ACTIVATED,
        },
        (DISCONNECTED.., None) => DeviceState::Disconnected { by_user: false },
        _ => DeviceState::Unmanaged,
    }
}

const NAME: &str = "org.freedesktop.NetworkManager";
const ROOT: &str = "/org/freedesktop/NetworkManager";
const DEVICE: &str = "org.freedesktop.NetworkManager.Device";
/// Name of the action in polkit.
const ACTION: &str = "org.freedesktop.NetworkManager.network-control";
/// Values of `NMDeviceType`, `NMDeviceState` and `NMDeviceStateReason`.
const MODEM: u32 = 8;
const UNAVAILABLE: u32 = 20;
const DISCONNECTED: u32 = 30;
const ACTIVATED: u32 = 100;
const USER_REQUESTED: u32 = 39;
/// Machines with containers have many devices.
const MAX_DEVICES: usize = 256;

#[cfg(test)]
mod tests {
    use zbus::zvariant::{OwnedValue, Value};

    use super::*;

    fn read(state: u32, reason: u32, connection: &str) -> DeviceState {
        let own = |value: Value<'static>| OwnedValue::try_from(value).unwrap();
        let path = ObjectPath::try_from(connection.to_owned()).unwrap();
        let device = Properties::from([
            ("State".to_owned(), OwnedValue::from(state)),
            ("StateReason".to_owned(), own(Value::from((state, reason)))),
            ("ActiveConnection".to_owned(), own(Value::from(path))),
        ]);
        super::state(&device, |path| format!(":1.7{path}"))
    }

    #[test]
    fn states_are_read_with_their_connection_and_its_end() {
        let active = |is_up| DeviceState::Active {
            connection: ":1.7/7".to_owned(),
            is_up,
        };
        assert_eq!(read(10, 0, "/"), DeviceState::Unmanaged);
        assert_eq!(read(20, 0, "/"), DeviceState::Unavailable);
        assert_eq!(
            read(30, 39, "/"),
            DeviceState::Disconnected { by_user: true }
        );
        assert_eq!(
            read(30, 40, "/"),
            DeviceState::Disconnected { by_user: false }
        );
        assert_eq!(read(50, 0, "/7"), active(false));
        assert_eq!(read(100, 0, "/7"), active(true));
        assert_eq!(
            read(120, 4, "/"),
            DeviceState::Disconnected { by_user: false }
        );
        let nothing = super::state(&Properties::new(), |_| String::new());
        assert_eq!(nothing, DeviceState::Unmanaged);
    }
}
