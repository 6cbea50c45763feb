//! Single operations, on one thread: `cargo bench --bench lease`.
//!
//! `clock` and `floor` are what the operations cannot do without; the peers of `ratios` stand beside
//! the operations that they have, too.

#[path = "../examples/ratios/floor.rs"]
mod floor;
#[expect(dead_code, reason = "the other benches and `ratios` need the rest")]
#[path = "../examples/ratios/leases.rs"]
mod leases;
#[path = "../examples/ratios/peers.rs"]
mod peers;

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use leasehold::{Clock, LeaseTable, QuantaClock};

use floor::Floor;
use leases::{Keys, Leases, TERM, holder, key};
use peers::{Dashmap, Mutex64, Papaya, Scc};

/// Through a lease or a resolved resource: no key is looked up.
fn handles(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("handle");
    let clock = QuantaClock::default();
    group.bench_function("clock", |bencher| bencher.iter(|| clock.now()));
    let mut floor = Floor::default();
    group.bench_function("floor", |bencher| bencher.iter(|| floor.pass()));

    let table = LeaseTable::<u64>::new();
    let lease = table.try_acquire(&key(0), holder(0), TERM).expect("a new table");
    group.bench_function("check", |bencher| bencher.iter(|| lease.check()));
    group.bench_function("renew", |bencher| bencher.iter(|| lease.renew(TERM)));

    let resource = table.resource(&key(1)).expect("a new table");
    group.bench_function("grant_release_resource", |bencher| {
        bencher.iter(|| resource.try_acquire(holder(0), TERM).map(|lease| lease.token()));
    });
    group.finish();
}

/// By key, whether or not somebody holds it.
fn inspect(criterion: &mut Criterion) {
    let table = LeaseTable::<u64>::with_room(16);
    table.hold(16, holder(0));
    let mut keys = Keys::new(0..16, 0, 0);
    criterion.bench_function("inspect", |bencher| bencher.iter(|| table.inspect(&keys.draw())));
}

/// By key, of few keys and of many.
fn grant_release(criterion: &mut Criterion) {
    for keys in [16, 1_000_000] {
        let mut group = criterion.benchmark_group(format!("grant_release/{keys}"));
        grants::<LeaseTable<u64>>(&mut group, keys);
        grants::<Dashmap>(&mut group, keys);
        grants::<Scc>(&mut group, keys);
        grants::<Papaya>(&mut group, keys);
        grants::<Mutex64>(&mut group, keys);
        group.finish();
    }
}

fn grants<L: Leases>(group: &mut BenchmarkGroup<'_, WallTime>, keys: usize) {
    group.bench_function(L::NAME, |bencher| {
        let leases = L::with_room(keys);
        leases.fill(keys);
        let mut keys = Keys::new(0..keys, 0, 0);
        bencher.iter(|| leases.grant_and_release(keys.draw(), holder(0)));
    });
}

/// By key, of keys that somebody else holds.
fn refusal(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("refusal/16");
    refusals::<LeaseTable<u64>>(&mut group);
    refusals::<Dashmap>(&mut group);
    group.finish();
}

fn refusals<L: Leases>(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.bench_function(L::NAME, |bencher| {
        let leases = L::with_room(16);
        leases.hold(16, holder(1));
        let mut keys = Keys::new(0..16, 0, 0);
        bencher.iter(|| leases.grant_and_release(keys.draw(), holder(0)));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2));
    targets = handles, inspect, grant_release, refusal
}
criterion_main!(benches);
