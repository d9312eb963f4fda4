//! The client's end: SYNs announce that this host can bond, and SYN-ACKs tell which servers can.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hawser_capture::{
    Announcement, Avoidance, CaptureError, Discoveries, Discovery, Learnt, Middleboxes, Outcome,
};
use hawser_control::NotAskedStatus;
use hawser_front::connection::SharedDirector;
use hawser_front::peer::Handshakes;
use hawser_link::bind::{Carries, LookingAtSockets, look_at_sockets};
use hawser_net::clock;
use hawser_net::ticks::Ticks;
use hawser_types::LinkIndex;
use hawser_wire::Heard;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Announces this host in the SYNs of programs, and in those that this process makes for them,
/// until dropped. Hawser's own connections announce nothing, except those that ask for a bond at
/// the port of a service.
pub(crate) struct Announcing {
    shared: Arc<AnnouncingState>,
    following: AbortHandle,
    _looking: LookingAtSockets,
}

struct AnnouncingState {
    discovery: Mutex<Discovery>,
    middleboxes: Mutex<Middleboxes>,
    director: SharedDirector,
    /// True once the kernel's events can't be read any more.
    is_deaf: AtomicBool,
}

impl Announcing {
    /// Begins to announce this host in the SYNs of programs of the control group at `group`. Also
    /// returns the results of handshakes. `director` knows the links and their networks.
    pub(crate) fn start(
        group: &Path,
        director: SharedDirector,
    ) -> Result<(Self, Handshakes), CaptureError> {
        let mut discovery = Discovery::start(group)?;
        let learnt = discovery.discoveries()?.ok_or(CaptureError::EventsTaken)?;
        let shared = Arc::new(AnnouncingState {
            discovery: Mutex::new(discovery),
            middleboxes: Mutex::default(),
            director,
            is_deaf: AtomicBool::new(false),
        });
        let asking = shared.discovery().socket_announcer();
        let looked_at = asking.clone();
        let looking = look_at_sockets(move |socket, carries| {
            let says = match carries {
                Carries::Own => None,
                // The announcement for all programs applies.
                Carries::OfProgram => return,
                Carries::AsksBond => Some(Announcement::Bond),
            };
            if let Err(error) = looked_at.announce_on(socket, says) {
                tracing::debug!(%error, ?says, "can't set the announcement of a connection");
            }
        });
        // Begins to announce last: exceptions must be in force before.
        shared
            .discovery()
            .set_everywhere(Some(Announcement::There))?;
        let (told, heard) = mpsc::channel(MAX_WAITING);
        let following = tokio::spawn(follow(Arc::clone(&shared), learnt, told));
        let silent = Arc::downgrade(&shared);
        let handshakes = Handshakes {
            heard,
            are_silent: Box::new(move |to| silent.upgrade().is_some_and(|it| it.are_silent(to))),
            answers: Box::new(move |socket| asking.learnt_on(socket)),
        };
        let announcing = Self {
            shared,
            following: following.abort_handle(),
            _looking: looking,
        };
        Ok((announcing, handshakes))
    }

    /// Stops announcing until [`Self::resume`], so that another process can announce.
    pub(crate) fn pause(&self) {
        self.shared.say(None);
    }

    /// Announces again.
    pub(crate) fn resume(&self) {
        if !self.shared.is_deaf.load(Ordering::Relaxed) {
            self.shared.say(Some(Announcement::There));
        }
    }

    /// Returns the links and destinations for which SYNs carry no announcement now, at most
    /// [`MAX_SHOWN`]: first whole links, then by the remaining time, longest first.
    pub(crate) fn not_asked(&self) -> Vec<NotAskedStatus> {
        let mut avoided = self.shared.middleboxes().avoided(clock::now());
        avoided.sort_by_key(|it| Reverse((it.to.is_none(), it.span)));
        avoided.truncate(MAX_SHOWN);
        if avoided.is_empty() {
            return Vec::new();
        }
        let report = self.shared.director.report();
        let name = |index: LinkIndex| {
            let link = report.links.iter().find(|it| it.link.index == index);
            link.map_or_else(|| index.to_string(), |it| it.link.name.clone())
        };
        let status = |avoidance: Avoidance| NotAskedStatus {
            link: avoidance.link.map(name),
            destination: avoidance.to,
            left: avoidance.span,
        };
        avoided.into_iter().map(status).collect()
    }

