//! What it takes until who waits goes on: threads, tasks, and a thousand at once.

use std::future::Future;
use std::hint::{black_box, spin_loop};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{LeaseTable, Resource};
use parking_lot::MutexGuard;

use crate::leases::{TERM, holder};
use crate::measure::{Figure, Pace, Side, compare, quantile};
use crate::report::Report;

/// For so long a thread keeps what another one waits for: until that has surely parked.
const HOLD: Duration = Duration::from_micros(30);

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        spin_loop();
    }
}

/// The median time from just before a release to the other thread's return from its acquisition, of two
/// threads that pass a thing to and fro.
fn to_and_fro<G>(
    times: usize,
    acquire: impl Fn(usize) -> G + Sync,
    release: impl Fn(G) + Sync,
) -> f64 {
    let (start, released) = (Instant::now(), AtomicU64::new(0));
    let now = || start.elapsed().as_nanos() as u64;
    let run = |me: usize| {
        let mut took = Vec::with_capacity(times);
        for _ in 0..times {
            let held = acquire(me);
            let back = now();
            // Relaxed: what is passed on orders it. If the other thread did not come in time, it says nothing.
            let by = released.load(Ordering::Relaxed);
            if by % 2 != me as u64 {
                took.push(back - by / 2);
            }
            spin(HOLD);
            released.store(now() * 2 + me as u64, Ordering::Relaxed);
            release(held);
        }
        took
    };
    let took = thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        let own = run(0);
        [own, other.join().expect("a measured thread")].concat()
    });
    // The first ones found it free.
    quantile(&mut took.into_iter().map(|nanos| nanos as f64).collect::<Vec<_>>(), 0.5)
}

fn threads(report: &mut Report, pace: Pace) {
    let name = "handover/parking_lot_fair";
    if !report.wants(name) {
        return;
    }
    let (rounds, times) = (pace.repetitions.max(7), 500);
    let table = LeaseTable::<u64>::new();
    let mutex = parking_lot::Mutex::new(());
    let (mut ours, mut theirs) = (vec![], vec![]);
    for round in 0..2 * rounds {
        if round % 2 == 0 {
            let acquire = |me| table.acquire(&1, holder(me), TERM).expect("it is passed on");
            ours.push(to_and_fro(times, acquire, |lease| lease.release().expect("held")));
        } else {
            theirs.push(to_and_fro(times, |_| mutex.lock(), MutexGuard::unlock_fair));
        }
    }
    report.times(name, Figure::of(&ours, &theirs));
}

/// A runtime with a thread for each task.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).build().expect("threads")
}

/// Two tasks, each of which holds the thing while it lets the other one run: so that finds it held, and waits.
fn two_tasks<F: Future<Output = ()> + Send + 'static>(
    runtime: &tokio::runtime::Runtime,
    task: impl Fn(usize) -> F,
) -> Duration {
    let start = Instant::now();
    let tasks = [task(0), task(1)].map(|task| runtime.spawn(task));
    for task in tasks {
        runtime.block_on(task).expect("a measured task");
    }
    start.elapsed()
}

fn tasks(report: &mut Report, pace: Pace) {
    let name = "handover_async/tokio_mutex";
    if !report.wants(name) {
        return;
    }
    let runtime = runtime();
    let table = LeaseTable::<u64>::new();
    let resource = Arc::new(table.resource(&1).expect("a new table"));
    let mutex = Arc::new(tokio::sync::Mutex::new(()));
    let leases = |times: u64| {
        two_tasks(&runtime, |me| {
            let resource: Arc<Resource<u64>> = resource.clone();
            async move {
                for _ in 0..times {
                    let lease = resource.acquire_async(holder(me), TERM).await;
                    let lease = lease.expect("it is passed on");
                    tokio::task::yield_now().await;
                    lease.release().expect("held");
                }
            }
        })
    };
    let guards = |times: u64| {
        two_tasks(&runtime, |_| {
            let mutex = mutex.clone();
            async move {
                for _ in 0..times {
                    let guard = mutex.lock().await;
                    tokio::task::yield_now().await;
                    drop(guard);
                }
            }
        })
    };
    let sides = vec![
        Side::new("ours", |round| leases(round.operations / 2)),
        Side::new(name, |round| guards(round.operations / 2)),
    ];
    for (name, figure) in compare(sides, pace) {
        report.times(name, figure);
    }
}

/// Nanoseconds for each of so many tasks that wait for one resource: to queue, to be granted, to be done.
fn crowd(waiters: usize) -> f64 {
    let table = LeaseTable::<u64>::new();
    let mut cx = Context::from_waker(Waker::noop());
    let first = table.try_acquire(&1, holder(0), TERM).expect("a new table");
    let start = Instant::now();
    let mut futures: Vec<_> =
        (0..waiters).map(|_| table.acquire_async(&1, holder(1), TERM)).collect();
    for future in &mut futures {
        assert!(Pin::new(future).poll(&mut cx).is_pending());
    }
    first.release().expect("held");
    for future in &mut futures {
        let done = Pin::new(future).poll(&mut cx);
        let core::task::Poll::Ready(Ok(lease)) = done else { panic!("it was its turn") };
        black_box(lease.token());
        lease.release().expect("held");
    }
    start.elapsed().as_nanos() as f64 / waiters as f64
}

/// A thousand waiters against a hundred: each takes as long, if the whole is linear.
fn crowds(report: &mut Report, pace: Pace) {
    let name = "waiters_1000/waiters_100";
    if !report.wants(name) {
        return;
    }
    let rounds = pace.repetitions.max(11);
    let (mut many, mut few) = (vec![], vec![]);
    for _ in 0..rounds {
        many.push(crowd(1000));
        few.push(crowd(100));
    }
    report.times(name, Figure::of(&many, &few));
}

fn memory(report: &mut Report) {
    let name = "bytes_per_waiter";
    if !report.wants(name) {
        return;
    }
    let table = LeaseTable::<u64>::new();
    let mut cx = Context::from_waker(Waker::noop());
    let _first = table.try_acquire(&1, holder(0), TERM).expect("a new table");
    let before = table.memory_bytes();
    // As many as the lists have room for when they have grown.
    let mut futures: Vec<_> =
        (0..1 << 16).map(|_| table.acquire_async(&1, holder(1), TERM)).collect();
    for future in &mut futures {
        assert!(Pin::new(future).poll(&mut cx).is_pending());
    }
    let lists = (table.memory_bytes() - before) as f64 / futures.len() as f64;
    report.amount(name, "bytes", lists + size_of_val(&futures[0]) as f64);
}

pub(crate) fn handover(report: &mut Report, pace: Pace) {
    threads(report, pace);
    tasks(report, pace);
    crowds(report, pace);
    memory(report);
}
