//! When links are connected that the user wants only while no other is well.

use std::time::Duration;

use hawser_control::{StandbyState, StandbyStatus};
use hawser_types::Instant;

/// Decides which links on standby to connect and to disconnect.
///
/// The contract: tell by [`Self::handle_need`] whether a link is needed, and by
/// [`Self::handle_device`] what NetworkManager says of each link; then do what
/// [`Self::poll_action`] says and tell the outcome, until it says nothing. Call again about once a
/// second, and when something has changed.
///
/// A link that others have connected is theirs: it is never disconnected. One that the user
/// disconnects stays so until it is needed anew.
#[derive(Debug)]
pub(super) struct Standby {
    /// In the user's order.
    links: Vec<(String, Reserve)>,
    /// Time since when the links that are no standby have not been enough.
    needed_since: Option<Instant>,
    /// Time since when they have been enough.
    enough_since: Option<Instant>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Connect this link; the outcome goes to [`Standby::handle_connected`].
    Connect(String),
    /// End this connection of NetworkManager's.
    Disconnect { link: String, connection: String },
}

/// What NetworkManager says of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// It cannot be connected, for this reason.
    Unavailable(&'static str),
    /// It is there and not connected; `by_user`: since the user wanted that.
    Disconnected { by_user: bool },
    /// It has this connection, which is complete or on its way.
    Active { connection: String, is_up: bool },
}

#[derive(Debug, Default)]
struct Reserve {
    device: Option<Device>,
    /// The connection that this has made, by NetworkManager's name for it.
    own: Option<String>,
    /// True if the user has disconnected it while it was needed.
    is_dismissed: bool,
    failures: u32,
    /// Not tried before that time.
    not_before: Option<Instant>,
    problem: Option<String>,
}

impl Standby {
    pub(super) fn new(links: Vec<String>) -> Self {
        let links = links.into_iter().map(|link| (link, Reserve::default()));
        Self {
            links: links.collect(),
            needed_since: None,
            enough_since: None,
        }
    }

    /// Returns the links on standby.
    pub(super) fn links(&self) -> impl Iterator<Item = &str> {
        self.links.iter().map(|(link, _)| link.as_str())
    }

    /// True if this has connected the link.
    pub(super) fn is_own(&self, link: &str) -> bool {
        let mut links = self.links.iter();
        links.any(|(name, it)| name == link && it.own.is_some())
    }

    /// Takes in whether all other links together are not enough.
    pub(super) fn handle_need(&mut self, now: Instant, is_needed: bool) {
        if is_needed {
            self.needed_since.get_or_insert(now);
            self.enough_since = None;
            return;
        }
        self.enough_since.get_or_insert(now);
        self.needed_since = None;
        for (_, it) in &mut self.links {
            it.is_dismissed = false;
        }
    }

    /// Takes in what NetworkManager says of a link.
    pub(super) fn handle_device(&mut self, now: Instant, link: &str, device: Device) {
        let is_needed = self.needed_since.is_some();
        let Some(it) = self.of(link) else {
            return;
        };
        let is_still = |own: &String| match &device {
            Device::Active { connection, .. } => connection == own,
            _ => false,
        };
        if it.own.as_ref().is_some_and(|own| !is_still(own)) {
            it.own = None;
            match device {
                Device::Disconnected { by_user: true } => it.is_dismissed = is_needed,
                // The user has made another of it.
                Device::Active { .. } => {}
                _ => it.fail(now, "its connection has failed"),
            }
        }
        if let (Some(_), Device::Active { is_up: true, .. }) = (&it.own, &device) {
            (it.failures, it.problem) = (0, None);
        }
        it.device = Some(device);
    }

    /// Takes in that NetworkManager is not there: nothing is known of any link.
    pub(super) fn handle_absence(&mut self) {
        for (_, it) in &mut self.links {
            (it.device, it.own) = (None, None);
        }
    }

    /// Takes in the outcome of [`Action::Connect`]: NetworkManager's name of the connection.
    pub(super) fn handle_connected(
        &mut self,
        now: Instant,
        link: &str,
        made: Result<String, String>,
    ) {
        let Some(it) = self.of(link) else {
            return;
        };
        match made {
            Ok(connection) => {
                it.own = Some(connection.clone());
                it.device = Some(Device::Active {
                    connection,
                    is_up: false,
                });
            }
            Err(problem) => it.fail(now, &problem),
        }
    }

