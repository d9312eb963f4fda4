//! Connecting and disconnecting links by NetworkManager.

use zbus::zvariant::{ObjectPath, OwnedObjectPath};

use crate::bus::{BusError, Properties, Service, property};
use crate::links::modem_behind;

/// NetworkManager, while it runs.
pub struct NetworkManager {
    service: Service,
}

/// A link, as NetworkManager knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    path: String,
    /// What it is doing.
    pub state: DeviceState,
}

/// What NetworkManager does with a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// Nothing: others look after it.
    Unmanaged,
    /// It can't be connected: no carrier, no SIM card, its radio is off.
    Unavailable,
    /// It can be connected.
    Disconnected {
        /// True if the user has disconnected it.
        by_user: bool,
    },
    /// It is being connected, is connected or is being disconnected.
    Active {
        /// NetworkManager's name for the connection. A later one has another.
        connection: String,
        /// True if the connection is complete.
        is_up: bool,
    },
}

impl NetworkManager {
    /// Finds it; `None` where it does not run.
    pub async fn find() -> Result<Option<Self>, BusError> {
        let service = Service::find(NAME).await?;
        Ok(service.map(|service| Self { service }))
    }

    /// Returns the device of a link; `None` if it has none.
    pub async fn device(&self, link: &str) -> Result<Option<Device>, BusError> {
        let manager = self.service.properties(ROOT, NAME).await?;
        let paths: Vec<OwnedObjectPath> = property(&manager, "Devices").unwrap_or_default();
        let mut modems = Vec::new();
        for path in paths.into_iter().take(MAX_DEVICES) {
            // It may be gone by now.
            let device = match self.service.properties(path.as_str(), DEVICE).await {
                Err(BusError::Bus(_)) => continue,
                read => read?,
            };
            let is = |name: &str| property::<String>(&device, name).as_deref() == Some(link);
            if is("Interface") || is("IpInterface") {
                return Ok(Some(describe(path.to_string(), &device)));
            }
            if property(&device, "DeviceType") == Some(MODEM) {
                modems.push((path.to_string(), device));
            }
        }
        // The name of a modem's device is that of its port for commands.
        let Some(modem) = (match modems.is_empty() {
            true => None,
            false => modem_behind(link).await?,
        }) else {
            return Ok(None);
        };
        let is_that =
            |device: &Properties| property::<String>(device, "Udi").as_ref() == Some(&modem);
        let found = modems.into_iter().find(|(_, device)| is_that(device));
        Ok(found.map(|(path, device)| describe(path, &device)))
    }

    /// Connects a device by the connection that NetworkManager takes for the best. Returns its
    /// name; it is complete when [`Self::device`] says so.
    pub async fn connect(&self, device: &Device) -> Result<String, BusError> {
        // No certain connection, and no certain access point.
        let any = || ObjectPath::try_from("/").map_err(zbus::Error::from);
        let path = ObjectPath::try_from(device.path.as_str()).map_err(zbus::Error::from)?;
        let arguments = (any()?, path, any()?);
        let made: OwnedObjectPath = self
            .service
            .call(ROOT, NAME, "ActivateConnection", &arguments)
            .await?;
        Ok(made.to_string())
    }

    /// Ends a connection.
    pub async fn disconnect(&self, connection: &str) -> Result<(), BusError> {
        let path = ObjectPath::try_from(connection).map_err(zbus::Error::from)?;
        self.service
            .call(ROOT, NAME, "DeactivateConnection", &(path,))
            .await
    }
}

fn describe(path: String, device: &Properties) -> Device {
    let connection: Option<OwnedObjectPath> = property(device, "ActiveConnection");
    let connection = connection.map(|it| it.to_string()).filter(|it| it != "/");
    let (_, reason): (u32, u32) = property(device, "StateReason").unwrap_or_default();
    let state = match (property(device, "State").unwrap_or(0_u32), connection) {
        (UNAVAILABLE, _) => DeviceState::Unavailable,
        (DISCONNECTED, _) => DeviceState::Disconnected {
            by_user: reason == USER_REQUESTED,
        },
        (state @ DISCONNECTED.., Some(connection)) => DeviceState::Active {
            connection,
            is_up: state == ACTIVATED,
        },
        (DISCONNECTED.., None) => DeviceState::Disconnected { by_user: false },
        _ => DeviceState::Unmanaged,
    };
    Device { path, state }
}

const NAME: &str = "org.freedesktop.NetworkManager";
const ROOT: &str = "/org/freedesktop/NetworkManager";
const DEVICE: &str = "org.freedesktop.NetworkManager.Device";
/// Values of `NMDeviceType`, `NMDeviceState` and `NMDeviceStateReason`.
const MODEM: u32 = 8;
const UNAVAILABLE: u32 = 20;
const DISCONNECTED: u32 = 30;
const ACTIVATED: u32 = 100;
const USER_REQUESTED: u32 = 39;
/// Machines with containers have many.
const MAX_DEVICES: usize = 256;

#[cfg(test)]
mod tests {
    use zbus::zvariant::{OwnedValue, Value};

    use super::*;

    fn state(state: u32, reason: u32, connection: &str) -> DeviceState {
        let own = |value: Value<'static>| OwnedValue::try_from(value).unwrap();
        let path = ObjectPath::try_from(connection.to_owned()).unwrap();
        let device = Properties::from([
            ("State".to_owned(), OwnedValue::from(state)),
            ("StateReason".to_owned(), own(Value::from((state, reason)))),
            ("ActiveConnection".to_owned(), own(Value::from(path))),
        ]);
        describe("/1".to_owned(), &device).state
    }

    #[test]
    fn states_are_read_with_their_connection_and_its_end() {
        let active = |is_up| DeviceState::Active {
            connection: "/7".to_owned(),
            is_up,
        };
        assert_eq!(state(10, 0, "/"), DeviceState::Unmanaged);
        assert_eq!(state(20, 0, "/"), DeviceState::Unavailable);
        assert_eq!(
            state(30, 39, "/"),
            DeviceState::Disconnected { by_user: true }
        );
        assert_eq!(
            state(30, 40, "/"),
            DeviceState::Disconnected { by_user: false }
        );
        assert_eq!(state(50, 0, "/7"), active(false));
        assert_eq!(state(100, 0, "/7"), active(true));
        assert_eq!(
            state(120, 4, "/"),
            DeviceState::Disconnected { by_user: false }
        );
        let nothing = describe("/1".to_owned(), &Properties::new());
        assert_eq!(nothing.state, DeviceState::Unmanaged);
    }
}
