//! The resolver of the operating system, which blocks a thread for an unbounded time.

use std::net::IpAddr;
use std::sync::Arc;

use hawser_types::HostName;
use tokio::sync::{Semaphore, oneshot};

use crate::sys::{self, NameError};

/// Asks the system's resolver, in a bounded number of threads. The threads do not belong to the
/// runtime, which would wait for them when it ends.
#[derive(Clone, Debug)]
pub(super) struct System {
    free: Arc<Semaphore>,
}

/// An answer of the system's resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SystemAnswer {
    Found(Vec<IpAddr>),
    NoSuchName,
    /// The resolver failed, or too many questions wait for it.
    Failed,
}

impl System {
    pub(super) fn ask(&self, host: &HostName) -> impl Future<Output = SystemAnswer> + Send + use<> {
        let asked = self.start(host.as_str().to_owned());
        async move {
            match asked {
                Some(answer) => answer.await.unwrap_or(SystemAnswer::Failed),
                None => SystemAnswer::Failed,
            }
        }
    }

    fn start(&self, host: String) -> Option<oneshot::Receiver<SystemAnswer>> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        let (sender, answer) = oneshot::channel();
        let asking = move || {
            let answer = match sys::addresses_of(&host) {
                Ok(addresses) if addresses.is_empty() => SystemAnswer::NoSuchName,
                Ok(addresses) => SystemAnswer::Found(addresses),
                Err(NameError::NoSuchName) => SystemAnswer::NoSuchName,
                Err(NameError::Failed) => SystemAnswer::Failed,
            };
            // A question takes a thread until here, even if its caller no longer waits.
            drop(permit);
            let _ = sender.send(answer);
        };
        let thread = std::thread::Builder::new().name("lookup".to_owned());
        thread.stack_size(STACK).spawn(asking).ok()?;
        Some(answer)
    }
}

impl Default for System {
    fn default() -> Self {
        Self {
            free: Arc::new(Semaphore::new(MAX_THREADS)),
        }
    }
}

/// Most threads. If a resolver is silent, each question takes a thread for half a minute; a page
/// with many names takes no more than this.
const MAX_THREADS: usize = 128;
/// Resolvers of the C library keep answers on the stack.
const STACK: usize = 512 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_machine_knows_itself() {
        let answer = System::default().ask(&"localhost".parse().unwrap()).await;
        let SystemAnswer::Found(addresses) = answer else {
            panic!("{answer:?}");
        };
        assert!(addresses.iter().all(IpAddr::is_loopback));
    }

    #[tokio::test]
    async fn when_all_threads_are_taken_it_answers_at_once() {
        let system = System {
            free: Arc::new(Semaphore::new(0)),
        };
        let answer = system.ask(&"localhost".parse().unwrap()).await;
        assert_eq!(answer, SystemAnswer::Failed);
    }
}
