//! What the table makes of clocks that jump, step back, stand still, or start anywhere.
//!
//! - 18: a clock that steps back, for all or for one thread: no panic, no lease that was reported lost
//!   comes back, and none ends early.
//! - 19: a jump of a year: each lease lapses once, and the cost is that of the leases.
//! - 20: a frozen clock: nothing spins.
//! - 24: every start, and every age of a page, behaves as starting at zero; see also `page_lives.rs`.
#![cfg(not(leasehold_loom))]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use common::*;
use leasehold::{
    AcquireError, Clock, LeaseTable, Lost, ManualClock, NotHeld, RenewError, Revoke, TickRate,
};

const BACK: i64 = -2_000_000;

#[test]
fn inv_18_what_was_reported_lost_stays_lost_for_a_thread_that_is_behind() {
    let (table, clock) = table();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    clock.advance(TERM);
    assert_eq!(lease.check(), Err(Lost::Expired));
    std::thread::scope(|s| {
        s.spawn(|| {
            let _skew = ManualClock::skew_this_thread(BACK);
            assert_eq!(lease.check(), Err(Lost::Expired));
            assert_eq!(lease.renew(TERM), Err(RenewError::Lost(Lost::Expired)));
            assert_eq!(lease.remaining(), Duration::ZERO);
            assert_eq!(table.inspect(&1), None);
            assert_eq!(table.revoke(&1, Revoke::Now), Err(NotHeld));
            assert_eq!(table.len(), 0);
            // Not reclaimable by this thread's clock, for the holder's other threads or itself.
            for asking in [1, 2] {
                let held = refusal(table.try_acquire(&1, holder(asking), TERM));
                assert_eq!(held.retry_after, 2 * SEC + TICK);
            }
        });
    });
    clock.advance_ticks(1);
    assert!(table.try_acquire(&1, holder(2), TERM).is_ok());
    assert!(matches!(lease.check(), Err(Lost::Taken { token: Some(t), .. }) if t > lease.token()));
}

#[test]
fn inv_18_a_renewal_refused_stays_refused_when_the_clock_steps_back() {
    let (table, clock) = table();
    let expired = table.try_acquire(&1, holder(1), TERM).unwrap();
    let grant = table.try_acquire(&2, holder(1), TERM).unwrap().into_grant();
    clock.advance(TERM + SEC);
    assert_eq!(expired.renew(TERM), Err(RenewError::Lost(Lost::Expired)));
    assert_eq!(table.check(grant), Err(Lost::Expired));
    clock.step_back(2 * SEC);
    assert_eq!(expired.check(), Err(Lost::Expired));
    assert_eq!(expired.renew(TERM), Err(RenewError::Lost(Lost::Expired)));
    assert_eq!(expired.release(), Err(Lost::Expired));
    assert_eq!(table.renew(grant, TERM), Err(RenewError::Lost(Lost::Expired)));
    assert_eq!(table.release(grant), Err(Lost::Expired));
    // Both gave up what nobody could revive: now they are free.
    for key in [1, 2] {
        assert!(table.try_acquire(&key, holder(2), TERM).is_ok());
    }
    assert_eq!((table.stats().lapses, table.stats().releases), (2, 2));
}

#[test]
fn inv_18_also_when_the_page_is_replaced_in_between() {
    let (table, clock) = table();
    let expired = table.try_acquire(&0, holder(1), TERM).unwrap();
    clock.advance(TERM);
    assert_eq!(expired.check(), Err(Lost::Expired));
    clock.step_back(2 * SEC);
    churn(&table, 1_000_000, 4 * SLOTS);
    assert_eq!(expired.check(), Err(Lost::Expired));
    assert_eq!(table.inspect(&0), None);
    let held = refusal(table.try_acquire(&0, holder(2), TERM));
    assert_eq!((held.token, held.retry_after), (expired.token(), 2 * SEC + TICK));
}

