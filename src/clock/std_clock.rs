//! The system's monotonic clock.

use std::time::Instant;

use super::{Clock, TickRate};

/// The system's monotonic clock ([`std::time::Instant`]), in ticks of 1024 ns since construction.
///
/// # What is not promised
///
/// - **Time in suspend.** Linux and macOS do not count it, so that a lease outlasts a closed lid;
///   Windows does.
/// - **Speed.** A reading takes two to three times as long as one of
///   [`QuantaClock`](super::QuantaClock), and where the system has no fast path for it, a system
///   call.
///
/// It never steps back, on one thread or between cores, as far as the system keeps its own promise.
///
/// A copy has the same origin: its ticks are the same.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use leasehold::{Clock, StdClock};
///
/// let clock = StdClock::new();
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// assert_eq!(clock.rate().duration_floor(1), Duration::from_nanos(1024));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StdClock {
    origin: Instant,
}

/// The binary logarithm of a tick in nanoseconds: a shift is cheaper than a division by 1000.
const TICK_LOG2: u32 = 10;

const RATE: TickRate = match TickRate::from_nanos(1 << TICK_LOG2) {
    Ok(rate) => rate,
    Err(_) => panic!("1024 ns is within the limits of a tick"),
};

impl StdClock {
    /// A clock whose tick 0 is now.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Clock, StdClock};
    ///
    /// let clock = StdClock::new();
    /// assert!(clock.now() < clock.rate().ticks_floor(std::time::Duration::from_secs(60)));
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for StdClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for StdClock {
    #[inline]
    fn now(&self) -> u64 {
        (self.origin.elapsed().as_nanos() >> TICK_LOG2) as u64
    }

    #[inline]
    fn rate(&self) -> TickRate {
        RATE
    }
}

#[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn ticks_are_the_time_since_construction() {
        let before = Instant::now();
        let clock = StdClock::default();
        let after = Instant::now();
        std::thread::sleep(Duration::from_millis(5));
        let (least, ticks, most) = (after.elapsed(), clock.now(), before.elapsed());
        assert!(clock.rate().ticks_floor(least) <= ticks, "{ticks} ticks in {least:?}");
        assert!(ticks <= clock.rate().ticks_floor(most), "{ticks} ticks in {most:?}");
    }

    #[test]
    fn a_copy_has_the_same_origin() {
        let clock = StdClock::new();
        std::thread::sleep(Duration::from_millis(1));
        let copy = clock;
        let (first, middle, last) = (clock.now(), copy.now(), clock.now());
        assert!(first > 0 && first <= middle && middle <= last);
    }
}
