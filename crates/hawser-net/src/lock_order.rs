//! The rule on locks, checked where debug assertions are on: no thread takes the lock of an
//! association while it holds that of a session.

use std::marker::PhantomData;

#[cfg(debug_assertions)]
use std::cell::Cell;

#[cfg(debug_assertions)]
thread_local! {
    /// Locks of sessions that this thread holds.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Stands for the lock of a session that this thread holds. It stays on its thread, as the guard of
/// a mutex does.
#[derive(Debug)]
pub(crate) struct SessionLocked(PhantomData<*const ()>);

impl SessionLocked {
    /// Notes that this thread holds the lock of a session, until this is dropped.
    pub(crate) fn new() -> Self {
        #[cfg(debug_assertions)]
        HELD.with(|held| held.set(held.get() + 1));
        Self(PhantomData)
    }
}

impl Drop for SessionLocked {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        HELD.with(|held| held.set(held.get() - 1));
    }
}

/// Must be called before the lock of an association is taken.
#[track_caller]
pub(crate) fn before_association() {
    #[cfg(debug_assertions)]
    HELD.with(|held| assert_eq!(held.get(), 0, "a session is locked on this thread"));
}
