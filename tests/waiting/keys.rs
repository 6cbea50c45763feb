//! Keys whose code panics while somebody waits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use leasehold::{Causes, Revoke};

use super::common::ends::sweep_all;
use super::common::keys::{Census, OPS, Odd, Op, planned_panic};
use super::*;

type Waits<'t> =
    Vec<(u64, leasehold::Acquire<'t, Odd, leasehold::DefaultHashBuilder, ManualClock>)>;

/// Has the `n`th call of `op` from now on panic, once. The flag tells whether it did.
fn panic_at(census: &Census, op: Op, n: u64) -> Arc<AtomicU64> {
    let happened = Arc::new(AtomicU64::new(0));
    let (calls, told) = (AtomicU64::new(0), happened.clone());
    census.plan(move |happens, _| {
        if happens == op && calls.fetch_add(1, SeqCst) == n {
            told.store(1, SeqCst);
            planned_panic();
        }
    });
    happened
}

/// A little of all that waiting does: queues, hand-overs in each way, stamps that run out, a page that is replaced.
fn exercise<'t>(
    table: &'t Table<Odd>,
    clock: &ManualClock,
    census: &Arc<Census>,
    waits: &mut Waits<'t>,
) {
    let key = Odd::new(1, census);
    let lease = table.try_acquire(&key, holder(1), TERM).unwrap();
    for n in 0..4 {
        waits.push((2 + n, table.acquire_async(&key, holder(2 + n), TERM)));
    }
    for (_, wait) in &mut *waits {
        is_pending(wait);
    }
    for id in 100..100 + SLOTS {
        drop(table.try_acquire(&Odd::new(id, census), holder(9), TERM).unwrap());
    }
    drop(lease);
    drop(granted(&mut waits.remove(0).1));
    let second = granted(&mut waits.remove(0).1);
    table.revoke(&key, Revoke::Now).unwrap();
    drop(second);
    std::mem::forget(granted(&mut waits.remove(0).1));
    clock.advance(TERM + TICK);
    sweep_all(table, 10);
    let _ = (table.waiters(&key).len(), table.waiting().len(), table.deadlocks().len());
    let keys = [Odd::new(1, census), Odd::new(2, census), Odd::new(1, census)];
    let mut all = table.acquire_all_async(&keys, holder(8), TERM);
    assert!(poll(&mut all).is_pending());
    waits.clear();
    drop(granted(&mut all));
}

/// One run with a panic at one call; `false` if there are not that many calls.
fn survives(op: Op, n: u64) -> bool {
    let census = Census::new();
    let clock = ManualClock::new();
    let table: Table<Odd> =
        build(&clock, |setup| setup.shards(1).sweep_by_hand().events(Causes::ALL));
    let mut warm = Waits::new();
    // So that stamps run out in the middle, in the tiny build.
    exercise(&table, &clock, &census, &mut warm);
    let mut waits = Waits::new();
    let happened = panic_at(&census, op, n);
    let run = || exercise(&table, &clock, &census, &mut waits);
    // The sweep catches what panics there, and tries again later.
    let caught = catch_unwind(AssertUnwindSafe(run)).is_err();
    census.unplan();
    assert!(
        !caught || happened.load(SeqCst) == 1,
        "{op:?} {n}: another panic than the planned one"
    );
    // Whoever still waits is served, each in turn.
    let mut left = waits.len();
    for _ in 0..20 {
        clock.advance(2 * TERM);
        sweep_all(&table, 10);
        waits.retain_mut(|(_, wait)| poll(wait).map(Result::unwrap).is_pending());
        assert!(waits.len() <= left);
        left = waits.len();
    }
    assert_eq!(left, 0, "{op:?} {n}: {left} still wait");
    drop(waits);
    assert!(table.waiting().is_empty());
    let mut waits = Waits::new();
    exercise(&table, &clock, &census, &mut waits);
    drop((waits, warm));
    drop(table);
    census.assert_all_gone();
    happened.load(SeqCst) == 1
}

