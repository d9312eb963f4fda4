//! Tests whether links lead anywhere, by connections beside those of applications.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hawser_link::links::Link;
use hawser_types::LinkIndex;
use tokio::time::{Instant, sleep_until, timeout};

use super::SharedDirector;
use super::via::Via;
use crate::transport::DialError;

/// Tests a suspect link with a connection to `remote`. Does not wait for the result.
pub(super) fn try_again<V: Via>(
    director: &SharedDirector,
    via: &Arc<V>,
    link: Arc<Link>,
    remote: SocketAddr,
) {
    let (via, director) = (Arc::clone(via), director.clone());
    tokio::spawn(async move {
        if let Answer::Came(after) = ask(&*via, &link, remote).await {
            director.with(|director, now| director.handle_answer(now, link.index, Some(after)));
        }
    });
}

/// The result of connecting to one destination over several links at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// The link in question answers, after so long.
    Answers(Duration),
    /// The link did not answer within `waited`, but another link did.
    Silent {
        waited: Duration,
        by: LinkIndex,
        after: Duration,
    },
    /// The destination answers on no link.
    Nothing,
}

/// Connects to `remote` over `link` and over some others at once, so that `remote` is in the same
/// state for all. Waits for the link as long as its `patience` says.
pub(super) async fn compare<V: Via>(
    via: &V,
    (link, patience): (&Link, Duration),
    others: &[Arc<Link>],
    remote: SocketAddr,
) -> Comparison {
    let begun = Instant::now();
    let mut in_question = std::pin::pin!(ask(via, link, remote));
    let of_other = async |other: &Arc<Link>| (other.index, ask(via, other, remote).await);
    let mut others: FuturesUnordered<_> = others.iter().map(of_other).collect();
    let (mut has_failed, mut answered) = (false, None);
    loop {
        if let Some((by, after)) = answered
            && (has_failed || begun.elapsed() >= patience)
        {
            let waited = begun.elapsed();
            return Comparison::Silent { waited, by, after };
        }
        tokio::select! {
            biased;
            own = &mut in_question, if !has_failed => match own {
                Answer::Came(after) => return Comparison::Answers(after),
                Answer::Missing => has_failed = true,
                Answer::Unasked => return Comparison::Nothing,
            },
            Some((by, other)) = others.next(), if answered.is_none() => {
                if let Answer::Came(after) = other {
                    answered = Some((by, after));
                }
            }
            () = sleep_until(begun + patience), if answered.is_some() => {}
            else => return Comparison::Nothing,
        }
    }
}

/// The result of one connection.
enum Answer {
    /// An acceptance, which is closed at once, or a refusal, after so long.
    Came(Duration),
    /// No answer, or no route to the destination.
    Missing,
    /// An error on this host prevented the attempt.
    Unasked,
}

async fn ask<V: Via>(via: &V, link: &Link, remote: SocketAddr) -> Answer {
    let begun = Instant::now();
    let asking = timeout(TRIAL_TIME, via.connect(Some(link), remote)).await;
    match asking.unwrap_or(Err(io::ErrorKind::TimedOut.into())) {
        Ok(_) => Answer::Came(begun.elapsed()),
        Err(error) => match DialError::from_io(&error) {
            DialError::ConnectionRefused => Answer::Came(begun.elapsed()),
            cause if cause.is_miss() => Answer::Missing,
            _ => Answer::Unasked,
        },
    }
}

/// Time for two SYNs.
const TRIAL_TIME: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::super::race::tests::{Does, Scripted, UNREACHABLE};
    use super::super::testing::link;
    use super::*;

    async fn compared(suspect: Does, others: &[(&'static str, Does)]) -> Comparison {
        let mut does = others.to_vec();
        does.push(("suspect", suspect));
        let via = Scripted::new(&does);
        let others: Vec<_> = others.iter().map(|(name, _)| link(name)).collect();
        let remote = "192.0.2.9:80".parse().unwrap();
        compare(&via, (&link("suspect"), ms(100)), &others, remote).await
    }

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn silent(waited: u64, by: &str, after: u64) -> Comparison {
        Comparison::Silent {
            waited: ms(waited),
            by: link(by).index,
            after: ms(after),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_that_answers_within_its_time_is_not_silent() {
        let others = [("a", Does::Answer(20))];
        let answers = compared(Does::Answer(90), &others).await;
        assert_eq!(answers, Comparison::Answers(ms(90)));
        let refuse = Does::Fail(io::ErrorKind::ConnectionRefused);
        let answers = compared(refuse, &others).await;
        assert_eq!(answers, Comparison::Answers(ms(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_is_silent_where_another_answers_and_it_has_had_its_time() {
        let others = [("x", Does::Nothing), ("a", Does::Answer(20))];
        assert_eq!(compared(Does::Nothing, &others).await, silent(100, "a", 20));
        let late = [("a", Does::Answer(700))];
        assert_eq!(
            compared(Does::Answer(900), &late).await,
            silent(700, "a", 700)
        );
        assert_eq!(compared(UNREACHABLE, &others).await, silent(20, "a", 20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_never_answers_shows_nothing() {
        for others in [
            vec![],
            vec![("a", Does::Nothing)],
            vec![("a", Does::Nothing), ("b", UNREACHABLE)],
        ] {
            assert_eq!(compared(Does::Nothing, &others).await, Comparison::Nothing);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_this_host_forbids_says_nothing_of_the_link() {
        let forbidden = Does::Fail(io::ErrorKind::PermissionDenied);
        let others = [("a", Does::Answer(20))];
        assert_eq!(compared(forbidden, &others).await, Comparison::Nothing);
    }
}
