//! Leases that outlive their pages, and pages that outlive their range of ticks.
//!
//! - 11: a handle that was kept for years.
//! - 24: a table that starts near any boundary of its words behaves as one that starts an hour after
//!   zero; and one that runs for years as on its first day.
#![cfg(not(leasehold_loom))]

mod common;

use std::time::Duration;

use common::*;
use leasehold::{Lost, ManualClock, Revoke};

/// A few hundred random operations and their outcomes, in words.
fn trace(start: u64, seed: u64) -> Vec<String> {
    let clock = ManualClock::starting_at(start);
    let table: FixedTable = build_fixed(&clock, |setup| setup.shards(2));
    let mut rng = Rng::new(seed);
    let mut grants = Vec::new();
    let mut trace = Vec::new();
    for step in 0..300 {
        let magnitude = rng.below(42);
        let term = Duration::from_micros(rng.below(1 << magnitude));
        let key = rng.below(3 * SLOTS);
        let outcome = match rng.below(8) {
            0 => {
                clock.advance(term / 4);
                format!("{:?}", table.len())
            }
            1 => {
                churn(&table, 1000 * (step + 1), SLOTS / 2);
                format!("{:?}", table.resources())
            }
            2 => format!("{:?}", table.revoke(&key, Revoke::After(term / 2))),
            3 => format!("{:?}", table.inspect(&key)),
            4 | 5 if !grants.is_empty() => {
                let grant = *rng.pick(&grants);
                format!("{:?} {:?}", table.renew(grant, term), table.check(grant))
            }
            _ => {
                let outcome = table.try_acquire(&key, holder(1 + rng.below(3)), term);
                let told = format!("{outcome:?}");
                grants.extend(outcome.map(leasehold::Lease::into_grant));
                told
            }
        };
        trace.push(outcome);
    }
    trace
}

#[test]
fn inv_24_every_start_behaves_like_the_first_hour() {
    let near = |tick: u64| [tick.wrapping_sub(1), tick, tick + 1];
    let mut starts = vec![0, 1, 2, 3, 4, 5];
    // Retentions, steps of a page's top, terms, words; multiples of a word's range; the clock's end.
    for tick in [10_000_000, 1 << 20, 1 << 21, 1 << 22, 1 << 39, 1 << 40, 1 << 41, 1 << 42, 1 << 43]
    {
        starts.extend(near(tick));
    }
    starts.extend([3, 5, 1000, (1 << 21) - 1].into_iter().flat_map(|n| near(n << 42)));
    starts.extend(near(1 << 62));
    starts.extend([(1 << 63) - 1, (1 << 63) - (1 << 42), (1 << 63) - (1 << 41) + 1]);
    for seed in 0..3 {
        let expected = trace(ManualClock::START, seed);
        for &start in &starts {
            let actual = trace(start, seed);
            let differs = expected.iter().zip(&actual).position(|(a, b)| a != b);
            if let Some(step) = differs {
                panic!(
                    "seed {seed}, start {start}, step {step}: {} instead of {}",
                    actual[step], expected[step]
                );
            }
        }
    }
}

#[test]
fn inv_24_a_lease_of_weeks_lives_through_a_century_of_pages() {
    let clock = ManualClock::new();
    let table: FixedTable = build_fixed(&clock, |setup| setup.shards(1));
    let term = 20 * DAY;
    let lease = table.try_acquire(&0, holder(1), term).unwrap();
    let mut grant = table.try_acquire(&1, holder(1), term).unwrap().into_grant();
    for fortnight in 1..2600 {
        clock.advance(14 * DAY);
        assert_eq!(lease.remaining(), term - 14 * DAY);
        lease.renew(term).unwrap();
        table.renew(grant, term).unwrap();
        assert_eq!(lease.remaining(), term);
        assert!(refusal(table.try_acquire(&0, holder(2), term)).retry_after > term);
        if fortnight % 3 == 0 {
            replace_pages(&table, &clock, 1000 * fortnight);
            lease.renew(term).unwrap();
        }
        if fortnight % 50 == 0 {
            table.release(grant).unwrap();
            let next = table.try_acquire(&1, holder(2), term).unwrap().into_grant();
            assert!(next.token() > grant.token());
            assert!(table.check(grant).is_err());
            grant = next;
        }
    }
    // Each of the 866 times, at least four pages used up a good part of their range.
    let pages = table.memory_bytes() as u64 / (64 + 32 * SLOTS);
    assert!(pages < 1500, "{pages} pages: those that rested for a range are not used again");
}

