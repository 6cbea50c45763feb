//! Code of the user's that does its worst in the middle of waiting: keys and clocks that panic or use the table,
//! wakers that block, terms that are too short.
//!
//! - 16: a term counts from the hand-over, also if a key was slow before it.
//! - 32: no lock and no pin is held while a waker runs or a key is dropped; nobody behind a bad waker is forgotten.
//! - 37, 38: an end is told of, and what was granted is passed on, whatever panics.
//! - 20, 21: what is too short for several leases ends in time, and a poll returns.
#![cfg(not(any(leasehold_loom, leasehold_shuttle)))]

use leasehold::*;
use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(3);
type Hook = Box<dyn FnMut()>;

thread_local! {
    static ON_CLONE: RefCell<Option<Hook>> = const { RefCell::new(None) };
    static ON_DROP: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Hooked(u64);
impl Clone for Hooked {
    fn clone(&self) -> Self {
        if let Some(mut hook) = ON_CLONE.with(|it| it.borrow_mut().take()) {
            hook();
        }
        Self(self.0)
    }
}
impl Drop for Hooked {
    fn drop(&mut self) {
        if let Some(mut hook) = ON_DROP.try_with(|it| it.borrow_mut().take()).ok().flatten() {
            hook();
        }
    }
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A lease with the last stamp of its slot.
fn last_of_its_slot(
    table: &LeaseTable<Hooked>,
    key: &Hooked,
    holder: HolderId,
    term: Duration,
) -> OwnedLease<Hooked> {
    let last = if cfg!(leasehold_tiny) { 7 } else { (1 << 17) - 1 };
    loop {
        let lease = table.try_acquire_owned(key, holder, term).unwrap();
        if lease.token().get() & ((1 << 18) - 1) == last {
            return lease;
        }
    }
}

/// A key that is cloned for a slot to be buried, which then is not, is dropped when the lock is free.
#[test]
fn no_key_is_dropped_under_the_wait_lock() {
    let table: LeaseTable<Hooked> = LeaseTable::builder().sweep_by_hand().build().unwrap();
    let (me, term) = (HolderId::mint(), Duration::from_secs(5));
    let key = Hooked(1);
    let lease = last_of_its_slot(&table, &key, me, term);
    let mut next = pin!(table.acquire_async(&key, HolderId::mint(), term));
    assert!(poll(next.as_mut()).is_pending());
    let grant = lease.into_grant();
    let free = Arc::new(AtomicBool::new(false));
    let on_clone = {
        let (table, free) = (table.clone(), free.clone());
        move || {
            // Somebody renews between the look and the exchange.
            table.renew(grant, 2 * term).unwrap();
            let (table, free) = (table.clone(), free.clone());
            let on_drop = move || {
                let (tell, told) = mpsc::channel();
                let table = table.clone();
                std::thread::spawn(move || tell.send(table.waiters(&Hooked(1)).len()));
                free.store(told.recv_timeout(PATIENCE).is_ok(), Ordering::Relaxed);
            };
            ON_DROP.with(|it| *it.borrow_mut() = Some(Box::new(on_drop)));
        }
    };
    ON_CLONE.with(|it| *it.borrow_mut() = Some(Box::new(on_clone)));
    table.release(grant).unwrap();
    assert!(ON_DROP.with(|it| it.borrow().is_none()), "the hook ran");
    assert!(free.load(Ordering::Relaxed), "the wait lock was held while a key was dropped");
}

/// A tick passes with each reading.
struct Hasty(AtomicU64);
impl Clock for Hasty {
    fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
    fn rate(&self) -> TickRate {
        TickRate::from_nanos(1_000).unwrap()
    }
}

fn hasty() -> LeaseTable<u64, DefaultHashBuilder, Hasty> {
    LeaseTable::<u64>::builder().sweep_by_hand().clock(Hasty(AtomicU64::new(1))).build().unwrap()
}

#[test]
fn acquire_all_for_ends_in_time_though_the_terms_are_short() {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let table = hasty();
        let keys: Vec<u64> = (0..100).collect();
        let term = Duration::from_micros(100);
        let got = table.acquire_all_for(&keys, HolderId::mint(), term, Duration::from_millis(1));
        tell.send(got.is_ok())
    });
    assert!(told.recv_timeout(PATIENCE).is_ok(), "a time-out of a millisecond never ends");
}

