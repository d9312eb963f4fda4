//! Transfers of single objects.

use std::sync::atomic::AtomicU64;

use hawser_types::ByteCount;

use crate::contender::{Contender, Equipment};
use crate::measure::{Bench, Session, StepError};
use crate::meter;
use crate::scenario::Direction;

/// The lab with a warm session, in which objects are fetched and put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfers<'a> {
    pub(super) bench: &'a Bench,
    pub(super) session: &'a Session,
}

impl Transfers<'_> {
    /// Moves one object, and returns the seconds that it took. Plain TCP uses `link`, from 0.
    pub(super) fn run(
        &self,
        contender: Contender,
        link: usize,
        direction: Direction,
        size: ByteCount,
    ) -> Result<f64, StepError> {
        let equipment = Equipment {
            bench: self.bench,
            session: Some(self.session),
            link,
        };
        let order = equipment.order(contender, direction, size);
        let client = self.bench.lab().client();
        let outcome = client.run(|| meter::transfer(&order, &AtomicU64::new(0)))?;
        if outcome.ok {
            Ok(outcome.seconds)
        } else {
            Err(StepError::Corrupted)
        }
    }
}
