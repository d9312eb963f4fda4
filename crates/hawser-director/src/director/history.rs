//! The stories of the latest connections.

use std::net::IpAddr;

use hawser_sched::connection::{Demand, Reason};
use hawser_types::{DialError, Instant};

use super::{ConnectionRequest, Director, FlowId, LeftTo, LinkDecision, Placed, Story, TryRoute};

impl Director {
    /// Returns the stories of the latest connections, `count` at most, the latest last.
    pub fn stories(&mut self, now: Instant, count: usize) -> Vec<Story> {
        self.bring_up_to_date(now);
        let mut latest: Vec<Story> = self.stories.all().rev().take(count).cloned().collect();
        latest.reverse();
        latest
    }

    /// Returns the story with this number; `None` where it is too long ago, or never was.
    pub fn story_of(&mut self, now: Instant, number: u64) -> Option<Story> {
        self.bring_up_to_date(now);
        self.stories.find(number).map(|story| story.clone())
    }

    /// Returns the latest number that a story has; 0 before the first.
    pub const fn latest_story(&self) -> u64 {
        self.stories.latest()
    }

    /// A connection goes to the peer at `address` over a session, so that no link is chosen for it.
    pub fn note_bonded(&mut self, now: Instant, request: &ConnectionRequest, address: IpAddr) {
        let judgement = self.judge(request);
        let left_to = Some(LeftTo::Peer(address));
        let story = self.story(now, &judgement, Placed::default(), left_to);
        self.stories.begin(story);
    }

    /// The kernel's program has placed the connection by itself, for this reason and with this
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

    /// A try begins that goes as the system's routes have it.
    pub fn note_by_system(&mut self, now: Instant, decision: &LinkDecision) {
        let story = decision.story;
        self.stories.try_route(story, TryRoute::System, now);
    }

    /// The connection never came about.
    pub fn note_failure(&mut self, decision: &LinkDecision, error: DialError) {
        if let Some(story) = self.stories.find(decision.story) {
            story.failed = Some(error);
        }
    }

    /// One try has failed, and is about to end.
    pub fn note_refused(&mut self, flow: FlowId, error: DialError) {
        let told = self.flows.get_mut(flow).and_then(|flow| flow.told());
        self.stories.fail_try(told, error);
    }

    /// Enters how far the open connections have come.
    fn bring_up_to_date(&mut self, now: Instant) {
        for flow in self.flows.iter() {
            let lasted = flow.lasted(now);
            self.stories.update_try(flow.told(), flow.moved(), lasted);
        }
    }
}
