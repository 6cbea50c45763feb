//! What a table is built from, and what it refuses when it is full.
//!
//! - Every setting out of range has its error, and no other setting is blamed.
//! - `capacity_max` is exact: that many resources held, one more is `Full`; idle and lapsed ones make
//!   room (15: held ones never do).
//! - 12, 42: keys with equal hashes end in `Crowded`, in no loop, with bounded memory.
//! - 17: what is refused left nothing behind.
//! - 21: settings at and beyond their limits.
#![cfg(not(leasehold_loom))]

mod common;

use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use common::*;
use leasehold::{AcquireError, BuildError, Clock, LeaseTable, Lost, ManualClock, TickRate};

type Build = fn(Setup<u64>) -> Setup<u64>;

#[test]
fn inv_21_every_setting_out_of_range_has_its_error() {
    let max = TERM_MAX / 4;
    let cases: [(Build, BuildError); 10] = [
        (|s| s.shards(0), BuildError::Shards { shards: 0 }),
        (|s| s.shards(3), BuildError::Shards { shards: 3 }),
        (|s| s.shards(8192), BuildError::Shards { shards: 8192 }),
        (
            |s| s.capacity((1 << 36) + 1),
            BuildError::CapacityTooLarge { capacity: (1 << 36) + 1, max: 1 << 36 },
        ),
        (
            |s| s.capacity(10).capacity_max(9),
            BuildError::CapacityAboveMax { capacity: 10, capacity_max: 9 },
        ),
        (|s| s.capacity_max(0), BuildError::CapacityMaxZero),
        (|s| s.term_max(Duration::from_nanos(999)), BuildError::TermMaxZero),
        (
            |s| s.term_max(TERM_MAX + NANO),
            BuildError::TermMaxTooLong { requested: TERM_MAX + NANO, max: TERM_MAX },
        ),
        (
            |s| s.term_max(Duration::MAX),
            BuildError::TermMaxTooLong { requested: Duration::MAX, max: TERM_MAX },
        ),
        (
            |s| s.retention(Duration::MAX),
            BuildError::RetentionTooLong { requested: Duration::MAX, max: TERM_MAX / 4 },
        ),
    ];
    for (set, expected) in cases {
        let setup = set(LeaseTable::builder().clock(ManualClock::new()));
        assert_eq!(setup.build().err(), Some(expected));
        assert!(expected.to_string().len() > 20, "the error says what to do");
    }
    let above = LeaseTable::<u64>::builder().clock(ManualClock::new()).retention(max + NANO);
    let too_long = BuildError::RetentionTooLong { requested: max + NANO, max };
    assert_eq!(above.build().err(), Some(too_long));
}

#[test]
fn inv_21_settings_at_their_limits_work() {
    let settings: [Build; 8] = [
        |s| s.shards(1),
        |s| s.shards(4096),
        |s| s.shards(1).capacity(10_000),
        |s| s.capacity(1).capacity_max(1),
        |s| s.term_max(TERM_MAX),
        |s| s.term_max(TICK),
        |s| s.retention(Duration::ZERO),
        |s| s.retention(TERM_MAX / 4).term_max(TERM_MAX),
    ];
    for (n, set) in settings.into_iter().enumerate() {
        let clock = ManualClock::new();
        let table = build(&clock, set);
        let term = if n == 5 { TICK } else { SEC };
        for key in 0..3 * SLOTS {
            let lease = table.try_acquire(&key, holder(1), term).unwrap();
            assert_eq!(lease.remaining(), term, "setting {n}");
            clock.advance(term);
            assert_eq!(lease.check(), Err(Lost::Expired), "setting {n}");
        }
    }
}

/// A clock whose tick is a second: the longest term is 2^41 of them.
struct Seconds(ManualClock);

impl Clock for Seconds {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn rate(&self) -> TickRate {
        TickRate::from_nanos(1_000_000_000).unwrap()
    }
}

