//! Everything that synchronises comes through here, so that a build with `--cfg leasehold_loom` runs
//! the same code under [loom](https://docs.rs/loom)'s scheduler and memory model, and one with
//! `--cfg leasehold_shuttle` under the random schedulers of [shuttle](https://docs.rs/shuttle), for more
//! threads and longer runs, but with sequential consistency only.

#[cfg(not(target_has_atomic = "64"))]
compile_error!(
    "leasehold needs 64-bit atomic compare-exchange: a lease is one 64-bit word, and a table that \
     emulated it with locks could not keep its promises. This target has no 64-bit atomics."
);

/// What runs the threads of a model.
#[cfg(leasehold_loom)]
pub(crate) use loom as model;
#[cfg(leasehold_shuttle)]
pub(crate) use shuttle as model;

#[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
pub(crate) mod atomic {
    pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
}
#[cfg(any(leasehold_loom, leasehold_shuttle))]
pub(crate) mod atomic {
    pub(crate) use super::model::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
}

/// Atomics that loom need not see: counters that no decision rests on, and the clocks.
pub(crate) mod std_atomic {
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
}
pub(crate) mod std_arc {
    pub(crate) use std::sync::{Arc, Weak};
}
pub(crate) mod std_once {
    pub(crate) use std::sync::OnceLock;
}
pub(crate) use parking_lot::{Mutex, RwLock};

/// A mutex under which atomics are used, so that models must see it.
#[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
pub(crate) use parking_lot::Mutex as Lock;
#[cfg(any(leasehold_loom, leasehold_shuttle))]
pub(crate) struct Lock<T>(model::sync::Mutex<T>);
#[cfg(any(leasehold_loom, leasehold_shuttle))]
impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(model::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> model::sync::MutexGuard<'_, T> {
        self.0.lock().expect("a model that panics is over")
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("as above")
    }
}

/// Between two sequentially consistent operations: loom takes those for acquiring and releasing ones
/// only, and this makes up for it. Outside of models it is nothing.
#[inline(always)]
pub(crate) fn seq_cst() {
    // SeqCst: as strong as the operations that it stands between.
    #[cfg(leasehold_loom)]
    loom::sync::atomic::fence(atomic::Ordering::SeqCst);
}

#[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
pub(crate) mod thread {
    pub(crate) use std::thread::{Thread, current, park, park_timeout};

    /// Starts a thread that nobody waits for.
    pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        std::thread::Builder::new().name(name.into()).spawn(run).map(drop)
    }
}
#[cfg(any(leasehold_loom, leasehold_shuttle))]
pub(crate) mod thread {
    pub(crate) use super::model::thread::{Thread, current, park};

    /// A model has no time: whoever sleeps is woken, or never.
    pub(crate) fn park_timeout(_: core::time::Duration) {
        park();
    }

    pub(crate) fn spawn(_: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        super::model::thread::spawn(run);
        Ok(())
    }
}

/// What time-outs go by.
#[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
pub(crate) mod time {
    use std::time::Instant;

    #[inline]
    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    /// Parks the thread until then at the latest; wakes early for any reason.
    pub(crate) fn park_until(until: Instant) {
        std::thread::park_timeout(until.saturating_duration_since(now()));
    }
}
/// A model has no time, but its time-outs end: a thread's own time stands still until it sleeps for one, and
/// is at the end of that at once.
#[cfg(any(leasehold_loom, leasehold_shuttle))]
pub(crate) mod time {
    use core::cell::Cell;
    use core::time::Duration;
    use std::time::Instant;

    static BEGIN: super::std_once::OnceLock<Instant> = super::std_once::OnceLock::new();
    super::model::thread_local! {
        static SLEPT: Cell<Duration> = Cell::new(Duration::ZERO);
    }

    fn begin() -> Instant {
        *BEGIN.get_or_init(Instant::now)
    }

    pub(crate) fn now() -> Instant {
        begin() + SLEPT.with(Cell::get)
    }

    pub(crate) fn park_until(until: Instant) {
        #[cfg(leasehold_shuttle)]
        super::model::thread::yield_now();
        SLEPT.with(|slept| slept.set(until.saturating_duration_since(begin())));
    }
}

#[cfg(not(leasehold_loom))]
pub(crate) use cell::UnsafeCell;
#[cfg(leasehold_loom)]
pub(crate) use loom::cell::UnsafeCell;

#[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
pub(crate) mod epoch {
    //! Grace periods, from `crossbeam-epoch`'s default collector.
    pub(crate) use crossbeam_epoch::{Guard, pin};

    /// Runs `f` once every thread that is pinned now has unpinned.
    ///
    /// # Safety
    ///
    /// `f` may run on any thread, at any later time, or never: what it captures must allow that.
    pub(crate) unsafe fn defer<F: FnOnce()>(guard: &Guard, f: F) {
        // SAFETY: the caller's contract is the same as `defer_unchecked`'s.
        unsafe { guard.defer_unchecked(f) }
    }
}
#[cfg(any(leasehold_loom, leasehold_shuttle))]
pub(crate) mod epoch;

#[cfg(not(leasehold_loom))]
mod cell {
    /// `core`'s cell with loom's interface, so that every access says whether it reads or writes.
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        #[cfg(leasehold_shuttle)]
        pub(crate) fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

/// Counters of the whole process.
pub(crate) mod process {
    use super::std_atomic::{AtomicU64, Ordering};

    static HOLDERS: AtomicU64 = AtomicU64::new(0);
    static TABLES: AtomicU64 = AtomicU64::new(0);

    /// The next number of a minted holder, from 0.
    pub(crate) fn next_holder() -> u64 {
        // Relaxed: only that no two calls get one number matters, and a read-modify-write gives that.
        HOLDERS.fetch_add(1, Ordering::Relaxed)
    }

    /// The next number of a table, from 0.
    pub(crate) fn next_table() -> u64 {
        // Relaxed: as above, only that no two are equal matters.
        TABLES.fetch_add(1, Ordering::Relaxed)
    }
}
