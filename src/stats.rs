//! What each thread writes for itself: what happened, counted, and on which page it is granting
//! without a pin. A thread has a stripe of its own and writes to it by plain stores, so that neither
//! costs the hot path a contended line or a locked instruction.

use core::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use crate::page::Page;
use crate::sync::atomic::{AtomicPtr, Ordering as AtomicOrdering};
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
    Wait,
    HandOver,
}

const EVENTS: usize = Event::HandOver as usize + 1;
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
    /// Acquisitions refused because somebody held the resource, or waited for it; those that then waited
    /// themselves included.
    pub refusals: u64,
    /// Renewals that succeeded, those that had nothing to move included.
    pub renewals: u64,
    /// Leases ended by their holder.
    pub releases: u64,
    /// Leases that ended because their term passed, counted when somebody found out: a sweep, the next
    /// grantee, or a page's replacement.
    pub lapses: u64,
    /// Leases ended by [`revoke`](crate::LeaseTable::revoke) at once. A graceful revocation is counted
    /// as what ends the lease in the end: a release or a lapse.
    pub revocations: u64,
    /// Leases that ended because their own holder was granted anew.
    pub superseded: u64,
    /// Renewals and releases refused because the lease was no longer the caller's.
    pub stale: u64,
    /// Idle resources that were forgotten, by a sweep or to make room.
    pub evictions: u64,
    /// Acquisitions that waited in a queue.
    pub waits: u64,
    /// Grants that whoever ended the last lease made for who waited: part of `grants`.
    pub hand_overs: u64,
}

/// What one thread writes, and nobody else.
#[derive(Default)]
pub(crate) struct Stripe {
    counters: [AtomicU64; EVENTS],
    /// The page on which this thread is granting without a pin.
    announced: AtomicPtr<()>,
}

impl Stripe {
    #[inline(always)]
    pub(crate) fn add(&self, event: Event, n: u64) {
        let counter = &self.counters[event as usize];
        // Relaxed, both: a figure for people. Nobody else writes it; the next owner of the thread's
        // number has all that the last one wrote (see `thread`).
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Says that this thread is about to grant a slot of a page, and to tell who won.
    ///
    /// No fence is needed. A grant that succeeds was released by its compare-exchange, which comes
    /// after this store; whoever freezes the page reads that word, or a later one, with Acquire: so
    /// whoever gives the page its next life finds the announcement, or that it was withdrawn (invariant
    /// P3).
    #[inline(always)]
    pub(crate) fn announce<K>(&self, page: &Page<K>) {
        // Release: what this thread did on the page that it announced before is done.
        self.announced.store(ptr::from_ref(page).cast_mut().cast(), AtomicOrdering::Release);
    }

    #[inline(always)]
    pub(crate) fn withdraw(&self) {
        // Release: what this thread did on the page is done; pairs with `is_announced`.
        self.announced.store(ptr::null_mut(), AtomicOrdering::Release);
    }
}

/// What a table's threads count and announce.
pub(crate) struct Striped {
    /// Index: the thread's number. Only that thread writes.
    own: Box<[CachePadded<Stripe>]>,
    shared: Box<[CachePadded<[AtomicU64; EVENTS]>]>,
}

impl Striped {
    /// For about as many threads as there are processors, four times over.
    pub(crate) fn new(processors: usize) -> Self {
        let own = (processors * 4).next_power_of_two().clamp(16, thread::NUMBERS);
        // A model's threads are few, and each stripe that is looked at is a step.
        let own = if cfg!(leasehold_loom) { 4 } else { own };
        Self {
            own: (0..own).map(|_| CachePadded::default()).collect(),
            shared: (0..SHARED).map(|_| CachePadded::default()).collect(),
        }
    }

    /// The calling thread's stripe; none if there are too many threads, or it is ending.
    #[inline(always)]
    pub(crate) fn mine(&self) -> Option<&Stripe> {
        self.own.get(thread::number()).map(|stripe| &**stripe)
    }

    #[inline(always)]
    pub(crate) fn add(&self, event: Event, n: u64) {
        match self.mine() {
            Some(stripe) => stripe.add(event, n),
            None => self.add_slow(event, n),
        }
    }

    #[cold]
    fn add_slow(&self, event: Event, n: u64) {
        // A thread that was not asked for its number yet may have a stripe.
        let number = thread::ask();
        match self.own.get(number) {
            Some(stripe) => stripe.add(event, n),
            None => {
                // Relaxed: a figure for people.
                self.shared[number % SHARED][event as usize].fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    /// Whether any thread is granting on a page without a pin. The page is frozen, or its last life is
    /// over.
    pub(crate) fn is_announced<K>(&self, page: NonNull<Page<K>>) -> bool {
        let page = page.as_ptr().cast();
        // Acquire: pairs with the Release of `withdraw`.
        self.own.iter().any(|stripe| stripe.announced.load(AtomicOrdering::Acquire) == page)
    }

    fn sum(&self, event: Event) -> u64 {
        let own = self.own.iter().map(|stripe| &stripe.counters);
        let all = own.chain(self.shared.iter().map(|shared| &**shared));
        // Relaxed: a figure for people, as of no one moment.
        all.map(|counters| counters[event as usize].load(Ordering::Relaxed)).sum()
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
            waits: self.sum(Event::Wait),
            hand_overs: self.sum(Event::HandOver),
        }
    }
}
