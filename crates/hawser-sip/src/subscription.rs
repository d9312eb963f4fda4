//! Subscriptions to the bindings of an address of record: SUBSCRIBE and NOTIFY (RFC 6665) for the
//! event package `reg` (RFC 3680).

mod notifier;
mod subscriber;
#[cfg(test)]
mod tests;

pub use notifier::{Notifier, NotifierLimits, Notify, Subscriber, WatcherId};
pub use subscriber::{Subscription, SubscriptionConfig, SubscriptionEvent, SubscriptionFault};
