//! A scenario's link events, applied to the links below an association.

use hawser_scenario::Action;
use hawser_sctp::Local;
use hawser_types::LinkIndex;

use super::fabric::{Fabric, client_local};

impl Fabric {
    /// Lets something happen to a link of the client, from 0, now. The client knows at once of what
    /// an operating system would tell it.
    pub fn act(&mut self, number: usize, action: Action) {
        let link = client_local(number).link;
        let is_dark = matches!(action, Action::BlackHole | Action::CarrierDown);
        if action != Action::AddressChange
            && let Some(disorder) = self.disorder_mut(link)
        {
            disorder.dark = is_dark;
        }
        match action {
            Action::BlackHole | Action::Pass => {}
            Action::CarrierDown => drop(self.take_local(link)),
            Action::CarrierUp => self.give_local(client_local(number)),
            Action::AddressChange => {
                // To one that no link of the client has.
                let locals = &self.hosts[0].locals;
                let is_free = |local: &Local| locals.iter().all(|it| it.address != local.address);
                let mut spare = (FIRST_SPARE..).map(client_local);
                let free = spare.find(is_free).expect("links are few");
                self.take_local(link);
                self.give_local(Local { link, ..free });
            }
        }
        self.pump(0);
    }

    fn take_local(&mut self, link: LinkIndex) -> Option<Local> {
        let now = self.now();
        let locals = &mut self.hosts[0].locals;
        let place = locals.iter().position(|local| local.link == link)?;
        let gone = locals.remove(place);
        self.association(0).remove_local(now, gone);
        Some(gone)
    }

    fn give_local(&mut self, local: Local) {
        let now = self.now();
        let locals = &mut self.hosts[0].locals;
        if locals.iter().any(|known| known.link == local.link) {
            return;
        }
        locals.push(local);
        self.association(0).add_local(now, local);
    }
}

/// Addresses from this number on are those of links that have changed theirs.
const FIRST_SPARE: usize = 50;
