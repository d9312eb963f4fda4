use std::collections::BTreeMap;

use hawser_sched::connection::{Class, Demand};
use hawser_sched::{DemandEstimate, DemandKey, PortClass};
use hawser_types::ByteCount;

use super::request::ConnectionRequest;

/// Sizes of earlier connections, by application and class of port.
#[derive(Debug, Default)]
pub(crate) struct Demands {
    known: BTreeMap<DemandKey, DemandEstimate>,
    /// Estimates that changed since they were last saved.
    news: BTreeMap<DemandKey, DemandEstimate>,
}

impl Demands {
    pub(crate) fn key(request: &ConnectionRequest) -> DemandKey {
        let program = request.program.clone().unwrap_or_default();
        (program, PortClass::of(request.port))
    }

    /// Returns the expected needs of the next connection.
    pub(crate) fn expect(&self, key: &DemandKey, class: Class) -> Demand {
        let known = self.known.get(key).filter(|known| known.connections > 0);
        let (up, down) = known.map_or(unknown(class), |known| (known.up, known.down));
        Demand { class, up, down }
    }

    /// Learns from an ended connection.
    pub(crate) fn learn(&mut self, key: &DemandKey, up: ByteCount, down: ByteCount) {
        if self.known.len() >= MAX_KNOWN && !self.known.contains_key(key) {
            // Programs may have any number of names; the least used one is evicted.
            let least = self.known.iter().min_by_key(|(_, it)| it.connections);
            let least = least.map(|(key, _)| key.clone());
            least.and_then(|key| self.known.remove(&key));
        }
        let estimate = self.known.entry(key.clone()).or_default();
        estimate.observe(up, down);
        if self.news.len() < MAX_KNOWN || self.news.contains_key(key) {
            self.news.insert(key.clone(), *estimate);
        }
    }

    /// Loads estimates of earlier runs.
    pub(crate) fn load(&mut self, known: impl IntoIterator<Item = (DemandKey, DemandEstimate)>) {
        self.known.extend(known.into_iter().take(MAX_KNOWN));
    }

    pub(crate) fn all(&self) -> &BTreeMap<DemandKey, DemandEstimate> {
        &self.known
    }

    pub(crate) fn take_news(&mut self) -> BTreeMap<DemandKey, DemandEstimate> {
        std::mem::take(&mut self.news)
    }
}

/// Returns the needs of a connection of an unknown application: roughly the usual ones of its
/// class.
fn unknown(class: Class) -> (ByteCount, ByteCount) {
    match class {
        Class::RealTime => (ByteCount::from_kib(256), ByteCount::from_kib(256)),
        Class::Interactive | Class::Unknown => (ByteCount::from_kib(2), ByteCount::from_kib(32)),
        Class::Bulk => (ByteCount::from_kib(4), ByteCount::from_mib(4)),
    }
}

const MAX_KNOWN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(program: &str) -> DemandKey {
        (program.to_owned(), PortClass::Web)
    }

    #[test]
    fn applications_are_told_apart_and_what_is_learned_is_news_once() {
        let mut demands = Demands::default();
        demands.learn(&key("wget"), ByteCount::new(100), ByteCount::new(9_000_000));
        let wget = demands.expect(&key("wget"), Class::Bulk);
        assert_eq!(wget.down, ByteCount::new(9_000_000));
        let other = demands.expect(&key("curl"), Class::Bulk);
        assert_eq!(other.down, ByteCount::from_mib(4));
        assert_eq!(demands.take_news().len(), 1);
        assert!(demands.take_news().is_empty());
    }

    #[test]
    fn programs_without_end_do_not_fill_the_memory() {
        let mut demands = Demands::default();
        demands.learn(&key("often"), ByteCount::ZERO, ByteCount::ZERO);
        demands.learn(&key("often"), ByteCount::ZERO, ByteCount::ZERO);
        for n in 0..2 * MAX_KNOWN {
            demands.learn(&key(&n.to_string()), ByteCount::ZERO, ByteCount::ZERO);
        }
        assert_eq!(demands.all().len(), MAX_KNOWN);
        assert!(demands.all().contains_key(&key("often")));
        assert!(demands.take_news().len() <= MAX_KNOWN);
    }
}
