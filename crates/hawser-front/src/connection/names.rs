use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::destination::HostName;
use crate::resolve::Resolve;
use crate::transport::DialError;

/// A resolver with a memory: earlier answers serve while the inner resolver is silent or fails, as
/// when the link to its name server is dead.
///
/// A name is looked up only once at a time, so that unanswered lookups do not pile up.
///
/// Source: RFC 8767 (stale answers, if no fresh ones are available).
#[derive(Debug)]
pub struct RememberingResolver<R> {
    inner: Arc<R>,
    memory: Arc<Mutex<Memory>>,
}

type Answer = Result<Vec<IpAddr>, DialError>;

#[derive(Debug, Default)]
struct Memory {
    known: BTreeMap<HostName, (Instant, Vec<IpAddr>)>,
    running: BTreeMap<HostName, Shared<BoxFuture<'static, Answer>>>,
}

impl<R: Resolve> RememberingResolver<R> {
    /// Creates a resolver that remembers what `inner` finds.
    pub fn new(inner: R) -> Self {
        Self {
            inner: Arc::new(inner),
            memory: Arc::default(),
        }
    }

    /// Looks a name up, or joins a lookup in progress.
    fn look_up(&self, name: &HostName) -> Shared<BoxFuture<'static, Answer>> {
        let mut memory = self.memory.lock();
        if let Some(running) = memory.running.get(name) {
            return running.clone();
        }
        let (inner, shared) = (Arc::clone(&self.inner), Arc::clone(&self.memory));
        let own = name.clone();
        // The lookup continues without waiting callers, so that the next one finds the answer.
        let looking = tokio::spawn(async move {
            let answer = inner.resolve(&own).await;
            shared.lock().note(&own, &answer);
            answer
        });
        let looking = looking.map(|ended| ended.unwrap_or(Err(DialError::Internal)));
        let looking = looking.boxed().shared();
        memory.running.insert(name.clone(), looking.clone());
        looking
    }
}

impl<R: Resolve> Resolve for RememberingResolver<R> {
    async fn resolve(&self, name: &HostName) -> Answer {
        let looking = self.look_up(name);
        let known = {
            let memory = self.memory.lock();
            let known = memory.known.get(name);
            let known = known.filter(|(at, _)| at.elapsed() <= MAX_AGE);
            known.map(|(_, addresses)| addresses.clone())
        };
        let Some(known) = known else {
            return looking.await;
        };
        match timeout(PATIENCE, looking).await {
            Ok(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
            _ => Ok(known),
        }
    }
}

impl Memory {
    fn note(&mut self, name: &HostName, answer: &Answer) {
        self.running.remove(name);
        let Some(addresses) = answer.as_ref().ok().filter(|found| !found.is_empty()) else {
            return;
        };
        if self.known.len() >= MAX_KNOWN && !self.known.contains_key(name) {
            let oldest = self.known.iter().min_by_key(|(_, (at, _))| *at);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.and_then(|name| self.known.remove(&name));
        }
        let entry = (Instant::now(), addresses.clone());
        self.known.insert(name.clone(), entry);
    }
}

/// Time to wait for a fresh answer before an earlier answer serves. Most arrive well before.
const PATIENCE: Duration = Duration::from_millis(300);
/// Age after which answers expire, since servers move.
const MAX_AGE: Duration = Duration::from_secs(3600);
const MAX_KNOWN: usize = 4096;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Answers after so many milliseconds, once for each entry, and then never.
    struct Scripted {
        answers: Vec<(u64, Answer)>,
        asked: Arc<AtomicUsize>,
    }

    impl Resolve for Scripted {
        async fn resolve(&self, _name: &HostName) -> Answer {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed);
            match self.answers.get(asked) {
                Some((after, answer)) => {
                    tokio::time::sleep(Duration::from_millis(*after)).await;
                    answer.clone()
                }
                None => std::future::pending().await,
            }
        }
    }

    fn resolver(
        answers: &[(u64, Answer)],
    ) -> (Arc<RememberingResolver<Scripted>>, Arc<AtomicUsize>) {
        let asked = Arc::<AtomicUsize>::default();
        let scripted = Scripted {
            answers: answers.to_vec(),
            asked: Arc::clone(&asked),
        };
        (Arc::new(RememberingResolver::new(scripted)), asked)
    }

    fn found(address: &str) -> Answer {
        Ok(vec![address.parse().unwrap()])
    }

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn earlier_answers_serve_while_the_resolver_is_silent() {
        let (resolver, asked) = resolver(&[(20, found("192.0.2.1"))]);
        let name = name("example.org");
        assert_eq!(resolver.resolve(&name).await, found("192.0.2.1"));
        let begun = Instant::now();
        for _ in 0..100 {
            assert_eq!(resolver.resolve(&name).await, found("192.0.2.1"));
        }
        assert_eq!(begun.elapsed(), 100 * PATIENCE);
        assert_eq!(
            asked.load(Ordering::Relaxed),
            2,
            "one look-up is in progress"
        );
        tokio::time::advance(MAX_AGE).await;
        let late = timeout(Duration::from_secs(60), resolver.resolve(&name)).await;
        assert!(late.is_err(), "too old to be of use");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_bridged_and_news_is_taken() {
        let lost = Err(DialError::NameNotFound);
        let (resolver, _) = resolver(&[
            (1, lost.clone()),
            (1, found("192.0.2.1")),
            (1, lost),
            (1, found("192.0.2.2")),
        ]);
        let name = name("example.org");
        assert_eq!(resolver.resolve(&name).await, Err(DialError::NameNotFound));
        assert_eq!(resolver.resolve(&name).await, found("192.0.2.1"));
        assert_eq!(resolver.resolve(&name).await, found("192.0.2.1"));
        assert_eq!(resolver.resolve(&name).await, found("192.0.2.2"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_came_late_is_there_for_the_next() {
        let late = (2_000, found("192.0.2.2"));
        let (resolver, _) = resolver(&[(1, found("192.0.2.1")), late]);
        let name = name("example.org");
        assert_eq!(resolver.resolve(&name).await, found("192.0.2.1"));
        assert_eq!(resolver.resolve(&name).await, found("192.0.2.1"));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(resolver.resolve(&name).await, found("192.0.2.2"));
    }

    #[tokio::test(start_paused = true)]
    async fn names_without_end_do_not_fill_the_memory() {
        let answers = vec![(0, found("192.0.2.1")); MAX_KNOWN + 10];
        let (resolver, _) = resolver(&answers);
        for n in 0..MAX_KNOWN + 10 {
            let found = resolver.resolve(&name(&format!("n{n}.example"))).await;
            assert!(found.is_ok());
        }
        let memory = resolver.memory.lock();
        assert_eq!((memory.known.len(), memory.running.len()), (MAX_KNOWN, 0));
    }
}
