//! A clock for tests: time moves when it is told to.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use super::{Clock, TickRate};
use crate::sync::std_arc::Arc;
use crate::sync::std_atomic::{AtomicU64, Ordering};

/// A clock that a test moves by hand, in ticks of exactly 1 µs.
///
/// Not promised: that anyone notices. Advancing wakes nobody; a lease is found to be over when
/// somebody next looks. Nor does it order memory: a thread that must see the new time has to be told
/// of it by a join, a channel or the like.
///
/// Clones share the time. Durations are rounded down to whole ticks, as a table rounds a term, so
/// that advancing by a lease's term leads exactly to its deadline. All arithmetic saturates: the time
/// stops at 0 and at `u64::MAX`.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use leasehold::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let shared = clock.clone();
/// clock.advance(Duration::from_millis(2));
/// assert_eq!(shared.now(), ManualClock::START + 2000);
/// ```
#[derive(Clone)]
pub struct ManualClock {
    tick: Arc<AtomicU64>,
}

const RATE: TickRate = match TickRate::from_nanos(1000) {
    Ok(rate) => rate,
    Err(_) => panic!("1 µs is within the limits of a tick"),
};

impl ManualClock {
    /// The tick at which [`ManualClock::new`] starts: an hour, which is room for stepping back.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Clock, ManualClock};
    ///
    /// assert_eq!(ManualClock::new().now(), ManualClock::START);
    /// ```
    pub const START: u64 = 3_600_000_000;

    /// A clock at tick [`START`](Self::START).
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// assert_eq!(clock.now(), clock.now()); // It stands still.
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::starting_at(Self::START)
    }

    /// A clock at a tick of one's choice, to test near a boundary.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::starting_at((1 << 42) - 1);
    /// clock.advance_ticks(1);
    /// assert_eq!(clock.now(), 1 << 42);
    /// ```
    #[must_use]
    pub fn starting_at(tick: u64) -> Self {
        Self { tick: Arc::new(AtomicU64::new(tick)) }
    }

    /// Moves the time forward by the whole ticks in `time`.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::starting_at(0);
    /// clock.advance(Duration::from_nanos(2999));
    /// assert_eq!(clock.now(), 2);
    /// clock.advance(Duration::MAX);
    /// assert_eq!(clock.now(), u64::MAX);
    /// ```
    pub fn advance(&self, time: Duration) {
        self.advance_ticks(RATE.ticks_floor(time));
    }

    /// Moves the time forward by `ticks`.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::starting_at(10);
    /// clock.advance_ticks(5);
    /// assert_eq!(clock.now(), 15);
    /// ```
    pub fn advance_ticks(&self, ticks: u64) {
        self.update(|now| now.saturating_add(ticks));
    }

    /// Moves the time to `tick`, forward or back.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// clock.set(7);
    /// assert_eq!(clock.now(), 7);
    /// ```
    pub fn set(&self, tick: u64) {
        // Relaxed: as in `now`.
        self.tick.store(tick, Ordering::Relaxed);
    }

    /// Moves the time back by the whole ticks in `time`, as a clock that is broken would.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// clock.step_back(Duration::from_secs(2));
    /// assert_eq!(clock.now(), ManualClock::START - 2_000_000);
    /// ```
    pub fn step_back(&self, time: Duration) {
        self.step_back_ticks(RATE.ticks_floor(time));
    }

    /// Moves the time back by `ticks`.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::starting_at(10);
    /// clock.step_back_ticks(25);
    /// assert_eq!(clock.now(), 0);
    /// ```
    pub fn step_back_ticks(&self, ticks: u64) {
        self.update(|now| now.saturating_sub(ticks));
    }

    /// Makes this thread read every manual clock `ticks` ahead, or behind if negative, until the
    /// returned [`Skew`] is dropped.
    ///
    /// Only readings are shifted: moving a clock moves the time that all threads share. The skews of
    /// a thread add up.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let skew = ManualClock::skew_this_thread(-2_000_000);
    /// assert_eq!(clock.now(), ManualClock::START - 2_000_000);
    /// std::thread::scope(|s| {
    ///     s.spawn(|| assert_eq!(clock.now(), ManualClock::START));
    /// });
    /// drop(skew);
    /// assert_eq!(clock.now(), ManualClock::START);
    /// ```
    pub fn skew_this_thread(ticks: i64) -> Skew {
        // Wrapping, unlike the rest, so that `Skew` can take back exactly what was added.
        SKEW.set(SKEW.get().wrapping_add(ticks));
        Skew { ticks, _this_thread: PhantomData }
    }

    fn update(&self, change: impl Fn(u64) -> u64) {
        // Relaxed: as in `now`. Read and write are one step, so that no thread's advance is lost.
        let _ =
            self.tick.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(change(now)));
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> u64 {
        // Relaxed: real clocks order no memory, and one that did would hide from a test that the
        // code which reads it needs an ordering of its own.
        self.tick.load(Ordering::Relaxed).saturating_add_signed(SKEW.get())
    }

    #[inline]
    fn rate(&self) -> TickRate {
        RATE
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now()).finish()
    }
}

