//! When a lease ends, on a clock that a test moves.
//!
//! - 4: a renewal at or after the deadline is refused, though nobody took the resource.
//! - 5: one rule for the boundary, in every operation: valid before the deadline, reclaimable after it.
//! - 7: a renewal never shortens.
//! - 16: the term counts from the grant, however long the call took.
//! - 21: extreme terms have a defined result.
//! - 22: no lease ends early.
//! - 23: a lapsed resource is granted at once, without any sweep.
//! - 25: a long lease does not delay short ones.
//! - 26: a holder never sees more time than the table.
#![cfg(not(leasehold_loom))]

mod common;

use std::time::Duration;

use common::keys::{Census, Odd, Op};
use common::*;
use leasehold::{
    AcquireError, Clock, LeaseTable, Lost, ManualClock, NotHeld, RenewError, Revoke, Status,
    TickRate,
};

#[test]
fn inv_04_a_renewal_at_the_deadline_is_refused() {
    for late in [0, 1, 1_000_000] {
        let (table, clock) = table();
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        let owned = table.try_acquire_owned(&2, holder(1), TERM).unwrap();
        let grant = table.try_acquire(&3, holder(1), TERM).unwrap().into_grant();
        clock.advance(TERM);
        clock.advance_ticks(late);
        assert_eq!(lease.renew(TERM), Err(RenewError::Lost(Lost::Expired)));
        assert_eq!(owned.renew(TERM), Err(RenewError::Lost(Lost::Expired)));
        assert_eq!(table.renew(grant, TERM), Err(RenewError::Lost(Lost::Expired)));
        assert_eq!(lease.check(), Err(Lost::Expired));
        assert_eq!(table.stats().renewals, 0);
    }
}

#[test]
fn inv_04_a_renewal_one_tick_before_is_granted() {
    let (table, clock) = table();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let grant = table.try_acquire(&2, holder(1), TERM).unwrap().into_grant();
    for _ in 0..100 {
        clock.advance(TERM - TICK);
        lease.renew(TERM).unwrap();
        table.renew(grant, TERM).unwrap();
        assert_eq!(lease.remaining(), TERM);
    }
}

/// What each operation answers at a distance from the deadline, each asked of a table of its own.
fn at_boundary(ticks_after_deadline: i64) -> [bool; 9] {
    let at = |ask: &dyn Fn(&Table, leasehold::Lease<'_, u64, _, _>) -> bool| {
        let (table, clock) = table();
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        clock.set(clock.now() + 10_000_000);
        clock.set(clock.now().checked_add_signed(ticks_after_deadline).unwrap());
        ask(&table, lease)
    };
    [
        at(&|_, lease| lease.check().is_ok()),
        at(&|_, lease| matches!(lease.status(), Status::Held { .. })),
        at(&|_, lease| lease.remaining() > Duration::ZERO),
        at(&|_, lease| lease.renew(TERM).is_ok()),
        at(&|table, _lease| table.inspect(&1).is_some()),
        at(&|table, _lease| table.revoke(&1, Revoke::Now) != Err(NotHeld)),
        at(&|table, _lease| table.iter().count() == 1 && table.len() == 1),
        at(&|table, lease| table.check(lease.into_grant()).is_ok()),
        at(&|table, _lease| table.try_acquire(&1, holder(2), TERM).is_err()),
    ]
}

#[test]
fn inv_05_every_operation_has_the_same_boundary() {
    assert_eq!(at_boundary(-1), [true; 9]);
    // Neither valid nor reclaimable: only the takeover is still refused.
    let mut neither = [false; 9];
    neither[8] = true;
    assert_eq!(at_boundary(0), neither);
    assert_eq!(at_boundary(1), [false; 9]);
}

#[test]
fn inv_05_a_resolved_resource_has_the_same_boundary() {
    let (table, clock) = table();
    let resource = table.resource(&1).unwrap();
    let lease = resource.try_acquire(holder(1), TERM).unwrap();
    clock.advance(TERM - TICK);
    assert!(resource.inspect().is_some());
    assert_eq!(refusal(resource.try_acquire(holder(2), TERM)).retry_after, 2 * TICK);
    clock.advance_ticks(1);
    assert!(resource.inspect().is_none());
    assert_eq!(resource.revoke(Revoke::Now), Err(NotHeld));
    assert_eq!(refusal(resource.try_acquire(holder(2), TERM)).retry_after, TICK);
    clock.advance_ticks(1);
    let other = resource.try_acquire_owned(holder(2), TERM).unwrap();
    assert!(other.token() > lease.token());
}