#[test]
fn inv_38_a_panic_at_any_call_of_a_keys_code_leaves_the_queue_usable() {
    for op in OPS {
        let mut n = 0;
        while survives(op, n) {
            n += 1 + n / 30;
        }
        assert!(n > 4, "{op:?}: only {n} calls");
    }
}

/// The slot's stamps are used up, and the key panics as the queue is to be carried on: all ask anew, and are
/// served.
#[test]
fn inv_38_a_queue_that_cannot_be_carried_on_is_asked_for_anew() {
    let census = Census::new();
    let clock = ManualClock::new();
    let table: Table<Odd> = build(&clock, |setup| setup.shards(1).sweep_by_hand());
    let key = Odd::new(1, &census);
    for panics_at in 0..3 {
        let mut lease = table.try_acquire(&key, holder(1), TERM).unwrap();
        while lease.token().get() & STAMP_MAX != STAMP_MAX {
            drop(lease);
            lease = table.try_acquire(&key, holder(1), TERM).unwrap();
        }
        let counts: Vec<_> = (0..3).map(|_| Count::new()).collect();
        let mut waits: Vec<_> =
            (0..3).map(|n| table.acquire_async(&key, holder(2 + n), TERM)).collect();
        for (wait, (_, waker)) in waits.iter_mut().zip(&counts) {
            assert!(poll_by(wait, waker).is_pending());
        }
        // The first clone is before the slot is buried; the next are for the new one.
        let happened = panic_at(&census, Op::Clone, panics_at);
        let caught = catch_unwind(AssertUnwindSafe(|| table.revoke(&key, Revoke::Now))).is_err();
        census.unplan();
        assert_eq!(caught, happened.load(SeqCst) == 1);
        let woken: u64 = counts.iter().map(|(count, _)| count.get()).sum();
        match (panics_at, caught) {
            // Nothing was done.
            (0, _) => assert!(caught && woken == 0 && lease.check().is_ok()),
            (_, true) => assert!(woken == 3 && lease.check().is_err(), "{panics_at}: {woken}"),
            (_, false) => assert_eq!(woken, 1),
        }
        drop(lease);
        let mut served = 0;
        for _ in 0..10 {
            waits.retain_mut(|wait| match poll(wait) {
                Poll::Pending => true,
                Poll::Ready(lease) => {
                    lease.unwrap().release().unwrap();
                    served += 1;
                    false
                }
            });
        }
        assert_eq!(served, 3);
        assert!(table.is_empty() && table.waiting().is_empty());
    }
    drop((table, key));
    census.assert_all_gone();
}

/// The lease ends in whatever moment of a call that does not wait: it is granted, at the last look if not before.
#[test]
fn inv_33_the_last_look_counts() {
    for all in [false, true] {
        for n in 0.. {
            let census = Census::new();
            let clock = ManualClock::new();
            let table: Table<Odd> = build(&clock, |setup| setup.shards(1).sweep_by_hand());
            let key = Odd::new(1, &census);
            let ended = Mutex::new(table.try_acquire_owned(&key, holder(1), TERM).ok());
            let (happens, calls) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
            let told = happens.clone();
            census.plan(move |op, _| {
                if op == Op::Hash && calls.fetch_add(1, SeqCst) == n {
                    told.store(1, SeqCst);
                    drop(ended.lock().unwrap().take());
                }
            });
            let zero = Duration::ZERO;
            let granted = if all {
                table.acquire_all_for([&key], holder(2), TERM, zero).map(drop)
            } else {
                table.acquire_for(&key, holder(2), TERM, zero).map(drop)
            };
            let happened = happens.load(SeqCst) == 1;
            assert_eq!(granted.is_ok(), happened, "{all}, {n}: {granted:?}");
            census.unplan();
            if !happened {
                assert!(n > 1, "it hashes more often");
                break;
            }
        }
    }
}

