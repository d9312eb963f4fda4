//! Services of this machine that are called over the system's message bus (D-Bus).
//!
//! Only a running service is called: no call starts one. Each answer has to be small and to arrive
//! soon, except for answers for which a separate task waits, so that a service that hangs or lies
//! costs neither time nor memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zbus::connection::Builder;
use zbus::fdo::DBusProxy;
use zbus::message::Type as MessageType;
use zbus::names::{OwnedUniqueName, WellKnownName};
use zbus::zvariant::{DynamicType, OwnedObjectPath, OwnedValue, Type};
use zbus::{Connection, MatchRule, MessageStream};

/// The properties of one interface of an object, by their names.
pub(crate) type Properties = HashMap<String, OwnedValue>;
/// The properties of an object, by its interfaces.
pub(crate) type Interfaces = HashMap<String, Properties>;

/// Why a call of a service failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
    /// There is no bus, or the connection to it is lost.
    #[error("{0}")]
    Bus(#[from] zbus::Error),
    /// The service or the bus forbids this user the call: polkit's rules, or the bus's policy.
    #[error("this user may not call {method}: {message}")]
    NotAllowed {
        /// The method called.
        method: &'static str,
        /// The text of the error.
        message: String,
    },
    /// The service has answered with another error.
    #[error("{method} has failed: {message}")]
    Failed {
        /// The method called.
        method: &'static str,
        /// The text of the error.
        message: String,
    },
    /// The answer has values of other types.
    #[error("cannot read the answer to {method}")]
    Malformed {
        /// The method called.
        method: &'static str,
    },
    /// No answer in time.
    #[error("no answer within {after:?}")]
    TimedOut {
        /// Time waited.
        after: Duration,
    },
    /// An answer that is too large to be genuine.
    #[error("the answer to {method} has {bytes} bytes; the limit is {MAX_ANSWER}")]
    TooLarge {
        /// The method called.
        method: &'static str,
        /// The size of the answer.
        bytes: usize,
    },
    /// The bus has ended the connection.
    #[error("the bus has closed the connection")]
    Closed,
}

impl BusError {
    /// Returns whether only this call failed: other calls may well succeed.
    pub fn is_of_one_question(&self) -> bool {
        matches!(
            self,
            Self::NotAllowed { .. } | Self::Failed { .. } | Self::Malformed { .. }
        )
    }
}

/// A running service, addressed by its present owner.
#[derive(Clone)]
pub(crate) struct Service {
    connection: Connection,
    owner: OwnedUniqueName,
}

impl Service {
    /// Finds the service called `name`; `None` if it does not run.
    pub(crate) async fn find(name: &'static str) -> Result<Option<Self>, BusError> {
        let connection = soon(async { Ok(Builder::system()?.build().await?) }).await?;
        Self::of(&connection, name).await
    }

    async fn of(connection: &Connection, name: &'static str) -> Result<Option<Self>, BusError> {
        let owner = async {
            let bus = DBusProxy::new(connection).await?;
            let name = WellKnownName::try_from(name).map_err(zbus::Error::from)?;
            match bus.get_name_owner(name.into()).await {
                Ok(owner) => Ok(Some(owner)),
                Err(zbus::fdo::Error::NameHasNoOwner(_)) => Ok(None),
                Err(error) => Err(zbus::Error::from(error).into()),
            }
        };
        let owner = soon(owner).await?;
        Ok(owner.map(|owner| Self {
            connection: connection.clone(),
            owner,
        }))
    }

    /// Returns the objects that the service lists at `path`, by their paths.
    pub(crate) async fn objects(
        &self,
        path: &str,
    ) -> Result<BTreeMap<String, Interfaces>, BusError> {
        let manager = "org.freedesktop.DBus.ObjectManager";
        type Objects = HashMap<OwnedObjectPath, Interfaces>;
        let objects: Objects = self.call(path, manager, "GetManagedObjects", &()).await?;
        let named = objects.into_iter();
        Ok(named.map(|(path, it)| (path.to_string(), it)).collect())
    }

    /// Returns the properties of one interface of an object.
    pub(crate) async fn properties(
        &self,
        path: &str,
        interface: &str,
    ) -> Result<Properties, BusError> {
        let properties = "org.freedesktop.DBus.Properties";
        self.call(path, properties, "GetAll", &(interface,)).await
    }

    /// Calls a method, and returns its answer, which has to arrive soon.
    pub(crate) async fn call<T>(
        &self,
        path: &str,
        interface: &str,
        method: &'static str,
        arguments: &(impl Serialize + DynamicType),
    ) -> Result<T, BusError>
    where
        T: DeserializeOwned + Type,
    {
        soon(self.call_patiently(path, interface, method, arguments)).await
    }

