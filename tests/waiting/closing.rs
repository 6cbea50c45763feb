//! The end of the table: closed, or gone.

use std::cell::RefCell;

use leasehold::{AcquireError, LeaseTable, Revoke, Sweeper};

use super::common::ends::sweep_all;
use super::*;

type Real = LeaseTable<u64>;

#[test]
fn inv_40_closing_sends_everybody_away() {
    watched(|| {
        let (table, _clock) = by_hand();
        let leases = [1, 2].map(|key| table.try_acquire(&key, holder(1), TERM).unwrap());
        let counts: Vec<_> = (0..4).map(|_| Count::new()).collect();
        let mut one = table.acquire_async(&1, holder(2), TERM);
        let mut owned = table.acquire_owned_async(&1, holder(3), TERM);
        let mut all = table.acquire_all_async(&[1, 2, 3], holder(4), TERM);
        let mut never = table.acquire_async(&1, holder(5), TERM);
        let mut granted_before = table.acquire_async(&3, holder(6), TERM);
        let third = table.try_acquire(&3, holder(1), TERM).unwrap();
        assert!(poll_by(&mut one, &counts[0].1).is_pending());
        assert!(poll_by(&mut owned, &counts[1].1).is_pending());
        assert!(poll_by(&mut granted_before, &counts[3].1).is_pending());
        assert!(poll_by(&mut all, &counts[2].1).is_pending());
        third.release().unwrap();
        std::thread::scope(|scope| {
            let threads = [
                scope.spawn(|| table.acquire(&1, holder(7), TERM).map(drop)),
                scope.spawn(|| table.acquire_for(&2, holder(7), TERM, LONG * 10).map(drop)),
                scope.spawn(|| table.acquire_all(&[1, 2], holder(8), TERM).map(drop)),
            ];
            wait_for("threads", || {
                table.waiting().iter().map(|it| it.waiters.len()).sum::<usize>() == 6
            });
            assert!(!table.is_closed());
            table.close();
            assert!(table.is_closed());
            for thread in threads {
                assert_eq!(thread.join().unwrap(), Err(WaitError::Closed));
            }
        });
        assert!(counts.iter().all(|(count, _)| count.get() == 1));
        assert!(table.waiting().is_empty() && table.waiters(&1).is_empty());
        // What was granted before counts; nothing is granted any more.
        assert_eq!(granted(&mut granted_before).release(), Ok(()));
        assert_eq!(poll(&mut one).map_ok(drop), Poll::Ready(Err(WaitError::Closed)));
        assert_eq!(poll(&mut owned).map_ok(drop), Poll::Ready(Err(WaitError::Closed)));
        assert_eq!(poll(&mut all).map_ok(drop), Poll::Ready(Err(WaitError::Closed)));
        assert_eq!(poll(&mut never).map_ok(drop), Poll::Ready(Err(WaitError::Closed)));
        nothing_is_granted(&table);
        // Leases go on.
        let [first, second] = leases;
        first.renew(2 * TERM).unwrap();
        assert_eq!(first.remaining(), 2 * TERM);
        first.release().unwrap();
        assert!(table.revoke(&2, Revoke::Now).is_ok() && second.check().is_err());
        assert!(table.is_empty());
        table.close();
    });
}

fn nothing_is_granted(table: &Table) {
    for key in [1, 77] {
        let closed = Err(AcquireError::Closed);
        assert_eq!(table.try_acquire(&key, holder(9), TERM).map(drop), closed);
        assert_eq!(table.try_acquire_owned(&key, holder(9), TERM).map(drop), closed);
        let closed = Err(WaitError::Closed);
        assert_eq!(table.acquire(&key, holder(9), TERM).map(drop), closed);
        assert_eq!(table.acquire_for(&key, holder(9), TERM, Duration::ZERO).map(drop), closed);
        assert_eq!(table.acquire_all(&[key], holder(9), TERM).map(drop), closed);
        let mut later = table.acquire_async(&key, holder(9), TERM);
        assert_eq!(poll(&mut later).map_ok(drop), Poll::Ready(closed));
    }
}

/// However a lease ends after that, nobody is granted it.
#[test]
fn inv_40_nothing_is_handed_over_after_the_table_was_closed() {
    for way in 0..4 {
        let (table, clock) = by_hand();
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        let mut wait = table.acquire_async(&1, holder(2), TERM);
        is_pending(&mut wait);
        table.close();
        match way {
            0 => lease.release().unwrap(),
            1 => _ = table.revoke(&1, Revoke::Now).unwrap(),
            2 => {
                clock.advance(TERM + TICK);
                assert_eq!(sweep_all(&table, 10).lapsed, 1);
            }
            _ => drop(wait),
        }
        assert!(table.inspect(&1).is_none() || way == 3);
        assert_eq!(table.stats().hand_overs, 0);
    }
}

/// What was granted, and lapsed before it was looked at, is not waited for any more.
#[test]
fn inv_40_a_grant_that_is_over_is_closed_then() {
    let (table, clock) = by_hand();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let mut wait = table.acquire_async(&1, holder(2), TERM);
    is_pending(&mut wait);
    drop(lease);
    table.close();
    clock.advance(TERM);
    assert_eq!(poll(&mut wait).map_ok(drop), Poll::Ready(Err(WaitError::Closed)));
}

