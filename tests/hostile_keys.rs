//! Keys whose code panics or never returns.
//!
//! - 38: a key that panics in `Hash`, `Eq`, `Clone` or `Drop`, at any call of it: the panic propagates,
//!   the table stays usable, nothing is dropped twice, and nothing leaks once the table is gone.
//! - 44: a thread suspended inside a key's code, wherever the table calls it: every other thread goes
//!   on, with that key and that page too.
#![cfg(not(leasehold_loom))]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::keys::{Census, OPS, Odd, Op, planned_panic};
use common::*;
use leasehold::{AcquireError, Lost, ManualClock, OwnedLease};

type Owned = OwnedLease<Odd, leasehold::DefaultHashBuilder, ManualClock>;

/// A little of everything that runs a key's code: insertion, search, replacement, splits, eviction,
/// pages that are used again, and a key dropped because another had inserted it.
fn exercise(table: &Table<Odd>, clock: &ManualClock, census: &Arc<Census>, kept: &mut Vec<Owned>) {
    for id in 0..SLOTS + SLOTS / 2 {
        let key = Odd::new(id, census);
        if let Ok(lease) = table.try_acquire_owned(&key, holder(1), HOUR) {
            if id % 4 == 0 { kept.push(lease) } else { drop(lease) }
        }
        let _ = table.inspect(&key);
    }
    clock.advance(11 * SEC);
    for id in 1000..1000 + 2 * SLOTS {
        let key = Odd::new(id, census);
        drop(table.try_acquire(&key, holder(2), TERM));
    }
    let resource = table.resource(&Odd::new(1, census));
    let _ = resource.map(|resource| resource.try_acquire(holder(1), TERM).map(drop));
    let _ = table.iter().map(|(key, _)| key.id).sum::<u64>();
    kept.retain(|lease| lease.key().is_some_and(|key| key.id % 8 == 0));
}

/// Has the `n`th call of `op` from now on panic, once. The flag tells whether it did.
fn panic_at(census: &Census, op: Op, n: u64) -> Arc<AtomicBool> {
    let happened = Arc::new(AtomicBool::new(false));
    let (calls, told) = (AtomicU64::new(0), happened.clone());
    census.plan(move |happens, _| {
        if happens == op && calls.fetch_add(1, SeqCst) == n {
            told.store(true, SeqCst);
            planned_panic();
        }
    });
    happened
}

/// One run with a panic at one call; `false` if there are not that many calls.
fn survives(op: Op, n: u64) -> bool {
    let census = Census::new();
    let clock = ManualClock::new();
    let table = build(&clock, |setup| setup.shards(1));
    let mut kept = Vec::new();
    let happened = panic_at(&census, op, n);
    let run = || exercise(&table, &clock, &census, &mut kept);
    let caught = catch_unwind(AssertUnwindSafe(run)).is_err();
    census.unplan();
    assert_eq!(caught, happened.load(SeqCst), "{op:?} {n}: the panic did not propagate");
    // All that was granted is as it was, and excludes.
    for lease in &kept {
        let key = lease.key().expect("held resources are not forgotten");
        assert_eq!(lease.check(), Ok(lease.token()), "{op:?} {n}");
        assert_eq!(refusal(table.try_acquire(&key, holder(7), TERM)).token, lease.token());
    }
    kept.clear();
    // What was granted in the call that panicked, if anything, lapses.
    clock.advance(HOUR + TICK);
    exercise(&table, &clock, &census, &mut kept);
    for id in 0..SLOTS {
        let key = Odd::new(id, &census);
        let lease = table.try_acquire(&key, holder(1), TERM).expect("everything has lapsed");
        assert_eq!(lease.key().map(|key| key.id), Some(id));
    }
    drop((table, kept));
    census.assert_all_gone();
    caught
}

#[test]
fn inv_38_a_panic_at_any_call_of_a_keys_code_does_no_harm() {
    for op in OPS {
        let mut n = 0;
        while survives(op, n) {
            n += 1 + n / 30;
        }
        assert!(n > SLOTS, "{op:?}: only {n} calls");
    }
}

/// Its page stays half replaced, and is taken up by whoever comes next.
#[test]
fn inv_38_a_replacement_that_panics_each_time_is_tried_again() {
    let census = Census::new();
    let clock = ManualClock::new();
    let table = build(&clock, |setup| setup.shards(1));
    let hold = |id| table.try_acquire_owned(&Odd::new(id, &census), holder(1), HOUR);
    let leases: Vec<Owned> = (0..SLOTS).map(|id| hold(id).unwrap()).collect();
    census.plan(|op, id| {
        if op == Op::Clone && id < SLOTS {
            planned_panic();
        }
    });
    for _ in 0..10 {
        assert!(catch_unwind(AssertUnwindSafe(|| hold(1000).map(drop))).is_err());
    }
    census.unplan();
    assert!(leases.iter().all(|lease| lease.check().is_ok()));
    assert!(hold(1000).is_ok());
    assert!(leases.iter().all(|lease| lease.renew(2 * HOUR).is_ok()));
    drop((leases, table));
    census.assert_all_gone();
}

