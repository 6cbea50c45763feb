//! A clock that a thread advances, for the cheapest reading there is.

use core::fmt;
use core::time::Duration;
use std::io;
use std::thread::{self, Thread};
use std::time::Instant;

use crossbeam_utils::CachePadded;

use super::{Clock, TickRate};
use crate::sync::std_arc::Arc;
use crate::sync::std_atomic::{AtomicBool, AtomicU64, Ordering};

/// A shared number that one background thread advances: reading it is one load.
///
/// A tick is the period, 1 ms unless said otherwise, and terms count in whole ticks: a term below the
/// period is no tick at all.
///
/// # What is not promised
///
/// - **Punctuality.** When the thread runs late, time stands still for all alike, and then catches up
///   in one step: ticks are of the time that passed, not of the times that the thread woke. Holder
///   and grantor read the same number, so no two leases on a resource are valid at once, but a lease
///   outlasts its term by as much as the thread is late. A thread that never runs again means that
///   no lease ever lapses.
/// - **Terms better than a period.** A lease granted late in a period ends up to a period before its
///   term has passed, whatever it is.
/// - **Time for others.** After the whole process was stopped and goes on, a holder may for a moment
///   read the old tick and think its lease live. Within the process nobody can have been granted it
///   by that reading; but a party that counts by itself, such as another machine, may have moved
///   on. Do not promise it anything by this clock.
/// - **Time in suspend**: as [`StdClock`](super::StdClock), noticed when the thread next wakes.
///
/// It never steps back, and all cores read one number.
///
/// Clones share the thread. It ends soon after the last one is dropped, which does not wait for it.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use leasehold::{Clock, CoarseClock};
///
/// let clock = CoarseClock::with_period(Duration::from_millis(5))?;
/// assert_eq!(clock.rate().duration_floor(1), Duration::from_millis(5));
/// while clock.now() < 2 {
///     std::thread::yield_now();
/// }
/// # Ok::<(), leasehold::CoarseClockError>(())
/// ```
#[derive(Clone)]
pub struct CoarseClock {
    shared: Arc<Shared>,
    /// Ends the thread with the last clock.
    _stopper: Arc<Stopper>,
    rate: TickRate,
}

impl CoarseClock {
    /// The shortest period, 100 µs: a thread that sleeps less than that hardly sleeps.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::CoarseClock;
    ///
    /// assert!(CoarseClock::with_period(CoarseClock::PERIOD_MIN / 2).is_err());
    /// ```
    pub const PERIOD_MIN: Duration = Duration::from_micros(100);
    /// The longest period, 1 s.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::CoarseClock;
    ///
    /// assert!(CoarseClock::with_period(CoarseClock::PERIOD_MAX * 2).is_err());
    /// ```
    pub const PERIOD_MAX: Duration = TickRate::TICK_MAX;
    /// The period of [`CoarseClock::new`], 1 ms.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::CoarseClock;
    ///
    /// assert!(CoarseClock::PERIOD_DEFAULT > CoarseClock::PERIOD_MIN);
    /// ```
    pub const PERIOD_DEFAULT: Duration = Duration::from_millis(1);

    /// A clock with ticks of 1 ms, and its thread.
    ///
    /// # Errors
    ///
    /// [`CoarseClockError::Thread`] if the system starts no thread.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Clock, CoarseClock};
    ///
    /// let clock = CoarseClock::new()?;
    /// assert_eq!(clock.rate().duration_floor(1), CoarseClock::PERIOD_DEFAULT);
    /// # Ok::<(), leasehold::CoarseClockError>(())
    /// ```
    pub fn new() -> Result<Self, CoarseClockError> {
        Self::with_period(Self::PERIOD_DEFAULT)
    }

    /// A clock with ticks of `period`, and its thread.
    ///
    /// # Errors
    ///
    /// [`CoarseClockError::Period`] if `period` is not within [`PERIOD_MIN`](Self::PERIOD_MIN) and
    /// [`PERIOD_MAX`](Self::PERIOD_MAX); [`CoarseClockError::Thread`] if the system starts no thread.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{CoarseClock, CoarseClockError};
    /// use std::time::Duration;
    ///
    /// let requested = Duration::from_secs(2);
    /// let refused = CoarseClock::with_period(requested).unwrap_err();
    /// assert_eq!(refused, CoarseClockError::Period { requested });
    /// ```
    pub fn with_period(period: Duration) -> Result<Self, CoarseClockError> {
        let refused = CoarseClockError::Period { requested: period };
        if !(Self::PERIOD_MIN..=Self::PERIOD_MAX).contains(&period) {
            return Err(refused);
        }
        // At most 10^9: the period is at most a second.
        let rate = TickRate::from_nanos(period.as_nanos() as u64).map_err(|_| refused)?;
        let shared = Arc::new(Shared::default());
        let thread = thread::Builder::new()
            .name("leasehold-clock".into())
            .spawn({
                let (shared, origin) = (Arc::clone(&shared), Instant::now());
                move || shared.run(origin, rate)
            })
            .map_err(|error| CoarseClockError::Thread { kind: error.kind() })?
            .thread()
            .clone();
        let stopper = Arc::new(Stopper { shared: Arc::clone(&shared), thread });
        Ok(Self { shared, _stopper: stopper, rate })
    }
}

impl Clock for CoarseClock {
    #[inline]
    fn now(&self) -> u64 {
        // Relaxed: the tick publishes nothing, and one atomic has one order, so whoever was told of a
        // reading by any means reads no less.
        self.shared.tick.load(Ordering::Relaxed)
    }

    #[inline]
    fn rate(&self) -> TickRate {
        self.rate
    }
}

