//! A tick's length as an exact number, and conversions that follow their definitions.

use std::time::Duration;

use leasehold::InvalidRate;

/// How many binary digits of a nanosecond a rate keeps: documented of [`leasehold::TickRate`].
const FRACTION: u32 = 34;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// How long a tick lasts, in units of 2^-34 ns.
#[derive(Clone, Copy, Debug)]
pub struct Rate(u128);

impl Rate {
    /// The rate at which `1 << log2_ticks` ticks last `nanos`.
    ///
    /// # Errors
    ///
    /// As [`leasehold::TickRate::from_ratio`].
    pub fn of_ratio(nanos: u64, log2_ticks: u32) -> Result<Self, InvalidRate> {
        let one_tick = u128::from(nanos) << FRACTION;
        let length = one_tick.checked_shr(log2_ticks).unwrap_or(0);
        if length < 1 << FRACTION {
            Err(InvalidRate::TooFine { nanos, log2_ticks })
        } else if length > NANOS_PER_SEC << FRACTION {
            Err(InvalidRate::TooCoarse { nanos, log2_ticks })
        } else {
            Ok(Self(length))
        }
    }

    /// The most ticks that last no longer than `time`.
    #[must_use]
    pub fn ticks_floor(self, time: Duration) -> u64 {
        // The longest time is below 2^94 ns.
        let ticks = (time.as_nanos() << FRACTION) / self.0;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// The most whole nanoseconds that `ticks` last.
    #[must_use]
    pub fn duration_floor(self, ticks: u64) -> Duration {
        duration(self.length(ticks) / (1 << FRACTION))
    }

    /// The fewest whole nanoseconds that `ticks` do not outlast.
    #[must_use]
    pub fn duration_ceil(self, ticks: u64) -> Duration {
        duration(self.length(ticks).div_ceil(1 << FRACTION))
    }

    /// The fewest and the most ticks that last `time`, rounded down.
    #[must_use]
    pub fn ticks_of_floor(self, time: Duration) -> (u64, u64) {
        let nanos = time.as_nanos();
        let least = |nanos: u128| (nanos << FRACTION).div_ceil(self.0);
        let capped = |ticks: u128| u64::try_from(ticks).unwrap_or(u64::MAX);
        (capped(least(nanos)), capped(least(nanos + 1) - 1))
    }

    fn length(self, ticks: u64) -> u128 {
        // A tick is below 2^64 units.
        u128::from(ticks) * self.0
    }
}

fn duration(nanos: u128) -> Duration {
    let secs = u64::try_from(nanos / NANOS_PER_SEC).expect("2^64 ticks are at most 2^64 s");
    Duration::new(secs, (nanos % NANOS_PER_SEC) as u32)
}
