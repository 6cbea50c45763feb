//! Random schedules of waiting, against a plain model with a queue for each resource.
//!
//! - 45, and with it 29 to 31, 34 and 35: who is granted, refused, woken, and how often, who holds, who waits and
//!   since when, is what the model says after every operation. A failure prints its seed and what was done;
//!   `LEASEHOLD_SEED` replays it, and `LEASEHOLD_FULL=1` tries many more.
//!
//! One thread, hashes that are the same in every run, and a clock that is moved by hand, often to the very
//! deadline of a lease. Futures are polled by hand, some by one waker and then by another.
#![cfg(not(leasehold_loom))]

#[path = "../common/mod.rs"]
mod common;
mod model;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use common::ends::sweep_all;
use common::*;
use leasehold::{
    Acquire, AcquireAll, AcquireError, AcquireOwned, Lease, ManualClock, OwnedLease, Revoke, Token,
    WaitError,
};
use model::{Model, Polled, Stand};

const KEYS: usize = 4;
const HOLDERS: u64 = 6;

/// One operation of a schedule, with all that was chosen by chance.
#[derive(Clone, Copy, Debug)]
enum Op {
    TryAcquire { key: usize, holder: u64, ticks: u64 },
    Wait { key: usize, holder: u64, ticks: u64, owned: bool },
    WaitForAll { keys: [usize; 3], holder: u64, ticks: u64 },
    Poll { future: usize, anew: bool },
    DropFuture { future: usize },
    Release { lease: usize },
    Forget { lease: usize },
    Check { lease: usize },
    Renew { lease: usize, ticks: u64 },
    Revoke { key: usize, grace: Option<u64> },
    Advance { ticks: u64 },
    AdvanceTo { key: usize, beyond: u64 },
    Sweep,
    Churn,
    Close,
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

enum Kind<'t> {
    One(Acquire<'t, u64, FixedHash, ManualClock>),
    Owned(AcquireOwned<u64, FixedHash, ManualClock>),
    All(AcquireAll<'t, u64, FixedHash, ManualClock>),
}

enum Guard<'t> {
    Lease(Lease<'t, u64, FixedHash, ManualClock>),
    Owned(OwnedLease<u64, FixedHash, ManualClock>),
}

impl Guard<'_> {
    fn token(&self) -> Token {
        match self {
            Self::Lease(lease) => lease.token(),
            Self::Owned(lease) => lease.token(),
        }
    }
}

/// A future that is not done, and the wakers that it was given.
struct Waiting<'t> {
    number: usize,
    /// The keys, in the order in which they were named.
    named: Vec<usize>,
    future: Kind<'t>,
    current: Arc<Count>,
    /// What others counted that were replaced.
    earlier: Vec<(Arc<Count>, u64)>,
    counted: u64,
}

impl Waiting<'_> {
    fn wakes(&self) -> u64 {
        self.counted + self.current.0.load(SeqCst)
    }
}

struct Simulation<'t> {
    table: &'t FixedTable,
    clock: &'t ManualClock,
    rng: Rng,
    model: Model,
    waiting: Vec<Waiting<'t>>,
    guards: Vec<(usize, u64, Guard<'t>)>,
    /// The token of each resource's newest grant, as far as it was seen.
    newest: [(u64, Option<Token>); KEYS],
    fresh: u64,
}

fn micros(ticks: u64) -> Duration {
    Duration::from_micros(ticks)
}

/// The order in which several resources are acquired, found out by looking: the one that is waited for.
fn order() -> &'static [usize; KEYS] {
    static ORDER: OnceLock<[usize; KEYS]> = OnceLock::new();
    ORDER.get_or_init(|| {
        let table = build_fixed::<u64>(&ManualClock::new(), |setup| setup.sweep_by_hand());
        let held = [0, 1, 2, 3].map(|key| table.try_acquire(&key, holder(9), TERM).unwrap());
        let waits_for = |keys: &[u64]| {
            let mut future = table.acquire_all_async(keys, holder(8), TERM);
            let mut cx = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut future).poll(&mut cx).is_pending());
            *keys.iter().find(|key| !table.waiters(*key).is_empty()).unwrap()
        };
        let mut left = vec![0, 1, 2, 3];
        let order = [(); KEYS].map(|()| {
            let first = waits_for(&left);
            left.retain(|key| *key != first);
            first as usize
        });
        drop(held);
        order
    })
}