    /// Takes in that a connection was ended.
    pub(super) fn handle_disconnected(&mut self, link: &str) {
        if let Some(it) = self.of(link) {
            (it.own, it.device) = (None, None);
        }
    }

    /// Returns what to do now.
    pub(super) fn poll_action(&self, now: Instant) -> Option<Action> {
        let is_due = |since: Option<Instant>, after| since.is_some_and(|it| it + after <= now);
        if is_due(self.enough_since, QUIET) {
            return self.to_disconnect();
        }
        // One at a time.
        if !is_due(self.needed_since, HESITATION) || self.has_own() {
            return None;
        }
        let mut links = self.links.iter();
        let ready = links.find(|(_, it)| it.is_ready() && it.not_before.is_none_or(|at| at <= now));
        ready.map(|(link, _)| Action::Connect(link.clone()))
    }

    /// Returns what to disconnect at the end: what this has connected, unless it is needed.
    pub(super) fn poll_end(&self) -> Option<Action> {
        self.enough_since.and_then(|_| self.to_disconnect())
    }

    /// True if this has connected any link.
    pub(super) fn has_own(&self) -> bool {
        self.links.iter().any(|(_, it)| it.own.is_some())
    }

    /// Returns what is shown of a link.
    pub(super) fn status(&self, link: &str) -> Option<StandbyStatus> {
        let (_, it) = self.links.iter().find(|(name, _)| name == link)?;
        let (state, reason) = match (&it.device, &it.own) {
            (None, _) => (
                StandbyState::Unavailable,
                Some("NetworkManager does not run"),
            ),
            (Some(Device::Unavailable(why)), _) => (StandbyState::Unavailable, Some(*why)),
            (Some(Device::Active { is_up: false, .. }), Some(_)) => {
                (StandbyState::Connecting, None)
            }
            (Some(Device::Active { .. }), Some(_)) => (StandbyState::Connected, None),
            (Some(Device::Active { .. }), None) => (StandbyState::ByOthers, None),
            (Some(_), _) if it.is_dismissed => (StandbyState::Dismissed, None),
            (Some(_), _) => (StandbyState::Waiting, it.problem.as_deref()),
        };
        Some(StandbyStatus {
            state,
            reason: reason.map(str::to_owned),
        })
    }

    fn to_disconnect(&self) -> Option<Action> {
        let mut links = self.links.iter();
        links.find_map(|(link, it)| {
            Some(Action::Disconnect {
                link: link.clone(),
                connection: it.own.clone()?,
            })
        })
    }

    fn of(&mut self, link: &str) -> Option<&mut Reserve> {
        let mut links = self.links.iter_mut();
        links.find_map(|(name, it)| (name == link).then_some(it))
    }
}

impl Reserve {
    fn is_ready(&self) -> bool {
        let is_off = matches!(self.device, Some(Device::Disconnected { .. }));
        is_off && self.own.is_none() && !self.is_dismissed
    }

    fn fail(&mut self, now: Instant, problem: &str) {
        let pause = FIRST_PAUSE * 2_u32.pow(self.failures.min(MAX_DOUBLINGS));
        self.not_before = Some(now + pause);
        self.failures = self.failures.saturating_add(1);
        self.problem = Some(problem.to_owned());
    }
}

