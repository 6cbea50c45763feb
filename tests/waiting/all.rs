//! Several resources at once, by hand.

use std::hash::{BuildHasher, Hasher};

use leasehold::{AcquireError, LeaseTable, Revoke};

use super::common::ends::sweep_all;
use super::*;

/// All keys have one hash.
#[derive(Clone, Copy, Default)]
struct Constant;

impl BuildHasher for Constant {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self
    }
}

impl Hasher for Constant {
    fn finish(&self) -> u64 {
        7
    }

    fn write(&mut self, _: &[u8]) {}
}

/// Of two resources: the one that is acquired first, and the one that is waited for then.
fn in_order(table: &Table, keys: [u64; 2]) -> [u64; 2] {
    let held = keys.map(|key| table.try_acquire(&key, holder(99), TERM).unwrap());
    let mut all = table.acquire_all_async(&keys, holder(98), TERM);
    is_pending(&mut all);
    let [one, other] = keys;
    drop(held);
    if table.waiters(&one).is_empty() && holder_of(table, other) == Some(holder(98)) {
        [other, one]
    } else {
        [one, other]
    }
}

#[test]
fn all_or_nothing() {
    let (table, _clock) = by_hand();
    assert_eq!(table.acquire_all(&[] as &[u64], holder(1), TERM).unwrap().len(), 0);
    assert_eq!(granted(&mut table.acquire_all_async(&[] as &[u64], holder(1), TERM)).len(), 0);
    for keys in [vec![1_u64], vec![3, 1, 2], vec![2, 2, 1, 2, 3, 1], (0..50).rev().collect()] {
        let mut named = Vec::new();
        for key in &keys {
            if !named.contains(&Some(*key)) {
                named.push(Some(*key));
            }
        }
        for async_too in [false, true] {
            let leases = if async_too {
                granted(&mut table.acquire_all_async(&keys, holder(1), TERM))
            } else {
                table.acquire_all(&keys, holder(1), TERM).unwrap()
            };
            // In the order in which they were first named.
            assert_eq!(leases.iter().map(|lease| lease.key()).collect::<Vec<_>>(), named);
            assert!(leases.iter().all(|lease| lease.remaining() == TERM));
            assert_eq!(table.len(), named.len());
            drop(leases);
            assert!(table.is_empty());
        }
    }
}

/// What cannot be had leaves nothing held, whichever it is.
#[test]
fn nothing_is_held_after_a_time_out_or_a_drop() {
    let (table, _clock) = by_hand();
    for taken in 1..=3 {
        let lease = table.try_acquire(&taken, holder(1), TERM).unwrap();
        for way in 0..3 {
            match way {
                0 => drop(table.acquire_all_for(&[1, 2, 3], holder(2), TERM, MS).unwrap_err()),
                1 => {
                    let zero = Duration::ZERO;
                    table.acquire_all_for(&[3, 2, 1], holder(2), TERM, zero).unwrap_err();
                }
                _ => {
                    let mut all = table.acquire_all_async(&[1, 2, 3], holder(2), TERM);
                    is_pending(&mut all);
                    is_pending(&mut all);
                    assert_eq!(table.waiters(&taken).len(), 1);
                }
            }
            assert_eq!((table.len(), table.waiting().len()), (1, 0), "{taken}, way {way}");
        }
        assert_eq!(lease.check(), Ok(lease.token()));
    }
}

/// Dropped after it was granted the last one, and before it saw that.
#[test]
fn inv_30_a_dropped_future_for_several_passes_all_of_them_on() {
    let (table, _clock) = by_hand();
    let [first, last] = in_order(&table, [1, 2]);
    let lease = table.try_acquire(&last, holder(1), TERM).unwrap();
    let mut all = table.acquire_all_async(&[1, 2], holder(2), TERM);
    is_pending(&mut all);
    let mut behind = [first, last].map(|key| table.acquire_async(&key, holder(3), TERM));
    behind.iter_mut().for_each(is_pending);
    drop(lease);
    assert_eq!(holder_of(&table, last), Some(holder(2)));
    drop(all);
    for wait in &mut behind {
        assert_eq!(granted(wait).holder(), holder(3));
    }
    assert!(table.is_empty() && table.waiting().is_empty());
}

