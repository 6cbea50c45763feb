//! Real threads over few keys, with a ledger beside the table. In the build with `leasehold_tiny`
//! (pages of six slots, stamps of three bits) pages are replaced, split and used up all the time.
//!
//! - 1: at most one valid lease on a resource at any tick.
//! - 2: tokens rise, as every thread sees them.
//! - 17: a grant is reported only if it was won, a refusal names what stood in the way.
//! - 18: also for threads whose clocks differ.
//! - 22: no lease ends before its deadline, unless somebody ended it.
//!
//! `LEASEHOLD_SEED` replays one seed, as far as threads can be replayed; `LEASEHOLD_FULL=1` runs longer.
#![cfg(not(leasehold_loom))]

mod common;

use std::time::Duration;

use common::ledger::{Entry, Ledger};
use common::*;
use leasehold::{
    AcquireError, Clock, DefaultHashBuilder, Grant, Key, ManualClock, OwnedLease, Resource, Revoke,
};

type Owned<K> = OwnedLease<K, DefaultHashBuilder, ManualClock>;

/// A key that is a number, in some form.
trait Numbered: Key {
    fn of(number: u64) -> Self;
    fn number(&self) -> u64;
}

/// Looked up without a pin.
impl Numbered for u64 {
    fn of(number: u64) -> Self {
        number
    }

    fn number(&self) -> u64 {
        *self
    }
}

/// Looked up under one, as all but integers are.
impl Numbered for String {
    fn of(number: u64) -> Self {
        number.to_string()
    }

    fn number(&self) -> u64 {
        self.parse().expect("made of a number")
    }
}

struct Plan<K> {
    seed: u64,
    threads: u64,
    keys: u64,
    operations: u64,
    /// Ticks by which a thread's clock may differ, for one operation.
    skew: i64,
    setup: fn(Setup<K>) -> Setup<K>,
}

impl<K> Clone for Plan<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Plan<K> {}

struct Worker<'a, K: Key> {
    plan: Plan<K>,
    number: u64,
    table: &'a Table<K>,
    clock: &'a ManualClock,
    ledger: &'a Ledger,
    resources: &'a [Resource<K, DefaultHashBuilder, ManualClock>],
    rng: Rng,
    leases: Vec<(u64, Owned<K>)>,
    grants: Vec<(u64, Grant)>,
    churned: u64,
}

