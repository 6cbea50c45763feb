//! How long a tick lasts, and the conversions between ticks and [`Duration`].

use core::fmt;
use core::time::Duration;

/// How many binary digits of a nanosecond a rate keeps.
///
/// 34 is the most at which a tick of one second still fits 64 bits, and at which the longest
/// [`Duration`], shifted by it, still fits 128.
const FRACTION: u32 = 34;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The shortest tick, 1 ns, in units of 2^-34 ns.
const FIXED_MIN: u64 = 1 << FRACTION;

/// The longest tick, 1 s, in units of 2^-34 ns.
const FIXED_MAX: u64 = NANOS_PER_SEC << FRACTION;

/// A [`Duration`] of fewer seconds than this (584 years) is below 2^64 ns.
const SHORT_SECS: u64 = u64::MAX / NANOS_PER_SEC - 1;

const _: () = {
    assert!(FIXED_MAX >> FRACTION == NANOS_PER_SEC);
    assert!(SHORT_SECS.checked_mul(NANOS_PER_SEC).is_some());
    let longest = u64::MAX as u128 * NANOS_PER_SEC as u128 + (NANOS_PER_SEC - 1) as u128;
    assert!(longest.leading_zeros() >= FRACTION);
};

/// How long one tick of a [`Clock`](crate::Clock) lasts.
///
/// Not promised: that the clock keeps this rate. A rate is what the clock was made or calibrated to;
/// the conversions are exact with respect to it, and no more true than it.
///
/// A tick lasts 1 ns to 1 s, held as a whole number of 2^-34 ns. That holds every whole number of
/// nanoseconds exactly, and every `nanos / 2^k` up to k = 34.
///
/// No conversion overflows or panics. Each says which way it rounds, because a lease needs both: a
/// holder rounds so that it stops early, a grantor so that it reclaims late.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use leasehold::TickRate;
///
/// let rate = TickRate::from_nanos(1024)?;
/// assert_eq!(rate.ticks_floor(Duration::from_nanos(2047)), 1);
/// assert_eq!(rate.ticks_floor(Duration::from_nanos(2048)), 2);
/// assert_eq!(rate.duration_floor(2), Duration::from_nanos(2048));
/// # Ok::<(), leasehold::InvalidRate>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TickRate {
    /// The length of a tick in units of 2^-34 ns.
    fixed: u64,
    /// 2^98 / `fixed` rounded down, or all ones where that is 2^64: ticks a nanosecond, times 2^64.
    reciprocal: u64,
}

impl TickRate {
    /// The shortest tick.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::TickRate;
    ///
    /// assert_eq!(TickRate::from_nanos(1)?.duration_floor(1), TickRate::TICK_MIN);
    /// # Ok::<(), leasehold::InvalidRate>(())
    /// ```
    pub const TICK_MIN: Duration = Duration::from_nanos(1);
    /// The longest tick.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::TickRate;
    ///
    /// assert_eq!(TickRate::from_nanos(1_000_000_000)?.duration_floor(1), TickRate::TICK_MAX);
    /// # Ok::<(), leasehold::InvalidRate>(())
    /// ```
    pub const TICK_MAX: Duration = Duration::from_secs(1);

    /// A tick of a whole number of nanoseconds.
    ///
    /// # Errors
    ///
    /// [`InvalidRate`] if `nanos` is 0 or above 1 000 000 000.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{InvalidRate, TickRate};
    ///
    /// assert!(TickRate::from_nanos(1_000).is_ok());
    /// assert!(matches!(TickRate::from_nanos(0), Err(InvalidRate::TooFine { .. })));
    /// ```
    pub const fn from_nanos(nanos: u64) -> Result<Self, InvalidRate> {
        Self::from_ratio(nanos, 0)
    }

    /// The rate at which 2^`log2_ticks` ticks last `nanos` nanoseconds: the form in which a hardware
    /// counter is calibrated.
    ///
    /// Exact up to `log2_ticks` = 34. Beyond, the tick is rounded down to a multiple of 2^-34 ns,
    /// which changes its length by less than one part in 10^10.
    ///
    /// # Errors
    ///
    /// [`InvalidRate`] if a tick would be shorter than 1 ns or longer than 1 s.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::{InvalidRate, TickRate};
    ///
    /// // 1024 ticks in 700 001 ns: about 683.6 ns each.
    /// let rate = TickRate::from_ratio(700_001, 10)?;
    /// assert_eq!(rate.duration_floor(1024), Duration::from_nanos(700_001));
    /// assert_eq!(rate.duration_floor(1), Duration::from_nanos(683));
    /// assert_eq!(rate.duration_ceil(1), Duration::from_nanos(684));
    ///
    /// assert!(matches!(TickRate::from_ratio(1023, 10), Err(InvalidRate::TooFine { .. })));
    /// # Ok::<(), InvalidRate>(())
    /// ```
    pub const fn from_ratio(nanos: u64, log2_ticks: u32) -> Result<Self, InvalidRate> {
        // Below 2^98, so that a shift of 98 or more would leave nothing anyway.
        let wide = (nanos as u128) << FRACTION;
        let fixed = if log2_ticks < u128::BITS { wide >> log2_ticks } else { 0 };
        if fixed < FIXED_MIN as u128 {
            Err(InvalidRate::TooFine { nanos, log2_ticks })
        } else if fixed > FIXED_MAX as u128 {
            Err(InvalidRate::TooCoarse { nanos, log2_ticks })
        } else {
            Ok(Self::from_fixed(fixed as u64))
        }
    }

