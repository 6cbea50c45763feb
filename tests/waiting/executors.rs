//! The futures under several executors: a runtime of one thread, one of several, a plain `block_on`, and tasks that
//! move between threads.

use async_executor::Executor;
use leasehold::{HolderId, LeaseTable};
use tokio::runtime;

use super::*;

const TASKS: u64 = 8;
const ROUNDS: u64 = 100;

/// Excludes others, and says how often it was there.
async fn work(table: LeaseTable<u64>, inside: Arc<AtomicU64>, total: Arc<AtomicU64>, n: u64) {
    for round in 0..ROUNDS {
        let id = HolderId::mint();
        if (round + n).is_multiple_of(3) {
            let leases = table.acquire_all_async(&[2, 1, 3], id, HOUR).await.unwrap();
            assert_eq!(leases.len(), 3);
            visit(&inside, &total).await;
        } else if (round + n) % 3 == 1 {
            let lease = table.acquire_owned_async(&1, id, HOUR).await.unwrap();
            visit(&inside, &total).await;
            lease.release().unwrap();
        } else {
            let lease = table.acquire_async(&1, id, HOUR).await.unwrap();
            visit(&inside, &total).await;
            lease.release().unwrap();
        }
    }
}

async fn visit(inside: &AtomicU64, total: &AtomicU64) {
    assert_eq!(inside.fetch_add(1, SeqCst), 0);
    // The others get a turn meanwhile, and find it held.
    Yield(false).await;
    total.fetch_add(1, SeqCst);
    assert_eq!(inside.fetch_sub(1, SeqCst), 1);
}

struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Runs the tasks by what an executor does, and looks at what they did.
fn runs(run: impl FnOnce(Vec<Pin<Box<dyn Future<Output = ()> + Send>>>) + Send + 'static) {
    watched(move || {
        let table: LeaseTable<u64> = LeaseTable::new();
        let (inside, total) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let task = |n| {
            let work = work(table.clone(), inside.clone(), total.clone(), n);
            Box::pin(work) as Pin<Box<dyn Future<Output = ()> + Send>>
        };
        let tasks = (0..TASKS).map(task).collect();
        // Held until all of them wait: how often they meet after that is up to the executor.
        let first = table.try_acquire_owned(&1, HolderId::mint(), HOUR).unwrap();
        std::thread::scope(|scope| {
            let table = &table;
            scope.spawn(move || {
                let waiting = || table.waiting().iter().map(|it| it.waiters.len() as u64).sum();
                wait_for("all of them", || TASKS == waiting());
                first.release().unwrap();
            });
            run(tasks);
        });
        assert_eq!(total.load(SeqCst), TASKS * ROUNDS);
        assert!(table.is_empty() && table.waiting().is_empty());
        assert!(table.stats().waits >= TASKS);
    });
}

#[test]
fn on_a_runtime_of_one_thread() {
    runs(|tasks| {
        let runtime = runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}

#[test]
fn on_a_runtime_of_several_threads() {
    runs(|tasks| {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}

#[test]
fn on_an_executor_that_threads_share() {
    runs(|tasks| {
        let executor = Executor::new();
        let tasks: Vec<_> = tasks.into_iter().map(|task| executor.spawn(task)).collect();
        let (stop, stopped) = (Arc::new(AtomicU64::new(0)), TASKS);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (executor, stop) = (&executor, stop.clone());
                scope.spawn(move || {
                    pollster::block_on(executor.run(async {
                        while stop.load(SeqCst) < stopped {
                            Yield(false).await;
                        }
                    }));
                });
            }
            for task in tasks {
                pollster::block_on(task);
                stop.fetch_add(1, SeqCst);
            }
        });
    });
}

#[test]
fn each_on_a_thread_of_its_own() {
    runs(|tasks| {
        std::thread::scope(|scope| {
            for task in tasks {
                scope.spawn(|| pollster::block_on(task));
            }
        });
    });
}

/// A time-out as the runtime's users make one: by dropping the future.
#[test]
fn inv_30_a_time_out_of_the_runtime_drops_the_future() {
    watched(|| {
        let table: LeaseTable<u64> = LeaseTable::new();
        let runtime = runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let lease = table.acquire_async(&1, holder(1), HOUR).await.unwrap();
            let wait = table.acquire_async(&1, holder(2), HOUR);
            assert!(tokio::time::timeout(MS, wait).await.is_err());
            let wait = table.acquire_all_async(&[2, 1, 3], holder(2), HOUR);
            assert!(tokio::time::timeout(MS, wait).await.is_err());
            assert!(table.waiting().is_empty() && table.len() == 1);
            assert_eq!(lease.check(), Ok(lease.token()));
        });
    });
}
