//! The ends of leases, told to a listener and to subscriptions.
//!
//! - 37: a panic in a callback: the next end is still told.
//! - 38: keys that are told are dropped once.
//! - 44: a subscriber that never reads holds up nobody.
//! - 45: random operations, and an end for each grant: its token, holder, cause and times are those of a
//!   plain model. `LEASEHOLD_SEED` replays one.
#![cfg(not(leasehold_loom))]

mod common;

use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::ends::{received, sweep_all};
use common::keys::{Census, Odd, Op, planned_panic};
use common::*;
use leasehold::{
    BuildError, Causes, EndCause, Ended, Grant, HolderId, LeaseTable, Lost, ManualClock, RecvError,
    Revoke, SubscribeError, Subscription, Sweeper, Token,
};

const CAUSES: [EndCause; 4] =
    [EndCause::Released, EndCause::Lapsed, EndCause::Revoked, EndCause::Superseded];

fn micros(ticks: u64) -> Duration {
    Duration::from_micros(ticks)
}

#[derive(Clone, Copy, Debug)]
struct Open {
    grant: Grant,
    holder: HolderId,
    granted: u64,
    deadline: u64,
}

/// A table, and what a plain map knows of it.
struct Model {
    rng: Rng,
    clock: ManualClock,
    table: FixedTable,
    ends: Subscription<u64>,
    open: BTreeMap<u64, Open>,
    told: Vec<(Token, EndCause)>,
}

impl Model {
    fn new(seed: u64, listened: &Arc<Mutex<Vec<(Token, EndCause)>>>) -> Self {
        let mut rng = Rng::new(seed);
        let clock = ManualClock::starting_at(rng.of_bits(45));
        let (shards, seen) = (1 << rng.below(4), listened.clone());
        let listener =
            move |ended: &Ended<u64>| seen.lock().unwrap().push((ended.token, ended.cause));
        let table = build_fixed(&clock, |setup| setup.shards(shards).listener(listener));
        let ends = table.subscribe(10_000).unwrap();
        Self { rng, clock, table, ends, open: BTreeMap::new(), told: Vec::new() }
    }

    fn now(&self) -> u64 {
        leasehold::Clock::now(&self.clock)
    }

    /// Takes what was told; `cause` is that of the key which was just acted on.
    fn take(&mut self, key: u64, cause: Option<EndCause>) {
        let now = self.now();
        let mut acted = None;
        for ended in received(&mut self.ends) {
            let open = self.open.remove(&ended.key).expect("one end for each grant");
            assert_eq!(ended.token, open.grant.token(), "{ended:?}");
            assert_eq!(ended.holder, Some(open.holder));
            let lapsed = ended.cause == EndCause::Lapsed;
            assert!(!lapsed || now > open.deadline || ended.key == key, "{ended:?} at {now}");
            let end = if lapsed { open.deadline } else { now };
            assert_eq!(ended.held_for, micros(end - open.granted), "{ended:?}, {open:?}");
            assert_eq!(ended.late, if lapsed { micros(now - end) } else { Duration::ZERO });
            if ended.key == key {
                acted = Some(ended.cause);
            } else {
                assert!(lapsed, "{ended:?}, though nobody acted on it");
            }
            self.told.push((ended.token, ended.cause));
        }
        if cause.is_some() {
            assert_eq!(acted, cause, "the end of {key}");
        }
    }

    fn acquire(&mut self, key: u64) {
        let holder = holder(1 + self.rng.below(3));
        let ticks = self.rng.of_bits(26);
        let Ok(lease) = self.table.try_acquire(&key, holder, micros(ticks)) else {
            return self.take(key, None);
        };
        let grant = lease.into_grant();
        let now = self.now();
        let cause = self.open.get(&key).map(|open| match open.deadline < now {
            true => EndCause::Lapsed,
            false => EndCause::Superseded,
        });
        self.take(key, cause);
        let open = Open { grant, holder, granted: now, deadline: now + ticks };
        assert!(self.open.insert(key, open).is_none());
    }

