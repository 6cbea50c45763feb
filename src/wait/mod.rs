//! Waiting for a lease: first come, first served.
//!
//! Whoever finds a resource held queues in its shard's wait lists, and marks the lease's word as *waited*,
//! both under the shard's wait lock. Whoever ends a lease whose word is marked does so under that lock too, and
//! grants it to the first in the queue by the same compare-exchange. Whoever never meets a marked word never
//! takes the lock.
//!
//! - [`lists`]: the queues of a shard, plain data
//! - [`signal`]: how a waiter is woken
//! - [`pass_on`]: ending a lease that is waited for
//! - [`queue`]: coming to wait, looking, leaving
//! - [`blocking`], [`future`](mod@future): the two ways of waiting
//! - [`all`]: several resources at once
//! - [`timers`]: tasks that are to be woken at a tick
//! - [`report`]: who waits for whom

mod all;
mod blocking;
mod error;
mod future;
pub(crate) mod lists;
pub(crate) mod pass_on;
mod queue;
mod report;
mod signal;
pub(crate) mod timers;

pub use all::AcquireAll;
pub use error::WaitError;
pub use future::{Acquire, AcquireOwned};
pub use report::{Deadlock, Link, Waiter, Waiting};

pub(crate) use self::all::Pursuit;
pub(crate) use self::blocking::after;
use self::lists::Lists;
pub(crate) use self::signal::Wake;
use crate::sync::Lock;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Who waits in a shard.
pub(crate) struct Waits<K> {
    lists: Lock<Lists<K>>,
    /// How many queues have no slot at present.
    orphans: AtomicU64,
}

impl<K> Default for Waits<K> {
    fn default() -> Self {
        Self { lists: Lock::new(Lists::default()), orphans: AtomicU64::new(0) }
    }
}

impl<K> Waits<K> {
    /// Whether a slot that is made now may be one that somebody waits for. Looked at after a search.
    pub(crate) fn has_orphans(&self) -> bool {
        // Relaxed: whoever found a buried slot, with Acquire, finds what was counted before it was
        // (invariant P14).
        self.orphans.load(Ordering::Relaxed) > 0
    }

    fn add_orphan(&self) {
        // Relaxed: the exchange that buries the slot releases it.
        self.orphans.fetch_add(1, Ordering::Relaxed);
    }

    fn remove_orphan(&self) {
        // Relaxed: found too late, it makes somebody look at the lists for nothing.
        self.orphans.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many wait for the resource in a slot.
    pub(crate) fn len_of(&self, identity: u64) -> usize {
        self.lists.lock().len_of(identity)
    }

    /// How much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.lists.lock().bytes()
    }

    /// Sends everybody away, and lets nobody wait from now on.
    pub(crate) fn close(&self) {
        let (signals, keys) = self.lists.lock().close();
        keys.iter().for_each(|_| self.remove_orphan());
        signals.into_iter().map(Wake::up).for_each(drop);
    }
}

impl<K> Drop for Waits<K> {
    fn drop(&mut self) {
        // Futures that do not keep their table find that it has gone.
        let (signals, _keys) = self.lists.get_mut().close();
        signals.into_iter().map(Wake::up).for_each(drop);
    }
}
