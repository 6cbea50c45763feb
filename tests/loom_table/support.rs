//! What the models share.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{HolderId, LeaseTable, ManualClock};

/// Keys are their own hashes (the table mixes them): a model's layout is the same in every execution.
#[derive(Clone, Default)]
pub(crate) struct Identity;

#[derive(Default)]
pub(crate) struct IdentityHasher(u64);

impl BuildHasher for Identity {
    type Hasher = IdentityHasher;

    fn build_hasher(&self) -> IdentityHasher {
        IdentityHasher::default()
    }
}

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

pub(crate) type Table = LeaseTable<u64, Identity, ManualClock>;

pub(crate) const TERM: Duration = Duration::from_millis(10);

pub(crate) fn table(clock: &ManualClock) -> Table {
    LeaseTable::builder()
        .shards(1)
        .hasher(Identity)
        .retention(Duration::ZERO)
        .clock(clock.clone())
        .build()
        .unwrap()
}

pub(crate) fn holder(id: u64) -> HolderId {
    HolderId::new(id).unwrap()
}

/// How often each outcome was reached, over all executions.
#[derive(Clone, Default)]
pub(crate) struct Outcomes(Arc<Mutex<BTreeMap<String, u64>>>);

impl Outcomes {
    pub(crate) fn reach(&self, outcome: impl ToString) {
        *self.0.lock().unwrap().entry(outcome.to_string()).or_default() += 1;
    }
}

/// How long a model is explored, unless `LEASEHOLD_LOOM_SECS` says otherwise. The largest are not done
/// by then, and say so.
const SECS: u64 = 25;

/// Explores a model, and makes sure that all of `expected` was reached and nothing else.
pub(crate) fn explore(
    preemptions: usize,
    expected: &[&str],
    model: impl Fn(&Outcomes) + Send + Sync + 'static,
) {
    let outcomes = Outcomes::default();
    let secs = std::env::var("LEASEHOLD_LOOM_SECS").ok().and_then(|secs| secs.parse().ok());
    let most = Duration::from_secs(secs.unwrap_or(SECS));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = 100_000;
    builder.max_duration = Some(most);
    let reached = outcomes.clone();
    let started = std::time::Instant::now();
    builder.check(move || model(&reached));
    let took = started.elapsed();
    let whole = took < most;
    let reached = outcomes.0.lock().unwrap();
    println!("{reached:?} in {took:.1?}{}", if whole { "" } else { ", not all explored" });
    for outcome in reached.keys() {
        assert!(expected.contains(&outcome.as_str()), "{outcome} is not what the model is about");
    }
    for outcome in expected {
        assert!(reached.contains_key(*outcome), "{outcome} was not reached");
    }
}
