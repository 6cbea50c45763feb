//! The default clock: the processor's cycle counter.

use core::fmt;
use core::ops::RangeInclusive;

use super::{Clock, TickRate};

/// The processor's cycle counter, read as it is and cut to ticks of 0.55 to 1.1 µs.
///
/// # What is not promised
///
/// - **An exact rate.** The counter is calibrated once in a process against the system's monotonic
///   clock, for at most 200 ms. On a quiet machine the rate comes out right within some parts in
///   100 000; where the calibration was interrupted, the error can be a few per cent. It is the same
///   for every table of the process, and no correction follows. A result that no counter can have
///   (below 10 kHz, above 128 GHz) is taken for 1 GHz.
/// - **Time in suspend.** Some hardware stops the counter, some goes on, and some starts again from
///   zero: then leases granted before last longer, by as much as the counter fell.
/// - **Never a step back.** Nothing stands between a reading and the counter. A virtual machine that
///   is moved or restored may see it jump either way. Nobody asks whether the operating system has
///   judged the counter unstable.
/// - **One time on all cores.** The counters of one machine are normally in step within some
///   nanoseconds, and reads are not serialised with the instructions around them. Both are far below
///   a tick. Where cores are further apart, a lease ends early or late by as much, depending on the
///   core that looks.
///
/// Where any of this matters (a laptop, a machine whose kernel prefers another clock source), use
/// [`StdClock`](super::StdClock): reading it takes two to three times as long.
///
/// Without a counter that runs at a constant rate, this clock reads the system's monotonic clock
/// instead, in ticks of 1.024 µs.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use leasehold::{Clock, QuantaClock};
///
/// let clock = QuantaClock::new();
/// assert!(clock.rate().duration_floor(1) <= Duration::from_nanos(1100));
/// ```
#[derive(Clone)]
pub struct QuantaClock {
    counter: ::quanta::Clock,
    /// How many low bits of the counter are below a tick.
    shift: u32,
    rate: TickRate,
}

impl QuantaClock {
    /// A clock on the best counter of this machine.
    ///
    /// The first call in a process calibrates, which takes up to 200 ms.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Clock, QuantaClock};
    ///
    /// let clock = QuantaClock::new();
    /// assert!(clock.now() < 1 << 63);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        let counter = ::quanta::Clock::new();
        let (shift, rate) = plan(counter.delta_as_nanos(0, 1 << SPAN));
        Self { counter, shift, rate }
    }
}

impl Default for QuantaClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for QuantaClock {
    #[inline]
    fn now(&self) -> u64 {
        self.counter.raw() >> self.shift
    }

    #[inline]
    fn rate(&self) -> TickRate {
        self.rate
    }
}

impl fmt::Debug for QuantaClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuantaClock").field("now", &self.now()).field("rate", &self.rate).finish()
    }
}

/// The binary logarithm of the counts over which quanta is asked for its ratio.
///
/// quanta scales by `factor / 2^s`, where 2^s is about the number of counts that it calibrated over
/// (below 2^30 in 200 ms). Asked for 2^40 counts at once it answers without rounding.
const SPAN: u32 = 40;

/// The longest tick in nanoseconds, where the counter is that fine.
const TICK_MAX_NANOS: u64 = 1100;

/// What 2^40 counts of a real counter may last in nanoseconds: it runs at 10 kHz to 128 GHz.
const PLAUSIBLE: RangeInclusive<u64> = 1 << 33..=100_000 << SPAN;

/// How many bits to drop from a counter of which 2^40 counts last `nanos`, and how long a tick then
/// lasts: as long as can be without exceeding 1.1 µs.
fn plan(nanos: u64) -> (u32, TickRate) {
    // A thread that changes cores while it calibrates, where the cores' counters are far apart, comes
    // to any ratio. Most would make leases last for ever or not at all; 1 GHz is about right.
    let nanos = if PLAUSIBLE.contains(&nanos) { nanos } else { 1 << SPAN };
    // nanos << shift <= limit  ⇔  2^shift <= ⌊limit / nanos⌋; a counter too coarse for any has 0.
    let limit = TICK_MAX_NANOS << SPAN;
    let shift = (limit / nanos).checked_ilog2().unwrap_or(0);
    // What is plausible is never refused: a tick of several counts lasts more than half of 1.1 µs.
    let rate = TickRate::from_ratio(nanos, SPAN - shift).expect("a tick is 0.55 to 100 µs");
    (shift, rate)
}