/// How long a link is needed before it is connected: others may be back by then.
const HESITATION: Duration = Duration::from_secs(1);
/// How long a link is not needed before it is disconnected. A signal that swings, or a train in a
/// hilly country, would else connect and disconnect a modem all the time.
const QUIET: Duration = Duration::from_secs(120);
/// After a failure; twice as long after each further one, up to 16 minutes.
const FIRST_PAUSE: Duration = Duration::from_secs(15);
const MAX_DOUBLINGS: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn off() -> Device {
        Device::Disconnected { by_user: false }
    }

    fn active(connection: &str) -> Device {
        Device::Active {
            connection: connection.to_owned(),
            is_up: true,
        }
    }

    fn disconnect(connection: &str) -> Option<Action> {
        Some(Action::Disconnect {
            link: "a".to_owned(),
            connection: connection.to_owned(),
        })
    }

    fn connect(link: &str) -> Option<Action> {
        Some(Action::Connect(link.to_owned()))
    }

    /// Two links on standby, both off.
    fn standby() -> Standby {
        let mut standby = Standby::new(vec!["a".to_owned(), "b".to_owned()]);
        for link in ["a", "b"] {
            standby.handle_device(at(0), link, off());
        }
        standby
    }

    /// The same with the first one connected since it is needed.
    fn connected() -> Standby {
        let mut standby = standby();
        standby.handle_need(at(0), true);
        standby.handle_connected(at(1), "a", Ok("/1".to_owned()));
        standby.handle_device(at(2), "a", active("/1"));
        standby
    }

    fn state(standby: &Standby) -> StandbyState {
        standby.status("a").unwrap().state
    }

    #[test]
    fn the_first_link_is_connected_when_it_is_needed_for_a_while_and_no_other_with_it() {
        let mut standby = standby();
        assert_eq!(standby.poll_action(at(9)), None);
        standby.handle_need(at(10), true);
        assert_eq!(standby.poll_action(at(10)), None);
        standby.handle_need(at(11), true);
        assert_eq!(standby.poll_action(at(11)), connect("a"));
        standby.handle_connected(at(11), "a", Ok("/1".to_owned()));
        assert_eq!(state(&standby), StandbyState::Connecting);
        assert_eq!(standby.poll_action(at(99)), None);
        standby.handle_device(at(12), "a", active("/1"));
        assert_eq!(
            (state(&standby), standby.is_own("a")),
            (StandbyState::Connected, true)
        );
    }

    #[test]
    fn a_link_is_disconnected_when_it_was_not_needed_for_long_and_never_one_of_others() {
        let mut standby = connected();
        standby.handle_device(at(2), "b", active("/2"));
        standby.handle_need(at(10), false);
        standby.handle_need(at(50), true);
        standby.handle_need(at(60), false);
        assert_eq!(standby.poll_action(at(179)), None);
        assert_eq!(standby.poll_action(at(180)), disconnect("/1"));
        standby.handle_disconnected("a");
        assert_eq!(standby.poll_action(at(999)), None);
    }

    #[test]
    fn what_the_user_does_by_hand_holds() {
        // Disconnected while it is needed: not again before it is needed anew.
        let mut standby = connected();
        standby.handle_device(at(20), "a", Device::Disconnected { by_user: true });
        assert_eq!(state(&standby), StandbyState::Dismissed);
        assert_eq!(standby.poll_action(at(99)), connect("b"));
        standby.handle_need(at(100), false);
        standby.handle_need(at(101), true);
        assert_eq!(standby.poll_action(at(102)), connect("a"));

        // Connected otherwise: theirs.
        let mut standby = connected();
        standby.handle_device(at(20), "a", active("/7"));
        assert_eq!(state(&standby), StandbyState::ByOthers);
        standby.handle_need(at(21), false);
        assert_eq!(
            (standby.poll_action(at(999)), standby.poll_end()),
            (None, None)
        );
    }

    #[test]
    fn failures_are_repeated_ever_more_rarely_and_others_are_tried_meanwhile() {
        let mut standby = standby();
        standby.handle_device(at(0), "b", Device::Unavailable("it has no carrier"));
        standby.handle_need(at(0), true);
        let mut now = 1;
        for pause in [15, 30, 60, 120, 240, 480, 960, 960] {
            assert_eq!(standby.poll_action(at(now)), connect("a"));
            standby.handle_connected(at(now), "a", Err("no SIM card".to_owned()));
            assert_eq!(standby.poll_action(at(now + pause - 1)), None);
            now += pause;
        }
        let shown = standby.status("a").unwrap();
        assert_eq!(
            (shown.state, shown.reason.as_deref()),
            (StandbyState::Waiting, Some("no SIM card"))
        );
        standby.handle_device(at(now - 1), "b", off());
        assert_eq!(standby.poll_action(at(now - 1)), connect("b"));
    }

    #[test]
    fn at_the_end_a_link_stays_if_it_is_the_only_one() {
        let mut standby = connected();
        assert_eq!(standby.poll_end(), None);
        standby.handle_need(at(9), false);
        assert_eq!(standby.poll_end(), disconnect("/1"));
    }

    #[test]
    fn a_service_that_is_gone_has_no_connection_of_ours() {
        let mut standby = connected();
        standby.handle_absence();
        assert_eq!(
            (state(&standby), standby.is_own("a")),
            (StandbyState::Unavailable, false)
        );
        assert_eq!(standby.poll_action(at(99)), None);
    }
}
