//! Budgets of the memory that clients make a gateway hold beside their data.
//!
//! The size of sessions, channels, streams and lookups does not follow from the data that is sent.
//! Each takes a [`Charge`](hawser_types::Charge) from its client's budget, which is part of the
//! gateway's. Data has bounds of its own, in its session; both together are within the gateway's
//! memory, since charges are subtracted before the rest is shared out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hawser_types::{Budget, ByteCount};
use parking_lot::Mutex;

use crate::session_budgets::SessionBudgets;
use hawser_types::{network_of, source_of};

/// The budgets of a gateway, and those of its clients.
#[derive(Clone, Debug)]
pub struct Accounts {
    all: Budget,
    /// Memory that channels read into. This budget is separate, since the rest of a record has to
    /// be read even if no memory is left: a client with many records would leave other clients
    /// nothing for streams.
    reading: Budget,
    of_client: ByteCount,
    clients: Arc<Mutex<Clients>>,
}

#[derive(Debug, Default)]
struct Clients {
    known: Known<Holder>,
    networks: Known<IpAddr>,
}

/// The holders that have budgets now.
#[derive(Debug)]
struct Known<K> {
    budgets: BTreeMap<K, SessionBudgets>,
    /// Number of budgets at which the unused budgets are forgotten.
    swept_at: usize,
}

/// The holder of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// The client that proves this key.
    Key([u8; 32]),
    /// The clients at this address, where keys cost nothing. The budgets of its network limit all
    /// addresses of the network.
    Address(IpAddr),
}

impl Accounts {
    /// Budgets within `memory`: half of it for all clients together, an eighth for each client, and
    /// an eighth for the memory that channels read into, of which each client has a quarter. The
    /// addresses of one network together have half of the budgets of all clients.
    pub fn new(memory: ByteCount) -> Self {
        let part = |of: u64, least| ByteCount::new(memory.as_u64() / of).max(least);
        Self {
            all: Budget::new(part(2, MIN_ALL)),
            reading: Budget::new(part(8, ByteCount::ZERO)),
            of_client: part(8, MIN_OF_CLIENT),
            clients: Arc::default(),
        }
    }

    /// The budget of all clients together.
    pub fn all(&self) -> &Budget {
        &self.all
    }

    /// Memory taken from all budgets.
    pub fn held(&self) -> ByteCount {
        self.all.held() + self.reading.held()
    }

    /// The budget of this holder.
    pub fn of(&self, holder: Holder) -> Budget {
        self.budgets_of(holder).account
    }

    /// The budget of this holder, and the budget for the memory that its channels read into.
    pub(super) fn budgets_of(&self, holder: Holder) -> SessionBudgets {
        self.clients.lock().budgets(self, holder)
    }
}

impl Clients {
    fn budgets(&mut self, accounts: &Accounts, holder: Holder) -> SessionBudgets {
        let all = SessionBudgets {
            account: accounts.all.clone(),
            reading: accounts.reading.clone(),
        };
        let of_client = (accounts.of_client, share(&all.reading, 4));
        match holder {
            Holder::Key(_) => self.known.part_of(&all, holder, of_client),
            Holder::Address(address) => {
                let half = share(&all.account, 2).max(accounts.of_client);
                let of_network = (half, share(&all.reading, 2));
                let network = network_of(address);
                let network = self.networks.part_of(&all, network, of_network);
                let source = Holder::Address(source_of(address));
                self.known.part_of(&network, source, of_client)
            }
        }
    }
}

impl<K> Default for Known<K> {
    fn default() -> Self {
        Self {
            budgets: BTreeMap::new(),
            swept_at: 0,
        }
    }
}

