//! What comes over the links, and what follows from it for them.

use std::sync::Arc;
use std::time::Duration;

use hawser_path::Segments;
use hawser_types::{Instant, LinkIndex};

use super::super::Health;
use super::super::link_book::LinkBook;
use super::{Director, Inner};

impl Director {
    /// The far end has answered over `link`, with an acceptance or a refusal.
    pub fn handle_answer(&self, link: LinkIndex, latency: Option<Duration>) {
        self.handle_answer_at(link, latency, self.now());
    }

    pub(super) fn handle_answer_at(&self, link: LinkIndex, latency: Option<Duration>, at: Instant) {
        self.with_book(link, |book, _| {
            book.record.handle_answer(at);
            if let Some(latency) = latency {
                book.latency.on_sample(latency);
            }
        });
    }

    /// A connection over `link` was not answered within `waited`, and another link was answered in
    /// its place.
    pub fn handle_miss(&self, link: LinkIndex, waited: Duration) {
        self.with_book(link, |book, now| {
            book.latency.on_lower_bound(waited);
            book.record.handle_miss(now);
        });
    }

    /// A connection over `link` that was begun at `since` went unanswered, and so did another beside
    /// it, for `waited`, while another link was answered in their place. That is two misses, unless
    /// anything has come over the link since then, or the link itself.
    pub(in super::super) fn handle_silence(
        &self,
        link: LinkIndex,
        since: Instant,
        waited: Duration,
    ) {
        self.with_book(link, |book, now| {
            if book.since <= since && !book.record.was_heard_since(since) {
                book.latency.on_lower_bound(waited);
                book.record.handle_miss(now);
                book.record.handle_miss(now);
            }
        });
    }

    /// What a connection has sent since its beginning, and what of that again.
    pub(in super::super) fn handle_segments(&self, flow: u64, segments: Segments) {
        let now = self.now();
        let mut inner = self.lock();
        let Inner { flows, links, .. } = &mut *inner;
        let Some(entry) = flows.get_mut(&flow) else {
            return;
        };
        let before = std::mem::replace(&mut entry.segments, segments);
        if let Some(book) = links.get_mut(&entry.link) {
            book.loss.on_segments(now, before, segments);
        }
    }

    /// Whether anything has come over the link since then, as far as that was noticed.
    pub(in super::super) fn was_heard_since(&self, link: LinkIndex, then: Instant) -> bool {
        let inner = self.lock();
        let book = inner.links.get(&link.value());
        book.is_some_and(|book| book.record.was_heard_since(then))
    }

    /// How long connections over the link are waited for before it is thought to be silent; `None`
    /// for a link that can't be used.
    pub(in super::super) fn patience(&self, link: LinkIndex) -> Option<Duration> {
        let inner = self.lock();
        inner.links.get(&link.value()).map(LinkBook::patience)
    }

    /// Whether somebody on the link answers in the name of others.
    pub fn set_portal(&self, link: LinkIndex, portal: bool) {
        self.with_book(link, |book, _| book.record.set_portal(portal));
    }

    /// Whether connections that are being made on the link still have a chance.
    pub(in super::super) fn is_hopeful(&self, link: LinkIndex) -> bool {
        let inner = self.lock();
        let book = inner.links.get(&link.value());
        book.is_some_and(|book| book.record.health() == Health::Sound)
    }

    /// Whether a connection that has waited so long for an answer over the link has nothing against
    /// it but a queue.
    pub(in super::super) fn is_only_slow(&self, link: LinkIndex, waited: Duration) -> bool {
        let now = self.now();
        let mut inner = self.lock();
        inner.sweep(now);
        let book = inner.links.get(&link.value());
        book.is_some_and(|book| book.is_only_slow(now, waited))
    }

    pub(super) fn with_book(&self, link: LinkIndex, act: impl FnOnce(&mut LinkBook, Instant)) {
        let now = self.now();
        let mut inner = self.lock();
        let Some(book) = inner.book_mut(link.value()) else {
            return;
        };
        let before = book.record.health();
        act(book, now);
        let (after, name) = (book.record.health(), Arc::clone(&book.link));
        drop(inner);
        if before != after {
            tracing::info!(
                link = name.name,
                state = after.name(),
                "a link's state changes"
            );
            self.change();
        }
    }
}
