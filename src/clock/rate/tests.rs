//! What holds of a rate's conversions, each checked against its definition in 128 bits:
//!
//! 1. `ticks_floor` is the largest number of ticks that last no longer than the time, or `u64::MAX`;
//! 2. `duration_floor` and `duration_ceil` enclose the true length within 1 ns;
//! 3. all are monotone, and no time grows by going to ticks and back;
//! 4. a rate outside the limits is refused.

use super::*;

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): reproducible numbers without a dependency.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of any magnitude: small ones are as likely as large ones.
    fn any(&mut self) -> u64 {
        let bits = self.next() % 64;
        self.next() >> bits
    }
}

/// A rate and the ratio it was made of.
#[derive(Clone, Copy, Debug)]
struct Made {
    rate: TickRate,
    nanos: u128,
    log2: u32,
}

fn made(nanos: u64, log2: u32) -> Option<Made> {
    let rate = TickRate::from_ratio(nanos, log2).ok()?;
    Some(Made { rate, nanos: nanos.into(), log2 })
}

/// The limits, whole nanoseconds, ratios of real counters, and random ones; all of them exact.
fn rates() -> Vec<Made> {
    let mut random = SplitMix(1);
    let whole = [1, 2, 3, 7, 999, 1000, 1024, 1100, 999_999_999, 1_000_000_000];
    let ratios = [(1 << 34, 34), ((1 << 34) + 1, 34), (1_000_000_000 << 34, 34), (3, 1)];
    let counters = [(366_503_875_925, 29), (1 << 40, 30), (45_812_984_490_667, 34)];
    let mut rates: Vec<_> = whole.iter().filter_map(|&nanos| made(nanos, 0)).collect();
    rates.extend(ratios.iter().chain(&counters).filter_map(|&(nanos, log2)| made(nanos, log2)));
    assert_eq!(rates.len(), whole.len() + ratios.len() + counters.len());
    while rates.len() < 200 {
        rates.extend(made(random.any(), (random.next() % 35) as u32));
    }
    rates
}

/// Numbers at which something could go wrong, whatever the rate.
fn edges() -> impl Iterator<Item = u64> {
    let powers = (0..64).flat_map(|bit| [(1 << bit) - 1, 1_u64 << bit, (1 << bit) + 1]);
    powers.chain([999_999_999, 1_000_000_000, u64::MAX - 1, u64::MAX])
}

fn time_of(nanos: u128) -> Duration {
    let secs = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(secs, (nanos % 1_000_000_000) as u32)
}

fn check_ticks(made: Made, time: Duration) {
    let Made { rate, nanos, log2 } = made;
    let ticks = rate.ticks_floor(time);
    let bound = time.as_nanos() << log2;
    assert!(u128::from(ticks) * nanos <= bound, "{made:?}: {time:?} has no {ticks} ticks");
    if let Some(more) = ticks.checked_add(1) {
        assert!(u128::from(more) * nanos > bound, "{made:?}: {time:?} has more than {ticks} ticks");
    }
    assert!(rate.duration_floor(ticks) <= time, "{made:?}: {time:?} grew");
    let later = time.saturating_add(Duration::from_nanos(1));
    assert!(rate.ticks_floor(later) >= ticks, "{made:?}: {later:?} is fewer ticks than {time:?}");
}

fn check_duration(made: Made, ticks: u64) {
    let Made { rate, nanos, log2 } = made;
    let (floor, ceil) = (rate.duration_floor(ticks), rate.duration_ceil(ticks));
    let exact = u128::from(ticks) * nanos;
    assert!(floor.as_nanos() << log2 <= exact, "{made:?}: {ticks} ticks are less than {floor:?}");
    assert!((floor.as_nanos() + 1) << log2 > exact, "{made:?}: {ticks} ticks exceed {floor:?}");
    assert!(ceil.as_nanos() << log2 >= exact, "{made:?}: {ticks} ticks exceed {ceil:?}");
    let whole = exact.is_multiple_of(1 << log2);
    assert_eq!((ceil - floor).as_nanos(), u128::from(!whole), "{made:?}: {ticks} ticks");
    let more = ticks.saturating_add(1);
    assert!(rate.duration_floor(more) >= floor && rate.duration_ceil(more) >= ceil);
}

