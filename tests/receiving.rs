//! Waiting for the ends of leases: threads and tasks.
//!
//! - 20: a frozen clock: time-outs fire all the same.
//! - 31: polled again with another waker: the new one is woken.
//! - 32: a waker that panics, or calls the table: others are served.
//! - 40: the table goes: whoever waits is told.
#![cfg(not(leasehold_loom))]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Duration;

use common::ends::{received, sweep_all};
use common::keys::planned_panic;
use common::*;
use leasehold::{Causes, ManualClock, RecvError, Subscription};

/// A waker that counts, and then does something.
struct Counting<F> {
    wakes: AtomicU64,
    and: F,
}

impl<F: Fn() + Send + Sync + 'static> Counting<F> {
    fn new(and: F) -> Arc<Self> {
        Arc::new(Self { wakes: AtomicU64::new(0), and })
    }

    fn wakes(&self) -> u64 {
        self.wakes.load(SeqCst)
    }
}

impl<F: Fn() + Send + Sync + 'static> Wake for Counting<F> {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, SeqCst);
        (self.and)();
    }
}

fn told() -> (Table, ManualClock, Subscription<u64>) {
    let clock = ManualClock::new();
    let table: Table = build(&clock, |setup| setup.shards(1).events(Causes::ALL));
    let ends = table.subscribe(100).unwrap();
    (table, clock, ends)
}

fn end(table: &Table, key: u64) {
    table.try_acquire(&key, holder(1), SEC).unwrap().release().unwrap();
}

fn is_pending<F>(ends: &mut Subscription<u64>, waker: &Arc<Counting<F>>) -> bool
where
    F: Fn() + Send + Sync + 'static,
{
    let waker = Waker::from(waker.clone());
    ends.poll_recv(&mut Context::from_waker(&waker)).is_pending()
}

#[test]
fn inv_31_the_newest_waker_is_woken_and_no_other() {
    let (table, clock, mut ends) = told();
    let wakers = [(); 3].map(|()| Counting::new(|| {}));
    for waker in &wakers {
        assert!(is_pending(&mut ends, waker));
    }
    end(&table, 1);
    end(&table, 2);
    assert_eq!(wakers.each_ref().map(|waker| waker.wakes()), [0, 0, 1], "once, until it polls");
    assert_eq!(received(&mut ends).len(), 2);
    // Also by a sweep.
    assert!(is_pending(&mut ends, &wakers[0]));
    std::mem::forget(table.try_acquire(&1, holder(1), SEC).unwrap());
    clock.advance(2 * SEC);
    sweep_all(&table, 10);
    assert_eq!(wakers.each_ref().map(|waker| waker.wakes()), [1, 0, 1]);
    assert!(!is_pending(&mut ends, &wakers[1]));
    assert!(is_pending(&mut ends, &wakers[1]));
    drop(ends);
    end(&table, 3);
    assert_eq!(wakers[1].wakes(), 0, "it waits no more");
    assert!(wakers.iter().all(|waker| Arc::strong_count(waker) == 1), "wakers are kept");
}

#[test]
fn inv_32_a_waker_that_panics_does_no_harm() {
    let (table, clock, mut ends) = told();
    let mut other = table.subscribe(100).unwrap();
    let bad = Counting::new(|| planned_panic());
    let good = Counting::new(|| {});
    for round in 1..=10 {
        assert!(is_pending(&mut ends, &bad) && is_pending(&mut other, &good));
        if round % 2 == 0 {
            end(&table, round);
        } else {
            std::mem::forget(table.try_acquire(&round, holder(1), SEC).unwrap());
            clock.advance(2 * SEC);
            assert_eq!(sweep_all(&table, 10).lapsed, 1);
        }
        assert_eq!((bad.wakes(), good.wakes()), (round, round));
        assert_eq!((received(&mut ends).len(), received(&mut other).len()), (1, 1));
    }
    assert!(is_pending(&mut ends, &bad));
    drop(table);
    assert_eq!(bad.wakes(), 11);
}

