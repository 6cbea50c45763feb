//! Waiting by parking the thread.

use core::borrow::Borrow;
use core::hash::BuildHasher;
use core::time::Duration;
use std::time::Instant;

use super::WaitError;
use super::lists::{Ticket, Turn};
use super::queue::{Ask, Begun};
use super::signal::Signal;
use crate::clock::Clock;
use crate::error::AcquireError;
use crate::hash::Hash;
use crate::id::HolderId;
use crate::sync::std_arc::Arc;
use crate::sync::{thread, time};
use crate::table::Key;
use crate::table::handle::Handle;
use crate::table::shared::Core;

/// Parks until then at the latest; wakes early for any reason.
pub(super) fn park(until: Option<Instant>) {
    match until {
        None => thread::park(),
        Some(until) => time::park_until(until),
    }
}

pub(super) fn is_past(until: Option<Instant>) -> bool {
    until.is_some_and(|until| until <= time::now())
}

/// When a time-out that starts now ends; never, if that is beyond what can be told.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    time::now().checked_add(timeout)
}

/// A place in a queue. Dropped, it is given up.
pub(super) struct Place<'t, K: Key, S: BuildHasher, C: Clock> {
    pub(super) core: &'t Core<K, S, C>,
    pub(super) hash: Hash,
    pub(super) ticket: Ticket,
}

impl<K: Key, S: BuildHasher, C: Clock> Place<'_, K, S, C> {
    /// Gives the place up: what had become of it by then.
    pub(super) fn leave(self) -> Turn<K> {
        let this = core::mem::ManuallyDrop::new(self);
        this.core.leave(this.hash, this.ticket)
    }

    /// Parks until it is this waiter's turn, or the time is over.
    fn wait(self, until: Option<Instant>) -> Turn<K> {
        loop {
            if let Some(turn) = self.core.turn(self.hash, self.ticket) {
                core::mem::forget(self);
                return turn;
            }
            if is_past(until) {
                return self.leave();
            }
            park(until);
        }
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Drop for Place<'_, K, S, C> {
    fn drop(&mut self) {
        self.core.abandon(self.hash, self.ticket);
    }
}

impl<K: Key, S, C> Core<K, S, C>
where
    S: BuildHasher + Send + Sync + 'static,
    C: Clock,
{
    /// Sees to it that lapses happen, before somebody waits for one.
    #[inline]
    pub(super) fn ready_to_wait(self: &Arc<Self>) -> Result<(), AcquireError> {
        if self.driver.is_driven() { Ok(()) } else { self.get_ready_to_wait() }
    }

    #[cold]
    fn get_ready_to_wait(self: &Arc<Self>) -> Result<(), AcquireError> {
        let ready = self.ensure_sweeper();
        ready.map_err(|error| AcquireError::SweeperThread { kind: error.kind() })
    }

    /// Waits for a resource that was found held.
    #[cold]
    #[inline(never)]
    pub(crate) fn acquire_waiting<Q>(
        self: &Arc<Self>,
        key: &Q,
        holder: HolderId,
        term: Duration,
        until: Option<Instant>,
    ) -> Result<Handle<K>, WaitError>
    where
        K: Borrow<Q>,
        Q: std::hash::Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = Hash::of(&self.hasher, key);
        self.ready_to_wait()?;
        while !is_past(until) {
            // Each time: the table may have been closed.
            let ask = Ask { hash, holder, ticks: self.term_ticks(term)? };
            let ticket = match self.begin(ask, key, || Signal::Thread(thread::current()))? {
                Begun::Granted(handle) => return Ok(handle),
                Begun::Queued(ticket) => ticket,
            };
            match (Place { core: self, hash, ticket }).wait(until) {
                // One that is over by now is of no use: wait again.
                Turn::Granted(handle) if self.is_in_time(&handle) => return Ok(handle),
                Turn::Closed => return Err(WaitError::Closed),
                Turn::Granted(_) | Turn::Anew | Turn::Waiting => {}
            }
        }
        // The last look, which also says who holds it.
        Ok(self.acquire(key, holder, term)?)
    }
}
