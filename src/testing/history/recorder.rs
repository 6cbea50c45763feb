//! Writing a history down: one log a thread, and one counter that orders them.

use core::{fmt, mem};

use crossbeam_utils::CachePadded;

use super::event::{Event, Outcome};
use crate::id::HolderId;
use crate::sync::Mutex;
use crate::sync::std_arc::Arc;
use crate::sync::std_atomic::{AtomicU64, Ordering};

/// Gathers the logs of the threads of a test. A cheap handle: clone it or share it.
///
/// Each thread writes to a [`Log`] of its own; when the logs are done, [`take`](Self::take) is the
/// history for a [`Checker`](super::Checker). To begin and end a call costs two clock readings, one
/// load and one read-modify-write of a shared counter, and no lock.
///
/// # Example
///
/// ```
/// use leasehold::testing::history::{Checker, Outcome, Recorder};
/// use leasehold::{HolderId, Token};
///
/// let recorder = Recorder::new(|| 42); // for a table: `move || table.clock().now()`
/// std::thread::scope(|threads| {
///     for worker in 1..=2 {
///         let mut log = recorder.log();
///         threads.spawn(move || {
///             let call = log.begin(worker, HolderId::mint());
///             let token = Token::new(7).unwrap(); // here the table is asked for a lease
///             log.end(call, Outcome::Granted { token, term_ticks: 10 });
///         });
///     }
/// });
///
/// let summary = Checker::new().check(&recorder.take())?;
/// assert_eq!((summary.granted, summary.resources), (2, 2));
/// # Ok::<(), Box<leasehold::testing::history::Violation>>(())
/// ```
pub struct Recorder<R = u64> {
    shared: Arc<Shared<R>>,
}

struct Shared<R> {
    /// How many calls have returned. Alone on its line: every thread writes it.
    returned: CachePadded<AtomicU64>,
    ticks: Box<dyn Fn() -> u64 + Send + Sync>,
    filed: Mutex<Filed<R>>,
}

struct Filed<R> {
    /// Logs that are still being written.
    open: usize,
    logs: Vec<Vec<Event<R>>>,
}

impl<R> Recorder<R> {
    /// A recorder with an empty history.
    ///
    /// `ticks` reads the clock that the table goes by; it must not run backwards in any thread.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::testing::history::Recorder;
    /// use leasehold::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let recorder = Recorder::<u64>::new(move || clock.now());
    /// assert!(recorder.take().is_empty());
    /// ```
    #[must_use]
    pub fn new(ticks: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let filed = Mutex::new(Filed { open: 0, logs: Vec::new() });
        let returned = CachePadded::new(AtomicU64::new(0));
        Self { shared: Arc::new(Shared { returned, ticks: Box::new(ticks), filed }) }
    }

    /// A log for one thread to write. Takes a lock, so do it before the race begins.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::HolderId;
    /// use leasehold::testing::history::{Outcome, Recorder};
    ///
    /// let recorder = Recorder::new(|| 0);
    /// let mut log = recorder.log();
    /// let call = log.begin("disk", HolderId::mint());
    /// log.end(call, Outcome::Refused { by: None });
    /// drop(log);
    /// assert_eq!(recorder.take().len(), 1);
    /// ```
    pub fn log(&self) -> Log<R> {
        self.shared.filed.lock().open += 1;
        Log { shared: Arc::clone(&self.shared), events: Vec::new() }
    }

    /// The history so far, in the order of returns. The recorder goes on with an empty one.
    ///
    /// Take it once, at the end: the checker calls a lease
    /// [`Ungranted`](super::Violation::Ungranted) whose grant went with an earlier part.
    ///
    /// # Panics
    ///
    /// If a log is still open: a history that lacks its calls proves nothing. Join the threads
    /// first, and [`finish`](Log::finish) or drop each log.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::HolderId;
    /// use leasehold::testing::history::{Outcome, Recorder};
    ///
    /// let recorder = Recorder::new(|| 0);
    /// let mut log = recorder.log();
    /// let call = log.begin("disk", HolderId::mint());
    /// log.end(call, Outcome::Refused { by: None });
    /// log.finish();
    /// assert_eq!(recorder.take().len(), 1);
    /// assert_eq!(recorder.take().len(), 0);
    /// ```
    #[must_use]
    pub fn take(&self) -> Vec<Event<R>> {
        let logs = {
            let mut filed = self.shared.filed.lock();
            assert!(filed.open == 0, "{} logs are still open: finish them first", filed.open);
            mem::take(&mut filed.logs)
        };
        let mut events: Vec<_> = logs.into_iter().flatten().collect();
        events.sort_unstable_by_key(|event| event.returned);
        events
    }
}

