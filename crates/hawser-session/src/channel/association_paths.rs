use hawser_types::{Instant, LinkIndex};
use smallvec::SmallVec;

use super::policing::Policing;
use crate::association::{AssociationSample, PathSample};

/// Paths of an association, and what of their traffic is in the accounts of links.
#[derive(Debug, Default)]
pub(crate) struct AssociationPaths {
    paths: Vec<PathSample>,
    booked: Vec<LinkTraffic>,
    signs: Vec<LinkSigns>,
    /// Payload that the association had sent twice at the last sample.
    repeated: Repeated,
}

/// Payload that an association sent more than once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeated {
    /// Duplicates that the session's budget pays for.
    pub(crate) charged: u64,
    /// All copies of what was in flight, those among them.
    pub(crate) copied: u64,
}

/// Bytes of datagrams that went over a link for an association.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkTraffic {
    link: LinkIndex,
    sent: u64,
    received: u64,
}

/// Signs of life of a link's paths.
#[derive(Clone, Copy, Debug)]
struct LinkSigns {
    link: LinkIndex,
    /// Bytes of datagrams received.
    received: u64,
    last_heard: Option<Instant>,
    /// Time of the last sign of life, or of the first look, before none of the paths was sound.
    silent_since: Option<Instant>,
    policing: Policing,
}

/// Traffic of several links.
pub(crate) type LinksTraffic = SmallVec<[LinkTraffic; 8]>;

impl AssociationPaths {
    /// Takes in the state of the paths. Returns what was sent twice since the last sample.
    pub(crate) fn on_sample(&mut self, now: Instant, sample: &AssociationSample<'_>) -> Repeated {
        self.paths.clear();
        self.paths.extend_from_slice(sample.paths);
        self.note_signs(now);
        let repeated = Repeated {
            charged: sample.duplicated.as_u64(),
            copied: sample.copied.as_u64(),
        };
        let before = std::mem::replace(&mut self.repeated, repeated);
        Repeated {
            charged: repeated.charged.saturating_sub(before.charged),
            copied: repeated.copied.saturating_sub(before.copied),
        }
    }

    /// Returns the time of the last sign of life of a link on which one is overdue.
    pub(crate) fn silent_since(&self, link: LinkIndex) -> Option<Instant> {
        self.signs(link)?.silent_since
    }

    /// Returns the time of the last sign of life of a link.
    pub(crate) fn last_heard(&self, link: LinkIndex) -> Option<Instant> {
        self.signs(link)?.last_heard
    }

    /// Tells whether the network seems to limit UDP on a link.
    pub(crate) fn is_policed(&self, now: Instant) -> bool {
        let mut policing = self.signs.iter().map(|signs| &signs.policing);
        policing.any(|it| it.is_found(now))
    }

    fn signs(&self, link: LinkIndex) -> Option<&LinkSigns> {
        self.signs.iter().find(|signs| signs.link == link)
    }

    fn note_signs(&mut self, now: Instant) {
        let paths = &self.paths;
        let has_path = |link| paths.iter().any(|path| path.link == link);
        self.signs.retain(|signs| has_path(signs.link));
        for path in paths {
            if !self.signs.iter().any(|signs| signs.link == path.link) {
                self.signs.push(LinkSigns {
                    link: path.link,
                    received: 0,
                    last_heard: None,
                    silent_since: None,
                    policing: Policing::default(),
                });
            }
        }
        for signs in &mut self.signs {
            let same = || paths.iter().filter(|path| path.link == signs.link);
            let received = same().map(|path| path.received.as_u64()).sum();
            if received > signs.received {
                signs.last_heard = Some(now);
            }
            signs.received = received;
            signs.policing.on_look(now, same());
            let is_sound = same().any(PathSample::is_sound);
            let since = signs.silent_since.or(signs.last_heard).unwrap_or(now);
            signs.silent_since = (!is_sound).then_some(since);
        }
    }

    /// Returns the paths.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, PathSample> {
        self.paths.iter()
    }

    /// Books the traffic of each link. Returns what is new since the last call.
    pub(crate) fn book(&mut self) -> LinksTraffic {
        let mut moved = LinksTraffic::new();
        for (place, path) in self.paths.iter().enumerate() {
            let earlier = &self.paths[..place];
            if earlier.iter().any(|other| other.link == path.link) {
                continue;
            }
            let same = || self.paths.iter().filter(|other| other.link == path.link);
            let now = LinkTraffic {
                link: path.link,
                sent: same().map(|path| path.sent.as_u64()).sum(),
                received: same().map(|path| path.received.as_u64()).sum(),
            };
            let known = self.booked.iter_mut().find(|it| it.link == path.link);
            let before = match known {
                Some(known) => std::mem::replace(known, now),
                None => {
                    self.booked.push(now);
                    LinkTraffic {
                        link: path.link,
                        sent: 0,
                        received: 0,
                    }
                }
            };
            moved.push(now.since(before));
        }
        // A link whose paths are gone begins anew when it comes again.
        let paths = &self.paths;
        self.booked
            .retain(|booked| paths.iter().any(|path| path.link == booked.link));
        moved
    }

    /// Returns all traffic that was booked, of the links that have a path.
    pub(crate) fn booked(&self) -> LinksTraffic {
        LinksTraffic::from_slice(&self.booked)
    }

    /// True if another link than `link` has a sound path.
    pub(super) fn live_beside(&self, link: LinkIndex) -> bool {
        let is_other = |path: &PathSample| path.link != link && path.is_sound();
        self.paths.iter().any(is_other)
    }
}

impl LinkTraffic {
    /// Returns the link.
    pub(crate) fn link(&self) -> LinkIndex {
        self.link
    }

    /// Returns the bytes sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the bytes received.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Returns the traffic since `before`. The part of a path that is gone is missing from it: then
    /// the count begins here.
    fn since(self, before: Self) -> Self {
        Self {
            link: self.link,
            sent: self.sent.saturating_sub(before.sent),
            received: self.received.saturating_sub(before.received),
        }
    }
}
