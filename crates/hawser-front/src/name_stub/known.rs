//! Names of addresses, from answers that applications received.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use hawser_wire::dns::DnsQuestion;
use parking_lot::Mutex;

/// The names by which applications have asked for addresses lately, for display. Clones share them.
///
/// Nothing is decided by these names: an address may have many, and an application that asks a
/// server of its own can give it any name.
#[derive(Clone, Debug, Default)]
pub struct KnownNames(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    names: BTreeMap<IpAddr, Arc<str>>,
    /// Addresses, oldest first.
    order: VecDeque<IpAddr>,
}

impl KnownNames {
    /// Returns the last name that was asked for and leads to an address.
    pub fn name(&self, address: IpAddr) -> Option<Arc<str>> {
        let known = self.0.lock();
        known.names.get(&address).cloned()
    }

    /// Records an answer to an application. Ignores everything but answers with addresses.
    pub(super) fn note(&self, query: &[u8], answer: &[u8]) {
        let Ok(question) = DnsQuestion::decode(query) else {
            return;
        };
        let Ok(Some(answer)) = question.decode_answer(answer) else {
            return;
        };
        if answer.addresses.is_empty() {
            return;
        }
        let name: Arc<str> = question.name().into();
        let mut known = self.0.lock();
        for address in answer.addresses {
            known.add(address, &name);
        }
    }
}

impl Known {
    fn add(&mut self, address: IpAddr, name: &Arc<str>) {
        if self.names.insert(address, Arc::clone(name)).is_some() {
            return;
        }
        self.order.push_back(address);
        while self.order.len() > MAX_ADDRESSES
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }
}

/// More than a user looks at; with names of 253 bytes, they take a megabyte and a half.
const MAX_ADDRESSES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use hawser_types::HostName;
    use hawser_wire::dns::AddressRecord;

    use super::*;

    fn asked(name: &str) -> Vec<u8> {
        let name: HostName = name.parse().unwrap();
        DnsQuestion::encode(7, &name, AddressRecord::A)
    }

    /// The answer to a question, with one address.
    fn answer(query: &[u8], address: [u8; 4]) -> Vec<u8> {
        let mut message = query.to_vec();
        message[2] |= 0x80;
        message[7] = 1;
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        message.extend(address);
        message
    }

    #[test]
    fn the_name_that_was_asked_for_last_is_known() {
        let names = KnownNames::default();
        let address = [192, 0, 2, 1];
        for name in ["old.example", "new.example"] {
            let query = asked(name);
            names.note(&query, &answer(&query, address));
        }
        assert_eq!(names.name(address.into()).as_deref(), Some("new.example"));
        assert_eq!(names.name([192, 0, 2, 2].into()), None);
        // Garbage, and the answer to another question.
        names.note(&[], &[]);
        names.note(&asked("x.example"), &answer(&asked("y.example"), address));
        assert_eq!(names.name(address.into()).as_deref(), Some("new.example"));
    }

    #[test]
    fn ever_more_addresses_take_no_more_memory() {
        let mut known = Known::default();
        let name: Arc<str> = "example".into();
        for number in 0..=MAX_ADDRESSES as u32 {
            known.add(Ipv4Addr::from(number).into(), &name);
        }
        assert_eq!(
            (known.names.len(), known.order.len()),
            (MAX_ADDRESSES, MAX_ADDRESSES)
        );
        assert!(!known.names.contains_key(&IpAddr::from(Ipv4Addr::from(0))));
    }
}
