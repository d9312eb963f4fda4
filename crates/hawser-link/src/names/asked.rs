//! Answers DNS messages of programs, each of which was sent to one server of this machine: by that
//! server or, while it is silent, by the servers of links.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hawser_wire::dns::{AnswerCode, DnsQuestion};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

use super::exchange::{Reply, exchange, pass_on};
use super::lookup_error::LookupError;
use super::race::{self, Rank, rank};
use super::servers::{ServerFinder, may_be_asked};
use super::times::{HEAD_START, LOOKUP_TIMEOUT, SILENCE, SPLIT_PATIENCE};
use crate::links::Link;

/// Answers programs, and remembers which servers were silent lately. Clones share that memory.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    finder: Arc<ServerFinder>,
    silences: Arc<Mutex<Silences>>,
}

impl Answers {
    pub(super) fn new(finder: Arc<ServerFinder>) -> Self {
        Self {
            finder,
            silences: Arc::default(),
        }
    }

    /// As `Names::answer`.
    pub(super) async fn answer(
        &self,
        query: &[u8],
        asked: SocketAddr,
        links: &[Link],
    ) -> Result<Vec<u8>, LookupError> {
        let answering = self.answer_in_turn(query, asked, links);
        let message = timeout(LOOKUP_TIMEOUT, answering).await.ok().flatten();
        message.ok_or(LookupError::Silent)
    }

    async fn answer_in_turn(
        &self,
        query: &[u8],
        asked: SocketAddr,
        links: &[Link],
    ) -> Option<Vec<u8>> {
        let Ok(question) = DnsQuestion::decode(query) else {
            return pass_on(asked, query).await;
        };
        let reply = if is_for_links(&question) {
            self.race(query, &question, asked, links).await
        } else {
            exchange(None, asked, query, &question).await
        };
        reply.map(|reply| reply.message)
    }

    async fn race(
        &self,
        query: &[u8],
        question: &DnsQuestion,
        asked: SocketAddr,
        links: &[Link],
    ) -> Option<Reply> {
        let begun = Instant::now();
        let (head_start, patience) = if self.silences.lock().holds(asked, begun) {
            (Duration::ZERO, Duration::ZERO)
        } else {
            (HEAD_START, SPLIT_PATIENCE)
        };
        let mut own = pin!(exchange(None, asked, query, question));
        let mut is_awaited = true;
        // The failure reply, used if no better reply arrives.
        let mut worst = None;
        match timeout(head_start, &mut own).await {
            Ok(Some(reply)) if rank(&reply) > Rank::Failed => return Some(reply),
            Ok(reply) => (worst, is_awaited) = (reply, false),
            Err(_) => {}
        }
        let mut over_links = pin!(async {
            let targets = self.finder.find(links).await;
            race::ask(&targets, query, question).await
        });
        let mut links_are_awaited = true;
        let mut missing = None;
        while links_are_awaited || is_awaited {
            tokio::select! {
                reply = &mut own, if is_awaited => match reply {
                    Some(reply) if rank(&reply) > Rank::Failed => return Some(reply),
                    reply => {
                        is_awaited = false;
                        worst = worst.or(reply);
                    }
                },
                reply = &mut over_links, if links_are_awaited => {
                    links_are_awaited = false;
                    match reply {
                        Ok(reply) if rank(&reply) == Rank::Failed => worst = worst.or(Some(reply)),
                        Ok(reply) if reply.answer.code == AnswerCode::NoSuchName => {
                            missing = Some(reply);
                        }
                        Ok(reply) => {
                            self.note_silence_of(asked, is_awaited, begun);
                            return Some(reply);
                        }
                        Err(error) => tracing::debug!(%error, "links' name servers gave no answer"),
                    }
                }
                () = sleep_until(begun + patience), if missing.is_some() => break,
            }
        }
        self.note_silence_of(asked, is_awaited && missing.is_some(), begun);
        missing.or(worst)
    }

    fn note_silence_of(&self, asked: SocketAddr, is_silent: bool, begun: Instant) {
        // A server without a head start may have been about to answer.
        let now = Instant::now();
        if is_silent && now.duration_since(begun) >= HEAD_START {
            self.silences.lock().note(asked, now);
        }
    }
}

/// Returns whether links' servers may be asked, since any server gives the same answer.
fn is_for_links(question: &DnsQuestion) -> bool {
    question.is_recursive && question.is_ordinary() && may_be_asked(&question.name())
}

/// Servers that were silent lately.
#[derive(Debug, Default)]
struct Silences(BTreeMap<SocketAddr, Instant>);

impl Silences {
    fn holds(&self, server: SocketAddr, now: Instant) -> bool {
        self.0.get(&server).is_some_and(|until| now < *until)
    }

    fn note(&mut self, server: SocketAddr, now: Instant) {
        if self.0.len() >= MAX_SILENT {
            self.0.retain(|_, until| now < *until);
        }
        if self.0.len() < MAX_SILENT || self.0.contains_key(&server) {
            self.0.insert(server, now + SILENCE);
        }
    }
}

const MAX_SILENT: usize = 64;

#[cfg(test)]
mod tests {
    use hawser_wire::dns::AddressRecord;

    use super::*;

    fn server(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn a_silence_holds_for_its_server_and_not_for_long() {
        let (mut silences, now) = (Silences::default(), Instant::now());
        silences.note(server(53), now);
        assert!(silences.holds(server(53), now));
        assert!(!silences.holds(server(54), now));
        assert!(!silences.holds(server(53), now + SILENCE));
        for port in 0..=MAX_SILENT as u16 {
            silences.note(server(port), now);
        }
        assert_eq!(silences.0.len(), MAX_SILENT);
        silences.note(server(1000), now + SILENCE);
        assert!(silences.holds(server(1000), now + SILENCE));
    }

    #[test]
    fn only_ordinary_questions_for_names_of_the_internet_are_for_links() {
        let asks = |name: &str| {
            let query = DnsQuestion::encode(1, &name.parse().unwrap(), AddressRecord::A);
            DnsQuestion::decode(&query).unwrap()
        };
        assert!(is_for_links(&asks("www.example.org")));
        assert!(!is_for_links(&asks("printer.local")));
        assert!(!is_for_links(&asks("host")));
        let mut not_recursive = asks("www.example.org");
        not_recursive.is_recursive = false;
        assert!(!is_for_links(&not_recursive));
    }
}
