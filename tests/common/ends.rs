//! What tests of sweeps and events share.

use std::hash::BuildHasher;
use std::time::Duration;

use leasehold::{Clock, ClockGap, Ended, Key, LeaseTable, Subscription};

/// What some sweeps did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) pages: usize,
    pub(crate) lapsed: u64,
    pub(crate) replaced: u64,
    pub(crate) told: u64,
    pub(crate) panics: u64,
    pub(crate) clock_gap: Option<ClockGap>,
    pub(crate) next_in: Option<Duration>,
}

/// Sweeps until nothing is left to be done now.
pub(crate) fn sweep_all<K: Key, S: BuildHasher, C: Clock>(
    table: &LeaseTable<K, S, C>,
    budget: usize,
) -> Done {
    let mut done = Done::default();
    for _ in 0..100_000 {
        let swept = table.sweep(budget).expect("nobody else sweeps");
        done.pages += swept.pages;
        done.lapsed += swept.lapsed;
        done.replaced += swept.replaced;
        done.told += swept.told;
        done.panics += swept.panics;
        done.clock_gap = done.clock_gap.or(swept.clock_gap);
        done.next_in = swept.next_in;
        if !swept.more {
            return done;
        }
    }
    panic!("a backlog that comes to no end: {done:?}");
}

/// All that waits in a subscription.
pub(crate) fn received<K>(ends: &mut Subscription<K>) -> Vec<Ended<K>> {
    std::iter::from_fn(|| ends.try_recv()).collect()
}
