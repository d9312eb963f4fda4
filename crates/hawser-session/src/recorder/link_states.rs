use hawser_sched::governor::Standing;
use hawser_sched::tally::{MAX_LINKS, Verdict};
use hawser_types::LinkIndex;

use crate::association::PathSample;

/// The links that a session has, or had.
#[derive(Debug, Default)]
pub(super) struct LinkStates(Vec<LinkState>);

/// A link that the session has, or had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LinkState {
    link: LinkIndex,
    /// Number of its TCP channels.
    channels: u32,
    suspect: u32,
    /// An association has a path over it that answers; true if that is suspect.
    path: Option<bool>,
    standing: Standing,
}

impl LinkStates {
    /// Counts a new channel of this link.
    pub(super) fn on_added(&mut self, link: LinkIndex) {
        if let Some(state) = self.known(link) {
            state.channels += 1;
        }
    }

    /// Counts the end of a channel of this link.
    pub(super) fn on_lost(&mut self, link: LinkIndex, was_suspect: bool) {
        if let Some(state) = self.state(link) {
            state.channels = state.channels.saturating_sub(1);
            state.suspect = state.suspect.saturating_sub(u32::from(was_suspect));
        }
    }

    /// Counts a channel of this link that became suspect, or has recovered.
    pub(super) fn on_suspect(&mut self, link: LinkIndex, suspect: bool) {
        if let Some(state) = self.state(link) {
            state.suspect = if suspect {
                state.suspect + 1
            } else {
                state.suspect.saturating_sub(1)
            };
        }
    }

    /// Notes the permission of a link. True if it has changed.
    pub(super) fn on_standing(&mut self, link: LinkIndex, standing: Standing) -> bool {
        let state = self.state(link);
        state.is_some_and(|state| std::mem::replace(&mut state.standing, standing) != standing)
    }

    /// Notes the paths of an association, one of each link; none when the association is over.
    pub(super) fn set_paths(&mut self, paths: &[PathSample]) {
        self.0.iter_mut().for_each(|state| state.path = None);
        for path in paths.iter().filter(|path| path.is_active) {
            if let Some(state) = self.known(path.link) {
                state.path = Some(path.is_suspect);
            }
        }
    }

    /// Forgets `old`, which has no channel left: it has turned out to be `new`, which has a channel
    /// more. Returns `false` if that is not the case.
    pub(super) fn rename(&mut self, old: LinkIndex, new: LinkIndex) -> bool {
        let is_free = |state: &&mut LinkState| old != new && state.channels == 0;
        let Some(state) = self.state(old).filter(is_free).copied() else {
            return false;
        };
        self.0.retain(|state| state.link != old);
        if self.state(new).is_none() {
            self.0.push(LinkState { link: new, ..state });
        }
        self.on_added(new);
        true
    }

    /// Returns the number of connections of a link and the number of suspect ones. A path of an
    /// association is one.
    pub(super) fn connections(&self, link: LinkIndex) -> (u32, u32) {
        let state = self.0.iter().find(|state| state.link == link);
        state.map_or((0, 0), |state| {
            let paths = u32::from(state.path.is_some());
            let silent = u32::from(state.path == Some(true));
            (state.channels + paths, state.suspect + silent)
        })
    }

    /// Returns the verdict of a decision among TCP channels on a link of which no channel was among
    /// the views.
    pub(super) fn verdict(&self, link: LinkIndex, preferred: bool) -> Option<Verdict> {
        let state = self.0.iter().find(|state| state.link == link)?;
        match state.standing {
            _ if state.channels == 0 => Some(Verdict::Gone),
            Standing::Excluded(_) => Some(Verdict::Excluded),
            _ if state.suspect > 0 => Some(Verdict::Silent),
            _ => preferred.then_some(Verdict::LessPreferred),
        }
    }

    fn state(&mut self, link: LinkIndex) -> Option<&mut LinkState> {
        self.0.iter_mut().find(|state| state.link == link)
    }

    /// As [`Self::state`]; a link that is not known becomes known if there is room for it.
    fn known(&mut self, link: LinkIndex) -> Option<&mut LinkState> {
        if self.state(link).is_none() && self.0.len() < MAX_LINKS {
            self.0.push(LinkState {
                link,
                channels: 0,
                suspect: 0,
                path: None,
                standing: Standing::Full,
            });
        }
        self.state(link)
    }
}
