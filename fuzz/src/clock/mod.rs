//! The conversions of a [`TickRate`] against arithmetic in 128 bits that rounds by definition.

mod model;

use std::time::Duration;

use arbitrary::Arbitrary;
use leasehold::TickRate;

use crate::choice::choice;

pub use self::model::Rate;

/// A rate, and what is converted at it.
#[derive(Arbitrary, Debug)]
pub struct Input {
    nanos: Nanos,
    log2_ticks: Log2,
    ticks: Vec<u64>,
    times: Vec<(u64, u32)>,
}

choice! {
    /// The length of so many ticks.
    enum Nanos {
        Any(u64),
        /// So far from the shortest, which is 1 ns for one tick.
        ShortestBy(i8),
        /// So far from the longest, which is 1 s for one tick.
        LongestBy(i8),
    }

    /// The binary logarithm of a number of ticks: seldom one that no rate has.
    enum Log2 {
        Zero,
        Exact(u8),
        Any(u32),
    }
}

impl Log2 {
    fn get(self) -> u32 {
        match self {
            Self::Zero => 0,
            Self::Exact(log2) => u32::from(log2 % 40),
            Self::Any(log2) => log2,
        }
    }
}

impl Nanos {
    fn get(self, log2_ticks: u32) -> u64 {
        let (one, by) = match self {
            Self::Any(nanos) => return nanos,
            Self::ShortestBy(by) => (1, by),
            Self::LongestBy(by) => (1_000_000_000, by),
        };
        let ticks = 1_u64.checked_shl(log2_ticks).unwrap_or(u64::MAX);
        u64::saturating_mul(one, ticks).saturating_add_signed(by.into())
    }
}

/// Converts everything in the input, and panics where the model disagrees.
pub fn run(input: Input) {
    let log2_ticks = input.log2_ticks.get();
    let nanos = input.nanos.get(log2_ticks);
    let made = TickRate::from_ratio(nanos, log2_ticks);
    let model = Rate::of_ratio(nanos, log2_ticks);
    if log2_ticks == 0 {
        assert_eq!(TickRate::from_nanos(nanos), made, "a ratio of one tick");
    }
    let (rate, model) = match (made, model) {
        (Ok(rate), Ok(model)) => (rate, model),
        (Err(error), Err(expected)) => return assert_eq!(error, expected, "which error"),
        (made, model) => panic!("{nanos} ns, 2^{log2_ticks}: {made:?} not {model:?}"),
    };
    for ticks in input.ticks {
        check_ticks(rate, model, ticks);
        // The times around a whole number of ticks are where rounding shows.
        let whole = model.duration_floor(ticks);
        let beside = [whole.checked_sub(NANO), Some(whole), whole.checked_add(NANO)];
        beside.into_iter().flatten().for_each(|time| check_time(rate, model, time));
    }
    for (secs, nanos) in input.times {
        check_time(rate, model, Duration::new(secs, nanos % 1_000_000_000));
    }
}

const NANO: Duration = Duration::from_nanos(1);

fn check_ticks(rate: TickRate, model: Rate, ticks: u64) {
    let (floor, ceil) = (rate.duration_floor(ticks), rate.duration_ceil(ticks));
    assert_eq!(floor, model.duration_floor(ticks), "{ticks} ticks at {rate:?}, rounded down");
    assert_eq!(ceil, model.duration_ceil(ticks), "{ticks} ticks at {rate:?}, rounded up");
    // What a holder counts on is not more than what the table waits for.
    assert!(rate.ticks_floor(floor) <= ticks, "{ticks} ticks at {rate:?} grew on the way back");
    assert!(rate.ticks_floor(ceil) >= ticks, "{ticks} ticks at {rate:?} shrank on the way back");
}

fn check_time(rate: TickRate, model: Rate, time: Duration) {
    let ticks = rate.ticks_floor(time);
    assert_eq!(ticks, model.ticks_floor(time), "the ticks in {time:?} at {rate:?}");
    assert!(rate.duration_floor(ticks) <= time, "{time:?} at {rate:?} grew on the way back");
    if let Some(more) = ticks.checked_add(1) {
        assert!(rate.duration_ceil(more) > time, "{time:?} at {rate:?} holds one more tick");
    }
}