#[test]
fn inv_18_a_step_back_ends_no_lease_early() {
    let clock = ManualClock::new();
    let table = build(&clock, |s| s.shards(1).term_max(HOUR).retention(Duration::ZERO));
    clock.advance(100 * SEC);
    let long = table.try_acquire(&1_000_000, holder(1), HOUR).unwrap();
    for back in 1..60 {
        clock.step_back(SEC);
        let lease = table.try_acquire(&back, holder(1), TERM).unwrap();
        // Pages are replaced, with a lease in them that is further ahead than the longest term.
        churn(&table, 1_000 * back, 2 * SLOTS);
        // Longer if the page that it was granted in did not know the new time yet.
        assert!(lease.remaining() >= TERM, "{back} s back");
        assert!(long.remaining() >= HOUR);
        assert_eq!(lease.release(), Ok(()));
    }
}

#[test]
fn inv_18_a_clock_that_starts_again_from_zero_panics_nowhere() {
    for uptime in [DAY, 26 * DAY, 60 * DAY, 400 * DAY] {
        let (table, clock) = table();
        clock.advance(uptime);
        let held = table.try_acquire(&1_000_000, holder(1), TERM_MAX).unwrap();
        churn(&table, 0, SLOTS - 1);
        let vacant: Table = build(&clock, |setup| setup.shards(1));
        churn(&vacant, 0, SLOTS);
        clock.set(0);
        churn(&table, 1_000, 4 * SLOTS);
        churn(&vacant, 1_000, 4 * SLOTS);
        assert!(held.check().is_ok());
        let other = vacant.try_acquire(&5, holder(2), TERM).unwrap();
        clock.advance(TERM);
        // It may last longer, up to where the clock was.
        let _ = other.check();
        clock.advance(uptime + HOUR + TERM_MAX);
        assert_eq!(other.check(), Err(Lost::Expired));
        assert!(vacant.try_acquire(&5, holder(3), TERM).is_ok());
    }
}

#[test]
fn inv_18_a_clock_at_its_end_panics_nowhere() {
    let (table, clock) = table();
    let lease = table.try_acquire(&1, holder(1), TERM_MAX).unwrap();
    for end in [1 << 63, u64::MAX - 1, u64::MAX] {
        clock.set(end);
        churn(&table, end / 2, 4 * SLOTS);
        let other = table.try_acquire(&end, holder(2), TERM_MAX).unwrap();
        let _ = (lease.check(), other.renew(TERM_MAX), table.len(), table.inspect(&end));
        assert_eq!(other.release(), Ok(()));
    }
}

/// Tokens rise and nothing comes back under a clock that jumps both ways, by microseconds to weeks.
#[test]
fn inv_18_a_clock_that_jumps_at_random_revives_nothing() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (table, clock) = table();
        let mut newest = [0; 8];
        let mut leases = Vec::new();
        for step in 0..200 {
            let jump = 1 << rng.below(42);
            if rng.one_in(2) {
                clock.advance_ticks(jump);
            } else {
                clock.step_back_ticks(jump);
            }
            let key = rng.below(8) as usize;
            let term = Duration::from_micros(1 + rng.below(1 << 41));
            if let Ok(lease) =
                table.try_acquire_owned(&(key as u64), holder(1 + rng.below(3)), term)
            {
                assert!(lease.token().get() > newest[key], "seed {seed}");
                newest[key] = lease.token().get();
                leases.push((key, false, lease));
            }
            if rng.one_in(10) {
                churn(&table, 1000 * (step + 1), SLOTS);
            }
            for (key, lost, lease) in &mut leases {
                let is_lost = lease.check().is_err();
                assert!(is_lost || !*lost, "seed {seed}: a lost lease came back");
                assert!(is_lost || lease.token().get() == newest[*key], "seed {seed}: two leases");
                *lost = is_lost;
            }
        }
    }
}

