//! Resolves names to addresses, even while the link that the system's resolver uses is dead.
//!
//! The system's resolver is asked first: it knows the hosts file, split horizons, a VPN's servers
//! and encrypted ones. If it does not answer at once, every link's own name servers are asked over
//! that link, all at the same time, and the first good answer is used.

mod asked;
mod cache;
mod exchange;
mod lookup_error;
mod race;
mod servers;
mod system;
#[cfg(test)]
mod tests;
mod times;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hawser_types::{HostName, LinkIndex};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::links::Link;
use asked::Answers;
use cache::Cache;
pub use lookup_error::LookupError;
use servers::{LinkServers, ServerFinder};
use system::{System, SystemAnswer};
use times::SILENCE;
pub use times::{HEAD_START, LOOKUP_TIMEOUT, SPLIT_PATIENCE, SYSTEM_TIMEOUT};

/// Looks names up. Clones share the cache.
#[derive(Clone, Debug)]
pub struct Names {
    finder: Arc<ServerFinder>,
    system: System,
    answers: Answers,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    cache: Cache,
    /// Until then the system's resolver gets no head start, since it was silent.
    silent_until: Option<Instant>,
}

/// One answer of [`Names::search`].
#[derive(Debug)]
pub struct Finding {
    /// The link over which its servers were asked; `None` for the system's resolver.
    pub link: Option<LinkIndex>,
    /// The addresses, or the error.
    pub result: Result<Vec<IpAddr>, LookupError>,
}

impl Names {
    /// Reads name servers from the files where this machine's programs write them.
    pub fn new() -> Self {
        Self::with_root(PathBuf::from("/"))
    }

    /// As [`Names::new`], with the files below `root` in place of the machine's.
    pub fn with_root(root: PathBuf) -> Self {
        let finder = Arc::new(ServerFinder::new(root));
        Self {
            answers: Answers::new(Arc::clone(&finder)),
            finder,
            system: System::default(),
            memory: Arc::default(),
        }
    }

    /// Returns the addresses of `host`, at least one.
    ///
    /// An answer of the system's resolver within [`HEAD_START`] is used, also "no such name". After
    /// that, the first such answer, or the first addresses from servers of `links`, is used. Ends
    /// after [`SYSTEM_TIMEOUT`] at the latest.
    ///
    /// # Errors
    /// [`LookupError`].
    pub async fn lookup(
        &self,
        host: &HostName,
        links: &[Link],
    ) -> Result<Vec<IpAddr>, LookupError> {
        let looking = self.lookup_in_turn(host, links);
        let result = timeout(SYSTEM_TIMEOUT, looking).await;
        result.unwrap_or(Err(LookupError::Silent))
    }

