//! The thread that sweeps a table, for those who have no loop to do it in.

use core::hash::BuildHasher;
use core::time::Duration;
use std::borrow::Cow;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::alarm::Alarm;
use super::sweep::RETRY;
use crate::clock::Clock;
use crate::sync::Mutex;
use crate::sync::std_arc::{Arc, Weak};
use crate::sync::std_atomic::{AtomicBool, Ordering};
use crate::sync::thread;
use crate::table::Key;
use crate::table::shared::Core;

/// A thread that sweeps the table, and sleeps in between; see
/// [`Builder::sweeper`](crate::Builder::sweeper).
///
/// It sleeps until something is due, and is woken when a lease is granted that is due earlier. It ends when
/// the table goes. While it sweeps it keeps the table; so it may be the one that drops it, and the keys.
///
/// It sleeps by the system's clock. With a [`ManualClock`](crate::ManualClock) it sees that time moved only
/// when it wakes; sweep by hand in tests.
///
/// # Example
///
/// ```
/// use leasehold::{Causes, EndCause, HolderId, LeaseTable, Sweeper};
/// use std::time::Duration;
///
/// let table = LeaseTable::<u64>::builder()
///     .events(Causes::of(EndCause::Lapsed))
///     .sweeper(Sweeper::new().interval(Duration::from_millis(1)))
///     .build()?;
/// let mut lapses = table.subscribe(100)?;
/// std::mem::forget(table.try_acquire(&1, HolderId::mint(), Duration::from_millis(5))?);
/// assert_eq!(lapses.recv()?.key, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it begins when the table is built with it"]
pub struct Sweeper {
    pub(crate) interval: Duration,
    pub(crate) budget: usize,
    name: Cow<'static, str>,
}

impl Default for Sweeper {
    fn default() -> Self {
        Self { interval: Duration::from_millis(1), budget: 256, name: "leasehold-sweeper".into() }
    }
}

impl Sweeper {
    /// One with the default settings.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{LeaseTable, Sweeper};
    ///
    /// let table = LeaseTable::<u64>::builder().sweeper(Sweeper::new()).build()?;
    /// # let _ = table;
    /// # Ok::<(), leasehold::BuildError>(())
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// How long it sleeps at least, so that what falls due within that time is done at once. A lapse is told
    /// of at most this late, and what the system takes to run a thread. Default: a millisecond. With zero it
    /// does not sleep as long as there is anything to do.
    ///
    /// However little there is to do, it looks at the clock every few seconds, since that may have jumped.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::Sweeper;
    /// use std::time::Duration;
    ///
    /// let patient = Sweeper::new().interval(Duration::from_secs(1));
    /// assert_ne!(patient, Sweeper::new());
    /// ```
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// How many pages it visits before it files what was granted meanwhile; see
    /// [`LeaseTable::sweep`](crate::LeaseTable::sweep). Default: 256.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::Sweeper;
    ///
    /// assert_ne!(Sweeper::new().budget(16), Sweeper::new());
    /// ```
    pub fn budget(mut self, pages: usize) -> Self {
        self.budget = pages;
        self
    }

    /// The thread's name. Default: `leasehold-sweeper`.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::Sweeper;
    ///
    /// assert_ne!(Sweeper::new().name("sessions"), Sweeper::new());
    /// ```
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Starts the thread.
    fn start<K: Key, S, C>(self, core: &Arc<Core<K, S, C>>) -> io::Result<()>
    where
        S: BuildHasher + Send + Sync + 'static,
        C: Clock,
    {
        let (weak, alarm) = (Arc::downgrade(core), core.filings.alarm().clone());
        thread::spawn(&self.name, move || run(&weak, &alarm, self.budget))
    }
}

/// Starts the sweeper's thread, once.
pub(crate) struct Driver {
    /// `None`: there is to be none.
    sweeper: Option<Sweeper>,
    started: Mutex<bool>,
    is_driven: AtomicBool,
}

impl Driver {
    pub(crate) fn new(sweeper: Option<Sweeper>) -> Self {
        let is_driven = AtomicBool::new(sweeper.is_none());
        Self { sweeper, started: Mutex::new(false), is_driven }
    }

    /// Whether the thread was started, or there is to be none.
    #[inline]
    pub(crate) fn is_driven(&self) -> bool {
        // Relaxed: the lock orders who starts it, and a thread's start what it sees.
        self.is_driven.load(Ordering::Relaxed)
    }
}

impl<K: Key, S: BuildHasher + Send + Sync + 'static, C: Clock> Core<K, S, C> {
    /// Sees to it that lapses happen, unless the caller sweeps.
    pub(crate) fn ensure_sweeper(self: &Arc<Self>) -> io::Result<()> {
        let Driver { sweeper, started, is_driven } = &self.driver;
        if let Some(sweeper) = sweeper {
            let mut started = started.lock();
            if !*started {
                sweeper.clone().start(self)?;
                *started = true;
                // Relaxed: as in `is_driven`.
                is_driven.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// Stops the sweeper when its table goes.
pub(crate) struct Stop(pub(crate) Arc<Alarm>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.wake();
    }
}

fn run<K: Key, S: BuildHasher, C: Clock>(
    table: &Weak<Core<K, S, C>>,
    alarm: &Alarm,
    budget: usize,
) {
    // Before the first look at the table: from then on, whoever drops it can wake this thread.
    alarm.sleeper_is_me();
    loop {
        alarm.awake();
        let Some(core) = table.upgrade() else { return };
        // A clock may panic, or what others deferred: those who wait depend on this thread.
        let swept = catch_unwind(AssertUnwindSafe(|| core.sweep_and_say_until_when(budget)));
        let nap = swept.unwrap_or_else(|panic| {
            core::mem::forget(panic);
            Some(RETRY)
        });
        // Before sleeping; perhaps the last: then the table goes here.
        drop(core);
        if let Some(time) = nap {
            alarm.sleep(time);
        }
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Core<K, S, C> {
    /// Sweeps, and says for how long the caller may sleep; `None` if not at all.
    fn sweep_and_say_until_when(&self, budget: usize) -> Option<Duration> {
        let (next, active) = match self.sweep(budget) {
            Ok(swept) if swept.more => return None,
            Ok(swept) => (swept.next_tick, swept.pages > 0 || swept.told > 0 || swept.filed > 0),
            // Somebody sweeps by hand: look again later.
            Err(_) => (None, true),
        };
        let now = self.clock.now();
        let soon = now.saturating_add(self.interval_ticks);
        // After there was something to do, it sleeps only for a moment: there may be more of it, and whoever
        // brings it need not wake a thread that wakes by itself.
        let until = if active { Some(soon) } else { next.map(|next| next.max(soon)) };
        // A clock that jumps ahead while the system's does not wakes nobody.
        let until = until.unwrap_or(u64::MAX).min(now.saturating_add(self.nap_ticks));
        if until == now {
            return None;
        }
        let alarm = self.filings.alarm();
        alarm.sleep_until(until);
        let waiting =
            !self.filings.is_empty() || self.events.queued() > 0 || self.timers.next() < until;
        let until = if waiting { soon } else { until };
        (until != now).then(|| self.rate.duration_ceil(until - now))
    }
}