#[test]
fn inv_07_a_renewal_never_shortens() {
    let (table, clock) = table();
    let lease = table.try_acquire(&1, holder(1), HOUR).unwrap();
    let mut rng = Rng::new(7);
    for _ in 0..10_000 {
        let before = lease.remaining();
        let term = Duration::from_micros(1 + rng.below(2 * 3_600_000_000));
        lease.renew(term).unwrap();
        assert_eq!(lease.remaining(), before.max(term));
        assert_eq!(table.inspect(&1).unwrap().remaining, before.max(term));
        clock.advance_ticks(rng.below(before.as_micros() as u64));
    }
    assert_eq!(table.stats().renewals, 10_000, "one that moves nothing counts too");
}

/// A key that takes an hour for `op`.
fn slow_table(op: Op, clock: &ManualClock) -> (Table<Odd>, std::sync::Arc<Census>) {
    let census = Census::new();
    let table = build(clock, |setup| setup.shards(1));
    let slow = clock.clone();
    census.plan(move |happens, _| {
        if happens == op {
            slow.advance(HOUR);
        }
    });
    (table, census)
}

fn assert_new_leases(op: Op) {
    let clock = ManualClock::new();
    let (table, census) = slow_table(op, &clock);
    for round in 0..3 {
        // The first round inserts, the others find and compare.
        let key = Odd::new(1, &census);
        let lease = table.try_acquire(&key, holder(1), TERM).unwrap();
        assert_eq!(lease.remaining(), TERM, "{op:?} in round {round}");
    }
    let resource = table.resource(&Odd::new(2, &census)).unwrap();
    assert_eq!(resource.try_acquire(holder(1), TERM).unwrap().remaining(), TERM);
}

#[test]
fn inv_16_a_lease_is_new_however_slow_its_key_is() {
    assert_new_leases(Op::Hash);
    assert_new_leases(Op::Clone);
}

#[test]
fn inv_16_a_lease_is_new_however_slowly_keys_compare() {
    assert_new_leases(Op::Eq);
}

#[test]
fn inv_16_a_lease_is_new_though_its_page_was_replaced_first() {
    let clock = ManualClock::new();
    let (table, census) = slow_table(Op::Clone, &clock);
    for id in 0..3 * SLOTS {
        let key = Odd::new(id, &census);
        let lease = table.try_acquire(&key, holder(1), TERM_MAX).unwrap();
        assert_eq!(lease.remaining(), TERM_MAX, "key {id}");
        std::mem::forget(lease);
    }
}

#[test]
fn inv_21_extreme_terms_have_a_defined_result() {
    let (table, clock) = table();
    let held = table.try_acquire(&0, holder(1), TERM).unwrap();
    for short in [Duration::ZERO, Duration::from_nanos(1), Duration::from_nanos(999)] {
        let refused = table.try_acquire(&1, holder(1), short);
        assert_eq!(refused.err(), Some(AcquireError::TermZero));
        assert_eq!(held.renew(short), Err(RenewError::TermZero));
    }
    for long in [TERM_MAX + NANO, TERM_MAX + TICK - NANO, TERM_MAX + TICK, Duration::MAX] {
        let refused = table.try_acquire(&1, holder(1), long);
        let too_long = AcquireError::TermTooLong { requested: long, max: TERM_MAX };
        assert_eq!(refused.err(), Some(too_long));
        let too_long = RenewError::TermTooLong { requested: long, max: TERM_MAX };
        assert_eq!(held.renew(long), Err(too_long));
    }
    assert_eq!(table.resources(), 1, "what was refused left nothing behind");
    assert_eq!(held.remaining(), TERM, "nor changed anything");
    for term in [TICK, 2 * TICK, TERM_MAX - TICK, TERM_MAX] {
        let lease = table.try_acquire(&2, holder(1), term).unwrap();
        assert_eq!(lease.remaining(), term);
        clock.advance(term);
        assert_eq!(lease.check(), Err(Lost::Expired));
    }
    // Rounded down to whole ticks.
    let lease = table.try_acquire(&3, holder(1), TERM_MAX - NANO).unwrap();
    assert_eq!(lease.remaining(), TERM_MAX - TICK);
}

#[test]
fn inv_21_the_builders_longest_term_is_exact() {
    // Also one that is no whole number of ticks.
    for max in [TERM, TERM + TICK / 2] {
        let clock = ManualClock::new();
        let table: Table = build(&clock, |setup| setup.term_max(max));
        let resource = table.resource(&3).unwrap();
        let lease = table.try_acquire(&1, holder(1), max).unwrap();
        assert_eq!(lease.renew(max), Ok(()));
        assert_eq!(lease.remaining(), TERM, "whole ticks");
        for requested in [max + NANO, max + TICK] {
            let too_long = AcquireError::TermTooLong { requested, max };
            assert_eq!(table.try_acquire(&2, holder(1), requested).err(), Some(too_long));
            assert_eq!(resource.try_acquire(holder(1), requested).err(), Some(too_long));
            assert_eq!(lease.renew(requested), Err(RenewError::TermTooLong { requested, max }));
            let grant = table.try_acquire(&4, holder(1), max).unwrap().into_grant();
            let too_long = RenewError::TermTooLong { requested, max };
            assert_eq!(table.renew(grant, requested), Err(too_long));
        }
    }
}

