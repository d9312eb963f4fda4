//! Stories of the latest connections.

use std::net::IpAddr;

use hawser_sched::connection::{Demand, Reason};
use hawser_types::{DialError, Instant};

use super::{ConnectionRequest, Director, FlowId, LeftTo, LinkDecision, Placed, Story, TryRoute};

impl Director {
    /// Returns the stories of the latest connections, at most `count`, the latest last.
    pub fn stories(&mut self, now: Instant, count: usize) -> Vec<Story> {
        self.bring_up_to_date(now);
        let mut latest: Vec<Story> = self.stories.all().rev().take(count).cloned().collect();
        latest.reverse();
        latest
    }

    /// Returns the story with this number; `None` if it was evicted or never existed.
    pub fn story_of(&mut self, now: Instant, number: u64) -> Option<Story> {
        self.bring_up_to_date(now);
        self.stories.find(number).map(|story| story.clone())
    }

    /// Returns the latest story number; 0 before the first.
    pub const fn latest_story(&self) -> u64 {
        self.stories.latest()
    }

    /// Records a connection over a session with the peer at `address`, which needs no link.
    pub fn note_bonded(&mut self, now: Instant, request: &ConnectionRequest, address: IpAddr) {
        let judgement = self.judge(request);
        let left_to = Some(LeftTo::Peer(address));
        let story = self.story(now, &judgement, Placed::default(), left_to);
        self.stories.begin(story);
    }

    /// Records a connection placed by Hawser's program in the kernel, with its reason and
    /// expectation.
    pub fn note_kernels(
        &mut self,
        decision: &LinkDecision,
        reason: Option<Reason>,
        demand: Demand,
    ) {
        if let Some(story) = self.stories.find(decision.story) {
            story.is_kernels = true;
            (story.reason, story.demand) = (reason, demand);
        }
    }

    /// Records an attempt by the system's routes.
    pub fn note_by_system(&mut self, now: Instant, decision: &LinkDecision) {
        let story = decision.story;
        self.stories.try_route(story, TryRoute::System, now);
    }

    /// Records that the connection was never established.
    pub fn note_failure(&mut self, decision: &LinkDecision, error: DialError) {
        if let Some(story) = self.stories.find(decision.story) {
            story.failed = Some(error);
        }
    }

    /// Records the failure of one attempt, which is about to end.
    pub fn note_refused(&mut self, flow: FlowId, error: DialError) {
        let told = self.flows.get_mut(flow).and_then(|flow| flow.told());
        self.stories.fail_try(told, error);
    }

    /// Updates the stories with the progress of open connections.
    fn bring_up_to_date(&mut self, now: Instant) {
        for flow in self.flows.iter() {
            let lasted = flow.lasted(now);
            self.stories.update_try(flow.told(), flow.moved(), lasted);
        }
    }
}