thread_local! {
    /// By how many ticks this thread's readings are ahead. Without a destructor, so that a clock can
    /// also be read while the thread's other locals are dropped.
    static SKEW: Cell<i64> = const { Cell::new(0) };
}

/// This thread reads manual clocks shifted, until this is dropped. See
/// [`ManualClock::skew_this_thread`].
///
/// # Example
///
/// ```
/// use leasehold::{Clock, ManualClock};
///
/// let clock = ManualClock::starting_at(100);
/// {
///     let _ahead = ManualClock::skew_this_thread(7);
///     assert_eq!(clock.now(), 107);
/// }
/// assert_eq!(clock.now(), 100);
/// ```
#[derive(Debug)]
#[must_use = "the skew ends when this is dropped"]
pub struct Skew {
    ticks: i64,
    /// Not `Send`: the skew must be taken back on the thread that has it.
    _this_thread: PhantomData<*const ()>,
}

impl Drop for Skew {
    fn drop(&mut self) {
        SKEW.set(SKEW.get().wrapping_sub(self.ticks));
    }
}

#[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_a_microsecond() {
        let clock = ManualClock::new();
        clock.advance(Duration::from_micros(5));
        assert_eq!(clock.now(), ManualClock::START + 5);
        clock.advance(Duration::from_nanos(1999));
        assert_eq!(clock.now(), ManualClock::START + 6);
        clock.step_back(Duration::from_nanos(3999));
        assert_eq!(clock.now(), ManualClock::START + 3);
        assert_eq!(clock.rate().duration_ceil(1), Duration::from_micros(1));
    }

    #[test]
    fn clones_share_the_time() {
        let clock = ManualClock::starting_at(10);
        let other = clock.clone();
        other.advance_ticks(5);
        clock.step_back_ticks(1);
        assert_eq!((clock.now(), other.now()), (14, 14));
        other.set(3);
        assert_eq!(clock.now(), 3);
        assert_eq!(ManualClock::default().now(), ManualClock::START);
    }

    #[test]
    fn the_ends_of_time_hold() {
        let clock = ManualClock::new();
        clock.step_back(Duration::MAX);
        assert_eq!(clock.now(), 0);
        let ahead = ManualClock::skew_this_thread(-1);
        assert_eq!(clock.now(), 0);
        drop(ahead);
        clock.set(u64::MAX - 1);
        clock.advance_ticks(2);
        assert_eq!(clock.now(), u64::MAX);
        let _ahead = ManualClock::skew_this_thread(i64::MAX);
        assert_eq!(clock.now(), u64::MAX);
    }

    #[test]
    fn advances_of_many_threads_all_count() {
        let clock = ManualClock::starting_at(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..250_000).for_each(|_| clock.advance_ticks(1)));
            }
        });
        assert_eq!(clock.now(), 1_000_000);
    }

    #[test]
    fn a_skew_is_of_one_thread_and_of_every_clock() {
        let (one, two) = (ManualClock::starting_at(100), ManualClock::starting_at(200));
        let _skew = ManualClock::skew_this_thread(-30);
        assert_eq!((one.now(), two.now()), (70, 170));
        one.advance_ticks(1);
        std::thread::scope(|s| {
            s.spawn(|| assert_eq!((one.now(), two.now()), (101, 200)));
        });
        assert_eq!(one.now(), 71);
    }

    #[test]
    fn skews_add_up_and_end_in_any_order() {
        let clock = ManualClock::starting_at(100);
        let first = ManualClock::skew_this_thread(-30);
        let second = ManualClock::skew_this_thread(7);
        assert_eq!(clock.now(), 77);
        drop(first);
        assert_eq!(clock.now(), 107);
        drop(second);
        assert_eq!(clock.now(), 100);
        let extremes = [i64::MIN, i64::MIN, -1].map(ManualClock::skew_this_thread);
        drop(extremes);
        assert_eq!(clock.now(), 100);
    }

    /// Compiles as long as `Skew` is not `Send`: otherwise both impls apply and `_` is ambiguous.
    #[test]
    fn a_skew_stays_on_its_thread() {
        trait AmbiguousIfSend<A> {
            fn check() {}
        }
        struct IsSend;
        impl<T> AmbiguousIfSend<()> for T {}
        impl<T: Send> AmbiguousIfSend<IsSend> for T {}
        <Skew as AmbiguousIfSend<_>>::check();
    }

    #[test]
    fn a_panic_ends_a_skew() {
        let clock = ManualClock::starting_at(100);
        let caught = std::panic::catch_unwind(|| {
            let _skew = ManualClock::skew_this_thread(5);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(caught.is_err());
        assert_eq!(clock.now(), 100);
    }
}