    fn act(&mut self, key: u64, open: Open) {
        let now = self.now();
        match self.rng.below(6) {
            0 => {
                let cause = match self.table.release(open.grant) {
                    Ok(()) => EndCause::Released,
                    // It was found expired before, and says so once more.
                    Err(Lost::Expired) => EndCause::Lapsed,
                    Err(other) => panic!("{other:?}, but it is open"),
                };
                self.take(key, Some(cause));
            }
            1 => {
                let done = self.table.revoke(&key, Revoke::Now);
                self.take(key, done.is_ok().then_some(EndCause::Revoked));
            }
            2 => {
                let grace = self.rng.of_bits(20);
                if self.table.revoke(&key, Revoke::After(micros(grace))).is_ok() {
                    let open = self.open.get_mut(&key).unwrap();
                    open.deadline = open.deadline.min(now + grace);
                }
                self.take(key, None);
            }
            3 => {
                let _ = self.table.check(open.grant);
                self.take(key, None);
            }
            _ => {
                let ticks = self.rng.of_bits(26);
                if self.table.renew(open.grant, micros(ticks)).is_ok() {
                    let open = self.open.get_mut(&key).unwrap();
                    open.deadline = open.deadline.max(now + ticks);
                }
                self.take(key, None);
            }
        }
    }

    fn step(&mut self) {
        let key = self.rng.below(3 * SLOTS);
        match self.rng.below(10) {
            0..=3 => self.acquire(key),
            4..=6 => {
                if let Some(&open) = self.open.get(&key) {
                    self.act(key, open);
                }
            }
            7 => {
                let budget = self.rng.below(4) as usize;
                let _ = self.table.sweep(budget).unwrap();
                self.take(key, None);
            }
            8 => self.clock.advance_ticks(self.rng.of_bits(22)),
            _ => self.clock.advance_ticks(self.rng.below(3)),
        }
    }
}