impl<K: Numbered> Worker<'_, K> {
    fn run(mut self) -> u64 {
        for _ in 0..self.plan.operations {
            let skew = self.plan.skew;
            let skew = (skew > 0).then(|| self.rng.below(2 * skew as u64 + 1) as i64 - skew);
            let skew = skew.map(ManualClock::skew_this_thread);
            self.step();
            drop(skew);
        }
        while !self.leases.is_empty() {
            self.release();
        }
        self.churned
    }

    fn step(&mut self) {
        match self.rng.below(32) {
            0..=9 => self.acquire(),
            10..=13 => self.check(),
            14..=17 => self.renew(),
            18..=22 => self.release(),
            23 => self.convert(),
            24 => self.revoke(),
            25 => self.inspect(),
            26 => self.clock.advance_ticks(self.rng.below(4_000_000)),
            27 => {
                self.grants.pop();
            }
            28 if self.rng.one_in(8) => self.iterate(),
            29 | 30 => self.churn(),
            _ => {}
        }
    }

    fn acquire(&mut self) {
        let key = self.rng.below(self.plan.keys);
        let owner = holder(1 + self.number);
        let term = Duration::from_micros(1 + self.rng.below(5_000_000));
        let before = self.ledger.before(key);
        let asked_at = self.clock.now();
        let outcome = if self.rng.one_in(2) {
            self.resources[key as usize].try_acquire_owned(owner, term)
        } else {
            self.table.try_acquire_owned(&K::of(key), owner, term)
        };
        match outcome {
            Ok(lease) => {
                let token = lease.token();
                before.grants(token);
                let deadline = asked_at + term.as_micros() as u64;
                let granted_by = self.clock.now();
                let (holder, valid_at, ended) = (owner, asked_at, false);
                let entry = Entry { token, holder, granted_by, valid_at, deadline, ended };
                self.ledger.granted(key, entry);
                self.supersede(key, token);
                self.leases.push((key, lease));
            }
            Err(AcquireError::Held(held)) => {
                before.refuses(held.token);
                self.ledger.saw(key, held.token, held.holder);
            }
            Err(AcquireError::Full { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }

    /// This thread's earlier leases of the key are over, as it is granted anew.
    fn supersede(&mut self, key: u64, newest: leasehold::Token) {
        let leases = self.leases.iter().map(|(of, lease)| (*of, lease.token()));
        let grants = self.grants.iter().map(|(of, grant)| (*of, grant.token()));
        for (_, token) in leases.chain(grants).filter(|&(of, t)| of == key && t < newest) {
            self.ledger.is_over(key, token);
        }
    }

    fn a_lease(&mut self) -> Option<usize> {
        let n = self.leases.len() as u64;
        (n > 0).then(|| self.rng.below(n) as usize)
    }

    fn check(&mut self) {
        let Some(n) = self.a_lease() else { return };
        let (key, lease) = &self.leases[n];
        let (before, asked_at) = (self.ledger.before(*key), self.clock.now());
        if lease.check().is_ok() {
            before.allows(lease.token());
            self.ledger.update(*key, lease.token(), |e| e.valid_at = e.valid_at.max(asked_at));
        } else {
            self.ledger.is_over(*key, lease.token());
        }
    }

    fn renew(&mut self) {
        let Some(n) = self.a_lease() else { return };
        let term = 1 + self.rng.below(5_000_000);
        let (key, lease) = &self.leases[n];
        let (before, asked_at) = (self.ledger.before(*key), self.clock.now());
        if lease.renew(Duration::from_micros(term)).is_ok() {
            before.allows(lease.token());
            self.ledger.update(*key, lease.token(), |entry| {
                entry.valid_at = entry.valid_at.max(asked_at);
                entry.deadline = entry.deadline.max(asked_at + term);
            });
        }
    }

    fn release(&mut self) {
        let Some(n) = self.a_lease() else { return };
        let (key, lease) = self.leases.swap_remove(n);
        let (before, token) = (self.ledger.before(key), lease.token());
        // Before the call, as the next one may be granted before it returns.
        self.ledger.update(key, token, |entry| entry.ended = true);
        if lease.release().is_ok() {
            before.refuses(token);
        }
        self.ledger.is_over(key, token);
    }

    /// From a guard to a value, or from a value to a guard.
    fn convert(&mut self) {
        if let Some(n) = self.a_lease()
            && self.rng.one_in(2)
        {
            let (key, lease) = self.leases.swap_remove(n);
            self.grants.push((key, lease.into_grant()));
        } else if let Some((key, grant)) = self.grants.pop() {
            let before = self.ledger.before(key);
            if let Ok(lease) = OwnedLease::from_grant(self.table, grant) {
                before.allows(grant.token());
                self.leases.push((key, lease));
            }
        }
    }

    fn revoke(&mut self) {
        let key = self.rng.below(self.plan.keys);
        let before = self.ledger.before(key);
        let now = self.rng.one_in(2);
        let how = if now { Revoke::Now } else { Revoke::After(SEC) };
        if let Ok(info) = self.table.revoke(&K::of(key), how) {
            before.allows(info.token);
            self.ledger.revoked(key, info.token);
            self.ledger.saw(key, info.token, info.holder);
            if now {
                self.ledger.is_over(key, info.token);
            }
        }
    }

    fn inspect(&mut self) {
        let key = self.rng.below(self.plan.keys);
        let before = self.ledger.before(key);
        if let Some(info) = self.table.inspect(&K::of(key)) {
            before.allows(info.token);
            self.ledger.saw(key, info.token, info.holder);
        }
    }

    fn iterate(&mut self) {
        let keys = 0..self.plan.keys;
        let before: Vec<_> = keys.map(|key| self.ledger.before(key)).collect();
        let mut seen = vec![None; before.len()];
        let numbered = self.table.iter().map(|(key, info)| (key.number(), info));
        for (key, info) in numbered.filter(|(key, _)| *key < self.plan.keys) {
            // Twice only if it was granted anew meanwhile, in another slot of the page.
            let earlier = seen[key as usize].replace(info.token);
            assert!(earlier < Some(info.token), "{:?} came after {earlier:?}", info.token);
            before[key as usize].allows(info.token);
            self.ledger.saw(key, info.token, info.holder);
        }
    }

    /// New keys, so that pages fill.
    fn churn(&mut self) {
        for _ in 0..SLOTS / 2 {
            self.churned += 1;
            let key = (1 + self.number) << 40 | self.churned;
            match self.table.try_acquire(&K::of(key), holder(1 + self.number), TERM) {
                Ok(lease) => drop(lease),
                Err(AcquireError::Full { .. }) => self.churned -= 1,
                Err(other) => panic!("{other}"),
            }
        }
    }
}

fn run<K: Numbered>(plan: Plan<K>) {
    let clock = ManualClock::new();
    let table = build(&clock, plan.setup);
    let ledger = Ledger::new(plan.keys as usize);
    let resource = |key| table.resource(&K::of(key)).expect("there is room for these");
    let resources: Vec<_> = (0..plan.keys).map(resource).collect();
    let churned: u64 = std::thread::scope(|s| {
        let spawn = |number| {
            let (table, clock, ledger) = (&table, &clock, &ledger);
            let resources = resources.as_slice();
            let rng = Rng::new(plan.seed << 8 | number);
            let (leases, grants, churned) = (Vec::new(), Vec::new(), 0);
            let worker = Worker {
                plan,
                number,
                table,
                clock,
                ledger,
                resources,
                rng,
                leases,
                grants,
                churned,
            };
            s.spawn(move || worker.run())
        };
        let workers: Vec<_> = (0..plan.threads).map(spawn).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker panicked")).sum()
    });
    ledger.audit(plan.skew == 0);
    assert_eq!(table.stats().grants, ledger.grants() + churned);
    settle_accounts(&table, &clock, plan.keys);
}

/// Every lease ended in exactly one way, which is known once somebody asked for each resource again.
fn settle_accounts<K: Numbered>(table: &Table<K>, clock: &ManualClock, keys: u64) {
    clock.advance(100 * DAY);
    for key in 0..keys {
        table.try_acquire(&K::of(key), holder(77), TERM).expect("all is over").release().unwrap();
    }
    let stats = table.stats();
    let ended = stats.releases + stats.lapses + stats.revocations + stats.superseded;
    assert_eq!(stats.grants, ended, "{stats:?}");
    assert!(table.is_empty());
}

fn run_seeds<K: Numbered>(plan: Plan<K>) {
    let seeds = if full() { 200 } else { 5 };
    let only = std::env::var("LEASEHOLD_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in only.map_or(0..seeds, |seed: u64| seed..seed + 1) {
        println!("LEASEHOLD_SEED={seed}");
        run(Plan { seed, ..plan });
    }
}

fn plan<K: Key>() -> Plan<K> {
    Plan { seed: 0, threads: 2, keys: 2, operations: 4000, skew: 0, setup: |s| s.shards(1) }
}

#[test]
fn inv_01_two_threads_on_two_keys() {
    run_seeds::<u64>(plan());
    run_seeds::<String>(plan());
}

#[test]
fn inv_01_four_threads_on_one_key() {
    run_seeds::<u64>(Plan { threads: 4, keys: 1, operations: 2500, ..plan() });
    run_seeds::<String>(Plan { threads: 4, keys: 1, operations: 1000, ..plan() });
}

#[test]
fn inv_01_three_threads_on_pages_that_split() {
    run_seeds::<u64>(Plan { threads: 3, keys: SLOTS, ..plan() });
    run_seeds::<String>(Plan { threads: 3, keys: SLOTS, operations: 1000, ..plan() });
}

#[test]
fn inv_01_without_retention_everything_idle_is_forgotten() {
    let setup: fn(Setup<u64>) -> Setup<u64> = |s| s.shards(1).retention(Duration::ZERO);
    run_seeds(Plan { threads: 3, keys: 3, setup, ..plan() });
    let setup: fn(Setup<String>) -> Setup<String> = |s| s.shards(1).retention(Duration::ZERO);
    run_seeds(Plan { threads: 3, keys: 3, operations: 1000, setup, ..plan() });
}

#[test]
fn inv_01_with_little_room_idle_resources_are_evicted() {
    let setup: fn(Setup<u64>) -> Setup<u64> = |s| s.shards(2).capacity_max(4);
    run_seeds(Plan { threads: 3, keys: 4, operations: 2000, setup, ..plan() });
}

#[test]
fn inv_18_clocks_that_differ_between_threads() {
    run_seeds::<u64>(Plan { threads: 3, keys: 2, skew: 2_000_000, ..plan() });
    run_seeds::<String>(Plan { threads: 3, keys: 2, skew: 2_000_000, operations: 1000, ..plan() });
}