impl<'t> Simulation<'t> {
    fn new(seed: u64, table: &'t FixedTable, clock: &'t ManualClock) -> Self {
        let (waiting, guards) = (Vec::new(), Vec::new());
        let model = Model::new(KEYS, leasehold::Clock::now(clock));
        let newest = [(0, None); KEYS];
        Self { table, clock, rng: Rng::new(seed), model, waiting, guards, newest, fresh: 1000 }
    }

    // ---- choosing ------------------------------------------------------------------------------

    fn choose(&mut self) -> Op {
        let rng = &mut self.rng;
        let key = rng.below(KEYS as u64) as usize;
        let (holder, ticks) = (1 + rng.below(HOLDERS), 1 + rng.below(12));
        let future = rng.below(self.waiting.len().max(1) as u64) as usize;
        let lease = rng.below(self.guards.len().max(1) as u64) as usize;
        let has = (!self.waiting.is_empty(), !self.guards.is_empty());
        match (rng.below(42), has) {
            (0..=2, _) => Op::TryAcquire { key, holder, ticks },
            (3..=8, _) => Op::Wait { key, holder, ticks, owned: rng.one_in(3) },
            (9 | 10, _) => {
                let keys = [key, rng.below(4) as usize, rng.below(4) as usize];
                Op::WaitForAll { keys, holder, ticks }
            }
            (11..=22, (true, _)) => Op::Poll { future, anew: rng.one_in(4) },
            (23 | 24, (true, _)) => Op::DropFuture { future },
            (25..=29, (_, true)) => Op::Release { lease },
            (30, (_, true)) => Op::Forget { lease },
            (31, (_, true)) => Op::Check { lease },
            (32 | 33, (_, true)) => Op::Renew { lease, ticks },
            (34, _) => Op::Revoke { key, grace: None },
            (35, _) => Op::Revoke { key, grace: Some(ticks - 1) },
            (36, _) => Op::Advance { ticks },
            (37 | 38, _) => Op::AdvanceTo { key, beyond: rng.below(2) },
            (39, _) if rng.one_in(4) => Op::Churn,
            (40, _) if rng.one_in(20) => Op::Close,
            _ => Op::Sweep,
        }
    }

    // ---- doing ---------------------------------------------------------------------------------

    fn step(&mut self, op: Op) {
        match op {
            Op::TryAcquire { key, holder, ticks } => self.try_acquire(key, holder, ticks),
            Op::Wait { key, holder, ticks, owned } => self.wait(key, holder, ticks, owned),
            Op::WaitForAll { keys, holder, ticks } => self.wait_for_all(keys, holder, ticks),
            Op::Poll { future, anew } => self.poll(future, anew),
            Op::DropFuture { future } => {
                let gone = self.waiting.swap_remove(future);
                self.model.drop_future(gone.number);
            }
            Op::Release { lease } => self.release(lease),
            Op::Forget { lease } => {
                std::mem::forget(self.guards.swap_remove(lease));
            }
            Op::Check { lease } => {
                let (key, grant, guard) = &self.guards[lease];
                let valid = match guard {
                    Guard::Lease(lease) => lease.check().is_ok(),
                    Guard::Owned(lease) => lease.check().is_ok(),
                };
                assert_eq!(valid, self.model.check(*key, *grant));
            }
            Op::Renew { lease, ticks } => {
                let (key, grant, guard) = &self.guards[lease];
                let renewed = match guard {
                    Guard::Lease(lease) => lease.renew(micros(ticks)).is_ok(),
                    Guard::Owned(lease) => lease.renew(micros(ticks)).is_ok(),
                };
                assert_eq!(renewed, self.model.renew(*key, *grant, ticks));
            }
            Op::Revoke { key, grace } => {
                let how = grace.map_or(Revoke::Now, |ticks| Revoke::After(micros(ticks)));
                let revoked = self.table.revoke(&(key as u64), how).is_ok();
                assert_eq!(revoked, self.model.revoke(key, grace));
            }
            Op::Advance { ticks } => self.advance(ticks),
            Op::AdvanceTo { key, beyond } => {
                let lease = self.model.resources[key].lease;
                let deadline = lease.map_or(0, |lease| lease.deadline) + beyond;
                self.advance(deadline.saturating_sub(self.model.now));
            }
            Op::Sweep => {
                sweep_all(self.table, 2);
                self.model.sweep();
            }
            Op::Churn if self.model.closed => {}
            Op::Churn => {
                churn(self.table, self.fresh, SLOTS);
                self.fresh += SLOTS;
            }
            Op::Close => {
                self.table.close();
                self.model.close();
            }
        }
    }

