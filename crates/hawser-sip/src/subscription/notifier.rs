//! The notifier: answers SUBSCRIBE and sends NOTIFY.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hawser_types::Instant;

use crate::dialog::Dialog;
use crate::fields::{Seconds, Via};
use crate::message::{Essentials, HeaderName, Method, Refusal, Request, Response, StatusCode};
use crate::reginfo::{CONTENT_TYPE, PACKAGE, RegInfo};
use crate::registrar::{Location, Origin};

/// The number of a subscription, used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatcherId(u64);

/// A NOTIFY to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// Subscription of the NOTIFY. Its outcome goes to [`Notifier::handle_outcome`].
    pub watcher: WatcherId,
    /// The request. It goes to the first Route, else to its URI.
    pub request: Request,
    /// Origin of the subscription.
    pub origin: Origin,
}

/// Verified sender of a SUBSCRIBE.
#[derive(Clone, Copy, Debug)]
pub struct Subscriber<'a> {
    /// User who proved a password.
    pub user: &'a str,
    /// Origin of the request.
    pub origin: Origin,
    /// A token that was not used before, for the tag of this end.
    pub tag: &'a str,
    /// URI at which later requests reach this end.
    pub contact: &'a str,
}

/// Limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifierLimits {
    /// Subscriptions.
    pub max_watchers: usize,
    /// Subscriptions of one user.
    pub max_watchers_by_user: usize,
    /// Subscriptions to one address of record; one user has at most a quarter of them.
    pub max_watchers_each: usize,
    /// The longest subscription.
    pub max_expires: Duration,
}

impl Default for NotifierLimits {
    /// 10,000 subscriptions, 100 of one user, 32 to one address, for an hour at most.
    fn default() -> Self {
        Self {
            max_watchers: 10_000,
            max_watchers_by_user: 100,
            max_watchers_each: 32,
            max_expires: Duration::from_secs(3600),
        }
    }
}

/// Notifies subscribers of the bindings that they watch. Each document lists all bindings, so a
/// lost one does no harm. Each subscriber has one NOTIFY in progress; later changes wait for the
/// next.
///
/// The owner decides about permissions, before [`Notifier::handle_subscribe`].
#[derive(Debug)]
pub struct Notifier {
    limits: NotifierLimits,
    watchers: BTreeMap<WatcherId, Watcher>,
    /// Subscriptions of each address of record.
    of: BTreeMap<String, BTreeSet<WatcherId>>,
    /// Number of subscriptions of each user.
    by_user: BTreeMap<String, usize>,
    /// Expiry of each subscription.
    ends: BTreeSet<(Instant, WatcherId)>,
    /// Subscriptions that need a NOTIFY.
    pending: BTreeSet<WatcherId>,
    /// Pending subscriptions without a NOTIFY in progress.
    ready: BTreeSet<WatcherId>,
    next: u64,
}

#[derive(Debug)]
struct Watcher {
    address: String,
    user: String,
    origin: Origin,
    dialog: Dialog,
    contact: String,
    expires: Instant,
    version: u32,
    is_being_told: bool,
}

impl Notifier {
    /// Creates a notifier without subscriptions.
    #[must_use]
    pub fn new(limits: NotifierLimits) -> Self {
        Self {
            limits,
            watchers: BTreeMap::new(),
            of: BTreeMap::new(),
            by_user: BTreeMap::new(),
            ends: BTreeSet::new(),
            pending: BTreeSet::new(),
            ready: BTreeSet::new(),
            next: 0,
        }
    }

    /// Handles a SUBSCRIBE and returns its response.
    pub fn handle_subscribe(
        &mut self,
        now: Instant,
        request: &Request,
        subscriber: &Subscriber<'_>,
    ) -> Response {
        let contact = subscriber.contact;
        let (granted, tag) = match self.subscribe(now, request, subscriber) {
            Ok(granted) => granted,
            Err(refusal) => return refusal.answer(request, subscriber.tag),
        };
        let mut answer = Response::new(request, StatusCode::OK, tag);
        for value in request.headers.raw(&HeaderName::RecordRoute) {
            answer.headers.push(HeaderName::RecordRoute, value);
        }
        let seconds = u32::try_from(granted.as_secs()).unwrap_or(u32::MAX);
        answer.headers.push(HeaderName::Expires, Seconds(seconds));
        answer
            .headers
            .push(HeaderName::Contact, format!("<{contact}>"));
        answer
    }