#[test]
fn inv_22_a_takeover_is_refused_up_to_and_including_the_deadline() {
    let mut rng = Rng::new(22);
    for round in 0..300 {
        let (table, clock) = table();
        let magnitude = rng.below(41);
        let ticks = 1 + rng.below(2 << magnitude);
        let lease = table.try_acquire(&1, holder(1), Duration::from_micros(ticks)).unwrap();
        let mut deadline = clock.now() + ticks;
        for _ in 0..rng.below(4) {
            clock.set(clock.now() + rng.below(deadline - clock.now()));
            let more = 1 + rng.below(1 << 41);
            lease.renew(Duration::from_micros(more)).unwrap();
            deadline = deadline.max(clock.now() + more);
        }
        for now in [deadline - 1, deadline] {
            clock.set(now);
            let held = refusal(table.try_acquire(&1, holder(2), TERM));
            assert_eq!(held.retry_after, Duration::from_micros(deadline + 1 - now), "{round}");
            assert_eq!((held.holder, held.token), (Some(holder(1)), lease.token()));
            assert_eq!(lease.check().is_ok(), now < deadline);
        }
        clock.set(deadline + 1);
        assert!(table.try_acquire(&1, holder(2), TERM).unwrap().token() > lease.token());
    }
}

#[test]
fn inv_23_a_lapsed_resource_is_granted_at_once() {
    let (table, clock) = table();
    for generation in 0..1000 {
        let owner = holder(1 + generation);
        for key in 0..3 {
            std::mem::forget(table.try_acquire(&key, owner, TERM).unwrap());
        }
        clock.advance(TERM);
        clock.advance_ticks(1);
    }
    let stats = table.stats();
    assert_eq!((stats.grants, stats.lapses, stats.refusals), (3000, 2997, 0));
}

#[test]
fn inv_25_a_long_lease_delays_no_short_ones() {
    let (table, clock) = table();
    let long = table.try_acquire(&0, holder(1), TERM_MAX).unwrap();
    for round in 1..1000_u64 {
        let short = table.try_acquire(&round, holder(2), TICK).unwrap();
        std::mem::forget(table.try_acquire(&(round + 1_000_000), holder(2), 2 * TICK).unwrap());
        assert_eq!(table.len(), 3);
        clock.advance_ticks(1);
        assert_eq!(short.check(), Err(Lost::Expired));
        assert_eq!(table.len(), 2);
        clock.advance_ticks(1);
        assert_eq!(table.len(), 1);
        assert!(table.try_acquire(&round, holder(3), TERM).unwrap().release().is_ok());
    }
    assert!(long.check().is_ok());
}

/// A manual clock with ticks of an odd length.
struct OddTicks(ManualClock, TickRate);

impl Clock for OddTicks {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn rate(&self) -> TickRate {
        self.1
    }
}

#[test]
fn inv_26_a_holder_never_sees_more_than_the_table() {
    let rates = [(700_001, 10), (1, 0), (3, 1), (999_999_999, 0), (1024, 0), (12_345_677, 13)];
    for (nanos, log2_ticks) in rates {
        let rate = TickRate::from_ratio(nanos, log2_ticks).unwrap();
        let clock = ManualClock::new();
        let odd = OddTicks(clock.clone(), rate);
        let table: LeaseTable<u64, _, _> = LeaseTable::builder().clock(odd).build().unwrap();
        let mut rng = Rng::new(26);
        for _ in 0..500 {
            let term = rate.duration_ceil(1 + rng.below(1000)) + Duration::from_nanos(rng.below(3));
            let lease = table.try_acquire(&1, holder(1), term).unwrap();
            assert!(lease.remaining() <= term);
            clock.advance_ticks(rng.below(1000));
            let mine = lease.remaining();
            let tables = table.inspect(&1).map_or(Duration::ZERO, |info| info.remaining);
            assert!(mine <= tables);
            if let Err(AcquireError::Held(held)) = table.try_acquire(&1, holder(2), term) {
                assert!(mine < held.retry_after);
                clock.advance_ticks(rate.ticks_floor(held.retry_after));
                assert_eq!(lease.remaining(), Duration::ZERO);
                assert!(table.try_acquire(&1, holder(2), term).is_ok(), "the hint was exact");
            }
        }
    }
}

#[test]
fn inv_26_also_after_the_page_was_replaced() {
    let (table, clock) = table();
    let lease = table.try_acquire(&0, holder(1), DAY).unwrap();
    let started = clock.now();
    for round in 1..100 {
        replace_pages(&table, &clock, round * 1_000_000);
        let left = DAY - Duration::from_micros(clock.now() - started);
        assert_eq!(lease.remaining(), left);
        assert_eq!(table.inspect(&0).unwrap().remaining, left);
    }
    assert!(table.stats().evictions > 0, "no page was replaced");
}