#[test]
fn inv_40_futures_of_a_table_that_is_gone_are_closed() {
    let (table, _clock) = by_hand();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    std::mem::forget(lease);
    let (count, waker) = Count::new();
    let mut waits: Vec<_> =
        (0..10).map(|n| table.acquire_owned_async(&1, holder(2 + n), TERM)).collect();
    let never = table.acquire_owned_async(&1, holder(20), TERM);
    for wait in &mut waits {
        assert!(poll_by(wait, &waker).is_pending());
    }
    let dropped = waits.split_off(5);
    drop(table);
    assert_eq!(count.get(), 10);
    drop(dropped);
    waits.push(never);
    for mut wait in waits {
        assert!(matches!(poll(&mut wait), Poll::Ready(Err(WaitError::Closed))));
    }
    assert_eq!(Arc::strong_count(&count), 2, "no waker stays");
}

/// 39: an owned lease keeps the table, and so passes on what it ends.
#[test]
fn inv_39_the_last_lease_passes_on_after_the_last_handle() {
    let (table, _clock) = by_hand();
    let lease = table.try_acquire_owned(&1, holder(1), TERM).unwrap();
    let mut wait = table.acquire_owned_async(&1, holder(2), TERM);
    let mut behind = table.acquire_owned_async(&1, holder(3), TERM);
    is_pending(&mut wait);
    let (count, waker) = Count::new();
    assert!(poll_by(&mut behind, &waker).is_pending());
    drop(table);
    is_pending(&mut wait);
    // It is the last that keeps the table, which goes with it.
    drop(lease);
    assert_eq!(count.get(), 1);
    assert!(matches!(poll(&mut wait), Poll::Ready(Err(WaitError::Closed))));
    assert!(matches!(poll(&mut behind), Poll::Ready(Err(WaitError::Closed))));
}

/// The last handle goes in a waker, be it in the sweeper's thread or in that of whoever releases.
#[test]
fn inv_40_the_table_may_go_within_a_waker() {
    for swept in [false, true] {
        watched(move || {
            let table = Real::builder().shards(1).sweeper(Sweeper::new().name("t-waker"));
            let table = table.build().unwrap();
            let lease = table.try_acquire_owned(&1, holder(1), HOUR).unwrap();
            let mut wait = table.acquire_owned_async(&1, holder(2), HOUR);
            let mut behind = table.acquire_owned_async(&1, holder(3), HOUR);
            let (tell, told) = mpsc::channel();
            let weak = table.downgrade();
            let handles = std::sync::Mutex::new(Some(table.clone()));
            let waker = wakers::odd(wakers::Op::Wake, move || {
                drop(handles.lock().unwrap().take());
                tell.send(std::thread::current().id()).unwrap();
            });
            assert!(poll_by(&mut wait, &waker).is_pending());
            is_pending(&mut behind);
            if swept {
                table.revoke(&1, Revoke::After(50 * MS)).unwrap();
                // A plain value keeps nothing.
                let _ = lease.into_grant();
                drop(table);
            } else {
                drop(table);
                drop(lease);
            }
            let by = told.recv_timeout(LONG).expect("it is over, one way or the other");
            assert_eq!(by == std::thread::current().id(), !swept);
            wait_for("the table's end", || weak.upgrade().is_none());
            assert!(matches!(poll(&mut behind), Poll::Ready(Err(WaitError::Closed))));
        });
    }
}

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

enum Kept {
    Lease { _lease: Owned },
    Wait { _wait: leasehold::AcquireOwned<u64, leasehold::DefaultHashBuilder, ManualClock> },
}

/// Guards and futures that go in a thread-local's destructor, with others waiting.
#[test]
fn inv_39_what_goes_with_a_thread_is_passed_on() {
    watched(|| {
        let (table, _clock) = by_hand();
        let mut behind = table.acquire_async(&1, holder(9), TERM);
        let other = table.clone();
        let (tell, ready) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // The first use of the table in this thread may be before that of the thread-local, or after.
            KEPT.with_borrow_mut(|kept| {
                let lease = other.try_acquire_owned(&1, holder(1), HOUR).unwrap();
                let mut wait = other.acquire_owned_async(&1, holder(2), HOUR);
                is_pending(&mut wait);
                kept.push(Kept::Lease { _lease: lease });
                kept.push(Kept::Wait { _wait: wait });
            });
            tell.send(()).unwrap();
            let _ = gone.recv();
        });
        ready.recv().unwrap();
        is_pending(&mut behind);
        assert_eq!(queue(&table, 1), [holder(2), holder(9)]);
        drop(go);
        thread.join().unwrap();
        assert_eq!(granted(&mut behind).holder(), holder(9));
        assert!(table.is_empty() && table.waiting().is_empty());
    });
}

/// 37: so does one that goes as its thread unwinds.
#[test]
fn inv_37_a_panic_while_holding_passes_it_on() {
    let (table, _clock) = by_hand();
    let mut wait = table.acquire_async(&1, holder(2), TERM);
    let unwinds = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        let mut dropped = table.acquire_async(&1, holder(3), TERM);
        is_pending(&mut dropped);
        is_pending(&mut wait);
        common::keys::planned_panic();
    }));
    assert!(unwinds.is_err());
    assert_eq!(granted(&mut wait).holder(), holder(2));
}