impl<K: Ord> Known<K> {
    /// Returns the budgets that `who` has, or new ones of these sizes within those of `all`.
    fn part_of(
        &mut self,
        all: &SessionBudgets,
        who: K,
        (account, reading): (ByteCount, ByteCount),
    ) -> SessionBudgets {
        if let Some(known) = self.budgets.get(&who) {
            return known.clone();
        }
        if self.budgets.len() >= self.swept_at {
            let is_used = |it: &SessionBudgets| !it.account.is_alone() || !it.reading.is_alone();
            self.budgets.retain(|_, it| is_used(it));
            self.swept_at = (2 * self.budgets.len()).max(MIN_SWEPT);
        }
        let budgets = SessionBudgets {
            account: all.account.part(account),
            reading: all.reading.part(reading),
        };
        self.budgets.insert(who, budgets.clone());
        budgets
    }
}

fn share(of: &Budget, parts: u64) -> ByteCount {
    ByteCount::new(of.most().as_u64() / parts)
}

/// Enough for a few sessions with some streams, however little memory there is.
const MIN_ALL: ByteCount = ByteCount::from_mib(4);
const MIN_OF_CLIENT: ByteCount = ByteCount::from_mib(1);
const MIN_SWEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_leaves_others_most_of_the_budget_and_is_forgotten_with_its_last_charge() {
        let mib = ByteCount::from_mib;
        let accounts = Accounts::new(mib(64));
        let [greedy, other] = [1, 2].map(|byte| accounts.of(key(byte)));
        let kept: Vec<_> = (0..).map_while(|_| greedy.charge(mib(1)).ok()).collect();
        assert_eq!(kept.len(), 8);
        assert!(accounts.of(key(1)).charge(mib(1)).is_err(), "the same one");
        assert!(other.charge(mib(8)).is_ok());
        drop((greedy, other));
        for number in 0..10_000_u32 {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&number.to_be_bytes());
            let _ = accounts.of(Holder::Key(key)).charge(mib(1)).unwrap();
        }
        let known = accounts.clients.lock().known.budgets.len();
        assert!(known <= 2 * MIN_SWEPT, "{known}");
        assert!(
            accounts.of(key(1)).charge(mib(1)).is_err(),
            "it is charged still"
        );
        drop(kept);
        assert_eq!(accounts.held(), ByteCount::ZERO);
    }

    #[test]
    fn records_that_never_end_take_nothing_from_what_others_are_charged_for() {
        let accounts = Accounts::new(ByteCount::from_mib(64));
        let [greedy, other] = [1, 2].map(key);
        let records = accounts
            .budgets_of(greedy)
            .reading
            .noted(ByteCount::from_mib(40));
        assert!(accounts.of(other).charge(ByteCount::from_mib(8)).is_ok());
        assert!(records.budget().is_over());
        let usual = accounts
            .budgets_of(other)
            .reading
            .noted(ByteCount::from_mib(1));
        assert!(!usual.budget().is_over());
        assert_eq!(accounts.held(), ByteCount::from_mib(41));
    }
    #[test]
    fn addresses_of_one_network_leave_half_of_the_budget_to_others() {
        let accounts = Accounts::new(ByteCount::from_mib(64));
        let charge = |address: &str| {
            let client = Holder::Address(address.parse().unwrap());
            let charge = accounts.of(client).charge(ByteCount::from_mib(8));
            let reading = accounts
                .budgets_of(client)
                .reading
                .charge(ByteCount::from_mib(2));
            Some((charge.ok()?, reading.ok()?))
        };
        let near: Vec<_> = (0..9)
            .filter_map(|host| charge(&format!("192.0.2.{host}")))
            .collect();
        assert_eq!(near.len(), 2);
        assert!(charge("198.51.100.7").is_some());
        drop(near);
        // One customer's addresses count as one.
        let own = [
            "2001:db8::1",
            "2001:db8::2",
            "2001:db8:0:1::1",
            "2001:db8:0:2::1",
        ];
        let own = own.map(charge);
        assert_eq!(
            own.each_ref().map(Option::is_some),
            [true, false, true, false]
        );
    }

    fn key(byte: u8) -> Holder {
        Holder::Key([byte; 32])
    }
}
