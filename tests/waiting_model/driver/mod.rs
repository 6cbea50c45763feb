//! Does operations to a table and to the model, and compares what comes of it. A failure is a panic.
//!
//! One thread, hashes that are the same in every run, and a clock that is moved by hand. Futures are polled by
//! hand, some by one waker and then by another. What chooses the operations is elsewhere: random numbers in this
//! test, and a fuzzer (`fuzz/src/waiting`).

mod compare;
mod guard;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leasehold::{Acquire, AcquireAll, AcquireOwned, Held, ManualClock, Revoke, Token, WaitError};

use self::guard::Guard;
use super::common::ends::sweep_all;
use super::common::{FixedHash, FixedTable, TERM, build_fixed, holder};
use super::model::{Asked, Model, Polled};

/// The most resources that there can be, without those of [`Op::Churn`].
pub(crate) const KEYS_MAX: usize = 8;
/// The first resource of [`Op::Churn`].
const FRESH: u64 = 1000;
/// How late a sweep may be, if the clock steps back by less: a millisecond, in ticks.
const INTERVAL: u64 = 1000;

/// How the table is built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) keys: usize,
    pub(crate) shards: usize,
    /// In ticks.
    pub(crate) retention: u64,
    pub(crate) capacity_max: Option<usize>,
}

impl Settings {
    pub(crate) fn build(&self, clock: &ManualClock) -> FixedTable {
        build_fixed(clock, |setup| {
            let setup = setup.shards(self.shards).retention(micros(self.retention));
            let setup = setup.sweep_by_hand();
            match self.capacity_max {
                None => setup,
                Some(max) => setup.capacity_max(max),
            }
        })
    }
}

/// One operation, with all that was chosen. Futures and leases are chosen among those that there are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// With a time-out of zero, or without one.
    TryAcquire {
        key: usize,
        holder: u64,
        ticks: u64,
        times_out: bool,
    },
    Wait {
        key: usize,
        holder: u64,
        ticks: u64,
        owned: bool,
    },
    WaitForAll {
        keys: [usize; 3],
        holder: u64,
        ticks: u64,
    },
    Poll {
        future: usize,
        anew: bool,
    },
    DropFuture {
        future: usize,
    },
    Release {
        lease: usize,
    },
    Forget {
        lease: usize,
    },
    Check {
        lease: usize,
    },
    Renew {
        lease: usize,
        ticks: u64,
    },
    Revoke {
        key: usize,
        grace: Option<u64>,
    },
    Advance {
        ticks: u64,
    },
    AdvanceTo {
        key: usize,
        beyond: u64,
    },
    /// Not further than the retention: beyond that, the clock of a page stands still.
    StepBack {
        ticks: u64,
        far: bool,
    },
    Sweep,
    /// Acquires and releases so many resources that nobody knew.
    Churn {
        count: u64,
    },
    /// Looks for deadlocks.
    Report,
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

pub(crate) struct Simulation<'t> {
    table: &'t FixedTable,
    clock: &'t ManualClock,
    settings: Settings,
    model: Model,
    waiting: Vec<Waiting<'t>>,
    guards: Vec<(usize, u64, Guard<'t>)>,
    /// The token of each resource's newest grant, as far as it was seen.
    newest: Vec<(u64, Option<Token>)>,
    /// The latest time so far.
    latest: u64,
    /// When it was swept.
    swept_to: u64,
    fresh: u64,
    churned: u64,
}

fn micros(ticks: u64) -> Duration {
    Duration::from_micros(ticks)
}

/// The order in which several resources are acquired, found out by looking: the one that is waited for.
fn order() -> &'static Vec<usize> {
    static ORDER: OnceLock<Vec<usize>> = OnceLock::new();
    ORDER.get_or_init(|| {
        let table = build_fixed::<u64>(&ManualClock::new(), |setup| setup.sweep_by_hand());
        let mut left: Vec<u64> = (0..KEYS_MAX as u64).collect();
        let _held: Vec<_> =
            left.iter().map(|key| table.try_acquire(key, holder(9), TERM).unwrap()).collect();
        let waits_for = |keys: &[u64]| {
            let mut future = table.acquire_all_async(keys, holder(8), TERM);
            let mut cx = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut future).poll(&mut cx).is_pending());
            *keys.iter().find(|key| !table.waiters(*key).is_empty()).unwrap()
        };
        let mut order = Vec::new();
        while !left.is_empty() {
            let first = waits_for(&left);
            left.retain(|key| *key != first);
            order.push(first as usize);
        }
        order
    })
}

