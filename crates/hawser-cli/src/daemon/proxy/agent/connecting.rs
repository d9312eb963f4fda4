//! Has NetworkManager connect the links on standby, and disconnect them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hawser_control::StandbyStatus;
use hawser_director::Health;
use hawser_front::connection::SharedDirector;
use hawser_net::network_manager::{DeviceState, NetworkManager};
use hawser_net::{BusError, clock};
use hawser_types::{Instant, LimitedBy, Permission};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::standby::{Action, Device, Standby};
use crate::daemon::proxy::links::Links;

/// What is shown of the links on standby, by their names.
pub(crate) type ShownStandby = Arc<Mutex<BTreeMap<String, StandbyStatus>>>;

/// Connects links when no other is well, and disconnects them when others are again.
pub(super) struct Connecting {
    standby: Standby,
    director: SharedDirector,
    /// None while it does not run.
    manager: Option<NetworkManager>,
    asked_at: Option<Instant>,
    shown: ShownStandby,
}

impl Connecting {
    pub(super) fn new(links: Vec<String>, director: SharedDirector, shown: ShownStandby) -> Self {
        Self {
            standby: Standby::new(links),
            director,
            manager: None,
            asked_at: None,
            shown,
        }
    }

    /// Does so until it is told to end; then disconnects what it has connected, unless that is all
    /// there is.
    pub(super) async fn run(
        mut self,
        (mut changes, mut links): (watch::Receiver<()>, Links),
        mut end: watch::Receiver<()>,
    ) {
        loop {
            self.look().await;
            tokio::select! {
                _ = end.changed() => break,
                Ok(()) = changes.changed() => {}
                Ok(()) = links.changed() => {}
                () = sleep(LOOK_EVERY) => {}
            }
        }
        while let Some(action) = self.standby.poll_end() {
            self.act(action).await;
        }
    }

    async fn look(&mut self) {
        let now = clock::now();
        let is_needed = self.is_needed();
        self.standby.handle_need(now, is_needed);
        let is_busy = is_needed || self.standby.has_own();
        let pause = if is_busy { LOOK_EVERY } else { ASK_EVERY };
        if self.asked_at.is_none_or(|at| now.since(at) >= pause) {
            self.asked_at = Some(now);
            self.ask().await;
        }
        while let Some(action) = self.standby.poll_action(clock::now()) {
            self.act(action).await;
        }
        self.show();
    }

    /// True if no link is well but those that this has connected.
    fn is_needed(&self) -> bool {
        let about_to_go = Permission::Reserve(LimitedBy::Signal).rank();
        let report = self.director.report();
        !report.links.iter().any(|it| {
            let is_well = it.health == Health::Sound && it.permission.rank() < about_to_go;
            is_well && !self.standby.is_own(&it.link.name)
        })
    }

    /// Asks NetworkManager for all links.
    async fn ask(&mut self) {
        let asked = match timeout(PATIENCE, self.ask_for_all()).await {
            Ok(asked) => asked,
            Err(_) => Err(BusError::TimedOut { after: PATIENCE }),
        };
        match asked {
            Ok(devices) => {
                let now = clock::now();
                for (link, device) in devices {
                    self.standby.handle_device(now, &link, device);
                }
            }
            Err(error) => self.lose(&error),
        }
    }

    async fn ask_for_all(&mut self) -> Result<Vec<(String, Device)>, BusError> {
        if self.manager.is_none() {
            self.manager = NetworkManager::find().await?;
        }
        let Some(manager) = &self.manager else {
            self.standby.handle_absence();
            return Ok(Vec::new());
        };
        let mut devices = Vec::new();
        for link in self.standby.links() {
            let device = match manager.device(link).await?.map(|it| it.state) {
                None => Device::Unavailable("NetworkManager knows no such link"),
                Some(DeviceState::Unmanaged) => {
                    Device::Unavailable("NetworkManager leaves it to others")
                }
                Some(DeviceState::Unavailable) => {
                    Device::Unavailable("it has no carrier, no SIM card, or its radio is off")
                }
                Some(DeviceState::Disconnected { by_user }) => Device::Disconnected { by_user },
                Some(DeviceState::Active { connection, is_up }) => {
                    Device::Active { connection, is_up }
                }
            };
            devices.push((link.to_owned(), device));
        }
        Ok(devices)
    }

    /// It is looked for again with the next question.
    fn lose(&mut self, error: &BusError) {
        if self.manager.take().is_some() {
            tracing::warn!(%error, "NetworkManager is not asked for links any more");
        }
        self.standby.handle_absence();
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Connect(link) => {
                let made = self.connect(&link).await;
                let made = made.map_err(|error| error.to_string());
                match &made {
                    Ok(_) => tracing::info!(link, "connecting it: no other link is well"),
                    Err(error) => tracing::warn!(link, error, "it can't be connected"),
                }
                self.standby.handle_connected(clock::now(), &link, made);
            }
            Action::Disconnect { link, connection } => {
                let ended = match &self.manager {
                    Some(manager) => manager.disconnect(&connection).await,
                    None => Ok(()),
                };
                match ended {
                    Ok(()) => tracing::info!(link, "disconnecting it: it is not needed"),
                    Err(error) => tracing::warn!(link, %error, "it can't be disconnected"),
                }
                self.standby.handle_disconnected(&link);
            }
        }
    }

    async fn connect(&self, link: &str) -> anyhow::Result<String> {
        let manager = self.manager.as_ref();
        let manager = manager.ok_or_else(|| anyhow::anyhow!("NetworkManager does not run"))?;
        let device = manager.device(link).await?;
        let device = device.ok_or_else(|| anyhow::anyhow!("NetworkManager knows no such link"))?;
        Ok(manager.connect(&device).await?)
    }

    fn show(&self) {
        let links = self.standby.links();
        let shown = links.filter_map(|link| Some((link.to_owned(), self.standby.status(link)?)));
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown.collect();
    }
}

/// What makes links suspect gives no notice.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// NetworkManager, while nothing is to be done.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// For all links together.
const PATIENCE: Duration = Duration::from_secs(10);