/// What is held already is renewed by whoever is woken for it, and not otherwise.
#[test]
fn what_is_held_is_renewed_while_the_rest_is_waited_for() {
    let (table, clock) = by_hand();
    let [first, last] = in_order(&table, [1, 2]);
    let lease = table.try_acquire(&last, holder(1), DAY).unwrap();
    let mut all = table.acquire_all_async(&[1, 2], holder(2), 9 * SEC);
    let (count, waker) = Count::new();
    assert!(poll_by(&mut all, &waker).is_pending());
    let token = table.inspect(&first).unwrap().token;
    for round in 1..=20 {
        clock.advance(3 * SEC - TICK);
        sweep_all(&table, 10);
        assert_eq!(count.get(), round - 1, "not before a third of the term");
        clock.advance(TICK);
        let next_in = sweep_all(&table, 10).next_in;
        assert_eq!(count.get(), round, "at a third of the term");
        assert!(next_in.is_none_or(|next| next > Duration::ZERO));
        assert!(poll_by(&mut all, &waker).is_pending());
        let info = table.inspect(&first).expect("it is renewed");
        assert_eq!((info.remaining, info.token), (9 * SEC, token));
    }
    // Each is for a whole term when it is returned.
    clock.advance(SEC);
    lease.release().unwrap();
    let leases = granted(&mut all);
    assert!(leases.iter().all(|lease| lease.remaining() == 9 * SEC));
    // Nobody is woken any more.
    let woken = count.get();
    clock.advance(3 * SEC);
    sweep_all(&table, 10);
    assert_eq!(count.get(), woken);
    assert_eq!(Arc::strong_count(&count), 2, "its waker was given back");
}

/// It says when it is to be swept next.
#[test]
fn the_sweep_knows_of_the_next_renewal() {
    let (table, clock) = by_hand();
    let [_, last] = in_order(&table, [1, 2]);
    let _lease = table.try_acquire(&last, holder(1), DAY).unwrap();
    let mut all = table.acquire_all_async(&[1, 2], holder(2), 9 * SEC);
    is_pending(&mut all);
    clock.advance(SEC);
    assert_eq!(sweep_all(&table, 10).next_in, Some(2 * SEC));
    drop(all);
    assert!(sweep_all(&table, 10).next_in.is_none_or(|next| next > 2 * SEC));
}

/// It loses what it holds while it waits: it gives all back, leaves its queue, and begins again.
#[test]
fn one_that_is_lost_on_the_way_begins_again() {
    for way in 0..3 {
        let (table, clock) = by_hand();
        let [first, last] = in_order(&table, [1, 2]);
        let lease = table.try_acquire(&last, holder(1), DAY).unwrap();
        let mut all = table.acquire_all_async(&[1, 2], holder(2), TERM);
        is_pending(&mut all);
        let mut other = table.acquire_async(&first, holder(3), HOUR);
        is_pending(&mut other);
        match way {
            0 => _ = table.revoke(&first, Revoke::Now).unwrap(),
            1 => {
                clock.advance(TERM + TICK);
                sweep_all(&table, 10);
            }
            _ => _ = table.revoke(&first, Revoke::After(SEC)).unwrap(),
        }
        clock.advance(TERM / 3 + TICK);
        sweep_all(&table, 10);
        is_pending(&mut all);
        assert_eq!(holder_of(&table, first), Some(holder(3)), "way {way}");
        assert_eq!((queue(&table, first), queue(&table, last)), (vec![holder(2)], vec![]));
        lease.release().unwrap();
        granted(&mut other).release().unwrap();
        let leases = granted(&mut all);
        assert!(leases.iter().all(|lease| lease.remaining() == TERM && lease.check().is_ok()));
    }
}

/// Lost in the very moment of the last grant, when nothing would have been renewed before.
#[test]
fn one_that_is_lost_before_the_last_is_granted_is_noticed() {
    let (table, _clock) = by_hand();
    let [first, last] = in_order(&table, [1, 2]);
    let lease = table.try_acquire(&last, holder(1), TERM).unwrap();
    let mut all = table.acquire_all_async(&[1, 2], holder(2), TERM);
    is_pending(&mut all);
    table.revoke(&first, Revoke::Now).unwrap();
    let taken = table.try_acquire(&first, holder(3), TERM).unwrap();
    lease.release().unwrap();
    is_pending(&mut all);
    assert_eq!(queue(&table, first), [holder(2)]);
    assert!(table.inspect(&last).is_none(), "it gave back the last one, too");
    taken.release().unwrap();
    assert_eq!(granted(&mut all).len(), 2);
}