    /// Adds the counters of the programs in the kernel to a list.
    pub(crate) fn count(&self, list: &mut BTreeMap<String, u64>) {
        super::list_counts(list, "handshakes", self.shared.discovery().counts());
    }
}

impl Drop for Announcing {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl AnnouncingState {
    /// Returns whether a middlebox on the path prevents announcements in handshakes with an
    /// address. Returns `false` if the kernel's events can't be read: middleboxes are unknown then,
    /// and are no reason to probe a server.
    fn are_silent(&self, to: IpAddr) -> bool {
        let report = self.director.report();
        let links = report.links.iter().map(|it| it.link.index);
        !self.is_deaf.load(Ordering::Relaxed)
            && self.middleboxes().is_silent(clock::now(), links, to)
    }

    /// Handles the result of a handshake. Returns the fact about the destination that the result
    /// reveals, if there is one.
    fn take_in(&self, learnt: &Learnt) -> Option<Heard> {
        let to_avoid = self.middleboxes().handle_learnt(clock::now(), learnt);
        for avoidance in &to_avoid {
            // A span of zero means that the option gets through again.
            tracing::debug!(?avoidance, to = %learnt.to, "updating where to avoid TCP option 254");
            if let Err(error) = self.discovery().avoid(avoidance) {
                tracing::debug!(%error, "can't tell the kernel where to avoid TCP option 254");
            }
        }
        match learnt.outcome {
            // The task that made the connection knows the answer, and begins a session on it.
            Outcome::Answered(answer) if answer.bond => None,
            Outcome::Answered(_) | Outcome::Plain => Some(learnt.heard()),
            Outcome::Echoed
            | Outcome::Unreadable(_)
            | Outcome::Repeated
            | Outcome::AnsweredWithout => None,
        }
    }

    /// Stops announcing because the results of handshakes can't be read any more.
    fn go_deaf(&self) {
        self.is_deaf.store(true, Ordering::Relaxed);
        self.say(None);
    }

    /// Sets the announcement in SYNs.
    fn say(&self, says: Option<Announcement>) {
        if let Err(error) = self.discovery().set_everywhere(says) {
            tracing::debug!(%error, ?says, "can't change the announcement in SYNs");
        }
    }

    /// Updates the announced number of links, and forgets the middleboxes behind links that are
    /// attached to another network by now.
    fn look_at_links(&self, networks: &mut BTreeMap<LinkIndex, String>) {
        let report = self.director.report();
        let mut changed = Vec::new();
        for link in &report.links {
            let Some(network) = &link.network else {
                continue;
            };
            let before = networks.insert(link.link.index, network.clone());
            if before.is_some_and(|before| before != *network) {
                changed.push(Some(link.link.index));
            }
        }
        if !changed.is_empty() {
            // Sockets that are bound to no link may have used a changed link.
            changed.push(None);
        }
        for link in changed {
            self.middleboxes().forget_link(link);
            if let Err(error) = self.discovery().forget_link(link) {
                tracing::debug!(%error, "can't forget the middleboxes of an earlier network");
            }
        }
        let links = report.links.iter().map(|it| &*it.link);
        if let Err(error) = self.discovery().set_interfaces(super::interfaces(links)) {
            tracing::debug!(%error, "can't update the number of links that SYNs announce");
        }
    }

    fn discovery(&self) -> MutexGuard<'_, Discovery> {
        self.discovery.lock()
    }

    fn middleboxes(&self) -> MutexGuard<'_, Middleboxes> {
        self.middleboxes.lock()
    }
}

/// Handles the results of handshakes, and follows the links.
async fn follow(shared: Arc<AnnouncingState>, mut learnt: Discoveries, told: mpsc::Sender<Heard>) {
    let mut networks = BTreeMap::new();
    let mut looks = Ticks::every(LOOK_EVERY);
    loop {
        tokio::select! {
            next = learnt.next() => match next {
                Ok(learnt) => {
                    // If the queue is full, a later handshake tells the same.
                    if let Some(heard) = shared.take_in(&learnt) {
                        let _ = told.try_send(heard);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "can't read the results of handshakes from the kernel, \
                        SYNs no longer announce Hawser");
                    return shared.go_deaf();
                }
            },
            _ = looks.tick() => shared.look_at_links(&mut networks),
        }
    }
}

/// Limit of handshakes that wait to be handled.
const MAX_WAITING: usize = 256;
/// Limit of listed links and destinations without the option.
const MAX_SHOWN: usize = 20;
const LOOK_EVERY: Duration = Duration::from_secs(1);
