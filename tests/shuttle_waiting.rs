//! Waiting, with more threads and longer runs than loom can explore: the real code under shuttle's random
//! schedulers, with pages of two slots and stamps of two bits. Run with
//! `RUSTFLAGS="--cfg leasehold_shuttle"`, in release.
//!
//! - Nobody holds what another one holds: by a plain cell, and by tokens.
//! - First come, first served: whoever a holder sees waiting is granted after it, in that order.
//! - Everybody gets on: a lost waking is a deadlock, which shuttle reports.
//! - Nothing is left: neither a waiter nor a lease, and whoever asks is granted.
#![cfg(leasehold_shuttle)]

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leasehold::{HolderId, Lease, LeaseTable, ManualClock, Revoke, WaitError};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread::{self, Thread};

const TERM: Duration = Duration::from_millis(10);
const KEYS: u64 = 2;
/// A run gives one answer: these are fixed.
const SEED: u64 = 0x1ea5e;

/// Keys are their own hashes: shuttle's runs repeat.
#[derive(Clone, Default)]
struct Identity(u64);

impl BuildHasher for Identity {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Identity {
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

type Table = LeaseTable<u64, Identity, ManualClock>;
type Guard<'t> = Lease<'t, u64, Identity, ManualClock>;

fn table(clock: &ManualClock) -> Table {
    let builder = LeaseTable::builder().shards(1).retention(TERM * 1000).sweep_by_hand();
    builder.hasher(Identity::default()).clock(clock.clone()).build().unwrap()
}

/// Runs a model many times, by both schedulers.
fn explore(runs: usize, model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    let schedulers: [Box<dyn Scheduler + Send>; 2] = [
        Box::new(RandomScheduler::new_from_seed(SEED, runs)),
        Box::new(PctScheduler::new_from_seed(SEED, 4, runs)),
    ];
    for scheduler in schedulers {
        let mut config = shuttle::Config::new();
        config.silence_warnings = true;
        let model = model.clone();
        shuttle::Runner::new(scheduler, config).run(move || model());
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn poll<F: Future + Unpin>(task: &mut F) -> Poll<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    Pin::new(task).poll(&mut Context::from_waker(&waker))
}

fn block_on<F: Future + Unpin>(mut task: F) -> F::Output {
    loop {
        if let Poll::Ready(done) = poll(&mut task) {
            return done;
        }
        thread::park();
    }
}

/// What the threads of a run found.
#[derive(Default)]
struct Findings {
    /// By key and token: who was granted.
    grants: BTreeMap<(u64, u64), u64>,
    /// By key and token: whom its holder saw waiting.
    seen: Vec<(u64, u64, Vec<u64>)>,
}

impl Findings {
    fn grant(&mut self, key: u64, lease: &Guard<'_>) {
        let known = self.grants.insert((key, lease.token().get()), lease.holder().get());
        assert!(known.is_none(), "one token, granted twice");
    }

    /// First come, first served, if nobody left the queue.
    fn assert_in_order(&self) {
        for (key, token, waiters) in &self.seen {
            let after = self.grants.range((*key, token + 1)..(*key + 1, 0));
            let granted: Vec<u64> = after.map(|(_, holder)| *holder).take(waiters.len()).collect();
            assert_eq!(granted, *waiters, "after token {token} of {key}");
        }
    }
}

struct Run {
    table: Table,
    clock: ManualClock,
    findings: Mutex<Findings>,
    /// By key: who is in there.
    inside: [AtomicU64; KEYS as usize + 1],
    running: AtomicU64,
}

impl Run {
    fn new(threads: u64) -> Arc<Self> {
        let clock = ManualClock::new();
        let inside = [const { 0 }; KEYS as usize + 1].map(AtomicU64::new);
        let (table, findings) = (table(&clock), Mutex::default());
        Arc::new(Self { table, clock, findings, inside, running: AtomicU64::new(threads) })
    }

    fn note(&self, key: u64, lease: &Guard<'_>) {
        self.findings.lock().unwrap().grant(key, lease);
    }

    /// Does something under a lease that does not lapse, and sees who waits.
    fn work(&self, key: u64, lease: &Guard<'_>) {
        self.note(key, lease);
        let inside = &self.inside[key as usize];
        let holder = lease.holder().get();
        assert_eq!(inside.swap(holder, Ordering::Relaxed), 0, "one holder");
        let waiters = self.table.waiters(&key);
        let waiters: Vec<u64> = waiters.iter().map(|waiter| waiter.holder.get()).collect();
        let entry = (key, lease.token().get(), waiters);
        self.findings.lock().unwrap().seen.push(entry);
        assert!(lease.check().is_ok());
        assert_eq!(inside.swap(0, Ordering::Relaxed), holder, "one holder");
    }

    /// Grows the table, and has pages replaced.
    fn grow(&self, key: u64) {
        drop(self.table.try_acquire(&key, HolderId::mint(), TERM).unwrap());
    }

    fn assert_over(&self) {
        assert!(self.table.waiting().is_empty(), "nobody waits");
        assert!(self.table.is_empty(), "nobody holds anything");
        for key in 1..=KEYS {
            drop(self.table.try_acquire(&key, HolderId::mint(), TERM).expect("it is free"));
        }
    }
}

fn spawn(run: &Arc<Run>, act: impl FnOnce(&Run) + Send + 'static) -> thread::JoinHandle<()> {
    let run = run.clone();
    thread::spawn(move || {
        act(&run);
        run.running.fetch_sub(1, Ordering::Relaxed);
    })
}

/// Threads and tasks that wait for two resources and never give up, while the table grows: one holder, and
/// in order.
#[test]
fn nobody_leaves() {
    explore(2000, || {
        let run = Run::new(5);
        let mut threads: Vec<_> = (0..4)
            .map(|n| {
                spawn(&run, move |run| {
                    for _ in 0..3 {
                        let (key, holder) = (thread_rng().gen_range(1..=KEYS), HolderId::mint());
                        let lease = if n % 2 == 0 {
                            run.table.acquire(&key, holder, TERM)
                        } else {
                            block_on(run.table.acquire_async(&key, holder, TERM))
                        };
                        let lease = lease.unwrap();
                        run.work(key, &lease);
                        lease.release().unwrap();
                    }
                })
            })
            .collect();
        threads.push(spawn(&run, |run| (10..14).for_each(|key| run.grow(key))));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        run.findings.lock().unwrap().assert_in_order();
        run.assert_over();
    });
}

/// Some give up: by a time-out, or by dropping their task. Others want both resources at once.
#[test]
fn some_leave() {
    explore(2000, || {
        let run = Run::new(5);
        let threads = (0..5).map(|n| {
            spawn(&run, move |run| {
                for _ in 0..2 {
                    let (key, holder) = (thread_rng().gen_range(1..=KEYS), HolderId::mint());
                    match n {
                        0 => match run.table.acquire_for(&key, holder, TERM, TERM) {
                            Ok(lease) => run.work(key, &lease),
                            Err(error) => assert!(matches!(error, WaitError::TimedOut(_))),
                        },
                        1 => {
                            let mut task = run.table.acquire_async(&key, holder, TERM);
                            for _ in 0..thread_rng().gen_range(1..4) {
                                if let Poll::Ready(lease) = poll(&mut task) {
                                    run.work(key, &lease.unwrap());
                                    break;
                                }
                                thread::yield_now();
                            }
                        }
                        2 | 3 => {
                            let keys = if n == 2 { [1, 2] } else { [2, 1] };
                            let all = run.table.acquire_all_async(&keys, holder, TERM);
                            let leases = block_on(all).unwrap();
                            keys.iter().zip(&leases).for_each(|(key, lease)| run.work(*key, lease));
                        }
                        _ => {
                            let lease = run.table.acquire(&key, holder, TERM).unwrap();
                            run.work(key, &lease);
                        }
                    }
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        run.assert_over();
    });
}

/// Leases that are revoked and lapse meanwhile: no two are valid at once, and whoever waits gets on.
#[test]
fn leases_end_early() {
    explore(1500, || {
        let run = Run::new(4);
        let mut threads: Vec<_> = (0..4)
            .map(|n| {
                spawn(&run, move |run| {
                    for _ in 0..2 {
                        let (key, holder) = (thread_rng().gen_range(1..=KEYS), HolderId::mint());
                        let lease = if n % 2 == 0 {
                            run.table.acquire(&key, holder, TERM)
                        } else {
                            block_on(run.table.acquire_async(&key, holder, TERM))
                        };
                        let lease = lease.unwrap();
                        run.note(key, &lease);
                        // Whoever is granted later finds this one over.
                        let newest = &run.inside[key as usize];
                        newest.fetch_max(lease.token().get(), Ordering::Relaxed);
                        let _ = lease.renew(TERM);
                        let over = newest.load(Ordering::Relaxed) > lease.token().get();
                        assert!(!over || lease.check().is_err(), "two holders");
                        match thread_rng().gen_range(0..3) {
                            // Left to lapse, as by one that crashed.
                            0 => drop(lease.into_grant()),
                            1 => drop(run.table.revoke(&key, Revoke::After(TERM / 2))),
                            _ => drop(lease),
                        }
                    }
                })
            })
            .collect();
        let ticker = run.clone();
        threads.push(thread::spawn(move || {
            while ticker.running.load(Ordering::Relaxed) > 0 {
                ticker.clock.advance(TERM / 4);
                let _ = ticker.table.sweep(4).unwrap();
                if thread_rng().gen_bool(0.1) {
                    let _ = ticker.table.revoke(&1, Revoke::Now);
                }
                thread::yield_now();
            }
        }));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        run.clock.advance(TERM * 2);
        while run.table.sweep(4).unwrap().more {}
        let tokens = &run.findings.lock().unwrap().grants;
        let by_holder: HashMap<_, _> = tokens.iter().map(|(at, holder)| (holder, at)).collect();
        assert_eq!(by_holder.len(), tokens.len(), "each is granted once");
        run.assert_over();
    });
}

/// A table that is closed in the midst of it: everybody is told.
#[test]
fn closed_meanwhile() {
    explore(1500, || {
        let run = Run::new(4);
        let mut threads: Vec<_> = (0..4)
            .map(|n| {
                spawn(&run, move |run| {
                    for _ in 0..2 {
                        let (key, holder) = (thread_rng().gen_range(1..=KEYS), HolderId::mint());
                        let lease = if n % 2 == 0 {
                            run.table.acquire(&key, holder, TERM)
                        } else {
                            block_on(run.table.acquire_async(&key, holder, TERM))
                        };
                        match lease {
                            Ok(lease) => run.work(key, &lease),
                            Err(error) => assert_eq!(error, WaitError::Closed),
                        }
                    }
                })
            })
            .collect();
        let closer = run.clone();
        threads.push(thread::spawn(move || closer.table.close()));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(run.table.waiting().is_empty() && run.table.is_empty());
    });
}