#[test]
fn inv_38_a_drop_that_panics_while_the_table_goes_leaks_no_other_key() {
    for nth in [0, 1, SLOTS / 2, SLOTS - 1] {
        let census = Census::new();
        let clock = ManualClock::new();
        let table = build(&clock, |setup| setup.shards(4));
        for id in 0..4 * SLOTS {
            let key = Odd::new(id, &census);
            drop(table.try_acquire(&key, holder(1), TERM));
        }
        let happened = panic_at(&census, Op::Drop, nth);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(table))).is_err());
        assert!(happened.load(SeqCst));
        census.assert_all_gone();
    }
}

#[test]
fn inv_38_keys_leak_nothing_without_any_panic() {
    let census = Census::new();
    let clock = ManualClock::new();
    let table = build(&clock, |setup| setup.shards(2).capacity_max(100));
    let mut kept = Vec::new();
    for _ in 0..20 {
        exercise(&table, &clock, &census, &mut kept);
    }
    assert!(table.stats().evictions > 0);
    let resource = table.resource(&Odd::new(1, &census));
    drop(table);
    assert!(census.alive() > 0);
    drop((kept, resource));
    census.assert_all_gone();
}

/// Whoever finds its key inserted meanwhile gives back its slot, and drops its own.
#[test]
fn inv_38_a_creator_that_comes_second_leaks_nothing() {
    let census = Census::new();
    let clock = ManualClock::new();
    let table = build(&clock, |setup| setup.shards(1));
    for id in 0..3 * SLOTS {
        let (other, births, first) = (table.clone(), census.clone(), AtomicBool::new(true));
        census.plan(move |op, _| {
            if op == Op::Clone && first.swap(false, SeqCst) {
                let key = Odd::new(id, &births);
                std::mem::forget(other.try_acquire(&key, holder(2), TERM));
            }
        });
        let held = refusal(table.try_acquire(&Odd::new(id, &census), holder(1), TERM));
        assert_eq!(held.holder, Some(holder(2)));
    }
    census.unplan();
    assert_eq!(table.resources() as u64, 3 * SLOTS);
    drop(table);
    census.assert_all_gone();
}

/// The one exception to invariant 17, which `try_acquire` documents: a holder that asks for what it
/// holds in a slot without stamps loses it before it has the next. If another comes in between, it is
/// refused, and its handle says that it lost.
#[test]
fn inv_17_a_holder_that_is_refused_its_own_knows_that_it_lost() {
    let census = Census::new();
    let clock = ManualClock::new();
    let table = build(&clock, |setup| setup.shards(1));
    let key = Odd::new(0, &census);
    let mut lease = table.try_acquire(&key, holder(1), TERM).unwrap();
    for _ in 2..STAMP_MAX {
        lease = table.try_acquire(&key, holder(1), TERM).unwrap();
    }
    let (other, births, first) = (table.clone(), census.clone(), AtomicBool::new(true));
    census.plan(move |op, _| {
        if op == Op::Clone && first.swap(false, SeqCst) {
            let key = Odd::new(0, &births);
            std::mem::forget(other.try_acquire(&key, holder(2), TERM));
        }
    });
    let again = table.try_acquire(&key, holder(1), TERM);
    let lost = lease.check();
    census.unplan();
    assert!(matches!(again, Err(AcquireError::Held(held)) if held.holder == Some(holder(2))));
    assert!(matches!(lost, Err(Lost::Taken { .. })), "{lost:?}");
}

/// Suspends the first thread that does `op` with the key `id`, until the sender is dropped.
fn suspend_at(
    census: &Census,
    op: Op,
    id: impl Fn(u64) -> bool + Send + Sync + 'static,
) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (tell, suspended) = mpsc::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let (resumed, first) = (std::sync::Mutex::new(resumed), AtomicBool::new(true));
    census.plan(move |happens, on| {
        if happens == op && id(on) && first.swap(false, SeqCst) {
            let _ = tell.send(());
            let _ = resumed.lock().unwrap().recv();
        }
    });
    (suspended, resume)
}

/// Runs `others` while `victim` is suspended within a key's code. A minute is for the case that others
/// do wait for it: then the test fails instead of hanging.
fn while_suspended(
    census: &Arc<Census>,
    (op, id): (Op, fn(u64) -> bool),
    victim: impl FnOnce() + Send + 'static,
    others: impl FnOnce() + Send + 'static,
) {
    let (suspended, resume) = suspend_at(census, op, id);
    let victim = std::thread::spawn(victim);
    suspended.recv_timeout(Duration::from_secs(60)).expect("the victim never ran that code");
    let (tell, done) = mpsc::channel();
    let others = std::thread::spawn(move || {
        others();
        tell.send(()).unwrap();
    });
    let went_on = done.recv_timeout(Duration::from_secs(60));
    drop(resume);
    victim.join().unwrap();
    others.join().unwrap();
    assert!(went_on.is_ok(), "others waited for a thread suspended in {op:?}");
}