impl<R> Clone for Recorder<R> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<R> fmt::Debug for Recorder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a number to look at, which orders nothing.
        let returned = self.shared.returned.load(Ordering::Relaxed);
        f.debug_struct("Recorder").field("returned", &returned).finish_non_exhaustive()
    }
}

/// What one thread did. A plain vector until it is finished or dropped, also by a panic; then it is
/// part of the recorder's history.
///
/// For an example see [`Recorder`].
///
/// # Example
///
/// ```
/// use leasehold::HolderId;
/// use leasehold::testing::history::{Outcome, Recorder};
///
/// let recorder = Recorder::new(|| 0);
/// let mut log = recorder.log();
/// log.reserve(1);
/// let call = log.begin("disk", HolderId::mint());
/// log.end(call, Outcome::Refused { by: None });
/// log.finish();
/// # let _ = recorder.take();
/// ```
#[must_use = "a log that is dropped at once records nothing"]
pub struct Log<R = u64> {
    shared: Arc<Shared<R>>,
    events: Vec<Event<R>>,
}

impl<R> Log<R> {
    /// Makes room for so many more events, so that no growth of the log falls into a race.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::testing::history::Recorder;
    ///
    /// let mut log = Recorder::<u64>::new(|| 0).log();
    /// log.reserve(100_000);
    /// ```
    pub fn reserve(&mut self, events: usize) {
        self.events.reserve(events);
    }

    /// To be called right before the call on the table.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::HolderId;
    /// use leasehold::testing::history::{Outcome, Recorder};
    ///
    /// let recorder = Recorder::new(|| 0);
    /// let mut log = recorder.log();
    /// let call = log.begin("disk", HolderId::mint());
    /// // Here the table is asked.
    /// log.end(call, Outcome::Refused { by: None });
    /// ```
    #[inline]
    pub fn begin(&self, resource: R, holder: HolderId) -> Call<R> {
        // Acquire: pairs with the Release of `end`. What had been done before the returns that are
        // counted here happens before the call that begins.
        let began = self.shared.returned.load(Ordering::Acquire);
        Call { before: (self.shared.ticks)(), began, resource, holder }
    }

    /// To be called right after the call on the table returned, in the thread that made it.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::HolderId;
    /// use leasehold::testing::history::{Outcome, Recorder};
    ///
    /// let recorder = Recorder::new(|| 0);
    /// let mut log = recorder.log();
    /// let call = log.begin("disk", HolderId::mint());
    /// log.end(call, Outcome::Refused { by: None });
    /// log.finish();
    /// assert_eq!(recorder.take()[0].returned, 1);
    /// ```
    #[inline]
    pub fn end(&mut self, call: Call<R>, outcome: Outcome) {
        let Call { before, began, resource, holder } = call;
        let after = (self.shared.ticks)();
        // Release: pairs with the Acquire of `begin`, directly or through the later numbers, which
        // carry the release on as read-modify-writes. Acquire is not needed: the call is over.
        let returned = self.shared.returned.fetch_add(1, Ordering::Release) + 1;
        self.events.push(Event { before, after, began, returned, resource, holder, outcome });
    }

    /// Adds the log to the recorder's history. To drop it does the same.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::testing::history::Recorder;
    ///
    /// let recorder = Recorder::<u64>::new(|| 0);
    /// recorder.log().finish();
    /// assert!(recorder.take().is_empty());
    /// ```
    pub fn finish(self) {}
}

impl<R> Drop for Log<R> {
    fn drop(&mut self) {
        let events = mem::take(&mut self.events);
        let mut filed = self.shared.filed.lock();
        filed.open -= 1;
        filed.logs.push(events);
    }
}

impl<R> fmt::Debug for Log<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("events", &self.events.len()).finish_non_exhaustive()
    }
}

/// A call that has begun. If it is dropped, nothing is recorded: right only for a call that had no
/// effect.
///
/// For an example see [`Recorder`].
///
/// # Example
///
/// ```
/// use leasehold::HolderId;
/// use leasehold::testing::history::Recorder;
///
/// let recorder = Recorder::new(|| 0);
/// let log = recorder.log();
/// let call = log.begin("disk", HolderId::mint());
/// drop(call); // Not ended: it is not in the history.
/// log.finish();
/// assert!(recorder.take().is_empty());
/// ```
#[derive(Debug)]
#[must_use = "only Log::end records the call"]
pub struct Call<R = u64> {
    before: u64,
    began: u64,
    resource: R,
    holder: HolderId,
}
