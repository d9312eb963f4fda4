//! Requests on their way to who is registered: one contact after the other, the preferred ones
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

/// Requests that are forwarded and not over.
///
/// Change it once, then drain [`Forwarding::poll_step`].
#[derive(Debug)]
pub(super) struct Forwarding {
    calls: BTreeMap<TransactionId, Call>,
    /// The request that each branch is of.
    of: BTreeMap<TransactionId, TransactionId>,
    steps: VecDeque<Step>,
    max_calls: usize,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Step {
    /// An answer goes to who has asked.
    Answer(TransactionId, Response),
    /// The request goes to the next contact: [`Forwarding::handle_sent`] or
    /// [`Forwarding::handle_refusal`] says what came of it.
    Try(TransactionId, Forward),
    /// A CANCEL follows a request over its flow.
    Cancel(Flow, Request),
}

/// Who has a request forwarded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) address: IpAddr,
    /// The address is not forged: of a stream, or of who has proved a password from there.
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
    /// When the next contact is tried, though nobody has refused.
    next_at: Option<Instant>,
    /// Who has asked has the final answer, or has given up. Then it lasts until what is late can
    /// no longer come.
    ends: Option<Instant>,
}

#[derive(Debug)]
struct Branch {
    id: TransactionId,
    flow: Flow,
    /// What would give it up.
    cancel: Request,
    state: BranchState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BranchState {
    /// Nothing was heard of it, so that it can't be cancelled yet (RFC 3261 §9.1).
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

    /// Whether one more request of this source may be forwarded. A request has a place for each
    /// contact that it goes to. Those who forge addresses take half of all places at most.
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

    /// Begins with a request from `source` that has come in the transaction `id`, and for which
    /// there is room.
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

    /// A contact was sent the request over `flow`, in the transaction `branch`; `cancel` gives it
    /// up.
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

    /// A contact can't be sent anything.
    pub(super) fn handle_refusal(&mut self, now: Instant, id: TransactionId, status: StatusCode) {
        if let Some(call) = self.calls.get_mut(&id) {
            let answer = Response::new(&call.request, status, Some(TAG));
            call.finals.push(answer);
            self.advance(now, id);
        }
    }

    /// Takes what a contact has answered, without the Via of this proxy.
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
            // Further ones of an INVITE go back as well (RFC 3261 §16.7 step 5).
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

    /// A contact has not answered.
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

    /// Who has asked gives up, by CANCEL: an answer still goes back.
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

    /// Who has asked is there no more.
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

    /// Tries the next contact, or answers when none is left.
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
    /// Contacts that it goes to, or may yet go to; one at least, which keeps its outcome.
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

    /// A branch was heard of.
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

/// A contact that says nothing for this long does not keep the next one waiting.
const NEXT_AFTER: Duration = Duration::from_secs(2);
/// As long as a late 2xx, or its repetition, may come: 64 × T1, and a little more.
const LINGER: Duration = Duration::from_secs(33);
/// One sender may have this part of all requests.
const MOST_PART: usize = 8;
