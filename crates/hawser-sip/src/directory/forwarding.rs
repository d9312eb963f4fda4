//! Forwarding of requests to registered users: one contact after the other, the preferred ones
//! first.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use hawser_types::Instant;

use super::config::TAG;
use crate::message::{Method, Request, Response, StatusCode};
use crate::proxy::{Forward, best};
use crate::registrar::sender;
use crate::transaction::{Flow, TransactionId};

/// Requests that are being forwarded.
///
/// Change it once, then drain [`Forwarding::poll_step`].
#[derive(Debug)]
pub(super) struct Forwarding {
    calls: BTreeMap<TransactionId, Call>,
    /// Incoming transaction of each branch.
    of: BTreeMap<TransactionId, TransactionId>,
    steps: VecDeque<Step>,
    max_calls: usize,
}

/// Action for the directory.
#[derive(Debug)]
pub(super) enum Step {
    /// Send a response to the caller.
    Answer(TransactionId, Response),
    /// Forward the request to the next contact, then report by [`Forwarding::handle_sent`] or
    /// [`Forwarding::handle_refusal`].
    Try(TransactionId, Forward),
    /// Send a CANCEL after a request, over the same flow.
    Cancel(Flow, Request),
}

/// Sender of a request to forward.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) address: IpAddr,
    /// Whether the address is genuine: it belongs to a stream, or a password was proved from it.
    pub(super) is_certain: bool,
}

#[derive(Debug)]
struct Call {
    sender: IpAddr,
    is_certain: bool,
    request: Request,
    waiting: VecDeque<Forward>,
    branches: Vec<Branch>,
    finals: Vec<Response>,
    /// Time at which the next contact is tried even without a refusal.
    next_at: Option<Instant>,
    /// Set once the caller has the final response or has given up: the time after which late
    /// responses can no longer arrive.
    ends: Option<Instant>,
}

#[derive(Debug)]
struct Branch {
    id: TransactionId,
    flow: Flow,
    /// CANCEL for the request of this branch.
    cancel: Request,
    state: BranchState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BranchState {
    /// No response yet, so the branch can't be cancelled (RFC 3261 §9.1).
    Trying {
        is_given_up: bool,
    },
    Proceeding,
    Over,
}

impl Forwarding {
    pub(super) fn new(max_calls: usize) -> Self {
        Self {
            calls: BTreeMap::new(),
            of: BTreeMap::new(),
            steps: VecDeque::new(),
            max_calls,
        }
    }

    pub(super) fn poll_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// Whether one more request of this source may be forwarded. A request takes one place for each
    /// contact. Senders with possibly forged addresses take at most half.
    pub(super) fn has_room(&self, source: Caller) -> bool {
        let sender = sender(source.address);
        let calls = self.calls.values();
        let (mut own, mut uncertain) = (0, 0);
        for call in calls {
            let places = call.places();
            own += places * usize::from(call.sender == sender);
            uncertain += places * usize::from(!call.is_certain);
        }
        self.calls.len() < self.max_calls
            && own < self.max_calls.div_ceil(MOST_PART)
            && (source.is_certain || uncertain < self.max_calls / 2)
    }

    /// Starts forwarding a request from `source` that arrived in the transaction `id`. The caller
    /// checks [`Forwarding::has_room`] first.
    pub(super) fn start(
        &mut self,
        now: Instant,
        id: TransactionId,
        source: Caller,
        request: Request,
        targets: Vec<Forward>,
    ) {
        let call = Call {
            sender: sender(source.address),
            is_certain: source.is_certain,
            request,
            waiting: targets.into(),
            branches: Vec::new(),
            finals: Vec::new(),
            next_at: None,
            ends: None,
        };
        self.calls.insert(id, call);
        self.advance(now, id);
    }

    /// Records that the request was sent to a contact over `flow`, in the transaction `branch`;
    /// `cancel` is its CANCEL.
    pub(super) fn handle_sent(
        &mut self,
        now: Instant,
        id: TransactionId,
        branch: TransactionId,
        (flow, cancel): (Flow, Request),
    ) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        call.branches.push(Branch {
            id: branch,
            flow,
            cancel,
            state: BranchState::Trying { is_given_up: false },
        });
        call.next_at = (!call.waiting.is_empty()).then_some(now + NEXT_AFTER);
        self.of.insert(branch, id);
    }

    /// Records that the request can't be sent to a contact.
    pub(super) fn handle_refusal(&mut self, now: Instant, id: TransactionId, status: StatusCode) {
        if let Some(call) = self.calls.get_mut(&id) {
            let answer = Response::new(&call.request, status, Some(TAG));
            call.finals.push(answer);
            self.advance(now, id);
        }
    }

    /// Handles a contact's response, from which the Via of this proxy was removed.
    pub(super) fn handle_response(
        &mut self,
        now: Instant,
        branch: TransactionId,
        response: Response,
    ) {
        let Some(id) = self.of.get(&branch).copied() else {
            return;
        };
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        let status = response.status;
        if status.is_provisional() {
            call.proceed(branch, &mut self.steps);
            if status != StatusCode::TRYING && call.ends.is_none() {
                self.steps.push_back(Step::Answer(id, response));
            }
            return;
        }
        call.set_over(branch);
        if status.is_success() {
            // Further 2xx to an INVITE go back as well (RFC 3261 §16.7 step 5).
            self.steps.push_back(Step::Answer(id, response));
            self.give_up_rest(now, id);
        } else if call.ends.is_none() {
            let is_last = status.as_u16() / 100 == 6;
            call.finals.push(response);
            if is_last {
                call.waiting.clear();
                call.cancel_branches(&mut self.steps);
            }
            self.advance(now, id);
        }
    }

