//! Several resources at once, by threads and tasks that want random ones.

use std::collections::HashSet;
use std::task::Waker;
use std::thread::Thread;

use leasehold::{HolderId, LeaseTable};

use super::*;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
fn run<F: Future + Unpin>(mut future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match poll_by(&mut future, &waker) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Nobody waits for ever, whatever the order in which they name what they want; and what is held is held by one.
fn random_subsets(table: &LeaseTable<u64>, keys: u64, rounds: u64) {
    let inside: Vec<_> = (0..keys).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let inside = &inside;
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for _ in 0..rounds {
                    let wanted: Vec<u64> = (0..1 + rng.below(4)).map(|_| rng.below(keys)).collect();
                    let distinct: HashSet<u64> = wanted.iter().copied().collect();
                    let id = HolderId::mint();
                    let leases = match rng.below(4) {
                        0 => run(table.acquire_all_async(&wanted, id, HOUR)).unwrap(),
                        1 => {
                            let timeout = Duration::from_micros(rng.below(200));
                            match table.acquire_all_for(&wanted, id, HOUR, timeout) {
                                Ok(leases) => leases,
                                Err(WaitError::TimedOut(_)) => continue,
                                Err(other) => panic!("{other}"),
                            }
                        }
                        2 => {
                            // Given up after a poll or two.
                            let mut all = table.acquire_all_async(&wanted, id, HOUR);
                            let _ = poll(&mut all).map(drop);
                            continue;
                        }
                        _ => table.acquire_all(&wanted, id, HOUR).unwrap(),
                    };
                    assert_eq!(leases.len(), distinct.len());
                    for key in &distinct {
                        assert_eq!(inside[*key as usize].fetch_add(1, SeqCst), 0);
                    }
                    if rng.one_in(8) {
                        std::thread::yield_now();
                    }
                    for key in &distinct {
                        assert_eq!(inside[*key as usize].fetch_sub(1, SeqCst), 1);
                    }
                    assert!(leases.iter().all(|lease| lease.check().is_ok()));
                }
            });
        }
    });
    assert!(table.is_empty() && table.waiting().is_empty());
}

#[test]
fn random_subsets_are_no_deadlock() {
    watched(|| random_subsets(&LeaseTable::new(), 6, 400));
    watched(|| random_subsets(&LeaseTable::builder().shards(1).build().unwrap(), 3, 400));
}

/// As in the first sketch: four orders of the same three.
#[test]
fn every_order_of_the_same_resources_is_no_deadlock() {
    watched(|| {
        let table: LeaseTable<u64> = LeaseTable::new();
        std::thread::scope(|scope| {
            for order in [[1, 2, 3, 2], [3, 2, 1, 1], [2, 3, 1, 3], [1, 3, 2, 2]] {
                let table = &table;
                scope.spawn(move || {
                    for _ in 0..300 {
                        let leases = table.acquire_all(&order, HolderId::mint(), HOUR).unwrap();
                        assert_eq!(leases.len(), 3);
                        assert!(leases.iter().all(|lease| lease.check().is_ok()));
                    }
                });
            }
        });
        assert!(table.is_empty());
    });
}

/// A thread that waits renews what it holds: it holds it, by the real clock, for far longer than its term.
#[test]
fn a_thread_renews_what_it_holds_while_it_waits() {
    watched(|| {
        let table: LeaseTable<u64> = LeaseTable::builder().shards(1).build().unwrap();
        let term = Duration::from_millis(300);
        let held = [1, 2].map(|key| table.try_acquire(&key, holder(1), HOUR).unwrap());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let leases = table.acquire_all(&[1, 2], holder(2), term).unwrap();
                leases.into_iter().all(|lease| lease.release().is_ok())
            });
            wait_for("its place", || table.waiting().len() == 1);
            // Which of the two it asks for first is up to their hashes.
            let [one, two] = held;
            let (first, last, left) =
                if table.waiters(&1).is_empty() { (2, one, two) } else { (1, two, one) };
            left.release().unwrap();
            wait_for("the next place", || {
                table.waiting().iter().any(|waiting| waiting.key != first)
            });
            let before = table.stats().renewals;
            wait_for("renewals", || table.stats().renewals >= before + 5);
            last.release().unwrap();
            waits.join().unwrap();
        });
        assert!(table.waiting().is_empty());
    });
}
