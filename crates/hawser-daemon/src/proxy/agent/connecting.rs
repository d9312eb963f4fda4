//! Makes NetworkManager connect and disconnect the standby links.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hawser_control::StandbyStatus;
use hawser_director::{Health, LinkReport};
use hawser_front::connection::SharedDirector;
use hawser_host::BusError;
use hawser_host::network_manager::{self, DeviceState, NetworkManager};
use hawser_net::clock;
use hawser_sched::standby::{Action, Device, Standby};
use hawser_types::{Instant, LimitedBy, Permission};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::proxy::links::Links;

/// Status of the standby links, by their names.
pub(crate) type ShownStandby = Arc<Mutex<BTreeMap<String, StandbyStatus>>>;

/// Connects standby links when no other link works, and disconnects them when others work again.
pub(super) struct Connecting {
    standby: Standby,
    director: SharedDirector,
    /// `None` while NetworkManager does not run.
    manager: Option<NetworkManager>,
    /// True if NetworkManager lets this program connect links.
    is_allowed: bool,
    /// The links' devices in NetworkManager, as of its latest answer.
    devices: BTreeMap<String, network_manager::Device>,
    asked_at: Option<Instant>,
    /// Attempts that NetworkManager has not answered in time, by link. If an attempt succeeds
    /// later, its connection counts as made by this program.
    late: BTreeMap<String, Attempt>,
    shown: ShownStandby,
}

impl Connecting {
    pub(super) fn new(links: Vec<String>, director: SharedDirector, shown: ShownStandby) -> Self {
        Self {
            standby: Standby::new(links),
            director,
            manager: None,
            is_allowed: false,
            devices: BTreeMap::new(),
            asked_at: None,
            late: BTreeMap::new(),
            shown,
        }
    }

