//! What models of waiting share: waiters that are polled by hand, and threads that wait for a task.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leasehold::{AcquireError, AcquireOwned, Held, LeaseTable, ManualClock, OwnedLease, WaitError};
use loom::thread::{self, Thread};

use crate::support::{Identity, TERM, Table, holder};

pub(crate) type Owned = OwnedLease<u64, Identity, ManualClock>;

/// A table that nobody sweeps but the model, and that leaves nothing behind for being idle.
pub(crate) fn patient(clock: &ManualClock) -> Table {
    patient_for(TERM * 1000, clock)
}

/// A table that nobody sweeps but the model.
pub(crate) fn patient_for(retention: Duration, clock: &ManualClock) -> Table {
    let builder = LeaseTable::builder().shards(1).retention(retention).sweep_by_hand();
    builder.hasher(Identity).clock(clock.clone()).build().unwrap()
}

/// A lease on 1 of the first holder. Its slot can be granted once more after it.
pub(crate) fn held(table: &Table) -> Owned {
    table.try_acquire_owned(&1, holder(1), TERM).unwrap()
}

/// The same, but its slot can be granted no more: whoever ends the lease has to find another one for those
/// who wait.
pub(crate) fn held_last(table: &Table) -> Owned {
    held(table).release().unwrap();
    held(table)
}

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicU64);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// One who waits for 1, polled by hand.
pub(crate) struct Waiter {
    future: AcquireOwned<u64, Identity, ManualClock>,
    wakes: Arc<Wakes>,
}

impl Waiter {
    /// One who has not asked yet.
    pub(crate) fn new(table: &Table, who: u64) -> Self {
        Self::with_term(table, who, TERM)
    }

    pub(crate) fn with_term(table: &Table, who: u64, term: Duration) -> Self {
        let future = table.acquire_owned_async(&1, holder(who), term);
        Self { future, wakes: Arc::default() }
    }

    /// One who is in the queue.
    pub(crate) fn queued(table: &Table, who: u64) -> Self {
        let mut waiter = Self::new(table, who);
        assert!(waiter.poll().is_pending(), "it is held");
        waiter
    }

    /// How often it was woken since it was last polled.
    pub(crate) fn woken(&self) -> u64 {
        self.wakes.0.load(Ordering::Relaxed)
    }

    /// Polls it, with a waker of its own.
    pub(crate) fn poll(&mut self) -> Poll<Result<Owned, WaitError>> {
        self.wakes = Arc::default();
        let waker = Waker::from(self.wakes.clone());
        Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker))
    }

    /// What a waiter that was pending got meanwhile; `None` if it waits on. It was woken, if there is
    /// anything to be seen.
    pub(crate) fn look(&mut self) -> Option<Result<Owned, WaitError>> {
        let woken = self.woken();
        match self.poll() {
            Poll::Ready(done) => {
                assert_eq!(woken, 1, "nobody sees it who is not woken, and once is enough");
                Some(done)
            }
            Poll::Pending => {
                assert_eq!(woken, 0, "woken for nothing");
                None
            }
        }
    }

    /// The lease that it was granted meanwhile.
    pub(crate) fn granted(&mut self) -> Owned {
        self.look().expect("nobody else holds it").unwrap()
    }

    /// Whether a poll was at once or is pending; what it got at once is asserted to be a lease.
    pub(crate) fn ask(&mut self) -> Option<Owned> {
        match self.poll() {
            Poll::Ready(done) => Some(done.unwrap()),
            Poll::Pending => None,
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a task: if its waking is lost, the model is deadlocked, which loom reports.
pub(crate) fn block_on<F: Future + Unpin>(mut task: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match Pin::new(&mut task).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

/// Sweeps until nothing is due, and says how many leases it ended.
pub(crate) fn sweep(table: &Table) -> u64 {
    let mut lapsed = 0;
    loop {
        let swept = table.sweep(4).unwrap();
        lapsed += swept.lapsed;
        if !swept.more {
            return lapsed;
        }
    }
}

/// To the first tick at which what was granted for a term just now has lapsed.
pub(crate) fn pass_term(clock: &ManualClock) {
    clock.advance(TERM);
    clock.advance_ticks(1);
}

/// What one who does not wait is told.
pub(crate) fn try_acquire(table: &Table, who: u64) -> Result<Owned, Held> {
    table.try_acquire_owned(&1, holder(who), TERM).map_err(|error| match error {
        AcquireError::Held(held) => held,
        other => panic!("{other}"),
    })
}

/// Nobody holds 1 or waits for it, and whoever asks is granted.
pub(crate) fn assert_free(table: &Table) {
    assert!(table.inspect(&1).is_none() && table.waiting().is_empty(), "nobody is left");
    try_acquire(table, 9).expect("nobody holds it, and nobody waits").release().unwrap();
}
