//! Sweeps by hand, on a clock that a test moves.
//!
//! - 18: a clock that steps back, for all or for the one who sweeps.
//! - 19: a jump of a year: each lease lapses once, and the cost is that of what lapsed.
//! - 20: a frozen clock: there is nothing to do.
//! - 22: a lapse is told of a tick after the deadline, if sweeps come when they say.
//! - 24: starting near a boundary of the wheel, or of the deadline field, is as starting elsewhere.
//! - 25: a very long lease beside short ones does not delay them.
//! - 27: driven at odd intervals, or after one huge jump, a sweep misses nothing.
//! - 28: a shorter term after a longer one.
#![cfg(not(leasehold_loom))]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::ends::{received, sweep_all};
use common::*;
use leasehold::{Causes, EndCause, ManualClock, Revoke, Subscription};

const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn micros(ticks: u64) -> Duration {
    Duration::from_micros(ticks)
}

/// A table that tells of lapses, and whoever listens.
fn told(clock: &ManualClock, shards: usize) -> (FixedTable, Subscription<u64>) {
    let lapses = Causes::of(EndCause::Lapsed);
    let table = build_fixed(clock, |setup| setup.shards(shards).events(lapses).retention(HOUR));
    let ends = table.subscribe(100_000).unwrap();
    (table, ends)
}

fn hold<S: std::hash::BuildHasher + Send + Sync + 'static>(
    table: &leasehold::LeaseTable<u64, S, ManualClock>,
    key: u64,
    term: Duration,
) {
    std::mem::forget(table.try_acquire(&key, holder(1), term).expect("nobody holds it"));
}

/// Grants at random, sleeps as long as the sweeps say, and compares with a plain list of deadlines.
fn drive_by_next_in(seed: u64, shards: usize) {
    let mut rng = Rng::new(seed);
    let clock = ManualClock::new();
    let (table, mut ends) = told(&clock, shards);
    let mut deadlines = BTreeMap::new();
    let mut next_key = 0;
    while next_key < 600 || !deadlines.is_empty() {
        for _ in 0..rng.below(30).min(600 - next_key) {
            let ticks = rng.of_bits(30);
            hold(&table, next_key, micros(ticks));
            deadlines.insert(next_key, elapsed(&clock) + ticks);
            next_key += 1;
        }
        let swept = sweep_all(&table, 1 + rng.below(5) as usize);
        for ended in received(&mut ends) {
            let deadline = deadlines.remove(&ended.key).expect("it lapses once");
            assert_eq!(elapsed(&clock), deadline + 1, "{ended:?}");
            assert_eq!((ended.late, ended.cause), (TICK, EndCause::Lapsed));
        }
        let Some(next_in) = swept.next_in else {
            assert!(deadlines.is_empty(), "forgotten: {deadlines:?}");
            continue;
        };
        assert!(next_in > Duration::ZERO, "there was no more to do");
        clock.advance(next_in);
    }
    assert_eq!(table.stats().lapses, 600);
}

#[test]
fn inv_22_who_sleeps_as_long_as_a_sweep_says_is_a_tick_late_at_most() {
    for seed in 0..if full() { 2000 } else { 12 } {
        drive_by_next_in(seed, 1);
        drive_by_next_in(seed, 16);
    }
}

#[test]
fn inv_27_at_odd_intervals_nothing_is_missed() {
    let mut rng = Rng::new(27);
    for shards in [1, 8] {
        let clock = ManualClock::new();
        let (table, mut ends) = told(&clock, shards);
        let mut deadlines = BTreeMap::new();
        for key in 0..3000_u64 {
            let ticks = rng.of_bits(32);
            hold(&table, key, micros(ticks));
            deadlines.insert(key, elapsed(&clock) + ticks);
            if rng.one_in(5) {
                clock.advance_ticks(rng.of_bits(28));
                sweep_all(&table, 3);
                let now = elapsed(&clock);
                for ended in received(&mut ends) {
                    let deadline = deadlines.remove(&ended.key).expect("it lapses once");
                    assert_eq!(ended.late, micros(now - deadline));
                }
                let missed = deadlines.values().filter(|&&deadline| deadline < now).count();
                assert_eq!(missed, 0);
            }
        }
        clock.advance(DAY);
        assert_eq!(sweep_all(&table, 7).lapsed as usize, deadlines.len());
    }
}

