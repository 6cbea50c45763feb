//! What it costs a single grant that the table grows.

use std::mem;
use std::time::Instant;

use leasehold::LeaseTable;

use crate::cells::read_clock;
use crate::leases::{Leases, holder, key};
use crate::measure::{Figure, Pace, Round, Side, quantile};
use crate::peers::Dashmap;
use crate::report::Report;

/// First-time grants, from empty.
const KEYS: usize = 1_000_000;

const P999: &str = "grow_p999/clock";
const MAX: &str = "grow_max/dashmap";

/// The slow grants while a table grows, and the slowest, each as the median over fresh repetitions
/// of both sides in turn. A single repetition's slowest grant may be one that the machine
/// interrupted; that happens to both sides, and the median leaves it out.
pub(crate) fn growth(report: &mut Report, pace: Pace) {
    if !report.wants(P999) && !report.wants(MAX) {
        return;
    }
    let (mut ours, mut theirs, mut clock) = (Tails::default(), Tails::default(), Vec::new());
    let mut read = Side::repeat("clock", read_clock());
    for repetition in 0..pace.repetitions {
        if repetition % 2 == 0 {
            ours.push(grow::<LeaseTable<u64>>());
            theirs.push(grow::<Dashmap>());
        } else {
            theirs.push(grow::<Dashmap>());
            ours.push(grow::<LeaseTable<u64>>());
        }
        clock.push(read.nanos_each(Round { number: 0, operations: 100_000 }));
    }
    report.times(P999, Figure::of(&ours.p999, &clock));
    report.times(MAX, Figure::of(&ours.max, &theirs.max));
}

/// The slow ends of some growths, in nanoseconds.
#[derive(Default)]
struct Tails {
    p999: Vec<f64>,
    max: Vec<f64>,
}

impl Tails {
    fn push(&mut self, mut nanos: Vec<f64>) {
        self.p999.push(quantile(&mut nanos, 0.999));
        self.max.push(quantile(&mut nanos, 1.0));
    }
}

/// Grants each key once, to somebody who keeps it, and says how long each took. Reading the time
/// before and after is in it, for either side alike.
fn grow<L: Leases>() -> Vec<f64> {
    let leases = L::empty();
    // Written once before, so that the pages of this list are there when it is filled.
    let mut nanos = vec![f64::MAX; KEYS];
    for (index, nanos) in nanos.iter_mut().enumerate() {
        let start = Instant::now();
        let held = leases.acquire(key(index), holder(0));
        *nanos = start.elapsed().as_nanos() as f64;
        assert!(held.is_ok(), "{}: key {index} was refused, and nobody held it", L::NAME);
        mem::forget(held);
    }
    nanos
}
