//! Grant and release by key on one, two and four threads: `cargo bench --bench threads`.
//!
//! The time is the wall time in which each thread does one operation: where it stays the same with
//! more threads (and as many processors), they do not hinder each other.

#[expect(dead_code, reason = "the other benches and `ratios` need the rest")]
#[path = "../examples/ratios/leases.rs"]
mod leases;
#[path = "../examples/ratios/peers.rs"]
mod peers;
#[expect(dead_code, reason = "the other benches and `ratios` need the rest")]
#[path = "../examples/ratios/threads.rs"]
mod threads;

use std::ops::Range;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use leasehold::LeaseTable;

use leases::{Keys, Leases, holder};
use peers::{Dashmap, Mutex64, Papaya, Scc};
use threads::together;

const THREADS: [usize; 3] = [1, 2, 4];

/// How many keys a thread uses.
const KEYS: usize = 1024;

/// Which keys the thread with a number uses.
type Among = fn(usize) -> Range<usize>;

/// All threads use the same keys, and refuse each other now and then.
fn shared(criterion: &mut Criterion) {
    compare(criterion, "threads/shared_keys", |_| 0..KEYS);
}

/// Each thread has keys that no other uses.
fn own(criterion: &mut Criterion) {
    compare(criterion, "threads/own_keys", |thread| thread * KEYS..(thread + 1) * KEYS);
}

fn compare(criterion: &mut Criterion, name: &str, among: Among) {
    let mut group = criterion.benchmark_group(name);
    run::<LeaseTable<u64>>(&mut group, among);
    run::<Dashmap>(&mut group, among);
    run::<Scc>(&mut group, among);
    run::<Papaya>(&mut group, among);
    run::<Mutex64>(&mut group, among);
    group.finish();
}

fn run<L: Leases>(group: &mut BenchmarkGroup<'_, WallTime>, among: Among) {
    let all_keys = THREADS[2] * KEYS;
    let leases = L::with_room(all_keys);
    leases.fill(all_keys);
    for threads in THREADS {
        group.throughput(Throughput::Elements(threads as u64));
        group.bench_function(BenchmarkId::new(L::NAME, threads), |bencher| {
            bencher.iter_custom(|operations| {
                together(threads, operations, |thread| {
                    let mut keys = Keys::new(among(thread), 0, thread);
                    let (leases, holder) = (&leases, holder(thread));
                    move || {
                        leases.grant_and_release(keys.draw(), holder);
                    }
                })
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2));
    targets = shared, own
}
criterion_main!(benches);