    /// Records that a contact has not answered.
    pub(super) fn handle_failure(&mut self, now: Instant, branch: TransactionId) {
        let Some(id) = self.of.get(&branch).copied() else {
            return;
        };
        if let Some(call) = self.calls.get_mut(&id) {
            call.set_over(branch);
            if call.ends.is_none() {
                self.handle_refusal(now, id, StatusCode::REQUEST_TIMEOUT);
            }
        }
    }

    /// Handles the caller's CANCEL: a final response still goes back.
    pub(super) fn handle_cancel(&mut self, now: Instant, id: TransactionId) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        if call.request.method != Method::Invite || call.ends.is_some() {
            return;
        }
        call.waiting.clear();
        call.next_at = None;
        call.cancel_branches(&mut self.steps);
        self.advance(now, id);
    }

    /// Records that the caller's transaction has ended.
    pub(super) fn handle_abandoned(&mut self, now: Instant, id: TransactionId) {
        self.give_up_rest(now, id);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let calls = self.calls.values();
        calls.filter_map(|call| call.ends.or(call.next_at)).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let over = self.calls.iter().filter(|(_, call)| is_due(call.ends));
        for id in over.map(|(id, _)| *id).collect::<Vec<_>>() {
            let branches = self.calls.remove(&id).map(|call| call.branches);
            for branch in branches.into_iter().flatten() {
                self.of.remove(&branch.id);
            }
        }
        let calls = self.calls.iter_mut();
        let next = calls.filter(|(_, call)| call.ends.is_none() && is_due(call.next_at));
        for (id, call) in next {
            call.next_at = None;
            if let Some(forward) = call.waiting.pop_front() {
                self.steps.push_back(Step::Try(*id, forward));
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Tries the next contact, or sends the best response if none is left.
    fn advance(&mut self, now: Instant, id: TransactionId) {
        let Some(call) = self.calls.get_mut(&id).filter(|call| call.ends.is_none()) else {
            return;
        };
        if let Some(forward) = call.waiting.pop_front() {
            call.next_at = None;
            self.steps.push_back(Step::Try(id, forward));
            return;
        }
        if call.branches.iter().any(|it| it.state != BranchState::Over) {
            return;
        }
        let answer = best(&call.finals).cloned();
        let answer = answer.unwrap_or_else(|| {
            Response::new(&call.request, StatusCode::REQUEST_TERMINATED, Some(TAG))
        });
        self.steps.push_back(Step::Answer(id, answer));
        self.give_up_rest(now, id);
    }

    fn give_up_rest(&mut self, now: Instant, id: TransactionId) {
        if let Some(call) = self.calls.get_mut(&id).filter(|call| call.ends.is_none()) {
            call.waiting.clear();
            call.next_at = None;
            call.cancel_branches(&mut self.steps);
            call.ends = Some(now + LINGER);
        }
    }
}

impl Call {
    /// Number of contacts with an open branch or still untried; at least one, for the call itself.
    fn places(&self) -> usize {
        let is_open = |branch: &&Branch| branch.state != BranchState::Over;
        let open = self.branches.iter().filter(is_open).count();
        (open + self.waiting.len()).max(1)
    }

    fn branch(&mut self, id: TransactionId) -> Option<&mut Branch> {
        self.branches.iter_mut().find(|branch| branch.id == id)
    }

    fn set_over(&mut self, id: TransactionId) {
        if let Some(branch) = self.branch(id) {
            branch.state = BranchState::Over;
        }
    }

    /// Records a provisional response of a branch.
    fn proceed(&mut self, id: TransactionId, steps: &mut VecDeque<Step>) {
        self.next_at = None;
        let Some(branch) = self.branch(id) else {
            return;
        };
        if let BranchState::Trying { is_given_up } = branch.state {
            branch.state = BranchState::Proceeding;
            if is_given_up {
                branch.cancel(steps);
            }
        }
    }

    fn cancel_branches(&mut self, steps: &mut VecDeque<Step>) {
        if self.request.method != Method::Invite {
            return;
        }
        for branch in &mut self.branches {
            match &mut branch.state {
                BranchState::Trying { is_given_up } => *is_given_up = true,
                BranchState::Proceeding => branch.cancel(steps),
                BranchState::Over => {}
            }
        }
    }
}

impl Branch {
    fn cancel(&self, steps: &mut VecDeque<Step>) {
        steps.push_back(Step::Cancel(self.flow, self.cancel.clone()));
    }
}

/// Time without a response after which the next contact is tried.
const NEXT_AFTER: Duration = Duration::from_secs(2);
/// Time during which a late or repeated 2xx may arrive: 64 × T1, and a little more.
const LINGER: Duration = Duration::from_secs(33);
/// Divisor: one sender may have this fraction of all requests.
const MOST_PART: usize = 8;