/// A time-out ends it, also if it finds then that it lost what it held.
#[test]
fn inv_20_a_time_out_that_finds_a_loss_does_not_wait_on() {
    watched(|| {
        let (table, clock) = by_hand();
        let [first, last] = in_order(&table, [1, 2]);
        std::mem::forget(table.try_acquire(&last, holder(1), TERM).unwrap());
        let other = table.clone();
        let waits = std::thread::spawn(move || {
            let all = other.acquire_all_for(&[1, 2], holder(2), TERM, 300 * MS);
            all.map(|leases| leases.len())
        });
        wait_for("its place", || waits.is_finished() || !table.waiters(&last).is_empty());
        // The first goes to somebody else in the moment in which it is lost. Then the last has lapsed, which nobody
        // but the clock says, and is had at the last look. Should the time be over before, that is as well.
        let mut taken = table.acquire_async(&first, holder(3), DAY);
        let taken_at_once = poll(&mut taken);
        if taken_at_once.is_pending() {
            let _ = table.revoke(&first, Revoke::Now);
        }
        clock.advance(TERM + TICK);
        wait_for("the end of the time-out", || waits.is_finished());
        assert!(matches!(waits.join().unwrap(), Err(WaitError::TimedOut(_))));
        assert!(table.waiting().is_empty());
    });
}

#[test]
fn keys_of_one_hash_are_no_deadlock() {
    let clock = ManualClock::new();
    let setup = LeaseTable::<u64>::builder().clock(clock.clone()).hasher(Constant);
    let table = setup.shards(1).sweep_by_hand().build().unwrap();
    // Each holds what the other would wait for.
    for (mine, yours) in [([1, 2], [2, 1]), ([1, 2], [1, 2]), ([2, 1], [1, 2])] {
        let one = table.try_acquire(&1, holder(9), TERM).unwrap();
        let two = table.try_acquire(&2, holder(9), TERM).unwrap();
        let mut all = [mine, yours].map(|keys| {
            let id = if keys == mine { 1 } else { 2 };
            table.acquire_all_async(&keys, holder(id), TERM)
        });
        all.iter_mut().for_each(is_pending);
        one.release().unwrap();
        all.iter_mut().for_each(is_pending);
        two.release().unwrap();
        let mut done = 0;
        for _ in 0..10 {
            for wait in &mut all {
                if done < 2
                    && let Poll::Ready(leases) = poll(wait)
                {
                    assert_eq!(leases.unwrap().len(), 2);
                    *wait = table.acquire_all_async(&[3], holder(9), TERM);
                    done += 1;
                }
            }
        }
        assert_eq!(done, 2);
        drop(all);
        assert!(table.is_empty() && table.waiting().is_empty());
    }
    // Whoever waits for one of them holds none of the same hash.
    let two = table.try_acquire(&2, holder(9), TERM).unwrap();
    let mut all = table.acquire_all_async(&[1, 2, 3], holder(1), TERM);
    is_pending(&mut all);
    assert_eq!((table.len(), table.waiters(&2).len()), (1, 1));
    two.release().unwrap();
    assert_eq!(granted(&mut all).len(), 3);
}

/// No room for one of them: an error, and none is held.
#[test]
fn one_that_has_no_room_leaves_nothing_held() {
    let clock = ManualClock::new();
    let table: Table = build(&clock, |setup| setup.shards(1).sweep_by_hand().capacity_max(2));
    let _lease = table.try_acquire(&100, holder(1), TERM).unwrap();
    let full = AcquireError::Full { capacity_max: 2 };
    let outcome = table.acquire_all(&[1, 2], holder(2), TERM).map(drop);
    assert_eq!(outcome, Err(WaitError::Refused(full)));
    let outcome = poll(&mut table.acquire_all_async(&[1, 2], holder(2), TERM)).map_ok(drop);
    assert_eq!(outcome, Poll::Ready(Err(WaitError::Refused(full))));
    assert_eq!((table.len(), table.waiting().len()), (1, 0));
    // Too many of one hash.
    let setup = LeaseTable::<u64>::builder().clock(clock.clone()).hasher(Constant);
    let table = setup.shards(1).sweep_by_hand().build().unwrap();
    let many: Vec<u64> = (0..10 * SLOTS).collect();
    let outcome = table.acquire_all(&many, holder(2), TERM).map(drop);
    assert_eq!(outcome, Err(WaitError::Refused(AcquireError::Crowded)));
    assert!(table.is_empty() && table.waiting().is_empty());
}
