//! A clock that jumps, and who may take over then.
//!
//! - 1, 2: whoever is granted in the grace or after it is alone, with a larger token.
//! - 15: what waits for its own holder is not forgotten to make room.
//! - 18: a jump and a step back.
//! - 23: with no sweeper at all, a lapsed resource is granted at once.
#![cfg(not(leasehold_loom))]

mod common;

use std::time::Duration;

use common::ends::{received, sweep_all};
use common::*;
use leasehold::{AcquireError, Causes, EndCause, GapPolicy, Lost, ManualClock, NotHeld, Revoke};

const THRESHOLD: Duration = SEC;
const GRACE: Duration = Duration::from_secs(5);

/// A table that was swept once, and held by holder 1: 20 resources, for ten seconds.
fn held(clock: &ManualClock, policy: GapPolicy) -> Table {
    let table =
        build(clock, |setup| setup.shards(4).events(Causes::ALL).clock_gap(THRESHOLD, policy));
    hold_all(&table);
    sweep_all(&table, 100);
    table
}

fn hold_all(table: &Table) {
    (0..20).for_each(|key| std::mem::forget(table.try_acquire(&key, holder(1), TERM).unwrap()));
}

fn gap(table: &Table) -> Option<(Duration, u64)> {
    table.clock_gap().map(|gap| (gap.overdue, gap.count))
}

#[test]
fn by_default_all_lapse_at_once_and_anybody_may_take_over() {
    for policy in [GapPolicy::Lapse, GapPolicy::Grace(Duration::ZERO), GapPolicy::default()] {
        let clock = ManualClock::new();
        let table = held(&clock, policy);
        let mut ends = table.subscribe(100).unwrap();
        clock.advance(TERM + HOUR);
        assert!(table.try_acquire(&0, holder(2), TERM).is_ok(), "at once");
        let done = sweep_all(&table, 100);
        assert_eq!(done.lapsed, 19);
        assert_eq!(done.clock_gap.map(|gap| gap.overdue), Some(HOUR - TICK));
        assert_eq!(gap(&table), Some((HOUR - TICK, 1)), "one jump, however much lapsed");
        let lapsed = received(&mut ends).into_iter().filter(|e| e.cause == EndCause::Lapsed);
        assert!(lapsed.clone().all(|ended| ended.held_for == TERM && ended.late == HOUR));
        assert_eq!(lapsed.count(), 20);
    }
}

#[test]
fn a_sweep_that_is_late_by_the_threshold_is_no_jump() {
    for (late, jumped) in
        [(THRESHOLD, false), (THRESHOLD + TICK, false), (THRESHOLD + 2 * TICK, true)]
    {
        let clock = ManualClock::new();
        let table = held(&clock, GapPolicy::Lapse);
        // It is due a tick after the deadline.
        clock.advance(TERM + late);
        let done = sweep_all(&table, 100);
        assert_eq!((done.clock_gap.is_some(), gap(&table).is_some()), (jumped, jumped), "{late:?}");
    }
}

/// Whether the jump is seen by a sweep, or by the first who asks.
fn after_a_jump(seen_by_sweep: bool) -> (Table, ManualClock) {
    let clock = ManualClock::new();
    let table = held(&clock, GapPolicy::Grace(GRACE));
    clock.advance(HOUR);
    if seen_by_sweep {
        assert_eq!(sweep_all(&table, 100).lapsed, 0);
    } else {
        assert!(table.try_acquire(&19, holder(9), TERM).is_err());
    }
    assert_eq!(gap(&table).map(|gap| gap.1), Some(1));
    (table, clock)
}

#[test]
fn inv_02_in_the_grace_only_its_own_holder_is_granted_and_anew() {
    for seen_by_sweep in [false, true] {
        let (table, clock) = after_a_jump(seen_by_sweep);
        let mut ends = table.subscribe(100).unwrap();
        let resource = table.resource(&3).unwrap();
        for passed in [0, 1, 4_999_999] {
            clock.advance_ticks(passed);
            for refused in [
                refusal(table.try_acquire(&2, holder(2), TERM)),
                refusal(resource.try_acquire(holder(2), TERM)),
            ] {
                assert_eq!(refused.holder, Some(holder(1)));
                // A tick later, as after a deadline.
                let left = HOUR + GRACE + TICK - elapsed(&clock) as u32 * TICK;
                assert_eq!(refused.retry_after, left.min(GRACE + TICK), "{passed}");
            }
            sweep_all(&table, 100);
            clock.set(ManualClock::START + HOUR.as_micros() as u64);
        }
        assert!(table.inspect(&2).is_none(), "it is over, all the same");
        assert_eq!(table.revoke(&2, Revoke::Now), Err(NotHeld));
        let old = refusal(table.try_acquire(&2, holder(2), TERM)).token;
        let anew = table.try_acquire(&2, holder(1), TERM).unwrap();
        assert!(anew.token() > old);
        let ended = received(&mut ends);
        assert_eq!((ended.len(), ended[0].token, ended[0].cause), (1, old, EndCause::Lapsed));
        assert_eq!((ended[0].held_for, ended[0].late), (TERM, HOUR - TERM));
        assert_eq!(refusal(table.try_acquire(&2, holder(2), TERM)).token, anew.token());
    }
}