#[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
mod tests {
    use core::time::Duration;
    use std::time::Instant;

    use super::*;

    /// Nanoseconds in 2^40 counts of a counter at `hz`.
    fn nanos_at(hz: u128) -> u64 {
        ((1_000_000_000_u128 << SPAN) / hz) as u64
    }

    #[test]
    fn a_tick_is_the_longest_up_to_the_limit() {
        let hertz =
            [1_000_000, 19_200_000, 24_000_000, 1_000_000_000, 2_445_406_000, 6_000_000_000];
        for hz in hertz {
            let nanos = nanos_at(hz);
            let (shift, rate) = plan(nanos);
            assert_eq!(rate, TickRate::from_ratio(nanos, SPAN - shift).unwrap());
            assert!(rate.duration_ceil(1) <= Duration::from_nanos(1100), "{hz} Hz: {rate:?}");
            assert!(rate.duration_floor(2) >= Duration::from_nanos(1100), "{hz} Hz: {rate:?}");
        }
    }

    #[test]
    fn known_counters_have_known_shifts() {
        assert_eq!(plan(1 << SPAN), (10, TickRate::from_nanos(1024).unwrap()));
        assert_eq!(plan(nanos_at(1_000_000)), (0, TickRate::from_nanos(1000).unwrap()));
        assert_eq!(plan(nanos_at(3_000_000_000)).0, 11);
        assert_eq!(plan(1100 << SPAN), (0, TickRate::from_nanos(1100).unwrap()));
        assert_eq!(plan(550 << SPAN), (1, TickRate::from_nanos(1100).unwrap()));
        assert_eq!(plan((550 << SPAN) + 1).0, 0);
    }

    #[test]
    fn a_calibration_that_cannot_be_right_is_not_believed() {
        let (least, most) = PLAUSIBLE.into_inner();
        assert_eq!(plan(least), (17, TickRate::from_nanos(1024).unwrap()));
        assert_eq!(plan(most), (0, TickRate::from_nanos(100_000).unwrap()));
        for nanos in [0, 1, 24, least - 1, most + 1, u64::MAX] {
            assert_eq!(plan(nanos), plan(1 << SPAN), "{nanos}");
        }
        for nanos in
            (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) + 1, (1 << bit) | (1 << bit >> 1)])
        {
            let tick = plan(nanos).1.duration_ceil(1);
            assert!(tick > Duration::from_nanos(550) && tick <= Duration::from_micros(100));
        }
    }

    #[test]
    fn the_rate_is_that_of_the_calibration() {
        let clock = QuantaClock::new();
        for ticks in (0..24).map(|bit| (1 << bit) + 1) {
            let nanos = clock.counter.delta_as_nanos(0, ticks << clock.shift);
            assert_eq!(clock.rate.duration_floor(ticks), Duration::from_nanos(nanos));
        }
    }

    /// Finds a wrong shift, not a bad calibration: a busy machine calibrates badly.
    #[test]
    fn ticks_take_about_their_time() {
        let clock = QuantaClock::default();
        let outer = Instant::now();
        let start = clock.now();
        let inner = Instant::now();
        std::thread::sleep(Duration::from_millis(30));
        let (most, end, least) = (inner.elapsed(), clock.now(), outer.elapsed());
        let (shortest, longest) = (most.mul_f64(0.7), least.mul_f64(1.3));
        let measured = clock.rate().duration_floor(end - start);
        assert!(shortest <= measured && measured <= longest, "{measured:?} for {most:?}");
    }
}