/// Every operation on keys of the victim's page, the victim's own included.
fn go_on(table: &Table<Odd>, clock: &ManualClock, census: &Arc<Census>) {
    for round in 0..3 {
        for id in 0..3 * SLOTS {
            let key = Odd::new(id, census);
            match table.try_acquire_owned(&key, holder(2), TERM) {
                Ok(lease) => {
                    lease.renew(2 * TERM).unwrap();
                    assert!(refusal(table.try_acquire(&key, holder(3), TERM)).holder.is_some());
                    assert_eq!(lease.check(), Ok(lease.token()));
                    lease.release().unwrap();
                }
                Err(AcquireError::Held(_)) => drop(table.revoke(&key, leasehold::Revoke::Now)),
                Err(other) => panic!("{other}"),
            }
        }
        clock.advance(11 * SEC);
        for id in 0..4 * SLOTS {
            let key = Odd::new(1000 * (1 + round) + id, census);
            table.try_acquire(&key, holder(2), TERM).unwrap().release().unwrap();
        }
        assert!(table.len() <= 1 && table.iter().count() <= 1);
    }
}

/// A victim on key 0, of a page that has `full` of its slots in use.
fn suspended_on_key_0(op: Op, fill: u64, id: fn(u64) -> bool) {
    let census = Census::new();
    let clock = ManualClock::new();
    let table = build(&clock, |setup| setup.shards(1));
    for id in 0..fill {
        let key = Odd::new(id, &census);
        table.try_acquire(&key, holder(9), TERM).unwrap().release().unwrap();
    }
    let (victims, other_clock, births) = (table.clone(), clock.clone(), census.clone());
    let victim = move || {
        // New if the page is full, so that the victim replaces it.
        let key = Odd::new(if fill >= SLOTS { 5000 } else { 0 }, &births);
        if let Ok(lease) = victims.try_acquire(&key, holder(1), TERM) {
            assert_eq!(lease.remaining(), TERM, "its term began when it was granted");
            assert_eq!(refusal(victims.try_acquire(&key, holder(3), TERM)).token, lease.token());
            lease.release().unwrap();
        }
    };
    let (others, births) = (table.clone(), census.clone());
    while_suspended(&census, (op, id), victim, move || go_on(&others, &other_clock, &births));
    assert!(table.is_empty());
    drop(table);
    census.assert_all_gone();
}

#[test]
fn inv_44_suspended_while_hashing() {
    suspended_on_key_0(Op::Hash, 1, |id| id == 0);
}

#[test]
fn inv_44_suspended_while_comparing() {
    suspended_on_key_0(Op::Eq, SLOTS / 2, |id| id == 0);
}

#[test]
fn inv_44_suspended_while_making_the_key_its_own() {
    suspended_on_key_0(Op::Clone, 0, |id| id == 0);
}

#[test]
fn inv_44_suspended_while_replacing_a_page() {
    suspended_on_key_0(Op::Clone, SLOTS, |id| id < SLOTS);
}

#[test]
fn inv_44_suspended_while_hashing_for_a_split() {
    suspended_on_key_0(Op::Hash, SLOTS, |id| id < SLOTS);
}

#[test]
fn inv_44_suspended_while_dropping_what_was_left_behind() {
    let census = Census::new();
    let clock = ManualClock::new();
    let table = build(&clock, |setup| setup.shards(1));
    let births = census.clone();
    let (victims, victims_clock) = (table.clone(), clock.clone());
    let victim = move || {
        // Only a page's next life drops the keys of the last one.
        for id in 0..200 * SLOTS {
            let key = Odd::new(100_000 + id, &births);
            table_churn_one(&victims, &key);
            victims_clock.advance(SEC);
        }
    };
    let (others, births) = (table.clone(), census.clone());
    let dropped_by_the_table: fn(u64) -> bool = |id| id >= 100_000 && in_table_code();
    while_suspended(&census, (Op::Drop, dropped_by_the_table), victim, move || {
        go_on(&others, &clock, &births);
    });
    drop(table);
    census.assert_all_gone();
}

thread_local! {
    static IN_TABLE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether this thread is within an operation, so that what is dropped is the table's instance.
fn in_table_code() -> bool {
    IN_TABLE.get()
}

fn table_churn_one(table: &Table<Odd>, key: &Odd) {
    IN_TABLE.set(true);
    drop(table.try_acquire(key, holder(1), TERM));
    IN_TABLE.set(false);
}