    fn advance(&mut self, ticks: u64) {
        self.clock.advance_ticks(ticks);
        self.model.now += ticks;
    }

    fn try_acquire(&mut self, key: usize, by: u64, ticks: u64) {
        let outcome = self.table.try_acquire(&(key as u64), holder(by), micros(ticks));
        if self.model.closed {
            assert_eq!(outcome.map(drop), Err(AcquireError::Closed));
            return;
        }
        let Some(grant) = self.model.ask(key, by, ticks) else {
            let held = refusal(outcome);
            let resource = &self.model.resources[key];
            let lease = resource.lease.unwrap();
            assert_eq!(held.holder, Some(holder(lease.holder)));
            assert_eq!(held.waiters, resource.queue.len());
            assert_eq!(held.retry_after, micros(lease.deadline + 1 - self.model.now));
            return;
        };
        let lease = outcome.expect("nobody is in the way");
        assert_eq!(lease.remaining(), micros(ticks));
        self.keep(key, grant, Guard::Lease(lease));
    }

    fn keep(&mut self, key: usize, grant: u64, guard: Guard<'t>) {
        self.saw(key, grant, guard.token());
        self.guards.push((key, grant, guard));
    }

    /// Later grants have larger tokens, and each one has one.
    fn saw(&mut self, key: usize, grant: u64, token: Token) {
        let (newest, known) = self.newest[key];
        match known {
            Some(known) if grant == newest => assert_eq!(token, known),
            Some(known) if grant > newest => assert!(token > known),
            Some(known) => return assert!(token < known),
            None => {}
        }
        self.newest[key] = (grant, Some(token));
    }

    fn wait(&mut self, key: usize, by: u64, ticks: u64, owned: bool) {
        let (table, id) = (self.table, key as u64);
        let future = if owned {
            Kind::Owned(table.acquire_owned_async(&id, holder(by), micros(ticks)))
        } else {
            Kind::One(table.acquire_async(&id, holder(by), micros(ticks)))
        };
        let number = self.model.start(by, ticks, vec![key], false);
        self.started(number, vec![key], future);
    }

    fn wait_for_all(&mut self, keys: [usize; 3], by: u64, ticks: u64) {
        let ids = keys.map(|key| key as u64);
        let future = self.table.acquire_all_async(&ids, holder(by), micros(ticks));
        let mut named: Vec<usize> = Vec::new();
        for key in keys {
            if !named.contains(&key) {
                named.push(key);
            }
        }
        let wanted = order().iter().copied().filter(|key| keys.contains(key)).collect();
        let number = self.model.start(by, ticks, wanted, true);
        self.started(number, named, Kind::All(future));
    }

    fn started(&mut self, number: usize, named: Vec<usize>, future: Kind<'t>) {
        let (current, earlier) = (Arc::default(), Vec::new());
        self.waiting.push(Waiting { number, named, future, current, earlier, counted: 0 });
    }

    fn poll(&mut self, at: usize, anew: bool) {
        let waiting = &mut self.waiting[at];
        if anew {
            let count = std::mem::take(&mut waiting.current);
            let so_far = count.0.load(SeqCst);
            waiting.counted += so_far;
            waiting.earlier.push((count, so_far));
        }
        let waker = Waker::from(waiting.current.clone());
        let mut cx = Context::from_waker(&waker);
        let ready = match &mut waiting.future {
            Kind::One(future) => {
                Pin::new(future).poll(&mut cx).map_ok(|lease| vec![Guard::Lease(lease)])
            }
            Kind::Owned(future) => {
                Pin::new(future).poll(&mut cx).map_ok(|lease| vec![Guard::Owned(lease)])
            }
            Kind::All(future) => Pin::new(future)
                .poll(&mut cx)
                .map_ok(|leases| leases.into_iter().map(Guard::Lease).collect()),
        };
        let named = waiting.named.clone();
        match (self.model.poll(waiting.number), ready) {
            (Polled::Pending, Poll::Pending) => return,
            (Polled::Closed, Poll::Ready(Err(WaitError::Closed))) => {}
            (Polled::Granted(grants), Poll::Ready(Ok(guards))) => {
                assert_eq!(grants.len(), guards.len());
                for (key, guard) in named.into_iter().zip(guards) {
                    let grant = grants.iter().find(|(of, _)| *of == key).unwrap().1;
                    self.keep(key, grant, guard);
                }
            }
            (expected, other) => panic!("{:?}, not {expected:?}", other.map_ok(|it| it.len())),
        }
        self.waiting.swap_remove(at);
    }