#[test]
fn inv_21_limits_follow_the_clocks_ticks() {
    let longest = Duration::from_secs(1 << 41);
    let clock = ManualClock::new();
    let table: LeaseTable<u64, _, _> =
        LeaseTable::builder().clock(Seconds(clock.clone())).build().unwrap();
    assert_eq!(table.try_acquire(&1, holder(1), longest).unwrap().remaining(), longest);
    let short = table.try_acquire(&1, holder(1), Duration::from_millis(999));
    assert_eq!(short.err(), Some(AcquireError::TermZero));
    let term_max = Duration::from_millis(999);
    let refused = LeaseTable::<u64>::builder().clock(Seconds(clock)).term_max(term_max).build();
    assert_eq!(refused.err(), Some(BuildError::TermMaxZero));
}

fn bounded(capacity_max: usize) -> (Table, ManualClock) {
    let clock = ManualClock::new();
    (build(&clock, |setup| setup.capacity_max(capacity_max)), clock)
}

#[test]
fn capacity_max_is_exact() {
    for capacity_max in [1, 2, 61, 62, 63, 500] {
        let (table, _clock) = bounded(capacity_max);
        let n = capacity_max as u64;
        let held: Vec<_> =
            (0..n).map(|key| table.try_acquire(&key, holder(1), TERM).unwrap()).collect();
        let full = Some(AcquireError::Full { capacity_max });
        for key in n..n + 3 {
            assert_eq!(table.try_acquire(&key, holder(2), TERM).err(), full);
            assert_eq!(table.resource(&key).err(), full);
        }
        // Known ones are not refused for room, and nothing was evicted for those that were.
        refusal(table.try_acquire(&0, holder(2), TERM));
        assert_eq!((table.len(), table.resources()), (capacity_max, capacity_max));
        assert!(held.iter().all(|lease| lease.check().is_ok()));
        assert_eq!(table.stats().evictions, 0);
    }
}

#[test]
fn idle_resources_make_room_at_once() {
    let (table, _clock) = bounded(100);
    let mut held: Vec<_> =
        (0..100).map(|key| table.try_acquire(&key, holder(1), TERM).unwrap()).collect();
    for key in 100..5000 {
        assert!(table.try_acquire(&key, holder(1), TERM).is_err());
        held.swap_remove(key as usize % 100).release().unwrap();
        held.push(table.try_acquire(&key, holder(1), TERM).unwrap());
        assert_eq!(table.len(), 100);
    }
    assert!(held.iter().all(|lease| lease.check().is_ok()), "none of those held was evicted");
}

/// A bounded table whose holders all crashed is not full for ever.
#[test]
fn inv_23_lapsed_resources_make_room_at_once() {
    for late in [TICK, 5 * SEC, DAY, 100 * DAY] {
        let (table, clock) = bounded(3);
        let crashed: Vec<_> =
            (0..3).map(|key| table.try_acquire_owned(&key, holder(1), TERM).unwrap()).collect();
        clock.advance(TERM);
        let full = AcquireError::Full { capacity_max: 3 };
        assert_eq!(table.try_acquire(&3, holder(2), TERM).err(), Some(full), "at the deadline");
        clock.advance(late);
        for key in 3..6 {
            std::mem::forget(table.try_acquire(&key, holder(2), TERM).unwrap());
        }
        assert_eq!(table.try_acquire(&6, holder(2), TERM).err(), Some(full));
        assert_eq!((table.stats().lapses, table.len()), (3, 3));
        for lease in crashed {
            assert!(lease.check().is_err());
            assert!(lease.release().is_err());
        }
        assert_eq!(table.len(), 3);
    }
}