    /// As [`Self::call`], but waits without a time limit. Fails when the service or the bus ends
    /// without an answer.
    pub(crate) async fn call_patiently<T>(
        &self,
        path: &str,
        interface: &str,
        method: &'static str,
        arguments: &(impl Serialize + DynamicType),
    ) -> Result<T, BusError>
    where
        T: DeserializeOwned + Type,
    {
        let owner = Some(self.owner.as_str());
        let called = &self.connection;
        let called = called.call_method(owner, path, Some(interface), method, arguments);
        let answer = called.await.map_err(|error| refusal(method, error))?;
        let bytes = answer.data().len();
        if bytes > MAX_ANSWER {
            return Err(BusError::TooLarge { method, bytes });
        }
        let body = answer.body();
        body.deserialize()
            .map_err(|_| BusError::Malformed { method })
    }

    /// Returns the service's unique name on the bus, which changes when the service restarts.
    pub(crate) fn owner(&self) -> &str {
        self.owner.as_str()
    }
}

/// Watches a service start, change and stop.
pub(crate) struct Following {
    name: &'static str,
    connection: Connection,
    changed: Arc<Notify>,
    /// Reads signals off the connection, also while a call waits: unread signals would delay
    /// answers. Ends with the bus.
    noticing: JoinSet<()>,
    was_told: bool,
}

impl Following {
    /// Follows the service called `name`. Fails where there is no bus.
    pub(crate) async fn start(name: &'static str) -> Result<Self, BusError> {
        let connection = soon(async { Ok(Builder::system()?.build().await?) }).await?;
        let mut changes = Vec::new();
        // The service's own signals, and changes of its owner. A forged signal only makes Hawser
        // read the service sooner.
        let signals = || MatchRule::builder().msg_type(MessageType::Signal);
        let own = signals().sender(name)?.build();
        let owner = signals().sender("org.freedesktop.DBus")?;
        let owner = owner.member("NameOwnerChanged")?.arg(0, name)?.build();
        for rule in [own, owner] {
            // One pending signal is as good as many.
            let followed = MessageStream::for_match_rule(rule, &connection, Some(1));
            changes.push(soon(async { Ok(followed.await?) }).await?);
        }
        let changed = Arc::new(Notify::new());
        let mut noticing = JoinSet::new();
        let notify = Arc::clone(&changed);
        noticing.spawn(async move {
            let mut changes = futures_util::stream::select_all(changes);
            while changes.next().await.is_some() {
                notify.notify_one();
            }
            notify.notify_one();
        });
        Ok(Self {
            name,
            connection,
            changed,
            noticing,
            was_told: false,
        })
    }

    /// Returns the service, at once and then repeatedly, soon after it signals a change; `None`
    /// while it does not run. Fails when the bus is gone.
    pub(crate) async fn next(&mut self) -> Result<Option<Service>, BusError> {
        if std::mem::replace(&mut self.was_told, true) {
            sleep(READ_AT_MOST_EVERY).await;
            // Any number of pending signals count as one.
            let _ = timeout(READ_EVERY, self.changed.notified()).await;
        }
        if self.noticing.try_join_next().is_some() {
            return Err(BusError::Closed);
        }
        Service::of(&self.connection, self.name).await
    }
}

/// Returns a property; `None` if it is missing or of another type.
pub(crate) fn property<T: TryFrom<OwnedValue>>(properties: &Properties, name: &str) -> Option<T> {
    T::try_from(properties.get(name)?.try_clone().ok()?).ok()
}

/// Classifies the error of a call.
fn refusal(method: &'static str, error: zbus::Error) -> BusError {
    let zbus::Error::MethodError(name, message, _) = error else {
        return error.into();
    };
    let name = name.as_str();
    let message = message.as_deref().unwrap_or(name);
    let message = message.chars().take(MAX_MESSAGE).collect();
    match name.rsplit('.').next() {
        Some("AccessDenied" | "PermissionDenied" | "Unauthorized") => {
            BusError::NotAllowed { method, message }
        }
        _ => BusError::Failed { method, message },
    }
}

async fn soon<T>(asked: impl Future<Output = Result<T, BusError>>) -> Result<T, BusError> {
    match timeout(PATIENCE, asked).await {
        Ok(answered) => answered,
        Err(_) => Err(BusError::TimedOut { after: PATIENCE }),
    }
}

/// Longest time that an answer may take. Modems take a second for some calls.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer. ModemManager sends some 5 kB for a modem, NetworkManager 1 kB for a
/// device.
const MAX_ANSWER: usize = 1 << 20;
/// Characters of an error's text that are kept.
const MAX_MESSAGE: usize = 200;
/// Least time between two reads: a service may send any number of signals a second.
const READ_AT_MOST_EVERY: Duration = Duration::from_millis(500);
/// Longest time between two reads: signals trigger one sooner, but do not cover every change.
const READ_EVERY: Duration = Duration::from_secs(10);