#[test]
fn inv_45_each_grant_has_one_end_and_it_is_that_of_the_model() {
    let only = std::env::var("LEASEHOLD_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = if full() { 0..3000 } else { 0..60 };
    let mut causes = HashSet::new();
    for seed in only.map_or(seeds, |seed| seed..seed + 1) {
        let listened = Arc::default();
        let mut model = Model::new(seed, &listened);
        let run = catch_unwind(AssertUnwindSafe(|| (0..1000).for_each(|_| model.step())));
        if let Err(panic) = run {
            eprintln!("replay with LEASEHOLD_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
        model.clock.advance(HOUR);
        sweep_all(&model.table, 3);
        model.take(0, None);
        assert!(model.open.is_empty(), "seed {seed}: {:?}", model.open);
        let Model { table, mut told, ends, .. } = model;
        assert_eq!((told.len() as u64, ends.lost()), (table.stats().grants, 0), "seed {seed}");
        causes.extend(told.iter().map(|(_, cause)| *cause));
        let mut heard = listened.lock().unwrap().clone();
        for list in [&mut heard, &mut told] {
            list.sort_unstable_by_key(|(token, cause)| (*token, *cause as u8));
        }
        assert_eq!(heard, told, "seed {seed}: the listener");
        assert_eq!(
            table.stats().lapses,
            told.iter().filter(|t| t.1 == EndCause::Lapsed).count() as u64
        );
    }
    assert!(causes.len() == 4 || only.is_some(), "{causes:?}");
}

/// One end of each cause.
fn one_of_each(table: &Table, clock: &ManualClock) {
    drop(table.try_acquire(&1, holder(1), SEC).unwrap());
    std::mem::forget(table.try_acquire(&2, holder(1), SEC).unwrap());
    std::mem::forget(table.try_acquire(&3, holder(1), SEC).unwrap());
    table.revoke(&3, Revoke::Now).unwrap();
    let first = table.try_acquire(&4, holder(1), SEC).unwrap();
    let second = table.try_acquire(&4, holder(1), SEC).unwrap();
    std::mem::forget((first, second));
    clock.advance(2 * SEC);
    sweep_all(table, 100);
}

#[test]
fn only_the_causes_that_were_asked_for_are_told() {
    for bits in 1..16_u32 {
        let wanted = CAUSES.into_iter().filter(|cause| bits >> *cause as u32 & 1 != 0);
        let causes = wanted.clone().fold(Causes::NONE, |all, cause| all | cause);
        let clock = ManualClock::new();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = heard.clone();
        let table: Table = build(&clock, |setup| {
            setup.events(causes).listener(move |ended| hears.lock().unwrap().push(ended.clone()))
        });
        let mut subscriptions = [1, 2, 3].map(|_| table.subscribe(100).unwrap());
        one_of_each(&table, &clock);
        let count = |list: &[Ended<u64>], cause| list.iter().filter(|e| e.cause == cause).count();
        for list in subscriptions.iter_mut().map(received).chain([heard.lock().unwrap().clone()]) {
            for cause in CAUSES {
                // The second lease of the fourth key lapses as well.
                let n = if cause == EndCause::Lapsed { 2 } else { 1 };
                let expected = if causes.contains(cause) { n } else { 0 };
                assert_eq!(count(&list, cause), expected, "{cause:?} of {causes:?}");
            }
        }
        assert_eq!(wanted.count() as u32, bits.count_ones());
    }
}

#[test]
fn what_cannot_be_told_is_refused() {
    let (table, _clock) = common::table::<u64>();
    assert_eq!(table.subscribe(1).unwrap_err(), SubscribeError::NoEvents);
    let builder = LeaseTable::<u64>::builder().events(Causes::NONE).listener(|_| {});
    assert_eq!(builder.build().unwrap_err(), BuildError::ListenerWithoutEvents);
    let table: Table = build(&ManualClock::new(), |setup| setup.events(Causes::ALL));
    assert_eq!(table.subscribe(0).unwrap_err(), SubscribeError::CapacityZero);
}

#[test]
fn inv_44_a_full_subscription_loses_ends_with_a_count_and_holds_up_nobody() {
    let table: Table = build(&ManualClock::new(), |setup| setup.events(Causes::ALL));
    let (mut small, mut large) = (table.subscribe(3).unwrap(), table.subscribe(1000).unwrap());
    for key in 0..100 {
        drop(table.try_acquire(&key, holder(1), SEC).unwrap());
    }
    assert_eq!((small.lost(), large.lost()), (97, 0));
    let first: Vec<u64> = received(&mut small).iter().map(|ended| ended.key).collect();
    assert_eq!(first, [0, 1, 2], "the first ones are kept");
    drop(table.try_acquire(&100, holder(1), SEC).unwrap());
    assert_eq!(small.recv().map(|ended| ended.key), Ok(100), "and there is room again");
    assert_eq!((small.lost(), received(&mut large).len()), (97, 101));
    assert!(table.subscribe(1000).unwrap().try_recv().is_none(), "from now on");
}

#[test]
fn a_table_that_is_gone_is_told_of_last() {
    let table: Table = build(&ManualClock::new(), |setup| setup.events(Causes::ALL));
    let mut ends = table.subscribe(10).unwrap();
    let lease = table.try_acquire_owned(&1, holder(1), SEC).unwrap();
    drop(table);
    assert_eq!(ends.recv_timeout(Duration::ZERO), Err(RecvError::Timeout), "a lease keeps it");
    drop(lease);
    assert_eq!(ends.recv().map(|ended| ended.key), Ok(1));
    assert_eq!(ends.recv(), Err(RecvError::Closed));
    assert_eq!(ends.recv_timeout(HOUR), Err(RecvError::Closed));
    assert!(ends.try_recv().is_none());
}

#[test]
fn inv_38_told_keys_are_dropped_once() {
    let census = Census::new();
    let clock = ManualClock::new();
    let table: Table<Odd> = build(&clock, |setup| setup.shards(1).listener(|_| {}));
    let mut full = table.subscribe(2).unwrap();
    let unread = table.subscribe(1000).unwrap();
    let gone = table.subscribe(1000).unwrap();
    for id in 0..2 * SLOTS {
        let lease = table.try_acquire(&Odd::new(id, &census), holder(1), SEC).unwrap();
        if id % 2 == 0 { drop(lease) } else { std::mem::forget(lease) }
    }
    let before = census.alive();
    drop(gone);
    assert_eq!(before - census.alive(), SLOTS as usize, "what nobody will read is gone at once");
    clock.advance(2 * SEC);
    let _ = table.sweep(1).unwrap();
    drop(full.try_recv());
    drop(table);
    drop(unread);
    drop(full);
    census.assert_all_gone();
}

#[test]
fn inv_38_a_key_that_cannot_be_cloned_for_one_reader_is_lost_to_it() {
    let census = Census::new();
    let table: Table<Odd> = build(&ManualClock::new(), |setup| setup.shards(1).events(Causes::ALL));
    let mut readers = [table.subscribe(10).unwrap(), table.subscribe(10).unwrap()];
    let lease = table.try_acquire(&Odd::new(1, &census), holder(1), SEC).unwrap();
    let clones = AtomicU64::new(0);
    census.plan(move |op, _| {
        // The first clone is the report itself.
        if op == Op::Clone && clones.fetch_add(1, SeqCst) == 1 {
            planned_panic();
        }
    });
    lease.release().unwrap();
    census.unplan();
    let lost: u64 = readers.iter().map(Subscription::lost).sum();
    let told: usize = readers.iter_mut().map(|reader| received(reader).len()).sum();
    assert_eq!((lost, told), (1, 1));
    drop((readers, table));
    census.assert_all_gone();
}

#[test]
fn inv_37_a_listener_that_panics_is_called_for_the_next_end() {
    let clock = ManualClock::new();
    let calls = Arc::new(AtomicU64::new(0));
    let counts = calls.clone();
    let table: Table = build(&clock, |setup| {
        setup.shards(4).listener(move |ended| {
            counts.fetch_add(1, SeqCst);
            if ended.key % 2 == 0 {
                planned_panic();
            }
        })
    });
    for key in 0..100 {
        let lease = table.try_acquire(&key, holder(1), SEC).unwrap();
        if key < 50 { drop(lease) } else { std::mem::forget(lease) }
    }
    clock.advance(2 * SEC);
    let done = sweep_all(&table, 2);
    assert_eq!((calls.load(SeqCst), done.panics, done.told, done.lapsed), (100, 50, 50, 50));
}

#[test]
fn a_subscription_may_go_while_others_are_told() {
    let census = Census::new();
    let clock = ManualClock::new();
    let table: Table<Odd> = build(&clock, |setup| setup.shards(4).events(Causes::ALL));
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for thread in 0..2 {
            let (table, census, stop) = (&table, &census, &stop);
            s.spawn(move || {
                while !stop.load(SeqCst) {
                    let key = Odd::new(thread, census);
                    drop(table.try_acquire(&key, holder(1), SEC));
                }
            });
        }
        for round in 0..if full() { 20_000 } else { 500 } {
            let mut ends = table.subscribe(1 + round % 5).unwrap();
            for _ in 0..round % 7 {
                let _ = ends.try_recv();
            }
        }
        stop.store(true, SeqCst);
    });
    let known = table.resources();
    assert!(census.alive() < known + 200, "{} keys are kept for nobody", census.alive());
    drop(table);
    census.assert_all_gone();
}

/// Threads that grant, renew, release, supersede and revoke, while a sweeper's thread ends what lapsed.
fn race(seed: u64) {
    let heard = Arc::new(AtomicU64::new(0));
    let hears = heard.clone();
    let table = LeaseTable::<u64>::builder()
        .shards(4)
        .listener(move |_| _ = hears.fetch_add(1, SeqCst))
        .sweeper(Sweeper::new().interval(Duration::from_micros(50)))
        .build()
        .unwrap();
    let mut ends = table.subscribe(1 << 20).unwrap();
    std::thread::scope(|s| {
        for thread in 1..=4 {
            let table = &table;
            s.spawn(move || {
                let mut rng = Rng::new(seed << 8 | thread);
                for _ in 0..4000 {
                    let (key, term) = (rng.below(2 * SLOTS), micros(20 + rng.of_bits(12)));
                    let Ok(lease) = table.try_acquire(&key, holder(thread), term) else { continue };
                    match rng.below(5) {
                        0 => std::mem::forget(lease),
                        1 => drop((lease.renew(2 * term), table.revoke(&key, Revoke::Now), lease)),
                        2 => std::mem::forget(table.try_acquire(&key, holder(thread), term)),
                        3 => drop((table.revoke(&key, Revoke::After(term / 2)), lease)),
                        _ => drop(lease),
                    }
                }
            });
        }
    });
    let grants = table.stats().grants;
    let (mut tokens, give_up) = (HashSet::new(), Instant::now() + Duration::from_secs(120));
    while (tokens.len() as u64) < grants || heard.load(SeqCst) < grants {
        if let Ok(ended) = ends.recv_timeout(Duration::from_millis(100)) {
            assert!(tokens.insert((ended.key, ended.token)), "{ended:?} ended twice");
        }
        assert!(Instant::now() < give_up, "{} of {grants} ends were told", tokens.len());
    }
    assert!(ends.try_recv().is_none());
    assert_eq!((heard.load(SeqCst), ends.lost()), (grants, 0));
}

#[test]
fn racing_threads_leave_one_end_for_each_grant() {
    for seed in 0..if full() { 50 } else { 3 } {
        race(seed);
    }
}
