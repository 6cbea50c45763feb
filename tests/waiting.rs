//! Waiting for a lease, by hand-polled futures on a clock that stands still unless it is moved.
#![cfg(not(leasehold_loom))]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::{HolderId, LeaseTable, ManualClock, Revoke, WaitError};

type Table = LeaseTable<u64, leasehold::DefaultHashBuilder, ManualClock>;

const TERM: Duration = Duration::from_secs(10);

fn table() -> (ManualClock, Table) {
    let clock = ManualClock::new();
    let table = LeaseTable::builder().clock(clock.clone()).sweep_by_hand().build().unwrap();
    (clock, table)
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn inv_35_release_hands_over_in_order() {
    let (_clock, table) = table();
    let ids: Vec<HolderId> = (0..5).map(|_| HolderId::mint()).collect();
    let first = table.try_acquire(&1, ids[0], TERM).unwrap();
    let mut waits: Vec<_> = ids[1..].iter().map(|id| table.acquire_async(&1, *id, TERM)).collect();
    for wait in &mut waits {
        assert!(poll(wait).is_pending());
    }
    assert_eq!(table.waiters(&1).iter().map(|w| w.holder).collect::<Vec<_>>(), ids[1..]);
    first.release().unwrap();
    for n in 0..waits.len() {
        for wait in &mut waits[n + 1..] {
            assert!(poll(wait).is_pending());
        }
        assert_eq!(table.inspect(&1).unwrap().holder, Some(ids[n + 1]));
        let Poll::Ready(Ok(lease)) = poll(&mut waits[n]) else { panic!() };
        assert_eq!(lease.holder(), ids[n + 1]);
        lease.release().unwrap();
    }
    assert!(table.inspect(&1).is_none());
    assert!(table.try_acquire(&1, ids[0], TERM).is_ok());
}

#[test]
fn stamps_that_run_out_keep_the_queue() {
    let (_clock, table) = table();
    let rounds = if cfg!(leasehold_tiny) { 200 } else { 400_000 };
    let ids = [HolderId::mint(), HolderId::mint()];
    let mut lease = table.try_acquire(&1, ids[0], TERM).unwrap();
    let mut last = lease.token();
    for n in 1..rounds {
        let mut wait = table.acquire_async(&1, ids[n % 2], TERM);
        assert!(poll(&mut wait).is_pending());
        lease.release().unwrap();
        let Poll::Ready(Ok(next)) = poll(&mut wait) else { panic!("round {n}") };
        assert!(next.token() > last);
        last = next.token();
        drop(wait);
        lease = next;
    }
    assert_eq!(table.stats().hand_overs, rounds as u64 - 1);
}

#[test]
fn inv_34_a_lapse_is_passed_on_by_the_sweep() {
    let (clock, table) = table();
    let ids: Vec<HolderId> = (0..3).map(|_| HolderId::mint()).collect();
    std::mem::forget(table.try_acquire(&1, ids[0], TERM).unwrap());
    let mut a = table.acquire_async(&1, ids[1], TERM);
    let mut b = table.acquire_async(&1, ids[2], TERM);
    assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
    clock.advance(TERM);
    assert_eq!(table.sweep(10).unwrap().lapsed, 0);
    clock.advance_ticks(1);
    assert_eq!(table.sweep(10).unwrap().lapsed, 1);
    assert!(poll(&mut b).is_pending());
    // Never polled again, it lapses, too.
    clock.advance(TERM);
    clock.advance_ticks(1);
    assert_eq!(table.sweep(10).unwrap().lapsed, 1);
    let Poll::Ready(Ok(lease)) = poll(&mut b) else { panic!() };
    assert_eq!(lease.remaining(), TERM);
    assert!(poll(&mut a).is_pending());
    table.revoke(&1, Revoke::Now).unwrap();
    assert!(lease.check().is_err());
    assert!(poll(&mut a).is_ready());
}

#[test]
fn close_sends_everybody_away() {
    let (_clock, table) = table();
    let lease = table.try_acquire(&1, HolderId::mint(), TERM).unwrap();
    let mut a = table.acquire_async(&1, HolderId::mint(), TERM);
    assert!(poll(&mut a).is_pending());
    table.close();
    assert!(matches!(poll(&mut a), Poll::Ready(Err(WaitError::Closed))));
    lease.renew(TERM).unwrap();
    lease.release().unwrap();
    assert_eq!(table.acquire(&1, HolderId::mint(), TERM).map(drop), Err(WaitError::Closed));
}

#[test]
fn threads() {
    let table: LeaseTable<u64> = LeaseTable::new();
    let total = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let lease = table.acquire(&1, HolderId::mint(), TERM).unwrap();
                    total.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    lease.release().unwrap();
                }
            });
        }
    });
    assert_eq!(total.into_inner(), 8000);
}

#[test]
fn all_of_them() {
    let table: LeaseTable<u64> = LeaseTable::new();
    std::thread::scope(|scope| {
        for order in [[1, 2, 3, 2], [3, 2, 1, 1], [2, 3, 1, 3], [1, 3, 2, 2]] {
            let table = &table;
            scope.spawn(move || {
                for _ in 0..500 {
                    let leases = table.acquire_all(&order, HolderId::mint(), TERM).unwrap();
                    assert_eq!(leases.len(), 3);
                    assert!(leases.iter().all(|lease| lease.check().is_ok()));
                }
            });
        }
    });
    assert_eq!(table.len(), 0);
}
