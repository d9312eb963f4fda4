//! The queue of requests to the daemon; one is in progress at a time.

use std::collections::VecDeque;

use hawser_control::Request;

/// A request and its purpose.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) request: Request,
    /// The requested change in words; `None` for a question.
    pub(super) change: Option<String>,
}

/// Requests that wait for the answer to the one before. There are never many.
#[derive(Debug, Default)]
pub(super) struct Asking {
    changes: VecDeque<Asked>,
    questions: VecDeque<Request>,
    current: Option<Asked>,
}

impl Asking {
    /// Queues a question unless the same one waits already.
    pub(super) fn question(&mut self, request: Request) {
        if !self.questions.contains(&request) {
            self.questions.push_back(request);
        }
    }

    /// Queues a change, ahead of any questions. Returns whether there was room.
    pub(super) fn change(&mut self, request: Request, words: String) -> bool {
        let has_room = self.changes.len() < MAX_CHANGES;
        if has_room {
            let change = Some(words);
            self.changes.push_back(Asked { request, change });
        }
        has_room
    }

    /// Returns whether all questions are answered.
    pub(super) fn is_idle(&self) -> bool {
        self.current.is_none() && self.changes.is_empty() && self.questions.is_empty()
    }

    /// Returns the next request, if none is in progress.
    pub(super) fn poll_request(&mut self) -> Option<Request> {
        if self.current.is_some() {
            return None;
        }
        let change = self.changes.pop_front();
        self.current = change.or_else(|| {
            let request = self.questions.pop_front()?;
            let change = None;
            Some(Asked { request, change })
        });
        self.current.as_ref().map(|asked| asked.request.clone())
    }

    /// Returns the request that was answered.
    pub(super) fn answered(&mut self) -> Option<Asked> {
        self.current.take()
    }

    /// Forgets the waiting questions.
    pub(super) fn forget_questions(&mut self) {
        self.questions.clear();
    }

    /// Forgets all waiting requests. Returns the changes that will not be made.
    pub(super) fn give_up(&mut self) -> Vec<String> {
        self.forget_questions();
        self.changes.drain(..).filter_map(|it| it.change).collect()
    }
}

/// More changes than a user makes during one answer.
const MAX_CHANGES: usize = 16;
