//! Memory that stays flat. One test after another: what other threads do decides when a page comes
//! back.
//!
//! - 42: distinct keys in turn reach a plateau. Two million by default, a hundred million with
//!   `LEASEHOLD_FULL=1`, for which a release build is meant.
//! - 43: grants and releases of hour-long leases on one resource. A million by default, or ten.
#![cfg(not(leasehold_loom))]

mod common;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::*;
use leasehold::ManualClock;

/// Bytes of a page with `u64` keys.
const PAGE: usize = 64 + 32 * SLOTS as usize;

/// Two of these tests at once would hold back each other's pages.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scaled(short: u64, long: u64) -> u64 {
    let by_build = if cfg!(any(leasehold_tiny, debug_assertions)) { short / 2 } else { short };
    if full() { long } else { by_build }
}

/// Acquires and releases `n` distinct keys, with the clock moving on, and returns the memory after the
/// first quarter and at the end.
fn turn_over(table: &Table, clock: &ManualClock, n: u64, term: Duration) -> (usize, usize) {
    let mut early = 0;
    for key in 0..n {
        table.try_acquire(&key, holder(1), term).unwrap().release().unwrap();
        if key % 1000 == 0 {
            clock.advance(SEC);
        }
        if key == n / 4 {
            early = table.memory_bytes();
        }
    }
    (early, table.memory_bytes())
}

#[test]
fn inv_42_distinct_keys_reach_a_plateau() {
    let _alone = alone();
    let (table, clock) = table();
    let n = scaled(2_000_000, 100_000_000);
    let (early, late) = turn_over(&table, &clock, n, TERM);
    println!("{n} keys: {early} bytes, then {late}");
    // Ten seconds' keys are kept, which is 10 000: and never twenty times that.
    assert!(late < 200_000 * 32, "{late} bytes");
    // Tiny pages split unevenly, and none is ever merged: there the plateau is reached later.
    let slack = if cfg!(leasehold_tiny) { early } else { early / 4 };
    assert!(late <= early + slack + 8 * PAGE, "{early} bytes, then {late}");
    assert!(table.stats().evictions > n - 100_000);
}

/// As above, for a table that may know only so many, however fast the keys come.
#[test]
fn inv_42_a_bounded_table_needs_no_passing_of_time() {
    let _alone = alone();
    let clock = ManualClock::new();
    let table = build(&clock, |setup| setup.shards(1).capacity_max(1000));
    let n = scaled(400_000, 10_000_000);
    let mut early = 0;
    for key in 0..n {
        table.try_acquire(&key, holder(1), TERM).unwrap().release().unwrap();
        if key == n / 4 {
            early = table.memory_bytes();
        }
    }
    let late = table.memory_bytes();
    println!("{n} keys: {early} bytes, then {late}");
    let slack = if cfg!(leasehold_tiny) { 2 * early } else { early / 4 };
    assert!(late <= early + slack + 300 * PAGE, "{early} bytes, then {late}");
}

#[test]
fn inv_43_long_leases_on_one_resource_stay_flat() {
    let _alone = alone();
    let (table, clock) = table();
    let resource = table.resource(&7).unwrap();
    let n = scaled(1_000_000, 10_000_000);
    let mut early = 0;
    for round in 0..n {
        let lease = if round % 2 == 0 {
            resource.try_acquire(holder(1), HOUR)
        } else {
            table.try_acquire(&7, holder(1), HOUR)
        };
        lease.unwrap().release().unwrap();
        if round % 100 == 0 {
            clock.advance_ticks(1);
        }
        if round == n / 4 {
            early = table.memory_bytes();
        }
    }
    let late = table.memory_bytes();
    println!("{n} grants: {early} bytes, then {late}");
    if cfg!(not(leasehold_tiny)) {
        assert_eq!(late, early, "no page was needed");
    }
    // Tiny pages are used up every 36 grants, by an hour of their range.
    assert!(late < 4_000 * PAGE, "{late} bytes");
    assert_eq!(table.resources(), 1);
}

#[test]
fn a_table_that_shrank_uses_its_pages_again() {
    let _alone = alone();
    let (table, clock) = table();
    let mut largest = 0;
    for round in 0..10 {
        for key in 0..20_000 {
            let key = round * 1_000_000 + key;
            std::mem::forget(table.try_acquire(&key, holder(1), TERM).unwrap());
        }
        if round == 1 {
            largest = table.memory_bytes();
        }
        clock.advance(60 * SEC);
        assert_eq!(table.len(), 0);
    }
    let last = table.memory_bytes();
    println!("{largest} bytes, then {last}");
    // Tiny pages split unevenly, and none is ever merged: there the plateau is reached later.
    let slack = if cfg!(leasehold_tiny) { 2 * largest } else { largest / 2 };
    assert!(last <= largest + slack, "{largest} bytes, then {last}");
}