#[test]
fn inv_19_a_jump_of_a_year_costs_what_lapsed() {
    let clock = ManualClock::new();
    let (table, mut ends) = told(&clock, 4);
    for key in 0..1000 {
        hold(&table, key, micros(1 + key * 1000));
    }
    let pages = sweep_all(&table, 10_000).pages;
    clock.advance(YEAR);
    let swept = sweep_all(&table, 10_000);
    assert_eq!((swept.lapsed, table.stats().lapses), (1000, 1000));
    assert!(swept.pages < 1000 && pages < 1000, "{} pages, for a thousand leases", swept.pages);
    let mut keys: Vec<u64> = received(&mut ends).into_iter().map(|ended| ended.key).collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..1000), "each once");
    clock.advance(YEAR);
    assert_eq!(sweep_all(&table, 10_000).lapsed, 0);
}

#[test]
fn inv_20_a_frozen_clock_gives_nothing_to_do() {
    let clock = ManualClock::new();
    let (table, _ends) = told(&clock, 4);
    for key in 0..100 {
        hold(&table, key, SEC);
    }
    sweep_all(&table, 100);
    for _ in 0..1000 {
        let swept = table.sweep(100).unwrap();
        assert_eq!((swept.pages, swept.lapsed, swept.more), (0, 0, false));
        assert_eq!(swept.next_in, Some(SEC + TICK));
    }
}

#[test]
fn inv_18_a_clock_that_steps_back_ends_nothing_early_and_nothing_late() {
    for back in [2 * SEC, DAY] {
        let clock = ManualClock::new();
        clock.advance(2 * DAY);
        let (table, mut ends) = told(&clock, 1);
        hold(&table, 0, 10 * SEC);
        clock.advance(SEC);
        sweep_all(&table, 10);
        clock.step_back(back);
        sweep_all(&table, 10);
        assert!(table.inspect(&0).is_some());
        // Granted by the clock as it is now: after its term it is over, and somebody is told.
        hold(&table, 1, SEC);
        let left = table.inspect(&1).unwrap().remaining;
        sweep_all(&table, 10);
        clock.advance(left + TICK);
        if back < HOUR {
            assert_eq!(left, SEC);
            assert_eq!(sweep_all(&table, 10).lapsed, 1);
            assert_eq!(received(&mut ends)[0].late, TICK);
        }
        clock.advance(2 * DAY);
        sweep_all(&table, 10);
        assert_eq!(table.stats().lapses, 2);
    }
}

/// The sweeper's clock was ahead for one sweep; or it was days ahead, and was set right.
#[test]
fn inv_18_one_wrong_reading_does_not_stop_the_sweep() {
    for ahead in [2 * SEC, 10 * DAY] {
        let clock = ManualClock::new();
        let (table, mut ends) = told(&clock, 4);
        hold(&table, 1000, TERM_MAX);
        {
            let _skew = ManualClock::skew_this_thread(ahead.as_micros() as i64);
            sweep_all(&table, 10);
        }
        for key in 0..20 {
            hold(&table, key, SEC + key as u32 * TICK);
        }
        let mut lapsed = 0;
        for _ in 0..30 {
            let next_in = sweep_all(&table, 10).next_in.expect("leases are held");
            lapsed += received(&mut ends).iter().filter(|ended| ended.late == TICK).count();
            if next_in > HOUR {
                break;
            }
            clock.advance(next_in);
        }
        assert_eq!(lapsed, 20, "after a reading that was {ahead:?} ahead");
    }
}

#[test]
fn inv_25_terms_of_a_tick_beside_the_longest() {
    let clock = ManualClock::new();
    let (table, mut ends) = told(&clock, 1);
    for key in 0..SLOTS / 2 {
        hold(&table, 1_000_000 + key, TERM_MAX);
    }
    for round in 0..500 {
        hold(&table, round % 2, TICK);
        assert_eq!(sweep_all(&table, 10).next_in, Some(2 * TICK));
        clock.advance(2 * TICK);
        assert_eq!(sweep_all(&table, 10).lapsed, 1);
        assert_eq!(received(&mut ends)[0].late, TICK);
    }
    let next_in = sweep_all(&table, 10).next_in.unwrap();
    assert!(next_in <= TERM_MAX + TICK, "{next_in:?}");
    clock.advance(TERM_MAX + TICK);
    assert_eq!(sweep_all(&table, 10).lapsed, SLOTS / 2);
}

#[test]
fn inv_28_a_shorter_term_after_a_longer_one_comes_first() {
    for shards in [1, 16] {
        let clock = ManualClock::new();
        let (table, mut ends) = told(&clock, shards);
        for (key, term) in (0..).zip([TERM_MAX, DAY, HOUR, 60 * SEC, SEC, TICK]) {
            hold(&table, key, term);
            // Two retentions, if that is earlier: the resource might be idle by then.
            let due = (term + TICK).min(2 * HOUR + TICK);
            assert_eq!(sweep_all(&table, 10).next_in, Some(due), "{term:?}");
        }
        for key in (0..6).rev() {
            clock.advance(sweep_all(&table, 10).next_in.unwrap());
            while sweep_all(&table, 10).lapsed == 0 {
                clock.advance(table.sweep(10).unwrap().next_in.unwrap());
            }
            let ended = received(&mut ends);
            assert_eq!((ended.len(), ended[0].key, ended[0].late), (1, key, TICK));
        }
    }
}

