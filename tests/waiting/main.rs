//! Waiting for leases. On clocks that are moved by hand, and futures that are polled by hand, wherever that will
//! do; threads wait for what must happen, up to a minute, and never claim that something happened soon.
//!
//! - `order`: 15, 16, 34, 35: first come, first served, however a lease ends.
//! - `pages`: 12, 15, 35: queues outlive their slots and pages. 43: waiting takes no memory that stays.
//! - `futures`: 29, 30, 31, 36: futures that are dropped, forgotten, moved to another task.
//! - `wakers`: 32, 37: wakers that panic, block, and use the table.
//! - `blocking`: 16, 20, 21, 33, 35: threads that wait, and time-outs.
//! - `keys`: 38: keys whose code panics while somebody waits.
//! - `all`, `all_threads`: several resources at once.
//! - `closing`: 39, 40: the end of the table.
//! - `reports`: who waits for whom.
//! - `executors`: the futures under several of them.
#![cfg(not(leasehold_loom))]

#[path = "../common/mod.rs"]
mod common;

mod all;
mod all_threads;
mod blocking;
mod closing;
#[cfg(not(leasehold_tiny))]
mod executors;
mod futures;
mod keys;
mod order;
mod pages;
mod reports;
mod wakers;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use common::*;
use leasehold::{HolderId, Lease, ManualClock, OwnedLease, WaitError};

type Guard<'t, K = u64> = Lease<'t, K, leasehold::DefaultHashBuilder, ManualClock>;
type Owned<K = u64> = OwnedLease<K, leasehold::DefaultHashBuilder, ManualClock>;

/// A minute is for the case that it never happens: then the test fails instead of hanging.
const LONG: Duration = Duration::from_secs(60);
const MS: Duration = Duration::from_millis(1);

/// A table that nobody sweeps but the test.
fn by_hand<K: leasehold::Key>() -> (Table<K>, ManualClock) {
    let clock = ManualClock::new();
    (build(&clock, |setup| setup.shards(1).sweep_by_hand()), clock)
}

/// Polls with a waker that does nothing.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_by(future, Waker::noop())
}

fn poll_by<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[track_caller]
fn is_pending<F: Future + Unpin>(future: &mut F) {
    assert!(poll(future).is_pending(), "it waits");
}

#[track_caller]
fn granted<T, F: Future<Output = Result<T, WaitError>> + Unpin>(future: &mut F) -> T {
    match poll(future) {
        Poll::Ready(Ok(lease)) => lease,
        Poll::Ready(Err(error)) => panic!("{error}"),
        Poll::Pending => panic!("it still waits"),
    }
}

/// A waker that counts.
#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Count {
    fn new() -> (Arc<Self>, Waker) {
        let count = Arc::<Self>::default();
        (count.clone(), Waker::from(count))
    }

    fn get(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

/// Who waits, in order.
fn queue(table: &Table, key: u64) -> Vec<HolderId> {
    table.waiters(&key).into_iter().map(|waiter| waiter.holder).collect()
}

fn holder_of(table: &Table, key: u64) -> Option<HolderId> {
    table.inspect(&key).and_then(|info| info.holder)
}

/// Waits until it is so.
#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let give_up = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < give_up, "waited for: {what}");
        std::thread::sleep(MS);
    }
}

/// Runs a test in a thread of its own, and fails if it does not come to an end.
#[track_caller]
fn watched(test: impl FnOnce() + Send + 'static) {
    let (tell, done) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let _tell = tell;
        test();
    });
    let hangs = matches!(done.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Timeout));
    assert!(!hangs, "it hangs");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