#[test]
fn inv_15_making_room_takes_nothing_that_is_held_or_closing() {
    let (table, clock) = bounded(4);
    let held = table.try_acquire(&0, holder(1), DAY).unwrap();
    let closing = table.try_acquire(&1, holder(1), DAY).unwrap();
    table.revoke(&1, leasehold::Revoke::After(HOUR)).unwrap();
    let at_deadline = table.try_acquire_owned(&2, holder(1), TERM).unwrap();
    clock.advance(TERM);
    for key in 10..1000 {
        table.try_acquire(&key, holder(2), TICK).unwrap().release().unwrap();
        assert_eq!(table.resources(), 4);
    }
    assert!(held.check().is_ok() && closing.check().is_ok());
    refusal(table.try_acquire(&2, holder(3), TERM));
    assert_eq!(at_deadline.check(), Err(Lost::Expired));
}

#[test]
fn a_hot_resource_leaves_room_for_others_whatever_it_used_up() {
    let (table, _clock) = bounded(2);
    let _held = table.try_acquire(&0, holder(1), TERM).unwrap();
    for _ in 0..STAMP_MAX + STAMP_MAX / 2 {
        table.try_acquire(&1, holder(1), TERM).unwrap().release().unwrap();
    }
    // The dead slot of key 1 is no resource.
    assert_eq!(table.resources(), 2);
    assert!(table.try_acquire(&2, holder(1), TERM).is_ok());
}

#[test]
fn capacity_max_holds_among_threads() {
    let (table, _clock) = bounded(50);
    let granted: usize = std::thread::scope(|s| {
        let worker = |first: u64| {
            let table = &table;
            s.spawn(move || {
                let acquire = |key| table.try_acquire(&key, holder(1), TERM).map(std::mem::forget);
                let outcomes = (first..first + 40).map(acquire);
                outcomes.filter(Result::is_ok).count()
            })
        };
        let workers = [0, 1000, 2000, 3000].map(worker);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!((granted, table.len(), table.resources()), (50, 50, 50));
}

/// Tells no keys apart.
#[derive(Clone, Default)]
struct Constant;

impl BuildHasher for Constant {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self
    }
}

impl Hasher for Constant {
    fn finish(&self) -> u64 {
        42
    }

    fn write(&mut self, _: &[u8]) {}
}

#[test]
fn keys_with_one_hash_are_crowded_and_cost_little() {
    let clock = ManualClock::new();
    let setup = LeaseTable::builder().clock(clock.clone()).shards(1);
    let table: LeaseTable<u64, Constant, ManualClock> = setup.hasher(Constant).build().unwrap();
    let held: Vec<_> =
        (0..SLOTS).map(|key| table.try_acquire(&key, holder(1), TERM).unwrap()).collect();
    for key in SLOTS..10_000 {
        let refused = table.try_acquire(&key, holder(1), TERM).err();
        assert_eq!(refused, Some(AcquireError::Crowded));
    }
    assert!(table.memory_bytes() < 200_000, "{} bytes", table.memory_bytes());
    assert!(held.iter().all(|lease| lease.check().is_ok()));
    assert_eq!(table.resources() as u64, SLOTS);
    drop(held);
    clock.advance(DAY);
    let lease = table.try_acquire(&10_000, holder(1), TERM);
    assert!(lease.is_ok(), "what is idle for long makes room");
}

#[test]
fn keys_with_one_hash_still_exclude_each_other() {
    let clock = ManualClock::new();
    let setup = LeaseTable::builder().clock(clock.clone()).shards(1);
    let table: LeaseTable<u64, Constant, ManualClock> = setup.hasher(Constant).build().unwrap();
    let mut newest = [None; 4];
    for round in 0..4 * STAMP_MAX.min(5_000) {
        let key = round % 4;
        let lease = table.try_acquire(&key, holder(1), TERM).unwrap();
        assert!(Some(lease.token()) > newest[key as usize]);
        newest[key as usize] = Some(lease.token());
        assert_eq!(refusal(table.try_acquire(&key, holder(2), TERM)).token, lease.token());
        assert_eq!(lease.key(), Some(key));
    }
}
