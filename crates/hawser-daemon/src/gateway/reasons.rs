//! Tells a client the reasons for the gateway's choice of links in the client's session.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_control::{MAX_FAR_END, WhySession};
use hawser_front::bonded::Bonded;
use hawser_front::gateway::ClientId;
use hawser_front::transport::DialError;
use hawser_types::StreamId;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::why;

/// Returns the reasons as JSON; `None` if there are none, or the JSON is too long.
fn written(told: Option<&WhySession>) -> Option<Vec<u8>> {
    let json = serde_json::to_vec(told?).ok()?;
    (json.len() <= MAX_FAR_END).then_some(json)
}

/// Counts the latest requests of each client, to limit them: an answer scans the session's record.
#[derive(Debug, Default)]
pub(crate) struct ReasonsTold {
    lately: Mutex<Lately>,
}

#[derive(Debug, Default)]
struct Lately {
    since: Option<Instant>,
    by_client: BTreeMap<ClientId, u32>,
}

impl ReasonsTold {
    /// Returns the reasons of the session that the stream belongs to, in JSON, and of no other
    /// session.
    pub(crate) fn tell(
        &self,
        client: ClientId,
        stream: &mut Bonded,
        of: Option<StreamId>,
    ) -> Result<Vec<u8>, DialError> {
        if !self.may_tell(client) {
            return Err(DialError::LimitReached);
        }
        let stream = stream.get_mut();
        let flows = match of {
            Some(_) => Vec::new(),
            None => stream.packet_flows(FLOWS),
        };
        let mut told = stream.recorded(|recorder, now, policy| {
            why::for_far_end((recorder, now), policy.name(), (of, &flows))
        });
        let mut json = written(told.as_ref());
        if let (None, Some(told)) = (&json, &mut told) {
            // Flows with many links and reasons are the longest part.
            told.packet_flows.clear();
            json = written(Some(told));
        }
        json.ok_or(DialError::Internal)
    }

    /// Returns whether a client may have an answer, and counts it.
    fn may_tell(&self, client: ClientId) -> bool {
        let mut lately = self.lately.lock();
        let now = Instant::now();
        if lately.since.is_none_or(|since| now - since >= SPAN) {
            lately.since = Some(now);
            lately.by_client.clear();
        }
        let count = lately.by_client.entry(client).or_default();
        *count = count.saturating_add(1);
        *count <= MOST
    }
}

/// Number of latest flows of packets, of which the busiest ones are reported.
const FLOWS: usize = 64;
/// Limit of answers for one client in [`SPAN`].
const MOST: u32 = 20;
const SPAN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_asks_without_end_is_refused_for_a_while_and_others_are_not() {
        let told = ReasonsTold::default();
        let [greedy, other] = [1, 2].map(|byte| ClientId::new([byte; 32]));
        let answers = (0..100).filter(|_| told.may_tell(greedy)).count();
        assert_eq!(answers, MOST as usize);
        assert!(told.may_tell(other));
        tokio::time::advance(SPAN).await;
        assert!(told.may_tell(greedy));
    }
}