#[test]
fn ticks_are_the_exact_floor() {
    let mut random = SplitMix(2);
    for made in rates() {
        for edge in edges() {
            check_ticks(made, Duration::from_nanos(edge));
            check_ticks(made, Duration::from_secs(edge));
            check_ticks(made, Duration::new(edge, 999_999_999));
        }
        for _ in 0..500 {
            check_ticks(made, Duration::from_nanos(random.any()));
            check_ticks(made, Duration::new(random.any(), (random.next() % 1_000_000_000) as u32));
        }
    }
}

#[test]
fn ticks_are_exact_beside_each_whole_tick() {
    let mut random = SplitMix(3);
    for made in rates() {
        for _ in 0..500 {
            let nanos = (u128::from(random.any()) * made.nanos) >> made.log2;
            for beside in [nanos.saturating_sub(1), nanos, nanos + 1] {
                check_ticks(made, time_of(beside));
            }
        }
    }
}

#[test]
fn durations_enclose_the_exact_length() {
    let mut random = SplitMix(4);
    for made in rates() {
        edges().for_each(|ticks| check_duration(made, ticks));
        (0..500).for_each(|_| check_duration(made, random.any()));
    }
}

#[test]
fn the_longest_times_saturate() {
    for Made { rate, .. } in rates() {
        assert_eq!(rate.ticks_floor(Duration::MAX), u64::MAX, "{rate:?}");
        assert!(rate.duration_ceil(u64::MAX) <= Duration::MAX, "{rate:?}");
    }
    let slowest = TickRate::from_nanos(1_000_000_000).unwrap();
    assert_eq!(slowest.duration_floor(u64::MAX), Duration::from_secs(u64::MAX));
    assert_eq!(slowest.duration_ceil(u64::MAX), Duration::from_secs(u64::MAX));
}

#[test]
fn both_sides_of_the_slow_case_agree() {
    for Made { rate, .. } in rates() {
        let first_slow = Duration::from_secs(SHORT_SECS);
        for back in 1..50 {
            let time = first_slow - Duration::from_nanos(back * 20_000_003);
            assert_eq!(rate.ticks_floor(time), rate.ticks_floor_slow(time), "{rate:?} {time:?}");
        }
    }
}

#[test]
fn a_rate_outside_the_limits_is_refused() {
    use InvalidRate::{TooCoarse, TooFine};

    assert_eq!(TickRate::from_nanos(0), Err(TooFine { nanos: 0, log2_ticks: 0 }));
    let beyond = 1_000_000_001;
    assert_eq!(TickRate::from_nanos(beyond), Err(TooCoarse { nanos: beyond, log2_ticks: 0 }));
    let most = u64::MAX;
    assert_eq!(TickRate::from_nanos(most), Err(TooCoarse { nanos: most, log2_ticks: 0 }));

    let nearly = (1 << 34) - 1;
    assert_eq!(TickRate::from_ratio(nearly, 34), Err(TooFine { nanos: nearly, log2_ticks: 34 }));
    for log2_ticks in [64, 98, 127, 128, u32::MAX] {
        let refused = Err(TooFine { nanos: most, log2_ticks });
        assert_eq!(TickRate::from_ratio(most, log2_ticks), refused);
    }
    let coarse = (1_000_000_000 << 34) + 1;
    let refused = Err(TooCoarse { nanos: coarse, log2_ticks: 34 });
    assert_eq!(TickRate::from_ratio(coarse, 34), refused);
}

#[test]
fn equal_rates_are_equal_however_made() {
    assert_eq!(TickRate::from_nanos(1024), TickRate::from_ratio(1 << 20, 10));
    assert_eq!(TickRate::from_nanos(1024), TickRate::from_ratio(1 << 60, 50));
    assert_ne!(TickRate::from_nanos(1024), TickRate::from_ratio((1 << 20) + 1, 10));
}

#[test]
fn debug_shows_nanoseconds() {
    assert_eq!(format!("{:?}", TickRate::from_nanos(1024).unwrap()), "TickRate(1024 ns)");
    assert_eq!(format!("{:?}", TickRate::from_ratio(3, 1).unwrap()), "TickRate(1.5 ns)");
}
