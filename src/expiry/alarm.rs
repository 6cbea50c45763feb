//! Waking a sweeper that sleeps longer than it may.
//!
//! The sweeper *says until when it sleeps*, then *looks once more at the stack* of filed pages, then sleeps.
//! Whoever files a page first *puts it on the stack*, then *looks until when the sweeper sleeps*. All four
//! are sequentially consistent. So if the sweeper does not find the page, the filer finds that it sleeps
//! (invariant P13).

use core::time::Duration;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::seq_cst;
use crate::sync::std_once::OnceLock;
use crate::sync::thread::{self, Thread};

/// The sweeper is awake, or there is none.
const AWAKE: u64 = 0;

pub(crate) struct Alarm {
    /// The tick of the clock until which the sweeper sleeps; or [`AWAKE`].
    until: AtomicU64,
    /// By how many ticks a sweep may be late: nobody is woken for less.
    slack: u64,
    sleeper: OnceLock<Thread>,
}

impl Alarm {
    pub(crate) fn new(slack: u64) -> Self {
        Self { until: AtomicU64::new(AWAKE), slack, sleeper: OnceLock::new() }
    }

    /// Wakes the sweeper if it sleeps beyond a tick of the clock.
    pub(crate) fn ring_before(&self, tick: u64) {
        seq_cst();
        // SeqCst: see the module's documentation.
        let until = self.until.load(Ordering::SeqCst);
        if tick.saturating_add(self.slack) < until {
            self.ring(until);
        }
    }

    #[cold]
    fn ring(&self, until: u64) {
        // Relaxed, both: whoever changes it wakes the sweeper; the call that does so orders what follows.
        let first = self.until.compare_exchange(until, AWAKE, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() {
            self.wake();
        }
    }

    /// Wakes the sweeper, asleep or about to be: it finds that its table has gone.
    pub(crate) fn wake(&self) {
        if let Some(sleeper) = self.sleeper.get() {
            sleeper.unpark();
        }
    }

    /// The calling thread is the one to be woken.
    pub(crate) fn sleeper_is_me(&self) {
        let _ = self.sleeper.set(thread::current());
    }

    /// Says until when the caller will sleep. It must look at the stack after this, before it does.
    pub(crate) fn sleep_until(&self, tick: u64) {
        // SeqCst: see the module's documentation.
        self.until.store(tick, Ordering::SeqCst);
        seq_cst();
    }

    /// Whether the sweeper has said until when it sleeps.
    #[cfg(any(leasehold_loom, leasehold_shuttle))]
    pub(crate) fn is_set(&self) -> bool {
        // Relaxed: a model looks at it to say what it reached.
        self.until.load(Ordering::Relaxed) != AWAKE
    }

    /// Sleeps; wakes early for any reason.
    pub(crate) fn sleep(&self, at_most: Duration) {
        thread::park_timeout(at_most);
    }

    pub(crate) fn awake(&self) {
        // SeqCst: a later look at the stack comes after it; Relaxed would do, as it is looked at anyway.
        self.until.store(AWAKE, Ordering::SeqCst);
    }
}