    fn release(&mut self, at: usize) {
        let (key, grant, guard) = self.guards.swap_remove(at);
        let released = match guard {
            Guard::Lease(lease) => lease.release().is_ok(),
            Guard::Owned(lease) => lease.release().is_ok(),
        };
        assert_eq!(released, self.model.release(key, grant));
    }

    // ---- comparing -----------------------------------------------------------------------------

    fn compare(&mut self) {
        for key in 0..KEYS {
            let info = self.table.inspect(&(key as u64));
            let lease = self.model.valid(key);
            let seen = info.map(|info| (info.holder, info.remaining, info.closing));
            let expected = lease.map(|lease| {
                let left = micros(lease.deadline - self.model.now);
                (Some(holder(lease.holder)), left, lease.stand == Stand::Closing)
            });
            assert_eq!(seen, expected, "resource {key}");
            if let (Some(info), Some(lease)) = (info, lease) {
                self.saw(key, lease.grant, info.token);
            }
            let waiters = self.table.waiters(&(key as u64));
            let queue = &self.model.resources[key].queue;
            let now = self.model.now;
            let expected = queue
                .iter()
                .map(|wish| (holder(wish.holder), micros(now - wish.since), micros(wish.ticks)));
            let seen = waiters.iter().map(|waiter| (waiter.holder, waiter.waited, waiter.term));
            assert!(seen.eq(expected), "resource {key}: {waiters:?}, not {queue:?}");
        }
        for waiting in &self.waiting {
            let expected = self.model.futures[waiting.number].wakes;
            assert_eq!(waiting.wakes(), expected, "wakes of future {}", waiting.number);
            for (count, so_far) in &waiting.earlier {
                assert_eq!(count.0.load(SeqCst), *so_far, "a replaced waker was woken");
            }
        }
    }

    fn finish(mut self) {
        let stats = self.table.stats();
        assert_eq!((stats.waits, stats.hand_overs), (self.model.waits, self.model.hand_overs));
        assert_eq!(stats.grants, self.model.grants + (self.fresh - 1000));
        // Whoever goes now leaves nothing behind.
        self.guards.clear();
        self.waiting.clear();
        for key in 0..KEYS as u64 {
            assert!(self.table.waiters(&key).is_empty());
        }
        self.clock.advance(TERM);
        sweep_all(self.table, 2);
        assert!(self.table.is_empty() && self.table.waiting().is_empty());
    }
}

/// Says what was done and how to replay it, if the test panics.
struct Replay {
    seed: u64,
    done: Vec<Op>,
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (n, op) in self.done.iter().enumerate() {
                eprintln!("{n:4} {op:?}");
            }
            eprintln!("replay with LEASEHOLD_SEED={}", self.seed);
        }
    }
}

fn run(seed: u64, steps: usize, mut meddle: impl FnMut(usize, &FixedTable)) {
    let mut replay = Replay { seed, done: Vec::new() };
    let clock = ManualClock::new();
    let shards = 1 << (seed % 2);
    let table = build_fixed(&clock, |setup| setup.shards(shards).retention(HOUR).sweep_by_hand());
    let mut simulation = Simulation::new(seed, &table, &clock);
    for n in 0..steps {
        let op = simulation.choose();
        replay.done.push(op);
        simulation.step(op);
        meddle(n, &table);
        simulation.compare();
    }
    simulation.finish();
}

#[test]
fn inv_45_random_waiting_does_what_plain_queues_do() {
    let only = std::env::var("LEASEHOLD_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = 0..if full() { 1_000_000 } else { 10_000 };
    for seed in only.map_or(seeds, |seed| seed..seed + 1) {
        run(seed, 40, |_, _| {});
    }
}

/// Few and long ones: stamps run out, pages fill.
#[test]
fn inv_45_long_schedules_do_too() {
    for seed in 0..if full() { 1000 } else { 20 } {
        run(1_000_000 + seed, 3000, |_, _| {});
    }
}

/// The model is not blind: one operation behind its back, and it notices.
#[test]
#[should_panic(expected = "resource 0")]
fn inv_45_the_model_notices_what_it_was_not_told() {
    run(3, 200, |n, table| {
        if n % 50 == 20 {
            std::mem::forget(table.acquire_for(&0, holder(7), TERM_MAX, Duration::ZERO));
        }
    });
}
