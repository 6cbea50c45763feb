//! What the tests share: a table on a manual clock, seeded random numbers, and the sizes of the build.
#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod ends;
pub(crate) mod keys;
pub(crate) mod ledger;

use std::hash::{BuildHasher, BuildHasherDefault};
use std::time::Duration;

use leasehold::{
    AcquireError, Builder, Clock, DefaultHashBuilder, Held, HolderId, Key, LeaseTable, ManualClock,
};

pub(crate) type Table<K = u64> = LeaseTable<K, DefaultHashBuilder, ManualClock>;
/// A table whose hashes, and so its tokens, are the same in every run.
pub(crate) type FixedTable<K = u64> = LeaseTable<K, FixedHash, ManualClock>;
pub(crate) type FixedHash = BuildHasherDefault<std::hash::DefaultHasher>;
pub(crate) type Setup<K> = Builder<K, DefaultHashBuilder, ManualClock>;

pub(crate) const NANO: Duration = Duration::from_nanos(1);
/// One tick of the manual clock.
pub(crate) const TICK: Duration = Duration::from_micros(1);
pub(crate) const SEC: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);
/// The term where any would do.
pub(crate) const TERM: Duration = Duration::from_secs(10);
/// The longest term of a manual clock: 2^41 ticks.
pub(crate) const TERM_MAX: Duration = Duration::from_micros(1 << 41);

/// Slots of a page.
pub(crate) const SLOTS: u64 = if cfg!(leasehold_tiny) { 6 } else { 62 };
/// The last stamp of a slot.
pub(crate) const STAMP_MAX: u64 = if cfg!(leasehold_tiny) { 7 } else { (1 << 17) - 1 };

pub(crate) fn holder(number: u64) -> HolderId {
    HolderId::new(number).expect("tests use small numbers")
}

/// A table on that clock, with the default settings but for what `set` changes.
pub(crate) fn build<K: Key>(
    clock: &ManualClock,
    set: impl FnOnce(Setup<K>) -> Setup<K>,
) -> Table<K> {
    set(LeaseTable::builder().clock(clock.clone())).build().expect("the settings are valid")
}

/// As [`build`], with hashes that are the same in every run.
pub(crate) fn build_fixed<K: Key>(
    clock: &ManualClock,
    set: impl FnOnce(Setup<K>) -> Setup<K>,
) -> FixedTable<K> {
    let setup = set(LeaseTable::builder().clock(clock.clone()));
    setup.hasher(FixedHash::default()).build().expect("the settings are valid")
}

/// A table of one shard, whose pages fill and split soon, on a clock of its own.
pub(crate) fn table<K: Key>() -> (Table<K>, ManualClock) {
    let clock = ManualClock::new();
    (build(&clock, |setup| setup.shards(1)), clock)
}

/// Whether a long run was asked for.
pub(crate) fn full() -> bool {
    std::env::var_os("LEASEHOLD_FULL").is_some_and(|value| value == "1")
}

/// Who holds it, of an acquisition that was refused for that.
#[track_caller]
pub(crate) fn refusal<T>(outcome: Result<T, AcquireError>) -> Held {
    match outcome {
        Err(AcquireError::Held(held)) => held,
        Err(other) => panic!("refused for another reason: {other}"),
        Ok(_) => panic!("granted"),
    }
}

/// Acquires and releases `n` resources that nobody knew, from number `first` on: pages fill, split and
/// are replaced.
pub(crate) fn churn<S: BuildHasher>(table: &LeaseTable<u64, S, ManualClock>, first: u64, n: u64) {
    for key in first..first + n {
        let lease = table.try_acquire(&key, holder(9999), TERM).expect("a new resource is free");
        lease.release().expect("just granted");
    }
}

/// Replaces every page at least once: lets the retention pass, and fills the pages with new resources.
pub(crate) fn replace_pages<S: BuildHasher>(
    table: &LeaseTable<u64, S, ManualClock>,
    clock: &ManualClock,
    first: u64,
) {
    clock.advance(11 * SEC);
    churn(table, first, 4 * SLOTS);
}

/// The ticks between the manual clock's start and now.
pub(crate) fn elapsed(clock: &ManualClock) -> u64 {
    clock.now() - ManualClock::START
}

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and good enough to choose test cases.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number from 1 on, of up to so many bits: the short ones are no rarer than the long ones.
    pub(crate) fn of_bits(&mut self, bits: u64) -> u64 {
        let magnitude = self.below(bits);
        1 + self.below(1 << magnitude)
    }

    /// One chance in `n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}