    async fn lookup_in_turn(
        &self,
        host: &HostName,
        links: &[Link],
    ) -> Result<Vec<IpAddr>, LookupError> {
        let mut system = self.system.ask(host).boxed();
        let mut system_may_answer = true;
        match timeout(self.head_start(), &mut system).await {
            Ok(SystemAnswer::Found(addresses)) => return Ok(addresses),
            Ok(SystemAnswer::NoSuchName) => return Err(LookupError::NotFound),
            Ok(SystemAnswer::Failed) => system_may_answer = false,
            Err(_) => {}
        }
        let mut over_links = self.over_links(host, links).boxed();
        let mut problem = None;
        loop {
            tokio::select! {
                answer = &mut system, if system_may_answer => match (answer, problem.take()) {
                    (SystemAnswer::Found(addresses), _) => return Ok(addresses),
                    (SystemAnswer::NoSuchName, _) => return Err(LookupError::NotFound),
                    (SystemAnswer::Failed, Some(problem)) => return Err(problem),
                    (SystemAnswer::Failed, None) => system_may_answer = false,
                },
                result = &mut over_links, if problem.is_none() => match result {
                    Ok(addresses) => {
                        if system_may_answer {
                            self.memory.lock().silent_until = Some(Instant::now() + SILENCE);
                        }
                        return Ok(addresses);
                    }
                    Err(error) if system_may_answer => problem = Some(error),
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Returns all findings about `host`, as they arrive: by the system's resolver, and over each
    /// of `links` by that link's own servers. Only for a host that proves its identity, so that a
    /// wrong address does no harm.
    pub fn search(
        &self,
        host: &HostName,
        links: &[Link],
    ) -> impl futures_util::Stream<Item = Finding> + Send + use<> {
        let (names, host, links) = (self.clone(), host.clone(), links.to_vec());
        let searching = async move {
            let findings: FuturesUnordered<BoxFuture<'static, Finding>> = FuturesUnordered::new();
            findings.push(names.clone().find_by_system(host.clone()).boxed());
            if servers::may_be_asked(host.as_str()) {
                for target in names.finder.find(&links).await {
                    findings.push(find_over(target, host.clone()).boxed());
                }
            }
            findings
        };
        futures_util::stream::once(searching).flatten()
    }

    /// Returns the servers that programs of this machine may be configured to ask: those of
    /// `links`, and those of the whole machine, resolvers on it included, but none with a
    /// link-local address (`fe80::`).
    pub async fn servers(&self, links: &[Link]) -> Vec<SocketAddr> {
        self.finder.find_all(links).await
    }

    /// Answers the message `query`, which a program has sent to the server `asked`. The answer has
    /// the ID of `query`.
    ///
    /// An answer of `asked` within [`HEAD_START`] is used. After that the first answer, of `asked`
    /// or a link's server, that has records, or says that the name has no such records. "No such
    /// name" from links' servers counts only once `asked` has been silent for [`SPLIT_PATIENCE`],
    /// since `asked` may know more names than they do.
    ///
    /// Links' servers are asked ordinary questions only. All other questions go to `asked` alone,
    /// and messages that are not questions are forwarded unchanged. Ends after [`LOOKUP_TIMEOUT`]
    /// at the latest.
    ///
    /// # Errors
    /// [`LookupError::Silent`] if there is no answer.
    pub async fn answer(
        &self,
        query: &[u8],
        asked: SocketAddr,
        links: &[Link],
    ) -> Result<Vec<u8>, LookupError> {
        self.answers.answer(query, asked, links).await
    }

    async fn over_links(
        &self,
        host: &HostName,
        links: &[Link],
    ) -> Result<Vec<IpAddr>, LookupError> {
        if !servers::may_be_asked(host.as_str()) {
            return Err(LookupError::NotFound);
        }
        if let Some(known) = self.memory.lock().cache.get(host, links, Instant::now()) {
            return Ok(known);
        }
        let targets = self.finder.find(links).await;
        let found = race::addresses(&targets, host).await?;
        let mut memory = self.memory.lock();
        memory.cache.put(host, links, Instant::now(), &found);
        Ok(found.addresses)
    }

    async fn find_by_system(self, host: HostName) -> Finding {
        let result = match timeout(LOOKUP_TIMEOUT, self.system.ask(&host)).await {
            Ok(SystemAnswer::Found(addresses)) => Ok(addresses),
            Ok(SystemAnswer::NoSuchName) => Err(LookupError::NotFound),
            Ok(SystemAnswer::Failed) => Err(LookupError::Failed),
            Err(_) => Err(LookupError::Silent),
        };
        Finding { link: None, result }
    }

    fn head_start(&self) -> Duration {
        let until = self.memory.lock().silent_until;
        if until.is_some_and(|until| Instant::now() < until) {
            Duration::ZERO
        } else {
            HEAD_START
        }
    }
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

async fn find_over(target: LinkServers, host: HostName) -> Finding {
    let link = Some(target.link.index);
    let targets = [target];
    let found = timeout(LOOKUP_TIMEOUT, race::addresses(&targets, &host)).await;
    let result = match found {
        Ok(found) => found.map(|found| found.addresses),
        Err(_) => Err(LookupError::Silent),
    };
    Finding { link, result }
}
