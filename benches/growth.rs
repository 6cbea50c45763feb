//! First-time grants from empty, kept: `cargo bench --bench growth`. The time is that of all of
//! them; what a single one may cost is in `ratios` (`grow_p999`, `grow_max`).

#[expect(dead_code, reason = "the other benches and `ratios` need the rest")]
#[path = "../examples/ratios/leases.rs"]
mod leases;
#[path = "../examples/ratios/peers.rs"]
mod peers;

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main,
};
use leasehold::LeaseTable;

use leases::{Leases, holder};
use peers::{Dashmap, Mutex64, Papaya, Scc};

const KEYS: usize = 100_000;

fn growth(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("growth");
    group.throughput(Throughput::Elements(KEYS as u64)).sample_size(20);
    grow::<LeaseTable<u64>>(&mut group);
    grow::<Dashmap>(&mut group);
    grow::<Scc>(&mut group);
    grow::<Papaya>(&mut group);
    grow::<Mutex64>(&mut group);
    group.finish();
}

fn grow<L: Leases>(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.bench_function(L::NAME, |bencher| {
        let fill = |leases: L| {
            leases.hold(KEYS, holder(0));
            // Handed back, so that its end is not measured.
            leases
        };
        bencher.iter_batched(L::empty, fill, BatchSize::PerIteration);
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3));
    targets = growth
}
criterion_main!(benches);