#[test]
fn inv_24_short_leases_are_exact_at_every_age_of_a_page() {
    let (table, clock) = table();
    // Just before, at and beyond the end of what a word can hold, and years later.
    let mut ages: Vec<u64> = (0..=16).map(|eighth| eighth << 39).collect();
    ages.extend((1 << 42) - 20_000_000..(1 << 42) - 19_999_990);
    ages.extend((1 << 42) - 10..(1 << 42) + 10);
    ages.extend([1 << 43, 1 << 45, 1 << 50]);
    for (n, &age) in ages.iter().enumerate() {
        let (fresh, other_clock) = common::table();
        for (table, clock) in [(&table, &clock), (&fresh, &other_clock)] {
            clock.advance_ticks(age);
            let known = table.try_acquire(&0, holder(1), TERM).unwrap();
            let new = table.try_acquire(&(1 + n as u64), holder(1), TERM).unwrap();
            for lease in [known, new] {
                assert_eq!(lease.remaining(), TERM, "{age} ticks old");
                clock.advance(TERM - TICK);
                lease.renew(TERM).unwrap();
                clock.advance(TERM - TICK);
                assert_eq!(lease.remaining(), TICK);
                lease.renew(TERM).unwrap();
                clock.step_back(2 * (TERM - TICK));
            }
        }
    }
}

/// An idle page whose base is older than a word can express takes a key that it does not know.
#[test]
fn inv_24_an_old_page_takes_a_new_key() {
    for age in [50 * DAY, 51 * DAY, 60 * DAY, 365 * DAY, 10_000 * DAY] {
        let (table, clock) = table();
        let old = table.try_acquire(&1, holder(1), TERM).unwrap();
        clock.advance(age);
        let new = table.try_acquire(&2, holder(1), TERM).unwrap();
        assert_eq!(new.remaining(), TERM);
        let resource = table.resource(&3).unwrap();
        assert_eq!(resource.try_acquire(holder(1), TERM).unwrap().remaining(), TERM);
        assert!(old.check().is_err());
    }
}

#[test]
fn inv_24_what_an_old_page_held_stays_lost() {
    let (table, clock) = table();
    let lease = table.try_acquire(&1, holder(1), TERM_MAX).unwrap();
    let silent = table.try_acquire(&2, holder(1), TERM).unwrap();
    clock.advance(TERM_MAX);
    assert_eq!(lease.check(), Err(Lost::Expired));
    for _ in 0..10 {
        clock.advance(30 * DAY);
        replace_pages(&table, &clock, clock_number(&clock));
        assert!(matches!(lease.check(), Err(Lost::Expired | Lost::Gone)));
        assert!(matches!(silent.check(), Err(Lost::Expired | Lost::Gone)));
        assert_eq!(table.len(), 0);
    }
}

fn clock_number(clock: &ManualClock) -> u64 {
    1000 + elapsed(clock) / 1_000
}

/// Pages that rested for a whole range of ticks begin them again, and then words are equal to those of
/// years ago: only the identity tells an old handle that the lease is not its own.
#[test]
fn inv_11_a_handle_kept_for_years_fits_no_later_lease() {
    let (table, clock) = table();
    let mut kept = Vec::new();
    for round in 0..400 {
        clock.advance(60 * DAY);
        let lease = table.try_acquire_owned(&0, holder(1 + round), 20 * DAY).unwrap();
        for old in &kept {
            let old: &leasehold::OwnedLease<_, _, _> = old;
            assert_ne!(old.check(), Ok(old.token()), "{lease:?}");
            assert!(old.renew(DAY).is_err(), "{lease:?}");
        }
        if round % 150 == 149 {
            // Their releases hit nobody.
            kept.clear();
        }
        assert_eq!(lease.remaining(), 20 * DAY);
        kept.push(lease);
        // Time for the pages that were replaced to come back.
        (0..300).for_each(|_| assert!(table.inspect(&0).is_some()));
    }
}
