//! The daemon's latest answers.

use std::collections::VecDeque;

use hawser_control::{
    Event, HistoryReport, LinkHistory, LinkStatus, PlacedConnection, PolicyStatus, Response,
    StatusSnapshot, WhyReport,
};

/// The daemon's latest answers.
#[derive(Debug, Default)]
pub(super) struct LatestAnswers {
    pub(super) status: Option<StatusSnapshot>,
    pub(super) history: HistoryReport,
    pub(super) policy: Option<PolicyStatus>,
    /// Events, the latest first.
    pub(super) events: VecDeque<Event>,
    /// The number of the latest event.
    pub(super) latest_event: u64,
    /// Connections over one link each.
    pub(super) placed: Vec<PlacedConnection>,
    /// Answer to the last `why` request.
    pub(super) why: Option<Result<WhyReport, String>>,
}

impl LatestAnswers {
    pub(super) fn links(&self) -> &[LinkStatus] {
        self.status.as_ref().map_or(&[], |status| &status.links)
    }

    /// Returns the history of a link's rates.
    pub(super) fn history(&self, link: &LinkStatus) -> Option<&LinkHistory> {
        // A link that is plugged in again has another number.
        let mut all = self.history.links.iter();
        all.find(|it| it.name == link.name)
    }

    /// Returns whether the daemon places connections itself.
    pub(super) fn places(&self) -> bool {
        let status = self.status.as_ref();
        status.is_some_and(|status| status.connections.is_some())
    }

    /// Stores the daemon's status. Returns whether it is from a new daemon, of which nothing else
    /// is known.
    pub(super) fn handle_status(&mut self, status: StatusSnapshot) -> bool {
        let is_other = self.status.as_ref().is_some_and(|before| {
            before.process_id != status.process_id || before.uptime > status.uptime
        });
        if is_other {
            *self = Self::default();
        }
        self.status = Some(status);
        is_other
    }

    /// Stores any other answer.
    pub(super) fn handle_answer(&mut self, response: Response) {
        match response {
            Response::History(history) => self.history = *history,
            Response::Policy(policy) => self.policy = Some(*policy),
            Response::Events { events, latest } => {
                // There may be more events than fit into one answer.
                self.latest_event = events.last().map_or(latest, |event| event.id);
                events
                    .into_iter()
                    .for_each(|event| self.events.push_front(event));
                self.events.truncate(MAX_EVENTS);
            }
            _ => {}
        }
    }
}

const MAX_EVENTS: usize = 500;