#[test]
fn a_poll_of_acquire_all_returns_though_the_terms_are_short() {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let table = hasty();
        let keys: Vec<u64> = (0..100).collect();
        let term = Duration::from_micros(100);
        let mut all = pin!(table.acquire_all_async(&keys, HolderId::mint(), term));
        tell.send(poll(all.as_mut()).is_ready())
    });
    assert!(told.recv_timeout(PATIENCE).is_ok(), "one poll never returns");
}

/// Panics once, in the sweeper's thread.
struct Bad(StdClock, Arc<AtomicBool>);
impl Clock for Bad {
    fn now(&self) -> u64 {
        if std::thread::current().name() == Some("leasehold-sweeper")
            && self.1.swap(false, Ordering::Relaxed)
        {
            panic!("bad clock");
        }
        self.0.now()
    }
    fn rate(&self) -> TickRate {
        self.0.rate()
    }
}

#[test]
fn a_waiter_survives_one_panic_in_the_sweeper() {
    let bad = Arc::new(AtomicBool::new(true));
    let table = LeaseTable::<u64>::builder().clock(Bad(StdClock::new(), bad)).build().unwrap();
    std::mem::forget(table.try_acquire(&1, HolderId::mint(), Duration::from_millis(5)));
    let got = table.acquire_for(&1, HolderId::mint(), Duration::from_secs(5), PATIENCE);
    let late = table.stats();
    assert!(got.is_ok(), "{got:?} {late:?}");
    assert!(late.hand_overs > 0, "only the last look found it: {late:?}");
}

/// Panics with something that panics when it is dropped.
struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}
struct Bombs;
impl std::task::Wake for Bombs {
    fn wake(self: Arc<Self>) {
        std::panic::panic_any(Bomb);
    }
}
struct Flag(AtomicBool);
impl std::task::Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn whoever_waits_behind_a_bad_waker_is_woken_by_close() {
    let table: LeaseTable<u64> = LeaseTable::builder().sweep_by_hand().build().unwrap();
    let term = Duration::from_secs(5);
    let _lease = table.try_acquire(&1, HolderId::mint(), term).unwrap();
    let mut bad = pin!(table.acquire_async(&1, HolderId::mint(), term));
    let mut good = pin!(table.acquire_async(&1, HolderId::mint(), term));
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    assert!(bad.as_mut().poll(&mut Context::from_waker(&Arc::new(Bombs).into())).is_pending());
    assert!(good.as_mut().poll(&mut Context::from_waker(&flag.clone().into())).is_pending());
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| table.close()));
    assert!(flag.0.load(Ordering::Relaxed), "the second was not woken");
}

/// Panics when it is told to.
struct Armed(ManualClock, Arc<AtomicBool>);
impl Clock for Armed {
    fn now(&self) -> u64 {
        assert!(!self.1.swap(false, Ordering::Relaxed), "bad clock");
        self.0.now()
    }
    fn rate(&self) -> TickRate {
        self.0.rate()
    }
}

#[test]
fn what_was_granted_is_passed_on_if_the_clock_panics_when_it_is_looked_at() {
    let bad = Arc::new(AtomicBool::new(false));
    let clock = Armed(ManualClock::new(), bad.clone());
    let table = LeaseTable::<u64>::builder().sweep_by_hand().clock(clock).build().unwrap();
    let term = Duration::from_secs(3600);
    let lease = table.try_acquire(&1, HolderId::mint(), term).unwrap();
    let mut first = Box::pin(table.acquire_async(&1, HolderId::mint(), term));
    assert!(poll(first.as_mut()).is_pending());
    lease.release().unwrap();
    bad.store(true, Ordering::Relaxed);
    let polled = std::panic::AssertUnwindSafe(|| poll(first.as_mut()).is_ready());
    assert!(std::panic::catch_unwind(polled).is_err());
    drop(first);
    assert!(table.inspect(&1).is_none(), "nobody has it, and it is held for an hour");
}