#[test]
fn the_grace_ends_to_the_tick_and_the_sweep_comes_back_for_it() {
    for seen_by_sweep in [false, true] {
        let (table, clock) = after_a_jump(seen_by_sweep);
        let mut ends = table.subscribe(100).unwrap();
        let next_in = sweep_all(&table, 100).next_in.unwrap();
        assert!((GRACE..=GRACE + 2 * TICK).contains(&next_in), "{next_in:?}");
        clock.advance(GRACE);
        assert_eq!(refusal(table.try_acquire(&2, holder(2), TERM)).retry_after, TICK);
        assert_eq!(sweep_all(&table, 100).lapsed, 0);
        clock.advance(TICK);
        assert!(table.try_acquire(&2, holder(2), TERM).is_ok(), "the hint was exact");
        clock.advance(TICK);
        assert_eq!(sweep_all(&table, 100).lapsed, 19);
        let lapsed = received(&mut ends).into_iter().filter(|e| e.cause == EndCause::Lapsed);
        assert_eq!(lapsed.count(), 20);
        assert_eq!(gap(&table).map(|gap| gap.1), Some(1));
    }
}

#[test]
fn inv_15_replaced_pages_keep_what_waits_for_its_holder() {
    let (table, clock) = after_a_jump(true);
    let mut ends = table.subscribe(100_000).unwrap();
    let bytes = table.memory_bytes();
    for round in 0..4 {
        clock.advance(SEC + SEC / 5);
        churn(&table, 1000 + round * 1000, 8 * SLOTS);
        let _ = sweep_all(&table, 100);
        assert!(table.try_acquire(&5, holder(2), TERM).is_err(), "{round}");
    }
    assert!(table.memory_bytes() > 2 * bytes, "no page was split");
    for key in 0..10 {
        let refused = refusal(table.try_acquire(&key, holder(2), TERM));
        assert_eq!(refused.holder, Some(holder(1)));
        assert!(table.try_acquire(&key, holder(1), TERM).unwrap().token() > refused.token);
    }
    clock.advance(SEC / 2);
    sweep_all(&table, 100);
    let lapsed: Vec<_> =
        received(&mut ends).into_iter().filter(|e| e.cause == EndCause::Lapsed).collect();
    assert_eq!(lapsed.len(), 20, "once each");
    assert!(lapsed.iter().all(|ended| ended.holder == Some(holder(1))));
}

#[test]
fn inv_15_a_full_table_makes_no_room_of_what_waits_for_its_holder() {
    let clock = ManualClock::new();
    let table: Table = build(&clock, |setup| {
        setup.shards(1).capacity_max(20).clock_gap(THRESHOLD, GapPolicy::Grace(GRACE))
    });
    hold_all(&table);
    sweep_all(&table, 100);
    clock.advance(HOUR);
    sweep_all(&table, 100);
    let refused = table.try_acquire(&100, holder(2), TERM);
    assert_eq!(refused.err(), Some(AcquireError::Full { capacity_max: 20 }));
    drop(table.try_acquire(&7, holder(1), TERM).unwrap());
    assert!(table.try_acquire(&100, holder(2), TERM).is_ok(), "7 is idle now");
    clock.advance(GRACE + TICK);
    assert!((101..115).all(|key| table.try_acquire(&key, holder(2), TERM).is_ok()));
}

#[test]
fn inv_23_with_nobody_who_sweeps_there_is_no_jump() {
    let clock = ManualClock::new();
    let table: Table = build(&clock, |setup| setup.clock_gap(THRESHOLD, GapPolicy::Grace(GRACE)));
    hold_all(&table);
    for round in 2..10 {
        clock.advance(DAY);
        for key in 0..20 {
            std::mem::forget(table.try_acquire(&key, holder(round), TERM).expect("at once"));
        }
    }
    assert_eq!(gap(&table), None);
}

#[test]
fn inv_18_a_jump_and_a_step_back() {
    let (table, clock) = after_a_jump(true);
    let lease = table.try_acquire(&0, holder(1), TERM).unwrap();
    clock.step_back(HOUR - SEC);
    // As if it had not been: what was not reported lost is live again.
    assert!(table.inspect(&2).is_some() && lease.check().is_ok());
    assert!(table.try_acquire(&2, holder(2), TERM).is_err());
    sweep_all(&table, 100);
    clock.advance(TERM - SEC + TICK);
    assert!(table.try_acquire(&2, holder(2), TERM).is_ok(), "the grace was undone, too");
    // All but that, and the one that was granted in the jump.
    assert_eq!(sweep_all(&table, 100).lapsed, 18);
}

