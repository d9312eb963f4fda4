use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use hawser_director::ConnectionRequest;
use hawser_types::{Instant, LinkIndex};

use super::super::trial::Comparison;

/// Captured connections without an answer so far, and the tests of links that they cause.
///
/// An overdue answer puts its link in question, unless something else has arrived over the link
/// meanwhile: a packet may be lost. Tests of a link are rare: two a second and two at a time. A
/// destination that did not answer a test causes no further test for a while.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    /// Waiting connections by their sockets' cookies.
    waiting: BTreeMap<u64, Waiting>,
    /// Links that are being tested, or were lately.
    asked: BTreeMap<LinkIndex, Asked>,
    /// Destinations that did not answer a test, and until when they cause no further test.
    left_alone: BTreeMap<SocketAddr, Instant>,
}

#[derive(Debug)]
struct Asked {
    /// When the link's last test began.
    at: Instant,
    /// Tests without a result yet.
    open: u32,
}

#[derive(Debug)]
struct Waiting {
    link: LinkIndex,
    request: ConnectionRequest,
    remote: SocketAddr,
    noted: Instant,
    /// When the connection's first packet was sent; `None` while unknown.
    began: Option<Instant>,
    /// When to look at the connection again.
    look: Instant,
    /// Until when the connection causes no test of its link, since it can't serve for a test.
    passed_over: Option<Instant>,
}

/// A test of whether a link leads anywhere.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) link: LinkIndex,
    /// A connection over the link that waits for its answer.
    pub(super) cookie: u64,
    pub(super) request: ConnectionRequest,
    pub(super) remote: SocketAddr,
    /// When the connection's first packet was sent.
    pub(super) since: Instant,
}

impl Unanswered {
    /// Records a connection that is about to be made.
    pub(super) fn note(
        &mut self,
        cookie: u64,
        link: LinkIndex,
        (request, remote): (ConnectionRequest, SocketAddr),
        now: Instant,
    ) {
        let waiting = Waiting {
            link,
            request,
            remote,
            noted: now,
            began: None,
            look: now + LOOK_EVERY,
            passed_over: None,
        };
        self.waiting.insert(cookie, waiting);
    }