impl<'t> Simulation<'t> {
    pub(crate) fn new(settings: Settings, table: &'t FixedTable, clock: &'t ManualClock) -> Self {
        let now = leasehold::Clock::now(clock);
        let Settings { keys, retention, capacity_max, .. } = settings;
        let model = Model::new(keys, now, retention, capacity_max);
        let (waiting, guards, newest) = (Vec::new(), Vec::new(), vec![(0, None); keys]);
        let (fresh, churned, latest, swept_to) = (FRESH, 0, now, 0);
        Self {
            table,
            clock,
            settings,
            model,
            waiting,
            guards,
            newest,
            latest,
            swept_to,
            fresh,
            churned,
        }
    }

    /// How many futures there are, and how many leases.
    pub(crate) fn chances(&self) -> (usize, usize) {
        (self.waiting.len(), self.guards.len())
    }

    // ---- doing ---------------------------------------------------------------------------------

    /// Does one operation. Without the future or the lease that it needs, it is none.
    pub(crate) fn step(&mut self, op: Op) {
        let (futures, leases) = self.chances();
        let needs = match op {
            Op::Poll { .. } | Op::DropFuture { .. } => futures,
            Op::Release { .. } | Op::Forget { .. } | Op::Check { .. } | Op::Renew { .. } => leases,
            _ => usize::MAX,
        };
        if needs == 0 {
            return;
        }
        // Who looks for room ends what lapsed and is waited for: not to be foreseen, but for this.
        let bounded = self.settings.capacity_max.is_some();
        if bounded && matches!(op, Op::TryAcquire { .. } | Op::Poll { .. } | Op::Churn { .. }) {
            self.sweep();
        }
        match op {
            Op::TryAcquire { key, holder, ticks, times_out } => {
                self.try_acquire(key, holder, ticks, times_out);
            }
            Op::Wait { key, holder, ticks, owned } => self.wait(key, holder, ticks, owned),
            Op::WaitForAll { keys, holder, ticks } => self.wait_for_all(keys, holder, ticks),
            Op::Poll { future, anew } => self.poll(future % futures, anew),
            Op::DropFuture { future } => {
                let gone = self.waiting.swap_remove(future % futures);
                self.model.drop_future(gone.number);
            }
            Op::Release { lease } => self.release(lease % leases),
            Op::Forget { lease } => self.guards.swap_remove(lease % leases).2.forget(),
            Op::Check { lease } => self.check(lease % leases),
            Op::Renew { lease, ticks } => self.renew(lease % leases, ticks),
            Op::Revoke { key, grace } => {
                let how = grace.map_or(Revoke::Now, |ticks| Revoke::After(micros(ticks)));
                let revoked = self.table.revoke(&(key as u64), how).is_ok();
                assert_eq!(revoked, self.model.revoke(key, grace));
            }
            Op::Advance { ticks } => self.move_clock(self.model.now + ticks),
            Op::AdvanceTo { key, beyond } => {
                let lease = self.model.resources[key].lease;
                let deadline = lease.map_or(0, |lease| lease.deadline) + beyond;
                self.move_clock(deadline.max(self.model.now));
            }
            Op::StepBack { ticks, far } => self.step_back(ticks, far),
            Op::Sweep => self.sweep(),
            Op::Churn { count } => self.churn(count),
            Op::Report => self.report(),
            Op::Close => {
                self.table.close();
                self.model.close();
            }
        }
    }

    fn move_clock(&mut self, to: u64) {
        self.clock.set(to);
        self.model.now = to;
        self.latest = self.latest.max(to);
    }