impl fmt::Debug for CoarseClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoarseClock").field("now", &self.now()).field("rate", &self.rate).finish()
    }
}

/// What the thread shares with the clocks.
#[derive(Default)]
struct Shared {
    /// On a line of its own, away from the reference counts that clones and drops write.
    tick: CachePadded<AtomicU64>,
    stop: AtomicBool,
}

impl Shared {
    fn run(&self, origin: Instant, rate: TickRate) {
        // Relaxed: `Stopper` stores before it unparks, and being unparked orders the two.
        while !self.stop.load(Ordering::Relaxed) {
            let wait = self.advance(origin.elapsed(), rate);
            thread::park_timeout(wait);
        }
    }

    /// Sets the tick to the time since the clock's start and returns how long the next one is off.
    fn advance(&self, elapsed: Duration, rate: TickRate) -> Duration {
        let tick = rate.ticks_floor(elapsed);
        // Relaxed: see `now`. One thread stores, from a clock that does not step back.
        self.tick.store(tick, Ordering::Relaxed);
        rate.duration_ceil(tick.saturating_add(1)).saturating_sub(elapsed)
    }
}

/// Ends the thread when dropped.
///
/// It does not join, so that a drop waits for nothing and may happen on any thread.
struct Stopper {
    shared: Arc<Shared>,
    thread: Thread,
}

impl Drop for Stopper {
    fn drop(&mut self) {
        // Relaxed: unparking, which comes after, releases it to the thread.
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// No [`CoarseClock`] was made.
///
/// # Example
///
/// ```
/// use leasehold::CoarseClock;
/// use std::time::Duration;
///
/// let error = CoarseClock::with_period(Duration::ZERO).unwrap_err();
/// assert!(error.to_string().contains("choose a period"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoarseClockError {
    /// The period is not within the limits.
    Period {
        /// The period that was asked for.
        requested: Duration,
    },
    /// The system started no thread.
    Thread {
        /// What it said.
        kind: io::ErrorKind,
    },
}

impl fmt::Display for CoarseClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Period { requested } => write!(
                f,
                "a coarse clock cannot tick every {requested:?}: choose a period of {:?} to {:?}",
                CoarseClock::PERIOD_MIN,
                CoarseClock::PERIOD_MAX,
            ),
            Self::Thread { kind } => write!(
                f,
                "no thread for a coarse clock ({kind}): free some, or use a clock without a thread"
            ),
        }
    }
}

impl core::error::Error for CoarseClockError {}

#[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < LIMIT, "{what} in {LIMIT:?}");
            thread::sleep(Duration::from_micros(100));
        }
    }

    #[test]
    fn ticks_are_of_the_time_that_passed() {
        let (shared, rate) = (Shared::default(), TickRate::from_nanos(1_000_000).unwrap());
        let micros = Duration::from_micros;
        let advance = |elapsed| {
            let wait = shared.advance(micros(elapsed), rate);
            (shared.tick.load(Ordering::Relaxed), wait)
        };
        assert_eq!(advance(0), (0, micros(1000)));
        assert_eq!(advance(999), (0, micros(1)));
        assert_eq!(advance(1000), (1, micros(1000)));
        // One wake that comes 70 ms late.
        assert_eq!(advance(71_400), (71, micros(600)));
    }

    #[test]
    fn the_thread_advances_the_tick_and_never_past_the_time() {
        let period = Duration::from_millis(2);
        let start = Instant::now();
        let clock = CoarseClock::with_period(period).unwrap();
        let mut last = 0;
        wait_until("20 ticks", || {
            let now = clock.now();
            assert!(now >= last, "{now} after {last}");
            let passed = clock.rate().ticks_floor(start.elapsed());
            assert!(now <= passed, "tick {now} after {passed} periods");
            last = now;
            now >= 20
        });
    }

    #[test]
    fn clones_share_one_thread_and_the_last_one_ends_it() {
        let clock = CoarseClock::new().unwrap();
        let shared = Arc::downgrade(&clock.shared);
        let other = clock.clone();
        drop(clock);
        let seen = other.now();
        wait_until("a tick for the other clone", || other.now() > seen);
        drop(other);
        wait_until("the thread ended", || shared.upgrade().is_none());
    }

    /// Whether a thread that sleeps for a second is gone well before.
    fn ends_early() -> bool {
        let start = Instant::now();
        let clock = CoarseClock::with_period(CoarseClock::PERIOD_MAX).unwrap();
        let shared = Arc::downgrade(&clock.shared);
        // Long enough for the thread to be asleep.
        thread::sleep(Duration::from_millis(50));
        drop(clock);
        wait_until("the thread ended", || shared.upgrade().is_none());
        start.elapsed() < Duration::from_millis(900)
    }

    #[test]
    fn the_thread_ends_without_waiting_for_its_period() {
        // A busy machine may delay a thread by as much; it hardly does so each time.
        assert!((0..5).any(|_| ends_early()));
    }

    #[test]
    fn the_period_has_limits() {
        let (least, most) = (CoarseClock::PERIOD_MIN, CoarseClock::PERIOD_MAX);
        let nanosecond = Duration::from_nanos(1);
        for requested in [Duration::ZERO, least - nanosecond, most + nanosecond, Duration::MAX] {
            let refused = CoarseClock::with_period(requested).unwrap_err();
            assert_eq!(refused, CoarseClockError::Period { requested });
        }
        assert_eq!(CoarseClock::with_period(least).unwrap().rate().duration_ceil(1), least);
        assert_eq!(CoarseClock::with_period(most).unwrap().rate().duration_ceil(1), most);
    }
}