#[test]
fn inv_18_a_jump_after_a_step_back_is_seen() {
    let (table, clock) = after_a_jump(true);
    clock.step_back(HOUR - SEC);
    sweep_all(&table, 100);
    clock.advance(HOUR / 2);
    let done = sweep_all(&table, 100);
    assert_eq!(done.clock_gap.map(|gap| gap.count), Some(2));
    assert!(table.try_acquire(&2, holder(2), TERM).is_err(), "its grace counts from there");
    assert!(table.try_acquire(&2, holder(1), TERM).is_ok());
}

#[test]
fn jumps_are_counted_and_each_has_its_grace() {
    let clock = ManualClock::new();
    let table = held(&clock, GapPolicy::Grace(GRACE));
    for count in 1..=5 {
        clock.advance(HOUR);
        assert_eq!(sweep_all(&table, 100).clock_gap.map(|gap| gap.count), Some(count));
        let (overdue, counted) = gap(&table).unwrap();
        assert!((HOUR - TERM - TICK..HOUR).contains(&overdue) && counted == count, "{overdue:?}");
        assert!((0..20).all(|key| table.try_acquire(&key, holder(2), TERM).is_err()));
        hold_all(&table);
        assert_eq!(sweep_all(&table, 100).lapsed, 0);
    }
    assert_eq!(table.stats().lapses, 100);
    // A second jump within the grace of the first: it counts from the second.
    clock.advance(HOUR);
    sweep_all(&table, 100);
    hold_all(&table);
    clock.advance(TERM + 2 * SEC);
    sweep_all(&table, 100);
    let refused = refusal(table.try_acquire(&2, holder(2), TERM));
    assert_eq!((refused.retry_after, gap(&table).map(|gap| gap.1)), (GRACE + TICK, Some(7)));
}

#[test]
fn who_was_told_that_it_is_lost_is_granted_anew_as_well() {
    let clock = ManualClock::new();
    let table: Table = build(&clock, |setup| setup.clock_gap(THRESHOLD, GapPolicy::Grace(GRACE)));
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    sweep_all(&table, 100);
    clock.advance(HOUR);
    assert_eq!(lease.check(), Err(Lost::Expired));
    sweep_all(&table, 100);
    assert!(table.try_acquire(&1, holder(2), TERM).is_err());
    let anew = table.try_acquire(&1, holder(1), TERM).unwrap();
    assert!(anew.token() > lease.token());
    drop(lease);
    assert!(anew.check().is_ok());
}

/// Threads read the clock at different times, and clocks differ between them.
#[test]
fn whoever_read_the_clock_just_before_the_jump_was_seen_waits_as_well() {
    let (table, _clock) = after_a_jump(true);
    for behind in [1, 1000, 999_999] {
        let _skew = ManualClock::skew_this_thread(-behind);
        let refused = refusal(table.try_acquire(&2, holder(2), TERM));
        assert_eq!(refused.retry_after, GRACE + TICK + behind as u32 * TICK);
        assert_eq!(sweep_all(&table, 100).lapsed, 0);
    }
    assert!(table.try_acquire(&2, holder(1), TERM).is_ok());
}

/// What is told of a lease whose page was replaced while it waited for its holder.
#[test]
fn a_lease_that_waited_in_a_replaced_page_has_its_own_times() {
    let (table, clock) = after_a_jump(true);
    let mut ends = table.subscribe(100_000).unwrap();
    clock.advance(2 * SEC);
    churn(&table, 1000, 20 * SLOTS);
    // In time: what the churn left idle would be overdue else, and look like another jump.
    for _ in 0..GRACE.as_secs() * 2 {
        sweep_all(&table, 100);
        clock.advance(SEC / 2);
    }
    let lapsed = received(&mut ends).into_iter().filter(|e| e.cause == EndCause::Lapsed);
    let times: Vec<_> = lapsed.map(|ended| (ended.held_for, ended.late)).collect();
    assert_eq!(times.len(), 20);
    for (held_for, late) in times {
        assert_eq!(held_for, TERM);
        let waited = HOUR + GRACE - TERM;
        assert!((waited..waited + SEC).contains(&late), "{late:?}");
    }
}

#[test]
fn a_lease_that_waited_in_a_replaced_page_is_no_new_jump() {
    let clock = ManualClock::new();
    let table: Table = build(&clock, |setup| {
        setup.shards(4).retention(SEC).clock_gap(THRESHOLD, GapPolicy::Grace(GRACE))
    });
    hold_all(&table);
    sweep_all(&table, 100);
    clock.advance(HOUR);
    sweep_all(&table, 100);
    clock.advance(2 * SEC);
    churn(&table, 1000, 20 * SLOTS);
    for _ in 0..8 {
        sweep_all(&table, 100);
        clock.advance(SEC / 2);
    }
    sweep_all(&table, 100);
    assert_eq!((table.stats().lapses, gap(&table).map(|gap| gap.1)), (20, Some(1)));
}