/// A manual clock that counts its readings.
#[derive(Clone)]
struct Counting(ManualClock, Arc<AtomicU64>);

impl Clock for Counting {
    fn now(&self) -> u64 {
        self.1.fetch_add(1, Relaxed);
        self.0.now()
    }

    fn rate(&self) -> TickRate {
        self.0.rate()
    }
}

/// Takes `n` lapsed leases over after a pause, and returns how often the clock was read for it.
fn readings_to_take_over(n: u64, pause: Duration) -> u64 {
    let clock = Counting(ManualClock::new(), Arc::default());
    let table: LeaseTable<u64, _, _> = LeaseTable::builder().clock(clock.clone()).build().unwrap();
    for key in 0..n {
        std::mem::forget(table.try_acquire(&key, holder(1), TERM).unwrap());
    }
    clock.0.advance(pause);
    assert_eq!(table.len(), 0);
    let before = clock.1.load(Relaxed);
    for key in 0..n {
        std::mem::forget(table.try_acquire(&key, holder(2), TERM).unwrap());
    }
    let stats = table.stats();
    assert_eq!((stats.lapses, stats.grants, table.len() as u64), (n, 2 * n, n));
    clock.1.load(Relaxed) - before
}

#[test]
fn inv_19_after_a_year_each_lease_lapses_once_at_no_extra_cost() {
    let n = 5_000;
    let soon = readings_to_take_over(n, TERM + TICK);
    let after_a_year = readings_to_take_over(n, 365 * DAY);
    // Tiny stamps are used up all the time, which takes another look.
    let (most, most_then) =
        if cfg!(leasehold_tiny) { (3 * n, 6 * n) } else { (n + n / 100, 4 * n) };
    assert!((n..most).contains(&soon), "{soon} readings: one a grant, and more for a split");
    // Pages are too old by then, and their resources forgotten: two readings more for each at most.
    assert!(after_a_year <= most_then, "{after_a_year} readings");
}

#[test]
fn inv_19_a_holder_learns_once_and_for_all() {
    let (table, clock) = table();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    clock.advance(365 * DAY);
    assert_eq!(lease.check(), Err(Lost::Expired));
    // Whoever tries to renew finds the page too old; its replacement forgets what ended a year ago.
    assert!(matches!(lease.renew(TERM), Err(RenewError::Lost(Lost::Expired | Lost::Gone))));
    assert!(matches!(lease.release(), Err(Lost::Expired | Lost::Gone)));
    assert_eq!(table.stats().lapses, 1);
    churn(&table, 100, 4 * SLOTS);
    assert_eq!(table.stats().lapses, 1);
}

#[test]
fn inv_20_a_frozen_clock_stops_nothing() {
    let clock = ManualClock::starting_at(0);
    let table: Table = build(&clock, |setup| setup.shards(1).capacity_max(3 * SLOTS as usize));
    let mut newest = None;
    for round in 0..3 * STAMP_MAX.min(10_000) {
        let lease = table.try_acquire(&0, holder(1), TERM).unwrap();
        assert!(Some(lease.token()) > newest);
        newest = Some(lease.token());
        assert!(refusal(table.try_acquire(&0, holder(2), TERM)).retry_after > TERM);
        lease.renew(2 * TERM).unwrap();
        lease.renew(TERM).unwrap();
        lease.release().unwrap();
        table.try_acquire(&(1 + round), holder(1), TERM).unwrap().release().unwrap();
    }
    for key in 0..3 * SLOTS {
        std::mem::forget(table.try_acquire(&(key + 1_000_000), holder(1), TERM).unwrap());
    }
    let full = AcquireError::Full { capacity_max: 3 * SLOTS as usize };
    assert_eq!(table.try_acquire(&9, holder(1), TERM).err(), Some(full));
    assert_eq!(table.len() as u64, 3 * SLOTS);
    assert_eq!(clock.now(), 0);
}