#[test]
fn renewed_leases_never_lapse_and_cost_a_visit_a_term() {
    let clock = ManualClock::new();
    let (table, mut ends) = told(&clock, 1);
    let leases: Vec<_> =
        (0..SLOTS / 2).map(|key| table.try_acquire(&key, holder(1), SEC).unwrap()).collect();
    let mut pages = 0;
    for _ in 0..1000 {
        clock.advance(SEC / 10);
        leases.iter().for_each(|lease| lease.renew(SEC).unwrap());
        pages += sweep_all(&table, 10).pages;
    }
    assert_eq!((received(&mut ends).len(), table.stats().lapses), (0, 0));
    assert!((90..=150).contains(&pages), "{pages} visits in a hundred terms");
    std::mem::forget(leases);
    clock.advance(SEC + TICK);
    assert_eq!(sweep_all(&table, 10).lapsed, SLOTS / 2);
}

#[test]
fn the_deadline_of_a_graceful_revocation_is_seen_to() {
    let clock = ManualClock::new();
    let (table, mut ends) = told(&clock, 4);
    for key in 0..20 {
        hold(&table, key, DAY);
    }
    sweep_all(&table, 100);
    for key in 0..20 {
        table.revoke(&key, Revoke::After(SEC + key as u32 * SEC)).unwrap();
    }
    table.revoke(&19, Revoke::After(Duration::ZERO)).unwrap();
    let mut keys = Vec::new();
    while let Some(next_in) = sweep_all(&table, 100).next_in.filter(|next| *next < HOUR) {
        clock.advance(next_in);
        sweep_all(&table, 100);
        keys.extend(received(&mut ends).into_iter().map(|ended| (ended.key, ended.late)));
    }
    let expected = [19].into_iter().chain(0..19).map(|key| (key, TICK));
    assert!(keys.iter().copied().eq(expected), "{keys:?}");
}

/// What lapses when, by sweeps that sleep as long as they are told.
fn story(start: u64, shards: usize) -> Vec<(u64, u64, Duration, Duration)> {
    let clock = ManualClock::starting_at(start);
    let mut rng = Rng::new(24);
    let lapses = Causes::of(EndCause::Lapsed);
    let table: FixedTable =
        build_fixed(&clock, |setup| setup.shards(shards).events(lapses).retention(SEC));
    let mut ends = table.subscribe(1000).unwrap();
    let mut told = Vec::new();
    for key in 0..300 {
        hold(&table, key % 200, micros(rng.of_bits(25)));
        for _ in 0..20 {
            let swept = sweep_all(&table, 2);
            let now = leasehold::Clock::now(&clock) - start;
            told.extend(received(&mut ends).into_iter().map(|e| (now, e.key, e.held_for, e.late)));
            // On to when it is over, unless it is the last one's.
            match swept.next_in {
                Some(next_in) if table.inspect(&((key + 1) % 200)).is_some() => {
                    clock.advance(next_in);
                }
                _ => break,
            }
        }
        if table.inspect(&((key + 1) % 200)).is_some() {
            clock.advance(table.inspect(&((key + 1) % 200)).unwrap().remaining + TICK);
        }
        clock.advance_ticks(u64::from(rng.one_in(2)));
    }
    clock.advance(DAY);
    sweep_all(&table, 2);
    told.extend(received(&mut ends).into_iter().map(|e| (0, e.key, e.held_for, e.late)));
    told
}

#[test]
fn inv_24_where_the_clock_starts_makes_no_difference() {
    let expected = story(ManualClock::START, 2);
    assert!(expected.len() > 100, "{}", expected.len());
    let boundaries = [6, 12, 18, 24, 30, 36, 41, 42, 43, 48, 60].map(|bits| 1_u64 << bits);
    let starts =
        boundaries.into_iter().flat_map(|at| [at - 20_000_000.min(at), at - 1, at, at + 1]);
    for start in [0, 1, 2, 3, 4, 5].into_iter().chain(starts) {
        let found = story(start, 2);
        let differs = expected.iter().zip(&found).find(|(expected, found)| expected != found);
        assert_eq!((differs, found.len()), (None, expected.len()), "starting at {start}");
    }
}
