use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Tells a connection that its link is gone for good, so that it fails at once. Its socket would
/// report nothing for minutes.
#[derive(Debug, Default)]
pub(super) struct Stranded {
    is_set: AtomicBool,
    /// The tasks that wait to read and to write.
    waiting: Mutex<[Option<Waker>; 2]>,
}

/// What a task waits for on a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiting {
    ToRead,
    ToWrite,
}

impl Stranded {
    /// Marks the connection as broken.
    pub(super) fn set(&self) {
        let mut waiting = self.waiting.lock();
        self.is_set.store(true, Ordering::Release);
        let wakers = std::mem::take(&mut *waiting);
        drop(waiting);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Returns `polled`, or an error where the connection's link is gone. A waiting task is woken
    /// when the link is given up.
    pub(super) fn check<T>(
        &self,
        polled: Poll<io::Result<T>>,
        context: &Context<'_>,
        waiting: Waiting,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            return polled;
        }
        let mut wakers = self.waiting.lock();
        if self.is_set() {
            return Poll::Ready(Err(gone()));
        }
        let waker = &mut wakers[waiting as usize];
        if !waker
            .as_ref()
            .is_some_and(|known| known.will_wake(context.waker()))
        {
            *waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the link is gone")
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn who_waits_hears_of_it_and_what_has_come_is_still_read() {
        let stranded = std::sync::Arc::new(Stranded::default());
        let waiting = |what| {
            let stranded = std::sync::Arc::clone(&stranded);
            tokio::spawn(poll_fn(move |context| {
                stranded.check(Poll::<io::Result<()>>::Pending, context, what)
            }))
        };
        let tasks = [Waiting::ToRead, Waiting::ToWrite].map(waiting);
        tokio::task::yield_now().await;
        stranded.set();
        for task in tasks {
            let error = task.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        poll_fn(|context| stranded.check(Poll::Ready(Ok(())), context, Waiting::ToRead))
            .await
            .unwrap();
    }
}