    /// Records that the bindings of an address of record have changed.
    pub fn handle_change(&mut self, address: &str) {
        for id in self.of.get(address).cloned().unwrap_or_default() {
            self.tell(id);
        }
    }

    /// Handles the outcome of a NOTIFY: its final response, or `None`. Without a 2xx the
    /// subscription ends.
    pub fn handle_outcome(&mut self, watcher: WatcherId, status: Option<StatusCode>) {
        if !status.is_some_and(StatusCode::is_success) {
            self.remove(watcher);
        } else if let Some(found) = self.watchers.get_mut(&watcher) {
            found.is_being_told = false;
            if self.pending.contains(&watcher) {
                self.ready.insert(watcher);
            }
        }
    }

    /// Ends the subscriptions of removed users, without a NOTIFY.
    pub fn retain_users(&mut self, is_user: impl Fn(&str) -> bool) {
        let watchers = self.watchers.iter();
        let gone = watchers.filter(|(_, watcher)| !is_user(&watcher.user));
        for id in gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.remove(id);
        }
    }

    /// Returns the next NOTIFY. `via` has a new branch.
    pub fn poll_notify(&mut self, now: Instant, location: &Location, via: &Via) -> Option<Notify> {
        let id = self.ready.pop_first()?;
        self.pending.remove(&id);
        let watcher = self.watchers.get_mut(&id)?;
        let (request, origin) = (watcher.notify(now, location, via), watcher.origin);
        if watcher.expires <= now {
            self.remove(id);
        }
        Some(Notify {
            watcher: id,
            request,
            origin,
        })
    }

    /// Whether [`Notifier::poll_notify`] has a NOTIFY to send.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns when [`Notifier::handle_timeout`] is to be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// Ends expired subscriptions: the last NOTIFY says so.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, id)) = self.ends.pop_first() {
            if at > now {
                self.ends.insert((at, id));
                return;
            }
            self.tell(id);
        }
    }

    /// Returns the number of subscriptions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.watchers.len()
    }

    /// Whether there is no subscription.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// Whether an address may get one more watcher. Limits per user protect other users.
    fn has_room(&self, address: &str, user: &str) -> bool {
        let limits = &self.limits;
        let each = self.of.get(address).into_iter().flatten();
        let is_own = |id: &&WatcherId| self.watchers.get(id).is_some_and(|it| it.user == user);
        let own = each.clone().filter(is_own).count();
        self.watchers.len() < limits.max_watchers
            && self.by_user.get(user).copied().unwrap_or(0) < limits.max_watchers_by_user
            && each.count() < limits.max_watchers_each
            && own < limits.max_watchers_each.div_ceil(MOST_PART)
    }

    /// Marks a subscription as needing a NOTIFY.
    fn tell(&mut self, id: WatcherId) {
        self.pending.insert(id);
        if self.watchers.get(&id).is_some_and(|it| !it.is_being_told) {
            self.ready.insert(id);
        }
    }

    fn remove(&mut self, id: WatcherId) {
        self.pending.remove(&id);
        self.ready.remove(&id);
        let Some(watcher) = self.watchers.remove(&id) else {
            return;
        };
        self.ends.remove(&(watcher.expires, id));
        if let Some(count) = self.by_user.get_mut(&watcher.user) {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&watcher.user);
            }
        }
        if let Some(others) = self.of.get_mut(&watcher.address) {
            others.remove(&id);
            if others.is_empty() {
                self.of.remove(&watcher.address);
            }
        }
    }

    /// Handles a SUBSCRIBE within a subscription, by the same user.
    fn refresh(
        &mut self,
        request: &Request,
        essentials: &Essentials,
        (expires, subscriber): (Instant, &Subscriber<'_>),
    ) -> Result<(), Refusal> {
        let mut watchers = self.watchers.iter_mut();
        let known = watchers.find(|(_, watcher)| {
            watcher.dialog.is_of(essentials) && watcher.user == subscriber.user
        });
        let (id, watcher) = known.ok_or_else(|| {
            let status = StatusCode::NO_TRANSACTION;
            Refusal::new(status, status.reason())
        })?;
        let taken = watcher.dialog.handle_request(request);
        taken.map_err(|fault| Refusal::new(fault.status(), fault.to_string()))?;
        let id = *id;
        self.ends.remove(&(watcher.expires, id));
        self.ends.insert((expires, id));
        watcher.expires = expires;
        watcher.origin = subscriber.origin;
        self.tell(id);
        Ok(())
    }

    /// Returns the granted lifetime, and the tag of a new subscription.
    fn subscribe<'a>(
        &mut self,
        now: Instant,
        request: &Request,
        subscriber: &Subscriber<'a>,
    ) -> Result<(Duration, Option<&'a str>), Refusal> {
        let bad = |reason: String| Refusal::new(StatusCode::BAD_REQUEST, reason);
        let essentials = request.essentials();
        let essentials = essentials.map_err(|fault| Refusal::unreadable(&fault))?;
        let event = request.headers.event().ok().flatten();
        if event.is_none_or(|event| event.package != PACKAGE) {
            let status = StatusCode::BAD_EVENT;
            let mut refusal = Refusal::new(status, status.reason());
            refusal.header = Some((HeaderName::AllowEvents, PACKAGE.to_owned()));
            return Err(refusal);
        }
        let asked = request.headers.expires().ok().flatten();
        let asked = asked.map_or(self.limits.max_expires, Seconds::duration);
        let granted = asked.min(self.limits.max_expires);
        let expires = now + granted;
        if essentials.to.tag().is_some() {
            self.refresh(request, &essentials, (expires, subscriber))?;
            return Ok((granted, None));
        }
        let address = essentials.to.uri.as_sip();
        let address = address.and_then(|uri| uri.address_of_record());
        let address = address.ok_or_else(|| bad("To names no user".to_owned()))?;
        if !self.has_room(&address, subscriber.user) {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Err(Refusal::new(status, "too many subscriptions"));
        }
        let tag = subscriber.tag;
        let dialog = Dialog::of_server(request, tag).map_err(|fault| bad(fault.to_string()))?;
        self.next += 1;
        let id = WatcherId(self.next);
        self.of.entry(address.clone()).or_default().insert(id);
        let user = subscriber.user.to_owned();
        *self.by_user.entry(user.clone()).or_default() += 1;
        self.ends.insert((expires, id));
        let watcher = Watcher {
            address,
            user,
            origin: subscriber.origin,
            dialog,
            contact: subscriber.contact.to_owned(),
            expires,
            version: 0,
            is_being_told: false,
        };
        self.watchers.insert(id, watcher);
        // Full state is sent at once (RFC 6665 §4.2.1.2), also for a lifetime of zero.
        self.tell(id);
        Ok((granted, Some(tag)))
    }
}

impl Watcher {
    fn notify(&mut self, now: Instant, location: &Location, via: &Via) -> Request {
        let bindings = location.lookup(now, &self.address);
        let info = RegInfo::full(self.version, now, &self.address, &bindings);
        self.version = self.version.saturating_add(1);
        self.is_being_told = true;
        let mut request = self.dialog.request(Method::Notify, via);
        let left = self.expires.since(now).as_secs();
        let state = if self.expires <= now {
            "terminated;reason=timeout".to_owned()
        } else {
            format!("active;expires={left}")
        };
        let headers = &mut request.headers;
        headers.push(HeaderName::Contact, format!("<{}>", self.contact));
        headers.push(HeaderName::Event, PACKAGE);
        headers.push(HeaderName::SubscriptionState, state);
        headers.push(HeaderName::ContentType, CONTENT_TYPE);
        request.body = info.to_string().into();
        request
    }
}

/// Divisor: one user may have this fraction of the subscriptions to an address of record.
const MOST_PART: usize = 4;