#[test]
fn inv_32_a_waker_may_use_the_table() {
    let (table, clock, mut ends) = told();
    let mine = table.clone();
    let waker = Counting::new(move || {
        // Grants, releases, replaces pages, sweeps and subscribes.
        churn(&mine, 1000, 2 * SLOTS);
        let mut ends = mine.subscribe(10).unwrap();
        end(&mine, 5000);
        assert_eq!(received(&mut ends).len(), 1);
        assert!(mine.sweep(10).map_or(true, |swept| swept.panics == 0));
    });
    assert!(is_pending(&mut ends, &waker));
    end(&table, 1);
    assert_eq!((waker.wakes(), ends.lost()), (1, (1 + 2 * SLOTS + 1).saturating_sub(100)));
    received(&mut ends);
    assert!(is_pending(&mut ends, &waker));
    std::mem::forget(table.try_acquire(&1, holder(1), SEC).unwrap());
    clock.advance(2 * SEC);
    sweep_all(&table, 10);
    assert_eq!(waker.wakes(), 2);
}

/// A waker that panics when it is cloned.
fn panics_when_cloned() -> Waker {
    const TABLE: RawWakerVTable = RawWakerVTable::new(|_| planned_panic(), |_| {}, |_| {}, |_| {});
    // SAFETY: none of its functions uses the pointer.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) }
}

/// A waker that panics when it is dropped.
fn panics_when_dropped() -> Waker {
    const TABLE: RawWakerVTable =
        RawWakerVTable::new(|p| RawWaker::new(p, &TABLE), |_| {}, |_| {}, |_| planned_panic());
    // SAFETY: none of its functions uses the pointer.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) }
}

#[test]
fn inv_32_a_waker_that_panics_in_the_readers_hands() {
    let (table, _clock, mut ends) = told();
    let good = Counting::new(|| {});
    let waker = panics_when_cloned();
    let poll = || ends.poll_recv(&mut Context::from_waker(&waker)).is_pending();
    assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
    assert!(is_pending(&mut ends, &good));
    end(&table, 1);
    assert_eq!((good.wakes(), received(&mut ends).len()), (1, 1));

    let waker = std::mem::ManuallyDrop::new(panics_when_dropped());
    assert!(ends.poll_recv(&mut Context::from_waker(&waker)).is_pending());
    // Replaced, and so dropped: the one who polls is told.
    assert!(catch_unwind(AssertUnwindSafe(|| is_pending(&mut ends, &good))).is_err());
    assert!(is_pending(&mut ends, &good));
    end(&table, 2);
    assert_eq!((good.wakes(), received(&mut ends).len()), (2, 1));
}

#[test]
fn a_thread_that_waits_is_woken_by_whoever_ends_a_lease() {
    let (table, clock, mut ends) = told();
    std::thread::scope(|s| {
        let reader = s.spawn(move || (0..200).map(|_| ends.recv().unwrap().key).sum::<u64>());
        for key in 0..200 {
            if key % 2 == 0 {
                end(&table, key);
            } else {
                std::mem::forget(table.try_acquire(&key, holder(1), SEC).unwrap());
                clock.advance(2 * SEC);
                sweep_all(&table, 10);
            }
            if key % 10 == 0 {
                // So that it sleeps, now and then; nothing rests on it.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(reader.join().unwrap(), 199 * 100);
    });
}

#[test]
fn inv_40_who_waits_is_told_that_the_table_is_gone() {
    let (table, _clock, mut ends) = told();
    let waker = Counting::new(|| {});
    let mut task = table.subscribe(10).unwrap();
    assert!(is_pending(&mut task, &waker));
    let reader = std::thread::spawn(move || (ends.recv().map(|ended| ended.key), ends.recv()));
    end(&table, 1);
    drop(table);
    assert_eq!(reader.join().unwrap(), (Ok(1), Err(RecvError::Closed)));
    assert_eq!(waker.wakes(), 1);
    let noop = &mut Context::from_waker(Waker::noop());
    assert!(matches!(task.poll_recv(noop), Poll::Ready(Some(ended)) if ended.key == 1));
    assert!(matches!(task.poll_recv(noop), Poll::Ready(None)));
    assert!(matches!(task.poll_recv(noop), Poll::Ready(None)), "and again");
}

#[test]
fn inv_20_time_outs_fire_by_the_systems_clock() {
    let (table, _clock, mut ends) = told();
    for timeout in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(20)] {
        let begun = std::time::Instant::now();
        assert_eq!(ends.recv_timeout(timeout), Err(RecvError::Timeout));
        assert!(begun.elapsed() >= timeout);
    }
    end(&table, 1);
    assert!(ends.recv_timeout(Duration::ZERO).is_ok(), "what is there comes first");
    end(&table, 2);
    assert!(ends.recv_timeout(Duration::MAX).is_ok());
}
