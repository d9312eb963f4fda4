//! When to connect links that the user wants only while no other is well.

use std::time::Duration;

use hawser_types::{Instant, StandbyState};

/// Decides which links on standby to connect and to disconnect.
///
/// The links are connected by another program, the *manager*. The contract: tell by
/// [`Self::handle_need`] whether a link is needed, and by [`Self::handle_device`] what the manager
/// says of each link; then do what [`Self::poll_action`] says and tell the outcome, until it says
/// nothing. Call again about once a second, and when something has changed.
///
/// A link that others have connected is theirs: it is never disconnected. One that the user
/// disconnects stays so until it is needed anew.
#[derive(Debug)]
pub struct Standby {
    /// In the user's order.
    links: Vec<(String, Reserve)>,
    /// Why nothing is known of any link, where the manager does not answer.
    absence: Option<String>,
    /// Time since when the links that are no standby have not been enough.
    needed_since: Option<Instant>,
    /// Time since when they have been enough.
    enough_since: Option<Instant>,
}

/// Action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect this link; the outcome goes to [`Standby::handle_connected`].
    Connect(String),
    /// End the connection of a link; then call [`Standby::handle_disconnected`].
    Disconnect {
        /// The link.
        link: String,
        /// The manager's name for the connection.
        connection: String,
    },
}

/// State of a link as the network manager reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// It cannot be connected, for this reason.
    Unavailable(String),
    /// It is there and not connected.
    Disconnected {
        /// True if the user wanted that.
        by_user: bool,
    },
    /// It is connected, or on its way there.
    Active {
        /// The manager's name for the connection. A later one has another, also of a manager that
        /// was started anew.
        connection: String,
        /// True if the connection is complete.
        is_up: bool,
    },
}

#[derive(Debug, Default)]
struct Reserve {
    device: Option<Device>,
    /// The connection that this has made, by the manager's name for it.
    own: Option<String>,
    /// Time since when the connection that this has made has not been well.
    unwell_since: Option<Instant>,
    /// True if the user has disconnected it while it was needed.
    is_dismissed: bool,
    failures: u32,
    /// Not tried before that time.
    not_before: Option<Instant>,
    problem: Option<String>,
}

impl Standby {
    /// Nothing is known of these links yet; the first that can be connected is taken.
    pub fn new(links: Vec<String>) -> Self {
        let links = links.into_iter().map(|link| (link, Reserve::default()));
        Self {
            links: links.collect(),
            absence: None,
            needed_since: None,
            enough_since: None,
        }
    }

    /// Returns the links on standby.
    pub fn links(&self) -> impl Iterator<Item = &str> {
        self.links.iter().map(|(link, _)| link.as_str())
    }

    /// True if this has connected the link.
    pub fn is_own(&self, link: &str) -> bool {
        let mut links = self.links.iter();
        links.any(|(name, it)| name == link && it.own.is_some())
    }