/// A claim that was made for nobody, and is made again when there is a queue whose slot was buried meanwhile: it is
/// for that queue, which is not overtaken (P14).
#[test]
fn inv_35_a_claim_that_is_made_again_is_for_those_who_wait_by_then() {
    watched(|| {
        let census = Census::new();
        let clock = ManualClock::new();
        let table: Table<Odd> = build(&clock, |setup| setup.shards(1).sweep_by_hand());
        let (tell, blocked) = mpsc::channel();
        let (resume, resumed) = mpsc::channel::<()>();
        let (tell_wait, wait) = mpsc::channel();
        let meanwhile = {
            let (table, census) = (table.clone(), census.clone());
            move || {
                let key = Odd::new(1, &census);
                let mut lease = table.try_acquire_owned(&key, holder(1), TERM).unwrap();
                while lease.token().get() & STAMP_MAX != STAMP_MAX {
                    drop(lease);
                    lease = table.try_acquire_owned(&key, holder(1), TERM).unwrap();
                }
                let mut wait = table.acquire_owned_async(&key, holder(2), TERM);
                is_pending(&mut wait);
                // Whoever carries the queue on is kept in the second clone: that for the new slot.
                let (clones, resumed) = (AtomicU64::new(0), Mutex::new(resumed));
                census.plan(move |op, _| {
                    if op == Op::Clone && clones.fetch_add(1, SeqCst) == 1 {
                        tell.send(()).unwrap();
                        let _ = resumed.lock().unwrap().recv();
                    }
                });
                let releases = std::thread::spawn(move || drop(lease));
                blocked.recv_timeout(LONG).expect("the slot is buried");
                tell_wait.send((wait, releases)).unwrap();
            }
        };
        // In the clone for the claim, after it looked for those who wait.
        let meanwhile = Mutex::new(Some(meanwhile));
        census.plan(move |op, _| {
            let run = (op == Op::Clone).then(|| meanwhile.lock().unwrap().take()).flatten();
            if let Some(run) = run {
                run();
            }
        });
        let asked = table.try_acquire(&Odd::new(1, &census), holder(9), TERM).map(drop);
        census.unplan();
        let (mut wait, releases) = wait.recv().unwrap();
        drop(resume);
        releases.join().unwrap();
        assert_eq!(refusal(asked).holder, Some(holder(2)));
        let lease: OwnedLease<Odd, _, _> = granted(&mut wait);
        assert_eq!(lease.holder(), holder(2));
    });
}

/// The term counts from the grant, not from before the keys were compared.
#[test]
fn inv_16_a_key_that_takes_its_time_does_not_shorten_the_term() {
    let census = Census::new();
    let clock = ManualClock::new();
    let table: Table<Odd> = build(&clock, |setup| setup.shards(1).sweep_by_hand());
    let key = Odd::new(1, &census);
    table.try_acquire(&key, holder(1), TERM).unwrap().release().unwrap();
    let (compared, runs_on) = (Arc::new(AtomicU64::new(0)), clock.clone());
    let told = compared.clone();
    census.plan(move |op, _| {
        if op == Op::Eq {
            told.fetch_add(1, SeqCst);
            runs_on.advance(SEC);
        }
    });
    let lease = granted(&mut table.acquire_async(&key, holder(2), TERM));
    census.unplan();
    assert!(compared.load(SeqCst) > 0);
    assert_eq!(lease.remaining(), TERM);
}

/// Each report of a resource is of one moment, also if it changes hands while the key is cloned for it.
#[test]
fn inv_38_a_key_that_meddles_with_a_report() {
    let census = Census::new();
    let clock = ManualClock::new();
    let table: Table<Odd> = build(&clock, |setup| setup.shards(1).sweep_by_hand());
    let key = Odd::new(1, &census);
    let lease = Mutex::new(table.try_acquire_owned(&key, holder(1), TERM).ok());
    let mut waits = [2, 3].map(|id| table.acquire_async(&key, holder(id), TERM));
    waits.iter_mut().for_each(is_pending);
    census.plan(move |op, _| {
        if op == Op::Clone {
            drop(lease.lock().unwrap().take());
        }
    });
    let waiting = table.waiting();
    census.unplan();
    let by: Vec<_> = waiting[0].waiters.iter().map(|waiter| waiter.holder).collect();
    assert_eq!((waiting[0].holder, by), (Some(holder(2)), vec![holder(3)]));
}
