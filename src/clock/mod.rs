//! Where time comes from: the [`Clock`] trait, the clocks, and the rate of their ticks.

mod coarse;
mod manual;
mod quanta;
mod rate;
mod std_clock;

pub use self::coarse::{CoarseClock, CoarseClockError};
pub use self::manual::{ManualClock, Skew};
pub use self::quanta::QuantaClock;
pub use self::rate::{InvalidRate, TickRate};
pub use self::std_clock::StdClock;

use crate::sync::std_arc::Arc;

/// A source of ticks: the time by which a table's leases begin and end.
///
/// # What is not promised
///
/// - **Wall time.** A tick has no date. Ticks of different clocks, also of two clocks of one type,
///   are not comparable, and none means anything in another process.
/// - **That a term takes as long as it says.** A lease lasts its term *in ticks*. A clock that
///   pauses, runs slow or steps back makes leases last longer; one that runs fast or jumps forward
///   makes them end earlier. Neither makes two leases on a resource valid at one tick: grantor and
///   holder read the same clock. It costs availability, not exclusion.
/// - **That a holder has stopped when its lease is over.** No clock can do that; a
///   [`Fence`](crate::Fence) can refuse what it does then.
/// - **An order of other memory.** Reading a clock synchronises with nothing.
///
/// # Which clock does what
///
/// | | [`QuantaClock`] (the default) | [`StdClock`] | [`CoarseClock`] | [`ManualClock`] |
/// |---|---|---|---|---|
/// | reads | the cycle counter | the system's monotonic clock | one atomic that a thread advances | one atomic that the test advances |
/// | a tick | 0.55 to 1.1 µs, calibrated | 1.024 µs | the period, 1 ms by default | 1 µs |
/// | machine suspended | by hardware: time stops, goes on, or starts again from zero | time stops on Linux and macOS, goes on on Windows | as `StdClock`, seen when the thread next wakes | nothing |
/// | steps back | when a hypervisor or a resume moves the counter | never | never | when told to |
/// | across cores | as well as the counters are synchronised | as well as the system makes it | one number for all | one number for all, and a skew for a thread that asks |
///
/// Changes of the wall clock (by hand, by NTP, for a leap second) move none of them. NTP also trims
/// the speed of the system's monotonic clock, and so of `StdClock` and `CoarseClock`, by at most 500
/// parts in a million.
///
/// # Implementing it
///
/// The table calls [`now`](Self::now) in every operation, so it should be fast, and must neither
/// block nor panic nor use the table. Readings start anywhere below 2^63 and should not fall. If one
/// falls nevertheless, on one thread or on all, nothing panics and no lease that was reported lost
/// comes back; leases last longer by as much. Two cores may disagree by less than a tick: the rule
/// by which leases end (valid before the deadline, reclaimable only after it) leaves that room.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use leasehold::{Clock, StdClock, TickRate};
///
/// /// Counts milliseconds.
/// struct Millis(std::time::Instant);
///
/// impl Clock for Millis {
///     fn now(&self) -> u64 {
///         self.0.elapsed().as_millis() as u64
///     }
///
///     fn rate(&self) -> TickRate {
///         TickRate::from_nanos(1_000_000).expect("a millisecond is within the limits of a tick")
///     }
/// }
///
/// let clock = Millis(std::time::Instant::now());
/// let until = clock.now() + clock.rate().ticks_floor(Duration::from_secs(5));
/// assert!(clock.now() < until);
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The present tick.
    fn now(&self) -> u64;

    /// How long a tick lasts. A table asks once, when it is built: the answer may not change.
    fn rate(&self) -> TickRate;
}

/// A clock that several tables share.
impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> u64 {
        C::now(self)
    }

    #[inline]
    fn rate(&self) -> TickRate {
        C::rate(self)
    }
}

#[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
mod tests {
    use super::*;

    fn assert_clock<C: Clock + Unpin>(_: &C) {}

    #[test]
    fn an_arc_of_a_clock_is_that_clock() {
        let clock = ManualClock::new();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        assert_clock(&shared);
        clock.advance_ticks(5);
        assert_eq!(shared.now(), clock.now());
        assert_eq!(shared.rate(), clock.rate());
    }

    #[test]
    fn every_clock_starts_in_the_lower_half() {
        let clocks: [Arc<dyn Clock>; 4] = [
            Arc::new(QuantaClock::new()),
            Arc::new(StdClock::new()),
            Arc::new(CoarseClock::new().unwrap()),
            Arc::new(ManualClock::new()),
        ];
        for clock in clocks {
            assert!(clock.now() < 1 << 63);
        }
    }
}