    /// Takes in whether all other links together are not enough.
    pub fn handle_need(&mut self, now: Instant, is_needed: bool) {
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

    /// Takes in whether a link that this has connected is well: it answers, and its signal is good.
    pub fn handle_health(&mut self, now: Instant, link: &str, is_well: bool) {
        if let Some(it) = self.of(link) {
            if is_well {
                it.unwell_since = None;
            } else {
                it.unwell_since.get_or_insert(now);
            }
        }
    }

    /// Takes in what the manager says of a link.
    pub fn handle_device(&mut self, now: Instant, link: &str, device: Device) {
        let is_needed = self.needed_since.is_some();
        self.absence = None;
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

    /// Takes in that the manager does not answer, for this reason. What it was asked for before
    /// still holds when it answers again, if it is the same one.
    pub fn handle_absence(&mut self, reason: &str) {
        self.absence = Some(reason.to_owned());
        for (_, it) in &mut self.links {
            it.device = None;
        }
    }

    /// Takes in the outcome of [`Action::Connect`]: the manager's name for the connection, or why
    /// there is none.
    pub fn handle_connected(&mut self, now: Instant, link: &str, made: Result<String, String>) {
        let Some(it) = self.of(link) else {
            return;
        };
        match made {
            Ok(connection) => {
                it.own = Some(connection.clone());
                it.unwell_since = Some(now);
                it.device = Some(Device::Active {
                    connection,
                    is_up: false,
                });
            }
            Err(problem) => it.fail(now, &problem),
        }
    }

    /// Takes in that a connection was ended.
    pub fn handle_disconnected(&mut self, link: &str) {
        if let Some(it) = self.of(link) {
            (it.own, it.device) = (None, None);
        }
    }

    /// Returns what to do now.
    pub fn poll_action(&self, now: Instant) -> Option<Action> {
        let is_due = |since: Option<Instant>, after| since.is_some_and(|it| it + after <= now);
        if is_due(self.enough_since, QUIET) {
            return self.to_disconnect();
        }
        let is_tried = |it: &Reserve| it.own.is_some() && !is_due(it.unwell_since, PROOF);
        let mut links = self.links.iter();
        // One at a time.
        if !is_due(self.needed_since, HESITATION) || links.any(|(_, it)| is_tried(it)) {
            return None;
        }
        let is_ready = |it: &Reserve| {
            let is_off = matches!(it.device, Some(Device::Disconnected { .. }));
            let is_due = it.not_before.is_none_or(|at| at <= now);
            is_off && it.own.is_none() && !it.is_dismissed && is_due
        };
        let ready = self.links.iter().find(|(_, it)| is_ready(it));
        ready.map(|(link, _)| Action::Connect(link.clone()))
    }

    /// Returns what to disconnect at the end: what this has connected, unless it is needed.
    pub fn poll_end(&self) -> Option<Action> {
        self.enough_since.and_then(|_| self.to_disconnect())
    }

    /// True if this has connected any link.
    pub fn has_own(&self) -> bool {
        self.links.iter().any(|(_, it)| it.own.is_some())
    }

    /// Returns what is shown of a link: its state, and why it cannot be connected or what the
    /// latest attempt has failed by. `None` if it is not on standby.
    pub fn status(&self, link: &str) -> Option<(StandbyState, Option<&str>)> {
        let (_, it) = self.links.iter().find(|(name, _)| name == link)?;
        Some(match (&it.device, &it.own) {
            (None, _) => (StandbyState::Unavailable, self.absence.as_deref()),
            (Some(Device::Unavailable(why)), _) => (StandbyState::Unavailable, Some(why)),
            (Some(Device::Active { is_up: false, .. }), Some(_)) => {
                (StandbyState::Connecting, None)
            }
            (Some(Device::Active { .. }), Some(_)) => (StandbyState::Connected, None),
            (Some(Device::Active { .. }), None) => (StandbyState::ByOthers, None),
            (Some(_), _) if it.is_dismissed => (StandbyState::Dismissed, None),
            (Some(_), _) => (StandbyState::Waiting, it.problem.as_deref()),
        })
    }

    fn to_disconnect(&self) -> Option<Action> {
        let links = self.links.iter();
        let mut known = links.filter(|(_, it)| it.device.is_some());
        known.find_map(|(link, it)| {
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
    fn fail(&mut self, now: Instant, problem: &str) {
        let pause = FIRST_PAUSE * 2_u32.pow(self.failures.min(MAX_DOUBLINGS));
        self.not_before = Some(now + pause);
        self.failures = self.failures.saturating_add(1);
        self.problem = Some(problem.to_owned());
    }
}

/// How long a link is needed before it is connected: others may be back by then.
const HESITATION: Duration = Duration::from_secs(1);
/// How long a link that was connected may take until it is well, and how long it may be unwell
/// later, before another is connected as well. Modems and DHCP take some 10 s.
const PROOF: Duration = Duration::from_secs(30);
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
        standby.status("a").unwrap().0
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
        assert_eq!(standby.poll_action(at(40)), None);
        standby.handle_device(at(12), "a", active("/1"));
        assert_eq!(
            (state(&standby), standby.is_own("a")),
            (StandbyState::Connected, true)
        );
    }

    #[test]
    fn a_connected_link_that_leads_nowhere_has_the_next_one_connected() {
        let mut standby = connected();
        standby.handle_health(at(2), "a", false);
        assert_eq!(standby.poll_action(at(30)), None);
        assert_eq!(standby.poll_action(at(31)), connect("b"));
        standby.handle_health(at(31), "a", true);
        standby.handle_health(at(40), "a", false);
        assert_eq!(standby.poll_action(at(69)), None);
        assert_eq!(standby.poll_action(at(70)), connect("b"));
        standby.handle_connected(at(70), "b", Ok("/2".to_owned()));
        assert_eq!(standby.poll_action(at(71)), None);
        standby.handle_need(at(71), false);
        assert_eq!(standby.poll_action(at(191)), disconnect("/1"));
        standby.handle_disconnected("a");
        assert!(standby.poll_action(at(191)).is_some(), "the other one");
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
        assert_eq!((standby.poll_action(at(999)), standby.poll_end()), NOTHING);
    }

    #[test]
    fn failures_are_repeated_ever_more_rarely_and_others_are_tried_meanwhile() {
        let mut standby = standby();
        standby.handle_device(at(0), "b", Device::Unavailable("no carrier".to_owned()));
        standby.handle_need(at(0), true);
        let mut now = 1;
        for pause in [15, 30, 60, 120, 240, 480, 960, 960] {
            assert_eq!(standby.poll_action(at(now)), connect("a"));
            standby.handle_connected(at(now), "a", Err("no SIM card".to_owned()));
            assert_eq!(standby.poll_action(at(now + pause - 1)), None);
            now += pause;
        }
        let shown = standby.status("a").unwrap();
        assert_eq!(shown, (StandbyState::Waiting, Some("no SIM card")));
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
    fn a_manager_that_does_not_answer_is_asked_for_nothing_until_it_does() {
        let mut standby = connected();
        standby.handle_absence("it hangs");
        let shown = (StandbyState::Unavailable, Some("it hangs"));
        assert_eq!(standby.status("a"), Some(shown));
        standby.handle_need(at(10), false);
        assert_eq!((standby.poll_action(at(999)), standby.poll_end()), NOTHING);
        // The same one.
        standby.handle_device(at(999), "a", active("/1"));
        assert_eq!(standby.poll_action(at(999)), disconnect("/1"));
        // Another, whose connections have other names.
        standby.handle_absence("it does not run");
        standby.handle_device(at(1000), "a", active("/other/1"));
        assert_eq!((standby.poll_action(at(1000)), standby.poll_end()), NOTHING);
        assert_eq!(state(&standby), StandbyState::ByOthers);
    }

    const NOTHING: (Option<Action>, Option<Action>) = (None, None);
}
