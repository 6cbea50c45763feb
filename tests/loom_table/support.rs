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

/// As [`Identity`], but keys that are the same modulo 100 have one hash.
#[derive(Clone, Default)]
pub(crate) struct Collide;

#[derive(Default)]
pub(crate) struct CollidingHasher(u64);

impl BuildHasher for Collide {
    type Hasher = CollidingHasher;

    fn build_hasher(&self) -> CollidingHasher {
        CollidingHasher::default()
    }
}

impl Hasher for CollidingHasher {
    fn finish(&self) -> u64 {
        self.0 % 100
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

type Hook = (u64, Box<dyn FnOnce() + Send>);

/// As [`Identity`], with something to do when a key is hashed: what happens in the midst of an
/// operation, without a schedule that has to be found.
#[derive(Clone, Default)]
pub(crate) struct Hooked(Arc<Mutex<Option<Hook>>>);

impl Hooked {
    /// The next time that the key is hashed, `act`.
    pub(crate) fn when(&self, key: u64, act: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some((key, Box::new(act)));
    }
}

pub(crate) struct HookedHasher(Hooked, u64);

impl BuildHasher for Hooked {
    type Hasher = HookedHasher;

    fn build_hasher(&self) -> HookedHasher {
        HookedHasher(self.clone(), 0)
    }
}

impl Hasher for HookedHasher {
    fn finish(&self) -> u64 {
        self.1
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64")
    }

    fn write_u64(&mut self, key: u64) {
        self.1 = key;
        let hook = self.0.0.lock().unwrap().take_if(|(when, _)| *when == key);
        if let Some((_, act)) = hook {
            act();
        }
    }
}

pub(crate) type Table = LeaseTable<u64, Identity, ManualClock>;

pub(crate) const TERM: Duration = Duration::from_millis(10);

pub(crate) fn table(clock: &ManualClock) -> Table {
    table_with(Identity, clock)
}

pub(crate) fn table_with<S: BuildHasher + Send + Sync + 'static>(
    hasher: S,
    clock: &ManualClock,
) -> LeaseTable<u64, S, ManualClock> {
    LeaseTable::builder()
        .shards(1)
        .hasher(hasher)
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
const SECS: u64 = 15;

/// Explores a model, and makes sure that nothing but `expected` is reached, and all of it if there was
/// time to explore the whole.
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
    // The clock is looked at that often.
    builder.checkpoint_interval = 500;
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
    // What was cut off may have had the rest before it.
    for outcome in expected.iter().filter(|_| whole) {
        assert!(reached.contains_key(*outcome), "{outcome} was not reached");
    }
}
