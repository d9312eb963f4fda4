//! Demand estimates of applications' connections.

use std::collections::BTreeMap;

use hawser_sched::{DemandEstimate, DemandKey, PortClass};
use rusqlite::{Transaction, params};

use crate::{MOST, UsageDatabase, UsageError, bytes, count};

impl UsageDatabase {
    /// Returns the estimates of all applications.
    pub fn demands(&self) -> Result<BTreeMap<DemandKey, DemandEstimate>, UsageError> {
        self.read_demands().map_err(|source| self.failed(source))
    }

    /// Replaces the estimates of these applications, all of them or none; `now` is the time in
    /// seconds since 1970. Beyond [`MAX_DEMANDS`], the least recently changed ones are forgotten.
    pub fn keep_demands(
        &mut self,
        demands: &BTreeMap<DemandKey, DemandEstimate>,
        now: u64,
    ) -> Result<(), UsageError> {
        let written = self.change(|change| write(change, demands, now));
        written.map_err(|source| self.failed(source))
    }

    fn read_demands(&self) -> rusqlite::Result<BTreeMap<DemandKey, DemandEstimate>> {
        let mut query = self
            .database
            .prepare_cached("SELECT application, ports, up, down, connections FROM demand")?;
        let rows = query.query_map([], |row| {
            let ports = PortClass::named(row.get_ref(1)?.as_str()?);
            let estimate = DemandEstimate {
                up: bytes(row.get(2)?),
                down: bytes(row.get(3)?),
                connections: bytes(row.get(4)?).as_u64(),
            };
            Ok((row.get::<_, String>(0)?, ports, estimate))
        })?;
        let mut all = BTreeMap::new();
        for row in rows {
            if let (application, Some(ports), estimate) = row? {
                all.insert((application, ports), estimate);
            }
        }
        Ok(all)
    }
}

fn write(
    change: &Transaction<'_>,
    demands: &BTreeMap<DemandKey, DemandEstimate>,
    now: u64,
) -> rusqlite::Result<()> {
    let mut put = change.prepare_cached(
        "INSERT OR REPLACE INTO demand (application, ports, up, down, connections, updated) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let now = now.min(MOST as u64) as i64;
    for ((application, ports), estimate) in demands {
        let (up, down) = (count(estimate.up), count(estimate.down));
        let connections = estimate.connections.min(MOST as u64) as i64;
        put.execute(params![
            application,
            ports.name(),
            up,
            down,
            connections,
            now
        ])?;
    }
    change.execute(
        "DELETE FROM demand WHERE (application, ports) IN \
         (SELECT application, ports FROM demand ORDER BY updated DESC LIMIT -1 OFFSET ?1)",
        [MAX_DEMANDS],
    )?;
    Ok(())
}

/// Maximum number of estimates kept.
pub const MAX_DEMANDS: u32 = 4096;

#[cfg(test)]
mod tests;
