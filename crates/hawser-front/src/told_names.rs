//! Names for which a warning was logged.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// Names for which a warning was logged. Each name is logged once.
#[derive(Debug, Default)]
pub(crate) struct ToldNames(Mutex<BTreeSet<String>>);

impl ToldNames {
    /// True if the name is to be logged: the first time, for 64 names at most.
    pub(crate) fn add(&self, name: &str) -> bool {
        let mut told = self.0.lock();
        told.len() < MAX_TOLD && told.insert(name.to_ascii_lowercase())
    }
}

/// Enough names to show the problem.
const MAX_TOLD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_each_name_once_and_no_endless_number_of_them() {
        let told = ToldNames::default();
        assert!(told.add("bob.example.org"));
        assert!(!told.add("Bob.example.org"));
        let others = (0..1000).filter(|number| told.add(&number.to_string()));
        assert_eq!(others.count(), MAX_TOLD - 1);
    }
}