    /// Connects and disconnects links until told to end. Then disconnects its own links, unless
    /// no other link works.
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
        self.disconnect_all().await;
        // The caller limits the time for this.
        while let Some((link, asked)) = self.late.pop_first() {
            self.take_late(&link, asked).await;
            self.disconnect_all().await;
        }
    }

    /// Disconnects the links that this program has connected, unless they are needed.
    async fn disconnect_all(&mut self) {
        // The need may have changed since the latest look.
        let now = clock::now();
        let is_needed = self.is_needed(now);
        self.standby.handle_need(now, is_needed);
        while let Some(action) = self.standby.poll_end() {
            self.act(action).await;
        }
    }

    async fn look(&mut self) {
        let now = clock::now();
        let is_needed = self.is_needed(now);
        self.standby.handle_need(now, is_needed);
        let is_busy = is_needed || self.standby.has_own();
        let pause = if is_busy { LOOK_EVERY } else { ASK_EVERY };
        if self.asked_at.is_none_or(|at| now.since(at) >= pause) {
            self.asked_at = Some(now);
            self.ask().await;
        }
        let late = self.late.iter().filter(|(_, asked)| asked.is_finished());
        let answered: Vec<String> = late.map(|(link, _)| link.clone()).collect();
        for link in answered {
            if let Some(asked) = self.late.remove(&link) {
                self.take_late(&link, asked).await;
            }
        }
        while let Some(action) = self.standby.poll_action(clock::now()) {
            self.act(action).await;
        }
        self.show();
    }

    /// Returns whether no link works except those that this program has connected.
    fn is_needed(&mut self, now: Instant) -> bool {
        let about_to_go = Permission::Reserve(LimitedBy::Signal).rank();
        let report = self.director.report();
        let is_well =
            |it: &&LinkReport| it.health == Health::Sound && it.permission.rank() < about_to_go;
        let well = report.links.iter().filter(is_well);
        let well: BTreeSet<&str> = well.map(|it| it.link.name.as_str()).collect();
        let links = self
            .standby
            .links()
            .filter(|link| self.standby.is_own(link));
        let own: Vec<String> = links.map(str::to_owned).collect();
        for link in &own {
            let is_well = well.contains(link.as_str());
            self.standby.handle_health(now, link, is_well);
        }
        well.iter().all(|link| self.standby.is_own(link))
    }

    /// Asks NetworkManager for the devices of all standby links.
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
            (self.manager, self.is_allowed) = (NetworkManager::find().await?, false);
        }
        let Some(manager) = &self.manager else {
            self.standby.handle_absence(ABSENT);
            return Ok(Vec::new());
        };
        if !self.is_allowed {
            self.is_allowed = manager.is_allowed().await?;
        }
        self.devices = manager.devices(self.standby.links()).await?;
        let links = self.standby.links();
        let said = links.map(|link| (link.to_owned(), self.said(self.devices.get(link))));
        Ok(said.collect())
    }

    /// Returns the state of a device by NetworkManager's answer.
    fn said(&self, device: Option<&network_manager::Device>) -> Device {
        let unavailable = |reason: &str| Device::Unavailable(reason.to_owned());
        match device.map(|it| &it.state) {
            None => unavailable(UNKNOWN),
            Some(DeviceState::Unmanaged) => unavailable("NetworkManager leaves it to others"),
            Some(DeviceState::Unavailable) => {
                unavailable("it has no carrier, no SIM card, or its radio is off")
            }
            Some(DeviceState::Disconnected { .. }) if !self.is_allowed => {
                unavailable("NetworkManager does not let this user connect links")
            }
            Some(&DeviceState::Disconnected { by_user }) => Device::Disconnected { by_user },
            Some(DeviceState::Active { connection, is_up }) => Device::Active {
                connection: connection.clone(),
                is_up: *is_up,
            },
        }
    }

    /// Drops the connection to NetworkManager. The next request looks for it again.
    fn lose(&mut self, error: &BusError) {
        if self.manager.take().is_some() {
            tracing::warn!(%error, "lost the connection to NetworkManager");
        }
        let reason = format!("NetworkManager does not answer: {error}");
        self.standby.handle_absence(&reason);
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Connect(link) => {
                let made = self.connect(&link).await;
                match &made {
                    Ok(_) => tracing::info!(link, "connecting standby link: no other link works"),
                    Err(error) => tracing::warn!(link, error, "can't connect standby link"),
                }
                self.standby.handle_connected(clock::now(), &link, made);
            }
            Action::Disconnect { link, connection } => {
                let Some(manager) = &self.manager else {
                    // The action is tried again when NetworkManager answers.
                    return self.standby.handle_absence(ABSENT);
                };
                match manager.disconnect(&connection).await {
                    Ok(()) => tracing::info!(link, "disconnecting standby link: not needed"),
                    Err(error) if !error.is_of_one_question() => return self.lose(&error),
                    Err(error) => tracing::warn!(link, %error, "can't disconnect standby link"),
                }
                self.standby.handle_disconnected(&link);
            }
        }
    }

    /// Returns the name of the connection, or the reason of the failure. Keeps an attempt that is
    /// not answered in time in `late`.
    async fn connect(&mut self, link: &str) -> Result<String, String> {
        let late = BusError::TimedOut {
            after: ANSWER_PATIENCE,
        };
        let (manager, device) = match (&self.manager, self.devices.get(link)) {
            _ if self.late.contains_key(link) => return Err(late.to_string()),
            (None, _) => return Err(ABSENT.to_owned()),
            (_, None) => return Err(UNKNOWN.to_owned()),
            (Some(manager), Some(device)) => (manager, device),
        };
        let (asked, manager) = (manager.connect(device), manager.clone());
        let mut asked = tokio::spawn(async move { Ok((asked.await?, manager)) });
        match timeout(ANSWER_PATIENCE, &mut asked).await {
            Ok(Ok(made)) => made
                .map(|(name, _)| name)
                .map_err(|error: BusError| error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                self.late.insert(link.to_owned(), asked);
                Err(late.to_string())
            }
        }
    }

    /// Handles the result of an attempt that was answered late.
    async fn take_late(&mut self, link: &str, asked: Attempt) {
        match asked.await {
            Ok(Ok((connection, manager))) => {
                tracing::info!(link, "standby link connected late");
                // NetworkManager answers again, and can be asked to disconnect the link.
                self.manager.get_or_insert(manager);
                let now = clock::now();
                self.standby.handle_connected(now, link, Ok(connection));
            }
            Ok(Err(error)) => tracing::debug!(link, %error, "connecting standby link failed late"),
            Err(error) => tracing::debug!(link, %error, "task that connects standby link failed"),
        }
    }

    fn show(&self) {
        let links = self.standby.links();
        let shown = links.filter_map(|link| {
            let (state, reason) = self.standby.status(link)?;
            let reason = reason.map(str::to_owned);
            Some((link.to_owned(), StandbyStatus { state, reason }))
        });
        *self.shown.lock() = shown.collect();
    }
}

/// A request to connect a link: yields the connection's name and the NetworkManager that was asked.
type Attempt = JoinHandle<Result<(String, NetworkManager), BusError>>;

const ABSENT: &str = "NetworkManager does not run";
const UNKNOWN: &str = "NetworkManager knows no such link";
/// Period of looks at the links: the director does not notify of suspect links.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Period of requests to NetworkManager while no link needs to be connected.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// Time limit for connecting a link, before the link counts as failed.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Time limit for a request about all links together.
const PATIENCE: Duration = Duration::from_secs(10);
