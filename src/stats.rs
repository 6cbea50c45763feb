//! What happened, counted. A thread adds to a stripe of its own by a plain load and store, so that
//! counting costs the hot path no contended line and no locked instruction.

use crossbeam_utils::CachePadded;

use crate::sync::std_atomic::{AtomicU64, Ordering};
use crate::thread;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Grant,
    Refusal,
    Renewal,
    Release,
    Lapse,
    Revocation,
    Superseded,
    Stale,
    Eviction,
}

const EVENTS: usize = Event::Eviction as usize + 1;
/// For threads beyond those that have a stripe of their own, and those that are ending.
const SHARED: usize = 8;

/// How often each thing happened since the table was built, as of one pass over the counters.
///
/// Each figure is exact once the threads that contributed are done; while they run, figures may
/// be of slightly different moments.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable};
/// use std::time::Duration;
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(1))?;
/// drop(lease);
/// let stats = table.stats();
/// assert_eq!((stats.grants, stats.releases), (1, 1));
/// # Ok::<(), leasehold::AcquireError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Leases granted.
    pub grants: u64,
    /// Acquisitions refused because somebody held the resource.
    pub refusals: u64,
    /// Renewals that succeeded, those that had nothing to move included.
    pub renewals: u64,
    /// Leases ended by their holder.
    pub releases: u64,
    /// Leases that ended because their term passed, counted when somebody found out: the next grantee,
    /// or a page's replacement.
    pub lapses: u64,
    /// Leases ended by [`revoke`](crate::LeaseTable::revoke) at once. A graceful revocation is counted
    /// as what ends the lease in the end: a release or a lapse.
    pub revocations: u64,
    /// Leases that ended because their own holder was granted anew.
    pub superseded: u64,
    /// Renewals and releases refused because the lease was no longer the caller's.
    pub stale: u64,
    /// Idle resources that were forgotten to make room.
    pub evictions: u64,
}

type Counters = [AtomicU64; EVENTS];

/// A table's counters.
pub(crate) struct Striped {
    /// Index: the thread's number. Only that thread writes.
    own: Box<[CachePadded<Counters>]>,
    shared: Box<[CachePadded<Counters>]>,
}

fn stripes(n: usize) -> Box<[CachePadded<Counters>]> {
    (0..n).map(|_| CachePadded::default()).collect()
}

impl Striped {
    /// For about as many threads as there are processors, four times over.
    pub(crate) fn new(processors: usize) -> Self {
        let own = (processors * 4).next_power_of_two().clamp(16, thread::NUMBERS);
        Self { own: stripes(own), shared: stripes(SHARED) }
    }

    #[inline]
    pub(crate) fn add(&self, event: Event, n: u64) {
        let number = thread::number();
        // Relaxed, all: a figure for people. Nobody else writes a thread's own stripe; the next owner
        // of its number has all that the last one wrote (see `thread`).
        if let Some(stripe) = self.own.get(number) {
            let counter = &stripe[event as usize];
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        } else {
            self.shared[number % SHARED][event as usize].fetch_add(n, Ordering::Relaxed);
        }
    }

    fn sum(&self, event: Event) -> u64 {
        let stripes = self.own.iter().chain(&*self.shared);
        // Relaxed: as above.
        stripes.map(|stripe| stripe[event as usize].load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn snapshot(&self) -> Stats {
        Stats {
            grants: self.sum(Event::Grant),
            refusals: self.sum(Event::Refusal),
            renewals: self.sum(Event::Renewal),
            releases: self.sum(Event::Release),
            lapses: self.sum(Event::Lapse),
            revocations: self.sum(Event::Revocation),
            superseded: self.sum(Event::Superseded),
            stale: self.sum(Event::Stale),
            evictions: self.sum(Event::Eviction),
        }
    }
}