    fn step_back(&mut self, ticks: u64, far: bool) {
        let far = far && self.lapse_another();
        let to = self.model.now.saturating_sub(ticks + u64::from(far) * INTERVAL);
        self.move_clock(to.max(self.latest - self.settings.retention));
        if far && self.model.now + INTERVAL < self.swept_to {
            self.swept_to = self.model.now;
            self.sweep();
        }
    }

    /// Has a resource that nobody knew lapse, if there is room for it. So the sweeper has something to do now, and
    /// looks at all anew when the clock steps back from here by more than its interval.
    fn lapse_another(&mut self) -> bool {
        self.sweep();
        let Ok(lease) = self.table.try_acquire(&self.fresh, holder(9999), micros(1)) else {
            assert!(self.model.ask_for_another().is_err());
            return false;
        };
        std::mem::forget(lease);
        self.fresh += 1;
        self.churned += 1;
        self.move_clock(self.model.now + 2);
        self.sweep();
        true
    }

    /// After a clock that stepped back by less than its interval, a sweep is late: so it comes when the clock is
    /// there again.
    fn sweep(&mut self) {
        self.move_clock(self.model.now.max(self.swept_to));
        self.swept_to = self.model.now;
        sweep_all(self.table, 2);
        self.model.sweep();
    }

    fn churn(&mut self, count: u64) {
        for _ in 0..count {
            let outcome = self.table.try_acquire(&self.fresh, holder(9999), TERM);
            self.fresh += 1;
            match self.model.ask_for_another() {
                Ok(()) => {
                    assert_eq!(outcome.expect("a new resource is free").release(), Ok(()));
                    self.churned += 1;
                }
                Err(error) => assert_eq!(outcome.map(drop), Err(error)),
            }
        }
    }

    fn check(&mut self, at: usize) {
        let (key, grant, guard) = &self.guards[at];
        let valid = match guard {
            Guard::Lease(lease) => lease.check().is_ok(),
            Guard::Owned(lease) => lease.check().is_ok(),
        };
        assert_eq!(valid, self.model.check(*key, *grant));
    }

    fn renew(&mut self, at: usize, ticks: u64) {
        let (key, grant, guard) = &self.guards[at];
        let renewed = match guard {
            Guard::Lease(lease) => lease.renew(micros(ticks)).is_ok(),
            Guard::Owned(lease) => lease.renew(micros(ticks)).is_ok(),
        };
        assert_eq!(renewed, self.model.renew(*key, *grant, ticks));
    }

    fn try_acquire(&mut self, key: usize, by: u64, ticks: u64, times_out: bool) {
        let (table, id, term) = (self.table, key as u64, micros(ticks));
        let outcome = if times_out {
            table.acquire_for(&id, holder(by), term, Duration::ZERO)
        } else {
            table.try_acquire(&id, holder(by), term).map_err(WaitError::from)
        };
        match self.model.ask(key, by, ticks) {
            Asked::Granted(grant) => {
                let lease = outcome.expect("nobody is in the way");
                assert_eq!(lease.remaining(), term);
                self.keep(key, grant, Guard::Lease(lease));
            }
            Asked::Held => match outcome.map(drop) {
                Err(WaitError::TimedOut(held)) => self.refused(key, held),
                other => panic!("{other:?}, and it is held"),
            },
            Asked::Not(error) => assert_eq!(outcome.map(drop), Err(error.into())),
        }
    }

    fn refused(&self, key: usize, held: Held) {
        let resource = &self.model.resources[key];
        let lease = resource.lease.unwrap();
        assert_eq!(held.holder, Some(holder(lease.holder)));
        assert_eq!(held.waiters, resource.queue.len());
        assert_eq!(held.retry_after, micros(lease.deadline + 1 - self.model.now));
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
            (Polled::Not(expected), Poll::Ready(Err(error))) => {
                assert_eq!(error, WaitError::from(expected));
            }
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
        if let Some(expected) = self.model.release(key, grant) {
            assert_eq!(released, expected);
        }
    }
}
