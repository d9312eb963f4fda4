use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::destination::Host;

/// A waiting datagram: its port and payload.
pub(super) type Waiting = (u16, Vec<u8>);

/// Questions about the hosts that one port sends to, and the datagrams that wait for the answers.
pub(super) struct Questions<A> {
    waiting: BTreeMap<Host, Vec<Waiting>>,
    bytes: usize,
    running: FuturesUnordered<Question<A>>,
}

type Question<A> = Pin<Box<dyn Future<Output = (Host, A)> + Send>>;

impl<A> Default for Questions<A> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            bytes: 0,
            running: FuturesUnordered::new(),
        }
    }
}

impl<A: Send + 'static> Questions<A> {
    /// Asks about a host, unless a question is in progress; the datagram waits. `false`: too many
    /// wait.
    pub(super) fn ask<F>(
        &mut self,
        host: &Host,
        port: u16,
        payload: &[u8],
        question: impl FnOnce() -> F,
    ) -> bool
    where
        F: Future<Output = A> + Send + 'static,
    {
        let is_new = !self.waiting.contains_key(host);
        if self.bytes + payload.len() > MAX_BYTES || is_new && self.waiting.len() >= MAX_QUESTIONS {
            return false;
        }
        let waiting = self.waiting.entry(host.clone()).or_default();
        if waiting.len() >= MAX_WAITING {
            return false;
        }
        waiting.push((port, payload.to_vec()));
        self.bytes += payload.len();
        if is_new {
            let (host, question) = (host.clone(), question());
            self.running
                .push(Box::pin(async move { (host, question.await) }));
        }
        true
    }

    /// Returns the next host whose answer has arrived, and the datagrams that waited for it.
    pub(super) fn poll_answered(&mut self, cx: &mut Context<'_>) -> Poll<(Host, A, Vec<Waiting>)> {
        match self.running.poll_next_unpin(cx) {
            Poll::Ready(Some((host, answer))) => {
                let waiting = self.waiting.remove(&host).unwrap_or_default();
                let bytes: usize = waiting.iter().map(|(_, payload)| payload.len()).sum();
                self.bytes = self.bytes.saturating_sub(bytes);
                Poll::Ready((host, answer, waiting))
            }
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

const MAX_QUESTIONS: usize = 64;
/// Most datagrams that wait for the answer about one host.
const MAX_WAITING: usize = 8;
const MAX_BYTES: usize = 1 << 20;