#[test]
fn an_end_is_told_though_the_queue_cannot_be_carried_on() {
    let table: LeaseTable<Hooked> = LeaseTable::builder()
        .events(Causes::of(EndCause::Revoked))
        .sweep_by_hand()
        .build()
        .unwrap();
    let mut ends = table.subscribe(10).unwrap();
    let (me, term) = (HolderId::mint(), Duration::from_secs(5));
    let key = Hooked(1);
    let lease = last_of_its_slot(&table, &key, me, term);
    let mut next = pin!(table.acquire_async(&key, HolderId::mint(), term));
    assert!(poll(next.as_mut()).is_pending());
    // The report, the key to be buried, the one that is told of, and then the one that is inserted.
    let fourth = || panic!("no clone");
    let third = move || ON_CLONE.with(|it| *it.borrow_mut() = Some(Box::new(fourth)));
    let second = move || ON_CLONE.with(|it| *it.borrow_mut() = Some(Box::new(third)));
    let first = move || ON_CLONE.with(|it| *it.borrow_mut() = Some(Box::new(second)));
    ON_CLONE.with(|it| *it.borrow_mut() = Some(Box::new(first)));
    let revoked = std::panic::AssertUnwindSafe(|| table.revoke(&key, Revoke::Now));
    assert!(std::panic::catch_unwind(revoked).is_err());
    assert!(lease.check().is_err(), "it is over");
    assert!(ends.try_recv().is_some(), "and nobody was told: {:?}", table.stats());
}

/// A key that takes its time when it is cloned takes nothing off the term.
#[test]
fn a_term_counts_from_the_hand_over() {
    let clock = ManualClock::new();
    let table: LeaseTable<Hooked, _, _> = LeaseTable::<Hooked>::builder()
        .events(Causes::ALL)
        .clock(clock.clone())
        .sweep_by_hand()
        .build()
        .unwrap();
    let (key, term) = (Hooked(1), Duration::from_secs(5));
    let lease = table.try_acquire(&key, HolderId::mint(), term).unwrap();
    let mut next = Box::pin(table.acquire_async(&key, HolderId::mint(), term));
    assert!(poll(next.as_mut()).is_pending());
    let slow = move || clock.advance(Duration::from_secs(4));
    ON_CLONE.with(|it| *it.borrow_mut() = Some(Box::new(slow)));
    lease.release().unwrap();
    let Poll::Ready(Ok(lease)) = poll(next.as_mut()) else { panic!("not granted") };
    assert_eq!(lease.remaining(), term);
}

/// A lapse that nobody swept yet is found by a try, which wakes who is next: while that blocks, memory is used again.
#[test]
fn no_pin_is_held_while_a_waker_runs() {
    struct Blocks(std::sync::Mutex<mpsc::Receiver<()>>, mpsc::SyncSender<()>);
    impl std::task::Wake for Blocks {
        fn wake(self: Arc<Self>) {
            self.1.send(()).unwrap();
            let _ = self.0.lock().unwrap().recv();
        }
    }
    let clock = ManualClock::new();
    let table = LeaseTable::<u64>::builder()
        .clock(clock.clone())
        .retention(Duration::from_millis(1))
        .sweep_by_hand()
        .build()
        .unwrap();
    let term = Duration::from_secs(5);
    std::mem::forget(table.try_acquire(&1, HolderId::mint(), term).unwrap());
    let (go, wait) = mpsc::channel();
    let (tell, told) = mpsc::sync_channel(1);
    let waker: Waker = Arc::new(Blocks(std::sync::Mutex::new(wait), tell)).into();
    let mut next = Box::pin(table.acquire_async(&1, HolderId::mint(), 1000 * term));
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    clock.advance(2 * term);
    std::thread::scope(|scope| {
        scope.spawn(|| drop(table.try_acquire(&1, HolderId::mint(), term)));
        told.recv().unwrap();
        let churn = |from: u64, n: u64| {
            for key in from..from + n {
                drop(table.try_acquire(&key, HolderId::mint(), term));
                if key % 50 == 0 {
                    clock.advance(term);
                    while table.sweep(1000).unwrap().more {}
                }
            }
            table.memory_bytes()
        };
        let (first, last) = (churn(1000, 20_000), churn(100_000, 80_000));
        let _ = go.send(());
        assert!(last < 2 * first, "{first} {last}: no page is used again");
    });
}