    /// Forgets a connection that was answered or has ended.
    pub(super) fn forget(&mut self, cookie: u64) {
        self.waiting.remove(&cookie);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the links on which connections wait.
    pub(super) fn links(&self) -> impl Iterator<Item = LinkIndex> {
        self.waiting.values().map(|waiting| waiting.link)
    }

    /// Returns the connections that wait on `link`.
    pub(super) fn on(&self, link: LinkIndex) -> Vec<u64> {
        let on_link = self.waiting.iter().filter(|(_, it)| it.link == link);
        on_link.map(|(cookie, _)| *cookie).collect()
    }

    /// Returns the connections to look at now.
    pub(super) fn due(&self, now: Instant) -> Vec<u64> {
        let due = self.waiting.iter().filter(|(_, it)| it.look <= now);
        due.map(|(cookie, _)| *cookie).collect()
    }

    /// Records that a connection has waited this long. A connection that has waited long is looked
    /// at less often.
    pub(super) fn still_waits(&mut self, cookie: u64, waited: Duration, now: Instant) {
        if let Some(waiting) = self.waiting.get_mut(&cookie) {
            waiting.began = Some(now - waited);
            waiting.look = now + LOOK_EVERY.max(waited / 8);
        }
    }

    /// Records that a connection has sent nothing. Some never will, such as those without a route.
    pub(super) fn has_not_begun(&mut self, cookie: u64, now: Instant) {
        let is_new = |it: &mut Waiting| now.since(it.noted) < GIVE_UP;
        if !self.waiting.get_mut(&cookie).is_some_and(is_new) {
            self.waiting.remove(&cookie);
        }
    }

    /// Returns one connection for each link in question: the connection's answer is overdue by the
    /// link's `patience`, and the link is silent since the connection began (`is_quiet`).
    pub(super) fn questions(
        &self,
        now: Instant,
        patience: impl Fn(LinkIndex) -> Option<Duration>,
        is_quiet: impl Fn(LinkIndex, Instant) -> bool,
    ) -> Vec<Question> {
        let mut questions: BTreeMap<LinkIndex, Question> = BTreeMap::new();
        for (cookie, waiting) in &self.waiting {
            let (link, remote) = (waiting.link, waiting.remote);
            let is_held = |until: Option<&Instant>| until.is_some_and(|until| now < *until);
            let Some(since) = waiting.began else {
                continue;
            };
            let asked = self.asked.get(&link);
            if questions.contains_key(&link)
                || asked.is_some_and(|asked| asked.is_held(now))
                || is_held(waiting.passed_over.as_ref())
                || is_held(self.left_alone.get(&remote))
            {
                continue;
            }
            let is_overdue = patience(link).is_some_and(|patience| now.since(since) >= patience);
            if is_overdue && is_quiet(link, since) {
                let request = waiting.request.clone();
                let question = Question {
                    link,
                    cookie: *cookie,
                    request,
                    remote,
                    since,
                };
                questions.insert(link, question);
            }
        }
        questions.into_values().collect()
    }

    /// Records that a test of the link begins.
    pub(super) fn note_asked(&mut self, link: LinkIndex, now: Instant) {
        self.asked
            .retain(|_, asked| asked.open > 0 || asked.is_held(now));
        let asked = self.asked.entry(link);
        let asked = asked.or_insert(Asked { at: now, open: 0 });
        (asked.at, asked.open) = (now, asked.open + 1);
    }

    /// Records the result of a test.
    pub(super) fn note_found(&mut self, question: &Question, found: Comparison, now: Instant) {
        if let Some(asked) = self.asked.get_mut(&question.link) {
            asked.open = asked.open.saturating_sub(1);
        }
        // Perhaps the link fails to reach this destination alone, or no link reaches it.
        if !matches!(found, Comparison::Answers(_)) {
            self.leave_alone(question.remote, now);
        }
    }

    /// Forgets all tests, because the task of a test has failed, and it is unknown which.
    pub(super) fn release_all(&mut self) {
        self.asked.clear();
    }

    /// Records that a connection can't serve for a test of its link: others on the link come first.
    pub(super) fn pass_over(&mut self, cookie: u64, now: Instant) {
        if let Some(waiting) = self.waiting.get_mut(&cookie) {
            waiting.passed_over = Some(now + LEFT_ALONE_FOR);
        }
    }

    /// Lets a destination that has not answered a test cause no further test for a while.
    fn leave_alone(&mut self, place: SocketAddr, now: Instant) {
        self.left_alone.retain(|_, until| now < *until);
        if self.left_alone.len() < MAX_LEFT_ALONE {
            self.left_alone.insert(place, now + LEFT_ALONE_FOR);
        }
    }
}

impl Asked {
    /// Returns whether the link must not be tested now.
    fn is_held(&self, now: Instant) -> bool {
        self.open >= MAX_OPEN || now.since(self.at) < ASK_EVERY
    }
}

/// Interval at which waiting connections are looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A connection without a first packet for this long is forgotten: the packet leaves in the call
/// that places the connection.
const GIVE_UP: Duration = Duration::from_millis(500);
/// Least time between two tests of a link. Each costs the destination a connection over two or
/// three links, which is closed as soon as it is established.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Simultaneous tests of a link: a destination that answers on no link takes seconds, and another
/// may answer sooner.
const MAX_OPEN: u32 = 2;
/// Time for which a destination that did not answer a test, or a connection that can't serve for a
/// test, causes no further test.
const LEFT_ALONE_FOR: Duration = Duration::from_secs(10);
const MAX_LEFT_ALONE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkIndex = LinkIndex::new(7);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(1000 + millis)
    }

    fn place(number: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, number], 80))
    }

    /// Adds a connection that began at `began` and still waits at `now`.
    fn wait(unanswered: &mut Unanswered, number: u8, began: u64, now: u64) {
        let to = (ConnectionRequest::default(), place(number));
        unanswered.note(number.into(), LINK, to, at(began));
        let waited = Duration::from_millis(now - began);
        unanswered.still_waits(number.into(), waited, at(now));
    }

    /// Returns the tests that are due at `now`, where links were last heard at `heard`.
    fn questions(unanswered: &Unanswered, now: u64, heard: u64) -> Vec<Question> {
        let patience = |_| Some(Duration::from_millis(100));
        unanswered.questions(at(now), patience, |_, since| at(heard) < since)
    }

    /// Returns the places of the tests that are due.
    fn asked(unanswered: &Unanswered, now: u64, heard: u64) -> Vec<SocketAddr> {
        let questions = questions(unanswered, now, heard).into_iter();
        questions.map(|question| question.remote).collect()
    }

    #[test]
    fn an_overdue_answer_puts_its_link_in_question_once_in_a_while() {
        let mut unanswered = Unanswered::default();
        for number in 0..5 {
            wait(&mut unanswered, number, 10 + u64::from(number), 50);
        }
        assert_eq!(asked(&unanswered, 109, 0), []);
        assert_eq!(asked(&unanswered, 110, 0), [place(0)]);
        unanswered.note_asked(LINK, at(110));
        assert_eq!(asked(&unanswered, 600, 0), []);
        assert_eq!(asked(&unanswered, 610, 0), [place(0)]);
    }

    #[test]
    fn no_more_than_two_questions_about_a_link_are_open() {
        let mut unanswered = Unanswered::default();
        wait(&mut unanswered, 1, 10, 50);
        let question = questions(&unanswered, 110, 0).remove(0);
        unanswered.note_asked(LINK, at(110));
        unanswered.note_asked(LINK, at(610));
        assert_eq!(asked(&unanswered, 3000, 0), []);
        unanswered.note_found(&question, Comparison::Answers(Duration::ZERO), at(3000));
        // Other links are tested independently.
        unanswered.note_asked(LinkIndex::new(8), at(3000));
        assert_eq!(asked(&unanswered, 3000, 0), [place(1)]);
        unanswered.note_asked(LINK, at(3000));
        assert_eq!(asked(&unanswered, 9000, 0), []);
        unanswered.release_all();
        assert_eq!(asked(&unanswered, 9000, 0), [place(1)]);
    }

    #[test]
    fn what_cannot_be_asked_about_does_not_hide_others() {
        let mut unanswered = Unanswered::default();
        wait(&mut unanswered, 1, 10, 50);
        wait(&mut unanswered, 2, 10, 50);
        assert_eq!(asked(&unanswered, 200, 0), [place(1)]);
        unanswered.pass_over(1, at(200));
        assert_eq!(asked(&unanswered, 200, 0), [place(2)]);
        unanswered.pass_over(2, at(200));
        assert_eq!(asked(&unanswered, 200, 0), []);
        assert_eq!(asked(&unanswered, 10_200, 0), [place(1)]);
    }

    #[test]
    fn a_link_that_is_heard_meanwhile_is_not_in_question() {
        let mut unanswered = Unanswered::default();
        wait(&mut unanswered, 1, 10, 50);
        assert_eq!(asked(&unanswered, 200, 30), []);
        wait(&mut unanswered, 2, 40, 60);
        assert_eq!(asked(&unanswered, 200, 30), [place(2)]);
    }

    #[test]
    fn a_place_that_never_answers_does_not_hide_others() {
        let mut unanswered = Unanswered::default();
        wait(&mut unanswered, 1, 10, 50);
        unanswered.leave_alone(place(1), at(200));
        assert_eq!(asked(&unanswered, 200, 0), []);
        wait(&mut unanswered, 2, 40, 60);
        assert_eq!(asked(&unanswered, 200, 0), [place(2)]);
        unanswered.forget(2);
        assert_eq!(asked(&unanswered, 20_000, 0), [place(1)]);
        for number in 0..300_u32 {
            let place = SocketAddr::from((std::net::Ipv4Addr::from_bits(number), 80));
            unanswered.leave_alone(place, at(20_000));
        }
        assert_eq!(unanswered.left_alone.len(), MAX_LEFT_ALONE);
    }

    #[test]
    fn a_place_that_only_others_lead_to_does_not_condemn_a_link_again_and_again() {
        let mut unanswered = Unanswered::default();
        wait(&mut unanswered, 1, 10, 50);
        let question = questions(&unanswered, 110, 0).remove(0);
        unanswered.note_asked(LINK, at(110));
        let found = Comparison::Silent {
            waited: Duration::from_millis(100),
            by: LinkIndex::new(8),
            after: Duration::from_millis(20),
        };
        unanswered.note_found(&question, found, at(200));
        wait(&mut unanswered, 1, 1000, 1200);
        assert_eq!(asked(&unanswered, 10_199, 0), []);
        assert_eq!(asked(&unanswered, 10_200, 0), [place(1)]);
    }

    #[test]
    fn what_waits_for_long_is_looked_at_less_often_and_what_never_begins_not_at_all() {
        let mut unanswered = Unanswered::default();
        wait(&mut unanswered, 1, 0, 8000);
        assert_eq!(unanswered.due(at(8999)), [0_u64; 0]);
        assert_eq!(unanswered.due(at(9000)), [1]);
        unanswered.forget(1);
        unanswered.note(2, LINK, (ConnectionRequest::default(), place(2)), at(0));
        assert_eq!(unanswered.due(at(50)), [2]);
        unanswered.has_not_begun(2, at(50));
        assert!(!unanswered.is_empty());
        unanswered.has_not_begun(2, at(500));
        assert!(unanswered.is_empty());
    }
}
