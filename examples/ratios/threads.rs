//! The same operation again and again, on one thread or on several at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Does an operation so many times on this thread, and returns how long that took.
pub(crate) fn alone(operations: u64, operation: &mut impl FnMut()) -> Duration {
    repeat(operations, &Gate::new(1), operation).length()
}

/// Does an operation so many times on each of `threads` threads at once, and returns the wall time
/// from the first one's start to the last one's end.
pub(crate) fn together<F: FnMut()>(
    threads: usize,
    operations: u64,
    operation_of: impl Fn(usize) -> F + Sync,
) -> Duration {
    let gate = Gate::new(threads);
    let run = |thread| repeat(operations, &gate, &mut operation_of(thread));
    let all = thread::scope(|scope| {
        let run = &run;
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let own = run(0);
        others.into_iter().fold(own, |all, one| all.hull(one.join().expect("a measured thread")))
    });
    all.length()
}

/// Does the operation `operations` times and says when. A quarter as many go first, unmeasured: the
/// sides that ran before have filled the caches and taught the branch predictor their own ways.
fn repeat(operations: u64, gate: &Gate, operation: &mut impl FnMut()) -> Span {
    for _ in 0..operations / 4 {
        operation();
    }
    gate.pass();
    let start = Instant::now();
    for _ in 0..operations {
        operation();
    }
    Span { start, end: Instant::now() }
}

/// From when to when something ran.
#[derive(Clone, Copy)]
struct Span {
    start: Instant,
    end: Instant,
}

impl Span {
    /// From the earlier start to the later end.
    fn hull(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    fn length(self) -> Duration {
        self.end - self.start
    }
}

/// Where the threads of one part wait for each other, awake: to wake a sleeping thread takes as long
/// as a good piece of what is measured.
struct Gate {
    missing: AtomicUsize,
}

impl Gate {
    fn new(threads: usize) -> Self {
        Self { missing: AtomicUsize::new(threads) }
    }

    fn pass(&self) {
        // Relaxed, both: the gate aligns starts in time and publishes nothing.
        self.missing.fetch_sub(1, Ordering::Relaxed);
        while self.missing.load(Ordering::Relaxed) > 0 {
            // So that the others get here on a single processor, too.
            thread::yield_now();
        }
    }
}
