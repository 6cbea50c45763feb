//! The timer wheel by itself, beside a sorted map: `cargo bench --bench wheel`. How they stand to each
//! other with a million entries is in `ratios` (`wheel/btreemap`).

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use leasehold::wheel::{Key, Wheel};

/// As many as a table has pages with some thousand leases, and with a million.
const SIZES: [u32; 2] = [100, 20_000];
/// Terms are up to ten seconds of ticks of about a microsecond.
const TERM_MAX: u64 = 10_000_000;
/// How far a visit goes on: a millisecond.
const VISIT: u64 = 1_000;

type Map = BTreeMap<(u64, u32), u32>;

/// Terms that look random: multiples of an odd number near the golden ratio of 2^64.
fn term(number: u64) -> u64 {
    1 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % TERM_MAX
}

fn full_wheel(entries: u32) -> (Wheel<u32>, Vec<Key>) {
    let mut wheel = Wheel::starting_at(0);
    let keys = (0..entries).map(|id| wheel.insert(term(id.into()), id)).collect();
    (wheel, keys)
}

fn full_map(entries: u32) -> Map {
    (0..entries).map(|id| ((term(id.into()), id), id)).collect()
}

/// Files all, and takes all out, a millisecond at a time.
fn insert_fire(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("insert_fire");
    for entries in SIZES {
        group.throughput(Throughput::Elements(entries.into()));
        group.bench_function(BenchmarkId::new("wheel", entries), |bencher| {
            bencher.iter(|| {
                let (mut wheel, _) = full_wheel(entries);
                for now in (0..=TERM_MAX).step_by(VISIT as usize) {
                    while let Some(due) = wheel.pop_due(now) {
                        black_box(due);
                    }
                }
            });
        });
        group.bench_function(BenchmarkId::new("btreemap", entries), |bencher| {
            bencher.iter(|| {
                let mut map = full_map(entries);
                for now in (0..=TERM_MAX).step_by(VISIT as usize) {
                    while map.first_key_value().is_some_and(|(&(tick, _), _)| tick <= now) {
                        black_box(map.pop_first());
                    }
                }
            });
        });
    }
    group.finish();
}

/// What is due comes out and is filed again, as a sweep does with pages that live on. Each round
/// goes on by a millisecond.
fn steady(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("steady_visit");
    for entries in SIZES {
        let ((mut wheel, _), mut map) = (full_wheel(entries), full_map(entries));
        let mut now = 0;
        group.bench_function(BenchmarkId::new("wheel", entries), |bencher| {
            bencher.iter(|| {
                now += VISIT;
                while let Some(due) = wheel.pop_due(now) {
                    wheel.insert(now + term(now + u64::from(due.id)), due.id);
                }
            });
        });
        let mut now = 0;
        group.bench_function(BenchmarkId::new("btreemap", entries), |bencher| {
            bencher.iter(|| {
                now += VISIT;
                while let Some(first) = map.first_entry() {
                    if first.key().0 > now {
                        break;
                    }
                    let id = first.remove();
                    map.insert((now + term(now + u64::from(id)), id), id);
                }
            });
        });
    }
    group.finish();
}

/// One entry goes from one tick to another, as a page does when an earlier lease is granted in it.
fn refile(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("refile");
    for entries in SIZES {
        let ((mut wheel, keys), mut map) = (full_wheel(entries), full_map(entries));
        let mut number = 0;
        group.bench_function(BenchmarkId::new("wheel", entries), |bencher| {
            bencher.iter(|| {
                let key = keys[number % keys.len()];
                number += 1;
                wheel.refile(key, term(number as u64 * 3))
            });
        });
        let mut ticks: Vec<_> = (0..entries).map(|id| term(id.into())).collect();
        let mut number = 0;
        group.bench_function(BenchmarkId::new("btreemap", entries), |bencher| {
            bencher.iter(|| {
                let id = number % ticks.len();
                number += 1;
                let tick = term(number as u64 * 3);
                map.remove(&(ticks[id], id as u32));
                ticks[id] = tick;
                map.insert((tick, id as u32), id as u32)
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = insert_fire, steady, refile
}
criterion_main!(benches);