    const fn from_fixed(fixed: u64) -> Self {
        let reciprocal = (1_u128 << (FRACTION + u64::BITS)) / fixed as u128;
        let reciprocal = if reciprocal > u64::MAX as u128 { u64::MAX } else { reciprocal as u64 };
        Self { fixed, reciprocal }
    }

    /// The whole ticks in `time`, at most `u64::MAX`.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::TickRate;
    ///
    /// let rate = TickRate::from_nanos(1000)?;
    /// assert_eq!(rate.ticks_floor(Duration::from_nanos(999)), 0);
    /// assert_eq!(rate.ticks_floor(Duration::from_millis(1)), 1000);
    /// assert_eq!(rate.ticks_floor(Duration::MAX), u64::MAX);
    /// # Ok::<(), leasehold::InvalidRate>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn ticks_floor(self, time: Duration) -> u64 {
        let secs = time.as_secs();
        if secs >= SHORT_SECS {
            return self.ticks_floor_slow(time);
        }
        let nanos = secs * NANOS_PER_SEC + u64::from(time.subsec_nanos());
        // The reciprocal is too small by at most 1, hence the product by at most `nanos`. If that
        // cannot carry into the upper half, the upper half is the floor.
        let product = u128::from(nanos) * u128::from(self.reciprocal);
        let guess = (product >> u64::BITS) as u64;
        match (product as u64).checked_add(nanos) {
            Some(_) => guess,
            None => self.ticks_floor_near(nanos, guess),
        }
    }

    /// The guess is the floor or one below it. It is also below `nanos`, so that adding 1 cannot
    /// overflow.
    #[cold]
    fn ticks_floor_near(self, nanos: u64, guess: u64) -> u64 {
        let next = u128::from(guess + 1) * u128::from(self.fixed);
        guess + u64::from(next <= u128::from(nanos) << FRACTION)
    }

    /// A time of centuries: the one case that divides.
    #[cold]
    fn ticks_floor_slow(self, time: Duration) -> u64 {
        let ticks = (time.as_nanos() << FRACTION) / u128::from(self.fixed);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// How long `ticks` last, rounded down to a nanosecond.
    ///
    /// Never more than what was converted to `ticks`: `duration_floor(ticks_floor(d)) <= d`.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::TickRate;
    ///
    /// let rate = TickRate::from_ratio(3, 1)?; // 1.5 ns
    /// assert_eq!(rate.duration_floor(3), Duration::from_nanos(4));
    /// assert_eq!(rate.duration_ceil(3), Duration::from_nanos(5));
    /// # Ok::<(), leasehold::InvalidRate>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn duration_floor(self, ticks: u64) -> Duration {
        duration_of((u128::from(ticks) * u128::from(self.fixed)) >> FRACTION)
    }

    /// How long `ticks` last, rounded up to a nanosecond: at most 1 ns more than
    /// [`duration_floor`](Self::duration_floor), where there is an example.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::TickRate;
    /// use std::time::Duration;
    ///
    /// let rate = TickRate::from_ratio(3, 1)?; // 1.5 ns
    /// assert_eq!(rate.duration_ceil(1), Duration::from_nanos(2));
    /// # Ok::<(), leasehold::InvalidRate>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn duration_ceil(self, ticks: u64) -> Duration {
        // No overflow: `fixed` is at most 2^34 · 10^9, far enough below 2^64.
        let product = u128::from(ticks) * u128::from(self.fixed);
        duration_of((product + u128::from(FIXED_MIN - 1)) >> FRACTION)
    }
}

/// A time in nanoseconds that is at most `u64::MAX` seconds, as that many ticks of 1 s are.
#[inline]
fn duration_of(nanos: u128) -> Duration {
    match u64::try_from(nanos) {
        Ok(nanos) => Duration::from_nanos(nanos),
        Err(_) => duration_of_slow(nanos),
    }
}

#[cold]
fn duration_of_slow(nanos: u128) -> Duration {
    let per_sec = u128::from(NANOS_PER_SEC);
    Duration::new((nanos / per_sec) as u64, (nanos % per_sec) as u32)
}

impl fmt::Debug for TickRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.fixed as f64 / FIXED_MIN as f64;
        write!(f, "TickRate({nanos} ns)")
    }
}

/// The clock's rate is outside what a [`TickRate`] holds.
///
/// # Example
///
/// ```
/// use leasehold::{InvalidRate, TickRate};
///
/// let error = TickRate::from_nanos(2_000_000_000).unwrap_err();
/// assert!(matches!(error, InvalidRate::TooCoarse { .. }));
/// assert!(error.to_string().ends_with("use a finer clock"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidRate {
    /// A tick would be shorter than 1 ns, or of no length.
    TooFine {
        /// How many nanoseconds were to be 2^`log2_ticks` ticks.
        nanos: u64,
        /// The binary logarithm of the number of ticks.
        log2_ticks: u32,
    },
    /// A tick would be longer than 1 s.
    TooCoarse {
        /// How many nanoseconds were to be 2^`log2_ticks` ticks.
        nanos: u64,
        /// The binary logarithm of the number of ticks.
        log2_ticks: u32,
    },
}

impl fmt::Display for InvalidRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooFine { nanos, log2_ticks } => write!(
                f,
                "{nanos} ns for 2^{log2_ticks} ticks makes a tick shorter than 1 ns: \
                 drop low bits of the counter"
            ),
            Self::TooCoarse { nanos, log2_ticks } => write!(
                f,
                "{nanos} ns for 2^{log2_ticks} ticks makes a tick longer than 1 s: use a finer clock"
            ),
        }
    }
}

impl core::error::Error for InvalidRate {}

#[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
mod tests;
